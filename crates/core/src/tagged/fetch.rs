//! Long messages between processes of one host, fetched: the receiver copies them straight out of the sender's buffer.
//!
//! The offer says where the buffer is. When its receive is there the receiver copies the bytes and says that it has: out of the sender's
//! exported memory, if they lie there and it has mapped that; else by the kernel. Where the kernel does not let it, or is slow at it, it has
//! them sent as usual, and the sender does not show it such buffers again.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use barewire_sys::fetch::fetch;
use barewire_sys::memory::Memory;
use barewire_sys::rustix::process::Pid;
use barewire_sys::wirebuf::Places;

use super::body::{Sink, Source};
use super::{FETCH_BYTES_MIN, REST, Tagged};
use crate::Peer;
use crate::endpoint::Endpoint;
use crate::incoming::Incoming;
use crate::provider::Tx;
use crate::region::{Key, Rights};

/// Bytes of a trial, and how often it is made.
const TRIAL_BYTES: usize = 64 << 10;
const TRIALS: u32 = 4;
/// How much slower than a copy between buffers of our own fetching may be: sending costs two copies between processors.
const SLOWER_MAX: u32 = 4;
/// What a system call may cost beside the copy.
const CALL: Duration = Duration::from_micros(2);

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
    /// It has to be sent, and so have all others of its sender.
    Never,
}

/// Whether fetching is any good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fetching {
    #[default]
    Untried,
    Good,
    Bad,
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

    /// Copies `len` bytes out of a neighbour's memory now, where it said that they are; false if the kernel does not let us, or is slow at
    /// it: then they may have been copied in part, and have to be sent. Who is to be copied from has to wait until it is told that it has been.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, tagged::{Sink, Tagged}};
    /// use barewire_sys::userbuf::UserBuf;
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let fetched = tagged.fetch_now(&endpoint, me, 4096, 8, &mut Sink::User(UserBuf::EMPTY));
    /// assert!(!fetched, "we are no neighbour of our own");
    /// ```
    pub fn fetch_now(
        &mut self,
        endpoint: &Endpoint,
        from: Peer,
        address: u64,
        len: usize,
        into: &mut Sink,
    ) -> bool {
        self.fetch(endpoint, from, address, len, into) == Fetched::Whole
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
        let address = match self.shows_buffers && !self.peers[to.index()].declines_fetching {
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
        match shown.address {
            0 => Fetched::Unfit,
            address => self.fetch(endpoint, from, address, len, sink),
        }
    }

    /// Has the kernel copy the first `len` bytes of a message out of its sender's buffer, if that can be.
    fn fetch(
        &mut self,
        endpoint: &Endpoint,
        from: Peer,
        address: u64,
        len: usize,
        sink: &mut Sink,
    ) -> Fetched {
        let Some(pid) = endpoint.peers[from.index()].process else { return Fetched::Never };
        if self.fetching == Fetching::Untried {
            self.fetching = try_out(pid, address, len.min(TRIAL_BYTES), sink);
        }
        match self.fetching {
            Fetching::Good => {}
            Fetching::Bad => return Fetched::Never,
            Fetching::Untried => return Fetched::Unfit,
        }
        let mut at = 0;
        while at < len {
            let mut places = Places::default();
            sink.place(at as u64, len - at, &mut places);
            let n = places.remaining();
            if n == 0 {
                return Fetched::Unfit;
            }
            if fetch(pid, address.wrapping_add(at as u64), places).is_err() {
                return Fetched::Never;
            }
            at += n;
        }
        Fetched::Whole
    }
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

/// Compares fetching the beginning of a message with copying as much between buffers of our own.
fn try_out(pid: Pid, address: u64, len: usize, sink: &mut Sink) -> Fetching {
    let (from, to) = (Memory::private(len), Memory::private(len));
    let (mut fetched, mut copied) = (Duration::MAX, Duration::MAX);
    for _ in 0..TRIALS {
        let mut places = Places::default();
        sink.place(0, len, &mut places);
        let n = places.remaining();
        if n == 0 {
            return Fetching::Untried;
        }
        let started = Instant::now();
        match fetch(pid, address, places) {
            Ok(()) => fetched = fetched.min(started.elapsed()),
            Err(_) => return Fetching::Bad,
        }
        let started = Instant::now();
        let (to, from) = (to.wire_mut(0, n), from.wire_ref(0, n));
        to.zip(from).map(|(mut to, mut from)| to.write_from(&mut from));
        copied = copied.min(started.elapsed());
    }
    match fetched <= copied * SLOWER_MAX + CALL {
        true => Fetching::Good,
        false => Fetching::Bad,
    }
}
