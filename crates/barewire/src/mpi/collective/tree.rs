//! Barrier, broadcast and reductions: along trees, or in rounds that each reach twice as far as the one before.

use super::exchange;
use super::prefix;
use super::{Call, WHOLE_BYTES_MAX, fold, fold_left};
use crate::mpi::comm::Comm;
use crate::mpi::fault::Error;
use crate::spmd::Plain;

impl Comm {
    /// Returns when all ranks have called it.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| comm.barrier()).unwrap();
    /// ```
    pub fn barrier(&self) -> Result<(), Error> {
        self.collect(|call| async move { barrier(&call).await })
    }

    /// What rank `root` has in `values` is in everybody's.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let mut settings = if comm.rank() == 0 { [1.5, 2.5] } else { [0.0; 2] };
    ///     comm.broadcast(&mut settings, 0)?;
    ///     assert_eq!(settings, [1.5, 2.5]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn broadcast<T: Plain>(&self, values: &mut [T], root: u32) -> Result<(), Error> {
        let root = self.root(root)?;
        self.collect(|call| async move { broadcast(&call, values, root).await })
    }

    /// Combines everybody's `values`, place by place, into those of rank `root`; the others' stay as they are. `combine` must be associative, and
    /// gets what lower ranks have on its left.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let mut values = [comm.rank(), 1];
    ///     comm.reduce(&mut values, 2, |a, b| a + b)?;
    ///     assert_eq!(values, if comm.rank() == 2 { [3, 3] } else { [comm.rank(), 1] });
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn reduce<T: Plain>(
        &self,
        values: &mut [T],
        root: u32,
        combine: impl Fn(T, T) -> T,
    ) -> Result<(), Error> {
        let root = self.root(root)?;
        self.collect(|call| async move { reduce(&call, values, root, &combine).await })
    }

    /// Combines everybody's `values`, place by place, into everybody's: the same bits at all of them. `combine` must be associative, and gets
    /// what lower ranks have on its left.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[4], |comm| {
    ///     let mut most_and_least = [comm.rank() as i32, -(comm.rank() as i32)];
    ///     comm.all_reduce(&mut most_and_least, Ord::max)?;
    ///     assert_eq!(most_and_least, [3, 0]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn all_reduce<T: Plain>(&self, values: &mut [T], combine: impl Fn(T, T) -> T) -> Result<(), Error> {
        self.collect(|call| async move { all_reduce(&call, values, &combine).await })
    }
}

/// In each round everybody tells the one twice as far away as in the round before.
pub(super) async fn barrier(call: &Call) -> Result<(), Error> {
    let (rank, size) = (call.rank, call.size());
    let mut distance = 1;
    while distance < size {
        call.swap::<u8>((rank + distance) % size, &[], (rank + size - distance) % size, 0).await?;
        distance *= 2;
    }
    Ok(())
}

/// Down a binomial tree, the furthest branch first.
pub(super) async fn broadcast<T: Plain>(call: &Call, values: &mut [T], root: usize) -> Result<(), Error> {
    let size = call.size();
    // As if the root were rank 0.
    let me = (call.rank + size - root) % size;
    let mut reach = size.next_power_of_two();
    if me != 0 {
        reach = me & me.wrapping_neg();
        let came = call.receive((me - reach + root) % size, values.len()).await?;
        values.copy_from_slice(&came);
    }
    let mut sends = Vec::new();
    while reach > 1 {
        reach /= 2;
        if me + reach < size {
            sends.push(call.start_send((me + reach + root) % size, values)?);
        }
    }
    for send in sends {
        call.end(send).await?;
    }
    Ok(())
}

/// Up a binomial tree that stands at rank 0, whose branches are ranks in a row: what comes is from higher ranks, so it is on the right.
pub(super) async fn reduce<T: Plain>(
    call: &Call,
    values: &mut [T],
    root: usize,
    combine: &impl Fn(T, T) -> T,
) -> Result<(), Error> {
    let (rank, size) = (call.rank, call.size());
    let mut total = values.to_vec();
    let mut distance = 1;
    while distance < size && rank & distance == 0 {
        if rank + distance < size {
            fold(&mut total, &call.receive(rank + distance, values.len()).await?, combine);
        }
        distance *= 2;
    }
    if rank != 0 {
        call.send(rank - distance, &total).await?;
    }
    match (rank == 0, rank == root) {
        (true, true) => values.copy_from_slice(&total),
        (true, false) => call.send(root, &total).await?,
        (false, true) => values.copy_from_slice(&call.receive(0, values.len()).await?),
        (false, false) => {}
    }
    Ok(())
}

/// Few values go whole, in rounds. Of many each rank combines a part, then all parts go to all.
pub(super) async fn all_reduce<T: Plain>(
    call: &Call,
    values: &mut [T],
    combine: &impl Fn(T, T) -> T,
) -> Result<(), Error> {
    let (size, len) = (call.size(), values.len());
    if size_of_val(values) <= WHOLE_BYTES_MAX || len < size {
        return all_reduce_whole(call, values, combine).await;
    }
    let counts: Vec<usize> = (0..size).map(|part| len * (part + 1) / size - len * part / size).collect();
    let part = prefix::reduce_scatter(call, values, &counts, combine).await?;
    exchange::all_gather_varied(call, &part, values, &counts).await
}

async fn all_reduce_whole<T: Plain>(
    call: &Call,
    values: &mut [T],
    combine: &impl Fn(T, T) -> T,
) -> Result<(), Error> {
    let (rank, size, len) = (call.rank, call.size(), values.len());
    let pairs = 1 << size.ilog2();
    let extra = size - pairs;
    // Of the first ranks every second one leaves its values with its neighbour, so that a power of two is left.
    let number = if rank >= 2 * extra {
        rank - extra
    } else if rank % 2 == 0 {
        fold(values, &call.receive(rank + 1, len).await?, combine);
        rank / 2
    } else {
        call.send(rank - 1, values).await?;
        values.copy_from_slice(&call.receive(rank - 1, len).await?);
        return Ok(());
    };
    let real = |number: usize| if number < extra { 2 * number } else { number + extra };
    let mut distance = 1;
    while distance < pairs {
        let partner = real(number ^ distance);
        let theirs = call.swap(partner, values, partner, len).await?;
        match partner < rank {
            true => fold_left(&theirs, values, combine),
            false => fold(values, &theirs, combine),
        }
        distance *= 2;
    }
    if rank < 2 * extra { call.send(rank + 1, values).await } else { Ok(()) }
}
