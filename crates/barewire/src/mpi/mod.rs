//! MPI
pub mod attr;
mod buffer;
mod collective;
mod comm;
pub mod datatype;
mod engine;
pub mod error;
mod fault;
mod float;
pub mod group;
pub mod info;
mod message;
pub mod op;
mod request;
pub mod topology;
mod window;

pub use crate::spmd::Plain;
pub use comm::{Comm, launch, over, start};
pub use fault::Error;
pub use message::{Any, Message, Source, Status, Tag};
pub use request::{Request, wait_all, wait_any, wait_some};
pub use window::{AllLocked, Integer, Local, Lock, Locked, Window};
