//! What a NIC does with packets: finds the VI, takes its next receive descriptor, and puts the data where that says.
//!
//! Nothing here looks at VIs to which nothing happened: those that wait for something are on a list, and so are those that owe
//! the other end word of what they received.

use std::collections::VecDeque;

use barewire_core::region::{Key, Memory};
use barewire_core::{Deliver, Endpoint, Flow as Go, Incoming, Peer};

use super::connect::Calls;
use super::descriptor::{Completion, Descriptor, Queue, Segment};
use super::names::{Cause, Fault, Flow, Ptag, Reliability, Status, Vi, ViState};
use super::vi::{Stage, ViEntry};
use super::wire::{self, Kind};
use crate::slab::{Slab, Slot};

/// What a NIC counted.
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// # nic.connect_request(a, Peer(0), 1).unwrap(); // the NIC talks to itself
/// # let request = nic.connect_wait(1, None).unwrap();
/// # nic.accept(request, b).unwrap();
/// # nic.connected(a, None).unwrap();
/// nic.post_receive(b, Descriptor::receive()).unwrap();
/// nic.post_send(a, Descriptor::send()).unwrap();
/// nic.receive_wait(b, None).unwrap();
/// let Counters { sends, receives, dropped, .. } = nic.counters();
/// assert_eq!((sends, receives, dropped), (1, 1, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Descriptors posted to send queues.
    pub sends: u64,
    /// Descriptors posted to receive queues.
    pub receives: u64,
    /// Doorbells rung: calls that made a send queue move.
    pub doorbells: u64,
    /// Descriptors that ended.
    pub completions: u64,
    /// Looks at completion queues, and at VIs' own lists.
    pub looks: u64,
    /// Packets taken.
    pub packets: u64,
    /// Messages for which no receive descriptor was posted, on unreliable VIs.
    pub dropped: u64,
    /// Packets that belong to no connection, or make no sense.
    pub strays: u64,
    /// Acknowledgements and credits sent.
    pub acks: u64,
    /// Times we were not ready, and times the other end was not.
    pub not_ready: u64,
    /// RDMA operations started.
    pub rdma: u64,
    /// Questions for access to memory that was not known yet.
    pub resolves: u64,
}

/// Registered memory.
#[derive(Debug)]
pub(super) struct Registered {
    pub memory: Memory,
    /// `None` once the tag is revoked.
    pub tag: Option<Ptag>,
    pub rdma_write: bool,
    pub rdma_read: bool,
    /// The keys under which others reach it, made when first asked for: for writing, for reading.
    pub keys: [Option<Key>; 2],
}

#[derive(Debug, Default)]
pub(super) struct CqEntry {
    pub done: VecDeque<Completion>,
    /// Queues of VIs that end here.
    pub users: u32,
}

#[derive(Debug)]
pub(super) struct SrqEntry {
    pub tag: Ptag,
    pub receives: VecDeque<Box<Descriptor>>,
    pub users: u32,
}

/// What all VIs of a NIC share.
#[derive(Debug, Default)]
pub(super) struct Shop {
    pub memories: Slab<Registered>,
    pub tags: Slab<()>,
    pub cqs: Slab<CqEntry>,
    pub srqs: Slab<SrqEntry>,
    pub faults: VecDeque<Fault>,
    pub counters: Counters,
    /// Verdicts and faults that no packet brought.
    pub events: u64,
}

impl Shop {
    /// Grows whenever something happened that somebody may wait for.
    #[inline(always)]
    pub fn happened(&self) -> u64 {
        self.counters.completions + self.counters.packets + self.events
    }

    /// The memory behind a segment, if a VI with this tag may use it.
    #[inline(always)]
    pub fn reach(&self, tag: Ptag, segment: &Segment) -> Option<&Memory> {
        let registered = self.memories.get(segment.memory.0)?;
        let end = segment.offset.checked_add(segment.len)?;
        let good = registered.tag == Some(tag) && end <= registered.memory.len() as u64;
        if good { Some(&registered.memory) } else { None }
    }

    /// Whether all of a descriptor's memory may be used by a VI with this tag.
    #[inline(always)]
    pub fn reaches(&self, tag: Ptag, descriptor: &Descriptor) -> bool {
        descriptor.segments.iter().all(|segment| self.reach(tag, segment).is_some())
    }

    /// A descriptor has ended.
    #[inline(always)]
    pub fn finish(&mut self, vi: Slot, entry: &mut ViEntry, queue: Queue, descriptor: Box<Descriptor>) {
        self.counters.completions += 1;
        let (cq, own) = match queue {
            Queue::Send => (entry.cqs.send, &mut entry.send_done),
            Queue::Receive => (entry.cqs.receive, &mut entry.receive_done),
        };
        match cq.and_then(|cq| self.cqs.get_mut(cq.0)) {
            Some(cq) => cq.done.push_back(Completion { vi: Vi(vi), queue, descriptor }),
            None => own.push_back(descriptor),
        }
    }

    /// All of a message is where its descriptor says: the other end may be told of it.
    #[inline(always)]
    fn finish_receive(&mut self, vi: Slot, entry: &mut ViEntry, descriptor: Box<Descriptor>) {
        entry.whole = entry.whole.wrapping_add(1);
        self.finish(vi, entry, Queue::Receive, descriptor);
    }

    /// Takes the next receive descriptor of a VI, or of the queue it shares.
    #[inline(always)]
    fn next_receive(&mut self, entry: &mut ViEntry) -> Option<Box<Descriptor>> {
        match entry.srq {
            None => entry.receives.pop_front(),
            Some(srq) => self.srqs.get_mut(srq.0)?.receives.pop_front(),
        }
    }
}

/// A message of several packets of which not all has arrived.
#[derive(Debug)]
struct Open {
    from: Peer,
    stream: u32,
    /// The first word, which may come in pieces.
    head: [u8; 8],
    have: usize,
    vi: Option<Slot>,
    /// Where the data goes; `None` throws it away.
    descriptor: Option<Box<Descriptor>>,
}

/// A NIC without its endpoint.
#[derive(Debug, Default)]
pub(super) struct Engine {
    pub vis: Slab<ViEntry>,
    pub shop: Shop,
    pub calls: Calls,
    /// VIs that owe an acknowledgement or credits.
    pub dirty: Vec<Slot>,
    /// VIs whose send queue waits for room, for an RDMA operation or for a moment.
    pub stalled: Vec<Slot>,
    /// Operations whose outcome nobody wants any more.
    orphans: Vec<barewire_core::region::Op>,
    open: Vec<Open>,
}

impl Deliver for Engine {
    #[inline(always)]
    fn deliver(&mut self, core: &mut Endpoint, packet: Incoming<'_>) -> Go {
        self.shop.counters.packets += 1;
        match Kind::of(packet.port) {
            Some(Kind::Message) if packet.stream.is_none() => self.on_message(core, packet),
            Some(Kind::Message) => self.on_part(core, packet),
            Some(kind) if packet.stream.is_none() => {
                if self.on_other(core, kind, packet).is_none() {
                    self.shop.counters.strays += 1;
                }
            }
            _ => self.shop.counters.strays += 1,
        }
        Go::Continue
    }

    #[cold]
    fn peer_lost(&mut self, core: &mut Endpoint, peer: Peer) {
        let of_peer = |(id, entry): (Slot, &mut ViEntry)| (entry.peer == peer && entry.is_up()).then_some(id);
        let lost: Vec<Slot> = self.vis.iter_mut().filter_map(of_peer).collect();
        for id in lost {
            self.break_vi(core, id, Cause::PeerLost);
        }
        self.open.retain(|open| open.from != peer);
        self.calls.forget(peer);
    }
}

/// What becomes of a message that has arrived.
enum Fate {
    Into(Box<Descriptor>),
    /// Sent before its time, after one for which we were not ready.
    Skip,
    NoReceive,
}

impl Engine {
    #[inline(always)]
    fn on_message(&mut self, core: &mut Endpoint, mut packet: Incoming<'_>) {
        let Engine { vis, shop, dirty, .. } = self;
        let word = packet.read_u64().unwrap_or(u64::MAX);
        let (to, number) = wire::split(word);
        let Some((id, entry)) = vis.find(to).filter(|(_, entry)| entry.is_connected_to(packet.from)) else {
            shop.counters.strays += 1;
            return;
        };
        let descriptor = match admit(entry, shop, number) {
            Fate::Into(descriptor) => descriptor,
            Fate::Skip => return,
            Fate::NoReceive => return self.no_receive(core, id, number),
        };
        let length = packet.remaining() as u64;
        let status = fill(shop, entry.tag, &descriptor, &mut packet);
        let mut descriptor = descriptor.ended(status, length);
        descriptor.immediate = wire::has_immediate(packet.port).then_some(packet.imm);
        shop.finish_receive(id, entry, descriptor);
        if entry.owes_word() && !entry.dirty {
            entry.dirty = true;
            dirty.push(id);
        }
        if status != Status::Success {
            self.receive_failed(core, id, status);
        }
    }

    /// A descriptor took a message it could not hold.
    #[cold]
    fn receive_failed(&mut self, core: &mut Endpoint, id: Slot, status: Status) {
        let cause = if status == Status::Length { Cause::Length } else { Cause::Protection };
        self.break_if_reliable(core, id, cause);
    }

    pub(super) fn break_if_reliable(&mut self, core: &mut Endpoint, id: Slot, cause: Cause) {
        let level = self.vis.get(id).map(|entry| entry.attributes.reliability);
        if level != Some(Reliability::Unreliable) {
            self.break_vi(core, id, cause);
        }
    }

    /// No receive descriptor was posted for a message.
    #[cold]
    fn no_receive(&mut self, core: &mut Endpoint, id: Slot, number: u32) {
        let Some(entry) = self.vis.get_mut(id) else { return };
        match (entry.attributes.reliability, entry.attributes.flow) {
            (Reliability::Unreliable, _) => self.shop.counters.dropped += 1,
            (_, Flow::Rnr { .. }) => {
                self.shop.counters.not_ready += 1;
                let (port, imm) = (wire::port(Kind::Nak, false), wire::NOT_READY);
                // If the peer is gone, nobody needs to know.
                let _ = core.reply_with(entry.peer, port, imm, 8, |wire| {
                    wire.write_u64(wire::pair(entry.remote, number));
                });
            }
            _ => self.break_vi(core, id, Cause::NoReceive),
        }
    }

    /// One packet of a long message.
    #[cold]
    #[inline(never)]
    fn on_part(&mut self, core: &mut Endpoint, mut packet: Incoming<'_>) {
        let (from, stream) = (packet.from, packet.stream.unwrap_or(0));
        let last = packet.is_last();
        let at = match self.open.iter().position(|open| (open.from, open.stream) == (from, stream)) {
            Some(at) => at,
            None if packet.is_first() => {
                let open = Open { from, stream, head: [0; 8], have: 0, vi: None, descriptor: None };
                self.open.push(open);
                self.open.len() - 1
            }
            None => return,
        };
        let Open { head, have, .. } = &mut self.open[at];
        if *have < 8 {
            *have += packet.read(&mut head[*have..]);
            if *have == 8 {
                let word = u64::from_le_bytes(*head);
                self.begin_part(core, at, word, packet.from);
            }
        }
        let Engine { vis, shop, open, .. } = self;
        let Open { vi, descriptor, .. } = &mut open[at];
        if let (Some(tag), Some(descriptor)) =
            (vi.and_then(|vi| vis.get(vi)).map(|entry| entry.tag), descriptor.as_mut())
        {
            let done = packet.offset - 8;
            if descriptor.status == Status::Pending {
                let put = fill_from(shop, tag, descriptor, done, &mut packet);
                descriptor.status = put;
                descriptor.length = packet.offset - 8;
                if put == Status::Success {
                    descriptor.status = Status::Pending;
                }
            }
        }
        if last {
            self.end_part(core, at, &packet);
        }
    }

    /// The first word of a long message is there: where does the rest go?
    fn begin_part(&mut self, core: &mut Endpoint, at: usize, word: u64, from: Peer) {
        let (to, number) = wire::split(word);
        let Engine { vis, shop, open, .. } = self;
        let Some((id, entry)) = vis.find(to).filter(|(_, entry)| entry.is_connected_to(from)) else {
            shop.counters.strays += 1;
            return;
        };
        match admit(entry, shop, number) {
            Fate::Into(mut descriptor) => {
                (descriptor.status, descriptor.length) = (Status::Pending, 0);
                open[at].vi = Some(id);
                open[at].descriptor = Some(descriptor);
            }
            Fate::Skip => {}
            Fate::NoReceive => self.no_receive(core, id, number),
        }
    }

    /// All of a long message has come.
    fn end_part(&mut self, core: &mut Endpoint, at: usize, packet: &Incoming<'_>) {
        let Open { vi, descriptor, .. } = self.open.swap_remove(at);
        let (Some(id), Some(mut descriptor)) = (vi, descriptor) else { return };
        let Some(entry) = self.vis.get_mut(id) else { return };
        if descriptor.status == Status::Pending {
            descriptor.status = Status::Success;
        }
        let status = descriptor.status;
        descriptor.immediate = wire::has_immediate(packet.port).then_some(packet.imm);
        self.shop.finish_receive(id, entry, descriptor);
        self.soil(id);
        if status != Status::Success {
            self.receive_failed(core, id, status);
        }
    }

    /// An RDMA write with an immediate is in place.
    pub(super) fn on_notice(&mut self, core: &mut Endpoint, packet: &mut Incoming<'_>) -> Option<()> {
        let (to, number) = wire::split(packet.read_u64()?);
        let length = packet.read_u64()?;
        let Engine { vis, shop, .. } = self;
        let (id, entry) = vis.find(to).filter(|(_, entry)| entry.is_connected_to(packet.from))?;
        match admit(entry, shop, number) {
            Fate::Into(descriptor) => {
                let mut descriptor = descriptor.ended(Status::Success, length);
                descriptor.immediate = Some(packet.imm);
                shop.finish_receive(id, entry, descriptor);
                self.soil(id);
            }
            Fate::Skip => {}
            Fate::NoReceive => self.no_receive(core, id, number),
        }
        Some(())
    }

    /// Puts a VI on the list of those that may owe word.
    pub(super) fn soil(&mut self, id: Slot) {
        if let Some(entry) = self.vis.get_mut(id).filter(|entry| entry.owes_word() && !entry.dirty) {
            entry.dirty = true;
            self.dirty.push(id);
        }
    }

    /// A connection breaks: everything posted comes back, and the other end is told if it does not know.
    #[cold]
    pub(super) fn break_vi(&mut self, core: &mut Endpoint, id: Slot, cause: Cause) {
        let Some(entry) = self.vis.get_mut(id).filter(|entry| entry.is_up()) else { return };
        let was_connected = entry.state == ViState::Connected;
        let peer = entry.peer;
        if was_connected && !matches!(cause, Cause::PeerLost | Cause::Disconnected | Cause::RemoteNoReceive) {
            let port = wire::port(Kind::Nak, false);
            let _ = core.reply_with(peer, port, cause.code(), 8, |wire| {
                wire.write_u64(wire::pair(entry.remote, entry.received));
            });
        }
        entry.state = ViState::Error(cause);
        self.flush(id, cause);
        self.shop.events += 1;
        self.shop.faults.push_back(Fault { vi: Vi(id), peer, cause });
    }

    /// Gives back everything that is posted.
    pub(super) fn flush(&mut self, id: Slot, cause: Cause) {
        for open in self.open.iter_mut().filter(|open| open.vi == Some(id)) {
            if let (Some(descriptor), Some(entry)) = (open.descriptor.take(), self.vis.get_mut(id)) {
                self.shop.finish(id, entry, Queue::Receive, descriptor.ended(Status::Flushed, 0));
            }
        }
        let Some(entry) = self.vis.get_mut(id) else { return };
        for flight in &mut entry.flight {
            if let Stage::Rdma { ops, .. } = &mut flight.stage {
                self.orphans.append(ops);
            }
        }
        for (queue, descriptor) in entry.take_all(cause) {
            self.shop.finish(id, entry, queue, descriptor);
        }
    }

    /// Tells the other ends what was received and posted, and moves send queues that waited.
    #[inline]
    pub(super) fn work(&mut self, core: &mut Endpoint) {
        if !self.dirty.is_empty() {
            self.send_word(core);
        }
        if !self.orphans.is_empty() {
            self.orphans.retain(|&op| core.take(op).is_none());
        }
        if !self.stalled.is_empty() {
            for id in std::mem::take(&mut self.stalled) {
                if let Some(entry) = self.vis.get_mut(id) {
                    entry.listed = false;
                    self.advance(core, id);
                }
            }
        }
    }

    fn send_word(&mut self, core: &mut Endpoint) {
        for id in std::mem::take(&mut self.dirty) {
            let Some(entry) = self.vis.get_mut(id) else { continue };
            entry.dirty = false;
            if entry.state != ViState::Connected || !entry.is_word_due() {
                continue;
            }
            (entry.told, entry.advertised) = (entry.whole, entry.posted);
            self.shop.counters.acks += 1;
            // If the peer is gone, nobody needs the word.
            let _ = core.reply_with(entry.peer, wire::port(Kind::Ack, false), 0, 16, |wire| {
                wire.write_u64(wire::pair(entry.remote, entry.told));
                wire.write_u64(u64::from(entry.posted));
            });
        }
    }
}

/// Takes the descriptor for message `number`, of which all or only the beginning is there.
#[inline(always)]
fn admit(entry: &mut ViEntry, shop: &mut Shop, number: u32) -> Fate {
    if number != entry.received && entry.is_numbered() {
        return Fate::Skip;
    }
    match shop.next_receive(entry) {
        Some(descriptor) => {
            entry.received = entry.received.wrapping_add(1);
            Fate::Into(descriptor)
        }
        None => Fate::NoReceive,
    }
}

/// Puts a whole message into a descriptor's segments.
#[inline(always)]
fn fill(shop: &Shop, tag: Ptag, descriptor: &Descriptor, packet: &mut Incoming<'_>) -> Status {
    let length = packet.remaining();
    if let [segment] = &descriptor.segments[..] {
        if length as u64 > segment.len {
            return Status::Length;
        }
        let place = shop.reach(tag, segment).and_then(|m| m.wire_mut(segment.offset as usize, length));
        let Some(mut place) = place else { return Status::Protection };
        packet.read_to(&mut place);
        return Status::Success;
    }
    fill_from(shop, tag, descriptor, 0, packet)
}

/// Puts a part of a message, whose first byte is its byte `done`, into a descriptor's segments.
fn fill_from(
    shop: &Shop,
    tag: Ptag,
    descriptor: &Descriptor,
    done: u64,
    packet: &mut Incoming<'_>,
) -> Status {
    if packet.total.max(8) - 8 > descriptor.bytes() {
        return Status::Length;
    }
    if !shop.reaches(tag, descriptor) {
        return Status::Protection;
    }
    let mut skip = done;
    for segment in &descriptor.segments {
        if skip >= segment.len {
            skip -= segment.len;
            continue;
        }
        let n = packet.remaining().min((segment.len - skip) as usize);
        let memory = shop.reach(tag, segment).expect("reached just above");
        let at = (segment.offset + skip) as usize;
        packet.read_to(&mut memory.wire_mut(at, n).expect("in range: checked just above"));
        skip = 0;
    }
    Status::Success
}
