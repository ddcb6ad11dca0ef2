//! The sending half: packets stay in their slots until they have arrived, and leave again when they are lost.
//!
//! A packet is lost when something that left after it has arrived and it has been away for a round trip and a
//! quarter (the idea of RACK, RFC 8985: time, not the count of later arrivals, so mild reordering costs
//! nothing; a packet taken for lost by mistake makes the quarter two, and so on up to a whole). What arrived
//! is told by the cumulative acknowledgement and the bitmap; the newest departure known to have arrived by
//! the echoed stamp. When no answer comes at all, the timeout resends the oldest packet past the congestion
//! window, to provoke one. When the peer's window is closed and nothing is in flight, the timeout sends a
//! probe instead.

use super::ReliableConfig;
use super::congestion::Congestion;
use super::pool::Pool;
use super::rtt::Rtt;
use super::wire::{Datagram, Echo, Invalid, span, ticks};
use crate::time::Nanos;
use std::collections::VecDeque;

/// The sending half of one pair.
#[derive(Debug)]
pub(super) struct Sender {
    /// `slots[i]` is packet `first + i`.
    slots: VecDeque<Slot>,
    /// The oldest packet that has not arrived.
    first: u64,
    /// The first packet that has never left.
    next: u64,
    /// The first packet the peer has no room for.
    peer_end: u64,
    slots_max: usize,
    /// Departures in their order; those whose packet arrived or left again are skipped when met. Departures
    /// leave the front only, so behind a live one no packet is listed twice, and packets further than a
    /// window apart are never listed together: at most two windows' worth.
    flights: VecDeque<Flight>,
    in_flight: u32,
    /// Packets to send again; those that arrived meanwhile are skipped when met. Bounded in the same way.
    lost: VecDeque<u64>,
    lost_now: u32,
    rtt: Rtt,
    congestion: Congestion,
    /// The newest departure, in ticks, that has arrived.
    newest_arrived: Option<u64>,
    loss_at: Option<Nanos>,
    patience: Patience,
    /// Probes sent since the peer's window last moved.
    probes: u32,
    /// The next packet leaves whatever the congestion window says.
    forced: bool,
}

/// A packet that is to leave now.
pub(super) struct Outgoing<'a> {
    pub seq: u64,
    pub payload: &'a [u8],
    pub again: bool,
}

impl Sender {
    pub fn new(config: &ReliableConfig) -> Self {
        Self {
            slots: VecDeque::new(),
            first: 0,
            next: 0,
            peer_end: 1,
            slots_max: config.window_packets as usize,
            flights: VecDeque::new(),
            in_flight: 0,
            lost: VecDeque::new(),
            lost_now: 0,
            rtt: Rtt::new(config.rto_min, config.rto_max, config.ack_delay),
            congestion: Congestion::new(config.window_packets),
            newest_arrived: None,
            loss_at: None,
            patience: Patience { last_event: Nanos::ZERO, since: None, tries: 0, end: config.dead_after },
            probes: 0,
            forced: false,
        }
    }

    /// Whether every slot is taken.
    pub fn is_full(&self) -> bool {
        self.slots.len() >= self.slots_max
    }

    /// Takes a packet; the caller has made sure of a slot.
    pub fn push(&mut self, payload: Vec<u8>) {
        self.slots.push_back(Slot { payload, sent: Nanos::ZERO, again: false, state: SlotState::Waiting });
    }

    /// Packets taken and not yet known to have arrived.
    pub fn unacked(&self) -> usize {
        self.slots.len()
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub fn congestion_window(&self) -> u32 {
        self.congestion.window()
    }

    pub fn rtt(&self) -> Option<Nanos> {
        self.rtt.smoothed()
    }

    /// Takes in what a datagram says about ours. A claim about packets that never left is refused whole.
    pub fn on_ack(&mut self, now: Nanos, datagram: &Datagram<'_>, pool: &mut Pool) -> Result<(), Invalid> {
        let ack = datagram.header.ack;
        let claimed_end = match datagram.sack.highest() {
            Some(offset) => ack.checked_add(offset + 2).ok_or(Invalid)?,
            None => ack,
        };
        if claimed_end > self.next {
            return Err(Invalid);
        }
        let echoed = self.on_echo(now, datagram.header.echo);
        let answers =
            echoed.is_some_and(|sent| self.patience.since.is_some_and(|since| sent >= ticks(since)));
        self.open_window(ack.saturating_add(u64::from(datagram.header.window)));
        let used = self.in_flight * 2 >= self.congestion.window();
        let mut fresh = false;
        for seq in self.first..ack {
            fresh |= self.on_arrived(seq, echoed, used, pool);
        }
        for offset in datagram.sack.offsets() {
            fresh |= self.on_arrived(ack + 1 + offset, echoed, used, pool);
        }
        while self.slots.front().is_some_and(|slot| slot.state == SlotState::Arrived) {
            self.slots.pop_front();
            self.first += 1;
        }
        if fresh {
            self.patience.last_event = now;
        }
        if fresh || answers {
            self.patience.on_answer(now, self.in_flight + self.lost_now > 0);
        }
        self.find_losses(now);
        Ok(())
    }

    /// The peer has answered our hello.
    pub fn on_peer_found(&mut self, now: Nanos) {
        self.patience.on_answer(now, false);
    }

    /// Acts on the timers that have run out; what follows is in [`next_packet`](Self::next_packet) and
    /// [`poll_probe`](Self::poll_probe).
    pub fn on_time(&mut self, now: Nanos) {
        if self.loss_at.is_some_and(|at| at <= now) {
            self.find_losses(now);
        }
        if self.in_flight > 0 && self.timeout_at() <= now {
            self.patience.on_timeout(now);
            self.congestion.on_timeout(now, self.patience.tries);
            self.resend_oldest();
        }
    }

    /// Whether the windows allow a packet to leave now.
    pub fn has_packet(&self) -> bool {
        let open = self.forced || self.in_flight < self.congestion.window();
        open && (self.lost_now > 0 || self.has_new())
    }

    /// The packet to send now, if the windows allow one.
    pub fn next_packet(&mut self, now: Nanos) -> Option<Outgoing<'_>> {
        if !self.has_packet() {
            return None;
        }
        let (seq, again) = match self.pop_lost() {
            Some(seq) => (seq, true),
            None => (self.pop_new()?, false),
        };
        self.forced = false;
        self.in_flight += 1;
        self.flights.push_back(Flight { seq, sent: now });
        debug_assert!(self.flights.len() <= 2 * self.slots_max && self.lost.len() <= 2 * self.slots_max);
        self.patience.on_sent(now);
        let slot = self.slot_mut(seq).expect("a packet to send is in its slot");
        slot.state = SlotState::InFlight;
        slot.sent = now;
        slot.again = again;
        Some(Outgoing { seq, payload: &slot.payload, again })
    }

    /// Whether to ask the peer about its closed window now.
    pub fn poll_probe(&mut self, now: Nanos) -> bool {
        let due = self.is_shut_out() && self.probe_at() <= now;
        if due {
            self.patience.on_asked(now);
            self.probes = self.probes.saturating_add(1);
        }
        due
    }

    /// Whether to say hello now: there is something to send, and the last hello has had its time.
    pub fn poll_hello(&mut self, now: Nanos) -> bool {
        let due = self.hello_at().is_some_and(|at| at <= now);
        if due {
            self.patience.on_asked(now);
        }
        due
    }

    /// When the next hello is due.
    pub fn hello_at(&self) -> Option<Nanos> {
        if self.slots.is_empty() {
            return None;
        }
        Some(if self.patience.since.is_some() { self.timeout_at() } else { Nanos::ZERO })
    }

    /// Whether the peer has been silent for too long.
    pub fn is_given_up(&self, now: Nanos) -> bool {
        self.give_up_at().is_some_and(|at| at <= now)
    }

    /// When silence becomes death, if it goes on.
    pub fn give_up_at(&self) -> Option<Nanos> {
        self.patience.give_up_at()
    }

    /// Since when an answer has been awaited.
    pub fn unanswered_since(&self) -> Option<Nanos> {
        self.patience.since
    }

    /// When there is something to do.
    pub fn deadline(&self) -> Option<Nanos> {
        if self.has_packet() {
            return Some(Nanos::ZERO);
        }
        let timeout = (self.in_flight > 0).then(|| self.timeout_at());
        let probe = self.is_shut_out().then(|| self.probe_at());
        [timeout, probe, self.loss_at, self.give_up_at()].into_iter().flatten().min()
    }

    /// Learns from an echoed stamp; returns the departure, in ticks, that it stands for.
    fn on_echo(&mut self, now: Nanos, echo: Option<Echo>) -> Option<u64> {
        let echo = echo?;
        let sent = echo.stamp.ticks_at(now)?;
        if self.newest_arrived.is_none_or(|newest| sent > newest) {
            self.newest_arrived = Some(sent);
            self.rtt.sample(span((ticks(now) - sent).saturating_sub(u64::from(echo.held_ticks))));
        }
        Some(sent)
    }

    fn open_window(&mut self, end: u64) {
        if end > self.peer_end {
            self.peer_end = end;
            self.probes = 0;
        }
    }

    /// Marks a packet as arrived and frees its buffer; false if that was known.
    fn on_arrived(&mut self, seq: u64, echoed: Option<u64>, used: bool, pool: &mut Pool) -> bool {
        let Some(slot) = self.slot_mut(seq) else { return false };
        let was = std::mem::replace(&mut slot.state, SlotState::Arrived);
        if was == SlotState::Arrived {
            return false;
        }
        let (sent, again, payload) = (slot.sent, slot.again, std::mem::take(&mut slot.payload));
        pool.give(payload);
        if was == SlotState::Lost || (again && echoed.is_some_and(|echoed| echoed < ticks(sent))) {
            self.rtt.on_false_loss();
        }
        match was {
            SlotState::InFlight => self.in_flight -= 1,
            SlotState::Lost => self.lost_now -= 1,
            SlotState::Waiting | SlotState::Arrived => {}
        }
        self.congestion.on_acked(sent, used);
        true
    }

    /// Declares lost what has been overtaken for long enough, and notes when to look again.
    fn find_losses(&mut self, now: Nanos) {
        self.loss_at = None;
        let delay = self.rtt.loss_delay();
        while let Some(&flight) = self.flights.front() {
            if is_live(&self.slots, self.first, flight) {
                if self.newest_arrived.is_none_or(|newest| ticks(flight.sent) > newest) {
                    return;
                }
                if flight.sent + delay > now {
                    self.loss_at = Some(flight.sent + delay);
                    return;
                }
                self.congestion.on_lost(now, flight.sent);
                self.mark_lost(flight.seq);
                self.lost.push_back(flight.seq);
            }
            self.flights.pop_front();
        }
    }

    fn resend_oldest(&mut self) {
        self.forced = true;
        if self.lost_now > 0 {
            return;
        }
        while let Some(flight) = self.flights.pop_front() {
            if is_live(&self.slots, self.first, flight) {
                self.mark_lost(flight.seq);
                self.lost.push_front(flight.seq);
                return;
            }
        }
    }

    fn mark_lost(&mut self, seq: u64) {
        if let Some(slot) = self.slot_mut(seq) {
            slot.state = SlotState::Lost;
            self.in_flight -= 1;
            self.lost_now += 1;
        }
    }

    fn pop_lost(&mut self) -> Option<u64> {
        while let Some(seq) = self.lost.pop_front() {
            if self.slot_mut(seq).is_some_and(|slot| slot.state == SlotState::Lost) {
                self.lost_now -= 1;
                return Some(seq);
            }
        }
        None
    }

    fn pop_new(&mut self) -> Option<u64> {
        let seq = self.has_new().then_some(self.next)?;
        self.next += 1;
        Some(seq)
    }

    fn has_new(&self) -> bool {
        self.has_waiting() && self.next < self.peer_end
    }

    fn has_waiting(&self) -> bool {
        self.next < self.first + self.slots.len() as u64
    }

    /// Only the peer's window stands in the way, and nothing is under way that could open it.
    fn is_shut_out(&self) -> bool {
        self.has_waiting() && self.next >= self.peer_end && self.in_flight + self.lost_now == 0
    }

    fn timeout_at(&self) -> Nanos {
        self.patience.last_event + self.rtt.timeout(self.patience.tries)
    }

    /// Probes grow rare even when they are answered, as long as the answer is a closed window: the peer tells
    /// us by itself when it opens, a probe only makes up for the loss of that.
    fn probe_at(&self) -> Nanos {
        self.patience.last_event + self.rtt.timeout(self.probes)
    }

    fn slot_mut(&mut self, seq: u64) -> Option<&mut Slot> {
        self.slots.get_mut(usize::try_from(seq.checked_sub(self.first)?).ok()?)
    }
}

#[derive(Debug)]
struct Slot {
    payload: Vec<u8>,
    /// The last departure.
    sent: Nanos,
    /// Whether that was not the first.
    again: bool,
    state: SlotState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    Waiting,
    InFlight,
    Lost,
    Arrived,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    seq: u64,
    sent: Nanos,
}

/// Whether this departure is its packet's last one and still unanswered.
fn is_live(slots: &VecDeque<Slot>, first: u64, flight: Flight) -> bool {
    let slot = flight.seq.checked_sub(first).and_then(|at| slots.get(at as usize));
    slot.is_some_and(|slot| slot.state == SlotState::InFlight && slot.sent == flight.sent)
}

/// How long we have been waiting for an answer, and how often we have asked.
#[derive(Debug)]
struct Patience {
    /// The last departure, new arrival or timeout: timeouts count from here.
    last_event: Nanos,
    since: Option<Nanos>,
    tries: u32,
    end: Nanos,
}

impl Patience {
    fn on_sent(&mut self, now: Nanos) {
        self.last_event = now;
        self.since.get_or_insert(now);
    }

    /// Sent something only to get an answer.
    fn on_asked(&mut self, now: Nanos) {
        if self.since.is_some() {
            self.on_timeout(now);
        }
        self.on_sent(now);
    }

    fn on_timeout(&mut self, now: Nanos) {
        self.last_event = now;
        self.tries = self.tries.saturating_add(1);
    }

    fn on_answer(&mut self, now: Nanos, more_awaited: bool) {
        self.since = more_awaited.then_some(now);
        self.tries = 0;
    }

    /// Time alone does not make a peer dead: we ourselves may have been stopped. Some unanswered tries must
    /// have been made.
    fn give_up_at(&self) -> Option<Nanos> {
        (self.tries >= TRIES_MIN).then_some(self.since? + self.end)
    }
}

/// Timeouts without an answer before silence can mean death.
const TRIES_MIN: u32 = 3;

#[cfg(test)]
mod tests {
    use super::super::wire::{self, Header, Kind, Stamp};
    use super::*;

    fn sender(slots: u32) -> (Sender, Pool) {
        let config = ReliableConfig { window_packets: slots, ..ReliableConfig::default() };
        (Sender::new(&config), Pool::new(100))
    }

    /// What a peer says that has everything before `ack` and the packets named in `sack`.
    fn ack(
        sender: &mut Sender,
        pool: &mut Pool,
        now: Nanos,
        ack: u64,
        sack: &[u64],
        echo: Option<Nanos>,
    ) -> bool {
        let echo = echo.map(|sent| Echo { stamp: Stamp::of(sent), held_ticks: 0 });
        let header =
            Header { kind: Kind::Ack, src: 1, dst: 2, seq: 0, ack, window: 100, stamp: Stamp(0), echo };
        let mut bytes = Vec::new();
        wire::encode(&header, sack, &[], &mut bytes);
        let datagram = wire::decode(&bytes).expect("it was just encoded");
        sender.on_ack(now, &datagram, pool).is_ok()
    }

    fn send(sender: &mut Sender, pool: &mut Pool, now: Nanos, count: usize) -> Vec<u64> {
        for _ in 0..count {
            sender.push(pool.take());
        }
        std::iter::from_fn(|| sender.next_packet(now).map(|packet| packet.seq)).collect()
    }

    #[test]
    fn a_peer_that_never_echoes_costs_no_memory() {
        let (mut sender, mut pool) = sender(4);
        for round in 0..1_000 {
            let now = Nanos::from_micros(100 * (round + 1));
            assert_eq!(send(&mut sender, &mut pool, now, 1), [round]);
            assert!(ack(&mut sender, &mut pool, now + Nanos::MICRO, round + 1, &[], None));
        }
        assert_eq!((sender.flights.len(), sender.lost.len(), pool.made()), (0, 0, 1));
    }

    #[test]
    fn an_ack_of_what_never_left_is_refused_and_changes_nothing() {
        let (mut sender, mut pool) = sender(8);
        ack(&mut sender, &mut pool, Nanos(1), 0, &[], None);
        assert_eq!(send(&mut sender, &mut pool, Nanos(2), 3), [0, 1, 2]);
        assert!(!ack(&mut sender, &mut pool, Nanos(3), 4, &[], None));
        assert!(!ack(&mut sender, &mut pool, Nanos(3), 1, &[0b10], None));
        assert!(!ack(&mut sender, &mut pool, Nanos(3), u64::MAX, &[1], None));
        assert_eq!((sender.unacked(), sender.in_flight()), (3, 3));
        assert!(ack(&mut sender, &mut pool, Nanos(3), 1, &[0b1], None));
        assert_eq!((sender.unacked(), sender.in_flight()), (2, 1));
    }

    #[test]
    fn an_overtaken_packet_is_lost_after_a_round_trip_and_a_quarter() {
        let (mut sender, mut pool) = sender(8);
        let (start, rtt) = (Nanos::SECOND, Nanos::from_micros(1_000));
        ack(&mut sender, &mut pool, start, 0, &[], None);
        send(&mut sender, &mut pool, start, 3);
        assert!(ack(&mut sender, &mut pool, start + rtt, 0, &[0b11], Some(start)));
        let due = sender.deadline().expect("a loss is suspected");
        assert!((due - start).0.abs_diff(1_250_000) < 200, "{}", due - start);
        sender.on_time(Nanos(due.0 - 1));
        assert!(sender.next_packet(due).is_none());
        sender.on_time(due);
        let again = sender.next_packet(due).expect("it is lost now");
        assert!(again.seq == 0 && again.again);
    }

    #[test]
    fn a_timeout_sends_the_oldest_packet_past_a_full_congestion_window() {
        let (mut sender, mut pool) = sender(64);
        ack(&mut sender, &mut pool, Nanos(1), 0, &[], None);
        assert_eq!(send(&mut sender, &mut pool, Nanos(2), 64).len(), 10);
        let due = sender.deadline().expect("an answer is awaited");
        sender.on_time(due);
        assert_eq!(sender.next_packet(due).map(|packet| packet.seq), Some(0));
        assert!(sender.next_packet(due).is_none());
        assert!(sender.deadline().is_some_and(|next| next - due > due - Nanos(2)), "it backs off");
    }
}
