//! Put, get, and updates of elements in one step each.

use barewire_core::region::{Atomic, Memory, Width};
use zerocopy::IntoBytes;

use super::Window;
use crate::mpi::buffer::zeroed;
use crate::mpi::fault::Error;
use crate::mpi::request::Request;
use crate::spmd::{Phase, Plain};

/// Integers that memory can add to by itself.
///
/// ```
/// use barewire::mpi::{self, Integer};
/// fn count<T: Integer>(window: &mpi::Window<T>, one: T) -> Result<(), mpi::Error> {
///     window.add(0, 0, &[one])
/// }
/// mpi::launch(&[2], |comm| {
///     let window = comm.window::<i32>(1)?;
///     count(&window, 1)?;
///     window.fence()?;
///     assert!(comm.rank() > 0 || window.local().to_vec()? == [2]);
///     window.free()
/// }).unwrap();
/// ```
pub trait Integer: Plain {
    #[doc(hidden)]
    fn bits(self) -> u64;
}

macro_rules! integers {
    ($($type:ty)*) => { $(impl Integer for $type { fn bits(self) -> u64 { self as u64 } })* };
}

integers! { i32 u32 i64 u64 }

impl<T: Plain> Window<T> {
    /// Puts values into a rank's elements from `at` on. They are in place after the next call that says so; see [`Window`].
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u32>(8)?;
    ///     window.put(1 - comm.rank(), 2, &[5, 6])?;
    ///     window.fence()?;
    ///     assert_eq!(window.local().to_vec()?, [0, 0, 5, 6, 0, 0, 0, 0]);
    ///     window.free()
    /// }).unwrap();
    /// ```
    #[inline]
    pub fn put(&self, rank: u32, at: usize, values: &[T]) -> Result<(), Error> {
        let place = self.place(rank, at, values.len())?;
        Ok(self.engine().with(|world| world.put(&self.blocks, rank, place, values.as_bytes()))??)
    }

    /// Gets a rank's elements from `at` on, and waits for them.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u32>(1)?;
    ///     window.local().write(0, &[10 + comm.rank()])?;
    ///     window.fence()?;
    ///     let mut theirs = [0];
    ///     window.get(1 - comm.rank(), 0, &mut theirs)?;
    ///     assert_eq!(theirs, [11 - comm.rank()]);
    ///     window.free()
    /// }).unwrap();
    /// ```
    #[inline]
    pub fn get(&self, rank: u32, at: usize, into: &mut [T]) -> Result<(), Error> {
        let place = self.place(rank, at, into.len())?;
        Ok(self.engine().with(|world| world.get(&self.blocks, rank, place, into.as_mut_bytes()))??)
    }

    /// Starts to put values into a rank's elements; the request ends when they are in place.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u32>(1)?;
    ///     window.rput(1 - comm.rank(), 0, &[7])?.wait()?;
    ///     comm.barrier()?;
    ///     assert_eq!(window.local().to_vec()?, [7]);
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn rput(&self, rank: u32, at: usize, values: &[T]) -> Result<Request<()>, Error> {
        let place = self.place(rank, at, values.len())?;
        let (engine, phase) = (self.engine(), Phase::default());
        let now = engine.with(|world| {
            if world.put_now(&self.blocks, rank, place, values.as_bytes())? {
                return Ok(true);
            }
            world.put_afar(self.blocks.key(rank)?, place, values.as_bytes(), Some(&phase))?;
            Ok::<_, Error>(false)
        })??;
        Ok(if now { Request::ended(engine, Ok(())) } else { Request::region(engine, phase, || ()) })
    }

    /// Starts to get `len` of a rank's elements; they come with the request's end.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u32>(4)?;
    ///     window.local().write(0, &[1, 2, 3, 4])?;
    ///     window.fence()?;
    ///     let (first, last) = (window.rget(1 - comm.rank(), 0, 2)?, window.rget(1 - comm.rank(), 2, 2)?);
    ///     assert_eq!((last.wait()?, first.wait()?), (vec![3, 4], vec![1, 2]));
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn rget(&self, rank: u32, at: usize, len: usize) -> Result<Request<Vec<T>>, Error> {
        let place = self.place(rank, at, len)?;
        let (engine, phase, mut values) = (self.engine(), Phase::default(), zeroed::<T>(len)?);
        let landing = engine.with(|world| {
            if world.get_now(&self.blocks, rank, place, values.as_mut_bytes())? {
                return Ok(None);
            }
            let bytes = size_of_val(values.as_slice());
            let landing = Memory::private(bytes);
            world.get_afar(self.blocks.key(rank)?, place, (&landing, 0), bytes as u64, Some(&phase))?;
            Ok::<_, Error>(Some(landing))
        })??;
        Ok(match landing {
            None => Request::ended(engine, Ok(values)),
            Some(landing) => Request::region(engine, phase, move || {
                let read = landing.read(0, values.as_mut_bytes());
                debug_assert!(read, "the place where it lands is as long as the values");
                values
            }),
        })
    }

    /// Combines values into a rank's elements, each in one step: none is lost, whoever else updates them at the same time. `combine` gets what is
    /// there on its left. Elements have 4 or 8 bytes.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[4], |comm| {
    ///     let window = comm.window::<f64>(1)?;
    ///     window.accumulate(0, 0, &[f64::from(comm.rank())], f64::max)?;
    ///     window.fence()?;
    ///     assert!(comm.rank() > 0 || window.local().to_vec()? == [3.0]);
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn accumulate(
        &self,
        rank: u32,
        at: usize,
        values: &[T],
        combine: impl Fn(T, T) -> T,
    ) -> Result<(), Error> {
        self.update(rank, at, values, combine, |_, _| {})
    }

    /// [`Window::accumulate`] that gives the elements as they were before.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[1], |comm| {
    ///     let window = comm.window::<u64>(2)?;
    ///     let mut before = [9; 2];
    ///     window.get_accumulate(0, 0, &[5, 6], &mut before, |a, b| a + b)?;
    ///     assert_eq!((before, window.local().to_vec()?), ([0; 2], vec![5, 6]));
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn get_accumulate(
        &self,
        rank: u32,
        at: usize,
        values: &[T],
        before: &mut [T],
        combine: impl Fn(T, T) -> T,
    ) -> Result<(), Error> {
        if before.len() != values.len() {
            let (expected, got) = (values.len(), before.len());
            return Err(Error::Length { what: "elements as they were", expected, got });
        }
        self.update(rank, at, values, combine, |at, old| before[at] = old)
    }

    /// Combines a value into one element in one step, and gives what it was before.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let window = comm.window::<u32>(1)?;
    ///     let ticket = window.fetch_and(0, 0, 1, |a, b| a + b)?;
    ///     let mut all = [0; 3];
    ///     comm.all_gather(&[ticket], &mut all)?;
    ///     all.sort();
    ///     assert_eq!(all, [0, 1, 2]);
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn fetch_and(&self, rank: u32, at: usize, value: T, combine: impl Fn(T, T) -> T) -> Result<T, Error> {
        let mut before = value;
        self.update(rank, at, &[value], combine, |_, old| before = old)?;
        Ok(before)
    }

    /// Replaces one element by `new` if it is `expected`, bit by bit, and gives what it was.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[1], |comm| {
    ///     let window = comm.window::<i64>(1)?;
    ///     assert_eq!(window.compare_and_swap(0, 0, 0, -5)?, 0);
    ///     assert_eq!(window.compare_and_swap(0, 0, 0, 7)?, -5, "it was not zero");
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn compare_and_swap(&self, rank: u32, at: usize, expected: T, new: T) -> Result<T, Error> {
        let place = self.place(rank, at, 1)?;
        let swap = Atomic::CompareSwap { expected: bits(&expected), new: bits(&new) };
        self.atomic(rank, place, swap).map(from_bits)
    }

    fn update(
        &self,
        rank: u32,
        at: usize,
        values: &[T],
        combine: impl Fn(T, T) -> T,
        mut tell: impl FnMut(usize, T),
    ) -> Result<(), Error> {
        let start = self.place(rank, at, values.len())?;
        for (n, &value) in values.iter().enumerate() {
            let place = start + (n * size_of::<T>()) as u64;
            let mut old = self.atomic(rank, place, Atomic::Add(0))?;
            loop {
                // Nobody holds anything here: it is the program's.
                let new = bits(&combine(from_bits(old), value));
                let found = self.atomic(rank, place, Atomic::CompareSwap { expected: old, new })?;
                if found == old {
                    break;
                }
                old = found;
            }
            tell(n, from_bits(old));
        }
        Ok(())
    }

    #[inline]
    fn atomic(&self, rank: u32, place: u64, what: Atomic) -> Result<u64, Error> {
        let width = width::<T>()?;
        Ok(self.engine().with(|world| world.atomic(&self.blocks, rank, place, width, what))??)
    }
}

impl<T: Integer> Window<T> {
    /// Adds integers to a rank's elements, wrapping around: [`Window::accumulate`] without a way there and back for each. They are added after the
    /// next call that says so.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let window = comm.window::<u64>(2)?;
    ///     window.add(0, 0, &[1, 10])?;
    ///     window.fence()?;
    ///     assert!(comm.rank() > 0 || window.local().to_vec()? == [3, 30]);
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn add(&self, rank: u32, at: usize, values: &[T]) -> Result<(), Error> {
        let (start, width) = (self.place(rank, at, values.len())?, width::<T>()?);
        for (n, &value) in values.iter().enumerate() {
            let place = start + (n * size_of::<T>()) as u64;
            let add = Atomic::Add(value.bits());
            self.engine().with(|world| world.atomic_start(&self.blocks, rank, place, width, add))??;
        }
        Ok(())
    }
}

fn width<T>() -> Result<Width, Error> {
    match size_of::<T>() {
        4 => Ok(Width::U32),
        8 => Ok(Width::U64),
        bytes => Err(Error::NotAWord { bytes }),
    }
}

/// The bits of an element of 4 or 8 bytes.
fn bits<T: Plain>(value: &T) -> u64 {
    match *value.as_bytes() {
        [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// The element of 4 or 8 bytes with these bits.
fn from_bits<T: Plain>(bits: u64) -> T {
    let narrow = (bits as u32).to_ne_bytes();
    let value = T::read_from_bytes(&bits.to_ne_bytes()).or_else(|_| T::read_from_bytes(&narrow));
    value.unwrap_or_else(|_| T::new_zeroed())
}
