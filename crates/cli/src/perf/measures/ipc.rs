//! What Unix offers between processes, beside us, in the same rounds.

use anyhow::{Result, ensure};

use super::{Driver, Record, beside_limits};
use crate::perf::options::Via;

/// The ways that Unix offers.
pub const WAYS: [&str; 4] = ["pipe", "fifo", "sysv", "unix"];

/// Latency and bandwidth of each, and of our messages.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    ensure!(
        driver.via() == Via::Shm,
        "what Unix offers is within a host: there is no {} for it",
        driver.via().name()
    );
    let mut apis = driver.common.apis(&["message"]);
    apis.extend(WAYS.map(str::to_owned));
    let ranks = driver.common.ranks;
    let sizes = driver.common.sizes(&[8, 1024, 64 << 10]);
    let mut records = beside_limits(driver, "latency", &apis, &sizes, ranks, true)?;
    let sizes = driver.common.sizes(&[8, 4096, 64 << 10, 1 << 20]);
    records.extend(beside_limits(driver, "bandwidth", &apis, &sizes, ranks, false)?);
    Ok(records)
}
