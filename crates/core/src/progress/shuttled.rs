//! What the shuttle brings: one short message, or a long one that is read while it is written.

use barewire_sys::ring::Packet;
use barewire_sys::shuttle::Shuttle;

use super::{Budget, Handled};
use crate::endpoint::Endpoint;
use crate::hold::HoldSlot;
use crate::incoming::{Deliver, Flow, Incoming};
use crate::provider::shm::{PACKET_BYTES_MAX, RingRx};
use crate::stream::OpenMessages;
use crate::wire::{self, Head};
use crate::{Peer, Port};

impl Endpoint {
    /// What the shuttle has brought, if that is next.
    #[inline(always)]
    pub(super) fn look_at_shuttle(&mut self, from: Peer, rx: &RingRx) -> Option<Packet> {
        rx.peek_shuttle(self.peers[from.index()].shuttle()?)
    }

    /// Takes the short message that the shuttle has brought; none if it is no such.
    #[inline(always)]
    pub(super) fn take_cargo<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        rx: &mut RingRx,
        budget: &mut Budget,
        packet: Packet,
    ) -> Option<Flow> {
        let (port, len) = wire::as_message(packet.w0)?;
        let entry = &mut self.peers[from.index()];
        // Out of its way, so that the handler can answer by it.
        let cargo = entry.shuttle()?.take(len)?;
        entry.stats.count_received(len);
        rx.ring.turn_over();
        rx.shuttle_hold.arm(1);
        let payload = cargo.payload();
        let flow = deliver.deliver(self, Incoming::whole(from, port, packet.w1, payload, &rx.shuttle_hold));
        self.finish_shuttled(from, rx);
        budget.spend(len);
        Some(flow)
    }

    /// Ends what the shuttle has brought.
    #[inline(always)]
    fn finish_shuttled(&mut self, from: Peer, rx: &mut RingRx) {
        if rx.finish_shuttled() {
            self.peers[from.index()].stats.held += 1;
            self.peers[from.index()].shuttle().into_iter().for_each(Shuttle::keep);
        }
    }

    /// Takes what else the shuttle has brought, or what there is of it.
    #[inline(never)]
    pub(super) fn take_long_cargo<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        rx: &mut RingRx,
        open: &mut OpenMessages,
        budget: &mut Budget,
        packet: Packet,
    ) -> Option<Handled> {
        let shuttle = self.peers[from.index()].shuttle()?;
        let Some((port, len)) =
            wire::as_message(packet.w0).filter(|&(_, len)| len <= shuttle.cargo_bytes_max())
        else {
            return self.take_written(deliver, from, rx, open, budget, packet);
        };
        rx.ring.turn_over();
        rx.shuttle_hold.arm(1);
        let flow = self.take_long_shuttled(deliver, from, port, packet.w1, len, &rx.shuttle_hold);
        self.finish_shuttled(from, rx);
        budget.spend(len);
        Some(flow.into())
    }

    /// Takes what the shuttle has brought where it is; the shuttle is ours when the handler has returned.
    #[inline(never)]
    fn take_long_shuttled<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        port: Port,
        imm: u64,
        len: usize,
        hold: &HoldSlot,
    ) -> Flow {
        let Some(mut link) = self.peers[from.index()].shuttle.take() else { return Flow::Distrust };
        let flow = match link.shuttle.payload(len) {
            Some(payload) => deliver.deliver(self, Incoming::whole(from, port, imm, payload, hold)),
            None => Flow::Distrust,
        };
        link.shuttle.pass();
        self.peers[from.index()].put_back(link).stats.count_received(len);
        flow
    }

    /// Takes what there is of a long message that comes by the shuttle, and has not been taken.
    #[inline(never)]
    fn take_written<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        rx: &mut RingRx,
        open: &mut OpenMessages,
        budget: &mut Budget,
        packet: Packet,
    ) -> Option<Handled> {
        let head = Head::unpack_long(packet.w0, packet.w1);
        let mut link = self.peers[from.index()].shuttle.take()?;
        let shuttle = &mut link.shuttle;
        let stream = shuttle.note();
        let payload = head.and_then(|head| shuttle.long_payload(head.len as usize));
        let (Some(head), Some(payload)) = (head, payload) else {
            return Some(Handled::Nonsense("what does not go by the shuttle"));
        };
        // All that is there, but no more than a packet beyond what was asked for.
        let payload = payload.first(PACKET_BYTES_MAX.max(budget.left()));
        let len = payload.remaining();
        if len == 0 {
            self.peers[from.index()].put_back(link);
            return None;
        }
        let Some(part) = open.go_on(&head, stream, len) else {
            return Some(Handled::Nonsense("a long message that goes on wrongly"));
        };
        rx.shuttle_hold.arm(1);
        let flow = deliver.deliver(self, Incoming::part(from, part, payload, &rx.shuttle_hold));
        rx.pass_written(&mut link.shuttle, len, part.offset + len as u64 == part.total);
        let kept = rx.finish_shuttled();
        if kept {
            link.shuttle.keep();
        }
        let stats = &mut self.peers[from.index()].put_back(link).stats;
        stats.count_received(len);
        stats.held += u64::from(kept);
        budget.spend(len);
        Some(flow.into())
    }
}
