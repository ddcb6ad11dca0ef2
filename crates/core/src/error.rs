//! What can go wrong, in words that say what to do.

use barewire_sys::map::MapError;
pub use barewire_sys::ring::Full;

use crate::Peer;

/// Why a message was not taken. Nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The receiver cannot hold more at the moment: make progress and try again.
    #[error("no room: the receiver has to take something first")]
    Full,
    /// The peer is gone; see [`crate::Endpoint::peer_state`] for how.
    #[error("peer {} is gone", .0.0)]
    Lost(Peer),
    /// There is no such peer in this job.
    #[error("there is no peer {}", .0.0)]
    NoSuchPeer(Peer),
    /// More than one packet holds; use a streamed message.
    #[error("{len} bytes do not fit one packet of {max}; send a streamed message instead")]
    TooLong {
        /// What was asked for.
        len: usize,
        /// What fits.
        max: usize,
    },
    /// The process forked after it opened the endpoint.
    #[error(
        "this process was forked from the one that opened the endpoint; open a new endpoint in the child"
    )]
    Forked,
}

impl From<Full> for SendError {
    fn from(_: Full) -> SendError {
        SendError::Full
    }
}

/// Why an endpoint could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Shared memory could not be had.
    #[error(transparent)]
    Memory(#[from] MapError),
    /// A socket could not be had.
    #[error("cannot open {what}: {error}")]
    Socket {
        /// Which one.
        what: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
    /// The environment cannot be understood.
    #[error(transparent)]
    Environment(#[from] crate::boot::environment::EnvironmentError),
    /// There is no such network interface, or it has no address.
    #[error("there is no network interface {name} with an address here; `barewire info` lists them")]
    NoInterface {
        /// The name asked for.
        name: String,
    },
    /// All ports that may be used are taken.
    #[error("no port from {first} to {last} is free here; widen --port-range (each rank needs one)")]
    NoFreePort {
        /// The lowest.
        first: u16,
        /// The highest.
        last: u16,
    },
    /// The job's directory did not take our address.
    #[error("cannot join the job: {0}")]
    Directory(String),
    /// A setting is out of range.
    #[error("{name} is {value}, but {rule}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What it was set to.
        value: u64,
        /// What holds for it.
        rule: &'static str,
    },
}

/// Why a wait ended without what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The time is up.
    #[error("timed out")]
    TimedOut,
    /// A peer that the wait needs is gone.
    #[error("peer {} is gone", .0.0)]
    Lost(Peer),
    /// Only in a simulated network's virtual time: another endpoint acts next. Let it make progress, then wait again.
    #[error("in virtual time it is endpoint {}'s turn: make its progress first", .0.0)]
    NotOurTurn(Peer),
    /// Only in a simulated network's virtual time: nobody has anything to do, so nothing will ever arrive.
    #[error("in virtual time nothing will ever happen again: every endpoint is idle")]
    Never,
    /// The process forked after it opened the endpoint.
    #[error(
        "this process was forked from the one that opened the endpoint; open a new endpoint in the child"
    )]
    Forked,
}
