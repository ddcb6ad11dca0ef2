//! What an endpoint knows about one peer.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use barewire_sys::rustix::process::Pid;
use barewire_sys::shuttle::Shuttle;
use std::ops::{Index, IndexMut};

use crate::endpoint::outbox::Outbox;
use crate::provider::{Tx, shuttle};
use crate::stats::Stats;
use crate::wire::Card;

/// How a peer is doing.
///
/// ```
/// use barewire_core::{Config, Endpoint, Ignore, Peer, PeerState, Port, job::Job};
/// let mut ends = Job::threads(2).unwrap().into_iter().map(|job| Endpoint::open(job, Config::default()).unwrap());
/// let (mut stays, mut leaves) = (ends.next().unwrap(), ends.next().unwrap());
/// assert_eq!(stays.peer_state(Peer(1)), PeerState::Unknown);
/// # while stays.stats().received == 0 || leaves.stats().received == 0 {
/// #     let _ = (stays.send(Peer(1), Port(0), 0, b""), leaves.send(Peer(0), Port(0), 0, b""));
/// #     stays.progress(&mut Ignore, usize::MAX);
/// #     leaves.progress(&mut Ignore, usize::MAX);
/// # }
/// // … both have sent something …
/// assert_eq!(stays.peer_state(Peer(1)), PeerState::Connected);
/// drop(leaves);
/// stays.wait(&mut Ignore, None, |stays, _| stays.peer_state(Peer(1)) == PeerState::Left).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerState {
    /// Nothing has been sent to it yet.
    Unknown,
    /// Being looked up or connected to.
    Connecting,
    /// Connected.
    Connected,
    /// It closed its endpoint in good order.
    Left,
    /// It is gone without a word.
    Lost(String),
}

/// One peer's links and counters.
#[derive(Debug)]
pub(crate) struct PeerEntry {
    pub tx: Tx,
    /// Where answers go to and fro with a neighbour, beside the rings.
    pub shuttle: Option<Box<shuttle::Link>>,
    pub state: PeerState,
    /// Set while a plain short message may go straight into a ring: connected by ring, nothing waiting in the outbox.
    pub fast: bool,
    /// Answers and control packets that found no room, in order.
    pub outbox: Outbox,
    /// A send found no room when this many lines had been given back: whoever sleeps meanwhile wants to be woken.
    pub starved_at: Option<u64>,
    pub next_stream: u32,
    pub card: Option<Card>,
    /// When we began to connect, to give up in time.
    pub since: Option<std::time::Instant>,
    pub stats: Stats,
    /// Which wire leads there, and why.
    pub choice: Option<String>,
    /// The layer above knows that it is gone.
    pub told_lost: bool,
    /// Its process, if it is a neighbour that has connected and that we can see.
    pub process: Option<Pid>,
    /// Tells when that process has ended, though a child of it may keep its sockets open.
    pub watch: Option<OwnedFd>,
}

impl PeerEntry {
    pub fn new() -> PeerEntry {
        PeerEntry {
            tx: Tx::Closed,
            shuttle: None,
            state: PeerState::Unknown,
            fast: false,
            outbox: Outbox::default(),
            starved_at: None,
            next_stream: 0,
            card: None,
            since: None,
            stats: Stats::default(),
            choice: None,
            told_lost: false,
            process: None,
            watch: None,
        }
    }

    /// Puts the shuttle back that was taken out while a handler ran, unless the peer was lost meanwhile.
    pub fn put_back(&mut self, link: Box<shuttle::Link>) -> &mut PeerEntry {
        if !self.is_gone() {
            self.shuttle = Some(link);
        }
        self
    }

    /// The shuttle, if there is one.
    #[inline(always)]
    pub fn shuttle(&mut self) -> Option<&mut Shuttle> {
        self.shuttle.as_mut().map(|link| &mut link.shuttle)
    }

    pub fn is_gone(&self) -> bool {
        matches!(self.state, PeerState::Left | PeerState::Lost(_))
    }

    /// Recomputes whether the short way is open.
    pub fn refresh_fast(&mut self) {
        self.fast = matches!(self.tx, Tx::Ring(_)) && self.outbox.is_empty() && !self.is_gone();
    }
}

/// The entries of all peers: side by side, or, where an endpoint knows thousands and talks to few, only those it talks to.
#[derive(Debug)]
pub(crate) struct PeerTable {
    near: Vec<PeerEntry>,
    far: BTreeMap<usize, PeerEntry>,
    size: usize,
    /// What is known of peers nobody has talked to yet.
    blank: PeerEntry,
}

impl PeerTable {
    pub fn dense(size: u32) -> PeerTable {
        let near = (0..size).map(|_| PeerEntry::new()).collect();
        PeerTable { near, far: BTreeMap::new(), size: size as usize, blank: PeerEntry::new() }
    }

    pub fn sparse(size: u32) -> PeerTable {
        PeerTable { near: Vec::new(), far: BTreeMap::new(), size: size as usize, blank: PeerEntry::new() }
    }

    /// Makes an entry for one more peer and says its number.
    pub fn grow(&mut self) -> u32 {
        self.near.push(PeerEntry::new());
        self.size = self.near.len();
        (self.size - 1) as u32
    }

    pub fn len(&self) -> usize {
        self.size
    }

    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<&PeerEntry> {
        if at < self.near.len() { Some(&self.near[at]) } else { self.get_far(at) }
    }

    #[inline(always)]
    pub fn get_mut(&mut self, at: usize) -> Option<&mut PeerEntry> {
        if at < self.near.len() { Some(&mut self.near[at]) } else { self.get_far_mut(at) }
    }

    /// Everybody that was talked to, and perhaps others.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut PeerEntry> {
        self.near.iter_mut().chain(self.far.values_mut())
    }

    #[cold]
    #[inline(never)]
    fn get_far(&self, at: usize) -> Option<&PeerEntry> {
        if at < self.size { Some(self.far.get(&at).unwrap_or(&self.blank)) } else { None }
    }

    #[cold]
    #[inline(never)]
    fn get_far_mut(&mut self, at: usize) -> Option<&mut PeerEntry> {
        if at < self.size { Some(self.far.entry(at).or_insert_with(PeerEntry::new)) } else { None }
    }
}

impl Index<usize> for PeerTable {
    type Output = PeerEntry;

    #[inline(always)]
    fn index(&self, at: usize) -> &PeerEntry {
        self.get(at).expect("callers pass peers of this job")
    }
}

impl IndexMut<usize> for PeerTable {
    #[inline(always)]
    fn index_mut(&mut self, at: usize) -> &mut PeerEntry {
        self.get_mut(at).expect("callers pass peers of this job")
    }
}
