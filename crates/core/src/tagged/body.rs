//! Where a message's bytes come from and go to.

use barewire_sys::memory::Memory;
use barewire_sys::userbuf::UserBuf;
use barewire_sys::wirebuf::{Places, WireMut, WireRef};

use crate::incoming::Incoming;
use crate::region::Key;

/// Bytes that are gathered as they are sent: a datatype with holes, say.
pub trait Gather: Send + std::fmt::Debug {
    /// Writes the message's bytes from `offset` on until `wire` is full.
    fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>);
    /// The bytes from `offset` on that lie together, at most `len`, to be taken from where they are. `None`, unless a source says
    /// otherwise: they are to be gathered.
    fn slice(&self, offset: u64, len: usize) -> Option<WireRef<'_>> {
        let _ = (offset, len);
        None
    }
    /// The exported region that all of them are in, one after the other, and where in it, if they are.
    fn region(&self) -> Option<(Key, u64)> {
        None
    }
}

/// Bytes that are scattered as they arrive.
pub trait Scatter: Send + std::fmt::Debug {
    /// How many bytes there is room for.
    fn capacity(&self) -> u64;
    /// Takes `packet`'s bytes, at most `len`, which stand at `offset` in the message.
    fn scatter(&mut self, offset: u64, packet: &mut Incoming<'_>, len: usize);
    /// Takes bytes that had been kept.
    fn scatter_kept(&mut self, offset: u64, bytes: &[u8]);
    /// The places of the bytes from `offset` on, at most `len`, to be put there by somebody else. None, unless a sink says otherwise:
    /// they are to be scattered.
    fn place<'a>(&'a mut self, offset: u64, len: usize, places: &mut Places<'a>) {
        let _ = (offset, len, places);
    }
}

/// Bytes of memory of ours that is exported for reading: a neighbour that has mapped it copies straight out of it. Goes into
/// [`Source::Gather`].
#[derive(Debug)]
pub struct Exported {
    /// The memory.
    pub memory: Memory,
    /// Where in it the message begins.
    pub at: usize,
    /// With what it is read.
    pub key: Key,
}

impl Gather for Exported {
    fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>) {
        if let Some(mut bytes) = self.slice(offset, wire.remaining()) {
            wire.write_from(&mut bytes);
        }
    }

    fn slice(&self, offset: u64, len: usize) -> Option<WireRef<'_>> {
        slice_of(&self.memory, self.at.checked_add(usize::try_from(offset).ok()?)?, len)
    }

    fn region(&self) -> Option<(Key, u64)> {
        Some((self.key, self.at as u64))
    }
}

/// The bytes from `at` on, at most `len`.
fn slice_of(memory: &Memory, at: usize, len: usize) -> Option<WireRef<'_>> {
    memory.wire_ref(at, len.min(memory.len().checked_sub(at)?))
}

/// Where a message's bytes come from. They must not change until the send has ended.
#[derive(Debug)]
pub enum Source {
    /// A caller's buffer.
    User(UserBuf),
    /// Memory of ours, from an offset on.
    Memory(Memory, usize),
    /// Gathered on the way.
    Gather(Box<dyn Gather>),
}

impl Source {
    /// Writes bytes from `offset` on until `wire` is full.
    #[inline(always)]
    pub(crate) fn fill(&mut self, offset: u64, wire: &mut WireMut<'_>) {
        let (at, len) = (offset as usize, wire.remaining());
        match self {
            Source::User(buffer) => {
                buffer.wire_ref(at, len).map(|mut bytes| wire.write_from(&mut bytes));
            }
            Source::Memory(memory, start) => {
                memory.wire_ref(*start + at, len).map(|mut bytes| wire.write_from(&mut bytes));
            }
            Source::Gather(gather) => gather.gather(offset, wire),
        }
    }
}

impl Source {
    /// The bytes from `offset` on that lie together, at most `len`; `None` if they have to be gathered.
    pub(super) fn slice(&self, offset: u64, len: usize) -> Option<WireRef<'_>> {
        let at = usize::try_from(offset).ok()?;
        match self {
            Source::User(buffer) => buffer.wire_ref(at, len.min(buffer.len().checked_sub(at)?)),
            Source::Memory(memory, start) => slice_of(memory, start.checked_add(at)?, len),
            Source::Gather(gather) => gather.slice(offset, len),
        }
    }

    /// Where its first `len` bytes are, if they lie together.
    pub(super) fn address(&self, len: usize) -> Option<u64> {
        self.slice(0, len).filter(|bytes| bytes.remaining() == len).map(|bytes| bytes.address())
    }
}

/// Where a message's bytes go. What does not fit is dropped, and the outcome says so.
#[derive(Debug)]
pub enum Sink {
    /// A caller's buffer.
    User(UserBuf),
    /// Memory of ours, from an offset on, so many bytes.
    Memory(Memory, usize, usize),
    /// Scattered on the way.
    Scatter(Box<dyn Scatter>),
}

impl Sink {
    #[inline(always)]
    pub(crate) fn capacity(&self) -> u64 {
        match self {
            Sink::User(buffer) => buffer.len() as u64,
            Sink::Memory(memory, at, len) => (*len).min(memory.len().saturating_sub(*at)) as u64,
            Sink::Scatter(scatter) => scatter.capacity(),
        }
    }

    /// Takes a packet's bytes, which stand at `offset` in the message, as far as they fit.
    #[inline(always)]
    pub(crate) fn take(&mut self, offset: u64, packet: &mut Incoming<'_>) {
        let room = self.capacity().saturating_sub(offset);
        let len = (packet.remaining() as u64).min(room) as usize;
        match self {
            Sink::User(buffer) => take_user(buffer, offset, packet),
            Sink::Memory(memory, at, _) => {
                memory.wire_mut(*at + offset as usize, len).map(|mut place| packet.read_to(&mut place));
            }
            Sink::Scatter(scatter) => scatter.scatter(offset, packet, len),
        }
    }

    /// The places of the bytes from `offset` on, at most `len`; none if they do not fit at all, or have to be scattered.
    pub(super) fn place<'a>(&'a mut self, offset: u64, len: usize, places: &mut Places<'a>) {
        let room = usize::try_from(self.capacity().saturating_sub(offset)).unwrap_or(usize::MAX);
        let (start, len) = (usize::try_from(offset).unwrap_or(usize::MAX), len.min(room));
        let place = match self {
            Sink::User(buffer) => buffer.wire_mut(start, len),
            Sink::Memory(memory, at, _) => memory.wire_mut(at.saturating_add(start), len),
            Sink::Scatter(scatter) => return scatter.place(offset, len, places),
        };
        place.map(|place| places.push(place));
    }

    /// Takes bytes that had been kept, as far as they fit.
    pub(crate) fn take_kept(&mut self, offset: u64, bytes: &[u8]) {
        let room = self.capacity().saturating_sub(offset);
        let bytes = &bytes[..(bytes.len() as u64).min(room) as usize];
        match self {
            Sink::User(buffer) => {
                buffer.wire_mut(offset as usize, bytes.len()).map(|mut place| place.write(bytes));
            }
            Sink::Memory(memory, at, _) => {
                memory.wire_mut(*at + offset as usize, bytes.len()).map(|mut place| place.write(bytes));
            }
            Sink::Scatter(scatter) => scatter.scatter_kept(offset, bytes),
        }
    }
}

/// Takes a packet's bytes, which stand at `offset` in the message, into a caller's buffer, as far as they fit.
#[inline(always)]
pub(super) fn take_user(buffer: &UserBuf, offset: u64, packet: &mut Incoming<'_>) {
    let room = (buffer.len() as u64).saturating_sub(offset);
    let len = (packet.remaining() as u64).min(room) as usize;
    buffer.wire_mut(offset as usize, len).map(|mut place| packet.read_to(&mut place));
}
