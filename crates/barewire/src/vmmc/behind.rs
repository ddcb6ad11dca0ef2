//! Writes behind a binding's back: what differs from a copy of what the owner has been sent, in the pages that the kernel saw written.
//!
//! Where the kernel does not track writes, or somebody does not want it to, every page is looked at instead. Either way only
//! bytes that changed count: the kernel knows pages and not bytes, and a byte of a written page that is as it was may as well be one that the
//! owner, or somebody else who has imported the buffer, has written since. To send it would undo that. So a write of what was
//! there already is not found; who wants it sent writes through the binding.

use std::ops::Range;

use barewire_core::region::Memory;
use barewire_sys::watch::WriteWatch;

use super::bind::read;

/// Bytes that are compared at a time.
const PAGE: usize = 4096;
/// Less memory than this is compared as a whole: that takes no longer than to ask the kernel.
const WATCHED_MIN: usize = 16 * PAGE;

#[derive(Debug)]
pub(super) struct Behind {
    /// What the owner has been sent.
    twin: Vec<u8>,
    watch: Option<WriteWatch>,
}

impl Behind {
    /// Finds what is written to `memory` from now on, with the kernel's help if that is wanted and to be had.
    pub fn new(memory: &Memory, tracked: bool) -> Behind {
        let wanted = tracked && memory.len() >= WATCHED_MIN;
        let watch = wanted.then(|| WriteWatch::new(memory)).flatten();
        let mut twin = vec![0; memory.len()];
        read(memory, 0, &mut twin);
        Behind { twin, watch }
    }

    /// Calls `each` with where changes begin and end; says how many pages it looked at.
    pub fn find(&mut self, memory: &Memory, mut each: impl FnMut(u64, u64)) -> u64 {
        let Behind { twin, watch } = self;
        let mut looked = 0;
        let mut look = |part| looked += compare(memory, twin, part, &mut each);
        match watch {
            Some(watch) => watch.written(look),
            None => look(0..twin.len()),
        }
        looked
    }

    /// The owner has been sent `bytes`.
    pub fn sent(&mut self, at: usize, bytes: &[u8]) {
        self.twin[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Finds the bytes of a part that differ; says how many pages that is.
fn compare(memory: &Memory, twin: &[u8], part: Range<usize>, each: &mut impl FnMut(u64, u64)) -> u64 {
    let mut page = [0; PAGE];
    let (mut at, mut looked) = (part.start, 0);
    for old in twin[part].chunks(PAGE) {
        let new = &mut page[..old.len()];
        read(memory, at, new);
        if old != new {
            let differ = |&i: &usize| old[i] != new[i];
            let mut next = 0;
            while let Some(from) = (next..old.len()).find(differ) {
                next = (from..old.len()).find(|i| !differ(i)).unwrap_or(old.len());
                each((at + from) as u64, (at + next) as u64);
            }
        }
        at += old.len();
        looked += 1;
    }
    looked
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEN: usize = 40 * PAGE + 100;

    proptest! {
        #[test]
        fn exactly_what_changed_is_found_with_the_kernels_help_and_without(
            rounds in prop::collection::vec(prop::collection::vec((0..LEN, 0usize..5000, 0u8..3), 0..4), 1..8),
        ) {
            for tracked in [true, false] {
                let memory = Memory::private(LEN);
                let mut behind = Behind::new(&memory, tracked);
                let mut sent = vec![0; LEN];
                for writes in &rounds {
                    let mut now = sent.clone();
                    for &(at, len, value) in writes {
                        let to = (at + len).min(LEN);
                        prop_assert!(memory.write(at, &vec![value; to - at]));
                        now[at..to].fill(value);
                    }
                    let mut found = Vec::new();
                    behind.find(&memory, |from, to| found.push(from as usize..to as usize));
                    for part in found {
                        prop_assert!(part.clone().all(|i| sent[i] != now[i]), "{part:?} is as it was");
                        behind.sent(part.start, &now[part.clone()]);
                        sent[part.clone()].copy_from_slice(&now[part]);
                    }
                    prop_assert!(sent == now, "nothing is missing");
                }
            }
        }
    }

    #[test]
    fn little_memory_is_not_watched_and_found_all_the_same() {
        let memory = Memory::private(WATCHED_MIN - 1);
        let mut behind = Behind::new(&memory, true);
        assert!(behind.watch.is_none());
        assert!(memory.write(PAGE - 1, b"xy"));
        let mut found = Vec::new();
        let looked = behind.find(&memory, |from, to| found.push(from..to));
        assert_eq!((looked, found.iter().map(|part| part.end - part.start).sum()), (16, 2));
    }
}
