//! The Virtual Interface Architecture: descriptors in queues, and a NIC that works them off.
//!
//! A program builds a [`Descriptor`], which names pieces of registered memory, and posts it to a queue of a [`Vi`], a *virtual
//! interface* that is connected to one other. The NIC moves the data and hands the descriptor back.
//!
//! # The model
//!
//! - [`Nic`]: one endpoint of the core. Everything else belongs to one.
//! - **Memory** is registered before descriptors can name it ([`Nic::register`]), under a *protection tag* ([`Ptag`]). A VI has a
//!   tag too and reaches only memory with the same one; anything else ends the descriptor with [`Status::Protection`] and
//!   touches nothing.
//! - **Send and receive**: each message takes the next descriptor of the other end's receive queue, which must be posted already. If
//!   there is none, the VI's [`Reliability`] and [`Flow`] say what happens: the message is dropped, the connection
//!   breaks, the sender tries again, or it waits for credit in the first place.
//! - **RDMA**: the sender names the other end's memory too, by a [`RemoteMem`] that the owner told it. The other end's program
//!   notices nothing, unless the write carries an immediate, which ends a receive descriptor there.
//! - **Completion**: a descriptor that has ended is asked for at the VI, or comes with the event out of a *completion queue* ([`Cq`]) that
//!   serves any number of VIs: looking costs the same for one VI and for thousands.
//! - **Connections** are found by a discriminator: a client asks and a server accepts, or two peers ask each other.
//! - When a connection ends, everything posted comes back as [`Status::Flushed`], and the error handler is told.
//!
//! From InfiniBand come the 64-bit immediate, receive queues that VIs share ([`Srq`]), [`Flow::Rnr`] and [`Flow::Credits`].
//!
//! ```
//! use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
//! use barewire::via::{Cqs, Descriptor, MemAttributes, Nic, ViAttributes};
//!
//! let nics = Job::threads(2).unwrap().into_iter().map(|job| {
//!     std::thread::spawn(move || {
//!         let mut nic = Nic::new(Endpoint::open(job, Config::default()).unwrap());
//!         let tag = nic.create_ptag().unwrap();
//!         let memory = Memory::private(100);
//!         let handle = nic.register(&memory, tag, MemAttributes::default()).unwrap();
//!         let cq = nic.create_cq().unwrap();
//!         let vi = nic.create_vi(tag, ViAttributes::default(), cq).unwrap();
//!         // What is posted before the connection stands is there when the first message comes.
//!         nic.post_receive(vi, Descriptor::receive().segment(handle, 50, 50)).unwrap();
//!         let other = Peer(1 - nic.core().me().0);
//!         nic.connect_peer(vi, other, 2001, None).unwrap();
//!         assert!(memory.write(0, b"hello"));
//!         nic.post_send(vi, Descriptor::send().segment(handle, 0, 5).immediate(7)).unwrap();
//!         for _ in 0..2 {
//!             let done = nic.cq_wait(cq, None).unwrap(); // the send, and the other's message
//!             assert_eq!((done.descriptor.length, done.descriptor.immediate), (5, Some(7)));
//!         }
//!         let mut got = [0; 5];
//!         assert!(memory.read(50, &mut got));
//!         assert_eq!(&got, b"hello");
//!     })
//! });
//! nics.collect::<Vec<_>>().into_iter().for_each(|nic| nic.join().unwrap());
//! ```

mod connect;
mod descriptor;
mod engine;
mod errors;
mod names;
mod nic;
mod send;
mod vi;
mod wire;

pub use connect::Request;
pub use descriptor::{Completion, Cqs, Descriptor, Op, Queue, Remote, Segment};
pub use engine::Counters;
pub use errors::{ConnectError, EndError, NicError, PostError, Refused};
pub use names::{
    Cause, Cq, Fault, Flow, MemAttributes, MemHandle, OnRefusal, Ptag, Reliability, RemoteMem, Srq, Status,
    Vi, ViAttributes, ViState,
};
pub use nic::Nic;
