//! All of Barewire that the compiler cannot check: mappings, rings, doorbells, processors, user buffers.

pub mod inherit;
pub mod spawn;
