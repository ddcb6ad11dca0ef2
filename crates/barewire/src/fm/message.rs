//! What a plain handler gets: the message, and the way to answer it.

use barewire_core::{Endpoint, Incoming, Peer};

use super::Handler;
use super::send::SendError;

/// A whole message, for a plain handler. What is not read when the handler returns is discarded.
#[derive(Debug)]
pub struct Message<'a>(Source<'a>);

#[derive(Debug)]
enum Source<'a> {
    /// One packet, in wire memory.
    Wire(Incoming<'a>),
    /// Several packets, put together.
    Whole { from: Peer, total: u64, left: &'a [u8] },
}

impl<'a> Message<'a> {
    #[inline(always)]
    pub(super) fn wire(packet: Incoming<'a>) -> Message<'a> {
        Message(Source::Wire(packet))
    }

    pub(super) fn whole(from: Peer, bytes: &'a [u8]) -> Message<'a> {
        Message(Source::Whole { from, total: bytes.len() as u64, left: bytes })
    }

    /// Who sent it.
    #[inline]
    pub fn from(&self) -> Peer {
        match &self.0 {
            Source::Wire(packet) => packet.from,
            Source::Whole { from, .. } => *from,
        }
    }

    /// Bytes of the message.
    #[inline]
    pub fn len(&self) -> u64 {
        match &self.0 {
            Source::Wire(packet) => packet.total,
            Source::Whole { total, .. } => *total,
        }
    }

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes not read yet.
    #[inline]
    pub fn remaining(&self) -> usize {
        match &self.0 {
            Source::Wire(packet) => packet.remaining(),
            Source::Whole { left, .. } => left.len(),
        }
    }

    /// Reads up to `into.len()` bytes straight into their destination and says how many.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        match &mut self.0 {
            Source::Wire(packet) => packet.read(into),
            Source::Whole { left, .. } => {
                let (now, later) = left.split_at(into.len().min(left.len()));
                into[..now.len()].copy_from_slice(now);
                *left = later;
                now.len()
            }
        }
    }

    /// Reads the four words of a [`super::Fm::send_4`]; a shorter message leaves zeros.
    #[inline]
    pub fn words(&mut self) -> [u32; 4] {
        let mut bytes = [0; 16];
        self.read(&mut bytes);
        let word = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        [word(0), word(4), word(8), word(12)]
    }

    /// Everything not read yet.
    pub fn to_vec(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; self.remaining()];
        self.read(&mut bytes);
        bytes
    }
}

/// The way out for a plain handler. A handler runs inside `extract` and cannot wait for room: its sends are refused with
/// [`SendError::Full`] where waiting would deadlock. A handler that has more to say, or has to get through, is a stream
/// handler and uses its [`super::Sender`].
#[derive(Debug)]
pub struct Context<'a> {
    pub(super) endpoint: &'a mut Endpoint,
}

impl Context<'_> {
    /// This rank.
    pub fn me(&self) -> Peer {
        self.endpoint.me()
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.endpoint.size()
    }

    /// Sends a message that fits one packet, or refuses.
    #[inline]
    pub fn send(&mut self, to: Peer, handler: Handler, bytes: &[u8]) -> Result<(), SendError> {
        Ok(self.endpoint.send(to, handler.port(), 0, bytes)?)
    }

    /// Sends four words, or refuses.
    #[inline]
    pub fn send_4(&mut self, to: Peer, handler: Handler, words: [u32; 4]) -> Result<(), SendError> {
        self.send(to, handler, &super::send::four(words))
    }
}
