//! Messages a second: windows of them, each answered by one.

use anyhow::Result;

use super::{beside_limits, layers};
use crate::perf::driver::Driver;
use crate::perf::record::Record;

/// Every layer with small messages.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    let apis = layers(driver, &["ring", "message", "tagged", "am", "am2", "fm", "mpi"]);
    let sizes = driver.common.sizes(&[8, 56]);
    let ranks = driver.common.ranks;
    beside_limits(driver, "rate", &apis, &sizes, ranks, false)
}
