//! Measurements over the simulated network, in its own time: the instrument held against a wire whose figures are known.

use anyhow::{Result, bail};
use barewire_core::filter::fault::FaultConfig;
use barewire_core::sim::{Network, SimConfig};
use barewire_core::time::Nanos;
use barewire_core::{Endpoint, Flow, Incoming, Peer, Port};

use super::worker::{Answer, Command};

const DATA: Port = Port(21);

/// Does what a command says on a network that the fault filter makes slower by `slow_ns`.
pub fn run(command: &Command, slow_ns: u64) -> Result<Answer> {
    let config = SimConfig::default();
    let (rung, verb) = command.parts();
    if rung == "line" {
        // What the network itself takes for one datagram of that many bytes and a header.
        let wire = config.latency.0 + 2 * config.overhead.0 + config.gap.0;
        return Ok(Answer::of(wire as f64));
    }
    if rung != "message" || !matches!(verb, "latency" | "spread") {
        bail!("over the simulated network only the latency of messages is measured");
    }
    let faults = FaultConfig { delay: Nanos(slow_ns), ..FaultConfig::default() };
    latency(SimConfig { faults, ..config }, command.bytes, command.count.clamp(1, 1000))
}

/// One way of a message, back and forth `count` times.
fn latency(config: SimConfig, bytes: usize, count: u64) -> Result<Answer> {
    let network = Network::new(2, config)?;
    let mut endpoints = network.endpoints()?;
    let out = vec![1; bytes];
    // The first exchange makes the two known to each other.
    for trip in 0..=count {
        let start = network.now();
        for from in [0, 1] {
            endpoints[from as usize].send(Peer(1 - from), DATA, 0, &out)?;
            arrive(&network, &mut endpoints, Peer(1 - from))?;
        }
        if trip == count {
            let one_way = (network.now().0 - start.0) as f64 / 2.0;
            let names = ["p50", "p99"].map(|name| (name.to_owned(), one_way));
            return Ok(Answer { each_ns: one_way, more: names.into() });
        }
    }
    bail!("no trip was measured")
}

/// Lets time pass until a message has arrived at `to`.
fn arrive(network: &Network, endpoints: &mut [Endpoint], to: Peer) -> Result<()> {
    let mut arrived = false;
    while !arrived {
        let Some(event) = network.step() else { bail!("the message got lost") };
        let mut note = |_: &mut Endpoint, packet: Incoming<'_>| {
            arrived |= packet.port == DATA;
            Flow::Continue
        };
        endpoints[event.peer.0 as usize].progress(&mut note, usize::MAX);
        if event.peer != to {
            arrived = false;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_way(slow_ns: u64) -> f64 {
        let what = "message/latency".to_owned();
        run(&Command { number: 1, what, bytes: 8, count: 50, window: 1, warm_up: 0 }, slow_ns)
            .unwrap()
            .each_ns
    }

    #[test]
    fn a_provider_slowed_by_five_microseconds_shows_as_five_microseconds() {
        for slow_ns in [5_000, 50_000] {
            let added = one_way(slow_ns) - one_way(0);
            assert!((added - slow_ns as f64).abs() < 1.0, "{slow_ns} ns show as {added} ns");
        }
    }

    #[test]
    fn the_wire_itself_is_not_beaten() {
        let what = "line/latency".to_owned();
        let limit = run(&Command { number: 1, what, bytes: 8, count: 1, window: 1, warm_up: 0 }, 0).unwrap();
        assert!(one_way(0) >= limit.each_ns, "{} against {}", one_way(0), limit.each_ns);
    }
}
