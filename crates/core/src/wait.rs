//! Waiting: spin, then yield, then sleep.
//!
//! Spinning is for a peer that runs on another processor and answers within microseconds; when more endpoints want to run
//! than there are processors, it only keeps the peer from running, so it is cut to nothing. Yielding lets others run and
//! costs little. Sleeping costs nothing and takes tens of microseconds to end.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::endpoint::Endpoint;
use crate::error::WaitError;
use crate::incoming::Deliver;
use crate::progress::IDLE_BEFORE_HOUSEKEEPING;
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
            let ready = self.poller.wait(longest);
            ready.into_iter().for_each(|source| self.attend(source));
        }
        self.undoze();
        self.housekeep(deliver);
    }

    /// Before waiting on [`Endpoint::fd`]: asks to be woken. False if there is something to do already; then make progress
    /// instead of waiting. After waiting, make progress as usual.
    pub fn doze(&mut self) -> bool {
        // Whatever wakes us may be a socket or a listener: the next call of `progress` that finds nothing looks at them,
        // and forgets the ring of the bell.
        self.idle = IDLE_BEFORE_HOUSEKEEPING;
        self.bell.doze();
        self.dozing = true;
        let quiet = self.deferring.is_empty()
            && self.connecting.is_empty()
            && self.pending.is_empty()
            && self.lost.is_empty()
            && self.inbound.iter_mut().all(|slot| match slot.inbound.as_mut().map(|link| &mut link.rx) {
                Some(Rx::Ring(ring)) => ring.is_quiet(),
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

impl Endpoint {
    /// A handle with which any thread can wake this endpoint from its sleep.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, job::Job};
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (alarm, done) = (endpoint.alarm().unwrap(), AtomicBool::new(false));
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| { done.store(true, Ordering::Release); alarm.ring(); });
    ///     endpoint.wait(&mut Ignore, None, |_, _| done.load(Ordering::Acquire)).unwrap();
    /// });
    /// ```
    pub fn alarm(&self) -> std::io::Result<Alarm> {
        let [_, event] = self.bell.fds();
        Ok(Alarm(event.try_clone_to_owned()?))
    }
}

/// Wakes one endpoint from its sleep, or keeps it from falling asleep once.
#[derive(Debug)]
pub struct Alarm(OwnedFd);

impl Alarm {
    /// Wakes the endpoint. One system call, whether it sleeps or not.
    pub fn ring(&self) {
        // It fails only when the count is at its limit, and then the endpoint wakes anyway.
        let _ = barewire_sys::rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// When things fell quiet, and when the wait began; read from the clock only once there is time to.
struct Quiet {
    since: Option<Instant>,
    started: Option<Instant>,
}
