//! Windows: memory that all ranks of a communicator put into and get from, with no receive call.

mod access;
mod sync;

use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;

use barewire_core::region::{Key, Memory};
use zerocopy::IntoBytes;

use super::comm::Comm;
use super::fault::Error;
use crate::spmd::{Plain, Symmetric};

pub use access::Integer;
pub use sync::{AllLocked, Lock, Locked};

/// Bytes before the elements: the word that says who has locked the window here. The elements begin on a cache line of their own.
const HEAD_BYTES: usize = 64;

/// Elements at every rank that all ranks reach.
///
/// | when it counts | calls |
/// |---|---|
/// | for all ranks at once | [`fence`](Window::fence) before and after |
/// | for some | [`post`](Window::post) and [`wait`](Window::wait) by whose window it is, [`begin`](Window::begin) and [`complete`](Window::complete) by who reaches into it |
/// | for one | [`lock`](Window::lock) until the guard is dropped; [`flush`](Window::flush) in between |
///
/// What is put is in place after the call that ends such a span; [`accumulate`](Window::accumulate) and its kin update element by element, each in
/// one step, so that none is lost however many ranks do it at once.
///
/// ```
/// use barewire::mpi;
/// mpi::launch(&[3], |comm| {
///     let window = comm.window::<f64>(10)?;
///     // Everybody adds to the same element of rank 0, and writes one of its own there.
///     window.accumulate(0, 0, &[0.5], |a, b| a + b)?;
///     window.put(0, 1 + comm.rank() as usize, &[f64::from(comm.rank())])?;
///     window.fence()?;
///     let mut seen = [0.0; 4];
///     window.get(0, 0, &mut seen)?;
///     assert_eq!(seen, [1.5, 0.0, 1.0, 2.0]);
///     window.free()
/// }).unwrap();
/// ```
pub struct Window<T: Plain> {
    /// Of its own, so that what it says does not mix with anything else.
    comm: Comm,
    blocks: Symmetric,
    /// Whom this rank has let in, and into whose windows it reaches, by [`Window::post`] and [`Window::begin`].
    spans: sync::Spans,
    elements: PhantomData<T>,
}

impl<T: Plain> fmt::Debug for Window<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window").field("comm", &self.comm).finish_non_exhaustive()
    }
}

impl Comm {
    /// Makes a window of `len` elements, all zeros, at this rank, and of as many as they say at the others. All call it.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u64>(if comm.rank() == 0 { 100 } else { 0 })?;
    ///     assert_eq!((window.len(0)?, window.len(1)?), (100, 0));
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn window<T: Plain>(&self, len: usize) -> Result<Window<T>, Error> {
        let comm = self.dup()?;
        let bytes = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(HEAD_BYTES));
        let mine = match bytes {
            Some(bytes) => comm.engine().with(|world| world.export(bytes))?.map_err(Error::from),
            None => Err(Error::System(format!("no memory has {len} elements of {} bytes", size_of::<T>()))),
        };
        // Who has none says so, so that the others do not wait for it.
        let told = mine.as_ref().map_or([0; 1 + Key::BYTES], |(_, key)| {
            let mut told = [1; 1 + Key::BYTES];
            told[1..].copy_from_slice(&key.to_bytes());
            told
        });
        let mut all = vec![[0; 1 + Key::BYTES]; comm.size() as usize];
        comm.all_gather(&[told], &mut all)?;
        let (memory, _) = mine?;
        let key = |[has, key @ ..]: [u8; 1 + Key::BYTES]| (has == 1).then(|| Key::from_bytes(key));
        let keys: Option<Vec<Key>> = all.into_iter().map(key).collect();
        let keys =
            keys.ok_or_else(|| Error::System("another rank has no memory for the window".to_owned()))?;
        let blocks = Symmetric::among(memory, keys);
        Ok(Window { comm, blocks, spans: sync::Spans::default(), elements: PhantomData })
    }
}

impl<T: Plain> Window<T> {
    /// How many elements a rank has in it.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u8>(5 + comm.rank() as usize)?;
    ///     assert_eq!(window.len(1)?, 6);
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn len(&self, rank: u32) -> Result<usize, Error> {
        self.comm.peer(rank)?;
        let bytes = (self.blocks.key(rank)?.len as usize).saturating_sub(HEAD_BYTES);
        Ok(bytes.checked_div(size_of::<T>()).unwrap_or(usize::MAX))
    }

    /// Whether a rank has no elements in it.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u8>(comm.rank() as usize)?;
    ///     assert!(window.is_empty(0)? && !window.is_empty(1)?);
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn is_empty(&self, rank: u32) -> Result<bool, Error> {
        self.len(rank).map(|len| len == 0)
    }

    /// This rank's own elements.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u32>(4)?;
    ///     window.local().write(2, &[7, 8])?;
    ///     let mut seen = [0; 2];
    ///     window.local().read(2, &mut seen)?;
    ///     assert_eq!(seen, [7, 8]);
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn local(&self) -> Local<'_, T> {
        Local(self)
    }

    /// Ends the window, when all ranks have got here: everything that they did to it has happened. Dropping it ends it at this rank alone; whoever
    /// reaches into it then gets [`Error::Freed`].
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| comm.window::<f64>(4)?.free()).unwrap();
    /// ```
    pub fn free(self) -> Result<(), Error> {
        self.fence()
    }

    /// Where elements of a rank begin, in bytes, if all of them are there.
    #[inline]
    fn place(&self, rank: u32, at: usize, len: usize) -> Result<u64, Error> {
        let has = self.len(rank)?;
        match at.checked_add(len) {
            Some(end) if end <= has => Ok((HEAD_BYTES + at * size_of::<T>()) as u64),
            _ => Err(Error::OutOfRange { at, len, has }),
        }
    }

    fn memory(&self) -> &Memory {
        self.blocks.local()
    }
}

impl<T: Plain> Drop for Window<T> {
    fn drop(&mut self) {
        // Who has left the job has no window any more.
        let _ = self.comm.engine().with(|world| world.revoke(&self.blocks));
    }
}

/// A rank's own part of a window. Others may write it at any time, so that it is copied and never borrowed.
///
/// ```
/// use barewire::mpi;
/// mpi::launch(&[1], |comm| {
///     let window = comm.window::<u32>(4)?;
///     let local = window.local();
///     local.write(0, &[1, 2, 3, 4])?;
///     assert_eq!(local.to_vec()?, [1, 2, 3, 4]);
///     window.free()
/// }).unwrap();
/// ```
#[derive(Debug)]
pub struct Local<'a, T: Plain>(&'a Window<T>);

impl<T: Plain> Local<'_, T> {
    /// Reads elements from `at` on.
    ///
    /// ```
    /// use barewire::mpi::{self, Error};
    /// mpi::launch(&[1], |comm| {
    ///     let window = comm.window::<u32>(4)?;
    ///     let outside = window.local().read(3, &mut [0; 2]);
    ///     assert_eq!(outside, Err(Error::OutOfRange { at: 3, len: 2, has: 4 }));
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn read(&self, at: usize, into: &mut [T]) -> Result<(), Error> {
        let place = self.0.place(self.0.comm.rank(), at, into.len())?;
        let read = self.0.memory().read(place as usize, into.as_mut_bytes());
        debug_assert!(read, "the place was checked");
        Ok(())
    }

    /// Writes elements from `at` on.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[1], |comm| {
    ///     let window = comm.window::<u32>(4)?;
    ///     window.local().write(1, &[5])?;
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn write(&self, at: usize, values: &[T]) -> Result<(), Error> {
        let place = self.0.place(self.0.comm.rank(), at, values.len())?;
        let written = self.0.memory().write(place as usize, values.as_bytes());
        debug_assert!(written, "the place was checked");
        Ok(())
    }

    /// All of them.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[1], |comm| {
    ///     let window = comm.window::<i64>(3)?;
    ///     assert_eq!(window.local().to_vec()?, [0; 3]);
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut all = super::buffer::zeroed(self.0.len(self.0.comm.rank())?)?;
        self.read(0, &mut all)?;
        Ok(all)
    }
}

impl<T: Plain> Window<T> {
    fn engine(&self) -> &Rc<super::engine::Engine> {
        self.comm.engine()
    }
}
