//! The NIC: an endpoint of the core with its VIs, queues, tags and registered memory.

use std::fmt;
use std::time::Duration;

use barewire_core::region::Memory;
use barewire_core::wait::Waiting;
use barewire_core::{Endpoint, Peer, WaitError};

use super::connect::Request;
use super::descriptor::{Completion, Cqs, Descriptor, Op, Queue};
use super::engine::{Counters, CqEntry, Engine, Registered, SrqEntry};
use super::names::{
    ConnectError, Cq, Fault, Flow, MemAttributes, MemHandle, NicError, PostError, Ptag, Refused, Reliability,
    Srq, Vi, ViAttributes, ViState,
};
use super::vi::ViEntry;
use super::wire::Kind;
use crate::deadline::{Deadline, napped};

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

    /// A new protection tag.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// let (mine, theirs) = (nic.create_ptag().unwrap(), nic.create_ptag().unwrap());
    /// assert_ne!(mine, theirs);
    /// ```
    pub fn create_ptag(&mut self) -> Result<Ptag, NicError> {
        self.engine.shop.tags.insert(()).map(Ptag).ok_or(NicError::TooMany)
    }

    /// Frees a tag that nothing has.
    ///
    /// ```
    /// use barewire::via::{Nic, NicError};
    /// use barewire::core::{Config, Endpoint, job::Job};
    /// let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// let tag = nic.create_ptag().unwrap();
    /// nic.destroy_ptag(tag).unwrap();
    /// assert_eq!(nic.destroy_ptag(tag), Err(NicError::NoSuch));
    /// ```
    pub fn destroy_ptag(&mut self, tag: Ptag) -> Result<(), NicError> {
        let Engine { vis, shop, .. } = &mut self.engine;
        shop.tags.get(tag.0).ok_or(NicError::NoSuch)?;
        let used = vis.iter().any(|(_, entry)| entry.tag == tag)
            || shop.srqs.iter().any(|(_, entry)| entry.tag == tag)
            || shop.memories.iter().any(|(_, entry)| entry.tag == Some(tag));
        if used {
            return Err(NicError::InUse);
        }
        shop.tags.remove(tag.0);
        Ok(())
    }

    /// Frees a tag whatever has it: from now on no VI reaches the memory that had it, here or from elsewhere.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// let memory = nic.register(&Memory::private(8), tag, MemAttributes::default()).unwrap();
    /// assert_eq!(nic.destroy_ptag(tag), Err(NicError::InUse));
    /// assert_eq!(nic.revoke_ptag(tag), Ok(()));
    /// assert_eq!(nic.register(&Memory::private(8), tag, MemAttributes::default()), Err(NicError::NoSuch));
    /// ```
    pub fn revoke_ptag(&mut self, tag: Ptag) -> Result<(), NicError> {
        let Nic { core, engine, .. } = self;
        engine.shop.tags.remove(tag.0).ok_or(NicError::NoSuch)?;
        for (_, registered) in engine.shop.memories.iter_mut().filter(|(_, r)| r.tag == Some(tag)) {
            registered.tag = None;
            registered.keys.iter_mut().filter_map(Option::take).for_each(|key| {
                core.revoke(key);
            });
        }
        Ok(())
    }

    /// Registers memory under a tag. Descriptors name it by the handle; peers that shall write or read it are told
    /// [`MemHandle::remote`].
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
    /// let page = Memory::private(16);
    /// page.write(0, b"registered");
    /// let from = nic.register(&page, tag, MemAttributes::default()).unwrap();
    /// nic.post_receive(b, Descriptor::receive().segment(handle, 0, 16)).unwrap();
    /// nic.post_send(a, Descriptor::send().segment(from, 0, 10)).unwrap();
    /// assert_eq!(nic.receive_wait(b, None).unwrap().length, 10);
    /// ```
    pub fn register(
        &mut self,
        memory: &Memory,
        tag: Ptag,
        attributes: MemAttributes,
    ) -> Result<MemHandle, NicError> {
        let shop = &mut self.engine.shop;
        shop.tags.get(tag.0).ok_or(NicError::NoSuch)?;
        let MemAttributes { rdma_write, rdma_read } = attributes;
        let registered =
            Registered { memory: memory.clone(), tag: Some(tag), rdma_write, rdma_read, keys: [None; 2] };
        shop.memories.insert(registered).map(MemHandle).ok_or(NicError::TooMany)
    }

    /// Ends a registration. Descriptors that still name it end with [`Status::Protection`](super::Status::Protection).
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
    /// nic.deregister(handle).unwrap();
    /// nic.post_send(a, Descriptor::send().segment(handle, 0, 5)).unwrap();
    /// assert_eq!(nic.send_wait(a, None).unwrap().status, Status::Protection);
    /// assert_eq!(nic.deregister(handle), Err(NicError::NoSuch));
    /// ```
    pub fn deregister(&mut self, handle: MemHandle) -> Result<(), NicError> {
        let registered = self.engine.shop.memories.remove(handle.0).ok_or(NicError::NoSuch)?;
        for key in registered.keys.into_iter().flatten() {
            self.core.revoke(key);
        }
        Ok(())
    }

    /// The memory behind a handle.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// nic.memory(handle).unwrap().write(0, b"same");
    /// let mut bytes = [0; 4];
    /// memory.read(0, &mut bytes);
    /// assert_eq!(&bytes, b"same");
    /// ```
    pub fn memory(&self, handle: MemHandle) -> Option<&Memory> {
        self.engine.shop.memories.get(handle.0).map(|registered| &registered.memory)
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
                let flushed = descriptor.ended(super::Status::Flushed, 0);
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
                let flushed = descriptor.ended(super::Status::Flushed, 0);
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
                entry.sends.push_back(super::vi::Queued { descriptor, written: false });
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

    /// Waits for a completion.
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
    pub fn cq_wait(&mut self, cq: Cq, timeout: Option<Duration>) -> Result<Completion, WaitError> {
        self.wait("a completion", timeout, |nic| nic.cq_done(cq))
    }

    /// Waits for a send of a VI to end, if its send queue has no completion queue.
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
    pub fn send_wait(&mut self, vi: Vi, timeout: Option<Duration>) -> Result<Box<Descriptor>, WaitError> {
        self.wait("the end of a send", timeout, |nic| nic.send_done(vi))
    }

    /// Waits for a receive of a VI to end, if its receive queue has no completion queue.
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
    pub fn receive_wait(&mut self, vi: Vi, timeout: Option<Duration>) -> Result<Box<Descriptor>, WaitError> {
        self.wait("a message", timeout, |nic| nic.receive_done(vi))
    }

    /// Asks `peer`'s NIC for a connection, as a client; [`Nic::connect_done`] says what came of it.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// nic.connect_request(a, Peer(0), 80).unwrap();
    /// assert_eq!(nic.connect_done(a), None); // nobody has answered
    /// let request = nic.connect_wait(80, None).unwrap();
    /// nic.accept(request, b).unwrap();
    /// assert_eq!(nic.connected(a, None), Ok(()));
    /// ```
    pub fn connect_request(&mut self, vi: Vi, peer: Peer, discriminator: u64) -> Result<(), ConnectError> {
        self.engine.ask(&mut self.core, vi.0, peer, discriminator, Kind::Connect)
    }

    /// Asks `peer`'s NIC for a connection, as an equal: it stands when both have asked with the same discriminator.
    ///
    /// ```
    /// # use barewire::via::*;
    /// # barewire::spmd::launch(&[2], |endpoint| {
    /// # let mut nic = Nic::new(endpoint);
    /// # let other = barewire::core::Peer(1 - nic.core().me().0);
    /// # let tag = nic.create_ptag().unwrap();
    /// # let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
    /// nic.connect_peer_request(vi, other, 9)?;
    /// let answer = nic.wait("the other", None, |nic| nic.connect_done(vi))?;
    /// assert_eq!(answer, Ok(()));
    /// # Ok::<_, ConnectError>(())
    /// # }).unwrap();
    /// ```
    pub fn connect_peer_request(
        &mut self,
        vi: Vi,
        peer: Peer,
        discriminator: u64,
    ) -> Result<(), ConnectError> {
        self.engine.ask(&mut self.core, vi.0, peer, discriminator, Kind::Meet)
    }

    /// What came of asking for a connection; `None` while nobody has answered. Told once.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// nic.connect_request(a, Peer(0), 80).unwrap();
    /// let request = nic.connect_wait(80, None).unwrap();
    /// nic.reject(request).unwrap();
    /// let answer = nic.wait("an answer", None, |nic| nic.connect_done(a)).unwrap();
    /// assert_eq!((answer, nic.connect_done(a)), (Err(ConnectError::Rejected), None)); // told once
    /// ```
    pub fn connect_done(&mut self, vi: Vi) -> Option<Result<(), ConnectError>> {
        match self.engine.vis.get_mut(vi.0) {
            None => Some(Err(ConnectError::NoSuch)),
            Some(ViEntry { state: ViState::Error(_), verdict: None, peer, .. }) => {
                Some(Err(barewire_core::SendError::Lost(*peer).into()))
            }
            Some(entry) => entry.verdict.take(),
        }
    }

    /// Connects as a client, waiting for the server's answer.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # use barewire::via::*;
    /// # let mut jobs = Job::threads(2).unwrap().into_iter();
    /// # let open = |job| Nic::new(Endpoint::open(job, Config::default()).unwrap());
    /// # let (first, second) = (jobs.next().unwrap(), jobs.next().unwrap());
    /// let server = std::thread::spawn(move || {
    ///     let mut nic = open(first);
    ///     let tag = nic.create_ptag().unwrap();
    ///     let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
    ///     let request = nic.connect_wait(80, None).unwrap();
    ///     nic.accept(request, vi).unwrap();
    ///     nic.wait("the client's end", None, Nic::next_fault).unwrap();
    /// });
    /// let mut nic = open(second);
    /// let tag = nic.create_ptag().unwrap();
    /// let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
    /// assert_eq!(nic.connect(vi, Peer(0), 80, None), Ok(()));
    /// nic.disconnect(vi).unwrap();
    /// server.join().unwrap();
    /// ```
    pub fn connect(
        &mut self,
        vi: Vi,
        peer: Peer,
        discriminator: u64,
        timeout: Option<Duration>,
    ) -> Result<(), ConnectError> {
        self.connect_request(vi, peer, discriminator)?;
        self.connected(vi, timeout)
    }

    /// Connects as an equal, waiting for the other.
    ///
    /// ```
    /// # use barewire::via::*;
    /// # barewire::spmd::launch(&[2], |endpoint| {
    /// # let mut nic = Nic::new(endpoint);
    /// # let other = barewire::core::Peer(1 - nic.core().me().0);
    /// # let tag = nic.create_ptag().unwrap();
    /// # let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
    /// assert_eq!(nic.connect_peer(vi, other, 9, None), Ok(())); // both do the same
    /// # Ok::<_, ConnectError>(())
    /// # }).unwrap();
    /// ```
    pub fn connect_peer(
        &mut self,
        vi: Vi,
        peer: Peer,
        discriminator: u64,
        timeout: Option<Duration>,
    ) -> Result<(), ConnectError> {
        self.connect_peer_request(vi, peer, discriminator)?;
        self.connected(vi, timeout)
    }

    /// Waits for what comes of asking for a connection; if the time is up, the request is withdrawn.
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
    /// nic.connect_request(a, Peer(0), 80).unwrap();
    /// assert_eq!(nic.connected(a, Some(Duration::from_millis(5))), Err(ConnectError::NoMatch));
    /// assert_eq!(nic.state(a), Ok(ViState::Idle)); // the request is withdrawn
    /// ```
    pub fn connected(&mut self, vi: Vi, timeout: Option<Duration>) -> Result<(), ConnectError> {
        match self.wait("a connection", timeout, |nic| nic.connect_done(vi)) {
            Ok(verdict) => verdict,
            Err(WaitError::TimedOut) => {
                self.engine.withdraw(&mut self.core, vi.0);
                self.connect_done(vi).unwrap_or(Err(ConnectError::NoMatch))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The next client's request for a discriminator, if one has come.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// assert_eq!(nic.connect_request_done(80), None);
    /// nic.connect_request(a, Peer(0), 80).unwrap();
    /// let request = nic.wait("a client", None, |nic| nic.connect_request_done(80)).unwrap();
    /// assert_eq!(request.from, Peer(0));
    /// ```
    pub fn connect_request_done(&mut self, discriminator: u64) -> Option<Request> {
        self.engine.calls.take(discriminator)
    }

    /// Waits for a client's request for a discriminator.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// nic.connect_request(a, Peer(0), 81).unwrap();
    /// nic.connect_request(b, Peer(0), 80).unwrap();
    /// assert_eq!(nic.connect_wait(80, None).unwrap().discriminator, 80); // not the one that came first
    /// ```
    pub fn connect_wait(
        &mut self,
        discriminator: u64,
        timeout: Option<Duration>,
    ) -> Result<Request, WaitError> {
        self.wait("a client", timeout, |nic| nic.connect_request_done(discriminator))
    }

    /// The next peer that asks to be connected as an equal and that nobody here has asked for: who, and the discriminator.
    /// Asking for the same connects.
    ///
    /// ```
    /// # use barewire::via::*;
    /// # barewire::spmd::launch(&[2], |endpoint| {
    /// # let mut nic = Nic::new(endpoint);
    /// # let other = barewire::core::Peer(1 - nic.core().me().0);
    /// # let tag = nic.create_ptag().unwrap();
    /// # let vi = nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap();
    /// if nic.core().me().0 == 0 {
    ///     nic.connect_peer(vi, other, 77, None)?;
    /// } else {
    ///     let (peer, discriminator) = nic.wait("a peer", None, Nic::next_peer_request)?;
    ///     assert_eq!((peer, discriminator), (other, 77));
    ///     nic.connect_peer(vi, peer, discriminator, None)?;
    /// }
    /// # Ok::<_, ConnectError>(())
    /// # }).unwrap();
    /// ```
    pub fn next_peer_request(&mut self) -> Option<(Peer, u64)> {
        self.engine.calls.news.pop_front()
    }

    /// Accepts a client's request on an idle VI.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// nic.connect_request(a, Peer(0), 80).unwrap();
    /// let request = nic.connect_wait(80, None).unwrap();
    /// assert_eq!(nic.accept(request, a), Err(ConnectError::NotIdle)); // it is the one that asks
    /// let request = nic.connect_request_done(80).unwrap_or(request);
    /// assert_eq!(nic.accept(request, b), Ok(()));
    /// ```
    pub fn accept(&mut self, request: Request, vi: Vi) -> Result<(), ConnectError> {
        self.engine.accept(&mut self.core, vi.0, request)
    }

    /// Rejects a client's request.
    ///
    /// ```
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
    /// # use barewire::via::*;
    /// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
    /// # let tag = nic.create_ptag().unwrap();
    /// # let memory = Memory::private(100);
    /// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
    /// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
    /// nic.connect_request(a, Peer(0), 80).unwrap();
    /// let request = nic.connect_wait(80, None).unwrap();
    /// nic.reject(request).unwrap();
    /// assert_eq!(nic.connected(a, None), Err(ConnectError::Rejected));
    /// ```
    pub fn reject(&mut self, request: Request) -> Result<(), ConnectError> {
        self.engine.reject(&mut self.core, request)
    }

    /// Ends a VI's connection, or clears its error. Everything posted comes back as flushed, and the VI is idle.
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
    /// nic.disconnect(b).unwrap();
    /// assert_eq!(nic.receive_done(b).unwrap().status, Status::Flushed);
    /// assert_eq!(nic.state(b), Ok(ViState::Idle));
    /// ```
    pub fn disconnect(&mut self, vi: Vi) -> Result<(), NicError> {
        self.engine.vis.get(vi.0).ok_or(NicError::NoSuch)?;
        self.engine.hang_up(&mut self.core, vi.0);
        Ok(())
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
