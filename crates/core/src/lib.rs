//! Barewire's core: a message to a port, and put/get on a region.
#![forbid(unsafe_code)]

pub mod boot;
pub mod job;
