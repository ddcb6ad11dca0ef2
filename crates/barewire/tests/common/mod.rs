//! What the suites of several layers share: where threads meet, and bytes to recognise.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Nobody is this late unless something hangs.
const LATE: Duration = Duration::from_secs(300);

/// Where threads wait for each other while they go on polling.
pub struct Meeting {
    size: u32,
    arrived: AtomicU32,
}

impl Meeting {
    pub fn new(size: u32) -> Meeting {
        Meeting { size, arrived: AtomicU32::new(0) }
    }

    /// Waits until as many have come as there are, polling meanwhile.
    pub fn meet(&self, mut poll: impl FnMut()) {
        let began = Instant::now();
        let turn = self.arrived.fetch_add(1, Ordering::SeqCst) / self.size + 1;
        while self.arrived.load(Ordering::SeqCst) < turn * self.size {
            assert!(began.elapsed() < LATE, "another thread does not come");
            poll();
            thread::yield_now();
        }
        poll();
    }
}

pub fn pattern(len: usize, salt: u64) -> Vec<u8> {
    (0..len).map(|i| (i as u64 * 31 + salt * 7 + (i as u64 >> 8)) as u8).collect()
}
