//! What Split-C's accesses cost: read, write, get, put and store, over shared memory and over TCP, beside the core's own put and
//! beside the same work on a bare virtual interface.
//!
//! A read or write stands beside one RDMA operation and its completion, a get, put or store beside one of a window of them whose
//! completions are all taken. Split-C itself runs on the core, so its Δ may be below zero.

use anyhow::{Result, bail};

use super::{Driver, Record};
use crate::perf::driver::Spec;
use crate::perf::figures::{Estimate, median};
use crate::perf::options::Via;
use crate::perf::record;

/// What is measured of Split-C, and what of a VI stands beside it. `store` finds its receiver busy, `awaited` finds it waiting.
const VERBS: [(&str, &str); 6] = [
    ("read", "rdma-read"),
    ("write", "rdma-write"),
    ("get", "rdma-reads"),
    ("put", "rdma-writes"),
    ("store", "rdma-writes"),
    ("awaited", "rdma-writes"),
];

/// Every access over every wire, or over the one asked for.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    if driver.in_job() {
        bail!("Split-C is measured by ranks of its own; run this outside of a job");
    }
    let wires = driver.common.via.map_or(vec![Via::Shm, Via::Tcp], |via| vec![via]);
    let mut records = Vec::new();
    for via in wires {
        for bytes in driver.common.sizes(&[8, 1 << 10, 32 << 10]) {
            records.extend(one_size(driver, via, bytes)?);
        }
    }
    Ok(records)
}

fn one_size(driver: &mut Driver, via: Via, bytes: usize) -> Result<Vec<Record>> {
    let rounds = driver.common.rounds;
    let mut specs = vec![Spec::new("region", "rate", via, bytes)];
    // A get is of one word.
    let verbs: Vec<_> = VERBS.into_iter().filter(|&(verb, _)| verb != "get" || bytes == 8).collect();
    for (_, bare) in &verbs {
        let spec = Spec::new("via", bare, via, bytes);
        if !specs.contains(&spec) {
            specs.push(spec);
        }
    }
    specs.extend(verbs.iter().map(|(verb, _)| Spec::new("splitc", verb, via, bytes)));
    let answers = driver.rounds("Split-C", &specs, rounds)?;
    let times = |name: &str| -> Vec<f64> {
        let at = specs.iter().position(|spec| spec.verb == name).expect("listed above");
        answers[at].iter().map(|answer| answer.each_ns).collect()
    };
    let put = times("put");
    let record = |(spec, answers): (&Spec, &Vec<_>)| {
        let bench = if spec.api == "region" { "core put" } else { spec.verb };
        let record = Record::new(bench, spec, answers);
        let over_put = Estimate::of_ratio(&record.each_ns, &put).median;
        let record = record.with("over_put", over_put);
        let Some((_, bare)) = VERBS.iter().find(|(verb, _)| *verb == spec.verb) else { return record };
        let more: Vec<f64> = record.each_ns.iter().zip(times(bare)).map(|(own, bare)| own - bare).collect();
        record.with("delta_ns", median(&more))
    };
    Ok(specs.iter().zip(&answers).map(record).collect())
}

/// A table for each wire and size.
pub fn table(records: &[Record]) {
    let mut head = String::new();
    for r in records {
        let line = format!("Split-C, {} over {}", record::size(r.bytes), r.via);
        if line != head {
            println!("{line}");
            head = line;
        }
        let over_put = r.more.get("over_put").copied().unwrap_or(f64::NAN);
        let delta = r.more.get("delta_ns").map_or(String::new(), |ns| format!("   Δ over a VI: {ns:+.1} ns"));
        println!("  {:<12} {:>11}   {over_put:6.2} x put{delta}", r.bench, record::time(r.mean_ns));
    }
    record::warn_of_noise(records);
}
