//! The words for what was not done.

use barewire_core::{SendError, WaitError};

use super::descriptor::Descriptor;
use super::names::Cause;

/// Why a NIC's thing was not made, changed or freed.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
/// assert_eq!(nic.destroy_ptag(tag), Err(NicError::InUse)); // the VI has it
/// nic.destroy_vi(vi).unwrap();
/// assert_eq!(nic.destroy_vi(vi), Err(NicError::NoSuch));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NicError {
    /// It was freed before, or belongs to another NIC.
    #[error("this NIC has no such VI, queue, tag or memory: it was freed, or is another NIC's")]
    NoSuch,
    /// Something still uses it.
    #[error("something still uses it")]
    InUse,
    /// Disconnect it first.
    #[error("the VI is connected, or about to be; disconnect it first")]
    NotIdle,
    /// The attributes contradict each other.
    #[error("these attributes do not go together: {0}")]
    Attributes(&'static str),
    /// A NIC has at most a million of each.
    #[error("a NIC has at most a million of each kind")]
    TooMany,
}

/// Why a descriptor was not posted.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// assert_eq!(nic.post_send(a, Descriptor::send()).unwrap_err().error, PostError::NotConnected);
/// assert_eq!(nic.post_receive(a, Descriptor::send()).unwrap_err().error, PostError::WrongQueue);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// The VI or queue was freed, or belongs to another NIC.
    #[error("this NIC has no such VI or queue")]
    NoSuch,
    /// The VI is not connected.
    #[error("the VI is not connected")]
    NotConnected,
    /// The VI takes its receives from a shared queue.
    #[error("the VI receives from a shared queue; post there")]
    Shared,
    /// A receive queue holds receives, a send queue everything else.
    #[error("receives belong into receive queues, and nothing else does")]
    WrongQueue,
    /// A descriptor has at most 252 segments.
    #[error("{0} segments are more than a descriptor has")]
    Segments(usize),
}

/// A descriptor that was not posted, and why.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// let Refused { error, descriptor } = nic.post_send(a, Descriptor::send().cookie(12)).unwrap_err();
/// assert_eq!(error.to_string(), "the VI is not connected");
/// assert_eq!(descriptor.cookie, 12); // to be posted later
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// Why.
    pub error: PostError,
    /// Yours again.
    pub descriptor: Box<Descriptor>,
}

/// Why a wait for a descriptor to end found none.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// let cq = nic.create_cq().unwrap();
/// let vi = nic.create_vi(tag, ViAttributes::default(), Cqs { send: Some(cq), receive: None }).unwrap();
/// assert_eq!(nic.send_wait(vi, None).unwrap_err(), EndError::OnQueue);
/// assert_eq!(nic.receive_wait(vi, None).unwrap_err(), EndError::NotConnected);
/// nic.destroy_vi(vi).unwrap();
/// assert_eq!(nic.receive_wait(vi, None).unwrap_err(), EndError::NoSuch);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndError {
    /// The VI or queue was freed, or belongs to another NIC.
    #[error("this NIC has no such VI or queue")]
    NoSuch,
    /// What is posted there ends on a completion queue: wait for that.
    #[error("descriptors of this queue end on a completion queue; wait there")]
    OnQueue,
    /// The VI is idle, and everything that was posted has come back.
    #[error("the VI is not connected, and nothing is left to come back")]
    NotConnected,
    /// The VI is broken, and everything that was posted has come back.
    #[error("the connection broke, and nothing is left to come back: {0}")]
    Broken(Cause),
    /// The wait ended.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

/// Why two VIs did not connect.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// use std::time::Duration;
/// let nobody = nic.connect(a, Peer(0), 5, Some(Duration::from_millis(5)));
/// assert_eq!(nobody, Err(ConnectError::NoMatch));
/// nic.connect_peer_request(a, Peer(0), 6).unwrap();
/// assert_eq!(nic.connect_peer_request(a, Peer(0), 7), Err(ConnectError::NotIdle));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The VI was freed, or belongs to another NIC.
    #[error("this NIC has no such VI")]
    NoSuch,
    /// Only an idle VI connects.
    #[error("the VI is not idle")]
    NotIdle,
    /// Nobody has asked for a connection of this VI, or the answer was taken before.
    #[error("no connection was asked for, or the answer was taken before")]
    NotAsked,
    /// Another VI of this NIC already waits for that peer with that discriminator; or two, if that is the same NIC.
    #[error("another VI waits for that peer with the same discriminator")]
    DiscriminatorTaken,
    /// The other end said no.
    #[error("the other end rejected the connection")]
    Rejected,
    /// The ends differ in reliability or flow control.
    #[error("the two ends differ in reliability or flow control")]
    Attributes,
    /// Nobody took the request, and too many wait there already.
    #[error("too many connection requests wait at the other end")]
    Crowded,
    /// Nobody answered in time; the request is withdrawn.
    #[error("no match: nobody answered in time")]
    NoMatch,
    /// The peer is gone, or there is none.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The wait ended.
    #[error(transparent)]
    Wait(#[from] WaitError),
}
