//! What Split-C's accesses cost: read, write, get, put and store, over shared memory and over TCP, beside the core's own put.

use anyhow::Result;

use super::PerfOptions;
use super::figures::{Estimate, median};
use super::session::Session;

/// What is measured of Split-C, dearest first.
const VERBS: [&str; 5] = ["read", "write", "get", "put", "store"];
/// Accesses under way at a time.
const WINDOW: u64 = 64;

/// Measures and shows the table.
pub fn run(options: &PerfOptions) -> Result<()> {
    for tcp in [false, true] {
        let wire = PerfOptions { tcp, what: None, ..*options };
        let (mut splitc, mut core) = (super::ours(&wire, "splitc", 2)?, super::ours(&wire, "core", 2)?);
        for bytes in [8, 1 << 10, 32 << 10] {
            let count = (if tcp { 2_000 } else { 200_000 }) / (1 + bytes as u64 / 512);
            table(options, tcp, bytes, count.max(200), &mut splitc, &mut core)?;
        }
    }
    Ok(())
}

fn table(
    options: &PerfOptions,
    tcp: bool,
    bytes: usize,
    count: u64,
    splitc: &mut Session,
    core: &mut Session,
) -> Result<()> {
    let mut rounds = vec![Vec::new(); 1 + VERBS.len()];
    for _ in 0..options.rounds {
        rounds[0].push(core.ask("region/rate", bytes, count, 1)?);
        for (verb, figures) in VERBS.iter().zip(&mut rounds[1..]) {
            // A get is of one word.
            if *verb != "get" || bytes == 8 {
                figures.push(splitc.ask(&format!("splitc/{verb}"), bytes, count, WINDOW)?);
            }
        }
    }
    let via = if tcp { "tcp" } else { "shm" };
    if !options.json {
        println!("Split-C, {bytes} B over {via}");
    }
    let names = ["core put"].into_iter().chain(VERBS);
    for (name, figures) in names.zip(&rounds).filter(|(_, figures)| !figures.is_empty()) {
        let ns = median(figures);
        let over_put: Vec<f64> = figures.iter().zip(&rounds[4]).map(|(a, put)| a / put).collect();
        let over_put = Estimate::of(&over_put);
        if options.json {
            println!(
                "{{\"bench\":\"{name}\",\"api\":\"splitc\",\"via\":\"{via}\",\"bytes\":{bytes},\"ranks\":2,\"rounds\":{},\"p50_ns\":{ns:.1},\"over_put\":{:.3}}}",
                figures.len(),
                over_put.median,
            );
        } else {
            println!(
                "  {name:<9} {ns:10.1} ns   {:6.2} x put [{:.2}, {:.2}]",
                over_put.median, over_put.low, over_put.high
            );
        }
    }
    Ok(())
}
