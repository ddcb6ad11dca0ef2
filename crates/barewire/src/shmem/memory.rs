//! Symmetric memory at multiples of something, and of another length.

use std::marker::PhantomData;

use super::{Error, Inner, Plain, Shmem, Sym};

impl Shmem {
    /// [`Shmem::malloc`] of memory that begins at a multiple of `alignment` bytes, a power of two, from the beginning of the heap. All of
    /// them begin at a multiple of 64.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let page = shmem.align::<u8>(4096, 100).unwrap();
    /// assert_eq!(page.len(), 100);
    /// assert!(shmem.align::<u8>(3, 100).is_err()); // no power of two
    /// ```
    pub fn align<T: Plain>(&self, alignment: usize, count: usize) -> Result<Sym<T>, Error> {
        if !alignment.is_power_of_two() {
            return Err(Error::Mismatch("an alignment is a power of two"));
        }
        let bytes = count.checked_mul(size_of::<T>()).ok_or(Error::HeapFull { bytes: usize::MAX })?;
        let at = self.inner.borrow_mut().heap.take_aligned(bytes, alignment);
        self.barrier_all()?;
        let at = at.ok_or(Error::HeapFull { bytes })?;
        Ok(Sym { offset: at as u64, len: count, what: PhantomData })
    }

    /// Makes an object `count` values long. What was in it stays, as far as it fits; the rest may have any value. All call it; it
    /// returns when all have. The object is at another place, unless there was room where it is: the old name is not used any more. If
    /// the heap is full, everything stays as it was.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let row = shmem.malloc::<u32>(2).unwrap();
    /// shmem.write(row, 0, &[5, 6]).unwrap();
    /// let row = shmem.realloc(row, 1000).unwrap();
    /// assert_eq!((row.len(), shmem.read(row, 0, 2)), (1000, Ok(vec![5, 6])));
    /// assert!(matches!(shmem.realloc(row, 1 << 20), Err(Error::HeapFull { .. })));
    /// ```
    pub fn realloc<T: Plain>(&self, object: Sym<T>, count: usize) -> Result<Sym<T>, Error> {
        // What others have put is in place.
        self.barrier_all()?;
        let moved = self.moved(object, count);
        self.barrier_all()?;
        moved
    }

    /// The object with another length, of which this PE's own part is copied.
    fn moved<T: Plain>(&self, object: Sym<T>, count: usize) -> Result<Sym<T>, Error> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(Error::HeapFull { bytes: usize::MAX })?;
        let from = object.offset as usize;
        let Inner { heap, memory, .. } = &mut *self.inner.borrow_mut();
        let room = heap.used_at(from).ok_or(Error::NotAllocated)?;
        if bytes <= room {
            return Ok(Sym { len: count, ..object });
        }
        let at = heap.take(bytes).ok_or(Error::HeapFull { bytes })?;
        let (old, local) = (room.min(object.len * size_of::<T>()), memory.local());
        if let (Some(mut from), Some(mut to)) = (local.wire_ref(from, old), local.wire_mut(at, old)) {
            to.write_from(&mut from);
        }
        heap.give_back(object.offset as usize);
        Ok(Sym { offset: at as u64, len: count, what: PhantomData })
    }
}
