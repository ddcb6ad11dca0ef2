//! Active messages over virtual interfaces.
//!
//! A *channel* joins two endpoints that talk: one VI, and one pool of `k` credits each way. A request takes a credit, which comes back
//! with the count of requests done that every message carries. Replies, acknowledgements and returned requests need no credit, because
//! each answers a request that has one. So at most `2k` messages are on their way to either side, and `2k` sends
//! suffice. Of receives it takes one more: a handler that has replied still holds its own, and the credit it gave back may
//! bring another request.
//!
//! Bulk data goes by RDMA straight into the target's segment, from its own memory if that is counted, and a message follows. The
//! first time the target is asked for its segment; after that only if it has closed it.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use barewire_core::{Endpoint, Flow, Incoming, Peer, PeerState, Port, SendError, WaitError};
use barewire_sys::memory::Memory;
use barewire_sys::wirebuf::{WireMut, WireRef};

use super::bulk::{Bulk, Head, Place};
use super::context::Body;
use super::link::Link;
use super::names::{Code, Tag};
use super::side::Parcel;
use super::tables::{Tables, give_back, read_args};
use super::wire::{self, ARGS_MAX, Imm, Kind, PortBits};
use crate::via::{
    Completion, ConnectError, Cq, Cqs, Descriptor, MemAttributes, MemHandle, Nic, OnRefusal, Ptag, RemoteMem,
    Status, Vi, ViAttributes,
};

/// How virtual interfaces carry a node's messages. The same at all nodes of a job.
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

/// What the cache of registered sources did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheCounters {
    /// Sources found registered.
    pub hits: u64,
    /// Sources that had to be registered.
    pub misses: u64,
    /// Sources that made room.
    pub evictions: u64,
}

/// The longest message, head and all.
const MESSAGE_MAX: usize = 4096 + Head::BYTES_MAX;
/// Bytes of a buffer: the message and the word before it.
const BUFFER: usize = MESSAGE_MAX + 8;
/// Bytes of bulk data in one RDMA write.
const CHUNK: usize = 64 << 10;
/// Set in the cookies of RDMA writes.
const RDMA: u64 = 1 << 63;
/// How long a wait sleeps at most while something waits for room.
const NAP: Duration = Duration::from_millis(1);

/// Two endpoints: ours, the other's node, and the other.
type Key = (u16, Peer, u16);

#[derive(Debug)]
pub(super) struct Carrier {
    nic: Nic,
    tag: Ptag,
    config: ViaConfig,
    sends: Cq,
    receives: Cq,
    channels: Vec<Channel>,
    by_key: HashMap<Key, usize>,
    by_vi: HashMap<Vi, usize>,
    /// The channel that was used last.
    last: usize,
    /// Segments that others may write to.
    segments: HashMap<u16, MemHandle>,
    cache: Cache,
    /// Buffers for bulk data that is not in counted memory.
    stages: Vec<(Memory, MemHandle)>,
    /// RDMA writes that have ended, and the number of the next.
    written: HashMap<u64, Status>,
    next_write: u64,
    /// Channels with messages that wait.
    waiting: Vec<usize>,
}

#[derive(Debug)]
struct Channel {
    key: Key,
    vi: Vi,
    buffers: Memory,
    #[allow(clippy::vec_box, reason = "boxes are what is posted")]
    free: Vec<Box<Descriptor>>,
    /// Requests sent, how many of them are done, and how many there were when an acknowledgement was last asked for.
    sent: u32,
    done: u32,
    asked: u32,
    /// Requests of the other end that are done.
    handled: u32,
    later: VecDeque<Later>,
    /// The other end's segment, once it is known.
    segment: Option<(RemoteMem, u64)>,
    place: PlaceAsk,
    broken: bool,
}

/// A message that waits for credit, or for a free send.
#[derive(Debug)]
struct Later {
    asks: bool,
    port: Port,
    imm: Imm,
    bytes: Vec<u8>,
}

/// Where asking for the other end's segment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceAsk {
    No,
    Asked,
    Told(Option<(RemoteMem, u64)>),
}

/// A bulk transfer under way.
#[derive(Debug)]
pub(super) struct Placing {
    to: Peer,
    port: Port,
    imm: Imm,
    channel: usize,
    stage: Stage,
    /// Bytes in place.
    at: usize,
    /// It went wrong once already, because the segment had changed.
    again: bool,
    buffer: Option<(Memory, MemHandle)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    Asked,
    Write(RemoteMem),
    /// A write of so many bytes is under way.
    Writing(RemoteMem, u64, usize),
    Tell {
        placed: bool,
    },
    Done,
}

impl Placing {
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }
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
            by_key: HashMap::new(),
            by_vi: HashMap::new(),
            last: 0,
            segments: HashMap::new(),
            cache: Cache { entries: Vec::new(), clock: 0, counters: CacheCounters::default() },
            stages: Vec::new(),
            written: HashMap::new(),
            next_write: 0,
            waiting: Vec::new(),
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
        self.cache.counters
    }

    pub fn message_max(&self) -> usize {
        MESSAGE_MAX
    }

    /// A message that somebody will answer. [`SendError::Full`] without credit; then the NIC takes what has arrived, but nothing of it
    /// runs.
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
        let credits = u32::from(self.config.credits);
        let channel = &mut self.channels[at];
        if channel.sent.wrapping_sub(channel.done) >= credits && !channel.broken {
            self.nic.poll();
            return Err(SendError::Full);
        }
        // A full window always holds one that asked, so that somebody says when it is done.
        let sent = channel.sent.wrapping_add(1);
        let wants = sent.wrapping_sub(channel.asked) >= (credits / 4).max(1);
        let port = if wants { wire::wanting(port) } else { port };
        self.transmit(at, port, imm, len, fill)?;
        let channel = &mut self.channels[at];
        channel.sent = sent;
        if wants {
            channel.asked = sent;
        }
        Ok(())
    }

    /// A message that answers one of the other end's.
    #[inline]
    pub fn answer(
        &mut self,
        to: Peer,
        port: Port,
        imm: Imm,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        let at = self.channel(to, imm)?;
        let channel = &mut self.channels[at];
        channel.handled = channel.handled.wrapping_add(1);
        if channel.later.is_empty() && self.has_free(at) {
            return self.transmit(at, port, imm, len, fill);
        }
        self.put_off(at, false, port, imm, len, fill)
    }

    /// A message that takes a credit and waits for it if there is none.
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
        self.put_off(at, true, port, imm, len, fill)
    }

    #[cold]
    fn put_off(
        &mut self,
        at: usize,
        asks: bool,
        port: Port,
        imm: Imm,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        let channel = &mut self.channels[at];
        if channel.broken {
            return Err(SendError::Lost(channel.key.1));
        }
        let mut bytes = vec![0; len];
        fill(&mut WireMut::new(&mut bytes));
        if channel.later.is_empty() {
            self.waiting.push(at);
        }
        channel.later.push_back(Later { asks, port, imm, bytes });
        self.push_later();
        Ok(())
    }

    /// Sends what had to wait, as far as credit and free sends go.
    fn push_later(&mut self) {
        for at in std::mem::take(&mut self.waiting) {
            while let Some(later) = self.channels[at].later.front() {
                let channel = &self.channels[at];
                let credit = channel.sent.wrapping_sub(channel.done) < u32::from(self.config.credits);
                if !channel.broken && ((later.asks && !credit) || !self.has_free(at)) {
                    self.waiting.push(at);
                    break;
                }
                let Some(Later { asks, port, imm, bytes }) = self.channels[at].later.pop_front() else {
                    break;
                };
                let sent = self.transmit(at, port, imm, bytes.len(), |wire| {
                    wire.write(&bytes);
                });
                if asks && sent.is_ok() {
                    self.channels[at].sent = self.channels[at].sent.wrapping_add(1);
                }
            }
        }
    }

    /// A request of the other end is done, and nothing is sent for it.
    pub fn settled(&mut self, from: Peer, imm: Imm) {
        let key = self.key(imm.to(), from, imm.from());
        let at = match self.channels.get(self.last) {
            Some(channel) if channel.key == key => Some(self.last),
            _ => self.by_key.get(&key).copied(),
        };
        if let Some(at) = at {
            self.channels[at].handled = self.channels[at].handled.wrapping_add(1);
        }
    }

    fn key(&self, here: u16, peer: Peer, there: u16) -> Key {
        // Two endpoints of one node share a VI that is connected to itself.
        if peer == self.core().me() && there < here { (there, peer, here) } else { (here, peer, there) }
    }

    /// The channel for a message, which is opened if there is none.
    #[inline]
    fn channel(&mut self, to: Peer, imm: Imm) -> Result<usize, SendError> {
        let key = self.key(imm.from(), to, imm.to());
        match self.channels.get(self.last) {
            Some(channel) if channel.key == key => Ok(self.last),
            _ => self.other_channel(key),
        }
    }

    #[cold]
    fn other_channel(&mut self, key: Key) -> Result<usize, SendError> {
        let at = match self.by_key.get(&key) {
            Some(&at) => at,
            None => self.open(key)?,
        };
        self.last = at;
        Ok(at)
    }

    /// Opens a channel: a VI with everything posted, and the wish to be connected.
    fn open(&mut self, key: Key) -> Result<usize, SendError> {
        let (here, peer, there) = key;
        if peer.0 >= self.core().size() {
            return Err(SendError::NoSuchPeer(peer));
        }
        if matches!(self.core().peer_state(peer), PeerState::Left | PeerState::Lost(_)) {
            return Err(SendError::Lost(peer));
        }
        let k = u64::from(self.config.credits);
        let (sends, receives) = (2 * k, 2 * k + u64::from(self.config.spare_receives));
        let buffers = Memory::private((sends + receives) as usize * BUFFER);
        let attributes = ViAttributes { on_refusal: OnRefusal::Report, ..ViAttributes::default() };
        let cqs = Cqs { send: Some(self.sends), receive: Some(self.receives) };
        let full = |_| SendError::Full;
        let handle = self.nic.register(&buffers, self.tag, MemAttributes::default()).map_err(full)?;
        let vi = self.nic.create_vi(self.tag, attributes, cqs).map_err(full)?;
        let at = self.channels.len();
        let buffer = |number: u64| number * BUFFER as u64;
        for number in 0..receives {
            let receive = Descriptor::receive().segment(handle, buffer(sends + number), BUFFER as u64);
            let _ = self.nic.post_receive(vi, receive.cookie(at as u64));
        }
        let free = (0..sends)
            .map(|number| Descriptor::send().segment(handle, buffer(number), 0).cookie(at as u64))
            .collect();
        let ours_first = (self.core().me(), here) <= (peer, there);
        let (first, second) = if ours_first { (here, there) } else { (there, here) };
        let discriminator = DISCRIMINATOR | u64::from(first) << 16 | u64::from(second);
        match self.nic.connect_peer_request(vi, peer, discriminator) {
            Ok(()) => {}
            Err(ConnectError::Send(error)) => {
                let _ = self.nic.destroy_vi(vi);
                let _ = self.nic.deregister(handle);
                return Err(error);
            }
            Err(_) => return Err(SendError::Full),
        }
        self.channels.push(Channel {
            key,
            vi,
            buffers,
            free,
            sent: 0,
            done: 0,
            asked: 0,
            handled: 0,
            later: VecDeque::new(),
            segment: None,
            place: PlaceAsk::No,
            broken: false,
        });
        self.by_key.insert(key, at);
        self.by_vi.insert(vi, at);
        Ok(at)
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
        let Some(mut descriptor) = channel.free.pop().filter(|_| !channel.broken) else {
            return Err(SendError::Lost(channel.key.1));
        };
        let segment = &mut descriptor.segments[0];
        segment.len = 8 + len as u64;
        let buffer = channel.buffers.wire_mut(segment.offset as usize, 8 + len);
        let mut buffer = buffer.expect("buffers have room for the longest message");
        buffer.write_u64(u64::from(port.0) | u64::from(channel.handled) << 16);
        fill(&mut buffer);
        descriptor.immediate = Some(imm.0);
        if self.nic.post_send(channel.vi, descriptor).is_err() {
            channel.broken = true;
            return Err(SendError::Lost(channel.key.1));
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
    pub fn poll<S>(&mut self, tables: &mut Tables<S>) -> usize {
        let mut took = self.nic.poll();
        if self.nic.has_news() {
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

    /// Peers that want to talk, and connections that broke.
    #[cold]
    fn hear<S>(&mut self, tables: &mut Tables<S>) {
        while let Some((peer, discriminator)) = self.nic.next_peer_request() {
            let (first, second) = ((discriminator >> 16) as u16, discriminator as u16);
            let ours_first = self.core().me() <= peer;
            let (here, there) = if ours_first { (first, second) } else { (second, first) };
            let key = self.key(here, peer, there);
            if discriminator & !0xffff_ffff == DISCRIMINATOR && !self.by_key.contains_key(&key) {
                // If it cannot be, the other end finds out when it waits for an answer.
                let _ = self.open(key);
            }
        }
        while let Some(fault) = self.nic.next_fault() {
            if let Some(&at) = self.by_vi.get(&fault.vi) {
                self.channels[at].broken = true;
                self.channels[at].later.clear();
            }
            tables.lost(fault.peer);
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
                let (from, imm) = (channel.key.1, Imm(descriptor.immediate.unwrap_or(0)));
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
        match Port(port.0 & 0xff00) {
            wire::PLACE_ASK => self.place_asked(tables, from, imm, &mut packet).unwrap_or(Flow::Continue),
            wire::PLACE_TELL => {
                let told = packet.read_u64().zip(packet.read_u64());
                self.channels[at].place = PlaceAsk::Told(told.map(|(handle, len)| (RemoteMem(handle), len)));
                Flow::Continue
            }
            _ => tables.take(Link::Via(self), Incoming::new(from, port, imm.0, packet)),
        }
    }

    /// A bulk transfer whose data is in its place, or could not be put there.
    #[cold]
    fn placed<S>(
        &mut self,
        tables: &mut Tables<S>,
        from: Peer,
        port: Port,
        imm: Imm,
        packet: &mut WireRef<'_>,
    ) -> Option<Flow> {
        let bits = PortBits(port.0);
        let kind = bits.kind().filter(|kind| kind.is_xfer())?;
        let (tag, offset, len) = (Tag(packet.read_u64()?), packet.read_u64()?, packet.read_u64()?);
        let (args, count) = read_args(bits.args(), || packet.read_u64())?;
        let place = Place { offset, len };
        let parcel = Parcel {
            from,
            kind,
            returned: None,
            want: bits.want() && kind.is_request(),
            imm,
            tag,
            place,
            count,
            args,
            answers: !kind.is_request(),
            in_doubt: 0,
        };
        if port.0 & wire::PLACED != 0 {
            return Some(tables.accept(&mut Link::Via(self), parcel, Body::Kept(&[])));
        }
        let code = tables.check(&parcel).map_or_else(|code| code, |_| Code::BadSegmentOffset);
        give_back(&mut Link::Via(self), &parcel, Body::Kept(&[]), code);
        Some(Flow::Continue)
    }

    /// Somebody wants to put data into a segment: if the message that would follow is welcome, so is the data.
    #[cold]
    fn place_asked<S>(
        &mut self,
        tables: &mut Tables<S>,
        from: Peer,
        imm: Imm,
        packet: &mut WireRef<'_>,
    ) -> Option<Flow> {
        let kind = PortBits(packet.read_u64()? as u16).kind().filter(|kind| kind.is_xfer())?;
        let (tag, offset, len) = (Tag(packet.read_u64()?), packet.read_u64()?, packet.read_u64()?);
        let mut parcel = Parcel::come_back(Code::BadTag, kind, from, imm.back(imm.handler()), tag, &[]);
        parcel.returned = None;
        parcel.place = Place { offset, len };
        let segment = tables.check(&parcel).ok().and_then(|side| side.segment.clone());
        let mut words: &[u64] = &[];
        let offer;
        if let Some(segment) = segment {
            let handle = match self.segments.get(&imm.to()) {
                Some(handle) => Some(*handle),
                None => {
                    let open = MemAttributes { rdma_write: true, rdma_read: false };
                    self.nic.register(&segment, self.tag, open).ok()
                }
            };
            if let Some(handle) = handle {
                self.segments.insert(imm.to(), handle);
                offer = [handle.remote().0, segment.len() as u64];
                words = &offer;
            }
        }
        // If the peer is gone, it puts nothing anywhere.
        let _ =
            self.answer(from, wire::PLACE_TELL, imm.back(0), 8 * words.len(), |wire| wire.write_words(words));
        Some(Flow::Continue)
    }

    /// Whoever could write to this endpoint's segment cannot any more.
    pub fn close_segment(&mut self, ep: u16) {
        if let Some(handle) = self.segments.remove(&ep) {
            let _ = self.nic.deregister(handle);
        }
    }

    /// Opens a bulk transfer.
    pub fn begin(&mut self, to: Peer, port: Port, imm: Imm) -> Result<Placing, SendError> {
        let channel = self.channel(to, imm)?;
        let (stage, at, again, buffer) = (Stage::Begin, 0, false, None);
        Ok(Placing { to, port, imm, channel, stage, at, again, buffer })
    }

    /// Takes a bulk transfer one step on; [`SendError::Full`] if it has to wait.
    pub fn push(&mut self, placing: &mut Placing, head: &Head, data: &Bulk<'_>) -> Result<usize, SendError> {
        let (offset, len) = (head.word(1), data.len());
        if self.channels[placing.channel].broken {
            return Err(SendError::Lost(placing.to));
        }
        match placing.stage {
            Stage::Begin => {
                let fits = |segment: &(RemoteMem, u64)| {
                    offset.checked_add(len as u64).is_some_and(|end| end <= segment.1)
                };
                match self.channels[placing.channel].segment.filter(fits) {
                    Some((segment, _)) => placing.stage = Stage::Write(segment),
                    None => self.ask_place(placing, head, len)?,
                }
                Ok(0)
            }
            Stage::Asked => {
                let channel = &mut self.channels[placing.channel];
                let PlaceAsk::Told(told) = channel.place else { return Err(SendError::Full) };
                (channel.place, channel.segment) = (PlaceAsk::No, told);
                placing.stage = match told {
                    Some((segment, _)) => Stage::Write(segment),
                    None => Stage::Tell { placed: false },
                };
                Ok(0)
            }
            Stage::Write(segment) if placing.at < len => self.write(placing, segment, offset, data),
            Stage::Write(_) => {
                placing.stage = Stage::Tell { placed: true };
                Ok(0)
            }
            Stage::Writing(segment, number, n) => self.wrote(placing, segment, number, n),
            Stage::Tell { placed } => self.tell(placing, head, len, placed).map(|()| 0),
            Stage::Done => Ok(0),
        }
    }

    /// Asks for the other end's segment, one transfer of a channel at a time.
    fn ask_place(&mut self, placing: &mut Placing, head: &Head, len: usize) -> Result<(), SendError> {
        if self.channels[placing.channel].place != PlaceAsk::No {
            return Err(SendError::Full);
        }
        let words = [u64::from(placing.port.0), head.word(0), head.word(1), len as u64];
        self.ask(placing.to, wire::PLACE_ASK, placing.imm, 32, |wire| wire.write_words(&words))?;
        self.channels[placing.channel].place = PlaceAsk::Asked;
        placing.stage = Stage::Asked;
        Ok(())
    }

    /// Begins to write the next bytes.
    fn write(
        &mut self,
        placing: &mut Placing,
        segment: RemoteMem,
        offset: u64,
        data: &Bulk<'_>,
    ) -> Result<usize, SendError> {
        let n = CHUNK.min(data.len() - placing.at);
        let number = RDMA | self.next_write;
        let mut write = Descriptor::rdma_write(segment, offset + placing.at as u64).cookie(number);
        match data {
            Bulk::Memory(memory, range) => {
                let handle = self.cache.handle(&mut self.nic, self.tag, self.config.registrations, memory);
                let handle = handle.ok_or(SendError::Full)?;
                write = write.segment(handle, (range.start + placing.at) as u64, n as u64);
            }
            Bulk::Bytes(_) => {
                if placing.buffer.is_none() {
                    placing.buffer = Some(self.stage()?);
                }
                let (memory, handle) = placing.buffer.as_ref().expect("set just above");
                let mut wire = memory.wire_mut(0, n).expect("a chunk fits");
                data.write(&mut wire, placing.at, n);
                write = write.segment(*handle, 0, n as u64);
            }
        }
        if self.nic.post_send(self.channels[placing.channel].vi, write).is_err() {
            return Err(SendError::Lost(placing.to));
        }
        self.next_write += 1;
        placing.stage = Stage::Writing(segment, number, n);
        self.reap_sends();
        self.wrote(placing, segment, number, n).or_else(|error| match error {
            SendError::Full => Ok(0),
            error => Err(error),
        })
    }

    /// A buffer for bytes that are not in counted memory.
    fn stage(&mut self) -> Result<(Memory, MemHandle), SendError> {
        if let Some(stage) = self.stages.pop() {
            return Ok(stage);
        }
        let memory = Memory::private(CHUNK);
        let handle = self.nic.register(&memory, self.tag, MemAttributes::default());
        handle.map(|handle| (memory, handle)).map_err(|_| SendError::Full)
    }

    /// What has become of a write.
    fn wrote(
        &mut self,
        placing: &mut Placing,
        segment: RemoteMem,
        number: u64,
        n: usize,
    ) -> Result<usize, SendError> {
        self.reap_sends();
        match self.written.remove(&number) {
            None => Err(SendError::Full),
            Some(Status::Success) => {
                placing.at += n;
                placing.stage = Stage::Write(segment);
                Ok(n)
            }
            Some(Status::RemoteProtection) => {
                // The segment was closed. Perhaps there is another; perhaps we are not welcome any more.
                self.channels[placing.channel].segment = None;
                placing.at = 0;
                placing.stage = if placing.again { Stage::Tell { placed: false } } else { Stage::Begin };
                placing.again = true;
                Ok(0)
            }
            Some(_) => Err(SendError::Lost(placing.to)),
        }
    }

    /// Says that the data is in its place, or that it is not.
    fn tell(
        &mut self,
        placing: &mut Placing,
        head: &Head,
        len: usize,
        placed: bool,
    ) -> Result<(), SendError> {
        let port = wire::with(placing.port, if placed { wire::PLACED } else { wire::MISPLACED });
        let bytes = head.bytes();
        let size = bytes.len() + 8;
        let (to, imm) = (placing.to, placing.imm);
        let fill = |wire: &mut WireMut<'_>| {
            wire.write(&bytes[..16]);
            wire.write_u64(len as u64);
            wire.write(&bytes[16..]);
        };
        let is_request = PortBits(port.0).kind().is_some_and(Kind::is_request);
        if is_request {
            self.ask(to, port, imm, size, fill)?
        } else {
            self.answer(to, port, imm, size, fill)?
        }
        placing.stage = Stage::Done;
        self.stages.extend(placing.buffer.take());
        Ok(())
    }

    /// Takes what arrives until `done`, sleeping when there is nothing to do.
    pub fn wait<S>(
        &mut self,
        tables: &mut Tables<S>,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut Link<'_>, &mut Tables<S>) -> bool,
    ) -> Result<(), WaitError> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let took = self.poll(tables);
            if done(&mut Link::Via(self), tables) {
                return Ok(());
            }
            if took > 0 {
                continue;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(WaitError::TimedOut);
            }
            let busy = tables.is_behind() || !self.waiting.is_empty();
            let longest = left.into_iter().chain(busy.then_some(NAP)).min();
            let (sends, receives) = (self.sends, self.receives);
            let waited = self.nic.wait("a message", longest, |nic| {
                (nic.cq_len(sends) > 0 || nic.cq_len(receives) > 0 || nic.has_news()).then_some(())
            });
            match waited {
                Ok(()) | Err(WaitError::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Before waiting on the wire's descriptor: false if there is something to do.
    pub fn doze(&mut self) -> bool {
        let idle = self.waiting.is_empty()
            && self.nic.cq_len(self.receives) == 0
            && self.nic.cq_len(self.sends) == 0
            && !self.nic.has_news();
        idle && self.nic.core_mut().doze()
    }
}

/// Marks the discriminators of channels; below it, the two endpoints, the lower node's first.
const DISCRIMINATOR: u64 = 0xA3 << 56;
const _: () = assert!(ARGS_MAX * 8 + 24 <= Head::BYTES_MAX, "a placed message fits");

/// Memory that stays registered as the source of bulk data.
#[derive(Debug)]
struct Cache {
    entries: Vec<(Memory, MemHandle, u64)>,
    clock: u64,
    counters: CacheCounters,
}

impl Cache {
    fn handle(&mut self, nic: &mut Nic, tag: Ptag, capacity: usize, memory: &Memory) -> Option<MemHandle> {
        self.clock += 1;
        if let Some((_, handle, used)) = self.entries.iter_mut().find(|(known, ..)| known.same_block(memory))
        {
            *used = self.clock;
            self.counters.hits += 1;
            return Some(*handle);
        }
        self.counters.misses += 1;
        while self.entries.len() >= capacity.max(1) {
            let oldest = (0..self.entries.len()).min_by_key(|&at| self.entries[at].2)?;
            let (_, handle, _) = self.entries.swap_remove(oldest);
            let _ = nic.deregister(handle);
            self.counters.evictions += 1;
        }
        let handle = nic.register(memory, tag, MemAttributes::default()).ok()?;
        self.entries.push((memory.clone(), handle, self.clock));
        Some(handle)
    }
}
