//! `barewire perf`: what each layer costs, beside the physical limit and beside others, as ratios from interleaved rounds.

mod compare;
mod figures;
mod ladder;
mod peers;
mod rungs;
mod session;
mod splitc;
mod worker;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use session::Session;

/// Measure what each layer costs, beside the physical limit
#[derive(Debug, clap::Args)]
pub struct PerfOptions {
    #[command(subcommand)]
    what: Option<What>,
    /// Rounds; every figure is the median of as many
    #[arg(long, default_value_t = 9, global = true, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Print one JSON object a line instead of a table
    #[arg(long, global = true)]
    json: bool,
    /// Use TCP between the ranks even though they share a host
    #[arg(long, global = true)]
    tcp: bool,
    /// Leave the ranks where the system puts them instead of pinning each to a processor
    #[arg(long, global = true)]
    no_pin: bool,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The ladder from one cache line up to tagged messages (what `perf` alone does)
    Ladder,
    /// What a read, write, get, put and store of Split-C cost
    Splitc,
    /// Us and other libraries, the same work in alternating rounds
    Compare(compare::CompareOptions),
    /// The libraries we can be compared with: what is installed, and how to install the rest
    Peers(peers::PeersOptions),
    /// Started by the others: does the measured work
    #[command(hide = true)]
    Worker {
        /// Where commands come from and answers go
        folder: PathBuf,
    },
}

/// Runs `barewire perf`.
pub fn run(options: &PerfOptions) -> Result<ExitCode> {
    match &options.what {
        None | Some(What::Ladder) => ladder::run(options)?,
        Some(What::Splitc) => splitc::run(options)?,
        Some(What::Compare(compare)) => compare::run(options, compare)?,
        Some(What::Peers(peers)) => peers::run(peers)?,
        Some(What::Worker { folder }) => worker::serve(folder)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts our own ranks, for one of our layers.
fn ours(options: &PerfOptions, api: &str, ranks: u32) -> Result<Session> {
    let me = std::env::current_exe().context("finding the barewire command")?;
    let mut command = Command::new(&me);
    command.args(["run", "-n", &ranks.to_string(), "--"]).arg(&me).args(["perf", "worker"]);
    command.env("BENCH_API", api);
    if options.tcp {
        command.env("BENCH_TCP", "1");
    }
    Session::start("barewire", command, !options.no_pin)
}
