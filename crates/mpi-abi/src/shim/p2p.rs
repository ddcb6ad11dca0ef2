//! Entry points of point-to-point communication: sends, receives, probes, buffers.

use super::shims;
use crate::boundary::{MPI_Comm, MPI_Datatype, MPI_Message, MPI_Request, Memory, Out, Status};
use crate::p2p::{self, Message, Planned};
use barewire::core::tagged::Mode;
use std::ffi::c_int;

shims! {
    fn PMPI_Send(buf: Memory, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: dest, tag };
        p2p::send(message, comm, Mode::Standard)?
    }

    fn PMPI_Send_c(buf: Memory, count: i64, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm) on comm {
        let message = Message { memory: buf, count, datatype, rank: dest, tag };
        p2p::send(message, comm, Mode::Standard)?
    }

    fn PMPI_Isend(
        buf: Memory, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: dest, tag };
        request.put(p2p::isend(message, comm, Mode::Standard)?)?
    }

    fn PMPI_Isend_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: dest, tag };
        request.put(p2p::isend(message, comm, Mode::Standard)?)?
    }

    fn PMPI_Send_init(
        buf: Memory, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: dest, tag };
        request.put(p2p::send_init(message, comm, Planned::Direct(Mode::Standard))?)?
    }

    fn PMPI_Send_init_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: dest, tag };
        request.put(p2p::send_init(message, comm, Planned::Direct(Mode::Standard))?)?
    }

    fn PMPI_Ssend(
        buf: Memory, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: dest, tag };
        p2p::send(message, comm, Mode::Synchronous)?
    }

    fn PMPI_Ssend_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: dest, tag };
        p2p::send(message, comm, Mode::Synchronous)?
    }

    fn PMPI_Issend(
        buf: Memory, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: dest, tag };
        request.put(p2p::isend(message, comm, Mode::Synchronous)?)?
    }

    fn PMPI_Issend_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: dest, tag };
        request.put(p2p::isend(message, comm, Mode::Synchronous)?)?
    }

    fn PMPI_Ssend_init(
        buf: Memory, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: dest, tag };
        request.put(p2p::send_init(message, comm, Planned::Direct(Mode::Synchronous))?)?
    }

    fn PMPI_Ssend_init_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: dest, tag };
        request.put(p2p::send_init(message, comm, Planned::Direct(Mode::Synchronous))?)?
    }

    fn PMPI_Rsend(
        buf: Memory, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: dest, tag };
        p2p::send(message, comm, Mode::Standard)?
    }

    fn PMPI_Rsend_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: dest, tag };
        p2p::send(message, comm, Mode::Standard)?
    }

    fn PMPI_Irsend(
        buf: Memory, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: dest, tag };
        request.put(p2p::isend(message, comm, Mode::Standard)?)?
    }

    fn PMPI_Irsend_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: dest, tag };
        request.put(p2p::isend(message, comm, Mode::Standard)?)?
    }

    fn PMPI_Rsend_init(
        buf: Memory, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: dest, tag };
        request.put(p2p::send_init(message, comm, Planned::Direct(Mode::Standard))?)?
    }

    fn PMPI_Rsend_init_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: dest, tag };
        request.put(p2p::send_init(message, comm, Planned::Direct(Mode::Standard))?)?
    }

    fn PMPI_Bsend(
        buf: Memory, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: dest, tag };
        p2p::bsend(message, comm)?
    }

    fn PMPI_Bsend_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: dest, tag };
        p2p::bsend(message, comm)?
    }

    fn PMPI_Ibsend(
        buf: Memory, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: dest, tag };
        request.put(p2p::ibsend(message, comm)?)?
    }

    fn PMPI_Ibsend_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: dest, tag };
        request.put(p2p::ibsend(message, comm)?)?
    }

    fn PMPI_Bsend_init(
        buf: Memory, count: c_int, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: dest, tag };
        request.put(p2p::send_init(message, comm, Planned::Buffered)?)?
    }

    fn PMPI_Bsend_init_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: dest, tag };
        request.put(p2p::send_init(message, comm, Planned::Buffered)?)?
    }

    fn PMPI_Recv(
        buf: Memory, count: c_int, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        status: Out<Status>,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: source, tag };
        p2p::recv(message, comm, status)?
    }

    fn PMPI_Recv_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        status: Out<Status>,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: source, tag };
        p2p::recv(message, comm, status)?
    }

    fn PMPI_Irecv(
        buf: Memory, count: c_int, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: source, tag };
        request.put(p2p::irecv(message, comm)?)?
    }

    fn PMPI_Irecv_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: source, tag };
        request.put(p2p::irecv(message, comm)?)?
    }

    fn PMPI_Recv_init(
        buf: Memory, count: c_int, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count: count.into(), datatype, rank: source, tag };
        request.put(p2p::recv_init(message, comm)?)?
    }

    fn PMPI_Recv_init_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, source: c_int, tag: c_int, comm: MPI_Comm,
        request: Out<MPI_Request>,
    ) on comm {
        let message = Message { memory: buf, count, datatype, rank: source, tag };
        request.put(p2p::recv_init(message, comm)?)?
    }

    fn PMPI_Sendrecv(
        sendbuf: Memory, sendcount: c_int, sendtype: MPI_Datatype, dest: c_int, sendtag: c_int, recvbuf: Memory,
        recvcount: c_int, recvtype: MPI_Datatype, source: c_int, recvtag: c_int, comm: MPI_Comm,
        status: Out<Status>,
    ) on comm {
        let out = Message { memory: sendbuf, count: sendcount.into(), datatype: sendtype, rank: dest, tag: sendtag };
        let into = Message { memory: recvbuf, count: recvcount.into(), datatype: recvtype, rank: source, tag: recvtag };
        p2p::sendrecv(out, into, comm, status)?
    }

    fn PMPI_Sendrecv_c(
        sendbuf: Memory, sendcount: i64, sendtype: MPI_Datatype, dest: c_int, sendtag: c_int, recvbuf: Memory,
        recvcount: i64, recvtype: MPI_Datatype, source: c_int, recvtag: c_int, comm: MPI_Comm,
        status: Out<Status>,
    ) on comm {
        let out = Message { memory: sendbuf, count: sendcount, datatype: sendtype, rank: dest, tag: sendtag };
        let into = Message { memory: recvbuf, count: recvcount, datatype: recvtype, rank: source, tag: recvtag };
        p2p::sendrecv(out, into, comm, status)?
    }

    fn PMPI_Sendrecv_replace(
        buf: Memory, count: c_int, datatype: MPI_Datatype, dest: c_int, sendtag: c_int, source: c_int,
        recvtag: c_int, comm: MPI_Comm, status: Out<Status>,
    ) on comm {
        let out = Message { memory: buf, count: count.into(), datatype, rank: dest, tag: sendtag };
        let into = Message { rank: source, tag: recvtag, ..out };
        p2p::sendrecv_replace(out, into, comm, status)?
    }

    fn PMPI_Sendrecv_replace_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, dest: c_int, sendtag: c_int, source: c_int,
        recvtag: c_int, comm: MPI_Comm, status: Out<Status>,
    ) on comm {
        let out = Message { memory: buf, count, datatype, rank: dest, tag: sendtag };
        let into = Message { rank: source, tag: recvtag, ..out };
        p2p::sendrecv_replace(out, into, comm, status)?
    }

    fn PMPI_Mrecv(buf: Memory, count: c_int, datatype: MPI_Datatype, message: Out<MPI_Message>, status: Out<Status>) {
        p2p::wait_for(p2p::imrecv(buf, count.into(), datatype, message)?, status)?
    }

    fn PMPI_Mrecv_c(buf: Memory, count: i64, datatype: MPI_Datatype, message: Out<MPI_Message>, status: Out<Status>) {
        p2p::wait_for(p2p::imrecv(buf, count, datatype, message)?, status)?
    }

    fn PMPI_Imrecv(
        buf: Memory, count: c_int, datatype: MPI_Datatype, message: Out<MPI_Message>, request: Out<MPI_Request>,
    ) {
        request.put(p2p::imrecv(buf, count.into(), datatype, message)?)?
    }

    fn PMPI_Imrecv_c(
        buf: Memory, count: i64, datatype: MPI_Datatype, message: Out<MPI_Message>, request: Out<MPI_Request>,
    ) {
        request.put(p2p::imrecv(buf, count, datatype, message)?)?
    }

    fn PMPI_Probe(source: c_int, tag: c_int, comm: MPI_Comm, status: Out<Status>) on comm {
        status.fill(&p2p::probe(source, tag, comm)?)
    }

    fn PMPI_Iprobe(source: c_int, tag: c_int, comm: MPI_Comm, flag: Out<c_int>, status: Out<Status>) on comm {
        let found = p2p::iprobe(source, tag, comm)?;
        if let Some(found) = &found {
            status.fill(found);
        }
        flag.put(found.is_some().into())?
    }

    fn PMPI_Mprobe(
        source: c_int, tag: c_int, comm: MPI_Comm, message: Out<MPI_Message>, status: Out<Status>,
    ) on comm {
        if let Some((found, about)) = p2p::mprobe(source, tag, comm, true)? {
            status.fill(&about);
            message.put(found)?;
        }
    }

    fn PMPI_Improbe(
        source: c_int, tag: c_int, comm: MPI_Comm, flag: Out<c_int>, message: Out<MPI_Message>,
        status: Out<Status>,
    ) on comm {
        let found = p2p::mprobe(source, tag, comm, false)?;
        flag.put(found.is_some().into())?;
        if let Some((found, about)) = found {
            status.fill(&about);
            message.put(found)?;
        }
    }
}
