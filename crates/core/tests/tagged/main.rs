//! What holds for tagged messages: matched in order, of any length, in bounded memory.

mod expected;

use std::thread;
use std::time::Duration;

use barewire_core::job::Job;
use barewire_core::region::{Key, Memory, Rights, Who};
use barewire_core::tagged::{
    Envelope, Exported, Failure, Mode, Received, Request, Scatter, Sent, Sink, Source, Status, Tagged, Want,
};
use barewire_core::{Config, Endpoint, Incoming, Peer, PeerState, Port, SendError};
use barewire_sys::wirebuf::{Places, WireRef};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(300));

struct Rank {
    ep: Endpoint,
    tagged: Tagged,
}

/// [`run`] with buffers that are sent, and with buffers that neighbours may fetch from.
fn run_in_both_ways(size: u32, config: &Config, body: impl Fn(Rank) + Sync) {
    run(size, config, &body);
    run(size, config, |mut rank| {
        rank.tagged.show_buffers();
        body(rank);
    });
}

fn run(size: u32, config: &Config, body: impl Fn(Rank) + Sync) {
    thread::scope(|scope| {
        for job in Job::threads(size).unwrap() {
            let (body, config) = (&body, config.clone());
            scope.spawn(move || {
                let ep = Endpoint::open(job, config).unwrap();
                let tagged = Tagged::new(&ep);
                body(Rank { ep, tagged });
            });
        }
    });
}

fn pattern(len: usize, salt: u64) -> Vec<u8> {
    (0..len).map(|i| (i as u64 * 31 + salt * 7 + (i as u64 >> 8)) as u8).collect()
}

impl Rank {
    fn start_send(&mut self, to: Peer, tag: i32, mode: Mode, bytes: &[u8]) -> Sent {
        let memory = Memory::private(bytes.len());
        assert!(memory.write(0, bytes));
        let envelope = Envelope { context: 1, tag };
        self.tagged
            .send(&mut self.ep, to, envelope, mode, bytes.len() as u64, Source::Memory(memory, 0))
            .unwrap()
    }

    fn finish_send(&mut self, sent: Sent) {
        if let Sent::Pending(request) = sent {
            assert_eq!(self.finish(request).failure, None);
        }
    }

    fn send(&mut self, to: Peer, tag: i32, bytes: &[u8]) {
        let sent = self.start_send(to, tag, Mode::Standard, bytes);
        self.finish_send(sent);
    }

    fn start_receive(&mut self, from: Option<Peer>, tag: Option<i32>, room: usize) -> (Received, Memory) {
        let memory = Memory::private(room);
        let want = Want { context: 1, from, tag };
        (self.tagged.receive(&mut self.ep, want, Sink::Memory(memory.clone(), 0, room)), memory)
    }

    fn finish(&mut self, request: Request) -> Status {
        self.ep.wait(&mut self.tagged, PATIENCE, |ep, t| t.advance(ep) && t.is_done(request)).unwrap();
        self.tagged.take(request).unwrap()
    }

    fn finish_receive(&mut self, (received, memory): (Received, Memory)) -> (Status, Vec<u8>) {
        let status = match received {
            Received::Done(status) => status,
            Received::Pending(request) => self.finish(request),
        };
        let mut bytes = vec![0; (status.len as usize).min(memory.len())];
        assert!(memory.read(0, &mut bytes));
        (status, bytes)
    }

    fn receive(&mut self, from: Option<Peer>, tag: Option<i32>, room: usize) -> (Status, Vec<u8>) {
        let started = self.start_receive(from, tag, room);
        self.finish_receive(started)
    }

    /// Both sides are through with what came before.
    fn meet(&mut self) {
        let other = Peer(1 - self.ep.me().0);
        self.send(other, 999_999, b"");
        self.receive(Some(other), Some(999_999), 0);
    }
}

/// So often that whichever way is the faster has been found.
const OFTEN: u64 = 150;

#[test]
fn messages_of_some_length_meet_head_on() {
    run_in_both_ways(2, &Config::default(), |mut rank| {
        let (me, other) = (u64::from(rank.ep.me().0), Peer(1 - rank.ep.me().0));
        for round in 0..OFTEN {
            for len in [20_000, 65_536, 262_144] {
                let salt = round * 10 + len as u64;
                rank.send(other, 1, &pattern(len, salt + me));
                let (status, got) = rank.receive(Some(other), Some(1), len);
                assert_eq!((status.len, status.failure), (len as u64, None));
                assert!(got == pattern(len, salt + 1 - me), "{len} bytes, round {round}");
            }
        }
        rank.meet();
    });
}

#[test]
fn what_nobody_has_asked_for_comes_in_order_however_it_comes() {
    run_in_both_ways(2, &Config::default(), |mut rank| {
        let other = Peer(1 - rank.ep.me().0);
        let lens = |round: u64| [40_000, 3, 200_000, 70_000].map(|len: usize| len + round as usize);
        for round in 0..OFTEN {
            if rank.ep.me() == Peer(0) {
                let sent =
                    lens(round).map(|len| rank.start_send(other, 5, Mode::Standard, &pattern(len, round)));
                sent.into_iter().for_each(|sent| rank.finish_send(sent));
                rank.receive(Some(other), Some(6), 0);
            } else {
                // All of them wait before the first is asked for, in some rounds long enough to be taken meanwhile.
                let (from, tag) = (Some(other), Some(5));
                let since = std::time::Instant::now();
                while since.elapsed() < Duration::from_micros(round % 3 * 30) {
                    rank.ep.progress(&mut rank.tagged, usize::MAX);
                    rank.tagged.advance(&mut rank.ep);
                }
                for len in lens(round) {
                    let (status, got) = rank.receive(from, tag, 300_000);
                    assert_eq!((status.len, status.failure), (len as u64, None), "round {round}");
                    assert!(got == pattern(len, round), "{len} bytes, round {round}");
                }
                rank.send(other, 6, b"");
            }
        }
        rank.meet();
    });
}

const LENGTHS: [usize; 9] = [0, 1, 8, 1000, 4096, 16 << 10, (16 << 10) + 1, 200_000, 3_000_001];

#[test]
fn messages_of_every_length_arrive_posted_or_not_in_either_mode() {
    run_in_both_ways(2, &Config::default(), |mut rank| {
        let other = Peer(1 - rank.ep.me().0);
        for mode in [Mode::Standard, Mode::Synchronous] {
            for posted_first in [true, false] {
                for (i, len) in LENGTHS.into_iter().enumerate() {
                    let (tag, bytes) = (i as i32, pattern(len, i as u64));
                    if rank.ep.me() == Peer(0) {
                        if posted_first {
                            rank.receive(Some(other), Some(500), 0);
                        }
                        let sent = rank.start_send(other, tag, mode, &bytes);
                        rank.finish_send(sent);
                    } else {
                        let receive = if posted_first {
                            let receive = rank.start_receive(Some(other), Some(tag), len);
                            rank.send(other, 500, b"");
                            receive
                        } else {
                            thread::sleep(Duration::from_millis(1));
                            rank.start_receive(Some(other), Some(tag), len)
                        };
                        let (status, got) = rank.finish_receive(receive);
                        assert_eq!(status, Status { from: other, tag, len: len as u64, failure: None });
                        assert!(got == bytes, "{len} bytes, {mode:?}, posted first: {posted_first}");
                    }
                }
            }
        }
        rank.meet();
    });
}

#[test]
fn messages_do_not_overtake_whatever_their_length() {
    run_in_both_ways(2, &Config::default(), |mut rank| {
        let other = Peer(1 - rank.ep.me().0);
        let length = |i: usize| [8, 50_000, 0, 17_000, 300][i % 5];
        if rank.ep.me() == Peer(0) {
            let sends: Vec<Sent> = (0..200)
                .map(|i| rank.start_send(other, 3, Mode::Standard, &pattern(length(i), i as u64)))
                .collect();
            sends.into_iter().for_each(|sent| rank.finish_send(sent));
        } else {
            for i in 0..200 {
                // Every other one by wildcard: the order is the same.
                let (from, tag) = if i % 2 == 0 { (Some(other), Some(3)) } else { (None, None) };
                let (_, got) = rank.receive(from, tag, 60_000);
                assert!(got == pattern(length(i), i as u64), "message {i}");
            }
        }
        rank.meet();
    });
}

#[test]
fn a_flood_nobody_asked_for_is_kept_in_bounded_memory() {
    const MESSAGES: u64 = 200_000;
    // What both ranks have is counted, and an address sanitizer holds on to what is freed.
    let config = Config { credit_bytes: 1 << 18, ..Config::default() };
    run(2, &config, |mut rank| {
        let other = Peer(1 - rank.ep.me().0);
        if rank.ep.me() == Peer(0) {
            for i in 0..MESSAGES {
                rank.send(other, 1, &i.to_le_bytes());
            }
        } else {
            thread::sleep(Duration::from_millis(100));
            // Somebody else's message can be asked for in the middle of the flood.
            let before = resident_bytes();
            for _ in 0..1000 {
                rank.ep.progress(&mut rank.tagged, usize::MAX);
            }
            let grown = resident_bytes().saturating_sub(before);
            assert!(grown < 16 << 20, "{grown} bytes for messages nobody asked for");
            for i in 0..MESSAGES {
                let (_, got) = rank.receive(Some(other), Some(1), 8);
                assert_eq!(got, i.to_le_bytes());
            }
        }
        rank.meet();
    });
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_message_behind_a_flood_can_be_asked_for_first() {
    run(2, &Config { credit_bytes: 1 << 16, ..Config::default() }, |mut rank| {
        let other = Peer(1 - rank.ep.me().0);
        if rank.ep.me() == Peer(0) {
            let mut sends: Vec<Sent> =
                (0..5000).map(|_| rank.start_send(other, 1, Mode::Standard, &[7; 100])).collect();
            sends.push(rank.start_send(other, 2, Mode::Standard, b"urgent"));
            sends.into_iter().for_each(|sent| rank.finish_send(sent));
        } else {
            assert_eq!(rank.receive(Some(other), Some(2), 100).1, b"urgent");
            (0..5000).for_each(|_| assert_eq!(rank.receive(Some(other), Some(1), 100).1, [7; 100]));
        }
        rank.meet();
    });
}

#[test]
fn too_long_a_message_says_by_how_much_and_spills_nothing() {
    run_in_both_ways(2, &Config::default(), |mut rank| {
        let other = Peer(1 - rank.ep.me().0);
        for len in [100, 20_000, 1_000_000] {
            let bytes = pattern(len, 1);
            if rank.ep.me() == Peer(0) {
                rank.send(other, 5, &bytes);
            } else {
                let memory = Memory::private(200);
                let want = Want { context: 1, from: Some(other), tag: Some(5) };
                let received = rank.tagged.receive(&mut rank.ep, want, Sink::Memory(memory.clone(), 50, 60));
                let (status, _) = rank.finish_receive((received, Memory::private(0)));
                assert_eq!(status.failure, Some(Failure::Truncated { over: len as u64 - 60 }));
                let mut seen = [0; 200];
                assert!(memory.read(0, &mut seen));
                assert_eq!(seen[50..110], bytes[..60]);
                assert!(
                    seen[..50].iter().chain(&seen[110..]).all(|&b| b == 0),
                    "only the receive's place is touched"
                );
            }
        }
        rank.meet();
    });
}

#[test]
fn probe_sees_claim_takes_and_cancel_withdraws() {
    run_in_both_ways(2, &Config::default(), |mut rank| {
        let other = Peer(1 - rank.ep.me().0);
        if rank.ep.me() == Peer(0) {
            rank.send(other, 1, b"first");
            rank.send(other, 1, b"second");
            rank.receive(Some(other), Some(2), 0);
        } else {
            let want = Want { context: 1, from: None, tag: Some(1) };
            rank.ep.wait(&mut rank.tagged, PATIENCE, |_, t| t.probe(&want).is_some()).unwrap();
            assert_eq!(rank.tagged.probe(&want).unwrap().len, 5);
            let first = rank.tagged.claim(&want).unwrap();
            assert_eq!(
                rank.receive(None, Some(1), 10).1,
                b"second",
                "what was claimed is out of the matching"
            );
            let memory = Memory::private(10);
            let received =
                rank.tagged.receive_matched(&mut rank.ep, first, Sink::Memory(memory.clone(), 0, 10));
            assert_eq!(rank.finish_receive((received, memory)).1, b"first");

            let (Received::Pending(never), _) = rank.start_receive(Some(other), Some(77), 10) else {
                panic!()
            };
            assert!(rank.tagged.cancel(&mut rank.ep, never));
            assert!(!rank.tagged.cancel(&mut rank.ep, never), "only once");
            assert_eq!(rank.tagged.take(never).unwrap().failure, Some(Failure::Cancelled));
            rank.send(other, 2, b"");
        }
        rank.meet();
    });
}

#[test]
fn a_lost_peer_fails_what_needs_it_and_nothing_else() {
    run_in_both_ways(3, &Config::default(), |mut rank| match rank.ep.me() {
        Peer(0) => {
            let (from_one, _) = rank.start_receive(Some(Peer(1)), Some(8), 8);
            let from_two = rank.start_receive(Some(Peer(2)), Some(8), 8);
            let Received::Pending(from_one) = from_one else { panic!() };
            rank.receive(Some(Peer(1)), Some(1), 0);
            assert_eq!(rank.finish(from_one).failure, Some(Failure::Lost(Peer(1))));
            rank.send(Peer(2), 1, b"");
            assert_eq!(rank.finish_receive(from_two).1, b"alive");
        }
        Peer(1) => rank.send(Peer(0), 1, b""),
        _ => {
            rank.receive(Some(Peer(0)), Some(1), 0);
            rank.send(Peer(0), 8, b"alive");
        }
    });
}

#[test]
fn a_receive_that_comes_after_the_loss_fails_as_well() {
    run(2, &Config::default(), |mut rank| match rank.ep.me() {
        Peer(0) => {
            let left = |ep: &mut Endpoint, _: &mut Tagged| ep.peer_state(Peer(1)) == PeerState::Left;
            rank.ep.wait(&mut rank.tagged, PATIENCE, left).unwrap();
            let lost = Some(Failure::Lost(Peer(1)));
            assert_eq!(
                rank.receive(Some(Peer(1)), Some(1), 100).0.failure,
                None,
                "what came before is there"
            );
            assert_eq!(rank.receive(Some(Peer(1)), Some(2), 1 << 20).0.failure, lost, "an offer and no more");
            assert_eq!(rank.receive(Some(Peer(1)), Some(3), 100).0.failure, lost, "nothing at all");
        }
        _ => {
            rank.send(Peer(0), 1, b"whole");
            rank.start_send(Peer(0), 2, Mode::Synchronous, &pattern(1 << 20, 1));
        }
    });
}

#[test]
fn ten_thousand_receives_are_matched_in_reverse() {
    const RECEIVES: i32 = 10_000;
    run(2, &Config::default(), |mut rank| {
        let other = Peer(1 - rank.ep.me().0);
        if rank.ep.me() == Peer(0) {
            rank.receive(Some(other), Some(RECEIVES), 0);
            (0..RECEIVES).rev().for_each(|tag| rank.send(other, tag, &tag.to_le_bytes()));
        } else {
            let receives: Vec<_> =
                (0..RECEIVES).map(|tag| rank.start_receive(Some(other), Some(tag), 4)).collect();
            rank.send(other, RECEIVES, b"");
            for (tag, receive) in receives.into_iter().enumerate() {
                assert_eq!(rank.finish_receive(receive).1, (tag as i32).to_le_bytes());
            }
        }
        rank.meet();
    });
}

/// Whoever sends on although its credit is used up, instead of offering, is not one of ours.
#[test]
fn a_sender_that_ignores_its_credit_is_lost_before_it_fills_the_memory() {
    let config = Config { credit_bytes: 64 << 10, ..Config::default() };
    run(2, &config, |mut rank| {
        const EAGER: Port = Port(0xfff0);
        let other = Peer(1 - rank.ep.me().0);
        if rank.ep.me() == Peer(1) {
            let mut sent: u64 = 0;
            let error = loop {
                match rank.ep.send(other, EAGER, sent, &[7; 1000]) {
                    Ok(()) => sent += 1,
                    Err(SendError::Full) => {
                        rank.ep.progress(&mut rank.tagged, usize::MAX);
                        thread::yield_now();
                    }
                    Err(error) => break error,
                }
            };
            assert_eq!(error, SendError::Lost(other));
            // Four times the credit, and what was on its way.
            assert!(sent < 5 * 64 + 64, "{sent} kilobytes were taken");
        } else {
            rank.ep
                .wait(&mut rank.tagged, PATIENCE, |ep, _| matches!(ep.peer_state(other), PeerState::Lost(_)))
                .unwrap();
            let want = Want { context: 0, from: Some(other), tag: Some(0) };
            assert!(rank.tagged.probe(&want).is_some(), "what it sent in time is still there");
        }
    });
}

/// Chunks of the pool come back from peers who are done with them, though nothing more is sent to those.
#[test]
fn long_packets_to_many_peers_do_not_use_up_the_pool() {
    let config = Config { pool_bytes: Some(1 << 16), ..Config::default() };
    run(80, &config, |mut rank| {
        let bytes = pattern(8000, 1);
        if rank.ep.me() == Peer(0) {
            for to in 1..80 {
                (0..2).for_each(|_| rank.send(Peer(to), 1, &bytes));
                rank.receive(Some(Peer(to)), Some(2), 0);
            }
            // Nobody leaves before, and leaves its chunks to others.
            (1..80).for_each(|to| rank.send(Peer(to), 3, b""));
        } else {
            for _ in 0..2 {
                let (status, got) = rank.receive(Some(Peer(0)), Some(1), 8000);
                assert_eq!((status.len, &got), (8000, &bytes));
            }
            rank.send(Peer(0), 2, b"");
            rank.receive(Some(Peer(0)), Some(3), 0);
        }
    });
}

/// A receive into places that do not lie together.
#[derive(Debug)]
struct Pieces(Vec<Memory>);

impl Scatter for Pieces {
    fn capacity(&self) -> u64 {
        self.0.iter().map(|piece| piece.len() as u64).sum()
    }

    fn scatter(&mut self, offset: u64, packet: &mut Incoming<'_>, len: usize) {
        let mut places = Vec::new();
        self.each(offset, len, |memory, at, n| places.push((memory.clone(), at, n)));
        for (memory, at, n) in places {
            memory.wire_mut(at, n).map(|mut place| packet.read_to(&mut place));
        }
    }

    fn scatter_kept(&mut self, offset: u64, bytes: &[u8]) {
        self.scatter(offset, &mut Incoming::new(Peer(0), Port(0), 0, WireRef::new(bytes)), bytes.len());
    }

    fn place<'a>(&'a mut self, offset: u64, len: usize, places: &mut Places<'a>) {
        self.each(offset, len, |memory, at, n| {
            memory.wire_mut(at, n).map(|place| places.push(place));
        });
    }
}

impl Pieces {
    fn each<'a>(&'a self, offset: u64, len: usize, mut with: impl FnMut(&'a Memory, usize, usize)) {
        let (mut at, mut left) = (offset as usize, len);
        for memory in &self.0 {
            let n = memory.len().saturating_sub(at).min(left);
            if n > 0 {
                with(memory, at, n);
            }
            (at, left) = (at.saturating_sub(memory.len()), left - n);
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let read = |memory: &Memory| {
            let mut bytes = vec![0; memory.len()];
            assert!(memory.read(0, &mut bytes));
            bytes
        };
        self.0.iter().flat_map(read).collect()
    }
}

#[test]
fn long_messages_go_straight_into_their_places_however_many() {
    for shm in [false, true] {
        run_in_both_ways(2, &Config { shm, ..Config::default() }, |mut rank| {
            for round in 0..12u64 {
                let len = [70_000, 300_000, 3_000_000][round as usize % 3];
                if rank.ep.me() == Peer(0) {
                    rank.send(Peer(1), 1, &pattern(len, round));
                    rank.send(Peer(1), 2, b"short");
                    rank.send(Peer(1), 3, &pattern(60_000, round));
                    continue;
                }
                // More than fit at a time, some of them short, and now and then fewer than the message needs.
                let room = if round % 4 == 3 { len - 5000 } else { len };
                let mut pieces: Vec<Memory> = (0..9).map(|at| Memory::private(at * 1000 + 7)).collect();
                pieces.push(Memory::private(room - 36_063));
                let kept = Pieces(pieces.clone());
                let want = Want { context: 1, from: Some(Peer(0)), tag: Some(1) };
                let sink = Sink::Scatter(Box::new(Pieces(pieces)));
                let status = match rank.tagged.receive(&mut rank.ep, want, sink) {
                    Received::Done(status) => status,
                    Received::Pending(request) => rank.finish(request),
                };
                let over = (len - room) as u64;
                assert_eq!(status.failure, (over > 0).then_some(Failure::Truncated { over }));
                assert!(kept.bytes() == pattern(len, round)[..room], "round {round}, {len} bytes");
                assert_eq!(rank.receive(Some(Peer(0)), Some(2), 9).1, b"short");
                assert!(rank.receive(Some(Peer(0)), Some(3), 60_000).1 == pattern(60_000, round));
            }
            rank.meet();
        });
    }
}

fn exported(memory: &Memory, at: usize, key: Key) -> Source {
    Source::Gather(Box::new(Exported { memory: memory.clone(), at, key }))
}

#[test]
fn exported_memory_is_copied_by_its_receiver_and_not_sent() {
    const LEN: usize = 1 << 20;
    run(2, &Config::default(), |mut rank| {
        let (sender, receiver) = (Peer(0), Peer(1));
        let memory = Memory::shared(LEN + 100).unwrap();
        let key = rank.ep.export(&memory, Rights::READ, Who::Anyone).unwrap();
        for round in 0..20 {
            if rank.ep.me() == receiver {
                let (status, bytes) = rank.receive(Some(sender), Some(1), LEN);
                assert_eq!(status.failure, None);
                assert!(bytes == pattern(LEN, round));
                rank.send(sender, 2, b"");
                continue;
            }
            assert!(memory.write(100, &pattern(LEN, round)));
            let before = rank.ep.stats().sent_bytes;
            let (envelope, source) = (Envelope { context: 1, tag: 1 }, exported(&memory, 100, key));
            let sent = rank
                .tagged
                .send(&mut rank.ep, receiver, envelope, Mode::Standard, LEN as u64, source)
                .unwrap();
            rank.finish_send(sent);
            rank.receive(Some(receiver), Some(2), 0);
            let sent = rank.ep.stats().sent_bytes - before;
            // The receiver asks for the memory when it is first offered some, or when it is connected.
            assert!(round < 4 || sent < 1000, "in round {round} {sent} bytes were sent");
        }
        rank.meet();
    });
}

#[test]
fn what_is_broken_off_is_copied_by_nobody() {
    const LEN: usize = 1 << 20;
    run(2, &Config::default(), |mut rank| {
        let (sender, receiver) = (Peer(0), Peer(1));
        let memory = Memory::shared(LEN).unwrap();
        for round in 0..6 {
            if rank.ep.me() == receiver {
                // Every second time the receive is there only when the message has been broken off.
                if round % 2 == 0 {
                    assert_eq!(rank.receive(Some(sender), Some(1), LEN).0.failure, None);
                }
                rank.meet();
                if round % 2 == 1 {
                    let status = rank.receive(Some(sender), Some(1), LEN).0;
                    assert_eq!(status.failure, Some(Failure::Cancelled));
                }
                rank.meet();
                continue;
            }
            let key = rank.ep.export(&memory, Rights::READ, Who::Anyone).unwrap();
            let (envelope, source) = (Envelope { context: 1, tag: 1 }, exported(&memory, 0, key));
            let sent = rank
                .tagged
                .send(&mut rank.ep, receiver, envelope, Mode::Standard, LEN as u64, source)
                .unwrap();
            let Sent::Pending(request) = sent else { panic!("it is too long for that") };
            if round % 2 == 0 {
                rank.finish_send(sent);
            } else {
                assert!(rank.tagged.break_off(&mut rank.ep, request));
                assert_eq!(rank.finish(request).failure, Some(Failure::Cancelled));
                assert!(!rank.ep.is_exported(key), "who maps it now finds nothing");
            }
            rank.meet();
            rank.meet();
        }
    });
}
