//! Letters: what an origin asks a target to do, as bytes.
//!
//! A letter is a head of words, then the pieces of the target's memory it is about, then data.

use crate::boundary::Memory;
use barewire::core::tagged::Gather;
use barewire::mpi::datatype::Datatype;
use barewire_sys::wirebuf::WireMut;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Take data.
    Put,
    /// Give data.
    Get,
    /// Combine data with what is there, and give the old if an answer is wanted.
    Accumulate,
    /// Replace one element if it is what is expected, and give the old.
    CompareAndSwap,
    /// Give the lock, to this process alone.
    LockExclusive,
    /// Give the lock, shared.
    LockShared,
    /// Take the lock back.
    Unlock,
    /// Answer, when all before is done.
    Flush,
    /// The sender's memory is open to the receiver.
    Post,
    /// The sender is done with the receiver's memory.
    Complete,
    /// The window is going.
    Close,
}

const KINDS: [Kind; 11] = [
    Kind::Put,
    Kind::Get,
    Kind::Accumulate,
    Kind::CompareAndSwap,
    Kind::LockExclusive,
    Kind::LockShared,
    Kind::Unlock,
    Kind::Flush,
    Kind::Post,
    Kind::Complete,
    Kind::Close,
];

/// The part of a letter before its data.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// What is asked.
    pub kind: Kind,
    /// The tag of the answer; 0 if none is wanted.
    pub answer: i32,
    /// The handles of the operation and of the elements' type.
    pub op: u32,
    /// See `op`.
    pub basic: u32,
    /// The pieces of the target's memory: their offsets from its beginning, and their lengths.
    pub pieces: Vec<(i64, i64)>,
}

/// Words before the pieces.
const WORDS: usize = 3;

impl Head {
    /// A head without answer or data.
    pub fn of(kind: Kind) -> Head {
        Head { kind, answer: 0, op: 0, basic: 0, pieces: Vec::new() }
    }

    /// A head of which an answer is wanted.
    pub fn asking(kind: Kind, answer: i32) -> Head {
        Head { answer, ..Head::of(kind) }
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let kind = KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(0) as u64;
        let first = [
            kind | u64::from(self.answer as u32) << 32,
            u64::from(self.op) | u64::from(self.basic) << 32,
            self.pieces.len() as u64,
        ];
        let pieces = self.pieces.iter().flat_map(|&(at, len)| [at as u64, len as u64]);
        first.into_iter().chain(pieces).flat_map(u64::to_le_bytes).collect()
    }

    /// The head and the data of a letter; none if it makes no sense.
    pub fn read(letter: &[u8]) -> Option<(Head, &[u8])> {
        let word = |at: usize| {
            let bytes = letter.get(8 * at..8 * at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let (first, second, count) = (word(0)?, word(1)?, usize::try_from(word(2)?).ok()?);
        let data = letter.get(count.checked_mul(16)?.checked_add(8 * WORDS)?..)?;
        let piece = |i: usize| Some((word(WORDS + 2 * i)? as i64, word(WORDS + 2 * i + 1)? as i64));
        let head = Head {
            kind: *KINDS.get(first as u32 as usize)?,
            answer: (first >> 32) as i32,
            op: second as u32,
            basic: (second >> 32) as u32,
            pieces: (0..count).map(piece).collect::<Option<_>>()?,
        };
        Some((head, data))
    }
}

/// A letter on its way: its head, and the data straight from the origin's memory.
#[derive(Debug)]
pub(crate) struct Letter {
    /// The bytes of the head.
    pub head: Vec<u8>,
    /// The address of the data.
    pub memory: Memory,
    /// How many elements.
    pub count: i64,
    /// Of what.
    pub datatype: Datatype,
}

impl Gather for Letter {
    fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>) {
        let skipped = (offset as usize).min(self.head.len());
        wire.write(&self.head[skipped..]);
        let from = (offset as i64 - self.head.len() as i64).max(0);
        let memory = self.memory;
        self.datatype.runs(self.count, from, wire.remaining() as i64, |at, len| {
            if let Some(mut bytes) = memory.user(at, len as usize).wire_ref(0, len as usize) {
                wire.write_from(&mut bytes);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_read_as_it_was_written_and_nonsense_is_none() {
        for kind in KINDS {
            let head = Head { kind, answer: 7, op: 33, basic: 99, pieces: vec![(-8, 16), (1 << 40, 3)] };
            let mut bytes = head.to_bytes();
            bytes.extend(b"data");
            let (read, data) = Head::read(&bytes).unwrap();
            assert_eq!((read.kind, read.answer, read.op, read.basic), (kind, 7, 33, 99));
            assert_eq!((read.pieces, data), (head.pieces, &b"data"[..]));
            for cut in 0..bytes.len() - 4 {
                assert!(Head::read(&bytes[..cut]).is_none());
            }
        }
        assert!(Head::read(&[0xff; 64]).is_none());
    }
}
