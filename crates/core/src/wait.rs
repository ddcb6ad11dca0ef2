//! Waiting: spin, then yield, then sleep.
//!
//! Spinning is for a peer that runs on another processor and answers within microseconds; when more endpoints want to run
//! than there are processors, it only keeps the peer from running, so it is cut to nothing. Yielding lets others run and
//! costs little. Sleeping costs nothing and takes tens of microseconds to end.

use std::time::{Duration, Instant};

use crate::endpoint::Endpoint;
use crate::error::WaitError;
use crate::incoming::Deliver;
use crate::provider::Rx;

/// Looks between two readings of the clock.
const SPINS: u32 = 128;

impl Endpoint {
    /// Makes progress until `done` says so, sleeping when there is nothing to do. `timeout` of `None` waits for ever.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, WaitError, job::Job};
    /// use std::time::Duration;
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let never = endpoint.wait(&mut Ignore, Some(Duration::from_millis(5)), |_, _| false);
    /// assert_eq!(never, Err(WaitError::TimedOut));
    /// ```
    pub fn wait<D: Deliver>(
        &mut self,
        deliver: &mut D,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut Endpoint, &mut D) -> bool,
    ) -> Result<(), WaitError> {
        if done(self, deliver) {
            return Ok(());
        }
        if !self.guard.is_parent() {
            return Err(WaitError::Forked);
        }
        let mut quiet = Quiet { since: None, started: None };
        loop {
            let mut spins = 0;
            while spins < self.spins() {
                let taken = self.progress(deliver, usize::MAX);
                if done(self, deliver) {
                    return Ok(());
                }
                if taken > 0 {
                    quiet.since = None;
                    spins = 0;
                } else {
                    std::hint::spin_loop();
                    spins += 1;
                }
            }
            let now = Instant::now();
            let started = *quiet.started.get_or_insert(now);
            if timeout.is_some_and(|timeout| now - started >= timeout) {
                return Err(WaitError::TimedOut);
            }
            let idle = now - *quiet.since.get_or_insert(now);
            if idle < self.config.yield_for {
                std::thread::yield_now();
            } else {
                let left = timeout.map(|timeout| timeout.saturating_sub(now - started));
                self.sleep(deliver, left);
            }
        }
    }

    fn spins(&self) -> u32 {
        SPINS
    }

    /// Sleeps until something may have arrived, at most `longest`.
    #[cold]
    fn sleep<D: Deliver>(&mut self, deliver: &mut D, longest: Option<Duration>) {
        if self.doze() {
            let longest = longest.into_iter().chain(self.deadline()).min();
            let ready = self.poller.wait(longest);
            ready.into_iter().for_each(|source| self.attend(source));
        }
        self.undoze();
        self.housekeep(deliver);
    }

    /// Before waiting on [`Endpoint::fd`]: asks to be woken. False if there is something to do already; then make progress
    /// instead of waiting. After waiting, make progress as usual.
    pub fn doze(&mut self) -> bool {
        self.bell.doze();
        self.dozing = true;
        self.flush_before_sleep();
        let quiet = self.deferring.is_empty()
            && self.connecting.iter().all(|&to| self.is_dialling(to))
            && self.pending.is_empty()
            && self.lost.is_empty()
            && self.inbound.iter_mut().all(|slot| match slot.inbound.as_mut().map(|link| &mut link.rx) {
                Some(Rx::Ring(ring)) => ring.is_quiet(),
                Some(Rx::Tcp(tcp)) => tcp.is_quiet(),
                None => true,
            });
        if !quiet {
            self.undoze();
        }
        quiet
    }

    /// Says that we are awake again.
    pub(crate) fn undoze(&mut self) {
        if self.dozing {
            self.bell.wake();
            self.dozing = false;
        }
    }
}

/// When things fell quiet, and when the wait began; read from the clock only once there is time to.
struct Quiet {
    since: Option<Instant>,
    started: Option<Instant>,
}
