//! Collectives in which everybody gets something from everybody.

use super::tree::{reduce, scatter};
use super::{Call, Data, Reducer};
use crate::boundary::Scratch;
use barewire::mpi::error::Result;

/// Everybody's data to its place at everybody; a rank's own is in its place already if it has none elsewhere.
///
/// Round the ring: each rank passes on what it received last.
pub(crate) async fn allgather(call: &Call, mine: Option<&Data>, places: &[Data]) -> Result<()> {
    let (rank, size) = (call.rank(), call.size());
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut copied = Ok(());
    for step in 0..size.max(2) - 1 {
        let (gives, takes) = ((rank + size - step) % size, (rank + 2 * size - step - 1) % size);
        let mine = mine.filter(|_| step == 0);
        let mut pending = Vec::with_capacity(2);
        if size > 1 {
            pending.push(call.start_receive(before, &places[takes]));
            pending.push(call.start_send(next, mine.unwrap_or(&places[gives])));
        }
        if let Some(mine) = mine {
            copied = mine.copy_to(&places[rank]);
        }
        call.finish_all(pending).await?;
    }
    copied
}

/// From everybody to everybody its part, all at once, beginning with the neighbours so that nobody is everybody's first.
pub(crate) async fn alltoall(call: &Call, parts: &[Data], places: &[Data]) -> Result<()> {
    let (rank, size) = (call.rank(), call.size());
    let mut pending = Vec::with_capacity(2 * size);
    for step in 1..size {
        let from = (rank + size - step) % size;
        pending.push(call.start_receive(from, &places[from]));
    }
    for step in 1..size {
        let to = (rank + step) % size;
        pending.push(call.start_send(to, &parts[to]));
    }
    // Whatever fails: what has been started ends before this does, for its memory is the program's again then.
    let copied = parts[rank].copy_to(&places[rank]);
    call.finish_all(pending).await.and(copied)
}

/// [`alltoall`] where what comes replaces what goes.
pub(crate) async fn alltoall_in_place(call: &Call, places: &[Data]) -> Result<()> {
    let copies = places.iter().map(Data::packed).collect::<Result<Vec<Scratch>>>()?;
    let packed = |(copy, place): (&Scratch, &Data)| Data::bytes(copy, place.len());
    let parts: Vec<Data> = copies.iter().zip(places).map(packed).collect();
    alltoall(call, &parts, places).await
}

/// Everybody's data combined, each rank getting `counts[rank]` elements of it.
pub(crate) async fn reduce_scatter(
    call: &Call,
    reducer: &Reducer,
    mine: &Data,
    into: &Data,
    counts: &[i64],
) -> Result<()> {
    if reducer.commutes() {
        return reduce_scatter_pairwise(call, reducer, mine, into, counts).await;
    }
    let total = reducer.room(if call.rank() == 0 { mine.count } else { 0 });
    reduce(call, reducer, mine, &total.data, 0).await?;
    let parts = if call.rank() == 0 { parts(&total.data, counts) } else { Vec::new() };
    scatter(call, &parts, Some(into), 0).await
}

/// Each rank gets its part from each other in turn and combines them.
async fn reduce_scatter_pairwise(
    call: &Call,
    reducer: &Reducer,
    mine: &Data,
    into: &Data,
    counts: &[i64],
) -> Result<()> {
    let (rank, size) = (call.rank(), call.size());
    let parts = parts(mine, counts);
    let (total, came) = (reducer.room(counts[rank]), reducer.room(counts[rank]));
    parts[rank].copy_to(&total.data)?;
    for step in 1..size {
        let (to, from) = ((rank + step) % size, (rank + size - step) % size);
        call.exchange(to, &parts[to], from, &came.data).await?;
        reducer.combine(&came.data, &total.data)?;
    }
    total.data.copy_to(into)
}

/// Consecutive parts of so many elements.
pub(crate) fn parts(data: &Data, counts: &[i64]) -> Vec<Data> {
    let mut first = 0;
    let part = |count: &i64| {
        let part = data.part(first, *count);
        first += count;
        part
    };
    counts.iter().map(part).collect()
}
