//! How long an answer takes: a smoothed round trip, its variation, and the timeout that follows from them.
//!
//! The smoothing is RFC 6298's. A sample comes from a stamp that the peer sends back together with the time
//! it held it, so a sample is never ambiguous after a retransmission and never contains the peer's delayed
//! acknowledgement.

use crate::time::Nanos;

/// The round-trip estimate of one wire.
#[derive(Debug)]
pub(super) struct Rtt {
    smoothed: Option<Nanos>,
    variation: Nanos,
    latest: Nanos,
    rto_min: Nanos,
    rto_max: Nanos,
    ack_delay: Nanos,
    /// How much reordering is borne, in quarters of a round trip.
    reorder_quarters: u64,
}

impl Rtt {
    pub fn new(rto_min: Nanos, rto_max: Nanos, ack_delay: Nanos) -> Self {
        Self {
            smoothed: None,
            variation: Nanos::ZERO,
            latest: Nanos::ZERO,
            rto_min,
            rto_max,
            ack_delay,
            reorder_quarters: 1,
        }
    }

    /// Takes in one measured round trip.
    pub fn sample(&mut self, rtt: Nanos) {
        self.latest = rtt;
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = Nanos(rtt.0 / 2);
            }
            Some(smoothed) => {
                let error = smoothed.0.abs_diff(rtt.0);
                self.variation = Nanos(self.variation.0 - self.variation.0 / 4 + error / 4);
                self.smoothed = Some(Nanos(smoothed.0 - smoothed.0 / 8 + rtt.0 / 8));
            }
        }
    }

    /// The smoothed round trip; `None` before the first sample.
    pub fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }

    /// How long to wait for an answer after `backoff` timeouts in a row: doubled each time up to `rto_max`,
    /// but never below what the measurements say.
    pub fn timeout(&self, backoff: u32) -> Nanos {
        let base = match self.smoothed {
            Some(smoothed) => (smoothed + self.variation * 4 + self.ack_delay).max(self.rto_min),
            None => (self.rto_min * INITIAL_FACTOR).min(self.rto_max),
        };
        let doubled = base * (1 << backoff.min(30));
        doubled.min(self.rto_max).max(base)
    }

    /// How long after its departure a packet counts as lost, if something sent later has arrived.
    pub fn loss_delay(&self) -> Nanos {
        let rtt = self.latest.max(self.smoothed.unwrap_or(Nanos::ZERO));
        rtt + (Nanos(rtt.0 / 4) * self.reorder_quarters).max(REORDER_MIN)
    }

    /// A packet was taken for lost and had merely been overtaken: the wire reorders more than we thought.
    pub fn on_false_loss(&mut self) {
        self.reorder_quarters = (self.reorder_quarters + 1).min(REORDER_QUARTERS_MAX);
    }
}

/// The timeout before the first sample, in units of `rto_min`.
const INITIAL_FACTOR: u64 = 5;
/// Packets that overtake each other by less than this are never taken for lost.
const REORDER_MIN: Nanos = Nanos::from_micros(10);
/// Reordering by more than a round trip is not waited for.
const REORDER_QUARTERS_MAX: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn rtt() -> Rtt {
        Rtt::new(Nanos::from_millis(2), Nanos::from_millis(50), Nanos::from_micros(50))
    }

    #[test]
    fn a_steady_wire_converges_to_its_round_trip() {
        let mut rtt = rtt();
        rtt.sample(Nanos::from_millis(40));
        for _ in 0..200 {
            rtt.sample(Nanos::from_micros(100));
        }
        let smoothed = rtt.smoothed().expect("it has samples");
        assert!(smoothed.0.abs_diff(100_000) < 1_000, "{smoothed}");
        assert_eq!(rtt.timeout(0), Nanos::from_millis(2));
    }

    #[test]
    fn the_timeout_doubles_up_to_its_maximum() {
        let rtt = rtt();
        assert_eq!(rtt.timeout(0), Nanos::from_millis(10));
        assert_eq!(rtt.timeout(1), Nanos::from_millis(20));
        assert_eq!(rtt.timeout(u32::MAX), Nanos::from_millis(50));
    }

    #[test]
    fn a_wire_slower_than_the_maximum_still_gets_a_timeout_above_its_round_trip() {
        let mut rtt = rtt();
        rtt.sample(Nanos::from_millis(300));
        assert!(rtt.timeout(0) > Nanos::from_millis(300));
        assert!(rtt.loss_delay() > Nanos::from_millis(300));
    }

    #[test]
    fn false_losses_make_it_patient_up_to_a_second_round_trip() {
        let mut rtt = rtt();
        rtt.sample(Nanos::from_micros(400));
        assert_eq!(rtt.loss_delay(), Nanos::from_micros(500));
        rtt.on_false_loss();
        assert_eq!(rtt.loss_delay(), Nanos::from_micros(600));
        for _ in 0..10 {
            rtt.on_false_loss();
        }
        assert_eq!(rtt.loss_delay(), Nanos::from_micros(800));
    }

    #[test]
    fn absurd_samples_do_not_overflow() {
        let mut rtt = rtt();
        for sample in [Nanos::MAX, Nanos::ZERO, Nanos::MAX, Nanos::MAX] {
            rtt.sample(sample);
            assert!(rtt.timeout(3) >= Nanos::from_millis(2));
        }
    }
}
