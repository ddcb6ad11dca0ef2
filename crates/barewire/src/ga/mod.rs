//! Global Arrays: dense arrays that lie in blocks on all ranks and are used as one.
//!
//! Every rank names an element by its place in the whole array, and reads, writes or adds to any patch of it, whoever owns it; the owners
//! need not take part. Where speed matters, a rank asks which block is its own and works on that.
//!
//! | call | |
//! |---|---|
//! | [`Ga::create`], [`Array::destroy`] | all ranks together; blocks, ghost cells |
//! | [`get`](Array::get), [`put`](Array::put), [`acc`](Array::acc) | patches, across owners |
//! | [`gather`](Array::gather), [`scatter`](Array::scatter), [`read_inc`](Array::read_inc) | single elements |
//! | [`distribution`](Array::distribution), [`local`](Array::local), [`set_local`](Array::set_local), [`update_local`](Array::update_local) | one's own block |
//! | [`Ga::sync`] | all that anybody did is done; all ranks together |
//! | [`fill`](Array::fill), [`add`](Array::add), [`dot`](Array::dot), [`matmul`](Array::matmul), [`transpose`](Array::transpose), … | whole arrays; all ranks together |
//!
//! What one rank does to a patch happens in the order in which it does it. What different ranks do is ordered by [`Ga::sync`], but for
//! [`acc`](Array::acc) and [`read_inc`](Array::read_inc), which may be done by all at once: every contribution counts exactly once.
//!
//! ```
//! use barewire::core::{Config, Endpoint, job::Job};
//! use barewire::ga::Ga;
//!
//! let ranks = Job::threads(4).unwrap().into_iter().map(|job| std::thread::spawn(move || {
//!     let ga = Ga::new(Endpoint::open(job, Config::default()).unwrap());
//!     let a = ga.create::<f64>(&[6, 8]).unwrap();
//!     a.fill(1.0).unwrap();
//!     // Everybody adds to a patch that lies on several ranks.
//!     a.acc(&[1..5, 2..6], 0.5, &[1.0; 16]).unwrap();
//!     ga.sync().unwrap();
//!     let row = a.get(&[2..3, 0..8]).unwrap();
//!     assert_eq!(row, [1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 1.0, 1.0]);
//!     ga.sync().unwrap();
//! }));
//! ranks.collect::<Vec<_>>().into_iter().for_each(|rank| rank.join().unwrap());
//! ```
//!
//! A patch that is not in the array, an array that was destroyed, a rank that is gone is an [`Error`].

mod acc;
mod array;
mod layout;
mod whole;

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use barewire_core::{Endpoint, Peer};

pub use crate::spmd::{Error, Plain};
pub use acc::{Counter, Element};
pub use array::Array;
pub use layout::Blocks;

use crate::spmd::World;
use acc::Accs;
use layout::Layout;

/// A patch of an array: the range of indices in each dimension.
type Patch = Vec<Range<usize>>;

/// A rank that has global arrays. `Send`, not `Sync`, like the endpoint.
///
/// ```
/// use barewire::{ga::Ga, spmd};
/// spmd::launch(&[2], |endpoint| {
///     let ga = Ga::new(endpoint);
///     let counts = ga.create::<i64>(&[10])?; // half of it on each rank
///     counts.acc(&[4..6], 1, &[1, 1])?;
///     ga.sync()?;
///     assert_eq!(counts.get(&[3..7])?, [0, 2, 2, 0]);
///     ga.sync()
/// }).unwrap();
/// ```
#[derive(Debug)]
pub struct Ga {
    inner: RefCell<Inner>,
    me: u32,
    size: u32,
}

#[derive(Debug)]
struct Inner {
    world: World<Accs>,
    /// Arrays made so far: the same everywhere, because all make them together.
    made: u32,
}

impl Ga {
    /// Global arrays on the ranks of the endpoint's job.
    ///
    /// ```
    /// use barewire::core::{Config, Endpoint, job::Job};
    /// use barewire::ga::Ga;
    /// let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// assert_eq!((ga.node_id(), ga.n_nodes()), (0, 1));
    /// ```
    pub fn new(endpoint: Endpoint) -> Ga {
        let (me, size) = (endpoint.me().0, endpoint.size());
        let inner = Inner { world: World::new(endpoint, Accs::new(size)), made: 0 };
        Ga { inner: RefCell::new(inner), me, size }
    }

    /// This rank.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let a = ga.create::<i32>(&[4])?;
    /// assert_eq!(a.distribution(ga.node_id()), Some(if me == 0 { vec![0..2] } else { vec![2..4] }));
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn node_id(&self) -> u32 {
        self.me
    }

    /// How many ranks there are.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let mut ones = [1];
    /// ga.gop(&mut ones, |a, b| a + b)?;
    /// assert_eq!(ones, [ga.n_nodes()]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn n_nodes(&self) -> u32 {
        self.size
    }

    /// How long any wait may last before it ends with [`Error::TimedOut`]. `None`, the default: as long as it takes.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// use std::time::Duration;
    /// let a = ga.create::<i32>(&[8])?;
    /// ga.set_timeout(Some(Duration::from_secs(60))); // nobody should be that late
    /// assert_eq!(a.fill(1), Ok(()));
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        self.inner.borrow_mut().world.set_timeout(timeout);
    }

    /// Serves the others, while this rank computes for long. Never waits.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let a = ga.create::<i64>(&[2])?;
    /// if me == 0 {
    ///     a.acc(&[1..2], 1, &[5])?; // rank 1 adds it up
    ///     ga.fence()?;
    /// } else {
    ///     while a.local()? != [5] {
    ///         ga.poll(); // between two steps of a long computation
    ///     }
    /// }
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn poll(&self) {
        self.inner.borrow_mut().world.look();
    }

    /// An array of these dimensions, zeroed, in blocks as equal as they can be. All ranks call it.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let a = ga.create::<f64>(&[100, 3])?;
    /// assert_eq!(a.distribution(1).unwrap(), [50..100, 0..3]); // the longer dimension is cut
    /// assert_eq!(a.get(&[99..100, 0..3])?, [0.0; 3]);
    /// # ga.sync()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn create<T: Element>(&self, dims: &[usize]) -> Result<Array<'_, T>, Error> {
        self.create_with(dims, &Blocks::Even, &vec![0; dims.len()])
    }

    /// An array with blocks as described, and as many ghost cells around each block as `ghosts` says for each dimension. All ranks call
    /// it.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::{Blocks, Ga}};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// // At least 4 rows to a block, whole rows, and a ghost row above and below.
    /// let a = ga.create_with::<f64>(&[100, 100], &Blocks::AtLeast(vec![4, 100]), &[1, 0]).unwrap();
    /// assert_eq!(a.distribution(0).unwrap(), [0..100, 0..100]);
    /// ```
    pub fn create_with<T: Element>(
        &self,
        dims: &[usize],
        blocks: &Blocks,
        ghosts: &[usize],
    ) -> Result<Array<'_, T>, Error> {
        let layout = Layout::new(dims, blocks, ghosts, self.size)?;
        let bytes = layout.local_len(self.me).and_then(|len| len.checked_mul(size_of::<T>()));
        let bytes = bytes.ok_or(Error::HeapFull { bytes: usize::MAX })?;
        let inner = &mut *self.inner.borrow_mut();
        let memory = inner.world.symmetric(bytes)?;
        inner.made += 1;
        inner.world.hub.layer.open(inner.made, memory.local());
        // Nobody uses it before everybody has it.
        let all = inner.world.all();
        inner.world.barrier(all)?;
        Ok(Array::new(self, inner.made, memory, layout))
    }

    /// Returns when all ranks have called it and everything that any of them did to any array is done.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let a = ga.create::<i32>(&[3])?;
    /// a.nb_put(&[(me as usize + 1) % 3..(me as usize + 1) % 3 + 1], &[me as i32])?;
    /// ga.sync()?;
    /// assert_eq!(a.get(&[0..3])?, [2, 0, 1]);
    /// # ga.sync()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn sync(&self) -> Result<(), Error> {
        self.fence()?;
        let world = &mut self.inner.borrow_mut().world;
        let all = world.all();
        world.barrier(all)
    }

    /// Waits until everything this rank did to any array is done.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let a = ga.create::<i32>(&[2])?;
    /// if me == 0 {
    ///     a.acc(&[0..2], 1, &[3, 4])?;
    ///     ga.fence()?; // done, though rank 1 called nothing
    ///     assert_eq!(a.get(&[0..2])?, [3, 4]);
    /// }
    /// ga.sync()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn fence(&self) -> Result<(), Error> {
        let inner = &mut *self.inner.borrow_mut();
        let settled = inner.world.quiet();
        (0..self.size).try_for_each(|rank| inner.settle(rank))?;
        settled?;
        if inner.world.hub.layer.take_refused() {
            return Err(Error::Region(barewire_core::region::RegionError::BadKey));
        }
        Ok(())
    }

    /// Everybody's values combined, place by place, at everybody.
    ///
    /// # Panics
    /// If `combine` uses global arrays: this rank is in the middle of this.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let mut range = [10 * me, me + 1];
    /// ga.gop(&mut range, Ord::max)?;
    /// assert_eq!(range, [20, 3]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn gop<T: Plain>(&self, values: &mut [T], combine: impl Fn(T, T) -> T) -> Result<(), Error> {
        let world = &mut self.inner.borrow_mut().world;
        let all = world.all();
        world.reduce(all, values, combine)
    }

    /// What rank `root` has in `values` is in everybody's.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let mut tolerance = [if me == 1 { 1e-6 } else { 0.0 }];
    /// ga.brdcst(1, &mut tolerance)?;
    /// assert_eq!(tolerance, [1e-6]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn brdcst<T: Plain>(&self, root: u32, values: &mut [T]) -> Result<(), Error> {
        let world = &mut self.inner.borrow_mut().world;
        let all = world.all();
        world.broadcast(all, root, values)
    }
}

impl Inner {
    /// Waits until a rank has applied all accumulations of ours.
    #[inline]
    fn settle(&mut self, rank: u32) -> Result<(), Error> {
        if self.world.hub.layer.unanswered(rank) == 0 {
            return Ok(());
        }
        self.world.watch("accumulations to be applied", Some(Peer(rank)), |accs| accs.unanswered(rank) == 0)
    }
}
