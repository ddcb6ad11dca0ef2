//! Receiving: one loop over the peers, one packet at a time, straight to the layer's handler.

mod shuttled;

use std::time::Instant;

use barewire_sys::ring::{BESIDE_MAX, is_header, lines_for};
use barewire_sys::wirebuf::WireRef;

use crate::endpoint::{Endpoint, InboundSlot};
use crate::hold::HoldSlot;
use crate::incoming::{Deliver, Flow, Incoming};
use crate::peer::PeerState;
use crate::provider::Rx;
use crate::provider::shm::{RingRx, bytes_in_ring};
use crate::stream::OpenMessages;
use crate::wire::{self, Begin, FLAG_CHUNK, FLAG_LAST, Head, Kind};
use crate::{Peer, Port};

/// Packets taken from one peer before the next has its turn.
pub(crate) const BATCH: u32 = 64;
/// Packets in a row after which more are likely to be there.
pub(crate) const BEHIND: u32 = 2;

/// The way in from one peer, and the messages open on it.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub rx: Rx,
    pub open: OpenMessages,
}

/// What a peer sent that had no credit for it.
pub(crate) const UNPAID: &str = "more than it has credit for";

/// What a peer said of a message that cannot be.
const BEGINS_WRONGLY: &str = "a long message that begins wrongly";

/// How handling one packet ended.
pub(crate) enum Handled {
    Next,
    Quit,
    /// The packet stays where it is, if it may.
    Later,
    /// The peer said something no peer of ours would say.
    Nonsense(&'static str),
}

impl From<Flow> for Handled {
    #[inline(always)]
    fn from(flow: Flow) -> Handled {
        match flow {
            Flow::Continue => Handled::Next,
            Flow::Later => Handled::Later,
            Flow::Quit => Handled::Quit,
            Flow::Distrust => Handled::Nonsense("what its layer forbids"),
        }
    }
}

impl Endpoint {
    /// Takes packets that have arrived and hands them to `deliver`, until none are left, 64 of each peer have been taken, so that all get their
    /// turn, about `budget` bytes have been taken (the last packet may overshoot), or a handler says [`Flow::Quit`]. Never waits. Says how many
    /// packets it took; none in a child of the process that opened the endpoint, whose they are.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let me = endpoint.me();
    /// (0..3).for_each(|_| endpoint.send(me, Port(1), 0, &[7; 100]).unwrap());
    /// assert_eq!(endpoint.progress(&mut Ignore, 150), 2, "the second one goes past the budget");
    /// assert_eq!(endpoint.progress(&mut Ignore, usize::MAX), 1);
    /// assert_eq!(endpoint.progress(&mut Ignore, usize::MAX), 0, "nothing has arrived, and it does not wait");
    /// ```
    #[inline]
    pub fn progress<D: Deliver>(&mut self, deliver: &mut D, budget: usize) -> usize {
        self.progress_with(deliver, Budget::new(budget), |_| true)
    }

    /// [`Endpoint::progress`] for those who look again and again until something certain has come: of each peer it takes at least one packet, and then
    /// leaves those that their layer [wants later](Flow::Later), as a [wait](Endpoint::wait) does.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let wanted = tagged.post_now(&endpoint, me, Envelope { context: 1, tag: 1 }, UserBuf::EMPTY, [0; 2]).unwrap();
    /// for tag in [1, 2, 3] {
    ///     tagged.send_now(&mut endpoint, me, Envelope { context: 1, tag }, UserBuf::EMPTY).unwrap();
    /// }
    /// assert_eq!(endpoint.progress_wanted(&mut tagged), 1, "nobody has asked for the others yet");
    /// assert!(tagged.is_done(wanted));
    /// ```
    #[inline]
    pub fn progress_wanted<D: Deliver>(&mut self, deliver: &mut D) -> usize {
        self.progress_with(deliver, Budget::of_a_wait(), |_| true)
    }

    /// [`Endpoint::progress`] with packets only of some peers.
    #[inline(always)]
    pub(crate) fn progress_with<D: Deliver>(
        &mut self,
        deliver: &mut D,
        mut budget: Budget,
        with: impl Fn(Peer) -> bool,
    ) -> usize {
        if !self.guard.is_parent() {
            return 0;
        }
        if self.datagrams.is_some() {
            self.receive_datagrams();
        }
        if self.sockets.is_used() {
            self.find_ready();
            if self.at_large.is_some() {
                self.introduce(deliver);
            }
        }
        let links = self.inbound.len();
        for step in 0..links {
            let mut at = self.turn + step;
            at -= if at >= links { links } else { 0 };
            if self.inbound.get(at).is_some_and(|slot| with(slot.peer)) {
                self.take_from(deliver, at, &mut budget);
            }
            if budget.is_spent() {
                self.turn = at;
                break;
            }
        }
        if !self.deferring.is_empty() || !self.ops.sending.is_empty() || !self.serving.is_empty() {
            self.push_on();
        }
        if self.datagrams.is_some() {
            self.transmit_datagrams(deliver);
        }
        if self.sockets.has_bundles() {
            self.flush_bundles(budget.taken == 0);
        }
        if self.rounds.count(budget.taken) {
            self.make_rounds(deliver);
        }
        budget.taken
    }

    /// For those who make progress in a loop of their own until something has come, after all that else is to be done: so much has come this
    /// time. When nothing has, others who may need the processor are offered it, after as many looks in vain as a [wait](Endpoint::wait)
    /// would make.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Port, job::Job};
    /// let (mut endpoint, mut taken) = (Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0);
    /// endpoint.send(endpoint.me(), Port(1), 0, b"hi").unwrap();
    /// while taken == 0 {
    ///     taken = endpoint.progress(&mut Ignore, usize::MAX);
    ///     endpoint.looked(taken);
    /// }
    /// assert_eq!(taken, 1);
    /// ```
    #[inline]
    pub fn looked(&mut self, taken: usize) {
        if taken == 0 {
            self.looked_in_vain();
        }
    }

    #[cold]
    fn looked_in_vain(&mut self) {
        if self.patience.is_spent() {
            let now = Instant::now();
            self.give_way(None);
            self.patience.yielded_at(now);
        }
    }

    /// Many looks have passed: housekeeping, unless the last is recent and nobody waits for the next.
    #[cold]
    #[inline(never)]
    fn make_rounds<D: Deliver>(&mut self, deliver: &mut D) {
        let may_wait = self.connecting.is_empty()
            && self.pending.is_empty()
            && self.lost.is_empty()
            && self.datagrams.is_none();
        if !(may_wait && self.rounds.is_early()) {
            self.housekeep(deliver);
        }
    }

    /// Sends what had found no room before.
    #[cold]
    fn push_on(&mut self) {
        self.flush_outboxes();
        self.pump_puts();
        self.serve();
    }

    #[inline(always)]
    pub(crate) fn take_from<D: Deliver>(&mut self, deliver: &mut D, at: usize, budget: &mut Budget) {
        // Taken out while its packets are handled, so that handlers may use the endpoint; a handler that makes progress
        // itself finds the place empty and passes over it.
        // Links that end meanwhile leave the list, so the place may be gone.
        let Some(InboundSlot { peer, ready: true, inbound }) = self.inbound.get_mut(at) else { return };
        let peer = *peer;
        let Some(mut link) = inbound.take() else { return };
        let Inbound { rx, open } = &mut *link;
        let fate = match rx {
            Rx::Ring(ring) => self.take_from_ring(deliver, peer, ring, open, budget).map(|()| true),
            Rx::Tcp(tcp) => self.take_from_tcp(deliver, peer, tcp, open, budget),
            Rx::Datagram(rx) => self.take_from_datagrams(deliver, peer, rx, open, budget).map(|()| true),
        };
        match fate {
            Ok(ready) => match self.inbound.get_mut(at) {
                Some(slot) if slot.peer == peer => {
                    slot.ready = ready;
                    slot.inbound = Some(link);
                }
                _ => self.put_back(peer, link),
            },
            Err(reason) => {
                match &link.rx {
                    Rx::Tcp(tcp) => self.poller.remove(tcp.socket()),
                    Rx::Ring(ring) => ring.socket().into_iter().for_each(|socket| self.poller.remove(socket)),
                    Rx::Datagram(_) => {}
                }
                self.end_inbound(deliver, peer, reason);
            }
        }
    }

    /// Puts a link back whose place has moved while a handler ran; a peer that was forgotten meanwhile has none.
    #[cold]
    fn put_back(&mut self, peer: Peer, link: Box<Inbound>) {
        if let Some(slot) = self.inbound_of(peer) {
            (slot.ready, slot.inbound) = (true, Some(link));
        }
    }

    #[inline(always)]
    fn take_from_ring<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        rx: &mut RingRx,
        open: &mut OpenMessages,
        budget: &mut Budget,
    ) -> Result<(), EndReason> {
        if rx.is_holding() {
            rx.settle(self.peers[from.index()].shuttle());
        }
        // Plain messages are counted together, at the end.
        let (mut others, mut bytes) = (0, 0);
        let mut left = BATCH;
        let ended = 'taking: {
            while left > 0 {
                let packet = rx.ring.look();
                let handled = if let Some((port, len)) = wire::as_message(packet.w0) {
                    let flow = if len <= BESIDE_MAX {
                        if left <= BATCH - BEHIND {
                            rx.ring.fetch_ahead();
                        }
                        self.take_message(deliver, from, rx, (port, packet.w1, len))
                    } else {
                        self.take_longer_message(deliver, from, rx, (port, packet.w1, len))
                    };
                    let Some(flow) = flow else { break 'taking Err(EndReason::TooLong) };
                    if D::LEAVES {
                        if flow == Flow::Later {
                            break;
                        }
                        rx.hold.let_stay(budget.may_leave);
                    }
                    left -= 1;
                    bytes += len as u64;
                    budget.pay(len);
                    if flow == Flow::Continue && budget.left > 0 {
                        continue;
                    }
                    flow.into()
                } else if is_header(packet.w0) {
                    (left, others) = (left - 1, others + 1);
                    self.take_other(deliver, from, rx, open, budget, packet.w0, packet.w1)
                } else if let Some(packet) = self.look_at_shuttle(from, rx) {
                    (left, others) = (left - 1, others + 1);
                    match self.take_cargo(deliver, from, rx, budget, packet) {
                        // The next one can only be in the ring.
                        Some(Flow::Continue) if budget.left > 0 && !budget.may_leave && rx.has_next() => {
                            continue;
                        }
                        Some(Flow::Continue | Flow::Later) => break,
                        Some(flow) => flow.into(),
                        None => match self.take_long_cargo(deliver, from, rx, open, budget, packet) {
                            Some(handled) => handled,
                            None => break 'taking self.found_nothing(from, rx),
                        },
                    }
                } else {
                    break 'taking self.found_nothing(from, rx);
                };
                match handled {
                    Handled::Next if budget.left > 0 => {}
                    Handled::Next | Handled::Later => break,
                    Handled::Quit => {
                        budget.quit = true;
                        break;
                    }
                    Handled::Nonsense(what) => break 'taking Err(EndReason::Nonsense(what)),
                }
            }
            Ok(())
        };
        if D::LEAVES {
            rx.hold.let_stay(false);
        }
        let whole = BATCH - left - others;
        if whole > 0 {
            self.peers[from.index()].stats.count_all_received(whole.into(), bytes);
            budget.taken += whole as usize;
        }
        ended
    }

    /// Takes the plain message at the head of a ring, to a port with an immediate; none if it has more bytes than the ring.
    #[inline(always)]
    fn take_message<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        rx: &mut RingRx,
        (port, imm, len): (Port, u64, usize),
    ) -> Option<Flow> {
        let payload = rx.ring.payload(len)?;
        rx.hold.arm(lines_for(len));
        let mut flow = deliver.deliver(self, Incoming::whole(from, port, imm, payload, &rx.hold));
        if D::LEAVES && flow == Flow::Later {
            if rx.hold.may_stay() {
                return Some(flow);
            }
            flow = Flow::Continue;
        }
        if rx.finish(len) {
            self.peers[from.index()].stats.held += 1;
            if rx.overdrawn {
                return Some(Flow::Distrust);
            }
        }
        Some(flow)
    }

    /// The same apart from the many short ones, which are the better for it.
    #[inline(never)]
    fn take_longer_message<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        rx: &mut RingRx,
        message: (Port, u64, usize),
    ) -> Option<Flow> {
        self.take_message(deliver, from, rx, message)
    }

    /// There is nothing to take: an error if there will be nothing more.
    #[inline(always)]
    fn found_nothing(&mut self, from: Peer, rx: &RingRx) -> Result<(), EndReason> {
        let ended = rx.closing && rx.is_quiet_now(self.peers[from.index()].shuttle());
        if ended { Err(EndReason::Closed) } else { Ok(()) }
    }

    /// A packet that is not a plain short message.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn take_other<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        rx: &mut RingRx,
        open: &mut OpenMessages,
        budget: &mut Budget,
        w0: u64,
        w1: u64,
    ) -> Handled {
        let Some(head) = Head::unpack(w0, w1) else { return Handled::Nonsense("an unknown kind of packet") };
        let len = head.len as usize;
        let chunked = head.flags & FLAG_CHUNK != 0;
        if chunked && !rx.has_pool() {
            rx.fetch_pool(&mut self.pool);
        }
        let begins = chunked && head.kind == Kind::Begin;
        let in_ring = bytes_in_ring(&head);
        rx.hold.arm(lines_for(in_ring));
        // The next part of what has begun is wanted, or else it is in the way.
        if D::LEAVES && !matches!(head.kind, Kind::Message | Kind::Begin) {
            rx.hold.let_stay(false);
        }
        if self.imports.expecting() {
            rx.read_socket();
            rx.passed.drain(..).for_each(|(tag, fd)| self.imports.arrived(from, &tag, fd));
        }
        let handled = if begins {
            rx.chunk_that_begins(len)
                .map(|opened| self.begin_message(deliver, from, head, opened, open, &rx.hold))
        } else {
            let payload = if chunked { rx.chunk(len) } else { rx.ring.payload(len) };
            payload.map(|payload| self.dispatch(deliver, from, head, payload, open, &rx.hold))
        };
        let handled = handled.unwrap_or(Handled::Nonsense("a packet that does not lie in its memory"));
        if D::LEAVES {
            if matches!(handled, Handled::Later) && rx.hold.may_stay() {
                return handled;
            }
            rx.hold.let_stay(budget.may_leave);
        }
        let kept = rx.finish(in_ring);
        if chunked {
            rx.pass_chunk(len);
        }
        budget.spend(len);
        let stats = &mut self.peers[from.index()].stats;
        stats.count_received(len);
        stats.held += u64::from(kept);
        match handled {
            _ if rx.overdrawn => Handled::Nonsense(UNPAID),
            Handled::Later => Handled::Next,
            handled => handled,
        }
    }

    /// Hands the first packet of a long message to whom it concerns: what opens it, and the bytes behind that.
    fn begin_message<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        head: Head,
        (begin, payload): (Begin, WireRef<'_>),
        open: &mut OpenMessages,
        hold: &HoldSlot,
    ) -> Handled {
        let Some(part) = open.begin(&head, begin, payload.remaining()) else {
            return Handled::Nonsense(BEGINS_WRONGLY);
        };
        let flow = deliver.deliver(self, Incoming::part(from, part, payload, hold));
        if D::LEAVES && flow == Flow::Later && hold.may_stay() {
            open.forget(part.stream);
        }
        flow.into()
    }

    /// Hands one packet of any kind to whom it concerns.
    pub(crate) fn dispatch<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        head: Head,
        mut payload: WireRef<'_>,
        open: &mut OpenMessages,
        hold: &HoldSlot,
    ) -> Handled {
        match head.kind {
            Kind::Message => {
                deliver.deliver(self, Incoming::whole(from, head.port, head.w1, payload, hold)).into()
            }
            Kind::Begin => match Begin::read(&mut payload) {
                Some(begin) => self.begin_message(deliver, from, head, (begin, payload), open, hold),
                None => Handled::Nonsense(BEGINS_WRONGLY),
            },
            Kind::Piece => match open.piece(head.w1, payload.remaining(), head.flags & FLAG_LAST != 0) {
                Some(part) => deliver.deliver(self, Incoming::part(from, part, payload, hold)).into(),
                None => Handled::Nonsense("a piece of no message"),
            },
            Kind::Bye => {
                self.peers[from.index()].state = PeerState::Left;
                self.peers[from.index()].refresh_fast();
                self.lost.push_back(from);
                Handled::Next
            }
            Kind::Ping => Handled::Next,
            Kind::Credit => match self.peers[from.index()].tx.returned(head.w1) {
                true => Handled::Next,
                false => Handled::Nonsense("a credit that cannot be"),
            },
            Kind::Put => match self.on_put(deliver, from, &head, &mut payload) {
                Some(flow) => flow.into(),
                None => Handled::Nonsense("a put that makes no sense"),
            },
            Kind::Get => sense(self.on_get(from, &head, &mut payload)),
            Kind::Data => sense(self.on_data(from, &head, &mut payload)),
            Kind::Ack => sense(self.on_ack(from, &head, &mut payload)),
            Kind::Atomic => sense(self.on_atomic(from, &head, &mut payload)),
            Kind::Map => sense(self.on_map(from, &head, &mut payload)),
        }
    }

    /// A link is at its end: the peer is gone, or not to be believed any more.
    #[cold]
    fn end_inbound<D: Deliver>(&mut self, deliver: &mut D, from: Peer, reason: EndReason) {
        self.inbound.retain(|slot| slot.peer != from);
        self.turn = 0;
        self.sockets.unlink(from);
        let reason = match reason {
            EndReason::Closed => "its process ended or closed the connection".to_owned(),
            EndReason::TooLong => "it sent a packet longer than the ring".to_owned(),
            EndReason::Nonsense(what) => format!("it sent {what}"),
            EndReason::Broken(reason) => reason,
        };
        self.lose(from, reason);
        self.tell_lost(deliver);
    }

    pub(crate) fn add_inbound(&mut self, peer: Peer, rx: Rx) {
        let inbound = Some(Box::new(Inbound { rx, open: OpenMessages::default() }));
        self.inbound.push(InboundSlot { peer, ready: true, inbound });
    }

    /// Where packets from `peer` come in.
    pub(crate) fn inbound_of(&mut self, peer: Peer) -> Option<&mut InboundSlot> {
        self.inbound.iter_mut().find(|slot| slot.peer == peer)
    }
}

fn sense(handled: Option<()>) -> Handled {
    match handled {
        Some(()) => Handled::Next,
        None => Handled::Nonsense("a region packet that makes no sense"),
    }
}

/// Why nothing more comes from a peer.
pub(crate) enum EndReason {
    Closed,
    TooLong,
    Nonsense(&'static str),
    Broken(String),
}

/// What one call of `progress` may still take.
pub(crate) struct Budget {
    /// Bytes; nothing or less if it is spent.
    left: isize,
    pub taken: usize,
    pub quit: bool,
    /// Whether handlers may leave packets where they are.
    may_leave: bool,
}

impl Budget {
    pub fn new(bytes: usize) -> Budget {
        let left = isize::try_from(bytes).unwrap_or(isize::MAX);
        Budget { left, taken: 0, quit: false, may_leave: false }
    }

    fn left(&self) -> usize {
        usize::try_from(self.left).unwrap_or(0)
    }

    /// For one of many looks of a wait: what it leaves is there for the next, if that is still needed.
    pub fn of_a_wait() -> Budget {
        Budget { may_leave: true, ..Budget::new(usize::MAX) }
    }

    #[inline(always)]
    pub fn spend(&mut self, bytes: usize) {
        self.pay(bytes);
        self.taken += 1;
    }

    /// Spends what a packet of so many bytes costs, which is counted elsewhere.
    #[inline(always)]
    fn pay(&mut self, bytes: usize) {
        // A packet without payload still costs something, or a flood of them would be free.
        self.left -= bytes.max(1) as isize;
    }

    #[inline(always)]
    pub fn is_spent(&self) -> bool {
        self.left <= 0 || self.quit
    }
}
