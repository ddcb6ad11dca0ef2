//! `libmpi_abi.so.1`: the standard ABI of MPI 5.0 on Barewire.
//!
//! Every function of the standard is exported twice, as `MPI_X` and as `PMPI_X`. Those written by hand are in [`shim`], one
//! file a topic; the build script writes the rest, which report that they are not supported yet. `docs/mpi-coverage.md` lists
//! them. All state is in [`world`]; handles are checked numbers from [`table`]; arguments are read and results written only
//! in [`boundary`], the one module with unsafe code.
#![deny(unsafe_code)]

pub mod attribute;
#[allow(unsafe_code)]
pub mod boundary;
pub mod coll;
pub mod fault;
#[allow(
    unsafe_code,
    clippy::too_many_arguments,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "entry points for Fortran"
)]
pub mod fortran;
pub mod general;
pub mod message;
pub mod object;
pub mod p2p;
mod plain_receive;
pub mod request;
pub mod rma;
#[allow(unsafe_code, non_snake_case, reason = "entry points are exported under their C names")]
pub mod shim;
pub mod slab;
pub mod table;
pub mod task;
pub mod transport;
pub mod world;

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
