//! TCP: one connection between two hosts, packets one after the other, both ways.
//!
//! Small messages are bundled while others are on their way and written alone when nothing is, so that one message alone is as
//! fast as a bare socket and many cost a fraction of a system call each. Packets are handled where they were received,
//! and a long one as its parts arrive. Long messages go straight from their sender's buffer into the socket, in packets of their own
//! length, and all but their beginning straight out of the socket to where the layer above wants them.

pub(crate) mod net;
pub(crate) mod pulse;
mod rx;
mod split;
mod tx;

use crate::wire::{Begin, HEAD_BYTES, Head, Kind};

pub(crate) use rx::TcpRx;
pub(crate) use split::Split;
#[cfg(any(test, fuzzing))]
pub(crate) use split::Splitter;
pub(crate) use tx::TcpTx;

/// Longest payload of one packet.
pub(crate) const PACKET_BYTES_MAX: usize = 64 << 10;
/// Longest payload of a packet of a long message that is sent from where it is: what one system call moves. A round number of bytes and
/// what opens the message.
pub(crate) const PIECE_BYTES_MAX: usize = (256 << 10) + Begin::BYTES;

const _: () = assert!((PACKET_BYTES_MAX + HEAD_BYTES) as u64 <= crate::credit::CHARGE_MAX);

/// The longest payload of a packet of one kind.
#[inline]
pub(crate) fn payload_max(kind: Kind) -> usize {
    match kind {
        Kind::Begin | Kind::Piece => PIECE_BYTES_MAX,
        _ => PACKET_BYTES_MAX,
    }
}

/// What a packet, or a part of one, charges: its bytes, unless charging it would beget another packet.
#[inline]
pub(crate) fn charge(head: &Head, bytes: usize) -> u64 {
    match head.kind {
        Kind::Credit | Kind::Ping | Kind::Bye => 0,
        _ => bytes as u64,
    }
}
