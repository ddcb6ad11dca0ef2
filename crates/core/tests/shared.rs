//! One endpoint for several threads.

use std::thread;
use std::time::Duration;

use barewire_core::job::Job;
use barewire_core::shared::Shared;
use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError};
use barewire_sys::cpu::{allowed_cpus, pin_to};

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

/// One of two who give and take in turn, rank 0 first. Sends, if told to, or looks: then says how much has come, and whether it found nothing. Gives
/// how often it looked in vain.
fn take_turns(me: Peer, mut step: impl FnMut(bool) -> (u64, bool)) -> u64 {
    let mut in_vain = 0;
    for turn in 1..=TURNS {
        if me == Peer(0) {
            step(true);
        }
        loop {
            let (came, vain) = step(false);
            // At first there is a connection to be made.
            in_vain += u64::from(vain && turn > 1);
            if came >= turn {
                break;
            }
        }
        if me == Peer(1) {
            step(true);
        }
    }
    in_vain
}

const TURNS: u64 = 300;

/// Runs both on one processor: whoever looks and never yields keeps the other from answering for a time slice, which is many thousands of looks.
fn on_one_processor<E: Send + 'static>(
    ends: impl FnOnce() -> Vec<E> + Send + 'static,
    side: fn(&mut E) -> u64,
) {
    let looks = thread::spawn(move || {
        pin_to(allowed_cpus()[0]).unwrap();
        let mut ends = ends();
        thread::scope(|scope| {
            let sides: Vec<_> = ends.iter_mut().map(|end| scope.spawn(move || side(end))).collect();
            sides.into_iter().map(|side| side.join().unwrap()).sum::<u64>()
        })
    });
    let looks = looks.join().unwrap();
    assert!(looks < TURNS * 1000, "{looks} looks in vain");
}

#[test]
fn who_looks_in_vain_lets_the_other_run() {
    let ends = || pair(&Config::default()).into();
    on_one_processor(ends, |mine: &mut Shared<Count>| {
        let me = mine.with(|endpoint, _| endpoint.me());
        take_turns(me, |sends| {
            if sends {
                send(mine, Peer(1 - me.0), 0);
            }
            let taken = mine.progress(usize::MAX);
            mine.looked(taken);
            (mine.with(|_, count| count.0[0]), taken == 0)
        })
    });
}

#[test]
fn who_waits_lets_the_other_run() {
    // Nobody sleeps, which would let the other run too.
    let ends = || pair(&Config { yield_for: Duration::from_secs(20), ..Config::default() }).into();
    on_one_processor(ends, |mine: &mut Shared<Count>| {
        let me = mine.with(|endpoint, _| endpoint.me());
        let mut looks = 0;
        for turn in 1..=TURNS {
            if me == Peer(0) {
                send(mine, Peer(1), 0);
            }
            let here = |_: &mut Endpoint, count: &mut Count| {
                looks += u64::from(turn > 1);
                count.0[0] >= turn
            };
            mine.wait(PATIENCE, here).unwrap();
            if me == Peer(1) {
                send(mine, Peer(0), 0);
            }
        }
        looks
    });
}

#[test]
fn an_endpoint_that_looks_in_vain_lets_the_other_run() {
    let ends = || {
        let open = |job| Endpoint::open(job, Config::default()).unwrap();
        Job::threads(2).unwrap().into_iter().map(open).collect()
    };
    on_one_processor(ends, |mine: &mut Endpoint| {
        let (me, mut count) = (mine.me(), Count::default());
        take_turns(me, |sends| {
            while sends && mine.send(Peer(1 - me.0), Port(1), 0, b"x") == Err(SendError::Full) {
                mine.progress(&mut count, usize::MAX);
            }
            let taken = mine.progress(&mut count, usize::MAX);
            mine.looked(taken);
            (count.0[0], taken == 0)
        })
    });
}
