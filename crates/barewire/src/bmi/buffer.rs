//! Buffers: what is sent from and received into, one piece or a list of pieces.

use std::sync::Arc;

use barewire_core::Incoming;
use barewire_core::region::Memory;
use barewire_core::tagged::{Gather, Scatter, Sink, Source};
use barewire_sys::wirebuf::{Places, WireMut, WireRef};

use super::memory::Lease;

/// A piece of memory that the network may read and write while an operation on it is under way. A counted handle: clones are of
/// the same bytes, and reading them while a receive fills them gives some mixture, never anything worse.
///
/// ```
/// use barewire::bmi::Buffer;
/// let buffer = Buffer::new(100);
/// buffer.slice(10, 5).write(b"hello");
/// assert_eq!(&buffer.to_vec()[10..15], b"hello");
/// ```
#[derive(Clone, Debug)]
pub struct Buffer {
    memory: Memory,
    at: usize,
    len: usize,
    /// The block of ours that it is in, if it is.
    lease: Option<Arc<Lease>>,
}

impl Buffer {
    /// `len` zeroed bytes.
    ///
    /// ```
    /// use barewire::bmi::Buffer;
    /// assert_eq!(Buffer::new(3).to_vec(), [0, 0, 0]);
    /// ```
    pub fn new(len: usize) -> Buffer {
        Buffer { memory: Memory::private(len), at: 0, len, lease: None }
    }

    /// The first `len` bytes of a block of ours.
    pub(super) fn leased(lease: Arc<Lease>, len: usize) -> Buffer {
        Buffer { memory: lease.memory.clone(), at: 0, len, lease: Some(lease) }
    }

    /// Where the bytes are, for the C interface.
    ///
    /// ```
    /// use barewire::bmi::Buffer;
    /// let buffer = Buffer::new(100);
    /// assert_eq!(buffer.slice(10, 5).address(), buffer.address() + 10);
    /// ```
    pub fn address(&self) -> u64 {
        self.memory.wire_ref(self.at, self.len).map_or(0, |bytes| bytes.address())
    }

    /// Bytes in the buffer.
    ///
    /// ```
    /// use barewire::bmi::Buffer;
    /// assert_eq!(Buffer::from(b"seven b").len(), 7);
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    ///
    /// ```
    /// use barewire::bmi::Buffer;
    /// assert!(Buffer::new(0).is_empty() && !Buffer::new(1).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of the buffer; cut to what there is.
    ///
    /// ```
    /// use barewire::bmi::Buffer;
    /// let line = Buffer::from(b"key=value");
    /// assert_eq!(line.slice(4, 5).to_vec(), b"value");
    /// assert_eq!(line.slice(4, 500).len(), 5); // there is no more
    /// line.slice(0, 3).write(b"KEY"); // the same bytes
    /// assert_eq!(line.to_vec(), b"KEY=value");
    /// ```
    pub fn slice(&self, at: usize, len: usize) -> Buffer {
        let at = at.min(self.len);
        Buffer { at: self.at + at, len: len.min(self.len - at), ..self.clone() }
    }

    /// Copies bytes in from the front, as many as fit, and says how many.
    ///
    /// ```
    /// use barewire::bmi::Buffer;
    /// let buffer = Buffer::new(4);
    /// assert_eq!((buffer.write(b"ab"), buffer.write(b"cdefgh")), (2, 4));
    /// assert_eq!(buffer.to_vec(), b"cdef");
    /// ```
    pub fn write(&self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.len);
        let written = self.memory.write(self.at, &bytes[..n]);
        if written { n } else { 0 }
    }

    /// A copy of the bytes.
    ///
    /// ```
    /// use barewire::bmi::Buffer;
    /// let buffer = Buffer::from(b"as it was");
    /// let copy = buffer.to_vec();
    /// buffer.write(b"as it is ");
    /// assert_eq!(copy, b"as it was");
    /// ```
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        let read = self.memory.read(self.at, &mut bytes);
        debug_assert!(read, "a buffer lies within its memory");
        bytes
    }
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Buffer {
        let buffer = Buffer::new(bytes.len());
        buffer.write(bytes);
        buffer
    }
}

impl<const N: usize> From<&[u8; N]> for Buffer {
    fn from(bytes: &[u8; N]) -> Buffer {
        Buffer::from(&bytes[..])
    }
}

/// What a send takes: how many bytes, and from where. Made from a [`Buffer`] or a list of them.
///
/// ```
/// # use barewire::bmi::*;
/// # use std::time::Duration;
/// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
/// # let context = bmi.open_context().unwrap();
/// # const SOON: Duration = Duration::from_secs(10);
/// let (header, body) = (Buffer::from(b"len 5: "), Buffer::from(b"hello"));
/// bmi.post_send(me, &[header, body][..], 1, 0, context).unwrap(); // a list is one message
/// let place = Buffer::new(20);
/// bmi.post_recv(me, &place, 1, 0, context).unwrap();
/// assert_eq!(&place.to_vec()[..12], b"len 5: hello");
/// ```
#[derive(Debug)]
pub struct Outgoing {
    pub(super) len: u64,
    pub(super) source: Source,
    /// The block of ours that all of it is in, if it is.
    pub(super) lease: Option<Arc<Lease>>,
}

impl Outgoing {
    /// `len` bytes of any source of the core's, as the C interface makes them.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// use barewire::core::{region::Memory, tagged::Source};
    /// let memory = Memory::private(10);
    /// memory.write(4, b"inside");
    /// let body = Outgoing::new(6, Source::Memory(memory, 4));
    /// assert_eq!(bmi.post_send(me, body, 1, 0, context).unwrap(), Posted::Done(6));
    /// let place = Buffer::new(6);
    /// bmi.post_recv(me, &place, 1, 0, context).unwrap();
    /// assert_eq!(place.to_vec(), b"inside");
    /// ```
    pub fn new(len: u64, source: Source) -> Outgoing {
        Outgoing { len, source, lease: None }
    }
}

impl From<Buffer> for Outgoing {
    fn from(buffer: Buffer) -> Outgoing {
        let Buffer { memory, at, len, lease } = buffer;
        Outgoing { len: len as u64, source: Source::Memory(memory, at), lease }
    }
}

impl From<&Buffer> for Outgoing {
    fn from(buffer: &Buffer) -> Outgoing {
        buffer.clone().into()
    }
}

impl From<&[Buffer]> for Outgoing {
    fn from(list: &[Buffer]) -> Outgoing {
        let pieces = Pieces::new(list);
        Outgoing::new(pieces.total(), Source::Gather(Box::new(pieces)))
    }
}

/// What a receive fills. Made from a [`Buffer`] or a list of them.
///
/// ```
/// # use barewire::bmi::*;
/// # use std::time::Duration;
/// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
/// # let context = bmi.open_context().unwrap();
/// # const SOON: Duration = Duration::from_secs(10);
/// let (first, second) = (Buffer::new(3), Buffer::new(3));
/// bmi.post_send(me, Buffer::from(b"onetwo"), 1, 0, context).unwrap();
/// bmi.post_recv(me, &[first.clone(), second.clone()][..], 1, 0, context).unwrap();
/// assert_eq!((first.to_vec(), second.to_vec()), (b"one".to_vec(), b"two".to_vec()));
/// ```
#[derive(Debug)]
pub struct Place {
    pub(super) sink: Sink,
}

impl Place {
    /// Any sink of the core's, as the C interface makes them.
    ///
    /// ```
    /// # use barewire::bmi::*;
    /// # use std::time::Duration;
    /// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
    /// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
    /// # let context = bmi.open_context().unwrap();
    /// # const SOON: Duration = Duration::from_secs(10);
    /// use barewire::core::{region::Memory, tagged::Sink};
    /// let memory = Memory::private(10);
    /// bmi.post_send(me, Buffer::from(b"there"), 1, 0, context).unwrap();
    /// let place = Place::new(Sink::Memory(memory.clone(), 5, 5));
    /// assert_eq!(bmi.post_recv(me, place, 1, 0, context).unwrap(), Posted::Done(5));
    /// let mut bytes = [0; 10];
    /// memory.read(0, &mut bytes);
    /// assert_eq!(&bytes, b"\0\0\0\0\0there");
    /// ```
    pub fn new(sink: Sink) -> Place {
        Place { sink }
    }
}

impl From<Buffer> for Place {
    fn from(buffer: Buffer) -> Place {
        Place { sink: Sink::Memory(buffer.memory, buffer.at, buffer.len) }
    }
}

impl From<&Buffer> for Place {
    fn from(buffer: &Buffer) -> Place {
        buffer.clone().into()
    }
}

impl From<&[Buffer]> for Place {
    fn from(list: &[Buffer]) -> Place {
        Place { sink: Sink::Scatter(Box::new(Pieces::new(list))) }
    }
}

/// A list of buffers as one run of bytes.
#[derive(Debug)]
struct Pieces {
    list: Vec<Buffer>,
    ends: Vec<u64>,
}

impl Pieces {
    fn new(list: &[Buffer]) -> Pieces {
        let ends = ends(list.iter().map(|piece| piece.len as u64));
        Pieces { list: list.to_vec(), ends }
    }

    fn total(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }
}

/// Where each of several pieces ends in the run they make.
///
/// ```
/// assert_eq!(barewire::bmi::ends([4, 0, 6].into_iter()), [4, 4, 10]);
/// ```
pub fn ends(lengths: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sum = 0u64;
    lengths
        .map(|len| {
            sum = sum.saturating_add(len);
            sum
        })
        .collect()
}

/// Walks over the pieces that `len` bytes from `offset` touch: calls `with(piece, at, n)`, in order.
///
/// ```
/// use barewire::bmi::{ends, walk};
/// let mut seen = Vec::new();
/// walk(&ends([4u64, 0, 6].into_iter()), 2, 5, |piece, at, n| seen.push((piece, at, n)));
/// assert_eq!(seen, [(0, 2, 2), (2, 0, 3)]);
/// ```
pub fn walk(ends: &[u64], offset: u64, len: usize, mut with: impl FnMut(usize, usize, usize)) {
    let (mut offset, mut left) = (offset, len as u64);
    let mut piece = ends.partition_point(|&end| end <= offset);
    while left > 0 && piece < ends.len() {
        let start = if piece == 0 { 0 } else { ends[piece - 1] };
        let n = (ends[piece] - offset).min(left);
        if n > 0 {
            with(piece, (offset - start) as usize, n as usize);
        }
        (offset, left, piece) = (offset + n, left - n, piece + 1);
    }
}

/// The piece that the byte at `offset` is in, where in it that is, and how many bytes follow in it, at most `len`.
///
/// ```
/// use barewire::bmi::{ends, piece_at};
/// let ends = ends([4u64, 0, 6].into_iter());
/// assert_eq!(piece_at(&ends, 4, 100), Some((2, 0, 6)));
/// assert_eq!(piece_at(&ends, 10, 100), None);
/// ```
pub fn piece_at(ends: &[u64], offset: u64, len: usize) -> Option<(usize, usize, usize)> {
    let piece = ends.partition_point(|&end| end <= offset);
    let start = if piece == 0 { 0 } else { ends[piece - 1] };
    let left = usize::try_from(ends.get(piece)? - offset).unwrap_or(usize::MAX);
    Some((piece, usize::try_from(offset - start).ok()?, left.min(len)))
}

/// Shorter pieces are scattered faster than the kernel is told of them.
const LENT_BYTES_MIN: usize = 4 << 10;

/// Lends the pieces that `len` bytes from `offset` touch, in order, with `give(piece, at, n)`, as long as it takes them and they are long
/// enough.
///
/// ```
/// use barewire::bmi::{ends, lend};
/// let mut seen = Vec::new();
/// lend(&ends([8192u64, 100, 9000].into_iter()), 100, 20_000, |piece, at, n| {
///     seen.push((piece, at, n));
///     true
/// });
/// assert_eq!(seen, [(0, 100, 8092)], "the second is short");
/// ```
pub fn lend(ends: &[u64], offset: u64, len: usize, mut give: impl FnMut(usize, usize, usize) -> bool) {
    let mut given = 0;
    while let Some((piece, at, n)) = piece_at(ends, offset + given as u64, len - given) {
        if n < LENT_BYTES_MIN.min(len - given) || n == 0 || !give(piece, at, n) {
            return;
        }
        given += n;
    }
}

impl Gather for Pieces {
    fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>) {
        walk(&self.ends, offset, wire.remaining(), |piece, at, n| {
            let Buffer { memory, at: base, .. } = &self.list[piece];
            memory.wire_ref(base + at, n).map(|mut bytes| wire.write_from(&mut bytes));
        });
    }

    fn slice(&self, offset: u64, len: usize) -> Option<WireRef<'_>> {
        let (piece, at, n) = piece_at(&self.ends, offset, len)?;
        let Buffer { memory, at: base, .. } = &self.list[piece];
        memory.wire_ref(base + at, n)
    }
}

impl Scatter for Pieces {
    fn capacity(&self) -> u64 {
        self.total()
    }

    fn scatter(&mut self, offset: u64, packet: &mut Incoming<'_>, len: usize) {
        walk(&self.ends, offset, len, |piece, at, n| {
            let Buffer { memory, at: base, .. } = &self.list[piece];
            memory.wire_mut(base + at, n).map(|mut place| packet.read_to(&mut place));
        });
    }

    fn scatter_kept(&mut self, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        walk(&self.ends, offset, bytes.len(), |piece, at, n| {
            let (now, later) = rest.split_at(n);
            rest = later;
            self.list[piece].slice(at, n).write(now);
        });
    }

    fn place<'a>(&'a mut self, offset: u64, len: usize, places: &mut Places<'a>) {
        lend(&self.ends, offset, len, |piece, at, n| {
            let Buffer { memory, at: base, .. } = &self.list[piece];
            memory.wire_mut(base + at, n).is_some_and(|place| places.push(place))
        });
    }
}
