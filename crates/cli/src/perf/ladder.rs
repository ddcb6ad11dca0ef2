//! The ladder: every rung beside the one it stands on, from the physical limit up, on one screen and on a page.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use barewire_sys::cpu::Cpu;

use super::driver::{Driver, Spec};
use super::figures::Estimate;
use super::options::{Common, Via};
use super::reading;
use super::record::{self, Record};
use super::report;

/// A rung, and the one it stands on.
pub struct Rung {
    pub name: &'static str,
    pub below: &'static str,
    pub what: &'static str,
}

impl Rung {
    const fn new(name: &'static str, below: &'static str, what: &'static str) -> Rung {
        Rung { name, below, what }
    }
}

/// From the limit up.
pub const RUNGS: [Rung; 9] = [
    Rung::new("limit", "limit", "one cache line between processors; one copy"),
    Rung::new("ring", "limit", "a bare ring in shared memory"),
    Rung::new("message", "ring", "a message to a port"),
    Rung::new("region", "limit", "put into another's memory"),
    Rung::new("tagged", "message", "messages that are matched"),
    Rung::new("am", "message", "active messages, the short form"),
    Rung::new("am2", "am", "Active Messages II"),
    Rung::new("fm", "message", "Fast Messages"),
    Rung::new("mpi", "tagged", "MPI, from C"),
];

/// What the system offers instead.
pub const BESIDE: [&str; 4] = ["pipe", "fifo", "sysv", "unix"];
/// The sizes at which bandwidth is shown.
pub const SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];
/// Further sizes of the curves.
const CURVE: [usize; 7] = [8, 64, 256, 1 << 10, 16 << 10, 256 << 10, 4 << 20];
/// Layers that have curves.
pub const CURVES: [&str; 7] = ["limit", "message", "region", "tagged", "am2", "fm", "mpi"];

/// All that a ladder has measured.
pub struct Ladder {
    pub records: Vec<Record>,
    /// Rungs that could not be measured, and why.
    pub missing: Vec<(String, String)>,
    pub seconds: f64,
    /// Where the ranks ran.
    pub cpus: Vec<Cpu>,
}

impl Ladder {
    pub fn find(&self, bench: &str, api: &str, via: Via, bytes: usize) -> Option<&Record> {
        self.records.iter().find(|record| {
            record.bench == bench
                && record.api == api
                && record.via == via.name()
                && record.bytes == bytes as u64
        })
    }

    /// How much longer a rung takes than the one below it, for 8 bytes one way.
    pub fn added(&self, rung: &Rung) -> Option<Estimate> {
        let of = |api| self.find("latency", api, Via::Shm, 8);
        (rung.name != rung.below)
            .then(|| Some(Estimate::of_difference(&of(rung.name)?.each_ns, &of(rung.below)?.each_ns)))?
    }

    /// What a rung leaves of the bandwidth of the one below it. Where that does not carry such sizes, the next one down counts.
    pub fn efficiency(&self, rung: &Rung, bytes: usize) -> Option<(f64, &'static str)> {
        if rung.name == rung.below {
            return None;
        }
        let own = self.find("bandwidth", rung.name, Via::Shm, bytes)?;
        let mut below = rung.below;
        loop {
            if let Some(under) = self.find("bandwidth", below, Via::Shm, bytes) {
                return Some((Estimate::of_ratio(&under.each_ns, &own.each_ns).median, below));
            }
            below = RUNGS.iter().find(|rung| rung.name == below && rung.below != below)?.below;
        }
    }
}

/// Measures the ladder, shows it, and writes the page.
pub fn run(common: &Common) -> Result<()> {
    let start = Instant::now();
    let page = match &common.html {
        Some(path) => Some(path.clone()),
        None => common.for_people().then(|| PathBuf::from("report.html")),
    };
    let mut driver = Driver::new(common)?;
    let tells = driver.tells();
    if let Some(path) = page.as_ref().filter(|_| tells) {
        report::check(path)?;
    }
    let mut ladder = measure(&mut driver)?;
    drop(driver);
    ladder.seconds = start.elapsed().as_secs_f64();
    if !tells {
        return Ok(());
    }
    record::print(common, &ladder.records, |_| show(&ladder));
    if let Some(path) = page {
        report::write(&path, &report::page(&ladder))?;
        if common.for_people() {
            println!("\ncharts: {}", path.display());
        }
    }
    Ok(())
}

/// Measures everything, each thing once in every round.
pub fn measure(driver: &mut Driver) -> Result<Ladder> {
    let mut missing = Vec::new();
    let mut rungs: Vec<&str> = RUNGS.iter().skip(1).map(|rung| rung.name).collect();
    if driver.in_job() {
        rungs.retain(|&rung| {
            rung != "mpi" && (driver.via() == Via::Shm || !matches!(rung, "ring" | "region"))
        });
        missing.push(("mpi".to_owned(), "a job's ranks run this program, not a C program".to_owned()));
    } else if let Err(error) = driver.ask(&Spec::new("mpi", "latency", Via::Shm, 8)) {
        rungs.retain(|&rung| rung != "mpi");
        missing.push(("mpi".to_owned(), format!("{error:#}")));
    }
    let steps = steps(driver, &rungs);
    let specs: Vec<Spec> = steps.iter().map(|(_, spec)| spec.clone().effort(1.3)).collect();
    let rounds = driver.common.rounds;
    let answers = driver.rounds("the ladder", &specs, rounds)?;
    let mut records: Vec<Record> = Vec::new();
    for ((bench, spec), answers) in steps.iter().zip(&answers) {
        if spec.verb == "spread" {
            let own = records
                .iter_mut()
                .find(|r| r.bench == "latency" && r.api == spec.api && r.via == spec.via.name());
            if let Some(own) = own {
                *own = std::mem::take(own).with_spread(answers);
            }
            continue;
        }
        records.push(Record::new(bench, spec, answers));
    }
    records.extend(curves(driver, &rungs)?);
    for record in &mut records {
        // One line one way, one copy of the bytes: what these ranks themselves needed is the limit.
        if matches!(record.api.as_str(), "line" | "copy") {
            record.api = "limit".to_owned();
        }
    }
    Ok(Ladder { records: beside_limits(records), missing, seconds: 0.0, cpus: driver.cpus.clone() })
}

/// What is measured in every round.
fn steps(driver: &Driver, rungs: &[&str]) -> Vec<(&'static str, Spec)> {
    let mut steps = Vec::new();
    let wire = if driver.in_job() { driver.via() } else { Via::Shm };
    let here = wire == Via::Shm;
    let mut add = |bench: &'static str, api: &str, verb: &'static str, via: Via, bytes: usize| {
        steps.push((bench, Spec::new(api, verb, via, bytes)));
    };
    let latencies = ["line"].iter().filter(|_| here).chain(rungs);
    for api in latencies.copied().chain(BESIDE.into_iter().filter(|_| here)) {
        add("latency", api, "latency", wire, 8);
        add("latency", api, "spread", wire, 8);
    }
    for api in ["copy"].iter().filter(|_| here).chain(rungs).filter(|&&api| api != "region") {
        add("rate", api, "rate", wire, 8);
    }
    for bytes in SIZES {
        let long = ["copy"].iter().filter(|_| here).chain(rungs).copied().filter(|&api| api != "am");
        for api in long.chain(["pipe", "unix"].into_iter().filter(|_| here)) {
            add("bandwidth", api, "rate", wire, bytes);
        }
    }
    if !driver.in_job() || wire == Via::Tcp {
        for api in ["socket", "message"].into_iter().filter(|&api| here || api == "socket") {
            add("latency", api, "latency", Via::Tcp, 8);
            add("latency", api, "spread", Via::Tcp, 8);
            add("bandwidth", api, "rate", Via::Tcp, 64 << 10);
        }
    }
    steps
}

/// The rest of the curves: fewer rounds are enough for a picture.
fn curves(driver: &mut Driver, rungs: &[&str]) -> Result<Vec<Record>> {
    let wire = if driver.in_job() { driver.via() } else { Via::Shm };
    let here = wire == Via::Shm;
    let layers = CURVES.iter().filter(|&&api| rungs.contains(&api) || (api == "limit" && here));
    let specs: Vec<Spec> = CURVE
        .into_iter()
        .flat_map(|bytes| {
            let own = |&api: &&str| Spec::new(if api == "limit" { "copy" } else { api }, "rate", wire, bytes);
            layers.clone().map(own).collect::<Vec<_>>()
        })
        .collect();
    let answers = driver.rounds("curves", &specs, driver.common.rounds.min(3))?;
    Ok(specs.iter().zip(&answers).map(|(spec, answers)| Record::new("bandwidth", spec, answers)).collect())
}

/// Adds to every record the limit that was measured in the same rounds.
fn beside_limits(records: Vec<Record>) -> Vec<Record> {
    let limits: Vec<Record> =
        records.iter().filter(|r| r.api == "limit" || r.api == "socket").cloned().collect();
    let add = |record: Record| {
        let limit =
            limits.iter().find(|l| l.bench == record.bench && l.via == record.via && l.bytes == record.bytes);
        match limit {
            Some(limit) => record.beside_limit(&limit.each_ns),
            None => record,
        }
    };
    records.into_iter().map(add).collect()
}

/// The one screen.
fn show(ladder: &Ladder) {
    println!("{}", head());
    let cells = |api: &str, added: String, left: String, p99: String| {
        let latency =
            ladder.find("latency", api, Via::Shm, 8).map_or("-".into(), |r| record::time(r.typical_ns()));
        let rate = ladder.find("rate", api, Via::Shm, 8).and_then(|r| r.msgs_per_s);
        let widths: String = SIZES
            .iter()
            .map(|&bytes| {
                let found = ladder.find("bandwidth", api, Via::Shm, bytes).and_then(|r| r.bytes_per_s);
                format!("{:>12}", found.map_or("-".into(), record::bandwidth))
            })
            .collect();
        let rate = rate.map_or("-".into(), record::rate);
        println!("{api:<9}{latency:>10}{added:>18}{p99:>11}{rate:>13}{widths}{left:>17}");
    };
    println!(
        "{:<9}{:>10}{:>18}{:>11}{:>13}{:>12}{:>12}{:>12}{:>17}",
        "", "8 B", "adds", "p99", "8 B", "4 KiB", "64 KiB", "1 MiB", "leaves at 64 KiB"
    );
    for rung in &RUNGS {
        let Some(latency) = ladder.find("latency", rung.name, Via::Shm, 8) else { continue };
        let added =
            ladder.added(rung).map_or(String::new(), |e| format!("{:+.0} over {}", e.median, rung.below));
        let left = ladder.efficiency(rung, 64 << 10);
        let left = left.map_or(String::new(), |(part, of)| format!("{:.0} % of {of}", part * 100.0));
        cells(rung.name, added, left, latency.p99_ns.map_or(String::new(), record::time));
    }
    println!("beside");
    for way in BESIDE {
        let p99 = ladder
            .find("latency", way, Via::Shm, 8)
            .and_then(|r| r.p99_ns)
            .map_or(String::new(), record::time);
        cells(way, String::new(), String::new(), p99);
    }
    let tcp = |api: &str| {
        let latency = ladder.find("latency", api, Via::Tcp, 8)?;
        let bulk = ladder.find("bandwidth", api, Via::Tcp, 64 << 10)?.bytes_per_s?;
        Some(format!(
            "{api} {} and {} at 64 KiB",
            record::time(latency.typical_ns()),
            record::bandwidth(bulk)
        ))
    };
    let tcp: Vec<String> = ["socket", "message"].into_iter().filter_map(tcp).collect();
    if !tcp.is_empty() {
        println!("over TCP: {}", tcp.join("; "));
    }
    println!();
    for line in reading::sentences(ladder) {
        println!("- {line}");
    }
}

fn head() -> String {
    let groups = ["one way", "rate", "bandwidth"];
    format!("{:<9}{:>10}{:>42}{:>24}", "", groups[0], groups[1], groups[2])
}
