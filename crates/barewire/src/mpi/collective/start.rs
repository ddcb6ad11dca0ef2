//! Collective calls that do not wait: the same steps over vectors of their own, as requests.

use super::check_len;
use super::exchange::{all_gather, all_to_all, gather, room, scatter};
use super::tree::{all_reduce, barrier, broadcast, reduce};
use crate::mpi::buffer::zeroed;
use crate::mpi::comm::Comm;
use crate::mpi::fault::Error;
use crate::mpi::request::Request;
use crate::spmd::Plain;

impl Comm {
    /// Starts a [`Comm::barrier`].
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let barrier = comm.ibarrier()?;
    ///     // Something that needs nobody.
    ///     barrier.wait()
    /// }).unwrap();
    /// ```
    pub fn ibarrier(&self) -> Result<Request<()>, Error> {
        self.start(|call| async move { barrier(&call).await })
    }

    /// Starts a [`Comm::broadcast`] of the root's values; everybody's has the same length.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let mine = if comm.rank() == 1 { vec![5, 6] } else { vec![0; 2] };
    ///     assert_eq!(comm.ibroadcast(mine, 1)?.wait()?, [5, 6]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn ibroadcast<T: Plain>(&self, mut values: Vec<T>, root: u32) -> Result<Request<Vec<T>>, Error> {
        let root = self.root(root)?;
        self.start(|call| async move {
            broadcast(&call, &mut values, root).await?;
            Ok(values)
        })
    }

    /// Starts a [`Comm::reduce`]: the root gets the result, the others their values back.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let sums = comm.ireduce(vec![1, 2], 0, |a, b| a + b)?.wait()?;
    ///     assert_eq!(sums, if comm.rank() == 0 { [3, 6] } else { [1, 2] });
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn ireduce<T: Plain>(
        &self,
        mut values: Vec<T>,
        root: u32,
        combine: impl Fn(T, T) -> T + 'static,
    ) -> Result<Request<Vec<T>>, Error> {
        let root = self.root(root)?;
        self.start(|call| async move {
            reduce(&call, &mut values, root, &combine).await?;
            Ok(values)
        })
    }

    /// Starts a [`Comm::all_reduce`].
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let norm = comm.iall_reduce(vec![0.5], |a, b| a + b)?;
    ///     // Something that does not need the norm.
    ///     assert_eq!(norm.wait()?, [1.5]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn iall_reduce<T: Plain>(
        &self,
        mut values: Vec<T>,
        combine: impl Fn(T, T) -> T + 'static,
    ) -> Result<Request<Vec<T>>, Error> {
        self.start(|call| async move {
            all_reduce(&call, &mut values, &combine).await?;
            Ok(values)
        })
    }

    /// Starts a [`Comm::gather`]: the root gets everybody's values, the others nothing.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let all = comm.igather(vec![comm.rank()], 2)?.wait()?;
    ///     assert_eq!(all, if comm.rank() == 2 { vec![0, 1, 2] } else { vec![] });
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn igather<T: Plain>(&self, mine: Vec<T>, root: u32) -> Result<Request<Vec<T>>, Error> {
        let (root, size) = (self.root(root)?, self.size() as usize);
        let mut all = if self.rank() as usize == root { room(mine.len(), size)? } else { Vec::new() };
        self.start(|call| async move {
            gather(&call, &mine, &mut all, &vec![mine.len(); size], root).await?;
            Ok(all)
        })
    }

    /// Starts a [`Comm::scatter`] of the root's values, of which everybody gets `len`.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let all = if comm.rank() == 0 { vec![7, 8, 9] } else { vec![] };
    ///     assert_eq!(comm.iscatter(all, 1, 0)?.wait()?, [7 + comm.rank()]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn iscatter<T: Plain>(&self, all: Vec<T>, len: usize, root: u32) -> Result<Request<Vec<T>>, Error> {
        let (root, size) = (self.root(root)?, self.size() as usize);
        if self.rank() as usize == root {
            check_len("values scattered", all.len(), len.saturating_mul(size))?;
        }
        let mut mine = zeroed(len)?;
        self.start(|call| async move {
            scatter(&call, &all, &vec![len; size], &mut mine, root).await?;
            Ok(mine)
        })
    }

    /// Starts a [`Comm::all_gather`].
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     assert_eq!(comm.iall_gather(vec![comm.rank()])?.wait()?, [0, 1, 2]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn iall_gather<T: Plain>(&self, mine: Vec<T>) -> Result<Request<Vec<T>>, Error> {
        let mut all = room(mine.len(), self.size() as usize)?;
        self.start(|call| async move {
            all_gather(&call, &mine, &mut all).await?;
            Ok(all)
        })
    }

    /// Starts a [`Comm::all_to_all`].
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let theirs = comm.iall_to_all(vec![10 * comm.rank(), 10 * comm.rank() + 1])?.wait()?;
    ///     assert_eq!(theirs, [comm.rank(), 10 + comm.rank()]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn iall_to_all<T: Plain>(&self, mine: Vec<T>) -> Result<Request<Vec<T>>, Error> {
        let (size, part) = (self.size() as usize, mine.len() / self.size() as usize);
        check_len("values of an all_to_all, a part for each rank", mine.len(), part * size)?;
        let mut theirs = zeroed(mine.len())?;
        self.start(|call| async move {
            let counts = vec![part; size];
            all_to_all(&call, &mine, &counts, &mut theirs, &counts).await?;
            Ok(theirs)
        })
    }
}
