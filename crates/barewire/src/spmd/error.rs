//! What can go wrong in a program whose ranks share memory.

use barewire_core::region::{ExportError, FinishError, RegionError};
use barewire_core::{Peer, SendError, WaitError};

/// Why an operation failed. It had no effect, unless it says otherwise.
///
/// ```
/// # use barewire::{core::{Config, Endpoint, job::Job}, spmd::{Quiet, World}};
/// # let mut world = World::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Quiet);
/// use barewire::spmd::Error;
/// let memory = world.symmetric(16).unwrap();
/// let failed = world.put(&memory, 3, 0, b"hello");
/// assert_eq!(failed, Err(Error::NoSuchRank { rank: 3, size: 1 }));
/// assert_eq!(failed.unwrap_err().to_string(), "there is no rank 3 among 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The owner refused: a key that opens nothing any more, bytes outside of its memory, a word that is not aligned.
    #[error(transparent)]
    Region(RegionError),
    /// A rank that this needs is gone. A collective operation may have happened in part; the group is of no use any more.
    #[error("rank {0} is gone")]
    Lost(Peer),
    /// This rank failed in the middle of a collective operation, for a reason that it knows itself: a length that does not go together with the others',
    /// or that its time was up. The group is of no use any more.
    #[error("rank {0} failed in a collective operation")]
    Failed(Peer),
    /// The time that [`World::set_timeout`](super::World::set_timeout) allows is up. What was started may still happen.
    #[error("timed out")]
    TimedOut,
    /// There is no such rank.
    #[error("there is no rank {rank} among {size}")]
    NoSuchRank {
        /// What was asked for.
        rank: u32,
        /// How many there are.
        size: u32,
    },
    /// This rank is not in the group whose members call this.
    #[error("this rank is not a member of the group")]
    NotMember,
    /// The heap has no such range left.
    #[error("no {bytes} bytes are left in the heap")]
    HeapFull {
        /// What was asked for.
        bytes: usize,
    },
    /// The memory was not allocated, or was freed before.
    #[error("this is not allocated")]
    NotAllocated,
    /// The value of a split-phase operation was asked for before `sync`.
    #[error("the value is there only after sync")]
    NotSynced,
    /// Lengths, shapes or arguments that do not go together.
    #[error("{0}")]
    Mismatch(&'static str),
    /// The system gave no memory, or no randomness for a key.
    #[error("cannot make shared memory: {0}")]
    Memory(String),
    /// The process forked after it opened the endpoint.
    #[error("this process was forked from the one that opened the endpoint")]
    Forked,
    /// Only on a simulated network in virtual time, which these waits do not move.
    #[error("virtual time does not move in here")]
    VirtualTime,
}

impl Error {
    pub(crate) const OUT_OF_RANGE: Error = Error::Region(RegionError::OutOfRange);
}

impl From<RegionError> for Error {
    fn from(error: RegionError) -> Error {
        match error {
            RegionError::Send(error) => error.into(),
            error => Error::Region(error),
        }
    }
}

impl From<SendError> for Error {
    fn from(error: SendError) -> Error {
        match error {
            SendError::Lost(peer) => Error::Lost(peer),
            SendError::NoSuchPeer(peer) => Error::NoSuchRank { rank: peer.0, size: 0 },
            SendError::Forked => Error::Forked,
            SendError::Full => Error::TimedOut,
            _ => Error::Mismatch("a message longer than a packet"),
        }
    }
}

impl From<WaitError> for Error {
    fn from(error: WaitError) -> Error {
        match error {
            WaitError::TimedOut => Error::TimedOut,
            WaitError::Lost(peer) => Error::Lost(peer),
            WaitError::Forked => Error::Forked,
            _ => Error::VirtualTime,
        }
    }
}

impl From<FinishError> for Error {
    fn from(error: FinishError) -> Error {
        match error {
            FinishError::Region(error) => error.into(),
            FinishError::Wait(error) => error.into(),
            _ => Error::Mismatch("the operation's outcome was taken before"),
        }
    }
}

impl From<ExportError> for Error {
    fn from(error: ExportError) -> Error {
        Error::Memory(error.to_string())
    }
}
