//! Messages that are taken where they stand, because whoever waits for them knows that they are next.

use super::*;

/// A message without bytes, if it is the next thing that comes from `from`.
fn receive_now(rank: &mut Rank, from: Peer, tag: i32) -> bool {
    let envelope = Envelope { context: 1, tag };
    rank.tagged.receive_now(&mut rank.ep, from, envelope, 0, |_| ()) == Some(0)
}

#[test]
fn what_is_expected_is_taken_only_if_it_is_next() {
    run(1, &Config::default(), |mut rank| {
        let me = rank.ep.me();
        rank.send(me, 1, b"");
        rank.send(me, 2, b"");
        rank.send(me, 3, b"longer");
        assert!(!receive_now(&mut rank, me, 2), "another is before it");
        assert!(receive_now(&mut rank, me, 1) && receive_now(&mut rank, me, 2));
        assert!(!receive_now(&mut rank, me, 3), "it does not fit");
        assert_eq!(rank.receive(Some(me), Some(3), 6).1, b"longer");
        // Whoever asked before has it, with a wildcard too.
        let first = rank.start_receive(Some(me), None, 0);
        rank.send(me, 4, b"");
        rank.send(me, 4, b"");
        assert!(!receive_now(&mut rank, me, 4));
        assert_eq!(rank.finish_receive(first).0.tag, 4);
        // And what was kept meanwhile comes before what is still on its way.
        rank.send(me, 5, b"");
        assert!(!receive_now(&mut rank, me, 5));
        assert_eq!(rank.receive(Some(me), None, 0).0.tag, 4);
        assert_eq!(rank.receive(Some(me), None, 0).0.tag, 5);
    });
}

#[test]
fn messages_that_wait_and_receives_of_others_do_not_keep_anybody_from_expecting() {
    run(1, &Config::default(), |mut rank| {
        let me = rank.ep.me();
        rank.send(me, 8, b"kept");
        rank.ep.progress(&mut rank.tagged, usize::MAX);
        let other = rank.start_receive(Some(me), Some(9), 4);
        let tenth = rank.start_receive(None, Some(10), 4);
        rank.send(me, 1, b"");
        assert!(receive_now(&mut rank, me, 1), "neither of them is about it");
        rank.send(me, 10, b"");
        assert!(!receive_now(&mut rank, me, 10), "one of anybody's comes before");
        for (tag, words) in [(9, b"late"), (8, b"next")] {
            rank.send(me, tag, words);
        }
        assert_eq!(rank.finish_receive(tenth).0.tag, 10);
        assert_eq!(rank.finish_receive(other).1, b"late");
        assert!(!receive_now(&mut rank, me, 8), "an earlier one of the same kind waits");
        assert_eq!(rank.receive(Some(me), Some(8), 4).1, b"kept");
        assert_eq!(rank.receive(Some(me), Some(8), 4).1, b"next");
    });
}

/// A message in several packets of which so much of it as has come is taken where it stands; `None` if that is nothing.
fn receive_pieces_now(rank: &mut Rank, from: Peer, tag: i32, room: usize) -> Option<(Received, Memory)> {
    let (envelope, memory) = (Envelope { context: 1, tag }, Memory::private(room));
    let sink = Sink::Memory(memory.clone(), 0, room);
    rank.tagged.receive_pieces_now(&mut rank.ep, from, envelope, sink).map(|received| (received, memory))
}

#[test]
fn a_message_in_pieces_is_followed_only_if_it_is_next_and_fits() {
    const LEN: usize = 100_001;
    run(1, &Config::default(), |mut rank| {
        let (me, bytes) = (rank.ep.me(), pattern(LEN, 1));
        assert!(receive_pieces_now(&mut rank, me, 1, LEN).is_none(), "nothing has come");
        for tag in 1..=3 {
            rank.send(me, tag, &bytes);
        }
        assert!(receive_pieces_now(&mut rank, me, 2, LEN).is_none(), "another is before it");
        let first = receive_pieces_now(&mut rank, me, 1, LEN + 9).expect("it is there");
        assert!(matches!(first.0, Received::Done(_)), "all of it");
        let (status, got) = rank.finish_receive(first);
        assert_eq!((status.len, &got[..LEN]), (LEN as u64, &bytes[..]));
        assert!(receive_pieces_now(&mut rank, me, 2, LEN - 1).is_none(), "it does not fit");
        assert_eq!(rank.receive(Some(me), Some(2), LEN - 1).0.failure, Some(Failure::Truncated { over: 1 }));
        // The third was taken by `progress` meanwhile, or is still to be followed.
        let third = receive_pieces_now(&mut rank, me, 3, LEN);
        let third = third.unwrap_or_else(|| rank.start_receive(Some(me), Some(3), LEN));
        assert_eq!(rank.finish_receive(third).1, bytes);
    });
}

/// Longer than the ring takes, in one packet and in several.
#[test]
fn a_wait_leaves_long_messages_that_nobody_has_asked_for_where_they_are() {
    for len in [20_000, 100_000] {
        run(1, &Config::default(), |mut rank| {
            let (me, bytes) = (rank.ep.me(), pattern(len, 1));
            let first = rank.start_receive(Some(me), Some(1), len);
            (1..=3).for_each(|tag| rank.send(me, tag, &bytes));
            assert_eq!(rank.finish_receive(first).1, bytes);
            let kept = |rank: &Rank| {
                [2, 3]
                    .map(|tag| rank.tagged.probe(&Want { context: 1, from: None, tag: Some(tag) }).is_some())
            };
            assert_eq!(kept(&rank), [false, false], "they are not kept");
            // Whoever waits for what is behind them gets past them, and theirs are not lost.
            assert_eq!(rank.receive(Some(me), Some(3), len).1, bytes);
            assert_eq!(kept(&rank), [true, false]);
            assert_eq!(rank.receive(Some(me), Some(2), len).1, bytes);
        });
    }
}

/// A message of which only the beginning has room on its way, with others behind it: what is followed goes on as a receive like any other.
#[test]
fn what_is_followed_as_far_as_it_has_come_goes_on_as_usual() {
    const LEN: usize = 200_000;
    let config = Config { pool_bytes: Some(1 << 17), ..Config::default() };
    run(2, &config, |mut rank| {
        let (bytes, mut followed) = (pattern(LEN, 2), 0);
        for round in 0..20 {
            // Every fourth time its sender breaks off, unless all of it has gone, and its receiver is told.
            let breaks_off = round % 4 == 3;
            rank.meet();
            if rank.ep.me() == Peer(0) {
                let sent = rank.start_send(Peer(1), 1, Mode::Standard, &bytes);
                // Several at a time are no answer, so that the next long one goes through the pool.
                let behind = [0; 3].map(|_| rank.start_send(Peer(1), 2, Mode::Standard, b"behind it"));
                if let Sent::Pending(sent) = sent {
                    let broken_off = breaks_off && rank.tagged.break_off(&mut rank.ep, sent);
                    assert_eq!(rank.finish(sent).failure, broken_off.then_some(Failure::Cancelled));
                }
                behind.into_iter().for_each(|behind| rank.finish_send(behind));
            } else {
                let received = (0..1000).find_map(|_| {
                    thread::yield_now();
                    // Credit that comes before it is taken by the way.
                    assert!(!receive_now(&mut rank, Peer(0), 1), "it is no short message");
                    receive_pieces_now(&mut rank, Peer(0), 1, LEN)
                });
                followed += u32::from(received.is_some());
                let received = received.unwrap_or_else(|| rank.start_receive(Some(Peer(0)), Some(1), LEN));
                let (status, got) = rank.finish_receive(received);
                match status.failure {
                    Some(Failure::Cancelled) => assert!(breaks_off, "its sender did not"),
                    failure => assert_eq!((failure, status.len, got == bytes), (None, LEN as u64, true)),
                }
                (0..3).for_each(|_| assert_eq!(rank.receive(Some(Peer(0)), Some(2), 9).1, b"behind it"));
            }
        }
        assert!(followed > 0 || rank.ep.me() == Peer(0), "none was followed");
        rank.meet();
    });
}

/// Long messages to and fro, and short ones of a third rank's between them.
#[test]
fn messages_that_are_followed_come_whole_and_in_order() {
    const TURNS: i32 = 300;
    run_in_both_ways(3, &Config::default(), |mut rank| {
        let me = rank.ep.me().0;
        if me == 2 {
            return (0..TURNS).for_each(|tag| rank.send(Peer(0), 1000 + tag, &pattern(8, tag as u64)));
        }
        let other = Peer(1 - me);
        for turn in 0..TURNS {
            let len = 17_000 + 811 * turn as usize;
            let bytes = pattern(len, turn as u64);
            if me == 0 {
                rank.send(other, turn, &bytes);
            }
            let now = (0..100).find_map(|_| {
                thread::yield_now();
                assert!(!receive_now(&mut rank, other, turn), "it is no short message");
                receive_pieces_now(&mut rank, other, turn, len)
            });
            let received = now.unwrap_or_else(|| rank.start_receive(Some(other), Some(turn), len));
            let (status, got) = rank.finish_receive(received);
            assert_eq!((status.len, status.failure, got == bytes), (len as u64, None, true), "turn {turn}");
            if me == 1 {
                rank.send(other, turn, &bytes);
            }
        }
        let sent = rank.ep.peer_stats(other).sent;
        assert!(
            sent < 4 * TURNS as u64,
            "{sent} packets: they answer each other, so each goes by the shuttle, in one"
        );
        for tag in 0..if me == 0 { TURNS } else { 0 } {
            assert_eq!(rank.receive(Some(Peer(2)), None, 8).1, pattern(8, tag as u64));
        }
    });
}

/// One message or several, short or long, in turn: by the shuttle, through the ring or the pool, or offered.
#[test]
fn messages_keep_their_order_whichever_way_they_go() {
    const LENGTHS: [usize; 9] = [8, 70_000, 0, 17_000, 3000, 250_000, 100, 270_000, 16_000];
    run(2, &Config::default(), |mut rank| {
        let (other, mut tag) = (Peer(1 - rank.ep.me().0), 0);
        for round in 0..400 {
            let lengths = (0..1 + round * 7 % 4).map(|at| LENGTHS[(round + at) % LENGTHS.len()]);
            if round % 2 == rank.ep.me().0 as usize {
                let sent: Vec<Sent> = (tag..)
                    .zip(lengths.clone())
                    .map(|(tag, len)| rank.start_send(other, tag, Mode::Standard, &pattern(len, tag as u64)))
                    .collect();
                sent.into_iter().for_each(|sent| rank.finish_send(sent));
                tag += lengths.count() as i32;
            } else {
                for len in lengths {
                    let (status, got) = rank.receive(Some(other), None, len);
                    let is_right = got == pattern(len, tag as u64);
                    assert_eq!((status.tag, status.len, is_right), (tag, len as u64, true), "round {round}");
                    tag += 1;
                }
            }
        }
        rank.meet();
    });
}

#[test]
fn who_expects_one_message_after_the_other_lets_the_others_have_their_turn() {
    run(1, &Config::default(), |mut rank| {
        let me = rank.ep.me();
        (0..40).for_each(|tag| rank.send(me, tag, b""));
        let got: Vec<bool> = (0..34)
            .scan(0, |tag, _| {
                let got = receive_now(&mut rank, me, *tag);
                *tag += i32::from(got);
                Some(got)
            })
            .collect();
        assert_eq!(got.iter().position(|got| !got), Some(16));
        assert_eq!(got.iter().filter(|got| **got).count(), 32);
    });
    // A third rank's messages are kept, in order, while two others play, which take theirs either way.
    run(3, &Config::default(), |mut rank| {
        const TURNS: i32 = 2000;
        let me = rank.ep.me().0;
        if me == 2 {
            return (0..TURNS).for_each(|tag| rank.send(Peer(0), tag, &pattern(8, tag as u64)));
        }
        let (other, mut now) = (Peer(1 - me), 0);
        for turn in 0..TURNS {
            if me == 0 {
                rank.send(other, turn, b"");
            }
            let taken = receive_now(&mut rank, other, turn);
            now += u32::from(taken);
            if !taken {
                assert_eq!(rank.receive(Some(other), Some(turn), 0).0.len, 0);
            }
            if me == 1 {
                rank.send(other, turn, b"");
            }
        }
        if me == 0 {
            for tag in 0..TURNS {
                assert_eq!(
                    rank.receive(Some(Peer(2)), None, 8),
                    (Status { from: Peer(2), tag, len: 8, failure: None }, pattern(8, tag as u64))
                );
            }
        }
        assert!(now < TURNS as u32, "now and then all have their turn");
    });
}
