//! What is behind the lock: tagged messages, and the tables of addresses, operations and contexts over them.

use std::collections::{HashMap, HashSet, VecDeque};

use barewire_core::region::Memory;
use barewire_core::tagged::{self, Received, Request, Sink, Status, Tagged, Want};
use barewire_core::{Ahead, Deliver, Endpoint, Flow, Incoming, Peer};

use barewire_sys::wirebuf::Places;

use super::addr::{Addr, Addrs};
use super::error::{Error, Failure, Result};
use super::ops::{ContextId, OpId, Ops};
use super::post::Posted;
use super::{UNEXPECTED_BYTES_MAX, Unexpected};

/// The tagged context of messages that have a receive.
pub(super) const EXPECTED: u32 = 0x626d_0000;
/// The tagged context of unexpected messages of class 0; the other classes follow.
pub(super) const UNEXPECTED: u32 = 0x626e_0000;

/// Everything that the interface keeps.
#[derive(Debug)]
pub(super) struct Layer {
    pub tagged: Tagged,
    pub addrs: Addrs,
    pub ops: Ops,
    /// Unexpected messages that were offered, for want of credit, and are on their way.
    fetching: HashMap<Request, Fetch>,
    /// Whose they are.
    fetching_from: HashSet<(u8, Addr)>,
    /// Operations that are complete but for bytes that the system has not taken yet.
    leaving: HashMap<Peer, VecDeque<Leaving>>,
    /// Those that have arrived.
    fetched: HashMap<u8, VecDeque<Unexpected>>,
    pub count_references: bool,
    pub finalized: bool,
}

#[derive(Debug)]
struct Leaving {
    op: OpId,
    /// When the system has taken so many bytes for the peer, ours are among them.
    mark: u64,
    outcome: std::result::Result<u64, Failure>,
}

#[derive(Debug)]
struct Fetch {
    from: Addr,
    tag: i32,
    class: u8,
    memory: Memory,
}

impl Layer {
    pub fn new(endpoint: &Endpoint, count_references: bool) -> Layer {
        let mut tagged = Tagged::new(endpoint);
        tagged.note_ends();
        Layer {
            tagged,
            addrs: Addrs::default(),
            ops: Ops::default(),
            fetching: HashMap::new(),
            fetching_from: HashSet::new(),
            leaving: HashMap::new(),
            fetched: HashMap::new(),
            count_references,
            finalized: false,
        }
    }

    pub fn check(&self, context: ContextId) -> Result<()> {
        if self.finalized {
            return Err(Error::Finalized);
        }
        if self.ops.is_context(context) { Ok(()) } else { Err(Error::NoSuchContext) }
    }

    /// The peer behind an address, for a send. A lost connection is made anew if we can.
    pub fn prepare_send(&mut self, endpoint: &mut Endpoint, addr: Addr) -> Result<Peer> {
        let entry = self.addrs.get(addr)?;
        match entry.lost {
            Some(failure) if !entry.called => return Err(failure.into()),
            Some(_) => self.revive(endpoint, addr),
            None => {}
        }
        self.addrs.get(addr).map(|entry| entry.peer)
    }

    /// The peer behind an address, for a receive. A loss that nobody has been told of fails the receive; after that the
    /// connection is made anew.
    pub fn prepare_receive(&mut self, endpoint: &mut Endpoint, addr: Addr, tag: i32) -> Result<Peer> {
        let entry = self.addrs.get(addr)?;
        let (peer, called) = (entry.peer, entry.called);
        if entry.lost.is_some() {
            let arrived = self.tagged.probe(&want(peer, tag)).is_some();
            if arrived || !called || !entry.told {
                self.addrs.get_mut(addr)?.told |= !arrived;
                return Ok(peer);
            }
            self.revive(endpoint, addr);
        }
        if called {
            // If it is gone, the receive ends when that is told.
            let _ = endpoint.call(peer);
        }
        Ok(peer)
    }

    /// Forgets a connection that ended, so that the next send makes another.
    fn revive(&mut self, endpoint: &mut Endpoint, addr: Addr) {
        if let Ok(entry) = self.addrs.get_mut(addr) {
            (entry.lost, entry.told) = (None, false);
            self.tagged.forget(entry.peer);
            endpoint.forget(entry.peer);
        }
    }

    /// An operation goes on beyond its post, unless it has ended already.
    pub fn go_on(&mut self, request: Request, addr: Addr, user: u64, context: ContextId) -> Result<Posted> {
        if let Some(status) = self.tagged.take(request) {
            return self.outcome(&status, addr).map(Posted::Done).map_err(Error::from);
        }
        self.addrs.get_mut(addr)?.pending += 1;
        Ok(Posted::Pending(self.ops.add(context, user, addr, Some(request))))
    }

    /// Bytes that an operation moved, or why it did not.
    pub fn outcome(&self, status: &Status, addr: Addr) -> std::result::Result<u64, Failure> {
        match status.failure {
            None => Ok(status.len),
            Some(tagged::Failure::Truncated { .. }) => Err(Failure::TooLong),
            Some(tagged::Failure::Cancelled) => Err(Failure::Cancelled),
            Some(_) => Err(self.addrs.get(addr).ok().and_then(|entry| entry.lost).unwrap_or(Failure::Lost)),
        }
    }

    /// Moves on what had found no room, and notes which operations have ended.
    #[inline]
    pub fn advance(&mut self, endpoint: &mut Endpoint) {
        self.tagged.advance(endpoint);
        self.collect(endpoint);
    }

    pub fn collect(&mut self, endpoint: &mut Endpoint) {
        let mut flushed = false;
        while let Some(request) = self.tagged.next_end() {
            let Some(status) = self.tagged.take(request) else { continue };
            if let Some(fetch) = self.fetching.remove(&request) {
                self.finish_fetch(fetch, &status);
                continue;
            }
            let Some((op, addr)) = self.ops.waiting_for(request) else { continue };
            let outcome = self.outcome(&status, addr);
            if !std::mem::replace(&mut flushed, true) {
                endpoint.flush();
            }
            match endpoint.passed_on(status.from) {
                (now, all) if now < all && outcome.is_ok() => {
                    self.leaving.entry(status.from).or_default().push_back(Leaving {
                        op,
                        mark: all,
                        outcome,
                    });
                }
                _ => self.end(op, outcome),
            }
        }
        if !self.leaving.is_empty() {
            self.see_off(endpoint);
        }
    }

    /// Ends the operations whose bytes have left.
    #[cold]
    fn see_off(&mut self, endpoint: &mut Endpoint) {
        endpoint.flush();
        let mut left = Vec::new();
        self.leaving.retain(|&peer, queue| {
            let (now, _) = endpoint.passed_on(peer);
            while queue.front().is_some_and(|one| one.mark <= now) {
                left.extend(queue.pop_front());
            }
            !queue.is_empty()
        });
        left.into_iter().for_each(|one| self.end(one.op, one.outcome));
    }

    /// A send is complete but for its bytes, which the system has not taken yet.
    pub fn leave(
        &mut self,
        peer: Peer,
        mark: u64,
        len: u64,
        addr: Addr,
        user: u64,
        context: ContextId,
    ) -> Result<Posted> {
        self.addrs.get_mut(addr)?.pending += 1;
        let op = self.ops.add(context, user, addr, None);
        self.leaving.entry(peer).or_default().push_back(Leaving { op, mark, outcome: Ok(len) });
        Ok(Posted::Pending(op))
    }

    /// Ends an operation that waits only for its bytes to leave, which they do all the same.
    pub fn stop_leaving(&mut self, op: OpId) {
        self.leaving.values_mut().for_each(|queue| queue.retain(|one| one.op != op));
        self.end(op, Err(Failure::Cancelled));
    }

    fn end(&mut self, op: OpId, outcome: std::result::Result<u64, Failure>) {
        if let Some(Ok(entry)) = self.ops.end(op, outcome).map(|addr| self.addrs.get_mut(addr)) {
            entry.pending -= 1;
        }
    }

    /// A send found its peer gone before anybody was told: now somebody is. Says how it went.
    pub fn fail_now(&mut self, endpoint: &mut Endpoint, addr: Addr) -> Failure {
        let Ok(entry) = self.addrs.get(addr) else { return Failure::Lost };
        self.peer_lost(endpoint, entry.peer);
        let Ok(entry) = self.addrs.get_mut(addr) else { return Failure::Lost };
        entry.told = true;
        entry.lost.unwrap_or(Failure::Lost)
    }

    /// The next unexpected message of a class.
    pub fn next_unexpected(&mut self, endpoint: &mut Endpoint, class: u8) -> Option<Unexpected> {
        if let Some(message) = self.fetched.get_mut(&class).and_then(VecDeque::pop_front) {
            self.fetching_from.remove(&(class, message.from));
            return Some(message);
        }
        let context = UNEXPECTED | u32::from(class);
        loop {
            // What a sender sent later waits until what it sent before has been told.
            let (busy, addrs) = (&self.fetching_from, &self.addrs);
            let is_free = |peer| addrs.by_peer(peer).is_none_or(|from| !busy.contains(&(class, from)));
            let matched = self.tagged.claim_first(context, is_free)?;
            let status = matched.status();
            let Some(from) = self.addrs.by_peer(status.from) else { continue };
            match self.tagged.take_whole(endpoint, matched) {
                Ok(bytes) => return Some(self.unexpected(from, status.tag, class, bytes)),
                Err(offered) => {
                    self.fetching_from.insert((class, from));
                    let memory = Memory::private(UNEXPECTED_BYTES_MAX);
                    let fetch = Fetch { from, tag: status.tag, class, memory: memory.clone() };
                    let sink = Sink::Memory(memory, 0, UNEXPECTED_BYTES_MAX);
                    match self.tagged.receive_matched(endpoint, offered, sink) {
                        Received::Pending(request) => drop(self.fetching.insert(request, fetch)),
                        Received::Done(status) => self.finish_fetch(fetch, &status),
                    }
                }
            }
        }
    }

    /// Whether any unexpected message waits to be told.
    pub fn has_unexpected(&self) -> bool {
        self.tagged.waits_in(UNEXPECTED..=UNEXPECTED | 0xff)
            || self.fetched.values().any(|queue| !queue.is_empty())
    }

    fn finish_fetch(&mut self, fetch: Fetch, status: &Status) {
        let mut bytes = vec![0; usize::try_from(status.len).unwrap_or(usize::MAX).min(UNEXPECTED_BYTES_MAX)];
        // One that was withdrawn or whose sender is gone never was; one that is too long is no message of ours.
        if status.failure.is_none() && fetch.memory.read(0, &mut bytes) {
            let message = self.unexpected(fetch.from, fetch.tag, fetch.class, bytes);
            self.fetched.entry(fetch.class).or_default().push_back(message);
        } else {
            self.fetching_from.remove(&(fetch.class, fetch.from));
        }
    }

    fn unexpected(&mut self, from: Addr, tag: i32, class: u8, bytes: Vec<u8>) -> Unexpected {
        if let (true, Ok(entry)) = (self.count_references, self.addrs.get_mut(from)) {
            entry.references += 1;
        }
        Unexpected { from, tag, class, bytes }
    }

    /// Ends all that is under way with a peer.
    fn fail_all(&mut self, endpoint: &mut Endpoint, peer: Peer) {
        self.tagged.peer_lost(endpoint, peer);
        for one in self.leaving.remove(&peer).unwrap_or_default() {
            self.end(one.op, Err(Failure::Lost));
        }
        self.collect(endpoint);
    }

    /// Closes an address's connection; its operations fail.
    pub fn close(&mut self, endpoint: &mut Endpoint, addr: Addr) -> Result<()> {
        let entry = self.addrs.get(addr)?;
        if !entry.called || entry.peer == endpoint.me() {
            return self.drop_addr(endpoint, addr);
        }
        let peer = entry.peer;
        self.addrs.lose(addr, Failure::Lost);
        self.fail_all(endpoint, peer);
        self.tagged.forget(peer);
        endpoint.hang_up(peer);
        if let Ok(entry) = self.addrs.get_mut(addr) {
            (entry.lost, entry.told) = (None, false);
        }
        Ok(())
    }

    /// Gives up an address: its operations fail, its connection is closed.
    pub fn drop_addr(&mut self, endpoint: &mut Endpoint, addr: Addr) -> Result<()> {
        let peer = self.addrs.get(addr)?.peer;
        if peer == endpoint.me() {
            return Ok(());
        }
        self.fail_all(endpoint, peer);
        self.tagged.forget(peer);
        endpoint.release(peer);
        self.addrs.remove(addr);
        Ok(())
    }
}

/// What an expected receive takes.
pub(super) fn want(from: Peer, tag: i32) -> Want {
    Want { context: EXPECTED, from: Some(from), tag: Some(tag) }
}

impl Deliver for Layer {
    const LEAVES: bool = Tagged::LEAVES;

    #[inline]
    fn deliver(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        self.tagged.deliver(endpoint, packet)
    }

    fn place<'a>(&'a mut self, ahead: &Ahead, places: &mut Places<'a>) {
        self.tagged.place(ahead, places);
    }

    fn placed(&mut self, endpoint: &mut Endpoint, ahead: &Ahead) -> Flow {
        self.tagged.placed(endpoint, ahead)
    }

    fn peer_joined(&mut self, endpoint: &mut Endpoint, peer: Peer) {
        self.tagged.peer_joined(endpoint, peer);
        let ip = endpoint.peer_address(peer);
        let url = ip.map_or_else(|| "tcp://127.0.0.1:0".to_owned(), |ip| format!("tcp://{ip}"));
        self.addrs.add(peer, url, false, ip);
    }

    fn peer_lost(&mut self, endpoint: &mut Endpoint, peer: Peer) {
        let Some(addr) = self.addrs.by_peer(peer) else { return self.tagged.peer_lost(endpoint, peer) };
        let called = self.addrs.get(addr).is_ok_and(|entry| entry.called);
        let was_there = !called || endpoint.wire_choice(peer).is_some();
        let surplus = self.addrs.lose(addr, if was_there { Failure::Lost } else { Failure::Unreachable });
        self.fail_all(endpoint, peer);
        if let Some(surplus) = surplus {
            let _ = self.drop_addr(endpoint, surplus);
        }
    }
}
