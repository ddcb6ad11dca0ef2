//! One endpoint for several threads.

use std::thread;
use std::time::Duration;

use barewire_core::job::Job;
use barewire_core::shared::Shared;
use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

/// Counts messages by immediate.
#[derive(Default)]
struct Count([u64; 4]);

impl Deliver for Count {
    fn deliver(&mut self, _: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        self.0[packet.imm as usize] += 1;
        Flow::Continue
    }
}

fn pair(config: &Config) -> [Shared<Count>; 2] {
    let mut jobs = Job::threads(2).unwrap().into_iter();
    [(); 2].map(|()| {
        Shared::new(Endpoint::open(jobs.next().unwrap(), config.clone()).unwrap(), Count::default()).unwrap()
    })
}

fn send(shared: &Shared<Count>, to: Peer, imm: u64) {
    while let Err(error) = shared.with(|endpoint, _| endpoint.send(to, Port(1), imm, b"x")) {
        assert_eq!(error, SendError::Full);
        shared.progress(usize::MAX);
    }
}

#[test]
fn four_threads_wait_each_for_its_own_messages() {
    for yield_for in [Duration::from_millis(2), Duration::ZERO] {
        let [a, b] = pair(&Config { yield_for, ..Config::default() });
        const ROUNDS: u64 = 200;
        thread::scope(|scope| {
            for imm in 0..4 {
                let (a, b) = (&a, &b);
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        send(a, Peer(1), imm);
                        a.wait(PATIENCE, |_, count| count.0[imm as usize] >= round).unwrap();
                    }
                });
                scope.spawn(move || {
                    for round in 1..=ROUNDS {
                        b.wait(PATIENCE, |_, count| count.0[imm as usize] >= round).unwrap();
                        send(b, Peer(0), imm);
                    }
                });
            }
        });
    }
}

#[test]
fn a_progress_thread_takes_messages_while_the_owner_computes() {
    let [a, b] = pair(&Config { yield_for: Duration::ZERO, ..Config::default() });
    let progress = b.progress_thread().unwrap();
    for _ in 0..5000 {
        send(&a, Peer(1), 0);
    }
    let mut looks = 0;
    while b.with(|_, count| count.0[0]) < 5000 {
        thread::sleep(Duration::from_millis(1));
        looks += 1;
        assert!(looks < 20_000, "the progress thread does its work");
    }
    drop(progress);
}
