//! Why a comparison was lost: in figures of the same run where there are any, otherwise in words.

use super::ladder::RUNGS;
use super::layers::is_of_all;
use super::record::{Record, size, time};

/// What we do at that size that takes time, from what else the run has measured.
pub fn why_slower(lost: &Record, known: &[Record]) -> String {
    let reason = match (lost.bytes, lost.bench.as_str()) {
        (_, verb) if is_of_all(verb) => None,
        (0..=4096, "latency") => rungs(lost, known),
        (0..=4096, _) => parts(lost, known),
        _ => copies(lost, known),
    };
    let mut reason = reason.unwrap_or_else(|| in_words(lost).to_owned());
    if lost.noisy {
        reason += " The figure varied by more than 20 %.";
    }
    reason
}

/// One way, rung by rung down to the limit.
fn rungs(lost: &Record, known: &[Record]) -> Option<String> {
    let of = |api: &str| {
        let same = |r: &&Record| r.bench == "latency" && r.api == api && r.bytes == 8 && r.via == lost.via;
        known.iter().find(same).map(Record::typical_ns)
    };
    let mut steps = Vec::new();
    let mut at = lost.api.as_str();
    while let Some(rung) = RUNGS.iter().find(|rung| rung.name == at && rung.below != at) {
        steps.push(format!("{} for {at}", time(of(at)? - of(rung.below)?)));
        at = rung.below;
    }
    let whole = time(of(&lost.api)?);
    (!steps.is_empty()).then_some(())?;
    steps.reverse();
    Some(format!(
        "at 8 B the way of one cache line takes {} of our {whole} in the ladder; then come {}.",
        time(of("limit")?),
        steps.join(", ")
    ))
}

/// The processor's time of a message, part by part.
fn parts(lost: &Record, known: &[Record]) -> Option<String> {
    // MPI's messages are tagged ones.
    let (api, more) = match lost.api.as_str() {
        "mpi" => ("tagged", ", and the C interface on top"),
        other => (other, ""),
    };
    let table = known.iter().find(|r| r.bench == "breakdown" && r.api == api)?;
    let part = |name: &str| {
        let of = |end: &str| table.more.get(&format!("{name}_{end}_ns")).copied();
        Some(time(of("send")? + of("receive")?))
    };
    Some(format!(
        "a message of {api} occupies both processors together for {}: {} to move the line, {} to find it, {} for flow control, {} for what the layer is for{more}.",
        time(table.mean_ns),
        part("base")?,
        part("events")?,
        part("flow")?,
        part("semantics")?
    ))
}

/// Long messages: how many times as long as one copy.
fn copies(lost: &Record, known: &[Record]) -> Option<String> {
    let same = |r: &&Record| {
        r.bench == "bandwidth" && r.bytes == lost.bytes && r.via == lost.via && r.api == "limit"
    };
    let copy = known.iter().find(same)?.typical_ns();
    Some(format!(
        "one copy of {} takes {} in the ladder and we take {:.1} times that: the bytes are copied in and out, and the sides wait for each other.",
        size(lost.bytes),
        time(copy),
        lost.mean_ns / copy
    ))
}

fn in_words(lost: &Record) -> &'static str {
    match (lost.bytes, lost.bench.as_str()) {
        _ if lost.ranks > 2 => "every step waits until the system schedules the ranks that it needs.",
        (0..=4096, verb) if is_of_all(verb) => {
            "every rank waits for a line of every other, and the checks of the C interface come on top."
        }
        (_, verb) if is_of_all(verb) => {
            "the bytes are copied into common memory and out of it, which the caches of both have to share."
        }
        (_, "put" | "get" | "accumulate" | "locked") => {
            "the owner's rights and bounds are checked for every access, and accumulating takes a lock."
        }
        (0..=4096, _) => "short messages pay for matching and for the checks of the C interface.",
        (4097..=65536, _) => "this size goes through the pool in packets, copied in and out.",
        _ => "both sides copy in turn; who copies once from the sender's memory moves more.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::driver::Spec;
    use crate::perf::options::Via;
    use crate::perf::worker::Answer;

    fn record(bench: &str, api: &str, bytes: usize, ns: f64) -> Record {
        Record::new(bench, &Spec::new(api, "latency", Via::Shm, bytes), &[Answer::of(ns)])
    }

    #[test]
    fn a_reason_is_made_of_figures_of_the_same_run() {
        let mut known: Vec<Record> =
            [("limit", 60.0), ("ring", 66.0), ("message", 75.0), ("tagged", 100.0), ("mpi", 131.0)]
                .map(|(api, ns)| record("latency", api, 8, ns))
                .to_vec();
        known.push(record("bandwidth", "limit", 1 << 20, 1e5));
        let mut parts = record("breakdown", "tagged", 8, 130.0);
        for (name, ns) in [("base", 3.0), ("events", 11.0), ("flow", 2.0), ("semantics", 49.0)] {
            parts = parts.with(&format!("{name}_send_ns"), ns).with(&format!("{name}_receive_ns"), ns);
        }
        known.push(parts);
        let why = |bench: &str, api: &str, bytes, ns| why_slower(&record(bench, api, bytes, ns), &known);
        let said = why("latency", "mpi", 8, 140.0);
        assert!(said.contains("takes 60.0 ns of our 131.0 ns"), "{said}");
        assert!(
            said.ends_with("6.0 ns for ring, 9.0 ns for message, 25.0 ns for tagged, 31.0 ns for mpi."),
            "{said}"
        );
        let said = why("rate", "mpi", 8, 140.0);
        assert!(
            said.contains("together for 130.0 ns: 6.0 ns to move the line, 22.0 ns to find it"),
            "{said}"
        );
        let said = why("rate", "message", 1 << 20, 2.5e5);
        assert!(said.contains("we take 2.5 times that"), "{said}");
    }

    #[test]
    fn without_figures_the_reason_is_in_words() {
        let said = why_slower(&record("rate", "mpi", 8, 140.0), &[]);
        assert_eq!(said, "short messages pay for matching and for the checks of the C interface.");
    }
}
