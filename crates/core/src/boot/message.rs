//! What a rank and its server say to each other.
//!
//! ```
//! use barewire_core::boot::{Hub, Layout, Notice, Outbox, message::{Request, VERSION}};
//! use barewire_core::job::{JobId, JobKey};
//!
//! let mut hub = Hub::new(JobId([1; 16]), JobKey([2; 32]), Layout::single(1), vec!["here".into()]);
//! let hello = Request::Hello { version: VERSION, nonce: 7, pid: std::process::id() };
//! assert_eq!(hub.receive(0, &hello.encode(), &mut Outbox::new()), Ok(Some(Notice::Joined)));
//! ```

use super::Layout;
use super::frame::{BOOT_BODY_BYTES_MAX, FrameError, Reader, Writer};
use crate::job::{JobId, JobKey};

/// The protocol's version; the two ends must agree.
pub const VERSION: u32 = 2;
/// Longest address card.
pub(super) const CARD_BYTES_MAX: usize = 1024;
/// Longest text of an abort or of a watchdog report; longer ones are cut.
const TEXT_BYTES_MAX: usize = 8 * 1024;
/// Longest account of a rank's wires; longer ones are cut.
const WIRES_BYTES_MAX: usize = 48 * 1024;

/// From a rank to its server.
///
/// ```
/// # use barewire_core::boot::{Hub, Layout, Notice, Outbox, message::Request};
/// # use barewire_core::job::{JobId, JobKey};
/// let mut hub = Hub::new(JobId([1; 16]), JobKey([2; 32]), Layout::single(2), vec!["here".into()]);
/// let mut out = Outbox::new();
/// let abort = Request::Abort { code: 3, message: "no input".into() };
/// let notice = hub.receive(1, &abort.encode(), &mut out).unwrap();
/// assert_eq!(notice, Some(Notice::Abort { code: 3, message: "no input".into() }));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A process begins to use this connection; everything said before is void.
    Hello {
        /// The client's protocol version.
        version: u32,
        /// Comes back in the welcome.
        nonce: u64,
        /// The process, for messages to people.
        pid: u32,
    },
    /// This rank's address card.
    Publish(Vec<u8>),
    /// Asks for a rank's card.
    Card(u32),
    /// Waits for all ranks.
    Barrier,
    /// Ends the job.
    Abort {
        /// The exit status asked for.
        code: i32,
        /// Why.
        message: String,
    },
    /// What this rank waits for.
    Stuck(String),
    /// Which wires this rank uses, and why: see [`Event::Explain`](super::Event::Explain).
    Wires(String),
    /// The process is done with this connection.
    Bye,
}

/// From the server to a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// A part of the layout; the parts come before the welcome.
    Layout(Vec<u8>),
    /// Who the rank is.
    Welcome(Box<Welcome>),
    /// The server will not talk to this process.
    Refused(String),
    /// The card asked for.
    Card {
        /// Whose.
        rank: u32,
        /// The card.
        bytes: Vec<u8>,
    },
    /// A rank is gone.
    Lost {
        /// Which.
        rank: u32,
        /// Why.
        reason: LostReason,
    },
    /// All ranks are in the barrier.
    BarrierDone,
    /// The barrier cannot complete any more.
    BarrierBroken {
        /// The rank that will not come.
        rank: u32,
    },
    /// The server asks what this rank waits for.
    Report,
    /// The server asks which wires this rank uses.
    Explain,
}

/// Who the rank is, and whom it belongs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Welcome {
    /// From the hello.
    pub nonce: u64,
    /// The job's name.
    pub id: JobId,
    /// The job's secret.
    pub key: JobKey,
    /// This rank.
    pub rank: u32,
    /// The number of ranks.
    pub size: u32,
    /// What people call this host.
    pub host_name: String,
}

/// Why a rank is gone.
///
/// ```
/// use barewire_core::boot::LostReason;
/// assert_eq!(LostReason::Killed(9).to_string(), "signal 9 killed it");
/// assert_eq!(LostReason::Left.to_string(), "it left the job");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// It ended with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// Its host cannot be reached.
    HostLost,
    /// It left a rendezvous; another may take its place.
    Left,
}

impl LostReason {
    /// Whether the rank failed, so that what needs all ranks cannot complete any more.
    pub(super) fn is_final(self) -> bool {
        !matches!(self, Self::Exited(0) | Self::Left)
    }
}

impl std::fmt::Display for LostReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "it ended with status {status}"),
            Self::Killed(signal) => write!(f, "signal {signal} killed it"),
            Self::HostLost => f.write_str("its host was lost"),
            Self::Left => f.write_str("it left the job"),
        }
    }
}

impl Request {
    /// The frame that says this.
    ///
    /// ```
    /// use barewire_core::boot::{frame::{Unit, split}, message::Request};
    /// let bytes = Request::Card(5).encode();
    /// assert_eq!(split(&bytes, 100), Ok(Some((Unit::Frame { kind: 3, body: &[5, 0, 0, 0] }, bytes.len()))));
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        let writer = Writer::new();
        match self {
            Self::Hello { version, nonce, pid } => {
                writer.u32(*version).u64(*nonce).u32(*pid).frame(kind::HELLO)
            }
            Self::Publish(card) => writer.bytes(card).frame(kind::PUBLISH),
            Self::Card(rank) => writer.u32(*rank).frame(kind::CARD_REQUEST),
            Self::Barrier => writer.frame(kind::BARRIER),
            Self::Abort { code, message } => {
                writer.i32(*code).bytes(cut(message, TEXT_BYTES_MAX).as_bytes()).frame(kind::ABORT)
            }
            Self::Stuck(text) => writer.bytes(cut(text, TEXT_BYTES_MAX).as_bytes()).frame(kind::STUCK),
            Self::Wires(text) => writer.bytes(cut(text, WIRES_BYTES_MAX).as_bytes()).frame(kind::WIRES),
            Self::Bye => writer.frame(kind::BYE),
        }
    }

    /// Reads a frame's body.
    pub(super) fn decode(kind: u8, body: &[u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(body, "request of a rank");
        let request = match kind {
            kind::HELLO => Self::Hello { version: reader.u32()?, nonce: reader.u64()?, pid: reader.u32()? },
            kind::PUBLISH => {
                let card = reader.bytes()?;
                if card.len() > CARD_BYTES_MAX {
                    return Err(FrameError::TooLong { len: card.len(), max: CARD_BYTES_MAX });
                }
                Self::Publish(card.to_vec())
            }
            kind::CARD_REQUEST => Self::Card(reader.u32()?),
            kind::BARRIER => Self::Barrier,
            kind::ABORT => {
                Self::Abort { code: reader.i32()?, message: lossy(reader.bytes()?, TEXT_BYTES_MAX) }
            }
            kind::STUCK => Self::Stuck(lossy(reader.bytes()?, TEXT_BYTES_MAX)),
            kind::WIRES => Self::Wires(lossy(reader.bytes()?, WIRES_BYTES_MAX)),
            kind::BYE => Self::Bye,
            kind => return Err(FrameError::UnknownKind { kind }),
        };
        reader.finish()?;
        Ok(request)
    }
}

impl Reply {
    /// The frame that says this.
    pub fn encode(&self) -> Vec<u8> {
        let writer = Writer::new();
        match self {
            Self::Layout(body) => writer.array(body).frame(kind::LAYOUT),
            Self::Welcome(welcome) => writer
                .u64(welcome.nonce)
                .array(&welcome.id.0)
                .array(&welcome.key.0)
                .u32(welcome.rank)
                .u32(welcome.size)
                .bytes(welcome.host_name.as_bytes())
                .frame(kind::WELCOME),
            Self::Refused(text) => writer.bytes(cut(text, TEXT_BYTES_MAX).as_bytes()).frame(kind::REFUSED),
            Self::Card { rank, bytes } => writer.u32(*rank).bytes(bytes).frame(kind::CARD),
            Self::Lost { rank, reason } => {
                let (code, value) = match *reason {
                    LostReason::Exited(status) => (0, status),
                    LostReason::Killed(signal) => (1, signal),
                    LostReason::HostLost => (2, 0),
                    LostReason::Left => (3, 0),
                };
                writer.u32(*rank).u8(code).i32(value).frame(kind::LOST)
            }
            Self::BarrierDone => writer.frame(kind::BARRIER_DONE),
            Self::BarrierBroken { rank } => writer.u32(*rank).frame(kind::BARRIER_BROKEN),
            Self::Report => writer.frame(kind::REPORT),
            Self::Explain => writer.frame(kind::EXPLAIN),
        }
    }

    /// The frames that carry a layout.
    pub fn encode_layout(layout: &Layout) -> Vec<u8> {
        const RUNS_MAX: usize = BOOT_BODY_BYTES_MAX / 16;
        layout.write(RUNS_MAX).flat_map(|body| body.frame(kind::LAYOUT)).collect()
    }

    /// Reads a frame's body.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(body, "reply of the launcher");
        let reply = match kind {
            kind::LAYOUT => return Ok(Self::Layout(body.to_vec())),
            kind::WELCOME => Self::Welcome(Box::new(Welcome {
                nonce: reader.u64()?,
                id: JobId(reader.array()?),
                key: JobKey(reader.array()?),
                rank: reader.u32()?,
                size: reader.u32()?,
                host_name: reader.text()?,
            })),
            kind::REFUSED => Self::Refused(lossy(reader.bytes()?, TEXT_BYTES_MAX)),
            kind::CARD => Self::Card { rank: reader.u32()?, bytes: reader.bytes()?.to_vec() },
            kind::LOST => {
                let rank = reader.u32()?;
                let reason = match (reader.u8()?, reader.i32()?) {
                    (0, status) => LostReason::Exited(status),
                    (1, signal) => LostReason::Killed(signal),
                    (2, _) => LostReason::HostLost,
                    (3, _) => LostReason::Left,
                    _ => return Err(reader.malformed()),
                };
                Self::Lost { rank, reason }
            }
            kind::BARRIER_DONE => Self::BarrierDone,
            kind::BARRIER_BROKEN => Self::BarrierBroken { rank: reader.u32()? },
            kind::REPORT => Self::Report,
            kind::EXPLAIN => Self::Explain,
            kind => return Err(FrameError::UnknownKind { kind }),
        };
        reader.finish()?;
        Ok(reply)
    }
}

/// Text from a process, cut to the limit and made printable.
fn lossy(bytes: &[u8], bytes_max: usize) -> String {
    cut(&String::from_utf8_lossy(bytes), bytes_max).to_owned()
}

/// `text`, cut at a character boundary so that it fits.
fn cut(text: &str, bytes_max: usize) -> &str {
    let fits = (0..=bytes_max.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    &text[..fits.unwrap_or(0)]
}

/// Frame kinds; numbers are never reused.
mod kind {
    pub const HELLO: u8 = 1;
    pub const PUBLISH: u8 = 2;
    pub const CARD_REQUEST: u8 = 3;
    pub const BARRIER: u8 = 4;
    pub const ABORT: u8 = 5;
    pub const STUCK: u8 = 6;
    pub const BYE: u8 = 7;
    pub const WIRES: u8 = 8;
    pub const LAYOUT: u8 = 32;
    pub const WELCOME: u8 = 33;
    pub const REFUSED: u8 = 34;
    pub const CARD: u8 = 35;
    pub const LOST: u8 = 36;
    pub const BARRIER_DONE: u8 = 37;
    pub const BARRIER_BROKEN: u8 = 38;
    pub const REPORT: u8 = 39;
    pub const EXPLAIN: u8 = 40;
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Unit, split};
    use super::*;
    use proptest::prelude::*;

    fn request_back(request: &Request) -> Request {
        let bytes = request.encode();
        let Ok(Some((Unit::Frame { kind, body }, used))) = split(&bytes, BOOT_BODY_BYTES_MAX) else {
            panic!()
        };
        assert_eq!(used, bytes.len());
        Request::decode(kind, body).unwrap()
    }

    #[test]
    fn every_request_survives_the_wire() {
        for request in [
            Request::Hello { version: 1, nonce: 2, pid: 3 },
            Request::Publish(vec![1; CARD_BYTES_MAX]),
            Request::Card(7),
            Request::Barrier,
            Request::Abort { code: -3, message: "why".into() },
            Request::Stuck("recv".into()),
            Request::Wires("shm\t1-3".into()),
            Request::Bye,
        ] {
            assert_eq!(request_back(&request), request);
        }
    }

    #[test]
    fn every_reply_survives_the_wire() {
        let welcome = Welcome {
            nonce: 1,
            id: JobId([2; 16]),
            key: JobKey([3; 32]),
            rank: 4,
            size: 5,
            host_name: "node".into(),
        };
        for reply in [
            Reply::Welcome(Box::new(welcome)),
            Reply::Refused("no".into()),
            Reply::Card { rank: 1, bytes: vec![9; 9] },
            Reply::Lost { rank: 1, reason: LostReason::Exited(4) },
            Reply::Lost { rank: 1, reason: LostReason::Killed(9) },
            Reply::Lost { rank: 1, reason: LostReason::HostLost },
            Reply::Lost { rank: 1, reason: LostReason::Left },
            Reply::BarrierDone,
            Reply::BarrierBroken { rank: 3 },
            Reply::Report,
            Reply::Explain,
        ] {
            let bytes = reply.encode();
            let Ok(Some((Unit::Frame { kind, body }, _))) = split(&bytes, BOOT_BODY_BYTES_MAX) else {
                panic!()
            };
            assert_eq!(Reply::decode(kind, body).unwrap(), reply);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let Request::Stuck(text) = request_back(&Request::Stuck("é".repeat(TEXT_BYTES_MAX))) else {
            panic!()
        };
        assert_eq!(text, "é".repeat(TEXT_BYTES_MAX / 2));
    }

    #[test]
    fn a_card_over_the_limit_is_refused() {
        let bytes = Request::Publish(vec![0; CARD_BYTES_MAX + 1]).encode();
        let Ok(Some((Unit::Frame { kind, body }, _))) = split(&bytes, BOOT_BODY_BYTES_MAX) else { panic!() };
        assert!(matches!(Request::decode(kind, body), Err(FrameError::TooLong { .. })));
    }

    proptest! {
        #[test]
        fn no_bytes_upset_the_decoders(kind in 0u8..50, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = Request::decode(kind, &body) {
                prop_assert_eq!(request_back(&request), request);
            }
            let _ = Reply::decode(kind, &body);
            let _ = Layout::default().read_more(&body);
            if let Ok(Some((_, used))) = split(&body, 100) {
                prop_assert!(used <= body.len());
            }
        }
    }
}
