//! The copy on x86-64: overlapping ends for the small, vector loops with aligned stores for the large.
//!
//! A length between `n` and `2n` is the first `n` bytes and the last `n`, overlapping in the middle, so one branch
//! covers a whole range of lengths. Past eight registers there is a loop of four registers a turn; its
//! stores are aligned, because a store that straddles two cache lines costs more than such a load.
//!
//! On why a peer may write the source meanwhile: all loads are machine instructions that the compiler knows
//! nothing about, so there is no race in its terms, and the machine just loads one value or the other.

use core::arch::asm;
use core::mem;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::{Kernel, portable};
use vector::{avx2, avx512, sse2, wide};

mod vector;

/// Moves the first and the last bytes of a range, each through one register of the given kind.
macro_rules! both_ends {
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
    // reach, so nothing outside them; the caller vouches for the ranges.
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
            both_ends!(dst, src, len, xmm_reg, "movdqu", "", 16);
        } else if len >= 8 {
            both_ends!(dst, src, len, reg, "mov", "", 8);
        } else if len >= 4 {
            both_ends!(dst, src, len, reg, "mov", ":e", 4);
        } else if len >= 2 {
            both_ends!(dst, src, len, reg, "mov", ":x", 2);
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
/// As for [`super::copy`], and `len > SMALL_MAX`.
#[inline(always)]
pub(super) unsafe fn copy_over_small(dst: *mut u8, src: *const u8, len: usize) {
    // SYNC chosen: the pointer says everything by itself, so Relaxed; whoever is early just chooses again.
    let chosen = CHOSEN.load(Ordering::Relaxed);
    // SAFETY: only `CopyFn`s are ever stored there, and only ones that this processor can run.
    let chosen = unsafe { mem::transmute::<*mut (), CopyFn>(chosen) };
    // SAFETY: the caller's promise.
    unsafe { chosen(dst, src, len) }
}

/// # Safety
///
/// As for [`super::copy`], and `len > SMALL_MAX`.
#[inline(always)]
pub(super) unsafe fn copy_in(dst: *mut u8, src: *const u8, len: usize) {
    // SYNC chosen: see `copy_over_small`.
    let chosen = CHOSEN_IN.load(Ordering::Relaxed);
    // SAFETY: as in `copy_over_small`.
    let chosen = unsafe { mem::transmute::<*mut (), CopyFn>(chosen) };
    // SAFETY: the caller's promise.
    unsafe { chosen(dst, src, len) }
}

/// Whether long reads are gentle now.
static GENTLY: AtomicBool = AtomicBool::new(false);

#[inline]
pub(super) fn read_gently(gently: bool) {
    // SYNC gently: a matter of speed, so Relaxed; written only to change it, because every thread that receives reads it.
    if GENTLY.load(Ordering::Relaxed) != gently {
        GENTLY.store(gently, Ordering::Relaxed);
    }
}

/// The copy for long reads on processors that have [`wide`].
///
/// # Safety
///
/// As for [`wide::copy`].
unsafe fn wide_in(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise; what runs `wide` runs `avx512`.
    unsafe {
        // SYNC gently: see `read_gently`.
        if len >= wide::STRING_MIN && GENTLY.load(Ordering::Relaxed) {
            avx512::copy(dst, src, len)
        } else {
            wide::copy(dst, src, len)
        }
    }
}

type CopyFn = unsafe fn(*mut u8, *const u8, usize);

/// The copy for more than [`super::SMALL_MAX`] bytes on this processor; at first, one that finds out.
static CHOSEN: AtomicPtr<()> = AtomicPtr::new(choose_and_copy as CopyFn as *mut ());

/// The same for what another process has written.
static CHOSEN_IN: AtomicPtr<()> = AtomicPtr::new(choose_and_copy as CopyFn as *mut ());

/// # Safety
///
/// As for [`super::copy`], and `len > SMALL_MAX`.
#[cold]
unsafe fn choose_and_copy(dst: *mut u8, src: *const u8, len: usize) {
    let best = best();
    let chosen = copy_fn(best);
    let chosen_in = if best == Kernel::Wide { wide_in } else { chosen };
    // SYNC aliases: see `looks_dependent`.
    vector::ALIASES_BELOW.store(aliases_below(), Ordering::Relaxed);
    // SYNC chosen: see `copy_over_small`.
    CHOSEN.store(chosen as *mut (), Ordering::Relaxed);
    CHOSEN_IN.store(chosen_in as *mut (), Ordering::Relaxed);
    // SAFETY: the caller's promise; `best` names only what this processor has.
    unsafe { chosen(dst, src, len) }
}

fn copy_fn(kernel: Kernel) -> CopyFn {
    match kernel {
        Kernel::Wide => wide::copy,
        Kernel::Avx512 => avx512::copy,
        Kernel::Avx2 => avx2::copy,
        Kernel::Sse2 => sse2::copy,
        Kernel::Portable => portable::copy,
    }
}

/// # Safety
///
/// As for [`super::copy_with`], and `len > SMALL_MAX`.
pub(super) unsafe fn copy_over_small_with(kernel: Kernel, dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy_fn(kernel)(dst, src, len) }
}

/// # Safety
///
/// As for [`super::copy_with`], and `len >= STREAM_COLD_MIN_BYTES`.
pub(super) unsafe fn stream(kernel: Kernel, dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match kernel {
            Kernel::Wide | Kernel::Avx512 | Kernel::Avx2 => avx2::stream(dst, src, len),
            Kernel::Sse2 => sse2::stream(dst, src, len),
            Kernel::Portable => portable::copy(dst, src, len),
        }
    }
}

/// # Safety
///
/// As for [`super::copy`], and `len` is several lines.
#[inline(never)]
pub(super) unsafe fn string(dst: *mut u8, src: *const u8, len: usize) {
    let skip = dst.addr().wrapping_neg() % 64;
    let lines = (len - skip) / 64 * 64;
    let (rest, rest_len) = (skip + lines, len - skip - lines);
    // SAFETY: what comes before the start of a line, the lines, and the rest, less than a line; the direction flag is clear, as the language
    // has it. The caller vouches for the ranges.
    unsafe {
        copy_small(dst, src, skip);
        asm!(
            "rep movsb",
            inout("rdi") dst.add(skip) => _, inout("rsi") src.add(skip) => _, inout("rcx") lines => _,
            options(nostack, preserves_flags)
        );
        copy_small(dst.add(rest), src.add(rest), rest_len);
    }
}

pub(super) fn best() -> Kernel {
    if has(Kernel::Avx512) && crate::cpu::moves_64_bytes() {
        Kernel::Wide
    } else if has(Kernel::Avx512) {
        Kernel::Avx512
    } else if has(Kernel::Avx2) {
        Kernel::Avx2
    } else {
        Kernel::Sse2
    }
}

pub(super) fn has(kernel: Kernel) -> bool {
    match kernel {
        Kernel::Portable | Kernel::Sse2 => true,
        Kernel::Avx2 => is_x86_feature_detected!("avx2"),
        Kernel::Avx512 | Kernel::Wide => has(Kernel::Avx2) && is_x86_feature_detected!("avx512vl"),
    }
}

/// Below which length this processor copies faster from the end where loads look as if they depended on stores to another page: AMD's (Zen 4, by
/// measurement) do so below 8 KiB, because what they fetch ahead is then what has been read and not what another processor is writing. From
/// there on it costs them a tenth, and a third where that has written past its caches.
fn aliases_below() -> usize {
    if crate::cpu::is_amd() { 8 << 10 } else { usize::MAX }
}

/// Has copies of lengths below this one take care of aliases, whatever the processor.
#[cfg(test)]
pub(super) fn mind_aliases_below(len: usize) {
    // SYNC aliases: see `looks_dependent`.
    vector::ALIASES_BELOW.store(len, Ordering::Relaxed);
}
