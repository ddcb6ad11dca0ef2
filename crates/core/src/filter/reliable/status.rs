//! What a pair tells about itself: whether it lives, why it refuses, what it has counted.

use super::receiver::Arrival;
#[cfg(doc)]
use super::{Reliable, ReliableConfig};
use crate::time::Nanos;
use std::fmt;

/// Whether a pair works.
///
/// ```
/// use barewire_core::filter::reliable::{Reliable, ReliableConfig, State};
///
/// let end = Reliable::new(ReliableConfig::default(), 1)?;
/// assert_eq!(end.state(), State::Live);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It works, or nothing has shown yet that it does not.
    Live,
    /// It has ended. Nothing more is sent or taken in; a new pair needs a new [`Reliable`] with a new
    /// session.
    Dead(DeadReason),
}

/// Why a pair ended.
///
/// ```
/// use barewire_core::filter::reliable::DeadReason;
///
/// assert_eq!(DeadReason::Silent.to_string(), "the peer does not answer");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadReason {
    /// No answer for [`ReliableConfig::dead_after`] while one was due.
    Silent,
    /// Another incarnation answers at the peer's address.
    PeerRestarted,
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent => "the peer does not answer",
            Self::PeerRestarted => "the peer has restarted",
        })
    }
}

/// Why [`Reliable::send`] did not take a packet.
///
/// ```
/// use barewire_core::filter::reliable::{Reliable, ReliableConfig, SendError};
///
/// let mut end = Reliable::new(ReliableConfig { window_packets: 1, ..ReliableConfig::default() }, 1)?;
/// assert_eq!(end.send(9_999, |_| {}), Err(SendError::TooLong));
/// assert_eq!(end.send(1, |buf| buf[0] = 7), Ok(()));
/// assert_eq!(end.send(1, |buf| buf[0] = 8), Err(SendError::Full));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// Every slot holds a packet the peer has not acknowledged.
    #[error("every slot of the send window is taken")]
    Full,
    /// Longer than [`Reliable::payload_max`].
    #[error("the packet is longer than a datagram can carry")]
    TooLong,
    /// The pair is [`State::Dead`].
    #[error("the peer is dead")]
    Dead,
}

/// Counters and gauges of one end.
///
/// ```
/// use barewire_core::filter::reliable::{Reliable, ReliableConfig};
/// use barewire_core::time::Nanos;
///
/// let mut end = Reliable::new(ReliableConfig::default(), 1)?;
/// end.on_datagram(Nanos::ZERO, b"not one of ours");
/// assert_eq!((end.stats().invalid, end.stats().buffers), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReliableStats {
    /// Data datagrams sent, repetitions included.
    pub sent: u64,
    /// Repetitions among them.
    pub retransmitted: u64,
    /// Datagrams sent only to acknowledge, to open the window or to answer a stranger.
    pub acks: u64,
    /// Datagrams sent only to be answered: hellos, window probes, session checks.
    pub probes: u64,
    /// New packets that arrived.
    pub received: u64,
    /// New packets that arrived before an earlier one.
    pub out_of_order: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Packets the peer had no leave to send. An honest peer sends none.
    pub beyond_window: u64,
    /// Datagrams that failed a check: damaged, cut short or nonsense.
    pub invalid: u64,
    /// Sound datagrams of other sessions, and hellos.
    pub foreign: u64,
    /// The smoothed round trip, once measured.
    pub rtt: Option<Nanos>,
    /// How many packets the congestion window allows in flight.
    pub congestion_window: u32,
    /// Packets in flight.
    pub in_flight: u32,
    /// Packet buffers made, at most twice the window.
    pub buffers: usize,
}

impl ReliableStats {
    pub(super) fn count(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::InOrder => self.received += 1,
            Arrival::OutOfOrder => {
                self.received += 1;
                self.out_of_order += 1;
            }
            Arrival::Duplicate => self.duplicates += 1,
            Arrival::BeyondWindow => self.beyond_window += 1,
        }
    }
}
