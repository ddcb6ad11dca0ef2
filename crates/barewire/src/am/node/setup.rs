//! What an endpoint is like: its tag, its segment, its handlers and its translations.

use barewire_sys::memory::Memory;

use super::super::context::{Ctx, medium_of};
use super::super::link::Wire;
use super::super::names::{Ep, Name, TableError, Tag};
use super::super::side::Slot;
use super::Node;

/// Handlers of an endpoint, and translations.
const TABLE_MAX: usize = 256;
/// Most outstanding requests a translation can have: their numbers have 16 bits and must not come round.
const OUTSTANDING_MAX: u16 = 1 << 14;

impl<S> Node<S> {
    /// Sets the tag that requests to the endpoint must carry. Whoever has only the old one is shut out at once.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 0, |ctx, _| ctx.state.push("came back")).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| ctx.state.push("let in")).unwrap();
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// while node.poll(bundle) > 0 {}
    /// node.set_tag(ep, Tag(6)).unwrap(); // whoever has the old one is out
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(*node.state(), ["let in", "came back"]);
    /// ```
    pub fn set_tag(&mut self, ep: Ep, tag: Tag) -> Result<(), TableError> {
        self.side(ep)?.tag = tag;
        self.wire.close_segment(ep.0);
        Ok(())
    }

    /// The endpoint's tag.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_tag(ep, Tag(31)).unwrap();
    /// assert_eq!(node.tag(ep), Ok(Tag(31)));
    /// ```
    pub fn tag(&self, ep: Ep) -> Result<Tag, TableError> {
        Ok(self.entry(ep)?.side.tag)
    }

    /// Sets the memory that bulk transfers to the endpoint go to.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// let memory = Memory::shared(64).unwrap();
    /// node.set_seg(ep, memory.clone()).unwrap();
    /// node.set_handler(ep, 1, |_, _| {}).unwrap();
    /// node.request_xfer(ep, 0, 1, &[], 60, b"last").unwrap();
    /// while node.poll(bundle) > 0 {}
    /// let mut there = [0; 4];
    /// memory.read(60, &mut there);
    /// assert_eq!(&there, b"last");
    /// ```
    pub fn set_seg(&mut self, ep: Ep, segment: Memory) -> Result<(), TableError> {
        self.side(ep)?.segment = Some(segment);
        self.wire.close_segment(ep.0);
        Ok(())
    }

    /// The endpoint's segment, if it has one.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// assert!(node.seg(ep).unwrap().is_none());
    /// node.set_seg(ep, Memory::private(64)).unwrap();
    /// assert_eq!(node.seg(ep).unwrap().unwrap().len(), 64);
    /// ```
    pub fn seg(&self, ep: Ep) -> Result<Option<&Memory>, TableError> {
        Ok(self.entry(ep)?.side.segment.as_ref())
    }

    /// Sets how many requests the endpoint may have outstanding through each translation (default 64), and from how many endpoints
    /// (default 16) as many may wait here while the bundle is not polled; what goes beyond comes back as
    /// [`Code::Congestion`](crate::am::Code::Congestion).
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |_, _| {}).unwrap();
    /// node.set_expected_resources(ep, 1, 2).unwrap();
    /// assert_eq!(node.try_request(ep, 0, 1, &[]), Ok(()));
    /// assert_eq!(node.try_request(ep, 0, 1, &[]), Ok(()));
    /// assert_eq!(node.try_request(ep, 0, 1, &[]), Err(RequestError::WouldBlock)); // two are outstanding
    /// ```
    pub fn set_expected_resources(
        &mut self,
        ep: Ep,
        endpoints: usize,
        outstanding: u16,
    ) -> Result<(), TableError> {
        if endpoints == 0 || outstanding == 0 || outstanding > OUTSTANDING_MAX {
            return Err(TableError::Resources);
        }
        self.side(ep)?.expect(endpoints, outstanding);
        Ok(())
    }

    /// Sets a handler, in the place of what was there. Handler 0 gets messages that come back; requests cannot name it.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| ctx.state.push("first")).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| ctx.state.push("second")).unwrap(); // in its place
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// node.poll(bundle);
    /// assert_eq!(*node.state(), ["second"]);
    /// ```
    pub fn set_handler(
        &mut self,
        ep: Ep,
        index: u8,
        handler: impl FnMut(&mut Ctx<'_, S>, &[u64]) + Send + 'static,
    ) -> Result<(), TableError> {
        let entry = self.entry_mut(ep)?;
        let index = usize::from(index);
        if index == 0 {
            entry.on_return = Some(Box::new(handler));
            return Ok(());
        }
        if entry.handlers.len() <= index {
            entry.handlers.resize_with(index + 1, || None);
        }
        entry.handlers[index] = Some(Box::new(handler));
        Ok(())
    }

    /// Sets a handler at any free index, and says which.
    ///
    /// ```
    /// # use barewire::am::Node;
    /// # use barewire::core::{Config, Endpoint, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), ());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// let ep = node.allocate_endpoint(bundle).unwrap();
    /// let first = node.set_handler_any(ep, |_, _| {}).unwrap();
    /// let second = node.set_handler_any(ep, |_, _| {}).unwrap();
    /// assert_ne!(first, second);
    /// ```
    pub fn set_handler_any(
        &mut self,
        ep: Ep,
        handler: impl FnMut(&mut Ctx<'_, S>, &[u64]) + Send + 'static,
    ) -> Result<u8, TableError> {
        let handlers = &self.entry(ep)?.handlers;
        let is_free = |&index: &usize| !matches!(handlers.get(index), Some(Some(_)));
        let index = (1..TABLE_MAX).find(is_free).ok_or(TableError::NoHandler)? as u8;
        self.set_handler(ep, index, handler)?;
        Ok(index)
    }

    /// Makes `index` stand for somebody's endpoint, and for the tag to send to it. Unmap it before mapping it anew.
    ///
    /// ```
    /// # use barewire::am::{Node, TableError, Tag};
    /// # use barewire::core::{Config, Endpoint, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), ());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// let ep = node.allocate_endpoint(bundle).unwrap();
    /// let name = node.name(ep);
    /// node.map(ep, 255, name, Tag(7)).unwrap();
    /// assert_eq!(node.translation(ep, 255), Ok((name, Tag(7))));
    /// assert_eq!(node.map(ep, 255, name, Tag(8)), Err(TableError::Mapped(255)));
    /// node.unmap(ep, 255).unwrap();
    /// assert_eq!(node.translation(ep, 255), Err(TableError::NotMapped(255)));
    /// ```
    pub fn map(&mut self, ep: Ep, index: u8, name: Name, tag: Tag) -> Result<(), TableError> {
        let side = self.side(ep)?;
        if side.slot(index).is_some() {
            return Err(TableError::Mapped(index));
        }
        side.map(index, name, tag);
        Ok(())
    }

    /// Maps any free translation, and says which.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// let name = node.name(ep);
    /// let (first, second) = (node.map_any(ep, name, Tag(5)).unwrap(), node.map_any(ep, name, Tag(5)).unwrap());
    /// assert_eq!((first, second), (1, 2)); // 0 is mapped here
    /// ```
    pub fn map_any(&mut self, ep: Ep, name: Name, tag: Tag) -> Result<u8, TableError> {
        let slots = &self.entry(ep)?.side.slots;
        let is_free = |&index: &usize| slots.get(index).is_none_or(|slot| !slot.mapped);
        let index = (0..TABLE_MAX).find(is_free).ok_or(TableError::Mapped(u8::MAX))? as u8;
        self.map(ep, index, name, tag)?;
        Ok(index)
    }

    /// Ends a translation. Replies that were still to come through it go back to their senders.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.unmap(ep, 0).unwrap();
    /// assert_eq!(node.unmap(ep, 0), Err(TableError::NotMapped(0)));
    /// assert_eq!(node.request(ep, 0, 1, &[]), Err(RequestError::NotMapped(0)));
    /// ```
    pub fn unmap(&mut self, ep: Ep, index: u8) -> Result<(), TableError> {
        match self.side(ep)?.slot(index) {
            None => Err(TableError::NotMapped(index)),
            Some(slot) if slot.is_busy() => Err(TableError::Busy(index)),
            Some(slot) => {
                slot.unmap();
                Ok(())
            }
        }
    }

    /// What a translation stands for: the endpoint's name, and the tag that is sent to it.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// let far = Name { peer: Peer(3), index: 7 };
    /// node.map(ep, 200, far, Tag(9)).unwrap();
    /// assert_eq!(node.translation(ep, 200), Ok((far, Tag(9))));
    /// ```
    pub fn translation(&self, ep: Ep, index: u8) -> Result<(Name, Tag), TableError> {
        self.slot(ep, index).map(|slot| (slot.name, slot.tag))
    }

    /// Requests through a translation that have not been acknowledged.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| ctx.reply(2, &[]).unwrap()).unwrap();
    /// node.set_handler(ep, 2, |_, _| {}).unwrap();
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// assert_eq!(node.outstanding(ep, 0), Ok(1));
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(node.outstanding(ep, 0), Ok(0)); // the reply is here
    /// ```
    pub fn outstanding(&self, ep: Ep, index: u8) -> Result<u16, TableError> {
        self.slot(ep, index).map(Slot::outstanding)
    }

    /// Whether an asynchronous transfer through the translation is still on its way out of its memory.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_seg(ep, Memory::shared(1 << 20).unwrap()).unwrap();
    /// node.set_handler(ep, 1, |_, _| {}).unwrap();
    /// let source = Memory::private(1 << 20);
    /// node.request_xfer_async(ep, 0, 1, &[], 0, (&source, 0..1 << 20)).unwrap();
    /// while node.is_sending(ep, 0).unwrap() {
    ///     node.poll(bundle);
    /// }
    /// source.write(0, b"now it may change");
    /// ```
    pub fn is_sending(&self, ep: Ep, index: u8) -> Result<bool, TableError> {
        self.slot(ep, index).map(Slot::is_busy)
    }

    /// The longest data of a medium message through a translation: at least 512 bytes.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// let most = node.medium_max(ep, 0).unwrap();
    /// assert!(most >= 512);
    /// node.set_handler(ep, 1, |_, _| {}).unwrap();
    /// assert!(node.request_medium(ep, 0, 1, &[], &vec![0; most]).is_ok());
    /// assert!(node.request_medium(ep, 0, 1, &[], &vec![0; most + 1]).is_err());
    /// ```
    pub fn medium_max(&self, ep: Ep, index: u8) -> Result<usize, TableError> {
        let max = |peer| match &self.wire {
            Wire::Core(core) => core.message_max(peer),
            Wire::Via(carrier) => carrier.message_max(),
        };
        self.slot(ep, index).map(|slot| medium_of(max(slot.name.peer)))
    }
}
