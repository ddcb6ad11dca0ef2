//! Standard input for one rank, read only as fast as the rank takes it.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::process::getpgrp;

use crate::poller::{Interest, Poller, Token};
use crate::wire::PIECE_BYTES_MAX;

/// This process's standard input on its way to a rank.
#[derive(Debug)]
pub struct Input {
    /// The rank that reads it.
    pub rank: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A terminal that another job is in front of.
    Background,
    /// Watched.
    Watched,
    /// A file: always ready.
    File,
    /// The rank has not taken the last piece yet.
    Waiting,
    /// Over.
    Closed,
}

impl Input {
    /// Starts to watch standard input for `rank`.
    pub fn start(rank: u32, poller: &Poller, token: Token) -> io::Result<Self> {
        let mut input = Self { rank, state: State::Waiting };
        input.taken(poller, token)?;
        Ok(input)
    }

    /// Whether it can be read without waiting.
    pub fn is_always_ready(&self) -> bool {
        self.state == State::File
    }

    /// Reads a piece; none means the end.
    pub fn read(&mut self, poller: &Poller) -> io::Result<Option<Vec<u8>>> {
        if !matches!(self.state, State::Watched | State::File) {
            return Ok(None);
        }
        let stdin = io::stdin();
        if self.state == State::Watched {
            poller.remove(stdin.as_fd())?;
        }
        let mut bytes = vec![0; PIECE_BYTES_MAX];
        // An input that cannot be read is one that has ended.
        let count = rustix::io::read(stdin.as_fd(), &mut bytes).unwrap_or(0);
        bytes.truncate(count);
        self.state = if count == 0 { State::Closed } else { State::Waiting };
        Ok(Some(bytes))
    }

    /// The rank took the last piece: the next may be read.
    pub fn taken(&mut self, poller: &Poller, token: Token) -> io::Result<()> {
        if !matches!(self.state, State::Waiting | State::Background) {
            return Ok(());
        }
        let stdin = io::stdin();
        let elsewhere = |front: rustix::process::Pid| front != getpgrp();
        if stdin.is_terminal() && rustix::termios::tcgetpgrp(stdin.as_fd()).is_ok_and(elsewhere) {
            self.state = State::Background;
            return Ok(());
        }
        self.state = match poller.add(stdin.as_fd(), token, Interest::Read) {
            Ok(true) => State::Watched,
            Ok(false) => State::File,
            // A standard input that is closed has ended.
            Err(_) => State::File,
        };
        Ok(())
    }

    /// Nobody reads it any more.
    pub fn close(&mut self, poller: &Poller) {
        if self.state == State::Watched {
            // It is watched, so there is something to remove.
            let _ = poller.remove(io::stdin().as_fd());
        }
        self.state = State::Closed;
    }
}
