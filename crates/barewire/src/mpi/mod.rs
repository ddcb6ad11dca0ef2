//! MPI: the parts of the Message Passing Interface that are pure computation.
//!
//! Nothing here sends a byte. Datatypes describe memory and turn it into bytes piece by piece, operations combine bytes,
//! groups, infos, attributes and errors are plain values. A transport joins them by asking a [`Datatype`](datatype::Datatype)
//! for the next piece of a message and writing it straight into wire memory.
//!
//! Counts, displacements and sizes are 64 bits wide everywhere; the C entry points with `int` counts only convert.

pub mod attr;
pub mod datatype;
pub mod error;
mod float;
pub mod group;
pub mod info;
pub mod op;
pub mod topology;
