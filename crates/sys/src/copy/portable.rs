//! The copy for processors without a routine of their own: volatile accesses of the widest unit both sides share.
//!
//! Volatile is the nearest the language has to "read this memory once, whatever it holds": the compiler keeps each
//! access as written and concludes nothing from the value.

/// # Safety
///
/// As for [`super::copy`].
pub(super) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
    let apart = dst.addr() ^ src.addr();
    // SAFETY: the caller's promise, and addresses that agree in their low bits are aligned together.
    unsafe {
        match apart.trailing_zeros() {
            0 => copy_units::<u8>(dst, src, len),
            1 => copy_units::<u16>(dst, src, len),
            2 => copy_units::<u32>(dst, src, len),
            _ => copy_units::<u64>(dst, src, len),
        }
    }
}

/// # Safety
///
/// As for [`super::copy`], and `dst` and `src` are equal modulo the size of `U`, an integer.
unsafe fn copy_units<U: Copy>(dst: *mut u8, src: *const u8, len: usize) {
    let unit = size_of::<U>();
    let head = (dst.addr().wrapping_neg() % unit).min(len);
    let units_end = head + (len - head) / unit * unit;
    for at in (0..head).chain(units_end..len) {
        // SAFETY: `at < len`.
        unsafe { dst.add(at).write_volatile(src.add(at).read_volatile()) };
    }
    for at in (head..units_end).step_by(unit) {
        // SAFETY: `at + unit <= len`; unless the loop is empty `dst + head` is aligned to `unit`, so `src + head` is.
        unsafe { dst.add(at).cast::<U>().write_volatile(src.add(at).cast::<U>().read_volatile()) };
    }
}

#[cfg(any(miri, not(target_arch = "x86_64")))]
pub(super) mod as_arch {
    //! The shape of an architecture's own module, for those that have none.

    use super::super::Kernel;

    pub(in super::super) fn best() -> Kernel {
        Kernel::Portable
    }

    pub(in super::super) fn has(kernel: Kernel) -> bool {
        kernel == Kernel::Portable
    }

    pub(in super::super) use super::{
        copy as copy_over_small, copy as copy_small, copy as copy_in, copy as string,
    };

    /// There is one way only.
    pub(in super::super) fn read_gently(_: bool) {}

    /// # Safety
    ///
    /// As for [`super::copy`].
    pub(in super::super) unsafe fn copy_over_small_with(_: Kernel, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { super::copy(dst, src, len) }
    }

    /// Stores go through the caches as always, so there is nothing to fence.
    pub(in super::super) use copy_over_small_with as stream;
}
