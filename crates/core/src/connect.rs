//! Finding peers and losing them: the directory, the local listener, handshakes, and the ends of links.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use barewire_sys::bell::Ringer;
use barewire_sys::credentials;
use barewire_sys::ring::RingMemory;
use barewire_sys::rustix::io::Errno;
use barewire_sys::rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use crate::Peer;
use crate::endpoint::Endpoint;
use crate::endpoint::outbox::Outbox;
use crate::error::SendError;
use crate::incoming::Deliver;
use crate::job::{Directory, DirectoryEvent, JobId, JobKey};
use crate::peer::PeerState;
use crate::poller::Source;
use crate::provider::shm::{RingRx, RingTx};
use crate::provider::{Rx, Tx, local, shuttle};
use crate::wire::Card;

/// A stranger has this long to say hello.
pub(crate) const HELLO_WITHIN: Duration = Duration::from_secs(2);
/// Strangers waited for at a time; further ones wait in the kernel.
const PENDING_MAX: usize = 256;

/// Who we are to others.
#[derive(Debug)]
pub(crate) struct Identity {
    pub job: JobId,
    pub key: JobKey,
    pub host: [u8; 16],
}

impl Identity {
    pub fn new(job: JobId, key: JobKey) -> Identity {
        let host = host_id(&key);
        Identity { job, key, host }
    }

    /// For an endpoint that has no address.
    pub fn nowhere(job: JobId, key: JobKey) -> Identity {
        Identity { job, key, host: [0; 16] }
    }

    pub fn card(&self, me: Peer, local: bool, tcp: Vec<SocketAddr>) -> Card {
        let local = if local { local::name(self.job, me.0) } else { String::new() };
        Card { peer: me, pid: std::process::id(), host: self.host, local, tcp }
    }
}

/// The same for all processes that can meet through an abstract socket: one boot of one machine, one network namespace.
fn host_id(key: &JobKey) -> [u8; 16] {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let proof = crate::auth::prove(key, "host", &[&boot, space.as_os_str().as_encoded_bytes()]);
    proof[..16].try_into().expect("sixteen of thirty-two")
}

/// An accepted local connection whose hello has not come yet.
#[derive(Debug)]
pub(crate) struct Pending {
    socket: OwnedFd,
    pub since: Instant,
}

impl Endpoint {
    /// Begins to connect to a peer, or goes on with it. Returns at once.
    #[cold]
    pub(crate) fn connect(&mut self, to: Peer) {
        if self.connect_by_datagrams(to) {
            return;
        }
        if to == self.me {
            if let Err(error) = self.connect_to_self() {
                self.lose(to, error.to_string());
            }
            return;
        }
        let peer = &mut self.peers[to.index()];
        if peer.since.is_none() {
            peer.since = Some(Instant::now());
            peer.state = PeerState::Connecting;
            self.connecting.push(to);
            match self.card_at_large(to) {
                Some(card) => self.peers[to.index()].card = Some(card),
                None if self.at_large.is_some() => {
                    return self.lose(to, "it called us, and nobody knows its address".to_owned());
                }
                None => {
                    if let Err(reason) = self.directory.request(to.0) {
                        return self.lose(to, reason);
                    }
                }
            }
        }
        self.read_directory();
        self.try_connect(to);
    }

    fn try_connect(&mut self, to: Peer) {
        let peer = &self.peers[to.index()];
        if !matches!(peer.tx, Tx::Closed) || peer.is_gone() {
            return;
        }
        if self.at_large.is_some() {
            return self.try_connect_at_large(to);
        }
        let Some(card) = &peer.card else { return self.give_up_late(to, "its address is not known yet") };
        if let Some(why) = self.why_not_shm(card) {
            return if self.config.tcp {
                self.dial_tcp(to, why)
            } else {
                self.lose(to, format!("no wire reaches it: {why}, and TCP is turned off here"))
            };
        }
        let (name, greeting) =
            (card.local.clone(), local::Greeting { from: self.me.0, to: to.0, ..local::Greeting::default() });
        let cargo = if shuttle::is_within(self.me, to) { self.cargo_bytes } else { 0 };
        let memory = match RingMemory::create_roomy(self.ring_bytes, cargo) {
            Ok(memory) => memory,
            Err(error) => return self.lose(to, error.to_string()),
        };
        match local::dial(&name, (self.identity.job, &self.identity.key), greeting, &memory, &self.bell) {
            Ok(socket) => self.open_ring(to, memory, socket),
            Err(Errno::AGAIN | Errno::INTR) => self.give_up_late(to, "its listener is busy"),
            Err(error) if self.config.tcp => {
                self.dial_tcp(to, &format!("its local socket cannot be reached: {error}"));
            }
            Err(error) => self.give_up_late(to, &format!("its local socket says: {error}")),
        }
    }

    /// A ring was handed over: from now on packets go through it.
    pub(crate) fn open_ring(&mut self, to: Peer, memory: RingMemory, socket: local::Dialled) {
        let _ = self.poller.add(&socket.fd, Source::RingTx(to));
        let process = credentials::of(&socket.fd).ok().and_then(|who| who.pid);
        let choice = "shm: it is on the same host".to_owned();
        let ring = Box::new(RingTx::new(memory, Some(socket), self.pool.bytes()));
        self.open_shuttle(to, ring.memory(), (self.me, to));
        self.open_tx(to, Tx::Ring(ring), choice);
        self.watch_process(to, process);
    }

    /// A ring has been made by the one for the other: the pair's shuttle is in it, or in that of the other direction. Endpoints at large
    /// have none, because they do not number each other alike.
    fn open_shuttle(&mut self, peer: Peer, memory: &RingMemory, (from, to): (Peer, Peer)) {
        if self.at_large.is_some() {
            return;
        }
        if let Some(link) = shuttle::Link::within(memory, from, to, self.me, self.patience.is_alone()) {
            self.peers[peer.index()].shuttle = Some(link);
        }
    }

    /// Why shared memory does not lead to the endpoint with this card, if it does not.
    fn why_not_shm(&self, card: &Card) -> Option<&'static str> {
        if !self.config.shm {
            Some("shared memory is turned off here")
        } else if card.host != self.identity.host {
            Some("it is on another host")
        } else if card.local.is_empty() {
            Some("shared memory is turned off there")
        } else {
            None
        }
    }

    pub(crate) fn open_tx(&mut self, to: Peer, tx: Tx, choice: String) {
        self.connecting.retain(|&peer| peer != to);
        let peer = &mut self.peers[to.index()];
        peer.tx = tx;
        peer.state = PeerState::Connected;
        peer.refresh_fast();
        tracing::debug!(me = self.me.0, peer = to.0, choice, "connected");
        peer.choice = Some(choice);
    }

    fn give_up_late(&mut self, to: Peer, why: &str) {
        let within = self.config.connect_within;
        if self.peers[to.index()].since.is_some_and(|since| since.elapsed() > within) {
            self.lose(to, format!("not reached within {within:?}: {why}"));
        }
    }

    /// Looks at everything but rings: sockets, listeners, the directory, connections in the making.
    #[cold]
    pub(crate) fn housekeep<D: Deliver>(&mut self, deliver: &mut D) {
        self.rounds.made();
        self.undoze();
        if self.peers.len() > 1 || self.at_large.is_some() {
            for source in self.poller.wait(Some(Duration::ZERO)) {
                self.attend(source);
            }
            self.greet();
            self.turn_out_guests();
            self.feel_pulses();
            self.read_directory();
            for to in self.connecting.clone() {
                self.try_connect(to);
            }
        }
        self.introduce(deliver);
        self.tell_lost(deliver);
    }

    /// Deals with one thing that became ready.
    pub(crate) fn attend(&mut self, source: Source) {
        match source {
            Source::Bell | Source::Pending => {}
            Source::LocalListener => self.accept(),
            Source::Directory => self.read_directory(),
            Source::RingTx(peer) => {
                let alive = match &mut self.peers[peer.index()].tx {
                    Tx::Ring(ring) => ring.poll_socket(),
                    Tx::Closed | Tx::Tcp(_) | Tx::Datagram(_) => true,
                };
                if !alive {
                    self.close_tx(peer);
                }
            }
            Source::TcpListener(which) => self.accept_tcp(which),
            Source::Guest(which) => self.attend_guest(which),
            Source::Dial(peer) => self.go_on_dialling(peer),
            Source::Tcp(peer) => self.attend_tcp(peer),
            Source::Process(peer) => {
                // The number may be somebody else's since.
                if self.peers[peer.index()].watch.as_ref().is_some_and(local::has_ended) {
                    self.process_ended(peer);
                }
            }
            Source::RingRx(peer) => {
                let slot = self.inbound.iter_mut().find(|slot| slot.peer == peer);
                if let Some(Rx::Ring(ring)) =
                    slot.and_then(|slot| slot.inbound.as_mut()).map(|link| &mut link.rx)
                {
                    if !ring.read_socket() {
                        if let Some(socket) = ring.socket() {
                            self.poller.remove(socket);
                        }
                    }
                }
            }
        }
    }

    /// The receiver of our ring is gone. What it sent us may still be in its ring, so its end is declared when that is empty.
    pub(crate) fn close_tx(&mut self, peer: Peer) {
        self.let_everybody_in();
        let entry = &mut self.peers[peer.index()];
        if let Tx::Ring(ring) = &mut entry.tx {
            if let Some(socket) = ring.socket() {
                self.poller.remove(socket);
            }
        }
        if !self.inbound.iter().any(|slot| slot.peer == peer) {
            // It may have begun to send to us just before, and wait at the door.
            self.accept();
            self.greet();
        }
        self.note_end(peer, "its process ended or closed the connection".to_owned());
        if !self.inbound.iter().any(|slot| slot.peer == peer) {
            self.lose(peer, String::new());
        }
    }

    /// Has the poller say when a neighbour's process ends. Usually its sockets say so, but a child that it forked may keep them open.
    fn watch_process(&mut self, peer: Peer, process: Option<Pid>) {
        let entry = &mut self.peers[peer.index()];
        let Some(pid) = process.filter(|pid| entry.watch.is_none() && *pid != getpid()) else { return };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(watch) if self.poller.add(&watch, Source::Process(peer)).is_ok() => entry.watch = Some(watch),
            Err(Errno::SRCH) => self.process_ended(peer),
            // No room for one more descriptor, or a kernel without: its sockets have to do.
            _ => {}
        }
    }

    /// A neighbour's process has ended. What it sent before is taken first, as if it had closed its sockets.
    #[cold]
    fn process_ended(&mut self, peer: Peer) {
        self.let_everybody_in();
        match self.inbound_of(peer).map(|slot| (&mut slot.ready, slot.inbound.as_deref_mut())) {
            // Its packets are being handled right now: the poller will say it again.
            Some((_, None)) => return,
            Some((ready, Some(link))) => {
                *ready = true;
                if let Rx::Ring(ring) = &mut link.rx {
                    ring.closing = true;
                }
            }
            None => {}
        }
        self.unwatch_process(peer);
        if matches!(self.peers[peer.index()].tx, Tx::Ring(_)) {
            self.close_tx(peer);
        }
    }

    fn unwatch_process(&mut self, peer: Peer) {
        if let Some(watch) = self.peers[peer.index()].watch.take() {
            self.poller.remove(&watch);
        }
    }

    /// The receiver of our ring is gone: in good order if it has said farewell, otherwise for this reason.
    fn note_end(&mut self, peer: Peer, reason: String) {
        let entry = &mut self.peers[peer.index()];
        if entry.is_gone() {
            return;
        }
        let left = match &mut entry.tx {
            Tx::Ring(ring) => {
                ring.poll_socket();
                ring.has_left
            }
            Tx::Closed | Tx::Tcp(_) | Tx::Datagram(_) => false,
        };
        tracing::debug!(me = self.me.0, peer = peer.0, left, reason, "ended");
        entry.state = if left { PeerState::Left } else { PeerState::Lost(reason) };
        entry.refresh_fast();
    }

    /// A peer's first and last message may wait in a ring that has not been accepted yet, behind the news of its end.
    fn let_everybody_in(&mut self) {
        self.accept();
        self.greet();
    }

    fn accept(&mut self) {
        let doors = self.at_large.iter().flat_map(|large| &large.local_doors);
        for listener in self.local_listener.iter().chain(doors) {
            for _ in 0..PENDING_MAX {
                let Some(socket) = local::accept(listener) else { break };
                if self.pending.len() == PENDING_MAX {
                    // Who has waited longest has said nothing; neighbours say hello as they come.
                    let silent = self.pending.remove(0);
                    self.poller.remove(&silent.socket);
                }
                let _ = self.poller.add(&socket, Source::Pending);
                self.pending.push(Pending { socket, since: Instant::now() });
            }
        }
    }

    /// Reads the hellos of accepted connections.
    fn greet(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            match local::receive(&pending.socket) {
                Ok(None) if pending.since.elapsed() < HELLO_WITHIN => self.pending.push(pending),
                Ok(None) | Err(_) => self.poller.remove(&pending.socket),
                Ok(Some(local::Letter { bytes: hello, fds })) => {
                    self.poller.remove(&pending.socket);
                    if self.admit(pending.socket, &hello, fds).is_none() {
                        tracing::debug!(me = self.me.0, "a stranger was turned away");
                    }
                }
            }
        }
    }

    /// Lets a neighbour in that proved the key; `None` for anybody else.
    fn admit(&mut self, socket: OwnedFd, bytes: &[u8], fds: Vec<OwnedFd>) -> Option<()> {
        let hello = local::check_hello(bytes, self.identity.job, &self.identity.key)?;
        let [ring, flag, event] = <[OwnedFd; 3]>::try_from(fds).ok()?;
        let memory = RingMemory::open(ring, hello.ring_bytes).ok()?;
        let ringer = Ringer::open(flag, event).ok()?;
        let from = self.who_greets(&hello)?;
        if self.inbound.iter().any(|slot| slot.peer == from) {
            return None;
        }
        // It may have left already; what it sent before is in the ring all the same.
        let _ = local::welcome(&socket, &self.identity.key, bytes, &self.bell);
        self.poller.add(&socket, Source::RingRx(from)).ok()?;
        let process = credentials::of(&socket).ok().and_then(|who| who.pid);
        self.peers[from.index()].process = process;
        self.open_shuttle(from, &memory, (from, self.me));
        self.add_inbound(from, Rx::Ring(RingRx::new(memory, Some((socket, ringer)))));
        self.watch_process(from, process);
        Some(())
    }

    /// Whose hello this is; `None` if it is not for us.
    fn who_greets(&mut self, hello: &local::Hello) -> Option<Peer> {
        if self.at_large.is_some() {
            return self.who_greets_at_large(hello);
        }
        let (from, to) = (Peer(hello.greeting.from), Peer(hello.greeting.to));
        (to == self.me && from.index() < self.peers.len() && from != self.me).then_some(from)
    }

    fn read_directory(&mut self) {
        loop {
            match self.directory.poll() {
                Ok(Some(DirectoryEvent::Card { rank, bytes })) => {
                    let card = Card::decode(&bytes).filter(|card| card.peer.0 == rank);
                    if let Some(peer) = self.peers.get_mut(rank as usize) {
                        peer.card = card;
                    }
                }
                Ok(Some(DirectoryEvent::Lost { rank, reason })) => {
                    if (rank as usize) < self.peers.len() {
                        self.hear_of_end(Peer(rank), reason);
                    }
                }
                Ok(Some(DirectoryEvent::Report)) => self.report_wanted = true,
                Ok(Some(DirectoryEvent::Explain)) => {
                    let text = self.describe_wires();
                    self.directory.report_wires(&text);
                }
                Ok(None) => return,
                Err(reason) => return self.lose_directory(&reason),
            }
        }
    }

    /// The launcher saw a peer end. The news may overtake what the peer sent before; so its end is declared when that is taken.
    #[cold]
    fn hear_of_end(&mut self, peer: Peer, reason: String) {
        self.let_everybody_in();
        self.note_end(peer, reason);
        let slot = self.inbound_of(peer).map(|slot| (&mut slot.ready, slot.inbound.as_deref_mut()));
        match slot {
            Some((ready, Some(link))) => {
                *ready = true;
                if let Rx::Ring(ring) = &mut link.rx {
                    ring.closing = true;
                }
                self.close_tx(peer);
            }
            // Nothing came from it, or its packets are being handled right now.
            None | Some((_, None)) => {
                self.close_tx(peer);
                self.lose(peer, String::new());
            }
        }
    }

    /// The launcher is gone, or not to be believed: who is connected stays so, who is not will not be.
    #[cold]
    fn lose_directory(&mut self, reason: &str) {
        if let Some(fd) = self.directory.fd() {
            self.poller.remove(fd);
        }
        self.directory = Directory::Alone;
        for peer in self.connecting.clone() {
            self.lose(peer, format!("the job's directory is gone: {reason}"));
        }
    }

    /// A peer is gone: its operations fail from now on.
    pub(crate) fn lose(&mut self, peer: Peer, reason: String) {
        self.connecting.retain(|&other| other != peer);
        self.close_datagram_link(peer);
        self.unwatch_process(peer);
        let stats = self.peer_stats(peer);
        let entry = &mut self.peers[peer.index()];
        if !entry.is_gone() {
            tracing::debug!(me = self.me.0, peer = peer.0, reason, "lost");
            entry.state = PeerState::Lost(reason);
        }
        entry.stats = stats;
        entry.outbox = Outbox::default();
        entry.refresh_fast();
        self.deferring.retain(|&other| other != peer);
        if let Tx::Ring(ring) = &mut entry.tx {
            ring.abandon(&mut self.pool);
        }
        entry.shuttle = None;
        let tx = std::mem::replace(&mut entry.tx, Tx::Closed);
        self.close_socket(peer, tx);
        self.ops.fail_peer(peer, crate::region::RegionError::Send(SendError::Lost(peer)));
        self.serving.forget(peer);
        self.imports.forget(peer);
        if !self.lost.contains(&peer) {
            self.lost.push_back(peer);
        }
    }

    /// Tells the layer above of peers that are gone.
    pub(crate) fn tell_lost<D: Deliver>(&mut self, deliver: &mut D) {
        while let Some(peer) = self.lost.pop_front() {
            if !std::mem::replace(&mut self.peers[peer.index()].told_lost, true) {
                deliver.peer_lost(self, peer);
            }
        }
    }
}

impl Drop for Endpoint {
    /// Leaves in good order: what waits is sent if there is room, and every peer is told.
    fn drop(&mut self) {
        if !self.guard.is_parent() {
            return;
        }
        self.flush_outboxes();
        let bye =
            crate::wire::Head { kind: crate::wire::Kind::Bye, flags: 0, port: crate::Port(0), len: 0, w1: 0 };
        for peer in self.peers.iter_mut().filter(|peer| !matches!(peer.tx, Tx::Datagram(_))) {
            let _ = peer.tx.send(&mut self.pool, bye, crate::provider::Class::Control, |_| {});
        }
        // Those whom we have only listened to have no ring of ours to find it in.
        self.let_everybody_in();
        for link in self.inbound.iter().filter_map(|slot| slot.inbound.as_ref()) {
            if let Rx::Ring(ring) = &link.rx {
                ring.say_farewell();
            }
        }
        self.linger();
        if self.datagrams.is_some() {
            self.linger_on_datagrams(bye);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Job;
    use crate::wait::Waiting;
    use crate::{Config, Flow, Ignore, Incoming, Port};

    fn two() -> [Endpoint; 2] {
        let mut jobs = Job::threads(2).unwrap().into_iter();
        [(); 2].map(|()| Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap())
    }

    #[test]
    fn one_that_only_listened_leaves_in_good_order() {
        let [mut stays, mut leaves] = two();
        while stays.send(Peer(1), Port(1), 0, b"hello").is_err() {
            leaves.progress(&mut Ignore, usize::MAX);
        }
        leaves.wait(&mut Ignore, None, |endpoint, _| endpoint.stats().received > 0).unwrap();
        drop(leaves);
        stays.wait(&mut Ignore, None, |endpoint, _| endpoint.is_gone(Peer(1))).unwrap();
        assert_eq!(stays.peer_state(Peer(1)), PeerState::Left);
    }

    #[test]
    fn the_only_message_of_one_who_leaves_arrives_before_its_end() {
        let [mut leaves, mut stays] = two();
        while stays.send(Peer(0), Port(1), 0, b"done").is_err() {
            leaves.progress(&mut Ignore, usize::MAX);
        }
        let mut heard = 0;
        let mut hear = |_: &mut Endpoint, _: Incoming<'_>| {
            heard += 1;
            Flow::Continue
        };
        leaves.wait(&mut hear, None, |endpoint, _| endpoint.stats().received > 0).unwrap();
        // Its ring to the other one is made by this message, and waits to be accepted when its maker is gone.
        while leaves.send(Peer(1), Port(1), 0, b"over").is_err() {}
        drop(leaves);
        let waiting = Waiting { what: "the last word", on: Some(Peer(0)) };
        stays.wait_for(waiting, &mut hear, None, |endpoint, _| endpoint.stats().received > 0).unwrap();
        assert_eq!(heard, 2);
    }
}
