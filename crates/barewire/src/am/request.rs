//! Requests from outside of handlers: they poll while they wait for credit or room.

use std::ops::Range;

use barewire_core::SendError;
use barewire_sys::memory::Memory;

use super::bulk::{Bulk, Head, Out, Place};
use super::context::medium_max;
use super::link::{Carry, Link, Stream};
use super::names::{Code, Ep, RequestError};
use super::node::Node;
use super::side::{Parcel, Side, Stop, Ticket};
use super::tables::Tables;
use super::wire::{self, Kind};

/// A request as somebody wants it sent.
#[derive(Debug)]
pub(super) struct Wish<'a> {
    pub kind: Kind,
    pub to: u8,
    pub handler: u8,
    pub args: &'a [u64],
    /// Where bulk data goes.
    pub offset: Option<u64>,
    pub data: Bulk<'a>,
}

impl<'a> Wish<'a> {
    pub fn short(to: u8, handler: u8, args: &'a [u64]) -> Wish<'a> {
        Wish { kind: Kind::RequestShort, to, handler, args, offset: None, data: Bulk::Bytes(&[]) }
    }

    pub fn place(&self) -> Place {
        Place { offset: self.offset.unwrap_or(0), len: self.data.len() as u64 }
    }
}

impl<S> Node<S> {
    /// Sends a short request: runs `handler` with `args` at the endpoint that translation `to` stands for. Polls the bundle while
    /// there is no credit. A request that cannot be delivered comes back to handler 0.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 7, |ctx, args| *ctx.state = args.iter().sum()).unwrap();
    /// node.request(ep, 0, 7, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap(); // eight at most
    /// node.poll(bundle);
    /// assert_eq!(*node.state(), 36);
    /// ```
    #[inline]
    pub fn request(&mut self, ep: Ep, to: u8, handler: u8, args: &[u64]) -> Result<(), RequestError> {
        let Some(Some(entry)) = self.tables.eps.get_mut(usize::from(ep.0)) else {
            return Err(RequestError::NoSuchEndpoint);
        };
        match self.wire.try_short(&mut entry.side, to, handler, args) {
            Ok(()) => Ok(()),
            Err(_) => self.send(ep, &Wish::short(to, handler, args)),
        }
    }

    /// Like [`Node::request`], but refuses with [`RequestError::WouldBlock`] instead of waiting, and polls nothing.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| *ctx.state += 1).unwrap();
    /// while node.try_request(ep, 0, 1, &[]).is_ok() {}
    /// assert_eq!(node.try_request(ep, 0, 1, &[]), Err(RequestError::WouldBlock)); // no credit is left
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(*node.state(), 64); // as many as may be outstanding
    /// ```
    #[inline]
    pub fn try_request(&mut self, ep: Ep, to: u8, handler: u8, args: &[u64]) -> Result<(), RequestError> {
        let Some(Some(entry)) = self.tables.eps.get_mut(usize::from(ep.0)) else {
            return Err(RequestError::NoSuchEndpoint);
        };
        match self.wire.try_short(&mut entry.side, to, handler, args) {
            Ok(()) => Ok(()),
            Err(stop) => self.give_up(stop, ep, &Wish::short(to, handler, args)),
        }
    }

    /// Sends a medium request: arguments, and data that the handler reads out of the packet.
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
    ///     let mut name = vec![0; args[0] as usize];
    ///     ctx.read(&mut name);
    ///     ctx.state.push(name);
    /// }).unwrap();
    /// node.request_medium(ep, 0, 1, &[4], b"name and more").unwrap();
    /// node.poll(bundle);
    /// assert_eq!(*node.state(), [b"name"]);
    /// ```
    pub fn request_medium(
        &mut self,
        ep: Ep,
        to: u8,
        handler: u8,
        args: &[u64],
        data: &[u8],
    ) -> Result<(), RequestError> {
        let data = Bulk::Bytes(data);
        let wish = Wish { kind: Kind::RequestMedium, to, handler, args, offset: None, data };
        self.send(ep, &wish)
    }

    /// Like [`Node::request_medium`], but refuses with [`RequestError::WouldBlock`] instead of waiting, and polls nothing.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_expected_resources(ep, 1, 1).unwrap();
    /// node.set_handler(ep, 1, |_, _| {}).unwrap();
    /// assert_eq!(node.try_request_medium(ep, 0, 1, &[], b"first"), Ok(()));
    /// assert_eq!(node.try_request_medium(ep, 0, 1, &[], b"second"), Err(RequestError::WouldBlock));
    /// ```
    pub fn try_request_medium(
        &mut self,
        ep: Ep,
        to: u8,
        handler: u8,
        args: &[u64],
        data: &[u8],
    ) -> Result<(), RequestError> {
        let data = Bulk::Bytes(data);
        let wish = Wish { kind: Kind::RequestMedium, to, handler, args, offset: None, data };
        match self.tables.try_wish(&mut self.wire.link(), ep, &wish) {
            Ok(_) => Ok(()),
            Err(stop) => self.give_up(stop, ep, &wish),
        }
    }

    /// Sends a bulk request: puts `data`, of any length, into the target's segment at `offset`, and then runs `handler` there.
    /// Returns when all of it is on its way and the source can be used again.
    ///
    /// ```
    /// # use barewire::am::{Memory, Node, Tag};
    /// # use barewire::core::{Config, Endpoint, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag::ALL).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag::ALL).unwrap();
    /// node.set_seg(ep, Memory::shared(1 << 20).unwrap()).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| {
    ///     let place = ctx.place().unwrap();
    ///     let mut last = [0];
    ///     assert!(ctx.segment().unwrap().read((place.offset + place.len) as usize - 1, &mut last));
    ///     ctx.state.push((place.len, last[0])); // all of it is there
    /// }).unwrap();
    /// node.request_xfer(ep, 0, 1, &[], 4096, &vec![7; 500_000]).unwrap();
    /// while node.poll(bundle) > 0 {}
    /// assert_eq!(*node.state(), [(500_000, 7)]);
    /// ```
    pub fn request_xfer<'a>(
        &mut self,
        ep: Ep,
        to: u8,
        handler: u8,
        args: &[u64],
        offset: u64,
        data: impl Into<Bulk<'a>>,
    ) -> Result<(), RequestError> {
        let (data, offset) = (data.into(), Some(offset));
        let wish = Wish { kind: Kind::RequestXfer, to, handler, args, offset, data };
        self.send(ep, &wish)
    }

    /// Starts a bulk request and returns at once; the data goes out while the node is polled. Refuses with
    /// [`RequestError::WouldBlock`] if there is no credit or the translation is busy with a transfer. The bytes must not change until
    /// [`Node::is_sending`] says that they are on their way.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_seg(ep, Memory::shared(1 << 20).unwrap()).unwrap();
    /// node.set_handler(ep, 1, |ctx, _| ctx.state.push(ctx.place().unwrap().len)).unwrap();
    /// let source = Memory::private(1 << 20);
    /// node.request_xfer_async(ep, 0, 1, &[], 0, (&source, 0..500_000)).unwrap(); // returns at once
    /// node.wait(bundle, None, |lengths| !lengths.is_empty()).unwrap();
    /// assert_eq!(*node.state(), [500_000]);
    /// ```
    pub fn request_xfer_async(
        &mut self,
        ep: Ep,
        to: u8,
        handler: u8,
        args: &[u64],
        offset: u64,
        source: (&Memory, Range<usize>),
    ) -> Result<(), RequestError> {
        let (data, offset) = (Bulk::from(source), Some(offset));
        let wish = Wish { kind: Kind::RequestXfer, to, handler, args, offset, data };
        self.start(ep, &wish).or_else(|stop| self.give_up(stop, ep, &wish))
    }

    /// Sends a request of any kind, polling the endpoint's bundle while it has to wait.
    #[cold]
    #[inline(never)]
    fn send(&mut self, ep: Ep, wish: &Wish<'_>) -> Result<(), RequestError> {
        let bundle = self.sending_side(ep)?.bundle;
        let mut sent = self.tables.try_wish(&mut self.wire.link(), ep, wish);
        if is_stopped_for_now(&sent) {
            self.wait_until(bundle, None, |core, tables| {
                sent = tables.try_wish(core, ep, wish);
                !is_stopped_for_now(&sent)
            })
            .map_err(|_| RequestError::Forked)?;
        }
        match sent {
            Ok(Sent::Whole) => Ok(()),
            Ok(Sent::Begun(ticket, sending)) => {
                let sent = self.stream(ep, wish, ticket, sending);
                sent.or_else(|stop| self.give_up(stop, ep, wish))
            }
            Err(stop) => self.give_up(stop, ep, wish),
        }
    }

    /// Sends a long message piece by piece, polling in between.
    fn stream(&mut self, ep: Ep, wish: &Wish<'_>, ticket: Ticket, mut sending: Stream) -> Result<(), Stop> {
        let head = Head::new(ticket.tag, wish.offset, wish.args);
        let bundle = self.sending_side(ep)?.bundle;
        let mut sent = Ok(());
        self.wait_until(bundle, None, |core, _| {
            while !sending.is_done() && sent.is_ok() {
                sent = core.push(&mut sending, &head, &wish.data);
            }
            if sent == Err(SendError::Full) {
                sent = Ok(());
                return false;
            }
            true
        })
        .map_err(|_| Stop::Refused(RequestError::Forked))?;
        let side = self.sending_side(ep)?;
        side.set_busy(wish.to, false);
        sent?;
        side.spend(ticket);
        Ok(())
    }

    /// Puts a bulk request in line to go out while the node is polled.
    fn start(&mut self, ep: Ep, wish: &Wish<'_>) -> Result<(), Stop> {
        if wish.data.is_bad() {
            return Err(Stop::Refused(RequestError::SourceRange));
        }
        let side = self.sending_side(ep)?;
        let ticket = side.ticket(wish.to, wish.handler, wish.args.len())?;
        side.set_busy(wish.to, true);
        let code = Code::Unreachable;
        let parcel = Parcel::come_back(code, wish.kind, ticket.to, ticket.imm, ticket.tag, wish.args);
        let parcel = Parcel { want: ticket.want, place: wish.place(), ..parcel };
        let head = Head::new(ticket.tag, wish.offset, wish.args);
        self.tables.backlog.out.push_back(Out::new(parcel, Some((ep.0, wish.to)), head, &wish.data));
        self.tables.pump(&mut self.wire.link());
        Ok(())
    }

    /// What a request that is not sent comes to.
    #[cold]
    #[inline(never)]
    fn give_up(&mut self, stop: Stop, ep: Ep, wish: &Wish<'_>) -> Result<(), RequestError> {
        match stop {
            Stop::Refused(error) => Err(error),
            Stop::NoCredit | Stop::NoRoom => Err(RequestError::WouldBlock),
            Stop::Gone(code) => {
                if let Some(Some(entry)) = self.tables.eps.get_mut(usize::from(ep.0)) {
                    self.tables.backlog.bring_back(&mut entry.side, code, wish);
                }
                Ok(())
            }
        }
    }

    fn sending_side(&mut self, ep: Ep) -> Result<&mut Side, RequestError> {
        self.tables.sending_side(ep)
    }
}

/// What became of a request that was not stopped.
#[derive(Debug)]
enum Sent {
    Whole,
    /// The message is too long for a packet; its translation is busy until it is all sent.
    Begun(Ticket, Stream),
}

fn is_stopped_for_now(sent: &Result<Sent, Stop>) -> bool {
    matches!(sent, Err(Stop::NoCredit | Stop::NoRoom))
}

impl<S> Tables<S> {
    /// Sends a request now, or begins to if it is a long one, or says what stops it.
    fn try_wish(&mut self, core: &mut Link<'_>, ep: Ep, wish: &Wish<'_>) -> Result<Sent, Stop> {
        let side = self.sending_side(ep)?;
        let ticket = side.ticket(wish.to, wish.handler, wish.args.len())?;
        let head = Head::new(ticket.tag, wish.offset, wish.args);
        let len = head.bytes().len() + wish.data.len();
        let port = wire::port(wish.kind, ticket.want, wish.args.len());
        match wish.kind {
            Kind::RequestXfer if wish.data.is_bad() => return Err(Stop::Refused(RequestError::SourceRange)),
            Kind::RequestXfer if len > core.message_max(ticket.to) => {
                let sending = core.begin(ticket.to, port, ticket.imm.0, len as u64)?;
                side.set_busy(wish.to, true);
                return Ok(Sent::Begun(ticket, sending));
            }
            // A peer that does not exist takes no bytes at all; the message is to come back, not to be refused.
            Kind::RequestMedium if ticket.to.0 < core.size() => {
                let (len, max) = (wish.data.len(), medium_max(core, ticket.to));
                if len > max {
                    return Err(Stop::Refused(RequestError::TooLong { len, max }));
                }
            }
            _ => {}
        }
        core.send_with(ticket.to, port, ticket.imm.0, len, |wire| head.gather(&wish.data, wire, 0, len))?;
        side.spend(ticket);
        Ok(Sent::Whole)
    }

    fn sending_side(&mut self, ep: Ep) -> Result<&mut Side, RequestError> {
        match self.eps.get_mut(usize::from(ep.0)) {
            Some(Some(entry)) => Ok(&mut entry.side),
            _ => Err(RequestError::NoSuchEndpoint),
        }
    }
}
