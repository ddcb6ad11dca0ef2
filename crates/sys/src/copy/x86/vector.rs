//! The vector kernels: one shape, four sets of registers.
//!
//! The shape is written once, as macros over the width, the registers' names and the names of the unaligned,
//! aligned and streaming moves. The routines use only registers that any call may clobber.

use core::sync::atomic::{AtomicUsize, Ordering};

/// `four`: lengths of two to four registers, as the first two and the last two.
macro_rules! four {
    ($v:literal, $movu:literal, $done:literal, [$a:literal $b:literal $c:literal $d:literal]) => {
        /// # Safety
        ///
        /// The ranges are valid and apart, the processor has these registers, and `2 * V <= len <= 4 * V`.
        #[inline(always)]
        unsafe fn four(dst: *mut u8, src: *const u8, len: usize) {
            // SAFETY: touches 2 * V bytes at each end of either range.
            unsafe {
                asm!(
                    concat!($movu, $a, ", [rsi]"),
                    concat!($movu, $b, ", [rsi + {V}]"),
                    concat!($movu, $c, ", [rsi + rdx - 2*{V}]"),
                    concat!($movu, $d, ", [rsi + rdx - {V}]"),
                    concat!($movu, "[rdi], ", $a),
                    concat!($movu, "[rdi + {V}], ", $b),
                    concat!($movu, "[rdi + rdx - 2*{V}], ", $c),
                    concat!($movu, "[rdi + rdx - {V}], ", $d),
                    $done,
                    V = const $v,
                    in("rdi") dst, in("rsi") src, in("rdx") len,
                    clobber_abi("sysv64"), options(nostack, preserves_flags)
                );
            }
        }
    };
}

/// `eight`: lengths of four to eight registers, as the first four and the last four.
macro_rules! eight {
    ($v:literal, $movu:literal, $done:literal,
     [$a:literal $b:literal $c:literal $d:literal $e:literal $f:literal $g:literal $h:literal]) => {
        /// # Safety
        ///
        /// The ranges are valid and apart, the processor has these registers, and `4 * V <= len <= 8 * V`.
        #[inline(always)]
        unsafe fn eight(dst: *mut u8, src: *const u8, len: usize) {
            // SAFETY: touches 4 * V bytes at each end of either range.
            unsafe {
                asm!(
                    concat!($movu, $a, ", [rsi]"),
                    concat!($movu, $b, ", [rsi + {V}]"),
                    concat!($movu, $c, ", [rsi + 2*{V}]"),
                    concat!($movu, $d, ", [rsi + 3*{V}]"),
                    concat!($movu, $e, ", [rsi + rdx - 4*{V}]"),
                    concat!($movu, $f, ", [rsi + rdx - 3*{V}]"),
                    concat!($movu, $g, ", [rsi + rdx - 2*{V}]"),
                    concat!($movu, $h, ", [rsi + rdx - {V}]"),
                    concat!($movu, "[rdi], ", $a),
                    concat!($movu, "[rdi + {V}], ", $b),
                    concat!($movu, "[rdi + 2*{V}], ", $c),
                    concat!($movu, "[rdi + 3*{V}], ", $d),
                    concat!($movu, "[rdi + rdx - 4*{V}], ", $e),
                    concat!($movu, "[rdi + rdx - 3*{V}], ", $f),
                    concat!($movu, "[rdi + rdx - 2*{V}], ", $g),
                    concat!($movu, "[rdi + rdx - {V}], ", $h),
                    $done,
                    V = const $v,
                    in("rdi") dst, in("rsi") src, in("rdx") len,
                    clobber_abi("sysv64"), options(nostack, preserves_flags)
                );
            }
        }
    };
}

/// `copy_long`: loops of four registers a turn.
macro_rules! loops {
    ($v:literal, $movu:literal, $mova:literal, $done:literal, [$a:literal $b:literal $c:literal $d:literal]) => {
        const V: usize = $v;

        /// # Safety
        ///
        /// The ranges are valid and apart, the processor has these registers, and `len > 8 * V`.
        #[inline(always)]
        unsafe fn copy_long(dst: *mut u8, src: *const u8, len: usize) {
            // SAFETY: the caller's promise.
            unsafe {
                if super::looks_dependent(dst, src, len) {
                    backward(dst, src, len)
                } else {
                    forward(dst, src, len)
                }
            }
        }

        /// # Safety
        ///
        /// As for `copy_long`.
        #[inline(always)]
        unsafe fn forward(dst: *mut u8, src: *const u8, len: usize) {
            // SAFETY: the first V bytes unaligned; then 4 * V a turn from the first aligned address on, while that
            // is below the last 4 * V bytes, so that a turn ends inside; then those last bytes, unaligned.
            unsafe {
                asm!(
                    concat!($movu, $a, ", [rsi]"),
                    concat!($movu, "[rdi], ", $a),
                    "add rsi, rcx",
                    "add rdi, rcx",
                    ".p2align 5",
                    "2:",
                    concat!($movu, $a, ", [rsi]"),
                    concat!($movu, $b, ", [rsi + {V}]"),
                    concat!($movu, $c, ", [rsi + 2*{V}]"),
                    concat!($movu, $d, ", [rsi + 3*{V}]"),
                    "add rsi, 4*{V}",
                    concat!($mova, "[rdi], ", $a),
                    concat!($mova, "[rdi + {V}], ", $b),
                    concat!($mova, "[rdi + 2*{V}], ", $c),
                    concat!($mova, "[rdi + 3*{V}], ", $d),
                    "add rdi, 4*{V}",
                    "cmp rdi, rdx",
                    "jb 2b",
                    concat!($movu, $a, ", [rax]"),
                    concat!($movu, $b, ", [rax + {V}]"),
                    concat!($movu, $c, ", [rax + 2*{V}]"),
                    concat!($movu, $d, ", [rax + 3*{V}]"),
                    concat!($movu, "[rdx], ", $a),
                    concat!($movu, "[rdx + {V}], ", $b),
                    concat!($movu, "[rdx + 2*{V}], ", $c),
                    concat!($movu, "[rdx + 3*{V}], ", $d),
                    $done,
                    V = const V,
                    inout("rdi") dst => _, inout("rsi") src => _,
                    inout("rcx") V - dst.addr() % V => _,
                    inout("rdx") dst.add(len - 4 * V) => _, inout("rax") src.add(len - 4 * V) => _,
                    clobber_abi("sysv64"), options(nostack)
                );
            }
        }

        /// # Safety
        ///
        /// As for `copy_long`.
        #[inline(always)]
        unsafe fn backward(dst: *mut u8, src: *const u8, len: usize) {
            // SAFETY: the last V bytes unaligned; then 4 * V a turn down from the last aligned address, while
            // that is above the first 4 * V bytes, so that a turn ends inside; then those first bytes, unaligned.
            unsafe {
                asm!(
                    concat!($movu, $a, ", [rsi - {V}]"),
                    concat!($movu, "[rdi - {V}], ", $a),
                    "sub rsi, rcx",
                    "sub rdi, rcx",
                    ".p2align 5",
                    "2:",
                    concat!($movu, $a, ", [rsi - {V}]"),
                    concat!($movu, $b, ", [rsi - 2*{V}]"),
                    concat!($movu, $c, ", [rsi - 3*{V}]"),
                    concat!($movu, $d, ", [rsi - 4*{V}]"),
                    "sub rsi, 4*{V}",
                    concat!($mova, "[rdi - {V}], ", $a),
                    concat!($mova, "[rdi - 2*{V}], ", $b),
                    concat!($mova, "[rdi - 3*{V}], ", $c),
                    concat!($mova, "[rdi - 4*{V}], ", $d),
                    "sub rdi, 4*{V}",
                    "cmp rdi, rdx",
                    "ja 2b",
                    concat!($movu, $a, ", [rax]"),
                    concat!($movu, $b, ", [rax + {V}]"),
                    concat!($movu, $c, ", [rax + 2*{V}]"),
                    concat!($movu, $d, ", [rax + 3*{V}]"),
                    concat!($movu, "[rdx - 4*{V}], ", $a),
                    concat!($movu, "[rdx - 3*{V}], ", $b),
                    concat!($movu, "[rdx - 2*{V}], ", $c),
                    concat!($movu, "[rdx - {V}], ", $d),
                    $done,
                    V = const V,
                    inout("rdi") dst.add(len) => _, inout("rsi") src.add(len) => _,
                    inout("rcx") (dst.addr() + len) % V => _,
                    inout("rdx") dst.add(4 * V) => _, inout("rax") src => _,
                    clobber_abi("sysv64"), options(nostack)
                );
            }
        }
    };
}

/// `stream`: whole cache lines past the caches, a line being the named registers at the given offsets, four times.
macro_rules! stream {
    ($movu:literal, $movnt:literal, $done:literal,
     [$($r:literal $at:literal),+] [$($r1:literal $at1:literal),+]
     [$($r2:literal $at2:literal),+] [$($r3:literal $at3:literal),+]) => {
        /// # Safety
        ///
        /// The ranges are valid and apart, the processor has these registers, and `len >= STREAM_COLD_MIN_BYTES`.
        #[inline(never)]
        pub(in super::super) unsafe fn stream(mut dst: *mut u8, mut src: *const u8, mut len: usize) {
            // SAFETY: what comes before the start of a line with ordinary stores; from there on blocks and then lines while
            // there are any; then the rest, less than a line. The caller vouches for the ranges.
            unsafe {
                let skip = dst.addr().wrapping_neg() % 64;
                super::super::copy_small(dst, src, skip);
                (dst, src, len) = (dst.add(skip), src.add(skip), len - skip);
                while len >= BLOCK {
                    stream_block(dst, src);
                    (dst, src, len) = (dst.add(BLOCK), src.add(BLOCK), len - BLOCK);
                }
                let lines = len / 64 * 64;
                if lines > 0 {
                    stream_lines(dst, src, lines);
                }
                super::super::copy_small(dst.add(lines), src.add(lines), len - lines);
                asm!("sfence", options(nostack, preserves_flags));
            }
        }

        /// A line of each of four pages a turn, so that four streams are under way in the memory at once. Loads
        /// come first: four pages apart, they would look dependent on the stores (see `ALIAS_BYTES`).
        ///
        /// # Safety
        ///
        /// As for `stream`, with BLOCK bytes, and `dst` is aligned to a line.
        #[inline(always)]
        unsafe fn stream_block(dst: *mut u8, src: *const u8) {
            // SAFETY: 64 turns of 64 bytes in each of four pages.
            unsafe {
                asm!(
                    ".p2align 5",
                    "2:",
                    $(concat!($movu, $r, ", [rsi + ", $at, "]"),)+
                    $(concat!($movu, $r1, ", [rsi + 4096 + ", $at1, "]"),)+
                    $(concat!($movu, $r2, ", [rsi + 8192 + ", $at2, "]"),)+
                    $(concat!($movu, $r3, ", [rsi + 12288 + ", $at3, "]"),)+
                    $(concat!($movnt, "[rdi + ", $at, "], ", $r),)+
                    $(concat!($movnt, "[rdi + 4096 + ", $at1, "], ", $r1),)+
                    $(concat!($movnt, "[rdi + 8192 + ", $at2, "], ", $r2),)+
                    $(concat!($movnt, "[rdi + 12288 + ", $at3, "], ", $r3),)+
                    "add rsi, 64",
                    "add rdi, 64",
                    "cmp rdi, rdx",
                    "jb 2b",
                    $done,
                    inout("rdi") dst => _, inout("rsi") src => _, in("rdx") dst.add(BLOCK / 4),
                    clobber_abi("sysv64"), options(nostack)
                );
            }
        }

        /// # Safety
        ///
        /// As for `stream`, but `len` is a multiple of 64 and not 0, and `dst` is aligned to a line.
        #[inline(always)]
        unsafe fn stream_lines(dst: *mut u8, src: *const u8, len: usize) {
            // SAFETY: 64 bytes a turn, up to `len`.
            unsafe {
                asm!(
                    ".p2align 5",
                    "2:",
                    $(concat!($movu, $r, ", [rsi + ", $at, "]"),)+
                    $(concat!($movnt, "[rdi + ", $at, "], ", $r),)+
                    "add rsi, 64",
                    "add rdi, 64",
                    "cmp rdi, rdx",
                    "jb 2b",
                    $done,
                    inout("rdi") dst => _, inout("rsi") src => _, in("rdx") dst.add(len),
                    clobber_abi("sysv64"), options(nostack)
                );
            }
        }
    };
}

/// What `stream_block` takes: four pages.
const BLOCK: usize = 4 * 4096;

/// When the destination is this little ahead of the source within a page, many a processor takes loads for
/// ones that depend on the stores just made (it compares 12 bits of the addresses), so we copy from the end.
const ALIAS_BYTES: usize = 256;

/// Lengths from which on this processor does not, as far as is known.
pub(super) static ALIASES_BELOW: AtomicUsize = AtomicUsize::new(usize::MAX);

#[inline(always)]
fn looks_dependent(dst: *mut u8, src: *const u8, len: usize) -> bool {
    // SYNC aliases: a matter of speed; whoever reads it early copies just as well.
    dst.addr().wrapping_sub(src.addr()) % 4096 < ALIAS_BYTES && len < ALIASES_BELOW.load(Ordering::Relaxed)
}

pub(super) mod sse2 {
    //! 16-byte registers.

    use core::arch::asm;

    use super::BLOCK;

    eight!(16, "movdqu ", "", ["xmm0" "xmm1" "xmm2" "xmm3" "xmm4" "xmm5" "xmm6" "xmm7"]);
    loops!(16, "movdqu ", "movdqa ", "", ["xmm0" "xmm1" "xmm2" "xmm3"]);
    stream!(
        "movdqu ", "movntdq ", "",
        ["xmm0" 0, "xmm1" 16, "xmm2" 32, "xmm3" 48] ["xmm4" 0, "xmm5" 16, "xmm6" 32, "xmm7" 48]
        ["xmm8" 0, "xmm9" 16, "xmm10" 32, "xmm11" 48] ["xmm12" 0, "xmm13" 16, "xmm14" 32, "xmm15" 48]
    );

    /// # Safety
    ///
    /// The ranges are valid and apart, and `len > SMALL_MAX`.
    pub(in super::super) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller's promise, and the lengths are as each asks for.
        unsafe { if len <= 8 * V { eight(dst, src, len) } else { copy_long(dst, src, len) } }
    }
}

pub(super) mod avx2 {
    //! 32-byte registers.

    use core::arch::asm;

    use super::BLOCK;

    four!(32, "vmovdqu ", "vzeroupper", ["ymm0" "ymm1" "ymm2" "ymm3"]);
    eight!(32, "vmovdqu ", "vzeroupper", ["ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7"]);
    loops!(32, "vmovdqu ", "vmovdqa ", "vzeroupper", ["ymm0" "ymm1" "ymm2" "ymm3"]);
    stream!(
        "vmovdqu ", "vmovntdq ", "vzeroupper",
        ["ymm0" 0, "ymm1" 32] ["ymm2" 0, "ymm3" 32]
        ["ymm4" 0, "ymm5" 32] ["ymm6" 0, "ymm7" 32]
    );

    /// # Safety
    ///
    /// The ranges are valid and apart, `len > SMALL_MAX`, and the processor has AVX2.
    pub(in super::super) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller's promise, and the lengths are as each asks for.
        unsafe {
            if len <= 4 * V {
                four(dst, src, len)
            } else if len <= 8 * V {
                eight(dst, src, len)
            } else {
                copy_long(dst, src, len)
            }
        }
    }
}

pub(super) mod avx512 {
    //! 32-byte registers of the upper sixteen, which need no clearing afterwards: that is worth a nanosecond a copy.
    //!
    //! 64-byte registers were measured and left to those that are [made for them](super::wide). Elsewhere they win 20 % where both sides are in
    //! the first-level cache and meet cache lines together; otherwise every load straddles two lines, they lose 20 % in the
    //! second-level cache, and the first use after a few milliseconds costs 300 ns while the processor powers them up.

    use core::arch::asm;

    four!(32, "vmovdqu64 ", "", ["ymm16" "ymm17" "ymm18" "ymm19"]);
    eight!(32, "vmovdqu64 ", "", ["ymm16" "ymm17" "ymm18" "ymm19" "ymm20" "ymm21" "ymm22" "ymm23"]);
    loops!(32, "vmovdqu64 ", "vmovdqa64 ", "", ["ymm16" "ymm17" "ymm18" "ymm19"]);

    /// # Safety
    ///
    /// The ranges are valid and apart, `len > SMALL_MAX`, and the processor has AVX-512 VL.
    pub(in super::super) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller's promise, and the lengths are as each asks for.
        unsafe {
            if len <= 4 * V {
                four(dst, src, len)
            } else if len <= 8 * V {
                eight(dst, src, len)
            } else {
                copy_long(dst, src, len)
            }
        }
    }
}

pub(super) mod wide {
    //! 64-byte registers of the upper sixteen, for processors that move so many bytes at once and need no time to power them up. What is short goes
    //! through 32-byte registers as elsewhere. What is long is copied by the processor's own instruction: on these it does not suffer from any
    //! alignment (100 to 170 GB/s in the second-level cache, loops 100 to 130), and it is the faster way between processors, in and out.

    use core::arch::asm;

    use super::super::string;
    use super::avx512;

    /// From this length up; a loop of four of them wants half as many at least.
    const BYTES_MIN: usize = 16 * V;
    /// From this length up by one instruction; in the first-level cache loops are half as fast again.
    pub(in super::super) const STRING_MIN: usize = 12 << 10;

    loops!(64, "vmovdqu64 ", "vmovdqa64 ", "", ["zmm16" "zmm17" "zmm18" "zmm19"]);

    /// # Safety
    ///
    /// The ranges are valid and apart, `len > SMALL_MAX`, and the processor has AVX-512 VL.
    pub(in super::super) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller's promise, and the lengths are as each asks for.
        unsafe {
            if len < BYTES_MIN {
                avx512::copy(dst, src, len)
            } else if len < STRING_MIN {
                copy_long(dst, src, len)
            } else {
                string(dst, src, len)
            }
        }
    }
}
