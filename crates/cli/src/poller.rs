//! One place to wait for many descriptors.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};

/// Tells the sources of events apart.
pub type Token = u64;

/// What a descriptor is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Bytes to read.
    Read,
    /// Bytes to read, or room to write.
    ReadWrite,
    /// Room to write.
    Write,
}

/// Waits for many descriptors at a cost that does not grow with their number.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    /// A poller that watches nothing yet.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(256) })
    }

    /// Starts to watch; false for files, which are always ready and cannot be watched.
    pub fn add(&self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<bool> {
        match epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), flags(interest)) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::PERM) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes what a descriptor is watched for.
    pub fn modify(&self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(token), flags(interest))?)
    }

    /// Stops to watch.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until something is ready, a signal comes, or the time is up; returns the tokens of what is ready.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Vec<Token>> {
        let timeout = timeout.map(|duration| Timespec {
            tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(duration.subsec_nanos()),
        });
        self.events.clear();
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, buffer, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {
                Ok(self.events.iter().map(|event| { event.data }.u64()).collect())
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    match interest {
        Interest::Read => epoll::EventFlags::IN,
        Interest::ReadWrite => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        Interest::Write => epoll::EventFlags::OUT,
    }
}
