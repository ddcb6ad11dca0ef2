//! The measurements, one a file. Each makes a list of what to measure, has the driver do it in alternating rounds, and returns
//! records. Adding one is a file here and a line in [`super::What`].

pub mod bandwidth;
pub mod breakdown;
pub mod cpu;
pub mod efficiency;
pub mod ipc;
pub mod latency;
pub mod logp;
pub mod overload;
pub mod posted;
pub mod rate;
pub mod scale;
pub mod splitc;
pub mod startup;
pub mod via;

use anyhow::Result;

use super::driver::{Driver, Spec};
use super::options::Via;
use super::record::Record;
use super::worker::Answer;

/// Sizes from one byte to four mebibytes.
pub const SWEEP: [usize; 12] =
    [1, 8, 64, 256, 1024, 4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20];

/// The longest message of a layer over a wire, where it has one.
pub fn longest(api: &str, via: Via) -> usize {
    match api {
        _ if via == Via::Sim => 1200,
        "am" => 56,
        "line" => 64,
        _ => 8 << 20,
    }
}

/// Layers that a driver can measure over a wire, of those asked for or of the usual ones.
pub fn layers(driver: &Driver, usual: &[&str]) -> Vec<String> {
    let asked = driver.common.apis(usual);
    if driver.common.api.is_empty() {
        let can = |api: &String| match driver.via() {
            Via::Sim => api == "message",
            Via::Tcp => !matches!(api.as_str(), "line" | "ring" | "copy" | "region"),
            Via::Shm => true,
        };
        return asked.into_iter().filter(|api| can(api) && !(driver.in_job() && api == "mpi")).collect();
    }
    asked
}

/// What nothing over this wire can be faster than, at one size: each of these, and the slowest of them counts.
pub struct Limit {
    parts: Vec<(Spec, f64)>,
}

impl Limit {
    /// The limit of a latency.
    pub fn latency(via: Via, bytes: usize) -> Limit {
        let parts = match via {
            Via::Shm => vec![
                (Spec::new("line", "latency", via, 8), 1.0),
                (Spec::new("copy", "rate", via, bytes.max(8)).effort(0.3), 1.0),
            ],
            Via::Tcp => vec![(Spec::new("socket", "latency", via, bytes.max(1)), 1.0)],
            Via::Sim => vec![(Spec::new("line", "latency", via, bytes), 1.0)],
        };
        Limit { parts }
    }

    /// The limit of a stream of messages. Small ones can be bundled, so bytes alone count on a socket.
    pub fn rate(via: Via, bytes: usize) -> Limit {
        const BULK: usize = 256 << 10;
        let parts = match via {
            Via::Tcp => {
                vec![(
                    Spec::new("socket", "rate", via, BULK.max(bytes)),
                    bytes as f64 / BULK.max(bytes) as f64,
                )]
            }
            _ => vec![(Spec::new("copy", "rate", via, bytes.max(8)).effort(0.3), 1.0)],
        };
        Limit { parts }
    }

    pub fn specs(&self) -> impl Iterator<Item = Spec> + '_ {
        self.parts.iter().map(|(spec, _)| spec.clone())
    }

    /// Round by round, from the answers to [`Limit::specs`].
    pub fn rounds(&self, answers: &[Vec<Answer>]) -> Vec<f64> {
        let rounds = answers.first().map_or(0, Vec::len);
        let slowest = |round: usize| {
            let each = self.parts.iter().zip(answers).map(|((_, scale), of)| of[round].each_ns * scale);
            each.fold(0.0, f64::max)
        };
        (0..rounds).map(slowest).collect()
    }
}

/// Measures one verb of several layers at several sizes, each beside its limit; distributions too if asked for.
pub fn beside_limits(
    driver: &mut Driver,
    bench: &str,
    apis: &[String],
    sizes: &[usize],
    ranks: u32,
    spread: bool,
) -> Result<Vec<Record>> {
    let (via, rounds) = (driver.via(), driver.common.rounds);
    let mut records = Vec::new();
    for &bytes in sizes {
        let verb = if bench == "latency" { "latency" } else { "rate" };
        let limit = if verb == "latency" { Limit::latency(via, bytes) } else { Limit::rate(via, bytes) };
        let fitting: Vec<&String> = apis.iter().filter(|api| bytes <= longest(api, via)).collect();
        let mut specs: Vec<Spec> = limit.specs().map(|spec| spec.ranks(ranks)).collect();
        let limits = specs.len();
        for api in &fitting {
            specs.push(Spec::new(api, verb, via, bytes).ranks(ranks));
            if spread {
                specs.push(Spec::new(api, "spread", via, bytes).ranks(ranks).effort(0.5));
            }
        }
        let answers = driver.rounds(bench, &specs, rounds)?;
        let (limit_answers, own) = answers.split_at(limits);
        let limit = limit.rounds(limit_answers);
        let step = if spread { 2 } else { 1 };
        for (at, answers) in own.chunks(step).enumerate() {
            let record = Record::new(bench, &specs[limits + at * step], &answers[0]).beside_limit(&limit);
            records.push(if spread { record.with_spread(&answers[1]) } else { record });
        }
    }
    Ok(records)
}
