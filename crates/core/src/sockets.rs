//! The endpoint's TCP connections at work: which to read, when to write, and whether the other machine is still there.
//!
//! A few connections are read without asking first, because a read that finds nothing costs no more than asking; of many,
//! `epoll` says which to read. Beside rings, which cost nothing to look at, sockets are looked at less often.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use barewire_sys::rustix::net::{Shutdown, shutdown, sockopt};
use barewire_sys::wirebuf::{Places, WireRef};

use crate::connect;
use crate::endpoint::Endpoint;
use crate::error::SendError;
use crate::incoming::{Ahead, Deliver, Flow};
use crate::meet::{Dial, Guest, HELLO_WITHIN};
use crate::peer::PeerState;
use crate::poller::Source;
use crate::progress::{Budget, EndReason, Handled, Inbound, UNPAID};
use crate::provider::tcp::pulse::{Beat, LOOK_EVERY};
use crate::provider::tcp::{Split, TcpRx, charge, net};
use crate::provider::{Class, Rx, Tx, local};
use crate::stream::OpenMessages;
use crate::wire::{Head, Kind};
use crate::{Peer, Port};

/// Up to this many connections are read without asking first.
const DIRECT_MAX: usize = 4;
/// Calls of `progress` between two looks at sockets when there are rings to neighbours too.
const LOOK_BESIDE_RINGS_EVERY: u32 = 64;
/// Packets taken from one connection before the next has its turn.
const PACKETS_A_TURN: u32 = 1024;
/// A connection in the making is looked at this often even if nothing happens to it.
const DIAL_EVERY: Duration = Duration::from_millis(20);
/// What we have sent has this long to reach peers' machines when the endpoint is dropped.
const LINGER_FOR: Duration = Duration::from_millis(500);
/// A sleeper with neighbours looks again at least this often: all of them can write its doorbell's flag, so one that
/// scribbles could keep the others from ringing.
const NAP: Duration = Duration::from_millis(500);
/// Reads of what we do not want any more, at a time.
const DRAIN_READS: usize = 16;

/// Everything an endpoint has to do with TCP.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub listeners: Vec<OwnedFd>,
    pub guests: Vec<Guest>,
    pub next_guest: u32,
    pub dials: Vec<Dial>,
    /// Peers with whom there is a connection.
    links: Vec<Peer>,
    /// Peers to whom something is gathered and not written.
    bundled: Vec<Peer>,
    looks: u32,
    ready: Vec<Source>,
    opened: Instant,
    next_pulse: Instant,
}

impl Sockets {
    pub fn new() -> Sockets {
        let now = Instant::now();
        Sockets {
            listeners: Vec::new(),
            guests: Vec::new(),
            next_guest: 0,
            dials: Vec::new(),
            links: Vec::new(),
            bundled: Vec::new(),
            looks: 0,
            ready: Vec::new(),
            opened: now,
            next_pulse: now,
        }
    }

    #[inline(always)]
    pub fn is_used(&self) -> bool {
        !self.links.is_empty()
    }

    #[inline(always)]
    pub fn has_bundles(&self) -> bool {
        !self.bundled.is_empty()
    }

    pub fn list(&mut self, to: Peer) {
        self.bundled.push(to);
    }

    pub fn link(&mut self, peer: Peer) {
        if self.links.is_empty() {
            self.next_pulse = Instant::now() + LOOK_EVERY;
        }
        self.links.push(peer);
    }

    /// There is no connection with this peer any more.
    pub fn unlink(&mut self, peer: Peer) {
        self.links.retain(|&other| other != peer);
        self.bundled.retain(|&other| other != peer);
    }
}

impl Endpoint {
    /// Marks the connections worth reading in this call of `progress`.
    #[inline(never)]
    pub(crate) fn find_ready(&mut self) {
        let links = self.sockets.links.len();
        let beside_rings = self.inbound.len() > links + 1;
        if beside_rings {
            self.sockets.looks = self.sockets.looks.wrapping_add(1);
            if self.sockets.looks % LOOK_BESIDE_RINGS_EVERY != 0 {
                return;
            }
        }
        if links <= DIRECT_MAX {
            // Without rings, all are marked already, and stay so.
            if beside_rings {
                self.inbound.iter_mut().for_each(|slot| slot.ready = true);
            }
            return;
        }
        let mut ready = std::mem::take(&mut self.sockets.ready);
        self.poller.wait_into(&mut ready, Some(Duration::ZERO));
        ready.drain(..).for_each(|source| self.attend(source));
        self.sockets.ready = ready;
    }

    /// Whether a connection is read in every call of `progress`.
    fn is_direct(&self) -> bool {
        let links = self.sockets.links.len();
        links <= DIRECT_MAX && self.inbound.len() <= links + 1
    }

    /// Takes what has arrived on one connection; says whether to look again without being told to.
    #[inline(never)]
    pub(crate) fn take_from_tcp<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        rx: &mut TcpRx,
        open: &mut OpenMessages,
        budget: &mut Budget,
    ) -> Result<bool, EndReason> {
        rx.settle();
        let looks = !rx.has_more();
        let (read, maybe_more) = match self.fill_place(deliver, from, rx, open, budget) {
            Ok(Some(filled)) => filled,
            Ok(None) => rx.fill(),
            Err(what) => return Err(EndReason::Nonsense(what)),
        };
        if read > 0 {
            if let Tx::Tcp(tx) = &mut self.peers[from.index()].tx {
                tx.hear();
            }
        }
        let mut packets = 0;
        while rx.has_more() && packets < PACKETS_A_TURN && !budget.is_spent() {
            let (head, skip) = match rx.next() {
                Split::Packet { head, skip } => (head, skip),
                Split::More => break,
                Split::Nonsense(what) => return Err(EndReason::Nonsense(what)),
            };
            packets += 1;
            match self.take_packet(deliver, from, rx, open, budget, head, skip) {
                Handled::Next | Handled::Later if !budget.is_spent() => {}
                Handled::Next | Handled::Later => break,
                Handled::Quit => {
                    budget.quit = true;
                    break;
                }
                Handled::Nonsense(what) => return Err(EndReason::Nonsense(what)),
            }
        }
        if !rx.has_more() {
            if let Some(count) = rx.credit.due_before_idle() {
                self.return_credit(from, rx, count);
            }
            if let Some(reason) = rx.closing.take() {
                return Err(EndReason::Broken(reason));
            }
            if looks && read == 0 && matches!(self.peers[from.index()].state, PeerState::Lost(_)) {
                return Err(EndReason::Closed);
            }
        }
        Ok(rx.has_more() || maybe_more || rx.is_held() || self.is_direct())
    }

    /// Reads more of a long message straight to where it belongs, and says how much and whether there may be more; `None` if
    /// nobody knows a place.
    #[inline]
    fn fill_place<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        rx: &mut TcpRx,
        open: &mut OpenMessages,
        budget: &mut Budget,
    ) -> Result<Option<(usize, bool)>, &'static str> {
        let Some((stream, most)) = rx.ahead() else { return Ok(None) };
        let Some(part) = open.get(stream) else { return Err("a piece of no message") };
        let most = usize::try_from(part.total - part.offset).map_or(most, |left| left.min(most));
        let ahead = Ahead::new(from, part, most);
        let mut places = Places::default();
        deliver.place(&ahead, &mut places);
        if places.is_empty() {
            return Ok(None);
        }
        let (len, maybe_more) = rx.fill_places(&places);
        if len == 0 {
            return Ok(Some((0, false)));
        }
        open.piece(stream, len, false);
        rx.credit.arrive(len as u64);
        rx.credit.finish(len as u64);
        budget.spend(len);
        let stats = &mut self.peers[from.index()].stats;
        stats.count_received(len);
        match deliver.placed(self, &Ahead { len, ..ahead }) {
            Flow::Continue | Flow::Later => {}
            Flow::Quit => budget.quit = true,
            Flow::Distrust => return Err("what its layer forbids"),
        }
        if let Some(count) = rx.credit.due() {
            self.return_credit(from, rx, count);
        }
        Ok(Some((len, maybe_more)))
    }

    #[inline]
    #[allow(clippy::too_many_arguments)]
    fn take_packet<D: Deliver>(
        &mut self,
        deliver: &mut D,
        from: Peer,
        rx: &mut TcpRx,
        open: &mut OpenMessages,
        budget: &mut Budget,
        head: Head,
        skip: usize,
    ) -> Handled {
        let len = head.len as usize;
        let charge = charge(&head, skip + len);
        rx.credit.arrive(charge);
        rx.hold.arm(charge);
        let payload = WireRef::new(rx.payload(skip, len));
        let handled = self.dispatch(deliver, from, head, payload, open, &rx.hold);
        let kept = rx.finish(skip + len, charge);
        budget.spend(len);
        let stats = &mut self.peers[from.index()].stats;
        stats.count_received(len);
        stats.held += u64::from(kept);
        if kept && rx.credit.is_overdrawn() {
            return Handled::Nonsense(UNPAID);
        }
        if let Some(count) = rx.credit.due() {
            self.return_credit(from, rx, count);
        }
        if head.kind == Kind::Bye {
            // It waits for our machine to acknowledge its last words.
            let _ = sockopt::set_tcp_quickack(rx.socket(), true);
        }
        handled
    }

    /// Whether the way to a peer takes packets straight from where they are.
    #[inline]
    pub(crate) fn takes_slices(&self, to: Peer) -> bool {
        self.peers.get(to.index()).is_some_and(|peer| matches!(peer.tx, Tx::Tcp(_)))
    }

    /// How much of a long message a wire that takes bytes from where they are takes now.
    pub(crate) fn direct_room(&mut self, to: Peer) -> Result<usize, SendError> {
        match &mut self.peer_mut(to)?.tx {
            Tx::Tcp(tx) => match tx.direct_now() {
                0 => self.starve(to).map(|()| 0),
                room => Ok(room),
            },
            _ => Err(SendError::Full),
        }
    }

    /// Sends one packet of a long message straight from where its bytes are.
    pub(crate) fn send_packet_from(
        &mut self,
        to: Peer,
        head: Head,
        prefix: &[u8],
        body: &mut WireRef<'_>,
    ) -> Result<(), SendError> {
        let peer = self.peer_mut(to)?;
        let Tx::Tcp(tx) = &mut peer.tx else { return Err(SendError::Full) };
        if !peer.outbox.is_empty() || tx.send_from(head, Class::Data, prefix, body).is_err() {
            return self.starve(to);
        }
        peer.stats.count_sent(head.len as usize);
        if peer.tx.wants_listing() {
            self.sockets.list(to);
        }
        Ok(())
    }

    /// Tells a sender what we are done with, by whatever way leads to it.
    fn return_credit(&mut self, to: Peer, rx: &mut TcpRx, count: u64) {
        let head = Head { kind: Kind::Credit, flags: 0, port: Port(0), len: 0, w1: count };
        let peer = &mut self.peers[to.index()];
        if peer.tx.send(&mut self.pool, head, Class::Control, |_| {}).is_ok() {
            rx.credit.told(count);
            if peer.tx.wants_listing() {
                self.sockets.list(to);
            }
        }
    }

    /// Sends what waits to be bundled with later messages. `progress` does so by itself when it finds nothing to take; call
    /// this before computing for long without making progress.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// endpoint.send(endpoint.me(), Port(0), 0, b"off you go").unwrap();
    /// endpoint.flush();
    /// assert!(endpoint.flush_to(endpoint.me()), "nothing is left to flush");
    /// ```
    #[inline]
    pub fn flush(&mut self) {
        if !self.deferring.is_empty() {
            self.flush_outboxes();
        }
        if self.sockets.has_bundles() {
            self.flush_bundles(true);
        }
    }

    /// [`Endpoint::flush`], and whether all that was sent to a peer now gets there even if this process does nothing more.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// endpoint.send(endpoint.me(), Port(1), 0, b"to myself").unwrap();
    /// assert!(endpoint.flush_to(endpoint.me()));
    /// ```
    #[inline(always)]
    pub fn flush_to(&mut self, to: Peer) -> bool {
        if self.deferring.is_empty() && !self.sockets.has_bundles() {
            return true;
        }
        self.flush();
        let (taken, all) = self.passed_on(to);
        taken == all
    }

    /// How many bytes the system has taken of what was sent to a peer, and how many it is to take. Once the first has come to what
    /// the second was, what was sent before that gets there even if this process does nothing more. Over shared memory it
    /// does in any case, and both are zero.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job};
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// assert_eq!(endpoint.passed_on(endpoint.me()), (0, 0));
    /// ```
    pub fn passed_on(&self, peer: Peer) -> (u64, u64) {
        match self.peers.get(peer.index()).map(|entry| &entry.tx) {
            Some(Tx::Tcp(tx)) => (tx.written(), tx.written() + tx.gathered() as u64),
            _ => (0, 0),
        }
    }

    /// Writes gathered packets: all, or only those that have waited long enough.
    #[inline(never)]
    pub(crate) fn flush_bundles(&mut self, all: bool) {
        let now = (!all).then(Instant::now);
        let (peers, poller) = (&mut self.peers, &self.poller);
        self.sockets.bundled.retain(|&to| {
            let Tx::Tcp(tx) = &mut peers[to.index()].tx else { return false };
            tx.flush(now);
            tx.listed = tx.gathered() > 0;
            if tx.armed && !tx.listed {
                tx.armed = poller.watch_room(tx.socket(), Source::Tcp(to), false).is_err();
            }
            tx.listed
        });
    }

    /// Before sleeping: writes everything, and asks to be woken when sockets that took only some of it take more.
    pub(crate) fn flush_before_sleep(&mut self) {
        self.flush_bundles(true);
        for &to in &self.sockets.bundled {
            let Tx::Tcp(tx) = &mut self.peers[to.index()].tx else { continue };
            if !tx.armed {
                tx.armed = self.poller.watch_room(tx.socket(), Source::Tcp(to), true).is_ok();
            }
        }
    }

    /// Something happened on a connection.
    pub(crate) fn attend_tcp(&mut self, peer: Peer) {
        let mut reads = true;
        if let Some(slot) = self.inbound_of(peer) {
            slot.ready = true;
            reads = !matches!(slot.inbound.as_deref(), Some(Inbound { rx: Rx::Ring(_), .. }));
        }
        // A connection that only we send over is read by nobody; its end shows here.
        let end =
            matches!(&self.peers[peer.index()].tx, Tx::Tcp(tx) if !reads && local::is_closed(tx.socket()));
        if end {
            self.close_tx(peer);
        }
    }

    /// The way out to a peer is closed: so is the connection, unless somebody still reads from it.
    pub(crate) fn close_socket(&mut self, peer: Peer, tx: Tx) {
        self.stop_dialling(peer);
        if let Tx::Tcp(tx) = tx {
            if Arc::strong_count(tx.socket()) == 1 {
                self.poller.remove(tx.socket());
                self.sockets.unlink(peer);
            }
        }
        if let Some(slot) = self.inbound_of(peer) {
            slot.ready = true;
        }
    }

    /// Feels the pulse of every connection, if it is time to: a machine that does not answer is gone.
    pub(crate) fn feel_pulses(&mut self) {
        let now = Instant::now();
        if self.sockets.links.is_empty() || now < self.sockets.next_pulse {
            return;
        }
        self.sockets.next_pulse = now + LOOK_EVERY;
        let now_ms = u64::try_from((now - self.sockets.opened).as_millis()).unwrap_or(u64::MAX);
        let ping = Head { kind: Kind::Ping, flags: 0, port: Port(0), len: 0, w1: 0 };
        for peer in self.sockets.links.clone() {
            let Tx::Tcp(tx) = &mut self.peers[peer.index()].tx else { continue };
            let Ok(state) = barewire_sys::tcp::state(tx.socket()) else { continue };
            let heard = std::mem::take(&mut tx.heard_lately);
            match tx.pulse.look(now_ms, heard, state) {
                Beat::Fine => {}
                Beat::Ping if tx.gathered() == 0 => {
                    let _ = tx.send(ping, Class::Control, |_| {});
                    tx.flush(None);
                }
                Beat::Ping => tx.flush(None),
                Beat::Gone => {
                    tx.give_up();
                    self.close_tx(peer);
                    self.inbound.iter_mut().for_each(|slot| slot.ready = true);
                    let entry = &mut self.peers[peer.index()];
                    entry.state = PeerState::Lost("its machine does not answer".to_owned());
                }
            }
        }
    }

    /// How long one may sleep on [`Endpoint::fd`] before making progress again, though nothing has happened: peers that
    /// vanish without a word are only found by asking, and a neighbour that scribbles over shared memory could silence the
    /// doorbell. `None` for as long as one likes.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job};
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// assert_eq!(endpoint.deadline(), None);
    /// ```
    pub fn deadline(&self) -> Option<Duration> {
        let sockets = &self.sockets;
        let pulse = sockets.is_used().then_some(sockets.next_pulse);
        let guest = sockets.guests.iter().map(|guest| guest.since + HELLO_WITHIN).min();
        let pending = self.pending.iter().map(|pending| pending.since + connect::HELLO_WITHIN).min();
        let next = pulse
            .into_iter()
            .chain(guest)
            .chain(pending)
            .min()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let dial = (!sockets.dials.is_empty()).then_some(DIAL_EVERY);
        let neighbours =
            self.inbound.iter().filter(|slot| slot.peer != self.me).count() > sockets.links.len();
        let nap = neighbours.then_some(NAP);
        next.into_iter().chain(dial).chain(nap).chain(self.datagram_deadline()).min()
    }

    /// Before the sockets are closed: lets what we sent reach the peers' machines, whose answers we do not want to read.
    ///
    /// Closing a socket with something unread in it, or reading nothing from a peer that still sends, would make the
    /// system throw away what is on its way out.
    pub(crate) fn linger(&mut self) {
        let until = Instant::now() + LINGER_FOR;
        let mut leaving: Vec<Peer> = std::mem::take(&mut self.sockets.links);
        let mut closed = vec![false; self.peers.len()];
        let mut scratch = vec![0; 64 << 10];
        loop {
            leaving.retain(|&to| {
                let Tx::Tcp(tx) = &mut self.peers[to.index()].tx else { return false };
                tx.flush(None);
                let mut reads = (0..DRAIN_READS).map(|_| net::read(tx.socket(), &mut scratch));
                let end = reads.any(|read| matches!(read, Ok(Some(0)) | Err(_)));
                if tx.gathered() == 0 && !std::mem::replace(&mut closed[to.index()], true) {
                    let _ = shutdown(tx.socket(), Shutdown::Write);
                }
                let delivered = barewire_sys::tcp::state(tx.socket()).is_ok_and(|state| state.is_delivered);
                !(delivered
                    || tx.broken().is_some()
                    || (end && tx.gathered() == 0 && is_answered(tx.socket())))
            });
            if leaving.is_empty() || Instant::now() > until {
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Whether the other machine has acknowledged everything.
fn is_answered(socket: &OwnedFd) -> bool {
    barewire_sys::tcp::state(socket).map_or(true, |state| state.unanswered == 0)
}

#[cfg(test)]
mod tests;
