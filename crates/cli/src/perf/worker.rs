//! The measured side: ranks that do, on command, the same work on one rung of the ladder after the other.
//!
//! Commands are lines in a file, "number rung/verb bytes count window", and rank 0's answers another file, so that programs
//! over other libraries can be driven the same way and rounds can alternate between them. Between commands everybody sleeps.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use barewire_core::{Config, Endpoint};

use super::rungs;

/// A command: what to do, how often, with how many bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Commands are numbered; each is carried out once.
    pub number: u64,
    /// `rung/verb`, such as `am/latency`.
    pub what: String,
    /// Bytes of each message.
    pub bytes: usize,
    /// How many.
    pub count: u64,
    /// How many before each answer, where that matters.
    pub window: u64,
}

impl Command {
    /// The command in a line, if it is one.
    pub fn parse(line: &str) -> Option<Command> {
        let mut words = line.split_whitespace();
        Some(Command {
            number: words.next()?.parse().ok()?,
            what: words.next()?.to_owned(),
            bytes: words.next().map_or(Some(0), |w| w.parse().ok())?,
            count: words.next().map_or(Some(0), |w| w.parse().ok())?,
            window: words.next().map_or(Some(1), |w| w.parse().ok())?,
        })
    }
}

/// Serves commands from `folder` until one says quit.
pub fn serve(folder: &Path) -> Result<()> {
    let job = barewire_core::boot::from_environment()?;
    let rank = job.rank;
    if std::env::var_os("BENCH_PIN").is_some() {
        let cpus = barewire_sys::cpu::allowed_cpus();
        barewire_sys::cpu::pin_to(cpus[rank as usize % cpus.len()])
            .context("pinning a rank to a processor")?;
    }
    let shm = std::env::var_os("BENCH_TCP").is_none();
    let endpoint = Endpoint::open(job, Config { shm, ..Config::default() })?;
    let api = std::env::var("BENCH_API").unwrap_or_default();
    let mut bench = rungs::bench(&api, endpoint)?;
    let mut seen = 0;
    loop {
        let command =
            std::fs::read_to_string(folder.join("command")).ok().and_then(|text| Command::parse(&text));
        match command {
            Some(command) if command.number > seen => {
                seen = command.number;
                if command.what == "quit" {
                    return Ok(());
                }
                let each = rungs::run(&mut *bench, &command)?;
                if rank == 0 {
                    answer(folder, command.number, each)?;
                }
            }
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn answer(folder: &Path, number: u64, each: f64) -> Result<()> {
    let temporary: PathBuf = folder.join("answer.new");
    std::fs::write(&temporary, format!("{number} {each:.3}\n"))?;
    std::fs::rename(temporary, folder.join("answer"))?;
    Ok(())
}
