//! One-sided communication: windows, by messages to a task that serves each.
//!
//! An operation is a `letter` from the origin to the target. The window's task there takes letters in the order in which they
//! arrive and does what they say, one after the other, so accumulates are atomic and a letter that asks for an answer is
//! answered after all that its sender wrote before. The task goes on whenever the target is inside a call.
//! `origin` writes letters, `serve` does what they say, `sync` has the epochs.
//!
//! Where the library allocated the memory and all processes are on one host, everybody has all of it mapped and nothing is asked of
//! the target: that is `direct`. Only what processes tell each other about epochs goes by letters then.

pub(crate) mod direct;
mod letter;
pub(crate) mod origin;
mod serve;
mod sync;

use crate::attribute::{Hung, Value};
use crate::boundary::{MPI_Comm, MPI_Win, Memory};
use crate::fault::Errhandler;
use crate::message::Outcome;
use crate::object::Comm;
use crate::world::lock;
use barewire::core::Peer;
use barewire::core::tagged::Request;
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::info::Info;
use direct::Direct;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// How a window came by its memory; the numbers are the standard's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// The program gave it.
    Create = 311,
    /// The library allocated it.
    Allocate = 312,
    /// The program attaches it later.
    Dynamic = 313,
    /// It is the same memory at all processes.
    Shared = 314,
}

/// A window.
pub(crate) struct Window {
    /// A communicator of its own.
    pub comm: Arc<Comm>,
    /// How it came by its memory.
    pub flavor: Flavor,
    /// What each rank has.
    pub shapes: Vec<Shape>,
    /// The attributes the program hung on it.
    pub attributes: Hung,
    /// Hints.
    pub info: Mutex<Info>,
    /// The values of the predefined attributes; programs get their addresses.
    pub predefined: Predefined,
    state: Mutex<State>,
    /// Which epochs are open towards everybody, as `sync` writes it: looking at it takes no lock.
    open: AtomicU8,
    answers: AtomicU32,
    name: Mutex<Vec<u8>>,
    errhandler: Mutex<Arc<Errhandler>>,
    held: Held,
    /// Set where every process has all of its memory mapped.
    direct: Option<Direct>,
}

/// The memory one rank has in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Its address there; where all memory is mapped, here.
    pub base: usize,
    /// How many bytes.
    pub size: i64,
    /// What displacements count.
    pub unit: i64,
}

/// Memory that goes with the window.
pub(crate) enum Held {
    /// None: it is the program's.
    Nothing,
    /// A block from `allocate`.
    Block(Memory),
    /// What all processes have in common.
    Common(Direct),
}

/// Predefined attributes.
#[derive(Debug)]
pub(crate) struct Predefined {
    /// Bytes.
    pub size: Value,
    /// What displacements count.
    pub unit: Value,
    /// How it came by its memory.
    pub flavor: Value,
    /// Whether there is one copy of it: there is.
    pub model: Value,
}

/// What changes.
#[derive(Default)]
struct State {
    /// Who holds the lock of this process's part, and how.
    holders: HashMap<usize, Hold>,
    /// Who waits for it, with the tag of the answer.
    waiting: VecDeque<(usize, Hold, i32)>,
    /// For each rank how often it has posted and not been started to, and completed and not been waited for.
    posts: HashMap<usize, u32>,
    completions: HashMap<usize, u32>,
    /// Memory of a dynamic window.
    attached: Vec<(usize, usize)>,
    /// Who asked for memory that is not there, and has not been told.
    refused: HashSet<usize>,
    /// Answers that have not gone yet, with their bytes, the oldest first.
    answering: VecDeque<(Request, usize)>,
    /// All of their bytes, with what each takes besides.
    answering_bytes: usize,
    /// What this process may do now.
    epoch: Epoch,
    /// Operations under way, by target.
    pending: HashMap<usize, Vec<Request>>,
    /// Targets with operations they have not confirmed.
    dirty: Vec<usize>,
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    Exclusive,
    Shared,
}

/// Which epochs are open at this process.
#[derive(Default)]
struct Epoch {
    fenced: bool,
    started: Option<Vec<usize>>,
    posted: Option<Vec<usize>>,
    /// Which ranks are locked, and whether by this process alone.
    locked: Vec<(usize, bool)>,
    locked_all: bool,
}

/// The standard's `MPI_WIN_UNIFIED`.
const UNIFIED: i64 = 321;

impl Window {
    /// A window over a communicator that is its own; its service begins.
    pub fn open(comm: Comm, flavor: Flavor, shapes: Vec<Shape>, held: Held, info: Info) -> Arc<Window> {
        let mine = shapes[comm.rank];
        let (held, direct) = match held {
            Held::Common(direct) => (Held::Nothing, Some(direct)),
            held => (held, None),
        };
        let window = Arc::new(Window {
            flavor,
            attributes: Hung::default(),
            info: Mutex::new(info),
            predefined: Predefined {
                size: Value::integer(mine.size),
                unit: Value::integer(mine.unit),
                flavor: Value::integer(flavor as i64),
                model: Value::integer(UNIFIED),
            },
            state: Mutex::new(State::default()),
            open: AtomicU8::new(0),
            answers: AtomicU32::new(0),
            name: Mutex::new(Vec::new()),
            errhandler: Mutex::new(comm.errhandler()),
            held,
            direct,
            comm: Arc::new(comm),
            shapes,
        });
        let served = window.clone();
        window.comm.net.tasks.add(Box::pin(async move { serve::serve(&served).await.into() }));
        window
    }

    /// Ends the service, and gives back memory that goes with the window.
    pub fn close(&self) -> Result<()> {
        self.tell(self.comm.rank, &letter::Head::of(letter::Kind::Close))?;
        self.comm.net.poll()?;
        if let Held::Block(memory) = self.held {
            crate::boundary::free(memory);
        }
        self.direct.iter().for_each(|direct| direct.release(&self.comm.net));
        Ok(())
    }

    /// Whether this process has everybody's memory.
    #[inline]
    pub fn is_mapped(&self) -> bool {
        self.direct.is_some()
    }

    /// The memory of this process.
    pub fn mine(&self) -> Shape {
        self.shapes[self.comm.rank]
    }

    /// The rank of a target, if it is one.
    pub fn rank(&self, rank: i32) -> Result<usize> {
        self.comm.group.process(rank).map(|_| rank as usize)
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

    /// Memory the program adds to a dynamic window.
    pub fn attach(&self, memory: Memory, size: i64) -> Result<()> {
        let len = usize::try_from(size).map_err(|_| Error::new(Class::Size, format!("size is {size}")))?;
        self.dynamic()?;
        let mut state = self.state();
        let (start, end) = (memory.address(), memory.address().saturating_add(len));
        if state.attached.iter().any(|&(at, len)| start < at + len && at < end) {
            return Err(Error::new(Class::RmaAttach, "some of the memory is attached already"));
        }
        state.attached.push((start, len));
        Ok(())
    }

    /// Memory the program takes out of a dynamic window.
    pub fn detach(&self, memory: Memory) -> Result<()> {
        self.dynamic()?;
        let mut state = self.state();
        let found = state.attached.iter().position(|&(at, _)| at == memory.address());
        let found = found.ok_or_else(|| Error::new(Class::RmaAttach, "no attached memory begins there"))?;
        state.attached.swap_remove(found);
        Ok(())
    }

    fn dynamic(&self) -> Result<()> {
        match self.flavor {
            Flavor::Dynamic => Ok(()),
            _ => Err(Error::new(Class::RmaFlavor, "the window is not a dynamic one")),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn peer(&self, rank: usize) -> Peer {
        self.comm.peer(rank)
    }

    /// The tag of the next answer to this process.
    fn next_answer(&self) -> i32 {
        // SYNC answers: only this number.
        (self.answers.fetch_add(1, Ordering::Relaxed) & 0x1fff_ffff) as i32 + 1
    }
}

/// A window in use. The outer count belongs to one thread, so copying it is no atomic update.
pub(crate) type WinRef = Rc<Arc<Window>>;

/// Counts how often a handle of a window has ended; what was remembered before is forgotten.
static ERA: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The window that a thread used last, and since when it knows it.
    static LAST: RefCell<Option<(u64, MPI_Win, WinRef)>> = const { RefCell::new(None) };
}

/// The window of a handle, if this thread used it last.
#[inline]
pub(crate) fn recent(handle: MPI_Win) -> Option<WinRef> {
    let look = |last: &RefCell<Option<(u64, MPI_Win, WinRef)>>| {
        // SYNC era: pairs with the Release in forget_all; whoever learned that a handle has ended sees it end here.
        let era = ERA.load(Ordering::Acquire);
        let last = last.try_borrow().ok()?;
        last.as_ref().filter(|(since, known, _)| *since == era && *known == handle).map(|last| last.2.clone())
    };
    LAST.try_with(look).ok().flatten()
}

/// Remembers a window as the last that this thread used.
#[cold]
#[allow(clippy::redundant_allocation, reason = "see WinRef")]
pub(crate) fn remember(handle: MPI_Win, window: Arc<Window>) -> WinRef {
    let found = Rc::new(window);
    // A thread that is ending, or already looking, simply does not remember.
    let _ = LAST.try_with(|last| {
        // SYNC era: pairs with the Release in forget_all.
        let era = ERA.load(Ordering::Acquire);
        *last.try_borrow_mut().ok()? = Some((era, handle, found.clone()));
        Some(())
    });
    found
}

/// Forgets what threads remember; this one lets its own go, with the memory it keeps.
pub(crate) fn forget_all() {
    // SYNC era: pairs with the Acquire in recent and remember.
    ERA.fetch_add(1, Ordering::Release);
    let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| last.take()));
}

/// A request for an operation on a window; its errors are told to `MPI_COMM_SELF`.
pub(crate) fn request(
    window: &Window,
    steps: impl Future<Output = Outcome> + Send + 'static,
) -> Result<usize> {
    let net = &window.comm.net;
    let task = net.tasks.add(Box::pin(steps));
    let request = net.with(|_, layer| layer.requests.add_task(MPI_Comm(0x102), task))?;
    net.tasks.run(net);
    Ok(request)
}
