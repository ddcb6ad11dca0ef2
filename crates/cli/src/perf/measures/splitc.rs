//! What Split-C's accesses cost: read, write, get, put and store, over shared memory and over TCP, beside the core's own put.

use anyhow::{Result, bail};

use super::{Driver, Record};
use crate::perf::driver::Spec;
use crate::perf::figures::Estimate;
use crate::perf::options::Via;
use crate::perf::record;

/// What is measured of Split-C, dearest first.
const VERBS: [&str; 5] = ["read", "write", "get", "put", "store"];

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
    let verbs = VERBS.into_iter().filter(|&verb| verb != "get" || bytes == 8);
    specs.extend(verbs.map(|verb| Spec::new("splitc", verb, via, bytes)));
    let answers = driver.rounds("Split-C", &specs, rounds)?;
    let put = specs.iter().position(|spec| spec.verb == "put").expect("listed above");
    let put: Vec<f64> = answers[put].iter().map(|answer| answer.each_ns).collect();
    let record = |(spec, answers): (&Spec, &Vec<_>)| {
        let bench = if spec.api == "region" { "core put" } else { spec.verb };
        let record = Record::new(bench, spec, answers);
        let over_put = Estimate::of_ratio(&record.each_ns, &put).median;
        record.with("over_put", over_put)
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
        println!("  {:<9} {:>11}   {over_put:6.2} x put", r.bench, record::time(r.mean_ns));
    }
    record::warn_of_noise(records);
}
