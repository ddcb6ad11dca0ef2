//! The environment: the one place that reads it.
//!
//! Every variable of ours is in [`KNOWN`]; a name that begins with `BAREWIRE_` and is not there is an error that names
//! the nearest one that is, because a misspelt setting that is quietly ignored costs somebody an afternoon.
//!
//! ```
//! use barewire_core::boot::environment::{Environment, KNOWN, PREFIX};
//! assert!(KNOWN.iter().all(|(name, meaning)| name.starts_with(PREFIX) && !meaning.is_empty()));
//! let misspelt = Environment::from_pairs([("BAREWIRE_INTERFACES".into(), "eth0".into())]);
//! assert!(misspelt.unwrap_err().to_string().ends_with("did you mean BAREWIRE_INTERFACE?"));
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Config;
use crate::job::Seat;

/// The connection to our launcher: a descriptor number.
pub const BOOT_FD: &str = "BAREWIRE_BOOT_FD";
/// Where programs that start by themselves meet: `host:port`.
pub const RENDEZVOUS: &str = "BAREWIRE_RENDEZVOUS";
/// The file with the user's key.
pub const KEY_FILE: &str = "BAREWIRE_KEY_FILE";
/// Programs that start by themselves talk to anybody: `1`.
pub const OPEN: &str = "BAREWIRE_OPEN";
/// The network interface to use between hosts.
pub const INTERFACE: &str = "BAREWIRE_INTERFACE";
/// The ports to listen on: `first-last`.
pub const PORT_RANGE: &str = "BAREWIRE_PORT_RANGE";
/// TCP between processes of one host, too: `1`.
pub const TCP: &str = "BAREWIRE_TCP";
/// Seconds after which a wait is reported; 0 for never.
pub const WATCHDOG: &str = "BAREWIRE_WATCHDOG";
/// This rank among those of its host.
pub const LOCAL_RANK: &str = "BAREWIRE_LOCAL_RANK";
/// The number of ranks on this host.
pub const LOCAL_SIZE: &str = "BAREWIRE_LOCAL_SIZE";
/// The number of processors for them.
pub const LOCAL_CPUS: &str = "BAREWIRE_LOCAL_CPUS";
/// What every variable of ours begins with.
pub const PREFIX: &str = "BAREWIRE_";

/// Our variables and what they are for.
pub const KNOWN: &[(&str, &str)] = &[
    (BOOT_FD, "set by the launcher: the descriptor of its connection"),
    ("BAREWIRE_CC", "the C compiler behind mpicc"),
    ("BAREWIRE_CXX", "the C++ compiler behind mpicxx"),
    ("BAREWIRE_FC", "the Fortran compiler behind mpifort"),
    ("BAREWIRE_PEERS", "where `barewire perf` keeps the libraries it compares with"),
    ("BAREWIRE_RANK", "set by the launcher, for scripts: this rank"),
    ("BAREWIRE_SIZE", "set by the launcher, for scripts: the number of ranks"),
    (LOCAL_RANK, "set by the launcher: this rank among those of its host"),
    (LOCAL_SIZE, "set by the launcher: the number of ranks on this host"),
    (LOCAL_CPUS, "set by the launcher: the number of processors for the ranks of this host"),
    (RENDEZVOUS, "host:port where programs that start by themselves meet"),
    (KEY_FILE, "file with the key for programs that start by themselves; default ~/.config/barewire/key"),
    (OPEN, "1: programs that start by themselves need no key, and anybody who reaches them may talk to them"),
    (INTERFACE, "network interface to use between hosts"),
    (TCP, "1: TCP also between processes of one host, in order to measure it"),
    (PORT_RANGE, "ports to listen on, first-last"),
    (
        WATCHDOG,
        "seconds after which a wait says on standard error whom it waits for; 0 for never; default 10",
    ),
];

/// A snapshot of the variables that matter to start-up.
///
/// ```
/// use barewire_core::boot::{self, Environment};
/// let lonely = Environment::default();
/// let job = boot::join(&lonely)?;
/// assert_eq!((job.rank, job.size), (0, 1), "no variable names a launcher");
/// # Ok::<(), boot::BootError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Environment {
    values: BTreeMap<String, String>,
}

/// Why the environment cannot be used.
///
/// ```
/// use barewire_core::boot::environment::{Environment, EnvironmentError};
/// let odd = Environment::from_pairs([("BAREWIRE_TCP".into(), "yes".into())]).unwrap();
/// let error = odd.config().unwrap_err();
/// assert!(matches!(error, EnvironmentError::Value { name: "BAREWIRE_TCP", .. }));
/// assert_eq!(error.to_string(), r#"BAREWIRE_TCP="yes" in the environment: expected 0 or 1"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// A name of ours that does not exist.
    #[error("the environment sets {name}, which Barewire does not know; did you mean {nearest}?")]
    Unknown {
        /// The name.
        name: String,
        /// The known name nearest to it.
        nearest: &'static str,
    },
    /// A value that makes no sense.
    #[error("{name}={value:?} in the environment: expected {expected}")]
    Value {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// One of a set is missing.
    #[error(
        "the environment sets {present} but not {missing}, so the launcher's start-up information is incomplete"
    )]
    Incomplete {
        /// The variable that is there.
        present: &'static str,
        /// The one that is not.
        missing: &'static str,
    },
}

/// What a PMI launcher says in the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PmiStart {
    /// The descriptor to speak on.
    pub fd: i32,
    /// This rank.
    pub rank: u32,
    /// The number of ranks.
    pub size: u32,
}

/// What may be used of the network; nothing said means all of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Network {
    /// The interface to listen on.
    pub interface: Option<String>,
    /// The ports to listen on.
    pub ports: Option<std::ops::RangeInclusive<u16>>,
}

impl Environment {
    /// The environment of this process.
    ///
    /// ```
    /// use barewire_core::boot::Environment;
    /// let environment = Environment::capture()?;
    /// let only_tcp = std::env::var("BAREWIRE_TCP").is_ok_and(|value| value == "1");
    /// assert_eq!(environment.config()?.shm, !only_tcp);
    /// # Ok::<(), barewire_core::boot::environment::EnvironmentError>(())
    /// ```
    pub fn capture() -> Result<Self, EnvironmentError> {
        let pairs = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        });
        Self::from_pairs(pairs)
    }

    /// An environment of these variables; the unknown of ours are refused.
    ///
    /// ```
    /// use barewire_core::boot::Environment;
    /// let error = Environment::from_pairs([("BAREWIRE_RENDEVOUS".into(), "a:1".into())]).unwrap_err();
    /// assert!(error.to_string().ends_with("did you mean BAREWIRE_RENDEZVOUS?"));
    /// ```
    pub fn from_pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, EnvironmentError> {
        let values: BTreeMap<_, _> = pairs.into_iter().collect();
        let unknown = values
            .keys()
            .find(|name| name.starts_with(PREFIX) && !KNOWN.iter().any(|(known, _)| known == name));
        match unknown {
            Some(name) => Err(EnvironmentError::Unknown { nearest: nearest(name), name: name.clone() }),
            None => Ok(Self { values }),
        }
    }

    /// A variable's value; an empty one counts as unset.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The descriptor of our launcher's connection.
    pub(super) fn boot_fd(&self) -> Result<Option<i32>, EnvironmentError> {
        self.number(BOOT_FD, "a descriptor number")
    }

    /// What a PMI-1 launcher left for us.
    pub(super) fn pmi(&self) -> Result<Option<PmiStart>, EnvironmentError> {
        let Some(fd) = self.number("PMI_FD", "a descriptor number")? else { return Ok(None) };
        let rank = self.number::<u32>("PMI_RANK", "a rank")?;
        let size = self.number::<u32>("PMI_SIZE", "a number of ranks")?;
        let missing = |missing| EnvironmentError::Incomplete { present: "PMI_FD", missing };
        let rank = rank.ok_or_else(|| missing("PMI_RANK"))?;
        let size = size.ok_or_else(|| missing("PMI_SIZE"))?;
        if rank >= size {
            let value = rank.to_string();
            return Err(EnvironmentError::Value {
                name: "PMI_RANK",
                value,
                expected: "a rank below PMI_SIZE",
            });
        }
        Ok(Some(PmiStart { fd, rank, size }))
    }

    /// Whether a PMIx launcher left us a server to talk to.
    pub(super) fn has_pmix(&self) -> bool {
        let server = self.values.keys().any(|name| name.starts_with("PMIX_SERVER_URI"));
        server && self.get("PMIX_RANK").is_some() && self.get("PMIX_NAMESPACE").is_some()
    }

    /// Whether a job of `size` has more ranks on this host than there are processors for them. Where nobody says how many
    /// ranks are here, all of them may be.
    pub(super) fn is_crowded(&self, size: u32) -> Result<bool, EnvironmentError> {
        Ok(self.ranks_here()?.unwrap_or(size) > self.cpus_here()?)
    }

    /// Which of the ranks on this host this one is, if the launcher says so.
    pub(super) fn seat(&self) -> Result<Option<Seat>, EnvironmentError> {
        let number = self.first_number([LOCAL_RANK, "MPI_LOCALRANKID"], "a rank")?;
        let (Some(number), Some(of)) = (number, self.ranks_here()?) else { return Ok(None) };
        let cpus = self.cpus_here()?;
        Ok(Some(Seat { number, of, cpus }))
    }

    fn ranks_here(&self) -> Result<Option<u32>, EnvironmentError> {
        self.first_number([LOCAL_SIZE, "MPI_LOCALNRANKS"], "a number of ranks")
    }

    /// The launcher's own processors count, not those it bound this rank to.
    fn cpus_here(&self) -> Result<u32, EnvironmentError> {
        let cpus = self.number(LOCAL_CPUS, "a number of processors")?;
        Ok(cpus.unwrap_or_else(|| u32::try_from(barewire_sys::cpu::machine_cpus()).unwrap_or(u32::MAX)))
    }

    /// Our own variable, or otherwise that of another launcher.
    fn first_number(
        &self,
        names: [&'static str; 2],
        expected: &'static str,
    ) -> Result<Option<u32>, EnvironmentError> {
        let [ours, theirs] = names;
        self.number(ours, expected)?.map_or_else(|| self.number(theirs, expected), |number| Ok(Some(number)))
    }

    /// What may be used of the network.
    pub(crate) fn network(&self) -> Result<Network, EnvironmentError> {
        let range = |text: &str| {
            let (first, last) = text.split_once(['-', ':']).unwrap_or((text, text));
            let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
            (0 < first && first <= last).then_some(first..=last)
        };
        let wrong = |value: &str| EnvironmentError::Value {
            name: PORT_RANGE,
            value: value.to_owned(),
            expected: "two ports, such as 40000-40100",
        };
        let ports = self.get(PORT_RANGE).map(|text| range(text).ok_or_else(|| wrong(text))).transpose()?;
        Ok(Network { interface: self.get(INTERFACE).map(str::to_owned), ports })
    }

    /// Settings for an endpoint whose program has none of its own.
    ///
    /// ```
    /// use barewire_core::boot::Environment;
    /// let environment = Environment::from_pairs([("BAREWIRE_TCP".into(), "1".into())])?;
    /// assert!(!environment.config()?.shm);
    /// let patient = Environment::from_pairs([("BAREWIRE_WATCHDOG".into(), "0.5".into())])?;
    /// assert_eq!(patient.config()?.watchdog.as_millis(), 500);
    /// # Ok::<(), barewire_core::boot::environment::EnvironmentError>(())
    /// ```
    pub fn config(&self) -> Result<Config, EnvironmentError> {
        let default = Config::default();
        let watchdog = match self.get(WATCHDOG) {
            None => default.watchdog,
            Some(value) => {
                let seconds =
                    value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                let wrong = EnvironmentError::Value {
                    name: WATCHDOG,
                    value: value.to_owned(),
                    expected: "seconds, or 0 for never",
                };
                seconds.ok_or(wrong)?
            }
        };
        Ok(Config { shm: !self.flag(TCP)?, watchdog, ..default })
    }

    /// Whether a variable that is 1 or 0 is 1.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, EnvironmentError> {
        match self.get(name) {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(value) => Err(EnvironmentError::Value { name, value: value.to_owned(), expected: "0 or 1" }),
        }
    }

    /// Where to meet.
    pub(super) fn rendezvous(&self) -> Option<&str> {
        self.get(RENDEZVOUS)
    }

    fn number<T: std::str::FromStr>(
        &self,
        name: &'static str,
        expected: &'static str,
    ) -> Result<Option<T>, EnvironmentError> {
        let parse = |value: &str| {
            let wrong = || EnvironmentError::Value { name, value: value.to_owned(), expected };
            value.parse().map_err(|_| wrong())
        };
        self.get(name).map(parse).transpose()
    }
}

/// The known name with the fewest edits from `name`.
fn nearest(name: &str) -> &'static str {
    let nearest = KNOWN.iter().min_by_key(|(known, _)| edits(name, known));
    nearest.map_or(BOOT_FD, |(known, _)| known)
}

/// The number of insertions, deletions, replacements and exchanges of neighbours that turn one text into the other.
///
/// ```
/// use barewire_core::boot::environment::edits;
/// assert_eq!(edits("rendevous", "rendezvous"), 1);
/// assert_eq!(edits("pear", "pair"), 2);
/// assert_eq!(edits("TPC", "TCP"), 1);
/// ```
pub fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let first: Vec<usize> = (0..=to.len()).collect();
    let (mut above, mut row) = (first.clone(), first);
    for (i, a) in from.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let kept = row[j] + usize::from(a != b);
            let mut least = kept.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(above[j - 1] + 1);
            }
            next.push(least);
        }
        above = std::mem::replace(&mut row, next);
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Result<Environment, EnvironmentError> {
        Environment::from_pairs(pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())))
    }

    #[test]
    fn edits_are_counted() {
        assert_eq!((edits("", "abc"), edits("kitten", "sitting"), edits("a", "a")), (3, 3, 0));
        assert_eq!((edits("ab", "ba"), edits("flaw", "lawn"), edits("abcd", "badc")), (1, 2, 2));
        assert_eq!(nearest("BAREWIRE_TPC"), "BAREWIRE_TCP");
    }

    #[test]
    fn a_rank_beyond_the_size_is_an_error() {
        let broken = environment(&[("PMI_FD", "5"), ("PMI_RANK", "4"), ("PMI_SIZE", "4")]).unwrap();
        assert!(matches!(broken.pmi(), Err(EnvironmentError::Value { name: "PMI_RANK", .. })));
    }

    #[test]
    fn half_of_a_launcher_is_an_error() {
        let half = environment(&[("PMI_FD", "5"), ("PMI_RANK", "0")]).unwrap();
        assert_eq!(half.pmi(), Err(EnvironmentError::Incomplete { present: "PMI_FD", missing: "PMI_SIZE" }));
    }

    #[test]
    fn a_pmix_server_needs_rank_and_namespace() {
        let uri = ("PMIX_SERVER_URI41", "s@0.0;tcp4://127.0.0.1:1");
        assert!(environment(&[uri, ("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "s@1")]).unwrap().has_pmix());
        assert!(!environment(&[uri, ("PMIX_RANK", "0")]).unwrap().has_pmix());
        assert!(!environment(&[("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "s@1")]).unwrap().has_pmix());
    }

    #[test]
    fn more_ranks_than_processors_are_a_crowd() {
        let crowded = |cpus| environment(&[(LOCAL_SIZE, "4"), (LOCAL_CPUS, cpus)]).unwrap().is_crowded(100);
        assert_eq!((crowded("2"), crowded("4")), (Ok(true), Ok(false)));
    }

    #[test]
    fn a_launcher_says_who_sits_where() {
        let ours = [(LOCAL_RANK, "3"), (LOCAL_SIZE, "4"), (LOCAL_CPUS, "2")];
        assert_eq!(environment(&ours).unwrap().seat(), Ok(Some(Seat { number: 3, of: 4, cpus: 2 })));
        let another = [("MPI_LOCALRANKID", "1"), ("MPI_LOCALNRANKS", "8"), (LOCAL_CPUS, "2")];
        assert_eq!(environment(&another).unwrap().seat(), Ok(Some(Seat { number: 1, of: 8, cpus: 2 })));
        assert_eq!(environment(&ours[1..]).unwrap().seat(), Ok(None));
        assert!(environment(&[(LOCAL_RANK, "x")]).unwrap().seat().is_err());
        let nonsense = Seat { number: 9, of: 4, cpus: 0 };
        assert_eq!((nonsense.cpu(&[]), nonsense.sharers()), (None, 4));
    }

    #[test]
    fn ports_are_a_range() {
        let network = environment(&[(PORT_RANGE, "4000-4009")]).unwrap().network().unwrap();
        assert_eq!(network, Network { interface: None, ports: Some(4000..=4009) });
    }

    #[test]
    fn numbers_must_be_numbers() {
        for range in ["x", "0-5", "9-4", "70000"] {
            assert!(environment(&[(PORT_RANGE, range)]).unwrap().network().is_err(), "{range}");
        }
        assert!(environment(&[(BOOT_FD, "x")]).unwrap().boot_fd().is_err());
        assert_eq!(environment(&[(BOOT_FD, "")]).unwrap().boot_fd(), Ok(None));
    }
}
