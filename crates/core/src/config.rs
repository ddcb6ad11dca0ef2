//! Settings: few, each with its default and its cost.
//!
//! ```
//! use barewire_core::{Config, Endpoint, job::Job};
//! let config = Config { tcp: false, ..Config::default() };
//! let endpoint = Endpoint::open(Job::alone().unwrap(), config).unwrap();
//! assert_eq!(endpoint.size(), 1);
//! ```

use std::time::Duration;

use barewire_sys::cpu::machine_cpus;

use crate::error::OpenError;
use crate::job::Job;

/// The pool of one process, and those of all on a host.
const POOL_BYTES_MIN: usize = 1 << 20;
const POOL_BYTES_MAX: usize = 6 << 20;
const POOLS_BYTES: usize = 64 << 20;

/// The ring from one process to another on its host, and where there are so many that all their rings would cost too much.
const RING_BYTES: usize = 32 << 10;
const RING_BYTES_IN_A_CROWD: usize = 16 << 10;

/// Most bytes of a message by the shuttle between two processes, with what stands before them, and where that takes more than the page that
/// they have for it anyway: not with so many on a host that all their pairs would cost too much.
const CARGO_BYTES_MAX: usize = (256 << 10) + 4096;
const CARGO_BYTES_MIN: usize = 2 << 10;
/// More processes than this on a host are a crowd.
const FEW_PROCESSES_MAX: usize = 16;

/// How an endpoint behaves. The defaults suit almost everybody.
///
/// ```
/// use barewire_core::{Config, Endpoint, OpenError, job::Job};
/// let small = Config { ring_bytes: Some(8192), ..Config::default() };
/// assert!(Endpoint::open(Job::alone().unwrap(), small).is_ok());
/// let odd = Config { ring_bytes: Some(5000), ..Config::default() };
/// assert!(matches!(Endpoint::open(Job::alone().unwrap(), odd), Err(OpenError::Setting { name: "ring_bytes", .. })));
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes of ring for each neighbour that sends to us over shared memory; a power of two from 4 KiB. Default 32 KiB,
    /// and 16 KiB where more than 16 processes share the host.
    /// Costs that much memory for every pair that talks; more lets a sender run further ahead.
    pub ring_bytes: Option<usize>,
    /// Bytes of the pool through which this endpoint sends long messages to neighbours, made on first use. Default 6 MiB, so that
    /// a window of 64 messages of 64 KiB finds room; messages from 512 KiB on use the first third of it, which leaves more of a cache to themselves. Where
    /// many processes share the host so much less that theirs together take 64 MiB, down to 1 MiB each.
    pub pool_bytes: Option<usize>,
    /// Bytes of messages that may be on their way or held at one receiver, on wires other than shared memory. Default 2 MiB.
    /// Costs at most that much memory at the receiver for every peer whose handler is suspended. One packet may always be
    /// on its way, however little this is. It also bounds what is kept of tagged messages that nobody has asked for, on every
    /// wire; a peer that has four times as much kept is taken for an impostor, so let the endpoints of a job agree on it.
    pub credit_bytes: usize,
    /// Use shared memory with processes of the same host. Default true.
    pub shm: bool,
    /// Listen for and connect by TCP. Default true.
    pub tcp: bool,
    /// The addresses to listen on. Default: all of the host's, a port of the system's choice.
    pub listen: Vec<std::net::SocketAddr>,
    /// A wait longer than this is reported on standard error with who waits for whom. Default 10 s; zero turns it off.
    pub watchdog: Duration,
    /// How long an idle wait yields the processor before it sleeps. Default 2 ms. Longer costs processor time and
    /// saves the 50 µs that waking a sleeper takes.
    pub yield_for: Duration,
    /// A peer that cannot be reached for this long when first needed is lost. Default 30 s.
    pub connect_within: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            ring_bytes: None,
            pool_bytes: None,
            credit_bytes: 2 << 20,
            shm: true,
            tcp: true,
            listen: Vec::new(),
            watchdog: Duration::from_secs(10),
            yield_for: Duration::from_millis(2),
            connect_within: Duration::from_secs(30),
        }
    }
}

impl Config {
    /// Whether every setting is in its range.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let bad = |name, value: usize, rule| Err(OpenError::Setting { name, value: value as u64, rule });
        if let Some(bytes) =
            self.ring_bytes.filter(|bytes| !bytes.is_power_of_two() || !(4096..=1 << 30).contains(bytes))
        {
            return bad("ring_bytes", bytes, "it must be a power of two from 4 KiB to 1 GiB");
        }
        if let Some(bytes) = self.pool_bytes.filter(|bytes| !(1 << 16..=1 << 32).contains(bytes)) {
            return bad("pool_bytes", bytes, "it must be from 64 KiB to 4 GiB");
        }
        if !(1..=1 << 32).contains(&self.credit_bytes) {
            return bad("credit_bytes", self.credit_bytes, "it must be from 1 B to 4 GiB");
        }
        if !self.shm && !self.tcp {
            return bad("shm", 0, "tcp is off too; at least one wire is needed");
        }
        Ok(())
    }

    /// Bytes of the ring from one of the job's processes to another.
    pub(crate) fn ring_bytes_in(&self, job: &Job) -> usize {
        let default =
            if processes_here(job) <= FEW_PROCESSES_MAX { RING_BYTES } else { RING_BYTES_IN_A_CROWD };
        self.ring_bytes.unwrap_or(default)
    }

    /// Bytes of the pool of one of the job's processes.
    pub(crate) fn pool_bytes_in(&self, job: &Job) -> usize {
        self.pool_bytes.unwrap_or((POOLS_BYTES / processes_here(job)).clamp(POOL_BYTES_MIN, POOL_BYTES_MAX))
    }
}

/// Bytes of a message that may go by the shuttle between two of the job's processes.
pub(crate) fn cargo_bytes_in(job: &Job) -> usize {
    if processes_here(job) <= FEW_PROCESSES_MAX { CARGO_BYTES_MAX } else { CARGO_BYTES_MIN }
}

/// As many of the job's processes may be on this host.
fn processes_here(job: &Job) -> usize {
    let most = if job.crowded { job.size as usize } else { machine_cpus() };
    most.min(job.size as usize).max(1)
}
