//! Functions of the program's, and how they are called.
//!
//! Fortran's take addresses. A handle's low half is the integer that Fortran knows it by, so operations and error handlers, which
//! get the address of a handle, are called in the same way for both languages.

use super::{MPI_Datatype, Status, null};
use barewire::mpi::error::Result;
use std::ffi::{c_int, c_void};

/// A function of the program; which one it is, the entry point knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Callback(usize);

/// An `MPI_…_copy_attr_function`.
type CopyFunction = unsafe extern "C" fn(usize, c_int, usize, usize, *mut usize, *mut c_int) -> c_int;
/// An `MPI_…_delete_attr_function`.
type DeleteFunction = unsafe extern "C" fn(usize, c_int, usize, usize) -> c_int;
/// Fortran's `…_COPY_ATTR_FUNCTION`: values are integers, of which the old one takes the low halves.
type CopySubroutine =
    unsafe extern "C" fn(*mut usize, *mut c_int, *mut i64, *mut i64, *mut i64, *mut c_int, *mut c_int);
/// Fortran's `…_DELETE_ATTR_FUNCTION`.
type DeleteSubroutine = unsafe extern "C" fn(*mut usize, *mut c_int, *mut i64, *mut i64, *mut c_int);
/// An `MPI_…_errhandler_function`.
type ErrorFunction = unsafe extern "C" fn(*mut usize, *mut c_int, ...);
/// An `MPI_User_function`.
type OpFunction = unsafe extern "C" fn(usize, usize, *mut c_int, *mut MPI_Datatype);
/// An `MPI_User_function_c`.
type LargeOpFunction = unsafe extern "C" fn(usize, usize, *mut i64, *mut MPI_Datatype);
/// An `MPI_Grequest_query_function`.
type QueryFunction = unsafe extern "C" fn(usize, *mut Status) -> c_int;
/// An `MPI_Grequest_free_function`.
type FreeFunction = unsafe extern "C" fn(usize) -> c_int;
/// An `MPI_Grequest_cancel_function`.
type CancelFunction = unsafe extern "C" fn(usize, c_int) -> c_int;

impl Callback {
    /// The standard's `…_NULL_COPY_FN` and `…_NULL_DELETE_FN`.
    pub const NULL: Callback = Callback(0);
    /// The standard's `…_DUP_FN`.
    pub const DUP: Callback = Callback(1);

    /// A subroutine of Fortran's, by its address.
    pub fn at(address: *mut c_void) -> Callback {
        Callback(address.expose_provenance())
    }

    /// Calls an attribute's copy function; none where it says the attribute is not copied.
    pub fn copy(
        self,
        object: usize,
        keyval: c_int,
        extra: usize,
        value: usize,
    ) -> Result<Option<usize>, c_int> {
        match self {
            Callback::NULL => return Ok(None),
            Callback::DUP => return Ok(Some(value)),
            _ => {}
        }
        // SAFETY: it is neither of the two marks, so C promises a function of this type.
        let function = unsafe { std::mem::transmute::<usize, CopyFunction>(self.0) };
        let (mut copy, mut flag) = (0, 0);
        // SAFETY: the function is called with the arguments its type asks for; both places outlive the call.
        match unsafe { function(object, keyval, extra, value, &mut copy, &mut flag) } {
            0 => Ok((flag != 0).then_some(copy)),
            code => Err(code),
        }
    }

    /// Calls an attribute's delete function.
    pub fn delete(self, object: usize, keyval: c_int, value: usize, extra: usize) -> Result<(), c_int> {
        if self == Callback::NULL {
            return Ok(());
        }
        // SAFETY: it is not the mark for no function, so C promises a function of this type.
        let function = unsafe { std::mem::transmute::<usize, DeleteFunction>(self.0) };
        // SAFETY: the function is called with the arguments its type asks for.
        match unsafe { function(object, keyval, value, extra) } {
            0 => Ok(()),
            code => Err(code),
        }
    }

    /// Calls an attribute's copy function of Fortran's; one that takes short integers finds and leaves them in the low halves.
    pub fn copy_integer(
        self,
        mut object: usize,
        mut keyval: c_int,
        mut extra: i64,
        mut value: i64,
    ) -> Result<Option<i64>, c_int> {
        // SAFETY: Fortran has no marks for functions, so it promises a subroutine of this type.
        let subroutine = unsafe { std::mem::transmute::<usize, CopySubroutine>(self.0) };
        let (mut copy, mut flag, mut code) = (value, 0, 0);
        // SAFETY: the subroutine is called with the addresses its type asks for; all places outlive the call.
        unsafe {
            subroutine(&mut object, &mut keyval, &mut extra, &mut value, &mut copy, &mut flag, &mut code)
        };
        if code == 0 { Ok((flag != 0).then_some(copy)) } else { Err(code) }
    }

    /// Calls an attribute's delete function of Fortran's.
    pub fn delete_integer(
        self,
        mut object: usize,
        mut keyval: c_int,
        mut value: i64,
        mut extra: i64,
    ) -> Result<(), c_int> {
        // SAFETY: Fortran has no marks for functions, so it promises a subroutine of this type.
        let subroutine = unsafe { std::mem::transmute::<usize, DeleteSubroutine>(self.0) };
        let mut code = 0;
        // SAFETY: the subroutine is called with the addresses its type asks for; all places outlive the call.
        unsafe { subroutine(&mut object, &mut keyval, &mut value, &mut extra, &mut code) };
        if code == 0 { Ok(()) } else { Err(code) }
    }

    /// Calls an error handler; it may change the handle it is given a copy of, and does not return a code.
    pub fn handle_error(self, mut object: usize, mut code: c_int) {
        // SAFETY: an error handler cannot be made from null, and C promises a function of this type.
        let function = unsafe { std::mem::transmute::<usize, ErrorFunction>(self.0) };
        // SAFETY: the function is called with the arguments its type asks for; both places outlive the call.
        unsafe { function(&mut object, &mut code) };
    }

    /// Calls an operation's function on `count` elements.
    pub fn reduce(self, input: usize, inout: usize, mut count: c_int, mut datatype: MPI_Datatype) {
        // SAFETY: an operation cannot be made from null, and C promises a function of this type.
        let function = unsafe { std::mem::transmute::<usize, OpFunction>(self.0) };
        // SAFETY: the function is called with the arguments its type asks for; both places outlive the call.
        unsafe { function(input, inout, &mut count, &mut datatype) };
    }

    /// Calls the large-count form of an operation's function.
    pub fn reduce_large(self, input: usize, inout: usize, mut count: i64, mut datatype: MPI_Datatype) {
        // SAFETY: an operation cannot be made from null, and C promises a function of this type.
        let function = unsafe { std::mem::transmute::<usize, LargeOpFunction>(self.0) };
        // SAFETY: the function is called with the arguments its type asks for; both places outlive the call.
        unsafe { function(input, inout, &mut count, &mut datatype) };
    }

    /// Calls the query function of a generalized request.
    pub fn query(self, extra: usize, status: &mut Status) -> c_int {
        if self == Callback::NULL {
            return 0;
        }
        // SAFETY: it is not null, and C promises a function of this type.
        let function = unsafe { std::mem::transmute::<usize, QueryFunction>(self.0) };
        // SAFETY: the function is called with the arguments its type asks for; the status outlives the call.
        unsafe { function(extra, status) }
    }

    /// Calls the free function of a generalized request.
    pub fn free(self, extra: usize) -> c_int {
        if self == Callback::NULL {
            return 0;
        }
        // SAFETY: it is not null, and C promises a function of this type.
        let function = unsafe { std::mem::transmute::<usize, FreeFunction>(self.0) };
        // SAFETY: the function is called with the arguments its type asks for.
        unsafe { function(extra) }
    }

    /// Calls the cancel function of a generalized request.
    pub fn cancel(self, extra: usize, complete: bool) -> c_int {
        if self == Callback::NULL {
            return 0;
        }
        // SAFETY: it is not null, and C promises a function of this type.
        let function = unsafe { std::mem::transmute::<usize, CancelFunction>(self.0) };
        // SAFETY: the function is called with the arguments its type asks for.
        unsafe { function(extra, complete.into()) }
    }

    /// The function, unless there is none.
    pub fn required(self) -> Result<Callback> {
        if self == Callback::NULL { Err(null("a function is null")) } else { Ok(self) }
    }
}
