//! Operations under way: a slab, so that starting and ending one allocates nothing in the steady state.

use barewire_sys::memory::Memory;

use super::RegionError;
use crate::Peer;
use crate::wire::Access;

/// An operation under way. Ask [`crate::Endpoint::take`] for its outcome.
///
/// ```
/// use barewire_core::region::{Memory, Op, Rights, Who};
/// use barewire_core::{Config, Endpoint, Ignore, job::Job};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let key = endpoint.export(&Memory::private(64), Rights::ALL, Who::Anyone).unwrap();
/// let ops: Vec<Op> = (0..4).map(|n| endpoint.put(key, 8 * n, b"parallel").unwrap()).collect();
/// for op in ops {
///     endpoint.finish(&mut Ignore, op, None).unwrap();
///     assert_eq!(endpoint.take(op), None, "its outcome was taken");
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Op {
    pub(crate) fn to_wire(self) -> u64 {
        u64::from(self.slot) | u64::from(self.generation) << 32
    }

    pub(crate) fn from_wire(word: u64) -> Op {
        Op { slot: word as u32, generation: (word >> 32) as u32 }
    }
}

/// Operations one endpoint may have under way with one peer; more are refused as full.
pub(crate) const OPS_A_PEER: u32 = 1024;

#[derive(Debug)]
pub(crate) struct Running {
    pub peer: Peer,
    pub what: What,
    /// The source may be used again.
    pub source_free: bool,
    pub outcome: Option<Result<u64, RegionError>>,
}

/// What an operation still has to do here.
#[derive(Debug)]
pub(crate) enum What {
    /// Nothing but wait for the owner's answer.
    Answer,
    /// Bytes still to be put.
    Put { memory: Memory, at: u64, access: Access, sent: u64, notice: Option<(crate::Port, u64)> },
    /// Bytes still to arrive.
    Get { memory: Memory, at: u64, len: u64, got: u64 },
    /// A neighbour's descriptor still to arrive.
    Map { slot: u32, nonce: u64 },
}

#[derive(Debug, Default)]
pub(crate) struct Ops {
    slots: Vec<(u32, Option<Running>)>,
    free: Vec<u32>,
    /// Under way with each peer.
    with_peer: Vec<u32>,
    /// Puts that still have bytes to send.
    pub sending: Vec<Op>,
}

impl Ops {
    pub fn start(&mut self, running: Running) -> Option<Op> {
        let peer = running.peer.index();
        if self.with_peer.len() <= peer {
            self.with_peer.resize(peer + 1, 0);
        }
        if self.with_peer[peer] >= OPS_A_PEER {
            return None;
        }
        if running.outcome.is_none() {
            self.with_peer[peer] += 1;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let (generation, place) = &mut self.slots[slot as usize];
        *place = Some(running);
        Some(Op { slot, generation: *generation })
    }

    pub fn get(&self, op: Op) -> Option<&Running> {
        let (generation, running) = self.slots.get(op.slot as usize)?;
        if *generation == op.generation { running.as_ref() } else { None }
    }

    pub fn get_mut(&mut self, op: Op) -> Option<&mut Running> {
        let (generation, running) = self.slots.get_mut(op.slot as usize)?;
        if *generation == op.generation { running.as_mut() } else { None }
    }

    /// Under way with `peer`.
    pub fn pending_with(&self, peer: Peer) -> u32 {
        self.with_peer.get(peer.index()).copied().unwrap_or(0)
    }

    pub fn finish(&mut self, op: Op, outcome: Result<u64, RegionError>) {
        if let Some(running) = self.get_mut(op) {
            if running.outcome.is_none() {
                running.outcome = Some(outcome);
                running.source_free = true;
                running.what = What::Answer;
                let peer = running.peer.index();
                self.with_peer[peer] -= 1;
            }
        }
    }

    /// Gives the outcome and forgets the operation, if it has ended.
    pub fn take(&mut self, op: Op) -> Option<Result<u64, RegionError>> {
        let outcome = self.get(op)?.outcome?;
        let (generation, running) = &mut self.slots[op.slot as usize];
        *running = None;
        *generation = generation.wrapping_add(1);
        self.free.push(op.slot);
        Some(outcome)
    }

    /// Ends everything under way with a peer that is gone.
    pub fn fail_peer(&mut self, peer: Peer, error: RegionError) {
        for slot in 0..self.slots.len() {
            let (generation, running) = &self.slots[slot];
            let Some(running) = running.as_ref().filter(|r| r.peer == peer && r.outcome.is_none()) else {
                continue;
            };
            let (op, is_ours) =
                (Op { slot: slot as u32, generation: *generation }, matches!(running.what, What::Map { .. }));
            self.finish(op, Err(error));
            if is_ours {
                // Nobody above knows of it.
                self.take(op);
            }
        }
        let mut sending = std::mem::take(&mut self.sending);
        sending.retain(|&op| self.get(op).is_some_and(|running| running.peer != peer));
        self.sending = sending;
    }
}
