//! The UTLB: a bounded set of registered buffers, the least recently used one making room.
//!
//! Registering memory for others to write to costs a key and a place in the owner's tables. A program that uses the same buffers
//! again and again pays for each once; one that uses ever new ones never holds more than the bound.

use barewire_core::Endpoint;
use barewire_core::region::{Key, Memory, Rights, Who};

/// What the cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UtlbCounters {
    /// Buffers found registered.
    pub hits: u64,
    /// Buffers that had to be registered.
    pub misses: u64,
    /// Buffers that made room.
    pub evictions: u64,
}

#[derive(Debug)]
pub(super) struct Utlb {
    entries: Vec<Entry>,
    capacity: usize,
    clock: u64,
    pub counters: UtlbCounters,
}

#[derive(Debug)]
struct Entry {
    memory: Memory,
    key: Key,
    /// Uses under way; such an entry stays.
    pins: u32,
    used: u64,
}

impl Utlb {
    pub fn new(capacity: usize) -> Utlb {
        Utlb { entries: Vec::new(), capacity, clock: 0, counters: UtlbCounters::default() }
    }

    /// A key to `memory`, pinned until [`Utlb::unpin`]; `None` if all places are pinned, or the core makes no key.
    pub fn pin(&mut self, core: &mut Endpoint, memory: &Memory) -> Option<Key> {
        self.clock += 1;
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.memory.same_block(memory)) {
            self.counters.hits += 1;
            entry.pins += 1;
            entry.used = self.clock;
            return Some(entry.key);
        }
        self.counters.misses += 1;
        self.shrink(core, self.capacity.saturating_sub(1));
        if self.entries.len() >= self.capacity {
            return None;
        }
        let key = core.export(memory, Rights::WRITE, Who::Anyone).ok()?;
        self.entries.push(Entry { memory: memory.clone(), key, pins: 1, used: self.clock });
        Some(key)
    }

    pub fn unpin(&mut self, key: Key) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) {
            entry.pins = entry.pins.saturating_sub(1);
        }
    }

    /// Sets how many buffers stay registered.
    pub fn resize(&mut self, core: &mut Endpoint, capacity: usize) {
        self.capacity = capacity;
        self.shrink(core, capacity);
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Evicts unpinned entries until there are at most so many, the least recently used first.
    fn shrink(&mut self, core: &mut Endpoint, to: usize) {
        while self.entries.len() > to {
            let idle = self.entries.iter().enumerate().filter(|(_, entry)| entry.pins == 0);
            let Some((at, _)) = idle.min_by_key(|(_, entry)| entry.used) else { return };
            core.revoke(self.entries.swap_remove(at).key);
            self.counters.evictions += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use barewire_core::{Config, job::Job};

    use super::*;

    #[test]
    fn the_least_recently_used_makes_room_and_the_pinned_stay() {
        let mut core = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
        let memories: Vec<Memory> = (0..4).map(|_| Memory::private(10)).collect();
        let mut utlb = Utlb::new(2);
        let keys: Vec<Key> = (0..2).map(|at| utlb.pin(&mut core, &memories[at]).unwrap()).collect();
        assert!(utlb.pin(&mut core, &memories[2]).is_none(), "both are in use");
        keys.iter().for_each(|key| utlb.unpin(*key));
        assert_eq!(utlb.pin(&mut core, &memories[0]), Some(keys[0]), "known");
        let third = utlb.pin(&mut core, &memories[2]).unwrap();
        assert!(!core.revoke(keys[1]), "the one that was not used is gone");
        assert_eq!(utlb.len(), 2);
        utlb.unpin(third);
        utlb.resize(&mut core, 0);
        assert_eq!(utlb.len(), 1, "the first is still pinned");
        assert_eq!(utlb.counters, UtlbCounters { hits: 1, misses: 4, evictions: 2 });
    }
}
