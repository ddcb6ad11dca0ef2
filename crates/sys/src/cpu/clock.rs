//! A counter that costs a few nanoseconds to read, and how fast it runs.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The processor's own counter, for short waits: one instruction, no ordering with what surrounds it.
///
/// It never runs backwards on one processor; between two it may by a little, so subtract saturating.
///
/// ```
/// use barewire_sys::cpu::{ticks, ticks_per_us};
/// let start = ticks();
/// let waited_us = ticks().saturating_sub(start) as f64 / ticks_per_us();
/// assert!(waited_us >= 0.0);
/// ```
#[inline(always)]
pub fn ticks() -> u64 {
    counter::ticks()
}

/// Waits until this processor has done all that stands before, but for stores on their way to the cache: what comes after does
/// not overlap with it.
///
/// ```
/// use barewire_sys::cpu::{settle, ticks};
/// let start = ticks();
/// let sum: u64 = (0..100).sum();
/// settle();
/// let took = ticks().saturating_sub(start);
/// # let _ = (sum, took);
/// ```
#[inline(always)]
pub fn settle() {
    counter::settle();
}

/// How many [`ticks`] make a microsecond; at least one in a thousand.
///
/// The first call measures for two milliseconds where the machine does not say; the rest are a load.
///
/// ```
/// assert!(barewire_sys::cpu::ticks_per_us() > 0.0);
/// ```
pub fn ticks_per_us() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| counter::ticks_per_us().unwrap_or_else(measure).max(1e-3))
}

/// The counter against the system's clock over [`MEASURED`].
fn measure() -> f64 {
    let (start, start_ticks) = reading();
    let (end, end_ticks) = loop {
        let now = reading();
        if now.0.duration_since(start) >= MEASURED {
            break now;
        }
        core::hint::spin_loop();
    };
    let elapsed_us = end.duration_since(start).as_nanos() as f64 / 1e3;
    end_ticks.saturating_sub(start_ticks) as f64 / elapsed_us
}

/// Clock and counter at the same moment: of a few tries, the one least likely to have been interrupted between.
fn reading() -> (Instant, u64) {
    let attempt = || {
        let before = ticks();
        let now = Instant::now();
        let gap = ticks().wrapping_sub(before);
        (gap, now, before.wrapping_add(gap / 2))
    };
    let mut best = attempt();
    for _ in 1..TRIES {
        let next = attempt();
        if next.0 < best.0 {
            best = next;
        }
    }
    (best.1, best.2)
}

const MEASURED: Duration = Duration::from_millis(2);
const TRIES: usize = 4;

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod counter {
    #[inline(always)]
    pub(super) fn ticks() -> u64 {
        // SAFETY: every x86-64 has the instruction, and Linux leaves it on for user programs.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    #[inline(always)]
    pub(super) fn settle() {
        // SAFETY: every x86-64 has the instruction, and it changes nothing.
        unsafe { core::arch::x86_64::_mm_lfence() }
    }

    pub(super) fn ticks_per_us() -> Option<f64> {
        None
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod counter {
    use core::arch::asm;

    #[inline(always)]
    pub(super) fn ticks() -> u64 {
        let value;
        // SAFETY: reads the virtual counter, which Linux leaves open to user programs, and touches nothing else.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack, preserves_flags)) };
        value
    }

    #[inline(always)]
    pub(super) fn settle() {
        // SAFETY: waits for loads that are under way and starts reading instructions anew; changes nothing.
        unsafe { asm!("dsb ld", "isb", options(nostack, preserves_flags)) };
    }

    pub(super) fn ticks_per_us() -> Option<f64> {
        let hertz: u64;
        // SAFETY: reads the counter's rate, open to user programs as well, and touches nothing else.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags)) };
        (hertz > 0).then_some(hertz as f64 / 1e6)
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod counter {
    use std::sync::OnceLock;
    use std::time::Instant;

    /// Nanoseconds since the first call.
    pub(super) fn ticks() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn settle() {
        // SYNC alone: orders nothing between threads, only delays what comes next.
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
    }

    pub(super) fn ticks_per_us() -> Option<f64> {
        Some(1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_moves_forward_on_one_processor() {
        std::thread::spawn(|| {
            crate::cpu::pin_to(crate::cpu::allowed_cpus()[0]).expect("allowed");
            let start = ticks();
            let mut last = start;
            for _ in 0..1000 {
                let now = ticks();
                assert!(now >= last);
                last = now;
            }
            assert!(last > start);
        })
        .join()
        .expect("the thread's own assertions hold");
    }

    #[test]
    fn the_rate_is_measured_once_and_is_one_that_processors_have() {
        let rate = ticks_per_us();
        assert!((1.0..100_000.0).contains(&rate), "{rate} ticks a microsecond");
        assert_eq!(rate, ticks_per_us());
    }
}
