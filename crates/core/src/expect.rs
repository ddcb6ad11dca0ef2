//! Expecting: a receiver that can do nothing before one certain message is there looks for it alone, and takes it where it stands.
//!
//! What `progress` does for any packet of any peer (whose turn it is, which handler it is for, what else is due) is a good part of
//! what a short message costs. Who knows the very next packet, whom it is from and what it says needs none of it. Everything else stays
//! where it is, in order, for `progress`; which has its turn whenever the wait takes long, and now and then even if it does not.

use barewire_sys::ring::BESIDE_MAX;
use barewire_sys::shuttle::Shuttle;
use barewire_sys::wirebuf::WireRef;

use crate::endpoint::{Endpoint, InboundSlot};
use crate::incoming::{Deliver, Incoming, Part};
use crate::progress::{BEHIND, Budget, Inbound};
use crate::provider::Rx;
use crate::provider::shm::{CHUNK_NAME_BYTES, RingRx, bytes_in_ring};
use crate::stream::OpenMessages;
use crate::wire::{self, Begin, FLAG_CHUNK, FLAG_LAST, Head, Kind};
use crate::{Peer, Port};

/// Messages in a row that are taken this way before everybody else has a turn.
const IN_A_ROW_MAX: u32 = 16;

/// Packets of one message that are taken this way, with others that come between: more than anybody sends, but for those who mean harm.
const FOLLOWED_MAX: u32 = 1024;

/// Where the last expected message came from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expecting {
    /// Its place in the list of peers to receive from.
    at: usize,
    in_a_row: u32,
    /// Messages in a row that were there at the first look.
    behind: u32,
}

/// How far a message has come that was [followed](Endpoint::follow).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed {
    /// All its bytes, and those that were taken.
    pub total: u64,
    pub got: u64,
    pub stream: u32,
}

impl Endpoint {
    /// Takes a neighbour's next packet if that is a short message to `port` with immediate `imm` and at most `most` bytes, looking for
    /// it for a moment, or for a few yields where others want to run; says how many bytes it has. `None` if nothing has been taken, because
    /// something else came, nothing did, or others have to have their turn: then [`Endpoint::progress`] or [`Endpoint::wait`] is the way.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, port, mut got) = (endpoint.me(), Port(3), [0; 4]);
    /// endpoint.send(me, port, 7, b"mine").unwrap();
    /// assert_eq!(endpoint.expect(me, port, 8, 4, |_| unreachable!()), None, "it is another");
    /// assert_eq!(endpoint.expect(me, port, 7, 4, |mut packet| { packet.read(&mut got); }), Some(4));
    /// assert_eq!((endpoint.progress(&mut Ignore, usize::MAX), &got), (0, b"mine"));
    /// ```
    #[inline(always)]
    pub fn expect(
        &mut self,
        from: Peer,
        port: Port,
        imm: u64,
        most: usize,
        take: impl FnOnce(Incoming<'_>),
    ) -> Option<usize> {
        self.expect_besides(
            from,
            (port, imm),
            most,
            |_, _| false,
            |payload| {
                take(Incoming::new(from, port, imm, payload));
            },
        )
    }

    /// Gives everybody else their turn if it is due, because many messages of one peer in a row were [expected](Endpoint::expect) and came;
    /// what that peer has sent stays where it is. For those who mean to expect more of it: otherwise [`Endpoint::progress`] has to come first, and
    /// takes it.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, port) = (endpoint.me(), Port(3));
    /// let mut nobody = |_: &mut Endpoint, _: Incoming<'_>| -> Flow { panic!("there is nobody else") };
    /// for n in 0..100 {
    ///     endpoint.send(me, port, n, b"").unwrap();
    ///     endpoint.let_others(me, &mut nobody);
    ///     assert_eq!(endpoint.expect(me, port, n, 0, |_| ()), Some(0));
    /// }
    /// ```
    #[inline(always)]
    pub fn let_others<D: Deliver>(&mut self, peer: Peer, deliver: &mut D) {
        if self.expecting.in_a_row >= IN_A_ROW_MAX {
            self.attend_to_others(peer, deliver);
        }
    }

    #[inline(never)]
    fn attend_to_others<D: Deliver>(&mut self, peer: Peer, deliver: &mut D) {
        self.expecting.in_a_row = 0;
        self.progress_with(deliver, Budget::new(usize::MAX), |other| other != peer);
    }

    /// [`Endpoint::expect`] a message to a port with an immediate, and let `aside` take messages without bytes that come before it: it is asked,
    /// by port and immediate, whether it does.
    #[inline(always)]
    pub(crate) fn expect_besides(
        &mut self,
        from: Peer,
        what: (Port, u64),
        most: usize,
        aside: impl FnMut(Port, u64) -> bool,
        take: impl FnOnce(WireRef<'_>),
    ) -> Option<usize> {
        match self.take_next(from, what, most, take) {
            Ok(len) => Some(len),
            Err(take) => self.expect_patiently(from, what, most, aside, take),
        }
    }

    /// Takes a message that is in the ring at the first look, as the one before it was: what else there may be to do was looked at with the first of
    /// them in a row, and is again before they are too many. Gives `take` back if it is not there.
    #[inline(always)]
    fn take_next<T: FnOnce(WireRef<'_>)>(
        &mut self,
        from: Peer,
        (port, imm): (Port, u64),
        most: usize,
        take: T,
    ) -> Result<usize, T> {
        let Expecting { at, in_a_row, behind } = self.expecting;
        if behind == 0 || !(1..IN_A_ROW_MAX).contains(&in_a_row) || !self.guard.is_parent() {
            return Err(take);
        }
        let Some(slot) = self.inbound.get_mut(at).filter(|slot| slot.peer == from) else { return Err(take) };
        let Some(Inbound { rx: Rx::Ring(rx), .. }) = slot.inbound.as_deref_mut() else { return Err(take) };
        let Some(packet) = rx.ring.peek().filter(|_| !rx.is_holding()) else { return Err(take) };
        let len = match wire::as_message(packet.w0) {
            Some((to, len)) if to == port && packet.w1 == imm && len <= most => len,
            _ => return Err(take),
        };
        let Some(payload) = rx.ring.payload(len) else { return Err(take) };
        self.expecting.behind = behind.wrapping_add(1);
        if behind >= BEHIND && len <= BESIDE_MAX {
            rx.ring.fetch_ahead();
        }
        take(payload);
        rx.pass(len);
        self.expecting.in_a_row += 1;
        self.peers[from.index()].stats.count_received(len);
        Ok(len)
    }

    #[inline(always)]
    fn expect_patiently(
        &mut self,
        from: Peer,
        (port, imm): (Port, u64),
        most: usize,
        mut aside: impl FnMut(Port, u64) -> bool,
        take: impl FnOnce(WireRef<'_>),
    ) -> Option<usize> {
        let at = self.expecting_from(from)?;
        let mut looks = self.patience.looks_at_one();
        let mut yielded = 0;
        let Some(Inbound { rx: Rx::Ring(rx), .. }) = self.inbound[at].inbound.as_deref_mut() else {
            return None;
        };
        let peer = &mut self.peers[from.index()];
        if rx.is_holding() {
            rx.settle(peer.shuttle());
        }
        let mut link = peer.shuttle.as_deref_mut().map(|link| &mut link.shuttle);
        let patience = looks;
        let (shuttle, chunked, len) = loop {
            let (packet, shuttle) = loop {
                if let Some(packet) = rx.ring.peek() {
                    break (packet, None);
                }
                if let Some(shuttle) = &mut link {
                    if let Some(packet) = rx.peek_shuttle(shuttle) {
                        break (packet, Some(shuttle));
                    }
                }
                looks = match looks.checked_sub(1) {
                    Some(left) => left,
                    // The sender may need this very processor, and may have had it meanwhile.
                    None if yielded < self.patience.yields() => {
                        yielded += 1;
                        self.queue.give_way(&self.bell, rx.sender().map(|sender| (from, sender)));
                        0
                    }
                    None => return None,
                };
            };
            let (chunked, (to, len)) = match wire::as_message(packet.w0) {
                Some(message) => (false, message),
                None => (true, wire::as_chunked_message(packet.w0)?),
            };
            if to == port && packet.w1 == imm && len <= most {
                break (shuttle, chunked, len);
            }
            if chunked || len > 0 || !aside(to, packet.w1) {
                return None;
            }
            match shuttle {
                Some(shuttle) => {
                    shuttle.pass();
                    rx.ring.turn_over();
                }
                None => rx.pass(0),
            }
            peer.stats.count_received(0);
            // Whoever sends nothing else is not listened to for ever.
            looks = looks.checked_sub(1)?;
        };
        self.expecting.behind = if looks == patience { self.expecting.behind.wrapping_add(1) } else { 0 };
        if self.expecting.behind > BEHIND && len <= BESIDE_MAX {
            rx.ring.fetch_ahead();
        }
        // In one place, so that it is compiled into it.
        take(match &shuttle {
            Some(_) if chunked => return None,
            Some(shuttle) => shuttle.payload(len)?,
            None if chunked => rx.chunk(len)?,
            None => rx.ring.payload(len)?,
        });
        match shuttle {
            Some(shuttle) => {
                shuttle.pass();
                rx.ring.turn_over();
            }
            None if chunked => {
                rx.pass(CHUNK_NAME_BYTES);
                rx.pass_chunk(len);
            }
            None => rx.pass(len),
        }
        self.expecting.in_a_row += 1;
        peer.stats.count_received(len);
        Some(len)
    }

    /// Takes a message of a neighbour's by the shuttle or in several packets, to `port` with immediate `imm` and of at most `most` bytes, if its first
    /// packet is there, with the others as they come, for as long as each does within a moment and none of another message comes between; `take` gets where
    /// in the message each begins, and its bytes. Says how far it has come. `None` if nothing has been taken; then, and for the rest of a message that is not
    /// whole, [`Endpoint::progress`] is the way. `aside` is as for [`Endpoint::expect_besides`].
    pub(crate) fn follow(
        &mut self,
        from: Peer,
        (port, imm): (Port, u64),
        most: u64,
        mut aside: impl FnMut(Port, u64) -> bool,
        mut take: impl FnMut(u64, Incoming<'_>),
    ) -> Option<Followed> {
        if self.imports.expecting() {
            return None;
        }
        let at = self.expecting_from(from)?;
        let patience = self.patience.looks_at_one();
        let Some(Inbound { rx: Rx::Ring(rx), open }) = self.inbound[at].inbound.as_deref_mut() else {
            return None;
        };
        let peer = &mut self.peers[from.index()];
        if rx.is_holding() {
            rx.settle(peer.shuttle());
        }
        if let Some(link) = peer.shuttle.as_deref_mut() {
            let took =
                follow_written(rx, &mut link.shuttle, open, (port, imm, most), patience, |at, payload| {
                    peer.stats.count_received(payload.remaining());
                    take(at, Incoming::new(from, port, imm, payload));
                });
            if took.is_some() {
                self.expecting.in_a_row += 1;
                return took;
            }
        }
        let mut followed: Option<Followed> = None;
        let mut looks = 0;
        for _ in 0..FOLLOWED_MAX {
            let Some(packet) = rx.look_for(looks) else { break };
            let Some(head) = Head::unpack(packet.w0, packet.w1) else { break };
            let (len, chunked) = (head.len as usize, head.flags & FLAG_CHUNK != 0);
            if chunked && !rx.has_pool() {
                rx.fetch_pool(&mut self.pool);
            }
            let begins = head.kind == Kind::Begin;
            let opened = match (chunked, begins) {
                (true, true) => rx.chunk_that_begins(len).map(|(begin, payload)| (Some(begin), payload)),
                (true, false) => rx.chunk(len).map(|payload| (None, payload)),
                (false, _) => rx
                    .ring
                    .payload(len)
                    .map(|mut payload| (begins.then(|| Begin::read(&mut payload)).flatten(), payload)),
            };
            let Some((begin, payload)) = opened else { break };
            // What is not the next of the message, or makes no sense, is left for `progress` to find again.
            let part = match (head.kind, &followed) {
                (Kind::Message, Some(_)) if len == 0 && !chunked && aside(head.port, head.w1) => {
                    rx.pass(0);
                    peer.stats.count_received(0);
                    continue;
                }
                (Kind::Begin, None) if (head.port, head.w1) == (port, imm) => begin
                    .filter(|begin| begin.total <= most)
                    .and_then(|begin| open.begin(&head, begin, payload.remaining())),
                (Kind::Piece, Some(so_far))
                    if head.w1 == u64::from(so_far.stream) && head.flags & FLAG_LAST == 0 =>
                {
                    open.piece(head.w1, payload.remaining(), false)
                }
                _ => None,
            };
            let Some(Part { total, offset, stream, .. }) = part else { break };
            let got = offset + payload.remaining() as u64;
            take(offset, Incoming::new(from, port, imm, payload));
            rx.pass(bytes_in_ring(&head));
            if chunked {
                rx.pass_chunk(len);
            }
            peer.stats.count_received(len);
            followed = Some(Followed { total, got, stream });
            if got == total {
                break;
            }
            looks = patience;
        }
        self.expecting.in_a_row += u32::from(followed.is_some());
        followed
    }

    /// One look of a wait. Who waits for one neighbour in a crowd looks mostly at what that has sent, a packet at a time: most looks are
    /// in vain, and what others have sent, or the same one later, costs less once it has been asked for.
    #[inline(always)]
    pub(crate) fn look<D: Deliver>(&mut self, on: Option<Peer>, deliver: &mut D) -> usize {
        match on {
            Some(peer) if self.patience.yields() > 0 => self.look_at(peer, deliver),
            _ => self.progress_with(deliver, Budget::of_a_wait(), |_| true),
        }
    }

    #[inline(never)]
    fn look_at<D: Deliver>(&mut self, peer: Peer, deliver: &mut D) -> usize {
        let is_ring =
            |slot: &InboundSlot| slot.inbound.as_ref().is_some_and(|link| matches!(link.rx, Rx::Ring(_)));
        let Some(at) = self.expecting_from(peer).filter(|&at| is_ring(&self.inbound[at])) else {
            return self.progress(deliver, usize::MAX);
        };
        self.expecting.in_a_row += 1;
        let mut budget = Budget::new(1);
        self.take_from(deliver, at, &mut budget);
        if budget.taken == 0 {
            self.rounds.count_idle(1);
        }
        budget.taken
    }

    /// The place in the list of peers to receive from, if there is nothing else to do and it is not the others' turn.
    #[inline(always)]
    fn expecting_from(&mut self, from: Peer) -> Option<usize> {
        let busy = !self.deferring.is_empty() || !self.ops.sending.is_empty() || !self.serving.is_empty();
        let wired = self.datagrams.is_some() || self.sockets.has_bundles() || !self.guard.is_parent();
        if busy || wired || self.expecting.in_a_row >= IN_A_ROW_MAX || self.rounds.count(1) {
            self.expecting.in_a_row = 0;
            return None;
        }
        match self.inbound.get(self.expecting.at) {
            Some(slot) if slot.peer == from => Some(self.expecting.at),
            _ => self.place_of(from),
        }
    }

    #[cold]
    fn place_of(&mut self, from: Peer) -> Option<usize> {
        self.expecting.at = self.inbound.iter().position(|slot| slot.peer == from)?;
        Some(self.expecting.at)
    }
}

/// Takes a long message to `port` with immediate `imm` and of at most `most` bytes that comes by the shuttle, if it is next and nothing of it has been
/// taken, as it is written, until that takes more than so many looks. Says how far it has come; `None` if nothing has been taken.
fn follow_written(
    rx: &mut RingRx,
    shuttle: &mut Shuttle,
    open: &mut OpenMessages,
    (port, imm, most): (Port, u64, u64),
    patience: u32,
    mut take: impl FnMut(u64, WireRef<'_>),
) -> Option<Followed> {
    let packet = rx.peek_shuttle(shuttle)?;
    let head = Head::unpack_long(packet.w0, packet.w1)
        .filter(|head| (head.port, head.w1) == (port, imm) && u64::from(head.len) <= most)?;
    let stream = shuttle.note();
    if open.get(stream).is_some() {
        return None;
    }
    let (mut followed, mut looks) = (None, patience);
    // What makes no sense is left for `progress` to find again.
    while let Some(payload) = shuttle.long_payload(head.len as usize) {
        let len = payload.remaining();
        if len == 0 {
            match looks.checked_sub(1) {
                Some(left) => looks = left,
                None => break,
            }
            continue;
        }
        let Some(Part { total, offset, stream, .. }) = open.go_on(&head, stream, len) else { break };
        take(offset, payload);
        let got = offset + len as u64;
        rx.pass_written(shuttle, len, got == total);
        followed = Some(Followed { total, got, stream });
        if got == total {
            break;
        }
        looks = patience;
    }
    followed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Job;
    use crate::wait::Waiting;
    use crate::{Config, Flow, Ignore};

    fn crowd() -> [Endpoint; 3] {
        connected(true)
    }

    fn alone() -> [Endpoint; 3] {
        connected(false)
    }

    /// Three endpoints that are connected: the one that waits, the one it waits for, and another.
    fn connected(crowded: bool) -> [Endpoint; 3] {
        let open = |job| Endpoint::open(Job { crowded, ..job }, Config::default()).unwrap();
        let mut all: Vec<_> = Job::threads(3).unwrap().into_iter().map(open).collect();
        for from in [1, 2] {
            all[from].send(Peer(0), Port(1), 0, b"first").unwrap();
        }
        while all[0].stats().received < 2 {
            for endpoint in &mut all {
                endpoint.progress(&mut Ignore, usize::MAX);
            }
        }
        all.try_into().unwrap()
    }

    #[test]
    fn who_waits_for_one_in_a_crowd_leaves_what_others_sent_and_what_came_later() {
        let [mut here, mut there, mut other] = crowd();
        other.send(Peer(0), Port(1), 0, b"not asked for").unwrap();
        (0..2).for_each(|_| there.send(Peer(0), Port(1), 0, b"asked for").unwrap());
        let one = Waiting { what: "one message", on: Some(Peer(1)) };
        // The first look may be everybody's turn.
        here.expecting.in_a_row = 0;
        here.rounds.made();
        here.wait_for(one, &mut Ignore, None, |here, _| here.stats().received > 2).unwrap();
        assert_eq!(here.stats().received, 3);
        assert_eq!(here.progress(&mut Ignore, usize::MAX), 2);
    }

    #[test]
    fn who_waits_for_one_in_a_crowd_hears_the_others_in_the_end() {
        let [mut here, there, mut other] = crowd();
        other.send(Peer(0), Port(1), 0, b"help").unwrap();
        let one = Waiting { what: "one message", on: Some(Peer(1)) };
        here.wait_for(one, &mut Ignore, None, |here, _| here.stats().received > 2).unwrap();
        drop(there);
    }

    #[test]
    fn who_expects_many_in_a_row_lets_others_have_their_turn_and_leaves_the_rest_in_order() {
        let [mut here, mut there, mut other] = alone();
        other.send(Peer(0), Port(1), 7, b"besides").unwrap();
        (0..3 * IN_A_ROW_MAX).for_each(|n| there.send(Peer(0), Port(1), n.into(), b"").unwrap());
        let mut besides = Vec::new();
        let mut others = |_: &mut Endpoint, packet: Incoming<'_>| {
            besides.push((packet.from, packet.imm));
            Flow::Continue
        };
        here.expecting.in_a_row = 0;
        here.rounds.made();
        for n in 0..3 * IN_A_ROW_MAX {
            here.let_others(Peer(1), &mut others);
            assert_eq!(here.expect(Peer(1), Port(1), n.into(), 0, |_| ()), Some(0), "message {n}");
        }
        assert_eq!(besides, [(Peer(2), 7)]);
    }

    /// Leaves packets with odd immediates as long as it may.
    struct OnlyEven(Vec<u64>);

    impl Deliver for OnlyEven {
        const LEAVES: bool = true;

        fn deliver(&mut self, _: &mut Endpoint, packet: Incoming<'_>) -> Flow {
            if packet.may_stay() && packet.imm % 2 == 1 {
                return Flow::Later;
            }
            self.0.push(packet.imm);
            Flow::Continue
        }
    }

    #[test]
    fn a_wait_leaves_what_its_layer_does_not_want_yet_and_every_look_takes_something() {
        let [mut here, mut there, _other] = alone();
        (0..10).for_each(|n| there.send(Peer(0), Port(1), n, b"").unwrap());
        let mut only_even = OnlyEven(Vec::new());
        let before = here.stats().received;
        here.wait(&mut only_even, None, |here, _| here.stats().received > before).unwrap();
        assert_eq!(here.stats().received, before + 1, "the second was left, and with it all behind it");
        here.wait(&mut only_even, None, |here, _| here.stats().received == before + 10).unwrap();
        assert_eq!(only_even.0, (0..10).collect::<Vec<_>>());
    }
}
