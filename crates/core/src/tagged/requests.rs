//! Requests under way: a slab with generations, so that a stale handle is an answer and not somebody else's request.

use std::collections::VecDeque;

use super::body::{Sink, Source};
use super::matching::{Envelope, Place, Want};
use super::send::Mode;
use crate::Peer;
use crate::stream::Sending;

/// A send or receive under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Request {
    /// A small number that no other request under way has, for tables of one's own.
    pub fn slot(self) -> u32 {
        self.slot
    }

    pub(crate) fn to_wire(self) -> u64 {
        u64::from(self.slot) | u64::from(self.generation) << 32
    }

    pub(crate) fn from_wire(word: u64) -> Request {
        Request { slot: word as u32, generation: (word >> 32) as u32 }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whom the message came from or went to.
    pub from: Peer,
    /// Its tag.
    pub tag: i32,
    /// Bytes in the message as it was sent.
    pub len: u64,
    /// What went wrong, if anything did.
    pub failure: Option<Failure>,
}

/// Why a request ended without its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The message was longer than the receive; its beginning has arrived.
    #[error("the message is {over} bytes longer than the receive's buffer")]
    Truncated {
        /// By how much.
        over: u64,
    },
    /// It was cancelled, here or by its sender.
    #[error("cancelled")]
    Cancelled,
    /// The peer is gone.
    #[error("peer {} is gone", .0.0)]
    Lost(Peer),
}

impl Status {
    pub(crate) fn good(from: Peer, tag: i32, len: u64) -> Status {
        Status { from, tag, len, failure: None }
    }

    pub(crate) fn failed(from: Peer, failure: Failure) -> Status {
        Status { from, tag: -1, len: 0, failure: Some(failure) }
    }

    /// The outcome of a message of `len` bytes in a place for `capacity`.
    #[inline]
    pub(crate) fn received(from: Peer, tag: i32, len: u64, capacity: u64) -> Status {
        let failure = (len > capacity).then(|| Failure::Truncated { over: len - capacity });
        Status { from, tag, len, failure }
    }
}

/// What a request is doing.
#[derive(Debug)]
pub(crate) enum State {
    /// A send that has not found room yet.
    Queued { to: Peer, envelope: Envelope, mode: Mode, len: u64, source: Source },
    /// A send whose receiver has been offered it; `told` bytes went with the offer, or word where all of them are.
    Offered { to: Peer, tag: i32, len: u64, told: u64, shown: bool, source: Source },
    /// A send whose rest, from `base` on, is being pushed.
    Pushing { sending: Sending, tag: i32, len: u64, base: u64, source: Source },
    /// A receive that waits for its message.
    Posted { want: Want, place: Place, sink: Sink },
    /// A receive whose message, from `base` on, is arriving.
    Arriving { from: Peer, tag: i32, len: u64, base: u64, got: u64, expected: u64, sink: Sink },
    /// Ended.
    Done(Status),
}

#[derive(Debug, Default)]
pub(crate) struct Requests {
    slots: Vec<(u32, Option<State>)>,
    free: Vec<u32>,
    /// Requests in the order in which they ended, where somebody asked for that.
    pub ended: Option<VecDeque<Request>>,
}

impl Requests {
    #[inline]
    pub fn add(&mut self, state: State) -> Request {
        let slot = self.next_slot();
        self.add_at(slot, state)
    }

    /// The slot that the next request will have, so that what it refers to can be made first.
    #[inline]
    pub fn next_slot(&mut self) -> u32 {
        match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push((0, None));
                (self.slots.len() - 1) as u32
            }
        }
    }

    #[inline]
    pub fn add_at(&mut self, slot: u32, state: State) -> Request {
        let (generation, place) = &mut self.slots[slot as usize];
        *place = Some(state);
        Request { slot, generation: *generation }
    }

    #[inline]
    pub fn get(&self, request: Request) -> Option<&State> {
        match self.slots.get(request.slot as usize) {
            Some((generation, state)) if *generation == request.generation => state.as_ref(),
            _ => None,
        }
    }

    #[inline]
    pub fn get_mut(&mut self, request: Request) -> Option<&mut State> {
        match self.slots.get_mut(request.slot as usize) {
            Some((generation, state)) if *generation == request.generation => state.as_mut(),
            _ => None,
        }
    }

    /// The request in a slot, which must be in use.
    #[inline]
    pub fn in_slot(&self, slot: u32) -> Request {
        Request { slot, generation: self.slots[slot as usize].0 }
    }

    /// Replaces a request's state and gives the old one.
    #[inline]
    pub fn replace(&mut self, request: Request, state: State) -> Option<State> {
        self.get_mut(request).map(|old| std::mem::replace(old, state))
    }

    #[inline]
    pub fn finish(&mut self, request: Request, status: Status) {
        self.replace(request, State::Done(status));
        self.note_end(request);
    }

    /// A request is done.
    #[inline(always)]
    pub fn note_end(&mut self, request: Request) {
        if let Some(ended) = &mut self.ended {
            ended.push_back(request);
        }
    }

    #[inline]
    pub fn is_done(&self, request: Request) -> bool {
        matches!(self.get(request), None | Some(State::Done(_)))
    }

    #[inline]
    pub fn take(&mut self, request: Request) -> Option<Status> {
        let Some(State::Done(status)) = self.get(request) else { return None };
        let status = *status;
        let (generation, state) = &mut self.slots[request.slot as usize];
        *state = None;
        *generation = generation.wrapping_add(1);
        self.free.push(request.slot);
        Some(status)
    }

    /// Requests that cannot end without `peer`, with the places of those that are posted receives.
    pub fn involving(&self, peer: Peer) -> Vec<(Request, Option<Place>)> {
        let live = self.slots.iter().enumerate().filter_map(|(slot, (generation, state))| {
            Some((Request { slot: slot as u32, generation: *generation }, state.as_ref()?))
        });
        live.filter_map(|(request, state)| match state {
            State::Queued { to, .. } | State::Offered { to, .. } => (*to == peer).then_some((request, None)),
            State::Pushing { sending, .. } => (sending.to() == peer).then_some((request, None)),
            State::Arriving { from, .. } => (*from == peer).then_some((request, None)),
            State::Posted { want, place, .. } => (want.from == Some(peer)).then_some((request, Some(*place))),
            State::Done(_) => None,
        })
        .collect()
    }
}
