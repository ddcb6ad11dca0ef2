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

mod collect;
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
///
/// ```
/// use barewire::{spmd, splitc::SplitC};
/// spmd::launch(&[2], |endpoint| {
///     let sc = SplitC::new(endpoint, 1 << 16)?;
///     let numbers = sc.all_spread_malloc::<u64>(2, 1)?; // one on each processor
///     sc.write(numbers.at(1 - u64::from(sc.my_proc())), 42)?;
///     sc.barrier()?;
///     assert_eq!(sc.read(numbers.at(0))?, 42);
///     sc.barrier()
/// }).unwrap();
/// ```
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
    ///
    /// ```
    /// use barewire::core::{Config, Endpoint, job::Job};
    /// use barewire::splitc::{Error, SplitC};
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let sc = SplitC::new(endpoint, 4096).unwrap();
    /// assert!(sc.alloc::<u8>(4096).is_ok());
    /// assert!(matches!(sc.alloc::<u8>(1), Err(Error::HeapFull { .. })));
    /// ```
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
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// assert_eq!(sc.all_gather(sc.my_proc())?, [0, 1, 2]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn my_proc(&self) -> u32 {
        self.me
    }

    /// How many processors there are.
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// let left = (me + sc.procs() - 1) % sc.procs();
    /// assert_eq!(left, [2, 0, 1][me as usize]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn procs(&self) -> u32 {
        self.procs
    }

    /// How long any wait may last before it ends with [`Error::TimedOut`]. `None`, the default: as long as it takes.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// use std::time::Duration;
    /// sc.set_timeout(Some(Duration::from_millis(5)));
    /// assert_eq!(sc.store_sync(1), Err(Error::TimedOut)); // nobody stores anything
    /// ```
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        self.inner.borrow_mut().world.set_timeout(timeout);
    }

    /// Looks at the endpoint below: its counters, its peers' states.
    ///
    /// # Panics
    /// If `look` uses this processor again: it is in use already.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// use barewire::core::Peer;
    /// assert_eq!(sc.with_endpoint(|endpoint| endpoint.me()), Peer(0));
    /// ```
    pub fn with_endpoint<R>(&self, look: impl FnOnce(&Endpoint) -> R) -> R {
        look(self.inner.borrow().world.endpoint())
    }

    /// Serves the others, while this processor computes for long. Never waits.
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// if me == 0 {
    ///     sc.store(Global::<u64>::new(1, sc.alloc::<u64>(1)?.offset()), 1)?;
    /// } else {
    ///     sc.alloc::<u64>(1)?;
    ///     while sc.stored_here() < 8 {
    ///         sc.poll(); // between two steps of a long computation
    ///     }
    /// }
    /// sc.barrier()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn poll(&self) {
        self.inner.borrow_mut().world.look();
    }

    /// Memory for `count` values on this processor alone; tell others the pointer as you like.
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// let mine = sc.alloc::<f64>(2)?;
    /// sc.bulk_write(mine, &[0.5, f64::from(me)])?;
    /// let everybodys = sc.all_gather(mine.to_words())?; // tell where it is
    /// let theirs = Global::<f64>::from_words(everybodys[1 - me as usize]);
    /// assert_eq!(sc.read(theirs.add(1))?, 1.0 - f64::from(me));
    /// sc.barrier()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn alloc<T: Plain>(&self, count: usize) -> Result<Global<T>, Error> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(Error::HeapFull { bytes: usize::MAX })?;
        let at = self.inner.borrow_mut().heap.take_high(bytes).ok_or(Error::HeapFull { bytes })?;
        Ok(Global::new(self.me, at as u64))
    }

    /// Gives memory of [`SplitC::alloc`] back.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let block = sc.alloc::<u64>(8000).unwrap();
    /// assert!(sc.alloc::<u64>(8000).is_err());
    /// sc.free(block).unwrap();
    /// assert!(sc.alloc::<u64>(8000).is_ok()); // there is room again
    /// assert!(sc.free(block.add(1)).is_err()); // no block begins there
    /// ```
    pub fn free<T: Plain>(&self, pointer: Global<T>) -> Result<(), Error> {
        let ours = pointer.proc() == self.me;
        let freed = ours && self.inner.borrow_mut().heap.give_back(pointer.offset() as usize);
        if freed { Ok(()) } else { Err(Error::NotAllocated) }
    }

    /// A spread array of `count` blocks of `block` values each: block `i` is on processor `i % procs`. All call it, with the same
    /// sizes. It is zeroed only if its memory was never used before.
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// let array = sc.all_spread_malloc::<u32>(4, 3)?; // 4 blocks of 3
    /// assert_eq!((0..4).map(|i| array.block(i).proc()).collect::<Vec<_>>(), [0, 1, 0, 1]);
    /// sc.write(array.at(5), 9)?; // the last of block 1
    /// assert_eq!(sc.read(array.block(1).add(2))?, 9);
    /// sc.barrier()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn all_spread_malloc<T: Plain>(&self, count: usize, block: usize) -> Result<Spread<T>, Error> {
        let rows = count.div_ceil(self.procs as usize);
        let bytes = rows.checked_mul(block).and_then(|n| n.checked_mul(size_of::<T>()));
        let mut inner = self.inner.borrow_mut();
        let at = bytes.filter(|_| block > 0).and_then(|bytes| inner.heap.take(bytes));
        // The same place everywhere, or nowhere.
        let here = at.map_or(u64::MAX, |at| at as u64);
        let all = inner.world.all();
        let mut agreed = [here, !here];
        let reduced = inner.world.reduce(all, &mut agreed, Ord::max);
        match at {
            Some(at) if reduced.is_ok() && agreed == [here, !here] => {
                Ok(Spread::new(at as u64, self.procs, block as u64))
            }
            _ => {
                at.map(|at| inner.heap.give_back(at));
                reduced?;
                if block == 0 {
                    return Err(Error::Mismatch("a block of a spread array has at least one value"));
                }
                Err(Error::HeapFull { bytes: bytes.unwrap_or(usize::MAX) })
            }
        }
    }

    /// Gives a spread array back. All call it.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let array = sc.all_spread_malloc::<u64>(100, 4).unwrap();
    /// assert_eq!(sc.all_spread_free(array), Ok(()));
    /// assert_eq!(sc.all_spread_free(array), Err(Error::NotAllocated));
    /// ```
    pub fn all_spread_free<T: Plain>(&self, array: Spread<T>) -> Result<(), Error> {
        self.barrier()?;
        let freed = self.inner.borrow_mut().heap.give_back(array.offset() as usize);
        if freed { Ok(()) } else { Err(Error::NotAllocated) }
    }

    /// Reads one value.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let pair = sc.alloc::<[i16; 2]>(1).unwrap();
    /// sc.write(pair, [3, -4]).unwrap();
    /// assert_eq!(sc.read(pair), Ok([3, -4]));
    /// assert!(sc.read(Global::<u8>::new(0, 1 << 40)).is_err()); // outside of the heap
    /// ```
    #[inline]
    pub fn read<T: Plain>(&self, from: Global<T>) -> Result<T, Error> {
        let mut value = T::new_zeroed();
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        world.get(memory, from.proc(), from.offset(), value.as_mut_bytes())?;
        Ok(value)
    }

    /// Writes one value, and returns when it is in place.
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// let flags = sc.all_spread_malloc::<u32>(2, 1)?;
    /// sc.write(flags.at(u64::from(1 - me)), 5 + me)?;
    /// sc.barrier()?;
    /// assert_eq!(sc.read(flags.at(u64::from(me)))?, 6 - me);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn write<T: Plain>(&self, to: Global<T>, value: T) -> Result<(), Error> {
        self.bulk_write(to, &[value])
    }

    /// Reads consecutive values.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let row = sc.alloc::<u32>(5).unwrap();
    /// sc.bulk_write(row, &[1, 2, 3, 4, 5]).unwrap();
    /// let mut middle = [0; 3];
    /// sc.bulk_read(row.add(1), &mut middle).unwrap();
    /// assert_eq!(middle, [2, 3, 4]);
    /// ```
    pub fn bulk_read<T: Plain>(&self, from: Global<T>, into: &mut [T]) -> Result<(), Error> {
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        world.get(memory, from.proc(), from.offset(), into.as_mut_bytes())
    }

    /// Writes consecutive values, and returns when they are in place.
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// let rows = sc.all_spread_malloc::<u8>(2, 8)?;
    /// sc.bulk_write(rows.block(u64::from(1 - me)).add(3), b"row")?;
    /// sc.barrier()?;
    /// let mut mine = [0; 8];
    /// sc.bulk_read(rows.block(u64::from(me)), &mut mine)?;
    /// assert_eq!(&mine, b"\0\0\0row\0\0");
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
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
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// let cells = sc.all_spread_malloc::<u64>(8, 1)?;
    /// for i in 0..8 {
    ///     if i % 2 == u64::from(1 - me) {
    ///         sc.put(cells.at(i), i * i)?; // none is waited for
    ///     }
    /// }
    /// sc.sync()?;
    /// sc.barrier()?;
    /// assert_eq!(sc.read(cells.at(6))?, 36);
    /// # sc.barrier()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn put<T: Plain>(&self, to: Global<T>, value: T) -> Result<Put<'_>, Error> {
        self.bulk_put(to, &[value])
    }

    /// Starts to read consecutive values into memory of this processor.
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// let there = sc.all_spread_malloc::<u16>(2, 4)?;
    /// sc.bulk_write(there.block(u64::from(me)), &[me as u16; 4])?;
    /// sc.barrier()?;
    /// let here = sc.alloc::<u16>(4)?;
    /// sc.bulk_get(there.block(u64::from(1 - me)), here, 4)?;
    /// sc.sync()?;
    /// assert_eq!(sc.read(here.add(3))?, 1 - me as u16);
    /// sc.barrier()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
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
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let row = sc.alloc::<u8>(10).unwrap();
    /// let mut word = *b"first";
    /// sc.bulk_put(row, &word).unwrap();
    /// word = *b"later"; // the slice may be used again
    /// sc.bulk_put(row.add(5), &word).unwrap();
    /// sc.sync().unwrap();
    /// let mut both = [0; 10];
    /// sc.bulk_read(row, &mut both).unwrap();
    /// assert_eq!(&both, b"firstlater");
    /// ```
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
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// let numbers = sc.all_spread_malloc::<u32>(2, 1)?;
    /// sc.put(numbers.at(u64::from(me)), me + 1)?;
    /// sc.sync()?;
    /// sc.barrier()?;
    /// let gets = [sc.get(numbers.at(0))?, sc.get(numbers.at(1))?];
    /// sc.sync()?; // both are here now
    /// assert_eq!(gets[0].value()? + gets[1].value()?, 3);
    /// sc.barrier()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn sync(&self) -> Result<(), Error> {
        let mut inner = self.inner.borrow_mut();
        let outcome = inner.world.quiet();
        if outcome.is_ok() {
            inner.synced += 1;
        }
        outcome
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
