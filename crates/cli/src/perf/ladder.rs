//! The ladder: every rung beside the one below it, from the physical limit up.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use anyhow::Result;

use super::PerfOptions;
use super::figures::{Estimate, median};

/// One measurement: a rung, what it does, and how much of it.
struct Step {
    rung: &'static str,
    verb: &'static str,
    bytes: usize,
    count: u64,
    window: u64,
}

impl Step {
    const fn new(rung: &'static str, verb: &'static str, bytes: usize, count: u64, window: u64) -> Step {
        Step { rung, verb, bytes, count, window }
    }
}

/// A column of the table: what is compared with what, at one size.
struct Column {
    title: &'static str,
    /// The rungs, lowest first; each is compared with the one before it.
    steps: &'static [Step],
    /// Whether figures are shown as bytes over time instead of time.
    bandwidth: bool,
}

const COLUMNS: &[Column] = &[
    Column {
        title: "8 B, one way",
        steps: &[
            Step::new("line", "latency", 8, 100_000, 1),
            Step::new("ring", "latency", 8, 100_000, 1),
            Step::new("message", "latency", 8, 100_000, 1),
            Step::new("am", "latency", 8, 100_000, 1),
            Step::new("fm", "latency", 8, 100_000, 1),
            Step::new("tagged", "latency", 8, 100_000, 1),
        ],
        bandwidth: false,
    },
    Column {
        title: "8 B, each of many",
        steps: &[
            Step::new("ring", "rate", 8, 1_000_000, 1),
            Step::new("message", "rate", 8, 1_000_000, 64),
            Step::new("am", "rate", 8, 1_000_000, 64),
            Step::new("fm", "rate", 8, 500_000, 64),
            Step::new("tagged", "rate", 8, 500_000, 64),
        ],
        bandwidth: false,
    },
    Column {
        title: "4 KiB",
        steps: &[
            Step::new("copy", "rate", 4 << 10, 50_000, 1),
            Step::new("ring", "rate", 4 << 10, 50_000, 1),
            Step::new("message", "rate", 4 << 10, 50_000, 64),
            Step::new("fm", "rate", 4 << 10, 50_000, 64),
            Step::new("tagged", "rate", 4 << 10, 50_000, 64),
        ],
        bandwidth: true,
    },
    Column {
        title: "64 KiB",
        steps: &[
            Step::new("copy", "rate", 64 << 10, 5_000, 1),
            Step::new("ring", "rate", 64 << 10, 5_000, 1),
            Step::new("message", "rate", 64 << 10, 5_000, 16),
            Step::new("fm", "rate", 64 << 10, 5_000, 16),
            Step::new("tagged", "rate", 64 << 10, 5_000, 16),
        ],
        bandwidth: true,
    },
    Column {
        title: "1 MiB",
        steps: &[
            Step::new("copy", "rate", 1 << 20, 400, 1),
            Step::new("region", "rate", 1 << 20, 400, 1),
            Step::new("ring", "rate", 1 << 20, 400, 1),
            Step::new("message", "rate", 1 << 20, 400, 8),
            Step::new("fm", "rate", 1 << 20, 400, 8),
            Step::new("tagged", "rate", 1 << 20, 400, 8),
        ],
        bandwidth: true,
    },
    Column {
        title: "8 B over TCP, one way",
        steps: &[Step::new("socket", "latency", 8, 5_000, 1), Step::new("tcp", "latency", 8, 5_000, 1)],
        bandwidth: false,
    },
];

/// Measures and shows the ladder.
pub fn run(options: &PerfOptions) -> Result<()> {
    let mut shm = super::ours(options, "core", 2)?;
    let mut am = super::ours(options, "am", 2)?;
    let mut fm = super::ours(options, "fm", 2)?;
    let mut tcp = super::ours(&PerfOptions { tcp: true, what: None, ..*options }, "core", 2)?;
    let mut rounds: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for round in 0..options.rounds {
        for (c, column) in COLUMNS.iter().enumerate() {
            for (s, step) in column.steps.iter().enumerate() {
                progress(options, round, column.title, step.rung);
                let what = format!("{}/{}", step.rung, step.verb);
                let each = match step.rung {
                    "tcp" => tcp.ask("message/latency", step.bytes, step.count, step.window)?,
                    "am" => am.ask(&what, step.bytes, step.count, step.window)?,
                    "fm" => fm.ask(&what, step.bytes, step.count, step.window)?,
                    _ => shm.ask(&what, step.bytes, step.count, step.window)?,
                };
                rounds.entry((c, s)).or_default().push(each);
            }
        }
    }
    clear_progress(options);
    for (c, column) in COLUMNS.iter().enumerate() {
        if !options.json {
            println!("{}", column.title);
        }
        for (s, step) in column.steps.iter().enumerate() {
            let here = &rounds[&(c, s)];
            let limit = &rounds[&(c, 0)];
            let below = &rounds[&(c, s.saturating_sub(1))];
            show(options, column, step, here, limit, below);
        }
    }
    Ok(())
}

/// Per-round ratios of two measurements.
fn ratios(over: &[f64], under: &[f64]) -> Estimate {
    let ratios: Vec<f64> = over.iter().zip(under).map(|(a, b)| a / b).collect();
    Estimate::of(&ratios)
}

fn show(options: &PerfOptions, column: &Column, step: &Step, here: &[f64], limit: &[f64], below: &[f64]) {
    let ns = median(here);
    let over_limit = ratios(here, limit);
    let over_below = ratios(here, below);
    if options.json {
        let rate = if column.bandwidth {
            format!("\"bytes_per_s\":{:.0}", step.bytes as f64 / ns * 1e9)
        } else {
            format!("\"msgs_per_s\":{:.0}", 1e9 / ns)
        };
        println!(
            "{{\"bench\":\"{}\",\"api\":\"{}\",\"via\":\"{}\",\"bytes\":{},\"ranks\":2,\"rounds\":{},\"p50_ns\":{ns:.1},{rate},\"limit\":{:.1},\"ratio\":{:.3}}}",
            step.verb,
            step.rung,
            if step.rung == "tcp" || step.rung == "socket" { "tcp" } else { "shm" },
            step.bytes,
            here.len(),
            median(limit),
            over_limit.median,
        );
        return;
    }
    let figure = if column.bandwidth {
        format!("{:8.2} GB/s", step.bytes as f64 / ns)
    } else {
        format!("{ns:8.1} ns  ")
    };
    println!(
        "  {:<9} {figure}   {:5.2} x the limit   {:5.2} x the rung below [{:.2}, {:.2}]",
        step.rung, over_limit.median, over_below.median, over_below.low, over_below.high
    );
}

fn progress(options: &PerfOptions, round: u32, title: &str, rung: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[Kround {} of {}: {title}, {rung}", round + 1, options.rounds);
        let _ = std::io::stderr().flush();
    }
}

fn clear_progress(_: &PerfOptions) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}
