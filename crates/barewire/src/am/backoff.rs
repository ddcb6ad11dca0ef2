//! Waiting for what comes without a wake-up: spin, then yield, then short naps.

use std::time::Duration;

const SPINS: u32 = 128;
const YIELDS: u32 = 2000;
const NAP: Duration = Duration::from_micros(50);

#[derive(Debug, Default)]
pub(super) struct Backoff {
    pauses: u32,
}

impl Backoff {
    /// Waits a little, and longer each time.
    pub fn pause(&mut self) {
        self.pauses = self.pauses.saturating_add(1);
        match self.pauses {
            ..SPINS => std::hint::spin_loop(),
            SPINS..YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(NAP),
        }
    }
}
