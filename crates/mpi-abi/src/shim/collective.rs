//! Entry points of collective communication.

use super::shims;
use crate::boundary::{List, MPI_Comm, MPI_Datatype, MPI_Op, Memory};
use crate::coll::entry::{self, Even, Mixed, Operands, Uneven};
use std::ffi::c_int;

shims! {
    fn PMPI_Barrier(comm: MPI_Comm) on comm {
        entry::barrier(comm)?
    }

    fn PMPI_Bcast(buffer: Memory, count: c_int, datatype: MPI_Datatype, root: c_int, comm: MPI_Comm) on comm {
        entry::bcast(Even { memory: buffer, count: count.into(), datatype }, root, comm)?
    }

    fn PMPI_Bcast_c(buffer: Memory, count: i64, datatype: MPI_Datatype, root: c_int, comm: MPI_Comm) on comm {
        entry::bcast(Even { memory: buffer, count, datatype }, root, comm)?
    }

    fn PMPI_Gather(
        sendbuf: Memory, sendcount: c_int, sendtype: MPI_Datatype, recvbuf: Memory, recvcount: c_int,
        recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm,
    ) on comm {
        let mine = Even { memory: sendbuf, count: sendcount.into(), datatype: sendtype };
        let all = Even { memory: recvbuf, count: recvcount.into(), datatype: recvtype };
        entry::gather(mine, all, root, comm)?
    }

    fn PMPI_Gather_c(
        sendbuf: Memory, sendcount: i64, sendtype: MPI_Datatype, recvbuf: Memory, recvcount: i64,
        recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm,
    ) on comm {
        let mine = Even { memory: sendbuf, count: sendcount, datatype: sendtype };
        let all = Even { memory: recvbuf, count: recvcount, datatype: recvtype };
        entry::gather(mine, all, root, comm)?
    }

    fn PMPI_Gatherv(
        sendbuf: Memory, sendcount: c_int, sendtype: MPI_Datatype, recvbuf: Memory, recvcounts: List<c_int>,
        displs: List<c_int>, recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm,
    ) on comm {
        let mine = Even { memory: sendbuf, count: sendcount.into(), datatype: sendtype };
        let all = Uneven { memory: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
        entry::gather(mine, all, root, comm)?
    }

    fn PMPI_Gatherv_c(
        sendbuf: Memory, sendcount: i64, sendtype: MPI_Datatype, recvbuf: Memory, recvcounts: List<i64>,
        displs: List<i64>, recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm,
    ) on comm {
        let mine = Even { memory: sendbuf, count: sendcount, datatype: sendtype };
        let all = Uneven { memory: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
        entry::gather(mine, all, root, comm)?
    }

    fn PMPI_Scatter(
        sendbuf: Memory, sendcount: c_int, sendtype: MPI_Datatype, recvbuf: Memory, recvcount: c_int,
        recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm,
    ) on comm {
        let all = Even { memory: sendbuf, count: sendcount.into(), datatype: sendtype };
        let mine = Even { memory: recvbuf, count: recvcount.into(), datatype: recvtype };
        entry::scatter(all, mine, root, comm)?
    }

    fn PMPI_Scatter_c(
        sendbuf: Memory, sendcount: i64, sendtype: MPI_Datatype, recvbuf: Memory, recvcount: i64,
        recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm,
    ) on comm {
        let all = Even { memory: sendbuf, count: sendcount, datatype: sendtype };
        let mine = Even { memory: recvbuf, count: recvcount, datatype: recvtype };
        entry::scatter(all, mine, root, comm)?
    }

    fn PMPI_Scatterv(
        sendbuf: Memory, sendcounts: List<c_int>, displs: List<c_int>, sendtype: MPI_Datatype, recvbuf: Memory,
        recvcount: c_int, recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm,
    ) on comm {
        let all = Uneven { memory: sendbuf, counts: sendcounts, displacements: displs, datatype: sendtype };
        let mine = Even { memory: recvbuf, count: recvcount.into(), datatype: recvtype };
        entry::scatter(all, mine, root, comm)?
    }

    fn PMPI_Scatterv_c(
        sendbuf: Memory, sendcounts: List<i64>, displs: List<i64>, sendtype: MPI_Datatype, recvbuf: Memory,
        recvcount: i64, recvtype: MPI_Datatype, root: c_int, comm: MPI_Comm,
    ) on comm {
        let all = Uneven { memory: sendbuf, counts: sendcounts, displacements: displs, datatype: sendtype };
        let mine = Even { memory: recvbuf, count: recvcount, datatype: recvtype };
        entry::scatter(all, mine, root, comm)?
    }

    fn PMPI_Allgather(
        sendbuf: Memory, sendcount: c_int, sendtype: MPI_Datatype, recvbuf: Memory, recvcount: c_int,
        recvtype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        let mine = Even { memory: sendbuf, count: sendcount.into(), datatype: sendtype };
        let all = Even { memory: recvbuf, count: recvcount.into(), datatype: recvtype };
        entry::allgather(mine, all, comm)?
    }

    fn PMPI_Allgather_c(
        sendbuf: Memory, sendcount: i64, sendtype: MPI_Datatype, recvbuf: Memory, recvcount: i64,
        recvtype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        let mine = Even { memory: sendbuf, count: sendcount, datatype: sendtype };
        let all = Even { memory: recvbuf, count: recvcount, datatype: recvtype };
        entry::allgather(mine, all, comm)?
    }

    fn PMPI_Allgatherv(
        sendbuf: Memory, sendcount: c_int, sendtype: MPI_Datatype, recvbuf: Memory, recvcounts: List<c_int>,
        displs: List<c_int>, recvtype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        let mine = Even { memory: sendbuf, count: sendcount.into(), datatype: sendtype };
        let all = Uneven { memory: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
        entry::allgather(mine, all, comm)?
    }

    fn PMPI_Allgatherv_c(
        sendbuf: Memory, sendcount: i64, sendtype: MPI_Datatype, recvbuf: Memory, recvcounts: List<i64>,
        displs: List<i64>, recvtype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        let mine = Even { memory: sendbuf, count: sendcount, datatype: sendtype };
        let all = Uneven { memory: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
        entry::allgather(mine, all, comm)?
    }

    fn PMPI_Alltoall(
        sendbuf: Memory, sendcount: c_int, sendtype: MPI_Datatype, recvbuf: Memory, recvcount: c_int,
        recvtype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        let parts = Even { memory: sendbuf, count: sendcount.into(), datatype: sendtype };
        let places = Even { memory: recvbuf, count: recvcount.into(), datatype: recvtype };
        entry::alltoall(parts, places, comm)?
    }

    fn PMPI_Alltoall_c(
        sendbuf: Memory, sendcount: i64, sendtype: MPI_Datatype, recvbuf: Memory, recvcount: i64,
        recvtype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        let parts = Even { memory: sendbuf, count: sendcount, datatype: sendtype };
        let places = Even { memory: recvbuf, count: recvcount, datatype: recvtype };
        entry::alltoall(parts, places, comm)?
    }

    fn PMPI_Alltoallv(
        sendbuf: Memory, sendcounts: List<c_int>, sdispls: List<c_int>, sendtype: MPI_Datatype, recvbuf: Memory,
        recvcounts: List<c_int>, rdispls: List<c_int>, recvtype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        let parts = Uneven { memory: sendbuf, counts: sendcounts, displacements: sdispls, datatype: sendtype };
        let places = Uneven { memory: recvbuf, counts: recvcounts, displacements: rdispls, datatype: recvtype };
        entry::alltoall(parts, places, comm)?
    }

    fn PMPI_Alltoallv_c(
        sendbuf: Memory, sendcounts: List<i64>, sdispls: List<i64>, sendtype: MPI_Datatype, recvbuf: Memory,
        recvcounts: List<i64>, rdispls: List<i64>, recvtype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        let parts = Uneven { memory: sendbuf, counts: sendcounts, displacements: sdispls, datatype: sendtype };
        let places = Uneven { memory: recvbuf, counts: recvcounts, displacements: rdispls, datatype: recvtype };
        entry::alltoall(parts, places, comm)?
    }

    fn PMPI_Alltoallw(
        sendbuf: Memory, sendcounts: List<c_int>, sdispls: List<c_int>, sendtypes: List<MPI_Datatype>,
        recvbuf: Memory, recvcounts: List<c_int>, rdispls: List<c_int>, recvtypes: List<MPI_Datatype>,
        comm: MPI_Comm,
    ) on comm {
        let parts = Mixed { memory: sendbuf, counts: sendcounts, displacements: sdispls, datatypes: sendtypes };
        let places = Mixed { memory: recvbuf, counts: recvcounts, displacements: rdispls, datatypes: recvtypes };
        entry::alltoall(parts, places, comm)?
    }

    fn PMPI_Alltoallw_c(
        sendbuf: Memory, sendcounts: List<i64>, sdispls: List<i64>, sendtypes: List<MPI_Datatype>,
        recvbuf: Memory, recvcounts: List<i64>, rdispls: List<i64>, recvtypes: List<MPI_Datatype>,
        comm: MPI_Comm,
    ) on comm {
        let parts = Mixed { memory: sendbuf, counts: sendcounts, displacements: sdispls, datatypes: sendtypes };
        let places = Mixed { memory: recvbuf, counts: recvcounts, displacements: rdispls, datatypes: recvtypes };
        entry::alltoall(parts, places, comm)?
    }

    fn PMPI_Reduce(
        sendbuf: Memory, recvbuf: Memory, count: c_int, datatype: MPI_Datatype, op: MPI_Op, root: c_int,
        comm: MPI_Comm,
    ) on comm {
        let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
        entry::reduce(operands, count.into(), root, comm)?
    }

    fn PMPI_Reduce_c(
        sendbuf: Memory, recvbuf: Memory, count: i64, datatype: MPI_Datatype, op: MPI_Op, root: c_int,
        comm: MPI_Comm,
    ) on comm {
        let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
        entry::reduce(operands, count, root, comm)?
    }

    fn PMPI_Allreduce(
        sendbuf: Memory, recvbuf: Memory, count: c_int, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm,
    ) on comm {
        let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
        entry::allreduce(operands, count.into(), comm)?
    }

    fn PMPI_Allreduce_c(
        sendbuf: Memory, recvbuf: Memory, count: i64, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm,
    ) on comm {
        let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
        entry::allreduce(operands, count, comm)?
    }

    fn PMPI_Reduce_scatter(
        sendbuf: Memory, recvbuf: Memory, recvcounts: List<c_int>, datatype: MPI_Datatype, op: MPI_Op,
        comm: MPI_Comm,
    ) on comm {
        let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
        entry::reduce_scatter(operands, recvcounts, comm)?
    }

    fn PMPI_Reduce_scatter_c(
        sendbuf: Memory, recvbuf: Memory, recvcounts: List<i64>, datatype: MPI_Datatype, op: MPI_Op,
        comm: MPI_Comm,
    ) on comm {
        let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
        entry::reduce_scatter(operands, recvcounts, comm)?
    }

    fn PMPI_Reduce_scatter_block(
        sendbuf: Memory, recvbuf: Memory, recvcount: c_int, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm,
    ) on comm {
        let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
        entry::reduce_scatter_block(operands, recvcount.into(), comm)?
    }

    fn PMPI_Reduce_scatter_block_c(
        sendbuf: Memory, recvbuf: Memory, recvcount: i64, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm,
    ) on comm {
        let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
        entry::reduce_scatter_block(operands, recvcount, comm)?
    }

    fn PMPI_Scan(
        sendbuf: Memory, recvbuf: Memory, count: c_int, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm,
    ) on comm {
        let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
        entry::scan(operands, count.into(), comm)?
    }

    fn PMPI_Scan_c(
        sendbuf: Memory, recvbuf: Memory, count: i64, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm,
    ) on comm {
        let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
        entry::scan(operands, count, comm)?
    }

    fn PMPI_Exscan(
        sendbuf: Memory, recvbuf: Memory, count: c_int, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm,
    ) on comm {
        let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
        entry::exscan(operands, count.into(), comm)?
    }

    fn PMPI_Exscan_c(
        sendbuf: Memory, recvbuf: Memory, count: i64, datatype: MPI_Datatype, op: MPI_Op, comm: MPI_Comm,
    ) on comm {
        let operands = Operands { mine: sendbuf, into: recvbuf, datatype, op };
        entry::exscan(operands, count, comm)?
    }
}
