//! Virtual memory-mapped communication: a receiver exports a buffer, a sender imports it, and from then on the sender
//! writes straight into the receiver's memory. There is no receive call.
//!
//! # The model
//!
//! - [`Vmmc::export`] makes memory of ours importable under a number, to everybody or to a list of peers. [`Vmmc::unexport`]
//!   takes it back: every import of it is invalid from that moment, and its holder is told.
//! - [`Vmmc::import`] gives a proxy ([`Import`]) for somebody's exported buffer; [`Vmmc::unimport`] frees it.
//! - *Deliberate update* ([`Vmmc::send`]) writes bytes into an imported buffer, anywhere, at any time. What lies outside of the buffer, or
//!   is not ours to write any more, is refused and touches nothing.
//! - *Automatic update* ([`Vmmc::bind`]): what is written to bound memory appears in the imported buffer by itself. With a neighbour
//!   that costs nothing, because the bound memory is the buffer; elsewhere changes are found, with the help of the kernel's write
//!   tracking, and sent within a bound.
//! - A *notification* runs a handler at the owner after a transfer. Notifications can be blocked, any number of times; they queue until
//!   the last block is taken away.
//! - *Redirection* ([`Vmmc::redirect`]): transfers go to a default buffer that the sender knows. The receiver re-aims one to where it
//!   wants the data. If the sender hears of it in time, nothing is copied; if not, the receiver copies once.
//! - The *UTLB* bounds how many buffers stay registered for that; the least recently used makes room.
//! - When a peer is gone, its imports are invalid and [`Vmmc::next_event`] says so; when it is back, import again.
//!
//! Reliable transfer is the core's: over datagrams it sends again what got lost.
//!
//! ```
//! use barewire::core::{Config, Endpoint, Peer, job::Job, region::{Memory, Who}};
//! use barewire::vmmc::{Notify, Vmmc};
//!
//! let nodes = Job::threads(2).unwrap().into_iter().map(|job| {
//!     std::thread::spawn(move || {
//!         let mut node = Vmmc::new(Endpoint::open(job, Config::default()).unwrap());
//!         let me = node.core().me().0;
//!         let buffer = Memory::shared(100).unwrap();
//!         let export = node.export(&buffer, 7, Who::Anyone).unwrap();
//!         let (tell, told) = std::sync::mpsc::channel();
//!         node.set_notification(export, move |arrival| tell.send(arrival.len).unwrap()).unwrap();
//!
//!         let proxy = node.import(Peer(1 - me), 7, None).unwrap();
//!         let data = Memory::private(5);
//!         assert!(data.write(0, b"hello"));
//!         let transfer = node.send(proxy, 20, (&data, 0, 5), Notify::Tell).unwrap();
//!         node.finish(transfer, None).unwrap();
//!
//!         let len = node.wait("the other's", None, |_| told.try_recv().ok()).unwrap();
//!         let mut got = [0; 5];
//!         assert!(buffer.read(20, &mut got));
//!         assert_eq!((len, &got), (5, b"hello"));
//!     })
//! });
//! nodes.collect::<Vec<_>>().into_iter().for_each(|node| node.join().unwrap());
//! ```

mod behind;
mod bind;
mod engine;
mod names;
mod node;
mod redirect;
mod update;
mod wire;

pub use engine::Counters;
pub use names::{
    Arrival, Binding, Export, ExportError, ExportOptions, Import, ImportError, Invalidated, Notify,
    RedirectError, Redirected, Redirection, Transfer, TransferError, Why,
};
pub use node::Vmmc;

pub use crate::registered::CacheCounters;
