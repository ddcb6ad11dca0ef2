//! Entry points of the buffers for buffered sends: the job's, a communicator's, a session's.

use super::shims;
use crate::boundary::{MPI_Comm, MPI_Request, MPI_Session, Memory, Out, OutWord};
use crate::p2p;
use crate::shim::session;
use crate::world::{UNDEFINED, world};
use barewire::mpi::error::Result;
use std::ffi::c_int;

shims! {
    fn PMPI_Buffer_attach(buffer: Memory, size: c_int) {
        p2p::attach(0, buffer, size.into())?
    }

    fn PMPI_Buffer_attach_c(buffer: Memory, size: i64) {
        p2p::attach(0, buffer, size)?
    }

    fn PMPI_Buffer_detach(buffer_addr: OutWord, size: Out<c_int>) {
        let (address, bytes) = p2p::detach(0)?;
        buffer_addr.put(address)?;
        size.put(c_int::try_from(bytes).unwrap_or(UNDEFINED))?
    }

    fn PMPI_Buffer_detach_c(buffer_addr: OutWord, size: Out<i64>) {
        let (address, bytes) = p2p::detach(0)?;
        buffer_addr.put(address)?;
        size.put(bytes)?
    }

    fn PMPI_Buffer_flush() {
        p2p::flush()?
    }

    fn PMPI_Buffer_iflush(request: Out<MPI_Request>) {
        request.put(p2p::iflush()?)?
    }

    fn PMPI_Comm_attach_buffer(comm: MPI_Comm, buffer: Memory, size: c_int) on comm {
        p2p::attach(of_comm(comm)?, buffer, size.into())?
    }

    fn PMPI_Comm_attach_buffer_c(comm: MPI_Comm, buffer: Memory, size: i64) on comm {
        p2p::attach(of_comm(comm)?, buffer, size)?
    }

    fn PMPI_Comm_detach_buffer(comm: MPI_Comm, buffer_addr: OutWord, size: Out<c_int>) on comm {
        let (address, bytes) = p2p::detach(of_comm(comm)?)?;
        buffer_addr.put(address)?;
        size.put(c_int::try_from(bytes).unwrap_or(UNDEFINED))?
    }

    fn PMPI_Comm_detach_buffer_c(comm: MPI_Comm, buffer_addr: OutWord, size: Out<i64>) on comm {
        let (address, bytes) = p2p::detach(of_comm(comm)?)?;
        buffer_addr.put(address)?;
        size.put(bytes)?
    }

    fn PMPI_Comm_flush_buffer(comm: MPI_Comm) on comm {
        of_comm(comm)?;
        p2p::flush()?
    }

    fn PMPI_Comm_iflush_buffer(comm: MPI_Comm, request: Out<MPI_Request>) on comm {
        of_comm(comm)?;
        request.put(p2p::iflush()?)?
    }

    fn PMPI_Session_attach_buffer(session: MPI_Session, buffer: Memory, size: c_int) on session {
        p2p::attach(of_session(session)?, buffer, size.into())?
    }

    fn PMPI_Session_attach_buffer_c(session: MPI_Session, buffer: Memory, size: i64) on session {
        p2p::attach(of_session(session)?, buffer, size)?
    }

    fn PMPI_Session_detach_buffer(session: MPI_Session, buffer_addr: OutWord, size: Out<c_int>) on session {
        let (address, bytes) = p2p::detach(of_session(session)?)?;
        buffer_addr.put(address)?;
        size.put(c_int::try_from(bytes).unwrap_or(UNDEFINED))?
    }

    fn PMPI_Session_detach_buffer_c(session: MPI_Session, buffer_addr: OutWord, size: Out<i64>) on session {
        let (address, bytes) = p2p::detach(of_session(session)?)?;
        buffer_addr.put(address)?;
        size.put(bytes)?
    }

    fn PMPI_Session_flush_buffer(session: MPI_Session) on session {
        of_session(session)?;
        p2p::flush()?
    }

    fn PMPI_Session_iflush_buffer(session: MPI_Session, request: Out<MPI_Request>) on session {
        of_session(session)?;
        request.put(p2p::iflush()?)?
    }
}

fn of_comm(comm: MPI_Comm) -> Result<usize> {
    world().comm(comm).map(|_| comm.0)
}

fn of_session(session: MPI_Session) -> Result<usize> {
    session::find(session).map(|_| session.0)
}
