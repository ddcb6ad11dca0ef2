//! What this endpoint has exported, and who may do what with it.

use barewire_sys::memory::{GRANTS_MAX, Memory};

use super::{Key, RegionError, Rights};
use crate::Peer;
use crate::endpoint::Endpoint;
use crate::wire::Access;

/// Who may use a region.
///
/// ```
/// use barewire_core::region::{Memory, RegionError, Rights, Who};
/// use barewire_core::{Config, Endpoint, Ignore, Peer, job::Job};
/// let mut endpoint = Endpoint::open(Job::threads(2).unwrap().remove(0), Config::default()).unwrap();
/// let memory = Memory::private(8);
/// for (who, outcome) in [(Who::Anyone, Ok(0)), (Who::Only(vec![Peer(1)]), Err(RegionError::Denied.into()))] {
///     let key = endpoint.export(&memory, Rights::WRITE, who).unwrap();
///     let op = endpoint.put(key, 0, b"by 0").unwrap();
///     assert_eq!(endpoint.finish(&mut Ignore, op, None), outcome);
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Every peer that knows the key.
    Anyone,
    /// These peers, if they know the key.
    Only(Vec<Peer>),
}

/// Why memory could not be exported.
///
/// ```
/// use barewire_core::region::{ExportError, Key, Memory, Rights, Who};
/// use barewire_core::{Config, Endpoint, job::Job};
/// fn readable(endpoint: &mut Endpoint, bytes: &[u8]) -> Result<Key, ExportError> {
///     let memory = Memory::private(bytes.len());
///     assert!(memory.write(0, bytes));
///     endpoint.export(&memory, Rights::READ, Who::Anyone)
/// }
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// assert_eq!(readable(&mut endpoint, b"a public text").unwrap().len, 13);
/// ```
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
    ///
    /// ```
    /// use barewire_core::region::{Memory, Rights, Who};
    /// use barewire_core::{Config, Endpoint, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let memory = Memory::private(64);
    /// let key = endpoint.export(&memory, Rights::READ, Who::Anyone).unwrap();
    /// assert_eq!((key.owner, key.len, memory.handles()), (endpoint.me(), 64, 2));
    /// drop(memory);
    /// assert!(endpoint.reach(key, Rights::READ).is_ok(), "the export keeps it alive");
    /// ```
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
    ///
    /// ```
    /// use barewire_core::region::{Memory, RegionError, Rights, Who};
    /// use barewire_core::{Config, Endpoint, Ignore, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let key = endpoint.export(&Memory::private(64), Rights::ALL, Who::Anyone).unwrap();
    /// assert!(endpoint.revoke(key));
    /// assert!(!endpoint.revoke(key), "it is no export any more");
    /// let op = endpoint.put(key, 0, b"too late").unwrap();
    /// assert_eq!(endpoint.finish(&mut Ignore, op, None), Err(RegionError::BadKey.into()));
    /// ```
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
