//! The endpoint: one thread's door to its peers.
//!
//! This file opens an endpoint and sends; `progress` receives, `connect` finds and loses peers, `wait` waits.
//!
//! ```
//! use barewire_core::{Config, Endpoint, Ignore, Port, job::Job};
//! let mut jobs = Job::threads(2).unwrap().into_iter();
//! let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
//! let (mut here, mut there) = (open(), open());
//! here.send(there.me(), Port(1), 0, b"across").unwrap();
//! there.wait(&mut Ignore, None, |there, _| there.stats().received_bytes == 6).unwrap();
//! ```

pub(crate) mod outbox;

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use barewire_sys::bell::Bell;
use barewire_sys::fork;
use barewire_sys::ring::RingMemory;
use barewire_sys::wirebuf::{Fill, WireMut};

use crate::at_large::AtLarge;
use crate::config::{self, Config};
use crate::connect::Identity;
use crate::error::{Full, OpenError, SendError};
use crate::expect::Expecting;
use crate::job::{Directory, Job};
use crate::patience::Patience;
use crate::peer::{PeerEntry, PeerState, PeerTable};
use crate::poller::{Poller, Source};
use crate::progress::Inbound;
use crate::provider::datagram::Datagrams;
use crate::provider::pool::Pool;
use crate::provider::shm::{RingRx, RingTx};
use crate::provider::{Class, Rx, Tx, local};
use crate::queue::Queue;
use crate::region::{Exports, Imports, Ops, Serving};
use crate::rounds::Rounds;
use crate::sockets::Sockets;
use crate::stats::Stats;
use crate::wire::{self, Head};
use crate::{Peer, Port};

/// One thread's door to its peers. `Send`, not `Sync`: give each thread its own.
///
/// ```
/// use barewire_core::{Config, Endpoint, Ignore, Port, job::Job};
/// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// endpoint.send(endpoint.me(), Port(1), 0, b"sent by one thread").unwrap();
/// let other = std::thread::spawn(move || endpoint.progress(&mut Ignore, usize::MAX));
/// assert_eq!(other.join().unwrap(), 1, "and taken by another, which has the endpoint now");
/// ```
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) guard: fork::Guard,
    pub(crate) me: Peer,
    pub(crate) peers: PeerTable,
    pub(crate) inbound: Vec<InboundSlot>,
    /// Where the next `progress` begins, so that no peer is always first.
    pub(crate) turn: usize,
    /// When to look at what rings no bell in memory.
    pub(crate) rounds: Rounds,
    pub(crate) expecting: Expecting,
    /// Peers with something in their outbox.
    pub(crate) deferring: Vec<Peer>,
    /// Peers at which a send found no room.
    pub(crate) starving: Vec<Peer>,
    pub(crate) exports: Exports,
    pub(crate) imports: Imports,
    pub(crate) ops: Ops,
    pub(crate) serving: Serving,
    pub(crate) pool: Pool,
    /// Bytes of a ring of ours to a neighbour.
    pub(crate) ring_bytes: usize,
    /// Most bytes of a message by the shuttle to a neighbour.
    pub(crate) cargo_bytes: usize,
    pub(crate) bell: Arc<Bell>,
    pub(crate) dozing: bool,
    /// The launcher asked what we wait for.
    pub(crate) report_wanted: bool,
    /// How long waits spin.
    pub(crate) patience: Patience,
    /// Where this process stands among those who share its processor.
    pub(crate) queue: Queue,
    pub(crate) poller: Poller,
    pub(crate) local_listener: Option<OwnedFd>,
    /// Accepted local connections whose hello has not come yet.
    pub(crate) pending: Vec<crate::connect::Pending>,
    pub(crate) connecting: Vec<Peer>,
    pub(crate) lost: VecDeque<Peer>,
    pub(crate) datagrams: Option<Box<Datagrams>>,
    pub(crate) sockets: Sockets,
    pub(crate) identity: Identity,
    pub(crate) directory: Directory,
    /// What is known beside peers when there is no job.
    pub(crate) at_large: Option<Box<AtLarge>>,
    pub(crate) config: Config,
}

/// A place in the list of peers to receive from; empty while its packets are being handled.
#[derive(Debug)]
pub(crate) struct InboundSlot {
    pub peer: Peer,
    /// Worth a look now: always for rings; for sockets, when they may have something.
    pub ready: bool,
    pub inbound: Option<Box<Inbound>>,
}

/// An endpoint may move to another thread.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Endpoint>();
};

impl Endpoint {
    /// Opens this process's, or thread's, endpoint in a job.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Peer, job::Job};
    /// let mut jobs = Job::threads(2).unwrap().into_iter();
    /// let a = Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
    /// let b = Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
    /// assert_eq!((a.me(), b.me(), a.size()), (Peer(0), Peer(1), 2));
    /// ```
    pub fn open(job: Job, config: Config) -> Result<Endpoint, OpenError> {
        config.check()?;
        let (bell, poller) = Endpoint::doors()?;
        let (size, peers) = (job.size, PeerTable::dense(job.size));
        let identity = Identity::new(job.id, job.key.clone());
        let mut endpoint = Endpoint::assemble(job, config, peers, identity, bell, poller);
        if size > 1 {
            endpoint.listen()?;
        }
        Ok(endpoint)
    }

    /// An endpoint all of whose peers are reached by datagrams.
    pub(crate) fn on_datagrams(
        job: Job,
        config: Config,
        bell: Arc<Bell>,
        poller: Poller,
        datagrams: Datagrams,
    ) -> Endpoint {
        let peers = PeerTable::sparse(job.size);
        let identity = Identity::nowhere(job.id, job.key.clone());
        let mut endpoint = Endpoint::assemble(job, config, peers, identity, bell, poller);
        endpoint.datagrams = Some(Box::new(datagrams));
        if endpoint.is_virtual() {
            endpoint.patience = Patience::none();
        }
        endpoint
    }

    /// What an endpoint waits at.
    pub(crate) fn doors() -> Result<(Arc<Bell>, Poller), OpenError> {
        let socket_error = |what| {
            move |errno: barewire_sys::rustix::io::Errno| OpenError::Socket { what, error: errno.into() }
        };
        let bell = Bell::create()?;
        let poller = Poller::new().map_err(socket_error("an epoll"))?;
        poller.add(bell.fd(), Source::Bell).map_err(socket_error("the doorbell"))?;
        Ok((Arc::new(bell), poller))
    }

    fn assemble(
        job: Job,
        config: Config,
        peers: PeerTable,
        identity: Identity,
        bell: Arc<Bell>,
        poller: Poller,
    ) -> Endpoint {
        Endpoint {
            guard: fork::Guard::new(),
            me: Peer(job.rank),
            peers,
            inbound: Vec::new(),
            turn: 0,
            rounds: Rounds::default(),
            expecting: Expecting::default(),
            deferring: Vec::new(),
            starving: Vec::new(),
            exports: Exports::default(),
            imports: Imports::default(),
            ops: Ops::default(),
            serving: Serving::default(),
            pool: Pool::new(config.pool_bytes_in(&job)),
            ring_bytes: config.ring_bytes_in(&job),
            cargo_bytes: config::cargo_bytes_in(&job),
            bell,
            dozing: false,
            report_wanted: false,
            patience: Patience::new(job.crowded),
            queue: Queue::new(&job),
            poller,
            local_listener: None,
            pending: Vec::new(),
            connecting: Vec::new(),
            lost: VecDeque::new(),
            datagrams: None,
            sockets: Sockets::new(),
            identity,
            directory: job.directory,
            at_large: None,
            config,
        }
    }

    /// The ring to ourselves, on first use: a link that is never used need not be looked at.
    pub(crate) fn connect_to_self(&mut self) -> Result<(), OpenError> {
        let bytes = self.ring_bytes;
        let memory = RingMemory::create(bytes)?;
        let fd =
            memory.fd().try_clone_to_owned().map_err(|error| OpenError::Socket { what: "a ring", error })?;
        let other = RingMemory::open(fd, bytes)?;
        let me = self.me;
        let entry = &mut self.peers[me.index()];
        entry.tx = Tx::Ring(Box::new(RingTx::new(memory, None, self.pool.bytes())));
        entry.state = PeerState::Connected;
        entry.choice = Some("shm: it is this endpoint itself".to_owned());
        entry.refresh_fast();
        self.add_inbound(me, Rx::Ring(RingRx::new(other, None)));
        Ok(())
    }

    fn listen(&mut self) -> Result<(), OpenError> {
        let what = "a local socket";
        if self.config.shm {
            let name = local::name(self.identity.job, self.me.0);
            let listener =
                local::listen(&name).map_err(|errno| OpenError::Socket { what, error: errno.into() })?;
            self.poller
                .add(&listener, Source::LocalListener)
                .map_err(|errno| OpenError::Socket { what, error: errno.into() })?;
            self.local_listener = Some(listener);
        }
        let tcp = self.listen_tcp()?;
        let card = self.identity.card(self.me, self.local_listener.is_some(), tcp);
        self.directory.publish(&card.encode()).map_err(OpenError::Directory)?;
        if let Some(fd) = self.directory.fd() {
            self.poller
                .add(fd, Source::Directory)
                .map_err(|errno| OpenError::Socket { what: "the job's directory", error: errno.into() })?;
        }
        Ok(())
    }

    /// This endpoint's own number.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Peer, job::Job};
    /// let last = Job::threads(3).unwrap().pop().unwrap();
    /// let endpoint = Endpoint::open(last, Config::default()).unwrap();
    /// assert_eq!(endpoint.me(), Peer(2));
    /// ```
    #[inline]
    pub fn me(&self) -> Peer {
        self.me
    }

    /// How many endpoints the job has.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Peer, job::Job};
    /// let endpoint = Endpoint::open(Job::threads(3).unwrap().pop().unwrap(), Config::default()).unwrap();
    /// let next = Peer((endpoint.me().0 + 1) % endpoint.size());
    /// assert_eq!(next, Peer(0), "the third of three is followed by the first");
    /// ```
    #[inline]
    pub fn size(&self) -> u32 {
        self.peers.len() as u32
    }

    /// Sends one short message. [`SendError::Full`] if the receiver cannot hold it now; then nothing was sent.
    /// Over TCP a message that closely follows another waits for the next `progress` or [`Endpoint::flush`], to travel
    /// together with what comes after it.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Port, SendError, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, port, mut sent) = (endpoint.me(), Port(1), 0);
    /// while endpoint.send(me, port, sent, &[7; 1000]).is_ok() {
    ///     sent += 1;
    /// }
    /// assert_eq!(endpoint.send(me, port, sent, &[7; 1000]), Err(SendError::Full));
    /// assert_eq!(endpoint.progress(&mut Ignore, usize::MAX) as u64, sent, "the receiver takes all of them");
    /// assert_eq!(endpoint.send(me, port, sent, &[7; 1000]), Ok(()));
    /// ```
    #[inline(always)]
    pub fn send(&mut self, to: Peer, port: Port, imm: u64, payload: &[u8]) -> Result<(), SendError> {
        self.send_with(to, port, imm, payload.len(), |wire| {
            wire.write(payload);
        })
    }

    /// Sends one short message of `len` bytes that `fill` writes straight into wire memory.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, mut got) = (endpoint.me(), [0; 6]);
    /// endpoint.send_with(me, Port(0), 0, 6, |wire| { wire.write(b"two "); wire.write(b"me"); }).unwrap();
    /// assert_eq!(endpoint.expect(me, Port(0), 0, 6, |mut packet| { packet.read(&mut got); }), Some(6));
    /// assert_eq!(&got, b"two me");
    /// ```
    #[inline(always)]
    pub fn send_with(
        &mut self,
        to: Peer,
        port: Port,
        imm: u64,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        self.send_filled(to, port, imm, len, fill)
    }

    /// [`Endpoint::send_with`] for bytes, or a function as there.
    #[inline(always)]
    pub(crate) fn send_filled(
        &mut self,
        to: Peer,
        port: Port,
        imm: u64,
        len: usize,
        fill: impl Fill,
    ) -> Result<(), SendError> {
        if !self.guard.is_parent() {
            return Err(SendError::Forked);
        }
        if let Some(PeerEntry { fast: true, tx: Tx::Ring(ring), stats, shuttle, .. }) =
            self.peers.get_mut(to.index())
        {
            let shuttle = shuttle.as_deref_mut().and_then(|link| link.way(len, stats));
            if shuttle.is_some() || ring.is_inline(len) {
                let words = (wire::message_w0(port, len), imm, len);
                return match ring.send_message(shuttle, words, Class::Data, fill) {
                    Ok(()) => {
                        stats.count_sent(len);
                        ring.note(len, stats.received);
                        Ok(())
                    }
                    Err(Full) => self.starve(to),
                };
            }
        }
        self.send_message_slowly(to, port, imm, len, fill)
    }

    #[inline(never)]
    fn send_message_slowly(
        &mut self,
        to: Peer,
        port: Port,
        imm: u64,
        len: usize,
        fill: impl Fill,
    ) -> Result<(), SendError> {
        let head = self.message_head(to, port, imm, len)?;
        self.send_packet(to, head, Class::Data, |wire| fill.fill(wire))
    }

    /// The header of a short message, if the peer is there and takes so many bytes in one packet.
    #[inline(always)]
    fn message_head(&mut self, to: Peer, port: Port, imm: u64, len: usize) -> Result<Head, SendError> {
        self.peer_mut(to)?;
        let max = self.message_max(to);
        if len > max {
            return Err(SendError::TooLong { len, max });
        }
        Ok(Head { kind: wire::Kind::Message, flags: 0, port, len: len as u32, w1: imm })
    }

    /// Sends one short message that must not be refused for want of room: an answer that a handler owes. If there is no
    /// room it waits in the outbox, ahead of everything sent later. Whoever uses this bounds how many answers can be owed.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, SendError, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, owed, mut came) = (endpoint.me(), 100, 0);
    /// while endpoint.send(me, Port(1), 0, b"").is_ok() {}
    /// (0..owed).for_each(|_| endpoint.reply(me, Port(2), 0, b"owed").unwrap());
    /// assert!(endpoint.stats().deferred > 0, "some of them found no room");
    /// while came < owed {
    ///     endpoint.progress(&mut |_: &mut Endpoint, p: Incoming<'_>| { came += p.port.0 / 2; Flow::Continue }, usize::MAX);
    /// }
    /// ```
    pub fn reply(&mut self, to: Peer, port: Port, imm: u64, payload: &[u8]) -> Result<(), SendError> {
        self.reply_with(to, port, imm, payload.len(), |wire| {
            wire.write(payload);
        })
    }

    /// [`Endpoint::reply`] with a payload of `len` bytes that `fill` writes.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Flow, Incoming, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (question, answer, mut sum) = (Port(1), Port(2), None);
    /// endpoint.send(endpoint.me(), question, 40, b"").unwrap();
    /// let mut handler = |endpoint: &mut Endpoint, mut packet: Incoming<'_>| {
    ///     if packet.port == question {
    ///         endpoint.reply_with(packet.from, answer, 0, 8, |wire| wire.write_u64(packet.imm + 2)).unwrap();
    ///     } else {
    ///         sum = packet.read_u64();
    ///     }
    ///     Flow::Continue
    /// };
    /// (0..2).for_each(|_| drop(endpoint.progress(&mut handler, usize::MAX)));
    /// assert_eq!(sum, Some(42));
    /// ```
    #[inline]
    pub fn reply_with(
        &mut self,
        to: Peer,
        port: Port,
        imm: u64,
        len: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        if let Some(PeerEntry { fast: true, tx: Tx::Ring(ring), stats, shuttle, .. }) =
            self.peers.get_mut(to.index())
        {
            let shuttle = shuttle.as_deref_mut().and_then(|link| link.way(len, stats));
            if shuttle.is_some() || (ring.is_inline(len) && ring.fits_control(len)) {
                stats.count_sent(len);
                let words = (wire::message_w0(port, len), imm, len);
                return ring.send_message(shuttle, words, Class::Control, fill).map_err(SendError::from);
            }
        }
        let head = self.message_head(to, port, imm, len)?;
        self.send_or_defer(to, head, fill)
    }

    /// Tells a peer a word that answers nothing and that nobody answers. Like [`Endpoint::reply`], but what is a message has the
    /// [shuttle](crate::provider::shuttle) for itself.
    pub(crate) fn tell(&mut self, to: Peer, port: Port, word: u64) -> Result<(), SendError> {
        let head = self.message_head(to, port, word, 0)?;
        let before = self.peers[to.index()].stats.sent;
        let told = self.send_or_defer(to, head, |_| {});
        let PeerEntry { stats, shuttle, .. } = &mut self.peers[to.index()];
        shuttle.iter_mut().for_each(|link| link.overlook(stats.sent - before));
        told
    }

    /// The longest message that [`Endpoint::send`] takes for this peer.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Port, SendError, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (me, max) = (endpoint.me(), endpoint.message_max(endpoint.me()));
    /// let bytes = vec![0; max + 1];
    /// assert_eq!(endpoint.send(me, Port(1), 0, &bytes), Err(SendError::TooLong { len: max + 1, max }));
    /// assert_eq!(endpoint.send(me, Port(1), 0, &bytes[1..]), Ok(()));
    /// ```
    pub fn message_max(&self, to: Peer) -> usize {
        self.peers.get(to.index()).map_or(0, |peer| match (&peer.tx, &self.datagrams) {
            (Tx::Closed, Some(datagrams)) if to != self.me => datagrams.payload_max(),
            (tx, _) => tx.payload_max(),
        })
    }

    /// Whether packets to this peer go through shared memory.
    #[inline]
    pub(crate) fn is_neighbour(&self, peer: Peer) -> bool {
        matches!(self.peers.get(peer.index()), Some(PeerEntry { tx: Tx::Ring(_), .. }))
    }

    /// Whether a message to this peer answers one of its own, so that it may be waited for.
    pub(crate) fn answers(&self, peer: Peer) -> bool {
        let entry = &self.peers[peer.index()];
        entry.shuttle.as_ref().is_some_and(|link| link.is_way(&entry.stats))
    }

    /// How a peer is doing.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Peer, PeerState, Port, job::Job};
    /// # let mut jobs = Job::threads(2).unwrap().into_iter();
    /// # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
    /// let (mut here, mut there, other) = (open(), open(), Peer(1));
    /// assert_eq!(here.peer_state(other), PeerState::Unknown);
    /// there.send(Peer(0), Port(1), 0, b"my only word").unwrap();
    /// drop(there);
    /// here.wait(&mut Ignore, None, |here, _| here.peer_state(other) == PeerState::Left).unwrap();
    /// ```
    pub fn peer_state(&self, peer: Peer) -> PeerState {
        self.peers.get(peer.index()).map_or(PeerState::Unknown, |peer| peer.state.clone())
    }

    /// Whether a peer has left or was lost: nothing can be sent to it, though something of it may still come.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job};
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// assert!(!endpoint.is_gone(endpoint.me()));
    /// ```
    #[inline]
    pub fn is_gone(&self, peer: Peer) -> bool {
        self.peers.get(peer.index()).is_some_and(|entry| entry.is_gone())
    }

    /// Whether the layer above has been told that this peer is gone: nothing more will come of it.
    #[inline]
    pub(crate) fn is_told_lost(&self, peer: Peer) -> bool {
        self.peers.get(peer.index()).is_some_and(|entry| entry.told_lost)
    }

    /// What passed between this endpoint and `peer`.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Peer, Port, job::Job};
    /// let mut endpoint = Endpoint::open(Job::threads(2).unwrap().remove(0), Config::default()).unwrap();
    /// let me = endpoint.me();
    /// endpoint.send(me, Port(1), 0, b"three").unwrap();
    /// endpoint.send(me, Port(1), 0, b"words").unwrap();
    /// endpoint.progress(&mut Ignore, usize::MAX);
    /// let stats = endpoint.peer_stats(me);
    /// assert_eq!((stats.sent, stats.received_bytes, endpoint.peer_stats(Peer(1)).sent), (2, 10, 0));
    /// ```
    pub fn peer_stats(&self, peer: Peer) -> Stats {
        self.peers.get(peer.index()).map_or_else(Stats::default, |peer| {
            let mut stats = peer.stats;
            match &peer.tx {
                Tx::Ring(ring) => stats.rung = ring.rung,
                Tx::Datagram(link) => stats.retransmitted += link.reliable.stats().retransmitted,
                Tx::Closed | Tx::Tcp(_) => {}
            }
            stats
        })
    }

    /// What passed between this endpoint and all its peers.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Peer, Port, job::Job};
    /// # let mut jobs = Job::threads(2).unwrap().into_iter();
    /// # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
    /// let (mut here, _there) = (open(), open());
    /// for peer in [Peer(0), Peer(1), Peer(1)] {
    ///     here.send(peer, Port(1), 0, b"1234").unwrap();
    /// }
    /// assert_eq!((here.stats().sent, here.stats().sent_bytes, here.peer_stats(Peer(1)).sent), (3, 12, 2));
    /// ```
    pub fn stats(&self) -> Stats {
        let mut all = Stats::default();
        (0..self.size()).for_each(|peer| all += self.peer_stats(Peer(peer)));
        all
    }

    /// Asks the launcher to end the whole job with this exit code; the caller should then exit with it. False if nobody
    /// can be asked, because this process was not started by a launcher.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, job::Job};
    /// let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// assert!(!endpoint.abort(3, "nothing left to do"));
    /// ```
    pub fn abort(&mut self, code: i32, message: &str) -> bool {
        self.directory.abort(code, message)
    }

    /// The descriptor to wait on with poll, epoll or an async runtime. Call [`Endpoint::doze`] before waiting.
    ///
    /// ```
    /// use barewire_core::{Config, Endpoint, Ignore, Peer, Port, job::Job};
    /// use barewire_sys::rustix::event::{PollFd, PollFlags, poll};
    /// # let mut jobs = Job::threads(2).unwrap().into_iter();
    /// # let mut open = || Endpoint::open(jobs.next().unwrap(), Config::default()).unwrap();
    /// let (mut here, mut there) = (open(), open());
    /// let sender = std::thread::spawn(move || here.send(Peer(1), Port(1), 0, b"wake up").map(|()| here));
    /// while there.progress(&mut Ignore, usize::MAX) == 0 {
    ///     if there.doze() {
    ///         poll(&mut [PollFd::new(&there.fd(), PollFlags::IN)], None).unwrap();
    ///     }
    /// }
    /// assert!(sender.join().unwrap().is_ok());
    /// ```
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.poller.fd()
    }

    /// The peer's entry, connected or about to be.
    pub(crate) fn peer_mut(&mut self, to: Peer) -> Result<&mut PeerEntry, SendError> {
        if !self.guard.is_parent() {
            return Err(SendError::Forked);
        }
        match self.peers.get(to.index()) {
            None => return Err(SendError::NoSuchPeer(to)),
            Some(peer) if peer.is_gone() => return Err(SendError::Lost(to)),
            Some(PeerEntry { tx: Tx::Closed, .. }) => self.connect(to),
            Some(_) => {}
        }
        let peer = &mut self.peers[to.index()];
        if peer.is_gone() { Err(SendError::Lost(to)) } else { Ok(peer) }
    }

    /// The largest payload worth putting into a packet of this class to `to` now.
    pub(crate) fn packet_room(&mut self, to: Peer, class: Class) -> Result<usize, SendError> {
        self.peer_mut(to)?;
        match self.peers[to.index()].tx.payload_now(&mut self.pool, class) {
            0 => self.starve(to).map(|()| 0),
            room => Ok(room),
        }
    }

    /// Sends one packet of any kind, or says why not.
    pub(crate) fn send_packet(
        &mut self,
        to: Peer,
        head: Head,
        class: Class,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        self.send_opened(to, (head, None), class, fill)
    }

    /// The same, with what opens a long message.
    pub(crate) fn send_opened(
        &mut self,
        to: Peer,
        (head, begin): (Head, Option<wire::Begin>),
        class: Class,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), SendError> {
        self.peer_mut(to)?;
        let peer = &mut self.peers[to.index()];
        if let Tx::Ring(ring) = &mut peer.tx {
            ring.note(head.len as usize, peer.stats.received);
        }
        let sent = match peer.outbox.is_empty() {
            true => peer.tx.send_opened(&mut self.pool, (head, begin), class, fill),
            false => Err(Full),
        };
        match sent {
            Ok(()) => {
                peer.stats.count_sent(head.len as usize);
                if peer.tx.wants_listing() {
                    self.sockets.list(to);
                } else if matches!(peer.tx, Tx::Datagram(_)) {
                    self.transmit_to(to);
                }
                Ok(())
            }
            Err(Full) => self.starve(to),
        }
    }

    /// Notes that a send found no room, so that a sleeper is woken when there is some.
    #[cold]
    #[inline(never)]
    pub(crate) fn starve(&mut self, to: Peer) -> Result<(), SendError> {
        if self.pool.is_short() {
            // Chunks that others are done with lie with the links they went over.
            for peer in self.peers.iter_mut() {
                if let Tx::Ring(ring) = &mut peer.tx {
                    ring.reclaim(&mut self.pool);
                }
            }
        }
        let peer = &mut self.peers[to.index()];
        peer.stats.stalled += 1;
        let freed = match &mut peer.tx {
            Tx::Ring(ring) => ring.freed(),
            Tx::Tcp(tcp) => tcp.freed(),
            Tx::Datagram(link) => link.freed(),
            Tx::Closed => 0,
        };
        if peer.starved_at.replace(freed).is_none() {
            self.starving.push(to);
        }
        Err(SendError::Full)
    }
}
