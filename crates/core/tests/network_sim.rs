//! Seeded simulation of whole endpoints: whatever the network does, everything between the living arrives once and in order,
//! nothing hangs, and only what needed the dead fails.
//!
//! A failure prints `SEED=0x…`; `BAREWIRE_SEED=0x… cargo test -p barewire-core --test network_sim` replays that seed alone.

mod world;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use barewire_core::sim::{Network, SimConfig};
use barewire_core::time::Nanos;
use barewire_core::{Deliver, Endpoint, Flow, Ignore, Incoming, Peer, PeerState, Port, SendError, WaitError};
use world::{Disaster, World};

#[test]
fn bad_networks_lose_nothing_and_keep_order() {
    for_seeds(5000, |seed| run(seed, Disaster::None));
}

#[test]
fn links_that_are_cut_for_a_while_cost_nothing_but_time() {
    for_seeds(2000, |seed| run(seed, Disaster::Cuts));
}

#[test]
fn a_crash_fails_only_what_needs_the_dead() {
    for_seeds(2000, |seed| run(seed, Disaster::Crash));
}

#[test]
fn a_restarted_endpoint_is_not_taken_for_the_dead_one() {
    for_seeds(1000, |seed| run(seed, Disaster::Restart));
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_another() {
    let trace = |seed, disaster| {
        let mut world = World::new(seed, disaster);
        world.run();
        (world.trace, world.network.stats(), world.network.now())
    };
    for disaster in [Disaster::None, Disaster::Cuts, Disaster::Crash, Disaster::Restart] {
        assert_eq!(trace(7, disaster), trace(7, disaster));
        assert_ne!(trace(7, disaster), trace(8, disaster));
    }
}

#[test]
fn the_seeds_reach_every_fault_and_the_victims_are_missed() {
    let (mut retransmitted, mut failed, mut told) = (0, 0, 0);
    let mut faults = [0; 5];
    for seed in 0..100 {
        let mut world = World::new(seed, Disaster::Crash);
        world.run();
        retransmitted += world.retransmitted();
        failed += world.nodes.iter().map(|node| node.app.failed.len()).sum::<usize>();
        told += world.nodes.iter().map(|node| node.app.lost.len()).sum::<usize>();
        let stats = world.network.stats();
        let counts = [stats.lost, stats.duplicated, stats.reordered, stats.corrupted, stats.truncated];
        faults.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    assert!(faults.iter().all(|&count| count > 100), "{faults:?}");
    assert!(retransmitted > 100 && failed > 20 && told > 20, "{retransmitted} {failed} {told}");
}

fn run(seed: u64, disaster: Disaster) {
    let mut world = World::new(seed, disaster);
    world.run();
    world.check();
}

/// Runs `test` for so many seeds, or for the one in `BAREWIRE_SEED`, and says which one failed.
fn for_seeds(count: u64, test: impl Fn(u64)) {
    let chosen = std::env::var("BAREWIRE_SEED").ok().map(|text| {
        let digits = text.trim_start_matches("0x");
        u64::from_str_radix(digits, 16).expect("BAREWIRE_SEED is a hexadecimal number")
    });
    let seeds = chosen.map_or(0..count, |seed| seed..seed + 1);
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            eprintln!("SEED=0x{seed:x}");
            resume_unwind(panic);
        }
    }
}

#[test]
fn four_thousand_endpoints_talk_to_a_few_others_each() {
    const SIZE: u32 = 4096;
    let network = Network::new(SIZE, SimConfig { seed: 3, ..SimConfig::default() }.lossy(0.02)).unwrap();
    let mut endpoints = network.endpoints().unwrap();
    let mut got = vec![0u64; SIZE as usize];
    let targets = |rank: u32| [1, 63, 1000, 2047].map(|step| Peer((rank + step) % SIZE));
    for rank in 0..SIZE {
        for to in targets(rank) {
            endpoints[rank as usize].send(to, Port(0), u64::from(rank), &[5; 100]).unwrap();
        }
    }
    while let Some(event) = network.step() {
        let at = event.peer.0 as usize;
        let sum = &mut |_: &mut Endpoint, packet: Incoming<'_>| {
            assert_eq!(packet.imm, u64::from(packet.from.0));
            got[at] += packet.imm + 1;
            Flow::Continue
        };
        endpoints[at].progress(sum, usize::MAX);
    }
    let mut expected = vec![0; SIZE as usize];
    for rank in 0..SIZE {
        targets(rank).iter().for_each(|to| expected[to.0 as usize] += u64::from(rank) + 1);
    }
    assert!(got == expected, "every endpoint heard from the right ones, once");
    assert!(network.stats().lost > 100, "though datagrams got lost");
}

fn two() -> (Network, Endpoint, Endpoint) {
    let network = Network::new(2, SimConfig::default()).unwrap();
    let mut endpoints = network.endpoints().unwrap().into_iter();
    (network, endpoints.next().unwrap(), endpoints.next().unwrap())
}

#[test]
fn a_wait_in_virtual_time_moves_the_clock_when_it_is_its_turn() {
    let (network, mut a, mut b) = two();
    let second = Some(Duration::from_secs(1));
    assert_eq!(a.wait(&mut Ignore, None, |_, _| false), Err(WaitError::Never));
    assert_eq!(a.wait(&mut Ignore, second, |_, _| false), Err(WaitError::TimedOut));
    assert_eq!(network.now(), Nanos::SECOND, "the wait took its time, but none of ours");
    a.send(Peer(1), Port(0), 9, b"").unwrap();
    assert_eq!(a.wait(&mut Ignore, second, |_, _| false), Err(WaitError::NotOurTurn(Peer(1))));
    // The two go on by turns until the message is there.
    let mut seen = Seen::default();
    for turns in 0.. {
        match b.wait(&mut seen, second, |_, seen| !seen.0.is_empty()) {
            Ok(()) => break,
            Err(error) => assert_eq!(error, WaitError::NotOurTurn(Peer(0))),
        }
        assert_eq!(a.wait(&mut Ignore, second, |_, _| false), Err(WaitError::NotOurTurn(Peer(1))));
        assert!(turns < 100);
    }
    assert_eq!(seen.0, [9]);
}

/// Notes immediates.
#[derive(Default)]
struct Seen(Vec<u64>);

impl Deliver for Seen {
    fn deliver(&mut self, _: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        self.0.push(packet.imm);
        Flow::Continue
    }
}

#[test]
fn an_endpoint_sends_to_itself_too() {
    let (_network, mut a, _b) = two();
    a.send(Peer(0), Port(3), 4, b"me").unwrap();
    let mut seen = Vec::new();
    a.progress(
        &mut |_: &mut Endpoint, mut packet: Incoming<'_>| {
            seen.push((packet.from, packet.imm, packet.to_vec()));
            Flow::Continue
        },
        usize::MAX,
    );
    assert_eq!(seen, [(Peer(0), 4, b"me".to_vec())]);
}

#[test]
fn an_endpoint_that_leaves_is_told_and_one_that_crashes_is_found_out() {
    for crashes in [false, true] {
        let (network, mut a, mut b) = two();
        let settle = |a: &mut Endpoint, b: &mut Option<Endpoint>| {
            while let Some(event) = network.step() {
                match (event.peer, &mut *b) {
                    (Peer(0), _) => a.progress(&mut Ignore, usize::MAX),
                    (_, Some(b)) => b.progress(&mut Ignore, usize::MAX),
                    (_, None) => 0,
                };
            }
        };
        b.send(Peer(0), Port(0), 0, b"hello").unwrap();
        let mut b = Some(b);
        settle(&mut a, &mut b);
        if crashes {
            network.crash(Peer(1));
        }
        b = None;
        settle(&mut a, &mut b);
        if crashes {
            assert_eq!(a.peer_state(Peer(1)), PeerState::Connected, "nobody has asked");
            a.send(Peer(1), Port(0), 0, b"still there?").unwrap();
            settle(&mut a, &mut b);
            assert_eq!(a.peer_state(Peer(1)), PeerState::Lost("it does not answer".to_owned()));
        } else {
            assert_eq!(a.peer_state(Peer(1)), PeerState::Left);
        }
        assert_eq!(a.send(Peer(1), Port(0), 0, b""), Err(SendError::Lost(Peer(1))));
    }
}

#[test]
fn a_restarted_endpoint_is_met_again_by_whoever_forgets_the_dead_one() {
    let (network, mut a, b) = two();
    let mut b = Some(b);
    let settle = |a: &mut Endpoint, b: &mut Option<Endpoint>| {
        let mut seen = Seen::default();
        while let Some(event) = network.step() {
            match (event.peer, &mut *b) {
                (Peer(0), _) => a.progress(&mut seen, usize::MAX),
                (_, Some(b)) => b.progress(&mut seen, usize::MAX),
                (_, None) => 0,
            };
        }
        seen.0
    };
    a.send(Peer(1), Port(0), 1, b"").unwrap();
    assert_eq!(settle(&mut a, &mut b), [1]);
    network.crash(Peer(1));
    b = Some(network.endpoint(Peer(1)).unwrap());
    a.send(Peer(1), Port(0), 2, b"").unwrap();
    assert_eq!(settle(&mut a, &mut b), [], "meant for the dead one");
    assert_eq!(a.peer_state(Peer(1)), PeerState::Lost("it was started anew".to_owned()));
    assert!(a.forget(Peer(1)));
    a.send(Peer(1), Port(0), 3, b"").unwrap();
    b.as_mut().unwrap().send(Peer(0), Port(0), 4, b"").unwrap();
    let mut seen = settle(&mut a, &mut b);
    seen.sort();
    assert_eq!(seen, [3, 4]);
}

#[test]
fn on_a_good_network_nothing_is_sent_twice() {
    let (network, mut a, mut b) = two();
    for round in 0..50 {
        a.send(Peer(1), Port(0), round, b"to and").unwrap();
        b.send(Peer(0), Port(0), round, b"fro").unwrap();
        while let Some(event) = network.step() {
            match event.peer {
                Peer(0) => a.progress(&mut Ignore, usize::MAX),
                _ => b.progress(&mut Ignore, usize::MAX),
            };
        }
    }
    assert_eq!((a.stats().retransmitted, b.stats().retransmitted), (0, 0));
}
