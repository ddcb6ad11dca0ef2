//! LogP: the sender's overhead os, the receiver's overhead or, the latency L that remains, and the gap g between messages.
//!
//! os and or are measured in bursts that the other side does not look at meanwhile; one way is half a round trip; L is what
//! the overheads leave of it. Δ is what one way takes longer than in the layer below.

use anyhow::Result;

use super::{Driver, Record, layers};
use crate::perf::driver::Spec;
use crate::perf::figures::median;
use crate::perf::record;

/// The parameters of every layer.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    let apis = layers(driver, &["message", "tagged", "am", "am2", "fm"]);
    let sizes = driver.common.sizes(&[8]);
    let (via, rounds, ranks) = (driver.via(), driver.common.rounds, driver.common.ranks);
    let mut records: Vec<Record> = Vec::new();
    for &bytes in &sizes {
        let verbs = ["latency", "rate", "logp"];
        let specs: Vec<Spec> = apis
            .iter()
            .flat_map(|api| verbs.map(|verb| Spec::new(api, verb, via, bytes).ranks(ranks)))
            .collect();
        let answers = driver.rounds("logp", &specs, rounds)?;
        let mut lowest = None;
        for (specs, answers) in specs.chunks(verbs.len()).zip(answers.chunks(verbs.len())) {
            let [one_way, gap, overheads] = answers else { continue };
            let of = |name: &str| median(&overheads.iter().filter_map(|a| a.get(name)).collect::<Vec<_>>());
            let (send, receive) = (of("send_ns"), of("receive_ns"));
            let record = Record::new("logp", &specs[0], one_way);
            let whole = record.mean_ns;
            let below = *lowest.get_or_insert(whole);
            let gap = median(&gap.iter().map(|answer| answer.each_ns).collect::<Vec<_>>());
            records.push(
                record
                    .with("os_ns", send)
                    .with("or_ns", receive)
                    .with("l_ns", (whole - send - receive).max(0.0))
                    .with("g_ns", gap)
                    .with("delta_ns", whole - below),
            );
        }
    }
    Ok(records)
}

/// A table with a column for each parameter.
pub fn table(records: &[Record]) {
    println!("{:<10}{:>8}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}", "", "", "one way", "os", "or", "L", "g", "Δ");
    for r in records {
        let figure = |name: &str| record::time(r.more.get(name).copied().unwrap_or(f64::NAN));
        let cells =
            ["os_ns", "or_ns", "l_ns", "g_ns", "delta_ns"].map(|name| format!("{:>11}", figure(name)));
        println!(
            "{:<10}{:>8}{:>11}{}",
            r.api,
            record::size(r.bytes),
            record::time(r.mean_ns),
            cells.concat()
        );
    }
    record::warn_of_noise(records);
}
