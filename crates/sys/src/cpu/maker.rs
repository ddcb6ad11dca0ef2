//! Who made the processor, and how wide, where that decides which way is faster.

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

/// Whether it moves registers of 64 bytes at least as fast as shorter ones: AMD's do since Zen 5, family 26. (A bit that says so is not passed on
/// to virtual machines.) False where there is no asking.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) fn moves_64_bytes() -> bool {
    let signature = core::arch::x86_64::__cpuid(1).eax;
    let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
    is_amd() && family >= 26
}
