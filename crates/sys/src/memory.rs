//! Memory that others may read and write: the bytes behind a region.
//!
//! A [`Memory`] is a counted handle to a block of bytes: shared memory of ours, which neighbours can map and reach with
//! one copy; private memory; or a C caller's buffer. All access is by copies and atomics, so a concurrent put from another
//! process is a race between bytes and never undefined behaviour.
//!
//! ```
//! use barewire_sys::{map::Segment, memory::Memory};
//! let region = Memory::shared(10_000).unwrap();
//! let fd = region.segment().unwrap().fd().try_clone_to_owned().unwrap();
//! let neighbours = Memory::neighbour(Segment::open(fd, true).unwrap(), 10_000).unwrap();
//! assert!(neighbours.write(9_000, b"put"));
//! assert_eq!(region.wire_ref(9_000, 3).unwrap().to_vec(), b"put", "with one copy");
//! ```

use std::alloc::Layout;
use std::sync::Arc;

use crate::map::{MapError, Segment};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::wirebuf::{WireMut, WireRef};

/// A block of bytes with shared ownership.
///
/// ```
/// use barewire_sys::memory::Memory;
/// let memory = Memory::shared(1 << 16).unwrap();
/// assert!(memory.write(10, b"abc"));
/// let mut seen = [0; 3];
/// assert!(memory.read(10, &mut seen));
/// assert_eq!(&seen, b"abc");
/// assert!(!memory.write((1 << 16) - 1, b"abc"), "out of range touches nothing");
/// ```
#[derive(Clone, Debug)]
pub struct Memory(Arc<Block>);

#[derive(Debug)]
struct Block {
    base: *mut u8,
    len: usize,
    writable: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Heap(Layout),
    Shared(Segment),
    Foreign,
}

// SAFETY: a block is raw bytes accessed only by opaque copies and atomics; its owner frees it exactly once.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// Words in the first page of shared memory, one for each way it is exported at the moment.
pub const GRANTS_MAX: usize = 500;

impl Memory {
    /// Zeroed shared memory that neighbours on this host can map.
    ///
    /// ```
    /// use barewire_sys::memory::Memory;
    /// let memory = Memory::shared(100).unwrap();
    /// assert_eq!((memory.len(), memory.segment().is_some()), (100, true));
    /// assert_eq!(memory.wire_ref(0, 100).unwrap().to_vec(), [0; 100]);
    /// assert!(Memory::shared(usize::MAX).is_err());
    /// ```
    pub fn shared(len: usize) -> Result<Memory, MapError> {
        let page = rustix::param::page_size();
        let whole =
            len.checked_add(page).ok_or(MapError::NoRoom { bytes: len, errno: rustix::io::Errno::NOMEM })?;
        let segment = Segment::create_large("barewire-memory", whole)?;
        Ok(Memory::over_segment(segment, len))
    }

    /// A neighbour's shared memory, from the descriptor it passed to us.
    ///
    /// ```
    /// use barewire_sys::{map::Segment, memory::Memory};
    /// let mine = Memory::shared(4096).unwrap();
    /// let mapped = || Segment::open(mine.segment().unwrap().read_only_fd().unwrap(), false).unwrap();
    /// assert!(Memory::neighbour(mapped(), 4 << 20).is_err(), "it says more than there is");
    /// let theirs = Memory::neighbour(mapped(), 4096).unwrap();
    /// assert!(mine.write(0, b"hello"));
    /// assert_eq!(theirs.wire_ref(0, 5).unwrap().to_vec(), b"hello");
    /// ```
    pub fn neighbour(segment: Segment, len: usize) -> Result<Memory, MapError> {
        let page = rustix::param::page_size();
        if len.checked_add(page).is_none_or(|whole| whole > segment.len()) {
            return Err(MapError::Unfit { reason: "it is shorter than announced" });
        }
        Ok(Memory::over_segment(segment, len))
    }

    fn over_segment(segment: Segment, len: usize) -> Memory {
        // SAFETY: the segment is at least a page longer than `len`, checked by both callers.
        let base = unsafe { segment.base().as_ptr().add(rustix::param::page_size()) };
        Memory(Arc::new(Block { base, len, writable: segment.is_writable(), kind: Kind::Shared(segment) }))
    }

    /// Zeroed private memory, aligned to a cache line.
    ///
    /// ```
    /// use barewire_sys::memory::Memory;
    /// let memory = Memory::private(3);
    /// assert_eq!((memory.len(), memory.address() % 64), (3, 0));
    /// assert!(memory.segment().is_none(), "nobody can map it");
    /// ```
    pub fn private(len: usize) -> Memory {
        let layout =
            Layout::from_size_align(len.max(1), 64).expect("64 is a power of two and len fits isize");
        // SAFETY: the layout's size is not zero.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        if base.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        Memory(Arc::new(Block { base, len, writable: true, kind: Kind::Heap(layout) }))
    }

    /// A caller's memory, for the C interfaces.
    ///
    /// # Safety
    /// `len` bytes at `base` must stay readable and writable until every clone of the handle is gone, and Rust
    /// references to them must not be used while others may access them.
    ///
    /// ```
    /// use barewire_sys::memory::Memory;
    /// let mut buffer = *b"a caller's";
    /// // SAFETY: the buffer outlives the handle, and nobody else uses it until then.
    /// let memory = unsafe { Memory::foreign(buffer.as_mut_ptr(), buffer.len()) };
    /// assert!(memory.write(2, b"CALLER") && !memory.write(9, b"too far"));
    /// drop(memory);
    /// assert_eq!(&buffer, b"a CALLER's");
    /// ```
    pub unsafe fn foreign(base: *mut u8, len: usize) -> Memory {
        Memory(Arc::new(Block { base, len, writable: true, kind: Kind::Foreign }))
    }

    /// Bytes in the block.
    ///
    /// ```
    /// use barewire_sys::memory::Memory;
    /// assert_eq!(Memory::private(13).len(), 13, "to the byte");
    /// assert_eq!(Memory::shared(13).unwrap().len(), 13, "though it is made of pages");
    /// ```
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Where the block is in this process, for the C interfaces.
    ///
    /// ```
    /// # use barewire_sys::memory::Memory;
    /// let mut buffer = [0; 4];
    /// // SAFETY: the buffer outlives the handle, through which nobody touches it.
    /// let memory = unsafe { Memory::foreign(buffer.as_mut_ptr(), 4) };
    /// assert_eq!(memory.address(), buffer.as_ptr().addr());
    /// ```
    pub fn address(&self) -> usize {
        self.0.base as usize
    }

    /// Whether the block has no bytes.
    ///
    /// ```
    /// # use barewire_sys::memory::Memory;
    /// let nothing = Memory::private(0);
    /// assert!(nothing.is_empty() && nothing.write(0, b"") && !nothing.write(0, b"x"));
    /// assert!(!Memory::private(1).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Whether two handles are of the same block.
    ///
    /// ```
    /// # use barewire_sys::memory::Memory;
    /// let (one, other) = (Memory::private(8), Memory::private(8));
    /// assert!(one.same_block(&one.clone()) && !one.same_block(&other));
    /// ```
    pub fn same_block(&self, other: &Memory) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many handles there are to the block.
    ///
    /// ```
    /// let memory = barewire_sys::memory::Memory::private(8);
    /// let again = memory.clone();
    /// assert_eq!(memory.handles(), 2);
    /// ```
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// The segment behind shared memory.
    ///
    /// ```
    /// # use barewire_sys::memory::Memory;
    /// let shared = Memory::shared(1 << 16).unwrap();
    /// assert!(shared.segment().unwrap().len() > 1 << 16, "there is a page for grants before it");
    /// assert!(Memory::private(1 << 16).segment().is_none());
    /// ```
    pub fn segment(&self) -> Option<&Segment> {
        match &self.0.kind {
            Kind::Shared(segment) => Some(segment),
            _ => None,
        }
    }

    /// Copies `bytes` in at `offset`; false, touching nothing, if they do not fit.
    ///
    /// ```
    /// # use barewire_sys::memory::Memory;
    /// let memory = Memory::private(4);
    /// assert!(memory.write(1, b"ab"));
    /// assert!(!memory.write(3, b"xy"), "only one byte is left there");
    /// assert_eq!(memory.wire_ref(0, 4).unwrap().to_vec(), b"\0ab\0");
    /// ```
    #[must_use]
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        self.wire_mut(offset, bytes.len()).map(|mut wire| wire.write(bytes)).is_some()
    }

    /// Copies `into.len()` bytes out from `offset`; false if they are not all there.
    ///
    /// ```
    /// # use barewire_sys::memory::Memory;
    /// let memory = Memory::private(8);
    /// assert!(memory.write(0, &7u32.to_le_bytes()));
    /// let mut number = [0; 4];
    /// assert!(memory.read(0, &mut number));
    /// assert_eq!(u32::from_le_bytes(number), 7);
    /// assert!(!memory.read(6, &mut number));
    /// ```
    #[must_use]
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        self.wire_ref(offset, into.len()).map(|mut wire| wire.read(into)).is_some()
    }

    /// A place to write `len` bytes at `offset`.
    ///
    /// ```
    /// use barewire_sys::{memory::Memory, wirebuf::WireRef};
    /// let memory = Memory::private(16);
    /// let mut packet = WireRef::new(b"straight from a packet");
    /// assert_eq!(memory.wire_mut(0, 16).unwrap().write_from(&mut packet), 16);
    /// assert_eq!(packet.to_vec(), b"packet", "the rest, which goes elsewhere");
    /// ```
    #[inline]
    pub fn wire_mut(&self, offset: usize, len: usize) -> Option<WireMut<'_>> {
        self.writable_at(offset, len)
            // SAFETY: `at` checked the range, and the block lives as long as the borrow of self.
            .map(|at| unsafe { WireMut::from_raw(at, len) })
    }

    /// `len` bytes to read from `offset`.
    ///
    /// ```
    /// # use barewire_sys::memory::Memory;
    /// let (from, to) = (Memory::private(100), Memory::private(100));
    /// assert!(from.write(40, b"moved"));
    /// to.wire_mut(0, 5).unwrap().write_from(&mut from.wire_ref(40, 5).unwrap());
    /// assert_eq!(to.wire_ref(0, 5).unwrap().to_vec(), b"moved");
    /// assert!(from.wire_ref(96, 5).is_none());
    /// ```
    #[inline]
    pub fn wire_ref(&self, offset: usize, len: usize) -> Option<WireRef<'_>> {
        self.at(offset, len)
            // SAFETY: `at` checked the range, and the block lives as long as the borrow of self.
            .map(|at| unsafe { WireRef::from_raw(at, len) })
    }

    /// The 8-byte word at `offset` as an atomic; `None` if out of range or unaligned.
    ///
    /// ```
    /// use barewire_sys::{memory::Memory, sync::Ordering};
    /// let memory = Memory::private(16);
    /// let sum = memory.atomic_u64(8).unwrap();
    /// std::thread::scope(|scope| {
    ///     (0..4).for_each(|_| { scope.spawn(|| sum.fetch_add(10, Ordering::Relaxed)); });
    /// });
    /// assert_eq!(memory.wire_ref(8, 8).unwrap().read_u64(), Some(40));
    /// assert!(memory.atomic_u64(9).is_none() && memory.atomic_u64(16).is_none());
    /// ```
    #[inline]
    pub fn atomic_u64(&self, offset: usize) -> Option<&AtomicU64> {
        let at = self.writable_at(offset, 8).filter(|at| at.addr() % 8 == 0)?;
        // SAFETY: in range and aligned; all other access is by atomics and opaque copies.
        Some(unsafe { AtomicU64::from_ptr(at.cast()) })
    }

    /// The 4-byte word at `offset` as an atomic; `None` if out of range or unaligned.
    ///
    /// ```
    /// use barewire_sys::{memory::Memory, sync::Ordering};
    /// let memory = Memory::private(8);
    /// let word = memory.atomic_u32(4).unwrap();
    /// assert!(word.compare_exchange(0, 9, Ordering::Relaxed, Ordering::Relaxed).is_ok());
    /// assert_eq!(memory.wire_ref(4, 4).unwrap().to_vec(), 9u32.to_ne_bytes());
    /// assert!(memory.atomic_u32(2).is_none());
    /// ```
    #[inline]
    pub fn atomic_u32(&self, offset: usize) -> Option<&AtomicU32> {
        let at = self.writable_at(offset, 4).filter(|at| at.addr() % 4 == 0)?;
        // SAFETY: in range and aligned; all other access is by atomics and opaque copies.
        Some(unsafe { AtomicU32::from_ptr(at.cast()) })
    }

    #[inline]
    fn writable_at(&self, offset: usize, len: usize) -> Option<*mut u8> {
        if self.0.writable { self.at(offset, len) } else { None }
    }

    #[inline]
    fn at(&self, offset: usize, len: usize) -> Option<*mut u8> {
        if offset.checked_add(len)? > self.0.len {
            return None;
        }
        // SAFETY: offset <= len of the block.
        Some(unsafe { self.0.base.add(offset) })
    }

    /// Says in the shared memory itself that grant `slot` is valid under `nonce`; zero revokes it.
    ///
    /// ```
    /// use barewire_sys::memory::{GRANTS_MAX, Memory};
    /// let memory = Memory::shared(4096).unwrap();
    /// assert!(memory.set_grant(0, 123) && memory.set_grant(1, 456));
    /// assert!(memory.set_grant(0, 0), "revoked");
    /// assert_eq!((memory.grant(0), memory.grant(1)), (0, 456));
    /// assert!(!memory.set_grant(GRANTS_MAX, 1) && !Memory::private(8).set_grant(0, 1), "no such word");
    /// ```
    pub fn set_grant(&self, slot: usize, nonce: u64) -> bool {
        match self.segment().and_then(|s| s.atomic_u64(slot.checked_mul(8)?)) {
            Some(word) if slot < GRANTS_MAX => {
                // SYNC grant: pairs with the Acquire in `grant`.
                word.store(nonce, Ordering::Release);
                true
            }
            _ => false,
        }
    }

    /// The nonce under which grant `slot` is valid at the moment; zero if it is not.
    ///
    /// ```
    /// use barewire_sys::{map::Segment, memory::Memory};
    /// let mine = Memory::shared(64).unwrap();
    /// let fd = mine.segment().unwrap().read_only_fd().unwrap();
    /// let theirs = Memory::neighbour(Segment::open(fd, false).unwrap(), 64).unwrap();
    /// mine.set_grant(7, 99);
    /// // A neighbour looks before it reads, and once more after it: what was revoked meanwhile does not count.
    /// assert_eq!(theirs.grant(7), 99);
    /// mine.set_grant(7, 0);
    /// assert_eq!(theirs.grant(7), 0);
    /// ```
    #[inline]
    pub fn grant(&self, slot: usize) -> u64 {
        let mut word = [0; 8];
        match self.segment() {
            // SYNC grant: a read-only mapping has no atomics; the eight aligned bytes are copied in one piece.
            Some(segment) if slot < GRANTS_MAX && segment.read(slot * 8, &mut word) => {
                u64::from_ne_bytes(word)
            }
            _ => 0,
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Kind::Heap(layout) = self.kind {
            // SAFETY: allocated in `private` with this layout, and this is the last handle.
            unsafe { std::alloc::dealloc(self.base, layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics_need_alignment_and_range() {
        let m = Memory::private(16);
        assert!(m.atomic_u64(8).is_some());
        assert!(m.atomic_u64(4).is_none());
        assert!(m.atomic_u64(16).is_none());
        assert!(m.atomic_u32(12).is_some());
        assert!(m.atomic_u32(usize::MAX).is_none());
    }

    #[test]
    fn a_revoked_grant_is_seen_by_the_neighbour() {
        let mine = Memory::shared(100).unwrap();
        let fd = mine.segment().unwrap().read_only_fd().unwrap();
        let theirs = Memory::neighbour(Segment::open(fd, false).unwrap(), 100).unwrap();
        assert!(mine.set_grant(3, 77));
        assert_eq!(theirs.grant(3), 77);
        assert!(!theirs.write(0, b"x"), "read-only memory is not written");
        assert!(theirs.atomic_u64(0).is_none());
        assert!(mine.set_grant(3, 0));
        assert_eq!(theirs.grant(3), 0);
        assert!(!mine.set_grant(GRANTS_MAX, 1));
    }
}
