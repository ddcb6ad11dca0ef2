//! Long messages: a begin packet, then pieces, each as large as the link likes at the moment.
//!
//! The sender holds a [`Sending`] and pushes bytes into it as room appears, so several long messages to one peer, or to
//! many, advance side by side. The receiver's link keeps a table of the messages that are open.
//!
//! ```
//! use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job};
//! let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
//! let (me, port) = (endpoint.me(), Port(1));
//! let mut both = [7, 8].map(|imm| endpoint.begin(me, port, imm, 3000).unwrap());
//! both.iter_mut().for_each(|sending| assert_eq!(endpoint.push(sending, &[0; 1000]), Ok(1000)));
//! both.iter_mut().for_each(|sending| assert_eq!(endpoint.push(sending, &[0; 2000]), Ok(2000)));
//! let mut ended = Vec::new();
//! endpoint.progress(&mut |_: &mut Endpoint, p: Incoming<'_>| { ended.extend(p.is_last().then_some(p.imm)); Flow::Continue }, usize::MAX);
//! assert_eq!(ended, [7, 8], "they came side by side");
//! ```

use crate::endpoint::Endpoint;
use crate::error::SendError;
use crate::incoming::Part;
use crate::peer::PeerEntry;
use crate::provider::{Class, Tx};
use crate::wire::{Begin, FLAG_LAST, Head, Kind};
use crate::{Peer, Port};
use barewire_sys::ring::LINE_BYTES;
use barewire_sys::wirebuf::{WireMut, WireRef};

/// From this many bytes on, a wire that can takes them from where they are; fewer are copied faster than described.
const DIRECT_BYTES_MIN: usize = 8 << 10;

/// From this many bytes on a message pushes out of the processors' own caches whatever is there: 512 KiB, of which an offer may have brought some.
const BULK_BYTES_MIN: u64 = 448 << 10;

/// A long message on its way out.
///
/// ```
/// use barewire_core::{Config, Endpoint, Ignore, Port, Sending, job::Job};
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let mut sending: Sending = endpoint.begin(endpoint.me(), Port(1), 0, 10).unwrap();
/// for part in [&b"long"[..], b"winded"] {
///     endpoint.push(&mut sending, part).unwrap();
/// }
/// assert!(sending.is_done());
/// assert_eq!(endpoint.progress(&mut Ignore, usize::MAX), 2, "it went in two packets");
/// ```
#[derive(Debug)]
#[must_use = "a message that is never finished keeps its receiver waiting"]
pub struct Sending {
    to: Peer,
    port: Port,
    imm: u64,
    stream: u32,
    total: u64,
    sent: u64,
    begun: bool,
}

impl Sending {
    /// Bytes not pushed yet.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let mut sending = endpoint.begin(endpoint.me(), Port(1), 0, 100).unwrap();
    /// endpoint.push(&mut sending, &[7; 30]).unwrap();
    /// assert_eq!((sending.remaining(), sending.sent()), (70, 30));
    /// endpoint.end(&mut sending).unwrap();
    /// assert_eq!((sending.remaining(), sending.sent()), (0, 30), "it ended early");
    /// ```
    pub fn remaining(&self) -> u64 {
        self.total - self.sent
    }

    /// Bytes pushed so far.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let bytes = vec![7; 8 << 20];
    /// let mut sending = endpoint.begin(endpoint.me(), Port(1), 0, bytes.len() as u64).unwrap();
    /// let pushed = endpoint.push(&mut sending, &bytes).unwrap();
    /// assert_eq!(sending.sent(), pushed as u64);
    /// assert!(pushed < bytes.len(), "there is not room for so much: go on from here");
    /// ```
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether any of it is on its way.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether the whole message is on its way.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let mut empty = endpoint.begin(endpoint.me(), Port(1), 0, 0).unwrap();
    /// assert!(!empty.is_done(), "even a message without bytes has to be pushed once");
    /// endpoint.push(&mut empty, b"").unwrap();
    /// assert!(empty.is_done());
    /// ```
    pub fn is_done(&self) -> bool {
        self.begun && self.sent == self.total
    }

    /// Where it goes.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Peer, Port, job::Job};
    /// # let mut jobs = Job::threads(3).unwrap().into_iter();
    /// # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
    /// # let (mut endpoint, _others) = (open(), [open(), open()]);
    /// let mut open = [1, 2].map(|peer| endpoint.begin(Peer(peer), Port(1), 0, 10).unwrap()).into_iter().collect::<Vec<_>>();
    /// open.retain(|sending| sending.to() != Peer(1));
    /// assert_eq!(open.len(), 1, "nothing is left for a peer that was given up");
    /// ```
    pub fn to(&self) -> Peer {
        self.to
    }

    /// What its packets may use of a link's room.
    fn class(&self) -> Class {
        if self.total >= BULK_BYTES_MIN { Class::Bulk } else { Class::Data }
    }

    /// The next packet's header, what opens its payload, and how many of the `available` bytes follow.
    #[inline]
    fn next_packet(&self, room: usize, available: usize) -> (Head, Option<Begin>, usize) {
        let left = usize::try_from(self.remaining()).unwrap_or(usize::MAX).min(available);
        let (port, flags) = (self.port, 0);
        if self.begun {
            let n = whole_lines(left, room);
            let w1 = u64::from(self.stream);
            return (Head { kind: Kind::Piece, flags, port, len: n as u32, w1 }, None, n);
        }
        let begin = Begin { total: self.total, stream: self.stream };
        let n = whole_lines(left, room.saturating_sub(Begin::BYTES));
        let len = (n + Begin::BYTES) as u32;
        (Head { kind: Kind::Begin, flags, port, len, w1: self.imm }, Some(begin), n)
    }
}

/// As much of what is left as there is room for; lines stay whole if there is more, so that the next packet begins with one.
fn whole_lines(left: usize, room: usize) -> usize {
    if left <= room || room < LINE_BYTES { left.min(room) } else { room - room % LINE_BYTES }
}

impl Endpoint {
    /// Opens a message of exactly `len` bytes to `port` at `to`. Nothing is sent until the first [`Endpoint::push`].
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let data = vec![7u8; 1 << 20];
    /// let mut sending = endpoint.begin(endpoint.me(), Port(1), 0, data.len() as u64).unwrap();
    /// let mut got = Vec::new();
    /// while got.len() < data.len() {
    ///     let at = sending.sent() as usize;
    ///     let _ = endpoint.push(&mut sending, &data[at..]); // takes what there is room for
    ///     endpoint.progress(&mut |_: &mut Endpoint, mut p: Incoming<'_>| { got.extend(p.to_vec()); Flow::Continue }, usize::MAX);
    /// }
    /// assert_eq!(got, data);
    /// ```
    pub fn begin(&mut self, to: Peer, port: Port, imm: u64, len: u64) -> Result<Sending, SendError> {
        let peer = self.peer_mut(to)?;
        let stream = peer.next_stream;
        peer.next_stream = stream.wrapping_add(1);
        Ok(Sending { to, port, imm, stream, total: len, sent: 0, begun: false })
    }

    /// Pushes as much of `bytes` into the message as there is room for and says how much that was;
    /// [`SendError::Full`] if there is no room at all. Bytes beyond the announced length are not taken.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Port, SendError, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, bytes) = (endpoint.me(), vec![0; 8 << 20]);
    /// let mut short = endpoint.begin(me, Port(1), 0, 4).unwrap();
    /// assert_eq!(endpoint.push(&mut short, b"four, not all"), Ok(4));
    /// let mut long = endpoint.begin(me, Port(1), 0, 8 << 20).unwrap();
    /// while endpoint.push(&mut long, &bytes[..1 << 20]).is_ok() {}
    /// assert_eq!(endpoint.push(&mut long, &bytes), Err(SendError::Full));
    /// endpoint.progress(&mut Ignore, usize::MAX);
    /// assert!(endpoint.push(&mut long, &bytes).is_ok(), "the receiver has made room");
    /// ```
    pub fn push(&mut self, sending: &mut Sending, bytes: &[u8]) -> Result<usize, SendError> {
        let whole = usize::try_from(sending.total).is_ok_and(|total| bytes.len() >= total);
        let fill = |at: u64, wire: &mut WireMut<'_>| {
            wire.write(&bytes[at as usize..]);
        };
        if whole && self.push_by_shuttle(sending, fill)? {
            return Ok(sending.total as usize);
        }
        let mut pushed = 0;
        loop {
            let left = (bytes.len() - pushed).min(usize::try_from(sending.remaining()).unwrap_or(usize::MAX));
            if left == 0 && sending.begun {
                return Ok(pushed);
            }
            let now = &bytes[pushed..pushed + left];
            let result = if self.goes_direct(sending.to, left) {
                self.push_from(sending, WireRef::new(now))
            } else {
                self.push_packet(sending, left, |wire, n| {
                    wire.write(&now[..n]);
                })
            };
            match result {
                Ok(n) => pushed += n,
                Err(SendError::Full) if pushed > 0 => return Ok(pushed),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the message's next packet with at most `available` bytes, written by `fill(wire, n)`; says what `n` was.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (mut sending, mut got) = (endpoint.begin(endpoint.me(), Port(1), 0, 6).unwrap(), Vec::new());
    /// for part in [b"ab", b"cd", b"ef"] {
    ///     // Written straight into wire memory, with no buffer between.
    ///     assert_eq!(endpoint.push_packet(&mut sending, 2, |wire, n| { wire.write(&part[..n]); }), Ok(2));
    /// }
    /// endpoint.progress(&mut |_: &mut Endpoint, mut p: Incoming<'_>| { got.push(p.to_vec()); Flow::Continue }, usize::MAX);
    /// assert_eq!(got, [b"ab", b"cd", b"ef"]);
    /// ```
    pub fn push_packet(
        &mut self,
        sending: &mut Sending,
        available: usize,
        fill: impl FnOnce(&mut WireMut<'_>, usize),
    ) -> Result<usize, SendError> {
        let room = self.packet_room(sending.to, sending.class())?;
        let (head, begin, n) = sending.next_packet(room, available);
        self.send_opened(sending.to, (head, begin), sending.class(), |wire| fill(wire, n))?;
        sending.begun = true;
        sending.sent += n as u64;
        Ok(n)
    }

    /// Sends packets of at most `most` bytes each, written by `fill(at, wire)` from byte `at` on, until all of the message is on its way or
    /// there is no room. To a neighbour that is answered so, all of it by the shuttle; else packet after packet without asking anew who and
    /// where it is.
    pub(crate) fn push_pieces(
        &mut self,
        sending: &mut Sending,
        most: usize,
        mut fill: impl FnMut(u64, &mut WireMut<'_>),
    ) -> Result<(), SendError> {
        if self.push_by_shuttle(sending, &mut fill)? {
            return Ok(());
        }
        let Endpoint { peers, pool, .. } = self;
        let PeerEntry { tx, outbox, stats, shuttle, .. } = &mut peers[sending.to.index()];
        if let (Tx::Ring(ring), true) = (tx, outbox.is_empty()) {
            let before = stats.sent;
            while !sending.is_done() {
                let (head, begin, n) = sending.next_packet(ring.payload_now(pool, sending.class()), most);
                ring.note(head.len as usize, stats.received);
                let at = sending.sent;
                if ring.send(pool, head.words(), begin, sending.class(), |wire| fill(at, wire)).is_err() {
                    break;
                }
                stats.count_sent(head.len as usize);
                sending.begun = true;
                sending.sent += n as u64;
            }
            if let Some(link) = shuttle {
                link.overlook((stats.sent - before).saturating_sub(1));
            }
        }
        while !sending.is_done() {
            let at = sending.sent;
            self.push_packet(sending, most, |wire, _| fill(at, wire))?;
        }
        Ok(())
    }

    /// Sends all of a message by the shuttle, written by `fill(at, wire)` from byte `at` on, if nothing of it has gone and that is the way; false if
    /// nothing has happened.
    fn push_by_shuttle(
        &mut self,
        sending: &mut Sending,
        fill: impl FnMut(u64, &mut WireMut<'_>),
    ) -> Result<bool, SendError> {
        self.peer_mut(sending.to)?;
        let Sending { port, imm: w1, total, stream, begun, .. } = *sending;
        let PeerEntry { tx, outbox, stats, shuttle, .. } = &mut self.peers[sending.to.index()];
        let (Tx::Ring(ring), Some(link), false, true) = (tx, shuttle, begun, outbox.is_empty()) else {
            return Ok(false);
        };
        let Some(way) = link.long_way(total, stats) else { return Ok(false) };
        let head = Head { kind: Kind::Begin, flags: 0, port, len: total as u32, w1 };
        ring.send_long(way, (head, stream), fill);
        stats.count_sent(total as usize);
        (sending.begun, sending.sent) = (true, total);
        Ok(true)
    }

    /// Whether so many bytes go to a peer straight from where they are.
    pub(crate) fn goes_direct(&self, to: Peer, bytes: usize) -> bool {
        bytes >= DIRECT_BYTES_MIN && self.takes_slices(to)
    }

    /// Sends the message's next packet straight from where its bytes are, on a wire that can; says how many it took.
    pub(crate) fn push_from(
        &mut self,
        sending: &mut Sending,
        bytes: WireRef<'_>,
    ) -> Result<usize, SendError> {
        let room = self.direct_room(sending.to)?;
        let (head, begin, n) = sending.next_packet(room, bytes.remaining());
        let mut words = [0; Begin::BYTES];
        let prefix = match begin {
            Some(begin) => {
                let mut wire = WireMut::new(&mut words);
                begin.words().into_iter().for_each(|word| wire.write_u64(word));
                &words[..]
            }
            None => &[],
        };
        self.send_packet_from(sending.to, head, prefix, &mut bytes.first(n))?;
        sending.begun = true;
        sending.sent += n as u64;
        Ok(n)
    }
}

impl Endpoint {
    /// Ends a message where it stands, short of the length it announced; its receiver sees a message of
    /// [`Sending::sent`] bytes. [`SendError::Full`] if there is no room to say so now. Does nothing to a message that is done.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let mut sending = endpoint.begin(endpoint.me(), Port(1), 0, 1000).unwrap();
    /// endpoint.push(&mut sending, b"only this").unwrap();
    /// endpoint.end(&mut sending).unwrap();
    /// let mut got = (Vec::new(), 0);
    /// endpoint.progress(&mut |_: &mut Endpoint, mut p: Incoming<'_>| { got.0.extend(p.to_vec()); got.1 = p.total; Flow::Continue }, usize::MAX);
    /// assert_eq!(got, (b"only this".to_vec(), 9));
    /// ```
    pub fn end(&mut self, sending: &mut Sending) -> Result<(), SendError> {
        if sending.is_done() {
            return Ok(());
        }
        if sending.begun {
            let w1 = u64::from(sending.stream);
            let head = Head { kind: Kind::Piece, flags: FLAG_LAST, port: sending.port, len: 0, w1 };
            self.send_packet(sending.to, head, Class::Data, |_| {})?;
        } else {
            let announced = std::mem::replace(&mut sending.total, 0);
            if let Err(error) = self.push_packet(sending, 0, |_, _| {}) {
                sending.total = announced;
                return Err(error);
            }
        }
        sending.total = sending.sent;
        Ok(())
    }
}

/// The messages that are open on one link, as its receiver knows them.
#[derive(Debug, Default)]
pub(crate) struct OpenMessages {
    /// Few at a time: a search is faster than a map.
    open: Vec<Part>,
}

/// More open messages than any sender of ours would have.
const OPEN_MAX: usize = 1 << 16;

impl OpenMessages {
    /// A begin packet that carries `len` bytes of data; `None` if it makes no sense.
    pub fn begin(&mut self, head: &Head, begin: Begin, len: usize) -> Option<Part> {
        let len = len as u64;
        if len > begin.total || self.open.len() >= OPEN_MAX || self.find(begin.stream).is_some() {
            return None;
        }
        let part =
            Part { port: head.port, imm: head.w1, total: begin.total, offset: 0, stream: begin.stream };
        if len < begin.total {
            self.open.push(Part { offset: len, ..part });
        }
        Some(part)
    }

    /// A message that has begun begins later, with the same packet.
    pub fn forget(&mut self, stream: u32) {
        self.open.retain(|part| part.stream != stream);
    }

    /// A piece with `len` bytes, the `last` even if they are fewer than announced; `None` if it makes no sense.
    pub fn piece(&mut self, stream: u64, len: usize, last: bool) -> Option<Part> {
        let at = self.find(u32::try_from(stream).ok()?)?;
        let mut part = self.open[at];
        let offset = part.offset.checked_add(len as u64).filter(|&end| end <= part.total)?;
        if last {
            part.total = offset;
        }
        if offset == part.total {
            self.open.swap_remove(at);
        } else {
            self.open[at].offset = offset;
        }
        Some(part)
    }

    /// The next `len` bytes, or the first, of a message that comes by the shuttle; `None` if they make no sense.
    pub fn go_on(&mut self, head: &Head, stream: u64, len: usize) -> Option<Part> {
        match self.find(u32::try_from(stream).ok()?) {
            Some(at) => {
                let Part { port, imm, total, .. } = self.open[at];
                let is_it = (port, imm, total) == (head.port, head.w1, u64::from(head.len));
                if is_it { self.piece(stream, len, false) } else { None }
            }
            None => self.begin(head, Begin { total: head.len.into(), stream: stream as u32 }, len),
        }
    }

    /// A message that is open, and how far it has come.
    pub fn get(&self, stream: u64) -> Option<Part> {
        self.find(u32::try_from(stream).ok()?).map(|at| self.open[at])
    }

    fn find(&self, stream: u32) -> Option<usize> {
        self.open.iter().position(|part| part.stream == stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(w1: u64) -> Head {
        Head { kind: Kind::Begin, flags: 0, port: Port(1), len: 0, w1 }
    }

    #[test]
    fn pieces_add_up_and_lies_are_refused() {
        let mut open = OpenMessages::default();
        let begin = Begin { total: 10, stream: 3 };
        assert!(open.begin(&head(9), begin, 11).is_none(), "more than announced");
        assert_eq!(open.begin(&head(9), begin, 4).unwrap().offset, 0);
        assert!(open.begin(&head(9), begin, 4).is_none(), "the stream is open already");
        assert!(open.piece(4, 1, false).is_none(), "no such stream");
        assert!(open.piece(3, 7, false).is_none(), "more than is left");
        assert!(open.piece(1 << 32 | 3, 1, false).is_none(), "no stream has such a number");
        assert_eq!(open.piece(3, 5, false).unwrap().offset, 4);
        assert_eq!(open.piece(3, 1, false).unwrap().offset, 9);
        assert!(open.piece(3, 0, false).is_none(), "the message is complete");
    }

    #[test]
    fn a_message_may_end_early() {
        let mut open = OpenMessages::default();
        assert!(open.begin(&head(9), Begin { total: u64::MAX, stream: 3 }, 4).is_some());
        let part = open.piece(3, 2, true).unwrap();
        assert_eq!((part.offset, part.total), (4, 6));
        assert!(open.piece(3, 0, true).is_none(), "the message is complete");
    }
}
