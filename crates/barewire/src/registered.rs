//! Memory that stays registered while there is room: the least recently used block makes way for a new one, unless it is in use.
//!
//! To register memory costs a name and a place in somebody's tables. A program that uses the same blocks again and again pays for
//! each once; one that uses ever new ones never holds more than the bound.

use barewire_sys::memory::Memory;

/// What a cache of registered memory did.
///
/// ```
/// use barewire::core::{Config, Endpoint, job::Job};
/// use barewire::vmmc::{CacheCounters, Vmmc};
/// let node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// let (CacheCounters { hits, misses, .. }, held) = node.utlb();
/// assert_eq!((hits, misses, held), (0, 0, 0)); // nothing was re-aimed yet
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheCounters {
    /// Blocks found registered.
    pub hits: u64,
    /// Blocks that had to be registered.
    pub misses: u64,
    /// Blocks that made room.
    pub evictions: u64,
}

/// Blocks of memory, each registered for somebody (`W`) under a handle (`H`).
#[derive(Debug)]
pub(crate) struct Registered<W, H> {
    entries: Vec<Entry<W, H>>,
    capacity: usize,
    clock: u64,
    pub counters: CacheCounters,
}

#[derive(Debug)]
struct Entry<W, H> {
    memory: Memory,
    whom: W,
    handle: H,
    /// Uses under way; such an entry stays.
    pins: u32,
    used: u64,
}

impl<W: PartialEq, H: Copy + PartialEq> Registered<W, H> {
    pub fn new(capacity: usize) -> Registered<W, H> {
        Registered { entries: Vec::new(), capacity, clock: 0, counters: CacheCounters::default() }
    }

    /// A block's handle if it is registered, in use until [`Registered::unpin`].
    pub fn pin(&mut self, memory: &Memory, whom: &W) -> Option<H> {
        self.clock += 1;
        let known = |entry: &&mut Entry<W, H>| entry.memory.same_block(memory) && entry.whom == *whom;
        let Some(entry) = self.entries.iter_mut().find(known) else {
            self.counters.misses += 1;
            return None;
        };
        self.counters.hits += 1;
        entry.pins += 1;
        entry.used = self.clock;
        Some(entry.handle)
    }

    /// Keeps a block that was just registered and is in use.
    pub fn insert(&mut self, memory: &Memory, whom: W, handle: H) {
        self.entries.push(Entry { memory: memory.clone(), whom, handle, pins: 1, used: self.clock });
    }

    /// One use of a block is over.
    pub fn unpin(&mut self, handle: H) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.handle == handle) {
            entry.pins = entry.pins.saturating_sub(1);
        }
    }

    /// The handle of a block that has to go before `more` can come, if there are too many and one of them is not in use.
    pub fn evict(&mut self, more: usize) -> Option<H> {
        if self.entries.len() + more <= self.capacity {
            return None;
        }
        let idle = self.entries.iter().enumerate().filter(|(_, entry)| entry.pins == 0);
        let (at, _) = idle.min_by_key(|(_, entry)| entry.used)?;
        self.counters.evictions += 1;
        Some(self.entries.swap_remove(at).handle)
    }

    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    pub fn resize(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_makes_room_and_the_pinned_stay() {
        let memories: Vec<Memory> = (0..3).map(|_| Memory::private(10)).collect();
        let mut cache = Registered::new(2);
        for (number, memory) in memories[..2].iter().enumerate() {
            assert_eq!((cache.pin(memory, &()), cache.evict(1)), (None, None));
            cache.insert(memory, (), number);
        }
        assert_eq!((cache.pin(&memories[2], &()), cache.evict(1)), (None, None), "both are in use");
        assert!(cache.is_full());
        cache.unpin(0);
        cache.unpin(1);
        assert_eq!(cache.pin(&memories[0], &()), Some(0), "known");
        assert_eq!(cache.evict(1), Some(1), "the one that was not used goes");
        cache.insert(&memories[2], (), 2);
        cache.unpin(2);
        cache.resize(0);
        assert_eq!((cache.evict(0), cache.evict(0)), (Some(2), None), "the first is still in use");
        assert_eq!(cache.len(), 1);
        assert_eq!(cache.counters, CacheCounters { hits: 1, misses: 3, evictions: 2 });
    }

    #[test]
    fn what_is_registered_for_one_is_not_for_another() {
        let memory = Memory::private(10);
        let mut cache = Registered::new(2);
        assert_eq!(cache.pin(&memory, &"one"), None);
        cache.insert(&memory, "one", 1);
        assert_eq!(cache.pin(&memory, &"another"), None);
        assert_eq!(cache.pin(&memory, &"one"), Some(1));
    }
}
