//! The pulse of a connection: is the other machine still there?
//!
//! Only what was sent can be acknowledged, so a quiet connection is pinged. A machine that acknowledges is alive,
//! even if the process on it is stopped; one that has not acknowledged anything for too long is not.

use std::time::Duration;

use barewire_sys::tcp::TcpState;

/// How often a connection is looked at while somebody waits. A machine that is gone shows within 0.9 s: what arrived last may be seen
/// one look later, the ping goes out with the next, and then it has the time below.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Unacknowledged for this long: gone. The kernel has sent what was lost twice more by then, after 0.2 s and after 0.6 s.
const GONE_AFTER_MS: u64 = 700;
/// The kernel counts in ticks that may be as long as this.
const CLOCK_SLACK_MS: u64 = 10;

/// What we know about one connection's life.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// When something was first on its way of which no acknowledgement has come since.
    waiting_since_ms: Option<u64>,
}

/// What follows from a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// Nothing to do.
    Fine,
    /// Quiet: send something that has to be acknowledged.
    Ping,
    /// The other machine does not answer.
    Gone,
}

impl Pulse {
    /// A look at the connection. `heard` if anything arrived since the last one.
    pub fn look(&mut self, now_ms: u64, heard: bool, state: TcpState) -> Beat {
        if heard {
            self.waiting_since_ms = None;
            return Beat::Fine;
        }
        if state.unanswered == 0 {
            // The ping that follows is on its way from now on.
            self.waiting_since_ms = Some(now_ms);
            return Beat::Ping;
        }
        let since = *self.waiting_since_ms.get_or_insert(now_ms);
        let answered = now_ms.saturating_sub(u64::from(state.last_answer_ms));
        if answered + CLOCK_SLACK_MS >= since {
            // What is on its way now may have been sent just now.
            self.waiting_since_ms = Some(now_ms);
            return Beat::Fine;
        }
        if now_ms - since >= GONE_AFTER_MS { Beat::Gone } else { Beat::Fine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(unanswered: u32, last_answer_ms: u32) -> TcpState {
        TcpState { unanswered, last_answer_ms, is_delivered: false }
    }

    #[test]
    fn a_machine_that_acknowledges_lives_however_quiet_its_process_is() {
        let mut pulse = Pulse::default();
        for now in (10_000..20_000).step_by(250) {
            assert_eq!(pulse.look(now, false, state(0, 240)), Beat::Ping);
        }
    }

    #[test]
    fn a_machine_that_answers_no_ping_is_gone_within_a_second() {
        let mut pulse = Pulse::default();
        assert_eq!(pulse.look(10_000, false, state(0, 9000)), Beat::Ping);
        assert_eq!(pulse.look(10_250, false, state(1, 9250)), Beat::Fine);
        assert_eq!(pulse.look(10_500, false, state(1, 9500)), Beat::Fine);
        assert_eq!(pulse.look(10_750, false, state(1, 9750)), Beat::Gone);
    }

    /// How long after its end at `end_ms` a machine is found to be gone. The looks are at multiples of their distance; something
    /// of it arrived just before the end, or was only acknowledged, and something of ours was on its way then, or not.
    fn noticed_after(end_ms: u64, heard_last: bool, mut unanswered: u32) -> u64 {
        let (mut pulse, every) = (Pulse::default(), LOOK_EVERY.as_millis() as u64);
        for now in (0..).step_by(every as usize) {
            let (alive, ended_lately) = (now < end_ms, now < end_ms + every);
            let state = state(if alive { 0 } else { unanswered }, now.saturating_sub(end_ms) as u32);
            match pulse.look(now, heard_last && ended_lately, state) {
                Beat::Gone => return now - end_ms,
                Beat::Ping if !alive => unanswered = 1,
                _ => {}
            }
        }
        unreachable!("looks go on for ever")
    }

    #[test]
    fn whenever_a_machine_ends_it_is_noticed_within_nine_tenths_of_a_second() {
        for end_ms in 1000..1000 + LOOK_EVERY.as_millis() as u64 {
            for (heard_last, unanswered) in [(true, 0), (true, 1), (false, 0), (false, 1)] {
                let after = noticed_after(end_ms, heard_last, unanswered);
                assert!((600..=900).contains(&after), "{end_ms} {heard_last} {unanswered}: {after} ms");
            }
        }
    }

    #[test]
    fn late_acknowledgements_and_repeated_ones_are_signs_of_life() {
        let mut pulse = Pulse::default();
        assert_eq!(pulse.look(10_000, false, state(5, 9000)), Beat::Fine);
        // Something is always on its way, and something is acknowledged now and then.
        for now in (10_500..20_000).step_by(500) {
            assert_eq!(pulse.look(now, false, state(5, 100)), Beat::Fine);
        }
        assert_eq!(pulse.look(20_000, false, state(5, 600)), Beat::Fine);
        assert_eq!(pulse.look(20_200, true, state(5, 800)), Beat::Fine, "it sent something");
        assert_eq!(pulse.look(20_600, false, state(5, 1200)), Beat::Fine);
        assert_eq!(pulse.look(21_400, false, state(5, 2000)), Beat::Gone);
    }

    #[test]
    fn a_long_pause_between_two_looks_condemns_nobody() {
        let mut pulse = Pulse::default();
        assert_eq!(pulse.look(10_000, false, state(0, 50)), Beat::Ping);
        // The ping was acknowledged at once, and something was sent just before this look.
        assert_eq!(pulse.look(90_000, false, state(1, 80_000)), Beat::Fine);
        assert_eq!(pulse.look(90_250, false, state(1, 80_250)), Beat::Fine);
        assert_eq!(pulse.look(90_500, false, state(0, 10)), Beat::Ping);
    }
}
