//! Interface efficiency: what a layer leaves of the bandwidth of the layer below it, by size.

use anyhow::{Result, bail};

use super::{Driver, Record, layers, longest};
use crate::perf::driver::Spec;
use crate::perf::figures::Estimate;
use crate::perf::record;

/// Which layer stands on which; MPI also beside Fast Messages, by which it was judged first.
const BELOW: [(&str, &str); 8] = [
    ("message", "ring"),
    ("region", "copy"),
    ("tagged", "message"),
    ("am", "message"),
    ("am2", "message"),
    ("fm", "message"),
    ("mpi", "tagged"),
    ("mpi", "fm"),
];

/// Every layer over the one below, in the same rounds.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    let apis = layers(driver, &["message", "region", "tagged", "am", "am2", "fm", "mpi"]);
    if let Some(wrong) = apis.iter().find(|api| BELOW.iter().all(|(known, _)| known != api)) {
        let mut known = BELOW.map(|(api, _)| api).to_vec();
        known.dedup();
        let known = known.join(", ");
        bail!("{wrong} is not measured over another layer; {known} are");
    }
    let sizes = driver.common.sizes(&[16, 256, 4096, 64 << 10, 1 << 20, 4 << 20]);
    run_for(driver, &apis, &sizes)
}

/// The layers named, at the sizes named.
pub fn run_for(driver: &mut Driver, apis: &[String], sizes: &[usize]) -> Result<Vec<Record>> {
    let (via, rounds, ranks) = (driver.via(), driver.common.rounds, driver.common.ranks);
    let mut records = Vec::new();
    for &bytes in sizes {
        let fitting: Vec<(&str, &str)> = BELOW
            .into_iter()
            .filter(|(api, _)| apis.iter().any(|a| a == api) && bytes <= longest(api, via))
            .map(|(api, below)| {
                (api, if driver.via().name() == "tcp" && below == "ring" { "socket" } else { below })
            })
            .collect();
        let mut specs: Vec<Spec> = Vec::new();
        for name in fitting.iter().flat_map(|(api, below)| [*below, *api]) {
            if !specs.iter().any(|spec| spec.api == name) {
                specs.push(Spec::new(name, "rate", via, bytes).ranks(ranks));
            }
        }
        let answers = driver.rounds("efficiency", &specs, rounds)?;
        for (api, below) in fitting {
            let at = |name: &str| specs.iter().position(|spec| spec.api == name).expect("listed above");
            let under: Vec<f64> = answers[at(below)].iter().map(|answer| answer.each_ns).collect();
            let mut record =
                Record::new("efficiency", &specs[at(api)], &answers[at(api)]).beside_limit(&under);
            let left = Estimate::of_ratio(&under, &record.each_ns);
            record.peer = Some(below.to_owned());
            records.push(record.with("efficiency", left.median));
        }
    }
    Ok(records)
}

/// A table of percentages.
pub fn table(records: &[Record]) {
    println!("what each layer leaves of the bandwidth of the one below");
    for record in records {
        let left = record.more.get("efficiency").copied().unwrap_or(f64::NAN) * 100.0;
        println!(
            "  {:<8} over {:<8} {:>8}  {left:5.1} %  {:>12}",
            record.api,
            record.peer.as_deref().unwrap_or("-"),
            record::size(record.bytes),
            record.bytes_per_s.map_or("-".into(), record::bandwidth),
        );
    }
    record::warn_of_noise(records);
}
