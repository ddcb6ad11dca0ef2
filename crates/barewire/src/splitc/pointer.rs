//! Pointers into the memory of all processors.

use std::fmt;
use std::marker::PhantomData;

/// Points to a `T` on one processor. Arithmetic stays on that processor.
///
/// ```
/// use barewire::splitc::Global;
/// let first = Global::<f64>::new(3, 1024);
/// assert_eq!((first.add(2).proc(), first.add(2).offset()), (3, 1040));
/// assert_eq!(Global::<f64>::from_words(first.to_words()), first);
/// ```
pub struct Global<T> {
    proc: u32,
    offset: u64,
    what: PhantomData<fn() -> T>,
}

/// Points into a spread array: block `i` is on processor `i % procs`.
///
/// ```
/// use barewire::splitc::Spread;
/// // Blocks of 2 numbers over 4 processors.
/// let array = Spread::<u64>::new(64, 4, 2);
/// let place = array.block(6);
/// assert_eq!((place.proc(), place.offset()), (2, 64 + 1 * 2 * 8), "the second block of processor 2");
/// assert_eq!(array.at(13), place.add(1));
/// assert_eq!(array.add(1).block(5), array.block(6), "a spread pointer walks over the processors");
/// ```
pub struct Spread<T> {
    offset: u64,
    procs: u32,
    block: u64,
    /// Blocks to skip.
    skip: u64,
    what: PhantomData<fn() -> T>,
}

impl<T> Global<T> {
    /// The place `offset` bytes into a processor's heap. Whether there is anything is found out when it is used.
    pub const fn new(proc: u32, offset: u64) -> Global<T> {
        Global { proc, offset, what: PhantomData }
    }

    /// The processor it points to.
    pub const fn proc(self) -> u32 {
        self.proc
    }

    /// Where in that processor's heap.
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// The place `count` values further on, on the same processor.
    pub const fn add(self, count: u64) -> Global<T> {
        Global::new(self.proc, self.offset.saturating_add(count.saturating_mul(size_of::<T>() as u64)))
    }

    /// The same offset on another processor.
    pub const fn on(self, proc: u32) -> Global<T> {
        Global::new(proc, self.offset)
    }

    /// The same place, for values of another type.
    pub const fn cast<U>(self) -> Global<U> {
        Global::new(self.proc, self.offset)
    }

    /// The pointer as two words, to be stored or told to others.
    pub const fn to_words(self) -> [u64; 2] {
        [self.proc as u64, self.offset]
    }

    /// The pointer in two words; any words are a pointer.
    pub const fn from_words([proc, offset]: [u64; 2]) -> Global<T> {
        let proc = if proc > u32::MAX as u64 { u32::MAX } else { proc as u32 };
        Global::new(proc, offset)
    }
}

impl<T> Spread<T> {
    /// Blocks of `block` values from `offset` on, over `procs` processors.
    pub const fn new(offset: u64, procs: u32, block: u64) -> Spread<T> {
        Spread { offset, procs, block, skip: 0, what: PhantomData }
    }

    /// Where block `i` begins.
    #[inline]
    pub const fn block(self, i: u64) -> Global<T> {
        let i = self.skip.saturating_add(i);
        let (row, procs) = (i / self.procs as u64, self.procs as u64);
        Global::new((i % procs) as u32, self.offset).add(row.saturating_mul(self.block))
    }

    /// Value `i` of the whole array, counted block by block.
    #[inline]
    pub const fn at(self, i: u64) -> Global<T> {
        self.block(i / self.block).add(i % self.block)
    }

    /// The pointer that begins `blocks` blocks further on: on the next processor, for one.
    pub const fn add(self, blocks: u64) -> Spread<T> {
        Spread { skip: self.skip.saturating_add(blocks), ..self }
    }

    /// Values in a block.
    pub const fn block_len(self) -> u64 {
        self.block
    }

    /// Where in every heap the array begins.
    pub const fn offset(self) -> u64 {
        self.offset
    }
}

impl<T> Clone for Global<T> {
    fn clone(&self) -> Global<T> {
        *self
    }
}

impl<T> Copy for Global<T> {}

impl<T> PartialEq for Global<T> {
    fn eq(&self, other: &Global<T>) -> bool {
        (self.proc, self.offset) == (other.proc, other.offset)
    }
}

impl<T> Eq for Global<T> {}

impl<T> fmt::Debug for Global<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Global<{}>({}:{:#x})", std::any::type_name::<T>(), self.proc, self.offset)
    }
}

impl<T> Clone for Spread<T> {
    fn clone(&self) -> Spread<T> {
        *self
    }
}

impl<T> Copy for Spread<T> {}

impl<T> fmt::Debug for Spread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = std::any::type_name::<T>();
        write!(f, "Spread<{name}>({:#x}, blocks of {}, +{})", self.offset, self.block, self.skip)
    }
}
