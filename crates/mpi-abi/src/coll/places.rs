//! Where things are on a board: lines for what is said and what is short, slots for longer data.
//!
//! Of its own slots a rank has as many as fill more than a processor's own cache: what both sides used a while ago is in the cache they share. They are
//! large, because every start of a copy from afar costs as much as a few KiB of it; so there are few among several ranks, and short data has others, many
//! and small, so that a rank can be far ahead of the others.
//!
//! A pair that gives and takes in turn has few, and they change hands: what a rank has just taken from it gives into next, because its
//! processor has it. Writing what the other has read last is what takes long.

/// A cache line.
const LINE: usize = 64;
/// Calls that a rank may be ahead of the slowest one, if their data fits the slot's line.
const LINES: u64 = 64;
/// The same for longer data: few among many ranks.
const SLOTS_MIN: usize = 4;
const SLOTS_MAX: usize = LINES as usize;
/// Memory for longer data of all ranks together, taken as it is used, and for what is short.
const DATA_BYTES: usize = 8 << 20;
const SHORT_BYTES: usize = 4 << 20;
/// What opens a slot's line: the number of the call, and the length of what is given.
const HEAD: usize = 16;
/// Data that follows it in the line; longer data has a place of its own.
const IN_LINE: usize = LINE - HEAD;
/// Most that a rank gives in one slot.
pub(crate) const SLOT_DATA: usize = 128 << 10;
/// Most that goes into a short one.
const SHORT_DATA: usize = 16 << 10;
/// Not a multiple of a page, so that the same slots of different ranks do not compete for the same lines of a cache.
const SLOT: usize = SLOT_DATA + LINE;
const SHORT: usize = SHORT_DATA + LINE;
/// Slots that either of a pair gives into before they change hands: whoever gives into one has taken what was there, though it gives
/// some steps ahead of what it takes.
const PAIR_SLOTS: u64 = 4;

/// Whose slots longer data is given into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Its giver's.
    Own,
    /// Those that a pair has in common. They have numbers of their own, so much less than those of calls: not every call needs one, and they
    /// change hands only if none is left out.
    Pair(u64),
}

/// Where things are on the board of so many ranks. First, whether each sleeps: written seldom, so side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    size: usize,
    /// Which call each has left.
    left: usize,
    /// The lines of everybody's slots: all of one slot, then all of the next.
    lines: usize,
    /// Short data, and slots that each has for it.
    short: usize,
    short_slots: usize,
    /// The same of longer data.
    data: usize,
    slots: usize,
    /// What a pair has in common.
    pair: usize,
    /// All of it.
    pub bytes: usize,
}

impl Places {
    pub fn of(size: usize) -> Places {
        let left = (size * 8).next_multiple_of(LINE);
        let lines = left + size * LINE;
        let slots = |bytes: usize, slot: usize| (bytes / (size * slot)).clamp(SLOTS_MIN, SLOTS_MAX);
        let (short_slots, slots) = (slots(SHORT_BYTES, SHORT), slots(DATA_BYTES, SLOT));
        let short = lines + LINES as usize * size * LINE;
        let data = short + short_slots * size * SHORT;
        let pair = data + slots * size * SLOT;
        let in_common = if size == 2 { 2 * PAIR_SLOTS as usize * SLOT } else { 0 };
        Places { size, left, lines, short, short_slots, data, slots, pair, bytes: pair + in_common }
    }

    /// Which call a rank has left.
    pub fn left(&self, rank: usize) -> usize {
        self.left + rank * LINE
    }

    /// The line of a rank's slot for a call.
    pub fn line(&self, rank: usize, number: u64) -> usize {
        self.lines + ((number % LINES) as usize * self.size + rank) * LINE
    }

    /// Where a rank puts so many bytes in a call.
    pub fn data(&self, whose: Whose, rank: usize, number: u64, len: usize) -> usize {
        match whose {
            _ if len <= IN_LINE => self.line(rank, number) + HEAD,
            Whose::Own if len <= SHORT_DATA => {
                self.short + (rank * self.short_slots + number as usize % self.short_slots) * SHORT
            }
            Whose::Own => self.data + (rank * self.slots + number as usize % self.slots) * SLOT,
            Whose::Pair(less) => {
                let number = number.wrapping_sub(less);
                let (slot, round) = (number % PAIR_SLOTS, number / PAIR_SLOTS);
                let half = round.wrapping_add(rank as u64) % 2;
                self.pair + (half * PAIR_SLOTS + slot) as usize * SLOT
            }
        }
    }

    /// Calls after which a rank puts so many bytes where it put some before: by then the others have to have left the call.
    pub fn ahead(&self, whose: Whose, len: usize) -> u64 {
        match whose {
            _ if len <= IN_LINE => LINES,
            Whose::Own if len <= SHORT_DATA => self.short_slots as u64,
            Whose::Own => self.slots as u64,
            // Every second time they are the other's.
            Whose::Pair(_) => 2 * PAIR_SLOTS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_over_anything_else() {
        for size in 2..=64 {
            let places = Places::of(size);
            let mut all: Vec<(usize, usize)> = vec![(0, size * 8)];
            all.extend((0..size).map(|rank| (places.left(rank), LINE)));
            for rank in 0..size {
                all.extend((0..LINES).map(|number| (places.line(rank, number), LINE)));
                for len in [SHORT_DATA, SLOT_DATA] {
                    let own = 0..places.ahead(Whose::Own, len);
                    all.extend(own.map(|number| (places.data(Whose::Own, rank, number, len), len)));
                }
            }
            if size == 2 {
                let both = (0..PAIR_SLOTS).flat_map(|number| [0, 1].map(|rank| (rank, number)));
                all.extend(
                    both.map(|(rank, number)| {
                        (places.data(Whose::Pair(0), rank, number, SLOT_DATA), SLOT_DATA)
                    }),
                );
            }
            all.sort_unstable();
            assert!(all.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "{size} ranks");
            assert!(all.last().is_some_and(|&(at, len)| at + len <= places.bytes));
        }
    }

    #[test]
    fn a_pairs_slots_change_hands() {
        let places = Places::of(2);
        let of = |rank, number| places.data(Whose::Pair(0), rank, number, SLOT_DATA);
        for number in 0..100 {
            assert_eq!(of(0, number + PAIR_SLOTS), of(1, number), "given into by who has taken it");
            assert_eq!(of(0, number), of(0, number + places.ahead(Whose::Pair(0), SLOT_DATA)));
            let later = number + 3;
            assert_eq!(
                places.data(Whose::Pair(3), 0, later, SLOT_DATA),
                of(0, number),
                "three calls had none"
            );
            assert_eq!(places.data(Whose::Pair(3), 0, later, 8), places.data(Whose::Own, 0, later, 8));
        }
    }
}
