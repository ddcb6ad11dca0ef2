//! Barewire's core: a message to a port, and put/get on a region.
//!
//! An [`Endpoint`] belongs to one thread at a time and knows its peers by number. [`Endpoint::send`] puts a short message
//! into wire memory; [`Endpoint::begin`] opens a long one. [`Endpoint::progress`] takes what has arrived and hands each
//! packet to a [`Deliver`]. Everything else in Barewire is a layer over these.
//!
//! ```
//! use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job};
//!
//! let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
//! endpoint.send(endpoint.me(), Port(7), 42, b"hello").unwrap();
//! let mut seen = Vec::new();
//! endpoint.progress(
//!     &mut |_: &mut Endpoint, mut packet: Incoming<'_>| {
//!         seen.push((packet.port, packet.imm, packet.to_vec()));
//!         Flow::Continue
//!     },
//!     usize::MAX,
//! );
//! assert_eq!(seen, [(Port(7), 42, b"hello".to_vec())]);
//! ```
#![forbid(unsafe_code)]

pub mod at_large;
mod auth;
pub mod boot;
pub mod config;
mod connect;
mod credit;
mod datagrams;
pub mod endpoint;
pub mod error;
mod expect;
mod explain;
pub mod filter;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod hello;
mod hold;
pub mod incoming;
pub mod job;
mod meet;
mod patience;
mod peer;
mod poller;
mod progress;
mod provider;
mod queue;
pub mod region;
mod rounds;
pub mod shared;
mod sockets;
pub mod stats;
pub mod stream;
pub mod tagged;
pub mod time;
pub mod wait;
mod wire;

pub use config::Config;
pub use endpoint::Endpoint;
pub use error::{Full, OpenError, SendError, WaitError};
pub use incoming::{Ahead, Deliver, Flow, Frame, Ignore, Incoming};
pub use peer::PeerState;
pub use provider::sim;
pub use stats::Stats;
pub use stream::Sending;

/// A peer of an endpoint: in a job, its rank.
///
/// ```
/// use barewire_core::{Config, Endpoint, Peer, job::Job};
/// let endpoint = Endpoint::open(Job::threads(3).unwrap().remove(1), Config::default()).unwrap();
/// let others: Vec<Peer> = (0..endpoint.size()).map(Peer).filter(|&peer| peer != endpoint.me()).collect();
/// assert_eq!(others, [Peer(0), Peer(2)]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub u32);

impl Peer {
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A handler at a peer. What the numbers mean is up to the layer that sends and the layer that delivers.
///
/// ```
/// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job};
/// const ADD: Port = Port(1);
/// const SUBTRACT: Port = Port(2);
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let (me, mut sum) = (endpoint.me(), 0);
/// endpoint.send(me, ADD, 10, b"").unwrap();
/// endpoint.send(me, SUBTRACT, 3, b"").unwrap();
/// let mut handlers = |_: &mut Endpoint, packet: Incoming<'_>| {
///     sum = if packet.port == ADD { sum + packet.imm } else { sum - packet.imm };
///     Flow::Continue
/// };
/// endpoint.progress(&mut handlers, usize::MAX);
/// assert_eq!(sum, 7);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(pub u16);
