//! What one endpoint of the world does: a plan of messages, requests and region operations, and a check of all that arrives.

use barewire_core::filter::fault::SplitMix64;
use barewire_core::region::{Atomic, Key, Memory, Op, Width};
use barewire_core::{Deliver, Endpoint, Flow, Frame, Incoming, Peer, Port, SendError, Sending};

use super::{COUNTER_AT, FIXED_BYTES, PLACE_BYTES, PLACES_AT, Stop, pattern};

const MESSAGE: Port = Port(1);
const LONG: Port = Port(2);
const REQUEST: Port = Port(3);
const REPLY: Port = Port(4);
const NOTICE: Port = Port(5);

/// Requests that may be unanswered at a time.
const REQUESTS_MAX: usize = 3;
/// Region operations that may be under way at a time.
const OPS_MAX: usize = 6;

/// One thing to do.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    Message { len: usize },
    Long { len: usize },
    Request { len: usize },
    Put { len: usize, notice: bool },
    Get { len: usize },
    Add,
}

/// An operation under way and what to check when it ends.
struct Running {
    op: Op,
    peer: Peer,
    task: Task,
    into: Option<Memory>,
}

/// What passed between this endpoint and one peer.
#[derive(Default)]
struct Dealings {
    messages: u64,
    longs: u64,
    requests: u64,
    notices: u64,
    added: u64,
    written: Vec<u8>,
    /// Next numbers of what comes from it.
    got: Counts,
    /// Its incarnation, as its messages tell.
    incarnation: u64,
    /// Long messages of it that have begun: number, length so far.
    open: Vec<(u64, u64)>,
}

/// Messages, long messages, requests and notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; 4]);

pub struct App {
    pub me: Peer,
    incarnation: u64,
    rng: SplitMix64,
    plan: Vec<(Peer, Task)>,
    sending: Option<(Sending, Vec<u8>, u64)>,
    running: Vec<Running>,
    /// Requests not answered yet: to whom, and which.
    unanswered: Vec<(Peer, u64)>,
    with: Vec<Dealings>,
    frames: Vec<Frame>,
    pub failed: Vec<(Peer, Task)>,
    pub lost: Vec<Peer>,
}

impl App {
    pub fn new(me: Peer, size: u32, seed: u64) -> App {
        let mut rng = SplitMix64::new(seed);
        let others: Vec<Peer> = (0..size).map(Peer).filter(|&peer| peer != me).collect();
        let mut plan = Vec::new();
        for _ in 0..2 + rng.below(14) {
            let peer = others[rng.below(others.len() as u64) as usize];
            plan.push((peer, random_task(&mut rng)));
        }
        let new = || Dealings { written: vec![0; PLACE_BYTES as usize], ..Dealings::default() };
        App {
            me,
            incarnation: 0,
            rng,
            plan,
            sending: None,
            running: Vec::new(),
            unanswered: Vec::new(),
            with: (0..size).map(|_| new()).collect(),
            frames: Vec::new(),
            failed: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// A later incarnation: only sends messages, marked as its own.
    pub fn reborn(mut self, incarnation: u64) -> App {
        self.incarnation = incarnation;
        self.plan.iter_mut().for_each(|(_, task)| *task = Task::Message { len: 50 });
        self
    }

    pub fn die(&mut self) {
        self.frames.clear();
    }

    pub fn drop_frames(&mut self) -> bool {
        let any = !self.frames.is_empty();
        self.frames.clear();
        any
    }

    pub fn is_done(&self) -> bool {
        self.plan.is_empty()
            && self.sending.is_none()
            && self.running.is_empty()
            && self.unanswered.is_empty()
    }

    pub fn sent(&self, to: usize) -> Counts {
        let with = &self.with[to];
        Counts([with.messages, with.longs, with.requests, with.notices])
    }

    pub fn received(&self, from: usize) -> Counts {
        let mut got = self.with[from].got;
        got.0[1] -= self.with[from].open.len() as u64;
        got
    }

    pub fn added(&self, to: usize) -> u64 {
        self.with[to].added
    }

    pub fn written(&self, to: usize) -> &[u8] {
        &self.with[to].written
    }

    pub fn describe(&self) -> String {
        let (plan, ops, open) = (self.plan.len(), self.running.len(), self.unanswered.len());
        let long = self.sending.as_ref().map_or(0, |(sending, ..)| sending.remaining());
        let head = format!("{}: {plan} to do, {ops} operations, {open} requests", self.me);
        format!("{head}, {long} bytes, {} held, lost {:?}", self.frames.len(), self.lost)
    }

    /// Does as much of the plan as there is room for.
    pub fn go_on(&mut self, endpoint: &mut Endpoint, keys: &[Key]) {
        self.end_operations(endpoint);
        loop {
            if self.sending.is_some() {
                match self.push(endpoint) {
                    Ok(()) => {}
                    Err(Stop::Later) => return,
                    Err(Stop::Failed) => {
                        let (sending, ..) = self.sending.take().expect("looked just now");
                        self.fail(sending.to(), Task::Long { len: 0 });
                    }
                }
                continue;
            }
            let Some(&(peer, task)) = self.plan.last() else { return };
            match self.start(endpoint, keys[peer.0 as usize], peer, task) {
                Ok(()) => {}
                Err(Stop::Later) => return,
                Err(Stop::Failed) => self.fail(peer, task),
            }
            self.plan.pop();
        }
    }

    fn fail(&mut self, peer: Peer, task: Task) {
        self.failed.push((peer, task));
    }

    fn start(&mut self, endpoint: &mut Endpoint, key: Key, peer: Peer, task: Task) -> Result<(), Stop> {
        let with = &mut self.with[peer.0 as usize];
        let tag = self.incarnation << 32;
        match task {
            Task::Message { len } => {
                let len = len.min(endpoint.message_max(peer));
                endpoint.send(peer, MESSAGE, tag | with.messages, &pattern(len, with.messages))?;
                with.messages += 1;
            }
            Task::Long { len } => {
                let number = with.longs;
                let sending = endpoint.begin(peer, LONG, tag | number, len as u64)?;
                with.longs += 1;
                self.sending = Some((sending, pattern(len, number), number));
            }
            Task::Request { len } => {
                if self.unanswered.len() >= REQUESTS_MAX {
                    return Err(Stop::Later);
                }
                let len = len.min(endpoint.message_max(peer));
                endpoint.send(peer, REQUEST, tag | with.requests, &pattern(len, with.requests))?;
                self.unanswered.push((peer, with.requests));
                with.requests += 1;
            }
            Task::Put { .. } | Task::Get { .. } | Task::Add => {
                self.start_operation(endpoint, key, peer, task)?;
            }
        }
        Ok(())
    }

    fn start_operation(
        &mut self,
        endpoint: &mut Endpoint,
        key: Key,
        peer: Peer,
        task: Task,
    ) -> Result<(), Stop> {
        if self.running.len() >= OPS_MAX {
            return Err(Stop::Later);
        }
        let with = &mut self.with[peer.0 as usize];
        let mut into = None;
        let op = match task {
            Task::Put { len, notice } => {
                let bytes = pattern(len, self.rng.next_u64() >> 16);
                let place = PLACES_AT + u64::from(self.me.0) * PLACE_BYTES;
                let op = if notice {
                    endpoint.put_notice(key, place, &bytes, NOTICE, with.notices)?
                } else {
                    endpoint.put(key, place, &bytes)?
                };
                with.notices += u64::from(notice);
                with.written[..len].copy_from_slice(&bytes);
                op
            }
            Task::Get { len } => {
                let memory = into.insert(Memory::private(len));
                endpoint.get(key, 0, memory, 0, len as u64)?
            }
            _ => {
                let op = endpoint.atomic(key, COUNTER_AT, Width::U64, Atomic::Add(1))?;
                with.added += 1;
                op
            }
        };
        self.running.push(Running { op, peer, task, into });
        Ok(())
    }

    fn push(&mut self, endpoint: &mut Endpoint) -> Result<(), Stop> {
        let Some((sending, bytes, _)) = &mut self.sending else { return Ok(()) };
        let at = sending.sent() as usize;
        endpoint.push(sending, &bytes[at..])?;
        if sending.is_done() {
            self.sending = None;
        }
        Ok(())
    }

    fn end_operations(&mut self, endpoint: &mut Endpoint) {
        for running in std::mem::take(&mut self.running) {
            match endpoint.take(running.op) {
                None => self.running.push(running),
                Some(Err(error)) => {
                    assert!(matches!(Stop::from(error), Stop::Failed), "{error}");
                    self.fail(running.peer, running.task);
                }
                Some(Ok(_)) => {
                    if let (Task::Get { len }, Some(memory)) = (running.task, running.into) {
                        let mut bytes = vec![0; len];
                        assert!(memory.read(0, &mut bytes));
                        assert_eq!(bytes, pattern(FIXED_BYTES, u64::from(running.peer.0))[..len]);
                    }
                }
            }
        }
    }

    /// The number that comes next from `from` on its `kind` of messages, which `imm` must be.
    fn expect(&mut self, from: Peer, kind: usize, imm: u64) -> u64 {
        let with = &mut self.with[from.0 as usize];
        if imm >> 32 != with.incarnation {
            assert_eq!(imm >> 32, with.incarnation + 1, "what is old does not come back");
            (with.incarnation, with.got) = (imm >> 32, Counts::default());
        }
        let next = &mut with.got.0[kind];
        if kind == 3 && self.incarnation > 0 {
            // Puts with a predecessor's key were refused, and their notices with them.
            *next = (*next).max(imm & 0xffff_ffff);
        }
        assert_eq!(imm & 0xffff_ffff, *next, "from {from}: kind {kind} in order and once");
        *next += 1;
        *next - 1
    }

    fn take_long(&mut self, packet: &mut Incoming<'_>) {
        let from = packet.from;
        let (number, at) = (packet.imm & 0xffff_ffff, packet.offset);
        if at == 0 {
            self.expect(from, 1, packet.imm);
            self.with[from.0 as usize].open.push((number, 0));
        }
        let bytes = packet.to_vec();
        assert_eq!(bytes, pattern(packet.total as usize, number)[at as usize..][..bytes.len()]);
        let open = &mut self.with[from.0 as usize].open;
        let place = open.iter().position(|(open, _)| *open == number).expect("it has begun");
        assert_eq!(open[place].1, at, "its parts come in order");
        open[place].1 += bytes.len() as u64;
        if open[place].1 == packet.total {
            open.swap_remove(place);
        }
    }
}

impl Deliver for App {
    fn deliver(&mut self, endpoint: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
        let from = packet.from;
        match packet.port {
            MESSAGE => {
                let number = self.expect(from, 0, packet.imm);
                if self.rng.chance(0.3) {
                    let frame = packet.hold();
                    assert_eq!(frame.bytes(), pattern(frame.bytes().len(), number));
                    self.frames.push(frame);
                } else {
                    let bytes = packet.to_vec();
                    assert_eq!(bytes, pattern(bytes.len(), number));
                }
            }
            LONG => self.take_long(&mut packet),
            REQUEST => {
                let number = self.expect(from, 2, packet.imm);
                let bytes = packet.to_vec();
                assert_eq!(bytes, pattern(bytes.len(), number));
                match endpoint.reply(from, REPLY, number, &bytes) {
                    Ok(()) | Err(SendError::Lost(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            REPLY => {
                let bytes = packet.to_vec();
                assert_eq!(bytes, pattern(bytes.len(), packet.imm));
                let place = self.unanswered.iter().position(|open| *open == (from, packet.imm));
                self.unanswered.remove(place.expect("an answer to something asked"));
            }
            NOTICE => {
                self.expect(from, 3, packet.imm);
            }
            port => panic!("nobody sends to {port:?}"),
        }
        if self.rng.chance(0.1) { Flow::Quit } else { Flow::Continue }
    }

    fn peer_lost(&mut self, _: &mut Endpoint, peer: Peer) {
        self.lost.push(peer);
        self.with[peer.0 as usize].open.clear();
        let unanswered = std::mem::take(&mut self.unanswered);
        let (gone, left): (Vec<_>, Vec<_>) = unanswered.into_iter().partition(|(to, _)| *to == peer);
        self.unanswered = left;
        gone.into_iter().for_each(|_| self.fail(peer, Task::Request { len: 0 }));
    }
}

fn random_task(rng: &mut SplitMix64) -> Task {
    let len = (rng.below(1500) >> rng.below(8)) as usize;
    match rng.below(12) {
        0..4 => Task::Message { len },
        4 => Task::Long { len: len * 8 },
        5..8 => Task::Request { len },
        8 => Task::Put { len: len * 2, notice: false },
        9 => Task::Put { len: len * 2, notice: true },
        10 => Task::Get { len },
        _ => Task::Add,
    }
}
