//! The sending side: at once, or offered first.

use barewire_sys::userbuf::UserBuf;
use barewire_sys::wirebuf::{Fill, WireMut, WireRef};

use super::body::Source;
use super::fetch::{Shown, Ways, until};
use super::matching::Envelope;
use super::requests::{Request, State, Status};
use super::{
    EAGER, EAGER_BYTES_MAX, KEEP_BYTES, OFFER, OFFERS_MAX, REST, SHOWN_BYTES_MIN, TagPeer, Tagged,
    WHOLE_BYTES_MAX, WHOLE_NEAR_BYTES_MAX, WHOLE_STREAMED_BYTES_MAX,
};
use crate::Peer;
use crate::endpoint::Endpoint;
use crate::error::SendError;
use crate::incoming::Incoming;
use crate::provider::Class;
use crate::stream::Sending;

/// When a send has ended.
///
/// ```
/// use barewire_core::tagged::{Envelope, Mode, Received, Sent, Sink, Source, Tagged, Want};
/// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// let (envelope, memory) = (Envelope { context: 1, tag: 7 }, Memory::private(4));
/// let mut send = |tagged: &mut Tagged, mode| tagged.send(&mut endpoint, me, envelope, mode, 4, Source::Memory(memory.clone(), 0));
/// assert_eq!(send(&mut tagged, Mode::Standard), Ok(Sent::Done));
/// let Ok(Sent::Pending(send)) = send(&mut tagged, Mode::Synchronous) else { panic!("nobody has asked for it") };
/// for _ in 0..2 {
///     tagged.receive(&mut endpoint, Want { context: 1, from: Some(me), tag: Some(7) }, Sink::Memory(memory.clone(), 0, 4));
/// }
/// endpoint.wait(&mut tagged, None, |_, tagged| tagged.is_done(send)).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When its buffer may be used again.
    Standard,
    /// When its receive has been found, too.
    Synchronous,
}

/// How far a send has come.
///
/// ```
/// use barewire_core::tagged::{Envelope, Mode, Sent, Source, Tagged};
/// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// let (memory, envelope) = (Memory::private(1 << 20), Envelope { context: 1, tag: 7 });
/// let mut send = |len| tagged.send(&mut endpoint, me, envelope, Mode::Standard, len, Source::Memory(memory.clone(), 0));
/// assert_eq!(send(100), Ok(Sent::Done), "it is on its way, and the buffer is ours");
/// assert!(matches!(send(1 << 20), Ok(Sent::Pending(_))), "a long one waits for its receive");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It has ended: the buffer is free.
    Done,
    /// It goes on; the buffer is in use until the request has ended.
    Pending(Request),
}

/// Bytes of one packet of a message of some length: taking one out overlaps with putting in the next.
const PIECE_BYTES: usize = 32 << 10;
/// Messages that wait for room to end early; more has nobody who keeps to the rules.
const ENDING_MAX: usize = 1 << 16;

/// Bytes that open an offer: the sender's request, the message's length, and where its buffer is if it may be fetched.
const OFFER_PREFIX: usize = 8 * (2 + Shown::WORDS);

/// Whether a message goes in one packet rather than in pieces, or is fetched, if it may be by this peer. Few bytes do.
#[inline(always)]
fn goes_whole(endpoint: &Endpoint, to: Peer, len: u64, fetching: Option<&TagPeer>) -> bool {
    len <= WHOLE_BYTES_MAX as u64 || goes_whole_near(endpoint, to, len, fetching)
}

/// The same of more bytes. Apart, so that nothing has to be kept in memory for it where they are few.
#[inline(never)]
fn goes_whole_near(endpoint: &Endpoint, to: Peer, len: u64, fetching: Option<&TagPeer>) -> bool {
    len <= WHOLE_STREAMED_BYTES_MAX as u64
        && endpoint.is_neighbour(to)
        && (len <= WHOLE_NEAR_BYTES_MAX as u64 || !endpoint.answers(to))
        && (len < SHOWN_BYTES_MIN || !fetching.is_some_and(|peer| peer.may_be_shown(len)))
}

impl Tagged {
    /// Sends `len` bytes of `source`.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Mode, Received, Sent, Sink, Source, Tagged, Want};
    /// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let (from, to, len) = (Memory::private(1 << 20), Memory::private(1 << 20), 1 << 20);
    /// assert!(from.write(len - 3, b"end"));
    /// let envelope = Envelope { context: 1, tag: 7 };
    /// let sent = tagged.send(&mut endpoint, me, envelope, Mode::Standard, len as u64, Source::Memory(from, 0)).unwrap();
    /// let Sent::Pending(send) = sent else { panic!("nobody has asked for it") };
    /// tagged.receive(&mut endpoint, Want { context: 1, from: Some(me), tag: Some(7) }, Sink::Memory(to.clone(), 0, len));
    /// endpoint.wait(&mut tagged, None, |endpoint, tagged| tagged.advance(endpoint) && tagged.is_done(send)).unwrap();
    /// assert_eq!(tagged.take(send).unwrap().len, 1 << 20);
    /// ```
    #[inline]
    pub fn send(
        &mut self,
        endpoint: &mut Endpoint,
        to: Peer,
        envelope: Envelope,
        mode: Mode,
        len: u64,
        mut source: Source,
    ) -> Result<Sent, SendError> {
        let fill = |wire: &mut WireMut<'_>| source.fill(0, wire);
        if mode == Mode::Standard && self.send_at_once(endpoint, to, envelope, len, fill)? {
            return Ok(Sent::Done);
        }
        self.send_later(endpoint, to, envelope, mode, len, source)
    }

    /// Sends a caller's bytes if they are few and can go at once; false if not, and nothing has happened. Then [`Tagged::send`] is the
    /// way.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, tagged::{Envelope, Tagged}};
    /// use barewire_sys::userbuf::UserBuf;
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, mut tagged, envelope) = (endpoint.me(), Tagged::new(&endpoint), Envelope { context: 1, tag: 7 });
    /// let receive = tagged.post_now(&endpoint, me, envelope, UserBuf::EMPTY, [0; 2]).expect("nothing has come");
    /// assert_eq!(tagged.send_now(&mut endpoint, me, envelope, UserBuf::EMPTY), Ok(true));
    /// endpoint.wait(&mut tagged, None, |_, tagged| tagged.is_done(receive)).unwrap();
    /// assert_eq!(tagged.take(receive).unwrap().len, 0);
    /// ```
    #[inline(always)]
    pub fn send_now(
        &mut self,
        endpoint: &mut Endpoint,
        to: Peer,
        envelope: Envelope,
        bytes: UserBuf,
    ) -> Result<bool, SendError> {
        match bytes.wire_ref(0, bytes.len()) {
            Some(wire) => self.send_at_once(endpoint, to, envelope, bytes.len() as u64, wire),
            None => Ok(false),
        }
    }

    /// [`Tagged::send_now`] for bytes that are borrowed.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, tagged::{Envelope, Tagged}};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, mut tagged, envelope) = (endpoint.me(), Tagged::new(&endpoint), Envelope { context: 1, tag: 7 });
    /// let mut got = [0; 5];
    /// while tagged.send_bytes_now(&mut endpoint, me, envelope, b"hello") != Ok(true) {}
    /// tagged.receive_now(&mut endpoint, me, envelope, 5, |mut packet| { packet.read(&mut got); }).unwrap();
    /// assert_eq!(&got, b"hello");
    /// ```
    #[inline(always)]
    pub fn send_bytes_now(
        &mut self,
        endpoint: &mut Endpoint,
        to: Peer,
        envelope: Envelope,
        bytes: &[u8],
    ) -> Result<bool, SendError> {
        self.send_at_once(endpoint, to, envelope, bytes.len() as u64, WireRef::new(bytes))
    }

    /// Sends a message in one packet, if it is short and there are room and credit for it; false if nothing has happened.
    #[inline(always)]
    fn send_at_once(
        &mut self,
        endpoint: &mut Endpoint,
        to: Peer,
        envelope: Envelope,
        len: u64,
        fill: impl Fill,
    ) -> Result<bool, SendError> {
        let Some(peer) = self.peers.get_mut(to.index()) else { return Err(SendError::NoSuchPeer(to)) };
        let charge = len + KEEP_BYTES;
        if !goes_whole(endpoint, to, len, Some(peer))
            || !peer.queue.is_empty()
            || peer.charged + charge > self.credit
        {
            return Ok(false);
        }
        match endpoint.send_filled(to, EAGER, envelope.to_imm(), len as usize, fill) {
            Ok(()) => {
                peer.charged += charge;
                Ok(true)
            }
            Err(SendError::Full | SendError::TooLong { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    #[inline(never)]
    fn send_later(
        &mut self,
        endpoint: &mut Endpoint,
        to: Peer,
        envelope: Envelope,
        mode: Mode,
        len: u64,
        source: Source,
    ) -> Result<Sent, SendError> {
        endpoint.peer_mut(to)?;
        let mut source = source;
        self.find_out(endpoint, to, len);
        if mode == Mode::Standard && self.goes_in_pieces(endpoint, to, len, &source) {
            match begin_in_pieces(endpoint, to, envelope, len, &mut source) {
                Ok(sending) => {
                    self.peers[to.index()].charged += len + KEEP_BYTES;
                    if sending.is_done() {
                        return Ok(Sent::Done);
                    }
                    let pushing = State::Pushing { sending, tag: envelope.tag, len, base: 0, source };
                    let request = self.requests.add(pushing);
                    self.begin_pushing(endpoint, to, request);
                    return Ok(Sent::Pending(request));
                }
                Err(SendError::Full) => {}
                Err(error) => return Err(error),
            }
        }
        let request = self.requests.add(State::Queued { to, envelope, mode, len, source });
        self.peers[to.index()].queue.push_back(request);
        self.push_queue(endpoint, to);
        match self.requests.take(request) {
            Some(_) => Ok(Sent::Done),
            None => Ok(Sent::Pending(request)),
        }
    }

    /// Whether a message goes to a neighbour in pieces, the first of them now: nothing comes before it, and the receiver may keep it.
    fn goes_in_pieces(&self, endpoint: &Endpoint, to: Peer, len: u64, source: &Source) -> bool {
        let peer = &self.peers[to.index()];
        (WHOLE_NEAR_BYTES_MAX as u64 + 1..=EAGER_BYTES_MAX).contains(&len)
            && endpoint.is_neighbour(to)
            && peer.queue.is_empty()
            && peer.pushing.is_empty()
            && self.affords(to, len)
            && !self.shown(endpoint, to, len, true, source).is_any()
    }

    /// Sends what is queued for a peer, in order, as far as there is room.
    pub(super) fn push_queue(&mut self, endpoint: &mut Endpoint, to: Peer) {
        while let Some(&request) = self.peers[to.index()].queue.front() {
            if !self.push_first(endpoint, to, request) {
                if !self.queued.contains(&to) {
                    self.queued.push(to);
                }
                return;
            }
            self.peers[to.index()].queue.pop_front();
        }
    }

    /// Sends a queued message at once or offers it; false if there is no room.
    fn push_first(&mut self, endpoint: &mut Endpoint, to: Peer, request: Request) -> bool {
        let Some(State::Queued { envelope, mode, len, source, .. }) = self.requests.get(request) else {
            return true;
        };
        let (envelope, mode, len) = (*envelope, *mode, *len);
        // How it goes depends on whether the receiver is a neighbour, which shows once it is connected. Should it be gone, its loss ends the send.
        let _ = endpoint.peer_mut(to);
        let shown = self.shown(endpoint, to, len, mode == Mode::Standard, source);
        // What the receiver may keep of it; `None` if not even an empty message.
        let affordable = self.credit.checked_sub(self.peers[to.index()].charged + KEEP_BYTES);
        let at_once = mode == Mode::Standard && len <= EAGER_BYTES_MAX && !shown.is_any();
        if at_once && affordable.is_some_and(|most| len <= most) {
            return match goes_whole(endpoint, to, len, None) && len <= endpoint.message_max(to) as u64 {
                true => self.push_whole(endpoint, to, request),
                false => self.push_begin(endpoint, to, request),
            };
        }
        if self.peers[to.index()].offered >= OFFERS_MAX {
            return false;
        }
        let room = endpoint.packet_room(to, Class::Data).unwrap_or(0).saturating_sub(OFFER_PREFIX) as u64;
        let told = match shown.is_any() {
            false => len.min(affordable.unwrap_or(0)).min(room).min(WHOLE_BYTES_MAX as u64),
            true => 0,
        };
        let Some(State::Queued { source, .. }) = self.requests.get_mut(request) else { return true };
        let sent = endpoint.send_with(to, OFFER, envelope.to_imm(), told as usize + OFFER_PREFIX, |wire| {
            wire.write_words(&[request.to_wire(), len]);
            wire.write_words(&shown.words());
            source.fill(0, wire);
        });
        if sent.is_ok() {
            self.peers[to.index()].offered += 1;
            self.peers[to.index()].charged += shown.charge(len, told);
            if let Some(State::Queued { source, .. }) = self.requests.replace(request, State::Done) {
                let offered = State::Offered { to, tag: envelope.tag, len, told, shown, source };
                self.requests.replace(request, offered);
            }
        }
        sent != Err(SendError::Full)
    }

    /// Sends a queued message in one packet; false if there is no room.
    fn push_whole(&mut self, endpoint: &mut Endpoint, to: Peer, request: Request) -> bool {
        let Some(State::Queued { envelope, len, source, .. }) = self.requests.get_mut(request) else {
            return true;
        };
        let (envelope, len) = (*envelope, *len);
        let sent =
            endpoint.send_with(to, EAGER, envelope.to_imm(), len as usize, |wire| source.fill(0, wire));
        if sent.is_ok() {
            self.peers[to.index()].charged += len + KEEP_BYTES;
            self.requests.finish(request, Status::good(to, envelope.tag, len));
        }
        sent != Err(SendError::Full)
    }

    /// Begins to send a queued message in several packets; false if there is no room for the first.
    fn push_begin(&mut self, endpoint: &mut Endpoint, to: Peer, request: Request) -> bool {
        let Some(State::Queued { envelope, len, source, .. }) = self.requests.get_mut(request) else {
            return true;
        };
        let (envelope, len) = (*envelope, *len);
        let sending = match begin_in_pieces(endpoint, to, envelope, len, source) {
            Ok(sending) => sending,
            Err(error) => return error != SendError::Full,
        };
        self.peers[to.index()].charged += len + KEEP_BYTES;
        let tag = envelope.tag;
        if let Some(State::Queued { source, .. }) = self.requests.replace(request, State::Done) {
            self.requests.replace(request, State::Pushing { sending, tag, len, base: 0, source });
            self.begin_pushing(endpoint, to, request);
        }
        true
    }

    /// The receive for an offer of ours is there.
    pub(super) fn on_accept(&mut self, endpoint: &mut Endpoint, mut packet: Incoming<'_>) {
        let request = Request::from_wire(packet.imm);
        let (Some(theirs), Some(limit)) = (packet.read_u64(), packet.read_u64()) else { return };
        let never_for = packet.read_u64().unwrap_or(0);
        let from = packet.from;
        match self.requests.get(request) {
            Some(State::Offered { to, len, told, .. }) if *to == from && (*told..=*len).contains(&limit) => {
                if never_for > 0 {
                    self.peers[from.index()].declines[Ways::of(*len)] = until(never_for);
                }
            }
            _ => return self.decline(endpoint, from, theirs),
        }
        self.answered(from);
        let Some(State::Offered { to, tag, len, told, source, .. }) =
            self.requests.replace(request, State::Done)
        else {
            return;
        };
        match endpoint.begin(to, REST, theirs, limit - told) {
            Ok(sending) => {
                self.requests.replace(request, State::Pushing { sending, tag, len, base: told, source });
                self.begin_pushing(endpoint, to, request);
            }
            Err(_) => self.requests.finish(request, Status::failed(to, super::Failure::Lost(to))),
        }
    }

    /// An offer of ours is open no more.
    pub(super) fn answered(&mut self, by: Peer) {
        let peer = &mut self.peers[by.index()];
        peer.offered = peer.offered.saturating_sub(1);
    }

    /// A receive was found for an offer that is broken off: its message ends before it begins.
    #[cold]
    fn decline(&mut self, endpoint: &mut Endpoint, to: Peer, theirs: u64) {
        self.answered(to);
        if let Ok(sending) = endpoint.begin(to, REST, theirs, 0) {
            self.end_early(endpoint, sending);
        }
    }

    /// Ends a message short of its length, as soon as there is room to say so.
    pub(super) fn end_early(&mut self, endpoint: &mut Endpoint, mut sending: Sending) {
        if endpoint.end(&mut sending) == Err(SendError::Full) && self.ending.len() < ENDING_MAX {
            self.ending.push(sending);
        }
    }

    /// The rest of a message may follow, after those that are being pushed.
    fn begin_pushing(&mut self, endpoint: &mut Endpoint, to: Peer, request: Request) {
        self.peers[to.index()].pushing.push_back(request);
        if self.peers[to.index()].pushing.len() == 1 {
            self.push_accepted(endpoint, to);
        }
    }

    /// Pushes more of the messages that a peer has accepted, one after the other, as far as there is room.
    pub(super) fn push_accepted(&mut self, endpoint: &mut Endpoint, to: Peer) {
        while let Some(&request) = self.peers[to.index()].pushing.front() {
            if self.push_rest(endpoint, request) {
                if !self.pushing.contains(&to) {
                    self.pushing.push(to);
                }
                return;
            }
            self.peers[to.index()].pushing.pop_front();
        }
    }

    /// Pushes more of an accepted message; false when all of it is on its way.
    fn push_rest(&mut self, endpoint: &mut Endpoint, request: Request) -> bool {
        let Some(State::Pushing { sending, tag, len, base, source }) = self.requests.get_mut(request) else {
            return false;
        };
        let (to, tag, len) = (sending.to(), *tag, *len);
        let most = if len <= EAGER_BYTES_MAX { PIECE_BYTES } else { usize::MAX };
        let status = match push_all(endpoint, sending, most, source, *base) {
            Ok(()) => Status::good(to, tag, len),
            Err(SendError::Full) => return true,
            Err(_) => Status::failed(to, super::Failure::Lost(to)),
        };
        self.requests.finish(request, status);
        false
    }

    /// An offer of ours was complete in itself, and its receive has been found.
    pub(super) fn on_matched(&mut self, packet: Incoming<'_>) {
        let request = Request::from_wire(packet.imm);
        self.answered(packet.from);
        if let Some(&State::Offered { to, tag, len, .. }) = self.requests.get(request) {
            if to == packet.from {
                self.requests.finish(request, Status::good(to, tag, len));
            }
        }
    }
}

/// Begins a message in several packets, as many of them as there is room for; an error if that is none.
fn begin_in_pieces(
    endpoint: &mut Endpoint,
    to: Peer,
    envelope: Envelope,
    len: u64,
    source: &mut Source,
) -> Result<Sending, SendError> {
    let mut sending = endpoint.begin(to, EAGER, envelope.to_imm(), len)?;
    match push_all(endpoint, &mut sending, PIECE_BYTES, source, 0) {
        Err(error) if !sending.has_begun() => Err(error),
        // Whatever ended it, whoever pushes the rest finds it too.
        _ => Ok(sending),
    }
}

/// Pushes what is left of a message that begins at `base` in its source, as far as there is room.
fn push_all(
    endpoint: &mut Endpoint,
    sending: &mut Sending,
    most: usize,
    source: &mut Source,
    base: u64,
) -> Result<(), SendError> {
    if endpoint.is_neighbour(sending.to()) {
        return endpoint.push_pieces(sending, most, |at, wire| source.fill(base + at, wire));
    }
    while !sending.is_done() {
        push_some(endpoint, sending, most, source, base + sending.sent())?;
    }
    Ok(())
}

/// Pushes a packet of a message whose next byte is at `at` in its source: as much as lies together there, where the wire takes it from
/// where it is; otherwise at most `most` bytes.
fn push_some(
    endpoint: &mut Endpoint,
    sending: &mut Sending,
    most: usize,
    source: &mut Source,
    at: u64,
) -> Result<usize, SendError> {
    let left = usize::try_from(sending.remaining()).unwrap_or(usize::MAX);
    match source.slice(at, left).filter(|bytes| endpoint.goes_direct(sending.to(), bytes.remaining())) {
        Some(bytes) => endpoint.push_from(sending, bytes),
        None => endpoint.push_packet(sending, most, |wire, _| source.fill(at, wire)),
    }
}
