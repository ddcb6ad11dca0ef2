//! Put, get and atomics on symmetric memory: on the spot where it is within reach, counted while they travel otherwise.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use barewire_core::region::{Atomic, Key, Memory, Op, RegionError, Rights, Width};
use barewire_core::wait::Waiting;
use barewire_core::{Deliver, Endpoint, Peer, SendError};

use super::{Error, Symmetric, World};

/// Memory of a rank's that is within reach, if it is; the function that asks ends if it is not to be had.
macro_rules! within_reach {
    ($world:ident, $key:ident, $rights:expr) => {
        match $world.endpoint.reach($key, $rights) {
            Ok(there) => there,
            Err(error) => return Err($world.refused(error)),
        }
    };
}

/// The operations that travel.
#[derive(Debug, Default)]
pub(super) struct Travels {
    /// Those whose end nobody has seen yet.
    under_way: Vec<Travelling>,
    /// The first failure among those that nobody waited for one by one.
    failed: Option<Error>,
    /// Tasks that wait for an end.
    wakers: Vec<Waker>,
    /// There was a wait that looked after none of them.
    overlooked: bool,
}

/// An operation that travels.
#[derive(Debug)]
struct Travelling {
    op: Op,
    peer: Peer,
    tell: Option<Phase>,
    land: Option<Box<Landing>>,
}

/// Where the word that an operation brings goes.
#[derive(Debug)]
struct Landing {
    memory: Memory,
    at: usize,
    width: Width,
}

impl Landing {
    fn put(&self, word: u64) -> Result<(), Error> {
        // SYNC symmetric words: pairs with the acquire of whoever waits for it.
        let stored = match self.width {
            Width::U64 => self.memory.atomic_u64(self.at).map(|to| to.store(word, Ordering::Release)),
            Width::U32 => self.memory.atomic_u32(self.at).map(|to| to.store(word as u32, Ordering::Release)),
        };
        stored.ok_or(Error::OUT_OF_RANGE)
    }

    fn is_there(&self) -> bool {
        match self.width {
            Width::U64 => self.memory.atomic_u64(self.at).is_some(),
            Width::U32 => self.memory.atomic_u32(self.at).is_some(),
        }
    }
}

impl Travels {
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Something else was waited for; some may have ended meanwhile.
    pub fn overlook(&mut self) {
        self.overlooked = true;
    }

    /// Whether some may have ended that nobody has seen.
    pub fn were_overlooked(&self) -> bool {
        self.overlooked
    }

    /// Wakes `waker` when one has ended.
    pub fn wake_at_next_end(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }

    /// Takes the outcomes of what has ended, wakes whoever waits for them, and says how many they are.
    pub fn reap(&mut self, endpoint: &mut Endpoint) -> usize {
        let Travels { under_way, failed, wakers, overlooked } = self;
        *overlooked = false;
        let before = under_way.len();
        under_way.retain(|Travelling { op, tell, land, .. }| {
            let Some(outcome) = endpoint.take(*op) else { return true };
            let mut outcome = outcome.map_err(Error::from);
            if let (Ok(word), Some(land)) = (&outcome, land) {
                outcome = land.put(*word).map(|()| *word);
            }
            if let Err(error) = &outcome {
                failed.get_or_insert_with(|| error.clone());
            }
            if let Some(phase) = tell {
                phase.end(outcome);
            }
            false
        });
        let ended = before - under_way.len();
        if ended > 0 {
            wakers.drain(..).for_each(Waker::wake);
        }
        ended
    }
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

/// Operations that may travel at a time before one more waits for some to end.
const TRAVELLING_MAX: usize = 4096;
/// The scratch memory that is kept; longer gets make their own.
pub(super) const SCRATCH_BYTES: usize = 64 << 10;

impl<L: Deliver> World<L> {
    /// Puts `bytes` into a rank's block. They are in place, or on their way: see [`World::quiet`].
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let memory = world.symmetric(8)?;
    /// world.put(&memory, 1 - me, 4, &me.to_ne_bytes())?;
    /// world.quiet()?;
    /// world.barrier(all)?;
    /// let mut word = [0; 4];
    /// memory.local().read(4, &mut word);
    /// assert_eq!(u32::from_ne_bytes(word), 1 - me);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn put(&mut self, memory: &Symmetric, rank: u32, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        if self.put_now(memory, rank, offset, bytes)? {
            return Ok(());
        }
        self.put_afar(memory.key(rank)?, offset, bytes, None)
    }

    /// Puts `bytes` into a rank's block, and waits until they are in place.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let memory = world.symmetric(8)?;
    /// world.put_and_wait(&memory, 1 - me, 0, b"here")?;
    /// let mut back = [0; 4];
    /// world.get(&memory, 1 - me, 0, &mut back)?; // it is there: no quiet needed
    /// assert_eq!(&back, b"here");
    /// world.barrier(all)?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
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
        let Some(there) = within_reach!(self, key, Rights::WRITE) else { return Ok(false) };
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
        self.track(op, key.owner, tell, None)
    }

    /// Gets bytes of a rank's block, and waits for them.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let memory = world.symmetric(8)?;
    /// memory.local().write(0, &[10 + me as u8; 8]);
    /// world.barrier(all)?;
    /// let mut byte = [0];
    /// world.get(&memory, 1 - me, 7, &mut byte)?;
    /// assert_eq!(byte, [11 - me as u8]);
    /// world.barrier(all)?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
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
        let Some(there) = within_reach!(self, key, Rights::READ) else { return Ok(false) };
        if !there.read(place(offset)?, into) {
            return Err(Error::OUT_OF_RANGE);
        }
        self.acted(key.owner);
        Ok(true)
    }

    /// Memory was refused. Its owner may have left: who asks for it again and again finds out.
    #[cold]
    fn refused(&mut self, error: RegionError) -> Error {
        self.poll();
        error.into()
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
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// use barewire::core::region::Memory;
    /// let memory = world.symmetric(8)?;
    /// memory.local().write(0, b"left");
    /// world.barrier(all)?;
    /// let landing = Memory::private(16);
    /// world.get_start(&memory, 1 - me, 0, (&landing, 2), 4)?;
    /// world.quiet()?;
    /// let mut bytes = [0; 6];
    /// landing.read(0, &mut bytes);
    /// assert_eq!(&bytes, b"\0\0left");
    /// world.barrier(all)?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
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
        if key.owner == self.endpoint.me() {
            // It may overlap with where it goes.
            return Ok(false);
        }
        let Some(there) = within_reach!(self, key, Rights::READ) else { return Ok(false) };
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
        self.track(op, key.owner, tell, None)
    }

    /// Updates one word of a rank's block and gives its old value.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// use barewire::core::region::{Atomic, Width};
    /// let memory = world.symmetric(8)?;
    /// let mut ticket = [world.atomic(&memory, 0, 0, Width::U64, Atomic::Add(1))?];
    /// assert!(ticket[0] < 3);
    /// world.reduce(all, &mut ticket, |a, b| a + b)?;
    /// assert_eq!(ticket, [0 + 1 + 2]); // nobody has another's
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
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
        match within_reach!(self, key, Rights::ATOMIC) {
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
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// use barewire::core::region::{Atomic, Width};
    /// let memory = world.symmetric(8)?;
    /// world.atomic_start(&memory, 0, 0, Width::U64, Atomic::Add(10))?;
    /// world.quiet()?;
    /// world.barrier(all)?;
    /// assert_eq!(world.atomic(&memory, 0, 0, Width::U64, Atomic::Add(0))?, 30);
    /// world.barrier(all)?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn atomic_start(
        &mut self,
        memory: &Symmetric,
        rank: u32,
        offset: u64,
        width: Width,
        what: Atomic,
    ) -> Result<(), Error> {
        let key = memory.key(rank)?;
        match within_reach!(self, key, Rights::ATOMIC) {
            Some(there) => {
                what.apply(there, offset, width)?;
                self.acted(key.owner);
                Ok(())
            }
            None => {
                let op = self.start(key.owner, |endpoint| endpoint.atomic(key, offset, width, what))?;
                self.track(op, key.owner, None, None)
            }
        }
    }

    /// Starts to update one word of a rank's block. Its old value is in `into` of this rank after [`World::quiet`].
    pub(crate) fn fetch_start(
        &mut self,
        memory: &Symmetric,
        rank: u32,
        offset: u64,
        width: Width,
        what: Atomic,
        (into, at): (&Memory, u64),
    ) -> Result<(), Error> {
        let key = memory.key(rank)?;
        let land = Landing { memory: into.clone(), at: place(at)?, width };
        if !land.is_there() {
            return Err(Error::OUT_OF_RANGE);
        }
        if let Some(there) = within_reach!(self, key, Rights::ATOMIC) {
            land.put(what.apply(there, offset, width)?)?;
            self.acted(key.owner);
            return Ok(());
        }
        let op = self.start(key.owner, |endpoint| endpoint.atomic(key, offset, width, what))?;
        self.track(op, key.owner, None, Some(Box::new(land)))
    }

    /// Waits until everything this rank has started has ended; the first failure of any is its error. Operations started
    /// later do not overtake it.
    ///
    /// ```
    /// # use barewire::spmd::{self, Quiet, World};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let mut world = World::new(endpoint, Quiet);
    /// # let (all, me) = (world.all(), world.rank());
    /// let memory = world.symmetric(100)?;
    /// for at in 0..100 {
    ///     world.put(&memory, 1 - me, at, &[at as u8])?;
    /// }
    /// world.quiet()?; // all of them are in place
    /// let mut there = [0; 100];
    /// world.get(&memory, 1 - me, 0, &mut there)?;
    /// assert!(there.iter().enumerate().all(|(at, &byte)| byte == at as u8));
    /// world.barrier(all)?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn quiet(&mut self) -> Result<(), Error> {
        if !self.travels.is_empty() {
            self.wait_until_travelling(0)?;
        }
        match self.travels.failed.take() {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Whether everything this rank has started has ended.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, spmd::{Quiet, World}};
    /// # let mut world = World::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Quiet);
    /// let memory = world.symmetric(8).unwrap();
    /// assert!(world.is_quiet(), "nothing was started");
    /// world.put(&memory, 0, 0, b"here").unwrap();
    /// world.quiet().unwrap();
    /// assert!(world.is_quiet());
    /// ```
    pub fn is_quiet(&mut self) -> bool {
        self.look();
        self.travels.is_empty()
    }

    /// Waits until one of the operations under way has ended; if there is none, only polls.
    pub(crate) fn wait_for_any(&mut self) -> Result<(), Error> {
        match self.travels.under_way.len() {
            0 => {
                self.poll();
                std::thread::yield_now();
                Ok(())
            }
            some => self.wait_until_travelling(some - 1),
        }
    }

    fn wait_until_travelling(&mut self, most: usize) -> Result<(), Error> {
        let World { endpoint, hub, travels, timeout, .. } = self;
        while travels.under_way.len() > most {
            let waiting =
                Waiting { what: "the end of region operations", on: Some(travels.under_way[0].peer) };
            let mut ended = 0;
            let waited = endpoint.wait_for(waiting, hub, *timeout, |endpoint, _| {
                ended += travels.reap(endpoint);
                ended > 0
            });
            travels.reap(endpoint);
            waited?;
        }
        Ok(())
    }

    fn track(
        &mut self,
        op: Op,
        peer: Peer,
        tell: Option<&Phase>,
        land: Option<Box<Landing>>,
    ) -> Result<(), Error> {
        self.travels.under_way.push(Travelling { op, peer, tell: tell.cloned(), land });
        if self.travels.under_way.len() >= TRAVELLING_MAX {
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
            let World { endpoint, hub, travels, timeout, .. } = self;
            endpoint.wait_for(waiting, hub, *timeout, |endpoint, _| {
                travels.reap(endpoint);
                started = start(endpoint);
                started != FULL
            })?;
        }
        Ok(started?)
    }

    fn finish(&mut self, op: Op) -> Result<u64, Error> {
        self.travels.overlook();
        Ok(self.endpoint.finish(&mut self.hub, op, self.timeout)?)
    }
}

fn place(offset: u64) -> Result<usize, Error> {
    usize::try_from(offset).map_err(|_| Error::OUT_OF_RANGE)
}
