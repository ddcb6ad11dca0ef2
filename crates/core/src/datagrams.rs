//! The endpoint's datagram links at work: what has arrived goes into the filters, their packets to the handlers, and what is due
//! leaves.

use barewire_sys::wirebuf::WireRef;

use crate::endpoint::Endpoint;
use crate::error::WaitError;
use crate::filter::reliable::{DeadReason, State};
use crate::incoming::Deliver;
use crate::peer::PeerState;
use crate::progress::{BATCH, Budget, EndReason, Handled, UNPAID};
use crate::provider::datagram::{DatagramRx, DatagramTx, Datagrams, Wire, split};
use crate::provider::sim::Turn;
use crate::provider::tcp::charge;
use crate::provider::{Class, Rx, Tx};
use crate::stream::OpenMessages;
use crate::time::Nanos;
use crate::wire::{Head, Kind};
use crate::{Peer, Port};
use std::time::{Duration, Instant};

/// Datagrams taken from the wire in one call of `progress`.
const DATAGRAMS_A_TURN: usize = 256;
/// A leaving endpoint looks this often whether all has arrived.
const LINGER_EVERY: Duration = Duration::from_micros(50);
/// How often a peer that leaves is told that its farewell came: it waits for that, and we shall not be there to say it again.
const FAREWELL_ACKS: u32 = 4;
/// How long to wait for word that a farewell came, if all before it did: as long as a peer may be silent without counting as dead.
const FAREWELL_FOR: Duration = Duration::from_millis(900);

impl Endpoint {
    /// Gives what has arrived to the filters.
    #[inline(never)]
    pub(crate) fn receive_datagrams(&mut self) {
        let Some(mut datagrams) = self.datagrams.take() else { return };
        let now = datagrams.wire.now();
        datagrams.unread = false;
        for _ in 0..DATAGRAMS_A_TURN {
            let mut bytes = std::mem::take(&mut datagrams.buffer);
            let from = datagrams.wire.receive(now, &mut bytes);
            if let Some(link) = from.and_then(|from| self.datagram_link(&mut datagrams, from)) {
                datagrams.on_datagram(now, link, &bytes);
            }
            datagrams.buffer = bytes;
            let Some(from) = from else { break };
            self.list_datagram(&mut datagrams, from);
        }
        while let Some(peer) = datagrams.pop_due(now) {
            if let Tx::Datagram(link) = &mut self.peers[peer.index()].tx {
                link.timer = None;
            }
            self.list_datagram(&mut datagrams, peer);
        }
        self.datagrams = Some(datagrams);
    }

    /// Sends what is due on all links that something happened to.
    #[inline(never)]
    pub(crate) fn transmit_datagrams<D: Deliver>(&mut self, deliver: &mut D) {
        self.transmit_listed();
        if !self.lost.is_empty() {
            self.tell_lost(deliver);
        }
    }

    fn transmit_listed(&mut self) {
        let Some(datagrams) = &mut self.datagrams else { return };
        let now = datagrams.wire.now();
        let mut listed = std::mem::take(&mut datagrams.listed);
        for peer in listed.drain(..) {
            if let Tx::Datagram(link) = &mut self.peers[peer.index()].tx {
                datagrams.transmit(now, peer, link);
            }
        }
        datagrams.listed = listed;
        datagrams.wire.set_timer(datagrams.timer());
    }

    /// Something was sent to this peer: lets it leave.
    pub(crate) fn transmit_to(&mut self, to: Peer) {
        let Some(datagrams) = &mut self.datagrams else { return };
        if let Tx::Datagram(link) = &mut self.peers[to.index()].tx {
            let now = datagrams.wire.now();
            datagrams.transmit(now, to, link);
            datagrams.wire.set_timer(datagrams.timer());
        }
    }

    fn list_datagram(&mut self, datagrams: &mut Datagrams, peer: Peer) {
        if let Some(Tx::Datagram(link)) = self.peers.get_mut(peer.index()).map(|entry| &mut entry.tx) {
            if !std::mem::replace(&mut link.listed, true) {
                datagrams.listed.push(peer);
            }
        }
    }

    /// The link with a peer that was heard of: made, if this is the first time.
    fn datagram_link(&mut self, datagrams: &mut Datagrams, peer: Peer) -> Option<&mut DatagramTx> {
        if peer == self.me {
            return None;
        }
        let entry = self.peers.get(peer.index())?;
        if matches!(entry.tx, Tx::Closed) && !entry.is_gone() {
            self.open_datagram_link(datagrams, peer).ok()?;
        }
        match &mut self.peers[peer.index()].tx {
            Tx::Datagram(link) => Some(link),
            _ => None,
        }
    }

    fn open_datagram_link(&mut self, datagrams: &mut Datagrams, peer: Peer) -> std::io::Result<()> {
        let (tx, rx) = datagrams.link()?;
        let entry = &mut self.peers[peer.index()];
        entry.tx = Tx::Datagram(Box::new(tx));
        entry.state = PeerState::Connected;
        entry.choice = Some(datagrams.wire.describe().to_owned());
        entry.refresh_fast();
        self.add_inbound(peer, Rx::Datagram(rx));
        Ok(())
    }

    /// Opens the way to a peer on the same wire of datagrams; false if there is no such wire.
    pub(crate) fn connect_by_datagrams(&mut self, to: Peer) -> bool {
        let Some(mut datagrams) = self.datagrams.take() else { return false };
        let opened = if to == self.me {
            self.connect_to_self().map_err(|error| error.to_string())
        } else {
            self.open_datagram_link(&mut datagrams, to).map_err(|error| error.to_string())
        };
        self.datagrams = Some(datagrams);
        if let Err(reason) = opened {
            self.lose(to, reason);
        }
        true
    }

    /// Hands out what has arrived from one peer.
    pub(crate) fn take_from_datagrams<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        rx: &mut DatagramRx,
        open: &mut OpenMessages,
        budget: &mut Budget,
    ) -> Result<(), EndReason> {
        let fate = self.take_datagrams(deliver, from, rx, open, budget);
        if let (Err(_), Some(datagrams)) = (&fate, &mut self.datagrams) {
            // The links behind this one move up, and `progress` passes over one of them: look again soon.
            datagrams.unread = true;
        }
        fate
    }

    #[inline(never)]
    fn take_datagrams<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        rx: &mut DatagramRx,
        open: &mut OpenMessages,
        budget: &mut Budget,
    ) -> Result<(), EndReason> {
        rx.settle();
        let mut taken = 0;
        let mut unread = true;
        while taken < BATCH && !budget.is_spent() {
            let Tx::Datagram(link) = &mut self.peers[from.index()].tx else { return Err(EndReason::Closed) };
            let Some(packet) = link.reliable.recv().map(|packet| packet.hold()) else {
                if let State::Dead(reason) = link.reliable.state() {
                    return Err(EndReason::Broken(describe(reason)));
                }
                unread = false;
                break;
            };
            taken += 1;
            let handled = self.take_datagram(deliver, from, &packet, rx, open, budget);
            let is_gone = self.peers[from.index()].is_gone();
            if let Tx::Datagram(link) = &mut self.peers[from.index()].tx {
                link.reliable.release(packet);
                if is_gone {
                    link.expect_nothing();
                }
            }
            match handled {
                Handled::Next | Handled::Later => {}
                Handled::Quit => budget.quit = true,
                Handled::Nonsense(what) => return Err(EndReason::Nonsense(what)),
            }
        }
        if let Some(count) = rx.credit.due_before_idle() {
            self.return_datagram_credit(from, rx, count);
        }
        if let Some(mut datagrams) = self.datagrams.take() {
            datagrams.unread |= unread;
            if taken > 0 {
                self.list_datagram(&mut datagrams, from);
            }
            self.datagrams = Some(datagrams);
        }
        Ok(())
    }

    fn take_datagram<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        packet: &[u8],
        rx: &mut DatagramRx,
        open: &mut OpenMessages,
        budget: &mut Budget,
    ) -> Handled {
        let Some((head, payload)) = split(packet) else { return Handled::Nonsense("a packet that is none") };
        let charge = charge(&head, packet.len());
        rx.arrive(charge);
        let handled = self.dispatch(deliver, from, head, WireRef::new(payload), open, &rx.hold);
        let kept = rx.finish(charge);
        budget.spend(payload.len());
        let stats = &mut self.peers[from.index()].stats;
        stats.count_received(payload.len());
        stats.held += u64::from(kept);
        if kept && rx.credit.is_overdrawn() {
            return Handled::Nonsense(UNPAID);
        }
        if let Some(count) = rx.credit.due() {
            self.return_datagram_credit(from, rx, count);
        }
        handled
    }

    /// Tells a sender what we are done with; if there is no room, the next call of `progress` does.
    fn return_datagram_credit(&mut self, to: Peer, rx: &mut DatagramRx, count: u64) {
        let head = Head { kind: Kind::Credit, flags: 0, port: Port(0), len: 0, w1: count };
        if let Tx::Datagram(link) = &mut self.peers[to.index()].tx {
            if link.send(head, Class::Control, |_| {}).is_ok() {
                rx.credit.told(count);
                self.transmit_to(to);
            }
        }
    }

    /// How long one may sleep though nothing arrives.
    pub(crate) fn datagram_deadline(&self) -> Option<Duration> {
        let datagrams = self.datagrams.as_deref()?;
        let next = datagrams.timer().into_iter().chain(datagrams.wire.next_arrival()).min()?;
        Some(Duration::from(next - datagrams.wire.now()))
    }

    /// Whether nothing has arrived and nothing is due.
    pub(crate) fn are_datagrams_quiet(&self) -> bool {
        self.datagram_deadline() != Some(Duration::ZERO)
    }

    /// Whether time is not the machine's.
    pub(crate) fn is_virtual(&self) -> bool {
        self.datagrams.as_ref().is_some_and(|datagrams| datagrams.wire.is_virtual())
    }

    /// A wait in virtual time, which lasts until `end`: moves the clock on if it is ours to move.
    pub(crate) fn wait_virtually(
        &mut self,
        timeout: Option<Duration>,
        started: &mut Option<Nanos>,
    ) -> Result<(), WaitError> {
        let Some(datagrams) = &mut self.datagrams else { return Ok(()) };
        let now = datagrams.wire.now();
        let end = timeout.map(|timeout| *started.get_or_insert(now) + Nanos::from(timeout));
        if end.is_some_and(|end| end <= now) {
            return Err(WaitError::TimedOut);
        }
        let Wire::Sim(sim) = &mut datagrams.wire;
        match sim.turn(end) {
            Turn::Mine => Ok(()),
            Turn::Of(peer) => Err(WaitError::NotOurTurn(peer)),
            Turn::Over => Err(WaitError::TimedOut),
            Turn::Never => Err(WaitError::Never),
        }
    }

    /// A peer is lost, and its link with it.
    pub(crate) fn close_datagram_link(&mut self, peer: Peer) {
        if let (Some(datagrams), Tx::Datagram(link)) = (&mut self.datagrams, &mut self.peers[peer.index()].tx)
        {
            datagrams.forget_timer(peer, link);
        }
    }

    /// Before the endpoint goes: lets what we sent, and our farewell, reach the peers that still listen.
    ///
    /// A peer is done with when it has acknowledged everything, when it has left itself and been told that its farewell came, or when it
    /// counts as dead; and for the farewell alone nobody waits long. Virtual time cannot pass in here, so there everything is sent
    /// once and not waited for.
    pub(crate) fn linger_on_datagrams(&mut self, bye: Head) {
        let mut leaving: Vec<Leaving> =
            self.inbound.iter().map(|slot| Leaving { peer: slot.peer, said: false, told: 0 }).collect();
        let started = Instant::now();
        loop {
            self.flush_outboxes();
            self.receive_datagrams();
            let is_late = started.elapsed() > FAREWELL_FOR;
            leaving.retain_mut(|Leaving { peer, said, told }| {
                let entry = &mut self.peers[peer.index()];
                let Tx::Datagram(link) = &mut entry.tx else { return false };
                let mut left = *told > 0 || matches!(entry.state, PeerState::Left);
                while let Some(packet) = link.reliable.recv() {
                    left |= split(&packet).is_some_and(|(head, _)| head.kind == Kind::Bye);
                }
                if link.reliable.state() != State::Live {
                    return false;
                }
                if left {
                    link.reliable.acknowledge();
                    *told += 1;
                    return *told <= FAREWELL_ACKS;
                }
                *said = *said || link.send(bye, Class::Control, |_| {}).is_ok();
                let unacked = link.reliable.unacked();
                !*said || unacked > 1 || (unacked == 1 && !is_late)
            });
            for slot in 0..self.inbound.len() {
                self.transmit_to(self.inbound[slot].peer);
            }
            let open = self.datagrams.as_ref().is_some_and(|datagrams| datagrams.wire.is_open());
            if leaving.is_empty() || !open || self.is_virtual() {
                return;
            }
            std::thread::sleep(self.datagram_deadline().map_or(LINGER_EVERY, |due| due.min(LINGER_EVERY)));
        }
    }
}

/// A peer that is to hear that we leave.
struct Leaving {
    peer: Peer,
    said: bool,
    /// How often it was told that its own farewell came.
    told: u32,
}

fn describe(reason: DeadReason) -> String {
    match reason {
        DeadReason::Silent => "it does not answer".to_owned(),
        DeadReason::PeerRestarted => "it was started anew".to_owned(),
    }
}
