//! Requests under way: a slab with generations, so that a stale handle is an answer and not somebody else's request.

use std::collections::VecDeque;

use barewire_sys::userbuf::UserBuf;

use super::body::{Sink, Source, take_user};
use super::fetch::Shown;
use super::matching::{Envelope, Link, Linked, NONE};
use super::send::Mode;
use crate::Peer;
use crate::incoming::Incoming;
use crate::stream::Sending;

/// A send or receive under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Request {
    /// No request: it has always ended.
    pub const NONE: Request = Request { slot: u32::MAX, generation: 0 };

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
    Offered { to: Peer, tag: i32, len: u64, told: u64, shown: Shown, source: Source },
    /// A send whose rest, from `base` on, is being pushed.
    Pushing { sending: Sending, tag: i32, len: u64, base: u64, source: Source },
    /// A receive that waits for its message.
    Posted { sink: Sink },
    /// A receive into a caller's buffer, which its slot has, that waits for its message.
    PostedUser,
    /// A receive whose message, from `base` on, is arriving.
    Arriving { from: Peer, tag: i32, len: u64, base: u64, got: u64, expected: u64, sink: Sink },
    /// Ended; its slot has its outcome.
    Done,
    /// Of no request.
    Free,
}

/// A place for a request.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Where it hangs while it is a posted receive; and the next free slot, while it is free.
    link: Link,
    generation: u32,
    state: State,
    /// What short receives need lies beside the state, not in it: it is written word by word, straight to where it stays.
    buffer: UserBuf,
    status: Status,
}

impl Linked for Slot {
    #[inline(always)]
    fn link(&self) -> &Link {
        &self.link
    }

    #[inline(always)]
    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// Replaces a state that has nothing to drop, without a look at what that might be.
#[inline(always)]
fn overwrite(state: &mut State, new: State) {
    debug_assert!(matches!(state, State::Free | State::Done | State::PostedUser));
    std::mem::forget(std::mem::replace(state, new));
}

#[derive(Debug)]
pub(crate) struct Requests {
    pub slots: Vec<Slot>,
    /// The first of the free slots.
    free: u32,
    /// Requests in the order in which they ended, where somebody asked for that.
    pub ended: Option<VecDeque<Request>>,
}

impl Requests {
    pub fn new() -> Requests {
        Requests { slots: Vec::new(), free: NONE, ended: None }
    }

    #[inline]
    pub fn add(&mut self, state: State) -> Request {
        let slot = self.next_slot();
        self.add_at(slot, state)
    }

    /// The slot that the next request will have, so that what it refers to can be made first.
    #[inline(always)]
    pub fn next_slot(&mut self) -> u32 {
        let slot = self.free;
        if slot == NONE {
            return self.new_slot();
        }
        self.free = self.slots[slot as usize].link.next;
        slot
    }

    #[cold]
    fn new_slot(&mut self) -> u32 {
        let (buffer, status) = (UserBuf::EMPTY, Status::good(Peer(0), 0, 0));
        self.slots.push(Slot { link: Link::LOOSE, generation: 0, state: State::Free, buffer, status });
        (self.slots.len() - 1) as u32
    }

    #[inline]
    pub fn add_at(&mut self, slot: u32, state: State) -> Request {
        self.slots[slot as usize].state = state;
        self.in_slot(slot)
    }

    /// A receive in a slot that has just become its own.
    #[inline(always)]
    pub fn add_posted(&mut self, slot: u32, buffer: UserBuf) -> Request {
        let place = &mut self.slots[slot as usize];
        place.buffer = buffer;
        overwrite(&mut place.state, State::PostedUser);
        Request { slot, generation: place.generation }
    }

    /// A request that has ended, in a slot that has just become its own.
    pub fn add_done(&mut self, slot: u32, status: Status) -> Request {
        self.slots[slot as usize].status = status;
        self.add_at(slot, State::Done)
    }

    /// Takes a posted receive's place for its message; `None` if there is no such receive. The request counts as ended until it
    /// has another state.
    pub fn take_sink(&mut self, slot: u32) -> Option<Sink> {
        let place = &mut self.slots[slot as usize];
        match std::mem::replace(&mut place.state, State::Done) {
            State::Posted { sink } => Some(sink),
            State::PostedUser => Some(Sink::User(place.buffer)),
            other => {
                place.state = other;
                None
            }
        }
    }

    /// How a request ended.
    #[inline(always)]
    pub fn look(&self, request: Request) -> Option<&Status> {
        let slot = self.slots.get(request.slot as usize)?;
        (slot.generation == request.generation && matches!(slot.state, State::Done)).then_some(&slot.status)
    }

    #[inline]
    pub fn get(&self, request: Request) -> Option<&State> {
        match self.slots.get(request.slot as usize) {
            Some(slot) if slot.generation == request.generation => Some(&slot.state),
            _ => None,
        }
    }

    #[inline]
    pub fn get_mut(&mut self, request: Request) -> Option<&mut State> {
        match self.slots.get_mut(request.slot as usize) {
            Some(slot) if slot.generation == request.generation => Some(&mut slot.state),
            _ => None,
        }
    }

    /// The request in a slot, which must be in use.
    #[inline]
    pub fn in_slot(&self, slot: u32) -> Request {
        Request { slot, generation: self.slots[slot as usize].generation }
    }

    /// Replaces a request's state and gives the old one.
    #[inline]
    pub fn replace(&mut self, request: Request, state: State) -> Option<State> {
        self.get_mut(request).map(|old| std::mem::replace(old, state))
    }

    #[inline]
    pub fn finish(&mut self, request: Request, status: Status) {
        if self.replace(request, State::Done).is_some() {
            self.slots[request.slot as usize].status = status;
        }
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
        matches!(self.get(request), None | Some(State::Done | State::Free))
    }

    /// The whole of a message for the posted receive in `slot` has come.
    #[inline(always)]
    pub fn fill(&mut self, slot: u32, from: Peer, tag: i32, packet: &mut Incoming<'_>) {
        let place = &mut self.slots[slot as usize];
        let len = packet.total;
        let capacity = match &mut place.state {
            state @ State::PostedUser => {
                take_user(&place.buffer, 0, packet);
                overwrite(state, State::Done);
                place.buffer.len() as u64
            }
            State::Posted { sink } => {
                sink.take(0, packet);
                let capacity = sink.capacity();
                place.state = State::Done;
                capacity
            }
            _ => return,
        };
        place.status = Status::received(from, tag, len, capacity);
        let request = Request { slot, generation: place.generation };
        self.note_end(request);
    }

    #[inline(always)]
    pub fn take(&mut self, request: Request) -> Option<Status> {
        let slot = self.slots.get_mut(request.slot as usize)?;
        if slot.generation != request.generation || !matches!(slot.state, State::Done) {
            return None;
        }
        overwrite(&mut slot.state, State::Free);
        slot.generation = slot.generation.wrapping_add(1);
        slot.link.next = std::mem::replace(&mut self.free, request.slot);
        Some(slot.status)
    }

    /// Requests that cannot end without `peer`.
    pub fn involving(&self, peer: Peer) -> Vec<Request> {
        let needs = |slot: &Slot| match &slot.state {
            State::Queued { to, .. } | State::Offered { to, .. } => *to == peer,
            State::Pushing { sending, .. } => sending.to() == peer,
            State::Arriving { from, .. } => *from == peer,
            State::Posted { .. } | State::PostedUser => slot.link.peer() == peer,
            State::Done | State::Free => false,
        };
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| needs(slot));
        slots.map(|(at, _)| self.in_slot(at as u32)).collect()
    }
}
