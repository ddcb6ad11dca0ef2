//! More ranks than processors: a token goes round all of them, and each has to be scheduled for it.

use anyhow::Result;

use super::{Driver, Record, layers};
use crate::perf::driver::Spec;

/// Numbers of ranks, up to what `--ranks` says or 64.
const CROWDS: [u32; 6] = [2, 4, 8, 16, 32, 64];

/// One turn of a token by number of ranks.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    let apis = layers(driver, &["message", "tagged", "mpi"]);
    let bytes = driver.common.sizes(&[8])[0];
    let via = driver.via();
    let crowds: Vec<u32> = match driver.in_job() {
        true => vec![driver.common.ranks],
        false if driver.common.ranks > 2 => {
            CROWDS.into_iter().chain([driver.common.ranks]).filter(|&n| n <= driver.common.ranks).collect()
        }
        false => CROWDS.to_vec(),
    };
    let mut records = Vec::new();
    for (at, &ranks) in crowds.iter().enumerate() {
        if crowds[..at].contains(&ranks) {
            continue;
        }
        let specs: Vec<Spec> =
            apis.iter().map(|api| Spec::new(api, "turn", via, bytes).ranks(ranks)).collect();
        let answers = driver.rounds(&format!("{ranks} ranks"), &specs, driver.common.rounds.min(5))?;
        for (spec, answers) in specs.iter().zip(&answers) {
            let record = Record::new("overload", spec, answers);
            let hop = record.mean_ns / f64::from(ranks);
            records.push(record.with("hop_ns", hop));
        }
        // So many ranks shall not disturb the next.
        driver.rest();
    }
    Ok(records)
}
