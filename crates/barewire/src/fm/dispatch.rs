//! From packets to handlers.
//!
//! A packet of a plain handler is read where it lies. A packet of a stream handler is *lent* to its future while that is
//! polled: if the handler waits for bytes, they go from wire memory to its buffer and nowhere else. If it waits for something
//! else, the packet is kept as a frame, which keeps its sender's credit until the handler gets round to it.

use std::collections::VecDeque;
use std::fmt;
use std::task::{Context as PollContext, Poll, Waker};

use barewire_core::wait::Alarm;
use barewire_core::{Deliver, Endpoint, Flow, Frame, Incoming, Peer, Sending};
use barewire_sys::loan::{Family, Lender};

use super::Handler;
use super::message::{Context, Message};
use super::stream::Stream;
use super::task::{Running, Task, TaskId, Tasks};

/// The longest message that is put together for a plain handler, and the most that is put together at a time for one
/// sender. Longer ones are discarded and counted: they need a stream handler.
pub const WHOLE_BYTES_MAX: usize = 64 << 20;

/// What happened at one [`super::Fm`] so far.
///
/// ```
/// assert_eq!(barewire::fm::Counters::default().staged_bytes, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Stream handlers started.
    pub started: u64,
    /// Messages for which no handler is registered; they were discarded.
    pub unclaimed: u64,
    /// Messages too long for their plain handler; they were discarded.
    pub too_long: u64,
    /// Bytes that were copied once more than needed: kept for a handler that was not waiting for them, or put together
    /// for a plain one.
    pub staged_bytes: u64,
}

type PlainHandler = Box<dyn FnMut(&mut Context<'_>, &mut Message<'_>) -> Flow + Send>;
type StreamHandler = Box<dyn FnMut(Stream) -> Running + Send>;

/// What is registered under a number.
pub(super) enum Entry {
    None,
    Plain(PlainHandler),
    Stream(StreamHandler),
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Entry::None => "None",
            Entry::Plain(_) => "Plain",
            Entry::Stream(_) => "Stream",
        })
    }
}

/// What a handler's future can reach while it is polled.
pub(super) struct Turn<'a> {
    pub task: TaskId,
    pub total: u64,
    pub endpoint: &'a mut Endpoint,
    /// Comes before `packet`.
    frames: &'a mut VecDeque<Frame>,
    packet: Option<Incoming<'a>>,
    /// Set by a future that waits for bytes.
    pub hunger: Hunger,
    pub waker: &'a Waker,
    pub stalled: &'a mut Stalled,
}

/// [`Turn`], whatever its lifetime.
#[derive(Debug)]
pub(super) struct Turns;

impl Family for Turns {
    type Of<'a> = Turn<'a>;
}

/// Who waits for bytes.
#[derive(Debug)]
pub(super) enum Hunger {
    /// Nobody: the handler waits for something else.
    None,
    /// The handler itself.
    Task,
    /// A future inside the handler that is polled only when its own waker says so.
    Part(Waker),
}

/// What waits for room.
#[derive(Debug, Default)]
pub(super) struct Stalled {
    /// Handlers that send.
    pub wakers: Vec<Waker>,
    /// Messages that were dropped before their announced length, and whose end could not be said yet.
    pub endings: Vec<Sending>,
}

impl Turn<'_> {
    /// Takes the next bytes that are there.
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let mut filled = 0;
        while let Some(frame) = self.frames.front_mut() {
            filled += frame.read(&mut into[filled..]);
            if !frame.bytes().is_empty() {
                return filled;
            }
            self.frames.pop_front();
        }
        match &mut self.packet {
            Some(packet) => filled + packet.read(&mut into[filled..]),
            None => filled,
        }
    }
}

/// The handlers, the messages that are open, and the handlers that are suspended.
#[derive(Debug)]
pub(super) struct Dispatch {
    entries: Vec<Entry>,
    /// By sender.
    open: Vec<Vec<Open>>,
    tasks: Tasks,
    lender: Lender<Turns>,
    pub stalled: Stalled,
    spare: Vec<u32>,
    counters: Counters,
    /// What the packets taken since the extract began count for, as the core counts: their bytes, at least one each.
    pub bytes: usize,
    quit: bool,
}

/// A message of several packets that is not complete yet.
#[derive(Debug)]
struct Open {
    stream: u32,
    rest: Rest,
}

/// What to do with the rest of a message.
#[derive(Debug)]
enum Rest {
    Feed(TaskId),
    Gather(Vec<u8>),
    Discard,
}

impl Deliver for Dispatch {
    #[inline(always)]
    fn deliver(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        self.bytes += packet.remaining().max(1);
        let flow = match self.entries.get_mut(usize::from(packet.port.0)) {
            Some(Entry::Plain(run)) if packet.stream.is_none() => {
                run(&mut Context { endpoint }, &mut Message::wire(packet))
            }
            _ => self.deliver_other(endpoint, packet),
        };
        self.quit = flow == Flow::Quit;
        flow
    }

    /// Drops the handlers of messages that will never be complete.
    fn peer_lost(&mut self, endpoint: &mut Endpoint, peer: Peer) {
        let open = self.open.get_mut(peer.0 as usize).map(std::mem::take).unwrap_or_default();
        for Open { rest, .. } in open {
            if let Rest::Feed(task) = rest {
                self.cancel(endpoint, task);
            }
        }
    }
}

impl Dispatch {
    pub fn new(alarm: Alarm) -> Dispatch {
        Dispatch {
            entries: Vec::new(),
            open: Vec::new(),
            tasks: Tasks::new(alarm),
            lender: Lender::new(),
            stalled: Stalled::default(),
            spare: Vec::new(),
            counters: Counters::default(),
            bytes: 0,
            quit: false,
        }
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn register(&mut self, handler: Handler, entry: Entry) {
        let at = usize::from(handler.0);
        if self.entries.len() <= at {
            self.entries.resize_with(at + 1, || Entry::None);
        }
        self.entries[at] = entry;
    }

    /// Whether the last packet's handler said to quit.
    pub fn take_quit(&mut self) -> bool {
        std::mem::take(&mut self.quit)
    }

    /// Whether handlers were woken, or something waits for room.
    #[inline(always)]
    pub fn has_chores(&self) -> bool {
        self.tasks.woken.any()
    }

    pub fn woken(&self) -> &super::task::Woken {
        &self.tasks.woken
    }

    /// Polls the handlers that were woken, and tries again what found no room.
    #[cold]
    #[inline(never)]
    pub fn run_chores(&mut self, endpoint: &mut Endpoint) -> Flow {
        self.stalled.endings.retain_mut(|ending| endpoint.end(ending) == Err(barewire_core::SendError::Full));
        self.stalled.wakers.drain(..).for_each(Waker::wake);
        let mut woken = self.tasks.woken.take(std::mem::take(&mut self.spare));
        let mut flow = Flow::Continue;
        let mut polled = 0;
        while polled < woken.len() && flow == Flow::Continue {
            if let Some(task) = self.tasks.at(woken[polled]) {
                flow = self.poll(endpoint, task, None);
            }
            polled += 1;
        }
        if polled < woken.len() {
            self.tasks.woken.put_back(&woken[polled..]);
        }
        woken.clear();
        self.spare = woken;
        self.remember_stalled();
        flow
    }

    /// A packet that is not a short message for a plain handler.
    #[inline(never)]
    fn deliver_other(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        let Some(stream) = packet.stream else {
            return match self.entries.get_mut(usize::from(packet.port.0)) {
                Some(Entry::Stream(_)) => self.start(endpoint, packet).1,
                _ => {
                    self.counters.unclaimed += 1;
                    Flow::Continue
                }
            };
        };
        let from = packet.from.0 as usize;
        if self.open.len() <= from {
            self.open.resize_with(from + 1, Vec::new);
        }
        match self.open[from].iter().position(|open| open.stream == stream) {
            Some(at) => self.go_on(endpoint, packet, from, at),
            None => self.begin(endpoint, packet, from, stream),
        }
    }

    /// The first packet of a message that has several, or might have had.
    fn begin(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>, from: usize, stream: u32) -> Flow {
        if !packet.is_first() {
            return Flow::Continue;
        }
        let is_last = packet.is_last();
        let (rest, flow) = match self.entries.get_mut(usize::from(packet.port.0)) {
            Some(Entry::Stream(_)) => {
                let (task, flow) = self.start(endpoint, packet);
                (Rest::Feed(task), flow)
            }
            Some(Entry::Plain(run)) if is_last => {
                (Rest::Discard, run(&mut Context { endpoint }, &mut Message::wire(packet)))
            }
            Some(Entry::Plain(_)) => {
                let mut bytes = Vec::new();
                self.counters.staged_bytes += append(&mut bytes, packet);
                (Rest::Gather(bytes), Flow::Continue)
            }
            _ => {
                self.counters.unclaimed += 1;
                (Rest::Discard, Flow::Continue)
            }
        };
        if !is_last {
            self.open[from].push(Open { stream, rest });
        }
        flow
    }

    /// A further packet of a message.
    fn go_on(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>, from: usize, at: usize) -> Flow {
        let is_last = packet.is_last();
        let mut open = self.open[from].swap_remove(at);
        let flow = match &mut open.rest {
            Rest::Feed(task) => self.feed(endpoint, *task, packet),
            Rest::Gather(_) => self.gather(endpoint, &mut open.rest, packet),
            Rest::Discard => Flow::Continue,
        };
        if !is_last {
            self.open[from].push(open);
        }
        flow
    }

    /// Adds a packet to a message for a plain handler, and runs it if that was the last.
    fn gather(&mut self, endpoint: &mut Endpoint, rest: &mut Rest, packet: Incoming<'_>) -> Flow {
        let (from, port, is_last) = (packet.from, usize::from(packet.port.0), packet.is_last());
        let others = self.open[from.0 as usize].iter().map(|open| open.rest.gathered()).sum::<usize>();
        if others + rest.gathered() + packet.remaining() > WHOLE_BYTES_MAX {
            self.counters.too_long += 1;
            *rest = Rest::Discard;
            return Flow::Continue;
        }
        let Rest::Gather(bytes) = rest else { return Flow::Continue };
        self.counters.staged_bytes += append(bytes, packet);
        match self.entries.get_mut(port) {
            Some(Entry::Plain(run)) if is_last => {
                run(&mut Context { endpoint }, &mut Message::whole(from, bytes))
            }
            _ => Flow::Continue,
        }
    }

    /// Starts the handler of a message on its first packet.
    fn start(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> (TaskId, Flow) {
        let (from, total) = (packet.from, packet.total);
        let id = self.tasks.open(total);
        let stream = Stream { from, task: id, read: 0, total, turns: self.lender.borrower() };
        if let (Some(Entry::Stream(start)), Some(task)) =
            (self.entries.get_mut(usize::from(packet.port.0)), self.tasks.get(id))
        {
            task.future = Some(start(stream));
            self.counters.started += 1;
        }
        (id, self.poll(endpoint, id, Some(packet)))
    }

    /// A further packet for a handler: to be read now if it waits for bytes, to be kept if it waits for something else.
    fn feed(&mut self, endpoint: &mut Endpoint, id: TaskId, packet: Incoming<'_>) -> Flow {
        let Some(task) = self.tasks.get(id) else { return Flow::Continue };
        task.total = packet.total;
        match std::mem::replace(&mut task.hunger, Hunger::None) {
            Hunger::None => {
                self.counters.staged_bytes += keep(&mut task.frames, packet);
                return Flow::Continue;
            }
            Hunger::Task => {}
            Hunger::Part(waker) => waker.wake(),
        }
        self.poll(endpoint, id, Some(packet))
    }

    /// Runs a handler until it ends or is suspended.
    fn poll(&mut self, endpoint: &mut Endpoint, id: TaskId, packet: Option<Incoming<'_>>) -> Flow {
        let Some(task) = self.tasks.get(id) else { return Flow::Continue };
        let Task { future: Some(future), frames, waker, hunger, .. } = task else { return Flow::Continue };
        // A future that is polled with the handler's own waker says again that it waits; one that has its own need not be
        // polled now, and waits on.
        let hunger = match std::mem::replace(hunger, Hunger::None) {
            Hunger::Part(waker) => Hunger::Part(waker),
            Hunger::Task | Hunger::None => Hunger::None,
        };
        let mut turn = Turn {
            task: id,
            total: task.total,
            endpoint,
            frames,
            packet,
            hunger,
            waker,
            stalled: &mut self.stalled,
        };
        let state = self.lender.lend(&mut turn, || future.as_mut().poll(&mut PollContext::from_waker(waker)));
        let Turn { packet, hunger, frames, .. } = turn;
        let flow = match state {
            Poll::Ready(flow) => {
                self.tasks.close(id);
                flow
            }
            Poll::Pending => {
                if let Some(packet) = packet {
                    self.counters.staged_bytes += keep(frames, packet);
                }
                task.hunger = hunger;
                Flow::Continue
            }
        };
        self.remember_stalled();
        flow
    }

    /// Drops a handler whose message will never be complete.
    fn cancel(&mut self, endpoint: &mut Endpoint, id: TaskId) {
        let Some(future) = self.tasks.close(id) else { return };
        let mut turn = Turn {
            task: id,
            total: 0,
            endpoint,
            frames: &mut VecDeque::new(),
            packet: None,
            hunger: Hunger::None,
            waker: Waker::noop(),
            stalled: &mut self.stalled,
        };
        // Lent, so that messages which the handler was sending can be ended.
        self.lender.lend(&mut turn, || drop(future));
        self.remember_stalled();
    }

    fn remember_stalled(&self) {
        if !self.stalled.wakers.is_empty() || !self.stalled.endings.is_empty() {
            self.tasks.woken.look_again();
        }
    }
}

impl Rest {
    fn gathered(&self) -> usize {
        if let Rest::Gather(bytes) = self { bytes.len() } else { 0 }
    }
}

/// Keeps what is left of a packet for when its handler gets round to it, and says how much that was.
fn keep(frames: &mut VecDeque<Frame>, packet: Incoming<'_>) -> u64 {
    let left = packet.remaining() as u64;
    if left > 0 {
        frames.push_back(packet.hold());
    }
    left
}

/// Copies a packet behind `bytes` and says how much that was.
fn append(bytes: &mut Vec<u8>, mut packet: Incoming<'_>) -> u64 {
    let (there, more) = (bytes.len(), packet.remaining());
    bytes.resize(there + more, 0);
    packet.read(&mut bytes[there..]);
    more as u64
}
