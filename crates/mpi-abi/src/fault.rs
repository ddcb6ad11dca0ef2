//! Faults: from an error inside to what the program's error handler asks for.
//!
//! Each entry point runs its body through [`guard`]. A failure goes to the error handler of the object the call was about, or of
//! `MPI_COMM_SELF` where there is none.

use crate::boundary::{Callback, MPI_Comm, MPI_File, MPI_Session, MPI_Win};
use crate::world::{World, world};
use barewire::mpi::error::{Class, Error};
use std::ffi::c_int;
use std::sync::Arc;

/// Why an entry point failed: an error of ours, or the code one of the program's callbacks returned.
#[derive(Debug)]
pub(crate) enum Fault {
    /// An error found here.
    Error(Error),
    /// A callback's error code, passed on unchanged.
    Code(c_int),
    /// An error of an operation on an object that the call does not name by itself.
    Of(On, Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Error(error)
    }
}

impl From<c_int> for Fault {
    fn from(code: c_int) -> Fault {
        Fault::Code(code)
    }
}

/// The object whose error handler is told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum On {
    /// None in particular.
    Nothing,
    /// A communicator.
    Comm(MPI_Comm),
    /// A window.
    Win(MPI_Win),
    /// A file: all have the same.
    File,
    /// A session.
    Session(MPI_Session),
}

macro_rules! on {
    ($($variant:ident: $handle:ident),*) => {$(
        impl From<$handle> for On {
            fn from(handle: $handle) -> On {
                On::$variant(handle)
            }
        }
    )*};
}

on!(Comm: MPI_Comm, Win: MPI_Win, Session: MPI_Session);

impl From<MPI_File> for On {
    fn from(_: MPI_File) -> On {
        On::File
    }
}

/// What a program wants done about an error.
#[derive(Debug)]
pub(crate) enum Errhandler {
    /// End the job.
    Fatal,
    /// End the processes of the communicator; as there is no job without them, the same.
    Abort,
    /// Return the code.
    Return,
    /// Call a function of the program's.
    User(Callback),
}

/// Runs the body of an entry point; gives a failure to the error handler of `on`.
#[inline]
pub(crate) fn guard(on: On, name: &'static str, body: impl FnOnce() -> Result<(), Fault>) -> c_int {
    match body() {
        Ok(()) => 0,
        Err(fault) => raise(world(), on, name, &fault),
    }
}

/// What every function that is still missing returns.
#[cold]
pub(crate) fn unsupported(on: On, name: &'static str) -> c_int {
    let what = format!("{name} is not part of this version of Barewire");
    raise(world(), on, name, &Fault::Error(Error::new(Class::UnsupportedOperation, what)))
}

/// What every tool function that is still missing returns; tools have no error handlers.
#[cold]
pub(crate) fn unsupported_tool() -> c_int {
    Class::TNotSupported as c_int
}

/// Tells the error handler of `on`; returns the code if that returns.
#[cold]
pub(crate) fn raise(world: &'static World, on: On, name: &'static str, fault: &Fault) -> c_int {
    let code = match fault {
        Fault::Error(error) => error.class() as c_int,
        Fault::Code(code) => *code,
        Fault::Of(_, error) => error.class() as c_int,
    };
    let on = if let Fault::Of(object, _) = fault { *object } else { on };
    let (handler, object) = handler_of(world, on);
    match &*handler {
        Errhandler::Return => {}
        Errhandler::User(function) => function.handle_error(object, code),
        Errhandler::Fatal | Errhandler::Abort => end(world, name, fault, code),
    }
    code
}

/// The handler that hears about an error on this object, and the handle it is given.
fn handler_of(world: &'static World, on: On) -> (Arc<Errhandler>, usize) {
    match on {
        On::Comm(comm) => {
            if let Ok(found) = world.comm(comm) {
                return (found.errhandler(), comm.0);
            }
        }
        On::Session(session) => {
            if let Some(found) = world.sessions.get(session.0) {
                return (found.errhandler(), session.0);
            }
        }
        On::File => return (world.file_errhandler(), MPI_File::NULL.0),
        On::Win(win) => {
            if let Some(found) = world.wins.get(win.0) {
                return (found.errhandler(), win.0);
            }
        }
        On::Nothing => {}
    }
    // What concerns no communicator was MPI_COMM_WORLD's until MPI 4 and is MPI_COMM_SELF's since: who has set only one of them
    // means that one.
    let mut object = COMM_SELF;
    let mut handler = world.comm(MPI_Comm(COMM_SELF)).map(|own| own.errhandler());
    if matches!(handler.as_deref(), Ok(Errhandler::Fatal)) {
        object = COMM_WORLD;
        handler = world.comm(MPI_Comm(COMM_WORLD)).map(|all| all.errhandler());
    }
    (handler.unwrap_or_else(|_| Arc::new(Errhandler::Fatal)), object)
}

const COMM_WORLD: usize = 0x101;
const COMM_SELF: usize = 0x102;

/// Says what happened and ends the job.
fn end(world: &World, name: &'static str, fault: &Fault, code: c_int) -> ! {
    let name = name.strip_prefix('P').unwrap_or(name);
    let rank = world.rank_in_job().map_or(String::new(), |rank| format!("rank {rank}: "));
    match fault {
        Fault::Error(error) | Fault::Of(_, error) => {
            eprintln!(
                "barewire: {rank}{name}: {error} [{}]; the error handler ends the job",
                error.class().name()
            );
        }
        Fault::Code(code) => {
            let string = world.error_string(*code);
            eprintln!("barewire: {rank}{name}: error {code} {string}; the error handler ends the job");
        }
    }
    world.abort(code.clamp(1, 255), &format!("{name} failed, and the error handler ends the job"))
}
