//! One descriptor to wait on: an epoll over the doorbell, the sockets and the directory.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use barewire_sys::rustix::event::{Timespec, epoll};
use barewire_sys::rustix::io::Errno;

use crate::Peer;

/// What became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Somebody rang.
    Bell,
    /// A neighbour wants to connect.
    LocalListener,
    /// A handshake in the pending list.
    Pending,
    /// The job's directory has news.
    Directory,
    /// The local socket of the ring to this peer.
    RingTx(Peer),
    /// The local socket of the ring from this peer.
    RingRx(Peer),
}

impl Source {
    fn token(self) -> u64 {
        let (kind, peer) = match self {
            Source::Bell => (0, 0),
            Source::LocalListener => (1, 0),
            Source::Pending => (2, 0),
            Source::Directory => (3, 0),
            Source::RingTx(peer) => (4, peer.0),
            Source::RingRx(peer) => (5, peer.0),
        };
        kind << 32 | u64::from(peer)
    }

    fn from_token(token: u64) -> Source {
        let peer = Peer(token as u32);
        match token >> 32 {
            0 => Source::Bell,
            1 => Source::LocalListener,
            2 => Source::Pending,
            3 => Source::Directory,
            4 => Source::RingTx(peer),
            _ => Source::RingRx(peer),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

/// Events taken at a time; the rest is there the next time.
const EVENTS_MAX: usize = 64;

impl Poller {
    pub fn new() -> Result<Poller, Errno> {
        Ok(Poller { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    pub fn add(&self, fd: impl AsFd, source: Source) -> Result<(), Errno> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(source.token()), flags)
    }

    pub fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// What is ready, waiting at most `timeout`; `None` waits for ever.
    pub fn wait(&self, timeout: Option<Duration>) -> Vec<Source> {
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        match epoll::wait(&self.epoll, &mut room, timeout.as_ref()) {
            Ok((events, _)) => events.iter().map(|event| Source::from_token(event.data.u64())).collect(),
            Err(_) => Vec::new(),
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
