//! The producer of a ring in shared memory.

use super::memory::RingMemory;
use super::{Full, LINE_BYTES, Tail, WORDS_A_LINE, Words, lines_for, payload_at};
use crate::choice::Choice;
use crate::cpu::{is_amd, own_line, ticks};
use crate::sync::Ordering;
use crate::wirebuf::WireMut;

/// Packets of so many lines are worth fetching the next one's lines for.
const MANY_LINES: u64 = 8;
/// For shorter ones, one after the other, as many lines as the last one had are fetched this far ahead: a line takes longer to come than the
/// stores of a few packets can wait, and one that is fetched too soon goes back to a consumer that reads on the producer's heels.
const AHEAD: u64 = 4;
/// The same where the consumer may have written the line and both share a cache.
const AHEAD_NEAR: u64 = 2;

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
    /// How far that is to be, where it depends; it is made again when the tail gets to that line.
    choice: Option<Choice>,
    chosen_at: u64,
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
        let (depends, chosen_at) = (is_amd(), memory.lines);
        Producer {
            tail: Tail::new(memory.lines),
            memory,
            ahead: AHEAD,
            choice: depends.then(|| Choice::new(true)),
            chosen_at,
        }
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
        if !self.tail.has_room(need, spare) {
            self.look_for_room(need, spare)?;
        }
        let line = self.tail.line();
        self.tail.end_at(&self.memory, need);
        // SAFETY: there is room for so many lines from `line` on; the mirror keeps them contiguous, and there is one more,
        // so they lie inside the mapping. Nobody else writes them before `publish`.
        unsafe {
            let at = self.memory.data.add(line * LINE_BYTES);
            Ok(WireMut::from_raw(at.add(payload_at(len)), len))
        }
    }

    /// Looks how much has come back; that takes a while anyway.
    #[cold]
    #[inline(never)]
    fn look_for_room(&mut self, need: u64, spare: u64) -> Result<(), Full> {
        self.tail.reserve(&self.memory, need, spare)?;
        let at = self.tail.position();
        if let (Some(choice), true) = (&mut self.choice, at >= self.chosen_at) {
            self.chosen_at = at + self.memory.lines;
            self.ahead = if choice.next(ticks(), at) { AHEAD_NEAR } else { AHEAD };
        }
        Ok(())
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
