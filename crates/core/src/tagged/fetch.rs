//! Long messages between processes of one host, fetched: the receiver copies them straight out of the sender's buffer.
//!
//! The offer says where the buffer is. When its receive is there the receiver copies the bytes and says that it has: out of the sender's
//! exported memory, if they lie there and it has mapped that; else by the kernel. Where the kernel does not let it, or is slow at it, it has
//! them sent as usual, and the sender does not show it such buffers for some time.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use barewire_sys::fetch::{fetch, is_allowed};
use barewire_sys::wirebuf::{Places, WireMut};

use super::body::{Sink, Source};
use super::receive::Unexpected;
use super::{
    EAGER_BYTES_MAX, FETCH_BYTES_MIN, KEEP_BYTES, MATCHED, REST, Request, SHOWN_BYTES_MIN, TagPeer, Tagged,
};
use crate::Peer;
use crate::endpoint::Endpoint;
use crate::incoming::Incoming;
use crate::provider::Tx;
use crate::region::{Key, Rights};

/// Messages that are fetched, and as many that are sent, before it is settled which of both is done. The first ten find nothing in its place, neither
/// theirs nor the kernel's; in a crowd they count for little.
const TRIALS: u32 = 24;
const TRIALS_CROWDED: u32 = 12;
/// Of these, so many in a row.
const IN_A_ROW: u32 = 4;
/// After so many it may be clear.
const ENOUGH: u32 = 16;
/// What they showed holds for so long at first, when much was used for the first time, then twice as long each time, and so long at last: longer in
/// a crowd, where one that is fetched waits for turns of others.
const HOLDS_FOR_MIN: Duration = Duration::from_millis(500);
const HOLDS_FOR_MAX: Duration = Duration::from_secs(2);
const HOLDS_FOR_MAX_CROWDED: Duration = Duration::from_secs(10);
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// What it takes about to offer a message that could have been sent unasked, and to say that it has been fetched.
const ASKING: Duration = Duration::from_nanos(500);
/// Messages in a row that took longer to fetch than sending takes, until both are tried again.
const SLOWER_MAX: u32 = 4;
/// An offer that could have been sent unasked is fetched and kept when nobody has asked for it for so long: its sender may be waiting.
const UNASKED_MAX: Duration = Duration::from_micros(20);
/// One that has not come by then never will, or says nothing about how fast sending is.
const TRIAL_TIME_MAX: Duration = Duration::from_secs(1);

/// Where a receiver finds a message that is offered to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// Where in its sender's address space; zero if not for the kernel to copy.
    pub address: u64,
    /// It would have been sent unasked otherwise: its sender is charged for all of it, and its receiver does not keep it waiting.
    pub instead: bool,
    /// In which region of its sender's, and where there.
    pub region: Option<(Key, u64)>,
}

impl Shown {
    /// Words of it in an offer.
    pub const WORDS: usize = 4;

    pub fn is_any(&self) -> bool {
        self.address != 0 || self.region.is_some()
    }

    /// What its sender is charged for an offer with so many bytes of the message.
    pub fn charge(&self, len: u64, told: u64) -> u64 {
        match (self.instead, told) {
            (true, _) => len + KEEP_BYTES,
            (false, 0) => 0,
            (false, _) => told + KEEP_BYTES,
        }
    }

    /// As an offer says it.
    pub fn words(&self) -> [u64; Shown::WORDS] {
        let address = self.address | if self.instead { INSTEAD } else { 0 };
        match self.region {
            Some((key, at)) => [address, u64::from(key.slot) + 1, key.nonce, at],
            None => [address, 0, 0, 0],
        }
    }

    /// What an offer of `owner`'s of `len` bytes says. Any words are some place; whether anything is there will show.
    pub fn from_words(owner: Peer, len: u64, [address, slot, nonce, at]: [u64; Shown::WORDS]) -> Shown {
        let slot = slot.checked_sub(1).and_then(|slot| u32::try_from(slot).ok());
        let region = slot.map(|slot| (Key { owner, slot, nonce, len: 0 }, at));
        let instead = address & INSTEAD != 0 && len <= EAGER_BYTES_MAX;
        Shown { address: address & !INSTEAD, instead, region }
    }
}

/// In the word of an address, which no process has so high.
const INSTEAD: u64 = 1 << 63;

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
    /// It is, as was found out.
    Good(Found),
    /// It is not, which holds until then.
    Bad(Instant),
    /// The kernel does not let us.
    Never,
}

/// That fetching is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Until when that holds.
    until: Instant,
    /// Picoseconds for a byte that is sent.
    sent: u64,
    /// Messages in a row that took longer.
    slower: u32,
}

impl Found {
    /// A message was fetched. Says whether sending would have been clearly faster for some time: then what is fetched is another thing than what was
    /// tried, such as buffers that their senders write anew, which have to come out of another processor's cache.
    fn is_over(&mut self, bytes: usize, time: Duration) -> bool {
        let is_slower = each_byte(bytes, time) > self.sent + self.sent / 4;
        self.slower = if is_slower { self.slower + 1 } else { 0 };
        self.slower >= SLOWER_MAX
    }
}

impl Fetching {
    /// What was found out holds for some time only: processes move, and others come and go.
    fn now(self) -> Fetching {
        match self {
            Fetching::Good(Found { until, .. }) | Fetching::Bad(until) if until < Instant::now() => {
                Fetching::default()
            }
            _ => self,
        }
    }
}

/// What is known of the two ways for messages of a kind of lengths.
#[derive(Debug)]
pub(super) struct Ways {
    fetching: Fetching,
    /// For how long what is found out next will hold.
    hold_for: Duration,
}

impl Default for Ways {
    fn default() -> Ways {
        Ways { fetching: Fetching::default(), hold_for: HOLDS_FOR_MIN }
    }
}

impl Ways {
    /// How many kinds of lengths are told apart: short ones that could be sent unasked, for which asking counts for much, longer ones, and those
    /// that are offered anyway.
    pub const KINDS: usize = 3;

    /// Of which kind messages of a length are.
    pub fn of(len: u64) -> usize {
        usize::from(len > 2 * SHOWN_BYTES_MIN) + usize::from(len > EAGER_BYTES_MAX)
    }

    /// Whether messages are being sent to find out which way is faster.
    fn tries_sending(&self) -> bool {
        matches!(&self.fetching, Fetching::Tried(trials) if trials.sends())
    }

    fn settle(&mut self, crowded: bool) {
        if let Fetching::Tried(trials) = self.fetching {
            self.fetching = trials.outcome(crowded, self.hold_for);
            if !matches!(self.fetching, Fetching::Tried(_)) {
                let most = if crowded { HOLDS_FOR_MAX_CROWDED } else { HOLDS_FOR_MAX };
                self.hold_for = (2 * self.hold_for).min(most);
            }
        }
    }
}

/// Picoseconds for a byte.
fn each_byte(bytes: usize, time: Duration) -> u64 {
    (time.as_nanos() * 1000 / bytes.max(1) as u128) as u64
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
        let each = each_byte(bytes, time);
        self.sum = if self.messages > 0 { self.sum.saturating_add(each) } else { 0 };
        self.messages += 1;
        self.best = Some(self.best.map_or(each, |best| best.min(each)));
    }

    /// Picoseconds for a byte, once enough have been tried. Who has a processor to itself goes by the fastest: whatever makes others slower is an
    /// accident. In a crowd it is not: a message that is sent takes as many turns of others as its sender and its receiver wait for each other.
    fn cost(&self, crowded: bool) -> Option<u64> {
        let mean = self.sum / u64::from(self.messages.saturating_sub(1).max(1));
        let (cost, trials) = if crowded { (mean, TRIALS_CROWDED) } else { (self.best?, TRIALS) };
        (self.messages >= trials).then_some(cost)
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

    /// Whether it is clear already that fetching is no better: the fastest of the first ones did not come faster, and no crowd makes that an accident.
    fn is_lost(&self) -> bool {
        let some = |measured: &Measured| measured.best.filter(|_| measured.messages >= ENOUGH);
        matches!((some(&self.fetched), some(&self.sent)), (Some(fetched), Some(sent)) if fetched >= sent)
    }

    /// In doubt they are sent: then their senders need not wait for their receivers.
    fn outcome(self, crowded: bool, holds_for: Duration) -> Fetching {
        let until = Instant::now() + holds_for;
        if !crowded && self.is_lost() {
            return Fetching::Bad(until);
        }
        match (self.fetched.cost(crowded), self.sent.cost(crowded)) {
            (Some(fetched), Some(sent)) if fetched.saturating_mul(8) < sent.saturating_mul(7) => {
                Fetching::Good(Found { until, sent, slower: 0 })
            }
            (Some(_), Some(_)) => Fetching::Bad(until),
            _ => Fetching::Tried(self),
        }
    }
}

impl TagPeer {
    /// Whether it does not fetch messages of this length now.
    fn declines(&self, len: u64) -> bool {
        self.declines[Ways::of(len)].is_some_and(|until| Instant::now() < until)
    }

    /// Whether it may fetch what could be sent unasked, as far as that is known.
    #[cold]
    pub(super) fn may_be_shown(&self, len: u64) -> bool {
        self.may_fetch != Some(false) && !self.declines(len)
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

    /// Where the receiver finds a message that is offered to it, which may be one that could go `unasked`.
    pub(super) fn shown(
        &self,
        endpoint: &Endpoint,
        to: Peer,
        len: u64,
        unasked: bool,
        source: &Source,
    ) -> Shown {
        let is_neighbour = to != endpoint.me && matches!(endpoint.peers[to.index()].tx, Tx::Ring(_));
        if len < FETCH_BYTES_MIN || !is_neighbour {
            return Shown::default();
        }
        let region = match source {
            Source::Gather(gather) => gather.region(),
            _ => None,
        };
        let peer = &self.peers[to.index()];
        // In a crowd, what can go before it is asked for had better: then it keeps nobody waiting.
        let is_between = (SHOWN_BYTES_MIN..=EAGER_BYTES_MAX).contains(&len);
        let is_worth = match is_between {
            true => peer.may_fetch == Some(true),
            false => self.shows_buffers && len > EAGER_BYTES_MAX,
        };
        let address = match is_worth && !peer.declines(len) {
            true => source.address(len as usize).unwrap_or(0),
            false => 0,
        };
        let instead = address != 0 && is_between && unasked && self.affords(to, len);
        Shown { address, instead, region }
    }

    /// Whether messages of a length to a peer are fetched rather than sent, or both are being tried: for who has a way that is faster than sending,
    /// and slower than fetching.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, tagged::Tagged};
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let mut tagged = Tagged::new(&endpoint);
    /// tagged.show_buffers();
    /// assert!(!tagged.is_fetched(&endpoint, endpoint.me(), 1 << 20), "nobody fetches from itself");
    /// ```
    pub fn is_fetched(&mut self, endpoint: &Endpoint, to: Peer, len: u64) -> bool {
        self.find_out(endpoint, to, len);
        let peer = &self.peers[to.index()];
        len >= SHOWN_BYTES_MIN && peer.may_fetch == Some(true) && !peer.declines(len)
    }

    /// Whether the credit of a peer is enough for a message that it keeps.
    pub(super) fn affords(&self, to: Peer, len: u64) -> bool {
        self.peers[to.index()].charged + len + KEEP_BYTES <= self.credit
    }

    /// Finds out whether a neighbour may fetch what is not long enough to be offered anyway, by whether we could fetch from it: who cannot fetch
    /// what it did not ask for keeps its sender waiting.
    pub(super) fn find_out(&mut self, endpoint: &Endpoint, to: Peer, len: u64) {
        let is_first = len >= SHOWN_BYTES_MIN && self.peers[to.index()].may_fetch.is_none();
        if is_first && endpoint.is_neighbour(to) {
            let shows = self.shows_buffers && !self.crowded;
            // Who has not connected to us yet may do so later.
            let pid = endpoint.peers[to.index()].process;
            self.peers[to.index()].may_fetch = if shows { pid.map(is_allowed) } else { Some(false) };
        }
    }

    /// An offer came that nobody has asked for.
    pub(super) fn note_unasked(&mut self, shown: Shown) {
        if shown.instead {
            self.unasked.get_or_insert_with(Instant::now);
        }
    }

    /// Fetches, when it is time, what was offered instead of being sent unasked, and keeps it.
    #[cold]
    pub(super) fn fetch_unasked(&mut self, endpoint: &mut Endpoint) {
        // Who sleeps does not look again.
        let patience = UNASKED_MAX.min(endpoint.config.yield_for / 2);
        if self.unasked.is_none_or(|since| since.elapsed() < patience) {
            return;
        }
        self.unasked = None;
        let peers = &mut self.peers;
        self.waiting.for_each(|from, message| {
            let &mut Unexpected::Offer { request, len, shown, .. } = message else { return };
            let Some(pid) = endpoint.peers[from.index()].process else { return };
            if !shown.instead {
                return;
            }
            let (mut bytes, mut place) = (vec![0; len as usize], Places::default());
            place.push(WireMut::new(&mut bytes));
            if fetch(pid, shown.address, place).is_ok() {
                let _ = endpoint.tell(from, MATCHED, request);
                peers[from.index()].offers = peers[from.index()].offers.saturating_sub(1);
                *message = Unexpected::Whole(bytes);
            }
        });
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
        let ways = &mut self.ways[Ways::of(len as u64)];
        ways.fetching = ways.fetching.now();
        match shown.address {
            0 => Fetched::Unfit,
            _ if ways.tries_sending() => Fetched::Unfit,
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
        let (started, ways) = (Instant::now(), &mut self.ways[Ways::of(len as u64)]);
        let took = || started.elapsed() + if len as u64 <= EAGER_BYTES_MAX { ASKING } else { Duration::ZERO };
        match &mut ways.fetching {
            Fetching::Bad(until) => Fetched::Never(*until),
            Fetching::Never => never(),
            Fetching::Good(found) => {
                let fetched = copy_from(endpoint, from, address, len, sink);
                if found.is_over(len, took()) {
                    ways.fetching = Fetching::default();
                }
                fetched
            }
            Fetching::Tried(trials) => {
                let fetched = copy_from(endpoint, from, address, len, sink);
                match fetched {
                    Fetched::Whole => trials.fetched.add(len, took()),
                    Fetched::Never(_) => ways.fetching = Fetching::Never,
                    Fetched::Unfit => {}
                }
                ways.settle(self.crowded);
                fetched
            }
        }
    }

    /// A message of `len` bytes is being sent though it could be fetched.
    pub(super) fn sending_begins(&mut self, request: Request, len: usize) {
        if let Fetching::Tried(trials) = &mut self.ways[Ways::of(len as u64)].fetching {
            trials.begins(request, len);
        }
    }

    /// All of a message has come that was sent.
    #[inline]
    pub(super) fn sending_ends(&mut self, request: Request) {
        for ways in &mut self.ways {
            if let Fetching::Tried(trials) = &mut ways.fetching {
                trials.ends(request);
                ways.settle(self.crowded);
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
            assert_eq!(order, "ssssffff".repeat(if crowded { 3 } else { 6 }));
            let (outcome, order) = try_both(7000, 3000, crowded, 1);
            assert!(matches!(outcome, Fetching::Bad(_)), "{outcome:?}");
            assert_eq!(order, "ssssffff".repeat(if crowded { 3 } else { 4 }));
            assert!(matches!(try_both(6900, 7000, crowded, 1).0, Fetching::Bad(_)), "in doubt they are sent");
        }
    }

    #[test]
    fn that_sender_and_receiver_wait_for_each_other_counts_in_a_crowd() {
        assert!(matches!(try_both(5000, 3000, true, 20).0, Fetching::Good(_)));
        assert!(matches!(try_both(5000, 3000, false, 20).0, Fetching::Bad(_)), "an accident");
    }

    #[test]
    fn what_was_found_out_ends_when_messages_are_slow() {
        let mut found = Found { until: Instant::now(), sent: 100, slower: 0 };
        let mut fetch = |nanos| found.is_over(64_000, Duration::from_nanos(nanos));
        for _ in 0..3 {
            assert!(!fetch(8_100) && !fetch(9_000) && !fetch(20_000) && !fetch(8_000), "not in a row");
        }
        assert!(!fetch(8_100) && !fetch(8_100) && !fetch(8_100) && fetch(8_100));
    }

    #[test]
    fn what_was_found_out_holds_for_some_time() {
        let (now, hour) = (Instant::now(), Duration::from_secs(3600));
        assert!(matches!(Fetching::Bad(now + hour).now(), Fetching::Bad(_)));
        let found = |until| Fetching::Good(Found { until, sent: 100, slower: 0 });
        assert_eq!(found(now - Duration::from_millis(1)).now(), Fetching::default());
        assert_eq!(found(now + hour).now(), found(now + hour));
        assert_eq!(Fetching::Never.now(), Fetching::Never);
        assert_eq!((Fetched::Whole.never_for(), Fetched::Unfit.never_for()), (0, 0));
        assert!(Fetched::Never(now).never_for() > 0 && until(u64::MAX).is_some());
    }
}
