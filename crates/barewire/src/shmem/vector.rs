//! Waiting for several words, each with a value of its own to be compared with. A word whose value is `None` is left out, like one
//! whose status is not 0 in OpenSHMEM.

use super::wait::NOTHING_TO_WAIT_FOR;
use super::{AtomicWord, Cmp, Error, Shmem, Sym};

impl Shmem {
    /// Waits until one of the elements from `at` on compares so with its own value, and says which.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let steps = shmem.calloc::<u64>(3).unwrap();
    /// shmem.write(steps, 0, &[4, 5, 6]).unwrap();
    /// assert_eq!(shmem.wait_until_any_vector(steps, 0, Cmp::Ge, &[Some(5), Some(5), Some(5)]), Ok(1));
    /// assert_eq!(shmem.wait_until_any_vector(steps, 0, Cmp::Ge, &[Some(5), None, Some(5)]), Ok(2)); // not element 1
    /// ```
    pub fn wait_until_any_vector<T: AtomicWord + PartialOrd>(
        &self,
        words: Sym<T>,
        at: usize,
        cmp: Cmp,
        values: &[Option<T>],
    ) -> Result<usize, Error> {
        let mut which = None;
        self.watch_vector(words, at, values, |read| {
            which = those(read, cmp, values).next();
            which.is_some()
        })?;
        Ok(at + which.unwrap_or(0))
    }

    /// Waits until all of the elements from `at` on have compared so with their own values at the same look. Returns at once if all
    /// are left out.
    ///
    /// ```
    /// # use barewire::{shmem::*, spmd};
    /// # spmd::launch(&[3], |endpoint| {
    /// # let shmem = Shmem::init(endpoint, 1 << 16)?;
    /// # let me = shmem.my_pe();
    /// let from = shmem.calloc::<u32>(3)?;
    /// shmem.p(from, me as usize, 10 * me, 0)?;
    /// shmem.quiet()?;
    /// if me == 0 {
    ///     shmem.wait_until_all_vector(from, 0, Cmp::Eq, &[None, Some(10), Some(20)])?;
    ///     assert_eq!(shmem.read(from, 1, 2)?, [10, 20]);
    /// }
    /// # shmem.barrier_all()?;
    /// # Ok::<_, spmd::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn wait_until_all_vector<T: AtomicWord + PartialOrd>(
        &self,
        words: Sym<T>,
        at: usize,
        cmp: Cmp,
        values: &[Option<T>],
    ) -> Result<(), Error> {
        let wanted = values.iter().flatten().count();
        match self.watch_vector(words, at, values, |read| those(read, cmp, values).count() == wanted) {
            Err(NOTHING_TO_WAIT_FOR) => Ok(()),
            waited => waited,
        }
    }

    /// Waits until at least one of the elements from `at` on compares so with its own value, and says which do.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let steps = shmem.calloc::<i64>(4).unwrap();
    /// shmem.write(steps, 0, &[1, 2, 3, 4]).unwrap();
    /// let wanted = [Some(1), Some(1), None, Some(4)];
    /// assert_eq!(shmem.wait_until_some_vector(steps, 0, Cmp::Eq, &wanted), Ok(vec![0, 3]));
    /// ```
    pub fn wait_until_some_vector<T: AtomicWord + PartialOrd>(
        &self,
        words: Sym<T>,
        at: usize,
        cmp: Cmp,
        values: &[Option<T>],
    ) -> Result<Vec<usize>, Error> {
        let mut which = Vec::new();
        self.watch_vector(words, at, values, |read| {
            which = those(read, cmp, values).map(|i| at + i).collect();
            !which.is_empty()
        })?;
        Ok(which)
    }

    /// Which of the elements from `at` on is the first that compares so with its own value now, if one does.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let steps = shmem.calloc::<u32>(2).unwrap();
    /// assert_eq!(shmem.test_any_vector(steps, 0, Cmp::Eq, &[Some(1), Some(0)]), Ok(Some(1)));
    /// assert_eq!(shmem.test_any_vector(steps, 0, Cmp::Eq, &[Some(1), None]), Ok(None));
    /// ```
    pub fn test_any_vector<T: AtomicWord + PartialOrd>(
        &self,
        words: Sym<T>,
        at: usize,
        cmp: Cmp,
        values: &[Option<T>],
    ) -> Result<Option<usize>, Error> {
        self.look(words, at, values.len(), |read| those(read, cmp, values).next().map(|i| at + i))
    }

    /// Whether all of the elements from `at` on compare so with their own values now. All of none do.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let steps = shmem.calloc::<u32>(2).unwrap();
    /// assert_eq!(shmem.test_all_vector(steps, 0, Cmp::Eq, &[Some(1), Some(0)]), Ok(false));
    /// assert_eq!(shmem.test_all_vector(steps, 0, Cmp::Eq, &[None, Some(0)]), Ok(true));
    /// ```
    pub fn test_all_vector<T: AtomicWord + PartialOrd>(
        &self,
        words: Sym<T>,
        at: usize,
        cmp: Cmp,
        values: &[Option<T>],
    ) -> Result<bool, Error> {
        let wanted = values.iter().flatten().count();
        self.look(words, at, values.len(), |read| those(read, cmp, values).count() == wanted)
    }

    /// Which of the elements from `at` on compare so with their own values now.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, shmem::*};
    /// # let shmem = Shmem::init(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let steps = shmem.calloc::<u32>(3).unwrap();
    /// assert_eq!(shmem.test_some_vector(steps, 0, Cmp::Ne, &[Some(1), Some(0), Some(2)]), Ok(vec![0, 2]));
    /// ```
    pub fn test_some_vector<T: AtomicWord + PartialOrd>(
        &self,
        words: Sym<T>,
        at: usize,
        cmp: Cmp,
        values: &[Option<T>],
    ) -> Result<Vec<usize>, Error> {
        self.look(words, at, values.len(), |read| those(read, cmp, values).map(|i| at + i).collect())
    }

    fn watch_vector<T: AtomicWord>(
        &self,
        words: Sym<T>,
        at: usize,
        values: &[Option<T>],
        done: impl FnMut(&dyn Fn(usize) -> T) -> bool,
    ) -> Result<(), Error> {
        words.place(at, values.len())?;
        if values.iter().flatten().next().is_none() {
            return Err(NOTHING_TO_WAIT_FOR);
        }
        self.watch(words, at, values.len(), done)
    }
}

/// Which words compare so with their own values.
fn those<'a, T: AtomicWord + PartialOrd>(
    read: &'a dyn Fn(usize) -> T,
    cmp: Cmp,
    values: &'a [Option<T>],
) -> impl Iterator<Item = usize> + 'a {
    let wanted = values.iter().enumerate().filter_map(|(i, value)| Some((i, (*value)?)));
    wanted.filter(move |&(i, value)| cmp.holds(read(i), value)).map(|(i, _)| i)
}
