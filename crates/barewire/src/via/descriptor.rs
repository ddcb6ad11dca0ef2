//! Descriptors: what a NIC is to do, and, once they come back, what it did.

use super::names::{Cq, MemHandle, RemoteMem, Status, Vi};

/// What a descriptor is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Op {
    /// Sends the segments' bytes; they go into the other end's next receive descriptor.
    #[default]
    Send,
    /// Takes one message into the segments.
    Receive,
    /// Writes the segments' bytes into the other end's memory; with an immediate, then also ends a receive descriptor there.
    RdmaWrite,
    /// Reads the other end's memory into the segments.
    RdmaRead,
}

/// A piece of registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which memory.
    pub memory: MemHandle,
    /// First byte.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
}

/// A piece of the other end's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Which memory.
    pub memory: RemoteMem,
    /// First byte.
    pub offset: u64,
}

/// What a NIC is to do. Posting one hands it over; it comes back with the completion, to be read and posted again.
///
/// ```
/// use barewire::via::{Descriptor, MemAttributes, Nic, Status};
/// use barewire::core::{Config, Endpoint, job::Job, region::Memory};
///
/// let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// let tag = nic.create_ptag().unwrap();
/// let memory = nic.register(&Memory::private(100), tag, MemAttributes::default()).unwrap();
/// let descriptor = Descriptor::send().segment(memory, 0, 10).segment(memory, 50, 10).immediate(7).cookie(1);
/// assert_eq!((descriptor.bytes(), descriptor.status), (20, Status::Pending));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// What to do.
    pub op: Op,
    /// With which local memory, in order.
    pub segments: Vec<Segment>,
    /// Sending: goes along, if it is there. Receiving: what came along.
    pub immediate: Option<u64>,
    /// The other end's memory, for RDMA.
    pub remote: Option<Remote>,
    /// The user's own.
    pub cookie: u64,
    /// How it ended.
    pub status: Status,
    /// Bytes that were moved.
    pub length: u64,
}

impl Descriptor {
    /// Segments of one descriptor.
    pub const SEGMENTS_MAX: usize = 252;

    fn new(op: Op) -> Box<Descriptor> {
        Box::new(Descriptor { op, ..Descriptor::default() })
    }

    /// Sends a message.
    pub fn send() -> Box<Descriptor> {
        Descriptor::new(Op::Send)
    }

    /// Receives a message.
    pub fn receive() -> Box<Descriptor> {
        Descriptor::new(Op::Receive)
    }

    /// Writes to the other end's memory at `offset`.
    pub fn rdma_write(memory: RemoteMem, offset: u64) -> Box<Descriptor> {
        let mut descriptor = Descriptor::new(Op::RdmaWrite);
        descriptor.remote = Some(Remote { memory, offset });
        descriptor
    }

    /// Reads the other end's memory from `offset` on.
    pub fn rdma_read(memory: RemoteMem, offset: u64) -> Box<Descriptor> {
        let mut descriptor = Descriptor::new(Op::RdmaRead);
        descriptor.remote = Some(Remote { memory, offset });
        descriptor
    }

    /// The same with one more segment.
    pub fn segment(mut self: Box<Self>, memory: MemHandle, offset: u64, len: u64) -> Box<Descriptor> {
        self.segments.push(Segment { memory, offset, len });
        self
    }

    /// The same with an immediate.
    pub fn immediate(mut self: Box<Self>, immediate: u64) -> Box<Descriptor> {
        self.immediate = Some(immediate);
        self
    }

    /// The same with a cookie.
    pub fn cookie(mut self: Box<Self>, cookie: u64) -> Box<Descriptor> {
        self.cookie = cookie;
        self
    }

    /// Bytes of all segments.
    #[inline]
    pub fn bytes(&self) -> u64 {
        match &self.segments[..] {
            [] => 0,
            [one] => one.len,
            many => many.iter().fold(0, |sum, segment| sum.saturating_add(segment.len)),
        }
    }

    #[inline(always)]
    pub(super) fn ended(mut self: Box<Self>, status: Status, length: u64) -> Box<Descriptor> {
        self.status = status;
        self.length = length;
        self
    }
}

/// Which of a VI's two queues a descriptor came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The send queue.
    Send,
    /// The receive queue.
    Receive,
}

/// What a completion queue gives: which VI, which queue, and the descriptor itself, so that nothing has to be asked again.
#[derive(Debug)]
pub struct Completion {
    /// The VI.
    pub vi: Vi,
    /// Its queue.
    pub queue: Queue,
    /// The descriptor that ended.
    pub descriptor: Box<Descriptor>,
}

/// Where a VI's descriptors go when they have ended: each queue to a completion queue, or to the VI's own list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cqs {
    /// For sends.
    pub send: Option<Cq>,
    /// For receives.
    pub receive: Option<Cq>,
}

impl From<Cq> for Cqs {
    fn from(cq: Cq) -> Cqs {
        Cqs { send: Some(cq), receive: Some(cq) }
    }
}
