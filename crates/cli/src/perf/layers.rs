//! The layers that can be measured, by the names that `--api` takes: what can be measured of each, and over which wires.

use anyhow::{Result, bail};

use super::options::Via;

/// A layer, or one of the system's own ways.
pub struct Layer {
    pub name: &'static str,
    /// What can be measured of it, as commands call it.
    verbs: &'static [&'static str],
    wires: &'static [Via],
}

/// From the limits up, then what the system offers.
pub const LAYERS: [Layer; 18] = [
    Layer { name: "line", verbs: &["latency"], wires: &[Via::Shm, Via::Sim] },
    Layer { name: "copy", verbs: &["rate", "cpu"], wires: HERE },
    Layer { name: "ring", verbs: &["latency", "rate", "cpu"], wires: HERE },
    Layer {
        name: "message",
        verbs: &["latency", "rate", "cpu", "logp", "turn"],
        wires: &[Via::Shm, Via::Tcp, Via::Sim],
    },
    Layer { name: "region", verbs: &["latency", "rate", "cpu"], wires: BOTH },
    Layer { name: "tagged", verbs: &["latency", "rate", "cpu", "logp", "turn"], wires: BOTH },
    Layer { name: "am", verbs: &["latency", "rate", "cpu", "logp"], wires: BOTH },
    Layer { name: "am2", verbs: &["latency", "rate", "cpu", "logp"], wires: BOTH },
    Layer { name: "amvia", verbs: &["latency", "rate"], wires: BOTH },
    Layer { name: "fm", verbs: &["latency", "rate", "cpu", "logp"], wires: BOTH },
    Layer { name: "mpi", verbs: &MPI, wires: BOTH },
    Layer { name: "via", verbs: &["latency", "rate"], wires: BOTH },
    Layer { name: "socket", verbs: &["latency", "rate", "cpu"], wires: &[Via::Tcp] },
    Layer { name: "nagle", verbs: &["latency", "rate", "cpu"], wires: &[Via::Tcp] },
    Layer { name: "pipe", verbs: &["latency", "rate", "cpu"], wires: HERE },
    Layer { name: "fifo", verbs: &["latency", "rate", "cpu"], wires: HERE },
    Layer { name: "sysv", verbs: &["latency", "rate", "cpu"], wires: HERE },
    Layer { name: "unix", verbs: &["latency", "rate", "cpu"], wires: HERE },
];

/// What every MPI can be measured in: between two ranks, from one into another's memory, and among all.
const MPI: [&str; 23] = [
    "latency",
    "rate",
    "stream",
    "exchange",
    "anybody",
    "probe",
    "put",
    "get",
    "accumulate",
    "locked",
    "turn",
    "halo",
    "barrier",
    "bcast",
    "ibcast",
    "reduce",
    "allreduce",
    "gather",
    "scatter",
    "allgather",
    "alltoall",
    "reduce-scatter",
    "scan",
];

/// Whether all ranks take part in it.
pub fn is_of_all(verb: &str) -> bool {
    MPI.iter().position(|&known| known == verb).is_some_and(|at| at >= OF_ALL)
}
/// Those from here on are of all ranks.
const OF_ALL: usize = 10;

const HERE: &[Via] = &[Via::Shm];
const BOTH: &[Via] = &[Via::Shm, Via::Tcp];

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    LAYERS.iter().map(|layer| layer.name)
}

fn find(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

/// Fails if one of these cannot be measured in these ways; says which can.
pub fn check(asked: &[String], verbs: &[&str]) -> Result<()> {
    for verb in verbs {
        let can: Vec<&str> =
            LAYERS.iter().filter(|layer| layer.verbs.contains(verb)).map(|layer| layer.name).collect();
        if let Some(wrong) = asked.iter().find(|name| !can.contains(&name.as_str())) {
            bail!("there is no measurement called {wrong}/{verb}; there is one of {}", can.join(", "));
        }
    }
    Ok(())
}

/// The wire to measure these over, if that is not as good as said: bare sockets are TCP, whatever else would be used here.
/// Fails if one of them does not go over the wire.
pub fn wire(asked: &[String], said: Option<Via>, usual: Via) -> Result<Option<Via>> {
    let layers = || asked.iter().filter_map(|name| find(name));
    let via = said.unwrap_or(usual);
    let Some(wrong) = layers().find(|layer| !layer.wires.contains(&via)) else { return Ok(said) };
    if said.is_none() && layers().all(|layer| layer.wires == [Via::Tcp]) {
        return Ok(Some(Via::Tcp));
    }
    let wires: Vec<&str> = wrong.wires.iter().map(|wire| wire.name()).collect();
    bail!("{} does not go over {}, only over {}: see --via", wrong.name, via.name(), wires.join(" and "));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn what_a_layer_cannot_do_is_told_with_those_who_can() {
        assert!(check(&words("message,mpi"), &["latency", "turn"]).is_ok());
        let error = check(&words("message,fm"), &["turn"]).unwrap_err().to_string();
        assert_eq!(error, "there is no measurement called fm/turn; there is one of message, tagged, mpi");
    }

    #[test]
    fn nobody_is_measured_over_a_wire_that_is_not_theirs() {
        assert_eq!(wire(&words("message,pipe"), None, Via::Shm).unwrap(), None);
        assert_eq!(wire(&words("socket,nagle"), None, Via::Shm).unwrap(), Some(Via::Tcp));
        assert_eq!(wire(&words("socket,message"), Some(Via::Tcp), Via::Shm).unwrap(), Some(Via::Tcp));
        for (asked, said) in [("pipe", Via::Tcp), ("socket", Via::Shm), ("message,copy", Via::Tcp)] {
            assert!(wire(&words(asked), Some(said), Via::Shm).is_err(), "{asked} over {}", said.name());
        }
        let error = wire(&words("message,socket"), None, Via::Shm).unwrap_err().to_string();
        assert_eq!(error, "socket does not go over shm, only over tcp: see --via");
    }
}
