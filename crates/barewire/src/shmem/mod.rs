//! Shmem: processing elements with symmetric memory that all of them can put into, get from and update.
//!
//! Every PE runs the same program and allocates the same objects in the same order, so that an object has the same place on
//! all of them: a [`Sym`] names it everywhere. Transfers are one-sided: the PE at the other end does not take part. The names are those
//! of OpenSHMEM 1.5 without their prefix, and so is what they promise:
//!
//! | call | what holds on return |
//! |---|---|
//! | [`put`](Shmem::put), [`iput`](Shmem::iput), [`p`](Shmem::p) | the source may be used again |
//! | [`get`](Shmem::get), [`iget`](Shmem::iget), [`g`](Shmem::g), fetching atomics | the values are here |
//! | [`put_nbi`](Shmem::put_nbi), [`get_nbi`](Shmem::get_nbi), [`atomic_fetch_add_nbi`](Shmem::atomic_fetch_add_nbi) and its like | nothing, until [`quiet`](Shmem::quiet) |
//! | [`fence`](Shmem::fence) | what this PE puts later to a PE arrives there after what it put before |
//! | [`quiet`](Shmem::quiet) | everything this PE has started is in place |
//! | [`barrier_all`](Shmem::barrier_all) | everything that anybody had started is in place |
//!
//! What lies in symmetric memory may be written by others at any time, so it is never borrowed: [`read`](Shmem::read) and
//! [`write`](Shmem::write) copy this PE's own part out and in.
//!
//! ```
//! use barewire::core::{Config, Endpoint, job::Job};
//! use barewire::shmem::{Cmp, Op, Shmem};
//!
//! let pes = Job::threads(4).unwrap().into_iter().map(|job| std::thread::spawn(move || {
//!     let shmem = Shmem::init(Endpoint::open(job, Config::default()).unwrap(), 1 << 16).unwrap();
//!     let (me, pes) = (shmem.my_pe(), shmem.n_pes());
//!     let data = shmem.calloc::<f64>(8).unwrap();
//!     let flag = shmem.calloc::<u64>(1).unwrap();
//!     // A row to the right neighbour, and word that it is there.
//!     let right = (me + 1) % pes;
//!     shmem.put(data, 0, &[f64::from(me); 8], right).unwrap();
//!     shmem.fence().unwrap();
//!     shmem.p(flag, 0, 1, right).unwrap();
//!     shmem.wait_until(flag, 0, Cmp::Eq, 1).unwrap();
//!     let row = shmem.read(data, 0, 8).unwrap();
//!     let sum = shmem.reduce(shmem.team_world(), Op::Sum, &row).unwrap();
//!     assert_eq!(sum, [0.0 + 1.0 + 2.0 + 3.0; 8]);
//! }));
//! pes.collect::<Vec<_>>().into_iter().for_each(|pe| pe.join().unwrap());
//! ```
//!
//! Of OpenSHMEM's functions there are no contexts, because a PE has one order of operations; no `ptr`, because memory is not borrowed; and no
//! `malloc_with_hints`, because no hint would change anything.
//!
//! A place outside of an object or of the heap, a PE that does not exist or is gone is an [`Error`] and has no effect.

mod atomic;
mod atomic_nbi;
mod collect;
mod memory;
mod team;
mod transfer;
mod vector;
mod wait;

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use barewire_core::Endpoint;
use zerocopy::IntoBytes;

pub use crate::spmd::{Error, Plain};
pub use atomic::{AtomicWord, Word};
pub use collect::{Op, Reducible};
pub use team::Team;
pub use transfer::Signal;
pub use wait::Cmp;

use crate::spmd::{Heap, Quiet, Symmetric, World};

/// The version of the interface whose names these are.
pub const VERSION: (u32, u32) = (1, 5);

/// A processing element. `Send`, not `Sync`, like the endpoint.
///
/// ```
/// use barewire::{shmem::Shmem, spmd};
/// spmd::launch(&[2], |endpoint| {
///     let shmem = Shmem::init(endpoint, 1 << 16)?;
///     let votes = shmem.calloc::<u32>(1)?;
///     shmem.atomic_add(votes, 0, 1, 0)?; // everybody votes at PE 0
///     shmem.barrier_all()?;
///     assert_eq!(shmem.g(votes, 0, 0)?, 2);
///     shmem.finalize()
/// }).unwrap();
/// ```
#[derive(Debug)]
pub struct Shmem {
    inner: RefCell<Inner>,
    me: u32,
    pes: u32,
}

#[derive(Debug)]
struct Inner {
    world: World<Quiet>,
    memory: Symmetric,
    heap: Heap,
}

/// An object in symmetric memory: `len` values of type `T`, at the same place on every PE.
///
/// ```
/// # use barewire::{shmem::*, spmd};
/// # spmd::launch(&[2], |endpoint| {
/// # let shmem = Shmem::init(endpoint, 1 << 16)?;
/// # let me = shmem.my_pe();
/// let pair = shmem.calloc::<u16>(2)?; // the same place on both PEs
/// shmem.p(pair, me as usize, 7, 1 - me)?;
/// shmem.barrier_all()?;
/// assert_eq!(shmem.read(pair, 0, 2)?, if me == 0 { [0, 7] } else { [7, 0] });
/// # Ok::<_, spmd::Error>(())
/// # }).unwrap();
/// ```
pub struct Sym<T> {
    offset: u64,
    len: usize,
    what: PhantomData<fn() -> T>,
}

impl<T> Sym<T> {
    /// How many values it has.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// assert_eq!(shmem.malloc::<f64>(12).unwrap().len(), 12); // values, not bytes
    /// ```
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether it has no values.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let row = shmem.malloc::<u8>(3).unwrap();
    /// assert!(!row.is_empty() && row.part(3, 0).unwrap().is_empty());
    /// ```
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// A part of it, as an object of its own.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::Shmem};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 4096).unwrap();
    /// let row = shmem.malloc::<u32>(10).unwrap();
    /// assert_eq!(row.part(4, 6).unwrap().len(), 6);
    /// assert!(row.part(4, 7).is_none());
    /// ```
    pub fn part(self, at: usize, len: usize) -> Option<Sym<T>> {
        let end = at.checked_add(len)?;
        (end <= self.len).then(|| Sym { offset: self.offset + (at * size_of::<T>()) as u64, len, ..self })
    }

    /// Where `count` values from `at` on are, in bytes.
    #[inline]
    fn place(self, at: usize, count: usize) -> Result<u64, Error> {
        match at.checked_add(count) {
            Some(end) if end <= self.len => Ok(self.offset + (at * size_of::<T>()) as u64),
            _ => Err(Error::OUT_OF_RANGE),
        }
    }
}

impl Shmem {
    /// Makes this rank a PE with `heap_bytes` of symmetric memory. All ranks call it, with the same size.
    ///
    /// ```
    /// use barewire::core::{Config, Endpoint, job::Job};
    /// use barewire::shmem::{Error, Shmem};
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let shmem = Shmem::init(endpoint, 1 << 16).unwrap();
    /// assert!(shmem.malloc::<u8>(60_000).is_ok());
    /// assert!(matches!(shmem.malloc::<u8>(60_000), Err(Error::HeapFull { .. })));
    /// ```
    pub fn init(endpoint: Endpoint, heap_bytes: usize) -> Result<Shmem, Error> {
        let (me, pes) = (endpoint.me().0, endpoint.size());
        let mut world = World::new(endpoint, Quiet);
        let memory = world.symmetric(heap_bytes)?;
        let inner = Inner { world, memory, heap: Heap::new(0, heap_bytes) };
        Ok(Shmem { inner: RefCell::new(inner), me, pes })
    }

    /// Waits for all PEs and leaves. Dropping a PE leaves too, but waits for nobody: to those who wait for others' puts then it is lost.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let data = shmem.calloc::<u32>(1)?;
    /// shmem.p(data, 0, 5, 1 - me)?;
    /// assert_eq!(shmem.finalize(), Ok(())); // what was put is in place, and nobody left before
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn finalize(self) -> Result<(), Error> {
        self.barrier_all()
    }

    /// This PE's number.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let numbers = shmem.fcollect(shmem.team_world(), &[shmem.my_pe()])?;
    /// assert_eq!(numbers, [0, 1, 2]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn my_pe(&self) -> u32 {
        self.me
    }

    /// How many PEs there are.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let ones = shmem.reduce(shmem.team_world(), Op::Sum, &[1])?;
    /// assert_eq!(ones, [shmem.n_pes()]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn n_pes(&self) -> u32 {
        self.pes
    }

    /// Whether there is such a PE and it is not known to be gone.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// assert!(shmem.pe_accessible(0) && shmem.pe_accessible(1));
    /// assert!(!shmem.pe_accessible(2));
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn pe_accessible(&self, pe: u32) -> bool {
        use barewire_core::{Peer, PeerState};
        let state = self.inner.borrow().world.endpoint().peer_state(Peer(pe));
        pe < self.pes && !matches!(state, PeerState::Left | PeerState::Lost(_))
    }

    /// How long any wait may last before it ends with [`Error::TimedOut`]. `None`, the default: as long as it takes.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// use std::time::Duration;
    /// let flag = shmem.calloc::<u64>(1).unwrap();
    /// shmem.set_timeout(Some(Duration::from_millis(5)));
    /// assert_eq!(shmem.wait_until(flag, 0, Cmp::Ne, 0), Err(Error::TimedOut)); // nobody sets it
    /// ```
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        self.inner.borrow_mut().world.set_timeout(timeout);
    }

    fn timeout(&self) -> Option<Duration> {
        self.inner.borrow().world.timeout()
    }

    /// Serves the others, while this PE computes for long. Never waits.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let counts = shmem.calloc::<u64>(1)?;
    /// if me == 0 {
    ///     assert_eq!(shmem.atomic_fetch_add(counts, 0, 3, 1)?, 0); // PE 1 may have to serve this
    /// } else {
    ///     while shmem.read(counts, 0, 1)? != [3] {
    ///         shmem.poll(); // between two steps of a long computation
    ///     }
    /// }
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn poll(&self) {
        self.inner.borrow_mut().world.look();
    }

    /// Memory for `count` values on every PE. All call it, with the same count; it returns when all have. What is in it is
    /// whatever was there before.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let inbox = shmem.malloc::<u64>(4)?;
    /// shmem.put(inbox, 0, &[10, 11, 12, 13], 1 - me)?;
    /// shmem.barrier_all()?;
    /// assert_eq!(shmem.read(inbox, 2, 2)?, [12, 13]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn malloc<T: Plain>(&self, count: usize) -> Result<Sym<T>, Error> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(Error::HeapFull { bytes: usize::MAX })?;
        let at = self.inner.borrow_mut().heap.take(bytes);
        self.barrier_all()?;
        let at = at.ok_or(Error::HeapFull { bytes })?;
        Ok(Sym { offset: at as u64, len: count, what: PhantomData })
    }

    /// [`Shmem::malloc`] of zeroed memory.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let used = shmem.malloc::<u8>(64).unwrap();
    /// shmem.write(used, 0, &[0xff; 64]).unwrap();
    /// shmem.free(used).unwrap();
    /// let clean = shmem.calloc::<u8>(64).unwrap();
    /// assert_eq!(shmem.read(clean, 0, 64).unwrap(), [0; 64]);
    /// ```
    pub fn calloc<T: Plain>(&self, count: usize) -> Result<Sym<T>, Error> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(Error::HeapFull { bytes: usize::MAX })?;
        let mut inner = self.inner.borrow_mut();
        let at = inner.heap.take(bytes);
        if let Some(at) = at {
            let zeroed = inner.memory.local().write(at, &vec![0; bytes]);
            debug_assert!(zeroed, "the heap hands out what it has");
        }
        drop(inner);
        self.barrier_all()?;
        let at = at.ok_or(Error::HeapFull { bytes })?;
        Ok(Sym { offset: at as u64, len: count, what: PhantomData })
    }

    /// Gives memory back. All call it; it returns when all have.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let block = shmem.malloc::<u64>(1000).unwrap();
    /// assert_eq!(shmem.free(block), Ok(()));
    /// assert_eq!(shmem.free(block), Err(Error::NotAllocated), "once is enough");
    /// ```
    pub fn free<T: Plain>(&self, object: Sym<T>) -> Result<(), Error> {
        self.barrier_all()?;
        let freed = self.inner.borrow_mut().heap.give_back(object.offset as usize);
        if freed { Ok(()) } else { Err(Error::NotAllocated) }
    }

    /// This PE's own values.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let row = shmem.calloc::<i16>(5).unwrap();
    /// shmem.p(row, 3, -1, shmem.my_pe()).unwrap();
    /// assert_eq!(shmem.read(row, 2, 3).unwrap(), [0, -1, 0]);
    /// assert!(shmem.read(row, 3, 3).is_err()); // it has 5
    /// ```
    pub fn read<T: Plain>(&self, from: Sym<T>, at: usize, count: usize) -> Result<Vec<T>, Error> {
        let mut values = vec![T::new_zeroed(); count.min(from.len)];
        self.read_into(from, at, &mut values)?;
        if values.len() == count { Ok(values) } else { Err(Error::OUT_OF_RANGE) }
    }

    /// This PE's own values, into a slice.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let row = shmem.calloc::<f32>(4).unwrap();
    /// shmem.write(row, 0, &[0.5, 1.5, 2.5, 3.5]).unwrap();
    /// let mut last = [0.0; 2];
    /// shmem.read_into(row, 2, &mut last).unwrap();
    /// assert_eq!(last, [2.5, 3.5]);
    /// ```
    pub fn read_into<T: Plain>(&self, from: Sym<T>, at: usize, into: &mut [T]) -> Result<(), Error> {
        let place = from.place(at, into.len())?;
        let read = self.inner.borrow().memory.local().read(place as usize, into.as_mut_bytes());
        if read { Ok(()) } else { Err(Error::OUT_OF_RANGE) }
    }

    /// Writes this PE's own values.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let mine = shmem.calloc::<u32>(2)?;
    /// shmem.write(mine, 1, &[100 + me])?;
    /// shmem.barrier_all()?;
    /// assert_eq!(shmem.g(mine, 1, 1 - me)?, 101 - me); // others see it too
    /// assert!(shmem.write(mine, 1, &[1, 2]).is_err());
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn write<T: Plain>(&self, to: Sym<T>, at: usize, values: &[T]) -> Result<(), Error> {
        let place = to.place(at, values.len())?;
        let written = self.inner.borrow().memory.local().write(place as usize, values.as_bytes());
        if written { Ok(()) } else { Err(Error::OUT_OF_RANGE) }
    }

    /// Orders puts: what this PE puts to a PE after this arrives there after what it put before. Here that means that what was
    /// put before has arrived.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let (data, flag) = (shmem.calloc::<u64>(1)?, shmem.calloc::<u64>(1)?);
    /// if me == 0 {
    ///     shmem.p(data, 0, 42, 1)?;
    ///     shmem.fence()?; // first the data, then the flag
    ///     shmem.p(flag, 0, 1, 1)?;
    /// } else {
    ///     shmem.wait_until(flag, 0, Cmp::Eq, 1)?;
    ///     assert_eq!(shmem.read(data, 0, 1)?, [42]);
    /// }
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn fence(&self) -> Result<(), Error> {
        self.quiet()
    }

    /// Waits until everything this PE has started is in place. The first failure among them is its error.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let row = shmem.calloc::<u8>(100)?;
    /// for at in 0..100 {
    ///     shmem.put_nbi(row, at, &[at as u8], 1 - me)?;
    /// }
    /// shmem.quiet()?;
    /// assert_eq!(shmem.g(row, 99, 1 - me)?, 99);
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn quiet(&self) -> Result<(), Error> {
        self.inner.borrow_mut().world.quiet()
    }

    /// Returns when all PEs have called it and everything that any of them had started is in place.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let slots = shmem.calloc::<u32>(3)?;
    /// for pe in 0..3 {
    ///     shmem.put_nbi(slots, me as usize, &[me + 1], pe)?;
    /// }
    /// shmem.barrier_all()?; // no quiet needed: it is one too
    /// assert_eq!(shmem.read(slots, 0, 3)?, [1, 2, 3]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn barrier_all(&self) -> Result<(), Error> {
        self.barrier(self.team_world())
    }

    /// Returns when all PEs have called it. Does not wait for what they have started elsewhere.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// let arrived = AtomicU32::new(0);
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// arrived.fetch_add(1, Ordering::SeqCst);
    /// shmem.sync_all()?;
    /// assert_eq!(arrived.load(Ordering::SeqCst), 2);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn sync_all(&self) -> Result<(), Error> {
        self.team_sync(self.team_world())
    }

    /// [`Shmem::quiet`] and [`Shmem::team_sync`].
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let data = shmem.calloc::<u32>(1)?;
    /// let ends = Team::active_set(0, 1, 2).unwrap(); // PEs 0 and 2
    /// if ends.pe_of(me).is_some() {
    ///     shmem.p(data, 0, me + 10, 2 - me)?;
    ///     shmem.barrier(ends)?; // PE 1 does not take part
    ///     assert_eq!(shmem.read(data, 0, 1)?, [12 - me]);
    /// }
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn barrier(&self, team: Team) -> Result<(), Error> {
        self.quiet()?;
        self.team_sync(team)
    }
}

impl<T> Clone for Sym<T> {
    fn clone(&self) -> Sym<T> {
        *self
    }
}

impl<T> Copy for Sym<T> {}

impl<T> fmt::Debug for Sym<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sym<{}>({:#x}, {})", std::any::type_name::<T>(), self.offset, self.len)
    }
}
