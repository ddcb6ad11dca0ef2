//! Write tracking by the kernel: which pages of memory were written since the last look.
//!
//! The pages are protected in the page table, and the kernel takes the protection off a page at the first write to it, with nobody
//! else involved (`userfaultfd` in its asynchronous mode, open to every user); one call lists the pages without it and protects
//! them anew (`PAGEMAP_SCAN`, Linux 6.7). A look costs some nanoseconds for each page there is, and the first write to a page
//! after it about a microsecond. System calls that write to the memory are seen too.
//!
//! What is not seen are writes that do not go through this process's page table: by another mapping, which is why memory that
//! neighbours can map is not watched, and by whoever looked the page up before the last look (direct input, and buffers
//! registered with io_uring).
//!
//! ```
//! use barewire_sys::{memory::Memory, watch::WriteWatch};
//! let memory = Memory::private(1 << 20);
//! if let Some(mut watch) = WriteWatch::new(&memory) {
//!     memory.write(500_000, b"x");
//!     let mut seen = Vec::new();
//!     watch.written(|part| seen.push(part));
//!     assert!(seen.iter().any(|part| part.contains(&500_000)));
//!     assert!(seen.iter().map(|part| part.len()).sum::<usize>() < 1 << 18, "and little else");
//! }
//! ```

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Opcode, opcode};
use rustix::mm::UserfaultfdFlags;

use crate::fork::Guard;
use crate::memory::Memory;

/// A watch over the writes to a block of memory.
///
/// ```
/// use barewire_sys::{memory::Memory, watch::WriteWatch};
/// let memory = Memory::private(1 << 20);
/// if let Some(watch) = WriteWatch::new(&memory) {
///     assert_eq!(memory.handles(), 2, "it keeps the memory");
///     assert!(WriteWatch::new(&memory).is_none(), "one is enough");
///     drop(watch);
///     assert!(WriteWatch::new(&memory).is_some());
/// }
/// ```
#[derive(Debug)]
pub struct WriteWatch {
    memory: Memory,
    /// Where the pages are that lie in the memory as a whole. What is before and behind them shares its page with others.
    pages: Range<usize>,
    faults: OwnedFd,
    pagemap: OwnedFd,
    guard: Guard,
}

impl WriteWatch {
    /// Watches `memory`; `None` if the kernel does not do that, or does not let us, or if neighbours can map the memory, or if it
    /// is watched already.
    ///
    /// ```
    /// use barewire_sys::{memory::Memory, watch::WriteWatch};
    /// assert!(WriteWatch::new(&Memory::shared(1 << 20).unwrap()).is_none(), "others could write to it unseen");
    /// assert!(WriteWatch::new(&Memory::private(100)).is_none(), "it has no page to itself");
    /// ```
    pub fn new(memory: &Memory) -> Option<WriteWatch> {
        let page = rustix::param::page_size();
        let end = memory.address().checked_add(memory.len())?;
        let pages = memory.address().checked_next_multiple_of(page)?..end / page * page;
        if memory.segment().is_some() || pages.is_empty() {
            return None;
        }
        let faults = open_userfaultfd()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let pagemap = rustix::fs::open("/proc/self/pagemap", flags, Mode::empty()).ok()?;
        let mut register = Register { range: FaultRange::new(&pages), mode: REGISTER_WRITES, ioctls: 0 };
        // SAFETY: the request takes a `Register`; what it changes is who hears of faults in pages that lie in `memory` as a
        // whole, and in the mode that was agreed on nobody has to answer them.
        unsafe { control(faults.as_fd(), UFFDIO_REGISTER, &mut register) }?;
        let mut watch = WriteWatch { memory: memory.clone(), pages, faults, pagemap, guard: Guard::new() };
        // Everything counts as written before the first look; a kernel that cannot look says so here.
        let Range { start, end } = watch.pages;
        watch.scan(start..end, |_| {}).ok()?;
        Some(watch)
    }

    /// Calls `each` for the parts of the memory that may have been written since the last time, or since the watch was made, in
    /// order; from now on they count as not written. All written bytes are in one, but not all bytes in one were written:
    /// they are whole pages, and what shares its page with other memory, at either end, is always among them.
    ///
    /// ```
    /// use barewire_sys::{memory::Memory, watch::WriteWatch};
    /// let memory = Memory::private(1 << 20);
    /// if let Some(mut watch) = WriteWatch::new(&memory) {
    ///     let mut sees = |at: usize| {
    ///         let mut seen = false;
    ///         watch.written(|part| seen |= part.contains(&at));
    ///         seen
    ///     };
    ///     memory.write(300_000, &[0]);
    ///     assert!(sees(300_000), "though it was zero before");
    ///     assert!(!sees(300_000), "not again");
    /// }
    /// ```
    pub fn written(&mut self, mut each: impl FnMut(Range<usize>)) {
        let base = self.memory.address();
        let mut tell = |from: usize, to: usize| {
            if from < to {
                each(from - base..to - base);
            }
        };
        let Range { start, end } = self.pages;
        tell(base, start);
        // In a forked child these are the parent's pages, and the parent's to look after.
        let done = match self.guard.is_parent() {
            true => self.scan(start..end, |part| tell(part.start, part.end)),
            false => Err(start),
        };
        if let Err(from) = done {
            tell(from, end);
        }
        tell(end, base + self.memory.len());
    }

    /// Lists the written pages among those given, and protects them; an error says from where on nothing was done.
    fn scan(&mut self, pages: Range<usize>, mut each: impl FnMut(Range<usize>)) -> Result<(), usize> {
        let mut parts = [Part { start: 0, end: 0, categories: 0 }; PARTS];
        let mut from = pages.start as u64;
        while from < pages.end as u64 {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                flags: SCAN_PROTECT | SCAN_CHECK,
                start: from,
                end: pages.end as u64,
                walk_end: from,
                parts: parts.as_mut_ptr().expose_provenance() as u64,
                parts_len: PARTS as u64,
                max_pages: 0,
                category_inverted: 0,
                category_mask: IS_WRITTEN,
                category_anyof_mask: 0,
                return_mask: IS_WRITTEN,
            };
            // SAFETY: the request takes a `Scan`; the kernel writes to it and to no more than `PARTS` of `parts`. The protection
            // that it changes is the kernel's to take off again, at the first write.
            let found = unsafe { control(self.pagemap.as_fd(), PAGEMAP_SCAN, &mut scan) };
            let found = found.filter(|_| scan.walk_end > from).ok_or(from as usize)?;
            parts[..found.min(PARTS)].iter().for_each(|part| each(part.start as usize..part.end as usize));
            from = scan.walk_end;
        }
        Ok(())
    }
}

impl Drop for WriteWatch {
    fn drop(&mut self) {
        if self.guard.is_parent() {
            let mut range = FaultRange::new(&self.pages);
            // SAFETY: the request takes a `FaultRange`; from then on the pages are as they were before `new`.
            unsafe { control(self.faults.as_fd(), UFFDIO_UNREGISTER, &mut range) };
        }
    }
}

/// A descriptor of asynchronous write tracking. One that never hears of the kernel's own faults needs no privilege, and in this
/// mode nobody hears of any.
fn open_userfaultfd() -> Option<OwnedFd> {
    let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
    let flags = flags | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
    // SAFETY: nothing is done to any memory before a range is registered.
    let called = unsafe { rustix::mm::userfaultfd(flags) }.ok();
    let faults = called.or_else(|| userfaultfd_by_device(flags))?;
    let mut api = Api { api: API, features: WRITES_ASYNC | WRITES_UNPOPULATED, ioctls: 0 };
    // SAFETY: the request takes an `Api`, and changes nothing but what the descriptor can do.
    unsafe { control(faults.as_fd(), UFFDIO_API, &mut api) }?;
    Some(faults)
}

/// The same from the device, for whom its permissions allow what the system call refuses.
fn userfaultfd_by_device(flags: UserfaultfdFlags) -> Option<OwnedFd> {
    use std::os::fd::FromRawFd;
    let open = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/userfaultfd", open, Mode::empty()).ok()?;
    let flags = libc::c_ulong::from(flags.bits());
    // SAFETY: the request takes flags and no address.
    let fd = unsafe { libc::ioctl(device.as_raw_fd(), USERFAULTFD_NEW as libc::Ioctl, flags) };
    // SAFETY: the kernel has just made the descriptor, for us.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// One request to the kernel; what it returned.
///
/// # Safety
/// `request` takes a `T`, and what it does with it and to the process must be sound.
unsafe fn control<T>(fd: BorrowedFd<'_>, request: Opcode, argument: &mut T) -> Option<usize> {
    // SAFETY: the argument is of the request's type, says the caller, and ours alone during the call.
    let returned =
        unsafe { libc::ioctl(fd.as_raw_fd(), request as libc::Ioctl, std::ptr::from_mut(argument)) };
    usize::try_from(returned).ok()
}

/// Parts of memory that one scan lists at most.
const PARTS: usize = 64;

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_range`.
#[repr(C)]
struct FaultRange {
    start: u64,
    len: u64,
}

impl FaultRange {
    fn new(pages: &Range<usize>) -> FaultRange {
        FaultRange { start: pages.start as u64, len: pages.len() as u64 }
    }
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    range: FaultRange,
    mode: u64,
    ioctls: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Part {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    /// Where the scan stopped, which may be before the end.
    walk_end: u64,
    parts: u64,
    parts_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const _: () = assert!(size_of::<Api>() == 24 && size_of::<Register>() == 32);
const _: () = assert!(size_of::<Part>() == 24 && size_of::<Scan>() == 96);

const API: u64 = 0xaa;
const UFFDIO_API: Opcode = opcode::read_write::<Api>(0xaa, 0x3f);
const UFFDIO_REGISTER: Opcode = opcode::read_write::<Register>(0xaa, 0x00);
const UFFDIO_UNREGISTER: Opcode = opcode::read::<FaultRange>(0xaa, 0x01);
const USERFAULTFD_NEW: Opcode = opcode::none(0xaa, 0x00);
const PAGEMAP_SCAN: Opcode = opcode::read_write::<Scan>(b'f', 16);
/// `UFFD_USER_MODE_ONLY`.
const USER_MODE_ONLY: u32 = 1;
/// `UFFD_FEATURE_WP_UNPOPULATED`: pages that were never touched are protected too.
const WRITES_UNPOPULATED: u64 = 1 << 13;
/// `UFFD_FEATURE_WP_ASYNC`: the kernel takes the protection off itself.
const WRITES_ASYNC: u64 = 1 << 15;
/// `UFFDIO_REGISTER_MODE_WP`.
const REGISTER_WRITES: u64 = 1 << 1;
/// `PM_SCAN_WP_MATCHING`: what is listed is protected.
const SCAN_PROTECT: u64 = 1 << 0;
/// `PM_SCAN_CHECK_WPASYNC`: an error where writes are not tracked.
const SCAN_CHECK: u64 = 1 << 1;
/// `PAGE_IS_WRITTEN`.
const IS_WRITTEN: u64 = 1 << 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory and a watch over it, or a word about why there is none.
    fn watched() -> Option<(Memory, WriteWatch)> {
        let memory = Memory::private(30 * rustix::param::page_size());
        let watch = WriteWatch::new(&memory);
        if watch.is_none() {
            skipped();
        }
        watch.map(|watch| (memory, watch))
    }

    fn skipped() {
        eprintln!(
            "SKIPPED: the kernel tracks no writes here (that takes Linux 6.7, and userfaultfd allowed)"
        );
    }

    /// The pages, numbered from the first whole one, that count as written; both edges have to be among the parts.
    fn pages(watch: &mut WriteWatch) -> Vec<usize> {
        let first = watch.pages.start - watch.memory.address();
        let last = watch.pages.end - watch.memory.address();
        let mut parts = Vec::new();
        watch.written(|part| parts.push(part));
        assert!(parts.is_sorted_by(|a, b| a.end <= b.start), "in order: {parts:?}");
        let edges = [0..first, last..watch.memory.len()].into_iter().filter(|edge| !edge.is_empty());
        for edge in edges {
            let found = parts.iter().position(|part| *part == edge).expect("edges are always told");
            parts.remove(found);
        }
        let page = rustix::param::page_size();
        parts.into_iter().flat_map(|part| (part.start - first) / page..(part.end - first) / page).collect()
    }

    /// Where a page begins in the memory.
    fn at(watch: &WriteWatch, page: usize) -> usize {
        watch.pages.start - watch.memory.address() + page * rustix::param::page_size()
    }

    #[test]
    fn what_is_written_is_seen_once_whatever_the_value() {
        let Some((memory, mut watch)) = watched() else { return };
        assert_eq!(pages(&mut watch), [] as [usize; 0]);
        for _ in 0..3 {
            assert!(memory.write(at(&watch, 7) + 5, &[0]) && memory.write(at(&watch, 9) - 1, b"xy"));
            assert_eq!(pages(&mut watch), [7, 8, 9]);
            assert_eq!(pages(&mut watch), [] as [usize; 0]);
        }
        let mut all = vec![0; memory.len()];
        assert!(memory.read(0, &mut all));
        assert_eq!(pages(&mut watch), [] as [usize; 0], "reading is not writing");
    }

    #[test]
    fn more_parts_than_one_scan_lists_are_all_seen() {
        let memory = Memory::private(4 * PARTS * rustix::param::page_size());
        let Some(mut watch) = WriteWatch::new(&memory) else { return skipped() };
        let last = watch.pages.len() / rustix::param::page_size() - 1;
        (0..last).step_by(2).for_each(|page| assert!(memory.write(at(&watch, page), &[1])));
        let mut parts = 0;
        watch.written(|_| parts += 1);
        assert!(parts >= last.div_ceil(2), "{parts} of {}", last.div_ceil(2));
    }

    #[test]
    fn what_system_calls_and_other_threads_write_is_seen() {
        let Some((memory, mut watch)) = watched() else { return };
        let zeros = std::fs::File::open("/dev/zero").unwrap();
        let place = std::ptr::with_exposed_provenance_mut::<u8>(memory.address() + at(&watch, 3));
        // SAFETY: a page lies behind the place, and is nobody else's at the moment.
        let read = unsafe { libc::read(zeros.as_raw_fd(), place.cast(), 10) };
        assert_eq!(read, 10);
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(memory.write(at(&watch, 20), b"from a thread")));
        });
        assert_eq!(pages(&mut watch), [3, 20]);
    }

    #[test]
    fn a_forked_child_sees_all_as_written_and_takes_nothing_from_its_parent() {
        let Some((memory, mut watch)) = watched() else { return };
        assert!(memory.write(at(&watch, 5), &[1]));
        // SAFETY: the child looks at its watch and ends; it allocates nothing.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut bytes = 0;
            watch.written(|part| bytes += part.len());
            drop(watch);
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(bytes != memory.len())) }
        }
        let mut status = -1;
        // SAFETY: writes the status of our own child to our own variable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        assert_eq!(pages(&mut watch), [5]);
        assert!(memory.write(at(&watch, 6), &[1]));
        assert_eq!(pages(&mut watch), [6], "and it goes on");
    }

    #[test]
    fn the_device_gives_the_same_as_the_system_call() {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
        let Some(faults) = userfaultfd_by_device(flags) else {
            eprintln!("SKIPPED: no access to /dev/userfaultfd");
            return;
        };
        let mut api = Api { api: API, features: 0, ioctls: 0 };
        // SAFETY: the request takes an `Api`.
        assert_eq!(unsafe { control(faults.as_fd(), UFFDIO_API, &mut api) }, Some(0));
    }
}
