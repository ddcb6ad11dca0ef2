//! The ring in shared memory: its mapping, its producer and its consumer.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::*;
use crate::cpu::{fetch_line, is_amd, own_line};
use crate::doorbell;
use crate::map::{MapError, Segment, round_to_page};
use crate::sync::{AtomicU32, AtomicU64, SenderOrder};
use crate::wirebuf::{WireMut, WireRef};

/// Packets of so many lines are worth fetching the next one's lines for.
const MANY_LINES: u64 = 8;
/// For shorter ones, one after the other, as many lines as the last one had are fetched this far ahead. Where the consumer has written a line it takes
/// longer to come than the stores of a few packets can wait, and one that is fetched too soon goes back to a consumer that reads on the producer's heels.
fn ahead_lines() -> u64 {
    if is_amd() { 4 } else { 12 }
}
/// Lines that a consumer fetches ahead: as many as come while one packet is handled.
const READ_AHEAD_LINES: usize = 3;
/// Where in the control page the producer says that it waits for room; far from the consumer's count.
const WANTS_ROOM: usize = 256;
/// Where in the control page the shuttle's line is, far from both.
const SHUTTLE: usize = 1024;
/// Most bytes of it all.
const CONTROL_BYTES_MAX: usize = 512 << 10;

/// Ring memory in a mirrored shared segment.
///
/// ```
/// use barewire_sys::ring::RingMemory;
/// let memory = RingMemory::create(1 << 14).unwrap();
/// let fd = || memory.fd().try_clone_to_owned().unwrap();
/// assert_eq!(RingMemory::open(fd(), 1 << 14).unwrap().bytes(), 1 << 14);
/// assert!(RingMemory::open(fd(), 1 << 15).is_err(), "a peer that announces another size has no ring");
/// ```
#[derive(Debug)]
pub struct RingMemory {
    /// Bytes before the ring's data, at least a page.
    control: usize,
    data: *mut u8,
    freed: *mut u64,
    lines: u64,
    segment: Arc<Segment>,
}

// SAFETY: both pointers point into `segment`, which is Send and lives as long as they do.
unsafe impl Send for RingMemory {}

impl RingMemory {
    /// New, empty memory for a ring of `bytes`, a power of two of at least a page.
    ///
    /// ```
    /// use barewire_sys::ring::{Producer, RingMemory};
    /// assert!(RingMemory::create(100).is_err() && RingMemory::create(3 * 4096).is_err());
    /// assert_eq!(Producer::new(RingMemory::create(8192).unwrap()).lines(), 128);
    /// ```
    pub fn create(bytes: usize) -> Result<RingMemory, MapError> {
        Self::create_roomy(bytes, 0)
    }

    /// The same, with room for packets of `cargo` bytes at least on the pair's [shuttle](crate::shuttle).
    ///
    /// ```
    /// use barewire_sys::ring::RingMemory;
    /// use barewire_sys::shuttle::Shuttle;
    /// let roomy = RingMemory::create_roomy(4096, 8192).unwrap();
    /// assert!(Shuttle::first(&roomy, false).cargo_bytes_max() >= 8192);
    /// ```
    pub fn create_roomy(bytes: usize, cargo: usize) -> Result<RingMemory, MapError> {
        let bytes = Self::check(bytes)?;
        let control = round_to_page(SHUTTLE + LINE_BYTES + cargo.min(CONTROL_BYTES_MAX))
            .filter(|&control| control <= CONTROL_BYTES_MAX)
            .ok_or(MapError::Unfit { reason: "a shuttle has room for at most 508 KiB" })?;
        Segment::create_mirrored("barewire-ring", control + bytes, control)
            .map(|segment| Self::over(segment, control, bytes))
    }

    /// A peer's ring memory of `bytes`.
    ///
    /// ```
    /// use barewire_sys::{map::Segment, ring::RingMemory};
    /// let memory = RingMemory::create(4096).unwrap();
    /// let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// assert_eq!(theirs.bytes(), memory.bytes());
    /// let short = Segment::create("no ring", 4096).unwrap();
    /// assert!(RingMemory::open(short.fd().try_clone_to_owned().unwrap(), 4096).is_err(), "no control page");
    /// ```
    pub fn open(fd: OwnedFd, bytes: usize) -> Result<RingMemory, MapError> {
        let bytes = Self::check(bytes)?;
        let control = Segment::size_of(&fd)?.saturating_sub(bytes);
        if !(1..=CONTROL_BYTES_MAX).contains(&control) {
            return Err(MapError::Unfit { reason: "its size is not the one announced" });
        }
        Segment::open_mirrored(fd, control + bytes, control)
            .map(|segment| Self::over(segment, control, bytes))
    }

    fn check(bytes: usize) -> Result<usize, MapError> {
        let page = rustix::param::page_size();
        if bytes.is_power_of_two() && (page..=1 << 30).contains(&bytes) {
            Ok(bytes)
        } else {
            Err(MapError::Unfit { reason: "a ring is a power of two from one page to 1 GiB" })
        }
    }

    fn over(segment: Segment, control: usize, bytes: usize) -> RingMemory {
        let base = segment.base().as_ptr();
        // SAFETY: the segment is control + bytes long, so both stay inside.
        let data = unsafe { base.add(control) };
        RingMemory {
            control,
            data,
            freed: base.cast(),
            lines: (bytes / LINE_BYTES) as u64,
            segment: Arc::new(segment),
        }
    }

    /// The memfd, to be passed to the consumer.
    ///
    /// ```
    /// use barewire_sys::ring::RingMemory;
    /// let memory = RingMemory::create(4096).unwrap();
    /// let file = std::fs::File::from(memory.fd().try_clone_to_owned().unwrap());
    /// assert!(file.metadata().unwrap().len() >= 2 * 4096, "the control page and the lines");
    /// ```
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.segment.fd()
    }

    /// Bytes of ring data.
    ///
    /// ```
    /// use barewire_sys::ring::{LINE_BYTES, Producer, RingMemory};
    /// let memory = RingMemory::create_roomy(4096, 10_000).unwrap();
    /// assert_eq!(memory.bytes(), 4096, "without what is there for the shuttle");
    /// assert_eq!(Producer::new(memory).lines() as usize, 4096 / LINE_BYTES);
    /// ```
    pub fn bytes(&self) -> usize {
        self.lines as usize * LINE_BYTES
    }

    /// The line of the pair's shuttle, how many bytes of payload there is room for behind it, and what keeps them mapped.
    pub(crate) fn shuttle(&self) -> (*mut u64, usize, Arc<Segment>) {
        let room = self.control - SHUTTLE - LINE_BYTES;
        // SAFETY: inside the control page, which is mapped.
        (unsafe { self.segment.base().as_ptr().add(SHUTTLE).cast() }, room, Arc::clone(&self.segment))
    }

    /// The producer's "wake me when there is room".
    fn wants_room(&self) -> &AtomicU32 {
        self.segment.atomic_u32(WANTS_ROOM).expect("the control page is mapped, writable and aligned")
    }

    #[inline(always)]
    fn word(&self, word: usize) -> &AtomicU64 {
        debug_assert!(word < self.lines as usize * WORDS_A_LINE);
        // SAFETY: callers mask line numbers with lines - 1; the word is aligned and mapped while self lives.
        unsafe { AtomicU64::from_ptr(self.data.cast::<u64>().add(word)) }
    }
}

impl Words for RingMemory {
    #[inline(always)]
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.word(word).load(order)
    }
    #[inline(always)]
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.word(word).store(value, order);
    }
    #[inline(always)]
    fn freed(&self, order: Ordering) -> u64 {
        // SAFETY: the first word of the control page, aligned and mapped while self lives.
        unsafe { AtomicU64::from_ptr(self.freed) }.load(order)
    }
    #[inline(always)]
    fn set_freed(&self, value: u64, order: Ordering) {
        // SAFETY: the first word of the control page, aligned and mapped while self lives.
        unsafe { AtomicU64::from_ptr(self.freed) }.store(value, order);
    }
}

/// The producer of a ring in shared memory.
///
/// ```
/// use barewire_sys::ring::{Producer, RingMemory};
/// let mut tx = Producer::new(RingMemory::create(4096).unwrap());
/// // It can be filled before anybody has opened the other side.
/// tx.push(1, 0, 100, 0, |wire| { wire.write(&[7; 100]); }).unwrap();
/// tx.push(2, 0, 0, 0, |_| ()).unwrap();
/// assert_eq!(tx.position(), 3 + 1);
/// ```
#[derive(Debug)]
pub struct Producer {
    tail: Tail,
    memory: RingMemory,
    /// How far ahead it asks for lines before it writes them, if so many are free.
    ahead: u64,
}

impl Producer {
    /// The producer over new memory.
    ///
    /// ```
    /// use barewire_sys::ring::{Producer, RingMemory};
    /// let mut tx = Producer::new(RingMemory::create(4096).unwrap());
    /// assert_eq!((tx.position(), tx.freed(), tx.lines()), (0, 0, 64));
    /// ```
    pub fn new(memory: RingMemory) -> Producer {
        Producer { tail: Tail::new(memory.lines), memory, ahead: ahead_lines() }
    }

    /// Puts in one packet, or says that there is no room. `w0` must not be zero, nor have its two highest bits set; `fill` writes `len` payload bytes.
    /// At least `spare` lines stay free.
    ///
    /// ```
    /// use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// let memory = RingMemory::create(4096).unwrap();
    /// let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs));
    /// tx.push(7, 8, 5, 0, |wire| { wire.write(b"hello"); }).unwrap();
    /// let packet = rx.peek().unwrap();
    /// assert_eq!((packet.w0, packet.w1), (7, 8));
    /// assert_eq!(rx.payload(5).unwrap().to_vec(), b"hello");
    /// rx.pass(5);
    /// assert!(rx.peek().is_none());
    /// ```
    #[inline(always)]
    pub fn push(
        &mut self,
        w0: u64,
        w1: u64,
        len: usize,
        spare: u64,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), Full> {
        fill(&mut self.reserve(len, spare)?);
        self.publish(w0, w1, len);
        Ok(())
    }

    /// Where the payload of the next packet goes, if there is room for `len` bytes and `spare` lines behind it. Between this and
    /// [`Producer::publish`] nothing else should be written: stores to one line that follow each other become one, and the
    /// consumer, which polls that line, does not take it away between them.
    ///
    /// ```
    /// use barewire_sys::ring::{Consumer, Full, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (mut tx, rx) = (Producer::new(memory), Consumer::new(theirs));
    /// let mut wire = tx.reserve(3, 0).unwrap();
    /// wire.write(b"abc");
    /// assert!(rx.peek().is_none(), "not yet");
    /// tx.publish(7, 0, 3);
    /// assert_eq!(rx.payload(3).unwrap().to_vec(), b"abc");
    /// assert_eq!(tx.reserve(5000, 0).unwrap_err(), Full, "a ring of 4096 bytes never has room for it");
    /// ```
    #[inline(always)]
    pub fn reserve(&mut self, len: usize, spare: u64) -> Result<WireMut<'_>, Full> {
        let need = lines_for(len);
        let line = self.tail.reserve(&self.memory, need, spare)?;
        self.tail.end_at(&self.memory, need);
        // SAFETY: `reserve` granted the lines from `line` on; the mirror keeps them contiguous, and there is one more,
        // so they lie inside the mapping. Nobody else writes them before `publish`.
        unsafe {
            let at = self.memory.data.add(line * LINE_BYTES);
            Ok(WireMut::from_raw(at.add(payload_at(len)), len))
        }
    }

    /// Publishes the packet whose payload of `len` bytes has been written where [`Producer::reserve`] said.
    ///
    /// ```
    /// # use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (mut tx, rx) = (Producer::new(memory), Consumer::new(theirs));
    /// tx.reserve(200, 0).unwrap().write(&[5; 200]);
    /// tx.publish(7, 8, 200);
    /// let packet = rx.peek().unwrap();
    /// assert_eq!((packet.w0, packet.w1, rx.payload(200).unwrap().to_vec()), (7, 8, vec![5; 200]));
    /// ```
    #[inline(always)]
    pub fn publish(&mut self, w0: u64, w1: u64, len: usize) {
        let need = lines_for(len);
        self.memory.store(self.tail.line() * WORDS_A_LINE + 1, w1, Ordering::Relaxed);
        let room = self.tail.publish(&self.memory, need, w0);
        if room > self.ahead {
            self.ask(need, room);
        }
    }

    /// After a packet of `need` lines, with `room` for others: asks for lines that are written soon.
    #[inline(always)]
    fn ask(&self, need: u64, room: u64) {
        match need < MANY_LINES {
            true => (0..need).for_each(|line| self.own(self.tail.line() + (self.ahead + line) as usize)),
            false => self.own_many(need.min(room)),
        }
    }

    /// Fetches the lines of a packet as long as the last one, so that the next finds them here.
    #[inline(never)]
    fn own_many(&self, lines: u64) {
        // The first is the one that the consumer polls.
        (1..lines as usize).for_each(|line| self.own(self.tail.line() + line));
    }

    /// Asks for a line that is written soon. It is where the consumer has read it, and a packet is not there before all of its lines have
    /// come back; and the processor itself asks only for as many as the few stores it keeps are for.
    #[inline(always)]
    fn own(&self, line: usize) {
        own_line(self.memory.data.wrapping_add(line * LINE_BYTES));
    }

    /// Whether a packet of `len` payload bytes would fit now, leaving `spare` lines.
    ///
    /// ```
    /// use barewire_sys::ring::{Producer, RingMemory};
    /// let mut tx = Producer::new(RingMemory::create(4096).unwrap());
    /// assert!(tx.fits(62 * 64, 0) && !tx.fits(63 * 64, 0), "a line is for the header, one for the next");
    /// assert!(tx.fits(0, 62) && !tx.fits(0, 63));
    /// assert_eq!(tx.position(), 0, "asking takes no room");
    /// ```
    #[inline]
    pub fn fits(&mut self, len: usize, spare: u64) -> bool {
        self.tail.reserve(&self.memory, lines_for(len), spare).is_ok()
    }

    /// Lines put in so far; a packet put in next starts there.
    ///
    /// ```
    /// use barewire_sys::ring::{Producer, RingMemory, lines_for};
    /// let mut tx = Producer::new(RingMemory::create(4096).unwrap());
    /// for len in [0, 48, 49, 500] {
    ///     let before = tx.position();
    ///     tx.push(1, 0, len, 0, |_| ()).unwrap();
    ///     assert_eq!(tx.position() - before, lines_for(len));
    /// }
    /// ```
    #[inline(always)]
    pub fn position(&self) -> u64 {
        self.tail.position()
    }

    /// Lines that the consumer has given back, looked up now.
    ///
    /// ```
    /// # use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs));
    /// tx.push(1, 0, 300, 0, |_| ()).unwrap();
    /// let end = tx.position();
    /// rx.pass(300);
    /// assert!(tx.freed() < end, "the consumer may still have it");
    /// rx.give_back();
    /// assert!(tx.freed() == end, "whatever the packet named can be used again");
    /// ```
    #[inline]
    pub fn freed(&mut self) -> u64 {
        self.tail.refresh(&self.memory);
        self.tail.freed()
    }

    /// Before sleeping: asks the consumer to ring when it gives lines back. Look at [`Producer::freed`] once more after
    /// the doorbell's barrier, and only then sleep.
    ///
    /// ```
    /// use barewire_sys::sync::{SenderOrder, before_last_look};
    /// # use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs));
    /// while tx.push(1, 0, 1000, 0, |_| ()).is_ok() {}
    /// tx.want_room();
    /// before_last_look();
    /// assert_eq!(tx.freed(), 0, "so it sleeps");
    /// assert!(rx.pass(1000) && rx.must_ring(SenderOrder::Fence), "and is woken");
    /// ```
    pub fn want_room(&self) {
        // SYNC room: the barrier of the doorbell that we doze on next orders this before our last look.
        self.memory.wants_room().store(1, Ordering::Relaxed);
    }

    /// A packet went by the shuttle: those from now on come after it.
    ///
    /// ```
    /// use barewire_sys::shuttle::Shuttle;
    /// # use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs));
    /// let (mut out, mut into) = (Shuttle::first(tx.memory(), false), Shuttle::second(rx.memory(), false));
    /// out.send_off(1, 0);
    /// tx.turn_over();
    /// tx.push(2, 0, 0, 0, |_| ()).unwrap();
    /// assert!(rx.peek().is_none(), "the shuttle's was sent before");
    /// assert_eq!(into.peek().unwrap().w0, 1);
    /// into.pass();
    /// rx.turn_over();
    /// assert_eq!(rx.peek().unwrap().w0, 2);
    /// ```
    #[inline(always)]
    pub fn turn_over(&mut self) {
        self.tail.turn_over();
    }

    /// Whether lines come back as fast as this processor passes any on, because the consumer writes them.
    ///
    /// ```
    /// use barewire_sys::ring::{Producer, RingMemory};
    /// let rings = [4096, 8192].map(|bytes| Producer::new(RingMemory::create(bytes).unwrap()));
    /// assert_eq!(rings[0].comes_back_fast(), rings[1].comes_back_fast(), "it depends on the processor alone");
    /// ```
    pub fn comes_back_fast(&self) -> bool {
        is_amd()
    }

    /// Lines of the ring.
    ///
    /// ```
    /// use barewire_sys::ring::{Producer, RingMemory};
    /// let mut tx = Producer::new(RingMemory::create(4096).unwrap());
    /// let eighth = tx.lines() / 8;
    /// while tx.push(1, 0, 0, eighth, |_| ()).is_ok() {}
    /// assert_eq!(tx.lines() - tx.position() - 1, eighth, "an eighth stays free for answers");
    /// ```
    pub fn lines(&self) -> u64 {
        self.memory.lines
    }

    /// The memory, to pass its memfd on.
    ///
    /// ```
    /// use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// let mut tx = Producer::new(RingMemory::create(4096).unwrap());
    /// tx.push(7, 0, 0, 0, |_| ()).unwrap();
    /// let passed_on = tx.memory().fd().try_clone_to_owned().unwrap();
    /// let rx = Consumer::new(RingMemory::open(passed_on, tx.memory().bytes()).unwrap());
    /// assert_eq!(rx.peek().unwrap().w0, 7, "what was put in before is there");
    /// ```
    pub fn memory(&self) -> &RingMemory {
        &self.memory
    }
}

/// A packet that has arrived: its two header words.
///
/// ```
/// use barewire_sys::ring::{Consumer, Packet, Producer, RingMemory};
/// # let memory = RingMemory::create(4096).unwrap();
/// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
/// # let (mut tx, rx) = (Producer::new(memory), Consumer::new(theirs));
/// tx.push(7, u64::MAX, 0, 0, |_| ()).unwrap();
/// let Some(Packet { w0, w1 }) = rx.peek() else { panic!("it is there") };
/// assert_eq!((w0, w1), (7, u64::MAX));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// First header word, never zero if it has arrived.
    pub w0: u64,
    /// Second header word.
    pub w1: u64,
}

/// The consumer of a ring in shared memory.
///
/// ```
/// use barewire_sys::ring::{Consumer, Producer, RingMemory};
/// # let memory = RingMemory::create(4096).unwrap();
/// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
/// # let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs));
/// for len in [3, 100] {
///     tx.push(1, len as u64, len, 0, |wire| { wire.write(&vec![7; len]); }).unwrap();
/// }
/// let mut bytes = 0;
/// while let Some(packet) = rx.peek() {
///     let Some(payload) = rx.payload(packet.w1 as usize) else { break }; // a lie, and the end of this link
///     bytes += payload.remaining();
///     rx.pass(packet.w1 as usize);
/// }
/// assert_eq!(bytes, 103);
/// ```
#[derive(Debug)]
pub struct Consumer {
    head: Head,
    memory: RingMemory,
}

impl Consumer {
    /// The consumer over a peer's memory.
    ///
    /// ```
    /// use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// let tx = Producer::new(RingMemory::create(4096).unwrap());
    /// let fd = tx.memory().fd().try_clone_to_owned().unwrap();
    /// let mut rx = Consumer::new(RingMemory::open(fd, 4096).unwrap());
    /// assert!(rx.peek().is_none() && !rx.give_back());
    /// ```
    pub fn new(memory: RingMemory) -> Consumer {
        Consumer { head: Head::new(memory.lines).wiping(is_amd()), memory }
    }

    /// Has it wipe the lines that it is done with, or leave them, whatever suits the processor.
    ///
    /// ```
    /// use barewire_sys::ring::{Consumer, RingMemory};
    /// let theirs = Consumer::new(RingMemory::create(4096).unwrap()).wiping(false);
    /// assert!(theirs.peek().is_none());
    /// ```
    pub fn wiping(self, wipes: bool) -> Consumer {
        Consumer { head: self.head.wiping(wipes), ..self }
    }

    /// The next packet's header words, if it has arrived.
    ///
    /// ```
    /// # use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs));
    /// assert!(rx.peek().is_none());
    /// (1..=2).for_each(|w0| tx.push(w0, 0, 60, 0, |_| ()).unwrap());
    /// assert_eq!(rx.peek().unwrap().w0, 1);
    /// rx.pass(60);
    /// assert_eq!(rx.peek().unwrap().w0, 2, "one after the other");
    /// ```
    #[inline(always)]
    pub fn peek(&self) -> Option<Packet> {
        let packet = self.look();
        if is_header(packet.w0) { Some(packet) } else { None }
    }

    /// What stands where the next packet's header will be; it is one if its first word [is](is_header).
    ///
    /// ```
    /// use barewire_sys::ring::is_header;
    /// # use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (mut tx, rx) = (Producer::new(memory), Consumer::new(theirs));
    /// assert!(!is_header(rx.look().w0));
    /// tx.push(5, 6, 0, 0, |_| ()).unwrap();
    /// assert!(is_header(rx.look().w0) && rx.look().w1 == 6);
    /// ```
    #[inline(always)]
    pub fn look(&self) -> Packet {
        let w0 = self.head.look(&self.memory);
        let w1 = self.memory.load(self.head.line() * WORDS_A_LINE + 1, Ordering::Relaxed);
        Packet { w0, w1 }
    }

    /// A packet that went by the shuttle was taken: those that come after it are next.
    ///
    /// ```
    /// # use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs));
    /// tx.push(1, 0, 0, 0, |_| ()).unwrap();
    /// tx.turn_over(); // here one goes by the shuttle
    /// tx.push(3, 0, 0, 0, |_| ()).unwrap();
    /// rx.pass(0);
    /// assert!(rx.peek().is_none(), "2 is next");
    /// rx.turn_over(); // it was taken
    /// assert_eq!(rx.peek().unwrap().w0, 3);
    /// ```
    #[inline(always)]
    pub fn turn_over(&mut self) {
        self.head.turn_over();
    }

    /// The memory, where the pair's shuttle is.
    ///
    /// ```
    /// use barewire_sys::{ring::{Consumer, RingMemory}, shuttle::Shuttle};
    /// let rx = Consumer::new(RingMemory::create_roomy(4096, 1000).unwrap());
    /// assert_eq!(rx.memory().bytes(), 4096);
    /// assert!(Shuttle::second(rx.memory(), false).cargo_bytes_max() >= 1000);
    /// ```
    pub fn memory(&self) -> &RingMemory {
        &self.memory
    }

    /// The payload of the packet at the head, if `len` is a length that the ring could hold.
    ///
    /// ```
    /// # use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs));
    /// for _ in 0..2 {
    ///     tx.push(1, 0, 2000, 0, |wire| { wire.write(&[7; 2000]); }).unwrap();
    ///     assert_eq!(rx.payload(2000).unwrap().to_vec(), [7; 2000], "in one piece, also the one that wraps around");
    ///     rx.pass(2000);
    /// }
    /// assert!(rx.payload(5000).is_none(), "longer than the ring");
    /// ```
    #[inline(always)]
    pub fn payload(&self, len: usize) -> Option<WireRef<'_>> {
        if len > BESIDE_MAX && len > self.memory.bytes() - LINE_BYTES {
            return None;
        }
        let at = self.head.line() * LINE_BYTES + payload_at(len);
        // SAFETY: line < lines, and len + 64 <= lines * 64, so the range ends inside the second mapping.
        Some(unsafe { WireRef::from_raw(self.memory.data.add(at), len) })
    }

    /// Fetches a line that is read soon, for who has found several packets in a row: then it most likely has been written too. One that
    /// has not is taken away from the producer. Only where lines come back fast: elsewhere that asks for them far ahead.
    ///
    /// ```
    /// let rx = barewire_sys::ring::Consumer::new(barewire_sys::ring::RingMemory::create(4096).unwrap());
    /// assert!({ rx.fetch_ahead(); rx.peek().is_none() }, "it shows nothing that was not there");
    /// ```
    #[inline(always)]
    pub fn fetch_ahead(&self) {
        if self.head.wipes {
            let line = (self.head.line() + READ_AHEAD_LINES) & self.head.mask as usize;
            fetch_line(self.memory.data.wrapping_add(line * LINE_BYTES));
        }
    }

    /// Passes over the packet with `len` payload bytes; its lines are free. Says whether the producer was told.
    ///
    /// ```
    /// # use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs));
    /// tx.push(1, 0, 0, 0, |_| ()).unwrap();
    /// tx.push(2, 0, 1500, 0, |_| ()).unwrap();
    /// assert!(!rx.pass(0), "one line is not worth a word");
    /// assert!(rx.pass(1500), "a quarter of the ring is");
    /// assert_eq!(tx.freed(), tx.position());
    /// ```
    #[inline(always)]
    pub fn pass(&mut self, len: usize) -> bool {
        self.head.pass(&self.memory, lines_for(len))
    }

    /// Passes over the packet but keeps its lines charged until [`Consumer::release`]; says how many.
    ///
    /// ```
    /// # use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs));
    /// (0..2).for_each(|_| tx.push(1, 0, 100, 0, |_| ()).unwrap());
    /// assert_eq!(rx.hold(100), 3);
    /// rx.pass(100);
    /// rx.give_back();
    /// assert_eq!(tx.freed(), 3, "of six lines; the others are still charged to the sender");
    /// ```
    pub fn hold(&mut self, len: usize) -> u64 {
        let lines = lines_for(len);
        self.head.hold(&self.memory, lines);
        lines
    }

    /// Ends the charge for held lines.
    ///
    /// ```
    /// # use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs));
    /// tx.push(1, 0, 100, 0, |_| ()).unwrap();
    /// let kept = rx.hold(100);
    /// assert!(!rx.give_back());
    /// rx.release(kept);
    /// assert!(rx.give_back());
    /// assert_eq!(tx.freed(), kept);
    /// ```
    pub fn release(&mut self, lines: u64) {
        self.head.release(lines);
    }

    /// Tells the producer about everything that is free; false if there is nothing new.
    ///
    /// ```
    /// # use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (mut tx, mut rx) = (Producer::new(memory), Consumer::new(theirs));
    /// (0..5).for_each(|_| tx.push(1, 0, 0, 0, |_| ()).unwrap());
    /// (0..5).for_each(|_| { rx.pass(0); });
    /// assert_eq!(tx.freed(), 0);
    /// assert!(rx.give_back() && !rx.give_back(), "once");
    /// assert_eq!(tx.freed(), 5);
    /// ```
    #[inline]
    pub fn give_back(&mut self) -> bool {
        self.head.give_back(&self.memory)
    }

    /// After giving back: whether the producer sleeps for want of room and has to be rung.
    ///
    /// ```
    /// use barewire_sys::sync::SenderOrder;
    /// # use barewire_sys::ring::{Consumer, Producer, RingMemory};
    /// # let memory = RingMemory::create(4096).unwrap();
    /// # let theirs = RingMemory::open(memory.fd().try_clone_to_owned().unwrap(), 4096).unwrap();
    /// # let (tx, rx) = (Producer::new(memory), Consumer::new(theirs));
    /// assert!(!rx.must_ring(SenderOrder::Fence), "it does not wait");
    /// tx.want_room();
    /// assert!(rx.must_ring(SenderOrder::Fence) && !rx.must_ring(SenderOrder::Fence), "once is enough");
    /// ```
    #[inline]
    pub fn must_ring(&self, order: SenderOrder) -> bool {
        doorbell::must_ring(self.memory.wants_room(), order)
    }
}
