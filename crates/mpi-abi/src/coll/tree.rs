//! Collectives along trees: barrier, broadcast, reduction, gather and scatter.

use super::reducer::Room;
use super::{Call, Data, Reducer};
use barewire::mpi::error::Result;

/// Longest reduction that is exchanged whole; longer ones are cut into a part for each rank.
const WHOLE_BYTES_MAX: usize = 16 << 10;

/// Waits for everybody: in each round everybody tells the one twice as far away as in the round before.
pub(crate) async fn barrier(call: &Call) -> Result<()> {
    let (rank, size, nothing) = (call.rank(), call.size(), Data::none());
    let mut step = 1;
    while step < size {
        call.exchange((rank + step) % size, &nothing, (rank + size - step) % size, &nothing).await?;
        step *= 2;
    }
    Ok(())
}

/// The root's data to everybody, along a binomial tree.
pub(crate) async fn bcast(call: &Call, data: &Data, root: usize) -> Result<()> {
    let size = call.size();
    let virtual_rank = (call.rank() + size - root) % size;
    let mut step = 1;
    while step < size && virtual_rank & step == 0 {
        step *= 2;
    }
    if virtual_rank != 0 {
        call.receive((virtual_rank - step + root) % size, data).await?;
    }
    let mut sends = Vec::new();
    while step > 1 {
        step /= 2;
        if virtual_rank + step < size {
            sends.push(call.start_send((virtual_rank + step + root) % size, data));
        }
    }
    call.finish_all(sends).await
}

/// Everybody's data combined at the root, along a binomial tree whose branches are ranks in a row.
///
/// An operation that does not commute needs them in order, so its tree stands at rank 0.
pub(crate) async fn reduce(
    call: &Call,
    reducer: &Reducer,
    mine: &Data,
    into: &Data,
    root: usize,
) -> Result<()> {
    let (size, rank) = (call.size(), call.rank());
    let top = if reducer.commutes() { root } else { 0 };
    let virtual_rank = (rank + size - top) % size;
    if virtual_rank == 0 && rank == root && reducer.is_builtin() {
        return combine_in_place(call, reducer, mine, into).await;
    }
    let (mut total, mut other): (Option<Room>, Option<Room>) = (None, None);
    let mut step = 1;
    while step < size && virtual_rank & step == 0 {
        if virtual_rank + step < size {
            let came = other.take().unwrap_or_else(|| reducer.room(mine.count));
            call.receive((virtual_rank + step + top) % size, &came.data).await?;
            // What came is from higher ranks, so it is the right operand.
            reducer.combine(total.as_ref().map_or(mine, |total| &total.data), &came.data)?;
            other = total.replace(came);
        }
        step *= 2;
    }
    let total = total.as_ref().map_or(mine, |total| &total.data);
    if virtual_rank != 0 {
        call.send((virtual_rank - step + top) % size, total).await?;
    }
    match (rank == top, rank == root) {
        (true, true) => total.copy_to(into),
        (true, false) => call.send(root, total).await,
        (false, true) => call.receive(top, into).await,
        (false, false) => Ok(()),
    }
}

/// The root's part in [`reduce`] where the order of operands makes no difference: what comes is combined where the result goes.
async fn combine_in_place(call: &Call, reducer: &Reducer, mine: &Data, into: &Data) -> Result<()> {
    let (size, rank) = (call.size(), call.rank());
    let (mut is_empty, mut room) = (mine.memory.address() != into.memory.address(), None);
    let mut step = 1;
    while step < size {
        let from = (rank + step) % size;
        if is_empty {
            call.receive(from, into).await?;
            reducer.combine(mine, into)?;
            is_empty = false;
        } else {
            let came = &room.get_or_insert_with(|| reducer.room(mine.count)).data;
            call.receive(from, came).await?;
            reducer.combine(came, into)?;
        }
        step *= 2;
    }
    if is_empty { mine.copy_to(into) } else { Ok(()) }
}

/// Everybody's data combined, for everybody; `into` holds this rank's own to begin with.
pub(crate) async fn allreduce(call: &Call, reducer: &Reducer, into: &Data) -> Result<()> {
    if call.size() == 1 {
        return Ok(());
    }
    if reducer.is_builtin() && into.len() > WHOLE_BYTES_MAX && into.count >= call.size() as i64 {
        return allreduce_by_parts(call, reducer, into).await;
    }
    let (size, rank) = (call.size(), call.rank());
    let room = reducer.room(into.count);
    let pairs = 1 << size.ilog2();
    let extra = size - pairs;
    // Of the first ranks every second one leaves its data with its neighbour, so that a power of two is left.
    let number = if rank < 2 * extra {
        if rank % 2 == 1 {
            call.send(rank - 1, into).await?;
            return call.receive(rank - 1, into).await;
        }
        call.receive(rank + 1, &room.data).await?;
        reducer.combine(into, &room.data)?;
        room.data.copy_to(into)?;
        rank / 2
    } else {
        rank - extra
    };
    let real = |number: usize| if number < extra { 2 * number } else { number + extra };
    let mut step = 1;
    while step < pairs {
        let partner = real(number ^ step);
        call.exchange(partner, into, partner, &room.data).await?;
        if partner < rank || reducer.commutes() {
            reducer.combine(&room.data, into)?;
        } else {
            reducer.combine(into, &room.data)?;
            room.data.copy_to(into)?;
        }
        step *= 2;
    }
    if rank < 2 * extra { call.send(rank + 1, into).await } else { Ok(()) }
}

/// Each rank combines one part of a long vector, then all parts go round: every byte travels only twice.
async fn allreduce_by_parts(call: &Call, reducer: &Reducer, into: &Data) -> Result<()> {
    let (size, rank) = (call.size(), call.rank());
    let bound = |part: usize| into.count * part as i64 / size as i64;
    let part = |part: usize| into.part(bound(part), bound(part + 1) - bound(part));
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let room = reducer.room(into.count / size as i64 + 1);
    for step in 0..size - 1 {
        let (gives, takes) = ((rank + size - step) % size, (rank + 2 * size - step - 1) % size);
        let taken = part(takes);
        let came = room.data.part(0, taken.count);
        call.exchange(next, &part(gives), before, &came).await?;
        reducer.combine(&came, &taken)?;
    }
    for step in 0..size - 1 {
        let (gives, takes) = ((rank + 1 + size - step) % size, (rank + size - step) % size);
        call.exchange(next, &part(gives), before, &part(takes)).await?;
    }
    Ok(())
}

/// Everybody's data to its place at the root; the root's own is none where it is in place already.
pub(crate) async fn gather(call: &Call, mine: Option<&Data>, places: &[Data], root: usize) -> Result<()> {
    if call.rank() != root {
        return match mine {
            Some(mine) => call.send(root, mine).await,
            None => Ok(()),
        };
    }
    let others = (0..call.size()).filter(|rank| *rank != root);
    let pending = others.map(|rank| call.start_receive(rank, &places[rank])).collect::<Vec<_>>();
    let copied = mine.map_or(Ok(()), |mine| mine.copy_to(&places[root]));
    call.finish_all(pending).await.and(copied)
}

/// From the root to everybody its part; the root's own goes nowhere where it is to stay in place.
pub(crate) async fn scatter(call: &Call, parts: &[Data], mine: Option<&Data>, root: usize) -> Result<()> {
    if call.rank() != root {
        return match mine {
            Some(mine) => call.receive(root, mine).await,
            None => Ok(()),
        };
    }
    let others = (0..call.size()).filter(|rank| *rank != root);
    let pending = others.map(|rank| call.start_send(rank, &parts[rank])).collect::<Vec<_>>();
    let copied = mine.map_or(Ok(()), |mine| parts[root].copy_to(mine));
    call.finish_all(pending).await.and(copied)
}
