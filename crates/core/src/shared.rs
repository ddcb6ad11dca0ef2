//! An endpoint for several threads: one lock around it and its layer, and waits that hold it only while they look.
//!
//! An endpoint a thread is faster; this is for interfaces whose users may call from any thread, such as MPI's
//! `THREAD_MULTIPLE` and BMI, and for a thread that makes progress while the others compute.
//!
//! ```
//! use barewire_core::{Config, Endpoint, Ignore, Port, job::Job, shared::Shared};
//! let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
//! let shared = Shared::new(endpoint, Ignore).unwrap();
//! std::thread::scope(|scope| {
//!     for _ in 0..3 {
//!         scope.spawn(|| shared.with(|endpoint, _| endpoint.send(endpoint.me(), Port(1), 0, b"hi")).unwrap());
//!     }
//! });
//! shared.wait(None, |endpoint, _| endpoint.stats().received == 3).unwrap();
//! ```

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use barewire_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::endpoint::Endpoint;
use crate::error::WaitError;
use crate::incoming::Deliver;
use crate::patience::Idle;
use crate::wait::{Alarm, Waiting};

/// Looks before a yield at most: other threads want the lock.
const LOOKS_MAX: u32 = 128;
/// A sleeper looks again at least this often, whatever wakes it.
const NAP: Duration = Duration::from_millis(500);

/// An endpoint and its layer, shared by threads. Clones are handles to the same.
///
/// ```
/// use barewire_core::{Config, Endpoint, Ignore, Port, job::Job, shared::Shared};
/// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let shared = Shared::new(endpoint, Ignore).unwrap();
/// let there = shared.clone();
/// std::thread::spawn(move || there.with(|endpoint, _| endpoint.send(endpoint.me(), Port(1), 0, b"hi")).unwrap()).join().unwrap();
/// shared.wait(None, |endpoint, _| endpoint.stats().received == 1).unwrap();
/// ```
#[derive(Debug)]
pub struct Shared<L>(Arc<Inner<L>>);

#[derive(Debug)]
struct Inner<L> {
    pair: Mutex<(Endpoint, L)>,
    /// Wakes those who sleep.
    alarm: Alarm,
    /// Threads asleep in a wait; whoever makes progress for them wakes them.
    sleepers: AtomicUsize,
}

impl<L> Clone for Shared<L> {
    fn clone(&self) -> Shared<L> {
        Shared(Arc::clone(&self.0))
    }
}

impl<L: Deliver> Shared<L> {
    /// Shares an endpoint and the layer that takes its packets.
    ///
    /// ```
    /// # use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job, shared::Shared};
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let layer = move |_: &mut Endpoint, packet: Incoming<'_>| { tell.send(packet.imm).unwrap(); Flow::Continue };
    /// let shared = Shared::new(endpoint, layer).unwrap();
    /// shared.with(|endpoint, _| endpoint.send(endpoint.me(), Port(1), 42, b"")).unwrap();
    /// shared.wait(None, |endpoint, _| endpoint.stats().received == 1).unwrap();
    /// assert_eq!(told.recv(), Ok(42));
    /// ```
    pub fn new(endpoint: Endpoint, layer: L) -> std::io::Result<Shared<L>> {
        let alarm = endpoint.alarm()?;
        let pair = Mutex::new((endpoint, layer));
        Ok(Shared(Arc::new(Inner { pair, alarm, sleepers: AtomicUsize::new(0) })))
    }

    /// Uses the endpoint and its layer; other threads wait meanwhile.
    ///
    /// ```
    /// # use barewire_core::{Config, Deliver, Endpoint, Flow, Incoming, Port, job::Job, shared::Shared};
    /// struct Count(u32);
    /// # impl Deliver for Count {
    /// #     fn deliver(&mut self, _: &mut Endpoint, _: Incoming<'_>) -> Flow { self.0 += 1; Flow::Continue }
    /// # }
    /// # let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let shared = Shared::new(endpoint, Count(0)).unwrap();
    /// let seen = shared.with(|endpoint, count| {
    ///     endpoint.send(endpoint.me(), Port(1), 0, b"hi").unwrap();
    ///     endpoint.progress(count, usize::MAX);
    ///     count.0
    /// });
    /// assert_eq!(seen, 1);
    /// ```
    pub fn with<R>(&self, use_it: impl FnOnce(&mut Endpoint, &mut L) -> R) -> R {
        let mut pair = self.lock();
        let (endpoint, layer) = &mut *pair;
        use_it(endpoint, layer)
    }

    /// Takes what has arrived; says how many packets.
    ///
    /// ```
    /// # use barewire_core::{Config, Endpoint, Ignore, Port, job::Job, shared::Shared};
    /// # let shared = Shared::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Ignore).unwrap();
    /// assert_eq!(shared.progress(usize::MAX), 0, "nothing has arrived");
    /// for _ in 0..2 {
    ///     shared.with(|endpoint, _| endpoint.send(endpoint.me(), Port(1), 0, b"hi")).unwrap();
    /// }
    /// assert_eq!(shared.progress(1), 1, "no more than one");
    /// assert_eq!(shared.progress(usize::MAX), 1);
    /// ```
    pub fn progress(&self, budget: usize) -> usize {
        let mut pair = self.lock();
        let (endpoint, layer) = &mut *pair;
        let taken = endpoint.progress(layer, budget);
        if taken > 0 {
            self.wake_sleepers();
        }
        taken
    }

    /// [`Endpoint::looked`], for those who make progress in a loop of their own; other threads may use the endpoint meanwhile.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Port, job::Job, shared::Shared};
    /// let shared = Shared::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Ignore).unwrap();
    /// shared.with(|endpoint, _| endpoint.send(endpoint.me(), Port(1), 0, b"hi")).unwrap();
    /// let mut taken = 0;
    /// while taken == 0 {
    ///     taken = shared.progress(usize::MAX);
    ///     shared.looked(taken);
    /// }
    /// ```
    pub fn looked(&self, taken: usize) {
        if taken == 0 && self.with(|endpoint, _| endpoint.patience.is_spent()) {
            let now = Instant::now();
            std::thread::yield_now();
            self.with(|endpoint, _| endpoint.patience.yielded_at(now));
        }
    }

    /// Makes progress until `done` says so, or another thread's progress brought it about.
    ///
    /// ```
    /// # use barewire_core::{Config, Endpoint, Ignore, Port, WaitError, job::Job, shared::Shared};
    /// # use std::time::Duration;
    /// # let shared = Shared::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Ignore).unwrap();
    /// let there = shared.clone();
    /// let waiter = std::thread::spawn(move || there.wait(None, |endpoint, _| endpoint.stats().received > 0));
    /// shared.with(|endpoint, _| endpoint.send(endpoint.me(), Port(1), 0, b"wake up")).unwrap();
    /// assert_eq!(waiter.join().unwrap(), Ok(()));
    /// assert_eq!(shared.wait(Some(Duration::ZERO), |_, _| false), Err(WaitError::TimedOut));
    /// ```
    pub fn wait(
        &self,
        timeout: Option<Duration>,
        done: impl FnMut(&mut Endpoint, &mut L) -> bool,
    ) -> Result<(), WaitError> {
        self.wait_for(Waiting { what: "what one of several threads needs", on: None }, timeout, done)
    }

    /// [`Shared::wait`], saying what for. The watchdog reports waits without a time limit: who set one, as servers do that look after other things
    /// now and then, is told at its end.
    ///
    /// ```
    /// # use barewire_core::{Config, Endpoint, Ignore, Port, WaitError, job::Job, shared::Shared, wait::Waiting};
    /// # use std::time::Duration;
    /// # let shared = Shared::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Ignore).unwrap();
    /// let news = Waiting { what: "news", on: None };
    /// let no_news = shared.wait_for(news, Some(Duration::from_millis(1)), |endpoint, _| endpoint.stats().received > 0);
    /// assert_eq!(no_news, Err(WaitError::TimedOut));
    /// ```
    pub fn wait_for(
        &self,
        waiting: Waiting,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut Endpoint, &mut L) -> bool,
    ) -> Result<(), WaitError> {
        let mut idle = Idle::default();
        let (mut started, mut report_after) = (None, timeout.map(|_| Duration::MAX));
        let (mut looks, yield_for) =
            self.with(|endpoint, _| (endpoint.patience.looks(), endpoint.config.yield_for));
        loop {
            for _ in 0..looks.min(LOOKS_MAX) {
                let mut pair = self.lock();
                let (endpoint, layer) = &mut *pair;
                if endpoint.progress(layer, usize::MAX) > 0 {
                    idle.end();
                    self.wake_sleepers();
                }
                if done(endpoint, layer) {
                    return Ok(());
                }
                drop(pair);
                std::hint::spin_loop();
            }
            let now = Instant::now();
            let waited = now - *started.get_or_insert(now);
            if timeout.is_some_and(|timeout| waited >= timeout) {
                return Err(WaitError::TimedOut);
            }
            let due = self.with(|endpoint, _| {
                let report = endpoint.report_wait(waiting, waited, idle.so_far(now), &mut report_after);
                report.into_iter().chain(endpoint.deadline()).min()
            });
            if idle.is_enough(now, yield_for).is_none() {
                std::thread::yield_now();
                looks = self.with(|endpoint, _| endpoint.patience.yielded_at(now));
            } else {
                let left = timeout.map(|timeout| timeout.saturating_sub(waited));
                let longest = left.into_iter().chain(due).fold(NAP, Duration::min);
                if self.sleep(longest, &mut done)? {
                    return Ok(());
                }
            }
        }
    }

    /// Sleeps, without the lock, until something may have arrived or another thread took something. True if `done` said so
    /// before: it is not asked again, because what it found may be taken.
    fn sleep(
        &self,
        longest: Duration,
        done: &mut impl FnMut(&mut Endpoint, &mut L) -> bool,
    ) -> Result<bool, WaitError> {
        // SYNC sleepers: counted under the lock before the last look, so whoever takes something later sees the count.
        let (fd, quiet) = {
            let mut pair = self.lock();
            let (endpoint, layer) = &mut *pair;
            if !endpoint.guard.is_parent() {
                return Err(WaitError::Forked);
            }
            // Asked after we have said that we sleep: what others write to memory without a message is not missed.
            let quiet = endpoint.doze();
            if done(endpoint, layer) {
                endpoint.undoze();
                self.wake_sleepers();
                return Ok(true);
            }
            self.0.sleepers.fetch_add(1, Ordering::Relaxed);
            (endpoint.fd().try_clone_to_owned(), quiet)
        };
        if let (Ok(fd), true) = (fd, quiet) {
            let nap =
                Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: i64::from(longest.subsec_nanos()) };
            let _ = poll(&mut [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)], Some(&nap));
        }
        let mut pair = self.lock();
        self.0.sleepers.fetch_sub(1, Ordering::Relaxed);
        let (endpoint, layer) = &mut *pair;
        endpoint.undoze();
        endpoint.housekeep(layer);
        self.wake_sleepers();
        Ok(false)
    }

    fn wake_sleepers(&self) {
        if self.0.sleepers.load(Ordering::Relaxed) > 0 {
            self.0.alarm.ring();
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Endpoint, L)> {
        self.0.pair.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Deliver + Send + 'static> Shared<L> {
    /// A thread that makes progress whenever something arrives, until the returned handle is dropped.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Port, job::Job, shared::Shared};
    /// let shared = Shared::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Ignore).unwrap();
    /// let thread = shared.progress_thread().unwrap();
    /// shared.with(|endpoint, _| endpoint.send(endpoint.me(), Port(1), 0, b"hi")).unwrap();
    /// while shared.with(|endpoint, _| endpoint.stats().received) == 0 {
    ///     std::thread::yield_now();
    /// }
    /// drop(thread);
    /// ```
    pub fn progress_thread(&self) -> std::io::Result<ProgressThread> {
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopped) = (self.clone(), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("barewire".to_owned()).spawn(move || {
            // SYNC stop: a flag without data behind it.
            while !stopped.load(Ordering::Relaxed) {
                let _ = shared.wait(Some(NAP), |_, _| stopped.load(Ordering::Relaxed));
            }
        })?;
        let alarm = self.with(|endpoint, _| endpoint.alarm())?;
        Ok(ProgressThread { stop, alarm, thread: Some(thread) })
    }
}

/// Makes progress while it lives.
///
/// ```
/// # use barewire_core::{Config, Endpoint, Ignore, Port, job::Job, shared::Shared};
/// # let shared = Shared::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Ignore).unwrap();
/// let thread = shared.progress_thread().unwrap();
/// drop(thread); // waits for its end: from now on nobody makes progress but us
/// shared.with(|endpoint, _| endpoint.send(endpoint.me(), Port(1), 0, b"hi")).unwrap();
/// assert_eq!(shared.progress(usize::MAX), 1);
/// ```
#[derive(Debug)]
pub struct ProgressThread {
    stop: Arc<AtomicBool>,
    alarm: Alarm,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        // SYNC stop: see `progress_thread`.
        self.stop.store(true, Ordering::Relaxed);
        self.alarm.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
