//! Atomics whose old value comes later: it is in this PE's own symmetric memory after [`Shmem::quiet`].

use barewire_core::region::Atomic;

use super::{AtomicWord, Error, Shmem, Sym, Word};

impl Shmem {
    /// Starts to read the value.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let (word, old) = (shmem.calloc::<f64>(1).unwrap(), shmem.calloc::<f64>(1).unwrap());
    /// shmem.write(word, 0, &[0.5]).unwrap();
    /// shmem.atomic_fetch_nbi((old, 0), word, 0, 0).unwrap();
    /// shmem.quiet().unwrap();
    /// assert_eq!((shmem.g(old, 0, 0), shmem.g(word, 0, 0)), (Ok(0.5), Ok(0.5)));
    /// ```
    pub fn atomic_fetch_nbi<T: Word>(
        &self,
        into: (Sym<T>, usize),
        word: Sym<T>,
        at: usize,
        pe: u32,
    ) -> Result<(), Error> {
        self.fetch_atomic_nbi(into, word, at, Atomic::Or(0), pe)
    }

    /// Starts to set the value; the old one comes.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let (word, old) = (shmem.calloc::<f32>(1).unwrap(), shmem.calloc::<f32>(1).unwrap());
    /// shmem.write(word, 0, &[0.5]).unwrap();
    /// shmem.atomic_swap_nbi((old, 0), word, 0, 2.5, 0).unwrap();
    /// shmem.quiet().unwrap();
    /// assert_eq!((shmem.g(old, 0, 0), shmem.g(word, 0, 0)), (Ok(0.5), Ok(2.5)));
    /// ```
    pub fn atomic_swap_nbi<T: Word>(
        &self,
        into: (Sym<T>, usize),
        word: Sym<T>,
        at: usize,
        value: T,
        pe: u32,
    ) -> Result<(), Error> {
        self.fetch_atomic_nbi(into, word, at, Atomic::Swap(value.to_bits()), pe)
    }

    /// Starts to set the value if it is `expected`; the old one comes.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let (word, old) = (shmem.calloc::<u32>(1).unwrap(), shmem.calloc::<u32>(2).unwrap());
    /// shmem.atomic_compare_swap_nbi((old, 0), word, 0, 0, 7, 0).unwrap();
    /// shmem.atomic_compare_swap_nbi((old, 1), word, 0, 0, 8, 0).unwrap();
    /// shmem.quiet().unwrap();
    /// assert_eq!((shmem.read(old, 0, 2), shmem.g(word, 0, 0)), (Ok(vec![0, 7]), Ok(7)));
    /// ```
    pub fn atomic_compare_swap_nbi<T: AtomicWord>(
        &self,
        into: (Sym<T>, usize),
        word: Sym<T>,
        at: usize,
        expected: T,
        new: T,
        pe: u32,
    ) -> Result<(), Error> {
        let what = Atomic::CompareSwap { expected: expected.to_bits(), new: new.to_bits() };
        self.fetch_atomic_nbi(into, word, at, what, pe)
    }

    /// Starts to add one; the old value comes.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let (word, old) = (shmem.calloc::<i32>(1).unwrap(), shmem.calloc::<i32>(1).unwrap());
    /// shmem.write(word, 0, &[-1]).unwrap();
    /// shmem.atomic_fetch_inc_nbi((old, 0), word, 0, 0).unwrap();
    /// shmem.quiet().unwrap();
    /// assert_eq!((shmem.g(old, 0, 0), shmem.g(word, 0, 0)), (Ok(-1), Ok(0)));
    /// ```
    pub fn atomic_fetch_inc_nbi<T: AtomicWord>(
        &self,
        into: (Sym<T>, usize),
        word: Sym<T>,
        at: usize,
        pe: u32,
    ) -> Result<(), Error> {
        self.fetch_atomic_nbi(into, word, at, Atomic::Add(1), pe)
    }

    /// Starts to add, wrapping around; the old value comes.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let (word, old) = (shmem.calloc::<i64>(1).unwrap(), shmem.calloc::<i64>(1).unwrap());
    /// shmem.write(word, 0, &[5]).unwrap();
    /// shmem.atomic_fetch_add_nbi((old, 0), word, 0, -7, 0).unwrap();
    /// shmem.quiet().unwrap();
    /// assert_eq!((shmem.g(old, 0, 0), shmem.g(word, 0, 0)), (Ok(5), Ok(-2)));
    /// ```
    pub fn atomic_fetch_add_nbi<T: AtomicWord>(
        &self,
        into: (Sym<T>, usize),
        word: Sym<T>,
        at: usize,
        by: T,
        pe: u32,
    ) -> Result<(), Error> {
        self.fetch_atomic_nbi(into, word, at, Atomic::Add(by.to_bits()), pe)
    }

    /// Starts a bitwise and; the old value comes.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let (word, old) = (shmem.calloc::<u32>(1).unwrap(), shmem.calloc::<u32>(1).unwrap());
    /// shmem.write(word, 0, &[0b110]).unwrap();
    /// shmem.atomic_fetch_and_nbi((old, 0), word, 0, 0b011, 0).unwrap();
    /// shmem.quiet().unwrap();
    /// assert_eq!((shmem.g(old, 0, 0), shmem.g(word, 0, 0)), (Ok(0b110), Ok(0b010)));
    /// ```
    pub fn atomic_fetch_and_nbi<T: AtomicWord>(
        &self,
        into: (Sym<T>, usize),
        word: Sym<T>,
        at: usize,
        mask: T,
        pe: u32,
    ) -> Result<(), Error> {
        self.fetch_atomic_nbi(into, word, at, Atomic::And(mask.to_bits()), pe)
    }

    /// Starts a bitwise or; the old value comes.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let (word, old) = (shmem.calloc::<u32>(1).unwrap(), shmem.calloc::<u32>(1).unwrap());
    /// shmem.write(word, 0, &[0b110]).unwrap();
    /// shmem.atomic_fetch_or_nbi((old, 0), word, 0, 0b011, 0).unwrap();
    /// shmem.quiet().unwrap();
    /// assert_eq!((shmem.g(old, 0, 0), shmem.g(word, 0, 0)), (Ok(0b110), Ok(0b111)));
    /// ```
    pub fn atomic_fetch_or_nbi<T: AtomicWord>(
        &self,
        into: (Sym<T>, usize),
        word: Sym<T>,
        at: usize,
        mask: T,
        pe: u32,
    ) -> Result<(), Error> {
        self.fetch_atomic_nbi(into, word, at, Atomic::Or(mask.to_bits()), pe)
    }

    /// Starts a bitwise exclusive or; the old value comes.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let (word, old) = (shmem.calloc::<u64>(1).unwrap(), shmem.calloc::<u64>(1).unwrap());
    /// shmem.write(word, 0, &[0b110]).unwrap();
    /// shmem.atomic_fetch_xor_nbi((old, 0), word, 0, 0b011, 0).unwrap();
    /// shmem.quiet().unwrap();
    /// assert_eq!((shmem.g(old, 0, 0), shmem.g(word, 0, 0)), (Ok(0b110), Ok(0b101)));
    /// ```
    pub fn atomic_fetch_xor_nbi<T: AtomicWord>(
        &self,
        into: (Sym<T>, usize),
        word: Sym<T>,
        at: usize,
        mask: T,
        pe: u32,
    ) -> Result<(), Error> {
        self.fetch_atomic_nbi(into, word, at, Atomic::Xor(mask.to_bits()), pe)
    }
}
