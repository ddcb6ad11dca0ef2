//! A program under measurement: started once, then told what to do, so that rounds can alternate between programs.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::worker::{self, Answer};

/// Longer than any single measurement should take.
const PATIENCE: Duration = Duration::from_secs(90);

/// A running program that answers commands.
pub struct Session {
    pub name: String,
    child: Child,
    folder: PathBuf,
    number: u64,
}

impl Session {
    /// Starts `command` with a folder for commands and answers as its last argument.
    pub fn start(name: &str, mut command: Command, pin: bool) -> Result<Session> {
        let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
        let folder = std::env::temp_dir().join(format!("barewire-perf-{}-{stamp}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        command.arg(&folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        if pin {
            command.env("BENCH_PIN", "1");
        }
        let child = command.spawn().with_context(|| format!("starting {name}: {command:?}"))?;
        Ok(Session { name: name.to_owned(), child, folder, number: 0 })
    }

    /// Has the program do something, and waits for what it came to.
    pub fn ask(&mut self, wish: &worker::Command) -> Result<Answer> {
        self.number += 1;
        let temporary = self.folder.join("command.new");
        std::fs::write(&temporary, worker::Command { number: self.number, ..wish.clone() }.line())?;
        std::fs::rename(temporary, self.folder.join("command"))?;
        let (what, bytes) = (&wish.what, wish.bytes);
        let start = Instant::now();
        loop {
            if let Some(answer) = self.answer() {
                return Ok(answer);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended while measuring {what} at {bytes} B: {status}", self.name);
            }
            if start.elapsed() > PATIENCE {
                bail!("{} did not answer {what} at {bytes} B within {PATIENCE:?}", self.name);
            }
            std::thread::sleep(Duration::from_millis(1));
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
        let quit = format!("{} quit\n", self.number + 1);
        let told = std::fs::write(self.folder.join("command"), quit).is_ok();
        let start = Instant::now();
        while told && start.elapsed() < Duration::from_secs(3) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
