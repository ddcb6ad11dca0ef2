//! What is on its way in a simulated network, and what happens next.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use barewire_sys::bell::Ringer;

use super::wire::Turn;
use super::{Event, SimConfig};
use crate::Peer;
use crate::filter::fault::{FaultStats, SplitMix64};
use crate::time::Nanos;

/// All that changes in a network.
#[derive(Debug)]
pub(super) struct State {
    /// Stands still at zero in real time.
    now: Nanos,
    rng: SplitMix64,
    nodes: Vec<Node>,
    /// The next event of each endpoint that has one, in virtual time.
    agenda: BTreeSet<(Nanos, Peer)>,
    /// Pairs, the lower number first, whose link is cut.
    cut: BTreeSet<(Peer, Peer)>,
    incarnations: u64,
    serial: u64,
    stats: FaultStats,
}

/// A place in the network.
#[derive(Debug)]
struct Node {
    /// Whoever is there now.
    incarnation: Option<u64>,
    /// On their way to it.
    queue: BinaryHeap<Reverse<Flight>>,
    /// When its processor, its way out and its way in are free again.
    idle_at: Nanos,
    out_free_at: Nanos,
    in_free_at: Nanos,
    timer: Option<Nanos>,
    /// Its entry in the agenda.
    planned: Option<Nanos>,
    ringer: Option<Ringer>,
    /// When the first of the queue is due, for whoever looks without the lock.
    next_due: Arc<AtomicU64>,
}

impl Node {
    fn new() -> Node {
        Node {
            incarnation: None,
            queue: BinaryHeap::new(),
            idle_at: Nanos::ZERO,
            out_free_at: Nanos::ZERO,
            in_free_at: Nanos::ZERO,
            timer: None,
            planned: None,
            ringer: None,
            next_due: Arc::new(AtomicU64::new(u64::MAX)),
        }
    }

    /// To be called whenever the queue has changed.
    fn show_next(&self) {
        let due = self.queue.peek().map_or(u64::MAX, |Reverse(flight)| flight.due.0);
        // SYNC next_due: a hint; whoever follows it takes the lock, and whoever goes to sleep looks under the lock.
        self.next_due.store(due, Ordering::Relaxed);
    }
}

/// Ordered by arrival, then by departure, so that equal delays keep their order.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    due: Nanos,
    serial: u64,
    from: Peer,
    bytes: Vec<u8>,
}

impl State {
    pub fn new(size: u32, config: &SimConfig) -> State {
        State {
            now: Nanos::ZERO,
            rng: SplitMix64::new(config.seed),
            nodes: (0..size).map(|_| Node::new()).collect(),
            agenda: BTreeSet::new(),
            cut: BTreeSet::new(),
            incarnations: 0,
            serial: 0,
            stats: FaultStats::default(),
        }
    }

    pub fn size(&self) -> u32 {
        self.nodes.len() as u32
    }

    pub fn now(&self) -> Nanos {
        self.now
    }

    pub fn stats(&self) -> FaultStats {
        self.stats
    }

    pub fn in_flight(&self) -> usize {
        self.nodes.iter().map(|node| node.queue.len()).sum()
    }

    pub fn number(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Somebody takes a place.
    pub fn open(&mut self, rank: Peer, ringer: Option<Ringer>) -> Result<(u64, Arc<AtomicU64>), String> {
        let Some(node) = self.nodes.get_mut(rank.index()) else {
            return Err(format!("the network has no place {rank}"));
        };
        if node.incarnation.is_some() {
            return Err(format!("endpoint {rank} is open already"));
        }
        self.incarnations += 1;
        node.incarnation = Some(self.incarnations);
        node.ringer = ringer;
        Ok((self.incarnations, Arc::clone(&node.next_due)))
    }

    pub fn is_open(&self, rank: Peer, incarnation: u64) -> bool {
        self.nodes[rank.index()].incarnation == Some(incarnation)
    }

    /// Whoever is at a place leaves it, if it is this one.
    pub fn close(&mut self, rank: Peer, incarnation: u64) {
        if self.is_open(rank, incarnation) {
            self.crash(rank);
        }
    }

    pub fn crash(&mut self, rank: Peer) {
        let Some(node) = self.nodes.get_mut(rank.index()) else { return };
        self.stats.lost += node.queue.len() as u64;
        if let Some(at) = node.planned {
            self.agenda.remove(&(at, rank));
        }
        node.queue.clear();
        node.show_next();
        *node = Node::new();
    }

    pub fn cut(&mut self, a: Peer, b: Peer) {
        self.cut.insert((a.min(b), a.max(b)));
        for (here, there) in [(a, b), (b, a)] {
            let Some(node) = self.nodes.get_mut(here.index()) else { continue };
            let before = node.queue.len();
            node.queue.retain(|Reverse(flight)| flight.from != there);
            self.stats.lost += (before - node.queue.len()) as u64;
            node.show_next();
            self.plan(here);
        }
    }

    pub fn mend(&mut self, a: Peer, b: Peer) {
        self.cut.remove(&(a.min(b), a.max(b)));
    }

    /// A datagram leaves.
    pub fn send(
        &mut self,
        config: &SimConfig,
        now: Nanos,
        (from, incarnation): (Peer, u64),
        to: Peer,
        datagram: &[u8],
    ) {
        if !self.is_open(from, incarnation) {
            return;
        }
        let wire_time = config.wire_time(datagram.len());
        let sender = &mut self.nodes[from.index()];
        sender.idle_at = sender.idle_at.max(now) + config.overhead;
        let departs = sender.idle_at.max(sender.out_free_at);
        sender.out_free_at = departs + wire_time;
        self.stats.pushed += 1;
        let is_cut = self.cut.contains(&(from.min(to), from.max(to)));
        let receiver = match self.nodes.get_mut(to.index()) {
            Some(node) if node.incarnation.is_some() && !is_cut && datagram.len() <= config.mtu => node,
            _ => {
                self.stats.lost += 1;
                return;
            }
        };
        let copies = config.faults.impair(&mut self.rng, &mut self.stats, datagram);
        for copy in copies.into_iter().flatten() {
            if receiver.queue.len() >= config.faults.queue_max {
                self.stats.lost += 1;
                continue;
            }
            let arrives = departs + wire_time + config.latency + config.faults.delay;
            receiver.in_free_at = receiver.in_free_at.max(arrives) + wire_time;
            // What is held back is held back on the way and keeps nobody else from arriving.
            let due = receiver.in_free_at - wire_time + config.overhead + copy.held_back;
            self.serial += 1;
            receiver.queue.push(Reverse(Flight { due, serial: self.serial, from, bytes: copy.bytes }));
        }
        receiver.show_next();
        if let Some(ringer) = &receiver.ringer {
            ringer.ring();
        }
        self.plan(to);
    }

    /// The next datagram that has arrived at a place.
    pub fn receive(&mut self, now: Nanos, me: Peer, incarnation: u64) -> Option<(Peer, Vec<u8>)> {
        if self.next_arrival(me, incarnation)? > now {
            return None;
        }
        let node = &mut self.nodes[me.index()];
        let Reverse(flight) = node.queue.pop()?;
        node.show_next();
        self.stats.popped += 1;
        Some((flight.from, flight.bytes))
    }

    pub fn next_arrival(&self, me: Peer, incarnation: u64) -> Option<Nanos> {
        let node = &self.nodes[me.index()];
        let Reverse(flight) = node.queue.peek().filter(|_| node.incarnation == Some(incarnation))?;
        Some(flight.due)
    }

    pub fn set_timer(&mut self, me: Peer, incarnation: u64, at: Option<Nanos>) {
        if self.is_open(me, incarnation) {
            self.nodes[me.index()].timer = at;
            self.plan(me);
        }
    }

    /// Puts an endpoint's next event on the agenda. In real time nobody reads it, and nobody is on it.
    fn plan(&mut self, peer: Peer) {
        let node = &mut self.nodes[peer.index()];
        if node.ringer.is_some() {
            return;
        }
        let arrival = node.queue.peek().map(|Reverse(flight)| flight.due);
        let next = arrival.into_iter().chain(node.timer).min().map(|at| at.max(self.now));
        if next != node.planned {
            node.planned.map(|at| self.agenda.remove(&(at, peer)));
            node.planned = next;
            next.map(|at| self.agenda.insert((at, peer)));
        }
    }

    /// The next event, and the clock with it.
    pub fn step(&mut self) -> Option<Event> {
        let (at, peer) = self.agenda.pop_first()?;
        self.now = self.now.max(at);
        let node = &mut self.nodes[peer.index()];
        node.planned = None;
        // Told once: the endpoint sets its timer anew.
        node.timer = None;
        Some(Event { at: self.now, peer })
    }

    pub fn advance(&mut self, at: Nanos) {
        let next = self.agenda.first().map_or(Nanos::MAX, |(at, _)| *at);
        self.now = self.now.max(at.min(next));
    }

    pub fn turn(&mut self, me: Peer, end: Option<Nanos>) -> Turn {
        match (self.agenda.first(), end) {
            (Some(&(at, _)), Some(end)) if at > end => {
                self.advance(end);
                Turn::Over
            }
            (Some(&(_, peer)), _) if peer != me => Turn::Of(peer),
            (Some(_), _) => {
                self.step();
                Turn::Mine
            }
            (None, Some(end)) => {
                self.advance(end);
                Turn::Over
            }
            (None, None) => Turn::Never,
        }
    }
}
