//! Bootstrap: how a process finds the job it belongs to.
//!
//! [`from_environment`] looks, in this order, for our own launcher, for PMI-1 (MPICH, Intel MPI, Slurm), for PMIx
//! (Open MPI, Slurm), for a rendezvous, and otherwise makes a job of one. A launcher that is visible but cannot be spoken to is an error with its
//! name: N programs that each believe to be alone are worse than none.
//!
//! A [`Client`] is the process's line to whoever started it: it publishes this rank's address card, fetches others' on
//! first use, and hears of losses. The other end is a [`Hub`]. Nothing in either direction is trusted further than its
//! length and its shape have been checked.
//!
//! ```
//! use barewire_core::boot::{self, Environment};
//! let job = boot::join(&Environment::default())?;
//! assert_eq!((job.rank, job.size), (0, 1), "nobody started us: a job of one");
//!
//! let pairs = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")];
//! let foreign = Environment::from_pairs(pairs.map(|(name, value)| (name.into(), value.into())))?;
//! assert!(boot::join(&foreign).unwrap_err().to_string().contains("Open MPI"));
//! # Ok::<(), boot::BootError>(())
//! ```

pub mod auth;
mod client;
pub mod environment;
mod foreign;
pub mod frame;
pub mod hex;
mod hub;
mod key_file;
mod layout;
mod link;
pub mod message;
mod pmi;
mod pmix;
mod rendezvous;
mod wire_client;

use std::io;

pub use client::{Client, Event, Spec};
pub use environment::Environment;
pub use hub::{Hub, Notice, Outbox};
pub use key_file::user_key;
pub use layout::{Layout, Run};
pub use link::{Fill, Link};
pub use message::LostReason;
pub use rendezvous::dial;

use crate::job::{Job, JobId, JobKey};

/// Finds the job this process was started in.
///
/// ```
/// use barewire_core::boot;
/// let job = boot::from_environment()?;
/// assert!(job.rank < job.size);
/// # Ok::<(), boot::BootError>(())
/// ```
pub fn from_environment() -> Result<Job, BootError> {
    join(&Environment::capture()?)
}

/// Finds the job that `environment` describes.
///
/// ```
/// use barewire_core::boot::{self, Environment};
/// let promised = Environment::from_pairs([("BAREWIRE_BOOT_FD".into(), "1".into())])?;
/// let error = boot::join(&promised).unwrap_err();
/// assert!(matches!(error, boot::BootError::NoDescriptor { fd: 1, .. }), "standard output is no launcher");
/// # Ok::<(), boot::BootError>(())
/// ```
pub fn join(environment: &Environment) -> Result<Job, BootError> {
    let job = find(environment)?;
    Ok(Job { crowded: environment.is_crowded(job.size)?, seat: environment.seat()?, ..job })
}

fn find(environment: &Environment) -> Result<Job, BootError> {
    if let Some(fd) = environment.boot_fd()? {
        return wire_client::join(inherit(fd, environment::BOOT_FD)?);
    }
    if let Some(start) = environment.pmi()? {
        return pmi::client::join(inherit(start.fd, "PMI_FD")?, start.rank, start.size);
    }
    if environment.has_pmix() {
        return pmix::join().map_err(|error| foreign::without_library(environment, error));
    }
    if let Some(address) = environment.rendezvous() {
        return rendezvous::join(address, environment);
    }
    if let Some(launcher) = foreign::visible(environment) {
        return Err(launcher);
    }
    Job::alone().map_err(|source| BootError::Io { doing: "making a key", source })
}

fn inherit(fd: i32, variable: &'static str) -> Result<std::os::fd::OwnedFd, BootError> {
    barewire_sys::inherit::take(fd).map_err(|source| BootError::NoDescriptor { variable, fd, source })
}

/// Why a process did not find its job, or lost its line to it.
///
/// ```
/// use barewire_core::boot::{self, BootError, Environment};
/// let variables = [("SLURM_STEP_ID".to_owned(), "0".to_owned())];
/// match boot::join(&Environment::from_pairs(variables)?) {
///     Err(BootError::Unspeakable { launcher, advice }) => {
///         assert_eq!(launcher, "Slurm's srun without PMI");
///         assert!(advice.starts_with("use `srun --mpi=pmi2`"));
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), BootError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootError {
    /// The environment cannot be understood.
    #[error(transparent)]
    Environment(#[from] environment::EnvironmentError),
    /// Another launcher started this process, and we cannot speak with it.
    #[error("this process was started by {launcher}, which Barewire cannot speak with here: {advice}")]
    Unspeakable {
        /// The launcher.
        launcher: &'static str,
        /// What to do instead.
        advice: String,
    },
    /// The descriptor the launcher promised is not there.
    #[error(
        "{variable}={fd}, but descriptor {fd} cannot be used ({source}): \
         the launcher's connection was closed on the way to this process, or another process uses it"
    )]
    NoDescriptor {
        /// The variable that names it.
        variable: &'static str,
        /// Its number.
        fd: i32,
        /// What the system said.
        source: io::Error,
    },
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Nobody could be reached at an address.
    #[error("connecting to {address}: {source}")]
    Connect {
        /// Where.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// Whoever is at an address closed the connection instead of greeting us, as those do who hold another key.
    #[error(
        "{address} closed the connection without a greeting: does it hold the same key, and is it one of ours?"
    )]
    Unheard {
        /// Where.
        address: String,
    },
    /// The launcher sent something that makes no sense.
    #[error("the launcher's connection carries nonsense: {0}")]
    Frame(#[from] frame::FrameError),
    /// The launcher will not have us.
    #[error("the launcher refuses this process: {text}")]
    Refused {
        /// Its words.
        text: String,
    },
    /// The launcher is gone.
    #[error("the launcher closed its connection")]
    Closed,
    /// It took too long.
    #[error("timed out {doing}")]
    Timeout {
        /// What was being waited for.
        doing: &'static str,
    },
    /// A barrier cannot complete.
    #[error("rank {rank} is gone and will not reach the barrier")]
    Broken {
        /// The rank that is gone.
        rank: u32,
    },
    /// A card is too long.
    #[error("an address card of {len} bytes is longer than the {max} allowed")]
    CardTooLong {
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// There is no such rank.
    #[error("there is no rank {rank} in a job of {size}")]
    NoSuchRank {
        /// The rank asked for.
        rank: u32,
        /// The job's size.
        size: u32,
    },
    /// A PMI server said no.
    #[error("the launcher's PMI answered {reply:?} to {request:?}")]
    Pmi {
        /// What was asked.
        request: String,
        /// What came back.
        reply: String,
    },
    /// A PMIx server did not say what a job needs.
    #[error("the launcher's PMIx: {doing}")]
    Pmix {
        /// What is wrong.
        doing: &'static str,
    },
    /// A call of PMIx failed.
    #[error("the launcher's PMIx: {error}")]
    PmixCall {
        /// Which, and why.
        error: barewire_sys::pmix::PmixError,
    },
    /// The rendezvous is someone else.
    #[error("the rendezvous at {address}: {source}")]
    Stranger {
        /// Where.
        address: String,
        /// Why it is not trusted.
        source: auth::Stranger,
    },
    /// The user's key file cannot be used.
    #[error("key file {path}: {reason}")]
    KeyFile {
        /// Which file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

#[cfg(test)]
mod tests;
