//! Messages that nobody has asked for: what is there, and taking one out of the matching.

use std::ops::RangeInclusive;

use super::body::Sink;
use super::matching::{Envelope, Want};
use super::receive::{Offer, Received, Unexpected};
use super::requests::Status;
use super::{KEEP_BYTES, Tagged};
use crate::Peer;
use crate::endpoint::Endpoint;

/// A message taken out of the matching, to be received by nobody else.
#[derive(Debug)]
pub struct Matched {
    from: Peer,
    envelope: Envelope,
    message: Unexpected,
}

impl Matched {
    /// From whom, with which tag, how long.
    pub fn status(&self) -> Status {
        Status::good(self.from, self.envelope.tag, self.message.len())
    }
}

impl Tagged {
    /// Receives a message that [`Tagged::claim`] took.
    pub fn receive_matched(&mut self, endpoint: &mut Endpoint, matched: Matched, mut sink: Sink) -> Received {
        let Matched { from, envelope, message } = matched;
        match message {
            Unexpected::Whole(bytes) => {
                sink.take_kept(0, &bytes);
                let len = bytes.len() as u64;
                self.give_back(endpoint, from, len + KEEP_BYTES);
                Received::Done(Status::received(from, envelope.tag, len, sink.capacity()))
            }
            Unexpected::Parts { stream, .. } => {
                self.receive_parts(endpoint, from, envelope.tag, stream, sink)
            }
            Unexpected::Offer { request, len, shown, told } => {
                sink.take_kept(0, &told);
                let slot = self.requests.next_slot();
                let base = told.len() as u64;
                if base > 0 {
                    self.give_back(endpoint, from, base + KEEP_BYTES);
                }
                let offer = Offer { request, len, shown, base };
                Received::Pending(self.accept(endpoint, slot, from, envelope.tag, offer, sink))
            }
        }
    }

    /// The bytes of a message that [`Tagged::claim`] took, if all of them are here; otherwise the message itself, which
    /// [`Tagged::receive_matched`] receives.
    pub fn take_whole(&mut self, endpoint: &mut Endpoint, matched: Matched) -> Result<Vec<u8>, Matched> {
        match matched {
            Matched { from, message: Unexpected::Whole(bytes), .. } => {
                self.give_back(endpoint, from, bytes.len() as u64 + KEEP_BYTES);
                Ok(bytes)
            }
            Matched { from, message: Unexpected::Parts { stream, .. }, .. } => {
                self.take_parts(endpoint, from, stream).ok_or(matched)
            }
            offered => Err(offered),
        }
    }

    /// Whether a message that nobody has asked for waits in any of these contexts.
    pub fn waits_in(&self, contexts: RangeInclusive<u32>) -> bool {
        self.waiting.is_any_in(contexts)
    }

    /// What a receive would find now, if anything.
    pub fn probe(&self, want: &Want) -> Option<Status> {
        let (from, envelope, message) = self.waiting.peek(want)?;
        Some(Status::good(from, envelope.tag, message.len()))
    }

    /// Takes the message that a receive would find now out of the matching.
    pub fn claim(&mut self, want: &Want) -> Option<Matched> {
        let (from, envelope, message) = self.waiting.take(want)?;
        self.release(from, &message);
        Some(Matched { from, envelope, message })
    }

    /// The earliest message of a context that nobody has asked for, whatever its tag, among those whose sender is wanted.
    pub fn claim_first(&mut self, context: u32, wanted: impl Fn(Peer) -> bool) -> Option<Matched> {
        let (from, envelope, message) = self.waiting.take_first(context, wanted)?;
        self.release(from, &message);
        Some(Matched { from, envelope, message })
    }

    /// A message is not kept any more.
    pub(super) fn release(&mut self, from: Peer, message: &Unexpected) {
        let peer = &mut self.peers[from.index()];
        peer.kept = peer.kept.saturating_sub(message.charge());
        peer.offers = peer.offers.saturating_sub(u32::from(message.is_offer()));
    }
}
