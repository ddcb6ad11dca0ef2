//! What a node knows apart from the core's endpoint, and how it takes what arrives.
//!
//! A short message whose endpoint is polled goes from wire memory to its handler in [`Deliver::deliver`]; everything else
//! takes the long way round: [`Tables::accept`] checks it, puts bulk data into place, runs, keeps or returns it.

use std::collections::VecDeque;
use std::fmt;

use barewire_core::{Deliver, Endpoint, Flow, Incoming, Peer};

use super::bulk::{Bulk, Head, Out, Place};
use super::context::{Body, Ctx, Phase};
use super::link::{Carry, Link};
use super::names::{Code, EventMask, Name, Tag};
use super::request::Wish;
use super::side::{Parcel, Side, Slot};
use super::streams::Open;
use super::wire::{self, ARGS_MAX, Imm, Kind, PortBits, Why};

pub(super) type Handler<S> = Box<dyn FnMut(&mut Ctx<'_, S>, &[u64]) + Send>;

/// No bundle has this number: nothing runs while it is polled.
pub(super) const NOBODY: u16 = u16::MAX;

pub(super) struct Tables<S> {
    pub state: S,
    /// By index; a freed endpoint leaves its place empty for ever.
    pub eps: Vec<Option<Box<EpEntry<S>>>>,
    /// The event masks of the bundles; a freed bundle leaves its place empty.
    pub bundles: Vec<Option<EventMask>>,
    /// The bundle whose handlers run now.
    pub polled: u16,
    /// The bundle somebody waits for without running its handlers.
    pub watched: u16,
    pub backlog: Backlog,
    /// Long messages of which not all has arrived.
    pub open: Vec<Open>,
}

pub(super) struct EpEntry<S> {
    pub side: Side,
    pub handlers: Vec<Option<Handler<S>>>,
    /// Handler 0.
    pub on_return: Option<Handler<S>>,
}

impl<S: fmt::Debug> fmt::Debug for Tables<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides: Vec<&Side> = self.eps.iter().flatten().map(|ep| &ep.side).collect();
        f.debug_struct("Tables")
            .field("state", &self.state)
            .field("endpoints", &sides)
            .finish_non_exhaustive()
    }
}

/// What waits: messages for handlers, and messages on their way out.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    pub queued: usize,
    pub out: VecDeque<Out>,
    /// Packets that made no sense, and returned messages that nobody handled.
    pub dropped: u64,
}

impl Backlog {
    /// Whether something for `peer` is on its way out, which later messages must not overtake.
    #[inline(always)]
    pub fn has_out(&self, peer: Peer) -> bool {
        !self.out.is_empty() && self.out.iter().any(|out| out.to() == peer && out.slot.is_none())
    }

    /// Keeps a message until its endpoint's bundle is polled.
    pub fn keep(&mut self, side: &mut Side, parcel: Parcel, data: Vec<u8>) {
        side.queue.push_back((parcel, data));
        self.queued += 1;
    }

    /// A request that cannot be sent comes back. It used no credit.
    #[cold]
    pub fn bring_back(&mut self, side: &mut Side, code: Code, wish: &Wish<'_>) {
        let index = side.index;
        let Some(&mut Slot { name, tag, .. }) = side.slot(wish.to) else { return };
        let imm = Imm::new(name.index, index, wish.handler, wish.to, 0);
        let parcel = Parcel::come_back(code, wish.kind, name.peer, imm, tag, wish.args);
        let data = match wish.data {
            Bulk::Bytes(data) if wish.kind.is_medium() => data.to_vec(),
            _ => Vec::new(),
        };
        self.keep(side, Parcel { place: wish.place(), ..parcel }, data);
    }
}

impl<S> Deliver for Tables<S> {
    #[inline(always)]
    fn deliver(&mut self, core: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        self.take(core, packet)
    }

    #[cold]
    fn peer_lost(&mut self, _: &mut Endpoint, peer: Peer) {
        self.open.retain(|open| open.from() != peer);
        self.lose(|_, name| name.peer == peer);
    }
}

/// A request is done without a reply: its sender is told, if it asked to be, that it and all before it are.
#[inline(always)]
fn done(core: &mut impl Carry, want: bool, to: Peer, imm: Imm) {
    if want {
        // If the peer is gone, nobody needs the acknowledgement.
        let _ = core.link().reply_with(to, wire::port(Kind::Ack, false, 0), imm.back(0).0, 0, |_| {});
    } else {
        core.link().settled(to, imm);
    }
}

impl<S> Tables<S> {
    /// Takes one packet: runs it, keeps it or returns it.
    #[inline(always)]
    pub(super) fn take(&mut self, core: &mut impl Carry, mut packet: Incoming<'_>) -> Flow {
        let (bits, imm) = (PortBits(packet.port.0), Imm(packet.imm));
        let (Some(is_request), Some(Some(ep))) = (bits.short(), self.eps.get_mut(usize::from(imm.to())))
        else {
            return self.deliver_slowly(&mut core.link(), packet, None);
        };
        let EpEntry { side, handlers, .. } = &mut **ep;
        let count = bits.args();
        let whole = packet.remaining() == 8 + 8 * count && count <= ARGS_MAX;
        let Some(tag) = packet.read_u64().map(Tag).filter(|_| whole) else {
            self.backlog.dropped += 1;
            return Flow::Continue;
        };
        let from = packet.from;
        let welcome = if is_request { side.tag.accepts(tag) } else { side.is_answer(from, imm, tag) };
        let handler = handlers.get_mut(usize::from(imm.handler()));
        let (Some(Some(handler)), true) = (handler, welcome && side.bundle == self.polled) else {
            return self.deliver_slowly(&mut core.link(), packet, Some(tag));
        };
        let mut args = [0; ARGS_MAX];
        packet.read_words(&mut args[..count]);
        if !is_request {
            side.settle(from, imm);
        }
        let mut ctx = Ctx {
            state: &mut self.state,
            core: core.link(),
            side,
            backlog: &mut self.backlog,
            from,
            imm,
            tag,
            phase: if is_request { Phase::Request } else { Phase::Reply },
            body: Body::Kept(&[]),
            parcel: None,
        };
        handler(&mut ctx, &args[..count]);
        if ctx.phase == Phase::Request {
            done(core, bits.want(), from, imm);
        }
        Flow::Continue
    }

    /// Some endpoints cannot be reached any more: what they had not acknowledged comes back. `is_lost` is asked about every
    /// translation, by the endpoint it belongs to and the one it stands for.
    #[cold]
    pub(super) fn lose(&mut self, is_lost: impl Fn(u16, Name) -> bool) {
        for ep in self.eps.iter_mut().flatten() {
            let side = &mut ep.side;
            for number in 0..side.slots.len() {
                let slot = &mut side.slots[number];
                if !slot.mapped || !is_lost(side.index, slot.name) {
                    continue;
                }
                let (in_doubt, name, tag) = (slot.forget(), slot.name, slot.tag);
                if in_doubt > 0 {
                    let imm = Imm::new(name.index, side.index, 0, number as u8, 0);
                    let parcel =
                        Parcel::come_back(Code::Unreachable, Kind::RequestShort, name.peer, imm, tag, &[]);
                    self.backlog.keep(side, Parcel { in_doubt, ..parcel }, Vec::new());
                }
            }
        }
    }

    /// Anything but a short message that can run at once. `tag` is given if it has been read already.
    #[inline(never)]
    fn deliver_slowly(&mut self, core: &mut Link<'_>, mut packet: Incoming<'_>, tag: Option<Tag>) -> Flow {
        let (bits, imm, from) = (PortBits(packet.port.0), Imm(packet.imm), packet.from);
        let Some(kind) = bits.kind() else {
            self.backlog.dropped += 1;
            return Flow::Continue;
        };
        if packet.stream.is_some() {
            return self.deliver_part(core, packet);
        }
        let parcel = match kind {
            Kind::Ack => {
                if let Some(Some(ep)) = self.eps.get_mut(usize::from(imm.to())) {
                    ep.side.settle(from, imm);
                }
                return Flow::Continue;
            }
            Kind::Returned => read_returned(from, imm, &mut packet),
            _ => read_parcel(bits, kind, from, imm, &mut packet, tag),
        };
        match parcel {
            Some(parcel) => self.accept(core, parcel, Body::Wire(packet)),
            None => {
                self.backlog.dropped += 1;
                Flow::Continue
            }
        }
    }

    /// Checks a message, puts its bulk data into place, and runs it or keeps it; or returns it.
    pub(super) fn accept(&mut self, core: &mut Link<'_>, parcel: Parcel, mut body: Body<'_>) -> Flow {
        let put = self.check(&parcel).and_then(|ep| {
            if parcel.kind.is_xfer() && parcel.returned.is_none() {
                ep.put(parcel.place.offset, &mut body)?;
            }
            Ok(ep.bundle)
        });
        match put {
            Err(code) => {
                self.give_back(core, &parcel, body, code);
                Flow::Continue
            }
            Ok(bundle) if bundle == self.polled => {
                self.call(core, &parcel, body);
                Flow::Continue
            }
            Ok(_) => self.enqueue(core, parcel, body),
        }
    }

    /// Whether the message may run here.
    pub(super) fn check(&mut self, parcel: &Parcel) -> Result<&mut Side, Code> {
        let imm = parcel.imm;
        let ep = self.eps.get_mut(usize::from(imm.to())).and_then(Option::as_deref_mut);
        let EpEntry { side, handlers, .. } = ep.ok_or(Code::BadEndpoint)?;
        if parcel.returned.is_some() {
            return Ok(side);
        }
        let welcome = if parcel.kind.is_request() {
            side.tag.accepts(parcel.tag)
        } else {
            side.is_answer(parcel.from, imm, parcel.tag)
        };
        if !welcome {
            return Err(Code::BadTag);
        }
        if !matches!(handlers.get(usize::from(imm.handler())), Some(Some(_))) {
            return Err(Code::BadHandler);
        }
        if parcel.kind.is_xfer() {
            side.check_place(parcel.place)?;
        }
        Ok(side)
    }

    /// Runs a message that was checked.
    pub(super) fn call(&mut self, core: &mut Link<'_>, parcel: &Parcel, body: Body<'_>) {
        let Some(Some(ep)) = self.eps.get_mut(usize::from(parcel.imm.to())) else { return };
        let EpEntry { side, handlers, on_return } = &mut **ep;
        let (handler, phase) = match parcel.returned {
            Some(_) => (on_return.as_mut(), Phase::Returned),
            None => {
                let phase = if parcel.kind.is_request() { Phase::Request } else { Phase::Reply };
                (handlers.get_mut(usize::from(parcel.imm.handler())).and_then(Option::as_mut), phase)
            }
        };
        if parcel.answers {
            side.settle(parcel.from, parcel.imm);
        } else if parcel.returned.is_some() {
            // A reply of ours that was not wanted.
            core.settled(parcel.from, parcel.imm);
        }
        let Some(handler) = handler else {
            self.backlog.dropped += 1;
            return;
        };
        let mut ctx = Ctx {
            state: &mut self.state,
            core: core.link(),
            side,
            backlog: &mut self.backlog,
            from: parcel.from,
            imm: parcel.imm,
            tag: parcel.tag,
            phase,
            body,
            parcel: Some(parcel),
        };
        handler(&mut ctx, parcel.args());
        if ctx.phase == Phase::Request {
            done(core, parcel.want, parcel.from, parcel.imm);
        }
    }

    /// Keeps a message whose bundle is not polled now, or returns it if there are too many.
    fn enqueue(&mut self, core: &mut Link<'_>, parcel: Parcel, mut body: Body<'_>) -> Flow {
        let Some(Some(ep)) = self.eps.get_mut(usize::from(parcel.imm.to())) else { return Flow::Continue };
        let side = &mut ep.side;
        let is_request = parcel.kind.is_request() && parcel.returned.is_none();
        // Answers are bounded by our own requests; more than those only a liar sends.
        let answers = if is_request { 0 } else { side.slots.len() * usize::from(side.credit) };
        if side.queue.len() >= side.expected.saturating_add(answers) {
            self.give_back(core, &parcel, body, Code::Congestion);
            return Flow::Continue;
        }
        let quit = side.bundle == self.watched;
        let data = if parcel.kind.is_medium() { body.take_vec() } else { Vec::new() };
        self.backlog.keep(side, parcel, data);
        if quit { Flow::Quit } else { Flow::Continue }
    }

    /// Sends a message back to where it came from. What came back already goes no further.
    #[cold]
    pub(super) fn give_back(&mut self, core: &mut Link<'_>, parcel: &Parcel, mut body: Body<'_>, code: Code) {
        if parcel.returned.is_some() {
            if !parcel.answers {
                core.settled(parcel.from, parcel.imm);
            }
            return;
        }
        if parcel.answers {
            // Wanted or not, it is the answer to a request, which has its credit back.
            if let Some(Some(ep)) = self.eps.get_mut(usize::from(parcel.imm.to())) {
                ep.side.settle(parcel.from, parcel.imm);
            }
        }
        let why = Why { code, kind: parcel.kind, args: parcel.count }.word();
        let head = if parcel.kind.is_xfer() {
            Head::of(parcel.tag, &[why, parcel.place.offset, parcel.place.len], parcel.args())
        } else {
            Head::of(parcel.tag, &[why], parcel.args())
        };
        let data = if parcel.kind.is_medium() { body.remaining() } else { 0 };
        let len = head.bytes().len() + data;
        let imm = parcel.imm.back(parcel.imm.handler());
        let port = wire::port(Kind::Returned, false, parcel.count);
        let fill = |wire: &mut barewire_sys::wirebuf::WireMut<'_>| {
            head.gather(&Bulk::Bytes(&[]), wire, 0, len - data);
            body.read_to(wire);
        };
        // If the sender is gone, nobody misses the message.
        let _ = if parcel.kind.is_request() {
            core.reply_with(parcel.from, port, imm.0, len, fill)
        } else {
            core.refuse_with(parcel.from, port, imm.0, len, fill)
        };
    }

    /// Whether a message waits for `bundle`.
    pub fn has_messages(&self, bundle: u16) -> bool {
        self.backlog.queued > 0
            && self.eps.iter().flatten().any(|ep| ep.side.bundle == bundle && !ep.side.queue.is_empty())
    }

    /// Whether something waits that [`Tables::work_off`] can do.
    #[inline(always)]
    pub fn is_behind(&self) -> bool {
        !self.backlog.out.is_empty() || (self.backlog.queued > 0 && self.has_messages(self.polled))
    }

    /// Runs what waits for the polled bundle, and sends on what is on its way out.
    #[cold]
    pub fn work_off(&mut self, core: &mut Link<'_>) -> usize {
        let mut ran = 0;
        for index in 0..self.eps.len() {
            let Some(ep) = &mut self.eps[index] else { continue };
            if ep.side.bundle != self.polled {
                continue;
            }
            for _ in 0..ep.side.queue.len() {
                let ep = self.eps[index].as_mut().expect("handlers cannot free endpoints");
                let Some((parcel, data)) = ep.side.queue.pop_front() else { break };
                self.backlog.queued -= 1;
                ran += 1;
                match self.check(&parcel) {
                    Ok(_) => self.call(core, &parcel, Body::Kept(&data)),
                    Err(code) => self.give_back(core, &parcel, Body::Kept(&data), code),
                }
            }
        }
        self.pump(core);
        ran
    }

    /// Sends on what is on its way out. Replies to one peer keep their order; transfers advance side by side.
    pub fn pump(&mut self, core: &mut Link<'_>) {
        let mut at = 0;
        while at < self.backlog.out.len() {
            let (to, slot) = (self.backlog.out[at].to(), self.backlog.out[at].slot);
            let earlier = self.backlog.out.iter().take(at);
            if slot.is_none() && earlier.into_iter().any(|out| out.to() == to && out.slot.is_none()) {
                at += 1;
                continue;
            }
            match self.backlog.out[at].pump(core) {
                Ok(false) => at += 1,
                ended => {
                    let out = self.backlog.out.remove(at).expect("it is there: at < len");
                    self.sent_out(out, ended.is_ok());
                }
            }
        }
    }

    /// A message left for good, or never will.
    fn sent_out(&mut self, out: Out, sent: bool) {
        let Some(Some(ep)) = self.eps.get_mut(usize::from(out.parcel.imm.to())) else { return };
        if let Some((_, number)) = out.slot {
            ep.side.set_busy(number, false);
            if sent {
                ep.side.spend(out.ticket());
            }
        }
        if !sent {
            self.backlog.keep(&mut ep.side, Parcel { want: false, ..out.parcel }, Vec::new());
        }
    }
}

impl Side {
    /// Whether bulk data may go to `place`.
    fn check_place(&self, place: Place) -> Result<(), Code> {
        let len = self.segment.as_ref().map(|segment| segment.len() as u64);
        match len {
            Some(len) if place.offset <= len => {
                if place.len <= len - place.offset {
                    Ok(())
                } else {
                    Err(Code::BadLength)
                }
            }
            _ => Err(Code::BadSegmentOffset),
        }
    }

    /// Puts bulk data into the segment, straight from wire memory.
    pub(super) fn put(&self, offset: u64, body: &mut Body<'_>) -> Result<(), Code> {
        let len = body.remaining();
        if len == 0 {
            return Ok(());
        }
        let segment = self.segment.as_ref().ok_or(Code::BadSegmentOffset)?;
        let offset = usize::try_from(offset).map_err(|_| Code::BadSegmentOffset)?;
        let mut wire = segment.wire_mut(offset, len).ok_or(Code::BadLength)?;
        body.read_to(&mut wire);
        Ok(())
    }
}

/// The head of a request or reply in one packet; what is left of the packet is its data.
fn read_parcel(
    bits: PortBits,
    kind: Kind,
    from: Peer,
    imm: Imm,
    packet: &mut Incoming<'_>,
    tag: Option<Tag>,
) -> Option<Parcel> {
    let tag = match tag {
        Some(tag) => tag,
        None => Tag(packet.read_u64()?),
    };
    let offset = if kind.is_xfer() { packet.read_u64()? } else { 0 };
    let (args, count) = read_args(bits.args(), || packet.read_u64())?;
    let data = packet.remaining();
    if data > 0 && matches!(kind, Kind::RequestShort | Kind::ReplyShort) {
        return None;
    }
    let place = Place { offset, len: data as u64 };
    Some(Parcel {
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
    })
}

/// The head of a message of ours that came back.
fn read_returned(from: Peer, imm: Imm, packet: &mut Incoming<'_>) -> Option<Parcel> {
    let tag = Tag(packet.read_u64()?);
    let why = Why::from_word(packet.read_u64()?)?;
    let place = if why.kind.is_xfer() {
        Place { offset: packet.read_u64()?, len: packet.read_u64()? }
    } else {
        Place::default()
    };
    let (args, count) = read_args(why.args, || packet.read_u64())?;
    Some(Parcel {
        from,
        kind: why.kind,
        returned: Some(why.code),
        want: false,
        imm,
        tag,
        place,
        count,
        args,
        answers: why.kind.is_request(),
        in_doubt: 0,
    })
}

/// As many arguments as announced; `None` if there cannot be as many.
pub(super) fn read_args(
    count: usize,
    mut next: impl FnMut() -> Option<u64>,
) -> Option<([u64; ARGS_MAX], usize)> {
    let mut args = [0; ARGS_MAX];
    for arg in args.get_mut(..count)? {
        *arg = next()?;
    }
    Some((args, count))
}
