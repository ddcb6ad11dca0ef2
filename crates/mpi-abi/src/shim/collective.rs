//! Collective calls, one function for all forms of each: with counts of either width, blocking, non-blocking and persistent.
//!
//! The build script writes the entry points from the table of functions; it finds these by their names.

use crate::boundary::{List, MPI_Comm, MPI_Datatype, MPI_Op, Memory};
use crate::coll::entry::{self, Even, Mixed, Number, Operands, Shares, Uneven, root as read_root};
use crate::coll::quick;
use crate::coll::{Data, Edges, How, Job};
use crate::fault::Fault;
use crate::world::world;
use barewire::mpi::error::Result;
use std::ffi::c_int;

type Done = Result<(), Fault>;

/// `MPI_Barrier`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn barrier(how: How, comm: MPI_Comm) -> Done {
    let object = world().comm(comm)?;
    if let Some(done) = how.at_once(|| quick::barrier(&object)) {
        return Ok(done?);
    }
    Ok(how.run(comm, Job::Barrier)?)
}

/// `MPI_Bcast`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn bcast<N: Number>(
    how: How,
    buffer: Memory,
    count: N,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let data = Even { memory: buffer, count: count.into(), datatype };
    if let Some(done) = how.at_once(|| quick::bcast(&object, data, root)) {
        return Ok(done?);
    }
    Ok(how.run(comm, entry::bcast(data, read_root(&object, root)?)?)?)
}

/// `MPI_Gather`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn gather<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcount: N,
    sendtype: MPI_Datatype,
    recvbuf: Memory,
    recvcount: N,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let mine = Even { memory: sendbuf, count: sendcount.into(), datatype: sendtype };
    let all = Even { memory: recvbuf, count: recvcount.into(), datatype: recvtype };
    if let Some(done) = how.at_once(|| quick::gather(&object, mine, all, root)) {
        return Ok(done?);
    }
    Ok(how.run(comm, entry::gather(&object, mine, all, read_root(&object, root)?)?)?)
}

/// `MPI_Gatherv`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn gatherv<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcount: N,
    sendtype: MPI_Datatype,
    recvbuf: Memory,
    recvcounts: List<N>,
    displs: List<N>,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let mine = Even { memory: sendbuf, count: sendcount.into(), datatype: sendtype };
    let all = Uneven { memory: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
    Ok(how.run(comm, entry::gather(&object, mine, all, read_root(&object, root)?)?)?)
}

/// `MPI_Scatter`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn scatter<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcount: N,
    sendtype: MPI_Datatype,
    recvbuf: Memory,
    recvcount: N,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let all = Even { memory: sendbuf, count: sendcount.into(), datatype: sendtype };
    let mine = Even { memory: recvbuf, count: recvcount.into(), datatype: recvtype };
    if let Some(done) = how.at_once(|| quick::scatter(&object, all, mine, root)) {
        return Ok(done?);
    }
    Ok(how.run(comm, entry::scatter(&object, all, mine, read_root(&object, root)?)?)?)
}

/// `MPI_Scatterv`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn scatterv<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcounts: List<N>,
    displs: List<N>,
    sendtype: MPI_Datatype,
    recvbuf: Memory,
    recvcount: N,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let all = Uneven { memory: sendbuf, counts: sendcounts, displacements: displs, datatype: sendtype };
    let mine = Even { memory: recvbuf, count: recvcount.into(), datatype: recvtype };
    Ok(how.run(comm, entry::scatter(&object, all, mine, read_root(&object, root)?)?)?)
}

/// `MPI_Allgather`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn allgather<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcount: N,
    sendtype: MPI_Datatype,
    recvbuf: Memory,
    recvcount: N,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let mine = Even { memory: sendbuf, count: sendcount.into(), datatype: sendtype };
    let all = Even { memory: recvbuf, count: recvcount.into(), datatype: recvtype };
    if let Some(done) = how.at_once(|| quick::allgather(&object, mine, all)) {
        return Ok(done?);
    }
    Ok(how.run(comm, entry::allgather(&object, mine, all)?)?)
}

/// `MPI_Allgatherv`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn allgatherv<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcount: N,
    sendtype: MPI_Datatype,
    recvbuf: Memory,
    recvcounts: List<N>,
    displs: List<N>,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let mine = Even { memory: sendbuf, count: sendcount.into(), datatype: sendtype };
    let all = Uneven { memory: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
    Ok(how.run(comm, entry::allgather(&object, mine, all)?)?)
}

/// `MPI_Alltoall`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn alltoall<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcount: N,
    sendtype: MPI_Datatype,
    recvbuf: Memory,
    recvcount: N,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let parts = Even { memory: sendbuf, count: sendcount.into(), datatype: sendtype };
    let places = Even { memory: recvbuf, count: recvcount.into(), datatype: recvtype };
    if let Some(done) = how.at_once(|| quick::alltoall(&object, parts, places)) {
        return Ok(done?);
    }
    Ok(how.run(comm, entry::alltoall(&object, parts, places)?)?)
}

/// `MPI_Alltoallv`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn alltoallv<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcounts: List<N>,
    sdispls: List<N>,
    sendtype: MPI_Datatype,
    recvbuf: Memory,
    recvcounts: List<N>,
    rdispls: List<N>,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let parts = Uneven { memory: sendbuf, counts: sendcounts, displacements: sdispls, datatype: sendtype };
    let places = Uneven { memory: recvbuf, counts: recvcounts, displacements: rdispls, datatype: recvtype };
    Ok(how.run(comm, entry::alltoall(&object, parts, places)?)?)
}

/// `MPI_Alltoallw`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn alltoallw<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcounts: List<N>,
    sdispls: List<N>,
    sendtypes: List<MPI_Datatype>,
    recvbuf: Memory,
    recvcounts: List<N>,
    rdispls: List<N>,
    recvtypes: List<MPI_Datatype>,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let parts = Mixed { memory: sendbuf, counts: sendcounts, displacements: sdispls, datatypes: sendtypes };
    let places = Mixed { memory: recvbuf, counts: recvcounts, displacements: rdispls, datatypes: recvtypes };
    Ok(how.run(comm, entry::alltoall(&object, parts, places)?)?)
}

/// `MPI_Reduce`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn reduce<N: Number>(
    how: How,
    sendbuf: Memory,
    recvbuf: Memory,
    count: N,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let into = Even { memory: recvbuf, count: count.into(), datatype };
    if let Some(done) = how.at_once(|| quick::reduce(&object, sendbuf, into, op, root)) {
        return Ok(done?);
    }
    let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
    Ok(how.run(comm, entry::reduce(&object, operands, count.into(), read_root(&object, root)?)?)?)
}

/// `MPI_Allreduce`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn allreduce<N: Number>(
    how: How,
    sendbuf: Memory,
    recvbuf: Memory,
    count: N,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let into = Even { memory: recvbuf, count: count.into(), datatype };
    if let Some(done) = how.at_once(|| quick::allreduce(&object, sendbuf, into, op)) {
        return Ok(done?);
    }
    let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
    Ok(how.run(comm, entry::allreduce(&object, operands, count.into())?)?)
}

/// `MPI_Reduce_scatter`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn reduce_scatter<N: Number>(
    how: How,
    sendbuf: Memory,
    recvbuf: Memory,
    recvcounts: List<N>,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
    let counts = entry::Numbers::read(recvcounts, object.group.size())?;
    Ok(how.run(comm, entry::reduce_scatter(&object, operands, counts)?)?)
}

/// `MPI_Reduce_scatter_block`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn reduce_scatter_block<N: Number>(
    how: How,
    sendbuf: Memory,
    recvbuf: Memory,
    recvcount: N,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let into = Even { memory: recvbuf, count: recvcount.into(), datatype };
    if let Some(done) = how.at_once(|| quick::reduce_scatter_block(&object, sendbuf, into, op)) {
        return Ok(done?);
    }
    let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
    let counts = vec![recvcount.into(); object.group.size()];
    Ok(how.run(comm, entry::reduce_scatter(&object, operands, counts)?)?)
}

/// `MPI_Scan`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn scan<N: Number>(
    how: How,
    sendbuf: Memory,
    recvbuf: Memory,
    count: N,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let into = Even { memory: recvbuf, count: count.into(), datatype };
    if let Some(done) = how.at_once(|| quick::scan(&object, sendbuf, into, op)) {
        return Ok(done?);
    }
    let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
    Ok(how.run(comm, entry::scan(&object, operands, count.into())?)?)
}

/// `MPI_Exscan`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn exscan<N: Number>(
    how: How,
    sendbuf: Memory,
    recvbuf: Memory,
    count: N,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
    Ok(how.run(comm, entry::exscan(&object, operands, count.into())?)?)
}

/// `MPI_Neighbor_allgather`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn neighbor_allgather<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcount: N,
    sendtype: MPI_Datatype,
    recvbuf: Memory,
    recvcount: N,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let edges = Edges::of(&object)?;
    let places = Even { memory: recvbuf, count: recvcount.into(), datatype: recvtype };
    let mine = Data::new(sendbuf, sendcount.into(), sendtype)?;
    let parts = vec![mine; edges.targets.len()];
    let places = Shares::read(&places, edges.sources.len())?;
    Ok(how.run(comm, Job::Near(edges, parts, places))?)
}

/// `MPI_Neighbor_allgatherv`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn neighbor_allgatherv<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcount: N,
    sendtype: MPI_Datatype,
    recvbuf: Memory,
    recvcounts: List<N>,
    displs: List<N>,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let edges = Edges::of(&object)?;
    let places = Uneven { memory: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
    let mine = Data::new(sendbuf, sendcount.into(), sendtype)?;
    let parts = vec![mine; edges.targets.len()];
    let places = Shares::read(&places, edges.sources.len())?;
    Ok(how.run(comm, Job::Near(edges, parts, places))?)
}

/// `MPI_Neighbor_alltoall`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn neighbor_alltoall<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcount: N,
    sendtype: MPI_Datatype,
    recvbuf: Memory,
    recvcount: N,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let edges = Edges::of(&object)?;
    let parts = Even { memory: sendbuf, count: sendcount.into(), datatype: sendtype };
    let places = Even { memory: recvbuf, count: recvcount.into(), datatype: recvtype };
    let parts = Shares::read(&parts, edges.targets.len())?;
    let places = Shares::read(&places, edges.sources.len())?;
    Ok(how.run(comm, Job::Near(edges, parts, places))?)
}

/// `MPI_Neighbor_alltoallv`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn neighbor_alltoallv<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcounts: List<N>,
    sdispls: List<N>,
    sendtype: MPI_Datatype,
    recvbuf: Memory,
    recvcounts: List<N>,
    rdispls: List<N>,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let edges = Edges::of(&object)?;
    let parts = Uneven { memory: sendbuf, counts: sendcounts, displacements: sdispls, datatype: sendtype };
    let places = Uneven { memory: recvbuf, counts: recvcounts, displacements: rdispls, datatype: recvtype };
    let parts = Shares::read(&parts, edges.targets.len())?;
    let places = Shares::read(&places, edges.sources.len())?;
    Ok(how.run(comm, Job::Near(edges, parts, places))?)
}

/// `MPI_Neighbor_alltoallw`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn neighbor_alltoallw<N: Number>(
    how: How,
    sendbuf: Memory,
    sendcounts: List<N>,
    sdispls: List<i64>,
    sendtypes: List<MPI_Datatype>,
    recvbuf: Memory,
    recvcounts: List<N>,
    rdispls: List<i64>,
    recvtypes: List<MPI_Datatype>,
    comm: MPI_Comm,
) -> Done {
    let object = world().comm(comm)?;
    let edges = Edges::of(&object)?;
    let parts = Mixed { memory: sendbuf, counts: sendcounts, displacements: sdispls, datatypes: sendtypes };
    let places = Mixed { memory: recvbuf, counts: recvcounts, displacements: rdispls, datatypes: recvtypes };
    let parts = Shares::read(&parts, edges.targets.len())?;
    let places = Shares::read(&places, edges.sources.len())?;
    Ok(how.run(comm, Job::Near(edges, parts, places))?)
}
