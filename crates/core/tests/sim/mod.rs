//! Two reliable ends, two bad wires and a virtual clock.

use barewire_core::filter::fault::{Fault, FaultConfig, SplitMix64};
use barewire_core::filter::reliable::{Held, Reliable, ReliableConfig, SendError, State};
use barewire_core::time::Nanos;

/// One end with its application: it sends a numbered stream and checks the stream it receives.
pub struct Node {
    pub end: Reliable,
    pub wire: Fault,
    /// Names the streams: packet `i` of a stream has contents that follow from the name and `i`.
    pub sends: Stream,
    pub expects: u64,
    pub received: u64,
    pub reader: Reader,
    out: Vec<u8>,
}

/// A stream of packets whose contents follow from its name.
#[derive(Clone, Copy)]
pub struct Stream {
    pub name: u64,
    pub sent: u64,
    pub total: u64,
    pub len_max: usize,
}

/// How the application consumes.
pub struct Reader {
    pub rng: SplitMix64,
    /// The longest pause between two reads; zero reads everything at once.
    pub pause_max: Nanos,
    pub next: Nanos,
    /// Never reads while set.
    pub stopped: bool,
    /// The chance that a packet is held for a while instead of consumed.
    pub hold: f64,
    held: Vec<Held>,
}

impl Reader {
    pub fn eager(seed: u64) -> Self {
        let rng = SplitMix64::new(seed);
        Self { rng, pause_max: Nanos::ZERO, next: Nanos::ZERO, stopped: false, hold: 0.0, held: Vec::new() }
    }
}

impl Node {
    pub fn new(end: Reliable, wire: Fault, sends: Stream, expects: u64) -> Self {
        Self { end, wire, sends, expects, received: 0, reader: Reader::eager(expects), out: Vec::new() }
    }

    /// Sends what the window takes.
    fn send(&mut self) {
        while self.sends.sent < self.sends.total {
            let Stream { name, sent, len_max, .. } = self.sends;
            let len = packet_len(name, sent, len_max);
            match self.end.send(len, |buf| packet_fill(name, sent, buf)) {
                Ok(()) => self.sends.sent += 1,
                Err(SendError::Full | SendError::Dead) => return,
                Err(error) => panic!("send: {error}"),
            }
        }
    }

    /// Consumes as the reader pleases and checks every byte.
    fn read(&mut self, now: Nanos, len_max: usize) {
        if self.reader.stopped || now < self.reader.next {
            return;
        }
        let slow = self.reader.pause_max > Nanos::ZERO;
        let mut budget = if slow { self.reader.rng.below(20) } else { u64::MAX };
        while budget > 0 {
            budget -= 1;
            let Some(packet) = self.end.recv() else { break };
            let mut expected = vec![0; packet_len(self.expects, self.received, len_max)];
            packet_fill(self.expects, self.received, &mut expected);
            assert!(*packet == *expected, "packet {} is not what was sent", self.received);
            self.received += 1;
            if self.reader.rng.chance(self.reader.hold) {
                self.reader.held.push(packet.hold());
            }
        }
        for _ in 0..self.reader.rng.below(self.reader.held.len() as u64 + 1) {
            let at = self.reader.rng.below(self.reader.held.len() as u64) as usize;
            self.end.release(self.reader.held.swap_remove(at));
        }
        if slow {
            self.reader.next = now + Nanos(1 + self.reader.rng.below(self.reader.pause_max.0));
        }
    }

    /// When the reader comes back by itself.
    fn next_read(&self) -> Option<Nanos> {
        (!self.reader.stopped && self.reader.pause_max > Nanos::ZERO).then_some(self.reader.next)
    }

    fn transmit(&mut self, now: Nanos, mtu: usize) {
        let mut datagrams = 0;
        while self.end.poll_transmit(now, &mut self.out) {
            assert!(self.out.len() <= mtu, "a datagram of {} bytes exceeds the mtu", self.out.len());
            self.wire.push(now, &self.out);
            datagrams += 1;
            assert!(datagrams < 5_000, "one call transmits without end");
        }
        if let Some(at) = self.end.deadline() {
            assert!(at > now, "due now, yet nothing was transmitted");
        }
    }
}

/// The pair and its clock.
pub struct Sim {
    pub now: Nanos,
    pub nodes: [Node; 2],
    pub config: ReliableConfig,
    /// Cuts and restorations still to come, the next one last.
    pub events: Vec<(Nanos, Event)>,
    steps: u64,
}

#[derive(Clone, Copy, Debug)]
pub enum Event {
    Cut(usize),
    Restore(usize),
}

impl Sim {
    pub fn new(config: ReliableConfig, nodes: [Node; 2]) -> Self {
        Self { now: Nanos::MILLI, nodes, config, events: Vec::new(), steps: 0 }
    }

    /// A pair over equal wires, `totals[i]` packets from node i.
    pub fn pair(config: ReliableConfig, faults: &FaultConfig, seed: u64, totals: [u64; 2]) -> Self {
        let mut rng = SplitMix64::new(seed);
        let mut wire = || Fault::new(faults.clone(), rng.next_u64());
        let end = |session| Reliable::new(config.clone(), session).expect("the configuration is sound");
        let len_max = end(0).payload_max().min(64);
        let stream = |name, total| Stream { name, sent: 0, total, len_max };
        let nodes = [
            Node::new(end(seed ^ 0xaaaa), wire(), stream(seed ^ 1, totals[0]), seed ^ 2),
            Node::new(end(seed ^ 0xbbbb), wire(), stream(seed ^ 2, totals[1]), seed ^ 1),
        ];
        Self::new(config, nodes)
    }

    /// Everything that happens at this instant, then on to the next; false if the pair is stuck: nothing will
    /// ever happen again, yet not all is done and no end is dead.
    pub fn step(&mut self) -> bool {
        self.steps += 1;
        assert!(self.steps < 1_000_000, "the simulation does not end");
        while let Some(&(_, event)) = self.events.last().filter(|(at, _)| *at <= self.now) {
            match event {
                Event::Cut(node) => self.nodes[node].wire.cut(),
                Event::Restore(node) => self.nodes[node].wire.restore(),
            }
            self.events.pop();
        }
        let len_max = self.nodes[0].sends.len_max;
        for at in 0..2 {
            let [left, right] = &mut self.nodes;
            let (node, other) = if at == 0 { (left, right) } else { (right, left) };
            while let Some(datagram) = other.wire.pop(self.now) {
                node.end.on_datagram(self.now, &datagram);
            }
            node.read(self.now, len_max);
            node.send();
            node.transmit(self.now, self.config.mtu);
        }
        self.check();
        match self.next_time() {
            Some(at) => self.now = at.max(self.now),
            None => return self.is_done() || self.nodes.iter().any(|node| node.end.state() != State::Live),
        }
        true
    }

    /// Runs until all packets have arrived and both ends have fallen silent.
    pub fn finish(&mut self) {
        while !self.is_done() {
            assert!(self.step(), "stuck at {}: {}", self.now, self.describe());
            assert!(self.nodes.iter().all(|node| node.end.state() == State::Live), "{}", self.describe());
        }
        for node in &mut self.nodes {
            assert!(node.end.recv().is_none(), "more packets than were sent");
        }
    }

    pub fn is_done(&self) -> bool {
        let [left, right] = &self.nodes;
        let delivered = left.received == right.sends.total && right.received == left.sends.total;
        let quiet = |node: &Node| {
            node.end.unacked() == 0 && node.end.deadline().is_none() && node.wire.in_flight() == 0
        };
        delivered && quiet(left) && quiet(right)
    }

    pub fn describe(&self) -> String {
        let side = |node: &Node| {
            format!(
                "sent {}/{} received {} unacked {} {:?} {:?} {:?}",
                node.sends.sent,
                node.sends.total,
                node.received,
                node.end.unacked(),
                node.end.state(),
                node.end.stats(),
                node.wire.stats()
            )
        };
        format!("{}\n  {}", side(&self.nodes[0]), side(&self.nodes[1]))
    }

    /// What must hold at every instant.
    fn check(&self) {
        let window = self.config.window_packets as usize;
        for node in &self.nodes {
            let stats = node.end.stats();
            assert!(node.end.unacked() <= window, "more packets than slots");
            assert!(stats.buffers <= 2 * window, "more buffers than slots");
            assert_eq!(stats.beyond_window, 0, "the sender overran the receiver");
        }
    }

    fn next_time(&self) -> Option<Nanos> {
        let nodes =
            self.nodes.iter().flat_map(|node| [node.end.deadline(), node.wire.deadline(), node.next_read()]);
        nodes.chain([self.events.last().map(|(at, _)| *at)]).flatten().min()
    }
}

fn packet_len(stream: u64, index: u64, len_max: usize) -> usize {
    SplitMix64::new(stream ^ index.wrapping_mul(0x9e37)).below(len_max as u64 + 1) as usize
}

fn packet_fill(stream: u64, index: u64, buf: &mut [u8]) {
    let mut rng = SplitMix64::new(stream.wrapping_add(index) ^ 0xf111);
    for chunk in buf.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next_u64().to_le_bytes()[..chunk.len()]);
    }
}
