//! Waiting for this PE's own memory to be written by others.

use std::sync::atomic::Ordering;

use barewire_core::region::{Memory, Width};

use super::{AtomicWord, Error, Inner, Shmem, Sym};

/// How a word shall compare with a value.
///
/// ```
/// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
/// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
/// let word = shmem.calloc::<i32>(1).unwrap();
/// shmem.write(word, 0, &[-3]).unwrap();
/// assert_eq!(shmem.test(word, 0, Cmp::Lt, 0), Ok(true)); // signed words compare as such
/// assert_eq!(shmem.test(word, 0, Cmp::Ge, -2), Ok(false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cmp {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
}

impl Cmp {
    pub(super) fn holds<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            Cmp::Eq => a == b,
            Cmp::Ne => a != b,
            Cmp::Gt => a > b,
            Cmp::Ge => a >= b,
            Cmp::Lt => a < b,
            Cmp::Le => a <= b,
        }
    }
}

impl Shmem {
    /// Waits until element `at` of this PE's own object compares so, and gives it. [`Error::Lost`] if a PE is lost, or leaves
    /// without [`Shmem::finalize`], because it might be the one that was to write it.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let step = shmem.calloc::<u32>(1)?;
    /// if me == 0 {
    ///     shmem.p(step, 0, 5, 1)?;
    /// } else {
    ///     assert_eq!(shmem.wait_until(step, 0, Cmp::Gt, 3)?, 5);
    /// }
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn wait_until<T: AtomicWord + PartialOrd>(
        &self,
        word: Sym<T>,
        at: usize,
        cmp: Cmp,
        value: T,
    ) -> Result<T, Error> {
        self.wait_until_any(word, at, 1, cmp, value)?;
        self.own(word, at)
    }

    /// Whether element `at` of this PE's own object compares so now.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let flag = shmem.calloc::<u64>(1).unwrap();
    /// assert_eq!(shmem.test(flag, 0, Cmp::Ne, 0), Ok(false));
    /// shmem.p(flag, 0, 1, 0).unwrap();
    /// assert_eq!(shmem.test(flag, 0, Cmp::Ne, 0), Ok(true));
    /// ```
    pub fn test<T: AtomicWord + PartialOrd>(
        &self,
        word: Sym<T>,
        at: usize,
        cmp: Cmp,
        value: T,
    ) -> Result<bool, Error> {
        self.poll();
        Ok(cmp.holds(self.own(word, at)?, value))
    }

    /// Waits until one of `count` elements from `at` on compares so, and says which.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let from = shmem.calloc::<u32>(3)?;
    /// if me == 2 {
    ///     shmem.p(from, 2, 1, 0)?;
    /// } else if me == 0 {
    ///     assert_eq!(shmem.wait_until_any(from, 1, 2, Cmp::Eq, 1)?, 2); // element 2, which is the second looked at
    /// }
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn wait_until_any<T: AtomicWord + PartialOrd>(
        &self,
        words: Sym<T>,
        at: usize,
        count: usize,
        cmp: Cmp,
        value: T,
    ) -> Result<usize, Error> {
        let mut which = 0;
        self.watch(words, at, count, |read| {
            let found = (0..count).find(|&i| cmp.holds(read(i), value));
            which = found.unwrap_or(0);
            found.is_some()
        })?;
        Ok(at + which)
    }

    /// Waits until all of `count` elements from `at` on have compared so at the same look.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let from = shmem.calloc::<u32>(3)?;
    /// shmem.p(from, me as usize, 1, 0)?;
    /// shmem.quiet()?;
    /// if me == 0 {
    ///     shmem.wait_until_all(from, 0, 3, Cmp::Eq, 1)?;
    ///     assert_eq!(shmem.read(from, 0, 3)?, [1, 1, 1]);
    /// }
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn wait_until_all<T: AtomicWord + PartialOrd>(
        &self,
        words: Sym<T>,
        at: usize,
        count: usize,
        cmp: Cmp,
        value: T,
    ) -> Result<(), Error> {
        self.watch(words, at, count, |read| (0..count).all(|i| cmp.holds(read(i), value)))
    }

    /// Waits until at least one of `count` elements from `at` on compares so, and says which do.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let slots = shmem.calloc::<u64>(4).unwrap();
    /// shmem.write(slots, 0, &[9, 0, 7, 7]).unwrap();
    /// assert_eq!(shmem.wait_until_some(slots, 1, 3, Cmp::Gt, 5), Ok(vec![2, 3])); // of those from 1 on
    /// ```
    pub fn wait_until_some<T: AtomicWord + PartialOrd>(
        &self,
        words: Sym<T>,
        at: usize,
        count: usize,
        cmp: Cmp,
        value: T,
    ) -> Result<Vec<usize>, Error> {
        let mut which = Vec::new();
        self.watch(words, at, count, |read| {
            which = (0..count).filter(|&i| cmp.holds(read(i), value)).map(|i| at + i).collect();
            !which.is_empty()
        })?;
        Ok(which)
    }

    /// Which of `count` elements from `at` on is the first that compares so now, if one does.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let slots = shmem.calloc::<u64>(4).unwrap();
    /// assert_eq!(shmem.test_any(slots, 0, 4, Cmp::Ne, 0), Ok(None));
    /// shmem.p(slots, 2, 5, 0).unwrap();
    /// assert_eq!(shmem.test_any(slots, 0, 4, Cmp::Ne, 0), Ok(Some(2)));
    /// ```
    pub fn test_any<T: AtomicWord + PartialOrd>(
        &self,
        words: Sym<T>,
        at: usize,
        count: usize,
        cmp: Cmp,
        value: T,
    ) -> Result<Option<usize>, Error> {
        self.look(words, at, count, |read| (0..count).find(|&i| cmp.holds(read(i), value)).map(|i| at + i))
    }

    /// Whether all of `count` elements from `at` on compare so now. All of none do.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let slots = shmem.calloc::<u64>(3).unwrap();
    /// shmem.write(slots, 0, &[0, 4, 5]).unwrap();
    /// assert_eq!(shmem.test_all(slots, 0, 3, Cmp::Gt, 3), Ok(false));
    /// assert_eq!(shmem.test_all(slots, 1, 2, Cmp::Gt, 3), Ok(true));
    /// ```
    pub fn test_all<T: AtomicWord + PartialOrd>(
        &self,
        words: Sym<T>,
        at: usize,
        count: usize,
        cmp: Cmp,
        value: T,
    ) -> Result<bool, Error> {
        self.look(words, at, count, |read| (0..count).all(|i| cmp.holds(read(i), value)))
    }

    /// Which of `count` elements from `at` on compare so now.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let slots = shmem.calloc::<i32>(4).unwrap();
    /// shmem.write(slots, 0, &[-1, 0, -1, 0]).unwrap();
    /// assert_eq!(shmem.test_some(slots, 0, 4, Cmp::Lt, 0), Ok(vec![0, 2]));
    /// ```
    pub fn test_some<T: AtomicWord + PartialOrd>(
        &self,
        words: Sym<T>,
        at: usize,
        count: usize,
        cmp: Cmp,
        value: T,
    ) -> Result<Vec<usize>, Error> {
        self.look(words, at, count, |read| {
            (0..count).filter(|&i| cmp.holds(read(i), value)).map(|i| at + i).collect()
        })
    }

    /// Waits until this PE's own signal compares so, and gives it.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let (parts, count) = (shmem.calloc::<u32>(3)?, shmem.calloc::<u64>(1)?);
    /// shmem.put_signal(parts, me as usize, &[me * me], count, Signal::Add(1), 0)?;
    /// shmem.quiet()?;
    /// if me == 0 {
    ///     assert_eq!(shmem.signal_wait_until(count, Cmp::Eq, 3)?, 3);
    ///     assert_eq!(shmem.read(parts, 0, 3)?, [0, 1, 4]);
    /// }
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn signal_wait_until(&self, signal: Sym<u64>, cmp: Cmp, value: u64) -> Result<u64, Error> {
        self.wait_until(signal, 0, cmp, value)
    }

    fn own<T: AtomicWord>(&self, word: Sym<T>, at: usize) -> Result<T, Error> {
        let place = word.place(at, 1)? as usize;
        load(self.inner.borrow().memory.local(), place).ok_or(Error::OUT_OF_RANGE)
    }

    /// Waits until `done`, which looks at `count` words from `at` on.
    pub(super) fn watch<T: AtomicWord>(
        &self,
        words: Sym<T>,
        at: usize,
        count: usize,
        mut done: impl FnMut(&dyn Fn(usize) -> T) -> bool,
    ) -> Result<(), Error> {
        let place = words.place(at, count)? as usize;
        if count == 0 {
            return Err(NOTHING_TO_WAIT_FOR);
        }
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        let read = reader(memory.local(), place, count)?;
        world.watch("a word of symmetric memory", None, |_| done(&read))
    }

    /// Looks once at `count` words from `at` on.
    pub(super) fn look<T: AtomicWord, R>(
        &self,
        words: Sym<T>,
        at: usize,
        count: usize,
        see: impl FnOnce(&dyn Fn(usize) -> T) -> R,
    ) -> Result<R, Error> {
        let place = words.place(at, count)? as usize;
        self.poll();
        let inner = self.inner.borrow();
        let read = reader(inner.memory.local(), place, count)?;
        Ok(see(&read))
    }
}

/// A wait that nothing ends is an error.
pub(super) const NOTHING_TO_WAIT_FOR: Error = Error::Mismatch("one waits for at least one word");

/// Reads any of `count` words of this PE's own memory from `place` on.
fn reader<T: AtomicWord>(memory: &Memory, place: usize, count: usize) -> Result<impl Fn(usize) -> T, Error> {
    if let Some(last) = count.checked_sub(1) {
        load::<T>(memory, place + last * size_of::<T>()).ok_or(Error::OUT_OF_RANGE)?;
    }
    Ok(move |i: usize| {
        load(memory, place + i * size_of::<T>()).expect("the last is in range, and objects are aligned")
    })
}

/// One word of this PE's own memory.
fn load<T: AtomicWord>(memory: &Memory, place: usize) -> Option<T> {
    // SYNC symmetric words: pairs with the release of whoever wrote it: an atomic, or a copy on x86, which is in order.
    let bits = match T::WIDTH {
        Width::U64 => memory.atomic_u64(place)?.load(Ordering::Acquire),
        Width::U32 => u64::from(memory.atomic_u32(place)?.load(Ordering::Acquire)),
    };
    Some(T::from_bits(bits))
}
