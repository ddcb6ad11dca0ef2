//! What all processors do together: barrier, reduction, broadcast, gathering.

use super::{Error, Plain, SplitC};

impl SplitC {
    /// Returns when all processors have called it. Does not wait for gets, puts and stores.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// let arrived = AtomicU32::new(0);
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// arrived.fetch_add(1, Ordering::SeqCst);
    /// sc.barrier()?;
    /// assert_eq!(arrived.load(Ordering::SeqCst), 3);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn barrier(&self) -> Result<(), Error> {
        let world = &mut self.inner.borrow_mut().world;
        let all = world.all();
        world.barrier(all)
    }

    /// Combines everybody's values, place by place; all get the result. The order depends on the processors' numbers alone.
    ///
    /// # Panics
    /// If `combine` uses this processor again: it is in the middle of this.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::SplitC};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 4096).unwrap();
    /// let mut hits_and_longest = [3.0, 0.5];
    /// sc.all_reduce(&mut hits_and_longest, |a, b| a + b).unwrap();
    /// ```
    pub fn all_reduce<T: Plain>(&self, values: &mut [T], combine: impl Fn(T, T) -> T) -> Result<(), Error> {
        let world = &mut self.inner.borrow_mut().world;
        let all = world.all();
        world.reduce(all, values, combine)
    }

    /// What processor `root` has in `values` is in everybody's.
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// let mut parameters = if me == 2 { [640, 480] } else { [0; 2] };
    /// sc.all_bcast(2, &mut parameters)?;
    /// assert_eq!(parameters, [640, 480]);
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn all_bcast<T: Plain>(&self, root: u32, values: &mut [T]) -> Result<(), Error> {
        let world = &mut self.inner.borrow_mut().world;
        let all = world.all();
        world.broadcast(all, root, values)
    }

    /// Everybody's value, in the order of processors.
    ///
    /// ```
    /// # use barewire::{spmd, splitc::*};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let sc = SplitC::new(endpoint, 1 << 16)?;
    /// # let me = sc.my_proc();
    /// let counts = sc.all_gather(10 * me)?;
    /// let before_mine: u32 = counts[..me as usize].iter().sum();
    /// assert_eq!((counts, before_mine), (vec![0, 10, 20], [0, 0, 10][me as usize]));
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn all_gather<T: Plain>(&self, value: T) -> Result<Vec<T>, Error> {
        let world = &mut self.inner.borrow_mut().world;
        let all = world.all();
        let parts = world.gather_all(all, value.as_bytes())?;
        let read =
            |part: Vec<u8>| T::read_from_bytes(&part).map_err(|_| Error::Mismatch("not one value each"));
        parts.into_iter().map(read).collect()
    }
}
