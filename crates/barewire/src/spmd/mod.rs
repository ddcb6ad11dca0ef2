//! Programs of one text: ranks that run the same program, meet in collective operations and reach into each other's memory.
//!
//! This is what `splitc`, `shmem` and `ga` stand on. A [`World`] is an endpoint with a
//! rank, collectives over groups of ranks, and [`Symmetric`] memory: a block of the same size at every rank, whose keys everybody
//! has. Put, get and atomics on it are done on the spot where the memory is within reach, and travel otherwise; those that
//! travel are counted, and [`World::quiet`] waits for them.
//!
//! Ranks serve each other's operations whenever they are in a call of theirs. A rank that computes for long should
//! [`World::poll`] now and then, or the others may have to wait for it.
//!
//! ```
//! use barewire::core::{Config, Endpoint, job::Job};
//! use barewire::spmd::{Group, Quiet, World};
//!
//! let ranks = Job::threads(3).unwrap().into_iter().map(|job| std::thread::spawn(move || {
//!     let endpoint = Endpoint::open(job, Config::default()).unwrap();
//!     let mut world = World::new(endpoint, Quiet);
//!     let (all, me, size) = (world.all(), world.rank(), world.size());
//!     let memory = world.symmetric(64).unwrap();
//!     // Everybody writes its rank to its right neighbour.
//!     world.put(&memory, (me + 1) % size, 0, &me.to_le_bytes()).unwrap();
//!     world.quiet().unwrap();
//!     world.barrier(all).unwrap();
//!     let mut left = [0; 4];
//!     assert!(memory.local().read(0, &mut left));
//!     let mut sum = [u64::from(u32::from_le_bytes(left))];
//!     world.reduce(all, &mut sum, |a, b| a + b).unwrap();
//!     assert_eq!(sum, [0 + 1 + 2]);
//! }));
//! ranks.collect::<Vec<_>>().into_iter().for_each(|rank| rank.join().unwrap());
//! ```

mod collective;
mod error;
mod heap;
mod launch;
mod mail;
mod operations;

use std::collections::HashMap;
use std::task::Waker;
use std::time::Duration;

use barewire_core::region::{Key, Memory, Rights, Who};
use barewire_core::wait::Waiting;
use barewire_core::{Ahead, Deliver, Endpoint, Flow, Incoming, Peer, PeerState, SendError};
use barewire_sys::wirebuf::Places;
use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use collective::Group;
pub use error::Error;
pub(crate) use heap::Heap;
pub use launch::launch;
pub(crate) use operations::Phase;

use mail::Mail;
use operations::{SCRATCH_BYTES, Travelling, reap};

/// Values that are their bytes: integers, floats, and arrays of them. What lies in shared memory may be any bytes, so any bytes must be a
/// value; `zerocopy` proves that, for types of yours too.
pub trait Plain: FromBytes + IntoBytes + Immutable + Copy + Send + 'static {}

impl<T: FromBytes + IntoBytes + Immutable + Copy + Send + 'static> Plain for T {}

/// A layer that takes no messages of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Deliver for Quiet {
    fn deliver(&mut self, _: &mut Endpoint, _: Incoming<'_>) -> Flow {
        Flow::Continue
    }
}

/// A rank among others, with a layer `L` that takes the messages the world does not know.
#[derive(Debug)]
pub struct World<L> {
    pub(crate) endpoint: Endpoint,
    pub(crate) hub: Hub<L>,
    /// Operations that travel and whose end nobody has seen yet.
    travelling: Vec<Travelling>,
    /// The first failure among operations that nobody waited for one by one.
    failed: Option<Error>,
    /// How many collectives each group has had.
    turns: HashMap<u64, u64>,
    next_group: u64,
    /// Where bytes from afar land before they go to their place.
    scratch: Memory,
    /// Operations since the last poll.
    unpolled: u32,
    timeout: Option<Duration>,
    wakers: Vec<Waker>,
}

/// What arrives: letters of collectives, and the layer's own.
#[derive(Debug)]
pub(crate) struct Hub<L> {
    pub mail: Mail,
    pub layer: L,
}

/// Operations on memory within reach between two polls.
const POLL_EVERY: u32 = 64;

impl<L: Deliver> World<L> {
    /// This rank of the endpoint's job.
    pub fn new(endpoint: Endpoint, layer: L) -> World<L> {
        let size = endpoint.size();
        World {
            endpoint,
            hub: Hub { mail: Mail::new(size), layer },
            travelling: Vec::new(),
            failed: None,
            turns: HashMap::new(),
            next_group: 1,
            scratch: Memory::private(SCRATCH_BYTES),
            unpolled: 0,
            timeout: None,
            wakers: Vec::new(),
        }
    }

    /// This rank's number.
    pub fn rank(&self) -> u32 {
        self.endpoint.me().0
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.endpoint.size()
    }

    /// The endpoint below, for its counters, its peers' states and its descriptor.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// How long any wait may last before it ends with [`Error::TimedOut`]. `None`, the default: as long as it takes.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Makes a block of memory at every rank, of the same size or each of its own. All ranks call it.
    pub fn symmetric(&mut self, bytes: usize) -> Result<Symmetric, Error> {
        let mine = self.export(bytes);
        // Whoever has none says so, so that the others do not wait for it.
        let told = mine.as_ref().map_or(Vec::new(), |(_, key)| key.to_bytes().to_vec());
        let all = self.all();
        let parts = self.gather_all(all, &told)?;
        let (memory, _) = mine?;
        let key = |bytes: Vec<u8>| bytes.try_into().map(Key::from_bytes);
        let keys = parts.into_iter().map(key).collect::<Result<Vec<_>, _>>();
        let keys = keys.map_err(|_| Error::Memory("another rank has none".to_owned()))?;
        Ok(Symmetric { memory, keys })
    }

    pub(crate) fn export(&mut self, bytes: usize) -> Result<(Memory, Key), Error> {
        let memory = Memory::shared(bytes).map_err(|error| Error::Memory(error.to_string()))?;
        let key = self.endpoint.export(&memory, Rights::ALL, Who::Anyone)?;
        Ok((memory, key))
    }

    /// Ends this rank's export of its block: whoever still uses it gets an error. False if it was ended before.
    pub fn revoke(&mut self, memory: &Symmetric) -> bool {
        let mine = memory.keys.iter().find(|key| key.owner == self.endpoint.me());
        mine.is_some_and(|&key| self.endpoint.revoke(key))
    }

    /// Takes what has arrived and serves the others. Never waits. Says how many packets it took.
    pub fn poll(&mut self) -> usize {
        self.unpolled = 0;
        let taken = self.endpoint.progress(&mut self.hub, usize::MAX);
        if taken > 0 && !self.travelling.is_empty() {
            self.reap();
        }
        taken
    }

    /// [`World::poll`] for those who look in a loop of their own; see [`Endpoint::looked`].
    pub fn look(&mut self) -> usize {
        let taken = self.poll();
        self.endpoint.looked(taken);
        taken
    }

    /// Something was done to memory within reach: its owner may sleep until it happens, and others wait for us now and then.
    #[inline]
    pub(crate) fn acted(&mut self, owner: Peer) {
        self.endpoint.nudge(owner);
        self.unpolled += 1;
        if self.unpolled >= POLL_EVERY {
            self.poll();
        }
    }

    /// Waits for something that others bring about: with a message, or by writing this rank's memory.
    pub(crate) fn watch(
        &mut self,
        what: &'static str,
        on: Option<Peer>,
        mut done: impl FnMut(&mut L) -> bool,
    ) -> Result<(), Error> {
        let mut lost = None;
        let World { endpoint, hub, timeout, .. } = self;
        endpoint.watch_for(Waiting { what, on }, hub, *timeout, |endpoint, hub| {
            if done(&mut hub.layer) {
                return true;
            }
            lost = hub.mail.bereaved(endpoint);
            lost.is_some()
        })?;
        lost.map_or(Ok(()), |peer| Err(Error::Lost(peer)))
    }

    /// Waits until `done`, which is asked whenever something may have happened and is told how many operations have ended meanwhile.
    pub(crate) fn wait_until(
        &mut self,
        waiting: Waiting,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut Endpoint, &mut L, usize) -> bool,
    ) -> Result<(), Error> {
        let World { endpoint, hub, travelling, failed, .. } = self;
        Ok(endpoint.wait_for(waiting, hub, timeout, |endpoint, hub| {
            let ended = if travelling.is_empty() { 0 } else { reap(endpoint, travelling, failed) };
            done(endpoint, &mut hub.layer, ended)
        })?)
    }

    /// Wakes `waker` when one of the operations under way has ended.
    pub(crate) fn wake_when_reaped(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }

    /// Sends a message of the layer's, waiting for room.
    pub(crate) fn send(
        &mut self,
        to: Peer,
        mut send: impl FnMut(&mut Endpoint) -> Result<(), SendError>,
    ) -> Result<(), Error> {
        let mut sent = send(&mut self.endpoint);
        if sent == Err(SendError::Full) {
            let waiting = Waiting { what: "room for a message", on: Some(to) };
            self.endpoint.wait_for(waiting, &mut self.hub, self.timeout, |endpoint, _| {
                sent = send(endpoint);
                sent != Err(SendError::Full)
            })?;
        }
        Ok(sent?)
    }
}

impl<L: Deliver> Deliver for Hub<L> {
    #[inline]
    fn deliver(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        if Mail::owns(packet.port) {
            self.mail.deliver(packet);
            return Flow::Continue;
        }
        self.layer.deliver(endpoint, packet)
    }

    fn place<'a>(&'a mut self, ahead: &Ahead, places: &mut Places<'a>) {
        if !Mail::owns(ahead.port) {
            self.layer.place(ahead, places);
        }
    }

    fn placed(&mut self, endpoint: &mut Endpoint, ahead: &Ahead) -> Flow {
        self.layer.placed(endpoint, ahead)
    }

    fn peer_lost(&mut self, endpoint: &mut Endpoint, peer: Peer) {
        self.mail.peer_gone(peer, !matches!(endpoint.peer_state(peer), PeerState::Left));
        self.layer.peer_lost(endpoint, peer);
    }
}

/// A block of memory at every rank.
#[derive(Clone, Debug)]
pub struct Symmetric {
    memory: Memory,
    keys: Vec<Key>,
}

impl Symmetric {
    /// A block that only some ranks have: this one's own, and the keys of all who do. What is said of ranks below is then of places among them.
    pub(crate) fn among(memory: Memory, keys: Vec<Key>) -> Symmetric {
        Symmetric { memory, keys }
    }

    /// This rank's own block.
    pub fn local(&self) -> &Memory {
        &self.memory
    }

    /// The key to a rank's block.
    #[inline]
    pub fn key(&self, rank: u32) -> Result<Key, Error> {
        let size = self.keys.len() as u32;
        self.keys.get(rank as usize).copied().ok_or(Error::NoSuchRank { rank, size })
    }

    /// The same block with another key for a rank: one that was passed on by other ways.
    pub fn with_key(mut self, rank: u32, key: Key) -> Symmetric {
        if let Some(place) = self.keys.get_mut(rank as usize) {
            *place = key;
        }
        self
    }
}
