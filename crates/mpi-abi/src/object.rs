//! Objects behind handles: communicators, datatypes, operations, sessions.

use crate::attribute::Hung;
use crate::boundary::{Callback, MPI_Comm};
use crate::coll::board::Board;
use crate::fault::Errhandler;
use crate::transport::Net;
use crate::world::lock;
use barewire::core::Peer;
use barewire::mpi::datatype::Datatype;
use barewire::mpi::group::{Group, Process};
use barewire::mpi::info::Info;
use barewire::mpi::topology::Topology;
use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// A communicator.
pub(crate) struct Comm {
    /// Tells the messages of different communicators apart; one that is still being made gets it at the end.
    context: AtomicU32,
    /// The processes, by rank.
    pub group: Group,
    /// The processes on the other side of an intercommunicator.
    remote: Option<Group>,
    /// Those, or the group.
    partners: Group,
    /// This process's rank.
    pub rank: usize,
    /// Who is whose neighbour.
    pub topology: Option<Topology>,
    /// The attributes the program hung on it.
    pub attributes: Hung,
    /// Hints.
    pub info: Mutex<Info>,
    /// The way to its processes.
    pub net: Arc<Net>,
    /// What its ranks have in common, if they are on one host and have called often enough to be worth it.
    pub board: OnceLock<Option<Board>>,
    tags: AtomicU32,
    later_tags: AtomicU32,
    name: Mutex<Vec<u8>>,
    errhandler: Mutex<Arc<Errhandler>>,
}

/// A datatype with what a program may hang on it.
pub(crate) struct TypeObject {
    /// The description.
    pub datatype: Datatype,
    /// The attributes the program hung on it.
    pub attributes: Hung,
    committed: AtomicBool,
    name: Mutex<Vec<u8>>,
}

/// An operation made by the program.
#[derive(Debug)]
pub(crate) struct UserOp {
    /// The program's function.
    pub function: Callback,
    /// It takes an `MPI_Count`.
    pub large: bool,
    /// Operands may be exchanged.
    pub commutes: bool,
}

/// A session.
pub(crate) struct Session {
    /// Hints given when it was made.
    pub info: Info,
    errhandler: Mutex<Arc<Errhandler>>,
}

/// What a Fortran type was asked for with: the call, and its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct F90Key {
    /// The number of the call's combiner.
    pub combiner: i32,
    /// Precision, or the range where there is only a range.
    pub first: i32,
    /// The range.
    pub second: i32,
}

impl Comm {
    /// An intracommunicator with the default error handler.
    pub fn new(net: &Arc<Net>, context: u32, group: Group, rank: usize) -> Comm {
        Comm {
            net: net.clone(),
            board: OnceLock::new(),
            tags: AtomicU32::new(0),
            later_tags: AtomicU32::new(0),
            context: AtomicU32::new(context),
            partners: group.clone(),
            group,
            remote: None,
            rank,
            topology: None,
            attributes: Hung::default(),
            info: Mutex::new(Info::new()),
            name: Mutex::new(Vec::new()),
            errhandler: Mutex::new(Arc::new(Errhandler::Fatal)),
        }
    }

    /// Its number, the same at all its processes.
    #[inline]
    pub fn context(&self) -> u32 {
        // SYNC context: set once, before the request that made the communicator ends.
        self.context.load(Ordering::Relaxed)
    }

    /// Gives a communicator that is being made its number.
    pub fn set_context(&self, context: u32) {
        self.context.store(context, Ordering::Relaxed);
    }

    /// Marks it as a window's.
    pub fn make_windows(&self) {
        self.set_context(self.context() | WINDOW);
    }

    /// The context of the program's messages.
    #[inline]
    pub fn message_context(&self) -> u32 {
        self.context() << 1
    }

    /// The context of what collective calls send.
    #[inline]
    pub fn collective_context(&self) -> u32 {
        self.context() << 1 | 1
    }

    /// The tag of the next collective call: calls are in the same order everywhere, so everybody counts alike.
    #[inline]
    pub fn next_tag(&self) -> i32 {
        // SYNC tags: only this number; the program orders collective calls on a communicator.
        (self.tags.fetch_add(1, Ordering::Relaxed) & 0x0fff_ffff) as i32
    }

    /// The tag of the next collective call that goes on meanwhile. They count apart, so that a blocking call may overtake them.
    #[inline]
    pub fn next_later_tag(&self) -> i32 {
        // SYNC tags: as above.
        (self.later_tags.fetch_add(1, Ordering::Relaxed) & 0x0fff_ffff) as i32 | 0x1000_0000
    }

    /// The processes messages go to and come from.
    #[inline]
    pub fn partners(&self) -> &Group {
        &self.partners
    }

    /// The processes on the other side, if it is an intercommunicator.
    pub fn remote(&self) -> Option<&Group> {
        self.remote.as_ref()
    }

    /// Gives one that is being made another side, or none.
    pub fn set_remote(&mut self, remote: Option<Group>) {
        self.partners = remote.as_ref().unwrap_or(&self.group).clone();
        self.remote = remote;
    }

    /// Whether a process is one of its.
    pub fn has(&self, peer: Peer) -> bool {
        let member = |group: &Group| group.rank_of(Process(peer.0)).is_some();
        member(&self.group) || self.remote.as_ref().is_some_and(member)
    }

    /// The process at a rank of the own group that is known to exist.
    pub fn peer(&self, rank: usize) -> Peer {
        Peer(self.group.members()[rank].0)
    }

    /// A copy of its hints.
    pub fn hints(&self) -> Info {
        lock(&self.info).clone()
    }

    /// Its error handler.
    pub fn errhandler(&self) -> Arc<Errhandler> {
        lock(&self.errhandler).clone()
    }

    /// Sets its error handler.
    pub fn set_errhandler(&self, errhandler: Arc<Errhandler>) {
        *lock(&self.errhandler) = errhandler;
    }

    /// Its name.
    pub fn name(&self) -> Vec<u8> {
        lock(&self.name).clone()
    }

    /// Sets its name.
    pub fn set_name(&self, name: &[u8]) {
        *lock(&self.name) = name.to_vec();
    }
}

impl TypeObject {
    /// A datatype that is not committed yet.
    pub fn new(datatype: Datatype) -> TypeObject {
        TypeObject {
            datatype,
            attributes: Hung::default(),
            committed: AtomicBool::new(false),
            name: Mutex::new(Vec::new()),
        }
    }

    /// A committed datatype with a name.
    pub fn named(datatype: Datatype, name: &str) -> TypeObject {
        let object = TypeObject::new(datatype);
        object.commit();
        object.set_name(name.as_bytes());
        object
    }

    /// Makes it usable in communication.
    pub fn commit(&self) {
        self.datatype.commit();
        // SYNC commit: only a flag; the layout inside is published by its own OnceLock.
        self.committed.store(true, Ordering::Relaxed);
    }

    /// Whether it may be used in communication.
    pub fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }

    /// Its name.
    pub fn name(&self) -> Vec<u8> {
        lock(&self.name).clone()
    }

    /// Sets its name.
    pub fn set_name(&self, name: &[u8]) {
        *lock(&self.name) = name.to_vec();
    }
}

impl Session {
    /// A session with these hints and this error handler.
    pub fn new(info: Info, errhandler: Arc<Errhandler>) -> Session {
        Session { info, errhandler: Mutex::new(errhandler) }
    }

    /// Its error handler.
    pub fn errhandler(&self) -> Arc<Errhandler> {
        lock(&self.errhandler).clone()
    }

    /// Sets its error handler.
    pub fn set_errhandler(&self, errhandler: Arc<Errhandler>) {
        *lock(&self.errhandler) = errhandler;
    }
}

/// A datatype found by its handle; predefined ones cost no reference count.
pub(crate) enum TypeRef {
    /// Predefined.
    Basic(&'static TypeObject),
    /// Made by the program.
    Derived(Arc<TypeObject>),
}

impl Deref for TypeRef {
    type Target = TypeObject;

    fn deref(&self) -> &TypeObject {
        match self {
            TypeRef::Basic(object) => object,
            TypeRef::Derived(object) => object,
        }
    }
}

/// A communicator found by its handle.
///
/// Every call begins with one, so each thread remembers the last few and takes no lock and changes no shared memory to find them again.
#[derive(Clone)]
#[allow(
    clippy::redundant_allocation,
    reason = "the outer count belongs to one thread, so copying it is no atomic update"
)]
pub(crate) enum CommRef {
    /// One of those that are there as long as the process.
    Lasting(&'static Arc<Comm>),
    /// One that this thread has used lately.
    Recent(Rc<Arc<Comm>>),
}

/// What a thread remembers, and since when.
struct Recent {
    era: u64,
    comms: Vec<(MPI_Comm, CommRef)>,
}

/// The contexts of windows' letters are from here on: one look tells whether there is any.
pub(crate) const LETTER_CONTEXTS: u32 = WINDOW << 1;

/// Marks the number of a window's communicator; those of others are smaller.
const WINDOW: u32 = 1 << 30;

/// Communicators a thread remembers.
const RECENT_MAX: usize = 4;

/// Counts how often a handle of a communicator has ended; what was remembered before is forgotten.
static ERA: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static RECENT: RefCell<Recent> = const { RefCell::new(Recent { era: 0, comms: Vec::new() }) };
}

impl CommRef {
    #[inline]
    pub(crate) fn recent(handle: MPI_Comm) -> Option<CommRef> {
        RECENT
            .try_with(|recent| {
                let recent = recent.try_borrow().ok()?;
                // SYNC era: pairs with the Release in forget_all; whoever learned that a handle has ended sees it end here.
                if recent.era != ERA.load(Ordering::Acquire) {
                    return None;
                }
                recent.comms.iter().find(|(known, _)| *known == handle).map(|(_, comm)| comm.clone())
            })
            .ok()
            .flatten()
    }

    #[cold]
    pub(crate) fn remember(handle: MPI_Comm, comm: Arc<Comm>) -> CommRef {
        let found = CommRef::Recent(Rc::new(comm));
        // A thread that is ending, or already looking, simply does not remember.
        let _ = RECENT.try_with(|recent| {
            let mut recent = recent.try_borrow_mut().ok()?;
            // SYNC era: pairs with the Release in forget_all.
            let era = ERA.load(Ordering::Acquire);
            if recent.era != era || recent.comms.len() == RECENT_MAX {
                recent.era = era;
                recent.comms.clear();
            }
            recent.comms.push((handle, found.clone()));
            Some(())
        });
        found
    }

    pub(crate) fn forget_all() {
        // SYNC era: pairs with the Acquire in recent and remember.
        ERA.fetch_add(1, Ordering::Release);
    }

    /// The communicator itself, to keep or to compare.
    #[inline]
    pub fn shared(&self) -> &Arc<Comm> {
        match self {
            CommRef::Lasting(comm) => comm,
            CommRef::Recent(comm) => comm,
        }
    }
}

impl Deref for CommRef {
    type Target = Comm;

    #[inline]
    fn deref(&self) -> &Comm {
        self.shared()
    }
}
