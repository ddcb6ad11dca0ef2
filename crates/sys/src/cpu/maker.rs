//! Who made the processor, where that decides which way is faster.

/// Whether AMD made it; false where there is no asking.
pub(crate) fn is_amd() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        static IS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *IS.get_or_init(|| {
            let maker = core::arch::x86_64::__cpuid(0);
            let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
            (maker.ebx, maker.edx, maker.ecx) == (word(b"Auth"), word(b"enti"), word(b"cAMD"))
        })
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}
