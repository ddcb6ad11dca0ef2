//! Loops over numbers, compiled for every width of register that processors have, and run with the widest that this one has.
//!
//! ```
//! use barewire_sys::vector::{Loop, widest};
//! struct Add<'a>(&'a [u32], &'a mut [u32]);
//! impl Loop for Add<'_> {
//!     #[inline(always)]
//!     fn run(self) {
//!         self.0.iter().zip(self.1).for_each(|(a, b)| *b += a);
//!     }
//! }
//! let mut sums = [1; 100];
//! widest(Add(&[2; 100], &mut sums));
//! assert_eq!(sums, [3; 100]);
//! ```

/// A loop. Its `run` has to be `#[inline(always)]`, or it is compiled once and for the narrowest registers.
///
/// ```
/// use barewire_sys::vector::{Loop, widest};
/// struct Clear<'a>(&'a mut [f64]);
/// impl Loop for Clear<'_> {
///     #[inline(always)]
///     fn run(self) {
///         self.0.fill(0.0);
///     }
/// }
/// let mut numbers = [1.5; 10];
/// widest(Clear(&mut numbers));
/// assert_eq!(numbers, [0.0; 10]);
/// ```
pub trait Loop {
    /// Runs it.
    ///
    /// ```
    /// use barewire_sys::vector::Loop;
    /// struct Negate<'a>(&'a mut [i32]);
    /// impl Loop for Negate<'_> {
    ///     #[inline(always)]
    ///     fn run(self) {
    ///         self.0.iter_mut().for_each(|number| *number = -*number);
    ///     }
    /// }
    /// let mut numbers = [1, -2];
    /// Negate(&mut numbers).run();
    /// assert_eq!(numbers, [-1, 2]);
    /// ```
    fn run(self);
}

/// Runs a loop with the widest registers there are.
///
/// ```
/// use barewire_sys::vector::{Loop, widest};
/// struct Largest<'a>(&'a [i16], &'a mut i16);
/// impl Loop for Largest<'_> {
///     #[inline(always)]
///     fn run(self) {
///         *self.1 = self.0.iter().fold(i16::MIN, |most, next| most.max(*next));
///     }
/// }
/// let mut most = 0;
/// widest(Largest(&[3, -7, 12, 5], &mut most));
/// assert_eq!(most, 12);
/// ```
#[inline]
pub fn widest(work: impl Loop) {
    #[cfg(target_arch = "x86_64")]
    {
        let has_avx512 = is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512dq");
        if has_avx512 && is_x86_feature_detected!("avx512bw") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { with_avx512(work) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { with_avx2(work) };
        }
    }
    work.run();
}

/// # Safety
/// The processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn with_avx2(work: impl Loop) {
    work.run();
}

/// # Safety
/// The processor has AVX-512 for bytes, words, numbers of two words, and vectors of any length.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512vl,avx512dq,avx512bw")]
unsafe fn with_avx512(work: impl Loop) {
    work.run();
}
