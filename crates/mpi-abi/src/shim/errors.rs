//! Error handlers, error classes, error codes.

use super::shims;
use crate::boundary::{Callback, MPI_Comm, MPI_Errhandler, MPI_File, MPI_Session, Out, OutText, Text};
use crate::fault::{Errhandler, Fault, raise};
use crate::message::last_truncated;
use crate::world::{bad, lock, world};
use barewire::mpi::error::{Class, Error, Result};
use std::ffi::c_int;

const ERROR_STRING_MAX: usize = 512;

shims! {
    fn PMPI_Comm_create_errhandler(comm_errhandler_fn: Callback, errhandler: Out<MPI_Errhandler>) {
        errhandler.put(create(comm_errhandler_fn)?)?
    }

    fn PMPI_Win_create_errhandler(win_errhandler_fn: Callback, errhandler: Out<MPI_Errhandler>) {
        errhandler.put(create(win_errhandler_fn)?)?
    }

    fn PMPI_File_create_errhandler(file_errhandler_fn: Callback, errhandler: Out<MPI_Errhandler>) {
        errhandler.put(create(file_errhandler_fn)?)?
    }

    fn PMPI_Session_create_errhandler(session_errhandler_fn: Callback, errhandler: Out<MPI_Errhandler>) {
        errhandler.put(create(session_errhandler_fn)?)?
    }

    fn PMPI_Comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) on comm {
        world().comm(comm)?.set_errhandler(world().errhandler(errhandler)?)
    }

    fn PMPI_Comm_get_errhandler(comm: MPI_Comm, errhandler: Out<MPI_Errhandler>) on comm {
        errhandler.put(world().errhandler_handle(&world().comm(comm)?.errhandler()))?
    }

    fn PMPI_Comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) on comm {
        world().comm(comm)?;
        raise(world(), comm.into(), "MPI_Comm_call_errhandler", &Fault::Code(errorcode));
    }

    fn PMPI_Session_set_errhandler(session: MPI_Session, errhandler: MPI_Errhandler) on session {
        find(session)?.set_errhandler(world().errhandler(errhandler)?)
    }

    fn PMPI_Session_get_errhandler(session: MPI_Session, errhandler: Out<MPI_Errhandler>) on session {
        errhandler.put(world().errhandler_handle(&find(session)?.errhandler()))?
    }

    fn PMPI_Session_call_errhandler(session: MPI_Session, errorcode: c_int) on session {
        find(session)?;
        raise(world(), session.into(), "MPI_Session_call_errhandler", &Fault::Code(errorcode));
    }

    fn PMPI_File_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) on file {
        no_file(file)?;
        world().set_file_errhandler(world().errhandler(errhandler)?)
    }

    fn PMPI_File_get_errhandler(file: MPI_File, errhandler: Out<MPI_Errhandler>) on file {
        no_file(file)?;
        errhandler.put(world().errhandler_handle(&world().file_errhandler()))?
    }

    fn PMPI_File_call_errhandler(fh: MPI_File, errorcode: c_int) on fh {
        no_file(fh)?;
        raise(world(), fh.into(), "MPI_File_call_errhandler", &Fault::Code(errorcode));
    }

    fn PMPI_Errhandler_free(errhandler: Out<MPI_Errhandler>) {
        let handle = errhandler.get()?;
        world().errhandler(handle)?;
        world().errhandlers.release(handle.0);
        errhandler.put(MPI_Errhandler::NULL)?
    }

    fn PMPI_Error_class(errorcode: c_int, errorclass: Out<c_int>) {
        errorclass.put(lock(&world().codes).class_of(errorcode)?)?
    }

    fn PMPI_Error_string(errorcode: c_int, string: OutText, resultlen: Out<c_int>) {
        let mut text = lock(&world().codes).string(errorcode)?.to_owned();
        if errorcode == Class::Truncate as c_int {
            text.extend(last_truncated());
        }
        resultlen.put(string.put(text.as_bytes(), ERROR_STRING_MAX)? as c_int)?
    }

    fn PMPI_Add_error_class(errorclass: Out<c_int>) {
        errorclass.put(lock(&world().codes).add_class())?
    }

    fn PMPI_Add_error_code(errorclass: c_int, errorcode: Out<c_int>) {
        errorcode.put(lock(&world().codes).add_code(errorclass)?)?
    }

    fn PMPI_Add_error_string(errorcode: c_int, string: Text) {
        let text = String::from_utf8_lossy(&string.to_vec()?).into_owned();
        lock(&world().codes).set_string(errorcode, &text)?
    }

    fn PMPI_Remove_error_class(errorclass: c_int) {
        lock(&world().codes).remove_class(errorclass)?
    }

    fn PMPI_Remove_error_code(errorcode: c_int) {
        lock(&world().codes).remove_code(errorcode)?
    }

    fn PMPI_Remove_error_string(errorcode: c_int) {
        lock(&world().codes).remove_string(errorcode)?
    }
}

fn create(function: Callback) -> Result<MPI_Errhandler> {
    Ok(MPI_Errhandler(world().errhandlers.insert(Errhandler::User(function.required()?))))
}

fn find(session: MPI_Session) -> Result<std::sync::Arc<crate::object::Session>> {
    world().sessions.get(session.0).ok_or_else(|| bad(Class::Session, "MPI_SESSION_NULL", session.0, 0x120))
}

/// There are no open files, so the only file with an error handler is the null one.
fn no_file(file: MPI_File) -> Result<()> {
    if file == MPI_File::NULL {
        Ok(())
    } else {
        Err(Error::new(Class::File, "the handle is not an open file"))
    }
}
