//! All of Barewire that the compiler cannot check: mappings, rings, doorbells, processors, user buffers.
//!
//! Everything above this crate forbids `unsafe`. What this crate offers upwards is safe to call with any
//! argument: offsets and lengths are checked here, and memory that another process may write is only ever
//! copied in or out, never borrowed as a slice.
//!
//! ```
//! use barewire_sys::ring::{Consumer, Producer, RingMemory};
//! let memory = RingMemory::create(4096).unwrap();
//! let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
//! let (mut tx, rx) = (Producer::new(memory), Consumer::new(theirs));
//! tx.push(1, 0, 3, 0, |wire| { wire.write(b"hey"); }).unwrap();
//! assert_eq!(rx.payload(3).unwrap().to_vec(), b"hey");
//! assert!(rx.payload(1 << 20).is_none(), "no length that a neighbour names is believed");
//! ```

#[cfg(target_pointer_width = "32")]
compile_error!("Barewire needs a 64-bit machine: ring positions are 64-bit counters");

#[cfg(not(loom))]
pub mod bell;
#[cfg(not(loom))]
mod choice;
#[cfg(not(loom))]
pub mod copy;
#[cfg(not(loom))]
pub mod counting;
#[cfg(not(loom))]
pub mod cpu;
#[cfg(not(loom))]
pub mod credentials;
pub mod doorbell;
#[cfg(not(loom))]
pub mod fetch;
#[cfg(not(loom))]
pub mod fork;
#[cfg(not(loom))]
pub mod inherit;
#[cfg(not(loom))]
pub mod loan;
#[cfg(not(loom))]
pub mod map;
#[cfg(not(loom))]
pub mod memory;
#[cfg(not(loom))]
pub mod pmix;
pub mod readers;
pub mod ring;
pub mod shuttle;
#[cfg(not(loom))]
pub mod spawn;
#[cfg(not(loom))]
pub mod stores;
pub mod sync;
#[cfg(not(loom))]
pub mod sysv;
#[cfg(not(loom))]
pub mod tcp;
#[cfg(not(loom))]
pub mod userbuf;
#[cfg(not(loom))]
pub mod vector;
#[cfg(not(loom))]
pub mod watch;
#[cfg(not(loom))]
pub mod wirebuf;

pub use rustix;
