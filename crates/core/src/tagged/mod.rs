//! Tagged messages: sends and receives that find each other by context, source and tag. What MPI and BMI stand on.
//!
//! Short messages go at once and are matched, or kept, where they arrive; those of some length in several packets, so that
//! one is taken out while the next is put in. Long ones are offered first, with their beginning; the rest follows when the
//! receive is there, straight from the sender's buffer into the receiver's; a neighbour's can also be fetched out of its buffer, and then those of some
//! length are offered too. What a receiver keeps of messages nobody has asked for is bounded by credit: a sender without credit offers its message without any bytes of it.
//!
//! Order: messages between two endpoints in one context are matched in the order in which they were sent.
//!
//! ```
//! use barewire_core::region::Memory;
//! use barewire_core::tagged::{Envelope, Mode, Received, Sink, Source, Tagged, Want};
//! # use barewire_core::{Config, Endpoint, job::Job};
//! # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
//! # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
//! let (news, into, mut seen) = (Memory::private(4), Memory::private(4), [0; 4]);
//! assert!(news.write(0, b"news"));
//! for tag in [5, 6] {
//!     tagged.send(&mut endpoint, me, Envelope { context: 1, tag }, Mode::Standard, 4, Source::Memory(news.clone(), 0)).unwrap();
//! }
//! endpoint.progress(&mut tagged, usize::MAX);
//! let six = Want { context: 1, from: Some(me), tag: Some(6) };
//! let Received::Done(status) = tagged.receive(&mut endpoint, six, Sink::Memory(into.clone(), 0, 4)) else { panic!("it has come") };
//! assert!(into.read(0, &mut seen));
//! assert_eq!((status.tag, &seen), (6, b"news"), "the one with tag 5 still waits");
//! ```

mod body;
mod claim;
mod fetch;
mod matching;
mod parts;
mod receive;
mod requests;
mod send;

pub use body::{Exported, Gather, Scatter, Sink, Source};
pub use claim::Matched;
pub use matching::{Envelope, Want};
pub use receive::Received;
pub use requests::{Failure, Note, Request, Status};
pub use send::{Mode, Sent};

use std::collections::VecDeque;
use std::time::Instant;

use barewire_sys::wirebuf::Places;

use crate::endpoint::Endpoint;
use crate::incoming::{Ahead, Deliver, Flow, Incoming};
use crate::stream::Sending;
use crate::{Peer, Port};
use fetch::Ways;
use matching::{Posted, Waiting};
use parts::{Spares, Stream};
use receive::{Unexpected, take_credit};
use requests::Requests;

/// A short message, whole or in several packets; the immediate is its envelope.
pub(crate) const EAGER: Port = Port(0xfff0);
/// A long or synchronous message is offered; the immediate is its envelope.
pub(crate) const OFFER: Port = Port(0xfff1);
/// The receive for an offer is there; the immediate is the sender's request.
pub(crate) const ACCEPT: Port = Port(0xfff2);
/// The rest of an accepted message; the immediate is the receiver's request.
pub(crate) const REST: Port = Port(0xfff3);
/// An offered message was complete in itself and has been matched; the immediate is the sender's request.
pub(crate) const MATCHED: Port = Port(0xfff4);
/// Credit comes back; the immediate says how much.
pub(crate) const CREDIT: Port = Port(0xfff5);
/// An offer of the sender's is taken back, if nobody has taken it; the immediate is the sender's request.
pub(crate) const RECALL: Port = Port(0xfff6);
/// An offer was taken back; the immediate is the sender's request.
pub(crate) const RECALLED: Port = Port(0xfff7);

/// Longest message that goes without being offered first.
const EAGER_BYTES_MAX: u64 = 256 << 10;
/// Longest message that goes in one packet, and most that goes with an offer.
const WHOLE_BYTES_MAX: usize = 8 << 10;
/// Longest message that goes in one packet to a neighbour, where every packet is copied, whatever its length.
const WHOLE_NEAR_BYTES_MAX: usize = 16 << 10;
/// The same in a stream. One that answers is waited for, and there sooner if it is read while it is written.
const WHOLE_STREAMED_BYTES_MAX: usize = 32 << 10;
/// Shortest message that may be offered instead of being sent unasked, to be fetched.
///
/// ```
/// use barewire_core::tagged::{FETCH_BYTES_MIN, SHOWN_BYTES_MIN};
/// assert!(SHOWN_BYTES_MIN > FETCH_BYTES_MIN, "what waits to be fetched could have been there already");
/// ```
pub const SHOWN_BYTES_MIN: u64 = 16 << 10;
/// Shortest message that is worth fetching.
///
/// ```
/// use barewire_core::tagged::FETCH_BYTES_MIN;
/// let worth_exporting = |len: u64| len >= FETCH_BYTES_MIN;
/// assert!(!worth_exporting(8 << 10) && worth_exporting(1 << 20));
/// ```
pub const FETCH_BYTES_MIN: u64 = 10 << 10;
/// What keeping a message costs beside its bytes.
const KEEP_BYTES: u64 = 128;
/// Offers that one sender may have open at one receiver; the next ones wait with their sender.
const OFFERS_MAX: u32 = 1 << 20;
/// A sender of whom we keep so many times its credit does not honour it. Not just more than the credit, because the
/// two sides may be configured differently.
const KEPT_CREDITS_MAX: u64 = 4;

/// The tagged messages of one endpoint. Give it to [`Endpoint::progress`] and [`Endpoint::wait`] as their [`Deliver`].
///
/// ```
/// use barewire_core::{Config, Endpoint, job::Job};
/// use barewire_core::region::Memory;
/// use barewire_core::tagged::{Envelope, Mode, Received, Sink, Source, Tagged, Want};
///
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let mut tagged = Tagged::new(&endpoint);
/// let me = endpoint.me();
///
/// let into = Memory::private(100);
/// let want = Want { context: 1, from: None, tag: Some(7) };
/// let Received::Pending(receive) = tagged.receive(&mut endpoint, want, Sink::Memory(into.clone(), 0, 100)) else {
///     panic!("nothing was sent yet")
/// };
/// let text = Memory::private(5);
/// assert!(text.write(0, b"hello"));
/// tagged.send(&mut endpoint, me, Envelope { context: 1, tag: 7 }, Mode::Standard, 5, Source::Memory(text, 0)).unwrap();
/// endpoint.wait(&mut tagged, None, |endpoint, tagged| tagged.advance(endpoint) && tagged.is_done(receive)).unwrap();
/// let status = tagged.take(receive).unwrap();
/// assert_eq!((status.from, status.tag, status.len), (me, 7, 5));
/// ```
#[derive(Debug)]
pub struct Tagged {
    posted: Posted,
    waiting: Waiting<Unexpected>,
    requests: Requests,
    peers: Vec<TagPeer>,
    /// Peers with sends that have not found room yet.
    queued: Vec<Peer>,
    /// Peers to whom the rest of a message is being pushed.
    pushing: Vec<Peer>,
    /// Messages that end short of their length, once there is room to say so.
    ending: Vec<Sending>,
    spares: Spares,
    credit: u64,
    /// Neighbours may read the buffers of long sends.
    shows_buffers: bool,
    /// Whether reading neighbours' buffers is any good, by kind of length.
    ways: [Ways; Ways::KINDS],
    /// Since when there may be offers that nobody has asked for of messages that could have been sent.
    unasked: Option<Instant>,
    /// Whether others may need this processor.
    crowded: bool,
}

/// What is under way with one peer.
#[derive(Debug, Default)]
struct TagPeer {
    /// Bytes of ours that it may be keeping.
    charged: u64,
    /// Bytes of its that we kept and are done with, and have not told it.
    owed: u64,
    /// What we keep of its messages that nobody has asked for, as it is charged.
    kept: u64,
    /// How many of its offers nobody has asked for.
    offers: u32,
    /// How many of our offers it has not answered.
    offered: u32,
    /// Until then it does not fetch our long messages, by kind of length.
    declines: [Option<Instant>; Ways::KINDS],
    /// Whether it may at all, as far as that is known.
    may_fetch: Option<bool>,
    /// Its short messages of which more packets are to come, or that were put together and wait: few at a time.
    streams: Vec<Stream>,
    /// Sends that have not found room yet, in order.
    queue: VecDeque<Request>,
    /// Accepted sends whose rest is being pushed: one after the other, so that however many there are only the first is looked
    /// at while there is no room.
    pushing: VecDeque<Request>,
}

impl Tagged {
    /// Tagged messages for an endpoint.
    ///
    /// ```
    /// use barewire_core::tagged::{Tagged, Want};
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let tagged = Tagged::new(&endpoint);
    /// assert_eq!(tagged.probe(&Want { context: 1, from: None, tag: None }), None, "nothing has come yet");
    /// ```
    pub fn new(endpoint: &Endpoint) -> Tagged {
        Tagged {
            posted: Posted::new(),
            waiting: Waiting::new(),
            requests: Requests::new(),
            peers: (0..endpoint.size()).map(|_| TagPeer::default()).collect(),
            queued: Vec::new(),
            pushing: Vec::new(),
            ending: Vec::new(),
            spares: Spares::default(),
            credit: endpoint.config.credit_bytes as u64,
            shows_buffers: false,
            ways: Default::default(),
            unasked: None,
            crowded: !endpoint.patience.is_alone(),
        }
    }

    /// Whether packets for `port` are tagged messages.
    ///
    /// ```
    /// use barewire_core::{Port, tagged::Tagged};
    /// assert!(!Tagged::owns(Port(7)), "a port of the layer's own");
    /// assert!(Tagged::owns(Port(u16::MAX)), "the highest are for tagged messages");
    /// ```
    #[inline(always)]
    pub fn owns(port: Port) -> bool {
        port.0 >= EAGER.0
    }

    /// Whether a request has ended. One that was taken has.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Request, Tagged};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let envelope = Envelope { context: 1, tag: 7 };
    /// let receive = tagged.post_now(&endpoint, me, envelope, UserBuf::EMPTY, [0; 2]).unwrap();
    /// assert!(!tagged.is_done(receive) && tagged.is_done(Request::NONE));
    /// tagged.send_now(&mut endpoint, me, envelope, UserBuf::EMPTY).unwrap();
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// assert!(tagged.is_done(receive));
    /// ```
    #[inline]
    pub fn is_done(&self, request: Request) -> bool {
        self.requests.is_done(request)
    }

    /// The outcome of a request that has ended.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let envelope = Envelope { context: 1, tag: 7 };
    /// let receive = tagged.post_now(&endpoint, me, envelope, UserBuf::EMPTY, [0; 2]).unwrap();
    /// assert_eq!(tagged.look(receive), None, "it is under way");
    /// tagged.send_now(&mut endpoint, me, envelope, UserBuf::EMPTY).unwrap();
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// let status = tagged.look(receive);
    /// assert_eq!((status.unwrap().tag, tagged.take(receive)), (7, status), "looking takes nothing");
    /// ```
    #[inline]
    pub fn look(&self, request: Request) -> Option<Status> {
        self.requests.look(request)
    }

    /// Whom the message of a receive [posted](Tagged::post_now) into a caller's buffer is to come from, while it has not come
    /// and if not from anybody.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let envelope = Envelope { context: 1, tag: 7 };
    /// let receive = tagged.post_now(&endpoint, me, envelope, UserBuf::EMPTY, [0; 2]).unwrap();
    /// assert_eq!(tagged.awaited(receive), Some(me));
    /// tagged.send_now(&mut endpoint, me, envelope, UserBuf::EMPTY).unwrap();
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// assert_eq!(tagged.awaited(receive), None, "it is there");
    /// ```
    #[inline]
    pub fn awaited(&self, request: Request) -> Option<Peer> {
        self.requests.awaited(request)
    }

    /// What its owner noted of a receive that was [posted](Tagged::post_now) with a note, unless that has been taken.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let mut post = |tag, note| tagged.post_now(&endpoint, me, Envelope { context: 1, tag }, UserBuf::EMPTY, note).unwrap();
    /// let (first, second) = (post(1, [10, 11]), post(2, [20, 21]));
    /// assert_eq!((tagged.note(first), tagged.note(second)), (Some([10, 11]), Some([20, 21])));
    /// ```
    #[inline]
    pub fn note(&self, request: Request) -> Option<Note> {
        self.requests.note(request)
    }

    /// The outcome of a request that has ended; then it is forgotten.
    ///
    /// ```
    /// use barewire_core::tagged::{Failure, Received, Sink, Tagged, Want};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let want = Want { context: 1, from: Some(me), tag: Some(7) };
    /// let received = tagged.receive(&mut endpoint, want, Sink::User(UserBuf::EMPTY));
    /// let Received::Pending(receive) = received else { panic!("nothing was sent") };
    /// assert_eq!(tagged.take(receive), None, "it is under way");
    /// tagged.cancel(&mut endpoint, receive);
    /// assert_eq!(tagged.take(receive).unwrap().failure, Some(Failure::Cancelled));
    /// assert_eq!(tagged.take(receive), None, "it is forgotten");
    /// ```
    #[inline]
    pub fn take(&mut self, request: Request) -> Option<Status> {
        self.requests.take(request)
    }

    /// Notes something of a receive that has not been taken.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Request, Tagged};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let receive = tagged.post_now(&endpoint, me, Envelope { context: 1, tag: 7 }, UserBuf::EMPTY, [1, 1]).unwrap();
    /// tagged.set_note(receive, [1, 2]);
    /// tagged.set_note(Request::NONE, [9, 9]);
    /// assert_eq!((tagged.note(receive), tagged.note(Request::NONE)), (Some([1, 2]), None));
    /// ```
    pub fn set_note(&mut self, request: Request, note: Note) {
        self.requests.set_note(request, note);
    }

    /// [`Tagged::take`] for a receive [posted](Tagged::post_now) into a caller's buffer that has ended well, with what its owner noted;
    /// `None` for every other request, of which nothing is taken.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, tagged::{Envelope, Tagged}};
    /// use barewire_sys::userbuf::UserBuf;
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, mut tagged, envelope) = (endpoint.me(), Tagged::new(&endpoint), Envelope { context: 1, tag: 7 });
    /// let receive = tagged.post_now(&endpoint, me, envelope, UserBuf::EMPTY, [3, 4]).expect("nothing has come");
    /// assert_eq!((tagged.in_slot(receive.slot()), tagged.note(receive)), (Some(receive), Some([3, 4])));
    /// tagged.set_note(receive, [3, 5]);
    /// assert!(tagged.take_good(receive).is_none(), "it is under way");
    /// tagged.send_now(&mut endpoint, me, envelope, UserBuf::EMPTY).unwrap();
    /// endpoint.wait(&mut tagged, None, |_, tagged| tagged.is_done(receive)).unwrap();
    /// let (status, note) = tagged.take_good(receive).expect("it has ended well");
    /// assert_eq!((status.len, note, tagged.in_slot(receive.slot())), (0, [3, 5], None));
    /// ```
    #[inline(always)]
    pub fn take_good(&mut self, request: Request) -> Option<(Status, Note)> {
        self.requests.take_good(request)
    }

    /// The request under way that has this [slot](Request::slot), if there is one.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let receive = tagged.post_now(&endpoint, me, Envelope { context: 1, tag: 7 }, UserBuf::EMPTY, [0; 2]).unwrap();
    /// assert_eq!(tagged.in_slot(receive.slot()), Some(receive));
    /// tagged.cancel(&mut endpoint, receive);
    /// tagged.take(receive);
    /// assert_eq!(tagged.in_slot(receive.slot()), None);
    /// ```
    pub fn in_slot(&self, slot: u32) -> Option<Request> {
        self.requests.in_use(slot)
    }

    /// From now on [`Tagged::next_end`] tells which requests have ended, so that nobody has to look at the others.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, region::Memory};
    /// use barewire_core::tagged::{Envelope, Mode, Received, Sink, Source, Tagged, Want};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, mut tagged, buffer) = (endpoint.me(), Tagged::new(&endpoint), Memory::private(8));
    /// tagged.note_ends();
    /// let receives: Vec<_> = (0..3)
    ///     .map(|tag| tagged.receive(&mut endpoint, Want { context: 1, from: Some(me), tag: Some(tag) }, Sink::Memory(buffer.clone(), 0, 8)))
    ///     .collect();
    /// let envelope = Envelope { context: 1, tag: 2 };
    /// tagged.send(&mut endpoint, me, envelope, Mode::Standard, 8, Source::Memory(buffer.clone(), 0)).unwrap();
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// assert_eq!(tagged.next_end().map(Received::Pending), Some(receives[2]));
    /// assert_eq!(tagged.next_end(), None);
    /// ```
    pub fn note_ends(&mut self) {
        self.requests.tells_ends = true;
    }

    /// The next request that has ended, in the order in which they did. One that was taken meanwhile may appear too.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// tagged.note_ends();
    /// let receives = [1, 2, 3].map(|tag| tagged.post_now(&endpoint, me, Envelope { context: 1, tag }, UserBuf::EMPTY, [0; 2]).unwrap());
    /// [3, 1].map(|tag| tagged.send_now(&mut endpoint, me, Envelope { context: 1, tag }, UserBuf::EMPTY).unwrap());
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// let ends: Vec<_> = std::iter::from_fn(|| tagged.next_end()).collect();
    /// assert_eq!(ends, [receives[2], receives[0]]);
    /// ```
    #[inline]
    pub fn next_end(&mut self) -> Option<Request> {
        self.requests.ended.pop_front()
    }

    /// Makes room for peers that an endpoint at large has met since; see [`Endpoint::connect_to`].
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged};
    /// use barewire_core::{Config, Endpoint, SendError, job::JobKey};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # let key = JobKey::random().unwrap();
    /// # let mut server = Endpoint::at_large(key.clone(), Config::default()).unwrap();
    /// # let place = server.listen_on("tcp://127.0.0.1:0").unwrap()[0];
    /// let mut endpoint = Endpoint::at_large(key, Config::default()).unwrap();
    /// let (mut tagged, envelope) = (Tagged::new(&endpoint), Envelope { context: 1, tag: 7 });
    /// let new = endpoint.connect_to(&format!("tcp://{place}")).unwrap();
    /// assert_eq!(tagged.send_now(&mut endpoint, new, envelope, UserBuf::EMPTY), Err(SendError::NoSuchPeer(new)));
    /// tagged.cover(&endpoint);
    /// assert!(tagged.send_now(&mut endpoint, new, envelope, UserBuf::EMPTY).is_ok());
    /// ```
    pub fn cover(&mut self, endpoint: &Endpoint) {
        if self.peers.len() < endpoint.size() as usize {
            self.peers.resize_with(endpoint.size() as usize, TagPeer::default);
        }
    }

    /// Drops what a peer that is gone had sent and nobody has received: call it with [`Endpoint::forget`], before another
    /// peer, or the same one started anew, has its number.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged, Want};
    /// # use barewire_core::{Config, Endpoint, Peer, job::Job};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # let mut jobs = Job::threads(2).unwrap().into_iter();
    /// # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
    /// # let (mut here, mut there) = (open(), open());
    /// let (mut ours, mut theirs) = (Tagged::new(&here), Tagged::new(&there));
    /// theirs.send_now(&mut there, Peer(0), Envelope { context: 1, tag: 7 }, UserBuf::EMPTY).unwrap();
    /// drop(there);
    /// here.wait(&mut ours, None, |here, _| here.is_gone(Peer(1))).unwrap();
    /// let any = Want { context: 1, from: None, tag: None };
    /// assert!(ours.probe(&any).is_some(), "it had been sent before");
    /// ours.forget(Peer(1));
    /// assert!(ours.probe(&any).is_none() && here.forget(Peer(1)));
    /// ```
    pub fn forget(&mut self, peer: Peer) {
        self.waiting.drop_from(peer);
    }

    /// Pushes on what had found no room. Always true, so that it can stand in a condition.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Mode, Received, Sent, Sink, Source, Tagged, Want};
    /// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let (from, to, len) = (Memory::private(8 << 20), Memory::private(8 << 20), 8 << 20);
    /// let want = Want { context: 1, from: Some(me), tag: Some(7) };
    /// let envelope = Envelope { context: 1, tag: 7 };
    /// let receive = tagged.receive(&mut endpoint, want, Sink::Memory(to, 0, len));
    /// let sent = tagged.send(&mut endpoint, me, envelope, Mode::Standard, len as u64, Source::Memory(from, 0)).unwrap();
    /// let (Received::Pending(receive), Sent::Pending(send)) = (receive, sent) else { panic!("it is too long to be done at once") };
    /// while tagged.advance(&mut endpoint) && !(tagged.is_done(send) && tagged.is_done(receive)) {
    ///     endpoint.progress(&mut tagged, usize::MAX);
    /// }
    /// assert_eq!(tagged.take(receive).unwrap().len, 8 << 20);
    /// ```
    #[inline(always)]
    pub fn advance(&mut self, endpoint: &mut Endpoint) -> bool {
        if self.has_to_advance() {
            self.push_on(endpoint);
        }
        true
    }

    /// Whether anything has found no room.
    #[inline(always)]
    fn has_to_advance(&self) -> bool {
        !self.queued.is_empty()
            || !self.pushing.is_empty()
            || !self.ending.is_empty()
            || self.unasked.is_some()
    }

    #[cold]
    fn push_on(&mut self, endpoint: &mut Endpoint) {
        for peer in std::mem::take(&mut self.queued) {
            self.push_queue(endpoint, peer);
        }
        for peer in std::mem::take(&mut self.pushing) {
            self.push_accepted(endpoint, peer);
        }
        for sending in std::mem::take(&mut self.ending) {
            self.end_early(endpoint, sending);
        }
        self.fetch_unasked(endpoint);
    }
}

impl Deliver for Tagged {
    const LEAVES: bool = true;

    /// Whole short messages are taken where they are found; the rest can afford a call.
    #[inline(always)]
    fn deliver(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        match packet.port == EAGER && packet.stream.is_none() {
            true => self.on_eager(endpoint, packet.into_whole()),
            false => self.deliver_other(endpoint, packet),
        }
    }

    fn place<'a>(&'a mut self, ahead: &Ahead, places: &mut Places<'a>) {
        self.arriving_at(ahead, places);
    }

    fn placed(&mut self, endpoint: &mut Endpoint, ahead: &Ahead) -> Flow {
        self.on_placed(endpoint, ahead);
        Flow::Continue
    }

    fn peer_joined(&mut self, endpoint: &mut Endpoint, _: Peer) {
        self.cover(endpoint);
    }
    fn peer_lost(&mut self, _: &mut Endpoint, peer: Peer) {
        self.peers[peer.index()] = TagPeer::default();
        self.queued.retain(|&other| other != peer);
        self.pushing.retain(|&other| other != peer);
        self.ending.retain(|sending| sending.to() != peer);
        for request in self.requests.involving(peer) {
            if self.requests.is_posted(request) {
                self.posted.withdraw(&mut self.requests.slots, request.slot);
            }
            self.requests.finish(request, Status::failed(peer, Failure::Lost(peer)));
        }
    }
}

impl Tagged {
    /// A packet that is not a whole short message.
    #[inline(never)]
    fn deliver_other(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        match packet.port {
            EAGER => return self.on_eager_part(endpoint, packet),
            REST => return self.on_rest(packet),
            OFFER => return self.on_offer(endpoint, packet),
            ACCEPT => self.on_accept(endpoint, packet),
            MATCHED => self.on_matched(packet),
            RECALL => self.on_recall(endpoint, packet),
            RECALLED => self.on_recalled(packet),
            CREDIT => {
                take_credit(&mut self.peers[packet.from.index()].charged, CREDIT, packet.imm);
            }
            _ => {}
        }
        Flow::Continue
    }
}
