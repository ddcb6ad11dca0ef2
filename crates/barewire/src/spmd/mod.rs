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
use operations::{SCRATCH_BYTES, Travels};

/// Values that are their bytes: integers, floats, and arrays of them. What lies in shared memory may be any bytes, so any bytes must be a
/// value; `zerocopy` proves that, for types of yours too.
///
/// ```
/// use barewire::spmd::Plain;
/// fn bytes_of<T: Plain>(values: &[T]) -> usize {
///     size_of_val(values)
/// }
/// assert_eq!(bytes_of(&[[1.5f32; 3]; 4]), 48); // arrays of plain values are plain too
/// ```
pub trait Plain: FromBytes + IntoBytes + Immutable + Copy + Send + 'static {}

impl<T: FromBytes + IntoBytes + Immutable + Copy + Send + 'static> Plain for T {}

/// A layer that takes no messages of its own.
///
/// ```
/// # use barewire::{core::{Config, Endpoint, job::Job}, spmd::{Quiet, World}};
/// # let mut world = World::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Quiet);
/// assert_eq!(world.poll(), 0); // a world without a layer above it
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Deliver for Quiet {
    fn deliver(&mut self, _: &mut Endpoint, _: Incoming<'_>) -> Flow {
        Flow::Continue
    }
}

/// A rank among others, with a layer `L` that takes the messages the world does not know.
///
/// ```
/// use barewire::spmd::{self, Quiet, World};
/// spmd::launch(&[2], |endpoint| {
///     let mut world = World::new(endpoint, Quiet);
///     let all = world.all();
///     let mut greatest = [world.rank()];
///     world.reduce(all, &mut greatest, Ord::max)?;
///     assert_eq!(greatest, [world.size() - 1]);
///     Ok::<_, spmd::Error>(())
/// }).unwrap();
/// ```
#[derive(Debug)]
pub struct World<L> {
    pub(crate) endpoint: Endpoint,
    pub(crate) hub: Hub<L>,
    travels: Travels,
    /// How many collectives each group has had.
    turns: HashMap<u64, u64>,
    next_group: u64,
    /// Where bytes from afar land before they go to their place.
    scratch: Memory,
    /// Operations since the last poll.
    unpolled: u32,
    timeout: Option<Duration>,
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
    ///
    /// ```
    /// use barewire::core::{Config, Endpoint, job::Job};
    /// use barewire::spmd::{Quiet, World};
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let world = World::new(endpoint, Quiet);
    /// assert_eq!((world.rank(), world.size()), (0, 1));
    /// ```
    pub fn new(endpoint: Endpoint, layer: L) -> World<L> {
        let size = endpoint.size();
        World {
            endpoint,
            hub: Hub { mail: Mail::new(size), layer },
            travels: Travels::default(),
            turns: HashMap::new(),
            next_group: 1,
            scratch: Memory::private(SCRATCH_BYTES),
            unpolled: 0,
            timeout: None,
        }
    }

    /// This rank's number.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let ranks: Vec<u8> = world.gather_all(all, &[world.rank() as u8])?.concat();
    /// assert_eq!(ranks, [0, 1, 2]); // every rank has another number
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn rank(&self) -> u32 {
        self.endpoint.me().0
    }

    /// How many ranks there are.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let right = (world.rank() + 1) % world.size();
    /// assert_eq!(right, [1, 2, 0][me as usize]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn size(&self) -> u32 {
        self.endpoint.size()
    }

    /// The endpoint below, for its counters, its peers' states and its descriptor.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, spmd::{Quiet, World}};
    /// # let mut world = World::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Quiet);
    /// use barewire::core::Peer;
    /// assert_eq!((world.endpoint().me(), world.endpoint().size()), (Peer(0), 1));
    /// ```
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// How long any wait may last before it ends with [`Error::TimedOut`]. `None`, the default: as long as it takes.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// use std::time::Duration;
    /// let pair = world.split(all, 0, 1, 2)?;
    /// if me == 0 {
    ///     world.set_timeout(Some(Duration::from_millis(5)));
    ///     assert_eq!(world.barrier(pair), Err(spmd::Error::TimedOut)); // rank 1 does not come
    ///     world.set_timeout(None);
    /// }
    /// world.barrier(all)?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Makes a block of memory at every rank, of the same size or each of its own. All ranks call it.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let memory = world.symmetric(64)?;
    /// assert_eq!(memory.local().len(), 64); // here, and at the other rank too
    /// world.put(&memory, 1 - me, 63, &[7])?;
    /// assert!(world.put(&memory, 1 - me, 64, &[7]).and_then(|()| world.quiet()).is_err());
    /// world.barrier(all)?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
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
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let memory = world.symmetric(8)?;
    /// assert!(world.revoke(&memory));
    /// assert!(!world.revoke(&memory), "it was ended before");
    /// world.barrier(all)?;
    /// assert!(world.put_and_wait(&memory, 1 - me, 0, &[1]).is_err());
    /// world.barrier(all)?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn revoke(&mut self, memory: &Symmetric) -> bool {
        let mine = memory.keys.iter().find(|key| key.owner == self.endpoint.me());
        mine.is_some_and(|&key| self.endpoint.revoke(key))
    }

    /// Takes what has arrived and serves the others. Never waits. Says how many packets it took.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let memory = world.symmetric(8)?;
    /// let is_set = || memory.local().atomic_u64(0).unwrap().load(std::sync::atomic::Ordering::Acquire) != 0;
    /// if me == 0 {
    ///     world.put_and_wait(&memory, 1, 0, &1u64.to_ne_bytes())?;
    /// } else {
    ///     while !is_set() {
    ///         world.poll(); // rank 0's put may need us
    ///     }
    /// }
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn poll(&mut self) -> usize {
        self.unpolled = 0;
        let taken = self.endpoint.progress(&mut self.hub, usize::MAX);
        if (taken > 0 || self.travels.were_overlooked()) && !self.travels.is_empty() {
            self.travels.reap(&mut self.endpoint);
        }
        taken
    }

    /// [`World::poll`] for those who look in a loop of their own; see [`Endpoint::looked`].
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let memory = world.symmetric(1)?;
    /// let mut byte = [0];
    /// if me == 1 {
    ///     world.put(&memory, 0, 0, &[9])?;
    ///     world.quiet()?;
    /// } else {
    ///     while { memory.local().read(0, &mut byte); byte == [0] } {
    ///         world.look();
    ///     }
    ///     assert_eq!(byte, [9]);
    /// }
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
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

    /// Waits for something that others bring about: with a message, or by writing this rank's memory. It is an error if whoever it
    /// waits `on` is gone: anybody, if it is nobody in particular.
    pub(crate) fn watch(
        &mut self,
        what: &'static str,
        on: Option<Peer>,
        mut done: impl FnMut(&mut L) -> bool,
    ) -> Result<(), Error> {
        let mut lost = None;
        self.travels.overlook();
        let World { endpoint, hub, timeout, .. } = self;
        endpoint.watch_for(Waiting { what, on }, hub, *timeout, |_, hub| {
            // Whoever is gone was so before this look, so it sees all that they did.
            if done(&mut hub.layer) {
                return true;
            }
            lost = if on.is_none() { hub.mail.bereaved() } else { None };
            lost.is_some()
        })?;
        match lost {
            None => Ok(()),
            Some(peer) => {
                self.pass_on(peer);
                Err(Error::Lost(peer))
            }
        }
    }

    /// Waits until `done`, which is asked whenever something may have happened and is told how many operations have ended meanwhile.
    pub(crate) fn wait_until(
        &mut self,
        waiting: Waiting,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut Endpoint, &mut L, usize) -> bool,
    ) -> Result<(), Error> {
        let World { endpoint, hub, travels, .. } = self;
        Ok(endpoint.wait_for(waiting, hub, timeout, |endpoint, hub| {
            let ended = if travels.is_empty() { 0 } else { travels.reap(endpoint) };
            done(endpoint, &mut hub.layer, ended)
        })?)
    }

    /// Wakes `waker` when one of the operations under way has ended.
    pub(crate) fn wake_when_reaped(&mut self, waker: &Waker) {
        self.travels.wake_at_next_end(waker);
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
            self.travels.overlook();
            self.endpoint.wait_for(waiting, &mut self.hub, self.timeout, |endpoint, _| {
                sent = send(endpoint);
                sent != Err(SendError::Full)
            })?;
        }
        Ok(sent?)
    }
}

impl<L: Deliver> Deliver for Hub<L> {
    const LEAVES: bool = L::LEAVES;

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
///
/// ```
/// # use barewire::spmd::{self, Quiet, World};
/// # spmd::launch(&[2], |endpoint| {
/// # let mut world = World::new(endpoint, Quiet);
/// # let (all, me) = (world.all(), world.rank());
/// let memory = world.symmetric(4)?;
/// memory.local().write(0, &[me as u8; 4]);
/// world.barrier(all)?;
/// let mut theirs = [0; 2];
/// world.get(&memory, 1 - me, 2, &mut theirs)?;
/// assert_eq!(theirs, [1 - me as u8; 2]);
/// world.barrier(all)?;
/// # Ok::<_, spmd::Error>(())
/// # }).unwrap();
/// ```
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
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, spmd::{Quiet, World}};
    /// # let mut world = World::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Quiet);
    /// let memory = world.symmetric(16).unwrap();
    /// let mut bytes = [0; 3];
    /// assert!(memory.local().write(13, b"end") && memory.local().read(13, &mut bytes));
    /// assert_eq!(&bytes, b"end");
    /// assert!(!memory.local().read(14, &mut bytes)); // it has 16 bytes
    /// ```
    pub fn local(&self) -> &Memory {
        &self.memory
    }

    /// The key to a rank's block.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, spmd::{Quiet, World}};
    /// # let mut world = World::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Quiet);
    /// use barewire::spmd::Error;
    /// let memory = world.symmetric(16).unwrap();
    /// assert!(memory.key(0).is_ok());
    /// assert_eq!(memory.key(1), Err(Error::NoSuchRank { rank: 1, size: 1 }));
    /// ```
    #[inline]
    pub fn key(&self, rank: u32) -> Result<Key, Error> {
        let size = self.keys.len() as u32;
        self.keys.get(rank as usize).copied().ok_or(Error::NoSuchRank { rank, size })
    }

    /// The same block with another key for a rank: one that was passed on by other ways.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, spmd::{Quiet, World}};
    /// # let mut world = World::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Quiet);
    /// let (old, new) = (world.symmetric(8).unwrap(), world.symmetric(8).unwrap());
    /// let passed_on = new.key(0).unwrap();
    /// let memory = old.with_key(0, passed_on);
    /// world.put_and_wait(&memory, 0, 0, b"new").unwrap();
    /// let mut there = [0; 3];
    /// new.local().read(0, &mut there);
    /// assert_eq!(&there, b"new");
    /// ```
    pub fn with_key(mut self, rank: u32, key: Key) -> Symmetric {
        if let Some(place) = self.keys.get_mut(rank as usize) {
            *place = key;
        }
        self
    }
}
