//! `barewire perf`: what each layer costs, beside the physical limit and beside others, as ratios from interleaved rounds.

mod compare;
mod document;
mod driver;
mod figures;
mod keeper;
mod ladder;
mod layers;
mod measures;
mod options;
mod peers;
mod reading;
mod reasons;
mod record;
mod report;
mod rungs;
mod session;
mod simulated;
mod startup;
mod trips;
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use driver::Driver;
use options::Common;
use record::Record;

/// Measure what each layer costs, beside the physical limit
#[derive(Debug, clap::Args)]
pub struct PerfOptions {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The ladder from one cache line up to MPI (what `perf` alone does)
    Ladder,
    /// One way of a message, and how it is distributed
    Latency,
    /// Bytes a second by size, and the size with half of the best
    Bandwidth,
    /// Messages a second
    Rate,
    /// The parameters of the LogP model
    Logp,
    /// Where the time of one message goes
    Breakdown,
    /// What a layer leaves of the bandwidth of the layer below
    Efficiency,
    /// Throughput over processor time
    Cpu,
    /// 120 MB with every receive posted beforehand
    Posted,
    /// Pipes, sockets and System V messages beside us
    Ipc,
    /// More ranks than processors
    Overload,
    /// Starting jobs
    Startup,
    /// What a read, write, get, put and store of Split-C cost
    Splitc,
    /// What active messages cost over virtual interfaces, and where it goes
    Via,
    /// What an end costs when much is under way: operations of BMI, VIs on one completion queue
    Scale,
    /// Us and other libraries, the same work in alternating rounds
    Compare(compare::CompareOptions),
    /// Time and memory of a start, beside other launchers
    Launchers(startup::StartupOptions),
    /// The libraries we can be compared with: what is installed, and how to install the rest
    Peers(peers::PeersOptions),
    /// Write docs/performance.md from measurements on this machine
    Document(document::DocumentOptions),
    /// Started by the others: starts a program under measurement, and ends it with them
    #[command(hide = true)]
    Keeper {
        /// The program and its arguments
        #[arg(last = true, required = true)]
        program: Vec<OsString>,
    },
    /// Started by the others: does the measured work
    #[command(hide = true)]
    Worker {
        /// Where commands come from and answers go
        folder: PathBuf,
    },
}

impl What {
    /// What every layer that is asked for has to be good for, as commands call it.
    fn verbs(&self) -> &'static [&'static str] {
        match self {
            What::Latency => &["latency"],
            What::Bandwidth | What::Rate => &["rate"],
            What::Logp => &["latency", "rate", "logp"],
            What::Cpu => &["cpu"],
            What::Ipc => &["latency", "rate"],
            What::Overload => &["turn"],
            // Others measure the same layers whatever is asked for, or look for themselves.
            _ => &[],
        }
    }
}

/// Runs `barewire perf`.
pub fn run(options: &PerfOptions) -> Result<ExitCode> {
    let common = &options.common;
    let what = options.what.as_ref().unwrap_or(&What::Ladder);
    layers::check(&common.api, what.verbs())?;
    if common.html.is_some() && matches!(what, What::Launchers(_) | What::Peers(_) | What::Document(_)) {
        bail!("there is no page of this; leave out --html");
    }
    if let Some(hosts) = &common.hosts {
        return driver::on_hosts(common, hosts);
    }
    match what {
        What::Ladder => ladder::run(common)?,
        What::Latency => measure(common, measures::latency::run, record::usual_table)?,
        What::Bandwidth => measure(common, measures::bandwidth::run, measures::bandwidth::table)?,
        What::Rate => measure(common, measures::rate::run, record::usual_table)?,
        What::Logp => measure(common, measures::logp::run, measures::logp::table)?,
        What::Breakdown => measure(common, measures::breakdown::run, measures::breakdown::table)?,
        What::Efficiency => measure(common, measures::efficiency::run, measures::efficiency::table)?,
        What::Cpu => measure(common, measures::cpu::run, record::usual_table)?,
        What::Posted => measure(common, measures::posted::run, record::usual_table)?,
        What::Ipc => measure(common, measures::ipc::run, record::usual_table)?,
        What::Overload => measure(common, measures::overload::run, record::usual_table)?,
        What::Startup => measure(common, measures::startup::run, record::usual_table)?,
        What::Splitc => measure(common, measures::splitc::run, measures::splitc::table)?,
        What::Via => measure(common, measures::via::run, measures::via::table)?,
        What::Scale => {
            measure_and_draw(common, measures::scale::run, measures::scale::table, report::scale)?;
        }
        What::Compare(compare) => compare::run(common, compare)?,
        What::Launchers(launchers) => startup::run(common.rounds, common.json, launchers)?,
        What::Peers(peers) => peers::run(peers)?,
        What::Document(document) => document::run(common, document)?,
        What::Keeper { program } => return keeper::run(program),
        What::Worker { folder } => worker::serve(folder)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs one measurement and shows what it came to.
fn measure(
    common: &Common,
    run: impl FnOnce(&mut Driver) -> Result<Vec<Record>>,
    table: impl FnOnce(&[Record]),
) -> Result<()> {
    measure_and_draw(common, run, table, report::records)
}

/// The same, with a page of its own.
fn measure_and_draw(
    common: &Common,
    run: impl FnOnce(&mut Driver) -> Result<Vec<Record>>,
    table: impl FnOnce(&[Record]),
    page: impl FnOnce(&[Record]) -> String,
) -> Result<()> {
    let mut driver = Driver::new(common)?;
    let html = common.html.as_deref().filter(|_| driver.tells());
    if let Some(path) = html {
        report::check(path)?;
    }
    let records = run(&mut driver)?;
    if driver.tells() {
        record::print(common, &records, table);
    }
    match html {
        Some(path) => report::write(path, &page(&records)),
        None => Ok(()),
    }
}

/// The machine in one line.
fn machine_line() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("a processor that does not say its name", |(_, name)| name.trim());
    let topology = barewire_sys::cpu::Topology::read();
    let (major, minor) = crate::machine::kernel();
    format!(
        "{model}, {} processors on {} cores, Linux {major}.{minor}, barewire {}",
        topology.places().len(),
        topology.cores(),
        env!("CARGO_PKG_VERSION")
    )
}
