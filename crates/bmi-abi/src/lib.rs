//! `libbmi.so`: the Buffered Message Interface for C programs, on [`barewire::bmi`].
//!
//! `shim` holds the entry points, which only translate; `state` the one interface of the process; `boundary` the argument
//! types and all unsafe code. `include/bmi.h` is made from the tables in `abi/`, and a test keeps them together.
//!
//! There is nothing here for Rust programs, which have [`barewire::bmi`], but these functions as `bmi.h` has them:
//!
//! ```
//! use bmi as _;
//! use std::{ffi::{c_char, c_int, c_void}, ptr::{null, null_mut}};
//! unsafe extern "C" {
//!     fn BMI_initialize(method_list: *const c_char, listen_addr: *const c_char, flags: c_int) -> c_int;
//!     fn BMI_get_info(addr: i64, option: c_int, inout_parameter: *mut c_void) -> c_int;
//!     fn BMI_finalize() -> c_int;
//! }
//! const BMI_CHECK_INIT: c_int = 2;
//! // SAFETY: a client names neither networks nor an address, and this question has no place for an answer.
//! unsafe {
//!     assert_ne!(BMI_get_info(0, BMI_CHECK_INIT, null_mut()), 0);
//!     assert_eq!(BMI_initialize(null(), null(), 0), 0);
//!     assert_eq!(BMI_get_info(0, BMI_CHECK_INIT, null_mut()), 0);
//!     assert_eq!(BMI_finalize(), 0);
//! }
//! ```
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod boundary;
#[allow(
    unsafe_code,
    non_snake_case,
    clippy::too_many_arguments,
    reason = "entry points are exported under their C names, with C's arguments"
)]
mod shim;
mod state;
