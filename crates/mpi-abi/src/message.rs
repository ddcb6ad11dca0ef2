//! Messages: what the program's arguments say about one, checked and turned into what the transport takes.
//!
//! Data that lies in one piece is sent from and received into the program's memory as it is. Data with holes is gathered and
//! scattered by its layout program, straight to and from the wire.

use crate::boundary::{MPI_Comm, MPI_Datatype, Memory, Status};
use crate::object::{Comm, CommRef, TypeRef};
use crate::shim::pack::usable;
use crate::world::{ANY_SOURCE, ANY_TAG, PROC_NULL, TAG_UB, world};
use barewire::core::region::Memory as Kept;
use barewire::core::tagged::{self, Envelope, Failure, Gather, Scatter, Sink, Source, Want};
use barewire::core::{Incoming, Peer};
use barewire::mpi::datatype::{Basic, Datatype};
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::group::Process;
use barewire_sys::userbuf::UserBuf;
use barewire_sys::wirebuf::{Places, WireMut};
use std::cell::Cell;
use std::sync::Arc;

/// `count` elements of a datatype at an address.
pub(crate) struct Buffer {
    /// The address.
    pub memory: Memory,
    /// How many elements.
    pub count: i64,
    /// Of what.
    pub object: TypeRef,
}

impl Buffer {
    /// What the program's arguments describe.
    #[inline]
    pub fn new(memory: Memory, count: i64, datatype: MPI_Datatype) -> Result<Buffer> {
        Ok(Buffer { memory, count, object: usable(datatype, memory, count)? })
    }

    /// No elements.
    pub fn none() -> Buffer {
        Buffer { memory: Memory::dangling(), count: 0, object: world().basic(Basic::Byte) }
    }

    /// Bytes of data.
    #[inline]
    pub fn len(&self) -> u64 {
        (self.count * self.object.datatype.size()) as u64
    }

    /// The data to be sent, and its length.
    #[inline]
    pub fn source(&self) -> (u64, Source) {
        source(self.memory, self.count, &self.object.datatype)
    }

    /// The place of data to be received.
    #[inline]
    pub fn sink(&self) -> Sink {
        sink(self.memory, self.count, &self.object.datatype)
    }

    /// A copy of the data to be sent, and its length.
    pub fn copy(&self) -> (u64, Source) {
        let mut bytes = vec![0; self.len() as usize];
        self.object.datatype.pack(self.count, &self.memory, 0, &mut bytes);
        (bytes.len() as u64, kept(&bytes))
    }
}

/// The bytes of `count` elements of a predefined type without holes: nothing can be wrong with them. None for everything else,
/// which takes the long way.
#[inline(always)]
pub(crate) fn plain(memory: Memory, count: i64, datatype: MPI_Datatype) -> Option<UserBuf> {
    let size = Basic::solid_size(datatype.0)?;
    let fits = (0..1 << 48).contains(&count) && (memory.address() > 1) | (count == 0);
    fits.then(|| memory.user(0, count as usize * size))
}

/// A copy of some bytes, to be sent.
pub(crate) fn kept(bytes: &[u8]) -> Source {
    let kept = Kept::private(bytes.len());
    assert!(kept.write(0, bytes), "there is room: it was made for them");
    Source::Memory(kept, 0)
}

/// `count` elements at an address, to be sent, and their length; the arguments have been checked.
#[inline]
pub(crate) fn source(memory: Memory, count: i64, datatype: &Datatype) -> (u64, Source) {
    match datatype.contiguous_run(count) {
        Some((offset, len)) => (len as u64, Source::User(memory.user(offset, len as usize))),
        None => {
            let len = (count * datatype.size()) as u64;
            (len, Source::Gather(Box::new(Scattered::new(memory, count, datatype))))
        }
    }
}

/// The place of `count` elements at an address, to be received; the arguments have been checked.
#[inline]
pub(crate) fn sink(memory: Memory, count: i64, datatype: &Datatype) -> Sink {
    match datatype.contiguous_run(count) {
        Some((offset, len)) => Sink::User(memory.user(offset, len as usize)),
        None => Sink::Scatter(Box::new(Scattered::new(memory, count, datatype))),
    }
}

/// Data with holes.
#[derive(Debug)]
struct Scattered {
    memory: Memory,
    count: i64,
    datatype: Datatype,
    /// The runs that were lent last.
    lent: Vec<UserBuf>,
}

/// Shorter runs are not worth being lent.
const RUN_BYTES_MIN: i64 = 4 << 10;
/// Shorter ones are copied together, to and from a place of our own, rather than each by itself to and from the wire.
const SHORT_RUN_BYTES: i64 = 64;
/// So much of them at a time.
const STAGE_BYTES: usize = 4 << 10;

impl Scattered {
    fn new(memory: Memory, count: i64, datatype: &Datatype) -> Scattered {
        Scattered { memory, count, datatype: datatype.clone(), lent: Vec::new() }
    }

    /// The run that holds the byte at `offset`, from there on, at most `len` bytes; `None` if it is a short one.
    fn run_at(&self, offset: i64, len: i64) -> Option<UserBuf> {
        let mut most = RUN_BYTES_MIN.min(len);
        loop {
            // A look at a few bytes first: there may be as many runs as bytes.
            let mut first = None;
            self.datatype.runs(self.count, offset, most, |at, len| {
                first.get_or_insert((at, len));
            });
            let (at, run) = first?;
            if run < most || most == len {
                return (run >= RUN_BYTES_MIN.min(len)).then(|| self.memory.user(at, run as usize));
            }
            most = most.saturating_mul(8).min(len);
        }
    }
}

impl Scattered {
    /// Whether the runs from the byte at `offset` on are short ones, as then most are.
    fn is_fine_at(&self, offset: u64) -> bool {
        let mut longest = 0;
        // The first may be the end of a long one.
        self.datatype
            .runs(self.count, offset as i64, 2 * SHORT_RUN_BYTES, |_, len| longest = longest.max(len));
        longest < SHORT_RUN_BYTES
    }
}

impl Gather for Scattered {
    fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>) {
        let memory = self.memory;
        if self.is_fine_at(offset) {
            let (mut stage, mut at) = ([0; STAGE_BYTES], offset as i64);
            while wire.remaining() > 0 {
                let n = STAGE_BYTES.min(wire.remaining());
                let packed = self.datatype.pack(self.count, &memory, at, &mut stage[..n]);
                if packed == 0 {
                    return;
                }
                wire.write(&stage[..packed]);
                at += packed as i64;
            }
            return;
        }
        self.datatype.runs(self.count, offset as i64, wire.remaining() as i64, |at, len| {
            if let Some(mut bytes) = memory.user(at, len as usize).wire_ref(0, len as usize) {
                wire.write_from(&mut bytes);
            }
        });
    }
}

impl Scatter for Scattered {
    fn capacity(&self) -> u64 {
        (self.count * self.datatype.size()) as u64
    }

    fn scatter(&mut self, offset: u64, packet: &mut Incoming<'_>, len: usize) {
        let memory = self.memory;
        if self.is_fine_at(offset) {
            let (mut stage, end) = ([0; STAGE_BYTES], offset + len as u64);
            let mut at = offset;
            while at < end {
                let n = packet.read(&mut stage[..(STAGE_BYTES as u64).min(end - at) as usize]);
                if n == 0 {
                    return;
                }
                self.datatype.unpack(self.count, &mut self.memory, at as i64, &stage[..n]);
                at += n as u64;
            }
            return;
        }
        self.datatype.runs(self.count, offset as i64, len as i64, |at, len| {
            if let Some(mut place) = memory.user(at, len as usize).wire_mut(0, len as usize) {
                packet.read_to(&mut place);
            }
        });
    }

    fn scatter_kept(&mut self, offset: u64, bytes: &[u8]) {
        self.datatype.unpack(self.count, &mut self.memory, offset as i64, bytes);
    }

    fn place<'a>(&'a mut self, offset: u64, len: usize, places: &mut Places<'a>) {
        self.lent.clear();
        let mut given = 0;
        while given < len && self.lent.len() < Places::MOST {
            let Some(run) = self.run_at(offset as i64 + given as i64, (len - given) as i64) else { break };
            given += run.len();
            self.lent.push(run);
        }
        for run in &self.lent {
            run.wire_mut(0, run.len()).map(|place| places.push(place));
        }
    }
}

/// Where a message goes to or comes from, if nothing is special about it or wrong with it; [`target`] and [`wanted`] know what.
#[inline(always)]
pub(crate) fn plain_partner(comm: &Comm, rank: i32, tag: i32) -> Option<(Peer, Envelope)> {
    let Process(peer) = comm.partners().get(rank).filter(|_| (0..=TAG_UB).contains(&tag))?;
    Some((Peer(peer), Envelope { context: comm.message_context(), tag }))
}

/// Where a message goes; none for `MPI_PROC_NULL`.
#[inline]
pub(crate) fn target(comm: &Comm, rank: i32, tag: i32) -> Result<Option<(Peer, Envelope)>> {
    if !(0..=TAG_UB).contains(&tag) {
        return Err(bad_tag(tag));
    }
    if rank == PROC_NULL {
        return Ok(None);
    }
    let Process(peer) = comm.partners().process(rank)?;
    Ok(Some((Peer(peer), Envelope { context: comm.message_context(), tag })))
}

/// Which messages a receive takes; none for `MPI_PROC_NULL`.
#[inline]
pub(crate) fn wanted(comm: &Comm, rank: i32, tag: i32) -> Result<Option<Want>> {
    let tag = match tag {
        ANY_TAG => None,
        0..=TAG_UB => Some(tag),
        _ => return Err(bad_tag(tag)),
    };
    let from = match rank {
        ANY_SOURCE => None,
        PROC_NULL => return Ok(None),
        _ => Some(Peer(comm.partners().process(rank)?.0)),
    };
    Ok(Some(Want { context: comm.message_context(), from, tag }))
}

#[cold]
fn bad_tag(tag: i32) -> Error {
    Error::new(Class::Tag, format!("tag is {tag}; tags are from 0 to {TAG_UB}"))
}

/// Whom an operation is with, to say so in the program's terms.
#[derive(Clone)]
pub(crate) enum Partner {
    /// A send: its status says nothing.
    Receiver,
    /// A receive from this rank.
    Rank(i32),
    /// A receive from any rank of this communicator.
    Any(Arc<Comm>),
}

impl Partner {
    /// The partner of a receive from `rank`.
    #[inline]
    pub fn of(comm: &CommRef, rank: i32) -> Partner {
        if rank == ANY_SOURCE { Partner::Any(comm.shared().clone()) } else { Partner::Rank(rank) }
    }

    /// The outcome of an operation.
    #[inline]
    pub fn outcome(&self, status: &tagged::Status) -> Outcome {
        let source = match self {
            Partner::Receiver => None,
            Partner::Rank(rank) => Some(*rank),
            Partner::Any(comm) => Some(rank_of(comm, status.from)),
        };
        outcome(source, status)
    }
}

/// The rank of a process that sent something.
pub(crate) fn rank_of(comm: &Comm, from: Peer) -> i32 {
    comm.partners().rank_of(Process(from.0)).map_or(ANY_SOURCE, |rank| rank as i32)
}

/// How an operation ended, in the program's terms.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// For the program.
    pub status: Status,
    /// What went wrong.
    pub error: Option<Error>,
}

impl Outcome {
    /// Of an operation with nobody.
    pub const NOBODY: Outcome = Outcome { status: Status::EMPTY, error: None };

    /// Of a receive from `MPI_PROC_NULL`.
    pub fn from_proc_null() -> Outcome {
        Outcome { status: Status::new(PROC_NULL, ANY_TAG, 0), error: None }
    }

    /// The error class, or success.
    pub fn code(&self) -> i32 {
        self.error.as_ref().map_or(0, |error| error.class() as i32)
    }
}

impl From<Result<()>> for Outcome {
    fn from(result: Result<()>) -> Outcome {
        Outcome { status: Status::EMPTY, error: result.err() }
    }
}

/// The outcome of a receive from rank `source`, or of a send.
#[inline]
pub(crate) fn outcome(source: Option<i32>, status: &tagged::Status) -> Outcome {
    let told = source.map_or(Status::EMPTY, |source| Status::new(source, status.tag, status.len));
    match status.failure {
        None => Outcome { status: told, error: None },
        Some(failure) => failed(told, failure),
    }
}

#[cold]
fn failed(mut status: Status, failure: Failure) -> Outcome {
    let error = match failure {
        Failure::Truncated { over } => {
            status.set_bytes(status.bytes() - over as i64);
            truncated(over)
        }
        Failure::Lost(_) => Error::new(Class::ProcAborted, failure.to_string()),
        _ => {
            status = Status::EMPTY;
            status.set_cancelled(true);
            return Outcome { status, error: None };
        }
    };
    Outcome { status, error: Some(error) }
}

thread_local! {
    /// By how many bytes the last message was too long that this thread heard of; 0 if there was none.
    static TOO_LONG: Cell<u64> = const { Cell::new(0) };
}

/// The error for a message that was `over` bytes too long. Codes are classes, so how much that is is noted for who asks what the code means.
#[cold]
pub(crate) fn truncated(over: u64) -> Error {
    TOO_LONG.set(over);
    Error::new(Class::Truncate, Failure::Truncated { over }.to_string())
}

/// What is known of the last message that was too long.
pub(crate) fn last_truncated() -> Option<String> {
    let over = TOO_LONG.get();
    (over > 0).then(|| format!("; the last one by {over} bytes"))
}

/// A communicator that the whole job shares, to reach the transport without a lock.
#[inline]
pub(crate) fn anyone() -> Result<CommRef> {
    world().comm(MPI_Comm(0x101))
}
