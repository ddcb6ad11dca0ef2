//! Active messages over virtual interfaces.
//!
//! A *channel* joins two endpoints that talk: one VI, and one pool of `k` credits each way. A request takes a credit, which comes back
//! with the count of requests done that every message carries; if nothing else is sent for them, a message of its own says so for every
//! quarter of the pool. Replies, acknowledgements and returned requests need no credit, because each answers a request that has
//! one. So at most `2k` messages are on their way to either side, and `2k` sends suffice. Of receives it takes one more: a
//! handler that has replied still holds its own, and the credit it gave back may bring another request.
//!
//! Bulk data goes by RDMA straight into the target's segment (`place.rs`).

mod channel;
mod place;

use std::collections::HashMap;
use std::time::Duration;

use barewire_core::{Endpoint, Flow, Incoming, Peer, Port, SendError, WaitError};
use barewire_sys::memory::Memory;
use barewire_sys::wirebuf::{WireMut, WireRef};

use super::bulk::Head;
use super::link::Link;
use super::side::{Side, Stop};
use super::tables::Tables;
use super::wire::{self, Imm};
use crate::deadline::{Deadline, napped};
use crate::registered::{CacheCounters, Registered};
use crate::via::{Completion, Cq, MemHandle, Nic, Ptag, RemoteMem, Status, Vi, ViState};
use channel::{Channel, Ends, Later};
use place::PlaceAsk;
pub(super) use place::Placing;

/// How virtual interfaces carry a node's messages. The same at all nodes of a job.
///
/// ```
/// use barewire::am::ViaConfig;
/// let careful = ViaConfig { credits: 1, ..ViaConfig::default() };
/// assert_eq!(careful.spare_receives, 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViaConfig {
    /// Requests that may be on their way between two endpoints, each way: `k`. Default 8.
    pub credits: u16,
    /// Receives beyond the `2k` that are posted for each pair of endpoints. Default 1; without it the connection breaks as soon as a
    /// handler replies and the next request comes before it has returned.
    pub spare_receives: u16,
    /// Blocks of memory that stay registered as sources of bulk data. Default 64.
    pub registrations: usize,
}

impl Default for ViaConfig {
    fn default() -> ViaConfig {
        ViaConfig { credits: 8, spare_receives: 1, registrations: 64 }
    }
}

/// The longest message, head and all.
const MESSAGE_MAX: usize = 4096 + Head::BYTES_MAX;
/// Bytes of a buffer: the message and the word before it, which has the port and the count of requests done.
const BUFFER: usize = MESSAGE_MAX + 8;
/// Set in the cookies of RDMA writes; those of messages are the channel.
const RDMA: u64 = 1 << 63;
/// How long a wait sleeps at most while something waits for room.
const NAP: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Carrier {
    nic: Nic,
    tag: Ptag,
    config: ViaConfig,
    sends: Cq,
    receives: Cq,
    channels: Vec<Channel>,
    by_ends: HashMap<Ends, usize>,
    by_vi: HashMap<Vi, usize>,
    /// The channel that was used last.
    last: usize,
    /// VIs that somebody may wait for.
    connecting: Vec<Vi>,
    /// Channels with messages that wait, each once.
    waiting: Vec<usize>,
    /// Channels that we have cut, because the other end breaks the rules.
    cut: Vec<usize>,
    /// Segments that others may write to.
    segments: HashMap<u16, MemHandle>,
    /// Sources of bulk data.
    sources: Registered<(), MemHandle>,
    /// Buffers for bulk data that is not in counted memory.
    stages: Vec<(Memory, MemHandle)>,
    /// RDMA writes that have ended, and the number of the next.
    written: HashMap<u64, Status>,
    next_write: u64,
}

impl Carrier {
    pub fn new(core: Endpoint, config: ViaConfig) -> Carrier {
        const FRESH: &str = "a NIC without anything has room for one";
        let mut nic = Nic::new(core);
        let tag = nic.create_ptag().expect(FRESH);
        let (sends, receives) = (nic.create_cq().expect(FRESH), nic.create_cq().expect(FRESH));
        let config = ViaConfig { credits: config.credits.max(1), ..config };
        Carrier {
            nic,
            tag,
            config,
            sends,
            receives,
            channels: Vec::new(),
            by_ends: HashMap::new(),
            by_vi: HashMap::new(),
            last: 0,
            connecting: Vec::new(),
            waiting: Vec::new(),
            cut: Vec::new(),
            segments: HashMap::new(),
            sources: Registered::new(config.registrations.max(1)),
            stages: Vec::new(),
            written: HashMap::new(),
            next_write: 0,
        }
    }

    pub fn core(&self) -> &Endpoint {
        self.nic.core()
    }

    pub fn into_core(self) -> Endpoint {
        self.nic.into_core()
    }

    pub fn nic(&self) -> &Nic {
        &self.nic
    }

    pub fn cache_counters(&self) -> CacheCounters {
        self.sources.counters
    }

    pub fn message_max(&self) -> usize {
        MESSAGE_MAX
    }

    /// A short request of an endpoint.
    #[inline(never)]
    pub fn try_short(&mut self, side: &mut Side, to: u8, handler: u8, args: &[u64]) -> Result<(), Stop> {
        side.try_short(self, to, handler, args)
    }

    /// A message that takes a credit. [`SendError::Full`] without one; then the NIC takes what has arrived, but nothing of it runs.
    #[inline]
    pub fn ask(
        &mut self,
        to: Peer,
        port: Port,
        imm: Imm,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        let at = self.channel(to, imm)?;
        if !self.may_ask(at) {
            self.nic.advance();
            return Err(SendError::Full);
        }
        self.transmit(at, port, imm, len, fill)?;
        let channel = &mut self.channels[at];
        channel.sent = channel.sent.wrapping_add(1);
        Ok(())
    }

    /// Whether a message that takes a credit can go now, or never will.
    #[inline]
    fn may_ask(&mut self, at: usize) -> bool {
        let channel = &mut self.channels[at];
        // What is sent before the connection stands would need somebody who polls until it does.
        if !channel.connected && self.nic.state(channel.vi) == Ok(ViState::Connected) {
            channel.connected = true;
            let vi = channel.vi;
            self.connecting.retain(|&other| other != vi);
        }
        let channel = &self.channels[at];
        let credit = channel.has_credit(self.config.credits) && channel.asks.is_empty();
        (channel.connected && credit) || channel.broken
    }

    /// A message that answers one of the other end's, which is done with it.
    #[inline]
    pub fn answer(
        &mut self,
        to: Peer,
        port: Port,
        imm: Imm,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        self.answer_for(1, to, port, imm, len, fill)
    }

    /// A message for which a request of the other end has the room, and which is the last for so many of its requests.
    #[inline]
    fn answer_for(
        &mut self,
        settles: u32,
        to: Peer,
        port: Port,
        imm: Imm,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        let at = self.channel(to, imm)?;
        if self.channels[at].answers.is_empty() && self.has_free(at) {
            self.channels[at].handled = self.channels[at].handled.wrapping_add(settles);
            return self.transmit(at, port, imm, len, fill);
        }
        let later = self.later(at, port, imm, len, fill)?;
        self.channels[at].answers.push_back(Later { settles, ..later });
        self.put_off(at, self.channels[at].answers.len())
    }

    /// A message that takes a credit, and waits for it if there is none.
    #[cold]
    pub fn ask_later(
        &mut self,
        to: Peer,
        port: Port,
        imm: Imm,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        let at = self.channel(to, imm)?;
        let later = self.later(at, port, imm, len, fill)?;
        self.channels[at].asks.push_back(later);
        self.put_off(at, self.channels[at].asks.len())
    }

    /// A request of the other end is done, and nothing is sent for it.
    pub fn settled(&mut self, from: Peer, imm: Imm) {
        let ends = self.ends(imm.to(), from, imm.from());
        let at = match self.channels.get(self.last) {
            Some(channel) if channel.ends == ends => Some(self.last),
            _ => self.by_ends.get(&ends).copied(),
        };
        let Some(at) = at else { return };
        let channel = &mut self.channels[at];
        channel.handled = channel.handled.wrapping_add(1);
        if channel.owes(self.config.credits) {
            self.wait_with(at);
            self.push_later();
        }
    }

    #[cold]
    fn later(
        &mut self,
        at: usize,
        port: Port,
        imm: Imm,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<Later, SendError> {
        if self.channels[at].broken {
            return Err(SendError::Lost(self.channels[at].ends.peer));
        }
        let mut bytes = vec![0; len];
        fill(&mut WireMut::new(&mut bytes));
        Ok(Later { port, imm, bytes, settles: 0 })
    }

    /// Sends what waits on a channel, or has it wait: `queued` of its kind, and there can be no more than credits.
    fn put_off(&mut self, at: usize, queued: usize) -> Result<(), SendError> {
        if queued > usize::from(self.config.credits) {
            // It sends more than it has credit for, and takes nothing.
            let Channel { vi, ends, broken, .. } = &mut self.channels[at];
            *broken = true;
            let (vi, peer) = (*vi, ends.peer);
            let _ = self.nic.disconnect(vi);
            self.cut.push(at);
            return Err(SendError::Lost(peer));
        }
        self.wait_with(at);
        self.push_later();
        Ok(())
    }

    fn wait_with(&mut self, at: usize) {
        if !std::mem::replace(&mut self.channels[at].waits, true) {
            self.waiting.push(at);
        }
    }

    /// Sends what had to wait, as far as credit and free sends go: answers first, which others wait for.
    fn push_later(&mut self) {
        for at in std::mem::take(&mut self.waiting) {
            self.channels[at].waits = false;
            while !self.channels[at].broken && self.has_free(at) {
                let credits = self.config.credits;
                let channel = &mut self.channels[at];
                let (next, counts) = if let Some(answer) = channel.answers.pop_front() {
                    channel.handled = channel.handled.wrapping_add(answer.settles);
                    (answer, 0)
                } else if channel.has_credit(credits) && !channel.asks.is_empty() {
                    let Some(ask) = channel.asks.pop_front() else { break };
                    (ask, 1)
                } else if channel.owes(credits) {
                    let Ends { here, there, .. } = channel.ends;
                    let imm = Imm::new(there, here, 0, 0, 0);
                    (Later { port: wire::CREDIT, imm, bytes: Vec::new(), settles: 0 }, 0)
                } else {
                    break;
                };
                let sent = self.transmit(at, next.port, next.imm, next.bytes.len(), |wire| {
                    wire.write(&next.bytes);
                });
                if sent.is_ok() {
                    self.channels[at].sent = self.channels[at].sent.wrapping_add(counts);
                }
            }
            let channel = &mut self.channels[at];
            if channel.broken {
                channel.answers.clear();
                channel.asks.clear();
            } else if !channel.answers.is_empty()
                || !channel.asks.is_empty()
                || channel.owes(self.config.credits)
            {
                self.wait_with(at);
            }
        }
    }

    fn has_free(&mut self, at: usize) -> bool {
        if self.channels[at].free.is_empty() {
            self.reap_sends();
        }
        !self.channels[at].free.is_empty()
    }

    /// Puts a message into a free buffer and posts it.
    #[inline]
    fn transmit(
        &mut self,
        at: usize,
        port: Port,
        imm: Imm,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        if len > MESSAGE_MAX {
            return Err(SendError::TooLong { len, max: MESSAGE_MAX });
        }
        if !self.has_free(at) && !self.channels[at].broken {
            return Err(SendError::Full);
        }
        let channel = &mut self.channels[at];
        // A NIC breaks a connection only once nothing more can come of it.
        channel.broken |= self.nic.core().is_gone(channel.ends.peer);
        let Some(mut descriptor) = channel.free.pop().filter(|_| !channel.broken) else {
            return Err(SendError::Lost(channel.ends.peer));
        };
        let segment = &mut descriptor.segments[0];
        segment.len = 8 + len as u64;
        let buffer = channel.buffers.wire_mut(segment.offset as usize, 8 + len);
        let mut buffer = buffer.expect("buffers have room for the longest message");
        buffer.write_u64(u64::from(port.0) | u64::from(channel.handled) << 16);
        channel.told = channel.handled;
        fill(&mut buffer);
        descriptor.immediate = Some(imm.0);
        if self.nic.post_send(channel.vi, descriptor).is_err() {
            channel.broken = true;
            return Err(SendError::Lost(channel.ends.peer));
        }
        Ok(())
    }

    /// Takes back sends that have ended.
    fn reap_sends(&mut self) {
        while let Some(Completion { descriptor, .. }) = self.nic.cq_done(self.sends) {
            if descriptor.cookie & RDMA != 0 {
                self.written.insert(descriptor.cookie, descriptor.status);
            } else if let Some(channel) = self.channels.get_mut(descriptor.cookie as usize) {
                channel.broken |= descriptor.status != Status::Success;
                channel.free.push(descriptor);
            }
        }
    }

    /// Takes what has arrived and runs it.
    #[inline(never)]
    pub fn poll<S>(&mut self, tables: &mut Tables<S>) -> usize {
        let mut took = self.nic.advance();
        if self.nic.has_news() || !self.cut.is_empty() {
            self.hear(tables);
        }
        self.reap_sends();
        while let Some(completion) = self.nic.cq_done(self.receives) {
            took += 1;
            if self.take(tables, completion) == Flow::Quit {
                break;
            }
        }
        if !self.waiting.is_empty() {
            self.push_later();
        }
        took
    }

    /// See [`Nic::looked`].
    pub fn looked(&mut self, took: usize) {
        self.nic.looked(took);
    }

    /// Peers that want to talk, and connections that broke.
    #[cold]
    fn hear<S>(&mut self, tables: &mut Tables<S>) {
        while let Some((peer, discriminator)) = self.nic.next_peer_request() {
            if let Some(ends) = self.called(peer, discriminator) {
                // If it cannot be, the other end finds out when it waits for an answer.
                let _ = self.open(ends);
            }
        }
        while let Some(fault) = self.nic.next_fault() {
            self.cut.extend(self.by_vi.get(&fault.vi));
        }
        for at in std::mem::take(&mut self.cut) {
            let Channel { broken, answers, asks, ends, .. } = &mut self.channels[at];
            *broken = true;
            answers.clear();
            asks.clear();
            let ends = *ends;
            tables.lose(|here, name| self.ends(here, name.peer, name.index) == ends);
        }
    }

    /// One message out of a receive buffer. Its descriptor is posted again when the handler has returned.
    #[inline]
    fn take<S>(&mut self, tables: &mut Tables<S>, completion: Completion) -> Flow {
        let Completion { vi, mut descriptor, .. } = completion;
        let at = descriptor.cookie as usize;
        let Some(channel) = self.channels.get_mut(at).filter(|_| descriptor.status == Status::Success) else {
            return Flow::Continue;
        };
        let buffers = channel.buffers.clone();
        let offset = descriptor.segments[0].offset as usize;
        let mut packet = buffers.wire_ref(offset, descriptor.length as usize);
        let flow = match packet.as_mut().and_then(WireRef::read_u64).zip(packet) {
            Some((word, packet)) => {
                let done = (word >> 16) as u32;
                if done.wrapping_sub(channel.done) <= channel.sent.wrapping_sub(channel.done) {
                    channel.done = done;
                }
                let (from, imm) = (channel.ends.peer, Imm(descriptor.immediate.unwrap_or(0)));
                self.run(tables, at, from, Port(word as u16), imm, packet)
            }
            None => Flow::Continue,
        };
        descriptor.immediate = None;
        // A VI that broke meanwhile gives it back as flushed.
        let _ = self.nic.post_receive(vi, descriptor);
        flow
    }

    #[inline]
    fn run<S>(
        &mut self,
        tables: &mut Tables<S>,
        at: usize,
        from: Peer,
        port: Port,
        imm: Imm,
        mut packet: WireRef<'_>,
    ) -> Flow {
        if port.0 & (wire::PLACED | wire::MISPLACED) != 0 {
            return self.placed(tables, from, port, imm, &mut packet).unwrap_or(Flow::Continue);
        }
        match port {
            // It has said all in its first word.
            wire::CREDIT => Flow::Continue,
            wire::PLACE_ASK => self.place_asked(tables, from, imm, &mut packet).unwrap_or(Flow::Continue),
            wire::PLACE_TELL => {
                let told = packet.read_u64().zip(packet.read_u64());
                self.channels[at].place = PlaceAsk::Told(told.map(|(handle, len)| (RemoteMem(handle), len)));
                Flow::Continue
            }
            _ => tables.take(self, Incoming::new(from, port, imm.0, packet)),
        }
    }

    /// Takes what arrives until `done`, sleeping when there is nothing to do.
    pub fn wait<S>(
        &mut self,
        tables: &mut Tables<S>,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut Link<'_>, &mut Tables<S>) -> bool,
    ) -> Result<(), WaitError> {
        let deadline = Deadline::after(timeout);
        loop {
            // What was kept runs before what comes.
            if done(&mut Link::Via(self), tables) {
                return Ok(());
            }
            if self.poll(tables) > 0 {
                continue;
            }
            let left = deadline.left();
            if left == Some(Duration::ZERO) {
                return Err(WaitError::TimedOut);
            }
            let busy = tables.is_behind() || !self.waiting.is_empty();
            let longest = left.into_iter().chain(busy.then_some(NAP)).min();
            let Carrier { nic, sends, receives, connecting, .. } = self;
            let waited = nic.wait("a message", longest, |nic| {
                let connected = connecting.iter().any(|&vi| nic.state(vi) != Ok(ViState::Connecting));
                let came = nic.cq_len(*sends) > 0 || nic.cq_len(*receives) > 0 || nic.has_news();
                (connected || came).then_some(())
            });
            connecting.retain(|&vi| nic.state(vi) == Ok(ViState::Connecting));
            napped(waited)?;
        }
    }

    /// Before waiting on the wire's descriptor: false if there is something to do.
    pub fn doze(&mut self) -> bool {
        let idle = self.waiting.is_empty()
            && self.cut.is_empty()
            && self.nic.cq_len(self.receives) == 0
            && self.nic.cq_len(self.sends) == 0
            && !self.nic.has_news()
            && !self.nic.is_stalled();
        idle && self.nic.core_mut().doze()
    }
}
