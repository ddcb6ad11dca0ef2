//! Copying in and out of memory that a peer may be writing: our own routine, fast at every size and alignment.
//!
//! Two things rule out the library's `memcpy` here. It reads through the language's memory model, where a byte that
//! another process changes meanwhile is a data race and so undefined; and from about 2 KiB up it switches to
//! `rep movsb`, which on several processors falls to a tenth of its speed when source and destination are a few
//! bytes apart within their pages, as user buffers from `malloc` usually are.
//!
//! So every access below is an instruction inside `asm!` on raw pointers (on other architectures a volatile
//! access). The compiler sees an opaque operation on memory: it may not assume that two reads agree, nor
//! invent, split or repeat one. If a peer writes the source during the copy, the destination holds some mix
//! of old and new bytes, which whoever checks the bytes has to expect, and nothing worse happens.
//!
//! - [`copy`] for everything;
//! - [`copy_in`] for what another process has written;
//! - [`copy_small`] where the length is known to be at most [`SMALL_MAX`]: inlined, no call, no dispatch;
//! - [`copy_stream`] for big copies whose destination nobody reads soon: past the caches;
//! - [`copy_string`] for long copies into lines that another processor has: without fetching them first.
//!
//! Ordering: the copies order nothing by themselves. Publish with a Release store after copying in, and
//! take with an Acquire load before copying out. `copy_stream` ends with the fence that makes its stores obey this.
//!
//! ```
//! use barewire_sys::copy::{SMALL_MAX, copy, copy_small, copy_stream};
//! let from: Vec<u8> = (0..10_000).map(|at| (at % 251) as u8).collect();
//! let mut to = vec![0; 10_000];
//! let (dst, src) = (to.as_mut_ptr(), from.as_ptr());
//! // SAFETY: two distinct allocations of 10 000 bytes; all three parts lie inside.
//! unsafe {
//!     copy_small(dst, src, SMALL_MAX);
//!     copy(dst.add(64), src.add(64), 936);
//!     copy_stream(dst.add(1000), src.add(1000), 9000);
//! }
//! assert_eq!(to, from);
//! ```

mod portable;
#[cfg(test)]
mod tests;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

#[cfg(any(miri, not(target_arch = "x86_64")))]
use portable::as_arch as arch;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x86 as arch;

/// The most bytes [`copy_small`] takes: one cache line.
pub const SMALL_MAX: usize = 64;

/// Copies `len` bytes from `src` to `dst`, of which either may be memory that another process writes meanwhile.
///
/// Meant for data that is, or soon will be, in a cache; see [`copy_stream`] for the rest.
///
/// # Safety
///
/// `src` is valid for reads of `len` bytes, `dst` for writes of `len` bytes, and the two ranges do not overlap. No
/// alignment is asked for. No Rust reference covers bytes of the range that a peer may write, and none
/// but the caller's own covers `dst`.
///
/// ```
/// let from = *b"a message of some length";
/// let mut to = [0u8; 24];
/// // SAFETY: two distinct arrays of 24 bytes.
/// unsafe { barewire_sys::copy::copy(to.as_mut_ptr(), from.as_ptr(), 24) };
/// assert_eq!(to, from);
/// ```
#[inline]
pub unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
    if len <= SMALL_MAX {
        // SAFETY: the caller's promise, and the length was just checked.
        unsafe { arch::copy_small(dst, src, len) }
    } else {
        // SAFETY: the caller's promise, and the length was just checked.
        unsafe { arch::copy_over_small(dst, src, len) }
    }
}

/// [`copy`] of what another process has written, [gently](read_gently) if that was said.
///
/// # Safety
///
/// As for [`copy`].
///
/// ```
/// let from = vec![7u8; 100_000];
/// let mut to = vec![0u8; 100_000];
/// // SAFETY: two distinct allocations of 100 000 bytes.
/// unsafe { barewire_sys::copy::copy_in(to.as_mut_ptr(), from.as_ptr(), from.len()) };
/// assert_eq!(to, from);
/// ```
#[inline]
pub unsafe fn copy_in(dst: *mut u8, src: *const u8, len: usize) {
    if len <= SMALL_MAX {
        // SAFETY: the caller's promise, and the length was just checked.
        unsafe { arch::copy_small(dst, src, len) }
    } else {
        // SAFETY: the caller's promise, and the length was just checked.
        unsafe { arch::copy_in(dst, src, len) }
    }
}

/// Has this process read long packets gently from now on, or as usual: with consideration for whoever wrote them, and will again.
///
/// On processors that copy long ones by an instruction of their own (Zen 5), lines that were read by it may take three times as long to write when they come
/// round again, for as long as the cache that reader and writer share has no room for all of them. A loop, which is the gentle way, takes a tenth
/// longer itself from 14 KiB up. Who reads cannot notice, so [who writes](crate::readers) has to say. A matter of speed only.
///
/// ```
/// use barewire_sys::{copy::read_gently, wirebuf::WireRef};
/// let (from, mut to) = (vec![7; 40_000], vec![0; 40_000]);
/// for gently in [true, false] {
///     read_gently(gently);
///     to.fill(0);
///     WireRef::new(&from).read(&mut to);
///     assert_eq!(to, from);
/// }
/// ```
#[inline]
pub fn read_gently(gently: bool) {
    arch::read_gently(gently);
}

/// Copies at most [`SMALL_MAX`] bytes in place: a few branches, two to four loads and as many stores, no call.
///
/// With a constant `len` the branches vanish too. All loads come before all stores.
///
/// # Safety
///
/// As for [`copy`], and `len <= SMALL_MAX`.
///
/// ```
/// let from = 0x0123_4567_89ab_cdef_u64.to_le_bytes();
/// let mut to = [0u8; 8];
/// // SAFETY: two distinct arrays of 8 bytes.
/// unsafe { barewire_sys::copy::copy_small(to.as_mut_ptr(), from.as_ptr(), 8) };
/// assert_eq!(to, from);
/// ```
#[inline(always)]
pub unsafe fn copy_small(dst: *mut u8, src: *const u8, len: usize) {
    debug_assert!(len <= SMALL_MAX);
    // SAFETY: the caller's promise.
    unsafe { arch::copy_small(dst, src, len) }
}

/// Copies with stores that go past the caches, then fences so that a later Release store publishes them.
///
/// Twice as fast as [`copy`] where the destination is in no cache, because its old content is not fetched first;
/// three to ten times slower where it is in a near one. Afterwards the destination is in memory only, so
/// whoever reads it soon pays for that. Hence: from [`STREAM_MIN_BYTES`] up whatever the caches hold; from
/// [`STREAM_COLD_MIN_BYTES`] up if the destination is known to be cold and nobody reads it at once; never for rings.
///
/// # Safety
///
/// As for [`copy`].
///
/// ```
/// let from = vec![7u8; 100_000];
/// let mut to = vec![0u8; 100_000];
/// // SAFETY: two distinct allocations of 100 000 bytes.
/// unsafe { barewire_sys::copy::copy_stream(to.as_mut_ptr(), from.as_ptr(), from.len()) };
/// assert_eq!(to, from);
/// ```
pub unsafe fn copy_stream(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise; `best` names only what this processor has.
    unsafe { stream_with(Kernel::best(), dst, src, len) }
}

/// Copies with the processor's own instruction for it, where there is one (`rep movsb`), into whole lines.
///
/// Of a line that it overwrites whole it does not fetch what was there. Where another processor has just read the destination, that
/// takes a fifth of the time of [`copy`] if the two share no cache, and four fifths if they do (Zen 5); on other processors it may be far slower than
/// [`copy`], so whoever uses it should [find out](crate::stores). What is copied can be read from the caches afterwards.
///
/// # Safety
///
/// As for [`copy`].
///
/// ```
/// let from = vec![7u8; 100_000];
/// let mut to = vec![0u8; 100_000];
/// // SAFETY: two distinct allocations of 100 000 bytes.
/// unsafe { barewire_sys::copy::copy_string(to.as_mut_ptr(), from.as_ptr(), from.len()) };
/// assert_eq!(to, from);
/// ```
pub unsafe fn copy_string(dst: *mut u8, src: *const u8, len: usize) {
    if len < STRING_MIN_BYTES {
        // SAFETY: the caller's promise.
        unsafe { copy(dst, src, len) }
    } else {
        // SAFETY: the caller's promise, and the length was just checked.
        unsafe { arch::string(dst, src, len) }
    }
}

/// Less is not worth the start of [`copy_string`].
const STRING_MIN_BYTES: usize = 1 << 10;

/// From this length up [`copy_stream`] beats [`copy`] even if both sides were in the last-level cache.
///
/// Measured where a core's own cache has 1.25 MiB and the shared one 48 MiB: with both sides cached `copy` leads by
/// 15 to 9 GB/s at 4 MiB, they are level at 8 MiB, and from there on `copy_stream` is the faster, by two at 64 MiB.
///
/// ```
/// use barewire_sys::copy::{STREAM_MIN_BYTES, copy, copy_stream};
/// let (from, mut to) = (vec![1u8; 9 << 20], vec![0u8; 9 << 20]);
/// let routine = if from.len() >= STREAM_MIN_BYTES { copy_stream } else { copy };
/// // SAFETY: two distinct allocations of that many bytes.
/// unsafe { routine(to.as_mut_ptr(), from.as_ptr(), from.len()) };
/// assert!(from == to);
/// ```
pub const STREAM_MIN_BYTES: usize = 8 << 20;

/// From this length up [`copy_stream`] beats [`copy`] if the destination is in no cache; below, it is the same.
///
/// Measured with both sides in memory: 4.0 to 3.4 GB/s at 2 KiB, 5.9 to 4.5 at 4 KiB, 10 to 5 from 64 KiB up.
pub const STREAM_COLD_MIN_BYTES: usize = 2 << 10;

/// Which instructions the copies use.
///
/// ```
/// use barewire_sys::copy::Kernel;
/// assert!(Kernel::available().any(|kernel| kernel == Kernel::best()));
/// println!("copies use {}", Kernel::best().name());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kernel {
    /// Volatile word accesses: on every processor, and the best only where there is no routine of its own.
    Portable,
    /// 16-byte registers, on every x86-64.
    Sse2,
    /// 32-byte registers, on processors with AVX2.
    Avx2,
    /// 32-byte registers of those that AVX-512 adds.
    Avx512,
    /// 64-byte registers, for processors that move so many bytes at once.
    Wide,
}

impl Kernel {
    const ALL: [Self; 5] = [Self::Portable, Self::Sse2, Self::Avx2, Self::Avx512, Self::Wide];

    /// What [`copy`] and [`copy_stream`] use on this processor.
    ///
    /// ```
    /// use barewire_sys::copy::Kernel;
    /// assert_eq!(Kernel::best() == Kernel::Portable, cfg!(not(target_arch = "x86_64")));
    /// ```
    pub fn best() -> Self {
        arch::best()
    }

    /// All that this processor has.
    ///
    /// ```
    /// use barewire_sys::copy::Kernel;
    /// let names: Vec<&str> = Kernel::available().map(Kernel::name).collect();
    /// assert_eq!(names[0], "portable", "every processor has it");
    /// assert_eq!(names.contains(&"sse2"), cfg!(target_arch = "x86_64"));
    /// ```
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|&kernel| arch::has(kernel))
    }

    /// A word for people.
    ///
    /// ```
    /// use barewire_sys::copy::Kernel;
    /// assert_eq!([Kernel::Sse2, Kernel::Avx512].map(Kernel::name), ["sse2", "avx512"]);
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Sse2 => "sse2",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Wide => "wide",
        }
    }
}

/// [`copy`] with a given kernel, for comparing them.
///
/// # Safety
///
/// As for [`copy`], and `kernel` is one of [`Kernel::available`].
///
/// ```
/// use barewire_sys::copy::{Kernel, copy_with};
/// let from = [5u8; 300];
/// for kernel in Kernel::available() {
///     let mut to = [0u8; 300];
///     // SAFETY: two distinct arrays of 300 bytes; the kernel is available.
///     unsafe { copy_with(kernel, to.as_mut_ptr(), from.as_ptr(), 300) };
///     assert_eq!(to, from);
/// }
/// ```
pub unsafe fn copy_with(kernel: Kernel, dst: *mut u8, src: *const u8, len: usize) {
    if len <= SMALL_MAX {
        // SAFETY: the caller's promise, and the length was just checked.
        unsafe { arch::copy_small(dst, src, len) }
    } else {
        // SAFETY: the caller's promise, and the length was just checked.
        unsafe { arch::copy_over_small_with(kernel, dst, src, len) }
    }
}

/// # Safety
///
/// As for [`copy_with`].
unsafe fn stream_with(kernel: Kernel, dst: *mut u8, src: *const u8, len: usize) {
    if len < STREAM_COLD_MIN_BYTES {
        // SAFETY: the caller's promise.
        unsafe { copy_with(kernel, dst, src, len) }
    } else {
        // SAFETY: the caller's promise, and the length was just checked.
        unsafe { arch::stream(kernel, dst, src, len) }
    }
}
