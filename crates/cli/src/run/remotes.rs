//! One agent, as the launcher sees it.

use std::os::fd::OwnedFd;

use barewire_core::boot::Link;

use super::start::Called;

/// One host's agent.
#[derive(Debug)]
pub struct Agent {
    /// The host's name.
    pub host: String,
    /// Whether it is started without a remote shell, on this host.
    pub is_here: bool,
    /// The agent's process here, or that of the remote shell, until it has ended.
    pub pid: Option<u32>,
    /// The line to it, once it has called.
    pub link: Option<Link>,
    /// What the remote shell complains about.
    pub complaints: Option<OwnedFd>,
    /// The complaints so far.
    pub words: String,
    /// What was typed to start it.
    pub line: String,
    /// Where it stands.
    pub state: State,
    /// How many ranks its host takes, and what limits them.
    pub capacity: Option<(u32, String)>,
}

/// Where an agent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Started, and not heard of yet.
    Starting,
    /// Ready for ranks, or running them.
    Ready,
    /// Its ranks have ended and it has said so.
    Done,
    /// Gone without a word, or never there.
    Lost,
}

impl Agent {
    /// An agent that is being started, not on this host.
    pub fn new(host: &str) -> Self {
        Self {
            host: host.to_owned(),
            is_here: false,
            pid: None,
            link: None,
            complaints: None,
            words: String::new(),
            line: String::new(),
            state: State::Starting,
            capacity: None,
        }
    }

    /// Its remote shell was started.
    pub fn called(&mut self, called: Called) {
        self.pid = Some(called.pid);
        self.line = called.line;
        self.complaints = Some(called.complaints);
    }

    /// Whether it may call now.
    pub fn is_expected(&self) -> bool {
        self.state == State::Starting && self.link.is_none()
    }

    /// What to say of one whose remote shell ended, in this way, before it called.
    pub fn never_called(&self, ended: &str) -> String {
        format!(
            "the remote shell {ended} before an agent answered{}\n  it was: {}\n{}",
            self.last_complaints(),
            self.line,
            self.hint()
        )
    }

    /// What to do about the remote shell's complaint.
    fn hint(&self) -> String {
        let host = &self.host;
        let says = |words: &str| self.words.contains(words);
        match () {
            () if says("Could not resolve") => {
                format!("  is the name right? `getent hosts {host}` shows what this host knows about it")
            }
            () if says("Connection refused") => {
                "  no ssh server answers there: start one, or set another way in with --remote-shell".into()
            }
            () if says("Permission denied") => {
                format!("  ssh must work without a password: `ssh-copy-id {host}`, then `ssh {host} true`")
            }
            () if says("Host key verification failed") => {
                format!("  the host is not known yet: run `ssh {host} true` once and accept its key")
            }
            () if says("not found") => {
                "  is barewire installed there, at the same place? --remote-program says where else".into()
            }
            () => {
                "  try that command by hand; --remote-shell sets another, --remote-program says where barewire is there"
                    .into()
            }
        }
    }

    /// Whether anything more is to be expected of it.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Done | State::Lost)
    }

    /// Reads what the remote shell says, up to a bound.
    pub fn read_complaints(&mut self) -> bool {
        let Some(pipe) = &self.complaints else { return false };
        let mut bytes = [0; 4096];
        match rustix::io::read(pipe, &mut bytes) {
            Ok(count) if count > 0 => {
                if self.words.len() < WORDS_BYTES_MAX {
                    self.words.push_str(&String::from_utf8_lossy(&bytes[..count]));
                }
                true
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => false,
            Ok(_) | Err(_) => {
                self.complaints = None;
                false
            }
        }
    }

    /// The last few lines of what the remote shell said.
    pub fn last_complaints(&self) -> String {
        let lines: Vec<_> = self.words.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(3)..];
        last.iter().map(|line| format!("\n  {}", line.trim())).collect()
    }
}

const WORDS_BYTES_MAX: usize = 16 * 1024;
