//! Collective calls between two groups: each gets what the other gave.
//!
//! What has to travel far goes between the first ranks of the two groups; the rest is done within each.

use super::{Call, Data, Job, Operation, Root, all, tree};
use crate::boundary::Scratch;
use barewire::mpi::error::{Class, Error, Result};

/// Does a job between the two groups of an intercommunicator.
pub(crate) async fn run(job: &Job, call: &Call) -> Result<()> {
    match job {
        Job::Nothing => Ok(()),
        Job::Barrier => barrier(call).await,
        Job::Bcast(data, root) => bcast(call, data, *root).await,
        Job::Gather(mine, places, root) => match (root, mine) {
            (Root::Me, _) => receive_all(call, places).await,
            (Root::Rank(root), Some(mine)) => call.send(*root, mine).await,
            _ => Ok(()),
        },
        Job::Scatter(parts, mine, root) => match (root, mine) {
            (Root::Me, _) => {
                let sent = parts.iter().enumerate().map(|(to, part)| call.start_send(to, part)).collect();
                call.finish_all(sent).await
            }
            (Root::Rank(root), Some(mine)) => call.receive(*root, mine).await,
            _ => Ok(()),
        },
        Job::Allgather(Some(mine), places) => {
            let parts = vec![mine.clone(); places.len()];
            crosswise(call, &parts, places).await
        }
        Job::Alltoall(Some(parts), places) => crosswise(call, parts, places).await,
        Job::Reduce(op, root) => reduce(call, op, *root).await,
        Job::Allreduce(op) => allreduce(call, op).await,
        Job::ReduceScatter(op, counts) => reduce_scatter(call, op, counts).await,
        Job::Allgather(None, _) | Job::Alltoall(None, _) => {
            Err(Error::new(Class::Buffer, "MPI_IN_PLACE has no meaning between two groups"))
        }
        Job::Scan(_) | Job::Exscan(_) | Job::Near(..) => {
            Err(Error::new(Class::Comm, "the call is not for intercommunicators"))
        }
    }
}

async fn barrier(call: &Call) -> Result<()> {
    let (within, nothing) = (call.within(), Data::none());
    tree::barrier(&within).await?;
    if call.rank() == 0 {
        call.exchange(0, &nothing, 0, &nothing).await?;
    }
    tree::bcast(&within, &nothing, 0).await
}

async fn bcast(call: &Call, data: &Data, root: Root) -> Result<()> {
    match root {
        Root::Me => call.send(0, data).await,
        Root::Neighbour => Ok(()),
        Root::Rank(root) => {
            if call.rank() == 0 {
                call.receive(root, data).await?;
            }
            tree::bcast(&call.within(), data, 0).await
        }
    }
}

async fn receive_all(call: &Call, places: &[Data]) -> Result<()> {
    let received = places.iter().enumerate().map(|(from, place)| call.start_receive(from, place)).collect();
    call.finish_all(received).await
}

/// To everybody of the other group its part.
async fn crosswise(call: &Call, parts: &[Data], places: &[Data]) -> Result<()> {
    let received = places.iter().enumerate().map(|(from, place)| call.start_receive(from, place));
    let mut pending: Vec<_> = received.collect();
    pending.extend(parts.iter().enumerate().map(|(to, part)| call.start_send(to, part)));
    call.finish_all(pending).await
}

async fn reduce(call: &Call, op: &Operation, root: Root) -> Result<()> {
    match root {
        Root::Me => call.receive(0, &op.into).await,
        Root::Neighbour => Ok(()),
        Root::Rank(root) => {
            let total = op.reducer.room(if call.rank() == 0 { op.mine.count } else { 0 });
            tree::reduce(&call.within(), &op.reducer, &op.mine, &total.data, 0).await?;
            if call.rank() == 0 { call.send(root, &total.data).await } else { Ok(()) }
        }
    }
}

async fn allreduce(call: &Call, op: &Operation) -> Result<()> {
    let (within, first) = (call.within(), call.rank() == 0);
    let total = op.reducer.room(if first { op.mine.count } else { 0 });
    tree::reduce(&within, &op.reducer, &op.mine, &total.data, 0).await?;
    if first {
        call.exchange(0, &total.data, 0, &op.into).await?;
    }
    tree::bcast(&within, &op.into, 0).await
}

async fn reduce_scatter(call: &Call, op: &Operation, counts: &[i64]) -> Result<()> {
    let (within, first) = (call.within(), call.rank() == 0);
    let count = if first { op.mine.count } else { 0 };
    let (total, theirs) = (op.reducer.room(count), op.reducer.room(count));
    tree::reduce(&within, &op.reducer, &op.mine, &total.data, 0).await?;
    if first {
        call.exchange(0, &total.data, 0, &theirs.data).await?;
    }
    let parts = if first { all::parts(&theirs.data, counts) } else { Vec::new() };
    tree::scatter(&within, &parts, Some(&op.into), 0).await
}

/// Agrees on one of the numbers the first rank of each group proposes, the same everywhere; also within one group.
pub(crate) async fn agree(call: &Call, proposal: u32) -> Result<u32> {
    let (agreed, theirs) = (Scratch::new(4), Scratch::new(4));
    agreed.memory().bytes_mut(0, 4)?.copy_from_slice(&proposal.to_le_bytes());
    let (data, other) = (Data::bytes(&agreed, 4), Data::bytes(&theirs, 4));
    if let (Some(remote), 0) = (call.comm.remote(), call.rank()) {
        call.exchange(0, &data, 0, &other).await?;
        if remote.members()[0].0 < call.comm.group.members()[0].0 {
            other.copy_to(&data)?;
        }
    }
    tree::bcast(&call.within(), &data, 0).await?;
    let memory = agreed.memory();
    let bytes: [u8; 4] =
        memory.bytes(0, 4)?.try_into().map_err(|_| Error::new(Class::Intern, "four bytes"))?;
    Ok(u32::from_le_bytes(bytes))
}
