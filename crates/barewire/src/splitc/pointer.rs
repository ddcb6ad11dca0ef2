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
    /// No processor has this number.
    const NOWHERE: Global<T> = Global::new(u32::MAX, u64::MAX);

    /// The place `offset` bytes into a processor's heap. Whether there is anything is found out when it is used.
    ///
    /// ```
    /// use barewire::splitc::Global;
    /// let pointer = Global::<u16>::new(2, 100);
    /// assert_eq!((pointer.proc(), pointer.offset()), (2, 100));
    /// ```
    pub const fn new(proc: u32, offset: u64) -> Global<T> {
        Global { proc, offset, what: PhantomData }
    }

    /// The processor it points to.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// assert_eq!(sc.alloc::<u8>(1).unwrap().proc(), sc.my_proc());
    /// ```
    pub const fn proc(self) -> u32 {
        self.proc
    }

    /// Where in that processor's heap.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let (first, second) = (sc.alloc::<u64>(4).unwrap(), sc.alloc::<u64>(4).unwrap());
    /// assert!(second.offset().abs_diff(first.offset()) >= 32); // they do not overlap
    /// ```
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// The place `count` values further on, on the same processor.
    ///
    /// ```
    /// use barewire::splitc::Global;
    /// let row = Global::<u32>::new(1, 64);
    /// assert_eq!(row.add(3), Global::new(1, 64 + 3 * 4));
    /// ```
    pub const fn add(self, count: u64) -> Global<T> {
        Global::new(self.proc, self.offset.saturating_add(count.saturating_mul(size_of::<T>() as u64)))
    }

    /// The same offset on another processor.
    ///
    /// ```
    /// use barewire::splitc::Global;
    /// let mine = Global::<u32>::new(1, 64);
    /// assert_eq!(mine.on(5), Global::new(5, 64));
    /// ```
    pub const fn on(self, proc: u32) -> Global<T> {
        Global::new(proc, self.offset)
    }

    /// The same place, for values of another type.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let word = sc.alloc::<u32>(1).unwrap();
    /// sc.write(word, 0x0101_0101).unwrap();
    /// assert_eq!(sc.read(word.cast::<u8>().add(3)), Ok(1)); // its bytes, one by one
    /// ```
    pub const fn cast<U>(self) -> Global<U> {
        Global::new(self.proc, self.offset)
    }

    /// The pointer as two words, to be stored or told to others.
    ///
    /// ```
    /// use barewire::splitc::Global;
    /// assert_eq!(Global::<f32>::new(3, 1024).to_words(), [3, 1024]);
    /// ```
    pub const fn to_words(self) -> [u64; 2] {
        [self.proc as u64, self.offset]
    }

    /// The pointer in two words; any words are a pointer.
    ///
    /// ```
    /// use barewire::splitc::Global;
    /// let told = [7, 256];
    /// assert_eq!(Global::<f32>::from_words(told), Global::new(7, 256));
    /// ```
    pub const fn from_words([proc, offset]: [u64; 2]) -> Global<T> {
        let proc = if proc > u32::MAX as u64 { u32::MAX } else { proc as u32 };
        Global::new(proc, offset)
    }
}

impl<T> Spread<T> {
    /// Blocks of `block` values from `offset` on, over `procs` processors. Over none, or with blocks of none, it points nowhere: to use such a place is
    /// an error.
    ///
    /// ```
    /// use barewire::splitc::Spread;
    /// let array = Spread::<u8>::new(128, 4, 16);
    /// assert_eq!((array.block(0).proc(), array.block(0).offset()), (0, 128));
    /// ```
    pub const fn new(offset: u64, procs: u32, block: u64) -> Spread<T> {
        Spread { offset, procs, block, skip: 0, what: PhantomData }
    }

    /// Where block `i` begins.
    ///
    /// ```
    /// use barewire::splitc::Spread;
    /// let array = Spread::<u64>::new(0, 2, 4);
    /// assert_eq!((array.block(3).proc(), array.block(3).offset()), (1, 32)); // its second one there
    /// ```
    #[inline]
    pub const fn block(self, i: u64) -> Global<T> {
        let (i, procs) = (self.skip.saturating_add(i), self.procs as u64);
        let Some(row) = i.checked_div(procs) else { return Global::NOWHERE };
        Global::new((i % procs) as u32, self.offset).add(row.saturating_mul(self.block))
    }

    /// Value `i` of the whole array, counted block by block.
    ///
    /// ```
    /// use barewire::splitc::Spread;
    /// let array = Spread::<u64>::new(0, 2, 4);
    /// assert_eq!(array.at(6), array.block(1).add(2));
    /// ```
    #[inline]
    pub const fn at(self, i: u64) -> Global<T> {
        let Some(block) = i.checked_div(self.block) else { return Global::NOWHERE };
        self.block(block).add(i % self.block)
    }

    /// The pointer that begins `blocks` blocks further on: on the next processor, for one.
    ///
    /// ```
    /// use barewire::splitc::Spread;
    /// let array = Spread::<u64>::new(0, 3, 1);
    /// let walked: Vec<u32> = (0..4).map(|i| array.add(i).block(0).proc()).collect();
    /// assert_eq!(walked, [0, 1, 2, 0]);
    /// ```
    pub const fn add(self, blocks: u64) -> Spread<T> {
        Spread { skip: self.skip.saturating_add(blocks), ..self }
    }

    /// Values in a block.
    ///
    /// ```
    /// use barewire::splitc::Spread;
    /// assert_eq!(Spread::<u64>::new(0, 3, 5).block_len(), 5);
    /// ```
    pub const fn block_len(self) -> u64 {
        self.block
    }

    /// Where in every heap the array begins.
    ///
    /// ```
    /// use barewire::splitc::Spread;
    /// let array = Spread::<u64>::new(640, 3, 5);
    /// assert_eq!((array.offset(), array.add(7).offset()), (640, 640)); // walking does not move it
    /// ```
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
