//! Barewire: user-level communication for clusters.
#![forbid(unsafe_code)]
pub mod mpi;
pub use barewire_core as core;
