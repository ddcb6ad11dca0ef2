//! Interface efficiency: what a layer leaves of the bandwidth of the layer below it, by size.

use anyhow::{Result, bail};

use super::{Driver, Record, layers, longest};
use crate::perf::driver::Spec;
use crate::perf::figures::Estimate;
use crate::perf::record;

/// Which layer stands on which, and how it is used; MPI also beside Fast Messages, by which it was judged first: with calls that return when the
/// work is done, as those of the layers below do, and with posted ones.
const BELOW: [(&str, &str, &str); 9] = [
    ("message", "rate", "ring"),
    ("region", "rate", "copy"),
    ("tagged", "rate", "message"),
    ("am", "rate", "message"),
    ("am2", "rate", "message"),
    ("fm", "rate", "message"),
    ("mpi", "rate", "tagged"),
    ("mpi", "stream", "fm"),
    ("mpi", "rate", "fm"),
];

/// Every layer over the one below, in the same rounds.
pub fn run(driver: &mut Driver) -> Result<Vec<Record>> {
    let apis = layers(driver, &["message", "region", "tagged", "am", "am2", "fm", "mpi"]);
    if let Some(wrong) = apis.iter().find(|api| BELOW.iter().all(|(known, ..)| known != api)) {
        let mut known = BELOW.map(|(api, ..)| api).to_vec();
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
        let fitting: Vec<(&str, &'static str, &str)> = BELOW
            .into_iter()
            .filter(|(api, ..)| apis.iter().any(|a| a == api) && bytes <= longest(api, via))
            .map(|(api, verb, below)| {
                (api, verb, if driver.via().name() == "tcp" && below == "ring" { "socket" } else { below })
            })
            .collect();
        let mut specs: Vec<Spec> = Vec::new();
        for (name, verb) in fitting.iter().flat_map(|(api, verb, below)| [(*below, "rate"), (*api, *verb)]) {
            if !specs.iter().any(|spec| spec.api == name && spec.verb == verb) {
                specs.push(Spec::new(name, verb, via, bytes).ranks(ranks));
            }
        }
        let answers = driver.rounds("efficiency", &specs, rounds)?;
        for (api, verb, below) in fitting {
            let at = |name: &str, verb: &str| {
                specs.iter().position(|spec| spec.api == name && spec.verb == verb).expect("listed above")
            };
            let (own, under) = (at(api, verb), &answers[at(below, "rate")]);
            let under: Vec<f64> = under.iter().map(|answer| answer.each_ns).collect();
            let mut record = Record::new("efficiency", &specs[own], &answers[own]).beside_limit(&under);
            let left = Estimate::of_ratio(&under, &record.each_ns);
            if api == "mpi" && verb == "rate" {
                record.api.push_str(" posted");
            }
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
            "  {:<10} over {:<8} {:>8}  {left:5.1} %  {:>12}",
            record.api,
            record.peer.as_deref().unwrap_or("-"),
            record::size(record.bytes),
            record.bytes_per_s.map_or("-".into(), record::bandwidth),
        );
    }
    record::warn_of_noise(records);
}
