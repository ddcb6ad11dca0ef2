//! How messages are named: from whom, with which tag, and what is known of one.

/// Any rank, or any tag.
///
/// ```
/// use barewire::mpi::{self, Any};
/// mpi::launch(&[2], |comm| {
///     comm.send(&[7], 1 - comm.rank(), 3)?;
///     let mut got = [0];
///     let status = comm.receive(&mut got, Any, Any)?;
///     assert_eq!((status.source, status.tag, got), (1 - comm.rank(), 3, [7]));
///     Ok::<(), mpi::Error>(())
/// }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Any;

/// From whom: a rank, or [`Any`].
///
/// ```
/// use barewire::mpi::{Any, Source};
/// assert_eq!((Source::from(3), Source::from(Any)), (Source::Rank(3), Source::Any));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// This rank.
    Rank(u32),
    /// Whoever sends.
    Any,
}

impl From<u32> for Source {
    fn from(rank: u32) -> Source {
        Source::Rank(rank)
    }
}

impl From<Any> for Source {
    fn from(_: Any) -> Source {
        Source::Any
    }
}

/// With which tag: one, or [`Any`].
///
/// ```
/// use barewire::mpi::{Any, Tag};
/// assert_eq!((Tag::from(3), Tag::from(Any)), (Tag::Is(3), Tag::Any));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// This one.
    Is(i32),
    /// Whichever it has.
    Any,
}

impl From<i32> for Tag {
    fn from(tag: i32) -> Tag {
        Tag::Is(tag)
    }
}

impl From<Any> for Tag {
    fn from(_: Any) -> Tag {
        Tag::Any
    }
}

/// What is known of a message.
///
/// ```
/// use barewire::mpi::{self, Any, Status};
/// mpi::launch(&[1], |comm| {
///     comm.send(&[1.0, 2.0], 0, 5)?;
///     assert_eq!(comm.receive(&mut [0.0; 3], Any, Any)?, Status { source: 0, tag: 5, len: 2 });
///     Ok::<(), mpi::Error>(())
/// }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The rank that sent it.
    pub source: u32,
    /// Its tag.
    pub tag: i32,
    /// How many elements it has.
    pub len: usize,
}
