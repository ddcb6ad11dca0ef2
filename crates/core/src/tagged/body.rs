//! Where a message's bytes come from and go to.

use barewire_sys::memory::Memory;
use barewire_sys::userbuf::UserBuf;
use barewire_sys::wirebuf::WireMut;

use crate::incoming::Incoming;

/// Bytes that are gathered as they are sent: a datatype with holes, say.
pub trait Gather: Send + std::fmt::Debug {
    /// Writes the message's bytes from `offset` on until `wire` is full.
    fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>);
}

/// Bytes that are scattered as they arrive.
pub trait Scatter: Send + std::fmt::Debug {
    /// How many bytes there is room for.
    fn capacity(&self) -> u64;
    /// Takes `packet`'s bytes, at most `len`, which stand at `offset` in the message.
    fn scatter(&mut self, offset: u64, packet: &mut Incoming<'_>, len: usize);
    /// Takes bytes that had been kept.
    fn scatter_kept(&mut self, offset: u64, bytes: &[u8]);
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
    /// Where its first `len` bytes are, if they lie together.
    pub(super) fn address(&self, len: usize) -> Option<u64> {
        match self {
            Source::User(buffer) => buffer.wire_ref(0, len).map(|bytes| bytes.address()),
            Source::Memory(memory, start) => memory.wire_ref(*start, len).map(|bytes| bytes.address()),
            Source::Gather(_) => None,
        }
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

    /// The place of its first `len` bytes, if they lie together.
    pub(super) fn place(&self, len: usize) -> Option<WireMut<'_>> {
        match self {
            Sink::User(buffer) => buffer.wire_mut(0, len),
            Sink::Memory(memory, at, room) => memory.wire_mut(*at, len).filter(|_| len <= *room),
            Sink::Scatter(_) => None,
        }
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
