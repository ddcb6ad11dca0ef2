//! A job: the processes that were started together, the key they share, and where their addresses are found.
//!
//! ```
//! use barewire_core::{Config, Endpoint, Ignore, Peer, Port, job::Job};
//! let mut ends = Job::threads(2).unwrap().into_iter().map(|job| Endpoint::open(job, Config::default()).unwrap());
//! let (mut first, mut second) = (ends.next().unwrap(), ends.next().unwrap());
//! while second.stats().received == 0 {
//!     let _ = first.send(Peer(1), Port(1), 0, b"hello");
//!     first.progress(&mut Ignore, usize::MAX);
//!     second.progress(&mut Ignore, usize::MAX);
//! }
//! assert!(second.peer_stats(Peer(0)).received >= 1);
//! ```

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};

use barewire_sys::cpu::Cpu;

use crate::boot;

/// Names one run of one parallel program; unguessable, but not secret.
///
/// ```
/// use barewire_core::job::JobId;
/// let id = JobId([0xab; 16]);
/// assert_eq!(id.to_string(), "ab".repeat(16));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobId(pub [u8; 16]);

impl JobId {
    /// A fresh, random name.
    ///
    /// ```
    /// use barewire_core::job::JobId;
    /// assert_ne!(JobId::random().unwrap(), JobId::random().unwrap());
    /// ```
    pub fn random() -> std::io::Result<JobId> {
        crate::auth::random().map(JobId)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({self})")
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The secret that members of a job prove to hold before anybody talks to them.
///
/// ```
/// use barewire_core::job::JobKey;
/// let key = JobKey([7; 32]);
/// assert_eq!(format!("{key:?}"), "JobKey(..)", "a secret is not printed");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct JobKey(pub [u8; 32]);

impl JobKey {
    /// A fresh, random key.
    ///
    /// ```
    /// use barewire_core::job::JobKey;
    /// assert_ne!(JobKey::random().unwrap(), JobKey::random().unwrap());
    /// ```
    pub fn random() -> std::io::Result<JobKey> {
        crate::auth::random().map(JobKey)
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(..)")
    }
}

/// What a process knows about the job it belongs to.
///
/// ```
/// use barewire_core::job::Job;
/// let jobs = Job::threads(2).unwrap();
/// assert_eq!((jobs[0].rank, jobs[1].rank, jobs[1].size), (0, 1, 2));
/// assert_eq!((jobs[0].id, &jobs[0].key), (jobs[1].id, &jobs[1].key), "one name and one secret");
/// ```
#[derive(Debug)]
pub struct Job {
    /// The job's name.
    pub id: JobId,
    /// The job's secret.
    pub key: JobKey,
    /// This process's number, `0 .. size`.
    pub rank: u32,
    /// How many processes the job has.
    pub size: u32,
    /// Whether more of them run on this host than it has processors.
    pub crowded: bool,
    /// Which of those on this host this process is, if that is known.
    pub seat: Option<Seat>,
    /// Where the others' addresses are found.
    pub directory: Directory,
}

/// Which of a job's processes on one host a process is: those with numbers near each other talk to each other most, so they
/// share a processor where there is not one for each.
///
/// ```
/// use barewire_core::job::Seat;
/// use barewire_sys::cpu::Cpu;
/// let all = [Cpu(4), Cpu(5)];
/// let cpu = |number| Seat { number, of: 6, cpus: 2 }.cpu(&all);
/// assert_eq!((cpu(0), cpu(2), cpu(3)), (Some(Cpu(4)), Some(Cpu(4)), Some(Cpu(5))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// This process's number on this host, `0 .. of`.
    pub number: u32,
    /// How many of the job's processes are on this host.
    pub of: u32,
    /// How many processors they share.
    pub cpus: u32,
}

impl Seat {
    /// The processor to sit at, of those that this process may use. None if it does not divide up evenly, for then the system has to
    /// take turns, or if somebody has chosen already who uses which.
    ///
    /// ```
    /// use barewire_core::job::Seat;
    /// use barewire_sys::cpu::Cpu;
    /// let seat = Seat { number: 1, of: 3, cpus: 2 };
    /// assert_eq!(seat.cpu(&[Cpu(0), Cpu(1)]), None, "three share two");
    /// assert_eq!(Seat { of: 4, ..seat }.cpu(&[Cpu(1)]), None, "it is bound");
    /// ```
    pub fn cpu(&self, allowed: &[Cpu]) -> Option<Cpu> {
        let fits = allowed.len() > 1 && allowed.len() == self.cpus as usize;
        if !fits || self.number >= self.of || self.of % self.cpus != 0 {
            return None;
        }
        let at = u64::from(self.number) * u64::from(self.cpus) / u64::from(self.of);
        allowed.get(at as usize).copied()
    }

    /// How many share a processor.
    ///
    /// ```
    /// use barewire_core::job::Seat;
    /// assert_eq!(Seat { number: 0, of: 5, cpus: 2 }.sharers(), 3);
    /// ```
    pub fn sharers(&self) -> u32 {
        self.of.div_ceil(self.cpus.max(1))
    }
}

/// Where the addresses of the other ranks come from.
///
/// ```
/// use barewire_core::job::{Directory, Job};
/// assert!(matches!(Job::alone().unwrap().directory, Directory::Alone));
/// assert!(Job::threads(2).unwrap().iter().all(|job| matches!(job.directory, Directory::Memory(_))));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Directory {
    /// Nobody else is there.
    Alone,
    /// The other ranks are threads of this process.
    Memory(MemoryDirectory),
    /// The launcher, another launcher's PMI, or a rendezvous.
    Boot(boot::Client),
}

impl Job {
    /// A job of one.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Peer, job::Job};
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// assert_eq!((endpoint.me(), endpoint.size()), (Peer(0), 1));
    /// ```
    pub fn alone() -> std::io::Result<Job> {
        Ok(Job {
            id: JobId::random()?,
            key: JobKey::random()?,
            rank: 0,
            size: 1,
            crowded: false,
            seat: None,
            directory: Directory::Alone,
        })
    }

    /// A job of `size` endpoints in this process, say one for each thread.
    ///
    /// ```
    /// let jobs = barewire_core::job::Job::threads(3).unwrap();
    /// assert_eq!(jobs.iter().map(|j| j.rank).collect::<Vec<_>>(), [0, 1, 2]);
    /// ```
    pub fn threads(size: u32) -> std::io::Result<Vec<Job>> {
        let (id, key) = (JobId::random()?, JobKey::random()?);
        let cards = Arc::new(Mutex::new(HashMap::new()));
        let crowded = size as usize > barewire_sys::cpu::usable_cpus();
        Ok((0..size)
            .map(|rank| {
                let directory = MemoryDirectory { rank, cards: Arc::clone(&cards), wanted: VecDeque::new() };
                let directory = Directory::Memory(directory);
                Job { id, key: key.clone(), rank, size, crowded, seat: None, directory }
            })
            .collect())
    }
}

/// What a directory has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryEvent {
    /// A rank's address card, asked for earlier.
    Card {
        /// Whose.
        rank: u32,
        /// The card.
        bytes: Vec<u8>,
    },
    /// The launcher saw a rank end.
    Lost {
        /// Which.
        rank: u32,
        /// How.
        reason: String,
    },
    /// The launcher asks what this rank waits for.
    Report,
    /// The launcher asks which wires this rank uses.
    Explain,
}

impl Directory {
    /// Makes this rank's card known.
    pub(crate) fn publish(&mut self, card: &[u8]) -> Result<(), String> {
        match self {
            Directory::Alone => Ok(()),
            Directory::Memory(memory) => {
                memory.cards().insert(memory.rank, card.to_vec());
                Ok(())
            }
            Directory::Boot(client) => client.publish(card).map_err(|error| error.to_string()),
        }
    }

    /// Asks for a rank's card; it comes as an event.
    pub(crate) fn request(&mut self, rank: u32) -> Result<(), String> {
        match self {
            Directory::Alone => Err("this process runs alone".to_owned()),
            Directory::Memory(memory) => {
                memory.wanted.push_back(rank);
                Ok(())
            }
            Directory::Boot(client) => client.request(rank).map_err(|error| error.to_string()),
        }
    }

    /// The next thing the directory has to say; never waits.
    pub(crate) fn poll(&mut self) -> Result<Option<DirectoryEvent>, String> {
        match self {
            Directory::Alone => Ok(None),
            Directory::Memory(memory) => Ok(memory.poll()),
            Directory::Boot(client) => match client.poll() {
                Ok(event) => Ok(event.map(|event| match event {
                    boot::Event::Card { rank, bytes } => DirectoryEvent::Card { rank, bytes },
                    boot::Event::Lost { rank, reason } => {
                        DirectoryEvent::Lost { rank, reason: reason.to_string() }
                    }
                    boot::Event::Report => DirectoryEvent::Report,
                    boot::Event::Explain => DirectoryEvent::Explain,
                })),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// Tells the launcher what this rank waits for.
    pub(crate) fn report(&mut self, text: &str) {
        if let Directory::Boot(client) = self {
            client.report_stuck(text);
        }
    }

    /// Tells the launcher which wires this rank uses.
    pub(crate) fn report_wires(&mut self, text: &str) {
        if let Directory::Boot(client) = self {
            client.report_wires(text);
        }
    }

    /// Asks the launcher to end the whole job; false if there is no launcher to ask.
    pub(crate) fn abort(&mut self, code: i32, message: &str) -> bool {
        match self {
            Directory::Alone | Directory::Memory(_) => false,
            Directory::Boot(client) => {
                client.abort(code, message);
                true
            }
        }
    }

    /// Readable when [`Directory::poll`] has something.
    pub(crate) fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        match self {
            Directory::Alone | Directory::Memory(_) => None,
            Directory::Boot(client) => client.fd(),
        }
    }
}

/// A directory that is a table in this process. A clone is for opening the same rank again after it left.
///
/// ```
/// use barewire_core::job::{Directory, Job};
/// # use barewire_core::{Config, Endpoint, Ignore, Peer, Port};
/// # let open = |job| Endpoint::open(job, Config::default()).unwrap();
/// # let talk = |from: &mut Endpoint, to: &mut Endpoint| while to.stats().received == 0 {
/// #     let _ = from.send(to.me(), Port(1), 0, b"hello");
/// #     from.progress(&mut Ignore, usize::MAX);
/// #     to.progress(&mut Ignore, usize::MAX);
/// # };
/// let mut jobs = Job::threads(2).unwrap();
/// let (job, mut first) = (jobs.pop().unwrap(), open(jobs.pop().unwrap()));
/// for _life in 0..2 {
///     let Directory::Memory(table) = &job.directory else { panic!("ranks are threads here") };
///     let directory = Directory::Memory(table.clone());
///     let mut second = open(Job { key: job.key.clone(), directory, ..job });
///     talk(&mut first, &mut second);
///     drop(second);
///     first.wait(&mut Ignore, None, |first, _| first.is_gone(Peer(1))).unwrap();
///     assert!(first.forget(Peer(1)), "so that it can be met again");
/// }
/// ```
#[derive(Clone, Debug)]
pub struct MemoryDirectory {
    rank: u32,
    cards: Arc<Mutex<HashMap<u32, Vec<u8>>>>,
    wanted: VecDeque<u32>,
}

impl MemoryDirectory {
    fn cards(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Vec<u8>>> {
        self.cards.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn poll(&mut self) -> Option<DirectoryEvent> {
        let rank = self.wanted.pop_front()?;
        let bytes = self.cards().get(&rank).cloned();
        match bytes {
            Some(bytes) => Some(DirectoryEvent::Card { rank, bytes }),
            None => {
                self.wanted.push_back(rank);
                None
            }
        }
    }
}
