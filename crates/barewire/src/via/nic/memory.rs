//! Protection tags and registered memory.

use barewire_core::region::Memory;

use super::super::engine::{Engine, Registered};
use super::super::errors::NicError;
use super::super::names::{MemAttributes, MemHandle, Ptag};
use super::Nic;

impl Nic {
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

    /// Ends a registration. Descriptors that still name it end with [`Status::Protection`](crate::via::Status::Protection).
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
}
