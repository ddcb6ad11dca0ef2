//! Addresses: opaque names for peers, found by URL or met when somebody calls us.
//!
//! An address outlives its connection. One that was looked up is connected again by itself; one that called us stays known
//! until it is dropped, or, once its connection has ended and nobody counts references to it, until many others have come after it.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use barewire_core::Peer;

use super::error::{Error, Failure, Result};

/// Names a peer.
///
/// ```
/// # use barewire::bmi::*;
/// # use std::time::Duration;
/// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
/// # let context = bmi.open_context().unwrap();
/// # const SOON: Duration = Duration::from_secs(10);
/// let server = bmi.addr_lookup("tcp://10.1.2.3:3334").unwrap();
/// assert_eq!(bmi.addr_lookup("tcp://10.1.2.3:3334").unwrap(), server); // one name for one peer
/// assert_ne!(bmi.addr_lookup("tcp://10.1.2.4:3334").unwrap(), server);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Addr(i64);

impl Addr {
    /// As a number for C; never zero or negative.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// assert!(me.to_raw() > 0);
    /// ```
    pub fn to_raw(self) -> i64 {
        self.0
    }

    /// From a number of C's; one that was never given out names nobody.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// assert_eq!(Addr::from_raw(me.to_raw()), me);
    /// assert!(matches!(bmi.addr_rev_lookup(Addr::from_raw(1 << 40)), Err(Error::NoSuchAddr)));
    /// ```
    pub fn from_raw(raw: i64) -> Addr {
        Addr(raw)
    }
}

/// Addresses that called us, lost their connection and are still known, at most.
const DEAD_MAX: usize = 1024;

/// What is known of one address.
#[derive(Debug)]
pub(super) struct Entry {
    pub peer: Peer,
    /// As it was looked up, or where it called from.
    pub url: String,
    /// It was looked up, so it can be called again.
    pub called: bool,
    pub ip: Option<SocketAddr>,
    pub references: u32,
    /// Its connection ended so, and none has been made since.
    pub lost: Option<Failure>,
    /// An operation failed because of that, so somebody knows.
    pub told: bool,
    /// Operations under way.
    pub pending: u32,
}

/// All addresses.
#[derive(Debug, Default)]
pub(super) struct Addrs {
    next: i64,
    entries: HashMap<Addr, Entry>,
    by_url: HashMap<String, Addr>,
    by_peer: HashMap<Peer, Addr>,
    /// Lost ones that called us, the oldest first.
    dead: VecDeque<Addr>,
}

impl Addrs {
    pub fn get(&self, addr: Addr) -> Result<&Entry> {
        self.entries.get(&addr).ok_or(Error::NoSuchAddr)
    }

    pub fn get_mut(&mut self, addr: Addr) -> Result<&mut Entry> {
        self.entries.get_mut(&addr).ok_or(Error::NoSuchAddr)
    }

    pub fn by_url(&self, url: &str) -> Option<Addr> {
        self.by_url.get(url).copied()
    }

    pub fn by_peer(&self, peer: Peer) -> Option<Addr> {
        self.by_peer.get(&peer).copied()
    }

    /// An address for a peer that has none.
    pub fn add(&mut self, peer: Peer, url: String, called: bool, ip: Option<SocketAddr>) -> Addr {
        self.next += 1;
        let addr = Addr(self.next);
        if called {
            self.by_url.insert(url.clone(), addr);
        }
        self.by_peer.insert(peer, addr);
        let (references, lost, told, pending) = (0, None, false, 0);
        self.entries.insert(addr, Entry { peer, url, called, ip, references, lost, told, pending });
        addr
    }

    /// Another URL for an address that there is.
    pub fn alias(&mut self, url: String, addr: Addr) {
        self.by_url.insert(url, addr);
    }

    pub fn remove(&mut self, addr: Addr) -> Option<Entry> {
        let entry = self.entries.remove(&addr)?;
        self.by_peer.remove(&entry.peer);
        if entry.called {
            self.by_url.retain(|_, other| *other != addr);
        }
        self.dead.retain(|&other| other != addr);
        Some(entry)
    }

    /// A connection ended. Says which address to drop to make room, if one.
    pub fn lose(&mut self, addr: Addr, failure: Failure) -> Option<Addr> {
        let entry = self.entries.get_mut(&addr).filter(|entry| entry.lost.is_none())?;
        entry.lost = Some(failure);
        entry.told = entry.pending > 0;
        if !entry.called {
            self.dead.push_back(addr);
        }
        if self.dead.len() <= DEAD_MAX {
            return None;
        }
        let free = |addr: &Addr| {
            self.entries.get(addr).is_some_and(|entry| entry.references == 0 && entry.pending == 0)
        };
        self.dead.iter().copied().find(free)
    }
}
