//! A send and a receive with one request, for counts of either width.

use crate::boundary::{MPI_Comm, MPI_Datatype, MPI_Request, Memory, Out};
use crate::coll::entry::Number;
use crate::fault::Fault;
use crate::p2p::{self, Message};
use std::ffi::c_int;

/// `MPI_Isendrecv`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn isendrecv<N: Number>(
    sendbuf: Memory,
    sendcount: N,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: Memory,
    recvcount: N,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let out =
        Message { memory: sendbuf, count: sendcount.into(), datatype: sendtype, rank: dest, tag: sendtag };
    let into =
        Message { memory: recvbuf, count: recvcount.into(), datatype: recvtype, rank: source, tag: recvtag };
    Ok(request.put(p2p::isendrecv(out, into, comm, false)?)?)
}

/// `MPI_Isendrecv_replace`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn isendrecv_replace<N: Number>(
    buf: Memory,
    count: N,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let out = Message { memory: buf, count: count.into(), datatype, rank: dest, tag: sendtag };
    let into = Message { rank: source, tag: recvtag, ..out };
    Ok(request.put(p2p::isendrecv(out, into, comm, true)?)?)
}
