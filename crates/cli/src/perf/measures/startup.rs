//! From the command to ranks that have all met: what starting a job costs.

use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{Driver, Record};
use crate::perf::driver::{Spec, launcher};
use crate::perf::keeper;
use crate::perf::options::Via;
use crate::perf::worker::Answer;

/// Starting jobs of several sizes.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    if driver.in_job() {
        bail!("a job that runs cannot measure how it was started; run this outside of one");
    }
    let me = std::env::current_exe().context("finding the barewire command")?;
    let crowds = if driver.common.ranks > 2 { vec![driver.common.ranks] } else { vec![1, 2, 4, 16, 64] };
    let mut records = Vec::new();
    for ranks in crowds {
        let mut answers = Vec::new();
        for round in 0..driver.common.rounds.min(5) {
            driver.progress(&format!("startup: round {}, {ranks} ranks", round + 1));
            let start = Instant::now();
            let mut command = launcher(ranks)?;
            command.arg(&me).args(["hello", "--exchange"]).stdout(Stdio::null());
            keeper::ends_with_us(&mut command);
            let status = command.status().context("starting barewire run")?;
            anyhow::ensure!(status.success(), "a job of {ranks} ranks failed: {status}");
            answers.push(Answer::of(start.elapsed().as_nanos() as f64));
        }
        let spec = Spec::new("run", "startup", Via::Shm, 0).ranks(ranks);
        let mut record = Record::new("startup", &spec, &answers);
        record.msgs_per_s = None;
        records.push(record);
    }
    driver.progress("");
    Ok(records)
}
