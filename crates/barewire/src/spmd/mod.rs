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

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use barewire_core::region::{Atomic, Key, Memory, Op, RegionError, Rights, Who, Width};
use barewire_core::wait::Waiting;
use barewire_core::{Deliver, Endpoint, Flow, Incoming, Peer, PeerState, SendError};
use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use collective::Group;
pub use error::Error;
pub(crate) use heap::Heap;
pub use launch::launch;

use mail::Mail;

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
    turns: HashMap<u64, u32>,
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

#[derive(Debug)]
struct Travelling {
    op: Op,
    peer: Peer,
    tell: Option<Phase>,
}

/// An operation under way whose end somebody waits for by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phase(Arc<Mutex<Option<Result<u64, Error>>>>);

impl Phase {
    pub fn outcome(&self) -> Option<Result<u64, Error>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end(&self, outcome: Result<u64, Error>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }
}

/// Operations on memory within reach between two polls.
const POLL_EVERY: u32 = 64;
/// Operations that may travel at a time before one more waits for some to end.
const TRAVELLING_MAX: usize = 4096;
/// The scratch memory that is kept; longer gets make their own.
const SCRATCH_BYTES: usize = 64 << 10;

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
        let memory = Memory::shared(bytes).map_err(|error| Error::Memory(error.to_string()))?;
        let mine = self.endpoint.export(&memory, Rights::ALL, Who::Anyone)?;
        let all = self.all();
        let mut keys = Vec::with_capacity(self.size() as usize);
        for bytes in self.gather_all(all, &mine.to_bytes())? {
            let bytes = bytes.try_into().map_err(|_| Error::Mismatch("what came is not a key"))?;
            keys.push(Key::from_bytes(bytes));
        }
        Ok(Symmetric { memory, keys })
    }

    /// Ends this rank's export of its block: whoever still uses it gets an error. False if it was ended before.
    pub fn revoke(&mut self, memory: &Symmetric) -> bool {
        memory.keys.get(self.rank() as usize).is_some_and(|&key| self.endpoint.revoke(key))
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

    /// Puts `bytes` into a rank's block. They are in place, or on their way: see [`World::quiet`].
    #[inline]
    pub fn put(&mut self, memory: &Symmetric, rank: u32, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        if self.put_now(memory, rank, offset, bytes)? {
            return Ok(());
        }
        self.put_afar(memory.key(rank)?, offset, bytes, None)
    }

    /// Puts `bytes` into a rank's block, and waits until they are in place.
    #[inline]
    pub fn put_and_wait(
        &mut self,
        memory: &Symmetric,
        rank: u32,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Error> {
        if self.put_now(memory, rank, offset, bytes)? {
            return Ok(());
        }
        let key = memory.key(rank)?;
        let op = self.start(key.owner, |endpoint| endpoint.put(key, offset, bytes))?;
        self.finish(op).map(|_| ())
    }

    /// Puts bytes where they are within reach; false if they are not.
    #[inline]
    pub(crate) fn put_now(
        &mut self,
        memory: &Symmetric,
        rank: u32,
        offset: u64,
        bytes: &[u8],
    ) -> Result<bool, Error> {
        let key = memory.key(rank)?;
        let Some(there) = self.endpoint.reach(key, Rights::WRITE)? else { return Ok(false) };
        if !there.write(place(offset)?, bytes) {
            return Err(Error::OUT_OF_RANGE);
        }
        self.acted(key.owner);
        Ok(true)
    }

    pub(crate) fn put_afar(
        &mut self,
        key: Key,
        offset: u64,
        bytes: &[u8],
        tell: Option<&Phase>,
    ) -> Result<(), Error> {
        let op = self.start(key.owner, |endpoint| endpoint.put(key, offset, bytes))?;
        self.track(op, key.owner, tell)
    }

    /// Gets bytes of a rank's block, and waits for them.
    #[inline]
    pub fn get(&mut self, memory: &Symmetric, rank: u32, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        if self.get_now(memory, rank, offset, into)? {
            return Ok(());
        }
        self.get_from_afar(memory.key(rank)?, offset, into)
    }

    /// Gets bytes that are within reach; false if they are not.
    #[inline]
    pub(crate) fn get_now(
        &mut self,
        memory: &Symmetric,
        rank: u32,
        offset: u64,
        into: &mut [u8],
    ) -> Result<bool, Error> {
        let key = memory.key(rank)?;
        let Some(there) = self.endpoint.reach(key, Rights::READ)? else { return Ok(false) };
        if !there.read(place(offset)?, into) {
            return Err(Error::OUT_OF_RANGE);
        }
        self.acted(key.owner);
        Ok(true)
    }

    fn get_from_afar(&mut self, key: Key, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let scratch =
            if into.len() <= SCRATCH_BYTES { self.scratch.clone() } else { Memory::private(into.len()) };
        let len = into.len() as u64;
        let op = self.start(key.owner, |endpoint| endpoint.get(key, offset, &scratch, 0, len))?;
        let got = self.finish(op);
        if got.is_err() {
            // It may still arrive, so the place where it lands is not used again.
            self.scratch = Memory::private(SCRATCH_BYTES);
        }
        got?;
        let read = scratch.read(0, into);
        debug_assert!(read, "the scratch is as long as what was asked for");
        Ok(())
    }

    /// Starts to get bytes of a rank's block into memory of this one. They are there after [`World::quiet`].
    pub fn get_start(
        &mut self,
        memory: &Symmetric,
        rank: u32,
        offset: u64,
        (into, at): (&Memory, u64),
        len: u64,
    ) -> Result<(), Error> {
        if self.get_into_now(memory, rank, offset, (into, at), len)? {
            return Ok(());
        }
        self.get_afar(memory.key(rank)?, offset, (into, at), len, None)
    }

    /// Gets bytes into memory of this rank, if they are within reach of a copy; false if they are not.
    pub(crate) fn get_into_now(
        &mut self,
        memory: &Symmetric,
        rank: u32,
        offset: u64,
        (into, at): (&Memory, u64),
        len: u64,
    ) -> Result<bool, Error> {
        let key = memory.key(rank)?;
        if rank == self.rank() {
            // It may overlap with where it goes.
            return Ok(false);
        }
        let Some(there) = self.endpoint.reach(key, Rights::READ)? else { return Ok(false) };
        let from = there.wire_ref(place(offset)?, place(len)?);
        let to = into.wire_mut(place(at)?, place(len)?);
        let (Some(mut from), Some(mut to)) = (from, to) else { return Err(Error::OUT_OF_RANGE) };
        to.write_from(&mut from);
        self.acted(key.owner);
        Ok(true)
    }

    pub(crate) fn get_afar(
        &mut self,
        key: Key,
        offset: u64,
        (into, at): (&Memory, u64),
        len: u64,
        tell: Option<&Phase>,
    ) -> Result<(), Error> {
        let op = self.start(key.owner, |endpoint| endpoint.get(key, offset, into, at, len))?;
        self.track(op, key.owner, tell)
    }

    /// Updates one word of a rank's block and gives its old value.
    #[inline]
    pub fn atomic(
        &mut self,
        memory: &Symmetric,
        rank: u32,
        offset: u64,
        width: Width,
        what: Atomic,
    ) -> Result<u64, Error> {
        let key = memory.key(rank)?;
        match self.endpoint.reach(key, Rights::ATOMIC)? {
            Some(there) => {
                let old = what.apply(there, offset, width)?;
                self.acted(key.owner);
                Ok(old)
            }
            None => {
                let op = self.start(key.owner, |endpoint| endpoint.atomic(key, offset, width, what))?;
                self.finish(op)
            }
        }
    }

    /// Starts to update one word of a rank's block, without interest in its old value. It has happened after [`World::quiet`].
    pub fn atomic_start(
        &mut self,
        memory: &Symmetric,
        rank: u32,
        offset: u64,
        width: Width,
        what: Atomic,
    ) -> Result<(), Error> {
        let key = memory.key(rank)?;
        match self.endpoint.reach(key, Rights::ATOMIC)? {
            Some(there) => {
                what.apply(there, offset, width)?;
                self.acted(key.owner);
                Ok(())
            }
            None => {
                let op = self.start(key.owner, |endpoint| endpoint.atomic(key, offset, width, what))?;
                self.track(op, key.owner, None)
            }
        }
    }

    /// Waits until everything this rank has started has ended; the first failure of any is its error. Operations started
    /// later do not overtake it.
    #[inline]
    pub fn quiet(&mut self) -> Result<(), Error> {
        if !self.travelling.is_empty() {
            self.wait_until_travelling(0)?;
        }
        match self.failed.take() {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Whether everything this rank has started has ended.
    pub fn is_quiet(&mut self) -> bool {
        self.poll();
        self.travelling.is_empty()
    }

    /// Waits until one of the operations under way has ended; if there is none, only polls.
    pub(crate) fn wait_for_any(&mut self) -> Result<(), Error> {
        match self.travelling.len() {
            0 => {
                self.poll();
                std::thread::yield_now();
                Ok(())
            }
            some => self.wait_until_travelling(some - 1),
        }
    }

    fn wait_until_travelling(&mut self, most: usize) -> Result<(), Error> {
        let World { endpoint, hub, travelling, failed, timeout, .. } = self;
        while travelling.len() > most {
            let waiting = Waiting { what: "the end of region operations", on: Some(travelling[0].peer) };
            let mut ended = 0;
            let waited = endpoint.wait_for(waiting, hub, *timeout, |endpoint, _| {
                ended += reap(endpoint, travelling, failed);
                ended > 0
            });
            reap(endpoint, travelling, failed);
            waited?;
        }
        Ok(())
    }

    /// Takes the outcomes of what has ended.
    fn reap(&mut self) {
        if reap(&mut self.endpoint, &mut self.travelling, &mut self.failed) > 0 {
            self.wakers.drain(..).for_each(Waker::wake);
        }
    }

    fn track(&mut self, op: Op, peer: Peer, tell: Option<&Phase>) -> Result<(), Error> {
        self.travelling.push(Travelling { op, peer, tell: tell.cloned() });
        if self.travelling.len() >= TRAVELLING_MAX {
            self.wait_until_travelling(TRAVELLING_MAX / 2)?;
        }
        Ok(())
    }

    /// Starts an operation that travels, as soon as there is room for it.
    fn start(
        &mut self,
        peer: Peer,
        mut start: impl FnMut(&mut Endpoint) -> Result<Op, RegionError>,
    ) -> Result<Op, Error> {
        const FULL: Result<Op, RegionError> = Err(RegionError::Send(SendError::Full));
        let mut started = start(&mut self.endpoint);
        if started == FULL {
            let waiting = Waiting { what: "room for a region operation", on: Some(peer) };
            let World { endpoint, hub, travelling, failed, timeout, .. } = self;
            endpoint.wait_for(waiting, hub, *timeout, |endpoint, _| {
                reap(endpoint, travelling, failed);
                started = start(endpoint);
                started != FULL
            })?;
        }
        Ok(started?)
    }

    fn finish(&mut self, op: Op) -> Result<u64, Error> {
        Ok(self.endpoint.finish(&mut self.hub, op, self.timeout)?)
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

/// Takes the outcomes of what has ended, and says of how many.
fn reap(endpoint: &mut Endpoint, travelling: &mut Vec<Travelling>, failed: &mut Option<Error>) -> usize {
    let before = travelling.len();
    travelling.retain(|Travelling { op, tell, .. }| {
        let Some(outcome) = endpoint.take(*op) else { return true };
        let outcome = outcome.map_err(Error::from);
        match tell {
            Some(phase) => {
                if let Err(error) = &outcome {
                    failed.get_or_insert_with(|| error.clone());
                }
                phase.end(outcome);
            }
            None => {
                if let Err(error) = outcome {
                    failed.get_or_insert(error);
                }
            }
        }
        false
    });
    before - travelling.len()
}

fn place(offset: u64) -> Result<usize, Error> {
    usize::try_from(offset).map_err(|_| Error::OUT_OF_RANGE)
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
