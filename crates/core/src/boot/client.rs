//! A rank's line to whoever started it.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::message::{CARD_BYTES_MAX, LostReason};
use super::pmi::client::PmiClient;
use super::pmix::PmixClient;
use super::wire_client::WireClient;
use super::{BootError, Layout};

/// A rank's line to its launcher.
///
/// Only [`barrier`](Self::barrier) ever waits, and under other launchers [`publish`](Self::publish) and, with PMIx,
/// [`request`](Self::request).
#[derive(Debug)]
pub struct Client {
    line: Line,
    spec: Spec,
}

#[derive(Debug)]
enum Line {
    Wire(WireClient),
    Pmi(Box<PmiClient>),
    Pmix(Box<PmixClient>),
}

/// What a rank hears from its launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The card asked for.
    Card {
        /// Whose.
        rank: u32,
        /// The card, as it was published.
        bytes: Vec<u8>,
    },
    /// A rank is gone; it comes back only if it [`Left`](LostReason::Left).
    Lost {
        /// Which.
        rank: u32,
        /// Why.
        reason: LostReason,
    },
    /// The launcher asks what this rank waits for; answer with [`Client::report_stuck`].
    Report,
    /// The launcher asks which wires this rank uses; answer with [`Client::report_wires`].
    Explain,
}

/// Where this rank is, and where the others are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// This rank.
    pub rank: u32,
    /// The number of ranks.
    pub size: u32,
    /// Which rank is on which host.
    pub layout: Layout,
    /// What people call this host.
    pub host_name: String,
}

impl Spec {
    /// The ranks on this host, ascending.
    pub fn local_ranks(&self) -> impl Iterator<Item = u32> + '_ {
        let host = self.layout.host_of(self.rank).unwrap_or(u32::MAX);
        self.layout.ranks_on(host)
    }

    /// Whether `rank` is on this host.
    pub fn is_local(&self, rank: u32) -> bool {
        let host = self.layout.host_of(self.rank);
        host.is_some() && self.layout.host_of(rank) == host
    }
}

impl Client {
    pub(super) fn wire(line: WireClient, spec: Spec) -> Self {
        Self { line: Line::Wire(line), spec }
    }

    pub(super) fn pmi(line: PmiClient, spec: Spec) -> Self {
        Self { line: Line::Pmi(Box::new(line)), spec }
    }

    pub(super) fn pmix(line: PmixClient, spec: Spec) -> Self {
        Self { line: Line::Pmix(Box::new(line)), spec }
    }

    /// Makes this rank's address card known. Under PMI and PMIx all ranks do this together.
    pub fn publish(&mut self, card: &[u8]) -> Result<(), BootError> {
        if card.len() > CARD_BYTES_MAX {
            return Err(BootError::CardTooLong { len: card.len(), max: CARD_BYTES_MAX });
        }
        match &mut self.line {
            Line::Wire(line) => line.publish(card),
            Line::Pmi(line) => line.publish(card),
            Line::Pmix(line) => line.publish(card),
        }
    }

    /// Asks for a rank's card, which comes as an [`Event::Card`] once it is published.
    pub fn request(&mut self, rank: u32) -> Result<(), BootError> {
        if rank >= self.spec.size {
            return Err(BootError::NoSuchRank { rank, size: self.spec.size });
        }
        match &mut self.line {
            Line::Wire(line) => line.request(rank),
            Line::Pmi(line) => line.request(rank),
            Line::Pmix(line) => line.request(rank),
        }
    }

    /// The next event, if there is one.
    pub fn poll(&mut self) -> Result<Option<Event>, BootError> {
        match &mut self.line {
            Line::Wire(line) => line.poll(),
            Line::Pmi(line) => line.poll(),
            Line::Pmix(line) => Ok(line.poll()),
        }
    }

    /// Readable when something came after [`poll`](Self::poll) last returned `None`; there is none if nothing comes unasked.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.line {
            Line::Wire(line) => Some(line.fd()),
            Line::Pmi(line) => Some(line.fd()),
            Line::Pmix(_) => None,
        }
    }

    /// Waits until all ranks are here.
    pub fn barrier(&mut self, timeout: Duration) -> Result<(), BootError> {
        match &mut self.line {
            Line::Wire(line) => line.barrier(timeout),
            Line::Pmi(line) => line.barrier(timeout),
            Line::Pmix(line) => line.barrier(timeout),
        }
    }

    /// Ends the whole job with this status; the caller should then exit.
    pub fn abort(&mut self, code: i32, message: &str) {
        match &mut self.line {
            Line::Wire(line) => line.abort(code, message),
            Line::Pmi(line) => line.abort(code, message),
            Line::Pmix(line) => line.abort(code, message),
        }
    }

    /// Tells the launcher what this rank waits for. Other launchers are not told.
    pub fn report_stuck(&mut self, text: &str) {
        if let Line::Wire(line) = &mut self.line {
            line.report_stuck(text);
        }
    }

    /// Tells the launcher which wires this rank uses: a line for each, `why TAB ranks`, such as `shm: same host TAB 1-3,7`.
    /// Other launchers are not told.
    pub fn report_wires(&mut self, text: &str) {
        if let Line::Wire(line) = &mut self.line {
            line.report_wires(text);
        }
    }

    /// Where this rank and the others are.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }
}
