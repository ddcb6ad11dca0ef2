//! Names of a NIC's things, what a VI can be like, and the words for how things end.

use std::time::Duration;

use barewire_core::Peer;

use crate::slab::Slot;

/// A virtual interface of this NIC: one end of a connection, with a send and a receive queue.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// let vi: Vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
/// assert_eq!(nic.state(vi), Ok(ViState::Idle));
/// nic.destroy_vi(vi).unwrap();
/// assert_eq!(nic.state(vi), Err(NicError::NoSuch)); // the name is not used again
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vi(pub(super) Slot);

/// A completion queue of this NIC.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// let cq: Cq = nic.create_cq().unwrap();
/// let vis = [(); 100].map(|()| nic.create_vi(tag, ViAttributes::default(), cq).unwrap()); // one for all
/// nic.post_receive(vis[70], Descriptor::receive()).unwrap();
/// nic.disconnect(vis[70]).unwrap();
/// assert_eq!(nic.cq_done(cq).unwrap().vi, vis[70]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cq(pub(super) Slot);

/// A receive queue of this NIC that several VIs share.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// let srq: Srq = nic.create_srq(tag).unwrap();
/// let vi = nic.create_shared_vi(tag, ViAttributes::default(), Cqs::default(), srq).unwrap();
/// let refused = nic.post_receive(vi, Descriptor::receive()).unwrap_err();
/// assert_eq!(refused.error, PostError::Shared);
/// assert!(nic.post_shared(srq, Descriptor::receive()).is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Srq(pub(super) Slot);

/// A protection tag of this NIC: a VI reaches only memory that has the same one.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// # nic.connect_request(a, Peer(0), 1).unwrap(); // the NIC talks to itself
/// # let request = nic.connect_wait(1, None).unwrap();
/// # nic.accept(request, b).unwrap();
/// # nic.connected(a, None).unwrap();
/// let other: Ptag = nic.create_ptag().unwrap();
/// let hidden = nic.register(&memory, other, MemAttributes::default()).unwrap();
/// nic.post_send(a, Descriptor::send().segment(hidden, 0, 5)).unwrap();
/// assert_eq!(nic.send_wait(a, None).unwrap().status, Status::Protection);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ptag(pub(super) Slot);

/// Registered memory of this NIC.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// let memory = Memory::private(10);
/// let handle: MemHandle = nic.register(&memory, tag, MemAttributes::default()).unwrap();
/// assert_eq!(nic.memory(handle).unwrap().len(), 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemHandle(pub(super) Slot);

impl MemHandle {
    /// What to tell a peer that shall write to the memory or read it. Knowing it opens nothing by itself.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// # nic.connect_request(a, Peer(0), 1).unwrap(); // the NIC talks to itself
    /// # let request = nic.connect_wait(1, None).unwrap();
    /// # nic.accept(request, b).unwrap();
    /// # nic.connected(a, None).unwrap();
    /// let told = handle.remote().0.to_string(); // by any way to the peer
    /// let there = RemoteMem(told.parse().unwrap());
    /// nic.post_send(a, Descriptor::rdma_read(there, 0).segment(handle, 50, 5)).unwrap();
    /// assert_eq!(nic.send_wait(a, None).unwrap().length, 5);
    /// ```
    pub fn remote(self) -> RemoteMem {
        RemoteMem(self.0.bits())
    }
}

/// Registered memory of another NIC, as its owner told us.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// # nic.connect_request(a, Peer(0), 1).unwrap(); // the NIC talks to itself
/// # let request = nic.connect_wait(1, None).unwrap();
/// # nic.accept(request, b).unwrap();
/// # nic.connected(a, None).unwrap();
/// let nowhere = RemoteMem(0xdead_beef);
/// nic.post_send(a, Descriptor::rdma_read(nowhere, 0).segment(handle, 0, 5)).unwrap();
/// assert_eq!(nic.send_wait(a, None).unwrap().status, Status::RemoteProtection);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteMem(pub u64);

/// What a NIC promises about messages.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// let careless = ViAttributes { reliability: Reliability::Unreliable, ..ViAttributes::default() };
/// let [a, b] = [(); 2].map(|()| nic.create_vi(tag, careless, Cqs::default()).unwrap());
/// nic.connect_request(a, Peer(0), 1).unwrap();
/// let request = nic.connect_wait(1, None).unwrap();
/// nic.accept(request, b).unwrap();
/// nic.connected(a, None).unwrap();
/// nic.post_send(a, Descriptor::send()).unwrap(); // nobody has posted a receive
/// nic.wait("the loss", None, |nic| (nic.counters().dropped == 1).then_some(())).unwrap();
/// ```
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
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// let patient = ViAttributes { flow: Flow::Credits, ..ViAttributes::default() };
/// let [a, b] = [(); 2].map(|()| nic.create_vi(tag, patient, Cqs::default()).unwrap());
/// nic.connect_request(a, Peer(0), 1).unwrap();
/// let request = nic.connect_wait(1, None).unwrap();
/// nic.accept(request, b).unwrap();
/// nic.connected(a, None).unwrap();
/// nic.post_send(a, Descriptor::send().immediate(3)).unwrap(); // waits for a receive
/// nic.post_receive(b, Descriptor::receive()).unwrap();
/// assert_eq!(nic.receive_wait(b, None).unwrap().immediate, Some(3));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// The connection breaks: the programs see to it that it does not happen. The VI Architecture's way.
    #[default]
    None,
    /// The receiver says that it is not ready, and the sender sends again after `pause`, up to `tries` times. InfiniBand's way.
    Rnr {
        /// How often; then the connection breaks.
        tries: u32,
        /// How long in between; if it is longer than clocks go, the sender waits until the connection ends.
        pause: Duration,
    },
    /// The receiver tells the sender how many descriptors it has posted, and the sender waits for one.
    Credits,
}

/// What a refused RDMA operation does to a reliable connection.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// let lenient = ViAttributes { on_refusal: OnRefusal::Report, ..ViAttributes::default() };
/// let [a, b] = [(); 2].map(|()| nic.create_vi(tag, lenient, Cqs::default()).unwrap());
/// nic.connect_request(a, Peer(0), 1).unwrap();
/// let request = nic.connect_wait(1, None).unwrap();
/// nic.accept(request, b).unwrap();
/// nic.connected(a, None).unwrap();
/// let memory = nic.register(&Memory::private(8), tag, MemAttributes::default()).unwrap(); // not for others
/// nic.post_send(a, Descriptor::rdma_read(memory.remote(), 0).segment(memory, 0, 8)).unwrap();
/// assert_eq!(nic.send_wait(a, None).unwrap().status, Status::RemoteProtection);
/// assert_eq!(nic.state(a), Ok(ViState::Connected)); // no harm done
/// ```
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
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// # nic.connect_request(a, Peer(0), 1).unwrap(); // the NIC talks to itself
/// # let request = nic.connect_wait(1, None).unwrap();
/// # nic.accept(request, b).unwrap();
/// # nic.connected(a, None).unwrap();
/// let attributes = MemAttributes { rdma_read: true, ..MemAttributes::default() };
/// let shown = nic.register(&Memory::private(8), tag, attributes).unwrap();
/// nic.post_send(a, Descriptor::rdma_read(shown.remote(), 0).segment(handle, 0, 8)).unwrap();
/// assert_eq!(nic.send_wait(a, None).unwrap().status, Status::Success);
/// nic.post_send(a, Descriptor::rdma_write(shown.remote(), 0).segment(handle, 0, 8)).unwrap();
/// assert_eq!(nic.send_wait(a, None).unwrap().status, Status::RemoteProtection);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemAttributes {
    /// RDMA write into it.
    pub rdma_write: bool,
    /// RDMA read from it.
    pub rdma_read: bool,
}

/// Where a VI stands.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// # nic.connect_request(a, Peer(0), 1).unwrap(); // the NIC talks to itself
/// # let request = nic.connect_wait(1, None).unwrap();
/// # nic.accept(request, b).unwrap();
/// # nic.connected(a, None).unwrap();
/// assert_eq!(nic.state(a), Ok(ViState::Connected));
/// nic.post_send(a, Descriptor::send()).unwrap(); // nobody has posted a receive
/// nic.wait("the end", None, |nic| (nic.state(b) == Ok(ViState::Error(Cause::NoReceive))).then_some(())).unwrap();
/// nic.disconnect(b).unwrap();
/// assert_eq!(nic.state(b), Ok(ViState::Idle));
/// ```
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
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// # nic.connect_request(a, Peer(0), 1).unwrap(); // the NIC talks to itself
/// # let request = nic.connect_wait(1, None).unwrap();
/// # nic.accept(request, b).unwrap();
/// # nic.connected(a, None).unwrap();
/// nic.disconnect(a).unwrap();
/// let fault = nic.wait("the news", None, Nic::next_fault).unwrap();
/// assert_eq!((fault.vi, fault.cause), (b, Cause::Disconnected));
/// assert_eq!(fault.cause.to_string(), "the other end disconnected");
/// ```
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
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// # nic.connect_request(a, Peer(0), 1).unwrap(); // the NIC talks to itself
/// # let request = nic.connect_wait(1, None).unwrap();
/// # nic.accept(request, b).unwrap();
/// # nic.connected(a, None).unwrap();
/// nic.post_receive(b, Descriptor::receive()).unwrap();
/// nic.post_receive(b, Descriptor::receive()).unwrap();
/// nic.post_send(a, Descriptor::send()).unwrap();
/// assert_eq!(nic.receive_wait(b, None).unwrap().status, Status::Success);
/// nic.disconnect(b).unwrap();
/// assert_eq!(nic.receive_done(b).unwrap().status, Status::Flushed);
/// ```
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
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// # nic.connect_request(a, Peer(0), 1).unwrap(); // the NIC talks to itself
/// # let request = nic.connect_wait(1, None).unwrap();
/// # nic.accept(request, b).unwrap();
/// # nic.connected(a, None).unwrap();
/// nic.disconnect(b).unwrap();
/// let fault = nic.wait("the news", None, Nic::next_fault).unwrap();
/// assert_eq!(fault, Fault { vi: a, peer: Peer(0), cause: Cause::Disconnected });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The VI that broke.
    pub vi: Vi,
    /// Whom it was connected to.
    pub peer: Peer,
    /// Why.
    pub cause: Cause,
}
