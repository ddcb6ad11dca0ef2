//! What carries a node's messages: an endpoint of the core, or a NIC with virtual interfaces.

use std::time::Duration;

use barewire_core::{Endpoint, Peer, Port, SendError, Sending, WaitError};
use barewire_sys::wirebuf::WireMut;

use super::bulk::{Bulk, Head};
use super::over_via::{Carrier, Placing};
use super::side::{Side, Stop};
use super::tables::Tables;
use super::wire::Imm;

/// What a node owns.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the usual one is reached without a detour, and a node has only one"
)]
pub(super) enum Wire {
    Core(Endpoint),
    Via(Box<Carrier>),
}

/// What a node lends to whoever sends.
#[derive(Debug)]
pub(super) enum Link<'a> {
    Core(&'a mut Endpoint),
    Via(&'a mut Carrier),
}

/// A long message on its way out.
#[derive(Debug)]
pub(super) enum Stream {
    Core(Sending),
    Via(Placing),
}

impl Stream {
    pub fn is_done(&self) -> bool {
        match self {
            Stream::Core(sending) => sending.is_done(),
            Stream::Via(placing) => placing.is_done(),
        }
    }
}

impl Wire {
    #[inline(always)]
    pub fn link(&mut self) -> Link<'_> {
        match self {
            Wire::Core(core) => Link::Core(core),
            Wire::Via(carrier) => Link::Via(carrier),
        }
    }

    #[inline(always)]
    pub fn core(&self) -> &Endpoint {
        match self {
            Wire::Core(core) => core,
            Wire::Via(carrier) => carrier.core(),
        }
    }

    /// Sends a short request of an endpoint, or says what stops it. The core's way is kept free of everything else.
    #[inline(always)]
    pub fn try_short(&mut self, side: &mut Side, to: u8, handler: u8, args: &[u64]) -> Result<(), Stop> {
        match self {
            Wire::Core(core) => side.try_short(core, to, handler, args),
            Wire::Via(carrier) => carrier.try_short(side, to, handler, args),
        }
    }

    /// Takes what has arrived.
    #[inline(always)]
    pub fn progress<S>(&mut self, tables: &mut Tables<S>) -> usize {
        match self {
            Wire::Core(core) => core.progress(tables, usize::MAX),
            Wire::Via(carrier) => carrier.poll(tables),
        }
    }

    /// See [`Endpoint::looked`].
    #[inline(always)]
    pub fn looked(&mut self, took: usize) {
        match self {
            Wire::Core(core) => core.looked(took),
            Wire::Via(carrier) => carrier.looked(took),
        }
    }

    /// Before waiting on the wire's descriptor: false if there is something to do.
    pub fn doze(&mut self) -> bool {
        match self {
            Wire::Core(core) => core.doze(),
            Wire::Via(carrier) => carrier.doze(),
        }
    }

    /// Takes what arrives until `done`.
    pub fn wait<S>(
        &mut self,
        tables: &mut Tables<S>,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut Link<'_>, &mut Tables<S>) -> bool,
    ) -> Result<(), WaitError> {
        match self {
            Wire::Core(core) => {
                core.wait(tables, timeout, |core, tables| done(&mut Link::Core(core), tables))
            }
            Wire::Via(carrier) => carrier.wait(tables, timeout, done),
        }
    }

    /// Whoever could write to this endpoint's segment cannot any more.
    pub fn close_segment(&mut self, ep: u16) {
        if let Wire::Via(carrier) = self {
            carrier.close_segment(ep);
        }
    }
}

/// What carries messages, where it is known which of the two it is or does not matter.
pub(super) trait Carry {
    /// What is lent to whoever sends.
    fn link(&mut self) -> Link<'_>;

    /// Sends a request, or says that it has to wait.
    fn send_with(
        &mut self,
        to: Peer,
        port: Port,
        imm: u64,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError>;
}

impl Carry for Endpoint {
    #[inline(always)]
    fn link(&mut self) -> Link<'_> {
        Link::Core(self)
    }

    #[inline(always)]
    fn send_with(
        &mut self,
        to: Peer,
        port: Port,
        imm: u64,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        Endpoint::send_with(self, to, port, imm, len, fill)
    }
}

impl Carry for Carrier {
    #[inline(always)]
    fn link(&mut self) -> Link<'_> {
        Link::Via(self)
    }

    #[inline(always)]
    fn send_with(
        &mut self,
        to: Peer,
        port: Port,
        imm: u64,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        self.ask(to, port, Imm(imm), len, fill)
    }
}

impl Carry for Link<'_> {
    #[inline(always)]
    fn link(&mut self) -> Link<'_> {
        match self {
            Link::Core(core) => Link::Core(core),
            Link::Via(carrier) => Link::Via(carrier),
        }
    }

    #[inline(always)]
    fn send_with(
        &mut self,
        to: Peer,
        port: Port,
        imm: u64,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        match self {
            Link::Core(core) => core.send_with(to, port, imm, len, fill),
            Link::Via(carrier) => carrier.ask(to, port, Imm(imm), len, fill),
        }
    }
}

impl Link<'_> {
    fn core(&self) -> &Endpoint {
        match self {
            Link::Core(core) => core,
            Link::Via(carrier) => carrier.core(),
        }
    }

    pub fn size(&self) -> u32 {
        self.core().size()
    }

    /// The longest message in one piece.
    pub fn message_max(&self, to: Peer) -> usize {
        match self {
            Link::Core(core) => core.message_max(to),
            Link::Via(carrier) => carrier.message_max(),
        }
    }

    /// Sends an answer: a reply, an acknowledgement, a request that comes back.
    #[inline(always)]
    pub fn reply_with(
        &mut self,
        to: Peer,
        port: Port,
        imm: u64,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        match self {
            Link::Core(core) => core.reply_with(to, port, imm, len, fill),
            Link::Via(carrier) => carrier.answer(to, port, Imm(imm), len, fill),
        }
    }

    /// Sends a reply back that was not wanted. Nobody answers that, so it needs room of its own.
    #[cold]
    pub fn refuse_with(
        &mut self,
        to: Peer,
        port: Port,
        imm: u64,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        match self {
            Link::Core(core) => core.reply_with(to, port, imm, len, fill),
            Link::Via(carrier) => carrier.ask_later(to, port, Imm(imm), len, fill),
        }
    }

    /// A request is done and nothing was sent for it.
    #[inline(always)]
    pub fn settled(&mut self, from: Peer, imm: Imm) {
        if let Link::Via(carrier) = self {
            carrier.settled(from, imm);
        }
    }

    /// Opens a bulk transfer of more than one packet.
    pub fn begin(&mut self, to: Peer, port: Port, imm: u64, len: u64) -> Result<Stream, SendError> {
        match self {
            Link::Core(core) => core.begin(to, port, imm, len).map(Stream::Core),
            Link::Via(carrier) => carrier.begin(to, port, Imm(imm)).map(Stream::Via),
        }
    }

    /// Takes a bulk transfer one step on.
    pub fn push(&mut self, stream: &mut Stream, head: &Head, data: &Bulk<'_>) -> Result<(), SendError> {
        match (self, stream) {
            (Link::Core(core), Stream::Core(sending)) => {
                let at = sending.sent() as usize;
                core.push_packet(sending, usize::MAX, |wire, n| head.gather(data, wire, at, n)).map(drop)
            }
            (Link::Via(carrier), Stream::Via(placing)) => carrier.push(placing, head, data),
            // A node has one wire for life, so a stream is always of its own kind.
            _ => Err(SendError::Full),
        }
    }
}
