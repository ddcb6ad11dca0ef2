//! Reliable: packets arrive exactly once and in order over a wire that loses, doubles, reorders and damages
//! them.
//!
//! One [`Reliable`] is one end of one pair and carries both directions. It is a state machine: datagrams that
//! arrived go in through [`on_datagram`](Reliable::on_datagram), datagrams to send come out of
//! [`poll_transmit`](Reliable::poll_transmit), the time is an argument, and [`deadline`](Reliable::deadline)
//! says when to come back if nothing happens. The caller owns the socket and the clock:
//!
//! ```text
//! loop {
//!     for each datagram from this peer   { end.on_datagram(now, bytes) }
//!     while let Some(packet) = end.recv() { use it; dropping it opens the window }
//!     while end.poll_transmit(now, &mut buf) { put buf on the wire }
//!     wait for a datagram, for something to send, or for end.deadline()
//! }
//! ```
//!
//! # What holds
//!
//! - A packet that [`send`](Reliable::send) took comes out of the other end's [`recv`](Reliable::recv) once,
//!   after all earlier ones, or the pair ends in [`State::Dead`].
//! - A receiver that does not consume stops its sender. Nothing is dropped for want of room and memory stays
//!   within the two windows.
//! - No bytes from the wire can make it panic, loop or grow. What fails a check is dropped and counted.
//! - What an earlier incarnation of either end left in the network changes nothing.
//! - When all is delivered and acknowledged both ends fall silent; there is no keep-alive. An idle peer's
//!   death is found by the next send.
//! - In the steady state no packet allocates: buffers are reused.
//!
//! # How
//!
//! Cumulative acknowledgement plus a bitmap of the whole window on any datagram; a time stamp echoed with the
//! time it was held gives exact round trips; loss is found by time after overtaking (`sender.rs`), else by
//! timeouts that back off; NewReno's congestion window (`congestion.rs`); a window in packets, opened by
//! consumption (`receiver.rs`); random session numbers (`session.rs`); CRC-32C over header and payload
//! (`wire.rs`), which has an instruction on every x86-64 and AArch64 server and notices any three flipped
//! bits of contents at any datagram size. It guards against accidents, not against an attacker; sessions of
//! 64 random bits keep out those who cannot see the traffic.
//!
//! The first packet to an unknown peer waits one round trip for its session;
//! [`Reliable::with_peer`] saves that where the sessions were exchanged beforehand.
//!
//! ```
//! use barewire_core::filter::reliable::{Reliable, ReliableConfig};
//! use barewire_core::time::Nanos;
//!
//! let mut a = Reliable::with_peer(ReliableConfig::default(), 1, 2)?;
//! let mut b = Reliable::with_peer(ReliableConfig::default(), 2, 1)?;
//! let mut datagram = Vec::new();
//! a.send(5, |packet| packet.copy_from_slice(b"hello"))?;
//! a.poll_transmit(Nanos::ZERO, &mut datagram); // and the wire loses it
//! let later = a.deadline().expect("no answer has come");
//! a.poll_transmit(later, &mut datagram);
//! b.on_datagram(later, &datagram);
//! assert_eq!(&*b.recv().expect("the second time it came through"), b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod congestion;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod packet;
mod pool;
mod receiver;
mod rtt;
mod sender;
mod session;
mod status;
mod wire;

pub use config::{ConfigError, ReliableConfig};
#[cfg(any(test, fuzzing))]
pub use fuzz::fuzz_datagram;
pub use packet::{Held, Received};
pub use status::{DeadReason, ReliableStats, SendError, State};

use crate::time::Nanos;
use pool::Pool;
use receiver::Receiver;
use sender::Sender;
use session::{Admit, Reply, Session};
use wire::{Datagram, Header, Kind, SACK_WORDS_MAX, Stamp};

/// One end of a reliable pair.
///
/// ```
/// use barewire_core::filter::reliable::{Reliable, ReliableConfig};
/// use barewire_core::time::Nanos;
///
/// let mut a = Reliable::new(ReliableConfig::default(), 0xa)?;
/// let mut b = Reliable::new(ReliableConfig::default(), 0xb)?;
/// a.send(5, |buf| buf.copy_from_slice(b"hello"))?;
///
/// let (mut now, mut wire) = (Nanos::ZERO, Vec::new());
/// while a.unacked() > 0 {
///     while a.poll_transmit(now, &mut wire) {
///         b.on_datagram(now, &wire);
///     }
///     while b.poll_transmit(now, &mut wire) {
///         a.on_datagram(now, &wire);
///     }
///     now += Nanos::from_micros(10);
/// }
/// assert_eq!(&*b.recv().expect("the packet has arrived"), b"hello");
/// assert!(b.recv().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reliable {
    config: ReliableConfig,
    session: Session,
    sender: Sender,
    receiver: Receiver,
    pool: Pool,
    state: State,
    counters: ReliableStats,
    /// The latest time we were told: time does not run backwards in here.
    now: Nanos,
}

impl Reliable {
    /// An end that does not know its peer's session yet and asks for it when it first has something to send.
    ///
    /// `local_session` must be random, 64 bits, and new for every incarnation of this end.
    ///
    /// ```
    /// # use barewire_core::{filter::reliable::{Reliable, ReliableConfig}, time::Nanos};
    /// let mut end = Reliable::new(ReliableConfig::default(), 0xa)?;
    /// let mut datagram = Vec::new();
    /// assert!(!end.poll_transmit(Nanos::ZERO, &mut datagram), "it has nothing to say");
    /// end.send(1, |packet| packet[0] = 7)?;
    /// assert!(end.poll_transmit(Nanos::ZERO, &mut datagram));
    /// assert_eq!((end.stats().probes, end.stats().sent), (1, 0), "first it asks who is there");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration cannot work.
    pub fn new(config: ReliableConfig, local_session: u64) -> Result<Self, ConfigError> {
        Self::with_session(config, Session::new(local_session, None))
    }

    /// An end that was told its peer's session (by the launcher, or in the exchange of addresses) and need
    /// not ask.
    ///
    /// ```
    /// use barewire_core::filter::reliable::{Reliable, ReliableConfig};
    /// use barewire_core::time::Nanos;
    ///
    /// let mut a = Reliable::with_peer(ReliableConfig::default(), 0xa, 0xb)?;
    /// let mut b = Reliable::with_peer(ReliableConfig::default(), 0xb, 0xa)?;
    /// a.send(2, |buf| buf.copy_from_slice(b"hi"))?;
    /// let mut wire = Vec::new();
    /// assert!(a.poll_transmit(Nanos::ZERO, &mut wire));
    /// b.on_datagram(Nanos::ZERO, &wire);
    /// assert_eq!(&*b.recv().expect("no round trip was needed"), b"hi");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration cannot work.
    pub fn with_peer(
        config: ReliableConfig,
        local_session: u64,
        peer_session: u64,
    ) -> Result<Self, ConfigError> {
        Self::with_session(config, Session::new(local_session, Some(peer_session)))
    }

    fn with_session(config: ReliableConfig, session: Session) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            session,
            sender: Sender::new(&config),
            receiver: Receiver::new(config.window_packets, config.ack_delay),
            pool: Pool::new(config.accept_max()),
            state: State::Live,
            counters: ReliableStats::default(),
            now: Nanos::ZERO,
            config,
        })
    }

    /// The largest packet [`send`](Self::send) takes, in bytes.
    ///
    /// ```
    /// # use barewire_core::filter::reliable::{Reliable, ReliableConfig, SendError};
    /// let mut end = Reliable::new(ReliableConfig { mtu: 1000, window_packets: 64, ..ReliableConfig::default() }, 1)?;
    /// assert_eq!(end.payload_max(), 1000 - 56 - 8);
    /// assert_eq!(end.send(end.payload_max() + 1, |_| {}), Err(SendError::TooLong));
    /// assert_eq!(end.send(end.payload_max(), |_| {}), Ok(()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn payload_max(&self) -> usize {
        self.config.payload_max()
    }

    /// Takes a packet of `len` bytes, written by `fill` straight into its slot, where it stays until the peer
    /// has it.
    ///
    /// The bytes `fill` finds are left over from earlier packets of this pair. It is not called if there is
    /// an error. The packet leaves with a later [`poll_transmit`](Self::poll_transmit), when the peer has
    /// room and the network too.
    ///
    /// ```
    /// # use barewire_core::filter::reliable::{Reliable, ReliableConfig, SendError};
    /// let mut end = Reliable::new(ReliableConfig { window_packets: 2, ..ReliableConfig::default() }, 1)?;
    /// end.send(5, |packet| packet.copy_from_slice(b"hello"))?;
    /// end.send(0, |_| {})?;
    /// assert_eq!(end.unacked(), 2);
    /// assert_eq!(end.send(0, |_| panic!("not called")), Err(SendError::Full));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::Full`] while every slot is taken: try again after the next datagram from the peer.
    /// [`SendError::TooLong`] above [`payload_max`](Self::payload_max), [`SendError::Dead`] for ever after
    /// death.
    pub fn send(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), SendError> {
        if self.state != State::Live {
            return Err(SendError::Dead);
        }
        if len > self.payload_max() {
            return Err(SendError::TooLong);
        }
        if self.sender.is_full() {
            return Err(SendError::Full);
        }
        let mut payload = self.pool.take();
        payload.resize(len, 0);
        fill(&mut payload);
        self.sender.push(payload);
        Ok(())
    }

    /// Takes in a datagram that came from the peer's address. Anything is safe to pass.
    ///
    /// ```
    /// # use barewire_core::{filter::reliable::{Reliable, ReliableConfig}, time::Nanos};
    /// # let mut a = Reliable::with_peer(ReliableConfig::default(), 1, 2)?;
    /// # let mut b = Reliable::with_peer(ReliableConfig::default(), 2, 1)?;
    /// # let mut datagram = Vec::new();
    /// a.send(2, |packet| packet.copy_from_slice(b"hi"))?;
    /// a.poll_transmit(Nanos::ZERO, &mut datagram);
    /// b.on_datagram(Nanos::ZERO, &datagram);
    /// b.on_datagram(Nanos::ZERO, &datagram);
    /// datagram[57] ^= 1;
    /// b.on_datagram(Nanos::ZERO, &datagram);
    /// let stats = b.stats();
    /// assert_eq!((stats.received, stats.duplicates, stats.invalid), (1, 1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_datagram(&mut self, now: Nanos, bytes: &[u8]) {
        if self.state != State::Live {
            return;
        }
        let now = self.advance(now);
        let Ok(datagram) = wire::decode(bytes) else {
            self.counters.invalid += 1;
            return;
        };
        match self.session.admit(&datagram.header) {
            Admit::Peer => self.on_peer(now, &datagram),
            Admit::NewPeer => {
                self.sender.on_peer_found(now);
                self.on_peer(now, &datagram);
            }
            Admit::Again => self.receiver.ack_at_once(),
            Admit::Aside => self.counters.foreign += 1,
            Admit::Restarted => self.state = State::Dead(DeadReason::PeerRestarted),
        }
    }

    /// The next packet in order, if it has arrived.
    ///
    /// It is read in its slot. Dropping it consumes it and opens the window; [`leave`](Received::leave) keeps
    /// it for next time; [`hold`](Received::hold) makes it an owned value. What arrived before death can
    /// still be read after.
    ///
    /// ```
    /// # use barewire_core::{filter::reliable::{Reliable, ReliableConfig}, time::Nanos};
    /// # let mut a = Reliable::with_peer(ReliableConfig::default(), 1, 2)?;
    /// # let mut b = Reliable::with_peer(ReliableConfig::default(), 2, 1)?;
    /// # let mut wire = Vec::new();
    /// # a.send(0, |_| {})?;
    /// # a.poll_transmit(Nanos::ZERO, &mut wire);
    /// # b.on_datagram(Nanos::ZERO, &wire);
    /// # drop(b.recv());
    /// # b.poll_transmit(Nanos::MILLI, &mut wire);
    /// # a.on_datagram(Nanos::MILLI, &wire);
    /// let mut datagrams = [Vec::new(), Vec::new()];
    /// for (number, datagram) in (0..).zip(&mut datagrams) {
    ///     a.send(1, |packet| packet[0] = number)?;
    ///     a.poll_transmit(Nanos::MILLI, datagram);
    /// }
    /// b.on_datagram(Nanos::MILLI, &datagrams[1]);
    /// assert!(b.recv().is_none(), "an earlier one is missing");
    /// b.on_datagram(Nanos::MILLI, &datagrams[0]);
    /// assert_eq!(b.recv().unwrap()[..], [0]);
    /// assert_eq!(b.recv().unwrap()[..], [1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv(&mut self) -> Option<Received<'_>> {
        Received::new(&mut self.receiver, &mut self.pool)
    }

    /// Gives back a packet that was [held](Received::hold); the window opens by one and the buffer is used
    /// again.
    ///
    /// ```
    /// # use barewire_core::{filter::reliable::{Reliable, ReliableConfig}, time::Nanos};
    /// # let config = ReliableConfig { window_packets: 1, ..ReliableConfig::default() };
    /// # let mut a = Reliable::with_peer(config.clone(), 1, 2)?;
    /// # let mut b = Reliable::with_peer(config, 2, 1)?;
    /// # let (mut now, mut wire) = (Nanos::ZERO, Vec::new());
    /// # let mut talk = |a: &mut Reliable, b: &mut Reliable| for _ in 0..3 {
    /// #     now += Nanos::from_micros(100);
    /// #     while a.poll_transmit(now, &mut wire) { b.on_datagram(now, &wire) }
    /// #     while b.poll_transmit(now, &mut wire) { a.on_datagram(now, &wire) }
    /// # };
    /// a.send(1, |packet| packet[0] = 1)?;
    /// talk(&mut a, &mut b);
    /// let held = b.recv().expect("the first").hold();
    /// a.send(1, |packet| packet[0] = 2)?;
    /// talk(&mut a, &mut b);
    /// assert!(b.recv().is_none(), "the window is one packet, and that is held");
    /// b.release(held);
    /// talk(&mut a, &mut b);
    /// assert_eq!(b.recv().expect("the second")[..], [2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn release(&mut self, packet: Held) {
        if self.receiver.give_back() {
            self.pool.give(packet.into_bytes());
        }
    }

    /// The next [`poll_transmit`](Self::poll_transmit) says again what has come, whether or not that is due.
    pub(crate) fn acknowledge(&mut self) {
        self.receiver.ack_at_once();
    }

    /// Writes the next datagram for the peer to `out`, replacing what is there; false if nothing is due.
    ///
    /// To be called until it says false: after datagrams, after sends, after consumption, and at the
    /// [`deadline`](Self::deadline). No datagram is longer than the mtu.
    ///
    /// ```
    /// # use barewire_core::{filter::reliable::{Reliable, ReliableConfig}, time::Nanos};
    /// # let mut end = Reliable::with_peer(ReliableConfig::default(), 1, 2)?;
    /// let mut datagram = b"what was there before".to_vec();
    /// end.send(3, |packet| packet.copy_from_slice(b"new"))?;
    /// assert!(end.poll_transmit(Nanos::ZERO, &mut datagram));
    /// assert!(datagram.ends_with(b"new") && datagram.len() <= 1472);
    /// assert!(!end.poll_transmit(Nanos::ZERO, &mut datagram), "that was all");
    /// assert!(datagram.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll_transmit(&mut self, now: Nanos, out: &mut Vec<u8>) -> bool {
        let now = self.advance(now);
        out.clear();
        if self.state != State::Live {
            return false;
        }
        if self.sender.is_given_up(now) {
            self.state = State::Dead(DeadReason::Silent);
            return false;
        }
        if let Some(reply) = self.session.take_reply() {
            self.transmit_reply(now, reply, out);
            return true;
        }
        let Some(peer) = self.session.peer() else {
            let due = self.sender.poll_hello(now);
            if due {
                self.counters.probes += 1;
                wire::encode(&self.header(now, Kind::Hello, 0, 0), &[], &[], out);
            }
            return due;
        };
        self.transmit_data(now, peer, out)
            || self.transmit_probe(now, peer, out)
            || self.transmit_ack(now, peer, out)
    }

    /// When [`poll_transmit`](Self::poll_transmit) next has something to do, if nothing else happens before.
    /// A time that has passed ([`Nanos::ZERO`] for one) means now, `None` means never.
    ///
    /// ```
    /// # use barewire_core::{filter::reliable::{Reliable, ReliableConfig}, time::Nanos};
    /// # let mut end = Reliable::with_peer(ReliableConfig::default(), 1, 2)?;
    /// # let mut datagram = Vec::new();
    /// assert_eq!(end.deadline(), None, "idle");
    /// end.send(1, |packet| packet[0] = 7)?;
    /// assert!(end.poll_transmit(Nanos::ZERO, &mut datagram));
    /// let at = end.deadline().expect("an answer is due");
    /// assert!(at > Nanos::ZERO && end.poll_transmit(at, &mut datagram), "none came: it says so again");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        if self.state != State::Live {
            return None;
        }
        if self.session.is_due() {
            return Some(Nanos::ZERO);
        }
        if self.session.peer().is_none() {
            return [self.sender.hello_at(), self.sender.give_up_at()].into_iter().flatten().min();
        }
        [self.sender.deadline(), self.receiver.deadline()].into_iter().flatten().min()
    }

    /// Whether the pair still works.
    ///
    /// ```
    /// # use barewire_core::{filter::reliable::{DeadReason, Reliable, ReliableConfig, State}, time::Nanos};
    /// # let mut end = Reliable::with_peer(ReliableConfig::default(), 1, 2)?;
    /// # let mut datagram = Vec::new();
    /// end.send(1, |packet| packet[0] = 7)?;
    /// let mut now = Nanos::ZERO;
    /// while end.state() == State::Live {
    ///     while end.poll_transmit(now, &mut datagram) {} // nobody gets these
    ///     now = end.deadline().unwrap_or(now);
    /// }
    /// assert_eq!(end.state(), State::Dead(DeadReason::Silent));
    /// assert!(now >= ReliableConfig::default().dead_after);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Packets taken by [`send`](Self::send) that are not known to have arrived; 0 means that all is
    /// delivered.
    ///
    /// ```
    /// # use barewire_core::{filter::reliable::{Reliable, ReliableConfig}, time::Nanos};
    /// # let mut a = Reliable::with_peer(ReliableConfig::default(), 1, 2)?;
    /// # let mut b = Reliable::with_peer(ReliableConfig::default(), 2, 1)?;
    /// # let mut wire = Vec::new();
    /// a.send(1, |packet| packet[0] = 7)?;
    /// a.poll_transmit(Nanos::ZERO, &mut wire);
    /// b.on_datagram(Nanos::ZERO, &wire);
    /// assert_eq!(a.unacked(), 1, "it has arrived, but nobody has said so");
    /// b.poll_transmit(Nanos::MILLI, &mut wire);
    /// a.on_datagram(Nanos::MILLI, &wire);
    /// assert_eq!(a.unacked(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn unacked(&self) -> usize {
        self.sender.unacked()
    }

    /// Since when the peer has owed us an answer; `None` while it owes none. A watchdog can call the peer
    /// suspect long before it is dead.
    ///
    /// ```
    /// # use barewire_core::{filter::reliable::{Reliable, ReliableConfig}, time::Nanos};
    /// # let mut end = Reliable::with_peer(ReliableConfig::default(), 1, 2)?;
    /// end.send(1, |packet| packet[0] = 7)?;
    /// assert_eq!(end.unanswered_since(), None, "nothing has left yet");
    /// end.poll_transmit(Nanos::SECOND, &mut Vec::new());
    /// assert_eq!(end.unanswered_since(), Some(Nanos::SECOND));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn unanswered_since(&self) -> Option<Nanos> {
        self.sender.unanswered_since()
    }

    /// The session of the peer, once it is known.
    ///
    /// ```
    /// # use barewire_core::{filter::reliable::{Reliable, ReliableConfig}, time::Nanos};
    /// let mut asker = Reliable::new(ReliableConfig::default(), 0xa)?;
    /// let mut asked = Reliable::new(ReliableConfig::default(), 0xb)?;
    /// # let mut wire = Vec::new();
    /// asker.send(1, |packet| packet[0] = 7)?;
    /// asker.poll_transmit(Nanos::ZERO, &mut wire);
    /// asked.on_datagram(Nanos::ZERO, &wire);
    /// assert_eq!(asker.peer_session(), None);
    /// asked.poll_transmit(Nanos::ZERO, &mut wire);
    /// asker.on_datagram(Nanos::ZERO, &wire);
    /// assert_eq!(asker.peer_session(), Some(0xb));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn peer_session(&self) -> Option<u64> {
        self.session.peer()
    }

    /// What has happened so far, and where things stand.
    ///
    /// ```
    /// # use barewire_core::{filter::reliable::{Reliable, ReliableConfig}, time::Nanos};
    /// # let mut end = Reliable::with_peer(ReliableConfig::default(), 1, 2)?;
    /// # let mut datagram = Vec::new();
    /// end.send(1, |packet| packet[0] = 7)?;
    /// end.poll_transmit(Nanos::ZERO, &mut datagram);
    /// end.poll_transmit(end.deadline().unwrap(), &mut datagram);
    /// let stats = end.stats();
    /// assert_eq!((stats.sent, stats.retransmitted, stats.in_flight, stats.rtt), (2, 1, 1, None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> ReliableStats {
        ReliableStats {
            rtt: self.sender.rtt(),
            congestion_window: self.sender.congestion_window(),
            in_flight: self.sender.in_flight(),
            buffers: self.pool.made(),
            ..self.counters
        }
    }

    fn advance(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        self.now
    }

    fn on_peer(&mut self, now: Nanos, datagram: &Datagram<'_>) {
        let (header, payload) = (&datagram.header, datagram.payload);
        let too_long = payload.len() > self.config.accept_max();
        if too_long || self.sender.on_ack(now, datagram, &mut self.pool).is_err() {
            self.counters.invalid += 1;
            return;
        }
        match header.kind {
            Kind::Data => {
                let arrival = self.receiver.on_data(now, header.stamp, header.seq, payload, &mut self.pool);
                self.counters.count(arrival);
            }
            Kind::Probe => self.receiver.on_probe(now, header.stamp),
            Kind::Hello | Kind::Ack | Kind::Reset => {}
        }
    }

    fn transmit_reply(&mut self, now: Nanos, reply: Reply, out: &mut Vec<u8>) {
        let header = match reply {
            Reply::Greet { to } => self.header(now, Kind::Ack, to, 0),
            Reply::Refuse { to, refused } => self.header(now, Kind::Reset, to, refused),
        };
        self.counters.acks += 1;
        wire::encode(&header, &[], &[], out);
    }

    fn transmit_data(&mut self, now: Nanos, peer: u64, out: &mut Vec<u8>) -> bool {
        self.sender.on_time(now);
        if !self.sender.has_packet() {
            return false;
        }
        let mut header = self.header(now, Kind::Data, peer, 0);
        let mut words = [0; SACK_WORDS_MAX];
        let used = self.receiver.sack(&mut words);
        let Some(packet) = self.sender.next_packet(now) else { return false };
        header.seq = packet.seq;
        self.counters.sent += 1;
        self.counters.retransmitted += u64::from(packet.again);
        wire::encode(&header, &words[..used], packet.payload, out);
        self.receiver.on_ack_sent();
        true
    }

    fn transmit_probe(&mut self, now: Nanos, peer: u64, out: &mut Vec<u8>) -> bool {
        let due = self.session.take_doubt() || self.sender.poll_probe(now);
        if due {
            self.counters.probes += 1;
            self.transmit_control(now, Kind::Probe, peer, out);
        }
        due
    }

    fn transmit_ack(&mut self, now: Nanos, peer: u64, out: &mut Vec<u8>) -> bool {
        let due = self.receiver.poll_ack(now);
        if due {
            self.counters.acks += 1;
            self.transmit_control(now, Kind::Ack, peer, out);
        }
        due
    }

    fn transmit_control(&mut self, now: Nanos, kind: Kind, peer: u64, out: &mut Vec<u8>) {
        let mut words = [0; SACK_WORDS_MAX];
        let used = self.receiver.sack(&mut words);
        wire::encode(&self.header(now, kind, peer, 0), &words[..used], &[], out);
        self.receiver.on_ack_sent();
    }

    fn header(&self, now: Nanos, kind: Kind, dst: u64, seq: u64) -> Header {
        Header {
            kind,
            src: self.session.local(),
            dst,
            seq,
            ack: self.receiver.next(),
            window: self.receiver.window(),
            stamp: Stamp::of(now),
            echo: self.receiver.echo(now),
        }
    }
}
