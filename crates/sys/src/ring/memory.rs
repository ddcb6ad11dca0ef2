//! The memory of a ring: a mirrored shared segment, with a page for what is no line.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::{LINE_BYTES, WORDS_A_LINE, Words};
use crate::map::{MapError, Segment, round_to_page};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

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
    pub(super) data: *mut u8,
    freed: *mut u64,
    pub(super) lines: u64,
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
    pub(super) fn wants_room(&self) -> &AtomicU32 {
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
