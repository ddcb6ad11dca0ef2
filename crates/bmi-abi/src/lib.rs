//! `libbmi.so`: the Buffered Message Interface for C programs, on [`barewire::bmi`].
//!
//! [`shim`] holds the entry points, which only translate; [`state`] the one interface of the process; [`boundary`] the argument
//! types and all unsafe code. `include/bmi.h` is made from the tables in `abi/`, and a test keeps them together.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod boundary;
#[allow(
    unsafe_code,
    non_snake_case,
    clippy::too_many_arguments,
    reason = "entry points are exported under their C names, with C's arguments"
)]
pub mod shim;
pub mod state;
