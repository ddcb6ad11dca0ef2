//! Long messages between processes of one host, fetched: the receiver copies them straight out of the sender's buffer.
//!
//! The offer says where the buffer is. When its receive is there the receiver copies the bytes and says that it has: out of the sender's
//! exported memory, if they lie there and it has mapped that; else by the kernel. Where the kernel does not let it, or is slow at it, it has
//! them sent as usual, and the sender does not show it such buffers for some time.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use barewire_sys::fetch::fetch;
use barewire_sys::wirebuf::Places;

use super::body::{Sink, Source};
use super::{EAGER_BYTES_MAX, FETCH_BYTES_MIN, REST, Request, Tagged};
use crate::Peer;
use crate::endpoint::Endpoint;
use crate::incoming::Incoming;
use crate::provider::Tx;
use crate::region::{Key, Rights};

/// Messages that are fetched, and as many that are sent, before it is settled which of both is done.
const TRIALS: u32 = 12;
/// Of these, so many in a row.
const IN_A_ROW: u32 = 4;
/// What they showed holds for so long at first, when much was used for the first time, then twice as long each time, and so long at last.
pub(super) const HOLDS_FOR_MIN: Duration = Duration::from_millis(500);
const HOLDS_FOR_MAX: Duration = Duration::from_secs(10);
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// One that has not come by then never will, or says nothing about how fast sending is.
const TRIAL_TIME_MAX: Duration = Duration::from_secs(1);

/// Where a receiver finds a message that is offered to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// Where in its sender's address space; zero if not for the kernel to copy.
    pub address: u64,
    /// In which region of its sender's, and where there.
    pub region: Option<(Key, u64)>,
}

impl Shown {
    /// Words of it in an offer.
    pub const WORDS: usize = 4;

    pub fn is_any(&self) -> bool {
        self.address != 0 || self.region.is_some()
    }

    /// As an offer says it.
    pub fn words(&self) -> [u64; Shown::WORDS] {
        match self.region {
            Some((key, at)) => [self.address, u64::from(key.slot) + 1, key.nonce, at],
            None => [self.address, 0, 0, 0],
        }
    }

    /// What an offer of `owner`'s says. Any words are some place; whether anything is there will show.
    pub fn from_words(owner: Peer, [address, slot, nonce, at]: [u64; Shown::WORDS]) -> Shown {
        let slot = slot.checked_sub(1).and_then(|slot| u32::try_from(slot).ok());
        Shown { address, region: slot.map(|slot| (Key { owner, slot, nonce, len: 0 }, at)) }
    }
}

/// What came of an attempt to fetch a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fetched {
    /// It is in place.
    Whole,
    /// It has to be sent: its place is in too many pieces.
    Unfit,
    /// It has to be sent, and so have all others of its sender until then.
    Never(Instant),
}

impl Fetched {
    /// For how long its sender need not show others, in milliseconds: the word that says so.
    pub fn never_for(self) -> u64 {
        match self {
            Fetched::Never(until) => {
                (until.saturating_duration_since(Instant::now()).as_millis() as u64).max(1)
            }
            Fetched::Whole | Fetched::Unfit => 0,
        }
    }
}

/// Until when, in so many milliseconds.
pub(super) fn until(milliseconds: u64) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_millis(milliseconds.min(FOR_EVER.as_millis() as u64)))
}

/// Whether fetching is any good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fetching {
    /// It is being found out.
    Tried(Trials),
    /// It was found out, which holds until then.
    Good(Instant),
    Bad(Instant),
    /// The kernel does not let us.
    Never,
}

impl Fetching {
    /// What was found out holds for some time only: processes move, and others come and go.
    fn now(self) -> Fetching {
        match self {
            Fetching::Good(until) | Fetching::Bad(until) if until < Instant::now() => Fetching::default(),
            _ => self,
        }
    }
}

impl Default for Fetching {
    fn default() -> Fetching {
        Fetching::Tried(Trials::default())
    }
}

/// Long messages of which some are sent and then some fetched, and how long that takes: the only way to know, because it depends on the
/// kernel, on what caches the two processors share, and on where the buffers lie in their pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trials {
    fetched: Measured,
    sent: Measured,
    /// Those that are being sent, their lengths, and since when.
    under_way: [Option<(Request, usize, Instant)>; IN_A_ROW as usize],
    /// When the last of them had come: before that the next one was not served.
    last_end: Option<Instant>,
}

/// What some messages took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Measured {
    messages: u32,
    /// Picoseconds for a byte of the fastest.
    best: Option<u64>,
    /// The sum of all but the first one's.
    sum: u64,
}

impl Measured {
    fn add(&mut self, bytes: usize, time: Duration) {
        let each = (time.as_nanos() * 1000 / bytes.max(1) as u128) as u64;
        self.sum = if self.messages > 0 { self.sum.saturating_add(each) } else { 0 };
        self.messages += 1;
        self.best = Some(self.best.map_or(each, |best| best.min(each)));
    }

    /// Picoseconds for a byte, once enough have been tried. Who has a processor to itself goes by the fastest: whatever makes others slower is an
    /// accident. In a crowd it is not: a message that is sent takes as many turns of others as its sender and its receiver wait for each other.
    fn cost(&self, crowded: bool) -> Option<u64> {
        let mean = self.sum / u64::from(self.messages.saturating_sub(1).max(1));
        self.best.map(|best| if crowded { mean } else { best }).filter(|_| self.messages >= TRIALS)
    }
}

impl Trials {
    fn sends(&self) -> bool {
        self.sent.messages / IN_A_ROW <= self.fetched.messages / IN_A_ROW
            || !self.under_way.iter().all(Trials::is_free)
    }

    fn is_free(slot: &Option<(Request, usize, Instant)>) -> bool {
        slot.is_none_or(|(.., since)| since.elapsed() >= TRIAL_TIME_MAX)
    }

    fn begins(&mut self, request: Request, len: usize) {
        if self.sent.messages < TRIALS {
            if let Some(slot) = self.under_way.iter_mut().find(|slot| Trials::is_free(slot)) {
                *slot = Some((request, len, Instant::now()));
            }
        }
    }

    fn ends(&mut self, request: Request) {
        let is_it = |slot: &&mut Option<(Request, usize, Instant)>| matches!(slot, Some((one, ..)) if *one == request);
        let Some((_, len, accepted)) = self.under_way.iter_mut().find(is_it).and_then(Option::take) else {
            return;
        };
        let (since, now) = (self.last_end.map_or(accepted, |last| last.max(accepted)), Instant::now());
        self.last_end = Some(now);
        self.sent.add(len, now - since);
    }

    /// Whether it is clear already that fetching is no better: the fastest of the first few did not come faster, and no crowd makes that an accident.
    fn is_lost(&self) -> bool {
        let some = |measured: &Measured| measured.best.filter(|_| measured.messages >= IN_A_ROW);
        matches!((some(&self.fetched), some(&self.sent)), (Some(fetched), Some(sent)) if fetched >= sent)
    }

    /// In doubt they are sent: then their senders need not wait for their receivers.
    fn outcome(self, crowded: bool, holds_for: Duration) -> Fetching {
        let until = Instant::now() + holds_for;
        if !crowded && self.is_lost() {
            return Fetching::Bad(until);
        }
        match (self.fetched.cost(crowded), self.sent.cost(crowded)) {
            (Some(fetched), Some(sent)) if fetched.saturating_mul(4) < sent.saturating_mul(3) => {
                Fetching::Good(until)
            }
            (Some(_), Some(_)) => Fetching::Bad(until),
            _ => Fetching::Tried(self),
        }
    }
}

impl Tagged {
    /// Lets neighbours copy long messages straight out of their buffers. Until a send has ended its buffer is then really in
    /// use: [`Tagged::break_off`] of one that has been offered only [cancels](Tagged::cancel) it.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, tagged::Tagged};
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let mut tagged = Tagged::new(&endpoint);
    /// tagged.show_buffers();
    /// ```
    pub fn show_buffers(&mut self) {
        self.shows_buffers = true;
    }

    /// Copies `len` bytes out of a neighbour's memory now, where it said that they are; false if the kernel does not let us: then they
    /// may have been copied in part, and have to be sent. Who is to be copied from has to wait until it is told that it has been.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, tagged::{Sink, Tagged}};
    /// use barewire_sys::userbuf::UserBuf;
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let me = endpoint.me();
    /// let fetched = Tagged::fetch_now(&endpoint, me, 4096, 8, &mut Sink::User(UserBuf::EMPTY));
    /// assert!(!fetched, "we are no neighbour of our own");
    /// ```
    pub fn fetch_now(endpoint: &Endpoint, from: Peer, address: u64, len: usize, into: &mut Sink) -> bool {
        copy_from(endpoint, from, address, len, into) == Fetched::Whole
    }

    /// Where the receiver finds a message that is offered to it.
    pub(super) fn shown(&self, endpoint: &Endpoint, to: Peer, len: u64, source: &Source) -> Shown {
        let is_neighbour = to != endpoint.me && matches!(endpoint.peers[to.index()].tx, Tx::Ring(_));
        if len < FETCH_BYTES_MIN || !is_neighbour {
            return Shown::default();
        }
        let region = match source {
            Source::Gather(gather) => gather.region(),
            _ => None,
        };
        let declines = self.peers[to.index()].declines_fetching.is_some_and(|until| Instant::now() < until);
        // What can go before it is asked for is there sooner than it could be fetched, and keeps nobody waiting.
        let address = match self.shows_buffers && len > EAGER_BYTES_MAX && !declines {
            true => source.address(len as usize).unwrap_or(0),
            false => 0,
        };
        Shown { address, region }
    }

    /// Copies the first `len` bytes of a message from where its sender has them, if that can be.
    pub(super) fn take_shown(
        &mut self,
        endpoint: &mut Endpoint,
        from: Peer,
        shown: Shown,
        len: usize,
        sink: &mut Sink,
    ) -> Fetched {
        if shown.region.is_some_and(|(key, at)| copy_out(endpoint, key, at, len, sink)) {
            return Fetched::Whole;
        }
        self.fetching = self.fetching.now();
        match shown.address {
            0 => Fetched::Unfit,
            _ if self.tries_sending() => Fetched::Unfit,
            address => self.fetch(endpoint, from, address, len, sink),
        }
    }

    /// Has the kernel copy the first `len` bytes of a message out of its sender's buffer, if that can be and is worth it.
    fn fetch(
        &mut self,
        endpoint: &Endpoint,
        from: Peer,
        address: u64,
        len: usize,
        sink: &mut Sink,
    ) -> Fetched {
        match &mut self.fetching {
            Fetching::Good(_) => copy_from(endpoint, from, address, len, sink),
            Fetching::Bad(until) => Fetched::Never(*until),
            Fetching::Never => never(),
            Fetching::Tried(trials) => {
                let started = Instant::now();
                let fetched = copy_from(endpoint, from, address, len, sink);
                match fetched {
                    Fetched::Whole => trials.fetched.add(len, started.elapsed()),
                    Fetched::Never(_) => self.fetching = Fetching::Never,
                    _ => {}
                }
                self.settle_fetching();
                fetched
            }
        }
    }

    /// Whether messages are being sent to find out which way is faster.
    fn tries_sending(&self) -> bool {
        matches!(&self.fetching, Fetching::Tried(trials) if trials.sends())
    }

    /// A message of `len` bytes is being sent though it could be fetched.
    pub(super) fn sending_begins(&mut self, request: Request, len: usize) {
        if let Fetching::Tried(trials) = &mut self.fetching {
            trials.begins(request, len);
        }
    }

    /// All of a message has come that was sent.
    #[inline]
    pub(super) fn sending_ends(&mut self, request: Request) {
        if let Fetching::Tried(trials) = &mut self.fetching {
            trials.ends(request);
            self.settle_fetching();
        }
    }

    fn settle_fetching(&mut self) {
        if let Fetching::Tried(trials) = self.fetching {
            self.fetching = trials.outcome(self.crowded, self.fetching_holds_for);
            if !matches!(self.fetching, Fetching::Tried(_)) {
                self.fetching_holds_for = (2 * self.fetching_holds_for).min(HOLDS_FOR_MAX);
            }
        }
    }
}

/// Has the kernel copy the first `len` bytes of a message out of its sender's buffer, if that can be.
fn copy_from(endpoint: &Endpoint, from: Peer, address: u64, len: usize, sink: &mut Sink) -> Fetched {
    let Some(pid) = endpoint.peers[from.index()].process else { return never() };
    let mut at = 0;
    while at < len {
        let mut places = Places::default();
        sink.place(at as u64, len - at, &mut places);
        let n = places.remaining();
        if n == 0 {
            return Fetched::Unfit;
        }
        if fetch(pid, address.wrapping_add(at as u64), places).is_err() {
            return never();
        }
        at += n;
    }
    Fetched::Whole
}

/// The kernel does not let us.
fn never() -> Fetched {
    Fetched::Never(Instant::now() + FOR_EVER)
}

/// Copies a message out of its sender's memory, if that is mapped; false if it is not, or was taken back meanwhile.
fn copy_out(endpoint: &mut Endpoint, key: Key, at: u64, len: usize, sink: &mut Sink) -> bool {
    let Ok(Some(memory)) = endpoint.reach(key, Rights::READ) else { return false };
    let bytes = usize::try_from(at).ok().and_then(|at| memory.wire_ref(at, len));
    let Some(bytes) = bytes else { return false };
    sink.take(0, &mut Incoming::new(key.owner, REST, 0, bytes));
    // SYNC grant: the bytes count only if the key was good after they were copied; its owner takes it back before it reuses them.
    fence(Ordering::Acquire);
    matches!(endpoint.reach(key, Rights::READ), Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries both ways until one is settled on, with messages that take so long, one in eight of those that are sent `hitch` times; says which,
    /// and the order of the trials.
    fn try_both(fetched: u64, sent: u64, crowded: bool, hitch: u64) -> (Fetching, String) {
        let (mut trials, mut order) = (Trials::default(), String::new());
        loop {
            let outcome = trials.outcome(crowded, HOLDS_FOR_MIN);
            if !matches!(outcome, Fetching::Tried(_)) {
                return (outcome, order);
            }
            let (way, measured, time) = match trials.sends() {
                true if trials.sent.messages % 8 == 7 => ('s', &mut trials.sent, hitch * sent),
                true => ('s', &mut trials.sent, sent),
                false => ('f', &mut trials.fetched, fetched),
            };
            order.push(way);
            // The first of either way touches much for the first time.
            let slow = if measured.messages == 0 { 10 } else { 1 };
            measured.add(64 << 10, Duration::from_nanos(slow * time));
        }
    }

    #[test]
    fn the_faster_way_is_found_whatever_the_first_messages_took() {
        for crowded in [false, true] {
            let (outcome, order) = try_both(3000, 7000, crowded, 1);
            assert!(matches!(outcome, Fetching::Good(_)), "{outcome:?}");
            assert_eq!(order, "ssssffffssssffffssssffff");
            assert!(matches!(try_both(7000, 3000, crowded, 1).0, Fetching::Bad(_)));
            assert!(matches!(try_both(6900, 7000, crowded, 1).0, Fetching::Bad(_)), "in doubt they are sent");
        }
    }

    #[test]
    fn that_sender_and_receiver_wait_for_each_other_counts_in_a_crowd() {
        assert!(matches!(try_both(5000, 3000, true, 20).0, Fetching::Good(_)));
        assert!(matches!(try_both(5000, 3000, false, 20).0, Fetching::Bad(_)), "an accident");
    }

    #[test]
    fn what_was_found_out_holds_for_some_time() {
        let (now, hour) = (Instant::now(), Duration::from_secs(3600));
        assert!(matches!(Fetching::Bad(now + hour).now(), Fetching::Bad(_)));
        assert_eq!(Fetching::Good(now - Duration::from_millis(1)).now(), Fetching::default());
        assert_eq!(Fetching::Never.now(), Fetching::Never);
        assert_eq!((Fetched::Whole.never_for(), Fetched::Unfit.never_for()), (0, 0));
        assert!(Fetched::Never(now).never_for() > 0 && until(u64::MAX).is_some());
    }
}
