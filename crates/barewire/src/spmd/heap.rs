//! Offsets in a block of memory, handed out and taken back. Who asks for the same in the same order gets the same, which is
//! what makes a heap symmetric without a word between the ranks.

use std::collections::BTreeMap;

/// The free and the used ranges of a block.
#[derive(Debug)]
pub(crate) struct Heap {
    /// Free ranges, by where they begin: how long they are. No two touch.
    free: BTreeMap<usize, usize>,
    /// Allocated ranges.
    used: BTreeMap<usize, usize>,
}

/// Everything is aligned to this, so that no two allocations share a cache line.
const ALIGN: usize = 64;

impl Heap {
    /// A heap over the offsets from `start` up to `end`.
    pub fn new(start: usize, end: usize) -> Heap {
        let start = start.next_multiple_of(ALIGN);
        let free = if start < end { BTreeMap::from([(start, end - start)]) } else { BTreeMap::new() };
        Heap { free, used: BTreeMap::new() }
    }

    /// The lowest range of `bytes` bytes.
    pub fn take(&mut self, bytes: usize) -> Option<usize> {
        self.take_aligned(bytes, ALIGN)
    }

    /// The lowest range of `bytes` bytes that begins at a multiple of `align`, a power of two.
    pub fn take_aligned(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let bytes = bytes.max(1).checked_next_multiple_of(ALIGN)?;
        let start = |at: usize, len: usize| {
            let start = at.checked_next_multiple_of(align.max(ALIGN))?;
            (start.checked_add(bytes)? <= at + len).then_some(start)
        };
        let (&at, &len) = self.free.iter().find(|&(&at, &len)| start(at, len).is_some())?;
        self.cut(at, len, start(at, len)?, bytes)
    }

    /// How long the range is that was handed out from `at` on.
    pub fn used_at(&self, at: usize) -> Option<usize> {
        self.used.get(&at).copied()
    }

    /// The highest range of `bytes` bytes.
    pub fn take_high(&mut self, bytes: usize) -> Option<usize> {
        let bytes = bytes.max(1).checked_next_multiple_of(ALIGN)?;
        let (&at, &len) = self.free.iter().rev().find(|&(&at, &len)| high(at, len, bytes).is_some())?;
        self.cut(at, len, high(at, len, bytes)?, bytes)
    }

    /// Takes a range back; false if it was not handed out.
    pub fn give_back(&mut self, at: usize) -> bool {
        let Some(mut len) = self.used.remove(&at) else { return false };
        let mut start = at;
        if let Some((&before, &n)) = self.free.range(..at).next_back().filter(|&(&b, &n)| b + n == at) {
            self.free.remove(&before);
            (start, len) = (before, n + len);
        }
        if let Some(n) = self.free.remove(&(start + len)) {
            len += n;
        }
        self.free.insert(start, len);
        true
    }

    /// Cuts the used range out of a free one.
    fn cut(&mut self, free: usize, len: usize, at: usize, bytes: usize) -> Option<usize> {
        self.free.remove(&free);
        if at > free {
            self.free.insert(free, at - free);
        }
        if at + bytes < free + len {
            self.free.insert(at + bytes, free + len - at - bytes);
        }
        self.used.insert(at, bytes);
        Some(at)
    }
}

/// Where an aligned range of `bytes` begins at the end of a free one.
fn high(at: usize, len: usize, bytes: usize) -> Option<usize> {
    let start = (at + len).checked_sub(bytes)? / ALIGN * ALIGN;
    (start >= at).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_handed_out_again_as_one() {
        let mut heap = Heap::new(0, 1024);
        let ranges: Vec<usize> = std::iter::from_fn(|| heap.take(100)).collect();
        assert_eq!(ranges, [0, 128, 256, 384, 512, 640, 768, 896]);
        assert_eq!((heap.take(1), heap.take_high(1)), (None, None));
        for at in [128, 384, 256] {
            assert!(heap.give_back(at));
            assert!(!heap.give_back(at), "only once");
        }
        assert_eq!(heap.take(384), Some(128), "three neighbours are one range");
        assert!(!heap.give_back(7));
    }

    #[test]
    fn high_and_low_never_meet() {
        let mut heap = Heap::new(100, 1000);
        assert_eq!(
            (heap.take(64), heap.take_high(64), heap.take_high(65)),
            (Some(128), Some(896), Some(768))
        );
        assert_eq!(heap.take(1000), None);
        assert_eq!(heap.take(576), Some(192));
        assert_eq!((heap.take(1), heap.take_high(1)), (None, None), "what is left is less than a line");
    }
}
