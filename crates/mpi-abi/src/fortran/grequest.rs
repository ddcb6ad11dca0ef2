//! Generalized requests: C's functions, which call Fortran's.

use super::give;
use crate::boundary::{MPI_Request, Status};
use crate::fault::{On, guard};
use crate::shim::convert;
use barewire::mpi::error::{Class, Error};
use std::ffi::c_int;

/// The extra state that C's functions get: Fortran's subroutines, and the variable they get as extra state, which is the program's:
/// they may change it.
#[repr(C)]
struct Program {
    query: Query,
    free: Free,
    cancel: Cancel,
    extra: *mut i64,
}

/// What is the status of the operation?
type Query = unsafe extern "C" fn(*mut i64, *mut Status, *mut c_int);
/// Nobody has a handle any more.
type Free = unsafe extern "C" fn(*mut i64, *mut c_int);
/// The operation is to be given up; has it ended already?
type Cancel = unsafe extern "C" fn(*mut i64, *mut c_int, *mut c_int);

extern "C" fn query(program: &Program, status: *mut Status) -> c_int {
    let mut code = 0;
    // SAFETY: Fortran promises a subroutine of this type; the status is C's, and all places outlive the call.
    unsafe { (program.query)(program.extra, status, &mut code) };
    code
}

/// The last that is heard of a request.
extern "C" fn free(program: *mut Program) -> c_int {
    // SAFETY: it came from a box when the request was made, and nobody asks for it after this.
    let program = unsafe { Box::from_raw(program) };
    let mut code = 0;
    // SAFETY: Fortran promises a subroutine of this type; the place outlives the call.
    unsafe { (program.free)(program.extra, &mut code) };
    code
}

extern "C" fn cancel(program: &Program, mut complete: c_int) -> c_int {
    let mut code = 0;
    // SAFETY: Fortran promises a subroutine of this type; all places outlive the call.
    unsafe { (program.cancel)(program.extra, &mut complete, &mut code) };
    code
}

unsafe extern "C" {
    fn PMPI_Grequest_start(
        query: extern "C" fn(&Program, *mut Status) -> c_int,
        free: extern "C" fn(*mut Program) -> c_int,
        cancel: extern "C" fn(&Program, c_int) -> c_int,
        extra: *mut Program,
        request: *mut usize,
    ) -> c_int;
}

/// Fortran's `mpi_grequest_start_`.
#[unsafe(no_mangle)]
pub extern "C" fn mpi_grequest_start_(
    query_fn: Option<Query>,
    free_fn: Option<Free>,
    cancel_fn: Option<Cancel>,
    extra_state: *mut i64,
    request: *mut c_int,
    ierror: *mut c_int,
) {
    let (Some(query_fn), Some(free_fn), Some(cancel_fn)) = (query_fn, free_fn, cancel_fn) else {
        let missing = || Err(Error::new(Class::Arg, "a function is null").into());
        return give(ierror, guard(On::Nothing, "MPI_Grequest_start", missing));
    };
    let program = Program { query: query_fn, free: free_fn, cancel: cancel_fn, extra: extra_state };
    let (program, mut handle) = (Box::into_raw(Box::new(program)), MPI_Request::NULL.0);
    // SAFETY: the function has this signature; the program is not used again here before it is freed.
    let code = unsafe { PMPI_Grequest_start(query, free, cancel, program, &mut handle) };
    if code == 0 {
        give(request, convert::PMPI_Request_toint(MPI_Request(handle)));
    } else {
        // SAFETY: no request was made that could have it.
        drop(unsafe { Box::from_raw(program) });
    }
    give(ierror, code);
}

/// Fortran's `pmpi_grequest_start_`.
#[unsafe(no_mangle)]
pub extern "C" fn pmpi_grequest_start_(
    query_fn: Option<Query>,
    free_fn: Option<Free>,
    cancel_fn: Option<Cancel>,
    extra_state: *mut i64,
    request: *mut c_int,
    ierror: *mut c_int,
) {
    mpi_grequest_start_(query_fn, free_fn, cancel_fn, extra_state, request, ierror);
}
