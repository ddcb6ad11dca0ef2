//! Waiting for this PE's own memory to be written by others.

use std::sync::atomic::Ordering;

use barewire_core::region::{Memory, Width};

use super::{AtomicWord, Error, Inner, Shmem, Sym};

/// How a word shall compare with a value.
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
    fn holds<T: PartialOrd>(self, a: T, b: T) -> bool {
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
    /// Waits until element `at` of this PE's own object compares so, and gives it. [`Error::Lost`] if a PE is lost meanwhile, because
    /// it might be the one that was to write it.
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

    /// Waits until this PE's own signal compares so, and gives it.
    pub fn signal_wait_until(&self, signal: Sym<u64>, cmp: Cmp, value: u64) -> Result<u64, Error> {
        self.wait_until(signal, 0, cmp, value)
    }

    fn own<T: AtomicWord>(&self, word: Sym<T>, at: usize) -> Result<T, Error> {
        let place = word.place(at, 1)? as usize;
        load(self.inner.borrow().memory.local(), place).ok_or(Error::OUT_OF_RANGE)
    }

    fn watch<T: AtomicWord>(
        &self,
        words: Sym<T>,
        at: usize,
        count: usize,
        mut done: impl FnMut(&dyn Fn(usize) -> T) -> bool,
    ) -> Result<(), Error> {
        let place = words.place(at, count)? as usize;
        if count == 0 {
            return Err(Error::Mismatch("one waits for at least one word"));
        }
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        let local = memory.local();
        load::<T>(local, place + (count - 1) * size_of::<T>()).ok_or(Error::OUT_OF_RANGE)?;
        let read = |i: usize| {
            load(local, place + i * size_of::<T>()).expect("the last is in range, and objects are aligned")
        };
        world.watch("a word of symmetric memory", None, |_| done(&read))
    }
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
