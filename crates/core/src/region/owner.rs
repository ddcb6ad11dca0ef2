//! The owner's side: checks every packet from outside, then reads, writes or updates its own memory.

use barewire_sys::wirebuf::WireRef;

use super::ops::OPS_A_PEER;
use super::{Atomic, RegionError, Rights};
use crate::Peer;
use crate::Port;
use crate::endpoint::Endpoint;
use crate::error::SendError;
use crate::hold::HoldSlot;
use crate::incoming::{Deliver, Flow, Incoming};
use crate::provider::{Class, Tx};
use crate::wire::{Access, FLAG_LAST, FLAG_NOTICE, Head, Kind};

/// Gets that are still being answered, each with at most one packet's worth at a time.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    gets: Vec<Serve>,
}

#[derive(Debug)]
struct Serve {
    to: Peer,
    op: u64,
    access: Access,
    sent: u64,
}

impl Serving {
    pub fn is_empty(&self) -> bool {
        self.gets.is_empty()
    }

    pub fn forget(&mut self, peer: Peer) {
        self.gets.retain(|serve| serve.to != peer);
    }
}

/// Reads `N` words, or says that the packet is too short for them.
fn words<const N: usize>(payload: &mut WireRef<'_>) -> Option<[u64; N]> {
    let mut words = [0; N];
    for word in &mut words {
        *word = payload.read_u64()?;
    }
    Some(words)
}

/// Says that a region can be mapped, but that its descriptor cannot be passed yet.
pub(super) const MAP_LATER: u64 = 2;

impl Endpoint {
    /// A put packet. `None` if it makes no sense.
    pub(crate) fn on_put<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        head: &Head,
        payload: &mut WireRef<'_>,
    ) -> Option<Flow> {
        let [slot, nonce, offset, len, at, imm] = words::<6>(payload)?;
        let access = Access::from_words([slot, nonce, offset, len])?;
        let here = payload.remaining() as u64;
        if at.checked_add(here).is_none_or(|end| end > len) {
            return None;
        }
        let outcome = self.exports.check(from, &access, Rights::WRITE).and_then(|export| {
            let start = usize::try_from(offset + at).map_err(|_| RegionError::OutOfRange)?;
            let mut place = export.memory.wire_mut(start, here as usize).ok_or(RegionError::OutOfRange)?;
            place.write_from(payload);
            Ok(0)
        });
        if head.flags & FLAG_LAST == 0 {
            return Some(Flow::Continue);
        }
        self.acknowledge(from, head.w1, outcome);
        if outcome.is_ok() && head.flags & FLAG_NOTICE != 0 {
            let hold = HoldSlot::default();
            return Some(
                deliver.deliver(self, Incoming::whole(from, head.port, imm, WireRef::new(&[]), &hold)),
            );
        }
        Some(Flow::Continue)
    }

    /// A wish for bytes. `None` if it makes no sense.
    pub(crate) fn on_get(&mut self, from: Peer, head: &Head, payload: &mut WireRef<'_>) -> Option<()> {
        let access = Access::from_words(words(payload)?)?;
        match self.exports.check(from, &access, Rights::READ) {
            Err(error) => self.acknowledge(from, head.w1, Err(error)),
            Ok(_) => {
                if self.serving.gets.iter().filter(|serve| serve.to == from).count() >= OPS_A_PEER as usize {
                    return None;
                }
                self.serving.gets.push(Serve { to: from, op: head.w1, access, sent: 0 });
                self.serve();
            }
        }
        Some(())
    }

    /// Sends what others wait for, as far as there is room.
    pub(crate) fn serve(&mut self) {
        let mut gets = std::mem::take(&mut self.serving.gets);
        gets.retain_mut(|get| self.serve_one(get));
        self.serving.gets.extend(gets);
    }

    /// Sends more of what somebody wants to get; false when there is no more to be sent. What was revoked meanwhile is not.
    fn serve_one(&mut self, get: &mut Serve) -> bool {
        loop {
            let room = match self.packet_room(get.to, Class::Data) {
                Ok(room) => room,
                Err(error) => return error == SendError::Full,
            };
            let memory = match self.exports.check(get.to, &get.access, Rights::READ) {
                Ok(export) => export.memory.clone(),
                Err(error) => {
                    self.acknowledge(get.to, get.op, Err(error));
                    return false;
                }
            };
            let len = get.access.len;
            let n = (len - get.sent).min(room.saturating_sub(8) as u64);
            if n == 0 && len > 0 {
                return true;
            }
            let last = get.sent + n == len;
            let flags = if last { FLAG_LAST } else { 0 };
            let head = Head { kind: Kind::Data, flags, port: Port(0), len: n as u32 + 8, w1: get.op };
            let start = (get.access.offset + get.sent) as usize;
            let sent = self.send_packet(get.to, head, Class::Data, |wire| {
                wire.write_u64(get.sent);
                if let Some(mut bytes) = memory.wire_ref(start, n as usize) {
                    wire.write_from(&mut bytes);
                }
            });
            if let Err(error) = sent {
                return error == SendError::Full;
            }
            get.sent += n;
            if last {
                return false;
            }
        }
    }

    /// An atomic update. `None` if it makes no sense.
    pub(crate) fn on_atomic(&mut self, from: Peer, head: &Head, payload: &mut WireRef<'_>) -> Option<()> {
        let access = Access::from_words(words(payload)?)?;
        let (atomic, width) = Atomic::decode(words(payload)?)?;
        let access = Access { len: width.bytes(), ..access };
        let outcome = self
            .exports
            .check(from, &access, Rights::ATOMIC)
            .and_then(|export| atomic.apply(&export.memory, access.offset, width));
        self.acknowledge(from, head.w1, outcome);
        Some(())
    }

    /// A neighbour wants to map a region: hands it the descriptor if it may have it.
    pub(crate) fn on_map(&mut self, from: Peer, head: &Head, payload: &mut WireRef<'_>) -> Option<()> {
        let access = Access::from_words(words(payload)?)?;
        let outcome = self.exports.check(from, &access, Rights(0)).map(|export| {
            let (rights, grant) = (export.rights, export.grant?);
            let segment = export.memory.segment()?;
            let writable = rights.include(Rights::WRITE) || rights.include(Rights::ATOMIC);
            let fd =
                if writable { segment.fd().try_clone_to_owned().ok() } else { segment.read_only_fd().ok() };
            Some((fd?, rights, grant, export.memory.len() as u64))
        });
        let passed = match outcome {
            Err(error) => Err(error),
            Ok(None) => Ok(0),
            Ok(Some((fd, rights, grant, len))) => {
                let mut tag = [0; 16];
                tag[..8].copy_from_slice(&head.w1.to_le_bytes());
                tag[8..].copy_from_slice(&len.to_le_bytes());
                let connected = self.peer_mut(from).is_ok();
                match &self.peers[from.index()].tx {
                    Tx::Ring(ring) if connected && ring.pass_fd(&tag, std::os::fd::AsFd::as_fd(&fd)) => {
                        Ok(1 | u64::from(rights.0) << 8 | (grant as u64) << 16)
                    }
                    // The answer itself will connect us.
                    _ => Ok(MAP_LATER),
                }
            }
        };
        self.acknowledge(from, head.w1, passed);
        Some(())
    }

    fn acknowledge(&mut self, to: Peer, op: u64, outcome: Result<u64, RegionError>) {
        let (status, value) = match outcome {
            Ok(value) => (0, value),
            Err(error) => (error.code(), 0),
        };
        let head = Head { kind: Kind::Ack, flags: 0, port: Port(0), len: 16, w1: op };
        // The peer may be gone; then nobody waits for this.
        let _ = self.send_or_defer(to, head, |wire| {
            wire.write_u64(status);
            wire.write_u64(value);
        });
    }
}
