//! The shuttle in shared memory: one side's end of it.

use std::mem::MaybeUninit;
use std::sync::Arc;

use super::*;
use crate::map::Segment;
use crate::ring::{BESIDE_MAX, LINE_BYTES, Packet, RingMemory, payload_at};
use crate::stores::Stores;
use crate::sync::AtomicU64;
use crate::wirebuf::{WireMut, WireRef};

/// The payload of a short packet, in our own memory.
///
/// ```
/// use barewire_sys::{ring::RingMemory, shuttle::{Cargo, Shuttle}};
/// # let memory = RingMemory::create(4096).unwrap();
/// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
/// a.reserve(5).write(b"first");
/// a.send_off(1, 0);
/// let first: Cargo = b.take(5).unwrap();
/// b.reserve(6).write(b"second");
/// b.send_off(2, 0);
/// assert_eq!(first.payload().to_vec(), b"first", "though the line holds another by now");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cargo {
    /// As many are there as the payload needs.
    words: [MaybeUninit<u64>; BESIDE_MAX / 8],
    len: usize,
}

impl Cargo {
    /// Its bytes.
    ///
    /// ```
    /// use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// a.reserve(10).write(b"ten bytes!");
    /// a.send_off(1, 0);
    /// assert_eq!(b.take(10).unwrap().payload().to_vec(), b"ten bytes!");
    /// ```
    #[inline(always)]
    pub fn payload(&self) -> WireRef<'_> {
        // SAFETY: so many bytes of the words, which are ours, were written when the cargo was taken.
        unsafe { WireRef::from_raw(self.words.as_ptr().cast(), self.len) }
    }
}

/// Most bytes of payload of a packet that is sent off when it is whole.
const CARGO_BYTES_MAX: usize = 16 << 10;
/// Where the payload of a long packet begins: behind the line that says how much of it there is.
const LONG_AT: usize = 2 * LINE_BYTES;

/// One side's end of a shuttle, in the control page of a ring.
///
/// ```
/// use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
/// let memory = RingMemory::create(4096).unwrap();
/// let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
/// let mut client = Shuttle::first(&memory, false);
/// let server = std::thread::spawn(move || {
///     let mut shuttle = Shuttle::second(&theirs, false);
///     while shuttle.is_quiet() {
///         std::thread::yield_now();
///     }
///     let asked = shuttle.peek().unwrap().w1;
///     shuttle.pass();
///     shuttle.send_off(0, asked + 1);
/// });
/// client.send_off(0, 41);
/// server.join().unwrap();
/// assert_eq!(client.peek().unwrap().w1, 42);
/// ```
#[derive(Debug)]
pub struct Shuttle {
    turns: Turns,
    pace: Option<Pace>,
    line: SharedLine,
    cargo_bytes_max: usize,
    long_bytes_max: usize,
    stores: Stores,
    /// Bytes taken of the long packet that has arrived, if it is one and has been looked at.
    taken: Option<usize>,
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
    /// The first word of the second line.
    fn written(&self) -> &AtomicU64 {
        // SAFETY: there is at least one more line, in the same page.
        unsafe { AtomicU64::from_ptr(self.at.add(LINE_BYTES / 8)) }
    }

    /// Where a payload of `len` bytes is: beside the header, or behind its line.
    #[inline(always)]
    fn payload(&self, len: usize) -> *mut u8 {
        // SAFETY: there is at least one more byte behind the line, in the same page.
        unsafe { self.at.cast::<u8>().add(payload_at(len)) }
    }

    /// Where the bytes of a long packet from `at` on are.
    fn long_payload(&self, at: usize) -> *mut u8 {
        // Callers keep to what is mapped.
        self.at.cast::<u8>().wrapping_add(LONG_AT + at)
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
    fn load_written(&self, order: Ordering) -> u64 {
        self.written().load(order)
    }
    fn store_written(&self, value: u64, order: Ordering) {
        self.written().store(value, order);
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
    /// assert_eq!((packet.w0, packet.w1, b.take(5).unwrap().payload().to_vec()), (7, 8, b"hello".to_vec()));
    /// assert!(b.is_ours() && !a.is_ours());
    /// ```
    pub fn first(memory: &RingMemory, is_patient: bool) -> Shuttle {
        Shuttle::over(memory, Turns::first(), is_patient)
    }

    /// The other one's.
    ///
    /// ```
    /// use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let mut first = Shuttle::first(&memory, false);
    /// let mut second = Shuttle::second(&memory, false);
    /// assert!(!second.is_ours(), "it waits for the first one's packet");
    /// first.send_off(7, 0);
    /// second.pass();
    /// assert!(second.is_ours());
    /// ```
    pub fn second(memory: &RingMemory, is_patient: bool) -> Shuttle {
        Shuttle::over(memory, Turns::second(), is_patient)
    }

    fn over(memory: &RingMemory, turns: Turns, is_patient: bool) -> Shuttle {
        let (at, room, memory) = memory.shuttle();
        Shuttle {
            turns,
            pace: is_patient.then(Pace::new),
            line: SharedLine { at, _memory: memory },
            cargo_bytes_max: room.min(CARGO_BYTES_MAX),
            long_bytes_max: room + LINE_BYTES - LONG_AT,
            stores: Stores::default(),
            taken: None,
        }
    }

    /// Whether we may put a packet on.
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let mut shuttle = Shuttle::first(&memory, false);
    /// let mut by = Vec::new();
    /// for _ in 0..3 {
    ///     by.push(if shuttle.is_ours() { "shuttle" } else { "ring" });
    ///     if shuttle.is_ours() {
    ///         shuttle.send_off(1, 0);
    ///     }
    /// }
    /// assert_eq!(by, ["shuttle", "ring", "ring"], "until there is an answer");
    /// ```
    #[inline(always)]
    pub fn is_ours(&self) -> bool {
        self.turns.is_ours()
    }

    /// Most bytes of payload.
    ///
    /// ```
    /// use barewire_sys::{ring::{BESIDE_MAX, RingMemory}, shuttle::Shuttle};
    /// let room = |cargo| Shuttle::first(&RingMemory::create_roomy(4096, cargo).unwrap(), false).cargo_bytes_max();
    /// assert!(room(0) >= BESIDE_MAX);
    /// assert_eq!(room(100_000), 16 << 10, "longer ones are sent in pieces");
    /// ```
    #[inline(always)]
    pub fn cargo_bytes_max(&self) -> usize {
        self.cargo_bytes_max
    }

    /// Where the `len` bytes of payload of the next packet go, at most [`Shuttle::cargo_bytes_max`]; it must be our turn.
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create_roomy(4096, 1000).unwrap();
    /// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// let mut place = a.reserve(1000);
    /// assert_eq!(place.remaining(), 1000);
    /// place.write(&[7; 1000]);
    /// a.send_off(1, 0);
    /// assert_eq!(b.payload(1000).unwrap().to_vec(), [7; 1000]);
    /// ```
    #[inline(always)]
    pub fn reserve(&mut self, len: usize) -> WireMut<'_> {
        debug_assert!(self.is_ours());
        assert!(len <= self.cargo_bytes_max);
        // SAFETY: so many bytes of cargo are mapped, and it is our turn to write them.
        unsafe { WireMut::from_raw(self.line.payload(len), len) }
    }

    /// Sends off a packet whose payload was written before. `w0` must not have its two highest bits set; it must be our turn.
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// a.send_off(7, u64::MAX);
    /// let packet = b.peek().unwrap();
    /// assert_eq!((packet.w0, packet.w1), (7, u64::MAX));
    /// ```
    #[inline(always)]
    pub fn send_off(&mut self, w0: u64, w1: u64) {
        self.line.word(1).store(w1, Ordering::Relaxed);
        self.turns.send_off(&self.line, w0);
        if let Some(pace) = &mut self.pace {
            pace.sent();
        }
    }

    /// Most bytes of a long packet's payload.
    ///
    /// ```
    /// use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// let shuttle = Shuttle::first(&RingMemory::create_roomy(4096, 256 << 10).unwrap(), false);
    /// assert!(shuttle.long_bytes_max() > 255 << 10, "all the room but one line");
    /// assert!(shuttle.long_bytes_max() > shuttle.cargo_bytes_max());
    /// ```
    pub fn long_bytes_max(&self) -> usize {
        self.long_bytes_max
    }

    /// Sends off a long packet of `len` bytes, at most [`Shuttle::long_bytes_max`], with a note; `fill` writes those from `at` on, some
    /// at a time, each time when what was written before can be read. `w0` is as for [`Shuttle::send_off`].
    ///
    /// ```
    /// use barewire_sys::ring::RingMemory;
    /// use barewire_sys::shuttle::Shuttle;
    /// let memory = RingMemory::create_roomy(4096, 100_000).unwrap();
    /// let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&theirs, false));
    /// let mut seen = Vec::new();
    /// a.send_long((7, 8, 9), 50_000, |at, wire| {
    ///     seen.push(b.long_payload(50_000).unwrap().remaining() == at);
    ///     wire.write(&vec![1; 50_000]);
    /// });
    /// assert!(seen.len() > 2 && seen.into_iter().all(|seen| seen));
    /// assert_eq!((b.peek().unwrap().w1, b.note()), (8, 9));
    /// assert_eq!(b.long_payload(50_000).unwrap().to_vec(), vec![1; 50_000]);
    /// b.pass_long();
    /// assert!(b.is_ours());
    /// ```
    pub fn send_long(
        &mut self,
        (w0, w1, note): (u64, u64, u64),
        len: usize,
        mut fill: impl FnMut(usize, &mut WireMut<'_>),
    ) {
        assert!(self.is_ours() && len <= self.long_bytes_max);
        self.line.word(1).store(w1, Ordering::Relaxed);
        self.line.word(2).store(note, Ordering::Relaxed);
        self.turns.send_off_long(&self.line, w0);
        let mut at = 0;
        while at < len {
            let n = next_piece(at, len);
            // SAFETY: so many bytes are mapped, and the other side reads none of them before it is told that they are there.
            let wire = unsafe { WireMut::from_raw(self.line.long_payload(at), n) };
            self.stores.write(wire, |wire| fill(at, wire));
            at += n;
            Turns::wrote(&self.line, at as u64);
        }
        if let Some(pace) = &mut self.pace {
            pace.sent();
        }
    }

    /// The note of a long packet that has arrived.
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create_roomy(4096, 8192).unwrap();
    /// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// a.send_long((1, 2, 0xcafe), 100, |_, wire| { wire.write(&[7; 100]); });
    /// assert_eq!((b.peek().unwrap().w1, b.note()), (2, 0xcafe), "a third word beside the two");
    /// ```
    pub fn note(&self) -> u64 {
        self.line.word(2).load(Ordering::Relaxed)
    }

    /// The bytes of a long packet of `len` in all that have arrived and were not [taken](Shuttle::took_part) yet, where they are; `None` if
    /// there cannot be so many.
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create_roomy(4096, 50_000).unwrap();
    /// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// let mut read = Vec::new();
    /// a.send_long((1, 0, 0), 40_000, |_, wire| {
    ///     wire.write(&[7; 40_000]);
    ///     let piece = b.long_payload(40_000).unwrap().to_vec(); // what came before this
    ///     b.took_part(piece.len());
    ///     read.extend(piece);
    /// });
    /// assert!((1..40_000).contains(&read.len()), "it was read while it was written");
    /// read.extend(b.long_payload(40_000).unwrap().to_vec());
    /// assert_eq!(read, [7; 40_000]);
    /// assert!(b.long_payload(1 << 20).is_none(), "no packet is so long");
    /// ```
    pub fn long_payload(&mut self, len: usize) -> Option<WireRef<'_>> {
        let taken = *self.taken.get_or_insert(0);
        let written = usize::try_from(Turns::written(&self.line)).ok()?;
        if len > self.long_bytes_max || written > len || written < taken {
            return None;
        }
        // What goes to and fro never leaves the two processors.
        crate::copy::read_gently(false);
        // SAFETY: so many bytes are mapped while self lives.
        Some(unsafe { WireRef::from_raw(self.line.long_payload(taken), written - taken) })
    }

    /// So many bytes of the long packet that has arrived are done with.
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create_roomy(4096, 8192).unwrap();
    /// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// a.send_long((1, 0, 0), 6, |_, wire| { wire.write(b"abcdef"); });
    /// assert_eq!(b.long_payload(6).unwrap().first(4).to_vec(), b"abcd");
    /// b.took_part(4);
    /// assert_eq!(b.long_payload(6).unwrap().to_vec(), b"ef");
    /// ```
    pub fn took_part(&mut self, bytes: usize) {
        self.taken = self.taken.map(|taken| taken + bytes);
    }

    /// All of the long packet that has arrived is done with: it is our turn.
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create_roomy(4096, 8192).unwrap();
    /// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// a.send_long((1, 0, 0), 5, |_, wire| { wire.write(b"there"); });
    /// assert_eq!(b.long_payload(5).unwrap().to_vec(), b"there");
    /// b.pass_long();
    /// b.send_long((1, 0, 0), 4, |_, wire| { wire.write(b"back"); });
    /// assert_eq!(a.long_payload(4).unwrap().to_vec(), b"back");
    /// ```
    pub fn pass_long(&mut self) {
        self.taken = None;
        self.pass();
    }

    /// The header words of a packet that has arrived; may say `None` for a moment though it has.
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// assert!(b.peek().is_none());
    /// a.send_off(7, 8);
    /// assert!(b.peek().is_some_and(|packet| packet.w0 == 7) && b.peek().is_some(), "looking takes nothing");
    /// b.pass();
    /// assert!(b.peek().is_none());
    /// ```
    #[inline(always)]
    pub fn peek(&mut self) -> Option<Packet> {
        if self.pace.as_mut().is_some_and(Pace::is_early) {
            return None;
        }
        let w0 = self.turns.arrived(&self.line)?;
        Some(Packet { w0, w1: self.line.word(1).load(Ordering::Relaxed) })
    }

    /// Whether nothing has arrived, for sure, and nothing more of a long packet.
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// assert!(b.is_quiet(), "it may sleep");
    /// a.send_off(7, 0);
    /// assert!(!b.is_quiet() && a.is_quiet());
    /// b.pass();
    /// assert!(b.is_quiet());
    /// ```
    pub fn is_quiet(&self) -> bool {
        let nothing_new = |taken| Turns::written(&self.line) == taken as u64;
        self.turns.arrived(&self.line).is_none() || self.taken.is_some_and(nothing_new)
    }

    /// The payload of the packet that has arrived, where it is, if `len` is a length that it could have.
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create_roomy(4096, 500).unwrap();
    /// # let (mut a, b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// a.reserve(500).write(&[7; 500]);
    /// a.send_off(1, 500);
    /// assert_eq!(b.payload(500).unwrap().to_vec(), [7; 500]);
    /// assert!(b.payload(1 << 20).is_none(), "a neighbour that says so lies");
    /// ```
    #[inline(always)]
    pub fn payload(&self, len: usize) -> Option<WireRef<'_>> {
        if len > self.cargo_bytes_max {
            return None;
        }
        // SAFETY: so many bytes of cargo are mapped while self lives.
        Some(unsafe { WireRef::from_raw(self.line.payload(len), len) })
    }

    /// The packet that has arrived is done with: it is our turn.
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// a.send_off(1, 0);
    /// assert!(!b.is_ours());
    /// b.pass();
    /// assert!(b.is_ours() && !a.is_ours());
    /// ```
    #[inline(always)]
    pub fn pass(&mut self) {
        self.turns.took();
        if let Some(pace) = &mut self.pace {
            pace.took();
        }
    }

    /// Takes off the packet that has arrived, if its `len` bytes of payload are so few that it is worthwhile: the shuttle can
    /// go back while they are being looked at.
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create_roomy(4096, 500).unwrap();
    /// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// a.reserve(40).write(&[7; 40]);
    /// a.send_off(1, 0);
    /// assert!(b.take(400).is_none() && !b.is_ours(), "so long a one is read where it is");
    /// assert_eq!(b.take(40).unwrap().payload().to_vec(), [7; 40]);
    /// assert!(b.is_ours());
    /// ```
    #[inline(always)]
    pub fn take(&mut self, len: usize) -> Option<Cargo> {
        if len > BESIDE_MAX {
            return None;
        }
        let mut cargo = Cargo { words: [MaybeUninit::uninit(); BESIDE_MAX / 8], len };
        for (at, word) in cargo.words.iter_mut().enumerate().take(len.div_ceil(8)) {
            word.write(self.line.word(2 + at).load(Ordering::Relaxed));
        }
        self.pass();
        Some(cargo)
    }

    /// What was taken off last is kept: it is not our turn before it is [released](Shuttle::release).
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// a.reserve(4).write(b"kept");
    /// a.send_off(1, 0);
    /// let cargo = b.take(4).unwrap();
    /// b.keep();
    /// assert!(!b.is_ours(), "the sender stays charged for it");
    /// assert_eq!(cargo.payload().to_vec(), b"kept");
    /// ```
    pub fn keep(&mut self) {
        self.turns.keep();
    }

    /// So many kept ones are kept no longer.
    ///
    /// ```
    /// # use barewire_sys::{ring::RingMemory, shuttle::Shuttle};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let (mut a, mut b) = (Shuttle::first(&memory, false), Shuttle::second(&memory, false));
    /// a.send_off(1, 0);
    /// b.pass();
    /// b.keep();
    /// assert!(!b.is_ours());
    /// b.release(1);
    /// assert!(b.is_ours());
    /// ```
    pub fn release(&mut self, packets: u64) {
        self.turns.release(packets);
    }
}
