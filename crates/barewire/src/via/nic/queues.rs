//! Posting descriptors, and taking back those that have ended.

use std::time::Duration;

use super::super::descriptor::{Completion, Descriptor, Op, Queue};
use super::super::errors::{EndError, PostError, Refused};
use super::super::names::{Cq, Srq, Status, Vi, ViState};
use super::Nic;

impl Nic {
    /// Posts a descriptor to a VI's receive queue. Do so before the other end sends.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// nic.post_receive(b, Descriptor::receive().segment(handle, 0, 50)).unwrap(); // long before anybody sends
    /// assert!(nic.receive_done(b).is_none());
    /// assert_eq!(nic.counters().receives, 1);
    /// ```
    #[inline]
    pub fn post_receive(&mut self, vi: Vi, descriptor: Box<Descriptor>) -> Result<(), Refused> {
        let error = match self.engine.vis.get_mut(vi.0) {
            None => PostError::NoSuch,
            Some(entry) if entry.srq.is_some() => PostError::Shared,
            Some(entry) if matches!(entry.state, ViState::Error(_)) => {
                let flushed = descriptor.ended(Status::Flushed, 0);
                self.engine.shop.finish(vi.0, entry, Queue::Receive, flushed);
                return Ok(());
            }
            Some(entry) => match receive_fits(&descriptor) {
                Ok(()) => {
                    entry.receives.push_back(descriptor);
                    entry.posted = entry.posted.wrapping_add(1);
                    self.engine.shop.counters.receives += 1;
                    if entry.owes_word() {
                        self.engine.soil(vi.0);
                    }
                    return Ok(());
                }
                Err(error) => error,
            },
        };
        Err(Refused { error, descriptor })
    }

    /// Posts a descriptor to a shared receive queue.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// let srq = nic.create_srq(tag).unwrap();
    /// assert!(nic.post_shared(srq, Descriptor::receive()).is_ok());
    /// assert_eq!(nic.post_shared(srq, Descriptor::send()).unwrap_err().error, PostError::WrongQueue);
    /// ```
    pub fn post_shared(&mut self, srq: Srq, descriptor: Box<Descriptor>) -> Result<(), Refused> {
        let shop = &mut self.engine.shop;
        let error = match (shop.srqs.get_mut(srq.0), receive_fits(&descriptor)) {
            (Some(entry), Ok(())) => {
                shop.counters.receives += 1;
                entry.receives.push_back(descriptor);
                return Ok(());
            }
            (None, _) => PostError::NoSuch,
            (_, Err(error)) => error,
        };
        Err(Refused { error, descriptor })
    }

    /// Posts a descriptor to a VI's send queue and rings its doorbell.
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
    /// memory.write(0, b"ping");
    /// nic.post_receive(b, Descriptor::receive().segment(handle, 60, 4)).unwrap();
    /// nic.post_send(a, Descriptor::send().segment(handle, 0, 4)).unwrap();
    /// nic.receive_wait(b, None).unwrap();
    /// let mut there = [0; 4];
    /// memory.read(60, &mut there);
    /// assert_eq!(&there, b"ping");
    /// ```
    #[inline]
    pub fn post_send(&mut self, vi: Vi, descriptor: Box<Descriptor>) -> Result<(), Refused> {
        match self.may_post(vi, &descriptor) {
            Ok(true) => {
                self.engine.shop.counters.sends += 1;
                self.engine.post(&mut self.core, vi.0, descriptor);
                Ok(())
            }
            Ok(false) => {
                let entry = self.engine.vis.get_mut(vi.0).expect("looked at just above");
                let flushed = descriptor.ended(Status::Flushed, 0);
                self.engine.shop.finish(vi.0, entry, Queue::Send, flushed);
                Ok(())
            }
            Err(error) => Err(Refused { error, descriptor }),
        }
    }

    /// Posts a descriptor without ringing the doorbell: it goes out with the next [`Nic::ring`], or the next post.
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
    /// for cookie in 0..3 {
    ///     nic.post_receive(b, Descriptor::receive()).unwrap();
    ///     nic.queue_send(a, Descriptor::send().cookie(cookie)).unwrap();
    /// }
    /// assert_eq!(nic.counters().doorbells, 0); // none has gone out
    /// nic.ring(a);
    /// assert_eq!([(); 3].map(|()| nic.send_wait(a, None).unwrap().cookie), [0, 1, 2]);
    /// ```
    pub fn queue_send(&mut self, vi: Vi, descriptor: Box<Descriptor>) -> Result<(), Refused> {
        match self.may_post(vi, &descriptor) {
            Ok(true) => {
                self.engine.shop.counters.sends += 1;
                let entry = self.engine.vis.get_mut(vi.0).expect("looked at just above");
                entry.sends.push_back(crate::via::vi::Queued { descriptor, written: false });
                Ok(())
            }
            Ok(false) => self.post_send(vi, descriptor),
            Err(error) => Err(Refused { error, descriptor }),
        }
    }

    /// Rings a VI's doorbell: its send queue moves as far as it goes.
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
    /// nic.queue_send(a, Descriptor::send().immediate(6)).unwrap();
    /// nic.ring(a);
    /// assert_eq!(nic.receive_wait(b, None).unwrap().immediate, Some(6));
    /// ```
    pub fn ring(&mut self, vi: Vi) {
        self.engine.shop.counters.doorbells += 1;
        self.engine.advance(&mut self.core, vi.0);
    }

    /// Whether a descriptor may be posted; false if the VI is broken, so that it comes back at once.
    #[inline(always)]
    fn may_post(&self, vi: Vi, descriptor: &Descriptor) -> Result<bool, PostError> {
        let entry = self.engine.vis.get(vi.0).ok_or(PostError::NoSuch)?;
        if descriptor.op == Op::Receive {
            return Err(PostError::WrongQueue);
        }
        if descriptor.segments.len() > Descriptor::SEGMENTS_MAX {
            return Err(PostError::Segments(descriptor.segments.len()));
        }
        match entry.state {
            ViState::Connected | ViState::Connecting => Ok(true),
            ViState::Error(_) => Ok(false),
            ViState::Idle => Err(PostError::NotConnected),
        }
    }

    /// The next send of a VI that has ended, if its send queue has no completion queue.
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
    /// assert!(nic.send_done(a).is_none()); // nothing was sent
    /// nic.post_receive(b, Descriptor::receive()).unwrap();
    /// nic.post_send(a, Descriptor::send().cookie(3)).unwrap();
    /// let sent = nic.wait("the send", None, |nic| nic.send_done(a)).unwrap();
    /// assert_eq!((sent.cookie, sent.status), (3, Status::Success));
    /// ```
    #[inline]
    pub fn send_done(&mut self, vi: Vi) -> Option<Box<Descriptor>> {
        self.engine.shop.counters.looks += 1;
        self.engine.vis.get_mut(vi.0)?.send_done.pop_front()
    }

    /// The next receive of a VI that has ended, if its receive queue has no completion queue.
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
    /// nic.post_receive(b, Descriptor::receive().segment(handle, 0, 10)).unwrap();
    /// assert!(nic.receive_done(b).is_none());
    /// nic.post_send(a, Descriptor::send().segment(handle, 50, 10)).unwrap();
    /// let received = loop {
    ///     nic.poll();
    ///     if let Some(received) = nic.receive_done(b) {
    ///         break received;
    ///     }
    /// };
    /// assert_eq!(received.length, 10);
    /// ```
    #[inline]
    pub fn receive_done(&mut self, vi: Vi) -> Option<Box<Descriptor>> {
        self.engine.shop.counters.looks += 1;
        self.engine.vis.get_mut(vi.0)?.receive_done.pop_front()
    }

    /// The next completion of a queue, with its descriptor.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// let cq = nic.create_cq().unwrap();
    /// let vi = nic.create_vi(tag, ViAttributes::default(), cq).unwrap();
    /// for cookie in [1, 2] {
    ///     nic.post_receive(vi, Descriptor::receive().cookie(cookie)).unwrap();
    /// }
    /// nic.disconnect(vi).unwrap();
    /// let cookies: Vec<u64> = std::iter::from_fn(|| nic.cq_done(cq)).map(|done| done.descriptor.cookie).collect();
    /// assert_eq!(cookies, [1, 2]);
    /// ```
    #[inline]
    pub fn cq_done(&mut self, cq: Cq) -> Option<Completion> {
        self.engine.shop.counters.looks += 1;
        self.engine.shop.cqs.get_mut(cq.0)?.done.pop_front()
    }

    /// Waits for a completion. [`EndError::NoSuch`] if the queue was freed.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// use std::time::Duration;
    /// let cq = nic.create_cq().unwrap();
    /// let vi = nic.create_vi(tag, ViAttributes::default(), cq).unwrap();
    /// assert!(nic.cq_wait(cq, Some(Duration::from_millis(1))).is_err()); // nothing was posted
    /// nic.post_receive(vi, Descriptor::receive()).unwrap();
    /// nic.disconnect(vi).unwrap();
    /// assert_eq!(nic.cq_wait(cq, None).unwrap().vi, vi);
    /// ```
    pub fn cq_wait(&mut self, cq: Cq, timeout: Option<Duration>) -> Result<Completion, EndError> {
        self.wait("a completion", timeout, |nic| match nic.cq_done(cq) {
            Some(done) => Some(Ok(done)),
            None if nic.engine.shop.cqs.get(cq.0).is_none() => Some(Err(EndError::NoSuch)),
            None => None,
        })?
    }

    /// Waits for a send of a VI to end, if its send queue has no completion queue. [`EndError`] says why none will, where that is
    /// known: the VI was freed, is idle or broken.
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
    /// nic.post_receive(b, Descriptor::receive().segment(handle, 0, 8)).unwrap();
    /// nic.post_send(a, Descriptor::send().segment(handle, 50, 8)).unwrap();
    /// let sent = nic.send_wait(a, None).unwrap();
    /// assert_eq!((sent.status, sent.length), (Status::Success, 8));
    /// ```
    pub fn send_wait(&mut self, vi: Vi, timeout: Option<Duration>) -> Result<Box<Descriptor>, EndError> {
        self.wait("the end of a send", timeout, |nic| match nic.send_done(vi) {
            Some(sent) => Some(Ok(sent)),
            None => nic.why_none(vi, Queue::Send).map(Err),
        })?
    }

    /// Waits for a receive of a VI to end, if its receive queue has no completion queue. [`EndError`] says why none will, where
    /// that is known: the VI was freed, is idle or broken.
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
    /// use std::time::Duration;
    /// nic.post_receive(b, Descriptor::receive()).unwrap();
    /// assert!(nic.receive_wait(b, Some(Duration::from_millis(1))).is_err()); // nobody has sent
    /// nic.post_send(a, Descriptor::send().immediate(1)).unwrap();
    /// assert_eq!(nic.receive_wait(b, None).unwrap().immediate, Some(1));
    /// ```
    pub fn receive_wait(&mut self, vi: Vi, timeout: Option<Duration>) -> Result<Box<Descriptor>, EndError> {
        self.wait("a message", timeout, |nic| match nic.receive_done(vi) {
            Some(received) => Some(Ok(received)),
            None => nic.why_none(vi, Queue::Receive).map(Err),
        })?
    }

    /// Why no descriptor of a VI's queue will end, if nothing but a call can change that.
    fn why_none(&self, vi: Vi, queue: Queue) -> Option<EndError> {
        let Some(entry) = self.engine.vis.get(vi.0) else { return Some(EndError::NoSuch) };
        let cq = match queue {
            Queue::Send => entry.cqs.send,
            Queue::Receive => entry.cqs.receive,
        };
        match entry.state {
            _ if cq.is_some() => Some(EndError::OnQueue),
            ViState::Idle => Some(EndError::NotConnected),
            ViState::Error(cause) => Some(EndError::Broken(cause)),
            ViState::Connecting | ViState::Connected => None,
        }
    }

    /// Completions that wait in a queue.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// let cq = nic.create_cq().unwrap();
    /// let vi = nic.create_vi(tag, ViAttributes::default(), cq).unwrap();
    /// nic.post_receive(vi, Descriptor::receive()).unwrap();
    /// nic.disconnect(vi).unwrap();
    /// assert_eq!(nic.cq_len(cq), 1);
    /// ```
    pub fn cq_len(&self, cq: Cq) -> usize {
        self.engine.shop.cqs.get(cq.0).map_or(0, |entry| entry.done.len())
    }
}

#[inline(always)]
fn receive_fits(descriptor: &Descriptor) -> Result<(), PostError> {
    if descriptor.op != Op::Receive {
        return Err(PostError::WrongQueue);
    }
    match descriptor.segments.len() {
        ..=Descriptor::SEGMENTS_MAX => Ok(()),
        many => Err(PostError::Segments(many)),
    }
}
