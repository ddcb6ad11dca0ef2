//! The shuttle to a neighbour: when it is the way for a message.
//!
//! Where two processes answer each other a message goes by the [shuttle](barewire_sys::shuttle), a line that belongs to the pair and not to
//! one direction, in about half the time. A stream goes through the ring: there the next message need not wait for the last one to be
//! taken.

use barewire_sys::ring::RingMemory;
use barewire_sys::shuttle::Shuttle;

use crate::Peer;
use crate::stats::Stats;

/// Messages between two of the neighbour's that are no stream yet.
const ANSWERS: u64 = 2;

/// One end of the shuttle between two neighbours, and whether they answer each other.
#[derive(Debug)]
pub(crate) struct Link {
    pub shuttle: Shuttle,
    /// What had come and gone when we last had the shuttle and something new had come.
    received: u64,
    sent: u64,
    answering: bool,
}

/// Whether a pair's shuttle is in the ring that `from` made for `to`, and not in that of the other direction.
pub(crate) fn is_within(from: Peer, to: Peer) -> bool {
    from < to
}

impl Link {
    /// The link in the memory of a ring that `from` made for `to`, of whom one is `me`; `None` where the ring of the other direction has it.
    /// Who is alone on its processor looks for answers when they are due.
    pub fn within(memory: &RingMemory, from: Peer, to: Peer, me: Peer, alone: bool) -> Option<Box<Link>> {
        if !is_within(from, to) {
            return None;
        }
        let shuttle = if from == me { Shuttle::first(memory, alone) } else { Shuttle::second(memory, alone) };
        Some(Box::new(Link::new(shuttle)))
    }

    pub fn new(shuttle: Shuttle) -> Link {
        Link { shuttle, received: 0, sent: 0, answering: true }
    }

    /// The shuttle, if it is the way for a message of `len` bytes; so much has come from the neighbour and gone to it.
    #[inline(always)]
    pub fn way(&mut self, len: usize, stats: &Stats) -> Option<&mut Shuttle> {
        self.if_answering(len <= self.shuttle.cargo_bytes_max(), stats)
    }

    /// [`Link::way`] for a message that is read while it is written.
    pub fn long_way(&mut self, len: u64, stats: &Stats) -> Option<&mut Shuttle> {
        self.if_answering((1..=self.shuttle.long_bytes_max() as u64).contains(&len), stats)
    }

    /// The shuttle, if it is ours, a message fits and answers something.
    #[inline(always)]
    fn if_answering(&mut self, fits: bool, stats: &Stats) -> Option<&mut Shuttle> {
        let is_way = self.shuttle.is_ours() && fits && self.is_answering(stats);
        if is_way { Some(&mut self.shuttle) } else { None }
    }

    /// Whether a message that fits would go by the shuttle.
    pub fn is_way(&self, stats: &Stats) -> bool {
        self.shuttle.is_ours()
            && if stats.received == self.received { self.answering } else { self.answers(stats) }
    }

    /// So many packets went elsewhere that are no messages by themselves.
    pub fn overlook(&mut self, packets: u64) {
        self.sent += packets;
    }

    /// Whether a message now answers something, as did the one before.
    #[inline(always)]
    fn is_answering(&mut self, stats: &Stats) -> bool {
        if stats.received != self.received {
            self.answering = self.answers(stats);
            (self.received, self.sent) = (stats.received, stats.sent);
        }
        self.answering
    }

    /// Whether so little has gone since something last came that a message now answers it.
    #[inline(always)]
    fn answers(&self, stats: &Stats) -> bool {
        stats.sent - self.sent <= ANSWERS
    }
}
