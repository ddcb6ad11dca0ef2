//! Providers: the wires. One closed enum for each direction, so that the hot path is a match and not a call through a table.

pub(crate) mod datagram;
pub(crate) mod local;
pub(crate) mod pool;
pub(crate) mod shm;
pub(crate) mod shuttle;
pub mod sim;
pub(crate) mod tcp;

use barewire_sys::ring::Full;
use barewire_sys::wirebuf::WireMut;

use crate::wire::{Begin, Head};
use pool::Pool;

/// What a packet may use of a link's room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Messages: leave the reserve alone.
    Data,
    /// The same for parts of messages that are longer than any cache of a processor's own.
    Bulk,
    /// Answers and control: may use all of it, so that answers get through when messages cannot.
    Control,
}

/// Writes a payload with what opens it, if it begins a long message.
pub(crate) fn opened(
    begin: Option<Begin>,
    fill: impl FnOnce(&mut WireMut<'_>),
) -> impl FnOnce(&mut WireMut<'_>) {
    move |wire| {
        begin.into_iter().for_each(|begin| wire.write_words(&begin.words()));
        fill(wire);
    }
}

/// The way out to one peer.
#[derive(Debug)]
pub(crate) enum Tx {
    /// Not connected.
    Closed,
    /// Shared memory, to a neighbour or to ourselves.
    Ring(Box<shm::RingTx>),
    /// A wire that may lose, double and reorder.
    Datagram(Box<datagram::DatagramTx>),
    /// A connection to a process anywhere.
    Tcp(Box<tcp::TcpTx>),
}

impl Tx {
    /// Sends one packet of any kind. Whole short messages over rings take a shorter way.
    #[inline(always)]
    pub fn send(
        &mut self,
        pool: &mut Pool,
        head: Head,
        class: Class,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), Full> {
        self.send_opened(pool, (head, None), class, fill)
    }

    /// The same with what opens a long message, which comes before what `fill` writes.
    #[inline(always)]
    pub fn send_opened(
        &mut self,
        pool: &mut Pool,
        (head, begin): (Head, Option<Begin>),
        class: Class,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), Full> {
        match self {
            Tx::Closed => Err(Full),
            Tx::Ring(ring) => ring.send(pool, head.words(), begin, class, fill),
            Tx::Datagram(link) => link.send(head, class, opened(begin, fill)),
            Tx::Tcp(tcp) => tcp.send(head, class, opened(begin, fill)),
        }
    }

    /// The largest payload worth putting into one packet of this class now.
    pub fn payload_now(&mut self, pool: &mut Pool, class: Class) -> usize {
        match self {
            Tx::Closed => 0,
            Tx::Ring(ring) => ring.payload_now(pool, class),
            Tx::Datagram(link) => link.payload_now(),
            Tx::Tcp(tcp) => tcp.payload_now(),
        }
    }

    /// The largest payload a packet can ever have.
    pub fn payload_max(&self) -> usize {
        match self {
            Tx::Closed => shm::PACKET_BYTES_MAX,
            Tx::Ring(ring) => ring.payload_max(),
            Tx::Datagram(link) => link.payload_max(),
            Tx::Tcp(_) => tcp::PACKET_BYTES_MAX,
        }
    }

    /// The receiver says how many bytes it is done with since the link opened; false if that cannot be.
    pub fn returned(&mut self, count: u64) -> bool {
        match self {
            Tx::Closed => true,
            Tx::Ring(_) => false,
            Tx::Datagram(link) => link.returned(count).is_ok(),
            Tx::Tcp(tcp) => tcp.returned(count).is_ok(),
        }
    }

    /// True once when something gathers here that has to be flushed by and by.
    #[inline(always)]
    pub fn wants_listing(&mut self) -> bool {
        match self {
            Tx::Closed | Tx::Ring(_) | Tx::Datagram(_) => false,
            Tx::Tcp(tcp) => tcp.gathered() > 0 && !std::mem::replace(&mut tcp.listed, true),
        }
    }
}

/// The way in from one peer.
#[derive(Debug)]
#[repr(u8)] // Told apart for every look.
pub(crate) enum Rx {
    /// Shared memory, from a neighbour or from ourselves.
    Ring(shm::RingRx),
    /// A wire that may lose, double and reorder.
    Datagram(datagram::DatagramRx),
    /// A connection from a process anywhere.
    Tcp(tcp::TcpRx),
}
