//! Long messages between processes of one host, fetched: the receiver copies them straight out of the sender's buffer.
//!
//! The offer says where the buffer is. The receiver fetches the bytes when its receive is there, and says that it has; where the
//! kernel does not let it, or is slow at it, it has them sent as usual, and the sender does not show its buffers again.

use std::time::{Duration, Instant};

use barewire_sys::fetch::fetch;
use barewire_sys::memory::Memory;
use barewire_sys::rustix::process::Pid;

use super::Tagged;
use super::body::{Sink, Source};
use crate::Peer;
use crate::endpoint::Endpoint;
use crate::provider::Tx;

/// Shortest message worth a system call.
const FETCH_BYTES_MIN: u64 = 24 << 10;
/// Shortest piece of a place in several that is worth one.
const PIECE_BYTES_MIN: usize = 4 << 10;
/// Bytes of a trial, and how often it is made.
const TRIAL_BYTES: usize = 64 << 10;
const TRIALS: u32 = 4;
/// How much slower than a copy between buffers of our own fetching may be: sending costs two copies between processors.
const SLOWER_MAX: u32 = 4;
/// What a system call may cost beside the copy.
const CALL: Duration = Duration::from_micros(2);

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

    /// Where the receiver finds a message that is offered to it; zero if it is not to look.
    pub(super) fn shown(&self, endpoint: &Endpoint, to: Peer, len: u64, source: &Source) -> u64 {
        let fits = self.shows_buffers && len >= FETCH_BYTES_MIN && to != endpoint.me;
        if !fits || self.peers[to.index()].declines_fetching {
            return 0;
        }
        match endpoint.peers[to.index()].tx {
            Tx::Ring(_) => source.address(len as usize).unwrap_or(0),
            _ => 0,
        }
    }

    /// Copies the first `len` bytes of a message out of its sender's buffer, if that can be.
    pub(super) fn fetch(
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
            let left = len - at;
            let place =
                sink.place(at as u64, left).filter(|place| place.remaining() >= PIECE_BYTES_MIN.min(left));
            let Some(mut place) = place else { return Fetched::Unfit };
            let n = place.remaining();
            if fetch(pid, address.wrapping_add(at as u64), &mut place).is_err() {
                return Fetched::Never;
            }
            at += n;
        }
        Fetched::Whole
    }
}

/// Compares fetching the beginning of a message with copying as much between buffers of our own.
fn try_out(pid: Pid, address: u64, len: usize, sink: &mut Sink) -> Fetching {
    let Some(len) = sink.place(0, len).map(|place| place.remaining()) else { return Fetching::Untried };
    let own = Memory::private(len);
    let (mut fetched, mut copied) = (Duration::MAX, Duration::MAX);
    for _ in 0..TRIALS {
        let started = Instant::now();
        match sink.place(0, len).map(|mut place| fetch(pid, address, &mut place)) {
            Some(Ok(())) => fetched = fetched.min(started.elapsed()),
            Some(Err(_)) => return Fetching::Bad,
            None => return Fetching::Untried,
        }
        let started = Instant::now();
        let (place, from) = (sink.place(0, len), own.wire_ref(0, len));
        place.zip(from).map(|(mut place, mut from)| place.write_from(&mut from));
        copied = copied.min(started.elapsed());
    }
    match fetched <= copied * SLOWER_MAX + CALL {
        true => Fetching::Good,
        false => Fetching::Bad,
    }
}
