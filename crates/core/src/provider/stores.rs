//! How a sender writes long packets: as usual, or past its caches.
//!
//! Where sender and receiver share a cache, memory that comes round again is best written as usual. Where they do not, every line to be written
//! must first be taken away from the receiver's processor, which takes ten times as long as writing it to memory for the receiver to fetch from
//! there. Which processors share what, no system says reliably, least of all a virtual one that is moved about. So the sender times what it
//! writes, tries the other way now and then, and does what costs it less by far.

use std::sync::atomic::{Ordering, fence};

use barewire_sys::cpu::ticks;
use barewire_sys::wirebuf::WireMut;

/// Shorter packets are written as usual, and say little about what a line costs.
const BYTES_MIN: usize = 2 << 10;
/// Packets until the way that is not taken is tried, at first and then.
const TRIED_AFTER: u32 = 16;
const TRIED_EVERY: u32 = 512;
/// One packet in so many is timed, trials among them: that takes a while itself.
const TIMED_EVERY: u32 = 4;
/// Past the caches only if the usual way takes so many times as long: the receiver's part of it takes longer then.
const WORTH: u64 = 5;

/// What writing costs a sender, one way and the other.
#[derive(Debug)]
pub(crate) struct Stores {
    usual: Cost,
    past: Cost,
    /// Packets until the next trial.
    until_trial: u32,
}

impl Stores {
    pub fn new() -> Stores {
        Stores { usual: Cost(0), past: Cost(u64::MAX), until_trial: TRIED_AFTER }
    }

    /// Writes a packet of `wire`'s length with `fill`, in the way that costs less.
    #[inline]
    pub fn write(&mut self, mut wire: WireMut<'_>, fill: impl FnOnce(&mut WireMut<'_>)) {
        let len = wire.remaining();
        if len < BYTES_MIN {
            return fill(&mut wire);
        }
        let past = self.choose();
        if past {
            wire.go_past_caches();
        }
        if self.until_trial % TIMED_EVERY != 0 {
            return fill(&mut wire);
        }
        let start = ticks();
        fill(&mut wire);
        if past {
            // What goes past the caches is on its way for long after the processor has turned to something else.
            fence(Ordering::SeqCst);
        }
        let took = ticks().saturating_sub(start);
        let cost = if past { &mut self.past } else { &mut self.usual };
        cost.note(took, len);
    }

    /// Whether the next packet goes past the caches.
    fn choose(&mut self) -> bool {
        let better = self.usual.0 / WORTH > self.past.0;
        match self.until_trial.checked_sub(1) {
            Some(left) => {
                self.until_trial = left;
                better
            }
            None => {
                self.until_trial = TRIED_EVERY;
                !better
            }
        }
    }
}

/// Ticks for a MiB: the least of late, because whatever interrupts a sender is not what writing costs.
#[derive(Clone, Copy, Debug)]
struct Cost(u64);

impl Cost {
    fn note(&mut self, ticks: u64, bytes: usize) {
        let seen = (ticks << 20) / bytes as u64;
        self.0 = match self.0 {
            0 => seen,
            least => seen.min(least.saturating_add(least / 8 + 1)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes so many packets of 16 KiB that take so many ticks each way; says how many went past the caches.
    fn write(stores: &mut Stores, packets: u32, usual: u64, past: u64) -> u32 {
        (0..packets)
            .map(|_| {
                let goes_past = stores.choose();
                let (cost, took) =
                    if goes_past { (&mut stores.past, past) } else { (&mut stores.usual, usual) };
                cost.note(took, 16 << 10);
                u32::from(goes_past)
            })
            .sum()
    }

    #[test]
    fn what_costs_less_by_far_is_done_and_the_other_is_tried_now_and_then() {
        let mut stores = Stores::new();
        assert_eq!(write(&mut stores, 2000, 1200, 1700), 4, "they share a cache: only trials go past it");
        assert!(write(&mut stores, 200, 14_000, 1700) > 100, "they do not any more");
        assert!((1990..2000).contains(&write(&mut stores, 2000, 14_000, 1700)), "trials go as usual");
        assert!(write(&mut stores, 1000, 1200, 1700) < 520, "they do again");
        assert_eq!(write(&mut stores, 2000, 4000, 1700), 4, "more, but not by far");
    }

    #[test]
    fn an_interruption_counts_for_nothing() {
        let mut stores = Stores::new();
        write(&mut stores, 100, 1200, 1700);
        write(&mut stores, 1, 10_000_000, 1700);
        assert_eq!(write(&mut stores, 300, 1200, 1700), 0);
    }

    #[test]
    fn all_bytes_arrive_either_way() {
        let mut stores = Stores { usual: Cost(u64::MAX), past: Cost(0), until_trial: 1 };
        let bytes: Vec<u8> = (0..40_000u32).map(|i| (i % 251) as u8).collect();
        for len in [0, 7, BYTES_MIN - 1, BYTES_MIN, BYTES_MIN + 65, 40_000] {
            let mut got = vec![0; len];
            stores.write(WireMut::new(&mut got), |wire| {
                wire.write(&bytes);
            });
            assert_eq!(got, bytes[..len]);
        }
    }
}
