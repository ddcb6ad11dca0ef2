//! All of Barewire that the compiler cannot check: mappings, rings, doorbells, processors, user buffers.

pub mod copy;
pub mod cpu;
