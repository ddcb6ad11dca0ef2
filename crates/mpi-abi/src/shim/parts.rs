//! Messages in parts: the program says which parts are ready, and asks which have arrived.
//!
//! A message goes when all its parts are ready.

use super::shims;
use crate::boundary::{List, MPI_Comm, MPI_Datatype, MPI_Info, MPI_Request, Memory, Out};
use crate::coll::entry::Number;
use crate::fault::Fault;
use crate::message::anyone;
use crate::p2p::{self, Message};
use crate::world::world;
use barewire::mpi::error::{Class, Error, Result};
use std::ffi::c_int;

shims! {
    fn PMPI_Pready(partition: c_int, request: MPI_Request) {
        ready(request, std::iter::once(partition))?
    }

    fn PMPI_Pready_range(partition_low: c_int, partition_high: c_int, request: MPI_Request) {
        ready(request, partition_low..=partition_high)?
    }

    fn PMPI_Pready_list(length: c_int, array_of_partitions: List<c_int>, request: MPI_Request) {
        ready(request, array_of_partitions.to_vec(length.into())?.into_iter())?
    }

    fn PMPI_Parrived(request: MPI_Request, partition: c_int, flag: Out<c_int>) {
        let anyone = anyone()?;
        if request == MPI_Request::NULL {
            flag.put(1)?;
            return Ok(());
        }
        let parts = anyone.net.with(|_, layer| layer.requests.parts(&layer.tagged, request.0))??;
        if !usize::try_from(partition).is_ok_and(|partition| partition < parts) {
            return Err(Error::new(Class::Arg, format!("there is no part {partition} of {parts}")).into());
        }
        anyone.net.poll()?;
        flag.put(anyone.net.with(|_, layer| layer.requests.is_done(&layer.tagged, request.0))?.into())?
    }
}

/// `MPI_Psend_init`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn psend_init<N: Number>(
    buf: Memory,
    partitions: c_int,
    count: N,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    world().hints(info)?;
    let message = Message { memory: buf, count: count.into(), datatype, rank: dest, tag };
    Ok(request.put(p2p::parts_init(message, partitions, comm, true)?)?)
}

/// `MPI_Precv_init`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn precv_init<N: Number>(
    buf: Memory,
    partitions: c_int,
    count: N,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    world().hints(info)?;
    let message = Message { memory: buf, count: count.into(), datatype, rank: source, tag };
    Ok(request.put(p2p::parts_init(message, partitions, comm, false)?)?)
}

fn ready(request: MPI_Request, parts: impl Iterator<Item = c_int>) -> Result<()> {
    anyone()?
        .net
        .with(|endpoint, layer| layer.requests.ready(endpoint, &mut layer.tagged, request.0, parts))?
}
