//! Scans: each rank gets the combination of those before it, in rounds of doubling reach.

use super::{Call, Data, Reducer};
use barewire::mpi::error::Result;

/// The combination of ranks up to this one; `into` holds this rank's own to begin with.
pub(crate) async fn scan(call: &Call, reducer: &Reducer, into: &Data) -> Result<()> {
    prefix(call, reducer, into, true).await
}

/// The combination of ranks before this one; rank 0 gets nothing, and what it has is left alone.
pub(crate) async fn exscan(call: &Call, reducer: &Reducer, mine: &Data, into: &Data) -> Result<()> {
    if call.rank() > 0 {
        mine.copy_to(into)?;
        return prefix(call, reducer, into, false).await;
    }
    let own = reducer.room(mine.count);
    mine.copy_to(&own.data)?;
    prefix(call, reducer, &own.data, false).await
}

async fn prefix(call: &Call, reducer: &Reducer, into: &Data, inclusive: bool) -> Result<()> {
    let (rank, size) = (call.rank(), call.size());
    let came = reducer.room(into.count);
    // The combination of the ranks in a row that have been heard of, this one among them; nobody asks two ranks twice.
    let row = (size > 2).then(|| reducer.room(into.count));
    let row = row.as_ref().map(|row| &row.data);
    row.map_or(Ok(()), |row| into.copy_to(row))?;
    let mut filled = inclusive;
    let mut step = 1;
    while step < size {
        let (partner, is_last, gives) = (rank ^ step, 2 * step >= size, row.unwrap_or(into));
        step *= 2;
        if partner >= size {
            continue;
        }
        match (partner < rank, is_last) {
            (true, true) => call.receive(partner, &came.data).await?,
            (false, true) => call.send(partner, gives).await?,
            (_, false) => call.exchange(partner, gives, partner, &came.data).await?,
        }
        if partner < rank {
            if filled {
                reducer.combine(&came.data, into)?;
            } else {
                came.data.copy_to(into)?;
                filled = true;
            }
        }
        if let (Some(row), false) = (row, is_last) {
            if partner < rank {
                reducer.combine(&came.data, row)?;
            } else {
                reducer.combine(row, &came.data)?;
                came.data.copy_to(row)?;
            }
        }
    }
    Ok(())
}
