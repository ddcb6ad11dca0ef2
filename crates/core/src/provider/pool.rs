//! The pool: chunks of shared memory through which one endpoint sends long packets to its neighbours.
//!
//! One pool a process, not one a pair, so that its cost does not grow with the square of the ranks. A chunk is
//! the sender's from [`Pool::take`] until the ring position of the packet that names it has been given back.

use std::collections::VecDeque;

use barewire_sys::map::{MapError, Segment};

/// Bytes of one chunk: large enough that naming it is cheap, small enough that filling one overlaps with emptying another; and a line more, so
/// that what opens a message takes no packet of its own at the end of one of 64 KiB.
pub(crate) const CHUNK_BYTES: usize = (32 << 10) + 64;

/// Has the system provide all pages of a pool, because all of it is used in turn; but not those of one that somebody made very large.
pub(crate) fn populate(segment: &Segment) {
    if segment.len() <= POPULATED_BYTES_MAX {
        segment.populate();
    }
}

/// The default, and what huge pages add to it.
const POPULATED_BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
pub(crate) struct Pool {
    bytes: usize,
    segment: Option<Segment>,
    /// Free chunks, the first of the pool and the others, with how many had come back before each. First freed, first taken: memory that both
    /// sides touched last a while ago has left their own caches for the one they share, from which it comes several times faster than out of the other's.
    free: [VecDeque<(u64, u32)>; 2],
    came_back: u64,
}

/// Chunks that long messages use in turn: more than a processor's own cache holds, but no more, because the rest of the one that is shared
/// is better used for the messages themselves.
const FIRST: u32 = ((2 << 20) / CHUNK_BYTES) as u32;

impl Pool {
    pub fn new(bytes: usize) -> Pool {
        Pool { bytes, segment: None, free: Default::default(), came_back: 0 }
    }

    /// The pool's memory, made on first use.
    pub fn segment(&mut self) -> Result<&Segment, MapError> {
        if self.segment.is_none() {
            let segment = Segment::create_large("barewire-pool", self.bytes)?;
            populate(&segment);
            let chunks = segment.len() / CHUNK_BYTES;
            self.segment = Some(segment);
            (0..chunks as u32).for_each(|chunk| self.put_back(chunk));
        }
        Ok(self.segment.as_ref().expect("made above"))
    }

    /// A chunk to fill, if one is free, for a packet of a message that is `long` or not.
    pub fn take(&mut self, long: bool) -> Option<u32> {
        let [first, others] = self.free.each_ref().map(|free| free.front().map(|&(since, _)| since));
        let from = match (first, others) {
            (Some(_), None) => 0,
            (Some(first), Some(others)) if long || first < others => 0,
            _ => 1,
        };
        self.free[from].pop_front().map(|(_, chunk)| chunk)
    }

    /// Whether a receiver that has so many chunks may have another: whoever is slow leaves half as many as it has for others.
    pub fn allows(&self, taken: usize) -> bool {
        taken < 2 * self.free()
    }

    /// Whether more than half of the chunks are taken.
    pub fn is_short(&self) -> bool {
        2 * self.free() < self.bytes / CHUNK_BYTES
    }

    fn free(&self) -> usize {
        if self.segment.is_none() {
            self.bytes / CHUNK_BYTES
        } else {
            self.free.iter().map(VecDeque::len).sum()
        }
    }

    /// A chunk comes back.
    pub fn put_back(&mut self, chunk: u32) {
        self.free[usize::from(chunk >= FIRST)].push_back((self.came_back, chunk));
        self.came_back += 1;
    }
}
