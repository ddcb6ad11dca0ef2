//! One VI: its two work queues, what is on its way, and the numbers that keep both ends in step.

use std::collections::{HashMap, VecDeque};

use barewire_core::region::{Key, Op};
use barewire_core::{Peer, Sending};

use super::descriptor::{Cqs, Descriptor, Queue};
use super::errors::ConnectError;
use super::names::{Cause, Flow, Ptag, Reliability, Srq, Status, ViAttributes, ViState};
use crate::deadline::Deadline;

#[derive(Debug)]
pub(super) struct ViEntry {
    pub tag: Ptag,
    pub attributes: ViAttributes,
    pub cqs: Cqs,
    pub srq: Option<Srq>,
    pub state: ViState,
    /// The other end, while connecting and connected.
    pub peer: Peer,
    pub remote: u32,
    /// The discriminator of the connection that was asked for.
    pub discriminator: u64,
    /// Whether it was asked for as an equal, not as a client.
    pub equal: bool,
    /// How asking for a connection ended, until somebody looks.
    pub verdict: Option<Result<(), ConnectError>>,

    /// Posted and not begun.
    pub sends: VecDeque<Queued>,
    /// The message that goes out in several packets.
    pub streaming: Option<Streaming>,
    /// Begun and not ended, in order.
    pub flight: VecDeque<Flight>,
    /// RDMA operations among them.
    pub rdma: u32,
    /// The number of the next message out.
    pub number: u32,
    /// Receives the other end has posted since the connection began.
    pub granted: u32,
    /// Not before this moment, because the receiver was not ready.
    pub resume_at: Option<Deadline>,
    pub tries: u32,
    /// Access to the other end's memory, by handle and right: write is 0, read is 1.
    pub keys: HashMap<(u64, u8), Option<Key>>,
    /// The handle and right that the other end was asked about and has not answered.
    pub asked: Option<(u64, u8)>,

    pub receives: VecDeque<Box<Descriptor>>,
    /// Receives posted here since the connection began, and how many the other end knows of.
    pub posted: u32,
    pub advertised: u32,
    /// Messages that have a descriptor, how many of them are whole, and how many of those the other end knows of.
    pub received: u32,
    pub whole: u32,
    pub told: u32,

    pub send_done: VecDeque<Box<Descriptor>>,
    pub receive_done: VecDeque<Box<Descriptor>>,
    /// On the NIC's list of those that owe word.
    pub dirty: bool,
    /// On the NIC's list of those that wait.
    pub listed: bool,
}

/// A descriptor that waits for its turn.
#[derive(Debug)]
pub(super) struct Queued {
    pub descriptor: Box<Descriptor>,
    /// Its data is in place; only the immediate is still to go.
    pub written: bool,
}

/// A message that goes out in several packets.
#[derive(Debug)]
pub(super) struct Streaming {
    pub descriptor: Box<Descriptor>,
    pub sending: Sending,
    /// The receiver was not ready for so many earlier ones: end this early and send it again after them.
    pub aborted: Option<usize>,
}

/// A descriptor that was begun.
#[derive(Debug)]
pub(super) struct Flight {
    pub descriptor: Box<Descriptor>,
    pub stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Sent under this number; the other end has not said that it has it.
    Await(u32),
    /// Operations on the other end's memory are under way; segments from `next` on are not begun.
    Rdma {
        ops: Vec<Op>,
        next: usize,
        at: u64,
        key: Key,
        status: Status,
    },
    Done(Status),
}

impl ViEntry {
    pub fn new(tag: Ptag, attributes: ViAttributes, cqs: Cqs, srq: Option<Srq>) -> ViEntry {
        ViEntry {
            tag,
            attributes,
            cqs,
            srq,
            state: ViState::Idle,
            peer: Peer(u32::MAX),
            remote: 0,
            discriminator: 0,
            equal: false,
            verdict: None,
            sends: VecDeque::new(),
            streaming: None,
            flight: VecDeque::new(),
            rdma: 0,
            number: 0,
            granted: 0,
            resume_at: None,
            tries: 0,
            keys: HashMap::new(),
            asked: None,
            receives: VecDeque::new(),
            posted: 0,
            advertised: 0,
            received: 0,
            whole: 0,
            told: 0,
            send_done: VecDeque::new(),
            receive_done: VecDeque::new(),
            dirty: false,
            listed: false,
        }
    }

    #[inline(always)]
    pub fn is_connected_to(&self, peer: Peer) -> bool {
        self.state == ViState::Connected && self.peer == peer
    }

    /// Whether it waits to be connected as an equal.
    pub fn waits_for(&self, peer: Peer, discriminator: u64) -> bool {
        self.state == ViState::Connecting
            && self.equal
            && (self.peer, self.discriminator) == (peer, discriminator)
    }

    /// Connected, or about to be.
    pub fn is_up(&self) -> bool {
        matches!(self.state, ViState::Connected | ViState::Connecting)
    }

    /// Whether sends end only when the other end says so.
    #[inline(always)]
    pub fn waits_for_word(&self) -> bool {
        self.attributes.reliability == Reliability::Reception
            || matches!(self.attributes.flow, Flow::Rnr { .. })
    }

    /// Whether messages may have to be sent again.
    #[inline(always)]
    pub fn is_numbered(&self) -> bool {
        matches!(self.attributes.flow, Flow::Rnr { .. })
    }

    /// Whether the other end ever needs word from us.
    #[inline(always)]
    pub fn owes_word(&self) -> bool {
        self.waits_for_word() || self.attributes.flow == Flow::Credits
    }

    /// Whether the other end needs word now: of every message, or, for credits alone, when it has no more left than are new.
    pub fn is_word_due(&self) -> bool {
        if self.waits_for_word() && self.told != self.whole {
            return true;
        }
        let (left, new) =
            (self.advertised.wrapping_sub(self.received), self.posted.wrapping_sub(self.advertised));
        self.attributes.flow == Flow::Credits && new > 0 && left <= new
    }

    /// A connection stands.
    pub fn connected(&mut self, peer: Peer, remote: u32, granted: u32) {
        (self.state, self.peer, self.remote, self.granted) = (ViState::Connected, peer, remote, granted);
        (self.number, self.received, self.whole, self.told) = (0, 0, 0, 0);
        (self.tries, self.resume_at) = (0, None);
        self.keys.clear();
        self.asked = None;
        self.verdict = Some(Ok(()));
    }

    /// Everything that is posted, as it comes back when the connection ends.
    pub fn take_all(&mut self, cause: Cause) -> Vec<(Queue, Box<Descriptor>)> {
        let begun = match cause {
            Cause::PeerLost => Status::PeerLost,
            _ => Status::Flushed,
        };
        let first = match cause {
            Cause::RemoteNoReceive => Status::RemoteNoReceive,
            Cause::NotReady => Status::NotReady,
            Cause::Length => Status::Length,
            Cause::RemoteProtection => Status::RemoteProtection,
            _ => begun,
        };
        let mut all = Vec::new();
        for (at, Flight { descriptor, stage }) in std::mem::take(&mut self.flight).into_iter().enumerate() {
            let status = match stage {
                Stage::Done(status) => status,
                Stage::Await(_) if at == 0 => first,
                _ => begun,
            };
            all.push((Queue::Send, descriptor.ended(status, 0)));
        }
        let streaming = self.streaming.take().map(|streaming| streaming.descriptor);
        let sends = std::mem::take(&mut self.sends).into_iter().map(|queued| queued.descriptor);
        for descriptor in streaming.into_iter().chain(sends) {
            all.push((Queue::Send, descriptor.ended(Status::Flushed, 0)));
        }
        for descriptor in std::mem::take(&mut self.receives) {
            all.push((Queue::Receive, descriptor.ended(Status::Flushed, 0)));
        }
        (self.rdma, self.posted, self.advertised) = (0, 0, 0);
        all
    }
}
