//! How to write what another process reads next: as usual, or past the caches.
//!
//! Where writer and reader share a cache, memory that comes round again is best written as usual. Where they do not, every line to be written
//! must first be taken away from the reader's processor, which takes ten times as long as writing it to memory for the reader to fetch from
//! there. Which processors share what, no system says reliably, least of all a virtual one that is moved about. So a writer times what it
//! writes, tries the other way now and then, and does what costs it less by far.
//!
//! ```
//! use barewire_sys::{memory::Memory, stores::Stores};
//! let (shared, stores) = (Memory::shared(64 << 10).unwrap(), Stores::default());
//! let block: Vec<u8> = (0..16 << 10).map(|at| (at % 253) as u8).collect();
//! for turn in 0..1000 {
//!     let at = turn % 4 * block.len(); // memory that comes round again
//!     stores.write(shared.wire_mut(at, block.len()).unwrap(), |wire| { wire.write(&block); });
//! }
//! assert_eq!(shared.wire_ref(3 * block.len(), block.len()).unwrap().to_vec(), block);
//! ```

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::cpu::ticks;
use crate::wirebuf::WireMut;

/// Less is written as usual, and says little about what a line costs.
const BYTES_MIN: usize = 2 << 10;
/// Writes until the way that is not taken is tried, at first and then.
const TRIED_AFTER: u32 = 16;
const TRIED_EVERY: u32 = 512;
/// One write in so many is timed, trials among them: that takes a while itself.
const TIMED_EVERY: u32 = 4;
/// Past the caches only if the usual way takes so many times as long: the reader's part of it takes longer then.
const WORTH: u64 = 5;

/// What writing costs, one way and the other. It belongs to one writer, or to several who write to the same readers: they may lose each other's
/// measurements, which does no harm.
///
/// ```
/// use barewire_sys::{stores::Stores, wirebuf::WireMut};
/// let (stores, from, mut to) = (Stores::default(), vec![7; 10_000], vec![0; 10_000]);
/// for _ in 0..100 {
///     stores.write(WireMut::new(&mut to), |wire| { wire.write(&from); });
/// }
/// assert_eq!(to, from);
/// ```
#[derive(Debug)]
pub struct Stores {
    usual: Cost,
    past: Cost,
    /// Writes until the next trial.
    until_trial: AtomicU32,
}

impl Default for Stores {
    fn default() -> Stores {
        let (usual, past) = (Cost(AtomicU64::new(0)), Cost(AtomicU64::new(u64::MAX)));
        Stores { usual, past, until_trial: AtomicU32::new(TRIED_AFTER) }
    }
}

impl Stores {
    /// Has `fill` write to `wire`, in the way that costs less.
    ///
    /// ```
    /// use barewire_sys::{stores::Stores, wirebuf::WireMut};
    /// let (stores, mut to) = (Stores::default(), [0; 4096]);
    /// stores.write(WireMut::new(&mut to), |wire| {
    ///     wire.write(&[1; 3000]);
    ///     wire.write(&[2; 3000]);
    /// });
    /// assert_eq!((to[2999], to[3000], to[4095]), (1, 2, 2), "all that fits, whichever way it goes");
    /// ```
    #[inline]
    pub fn write(&self, mut wire: WireMut<'_>, fill: impl FnOnce(&mut WireMut<'_>)) {
        let len = wire.remaining();
        if len < BYTES_MIN {
            return fill(&mut wire);
        }
        let (past, timed) = self.choose();
        if past {
            wire.go_past_caches();
        }
        if !timed {
            return fill(&mut wire);
        }
        let start = ticks();
        fill(&mut wire);
        if past {
            // SYNC drained: with nobody; what goes past the caches is on its way for long after the processor has turned to something
            // else, and that is part of what it costs.
            fence(Ordering::SeqCst);
        }
        let took = ticks().saturating_sub(start);
        let cost = if past { &self.past } else { &self.usual };
        cost.note(took, len);
    }

    /// Whether the next write goes past the caches, and whether it is timed.
    #[inline]
    fn choose(&self) -> (bool, bool) {
        let better = self.usual.get() / WORTH > self.past.get();
        // SYNC costs: numbers to go by, each good by itself.
        let (left, past) = match self.until_trial.load(Ordering::Relaxed).checked_sub(1) {
            Some(left) => (left, better),
            None => (TRIED_EVERY, !better),
        };
        self.until_trial.store(left, Ordering::Relaxed);
        (past, left % TIMED_EVERY == 0)
    }
}

/// Ticks for a MiB: the least of late, because whatever interrupts a writer is not what writing costs.
#[derive(Debug)]
struct Cost(AtomicU64);

impl Cost {
    fn get(&self) -> u64 {
        // SYNC costs: see `Stores::choose`.
        self.0.load(Ordering::Relaxed)
    }

    fn note(&self, ticks: u64, bytes: usize) {
        let seen = (ticks << 20) / bytes as u64;
        let cost = match self.get() {
            0 => seen,
            least => seen.min(least.saturating_add(least / 8 + 1)),
        };
        // SYNC costs: see `Stores::choose`.
        self.0.store(cost, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes 16 KiB so many times, which takes so many ticks each way; says how often it went past the caches.
    fn write(stores: &Stores, times: u32, usual: u64, past: u64) -> u32 {
        (0..times)
            .map(|_| {
                let (goes_past, timed) = stores.choose();
                let (cost, took) = if goes_past { (&stores.past, past) } else { (&stores.usual, usual) };
                if timed {
                    cost.note(took, 16 << 10);
                }
                u32::from(goes_past)
            })
            .sum()
    }

    #[test]
    fn what_costs_less_by_far_is_done_and_the_other_is_tried_now_and_then() {
        let stores = Stores::default();
        assert_eq!(write(&stores, 2000, 1200, 1700), 4, "they share a cache: only trials go past it");
        assert!(write(&stores, 200, 14_000, 1700) > 100, "they do not any more");
        assert!((1990..2000).contains(&write(&stores, 2000, 14_000, 1700)), "trials go as usual");
        assert!(write(&stores, 1000, 1200, 1700) < 520, "they do again");
        assert_eq!(write(&stores, 2000, 4000, 1700), 4, "more, but not by far");
    }

    #[test]
    fn an_interruption_counts_for_nothing() {
        let stores = Stores::default();
        write(&stores, 100, 1200, 1700);
        stores.usual.note(10_000_000, 16 << 10);
        assert_eq!(write(&stores, 300, 1200, 1700), 0);
    }

    #[test]
    fn all_bytes_arrive_either_way() {
        let bytes: Vec<u8> = (0..40_000u32).map(|i| (i % 251) as u8).collect();
        for past in [0, u64::MAX] {
            let (usual, past) = (Cost(AtomicU64::new(u64::MAX - past)), Cost(AtomicU64::new(past)));
            let stores = Stores { usual, past, until_trial: AtomicU32::new(100) };
            for len in [0, 7, BYTES_MIN - 1, BYTES_MIN, BYTES_MIN + 65, 40_000] {
                let mut got = vec![0; len];
                stores.write(WireMut::new(&mut got), |wire| {
                    wire.write(&bytes);
                });
                assert_eq!(got, bytes[..len]);
            }
        }
    }
}
