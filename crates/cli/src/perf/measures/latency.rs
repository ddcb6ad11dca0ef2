//! One way of a message: half of many round trips, and how single ones are distributed.

use anyhow::Result;

use super::{beside_limits, layers};
use crate::perf::driver::Driver;
use crate::perf::record::Record;

/// Every layer at small sizes.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    let apis = layers(driver, &["message", "region", "tagged", "am", "am2", "fm", "mpi"]);
    let sizes = driver.common.sizes(&[8, 24, 64, 256, 1200, 4096]);
    let ranks = driver.common.ranks;
    beside_limits(driver, "latency", &apis, &sizes, ranks, true)
}
