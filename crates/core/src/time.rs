//! Time as an argument: a protocol is told what time it is and never looks at a clock.
//!
//! [`Nanos`] is a point on some monotonic clock or a span between two points; which clock is the caller's
//! business. Under a simulation it is virtual, on a machine it is `CLOCK_MONOTONIC`. All arithmetic
//! saturates, so no reading of a broken clock can overflow.
//!
//! ```
//! use barewire_core::{filter::fault::{Fault, FaultConfig}, time::Nanos};
//! let mut wire = Fault::new(FaultConfig { delay: Nanos::SECOND, ..FaultConfig::default() }, 1);
//! wire.push(Nanos::ZERO, b"slow");
//! assert_eq!(wire.pop(Nanos::SECOND - Nanos(1)), None);
//! assert!(wire.pop(Nanos::SECOND).is_some(), "a second passed without anybody waiting for it");
//! ```

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::time::Duration;

/// Nanoseconds: a point in time counted from the caller's own zero, or a span.
///
/// Sums and differences saturate at zero and at [`Nanos::MAX`] (584 years).
///
/// ```
/// use barewire_core::time::Nanos;
/// use std::time::Duration;
///
/// let start = Nanos::SECOND;
/// let later = start + Nanos::from(Duration::from_millis(3));
/// assert_eq!(later - start, Nanos::from_millis(3));
/// assert_eq!(start - later, Nanos::ZERO);
/// assert_eq!(Duration::from(later), Duration::from_millis(1003));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The zero of the clock, or no time at all. As a deadline it means "now".
    pub const ZERO: Self = Self(0);
    /// One microsecond.
    pub const MICRO: Self = Self(1_000);
    /// One millisecond.
    pub const MILLI: Self = Self(1_000_000);
    /// One second.
    pub const SECOND: Self = Self(1_000_000_000);
    /// The last representable time; as a deadline it means "never".
    pub const MAX: Self = Self(u64::MAX);

    /// `micros` microseconds.
    ///
    /// ```
    /// # use barewire_core::time::Nanos;
    /// assert_eq!(Nanos::from_micros(2), Nanos(2_000));
    /// ```
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(Self::MICRO.0))
    }

    /// `millis` milliseconds.
    ///
    /// ```
    /// # use barewire_core::time::Nanos;
    /// assert_eq!(Nanos::from_millis(1), Nanos::MILLI);
    /// ```
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(Self::MILLI.0))
    }

    /// `secs` seconds.
    ///
    /// ```
    /// # use barewire_core::time::Nanos;
    /// assert_eq!(Nanos::from_secs(1), Nanos::SECOND);
    /// ```
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(Self::SECOND.0))
    }

    /// The number of nanoseconds.
    ///
    /// ```
    /// # use barewire_core::time::Nanos;
    /// assert_eq!(Nanos::MICRO.as_nanos(), 1_000);
    /// ```
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for Nanos {
    type Output = Self;

    fn sub(self, rhs: Self) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

impl Mul<u64> for Nanos {
    type Output = Self;

    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}

impl From<Duration> for Nanos {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Self {
        Self::from_nanos(span.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from(*self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Nanos::MAX + Nanos::SECOND, Nanos::MAX);
        assert_eq!(Nanos::ZERO - Nanos::SECOND, Nanos::ZERO);
        assert_eq!(Nanos::MAX * 2, Nanos::MAX);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos::MAX);
        assert_eq!(Nanos::from(Duration::MAX), Nanos::MAX);
    }

    #[test]
    fn a_duration_survives_the_round_trip() {
        let span = Duration::new(3, 17);
        assert_eq!(Duration::from(Nanos::from(span)), span);
    }

    #[test]
    fn it_prints_with_its_unit() {
        assert_eq!(Nanos::from_micros(1500).to_string(), "1.5ms");
    }
}
