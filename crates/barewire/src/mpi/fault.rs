//! What can go wrong in a call, said so that a person can act on it.

use barewire_core::region::RegionError;
use barewire_core::{Peer, SendError};

use super::group::Process;
use crate::spmd;

/// Why a call failed.
///
/// ```
/// use barewire::mpi::{self, Error};
/// mpi::launch(&[2], |comm| {
///     assert_eq!(comm.send(&[1.5], 2, 0), Err(Error::NoSuchRank { rank: 2, size: 2 }));
///     let short = Error::Truncated { over: 8, room: 8 };
///     assert_eq!(short.to_string(), "the message is 8 bytes longer than the 8 there is room for");
///     Ok::<(), Error>(())
/// }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process found no job to join, or could not open its endpoint.
    #[error("cannot join the job: {0}")]
    Start(String),
    /// The communicator has no such rank.
    #[error("there is no rank {rank} among {size}")]
    NoSuchRank {
        /// What was asked for.
        rank: u32,
        /// How many there are.
        size: u32,
    },
    /// Tags of messages are not negative.
    #[error("a message cannot have the tag {0}")]
    NoSuchTag(i32),
    /// The message was longer than its place, which has its beginning.
    #[error("the message is {over} bytes longer than the {room} there is room for")]
    Truncated {
        /// By how many bytes.
        over: u64,
        /// Bytes of the place.
        room: u64,
    },
    /// The message is no whole number of the elements that were asked for.
    #[error("a message of {bytes} bytes is no whole number of elements of {element}")]
    Ragged {
        /// Bytes of the message.
        bytes: u64,
        /// Bytes of an element.
        element: usize,
    },
    /// Lengths that do not go together: of the arguments of a call, which then did nothing, or of what several ranks passed to it.
    #[error("{what}: {got} instead of {expected}")]
    Length {
        /// What is too long or too short.
        what: &'static str,
        /// How long it had to be, in elements.
        expected: usize,
        /// How long it is.
        got: usize,
    },
    /// A process that the call needs is gone. A collective call may have happened in part.
    #[error("process {} of the job is gone", .0.0)]
    Lost(Process),
    /// A process failed in a collective call and will not do its part.
    #[error("process {} of the job gave up a collective call", .0.0)]
    GaveUp(Process),
    /// The operation was taken back, here or by its sender, before its message had come.
    #[error("cancelled")]
    Cancelled,
    /// The outcome of the request was had before.
    #[error("the outcome of this request has been taken")]
    Taken,
    /// The time that [`Comm::set_timeout`](super::Comm::set_timeout) allows is up.
    #[error("timed out")]
    TimedOut,
    /// This process has left the job: [`Comm::finish`](super::Comm::finish) was called.
    #[error("this process has left the job")]
    Finished,
    /// A process of the group is not in the communicator.
    #[error("process {} of the group is not in the communicator", .0.0)]
    NotMember(Process),
    /// Elements of a window that are not there.
    #[error("{len} elements from {at} on do not lie in a window of {has}")]
    OutOfRange {
        /// The first of them.
        at: usize,
        /// How many.
        len: usize,
        /// How many the window has there.
        has: usize,
    },
    /// Only words of 4 or 8 bytes can be combined in a window.
    #[error("elements of {bytes} bytes cannot be updated in one step: only those of 4 or 8 can")]
    NotAWord {
        /// Bytes of an element.
        bytes: usize,
    },
    /// The window was freed at its owner.
    #[error("the window was freed")]
    Freed,
    /// The call makes no sense now: a lock twice, an epoch that was not begun.
    #[error("{0}")]
    OutOfOrder(&'static str),
    /// The system gave no memory, no randomness for a key, or no descriptor.
    #[error("the system gave no memory or descriptor: {0}")]
    System(String),
    /// The process forked after it joined the job.
    #[error("this process was forked from the one that joined the job")]
    Forked,
    /// Only on a simulated network in virtual time, which these waits do not move.
    #[error("virtual time does not move in here")]
    VirtualTime,
}

impl From<Peer> for Process {
    fn from(peer: Peer) -> Process {
        Process(peer.0)
    }
}

impl From<spmd::Error> for Error {
    fn from(error: spmd::Error) -> Error {
        match error {
            spmd::Error::Lost(peer) => Error::Lost(peer.into()),
            spmd::Error::TimedOut => Error::TimedOut,
            spmd::Error::NoSuchRank { rank, size } => Error::NoSuchRank { rank, size },
            spmd::Error::Region(RegionError::BadKey) => Error::Freed,
            spmd::Error::Forked => Error::Forked,
            spmd::Error::VirtualTime => Error::VirtualTime,
            spmd::Error::Memory(why) => Error::System(why),
            other => Error::System(other.to_string()),
        }
    }
}

impl From<SendError> for Error {
    fn from(error: SendError) -> Error {
        spmd::Error::from(error).into()
    }
}
