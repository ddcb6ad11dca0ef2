//! Cache lines that are asked for before they are needed.

/// Has the processor get a line, to be written soon.
#[inline(always)]
pub(crate) fn own_line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint; it changes nothing that a program could see and faults nowhere.
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// Has the processor get a line, to be read soon.
#[inline(always)]
pub(crate) fn fetch_line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as for `own_line`.
    unsafe {
        std::arch::asm!("prefetcht0 [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
