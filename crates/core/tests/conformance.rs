//! One suite for every provider: what holds for messages and regions, whatever the wire.
//!
//! Each property is a function of the wires it runs over; `for_every_wire!` makes a test of it for each.

#[macro_use]
mod wires;

use std::thread;
use std::time::Duration;

use barewire_core::{Deliver, Endpoint, Flow, Frame, Incoming, Peer, PeerState, Port, SendError};
use wires::{PATIENCE, Wires};

for_every_wire! {
    messages_of_a_pair_arrive_in_order_and_once
    answers_and_streams_keep_their_order
    long_messages_of_every_length_arrive_whole
    long_messages_side_by_side_do_not_mix
    everybody_talks_to_everybody
    a_held_frame_holds_its_credit_and_dropping_it_returns_it
    request_and_reply_go_on_with_the_least_credit
    a_peer_that_leaves_is_told_once_and_after_all_it_sent
    a_sleeper_is_woken
    a_budget_takes_about_so_much_and_the_rest_later
    a_sender_asleep_for_want_of_room_is_woken_when_there_is_some
    a_receiver_asleep_is_woken_by_a_message
    a_held_frame_stops_its_sender_and_nobody_else
}

fn send(ep: &mut Endpoint, d: &mut impl Deliver, to: Peer, imm: u64, bytes: &[u8]) {
    loop {
        match ep.send(to, Port(1), imm, bytes) {
            Ok(()) => return,
            Err(SendError::Full) => make_room(ep, d),
            Err(e) => panic!("{e}"),
        }
    }
}

/// Makes progress, and lets the other side do so if there is nothing to do here.
fn make_room(ep: &mut Endpoint, d: &mut impl Deliver) {
    if ep.progress(d, usize::MAX) == 0 {
        thread::yield_now();
    }
}

#[derive(Default)]
struct Collect {
    got: Vec<(Peer, u64, Vec<u8>)>,
}

impl Collect {
    /// From how many peers at least `each` messages have come.
    fn whole(&self, each: usize) -> usize {
        let count = |peer| self.got.iter().filter(|(from, ..)| *from == peer).count();
        (0..64).map(Peer).filter(|&peer| count(peer) >= each).count()
    }
}

impl Deliver for Collect {
    fn deliver(&mut self, _: &mut Endpoint, mut p: Incoming<'_>) -> Flow {
        if p.is_first() {
            self.got.push((p.from, p.imm, p.to_vec()));
        } else {
            let (from, imm) = (p.from, p.imm);
            let bytes = p.to_vec();
            let open = self.got.iter_mut().find(|(f, i, _)| (*f, *i) == (from, imm)).unwrap();
            open.2.extend(bytes);
        }
        Flow::Continue
    }
}

fn pattern(len: usize, salt: u64) -> Vec<u8> {
    (0..len).map(|i| (i as u64 * 31 + salt * 7 + (i as u64 >> 8)) as u8).collect()
}

fn messages_of_a_pair_arrive_in_order_and_once(wires: &Wires) {
    let count = wires.times(20_000);
    wires.run(2, |mut ep| {
        let other = Peer(1 - ep.me().0);
        let mut d = Collect::default();
        for i in 0..count {
            send(&mut ep, &mut d, other, i, &pattern((i % 200) as usize, i));
        }
        ep.wait(&mut d, PATIENCE, |_, d| d.got.len() >= count as usize).unwrap();
        for (i, (from, imm, bytes)) in d.got.iter().take(count as usize).enumerate() {
            assert_eq!((*from, *imm), (other, i as u64));
            assert_eq!(*bytes, pattern(i % 200, i as u64));
        }
        // Do not leave before the other has everything.
        send(&mut ep, &mut d, other, 1 << 40, b"");
        ep.wait(&mut d, PATIENCE, |_, d| d.got.len() as u64 == count + 1).unwrap();
    });
}

/// Checks that messages come in order, and keeps some of them for a while.
#[derive(Default)]
struct Ordered {
    got: u64,
    kept: Vec<Frame>,
}

/// The length of a pair's message number `i`.
fn length(i: u64) -> usize {
    const LENGTHS: [usize; 9] = [8, 48, 0, 49, 1000, 8, 3000, 10_000, 16_000];
    LENGTHS[(i * 5 + i / 11) as usize % LENGTHS.len()]
}

impl Deliver for Ordered {
    fn deliver(&mut self, ep: &mut Endpoint, mut p: Incoming<'_>) -> Flow {
        assert_eq!((p.imm, p.total), (self.got, length(p.imm).min(ep.message_max(p.from)) as u64));
        self.got += 1;
        let expected = pattern(p.total as usize, p.imm);
        if p.imm % 5 == 0 {
            let frame = p.hold();
            assert_eq!(frame.bytes(), expected);
            self.kept.push(frame);
        } else {
            assert_eq!(p.to_vec(), expected);
        }
        Flow::Continue
    }
}

fn answers_and_streams_keep_their_order(wires: &Wires) {
    let rounds = wires.times(3000);
    wires.run(2, |mut ep| {
        let (me, other) = (ep.me(), Peer(1 - ep.me().0));
        let (mut d, mut sent) = (Ordered::default(), [0; 2]);
        // So that both know what fits.
        send(&mut ep, &mut d, other, 0, &pattern(length(0), 0));
        sent = sent.map(|sent| sent + 1);
        ep.wait(&mut d, PATIENCE, |_, d| d.got >= 1).unwrap();
        for round in 0..rounds {
            // Mostly one message for one, sometimes a few, and now and then a stream.
            let count = if round % 97 == 50 { 100 } else { 1 + u64::from(round % 7 == 3) * 3 };
            let sender = Peer(round as u32 % 2);
            for i in sent[sender.0 as usize]..sent[sender.0 as usize] + count {
                if me == sender {
                    let len = length(i).min(ep.message_max(other));
                    send(&mut ep, &mut d, other, i, &pattern(len, i));
                }
            }
            sent[sender.0 as usize] += count;
            if me != sender {
                ep.wait(&mut d, PATIENCE, |_, d| {
                    d.kept.drain(..d.kept.len().saturating_sub(3));
                    d.got >= sent[sender.0 as usize]
                })
                .unwrap();
            }
        }
        d.kept.clear();
        ep.wait(&mut d, PATIENCE, |_, d| d.got == sent[other.0 as usize]).unwrap();
        ep.flush();
    });
}

fn long_messages_of_every_length_arrive_whole(wires: &Wires) {
    wires.run(2, |mut ep| {
        let other = Peer(1 - ep.me().0);
        let mut d = Collect::default();
        let lengths = [0usize, 1, 47, 48, 49, 4096, 4097, 32 << 10, (32 << 10) + 1, 1_000_003];
        for (i, &len) in lengths.iter().enumerate() {
            let data = pattern(len, i as u64);
            let mut sending = ep.begin(other, Port(2), i as u64, len as u64).unwrap();
            while !sending.is_done() {
                let at = sending.sent() as usize;
                match ep.push(&mut sending, &data[at..]) {
                    Ok(_) => {}
                    Err(SendError::Full) => {
                        make_room(&mut ep, &mut d);
                    }
                    Err(e) => panic!("{e}"),
                }
            }
        }
        let whole = |d: &Collect| {
            d.got.len() >= lengths.len() && d.got.iter().zip(lengths).all(|(g, len)| g.2.len() == len)
        };
        ep.wait(&mut d, PATIENCE, |_, d| whole(d)).unwrap();
        for (i, &len) in lengths.iter().enumerate() {
            assert_eq!(d.got[i].2, pattern(len, i as u64), "length {len}");
        }
        send(&mut ep, &mut d, other, 99, b"");
        ep.wait(&mut d, PATIENCE, |_, d| d.got.len() == lengths.len() + 1).unwrap();
    });
}

fn long_messages_side_by_side_do_not_mix(wires: &Wires) {
    const LEN: usize = 300_000;
    wires.run(2, |mut ep| {
        let other = Peer(1 - ep.me().0);
        let mut d = Collect::default();
        let data: Vec<_> = (0..5).map(|i| pattern(LEN, i)).collect();
        let mut sendings: Vec<_> = (0..5).map(|i| ep.begin(other, Port(2), i, LEN as u64).unwrap()).collect();
        while sendings.iter().any(|sending| !sending.is_done()) {
            for (sending, data) in sendings.iter_mut().zip(&data) {
                // A little of each at a time, so that they interleave.
                let at = sending.sent() as usize;
                match ep.push(sending, &data[at..(at + 10_000).min(LEN)]) {
                    Ok(_) | Err(SendError::Full) => {}
                    Err(e) => panic!("{e}"),
                }
            }
            make_room(&mut ep, &mut d);
        }
        ep.wait(&mut d, PATIENCE, |_, d| {
            d.got.len() >= 5 && d.got.iter().take(5).all(|got| got.2.len() == LEN)
        })
        .unwrap();
        for (_, i, bytes) in &d.got[..5] {
            assert_eq!(*bytes, data[*i as usize]);
        }
        send(&mut ep, &mut d, other, 99, b"");
        ep.wait(&mut d, PATIENCE, |_, d| d.got.len() == 6).unwrap();
    });
}

fn everybody_talks_to_everybody(wires: &Wires) {
    const SIZE: u32 = 7;
    let each = wires.times(300) as usize;
    wires.run(SIZE, |mut ep| {
        let mut d = Collect::default();
        let me = ep.me();
        for i in 0..each as u64 {
            for to in (0..SIZE).map(Peer) {
                send(&mut ep, &mut d, to, i, &pattern(i as usize * 3, u64::from(me.0)));
            }
        }
        ep.wait(&mut d, PATIENCE, |_, d| d.whole(each) >= SIZE as usize).unwrap();
        for from in (0..SIZE).map(Peer) {
            let theirs = d.got.iter().filter(|(f, ..)| *f == from).take(each);
            assert!(theirs.clone().map(|(_, imm, _)| *imm).eq(0..each as u64), "in order, from {from}");
            theirs.for_each(|(_, i, bytes)| assert_eq!(*bytes, pattern(*i as usize * 3, u64::from(from.0))));
            assert!(ep.wire_choice(from).is_some());
        }
        for to in (0..SIZE).map(Peer) {
            send(&mut ep, &mut d, to, 1 << 40, b"");
        }
        ep.wait(&mut d, PATIENCE, |_, d| d.got.len() == (each + 1) * SIZE as usize).unwrap();
    });
}

/// Keeps everything, unread.
#[derive(Default)]
struct Keep {
    frames: Vec<Frame>,
    lost: Vec<Peer>,
}

impl Deliver for Keep {
    fn deliver(&mut self, _: &mut Endpoint, p: Incoming<'_>) -> Flow {
        self.frames.push(p.hold());
        Flow::Continue
    }

    fn peer_lost(&mut self, _: &mut Endpoint, peer: Peer) {
        self.lost.push(peer);
    }
}

fn a_held_frame_holds_its_credit_and_dropping_it_returns_it(wires: &Wires) {
    let wires = wires.with(|config| config.credit_bytes = 100_000);
    const MESSAGES: u64 = 500;
    wires.run(2, |mut ep| {
        let other = Peer(1 - ep.me().0);
        let mut d = Keep::default();
        if ep.me() == Peer(0) {
            let (mut sent, mut stalled) = (0, false);
            while sent < MESSAGES {
                match ep.send(other, Port(1), sent, &[7; 1000]) {
                    Ok(()) => sent += 1,
                    Err(SendError::Full) => {
                        stalled = true;
                        make_room(&mut ep, &mut d);
                    }
                    Err(e) => panic!("{e}"),
                }
            }
            assert!(stalled, "a receiver that keeps everything stops its sender");
            ep.wait(&mut d, PATIENCE, |_, d| d.frames.len() == 1).unwrap();
        } else {
            let mut taken = 0;
            while taken < MESSAGES {
                // Falls quiet only when the sender has stopped, because everything it may have on its way is held here.
                let mut quiet = 0;
                while quiet < 100 && taken + (d.frames.len() as u64) < MESSAGES {
                    quiet = if ep.progress(&mut d, usize::MAX) > 0 { 0 } else { quiet + 1 };
                    thread::yield_now();
                }
                assert!(d.frames.len() <= 150, "{} frames of 1000 B for 100 kB of credit", d.frames.len());
                for frame in d.frames.drain(..) {
                    assert_eq!((frame.imm, frame.bytes()), (taken, &[7; 1000][..]));
                    taken += 1;
                }
            }
            send(&mut ep, &mut d, other, 0, b"");
            let _ = ep.wait(&mut d, PATIENCE, |_, d| d.lost.contains(&other));
        }
    });
}

/// Answers requests, which come to port 1, and counts answers, which come to port 2.
#[derive(Default)]
struct Answer {
    requests: u64,
    answers: u64,
}

impl Deliver for Answer {
    fn deliver(&mut self, ep: &mut Endpoint, mut p: Incoming<'_>) -> Flow {
        if p.port == Port(1) {
            let bytes = p.to_vec();
            ep.reply(p.from, Port(2), p.imm, &bytes).unwrap();
            self.requests += 1;
        } else {
            assert_eq!(p.to_vec(), pattern((p.imm % 900) as usize, p.imm));
            self.answers += 1;
        }
        Flow::Continue
    }
}

fn request_and_reply_go_on_with_the_least_credit(wires: &Wires) {
    let requests = wires.times(1000);
    let wires = wires.with(|config| (config.credit_bytes, config.ring_bytes) = (1, Some(4096)));
    wires.run(2, |mut ep| {
        let other = Peer(1 - ep.me().0);
        let mut d = Answer::default();
        for i in 0..requests {
            // At most a few answers are owed to us at a time: that is the requester's part of the bargain.
            ep.wait(&mut d, PATIENCE, |_, d| i - d.answers < 4).unwrap();
            send(&mut ep, &mut d, other, i, &pattern((i % 900) as usize, i));
        }
        ep.wait(&mut d, PATIENCE, |_, d| d.answers == requests && d.requests == requests).unwrap();
        ep.flush();
    });
}

fn a_peer_that_leaves_is_told_once_and_after_all_it_sent(wires: &Wires) {
    wires.run(3, |mut ep| {
        let mut d = Keep::default();
        if ep.me() == Peer(2) {
            // One line each: whoever keeps them all keeps half a ring.
            for i in 0..100 {
                for to in [Peer(0), Peer(1)] {
                    send(&mut ep, &mut d, to, i, &pattern(40, i));
                }
            }
            return;
        }
        let other = Peer(1 - ep.me().0);
        ep.wait(&mut d, PATIENCE, |_, d| !d.lost.is_empty()).unwrap();
        let from = |d: &Keep, peer| d.frames.iter().filter(|frame| frame.from == peer).count();
        assert_eq!((from(&d, Peer(2)), &d.lost[..]), (100, &[Peer(2)][..]));
        assert_eq!(ep.peer_state(Peer(2)), PeerState::Left);
        assert_eq!(ep.send(Peer(2), Port(1), 0, b"?"), Err(SendError::Lost(Peer(2))));
        // The others are not concerned.
        send(&mut ep, &mut d, other, 7, b"still here");
        ep.wait(&mut d, PATIENCE, |_, d| from(d, other) >= 1).unwrap();
        send(&mut ep, &mut d, other, 8, b"bye");
        ep.wait(&mut d, PATIENCE, |_, d| from(d, other) == 2).unwrap();
        assert_eq!(d.lost.iter().filter(|&&lost| lost == Peer(2)).count(), 1);
    });
}

fn a_sleeper_is_woken(wires: &Wires) {
    let wires = wires.with(|config| config.yield_for = Duration::ZERO);
    wires.run(2, |mut ep| {
        let other = Peer(1 - ep.me().0);
        let mut d = Collect::default();
        for i in 0..20u64 {
            if i % 2 == u64::from(ep.me().0) {
                // Time enough for the other to fall asleep.
                thread::sleep(Duration::from_millis(3));
                send(&mut ep, &mut d, other, i, &pattern(60 * i as usize, i));
                ep.flush();
            } else {
                let n = d.got.len();
                ep.wait(&mut d, PATIENCE, |_, d| d.got.len() > n).unwrap();
            }
        }
        send(&mut ep, &mut d, other, 99, b"");
        ep.wait(&mut d, PATIENCE, |_, d| d.got.iter().any(|got| got.1 == 99)).unwrap();
        assert_eq!(d.got.len(), 11);
    });
}

fn a_budget_takes_about_so_much_and_the_rest_later(wires: &Wires) {
    wires.run(2, |mut ep| {
        let other = Peer(1 - ep.me().0);
        let mut d = Collect::default();
        for i in 0..50 {
            ep.wait(&mut d, PATIENCE, |ep, _| ep.send(other, Port(1), i, &[1; 100]).is_ok()).unwrap();
        }
        ep.flush();
        let before = d.got.len();
        while d.got.len() < 50 {
            let n = d.got.len();
            ep.progress(&mut d, 250);
            assert!(d.got.len() - n <= 3, "250 bytes of budget took {} packets of 100", d.got.len() - n);
        }
        assert!(before <= 50);
        send(&mut ep, &mut d, other, 99, b"");
        ep.wait(&mut d, PATIENCE, |_, d| d.got.len() == 51).unwrap();
    });
}

fn a_sender_asleep_for_want_of_room_is_woken_when_there_is_some(wires: &Wires) {
    let count = wires.times(3000);
    let wires = wires.with(|config| {
        (config.yield_for, config.watchdog, config.credit_bytes) = (Duration::ZERO, Duration::ZERO, 30_000);
    });
    wires.run(2, |mut ep| {
        let other = Peer(1 - ep.me().0);
        let mut d = Collect::default();
        if ep.me() == Peer(0) {
            let mut next = 0;
            // Every wait for room goes straight to sleep.
            ep.wait(&mut d, PATIENCE, |ep, _| {
                while next < count {
                    match ep.send(other, Port(1), next, &[0; 500]) {
                        Ok(()) => next += 1,
                        Err(SendError::Full) => return false,
                        Err(e) => panic!("{e}"),
                    }
                }
                true
            })
            .unwrap();
            ep.wait(&mut d, PATIENCE, |_, d| !d.got.is_empty()).unwrap();
        } else {
            while (d.got.len() as u64) < count {
                thread::sleep(Duration::from_micros(300));
                ep.progress(&mut d, 20_000);
            }
            send(&mut ep, &mut d, other, 0, b"");
        }
    });
}

fn a_receiver_asleep_is_woken_by_a_message(wires: &Wires) {
    let rounds = wires.times(300);
    let wires = wires.with(|config| config.yield_for = Duration::ZERO);
    wires.run(2, |mut ep| {
        let other = Peer(1 - ep.me().0);
        let mut d = Collect::default();
        for round in 0..rounds {
            if ep.me() == Peer(0) {
                if round % 10 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
                send(&mut ep, &mut d, other, round, b"ping");
            }
            ep.wait(&mut d, PATIENCE, |_, d| d.got.len() as u64 > round).unwrap();
            if ep.me() == Peer(1) {
                send(&mut ep, &mut d, other, round, b"pong");
            }
        }
    });
}

fn a_held_frame_stops_its_sender_and_nobody_else(wires: &Wires) {
    let count = wires.times(5000).max(1000);
    let wires = wires.with(|config| config.credit_bytes = 50_000);
    wires.run(3, |mut ep| {
        let mut d = Collect::default();
        match ep.me() {
            Peer(0) => {
                let mut frames = Vec::new();
                let mut others = 0;
                // Keeps everything of rank 1, takes everything of rank 2.
                let mut hold = |_: &mut Endpoint, p: Incoming<'_>| {
                    match p.from {
                        Peer(1) => frames.push(p.hold()),
                        _ => others += 1,
                    }
                    Flow::Continue
                };
                ep.wait(&mut hold, PATIENCE, |ep, _| {
                    ep.peer_stats(Peer(2)).received >= count && ep.peer_stats(Peer(1)).received >= 50
                })
                .unwrap();
                for _ in 0..10_000 {
                    ep.progress(&mut hold, usize::MAX);
                }
                assert_eq!(others, count);
                assert!(frames.len() < 600, "credit ran out: {} frames are held", frames.len());
                let mut next = 0u64;
                while next < count {
                    // Dropping frames gives the credit back; all the rest arrives, in order.
                    for frame in frames.drain(..) {
                        assert_eq!(frame.imm, next);
                        next += 1;
                    }
                    ep.progress(
                        &mut |_: &mut Endpoint, p: Incoming<'_>| {
                            frames.push(p.hold());
                            Flow::Continue
                        },
                        usize::MAX,
                    );
                    thread::yield_now();
                }
                send(&mut ep, &mut d, Peer(1), 0, b"");
                send(&mut ep, &mut d, Peer(2), 0, b"");
            }
            _ => {
                (0..count).for_each(|i| send(&mut ep, &mut d, Peer(0), i, &[1; 100]));
                ep.wait(&mut d, PATIENCE, |_, d| !d.got.is_empty()).unwrap();
            }
        }
    });
}
