//! Regions of neighbours that we have mapped: an operation on them is one copy, or one instruction, by us.
//!
//! The first operation on a neighbour's region asks for its descriptor and goes by packets meanwhile. Operations go over to
//! the mapping only when none by packets is under way with that peer, so that they never overtake each other.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::os::fd::OwnedFd;

use barewire_sys::map::Segment;
use barewire_sys::memory::Memory;

use super::ops::{Op, What};
use super::owner::MAP_LATER;
use super::{Key, RegionError, Rights};
use crate::Peer;
use crate::Port;
use crate::endpoint::Endpoint;
use crate::error::SendError;
use crate::provider::{Class, Tx};
use crate::wire::{Access, Head, Kind};

/// A neighbour's region in our address space.
#[derive(Clone, Debug)]
pub(crate) struct Mapped {
    pub memory: Memory,
    rights: Rights,
    grant: usize,
}

impl Mapped {
    /// Whether the key is good for this now.
    pub fn check(&self, key: Key, offset: u64, len: u64, need: Rights) -> Result<(), RegionError> {
        self.still(key)?;
        if !self.rights.include(need) {
            return Err(RegionError::Denied);
        }
        match offset.checked_add(len) {
            Some(end) if end <= self.memory.len() as u64 => Ok(()),
            _ => Err(RegionError::OutOfRange),
        }
    }

    /// Whether the key has not been revoked.
    #[inline]
    pub fn still(&self, key: Key) -> Result<(), RegionError> {
        if self.is_revoked(key.nonce) { Err(RegionError::BadKey) } else { Ok(()) }
    }

    #[inline]
    fn is_revoked(&self, nonce: u64) -> bool {
        self.memory.grant(self.grant) != nonce
    }
}

#[derive(Debug)]
enum Import {
    /// Asked for; goes by packets meanwhile.
    Asked,
    /// Mapped.
    Mapped(Mapped),
    /// Cannot be mapped: private memory, or no way to pass a descriptor.
    ByPackets,
}

/// What we know of neighbours' regions.
#[derive(Debug, Default)]
pub(crate) struct Imports {
    known: HashMap<(Peer, u32, u64), Import, BuildHasherDefault<Mix>>,
    /// Asked for and not answered yet.
    asked: usize,
    /// Descriptors that arrived ahead of the answer that explains them.
    arrived: Vec<Arrived>,
}

/// A descriptor that a neighbour passed, for which wish of ours, and how many bytes are behind it.
#[derive(Debug)]
struct Arrived {
    from: Peer,
    op: u64,
    len: u64,
    fd: OwnedFd,
}

/// Mixes a key's words. Its nonce is random, so little is needed; whoever makes keys that collide slows only those who use them.
#[derive(Debug, Default)]
struct Mix(u64);

impl Hasher for Mix {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Regions remembered at a time; past that the table starts afresh.
const KNOWN_MAX: usize = 4096;

impl Imports {
    /// Whether a descriptor may be on its way.
    #[inline(always)]
    pub fn expecting(&self) -> bool {
        self.asked > 0
    }

    /// A descriptor came in.
    pub fn arrived(&mut self, from: Peer, tag: &[u8], fd: OwnedFd) {
        let word = |at: usize| tag.get(at..at + 8)?.try_into().map(u64::from_le_bytes).ok();
        // Whoever passes more than was asked for would have us run out of descriptors.
        let wanted = self.asked_of(from) > self.arrived.iter().filter(|arrived| arrived.from == from).count();
        if let (Some(op), Some(len), true) = (word(0), word(8), wanted) {
            self.arrived.push(Arrived { from, op, len, fd });
        }
    }

    /// How many regions of a peer's we want to map.
    fn asked_of(&self, peer: Peer) -> usize {
        let asked =
            |(key, import): (&(Peer, u32, u64), &Import)| key.0 == peer && matches!(import, Import::Asked);
        self.known.iter().filter(|&entry| asked(entry)).count()
    }

    /// The owner answered our wish to map.
    pub fn answered(&mut self, from: Peer, slot: u32, nonce: u64, op: Op, outcome: Result<u64, RegionError>) {
        self.asked = self.asked.saturating_sub(1);
        let at = self.arrived.iter().position(|a| (a.from, a.op) == (from, op.to_wire()));
        let arrived = at.map(|at| self.arrived.swap_remove(at));
        if outcome == Ok(MAP_LATER) {
            // The next operation asks again.
            self.known.remove(&(from, slot, nonce));
            return;
        }
        let import = match (outcome, arrived) {
            (Ok(value), Some(arrived)) if value & 1 == 1 => map(arrived, value),
            // Passed, and lost among too many at a time: the next operation asks again.
            (Ok(value), None) if value & 1 == 1 => {
                self.known.remove(&(from, slot, nonce));
                return;
            }
            _ => None,
        };
        // What was revoked meanwhile is nobody's use, but memory.
        self.known
            .retain(|key, import| !matches!(import, Import::Mapped(mapped) if mapped.is_revoked(key.2)));
        self.known.insert((from, slot, nonce), import.map_or(Import::ByPackets, Import::Mapped));
        if self.asked == 0 {
            self.arrived.clear();
        }
    }

    pub fn forget(&mut self, peer: Peer) {
        self.asked -= self.asked_of(peer).min(self.asked);
        self.known.retain(|key, _| key.0 != peer);
        self.arrived.retain(|arrived| arrived.from != peer);
    }
}

fn map(Arrived { len, fd, .. }: Arrived, value: u64) -> Option<Mapped> {
    let rights = Rights((value >> 8) as u8);
    let writable = rights.include(Rights::WRITE) || rights.include(Rights::ATOMIC);
    let segment = Segment::open(fd, writable).ok()?;
    let memory = Memory::neighbour(segment, usize::try_from(len).ok()?).ok()?;
    Some(Mapped { memory, rights, grant: (value >> 16) as usize })
}

impl Endpoint {
    /// The region's memory itself, if it is within reach: our own, or a neighbour's that is mapped. `None` if an operation has
    /// to travel, because the memory is elsewhere, or not mapped yet, or because others to the same owner still travel. What is done to
    /// memory within reach is in place at once; a sleeping owner does not notice, unless it is [nudged](Endpoint::nudge).
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, region::{Memory, Rights, Who}};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let memory = Memory::private(100);
    /// let key = endpoint.export(&memory, Rights::ALL, Who::Anyone).unwrap();
    /// let there = endpoint.reach(key, Rights::WRITE).unwrap().expect("it is our own");
    /// assert!(there.write(10, b"hello"));
    /// endpoint.revoke(key);
    /// assert!(endpoint.reach(key, Rights::WRITE).is_err());
    /// ```
    #[inline]
    pub fn reach(&mut self, key: Key, need: Rights) -> Result<Option<&Memory>, RegionError> {
        if key.owner == self.me {
            let access = Access { slot: key.slot, nonce: key.nonce, offset: 0, len: 0 };
            return self.exports.check(key.owner, &access, need).map(|export| Some(&export.memory));
        }
        let id = (key.owner, key.slot, key.nonce);
        let far = match self.imports.known.get(&id) {
            Some(Import::Mapped(_)) => false,
            Some(Import::Asked | Import::ByPackets) => true,
            None => match self.direct(key) {
                // There may be no room to ask for it just now.
                Ok(_) | Err(RegionError::Send(SendError::Full)) => true,
                Err(error) => return Err(error),
            },
        };
        let owner = self.peers.get(key.owner.index()).ok_or(SendError::NoSuchPeer(key.owner))?;
        if owner.is_gone() {
            return Err(SendError::Lost(key.owner).into());
        }
        match self.imports.known.get(&id) {
            Some(Import::Mapped(mapped)) if !far && self.ops.pending_with(key.owner) == 0 => {
                mapped.check(key, 0, 0, need)?;
                Ok(Some(&mapped.memory))
            }
            _ => Ok(None),
        }
    }

    /// Whether it is settled that operations on a region travel: its memory is elsewhere, or its owner has not let us map it.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, region::{Memory, Rights, Who}};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let key = endpoint.export(&Memory::private(100), Rights::ALL, Who::Anyone).unwrap();
    /// assert!(!endpoint.goes_by_packets(key), "it is our own");
    /// ```
    pub fn goes_by_packets(&self, key: Key) -> bool {
        match self.imports.known.get(&(key.owner, key.slot, key.nonce)) {
            Some(Import::ByPackets) => true,
            Some(Import::Asked | Import::Mapped(_)) => false,
            // Only rings are between neighbours, and only those of neighbours are asked for.
            None => {
                let owner = self.peers.get(key.owner.index());
                key.owner != self.me && !owner.is_some_and(|owner| matches!(owner.tx, Tx::Ring(_)))
            }
        }
    }

    /// Wakes a neighbour that sleeps, so that it looks at its memory. Costs one load if it does not sleep, and nothing where
    /// memory is not shared.
    ///
    /// ```
    /// use barewire_core::region::{Memory, Rights, Who};
    /// use barewire_core::{Config, Endpoint, Ignore, Peer, job::Job, wait::Waiting};
    /// use std::sync::atomic::Ordering;
    /// # let mut jobs = Job::threads(2).unwrap().into_iter();
    /// # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
    /// let (mut writer, mut sleeper, memory) = (open(), open(), Memory::shared(64).unwrap());
    /// let key = sleeper.export(&memory, Rights::ALL, Who::Anyone).unwrap();
    /// let sleeping = std::thread::spawn(move || {
    ///     let word = Waiting { what: "a word in its memory", on: None };
    ///     sleeper.watch_for(word, &mut Ignore, None, |_, _| memory.atomic_u64(0).unwrap().load(Ordering::Acquire) == 7)
    /// });
    /// let there = loop {
    ///     match writer.reach(key, Rights::WRITE).unwrap() {
    ///         Some(there) => break there.clone(),
    ///         None => writer.progress(&mut Ignore, usize::MAX),
    ///     };
    /// };
    /// there.atomic_u64(0).unwrap().store(7, Ordering::Release);
    /// writer.nudge(Peer(1));
    /// assert_eq!(sleeping.join().unwrap(), Ok(()));
    /// ```
    #[inline]
    pub fn nudge(&mut self, peer: Peer) {
        if let Some(Tx::Ring(ring)) = self.peers.get_mut(peer.index()).map(|peer| &mut peer.tx) {
            ring.nudge();
        }
    }

    /// Lets go of a neighbour's region: its memory stays in our address space no longer than clones of it live. Operations on
    /// it are still possible; they find it again.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, region::{Memory, Rights, Who}};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let key = endpoint.export(&Memory::private(8), Rights::READ, Who::Anyone).unwrap();
    /// endpoint.let_go(key);
    /// assert!(endpoint.reach(key, Rights::READ).unwrap().is_some(), "our own is always within reach");
    /// ```
    pub fn let_go(&mut self, key: Key) {
        let id = (key.owner, key.slot, key.nonce);
        if !matches!(self.imports.known.get(&id), Some(Import::Asked)) {
            self.imports.known.remove(&id);
        }
    }

    /// The mapping through which an operation on `key` shall go, if there is one.
    pub(super) fn direct(&mut self, key: Key) -> Result<Option<Mapped>, RegionError> {
        let id = (key.owner, key.slot, key.nonce);
        match self.imports.known.get(&id) {
            Some(Import::Mapped(mapped)) => {
                let clear = self.ops.pending_with(key.owner) == 0 && !self.peers[key.owner.index()].is_gone();
                return Ok(if clear { Some(mapped.clone()) } else { None });
            }
            Some(Import::Asked | Import::ByPackets) => return Ok(None),
            None => {}
        }
        self.peer_mut(key.owner)?;
        if key.owner == self.me || !matches!(self.peers[key.owner.index()].tx, Tx::Ring(_)) {
            return Ok(None);
        }
        if self.imports.known.len() >= KNOWN_MAX {
            self.imports.known.retain(|_, import| matches!(import, Import::Asked));
        }
        let access = Access { slot: key.slot, nonce: key.nonce, offset: 0, len: 0 };
        let op = self.start(key.owner, What::Map { slot: key.slot, nonce: key.nonce })?;
        let head =
            Head { kind: Kind::Map, flags: 0, port: Port(0), len: Access::BYTES as u32, w1: op.to_wire() };
        let sent = self.send_packet(key.owner, head, Class::Data, |wire| {
            access.words().into_iter().for_each(|word| wire.write_u64(word));
        });
        if self.started(op, sent).is_ok() {
            self.imports.asked += 1;
            self.imports.known.insert(id, Import::Asked);
        }
        Ok(None)
    }
}
