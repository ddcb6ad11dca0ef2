//! Datagrams: a wire that may lose, double and reorder, made good by one `reliable` filter for each peer.
//!
//! A packet of the core, header and payload, is one packet of the filter. The filter's window bounds what the wire carries and
//! opens as soon as `progress` takes a packet; credits bound what the receiver has to hold and come back when a handler is done.
//! So a suspended handler stops its sender, and answers still get through.

use std::collections::BTreeSet;

use barewire_sys::ring::Full;
use barewire_sys::wirebuf::WireMut;

use super::Class;
use super::sim::SimWire;
use super::tcp::charge;
use crate::credit::{Impossible, RecvCredit, SendCredit};
use crate::filter::reliable::{ConfigError, Reliable, ReliableConfig, State};
use crate::hold::HoldSlot;
use crate::time::Nanos;
use crate::wire::{HEAD_BYTES, Head, Kind};
use crate::{Peer, Port};

/// What carries the datagrams of an endpoint. It knows its peers by number, and the time.
#[derive(Debug)]
pub(crate) enum Wire {
    /// A simulated network in this process.
    Sim(SimWire),
}

impl Wire {
    /// The time on this wire's clock.
    pub fn now(&self) -> Nanos {
        match self {
            Wire::Sim(sim) => sim.now(),
        }
    }

    /// Which wire it is, and why it was chosen.
    pub fn describe(&self) -> &'static str {
        match self {
            Wire::Sim(_) => "sim: the network is simulated",
        }
    }

    /// Whether time passes only when somebody says so.
    pub fn is_virtual(&self) -> bool {
        match self {
            Wire::Sim(sim) => sim.is_virtual(),
        }
    }

    /// Puts a datagram on the wire; it may get lost.
    pub fn send(&mut self, now: Nanos, to: Peer, datagram: &[u8]) {
        match self {
            Wire::Sim(sim) => sim.send(now, to, datagram),
        }
    }

    /// The next datagram that has arrived, put into `into`, and from whom it is.
    pub fn receive(&mut self, now: Nanos, into: &mut Vec<u8>) -> Option<Peer> {
        match self {
            Wire::Sim(sim) => sim.receive(now, into),
        }
    }

    /// When the next datagram arrives, as far as one can know.
    pub fn next_arrival(&self) -> Option<Nanos> {
        match self {
            Wire::Sim(sim) => sim.next_arrival(),
        }
    }

    /// Says when this endpoint has something to do even if no datagram arrives.
    pub fn set_timer(&mut self, at: Option<Nanos>) {
        match self {
            Wire::Sim(sim) => sim.set_timer(at),
        }
    }

    /// Whether anybody can hear us.
    pub fn is_open(&self) -> bool {
        match self {
            Wire::Sim(sim) => sim.is_open(),
        }
    }

    /// A number nobody else has: random, or, where a run has to be repeatable, from the seed.
    pub fn number(&mut self) -> std::io::Result<u64> {
        match self {
            Wire::Sim(sim) => Ok(sim.number()),
        }
    }
}

/// Everything an endpoint has to do with datagrams.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub wire: Wire,
    reliable: ReliableConfig,
    credit_bytes: u64,
    /// A peer not heard from for so long is asked whether it is still there; zero for never.
    pulse: Nanos,
    /// Where datagrams are written and read.
    pub buffer: Vec<u8>,
    /// Links that may have something to transmit.
    pub listed: Vec<Peer>,
    /// When links have something to do if nothing happens before: at most one time for each.
    timers: BTreeSet<(Nanos, Peer)>,
    /// Packets have arrived that a handler has not seen yet, for want of budget.
    pub unread: bool,
}

impl Datagrams {
    /// Links over `wire`, with the filter, the credits and the pulse as given.
    pub fn new(
        wire: Wire,
        reliable: ReliableConfig,
        credit_bytes: u64,
        pulse: Nanos,
    ) -> Result<Datagrams, ConfigError> {
        Reliable::new(reliable.clone(), 0)?;
        Ok(Datagrams {
            wire,
            reliable,
            credit_bytes,
            pulse,
            buffer: Vec::new(),
            listed: Vec::new(),
            timers: BTreeSet::new(),
            unread: false,
        })
    }

    /// A link to a peer that has not been heard of.
    pub fn link(&mut self) -> std::io::Result<(DatagramTx, DatagramRx)> {
        let session = self.wire.number()?;
        let reliable =
            Reliable::new(self.reliable.clone(), session).expect("the configuration was checked before");
        let slots = self.reliable.window_packets as usize;
        let tx = DatagramTx {
            reliable,
            credit: SendCredit::new(self.credit_bytes),
            taken: 0,
            data_slots: slots - slots / SPARE_PART,
            listed: false,
            timer: None,
            ask_at: if self.pulse > Nanos::ZERO { self.wire.now() + self.pulse } else { Nanos::MAX },
        };
        Ok((tx, DatagramRx::new(self.credit_bytes)))
    }

    /// The largest payload of a packet.
    pub fn payload_max(&self) -> usize {
        self.reliable.payload_max() - HEAD_BYTES
    }

    /// Sends what is due on one link, and notes when to come back.
    pub fn transmit(&mut self, now: Nanos, to: Peer, link: &mut DatagramTx) {
        link.listed = false;
        if link.ask_at <= now && link.reliable.unacked() == 0 {
            let ping = Head { kind: Kind::Ping, flags: 0, port: Port(0), len: 0, w1: 0 };
            let _ = link.send(ping, Class::Control, |_| {});
        }
        while link.reliable.poll_transmit(now, &mut self.buffer) {
            self.wire.send(now, to, &self.buffer);
        }
        // Its end is found where its packets are taken, behind the last of them.
        self.unread |= link.reliable.state() != State::Live;
        // While something is unanswered, the filter itself finds out whether anybody is there.
        let ask_at = (link.reliable.unacked() == 0 && link.ask_at < Nanos::MAX).then_some(link.ask_at);
        if let Some(due) = link.reliable.deadline().into_iter().chain(ask_at).min() {
            if link.timer.is_none_or(|timer| due < timer) {
                self.forget_timer(to, link);
                link.timer = Some(due);
                self.timers.insert((due, to));
            }
        }
    }

    /// A datagram came in on this link.
    pub fn on_datagram(&mut self, now: Nanos, link: &mut DatagramTx, bytes: &[u8]) {
        let refused = link.refused();
        link.reliable.on_datagram(now, bytes);
        if link.refused() == refused && link.ask_at < Nanos::MAX {
            link.ask_at = now + self.pulse;
        }
    }

    /// The link's peer is gone.
    pub fn forget_timer(&mut self, peer: Peer, link: &mut DatagramTx) {
        if let Some(timer) = link.timer.take() {
            self.timers.remove(&(timer, peer));
        }
    }

    /// A link whose time has come. It has no timer any more.
    pub fn pop_due(&mut self, now: Nanos) -> Option<Peer> {
        let &(due, peer) = self.timers.first().filter(|(due, _)| *due <= now)?;
        self.timers.remove(&(due, peer));
        Some(peer)
    }

    /// When there is something to do if nothing arrives before.
    pub fn timer(&self) -> Option<Nanos> {
        if self.unread || !self.listed.is_empty() {
            return Some(Nanos::ZERO);
        }
        self.timers.first().map(|(due, _)| *due)
    }
}

/// One part in this many of the filter's slots is kept for answers and control packets.
const SPARE_PART: usize = 8;

/// The way out to one peer, and the filter that serves both ways.
#[derive(Debug)]
pub(crate) struct DatagramTx {
    pub reliable: Reliable,
    credit: SendCredit,
    /// Packets that the filter has taken.
    taken: u64,
    /// Slots of the filter that messages may use.
    data_slots: usize,
    /// In the endpoint's list of links to transmit on.
    pub listed: bool,
    /// What the endpoint's timers hold for this link.
    pub timer: Option<Nanos>,
    /// When to ask whether the peer is still there, if it is not heard from before.
    ask_at: Nanos,
}

impl DatagramTx {
    /// Takes one packet; it leaves when the wire and the peer have room.
    pub fn send(
        &mut self,
        head: Head,
        class: Class,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), Full> {
        let packet = HEAD_BYTES + head.len as usize;
        let charge = charge(&head, packet);
        if class != Class::Control && (charge > self.credit.room() || !self.has_slot()) {
            return Err(Full);
        }
        let write = |bytes: &mut [u8]| {
            let (wire_head, body) = bytes.split_at_mut(HEAD_BYTES);
            wire_head.copy_from_slice(&head.to_bytes());
            fill(&mut WireMut::new(body));
        };
        self.reliable.send(packet, write).map_err(|_| Full)?;
        self.credit.spend(charge);
        self.taken += 1;
        Ok(())
    }

    fn has_slot(&self) -> bool {
        self.reliable.unacked() < self.data_slots
    }

    /// The largest payload worth putting into one packet now.
    pub fn payload_now(&self) -> usize {
        let most = self.payload_max();
        let room = self.credit.room().saturating_sub(HEAD_BYTES as u64);
        let worth = (most as u64).min(self.credit.window() / 4).max(PIECE_BYTES_MIN);
        if room < worth || !self.has_slot() { 0 } else { most.min(usize::try_from(room).unwrap_or(most)) }
    }

    pub fn payload_max(&self) -> usize {
        self.reliable.payload_max() - HEAD_BYTES
    }

    /// The receiver is done with this many bytes since the link opened.
    pub fn returned(&mut self, count: u64) -> Result<(), Impossible> {
        self.credit.returned(count)
    }

    /// Grows whenever there may be more room than before.
    pub fn freed(&self) -> u64 {
        self.credit.returned_so_far() + self.taken - self.reliable.unacked() as u64
    }

    /// Nothing more is expected from the peer.
    pub fn expect_nothing(&mut self) {
        self.ask_at = Nanos::MAX;
    }

    /// Datagrams that the filter did not take for the peer's.
    fn refused(&self) -> u64 {
        let stats = self.reliable.stats();
        stats.invalid + stats.foreign
    }

    /// Bytes on their way or held by the receiver, and how many may be.
    pub fn credit(&self) -> (u64, u64) {
        (self.credit.outstanding(), self.credit.window())
    }
}

/// Less room than this holds no more than what opens the payload of a region's packet.
const PIECE_BYTES_MIN: u64 = 64;

/// The way in from one peer: what its handlers hold. The packets wait in the filter, beside the way out.
#[derive(Debug)]
pub(crate) struct DatagramRx {
    pub hold: HoldSlot,
    /// Bytes charged for frames that are still held.
    held: u64,
    pub credit: RecvCredit,
}

impl DatagramRx {
    fn new(window: u64) -> DatagramRx {
        DatagramRx { hold: HoldSlot::default(), held: 0, credit: RecvCredit::new(window) }
    }

    /// A packet is about to be handled.
    pub fn arrive(&mut self, charge: u64) {
        self.credit.arrive(charge);
        self.hold.arm(charge);
    }

    /// Ends a packet and says whether the handler kept it.
    pub fn finish(&mut self, charge: u64) -> bool {
        let kept = self.hold.take();
        if kept {
            self.held += charge;
        } else {
            self.credit.finish(charge);
        }
        kept
    }

    /// Gives back what dropped frames had been charged.
    pub fn settle(&mut self) {
        if self.held > 0 {
            let released = self.hold.released();
            self.held -= released.min(self.held);
            self.credit.finish(released);
        }
    }
}

/// The header and the payload of a packet; `None` if it is not one.
pub(crate) fn split(packet: &[u8]) -> Option<(Head, &[u8])> {
    let (head, payload) = packet.split_first_chunk::<HEAD_BYTES>()?;
    let head = Head::from_bytes(head)?;
    (head.len as usize == payload.len()).then_some((head, payload))
}
