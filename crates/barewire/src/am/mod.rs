//! Active Messages: every message names the handler that takes it.
//!
//! A *request* runs a handler at somebody's endpoint. The handler may *reply* once, which runs a handler at the requester; a
//! reply is not replied to, so nobody ever waits for somebody who waits for him. Handlers run to completion, on the thread
//! that polls, with the data still in wire memory.
//!
//! # The model
//!
//! - A [`Node`] is one thread's door: an endpoint of the core, and a state that all its handlers work on.
//! - A [`Bundle`] of a node is what is polled and waited for together. [`Node`] is used by one thread; [`Par`] is a
//!   node that several threads share.
//! - An [`Ep`] (endpoint) lives in a bundle and can be moved to another. The job knows it by its [`Name`]. It has a table of handlers, a table of
//!   *translations* that stand for other endpoints, a [`Tag`], and a segment of memory for bulk data.
//! - A request carries a tag. An endpoint lets it in if it is the endpoint's own: to change the tag is to revoke all who have the old one.
//! - Messages are *short* (up to 8 words of arguments), *medium* (and data in the packet) or *bulk* (and data of any length
//!   that is in the target's segment before the handler runs).
//! - What cannot be delivered comes back to the sender's handler 0 with a [`Code`].
//! - At most so many requests are outstanding through a translation ([`Node::set_expected_resources`]). One that has to wait for
//!   credit polls meanwhile; inside a handler it is refused instead. Replies need no credit.
//!
//! [`Simple`] is the older and smaller form: every node runs the same program, trusts the others, and names handlers only.
//!
//! ```
//! use barewire::am::{Name, Node, Tag};
//! use barewire::core::{Config, Endpoint, Peer, job::Job};
//!
//! let nodes = Job::threads(2).unwrap().into_iter().map(|job| {
//!     std::thread::spawn(move || {
//!         let mut node = Node::new(Endpoint::open(job, Config::default()).unwrap(), (0, false));
//!         let bundle = node.allocate_bundle().unwrap();
//!         let ep = node.allocate_endpoint(bundle).unwrap();
//!         node.set_tag(ep, Tag(2024)).unwrap();
//!         node.set_handler(ep, 1, |ctx, args| ctx.reply(2, &[args[0] * 2]).unwrap()).unwrap();
//!         node.set_handler(ep, 2, |ctx, args| ctx.state.0 = args[0]).unwrap();
//!         node.set_handler(ep, 3, |ctx, _| ctx.state.1 = true).unwrap();
//!         // Both made one endpoint, so the other's has the same index as ours.
//!         let other = Name { peer: Peer(1 - node.name(ep).peer.0), ..node.name(ep) };
//!         node.map(ep, 0, other, Tag(2024)).unwrap();
//!         node.request(ep, 0, 1, &[21]).unwrap();
//!         node.wait(bundle, None, |state| state.0 == 42).unwrap();
//!         // Serve the other until it has its answer too.
//!         node.request(ep, 0, 3, &[]).unwrap();
//!         node.wait(bundle, None, |state| state.1).unwrap();
//!     })
//! });
//! nodes.collect::<Vec<_>>().into_iter().for_each(|node| node.join().unwrap());
//! ```

mod bulk;
mod context;
mod link;
mod names;
mod node;
mod over_via;
mod par;
mod request;
mod side;
mod simple;
mod streams;
mod tables;
mod wire;

pub use crate::registered::CacheCounters;
pub use barewire_sys::memory::Memory;
pub use bulk::{Bulk, Place};
pub use context::{Ctx, Returned};
pub use names::{
    Bundle, Code, Ep, EventMask, Name, NotAName, ReplyError, RequestError, TableError, Tag, WaitError,
};
pub use node::Node;
pub use over_via::ViaConfig;
pub use par::Par;
pub use simple::{Call, CallError, Simple};
pub use wire::ARGS_MAX;
