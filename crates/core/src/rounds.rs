//! Rounds: when to look at what rings no bell in memory (sockets, listeners, the directory, connections in the making).
//!
//! A round takes system calls, so it is made after many looks that found nothing and not more often than every
//! [`EVERY`]; and, far less often, by those who always find something, or else a newcomer would knock in vain for as long
//! as an old peer keeps them busy.

use std::time::{Duration, Instant};

/// What one look that found nothing counts; a packet counts one.
const IDLE_LOOK: u32 = 256;
/// A round is due when so much has been counted.
const DUE: u32 = 256 * IDLE_LOOK;
/// Rounds are this far apart, unless something is known to wait for one.
const EVERY: Duration = Duration::from_micros(50);

/// Counts looks between two rounds.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    counted: u32,
    last: Option<Instant>,
}

impl Rounds {
    /// Counts a look that took so many packets; says whether a round is due.
    #[inline(always)]
    pub fn count(&mut self, taken: usize) -> bool {
        // A round is made when it is due, so that this stays small.
        self.counted += if taken == 0 { IDLE_LOOK } else { taken as u32 };
        self.counted >= DUE
    }

    /// Counts work that took as long as so many looks.
    pub fn count_idle(&mut self, looks: u32) {
        self.counted = self.counted.saturating_add(looks.saturating_mul(IDLE_LOOK)).min(DUE);
    }

    /// The next look that finds nothing is followed by a round.
    pub fn hurry(&mut self) {
        *self = Rounds { counted: DUE, last: None };
    }

    /// Whether the last round is so recent that the next can wait; then counting begins anew.
    pub fn is_early(&mut self) -> bool {
        let now = Instant::now();
        self.counted = 0;
        let early = self.last.is_some_and(|last| now - last < EVERY);
        if !early {
            self.last = Some(now);
        }
        early
    }

    /// A round is being made.
    pub fn made(&mut self) {
        self.counted = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_looks_make_a_round_due_sooner_than_busy_ones() {
        let mut rounds = Rounds::default();
        assert_eq!((1..).find(|_| rounds.count(0)), Some(256));
        rounds.made();
        assert_eq!((1..).find(|_| rounds.count(64)), Some(1024));
    }

    #[test]
    fn a_round_is_early_right_after_another_unless_hurried() {
        let mut rounds = Rounds::default();
        assert!(!rounds.is_early());
        rounds.last = Some(Instant::now() + Duration::from_secs(1));
        assert!(rounds.is_early());
        rounds.hurry();
        assert!(rounds.count(0) && !rounds.is_early());
    }
}
