//! Barewire: user-level communication for clusters.
//!
//! ```
//! use barewire::{fm::{Flow, Fm, Handler, Peer}, spmd};
//! // Two ranks: threads here, processes under a launcher.
//! spmd::launch(&[2], |endpoint| {
//!     let mut fm = Fm::new(endpoint).expect("an alarm");
//!     let (tell, told) = std::sync::mpsc::channel();
//!     fm.register(Handler(1), move |_, message| {
//!         tell.send(message.to_vec()).expect("somebody listens");
//!         Flow::Continue
//!     });
//!     fm.send(Peer(1 - fm.me().0), Handler(1), b"hello").expect("the other is there");
//!     fm.wait(None, || told.try_recv().is_ok_and(|bytes| bytes == b"hello"))
//! }).unwrap();
//! ```
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
