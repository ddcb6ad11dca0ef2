//! What the tests of the command share: running it, and looking for what it may have left behind.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod hosts;
pub mod slurm;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const BAREWIRE: &str = env!("CARGO_BIN_EXE_barewire");
/// Tells the tests where an MPICH is; barewire does not know, and so would refuse, this variable.
pub const MPICH: &str = "BAREWIRE_MPICH";
/// Far more than anything here takes; a test that waits so long has failed.
pub const FOREVER: Duration = Duration::from_secs(60);

/// What a run came to.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn lines(&self) -> Vec<&str> {
        let mut lines: Vec<_> = self.out.lines().collect();
        lines.sort_unstable();
        lines
    }

    #[track_caller]
    pub fn expect(&self, code: i32, words: &str) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(self.err.contains(words) || self.out.contains(words), "no {words:?} in {self:#?}");
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// `barewire run` with these words.
pub fn command(words: &[&str]) -> Command {
    // A shell in the background has its children ignore interrupts, and one that comes early would be lost.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,QUIT", BAREWIRE, "run"]);
    command.args(words).stdin(Stdio::null()).env_remove(MPICH);
    command
}

/// Runs `barewire run` with these words to its end.
pub fn run(words: &[&str]) -> Ran {
    let seconds = FOREVER.as_secs().to_string();
    let mut command = Command::new("timeout");
    command.args(["-k", "5", &seconds, BAREWIRE, "run"]).args(words).stdin(Stdio::null()).env_remove(MPICH);
    command.output().expect("timeout and barewire start").into()
}

/// Starts `barewire run` with these words; its output is collected when it is waited for.
pub fn start(words: &[&str]) -> Child {
    command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("barewire starts")
}

/// A word that only one test's processes carry, to find them by.
pub fn mark(name: &str) -> String {
    format!("86400.{}{}", std::process::id(), name.bytes().map(u32::from).sum::<u32>())
}

/// Processes whose command line holds `mark`, and which have not ended.
pub fn processes(mark: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id())
        .filter(|pid| carries(*pid, mark) && !is_zombie(*pid))
        .collect()
}

fn carries(pid: u32, mark: &str) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.windows(mark.len()).any(|window| window == mark.as_bytes()))
}

fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// Waits until `done`; panics with `what` if that takes for ever.
#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + FOREVER;
    while !done() {
        assert!(Instant::now() < deadline, "waited for ever: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until `count` programs with `mark` run (the launcher and others that name it do not count).
#[track_caller]
pub fn wait_for_sleepers(mark: &str, count: usize) {
    wait_until("the ranks to run", || sleepers(mark).len() == count);
}

/// Processes called `sleep` with this mark.
pub fn sleepers(mark: &str) -> Vec<u32> {
    let is_sleep =
        |pid: &u32| std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"sleep\n");
    processes(mark).into_iter().filter(is_sleep).collect()
}

/// Nothing with `mark` is left, now or in a moment.
#[track_caller]
pub fn nothing_is_left(mark: &str) {
    wait_until("everything to end", || processes(mark).is_empty());
}

pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -{name} {pid}");
}

/// A directory of this test's own, removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }
    pub fn path(&self) -> &Path {
        &self.0
    }
    /// An executable file, written by another process: one that this process has open for writing, if only in a child
    /// that another thread forks, cannot be executed.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        let made = Command::new("sh")
            .args(["-c", "echo \"$1\" > \"$2\"; chmod 755 \"$2\"", "sh", text])
            .arg(&path)
            .status();
        assert!(made.is_ok_and(|status| status.success()), "a script can be written");
        path
    }
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays in the temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
