//! The consumer of a ring in shared memory.

use super::memory::RingMemory;
use super::{BESIDE_MAX, Head, LINE_BYTES, WORDS_A_LINE, Words, is_header, lines_for, payload_at};
use crate::choice::Choice;
use crate::cpu::{fetch_line, is_amd, ticks};
use crate::doorbell;
use crate::sync::{Ordering, SenderOrder};
use crate::wirebuf::WireRef;

/// Lines that a consumer fetches ahead: as many as come while one packet is handled, on AMD's processors.
const READ_AHEAD_LINES: usize = 3;
/// The same on others, by measurement on Intel's Granite Rapids: a line takes longer than the handling of several packets. It has to be further than
/// the producer asks for lines, or each takes them from the other.
const READ_AHEAD_LINES_FAR: usize = 8;

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
    /// Whether to wipe lines or to leave them, where that depends; it is made again when the head gets to that line.
    choice: Option<Choice>,
    chosen_at: u64,
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
        let (depends, chosen_at) = (is_amd(), memory.lines);
        let head = Head::new(memory.lines).wiping(depends);
        Consumer { head, memory, choice: depends.then(|| Choice::new(false)), chosen_at }
    }

    /// Has it wipe the lines that it is done with, or leave them, for good. By itself it does what goes faster: where lines are fetched from another
    /// processor's cache, those that this one has written may come back faster than those that it has only read.
    ///
    /// ```
    /// use barewire_sys::ring::{Consumer, RingMemory};
    /// let theirs = Consumer::new(RingMemory::create(4096).unwrap()).wiping(false);
    /// assert!(theirs.peek().is_none());
    /// ```
    pub fn wiping(self, wipes: bool) -> Consumer {
        Consumer { head: self.head.wiping(wipes), choice: None, ..self }
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
    /// has not is taken away from the producer.
    ///
    /// ```
    /// let rx = barewire_sys::ring::Consumer::new(barewire_sys::ring::RingMemory::create(4096).unwrap());
    /// assert!({ rx.fetch_ahead(); rx.peek().is_none() }, "it shows nothing that was not there");
    /// ```
    #[inline(always)]
    pub fn fetch_ahead(&self) {
        let ahead = if self.choice.is_some() { READ_AHEAD_LINES } else { READ_AHEAD_LINES_FAR };
        let line = (self.head.line() + ahead) & self.head.mask as usize;
        fetch_line(self.memory.data.wrapping_add(line * LINE_BYTES));
    }

    /// Fetches the line behind the packet at the head, which has `len` payload bytes, for who is about to do something that takes a while.
    ///
    /// ```
    /// let rx = barewire_sys::ring::Consumer::new(barewire_sys::ring::RingMemory::create(4096).unwrap());
    /// assert!({ rx.fetch_next(8); rx.peek().is_none() }, "it shows nothing that was not there");
    /// ```
    #[inline(always)]
    pub fn fetch_next(&self, len: usize) {
        let line = self.head.line().wrapping_add(lines_for(len) as usize) & self.head.mask as usize;
        fetch_line(self.memory.data.wrapping_add(line * LINE_BYTES));
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
        self.head.pass(&self.memory, lines_for(len)) && self.has_told()
    }

    /// The producer was told how much is free.
    #[cold]
    #[inline(never)]
    fn has_told(&mut self) -> bool {
        if let (Some(choice), true) = (&mut self.choice, self.head.at >= self.chosen_at) {
            self.chosen_at = self.head.at + self.memory.lines;
            self.head.wipes = !choice.next(ticks(), self.head.at);
        }
        true
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
