//! What finds no room: answers wait in the outbox, and whoever sleeps is woken when there is some.

use std::collections::VecDeque;

use barewire_sys::wirebuf::WireMut;

use super::Endpoint;
use crate::Peer;
use crate::error::SendError;
use crate::provider::{Class, Tx};
use crate::wire::Head;

/// What may wait for one peer, in bytes: far more than layers of ours can owe, so that a peer that only asks and takes no answer costs no more.
const BYTES_MAX: usize = 256 << 20;
/// What a packet that waits takes beside its payload.
const PACKET_BYTES: usize = 128;

/// Packets that wait for room at one peer, in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    packets: VecDeque<(Head, Vec<u8>)>,
    bytes: usize,
}

impl Outbox {
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub fn len(&self) -> usize {
        self.packets.len()
    }

    fn front(&self) -> Option<&(Head, Vec<u8>)> {
        self.packets.front()
    }

    /// False if more waits already than anybody can be owed.
    #[must_use]
    fn push(&mut self, head: Head, payload: Vec<u8>) -> bool {
        self.bytes += PACKET_BYTES + payload.len();
        self.packets.push_back((head, payload));
        self.bytes <= BYTES_MAX
    }

    fn pop(&mut self) {
        let gone = self.packets.pop_front();
        self.bytes -= gone.map_or(0, |(_, payload)| PACKET_BYTES + payload.len());
    }
}

impl Endpoint {
    /// Before sleeping: asks every receiver we found no room at to ring when it has some.
    pub(crate) fn want_room(&mut self) {
        for to in &self.starving {
            if let Tx::Ring(ring) = &self.peers[to.index()].tx {
                ring.want_room();
            }
        }
    }

    /// Whether a receiver we found no room at has given some back since.
    pub(crate) fn found_room(&mut self) -> bool {
        let before = self.starving.len();
        let mut starving = std::mem::take(&mut self.starving);
        starving.retain(|to| {
            let peer = &mut self.peers[to.index()];
            let still = match &mut peer.tx {
                Tx::Ring(ring) => peer.starved_at == Some(ring.freed()),
                Tx::Tcp(tcp) => peer.starved_at == Some(tcp.freed()),
                Tx::Datagram(link) => peer.starved_at == Some(link.freed()),
                Tx::Closed => false,
            };
            if !still {
                peer.starved_at = None;
            }
            still
        });
        self.starving = starving;
        self.starving.len() < before
    }

    /// Sends one packet, or puts it into the outbox if there is no room.
    pub(crate) fn send_or_defer(
        &mut self,
        to: Peer,
        head: Head,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        let mut fill = Some(fill);
        let sent = self.send_packet(to, head, Class::Control, |wire| {
            if let Some(fill) = fill.take() {
                fill(wire);
            }
        });
        let (Err(SendError::Full), Some(fill)) = (sent, fill) else { return sent };
        let mut payload = vec![0; head.len as usize];
        fill(&mut WireMut::new(&mut payload));
        let peer = &mut self.peers[to.index()];
        if peer.outbox.is_empty() {
            self.deferring.push(to);
        }
        let bounded = peer.outbox.push(head, payload);
        peer.stats.deferred += 1;
        peer.refresh_fast();
        if !bounded {
            self.lose(to, "it asks and takes no answers".to_owned());
            return Err(SendError::Lost(to));
        }
        Ok(())
    }

    /// Sends what waits in outboxes, as far as there is room.
    pub(crate) fn flush_outboxes(&mut self) {
        let mut waiting = std::mem::take(&mut self.deferring);
        let deferring = if self.datagrams.is_some() { waiting.clone() } else { Vec::new() };
        waiting.retain(|&to| {
            let peer = &mut self.peers[to.index()];
            while let Some((head, payload)) = peer.outbox.front() {
                let fill = |wire: &mut WireMut<'_>| {
                    wire.write(payload);
                };
                if peer.tx.send(&mut self.pool, *head, Class::Control, fill).is_err() {
                    return true;
                }
                peer.stats.count_sent(head.len as usize);
                peer.outbox.pop();
                if peer.tx.wants_listing() {
                    self.sockets.list(to);
                }
            }
            peer.refresh_fast();
            false
        });
        for &to in &waiting {
            let _ = self.starve(to);
        }
        self.deferring.extend(waiting);
        deferring.into_iter().for_each(|to| self.transmit_to(to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Port;
    use crate::wire::Kind;

    #[test]
    fn what_waits_is_counted_until_it_is_gone_and_bounded() {
        let (mut outbox, most) = (Outbox::default(), BYTES_MAX / (PACKET_BYTES + 1024));
        let head = Head { kind: Kind::Message, flags: 0, port: Port(1), len: 1024, w1: 0 };
        assert!((0..most).all(|_| outbox.push(head, vec![0; 1024])));
        outbox.pop();
        assert!(outbox.push(head, vec![0; 1024]) && !outbox.push(head, vec![0; 1024]));
        (0..=most).for_each(|_| outbox.pop());
        assert_eq!((outbox.len(), outbox.bytes), (0, 0));
    }
}
