//! Automatic update: what is written to bound memory appears in the imported buffer.
//!
//! With a neighbour the bound memory *is* the imported buffer, mapped: a write is a write, and nothing else happens. Elsewhere
//! it is a buffer here. What was written through the binding is known by page; what was written behind its back, through
//! [`Vmmc::binding_memory`](super::Vmmc::binding_memory), is found by comparing with a copy of what the owner has. Either is sent within the
//! binding's bound, as long as the node is polled.

use std::time::{Duration, Instant};

use barewire_core::Endpoint;
use barewire_core::SendError;
use barewire_core::region::{Key, Memory, Op, RegionError, Rights};

use super::engine::{Counters, Engine, ImportState};
use super::names::{TransferError, Why};
use crate::slab::Slot;

/// Bytes that are marked, compared and sent as one.
const PAGE: usize = 4096;
/// Bytes in a page that differ or not as one.
const LINE: usize = 64;

#[derive(Debug)]
pub(super) struct BindEntry {
    pub import: Slot,
    pub key: Key,
    /// Where the binding begins in the imported buffer.
    pub offset: u64,
    pub len: u64,
    pub every: Duration,
    pub way: Way,
    /// Updates on their way.
    pub ops: Vec<Op>,
    /// Why it ended.
    pub failed: Option<TransferError>,
}

#[derive(Debug)]
pub(super) enum Way {
    /// The imported buffer itself.
    Near(Memory),
    /// A buffer here.
    Far(Far),
}

#[derive(Debug)]
pub(super) struct Far {
    memory: Memory,
    /// What the owner has, or is being sent.
    twin: Vec<u8>,
    /// Pages that were written.
    dirty: Vec<bool>,
    /// Whether there are any.
    any: bool,
    /// Writes go behind our back: everything is compared.
    untracked: bool,
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
        let way = match near {
            Some(near) => Way::Near(near),
            None => Way::Far(Far {
                memory: Memory::private(len as usize),
                twin: vec![0; len as usize],
                dirty: vec![false; (len as usize).div_ceil(PAGE)],
                any: false,
                untracked: false,
                due: None,
            }),
        };
        BindEntry { import, key, offset, len, every, way, ops: Vec::new(), failed: None }
    }

    /// Writes to the bound memory.
    #[inline]
    pub fn write(&mut self, core: &mut Endpoint, at: u64, bytes: &[u8]) -> Result<(), TransferError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if at.checked_add(bytes.len() as u64).is_none_or(|end| end > self.len) {
            return Err(TransferError::OutOfRange);
        }
        match &mut self.way {
            Way::Near(memory) => {
                if let Err(error) = core.reach(self.key, Rights::WRITE) {
                    let error = match error {
                        RegionError::Send(_) => TransferError::Invalid(Why::PeerLost),
                        _ => TransferError::Invalid(Why::Unexported),
                    };
                    self.failed = Some(error);
                    return Err(error);
                }
                let written = memory.write((self.offset + at) as usize, bytes);
                if written { Ok(()) } else { Err(TransferError::OutOfRange) }
            }
            Way::Far(far) => {
                if !far.memory.write(at as usize, bytes) {
                    return Err(TransferError::OutOfRange);
                }
                if !bytes.is_empty() {
                    let (first, last) = (at as usize / PAGE, (at as usize + bytes.len() - 1) / PAGE);
                    far.dirty[first..=last].fill(true);
                    far.any = true;
                    if far.due.is_none() {
                        far.due = Some(Instant::now() + self.every);
                    }
                }
                Ok(())
            }
        }
    }

    /// The memory to write to by other means, and where in it the binding begins. From now on everything is compared.
    pub fn memory(&mut self) -> (Memory, u64) {
        match &mut self.way {
            Way::Near(memory) => (memory.clone(), self.offset),
            Way::Far(far) => {
                far.untracked = true;
                if far.due.is_none() {
                    far.due = Some(Instant::now() + self.every);
                }
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
            Way::Far(far) => self.ops.is_empty() && !far.any,
        }
    }

    /// Takes the outcomes of updates on their way.
    pub fn reap(&mut self, core: &mut Endpoint) {
        let failed = &mut self.failed;
        self.ops.retain(|&op| match core.take(op) {
            None => true,
            Some(Ok(_)) => false,
            Some(Err(RegionError::BadKey)) => {
                failed.get_or_insert(TransferError::Invalid(Why::Unexported));
                false
            }
            Some(Err(error)) => {
                failed.get_or_insert(TransferError::Refused(error));
                false
            }
        });
    }

    /// Sends what has changed, as far as there is room. What found none is tried again at the next poll.
    pub fn flush(&mut self, core: &mut Endpoint, counters: &mut Counters) {
        self.reap(core);
        let Way::Far(far) = &mut self.way else { return };
        let all = far.untracked;
        let mut page = vec![0; PAGE];
        let mut left = false;
        for number in (0..far.dirty.len()).filter(|&number| all || far.dirty[number]).collect::<Vec<_>>() {
            let at = number * PAGE;
            let page = &mut page[..PAGE.min(far.twin.len() - at)];
            if !far.memory.read(at, page) {
                continue;
            }
            far.dirty[number] = false;
            for (from, to) in changes(&far.twin[at..at + page.len()], page) {
                let offset = self.offset + (at + from) as u64;
                match core.put(self.key, offset, &page[from..to]) {
                    Ok(op) => {
                        self.ops.push(op);
                        far.twin[at + from..at + to].copy_from_slice(&page[from..to]);
                        counters.updates += 1;
                        counters.update_bytes += (to - from) as u64;
                    }
                    Err(RegionError::Send(SendError::Full)) => {
                        far.dirty[number] = true;
                        left = true;
                        break;
                    }
                    Err(error) => {
                        self.failed.get_or_insert(TransferError::Refused(error));
                        return;
                    }
                }
            }
        }
        far.any = left;
        let now = Instant::now();
        far.due = if left { Some(now) } else { far.untracked.then(|| now + self.every) };
    }
}

/// The stretches of lines in which two pages differ.
fn changes(old: &[u8], new: &[u8]) -> Vec<(usize, usize)> {
    let mut stretches: Vec<(usize, usize)> = Vec::new();
    if old == new {
        return stretches;
    }
    for (number, (a, b)) in old.chunks(LINE).zip(new.chunks(LINE)).enumerate() {
        if a != b {
            let (from, to) = (number * LINE, number * LINE + b.len());
            match stretches.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => stretches.push((from, to)),
            }
        }
    }
    stretches
}

impl Engine {
    /// Flushes the bindings that are due; says when the next one is.
    pub fn flush_due(&mut self, core: &mut Endpoint) -> Option<Instant> {
        let Engine { bindings, imports, counters, .. } = self;
        let mut next: Option<Instant> = None;
        let now = Instant::now();
        for (_, binding) in bindings.iter_mut() {
            if let Some(ImportState::Invalid(why)) = imports.get(binding.import).map(|import| import.state) {
                binding.failed.get_or_insert(TransferError::Invalid(why));
            }
            if binding.due().is_some_and(|due| due <= now) {
                binding.flush(core, counters);
            } else {
                binding.reap(core);
            }
            next = next.into_iter().chain(binding.due()).min();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_differ_are_sent() {
        let old = vec![0; 300];
        let mut new = old.clone();
        assert!(changes(&old, &new).is_empty());
        (new[0], new[130], new[299]) = (1, 1, 1);
        assert_eq!(changes(&old, &new), [(0, 64), (128, 192), (256, 300)]);
        new[70] = 1;
        assert_eq!(changes(&old, &new), [(0, 192), (256, 300)]);
    }
}
