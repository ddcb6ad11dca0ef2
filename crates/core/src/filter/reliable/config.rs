//! The knobs of the reliable filter, what they cost, and which settings make no sense.

use super::wire::{HEADER_BYTES, SACK_WORDS_MAX};
use crate::time::Nanos;

/// How a [`Reliable`](super::Reliable) behaves. The defaults suit a cluster: round trips of 5 µs to a few
/// milliseconds, loss the exception.
///
/// Both ends of a pair must have the same `mtu`; the rest may differ.
///
/// ```
/// use barewire_core::filter::reliable::{ConfigError, Reliable, ReliableConfig};
///
/// let jumbo = ReliableConfig { mtu: 8972, ..ReliableConfig::default() };
/// assert!(Reliable::new(jumbo, 1).is_ok());
/// let absurd = ReliableConfig { window_packets: 0, ..ReliableConfig::default() };
/// assert!(matches!(Reliable::new(absurd, 1), Err(ConfigError::Window { packets: 0, .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReliableConfig {
    /// The largest datagram the wire carries, in bytes, up to 65 535. Default 1472: UDP over IPv4 over
    /// Ethernet. A datagram spends 56 bytes of it on the header and [reserves](super::Reliable::payload_max)
    /// 8 for every 64 packets of window.
    pub mtu: usize,
    /// Slots each way, 1 to 1024. Default 256. A pair that streams costs up to `2 × window_packets × mtu`
    /// bytes (736 KiB by default), a pair that exchanges single packets two or three buffers, an idle pair
    /// none. A stream carries at most `window_packets` packets a round trip.
    pub window_packets: u32,
    /// The least time to wait for an answer before asking again. Default 2 ms. Lower finds the loss of a last
    /// packet sooner; higher spares a busy peer needless repetitions.
    pub rto_min: Nanos,
    /// The most the wait grows to when no answer comes. Default 50 ms. A wire with longer round trips is
    /// waited for as long as it needs. Lower finds a restored link sooner; higher sends less into a cut one.
    pub rto_max: Nanos,
    /// How long a lone packet may wait for company before it is acknowledged. Default 50 µs. Higher saves
    /// acks, and delays the sender's freeing of its slots by as much.
    pub ack_delay: Nanos,
    /// How long the peer may leave us without an answer, while we wait for one, before it counts as dead.
    /// Default 900 ms. At least three unanswered repetitions are needed besides, so a pause of our own does
    /// not kill the peer.
    pub dead_after: Nanos,
}

impl Default for ReliableConfig {
    fn default() -> Self {
        Self {
            mtu: 1472,
            window_packets: 256,
            rto_min: Nanos::from_millis(2),
            rto_max: Nanos::from_millis(50),
            ack_delay: Nanos::from_micros(50),
            dead_after: Nanos::from_millis(900),
        }
    }
}

impl ReliableConfig {
    /// The first reason why this configuration cannot work.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if !(1..=WINDOW_MAX).contains(&self.window_packets) {
            return Err(ConfigError::Window { packets: self.window_packets, max: WINDOW_MAX });
        }
        let mtu_min = HEADER_BYTES + self.sack_bytes_max() + PAYLOAD_MIN;
        if !(mtu_min..=MTU_MAX).contains(&self.mtu) {
            return Err(ConfigError::Mtu { mtu: self.mtu, min: mtu_min, max: MTU_MAX });
        }
        let ordered = Nanos::MICRO <= self.rto_min
            && self.rto_min <= self.rto_max
            && self.rto_max <= self.dead_after
            && self.ack_delay <= self.rto_max;
        if !ordered {
            return Err(ConfigError::Times {
                rto_min: self.rto_min,
                rto_max: self.rto_max,
                ack_delay: self.ack_delay,
                dead_after: self.dead_after,
            });
        }
        Ok(())
    }

    /// The largest payload we send.
    pub(super) fn payload_max(&self) -> usize {
        self.mtu - HEADER_BYTES - self.sack_bytes_max()
    }

    /// The largest payload we take: a peer with a smaller window has more room in the same mtu.
    pub(super) fn accept_max(&self) -> usize {
        self.mtu - HEADER_BYTES
    }

    fn sack_bytes_max(&self) -> usize {
        (self.window_packets as usize - 1).div_ceil(64) * 8
    }
}

/// Why a [`ReliableConfig`] was refused.
///
/// ```
/// use barewire_core::filter::reliable::{Reliable, ReliableConfig};
///
/// let tiny = ReliableConfig { mtu: 100, window_packets: 1, ..ReliableConfig::default() };
/// let error = Reliable::new(tiny, 1).unwrap_err();
/// assert_eq!(error.to_string(), "an mtu of 100 bytes is outside 120..=65535");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The window has no slots or more than an acknowledgement can name.
    #[error("a window of {packets} packets is outside 1..={max}")]
    Window {
        /// The window asked for.
        packets: u32,
        /// The largest one.
        max: u32,
    },
    /// The datagrams are too small to carry anything or too large for a length field.
    #[error("an mtu of {mtu} bytes is outside {min}..={max}")]
    Mtu {
        /// The mtu asked for.
        mtu: usize,
        /// The smallest one for this window.
        min: usize,
        /// The largest one.
        max: usize,
    },
    /// The times contradict each other.
    #[error(
        "1 µs <= rto_min ({rto_min}) <= rto_max ({rto_max}) <= dead_after ({dead_after}) \
         and ack_delay ({ack_delay}) <= rto_max must hold"
    )]
    Times {
        /// [`ReliableConfig::rto_min`].
        rto_min: Nanos,
        /// [`ReliableConfig::rto_max`].
        rto_max: Nanos,
        /// [`ReliableConfig::ack_delay`].
        ack_delay: Nanos,
        /// [`ReliableConfig::dead_after`].
        dead_after: Nanos,
    },
}

const WINDOW_MAX: u32 = SACK_WORDS_MAX as u32 * 64;
const MTU_MAX: usize = u16::MAX as usize;
/// A wire that carries less than this at a time is not worth the header.
const PAYLOAD_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_sound() {
        let config = ReliableConfig::default();
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.payload_max(), 1472 - 56 - 32);
    }

    #[test]
    fn the_bitmap_of_the_largest_window_fits() {
        let config = ReliableConfig { window_packets: 1024, ..ReliableConfig::default() };
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.sack_bytes_max(), SACK_WORDS_MAX * 8);
    }

    #[test]
    fn contradictory_settings_are_refused() {
        let base = ReliableConfig::default;
        for bad in [
            ReliableConfig { window_packets: 0, ..base() },
            ReliableConfig { window_packets: 1025, ..base() },
            ReliableConfig { mtu: 0, ..base() },
            ReliableConfig { mtu: 65_536, ..base() },
            ReliableConfig { rto_min: Nanos::ZERO, ..base() },
            ReliableConfig { rto_max: Nanos::MILLI, ..base() },
            ReliableConfig { dead_after: Nanos::MILLI, ..base() },
            ReliableConfig { ack_delay: Nanos::SECOND, ..base() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
