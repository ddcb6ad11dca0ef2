//! Automatic update: what is written to bound memory appears in the imported buffer.
//!
//! With a neighbour the bound memory *is* the imported buffer, mapped: a write is a write, and nothing else happens. Elsewhere
//! it is a buffer here. What was written through the binding is known to the byte, and sent whatever it is; of what was written
//! behind its back, through [`Vmmc::binding_memory`](super::Vmmc::binding_memory), `behind.rs` finds what changed. Either is sent within the
//! binding's bound, as long as the node is polled, and nothing but what was written.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use barewire_core::Endpoint;
use barewire_core::SendError;
use barewire_core::region::{Key, Memory, Op, RegionError, Rights};

use super::behind::Behind;
use super::engine::{Counters, Engine, ImportEntry};
use super::names::TransferError;
use crate::slab::Slot;

/// Bytes that are sent at most at a time.
const PIECE: usize = 4096;

#[derive(Debug)]
pub(super) struct BindEntry {
    pub import: Slot,
    key: Key,
    /// Where the binding begins in the imported buffer.
    offset: u64,
    len: u64,
    every: Duration,
    way: Way,
    /// Updates on their way.
    pub ops: Vec<Op>,
    /// Why it ended.
    pub failed: Option<TransferError>,
}

#[derive(Debug)]
enum Way {
    /// The imported buffer itself.
    Near(Memory),
    /// A buffer here.
    Far(Far),
}

#[derive(Debug)]
struct Far {
    memory: Memory,
    /// What was written and not sent.
    written: Stretches,
    /// What finds writes behind our back, if there may be any.
    behind: Option<Behind>,
    /// When the next flush is due, if one is.
    due: Option<Instant>,
}

impl BindEntry {
    pub fn new(
        import: Slot,
        key: Key,
        (offset, len): (u64, u64),
        every: Duration,
        near: Option<Memory>,
    ) -> BindEntry {
        let far = || Far {
            memory: Memory::private(len as usize),
            written: Stretches::default(),
            behind: None,
            due: None,
        };
        let way = near.map_or_else(|| Way::Far(far()), Way::Near);
        BindEntry { import, key, offset, len, every, way, ops: Vec::new(), failed: None }
    }

    /// Writes to the bound memory.
    #[inline]
    pub fn write(&mut self, core: &mut Endpoint, at: u64, bytes: &[u8]) -> Result<(), TransferError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let end = at.checked_add(bytes.len() as u64).filter(|&end| end <= self.len);
        let end = end.ok_or(TransferError::OutOfRange)?;
        let written = match &mut self.way {
            Way::Near(memory) => {
                // Whether it is still ours to write.
                core.reach(self.key, Rights::WRITE)?;
                memory.write((self.offset + at) as usize, bytes)
            }
            Way::Far(far) => {
                far.written.add(at, end);
                far.due = far.due.or_else(|| Instant::now().checked_add(self.every));
                far.memory.write(at as usize, bytes)
            }
        };
        if written { Ok(()) } else { Err(TransferError::OutOfRange) }
    }

    /// The memory to write to by other means, and where in it the binding begins. From now on it is looked through for changes, where
    /// the kernel says that it was written if that is to be `tracked`.
    pub fn memory(&mut self, tracked: bool) -> (Memory, u64) {
        match &mut self.way {
            Way::Near(memory) => (memory.clone(), self.offset),
            Way::Far(far) => {
                far.behind.get_or_insert_with(|| Behind::new(&far.memory, tracked));
                far.due = far.due.or_else(|| Instant::now().checked_add(self.every));
                (far.memory.clone(), 0)
            }
        }
    }

    /// When it next has to be flushed.
    pub fn due(&self) -> Option<Instant> {
        match &self.way {
            Way::Far(far) if self.failed.is_none() => far.due,
            _ => None,
        }
    }

    /// Whether everything written is at the owner.
    pub fn is_clean(&self) -> bool {
        match &self.way {
            Way::Near(_) => true,
            Way::Far(far) => self.ops.is_empty() && far.written.0.is_empty(),
        }
    }

    /// Takes the outcomes of updates on their way; true if there are any.
    fn reap(&mut self, core: &mut Endpoint) -> bool {
        let before = self.ops.len();
        let failed = &mut self.failed;
        self.ops.retain(|&op| match core.take(op) {
            None => true,
            Some(Ok(_)) => false,
            Some(Err(error)) => {
                failed.get_or_insert(error.into());
                false
            }
        });
        self.ops.len() != before
    }

    /// Sends what was written, as far as there is room. What found none is tried again at the next poll.
    pub fn flush(&mut self, core: &mut Endpoint, counters: &mut Counters) {
        let Way::Far(far) = &mut self.way else { return };
        if let Some(behind) = &mut far.behind {
            counters.compared += behind.find(&far.memory, |from, to| far.written.add(from, to));
        }
        let mut piece = [0; PIECE];
        while let Some((from, to)) = far.written.first(PIECE as u64) {
            let bytes = &mut piece[..(to - from) as usize];
            read(&far.memory, from as usize, bytes);
            match core.put(self.key, self.offset + from, bytes) {
                Ok(op) => self.ops.push(op),
                Err(RegionError::Send(SendError::Full)) => break,
                Err(error) => {
                    self.failed.get_or_insert(error.into());
                    return;
                }
            }
            far.written.remove_first(to);
            if let Some(behind) = &mut far.behind {
                behind.sent(from as usize, bytes);
            }
            counters.updates += 1;
            counters.update_bytes += to - from;
        }
        let now = Instant::now();
        far.due = match (far.written.0.is_empty(), &far.behind) {
            (false, _) => Some(now),
            (true, Some(_)) => now.checked_add(self.every),
            (true, None) => None,
        };
    }
}

/// Reads what lies in a binding's memory.
pub(super) fn read(memory: &Memory, at: usize, into: &mut [u8]) {
    assert!(memory.read(at, into), "only what lies in it was written");
}

/// Parts of a buffer that do not touch each other: where each begins, and where it ends.
#[derive(Debug, Default)]
struct Stretches(BTreeMap<u64, u64>);

impl Stretches {
    /// Adds a part; all that it touches becomes one with it.
    fn add(&mut self, mut from: u64, mut to: u64) {
        if from == to {
            return;
        }
        let touching = |all: &BTreeMap<u64, u64>, from, to| {
            all.range(..=to).next_back().map(|(&start, &end)| (start, end)).filter(|&(_, end)| end >= from)
        };
        while let Some((start, end)) = touching(&self.0, from, to) {
            self.0.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        self.0.insert(from, to);
    }

    /// The first part, or its first `most` bytes.
    fn first(&self, most: u64) -> Option<(u64, u64)> {
        self.0.first_key_value().map(|(&from, &to)| (from, to.min(from + most)))
    }

    /// Forgets the first part up to `end`.
    fn remove_first(&mut self, end: u64) {
        if let Some((_, to)) = self.0.pop_first().filter(|&(_, to)| to > end) {
            self.0.insert(end, to);
        }
    }
}

impl Engine {
    /// Flushes the bindings that are due; says when the next one is.
    pub fn flush_due(&mut self, core: &mut Endpoint) -> Option<Instant> {
        let Engine { bindings, imports, counters, news, .. } = self;
        let mut next: Option<Instant> = None;
        let now = Instant::now();
        for (_, binding) in bindings.iter_mut() {
            let valid = imports.get(binding.import).ok_or(TransferError::NoSuch).and_then(ImportEntry::valid);
            if let Err(error) = valid {
                binding.failed.get_or_insert(error);
            }
            *news += u64::from(binding.reap(core));
            if binding.due().is_some_and(|due| due <= now) {
                binding.flush(core, counters);
            }
            next = next.into_iter().chain(binding.due()).min();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stretches_are_exactly_what_was_added(parts in prop::collection::vec((0u64..200, 0u64..40), 0..30)) {
            let mut stretches = Stretches::default();
            let mut bytes = [false; 256];
            for (from, len) in parts {
                stretches.add(from, from + len);
                bytes[from as usize..(from + len) as usize].fill(true);
            }
            let mut last = None;
            for (&from, &to) in &stretches.0 {
                prop_assert!(from < to && last.is_none_or(|last| last < from), "apart and in order");
                last = Some(to);
            }
            while let Some((from, to)) = stretches.first(16) {
                prop_assert!(to - from <= 16);
                for byte in &mut bytes[from as usize..to as usize] {
                    prop_assert!(std::mem::replace(byte, false));
                }
                stretches.remove_first(to);
            }
            prop_assert_eq!(bytes, [false; 256]);
        }
    }
}
