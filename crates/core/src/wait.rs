//! Waiting: spin, then yield, then sleep.
//!
//! Spinning is for a peer that runs on another processor and answers within microseconds. When more endpoints want to run than
//! there are processors it only keeps the peer from running; how long to spin is learnt, see `patience`. Yielding
//! lets others run and costs little. Sleeping costs nothing and takes tens of microseconds to end.
//!
//! A wait that goes on for long is reported, with who waits for whom and what is on its way: a hang that explains itself.
//!
//! ```
//! use barewire_core::{Config, Endpoint, Ignore, Peer, Port, job::Job};
//! # let mut jobs = Job::threads(2).unwrap().into_iter();
//! # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
//! let (mut here, mut there) = (open(), open());
//! let late = std::thread::spawn(move || here.send(Peer(1), Port(1), 0, b"sorry").map(|()| here));
//! there.wait(&mut Ignore, None, |there, _| there.stats().received == 1).unwrap();
//! assert!(late.join().unwrap().is_ok());
//! ```

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::Peer;
use crate::endpoint::Endpoint;
use crate::error::WaitError;
use crate::incoming::Deliver;
use crate::patience::Idle;
use crate::peer::PeerState;
use crate::provider::{Rx, Tx};

/// Looks in quick succession; after these each is followed by a pause, for the sake of a processor's other thread.
const QUICK_LOOKS: u32 = 64;
/// Looks that found something before the wait looks at the clock all the same: there may be a time limit, or one who is gone.
const BUSY_LOOKS: u32 = 4096;

/// What a wait is for, in the words the watchdog will use.
///
/// ```
/// use barewire_core::{Config, Endpoint, Ignore, Peer, WaitError, job::Job, wait::Waiting};
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let waiting = Waiting { what: "a fourth player", on: Some(Peer(3)) };
/// assert_eq!(endpoint.wait_for(waiting, &mut Ignore, None, |_, _| false), Err(WaitError::Lost(Peer(3))), "there is none");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What is waited for, such as "the end of a put".
    pub what: &'static str,
    /// On whom it depends, if on one peer: where processes outnumber processors, mostly that one's packets are looked for.
    pub on: Option<Peer>,
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

    /// Makes progress until `done` says so, sleeping when there is nothing to do. `timeout` of `None` waits for ever.
    ///
    /// On a simulated network in virtual time nobody sleeps: the wait moves the clock on as long as the next event is this
    /// endpoint's own, and otherwise ends with [`WaitError::NotOurTurn`] or [`WaitError::Never`].
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
        done: impl FnMut(&mut Endpoint, &mut D) -> bool,
    ) -> Result<(), WaitError> {
        self.wait_for(Waiting { what: "a message", on: None }, deliver, timeout, done)
    }

    /// [`Endpoint::wait`], saying what for. Ends early with [`WaitError::Lost`] if `waiting.on` is gone.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Peer, Port, WaitError, job::Job, wait::Waiting};
    /// # let mut jobs = Job::threads(2).unwrap().into_iter();
    /// # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
    /// let (mut here, mut there) = (open(), open());
    /// there.send(Peer(0), Port(1), 0, b"one answer").unwrap();
    /// drop(there);
    /// let answers = Waiting { what: "two answers", on: Some(Peer(1)) };
    /// let two = here.wait_for(answers, &mut Ignore, None, |here, _| here.stats().received_bytes == 20);
    /// assert_eq!((two, here.stats().received_bytes), (Err(WaitError::Lost(Peer(1))), 10), "only one came");
    /// ```
    pub fn wait_for<D: Deliver>(
        &mut self,
        waiting: Waiting,
        deliver: &mut D,
        timeout: Option<Duration>,
        done: impl FnMut(&mut Endpoint, &mut D) -> bool,
    ) -> Result<(), WaitError> {
        self.wait_with(WaitClock::default(), waiting, deliver, timeout, done)
    }

    /// [`Endpoint::wait_for`] for something in memory that neighbours write without sending anything: `done` only looks, and
    /// is asked once more after we have said that we sleep; what it has found has to stay true. Whoever writes such memory calls [`Endpoint::nudge`].
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, job::Job, region::Memory, wait::Waiting};
    /// use std::sync::atomic::Ordering;
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let memory = Memory::shared(64).unwrap();
    /// let word = |memory: &Memory| memory.atomic_u64(0).unwrap().load(Ordering::Acquire);
    /// assert!(memory.write(0, &7u64.to_ne_bytes()));
    /// let seven = Waiting { what: "a seven", on: None };
    /// endpoint.watch_for(seven, &mut Ignore, None, |_, _| word(&memory) == 7).unwrap();
    /// ```
    pub fn watch_for<D: Deliver>(
        &mut self,
        waiting: Waiting,
        deliver: &mut D,
        timeout: Option<Duration>,
        done: impl FnMut(&mut Endpoint, &mut D) -> bool,
    ) -> Result<(), WaitError> {
        let clock = WaitClock { watching: true, ..WaitClock::default() };
        self.wait_with(clock, waiting, deliver, timeout, done)
    }

    #[inline(always)]
    fn wait_with<D: Deliver>(
        &mut self,
        mut clock: WaitClock,
        waiting: Waiting,
        deliver: &mut D,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut Endpoint, &mut D) -> bool,
    ) -> Result<(), WaitError> {
        let mut looks = self.patience.looks();
        loop {
            let (mut quiet, mut busy) = (0, 0);
            while quiet < looks && busy < BUSY_LOOKS {
                if done(self, deliver) {
                    return Ok(());
                }
                if self.look(waiting.on, deliver) > 0 {
                    clock.idle.end();
                    (quiet, busy) = (0, busy + 1);
                } else {
                    if quiet >= QUICK_LOOKS {
                        std::hint::spin_loop();
                    }
                    quiet += 1;
                }
            }
            if done(self, deliver) {
                return Ok(());
            }
            looks = self.wait_longer(waiting, deliver, timeout, &mut clock, &mut done)?;
        }
    }

    /// One step of a wait that spinning did not end: look at the clock, then yield or sleep. Says how often to look next.
    #[cold]
    #[inline(never)]
    fn wait_longer<D: Deliver>(
        &mut self,
        waiting: Waiting,
        deliver: &mut D,
        timeout: Option<Duration>,
        clock: &mut WaitClock,
        done: &mut impl FnMut(&mut Endpoint, &mut D) -> bool,
    ) -> Result<u32, WaitError> {
        if !self.guard.is_parent() {
            return Err(WaitError::Forked);
        }
        // Gone, and all that it sent before has been taken.
        let is_gone = |peer: &Peer| self.peers.get(peer.index()).is_none_or(|p| p.is_gone() && p.told_lost);
        if let Some(peer) = waiting.on.filter(is_gone) {
            return Err(WaitError::Lost(peer));
        }
        if self.is_virtual() {
            return self.wait_virtually(timeout, &mut clock.virtual_start).map(|()| 1);
        }
        let now = Instant::now();
        let started = *clock.started.get_or_insert(now);
        if timeout.is_some_and(|timeout| now - started >= timeout) {
            return Err(WaitError::TimedOut);
        }
        let waited = now - started;
        let report_within =
            self.report_wait(waiting, waited, clock.idle.so_far(now), &mut clock.report_after);
        if clock.idle.is_enough(now, self.config.yield_for).is_none() {
            self.give_way(waiting.on);
            return Ok(self.patience.yielded_at(now));
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(waited));
        let longest = left.into_iter().chain(report_within).min();
        let watch = clock.watching.then_some(done);
        self.sleep(deliver, longest, watch);
        Ok(1)
    }

    /// Offers the processor to others, most of all to the one who is waited for.
    pub(crate) fn give_way(&mut self, to: Option<Peer>) {
        let sender = to.and_then(|peer| {
            let slot = self.inbound.iter().find(|slot| slot.peer == peer)?;
            match &slot.inbound.as_ref()?.rx {
                Rx::Ring(rx) => Some((peer, rx.sender()?)),
                _ => None,
            }
        });
        self.queue.give_way(&self.bell, sender);
    }

    /// Sleeps until something may have arrived, at most `longest`. Neighbours who write the memory that is watched wake us
    /// only if we doze, so it has to be looked at once more after that.
    fn sleep<D: Deliver>(
        &mut self,
        deliver: &mut D,
        longest: Option<Duration>,
        watch: Option<&mut impl FnMut(&mut Endpoint, &mut D) -> bool>,
    ) {
        let quiet = self.doze();
        if quiet && watch.is_some_and(|done| done(self, deliver)) {
            self.undoze();
            return;
        }
        if quiet {
            let longest = longest.into_iter().chain(self.deadline()).min();
            let ready = self.poller.wait(longest);
            ready.into_iter().for_each(|source| self.attend(source));
        } else {
            // Something is in the making that rings no bell, such as a connection: look again soon.
            let soon = Duration::from_millis(if self.connecting.is_empty() { 0 } else { 1 });
            self.poller.wait(Some(soon)).into_iter().for_each(|source| self.attend(source));
        }
        self.undoze();
        self.housekeep(deliver);
    }

    /// Whether this endpoint has asked to be woken. What a wait looks at may be in memory where others cannot know whom to
    /// wake: then they have to be told.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, job::Job, wait::Waiting};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (waiting, mut slept) = (Waiting { what: "its own sleep", on: None }, false);
    /// endpoint.watch_for(waiting, &mut Ignore, None, |endpoint, _| { slept |= endpoint.is_dozing(); slept }).unwrap();
    /// assert!(!endpoint.is_dozing(), "the wait is over, and it is awake");
    /// ```
    #[inline]
    pub fn is_dozing(&self) -> bool {
        self.dozing
    }

    /// Before waiting on [`Endpoint::fd`]: asks to be woken. False if there is something to do already; then make progress
    /// instead of waiting. After waiting, make progress as usual.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// assert!(endpoint.doze(), "nothing to do: wait on endpoint.fd()");
    /// endpoint.send(endpoint.me(), Port(0), 0, b"").unwrap();
    /// assert!(!endpoint.doze(), "there is a message to take");
    /// assert_eq!(endpoint.progress(&mut Ignore, usize::MAX), 1);
    /// ```
    pub fn doze(&mut self) -> bool {
        self.want_room();
        // Whatever wakes us may be a socket or a listener: the next call of `progress` that finds nothing looks at them,
        // and forgets the ring of the bell.
        self.rounds.hurry();
        self.bell.doze();
        self.dozing = true;
        self.flush_before_sleep();
        let quiet = !self.found_room()
            && self.connecting.iter().all(|&to| self.is_dialling(to))
            && self.lost.is_empty()
            && self.inbound.iter_mut().all(|slot| match slot.inbound.as_mut().map(|link| &mut link.rx) {
                Some(Rx::Ring(ring)) => ring.is_quiet(self.peers[slot.peer.index()].shuttle()),
                Some(Rx::Datagram(rx)) => {
                    rx.settle();
                    rx.credit.due_before_idle().is_none()
                }
                Some(Rx::Tcp(tcp)) => tcp.is_quiet(),
                None => true,
            })
            && self.are_datagrams_quiet();
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

    /// Reports a wait that has lasted so long that somebody wants to know, or that somebody has asked about; `after` says when the next report is
    /// due. Says how soon that is.
    pub(crate) fn report_wait(
        &mut self,
        waiting: Waiting,
        waited: Duration,
        idle: Duration,
        after: &mut Option<Duration>,
    ) -> Option<Duration> {
        if self.report_wanted {
            self.report_wanted = false;
            let text = self.describe_wait(waiting, waited, idle);
            self.directory.report(&text);
        }
        if self.config.watchdog.is_zero() {
            return None;
        }
        let due = after.get_or_insert(self.config.watchdog);
        if waited >= *due {
            let text = self.describe_wait(waiting, waited, idle);
            tracing::warn!("{text}");
            eprintln!("{text}");
            *after = Some(waited.saturating_mul(2));
        }
        after.map(|after| after - waited)
    }

    /// Who waits for whom, and what is on its way.
    fn describe_wait(&mut self, waiting: Waiting, waited: Duration, idle: Duration) -> String {
        let mut text = format!(
            "barewire: rank {} (pid {}) has waited {:.1} s for {}",
            self.me,
            std::process::id(),
            waited.as_secs_f64(),
            waiting.what
        );
        if let Some(peer) = waiting.on {
            text += &format!(" of rank {peer}");
        }
        text += &format!("; nothing has arrived for {:.1} s.", idle.as_secs_f64());
        for peer in 0..self.size() {
            if Peer(peer) != self.me {
                text += &self.describe_peer(Peer(peer), waiting.on == Some(Peer(peer)));
            }
        }
        text
    }

    /// One line about a peer, if there is anything to say.
    fn describe_peer(&mut self, peer: Peer, asked: bool) -> String {
        let pending = self.ops.pending_with(peer);
        let entry = &mut self.peers[peer.index()];
        if entry.state == PeerState::Unknown && !asked {
            return String::new();
        }
        let credit = match &mut entry.tx {
            Tx::Closed => "no link".to_owned(),
            Tx::Ring(ring) => {
                let (used, lines) = ring.credit();
                format!("{used} of {lines} lines on their way")
            }
            Tx::Tcp(tcp) => {
                let (used, window) = tcp.credit();
                format!("{used} of {window} bytes on their way, {} not written yet", tcp.gathered())
            }
            Tx::Datagram(link) => {
                let (used, bytes) = link.credit();
                format!("{used} of {bytes} bytes and {} packets on their way", link.reliable.unacked())
            }
        };
        let process = entry.card.as_ref().map_or(String::new(), |card| process_state(card.pid));
        format!(
            "\n  rank {peer}{process}: {}, {credit}, {} deferred, {pending} region operations under way; {}",
            match &entry.state {
                PeerState::Unknown => "never connected",
                PeerState::Connecting => "connecting",
                PeerState::Connected => "connected",
                PeerState::Left => "left",
                PeerState::Lost(reason) => reason,
            },
            entry.outbox.len(),
            entry.stats
        )
    }
}

/// Wakes one endpoint from its sleep, or keeps it from falling asleep once.
///
/// ```
/// use barewire_core::{Config, Endpoint, Ignore, job::Job, wait::Alarm};
/// use std::sync::mpsc;
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let (alarm, (give, take)): (Alarm, _) = (endpoint.alarm().unwrap(), mpsc::channel());
/// let worker = std::thread::spawn(move || { give.send(42).unwrap(); alarm.ring(); });
/// let mut result = None;
/// endpoint.wait(&mut Ignore, None, |_, _| { result = take.try_recv().ok(); result.is_some() }).unwrap();
/// assert_eq!(result, Some(42));
/// # worker.join().unwrap();
/// ```
#[derive(Debug)]
pub struct Alarm(OwnedFd);

impl Alarm {
    /// Wakes the endpoint. One system call, whether it sleeps or not.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job};
    /// use barewire_sys::rustix::event::{PollFd, PollFlags, poll};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let alarm = endpoint.alarm().unwrap();
    /// assert!(endpoint.doze());
    /// alarm.ring();
    /// assert_eq!(poll(&mut [PollFd::new(&endpoint.fd(), PollFlags::IN)], None), Ok(1), "it does not sleep");
    /// ```
    pub fn ring(&self) {
        // It fails only when the count is at its limit, and then the endpoint wakes anyway.
        let _ = barewire_sys::rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// The state of a process of this host, in words; a stopped process is suspect, not dead.
fn process_state(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    match state {
        Some('T' | 't') => format!(" (pid {pid}, stopped by a signal or a debugger)"),
        Some('Z' | 'X') => format!(" (pid {pid}, ended)"),
        Some('R') => format!(" (pid {pid}, computing)"),
        Some(_) => format!(" (pid {pid}, asleep)"),
        None => format!(" (pid {pid})"),
    }
}

/// What a wait has read from the clock; nothing, while spinning is enough.
#[derive(Default)]
struct WaitClock {
    started: Option<Instant>,
    idle: Idle,
    report_after: Option<Duration>,
    virtual_start: Option<crate::time::Nanos>,
    /// What is waited for is in memory that neighbours write.
    watching: bool,
}
