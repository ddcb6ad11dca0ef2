//! Names, tags, and the words for what went wrong.

use std::fmt;
use std::str::FromStr;

use barewire_core::Peer;

/// What the whole job calls an endpoint. Passes through any wire as 64 bits, or through a file as text.
///
/// ```
/// use barewire::am::Name;
/// use barewire::core::Peer;
/// let name = Name { peer: Peer(3), index: 7 };
/// assert_eq!(Name::from_bits(name.to_bits()), Some(name));
/// assert_eq!("3.7".parse(), Ok(name));
/// assert_eq!(name.to_string(), "3.7");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// The node it lives on.
    pub peer: Peer,
    /// Which of that node's endpoints it is; never used again after it is freed.
    pub index: u16,
}

impl Name {
    /// The name as one word, say to send it as an argument.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// node.set_handler(ep, 1, |ctx, args| ctx.state.push(Name::from_bits(args[0]).unwrap())).unwrap();
    /// node.request(ep, 0, 1, &[node.name(ep).to_bits()]).unwrap(); // a name as an argument
    /// node.poll(bundle);
    /// assert_eq!(*node.state(), [node.name(ep)]);
    /// ```
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.peer.0) << 16 | u64::from(self.index)
    }

    /// The name in a word; `None` if there is none.
    ///
    /// ```
    /// use barewire::am::Name;
    /// use barewire::core::Peer;
    /// let name = Name { peer: Peer(70_000), index: 65_535 };
    /// assert_eq!(Name::from_bits(name.to_bits()), Some(name));
    /// assert_eq!(Name::from_bits(u64::MAX), None);
    /// ```
    pub fn from_bits(bits: u64) -> Option<Name> {
        let peer = Peer(u32::try_from(bits >> 16).ok()?);
        Some(Name { peer, index: bits as u16 })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.peer, self.index)
    }
}

/// A text that is not the name of an endpoint.
///
/// ```
/// use barewire::am::{Name, NotAName};
/// assert_eq!("three.seven".parse::<Name>(), Err(NotAName));
/// assert!(NotAName.to_string().ends_with("like 3.7"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of an endpoint is two numbers with a dot between them, like 3.7")]
pub struct NotAName;

impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Name, NotAName> {
        let (peer, index) = text.split_once('.').ok_or(NotAName)?;
        let peer = Peer(peer.parse().map_err(|_| NotAName)?);
        Ok(Name { peer, index: index.parse().map_err(|_| NotAName)? })
    }
}

/// The password of an endpoint: a request is let in if it carries the endpoint's tag. To change the tag is to revoke
/// everybody who has only the old one.
///
/// ```
/// use barewire::am::Tag;
/// assert!(Tag::ALL.accepts(Tag(5)) && Tag(5).accepts(Tag(5)));
/// assert!(!Tag(5).accepts(Tag(6)) && !Tag::NONE.accepts(Tag::NONE));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub u64);

impl Tag {
    /// Accepts nothing. What a new endpoint has.
    pub const NONE: Tag = Tag(0);
    /// Accepts everything.
    pub const ALL: Tag = Tag(u64::MAX);

    /// Whether an endpoint with this tag takes a message with that one.
    ///
    /// ```
    /// use barewire::am::Tag;
    /// assert!(Tag(12).accepts(Tag(12)) && !Tag(12).accepts(Tag(13)));
    /// ```
    #[inline(always)]
    pub fn accepts(self, message: Tag) -> bool {
        if self == Tag::ALL { true } else { self == message && self != Tag::NONE }
    }
}

/// One of a node's own endpoints.
///
/// ```
/// # use barewire::am::*;
/// # use barewire::core::{Config, Endpoint, Peer, job::Job};
/// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), ());
/// # let bundle = node.allocate_bundle().unwrap();
/// # let ep = node.allocate_endpoint(bundle).unwrap();
/// # node.set_tag(ep, Tag(5)).unwrap();
/// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
/// let other: Ep = node.allocate_endpoint(bundle).unwrap();
/// assert_ne!(node.name(other), node.name(ep));
/// assert!(node.free_endpoint(other).is_ok() && node.free_endpoint(other).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ep(pub(super) u16);

impl Ep {
    /// Its index, as in its [`Name`].
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, job::Job};
    /// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), ());
    /// # let bundle = node.allocate_bundle().unwrap();
    /// # let ep = node.allocate_endpoint(bundle).unwrap();
    /// # node.set_tag(ep, Tag(5)).unwrap();
    /// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
    /// assert_eq!(node.name(ep).index, ep.index());
    /// ```
    pub fn index(self) -> u16 {
        self.0
    }
}

/// One of a node's own bundles: endpoints that are polled together.
///
/// ```
/// # use barewire::am::*;
/// # use barewire::core::{Config, Endpoint, Peer, job::Job};
/// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
/// # let bundle = node.allocate_bundle().unwrap();
/// # let ep = node.allocate_endpoint(bundle).unwrap();
/// # node.set_tag(ep, Tag(5)).unwrap();
/// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
/// let idle: Bundle = node.allocate_bundle().unwrap();
/// node.set_handler(ep, 1, |ctx, _| *ctx.state += 1).unwrap();
/// node.request(ep, 0, 1, &[]).unwrap();
/// node.poll(idle); // the endpoint is in another
/// assert_eq!(*node.state(), 0);
/// node.poll(bundle);
/// assert_eq!(*node.state(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bundle(pub(super) u16);

/// Which events of a bundle [`wait_sema`](super::Node::wait_sema) wakes for.
///
/// ```
/// # use barewire::am::*;
/// # use barewire::core::{Config, Endpoint, Peer, job::Job};
/// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
/// # let bundle = node.allocate_bundle().unwrap();
/// # let ep = node.allocate_endpoint(bundle).unwrap();
/// # node.set_tag(ep, Tag(5)).unwrap();
/// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
/// node.set_handler(ep, 1, |_, _| {}).unwrap();
/// node.set_event_mask(bundle, EventMask::NotEmpty).unwrap();
/// node.request(ep, 0, 1, &[]).unwrap();
/// assert_eq!(node.wait_sema(bundle, None), Ok(())); // there is a message
/// node.set_event_mask(bundle, EventMask::None).unwrap();
/// assert_eq!(node.wait_sema(bundle, None), Err(WaitError::NoEvents));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventMask {
    /// None: waiting is an error.
    #[default]
    None,
    /// An endpoint of the bundle has a message.
    NotEmpty,
}

/// Why a message came back.
///
/// ```
/// # use barewire::am::*;
/// # use barewire::core::{Config, Endpoint, Peer, job::Job};
/// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
/// # let bundle = node.allocate_bundle().unwrap();
/// # let ep = node.allocate_endpoint(bundle).unwrap();
/// # node.set_tag(ep, Tag(5)).unwrap();
/// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
/// node.set_handler(ep, 0, |ctx, _| ctx.state.push(ctx.returned().unwrap().code)).unwrap();
/// node.set_handler(ep, 1, |_, _| {}).unwrap();
/// node.request_xfer(ep, 0, 1, &[], 0, b"there is no segment").unwrap();
/// while node.poll(bundle) > 0 {}
/// assert_eq!(*node.state(), [Code::BadSegmentOffset]);
/// assert_eq!(Code::BadHandler.to_string(), "the endpoint has no such handler");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[repr(u8)]
pub enum Code {
    /// The endpoint has another tag.
    #[error("its tag does not match the endpoint's")]
    BadTag = 1,
    /// The endpoint has no such handler.
    #[error("the endpoint has no such handler")]
    BadHandler = 2,
    /// The endpoint has no segment, or none that reaches to the offset.
    #[error("the offset lies outside of the endpoint's segment")]
    BadSegmentOffset = 3,
    /// The data would run over the end of the segment.
    #[error("the data would run over the end of the segment")]
    BadLength = 4,
    /// There is no such endpoint, or it is freed.
    #[error("there is no such endpoint")]
    BadEndpoint = 5,
    /// More messages wait for the endpoint than it expected.
    #[error("more messages wait for the endpoint than it expected")]
    Congestion = 6,
    /// The peer is gone. Whether the message ran before that is not known.
    #[error("the peer is gone")]
    Unreachable = 7,
}

impl Code {
    pub(super) fn from_byte(byte: u8) -> Option<Code> {
        use Code::*;
        const ALL: [Code; 7] =
            [BadTag, BadHandler, BadSegmentOffset, BadLength, BadEndpoint, Congestion, Unreachable];
        ALL.get(usize::from(byte).wrapping_sub(1)).copied()
    }
}

/// Why a table was not changed.
///
/// ```
/// # use barewire::am::*;
/// # use barewire::core::{Config, Endpoint, Peer, job::Job};
/// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
/// # let bundle = node.allocate_bundle().unwrap();
/// # let ep = node.allocate_endpoint(bundle).unwrap();
/// # node.set_tag(ep, Tag(5)).unwrap();
/// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
/// assert_eq!(node.translation(ep, 9), Err(TableError::NotMapped(9)));
/// assert_eq!(node.set_expected_resources(ep, 0, 1), Err(TableError::Resources));
/// node.free_endpoint(ep).unwrap();
/// assert_eq!(node.tag(ep), Err(TableError::NoSuchEndpoint));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The endpoint is freed, or of another node.
    #[error("this node has no such endpoint")]
    NoSuchEndpoint,
    /// The bundle is freed, or of another node.
    #[error("this node has no such bundle")]
    NoSuchBundle,
    /// A node names at most 65536 endpoints, and as many bundles, in its life.
    #[error("this node has used all its names")]
    NoNames,
    /// Unmap a translation before mapping it anew.
    #[error("translation {0} is mapped; unmap it first")]
    Mapped(u8),
    /// The translation is not mapped.
    #[error("translation {0} is not mapped")]
    NotMapped(u8),
    /// A bulk transfer still uses the translation.
    #[error("a transfer through translation {0} is under way")]
    Busy(u8),
    /// Every handler is set.
    #[error("the endpoint has no free handler")]
    NoHandler,
    /// At least one endpoint and one outstanding request, at most 16384 of the latter.
    #[error("expect at least 1 endpoint, and from 1 to 16384 outstanding requests")]
    Resources,
}

/// Why a request was not taken. Nothing of it was sent.
///
/// ```
/// # use barewire::am::*;
/// # use barewire::core::{Config, Endpoint, Peer, job::Job};
/// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
/// # let bundle = node.allocate_bundle().unwrap();
/// # let ep = node.allocate_endpoint(bundle).unwrap();
/// # node.set_tag(ep, Tag(5)).unwrap();
/// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
/// assert_eq!(node.request(ep, 9, 1, &[]), Err(RequestError::NotMapped(9)));
/// assert_eq!(node.request(ep, 0, 0, &[]), Err(RequestError::ReservedHandler));
/// assert_eq!(node.request(ep, 0, 1, &[0; 9]), Err(RequestError::TooManyArgs(9)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The endpoint is freed, or of another node.
    #[error("this node has no such endpoint")]
    NoSuchEndpoint,
    /// The translation is not mapped.
    #[error("translation {0} is not mapped")]
    NotMapped(u8),
    /// Handler 0 is for returned messages.
    #[error("handler 0 takes returned messages and nothing else")]
    ReservedHandler,
    /// A message has at most [`ARGS_MAX`](super::ARGS_MAX) arguments.
    #[error("{0} arguments are more than a message has")]
    TooManyArgs(usize),
    /// Use a bulk transfer.
    #[error("{len} bytes are more than a medium message of {max} holds; use a transfer")]
    TooLong {
        /// What was asked for.
        len: usize,
        /// What fits.
        max: usize,
    },
    /// The bytes to send are not all in their memory.
    #[error("the source does not lie inside of its memory")]
    SourceRange,
    /// No credit or no room now, and whoever asked does not wait: a handler, or an asynchronous transfer.
    #[error("it would have to wait")]
    WouldBlock,
    /// Only request handlers and code outside of handlers may send requests.
    #[error("a reply handler may not send requests")]
    FromReply,
    /// The process forked after it opened the endpoint.
    #[error("this process was forked from the one that opened the endpoint")]
    Forked,
}

/// Why a reply was not taken. Nothing of it was sent.
///
/// ```
/// # use barewire::am::*;
/// # use barewire::core::{Config, Endpoint, Peer, job::Job};
/// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
/// # let bundle = node.allocate_bundle().unwrap();
/// # let ep = node.allocate_endpoint(bundle).unwrap();
/// # node.set_tag(ep, Tag(5)).unwrap();
/// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
/// node.set_handler(ep, 1, |ctx, _| ctx.reply(2, &[]).unwrap()).unwrap();
/// node.set_handler(ep, 2, |ctx, _| { let refused = ctx.reply(1, &[]); ctx.state.push(refused); }).unwrap();
/// node.request(ep, 0, 1, &[]).unwrap();
/// while node.poll(bundle) > 0 {}
/// assert_eq!(*node.state(), [Err(ReplyError::NotARequest)]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// Replies and returned messages are not replied to.
    #[error("only a request can be replied to")]
    NotARequest,
    /// One reply for a request.
    #[error("the request has been replied to")]
    Twice,
    /// Handler 0 is for returned messages.
    #[error("handler 0 takes returned messages and nothing else")]
    ReservedHandler,
    /// A message has at most [`ARGS_MAX`](super::ARGS_MAX) arguments.
    #[error("{0} arguments are more than a message has")]
    TooManyArgs(usize),
    /// Use a bulk transfer.
    #[error("{len} bytes are more than a medium message of {max} holds; use a transfer")]
    TooLong {
        /// What was asked for.
        len: usize,
        /// What fits.
        max: usize,
    },
    /// The bytes to send are not all in their memory.
    #[error("the source does not lie inside of its memory")]
    SourceRange,
}

/// Why a wait ended without what was waited for.
///
/// ```
/// # use barewire::am::*;
/// # use barewire::core::{Config, Endpoint, Peer, job::Job};
/// # let mut node = Node::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0u64);
/// # let bundle = node.allocate_bundle().unwrap();
/// # let ep = node.allocate_endpoint(bundle).unwrap();
/// # node.set_tag(ep, Tag(5)).unwrap();
/// # node.map(ep, 0, node.name(ep), Tag(5)).unwrap();
/// use std::time::Duration;
/// assert_eq!(node.wait(bundle, Some(Duration::from_millis(1)), |_| false), Err(WaitError::TimedOut));
/// node.free_bundle(bundle).unwrap();
/// assert_eq!(node.wait_sema(bundle, None), Err(WaitError::NoSuchBundle));
/// assert_eq!(node.wait(bundle, None, |_| false), Err(WaitError::NoSuchBundle));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The bundle is freed, or of another node.
    #[error("this node has no such bundle")]
    NoSuchBundle,
    /// The bundle's event mask lets nothing through, so the wait would never end.
    #[error("the bundle's event mask is empty; set it to NotEmpty first")]
    NoEvents,
    /// The time is up.
    #[error("timed out")]
    TimedOut,
    /// The process forked after it opened the endpoint.
    #[error("this process was forked from the one that opened the endpoint")]
    Forked,
}
