//! The pool: chunks of shared memory through which one endpoint sends long packets to its neighbours.
//!
//! One pool a process, not one a pair, so that its cost does not grow with the square of the ranks. A chunk is
//! the sender's from [`Pool::take`] until the ring position of the packet that names it has been given back.

use std::collections::VecDeque;

use barewire_sys::map::{MapError, Segment};

/// Bytes of a packet: enough that naming where it lies is cheap, few enough that filling one overlaps with emptying another; and a line more, so
/// that what opens a message takes no packet of its own at the end of one of 64 KiB.
pub(crate) const PACKET_BYTES: usize = (32 << 10) + 64;

/// Bytes of a packet of a [long](crate::provider::Class::Bulk) message, of which so many follow each other that handing them over is what counts.
pub(crate) const LONG_PACKET_BYTES: usize = 2 * PACKET_BYTES - 64;

/// Has the system provide all pages of a pool, because all of it is used in turn; but not those of one that somebody made very large.
pub(crate) fn populate(segment: &Segment) {
    if segment.len() <= POPULATED_BYTES_MAX {
        segment.populate();
    }
}

/// The default, and what huge pages add to it.
const POPULATED_BYTES_MAX: usize = 8 << 20;

/// Where a chunk begins in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk(u32);

impl Chunk {
    /// Its first byte.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
pub(crate) struct Pool {
    bytes: usize,
    segment: Option<Segment>,
    /// Free chunks, the large ones at the beginning of the memory and the small ones behind them, with how many had come back before each. First
    /// freed, first taken: memory that both sides touched last a while ago has left their own caches for the one they share, from which it comes
    /// several times faster than out of the other's.
    large: VecDeque<(u64, Chunk)>,
    small: VecDeque<(u64, Chunk)>,
    came_back: u64,
}

/// Memory that long messages use in turn: more than a processor's own cache holds, but no more, because the rest of the one that is shared
/// is better used for the messages themselves.
const LARGE_BYTES_MAX: usize = 2 << 20;

impl Pool {
    pub fn new(bytes: usize) -> Pool {
        Pool { bytes, segment: None, large: VecDeque::new(), small: VecDeque::new(), came_back: 0 }
    }

    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The pool's memory, made on first use.
    pub fn segment(&mut self) -> Result<&Segment, MapError> {
        if self.segment.is_none() {
            let segment = Segment::create_large("barewire-pool", self.bytes)?;
            populate(&segment);
            self.bytes = segment.len();
            self.segment = Some(segment);
            let (large, small) = (self.large_count(), self.small_count());
            let begins =
                |first: usize, bytes, count| (0..count).map(move |i| Chunk((first + i * bytes) as u32));
            begins(0, LONG_PACKET_BYTES, large)
                .chain(begins(large * LONG_PACKET_BYTES, PACKET_BYTES, small))
                .for_each(|chunk| self.put_back(chunk));
        }
        Ok(self.segment.as_ref().expect("made above"))
    }

    fn large_count(&self) -> usize {
        (self.bytes / 3).min(LARGE_BYTES_MAX) / LONG_PACKET_BYTES
    }

    fn small_count(&self) -> usize {
        (self.bytes - self.large_count() * LONG_PACKET_BYTES) / PACKET_BYTES
    }

    /// Bytes of a chunk.
    pub fn bytes_of(&self, chunk: Chunk) -> usize {
        if self.is_large(chunk) { LONG_PACKET_BYTES } else { PACKET_BYTES }
    }

    fn is_large(&self, chunk: Chunk) -> bool {
        chunk.at() < self.large_count() * LONG_PACKET_BYTES
    }

    /// A chunk to fill, if one is free, for a packet of a message that is `long` or not.
    pub fn take(&mut self, long: bool) -> Option<Chunk> {
        let chunks = if self.takes_large(long) { &mut self.large } else { &mut self.small };
        chunks.pop_front().map(|(_, chunk)| chunk)
    }

    /// Bytes of the chunk that would be taken next.
    pub fn next_bytes(&self, long: bool) -> usize {
        if self.takes_large(long) { LONG_PACKET_BYTES } else { PACKET_BYTES }
    }

    /// Whether a large chunk is next: for long messages as long as there is one, for others when it has been free for longer than any small one.
    fn takes_large(&self, long: bool) -> bool {
        if self.segment.is_none() {
            return long && self.large_count() > 0;
        }
        match (self.large.front(), self.small.front()) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some((large, _)), Some((small, _))) => long || large < small,
        }
    }

    /// Whether a receiver that has so many chunks may have another: whoever is slow leaves half as many as it has for others.
    pub fn allows(&self, taken: usize) -> bool {
        taken < 2 * self.free()
    }

    /// Whether more than half of the chunks are taken.
    pub fn is_short(&self) -> bool {
        2 * self.free() < self.large_count() + self.small_count()
    }

    fn free(&self) -> usize {
        if self.segment.is_none() {
            self.large_count() + self.small_count()
        } else {
            self.large.len() + self.small.len()
        }
    }

    /// A chunk comes back.
    pub fn put_back(&mut self, chunk: Chunk) {
        let chunks = if self.is_large(chunk) { &mut self.large } else { &mut self.small };
        chunks.push_back((self.came_back, chunk));
        self.came_back += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_lie_side_by_side_and_each_comes_back_to_its_like() {
        for bytes in [64 << 10, 100 << 10, 1 << 20, 6 << 20] {
            let mut pool = Pool::new(bytes);
            assert!(pool.segment().is_ok());
            let expected = pool.free();
            assert!(expected > 0, "of {bytes} bytes");
            let mut taken: Vec<Chunk> = std::iter::from_fn(|| pool.take(true)).collect();
            assert_eq!((taken.len(), pool.free()), (expected, 0), "all there are, the small ones too");
            taken.sort_by_key(|chunk| chunk.at());
            let mut ends = taken.iter().map(|&chunk| chunk.at() + pool.bytes_of(chunk));
            let begins = taken.iter().skip(1).map(|chunk| chunk.at());
            assert!(ends.clone().zip(begins).all(|(end, begin)| end == begin), "{bytes}: {taken:?}");
            assert!(ends.next_back().unwrap() <= pool.segment().unwrap().len());
            taken.iter().for_each(|&chunk| pool.put_back(chunk));
            assert_eq!(pool.free(), expected);
        }
    }

    #[test]
    fn who_takes_a_chunk_knows_its_length_before() {
        let mut pool = Pool::new(1 << 20);
        assert!(pool.next_bytes(true) == LONG_PACKET_BYTES && pool.next_bytes(false) == PACKET_BYTES);
        pool.segment().unwrap();
        for long in [true, false].into_iter().cycle().take(200) {
            let next = pool.next_bytes(long);
            match pool.take(long) {
                Some(chunk) => assert_eq!(pool.bytes_of(chunk), next),
                None => return,
            }
        }
        unreachable!("there are not so many");
    }
}
