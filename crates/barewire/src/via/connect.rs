//! Connections: a client asks and a server accepts, or two peers ask each other; a discriminator says who is meant.
//!
//! A request that finds nobody waits at the other end until somebody takes it or it is withdrawn. Two peers that ask at the same
//! moment each see the other's request arrive and are connected by that; nobody has to give way. So do two VIs of one NIC, whose
//! requests go through its own queue.

use std::collections::VecDeque;

use barewire_core::region::{Rights, Who};
use barewire_core::{Endpoint, Incoming, Peer};

use super::engine::Engine;
use super::errors::ConnectError;
use super::names::{Cause, Flow, Reliability, ViAttributes, ViState};
use super::vi::ViEntry;
use super::wire::{self, Kind};
use crate::slab::Slot;

/// Requests that may wait here, of each kind. Nobody has more of them than there is room left, so that there is always some for others.
const WAITING_MAX: usize = 4096;

/// Whether another request of a peer's may wait.
fn has_room(waiting: &VecDeque<Request>, from: Peer) -> bool {
    let room = WAITING_MAX.saturating_sub(waiting.len());
    room > WAITING_MAX / 2 || waiting.iter().filter(|call| call.from == from).count() < room
}

/// A client's request, to be accepted or rejected.
///
/// Taken by [`Nic::connect_wait`](super::Nic::connect_wait).
///
/// ```
/// # use barewire::core::{Config, Endpoint, Peer, job::Job, region::Memory};
/// # use barewire::via::*;
/// # let mut nic = Nic::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let tag = nic.create_ptag().unwrap();
/// # let memory = Memory::private(100);
/// # let handle = nic.register(&memory, tag, MemAttributes { rdma_write: true, rdma_read: true }).unwrap();
/// # let [a, b] = [(); 2].map(|()| nic.create_vi(tag, ViAttributes::default(), Cqs::default()).unwrap());
/// nic.connect_request(a, Peer(0), 2001).unwrap();
/// let request: Request = nic.connect_wait(2001, None).unwrap();
/// assert_eq!((request.from, request.discriminator), (Peer(0), 2001));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asks.
    pub from: Peer,
    /// For what.
    pub discriminator: u64,
    pub(super) vi: u32,
    pub(super) kind: u64,
    pub(super) posted: u32,
}

/// Requests that wait here.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Of clients.
    pub clients: VecDeque<Request>,
    /// Of peers.
    pub peers: VecDeque<Request>,
    /// Peers' requests that nobody here has asked for, for whoever wants to answer them all.
    pub news: VecDeque<(Peer, u64)>,
}

impl Calls {
    pub fn forget(&mut self, peer: Peer) {
        self.clients.retain(|call| call.from != peer);
        self.peers.retain(|call| call.from != peer);
        self.news.retain(|(from, _)| *from != peer);
    }

    /// The first client's request for `discriminator`.
    pub fn take(&mut self, discriminator: u64) -> Option<Request> {
        let at = self.clients.iter().position(|call| call.discriminator == discriminator)?;
        self.clients.remove(at)
    }
}

/// What a VI is like, as far as both ends must agree.
pub(super) fn kind_of(attributes: &ViAttributes) -> u64 {
    let level = match attributes.reliability {
        Reliability::Unreliable => 0,
        Reliability::Delivery => 1,
        Reliability::Reception => 2,
    };
    let flow = match attributes.flow {
        Flow::None => 0,
        Flow::Rnr { .. } => 1,
        Flow::Credits => 2,
    };
    level | flow << 8
}

const ACCEPTED: u64 = 0;
const REJECTED: u64 = 1;
const DIFFERENT: u64 = 2;
const CROWDED: u64 = 3;

impl Engine {
    /// Asks a peer for a connection: as a client, or as an equal.
    pub fn ask(
        &mut self,
        core: &mut Endpoint,
        id: Slot,
        peer: Peer,
        discriminator: u64,
        kind: Kind,
    ) -> Result<(), ConnectError> {
        let equal = kind == Kind::Meet;
        // Of our own VIs one may wait for the other.
        let room = if peer == core.me() { 2 } else { 1 };
        let waits = |entry: &ViEntry| entry.waits_for(peer, discriminator);
        if equal && self.vis.iter().filter(|(_, entry)| waits(entry)).count() >= room {
            return Err(ConnectError::DiscriminatorTaken);
        }
        let entry = self.vis.get_mut(id).ok_or(ConnectError::NoSuch)?;
        if entry.state != ViState::Idle {
            return Err(ConnectError::NotIdle);
        }
        let (posted, like) = (entry.posted, kind_of(&entry.attributes));
        core.reply_with(peer, wire::port(kind, false), discriminator, 24, |wire| {
            wire.write_words(&[u64::from(id.short()), like, u64::from(posted)]);
        })?;
        entry.advertised = posted;
        (entry.state, entry.peer, entry.discriminator) = (ViState::Connecting, peer, discriminator);
        (entry.verdict, entry.equal) = (None, equal);
        if equal {
            let waits = |call: &Request| call.from == peer && call.discriminator == discriminator;
            if let Some(at) = self.calls.peers.iter().position(waits) {
                let call = self.calls.peers.remove(at).expect("found just now");
                self.calls.news.retain(|news| *news != (peer, discriminator));
                self.join(core, id, call);
            }
        }
        Ok(())
    }

    /// Connects a VI with itself.
    pub fn connect_itself(&mut self, core: &mut Endpoint, id: Slot) -> Result<(), ConnectError> {
        let entry = self.vis.get_mut(id).ok_or(ConnectError::NoSuch)?;
        if entry.state != ViState::Idle {
            return Err(ConnectError::NotIdle);
        }
        let (vi, kind, posted) = (id.short(), kind_of(&entry.attributes), entry.posted);
        entry.advertised = posted;
        self.join(core, id, Request { from: core.me(), discriminator: 0, vi, kind, posted });
        Ok(())
    }

    /// Connects a VI with the one that `call` came from, if they are alike.
    fn join(&mut self, core: &mut Endpoint, id: Slot, call: Request) {
        let Some(entry) = self.vis.get_mut(id) else { return };
        if kind_of(&entry.attributes) != call.kind {
            return self.fail(id, ConnectError::Attributes);
        }
        entry.connected(call.from, call.vi, call.posted);
        self.shop.events += 1;
        self.soil(id);
        self.advance(core, id);
    }

    /// A connection that was asked for does not come about.
    fn fail(&mut self, id: Slot, error: ConnectError) {
        let Some(entry) = self.vis.get_mut(id).filter(|entry| entry.state == ViState::Connecting) else {
            return;
        };
        entry.state = ViState::Idle;
        entry.verdict = Some(Err(error));
        self.shop.events += 1;
        let (receives, posted) = (std::mem::take(&mut entry.receives), entry.posted);
        self.flush(id, Cause::Disconnected);
        // What was posted to receive is for the next connection.
        if let Some(entry) = self.vis.get_mut(id) {
            (entry.receives, entry.posted) = (receives, posted);
        }
    }

    /// Takes a request for a connection back.
    pub fn withdraw(&mut self, core: &mut Endpoint, id: Slot) {
        let Some(entry) = self.vis.get(id).filter(|entry| entry.state == ViState::Connecting) else { return };
        let (peer, discriminator) = (entry.peer, entry.discriminator);
        // If the peer is gone, the request went with it.
        let _ = core.reply_with(peer, wire::port(Kind::Withdraw, false), discriminator, 8, |wire| {
            wire.write_u64(u64::from(id.short()));
        });
        self.fail(id, ConnectError::NoMatch);
    }

    /// Accepts a client's request on a VI of ours.
    pub fn accept(&mut self, core: &mut Endpoint, id: Slot, call: Request) -> Result<(), ConnectError> {
        let entry = self.vis.get_mut(id).ok_or(ConnectError::NoSuch)?;
        if entry.state != ViState::Idle {
            return Err(ConnectError::NotIdle);
        }
        let alike = kind_of(&entry.attributes) == call.kind;
        answer(core, call, id.short(), if alike { ACCEPTED } else { DIFFERENT }, entry.posted)?;
        if !alike {
            return Err(ConnectError::Attributes);
        }
        entry.advertised = entry.posted;
        self.join(core, id, call);
        Ok(())
    }

    /// Tells a client no.
    pub fn reject(&mut self, core: &mut Endpoint, call: Request) -> Result<(), ConnectError> {
        answer(core, call, 0, REJECTED, 0)
    }

    /// Everything but messages. `None` if it makes no sense.
    #[cold]
    #[inline(never)]
    pub fn on_other(&mut self, core: &mut Endpoint, kind: Kind, mut packet: Incoming<'_>) -> Option<()> {
        let (from, imm) = (packet.from, packet.imm);
        match kind {
            Kind::Message => None,
            Kind::Notice => self.on_notice(core, &mut packet),
            Kind::Ack => {
                let (to, received) = wire::split(packet.read_u64()?);
                let posted = packet.read_u64()? as u32;
                let id = self.connected_with(to, from)?;
                self.on_ack(core, id, received, posted);
                Some(())
            }
            Kind::Nak => {
                let (to, number) = wire::split(packet.read_u64()?);
                let id = self.connected_with(to, from)?;
                if imm == wire::NOT_READY {
                    self.on_not_ready(core, id, number);
                } else {
                    self.break_vi(core, id, Cause::from_there(imm));
                }
                Some(())
            }
            Kind::Connect | Kind::Meet => self.on_call(core, kind, &mut packet),
            Kind::Answer => self.on_answer(core, &mut packet),
            Kind::Withdraw => self.on_withdraw(core, &mut packet),
            Kind::Bye => {
                let id = self.connected_with(packet.read_u64()? as u32, from)?;
                self.break_vi(core, id, Cause::Disconnected);
                Some(())
            }
            Kind::Resolve => self.on_resolve(core, &mut packet),
            Kind::Resolved => self.on_resolved(core, &mut packet),
        }
    }

    /// The VI that a packet from `from` is for, if they are connected.
    fn connected_with(&mut self, to: u32, from: Peer) -> Option<Slot> {
        self.vis.find(to).filter(|(_, entry)| entry.is_connected_to(from)).map(|(id, _)| id)
    }

    fn on_call(&mut self, core: &mut Endpoint, kind: Kind, packet: &mut Incoming<'_>) -> Option<()> {
        let mut words = [0; 3];
        if packet.read_words(&mut words) < 3 {
            return None;
        }
        let call = Request {
            from: packet.from,
            discriminator: packet.imm,
            vi: words[0] as u32,
            kind: words[1],
            posted: words[2] as u32,
        };
        if kind == Kind::Connect {
            if has_room(&self.calls.clients, call.from) {
                self.calls.clients.push_back(call);
            } else {
                // If the client is gone, it needs no answer.
                let _ = answer(core, call, 0, CROWDED, 0);
            }
            return Some(());
        }
        match self.waiting_for(&call, call.from == core.me()) {
            Some(id) => self.join(core, id, call),
            None if has_room(&self.calls.peers, call.from) => {
                self.calls.peers.push_back(call);
                self.calls.news.push_back((call.from, call.discriminator));
            }
            None => {
                let _ = answer(core, call, 0, CROWDED, 0);
            }
        }
        Some(())
    }

    /// Our VI that has asked for the one that `call` came from. If that is ours too, it does not mean itself.
    fn waiting_for(&mut self, call: &Request, ours: bool) -> Option<Slot> {
        let caller = if ours { self.vis.find(call.vi) } else { None };
        let caller = caller.map(|(id, entry)| (id, entry.is_connected_to(call.from).then_some(entry.remote)));
        let waits = |(id, entry): &(Slot, &ViEntry)| {
            entry.waits_for(call.from, call.discriminator)
                && caller.is_none_or(|(caller, found)| {
                    // One that has found another already is that one's to find.
                    *id != caller && found.is_none_or(|found| found == id.short())
                })
        };
        self.vis.iter().find(waits).map(|(id, _)| id)
    }

    fn on_answer(&mut self, core: &mut Endpoint, packet: &mut Incoming<'_>) -> Option<()> {
        let (to, vi) = wire::split(packet.read_u64()?);
        let (posted, discriminator) = (packet.read_u64()? as u32, packet.read_u64()?);
        let (verdict, from) = (packet.imm, packet.from);
        let (id, entry) = self.vis.find(to)?;
        // An equal asks for itself and accepts nothing.
        let asked = entry.state == ViState::Connecting && !(entry.equal && verdict == ACCEPTED);
        if !asked || (entry.peer, entry.discriminator) != (from, discriminator) {
            // We have given up meanwhile: the other end must not think otherwise.
            if verdict == ACCEPTED {
                let _ = core.reply_with(from, wire::port(Kind::Bye, false), 0, 8, |wire| {
                    wire.write_u64(u64::from(vi));
                });
            }
            return Some(());
        }
        match verdict {
            ACCEPTED => {
                entry.connected(from, vi, posted);
                self.soil(id);
                self.advance(core, id);
            }
            REJECTED => self.fail(id, ConnectError::Rejected),
            DIFFERENT => self.fail(id, ConnectError::Attributes),
            _ => self.fail(id, ConnectError::Crowded),
        }
        Some(())
    }

    fn on_withdraw(&mut self, core: &mut Endpoint, packet: &mut Incoming<'_>) -> Option<()> {
        let (from, discriminator, vi) = (packet.from, packet.imm, packet.read_u64()? as u32);
        let of = |call: &Request| (call.from, call.discriminator, call.vi) == (from, discriminator, vi);
        self.calls.clients.retain(|call| !of(call));
        self.calls.peers.retain(|call| !of(call));
        self.calls.news.retain(|news| *news != (from, discriminator));
        // It may have crossed our own: then we took them for connected.
        let joined = |entry: &ViEntry| entry.is_connected_to(from) && entry.remote == vi;
        let crossed = self.vis.iter().find(|(_, entry)| joined(entry)).map(|(id, _)| id);
        if let Some(id) = crossed {
            let _ = core.reply_with(from, wire::port(Kind::Withdraw, false), discriminator, 8, |wire| {
                wire.write_u64(u64::from(id.short()));
            });
            self.break_vi(core, id, Cause::Disconnected);
        }
        Some(())
    }

    /// Somebody wants access to memory of ours over a connection.
    fn on_resolve(&mut self, core: &mut Endpoint, packet: &mut Incoming<'_>) -> Option<()> {
        let (to, back) = wire::split(packet.read_u64()?);
        let right = packet.read_u64()? as usize;
        let (from, handle) = (packet.from, packet.imm);
        let id = self.connected_with(to, from)?;
        let key = self.access(core, id, handle, right);
        let (port, len) = (wire::port(Kind::Resolved, false), 24 + key.map_or(0, |key| key.len()));
        // If the peer is gone, nobody needs the key.
        let _ = core.reply_with(from, port, handle, len, |wire| {
            wire.write_words(&[wire::pair(back, to), right as u64, u64::from(key.is_some())]);
            key.iter().for_each(|key| {
                wire.write(key);
            });
        });
        Some(())
    }

    /// The key to registered memory, if the other end of this VI may have it.
    fn access(&mut self, core: &mut Endpoint, id: Slot, handle: u64, right: usize) -> Option<[u8; 24]> {
        let entry = self.vis.get(id)?;
        let registered = self.shop.memories.get_mut(Slot::from_bits(handle))?;
        let (allowed, rights) = match right {
            0 => (entry.attributes.rdma_write && registered.rdma_write, Rights::WRITE),
            _ => (entry.attributes.rdma_read && registered.rdma_read, Rights::READ),
        };
        if !allowed || registered.tag != Some(entry.tag) {
            return None;
        }
        let key = &mut registered.keys[right.min(1)];
        if key.is_none() {
            *key = core.export(&registered.memory, rights, Who::Anyone).ok();
        }
        key.map(|key| key.to_bytes())
    }

    fn on_resolved(&mut self, core: &mut Endpoint, packet: &mut Incoming<'_>) -> Option<()> {
        let mut words = [0; 3];
        if packet.read_words(&mut words) < 3 {
            return None;
        }
        let (back, to) = wire::split(words[0]);
        let id = self.connected_with(back, packet.from)?;
        let mut bytes = [0; 24];
        let whole = packet.read(&mut bytes) == 24;
        let key = barewire_core::region::Key::from_bytes(bytes);
        // A key to somebody else's memory is not the other end's to give.
        let key = (words[2] == 1 && whole && key.owner == packet.from).then_some(key);
        // What nobody asked for is not kept, or a peer could fill our memory with it; nor what a connection before this one asked.
        let entry = self.vis.get_mut(id).filter(|entry| entry.remote == to)?;
        let what = entry.asked.take_if(|asked| (asked.0, u64::from(asked.1)) == (packet.imm, words[1]))?;
        entry.keys.insert(what, key);
        self.advance(core, id);
        Some(())
    }

    /// Ends a connection from our side: everything posted comes back, and the VI is idle.
    pub fn hang_up(&mut self, core: &mut Endpoint, id: Slot) {
        self.withdraw(core, id);
        let Some(entry) = self.vis.get_mut(id) else { return };
        if entry.state == ViState::Connected {
            // If the peer is gone, it knows.
            let _ = core.reply_with(entry.peer, wire::port(Kind::Bye, false), 0, 8, |wire| {
                wire.write_u64(u64::from(entry.remote));
            });
        }
        self.flush(id, Cause::Disconnected);
        if let Some(entry) = self.vis.get_mut(id) {
            (entry.state, entry.peer, entry.verdict) = (ViState::Idle, Peer(u32::MAX), None);
        }
    }
}

fn answer(
    core: &mut Endpoint,
    call: Request,
    vi: u32,
    verdict: u64,
    posted: u32,
) -> Result<(), ConnectError> {
    core.reply_with(call.from, wire::port(Kind::Answer, false), verdict, 24, |wire| {
        wire.write_words(&[wire::pair(call.vi, vi), u64::from(posted), call.discriminator]);
    })?;
    Ok(())
}
