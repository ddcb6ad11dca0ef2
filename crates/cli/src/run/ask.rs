//! Questions to a running job: `barewire info --explain` asks the launcher, the launcher asks the ranks.
//!
//! The launcher listens on an abstract socket named after its process. Only its own user, and root, get an answer: the
//! kernel says who calls.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use barewire_sys::credentials;

/// The launcher's ear for questions, and those who wait for an answer.
#[derive(Debug)]
pub struct Ear {
    listener: UnixListener,
    asking: Vec<UnixStream>,
    /// When those who have not answered are left out.
    until: Option<Instant>,
}

impl Ear {
    /// Listens for questions to this process; without one nobody can ask, and the job runs all the same.
    pub fn open() -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&address(std::process::id())?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, asking: Vec::new(), until: None })
    }

    /// The listening socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Takes callers in; true if the ranks have to be asked.
    pub fn accept(&mut self) -> bool {
        while let Ok((stream, _)) = self.listener.accept() {
            if is_ours(&stream) && self.asking.len() < ASKING_MAX {
                self.asking.push(stream);
            }
        }
        if self.asking.is_empty() || self.until.is_some() {
            return false;
        }
        self.until = Some(Instant::now() + ANSWER_WITHIN);
        true
    }

    /// When the answer is due, if somebody waits for one.
    pub fn due(&self) -> Option<Instant> {
        self.until
    }

    /// Sends the answer to all who asked; a thread writes, so that a slow reader holds up nobody.
    pub fn answer(&mut self, text: &str) {
        self.until = None;
        for mut stream in self.asking.drain(..) {
            let text = text.to_owned();
            // Without a thread there is no answer, and the caller sees the end of the connection.
            let _ = std::thread::Builder::new().name("answer".into()).spawn(move || {
                let timeout = stream.set_write_timeout(Some(WRITE_WITHIN));
                // Whoever asked may have gone.
                let _ = timeout
                    .and_then(|()| stream.set_nonblocking(false))
                    .and_then(|()| stream.write_all(text.as_bytes()));
            });
        }
    }
}

/// The launchers on this host that answer questions.
pub fn launchers() -> Vec<u32> {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let names = sockets.lines().filter_map(|line| line.split_ascii_whitespace().nth(7)?.strip_prefix('@'));
    let mut pids: Vec<u32> = names.filter_map(|name| name.strip_prefix(NAME)?.parse().ok()).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// What the launcher with this process id says about its job's wires; `None` if it is not there, or not ours to ask.
pub fn ask(launcher: u32) -> Option<String> {
    let stream = UnixStream::connect_addr(&address(launcher).ok()?).ok()?;
    let who = credentials::of(&stream).ok()?;
    if who.pid.is_none_or(|pid| pid.as_raw_nonzero().get().unsigned_abs() != launcher) || !is_ours(&stream) {
        return None;
    }
    stream.set_read_timeout(Some(ANSWER_WITHIN + WRITE_WITHIN)).ok()?;
    let mut bytes = Vec::new();
    (&stream).take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// One rank's part of the answer.
#[derive(Debug, Clone, Copy)]
pub struct Account<'a> {
    /// Its host.
    pub host: &'a str,
    /// Whether it has ended.
    pub ended: bool,
    /// Its wires, `why TAB ranks` in each line, if it said anything.
    pub wires: Option<&'a str>,
}

/// The answer: how often each wire is used, then who reaches whom how, and why.
pub fn explain<'a>(accounts: impl Iterator<Item = Account<'a>>) -> String {
    let mut pairs: BTreeMap<&str, u64> = BTreeMap::new();
    let mut lines = String::new();
    let mut say = |text: std::fmt::Arguments<'_>| lines.write_fmt(text).expect("a String takes all text");
    for (rank, account) in accounts.enumerate() {
        let host = account.host;
        match account.wires {
            _ if account.ended => say(format_args!("rank {rank} on {host}: has ended\n")),
            None => say(format_args!(
                "rank {rank} on {host}: no answer: it computes, or its program does not use Barewire\n"
            )),
            Some("") => say(format_args!("rank {rank} on {host}: has sent to nobody yet\n")),
            Some(wires) => {
                for (why, ranks) in wires.lines().filter_map(|line| line.split_once('\t')) {
                    let wire = why.split([' ', ':']).next().unwrap_or_default();
                    *pairs.entry(wire).or_default() += count(ranks);
                    say(format_args!("rank {rank} on {host} to {ranks}: {why}\n"));
                }
            }
        }
    }
    let totals: Vec<_> = pairs.iter().map(|(wire, count)| format!("{wire} {count}")).collect();
    let totals = if totals.is_empty() { "none".into() } else { totals.join(", ") };
    format!("pairs in use: {totals}\n{lines}")
}

/// How many numbers `1-3,7` has.
fn count(ranges: &str) -> u64 {
    let width = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.saturating_sub(first) + 1)
    };
    ranges.split(',').filter_map(width).sum()
}

fn is_ours(stream: &UnixStream) -> bool {
    let me = rustix::process::geteuid();
    credentials::of(stream).is_ok_and(|who| who.uid == me || who.uid.is_root() || me.is_root())
}

fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{NAME}{pid}"))
}

const NAME: &str = "barewire-job-";
const ASKING_MAX: usize = 16;
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const WRITE_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_by_wire_and_silence_is_named() {
        let account = |ended, wires| Account { host: "n", ended, wires };
        let text = explain(
            [
                account(false, Some("shm: same host\t1-3,5\ntcp to 1.2.3.4:5: other host\t4\n")),
                account(false, Some("")),
                account(true, None),
                account(false, None),
            ]
            .into_iter(),
        );
        assert!(
            text.starts_with("pairs in use: shm 4, tcp 1\nrank 0 on n to 1-3,5: shm: same host\n"),
            "{text}"
        );
        for words in ["rank 1 on n: has sent to nobody", "rank 2 on n: has ended", "rank 3 on n: no answer"] {
            assert!(text.contains(words), "no {words:?} in {text}");
        }
    }
}
