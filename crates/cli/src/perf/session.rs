//! A program under measurement: started once, then told what to do, so that rounds can alternate between programs.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::keeper;
use super::worker::{self, Answer};

/// Longer than any single measurement should take.
const PATIENCE: Duration = Duration::from_secs(90);

/// A running program that answers commands.
pub struct Session {
    pub name: String,
    /// Ends the program, and removes the folder, when its input is closed: when this is dropped or this process ends.
    keeper: Child,
    folder: PathBuf,
    number: u64,
}

impl Session {
    /// Starts `command` with a folder for commands and answers as its last argument.
    pub fn start(name: &str, mut command: Command, pin: bool) -> Result<Session> {
        if pin {
            command.env("BENCH_PIN", "1");
        }
        let (keeper, folder) =
            keeper::start(&command).with_context(|| format!("starting {name}: {command:?}"))?;
        Ok(Session { name: name.to_owned(), keeper, folder, number: 0 })
    }

    /// Has the program do something, and waits for what it came to.
    pub fn ask(&mut self, wish: &worker::Command) -> Result<Answer> {
        let (what, bytes) = (&wish.what, wish.bytes);
        self.is_there(what, bytes)?;
        self.number += 1;
        let temporary = self.folder.join("command.new");
        std::fs::write(&temporary, worker::Command { number: self.number, ..wish.clone() }.line())?;
        std::fs::rename(temporary, self.folder.join("command"))?;
        let start = Instant::now();
        loop {
            if let Some(answer) = self.answer() {
                return Ok(answer);
            }
            self.is_there(what, bytes)?;
            if start.elapsed() > PATIENCE {
                bail!("{} did not answer {what} at {bytes} B within {PATIENCE:?}", self.name);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Fails if the program has ended.
    fn is_there(&mut self, what: &str, bytes: usize) -> Result<()> {
        match self.keeper.try_wait()? {
            Some(status) => bail!("{} ended while measuring {what} at {bytes} B: {status}", self.name),
            None => Ok(()),
        }
    }

    fn answer(&self) -> Option<Answer> {
        let answer = std::fs::read_to_string(self.folder.join("answer")).ok()?;
        let mut answer = Answer::parse(&answer, self.number)?;
        if let Some((_, waited)) = answer.more.iter_mut().find(|(name, _)| name == worker::WAITED) {
            *waited = waited.max(worker::others_waited(&self.folder));
        }
        Some(answer)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Its input is closed first. Should somebody have killed it, the folder is ours to remove.
        let _ = self.keeper.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
