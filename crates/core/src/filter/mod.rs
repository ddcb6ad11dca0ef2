//! Filters: what a wire lacks, added between the wire and the endpoint.
//!
//! A filter is a state machine over bytes and a time that is passed in; it owns no socket, no clock and no
//! thread. So the same code runs over UDP, over AF_XDP and, thousands of times faster than life, over a
//! simulated wire.
//!
//! - [`reliable`] makes exactly-once, in-order delivery out of datagrams that get lost, doubled, reordered,
//!   cut short or damaged.
//! - [`fault`] is the opposite: it does all of that to a good wire, from a seed, for tests.

pub mod fault;
pub mod reliable;
