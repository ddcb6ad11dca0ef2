//! Regions: memory a process exports, and others put into, get from and update, with no receive call.
//!
//! The owner exports a [`Memory`] with [`Rights`] and to whom, and gets a [`Key`]: a name nobody can guess, which it tells
//! others as it likes. Whoever holds the key starts operations on it and learns their outcome through an [`Op`]. Over shared
//! memory an operation is one copy, or one atomic instruction, by the caller; over other wires, and until the memory is
//! mapped, the core does it with packets. The owner's side checks every packet; a wrong key, range or right is an error at the
//! caller and touches nothing.
//!
//! Neighbours that map a region are given a descriptor only if the owner finds them entitled to it, read-only if they may only
//! read. What a neighbour may write it can write until it unmaps it: a revoked key is refused by its library from then on,
//! but pages cannot be taken back.
//!
//! ```
//! use barewire_core::region::{Key, Memory, Rights, Who};
//! use barewire_core::{Config, Endpoint, Ignore, job::Job};
//! # let mut jobs = Job::threads(2).unwrap().into_iter();
//! # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
//! let (mut owner, mut caller) = (open(), open());
//! let memory = Memory::shared(4096).unwrap();
//! let told = owner.export(&memory, Rights::WRITE, Who::Anyone).unwrap().to_bytes();
//! let op = caller.put(Key::from_bytes(told), 100, b"no receive call").unwrap();
//! while caller.take(op).is_none() {
//!     caller.progress(&mut Ignore, usize::MAX);
//!     owner.progress(&mut Ignore, usize::MAX);
//! }
//! let mut seen = [0; 15];
//! assert!(memory.read(100, &mut seen));
//! assert_eq!(&seen, b"no receive call");
//! ```

mod caller;
mod direct;
mod exports;
mod ops;
mod owner;

pub use barewire_sys::memory::Memory;
pub use caller::FinishError;
pub use exports::{ExportError, Who};
pub use ops::Op;

pub(crate) use direct::Imports;
pub(crate) use exports::Exports;
pub(crate) use ops::Ops;
pub(crate) use owner::Serving;

use crate::Peer;
use crate::error::SendError;

/// What others may do with a region.
///
/// ```
/// use barewire_core::region::{Memory, RegionError, Rights, Who};
/// use barewire_core::{Config, Endpoint, job::Job};
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let key = endpoint.export(&Memory::private(8), Rights::READ | Rights::ATOMIC, Who::Anyone).unwrap();
/// assert!(endpoint.reach(key, Rights::READ).is_ok());
/// assert_eq!(endpoint.reach(key, Rights::ALL).unwrap_err(), RegionError::Denied, "writing is not among them");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// Get from it.
    pub const READ: Rights = Rights(1);
    /// Put into it.
    pub const WRITE: Rights = Rights(2);
    /// Update it atomically.
    pub const ATOMIC: Rights = Rights(4);
    /// All of these.
    pub const ALL: Rights = Rights(7);

    /// Whether these rights include all of `other`.
    ///
    /// ```
    /// use barewire_core::region::Rights;
    /// assert!((Rights::READ | Rights::WRITE).include(Rights::WRITE));
    /// assert!(!Rights::READ.include(Rights::ATOMIC));
    /// ```
    pub const fn include(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Rights {
    type Output = Rights;
    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

/// Names an exported region. Whoever holds it may use the region, as far as the owner's rights go.
///
/// ```
/// use barewire_core::region::{Memory, Rights, Who};
/// use barewire_core::{Config, Endpoint, Peer, job::Job};
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let memory = Memory::private(100);
/// let [first, second] = [0; 2].map(|_| endpoint.export(&memory, Rights::READ, Who::Anyone).unwrap());
/// assert_eq!((first.owner, first.len), (Peer(0), 100));
/// assert_ne!(first, second, "each export has a name of its own");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Whose memory it is.
    pub owner: Peer,
    pub(crate) slot: u32,
    pub(crate) nonce: u64,
    /// Bytes in the region.
    pub len: u64,
}

impl Key {
    /// Bytes of an encoded key.
    pub const BYTES: usize = 24;

    /// The key as bytes, to be sent to whoever shall use it.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job, region::{Key, Memory, Rights, Who}};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let memory = Memory::private(100);
    /// let key = endpoint.export(&memory, Rights::ALL, Who::Anyone).unwrap();
    /// assert_eq!(Key::from_bytes(key.to_bytes()), key);
    /// ```
    pub fn to_bytes(self) -> [u8; Key::BYTES] {
        let mut bytes = [0; Key::BYTES];
        bytes[..4].copy_from_slice(&self.owner.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.slot.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[16..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// The key in these bytes. Any bytes are a key; whether it opens anything is the owner's to say.
    ///
    /// ```
    /// use barewire_core::region::{Key, RegionError, Rights};
    /// use barewire_core::{Config, Endpoint, Peer, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let guessed = Key::from_bytes([0; Key::BYTES]);
    /// assert_eq!((guessed.owner, guessed.len), (Peer(0), 0));
    /// assert_eq!(endpoint.reach(guessed, Rights::READ).unwrap_err(), RegionError::BadKey);
    /// ```
    pub fn from_bytes(bytes: [u8; Key::BYTES]) -> Key {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Key { owner: Peer(word(0)), slot: word(4), nonce: long(8), len: long(16) }
    }
}

/// Why an operation on a region failed. It touched nothing.
///
/// ```
/// use barewire_core::region::{Atomic, Memory, RegionError, Rights, Who, Width};
/// use barewire_core::{Config, Endpoint, Ignore, job::Job};
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let key = endpoint.export(&Memory::private(64), Rights::ALL, Who::Anyone).unwrap();
/// let mut add = |at| {
///     let op = endpoint.atomic(key, at, Width::U64, Atomic::Add(1)).unwrap();
///     endpoint.finish(&mut Ignore, op, None)
/// };
/// assert_eq!((add(56), add(64)), (Ok(0), Err(RegionError::OutOfRange.into())));
/// assert_eq!(add(4), Err(RegionError::Misaligned.into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The key names no region, or one that was revoked.
    #[error("the key opens no region: it is wrong, or was revoked")]
    BadKey,
    /// The bytes do not all lie in the region.
    #[error("the bytes do not all lie in the region")]
    OutOfRange,
    /// The owner did not grant that right, or not to us.
    #[error("the owner did not grant that right")]
    Denied,
    /// An atomic needs an aligned word.
    #[error("atomic operations need a word aligned to its size")]
    Misaligned,
    /// The operation could not be started.
    #[error(transparent)]
    Send(#[from] SendError),
}

impl RegionError {
    fn code(self) -> u64 {
        match self {
            RegionError::BadKey => 1,
            RegionError::OutOfRange => 2,
            RegionError::Denied => 3,
            RegionError::Misaligned => 4,
            RegionError::Send(_) => 5,
        }
    }

    /// The outcome behind a status word from the owner.
    fn from_code(code: u64, owner: Peer) -> Result<(), RegionError> {
        match code {
            0 => Ok(()),
            1 => Err(RegionError::BadKey),
            2 => Err(RegionError::OutOfRange),
            3 => Err(RegionError::Denied),
            4 => Err(RegionError::Misaligned),
            _ => Err(RegionError::Send(SendError::Lost(owner))),
        }
    }
}

/// An atomic update of one word.
///
/// ```
/// use barewire_core::region::{Atomic, Memory, Width};
/// let lock = Memory::private(8);
/// let try_lock = Atomic::CompareSwap { expected: 0, new: 1 };
/// assert_eq!(try_lock.apply(&lock, 0, Width::U64), Ok(0), "it was free, and is ours");
/// assert_eq!(try_lock.apply(&lock, 0, Width::U64), Ok(1), "it is taken");
/// assert_eq!(Atomic::Xor(3).apply(&lock, 0, Width::U64), Ok(1));
/// assert_eq!(Atomic::And(6).apply(&lock, 0, Width::U64), Ok(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Atomic {
    /// Adds, wrapping around.
    Add(u64),
    /// Replaces.
    Swap(u64),
    /// Replaces if the old value is `expected`.
    CompareSwap {
        /// What it must be.
        expected: u64,
        /// What it becomes then.
        new: u64,
    },
    /// Bitwise and.
    And(u64),
    /// Bitwise or.
    Or(u64),
    /// Bitwise exclusive or.
    Xor(u64),
}

/// How wide a word an atomic update is on.
///
/// ```
/// use barewire_core::region::{Atomic, Memory, Width};
/// let memory = Memory::private(8);
/// assert_eq!(Atomic::Swap(u64::MAX).apply(&memory, 0, Width::U32), Ok(0));
/// assert_eq!(Atomic::Add(1).apply(&memory, 0, Width::U32), Ok(0xffff_ffff));
/// assert_eq!(Atomic::Or(0).apply(&memory, 0, Width::U64), Ok(0), "it wrapped, and nothing was carried beyond");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Four bytes.
    U32,
    /// Eight bytes.
    U64,
}

impl Width {
    fn bytes(self) -> u64 {
        match self {
            Width::U32 => 4,
            Width::U64 => 8,
        }
    }
}

impl Atomic {
    fn encode(self, width: Width) -> [u64; 3] {
        let wide = if width == Width::U64 { 1 << 8 } else { 0 };
        match self {
            Atomic::Add(v) => [wide, v, 0],
            Atomic::Swap(v) => [wide | 1, v, 0],
            Atomic::CompareSwap { expected, new } => [wide | 2, new, expected],
            Atomic::And(v) => [wide | 3, v, 0],
            Atomic::Or(v) => [wide | 4, v, 0],
            Atomic::Xor(v) => [wide | 5, v, 0],
        }
    }

    fn decode([code, a, b]: [u64; 3]) -> Option<(Atomic, Width)> {
        let width = match code >> 8 {
            0 => Width::U32,
            1 => Width::U64,
            _ => return None,
        };
        let atomic = match code & 0xff {
            0 => Atomic::Add(a),
            1 => Atomic::Swap(a),
            2 => Atomic::CompareSwap { expected: b, new: a },
            3 => Atomic::And(a),
            4 => Atomic::Or(a),
            5 => Atomic::Xor(a),
            _ => return None,
        };
        Some((atomic, width))
    }

    /// Does it to memory within reach, and gives the old value; an error if the word is not there or not aligned.
    ///
    /// ```
    /// use barewire_core::region::{Atomic, Memory, RegionError, Width};
    /// let memory = Memory::private(16);
    /// assert_eq!(Atomic::Add(5).apply(&memory, 8, Width::U64), Ok(0));
    /// assert_eq!(Atomic::Swap(1).apply(&memory, 8, Width::U64), Ok(5));
    /// assert_eq!(Atomic::Swap(1).apply(&memory, 16, Width::U64), Err(RegionError::OutOfRange));
    /// ```
    pub fn apply(self, memory: &Memory, offset: u64, width: Width) -> Result<u64, RegionError> {
        use std::sync::atomic::Ordering::SeqCst;
        let at = usize::try_from(offset).map_err(|_| RegionError::OutOfRange)?;
        if at.checked_add(width.bytes() as usize).is_none_or(|end| end > memory.len()) {
            return Err(RegionError::OutOfRange);
        }
        // SYNC region atomics: sequentially consistent, whoever runs them; the owner reads with the same operations.
        match width {
            Width::U64 => {
                let word = memory.atomic_u64(at).ok_or(RegionError::Misaligned)?;
                Ok(match self {
                    Atomic::Add(v) => word.fetch_add(v, SeqCst),
                    Atomic::Swap(v) => word.swap(v, SeqCst),
                    Atomic::CompareSwap { expected, new } => {
                        word.compare_exchange(expected, new, SeqCst, SeqCst).unwrap_or_else(|old| old)
                    }
                    Atomic::And(v) => word.fetch_and(v, SeqCst),
                    Atomic::Or(v) => word.fetch_or(v, SeqCst),
                    Atomic::Xor(v) => word.fetch_xor(v, SeqCst),
                })
            }
            Width::U32 => {
                let word = memory.atomic_u32(at).ok_or(RegionError::Misaligned)?;
                Ok(u64::from(match self {
                    Atomic::Add(v) => word.fetch_add(v as u32, SeqCst),
                    Atomic::Swap(v) => word.swap(v as u32, SeqCst),
                    Atomic::CompareSwap { expected, new } => word
                        .compare_exchange(expected as u32, new as u32, SeqCst, SeqCst)
                        .unwrap_or_else(|old| old),
                    Atomic::And(v) => word.fetch_and(v as u32, SeqCst),
                    Atomic::Or(v) => word.fetch_or(v as u32, SeqCst),
                    Atomic::Xor(v) => word.fetch_xor(v as u32, SeqCst),
                }))
            }
        }
    }
}
