//! Atomic updates of one word of symmetric memory, and locks made of them.

use barewire_core::region::{Atomic, Width};

use super::{Error, Inner, Plain, Shmem, Sym};

/// Words that can be updated atomically: integers of 32 and 64 bits.
pub trait AtomicWord: Plain + PartialEq {
    /// How wide it is.
    const WIDTH: Width;
    /// Its bits.
    fn to_bits(self) -> u64;
    /// The word with these bits.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! atomic_words {
    ($($word:ty => $unsigned:ty, $width:expr;)*) => { $(
        impl AtomicWord for $word {
            const WIDTH: Width = $width;
            #[inline]
            fn to_bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
            #[inline]
            fn from_bits(bits: u64) -> $word {
                bits as $word
            }
        }
    )* };
}

atomic_words! {
    u32 => u32, Width::U32;
    i32 => u32, Width::U32;
    u64 => u64, Width::U64;
    i64 => u64, Width::U64;
}

impl Shmem {
    /// Adds, wrapping around, and gives the old value.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::Shmem};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 4096).unwrap();
    /// let counter = shmem.calloc::<i32>(1).unwrap();
    /// assert_eq!(shmem.atomic_fetch_add(counter, 0, -5, 0), Ok(0));
    /// assert_eq!(shmem.atomic_fetch_inc(counter, 0, 0), Ok(-5));
    /// assert_eq!(shmem.atomic_compare_swap(counter, 0, -4, 9, 0), Ok(-4));
    /// assert_eq!(shmem.atomic_fetch(counter, 0, 0), Ok(9));
    /// ```
    #[inline]
    pub fn atomic_fetch_add<T: AtomicWord>(
        &self,
        word: Sym<T>,
        at: usize,
        by: T,
        pe: u32,
    ) -> Result<T, Error> {
        self.fetch_atomic(word, at, Atomic::Add(by.to_bits()), pe)
    }

    /// Adds, wrapping around. It has happened after [`Shmem::quiet`].
    #[inline]
    pub fn atomic_add<T: AtomicWord>(&self, word: Sym<T>, at: usize, by: T, pe: u32) -> Result<(), Error> {
        self.start_atomic(word, at, Atomic::Add(by.to_bits()), pe)
    }

    /// Adds one and gives the old value.
    #[inline]
    pub fn atomic_fetch_inc<T: AtomicWord>(&self, word: Sym<T>, at: usize, pe: u32) -> Result<T, Error> {
        self.fetch_atomic(word, at, Atomic::Add(1), pe)
    }

    /// Adds one. It has happened after [`Shmem::quiet`].
    #[inline]
    pub fn atomic_inc<T: AtomicWord>(&self, word: Sym<T>, at: usize, pe: u32) -> Result<(), Error> {
        self.start_atomic(word, at, Atomic::Add(1), pe)
    }

    /// The value, read atomically.
    #[inline]
    pub fn atomic_fetch<T: AtomicWord>(&self, word: Sym<T>, at: usize, pe: u32) -> Result<T, Error> {
        self.fetch_atomic(word, at, Atomic::Or(0), pe)
    }

    /// Sets the value atomically. It has happened after [`Shmem::quiet`].
    #[inline]
    pub fn atomic_set<T: AtomicWord>(&self, word: Sym<T>, at: usize, value: T, pe: u32) -> Result<(), Error> {
        self.start_atomic(word, at, Atomic::Swap(value.to_bits()), pe)
    }

    /// Sets the value and gives the old one.
    #[inline]
    pub fn atomic_swap<T: AtomicWord>(&self, word: Sym<T>, at: usize, value: T, pe: u32) -> Result<T, Error> {
        self.fetch_atomic(word, at, Atomic::Swap(value.to_bits()), pe)
    }

    /// Sets the value if it is `expected`, and gives the old one.
    #[inline]
    pub fn atomic_compare_swap<T: AtomicWord>(
        &self,
        word: Sym<T>,
        at: usize,
        expected: T,
        new: T,
        pe: u32,
    ) -> Result<T, Error> {
        let what = Atomic::CompareSwap { expected: expected.to_bits(), new: new.to_bits() };
        self.fetch_atomic(word, at, what, pe)
    }

    /// Bitwise and; gives the old value.
    pub fn atomic_fetch_and<T: AtomicWord>(
        &self,
        word: Sym<T>,
        at: usize,
        mask: T,
        pe: u32,
    ) -> Result<T, Error> {
        self.fetch_atomic(word, at, Atomic::And(mask.to_bits()), pe)
    }

    /// Bitwise or; gives the old value.
    pub fn atomic_fetch_or<T: AtomicWord>(
        &self,
        word: Sym<T>,
        at: usize,
        mask: T,
        pe: u32,
    ) -> Result<T, Error> {
        self.fetch_atomic(word, at, Atomic::Or(mask.to_bits()), pe)
    }

    /// Bitwise exclusive or; gives the old value.
    pub fn atomic_fetch_xor<T: AtomicWord>(
        &self,
        word: Sym<T>,
        at: usize,
        mask: T,
        pe: u32,
    ) -> Result<T, Error> {
        self.fetch_atomic(word, at, Atomic::Xor(mask.to_bits()), pe)
    }

    /// Bitwise and. It has happened after [`Shmem::quiet`].
    pub fn atomic_and<T: AtomicWord>(&self, word: Sym<T>, at: usize, mask: T, pe: u32) -> Result<(), Error> {
        self.start_atomic(word, at, Atomic::And(mask.to_bits()), pe)
    }

    /// Bitwise or. It has happened after [`Shmem::quiet`].
    pub fn atomic_or<T: AtomicWord>(&self, word: Sym<T>, at: usize, mask: T, pe: u32) -> Result<(), Error> {
        self.start_atomic(word, at, Atomic::Or(mask.to_bits()), pe)
    }

    /// Bitwise exclusive or. It has happened after [`Shmem::quiet`].
    pub fn atomic_xor<T: AtomicWord>(&self, word: Sym<T>, at: usize, mask: T, pe: u32) -> Result<(), Error> {
        self.start_atomic(word, at, Atomic::Xor(mask.to_bits()), pe)
    }

    /// Takes the lock, waiting for whoever has it. What a lock protects is looked at and changed only by its holder.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::Shmem};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 4096).unwrap();
    /// let lock = shmem.calloc::<u64>(1).unwrap();
    /// shmem.set_lock(lock).unwrap();
    /// assert_eq!(shmem.test_lock(lock), Ok(false), "somebody has it");
    /// shmem.clear_lock(lock).unwrap();
    /// ```
    pub fn set_lock(&self, lock: Sym<u64>) -> Result<(), Error> {
        let started = std::time::Instant::now();
        while !self.test_lock(lock)? {
            self.poll();
            std::thread::yield_now();
            if self.timeout().is_some_and(|timeout| started.elapsed() >= timeout) {
                return Err(Error::TimedOut);
            }
        }
        Ok(())
    }

    /// Takes the lock if nobody has it, and says whether it did.
    pub fn test_lock(&self, lock: Sym<u64>) -> Result<bool, Error> {
        Ok(self.atomic_compare_swap(lock, 0, 0, 1 + u64::from(self.my_pe()), 0)? == 0)
    }

    /// Gives the lock back. What its holder put while it had it is in place before.
    pub fn clear_lock(&self, lock: Sym<u64>) -> Result<(), Error> {
        self.quiet()?;
        match self.atomic_compare_swap(lock, 0, 1 + u64::from(self.my_pe()), 0, 0)? {
            holder if holder == 1 + u64::from(self.my_pe()) => Ok(()),
            _ => Err(Error::Mismatch("only the holder of a lock gives it back")),
        }
    }

    #[inline]
    fn fetch_atomic<T: AtomicWord>(
        &self,
        word: Sym<T>,
        at: usize,
        what: Atomic,
        pe: u32,
    ) -> Result<T, Error> {
        let place = word.place(at, 1)?;
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        world.atomic(memory, pe, place, T::WIDTH, what).map(T::from_bits)
    }

    #[inline]
    fn start_atomic<T: AtomicWord>(
        &self,
        word: Sym<T>,
        at: usize,
        what: Atomic,
        pe: u32,
    ) -> Result<(), Error> {
        let place = word.place(at, 1)?;
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        world.atomic_start(memory, pe, place, T::WIDTH, what)
    }
}
