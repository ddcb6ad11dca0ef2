//! Split-C: one program on every processor, and pointers that reach the memory of all of them.
//!
//! Every processor has a heap that the others can reach. A [`Global`] pointer names a place in one of the heaps; a [`Spread`] pointer
//! walks over the processors, so that a spread array lies an element, or a block, on each in turn. What makes the model fast is
//! that an access can be split in two, so that many are under way while the program goes on:
//!
//! | call | what it does | it has happened |
//! |---|---|---|
//! | [`read`](SplitC::read), [`write`](SplitC::write) | one access | on return |
//! | [`get`](SplitC::get), [`put`](SplitC::put) | the first phase of one | after [`sync`](SplitC::sync), or when awaited |
//! | [`store`](SplitC::store) | one way: nobody tells the sender | when the receiver's [`store_sync`](SplitC::store_sync), or everybody's [`all_store_sync`](SplitC::all_store_sync), says so |
//!
//! Each has a bulk form. The value of a get can be had only after `sync`: asking earlier is an error on every wire, and not only on
//! those where it would be missing. A store is counted where it arrives, in bytes, which is cheaper than an answer.
//!
//! ```
//! use barewire::core::{Config, Endpoint, job::Job};
//! use barewire::splitc::SplitC;
//!
//! let processors = Job::threads(4).unwrap().into_iter().map(|job| std::thread::spawn(move || {
//!     let sc = SplitC::new(Endpoint::open(job, Config::default()).unwrap(), 1 << 16).unwrap();
//!     let (me, procs) = (u64::from(sc.my_proc()), u64::from(sc.procs()));
//!     // One number on each processor; everybody writes to the right …
//!     let numbers = sc.all_spread_malloc::<u64>(procs as usize, 1).unwrap();
//!     sc.store(numbers.at((me + 1) % procs), 10 * me).unwrap();
//!     sc.all_store_sync().unwrap();
//!     // … and gets all of them, all at once.
//!     let gets: Vec<_> = (0..procs).map(|i| sc.get(numbers.at(i)).unwrap()).collect();
//!     sc.sync().unwrap();
//!     let sum: u64 = gets.iter().map(|get| get.value().unwrap()).sum();
//!     assert_eq!(sum, 10 * (0 + 1 + 2 + 3));
//!     sc.barrier().unwrap();
//! }));
//! processors.collect::<Vec<_>>().into_iter().for_each(|processor| processor.join().unwrap());
//! ```
//!
//! Errors are few and mean that nothing happened: a place outside of the heap ([`Error::Region`]), a processor that does not exist
//! ([`Error::NoSuchRank`]) or is gone ([`Error::Lost`]).

mod phase;
mod pointer;
mod store;

use std::cell::RefCell;
use std::time::Duration;

use barewire_core::Endpoint;
use barewire_core::region::Memory;
use zerocopy::IntoBytes;

pub use crate::spmd::{Error, Plain};
pub use phase::{Get, Put};
pub use pointer::{Global, Spread};

use crate::spmd::{Heap, Phase, Symmetric, World};
use store::{Stored, Stores};

/// A processor of a Split-C program. `Send`, not `Sync`, like the endpoint.
#[derive(Debug)]
pub struct SplitC {
    inner: RefCell<Inner>,
    me: u32,
    procs: u32,
}

#[derive(Debug)]
struct Inner {
    world: World<Stores>,
    memory: Symmetric,
    heap: Heap,
    /// Bytes of the heap that pointers may name.
    end: u64,
    /// How often [`SplitC::sync`] has been called.
    synced: u64,
    /// What went to each processor by stores.
    stored: Vec<Stored>,
    /// Bytes stored here that a `store_sync` has accounted for.
    expected: u64,
}

impl SplitC {
    /// Makes this rank a processor with `heap_bytes` of memory that the others can reach. All ranks call it, with the same size.
    pub fn new(endpoint: Endpoint, heap_bytes: usize) -> Result<SplitC, Error> {
        let (me, procs) = (endpoint.me().0, endpoint.size());
        let head = store::head_bytes(procs);
        let bytes = heap_bytes.checked_next_multiple_of(64).and_then(|bytes| bytes.checked_add(head));
        let bytes = bytes.ok_or(Error::HeapFull { bytes: heap_bytes })?;
        let mut world = World::new(endpoint, Stores::default());
        let memory = world.symmetric(bytes)?;
        world.hub.layer.open(memory.local(), head);
        let all = world.all();
        // Nobody stores before everybody can take it.
        world.barrier(all)?;
        let inner = Inner {
            world,
            memory,
            heap: Heap::new(head, bytes),
            end: bytes as u64,
            synced: 0,
            stored: vec![Stored::default(); procs as usize],
            expected: 0,
        };
        Ok(SplitC { inner: RefCell::new(inner), me, procs })
    }

    /// This processor's number.
    pub fn my_proc(&self) -> u32 {
        self.me
    }

    /// How many processors there are.
    pub fn procs(&self) -> u32 {
        self.procs
    }

    /// How long any wait may last before it ends with [`Error::TimedOut`]. `None`, the default: as long as it takes.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        self.inner.borrow_mut().world.set_timeout(timeout);
    }

    /// Looks at the endpoint below: its counters, its peers' states.
    pub fn with_endpoint<R>(&self, look: impl FnOnce(&Endpoint) -> R) -> R {
        look(self.inner.borrow().world.endpoint())
    }

    /// Serves the others, while this processor computes for long. Never waits.
    pub fn poll(&self) {
        self.inner.borrow_mut().world.look();
    }

    /// Memory for `count` values on this processor alone; tell others the pointer as you like.
    pub fn alloc<T: Plain>(&self, count: usize) -> Result<Global<T>, Error> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(Error::HeapFull { bytes: usize::MAX })?;
        let at = self.inner.borrow_mut().heap.take_high(bytes).ok_or(Error::HeapFull { bytes })?;
        Ok(Global::new(self.me, at as u64))
    }

    /// Gives memory of [`SplitC::alloc`] back.
    pub fn free<T: Plain>(&self, pointer: Global<T>) -> Result<(), Error> {
        let ours = pointer.proc() == self.me;
        let freed = ours && self.inner.borrow_mut().heap.give_back(pointer.offset() as usize);
        if freed { Ok(()) } else { Err(Error::NotAllocated) }
    }

    /// A spread array of `count` blocks of `block` values each: block `i` is on processor `i % procs`. All call it, with the same
    /// sizes. It is zeroed only if its memory was never used before.
    pub fn all_spread_malloc<T: Plain>(&self, count: usize, block: usize) -> Result<Spread<T>, Error> {
        let rows = count.div_ceil(self.procs as usize);
        let bytes = rows.checked_mul(block).and_then(|n| n.checked_mul(size_of::<T>()));
        let bytes = bytes.ok_or(Error::HeapFull { bytes: usize::MAX })?;
        let mut inner = self.inner.borrow_mut();
        let at = inner.heap.take(bytes);
        // The same place everywhere, or nowhere.
        let here = at.map_or(u64::MAX, |at| at as u64);
        let all = inner.world.all();
        let mut agreed = [here, !here];
        inner.world.reduce(all, &mut agreed, Ord::max)?;
        match at {
            Some(at) if agreed == [here, !here] => Ok(Spread::new(at as u64, self.procs, block as u64)),
            _ => {
                at.map(|at| inner.heap.give_back(at));
                Err(Error::HeapFull { bytes })
            }
        }
    }

    /// Gives a spread array back. All call it.
    pub fn all_spread_free<T: Plain>(&self, array: Spread<T>) -> Result<(), Error> {
        self.barrier()?;
        let freed = self.inner.borrow_mut().heap.give_back(array.offset() as usize);
        if freed { Ok(()) } else { Err(Error::NotAllocated) }
    }

    /// Reads one value.
    #[inline]
    pub fn read<T: Plain>(&self, from: Global<T>) -> Result<T, Error> {
        let mut value = T::new_zeroed();
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        world.get(memory, from.proc(), from.offset(), value.as_mut_bytes())?;
        Ok(value)
    }

    /// Writes one value, and returns when it is in place.
    #[inline]
    pub fn write<T: Plain>(&self, to: Global<T>, value: T) -> Result<(), Error> {
        self.bulk_write(to, &[value])
    }

    /// Reads consecutive values.
    pub fn bulk_read<T: Plain>(&self, from: Global<T>, into: &mut [T]) -> Result<(), Error> {
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        world.get(memory, from.proc(), from.offset(), into.as_mut_bytes())
    }

    /// Writes consecutive values, and returns when they are in place.
    #[inline]
    pub fn bulk_write<T: Plain>(&self, to: Global<T>, values: &[T]) -> Result<(), Error> {
        let mut inner = self.inner.borrow_mut();
        inner.check(to, values.len())?;
        let Inner { world, memory, .. } = &mut *inner;
        world.put_and_wait(memory, to.proc(), to.offset(), values.as_bytes())
    }

    /// Starts to read one value. It can be had after [`SplitC::sync`], or by awaiting.
    ///
    /// ```
    /// use barewire::core::{Config, Endpoint, job::Job};
    /// use barewire::splitc::{Error, SplitC};
    /// let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 4096).unwrap();
    /// let place = sc.alloc::<f64>(1).unwrap();
    /// sc.write(place, 1.5).unwrap();
    /// let get = sc.get(place).unwrap();
    /// assert_eq!(get.value(), Err(Error::NotSynced));
    /// sc.sync().unwrap();
    /// assert_eq!(get.value(), Ok(1.5));
    /// let later = async { sc.get(place)?.await };
    /// assert_eq!(sc.block_on(later).unwrap(), Ok(1.5));
    /// ```
    #[inline]
    pub fn get<T: Plain>(&self, from: Global<T>) -> Result<Get<'_, T>, Error> {
        let mut inner = self.inner.borrow_mut();
        let Inner { world, memory, synced, .. } = &mut *inner;
        let mut value = T::new_zeroed();
        if world.get_now(memory, from.proc(), from.offset(), value.as_mut_bytes())? {
            return Ok(Get::here(self, *synced, value));
        }
        let (phase, landing) = (Phase::default(), Memory::private(size_of::<T>()));
        let len = size_of::<T>() as u64;
        world.get_afar(memory.key(from.proc())?, from.offset(), (&landing, 0), len, Some(&phase))?;
        Ok(Get::afar(self, *synced, phase, landing))
    }

    /// Starts to write one value. It is in place after [`SplitC::sync`], or when awaited.
    #[inline]
    pub fn put<T: Plain>(&self, to: Global<T>, value: T) -> Result<Put<'_>, Error> {
        self.bulk_put(to, &[value])
    }

    /// Starts to read consecutive values into memory of this processor.
    pub fn bulk_get<T: Plain>(
        &self,
        from: Global<T>,
        into: Global<T>,
        count: usize,
    ) -> Result<Put<'_>, Error> {
        if into.proc() != self.me {
            return Err(Error::Mismatch("a bulk get is into the processor's own memory"));
        }
        let mut inner = self.inner.borrow_mut();
        inner.check(into, count)?;
        let len = inner.check(from, count)?;
        let Inner { world, memory, .. } = &mut *inner;
        let local = memory.local().clone();
        if world.get_into_now(memory, from.proc(), from.offset(), (&local, into.offset()), len)? {
            return Ok(Put::done(self));
        }
        let phase = Phase::default();
        world.get_afar(
            memory.key(from.proc())?,
            from.offset(),
            (&local, into.offset()),
            len,
            Some(&phase),
        )?;
        Ok(Put::afar(self, phase))
    }

    /// Starts to write consecutive values. The slice may be used again at once.
    #[inline]
    pub fn bulk_put<T: Plain>(&self, to: Global<T>, values: &[T]) -> Result<Put<'_>, Error> {
        let mut inner = self.inner.borrow_mut();
        inner.check(to, values.len())?;
        let Inner { world, memory, .. } = &mut *inner;
        if world.put_now(memory, to.proc(), to.offset(), values.as_bytes())? {
            return Ok(Put::done(self));
        }
        let phase = Phase::default();
        world.put_afar(memory.key(to.proc())?, to.offset(), values.as_bytes(), Some(&phase))?;
        Ok(Put::afar(self, phase))
    }

    /// Waits until all of this processor's gets and puts have ended. The first failure among them is its error.
    pub fn sync(&self) -> Result<(), Error> {
        let mut inner = self.inner.borrow_mut();
        let outcome = inner.world.quiet();
        if outcome.is_ok() {
            inner.synced += 1;
        }
        outcome
    }

    /// Returns when all processors have called it. Does not wait for gets, puts and stores.
    pub fn barrier(&self) -> Result<(), Error> {
        let world = &mut self.inner.borrow_mut().world;
        let all = world.all();
        world.barrier(all)
    }

    /// Combines everybody's values, place by place; all get the result. The order depends on the processors' numbers alone.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::SplitC};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 4096).unwrap();
    /// let mut hits_and_longest = [3.0, 0.5];
    /// sc.all_reduce(&mut hits_and_longest, |a, b| a + b).unwrap();
    /// ```
    pub fn all_reduce<T: Plain>(&self, values: &mut [T], combine: impl Fn(T, T) -> T) -> Result<(), Error> {
        let world = &mut self.inner.borrow_mut().world;
        let all = world.all();
        world.reduce(all, values, combine)
    }

    /// What processor `root` has in `values` is in everybody's.
    pub fn all_bcast<T: Plain>(&self, root: u32, values: &mut [T]) -> Result<(), Error> {
        let world = &mut self.inner.borrow_mut().world;
        let all = world.all();
        world.broadcast(all, root, values)
    }

    /// Everybody's value, in the order of processors.
    pub fn all_gather<T: Plain>(&self, value: T) -> Result<Vec<T>, Error> {
        let world = &mut self.inner.borrow_mut().world;
        let all = world.all();
        let parts = world.gather_all(all, value.as_bytes())?;
        let read =
            |part: Vec<u8>| T::read_from_bytes(&part).map_err(|_| Error::Mismatch("not one value each"));
        parts.into_iter().map(read).collect()
    }
}

impl Inner {
    /// Bytes of `count` values at `at`, if they lie in the heap, behind what the layer keeps there for itself.
    #[inline]
    fn check<T>(&self, at: Global<T>, count: usize) -> Result<u64, Error> {
        let head = store::head_bytes(self.stored.len() as u32) as u64;
        let len = (count as u64).checked_mul(size_of::<T>() as u64).ok_or(Error::OUT_OF_RANGE)?;
        match at.offset().checked_add(len) {
            Some(end) if end <= self.end && at.offset() >= head => Ok(len),
            _ => Err(Error::OUT_OF_RANGE),
        }
    }
}
