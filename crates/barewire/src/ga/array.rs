//! One array: patches, single elements, one's own block.

use std::marker::PhantomData;
use std::ops::Range;

use barewire_core::region::{Atomic, Memory};
use zerocopy::IntoBytes;

use super::layout::{Layout, Run, volume};
use super::{Counter, Element, Error, Ga, Patch};
use crate::spmd::Symmetric;

/// An array that lies in blocks on all ranks. Clones are the same array.
///
/// ```
/// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
/// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// let a = ga.create::<i32>(&[2, 3]).unwrap();
/// let same = a.clone();
/// a.put(&[0..2, 1..2], &[5, 6]).unwrap();
/// assert_eq!(same.get(&[0..2, 0..3]).unwrap(), [0, 5, 0, 0, 6, 0]);
/// ```
#[derive(Clone, Debug)]
pub struct Array<'a, T> {
    pub(super) ga: &'a Ga,
    pub(super) id: u32,
    pub(super) memory: Symmetric,
    pub(super) layout: Layout,
    what: PhantomData<fn() -> T>,
}

impl<'a, T: Element> Array<'a, T> {
    pub(super) fn new(ga: &'a Ga, id: u32, memory: Symmetric, layout: Layout) -> Array<'a, T> {
        Array { ga, id, memory, layout, what: PhantomData }
    }

    /// Ends the array. All ranks call it. Whoever still uses it, through a clone, gets an error.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let a = ga.create::<i32>(&[4]).unwrap();
    /// let clone = a.clone();
    /// assert_eq!(a.destroy(), Ok(()));
    /// assert_eq!(clone.destroy(), Err(Error::NotAllocated));
    /// ```
    pub fn destroy(self) -> Result<(), Error> {
        self.ga.sync()?;
        let inner = &mut *self.ga.inner.borrow_mut();
        let was = inner.world.hub.layer.close(self.id);
        inner.world.revoke(&self.memory);
        let all = inner.world.all();
        inner.world.barrier(all)?;
        if was { Ok(()) } else { Err(Error::NotAllocated) }
    }

    /// How long it is in each dimension.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let a = ga.create::<f32>(&[5, 7]).unwrap();
    /// assert_eq!(a.dims(), [5, 7]);
    /// ```
    pub fn dims(&self) -> &[usize] {
        self.layout.dims()
    }

    /// The block of a rank, if it has one.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let a = ga.create::<i64>(&[6])?;
    /// assert_eq!(a.distribution(0), Some(vec![0..3]));
    /// assert_eq!(a.distribution(1), Some(vec![3..6]));
    /// assert_eq!(a.distribution(2), None); // there is no such rank
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn distribution(&self, rank: u32) -> Option<Patch> {
        if rank < self.ga.size { self.layout.block(rank) } else { None }
    }

    /// The rank that owns an element.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let a = ga.create::<i64>(&[6])?;
    /// assert_eq!((a.locate(&[2]), a.locate(&[3])), (Ok(0), Ok(1)));
    /// assert!(a.locate(&[6]).is_err());
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn locate(&self, at: &[usize]) -> Result<u32, Error> {
        self.layout.owner(at)
    }

    /// The parts of a patch, each with its owner.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let a = ga.create::<i64>(&[6])?;
    /// assert_eq!(a.locate_region(&[1..5])?, [(0, vec![1..3]), (1, vec![3..5])]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn locate_region(&self, patch: &[Range<usize>]) -> Result<Vec<(u32, Patch)>, Error> {
        self.layout.parts(patch)
    }

    /// The elements of a patch, row by row.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let a = ga.create::<i32>(&[3, 3]).unwrap();
    /// a.set_local(&[1, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap();
    /// assert_eq!(a.get(&[1..3, 0..2]).unwrap(), [4, 5, 7, 8]);
    /// assert!(a.get(&[1..4, 0..2]).is_err()); // there are 3 rows
    /// ```
    pub fn get(&self, patch: &[Range<usize>]) -> Result<Vec<T>, Error> {
        self.layout.check(patch)?;
        let mut elements = vec![T::ZERO; volume(patch)];
        self.get_runs(&self.layout.runs(patch)?, &mut elements)?;
        Ok(elements)
    }

    /// Replaces the elements of a patch, and returns when they are in place.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let a = ga.create::<f64>(&[4])?;
    /// if me == 0 {
    ///     a.put(&[1..4], &[0.1, 0.2, 0.3])?; // some of it is rank 1's
    /// }
    /// ga.sync()?;
    /// assert_eq!(a.local()?, if me == 0 { [0.0, 0.1] } else { [0.2, 0.3] });
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn put(&self, patch: &[Range<usize>], elements: &[T]) -> Result<(), Error> {
        self.put_and_wait(&self.runs(patch, elements.len())?, elements)
    }

    /// Starts to replace the elements of a patch; they are in place after [`Ga::fence`] or [`Ga::sync`]. The slice may be used again at
    /// once.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let a = ga.create::<i32>(&[100]).unwrap();
    /// for at in 0..100 {
    ///     a.nb_put(&[at..at + 1], &[at as i32]).unwrap(); // many at once
    /// }
    /// ga.fence().unwrap();
    /// assert_eq!(a.get(&[97..100]).unwrap(), [97, 98, 99]);
    /// ```
    pub fn nb_put(&self, patch: &[Range<usize>], elements: &[T]) -> Result<(), Error> {
        self.put_runs(&self.runs(patch, elements.len())?, elements)
    }

    /// Adds `factor` times the elements to those of a patch. Exact, whoever else accumulates at the same time. It is done after
    /// [`Ga::sync`], and before anything else that this rank does to the array.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let sums = ga.create::<f64>(&[2])?;
    /// sums.acc(&[0..2], 0.5, &[1.0, f64::from(me)])?; // everybody adds to the same places
    /// ga.sync()?;
    /// assert_eq!(sums.get(&[0..2])?, [1.5, 0.5 * (0.0 + 1.0 + 2.0)]);
    /// # ga.sync()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn acc(&self, patch: &[Range<usize>], factor: T, elements: &[T]) -> Result<(), Error> {
        self.acc_runs(&self.runs(patch, elements.len())?, factor, elements)
    }

    /// Single elements.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::Ga};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let a = ga.create::<i32>(&[10, 10]).unwrap();
    /// let places: [&[usize]; 3] = [&[1, 2], &[9, 9], &[0, 0]];
    /// a.scatter(&places, &[5, 6, 7]).unwrap();
    /// a.scatter_acc(&places, 2, &[1, 1, 1]).unwrap();
    /// assert_eq!(a.gather(&places).unwrap(), [7, 8, 9]);
    /// ```
    pub fn gather(&self, places: &[&[usize]]) -> Result<Vec<T>, Error> {
        let mut elements = vec![T::ZERO; places.len()];
        self.get_runs(&self.single_runs(places, places.len())?, &mut elements)?;
        Ok(elements)
    }

    /// Replaces single elements. If a place is named twice, one of the two is there afterwards.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let a = ga.create::<i64>(&[2, 2]).unwrap();
    /// a.scatter(&[&[0, 1], &[1, 0]], &[8, 9]).unwrap();
    /// assert_eq!(a.get(&[0..2, 0..2]).unwrap(), [0, 8, 9, 0]);
    /// assert!(a.scatter(&[&[0, 1]], &[8, 9]).is_err()); // two elements, one place
    /// ```
    pub fn scatter(&self, places: &[&[usize]], elements: &[T]) -> Result<(), Error> {
        self.put_and_wait(&self.single_runs(places, elements.len())?, elements)
    }

    /// Adds `factor` times the elements to single ones, as [`Array::acc`] does.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let histogram = ga.create::<i32>(&[4]).unwrap();
    /// let places: [&[usize]; 3] = [&[1], &[3], &[1]];
    /// histogram.scatter_acc(&places, 1, &[1, 1, 1]).unwrap();
    /// assert_eq!(histogram.get(&[0..4]).unwrap(), [0, 2, 0, 1]);
    /// ```
    pub fn scatter_acc(&self, places: &[&[usize]], factor: T, elements: &[T]) -> Result<(), Error> {
        self.acc_runs(&self.single_runs(places, elements.len())?, factor, elements)
    }

    /// This rank's own block, row by row, without ghosts; empty if it has none.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let a = ga.create::<i32>(&[4])?;
    /// if me == 0 {
    ///     a.put(&[0..4], &[10, 11, 12, 13])?;
    /// }
    /// ga.sync()?;
    /// assert_eq!(a.local()?, if me == 0 { [10, 11] } else { [12, 13] });
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn local(&self) -> Result<Vec<T>, Error> {
        match self.layout.block(self.ga.me) {
            Some(block) => self.get(&block),
            None => Ok(Vec::new()),
        }
    }

    /// Replaces this rank's own block.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let a = ga.create::<i32>(&[4])?;
    /// a.set_local(&[me as i32; 2])?;
    /// ga.sync()?;
    /// assert_eq!(a.get(&[0..4])?, [0, 0, 1, 1]);
    /// assert!(a.set_local(&[7; 3]).is_err()); // its block has two
    /// # ga.sync()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn set_local(&self, elements: &[T]) -> Result<(), Error> {
        match self.layout.block(self.ga.me) {
            Some(block) => self.put(&block, elements),
            None if elements.is_empty() => Ok(()),
            None => Err(Error::Mismatch("this rank has no block")),
        }
    }

    /// Lets `change` work on a copy of this rank's own block, and puts it back. Not for while others write to it.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::*};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let a = ga.create::<f64>(&[3]).unwrap();
    /// a.set_local(&[1.0, 4.0, 9.0]).unwrap();
    /// a.update_local(|mine| mine.iter_mut().for_each(|x| *x = x.sqrt())).unwrap();
    /// assert_eq!(a.local().unwrap(), [1.0, 2.0, 3.0]);
    /// ```
    pub fn update_local(&self, change: impl FnOnce(&mut [T])) -> Result<(), Error> {
        let mut elements = self.local()?;
        change(&mut elements);
        self.set_local(&elements)
    }

    /// This rank's own block with its ghosts around it, row by row, and how long it is in each dimension.
    ///
    /// ```
    /// # use barewire::{ga::*, spmd};
    /// # spmd::launch(&[2], |endpoint| {
    /// # let ga = Ga::new(endpoint);
    /// # let me = ga.node_id();
    /// let a = ga.create_with::<i32>(&[4], &Blocks::Even, &[1])?;
    /// a.set_local(&[10 * me as i32, 10 * me as i32 + 1])?;
    /// a.update_ghosts()?;
    /// let (mine, dims) = a.local_with_ghosts()?;
    /// assert_eq!((mine, dims), (if me == 0 { vec![11, 0, 1, 10] } else { vec![1, 10, 11, 0] }, vec![4]));
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn local_with_ghosts(&self) -> Result<(Vec<T>, Vec<usize>), Error> {
        self.ga.inner.borrow().world.hub.layer.check(self.id)?;
        let Some(block) = self.layout.block(self.ga.me) else { return Ok((Vec::new(), Vec::new())) };
        let dims: Vec<usize> =
            block.iter().zip(self.layout.ghosts()).map(|(range, ghost)| range.len() + 2 * ghost).collect();
        let mut elements = vec![T::ZERO; dims.iter().product()];
        if !self.memory.local().read(0, elements.as_mut_bytes()) {
            return Err(Error::OUT_OF_RANGE);
        }
        Ok((elements, dims))
    }

    fn runs(&self, patch: &[Range<usize>], elements: usize) -> Result<Vec<Run>, Error> {
        self.layout.check(patch)?;
        if volume(patch) != elements {
            return Err(Error::Mismatch("a patch has as many elements as its ranges say"));
        }
        self.layout.runs(patch)
    }

    fn single_runs(&self, places: &[&[usize]], elements: usize) -> Result<Vec<Run>, Error> {
        if places.len() != elements {
            return Err(Error::Mismatch("there is one element for each place"));
        }
        let run = |(here, at): (usize, &&[usize])| {
            let (rank, there) = self.layout.place(at)?;
            Ok(Run { rank, there, here, len: 1 })
        };
        places.iter().enumerate().map(run).collect()
    }

    fn get_runs(&self, runs: &[Run], elements: &mut [T]) -> Result<(), Error> {
        self.ga.inner.borrow_mut().world.quiet()?;
        // What comes from afar lands here first.
        let mut landing = None;
        let mut landed = Vec::new();
        let started = self.start_gets(runs, elements, &mut landing, &mut landed);
        let ended = self.ga.inner.borrow_mut().world.quiet();
        started.and(ended)?;
        for run in landed {
            let into = elements[run.here..run.here + run.len].as_mut_bytes();
            let read = landing.as_ref().is_some_and(|landing| landing.read(run.here * size_of::<T>(), into));
            debug_assert!(read, "the landing is as long as the elements");
        }
        Ok(())
    }

    /// Gets what is within reach, and starts to get the rest into the landing.
    fn start_gets(
        &self,
        runs: &[Run],
        elements: &mut [T],
        landing: &mut Option<Memory>,
        landed: &mut Vec<Run>,
    ) -> Result<(), Error> {
        let inner = &mut *self.ga.inner.borrow_mut();
        for &run in runs {
            inner.settle(run.rank)?;
            let (there, at) = ((run.there * size_of::<T>()) as u64, (run.here * size_of::<T>()) as u64);
            let into = elements[run.here..run.here + run.len].as_mut_bytes();
            if inner.world.get_now(&self.memory, run.rank, there, into)? {
                continue;
            }
            let bytes = size_of_val(elements);
            let landing = landing.get_or_insert_with(|| Memory::private(bytes));
            let len = (run.len * size_of::<T>()) as u64;
            inner.world.get_afar(self.memory.key(run.rank)?, there, (landing, at), len, None)?;
            landed.push(run);
        }
        Ok(())
    }

    /// Puts, and waits even if that failed in the middle, so that nothing of it is left for later.
    fn put_and_wait(&self, runs: &[Run], elements: &[T]) -> Result<(), Error> {
        let started = self.put_runs(runs, elements);
        let ended = self.ga.inner.borrow_mut().world.quiet();
        started.and(ended)
    }

    fn put_runs(&self, runs: &[Run], elements: &[T]) -> Result<(), Error> {
        let inner = &mut *self.ga.inner.borrow_mut();
        for run in runs {
            inner.settle(run.rank)?;
            let bytes = elements[run.here..run.here + run.len].as_bytes();
            inner.world.put(&self.memory, run.rank, (run.there * size_of::<T>()) as u64, bytes)?;
        }
        Ok(())
    }

    fn acc_runs(&self, runs: &[Run], factor: T, elements: &[T]) -> Result<(), Error> {
        let inner = &mut *self.ga.inner.borrow_mut();
        inner.world.quiet()?;
        for run in runs {
            let bytes = elements[run.here..run.here + run.len].as_bytes();
            let array = (self.id, self.memory.local());
            inner.acc(array, run.rank, run.there * size_of::<T>(), factor, bytes)?;
        }
        Ok(())
    }
}

impl<T: Counter> Array<'_, T> {
    /// Adds to one element and gives its old value. No two ranks get the same.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, ga::Ga};
    /// # let ga = Ga::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let next_task = ga.create::<i64>(&[1]).unwrap();
    /// assert_eq!(next_task.read_inc(&[0], 1), Ok(0));
    /// assert_eq!(next_task.read_inc(&[0], 1), Ok(1));
    /// ```
    pub fn read_inc(&self, at: &[usize], by: T) -> Result<T, Error> {
        let (rank, place) = self.layout.place(at)?;
        let inner = &mut *self.ga.inner.borrow_mut();
        inner.settle(rank)?;
        let offset = (place * size_of::<T>()) as u64;
        let old = inner.world.atomic(&self.memory, rank, offset, T::WIDTH, Atomic::Add(by.to_bits()))?;
        Ok(T::from_bits(old))
    }
}
