//! Barewire: user-level communication for clusters.
#![forbid(unsafe_code)]

pub use barewire_core as core;

pub mod am;
pub mod bmi;
mod deadline;
pub mod fm;
pub mod ga;
pub mod mpi;
mod registered;
pub mod shmem;
mod slab;
pub mod splitc;
pub mod spmd;
pub mod via;
pub mod vmmc;
