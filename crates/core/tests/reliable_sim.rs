//! Seeded simulation of the reliable filter: whatever the wire does, every packet arrives once and in order.
//!
//! A failure prints `SEED=0x…`; `BAREWIRE_SEED=0x… cargo test -p barewire-core --test reliable_sim` replays
//! that seed alone.

mod sim;

use barewire_core::filter::fault::{Fault, FaultConfig, SplitMix64};
use barewire_core::filter::reliable::{DeadReason, Reliable, ReliableConfig, State};
use barewire_core::time::Nanos;
use sim::{Event, Node, Sim, Stream};

#[test]
fn every_packet_arrives_once_and_in_order_over_ten_thousand_bad_wires() {
    for_seeds(10_000, |seed| random_pair(seed).finish());
}

#[test]
fn the_same_seed_replays_the_same_run() {
    let run = |seed| {
        let mut sim = random_pair(seed);
        sim.finish();
        (sim.now, sim.describe())
    };
    for seed in [1, 77, 0x51f2] {
        assert_eq!(run(seed), run(seed));
    }
}

#[test]
fn the_faults_of_the_seeds_reach_every_part_of_the_protocol() {
    let mut seen = [0u64; 8];
    for seed in 0..200 {
        let mut sim = random_pair(seed);
        sim.finish();
        for node in &sim.nodes {
            let (end, wire) = (node.end.stats(), node.wire.stats());
            let counts = [
                end.retransmitted,
                end.duplicates,
                end.out_of_order,
                end.invalid,
                end.probes,
                wire.lost,
                wire.corrupted,
                wire.truncated,
            ];
            for (total, count) in seen.iter_mut().zip(counts) {
                *total += count;
            }
        }
    }
    assert!(seen.iter().all(|&total| total > 100), "{seen:?}");
}

#[test]
fn a_restarted_end_is_noticed_and_nothing_old_is_taken_for_new() {
    for_seeds(2_000, |seed| {
        let mut rng = SplitMix64::new(seed ^ 0x4e57);
        let mut sim = random_pair(seed);
        sim.events.clear();
        // The survivor must have met the first incarnation, or there is no restart to notice.
        while sim.nodes[1].end.peer_session().is_none() && sim.step() {}
        for _ in 0..rng.below(200) {
            if sim.is_done() || !sim.step() {
                break;
            }
        }
        let known = sim.nodes[1].end.peer_session();
        restart(&mut sim, 0, seed ^ 0x1111, 50);
        while known.is_some() && sim.nodes[1].end.state() == State::Live {
            assert!(sim.step(), "the survivor never noticed: {}", sim.describe());
        }
        if known.is_some() {
            assert_eq!(sim.nodes[1].end.state(), State::Dead(DeadReason::PeerRestarted));
        }
        // The survivor begins anew too; the old datagrams are still in the wires.
        restart(&mut sim, 1, seed ^ 0x2222, 50);
        sim.nodes[0].expects = sim.nodes[1].sends.name;
        sim.nodes[1].expects = sim.nodes[0].sends.name;
        while !sim.is_done() {
            assert!(sim.step(), "stuck: {}", sim.describe());
            assert_eq!(sim.nodes[0].end.state(), State::Live, "it never met the first survivor");
        }
    });
}

#[test]
fn a_crashed_wire_ends_both_sides_in_bounded_time() {
    for_seeds(500, |seed| {
        let mut sim = random_pair(seed);
        sim.events.clear();
        for node in &mut sim.nodes {
            node.sends.total = 1_000_000;
        }
        for _ in 0..50 + seed % 300 {
            sim.step();
        }
        for node in &mut sim.nodes {
            node.wire.crash();
        }
        let crashed = sim.now;
        while sim.nodes.iter().any(|node| node.end.state() == State::Live) {
            assert!(sim.step(), "stuck: {}", sim.describe());
            // Round trips here reach tens of milliseconds and timeouts are a few of those.
            let limit = sim.config.dead_after + Nanos::from_secs(2);
            assert!(sim.now - crashed <= limit, "alive {} after the crash", sim.now - crashed);
        }
        for node in &sim.nodes {
            assert_eq!(node.end.state(), State::Dead(DeadReason::Silent));
            assert_eq!(node.end.deadline(), None);
        }
    });
}

/// A pair whose windows, wires, readers and cuts all follow from the seed.
fn random_pair(seed: u64) -> Sim {
    let mut rng = SplitMix64::new(seed);
    let windows = [1, 2, 3, 8, 32, 100];
    let config = ReliableConfig {
        mtu: 256,
        window_packets: windows[rng.below(windows.len() as u64) as usize],
        ack_delay: Nanos::from_micros(rng.below(200)),
        dead_after: Nanos::from_secs(10),
        ..ReliableConfig::default()
    };
    let mut up_to = |max: f64| if rng.chance(0.3) { 0.0 } else { max * rng.below(1001) as f64 / 1000.0 };
    let faults = FaultConfig {
        loss: up_to(0.2),
        duplicate: up_to(0.2),
        reorder: up_to(0.6),
        corrupt: up_to(0.05),
        truncate: up_to(0.05),
        delay: Nanos(1_000 + up_to(300_000.0) as u64),
        jitter: Nanos(up_to(2_000_000.0) as u64),
        ..FaultConfig::default()
    };
    let totals = [rng.below(120), rng.below(120)];
    let mut sim = Sim::pair(config, &faults, seed, totals);
    for node in &mut sim.nodes {
        if rng.chance(0.4) {
            node.reader.pause_max = Nanos(20_000 + rng.below(1_000_000));
            node.reader.hold = 0.3;
        }
    }
    for _ in 0..rng.below(3) {
        let (node, at, lasts) = (rng.below(2) as usize, rng.below(20_000_000), rng.below(400_000_000));
        sim.events.push((Nanos(at), Event::Cut(node)));
        sim.events.push((Nanos(at + lasts), Event::Restore(node)));
    }
    sim.events.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    sim
}

/// Replaces a node's end by a new incarnation with a new stream; its wire keeps what is in flight.
fn restart(sim: &mut Sim, at: usize, session: u64, total: u64) {
    let end = Reliable::new(sim.config.clone(), session).expect("the configuration is sound");
    let node = &mut sim.nodes[at];
    let sends = Stream { name: session, sent: 0, total, len_max: node.sends.len_max };
    let wire = std::mem::replace(&mut node.wire, Fault::new(FaultConfig::default(), 0));
    *node = Node::new(end, wire, sends, node.expects);
}

/// Runs `test` for many seeds, or for the one in `BAREWIRE_SEED`; names the seed that fails.
fn for_seeds(count: u64, test: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let replay = std::env::var("BAREWIRE_SEED").ok().map(|text| {
        let digits = text.trim_start_matches("0x");
        u64::from_str_radix(digits, 16).expect("BAREWIRE_SEED is a hexadecimal number")
    });
    let seeds = match replay {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    };
    for seed in seeds {
        if let Err(panic) = std::panic::catch_unwind(|| test(seed)) {
            eprintln!("SEED={seed:#x}");
            std::panic::resume_unwind(panic);
        }
    }
}
