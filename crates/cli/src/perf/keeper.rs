//! The keeper: stands between a measurement and a program under it, so that nothing of the program outlives whoever
//! measures, however that ends.
//!
//! It makes the folder for commands and answers, says where that is, and starts the program. Its own input is a pipe that
//! closes with the process at the other end. When it does, the program is told to quit; if it goes on it is asked to end, and
//! then killed with all that it has started, of which the keeper is the heir. The folder goes last.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use barewire_sys::spawn::{Setup, prepare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitOptions, WaitStatus};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use crate::proc;
use crate::signals::Signals;

/// Names the folder to the program, for whatever else it has to name.
pub const FOLDER: &str = "BENCH_FOLDER";
/// By then all ranks have seen the last command: one that saw only the next would leave the others waiting for it.
const ALL_SEE_WITHIN: Duration = Duration::from_millis(40);
/// A program that is not at work quits at once; one that is has so long.
const QUITS_WITHIN: Duration = Duration::from_millis(800);
/// One that was asked to end has so long.
const ENDS_WITHIN: Duration = Duration::from_millis(500);
/// Between two looks at what was killed.
const SETTLE: Duration = Duration::from_millis(2);

/// Starts a program under a keeper of its own; returns the keeper, and the folder that it made. The program gets the folder
/// as its last argument. Both are gone a moment after the keeper's input is closed.
pub fn start(program: &Command) -> Result<(Child, PathBuf)> {
    let me = std::env::current_exe().context("finding the barewire command")?;
    let mut command = Command::new(me);
    command.args(["perf", "keeper", "--"]).arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    // Of a group of its own: a signal for ours is not for the one who ends things in good order.
    let mut keeper = command.process_group(0).spawn()?;
    let said = keeper.stdout.take().context("the keeper's output")?;
    let mut folder = Vec::new();
    BufReader::new(said).read_until(b'\n', &mut folder)?;
    if folder.pop() != Some(b'\n') {
        let _ = keeper.wait();
        bail!("it did not start");
    }
    Ok((keeper, OsString::from_vec(folder).into()))
}

/// Makes a command that needs no folder, and knows how to end in good order, do so when this process ends.
pub fn ends_with_us(command: &mut Command) {
    prepare(command, Setup { death_signal: Some(Signal::TERM), ..Setup::default() });
}

/// Keeps a program until it ends or nobody needs it any more.
pub fn run(words: &[OsString]) -> Result<ExitCode> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).context("becoming a subreaper")?;
    let signals = Signals::catch(&[SIGCHLD, SIGINT, SIGTERM, SIGHUP]).context("signals")?;
    let folder = make_folder()?;
    let kept = spawn(words, &folder).map(|program| Kept { program, signals, status: None });
    let status = kept.and_then(|kept| kept.keep(&folder));
    // It may be gone already, with all else in the place for what nobody keeps.
    let _ = std::fs::remove_dir_all(&folder);
    Ok(ExitCode::from(status?))
}

fn make_folder() -> Result<PathBuf> {
    let stamp = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let folder = std::env::temp_dir().join(format!("barewire-perf-{}-{stamp}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

/// Starts the program; the number of its process.
fn spawn(words: &[OsString], folder: &Path) -> Result<u32> {
    let (program, arguments) = words.split_first().context("there is no program to keep")?;
    let mut command = Command::new(program);
    command.args(arguments).arg(folder).env(FOLDER, folder).stdin(Stdio::null()).stdout(Stdio::null());
    ends_with_us(&mut command);
    let child = command.spawn().with_context(|| format!("starting {}", Path::new(program).display()))?;
    Ok(child.id())
}

/// The program that is kept.
struct Kept {
    program: u32,
    signals: Signals,
    /// What it came to, once it has ended.
    status: Option<u8>,
}

impl Kept {
    /// Waits for the end of the program, or of whoever needs it, and then leaves nothing; the program's exit status.
    fn keep(mut self, folder: &Path) -> Result<u8> {
        // Whoever does not hear this any more has closed our input too.
        let _ = tell(folder);
        self.wait(None)?;
        self.wait(Some(ALL_SEE_WITHIN))?;
        if self.status.is_none() && quit(folder).is_ok() {
            self.wait(Some(QUITS_WITHIN))?;
        }
        if self.status.is_none() && proc::send(self.program, Signal::TERM).is_ok() {
            self.wait(Some(ENDS_WITHIN))?;
        }
        while proc::kill_descendants(&[]) {
            std::thread::sleep(SETTLE);
            self.reap();
        }
        Ok(self.status.unwrap_or(1))
    }

    /// Waits until the program has ended: so long, or while it is needed.
    fn wait(&mut self, patience: Option<Duration>) -> Result<()> {
        let deadline = patience.map(|patience| Instant::now() + patience);
        let mut input = io::stdin();
        loop {
            let asked = self.signals.take().iter().any(|&signal| signal != SIGCHLD);
            self.reap();
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if self.status.is_some() || left.is_some_and(|left| left.is_zero()) {
                return Ok(());
            }
            if asked && left.is_none() {
                return Ok(());
            }
            let signals = self.signals.fd();
            let mut watched = vec![PollFd::new(&signals, PollFlags::IN)];
            let descriptor = input.as_fd();
            if left.is_none() {
                watched.push(PollFd::new(&descriptor, PollFlags::IN));
            }
            let timeout = left.map(|left| Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            });
            match poll(&mut watched, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let heard = watched.get(1).is_some_and(|input| !input.revents().is_empty());
            if heard && input.read(&mut [0; 64]).unwrap_or(0) == 0 {
                return Ok(());
            }
        }
    }

    /// Takes note of all that has ended: the program, and what it left to us.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid.as_raw_nonzero().get().unsigned_abs() == self.program {
                self.status = Some(exit_status(status));
            }
        }
    }
}

/// As a shell tells it.
fn exit_status(status: WaitStatus) -> u8 {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Says where the folder is, to whoever started us.
fn tell(folder: &Path) -> io::Result<()> {
    let mut line = OsStr::as_bytes(folder.as_os_str()).to_vec();
    line.push(b'\n');
    let mut out = io::stdout();
    out.write_all(&line)?;
    out.flush()
}

/// Tells the program to quit, after all that it may have been told before.
fn quit(folder: &Path) -> io::Result<()> {
    let temporary = folder.join("command.quit");
    std::fs::write(&temporary, format!("{} quit\n", i64::MAX))?;
    std::fs::rename(temporary, folder.join("command"))
}
