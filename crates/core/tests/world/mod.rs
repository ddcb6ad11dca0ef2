//! A world of endpoints on a bad network: each has a random plan, and everything that arrives is checked on the spot.
//!
//! One thread drives it all in virtual time, so a run follows from its seed alone.

mod app;

use barewire_core::filter::fault::{FaultConfig, SplitMix64};
use barewire_core::filter::reliable::ReliableConfig;
use barewire_core::region::{Key, Memory, RegionError, Rights, Who};
use barewire_core::sim::{Network, SimConfig};
use barewire_core::time::Nanos;
use barewire_core::{Config, Endpoint, Peer, SendError};

use app::App;

/// Virtual time after which a run that has not ended never will.
const TOO_LATE: Nanos = Nanos::from_secs(120);
/// Bytes of each endpoint's region that everybody may read and nobody writes.
pub const FIXED_BYTES: usize = 2000;
/// Where the counter lies that everybody adds to.
pub const COUNTER_AT: u64 = 2000;
/// Where the places begin that each peer writes to.
pub const PLACES_AT: u64 = 2048;
/// Bytes of each such place: more than a packet.
pub const PLACE_BYTES: u64 = 3072;

/// What may happen besides plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disaster {
    /// Nothing.
    None,
    /// Links are cut for a while, shorter than anybody's patience.
    Cuts,
    /// One endpoint dies.
    Crash,
    /// One endpoint dies and is started again.
    Restart,
}

impl Disaster {
    /// Where somebody dies, the others have to ask.
    fn pulse(self) -> Nanos {
        match self {
            Disaster::None | Disaster::Cuts => Nanos::ZERO,
            Disaster::Crash | Disaster::Restart => Nanos::from_millis(300),
        }
    }
}

pub struct Node {
    /// `None` while it is dead.
    pub endpoint: Option<Endpoint>,
    pub app: App,
    pub memory: Memory,
    /// Which start of this place it is.
    pub incarnation: u64,
}

pub struct World {
    pub network: Network,
    pub nodes: Vec<Node>,
    keys: Vec<Key>,
    rng: SplitMix64,
    /// Things to come, the last one first.
    agenda: Vec<(Nanos, Happening)>,
    /// Who died.
    pub victim: Option<Peer>,
    pub steps: u64,
    /// Stands for all that happened, in order.
    pub trace: u64,
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Cut(Peer, Peer),
    Mend(Peer, Peer),
    Crash(Peer),
    Restart(Peer),
}

impl World {
    pub fn new(seed: u64, disaster: Disaster) -> World {
        let mut rng = SplitMix64::new(seed ^ 0x3013);
        let size = 2 + rng.below(7) as u32;
        let config = SimConfig { pulse: disaster.pulse(), ..random_config(seed, &mut rng) };
        let network = Network::new(size, config).unwrap();
        let mut nodes: Vec<Node> = Vec::new();
        let mut keys = Vec::new();
        for rank in 0..size {
            let memory = Memory::private((PLACES_AT + u64::from(size) * PLACE_BYTES) as usize);
            assert!(memory.write(0, &pattern(FIXED_BYTES, u64::from(rank))));
            let mut endpoint = network.endpoint(Peer(rank)).unwrap();
            keys.push(endpoint.export(&memory, Rights::ALL, Who::Anyone).unwrap());
            let app = App::new(Peer(rank), size, rng.next_u64());
            nodes.push(Node { endpoint: Some(endpoint), app, memory, incarnation: 0 });
        }
        let agenda = random_agenda(&mut rng, size, disaster);
        World { network, nodes, keys, rng, agenda, victim: None, steps: 0, trace: 0 }
    }

    /// Runs until nothing is left to do; or, where endpoints never fall silent, until all is done.
    pub fn run(&mut self) {
        for rank in 0..self.nodes.len() {
            self.act(rank);
        }
        loop {
            self.steps += 1;
            assert!(self.network.now() < TOO_LATE && self.steps < 3_000_000, "no end: {}", self.describe());
            let due = self.agenda.last().map(|(at, _)| *at);
            if due.is_none() && self.victim.is_some() && self.is_over() {
                return;
            }
            if let Some(at) = due.filter(|at| *at <= self.network.now()) {
                let (_, happening) = self.agenda.pop().unwrap();
                self.mix(at.0);
                self.happen(happening);
                continue;
            }
            if let Some(event) = self.network.step() {
                self.mix(event.at.0 ^ u64::from(event.peer.0) << 56);
                self.act(event.peer.index());
            } else if !self.kick() {
                match due {
                    Some(at) => self.network.advance(at),
                    None => return,
                }
            }
        }
    }

    /// Nothing happens by itself any more: lets everybody drop what it holds and try again. False if that changes nothing.
    fn kick(&mut self) -> bool {
        let before = self.network.stats().pushed;
        let mut dropped = false;
        for rank in 0..self.nodes.len() {
            dropped |= self.nodes[rank].app.drop_frames();
            self.act(rank);
        }
        dropped || self.network.stats().pushed != before
    }

    /// One endpoint goes on with its plan and takes what has arrived.
    fn act(&mut self, rank: usize) {
        let now = self.network.now();
        let Node { endpoint: Some(endpoint), app, .. } = &mut self.nodes[rank] else { return };
        app.go_on(endpoint, &self.keys);
        // Usually all at once; sometimes a little at a time.
        let budget = if self.rng.chance(0.8) { usize::MAX } else { self.rng.below(3000) as usize };
        let taken = endpoint.progress(app, budget);
        if self.rng.chance(0.3) {
            app.drop_frames();
            endpoint.progress(app, usize::MAX);
        }
        app.go_on(endpoint, &self.keys);
        self.mix(taken as u64 ^ now.0);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Cut(a, b) => self.network.cut(a, b),
            Happening::Mend(a, b) => self.network.mend(a, b),
            Happening::Crash(peer) => {
                self.network.crash(peer);
                let node = &mut self.nodes[peer.index()];
                node.app.die();
                node.endpoint = None;
                self.victim = Some(peer);
            }
            Happening::Restart(peer) => {
                let size = self.nodes.len() as u32;
                let node = &mut self.nodes[peer.index()];
                let mut endpoint = self.network.endpoint(peer).unwrap();
                node.incarnation += 1;
                node.app = App::new(peer, size, self.rng.next_u64()).reborn(node.incarnation);
                self.keys[peer.index()] = endpoint.export(&node.memory, Rights::ALL, Who::Anyone).unwrap();
                node.endpoint = Some(endpoint);
                self.act(peer.index());
            }
        }
    }

    /// Whether, after a death, the living are done and have everything from each other.
    fn is_over(&self) -> bool {
        self.living().all(|node| node.app.is_done())
            && self.pairs_alive().all(|(a, b)| self.nodes[a].app.sent(b) == self.nodes[b].app.received(a))
    }

    /// Checks, at the end, that everything between the living happened, once, and that only the dead are missed.
    pub fn check(&self) {
        for node in self.living() {
            let app = &node.app;
            assert!(app.is_done(), "unfinished: {}", self.describe());
            if Some(app.me) == self.victim {
                // Whoever has buried its predecessor does not listen to it.
                continue;
            }
            for (peer, task) in &app.failed {
                assert_eq!(Some(*peer), self.victim, "{:?} of {} failed", task, app.me);
            }
            for &lost in &app.lost {
                assert_eq!(Some(lost), self.victim, "{} lost {lost}", app.me);
            }
        }
        if self.victim.is_some() {
            return self.check_survivors();
        }
        let mut counters = vec![0; self.nodes.len()];
        for (sender, receiver) in self.pairs() {
            let (sent, got) = (&self.nodes[sender].app, &self.nodes[receiver].app);
            assert_eq!(
                sent.sent(receiver),
                got.received(sender),
                "{sender} to {receiver}: {}",
                self.describe()
            );
            counters[receiver] += sent.added(receiver);
            let mut place = vec![0; PLACE_BYTES as usize];
            let at = PLACES_AT + sender as u64 * PLACE_BYTES;
            assert!(self.nodes[receiver].memory.read(at as usize, &mut place));
            assert!(place == sent.written(receiver), "what {sender} put at {receiver}");
        }
        for (node, expected) in self.nodes.iter().zip(counters) {
            let mut word = [0; 8];
            assert!(node.memory.read(COUNTER_AT as usize, &mut word));
            assert_eq!(u64::from_le_bytes(word), expected, "the counter of {}", node.app.me);
        }
    }

    /// After a death: the living got all that the living sent, and of the dead no more than it sent.
    fn check_survivors(&self) {
        for (sender, receiver) in self.pairs_alive() {
            let (sent, got) = (&self.nodes[sender].app, &self.nodes[receiver].app);
            assert_eq!(sent.sent(receiver), got.received(sender), "{sender} to {receiver}");
        }
    }

    fn living(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.endpoint.is_some())
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let size = self.nodes.len();
        (0..size).flat_map(move |a| (0..size).map(move |b| (a, b))).filter(|(a, b)| a != b)
    }

    /// Pairs of which neither has ever died.
    fn pairs_alive(&self) -> impl Iterator<Item = (usize, usize)> {
        let is_victim = |rank: usize| self.victim == Some(Peer(rank as u32));
        self.pairs().filter(move |(a, b)| !is_victim(*a) && !is_victim(*b))
    }

    pub fn retransmitted(&self) -> u64 {
        self.living()
            .map(|node| node.endpoint.as_ref().map_or(0, |endpoint| endpoint.stats().retransmitted))
            .sum()
    }

    fn mix(&mut self, word: u64) {
        self.trace = SplitMix64::new(self.trace ^ word).next_u64();
    }

    pub fn describe(&self) -> String {
        let nodes: Vec<String> =
            self.nodes.iter().map(|node| format!("\n  {}", node.app.describe())).collect();
        let (now, in_flight) = (self.network.now(), self.network.in_flight());
        format!("at {now} after {} steps, {in_flight} datagrams on their way{}", self.steps, nodes.concat())
    }
}

trait Rank {
    fn index(self) -> usize;
}

impl Rank for Peer {
    fn index(self) -> usize {
        self.0 as usize
    }
}

pub fn pattern(len: usize, salt: u64) -> Vec<u8> {
    (0..len).map(|i| (i as u64 * 31 + salt * 7 + (i as u64 >> 8)) as u8).collect()
}

/// A task that cannot go on now, or never will.
pub enum Stop {
    Later,
    Failed,
}

impl From<SendError> for Stop {
    fn from(error: SendError) -> Stop {
        match error {
            SendError::Full => Stop::Later,
            SendError::Lost(_) => Stop::Failed,
            other => panic!("{other}"),
        }
    }
}

impl From<RegionError> for Stop {
    fn from(error: RegionError) -> Stop {
        match error {
            RegionError::Send(error) => error.into(),
            // It was granted by a predecessor of whoever is there now.
            RegionError::BadKey => Stop::Failed,
            other => panic!("{other}"),
        }
    }
}

fn random_config(seed: u64, rng: &mut SplitMix64) -> SimConfig {
    let mut pick = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
    let window_packets = pick(&[1, 2, 3, 8, 64, 256]) as u32;
    let credit_bytes = pick(&[1, 100, 2000, 1 << 16, 1 << 20]) as usize;
    let queue_max = pick(&[6, 50, 4096]) as usize;
    let latency = Nanos(pick(&[0, 500, 1500, 20_000, 300_000]));
    let jitter = Nanos(pick(&[0, 2_000, 50_000, 1_000_000]));
    let mtu = pick(&[300, 512, 1472, 8972]) as usize;
    let loss = pick(&[0, 1, 5, 10, 20]) as f64 / 100.0;
    let mut upto = |most: f64| if rng.chance(0.5) { most * rng.below(100) as f64 / 100.0 } else { 0.0 };
    SimConfig {
        seed,
        latency,
        mtu,
        faults: FaultConfig {
            loss,
            duplicate: upto(0.2),
            reorder: upto(0.5),
            corrupt: upto(0.05),
            truncate: upto(0.05),
            jitter,
            queue_max,
            ..FaultConfig::default()
        },
        endpoint: Config { credit_bytes, ..Config::default() },
        // Long enough that no amount of bad luck looks like death.
        reliable: ReliableConfig {
            window_packets,
            dead_after: Nanos::from_secs(5),
            ..ReliableConfig::default()
        },
        ..SimConfig::default()
    }
}

fn random_agenda(rng: &mut SplitMix64, size: u32, disaster: Disaster) -> Vec<(Nanos, Happening)> {
    let mut agenda = Vec::new();
    let early = |rng: &mut SplitMix64| Nanos(rng.below(Nanos::from_millis(3).0) >> rng.below(12));
    match disaster {
        Disaster::None => {}
        Disaster::Cuts => {
            for _ in 0..1 + rng.below(3) {
                let a = rng.below(u64::from(size)) as u32;
                let b = (a + 1 + rng.below(u64::from(size) - 1) as u32) % size;
                let at = early(rng);
                agenda.push((at, Happening::Cut(Peer(a), Peer(b))));
                let long = Nanos(rng.below(Nanos::from_millis(400).0));
                agenda.push((at + long, Happening::Mend(Peer(a), Peer(b))));
            }
        }
        Disaster::Crash | Disaster::Restart => {
            let peer = Peer(rng.below(u64::from(size)) as u32);
            let at = early(rng);
            agenda.push((at, Happening::Crash(peer)));
            if disaster == Disaster::Restart {
                let pause = Nanos(rng.below(Nanos::from_secs(6).0) >> rng.below(20));
                agenda.push((at + pause, Happening::Restart(peer)));
            }
        }
    }
    agenda.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    agenda
}
