//! Which of two ways of passing lines on is the faster: both are tried now and then, and the one with which lines went faster is kept for a while.
//!
//! What lines cost depends on where the two processors are and on how much there is to do between two lines, and no system says either.

/// Trials of a way; the best counts, because whatever interrupts a process is not what its lines cost.
const TRIALS: u32 = 3;
/// Laps of a trial. The first is not timed: a way shows when lines come round that went the same way before. The others are so many because
/// where there is a pause after so many lines, few laps have as many pauses as others only by chance.
const LAPS_A_TRIAL: u32 = 16;
const LAST_UNTIMED: u32 = LAPS_A_TRIAL - 1;
/// Trials begin after so many laps, and whenever that has doubled, until they are so many apart.
const FIRST: u32 = 256;
const APART: u32 = 4096;
/// Laps that the trials of one side are behind those of the other, which would be measured with them.
const BEHIND: u32 = 2 * TRIALS * LAPS_A_TRIAL + 2;
const _: () = assert!(2 * BEHIND <= FIRST);

/// Two ways, of which one is taken.
#[derive(Debug)]
pub(crate) struct Choice {
    lap: u32,
    /// Laps before the first that counts.
    spare: u32,
    /// Laps until the trials that go on now are over.
    left: u32,
    second: bool,
    /// When what is timed began, and with which line.
    began: u64,
    line: u64,
    /// What a thousand lines took, each way.
    took: [u64; 2],
}

impl Choice {
    /// The choice of the consumer of something, or of its producer.
    pub fn new(of_producer: bool) -> Choice {
        let spare = if of_producer { BEHIND } else { 0 };
        Choice { lap: 0, spare, left: 0, second: false, began: 0, line: 0, took: [u64::MAX; 2] }
    }

    /// A lap ends at this moment and before this line. Says whether the next is to go the second way.
    #[cold]
    #[inline(never)]
    pub fn next(&mut self, now: u64, line: u64) -> bool {
        match self.spare.checked_sub(1) {
            Some(spare) => self.spare = spare,
            None => self.lap = self.lap.wrapping_add(1),
        }
        if self.left > 0 {
            self.note(now, line);
        } else if self.lap >= FIRST && (self.lap.is_power_of_two() || self.lap % APART == 0) {
            self.took = [u64::MAX; 2];
            self.left = 2 * TRIALS * LAPS_A_TRIAL;
            self.second = false;
        }
        self.second
    }

    /// One lap of the trials is over.
    fn note(&mut self, now: u64, line: u64) {
        self.left -= 1;
        match self.left % LAPS_A_TRIAL {
            0 => self.judge(now, line),
            LAST_UNTIMED => (self.began, self.line) = (now, line),
            _ => {}
        }
    }

    /// A trial is over.
    fn judge(&mut self, now: u64, line: u64) {
        let took =
            now.saturating_sub(self.began).saturating_mul(1000) / line.saturating_sub(self.line).max(1);
        let best = &mut self.took[usize::from(self.second)];
        *best = took.min(*best);
        self.second = match self.left {
            // Not for less than the times of laps differ anyway.
            0 => self.took[1] < self.took[0] - self.took[0] / 16,
            _ => !self.second,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Laps of 512 lines, until trials are far apart and for some more: how many went the second way, and whether the last did.
    fn run(mut took: impl FnMut(u32, bool) -> u64) -> (u32, bool) {
        let (mut choice, mut now, mut second, mut seconds) = (Choice::new(false), 0, false, 0);
        for lap in 1..=4 * APART - 1 {
            now += took(lap, second);
            second = choice.next(now, u64::from(lap) * 512);
            seconds += u32::from(second);
        }
        (seconds, second)
    }

    #[test]
    fn the_faster_way_is_kept() {
        let trials = 5 + 2;
        let (seconds, second) = run(|_, second| if second { 900 } else { 1000 });
        assert!(
            second && seconds > 4 * APART - FIRST - trials * TRIALS * LAPS_A_TRIAL - 100,
            "but for trials of the first"
        );
        let (seconds, second) = run(|_, second| if second { 1000 } else { 900 });
        assert!(!second && seconds == trials * TRIALS * LAPS_A_TRIAL, "only while it is tried");
    }

    #[test]
    fn what_makes_no_difference_changes_nothing() {
        assert!(!run(|_, second| if second { 990 } else { 1000 }).1);
    }

    #[test]
    fn it_changes_when_the_processors_do() {
        let (_, second) = run(|lap, second| if second == (lap < 2 * APART) { 1000 } else { 1500 });
        assert!(!second, "what was faster is not any more");
    }

    #[test]
    fn a_lap_that_was_interrupted_does_not_decide() {
        let mut laps = 0;
        let (_, second) = run(|_, second| {
            laps += 1;
            if laps % 31 == 0 {
                70_000
            } else if second {
                900
            } else {
                1000
            }
        });
        assert!(second);
    }

    #[test]
    fn pauses_after_every_other_lap_do_not_decide() {
        for phase in [0, 1] {
            let (_, second) =
                run(|lap, second| (if second { 1000 } else { 900 }) + 600 * u64::from(lap % 2 == phase));
            assert!(!second);
        }
    }

    #[test]
    fn a_clock_that_runs_backwards_is_no_panic() {
        let mut choice = Choice::new(false);
        (0..100).for_each(|lap| {
            choice.next(1000 - lap, 5);
        });
    }
}
