//! Throughput over processor time: what a message costs both ends in their own code and in the kernel.

use anyhow::Result;

use super::{Driver, Record, layers};
use crate::perf::driver::Spec;
use crate::perf::figures::median;
use crate::perf::options::Via;

/// Every layer, and for comparison the kernel's own ways.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    let usual: &[&str] = match driver.via() {
        Via::Tcp => &["socket", "nagle", "message", "tagged", "fm"],
        _ => &["message", "tagged", "am2", "fm", "pipe", "unix"],
    };
    let apis = layers(driver, usual);
    let sizes = driver.common.sizes(&[64, 4096, 64 << 10]);
    let (via, rounds, ranks) = (driver.via(), driver.common.rounds, driver.common.ranks);
    let mut records = Vec::new();
    for &bytes in &sizes {
        // The kernel counts processor time in steps of some milliseconds.
        let spec = |api: &String| Spec::new(api, "cpu", via, bytes).ranks(ranks).effort(5.0);
        let specs: Vec<Spec> = apis.iter().map(spec).collect();
        let answers = driver.rounds("cpu", &specs, rounds)?;
        for (spec, answers) in specs.iter().zip(&answers) {
            // Both figures are of one message.
            let of = |name: &str| median(&answers.iter().filter_map(|a| a.get(name)).collect::<Vec<_>>());
            let (user, system, moved) = (of("user_ns"), of("system_ns"), bytes as f64);
            let record = Record::new("cpu", spec, answers).with("user_ns", user).with("system_ns", system);
            records.push(record.with("bytes_per_cpu_s", moved / (user + system).max(0.001) * 1e9));
        }
    }
    Ok(records)
}
