//! Names of a NIC's things, what a VI can be like, and the words for what went wrong.

use std::time::Duration;

use barewire_core::{Peer, SendError, WaitError};

use super::descriptor::Descriptor;
use crate::slab::Slot;

/// A virtual interface of this NIC: one end of a connection, with a send and a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vi(pub(super) Slot);

/// A completion queue of this NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cq(pub(super) Slot);

/// A receive queue of this NIC that several VIs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Srq(pub(super) Slot);

/// A protection tag of this NIC: a VI reaches only memory that has the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ptag(pub(super) Slot);

/// Registered memory of this NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemHandle(pub(super) Slot);

impl MemHandle {
    /// What to tell a peer that shall write to the memory or read it. Knowing it opens nothing by itself.
    pub fn remote(self) -> RemoteMem {
        RemoteMem(self.0.bits())
    }
}

/// Registered memory of another NIC, as its owner told us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteMem(pub u64);

/// What a NIC promises about messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// A message that finds no receive descriptor is dropped, and counted. No RDMA read.
    Unreliable,
    /// Exactly once and in order, or the connection breaks. A send has ended when the network has it.
    #[default]
    Delivery,
    /// Like [`Reliability::Delivery`], and a send has ended only when its data is in the target's memory.
    Reception,
}

/// What happens to a message for which no receive descriptor is posted, on a reliable VI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// The connection breaks: the programs see to it that it does not happen. The VI Architecture's way.
    #[default]
    None,
    /// The receiver says that it is not ready, and the sender sends again after `pause`, up to `tries` times. InfiniBand's way.
    Rnr {
        /// How often; then the connection breaks.
        tries: u32,
        /// How long in between.
        pause: Duration,
    },
    /// The receiver tells the sender how many descriptors it has posted, and the sender waits for one.
    Credits,
}

/// What a refused RDMA operation does to a reliable connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRefusal {
    /// It breaks, as the specification wants it.
    #[default]
    Break,
    /// Only the descriptor says so.
    Report,
}

/// What a VI is like. The two ends of a connection must agree on `reliability` and the kind of `flow`.
///
/// ```
/// use barewire::via::{Reliability, ViAttributes};
/// let attributes = ViAttributes { reliability: Reliability::Reception, ..ViAttributes::default() };
/// assert!(attributes.rdma_write && attributes.rdma_read);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViAttributes {
    /// What is promised about messages.
    pub reliability: Reliability,
    /// What happens when nothing is posted.
    pub flow: Flow,
    /// The other end may write to memory with this VI's tag, if the memory allows it too.
    pub rdma_write: bool,
    /// The other end may read such memory.
    pub rdma_read: bool,
    /// The longest message, in bytes.
    pub transfer_max: u64,
    /// What a refused RDMA operation does.
    pub on_refusal: OnRefusal,
}

impl Default for ViAttributes {
    fn default() -> ViAttributes {
        ViAttributes {
            reliability: Reliability::Delivery,
            flow: Flow::None,
            rdma_write: true,
            rdma_read: true,
            transfer_max: 1 << 30,
            on_refusal: OnRefusal::Break,
        }
    }
}

/// What others may do with registered memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemAttributes {
    /// RDMA write into it.
    pub rdma_write: bool,
    /// RDMA read from it.
    pub rdma_read: bool,
}

/// Where a VI stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViState {
    /// Not connected. Receives may be posted already.
    Idle,
    /// A connection was asked for. Sends may be posted already and go out once it stands.
    Connecting,
    /// Connected.
    Connected,
    /// Broken: [`Nic::disconnect`](super::Nic::disconnect) makes it idle again.
    Error(Cause),
}

/// Why a VI broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// A message came and no receive descriptor was posted here.
    #[error("a message found no receive descriptor here")]
    NoReceive,
    /// A message of ours found no receive descriptor there.
    #[error("a message found no receive descriptor at the other end")]
    RemoteNoReceive,
    /// A message was longer than its receive descriptor, here or there.
    #[error("a message was longer than its receive descriptor")]
    Length,
    /// A descriptor named memory that this VI may not use.
    #[error("a descriptor named memory outside of the VI's protection tag")]
    Protection,
    /// The other end refused an RDMA operation.
    #[error("the other end refused access to its memory")]
    RemoteProtection,
    /// A descriptor that means nothing on this VI.
    #[error("a descriptor means nothing on this VI")]
    Format,
    /// The receiver was not ready as often as the attributes allow.
    #[error("the receiver was not ready too often")]
    NotReady,
    /// The other end disconnected.
    #[error("the other end disconnected")]
    Disconnected,
    /// The peer is gone.
    #[error("the peer is gone")]
    PeerLost,
}

impl Cause {
    pub(super) fn code(self) -> u64 {
        self as u64
    }

    /// What a cause there means here.
    pub(super) fn from_there(code: u64) -> Cause {
        match code {
            c if c == Cause::NoReceive.code() => Cause::RemoteNoReceive,
            c if c == Cause::Length.code() => Cause::Length,
            c if c == Cause::Protection.code() => Cause::RemoteProtection,
            _ => Cause::Disconnected,
        }
    }
}

/// How a descriptor ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It has not.
    #[default]
    Pending,
    /// Well.
    Success,
    /// The connection ended before its turn came.
    Flushed,
    /// It names memory that is not registered, has another tag, or is shorter.
    Protection,
    /// The message is longer than its segments, or than the VI's `transfer_max`.
    Length,
    /// It means nothing here: a read on an unreliable VI, say.
    Format,
    /// The other end does not allow access to that memory. Nothing was touched.
    RemoteProtection,
    /// The other end had no receive descriptor.
    RemoteNoReceive,
    /// The receiver was not ready as often as the attributes allow.
    NotReady,
    /// The peer is gone; whether the data arrived is not known.
    PeerLost,
}

/// Something broke: see [`Nic::set_error_handler`](super::Nic::set_error_handler).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The VI that broke.
    pub vi: Vi,
    /// Whom it was connected to.
    pub peer: Peer,
    /// Why.
    pub cause: Cause,
}

/// Why a NIC's thing was not made, changed or freed.
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
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// Why.
    pub error: PostError,
    /// Yours again.
    pub descriptor: Box<Descriptor>,
}

/// Why two VIs did not connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The VI was freed, or belongs to another NIC.
    #[error("this NIC has no such VI")]
    NoSuch,
    /// Only an idle VI connects.
    #[error("the VI is not idle")]
    NotIdle,
    /// Another VI of this NIC already waits for that peer with that discriminator.
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
