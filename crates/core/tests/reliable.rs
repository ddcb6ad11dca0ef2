//! The reliable filter in chosen situations, under virtual time.

mod sim;

use barewire_core::filter::fault::FaultConfig;
use barewire_core::filter::reliable::{DeadReason, Reliable, ReliableConfig, SendError, State};
use barewire_core::time::Nanos;
use sim::{Event, Sim};

const DELAY: Nanos = Nanos::from_micros(25);

fn clean() -> FaultConfig {
    FaultConfig { delay: DELAY, ..FaultConfig::default() }
}

#[test]
fn a_clean_wire_carries_a_stream_without_a_single_repetition() {
    let mut sim = Sim::pair(ReliableConfig::default(), &clean(), 1, [20_000, 0]);
    sim.finish();
    let stats = sim.nodes[0].end.stats();
    assert_eq!((stats.sent, stats.retransmitted), (20_000, 0));
    let rtt = stats.rtt.expect("it was measured");
    assert!(rtt.0.abs_diff(50_000) < 128, "{rtt} is not 50 µs to a tick or two");
    // 256 packets a round trip of 50 µs once slow start is over.
    assert!(sim.now < Nanos::from_millis(7), "took {}", sim.now);
}

#[test]
fn both_directions_share_datagrams() {
    let mut sim = Sim::pair(ReliableConfig::default(), &clean(), 1, [5_000, 5_000]);
    sim.finish();
    for node in &sim.nodes {
        let stats = node.end.stats();
        assert_eq!(stats.retransmitted, 0);
        assert!(stats.acks < stats.sent / 2, "{stats:?}");
    }
}

#[test]
fn reordering_within_a_quarter_of_the_round_trip_repeats_nothing() {
    let faults = FaultConfig { reorder: 0.5, jitter: Nanos::from_micros(5), ..clean() };
    let mut sim = Sim::pair(ReliableConfig::default(), &faults, 5, [5_000, 0]);
    sim.finish();
    assert!(sim.nodes[1].end.stats().out_of_order > 1_000);
    assert_eq!(sim.nodes[0].end.stats().retransmitted, 0);
}

#[test]
fn stronger_reordering_is_learned_after_a_few_needless_repetitions() {
    let faults = FaultConfig { reorder: 0.5, jitter: Nanos::from_micros(20), ..clean() };
    let mut sim = Sim::pair(ReliableConfig::default(), &faults, 5, [20_000, 0]);
    sim.finish();
    assert!(sim.nodes[1].end.stats().out_of_order > 4_000);
    let repeated = sim.nodes[0].end.stats().retransmitted;
    assert!(repeated < 30, "{repeated}");
}

#[test]
fn a_lost_packet_is_repeated_after_a_round_trip_not_after_a_timeout() {
    let config = ReliableConfig { rto_min: Nanos::from_millis(40), ..ReliableConfig::default() };
    let faults = FaultConfig { loss: 0.01, ..clean() };
    let mut sim = Sim::pair(config, &faults, 3, [2_000, 0]);
    while sim.nodes[1].received < 1_990 {
        assert!(sim.step());
    }
    let stats = sim.nodes[0].end.stats();
    assert!(stats.retransmitted >= 10, "{stats:?}");
    // The handshake may cost one initial timeout; the twenty losses must not cost one each.
    assert!(sim.now < Nanos::from_millis(60), "took {}", sim.now);
}

#[test]
fn loss_shrinks_the_congestion_window() {
    let mut good = Sim::pair(ReliableConfig::default(), &clean(), 3, [5_000, 0]);
    let mut lossy =
        Sim::pair(ReliableConfig::default(), &FaultConfig { loss: 0.1, ..clean() }, 3, [5_000, 0]);
    good.finish();
    lossy.finish();
    assert_eq!(good.nodes[0].end.stats().congestion_window, 256);
    assert!(lossy.nodes[0].end.stats().congestion_window < 40);
}

#[test]
fn a_receiver_that_stops_consuming_stops_its_sender_and_nothing_is_dropped_or_grows() {
    let faults = FaultConfig { loss: 0.1, ..clean() };
    let config = ReliableConfig { window_packets: 16, ..ReliableConfig::default() };
    let mut sim = Sim::pair(config, &faults, 9, [1_000, 0]);
    sim.nodes[1].reader.stopped = true;
    while sim.now < Nanos::from_secs(20) {
        assert!(sim.step());
    }
    let [sender, receiver] = &mut sim.nodes;
    assert_eq!(receiver.end.stats().received, 16, "the window and not a packet more");
    assert_eq!((sender.sends.sent, sender.end.unacked()), (32, 16), "the sender's own slots are full too");
    assert_eq!(sender.end.send(1, |_| ()), Err(SendError::Full));
    assert_eq!(sender.end.state(), State::Live, "a closed window is no sign of death");
    assert!(sender.end.stats().buffers <= 16 && receiver.end.stats().buffers <= 16);
    let probes = sender.end.stats().probes;
    assert!((100..1_000).contains(&probes), "{probes} probes in 20 s");
    receiver.reader.stopped = false;
    sim.finish();
    assert_eq!(sim.nodes[1].received, 1_000);
}

#[test]
fn a_lost_window_update_is_made_up_for_by_a_probe() {
    let config = ReliableConfig { window_packets: 4, ..ReliableConfig::default() };
    let mut sim = Sim::pair(config, &clean(), 9, [100, 0]);
    sim.nodes[1].reader.stopped = true;
    while sim.nodes[0].end.unacked() < 4
        || sim.nodes[1].end.stats().received < 4
        || sim.nodes[1].end.deadline().is_some()
    {
        assert!(sim.step());
    }
    sim.events = vec![(sim.now + Nanos::MILLI, Event::Restore(1)), (sim.now, Event::Cut(1))];
    sim.nodes[1].reader.stopped = false;
    sim.finish();
}

#[test]
fn silence_is_death_only_after_dead_after() {
    let mut sim = Sim::pair(ReliableConfig::default(), &clean(), 1, [100, 0]);
    sim.finish();
    sim.nodes[1].wire.crash();
    let node = &mut sim.nodes[0];
    node.sends.total += 1;
    let asked = sim.now;
    while sim.nodes[0].end.state() == State::Live {
        assert!(sim.step());
    }
    assert_eq!(sim.nodes[0].end.state(), State::Dead(DeadReason::Silent));
    assert_eq!(sim.now - asked, Nanos::from_millis(900));
    assert_eq!(sim.nodes[0].end.send(1, |_| ()), Err(SendError::Dead));
}

#[test]
fn an_idle_pair_outlives_any_silence() {
    let mut sim = Sim::pair(ReliableConfig::default(), &clean(), 1, [10, 10]);
    sim.finish();
    sim.now += Nanos::from_secs(100_000);
    for node in &mut sim.nodes {
        node.sends.total += 10;
    }
    sim.finish();
}

#[test]
fn a_pause_of_our_own_does_not_kill_the_peer() {
    let mut sim = Sim::pair(ReliableConfig::default(), &clean(), 1, [50, 0]);
    while sim.nodes[0].end.stats().in_flight == 0 {
        assert!(sim.step());
    }
    assert!(sim.nodes[0].end.unanswered_since().is_some());
    sim.now += Nanos::from_secs(60);
    let mut out = Vec::new();
    let now = sim.now;
    // As after SIGSTOP and SIGCONT: the clock has leapt and the answers are still in the socket.
    while sim.nodes[0].end.poll_transmit(now, &mut out) {}
    sim.finish();
}

#[test]
fn a_cut_shorter_than_dead_after_only_delays() {
    let mut sim = Sim::pair(ReliableConfig::default(), &clean(), 1, [3_000, 3_000]);
    let at = |millis| Nanos::from_micros(1_200) + Nanos::from_millis(millis);
    sim.events = vec![
        (at(700), Event::Restore(1)),
        (at(700), Event::Restore(0)),
        (at(0), Event::Cut(1)),
        (at(0), Event::Cut(0)),
    ];
    sim.finish();
    assert!(sim.now > at(700), "the cut fell into the traffic");
    assert!(sim.now < at(800), "and the wire was taken up again within rto_max, not {}", sim.now - at(700));
}

#[test]
fn a_lone_exchange_of_single_packets_keeps_to_a_few_buffers() {
    let mut sim = Sim::pair(ReliableConfig::default(), &clean(), 1, [0, 0]);
    for round in 1..=500 {
        for node in &mut sim.nodes {
            node.sends.total = round;
        }
        sim.finish();
    }
    assert!(sim.nodes.iter().all(|node| node.end.stats().buffers <= 3));
}

#[test]
fn an_unused_end_has_no_buffers_and_nothing_to_do() {
    let mut end = Reliable::new(ReliableConfig::default(), 1).expect("the default is sound");
    assert_eq!((end.stats().buffers, end.deadline()), (0, None));
    assert!(!end.poll_transmit(Nanos::SECOND, &mut Vec::new()));
}

#[test]
fn a_clock_that_steps_back_does_no_harm() {
    let mut sim = Sim::pair(ReliableConfig::default(), &clean(), 1, [500, 500]);
    let mut out = Vec::new();
    while !sim.is_done() {
        sim.nodes[0].end.on_datagram(Nanos::ZERO, b"");
        assert!(sim.step());
        if sim.nodes[0].end.poll_transmit(Nanos::ZERO, &mut out) {
            let now = sim.now;
            sim.nodes[0].wire.push(now, &out);
        }
    }
}

#[test]
fn a_stranger_who_knows_no_session_cannot_end_or_fill_the_pair() {
    let mut sim = Sim::pair(ReliableConfig::default(), &clean(), 1, [200, 200]);
    let mut stranger = Reliable::new(ReliableConfig::default(), 999).expect("the default is sound");
    let mut guess = Reliable::with_peer(ReliableConfig::default(), 998, 997).expect("the default is sound");
    stranger.send(1, |_| ()).expect("it has room");
    guess.send(1, |_| ()).expect("it has room");
    let mut out = Vec::new();
    while !sim.is_done() {
        assert!(sim.step());
        let now = sim.now;
        for intruder in [&mut stranger, &mut guess] {
            while intruder.poll_transmit(now, &mut out) {
                sim.nodes[0].end.on_datagram(now, &out);
            }
        }
    }
    assert!(sim.nodes[0].end.stats().foreign >= 2);
    assert_eq!(sim.nodes[0].end.state(), State::Live);
}

#[test]
fn an_end_that_was_told_its_peer_answers_one_that_was_not() {
    let mut sim = Sim::pair(ReliableConfig::default(), &clean(), 1, [20, 0]);
    let (asker, told) = (1 ^ 0xaaaa, 1 ^ 0xbbbb);
    sim.nodes[1].end =
        Reliable::with_peer(ReliableConfig::default(), told, asker).expect("the default is sound");
    sim.finish();
    assert_eq!(sim.nodes[0].end.peer_session(), Some(told));
}

#[test]
fn a_datagram_above_the_mtu_is_dropped_before_it_takes_memory() {
    let big = ReliableConfig { mtu: 9_000, ..ReliableConfig::default() };
    let mut peer = Reliable::with_peer(big, 1, 2).expect("the configuration is sound");
    let mut end = Reliable::with_peer(ReliableConfig::default(), 2, 1).expect("the default is sound");
    peer.send(8_000, |_| ()).expect("it has room");
    let mut out = Vec::new();
    assert!(peer.poll_transmit(Nanos::ZERO, &mut out));
    end.on_datagram(Nanos::ZERO, &out);
    assert!(end.recv().is_none());
    assert_eq!((end.stats().invalid, end.stats().buffers), (1, 0));
}
