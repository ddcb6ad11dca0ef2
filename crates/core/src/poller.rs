//! One descriptor to wait on: an epoll over the doorbell, the sockets, neighbours' processes and the directory.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
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
    /// Somebody wants to connect by TCP: which of our listeners.
    TcpListener(u32),
    /// Somebody who has connected but not proved anything yet.
    Guest(u32),
    /// A connection by TCP in the making.
    Dial(Peer),
    /// The TCP connection with this peer.
    Tcp(Peer),
    /// The process of this neighbour.
    Process(Peer),
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
            Source::TcpListener(which) => (6, which),
            Source::Guest(which) => (7, which),
            Source::Dial(peer) => (8, peer.0),
            Source::Tcp(peer) => (9, peer.0),
            Source::Process(peer) => (10, peer.0),
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
            5 => Source::RingRx(peer),
            6 => Source::TcpListener(token as u32),
            7 => Source::Guest(token as u32),
            8 => Source::Dial(peer),
            9 => Source::Tcp(peer),
            _ => Source::Process(peer),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Poller {
    epoll: Arc<OwnedFd>,
}

/// Events taken at a time; the rest is there the next time.
const EVENTS_MAX: usize = 64;

impl Poller {
    pub fn new() -> Result<Poller, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll: Arc::new(epoll) })
    }

    /// A second poller of the same things.
    pub fn share(&self) -> Poller {
        Poller { epoll: Arc::clone(&self.epoll) }
    }

    pub fn add(&self, fd: impl AsFd, source: Source) -> Result<(), Errno> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(source.token()), flags)
    }

    /// Says whether room to write matters, too.
    pub fn watch_room(&self, fd: impl AsFd, source: Source, room: bool) -> Result<(), Errno> {
        let mut flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        flags.set(epoll::EventFlags::OUT, room);
        epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(source.token()), flags)
    }

    pub fn remove(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// What is ready, waiting at most `timeout`; `None` waits for ever.
    pub fn wait(&self, timeout: Option<Duration>) -> Vec<Source> {
        let mut ready = Vec::new();
        self.wait_into(&mut ready, timeout);
        ready
    }

    /// [`Poller::wait`] without a new list every time.
    pub fn wait_into(&self, ready: &mut Vec<Source>, timeout: Option<Duration>) {
        let timeout = timeout.map(|t| Timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        let mut room = [MaybeUninit::uninit(); EVENTS_MAX];
        if let Ok((events, _)) = epoll::wait(&self.epoll, &mut room, timeout.as_ref()) {
            ready.extend(events.iter().map(|event| Source::from_token(event.data.u64())));
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
