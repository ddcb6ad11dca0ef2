//! How to write what another process reads next: as usual, in whole lines, or past the caches.
//!
//! Where writer and reader share a cache, memory that comes round again can well be written as usual. Where they do not, every line to be written
//! must first be taken away from the reader's processor, which takes ten times as long as writing it to memory for the reader to fetch from
//! there. Some processors overwrite whole lines without fetching them when they are told to copy a block with one instruction, which is the best way
//! then, near or far; on others that is the worst. Which processors share what, no system says reliably, least of all a virtual one that is
//! moved about. So a writer times what it writes, tries the other ways now and then, and does what costs it less.
//!
//! ```
//! use barewire_sys::{memory::Memory, stores::Stores};
//! let (shared, stores) = (Memory::shared(64 << 10).unwrap(), Stores::default());
//! let block: Vec<u8> = (0..16 << 10).map(|at| (at % 253) as u8).collect();
//! for turn in 0..1000 {
//!     let at = turn % 4 * block.len(); // memory that comes round again
//!     let _cost = stores.write(shared.wire_mut(at, block.len()).unwrap(), |wire| { wire.write(&block); });
//! }
//! assert_eq!(shared.wire_ref(3 * block.len(), block.len()).unwrap().to_vec(), block);
//! ```

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::cpu::ticks;
use crate::wirebuf::{Way, WireMut};

/// Less is written as usual, and says little about what a line costs.
const BYTES_MIN: usize = 2 << 10;
/// Writes until the way that is not taken is tried, at first and then.
const TRIED_AFTER: u32 = 16;
const TRIED_EVERY: u32 = 512;
/// One write in so many is timed, trials among them: that takes a while itself.
const TIMED_EVERY: u32 = 4;
/// Past the caches only if the best of the others takes so many times as long: the reader's part of it takes longer then.
const WORTH: u64 = 5;

/// All ways, in the order of their costs.
const WAYS: [Way; 3] = [Way::Usual, Way::Whole, Way::Past];

/// What writing costs, each way. It belongs to one writer, or to several who write to the same readers: they may lose each other's
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
    costs: [Cost; 3],
    /// Writes until the next trial, and which way that is.
    until_trial: AtomicU32,
    tried: AtomicU32,
}

impl Default for Stores {
    fn default() -> Stores {
        let unknown = || Cost(AtomicU64::new(u64::MAX));
        Stores {
            costs: [Cost(AtomicU64::new(0)), unknown(), unknown()],
            until_trial: AtomicU32::new(TRIED_AFTER),
            tried: AtomicU32::new(0),
        }
    }
}

impl Stores {
    /// Has `fill` write to `wire`, in the way that costs less. Says what a MiB of it cost in ticks, if it was timed and no trial.
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
    pub fn write(&self, mut wire: WireMut<'_>, fill: impl FnOnce(&mut WireMut<'_>)) -> Option<u64> {
        let len = wire.remaining();
        if len < BYTES_MIN {
            fill(&mut wire);
            return None;
        }
        let (way, timed) = self.choose();
        wire.go(way);
        if !timed {
            fill(&mut wire);
            return None;
        }
        let usual = way == self.best();
        let start = ticks();
        fill(&mut wire);
        if way == Way::Past {
            // SYNC drained: with nobody; what goes past the caches is on its way for long after the processor has turned to something
            // else, and that is part of what it costs.
            fence(Ordering::SeqCst);
        }
        let cost = (ticks().saturating_sub(start) << 20) / len as u64;
        self.costs[way as usize].note(cost);
        usual.then_some(cost)
    }

    /// Which way the next write goes, and whether it is timed.
    #[inline]
    fn choose(&self) -> (Way, bool) {
        // SYNC costs: numbers to go by, each good by itself.
        let Some(left) = self.until_trial.load(Ordering::Relaxed).checked_sub(1) else {
            return (self.next_trial(), true);
        };
        self.until_trial.store(left, Ordering::Relaxed);
        (self.best(), left % TIMED_EVERY == 0)
    }

    /// What costs least, with a bonus for what costs the reader least.
    #[inline]
    fn best(&self) -> Way {
        let [usual, whole, past] = WAYS.map(|way| self.costs[way as usize].get());
        let (near, cost) = if whole < usual - usual / 8 { (Way::Whole, whole) } else { (Way::Usual, usual) };
        if cost / WORTH > past { Way::Past } else { near }
    }

    /// One of the ways that are not taken, in turn.
    #[cold]
    fn next_trial(&self) -> Way {
        // SYNC costs: see `choose`.
        let tried = self.tried.load(Ordering::Relaxed) as usize;
        let way = (tried..)
            .map(|at| WAYS[at % 3])
            .find(|&way| way != self.best())
            .expect("one of three is another");
        self.tried.store(way as u32 + 1, Ordering::Relaxed);
        let next =
            if self.costs.iter().any(|cost| cost.get() == u64::MAX) { TRIED_AFTER } else { TRIED_EVERY };
        self.until_trial.store(next, Ordering::Relaxed);
        way
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

    fn note(&self, seen: u64) {
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

    /// Writes 16 KiB so many times, which takes so many ticks each way; says how often it went which way.
    fn write(stores: &Stores, times: u32, ticks: [u64; 3]) -> [u32; 3] {
        let mut went = [0; 3];
        for _ in 0..times {
            let (way, timed) = stores.choose();
            if timed {
                stores.costs[way as usize].note(ticks[way as usize] << 6);
            }
            went[way as usize] += 1;
        }
        went
    }

    #[test]
    fn what_costs_less_is_done_and_the_others_are_tried_now_and_then() {
        let stores = Stores::default();
        let shared = write(&stores, 2000, [1200, 5000, 1700]);
        assert_eq!(
            shared,
            [1994, 3, 3],
            "they share a cache, and whole lines take long: only trials go another way"
        );
        assert!(write(&stores, 200, [14_000, 50_000, 1700])[2] > 100, "they share none any more");
        assert!(
            (1990..2000).contains(&write(&stores, 2000, [14_000, 50_000, 1700])[2]),
            "trials go other ways"
        );
        assert!(write(&stores, 1000, [1200, 5000, 1700])[2] < 520, "they share one again");
        assert!(write(&stores, 2000, [4000, 5000, 1700])[2] <= 4, "more, but not by far");
    }

    #[test]
    fn whole_lines_are_written_where_that_takes_less_near_and_far() {
        let stores = Stores::default();
        assert!(write(&stores, 2000, [1200, 1000, 1700])[1] > 1900, "near");
        assert!(write(&stores, 2000, [10_000, 2000, 2500])[1] > 1900, "far");
        assert!(write(&stores, 2000, [1200, 1100, 1700])[0] > 900, "near, and no gain any more");
    }

    #[test]
    fn an_interruption_counts_for_nothing() {
        let stores = Stores::default();
        write(&stores, 100, [1200, 5000, 1700]);
        stores.costs[Way::Usual as usize].note(10_000_000 << 6);
        assert_eq!(write(&stores, 300, [1200, 5000, 1700]), [300, 0, 0]);
    }

    #[test]
    fn all_bytes_arrive_whichever_way() {
        let bytes: Vec<u8> = (0..40_000u32).map(|i| (i % 251) as u8).collect();
        for way in WAYS {
            let cost = |other| Cost(AtomicU64::new(if way == other { 0 } else { u64::MAX }));
            let stores =
                Stores { costs: WAYS.map(cost), until_trial: AtomicU32::new(100), tried: AtomicU32::new(0) };
            assert_eq!(stores.best(), way);
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
