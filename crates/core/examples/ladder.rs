//! The first rungs: one cache line between two processors, and an 8-byte message over a ring, in one interleaved run.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use barewire_core::job::Job;
use barewire_core::{Config, Endpoint, Flow, Incoming, Peer, Port, SendError};
use barewire_sys::rustix::thread::{CpuSet, sched_setaffinity};

const ROUNDS: usize = 15;
const TRIPS: u64 = 100_000;

#[repr(align(128))]
struct Line(AtomicU64);
static PING: Line = Line(AtomicU64::new(0));
static PONG: Line = Line(AtomicU64::new(0));

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

fn main() {
    let jobs = Job::threads(2).unwrap();
    let barrier = Barrier::new(2);
    let results: Vec<Vec<(f64, f64, f64)>> = std::thread::scope(|scope| {
        let handles: Vec<_> = jobs
            .into_iter()
            .map(|job| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let me = job.rank as usize;
                    pin(me);
                    let mut ep = Endpoint::open(job, Config::default()).unwrap();
                    let mut base = 0;
                    (0..ROUNDS)
                        .map(|_| {
                            barrier.wait();
                            let line = cache_line(me, &mut base);
                            barrier.wait();
                            let message = ping_pong(&mut ep, me);
                            barrier.wait();
                            let rate = rate(&mut ep, me);
                            (line, message, rate)
                        })
                        .collect()
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    });
    let rounds = &results[0];
    let median = |f: fn(&(f64, f64, f64)) -> f64| {
        let mut v: Vec<f64> = rounds.iter().map(f).collect();
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    println!("cache line, one way   {:7.1} ns", median(|r| r.0));
    println!("message 8 B, one way  {:7.1} ns   {:.2} x the line", median(|r| r.1), median(|r| r.1 / r.0));
    println!("message 8 B, each     {:7.1} ns   {:.1} M/s", median(|r| r.2), 1e3 / median(|r| r.2));
}

fn cache_line(me: usize, base: &mut u64) -> f64 {
    let start = Instant::now();
    for i in *base + 1..=*base + TRIPS {
        if me == 0 {
            PING.0.store(i, Ordering::Release);
            while PONG.0.load(Ordering::Acquire) != i {}
        } else {
            while PING.0.load(Ordering::Acquire) != i {}
            PONG.0.store(i, Ordering::Release);
        }
    }
    *base += TRIPS;
    start.elapsed().as_nanos() as f64 / TRIPS as f64 / 2.0
}

fn ping_pong(ep: &mut Endpoint, me: usize) -> f64 {
    let other = Peer(1 - me as u32);
    let start = Instant::now();
    let mut got = 0u64;
    for i in 1..=TRIPS {
        if me == 0 {
            put(ep, other, i);
        }
        while got < i {
            ep.progress(
                &mut |_: &mut Endpoint, mut p: Incoming<'_>| {
                    got = p.read_u64().unwrap();
                    Flow::Continue
                },
                usize::MAX,
            );
        }
        if me == 1 {
            put(ep, other, i);
        }
    }
    start.elapsed().as_nanos() as f64 / TRIPS as f64 / 2.0
}

fn rate(ep: &mut Endpoint, me: usize) -> f64 {
    const MESSAGES: u64 = 2_000_000;
    let other = Peer(1 - me as u32);
    let start = Instant::now();
    if me == 0 {
        for i in 1..=MESSAGES {
            put(ep, other, i);
        }
    }
    let mut got = 0u64;
    let want = if me == 0 { 1 } else { MESSAGES };
    while got < want {
        ep.progress(
            &mut |_: &mut Endpoint, mut p: Incoming<'_>| {
                got = p.read_u64().unwrap();
                Flow::Continue
            },
            usize::MAX,
        );
    }
    if me == 1 {
        put(ep, other, 1);
    }
    start.elapsed().as_nanos() as f64 / MESSAGES as f64
}

#[inline(always)]
fn put(ep: &mut Endpoint, to: Peer, value: u64) {
    loop {
        match ep.send_with(to, Port(1), 0, 8, |wire| wire.write_u64(value)) {
            Ok(()) => return,
            Err(SendError::Full) => std::hint::spin_loop(),
            Err(error) => panic!("{error}"),
        }
    }
}
