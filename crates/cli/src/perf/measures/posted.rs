//! 120 MB from one rank to the other with every receive posted beforehand, into memory that the sender may map and that it may not.

use anyhow::Result;

use super::{Driver, Record};
use crate::perf::driver::Spec;

/// Bytes that are moved in a round.
const MOVED: u64 = 120_000_000;

/// Tagged messages, by size.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    let sizes = driver.common.sizes(&[4096, 64 << 10, 1 << 20]);
    let (via, ranks, rounds) = (driver.via(), driver.common.ranks, driver.common.rounds.min(5));
    let own = driver.common.count;
    let mut records = Vec::new();
    for &bytes in &sizes {
        driver.common.count = own.or(Some(MOVED.div_ceil(bytes.max(1) as u64)));
        driver.common.warmup = driver.common.warmup.or(Some(1));
        let specs =
            ["posted", "posted-shared"].map(|verb| Spec::new("tagged", verb, via, bytes).ranks(ranks));
        let answers = driver.rounds("posted", &specs, rounds)?;
        for (spec, answers) in specs.iter().zip(&answers) {
            let shared = f64::from(u8::from(spec.verb == "posted-shared"));
            records.push(Record::new("posted", spec, answers).with("registered", shared));
        }
    }
    driver.common.count = own;
    Ok(records)
}
