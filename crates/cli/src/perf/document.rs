//! `docs/performance.md`: every measurement on this machine as one document, written by a command and never by hand.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::driver::Driver;
use super::ladder::{self, Ladder, RUNGS};
use super::options::Common;
use super::record::{Record, bandwidth, rate, size, time};
use super::{compare, measures, reading, reasons, report};

/// Write docs/performance.md from measurements on this machine
#[derive(Debug, clap::Args)]
pub struct DocumentOptions {
    /// Where to
    #[arg(long, default_value = "docs/performance.md", value_name = "FILE")]
    out: PathBuf,
    /// Only these parts: ladder, bandwidth, logp, breakdown, efficiency, cpu, posted, ipc, overload, startup, compare
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    only: Vec<String>,
}

type Measure = fn(&mut Driver) -> Result<Vec<Record>>;
type Column = (&'static str, fn(&Record) -> String);

/// A part: its name, its title, what it means, how it is measured, and its columns.
struct Part {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    measure: Measure,
    columns: &'static [Column],
}

const PARTS: [Part; 9] = [
    Part {
        name: "bandwidth",
        title: "Bandwidth by size",
        about: "Windows of messages, each window answered by one. N½ is the size with half of a layer's best bandwidth.",
        measure: measures::bandwidth::run,
        columns: &[LAYER, SIZE, SPEED, LIMIT, ("N½", |r| bytes(r, "n_half_bytes"))],
    },
    Part {
        name: "logp",
        title: "LogP",
        about: "os and or: how long a message occupies the processor of its sender and of its receiver; L: what these leave of one way; g: the gap between messages of a stream; Δ: what one way takes longer than a plain message.",
        measure: measures::logp::run,
        columns: &[
            LAYER,
            SIZE,
            ("one way", |r| time(r.mean_ns)),
            ("os", |r| figure(r, "os_ns")),
            ("or", |r| figure(r, "or_ns")),
            ("L", |r| figure(r, "l_ns")),
            ("g", |r| figure(r, "g_ns")),
            ("Δ", |r| figure(r, "delta_ns")),
        ],
    },
    Part {
        name: "breakdown",
        title: "Where the time of one message goes",
        about: "Processor time of sender and receiver together, for 8 bytes, and the part of the sum: moving the line; finding out what has arrived and whom to wake; flow control; what the layer is for. A get reads a word of another's memory by two messages, as Split-C and the others do where they cannot map it. The last column holds the sum of the parts against the whole, which is measured by itself.",
        measure: measures::breakdown::run,
        columns: &[
            LAYER,
            ("base", |r| both(r, "base")),
            ("events", |r| both(r, "events")),
            ("flow control", |r| both(r, "flow")),
            ("semantics", |r| both(r, "semantics")),
            ("sum", |r| figure(r, "sum_ns")),
            ("whole", |r| time(r.mean_ns)),
            ("sum / whole", |r| percent(r, "closes")),
        ],
    },
    Part {
        name: "efficiency",
        title: "Interface efficiency",
        about: "What a layer leaves of the bandwidth of the layer it stands on.",
        measure: measures::efficiency::run,
        columns: &[
            LAYER,
            ("over", |r| r.peer.clone().unwrap_or_default()),
            SIZE,
            ("left", |r| percent(r, "efficiency")),
            SPEED,
        ],
    },
    Part {
        name: "cpu",
        title: "Processor time",
        about: "Time of both ranks together for one message. Ranks that poll are busy all the time; what counts is how much they move in it.",
        measure: measures::cpu::run,
        columns: &[
            LAYER,
            SIZE,
            SPEED,
            ("user", |r| figure(r, "user_ns")),
            ("system", |r| figure(r, "system_ns")),
            ("bytes a CPU second", |r| {
                r.more.get("bytes_per_cpu_s").map_or(String::new(), |&b| bandwidth(b))
            }),
        ],
    },
    Part {
        name: "posted",
        title: "120 MB, everything posted beforehand",
        about: "Tagged messages; registered memory is such that the sender may map it.",
        measure: measures::posted::run,
        columns: &[LAYER, SIZE, ("registered", |r| yes(r, "registered")), SPEED],
    },
    Part {
        name: "ipc",
        title: "Unix IPC beside us",
        about: "The system's own ways block and are woken by the kernel, as they are used everywhere.",
        measure: measures::ipc::run,
        columns: &[WHAT, LAYER, SIZE, ("time", |r| time(r.mean_ns)), SPEED],
    },
    Part {
        name: "overload",
        title: "More ranks than processors",
        about: "One turn of a token of 8 bytes.",
        measure: measures::overload::run,
        columns: &[
            LAYER,
            ("ranks", |r| r.ranks.to_string()),
            ("turn", |r| time(r.mean_ns)),
            ("hop", |r| figure(r, "hop_ns")),
        ],
    },
    Part {
        name: "startup",
        title: "Starting jobs",
        about: "From the command to its end, for ranks that exchange addresses with their neighbours, meet, and leave.",
        measure: measures::startup::run,
        columns: &[("ranks", |r| r.ranks.to_string()), ("time", |r| time(r.mean_ns))],
    },
];

const WHAT: Column = ("what", |r| r.bench.clone());
const LAYER: Column = ("layer", |r| r.api.clone());
const SIZE: Column = ("size", |r| size(r.bytes));
const SPEED: Column = ("bandwidth", |r| r.bytes_per_s.map_or(String::new(), bandwidth));
const LIMIT: Column = ("× limit", |r| r.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")));

/// Measures everything and writes the document.
pub fn run(common: &Common, options: &DocumentOptions) -> Result<()> {
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|only| only == name);
    let known = ["ladder", "compare"].into_iter().chain(PARTS.iter().map(|part| part.name));
    let known: Vec<&str> = known.collect();
    if let Some(wrong) = options.only.iter().find(|only| !known.contains(&only.as_str())) {
        bail!("there is no part called {wrong}; there are {}", known.join(", "));
    }
    report::check(&options.out)?;
    let mut text = head();
    // All that was measured: what a comparison comes to is explained by it.
    let mut known = Vec::new();
    if wanted("ladder") {
        eprintln!("ladder");
        let mut driver = Driver::new(common)?;
        let ladder = ladder::measure(&mut driver)?;
        text += &ladder_part(&ladder);
        known.extend(ladder.records);
    }
    for part in PARTS.iter().filter(|part| wanted(part.name)) {
        eprintln!("{}", part.name);
        let mut driver = Driver::new(common)?;
        let records = (part.measure)(&mut driver).with_context(|| format!("measuring {}", part.name))?;
        let _ = write!(text, "\n## {}\n\n{}\n\n{}", part.title, part.about, table(part.columns, &records));
        known.extend(records);
    }
    if wanted("compare") {
        eprintln!("compare");
        text += &compare_part(common, &known)?;
    }
    std::fs::write(&options.out, text).with_context(|| format!("writing {}", options.out.display()))?;
    println!("wrote {}", options.out.display());
    Ok(())
}

fn head() -> String {
    format!(
        "# Performance\n\nWritten by `barewire perf document`; do not edit it.\n\nThe machine: {}.\n\nMethod: [perf.md](perf.md). Times depend on the machine and on who else uses it; ratios within a round are what to believe.\n",
        super::machine_line()
    )
}

fn ladder_part(ladder: &Ladder) -> String {
    let mut text = "\n## The ladder\n\n".to_owned();
    for line in reading::sentences(ladder) {
        let _ = writeln!(text, "- {line}");
    }
    let columns: &[Column] = &[
        WHAT,
        LAYER,
        ("wire", |r| r.via.clone()),
        SIZE,
        ("time", |r| time(r.mean_ns)),
        ("p99", |r| r.p99_ns.map_or(String::new(), time)),
        ("a second", |r| match r.bench.as_str() {
            "bandwidth" => r.bytes_per_s.map_or(String::new(), bandwidth),
            _ => r.msgs_per_s.map_or(String::new(), rate),
        }),
        LIMIT,
    ];
    let _ = write!(text, "\n{}\nWhat limits each rung:\n\n", table(columns, &ladder.records));
    for rung in &RUNGS {
        let _ = writeln!(text, "- **{}** ({}): {}", rung.name, rung.what, held_by(rung.name));
    }
    text
}

/// What a rung cannot do without.
fn held_by(rung: &str) -> &'static str {
    match rung {
        "limit" => "the way of a cache line between two cores, and what one core copies.",
        "ring" => {
            "the same line, a store and a load more on each side; long packets are copied in and out of chunks."
        }
        "message" => {
            "a look at every neighbour's ring when polling, and two copies of what is longer than a packet."
        }
        "region" => "one copy into mapped memory; for a word, checking the key and the rights.",
        "tagged" => {
            "matching at the receiver; long messages wait for their receive and are then copied once or twice."
        }
        "am" => "the core's message and one indirect call.",
        "am2" => "credits, tags and translations, checked on both sides; acknowledgements.",
        "fm" => "the core's message and the handler's table; streams are resumed piece by piece.",
        _ => "the C interface: checking handles, and a lock that threads may need.",
    }
}

/// Ranks that are compared in a crowd, whatever the machine.
const CROWDS: [u32; 3] = [4, 8, 16];

fn compare_part(common: &Common, known: &[Record]) -> Result<String> {
    let beside = |ranks: u32, what: &[&str], bytes: &[usize]| {
        let common = Common { ranks, bytes: bytes.to_vec(), ..common.clone() };
        compare::records(&common, &compare::CompareOptions::everybody(what))
    };
    let mut records = beside(2, &["latency", "rate", "stream"], &common.bytes)?;
    records.extend(beside(2, &["barrier", "bcast", "allreduce", "alltoall"], &common.bytes)?);
    for ranks in CROWDS {
        records.extend(beside(ranks, &["allreduce", "turn"], &[8])?);
        records.extend(beside(ranks, &["alltoall"], &[1024])?);
        records.extend(beside(ranks, &["halo"], &[624])?);
    }
    let columns: &[Column] = &[
        WHAT,
        SIZE,
        ("ranks", |r| r.ranks.to_string()),
        ("ours", |r| format!("{} {}", r.api, time(r.mean_ns))),
        ("peer", |r| r.peer.clone().unwrap_or_default()),
        ("theirs", |r| figure(r, "peer_ns")),
        ("ratio", |r| {
            let of = |value: Option<f64>| value.unwrap_or(f64::NAN);
            format!("{:.2} [{:.2}, {:.2}]", of(r.ratio), of(r.ratio_low), of(r.ratio_high))
        }),
        ("verdict", |r| r.verdict.clone().unwrap_or_default()),
    ];
    let about =
        "Alternating rounds, the same work, the same processors. Ours over theirs: below 1 we are faster.";
    let mut text = format!("\n## Beside others\n\n{about}\n\n{}", table(columns, &records));
    let lost: Vec<&Record> = records.iter().filter(|r| r.verdict.as_deref() == Some("SLOWER")).collect();
    let _ = writeln!(text, "\nLost: {} of {}.", lost.len(), records.len());
    for r in lost {
        let _ = writeln!(
            text,
            "- {} at {} on {} ranks against {}: {}",
            r.bench,
            size(r.bytes),
            r.ranks,
            r.peer.as_deref().unwrap_or_default(),
            reasons::why_slower(r, known)
        );
    }
    Ok(text)
}

/// Records as a table.
fn table(columns: &[Column], records: &[Record]) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = row(columns.iter().map(|(title, _)| (*title).to_owned()).collect());
    text += &row(vec!["---".to_owned(); columns.len()]);
    for record in records {
        text += &row(columns.iter().map(|(_, cell)| cell(record).replace('|', "/")).collect());
    }
    text
}

fn figure(r: &Record, name: &str) -> String {
    r.more.get(name).map_or(String::new(), |&ns| time(ns))
}

fn both(r: &Record, part: &str) -> String {
    let of = |name: String| r.more.get(&name).copied().unwrap_or(f64::NAN);
    let [send, receive] = ["send", "receive"].map(|end| of(format!("{part}_{end}_ns")));
    let percent = (send + receive) / of("sum_ns".to_owned()) * 100.0;
    format!("{}, {percent:.0} %", time(send + receive))
}

fn percent(r: &Record, name: &str) -> String {
    r.more.get(name).map_or(String::new(), |part| format!("{:.0} %", part * 100.0))
}

fn bytes(r: &Record, name: &str) -> String {
    r.more.get(name).map_or(String::new(), |&bytes| size(bytes as u64))
}

fn yes(r: &Record, name: &str) -> String {
    r.more.get(name).map_or(String::new(), |&one| if one == 1.0 { "yes" } else { "no" }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_record() {
        let record = Record { api: "a|b".into(), bytes: 8, ..Record::default() };
        let text = table(&[LAYER, SIZE], &[record.clone(), record]);
        assert_eq!(text, "| layer | size |\n| --- | --- |\n| a/b | 8 B |\n| a/b | 8 B |\n");
    }
}
