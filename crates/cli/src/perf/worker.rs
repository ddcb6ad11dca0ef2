//! The measured side: ranks that do, on command, the same work on one rung of the ladder after the other.
//!
//! Commands are lines in a file, "number rung/verb bytes count window warm-up", and rank 0's answers another file, so that
//! programs over other libraries can be driven the same way and rounds can alternate between them. Between commands everybody
//! sleeps.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use barewire_core::{Config, Endpoint, job::Job};

use super::rungs::Rank;

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
    /// How many before the measured ones.
    pub warm_up: u64,
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
            warm_up: words.next().map_or(Some(0), |w| w.parse().ok())?,
        })
    }

    /// The command as a line.
    pub fn line(&self) -> String {
        let Command { number, what, bytes, count, window, warm_up } = self;
        format!("{number} {what} {bytes} {count} {window} {warm_up}\n")
    }

    /// What comes before and after the slash.
    pub fn parts(&self) -> (&str, &str) {
        self.what.split_once('/').unwrap_or(("", &self.what))
    }
}

/// What a measurement came to: nanoseconds an operation, and whatever else belongs to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Nanoseconds for each operation.
    pub each_ns: f64,
    /// Named figures besides.
    pub more: Vec<(String, f64)>,
}

impl Answer {
    /// A time and nothing else.
    pub fn of(each_ns: f64) -> Answer {
        Answer { each_ns, more: Vec::new() }
    }

    /// A figure by its name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.more.iter().find(|(n, _)| n == name).map(|(_, value)| *value)
    }

    /// The answer to command `number` in a file, once it is there.
    pub fn parse(text: &str, number: u64) -> Option<Answer> {
        let mut words = text.split_whitespace();
        if words.next()?.parse::<u64>().ok()? != number {
            return None;
        }
        let each_ns = words.next()?.parse().ok()?;
        let pair = |word: &str| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Some(Answer { each_ns, more: words.filter_map(pair).collect() })
    }

    fn line(&self, number: u64) -> String {
        let more: String = self.more.iter().map(|(name, value)| format!(" {name}={value:.3}")).collect();
        format!("{number} {:.3}{more}\n", self.each_ns)
    }
}

/// The name of the part of its time that a rank was ready and its processor was somebody else's.
pub const WAITED: &str = "waited";

/// Opens a rank under measurement in a job; layers that keep their endpoint have ranks of their own.
pub fn open(job: Job, program: &str, pin: bool, shm: bool) -> Result<Rank> {
    let cpus = barewire_sys::cpu::allowed_cpus();
    if pin {
        barewire_sys::cpu::pin_to(cpus[job.rank as usize % cpus.len()])
            .context("pinning a rank to a processor")?;
    }
    // Waiting for the next command is not worth a report.
    let config = Config { shm, watchdog: Duration::ZERO, ..Config::default() };
    Rank::new(Endpoint::open(job, config)?, program, cpus.len())
}

/// Serves commands from `folder` until one says quit, or the folder is gone.
pub fn serve(folder: &Path) -> Result<()> {
    let job = barewire_core::boot::from_environment()?;
    let (me, set) = (job.rank, |name: &str| std::env::var_os(name).is_some());
    let program = std::env::var("BENCH_PROGRAM").unwrap_or_default();
    let mut rank = open(job, &program, set("BENCH_PIN"), !set("BENCH_TCP"))?;
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
                let answer = rank.run(&command)?;
                match me {
                    0 => reply(folder, &answer.line(command.number))?,
                    _ => std::fs::write(
                        waited_file(folder, me),
                        answer.get(WAITED).unwrap_or(0.0).to_string(),
                    )?,
                }
            }
            // Whoever asks is gone.
            None if !folder.exists() => return Ok(()),
            _ => {
                rank.idle();
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// Where another rank than the one that answers says what part of its time it waited for its processor.
fn waited_file(folder: &Path, rank: u32) -> PathBuf {
    folder.join(format!("{WAITED}-{rank}"))
}

/// What the other ranks said last of how long they waited for their processors: the most.
pub fn others_waited(folder: &Path) -> f64 {
    let said = |rank| std::fs::read_to_string(waited_file(folder, rank)).ok();
    let parts = (1..).map_while(said).filter_map(|text| text.parse::<f64>().ok());
    parts.filter(|part| (0.0..=1.0).contains(part)).fold(0.0, f64::max)
}

fn reply(folder: &Path, line: &str) -> Result<()> {
    let temporary: PathBuf = folder.join("answer.new");
    std::fs::write(&temporary, line)?;
    std::fs::rename(temporary, folder.join("answer"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_answers_survive_the_way_through_a_file() {
        let command =
            Command { number: 3, what: "am/latency".into(), bytes: 8, count: 9, window: 2, warm_up: 1 };
        assert_eq!(Command::parse(&command.line()), Some(command));
        assert_eq!(Command::parse("4 quit\n").map(|c| c.what), Some("quit".into()));
        assert_eq!(Command::parse("x y"), None);
        let answer = Answer { each_ns: 12.5, more: vec![("p99".into(), 80.25)] };
        assert_eq!(Answer::parse(&answer.line(7), 7), Some(answer.clone()));
        assert_eq!(Answer::parse(&answer.line(7), 8), None, "the answer to another command");
        assert_eq!(Answer::parse("7", 7), None, "half an answer");
    }
}
