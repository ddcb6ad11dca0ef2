//! The shuttle: one line that two neighbours write in turn.
//!
//! A ring's line changes hands twice for every packet: the consumer, which polls it, has a copy that the producer's write has to take
//! away, and then it fetches what was written. Where two processes answer each other, packet by packet, a line that goes to and fro needs
//! half of that: who has just read it is the one who writes it next. So a short packet that answers another, or is answered, goes by the
//! shuttle, and everything else through the ring.
//!
//! ```text
//!  ┌─────────────┬────┬──────────────┐ ┌───────────────────────────┐   trips 1, 3, 5 …  the first neighbour's
//!  │ w0 and trip │ w1 │ ≤ 48 B, or … │ │ … all of a longer payload │   trips 2, 4, 6 …  the second one's
//!  └─────────────┴────┴──────────────┘ └───────────────────────────┘
//! ```
//!
//! The arrival flag is the trip's number in the header word, modulo four: what stands there is either what was sent, what was received
//! before that, or new. Whoever has taken a packet off may put the next one on, and nobody else: there is never more than one on
//! its way, which is the credit.
//!
//! Packets in the ring and on the shuttle keep their order by a [mark](crate::ring::Tail::turn_over): the parity, in every ring packet's
//! header, of the packets that went by the shuttle before it. One whose mark is not the consumer's waits for the shuttle's; and one whose
//! mark is, goes before it.

use crate::sync::Ordering;

const TRIP_SHIFT: u32 = 62;

/// Words of the shared line.
pub trait Line {
    /// Loads the header word.
    fn load(&self, order: Ordering) -> u64;
    /// Stores the header word.
    fn store(&self, value: u64, order: Ordering);
}

/// Whose turn it is.
#[derive(Debug)]
pub struct Turns {
    ours: bool,
    /// Packets taken off that are kept somewhere; meanwhile we put none on.
    kept: u64,
    next_out: u64,
    next_in: u64,
}

impl Turns {
    /// Of the neighbour that may begin.
    pub fn first() -> Turns {
        Turns { ours: true, kept: 0, next_out: 1, next_in: 2 }
    }

    /// Of the other one.
    pub fn second() -> Turns {
        Turns { ours: false, kept: 0, next_out: 2, next_in: 1 }
    }

    /// Whether we may put a packet on.
    #[inline(always)]
    pub fn is_ours(&self) -> bool {
        self.ours && self.kept == 0
    }

    /// Sends off what was written to the rest of the line. `w0` must not have its two highest bits set.
    #[inline(always)]
    pub fn send_off<L: Line>(&mut self, line: &L, w0: u64) {
        debug_assert!(self.ours && w0 >> TRIP_SHIFT == 0);
        // SYNC shuttle: pairs with the Acquire in `arrived`, which also comes before the other side's next stores.
        line.store(w0 | self.next_out << TRIP_SHIFT, Ordering::Release);
        self.ours = false;
        self.next_out = self.next_out.wrapping_add(2);
    }

    /// The header word of a packet that has arrived.
    #[inline(always)]
    pub fn arrived<L: Line>(&self, line: &L) -> Option<u64> {
        // SYNC shuttle: pairs with the Release in `send_off`.
        let w0 = line.load(Ordering::Acquire) ^ self.next_in << TRIP_SHIFT;
        if w0 >> TRIP_SHIFT == 0 { Some(w0) } else { None }
    }

    /// The packet that has arrived was taken off.
    #[inline(always)]
    pub fn took(&mut self) {
        self.ours = true;
        self.next_in = self.next_in.wrapping_add(2);
    }

    /// What was taken off is kept.
    pub fn keep(&mut self) {
        self.kept += 1;
    }

    /// So many kept ones are kept no longer.
    pub fn release(&mut self, packets: u64) {
        self.kept -= packets.min(self.kept);
    }
}

/// How long not to look after sending.
///
/// A look at the line while the neighbour is about to write it takes it away from there, and the write has to fetch it back. When the
/// answer will come nobody knows; so some waits are tried in turn, by both sides at once since they count the same trips, and
/// the one with which the trips were shortest is kept for a while. None is longer than what trips took without.
#[cfg(not(loom))]
#[derive(Debug, Default)]
struct Pace {
    trips: u64,
    /// Ticks to wait after sending, and when we sent, until they are over.
    wait: u64,
    since: u64,
    trial: Trial,
}

#[cfg(not(loom))]
#[derive(Debug, Default)]
struct Trial {
    goes_on: bool,
    /// When the wait that is being tried began to be.
    began: u64,
    /// The best one, and how long its trips took.
    best: u64,
    took: u64,
}

/// Waits to try, in ticks: from nothing to about as long as a trip takes between the farthest processors of a host.
#[cfg(not(loom))]
const WAITS: [u64; 18] =
    [0, 100, 120, 140, 160, 180, 200, 220, 245, 270, 300, 335, 375, 420, 500, 600, 750, 950];
/// Trips with each.
#[cfg(not(loom))]
const TRIPS_A_WAIT: u64 = 64;
/// They are tried anew after so many trips, and before that at powers of two.
#[cfg(not(loom))]
const TRIAL_EVERY: u64 = 1 << 15;
#[cfg(not(loom))]
const TRIAL_FIRST: u64 = 1 << 10;

#[cfg(not(loom))]
impl Pace {
    #[inline(always)]
    fn sent(&mut self) {
        if self.wait > 0 {
            self.since = crate::cpu::ticks();
        }
    }

    /// Whether it is too early to look.
    #[inline(always)]
    fn is_early(&mut self) -> bool {
        self.since != 0 && self.waits()
    }

    fn waits(&mut self) -> bool {
        let early = crate::cpu::ticks().saturating_sub(self.since) < self.wait;
        self.since = if early { self.since } else { 0 };
        early
    }

    #[inline(always)]
    fn took(&mut self) {
        self.since = 0;
        self.trips += 1;
        if self.trips % TRIPS_A_WAIT == 0 && self.trips >= TRIAL_FIRST {
            self.wait = self.trial.next(self.trips, crate::cpu::ticks());
        }
    }
}

#[cfg(not(loom))]
impl Trial {
    /// How long to wait from now on, after so many trips.
    #[cold]
    #[inline(never)]
    fn next(&mut self, trips: u64, now: u64) -> u64 {
        let tried = (trips % (1 << trips.ilog2()).min(TRIAL_EVERY) / TRIPS_A_WAIT) as usize;
        if tried == 0 {
            *self = Trial { goes_on: true, began: now, best: 0, took: u64::MAX };
        } else if self.goes_on {
            let took = now.saturating_sub(self.began);
            if took < self.took {
                (self.best, self.took) = (WAITS[tried - 1], took);
            }
            self.began = now;
        }
        let next = WAITS.get(tried).filter(|&&wait| self.goes_on && wait * TRIPS_A_WAIT < self.took);
        self.goes_on = next.is_some();
        next.copied().unwrap_or(self.best)
    }
}

#[cfg(not(loom))]
pub use mapped::{Cargo, Shuttle};

#[cfg(not(loom))]
mod mapped {
    use std::sync::Arc;

    use super::*;
    use crate::map::Segment;
    use crate::ring::{BESIDE_MAX, LINE_BYTES, Packet, RingMemory, payload_at};
    use crate::sync::AtomicU64;
    use crate::wirebuf::{WireMut, WireRef};

    /// The payload of a short packet, in our own memory.
    #[derive(Clone, Copy, Debug)]
    pub struct Cargo {
        words: [u64; BESIDE_MAX / 8],
    }

    impl Cargo {
        /// The first `len` bytes of it, at most all.
        #[inline(always)]
        pub fn payload(&self, len: usize) -> WireRef<'_> {
            // SAFETY: the words are ours, initialised and as long as that.
            unsafe { WireRef::from_raw(self.words.as_ptr().cast(), len.min(BESIDE_MAX)) }
        }
    }

    /// One side's end of a shuttle, in the control page of a ring.
    #[derive(Debug)]
    pub struct Shuttle {
        turns: Turns,
        pace: Option<Pace>,
        line: SharedLine,
        cargo_bytes_max: usize,
    }

    #[derive(Debug)]
    struct SharedLine {
        at: *mut u64,
        /// Keeps it mapped.
        _memory: Arc<Segment>,
    }

    // SAFETY: the pointer points into the segment, which is Send and lives as long as it.
    unsafe impl Send for SharedLine {}

    impl SharedLine {
        #[inline(always)]
        fn word(&self, word: usize) -> &AtomicU64 {
            debug_assert!(word < LINE_BYTES / 8);
            // SAFETY: one of the eight aligned words of the line, mapped while self lives.
            unsafe { AtomicU64::from_ptr(self.at.add(word)) }
        }
    }

    impl SharedLine {
        /// Where a payload of `len` bytes is: beside the header, or behind its line.
        #[inline(always)]
        fn payload(&self, len: usize) -> *mut u8 {
            // SAFETY: there is at least one more byte behind the line, in the same page.
            unsafe { self.at.cast::<u8>().add(payload_at(len)) }
        }
    }

    impl Line for SharedLine {
        #[inline(always)]
        fn load(&self, order: Ordering) -> u64 {
            self.word(0).load(order)
        }
        #[inline(always)]
        fn store(&self, value: u64, order: Ordering) {
            self.word(0).store(value, order);
        }
    }

    impl Shuttle {
        /// The end of the neighbour that may begin: the one that made the ring. Patient is who may find out for how long it need not
        /// look for an answer; it has to have a processor to itself.
        ///
        /// ```
        /// use barewire_sys::ring::RingMemory;
        /// use barewire_sys::shuttle::Shuttle;
        /// let memory = RingMemory::create(4096).unwrap();
        /// let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
        /// let (mut a, mut b) = (Shuttle::first(&memory, true), Shuttle::second(&theirs, true));
        /// assert!(a.is_ours() && !b.is_ours() && b.peek().is_none());
        /// a.reserve(5).write(b"hello");
        /// a.send_off(7, 8);
        /// let packet = b.peek().unwrap();
        /// assert_eq!((packet.w0, packet.w1, b.take(5).unwrap().payload(5).to_vec()), (7, 8, b"hello".to_vec()));
        /// assert!(b.is_ours() && !a.is_ours());
        /// ```
        pub fn first(memory: &RingMemory, is_patient: bool) -> Shuttle {
            Shuttle::over(memory, Turns::first(), is_patient)
        }

        /// The other one's.
        pub fn second(memory: &RingMemory, is_patient: bool) -> Shuttle {
            Shuttle::over(memory, Turns::second(), is_patient)
        }

        fn over(memory: &RingMemory, turns: Turns, is_patient: bool) -> Shuttle {
            let (at, cargo_bytes_max, memory) = memory.shuttle();
            Shuttle {
                turns,
                pace: is_patient.then(Pace::default),
                line: SharedLine { at, _memory: memory },
                cargo_bytes_max,
            }
        }

        /// Whether we may put a packet on.
        #[inline(always)]
        pub fn is_ours(&self) -> bool {
            self.turns.is_ours()
        }

        /// Most bytes of payload.
        #[inline(always)]
        pub fn cargo_bytes_max(&self) -> usize {
            self.cargo_bytes_max
        }

        /// Where the `len` bytes of payload of the next packet go, at most [`Shuttle::cargo_bytes_max`]; it must be our turn.
        #[inline(always)]
        pub fn reserve(&mut self, len: usize) -> WireMut<'_> {
            debug_assert!(self.is_ours());
            assert!(len <= self.cargo_bytes_max);
            // SAFETY: so many bytes of cargo are mapped, and it is our turn to write them.
            unsafe { WireMut::from_raw(self.line.payload(len), len) }
        }

        /// Sends off a packet whose payload was written before. `w0` must not have its two highest bits set; it must be our turn.
        #[inline(always)]
        pub fn send_off(&mut self, w0: u64, w1: u64) {
            self.line.word(1).store(w1, Ordering::Relaxed);
            self.turns.send_off(&self.line, w0);
            if let Some(pace) = &mut self.pace {
                pace.sent();
            }
        }

        /// The header words of a packet that has arrived; may say `None` for a moment though it has.
        #[inline(always)]
        pub fn peek(&mut self) -> Option<Packet> {
            if self.pace.as_mut().is_some_and(Pace::is_early) {
                return None;
            }
            let w0 = self.turns.arrived(&self.line)?;
            Some(Packet { w0, w1: self.line.word(1).load(Ordering::Relaxed) })
        }

        /// Whether nothing has arrived, for sure.
        pub fn is_quiet(&self) -> bool {
            self.turns.arrived(&self.line).is_none()
        }

        /// The payload of the packet that has arrived, where it is, if `len` is a length that it could have.
        #[inline(always)]
        pub fn payload(&self, len: usize) -> Option<WireRef<'_>> {
            if len > self.cargo_bytes_max {
                return None;
            }
            // SAFETY: so many bytes of cargo are mapped while self lives.
            Some(unsafe { WireRef::from_raw(self.line.payload(len), len) })
        }

        /// The packet that has arrived is done with: it is our turn.
        #[inline(always)]
        pub fn pass(&mut self) {
            self.turns.took();
            if let Some(pace) = &mut self.pace {
                pace.took();
            }
        }

        /// Takes off the packet that has arrived, if its `len` bytes of payload are so few that it is worthwhile: the shuttle can
        /// go back while they are being looked at.
        #[inline(always)]
        pub fn take(&mut self, len: usize) -> Option<Cargo> {
            if len > BESIDE_MAX {
                return None;
            }
            let mut cargo = Cargo { words: [0; BESIDE_MAX / 8] };
            for (at, word) in cargo.words.iter_mut().enumerate().take(len.div_ceil(8)) {
                *word = self.line.word(2 + at).load(Ordering::Relaxed);
            }
            self.pass();
            Some(cargo)
        }

        /// What was taken off last is kept: it is not our turn before it is [released](Shuttle::release).
        pub fn keep(&mut self) {
            self.turns.keep();
        }

        /// So many kept ones are kept no longer.
        pub fn release(&mut self, packets: u64) {
            self.turns.release(packets);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What trips take, in ticks, if nobody looks for so many after sending: longer if that is too early, and not shorter than the wait.
    fn trip(wait: u64) -> u64 {
        if wait < 230 { 500 } else { 150 + wait.max(150) }
    }

    #[test]
    fn the_wait_with_the_shortest_trips_is_kept_and_tried_anew() {
        let (mut trial, mut now, mut wait, mut waits) = (Trial::default(), 0, 0, Vec::new());
        for trips in 1..4 * TRIAL_EVERY {
            now += trip(wait);
            if trips % TRIPS_A_WAIT == 0 && trips >= TRIAL_FIRST {
                wait = trial.next(trips, now);
                waits.push(wait);
            }
        }
        let longest = waits.iter().max();
        assert_eq!((wait, longest), (245, Some(&375)), "none longer than the shortest trips is tried");
        let trials = waits.iter().filter(|&&wait| wait == 0).count();
        assert_eq!(trials, 5 + 3, "at 1, 2, 4, 8 and 16 thousand trips, and then every 32 thousand");
        let kept = waits.iter().filter(|&&wait| wait == 245).count();
        assert!(kept * 10 > waits.len() * 8, "{kept} of {}", waits.len());
    }

    #[test]
    fn a_kept_packet_withholds_our_turn() {
        let mut turns = Turns::second();
        turns.took();
        turns.keep();
        assert!(!turns.is_ours());
        turns.release(1);
        assert!(turns.is_ours());
        turns.release(9);
        assert!(turns.is_ours());
    }
}
