//! What active messages cost over virtual interfaces, and where it goes: each row adds one mechanism to the row above.
//!
//! The rows: a message of the core; a VI whose queues are asked themselves (the *base*: descriptors, queues, registered memory); the same
//! through a completion queue (*events*); with credits (*flow control*); and active messages (*semantics*: handlers, tags,
//! translations). Below them the same active messages over the core, and one completion queue with more and more VIs: an
//! event costs the same.

use anyhow::{Result, bail};

use super::{Driver, Record};
use crate::perf::driver::Spec;
use crate::perf::figures::median;
use crate::perf::options::Via;
use crate::perf::record;

/// Rows: the layer, what is measured of it, what the row is called, and the row it adds to.
const ROWS: [(&str, &str, &str, usize); 6] = [
    ("message", "latency", "a message of the core", 0),
    ("via", "polled", "base: a VI, its queues asked", 0),
    ("via", "queued", "events: a completion queue", 1),
    ("via", "credited", "flow control: credits", 2),
    ("amvia", "latency", "semantics: active messages", 3),
    ("am2", "latency", "active messages over the core", 0),
];
/// The row of the bare VI.
const RAW: usize = 1;
/// VIs on one completion queue.
const MANY: [u64; 4] = [1, 10, 100, 1000];

/// Every row over every wire, or over the one asked for.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    if driver.in_job() {
        bail!("virtual interfaces are measured by ranks of their own; run this outside of a job");
    }
    let wires = driver.common.via.map_or(vec![Via::Shm, Via::Tcp], |via| vec![via]);
    let mut records = Vec::new();
    for via in wires {
        for bytes in driver.common.sizes(&[8]) {
            records.extend(one_size(driver, via, bytes)?);
        }
    }
    Ok(records)
}

fn one_size(driver: &mut Driver, via: Via, bytes: usize) -> Result<Vec<Record>> {
    let rounds = driver.common.rounds;
    let mut specs: Vec<Spec> = ROWS.iter().map(|(api, verb, ..)| Spec::new(api, verb, via, bytes)).collect();
    specs.extend(MANY.map(|vis| Spec { window: vis, ..Spec::new("via", "many", via, bytes) }));
    let answers = driver.rounds("virtual interfaces", &specs, rounds)?;
    let record = |at: usize| {
        let spec = &specs[at];
        let record = Record::new(spec.verb, spec, &answers[at]);
        let Some(&(.., below)) = ROWS.get(at) else { return record.with("vis", spec.window as f64) };
        let over = |below: usize| {
            let rounds = answers[at].iter().zip(&answers[below]);
            median(&rounds.map(|(own, below)| own.each_ns - below.each_ns).collect::<Vec<_>>())
        };
        let record = record.with("added_ns", over(below));
        if spec.api == "amvia" { record.with("delta_ns", over(RAW)) } else { record }
    };
    Ok((0..specs.len()).map(record).collect())
}

/// A table for each wire and size.
pub fn table(records: &[Record]) {
    for records in records.chunks(ROWS.len() + MANY.len()) {
        let Some(first) = records.first() else { return };
        println!("one way of {} over {}, and what each mechanism adds", record::size(first.bytes), first.via);
        for (r, (_, _, title, _)) in records.iter().zip(ROWS) {
            let added = r.more.get("added_ns").copied().unwrap_or(f64::NAN);
            let delta =
                r.more.get("delta_ns").map_or(String::new(), |ns| format!("   Δ over a VI: {ns:+.1} ns"));
            println!("  {title:<32}{:>12}  {added:+10.1} ns{delta}", record::time(r.mean_ns));
        }
        for (r, vis) in records[ROWS.len()..].iter().zip(MANY) {
            let title = format!("{vis} on one completion queue");
            println!("  {title:<32}{:>12}", record::time(r.mean_ns));
        }
    }
    record::warn_of_noise(records);
}
