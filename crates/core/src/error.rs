//! What can go wrong, in words that say what to do.
//!
//! ```
//! use barewire_core::{Config, Endpoint, Peer, Port, job::Job};
//! let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
//! let error = endpoint.send(Peer(5), Port(0), 0, b"hi").unwrap_err();
//! assert_eq!(error.to_string(), "there is no peer 5");
//! ```

use barewire_sys::map::MapError;
pub use barewire_sys::ring::Full;

use crate::Peer;

/// Why a message was not taken. Nothing of it was sent.
///
/// ```
/// use barewire_core::{Config, Endpoint, Ignore, Port, SendError, job::Job};
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let me = endpoint.me();
/// let refused = loop {
///     if let Err(error) = endpoint.send(me, Port(1), 0, &[0; 100]) {
///         break error;
///     }
/// };
/// assert_eq!(refused, SendError::Full, "nobody has taken anything");
/// endpoint.progress(&mut Ignore, usize::MAX);
/// assert_eq!(endpoint.send(me, Port(1), 0, &[0; 100]), Ok(()));
/// ```
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
///
/// ```
/// use barewire_core::{Config, Endpoint, OpenError, job::Job};
/// let deaf = Config { shm: false, tcp: false, ..Config::default() };
/// let error = Endpoint::open(Job::alone().unwrap(), deaf).unwrap_err();
/// assert!(matches!(error, OpenError::Setting { name: "shm", .. }));
/// assert!(error.to_string().ends_with("at least one wire is needed"));
/// ```
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
///
/// ```
/// use barewire_core::{Config, Endpoint, Ignore, WaitError, job::Job};
/// use std::time::Duration;
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// let waited = endpoint.wait(&mut Ignore, Some(Duration::from_millis(1)), |_, _| false);
/// assert_eq!(waited, Err(WaitError::TimedOut));
/// ```
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
