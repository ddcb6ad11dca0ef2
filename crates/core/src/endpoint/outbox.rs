//! What finds no room: answers wait in the outbox, and whoever sleeps is woken when there is some.

use barewire_sys::wirebuf::WireMut;

use super::Endpoint;
use crate::Peer;
use crate::error::SendError;
use crate::provider::{Class, Tx};
use crate::wire::Head;

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
        peer.outbox.push_back((head, payload));
        peer.stats.deferred += 1;
        peer.refresh_fast();
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
                peer.outbox.pop_front();
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
