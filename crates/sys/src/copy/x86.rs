//! The copy on x86-64: overlapping ends for the small, vector loops with aligned stores for the large.
//!
//! A length between `n` and `2n` is the first `n` bytes and the last `n`, overlapping in the middle, so one branch
//! covers a whole range of lengths. Past eight registers there is a loop of four registers a turn; its
//! stores are aligned, because a store that straddles two cache lines costs more than such a load.

use core::arch::asm;

use super::{Kernel, portable};

#[inline]
pub(super) fn best() -> Kernel {
    if has(Kernel::Avx512) {
        Kernel::Avx512
    } else if has(Kernel::Avx2) {
        Kernel::Avx2
    } else {
        Kernel::Sse2
    }
}

#[inline]
pub(super) fn has(kernel: Kernel) -> bool {
    match kernel {
        Kernel::Portable | Kernel::Sse2 => true,
        Kernel::Avx2 => is_x86_feature_detected!("avx2"),
        Kernel::Evex | Kernel::Avx512 => is_x86_feature_detected!("avx512vl"),
    }
}

/// Moves the first and the last bytes of a range through a register of each of the given kinds.
macro_rules! ends {
    ($dst:expr, $src:expr, $len:expr, $kind:ident, $mov:literal, $fmt:literal, $size:literal) => {
        asm!(
            concat!($mov, " {a", $fmt, "}, [{s}]"),
            concat!($mov, " {b", $fmt, "}, [{s} + {n} - ", $size, "]"),
            concat!($mov, " [{d}], {a", $fmt, "}"),
            concat!($mov, " [{d} + {n} - ", $size, "], {b", $fmt, "}"),
            d = in(reg) $dst, s = in(reg) $src, n = in(reg) $len,
            a = out($kind) _, b = out($kind) _,
            options(nostack, preserves_flags)
        )
    };
}

/// # Safety
///
/// As for [`super::copy_small`].
#[inline(always)]
pub(super) unsafe fn copy_small(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: each branch touches the first and the last bytes of both ranges, of a width that `len` is known to
    // reach, so nothing outside them; the caller vouches for the ranges. Peers may write `src` meanwhile: the
    // loads are machine instructions that the compiler knows nothing about, so there is no race in its terms.
    unsafe {
        if len > 32 {
            asm!(
                "movdqu {a}, [{s}]",
                "movdqu {b}, [{s} + 16]",
                "movdqu {c}, [{s} + {n} - 32]",
                "movdqu {e}, [{s} + {n} - 16]",
                "movdqu [{d}], {a}",
                "movdqu [{d} + 16], {b}",
                "movdqu [{d} + {n} - 32], {c}",
                "movdqu [{d} + {n} - 16], {e}",
                d = in(reg) dst, s = in(reg) src, n = in(reg) len,
                a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, e = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        } else if len >= 16 {
            ends!(dst, src, len, xmm_reg, "movdqu", "", 16);
        } else if len >= 8 {
            ends!(dst, src, len, reg, "mov", "", 8);
        } else if len >= 4 {
            ends!(dst, src, len, reg, "mov", ":e", 4);
        } else if len >= 2 {
            ends!(dst, src, len, reg, "mov", ":x", 2);
        } else if len == 1 {
            asm!(
                "mov {a}, byte ptr [{s}]",
                "mov byte ptr [{d}], {a}",
                d = in(reg) dst, s = in(reg) src, a = out(reg_byte) _,
                options(nostack, preserves_flags)
            );
        }
    }
}

/// # Safety
///
/// As for [`super::copy_with`], and `len > SMALL_MAX`.
#[inline]
pub(super) unsafe fn copy_over_small(kernel: Kernel, dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match kernel {
            Kernel::Avx512 => avx512::copy(dst, src, len),
            Kernel::Evex => evex::copy(dst, src, len),
            Kernel::Avx2 => avx2::copy(dst, src, len),
            Kernel::Sse2 => sse2::copy(dst, src, len),
            Kernel::Portable => portable::copy(dst, src, len),
        }
    }
}

/// # Safety
///
/// As for [`super::copy_with`], and `len >= STREAM_FLOOR`.
pub(super) unsafe fn stream(kernel: Kernel, dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match kernel {
            Kernel::Avx512 => avx512::stream(dst, src, len),
            Kernel::Evex => evex::stream(dst, src, len),
            Kernel::Avx2 => avx2::stream(dst, src, len),
            Kernel::Sse2 => sse2::stream(dst, src, len),
            Kernel::Portable => portable::copy(dst, src, len),
        }
    }
}

/// When the destination is this little ahead of the source within a page, the processor takes loads for
/// ones that depend on the stores just made (it compares 12 bits of the address), so we copy from the end.
const ALIAS_BYTES: usize = 256;

#[inline(always)]
fn looks_dependent(dst: *mut u8, src: *const u8) -> bool {
    dst.addr().wrapping_sub(src.addr()) % 4096 < ALIAS_BYTES
}

/// One set of copy routines: register width, eight registers, and the unaligned, aligned and streaming moves.
macro_rules! kernel {
    (
        $name:ident, $width:literal, [$a:literal $b:literal $c:literal $d:literal $e:literal $f:literal $g:literal $h:literal],
        $movu:literal, $mova:literal, $movnt:literal, $done:literal
    ) => {
        mod $name {
            use core::arch::asm;

            const V: usize = $width;

            /// # Safety
            ///
            /// The ranges are valid and apart, `len > SMALL_MAX`, and the processor has these registers.
            #[inline(never)]
            pub(super) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
                // SAFETY: each branch copies a head and a tail of a width that `len` is known to reach; the caller
                // vouches for the ranges and the processor. As the loads are opaque to the compiler, a peer
                // that writes `src` meanwhile is no race in its terms.
                unsafe {
                    if V == 64 && len <= 2 * V {
                        two(dst, src, len)
                    } else if V >= 32 && len <= 4 * V {
                        four(dst, src, len)
                    } else if len <= 8 * V {
                        eight(dst, src, len)
                    } else if super::looks_dependent(dst, src) {
                        backward(dst, src, len)
                    } else {
                        forward(dst, src, len)
                    }
                }
            }

            /// # Safety
            ///
            /// As for `copy`, and `V <= len <= 2 * V`.
            #[inline(always)]
            unsafe fn two(dst: *mut u8, src: *const u8, len: usize) {
                // SAFETY: touches V bytes at each end of either range.
                unsafe {
                    asm!(
                        concat!($movu, $a, ", [rsi]"),
                        concat!($movu, $b, ", [rsi + rdx - {V}]"),
                        concat!($movu, "[rdi], ", $a),
                        concat!($movu, "[rdi + rdx - {V}], ", $b),
                        $done,
                        V = const V,
                        in("rdi") dst, in("rsi") src, in("rdx") len,
                        clobber_abi("sysv64"), options(nostack, preserves_flags)
                    );
                }
            }

            /// # Safety
            ///
            /// As for `copy`, and `2 * V <= len <= 4 * V`.
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
                        V = const V,
                        in("rdi") dst, in("rsi") src, in("rdx") len,
                        clobber_abi("sysv64"), options(nostack, preserves_flags)
                    );
                }
            }

            /// # Safety
            ///
            /// As for `copy`, and `4 * V <= len <= 8 * V`.
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
                        V = const V,
                        in("rdi") dst, in("rsi") src, in("rdx") len,
                        clobber_abi("sysv64"), options(nostack, preserves_flags)
                    );
                }
            }

            /// # Safety
            ///
            /// As for `copy`, and `len >= 5 * V`.
            #[inline(always)]
            unsafe fn forward(dst: *mut u8, src: *const u8, len: usize) {
                let skip = V - dst.addr() % V;
                // SAFETY: the first V bytes unaligned; then 4 * V a turn from the first aligned address on, while that
                // is below the last 4 * V bytes, so that a turn ends inside; then those last bytes, unaligned.
                unsafe {
                    let last = dst.add(len - 4 * V);
                    let src_last = src.add(len - 4 * V);
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
                        inout("rdi") dst => _, inout("rsi") src => _, inout("rcx") skip => _,
                        inout("rdx") last => _, inout("rax") src_last => _,
                        clobber_abi("sysv64"), options(nostack)
                    );
                }
            }

            /// # Safety
            ///
            /// As for `copy`, and `len >= 5 * V`.
            #[inline(always)]
            unsafe fn backward(dst: *mut u8, src: *const u8, len: usize) {
                let skip = (dst.addr() + len) % V;
                // SAFETY: the last V bytes unaligned; then 4 * V a turn down from the last aligned address, while
                // that is above the first 4 * V bytes, so that a turn ends inside; then those first bytes, unaligned.
                unsafe {
                    let first_end = dst.add(4 * V);
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
                        inout("rdi") dst.add(len) => _, inout("rsi") src.add(len) => _, inout("rcx") skip => _,
                        inout("rdx") first_end => _, inout("rax") src => _,
                        clobber_abi("sysv64"), options(nostack)
                    );
                }
            }

            /// Whole cache lines with streaming stores, the ends with ordinary ones, then the fence.
            ///
            /// # Safety
            ///
            /// As for `copy`, and `len >= 64 + 4 * V`.
            #[inline(never)]
            pub(super) unsafe fn stream(dst: *mut u8, src: *const u8, len: usize) {
                // SAFETY: up to 64 bytes to the first line's start, then 4 * V a turn while all of it is inside, then
                // what is left, fewer than 4 * V bytes, as the last 4 * V; the caller vouches for the ranges.
                unsafe {
                    super::copy_small(dst, src, 64);
                    let skip = 64 - dst.addr() % 64;
                    let end = dst.add(len - 4 * V);
                    asm!(
                        ".p2align 5",
                        "2:",
                        "prefetcht0 [rsi + 1024]",
                        "prefetcht0 [rsi + 1024 + 64]",
                        concat!($movu, $a, ", [rsi]"),
                        concat!($movu, $b, ", [rsi + {V}]"),
                        concat!($movu, $c, ", [rsi + 2*{V}]"),
                        concat!($movu, $d, ", [rsi + 3*{V}]"),
                        "add rsi, 4*{V}",
                        concat!($movnt, "[rdi], ", $a),
                        concat!($movnt, "[rdi + {V}], ", $b),
                        concat!($movnt, "[rdi + 2*{V}], ", $c),
                        concat!($movnt, "[rdi + 3*{V}], ", $d),
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
                        "sfence",
                        $done,
                        V = const V,
                        inout("rdi") dst.add(skip) => _, inout("rsi") src.add(skip) => _,
                        inout("rdx") end => _, inout("rax") src.add(len - 4 * V) => _,
                        clobber_abi("sysv64"), options(nostack)
                    );
                }
            }
        }
    };
}

kernel!(
    sse2, 16, ["xmm0" "xmm1" "xmm2" "xmm3" "xmm4" "xmm5" "xmm6" "xmm7"],
    "movdqu ", "movdqa ", "movntdq ", ""
);
kernel!(
    avx2, 32, ["ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7"],
    "vmovdqu ", "vmovdqa ", "vmovntdq ", "vzeroupper"
);
kernel!(
    evex, 32, ["ymm16" "ymm17" "ymm18" "ymm19" "ymm20" "ymm21" "ymm22" "ymm23"],
    "vmovdqu64 ", "vmovdqa64 ", "vmovntdq ", ""
);
kernel!(
    avx512, 64, ["zmm16" "zmm17" "zmm18" "zmm19" "zmm20" "zmm21" "zmm22" "zmm23"],
    "vmovdqu64 ", "vmovdqa64 ", "vmovntdq ", ""
);
