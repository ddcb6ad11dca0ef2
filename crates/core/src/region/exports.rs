//! What this endpoint has exported, and who may do what with it.

use barewire_sys::memory::{GRANTS_MAX, Memory};

use super::{Key, RegionError, Rights};
use crate::Peer;
use crate::endpoint::Endpoint;
use crate::wire::Access;

/// Who may use a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Every peer that knows the key.
    Anyone,
    /// These peers, if they know the key.
    Only(Vec<Peer>),
}

/// Why memory could not be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// No randomness for the key.
    #[error("no random bytes for a key: {0}")]
    Random(std::io::Error),
    /// One endpoint can export about four thousand million regions at a time.
    #[error("too many regions are exported")]
    TooMany,
}

#[derive(Debug)]
pub(crate) struct Export {
    pub memory: Memory,
    pub rights: Rights,
    pub who: Who,
    pub nonce: u64,
    /// Which word of the memory's first page says to neighbours that this export is valid.
    pub grant: Option<usize>,
}

/// The table of exports. A slot is used again, under another nonce.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    slots: Vec<Option<Export>>,
}

impl Exports {
    /// The export that `access` names, if `from` may use it as `need` says and the range is good.
    pub fn check(&self, from: Peer, access: &Access, need: Rights) -> Result<&Export, RegionError> {
        let export = self.find(access.slot, access.nonce).ok_or(RegionError::BadKey)?;
        let entitled = match &export.who {
            Who::Anyone => true,
            Who::Only(peers) => peers.contains(&from),
        };
        if !entitled || !export.rights.include(need) {
            return Err(RegionError::Denied);
        }
        let end = access.offset.checked_add(access.len).ok_or(RegionError::OutOfRange)?;
        if end > export.memory.len() as u64 {
            return Err(RegionError::OutOfRange);
        }
        Ok(export)
    }

    fn find(&self, slot: u32, nonce: u64) -> Option<&Export> {
        self.slots.get(slot as usize)?.as_ref().filter(|export| export.nonce == nonce)
    }
}

impl Endpoint {
    /// Lets others use `memory`. The handle stays usable here; the memory lives until the export is revoked and every
    /// handle is gone.
    pub fn export(&mut self, memory: &Memory, rights: Rights, who: Who) -> Result<Key, ExportError> {
        let nonce = match &mut self.datagrams {
            Some(datagrams) => datagrams.wire.number(),
            None => crate::auth::random().map(u64::from_le_bytes),
        };
        let nonce = nonce.map_err(ExportError::Random)?;
        let nonce = nonce.max(1);
        let grant = (0..GRANTS_MAX).find(|&slot| memory.segment().is_some() && memory.grant(slot) == 0);
        if let Some(slot) = grant {
            memory.set_grant(slot, nonce);
        }
        let export = Export { memory: memory.clone(), rights, who, nonce, grant };
        let slots = &mut self.exports.slots;
        let slot = slots.iter().position(Option::is_none).unwrap_or(slots.len());
        if slot == slots.len() {
            slots.push(None);
        }
        slots[slot] = Some(export);
        let slot = u32::try_from(slot).map_err(|_| ExportError::TooMany)?;
        Ok(Key { owner: self.me, slot, nonce, len: memory.len() as u64 })
    }

    /// Whether a key of ours still opens something.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, region::{Memory, Rights, Who}};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let key = endpoint.export(&Memory::private(100), Rights::READ, Who::Anyone).unwrap();
    /// assert!(endpoint.is_exported(key));
    /// endpoint.revoke(key);
    /// assert!(!endpoint.is_exported(key));
    /// ```
    pub fn is_exported(&self, key: Key) -> bool {
        key.owner == self.me && self.exports.find(key.slot, key.nonce).is_some()
    }

    /// Ends an export of ours: the key opens nothing any more. False if it did not.
    pub fn revoke(&mut self, key: Key) -> bool {
        if !self.is_exported(key) {
            return false;
        }
        let export = self.exports.slots[key.slot as usize].take().expect("found just now");
        if let Some(slot) = export.grant {
            export.memory.set_grant(slot, 0);
        }
        true
    }
}
