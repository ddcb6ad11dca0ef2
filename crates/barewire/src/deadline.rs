//! When a wait is to end.

use std::time::{Duration, Instant};

use barewire_core::WaitError;

/// A moment, or never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// After so long; never if that is not said, or longer than clocks go.
    pub fn after(timeout: Option<Duration>) -> Deadline {
        Deadline(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// How long it is until then; `None` if it never comes, zero if it has passed.
    pub fn left(&self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

/// What a wait that slept for a while at most came to: that the while is over is not its end.
pub(crate) fn napped(waited: Result<(), WaitError>) -> Result<(), WaitError> {
    match waited {
        Err(WaitError::TimedOut) => Ok(()),
        waited => waited,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_too_long() {
        assert_eq!(Deadline::after(Some(Duration::MAX)).left(), None);
        assert_eq!(Deadline::after(Some(Duration::ZERO)).left(), Some(Duration::ZERO));
    }
}
