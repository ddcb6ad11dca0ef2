//! An endpoint's plug in a simulated network.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Clock, Shared};
use crate::Peer;
use crate::time::Nanos;

/// The plug of one incarnation of one endpoint. When the endpoint crashes, the plug is dead.
#[derive(Debug)]
pub(crate) struct SimWire {
    network: Arc<Shared>,
    me: Peer,
    incarnation: u64,
    next_due: Arc<AtomicU64>,
}

/// Who acts next in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// We do; the clock has moved to our event.
    Mine,
    /// Somebody else does.
    Of(Peer),
    /// Nobody does before the time we gave; the clock has moved there.
    Over,
    /// Nobody ever does.
    Never,
}

impl SimWire {
    pub(super) fn new(network: Arc<Shared>, me: Peer, incarnation: u64, next_due: Arc<AtomicU64>) -> SimWire {
        SimWire { network, me, incarnation, next_due }
    }

    pub fn now(&self) -> Nanos {
        self.network.now()
    }

    pub fn is_virtual(&self) -> bool {
        self.network.config.clock == Clock::Virtual
    }

    pub fn send(&mut self, now: Nanos, to: Peer, datagram: &[u8]) {
        let config = &self.network.config;
        self.network.state().send(config, now, (self.me, self.incarnation), to, datagram);
    }

    pub fn receive(&mut self, now: Nanos, into: &mut Vec<u8>) -> Option<Peer> {
        // SYNC next_due: a hint, see `Node::show_next`. A thread that polls must not stand in the way of the others.
        if self.next_due.load(Ordering::Relaxed) > now.0 {
            return None;
        }
        let (from, bytes) = self.network.state().receive(now, self.me, self.incarnation)?;
        *into = bytes;
        Some(from)
    }

    pub fn next_arrival(&self) -> Option<Nanos> {
        self.network.state().next_arrival(self.me, self.incarnation)
    }

    /// Only virtual time has to know: in real time each endpoint looks after its own timers.
    pub fn set_timer(&mut self, at: Option<Nanos>) {
        if self.is_virtual() {
            self.network.state().set_timer(self.me, self.incarnation, at);
        }
    }

    pub fn is_open(&self) -> bool {
        self.network.state().is_open(self.me, self.incarnation)
    }

    pub fn number(&mut self) -> u64 {
        self.network.state().number()
    }

    /// In virtual time: whose turn it is, up to `end`.
    pub fn turn(&mut self, end: Option<Nanos>) -> Turn {
        self.network.state().turn(self.me, end)
    }
}

impl Drop for SimWire {
    fn drop(&mut self) {
        self.network.state().close(self.me, self.incarnation);
    }
}
