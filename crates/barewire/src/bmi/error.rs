//! What can go wrong, with the number that C programs know it by.

use barewire_core::OpenError;
use barewire_core::at_large::AddressError;
use barewire_core::boot::BootError;

/// Why a call did nothing.
///
/// ```
/// # use barewire::bmi::*;
/// # use std::time::Duration;
/// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
/// # let context = bmi.open_context().unwrap();
/// # const SOON: Duration = Duration::from_secs(10);
/// let long = Buffer::new(UNEXPECTED_BYTES_MAX + 1);
/// let refused = bmi.post_sendunexpected(me, long, 1, 0, 0, context).unwrap_err();
/// assert!(matches!(refused, Error::TooLong { len: 16_385, max: 16_384 }));
/// bmi.close_context(context).unwrap();
/// assert!(matches!(bmi.testcontext(1, Duration::ZERO, context), Err(Error::NoSuchContext)));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument that makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// No such address: never looked up, or dropped.
    #[error("there is no such address; it was dropped, or never looked up")]
    NoSuchAddr,
    /// No such context: closed, or never opened.
    #[error("there is no such context; it was closed, or never opened")]
    NoSuchContext,
    /// No such operation in this context: tested before, completed at once, or posted in another context.
    #[error(
        "there is no such operation in this context; its end was told already, or it was posted elsewhere"
    )]
    NoSuchOp,
    /// More bytes than the network takes.
    #[error("{len} bytes are more than the {max} that one message holds")]
    TooLong {
        /// What was asked for.
        len: u64,
        /// What fits.
        max: u64,
    },
    /// The operation failed as it was posted.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// An address that cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// No endpoint could be had.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// No key could be had.
    #[error(transparent)]
    Key(#[from] BootError),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The interface was finalized.
    #[error("the interface was finalized")]
    Finalized,
    /// The process forked after it initialized the interface.
    #[error(
        "this process was forked from the one that initialized the interface; initialize it in the child"
    )]
    Forked,
    /// Nothing of ours goes by that option.
    #[error("this option means nothing here")]
    NoSuchOption,
}

/// Why an operation ended without what it was for.
///
/// ```
/// # use barewire::bmi::*;
/// # use std::time::Duration;
/// # let bmi = Bmi::initialize(Options::open().listen("tcp://127.0.0.1:0")).unwrap();
/// # let me = bmi.addr_lookup("tcp://127.0.0.1:0").unwrap(); // where it listens itself
/// # let context = bmi.open_context().unwrap();
/// # const SOON: Duration = Duration::from_secs(10);
/// bmi.post_send(me, Buffer::from(b"four"), 1, 0, context).unwrap();
/// let place = Buffer::new(3);
/// let failed = bmi.post_recv(me, &place, 1, 0, context).unwrap_err();
/// assert!(matches!(failed, Error::Failed(Failure::TooLong)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// It was cancelled, here or, for a receive, by its sender.
    #[error("cancelled")]
    Cancelled,
    /// The peer cannot be reached: nobody listens there, or nobody who holds our key.
    #[error("nobody can be reached at this address")]
    Unreachable,
    /// The connection with the peer ended before the operation did.
    #[error("the connection to this address was lost")]
    Lost,
    /// The message was longer than the receive; its beginning has arrived.
    #[error("the message is longer than the receive's buffer")]
    TooLong,
}

/// The outcome of a call.
pub type Result<T> = std::result::Result<T, Error>;

const fn errno(n: i32) -> i32 {
    1 << 30 | 1 << 7 | n
}

const fn own(n: i32) -> i32 {
    1 << 29 | errno(n)
}

const EIO: i32 = errno(4);
const ENOMEM: i32 = errno(8);
const ENODEV: i32 = errno(12);
const EINVAL: i32 = errno(15);
const ENOSYS: i32 = errno(25);
const EMSGSIZE: i32 = errno(42);
const EADDRINUSE: i32 = errno(47);
const EADDRNOTAVAIL: i32 = errno(48);
const ECONNREFUSED: i32 = errno(54);
const EACCES: i32 = errno(58);
const ECONNRESET: i32 = errno(59);
const ECANCEL: i32 = own(1);
const EDEVINIT: i32 = own(2);
const EHOSTNTFD: i32 = own(4);
const EADDRNTFD: i32 = own(5);

impl Failure {
    /// The number that C programs know it by: negative.
    ///
    /// ```
    /// use barewire::bmi::Failure;
    /// assert_eq!(Failure::Cancelled.code(), -((1 << 30) | (1 << 29) | (1 << 7) | 1));
    /// ```
    pub fn code(self) -> i32 {
        -match self {
            Failure::Cancelled => ECANCEL,
            Failure::Unreachable => ECONNREFUSED,
            Failure::Lost => ECONNRESET,
            Failure::TooLong => EMSGSIZE,
        }
    }
}

impl Error {
    /// The number that C programs know it by: negative.
    ///
    /// ```
    /// use barewire::bmi::{Error, Failure};
    /// assert_eq!(Error::Failed(Failure::Lost).code(), Failure::Lost.code());
    /// assert_eq!(Error::NoSuchOp.code(), Error::NoSuchAddr.code()); // an invalid argument, to C
    /// assert!(Error::Finalized.code() < 0);
    /// ```
    pub fn code(&self) -> i32 {
        -match self {
            Error::Failed(failure) => return failure.code(),
            Error::Invalid(_) | Error::NoSuchAddr | Error::NoSuchContext | Error::NoSuchOp => EINVAL,
            Error::TooLong { .. } => EMSGSIZE,
            Error::Address(AddressError::NoSuchHost { .. }) => EHOSTNTFD,
            Error::Address(AddressError::Taken { source, .. }) => match source.kind() {
                std::io::ErrorKind::AddrInUse => EADDRINUSE,
                std::io::ErrorKind::AddrNotAvailable => EADDRNOTAVAIL,
                std::io::ErrorKind::PermissionDenied => EACCES,
                _ => EIO,
            },
            Error::Address(AddressError::TooMany) => ENOMEM,
            Error::Address(_) => EADDRNTFD,
            Error::Key(_) => EACCES,
            Error::Open(_) => EDEVINIT,
            Error::Io { .. } => EIO,
            Error::Finalized | Error::Forked => ENODEV,
            Error::NoSuchOption => ENOSYS,
        }
    }
}
