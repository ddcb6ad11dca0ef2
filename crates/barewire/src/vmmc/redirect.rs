//! Transfer redirection: the receiver re-aims the next transfer of a peer to a place of its choice.
//!
//! Both sides count the transfers. A redirection is for one of them by number: if its sender hears of it before it begins that one,
//! the data goes straight to the new place; if not, it is in the default buffer and the receiver copies it from there. Both
//! agree which it was without asking, because the number is the same for both.

use barewire_core::region::{Key, Memory, Rights, Who};
use barewire_core::{Endpoint, Peer};

use super::engine::{Engine, Importer, RedirectEntry};
use super::names::{Arrival, Export, RedirectError, Redirected, Redirection};
use super::wire::Kind;
use crate::slab::Slot;

impl Engine {
    pub fn redirect(
        &mut self,
        core: &mut Endpoint,
        export: Export,
        from: Peer,
        (memory, at, room): (&Memory, u64, u64),
    ) -> Result<Redirection, RedirectError> {
        let entry = self.exports.get_mut(export.0).ok_or(RedirectError::NoSuch)?;
        if !entry.redirectable {
            return Err(RedirectError::NotRedirectable);
        }
        if at.checked_add(room).is_none_or(|end| end > memory.len() as u64) {
            return Err(RedirectError::Range);
        }
        if from.0 >= core.size() {
            return Err(RedirectError::NoSuch);
        }
        if core.is_gone(from) {
            return Err(RedirectError::PeerLost);
        }
        let of_peer = |importer: &Importer| importer.peer == from;
        let place = entry.importers.iter().position(of_peer).unwrap_or_else(|| {
            entry.importers.push(Importer::new(from, None));
            entry.importers.len() - 1
        });
        let importer = &mut entry.importers[place];
        let turn = importer.turn;
        let redirection = RedirectEntry {
            export: export.0,
            from,
            memory: memory.clone(),
            at,
            room,
            turn,
            key: None,
            outcome: None,
        };
        let id = self.redirections.insert(redirection).ok_or(RedirectError::TooMany)?;
        match importer.unclaimed.pop_front() {
            Some(arrival) => self.claimed(id, arrival, false),
            None => {
                importer.turn = turn.wrapping_add(1);
                importer.waiting.push_back(id);
                let key = self.pin(core, memory, from);
                if let Some(entry) = self.redirections.get_mut(id) {
                    entry.key = key;
                }
                self.send_aim(core, id);
            }
        }
        Ok(Redirection(id))
    }

    /// Tells a peer of all the places that wait for its transfers.
    pub fn send_aims(&mut self, core: &mut Endpoint, export: Slot, peer: Peer) {
        let Some(entry) = self.exports.get(export) else { return };
        let of_peer = entry.importers.iter().filter(|importer| importer.peer == peer);
        let waiting: Vec<Slot> = of_peer.flat_map(|importer| importer.waiting.iter().copied()).collect();
        waiting.into_iter().for_each(|id| self.send_aim(core, id));
    }

    /// Tells a peer where its transfer may go, if it has imported the buffer and there is a key.
    fn send_aim(&mut self, core: &mut Endpoint, id: Slot) {
        let Some(RedirectEntry { export, from, at, room, turn, key: Some(key), .. }) =
            self.redirections.get(id)
        else {
            return;
        };
        let importers = self.exports.get(*export).map(|export| &export.importers);
        let importer = importers.and_then(|all| all.iter().find(|importer| importer.peer == *from));
        let Some(import) = importer.and_then(|importer| importer.import) else { return };
        // If the peer is gone, it transfers nothing.
        let _ = core.reply_with(*from, Kind::Redirect.port(), u64::from(import), 24 + Key::BYTES, |wire| {
            wire.write_words(&[u64::from(*turn), *room, *at]);
            wire.write(&key.to_bytes());
        });
    }

    /// The transfer that a redirection is for has arrived: at the new place, or in the default buffer.
    pub fn claimed(&mut self, id: Slot, arrival: Arrival, there: bool) {
        let Some(entry) = self.redirections.get(id) else { return };
        let outcome = if there && arrival.len <= entry.room {
            self.counters.early += 1;
            Ok(Redirected { len: arrival.len, copies: 0 })
        } else if arrival.len > entry.room {
            Err(RedirectError::TooLong)
        } else {
            self.counters.late += 1;
            let buffer = self.exports.get(entry.export).map(|export| &export.memory);
            let from =
                buffer.and_then(|buffer| buffer.wire_ref(arrival.offset as usize, arrival.len as usize));
            let into = entry.memory.wire_mut(entry.at as usize, arrival.len as usize);
            if let (Some(mut from), Some(mut into)) = (from, into) {
                into.write_from(&mut from);
            }
            Ok(Redirected { len: arrival.len, copies: 1 })
        };
        self.end_redirection(id, outcome);
    }

    pub fn end_redirection(&mut self, id: Slot, outcome: Result<Redirected, RedirectError>) {
        if let Some(entry) = self.redirections.get_mut(id) {
            self.news += 1;
            entry.outcome = Some(outcome);
            if let Some(key) = entry.key.take() {
                self.utlb.unpin(key);
            }
        }
    }

    /// A key with which `peer` may write to `memory`, in use until its redirection ends; `None` if the UTLB is full of such, or the
    /// core makes no key.
    fn pin(&mut self, core: &mut Endpoint, memory: &Memory, peer: Peer) -> Option<Key> {
        if let Some(key) = self.utlb.pin(memory, &peer) {
            return Some(key);
        }
        self.shrink_utlb(core, 1);
        if self.utlb.is_full() {
            return None;
        }
        let key = core.export(memory, Rights::WRITE, Who::Only(vec![peer])).ok()?;
        self.utlb.insert(memory, peer, key);
        Some(key)
    }

    /// Takes keys back until there is room for `more`, or all are in use.
    pub fn shrink_utlb(&mut self, core: &mut Endpoint, more: usize) {
        while let Some(key) = self.utlb.evict(more) {
            core.revoke(key);
        }
    }
}
