//! Bytes a second from one byte to four mebibytes, and the size at which half of the best is reached (N½).

use anyhow::Result;

use super::{SWEEP, beside_limits, layers};
use crate::perf::driver::Driver;
use crate::perf::figures::half_bandwidth_bytes;
use crate::perf::record::{self, Record};

/// Every layer that carries long messages.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    let apis = layers(driver, &["message", "region", "tagged", "am2", "fm", "mpi"]);
    let sizes = driver.common.sizes(&SWEEP);
    let ranks = driver.common.ranks;
    let mut records = beside_limits(driver, "bandwidth", &apis, &sizes, ranks, false)?;
    for api in &apis {
        if let Some(half) = half(&records, api) {
            for record in records.iter_mut().filter(|record| record.api == *api) {
                record.more.insert("n_half_bytes".to_owned(), half.round());
            }
        }
    }
    Ok(records)
}

/// N½ of a layer, from its curve.
pub fn half(records: &[Record], api: &str) -> Option<f64> {
    half_bandwidth_bytes(&curve(records, api))
}

/// A layer's bandwidth by size.
pub fn curve(records: &[Record], api: &str) -> Vec<(f64, f64)> {
    let mut curve: Vec<(f64, f64)> = records
        .iter()
        .filter(|record| record.api == api && record.bench == "bandwidth")
        .filter_map(|record| Some((record.bytes as f64, record.bytes_per_s?)))
        .collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    curve
}

/// A table with a row for each size and a column for each layer.
pub fn table(records: &[Record]) {
    let mut apis: Vec<&str> = Vec::new();
    let mut sizes: Vec<u64> = Vec::new();
    for record in records {
        if !apis.contains(&record.api.as_str()) {
            apis.push(&record.api);
        }
        if !sizes.contains(&record.bytes) {
            sizes.push(record.bytes);
        }
    }
    println!("{:>10}{}", "", apis.iter().map(|api| format!("{api:>13}")).collect::<String>());
    for bytes in sizes {
        let cell = |api: &&str| {
            let found = records.iter().find(|record| record.api == **api && record.bytes == bytes);
            let figure = found.and_then(|record| record.bytes_per_s).map_or("-".into(), record::bandwidth);
            format!("{figure:>13}")
        };
        println!("{:>10}{}", record::size(bytes), apis.iter().map(cell).collect::<String>());
    }
    let half = |api: &&str| half(records, api).map_or("-".into(), |n| record::size(n.round() as u64));
    println!("{:>10}{}", "N½", apis.iter().map(|api| format!("{:>13}", half(api))).collect::<String>());
    record::warn_of_noise(records);
}
