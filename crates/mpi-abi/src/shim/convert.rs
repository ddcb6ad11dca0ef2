//! Handles as integers, for languages that have no pointers.

use crate::boundary::{
    MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info, MPI_Message, MPI_Op, MPI_Request,
    MPI_Session, MPI_Win,
};
use crate::message::anyone;
use crate::table::{DYNAMIC, Table};
use crate::world::world;
use std::ffi::c_int;

/// The low half of a handle says which object it is.
fn to_int(handle: usize) -> c_int {
    handle as c_int
}

/// The handle an integer came from; null if its object is gone.
fn from_int<T>(integer: c_int, table: Option<&Table<T>>, null: usize) -> usize {
    widened(integer, null, |low| table?.widen(low))
}

fn widened(integer: c_int, null: usize, find: impl FnOnce(usize) -> Option<usize>) -> usize {
    match usize::try_from(integer) {
        Ok(predefined) if predefined < DYNAMIC => predefined,
        Ok(low) => find(low).unwrap_or(null),
        Err(_) => null,
    }
}

/// A communicator as an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Comm_toint(comm: MPI_Comm) -> c_int {
    to_int(comm.0)
}

/// A communicator from an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Comm_fromint(comm: c_int) -> MPI_Comm {
    MPI_Comm(from_int(comm, Some(&world().comms), MPI_Comm::NULL.0))
}

/// A datatype as an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Type_toint(datatype: MPI_Datatype) -> c_int {
    to_int(datatype.0)
}

/// A datatype from an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Type_fromint(datatype: c_int) -> MPI_Datatype {
    MPI_Datatype(from_int(datatype, Some(&world().types), MPI_Datatype::NULL.0))
}

/// A group as an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Group_toint(group: MPI_Group) -> c_int {
    to_int(group.0)
}

/// A group from an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Group_fromint(group: c_int) -> MPI_Group {
    MPI_Group(from_int(group, Some(&world().groups), MPI_Group::NULL.0))
}

/// An info as an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Info_toint(info: MPI_Info) -> c_int {
    to_int(info.0)
}

/// An info from an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Info_fromint(info: c_int) -> MPI_Info {
    MPI_Info(from_int(info, Some(&world().infos), MPI_Info::NULL.0))
}

/// An operation as an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Op_toint(op: MPI_Op) -> c_int {
    to_int(op.0)
}

/// An operation from an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Op_fromint(op: c_int) -> MPI_Op {
    MPI_Op(from_int(op, Some(&world().ops), MPI_Op::NULL.0))
}

/// An error handler as an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Errhandler_toint(errhandler: MPI_Errhandler) -> c_int {
    to_int(errhandler.0)
}

/// An error handler from an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Errhandler_fromint(errhandler: c_int) -> MPI_Errhandler {
    MPI_Errhandler(from_int(errhandler, Some(&world().errhandlers), MPI_Errhandler::NULL.0))
}

/// A session as an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Session_toint(session: MPI_Session) -> c_int {
    to_int(session.0)
}

/// A session from an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Session_fromint(session: c_int) -> MPI_Session {
    MPI_Session(from_int(session, Some(&world().sessions), MPI_Session::NULL.0))
}

/// A file as an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_File_toint(file: MPI_File) -> c_int {
    to_int(file.0)
}

/// A file from an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_File_fromint(file: c_int) -> MPI_File {
    MPI_File(from_int(file, None::<&Table<()>>, MPI_File::NULL.0))
}

/// A window as an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Win_toint(win: MPI_Win) -> c_int {
    to_int(win.0)
}

/// A window from an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Win_fromint(win: c_int) -> MPI_Win {
    MPI_Win(from_int(win, Some(&world().wins), MPI_Win::NULL.0))
}

/// A request as an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Request_toint(request: MPI_Request) -> c_int {
    to_int(request.0)
}

/// A request from an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Request_fromint(request: c_int) -> MPI_Request {
    let find = |low| anyone().ok()?.net.with(|_, layer| layer.requests.widen(&layer.tagged, low)).ok()?;
    MPI_Request(widened(request, MPI_Request::NULL.0, find))
}

/// A message as an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Message_toint(message: MPI_Message) -> c_int {
    to_int(message.0)
}

/// A message from an integer.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Message_fromint(message: c_int) -> MPI_Message {
    let find = |low| anyone().ok()?.net.with(|_, layer| layer.requests.messages.widen(low)).ok()?;
    MPI_Message(widened(message, MPI_Message::NULL.0, find))
}
