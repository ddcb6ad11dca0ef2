//! Requests under way: a slab with generations, so that a stale handle is an answer and not somebody else's request.

use std::collections::VecDeque;

use barewire_sys::userbuf::UserBuf;
use barewire_sys::wirebuf::WireRef;

use super::body::{Sink, Source};
use super::fetch::Shown;
use super::matching::{Envelope, Link, Linked, NONE};
use super::send::Mode;
use crate::Peer;
use crate::incoming::Incoming;
use crate::stream::Sending;

/// A send or receive under way.
///
/// ```
/// use barewire_core::tagged::{Envelope, Request, Tagged};
/// # use barewire_sys::userbuf::UserBuf;
/// # use barewire_core::{Config, Endpoint, job::Job};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// let envelope = Envelope { context: 1, tag: 7 };
/// let old: Request = tagged.post_now(&endpoint, me, envelope, UserBuf::EMPTY, [0; 2]).unwrap();
/// tagged.cancel(&mut endpoint, old);
/// tagged.take(old);
/// let new = tagged.post_now(&endpoint, me, envelope, UserBuf::EMPTY, [0; 2]).unwrap();
/// assert!(old != new && old.slot() == new.slot(), "the place is used again, under another name");
/// assert!(tagged.is_done(old) && !tagged.is_done(new));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Request {
    /// No request: it has always ended.
    pub const NONE: Request = Request { slot: u32::MAX, generation: 0 };

    /// How many generations there are before their numbers come again: those take 27 bits.
    pub const GENERATIONS: u32 = 1 << 27;

    /// The request with this slot and generation, of whom both were asked before.
    ///
    /// ```
    /// use barewire_core::tagged::Request;
    /// let none = Request::NONE;
    /// assert_eq!(Request::of(none.slot(), none.generation()), none);
    /// ```
    #[inline(always)]
    pub fn of(slot: u32, generation: u32) -> Request {
        Request { slot, generation }
    }

    /// A small number that no other request under way has, for tables of one's own.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let names = ["first", "second"];
    /// let receives = [1, 2].map(|tag| tagged.post_now(&endpoint, me, Envelope { context: 1, tag }, UserBuf::EMPTY, [0; 2]).unwrap());
    /// assert_eq!(receives.map(|receive| names[receive.slot() as usize]), names);
    /// ```
    #[inline(always)]
    pub fn slot(self) -> u32 {
        self.slot
    }

    /// How many requests had its slot before it, modulo [`Request::GENERATIONS`].
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// for before in 0..3 {
    ///     let receive = tagged.post_now(&endpoint, me, Envelope { context: 1, tag: 7 }, UserBuf::EMPTY, [0; 2]).unwrap();
    ///     assert_eq!((receive.slot(), receive.generation()), (0, before));
    ///     tagged.cancel(&mut endpoint, receive);
    ///     tagged.take(receive);
    /// }
    /// ```
    #[inline(always)]
    pub fn generation(self) -> u32 {
        self.generation
    }

    pub(crate) fn to_wire(self) -> u64 {
        u64::from(self.slot) | u64::from(self.generation) << 32
    }

    pub(crate) fn from_wire(word: u64) -> Request {
        Request { slot: word as u32, generation: (word >> 32) as u32 }
    }
}

/// How a request ended.
///
/// ```
/// use barewire_core::tagged::{Envelope, Mode, Source, Status, Tagged, Want};
/// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// tagged.send(&mut endpoint, me, Envelope { context: 1, tag: 7 }, Mode::Standard, 5, Source::Memory(Memory::private(5), 0)).unwrap();
/// endpoint.progress(&mut tagged, usize::MAX);
/// let status = tagged.probe(&Want { context: 1, from: None, tag: None });
/// assert_eq!(status, Some(Status { from: me, tag: 7, len: 5, failure: None }));
/// ```
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
///
/// ```
/// use barewire_core::Peer;
/// use barewire_core::tagged::{Envelope, Failure, Tagged};
/// # use barewire_core::{Config, Endpoint, job::Job};
/// # use barewire_sys::userbuf::UserBuf;
/// # let mut jobs = Job::threads(2).unwrap().into_iter();
/// # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
/// # let (mut here, mut there) = (open(), open());
/// let (mut ours, mut theirs) = (Tagged::new(&here), Tagged::new(&there));
/// theirs.send_now(&mut there, Peer(0), Envelope { context: 1, tag: 1 }, UserBuf::EMPTY).unwrap();
/// let receive = ours.post_now(&here, Peer(1), Envelope { context: 1, tag: 2 }, UserBuf::EMPTY, [0; 2]).unwrap();
/// drop(there);
/// here.wait(&mut ours, None, |_, ours| ours.is_done(receive)).unwrap();
/// assert_eq!(ours.take(receive).unwrap().failure, Some(Failure::Lost(Peer(1))));
/// ```
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

/// What a request is doing that is not all in its slot.
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
    /// A receive whose message, from `base` on, is arriving.
    Arriving { from: Peer, tag: i32, len: u64, base: u64, got: u64, expected: u64, sink: Sink },
    /// Ended, as its status says.
    Done,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is none.
    Free,
    /// A receive into a caller's buffer waits for its message.
    Posted,
    /// The message for such a receive has come and had room: the slot says whose, with which tag, how long.
    Good,
    /// Its state says.
    Other,
}

/// A place for a request, and all that a short receive needs: one cache line, which posting, matching and completing it share.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    /// Where it hangs while it is a posted receive; and the next free slot, while it is free.
    link: Link,
    generation: u32,
    stage: Stage,
    /// Where the message goes, and from [`Stage::Good`] on where it is.
    buffer: UserBuf,
    note: Note,
}

const _: () = assert!(size_of::<Slot>() == 64);

/// What the owner of a receive wants to know of it when it has ended: two words of its own.
///
/// ```
/// use barewire_core::tagged::{Envelope, Note, Tagged};
/// # use barewire_sys::userbuf::UserBuf;
/// # use barewire_core::{Config, Endpoint, job::Job};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// let note: Note = [4, 0];
/// let (envelope, buffer) = (Envelope { context: 1, tag: 7 }, UserBuf::EMPTY);
/// let receive = tagged.post_now(&endpoint, me, envelope, buffer, note).unwrap();
/// tagged.send_now(&mut endpoint, me, envelope, buffer).unwrap();
/// endpoint.progress(&mut tagged, usize::MAX);
/// assert_eq!(tagged.take_good(receive).unwrap().1, note, "it comes back with the outcome");
/// ```
pub type Note = [u64; 2];

/// The rest that is to know of a request.
#[derive(Debug)]
struct Rest {
    /// [`State::Done`], unless the slot refers to it.
    state: State,
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

impl Slot {
    /// Has a receive into a caller's buffer, which waits for its message.
    #[inline(always)]
    pub fn post(&mut self, slot: u32, buffer: UserBuf, note: Note) -> Request {
        (self.buffer, self.note, self.stage) = (buffer, note, Stage::Posted);
        Request { slot, generation: self.generation }
    }

    /// The outcome of a receive that has ended well.
    #[inline(always)]
    fn good(&self) -> Status {
        Status::good(self.link.peer(), self.link.tag(), self.buffer.len() as u64)
    }
}

#[derive(Debug)]
pub(crate) struct Requests {
    pub slots: Vec<Slot>,
    /// One for each slot.
    rest: Vec<Rest>,
    /// The first of the free slots.
    free: u32,
    /// Whether somebody wants to know in which order they end.
    pub tells_ends: bool,
    /// Requests in the order in which they ended, if so.
    pub ended: VecDeque<Request>,
}

impl Requests {
    pub fn new() -> Requests {
        Requests {
            slots: Vec::new(),
            rest: Vec::new(),
            free: NONE,
            tells_ends: false,
            ended: VecDeque::new(),
        }
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
        let (link, buffer) = (Link::LOOSE, UserBuf::EMPTY);
        self.slots.push(Slot { link, generation: 0, stage: Stage::Free, buffer, note: [0; 2] });
        self.rest.push(Rest { state: State::Done, status: Status::good(Peer(0), 0, 0) });
        (self.slots.len() - 1) as u32
    }

    #[inline]
    pub fn add_at(&mut self, slot: u32, state: State) -> Request {
        self.rest[slot as usize].state = state;
        self.slots[slot as usize].stage = Stage::Other;
        self.in_slot(slot)
    }

    /// A request that has ended, in a slot that has just become its own.
    pub fn add_done(&mut self, slot: u32, status: Status) -> Request {
        self.rest[slot as usize].status = status;
        self.add_at(slot, State::Done)
    }

    /// Takes a posted receive's place for its message; `None` if there is no such receive. The request counts as ended until it
    /// has another state.
    pub fn take_sink(&mut self, slot: u32) -> Option<Sink> {
        let (place, rest) = (&mut self.slots[slot as usize], &mut self.rest[slot as usize]);
        if place.stage == Stage::Posted {
            place.stage = Stage::Other;
            return Some(Sink::User(place.buffer));
        }
        match std::mem::replace(&mut rest.state, State::Done) {
            State::Posted { sink } => Some(sink),
            other => {
                rest.state = other;
                None
            }
        }
    }

    /// The slot of a request, unless that has been taken.
    #[inline(always)]
    fn slot_of(&self, request: Request) -> Option<&Slot> {
        let slot = self.slots.get(request.slot as usize)?;
        (slot.generation == request.generation && slot.stage != Stage::Free).then_some(slot)
    }

    /// What its owner said of a request that has not been taken.
    #[inline]
    pub fn note(&self, request: Request) -> Option<Note> {
        self.slot_of(request).map(|slot| slot.note)
    }

    pub fn set_note(&mut self, request: Request, note: Note) {
        if self.slot_of(request).is_some() {
            self.slots[request.slot as usize].note = note;
        }
    }

    /// How a request ended.
    #[inline]
    pub fn look(&self, request: Request) -> Option<Status> {
        let slot = self.slot_of(request)?;
        match slot.stage {
            Stage::Good => Some(slot.good()),
            Stage::Other => self.rest_of(request).filter(|rest| rest.is_done()).map(|rest| rest.status),
            Stage::Posted | Stage::Free => None,
        }
    }

    #[inline]
    fn rest_of(&self, request: Request) -> Option<&Rest> {
        self.rest.get(request.slot as usize)
    }

    /// What a request is doing; `None` if its slot says.
    #[inline]
    pub fn get(&self, request: Request) -> Option<&State> {
        let in_rest = self.slot_of(request)?.stage == Stage::Other;
        self.rest_of(request).filter(|_| in_rest).map(|rest| &rest.state)
    }

    #[inline]
    pub fn get_mut(&mut self, request: Request) -> Option<&mut State> {
        let in_rest = self.slot_of(request)?.stage == Stage::Other;
        self.rest.get_mut(request.slot as usize).filter(|_| in_rest).map(|rest| &mut rest.state)
    }

    /// Whether it is a receive that waits for its message.
    pub fn is_posted(&self, request: Request) -> bool {
        let in_slot = self.slot_of(request).is_some_and(|slot| slot.stage == Stage::Posted);
        in_slot || matches!(self.get(request), Some(State::Posted { .. }))
    }

    /// The request in a slot, which must be in use.
    #[inline]
    pub fn in_slot(&self, slot: u32) -> Request {
        Request { slot, generation: self.slots[slot as usize].generation }
    }

    /// The request in a slot, if there is one.
    pub fn in_use(&self, slot: u32) -> Option<Request> {
        self.slots.get(slot as usize).filter(|place| place.stage != Stage::Free).map(|_| self.in_slot(slot))
    }

    /// Replaces a request's state and gives the old one.
    #[inline]
    pub fn replace(&mut self, request: Request, state: State) -> Option<State> {
        self.get_mut(request).map(|old| std::mem::replace(old, state))
    }

    #[inline]
    pub fn finish(&mut self, request: Request, status: Status) {
        if self.slot_of(request).is_some() {
            self.add_done(request.slot, status);
        }
        self.note_end(request);
    }

    /// A request is done.
    #[inline(always)]
    pub fn note_end(&mut self, request: Request) {
        if self.tells_ends {
            self.ended.push_back(request);
        }
    }

    #[inline]
    pub fn is_done(&self, request: Request) -> bool {
        match self.slot_of(request).map(|slot| slot.stage) {
            Some(Stage::Posted) => false,
            Some(Stage::Other) => self.rest_of(request).is_none_or(Rest::is_done),
            Some(Stage::Good | Stage::Free) | None => true,
        }
    }

    /// Whom a receive into a caller's buffer that waits for its message is from, if not from anybody.
    #[inline]
    pub fn awaited(&self, request: Request) -> Option<Peer> {
        self.slot_of(request).filter(|slot| slot.stage == Stage::Posted)?.link.awaited()
    }

    /// The whole of a message for the posted receive in `slot` has come; false, and nothing is done, if that is into something else than a
    /// caller's buffer, or into too little. Then [`Requests::fill_other`] is for it.
    #[inline(always)]
    pub fn fill(&mut self, slot: u32, message: &WireRef<'_>) -> bool {
        let place = &mut self.slots[slot as usize];
        if place.stage != Stage::Posted {
            return false;
        }
        let Some(mut buffer) = place.buffer.cut_to(message.remaining()) else { return false };
        buffer.write_from(&mut message.reborrow());
        place.stage = Stage::Good;
        if self.tells_ends {
            self.note_end(self.in_slot(slot));
        }
        true
    }

    /// The whole of a message for the posted receive in `slot` has come.
    pub fn fill_other(&mut self, slot: u32, from: Peer, tag: i32, packet: &mut Incoming<'_>) {
        let (place, rest) = (&mut self.slots[slot as usize], &mut self.rest[slot as usize]);
        let len = packet.total;
        let mut fill = |sink: &mut Sink| {
            sink.take(0, packet);
            sink.capacity()
        };
        let capacity = match (place.stage, &mut rest.state) {
            (Stage::Posted, _) => fill(&mut Sink::User(place.buffer)),
            (Stage::Other, State::Posted { sink }) => fill(sink),
            _ => return,
        };
        (rest.state, rest.status) = (State::Done, Status::received(from, tag, len, capacity));
        place.stage = Stage::Other;
        self.note_end(self.in_slot(slot));
    }

    #[inline(always)]
    pub fn take(&mut self, request: Request) -> Option<Status> {
        let status = self.look(request)?;
        self.release(request);
        Some(status)
    }

    /// [`Requests::take`] for a receive that has ended well, with its owner's note; `None` for every other request.
    #[inline(always)]
    pub fn take_good(&mut self, request: Request) -> Option<(Status, Note)> {
        let slot = self.slots.get(request.slot as usize)?;
        if slot.generation != request.generation || slot.stage != Stage::Good {
            return None;
        }
        let told = (slot.good(), slot.note);
        self.release(request);
        Some(told)
    }

    /// Frees the slot of a request that has ended.
    #[inline(always)]
    fn release(&mut self, request: Request) {
        let slot = &mut self.slots[request.slot as usize];
        slot.stage = Stage::Free;
        slot.generation = (slot.generation + 1) % Request::GENERATIONS;
        slot.link.next = std::mem::replace(&mut self.free, request.slot);
    }

    /// Requests that cannot end without `peer`.
    pub fn involving(&self, peer: Peer) -> Vec<Request> {
        let needs = |(slot, rest): &(&Slot, &Rest)| match slot.stage {
            Stage::Posted => slot.link.peer() == peer,
            Stage::Good | Stage::Free => false,
            Stage::Other => match &rest.state {
                State::Queued { to, .. } | State::Offered { to, .. } => *to == peer,
                State::Pushing { sending, .. } => sending.to() == peer,
                State::Arriving { from, .. } => *from == peer,
                State::Posted { .. } => slot.link.peer() == peer,
                State::Done => false,
            },
        };
        let slots = self.slots.iter().zip(&self.rest).enumerate().filter(|(_, both)| needs(both));
        slots.map(|(at, _)| self.in_slot(at as u32)).collect()
    }
}

impl Rest {
    fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }
}
