//! MPI for Rust programs: processes that send each other typed messages, make collective calls, and reach into each other's windows.
//!
//! A [`Comm`] is a group of processes, each with a rank. [`start`] joins the job that a launcher started this process for and gives the communicator
//! of all its processes; [`launch`] does the same, and runs them as threads if there is no launcher. Elements are any plain data: numbers,
//! arrays of them, and structures of yours that derive the traits of [`Plain`].
//!
//! | to | there is |
//! |---|---|
//! | send a message | [`Comm::send`], [`Comm::receive`], [`Comm::probe`], [`Comm::claim`], and [`Comm::isend`], [`Comm::ireceive`] that do not wait |
//! | do something together | [`Comm::barrier`], [`Comm::broadcast`], [`Comm::all_reduce`], [`Comm::all_to_all`] and their kin, most of them as requests too |
//! | reach into others' memory | [`Comm::window`]: put, get, updates in one step, locks |
//! | form groups | [`Comm::split`], [`Comm::dup`], [`Comm::create`] |
//!
//! Calls that wait borrow slices. Those that do not take a vector, which is in use until it comes back with the outcome of the [`Request`]: a
//! future, to be awaited, waited for, or tested. Whatever is under way goes on whenever any call is made; nothing runs behind the program's back.
//! Nothing is global either: a process may be in several jobs, and threads may each be a process of one.
//!
//! ```
//! use barewire::mpi;
//!
//! // Heat spreads along a bar that is cut into one part for each rank.
//! mpi::launch(&[3], |comm| {
//!     let (me, last) = (comm.rank(), comm.size() - 1);
//!     let mut bar = vec![if me == 0 { 90.0 } else { 0.0 }; 10];
//!     for _step in 0..100 {
//!         // The cells at the ends come from the neighbours, while …
//!         let left = (me > 0).then(|| comm.ireceive(vec![0.0], me - 1, 1)).transpose()?;
//!         let right = (me < last).then(|| comm.ireceive(vec![0.0], me + 1, 1)).transpose()?;
//!         if me > 0 {
//!             comm.send(&bar[..1], me - 1, 1)?;
//!         }
//!         if me < last {
//!             comm.send(&bar[9..], me + 1, 1)?;
//!         }
//!         let end = |request: Option<mpi::Request<_>>, wall| match request {
//!             Some(request) => request.wait().map(|(cell, _): (Vec<f64>, _)| cell[0]),
//!             None => Ok(wall),
//!         };
//!         // … the ends of the bar let nothing out.
//!         let (before, after) = (end(left, bar[0])?, end(right, bar[9])?);
//!         let near = |at: usize| (if at > 0 { bar[at - 1] } else { before }, if at < 9 { bar[at + 1] } else { after });
//!         bar = (0..10).map(|at| bar[at] + 0.25 * (near(at).0 - 2.0 * bar[at] + near(at).1)).collect();
//!     }
//!     // No heat was lost, as everybody can tell.
//!     let mut heat = [bar.iter().sum::<f64>()];
//!     comm.all_reduce(&mut heat, |a, b| a + b)?;
//!     assert!((heat[0] - 900.0).abs() < 1e-9);
//!     Ok::<(), mpi::Error>(())
//! }).unwrap();
//! ```
//!
//! A call that fails says why in an [`Error`]. A process that is gone is an error for whoever needs it: a receive from it, and a collective call
//! for all members, after which the communicator is of no use for more of these; those that were split off it without the lost one are.
//!
//! The modules hold the parts of MPI that are pure computation, which the C library `libmpi_abi.so.1` stands on as well: datatypes describe memory
//! and turn it into bytes piece by piece, operations combine bytes, groups, infos, attributes and errors are plain values. Counts, displacements and
//! sizes are 64 bits wide there.

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
mod names;
pub mod op;
mod request;
pub mod topology;
mod window;

pub use crate::spmd::Plain;
pub use comm::{Comm, launch, over, start};
pub use fault::Error;
pub use message::Message;
pub use names::{Any, Source, Status, Tag};
pub use request::{Request, wait_all, wait_any, wait_some};
pub use window::{AllLocked, Integer, Local, Lock, Locked, Window};
