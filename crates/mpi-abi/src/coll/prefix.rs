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
    // The combination of the ranks in a row that have been heard of, this one among them.
    let (row, came) = (reducer.room(into.count), reducer.room(into.count));
    into.copy_to(&row.data)?;
    let mut filled = inclusive;
    let mut step = 1;
    while step < size {
        let partner = rank ^ step;
        if partner < size {
            call.exchange(partner, &row.data, partner, &came.data).await?;
            if partner < rank {
                if filled {
                    reducer.combine(&came.data, into)?;
                } else {
                    came.data.copy_to(into)?;
                    filled = true;
                }
                reducer.combine(&came.data, &row.data)?;
            } else {
                reducer.combine(&row.data, &came.data)?;
                came.data.copy_to(&row.data)?;
            }
        }
        step *= 2;
    }
    Ok(())
}
