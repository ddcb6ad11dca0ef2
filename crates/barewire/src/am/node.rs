//! The node: one endpoint of the core, the bundles and endpoints on it, and their tables.

use std::time::Duration;

use barewire_core::{Endpoint, Stats};

use super::context::Body;
use super::link::{Link, Wire};
use super::names::{Bundle, Code, Ep, EventMask, Name, TableError, WaitError};
use super::over_via::{Carrier, ViaConfig};
use super::side::{Side, Slot};
use super::tables::{Backlog, EpEntry, NOBODY, Tables};
use crate::registered::CacheCounters;

mod setup;

/// One thread's active messages: an endpoint of the core, with the bundles and endpoints on it, and a state for handlers.
///
/// The state is whatever the handlers work on; they find it as [`Ctx::state`](super::Ctx::state), everybody else as [`Node::state`].
/// A node is used by one thread at a time, which makes its bundles *sequential*; [`Par`](super::Par) is for several.
///
/// ```
/// use barewire::am::{Node, Tag};
/// use barewire::core::{Config, Endpoint, job::Job};
///
/// let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), String::new());
/// let bundle = node.allocate_bundle().unwrap();
/// let ep = node.allocate_endpoint(bundle).unwrap();
/// node.set_tag(ep, Tag(99)).unwrap(); // until now it accepted nothing
/// node.set_handler(ep, 1, |ctx, args| *ctx.state += &format!("got {args:?}")).unwrap();
/// node.map(ep, 0, node.name(ep), Tag(99)).unwrap();
/// node.request(ep, 0, 1, &[1, 2, 3]).unwrap();
/// node.poll(bundle);
/// assert_eq!(node.state(), "got [1, 2, 3]");
/// ```
#[derive(Debug)]
pub struct Node<S> {
    pub(super) wire: Wire,
    pub(super) tables: Tables<S>,
}

impl<S> Node<S> {
    /// A node on an endpoint of the core, which it takes over, with the state that its handlers work on.
    ///
    /// ```
    /// use barewire::am::Node;
    /// use barewire::core::{Config, Endpoint, job::Job};
    /// let node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), vec![1, 2]);
    /// assert_eq!(*node.state(), [1, 2]);
    /// ```
    pub fn new(core: Endpoint, state: S) -> Node<S> {
        let tables = Tables {
            state,
            eps: Vec::new(),
            bundles: Vec::new(),
            polled: NOBODY,
            watched: NOBODY,
            backlog: Backlog::default(),
            open: Vec::new(),
        };
        Node { wire: Wire::Core(core), tables }
    }

    /// A node whose messages are carried by virtual interfaces, as in the study of what that costs: one VI and one pool of credits for each
    /// pair of endpoints that talk, a send and a receive for every message that can be on its way, and RDMA for bulk data. All
    /// nodes of a job must be carried alike.
    ///
    /// Bulk data does not wait for handlers: a transfer may overwrite what an earlier one has put into the same place before that
    /// one's handler runs. Between nodes that trust each other only: whoever is connected to an endpoint can write to its
    /// segment while that is open to somebody.
    ///
    /// ```
    /// use barewire::am::{Node, Tag, ViaConfig};
    /// use barewire::core::{Config, Endpoint, job::Job};
    ///
    /// let core = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let mut node = Node::over_via(core, ViaConfig::default(), 0);
    /// let bundle = node.allocate_bundle().unwrap();
    /// let ep = node.allocate_endpoint(bundle).unwrap();
    /// node.set_tag(ep, Tag(99)).unwrap();
    /// node.set_handler(ep, 1, |ctx, args| *ctx.state += args[0]).unwrap();
    /// node.map(ep, 0, node.name(ep), Tag(99)).unwrap();
    /// node.request(ep, 0, 1, &[42]).unwrap();
    /// node.wait(bundle, None, |sum| *sum == 42).unwrap();
    /// ```
    pub fn over_via(core: Endpoint, config: ViaConfig, state: S) -> Node<S> {
        let Node { tables, wire } = Node::new(core, state);
        let wire = match wire {
            Wire::Core(core) => Wire::Via(Box::new(Carrier::new(core, config))),
            wire => wire,
        };
        Node { wire, tables }
    }

    /// The NIC that carries the messages, if one does, to look at.
    ///
    /// ```
    /// # use barewire::am::{Node, ViaConfig};
    /// # use barewire::core::{Config, Endpoint, job::Job};
    /// # let core = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let node = Node::over_via(core, ViaConfig::default(), ());
    /// assert_eq!(node.nic().unwrap().counters().sends, 0);
    /// ```
    pub fn nic(&self) -> Option<&crate::via::Nic> {
        match &self.wire {
            Wire::Core(_) => None,
            Wire::Via(carrier) => Some(carrier.nic()),
        }
    }

    /// What the cache of registered sources did, if a NIC carries the messages.
    ///
    /// ```
    /// # use barewire::am::{Node, ViaConfig};
    /// # use barewire::core::{Config, Endpoint, job::Job};
    /// # let core = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let node = Node::new(core, ());
    /// assert_eq!(node.cache_counters(), None); // the core needs no registration
    /// ```
    pub fn cache_counters(&self) -> Option<CacheCounters> {
        match &self.wire {
            Wire::Core(_) => None,
            Wire::Via(carrier) => Some(carrier.cache_counters()),
        }
    }

    /// The handlers' state.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, args| *ctx.state += args[0]).unwrap();
    /// node.request(ep, 0, 1, &[30]).unwrap();
    /// node.request(ep, 0, 1, &[12]).unwrap();
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(*node.state(), 42);
    /// ```
    pub fn state(&self) -> &S {
        &self.tables.state
    }

    /// The handlers' state, to change.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| *ctx.state *= 2).unwrap();
    /// *node.state_mut() = 8;
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// node.poll(bundle);
    /// assert_eq!(*node.state(), 16);
    /// ```
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.tables.state
    }

    /// The endpoint of the core, to look at.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// assert_eq!((node.core().me(), node.core().size()), (Peer(0), 1));
    /// ```
    pub fn core(&self) -> &Endpoint {
        self.wire.core()
    }

    /// The endpoint of the core back, for another layer; bundles and handlers are gone, and so are messages under way.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// let again = Node::new(node.into_core(), "another layer");
    /// assert_eq!(again.core().size(), 1);
    /// ```
    pub fn into_core(self) -> Endpoint {
        match self.wire {
            Wire::Core(core) => core,
            Wire::Via(carrier) => carrier.into_core(),
        }
    }

    /// What passed over the wire.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// let before = node.stats().sent;
    /// node.set_handler(ep, 1, |_, _| {}).unwrap();
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// assert!(node.stats().sent > before);
    /// ```
    pub fn stats(&self) -> Stats {
        self.wire.core().stats()
    }

    /// Packets that made no sense, and returned messages for which no handler 0 was set.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.request(ep, 0, 99, &[]).unwrap(); // no handler 99, and no handler 0 for what comes back
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(node.dropped(), 1);
    /// ```
    pub fn dropped(&self) -> u64 {
        self.tables.backlog.dropped
    }

    /// A new, empty bundle.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// let (a, b) = (node.allocate_bundle().unwrap(), node.allocate_bundle().unwrap());
    /// assert_ne!(a, b);
    /// ```
    pub fn allocate_bundle(&mut self) -> Result<Bundle, TableError> {
        let index = u16::try_from(self.tables.bundles.len()).ok().filter(|&index| index != NOBODY);
        self.tables.bundles.push(Some(EventMask::None));
        index.map(Bundle).ok_or(TableError::NoNames)
    }

    /// Frees a bundle and its endpoints.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.free_bundle(bundle).unwrap();
    /// assert_eq!(node.free_bundle(bundle), Err(TableError::NoSuchBundle));
    /// assert_eq!(node.tag(ep), Err(TableError::NoSuchEndpoint)); // it went too
    /// ```
    pub fn free_bundle(&mut self, bundle: Bundle) -> Result<(), TableError> {
        *self.bundle(bundle)? = EventMask::None;
        self.tables.bundles[usize::from(bundle.0)] = None;
        let of_bundle =
            |ep: &Option<Box<EpEntry<S>>>| ep.as_ref().is_some_and(|ep| ep.side.bundle == bundle.0);
        let doomed: Vec<u16> = (0..self.tables.eps.len())
            .filter(|&i| of_bundle(&self.tables.eps[i]))
            .map(|i| i as u16)
            .collect();
        doomed.into_iter().try_for_each(|index| self.free_endpoint(Ep(index)))
    }

    /// A new endpoint in a bundle. It accepts nothing until it gets a tag.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 0, |ctx, _| ctx.state.push(ctx.returned().unwrap().code)).unwrap();
    /// let newcomer = node.allocate_endpoint(bundle).unwrap();
    /// node.map(ep, 1, node.name(newcomer), Tag(5)).unwrap();
    /// node.request(ep, 1, 1, &[]).unwrap();
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(*node.state(), [Code::BadTag]); // it has none yet
    /// ```
    pub fn allocate_endpoint(&mut self, bundle: Bundle) -> Result<Ep, TableError> {
        self.bundle(bundle)?;
        let index = u16::try_from(self.tables.eps.len()).map_err(|_| TableError::NoNames)?;
        let side = Side::new(index, bundle.0);
        self.tables.eps.push(Some(Box::new(EpEntry { side, handlers: Vec::new(), on_return: None })));
        Ok(Ep(index))
    }

    /// Frees an endpoint. Messages for it come back to their senders, those that wait too; its name is not used again.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 0, |ctx, _| ctx.state.push(ctx.returned().unwrap().code)).unwrap();
    /// let other = node.allocate_endpoint(bundle).unwrap();
    /// node.map(ep, 1, node.name(other), Tag::ALL).unwrap();
    /// node.free_endpoint(other).unwrap();
    /// node.request(ep, 1, 1, &[]).unwrap();
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(*node.state(), [Code::BadEndpoint]);
    /// ```
    pub fn free_endpoint(&mut self, ep: Ep) -> Result<(), TableError> {
        let waiting = std::mem::take(&mut self.side(ep)?.queue);
        self.tables.backlog.queued -= waiting.len();
        self.tables.eps[usize::from(ep.0)] = None;
        self.wire.close_segment(ep.0);
        for (parcel, data) in waiting {
            self.tables.give_back(&mut self.wire.link(), &parcel, Body::Kept(&data), Code::BadEndpoint);
        }
        Ok(())
    }

    /// Moves an endpoint to another bundle of the node, with the messages that wait for it. Its name stays the same.
    ///
    /// ```
    /// # use barewire::am::{Node, Tag};
    /// # use barewire::core::{Config, Endpoint, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0);
    /// let (a, b) = (node.allocate_bundle().unwrap(), node.allocate_bundle().unwrap());
    /// let ep = node.allocate_endpoint(a).unwrap();
    /// # node.set_tag(ep, Tag::ALL).unwrap();
    /// # node.set_handler(ep, 1, |ctx, _| *ctx.state += 1).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag::ALL).unwrap();
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// node.poll(b);
    /// assert_eq!(*node.state(), 0); // its bundle was not polled
    /// node.move_endpoint(ep, b).unwrap();
    /// node.poll(b);
    /// assert_eq!(*node.state(), 1);
    /// ```
    pub fn move_endpoint(&mut self, ep: Ep, to: Bundle) -> Result<(), TableError> {
        self.bundle(to)?;
        self.side(ep)?.bundle = to.0;
        Ok(())
    }

    /// The bundle that an endpoint is in.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// let other = node.allocate_bundle().unwrap();
    /// assert_eq!(node.bundle_of(ep), Ok(bundle));
    /// node.move_endpoint(ep, other).unwrap();
    /// assert_eq!(node.bundle_of(ep), Ok(other));
    /// ```
    pub fn bundle_of(&self, ep: Ep) -> Result<Bundle, TableError> {
        Ok(Bundle(self.entry(ep)?.side.bundle))
    }

    /// What the whole job calls the endpoint.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// assert_eq!(node.name(ep).to_string(), "0.0"); // the first endpoint of node 0
    /// ```
    pub fn name(&self, ep: Ep) -> Name {
        Name { peer: self.wire.core().me(), index: ep.0 }
    }

    /// Runs the handlers of what has arrived for the bundle's endpoints. Never waits. Says how many packets it took.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| *ctx.state += 1).unwrap();
    /// assert_eq!(node.poll(bundle), 0);
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// assert!(node.poll(bundle) > 0);
    /// assert_eq!(*node.state(), 1);
    /// ```
    #[inline]
    pub fn poll(&mut self, bundle: Bundle) -> usize {
        let took = self.advance(bundle);
        self.wire.looked(took);
        took
    }

    #[inline]
    fn advance(&mut self, bundle: Bundle) -> usize {
        self.tables.polled = bundle.0;
        let mut took = 0;
        if self.tables.is_behind() {
            took = self.tables.work_off(&mut self.wire.link());
        }
        took += self.wire.progress(&mut self.tables);
        if !self.tables.backlog.out.is_empty() {
            self.tables.pump(&mut self.wire.link());
        }
        took
    }

    /// Sets which events of a bundle [`Node::wait_sema`] wakes for.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// use std::time::Duration;
    /// node.set_event_mask(bundle, EventMask::NotEmpty).unwrap();
    /// assert_eq!(node.wait_sema(bundle, Some(Duration::from_millis(1))), Err(WaitError::TimedOut));
    /// ```
    pub fn set_event_mask(&mut self, bundle: Bundle, mask: EventMask) -> Result<(), TableError> {
        *self.bundle(bundle)? = mask;
        Ok(())
    }

    /// The bundle's event mask.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// assert_eq!(node.event_mask(bundle), Ok(EventMask::None)); // of a new bundle
    /// node.set_event_mask(bundle, EventMask::NotEmpty).unwrap();
    /// assert_eq!(node.event_mask(bundle), Ok(EventMask::NotEmpty));
    /// ```
    pub fn event_mask(&self, bundle: Bundle) -> Result<EventMask, TableError> {
        let mask = self.tables.bundles.get(usize::from(bundle.0)).copied().flatten();
        mask.ok_or(TableError::NoSuchBundle)
    }

    /// Sleeps until an endpoint of the bundle has a message, and runs none: poll for that. `None` waits for ever.
    ///
    /// ```
    /// use barewire::am::{EventMask, Node, WaitError};
    /// use barewire::core::{Config, Endpoint, job::Job};
    /// use std::time::Duration;
    /// let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), ());
    /// let bundle = node.allocate_bundle().unwrap();
    /// assert_eq!(node.wait_sema(bundle, None), Err(WaitError::NoEvents));
    /// node.set_event_mask(bundle, EventMask::NotEmpty).unwrap();
    /// assert_eq!(node.wait_sema(bundle, Some(Duration::from_millis(5))), Err(WaitError::TimedOut));
    /// ```
    pub fn wait_sema(&mut self, bundle: Bundle, timeout: Option<Duration>) -> Result<(), WaitError> {
        match self.event_mask(bundle) {
            Err(_) => return Err(WaitError::NoSuchBundle),
            Ok(EventMask::None) => return Err(WaitError::NoEvents),
            Ok(EventMask::NotEmpty) => {}
        }
        self.tables.watched = bundle.0;
        let waited = self.wait_until(NOBODY, timeout, |_, tables| tables.has_messages(bundle.0));
        self.tables.watched = NOBODY;
        waited
    }

    /// Polls the bundle until `done` says so, sleeping when there is nothing to do. `None` waits for ever.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, args| ctx.reply(2, &[args[0] + 1]).unwrap()).unwrap();
    /// node.set_handler(ep, 2, |ctx, args| *ctx.state = args[0]).unwrap();
    /// node.request(ep, 0, 1, &[41]).unwrap();
    /// assert_eq!(node.wait(bundle, None, |answer| *answer == 42), Ok(()));
    /// ```
    pub fn wait(
        &mut self,
        bundle: Bundle,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut S) -> bool,
    ) -> Result<(), WaitError> {
        self.bundle(bundle).map_err(|_| WaitError::NoSuchBundle)?;
        self.wait_until(bundle.0, timeout, |_, tables| done(&mut tables.state))
    }

    /// Takes what has arrived without running any of it, up to the first message for `bundle`.
    pub(super) fn gather(&mut self, bundle: Bundle) {
        self.tables.watched = bundle.0;
        self.advance(Bundle(NOBODY));
        self.tables.watched = NOBODY;
    }

    /// Runs the handlers of one bundle, and sends what waits to go out, until `done`.
    pub(super) fn wait_until(
        &mut self,
        bundle: u16,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut Link<'_>, &mut Tables<S>) -> bool,
    ) -> Result<(), WaitError> {
        self.tables.polled = bundle;
        let waited = self.wire.wait(&mut self.tables, timeout, |core, tables| {
            if tables.is_behind() {
                tables.work_off(core);
            }
            done(core, tables)
        });
        waited.map_err(|error| match error {
            barewire_core::WaitError::TimedOut => WaitError::TimedOut,
            _ => WaitError::Forked,
        })
    }

    fn bundle(&mut self, bundle: Bundle) -> Result<&mut EventMask, TableError> {
        let mask = self.tables.bundles.get_mut(usize::from(bundle.0));
        mask.and_then(Option::as_mut).ok_or(TableError::NoSuchBundle)
    }

    fn slot(&self, ep: Ep, index: u8) -> Result<&Slot, TableError> {
        let slot = self.entry(ep)?.side.slots.get(usize::from(index));
        slot.filter(|slot| slot.mapped).ok_or(TableError::NotMapped(index))
    }

    fn entry(&self, ep: Ep) -> Result<&EpEntry<S>, TableError> {
        let entry = self.tables.eps.get(usize::from(ep.0)).and_then(Option::as_deref);
        entry.ok_or(TableError::NoSuchEndpoint)
    }

    fn entry_mut(&mut self, ep: Ep) -> Result<&mut EpEntry<S>, TableError> {
        let entry = self.tables.eps.get_mut(usize::from(ep.0)).and_then(Option::as_deref_mut);
        entry.ok_or(TableError::NoSuchEndpoint)
    }

    fn side(&mut self, ep: Ep) -> Result<&mut Side, TableError> {
        self.entry_mut(ep).map(|entry| &mut entry.side)
    }
}
