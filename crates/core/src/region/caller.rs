//! The caller's side: starts operations, and takes their outcomes.

use std::time::Duration;

use barewire_sys::memory::Memory;
use barewire_sys::wirebuf::WireRef;

use super::direct::Mapped;
use super::ops::{Op, Running, What};
use super::{Atomic, Key, RegionError, Rights, Width};
use crate::Peer;
use crate::Port;
use crate::endpoint::Endpoint;
use crate::error::{SendError, WaitError};
use crate::incoming::Deliver;
use crate::provider::Class;
use crate::wait::Waiting;
use crate::wire::{Access, FLAG_LAST, FLAG_NOTICE, Head, Kind};

/// Bytes that open a put packet's payload.
const PUT_PREFIX: usize = 48;

impl Endpoint {
    /// Puts `bytes` into the region at `offset`. The bytes are taken over at once; the operation ends when they are in place.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, job::Job, region::{Memory, Rights, Who}};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let memory = Memory::private(100);
    /// let key = endpoint.export(&memory, Rights::ALL, Who::Anyone).unwrap();
    /// let op = endpoint.put(key, 10, b"hello").unwrap();
    /// endpoint.finish(&mut Ignore, op, None).unwrap();
    /// let mut seen = [0; 5];
    /// assert!(memory.read(10, &mut seen));
    /// assert_eq!(&seen, b"hello");
    /// ```
    pub fn put(&mut self, key: Key, offset: u64, bytes: &[u8]) -> Result<Op, RegionError> {
        self.put_bytes(key, offset, bytes, None)
    }

    /// Like [`Endpoint::put`], and runs `port`'s handler at the owner, with `imm`, once the bytes are in place.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job, region::{Memory, Rights, Who}};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (memory, mut seen) = (Memory::private(64), [0; 4]);
    /// let key = endpoint.export(&memory, Rights::WRITE, Who::Anyone).unwrap();
    /// endpoint.put_notice(key, 8, b"data", Port(5), 8).unwrap();
    /// let mut handler = |_: &mut Endpoint, packet: Incoming<'_>| {
    ///     assert!(packet.port == Port(5) && memory.read(packet.imm as usize, &mut seen));
    ///     Flow::Continue
    /// };
    /// endpoint.progress(&mut handler, usize::MAX);
    /// assert_eq!(&seen, b"data");
    /// ```
    pub fn put_notice(
        &mut self,
        key: Key,
        offset: u64,
        bytes: &[u8],
        port: Port,
        imm: u64,
    ) -> Result<Op, RegionError> {
        self.put_bytes(key, offset, bytes, Some((port, imm)))
    }

    fn put_bytes(
        &mut self,
        key: Key,
        offset: u64,
        bytes: &[u8],
        notice: Option<(Port, u64)>,
    ) -> Result<Op, RegionError> {
        let len = bytes.len() as u64;
        if let Some(mapped) = self.direct(key)? {
            return self.put_direct(key, &mapped, offset, notice, bytes.len(), &mut WireRef::new(bytes));
        }
        let access = Access { slot: key.slot, nonce: key.nonce, offset, len };
        if bytes.len() + PUT_PREFIX <= self.packet_room(key.owner, Class::Data)?
            && !self.is_putting(key.owner)
        {
            let op = self.start(key.owner, What::Answer)?;
            let head = put_head(op, bytes.len(), true, notice);
            let imm = notice.map_or(0, |(_, imm)| imm);
            let sent = self.send_packet(key.owner, head, Class::Data, |wire| {
                access.words().into_iter().for_each(|word| wire.write_u64(word));
                wire.write_u64(0);
                wire.write_u64(imm);
                wire.write(bytes);
            });
            return self.started(op, sent);
        }
        // Longer than a packet, or behind one that is: keep a copy until it is all sent. `put_from` does without.
        let memory = Memory::private(bytes.len());
        let copied = memory.write(0, bytes);
        debug_assert!(copied, "the copy is as long as the original");
        self.put_from_memory(key, offset, &memory, 0, len, notice, true)
    }

    /// Puts `len` bytes of `source`, from `at` on, into the region at `offset`. The source must not change until
    /// [`Endpoint::is_source_free`]; the operation ends when the bytes are in place.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, job::Job, region::{Memory, Rights, Who}};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (from, to, mut seen) = (Memory::private(1 << 20), Memory::private(1 << 20), [0; 6]);
    /// assert!(from.write(1000, b"middle"));
    /// let key = endpoint.export(&to, Rights::WRITE, Who::Anyone).unwrap();
    /// let op = endpoint.put_from(key, 500, &from, 1000, 100_000).unwrap();
    /// endpoint.finish(&mut Ignore, op, None).unwrap();
    /// assert!(to.read(500, &mut seen));
    /// assert_eq!(&seen, b"middle");
    /// ```
    pub fn put_from(
        &mut self,
        key: Key,
        offset: u64,
        source: &Memory,
        at: u64,
        len: u64,
    ) -> Result<Op, RegionError> {
        if let Some(mapped) = self.direct(key)? {
            let mut bytes = range(source, at, len)?;
            return self.put_direct(key, &mapped, offset, None, len as usize, &mut bytes);
        }
        self.put_from_memory(key, offset, source, at, len, None, false)
    }

    #[allow(clippy::too_many_arguments)]
    fn put_from_memory(
        &mut self,
        key: Key,
        offset: u64,
        source: &Memory,
        at: u64,
        len: u64,
        notice: Option<(Port, u64)>,
        source_free: bool,
    ) -> Result<Op, RegionError> {
        range(source, at, len)?;
        self.peer_mut(key.owner)?;
        let access = Access { slot: key.slot, nonce: key.nonce, offset, len };
        let what = What::Put { memory: source.clone(), at, access, sent: 0, notice };
        let op = self.start(key.owner, what)?;
        self.ops.get_mut(op).expect("started just now").source_free = source_free;
        self.ops.sending.push(op);
        self.pump_puts();
        Ok(op)
    }

    /// Gets `len` bytes of the region from `offset` on into `into` at `at`.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, job::Job, region::{Memory, RegionError, Rights, Who}};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (theirs, ours, mut seen) = (Memory::private(16), Memory::private(16), [0; 5]);
    /// assert!(theirs.write(3, b"fetch"));
    /// let key = endpoint.export(&theirs, Rights::READ, Who::Anyone).unwrap();
    /// let op = endpoint.get(key, 3, &ours, 11, 5).unwrap();
    /// endpoint.finish(&mut Ignore, op, None).unwrap();
    /// assert!(ours.read(11, &mut seen));
    /// assert_eq!(&seen, b"fetch");
    /// assert_eq!(endpoint.get(key, 3, &ours, 12, 5), Err(RegionError::OutOfRange), "there is no place for it here");
    /// ```
    pub fn get(
        &mut self,
        key: Key,
        offset: u64,
        into: &Memory,
        at: u64,
        len: u64,
    ) -> Result<Op, RegionError> {
        range(into, at, len)?;
        if let Some(mapped) = self.direct(key)? {
            let outcome = mapped.check(key, offset, len, Rights::READ).map(|()| {
                let (mut from, mut to) = (range(&mapped.memory, offset, len)?, range_mut(into, at, len)?);
                to.write_from(&mut from);
                self.moved_directly(key.owner, len);
                mapped.still(key)
            });
            return self.ended(key.owner, outcome.and_then(|after| after).map(|()| 0));
        }
        self.behind_puts(key.owner)?;
        let access = Access { slot: key.slot, nonce: key.nonce, offset, len };
        let op = self.start(key.owner, What::Get { memory: into.clone(), at, len, got: 0 })?;
        let head =
            Head { kind: Kind::Get, flags: 0, port: Port(0), len: Access::BYTES as u32, w1: op.to_wire() };
        let sent = self.send_packet(key.owner, head, Class::Data, |wire| {
            access.words().into_iter().for_each(|word| wire.write_u64(word));
        });
        self.started(op, sent)
    }

    /// Updates one word of the region atomically; the outcome is its old value.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, job::Job, region::{Atomic, Memory, Rights, Who, Width}};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let memory = Memory::private(64);
    /// let key = endpoint.export(&memory, Rights::ALL, Who::Anyone).unwrap();
    /// for old in 0..3 {
    ///     let op = endpoint.atomic(key, 8, Width::U64, Atomic::Add(1)).unwrap();
    ///     assert_eq!(endpoint.finish(&mut Ignore, op, None).unwrap(), old);
    /// }
    /// ```
    pub fn atomic(&mut self, key: Key, offset: u64, width: Width, what: Atomic) -> Result<Op, RegionError> {
        if let Some(mapped) = self.direct(key)? {
            let outcome = mapped
                .check(key, offset, width.bytes(), Rights::ATOMIC)
                .and_then(|()| what.apply(&mapped.memory, offset, width));
            return self.ended(key.owner, outcome);
        }
        self.behind_puts(key.owner)?;
        let access = Access { slot: key.slot, nonce: key.nonce, offset, len: width.bytes() };
        let op = self.start(key.owner, What::Answer)?;
        let len = (Access::BYTES + 24) as u32;
        let head = Head { kind: Kind::Atomic, flags: 0, port: Port(0), len, w1: op.to_wire() };
        let sent = self.send_packet(key.owner, head, Class::Data, |wire| {
            access.words().into_iter().chain(what.encode(width)).for_each(|word| wire.write_u64(word));
        });
        self.started(op, sent)
    }

    /// The outcome of an operation, once it has ended; then the operation is forgotten. `None` while it is under way.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, job::Job, region::{Atomic, Memory, Rights, Who, Width}};
    /// # let mut jobs = Job::threads(2).unwrap().into_iter();
    /// # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
    /// let (mut owner, mut caller) = (open(), open());
    /// let key = owner.export(&Memory::private(8), Rights::ATOMIC, Who::Anyone).unwrap();
    /// let op = caller.atomic(key, 0, Width::U64, Atomic::Swap(9)).unwrap();
    /// assert_eq!(caller.take(op), None, "the owner has done nothing yet");
    /// let old = loop {
    ///     owner.progress(&mut Ignore, usize::MAX);
    ///     caller.progress(&mut Ignore, usize::MAX);
    ///     if let Some(outcome) = caller.take(op) {
    ///         break outcome;
    ///     }
    /// };
    /// assert_eq!((old, caller.take(op)), (Ok(0), None));
    /// ```
    pub fn take(&mut self, op: Op) -> Option<Result<u64, RegionError>> {
        self.ops.take(op)
    }

    /// Whether the source of a put may be used again: all of it is on its way, or in place.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, job::Job, region::{Memory, Rights, Who}};
    /// # let mut jobs = Job::threads(2).unwrap().into_iter();
    /// # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
    /// let (mut owner, mut caller, source) = (open(), open(), Memory::private(8 << 20));
    /// let key = owner.export(&Memory::private(8 << 20), Rights::WRITE, Who::Anyone).unwrap();
    /// let op = caller.put_from(key, 0, &source, 0, 8 << 20).unwrap();
    /// assert!(!caller.is_source_free(op), "more than there is room for on the way");
    /// while !caller.is_source_free(op) {
    ///     owner.progress(&mut Ignore, usize::MAX);
    ///     caller.progress(&mut Ignore, usize::MAX);
    /// }
    /// assert!(source.write(0, b"used again"));
    /// ```
    pub fn is_source_free(&self, op: Op) -> bool {
        self.ops.get(op).is_none_or(|running| running.source_free)
    }

    /// Makes progress until the operation has ended, and gives its outcome.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, job::Job, region::{Atomic, Memory, Rights, Who, Width}};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let memory = Memory::private(8);
    /// assert!(memory.write(0, &[3, 0, 0, 0]));
    /// let key = endpoint.export(&memory, Rights::ATOMIC, Who::Anyone).unwrap();
    /// let op = endpoint.atomic(key, 0, Width::U32, Atomic::Add(4)).unwrap();
    /// assert_eq!(endpoint.finish(&mut Ignore, op, None), Ok(3), "the outcome of an update is the old value");
    /// ```
    pub fn finish<D: Deliver>(
        &mut self,
        deliver: &mut D,
        op: Op,
        timeout: Option<Duration>,
    ) -> Result<u64, FinishError> {
        let Some(running) = self.ops.get(op) else { return Err(FinishError::NoSuchOp) };
        let waiting = Waiting { what: "the end of a region operation", on: Some(running.peer) };
        if running.outcome.is_some() {
            self.look_around(deliver);
        }
        let mut outcome = None;
        self.wait_for(waiting, deliver, timeout, |endpoint, _| {
            outcome = endpoint.take(op);
            outcome.is_some()
        })?;
        Ok(outcome.expect("the wait ends when there is one")?)
    }

    /// Operations on mapped memory end without any progress. Whoever does nothing else still serves its peers now and then,
    /// and learns which of them are gone.
    #[inline]
    fn look_around<D: Deliver>(&mut self, deliver: &mut D) {
        if self.rounds.count(0) {
            self.housekeep(deliver);
            self.progress(deliver, usize::MAX);
        }
    }

    /// Bytes moved by us; many of them take as long as looking at the wires often.
    fn moved_directly(&mut self, peer: Peer, bytes: u64) {
        self.peers[peer.index()].stats.direct_bytes += bytes;
        let looks = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
        self.rounds.count_idle(looks);
    }

    fn put_direct(
        &mut self,
        key: Key,
        mapped: &Mapped,
        offset: u64,
        notice: Option<(Port, u64)>,
        len: usize,
        bytes: &mut WireRef<'_>,
    ) -> Result<Op, RegionError> {
        let outcome = mapped.check(key, offset, len as u64, Rights::WRITE).and_then(|()| {
            range_mut(&mapped.memory, offset, len as u64)?.write_from(bytes);
            mapped.still(key)
        });
        self.moved_directly(key.owner, len as u64);
        if let (Ok(()), Some((port, imm))) = (outcome, notice) {
            self.send(key.owner, port, imm, &[])?;
        }
        self.ended(key.owner, outcome.map(|()| 0))
    }

    pub(super) fn start(&mut self, peer: Peer, what: What) -> Result<Op, RegionError> {
        let running = Running { peer, what, source_free: true, outcome: None };
        self.ops.start(running).ok_or(RegionError::Send(SendError::Full))
    }

    fn ended(&mut self, peer: Peer, outcome: Result<u64, RegionError>) -> Result<Op, RegionError> {
        let running = Running { peer, what: What::Answer, source_free: true, outcome: Some(outcome) };
        self.ops.start(running).ok_or(RegionError::Send(SendError::Full))
    }

    /// The operation, if its request went out; otherwise it is as if it had never been.
    pub(super) fn started(&mut self, op: Op, sent: Result<(), SendError>) -> Result<Op, RegionError> {
        if let Err(error) = sent {
            self.ops.finish(op, Ok(0));
            self.ops.take(op);
            return Err(error.into());
        }
        Ok(op)
    }

    /// Sends more of the puts that have bytes left, as far as there is room: none before another to the same peer that was there first.
    pub(crate) fn pump_puts(&mut self) {
        let mut sending = std::mem::take(&mut self.ops.sending);
        let mut full: Vec<Peer> = Vec::new();
        sending.retain(|&op| {
            let Some(peer) = self.ops.get(op).map(|running| running.peer) else { return false };
            let waits = full.contains(&peer) || self.pump_put(op).is_none();
            if waits && !full.contains(&peer) {
                full.push(peer);
            }
            waits
        });
        self.ops.sending.extend(sending);
    }

    /// Whether a put to a peer has bytes left to send.
    fn is_putting(&self, peer: Peer) -> bool {
        let is_to = |op: &Op| self.ops.get(*op).is_some_and(|running| running.peer == peer);
        self.ops.sending.iter().any(is_to)
    }

    /// What has no copy to be kept does not start while a put before it has bytes left to send.
    fn behind_puts(&mut self, peer: Peer) -> Result<(), RegionError> {
        if self.is_putting(peer) {
            self.pump_puts();
        }
        if self.is_putting(peer) { Err(RegionError::Send(SendError::Full)) } else { Ok(()) }
    }

    /// Sends more of one put; `Some` when all of it is on its way, or it has ended.
    fn pump_put(&mut self, op: Op) -> Option<()> {
        loop {
            let Some(Running { peer, what: What::Put { memory, at, access, sent, notice }, .. }) =
                self.ops.get(op)
            else {
                return Some(());
            };
            let (peer, memory, at, access, sent, notice) =
                (*peer, memory.clone(), *at, *access, *sent, *notice);
            let room = match self.packet_room(peer, Class::Data) {
                Ok(room) => room,
                Err(SendError::Full) => return None,
                Err(_) => return Some(()),
            };
            let n = (access.len - sent).min(room.saturating_sub(PUT_PREFIX) as u64);
            if n == 0 && access.len > 0 {
                return None;
            }
            let last = sent + n == access.len;
            let head = put_head(op, n as usize, last, notice);
            let pushed = self.send_packet(peer, head, Class::Data, |wire| {
                access.words().into_iter().for_each(|word| wire.write_u64(word));
                wire.write_u64(sent);
                wire.write_u64(notice.map_or(0, |(_, imm)| imm));
                if let Ok(mut bytes) = range(&memory, at + sent, n) {
                    wire.write_from(&mut bytes);
                }
            });
            if pushed.is_err() {
                return None;
            }
            let running = self.ops.get_mut(op).expect("still under way: it was just now");
            if last {
                running.what = What::Answer;
                running.source_free = true;
                return Some(());
            }
            if let What::Put { sent, .. } = &mut running.what {
                *sent += n;
            }
        }
    }

    /// Bytes we wished for. `None` if they make no sense.
    pub(crate) fn on_data(&mut self, from: Peer, head: &Head, payload: &mut WireRef<'_>) -> Option<()> {
        let op = Op::from_wire(head.w1);
        let at = payload.read_u64()?;
        let running = self.ops.get_mut(op).filter(|running| running.peer == from)?;
        let What::Get { memory, at: start, len, got } = &mut running.what else { return None };
        let n = payload.remaining() as u64;
        if at != *got || at + n > *len {
            return None;
        }
        range_mut(memory, *start + at, n).ok()?.write_from(payload);
        *got += n;
        if head.flags & FLAG_LAST != 0 {
            let whole = *got == *len;
            self.ops.finish(op, if whole { Ok(0) } else { Err(RegionError::OutOfRange) });
        }
        Some(())
    }

    /// The owner's answer. `None` if it makes no sense.
    pub(crate) fn on_ack(&mut self, from: Peer, head: &Head, payload: &mut WireRef<'_>) -> Option<()> {
        let op = Op::from_wire(head.w1);
        let (status, value) = (payload.read_u64()?, payload.read_u64()?);
        let running = self.ops.get(op).filter(|running| running.peer == from)?;
        let outcome = RegionError::from_code(status, from).map(|()| value);
        if let What::Map { slot, nonce } = running.what {
            self.imports.answered(from, slot, nonce, op, outcome);
            self.ops.finish(op, outcome);
            self.ops.take(op);
            return Some(());
        }
        self.ops.finish(op, outcome);
        Some(())
    }
}

/// Why waiting for an operation ended without its success.
///
/// ```
/// use barewire_core::{Config, Endpoint, Ignore, job::Job, region::{FinishError, Memory, RegionError, Rights, Who}};
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let key = endpoint.export(&Memory::private(8), Rights::READ, Who::Anyone).unwrap();
/// let op = endpoint.put(key, 0, b"read only").unwrap();
/// assert!(matches!(endpoint.finish(&mut Ignore, op, None), Err(FinishError::Region(_))));
/// assert_eq!(endpoint.finish(&mut Ignore, op, None), Err(FinishError::NoSuchOp), "asked twice");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The operation failed.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The wait ended first; the operation is still under way.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The operation's outcome was taken before.
    #[error("the operation's outcome was taken before")]
    NoSuchOp,
}

fn put_head(op: Op, len: usize, last: bool, notice: Option<(Port, u64)>) -> Head {
    let flags = if last { FLAG_LAST } else { 0 } | if notice.is_some() { FLAG_NOTICE } else { 0 };
    let port = notice.map_or(Port(0), |(port, _)| port);
    Head { kind: Kind::Put, flags, port, len: (len + PUT_PREFIX) as u32, w1: op.to_wire() }
}

fn range(memory: &Memory, at: u64, len: u64) -> Result<WireRef<'_>, RegionError> {
    let (at, len) = (usize::try_from(at), usize::try_from(len));
    let (Ok(at), Ok(len)) = (at, len) else { return Err(RegionError::OutOfRange) };
    memory.wire_ref(at, len).ok_or(RegionError::OutOfRange)
}

fn range_mut(memory: &Memory, at: u64, len: u64) -> Result<barewire_sys::wirebuf::WireMut<'_>, RegionError> {
    let (at, len) = (usize::try_from(at), usize::try_from(len));
    let (Ok(at), Ok(len)) = (at, len) else { return Err(RegionError::OutOfRange) };
    memory.wire_mut(at, len).ok_or(RegionError::OutOfRange)
}
