//! Names of a node's things, what happens to them, and the words for what went wrong.

use barewire_core::region::RegionError;
use barewire_core::{Peer, SendError, WaitError};

use crate::slab::Slot;

/// A buffer of ours that others may import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Export(pub(super) Slot);

/// A buffer of somebody else's that we may write to: the *proxy*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Import(pub(super) Slot);

/// A deliberate update under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transfer(pub(super) Slot);

/// Local memory whose writes appear in an imported buffer by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Binding(pub(super) Slot);

/// A place to which a transfer is re-aimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Redirection(pub(super) Slot);

/// What is special about an exported buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// Transfers to it can be re-aimed ([`Vmmc::redirect`](super::Vmmc::redirect)). Every peer can then import it only once.
    pub redirectable: bool,
}

/// Whether a transfer is told to the owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notify {
    /// Nobody is told: the data is there, and that is all.
    #[default]
    Quiet,
    /// The export's notification handler runs at the owner, after the data is in place.
    Tell,
}

/// A transfer that has arrived in a buffer of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The buffer.
    pub export: Export,
    /// Who wrote.
    pub from: Peer,
    /// Where in the buffer.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
}

/// How a redirection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirected {
    /// Bytes that came.
    pub len: u64,
    /// Copies made here: none if the transfer knew of the redirection in time, one if not.
    pub copies: u32,
}

/// What happened to an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalidated {
    /// Which.
    pub import: Import,
    /// Whose buffer it was.
    pub peer: Peer,
    /// Why it is of no use any more.
    pub why: Why,
}

/// Why an import became invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// Its owner unexported the buffer.
    #[error("its owner unexported it")]
    Unexported,
    /// Its owner is gone. When it is back, import the buffer again.
    #[error("its owner is gone")]
    PeerLost,
}

/// Why a buffer was not exported, or something of ours not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// Another buffer has this number.
    #[error("another buffer is exported under number {0}")]
    NumberTaken(u32),
    /// It was unexported or unimported before, or is another node's.
    #[error("this node has no such export, import, binding or redirection")]
    NoSuch,
    /// A node has at most a million of each.
    #[error("a node has at most a million of each kind")]
    TooMany,
    /// The core does not export it.
    #[error(transparent)]
    Core(#[from] barewire_core::region::ExportError),
}

/// Why a buffer was not imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The peer has exported nothing under this number.
    #[error("nothing is exported under this number")]
    NotExported,
    /// The owner does not let us.
    #[error("the owner does not let us import it")]
    Denied,
    /// A buffer whose transfers can be re-aimed is imported once by each peer.
    #[error("it can be re-aimed, so each peer imports it only once")]
    Twice,
    /// There is no such import.
    #[error("this node has no such import")]
    NoSuch,
    /// It became invalid.
    #[error("the import is invalid: {0}")]
    Invalid(Why),
    /// A node has at most a million of each.
    #[error("a node has at most a million of each kind")]
    TooMany,
    /// The owner is gone, or there is no such peer.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The wait ended first.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

/// Why bytes were not transferred. None of them was, unless the peer was lost meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// There is no such import, binding or transfer.
    #[error("this node has no such import, binding or transfer")]
    NoSuch,
    /// The import is not valid yet: its owner has not answered.
    #[error("the owner has not answered yet")]
    NotYet,
    /// The import was invalidated.
    #[error("the import is invalid: {0}")]
    Invalid(Why),
    /// The bytes would not all lie in the buffer.
    #[error("the bytes do not all lie in the buffer")]
    OutOfRange,
    /// The bytes do not all lie in their source.
    #[error("the bytes do not all lie in their source")]
    SourceRange,
    /// The owner refused, or the core.
    #[error(transparent)]
    Refused(RegionError),
    /// A node has at most a million of each.
    #[error("a node has at most a million of each kind")]
    TooMany,
    /// The wait ended first.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

impl From<RegionError> for TransferError {
    fn from(error: RegionError) -> TransferError {
        match error {
            RegionError::BadKey => TransferError::Invalid(Why::Unexported),
            RegionError::Send(SendError::Lost(_)) => TransferError::Invalid(Why::PeerLost),
            error => TransferError::Refused(error),
        }
    }
}

/// Why a redirection came to nothing, or was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedirectError {
    /// There is no such export or redirection.
    #[error("this node has no such export or redirection")]
    NoSuch,
    /// The buffer was not exported as redirectable.
    #[error("the buffer was not exported as redirectable")]
    NotRedirectable,
    /// The new place does not lie in its memory.
    #[error("the new place does not lie in its memory")]
    Range,
    /// The transfer was longer than the new place. It is in the default buffer.
    #[error("the transfer is longer than the new place; it is in the default buffer")]
    TooLong,
    /// The peer is gone, or has freed its import.
    #[error("the peer is gone, or has freed its import")]
    PeerLost,
    /// A node has at most a million of each.
    #[error("a node has at most a million of each kind")]
    TooMany,
    /// The wait ended first.
    #[error(transparent)]
    Wait(#[from] WaitError),
}
