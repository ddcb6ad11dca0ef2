//! Mappings: anonymous shared memory with no name anywhere, so nothing is left behind by a kill.
//!
//! A [`Segment`] is a memfd and one mapping of it. Its pages are reserved when it is made (`fallocate`), so running
//! out of memory is an error with a size in it and never a bus error later. What a peer may write is reachable
//! only through bounds-checked copies and atomics.
//!
//! ```
//! use barewire_sys::{map::Segment, sync::Ordering};
//! let ours = Segment::create("a counter", 4096).unwrap();
//! let theirs = Segment::open(ours.fd().try_clone_to_owned().unwrap(), true).unwrap();
//! std::thread::scope(|scope| {
//!     for segment in [&ours, &theirs] {
//!         scope.spawn(|| (0..1000).for_each(|_| { segment.atomic_u64(8).unwrap().fetch_add(1, Ordering::Relaxed); }));
//!     }
//! });
//! assert_eq!(ours.atomic_u64(8).unwrap().load(Ordering::Relaxed), 2000, "two mappings of the same memory");
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::sync::{AtomicU32, AtomicU64};
use crate::wirebuf::{WireMut, WireRef};

/// A shared mapping and the memfd behind it.
///
/// ```
/// use barewire_sys::map::Segment;
/// let mine = Segment::create("example", 8192).unwrap();
/// let theirs = Segment::open(mine.fd().try_clone_to_owned().unwrap(), true).unwrap();
/// assert!(mine.write(100, b"hello"));
/// let mut seen = [0; 5];
/// assert!(theirs.read(100, &mut seen));
/// assert_eq!(&seen, b"hello");
/// ```
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    /// Bytes of the memfd; what offsets are checked against.
    len: usize,
    /// Bytes of address space, more than `len` where the tail is mapped twice.
    mapped: usize,
    writable: bool,
    fd: OwnedFd,
}

// SAFETY: the mapping lives until drop, and all access through `&self` is by atomics or by opaque copies.
unsafe impl Send for Segment {}
// SAFETY: as above; no method hands out a reference to plain memory.
unsafe impl Sync for Segment {}

/// Why shared memory could not be made or mapped.
///
/// ```
/// use barewire_sys::map::{MapError, Segment};
/// let too_much = Segment::create("example", 1 << 60).unwrap_err();
/// assert!(matches!(too_much, MapError::NoRoom { bytes, .. } if bytes == 1 << 60));
/// let file = std::fs::File::open("/dev/null").unwrap();
/// let from_a_liar = Segment::open(file.into(), false).unwrap_err();
/// assert_eq!(from_a_liar.to_string(), "shared memory from a peer is not usable: it is not a memfd");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The kernel has no room for the pages.
    #[error(
        "no room for {bytes} bytes of shared memory ({errno}); raise the container's or cgroup's memory limit, or start fewer ranks on this host"
    )]
    NoRoom {
        /// How many bytes were asked for.
        bytes: usize,
        /// What the kernel said.
        errno: Errno,
    },
    /// A memfd from a peer is not what a peer of ours would send.
    #[error("shared memory from a peer is not usable: {reason}")]
    Unfit {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A system call failed.
    #[error("{call} failed: {errno}")]
    System {
        /// The call.
        call: &'static str,
        /// What the kernel said.
        errno: Errno,
    },
}

impl Segment {
    /// Makes `bytes` (rounded up to pages) of zeroed shared memory. `label` shows in /proc/PID/maps only.
    ///
    /// ```
    /// use barewire_sys::map::Segment;
    /// let segment = Segment::create("example", 5000).unwrap();
    /// assert!(segment.len() >= 5000 && segment.len() % 4096 == 0);
    /// let mut last = [1; 100];
    /// assert!(segment.read(segment.len() - 100, &mut last));
    /// assert_eq!(last, [0; 100]);
    /// ```
    pub fn create(label: &str, bytes: usize) -> Result<Segment, MapError> {
        let len = round_to_page(bytes).ok_or(MapError::NoRoom { bytes, errno: Errno::NOMEM })?;
        let fd = new_memfd(label, len, MemfdFlags::empty())?;
        Segment::map(fd, len, None, true)
    }

    /// Like [`Segment::create`], in huge pages if the system has them to spare, else in normal pages with the advice to merge them.
    ///
    /// ```
    /// use barewire_sys::map::Segment;
    /// let segment = Segment::create_large("example", 3 << 20).unwrap();
    /// assert!(segment.len() >= 3 << 20, "it may be a bit larger");
    /// assert!(segment.write((3 << 20) - 3, b"end"));
    /// ```
    pub fn create_large(label: &str, bytes: usize) -> Result<Segment, MapError> {
        const HUGE: usize = 2 << 20;
        if bytes >= HUGE {
            if let Some(len) = bytes.checked_next_multiple_of(HUGE) {
                if let Ok(fd) = new_memfd(label, len, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB) {
                    if let Ok(segment) = Segment::map(fd, len, None, true) {
                        return Ok(segment);
                    }
                }
            }
        }
        let segment = Segment::create(label, bytes)?;
        if bytes >= HUGE {
            // SAFETY: the range is exactly our own mapping; advice changes no contents.
            let _ = unsafe {
                rustix::mm::madvise(
                    segment.base.as_ptr().cast(),
                    segment.mapped,
                    rustix::mm::Advice::LinuxHugepage,
                )
            };
        }
        Ok(segment)
    }

    /// Like [`Segment::create`], with the bytes from `twice_from` on mapped a second time behind the end, so that what
    /// wraps around is still contiguous. `twice_from` and `bytes` must be multiples of the page size.
    pub(crate) fn create_mirrored(label: &str, bytes: usize, twice_from: usize) -> Result<Segment, MapError> {
        let fd = new_memfd(label, bytes, MemfdFlags::empty())?;
        Segment::map(fd, bytes, Some(twice_from), true)
    }

    /// Maps a memfd received from a peer. It must be sealed against shrinking, so that its owner cannot take the pages
    /// away under us.
    ///
    /// ```
    /// use barewire_sys::map::{MapError, Segment};
    /// use barewire_sys::rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    /// let fd = memfd_create("theirs", MemfdFlags::ALLOW_SEALING).unwrap();
    /// ftruncate(&fd, 1 << 16).unwrap();
    /// assert!(matches!(Segment::open(fd.try_clone().unwrap(), true), Err(MapError::Unfit { .. })), "it could shrink");
    /// fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
    /// assert_eq!(Segment::open(fd, true).unwrap().len(), 1 << 16);
    /// ```
    pub fn open(fd: OwnedFd, writable: bool) -> Result<Segment, MapError> {
        let len = checked_size(&fd)?;
        Segment::map(fd, len, None, writable)
    }

    /// Has the system provide all pages now, where it can, instead of one by one on first use.
    ///
    /// ```
    /// use barewire_sys::map::Segment;
    /// Segment::create("example", 1 << 16).unwrap().populate();
    /// ```
    pub fn populate(&self) {
        use rustix::mm::Advice;
        let advice = if self.writable { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
        // SAFETY: the range is exactly our own mapping; advice changes no contents.
        let _ = unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), self.mapped, advice) };
    }

    /// [`Segment::open`] for a mirrored segment; `bytes` is the size it must have.
    pub(crate) fn open_mirrored(fd: OwnedFd, bytes: usize, twice_from: usize) -> Result<Segment, MapError> {
        if checked_size(&fd)? != bytes {
            return Err(MapError::Unfit { reason: "its size is not the one announced" });
        }
        Segment::map(fd, bytes, Some(twice_from), true)
    }

    /// Bytes of a memfd received from a peer, if it is sealed against shrinking.
    pub(crate) fn size_of(fd: &OwnedFd) -> Result<usize, MapError> {
        checked_size(fd)
    }

    fn map(fd: OwnedFd, len: usize, twice_from: Option<usize>, writable: bool) -> Result<Segment, MapError> {
        let page = rustix::param::page_size();
        let again = twice_from.unwrap_or(len);
        if len == 0 || again > len || again % page != 0 || len % page != 0 {
            return Err(MapError::Unfit { reason: "its size is not a whole number of pages" });
        }
        let mapped = len + (len - again);
        let prot = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let failed = |errno| MapError::System { call: "mmap", errno };
        // SAFETY: a fresh shared mapping at an address of the kernel's choice aliases no Rust object.
        let base = unsafe {
            if twice_from.is_some() {
                rustix::mm::mmap_anonymous(
                    std::ptr::null_mut(),
                    mapped,
                    ProtFlags::empty(),
                    MapFlags::PRIVATE,
                )
            } else {
                rustix::mm::mmap(std::ptr::null_mut(), mapped, prot, MapFlags::SHARED, &fd, 0)
            }
        }
        .map_err(failed)?;
        let base = NonNull::new(base.cast::<u8>()).expect("mmap never returns null");
        let segment = Segment { base, len, mapped, writable, fd };
        if twice_from.is_some() {
            let fixed = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: both ranges lie inside the reservation made above, which nothing else uses; on failure
            // `segment` unmaps it whole.
            unsafe {
                rustix::mm::mmap(base.as_ptr().cast(), len, prot, fixed, &segment.fd, 0).map_err(failed)?;
                let second = base.as_ptr().add(len).cast();
                rustix::mm::mmap(second, len - again, prot, fixed, &segment.fd, again as u64)
                    .map_err(failed)?;
            }
        }
        Ok(segment)
    }

    /// Bytes of memory behind the mapping.
    ///
    /// ```
    /// # use barewire_sys::map::Segment;
    /// let mine = Segment::create("example", 1 << 16).unwrap();
    /// let theirs = Segment::open(mine.fd().try_clone_to_owned().unwrap(), false).unwrap();
    /// assert_eq!((mine.len(), theirs.len()), (1 << 16, 1 << 16));
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// Where it is mapped; the memory is there as long as the segment is.
    ///
    /// ```
    /// # use barewire_sys::map::Segment;
    /// let mine = Segment::create("example", 4096).unwrap();
    /// let again = Segment::open(mine.fd().try_clone_to_owned().unwrap(), true).unwrap();
    /// assert_ne!(mine.address(), again.address(), "the same memory, at two places");
    /// assert_eq!(mine.wire_ref(100, 1).unwrap().address(), mine.address() as u64 + 100);
    /// ```
    pub fn address(&self) -> usize {
        self.base.as_ptr().expose_provenance()
    }

    /// Whether the segment has no bytes; it never has none.
    ///
    /// ```
    /// let segment = barewire_sys::map::Segment::create("example", 0).unwrap();
    /// assert!(!segment.is_empty() && segment.len() > 0, "who asks for nothing gets a page");
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the mapping may be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// The memfd, to be passed to a peer.
    ///
    /// ```
    /// use std::os::unix::fs::FileExt;
    /// let segment = barewire_sys::map::Segment::create("example", 4096).unwrap();
    /// let file = std::fs::File::from(segment.fd().try_clone_to_owned().unwrap());
    /// file.write_all_at(b"by the file", 10).unwrap();
    /// let mut seen = [0; 11];
    /// assert!(segment.read(10, &mut seen));
    /// assert_eq!(&seen, b"by the file");
    /// assert!(file.set_len(0).is_err(), "nobody can take the pages away");
    /// ```
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A second descriptor of the same memory that cannot be mapped writable.
    ///
    /// ```
    /// use barewire_sys::map::Segment;
    /// let mine = Segment::create("example", 4096).unwrap();
    /// assert!(Segment::open(mine.read_only_fd().unwrap(), true).is_err());
    /// let theirs = Segment::open(mine.read_only_fd().unwrap(), false).unwrap();
    /// assert!(mine.write(0, b"x") && !theirs.write(0, b"y"));
    /// ```
    pub fn read_only_fd(&self) -> Result<OwnedFd, MapError> {
        use rustix::fs::{Mode, OFlags};
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| MapError::System { call: "open of a memfd for reading", errno })
    }

    /// Copies `bytes` in at `offset`; false, touching nothing, if they do not fit or the segment is read-only.
    ///
    /// ```
    /// # use barewire_sys::map::Segment;
    /// let segment = Segment::create("example", 4096).unwrap();
    /// let end = segment.len();
    /// assert!(segment.write(end - 2, b"ab"));
    /// assert!(!segment.write(end - 1, b"cd") && !segment.write(usize::MAX, b"e"));
    /// assert_eq!(segment.wire_ref(end - 2, 2).unwrap().to_vec(), b"ab", "as it was");
    /// ```
    #[must_use]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        match self.wire_mut(offset, bytes.len()) {
            Some(mut wire) => {
                wire.write(bytes);
                true
            }
            None => false,
        }
    }

    /// Copies `into.len()` bytes out from `offset`; false if they are not all there.
    ///
    /// ```
    /// # use barewire_sys::map::Segment;
    /// let segment = Segment::create("example", 4096).unwrap();
    /// assert!(segment.write(3, &[1, 2, 3, 4]));
    /// let mut into = [9; 2];
    /// assert!(segment.read(4, &mut into));
    /// assert_eq!(into, [2, 3]);
    /// assert!(!segment.read(segment.len(), &mut into), "nothing lies there");
    /// ```
    #[must_use]
    pub fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        match self.wire_ref(offset, into.len()) {
            Some(mut wire) => wire.read(into) == into.len(),
            None => false,
        }
    }

    /// A place to write `len` bytes at `offset`.
    ///
    /// ```
    /// # use barewire_sys::map::Segment;
    /// let segment = Segment::create("example", 4096).unwrap();
    /// let mut place = segment.wire_mut(8, 16).unwrap();
    /// place.write_u64(7);
    /// place.write(b"and more than there is room for");
    /// assert_eq!(segment.wire_ref(16, 9).unwrap().to_vec(), b"and more\0");
    /// let theirs = Segment::open(segment.read_only_fd().unwrap(), false).unwrap();
    /// assert!(theirs.wire_mut(8, 16).is_none());
    /// ```
    #[inline]
    pub fn wire_mut(&self, offset: usize, len: usize) -> Option<WireMut<'_>> {
        if !self.writable || offset.checked_add(len)? > self.mapped {
            return None;
        }
        // SAFETY: the range was just checked to lie in a writable mapping that outlives the borrow of self.
        Some(unsafe { WireMut::from_raw(self.base.as_ptr().add(offset), len) })
    }

    /// `len` bytes to read from `offset`.
    ///
    /// ```
    /// # use barewire_sys::map::Segment;
    /// let segment = Segment::create("example", 4096).unwrap();
    /// assert!(segment.write(0, &[1, 0, 0, 0, 0, 0, 0, 0, 5]));
    /// let mut packet = segment.wire_ref(0, 9).unwrap();
    /// assert_eq!((packet.read_u64(), packet.to_vec()), (Some(1), vec![5]));
    /// assert!(segment.wire_ref(1, usize::MAX).is_none());
    /// ```
    #[inline]
    pub fn wire_ref(&self, offset: usize, len: usize) -> Option<WireRef<'_>> {
        if offset.checked_add(len)? > self.mapped {
            return None;
        }
        // SAFETY: the range was just checked to lie in a mapping that outlives the borrow of self.
        Some(unsafe { WireRef::from_raw(self.base.as_ptr().add(offset), len) })
    }

    /// The 8-byte word at `offset` as an atomic; `None` if out of range, unaligned, or read-only.
    ///
    /// ```
    /// use barewire_sys::{map::Segment, sync::Ordering};
    /// let segment = Segment::create("example", 4096).unwrap();
    /// let word = segment.atomic_u64(16).unwrap();
    /// word.store(u64::from_le_bytes(*b"a word.."), Ordering::Relaxed);
    /// assert_eq!(segment.wire_ref(16, 6).unwrap().to_vec(), b"a word");
    /// assert!([4, segment.len()].iter().all(|&offset| segment.atomic_u64(offset).is_none()));
    /// ```
    #[inline]
    pub fn atomic_u64(&self, offset: usize) -> Option<&AtomicU64> {
        if !self.writable || offset % 8 != 0 || offset.checked_add(8)? > self.mapped {
            return None;
        }
        // SAFETY: in range, aligned (the base is page aligned), writable, and only accessed by atomics and
        // opaque copies for as long as the mapping lives.
        Some(unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) })
    }

    /// The 4-byte word at `offset` as an atomic; `None` if out of range, unaligned, or read-only.
    ///
    /// ```
    /// use barewire_sys::{map::Segment, sync::Ordering};
    /// let mine = Segment::create("example", 4096).unwrap();
    /// let theirs = Segment::open(mine.fd().try_clone_to_owned().unwrap(), true).unwrap();
    /// assert_eq!(mine.atomic_u32(4).unwrap().swap(1, Ordering::Relaxed), 0, "who is first gets the lock");
    /// assert_eq!(theirs.atomic_u32(4).unwrap().swap(1, Ordering::Relaxed), 1);
    /// assert!(mine.atomic_u32(6).is_none(), "not aligned");
    /// ```
    #[inline]
    pub fn atomic_u32(&self, offset: usize) -> Option<&AtomicU32> {
        if !self.writable || offset % 4 != 0 || offset.checked_add(4)? > self.mapped {
            return None;
        }
        // SAFETY: as in `atomic_u64`.
        Some(unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) })
    }

    /// The start of the mapping, for code in this crate that keeps its own bounds.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the range is our own mapping, and no borrow of it outlives self.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

/// Rounds up to whole pages, at least one.
///
/// ```
/// assert_eq!(barewire_sys::map::round_to_page(1).unwrap() % 4096, 0);
/// ```
pub fn round_to_page(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(rustix::param::page_size())
}

fn new_memfd(label: &str, len: usize, extra: MemfdFlags) -> Result<OwnedFd, MapError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | extra;
    let fd = rustix::fs::memfd_create(label, flags)
        .map_err(|errno| MapError::System { call: "memfd_create", errno })?;
    let no_room = |errno| MapError::NoRoom { bytes: len, errno };
    // The kernel would first fill all memory and then call for a victim, rather than refuse.
    if len >= LARGE && memory_available().is_some_and(|available| len as u64 > available) {
        return Err(no_room(Errno::NOMEM));
    }
    rustix::fs::ftruncate(&fd, len as u64).map_err(no_room)?;
    rustix::fs::fallocate(&fd, FallocateFlags::empty(), 0, len as u64).map_err(no_room)?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .map_err(|errno| MapError::System { call: "sealing a memfd", errno })?;
    Ok(fd)
}

/// From this size on it is worth asking beforehand whether there is room.
const LARGE: usize = 16 << 20;

/// Bytes of memory that the kernel thinks can be had without swapping.
fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The size of a memfd that cannot shrink any more.
fn checked_size(fd: &OwnedFd) -> Result<usize, MapError> {
    let seals =
        rustix::fs::fcntl_get_seals(fd).map_err(|_| MapError::Unfit { reason: "it is not a memfd" })?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(MapError::Unfit { reason: "its owner could shrink it" });
    }
    let stat = rustix::fs::fstat(fd).map_err(|errno| MapError::System { call: "fstat", errno })?;
    usize::try_from(stat.st_size).map_err(|_| MapError::Unfit { reason: "its size is negative" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirrored_part_continues_behind_the_end() {
        let page = rustix::param::page_size();
        let s = Segment::create_mirrored("t", 3 * page, page).unwrap();
        assert!(s.write(3 * page - 2, b"abcd"));
        let mut seen = [0; 2];
        assert!(s.read(page, &mut seen));
        assert_eq!(&seen, b"cd");
        assert!(!s.write(5 * page - 1, b"ab"), "nothing lies behind the mirror");
    }

    #[test]
    fn a_memfd_that_could_shrink_is_refused() {
        let fd = rustix::fs::memfd_create("t", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, 4096).unwrap();
        assert!(matches!(Segment::open(fd, true), Err(MapError::Unfit { .. })));
    }

    #[test]
    fn a_read_only_descriptor_gives_a_read_only_segment() {
        let s = Segment::create("t", 4096).unwrap();
        assert!(Segment::open(s.read_only_fd().unwrap(), true).is_err());
        let r = Segment::open(s.read_only_fd().unwrap(), false).unwrap();
        assert!(!r.write(0, b"x"));
        assert!(r.atomic_u64(0).is_none());
        assert!(s.write(0, b"x"));
        let mut b = [0];
        assert!(r.read(0, &mut b));
        assert_eq!(&b, b"x");
    }

    #[test]
    fn too_large_a_segment_says_how_large() {
        let e = Segment::create("t", 1 << 50).unwrap_err();
        assert!(e.to_string().contains(&(1u64 << 50).to_string()), "{e}");
    }
}
