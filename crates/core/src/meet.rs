//! Meeting by TCP: listening, dialling, and the hello on both sides.
//!
//! A dialler tries a peer's addresses one shortly after the other and goes on with the first whose listener proves the
//! job's key. If two peers dial each other, the lower rank decides: once it has proved itself to the higher one it turns the
//! other's connection away, and until then it takes it. So there is one connection before there is any data.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use barewire_sys::rustix::io::Errno;

use crate::Peer;
use crate::auth;
use crate::boot::Environment;
use crate::connect::Identity;
use crate::endpoint::Endpoint;
use crate::error::OpenError;
use crate::hello::{AcceptStep, Acceptor, Agreed, DialError, DialStep, Dialler, Party, VERSIONS, Verdict};
use crate::peer::{PeerEntry, PeerState};
use crate::poller::Source;
use crate::provider::tcp::{TcpRx, TcpTx, net};
use crate::provider::{Rx, Tx};

/// A stranger has this long to prove the key.
pub(crate) const HELLO_WITHIN: Duration = Duration::from_secs(2);
/// Strangers at a time; one more, and the oldest that has said nothing sensible is turned out.
const GUESTS_MAX: usize = 64;
/// A port that is free for IPv4 may be taken for IPv6: then another is tried.
const ANY_PORT_TRIES: usize = 16;
/// Connections accepted at a time.
const ACCEPTS_A_TURN: usize = 16;
/// An address that has not answered for this long gets company by the next one.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);
/// Pauses between two rounds through all addresses.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(400),
];

/// Somebody who has connected but not proved anything yet.
#[derive(Debug)]
pub(crate) struct Guest {
    which: u32,
    socket: OwnedFd,
    pub since: Instant,
    acceptor: Acceptor,
}

/// A connection in the making.
#[derive(Debug)]
pub(crate) struct Dial {
    to: Peer,
    /// Why it goes by TCP, for people.
    why: String,
    addresses: Vec<SocketAddr>,
    /// The address to try next, and when.
    next: usize,
    next_at: Instant,
    rounds: usize,
    attempts: Vec<Attempt>,
    trouble: String,
    /// No address is worth another try.
    hopeless: bool,
}

#[derive(Debug)]
struct Attempt {
    address: SocketAddr,
    socket: OwnedFd,
    dialler: Dialler,
    /// The hello, until the connection is there to take it.
    hello: Option<Vec<u8>>,
    /// The poller tells when the connection is there.
    armed: bool,
    /// We have proved ourselves: from now on only the other side ends it.
    proved: bool,
}

/// How an attempt stands.
enum Standing {
    Waiting,
    Proved,
    Done(Agreed, Verdict),
    Failed(String),
    /// No other address will do better.
    Hopeless(String),
}

impl Endpoint {
    /// Listens for TCP if it should; the addresses are for our card.
    pub(crate) fn listen_tcp(&mut self) -> Result<Vec<SocketAddr>, OpenError> {
        if !self.config.tcp {
            return Ok(Vec::new());
        }
        let what = "a TCP listener";
        let listening = match self.config.listen.as_slice() {
            [] => self.listen_as_told()?,
            wanted => net::listen(wanted),
        };
        match listening {
            Ok(listeners) => {
                for (at, listener) in listeners.iter().enumerate() {
                    self.poller
                        .add(listener, Source::TcpListener(at as u32))
                        .map_err(|errno| OpenError::Socket { what, error: errno.into() })?;
                }
                self.sockets.listeners = listeners;
                Ok(net::reachable(&self.sockets.listeners))
            }
            Err(errno) if self.config.shm && self.config.listen.is_empty() => {
                tracing::debug!(me = self.me.0, %errno, "no TCP here; neighbours can still be reached");
                Ok(Vec::new())
            }
            Err(errno) => Err(OpenError::Socket { what, error: errno.into() }),
        }
    }

    /// Listens where the environment says, or everywhere.
    fn listen_as_told(&self) -> Result<Result<Vec<OwnedFd>, Errno>, OpenError> {
        let network = Environment::capture()?.network()?;
        let places = match network.interface {
            None => net::EVERYWHERE.to_vec(),
            Some(name) => match net::addresses_of(&name) {
                none if none.is_empty() => return Err(OpenError::NoInterface { name }),
                places => places,
            },
        };
        Ok(match network.ports {
            None => net::listen_on_one_port(&places, std::iter::repeat_n(0, ANY_PORT_TRIES)),
            Some(ports) => {
                // Ranks of one host begin at different places, so that they seldom try each other's.
                let width = u32::from(*ports.end() - *ports.start()) + 1;
                let first = *ports.start();
                let port =
                    |at: u32| first + u16::try_from((at + self.me.0) % width).expect("below the width");
                match net::listen_on_one_port(&places, (0..width).map(port)) {
                    Err(Errno::ADDRINUSE) => {
                        let (first, last) = (*ports.start(), *ports.end());
                        return Err(OpenError::NoFreePort { first, last });
                    }
                    listening => listening,
                }
            }
        })
    }

    /// Which wire leads to a peer, and why it was chosen; `None` before there is one.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// endpoint.send(endpoint.me(), barewire_core::Port(0), 0, b"").unwrap();
    /// assert_eq!(endpoint.wire_choice(endpoint.me()), Some("shm: it is this endpoint itself"));
    /// ```
    pub fn wire_choice(&self, peer: Peer) -> Option<&str> {
        self.peers.get(peer.index())?.choice.as_deref()
    }

    /// Goes on connecting by TCP, or begins to; `why` says why not otherwise.
    pub(crate) fn dial_tcp(&mut self, to: Peer, why: &str) {
        if !self.sockets.dials.iter().any(|dial| dial.to == to) {
            let Some(card) = &self.peers[to.index()].card else { return };
            let addresses = net::candidates(&card.tcp, card.host == self.identity.host);
            if addresses.is_empty() {
                let reason =
                    format!("no wire reaches it: {why}, and it lists no TCP address that we could reach");
                return self.lose(to, reason);
            }
            let (why, now) = (why.to_owned(), Instant::now());
            let (attempts, trouble) = (Vec::new(), "no answer yet".to_owned());
            self.sockets.dials.push(Dial {
                to,
                why,
                addresses,
                next: 0,
                next_at: now,
                rounds: 0,
                attempts,
                trouble,
                hopeless: false,
            });
        }
        self.go_on_dialling(to);
    }

    /// Whether everything that still has to happen for this peer shows on a socket.
    pub(crate) fn is_dialling(&self, to: Peer) -> bool {
        self.sockets.dials.iter().any(|dial| dial.to == to)
    }

    /// Looks after the connection in the making to `to`.
    pub(crate) fn go_on_dialling(&mut self, to: Peer) {
        let Some(at) = self.sockets.dials.iter().position(|dial| dial.to == to) else { return };
        let mut dial = self.sockets.dials.swap_remove(at);
        let mut at = 0;
        while let Some(attempt) = dial.attempts.get_mut(at) {
            match attempt.go_on(&self.identity) {
                Standing::Waiting => {
                    if attempt.armed && attempt.hello.is_none() {
                        attempt.armed =
                            self.poller.watch_room(&attempt.socket, Source::Dial(to), false).is_err();
                    }
                    at += 1;
                }
                Standing::Proved => {
                    // The others have nothing to add.
                    let chosen = dial.attempts.swap_remove(at);
                    dial.attempts.drain(..).for_each(|other| self.poller.remove(&other.socket));
                    dial.attempts.push(chosen);
                    at = 0;
                }
                Standing::Done(agreed, verdict) => {
                    let attempt = dial.attempts.swap_remove(at);
                    self.poller.remove(&attempt.socket);
                    if self.dialled(attempt, Agreed { peer: to, ..agreed }, verdict, &dial.why) {
                        return;
                    }
                    dial.trouble = "it turns us away for now".to_owned();
                }
                Standing::Failed(trouble) => {
                    let failed = dial.attempts.swap_remove(at);
                    self.poller.remove(&failed.socket);
                    dial.trouble = format!("{}: {trouble}", failed.address);
                    dial.next_at = dial.next_at.min(Instant::now());
                }
                Standing::Hopeless(reason) => {
                    self.sockets.dials.push(dial);
                    return self.lose(to, reason);
                }
            }
        }
        self.try_next_address(&mut dial);
        let within = self.config.connect_within;
        let since = *self.peers[to.index()].since.get_or_insert_with(Instant::now);
        let late = since.elapsed() > within;
        let reason = if dial.hopeless {
            Some(format!("not reached by TCP: {}", dial.trouble))
        } else {
            late.then(|| format!("not reached by TCP ({}) within {within:?}: {}", dial.why, dial.trouble))
        };
        self.sockets.dials.push(dial);
        if let Some(reason) = reason {
            self.lose(to, reason);
        }
    }

    /// Tries one more address if it is time to.
    fn try_next_address(&mut self, dial: &mut Dial) {
        let now = Instant::now();
        if now < dial.next_at || dial.attempts.iter().any(|attempt| attempt.proved) {
            return;
        }
        if dial.next == 0 {
            if let Some(card) = &self.peers[dial.to.index()].card {
                dial.addresses = net::candidates(&card.tcp, card.host == self.identity.host);
            }
        }
        let Some(&address) = dial.addresses.get(dial.next) else {
            if dial.attempts.is_empty() {
                // Who was called by address is there or is not; a member of a job may still be starting, or have started anew
                // at another address. If nobody can tell, it stays with this one.
                dial.hopeless = self.at_large.is_some();
                if !dial.hopeless {
                    let _ = self.directory.request(dial.to.0);
                }
                dial.next = 0;
                dial.next_at = now + PAUSES[dial.rounds.min(PAUSES.len() - 1)];
                dial.rounds += 1;
            }
            return;
        };
        dial.next += 1;
        dial.next_at = now + NEXT_ADDRESS_AFTER;
        match self.attempt(dial.to, address) {
            Ok(attempt) => dial.attempts.push(attempt),
            Err(error) => {
                dial.trouble = format!("{address}: {error}");
                dial.next_at = now;
            }
        }
    }

    fn attempt(&mut self, to: Peer, address: SocketAddr) -> std::io::Result<Attempt> {
        let socket = net::dial(&address)?;
        let window = self.config.credit_bytes as u64;
        let party = self.identity.party(self.name_in_hello(self.me), window)?;
        let (dialler, hello) = Dialler::new(&party, self.name_in_hello(to));
        self.poller.add(&socket, Source::Dial(to))?;
        let mut attempt =
            Attempt { address, socket, dialler, hello: Some(hello), armed: false, proved: false };
        if let Standing::Failed(trouble) | Standing::Hopeless(trouble) = attempt.go_on(&self.identity) {
            return Err(std::io::Error::other(trouble));
        }
        if attempt.hello.is_some() {
            self.poller.watch_room(&attempt.socket, Source::Dial(to), true)?;
            attempt.armed = true;
        }
        Ok(attempt)
    }

    /// Our hello was answered; false if we have to come again.
    fn dialled(&mut self, attempt: Attempt, agreed: Agreed, verdict: Verdict, why: &str) -> bool {
        let to = agreed.peer;
        let receive = verdict == Verdict::BothWays;
        let taken = receive && self.inbound_of(to).is_some();
        let entry = &self.peers[to.index()];
        if verdict == Verdict::Later || taken || !matches!(entry.tx, Tx::Closed) || entry.is_gone() {
            return false;
        }
        let choice = format!("tcp to {}: {why}", attempt.address);
        self.open_connection(agreed, attempt.socket, true, receive, choice)
    }

    /// Strangers at one of our doors.
    pub(crate) fn accept_tcp(&mut self, which: u32) {
        for _ in 0..ACCEPTS_A_TURN {
            let Some(listener) = self.sockets.listeners.get(which as usize) else { return };
            let Some(socket) = net::accept(listener) else { return };
            let guests = &mut self.sockets.guests;
            if guests.len() >= GUESTS_MAX {
                let oldest = guests.iter().position(|guest| !guest.acceptor.is_greeted()).unwrap_or(0);
                self.poller.remove(guests.remove(oldest).socket);
            }
            let which = self.sockets.next_guest;
            self.sockets.next_guest = which.wrapping_add(1);
            if self.poller.add(&socket, Source::Guest(which)).is_ok() {
                let (since, acceptor) = (Instant::now(), Acceptor::new());
                self.sockets.guests.push(Guest { which, socket, since, acceptor });
                self.attend_guest(which);
            }
        }
    }

    /// Reads what a guest says. Whoever says anything wrong is turned out without a word.
    pub(crate) fn attend_guest(&mut self, which: u32) {
        let Some(at) = self.sockets.guests.iter().position(|guest| guest.which == which) else { return };
        let mut guest = self.sockets.guests.remove(at);
        let window = self.config.credit_bytes as u64;
        let Ok(party) = self.identity.party(self.name_in_hello(self.me), window) else { return };
        match guest.listen(&party) {
            // Back where it was: the oldest come first.
            Heard::Waiting => self.sockets.guests.insert(at, guest),
            Heard::Proved(agreed) => {
                self.poller.remove(&guest.socket);
                self.receive_guest(guest, agreed);
            }
            Heard::Stranger => {
                self.poller.remove(&guest.socket);
                tracing::debug!(me = self.me.0, "a stranger was turned away");
            }
        }
    }

    /// A guest has proved the key: lets it in, or sends it away for now.
    fn receive_guest(&mut self, guest: Guest, mut agreed: Agreed) {
        if self.at_large.is_some() {
            let Some(numbered) = self.number_caller(agreed) else { return };
            agreed = numbered;
        }
        let from = agreed.peer;
        if from.index() >= self.peers.len() {
            return;
        }
        let entry = &self.peers[from.index()];
        let (gone, one_way) = (entry.is_gone(), matches!(entry.tx, Tx::Ring(_)));
        let connected = matches!(entry.tx, Tx::Tcp(_)) || self.inbound_of(from).is_some();
        let proved = |dial: &Dial| dial.to == from && dial.attempts.iter().any(|attempt| attempt.proved);
        let ours_stands = self.me < from && self.sockets.dials.iter().any(proved);
        let verdict = match (gone || connected || ours_stands, one_way) {
            (true, _) => Verdict::Later,
            (false, true) => Verdict::OneWay,
            (false, false) => Verdict::BothWays,
        };
        let word = guest.acceptor.judge(&self.identity.key, verdict);
        let told = matches!(net::write(&guest.socket, &word), Ok(Some(n)) if n == word.len());
        let opened = told && verdict != Verdict::Later && {
            let choice = format!("tcp from {}: it dialled us", net::peer_name(&guest.socket));
            self.open_connection(agreed, guest.socket, !one_way, true, choice)
        };
        if !opened {
            self.vacate(from);
        }
    }

    /// Turns out guests who take too long.
    pub(crate) fn turn_out_guests(&mut self) {
        let Endpoint { sockets, poller, .. } = self;
        sockets.guests.retain(|guest| {
            let stays = guest.since.elapsed() < HELLO_WITHIN;
            if !stays {
                poller.remove(&guest.socket);
            }
            stays
        });
    }

    /// Ends connecting to a peer.
    pub(crate) fn stop_dialling(&mut self, to: Peer) {
        if let Some(at) = self.sockets.dials.iter().position(|dial| dial.to == to) {
            let dial = self.sockets.dials.swap_remove(at);
            dial.attempts.iter().for_each(|attempt| self.poller.remove(&attempt.socket));
        }
    }

    /// A connection is agreed on: from now on packets go over it.
    fn open_connection(
        &mut self,
        agreed: Agreed,
        socket: OwnedFd,
        send: bool,
        receive: bool,
        choice: String,
    ) -> bool {
        let peer = agreed.peer;
        if self.poller.add(&socket, Source::Tcp(peer)).is_err() {
            return false;
        }
        tracing::debug!(me = self.me.0, peer = peer.0, choice, send, receive, "connected");
        net::hurry_within_host(&socket);
        let socket = Arc::new(socket);
        if receive {
            let window = self.config.credit_bytes as u64;
            self.add_inbound(peer, Rx::Tcp(TcpRx::new(Arc::clone(&socket), window)));
        }
        if send {
            self.stop_dialling(peer);
            self.open_tx(peer, Tx::Tcp(Box::new(TcpTx::new(socket, agreed.window))), choice);
        }
        self.sockets.link(peer);
        // How sockets are looked at may change with their number.
        self.inbound.iter_mut().for_each(|slot| slot.ready = true);
        true
    }

    /// Forgets a peer that is gone, so that it can be met again, say after it was restarted; false if it is not gone. What
    /// it had begun stays unfinished, and what was sent to it may or may not have arrived.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// assert!(!endpoint.forget(endpoint.me()), "we are still here");
    /// ```
    pub fn forget(&mut self, peer: Peer) -> bool {
        if !self.peers.get(peer.index()).is_some_and(PeerEntry::is_gone) {
            return false;
        }
        self.lose(peer, String::new());
        if let Some(slot) = self.inbound_of(peer) {
            if let Some(Rx::Tcp(rx)) = slot.inbound.take().map(|link| link.rx) {
                self.poller.remove(rx.socket());
            }
        }
        self.inbound.retain(|slot| slot.peer != peer);
        self.turn = 0;
        self.sockets.unlink(peer);
        self.lost.retain(|&lost| lost != peer);
        let entry = &mut self.peers[peer.index()];
        let (stats, next_stream) = (entry.stats, entry.next_stream);
        *entry = PeerEntry { stats, next_stream, state: PeerState::Unknown, ..PeerEntry::new() };
        self.vacate(peer);
        true
    }
}

impl Identity {
    /// What we bring to a hello.
    fn party(&self, me: Peer, window: u64) -> std::io::Result<Party<'_>> {
        Ok(Party { job: self.job, key: &self.key, me, versions: VERSIONS, window, nonce: auth::random()? })
    }
}

/// What a guest said.
enum Heard {
    Waiting,
    Proved(Agreed),
    Stranger,
}

impl Guest {
    fn listen(&mut self, party: &Party<'_>) -> Heard {
        let mut bytes = [0; 128];
        loop {
            let wants = self.acceptor.wants().min(bytes.len());
            let read = match net::read(&self.socket, &mut bytes[..wants]) {
                Ok(None) => return Heard::Waiting,
                Ok(Some(0)) | Err(_) => return Heard::Stranger,
                Ok(Some(n)) => &bytes[..n],
            };
            match self.acceptor.take(party, read) {
                Ok(AcceptStep::More) => {}
                Ok(AcceptStep::Welcome { bytes, last }) => {
                    let told = matches!(net::write(&self.socket, &bytes), Ok(Some(n)) if n == bytes.len());
                    if last || !told {
                        return Heard::Stranger;
                    }
                }
                Ok(AcceptStep::Proved(agreed)) => return Heard::Proved(agreed),
                Err(_) => return Heard::Stranger,
            }
        }
    }
}

impl Attempt {
    fn go_on(&mut self, identity: &Identity) -> Standing {
        if let Some(hello) = &self.hello {
            match net::write(&self.socket, hello) {
                Ok(None) => return Standing::Waiting,
                Ok(Some(n)) if n == hello.len() => self.hello = None,
                Ok(Some(_)) => return Standing::Failed("it takes only a part of a hello".to_owned()),
                Err(error) => return Standing::Failed(error.to_string()),
            }
        }
        let mut bytes = [0; 128];
        loop {
            let wants = self.dialler.wants().min(bytes.len());
            let read = match net::read(&self.socket, &mut bytes[..wants]) {
                Ok(None) => return Standing::Waiting,
                Ok(Some(0)) => {
                    return Standing::Failed(
                        "it closed the connection: not of this job, or not that rank".to_owned(),
                    );
                }
                Ok(Some(n)) => &bytes[..n],
                Err(error) => return Standing::Failed(error.to_string()),
            };
            match self.dialler.take(&identity.key, read) {
                Ok(DialStep::More) => {}
                Ok(DialStep::Prove(proof)) => match net::write(&self.socket, &proof) {
                    Ok(Some(n)) if n == proof.len() => {
                        self.proved = true;
                        return Standing::Proved;
                    }
                    _ => return Standing::Failed("it does not take our proof".to_owned()),
                },
                Ok(DialStep::Done(agreed, verdict)) => return Standing::Done(agreed, verdict),
                Err(error @ DialError::Versions { .. }) => {
                    return Standing::Hopeless(format!("at {}: {error}", self.address));
                }
                Err(error) => return Standing::Failed(error.to_string()),
            }
        }
    }
}
