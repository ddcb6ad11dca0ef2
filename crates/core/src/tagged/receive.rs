//! The receiving side: find the message, or wait for it.

use std::sync::atomic::{Ordering, fence};

use barewire_sys::userbuf::UserBuf;
use barewire_sys::wirebuf::{Places, WireRef};

use super::body::Sink;
use super::fetch::{Fetched, Shown};
use super::matching::{Envelope, Linked, Want};
use super::requests::{Failure, Note, Request, State, Status};
use super::{
    ACCEPT, CREDIT, EAGER, KEEP_BYTES, KEPT_CREDITS_MAX, MATCHED, OFFERS_MAX, RECALL, RECALLED, REST, Tagged,
};
use crate::endpoint::Endpoint;
use crate::incoming::{Ahead, Flow, Incoming, Whole};
use crate::{Peer, Port};

/// How far a receive has come.
///
/// ```
/// use barewire_core::tagged::{Envelope, Received, Sink, Tagged, Want};
/// # use barewire_sys::userbuf::UserBuf;
/// # use barewire_core::{Config, Endpoint, job::Job};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// let want = Want { context: 1, from: Some(me), tag: Some(7) };
/// let early = tagged.receive(&mut endpoint, want, Sink::User(UserBuf::EMPTY));
/// for _ in 0..2 {
///     tagged.send_now(&mut endpoint, me, Envelope { context: 1, tag: 7 }, UserBuf::EMPTY).unwrap();
/// }
/// endpoint.progress(&mut tagged, usize::MAX);
/// let late = tagged.receive(&mut endpoint, want, Sink::User(UserBuf::EMPTY));
/// assert!(matches!((early, late), (Received::Pending(early), Received::Done(_)) if tagged.is_done(early)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The message had arrived and is in place.
    Done(Status),
    /// It has not, or not all of it.
    Pending(Request),
}

/// A message that nobody has asked for yet.
#[derive(Debug)]
pub(crate) enum Unexpected {
    /// A whole short message.
    Whole(Vec<u8>),
    /// A short message in several packets, put together elsewhere.
    Parts { stream: u32, len: u64 },
    /// An offer: the sender's request, the message's length, where it can be fetched, and its beginning.
    Offer { request: u64, len: u64, shown: Shown, told: Vec<u8> },
}

impl Unexpected {
    /// What its sender was charged for it; an offer without bytes is counted, and not charged unless it is instead of the message.
    pub fn charge(&self) -> u64 {
        match self {
            Unexpected::Whole(bytes) => bytes.len() as u64 + KEEP_BYTES,
            Unexpected::Parts { len, .. } => len.saturating_add(KEEP_BYTES),
            Unexpected::Offer { len, shown, told, .. } => shown.charge(*len, told.len() as u64),
        }
    }

    pub fn is_offer(&self) -> bool {
        matches!(self, Unexpected::Offer { .. })
    }

    pub fn len(&self) -> u64 {
        match self {
            Unexpected::Whole(bytes) => bytes.len() as u64,
            Unexpected::Parts { len, .. } | Unexpected::Offer { len, .. } => *len,
        }
    }
}

/// What an offer says: the sender's request, the message's length, where it can be fetched, and how much of it has come already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub request: u64,
    pub len: u64,
    pub shown: Shown,
    pub base: u64,
}

impl Tagged {
    /// Receives a message that fits `want` into `sink`.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Mode, Received, Sink, Source, Tagged, Want};
    /// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let (from, to, mut seen) = (Memory::private(2), Memory::private(2), [0; 2]);
    /// let any = Want { context: 1, from: None, tag: None };
    /// let received = tagged.receive(&mut endpoint, any, Sink::Memory(to.clone(), 0, 2));
    /// let Received::Pending(receive) = received else { panic!("nothing was sent") };
    /// assert!(from.write(0, b"hi"));
    /// tagged.send(&mut endpoint, me, Envelope { context: 1, tag: 12 }, Mode::Standard, 2, Source::Memory(from, 0)).unwrap();
    /// endpoint.wait(&mut tagged, None, |_, tagged| tagged.is_done(receive)).unwrap();
    /// assert!(to.read(0, &mut seen));
    /// assert_eq!((tagged.take(receive).unwrap().tag, &seen), (12, b"hi"));
    /// ```
    #[inline(always)]
    pub fn receive(&mut self, endpoint: &mut Endpoint, want: Want, sink: Sink) -> Received {
        if !self.waiting.is_empty() || want.from.is_some_and(|from| endpoint.is_told_lost(from)) {
            return self.receive_at_once(endpoint, want, sink);
        }
        self.post(want, sink)
    }

    /// Posts a receive into a caller's buffer, from one peer and with one tag, if no such message waits and the peer is there; `None` if not,
    /// and nothing has happened. Then [`Tagged::receive`] is the way. The note comes back with [`Tagged::take_good`].
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let (envelope, other) = (Envelope { context: 1, tag: 7 }, Envelope { context: 1, tag: 8 });
    /// assert!(tagged.post_now(&endpoint, me, envelope, UserBuf::EMPTY, [0; 2]).is_some());
    /// tagged.send_now(&mut endpoint, me, other, UserBuf::EMPTY).unwrap();
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// assert!(tagged.post_now(&endpoint, me, other, UserBuf::EMPTY, [0; 2]).is_none(), "a message waits");
    /// ```
    #[inline(always)]
    pub fn post_now(
        &mut self,
        endpoint: &Endpoint,
        from: Peer,
        envelope: Envelope,
        buffer: UserBuf,
        note: Note,
    ) -> Option<Request> {
        if self.waiting.has(from, envelope) || endpoint.is_told_lost(from) {
            return None;
        }
        let slot = self.requests.next_slot();
        let place = self.posted.post_exact(&mut self.requests.slots, from, envelope, slot);
        Some(place.post(slot, buffer, note))
    }

    /// Receives a short message of a neighbour's of at most `most` bytes, from one peer and with one tag, if it is the next thing that comes from
    /// there, within a moment, and neither another such message nor a receive for one waits: `take` reads it where it stands. `None` if not, and nothing has
    /// happened. For those who can do nothing before it is there; then [`Tagged::receive`] is the way.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, region::Memory, tagged::{Envelope, Mode, Source, Tagged}};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, mut tagged, envelope) = (endpoint.me(), Tagged::new(&endpoint), Envelope { context: 1, tag: 7 });
    /// let (words, mut got) = (Memory::private(5), [0; 5]);
    /// words.write(0, b"hello");
    /// assert_eq!(tagged.receive_now(&mut endpoint, me, envelope, 5, |_| unreachable!()), None);
    /// tagged.send(&mut endpoint, me, envelope, Mode::Standard, 5, Source::Memory(words, 0)).unwrap();
    /// let len = tagged.receive_now(&mut endpoint, me, envelope, 5, |mut packet| { packet.read(&mut got); });
    /// assert_eq!((len, &got), (Some(5), b"hello"));
    /// ```
    #[inline(always)]
    pub fn receive_now(
        &mut self,
        endpoint: &mut Endpoint,
        from: Peer,
        envelope: Envelope,
        most: usize,
        take: impl FnOnce(WireRef<'_>),
    ) -> Option<u64> {
        if self.is_awaited(from, envelope) || self.has_to_advance() {
            return None;
        }
        let charged = &mut self.peers.get_mut(from.index())?.charged;
        let credit = |port, imm| take_credit(charged, port, imm);
        let what = (EAGER, envelope.to_imm());
        let len = endpoint.expect_besides(from, what, most, credit, take)? as u64;
        self.give_back(endpoint, from, len + KEEP_BYTES);
        Some(len)
    }

    /// Receives a message of a neighbour's in several packets, from one peer and with one tag, if its first packet is there and the next thing
    /// from there, with those that follow on its heels, and neither another such message nor a receive for one waits; `None` if not, and nothing has happened.
    /// For those for whom [`Tagged::receive_now`] found nothing.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, region::Memory};
    /// use barewire_core::tagged::{Envelope, Mode, Received, Sink, Source, Tagged};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, mut tagged, envelope) = (endpoint.me(), Tagged::new(&endpoint), Envelope { context: 1, tag: 7 });
    /// let (memory, len) = (Memory::private(100_000), 100_000);
    /// tagged.send(&mut endpoint, me, envelope, Mode::Standard, len as u64, Source::Memory(memory.clone(), 0)).unwrap();
    /// let got = tagged.receive_pieces_now(&mut endpoint, me, envelope, Sink::Memory(memory, 0, len));
    /// assert!(matches!(got, Some(Received::Done(status)) if status.len == 100_000));
    /// ```
    pub fn receive_pieces_now(
        &mut self,
        endpoint: &mut Endpoint,
        from: Peer,
        envelope: Envelope,
        mut sink: Sink,
    ) -> Option<Received> {
        if self.is_awaited(from, envelope) || self.has_to_advance() {
            return None;
        }
        let charged = &mut self.peers.get_mut(from.index())?.charged;
        let credit = |port, imm| take_credit(charged, port, imm);
        let (what, most) = ((EAGER, envelope.to_imm()), sink.capacity());
        let followed =
            endpoint.follow(from, what, most, credit, |at, mut packet| sink.take(at, &mut packet))?;
        Some(self.receive_followed(endpoint, from, envelope.tag, followed, sink))
    }

    /// Whether such a message is there already, or another receive comes before the next one for it.
    #[inline(always)]
    fn is_awaited(&self, from: Peer, envelope: Envelope) -> bool {
        self.waiting.has(from, envelope) || self.posted.has(&self.requests.slots, from, envelope)
    }

    /// Receives a message that may have come already, or never will.
    #[cold]
    #[inline(never)]
    fn receive_at_once(&mut self, endpoint: &mut Endpoint, want: Want, sink: Sink) -> Received {
        if let Some(matched) = self.claim(&want) {
            return self.receive_matched(endpoint, matched, sink);
        }
        if let Some(from) = want.from.filter(|&from| endpoint.is_told_lost(from)) {
            return Received::Done(Status::failed(from, Failure::Lost(from)));
        }
        self.post(want, sink)
    }

    /// Has a receive wait for its message.
    #[inline(always)]
    fn post(&mut self, want: Want, sink: Sink) -> Received {
        let slot = self.requests.next_slot();
        self.posted.post(&mut self.requests.slots, want, slot);
        Received::Pending(match sink {
            Sink::User(buffer) => self.requests.slots[slot as usize].post(slot, buffer, [0; 2]),
            sink => self.requests.add_at(slot, State::Posted { sink }),
        })
    }

    /// Takes back a receive whose message has not come, or a send that has not left; the request then ends as cancelled. A send
    /// that has been offered is recalled: it ends as cancelled or, if its receive has been found meanwhile, as usual. True if
    /// it has ended. [`Tagged::break_off`] also ends what has begun.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Failure, Mode, Sent, Source, Tagged, Want};
    /// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let (envelope, long) = (Envelope { context: 1, tag: 7 }, Source::Memory(Memory::private(1 << 20), 0));
    /// let sent = tagged.send(&mut endpoint, me, envelope, Mode::Standard, 1 << 20, long).unwrap();
    /// let Sent::Pending(send) = sent else { panic!("nobody has asked for it") };
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// assert!(!tagged.cancel(&mut endpoint, send), "it has been offered, and is recalled");
    /// endpoint.wait(&mut tagged, None, |_, tagged| tagged.is_done(send)).unwrap();
    /// assert_eq!(tagged.take(send).unwrap().failure, Some(Failure::Cancelled));
    /// assert_eq!(tagged.probe(&Want { context: 1, from: None, tag: Some(7) }), None);
    /// ```
    pub fn cancel(&mut self, endpoint: &mut Endpoint, request: Request) -> bool {
        if let Some(&State::Offered { to, .. }) = self.requests.get(request) {
            // Should the peer be gone, its loss ends the send.
            let _ = endpoint.reply(to, RECALL, request.to_wire(), &[]);
        }
        self.withdraw(request)
    }

    /// Ends a request that has not begun.
    fn withdraw(&mut self, request: Request) -> bool {
        if self.requests.is_posted(request) {
            let from = self.requests.slots[request.slot as usize].link().peer();
            self.posted.withdraw(&mut self.requests.slots, request.slot);
            self.requests.finish(request, Status::failed(from, Failure::Cancelled));
            return true;
        }
        match self.requests.get(request) {
            Some(&State::Queued { to, .. }) => {
                self.peers[to.index()].queue.retain(|&queued| queued != request);
                self.requests.finish(request, Status::failed(to, Failure::Cancelled));
                true
            }
            _ => false,
        }
    }

    /// A sender wants its offer back.
    pub(super) fn on_recall(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) {
        let (from, wanted) = (packet.from, packet.imm);
        let is_it = |sender: Peer, message: &Unexpected| {
            sender == from && matches!(message, Unexpected::Offer { request, .. } if *request == wanted)
        };
        if let Some(offer) = self.waiting.take_back(is_it) {
            self.release(from, &offer);
            self.give_back(endpoint, from, offer.charge());
            let _ = endpoint.reply(from, RECALLED, wanted, &[]);
        }
    }

    /// An offer of ours was taken back.
    pub(super) fn on_recalled(&mut self, packet: Incoming<'_>) {
        let request = Request::from_wire(packet.imm);
        if let Some(&State::Offered { to, .. }) = self.requests.get(request) {
            if to == packet.from {
                self.answered(to);
                self.requests.finish(request, Status::failed(to, Failure::Cancelled));
            }
        }
    }

    /// Ends a request now, however far it has come; false if it has ended already. Its buffer is not touched any more. What
    /// has left stays sent; a receive whose message is on its way leaves it unreceived, and a receiver whose sender breaks
    /// off sees its receive end as cancelled.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Failure, Mode, Sent, Source, Tagged};
    /// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let (envelope, long) = (Envelope { context: 1, tag: 7 }, Source::Memory(Memory::private(1 << 20), 0));
    /// let sent = tagged.send(&mut endpoint, me, envelope, Mode::Standard, 1 << 20, long).unwrap();
    /// let Sent::Pending(send) = sent else { panic!("nobody has asked for it") };
    /// assert!(tagged.break_off(&mut endpoint, send), "at once, though it has been offered");
    /// assert!(!tagged.break_off(&mut endpoint, send), "it has ended already");
    /// assert_eq!(tagged.take(send).unwrap().failure, Some(Failure::Cancelled));
    /// ```
    pub fn break_off(&mut self, endpoint: &mut Endpoint, request: Request) -> bool {
        if self.withdraw(request) {
            return true;
        }
        let peer = match self.requests.get(request) {
            Some(&State::Offered { shown: Shown { address: 1.., .. }, .. }) => {
                // The receiver may be reading the buffer.
                self.cancel(endpoint, request);
                return true;
            }
            Some(&State::Offered { to, shown, .. }) => {
                if let Some((key, _)) = shown.region {
                    // Whoever is copying finds that it was taken back.
                    endpoint.revoke(key);
                    fence(Ordering::SeqCst);
                }
                self.answered(to);
                to
            }
            Some(&State::Arriving { from, .. }) => from,
            Some(State::Pushing { sending, .. }) => sending.to(),
            _ => return false,
        };
        let before = self.requests.replace(request, State::Done);
        self.requests.finish(request, Status::failed(peer, Failure::Cancelled));
        if let Some(State::Pushing { sending, .. }) = before {
            self.peers[peer.index()].pushing.retain(|&other| other != request);
            self.end_early(endpoint, sending);
        }
        true
    }

    /// A whole short message has arrived.
    #[inline(always)]
    pub(super) fn on_eager(&mut self, endpoint: &mut Endpoint, message: Whole<'_>) -> Flow {
        let (from, envelope) = (message.from, Envelope::from_imm(message.imm));
        let Some(slot) = self.posted.find(&mut self.requests.slots, from, envelope) else {
            // What nobody has asked for costs less where it is, and whoever waits may be about to ask for it.
            return if message.may_stay() { Flow::Later } else { self.keep_whole(message.into_packet()) };
        };
        let len = message.payload.remaining() as u64;
        if !self.requests.fill(slot, &message.payload) {
            self.fill_other(slot, message.into_packet());
        }
        self.give_back(endpoint, from, len + KEEP_BYTES);
        Flow::Continue
    }

    #[inline(never)]
    fn fill_other(&mut self, slot: u32, mut packet: Incoming<'_>) {
        let tag = Envelope::from_imm(packet.imm).tag;
        self.requests.fill_other(slot, packet.from, tag, &mut packet);
    }

    #[cold]
    #[inline(never)]
    fn keep_whole(&mut self, mut packet: Incoming<'_>) -> Flow {
        let (from, envelope) = (packet.from, Envelope::from_imm(packet.imm));
        self.keep(from, envelope, Unexpected::Whole(packet.to_vec()))
    }

    /// Keeps a message until somebody asks for it, unless its sender has gone too far.
    #[cold]
    pub(super) fn keep(&mut self, from: Peer, envelope: Envelope, message: Unexpected) -> Flow {
        let peer = &mut self.peers[from.index()];
        peer.kept = peer.kept.saturating_add(message.charge());
        peer.offers += u32::from(message.is_offer());
        if peer.kept > self.credit.saturating_mul(KEPT_CREDITS_MAX) || peer.offers > OFFERS_MAX {
            return Flow::Distrust;
        }
        self.waiting.push(from, envelope, message);
        Flow::Continue
    }

    /// A long or synchronous message is offered.
    pub(super) fn on_offer(&mut self, endpoint: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
        let (from, envelope) = (packet.from, Envelope::from_imm(packet.imm));
        let (mut words, mut shown) = ([0; 2], [0; Shown::WORDS]);
        if packet.read_words(&mut words) < words.len() || packet.read_words(&mut shown) < shown.len() {
            return Flow::Distrust;
        }
        let ([request, len], shown) = (words, Shown::from_words(from, words[1], shown));
        let told = packet.remaining() as u64;
        if told > len {
            return Flow::Distrust;
        }
        match self.posted.find(&mut self.requests.slots, from, envelope) {
            Some(slot) => {
                let Some(mut sink) = self.requests.take_sink(slot) else { return Flow::Continue };
                sink.take(0, &mut packet);
                self.give_back(endpoint, from, shown.charge(len, told));
                let offer = Offer { request, len, shown, base: told };
                self.accept(endpoint, slot, from, envelope.tag, offer, sink);
                Flow::Continue
            }
            None => {
                self.note_unasked(shown);
                self.keep(from, envelope, Unexpected::Offer { request, len, shown, told: packet.to_vec() })
            }
        }
    }

    /// Answers an offer: the receive is there, send the rest; or it was complete in itself.
    pub(super) fn accept(
        &mut self,
        endpoint: &mut Endpoint,
        slot: u32,
        from: Peer,
        tag: i32,
        Offer { request: theirs, len, shown, base }: Offer,
        mut sink: Sink,
    ) -> Request {
        // What does not fit need not travel.
        let limit = len.min(sink.capacity()).max(base);
        let fetched = match shown.is_any() && base == 0 {
            true => self.take_shown(endpoint, from, shown, limit as usize, &mut sink),
            false => Fetched::Unfit,
        };
        if fetched == Fetched::Whole || (limit == base && base == len) {
            let status = Status::received(from, tag, len, sink.capacity());
            let request = self.requests.add_done(slot, status);
            self.requests.note_end(request);
            let _ = match fetched {
                Fetched::Whole => endpoint.tell(from, MATCHED, theirs),
                _ => endpoint.reply(from, MATCHED, theirs, &[]),
            };
            return request;
        }
        let expected = limit - base;
        let request = if expected == 0 {
            let request = self.requests.add_done(slot, Status::received(from, tag, len, sink.capacity()));
            self.requests.note_end(request);
            request
        } else {
            self.requests.add_at(slot, State::Arriving { from, tag, len, base, got: 0, expected, sink })
        };
        if shown.address != 0 && fetched == Fetched::Unfit {
            self.sending_begins(request, expected as usize);
        }
        let told = endpoint.reply_with(from, ACCEPT, theirs, 24, |wire| {
            wire.write_words(&[request.to_wire(), limit, fetched.never_for()]);
        });
        if told.is_err() && expected > 0 {
            // Whoever made the offer is gone, and the rest of the message with it.
            self.requests.finish(request, Status::failed(from, Failure::Lost(from)));
        }
        request
    }

    /// More of an accepted message has arrived.
    pub(super) fn on_rest(&mut self, packet: Incoming<'_>) -> Flow {
        self.on_arriving(Request::from_wire(packet.imm), packet)
    }

    pub(super) fn on_arriving(&mut self, request: Request, mut packet: Incoming<'_>) -> Flow {
        let Some(State::Arriving { from, tag, len, base, got, expected, sink }) =
            self.requests.get_mut(request)
        else {
            return Flow::Continue;
        };
        if *from == packet.from && packet.total < *expected && packet.is_last() {
            // Its sender broke off.
            let status = Status::failed(*from, Failure::Cancelled);
            self.requests.finish(request, status);
            return Flow::Continue;
        }
        if *from != packet.from || packet.total != *expected || packet.offset != *got {
            return Flow::Distrust;
        }
        *got += packet.remaining() as u64;
        sink.take(*base + packet.offset, &mut packet);
        if *got == *expected {
            let status = Status::received(*from, *tag, *len, sink.capacity());
            self.requests.finish(request, status);
            self.sending_ends(request);
        }
        Flow::Continue
    }

    /// Where the next bytes of a message go that is arriving.
    pub(super) fn arriving_at<'a>(&'a mut self, ahead: &Ahead, places: &mut Places<'a>) {
        let Some(request) = self.arriving(ahead) else { return };
        if let Some(State::Arriving { from, base, got, expected, sink, .. }) = self.requests.get_mut(request)
        {
            if (*from, *got, *expected) == (ahead.from, ahead.offset, ahead.total) {
                sink.place(*base + ahead.offset, ahead.len, places);
            }
        }
    }

    /// The receive of a message that is arriving.
    fn arriving(&self, ahead: &Ahead) -> Option<Request> {
        match ahead.port {
            REST => Some(Request::from_wire(ahead.imm)),
            EAGER => self.receiving(ahead.from, ahead.stream),
            _ => None,
        }
    }

    /// Bytes have been put where [`Tagged::arriving_at`] said.
    pub(super) fn on_placed(&mut self, endpoint: &mut Endpoint, ahead: &Ahead) {
        let Some(request) = self.arriving(ahead) else { return };
        let Some(State::Arriving { from, tag, len, got, expected, sink, .. }) =
            self.requests.get_mut(request)
        else {
            return;
        };
        *got += ahead.len as u64;
        if *got == *expected {
            let status = Status::received(*from, *tag, *len, sink.capacity());
            self.requests.finish(request, status);
            if ahead.port == EAGER {
                self.end_receiving(endpoint, ahead.from, ahead.stream);
            }
        }
    }

    /// Credit for a message that is not kept any more; told to its sender now and then.
    #[inline]
    pub(super) fn give_back(&mut self, endpoint: &mut Endpoint, to: Peer, bytes: u64) {
        let peer = &mut self.peers[to.index()];
        peer.owed = peer.owed.saturating_add(bytes);
        if peer.owed >= self.credit / 4 {
            let owed = std::mem::take(&mut peer.owed);
            let _ = endpoint.tell(to, CREDIT, owed);
        }
    }
}

/// Takes back credit, if a message says that some comes back.
#[inline(always)]
pub(super) fn take_credit(charged: &mut u64, port: Port, imm: u64) -> bool {
    let is_it = port == CREDIT;
    if is_it {
        *charged = charged.saturating_sub(imm);
    }
    is_it
}
