//! One suite for every provider: what holds for messages and regions, whatever the wire.

use std::thread;
use std::time::Duration;

use barewire_core::job::Job;
use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError};

/// Runs `body` once for each of `size` endpoints, each on a thread of its own.
fn run(size: u32, config: &Config, body: impl Fn(Endpoint) + Sync) {
    let jobs = Job::threads(size).unwrap();
    thread::scope(|scope| {
        for job in jobs {
            let (body, config) = (&body, config.clone());
            scope.spawn(move || body(Endpoint::open(job, config).unwrap()));
        }
    });
}

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

fn send(ep: &mut Endpoint, d: &mut impl Deliver, to: Peer, imm: u64, bytes: &[u8]) {
    loop {
        match ep.send(to, Port(1), imm, bytes) {
            Ok(()) => return,
            Err(SendError::Full) => {
                ep.progress(d, usize::MAX);
            }
            Err(e) => panic!("{e}"),
        }
    }
}

#[derive(Default)]
struct Collect {
    got: Vec<(Peer, u64, Vec<u8>)>,
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

#[test]
fn messages_of_a_pair_arrive_in_order_and_once() {
    run(2, &Config::default(), |mut ep| {
        let other = Peer(1 - ep.me().0);
        let mut d = Collect::default();
        for i in 0..20_000u64 {
            send(&mut ep, &mut d, other, i, &pattern((i % 200) as usize, i));
        }
        ep.wait(&mut d, PATIENCE, |_, d| d.got.len() >= 20_000).unwrap();
        for (i, (from, imm, bytes)) in d.got.iter().take(20_000).enumerate() {
            assert_eq!((*from, *imm), (other, i as u64));
            assert_eq!(*bytes, pattern(i % 200, i as u64));
        }
        // Do not leave before the other has everything.
        send(&mut ep, &mut d, other, 1 << 40, b"");
        ep.wait(&mut d, PATIENCE, |_, d| d.got.len() == 20_001).unwrap();
    });
}

#[test]
fn long_messages_of_every_length_arrive_whole() {
    run(2, &Config::default(), |mut ep| {
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
                        ep.progress(&mut d, usize::MAX);
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

#[test]
fn a_sender_asleep_for_want_of_room_is_woken_when_there_is_some() {
    run(2, &Config { yield_for: Duration::ZERO, watchdog: Duration::ZERO, ..Config::default() }, |mut ep| {
        let other = Peer(1 - ep.me().0);
        let mut d = Collect::default();
        const MESSAGES: u64 = 3000;
        if ep.me() == Peer(0) {
            let mut next = 0;
            // Every wait for room goes straight to sleep.
            ep.wait(&mut d, PATIENCE, |ep, _| {
                while next < MESSAGES {
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
            while (d.got.len() as u64) < MESSAGES {
                thread::sleep(Duration::from_micros(300));
                ep.progress(&mut d, 20_000);
            }
            send(&mut ep, &mut d, other, 0, b"");
        }
    });
}

#[test]
fn a_receiver_asleep_is_woken_by_a_message() {
    run(2, &Config { yield_for: Duration::ZERO, ..Config::default() }, |mut ep| {
        let other = Peer(1 - ep.me().0);
        let mut d = Collect::default();
        for round in 0..300 {
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

#[test]
fn a_held_frame_stops_its_sender_and_nobody_else() {
    run(3, &Config::default(), |mut ep| {
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
                    ep.peer_stats(Peer(2)).received >= 5000 && ep.peer_stats(Peer(1)).received >= 50
                })
                .unwrap();
                for _ in 0..10_000 {
                    ep.progress(&mut hold, usize::MAX);
                }
                assert_eq!(others, 5000);
                assert!(frames.len() < 600, "credit ran out: {} frames are held", frames.len());
                let mut next = 0u64;
                while next < 5000 {
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
                (0..5000).for_each(|i| send(&mut ep, &mut d, Peer(0), i, &[1; 100]));
                ep.wait(&mut d, PATIENCE, |_, d| !d.got.is_empty()).unwrap();
            }
        }
    });
}
