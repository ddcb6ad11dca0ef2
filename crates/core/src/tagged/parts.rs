//! Short messages in several packets: matched by the first, received or kept as the others come.

use super::body::Sink;
use super::matching::Envelope;
use super::receive::{Received, Unexpected};
use super::requests::{Failure, Request, State, Status};
use super::{EAGER_BYTES_MAX, KEEP_BYTES, Tagged};
use crate::Peer;
use crate::endpoint::Endpoint;
use crate::expect::Followed;
use crate::incoming::{Flow, Incoming};

/// One such message, from its first packet until it is received.
#[derive(Debug)]
pub(crate) struct Stream {
    number: u32,
    /// Bytes announced, which its sender was charged for.
    len: u64,
    to: Destination,
}

/// Where its bytes go.
#[derive(Debug)]
enum Destination {
    /// To their receive.
    Request(Request),
    /// Nowhere yet: nobody has asked for them.
    Kept(Vec<u8>),
    /// Its sender broke off before anybody had asked for it.
    Broken,
}

/// Memory of messages that were kept, for the next ones: fresh memory costs several times as much as copying into it.
#[derive(Debug, Default)]
pub(crate) struct Spares(Vec<Vec<u8>>);

/// So many are not given back.
const SPARES_MAX: usize = 16;

impl Spares {
    /// Room for `len` bytes.
    fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = self.0.pop().unwrap_or_default();
        bytes.reserve(len);
        bytes
    }

    fn put(&mut self, mut bytes: Vec<u8>) {
        if self.0.len() < SPARES_MAX && (1..=EAGER_BYTES_MAX as usize).contains(&bytes.capacity()) {
            bytes.clear();
            self.0.push(bytes);
        }
    }
}

impl Tagged {
    /// A packet of a short message in several.
    pub(super) fn on_eager_part(&mut self, endpoint: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
        let Some(number) = packet.stream else { return Flow::Distrust };
        let (from, is_last) = (packet.from, packet.is_last());
        let at = match self.stream(from, number) {
            Some(at) => at,
            // A message that was broken off here concerns nobody any more.
            None if packet.offset > 0 => return Flow::Continue,
            None => match self.on_eager_begin(&packet, number) {
                Ok(at) => at,
                Err(flow) => return flow,
            },
        };
        let stream = &mut self.peers[from.index()].streams[at];
        let len = stream.len;
        match &mut stream.to {
            Destination::Kept(_) if is_last && packet.total < len => stream.to = Destination::Broken,
            Destination::Kept(bytes) => {
                let start = bytes.len();
                bytes.resize(start + packet.remaining(), 0);
                packet.read(&mut bytes[start..]);
            }
            Destination::Request(request) => {
                let request = *request;
                let flow = self.on_arriving(request, packet);
                if is_last {
                    self.end_stream(endpoint, from, at);
                }
                return flow;
            }
            Destination::Broken => return Flow::Distrust,
        }
        Flow::Continue
    }

    /// The first packet: finds the receive, or begins to keep the message; says where it stands. Otherwise what becomes of the packet: it stays
    /// where it is, which costs less, or its sender has gone too far.
    fn on_eager_begin(&mut self, packet: &Incoming<'_>, number: u32) -> Result<usize, Flow> {
        let (from, envelope, len) = (packet.from, Envelope::from_imm(packet.imm), packet.total);
        let tag = envelope.tag;
        let to = match self.posted.find(&mut self.requests.slots, from, envelope) {
            Some(slot) => {
                let request = self.requests.in_slot(slot);
                if let Some(sink) = self.requests.take_sink(slot) {
                    let arriving = State::Arriving { from, tag, len, base: 0, got: 0, expected: len, sink };
                    self.requests.replace(request, arriving);
                }
                Destination::Request(request)
            }
            None if packet.may_stay() => return Err(Flow::Later),
            None => match self.keep(from, envelope, Unexpected::Parts { stream: number, len }) {
                Flow::Continue => Destination::Kept(self.spares.take(len.min(EAGER_BYTES_MAX) as usize)),
                refused => return Err(refused),
            },
        };
        let streams = &mut self.peers[from.index()].streams;
        streams.push(Stream { number, len, to });
        Ok(streams.len() - 1)
    }

    /// Receives a message of which only some packets may have come.
    pub(super) fn receive_parts(
        &mut self,
        endpoint: &mut Endpoint,
        from: Peer,
        tag: i32,
        number: u32,
        mut sink: Sink,
    ) -> Received {
        let failed = |why| Received::Done(Status::failed(from, why));
        // Its sender was lost before all of it had come.
        let Some(at) = self.stream(from, number) else { return failed(Failure::Lost(from)) };
        let Stream { len, to, .. } = &mut self.peers[from.index()].streams[at];
        let len = *len;
        let Destination::Kept(bytes) = to else {
            self.end_stream(endpoint, from, at);
            return failed(Failure::Cancelled);
        };
        sink.take_kept(0, bytes);
        let got = bytes.len() as u64;
        if got == len {
            self.end_stream(endpoint, from, at);
            return Received::Done(Status::received(from, tag, len, sink.capacity()));
        }
        let state = State::Arriving { from, tag, len, base: 0, got, expected: len, sink };
        let request = self.requests.add(state);
        *to = Destination::Request(request);
        Received::Pending(request)
    }

    /// Receives a message of which so much was taken as it came.
    pub(super) fn receive_followed(
        &mut self,
        endpoint: &mut Endpoint,
        from: Peer,
        tag: i32,
        Followed { total: len, got, stream: number }: Followed,
        sink: Sink,
    ) -> Received {
        if got == len {
            self.give_back(endpoint, from, len.saturating_add(KEEP_BYTES));
            return Received::Done(Status::good(from, tag, len));
        }
        let state = State::Arriving { from, tag, len, base: 0, got, expected: len, sink };
        let request = self.requests.add(state);
        self.peers[from.index()].streams.push(Stream { number, len, to: Destination::Request(request) });
        Received::Pending(request)
    }

    /// The bytes of a message that nobody has asked for, if all of them have come.
    pub(super) fn take_parts(&mut self, endpoint: &mut Endpoint, from: Peer, number: u32) -> Option<Vec<u8>> {
        let at = self.stream(from, number)?;
        let Stream { len, to: Destination::Kept(bytes), .. } = &mut self.peers[from.index()].streams[at]
        else {
            return None;
        };
        let bytes = (bytes.len() as u64 == *len).then(|| std::mem::take(bytes))?;
        self.end_stream(endpoint, from, at);
        Some(bytes)
    }

    /// The receive that takes a message, if one does already.
    pub(super) fn receiving(&self, from: Peer, number: u32) -> Option<Request> {
        match self.peers[from.index()].streams[self.stream(from, number)?].to {
            Destination::Request(request) => Some(request),
            _ => None,
        }
    }

    /// All of a message has been put where it belongs.
    pub(super) fn end_receiving(&mut self, endpoint: &mut Endpoint, from: Peer, number: u32) {
        if let Some(at) = self.stream(from, number) {
            self.end_stream(endpoint, from, at);
        }
    }

    fn stream(&self, from: Peer, number: u32) -> Option<usize> {
        self.peers[from.index()].streams.iter().position(|stream| stream.number == number)
    }

    /// A message is received, or never will be: its sender gets its credit back.
    fn end_stream(&mut self, endpoint: &mut Endpoint, from: Peer, at: usize) {
        let Stream { len, to, .. } = self.peers[from.index()].streams.swap_remove(at);
        if let Destination::Kept(bytes) = to {
            self.spares.put(bytes);
        }
        self.give_back(endpoint, from, len.saturating_add(KEEP_BYTES));
    }
}
