//! The send queue: each descriptor in its turn, as far as room, credit and the other end allow.
//!
//! A message never overtakes an RDMA write before it, nor goes out if that was refused on a connection that breaks for it: it waits
//! until the write has ended. Over shared memory a write ends at once, so nothing waits.

use std::time::Duration;

use barewire_core::region::{Key, RegionError};
use barewire_core::{Endpoint, SendError};
use barewire_sys::wirebuf::WireMut;

use super::descriptor::{Descriptor, Op, Queue, Remote};
use super::engine::{Engine, Shop};
use super::names::{Cause, Flow, OnRefusal, Reliability, Status, ViState};
use super::vi::{Flight, Queued, Stage, Streaming, ViEntry};
use super::wire::{self, Kind};
use crate::deadline::Deadline;
use crate::slab::Slot;

/// Why a descriptor did not begin.
enum Stop {
    /// Look again at every poll: for room, an RDMA operation, or a moment.
    Poll,
    /// Somebody will say when: credit, or access to memory.
    Told,
    /// It ended before it began.
    Failed(Status),
    Lost,
}

impl From<SendError> for Stop {
    #[cold]
    fn from(error: SendError) -> Stop {
        match error {
            SendError::Full => Stop::Poll,
            _ => Stop::Lost,
        }
    }
}

impl Engine {
    /// Posts a descriptor to a VI that is connected or about to be.
    #[inline(always)]
    pub fn post(&mut self, core: &mut Endpoint, id: Slot, descriptor: Box<Descriptor>) {
        let Engine { vis, shop, .. } = self;
        let Some(entry) = vis.get_mut(id) else { return };
        shop.counters.doorbells += 1;
        let idle = entry.sends.is_empty() && entry.flight.is_empty() && entry.streaming.is_none();
        if idle && entry.state == ViState::Connected && descriptor.op == Op::Send && !entry.waits_for_word() {
            if let Ok(()) = send_message(core, shop, entry, &descriptor) {
                entry.number = entry.number.wrapping_add(1);
                let length = descriptor.bytes();
                shop.finish(id, entry, Queue::Send, descriptor.ended(Status::Success, length));
                return;
            }
        }
        entry.sends.push_back(Queued { descriptor, written: false });
        self.advance(core, id);
    }

    /// Moves a VI's send queue as far as it goes.
    #[inline(never)]
    pub fn advance(&mut self, core: &mut Endpoint, id: Slot) {
        let Engine { vis, shop, .. } = self;
        let Some(entry) = vis.get_mut(id) else { return };
        match run(core, shop, entry, id) {
            Ok(again) => {
                if again && !entry.listed {
                    entry.listed = true;
                    self.stalled.push(id);
                }
            }
            Err(cause) => self.break_vi(core, id, cause),
        }
    }

    /// The other end has received this many messages, and posted so many receives.
    pub fn on_ack(&mut self, core: &mut Endpoint, id: Slot, received: u32, posted: u32) {
        let Some(entry) = self.vis.get_mut(id) else { return };
        // Only what was sent can have been received; a liar gains nothing but its own messages' loss.
        let ahead = received.wrapping_sub(entry.number) as i32 > 0;
        if ahead {
            return;
        }
        entry.granted = posted;
        let mut moved = false;
        for flight in &mut entry.flight {
            match flight.stage {
                Stage::Await(number) if (number.wrapping_sub(received) as i32) < 0 => {
                    flight.stage = Stage::Done(Status::Success);
                    moved = true;
                }
                _ => {}
            }
        }
        if moved {
            entry.tries = 0;
        }
        self.advance(core, id);
    }

    /// The other end was not ready for message `number`: it and all after it go out again, later.
    pub fn on_not_ready(&mut self, core: &mut Endpoint, id: Slot, number: u32) {
        let Some(entry) = self.vis.get_mut(id) else { return };
        let Flow::Rnr { tries, pause } = entry.attributes.flow else {
            return self.break_vi(core, id, Cause::RemoteNoReceive);
        };
        let from = |flight: &Flight| matches!(flight.stage, Stage::Await(n) if n == number);
        let begun = entry.streaming.as_ref().is_some_and(|streaming| streaming.aborted.is_none());
        let at = match entry.flight.iter().position(from) {
            Some(at) => at,
            // The one that is just going out: it is broken off and begun again.
            None if begun && number == entry.number => entry.flight.len(),
            None => return,
        };
        self.shop.counters.not_ready += 1;
        entry.tries += 1;
        if entry.tries > tries {
            // What was received before it did arrive.
            let before: Vec<Flight> = entry.flight.drain(..at).collect();
            for Flight { descriptor, .. } in before {
                let length = descriptor.bytes();
                self.shop.finish(id, entry, Queue::Send, descriptor.ended(Status::Success, length));
            }
            if let Some(streaming) = entry.streaming.take_if(|_| entry.flight.is_empty()) {
                let stage = Stage::Await(number);
                entry.flight.push_back(Flight { descriptor: streaming.descriptor, stage });
            }
            return self.break_vi(core, id, Cause::NotReady);
        }
        let again = entry.flight.len() - at;
        if let Some(streaming) = &mut entry.streaming {
            streaming.aborted = Some(again);
        }
        for Flight { descriptor, .. } in entry.flight.drain(at..).rev() {
            let written = descriptor.op == Op::RdmaWrite;
            entry.sends.push_front(Queued { descriptor, written });
        }
        entry.number = number;
        entry.resume_at = Some(Deadline::after(Some(pause)));
        self.advance(core, id);
    }
}

/// Moves a send queue; whether it has to be looked at again, or why the connection breaks.
fn run(core: &mut Endpoint, shop: &mut Shop, entry: &mut ViEntry, id: Slot) -> Result<bool, Cause> {
    reap(core, shop, entry, id)?;
    if entry.state != ViState::Connected {
        return Ok(false);
    }
    loop {
        if entry.streaming.is_some() && !stream(core, shop, entry, id)? {
            return Ok(true);
        }
        if let Some(at) = entry.resume_at {
            if at.left() != Some(Duration::ZERO) {
                return Ok(true);
            }
            entry.resume_at = None;
        }
        let Some(queued) = entry.sends.pop_front() else { return Ok(entry.rdma > 0) };
        let stop = match begin(core, shop, entry, id, &queued) {
            Ok(Begun::Sent) => {
                sent(shop, entry, id, queued.descriptor);
                continue;
            }
            Ok(Begun::Stream(sending)) => {
                entry.streaming = Some(Streaming { descriptor: queued.descriptor, sending, aborted: None });
                continue;
            }
            Ok(Begun::Rdma(key)) => {
                let at = queued.descriptor.remote.map_or(0, |remote| remote.offset);
                let stage = Stage::Rdma { ops: Vec::new(), next: 0, at, key, status: Status::Success };
                entry.flight.push_back(Flight { descriptor: queued.descriptor, stage });
                entry.rdma += 1;
                shop.counters.rdma += 1;
                reap(core, shop, entry, id)?;
                continue;
            }
            Err(stop) => stop,
        };
        match stop {
            Stop::Failed(status) => {
                entry.flight.push_back(Flight { descriptor: queued.descriptor, stage: Stage::Done(status) });
                reap(core, shop, entry, id)?;
            }
            Stop::Poll | Stop::Told => {
                entry.sends.push_front(queued);
                return Ok(matches!(stop, Stop::Poll) || entry.rdma > 0);
            }
            Stop::Lost => {
                entry.sends.push_front(queued);
                return Err(Cause::PeerLost);
            }
        }
    }
}

enum Begun {
    Sent,
    Stream(barewire_core::Sending),
    Rdma(Key),
}

/// Begins a descriptor, if it may.
fn begin(
    core: &mut Endpoint,
    shop: &mut Shop,
    entry: &mut ViEntry,
    id: Slot,
    queued: &Queued,
) -> Result<Begun, Stop> {
    let descriptor = &*queued.descriptor;
    if descriptor.bytes() > entry.attributes.transfer_max {
        return Err(Stop::Failed(Status::Length));
    }
    if !shop.reaches(entry.tag, descriptor) {
        return Err(Stop::Failed(Status::Protection));
    }
    match descriptor.op {
        Op::Receive => Err(Stop::Failed(Status::Format)),
        Op::RdmaWrite if queued.written => send_notice(core, entry, descriptor).map(|()| Begun::Sent),
        Op::RdmaWrite | Op::RdmaRead => may_access(core, shop, entry, id, descriptor).map(Begun::Rdma),
        Op::Send => match send_message(core, shop, entry, descriptor) {
            Err(Refusal::TooLong) => {
                let (port, imm) = (
                    wire::port(Kind::Message, descriptor.immediate.is_some()),
                    descriptor.immediate.unwrap_or(0),
                );
                Ok(Begun::Stream(core.begin(entry.peer, port, imm, 8 + descriptor.bytes())?))
            }
            Err(Refusal::Stop(stop)) => Err(stop),
            Ok(()) => Ok(Begun::Sent),
        },
    }
}

enum Refusal {
    TooLong,
    Stop(Stop),
}

/// Whether a message may go out now.
#[inline(always)]
fn may_send(entry: &ViEntry) -> Result<(), Stop> {
    if entry.rdma > 0 {
        return Err(Stop::Poll);
    }
    if entry.attributes.flow == Flow::Credits && entry.granted == entry.number {
        return Err(Stop::Told);
    }
    Ok(())
}

/// Sends a message that fits one packet.
#[inline(always)]
fn send_message(
    core: &mut Endpoint,
    shop: &Shop,
    entry: &ViEntry,
    descriptor: &Descriptor,
) -> Result<(), Refusal> {
    may_send(entry).map_err(Refusal::Stop)?;
    let bytes = descriptor.bytes();
    if bytes > entry.attributes.transfer_max || !shop.reaches(entry.tag, descriptor) {
        // Said in its turn by `begin`.
        return Err(Refusal::Stop(Stop::Poll));
    }
    let (port, imm) =
        (wire::port(Kind::Message, descriptor.immediate.is_some()), descriptor.immediate.unwrap_or(0));
    let head = wire::pair(entry.remote, entry.number);
    let len = usize::try_from(bytes).map_or(usize::MAX, |bytes| bytes.saturating_add(8));
    let sent = core.send_with(entry.peer, port, imm, len, |wire| {
        wire.write_u64(head);
        gather(shop, entry, descriptor, 0, wire);
    });
    match sent {
        Ok(()) => Ok(()),
        Err(SendError::TooLong { .. }) => Err(Refusal::TooLong),
        Err(error) => Err(Refusal::Stop(error.into())),
    }
}

/// Writes a descriptor's bytes from `skip` on until the wire has enough.
#[inline(always)]
fn gather(shop: &Shop, entry: &ViEntry, descriptor: &Descriptor, mut skip: u64, wire: &mut WireMut<'_>) {
    for segment in &descriptor.segments {
        if skip >= segment.len {
            skip -= segment.len;
            continue;
        }
        let n = wire.remaining().min((segment.len - skip) as usize);
        let from = shop.reach(entry.tag, segment);
        if let Some(mut from) = from.and_then(|m| m.wire_ref((segment.offset + skip) as usize, n)) {
            wire.write_from(&mut from);
        }
        skip = 0;
    }
}

/// Says that an RDMA write is in place.
fn send_notice(core: &mut Endpoint, entry: &ViEntry, descriptor: &Descriptor) -> Result<(), Stop> {
    may_send(entry)?;
    let head = wire::pair(entry.remote, entry.number);
    let imm = descriptor.immediate.unwrap_or(0);
    core.send_with(entry.peer, wire::port(Kind::Notice, true), imm, 16, |wire| {
        wire.write_u64(head);
        wire.write_u64(descriptor.bytes());
    })?;
    Ok(())
}

/// A message is on its way: it has ended, or waits for word.
fn sent(shop: &mut Shop, entry: &mut ViEntry, id: Slot, descriptor: Box<Descriptor>) {
    let number = entry.number;
    entry.number = number.wrapping_add(1);
    if entry.waits_for_word() {
        entry.flight.push_back(Flight { descriptor, stage: Stage::Await(number) });
    } else {
        let length = descriptor.bytes();
        shop.finish(id, entry, Queue::Send, descriptor.ended(Status::Success, length));
    }
}

/// Sends more of a long message; true once it is all on its way, or put off.
fn stream(core: &mut Endpoint, shop: &mut Shop, entry: &mut ViEntry, id: Slot) -> Result<bool, Cause> {
    let Some(mut streaming) = entry.streaming.take() else { return Ok(true) };
    let head = wire::pair(entry.remote, entry.number).to_le_bytes();
    loop {
        if let Some(older) = streaming.aborted {
            return match core.end(&mut streaming.sending) {
                Err(SendError::Full) => {
                    entry.streaming = Some(streaming);
                    Ok(false)
                }
                _ => {
                    let queued = Queued { descriptor: streaming.descriptor, written: false };
                    entry.sends.insert(older.min(entry.sends.len()), queued);
                    Ok(true)
                }
            };
        }
        if streaming.sending.is_done() {
            sent(shop, entry, id, streaming.descriptor);
            return Ok(true);
        }
        let done = streaming.sending.sent();
        let (sending, descriptor) = (&mut streaming.sending, &streaming.descriptor);
        let pushed = core.push_packet(sending, usize::MAX, |wire, n| {
            let of_head = n.min(8usize.saturating_sub(done as usize));
            if of_head > 0 {
                wire.write(&head[done as usize..][..of_head]);
            }
            gather(shop, entry, descriptor, (done + of_head as u64).max(8) - 8, wire);
        });
        match pushed {
            Ok(_) => {}
            Err(SendError::Full) => {
                entry.streaming = Some(streaming);
                return Ok(false);
            }
            Err(_) => {
                entry.streaming = Some(streaming);
                return Err(Cause::PeerLost);
            }
        }
    }
}

/// Whether an RDMA operation may begin: the key, if the other end has given it.
fn may_access(
    core: &mut Endpoint,
    shop: &mut Shop,
    entry: &mut ViEntry,
    id: Slot,
    descriptor: &Descriptor,
) -> Result<Key, Stop> {
    let is_read = descriptor.op == Op::RdmaRead;
    let Some(Remote { memory, offset }) = descriptor.remote else {
        return Err(Stop::Failed(Status::Format));
    };
    if is_read && (entry.attributes.reliability == Reliability::Unreliable || descriptor.immediate.is_some())
    {
        return Err(Stop::Failed(Status::Format));
    }
    // One that still has its immediate to send, or messages that may have to go out again, come first.
    let last = entry.flight.back();
    let notice_first =
        last.is_some_and(|f| matches!(f.stage, Stage::Rdma { .. }) && f.descriptor.immediate.is_some());
    if notice_first || (entry.is_numbered() && last.is_some_and(|f| matches!(f.stage, Stage::Await(_)))) {
        return Err(if notice_first { Stop::Poll } else { Stop::Told });
    }
    let right = u8::from(is_read);
    match entry.keys.get(&(memory.0, right)) {
        Some(Some(key)) => match offset.checked_add(descriptor.bytes()) {
            Some(end) if end <= key.len => Ok(*key),
            _ => Err(Stop::Failed(Status::RemoteProtection)),
        },
        Some(None) => {
            entry.keys.remove(&(memory.0, right));
            Err(Stop::Failed(Status::RemoteProtection))
        }
        None => {
            if entry.asked.is_none() {
                let (port, words) = (wire::port(Kind::Resolve, false), wire::pair(entry.remote, id.short()));
                core.send_with(entry.peer, port, memory.0, 16, |wire| {
                    wire.write_u64(words);
                    wire.write_u64(u64::from(right));
                })?;
                entry.asked = Some((memory.0, right));
                shop.counters.resolves += 1;
            }
            Err(Stop::Told)
        }
    }
}

/// Takes RDMA operations on, and ends what has ended, in order.
fn reap(core: &mut Endpoint, shop: &mut Shop, entry: &mut ViEntry, id: Slot) -> Result<(), Cause> {
    if entry.rdma > 0 {
        let ViEntry { flight, keys, tag, .. } = entry;
        for Flight { descriptor, stage } in flight.iter_mut() {
            if let Stage::Rdma { status: Status::RemoteProtection, .. } =
                take_on(core, shop, *tag, descriptor, stage)
            {
                // The key may have been revoked: ask anew next time.
                let right = u8::from(descriptor.op == Op::RdmaRead);
                if let Some(remote) = descriptor.remote {
                    keys.remove(&(remote.memory.0, right));
                }
            }
        }
    }
    while let Some(Flight { stage, .. }) = entry.flight.front() {
        let status = match stage {
            Stage::Done(status) => *status,
            Stage::Rdma { ops, next, status, .. } => {
                let Flight { descriptor, .. } = &entry.flight[0];
                let begun = *next >= descriptor.segments.len() || *status != Status::Success;
                if !ops.is_empty() || !begun {
                    return Ok(());
                }
                *status
            }
            Stage::Await(_) => return Ok(()),
        };
        let Flight { descriptor, stage } = entry.flight.pop_front().expect("looked at just above");
        let was_rdma = matches!(stage, Stage::Rdma { .. });
        entry.rdma -= u32::from(was_rdma);
        if was_rdma && status == Status::Success && descriptor.immediate.is_some() {
            entry.sends.push_front(Queued { descriptor, written: true });
            return Ok(());
        }
        let length = if status == Status::Success { descriptor.bytes() } else { 0 };
        shop.finish(id, entry, Queue::Send, descriptor.ended(status, length));
        breaks(entry, status)?;
    }
    Ok(())
}

/// Whether a descriptor that ended so breaks its connection.
fn breaks(entry: &ViEntry, status: Status) -> Result<(), Cause> {
    if entry.attributes.reliability == Reliability::Unreliable {
        return Ok(());
    }
    match status {
        Status::RemoteProtection if entry.attributes.on_refusal == OnRefusal::Report => Ok(()),
        Status::RemoteProtection => Err(Cause::RemoteProtection),
        Status::Protection => Err(Cause::Protection),
        Status::Format => Err(Cause::Format),
        Status::Length => Err(Cause::Length),
        Status::PeerLost => Err(Cause::PeerLost),
        _ => Ok(()),
    }
}

/// Begins the operations on the segments that are left, and takes the outcomes that are there.
fn take_on<'a>(
    core: &mut Endpoint,
    shop: &Shop,
    tag: super::names::Ptag,
    descriptor: &Descriptor,
    stage: &'a mut Stage,
) -> &'a Stage {
    let Stage::Rdma { ops, next, at, key, status } = stage else { return stage };
    while *status == Status::Success && *next < descriptor.segments.len() {
        let segment = &descriptor.segments[*next];
        let Some(memory) = shop.reach(tag, segment) else {
            *status = Status::Protection;
            break;
        };
        let started = match descriptor.op {
            Op::RdmaRead => core.get(*key, *at, memory, segment.offset, segment.len),
            _ => core.put_from(*key, *at, memory, segment.offset, segment.len),
        };
        match started {
            Ok(op) => ops.push(op),
            Err(RegionError::Send(SendError::Full)) => break,
            Err(error) => *status = status_of(error),
        }
        *next += 1;
        *at += segment.len;
    }
    ops.retain(|&op| match core.take(op) {
        None => true,
        Some(Ok(_)) => false,
        Some(Err(error)) => {
            *status = status_of(error);
            false
        }
    });
    stage
}

fn status_of(error: RegionError) -> Status {
    match error {
        RegionError::Send(_) => Status::PeerLost,
        _ => Status::RemoteProtection,
    }
}
