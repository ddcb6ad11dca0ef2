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
//! A long packet is sent off before its payload is there. That follows piece by piece, from the third line on, while the other side reads what
//! is there already; the second line says how much. Who has read all of it is the one who writes next, into the same memory: what it has just
//! read is in its own cache.
//!
//! The arrival flag is the trip's number in the header word, modulo four: what stands there is either what was sent, what was received
//! before that, or new. Whoever has taken a packet off may put the next one on, and nobody else: there is never more than one on
//! its way, which is the credit.
//!
//! Packets in the ring and on the shuttle keep their order by a [mark](crate::ring::Tail::turn_over): the parity, in every ring packet's
//! header, of the packets that went by the shuttle before it. One whose mark is not the consumer's waits for the shuttle's; and one whose
//! mark is, goes before it.
//!
//! ```
//! use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
//! let memory = RingMemory::create(4096).unwrap();
//! let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
//! let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&theirs, false));
//! for trip in 1..=5 {
//!     a.reserve(8).write_u64(trip);
//!     a.send_off(1, 0);
//!     assert!(b.peek().is_some() && a.peek().is_none());
//!     let asked = b.take(8).unwrap().payload().read_u64().unwrap();
//!     b.reserve(8).write_u64(asked * asked);
//!     b.send_off(2, 0);
//!     assert_eq!(a.peek().unwrap().w0, 2);
//!     assert_eq!(a.take(8).unwrap().payload().read_u64(), Some(trip * trip));
//! }
//! ```

use crate::sync::Ordering;

const TRIP_SHIFT: u32 = 62;

/// Words of the shared lines.
///
/// ```
/// use barewire_sys::{shuttle::{Line, Turns}, sync::Ordering};
/// # use std::cell::Cell;
/// #[derive(Default)]
/// struct Model {
///     header: Cell<u64>,
///     written: Cell<u64>,
/// }
/// impl Line for Model {
/// #     fn load(&self, _: Ordering) -> u64 { self.header.get() }
/// #     fn store(&self, value: u64, _: Ordering) { self.header.set(value) }
/// #     fn load_written(&self, _: Ordering) -> u64 { self.written.get() }
/// #     fn store_written(&self, value: u64, _: Ordering) { self.written.set(value) }
///     // …
/// }
/// // The shuttle's own code, over a line of a test's own.
/// let (line, mut a, b) = (Model::default(), Turns::first(), Turns::second());
/// a.send_off(&line, 7);
/// assert_eq!(b.arrived(&line), Some(7));
/// ```
pub trait Line {
    /// Loads the header word.
    ///
    /// ```
    /// use barewire_sys::{shuttle::{Line, Turns}, sync::Ordering};
    /// # #[derive(Default)]
    /// # struct Model([std::cell::Cell<u64>; 2]);
    /// # impl Line for Model {
    /// #     fn load(&self, _: Ordering) -> u64 { self.0[0].get() }
    /// #     fn store(&self, value: u64, _: Ordering) { self.0[0].set(value) }
    /// #     fn load_written(&self, _: Ordering) -> u64 { self.0[1].get() }
    /// #     fn store_written(&self, value: u64, _: Ordering) { self.0[1].set(value) }
    /// # }
    /// let line = Model::default();
    /// Turns::first().send_off(&line, 7);
    /// assert_eq!(line.load(Ordering::Relaxed), 1 << 62 | 7, "what is sent, and which trip it is");
    /// ```
    fn load(&self, order: Ordering) -> u64;
    /// Stores the header word.
    ///
    /// ```
    /// use barewire_sys::{shuttle::{Line, Turns}, sync::Ordering};
    /// # #[derive(Default)]
    /// # struct Model([std::cell::Cell<u64>; 2]);
    /// # impl Line for Model {
    /// #     fn load(&self, _: Ordering) -> u64 { self.0[0].get() }
    /// #     fn store(&self, value: u64, _: Ordering) { self.0[0].set(value) }
    /// #     fn load_written(&self, _: Ordering) -> u64 { self.0[1].get() }
    /// #     fn store_written(&self, value: u64, _: Ordering) { self.0[1].set(value) }
    /// # }
    /// let (line, second) = (Model::default(), Turns::second());
    /// let trip = |number: u64| line.store(number << 62 | 7, Ordering::Relaxed);
    /// trip(2);
    /// assert_eq!(second.arrived(&line), None, "its own");
    /// trip(1);
    /// assert_eq!(second.arrived(&line), Some(7));
    /// ```
    fn store(&self, value: u64, order: Ordering);
    /// Loads how much there is of a long packet's payload.
    ///
    /// ```
    /// use barewire_sys::{shuttle::{Line, Turns}, sync::Ordering};
    /// # #[derive(Default)]
    /// # struct Model([std::cell::Cell<u64>; 2]);
    /// # impl Line for Model {
    /// #     fn load(&self, _: Ordering) -> u64 { self.0[0].get() }
    /// #     fn store(&self, value: u64, _: Ordering) { self.0[0].set(value) }
    /// #     fn load_written(&self, _: Ordering) -> u64 { self.0[1].get() }
    /// #     fn store_written(&self, value: u64, _: Ordering) { self.0[1].set(value) }
    /// # }
    /// let line = Model::default();
    /// Turns::wrote(&line, 100);
    /// assert_eq!(line.load_written(Ordering::Relaxed), 100);
    /// ```
    fn load_written(&self, order: Ordering) -> u64;
    /// Stores how much there is of it.
    ///
    /// ```
    /// use barewire_sys::{shuttle::{Line, Turns}, sync::Ordering};
    /// # #[derive(Default)]
    /// # struct Model([std::cell::Cell<u64>; 2]);
    /// # impl Line for Model {
    /// #     fn load(&self, _: Ordering) -> u64 { self.0[0].get() }
    /// #     fn store(&self, value: u64, _: Ordering) { self.0[0].set(value) }
    /// #     fn load_written(&self, _: Ordering) -> u64 { self.0[1].get() }
    /// #     fn store_written(&self, value: u64, _: Ordering) { self.0[1].set(value) }
    /// # }
    /// let line = Model::default();
    /// line.store_written(4096, Ordering::Relaxed);
    /// assert_eq!(Turns::written(&line), 4096);
    /// ```
    fn store_written(&self, value: u64, order: Ordering);
}

/// Whose turn it is.
///
/// ```
/// use barewire_sys::shuttle::Turns;
/// # use barewire_sys::{shuttle::Line, sync::Ordering};
/// # #[derive(Default)]
/// # struct Model([std::cell::Cell<u64>; 2]);
/// # impl Line for Model {
/// #     fn load(&self, _: Ordering) -> u64 { self.0[0].get() }
/// #     fn store(&self, value: u64, _: Ordering) { self.0[0].set(value) }
/// #     fn load_written(&self, _: Ordering) -> u64 { self.0[1].get() }
/// #     fn store_written(&self, value: u64, _: Ordering) { self.0[1].set(value) }
/// # }
/// let (line, mut a, mut b) = (Model::default(), Turns::first(), Turns::second());
/// for w0 in 1..=9 {
///     assert!(a.is_ours() && !b.is_ours());
///     a.send_off(&line, w0);
///     assert_eq!((a.arrived(&line), b.arrived(&line)), (None, Some(w0)));
///     b.took();
///     std::mem::swap(&mut a, &mut b); // who has taken it answers
/// }
/// ```
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
    ///
    /// ```
    /// let mine = barewire_sys::shuttle::Turns::first();
    /// assert!(mine.is_ours(), "it begins");
    /// ```
    pub fn first() -> Turns {
        Turns { ours: true, kept: 0, next_out: 1, next_in: 2 }
    }

    /// Of the other one.
    ///
    /// ```
    /// let mut mine = barewire_sys::shuttle::Turns::second();
    /// assert!(!mine.is_ours());
    /// mine.took();
    /// assert!(mine.is_ours(), "from the first one's packet on");
    /// ```
    pub fn second() -> Turns {
        Turns { ours: false, kept: 0, next_out: 2, next_in: 1 }
    }

    /// Whether we may put a packet on.
    ///
    /// ```
    /// use barewire_sys::shuttle::Turns;
    /// # use barewire_sys::{shuttle::Line, sync::Ordering};
    /// # #[derive(Default)]
    /// # struct Model([std::cell::Cell<u64>; 2]);
    /// # impl Line for Model {
    /// #     fn load(&self, _: Ordering) -> u64 { self.0[0].get() }
    /// #     fn store(&self, value: u64, _: Ordering) { self.0[0].set(value) }
    /// #     fn load_written(&self, _: Ordering) -> u64 { self.0[1].get() }
    /// #     fn store_written(&self, value: u64, _: Ordering) { self.0[1].set(value) }
    /// # }
    /// let (line, mut mine) = (Model::default(), Turns::first());
    /// let mut sent = 0;
    /// while mine.is_ours() {
    ///     mine.send_off(&line, 7);
    ///     sent += 1;
    /// }
    /// assert_eq!(sent, 1, "there is never more than one on its way");
    /// ```
    #[inline(always)]
    pub fn is_ours(&self) -> bool {
        self.ours && self.kept == 0
    }

    /// Sends off what was written to the rest of the line. `w0` must not have its two highest bits set.
    ///
    /// ```
    /// use barewire_sys::shuttle::Turns;
    /// # use barewire_sys::{shuttle::Line, sync::Ordering};
    /// # #[derive(Default)]
    /// # struct Model([std::cell::Cell<u64>; 2]);
    /// # impl Line for Model {
    /// #     fn load(&self, _: Ordering) -> u64 { self.0[0].get() }
    /// #     fn store(&self, value: u64, _: Ordering) { self.0[0].set(value) }
    /// #     fn load_written(&self, _: Ordering) -> u64 { self.0[1].get() }
    /// #     fn store_written(&self, value: u64, _: Ordering) { self.0[1].set(value) }
    /// # }
    /// let (line, mut a, b) = (Model::default(), Turns::first(), Turns::second());
    /// assert_eq!(b.arrived(&line), None);
    /// a.send_off(&line, 0);
    /// assert_eq!(b.arrived(&line), Some(0), "here a header may be zero");
    /// ```
    #[inline(always)]
    pub fn send_off<L: Line>(&mut self, line: &L, w0: u64) {
        debug_assert!(self.ours && w0 >> TRIP_SHIFT == 0);
        // SYNC shuttle: pairs with the Acquire in `arrived`, which also comes before the other side's next stores.
        line.store(w0 | self.next_out << TRIP_SHIFT, Ordering::Release);
        self.ours = false;
        self.next_out = self.next_out.wrapping_add(2);
    }

    /// Sends off the header of a packet whose payload is yet to be [written](Turns::wrote).
    ///
    /// ```
    /// use barewire_sys::shuttle::Turns;
    /// # use barewire_sys::{shuttle::Line, sync::Ordering};
    /// # #[derive(Default)]
    /// # struct Model([std::cell::Cell<u64>; 2]);
    /// # impl Line for Model {
    /// #     fn load(&self, _: Ordering) -> u64 { self.0[0].get() }
    /// #     fn store(&self, value: u64, _: Ordering) { self.0[0].set(value) }
    /// #     fn load_written(&self, _: Ordering) -> u64 { self.0[1].get() }
    /// #     fn store_written(&self, value: u64, _: Ordering) { self.0[1].set(value) }
    /// # }
    /// let (line, mut a, b) = (Model::default(), Turns::first(), Turns::second());
    /// Turns::wrote(&line, 999); // of the packet before
    /// a.send_off_long(&line, 7);
    /// assert_eq!((b.arrived(&line), Turns::written(&line)), (Some(7), 0), "the header first");
    /// Turns::wrote(&line, 100);
    /// assert_eq!(Turns::written(&line), 100);
    /// ```
    pub fn send_off_long<L: Line>(&mut self, line: &L, w0: u64) {
        // SYNC shuttle: the header is seen after it.
        line.store_written(0, Ordering::Relaxed);
        self.send_off(line, w0);
    }

    /// So much of a long packet's payload is there, of whom we have sent off the header.
    ///
    /// ```
    /// use barewire_sys::shuttle::Turns;
    /// # use barewire_sys::{shuttle::Line, sync::{AtomicU64, Ordering}};
    /// # #[derive(Default)]
    /// # struct Model([AtomicU64; 2]);
    /// # impl Line for Model {
    /// #     fn load(&self, order: Ordering) -> u64 { self.0[0].load(order) }
    /// #     fn store(&self, value: u64, order: Ordering) { self.0[0].store(value, order) }
    /// #     fn load_written(&self, order: Ordering) -> u64 { self.0[1].load(order) }
    /// #     fn store_written(&self, value: u64, order: Ordering) { self.0[1].store(value, order) }
    /// # }
    /// let (line, payload) = (Model::default(), AtomicU64::new(0));
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| {
    ///         payload.store(7, Ordering::Relaxed);
    ///         Turns::wrote(&line, 8);
    ///     });
    ///     while Turns::written(&line) < 8 {
    ///         std::thread::yield_now();
    ///     }
    ///     assert_eq!(payload.load(Ordering::Relaxed), 7, "what is said to be there is there");
    /// });
    /// ```
    pub fn wrote<L: Line>(line: &L, bytes: u64) {
        // SYNC shuttle payload: pairs with the Acquire in `written`.
        line.store_written(bytes, Ordering::Release);
    }

    /// How much is there of the payload of a long packet that has arrived.
    ///
    /// ```
    /// use barewire_sys::shuttle::Turns;
    /// # use barewire_sys::{shuttle::Line, sync::Ordering};
    /// # #[derive(Default)]
    /// # struct Model([std::cell::Cell<u64>; 2]);
    /// # impl Line for Model {
    /// #     fn load(&self, _: Ordering) -> u64 { self.0[0].get() }
    /// #     fn store(&self, value: u64, _: Ordering) { self.0[0].set(value) }
    /// #     fn load_written(&self, _: Ordering) -> u64 { self.0[1].get() }
    /// #     fn store_written(&self, value: u64, _: Ordering) { self.0[1].set(value) }
    /// # }
    /// let line = Model::default();
    /// Turns::first().send_off_long(&line, 7);
    /// let seen = [8192, 16_384, 20_000].map(|bytes| {
    ///     Turns::wrote(&line, bytes);
    ///     Turns::written(&line)
    /// });
    /// assert_eq!(seen, [8192, 16_384, 20_000]);
    /// ```
    pub fn written<L: Line>(line: &L) -> u64 {
        // SYNC shuttle payload: pairs with the Release in `wrote`.
        line.load_written(Ordering::Acquire)
    }

    /// The header word of a packet that has arrived.
    ///
    /// ```
    /// use barewire_sys::shuttle::Turns;
    /// # use barewire_sys::{shuttle::Line, sync::Ordering};
    /// # #[derive(Default)]
    /// # struct Model([std::cell::Cell<u64>; 2]);
    /// # impl Line for Model {
    /// #     fn load(&self, _: Ordering) -> u64 { self.0[0].get() }
    /// #     fn store(&self, value: u64, _: Ordering) { self.0[0].set(value) }
    /// #     fn load_written(&self, _: Ordering) -> u64 { self.0[1].get() }
    /// #     fn store_written(&self, value: u64, _: Ordering) { self.0[1].set(value) }
    /// # }
    /// let (line, mut a, mut b) = (Model::default(), Turns::first(), Turns::second());
    /// assert_eq!((a.arrived(&line), b.arrived(&line)), (None, None));
    /// a.send_off(&line, 7);
    /// assert_eq!((a.arrived(&line), b.arrived(&line)), (None, Some(7)));
    /// b.took();
    /// assert_eq!(b.arrived(&line), None, "what was taken off does not arrive again");
    /// ```
    #[inline(always)]
    pub fn arrived<L: Line>(&self, line: &L) -> Option<u64> {
        // SYNC shuttle: pairs with the Release in `send_off`.
        let w0 = line.load(Ordering::Acquire) ^ self.next_in << TRIP_SHIFT;
        if w0 >> TRIP_SHIFT == 0 { Some(w0) } else { None }
    }

    /// The packet that has arrived was taken off.
    ///
    /// ```
    /// use barewire_sys::shuttle::Turns;
    /// # use barewire_sys::{shuttle::Line, sync::Ordering};
    /// # #[derive(Default)]
    /// # struct Model([std::cell::Cell<u64>; 2]);
    /// # impl Line for Model {
    /// #     fn load(&self, _: Ordering) -> u64 { self.0[0].get() }
    /// #     fn store(&self, value: u64, _: Ordering) { self.0[0].set(value) }
    /// #     fn load_written(&self, _: Ordering) -> u64 { self.0[1].get() }
    /// #     fn store_written(&self, value: u64, _: Ordering) { self.0[1].set(value) }
    /// # }
    /// let (line, mut a, mut b) = (Model::default(), Turns::first(), Turns::second());
    /// a.send_off(&line, 1);
    /// assert!(b.arrived(&line).is_some() && !b.is_ours(), "it has to be taken off first");
    /// b.took();
    /// b.send_off(&line, 2);
    /// assert_eq!(a.arrived(&line), Some(2));
    /// ```
    #[inline(always)]
    pub fn took(&mut self) {
        self.ours = true;
        self.next_in = self.next_in.wrapping_add(2);
    }

    /// What was taken off is kept.
    ///
    /// ```
    /// let mut mine = barewire_sys::shuttle::Turns::second();
    /// mine.took();
    /// mine.keep();
    /// assert!(!mine.is_ours(), "the next one would be written over what is kept");
    /// ```
    pub fn keep(&mut self) {
        self.kept += 1;
    }

    /// So many kept ones are kept no longer.
    ///
    /// ```
    /// let mut mine = barewire_sys::shuttle::Turns::first();
    /// mine.keep();
    /// mine.keep();
    /// let ours = [1, 1].map(|packets| {
    ///     mine.release(packets);
    ///     mine.is_ours()
    /// });
    /// assert_eq!(ours, [false, true], "when none is kept any more");
    /// ```
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
#[derive(Debug)]
struct Pace {
    trips: u64,
    /// With so many the next wait is tried, or none.
    due: u64,
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
    fn new() -> Pace {
        Pace { trips: 0, due: TRIAL_FIRST, wait: 0, since: 0, trial: Trial::default() }
    }

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
        if self.trips >= self.due {
            self.due += TRIPS_A_WAIT;
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

/// Bytes of a long packet's first piece, of its last, and of any.
#[cfg(not(loom))]
const PIECE_FIRST: usize = 8 << 10;
#[cfg(not(loom))]
const PIECE_LAST: usize = 4 << 10;
#[cfg(not(loom))]
const PIECE_MAX: usize = 16 << 10;

/// How many bytes are written from `at` on, of `len` in all, before the other side is told of them: many, because telling takes time, but few of
/// the first, for which it waits, and of the last, which it reads when we are done.
#[cfg(not(loom))]
fn next_piece(at: usize, len: usize) -> usize {
    let left = len - at;
    let rising = at.clamp(PIECE_FIRST, PIECE_MAX);
    let falling = (left / 3).next_multiple_of(crate::ring::LINE_BYTES).max(PIECE_LAST);
    rising.min(falling).min(left)
}

#[cfg(not(loom))]
pub use mapped::{Cargo, Shuttle};

#[cfg(not(loom))]
mod mapped;

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
    fn pieces_rise_and_fall() {
        let pieces = |len| {
            let mut at = 0;
            std::iter::from_fn(move || {
                let piece = if at < len { next_piece(at, len) } else { return None };
                at += piece;
                Some(piece)
            })
        };
        for len in (1..300_000).step_by(97) {
            assert_eq!(pieces(len).sum::<usize>(), len);
            assert!(pieces(len).all(|piece| piece <= PIECE_MAX));
            assert!(pieces(len).last().unwrap() <= PIECE_LAST);
            let but_last = pieces(len).count() - 1;
            assert!(pieces(len).take(but_last).all(|piece| piece % 64 == 0 && piece >= PIECE_LAST));
        }
        assert_eq!(pieces(40_000).collect::<Vec<_>>(), [8192, 8192, 7872, 5248, 4096, 4096, 2304]);
    }

    #[test]
    fn a_long_packet_is_news_as_far_as_it_is_written_and_not_taken() {
        use crate::ring::RingMemory;
        let memory = RingMemory::create_roomy(4096, 100_000).unwrap();
        let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
        assert!(b.is_quiet() && a.long_bytes_max() >= 90_000);
        a.send_long((1, 2, 3), 90_000, |at, _| {
            assert!(at > 0 || !b.is_quiet(), "it has arrived");
            let len = b.long_payload(90_000).unwrap().remaining();
            assert!((at == 0) == (len == 0), "what was written before can be read");
            assert_eq!(b.is_quiet(), at == 0);
            b.took_part(len);
            assert!(b.is_quiet() && !b.is_ours(), "should its writer be gone, that was all");
        });
        assert!(b.long_payload(80_000).is_none(), "more than there can be");
        let last = b.long_payload(90_000).unwrap().remaining();
        b.took_part(last);
        assert_eq!(b.long_payload(90_000).unwrap().remaining(), 0);
        b.pass_long();
        assert!(b.is_quiet() && b.is_ours() && !a.is_ours());
        b.send_long((1, 2, 3), 10, |_, _| ());
        assert_eq!(a.long_payload(10).unwrap().remaining(), 10);
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
