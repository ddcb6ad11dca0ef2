//! The reading: what the figures of a ladder say, in words that are computed from them and from nothing else.

use barewire_sys::cpu::{Cpu, Share, Topology};

use super::ladder::{BESIDE, Ladder, RUNGS, SIZES};
use super::options::Via;
use super::record::{Record, bandwidth, noise, size, time};

/// The sentences, most important first.
pub fn sentences(ladder: &Ladder) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(limit(ladder));
    said.extend(costs(ladder));
    said.extend(copies(ladder));
    said.extend(unix(ladder));
    said.extend(tcp(ladder));
    said.push(machine(&ladder.cpus));
    said.extend(doubts(&ladder.records));
    said.extend(ladder.missing.iter().map(|(rung, why)| format!("{rung} was not measured: {why}.")));
    said
}

fn limit(ladder: &Ladder) -> Option<String> {
    let message = ladder.find("latency", "message", Via::Shm, 8)?;
    let limit = ladder.find("latency", "limit", Via::Shm, 8)?;
    Some(format!(
        "A message of 8 bytes is there after {}: {:.2} times what one cache line takes from processor to processor ({}).",
        time(message.typical_ns()),
        message.ratio?,
        time(limit.typical_ns())
    ))
}

/// What the rungs add, and which of them adds most.
fn costs(ladder: &Ladder) -> Vec<String> {
    let added = |name: &str| {
        let rung = RUNGS.iter().find(|rung| rung.name == name)?;
        Some((rung, ladder.added(rung)?))
    };
    let tell = |name: &str| {
        let (rung, added) = added(name)?;
        let ns = added.median;
        Some(match added.is_noisy() && added.low < 0.0 && added.high > 0.0 {
            true => format!("{name} takes as long as {} as far as this run can tell", rung.below),
            false if ns < 0.0 => format!("{name} takes {} less than {}", time(-ns), rung.below),
            false => format!("{name} adds {} over {}", time(ns), rung.below),
        })
    };
    let layers: Vec<String> = ["tagged", "am", "fm", "mpi"].into_iter().filter_map(tell).collect();
    let mut said = Vec::new();
    if !layers.is_empty() {
        said.push(format!("Of the layers, {}.", layers.join("; ")));
    }
    let path = ["ring", "message", "tagged", "mpi"];
    let costliest = path
        .into_iter()
        .filter_map(|name| added(name).map(|(rung, cost)| (rung, cost.median)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let (Some((rung, ns)), Some(mpi), Some(limit)) =
        (costliest, ladder.find("latency", "mpi", Via::Shm, 8), ladder.find("latency", "limit", Via::Shm, 8))
    {
        let all = mpi.typical_ns() - limit.typical_ns();
        // A step that costs less than nothing, as one that takes a shorter way does, leaves more than all for another.
        let share = if ns <= all { format!(" of the {} above the limit", time(all)) } else { String::new() };
        said.push(format!("On the way up to MPI the step to {} costs most: {}{share}.", rung.name, time(ns)));
    }
    said
}

/// How near to a bare copy long messages come, and where each is held up.
fn copies(ladder: &Ladder) -> Option<String> {
    let long = SIZES[2];
    let limit = ladder.find("bandwidth", "limit", Via::Shm, long)?.bytes_per_s?;
    let best = ["region", "message", "tagged", "am2", "fm", "mpi"]
        .into_iter()
        .filter_map(|api| Some((api, ladder.find("bandwidth", api, Via::Shm, long)?.bytes_per_s?)));
    let best: Vec<(&str, f64)> = best.collect();
    let (fastest, most) = best.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (slowest, least) = best.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "At {} one copy moves {}; {fastest} reaches {} ({:.0} %), {slowest} {} ({:.0} %){}.",
        size(long as u64),
        bandwidth(limit),
        bandwidth(most),
        most / limit * 100.0,
        bandwidth(least),
        least / limit * 100.0,
        if least < 0.6 * limit { ": what goes through the pool is copied twice" } else { "" }
    ))
}

fn unix(ladder: &Ladder) -> Option<String> {
    let message = ladder.find("latency", "message", Via::Shm, 8)?;
    let ways = BESIDE
        .into_iter()
        .filter_map(|way| Some((way, ladder.find("latency", way, Via::Shm, 8)?.typical_ns())));
    let (way, ns) = ways.min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!(
        "Of what Unix offers, {way} is fastest with {}: {:.0} times a message of ours, because the kernel wakes the receiver.",
        time(ns),
        ns / message.typical_ns()
    ))
}

fn tcp(ladder: &Ladder) -> Option<String> {
    let (raw, ours) =
        (ladder.find("latency", "socket", Via::Tcp, 8)?, ladder.find("latency", "message", Via::Tcp, 8)?);
    let added = ours.ratio? - 1.0;
    Some(match added < 0.15 {
        true => format!(
            "TCP is limited by system calls: a bare socket that is polled takes {}, and we add {:.0} %.",
            time(raw.typical_ns()),
            added.max(0.0) * 100.0
        ),
        false => format!(
            "Over TCP we take {}, {:.0} % more than a bare socket that is polled ({}).",
            time(ours.typical_ns()),
            added * 100.0,
            time(raw.typical_ns())
        ),
    })
}

/// What the two processors that were used have in common.
fn machine(cpus: &[Cpu]) -> String {
    let (Some(&a), Some(&b)) = (cpus.first(), cpus.get(1)) else {
        return "There is one processor, so sender and receiver take turns on it: these are times of the scheduler.".into();
    };
    let shared = match Topology::read().share(a, b) {
        Share::Cpu => "are the same",
        Share::Core => "are two threads of one core",
        Share::L2 => "share a second-level cache",
        Share::L3 => "share a third-level cache",
        Share::Node => "share a memory node, but no cache",
        Share::Package => "share a package, but no cache",
        _ => "share no cache that the system tells of",
    };
    format!("The ranks ran on processors {} and {}, which {shared}.", a.0, b.0)
}

/// What should not be: a limit that was beaten, figures that vary.
pub fn doubts(records: &[Record]) -> Vec<String> {
    let mut said = Vec::new();
    let beaten: Vec<&Record> = records.iter().filter(|record| beats_its_limit(record)).collect();
    if let Some(first) = beaten.first() {
        let others = match beaten.len() {
            1 => String::new(),
            n => format!(", and so did {} others", n - 1),
        };
        said.push(format!(
            "{} {} at {} beat its limit{others}, which cannot be: something disturbed this run; repeat it.",
            first.api,
            first.bench,
            size(first.bytes)
        ));
    }
    let noisy = records.iter().filter(|record| record.noisy).count();
    if noisy > 0 {
        said.push(noise(noisy, records.len()) + ".");
    }
    said
}

/// Whether a record leaves no doubt that it was faster than its limit. A copy in a smaller buffer may be a little faster.
fn beats_its_limit(record: &Record) -> bool {
    record.ratio_high.is_some_and(|high| high < 0.97)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::driver::Spec;
    use crate::perf::worker::Answer;

    fn record(bench: &str, api: &str, via: Via, bytes: usize, ns: f64) -> Record {
        let rounds: Vec<Answer> =
            [1.0, 1.01, 0.99, 1.0, 1.0].iter().map(|part| Answer::of(ns * part)).collect();
        Record::new(bench, &Spec::new(api, "latency", via, bytes), &rounds)
    }

    fn ladder(mpi_ns: f64) -> Ladder {
        let limit = [60.0; 5];
        let latency = |api: &str, ns: f64| record("latency", api, Via::Shm, 8, ns).beside_limit(&limit);
        let mut records = vec![
            latency("limit", 60.0),
            latency("ring", 66.0),
            latency("message", 75.0),
            latency("tagged", 100.0),
            latency("am", 78.0),
            latency("fm", 95.0),
            latency("mpi", mpi_ns),
            latency("pipe", 6000.0),
            record("latency", "socket", Via::Tcp, 8, 8000.0),
        ];
        records.push(record("latency", "message", Via::Tcp, 8, 8200.0).beside_limit(&[8000.0; 5]));
        Ladder {
            records,
            missing: vec![("am2".into(), "nobody asked".into())],
            seconds: 1.0,
            cpus: vec![Cpu(0)],
        }
    }

    #[test]
    fn the_reading_follows_from_the_figures() {
        let said = sentences(&ladder(131.0)).join("\n");
        for words in [
            "after 75.0 ns: 1.25 times",
            "mpi adds 31.0 ns over tagged",
            "am adds 3.0 ns over message",
            "the step to mpi costs most: 31.0 ns of the 71.0 ns",
            "pipe is fastest with 6.00 µs: 80 times",
            "limited by system calls",
            "we add 2 %",
            "one processor, so sender and receiver take turns",
            "am2 was not measured: nobody asked",
        ] {
            assert!(said.contains(words), "no {words:?} in:\n{said}");
        }
        assert!(!said.contains("beat its limit") && !said.contains("varied"), "{said}");
        let said = sentences(&ladder(105.0)).join("\n");
        assert!(said.contains("the step to tagged costs most"), "{said}");
    }

    #[test]
    fn a_limit_that_is_beaten_is_called_so() {
        let beaten = record("latency", "am", Via::Shm, 8, 50.0).beside_limit(&[60.0; 5]);
        assert!(doubts(&[beaten])[0].contains("am latency at 8 B beat its limit"));
        let level = record("latency", "am", Via::Shm, 8, 60.0).beside_limit(&[60.0; 5]);
        assert!(doubts(&[level]).is_empty());
    }

    #[test]
    fn noise_is_reported() {
        let rounds: Vec<Answer> = [100.0, 300.0, 90.0, 250.0, 110.0].map(Answer::of).to_vec();
        let noisy = Record::new("latency", &Spec::new("am", "latency", Via::Shm, 8), &rounds);
        assert!(doubts(&[noisy])[0].starts_with("1 of 1 figures varied"));
    }
}
