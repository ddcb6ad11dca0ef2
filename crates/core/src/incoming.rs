//! What a handler gets: one packet of a message, still in wire memory.
//!
//! A handler reads straight out of wire memory into its destination. What it leaves unread when it returns is gone,
//! unless it kept the packet as a [`Frame`]; a frame is charged to the sender's credit until it is dropped, so a
//! receiver that does not get round to its messages stops their sender in time.
//!
//! ```
//! use barewire_core::{Config, Endpoint, Flow, Frame, Incoming, Port, job::Job};
//! let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
//! endpoint.send(endpoint.me(), Port(1), 0, b"read this, keep that").unwrap();
//! let (mut read, mut kept) = ([0; 9], Vec::<Frame>::new());
//! let mut handler = |_: &mut Endpoint, mut packet: Incoming<'_>| {
//!     packet.read(&mut read);
//!     kept.push(packet.hold());
//!     Flow::Continue
//! };
//! endpoint.progress(&mut handler, usize::MAX);
//! assert_eq!((&read, kept[0].bytes()), (b"read this", &b", keep that"[..]));
//! ```

use barewire_sys::wirebuf::{Places, WireMut, WireRef};

use crate::endpoint::Endpoint;
use crate::hold::{Charge, HoldSlot};
use crate::{Peer, Port};

/// Takes the packets that arrive at an endpoint. Each layer above the core is one.
///
/// ```
/// use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Port, job::Job};
/// /// A layer that counts.
/// struct Counter(u64);
/// impl Deliver for Counter {
///     fn deliver(&mut self, _: &mut Endpoint, packet: Incoming<'_>) -> Flow {
///         self.0 += packet.imm;
///         Flow::Continue
///     }
/// }
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// (1..=4).for_each(|n| endpoint.send(endpoint.me(), Port(1), n, b"").unwrap());
/// let mut counter = Counter(0);
/// endpoint.progress(&mut counter, usize::MAX);
/// assert_eq!(counter.0, 10);
/// ```
pub trait Deliver {
    /// Whether it leaves packets where they are, with [`Flow::Later`]. Layers that never do, as most, pay nothing for those that may.
    ///
    /// ```
    /// use barewire_core::{Deliver, Ignore, tagged::Tagged};
    /// assert!(Tagged::LEAVES, "messages that nobody has asked for yet");
    /// assert!(!Ignore::LEAVES);
    /// ```
    const LEAVES: bool = false;

    /// Takes one packet: a whole short message, or the next part of a long one. Packets of one message come in order.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged, Want};
    /// use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Port, job::Job};
    /// # use barewire_sys::userbuf::UserBuf;
    /// struct Both { tagged: Tagged, other: u32 }
    /// impl Deliver for Both {
    ///     fn deliver(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow {
    ///         if Tagged::owns(packet.port) {
    ///             return self.tagged.deliver(endpoint, packet);
    ///         }
    ///         self.other += 1;
    ///         Flow::Continue
    ///     }
    /// }
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut both) = (endpoint.me(), Both { tagged: Tagged::new(&endpoint), other: 0 });
    /// both.tagged.send_now(&mut endpoint, me, Envelope { context: 1, tag: 7 }, UserBuf::EMPTY).unwrap();
    /// endpoint.send(me, Port(1), 0, b"").unwrap();
    /// endpoint.progress(&mut both, usize::MAX);
    /// assert!(both.tagged.probe(&Want { context: 1, from: None, tag: Some(7) }).is_some() && both.other == 1);
    /// ```
    fn deliver(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow;

    /// Where more bytes of a long message go, for a wire that can put them there itself: places for at most [`Ahead::len`] bytes. None,
    /// as layers say that do not care, if they are to come as packets. What is put there is [told](Deliver::placed), not
    /// delivered.
    ///
    /// ```
    /// use barewire_core::{Ahead, Config, Deliver, Endpoint, Flow, Incoming, Peer, Port, job::Job};
    /// use barewire_sys::wirebuf::{Places, WireMut};
    /// /// One message of so many bytes, whoever puts them there, and how many there are.
    /// struct Buffer(Vec<u8>, usize);
    /// impl Deliver for Buffer {
    ///     fn deliver(&mut self, _: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
    ///         self.1 += packet.read(&mut self.0[packet.offset as usize..]);
    ///         Flow::Continue
    ///     }
    ///     fn place<'a>(&'a mut self, ahead: &Ahead, places: &mut Places<'a>) {
    ///         places.push(WireMut::new(&mut self.0[ahead.offset as usize..][..ahead.len]));
    ///     }
    ///     fn placed(&mut self, _: &mut Endpoint, ahead: &Ahead) -> Flow {
    ///         self.1 += ahead.len;
    ///         Flow::Continue
    ///     }
    /// }
    /// let by_tcp = Config { shm: false, listen: vec!["127.0.0.1:0".parse().unwrap()], ..Config::default() };
    /// # let mut jobs = Job::threads(2).unwrap().into_iter();
    /// # let mut open = || Endpoint::open(jobs.next().unwrap(), by_tcp.clone()).unwrap();
    /// # let (mut here, mut there) = (open(), open());
    /// let (bytes, mut buffer) = (vec![7; 1 << 20], Buffer(vec![0; 1 << 20], 0));
    /// let mut sending = here.begin(there.me(), Port(1), 0, bytes.len() as u64).unwrap();
    /// while buffer.1 < bytes.len() {
    ///     let at = sending.sent() as usize;
    ///     let _ = here.push(&mut sending, &bytes[at..]);
    ///     here.progress(&mut barewire_core::Ignore, usize::MAX);
    ///     there.progress(&mut buffer, usize::MAX);
    /// }
    /// assert_eq!(buffer.0, bytes);
    /// ```
    fn place<'a>(&'a mut self, ahead: &Ahead, places: &mut Places<'a>) {
        let _ = (ahead, places);
    }

    /// The first [`Ahead::len`] bytes of the places that were given for them are there.
    ///
    /// ```
    /// use barewire_core::{Ahead, Config, Deliver, Endpoint, Flow, Incoming, Peer, Port, job::Job};
    /// struct Arrived(u64);
    /// impl Deliver for Arrived {
    ///     fn deliver(&mut self, _: &mut Endpoint, packet: Incoming<'_>) -> Flow {
    ///         self.0 += packet.remaining() as u64;
    ///         Flow::Continue
    ///     }
    ///     fn placed(&mut self, _: &mut Endpoint, ahead: &Ahead) -> Flow {
    ///         self.0 += ahead.len as u64;
    ///         if self.0 == ahead.total { Flow::Quit } else { Flow::Continue }
    ///     }
    /// }
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let half = |offset| Ahead { from: Peer(1), port: Port(2), imm: 0, total: 100, offset, stream: 0, len: 50 };
    /// let mut arrived = Arrived(0);
    /// assert_eq!(arrived.placed(&mut endpoint, &half(0)), Flow::Continue);
    /// assert_eq!(arrived.placed(&mut endpoint, &half(50)), Flow::Quit);
    /// ```
    fn placed(&mut self, endpoint: &mut Endpoint, ahead: &Ahead) -> Flow {
        let _ = (endpoint, ahead);
        Flow::Continue
    }

    /// A peer that nobody here had met has joined: it called an endpoint at large. Its packets come after this.
    ///
    /// ```
    /// use barewire_core::{Config, Deliver, Endpoint, Flow, Ignore, Incoming, Peer, Port, job::JobKey};
    /// /// Everybody who is new is greeted.
    /// #[derive(Default)]
    /// struct Door(Vec<Peer>);
    /// impl Deliver for Door {
    ///     fn deliver(&mut self, _: &mut Endpoint, _: Incoming<'_>) -> Flow { Flow::Continue }
    ///     fn peer_joined(&mut self, _: &mut Endpoint, peer: Peer) { self.0.push(peer); }
    /// }
    /// # let key = JobKey::random().unwrap();
    /// # let (mut server, mut door) = (Endpoint::at_large(key.clone(), Config::default()).unwrap(), Door::default());
    /// # let mut client = Endpoint::at_large(key, Config::default()).unwrap();
    /// let place = server.listen_on("tcp://127.0.0.1:0").unwrap()[0];
    /// let called = client.connect_to(&format!("tcp://{place}")).unwrap();
    /// client.call(called).unwrap();
    /// while door.0.is_empty() {
    ///     client.progress(&mut Ignore, usize::MAX);
    ///     server.progress(&mut door, usize::MAX);
    /// }
    /// assert_eq!(door.0, [Peer(1)], "the server itself is number 0");
    /// ```
    fn peer_joined(&mut self, endpoint: &mut Endpoint, peer: Peer) {
        let _ = (endpoint, peer);
    }

    /// A peer is gone; no more packets of it will come, and messages it had begun stay unfinished.
    ///
    /// ```
    /// use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError, job::Job};
    /// #[derive(Default)]
    /// struct Mourner(Vec<Peer>);
    /// impl Deliver for Mourner {
    ///     fn deliver(&mut self, _: &mut Endpoint, _: Incoming<'_>) -> Flow { Flow::Continue }
    ///     fn peer_lost(&mut self, _: &mut Endpoint, peer: Peer) { self.0.push(peer); }
    /// }
    /// # let mut jobs = Job::threads(2).unwrap().into_iter();
    /// # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
    /// let (mut here, there, mut mourner) = (open(), open(), Mourner::default());
    /// here.send(Peer(1), Port(1), 0, b"are you there?").unwrap();
    /// drop(there);
    /// here.wait(&mut mourner, None, |_, mourner| mourner.0 == [Peer(1)]).unwrap();
    /// assert_eq!(here.send(Peer(1), Port(1), 0, b"hello?"), Err(SendError::Lost(Peer(1))));
    /// ```
    fn peer_lost(&mut self, endpoint: &mut Endpoint, peer: Peer) {
        let _ = (endpoint, peer);
    }
}

/// Whether to go on taking packets.
///
/// ```
/// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job};
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let me = endpoint.me();
/// (0..3).for_each(|n| endpoint.send(me, Port(1), n, b"").unwrap());
/// let mut until_one = |_: &mut Endpoint, packet: Incoming<'_>| match packet.imm {
///     1 => Flow::Quit,
///     _ => Flow::Continue,
/// };
/// assert_eq!(endpoint.progress(&mut until_one, usize::MAX), 2, "0 and 1");
/// assert_eq!(endpoint.progress(&mut until_one, usize::MAX), 1, "2 had stayed where it was");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Return from `progress` after this packet.
    Quit,
    /// Its sender broke the rules of the layer: the link to it ends, as after any other nonsense.
    Distrust,
    /// Leave this packet where it is, with all that its sender has sent after it: it comes again, first, next time. Only for layers that
    /// [say so](Deliver::LEAVES) and packets that [may stay](Incoming::may_stay); any other is gone as after [`Flow::Continue`].
    Later,
}

/// Drops everything.
///
/// ```
/// use barewire_core::{Config, Endpoint, Ignore, job::Job};
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// assert_eq!(endpoint.progress(&mut Ignore, usize::MAX), 0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignore;

impl Deliver for Ignore {
    fn deliver(&mut self, _: &mut Endpoint, _: Incoming<'_>) -> Flow {
        Flow::Continue
    }
}

impl<F: FnMut(&mut Endpoint, Incoming<'_>) -> Flow> Deliver for F {
    #[inline(always)]
    fn deliver(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        self(endpoint, packet)
    }
}

/// Bytes of a long message that have arrived and were not read yet.
///
/// ```
/// use barewire_core::{Ahead, Config, Deliver, Endpoint, Peer, Port, job::Job, tagged::Tagged};
/// use barewire_sys::wirebuf::Places;
/// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let ahead = Ahead { from: Peer(0), port: Port(1), imm: 0, total: 100, offset: 60, stream: 0, len: 40 };
/// assert_eq!(ahead.offset + ahead.len as u64, ahead.total, "these are its last bytes");
/// let (mut tagged, mut places) = (Tagged::new(&endpoint), Places::default());
/// tagged.place(&ahead, &mut places);
/// assert!(places.is_empty(), "tagged messages come to other ports");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Who sent it.
    pub from: Peer,
    /// The handler it is for.
    pub port: Port,
    /// The message's 64-bit immediate.
    pub imm: u64,
    /// Bytes of the whole message.
    pub total: u64,
    /// Where in the message they begin.
    pub offset: u64,
    /// Which of the sender's open messages it is.
    pub stream: u32,
    /// How many they are.
    pub len: usize,
}

impl Ahead {
    pub(crate) fn new(from: Peer, part: Part, len: usize) -> Ahead {
        let Part { port, imm, total, offset, stream } = part;
        Ahead { from, port, imm, total, offset, stream, len }
    }
}

/// One packet of a message, in wire memory.
///
/// ```
/// use barewire_core::{Config, Endpoint, Flow, Incoming, Peer, Port, job::Job};
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// endpoint.send(endpoint.me(), Port(3), 9, b"hello").unwrap();
/// let mut handler = |_: &mut Endpoint, packet: Incoming<'_>| {
///     assert_eq!((packet.from, packet.port, packet.imm), (Peer(0), Port(3), 9));
///     assert_eq!((packet.offset, packet.total, packet.stream), (0, 5, None), "all of a short message");
///     Flow::Quit
/// };
/// assert_eq!(endpoint.progress(&mut handler, usize::MAX), 1);
/// ```
#[derive(Debug)]
pub struct Incoming<'a> {
    /// Who sent it.
    pub from: Peer,
    /// The handler it is for.
    pub port: Port,
    /// The message's 64-bit immediate.
    pub imm: u64,
    /// Bytes of the whole message.
    pub total: u64,
    /// Where in the message this packet's bytes begin.
    pub offset: u64,
    /// Which of the sender's open messages it belongs to, if the message has more than one packet.
    pub stream: Option<u32>,
    payload: WireRef<'a>,
    /// `None` for packets that cost their sender nothing.
    hold: Option<&'a HoldSlot>,
}

impl<'a> Incoming<'a> {
    /// A whole message that did not come straight off a wire: what a layer that carries messages for another hands up.
    ///
    /// ```
    /// use barewire_core::{Incoming, Peer, Port};
    /// let mut packet = Incoming::new(Peer(3), Port(1), 7, barewire_sys::wirebuf::WireRef::new(b"carried"));
    /// assert_eq!((packet.total, packet.to_vec()), (7, b"carried".to_vec()));
    /// ```
    #[inline(always)]
    pub fn new(from: Peer, port: Port, imm: u64, payload: WireRef<'a>) -> Incoming<'a> {
        let total = payload.remaining() as u64;
        Incoming { from, port, imm, total, offset: 0, stream: None, payload, hold: None }
    }

    #[inline(always)]
    pub(crate) fn whole(
        from: Peer,
        port: Port,
        imm: u64,
        payload: WireRef<'a>,
        hold: &'a HoldSlot,
    ) -> Incoming<'a> {
        Incoming {
            from,
            port,
            imm,
            total: payload.remaining() as u64,
            offset: 0,
            stream: None,
            payload,
            hold: Some(hold),
        }
    }

    /// Whether the handler may leave the packet where it is, with [`Flow::Later`]: a short message between neighbours that is not the first of
    /// its sender's in one look of a [wait](Endpoint::wait), so that every look takes something.
    ///
    /// ```
    /// use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Peer, Port, job::Job};
    /// struct OneByOne(Vec<u64>);
    /// impl Deliver for OneByOne {
    ///     const LEAVES: bool = true;
    ///     fn deliver(&mut self, _: &mut Endpoint, packet: Incoming<'_>) -> Flow {
    ///         if packet.may_stay() {
    ///             return Flow::Later;
    ///         }
    ///         self.0.push(packet.imm);
    ///         Flow::Continue
    ///     }
    /// }
    /// # let mut jobs = Job::threads(2).unwrap().into_iter();
    /// # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
    /// let (mut here, mut there, mut seen) = (open(), open(), OneByOne(Vec::new()));
    /// (0..3).for_each(|n| there.send(Peer(0), Port(1), n, b"").unwrap());
    /// here.wait(&mut seen, None, |here, _| here.stats().received > 0).unwrap();
    /// assert_eq!(seen.0, [0], "the others stay where they are");
    /// here.wait(&mut seen, None, |here, _| here.stats().received == 3).unwrap();
    /// assert_eq!(seen.0, [0, 1, 2]);
    /// ```
    #[inline(always)]
    pub fn may_stay(&self) -> bool {
        self.hold.is_some_and(HoldSlot::may_stay)
    }

    /// A message in one packet, in parts.
    #[inline(always)]
    pub(crate) fn into_whole(self) -> Whole<'a> {
        let Incoming { from, port, imm, payload, hold, .. } = self;
        Whole { from, port, imm, payload, hold }
    }

    pub(crate) fn part(from: Peer, part: Part, payload: WireRef<'a>, hold: &'a HoldSlot) -> Incoming<'a> {
        let Part { port, imm, total, offset, stream } = part;
        Incoming { from, port, imm, total, offset, stream: Some(stream), payload, hold: Some(hold) }
    }

    /// Whether this is the message's first packet.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (bytes, mut messages, mut packets) = (vec![0; 100_000], 0, 0);
    /// let mut sending = endpoint.begin(endpoint.me(), Port(1), 0, 100_000).unwrap();
    /// while !sending.is_done() {
    ///     let at = sending.sent() as usize;
    ///     let _ = endpoint.push(&mut sending, &bytes[at..]);
    ///     endpoint.progress(&mut |_: &mut Endpoint, packet: Incoming<'_>| {
    ///         messages += u32::from(packet.is_first());
    ///         packets += 1;
    ///         Flow::Continue
    ///     }, usize::MAX);
    /// }
    /// assert!(messages == 1 && packets > 1);
    /// ```
    #[inline]
    pub fn is_first(&self) -> bool {
        self.offset == 0
    }

    /// Whether nothing of the message comes after this packet's unread bytes.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let mut sending = endpoint.begin(endpoint.me(), Port(1), 0, 8).unwrap();
    /// [b"some", b"more"].map(|part| endpoint.push(&mut sending, part).unwrap());
    /// let mut lasts = Vec::new();
    /// endpoint.progress(&mut |_: &mut Endpoint, packet: Incoming<'_>| { lasts.push(packet.is_last()); Flow::Continue }, usize::MAX);
    /// assert_eq!(lasts, [false, true]);
    /// ```
    #[inline]
    pub fn is_last(&self) -> bool {
        self.offset + self.payload.remaining() as u64 == self.total
    }

    /// Bytes of this packet not read yet.
    ///
    /// ```
    /// use barewire_core::{Incoming, Peer, Port};
    /// # use barewire_sys::wirebuf::WireRef;
    /// let mut packet = Incoming::new(Peer(0), Port(1), 0, WireRef::new(b"headbody"));
    /// packet.read(&mut [0; 4]);
    /// assert_eq!((packet.remaining(), packet.offset, packet.total), (4, 4, 8));
    /// ```
    #[inline(always)]
    pub fn remaining(&self) -> usize {
        self.payload.remaining()
    }

    /// Reads up to `into.len()` bytes and says how many.
    ///
    /// ```
    /// use barewire_core::{Incoming, Peer, Port};
    /// # use barewire_sys::wirebuf::WireRef;
    /// let (mut packet, mut into) = (Incoming::new(Peer(0), Port(1), 0, WireRef::new(b"abcde")), [0; 3]);
    /// assert_eq!((packet.read(&mut into), &into), (3, b"abc"));
    /// assert_eq!((packet.read(&mut into), &into), (2, b"dec"), "no more than there are");
    /// ```
    #[inline(always)]
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let n = self.payload.read(into);
        self.offset += n as u64;
        n
    }

    /// Reads one little-endian word, if eight bytes are left.
    ///
    /// ```
    /// use barewire_core::{Incoming, Peer, Port};
    /// # use barewire_sys::wirebuf::WireRef;
    /// let bytes = [3, 0, 0, 0, 0, 0, 0, 0, 9];
    /// let mut packet = Incoming::new(Peer(0), Port(1), 0, WireRef::new(&bytes));
    /// assert_eq!(packet.read_u64(), Some(3));
    /// assert_eq!((packet.read_u64(), packet.to_vec()), (None, vec![9]), "one byte is no word, and stays");
    /// ```
    #[inline(always)]
    pub fn read_u64(&mut self) -> Option<u64> {
        let word = self.payload.read_u64();
        self.offset += if word.is_some() { 8 } else { 0 };
        word
    }

    /// Reads as many little-endian words as there are, at most `into.len()`, and says how many that was.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// endpoint.send_with(endpoint.me(), Port(1), 0, 24, |wire| wire.write_words(&[10, 20, 30])).unwrap();
    /// let (mut two, mut rest) = ([0; 2], [0; 2]);
    /// endpoint.progress(&mut |_: &mut Endpoint, mut packet: Incoming<'_>| {
    ///     assert_eq!((packet.read_words(&mut two), packet.read_words(&mut rest)), (2, 1));
    ///     Flow::Continue
    /// }, usize::MAX);
    /// assert_eq!((two, rest), ([10, 20], [30, 0]));
    /// ```
    #[inline(always)]
    pub fn read_words(&mut self, into: &mut [u64]) -> usize {
        let n = self.payload.read_words(into);
        self.offset += 8 * n as u64;
        n
    }

    /// Reads straight into wire or region memory and says how many bytes.
    ///
    /// ```
    /// use barewire_core::{Incoming, Peer, Port, region::Memory};
    /// # use barewire_sys::wirebuf::WireRef;
    /// let (memory, mut seen) = (Memory::private(16), [0; 6]);
    /// let mut packet = Incoming::new(Peer(0), Port(1), 0, WireRef::new(b"straight in"));
    /// assert_eq!(packet.read_to(&mut memory.wire_mut(2, 4).unwrap()), 4);
    /// assert!(memory.read(1, &mut seen));
    /// assert_eq!((&seen, packet.to_vec()), (b"\0stra\0", b"ight in".to_vec()));
    /// ```
    #[inline]
    pub fn read_to(&mut self, into: &mut WireMut<'_>) -> usize {
        let n = into.take_from(&mut self.payload);
        self.offset += n as u64;
        n
    }

    /// Everything left in this packet, as private memory.
    ///
    /// ```
    /// use barewire_core::{Incoming, Peer, Port};
    /// # use barewire_sys::wirebuf::WireRef;
    /// let mut packet = Incoming::new(Peer(0), Port(1), 0, WireRef::new(b"name=value"));
    /// packet.read(&mut [0; 5]);
    /// assert_eq!(packet.to_vec(), b"value");
    /// assert_eq!(packet.to_vec(), b"", "nothing is read twice");
    /// ```
    pub fn to_vec(&mut self) -> Vec<u8> {
        let bytes = self.payload.to_vec();
        self.offset += bytes.len() as u64;
        bytes
    }

    /// Keeps what is left of the packet beyond the handler's run. One copy; the sender's credit stays charged until the
    /// frame is dropped.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// (0..3).for_each(|n| endpoint.send(endpoint.me(), Port(1), n, b"later").unwrap());
    /// let mut later = Vec::new();
    /// endpoint.progress(&mut |_: &mut Endpoint, packet: Incoming<'_>| { later.push(packet.hold()); Flow::Continue }, usize::MAX);
    /// assert_eq!(later.iter().map(|frame| frame.imm).collect::<Vec<_>>(), [0, 1, 2]);
    /// assert_eq!(endpoint.stats().held, 3);
    /// ```
    pub fn hold(mut self) -> Frame {
        let (from, port, imm, total, offset, stream) =
            (self.from, self.port, self.imm, self.total, self.offset, self.stream);
        let bytes = self.payload.to_vec();
        let charge = self.hold.map(HoldSlot::keep);
        Frame { from, port, imm, total, offset, stream, bytes, read: 0, _charge: charge }
    }
}

/// A whole message, of which nothing has been read. Its parts stay in registers as long as nobody needs a packet to read from.
pub(crate) struct Whole<'a> {
    pub from: Peer,
    pub port: Port,
    pub imm: u64,
    pub payload: WireRef<'a>,
    hold: Option<&'a HoldSlot>,
}

impl<'a> Whole<'a> {
    /// As a packet again.
    pub fn into_packet(self) -> Incoming<'a> {
        let Whole { from, port, imm, payload, hold } = self;
        Incoming { hold, ..Incoming::new(from, port, imm, payload) }
    }

    /// Whether it may be left where it is, as for [`Incoming::may_stay`].
    pub fn may_stay(&self) -> bool {
        self.hold.is_some_and(HoldSlot::may_stay)
    }
}

/// A part of a long message, as the link's table of open messages knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub port: Port,
    pub imm: u64,
    pub total: u64,
    pub offset: u64,
    pub stream: u32,
}

/// A packet that outlived its handler. Dropping it returns its credit to the sender.
///
/// ```
/// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, SendError, job::Job};
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let (me, mut frames) = (endpoint.me(), Vec::new());
/// let mut keep = |_: &mut Endpoint, packet: Incoming<'_>| { frames.push(packet.hold()); Flow::Continue };
/// while endpoint.send(me, Port(1), 0, &[7; 1000]).is_ok() {
///     endpoint.progress(&mut keep, usize::MAX);
/// }
/// frames.clear();
/// endpoint.progress(&mut barewire_core::Ignore, usize::MAX);
/// assert_eq!(endpoint.send(me, Port(1), 0, &[7; 1000]), Ok(()), "the sender has its room back");
/// ```
#[derive(Debug)]
pub struct Frame {
    /// Who sent it.
    pub from: Peer,
    /// The handler it is for.
    pub port: Port,
    /// The message's 64-bit immediate.
    pub imm: u64,
    /// Bytes of the whole message.
    pub total: u64,
    /// Where in the message this frame's bytes began.
    pub offset: u64,
    /// Which of the sender's open messages it belongs to, if the message has more than one packet.
    pub stream: Option<u32>,
    bytes: Vec<u8>,
    read: usize,
    _charge: Option<Charge>,
}

impl Frame {
    /// The bytes not read yet.
    ///
    /// ```
    /// use barewire_core::{Incoming, Peer, Port};
    /// # use barewire_sys::wirebuf::WireRef;
    /// let mut packet = Incoming::new(Peer(0), Port(1), 0, WireRef::new(b"seen, unseen"));
    /// packet.read(&mut [0; 6]);
    /// let frame = packet.hold();
    /// assert_eq!((frame.bytes(), frame.offset, frame.total), (&b"unseen"[..], 6, 12));
    /// ```
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.read..]
    }

    /// Reads up to `into.len()` bytes and says how many.
    ///
    /// ```
    /// use barewire_core::{Incoming, Peer, Port};
    /// # use barewire_sys::wirebuf::WireRef;
    /// let mut frame = Incoming::new(Peer(0), Port(1), 0, WireRef::new(b"header, body")).hold();
    /// let mut header = [0; 6];
    /// assert_eq!((frame.read(&mut header), &header), (6, b"header"));
    /// assert_eq!(frame.bytes(), b", body");
    /// assert_eq!((frame.read(&mut [0; 100]), frame.bytes()), (6, &b""[..]));
    /// ```
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let n = into.len().min(self.bytes.len() - self.read);
        into[..n].copy_from_slice(&self.bytes[self.read..][..n]);
        self.read += n;
        n
    }
}
