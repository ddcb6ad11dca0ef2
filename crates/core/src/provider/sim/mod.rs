//! The simulator: thousands of endpoints in one process, joined by a network made to order.
//!
//! A [`Network`] carries datagrams with a given latency, at a given rate, and with every fault of
//! [`FaultConfig`](crate::filter::fault::FaultConfig), all drawn from one seed; over it runs the same `reliable` filter as over a real wire. Links
//! can be cut and endpoints crashed. Time is either real, for endpoints on threads, or virtual:
//!
//! ```text
//! while let Some(event) = network.step() {          // the clock jumps to the next event …
//!     endpoints[event.peer].progress(deliver, …)    // … and that endpoint deals with it
//! }
//! ```
//!
//! Driven so from one thread, a run in virtual time is a function of its seed alone: what failed once fails again.
//!
//! ```
//! use barewire_core::sim::{Network, SimConfig};
//! use barewire_core::{Endpoint, Flow, Incoming, Peer, Port};
//!
//! let config = SimConfig { seed: 7, ..SimConfig::default() }.lossy(0.2);
//! let network = Network::new(2, config).unwrap();
//! let mut endpoints = network.endpoints().unwrap();
//! for i in 0..100 {
//!     endpoints[0].send(Peer(1), Port(0), i, b"hello").unwrap();
//! }
//! let mut seen = Vec::new();
//! while let Some(event) = network.step() {
//!     let note = &mut |_: &mut Endpoint, packet: Incoming<'_>| { seen.push(packet.imm); Flow::Continue };
//!     endpoints[event.peer.0 as usize].progress(note, usize::MAX);
//! }
//! assert_eq!(seen, Vec::from_iter(0..100), "every message once and in order");
//! assert!(endpoints[0].stats().retransmitted > 0, "though a fifth of the datagrams got lost");
//! ```

mod config;
mod state;
mod wire;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use barewire_sys::bell::{Bell, Ringer};

pub use config::{Clock, SimConfig, SimError};
pub(crate) use wire::{SimWire, Turn};

use crate::Peer;
use crate::endpoint::Endpoint;
use crate::error::OpenError;
use crate::filter::fault::FaultStats;
use crate::job::{Directory, Job, JobId, JobKey};
use crate::poller::Poller;
use crate::provider::datagram::{Datagrams, Wire};
use crate::time::Nanos;
use state::State;

/// A network in this process. Clones are the same network.
///
/// See the [module](self) for an example.
///
/// ```
/// use barewire_core::{Peer, sim::{Network, SimConfig}};
/// let network = Network::new(2, SimConfig::default()).unwrap();
/// let endpoint = network.clone().endpoint(Peer(1)).unwrap();
/// assert_eq!(endpoint.size(), 2);
/// assert!(network.endpoint(Peer(1)).is_err(), "the clone has opened it");
/// ```
#[derive(Clone, Debug)]
pub struct Network {
    shared: Arc<Shared>,
}

/// What a network and the endpoints on it share.
#[derive(Debug)]
struct Shared {
    config: SimConfig,
    /// The zero of the clock, if it is real.
    start: Instant,
    /// What endpoints in virtual time have in place of a doorbell of their own: nobody rings it.
    idle: Option<(Arc<Bell>, Poller)>,
    state: Mutex<State>,
}

/// Something happens at an endpoint: call its [`Endpoint::progress`].
///
/// ```
/// use barewire_core::{Peer, Port, sim::{Event, Network, SimConfig}};
/// let network = Network::new(2, SimConfig::default()).unwrap();
/// let mut endpoints = network.endpoints().unwrap();
/// endpoints[1].send(Peer(0), Port(0), 0, b"").unwrap();
/// assert!(matches!(network.step(), Some(Event { peer: Peer(0), .. })));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Nanos,
    /// At whom.
    pub peer: Peer,
}

impl Network {
    /// A network of `size` places, with nobody there yet.
    ///
    /// ```
    /// use barewire_core::sim::{Network, SimConfig, SimError};
    /// assert!(Network::new(4, SimConfig::default()).is_ok());
    /// let tiny = SimConfig { mtu: 200, ..SimConfig::default() };
    /// assert!(matches!(Network::new(4, tiny), Err(SimError::Mtu { mtu: 200, .. })));
    /// ```
    pub fn new(size: u32, config: SimConfig) -> Result<Network, SimError> {
        config.check()?;
        let idle = match config.clock {
            Clock::Real => None,
            Clock::Virtual => Some((Arc::new(Bell::create()?), Poller::new().map_err(std::io::Error::from)?)),
        };
        let state = Mutex::new(State::new(size, &config));
        Ok(Network { shared: Arc::new(Shared { config, start: Instant::now(), idle, state }) })
    }

    /// Opens the endpoint at a place; also again, after it [crashed](Network::crash) or was dropped.
    ///
    /// ```
    /// use barewire_core::{Peer, sim::{Network, SimConfig}};
    /// let network = Network::new(3, SimConfig::default()).unwrap();
    /// let endpoint = network.endpoint(Peer(2)).unwrap();
    /// assert_eq!((endpoint.me(), endpoint.size()), (Peer(2), 3));
    /// assert!(network.endpoint(Peer(2)).is_err(), "it is open already");
    /// assert!(network.endpoint(Peer(3)).is_err(), "there is no such place");
    /// ```
    pub fn endpoint(&self, rank: Peer) -> Result<Endpoint, OpenError> {
        let (bell, poller) = match &self.shared.idle {
            Some((bell, poller)) => (Arc::clone(bell), poller.share()),
            None => Endpoint::doors()?,
        };
        let ringer = match self.shared.config.clock {
            Clock::Virtual => None,
            Clock::Real => Some(ringer(&bell)?),
        };
        let (size, (incarnation, next_due)) = {
            let mut state = self.shared.state();
            (state.size(), state.open(rank, ringer).map_err(OpenError::Directory)?)
        };
        let config = &self.shared.config;
        let wire = Wire::Sim(SimWire::new(Arc::clone(&self.shared), rank, incarnation, next_due));
        let datagrams =
            Datagrams::new(wire, config.reliable(), config.endpoint.credit_bytes as u64, config.pulse)
                .expect("the configuration was checked when the network was made");
        // Nobody has to prove anything in here, so the job's name and key say nothing.
        let job = Job {
            id: JobId([0; 16]),
            key: JobKey([0; 32]),
            rank: rank.0,
            size,
            crowded: false,
            seat: None,
            directory: Directory::Alone,
        };
        Ok(Endpoint::on_datagrams(job, config.endpoint.clone(), bell, poller, datagrams))
    }

    /// Opens the endpoints at all places.
    ///
    /// ```
    /// use barewire_core::sim::{Network, SimConfig};
    /// let endpoints = Network::new(5, SimConfig::default()).unwrap().endpoints().unwrap();
    /// assert_eq!(endpoints.len(), 5);
    /// ```
    pub fn endpoints(&self) -> Result<Vec<Endpoint>, OpenError> {
        let size = self.shared.state().size();
        (0..size).map(|rank| self.endpoint(Peer(rank))).collect()
    }

    /// In virtual time: moves the clock to the next event, a datagram's arrival or an endpoint's timer, and says whose it is.
    /// `None` if nothing will ever happen by itself. Each event is told once; an endpoint that has dealt with one is told of
    /// its next.
    ///
    /// In real time events come by themselves, and this is always `None`.
    ///
    /// ```
    /// use barewire_core::{Ignore, Peer, Port, sim::{Network, SimConfig}};
    /// let network = Network::new(2, SimConfig::default()).unwrap();
    /// let mut endpoints = network.endpoints().unwrap();
    /// assert_eq!(network.step(), None, "nobody has anything to say");
    /// endpoints[0].send(Peer(1), Port(0), 0, b"").unwrap();
    /// let first = network.step().unwrap();
    /// assert_eq!((first.peer, first.at), (Peer(1), network.now()));
    /// ```
    pub fn step(&self) -> Option<Event> {
        match self.shared.config.clock {
            Clock::Virtual => self.shared.state().step(),
            Clock::Real => None,
        }
    }

    /// The time on the network's clock.
    ///
    /// ```
    /// use barewire_core::{sim::{Network, SimConfig}, time::Nanos};
    /// assert_eq!(Network::new(1, SimConfig::default()).unwrap().now(), Nanos::ZERO);
    /// ```
    pub fn now(&self) -> Nanos {
        self.shared.now()
    }

    /// In virtual time: moves the clock on to `at`, or to the next event if that comes first; does nothing in real time.
    ///
    /// ```
    /// use barewire_core::{sim::{Network, SimConfig}, time::Nanos};
    /// let network = Network::new(1, SimConfig::default()).unwrap();
    /// network.advance(Nanos::SECOND);
    /// assert_eq!(network.now(), Nanos::SECOND);
    /// ```
    pub fn advance(&self, at: Nanos) {
        if self.shared.config.clock == Clock::Virtual {
            self.shared.state().advance(at);
        }
    }

    /// Cuts the link between two places, both ways: what is on its way between them is lost, and so is what follows.
    ///
    /// ```
    /// use barewire_core::{Ignore, Peer, Port, sim::{Network, SimConfig}};
    /// let network = Network::new(2, SimConfig::default()).unwrap();
    /// let mut endpoints = network.endpoints().unwrap();
    /// network.cut(Peer(0), Peer(1));
    /// endpoints[0].send(Peer(1), Port(0), 0, b"").unwrap();
    /// while let Some(event) = network.step() {
    ///     endpoints[event.peer.0 as usize].progress(&mut Ignore, usize::MAX);
    /// }
    /// assert!(endpoints[0].send(Peer(1), Port(0), 0, b"").is_err(), "nobody answers: it is gone");
    /// ```
    pub fn cut(&self, a: Peer, b: Peer) {
        self.shared.state().cut(a, b);
    }

    /// Mends the link between two places. What had not been given up in the meantime arrives after all.
    ///
    /// ```
    /// use barewire_core::{Endpoint, Flow, Incoming, Peer, Port, sim::{Network, SimConfig}};
    /// let network = Network::new(2, SimConfig::default()).unwrap();
    /// let mut endpoints = network.endpoints().unwrap();
    /// network.cut(Peer(0), Peer(1));
    /// endpoints[0].send(Peer(1), Port(0), 0, b"").unwrap();
    /// network.mend(Peer(0), Peer(1));
    /// let mut seen = 0;
    /// while let Some(event) = network.step() {
    ///     let count = &mut |_: &mut Endpoint, _: Incoming<'_>| { seen += 1; Flow::Continue };
    ///     endpoints[event.peer.0 as usize].progress(count, usize::MAX);
    /// }
    /// assert_eq!(seen, 1);
    /// ```
    pub fn mend(&self, a: Peer, b: Peer) {
        self.shared.state().mend(a, b);
    }

    /// The endpoint at a place dies without a word. Drop it: whatever it still does reaches nobody.
    /// [`Network::endpoint`] starts another in its place.
    ///
    /// ```
    /// use barewire_core::{Peer, sim::{Network, SimConfig}};
    /// let network = Network::new(2, SimConfig::default()).unwrap();
    /// let first = network.endpoint(Peer(0)).unwrap();
    /// network.crash(Peer(0));
    /// let second = network.endpoint(Peer(0)).unwrap();
    /// drop(first);
    /// assert_eq!(second.me(), Peer(0));
    /// ```
    pub fn crash(&self, rank: Peer) {
        self.shared.state().crash(rank);
    }

    /// What the network did to its datagrams so far.
    ///
    /// ```
    /// use barewire_core::{Peer, Port, sim::{Network, SimConfig}};
    /// let network = Network::new(2, SimConfig::default().lossy(1.0)).unwrap();
    /// let mut endpoints = network.endpoints().unwrap();
    /// endpoints[0].send(Peer(1), Port(0), 0, b"").unwrap();
    /// assert_eq!(network.stats().lost, 1);
    /// ```
    pub fn stats(&self) -> FaultStats {
        self.shared.state().stats()
    }

    /// Datagrams on their way.
    ///
    /// ```
    /// use barewire_core::sim::{Network, SimConfig};
    /// assert_eq!(Network::new(2, SimConfig::default()).unwrap().in_flight(), 0);
    /// ```
    pub fn in_flight(&self) -> usize {
        self.shared.state().in_flight()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves nothing half done that the next caller could not live with.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Nanos {
        match self.config.clock {
            Clock::Virtual => self.state().now(),
            Clock::Real => Nanos::from(self.start.elapsed()),
        }
    }
}

fn ringer(bell: &Bell) -> Result<Ringer, OpenError> {
    let clone = |fd: std::os::fd::BorrowedFd<'_>| {
        fd.try_clone_to_owned().map_err(|error| OpenError::Socket { what: "the doorbell", error })
    };
    let [flag, event] = bell.fds();
    Ok(Ringer::open(clone(flag)?, clone(event)?)?)
}
