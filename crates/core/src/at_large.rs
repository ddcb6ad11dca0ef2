//! At large: endpoints that belong to no job. They listen on addresses, call others by address, and come and go.
//!
//! Every endpoint numbers the peers it meets by itself. [`Endpoint::connect_to`] gives a number to whoever listens at an
//! address; the connection is made when something is first sent. Somebody who calls us gets a number too, and the layer hears of it
//! by [`crate::Deliver::peer_joined`], and by [`crate::Deliver::peer_lost`] when the connection ends. A peer that was
//! called can be called again after [`Endpoint::forget`]; the number of one that called us is then given to somebody else.
//!
//! Who may talk to whom is decided by a key, as in a job: both sides of a connection prove that they hold it, and one that does not
//! is dropped without a word. [`access_key`] finds it: the user's key file, or, only where `BAREWIRE_OPEN=1` asks for
//! it, no secret at all.
//!
//! ```
//! use barewire_core::{Config, Endpoint, Ignore, PeerState, at_large::open_key};
//!
//! let [mut server, mut client] = [(); 2].map(|()| Endpoint::at_large(open_key(), Config::default()).unwrap());
//! let place = server.listen_on("tcp://127.0.0.1:0").unwrap()[0];
//! let peer = client.connect_to(&format!("tcp://{place}")).unwrap();
//! client.call(peer).unwrap();
//! while client.peer_state(peer) != PeerState::Connected || server.size() < 2 {
//!     client.progress(&mut Ignore, usize::MAX);
//!     server.progress(&mut Ignore, usize::MAX);
//! }
//! assert_eq!(server.size(), 2, "the server itself, and a number for its client");
//! ```

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;

use barewire_sys::ring::RingMemory;
use barewire_sys::rustix::io::Errno;

use crate::Peer;
use crate::auth;
use crate::boot::{self, BootError, Environment, environment};
use crate::config::Config;
use crate::endpoint::Endpoint;
use crate::error::{OpenError, SendError};
use crate::hello::{ANYBODY, Agreed};
use crate::incoming::Deliver;
use crate::job::{Directory, Job, JobId, JobKey};
use crate::peer::PeerState;
use crate::poller::Source;
use crate::provider::Tx;
use crate::provider::local::{self, Greeting};
use crate::provider::tcp::net;
use crate::wire::Card;

/// Peers that an endpoint at large knows at a time, at most.
const PEERS_MAX: usize = 1 << 20;
/// Addresses of one peer, at most.
const ADDRESSES_MAX: usize = 16;

/// What an endpoint at large knows beside its peers.
#[derive(Debug, Default)]
pub(crate) struct AtLarge {
    /// Where to call whom.
    calls: HashMap<Peer, Vec<SocketAddr>>,
    /// Numbers that are free again.
    vacant: Vec<Peer>,
    /// Who called us and the layer has not heard of.
    newcomers: VecDeque<Peer>,
    /// Where we listen.
    doors: Vec<SocketAddr>,
    /// Where neighbours find us who were told to call those doors.
    pub local_doors: Vec<OwnedFd>,
    /// Where neighbours whom we called call us back.
    home: [u8; 16],
    /// Neighbours whom we called and who have not called us back, with what their answer must name.
    unanswered: HashMap<Peer, [u8; 16]>,
    /// Neighbours who called us.
    callers: HashMap<Peer, Caller>,
}

/// A neighbour who called us: how to answer it.
#[derive(Debug)]
struct Caller {
    home: [u8; 16],
    /// Its number for us.
    number: u32,
    nonce: [u8; 16],
}

/// Why an address cannot be used.
///
/// ```
/// use barewire_core::at_large::{AddressError, addresses};
/// let error = addresses("somewhere").unwrap_err();
/// assert!(matches!(&error, AddressError::Malformed { url } if url == "somewhere"));
/// assert!(error.to_string().contains("expected tcp://host:port"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It is not `tcp://host:port`.
    #[error("{url:?} is not an address; expected tcp://host:port, several joined by commas")]
    Malformed {
        /// What was given.
        url: String,
    },
    /// The host has no address.
    #[error("{host:?} cannot be looked up: {source}")]
    NoSuchHost {
        /// The host.
        host: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Nobody can listen there.
    #[error("cannot listen at {address}: {source}")]
    Taken {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// Too many peers.
    #[error("{PEERS_MAX} peers are known already; forget some first")]
    TooMany,
    /// The endpoint belongs to a job, whose members are numbered already.
    #[error("this endpoint belongs to a job, whose members have numbers and no addresses")]
    InAJob,
}

/// The places that `urls` names: `tcp://host:port`, several joined by commas, the first the best. Whatever follows the port
/// after a slash is not looked at; addresses of other networks than TCP are passed over. Host names are looked up, which
/// may take a while.
///
/// ```
/// use barewire_core::at_large::addresses;
/// let found = addresses("tcp://127.0.0.1:3334/scratch, tcp://[::1]:80").unwrap();
/// assert_eq!(found, ["127.0.0.1:3334".parse().unwrap(), "[::1]:80".parse().unwrap()]);
/// assert!(addresses("ib://somewhere:1").is_err(), "no network that we speak");
/// assert!(addresses("tcp://127.0.0.1").is_err(), "no port");
/// ```
pub fn addresses(urls: &str) -> Result<Vec<SocketAddr>, AddressError> {
    let malformed = || AddressError::Malformed { url: urls.chars().take(256).collect() };
    let mut found = Vec::new();
    for url in urls.split(',').map(str::trim).filter(|url| !url.is_empty()) {
        let (scheme, rest) = url.split_once("://").ok_or_else(malformed)?;
        if scheme != "tcp" {
            continue;
        }
        let place = rest.split('/').next().unwrap_or(rest);
        let (host, port) = place.rsplit_once(':').ok_or_else(malformed)?;
        let port: u16 = port.parse().map_err(|_| malformed())?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(malformed());
        }
        match host.parse::<IpAddr>() {
            Ok(ip) => found.push(SocketAddr::new(ip, port)),
            Err(_) => {
                let looked_up = (host, port)
                    .to_socket_addrs()
                    .map_err(|source| AddressError::NoSuchHost { host: host.to_owned(), source })?;
                found.extend(looked_up);
            }
        }
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|address| seen.insert(*address));
    found.truncate(ADDRESSES_MAX);
    if found.is_empty() { Err(malformed()) } else { Ok(found) }
}

/// The key of programs that start by themselves: the user's key file (`BAREWIRE_KEY_FILE`, or `~/.config/barewire/key`, made
/// on first use and readable by its owner only). With `BAREWIRE_OPEN=1` it is a key that everybody knows: anybody who can reach the
/// port may talk, as with servers that know no keys. Both ends have to agree on which.
///
/// ```
/// use barewire_core::{at_large::{access_key, open_key}, boot::{BootError, Environment}};
/// let open = Environment::from_pairs([("BAREWIRE_OPEN".into(), "1".into())])?;
/// assert_eq!(access_key(&open)?, open_key());
///
/// let nowhere = Environment::from_pairs([("BAREWIRE_KEY_FILE".into(), "/dev/null/key".into())])?;
/// assert!(matches!(access_key(&nowhere), Err(BootError::KeyFile { .. })));
/// # Ok::<(), BootError>(())
/// ```
pub fn access_key(environment: &Environment) -> Result<JobKey, BootError> {
    if environment.flag(environment::OPEN)? { Ok(open_key()) } else { boot::user_key(environment) }
}

/// The key that is no secret.
///
/// ```
/// use barewire_core::{Config, Endpoint, at_large::open_key, job::JobKey};
/// assert_eq!(open_key(), JobKey([0; 32]));
/// assert!(Endpoint::at_large(open_key(), Config::default()).unwrap().listening().is_empty());
/// ```
pub fn open_key() -> JobKey {
    JobKey([0; 32])
}

impl Endpoint {
    /// Opens an endpoint that belongs to no job. It is its own peer number 0 and knows nobody else yet.
    ///
    /// ```
    /// use barewire_core::job::JobKey;
    /// use barewire_core::{Config, Deliver, Endpoint, Flow, Ignore, Incoming, Peer, Port};
    ///
    /// struct Hear(Vec<u8>);
    /// impl Deliver for Hear {
    ///     fn deliver(&mut self, _: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
    ///         self.0 = packet.to_vec();
    ///         Flow::Continue
    ///     }
    /// }
    ///
    /// let key = JobKey::random().unwrap();
    /// let mut server = Endpoint::at_large(key.clone(), Config::default()).unwrap();
    /// let place = server.listen_on("tcp://127.0.0.1:0").unwrap()[0];
    ///
    /// let client = std::thread::spawn(move || {
    ///     let mut client = Endpoint::at_large(key, Config::default()).unwrap();
    ///     let server = client.connect_to(&format!("tcp://{place}")).unwrap();
    ///     while client.send(server, Port(1), 0, b"hello").is_err() {
    ///         client.progress(&mut Ignore, usize::MAX);
    ///     }
    /// });
    /// let mut heard = Hear(Vec::new());
    /// server.wait(&mut heard, None, |_, heard| !heard.0.is_empty()).unwrap();
    /// assert_eq!(heard.0, b"hello");
    /// client.join().unwrap();
    /// ```
    pub fn at_large(key: JobKey, config: Config) -> Result<Endpoint, OpenError> {
        let named = auth::prove(&key, "at large", &[]);
        let id = JobId(named[..16].try_into().expect("sixteen of thirty-two"));
        // Nobody knows who else wants to run here.
        let job = Job { id, key, rank: 0, size: 1, crowded: true, seat: None, directory: Directory::Alone };
        let mut endpoint = Endpoint::open(job, config)?;
        let socket_error = |error| OpenError::Socket { what: "a local socket", error };
        endpoint.large().home = auth::random().map_err(socket_error)?;
        if endpoint.config.shm {
            let name = local::home_name(id, endpoint.large().home);
            let listener = endpoint.listen_locally(&name).map_err(|errno| socket_error(errno.into()))?;
            endpoint.local_listener = Some(listener);
        }
        Ok(endpoint)
    }

    fn listen_locally(&mut self, name: &str) -> Result<OwnedFd, Errno> {
        let listener = local::listen(name)?;
        self.poller.add(&listener, Source::LocalListener)?;
        Ok(listener)
    }

    /// Lets others call us at these addresses (see [`addresses`]) and says where that is: port 0 is one of the system's choice.
    ///
    /// ```
    /// # use barewire_core::{Config, Endpoint, at_large::{AddressError, open_key}};
    /// let mut server = Endpoint::at_large(open_key(), Config::default()).unwrap();
    /// let places = server.listen_on("tcp://127.0.0.1:0, tcp://127.0.0.1:0")?;
    /// assert_eq!(places.len(), 1, "the same address once");
    /// assert_ne!(places[0].port(), 0);
    /// let again = server.listen_on(&format!("tcp://{}", places[0]));
    /// assert!(matches!(again, Err(AddressError::Taken { .. })));
    /// # Ok::<(), AddressError>(())
    /// ```
    pub fn listen_on(&mut self, urls: &str) -> Result<Vec<SocketAddr>, AddressError> {
        if self.at_large.is_none() {
            return Err(AddressError::InAJob);
        }
        let mut bound = Vec::new();
        for address in addresses(urls)? {
            let taken = |errno: Errno| AddressError::Taken { address, source: errno.into() };
            let listeners = net::listen(&[address]).map_err(taken)?;
            for listener in listeners {
                let which = self.sockets.listeners.len() as u32;
                self.poller.add(&listener, Source::TcpListener(which)).map_err(taken)?;
                bound.extend(net::bound_to(&listener));
                self.sockets.listeners.push(listener);
            }
        }
        self.large().doors.extend(&bound);
        if self.config.shm {
            for &door in &bound {
                // Without it, neighbours come by TCP.
                if let Ok(listener) = self.listen_locally(&local::door_name(self.identity.job, door)) {
                    self.large().local_doors.push(listener);
                }
            }
        }
        Ok(bound)
    }

    /// A number for whoever listens at these addresses (see [`addresses`]), which are tried one shortly after the other. Returns
    /// at once; the connection is made when something is first sent. If that is where we listen ourselves, it is our own
    /// number.
    ///
    /// ```
    /// # use barewire_core::{Config, Endpoint, PeerState, at_large::{AddressError, open_key}};
    /// let mut endpoint = Endpoint::at_large(open_key(), Config::default()).unwrap();
    /// let here = endpoint.listen_on("tcp://127.0.0.1:0")?[0];
    /// assert_eq!(endpoint.connect_to(&format!("tcp://{here}"))?, endpoint.me());
    /// let other = endpoint.connect_to("tcp://127.0.0.1:1")?;
    /// assert_eq!(endpoint.peer_state(other), PeerState::Unknown, "it has a number, but nobody has called it");
    /// # Ok::<(), AddressError>(())
    /// ```
    pub fn connect_to(&mut self, urls: &str) -> Result<Peer, AddressError> {
        self.connect_to_any(addresses(urls)?)
    }

    /// [`Endpoint::connect_to`], for addresses that were looked up already.
    ///
    /// ```
    /// # use barewire_core::{Config, Endpoint, Peer, at_large::{AddressError, addresses, open_key}, job::Job};
    /// let places = addresses("tcp://127.0.0.1:1, tcp://[::1]:1")?;
    /// let mut endpoint = Endpoint::at_large(open_key(), Config::default()).unwrap();
    /// assert_eq!(endpoint.connect_to_any(places.clone())?, Peer(1));
    ///
    /// let mut member = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// assert!(matches!(member.connect_to_any(places), Err(AddressError::InAJob)));
    /// # Ok::<(), AddressError>(())
    /// ```
    pub fn connect_to_any(&mut self, addresses: Vec<SocketAddr>) -> Result<Peer, AddressError> {
        if self.at_large.is_none() {
            return Err(AddressError::InAJob);
        }
        if addresses.iter().any(|address| self.is_our_door(address)) {
            return Ok(self.me);
        }
        let peer = self.number_somebody().ok_or(AddressError::TooMany)?;
        self.large().calls.insert(peer, addresses);
        Ok(peer)
    }

    /// Begins to connect to a peer without sending anything, for whoever waits to hear from it.
    ///
    /// ```
    /// # use barewire_core::{Config, Deliver, Endpoint, Flow, Ignore, Incoming, Peer, Port, at_large::open_key};
    /// /// Greets whoever comes.
    /// struct Host;
    /// impl Deliver for Host {
    /// #     fn deliver(&mut self, _: &mut Endpoint, _: Incoming<'_>) -> Flow { Flow::Continue }
    ///     fn peer_joined(&mut self, endpoint: &mut Endpoint, peer: Peer) {
    ///         endpoint.reply(peer, Port(1), 0, b"welcome").unwrap();
    ///     }
    /// }
    /// # let mut server = Endpoint::at_large(open_key(), Config::default()).unwrap();
    /// # let place = server.listen_on("tcp://127.0.0.1:0").unwrap()[0];
    /// # let mut client = Endpoint::at_large(open_key(), Config::default()).unwrap();
    /// let peer = client.connect_to(&format!("tcp://{place}")).unwrap();
    /// client.call(peer).unwrap();
    /// while client.peer_stats(peer).received == 0 {
    ///     server.progress(&mut Host, usize::MAX);
    ///     client.progress(&mut Ignore, usize::MAX);
    /// }
    /// assert_eq!(client.peer_stats(peer).received_bytes, 7);
    /// ```
    pub fn call(&mut self, peer: Peer) -> Result<(), SendError> {
        self.peer_mut(peer).map(drop)
    }

    /// The address at the other end of a TCP connection; `None` for neighbours over shared memory, and before there is one.
    ///
    /// ```
    /// # use barewire_core::{Config, Endpoint, Ignore, PeerState, at_large::open_key};
    /// let far = Config { shm: false, ..Config::default() };
    /// let [mut server, mut client] = [(); 2].map(|()| Endpoint::at_large(open_key(), far.clone()).unwrap());
    /// let place = server.listen_on("tcp://127.0.0.1:0").unwrap()[0];
    /// let peer = client.connect_to(&format!("tcp://{place}")).unwrap();
    /// assert_eq!(client.peer_address(peer), None, "there is no connection yet");
    /// client.call(peer).unwrap();
    /// while client.peer_state(peer) != PeerState::Connected {
    ///     server.progress(&mut Ignore, usize::MAX);
    ///     client.progress(&mut Ignore, usize::MAX);
    /// }
    /// assert_eq!(client.peer_address(peer), Some(place));
    /// ```
    pub fn peer_address(&self, peer: Peer) -> Option<SocketAddr> {
        match &self.peers.get(peer.index())?.tx {
            Tx::Tcp(tx) => net::peer_address(tx.socket()),
            Tx::Closed | Tx::Ring(_) | Tx::Datagram(_) => None,
        }
    }

    /// Where others can call us.
    ///
    /// ```
    /// # use barewire_core::{Config, Endpoint, at_large::open_key};
    /// let mut server = Endpoint::at_large(open_key(), Config::default()).unwrap();
    /// let first = server.listen_on("tcp://127.0.0.1:0").unwrap()[0];
    /// let second = server.listen_on("tcp://127.0.0.1:0").unwrap()[0];
    /// assert_eq!(server.listening(), [first, second]);
    /// ```
    pub fn listening(&self) -> &[SocketAddr] {
        self.at_large.as_ref().map_or(&[], |large| &large.doors)
    }

    /// Gives up a peer's number for good, whatever its state; false for ourselves and for members of a job. Its connection is
    /// closed; what was sent may or may not arrive.
    ///
    /// ```
    /// # use barewire_core::{Config, Endpoint, at_large::{AddressError, open_key}};
    /// let mut client = Endpoint::at_large(open_key(), Config::default()).unwrap();
    /// let peer = client.connect_to("tcp://127.0.0.1:1")?;
    /// assert!(client.release(peer));
    /// assert_eq!(client.connect_to("tcp://127.0.0.1:2")?, peer, "the number belongs to somebody else now");
    /// assert!(!client.release(client.me()));
    /// # Ok::<(), AddressError>(())
    /// ```
    pub fn release(&mut self, peer: Peer) -> bool {
        if self.at_large.is_none() || peer == self.me || self.peers.get(peer.index()).is_none() {
            return false;
        }
        self.large().calls.remove(&peer);
        self.hang_up(peer)
    }

    /// Closes the connection with a peer that we called; it is made anew when it is needed. False for ourselves and for
    /// members of a job.
    ///
    /// ```
    /// # use barewire_core::{Config, Endpoint, Ignore, Peer, PeerState, at_large::open_key};
    /// # let [mut server, mut client] = [(); 2].map(|()| Endpoint::at_large(open_key(), Config::default()).unwrap());
    /// # let place = server.listen_on("tcp://127.0.0.1:0").unwrap()[0];
    /// # let mut connect = |client: &mut Endpoint, peer: Peer| {
    /// #     client.call(peer).unwrap();
    /// #     while client.peer_state(peer) != PeerState::Connected {
    /// #         server.progress(&mut Ignore, usize::MAX);
    /// #         client.progress(&mut Ignore, usize::MAX);
    /// #     }
    /// # };
    /// let peer = client.connect_to(&format!("tcp://{place}")).unwrap();
    /// connect(&mut client, peer);
    /// assert!(client.hang_up(peer));
    /// assert_eq!(client.peer_state(peer), PeerState::Unknown);
    /// connect(&mut client, peer); // the same number, the same address
    /// assert_eq!(client.peer_state(peer), PeerState::Connected);
    /// ```
    pub fn hang_up(&mut self, peer: Peer) -> bool {
        if self.at_large.is_none() || peer == self.me || self.peers.get(peer.index()).is_none() {
            return false;
        }
        self.flush();
        self.peers[peer.index()].state = PeerState::Left;
        self.forget(peer)
    }

    /// Whether this is where we listen ourselves.
    fn is_our_door(&self, address: &SocketAddr) -> bool {
        self.listening().iter().any(|door| {
            door.port() == address.port()
                && if door.ip().is_unspecified() {
                    is_our_ip(address.ip())
                } else {
                    door.ip() == address.ip()
                }
        })
    }

    /// A number for a peer that is new; `None` if there are too many.
    fn number_somebody(&mut self) -> Option<Peer> {
        match self.large().vacant.pop() {
            Some(peer) => Some(peer),
            None if self.peers.len() < PEERS_MAX => Some(Peer(self.peers.grow())),
            None => None,
        }
    }

    /// Somebody who holds the key has called: gives it a number.
    pub(crate) fn number_caller(&mut self, agreed: Agreed) -> Option<Agreed> {
        let peer = self.number_somebody()?;
        self.large().newcomers.push_back(peer);
        Some(Agreed { peer, ..agreed })
    }

    /// Who greets us on a local socket: somebody new, or a neighbour whom we called.
    pub(crate) fn who_greets_at_large(&mut self, hello: &local::Hello) -> Option<Peer> {
        let Greeting { from, to, home, answering } = hello.greeting;
        if answering != [0; 16] {
            let large = self.large();
            let expected = large.unanswered.get(&Peer(to)) == Some(&answering);
            return expected.then(|| large.unanswered.remove(&Peer(to))).map(|_| Peer(to));
        }
        if to != ANYBODY.0 || home == [0; 16] {
            return None;
        }
        let peer = self.number_somebody()?;
        let caller = Caller { home, number: from, nonce: hello.nonce };
        let large = self.large();
        large.callers.insert(peer, caller);
        large.newcomers.push_back(peer);
        Some(peer)
    }

    /// Connects by rings if the other is on this host, and by TCP otherwise.
    pub(crate) fn try_connect_at_large(&mut self, to: Peer) {
        if self.is_dialling(to) {
            return self.go_on_dialling(to);
        }
        let Err(why) = self.call_by_ring(to) else { return };
        if self.config.tcp {
            self.dial_tcp(to, &why);
        } else {
            self.lose(to, format!("no wire reaches it: {why}, and TCP is turned off here"));
        }
    }

    /// Hands a ring to a neighbour, or says why not.
    fn call_by_ring(&mut self, to: Peer) -> Result<(), String> {
        if !self.config.shm {
            return Err("shared memory is turned off here".to_owned());
        }
        let (names, greeting) = self.local_names(to);
        let mut why = "it is on another host".to_owned();
        for name in names {
            let memory = RingMemory::create(self.ring_bytes).map_err(|error| error.to_string())?;
            let job = (self.identity.job, &self.identity.key);
            match local::dial(&name, job, greeting, &memory, &self.bell) {
                Ok(socket) => {
                    if greeting.answering == [0; 16] {
                        self.large().unanswered.insert(to, socket.nonce);
                    }
                    self.open_ring(to, memory, socket);
                    return Ok(());
                }
                Err(error) => why = format!("its local socket cannot be reached: {error}"),
            }
        }
        Err(why)
    }

    /// Under which names a peer may listen on this host, and what to say to it.
    fn local_names(&mut self, to: Peer) -> (Vec<String>, Greeting) {
        let job = self.identity.job;
        let large = self.large();
        let home = large.home;
        if let Some(caller) = large.callers.get(&to) {
            let greeting = Greeting { from: ANYBODY.0, to: caller.number, home, answering: caller.nonce };
            return (vec![local::home_name(job, caller.home)], greeting);
        }
        let called = large.calls.get(&to).map_or(&[][..], Vec::as_slice);
        let ours = called.iter().filter(|address| is_our_ip(address.ip()));
        let any = |address: &SocketAddr| match address.ip() {
            IpAddr::V4(_) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port()),
            IpAddr::V6(_) => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port()),
        };
        let names =
            ours.flat_map(|&address| [address, any(&address)]).map(|door| local::door_name(job, door));
        (names.collect(), Greeting { from: to.0, to: ANYBODY.0, home, answering: [0; 16] })
    }

    /// Where to call a peer; `None` if it called us by TCP, and in a job.
    pub(crate) fn card_at_large(&self, to: Peer) -> Option<Card> {
        let large = self.at_large.as_ref()?;
        let tcp = match large.calls.get(&to) {
            Some(addresses) => addresses.clone(),
            None => large.callers.get(&to).map(|_| Vec::new())?,
        };
        Some(Card { peer: to, pid: 0, host: self.identity.host, local: String::new(), tcp })
    }

    /// A peer's number was forgotten: if nobody can call it, the number is free.
    pub(crate) fn vacate(&mut self, peer: Peer) {
        if let Some(large) = &mut self.at_large {
            large.unanswered.remove(&peer);
            large.callers.remove(&peer);
            if !large.calls.contains_key(&peer) && !large.vacant.contains(&peer) {
                large.newcomers.retain(|&other| other != peer);
                large.vacant.push(peer);
            }
        }
    }

    /// Tells the layer above of those who called us.
    pub(crate) fn introduce<D: Deliver>(&mut self, deliver: &mut D) {
        while let Some(peer) = self.at_large.as_mut().and_then(|large| large.newcomers.pop_front()) {
            deliver.peer_joined(self, peer);
        }
    }

    /// Whom a hello is for, and from: members of a job by their numbers, others by nothing.
    pub(crate) fn name_in_hello(&self, peer: Peer) -> Peer {
        if self.at_large.is_some() { ANYBODY } else { peer }
    }

    fn large(&mut self) -> &mut AtLarge {
        self.at_large.get_or_insert_default()
    }
}

fn is_our_ip(ip: IpAddr) -> bool {
    ip.is_loopback()
        || if_addrs::get_if_addrs().unwrap_or_default().iter().any(|interface| interface.ip() == ip)
}
