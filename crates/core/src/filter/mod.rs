//! Filters: what a wire lacks, added between the wire and the endpoint.
//!
//! A filter is a state machine over bytes and a time that is passed in; it owns no socket, no clock and no
//! thread. So the same code runs over UDP, over AF_XDP and, thousands of times faster than life, over a
//! simulated wire.
//!
//! - [`reliable`] makes exactly-once, in-order delivery out of datagrams that get lost, doubled, reordered,
//!   cut short or damaged.
//! - [`fault`] is the opposite: it does all of that to a good wire, from a seed, for tests.
//!
//! ```
//! use barewire_core::filter::{fault::{Fault, FaultConfig}, reliable::{Reliable, ReliableConfig}};
//! use barewire_core::time::Nanos;
//!
//! let bad = FaultConfig { loss: 0.3, corrupt: 0.1, duplicate: 0.1, ..FaultConfig::default() };
//! let mut wires = [Fault::new(bad.clone(), 1), Fault::new(bad, 2)];
//! let mut ends = [Reliable::new(ReliableConfig::default(), 11)?, Reliable::new(ReliableConfig::default(), 22)?];
//! for number in 0..50 {
//!     ends[0].send(1, |packet| packet[0] = number)?;
//! }
//! let (mut now, mut datagram) = (Nanos::ZERO, Vec::new());
//! while ends[0].unacked() > 0 {
//!     now += Nanos::from_micros(100);
//!     for from in [0, 1] {
//!         while ends[from].poll_transmit(now, &mut datagram) {
//!             wires[from].push(now, &datagram);
//!         }
//!         while let Some(datagram) = wires[from].pop(now) {
//!             ends[1 - from].on_datagram(now, &datagram);
//!         }
//!     }
//! }
//! let came: Vec<u8> = std::iter::from_fn(|| ends[1].recv().map(|packet| packet[0])).collect();
//! assert_eq!(came, Vec::from_iter(0..50), "every packet once and in order");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod fault;
pub mod reliable;
