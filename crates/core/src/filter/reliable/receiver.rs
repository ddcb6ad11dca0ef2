//! The receiving half: packets wait in numbered slots until their turn, and acknowledgements are decided.
//!
//! The window's end is the number of packets the consumer has given back plus the number of slots. It never
//! moves back, and a sender that keeps to it never meets a full receiver; so nothing that was asked for is
//! ever dropped here.
//!
//! An ack is due at once after every second packet, after anything out of order, double or asked for, and
//! when the consumer has opened a quarter of the window; otherwise `ack_delay` after the packet. Any
//! datagram to the peer carries the ack along.

use super::pool::Pool;
use super::wire::{Echo, SACK_WORDS_MAX, Stamp, ticks};
use crate::time::Nanos;
use std::collections::VecDeque;

/// What became of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    InOrder,
    OutOfOrder,
    Duplicate,
    BeyondWindow,
}

/// The receiving half of one pair.
#[derive(Debug)]
pub(super) struct Receiver {
    /// `slots[i]` is packet `first + i`; the last one, if any, is full.
    slots: VecDeque<Option<Vec<u8>>>,
    /// The next packet for the consumer.
    first: u64,
    /// The first packet that has not arrived.
    next: u64,
    /// Packets the consumer has taken out and not given back.
    held: u64,
    slots_max: u64,
    /// The window's end as last told to the peer.
    told_end: u64,
    echo: Option<Arrived>,
    ack: AckTimer,
}

impl Receiver {
    pub fn new(slots_max: u32, ack_delay: Nanos) -> Self {
        Self {
            slots: VecDeque::new(),
            first: 0,
            next: 0,
            held: 0,
            slots_max: u64::from(slots_max),
            told_end: 0,
            echo: None,
            ack: AckTimer { delay: ack_delay, at_once: false, soon: false, due: None, unacked: 0 },
        }
    }

    /// Takes in a data packet.
    pub fn on_data(
        &mut self,
        now: Nanos,
        stamp: Stamp,
        seq: u64,
        payload: &[u8],
        pool: &mut Pool,
    ) -> Arrival {
        self.echo = Some(Arrived { stamp, at: now });
        if seq >= self.end() {
            self.ack.at_once = true;
            return Arrival::BeyondWindow;
        }
        if seq < self.next || self.slot(seq).is_some_and(|slot| slot.is_some()) {
            self.ack.at_once = true;
            return Arrival::Duplicate;
        }
        let had_gap = self.has_gap();
        let in_order = seq == self.next;
        self.store(seq, payload, pool);
        if in_order && !had_gap {
            self.ack.on_packet(now);
        } else {
            self.ack.at_once = true;
        }
        if in_order { Arrival::InOrder } else { Arrival::OutOfOrder }
    }

    /// The peer asks for an ack.
    pub fn on_probe(&mut self, now: Nanos, stamp: Stamp) {
        self.echo = Some(Arrived { stamp, at: now });
        self.ack.at_once = true;
    }

    /// An ack is to leave at once.
    pub fn ack_at_once(&mut self) {
        self.ack.at_once = true;
    }

    /// The packet whose turn it is.
    pub fn front(&self) -> Option<&[u8]> {
        self.slots.front()?.as_deref()
    }

    /// Takes that packet out; its place in the window stays taken until [`give_back`](Self::give_back).
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let packet = self.slots.front_mut()?.take()?;
        self.slots.pop_front();
        self.first += 1;
        self.held += 1;
        Some(packet)
    }

    /// The consumer is done with a packet: the window opens by one. False if no packet is out.
    pub fn give_back(&mut self) -> bool {
        let Some(held) = self.held.checked_sub(1) else { return false };
        self.held = held;
        let quarter = (self.slots_max / 4).max(1);
        if self.end() - self.told_end >= quarter {
            self.ack.at_once = true;
        } else if self.told_end.saturating_sub(self.next) < quarter {
            self.ack.soon = true;
        }
        true
    }

    /// The number of the first packet that has not arrived.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// How many packets from [`next`](Self::next) on there is room for.
    pub fn window(&self) -> u16 {
        u16::try_from(self.end() - self.next).unwrap_or(u16::MAX)
    }

    /// The stamp to send back, unless it is too old to mean anything.
    pub fn echo(&self, now: Nanos) -> Option<Echo> {
        let arrived = self.echo?;
        let held = now - arrived.at;
        let held_ticks = u32::try_from(ticks(held)).ok()?;
        (held < ECHO_AGE_MAX).then_some(Echo { stamp: arrived.stamp, held_ticks })
    }

    /// Fills in the bitmap of what arrived behind the first gap; returns the number of words in use.
    pub fn sack(&self, words: &mut [u64; SACK_WORDS_MAX]) -> usize {
        if !self.has_gap() {
            return 0;
        }
        let behind_gap = (self.next + 1 - self.first) as usize;
        let mut used = 0;
        for (bit, slot) in self.slots.iter().skip(behind_gap).take(SACK_WORDS_MAX * 64).enumerate() {
            if slot.is_some() {
                words[bit / 64] |= 1 << (bit % 64);
                used = bit / 64 + 1;
            }
        }
        used
    }

    /// Whether an ack has to leave by now.
    pub fn poll_ack(&mut self, now: Nanos) -> bool {
        self.ack.poll(now)
    }

    /// An ack has left, by itself or on another datagram.
    pub fn on_ack_sent(&mut self) {
        self.ack = AckTimer { delay: self.ack.delay, at_once: false, soon: false, due: None, unacked: 0 };
        self.told_end = self.end();
    }

    /// When an ack has to leave.
    pub fn deadline(&self) -> Option<Nanos> {
        if self.ack.at_once || (self.ack.soon && self.ack.due.is_none()) {
            return Some(Nanos::ZERO);
        }
        self.ack.due
    }

    fn store(&mut self, seq: u64, payload: &[u8], pool: &mut Pool) {
        let at = (seq - self.first) as usize;
        if at >= self.slots.len() {
            self.slots.resize_with(at + 1, || None);
        }
        let mut buffer = pool.take();
        buffer.clear();
        buffer.extend_from_slice(payload);
        self.slots[at] = Some(buffer);
        while self.slot(self.next).is_some_and(|slot| slot.is_some()) {
            self.next += 1;
        }
    }

    fn slot(&self, seq: u64) -> Option<&Option<Vec<u8>>> {
        self.slots.get(usize::try_from(seq.checked_sub(self.first)?).ok()?)
    }

    /// Whether anything behind [`next`](Self::next) has arrived.
    fn has_gap(&self) -> bool {
        self.next < self.first + self.slots.len() as u64
    }

    /// The first packet there is no room for.
    fn end(&self) -> u64 {
        self.first - self.held + self.slots_max
    }
}

#[derive(Clone, Copy, Debug)]
struct Arrived {
    stamp: Stamp,
    at: Nanos,
}

/// When the next ack leaves.
#[derive(Debug)]
struct AckTimer {
    delay: Nanos,
    at_once: bool,
    /// To be turned into `due` at the next look at the time.
    soon: bool,
    due: Option<Nanos>,
    unacked: u32,
}

impl AckTimer {
    fn on_packet(&mut self, now: Nanos) {
        self.unacked += 1;
        if self.unacked >= ACK_EVERY {
            self.at_once = true;
        } else {
            self.due.get_or_insert(now + self.delay);
        }
    }

    fn poll(&mut self, now: Nanos) -> bool {
        if std::mem::take(&mut self.soon) {
            self.due.get_or_insert(now + self.delay);
        }
        self.at_once || self.due.is_some_and(|due| due <= now)
    }
}

/// In-order packets to an ack.
const ACK_EVERY: u32 = 2;
/// Echoes older than this are left out; well below the 137 s at which a stamp becomes ambiguous.
const ECHO_AGE_MAX: Nanos = Nanos::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Nanos = Nanos::SECOND;

    fn receiver(slots: u32) -> (Receiver, Pool) {
        (Receiver::new(slots, Nanos::from_micros(50)), Pool::new(100))
    }

    fn arrive(receiver: &mut Receiver, pool: &mut Pool, seq: u64) -> Arrival {
        receiver.on_data(AT, Stamp(0), seq, &[seq as u8], pool)
    }

    #[test]
    fn packets_come_out_in_order_whatever_order_they_arrive_in() {
        let (mut receiver, mut pool) = receiver(8);
        for seq in [3, 1, 2] {
            assert_eq!(arrive(&mut receiver, &mut pool, seq), Arrival::OutOfOrder);
        }
        assert_eq!(receiver.front(), None);
        assert_eq!(arrive(&mut receiver, &mut pool, 0), Arrival::InOrder);
        for seq in 0..4u8 {
            assert_eq!(receiver.take(), Some(vec![seq]));
        }
        assert_eq!(receiver.take(), None);
    }

    #[test]
    fn duplicates_are_known_before_and_after_consumption() {
        let (mut receiver, mut pool) = receiver(8);
        for seq in [0, 2] {
            arrive(&mut receiver, &mut pool, seq);
            assert_eq!(arrive(&mut receiver, &mut pool, seq), Arrival::Duplicate);
        }
        receiver.take();
        receiver.give_back();
        assert_eq!(arrive(&mut receiver, &mut pool, 0), Arrival::Duplicate);
    }

    #[test]
    fn the_window_closes_with_arrivals_and_opens_only_with_give_back() {
        let (mut receiver, mut pool) = receiver(2);
        assert_eq!(receiver.window(), 2);
        arrive(&mut receiver, &mut pool, 0);
        arrive(&mut receiver, &mut pool, 1);
        assert_eq!(receiver.window(), 0);
        assert_eq!(arrive(&mut receiver, &mut pool, 2), Arrival::BeyondWindow);
        receiver.take();
        assert_eq!(receiver.window(), 0);
        receiver.give_back();
        assert_eq!(receiver.window(), 1);
        receiver.give_back();
        assert_eq!(receiver.window(), 1, "nothing is held, so nothing can be given back");
    }

    #[test]
    fn the_bitmap_names_what_lies_behind_the_first_gap() {
        let (mut receiver, mut pool) = receiver(200);
        for seq in [0, 2, 4, 130] {
            arrive(&mut receiver, &mut pool, seq);
        }
        let mut words = [0; SACK_WORDS_MAX];
        assert_eq!(receiver.sack(&mut words), 3);
        assert_eq!(words[..3], [0b101, 0, 1]);
        assert_eq!(receiver.next(), 1);
    }

    #[test]
    fn every_second_packet_is_acked_at_once_and_a_single_one_after_the_delay() {
        let (mut receiver, mut pool) = receiver(8);
        arrive(&mut receiver, &mut pool, 0);
        assert!(!receiver.poll_ack(AT));
        assert_eq!(receiver.deadline(), Some(AT + Nanos::from_micros(50)));
        assert!(receiver.poll_ack(AT + Nanos::from_micros(50)));
        arrive(&mut receiver, &mut pool, 1);
        assert!(receiver.poll_ack(AT));
        receiver.on_ack_sent();
        assert_eq!(receiver.deadline(), None);
    }

    #[test]
    fn the_first_room_in_a_closed_window_is_told_soon_and_a_quarter_at_once() {
        let (mut receiver, mut pool) = receiver(16);
        for seq in 0..16 {
            arrive(&mut receiver, &mut pool, seq);
        }
        receiver.on_ack_sent();
        receiver.take();
        receiver.give_back();
        assert_eq!(receiver.deadline(), Some(Nanos::ZERO), "the timer is to be set");
        assert!(!receiver.poll_ack(AT));
        assert_eq!(receiver.deadline(), Some(AT + Nanos::from_micros(50)));
        for _ in 0..3 {
            receiver.take();
            receiver.give_back();
        }
        assert!(receiver.poll_ack(AT));
    }

    #[test]
    fn an_old_echo_is_left_out() {
        let (mut receiver, _) = receiver(8);
        receiver.on_probe(AT, Stamp(7));
        assert_eq!(receiver.echo(AT + Nanos(640)), Some(Echo { stamp: Stamp(7), held_ticks: 10 }));
        assert_eq!(receiver.echo(AT + Nanos::from_secs(31)), None);
    }
}
