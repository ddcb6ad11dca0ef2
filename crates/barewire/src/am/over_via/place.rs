//! Bulk data: RDMA writes straight into the target's segment, from its own memory if that is counted, and a message that follows.
//!
//! The first time the target is asked for its segment, with the tag, the handler and the place of the message that would
//! follow; after that only if it has closed it, as it does when tag or segment change.

use barewire_core::{Flow, Peer, Port, SendError};
use barewire_sys::memory::Memory;
use barewire_sys::wirebuf::{WireMut, WireRef};

use super::super::bulk::{Bulk, Head, Place};
use super::super::context::Body;
use super::super::link::Link;
use super::super::names::{Code, Tag};
use super::super::side::Parcel;
use super::super::tables::{Tables, read_args};
use super::super::wire::{self, ARGS_MAX, Imm, Kind, PortBits};
use super::{Carrier, RDMA};
use crate::via::{Descriptor, MemAttributes, MemHandle, RemoteMem, Status};

/// Bytes of bulk data in one RDMA write.
const CHUNK: usize = 64 << 10;

const _: () = assert!(ARGS_MAX * 8 + 24 <= Head::BYTES_MAX, "a placed message fits");

/// Where asking for the other end's segment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceAsk {
    No,
    Asked,
    Told(Option<(RemoteMem, u64)>),
}

/// A bulk transfer under way.
#[derive(Debug)]
pub(in super::super) struct Placing {
    to: Peer,
    port: Port,
    imm: Imm,
    channel: usize,
    stage: Stage,
    /// Bytes in place.
    at: usize,
    /// It went wrong once already, because the segment had changed.
    again: bool,
    buffer: Option<(Memory, MemHandle)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    Asked,
    Write(RemoteMem),
    Writing(Writing),
    Tell { placed: bool },
    Done,
}

/// An RDMA write under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Writing {
    segment: RemoteMem,
    number: u64,
    len: usize,
    /// Where it reads, if that is the user's memory.
    source: Option<MemHandle>,
}

impl Placing {
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }
}

impl Carrier {
    /// A bulk transfer whose data is in its place, or could not be put there.
    #[cold]
    pub(super) fn placed<S>(
        &mut self,
        tables: &mut Tables<S>,
        from: Peer,
        port: Port,
        imm: Imm,
        packet: &mut WireRef<'_>,
    ) -> Option<Flow> {
        let bits = PortBits(port.0);
        let kind = bits.kind().filter(|kind| kind.is_xfer())?;
        let (tag, offset, len) = (Tag(packet.read_u64()?), packet.read_u64()?, packet.read_u64()?);
        let (args, count) = read_args(bits.args(), || packet.read_u64())?;
        let parcel = Parcel {
            from,
            kind,
            returned: None,
            want: bits.want() && kind.is_request(),
            imm,
            tag,
            place: Place { offset, len },
            count,
            args,
            answers: !kind.is_request(),
            in_doubt: 0,
        };
        if port.0 & wire::PLACED != 0 {
            return Some(tables.accept(&mut Link::Via(self), parcel, Body::Kept(&[])));
        }
        let code = tables.check(&parcel).map_or_else(|code| code, |_| Code::BadSegmentOffset);
        tables.give_back(&mut Link::Via(self), &parcel, Body::Kept(&[]), code);
        Some(Flow::Continue)
    }

    /// Somebody wants to put data into a segment: if the message that would follow is welcome, so is the data.
    #[cold]
    pub(super) fn place_asked<S>(
        &mut self,
        tables: &mut Tables<S>,
        from: Peer,
        imm: Imm,
        packet: &mut WireRef<'_>,
    ) -> Option<Flow> {
        let kind = PortBits(packet.read_u64()? as u16).kind().filter(|kind| kind.is_xfer())?;
        let (tag, offset, len) = (Tag(packet.read_u64()?), packet.read_u64()?, packet.read_u64()?);
        let mut parcel = Parcel::come_back(Code::BadTag, kind, from, imm.back(imm.handler()), tag, &[]);
        parcel.returned = None;
        parcel.place = Place { offset, len };
        let segment = tables.check(&parcel).ok().and_then(|side| side.segment.clone());
        let offer = segment.and_then(|segment| {
            Some([self.open_segment(imm.to(), &segment)?.remote().0, segment.len() as u64])
        });
        let words = offer.as_ref().map_or(&[][..], |offer| offer);
        let settles = u32::from(kind.is_request());
        // If the peer is gone, it puts nothing anywhere.
        let _ = self.answer_for(settles, from, wire::PLACE_TELL, imm.back(0), 8 * words.len(), |wire| {
            wire.write_words(words)
        });
        Some(Flow::Continue)
    }

    /// Lets others write to an endpoint's segment.
    fn open_segment(&mut self, ep: u16, segment: &Memory) -> Option<MemHandle> {
        if let Some(&handle) = self.segments.get(&ep) {
            return Some(handle);
        }
        let open = MemAttributes { rdma_write: true, rdma_read: false };
        let handle = self.nic.register(segment, self.tag, open).ok()?;
        self.segments.insert(ep, handle);
        Some(handle)
    }

    /// Whoever could write to this endpoint's segment cannot any more.
    pub fn close_segment(&mut self, ep: u16) {
        if let Some(handle) = self.segments.remove(&ep) {
            let _ = self.nic.deregister(handle);
        }
    }

    /// Opens a bulk transfer.
    pub fn begin(&mut self, to: Peer, port: Port, imm: Imm) -> Result<Placing, SendError> {
        let channel = self.channel(to, imm)?;
        Ok(Placing { to, port, imm, channel, stage: Stage::Begin, at: 0, again: false, buffer: None })
    }

    /// Takes a bulk transfer one step on; [`SendError::Full`] if it has to wait.
    pub fn push(&mut self, placing: &mut Placing, head: &Head, data: &Bulk<'_>) -> Result<(), SendError> {
        let (offset, len) = (head.word(1), data.len());
        if self.channels[placing.channel].broken {
            if let Stage::Writing(Writing { source: Some(source), .. }) = placing.stage {
                self.sources.unpin(source);
            }
            self.stages.extend(placing.buffer.take());
            return Err(SendError::Lost(placing.to));
        }
        match placing.stage {
            Stage::Begin => {
                let fits = |segment: &(RemoteMem, u64)| {
                    offset.checked_add(len as u64).is_some_and(|end| end <= segment.1)
                };
                match self.channels[placing.channel].segment.filter(fits) {
                    Some((segment, _)) => placing.stage = Stage::Write(segment),
                    None => self.ask_place(placing, head, len)?,
                }
                Ok(())
            }
            Stage::Asked => {
                let channel = &mut self.channels[placing.channel];
                let PlaceAsk::Told(told) = channel.place else { return Err(SendError::Full) };
                (channel.place, channel.segment) = (PlaceAsk::No, told);
                placing.stage = match told {
                    Some((segment, _)) => Stage::Write(segment),
                    None => Stage::Tell { placed: false },
                };
                Ok(())
            }
            Stage::Write(segment) if placing.at < len => self.write(placing, segment, offset, data),
            Stage::Write(_) => {
                placing.stage = Stage::Tell { placed: true };
                Ok(())
            }
            Stage::Writing(writing) => self.wrote(placing, writing),
            Stage::Tell { placed } => self.tell(placing, head, len, placed),
            Stage::Done => Ok(()),
        }
    }

    /// Asks for the other end's segment, one transfer of a channel at a time. A reply must not wait for credit to ask: the other end
    /// may have none to give before it has its reply. It has the room of the request that it answers.
    fn ask_place(&mut self, placing: &mut Placing, head: &Head, len: usize) -> Result<(), SendError> {
        if self.channels[placing.channel].place != PlaceAsk::No {
            return Err(SendError::Full);
        }
        let words = [u64::from(placing.port.0), head.word(0), head.word(1), len as u64];
        let (to, port, imm) = (placing.to, wire::PLACE_ASK, placing.imm);
        let fill = |wire: &mut WireMut<'_>| wire.write_words(&words);
        if PortBits(placing.port.0).kind().is_some_and(Kind::is_request) {
            self.ask(to, port, imm, 32, fill)?;
        } else {
            self.answer_for(0, to, port, imm, 32, fill)?;
        }
        self.channels[placing.channel].place = PlaceAsk::Asked;
        placing.stage = Stage::Asked;
        Ok(())
    }

    /// Begins to write the next bytes.
    fn write(
        &mut self,
        placing: &mut Placing,
        segment: RemoteMem,
        offset: u64,
        data: &Bulk<'_>,
    ) -> Result<(), SendError> {
        let len = CHUNK.min(data.len() - placing.at);
        let number = RDMA | self.next_write;
        let write = Descriptor::rdma_write(segment, offset + placing.at as u64).cookie(number);
        let (write, source) = match data {
            Bulk::Memory(memory, range) => {
                let handle = self.source(memory)?;
                let from = (range.start + placing.at) as u64;
                (write.segment(handle, from, len as u64), Some(handle))
            }
            Bulk::Bytes(_) => {
                if placing.buffer.is_none() {
                    placing.buffer = Some(self.stage()?);
                }
                let (memory, handle) = placing.buffer.as_ref().expect("set just above");
                let mut wire = memory.wire_mut(0, len).expect("a chunk fits");
                data.write(&mut wire, placing.at, len);
                (write.segment(*handle, 0, len as u64), None)
            }
        };
        if self.nic.post_send(self.channels[placing.channel].vi, write).is_err() {
            return Err(SendError::Lost(placing.to));
        }
        self.next_write += 1;
        placing.stage = Stage::Writing(Writing { segment, number, len, source });
        Ok(())
    }

    /// The handle of a source, which stays where it is until the write that reads it has ended.
    fn source(&mut self, memory: &Memory) -> Result<MemHandle, SendError> {
        if let Some(handle) = self.sources.pin(memory, &()) {
            return Ok(handle);
        }
        while let Some(old) = self.sources.evict(1) {
            let _ = self.nic.deregister(old);
        }
        if self.sources.is_full() {
            return Err(SendError::Full);
        }
        let handle = self.nic.register(memory, self.tag, MemAttributes::default());
        let handle = handle.map_err(|_| SendError::Full)?;
        self.sources.insert(memory, (), handle);
        Ok(handle)
    }

    /// A buffer for bytes that are not in counted memory.
    fn stage(&mut self) -> Result<(Memory, MemHandle), SendError> {
        if let Some(stage) = self.stages.pop() {
            return Ok(stage);
        }
        let memory = Memory::private(CHUNK);
        let handle = self.nic.register(&memory, self.tag, MemAttributes::default());
        handle.map(|handle| (memory, handle)).map_err(|_| SendError::Full)
    }

    /// What has become of a write.
    fn wrote(&mut self, placing: &mut Placing, writing: Writing) -> Result<(), SendError> {
        self.reap_sends();
        let status = self.written.remove(&writing.number).ok_or(SendError::Full)?;
        writing.source.into_iter().for_each(|source| self.sources.unpin(source));
        match status {
            Status::Success => {
                placing.at += writing.len;
                placing.stage = Stage::Write(writing.segment);
                Ok(())
            }
            Status::RemoteProtection => {
                // The segment was closed. Perhaps there is another; perhaps we are not welcome any more.
                self.channels[placing.channel].segment = None;
                placing.at = 0;
                placing.stage = if placing.again { Stage::Tell { placed: false } } else { Stage::Begin };
                placing.again = true;
                Ok(())
            }
            _ => Err(SendError::Lost(placing.to)),
        }
    }

    /// Says that the data is in its place, or that it is not.
    fn tell(
        &mut self,
        placing: &mut Placing,
        head: &Head,
        len: usize,
        placed: bool,
    ) -> Result<(), SendError> {
        let port = wire::with(placing.port, if placed { wire::PLACED } else { wire::MISPLACED });
        let bytes = head.bytes();
        let size = bytes.len() + 8;
        let (to, imm) = (placing.to, placing.imm);
        let fill = |wire: &mut WireMut<'_>| {
            wire.write(&bytes[..16]);
            wire.write_u64(len as u64);
            wire.write(&bytes[16..]);
        };
        if PortBits(port.0).kind().is_some_and(Kind::is_request) {
            self.ask(to, port, imm, size, fill)?;
        } else {
            self.answer(to, port, imm, size, fill)?;
        }
        placing.stage = Stage::Done;
        self.stages.extend(placing.buffer.take());
        Ok(())
    }
}
