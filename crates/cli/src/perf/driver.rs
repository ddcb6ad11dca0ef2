//! The driver: runs measurements in alternating rounds, on ranks that it starts, or on the job that this process is part of.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};
use barewire_core::boot;
use barewire_core::job::{Directory, Job};
use barewire_sys::cpu::{Cpu, allowed_cpus};

use super::layers;
use super::options::{Common, Via};
use super::rungs::{KEEPERS, Rank};
use super::session::Session;
use super::worker::{self, Answer};

/// How long a round should last.
const ROUND_NS: f64 = 20e6;

/// One thing to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub api: String,
    pub verb: &'static str,
    pub via: Via,
    pub bytes: usize,
    pub window: u64,
    pub ranks: u32,
    /// How much longer than usual a round lasts.
    pub effort: f64,
}

impl Spec {
    pub fn new(api: &str, verb: &'static str, via: Via, bytes: usize) -> Spec {
        let window = (4 << 20) / (bytes as u64).max(1);
        Spec { api: api.to_owned(), verb, via, bytes, window: window.clamp(4, 64), ranks: 2, effort: 1.0 }
    }

    #[must_use]
    pub fn ranks(mut self, ranks: u32) -> Spec {
        self.ranks = ranks;
        self
    }

    #[must_use]
    pub fn effort(mut self, effort: f64) -> Spec {
        self.effort = effort;
        self
    }

    /// Messages that take about 20 ms on a machine of today.
    fn count(&self) -> u64 {
        let bytes = self.bytes as f64;
        let slow = matches!(self.api.as_str(), "pipe" | "fifo" | "unix" | "sysv");
        let each_ns = match (self.verb, self.via) {
            ("read" | "write" | "rdma-read" | "rdma-write", Via::Tcp) => 40_000.0 + bytes,
            ("turn", _) => 5_000.0 * f64::from(self.ranks),
            (verb, _) if layers::is_of_all(verb) => {
                let ranks = f64::from(self.ranks);
                let meet = if self.ranks > 2 || self.via == Via::Tcp { 5_000.0 * ranks } else { 300.0 };
                meet + bytes * ranks / 8.0
            }
            ("latency" | "spread", Via::Shm) if slow => 10_000.0 + bytes,
            (_, Via::Shm) if slow => 1_500.0 + bytes / 2.0,
            ("latency" | "spread" | "polled" | "queued" | "credited" | "many", Via::Tcp) => {
                20_000.0 + bytes / 2.0
            }
            (_, Via::Tcp) => 1_000.0 + bytes,
            ("latency" | "spread" | "logp" | "polled" | "queued" | "credited" | "many", _) => {
                300.0 + bytes / 4.0
            }
            _ => 60.0 + bytes / 8.0,
        };
        ((ROUND_NS * self.effort / each_ns) as u64).max(10)
    }

    /// Messages in a round, where nothing is in the way.
    pub fn messages(&self, common: &Common) -> u64 {
        common.count.unwrap_or_else(|| self.count())
    }

    pub fn command(&self, common: &Common) -> worker::Command {
        let count = self.messages(common);
        let warm_up = common.warmup.unwrap_or(count / 10 + 1);
        let what = format!("{}/{}", self.api, self.verb);
        worker::Command { number: 0, what, bytes: self.bytes, count, window: self.window, warm_up }
    }
}

/// Who does the work.
pub struct Driver {
    pub common: Common,
    /// By program, wire and ranks.
    sessions: BTreeMap<(&'static str, Via, u32), Session>,
    job: Option<InJob>,
    /// Messages a round where the usual number would take too long, by what is measured.
    bearable: BTreeMap<String, u64>,
    /// Where ranks may run; in a job this process itself is kept on one of them.
    pub cpus: Vec<Cpu>,
}

/// The job that this process is a rank of.
struct InJob {
    rank: Rank,
    via: Via,
}

impl Driver {
    /// A driver; in a job of several ranks all of them call this and do the same from then on.
    pub fn new(common: &Common) -> Result<Driver> {
        let mut driver = Driver {
            common: common.clone(),
            sessions: BTreeMap::new(),
            job: None,
            bearable: BTreeMap::new(),
            cpus: allowed_cpus(),
        };
        let job = boot::from_environment().context("looking for the job this process is in")?;
        if job.size > 1 {
            let via = common.via.unwrap_or_else(|| nearest(&job));
            let rank = worker::open(job, "core", common.pin == super::options::Pin::Each, via == Via::Shm)?;
            driver.common.ranks = rank.size();
            driver.job = Some(InJob { rank, via });
            if let Some(own) = common.api.iter().find(|api| program(api) != "core") {
                bail!("{own} has ranks of its own; run this outside of a job");
            }
        }
        driver.common.via = layers::wire(&common.api, common.via, driver.via())?;
        Ok(driver)
    }

    /// Whether this process tells what was measured: rank 0 of a job, or whoever is in none.
    pub fn tells(&self) -> bool {
        self.job.as_ref().is_none_or(|job| job.rank.me() == 0)
    }

    /// Whether this process is a rank of a job, and so has one wire and no other programs.
    pub fn in_job(&self) -> bool {
        self.job.is_some()
    }

    /// The wire to measure where none is named.
    pub fn via(&self) -> Via {
        self.common.via.unwrap_or_else(|| self.job.as_ref().map_or(Via::Shm, |job| job.via))
    }

    /// Measures each of `specs` once a round, one after the other, for all rounds.
    pub fn rounds(&mut self, title: &str, specs: &[Spec], rounds: u32) -> Result<Vec<Vec<Answer>>> {
        let mut answers = vec![Vec::with_capacity(rounds as usize); specs.len()];
        for round in 0..rounds {
            for (spec, answers) in specs.iter().zip(&mut answers) {
                self.progress(&format!(
                    "{title}: round {} of {rounds}, {} {} at {} B",
                    round + 1,
                    spec.api,
                    spec.verb,
                    spec.bytes
                ));
                answers.push(self.ask(spec)?);
            }
        }
        self.progress("");
        Ok(answers)
    }

    /// Measures one thing once.
    pub fn ask(&mut self, spec: &Spec) -> Result<Answer> {
        let mut command = spec.command(&self.common);
        command.count = self.bearable(spec, &command)?;
        if self.common.warmup.is_none() {
            command.warm_up = command.count / 10 + 1;
        }
        self.ask_command(&spec.api, spec.via, spec.ranks, &command)
    }

    /// As many as a command says, or fewer if here and now that would take too long: on a busy machine everything that lets
    /// others run may take a thousand times longer. In a job all ranks have to agree, so there the command stands.
    fn bearable(&mut self, spec: &Spec, command: &worker::Command) -> Result<u64> {
        if self.common.count.is_some() || self.in_job() || spec.via == Via::Sim {
            return Ok(command.count);
        }
        let key = format!("{} {} {} {}", command.what, spec.via.name(), spec.bytes, spec.ranks);
        if let Some(&count) = self.bearable.get(&key) {
            return Ok(count);
        }
        let few = (command.count / 50).clamp(10, 100);
        let trial = worker::Command { count: few, warm_up: 1, ..command.clone() };
        let each_ns = self.ask_command(&spec.api, spec.via, spec.ranks, &trial)?.each_ns;
        let most = 4.0 * ROUND_NS * spec.effort.max(1.0) / each_ns.max(1.0);
        let count = command.count.min((most as u64).max(10));
        self.bearable.insert(key, count);
        Ok(count)
    }

    /// Has the ranks that a layer needs do what a command says.
    pub fn ask_command(
        &mut self,
        api: &str,
        via: Via,
        ranks: u32,
        command: &worker::Command,
    ) -> Result<Answer> {
        if let Some(job) = &mut self.job {
            return job.rank.run(command);
        }
        if via == Via::Sim {
            return super::simulated::run(command, self.common.slow_ns);
        }
        let key = (program(api), via, ranks);
        if !self.sessions.contains_key(&key) {
            let session = self.start(api, via, ranks)?;
            self.sessions.insert(key, session);
        }
        self.sessions.get_mut(&key).expect("started above").ask(command)
    }

    /// Ends the ranks that were started, so that they disturb nobody.
    pub fn rest(&mut self) {
        self.sessions.clear();
    }

    /// Starts the ranks that a measurement needs.
    fn start(&self, api: &str, via: Via, ranks: u32) -> Result<Session> {
        let pin = self.common.pins(ranks);
        if api == "mpi" {
            return Session::start("barewire's MPI", super::peers::ours(ranks, via)?, pin);
        }
        let me = std::env::current_exe().context("finding the barewire command")?;
        let mut command = launcher(ranks)?;
        command.arg(&me).args(["perf", "worker"]).env("BENCH_PROGRAM", program(api));
        if via == Via::Tcp {
            command.env("BENCH_TCP", "1");
        }
        Session::start("barewire", command, pin)
    }

    /// Shows how far things are, on a terminal.
    pub fn progress(&self, what: &str) {
        if self.tells() && std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K{what}");
            let _ = std::io::stderr().flush();
        }
    }
}

/// Whose ranks a layer is measured by.
fn program(api: &str) -> &'static str {
    let own = ["mpi"].into_iter().chain(KEEPERS).find(|&own| own == api);
    own.unwrap_or("core")
}

/// `barewire run` of so many ranks, without the program.
pub fn launcher(ranks: u32) -> Result<Command> {
    let me = std::env::current_exe().context("finding the barewire command")?;
    let mut command = Command::new(me);
    command.args(["run", "-n", &ranks.to_string(), "--"]);
    Ok(command)
}

/// The wire between ranks 0 and 1.
fn nearest(job: &Job) -> Via {
    match &job.directory {
        Directory::Boot(client) => {
            let layout = &client.spec().layout;
            if layout.host_of(0) == layout.host_of(1) { Via::Shm } else { Via::Tcp }
        }
        _ => Via::Shm,
    }
}

/// Runs this same command as a job on several hosts: this process becomes its launcher. Returns if that cannot be.
pub fn on_hosts(common: &Common, hosts: &str) -> Result<std::process::ExitCode> {
    let me = std::env::current_exe().context("finding the barewire command")?;
    let mut command = Command::new(&me);
    command.args(["run", "-n", &common.ranks.to_string(), "--map-by", "node", "--hosts", hosts]);
    if let Some(shell) = &common.remote_shell {
        command.args(["--remote-shell", shell]);
    }
    command.arg("--").arg(&me);
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        match text.as_str() {
            "--hosts" | "--remote-shell" => drop(words.next()),
            text if text.starts_with("--hosts=") || text.starts_with("--remote-shell=") => {}
            _ => drop(command.arg(word)),
        }
    }
    Err(anyhow::Error::new(command.exec()).context("starting barewire run"))
}
