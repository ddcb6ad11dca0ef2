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
//! | [`put_nbi`](Shmem::put_nbi), [`get_nbi`](Shmem::get_nbi) | nothing, until [`quiet`](Shmem::quiet) |
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
//! A place outside of an object or of the heap, a PE that does not exist or is gone is an [`Error`] and has no effect.

mod atomic;
mod collect;
mod team;
mod transfer;
mod wait;

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use barewire_core::Endpoint;
use zerocopy::IntoBytes;

pub use crate::spmd::{Error, Plain};
pub use atomic::AtomicWord;
pub use collect::{Op, Reducible};
pub use team::Team;
pub use transfer::Signal;
pub use wait::Cmp;

use crate::spmd::{Heap, Quiet, Symmetric, World};

/// The version of the interface whose names these are.
pub const VERSION: (u32, u32) = (1, 5);

/// A processing element. `Send`, not `Sync`, like the endpoint.
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
pub struct Sym<T> {
    offset: u64,
    len: usize,
    what: PhantomData<fn() -> T>,
}

impl<T> Sym<T> {
    /// How many values it has.
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether it has no values.
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
    pub fn init(endpoint: Endpoint, heap_bytes: usize) -> Result<Shmem, Error> {
        let (me, pes) = (endpoint.me().0, endpoint.size());
        let mut world = World::new(endpoint, Quiet);
        let memory = world.symmetric(heap_bytes)?;
        let inner = Inner { world, memory, heap: Heap::new(0, heap_bytes) };
        Ok(Shmem { inner: RefCell::new(inner), me, pes })
    }

    /// Waits for all PEs and leaves. Dropping a PE leaves too, but waits for nobody.
    pub fn finalize(self) -> Result<(), Error> {
        self.barrier_all()
    }

    /// This PE's number.
    pub fn my_pe(&self) -> u32 {
        self.me
    }

    /// How many PEs there are.
    pub fn n_pes(&self) -> u32 {
        self.pes
    }

    /// Whether there is such a PE and it is not known to be gone.
    pub fn pe_accessible(&self, pe: u32) -> bool {
        use barewire_core::{Peer, PeerState};
        let state = self.inner.borrow().world.endpoint().peer_state(Peer(pe));
        pe < self.pes && !matches!(state, PeerState::Left | PeerState::Lost(_))
    }

    /// How long any wait may last before it ends with [`Error::TimedOut`]. `None`, the default: as long as it takes.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        self.inner.borrow_mut().world.set_timeout(timeout);
    }

    fn timeout(&self) -> Option<Duration> {
        self.inner.borrow().world.timeout()
    }

    /// Serves the others, while this PE computes for long. Never waits.
    pub fn poll(&self) {
        self.inner.borrow_mut().world.look();
    }

    /// Memory for `count` values on every PE. All call it, with the same count; it returns when all have. What is in it is
    /// whatever was there before.
    pub fn malloc<T: Plain>(&self, count: usize) -> Result<Sym<T>, Error> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(Error::HeapFull { bytes: usize::MAX })?;
        let at = self.inner.borrow_mut().heap.take(bytes);
        self.barrier_all()?;
        let at = at.ok_or(Error::HeapFull { bytes })?;
        Ok(Sym { offset: at as u64, len: count, what: PhantomData })
    }

    /// [`Shmem::malloc`] of zeroed memory.
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
    pub fn free<T: Plain>(&self, object: Sym<T>) -> Result<(), Error> {
        self.barrier_all()?;
        let freed = self.inner.borrow_mut().heap.give_back(object.offset as usize);
        if freed { Ok(()) } else { Err(Error::NotAllocated) }
    }

    /// This PE's own values.
    pub fn read<T: Plain>(&self, from: Sym<T>, at: usize, count: usize) -> Result<Vec<T>, Error> {
        let mut values = vec![T::new_zeroed(); count.min(from.len)];
        self.read_into(from, at, &mut values)?;
        if values.len() == count { Ok(values) } else { Err(Error::OUT_OF_RANGE) }
    }

    /// This PE's own values, into a slice.
    pub fn read_into<T: Plain>(&self, from: Sym<T>, at: usize, into: &mut [T]) -> Result<(), Error> {
        let place = from.place(at, into.len())?;
        let read = self.inner.borrow().memory.local().read(place as usize, into.as_mut_bytes());
        if read { Ok(()) } else { Err(Error::OUT_OF_RANGE) }
    }

    /// Writes this PE's own values.
    pub fn write<T: Plain>(&self, to: Sym<T>, at: usize, values: &[T]) -> Result<(), Error> {
        let place = to.place(at, values.len())?;
        let written = self.inner.borrow().memory.local().write(place as usize, values.as_bytes());
        if written { Ok(()) } else { Err(Error::OUT_OF_RANGE) }
    }

    /// Orders puts: what this PE puts to a PE after this arrives there after what it put before. Here that means that what was
    /// put before has arrived.
    #[inline]
    pub fn fence(&self) -> Result<(), Error> {
        self.quiet()
    }

    /// Waits until everything this PE has started is in place. The first failure among them is its error.
    #[inline]
    pub fn quiet(&self) -> Result<(), Error> {
        self.inner.borrow_mut().world.quiet()
    }

    /// Returns when all PEs have called it and everything that any of them had started is in place.
    pub fn barrier_all(&self) -> Result<(), Error> {
        self.barrier(self.team_world())
    }

    /// Returns when all PEs have called it. Does not wait for what they have started elsewhere.
    pub fn sync_all(&self) -> Result<(), Error> {
        self.team_sync(self.team_world())
    }

    /// [`Shmem::quiet`] and [`Shmem::team_sync`].
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
