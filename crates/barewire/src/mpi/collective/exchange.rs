//! Gather, scatter, and exchanges of everybody with everybody.

use super::{Call, check_len};
use crate::mpi::buffer::zeroed;
use crate::mpi::comm::Comm;
use crate::mpi::fault::Error;
use crate::spmd::Plain;

impl Comm {
    /// Everybody's `mine`, which are equally long, in the order of the ranks in `all` of rank `root`. The others may pass an empty `all`.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let mut all = if comm.rank() == 1 { vec![0; 6] } else { vec![] };
    ///     comm.gather(&[comm.rank(), 9], &mut all, 1)?;
    ///     assert!(comm.rank() != 1 || all == [0, 9, 1, 9, 2, 9]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn gather<T: Plain>(&self, mine: &[T], all: &mut [T], root: u32) -> Result<(), Error> {
        let counts = vec![mine.len(); self.size() as usize];
        self.gather_to("values gathered", mine, all, &counts, root)
    }

    /// [`Comm::gather`] with a length for each rank, which the root knows; the others may pass no `counts`.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let mut all = [0; 3];
    ///     comm.gather_varied(&vec![comm.rank(); comm.rank() as usize], &mut all, &[0, 1, 2], 0)?;
    ///     assert!(comm.rank() != 0 || all == [1, 2, 2]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn gather_varied<T: Plain>(
        &self,
        mine: &[T],
        all: &mut [T],
        counts: &[usize],
        root: u32,
    ) -> Result<(), Error> {
        self.gather_to("values gathered", mine, all, counts, root)
    }

    fn gather_to<T: Plain>(
        &self,
        what: &'static str,
        mine: &[T],
        all: &mut [T],
        counts: &[usize],
        root: u32,
    ) -> Result<(), Error> {
        let at = self.root(root)?;
        if self.rank() == root {
            check_parts(what, self, counts, all.len())?;
            check_len(what, mine.len(), counts[at])?;
        }
        self.collect(|call| async move { gather(&call, mine, all, counts, at).await })
    }

    /// Gives each rank its part of what rank `root` has in `all`, equally long, into `mine`. The others may pass an empty `all`.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let all: &[i32] = if comm.rank() == 0 { &[10, 11, 20, 21, 30, 31] } else { &[] };
    ///     let mut mine = [0; 2];
    ///     comm.scatter(all, &mut mine, 0)?;
    ///     assert_eq!(mine[0], 10 * (comm.rank() as i32 + 1));
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn scatter<T: Plain>(&self, all: &[T], mine: &mut [T], root: u32) -> Result<(), Error> {
        let counts = vec![mine.len(); self.size() as usize];
        self.scatter_varied(all, &counts, mine, root)
    }

    /// [`Comm::scatter`] with a length for each rank, which the root knows; the others may pass no `counts`.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let mut mine = vec![0; 1 + comm.rank() as usize];
    ///     comm.scatter_varied(&[7, 8, 9], &[1, 2], &mut mine, 0)?;
    ///     assert_eq!(mine, if comm.rank() == 0 { vec![7] } else { vec![8, 9] });
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn scatter_varied<T: Plain>(
        &self,
        all: &[T],
        counts: &[usize],
        mine: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        let at = self.root(root)?;
        if self.rank() == root {
            check_parts("values scattered", self, counts, all.len())?;
            check_len("values scattered", mine.len(), counts[at])?;
        }
        self.collect(|call| async move { scatter(&call, all, counts, mine, at).await })
    }

    /// Everybody's `mine`, which are equally long, in the order of the ranks in everybody's `all`.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let mut all = [0; 3];
    ///     comm.all_gather(&[comm.rank() * comm.rank()], &mut all)?;
    ///     assert_eq!(all, [0, 1, 4]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn all_gather<T: Plain>(&self, mine: &[T], all: &mut [T]) -> Result<(), Error> {
        check_len("values of an all_gather", all.len(), mine.len() * self.size() as usize)?;
        self.collect(|call| async move { all_gather(&call, mine, all).await })
    }

    /// [`Comm::all_gather`] with a length for each rank; `counts` is the same everywhere.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let mut all = [0; 3];
    ///     comm.all_gather_varied(&vec![comm.rank(); comm.rank() as usize], &mut all, &[0, 1, 2])?;
    ///     assert_eq!(all, [1, 2, 2]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn all_gather_varied<T: Plain>(
        &self,
        mine: &[T],
        all: &mut [T],
        counts: &[usize],
    ) -> Result<(), Error> {
        check_parts("values of an all_gather_varied", self, counts, all.len())?;
        check_len("this rank's values of an all_gather_varied", mine.len(), counts[self.rank() as usize])?;
        self.collect(|call| async move { all_gather_varied(&call, mine, all, counts).await })
    }

    /// Gives part `i` of `mine` to rank `i`, and puts what rank `i` gave to this one into part `i` of `theirs`. All parts are equally long.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let me = comm.rank();
    ///     let mut theirs = [0; 3];
    ///     comm.all_to_all(&[10 * me, 10 * me + 1, 10 * me + 2], &mut theirs)?;
    ///     assert_eq!(theirs, [me, 10 + me, 20 + me]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn all_to_all<T: Plain>(&self, mine: &[T], theirs: &mut [T]) -> Result<(), Error> {
        let (size, part) = (self.size() as usize, mine.len() / self.size() as usize);
        check_len("values of an all_to_all, a part for each rank", mine.len(), part * size)?;
        check_len("values of an all_to_all", theirs.len(), mine.len())?;
        let counts = vec![part; size];
        self.collect(|call| async move { all_to_all(&call, mine, &counts, theirs, &counts).await })
    }

    /// [`Comm::all_to_all`] with a length for each part.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     // Rank 0 gives nothing to itself and two values to rank 1, which gives back one.
    ///     let (mine, gives, takes) = match comm.rank() {
    ///         0 => (vec![5, 6], [0, 2], [0, 1]),
    ///         _ => (vec![7], [1, 0], [2, 0]),
    ///     };
    ///     let mut theirs = vec![0; takes.iter().sum()];
    ///     comm.all_to_all_varied(&mine, &gives, &mut theirs, &takes)?;
    ///     assert_eq!(theirs, if comm.rank() == 0 { vec![7] } else { vec![5, 6] });
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn all_to_all_varied<T: Plain>(
        &self,
        mine: &[T],
        gives: &[usize],
        theirs: &mut [T],
        takes: &[usize],
    ) -> Result<(), Error> {
        check_parts("values given", self, gives, mine.len())?;
        check_parts("values taken", self, takes, theirs.len())?;
        let own = self.rank() as usize;
        check_len("values taken from oneself", takes[own], gives[own])?;
        self.collect(|call| async move { all_to_all(&call, mine, gives, theirs, takes).await })
    }
}

/// Whether there is a count for each rank, and all of them come to so many values.
fn check_parts(what: &'static str, comm: &Comm, counts: &[usize], values: usize) -> Result<(), Error> {
    check_len("counts, one for each rank", counts.len(), comm.size() as usize)?;
    let total = counts.iter().try_fold(0usize, |sum, &count| sum.checked_add(count));
    check_len(what, values, total.unwrap_or(usize::MAX))
}

/// Where the part of a rank is.
fn range(counts: &[usize], rank: usize) -> std::ops::Range<usize> {
    let start = counts[..rank].iter().sum();
    start..start + counts[rank]
}

/// Everybody sends to the root, who asks all of them at once.
pub(super) async fn gather<T: Plain>(
    call: &Call,
    mine: &[T],
    all: &mut [T],
    counts: &[usize],
    root: usize,
) -> Result<(), Error> {
    if call.rank != root {
        return call.send(root, mine).await;
    }
    let others = (0..call.size()).filter(|&rank| rank != root);
    let receives = others.map(|rank| Ok((rank, call.start_receive(rank, counts[rank])?)));
    let receives = receives.collect::<Result<Vec<_>, Error>>()?;
    all[range(counts, root)].copy_from_slice(mine);
    for (rank, receive) in receives {
        all[range(counts, rank)].copy_from_slice(&call.end(receive).await?.0);
    }
    Ok(())
}

/// The root sends everybody its part, to all of them at once.
pub(super) async fn scatter<T: Plain>(
    call: &Call,
    all: &[T],
    counts: &[usize],
    mine: &mut [T],
    root: usize,
) -> Result<(), Error> {
    if call.rank != root {
        mine.copy_from_slice(&call.receive(root, mine.len()).await?);
        return Ok(());
    }
    let others = (0..call.size()).filter(|&rank| rank != root);
    let sends = others.map(|rank| call.start_send(rank, &all[range(counts, rank)]));
    let sends = sends.collect::<Result<Vec<_>, Error>>()?;
    mine.copy_from_slice(&all[range(counts, root)]);
    for send in sends {
        call.end(send).await?;
    }
    Ok(())
}

/// In each round everybody passes on all that it has, twice as much as in the round before.
pub(super) async fn all_gather<T: Plain>(call: &Call, mine: &[T], all: &mut [T]) -> Result<(), Error> {
    let (rank, size, len) = (call.rank, call.size(), mine.len());
    // The parts of this rank, of the next one, and so on.
    let mut have = mine.to_vec();
    let mut distance = 1;
    while distance < size {
        let parts = distance.min(size - distance);
        let (to, from) = ((rank + size - distance) % size, (rank + distance) % size);
        let came = call.swap(to, &have[..parts * len], from, parts * len).await?;
        have.extend(came);
        distance *= 2;
    }
    let (first, last) = all.split_at_mut(rank * len);
    last.copy_from_slice(&have[..last.len()]);
    first.copy_from_slice(&have[last.len()..]);
    Ok(())
}

/// The parts go round in a ring.
pub(super) async fn all_gather_varied<T: Plain>(
    call: &Call,
    mine: &[T],
    all: &mut [T],
    counts: &[usize],
) -> Result<(), Error> {
    let (rank, size) = (call.rank, call.size());
    all[range(counts, rank)].copy_from_slice(mine);
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    for step in 0..size - 1 {
        let (gives, takes) = ((rank + size - step) % size, (rank + 2 * size - step - 1) % size);
        let came = call.swap(next, &all[range(counts, gives)], before, counts[takes]).await?;
        all[range(counts, takes)].copy_from_slice(&came);
    }
    Ok(())
}

/// In each step everybody gives to one rank and takes from one, so that all are busy.
pub(super) async fn all_to_all<T: Plain>(
    call: &Call,
    mine: &[T],
    gives: &[usize],
    theirs: &mut [T],
    takes: &[usize],
) -> Result<(), Error> {
    let (rank, size) = (call.rank, call.size());
    theirs[range(takes, rank)].copy_from_slice(&mine[range(gives, rank)]);
    for distance in 1..size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        let came = call.swap(to, &mine[range(gives, to)], from, takes[from]).await?;
        theirs[range(takes, from)].copy_from_slice(&came);
    }
    Ok(())
}

/// A vector for what all ranks have.
pub(super) fn room<T: Plain>(len: usize, size: usize) -> Result<Vec<T>, Error> {
    zeroed(len.checked_mul(size).ok_or(Error::System("no memory is that long".to_owned()))?)
}
