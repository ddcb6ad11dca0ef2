//! Descriptors: what a NIC is to do, and, once they come back, what it did.

use super::names::{Cq, MemHandle, RemoteMem, Status, Vi};

/// What a descriptor is for.
///
/// ```
/// use barewire::via::{Descriptor, Op, RemoteMem};
/// assert_eq!(Descriptor::send().op, Op::Send);
/// assert_eq!(Descriptor::rdma_read(RemoteMem(7), 0).op, Op::RdmaRead);
/// ```
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
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// let descriptor = Descriptor::send().segment(handle, 10, 20);
/// assert_eq!(descriptor.segments, [Segment { memory: handle, offset: 10, len: 20 }]);
/// ```
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
///
/// ```
/// use barewire::via::{Descriptor, Remote, RemoteMem};
/// let write = Descriptor::rdma_write(RemoteMem(7), 64);
/// assert_eq!(write.remote, Some(Remote { memory: RemoteMem(7), offset: 64 }));
/// ```
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
    /// memory.write(0, b"hello");
    /// nic.post_receive(b, Descriptor::receive().segment(handle, 50, 10)).unwrap();
    /// nic.post_send(a, Descriptor::send().segment(handle, 0, 5)).unwrap();
    /// assert_eq!(nic.receive_wait(b, None).unwrap().length, 5);
    /// ```
    pub fn send() -> Box<Descriptor> {
        Descriptor::new(Op::Send)
    }

    /// Receives a message.
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
    /// nic.post_receive(b, Descriptor::receive().segment(handle, 0, 3)).unwrap();
    /// nic.post_send(a, Descriptor::send().segment(handle, 50, 2).immediate(9)).unwrap();
    /// let done = nic.receive_wait(b, None).unwrap();
    /// assert_eq!((done.status, done.length, done.immediate), (Status::Success, 2, Some(9)));
    /// ```
    pub fn receive() -> Box<Descriptor> {
        Descriptor::new(Op::Receive)
    }

    /// Writes to the other end's memory at `offset`.
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
    /// memory.write(0, b"over there");
    /// nic.post_send(a, Descriptor::rdma_write(handle.remote(), 80).segment(handle, 0, 10)).unwrap();
    /// assert_eq!(nic.send_wait(a, None).unwrap().status, Status::Success);
    /// let mut there = [0; 10];
    /// nic.wait("the bytes", None, |_| (memory.read(80, &mut there) && &there == b"over there").then_some(())).unwrap();
    /// ```
    pub fn rdma_write(memory: RemoteMem, offset: u64) -> Box<Descriptor> {
        let mut descriptor = Descriptor::new(Op::RdmaWrite);
        descriptor.remote = Some(Remote { memory, offset });
        descriptor
    }

    /// Reads the other end's memory from `offset` on.
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
    /// memory.write(90, b"from there");
    /// nic.post_send(a, Descriptor::rdma_read(handle.remote(), 90).segment(handle, 0, 10)).unwrap();
    /// assert_eq!(nic.send_wait(a, None).unwrap().status, Status::Success);
    /// let mut here = [0; 10];
    /// memory.read(0, &mut here);
    /// assert_eq!(&here, b"from there");
    /// ```
    pub fn rdma_read(memory: RemoteMem, offset: u64) -> Box<Descriptor> {
        let mut descriptor = Descriptor::new(Op::RdmaRead);
        descriptor.remote = Some(Remote { memory, offset });
        descriptor
    }

    /// The same with one more segment.
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
    /// memory.write(0, b"ab..cd");
    /// nic.post_receive(b, Descriptor::receive().segment(handle, 50, 3).segment(handle, 60, 1)).unwrap();
    /// nic.post_send(a, Descriptor::send().segment(handle, 0, 2).segment(handle, 4, 2)).unwrap(); // abcd
    /// nic.receive_wait(b, None).unwrap();
    /// let mut there = [0; 11];
    /// memory.read(50, &mut there);
    /// assert_eq!(&there, b"abc\0\0\0\0\0\0\0d");
    /// ```
    pub fn segment(mut self: Box<Self>, memory: MemHandle, offset: u64, len: u64) -> Box<Descriptor> {
        self.segments.push(Segment { memory, offset, len });
        self
    }

    /// The same with an immediate.
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
    /// nic.post_send(a, Descriptor::send().immediate(u64::MAX)).unwrap(); // no data at all
    /// assert_eq!(nic.receive_wait(b, None).unwrap().immediate, Some(u64::MAX));
    /// ```
    pub fn immediate(mut self: Box<Self>, immediate: u64) -> Box<Descriptor> {
        self.immediate = Some(immediate);
        self
    }

    /// The same with a cookie.
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
    /// for cookie in [7, 8] {
    ///     nic.post_receive(b, Descriptor::receive().cookie(cookie)).unwrap();
    /// }
    /// nic.post_send(a, Descriptor::send()).unwrap();
    /// assert_eq!(nic.receive_wait(b, None).unwrap().cookie, 7); // it comes back with the descriptor
    /// ```
    pub fn cookie(mut self: Box<Self>, cookie: u64) -> Box<Descriptor> {
        self.cookie = cookie;
        self
    }

    /// Bytes of all segments.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// let descriptor = Descriptor::send().segment(handle, 0, 30).segment(handle, 50, 12);
    /// assert_eq!(descriptor.bytes(), 42);
    /// ```
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
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// let cq = nic.create_cq().unwrap();
/// let vi = nic.create_vi(tag, ViAttributes::default(), cq).unwrap();
/// nic.post_receive(vi, Descriptor::receive()).unwrap();
/// nic.disconnect(vi).unwrap(); // gives back what was posted
/// assert_eq!(nic.cq_done(cq).unwrap().queue, Queue::Receive);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The send queue.
    Send,
    /// The receive queue.
    Receive,
}

/// What a completion queue gives: which VI, which queue, and the descriptor itself, so that nothing has to be asked again.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// let cq = nic.create_cq().unwrap();
/// let vi = nic.create_vi(tag, ViAttributes::default(), cq).unwrap();
/// nic.post_receive(vi, Descriptor::receive().cookie(5)).unwrap();
/// nic.disconnect(vi).unwrap();
/// let Completion { vi: which, descriptor, .. } = nic.cq_done(cq).unwrap();
/// assert_eq!((which, descriptor.cookie, descriptor.status), (vi, 5, Status::Flushed));
/// ```
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
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// let cq = nic.create_cq().unwrap();
/// let only_receives = Cqs { send: None, receive: Some(cq) };
/// let vi = nic.create_vi(tag, ViAttributes::default(), only_receives).unwrap();
/// assert_eq!(Cqs::from(cq), Cqs { send: Some(cq), receive: Some(cq) });
/// ```
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
