//! The NIC: an endpoint of the core with its VIs, queues, tags and registered memory.

use std::fmt;
use std::time::Duration;

use barewire_core::wait::Waiting;
use barewire_core::{Endpoint, Peer, WaitError};

use super::descriptor::{Cqs, Descriptor};
use super::engine::{Counters, CqEntry, Engine, SrqEntry};
use super::errors::NicError;
use super::names::{Cq, Fault, Flow, Ptag, Reliability, Srq, Vi, ViAttributes, ViState};
use super::vi::ViEntry;
use crate::deadline::{Deadline, napped};

mod calls;
mod memory;
mod queues;

type ErrorHandler = Box<dyn FnMut(&Fault) + Send>;

/// A network interface: makes VIs, queues, tags and memory handles, and does what their descriptors say.
///
/// Its hardware is the thread that calls it: messages are taken in [`Nic::poll`] and by everything that waits.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// nic.post_receive(b, Descriptor::receive().segment(handle, 50, 50)).unwrap();
/// nic.connect_request(a, Peer(0), 1).unwrap(); // to ourselves
/// let request = nic.connect_wait(1, None).unwrap();
/// nic.accept(request, b).unwrap();
/// nic.connected(a, None).unwrap();
/// nic.post_send(a, Descriptor::send().segment(handle, 0, 20)).unwrap();
/// assert_eq!(nic.receive_wait(b, None).unwrap().length, 20);
/// ```
pub struct Nic {
    pub(super) core: Endpoint,
    pub(super) engine: Engine,
    on_error: Option<ErrorHandler>,
}

impl fmt::Debug for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nic")
            .field("core", &self.core)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

impl Nic {
    /// Opens the NIC on an endpoint of the core, which it takes over.
    ///
    /// ```
    /// use barewire::core::{Config, Endpoint, job::Job};
    /// use barewire::via::Nic;
    /// let nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// assert_eq!(nic.core().size(), 1);
    /// ```
    pub fn new(core: Endpoint) -> Nic {
        Nic { core, engine: Engine::default(), on_error: None }
    }

    /// The endpoint of the core, to look at.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// assert_eq!(nic.core().me(), Peer(0));
    /// ```
    pub fn core(&self) -> &Endpoint {
        &self.core
    }

    /// The endpoint of the core, to change.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// nic.core_mut().flush(); // what was bundled goes out
    /// assert_eq!(nic.core_mut().size(), 1);
    /// ```
    pub fn core_mut(&mut self) -> &mut Endpoint {
        &mut self.core
    }

    /// The endpoint of the core back, for another layer; connections and registrations are gone.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job};
    /// # use barewire::via::Nic;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let again = Nic::new(nic.into_core());
    /// assert_eq!(again.counters().sends, 0);
    /// ```
    pub fn into_core(self) -> Endpoint {
        self.core
    }

    /// What the NIC counted.
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
    /// nic.post_receive(a, Descriptor::receive()).unwrap();
    /// assert_eq!((nic.counters().receives, nic.counters().completions), (1, 0));
    /// ```
    pub fn counters(&self) -> Counters {
        self.engine.shop.counters
    }

    /// Sets who is told when a connection breaks. Runs in [`Nic::poll`] and in waits, after the work.
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
    /// let (tell, told) = std::sync::mpsc::channel();
    /// nic.set_error_handler(move |fault| tell.send(fault.cause).unwrap());
    /// nic.disconnect(a).unwrap();
    /// let cause = nic.wait("the news", None, |_| told.try_recv().ok()).unwrap();
    /// assert_eq!(cause, Cause::Disconnected);
    /// ```
    pub fn set_error_handler(&mut self, handler: impl FnMut(&Fault) + Send + 'static) {
        self.on_error = Some(Box::new(handler));
    }

    /// A new completion queue. It grows with what ends in it, so it cannot overflow.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// let cq = nic.create_cq().unwrap();
    /// assert!(nic.cq_len(cq) == 0 && nic.cq_done(cq).is_none());
    /// ```
    pub fn create_cq(&mut self) -> Result<Cq, NicError> {
        self.engine.shop.cqs.insert(CqEntry::default()).map(Cq).ok_or(NicError::TooMany)
    }

    /// Frees a completion queue that no VI has; what is in it is dropped.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// let cq = nic.create_cq().unwrap();
    /// let vi = nic.create_vi(tag, ViAttributes::default(), cq).unwrap();
    /// assert_eq!(nic.destroy_cq(cq), Err(NicError::InUse));
    /// nic.destroy_vi(vi).unwrap();
    /// assert_eq!(nic.destroy_cq(cq), Ok(()));
    /// ```
    pub fn destroy_cq(&mut self, cq: Cq) -> Result<(), NicError> {
        match self.engine.shop.cqs.get(cq.0) {
            None => Err(NicError::NoSuch),
            Some(entry) if entry.users > 0 => Err(NicError::InUse),
            Some(_) => {
                self.engine.shop.cqs.remove(cq.0);
                Ok(())
            }
        }
    }

    /// A new receive queue for several VIs with this tag.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// let srq = nic.create_srq(tag).unwrap();
    /// let other = nic.create_ptag().unwrap();
    /// assert!(nic.create_shared_vi(tag, ViAttributes::default(), Cqs::default(), srq).is_ok());
    /// assert!(nic.create_shared_vi(other, ViAttributes::default(), Cqs::default(), srq).is_err());
    /// ```
    pub fn create_srq(&mut self, tag: Ptag) -> Result<Srq, NicError> {
        let shop = &mut self.engine.shop;
        shop.tags.get(tag.0).ok_or(NicError::NoSuch)?;
        let entry = SrqEntry { tag, receives: Default::default(), users: 0 };
        shop.srqs.insert(entry).map(Srq).ok_or(NicError::TooMany)
    }

    /// Frees a shared receive queue that no VI has, and gives back what was posted to it.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// let srq = nic.create_srq(tag).unwrap();
    /// nic.post_shared(srq, Descriptor::receive().cookie(4)).unwrap();
    /// let back = nic.destroy_srq(srq).unwrap();
    /// assert_eq!(back.iter().map(|descriptor| descriptor.cookie).collect::<Vec<_>>(), [4]);
    /// ```
    pub fn destroy_srq(&mut self, srq: Srq) -> Result<Vec<Box<Descriptor>>, NicError> {
        match self.engine.shop.srqs.get(srq.0) {
            None => Err(NicError::NoSuch),
            Some(entry) if entry.users > 0 => Err(NicError::InUse),
            Some(_) => {
                let entry = self.engine.shop.srqs.remove(srq.0);
                Ok(entry.map_or_else(Vec::new, |entry| entry.receives.into()))
            }
        }
    }

    /// A new VI. What its queues end goes to completion queues, or is asked for with [`Nic::send_done`] and
    /// [`Nic::receive_done`].
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
    /// assert_eq!((nic.state(vi), nic.peer(vi)), (Ok(ViState::Idle), None));
    /// ```
    pub fn create_vi(
        &mut self,
        tag: Ptag,
        attributes: ViAttributes,
        cqs: impl Into<Cqs>,
    ) -> Result<Vi, NicError> {
        self.make_vi(tag, attributes, cqs.into(), None)
    }

    /// A new VI that takes its receive descriptors from a queue it shares with others.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// let (srq, cq) = (nic.create_srq(tag).unwrap(), nic.create_cq().unwrap());
    /// let servers = [(); 3].map(|()| nic.create_shared_vi(tag, ViAttributes::default(), cq, srq).unwrap());
    /// nic.post_shared(srq, Descriptor::receive()).unwrap(); // for whichever gets a message
    /// let client = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
    /// nic.connect_request(client, Peer(0), 1).unwrap();
    /// let request = nic.connect_wait(1, None).unwrap();
    /// nic.accept(request, servers[2]).unwrap();
    /// nic.connected(client, None).unwrap();
    /// nic.post_send(client, Descriptor::send()).unwrap();
    /// assert_eq!(nic.cq_wait(cq, None).unwrap().vi, servers[2]);
    /// ```
    pub fn create_shared_vi(
        &mut self,
        tag: Ptag,
        attributes: ViAttributes,
        cqs: impl Into<Cqs>,
        srq: Srq,
    ) -> Result<Vi, NicError> {
        if attributes.flow == Flow::Credits {
            return Err(NicError::Attributes("credits are for descriptors that nobody else takes"));
        }
        if self.engine.shop.srqs.get(srq.0).ok_or(NicError::NoSuch)?.tag != tag {
            return Err(NicError::Attributes("the VI and the queue it shares have different tags"));
        }
        self.make_vi(tag, attributes, cqs.into(), Some(srq))
    }

    fn make_vi(
        &mut self,
        tag: Ptag,
        attributes: ViAttributes,
        cqs: Cqs,
        srq: Option<Srq>,
    ) -> Result<Vi, NicError> {
        if attributes.reliability == Reliability::Unreliable && attributes.flow != Flow::None {
            return Err(NicError::Attributes("an unreliable VI drops what finds no descriptor"));
        }
        let Engine { vis, shop, .. } = &mut self.engine;
        shop.tags.get(tag.0).ok_or(NicError::NoSuch)?;
        let both = [cqs.send, cqs.receive];
        if both.iter().flatten().any(|cq| shop.cqs.get(cq.0).is_none()) {
            return Err(NicError::NoSuch);
        }
        let vi = vis.insert(ViEntry::new(tag, attributes, cqs, srq)).ok_or(NicError::TooMany)?;
        for cq in both.into_iter().flatten() {
            shop.cqs.get_mut(cq.0).expect("looked up above").users += 1;
        }
        if let Some(srq) = srq.and_then(|srq| shop.srqs.get_mut(srq.0)) {
            srq.users += 1;
        }
        Ok(Vi(vi))
    }

    /// Frees a VI that is idle or broken. What nobody has asked for is dropped.
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
    /// assert_eq!(nic.destroy_vi(a), Err(NicError::NotIdle));
    /// nic.disconnect(a).unwrap();
    /// assert_eq!((nic.destroy_vi(a), nic.destroy_vi(a)), (Ok(()), Err(NicError::NoSuch)));
    /// ```
    pub fn destroy_vi(&mut self, vi: Vi) -> Result<(), NicError> {
        let Engine { vis, shop, .. } = &mut self.engine;
        if vis.get(vi.0).ok_or(NicError::NoSuch)?.is_up() {
            return Err(NicError::NotIdle);
        }
        let entry = vis.remove(vi.0).expect("looked up just above");
        for cq in [entry.cqs.send, entry.cqs.receive].into_iter().flatten() {
            if let Some(cq) = shop.cqs.get_mut(cq.0) {
                cq.users -= 1;
            }
        }
        if let Some(srq) = entry.srq.and_then(|srq| shop.srqs.get_mut(srq.0)) {
            srq.users -= 1;
        }
        Ok(())
    }

    /// Where a VI stands.
    ///
    /// ```
    /// # use barewire::via::*;
    /// # barewire::spmd::launch(&[2], |endpoint| {
    /// # let mut nic = Nic::new(endpoint);
    /// # let other = barewire::core::Peer(1 - nic.core().me().0);
    /// # let tag = nic.create_ptag().unwrap();
    /// # let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
    /// assert_eq!(nic.state(vi), Ok(ViState::Idle));
    /// nic.connect_peer_request(vi, other, 1)?;
    /// assert_eq!(nic.state(vi), Ok(ViState::Connecting));
    /// assert_eq!(nic.connected(vi, None), Ok(()));
    /// # Ok::<_, ConnectError>(())
    /// # }).unwrap();
    /// ```
    pub fn state(&self, vi: Vi) -> Result<ViState, NicError> {
        self.engine.vis.get(vi.0).map(|entry| entry.state).ok_or(NicError::NoSuch)
    }

    /// Whom a VI is connected to.
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
    /// assert_eq!(nic.peer(a), Some(Peer(0)));
    /// nic.disconnect(a).unwrap();
    /// assert_eq!(nic.peer(a), None);
    /// ```
    pub fn peer(&self, vi: Vi) -> Option<Peer> {
        self.engine.vis.get(vi.0).filter(|entry| entry.state == ViState::Connected).map(|entry| entry.peer)
    }

    /// Takes what has arrived and moves what waits. Never waits itself. Says how many packets it took.
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
    /// while nic.poll() > 0 {}
    /// nic.post_receive(b, Descriptor::receive()).unwrap();
    /// nic.post_send(a, Descriptor::send()).unwrap();
    /// assert!(nic.poll() >= 1); // the message, which is ours
    /// assert!(nic.receive_done(b).is_some());
    /// ```
    #[inline]
    pub fn poll(&mut self) -> usize {
        let took = self.advance();
        self.looked(took);
        took
    }

    /// See [`Endpoint::looked`].
    #[inline]
    pub(crate) fn looked(&mut self, took: usize) {
        self.core.looked(took);
    }

    /// [`Nic::poll`] for those who have more to do or wait by themselves.
    #[inline]
    pub(crate) fn advance(&mut self) -> usize {
        let took = self.core.progress(&mut self.engine, usize::MAX);
        self.engine.work(&mut self.core);
        if !self.engine.shop.faults.is_empty() && self.on_error.is_some() {
            self.report();
        }
        took
    }

    /// The next connection that broke, if no error handler is set.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, job::Job};
    /// # use barewire::via::Nic;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// assert_eq!(nic.next_fault(), None);
    /// ```
    pub fn next_fault(&mut self) -> Option<Fault> {
        self.engine.shop.faults.pop_front()
    }

    /// Whether a connection broke, or a peer asks for one, and nobody has looked.
    pub(crate) fn has_news(&self) -> bool {
        !self.engine.shop.faults.is_empty() || !self.engine.calls.news.is_empty()
    }

    /// Whether something waits to be sent for a moment that no packet marks.
    pub(crate) fn is_stalled(&self) -> bool {
        !self.engine.stalled.is_empty()
    }

    #[cold]
    fn report(&mut self) {
        while let Some(fault) = self.engine.shop.faults.pop_front() {
            if let Some(handler) = &mut self.on_error {
                handler(&fault);
            }
        }
    }

    /// Polls until `found` finds something, sleeping when there is nothing to do.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// use std::time::Duration;
    /// assert_eq!(nic.wait("what is there", None, |nic| Some(nic.core().size())), Ok(1));
    /// assert!(nic.wait("nothing", Some(Duration::from_millis(1)), |_| None::<()>).is_err());
    /// ```
    pub fn wait<T>(
        &mut self,
        what: &'static str,
        timeout: Option<Duration>,
        mut found: impl FnMut(&mut Nic) -> Option<T>,
    ) -> Result<T, WaitError> {
        let deadline = Deadline::after(timeout);
        loop {
            self.advance();
            if let Some(found) = found(self) {
                return Ok(found);
            }
            let left = deadline.left();
            if left == Some(Duration::ZERO) {
                return Err(WaitError::TimedOut);
            }
            // Something may be due at a moment that no packet marks.
            let nap = self.is_stalled().then_some(NAP);
            let longest = left.into_iter().chain(nap).min();
            let before = self.engine.shop.happened();
            let waiting = Waiting { what, on: None };
            let waited = self.core.wait_for(waiting, &mut self.engine, longest, |core, engine| {
                engine.work(core);
                engine.shop.happened() != before
            });
            napped(waited)?;
        }
    }
}

/// How long a wait sleeps at most while a send queue waits for a moment.
const NAP: Duration = Duration::from_millis(1);
