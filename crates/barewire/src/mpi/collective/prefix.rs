//! Reductions of which every rank gets something else: a part of the result, or that of the ranks up to its own.

use super::{Call, check_len, fold, fold_left};
use crate::mpi::comm::Comm;
use crate::mpi::fault::Error;
use crate::spmd::Plain;

impl Comm {
    /// Combines everybody's `values`, place by place, and gives each rank its part of the result: the first `counts[0]` to rank 0, and so on.
    /// `counts` is the same everywhere.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let part = comm.reduce_scatter(&[1, 2, 3], &[1, 2], |a, b| a + b)?;
    ///     assert_eq!(part, if comm.rank() == 0 { vec![2] } else { vec![4, 6] });
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn reduce_scatter<T: Plain>(
        &self,
        values: &[T],
        counts: &[usize],
        combine: impl Fn(T, T) -> T,
    ) -> Result<Vec<T>, Error> {
        check_len("counts of a reduce_scatter", counts.len(), self.size() as usize)?;
        check_len("values of a reduce_scatter", values.len(), counts.iter().sum())?;
        self.collect(|call| async move { reduce_scatter(&call, values, counts, &combine).await })
    }

    /// [`Comm::reduce_scatter`] with parts of equal length, this rank's into `part`.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let mut part = [0];
    ///     comm.reduce_scatter_block(&[1, 2], &mut part, |a, b| a + b)?;
    ///     assert_eq!(part, [2 * (comm.rank() + 1)]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn reduce_scatter_block<T: Plain>(
        &self,
        values: &[T],
        part: &mut [T],
        combine: impl Fn(T, T) -> T,
    ) -> Result<(), Error> {
        let size = self.size() as usize;
        check_len("values of a reduce_scatter_block", values.len(), part.len() * size)?;
        part.copy_from_slice(&self.reduce_scatter(values, &vec![part.len(); size], combine)?);
        Ok(())
    }

    /// Combines the `values` of all ranks up to and with this one, place by place.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let mut sums = [1, comm.rank()];
    ///     comm.scan(&mut sums, |a, b| a + b)?;
    ///     assert_eq!(sums, [comm.rank() + 1, (0..=comm.rank()).sum()]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn scan<T: Plain>(&self, values: &mut [T], combine: impl Fn(T, T) -> T) -> Result<(), Error> {
        self.collect(|call| async move { scan(&call, values, &combine).await.map(|_| ()) })
    }

    /// Combines the `values` of all ranks before this one, place by place; at rank 0 each becomes `nothing`.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let mut before = [10];
    ///     comm.exclusive_scan(&mut before, 0, |a, b| a + b)?;
    ///     assert_eq!(before, [10 * comm.rank()]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn exclusive_scan<T: Plain>(
        &self,
        values: &mut [T],
        nothing: T,
        combine: impl Fn(T, T) -> T,
    ) -> Result<(), Error> {
        self.collect(|call| async move {
            match scan(&call, values, &combine).await? {
                Some(before) => values.copy_from_slice(&before),
                None => values.fill(nothing),
            }
            Ok(())
        })
    }
}

/// Everybody sends each its part, and combines what comes for its own in the order of the ranks.
pub(super) async fn reduce_scatter<T: Plain>(
    call: &Call,
    values: &[T],
    counts: &[usize],
    combine: &impl Fn(T, T) -> T,
) -> Result<Vec<T>, Error> {
    let (rank, size) = (call.rank, call.size());
    let start = |part: usize| counts[..part].iter().sum::<usize>();
    let part = |part: usize| &values[start(part)..start(part + 1)];
    let mut parts = vec![Vec::new(); size];
    parts[rank] = part(rank).to_vec();
    for distance in 1..size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        parts[from] = call.swap(to, part(to), from, counts[rank]).await?;
    }
    let mut parts = parts.into_iter();
    let mut total = parts.next().unwrap_or_default();
    parts.for_each(|next| fold(&mut total, &next, combine));
    Ok(total)
}

/// In each round everybody hears from the one twice as far before it as in the round before. Gives what the ranks before this one come to;
/// `None` if there are none.
async fn scan<T: Plain>(
    call: &Call,
    values: &mut [T],
    combine: &impl Fn(T, T) -> T,
) -> Result<Option<Vec<T>>, Error> {
    let (rank, size) = (call.rank, call.size());
    let mut before: Option<Vec<T>> = None;
    let mut distance = 1;
    while distance < size {
        let sent = (rank + distance < size).then(|| call.start_send(rank + distance, values)).transpose()?;
        if let Some(from) = rank.checked_sub(distance) {
            let came = call.receive(from, values.len()).await?;
            fold_left(&came, values, combine);
            match &mut before {
                Some(before) => fold_left(&came, before, combine),
                None => before = Some(came),
            }
        }
        if let Some(sent) = sent {
            call.end(sent).await?;
        }
        distance *= 2;
    }
    Ok(before)
}
