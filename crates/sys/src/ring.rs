//! The ring: one producer, one consumer, packets in 64-byte lines, the arrival flag in the packet's own line.
//!
//! A packet is a header word, a second word and a payload, in as many whole lines as it needs. The producer fills the
//! lines and stores the header word last; the consumer polls the word where the next header will stand. A packet of up to 48 bytes
//! therefore moves in a single cache-line transfer. A header of the lap before is known by a bit; where something else stands, the
//! producer writes zero before it publishes the packet in front, so no stale payload is ever taken for a header. The consumer publishes
//! how far it has come only now and then, in a line of its own.
//!
//! ```text
//!  control page                 data: `lines` × 64 bytes, mapped twice in a row so that packets never wrap
//!  ┌───────────────┐  ┌───────────────┬───────┬─────────┬─────────┬──────────┬───────────────
//!  │ freed (lines) │  │ w0 w1 payload │ w0 w1 │ payload │ payload │ 0 = next │ older, free …
//!  └───────────────┘  └───────────────┴───────┴─────────┴─────────┴──────────┴───────────────
//! ```
//!
//! The line with the header is the one that the consumer polls: it takes it away as soon as the producer has written any of it. So
//! everything else is written before it, other lines' words included: a payload that does not fit it begins in the line after.
//!
//! Where processors pass a written line on as such (AMD's do), a line that both have written comes back to the producer at a fraction of what one
//! costs that the consumer has only read, and several at once. There the consumer writes zero into each line that it is done with, which the
//! protocol neither needs nor minds.
//!
//! A producer that has to wait for room says so in the control page before it sleeps, and the consumer rings it when it gives
//! lines back: the doorbell's protocol with the roles exchanged.
//!
//! What the consumer publishes is a *count* of lines it gives back, not its position: lines whose contents it has taken
//! over elsewhere but not yet accounted for stay charged to the producer. Ring space is the credit.
//!
//! Nothing here trusts the other side. The consumer asks how long a packet is once, bounds it, and then copies; a
//! producer that sees an impossible count treats the ring as full.
//!
//! ```
//! use barewire_sys::ring::{Consumer, Producer, RingMemory};
//! let memory = RingMemory::create(4096).unwrap();
//! let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
//! let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs));
//! let sender = std::thread::spawn(move || {
//!     for number in 1..=1000 {
//!         while tx.push(number, 0, 48, 0, |wire| { wire.write(&[number as u8; 48]); }).is_err() {
//!             std::thread::yield_now(); // the receiver has to take something first
//!         }
//!     }
//! });
//! for number in 1..=1000 {
//!     while rx.peek().is_none() {
//!         std::thread::yield_now();
//!     }
//!     assert_eq!(rx.peek().unwrap().w0, number);
//!     assert_eq!(rx.payload(48).unwrap().to_vec(), [number as u8; 48]);
//!     rx.pass(48);
//! }
//! sender.join().unwrap();
//! ```

use crate::sync::Ordering;

/// Bytes of a cache line, and of the ring's unit.
pub const LINE_BYTES: usize = 64;
/// Bytes of a packet's two header words.
pub const HEAD_BYTES: usize = 16;
const WORDS_A_LINE: usize = LINE_BYTES / 8;

/// The ring is full: the receiver has to take something first.
///
/// ```
/// use barewire_sys::ring::{Full, Producer, RingMemory};
/// let mut tx = Producer::new(RingMemory::create(4096).unwrap());
/// let sent = (0..100).map_while(|_| tx.push(1, 0, 0, 0, |_| ()).ok()).count();
/// assert_eq!(sent, 63, "of 64 lines one is kept for the next header");
/// assert_eq!(tx.push(1, 0, 0, 0, |_| ()), Err(Full));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room: the receiver has to take something first")]
pub struct Full;

/// Most bytes of payload in the header's line.
pub const BESIDE_MAX: usize = LINE_BYTES - HEAD_BYTES;

/// Lines that a packet with `payload` bytes takes.
///
/// ```
/// use barewire_sys::ring::lines_for;
/// assert_eq!([lines_for(0), lines_for(48), lines_for(49), lines_for(64), lines_for(65)], [1, 1, 2, 2, 3]);
/// ```
#[inline(always)]
pub const fn lines_for(payload: usize) -> u64 {
    if payload <= BESIDE_MAX { 1 } else { 1 + (payload as u64).div_ceil(LINE_BYTES as u64) }
}

/// Where in a packet its payload begins.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn payload_at(payload: usize) -> usize {
    if payload <= BESIDE_MAX { HEAD_BYTES } else { LINE_BYTES }
}

/// Words of ring memory. Word 0 of line `l` is `data(l * 8)`.
///
/// ```
/// use barewire_sys::{ring::{Head, Tail, Words}, sync::Ordering};
/// # use std::cell::Cell;
/// #[derive(Default)]
/// struct Model {
///     words: [Cell<u64>; 4 * 8],
///     freed: Cell<u64>,
/// }
/// impl Words for Model {
/// #     fn load(&self, word: usize, _: Ordering) -> u64 { self.words[word].get() }
/// #     fn store(&self, word: usize, value: u64, _: Ordering) { self.words[word].set(value) }
/// #     fn freed(&self, _: Ordering) -> u64 { self.freed.get() }
/// #     fn set_freed(&self, value: u64, _: Ordering) { self.freed.set(value) }
///     // …
/// }
/// // The ring's own code, over memory of a test's own.
/// let (model, mut tail, head) = (Model::default(), Tail::new(4), Head::new(4));
/// tail.reserve(&model, 1, 0).unwrap();
/// tail.publish(&model, 1, 7);
/// assert_eq!(head.peek(&model), Some(7));
/// ```
pub trait Words {
    /// Loads a data word.
    ///
    /// ```
    /// use barewire_sys::{ring::{RingMemory, Words}, sync::Ordering};
    /// let memory = RingMemory::create(4096).unwrap();
    /// assert_eq!(memory.load(0, Ordering::Relaxed), 0, "no packet stands at the first line");
    /// ```
    fn load(&self, word: usize, order: Ordering) -> u64;
    /// Stores a data word.
    ///
    /// ```
    /// use barewire_sys::{ring::{RingMemory, Words}, sync::Ordering};
    /// let memory = RingMemory::create(4096).unwrap();
    /// let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// memory.store(3 * 8, 7, Ordering::Relaxed);
    /// assert_eq!(theirs.load(3 * 8, Ordering::Relaxed), 7, "the first word of line 3");
    /// ```
    fn store(&self, word: usize, value: u64, order: Ordering);
    /// Loads the consumer's count of freed lines.
    ///
    /// ```
    /// use barewire_sys::{ring::{Head, RingMemory, Words}, sync::Ordering};
    /// let (memory, mut head) = (RingMemory::create(4096).unwrap(), Head::new(64));
    /// head.pass(&memory, 5);
    /// assert_eq!(memory.freed(Ordering::Relaxed), 0, "not told yet");
    /// head.give_back(&memory);
    /// assert_eq!(memory.freed(Ordering::Relaxed), 5);
    /// ```
    fn freed(&self, order: Ordering) -> u64;
    /// Stores the consumer's count of freed lines.
    ///
    /// ```
    /// use barewire_sys::{ring::{RingMemory, Tail, Words}, sync::Ordering};
    /// let (memory, mut tail) = (RingMemory::create(4096).unwrap(), Tail::new(64));
    /// memory.set_freed(1000, Ordering::Relaxed);
    /// tail.refresh(&memory);
    /// assert_eq!(tail.freed(), 0, "a consumer that lies is not believed");
    /// ```
    fn set_freed(&self, value: u64, order: Ordering);
}

/// The producer's side: where the next packet goes, and how much room is left.
///
/// ```
/// use barewire_sys::ring::{RingMemory, Tail};
/// let (memory, mut tail) = (RingMemory::create(4096).unwrap(), Tail::new(64));
/// for w0 in 1..=3 {
///     let line = tail.reserve(&memory, 2, 0).unwrap();
///     assert_eq!(line as u64, 2 * (w0 - 1));
///     tail.end_at(&memory, 2);
///     tail.publish(&memory, 2, w0);
/// }
/// assert_eq!(tail.position(), 6);
/// ```
#[derive(Debug)]
pub struct Tail {
    mask: u64,
    lines: u64,
    tail: u64,
    freed: u64,
    /// Where the lap ends that the next packet begins in.
    lap_end: u64,
    /// What the next header is marked with: its lap, and what went by the shuttle.
    turn: u64,
    /// A bit for each line: its first word is no header of the next lap, because it was one of the last or is zero. What of a payload stands there
    /// may look like one.
    clean: Box<[u64]>,
    /// Whether there are others, or were in this lap.
    soiled: bool,
}

/// In a header's first word: the parity of the lap in which it was written, so that none has to be wiped out before its line is used again.
const LAP: u64 = 1 << 63;
/// In a header's first word: the parity of the packets that went by the [shuttle](crate::shuttle) before it.
const MARK: u64 = 1 << 62;

/// Whether that is a header word: not nothing, and of this lap and this turn.
///
/// ```
/// use barewire_sys::ring::is_header;
/// assert!(is_header(1) && is_header((1 << 62) - 1));
/// assert!(!is_header(0) && !is_header(1 << 62) && !is_header(1 << 63 | 1));
/// ```
#[inline(always)]
pub const fn is_header(w0: u64) -> bool {
    w0.wrapping_sub(1) < MARK - 1
}

impl Tail {
    /// The producer of an empty ring of `lines` lines, a power of two.
    ///
    /// ```
    /// use barewire_sys::ring::Tail;
    /// let tail = Tail::new(1024);
    /// assert_eq!((tail.line(), tail.position(), tail.freed()), (0, 0, 0));
    /// assert!(std::panic::catch_unwind(|| Tail::new(1000)).is_err(), "no power of two");
    /// ```
    pub fn new(lines: u64) -> Tail {
        assert!(lines.is_power_of_two() && lines >= 4, "ring sizes are powers of two");
        let clean = vec![u64::MAX; lines.div_ceil(64) as usize].into();
        Tail { mask: lines - 1, lines, tail: 0, freed: 0, lap_end: lines, turn: 0, clean, soiled: false }
    }

    /// The line at which a packet of `need` lines may be written, leaving at least `spare` lines free.
    ///
    /// ```
    /// use barewire_sys::ring::{Full, RingMemory, Tail};
    /// let (memory, mut tail) = (RingMemory::create(4096).unwrap(), Tail::new(64));
    /// assert_eq!(tail.reserve(&memory, 63, 0), Ok(0));
    /// assert_eq!(tail.reserve(&memory, 63, 1), Err(Full), "that would leave none to spare");
    /// assert_eq!(tail.reserve(&memory, 1, 0), Ok(0), "nothing was published, so the place is the same");
    /// ```
    #[inline(always)]
    pub fn reserve<W: Words>(&mut self, words: &W, need: u64, spare: u64) -> Result<usize, Full> {
        if !self.has_room(need, spare) {
            self.refresh(words);
            if !self.has_room(need, spare) {
                return Err(Full);
            }
        }
        Ok(self.line())
    }

    /// Whether a packet of `need` lines and `spare` ones fit into what is known to be free.
    #[inline(always)]
    fn has_room(&self, need: u64, spare: u64) -> bool {
        // One line more than the packet: the zero for the next header.
        self.tail + need + 1 + spare <= self.freed + self.lines
    }

    /// Before the packet of `need` lines at the reserved place is written: nothing comes after it yet.
    ///
    /// ```
    /// use barewire_sys::{ring::{Head, RingMemory, Tail, Words}, sync::Ordering};
    /// # let (memory, mut tail, mut head) = (RingMemory::create(4096).unwrap(), Tail::new(64), Head::new(64));
    /// // Packets of two lines, whose second lines hold what looks like a header of the next lap.
    /// for w0 in 1..=40 {
    ///     let line = tail.reserve(&memory, 2, 0).unwrap();
    ///     memory.store((line + 1) % 64 * 8, 1 << 63 | 0xbad, Ordering::Relaxed);
    ///     tail.end_at(&memory, 2);
    ///     tail.publish(&memory, 2, w0);
    ///     assert_eq!(head.peek(&memory), Some(w0));
    ///     head.pass(&memory, 2);
    ///     assert_eq!(head.peek(&memory), None, "an old payload is never taken for a packet");
    /// }
    /// ```
    #[inline(always)]
    pub fn end_at<W: Words>(&mut self, words: &W, need: u64) {
        if need > 1 {
            self.soil(need);
        }
        let next = ((self.tail + need) & self.mask) as usize;
        if self.soiled && self.clean[next / 64] >> (next % 64) & 1 == 0 {
            self.clean[next / 64] |= 1 << (next % 64);
            // SYNC next header: ordered before the Release in `publish`, so a consumer that gets past this packet finds a zero.
            words.store(next * WORDS_A_LINE, 0, Ordering::Relaxed);
        }
    }

    /// The lines of a packet but its first have its payload in them.
    #[inline(always)]
    fn soil(&mut self, need: u64) {
        self.soiled = true;
        let (mut line, mut left) = ((self.tail + 1) & self.mask, need - 1);
        while left > 0 {
            let n = left.min(64 - line % 64).min(self.lines - line);
            self.clean[(line / 64) as usize] &= !(u64::MAX >> (64 - n) << (line % 64));
            (line, left) = ((line + n) & self.mask, left - n);
        }
    }

    /// A lap is over.
    #[cold]
    #[inline(never)]
    fn end_lap(&mut self) {
        self.lap_end += self.lines;
        self.turn ^= LAP;
        self.soiled = self.clean.iter().any(|&lines| lines != u64::MAX);
    }

    /// Makes the packet of `need` lines at the reserved place visible. `w0` must not be zero, nor have its two highest bits set. Says how many
    /// lines are known to be free after it.
    ///
    /// ```
    /// use barewire_sys::ring::{Head, RingMemory, Tail};
    /// let (memory, mut tail, head) = (RingMemory::create(4096).unwrap(), Tail::new(64), Head::new(64));
    /// tail.reserve(&memory, 3, 0).unwrap();
    /// tail.end_at(&memory, 3);
    /// assert_eq!(head.peek(&memory), None);
    /// assert_eq!(tail.publish(&memory, 3, 7), 61, "so many lines are free");
    /// assert_eq!(head.peek(&memory), Some(7));
    /// ```
    #[inline(always)]
    pub fn publish<W: Words>(&mut self, words: &W, need: u64, w0: u64) -> u64 {
        debug_assert!(w0 != 0 && w0 & (LAP | MARK) == 0);
        let at = (self.tail & self.mask) as usize;
        // SYNC publish: pairs with the Acquire in `Head::peek`.
        words.store(at * WORDS_A_LINE, w0 | self.turn, Ordering::Release);
        self.tail += need;
        if self.tail >= self.lap_end {
            self.end_lap();
        }
        self.freed + self.lines - self.tail
    }

    /// A packet went by the shuttle: those from now on come after it.
    ///
    /// ```
    /// use barewire_sys::ring::{Head, RingMemory, Tail};
    /// let (memory, mut tail, mut head) = (RingMemory::create(4096).unwrap(), Tail::new(64), Head::new(64));
    /// tail.turn_over(); // one went by the shuttle, and then
    /// tail.reserve(&memory, 1, 0).unwrap();
    /// tail.publish(&memory, 1, 7);
    /// assert_eq!(head.peek(&memory), None, "the other one comes first");
    /// head.turn_over();
    /// assert_eq!(head.peek(&memory), Some(7));
    /// ```
    #[inline(always)]
    pub fn turn_over(&mut self) {
        self.turn ^= MARK;
    }

    /// The line at which the next packet will stand.
    ///
    /// ```
    /// use barewire_sys::ring::{Head, RingMemory, Tail};
    /// let (memory, mut tail, mut head) = (RingMemory::create(4096).unwrap(), Tail::new(64), Head::new(64));
    /// for _ in 0..70 {
    ///     tail.reserve(&memory, 1, 0).unwrap();
    ///     tail.publish(&memory, 1, 7);
    ///     head.pass(&memory, 1);
    /// }
    /// assert_eq!((tail.position(), tail.line()), (70, 70 - 64));
    /// ```
    #[inline(always)]
    pub fn line(&self) -> usize {
        (self.tail & self.mask) as usize
    }

    /// Lines put in so far.
    ///
    /// ```
    /// use barewire_sys::ring::{RingMemory, Tail};
    /// let (memory, mut tail) = (RingMemory::create(4096).unwrap(), Tail::new(64));
    /// for need in [4, 1] {
    ///     tail.reserve(&memory, need, 0).unwrap();
    ///     tail.publish(&memory, need, 7);
    /// }
    /// assert_eq!(tail.position(), 5);
    /// ```
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// Lines given back so far, as last seen.
    ///
    /// ```
    /// use barewire_sys::{ring::{RingMemory, Tail, Words}, sync::Ordering};
    /// let (memory, mut tail) = (RingMemory::create(4096).unwrap(), Tail::new(64));
    /// tail.publish(&memory, 8, 7);
    /// memory.set_freed(8, Ordering::Relaxed);
    /// assert_eq!(tail.freed(), 0, "it has not looked");
    /// tail.refresh(&memory);
    /// assert_eq!(tail.freed(), 8);
    /// ```
    pub fn freed(&self) -> u64 {
        self.freed
    }

    /// Looks again how much the consumer has given back.
    ///
    /// ```
    /// use barewire_sys::{ring::{RingMemory, Tail, Words}, sync::Ordering};
    /// let (memory, mut tail) = (RingMemory::create(4096).unwrap(), Tail::new(64));
    /// tail.publish(&memory, 10, 7);
    /// let seen = [4, 11, 3, 10].map(|freed| {
    ///     memory.set_freed(freed, Ordering::Relaxed);
    ///     tail.refresh(&memory);
    ///     tail.freed()
    /// });
    /// assert_eq!(seen, [4, 4, 4, 10], "neither more than was put in nor less than before");
    /// ```
    #[cold]
    #[inline(never)]
    pub fn refresh<W: Words>(&mut self, words: &W) {
        // SYNC freed: pairs with the Release in `Head::give_back`; our next stores into those lines follow it.
        let freed = words.freed(Ordering::Acquire);
        // A count that runs backwards or ahead of us is a lie; keep the last honest one.
        if freed >= self.freed && freed <= self.tail {
            self.freed = freed;
        }
    }
}

/// The consumer's side: where the next packet will stand, and what it has given back.
///
/// ```
/// use barewire_sys::ring::{Head, RingMemory, Tail};
/// let (memory, mut tail, mut head) = (RingMemory::create(4096).unwrap(), Tail::new(64), Head::new(64));
/// (1..=3).for_each(|w0| { tail.publish(&memory, 1, w0); });
/// let mut taken = Vec::new();
/// while let Some(w0) = head.peek(&memory) {
///     taken.push(w0);
///     head.pass(&memory, 1);
/// }
/// assert_eq!(taken, [1, 2, 3]);
/// ```
#[derive(Debug)]
pub struct Head {
    mask: u64,
    lines: u64,
    at: u64,
    /// Where the lap ends that the next packet begins in, and what its header is marked with, as in [`Tail`].
    lap_end: u64,
    turn: u64,
    /// Where there is something to do: there, or where the producer is told how much is free, a quarter of the ring from where it was last.
    due: u64,
    /// Lines passed but not given back: their contents are held elsewhere.
    held: u64,
    published: u64,
    /// Whether it writes zero into lines that it is done with.
    wipes: bool,
}

impl Head {
    /// The consumer of an empty ring of `lines` lines, a power of two.
    ///
    /// ```
    /// use barewire_sys::ring::{Head, RingMemory};
    /// let (memory, mut head) = (RingMemory::create(4096).unwrap(), Head::new(64));
    /// assert!(head.line() == 0 && head.peek(&memory).is_none() && !head.give_back(&memory));
    /// assert!(std::panic::catch_unwind(|| Head::new(2)).is_err(), "too few");
    /// ```
    pub fn new(lines: u64) -> Head {
        assert!(lines.is_power_of_two() && lines >= 4, "ring sizes are powers of two");
        Head {
            mask: lines - 1,
            lines,
            at: 0,
            lap_end: lines,
            turn: 0,
            due: lines / 4,
            held: 0,
            published: 0,
            wipes: false,
        }
    }

    /// The same, wiping lines or leaving them.
    ///
    /// ```
    /// use barewire_sys::{ring::{Head, RingMemory, Tail, Words}, sync::Ordering};
    /// for wipes in [false, true] {
    ///     let (memory, mut head) = (RingMemory::create(4096).unwrap(), Head::new(64).wiping(wipes));
    ///     Tail::new(64).publish(&memory, 1, 7);
    ///     head.pass(&memory, 1);
    ///     assert_eq!(memory.load(0, Ordering::Relaxed), if wipes { 0 } else { 7 });
    /// }
    /// ```
    pub fn wiping(self, wipes: bool) -> Head {
        Head { wipes, ..self }
    }

    /// The next packet's header word, if it has arrived and none that went by the shuttle comes first.
    ///
    /// ```
    /// use barewire_sys::ring::{Head, RingMemory, Tail};
    /// let (memory, mut tail, mut head) = (RingMemory::create(4096).unwrap(), Tail::new(64), Head::new(64));
    /// tail.publish(&memory, 1, 7);
    /// assert_eq!((head.peek(&memory), head.peek(&memory)), (Some(7), Some(7)), "looking takes nothing");
    /// head.pass(&memory, 1);
    /// assert_eq!(head.peek(&memory), None);
    /// ```
    #[inline(always)]
    pub fn peek<W: Words>(&self, words: &W) -> Option<u64> {
        let w0 = self.look(words);
        if is_header(w0) { Some(w0) } else { None }
    }

    /// What stands where the next packet's header word will be: [a header](is_header), or nothing, or what was here a lap ago, or one that is not
    /// next.
    ///
    /// ```
    /// use barewire_sys::ring::{Head, RingMemory, Tail, is_header};
    /// let (memory, mut tail, mut head) = (RingMemory::create(4096).unwrap(), Tail::new(64), Head::new(64));
    /// assert!(!is_header(head.look(&memory)));
    /// for _ in 0..130 {
    ///     tail.reserve(&memory, 1, 0).unwrap();
    ///     tail.publish(&memory, 1, 7);
    ///     assert_eq!(head.look(&memory), 7);
    ///     head.pass(&memory, 1);
    ///     assert!(!is_header(head.look(&memory)));
    /// }
    /// ```
    #[inline(always)]
    pub fn look<W: Words>(&self, words: &W) -> u64 {
        // SYNC take: pairs with the Release in `Tail::publish`.
        words.load(self.line() * WORDS_A_LINE, Ordering::Acquire) ^ self.turn
    }

    /// A packet that went by the shuttle was taken: those that come after it are next.
    ///
    /// ```
    /// use barewire_sys::ring::{Head, RingMemory, Tail};
    /// let (memory, mut tail, mut head) = (RingMemory::create(4096).unwrap(), Tail::new(64), Head::new(64));
    /// tail.publish(&memory, 1, 7);
    /// head.turn_over();
    /// assert_eq!(head.peek(&memory), None, "it took from the shuttle what comes later: wrong order");
    /// head.turn_over();
    /// assert_eq!(head.peek(&memory), Some(7));
    /// ```
    #[inline(always)]
    pub fn turn_over(&mut self) {
        self.turn ^= MARK;
    }

    /// The line at which the next packet stands or will stand.
    ///
    /// ```
    /// use barewire_sys::ring::{Head, RingMemory};
    /// let (memory, mut head) = (RingMemory::create(4096).unwrap(), Head::new(64));
    /// [3, 60, 2].iter().for_each(|&need| { head.pass(&memory, need); });
    /// assert_eq!(head.line(), 1, "one lap and one line");
    /// ```
    #[inline(always)]
    pub fn line(&self) -> usize {
        (self.at & self.mask) as usize
    }

    /// Passes over a packet of `need` lines whose contents are done with; says whether lines were given back.
    ///
    /// ```
    /// use barewire_sys::ring::{Head, RingMemory};
    /// let (memory, mut head) = (RingMemory::create(4096).unwrap(), Head::new(64));
    /// let told: Vec<usize> = (1..=64).filter(|_| head.pass(&memory, 1)).collect();
    /// assert_eq!(told, [16, 32, 48, 64], "every quarter of the ring");
    /// ```
    #[inline(always)]
    pub fn pass<W: Words>(&mut self, words: &W, need: u64) -> bool {
        self.step(words, need);
        self.at >= self.due && self.arrive(words)
    }

    #[inline(always)]
    fn step<W: Words>(&mut self, words: &W, need: u64) {
        if self.wipes {
            self.wipe(words, self.at);
            if need > 1 {
                (self.at + 1..self.at + need.min(self.mask)).for_each(|line| self.wipe(words, line));
            }
        }
        self.at += need;
    }

    /// Writes zero into a line whose contents are done with.
    #[inline(always)]
    fn wipe<W: Words>(&self, words: &W, line: u64) {
        // SYNC wiped: the Release in `give_back` comes before the producer writes there again.
        words.store((line & self.mask) as usize * WORDS_A_LINE, 0, Ordering::Relaxed);
    }

    /// Does what is due here; says whether lines were given back.
    #[cold]
    #[inline(never)]
    fn arrive<W: Words>(&mut self, words: &W) -> bool {
        self.set_due();
        self.at >= self.due && self.give_back(words)
    }

    /// Begins a new lap, if this one is at its end, and looks when there is something to do next.
    fn set_due(&mut self) {
        if self.at >= self.lap_end {
            self.lap_end += self.lines;
            self.turn ^= LAP;
        }
        self.due = self.lap_end.min(self.published + self.held + self.lines / 4);
    }

    /// Passes over a packet of `need` lines but keeps it charged to the producer until [`Head::release`].
    ///
    /// ```
    /// use barewire_sys::{ring::{Head, RingMemory, Words}, sync::Ordering};
    /// let (memory, mut head) = (RingMemory::create(4096).unwrap(), Head::new(64));
    /// head.hold(&memory, 5);
    /// head.pass(&memory, 2);
    /// head.give_back(&memory);
    /// assert_eq!((head.line(), memory.freed(Ordering::Relaxed)), (7, 2));
    /// ```
    pub fn hold<W: Words>(&mut self, words: &W, need: u64) {
        self.step(words, need);
        self.held += need;
        self.set_due();
    }

    /// Ends the charge for `lines` held lines.
    ///
    /// ```
    /// use barewire_sys::{ring::{Head, RingMemory, Words}, sync::Ordering};
    /// let (memory, mut head) = (RingMemory::create(4096).unwrap(), Head::new(64));
    /// head.hold(&memory, 5);
    /// head.release(3);
    /// head.give_back(&memory);
    /// assert_eq!(memory.freed(Ordering::Relaxed), 3);
    /// head.release(100);
    /// head.give_back(&memory);
    /// assert_eq!(memory.freed(Ordering::Relaxed), 5, "never more than was held");
    /// ```
    pub fn release(&mut self, lines: u64) {
        self.held -= lines.min(self.held);
        self.set_due();
    }

    /// Tells the producer how much is free; false if it has been told already.
    ///
    /// ```
    /// use barewire_sys::ring::{Head, RingMemory, Tail};
    /// let (memory, mut tail, mut head) = (RingMemory::create(4096).unwrap(), Tail::new(64), Head::new(64));
    /// tail.publish(&memory, 63, 7);
    /// assert!(tail.reserve(&memory, 1, 0).is_err());
    /// head.pass(&memory, 63);
    /// assert!(!head.give_back(&memory), "so much was told at once");
    /// assert!(tail.reserve(&memory, 1, 0).is_ok());
    /// ```
    #[inline]
    pub fn give_back<W: Words>(&mut self, words: &W) -> bool {
        let freed = self.at - self.held;
        if freed <= self.published {
            return false;
        }
        self.published = freed;
        self.set_due();
        // SYNC freed: pairs with the Acquire in `Tail::refresh`; our reads of those lines precede it.
        words.set_freed(freed, Ordering::Release);
        true
    }
}

#[cfg(not(loom))]
pub use consumer::{Consumer, Packet};
#[cfg(not(loom))]
pub use memory::RingMemory;
#[cfg(not(loom))]
pub use producer::Producer;

#[cfg(not(loom))]
mod consumer;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod producer;
