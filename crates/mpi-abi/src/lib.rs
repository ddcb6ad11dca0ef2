//! `libmpi_abi.so.1`: the standard ABI of MPI 5.0 on Barewire.
//!
//! Every function of the standard is exported twice, as `MPI_X` and as `PMPI_X`. Those written by hand are in `shim`, one
//! file a topic; the build script writes the rest, which report that they are not supported yet. `docs/mpi-coverage.md` lists
//! them. All state is in `world`; handles are checked numbers from `table`; arguments are read and results written only
//! in `boundary`, the one module with unsafe code.
//!
//! There is nothing here for Rust programs but these functions, as `mpi.h` has them. Whatever can call C can call them:
//!
//! ```
//! use mpi_abi as _;
//! use std::ffi::c_int;
//! unsafe extern "C" {
//!     fn MPI_Get_version(version: *mut c_int, subversion: *mut c_int) -> c_int;
//! }
//! let (mut version, mut subversion) = (0, 0);
//! // SAFETY: both point to room for an int, and this function may be called at any time.
//! assert_eq!(unsafe { MPI_Get_version(&mut version, &mut subversion) }, 0);
//! assert_eq!((version, subversion), (5, 0));
//! ```
#![deny(unsafe_code)]

mod attribute;
#[allow(unsafe_code)]
mod boundary;
mod coll;
mod fault;
#[allow(
    unsafe_code,
    clippy::too_many_arguments,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "entry points for Fortran"
)]
mod fortran;
mod general;
mod message;
mod object;
mod p2p;
mod plain_receive;
mod request;
mod rma;
#[allow(unsafe_code, non_snake_case, reason = "entry points are exported under their C names")]
mod shim;
mod slab;
mod table;
mod task;
mod transport;
mod world;

#[allow(
    unsafe_code,
    non_snake_case,
    clippy::too_many_arguments,
    reason = "entry points are exported under their C names"
)]
mod entry_points {
    use crate::boundary::*;
    use std::ffi::{c_char, c_int, c_void};
    include!(concat!(env!("OUT_DIR"), "/entry_points.rs"));
}
