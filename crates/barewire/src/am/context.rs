//! What a handler sees: who sent the message, its data, and the way back.

use barewire_core::{Incoming, Peer, SendError};
use barewire_sys::memory::Memory;

use super::bulk::{Bulk, Head, Out, Place};
use super::link::Link;
use super::names::{Code, Ep, Name, ReplyError, RequestError, Tag};
use super::request::Wish;
use super::side::{Parcel, Side, Stop};
use super::tables::Backlog;
use super::wire::{self, ARGS_MAX, Imm, Kind};

/// A handler's view of the message it runs for.
///
/// ```
/// use barewire::am::{Ctx, Node, Tag};
/// use barewire::core::{Config, Endpoint, job::Job};
///
/// // The state is a running total; a request adds to it and is told the sum.
/// fn add(ctx: &mut Ctx<'_, u64>, args: &[u64]) {
///     *ctx.state += args[0];
///     let sum = *ctx.state;
///     ctx.reply(2, &[sum]).unwrap();
/// }
///
/// let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0);
/// let bundle = node.allocate_bundle().unwrap();
/// let ep = node.allocate_endpoint(bundle).unwrap();
/// node.set_tag(ep, Tag::ALL).unwrap();
/// node.set_handler(ep, 1, add).unwrap();
/// node.set_handler(ep, 2, |ctx, args| assert!(args[0] <= *ctx.state)).unwrap();
/// node.map(ep, 0, node.name(ep), Tag::ALL).unwrap();
/// node.request(ep, 0, 1, &[40]).unwrap();
/// node.request(ep, 0, 1, &[2]).unwrap();
/// while node.poll(bundle) > 0 {}
/// assert_eq!(*node.state(), 42);
/// ```
#[derive(Debug)]
pub struct Ctx<'a, S> {
    /// The node's state, the same for all its handlers.
    pub state: &'a mut S,
    pub(super) core: Link<'a>,
    pub(super) side: &'a mut Side,
    pub(super) backlog: &'a mut Backlog,
    pub(super) from: Peer,
    pub(super) imm: Imm,
    pub(super) tag: Tag,
    pub(super) phase: Phase,
    pub(super) body: Body<'a>,
    /// What there is to know about a message that is not a plain short one.
    pub(super) parcel: Option<&'a Parcel>,
}

/// What a handler may still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Request,
    Replied,
    Reply,
    Returned,
}

/// The data of a message: still in wire memory, or kept.
#[derive(Debug)]
pub(super) enum Body<'a> {
    Wire(Incoming<'a>),
    Kept(&'a [u8]),
}

impl Body<'_> {
    pub fn remaining(&self) -> usize {
        match self {
            Body::Wire(packet) => packet.remaining(),
            Body::Kept(bytes) => bytes.len(),
        }
    }

    pub fn read(&mut self, into: &mut [u8]) -> usize {
        match self {
            Body::Wire(packet) => packet.read(into),
            Body::Kept(bytes) => {
                let n = into.len().min(bytes.len());
                into[..n].copy_from_slice(&bytes[..n]);
                *bytes = &bytes[n..];
                n
            }
        }
    }

    pub fn read_to(&mut self, wire: &mut barewire_sys::wirebuf::WireMut<'_>) -> usize {
        match self {
            Body::Wire(packet) => packet.read_to(wire),
            Body::Kept(bytes) => {
                let n = wire.write(bytes);
                *bytes = &bytes[n..];
                n
            }
        }
    }

    pub fn take_vec(&mut self) -> Vec<u8> {
        match self {
            Body::Wire(packet) => packet.to_vec(),
            Body::Kept(bytes) => std::mem::take(bytes).to_vec(),
        }
    }
}

/// A message that came back: see [`Ctx::returned`].
///
/// ```
/// # use barewire::am::*;
/// # use barewire::core::{Config, Endpoint, Peer, job::Job};
/// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
/// # let bundle = node.allocate_bundle().unwrap();
/// # let ep = node.allocate_endpoint(bundle).unwrap();
/// # node.set_tag(ep, Tag(5)).unwrap();
/// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
/// node.set_handler(ep, 0, |ctx, args| ctx.state.push((ctx.returned().unwrap(), args.to_vec()))).unwrap();
/// node.request(ep, 0, 99, &[1, 2]).unwrap(); // there is no handler 99
/// while node.poll(bundle) > 0 {}
/// let (returned, args) = &node.state()[0];
/// assert_eq!((returned.code, returned.handler, returned.translation), (Code::BadHandler, 99, Some(0)));
/// assert_eq!((returned.in_doubt, &args[..]), (0, &[1, 2][..])); // it certainly did not run
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Why.
    pub code: Code,
    /// Where it should have gone.
    pub to: Name,
    /// The translation it was sent through, if it was a request.
    pub translation: Option<u8>,
    /// The handler it should have run. Zero if the peer was lost before it acknowledged: then see `in_doubt`.
    pub handler: u8,
    /// Where its bulk data should have gone.
    pub place: Option<Place>,
    /// Zero for one message that certainly did not run. Otherwise the peer was lost, and this many requests through the
    /// translation had not been acknowledged: they may have run or not.
    pub in_doubt: u16,
}

impl<S> Ctx<'_, S> {
    /// The endpoint that the message came from, or, if it is one that came back, that it should have gone to.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| ctx.state.push(ctx.source())).unwrap();
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// node.poll(bundle);
    /// assert_eq!(*node.state(), [Name { peer: Peer(0), index: ep.index() }]);
    /// ```
    #[inline]
    pub fn source(&self) -> Name {
        Name { peer: self.from, index: self.imm.from() }
    }

    /// The tag the message carries; a reply carries the tag of its request.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_tag(ep, Tag::ALL).unwrap();
    /// node.map(ep, 1, node.name(ep), Tag(77)).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| ctx.state.push(ctx.tag())).unwrap();
    /// node.request(ep, 1, 1, &[]).unwrap();
    /// node.poll(bundle);
    /// assert_eq!(*node.state(), [Tag(77)]);
    /// ```
    #[inline]
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// The endpoint that the message came to.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| ctx.state.push(ctx.endpoint())).unwrap();
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// node.poll(bundle);
    /// assert_eq!(*node.state(), [ep]);
    /// ```
    #[inline]
    pub fn endpoint(&self) -> Ep {
        Ep(self.side.index)
    }

    /// Bytes of a medium message's data not read yet.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| {
    ///     let mut all = vec![0; ctx.remaining()];
    ///     ctx.read(&mut all);
    ///     ctx.state.push((all, ctx.remaining()));
    /// }).unwrap();
    /// node.request_medium(ep, 0, 1, &[], b"as long as it is").unwrap();
    /// node.poll(bundle);
    /// assert_eq!(*node.state(), [(b"as long as it is".to_vec(), 0)]);
    /// ```
    #[inline]
    pub fn remaining(&self) -> usize {
        self.body.remaining()
    }

    /// Reads up to `into.len()` bytes of a medium message's data, straight from wire memory, and says how many.
    ///
    /// ```
    /// # use barewire::am::{Node, Tag};
    /// # use barewire::core::{Config, Endpoint, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag::ALL).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag::ALL).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| {
    ///     let mut word = [0; 4];
    ///     while ctx.read(&mut word) == 4 {
    ///         ctx.state.push(u32::from_le_bytes(word));
    ///     }
    /// }).unwrap();
    /// node.request_medium(ep, 0, 1, &[], &[1, 0, 0, 0, 2, 0, 0, 0]).unwrap();
    /// node.poll(bundle);
    /// assert_eq!(*node.state(), [1, 2]);
    /// ```
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        self.body.read(into)
    }

    /// Reads a medium message's data straight into `memory` at `offset` and says how many bytes fitted.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// let memory = Memory::private(10);
    /// let target = memory.clone();
    /// node.set_handler(ep, 1, move |ctx, _| { let n = ctx.read_into(&target, 6); ctx.state.push(n); }).unwrap();
    /// node.request_medium(ep, 0, 1, &[], b"abcdef").unwrap();
    /// node.poll(bundle);
    /// let mut end = [0; 4];
    /// memory.read(6, &mut end);
    /// assert_eq!((&node.state()[..], &end), (&[4][..], b"abcd")); // no more fitted
    /// ```
    pub fn read_into(&mut self, memory: &Memory, offset: usize) -> usize {
        let len = self.body.remaining().min(memory.len().saturating_sub(offset));
        memory.wire_mut(offset, len).map_or(0, |mut wire| self.body.read_to(&mut wire))
    }

    /// Where in the endpoint's segment bulk data has been put; `None` if the message has none.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_seg(ep, Memory::shared(100).unwrap()).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| ctx.state.push(ctx.place().map(|place| place.len))).unwrap();
    /// node.request_xfer(ep, 0, 1, &[], 0, &[1; 40]).unwrap();
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(*node.state(), [Some(40), None]);
    /// ```
    #[inline]
    pub fn place(&self) -> Option<Place> {
        self.parcel.filter(|parcel| parcel.kind.is_xfer()).map(|parcel| parcel.place)
    }

    /// The endpoint's segment.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_seg(ep, Memory::shared(100).unwrap()).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| {
    ///     let mut word = [0; 4];
    ///     ctx.segment().unwrap().read(50, &mut word);
    ///     ctx.state.push(word);
    /// }).unwrap();
    /// node.request_xfer(ep, 0, 1, &[], 50, b"here").unwrap();
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(*node.state(), [*b"here"]);
    /// ```
    #[inline]
    pub fn segment(&self) -> Option<&Memory> {
        self.side.segment.as_ref()
    }

    /// In handler 0: why and what came back. The arguments and a medium message's data are the handler's as usual.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 0, |ctx, _| ctx.state.push(ctx.returned().unwrap().code)).unwrap();
    /// node.set_tag(ep, Tag(6)).unwrap(); // so the translation's tag is the old one
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(*node.state(), [Code::BadTag]);
    /// ```
    pub fn returned(&self) -> Option<Returned> {
        let parcel = self.parcel?;
        Some(Returned {
            code: parcel.returned?,
            to: self.source(),
            translation: parcel.kind.is_request().then_some(self.imm.slot()),
            handler: self.imm.handler(),
            place: parcel.kind.is_xfer().then_some(parcel.place),
            in_doubt: parcel.in_doubt,
        })
    }

    /// Replies to a request. Needs no credit and never waits; at most one reply a request.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, args| {
    ///     ctx.reply(2, &[args[0] + args[1]]).unwrap();
    ///     assert_eq!(ctx.reply(2, &[]), Err(ReplyError::Twice));
    /// }).unwrap();
    /// node.set_handler(ep, 2, |ctx, args| ctx.state.push(args[0])).unwrap();
    /// node.request(ep, 0, 1, &[20, 22]).unwrap();
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(*node.state(), [42]);
    /// ```
    #[inline]
    pub fn reply(&mut self, handler: u8, args: &[u64]) -> Result<(), ReplyError> {
        self.may_reply(handler, args.len())?;
        let (tag, imm, count) = (self.tag, self.imm.back(handler), args.len());
        if self.backlog.has_out(self.from) {
            return self.reply_later(Kind::ReplyShort, imm, Head::new(tag, None, args), &Bulk::Bytes(&[]));
        }
        self.phase = Phase::Replied;
        let port = wire::port(Kind::ReplyShort, false, count);
        let sent = self.core.reply_with(self.from, port, imm.0, 8 + 8 * count, |wire| {
            wire.write_u64(tag.0);
            wire.write_words(args);
        });
        match sent {
            Ok(()) => Ok(()),
            Err(error) => self.unsent(error, Kind::ReplyShort, imm, args, &[]),
        }
    }

    /// Replies with arguments and data that fits one packet.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| ctx.reply_medium(2, &[], b"the answer").unwrap()).unwrap();
    /// node.set_handler(ep, 2, |ctx, _| { let n = ctx.remaining(); ctx.state.push(n); }).unwrap();
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(*node.state(), [10]);
    /// ```
    pub fn reply_medium(&mut self, handler: u8, args: &[u64], data: &[u8]) -> Result<(), ReplyError> {
        self.may_reply(handler, args.len())?;
        let max = medium_max(&self.core, self.from);
        if data.len() > max {
            return Err(ReplyError::TooLong { len: data.len(), max });
        }
        let (imm, head) = (self.imm.back(handler), Head::new(self.tag, None, args));
        self.reply_packet(Kind::ReplyMedium, imm, head, args, &Bulk::Bytes(data))
    }

    /// Replies by putting bytes into the requester's segment at `offset` and then running `handler` there. Long data goes out
    /// bit by bit while the node is polled: bytes are copied for that, memory is kept by its count.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_seg(ep, Memory::shared(100_000).unwrap()).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| ctx.reply_xfer(2, &[], 10, &vec![9; 60_000]).unwrap()).unwrap();
    /// node.set_handler(ep, 2, |ctx, _| ctx.state.push(ctx.place().unwrap())).unwrap();
    /// node.request(ep, 0, 1, &[]).unwrap();
    /// node.wait(bundle, None, |places| !places.is_empty()).unwrap();
    /// assert_eq!(*node.state(), [Place { offset: 10, len: 60_000 }]);
    /// ```
    pub fn reply_xfer<'b>(
        &mut self,
        handler: u8,
        args: &[u64],
        offset: u64,
        data: impl Into<Bulk<'b>>,
    ) -> Result<(), ReplyError> {
        self.may_reply(handler, args.len())?;
        let data = data.into();
        if data.is_bad() {
            return Err(ReplyError::SourceRange);
        }
        let (imm, head) = (self.imm.back(handler), Head::new(self.tag, Some(offset), args));
        if head.bytes().len() + data.len() > self.core.message_max(self.from) {
            return self.reply_later(Kind::ReplyXfer, imm, head, &data);
        }
        self.reply_packet(Kind::ReplyXfer, imm, head, args, &data)
    }

    /// Sends a short request through a translation of this handler's endpoint. Refused in a reply handler; never waits.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, args| {
    ///     if args[0] > 0 {
    ///         ctx.request(0, 1, &[args[0] - 1]).unwrap(); // to the next one
    ///     }
    ///     ctx.state.push(args[0]);
    /// }).unwrap();
    /// node.request(ep, 0, 1, &[3]).unwrap();
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(*node.state(), [3, 2, 1, 0]);
    /// ```
    pub fn request(&mut self, to: u8, handler: u8, args: &[u64]) -> Result<(), RequestError> {
        if matches!(self.phase, Phase::Reply | Phase::Returned) {
            return Err(RequestError::FromReply);
        }
        match self.side.try_short(&mut self.core, to, handler, args) {
            Ok(()) => Ok(()),
            Err(Stop::Refused(error)) => Err(error),
            Err(Stop::NoCredit | Stop::NoRoom) => Err(RequestError::WouldBlock),
            Err(Stop::Gone(code)) => {
                self.backlog.bring_back(self.side, code, &Wish::short(to, handler, args));
                Ok(())
            }
        }
    }

    #[inline(always)]
    fn may_reply(&self, handler: u8, args: usize) -> Result<(), ReplyError> {
        match self.phase {
            Phase::Request if handler != 0 && args <= ARGS_MAX => Ok(()),
            _ => Err(self.why_not(handler, args)),
        }
    }

    #[cold]
    fn why_not(&self, handler: u8, args: usize) -> ReplyError {
        match self.phase {
            Phase::Replied => ReplyError::Twice,
            Phase::Reply | Phase::Returned => ReplyError::NotARequest,
            Phase::Request if handler == 0 => ReplyError::ReservedHandler,
            Phase::Request => ReplyError::TooManyArgs(args),
        }
    }

    fn reply_packet(
        &mut self,
        kind: Kind,
        imm: Imm,
        head: Head,
        args: &[u64],
        data: &Bulk<'_>,
    ) -> Result<(), ReplyError> {
        if self.backlog.has_out(self.from) {
            return self.reply_later(kind, imm, head, data);
        }
        self.phase = Phase::Replied;
        let (port, len) = (wire::port(kind, false, args.len()), head.bytes().len() + data.len());
        let sent = self.core.reply_with(self.from, port, imm.0, len, |wire| head.gather(data, wire, 0, len));
        match (sent, data) {
            (Ok(()), _) => Ok(()),
            (Err(error), Bulk::Bytes(bytes)) => self.unsent(error, kind, imm, args, bytes),
            (Err(error), Bulk::Memory(..)) => self.unsent(error, kind, imm, args, &[]),
        }
    }

    /// The reply cannot go now, or not all at once: it goes while the node is polled, in its turn.
    #[cold]
    fn reply_later(&mut self, kind: Kind, imm: Imm, head: Head, data: &Bulk<'_>) -> Result<(), ReplyError> {
        self.phase = Phase::Replied;
        let words = head.bytes()[8..].chunks_exact(8);
        let mut words = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight of eight")));
        let offset = if kind.is_xfer() { words.next().unwrap_or(0) } else { 0 };
        let args: Vec<u64> = words.collect();
        let mut parcel = Parcel::come_back(Code::Unreachable, kind, self.from, imm, self.tag, &args);
        parcel.place = Place { offset, len: data.len() as u64 };
        self.backlog.out.push_back(Out::new(parcel, None, head, data));
        Ok(())
    }

    /// A reply to a peer that is gone comes back like any message.
    #[cold]
    fn unsent(
        &mut self,
        error: SendError,
        kind: Kind,
        imm: Imm,
        args: &[u64],
        data: &[u8],
    ) -> Result<(), ReplyError> {
        if let SendError::TooLong { len, max } = error {
            self.phase = Phase::Request;
            return Err(ReplyError::TooLong { len, max });
        }
        let parcel = Parcel::come_back(Code::Unreachable, kind, self.from, imm, self.tag, args);
        let data = if kind.is_medium() { data } else { &[] };
        self.backlog.keep(self.side, parcel, data.to_vec());
        Ok(())
    }
}

/// The longest data of a medium message: one packet less the longest head, so that it can come back in one packet too.
pub(super) fn medium_max(core: &Link<'_>, to: Peer) -> usize {
    medium_of(core.message_max(to))
}

/// The same for a wire that carries so many bytes in one packet.
pub(super) fn medium_of(message_max: usize) -> usize {
    message_max.saturating_sub(Head::BYTES_MAX)
}
