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
///
/// ```
#[doc = include_str!("launcher.md")]
/// let (mut ranks, launcher) = launch(2);
/// ranks[0].request(1)?;
/// ranks[1].publish(b"at port 4")?;
/// assert_eq!(next(&mut ranks[0]), Event::Card { rank: 1, bytes: b"at port 4".to_vec() });
/// # Ok::<(), BootError>(())
/// ```
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
///
/// ```
#[doc = include_str!("launcher.md")]
/// let (mut ranks, _launcher) = launch(1);
/// ranks[0].publish(b"mine")?;
/// ranks[0].request(0)?;
/// match next(&mut ranks[0]) {
///     Event::Card { rank, bytes } => assert_eq!((rank, &bytes[..]), (0, &b"mine"[..])),
///     Event::Lost { rank, reason } => panic!("rank {rank}: {reason}"),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), BootError>(())
/// ```
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
///
/// ```
/// use barewire_core::boot::{Layout, Spec};
/// let spec = Spec { rank: 1, size: 3, layout: Layout::new([(0, 2), (1, 1)]), host_name: "ada".into() };
/// assert_eq!(spec.layout.host_of(2), Some(1), "rank 2 is elsewhere");
/// assert!(spec.local_ranks().eq([0, 1]));
/// ```
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
    ///
    /// ```
    /// # use barewire_core::boot::{Layout, Spec};
    /// let layout = Layout::new([(0, 1), (1, 1), (0, 1)]);
    /// let spec = Spec { rank: 2, size: 3, layout, host_name: "ada".into() };
    /// let place = spec.local_ranks().position(|rank| rank == spec.rank);
    /// assert_eq!(place, Some(1), "the second of its host");
    /// ```
    pub fn local_ranks(&self) -> impl Iterator<Item = u32> + '_ {
        let host = self.layout.host_of(self.rank).unwrap_or(u32::MAX);
        self.layout.ranks_on(host)
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
    ///
    /// ```
    #[doc = include_str!("launcher.md")]
    /// let (mut ranks, _launcher) = launch(1);
    /// let refused = ranks[0].publish(&[0; 2000]);
    /// assert!(matches!(refused, Err(BootError::CardTooLong { len: 2000, max: 1024 })));
    /// ranks[0].publish(b"short")?;
    /// # ranks[0].request(0)?;
    /// # assert_eq!(next(&mut ranks[0]), Event::Card { rank: 0, bytes: b"short".to_vec() });
    /// # Ok::<(), BootError>(())
    /// ```
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
    ///
    /// ```
    #[doc = include_str!("launcher.md")]
    /// let (mut ranks, _launcher) = launch(2);
    /// ranks[1].request(0)?;
    /// assert_eq!(ranks[1].poll()?, None, "rank 0 has not published its card yet");
    /// ranks[0].publish(b"late")?;
    /// assert_eq!(next(&mut ranks[1]), Event::Card { rank: 0, bytes: b"late".to_vec() });
    /// assert!(matches!(ranks[1].request(2), Err(BootError::NoSuchRank { rank: 2, size: 2 })));
    /// # Ok::<(), BootError>(())
    /// ```
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
    ///
    /// ```
    #[doc = include_str!("launcher.md")]
    /// let (mut ranks, _launcher) = launch(1);
    /// assert_eq!(ranks[0].poll()?, None, "nothing was asked for");
    /// ranks[0].publish(b"mine")?;
    /// ranks[0].request(0)?;
    /// let event = loop {
    ///     if let Some(event) = ranks[0].poll()? {
    ///         break event;
    ///     }
    ///     thread::yield_now();
    /// };
    /// assert!(matches!(event, Event::Card { rank: 0, .. }));
    /// # Ok::<(), BootError>(())
    /// ```
    pub fn poll(&mut self) -> Result<Option<Event>, BootError> {
        match &mut self.line {
            Line::Wire(line) => line.poll(),
            Line::Pmi(line) => line.poll(),
            Line::Pmix(line) => Ok(line.poll()),
        }
    }

    /// Readable when something came after [`poll`](Self::poll) last returned `None`; there is none if nothing comes unasked.
    ///
    /// ```
    #[doc = include_str!("launcher.md")]
    /// use barewire_sys::rustix::event::{PollFd, PollFlags, poll};
    /// let (mut ranks, _launcher) = launch(1);
    /// assert_eq!(ranks[0].poll()?, None);
    /// ranks[0].publish(b"mine")?;
    /// ranks[0].request(0)?;
    /// let line = ranks[0].fd().expect("our launcher speaks unasked");
    /// poll(&mut [PollFd::new(&line, PollFlags::IN)], None).unwrap();
    /// assert!(matches!(next(&mut ranks[0]), Event::Card { .. }));
    /// # Ok::<(), BootError>(())
    /// ```
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.line {
            Line::Wire(line) => Some(line.fd()),
            Line::Pmi(line) => Some(line.fd()),
            Line::Pmix(_) => None,
        }
    }

    /// Waits until all ranks are here.
    ///
    /// ```
    #[doc = include_str!("launcher.md")]
    /// let (ranks, _launcher) = launch(2);
    /// let threads = ranks.into_iter().map(|mut rank| thread::spawn(move || rank.barrier(Duration::from_secs(60))));
    /// assert!(threads.collect::<Vec<_>>().into_iter().all(|thread| thread.join().unwrap().is_ok()));
    ///
    /// let (mut ranks, _launcher) = launch(2);
    /// let alone = ranks[0].barrier(Duration::from_millis(1));
    /// assert!(matches!(alone, Err(BootError::Timeout { .. })), "rank 1 is elsewhere");
    /// ```
    pub fn barrier(&mut self, timeout: Duration) -> Result<(), BootError> {
        match &mut self.line {
            Line::Wire(line) => line.barrier(timeout),
            Line::Pmi(line) => line.barrier(timeout),
            Line::Pmix(line) => line.barrier(timeout),
        }
    }

    /// Ends the whole job with this status; the caller should then exit.
    ///
    /// ```
    #[doc = include_str!("launcher.md")]
    /// let (mut ranks, launcher) = launch(1);
    /// ranks[0].abort(7, "no convergence");
    /// drop(ranks);
    /// let notices = launcher.join().unwrap();
    /// assert!(notices.contains(&Notice::Abort { code: 7, message: "no convergence".into() }));
    /// ```
    pub fn abort(&mut self, code: i32, message: &str) {
        match &mut self.line {
            Line::Wire(line) => line.abort(code, message),
            Line::Pmi(line) => line.abort(code, message),
            Line::Pmix(line) => line.abort(code, message),
        }
    }

    /// Tells the launcher what this rank waits for. Other launchers are not told.
    ///
    /// ```
    #[doc = include_str!("launcher.md")]
    /// let (mut ranks, launcher) = launch(1);
    /// ranks[0].report_stuck("recv from 3");
    /// drop(ranks);
    /// assert!(launcher.join().unwrap().contains(&Notice::Stuck("recv from 3".into())));
    /// ```
    pub fn report_stuck(&mut self, text: &str) {
        if let Line::Wire(line) = &mut self.line {
            line.report_stuck(text);
        }
    }

    /// Tells the launcher which wires this rank uses: a line for each, `why TAB ranks`, such as `shm: same host TAB 1-3,7`.
    /// Other launchers are not told.
    ///
    /// ```
    #[doc = include_str!("launcher.md")]
    /// let (mut ranks, launcher) = launch(1);
    /// ranks[0].report_wires("shm: same host\t1-3,7");
    /// drop(ranks);
    /// assert!(launcher.join().unwrap().contains(&Notice::Wires("shm: same host\t1-3,7".into())));
    /// ```
    pub fn report_wires(&mut self, text: &str) {
        if let Line::Wire(line) = &mut self.line {
            line.report_wires(text);
        }
    }

    /// Where this rank and the others are.
    ///
    /// ```
    #[doc = include_str!("launcher.md")]
    /// let (ranks, _launcher) = launch(3);
    /// let spec = ranks[2].spec();
    /// assert_eq!((spec.rank, spec.size, &spec.host_name[..]), (2, 3, "here"));
    /// ```
    pub fn spec(&self) -> &Spec {
        &self.spec
    }
}
