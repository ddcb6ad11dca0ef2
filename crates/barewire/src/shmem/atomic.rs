//! Atomic updates of one word of symmetric memory, and locks made of them.

use barewire_core::Peer;
use barewire_core::region::{Atomic, Width};

use super::{Error, Inner, Plain, Shmem, Sym};

/// Words that can be read and set atomically: numbers of 32 and 64 bits.
///
/// ```
/// use barewire::core::region::Width;
/// use barewire::shmem::Word;
/// assert_eq!((u32::WIDTH, f64::WIDTH), (Width::U32, Width::U64));
/// assert_eq!(Word::to_bits(-1i32), 0xffff_ffff); // not extended
/// assert_eq!(<i32 as Word>::from_bits(0xffff_fffe), -2);
/// ```
pub trait Word: Plain + PartialEq {
    /// How wide it is.
    const WIDTH: Width;
    /// Its bits.
    fn to_bits(self) -> u64;
    /// The word with these bits.
    fn from_bits(bits: u64) -> Self;
}

/// Words that can also be computed with atomically, and waited for: integers of 32 and 64 bits.
///
/// ```
/// use barewire::shmem::{AtomicWord, Error, Shmem, Sym};
/// fn draw<T: AtomicWord>(shmem: &Shmem, tickets: Sym<T>) -> Result<T, Error> {
///     shmem.atomic_fetch_inc(tickets, 0, 0)
/// }
/// # use barewire::core::{Config, Endpoint, job::Job};
/// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 4096).unwrap();
/// let (small, large) = (shmem.calloc::<u32>(1).unwrap(), shmem.calloc::<i64>(1).unwrap());
/// assert_eq!((draw(&shmem, small), draw(&shmem, large)), (Ok(0), Ok(0)));
/// ```
pub trait AtomicWord: Word {}

macro_rules! integers {
    ($($word:ty => $unsigned:ty, $width:expr;)*) => { $(
        impl Word for $word {
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

        impl AtomicWord for $word {}
    )* };
}

integers! {
    u32 => u32, Width::U32;
    i32 => u32, Width::U32;
    u64 => u64, Width::U64;
    i64 => u64, Width::U64;
}

impl Word for f32 {
    const WIDTH: Width = Width::U32;
    fn to_bits(self) -> u64 {
        u64::from(f32::to_bits(self))
    }
    fn from_bits(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }
}

impl Word for f64 {
    const WIDTH: Width = Width::U64;
    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }
    fn from_bits(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
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
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let total = shmem.calloc::<u64>(1)?;
    /// shmem.atomic_add(total, 0, u64::from(me) + 1, 0)?;
    /// shmem.barrier_all()?;
    /// assert_eq!(shmem.atomic_fetch(total, 0, 0)?, 1 + 2 + 3);
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn atomic_add<T: AtomicWord>(&self, word: Sym<T>, at: usize, by: T, pe: u32) -> Result<(), Error> {
        self.start_atomic(word, at, Atomic::Add(by.to_bits()), pe)
    }

    /// Adds one and gives the old value.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let next = shmem.calloc::<u32>(1)?;
    /// let ticket = shmem.atomic_fetch_inc(next, 0, 0)?;
    /// let mut tickets = shmem.fcollect(shmem.team_world(), &[ticket])?;
    /// tickets.sort();
    /// assert_eq!(tickets, [0, 1, 2]); // each was given once
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn atomic_fetch_inc<T: AtomicWord>(&self, word: Sym<T>, at: usize, pe: u32) -> Result<T, Error> {
        self.fetch_atomic(word, at, Atomic::Add(1), pe)
    }

    /// Adds one. It has happened after [`Shmem::quiet`].
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let arrived = shmem.calloc::<u64>(1)?;
    /// shmem.atomic_inc(arrived, 0, 0)?;
    /// shmem.quiet()?;
    /// if me == 0 {
    ///     shmem.wait_until(arrived, 0, Cmp::Eq, 3)?;
    /// }
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn atomic_inc<T: AtomicWord>(&self, word: Sym<T>, at: usize, pe: u32) -> Result<(), Error> {
        self.start_atomic(word, at, Atomic::Add(1), pe)
    }

    /// The value, read atomically.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let words = shmem.calloc::<i64>(2).unwrap();
    /// shmem.write(words, 0, &[5, -6]).unwrap();
    /// assert_eq!(shmem.atomic_fetch(words, 1, 0), Ok(-6));
    /// let level = shmem.calloc::<f32>(1).unwrap(); // read, set and swapped are floats too
    /// assert_eq!(shmem.atomic_fetch(level, 0, 0), Ok(0.0));
    /// ```
    #[inline]
    pub fn atomic_fetch<T: Word>(&self, word: Sym<T>, at: usize, pe: u32) -> Result<T, Error> {
        self.fetch_atomic(word, at, Atomic::Or(0), pe)
    }

    /// Sets the value atomically. It has happened after [`Shmem::quiet`].
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let state = shmem.calloc::<u32>(1)?;
    /// shmem.atomic_set(state, 0, 8 + me, 1 - me)?;
    /// shmem.barrier_all()?;
    /// assert_eq!(shmem.read(state, 0, 1)?, [9 - me]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    #[inline]
    pub fn atomic_set<T: Word>(&self, word: Sym<T>, at: usize, value: T, pe: u32) -> Result<(), Error> {
        self.start_atomic(word, at, Atomic::Swap(value.to_bits()), pe)
    }

    /// Sets the value and gives the old one.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let slot = shmem.calloc::<u32>(1).unwrap();
    /// assert_eq!(shmem.atomic_swap(slot, 0, 17, 0), Ok(0));
    /// assert_eq!(shmem.atomic_swap(slot, 0, 0, 0), Ok(17)); // taken out again
    /// ```
    #[inline]
    pub fn atomic_swap<T: Word>(&self, word: Sym<T>, at: usize, value: T, pe: u32) -> Result<T, Error> {
        self.fetch_atomic(word, at, Atomic::Swap(value.to_bits()), pe)
    }

    /// Sets the value if it is `expected`, and gives the old one.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let leader = shmem.calloc::<i32>(1)?;
    /// let before = shmem.atomic_compare_swap(leader, 0, 0, 1, 0)?; // who is first?
    /// let firsts = shmem.reduce(shmem.team_world(), Op::Sum, &[i32::from(before == 0)])?;
    /// assert_eq!(firsts, [1]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
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
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let flags = shmem.calloc::<u32>(1).unwrap();
    /// shmem.write(flags, 0, &[0b1110]).unwrap();
    /// assert_eq!(shmem.atomic_fetch_and(flags, 0, !0b0100, 0), Ok(0b1110));
    /// assert_eq!(shmem.atomic_fetch(flags, 0, 0), Ok(0b1010));
    /// ```
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
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let taken = shmem.calloc::<u64>(1).unwrap();
    /// assert_eq!(shmem.atomic_fetch_or(taken, 0, 1 << 40, 0), Ok(0)); // it was free
    /// assert_eq!(shmem.atomic_fetch_or(taken, 0, 1 << 40, 0), Ok(1 << 40)); // now it is not
    /// ```
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
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let toggle = shmem.calloc::<u32>(1).unwrap();
    /// assert_eq!(shmem.atomic_fetch_xor(toggle, 0, 0b11, 0), Ok(0));
    /// assert_eq!(shmem.atomic_fetch_xor(toggle, 0, 0b01, 0), Ok(0b11));
    /// assert_eq!(shmem.atomic_fetch(toggle, 0, 0), Ok(0b10));
    /// ```
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
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let word = shmem.calloc::<u32>(1).unwrap();
    /// shmem.write(word, 0, &[0xff00]).unwrap();
    /// shmem.atomic_and(word, 0, 0x0ff0, 0).unwrap();
    /// shmem.quiet().unwrap();
    /// assert_eq!(shmem.read(word, 0, 1).unwrap(), [0x0f00]);
    /// ```
    pub fn atomic_and<T: AtomicWord>(&self, word: Sym<T>, at: usize, mask: T, pe: u32) -> Result<(), Error> {
        self.start_atomic(word, at, Atomic::And(mask.to_bits()), pe)
    }

    /// Bitwise or. It has happened after [`Shmem::quiet`].
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let present = shmem.calloc::<u64>(1)?;
    /// shmem.atomic_or(present, 0, 1 << me, 0)?; // each its own bit
    /// shmem.barrier_all()?;
    /// assert_eq!(shmem.atomic_fetch(present, 0, 0)?, 0b111);
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn atomic_or<T: AtomicWord>(&self, word: Sym<T>, at: usize, mask: T, pe: u32) -> Result<(), Error> {
        self.start_atomic(word, at, Atomic::Or(mask.to_bits()), pe)
    }

    /// Bitwise exclusive or. It has happened after [`Shmem::quiet`].
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let bits = shmem.calloc::<i32>(1).unwrap();
    /// shmem.write(bits, 0, &[-1]).unwrap();
    /// shmem.atomic_xor(bits, 0, 1, 0).unwrap();
    /// shmem.quiet().unwrap();
    /// assert_eq!(shmem.read(bits, 0, 1).unwrap(), [-2]);
    /// ```
    pub fn atomic_xor<T: AtomicWord>(&self, word: Sym<T>, at: usize, mask: T, pe: u32) -> Result<(), Error> {
        self.start_atomic(word, at, Atomic::Xor(mask.to_bits()), pe)
    }

    /// Takes the lock, waiting for whoever has it. What a lock protects is looked at and changed only by its holder. A lock whose holder is
    /// gone stays taken, because what it protects may be half done: it is [`Error::Lost`].
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
        loop {
            let Some(holder) = self.lock_or_holder(lock)? else { return Ok(()) };
            if self.inner.borrow().world.endpoint().is_gone(holder) {
                // It may have given the lock back just before it left.
                match self.lock_or_holder(lock)? {
                    None => return Ok(()),
                    Some(still) if still == holder => return Err(Error::Lost(holder)),
                    Some(_) => {}
                }
            }
            self.poll();
            std::thread::yield_now();
            if self.timeout().is_some_and(|timeout| started.elapsed() >= timeout) {
                return Err(Error::TimedOut);
            }
        }
    }

    /// Takes the lock if nobody has it, and says whether it did.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let lock = shmem.calloc::<u64>(1).unwrap();
    /// assert_eq!((shmem.test_lock(lock), shmem.test_lock(lock)), (Ok(true), Ok(false)));
    /// ```
    pub fn test_lock(&self, lock: Sym<u64>) -> Result<bool, Error> {
        Ok(self.lock_or_holder(lock)?.is_none())
    }

    /// Takes the lock, or says who has it.
    fn lock_or_holder(&self, lock: Sym<u64>) -> Result<Option<Peer>, Error> {
        let before = self.atomic_compare_swap(lock, 0, 0, 1 + u64::from(self.my_pe()), 0)?;
        Ok(before.checked_sub(1).map(|pe| Peer(u32::try_from(pe).unwrap_or(u32::MAX))))
    }

    /// Gives the lock back. What its holder put while it had it is in place before.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let (lock, sum) = (shmem.calloc::<u64>(1)?, shmem.calloc::<u32>(1)?);
    /// shmem.set_lock(lock)?;
    /// let before = shmem.g(sum, 0, 0)?;
    /// shmem.p(sum, 0, before + 1, 0)?;
    /// shmem.clear_lock(lock)?; // the next holder sees the sum
    /// shmem.barrier_all()?;
    /// assert_eq!(shmem.g(sum, 0, 0)?, 3);
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn clear_lock(&self, lock: Sym<u64>) -> Result<(), Error> {
        self.quiet()?;
        match self.atomic_compare_swap(lock, 0, 1 + u64::from(self.my_pe()), 0, 0)? {
            holder if holder == 1 + u64::from(self.my_pe()) => Ok(()),
            _ => Err(Error::Mismatch("only the holder of a lock gives it back")),
        }
    }

    /// Starts an update whose old value goes to this PE's own `into`.
    pub(super) fn fetch_atomic_nbi<T: Word>(
        &self,
        (into, into_at): (Sym<T>, usize),
        word: Sym<T>,
        at: usize,
        what: Atomic,
        pe: u32,
    ) -> Result<(), Error> {
        let (to, place) = (into.place(into_at, 1)?, word.place(at, 1)?);
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        let local = memory.local().clone();
        world.fetch_start(memory, pe, place, T::WIDTH, what, (&local, to))
    }

    #[inline]
    fn fetch_atomic<T: Word>(&self, word: Sym<T>, at: usize, what: Atomic, pe: u32) -> Result<T, Error> {
        let place = word.place(at, 1)?;
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        world.atomic(memory, pe, place, T::WIDTH, what).map(T::from_bits)
    }

    #[inline]
    fn start_atomic<T: Word>(&self, word: Sym<T>, at: usize, what: Atomic, pe: u32) -> Result<(), Error> {
        let place = word.place(at, 1)?;
        let Inner { world, memory, .. } = &mut *self.inner.borrow_mut();
        world.atomic_start(memory, pe, place, T::WIDTH, what)
    }
}
