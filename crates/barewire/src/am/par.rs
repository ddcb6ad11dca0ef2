//! A node that several threads share.
//!
//! One lock around the node, never held while somebody sleeps. Of the threads that wait, one sleeps on the wire's descriptor
//! and the others on a condition; whoever uses the node meanwhile wakes them to look again.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use barewire_sys::rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use barewire_sys::rustix::io;

use super::names::{Bundle, Ep, EventMask, RequestError, WaitError};
use super::node::Node;
use super::tables::NOBODY;
use crate::deadline::Deadline;

/// A node that several threads share: a *parallel* bundle, or several. Clone it for each of them.
///
/// Handlers run on whichever thread polls, one at a time.
///
/// ```
/// use barewire::am::{Node, Par, Tag};
/// use barewire::core::{Config, Endpoint, job::Job};
///
/// let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0);
/// let bundle = node.allocate_bundle().unwrap();
/// let ep = node.allocate_endpoint(bundle).unwrap();
/// node.set_tag(ep, Tag::ALL).unwrap();
/// node.set_handler(ep, 1, |ctx, _| *ctx.state += 1).unwrap();
/// node.map(ep, 0, node.name(ep), Tag::ALL).unwrap();
///
/// let par = Par::new(node).unwrap();
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         let par = par.clone();
///         scope.spawn(move || (0..100).for_each(|_| par.request(ep, 0, 1, &[]).unwrap()));
///     }
/// });
/// while par.poll(bundle) > 0 {}
/// assert_eq!(par.with(|node| *node.state()), 400);
/// ```
#[derive(Debug)]
pub struct Par<S> {
    shared: Arc<Shared<S>>,
}

impl<S> Clone for Par<S> {
    fn clone(&self) -> Par<S> {
        Par { shared: Arc::clone(&self.shared) }
    }
}

#[derive(Debug)]
struct Shared<S> {
    inner: Mutex<Inner<S>>,
    /// Somebody used the node.
    used: Condvar,
    /// The wire's descriptor, to sleep on without the lock.
    wire: OwnedFd,
    /// Wakes the thread that sleeps on the wire.
    kick: OwnedFd,
}

#[derive(Debug)]
struct Inner<S> {
    node: Node<S>,
    /// A thread sleeps on the wire, and has not been kicked.
    sleeper: Sleeper,
    /// Threads that wait on the condition.
    waiters: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleeper {
    Nobody,
    Asleep,
    Kicked,
}

impl<S> Par<S> {
    /// Shares a node.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// let par = Par::new(node).unwrap();
    /// let other = par.clone(); // the same node
    /// other.with(|node| *node.state_mut() = 3);
    /// assert_eq!(par.with(|node| *node.state()), 3);
    /// ```
    pub fn new(node: Node<S>) -> std::io::Result<Par<S>> {
        let wire = node.wire.core().fd().try_clone_to_owned()?;
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let inner = Mutex::new(Inner { node, sleeper: Sleeper::Nobody, waiters: 0 });
        Ok(Par { shared: Arc::new(Shared { inner, used: Condvar::new(), wire, kick }) })
    }

    /// Uses the node, alone. Calls of the node that wait keep the others out meanwhile.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// let par = Par::new(node).unwrap();
    /// let name = par.with(|node| node.name(ep));
    /// assert_eq!(name.to_string(), "0.0");
    /// ```
    pub fn with<R>(&self, body: impl FnOnce(&mut Node<S>) -> R) -> R {
        let mut inner = self.lock();
        let result = body(&mut inner.node);
        self.tell(&mut inner);
        result
    }

    /// [`Node::poll`].
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
    /// let par = Par::new(node).unwrap();
    /// par.request(ep, 0, 1, &[]).unwrap();
    /// while par.poll(bundle) > 0 {}
    /// assert_eq!(par.with(|node| *node.state()), 1);
    /// ```
    pub fn poll(&self, bundle: Bundle) -> usize {
        self.with(|node| node.poll(bundle))
    }

    /// [`Node::request`]; lets the others use the node while it waits.
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
    /// let par = Par::new(node).unwrap();
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| par.request(ep, 0, 1, &[20]).unwrap());
    ///     scope.spawn(|| par.request(ep, 0, 1, &[22]).unwrap());
    /// });
    /// while par.poll(bundle) > 0 {}
    /// assert_eq!(par.with(|node| *node.state()), 42);
    /// ```
    pub fn request(&self, ep: Ep, to: u8, handler: u8, args: &[u64]) -> Result<(), RequestError> {
        self.insist(ep, |node| node.try_request(ep, to, handler, args))
    }

    /// [`Node::request_medium`]; lets the others use the node while it waits.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| { let n = ctx.remaining(); ctx.state.push(n); }).unwrap();
    /// let par = Par::new(node).unwrap();
    /// par.request_medium(ep, 0, 1, &[], b"eleven byte").unwrap();
    /// while par.poll(bundle) > 0 {}
    /// assert_eq!(par.with(|node| node.state().clone()), [11]);
    /// ```
    pub fn request_medium(
        &self,
        ep: Ep,
        to: u8,
        handler: u8,
        args: &[u64],
        data: &[u8],
    ) -> Result<(), RequestError> {
        self.insist(ep, |node| node.try_request_medium(ep, to, handler, args, data))
    }

    fn insist(
        &self,
        ep: Ep,
        mut attempt: impl FnMut(&mut Node<S>) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        let mut backoff = Backoff::default();
        loop {
            let (tried, took) = self.with(|node| match attempt(node) {
                Err(RequestError::WouldBlock) => {
                    let bundle = node.bundle_of(ep).map_or(NOBODY, |bundle| bundle.0);
                    (Err(RequestError::WouldBlock), node.poll(Bundle(bundle)))
                }
                tried => (tried, 0),
            });
            match tried {
                Err(RequestError::WouldBlock) if took == 0 => backoff.pause(),
                Err(RequestError::WouldBlock) => {}
                tried => return tried,
            }
        }
    }

    /// [`Node::wait_sema`]: sleeps until an endpoint of the bundle has a message, and runs none.
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
    /// node.set_event_mask(bundle, EventMask::NotEmpty).unwrap();
    /// let par = Par::new(node).unwrap();
    /// let sleeper = par.clone();
    /// let waiting = std::thread::spawn(move || sleeper.wait_sema(bundle, None));
    /// par.request(ep, 0, 1, &[]).unwrap();
    /// assert_eq!(waiting.join().unwrap(), Ok(())); // it saw the message, and did not run it
    /// assert_eq!(par.with(|node| *node.state()), 0);
    /// ```
    pub fn wait_sema(&self, bundle: Bundle, timeout: Option<Duration>) -> Result<(), WaitError> {
        let deadline = Deadline::after(timeout);
        let mut inner = self.lock();
        match inner.node.event_mask(bundle) {
            Err(_) => return Err(WaitError::NoSuchBundle),
            Ok(EventMask::None) => return Err(WaitError::NoEvents),
            Ok(EventMask::NotEmpty) => {}
        }
        let mut backoff = Backoff::default();
        loop {
            if inner.node.tables.has_messages(bundle.0) {
                self.tell(&mut inner);
                return Ok(());
            }
            let left = deadline.left();
            if left == Some(Duration::ZERO) {
                self.tell(&mut inner);
                return Err(WaitError::TimedOut);
            }
            if inner.sleeper != Sleeper::Nobody {
                inner = self.wait_for_use(inner, left);
                continue;
            }
            // Nobody sleeps on the wire, so it is this thread that takes what arrives, for everybody.
            inner.node.gather(bundle);
            if inner.node.tables.has_messages(bundle.0) {
                continue;
            }
            if inner.node.tables.is_behind() || !inner.node.wire.doze() {
                drop(inner);
                backoff.pause();
                inner = self.lock();
                continue;
            }
            inner = self.sleep_on_wire(inner, left);
        }
    }

    fn wait_for_use<'a>(
        &self,
        mut inner: MutexGuard<'a, Inner<S>>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Inner<S>> {
        inner.waiters += 1;
        let longest = left.unwrap_or(Duration::from_secs(3600));
        let woken = self.shared.used.wait_timeout(inner, longest);
        let (mut inner, _) = woken.expect(POISONED);
        inner.waiters -= 1;
        inner
    }

    fn sleep_on_wire<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner<S>>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, Inner<S>> {
        inner.sleeper = Sleeper::Asleep;
        drop(inner);
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        let mut fds =
            [PollFd::new(&self.shared.wire, PollFlags::IN), PollFd::new(&self.shared.kick, PollFlags::IN)];
        // An interrupted sleep ends early, which does no harm.
        let _ = poll(&mut fds, timeout.as_ref());
        let mut inner = self.lock();
        inner.sleeper = Sleeper::Nobody;
        let _ = io::read(&self.shared.kick, &mut [0u8; 8]);
        inner
    }

    /// After any use of the node: whoever waits looks again.
    fn tell(&self, inner: &mut Inner<S>) {
        if inner.waiters > 0 {
            self.shared.used.notify_all();
        }
        if inner.sleeper == Sleeper::Asleep {
            inner.sleeper = Sleeper::Kicked;
            // A full counter means that the sleeper has been kicked already.
            let _ = io::write(&self.shared.kick, &1u64.to_ne_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.shared.inner.lock().expect(POISONED)
    }
}

const POISONED: &str = "a handler panicked on another thread, so the node cannot go on";

/// Waiting for what no descriptor tells: spin, then yield, then nap.
#[derive(Debug, Default)]
struct Backoff {
    pauses: u32,
}

impl Backoff {
    /// Waits a little, and longer each time.
    fn pause(&mut self) {
        self.pauses = self.pauses.saturating_add(1);
        match self.pauses {
            ..SPINS => std::hint::spin_loop(),
            SPINS..YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(NAP),
        }
    }
}

const SPINS: u32 = 128;
const YIELDS: u32 = 2000;
const NAP: Duration = Duration::from_micros(50);
