//! Names of a node's things, what happens to them, and the words for what went wrong.

use barewire_core::region::RegionError;
use barewire_core::{Peer, SendError, WaitError};

use crate::slab::Slot;

/// A buffer of ours that others may import.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// let export: Export = node.export(&buffer, 1, Who::Anyone).unwrap();
/// assert!(node.unexport(export).is_ok() && node.unexport(export).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Export(pub(super) Slot);

/// A buffer of somebody else's that we may write to: the *proxy*.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// node.export(&buffer, 1, Who::Anyone).unwrap();
/// let proxy: Import = node.import(me, 1, None).unwrap();
/// let transfer = node.send(proxy, 0, (&Memory::private(1), 0, 1), Notify::Quiet).unwrap();
/// assert_eq!(node.finish(transfer, None), Ok(()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Import(pub(super) Slot);

/// A deliberate update under way.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
/// # let proxy = node.import(me, 1, None).unwrap();
/// # let data = Memory::private(10);
/// # data.write(0, b"0123456789");
/// let transfers: Vec<Transfer> =
///     (0..5).map(|at| node.send(proxy, at, (&data, at, 1), Notify::Quiet).unwrap()).collect();
/// for transfer in transfers {
///     node.finish(transfer, None).unwrap();
/// }
/// let mut there = [0; 5];
/// buffer.read(0, &mut there);
/// assert_eq!(&there, b"01234");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transfer(pub(super) Slot);

/// Local memory whose writes appear in an imported buffer by themselves.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
/// # let proxy = node.import(me, 1, None).unwrap();
/// # let data = Memory::private(10);
/// # data.write(0, b"0123456789");
/// let binding: Binding = node.bind(proxy, (0, 50), std::time::Duration::from_millis(1)).unwrap();
/// node.unbind(binding).unwrap();
/// assert_eq!(node.write(binding, 0, b"late"), Err(TransferError::NoSuch));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Binding(pub(super) Slot);

/// A place to which a transfer is re-aimed.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// # let export = node.export_with(&buffer, 1, Who::Anyone, ExportOptions { redirectable: true }).unwrap();
/// # let proxy = node.import(me, 1, None).unwrap();
/// # let place = Memory::shared(10).unwrap();
/// let redirection: Redirection = node.redirect(export, me, (&place, 0, 10)).unwrap();
/// assert_eq!(node.redirect_done(redirection), None); // nobody has sent yet
/// node.send(proxy, 0, (&Memory::private(4), 0, 4), Notify::Quiet).unwrap();
/// assert_eq!(node.redirected(redirection, None).unwrap().len, 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Redirection(pub(super) Slot);

/// What is special about an exported buffer.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// let plain = node.export_with(&buffer, 1, Who::Anyone, ExportOptions::default()).unwrap();
/// let refused = node.redirect(plain, me, (&Memory::shared(8).unwrap(), 0, 8));
/// assert_eq!(refused, Err(RedirectError::NotRedirectable));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// Transfers to it can be re-aimed ([`Vmmc::redirect`](super::Vmmc::redirect)). Every peer can then import it only once.
    pub redirectable: bool,
}

/// Whether a transfer is told to the owner.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
/// # let proxy = node.import(me, 1, None).unwrap();
/// # let data = Memory::private(10);
/// # data.write(0, b"0123456789");
/// let (tell, told) = std::sync::mpsc::channel();
/// node.set_notification(export, move |arrival| tell.send(arrival.len).unwrap()).unwrap();
/// node.send(proxy, 0, (&data, 0, 3), Notify::Quiet).unwrap();
/// node.send(proxy, 0, (&data, 0, 4), Notify::Tell).unwrap();
/// let first = node.wait("word", None, |_| told.try_recv().ok()).unwrap();
/// assert_eq!(first, 4); // of the other nobody is told
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notify {
    /// Nobody is told: the data is there, and that is all.
    #[default]
    Quiet,
    /// The export's notification handler runs at the owner, after the data is in place.
    Tell,
}

/// A transfer that has arrived in a buffer of ours.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
/// # let proxy = node.import(me, 1, None).unwrap();
/// # let data = Memory::private(10);
/// # data.write(0, b"0123456789");
/// let (tell, told) = std::sync::mpsc::channel();
/// node.set_notification(export, move |arrival| tell.send(*arrival).unwrap()).unwrap();
/// node.send(proxy, 30, (&data, 0, 5), Notify::Tell).unwrap();
/// let arrival = node.wait("word", None, |_| told.try_recv().ok()).unwrap();
/// assert_eq!((arrival.export, arrival.from, arrival.offset, arrival.len), (export, me, 30, 5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The buffer.
    pub export: Export,
    /// Who wrote.
    pub from: Peer,
    /// Where in the buffer.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
}

/// How a redirection ended.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// # let export = node.export_with(&buffer, 1, Who::Anyone, ExportOptions { redirectable: true }).unwrap();
/// # let proxy = node.import(me, 1, None).unwrap();
/// # let place = Memory::shared(10).unwrap();
/// let redirection = node.redirect(export, me, (&place, 0, 10)).unwrap();
/// while node.poll() > 0 {} // the sender hears of it
/// node.send(proxy, 0, (&Memory::private(6), 0, 6), Notify::Quiet).unwrap();
/// let Redirected { len, copies, .. } = node.redirected(redirection, None).unwrap();
/// assert_eq!((len, copies), (6, 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirected {
    /// Bytes that came.
    pub len: u64,
    /// Copies made here: none if the transfer knew of the redirection in time, one if not.
    pub copies: u32,
}

/// What happened to an import.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
/// # let proxy = node.import(me, 1, None).unwrap();
/// # let data = Memory::private(10);
/// # data.write(0, b"0123456789");
/// node.unexport(export).unwrap();
/// let news: Invalidated = node.wait("the news", None, Vmmc::next_event).unwrap();
/// assert_eq!((news.import, news.peer, news.why), (proxy, me, Why::Unexported));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalidated {
    /// Which.
    pub import: Import,
    /// Whose buffer it was.
    pub peer: Peer,
    /// Why it is of no use any more.
    pub why: Why,
}

/// Why an import became invalid.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
/// # let proxy = node.import(me, 1, None).unwrap();
/// # let data = Memory::private(10);
/// # data.write(0, b"0123456789");
/// node.unexport(export).unwrap();
/// node.wait("the news", None, Vmmc::next_event).unwrap();
/// let refused = node.send(proxy, 0, (&data, 0, 1), Notify::Quiet);
/// assert_eq!(refused, Err(TransferError::Invalid(Why::Unexported)));
/// assert_eq!(Why::PeerLost.to_string(), "its owner is gone");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// Its owner unexported the buffer.
    #[error("its owner unexported it")]
    Unexported,
    /// Its owner is gone. When it is back, import the buffer again.
    #[error("its owner is gone")]
    PeerLost,
}

/// Why a buffer was not exported, or something of ours not found.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// node.export(&buffer, 7, Who::Anyone).unwrap();
/// let twice = node.export(&buffer, 7, Who::Anyone).unwrap_err();
/// assert_eq!(twice.to_string(), "another buffer is exported under number 7");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// Another buffer has this number.
    #[error("another buffer is exported under number {0}")]
    NumberTaken(u32),
    /// It was unexported or unimported before, or is another node's.
    #[error("this node has no such export, import, binding or redirection")]
    NoSuch,
    /// A node has at most a million of each.
    #[error("a node has at most a million of each kind")]
    TooMany,
    /// The core does not export it.
    #[error(transparent)]
    Core(#[from] barewire_core::region::ExportError),
}

/// Why a buffer was not imported.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// use barewire::core::Peer;
/// node.export(&buffer, 1, Who::Only(vec![Peer(9)])).unwrap(); // not for us
/// assert_eq!(node.import(me, 1, None), Err(ImportError::Denied));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The peer has exported nothing under this number.
    #[error("nothing is exported under this number")]
    NotExported,
    /// The owner does not let us.
    #[error("the owner does not let us import it")]
    Denied,
    /// A buffer whose transfers can be re-aimed is imported once by each peer.
    #[error("it can be re-aimed, so each peer imports it only once")]
    Twice,
    /// There is no such import.
    #[error("this node has no such import")]
    NoSuch,
    /// It became invalid.
    #[error("the import is invalid: {0}")]
    Invalid(Why),
    /// A node has at most a million imports, and at most 4096 of one buffer.
    #[error("a node has at most a million imports, and 4096 of one buffer")]
    TooMany,
    /// The owner is gone, or there is no such peer.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The wait ended first.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

/// Why bytes were not transferred. None of them was, unless the peer was lost meanwhile.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// # let export = node.export(&buffer, 1, Who::Anyone).unwrap();
/// # let proxy = node.import(me, 1, None).unwrap();
/// # let data = Memory::private(10);
/// # data.write(0, b"0123456789");
/// assert_eq!(node.send(proxy, 0, (&data, 5, 6), Notify::Quiet), Err(TransferError::SourceRange));
/// assert_eq!(node.send(proxy, 95, (&data, 0, 6), Notify::Quiet), Err(TransferError::OutOfRange));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// There is no such import, binding or transfer.
    #[error("this node has no such import, binding or transfer")]
    NoSuch,
    /// The import is not valid yet: its owner has not answered.
    #[error("the owner has not answered yet")]
    NotYet,
    /// The import was invalidated.
    #[error("the import is invalid: {0}")]
    Invalid(Why),
    /// The bytes would not all lie in the buffer.
    #[error("the bytes do not all lie in the buffer")]
    OutOfRange,
    /// The bytes do not all lie in their source.
    #[error("the bytes do not all lie in their source")]
    SourceRange,
    /// The owner refused, or the core.
    #[error(transparent)]
    Refused(RegionError),
    /// A node has at most a million of each.
    #[error("a node has at most a million of each kind")]
    TooMany,
    /// The wait ended first.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

impl From<RegionError> for TransferError {
    fn from(error: RegionError) -> TransferError {
        match error {
            RegionError::BadKey => TransferError::Invalid(Why::Unexported),
            RegionError::Send(SendError::Lost(_)) => TransferError::Invalid(Why::PeerLost),
            error => TransferError::Refused(error),
        }
    }
}

/// Why a redirection came to nothing, or was not made.
///
/// ```
/// # use barewire::core::{Config, Endpoint, job::Job, region::{Memory, Who}};
/// # use barewire::vmmc::*;
/// # let mut node = Vmmc::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap());
/// # let (me, buffer) = (node.core().me(), Memory::shared(100).unwrap());
/// # let export = node.export_with(&buffer, 1, Who::Anyone, ExportOptions { redirectable: true }).unwrap();
/// # let proxy = node.import(me, 1, None).unwrap();
/// # let place = Memory::shared(10).unwrap();
/// assert_eq!(node.redirect(export, me, (&place, 5, 6)), Err(RedirectError::Range));
/// let redirection = node.redirect(export, me, (&place, 0, 10)).unwrap();
/// node.send(proxy, 0, (&Memory::private(11), 0, 11), Notify::Quiet).unwrap();
/// assert_eq!(node.redirected(redirection, None), Err(RedirectError::TooLong));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedirectError {
    /// There is no such export, redirection or peer.
    #[error("there is no such export, redirection or peer")]
    NoSuch,
    /// The buffer was not exported as redirectable.
    #[error("the buffer was not exported as redirectable")]
    NotRedirectable,
    /// The new place does not lie in its memory.
    #[error("the new place does not lie in its memory")]
    Range,
    /// The transfer was longer than the new place. It is in the default buffer.
    #[error("the transfer is longer than the new place; it is in the default buffer")]
    TooLong,
    /// The peer is gone, or has freed its import.
    #[error("the peer is gone, or has freed its import")]
    PeerLost,
    /// A node has at most a million of each.
    #[error("a node has at most a million of each kind")]
    TooMany,
    /// The wait ended first.
    #[error(transparent)]
    Wait(#[from] WaitError),
}
