//! What a simulated network is like.

use crate::config::Config;
use crate::error::OpenError;
use crate::filter::fault::FaultConfig;
use crate::filter::reliable::{ConfigError, ReliableConfig};
use crate::time::Nanos;
use crate::wire::HEAD_BYTES;

/// Whose time a network runs on.
///
/// ```
/// use barewire_core::sim::{Clock, Network, SimConfig};
/// use std::time::Duration;
/// let network = Network::new(2, SimConfig { clock: Clock::Real, ..SimConfig::default() }).unwrap();
/// let before = network.now();
/// std::thread::sleep(Duration::from_millis(1));
/// assert!(network.now() > before);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Time stands still until [`Network::step`](super::Network::step) moves it.
    Virtual,
    /// The machine's time, for endpoints on threads.
    Real,
}

/// A network's seed, speed and faults. The default is a good one: nothing is lost, and a datagram takes about two microseconds.
///
/// Speed follows LogGP: a datagram of `k` bytes leaves its sender `overhead` after the sender was free, occupies the way out,
/// and the way into its receiver, for `gap` or `k × byte_gap_ps`, whichever is longer, and is handed over `latency`
/// and another `overhead` later.
///
/// ```
/// use barewire_core::sim::{Clock, SimConfig};
/// use barewire_core::time::Nanos;
/// let slow = SimConfig { seed: 0x51f2, latency: Nanos::MILLI, ..SimConfig::default() };
/// assert_eq!(slow.clock, Clock::Virtual);
/// ```
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Everything random follows from it. Default 0.
    pub seed: u64,
    /// Whose time. Default virtual.
    pub clock: Clock,
    /// How long a datagram is on its way (L). Default 1.5 µs.
    pub latency: Nanos,
    /// How long an endpoint is busy sending or receiving a datagram (o). Default 250 ns.
    pub overhead: Nanos,
    /// The least time between two datagrams at one endpoint (g). Default 100 ns.
    pub gap: Nanos,
    /// Picoseconds that a byte takes (G). Default 80: 100 Gbit/s.
    pub byte_gap_ps: u64,
    /// The longest datagram in bytes, up to 65 535. Default 1472.
    pub mtu: usize,
    /// What goes wrong. `delay` adds to `latency`; `queue_max` bounds the datagrams on their way to one endpoint. Default
    /// nothing, and 4096 datagrams.
    pub faults: FaultConfig,
    /// How the endpoints behave; of the wires it names they use none.
    pub endpoint: Config,
    /// A peer that has not been heard from for so long is asked whether it is still there. Default zero: never. Then an idle
    /// network falls silent, and the death of a peer is found by the next packet to it, or by nobody.
    pub pulse: Nanos,
    /// The `reliable` filter's settings, but for its mtu, which is the network's.
    pub reliable: ReliableConfig,
}

impl Default for SimConfig {
    fn default() -> SimConfig {
        SimConfig {
            seed: 0,
            clock: Clock::Virtual,
            latency: Nanos(1500),
            overhead: Nanos(250),
            gap: Nanos(100),
            byte_gap_ps: 80,
            mtu: 1472,
            faults: FaultConfig::default(),
            endpoint: Config::default(),
            pulse: Nanos::ZERO,
            reliable: ReliableConfig::default(),
        }
    }
}

impl SimConfig {
    /// The same network, but this part of the datagrams gets lost.
    ///
    /// ```
    /// assert_eq!(barewire_core::sim::SimConfig::default().lossy(0.05).faults.loss, 0.05);
    /// ```
    #[must_use]
    pub fn lossy(mut self, loss: f64) -> SimConfig {
        self.faults.loss = loss;
        self
    }

    pub(super) fn reliable(&self) -> ReliableConfig {
        ReliableConfig { mtu: self.mtu, ..self.reliable.clone() }
    }

    pub(super) fn check(&self) -> Result<(), SimError> {
        self.endpoint.check()?;
        let reliable = self.reliable();
        crate::filter::reliable::Reliable::new(reliable.clone(), 0)?;
        let payload = reliable.payload_max();
        if payload < PAYLOAD_MIN + HEAD_BYTES {
            let min = self.mtu + PAYLOAD_MIN + HEAD_BYTES - payload;
            return Err(SimError::Mtu { mtu: self.mtu, min });
        }
        Ok(())
    }

    /// How long `bytes` occupy a wire.
    pub(super) fn wire_time(&self, bytes: usize) -> Nanos {
        self.gap.max(Nanos((bytes as u64).saturating_mul(self.byte_gap_ps) / 1000))
    }
}

/// A packet that holds less is not worth its header.
const PAYLOAD_MIN: usize = 128;

/// Why there is no such network.
///
/// ```
/// use barewire_core::sim::{Network, SimConfig, SimError};
/// use barewire_core::filter::reliable::ReliableConfig;
/// let reliable = ReliableConfig { window_packets: 0, ..ReliableConfig::default() };
/// let refused = Network::new(2, SimConfig { reliable, ..SimConfig::default() });
/// assert!(matches!(refused, Err(SimError::Reliable(_))));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The endpoints cannot work so.
    #[error(transparent)]
    Endpoint(#[from] OpenError),
    /// The filter cannot work so.
    #[error(transparent)]
    Reliable(#[from] ConfigError),
    /// The datagrams are too small.
    #[error("an mtu of {mtu} bytes leaves too little for a packet; it must be {min} at least")]
    Mtu {
        /// What was asked for.
        mtu: usize,
        /// What is needed.
        min: usize,
    },
    /// Memory for the doorbell could not be had.
    #[error(transparent)]
    Memory(#[from] barewire_sys::map::MapError),
    /// A descriptor could not be had.
    #[error(transparent)]
    System(#[from] std::io::Error),
}
