//! How many packets may be in flight: what the network, not the receiver, can hold.
//!
//! NewReno's shape, counted in packets. Slow start adds a packet for each one acknowledged, congestion
//! avoidance one packet a round trip. A loss halves the window, once a round trip at most: further losses
//! among packets that left before the halving say nothing new. Two timeouts in a row mean that the path
//! itself may have gone; the window falls to its minimum and slow start begins again. There is no pacing.

use crate::time::Nanos;

/// The congestion window of one direction.
#[derive(Debug)]
pub(super) struct Congestion {
    window: u32,
    threshold: u32,
    /// Packets acknowledged towards the next step of congestion avoidance.
    progress: u32,
    max: u32,
    /// Packets that left up to this time belong to a loss already answered.
    answered_until: Option<Nanos>,
}

impl Congestion {
    /// A window that grows to `max` packets, the number of slots.
    pub fn new(max: u32) -> Self {
        Self { window: INITIAL, threshold: max, progress: 0, max: max.max(MIN), answered_until: None }
    }

    /// The most packets in flight.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// A packet that left at `sent` has arrived while the window was in use (`used`).
    pub fn on_acked(&mut self, sent: Nanos, used: bool) {
        if !used || self.is_answered(sent) || self.window >= self.max {
            return;
        }
        if self.window < self.threshold {
            self.window += 1;
            return;
        }
        self.progress += 1;
        if self.progress >= self.window {
            self.progress = 0;
            self.window += 1;
        }
    }

    /// A packet that left at `sent` is lost.
    pub fn on_lost(&mut self, now: Nanos, sent: Nanos) {
        if !self.is_answered(sent) {
            self.reduce(now);
            self.window = self.threshold;
        }
    }

    /// `backoff` timeouts have passed without an answer.
    pub fn on_timeout(&mut self, now: Nanos, backoff: u32) {
        if backoff >= 2 && self.window > MIN {
            self.reduce(now);
            self.window = MIN;
        }
    }

    fn reduce(&mut self, now: Nanos) {
        self.threshold = (self.window / 2).max(MIN);
        self.progress = 0;
        self.answered_until = Some(now);
    }

    fn is_answered(&self, sent: Nanos) -> bool {
        self.answered_until.is_some_and(|until| sent <= until)
    }
}

/// The window at the start, as in RFC 6928.
const INITIAL: u32 = 10;
/// The smallest window; two, so that a delayed acknowledgement is not waited for.
const MIN: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_start_doubles_a_round_trip_and_avoidance_adds_one() {
        let mut congestion = Congestion::new(1000);
        for _ in 0..10 {
            congestion.on_acked(Nanos(1), true);
        }
        assert_eq!(congestion.window(), 20);
        congestion.on_lost(Nanos(5), Nanos(2));
        assert_eq!(congestion.window(), 10);
        for _ in 0..10 {
            congestion.on_acked(Nanos(6), true);
        }
        assert_eq!(congestion.window(), 11);
    }

    #[test]
    fn losses_of_one_flight_halve_once() {
        let mut congestion = Congestion::new(1000);
        for sent in 1..5 {
            congestion.on_lost(Nanos(10), Nanos(sent));
        }
        assert_eq!(congestion.window(), 5);
        congestion.on_lost(Nanos(20), Nanos(11));
        assert_eq!(congestion.window(), 2);
    }

    #[test]
    fn the_second_timeout_in_a_row_starts_again_from_the_minimum() {
        let mut congestion = Congestion::new(1000);
        congestion.on_timeout(Nanos(1), 1);
        assert_eq!(congestion.window(), 10);
        congestion.on_timeout(Nanos(3), 2);
        assert_eq!(congestion.window(), 2);
    }

    #[test]
    fn an_unused_window_does_not_grow_and_no_window_outgrows_its_slots() {
        let mut congestion = Congestion::new(12);
        congestion.on_acked(Nanos(1), false);
        assert_eq!(congestion.window(), 10);
        for _ in 0..100 {
            congestion.on_acked(Nanos(1), true);
        }
        assert_eq!(congestion.window(), 12);
    }
}
