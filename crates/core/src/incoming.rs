//! What a handler gets: one packet of a message, still in wire memory.
//!
//! A handler reads straight out of wire memory into its destination. What it leaves unread when it returns is gone,
//! unless it kept the packet as a [`Frame`]; a frame is charged to the sender's credit until it is dropped, so a
//! receiver that does not get round to its messages stops their sender in time.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use barewire_sys::wirebuf::{Places, WireMut, WireRef};

use crate::endpoint::Endpoint;
use crate::{Peer, Port};

/// Takes the packets that arrive at an endpoint. Each layer above the core is one.
pub trait Deliver {
    /// Takes one packet: a whole short message, or the next part of a long one. Packets of one message come in order.
    fn deliver(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow;

    /// Where more bytes of a long message go, for a wire that can put them there itself: places for at most [`Ahead::len`] bytes. None,
    /// as layers say that do not care, if they are to come as packets. What is put there is [told](Deliver::placed), not
    /// delivered.
    fn place<'a>(&'a mut self, ahead: &Ahead, places: &mut Places<'a>) {
        let _ = (ahead, places);
    }

    /// The first [`Ahead::len`] bytes of the places that were given for them are there.
    fn placed(&mut self, endpoint: &mut Endpoint, ahead: &Ahead) -> Flow {
        let _ = (endpoint, ahead);
        Flow::Continue
    }

    /// A peer that nobody here had met has joined: it called an endpoint at large. Its packets come after this.
    fn peer_joined(&mut self, endpoint: &mut Endpoint, peer: Peer) {
        let _ = (endpoint, peer);
    }

    /// A peer is gone; no more packets of it will come, and messages it had begun stay unfinished.
    fn peer_lost(&mut self, endpoint: &mut Endpoint, peer: Peer) {
        let _ = (endpoint, peer);
    }
}

/// Whether to go on taking packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// Return from `progress` after this packet.
    Quit,
    /// Its sender broke the rules of the layer: the link to it ends, as after any other nonsense.
    Distrust,
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

    /// Whether nothing of the message comes after them.
    pub fn is_last(&self) -> bool {
        self.offset + self.len as u64 == self.total
    }
}

/// One packet of a message, in wire memory.
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
    #[inline]
    pub fn is_first(&self) -> bool {
        self.offset == 0
    }

    /// Whether nothing of the message comes after this packet's unread bytes.
    #[inline]
    pub fn is_last(&self) -> bool {
        self.offset + self.payload.remaining() as u64 == self.total
    }

    /// Bytes of this packet not read yet.
    #[inline(always)]
    pub fn remaining(&self) -> usize {
        self.payload.remaining()
    }

    /// Reads up to `into.len()` bytes and says how many.
    #[inline(always)]
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let n = self.payload.read(into);
        self.offset += n as u64;
        n
    }

    /// Reads one little-endian word, if eight bytes are left.
    #[inline(always)]
    pub fn read_u64(&mut self) -> Option<u64> {
        let word = self.payload.read_u64();
        self.offset += if word.is_some() { 8 } else { 0 };
        word
    }

    /// Reads as many little-endian words as there are, at most `into.len()`, and says how many that was.
    #[inline(always)]
    pub fn read_words(&mut self, into: &mut [u64]) -> usize {
        let n = self.payload.read_words(into);
        self.offset += 8 * n as u64;
        n
    }

    /// Reads straight into wire or region memory and says how many bytes.
    #[inline]
    pub fn read_to(&mut self, into: &mut WireMut<'_>) -> usize {
        let n = into.write_from(&mut self.payload);
        self.offset += n as u64;
        n
    }

    /// Everything left in this packet, as private memory.
    pub fn to_vec(&mut self) -> Vec<u8> {
        let bytes = self.payload.to_vec();
        self.offset += bytes.len() as u64;
        bytes
    }

    /// Keeps what is left of the packet beyond the handler's run. One copy; the sender's credit stays charged until the
    /// frame is dropped.
    pub fn hold(mut self) -> Frame {
        let (from, port, imm, total, offset, stream) =
            (self.from, self.port, self.imm, self.total, self.offset, self.stream);
        let bytes = self.payload.to_vec();
        let charge = self.hold.map(|hold| {
            hold.held.set(true);
            Charge { credit: Arc::clone(&hold.released), amount: hold.amount.get() }
        });
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
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.read..]
    }

    /// Reads up to `into.len()` bytes and says how many.
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let n = into.len().min(self.bytes.len() - self.read);
        into[..n].copy_from_slice(&self.bytes[self.read..][..n]);
        self.read += n;
        n
    }
}

#[derive(Debug)]
struct Charge {
    credit: Arc<AtomicU64>,
    amount: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        // SYNC released: a count that only the endpoint's owner reads; no memory is handed over with it.
        self.credit.fetch_add(self.amount, Ordering::Relaxed);
    }
}

/// Where a handler leaves word that it kept a packet, and where dropped frames leave their credit.
#[derive(Debug, Default)]
pub(crate) struct HoldSlot {
    held: Cell<bool>,
    /// What one held packet charges, in the link's own units.
    amount: Cell<u64>,
    released: Arc<AtomicU64>,
    taken: Cell<u64>,
}

impl HoldSlot {
    /// Sets what the packet about to be delivered would charge.
    #[inline(always)]
    pub fn arm(&self, amount: u64) {
        self.amount.set(amount);
    }

    /// Whether the packet just delivered was kept.
    #[inline(always)]
    pub fn take(&self) -> bool {
        self.held.get() && self.held.replace(false)
    }

    /// Credit of frames dropped since the last call.
    #[inline(always)]
    pub fn released(&self) -> u64 {
        // SYNC released: see `Charge::drop`.
        let released = self.released.load(Ordering::Relaxed);
        released - self.taken.replace(released)
    }
}
