//! What an endpoint knows about one peer.

use std::collections::VecDeque;

use crate::provider::Tx;
use crate::stats::Stats;
use crate::wire::{Card, Head};

/// How a peer is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerState {
    /// Nothing has been sent to it yet.
    Unknown,
    /// Being looked up or connected to.
    Connecting,
    /// Connected.
    Connected,
    /// It closed its endpoint in good order.
    Left,
    /// It is gone without a word.
    Lost(String),
}

/// One peer's links and counters.
#[derive(Debug)]
pub(crate) struct PeerEntry {
    pub tx: Tx,
    pub state: PeerState,
    /// Set while a plain short message may go straight into a ring: connected by ring, nothing waiting in the outbox.
    pub fast: bool,
    /// Answers and control packets that found no room, in order.
    pub outbox: VecDeque<(Head, Vec<u8>)>,
    /// A send found no room when this many lines had been given back: whoever sleeps meanwhile wants to be woken.
    pub starved_at: Option<u64>,
    pub next_stream: u32,
    pub card: Option<Card>,
    /// When we began to connect, to give up in time.
    pub since: Option<std::time::Instant>,
    pub stats: Stats,
    /// Which wire leads there, and why.
    pub choice: Option<String>,
    /// The layer above knows that it is gone.
    pub told_lost: bool,
}

impl PeerEntry {
    pub fn new() -> PeerEntry {
        PeerEntry {
            tx: Tx::Closed,
            state: PeerState::Unknown,
            fast: false,
            outbox: VecDeque::new(),
            starved_at: None,
            next_stream: 0,
            card: None,
            since: None,
            stats: Stats::default(),
            choice: None,
            told_lost: false,
        }
    }

    pub fn is_gone(&self) -> bool {
        matches!(self.state, PeerState::Left | PeerState::Lost(_))
    }

    /// Recomputes whether the short way is open.
    pub fn refresh_fast(&mut self) {
        self.fast = matches!(self.tx, Tx::Ring(_)) && self.outbox.is_empty() && !self.is_gone();
    }
}
