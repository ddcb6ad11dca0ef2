//! Put and get: blocking, non-blocking, strided, and with a signal.

use barewire_core::region::{Atomic, Width};
use zerocopy::IntoBytes;

use super::{Error, Inner, Plain, Shmem, Sym};

/// What a put's signal does to its word.
///
/// ```
/// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
/// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
/// let (data, signal) = (shmem.calloc::<u8>(1).unwrap(), shmem.calloc::<u64>(1).unwrap());
/// shmem.put_signal(data, 0, &[1], signal, Signal::Set(5), 0).unwrap();
/// shmem.put_signal(data, 0, &[2], signal, Signal::Add(3), 0).unwrap();
/// assert_eq!(shmem.signal_wait_until(signal, Cmp::Ge, 8), Ok(8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Sets it.
    Set(u64),
    /// Adds to it.
    Add(u64),
}

impl Shmem {
    /// Puts values into the object on `pe`, from element `at` on.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let row = shmem.calloc::<f64>(4)?;
    /// shmem.put(row, 1, &[2.5, 3.5], 1 - me)?;
    /// shmem.barrier_all()?;
    /// assert_eq!(shmem.read(row, 0, 4)?, [0.0, 2.5, 3.5, 0.0]);
    /// assert!(shmem.put(row, 3, &[0.0; 2], 1 - me).is_err()); // one too many
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn put<T: Plain>(&self, to: Sym<T>, at: usize, values: &[T], pe: u32) -> Result<(), Error> {
        let place = to.place(at, values.len())?;
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        world.put(memory, pe, place, values.as_bytes())
    }

    /// Puts one value.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let halo = shmem.calloc::<i32>(2)?;
    /// shmem.p(halo, 1, -5, 1 - me)?;
    /// shmem.barrier_all()?;
    /// assert_eq!(shmem.read(halo, 0, 2)?, [0, -5]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn p<T: Plain>(&self, to: Sym<T>, at: usize, value: T, pe: u32) -> Result<(), Error> {
        self.put(to, at, &[value], pe)
    }

    /// Gets values of the object on `pe`, from element `at` on.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let row = shmem.calloc::<u32>(3)?;
    /// shmem.write(row, 0, &[me, me + 10, me + 20])?;
    /// shmem.barrier_all()?;
    /// let mut theirs = [0; 2];
    /// shmem.get(&mut theirs, row, 1, 1 - me)?;
    /// assert_eq!(theirs, [11 - me, 21 - me]);
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn get<T: Plain>(&self, into: &mut [T], from: Sym<T>, at: usize, pe: u32) -> Result<(), Error> {
        let place = from.place(at, into.len())?;
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        world.get(memory, pe, place, into.as_mut_bytes())
    }

    /// Gets one value.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let level = shmem.calloc::<f32>(1)?;
    /// shmem.write(level, 0, &[0.25 + me as f32])?;
    /// shmem.barrier_all()?;
    /// assert_eq!(shmem.g(level, 0, 1)?, 1.25);
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn g<T: Plain>(&self, from: Sym<T>, at: usize, pe: u32) -> Result<T, Error> {
        let mut value = [T::new_zeroed()];
        self.get(&mut value, from, at, pe)?;
        Ok(value[0])
    }

    /// Starts to put values; they are in place after [`Shmem::quiet`]. The slice may be used again at once.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let inbox = shmem.calloc::<u64>(2)?;
    /// let mut value = [7];
    /// shmem.put_nbi(inbox, 0, &value, 1 - me)?;
    /// value[0] = 8; // does not change what was put
    /// shmem.put_nbi(inbox, 1, &value, 1 - me)?;
    /// shmem.barrier_all()?;
    /// assert_eq!(shmem.read(inbox, 0, 2)?, [7, 8]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn put_nbi<T: Plain>(&self, to: Sym<T>, at: usize, values: &[T], pe: u32) -> Result<(), Error> {
        self.put(to, at, values, pe)
    }

    /// Starts to get `count` values of `from` on `pe` into this PE's own `into`; they are there after [`Shmem::quiet`].
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let (there, here) = (shmem.calloc::<u8>(4)?, shmem.calloc::<u8>(4)?);
    /// shmem.write(there, 0, b"abcd")?;
    /// shmem.barrier_all()?;
    /// shmem.get_nbi((here, 1), (there, 2), 2, 1 - me)?;
    /// shmem.quiet()?;
    /// assert_eq!(shmem.read(here, 0, 4)?, b"\0cd\0");
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn get_nbi<T: Plain>(
        &self,
        (into, into_at): (Sym<T>, usize),
        (from, from_at): (Sym<T>, usize),
        count: usize,
        pe: u32,
    ) -> Result<(), Error> {
        let (to, place) = (into.place(into_at, count)?, from.place(from_at, count)?);
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        let local = memory.local().clone();
        world.get_start(memory, pe, place, (&local, to), (count * size_of::<T>()) as u64)
    }

    /// Puts every `source_stride`th of the values to every `stride`th element from `at` on, `count` of them.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::Shmem};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 4096).unwrap();
    /// let matrix = shmem.calloc::<u32>(4 * 4).unwrap();
    /// shmem.iput(matrix, 1, 4, &[7, 8, 9, 10], 1, 4, 0).unwrap(); // a column
    /// let mut column = [0; 4];
    /// shmem.iget(&mut column, 1, matrix, 1, 4, 4, 0).unwrap();
    /// assert_eq!(column, [7, 8, 9, 10]);
    /// assert_eq!(shmem.read(matrix, 4, 4).unwrap(), [0, 8, 0, 0]);
    /// ```
    #[allow(clippy::too_many_arguments)]
    pub fn iput<T: Plain>(
        &self,
        to: Sym<T>,
        at: usize,
        stride: usize,
        values: &[T],
        source_stride: usize,
        count: usize,
        pe: u32,
    ) -> Result<(), Error> {
        strided(to.len(), at, stride, count)?;
        strided(values.len(), 0, source_stride, count)?;
        (0..count).try_for_each(|i| self.p(to, at + i * stride, values[i * source_stride], pe))
    }

    /// Gets every `stride`th element from `at` on into every `into_stride`th of the slice, `count` of them.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let squares = shmem.calloc::<u32>(6).unwrap();
    /// shmem.write(squares, 0, &[0, 1, 4, 9, 16, 25]).unwrap();
    /// let mut odd = [0; 5];
    /// shmem.iget(&mut odd, 2, squares, 1, 2, 3, 0).unwrap(); // every second from 1 on, into every second
    /// assert_eq!(odd, [1, 0, 9, 0, 25]);
    /// ```
    #[allow(clippy::too_many_arguments)]
    pub fn iget<T: Plain>(
        &self,
        into: &mut [T],
        into_stride: usize,
        from: Sym<T>,
        at: usize,
        stride: usize,
        count: usize,
        pe: u32,
    ) -> Result<(), Error> {
        strided(from.len(), at, stride, count)?;
        strided(into.len(), 0, into_stride, count)?;
        (0..count).try_for_each(|i| {
            into[i * into_stride] = self.g(from, at + i * stride, pe)?;
            Ok(())
        })
    }

    /// Puts values, and then updates a signal on the same PE: whoever sees the signal sees the values.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let (page, ready) = (shmem.calloc::<u8>(5)?, shmem.calloc::<u64>(1)?);
    /// if me == 0 {
    ///     shmem.put_signal(page, 0, b"hello", ready, Signal::Set(1), 1)?;
    /// } else {
    ///     shmem.signal_wait_until(ready, Cmp::Eq, 1)?;
    ///     assert_eq!(shmem.read(page, 0, 5)?, b"hello");
    /// }
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn put_signal<T: Plain>(
        &self,
        to: Sym<T>,
        at: usize,
        values: &[T],
        signal: Sym<u64>,
        what: Signal,
        pe: u32,
    ) -> Result<(), Error> {
        let (place, word) = (to.place(at, values.len())?, signal.place(0, 1)?);
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        world.put_and_wait(memory, pe, place, values.as_bytes())?;
        let what = match what {
            Signal::Set(value) => Atomic::Swap(value),
            Signal::Add(value) => Atomic::Add(value),
        };
        world.atomic_start(memory, pe, word, Width::U64, what)
    }

    /// Starts to put values, and then to update a signal on the same PE. Both have happened after [`Shmem::quiet`]; the slice may be used
    /// again at once.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let (page, ready) = (shmem.calloc::<u8>(5)?, shmem.calloc::<u64>(1)?);
    /// shmem.put_signal_nbi(page, 0, b"hello", ready, Signal::Set(1), 1 - me)?;
    /// shmem.signal_wait_until(ready, Cmp::Eq, 1)?;
    /// assert_eq!(shmem.read(page, 0, 5)?, b"hello");
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn put_signal_nbi<T: Plain>(
        &self,
        to: Sym<T>,
        at: usize,
        values: &[T],
        signal: Sym<u64>,
        what: Signal,
        pe: u32,
    ) -> Result<(), Error> {
        self.put_signal(to, at, values, signal, what, pe)
    }

    /// This PE's own signal, as it is.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let (data, signal) = (shmem.calloc::<u8>(4).unwrap(), shmem.calloc::<u64>(1).unwrap());
    /// assert_eq!(shmem.signal_fetch(signal), Ok(0));
    /// shmem.put_signal(data, 0, &[1; 4], signal, Signal::Add(4), 0).unwrap();
    /// shmem.quiet().unwrap();
    /// assert_eq!(shmem.signal_fetch(signal), Ok(4));
    /// ```
    pub fn signal_fetch(&self, signal: Sym<u64>) -> Result<u64, Error> {
        self.atomic_fetch(signal, 0, self.my_pe())
    }
}

/// Whether `count` elements, every `stride`th from `at` on, are among `len`.
pub(super) fn strided(len: usize, at: usize, stride: usize, count: usize) -> Result<(), Error> {
    if stride == 0 {
        return Err(Error::Mismatch("a stride is at least 1"));
    }
    let last = count.checked_sub(1).map(|steps| steps.checked_mul(stride)?.checked_add(at));
    match last {
        None => Ok(()),
        Some(Some(last)) if last < len => Ok(()),
        _ => Err(Error::OUT_OF_RANGE),
    }
}
