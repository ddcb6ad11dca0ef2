//! Suspended handlers: where they wait, and how they are woken.
//!
//! A handler that is suspended costs one box, its future. Its place in the table, with the waker that belongs to it, is
//! used again by later handlers. A wake that comes late, for a handler that has ended, wakes its successor for
//! nothing, which every future must bear.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use barewire_core::wait::Alarm;
use barewire_core::{Flow, Frame};
use barewire_sys::loan::this_thread;

use super::dispatch::Hunger;

/// A running handler's future.
pub(super) type Running = Pin<Box<dyn Future<Output = Flow> + Send>>;

/// One run of one handler; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskId {
    pub index: u32,
    run: u32,
}

/// A handler that is running or suspended, or the place for one.
pub(super) struct Task {
    pub future: Option<Running>,
    pub id: TaskId,
    pub total: u64,
    /// Packets that came while the handler was waiting for something else.
    pub frames: VecDeque<Frame>,
    pub hunger: Hunger,
    pub waker: Waker,
    word: Arc<Word>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("id", &self.id)
            .field("running", &self.future.is_some())
            .field("total", &self.total)
            .field("frames", &self.frames.len())
            .finish_non_exhaustive()
    }
}

/// All handlers that have started and not ended.
#[derive(Debug)]
pub(super) struct Tasks {
    places: Vec<Task>,
    free: Vec<u32>,
    pub woken: Arc<Woken>,
}

impl Tasks {
    pub fn new(alarm: Alarm) -> Tasks {
        let list = Mutex::new(List::default());
        let woken = Woken { any: AtomicBool::new(false), owner: AtomicU64::new(0), alarm, list };
        Tasks { places: Vec::new(), free: Vec::new(), woken: Arc::new(woken) }
    }

    /// A place for a message of `total` bytes; its future is to follow.
    pub fn open(&mut self, total: u64) -> TaskId {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = u32::try_from(self.places.len()).expect("memory ends before 2^32 futures do");
            let word =
                Arc::new(Word { index, queued: AtomicBool::new(false), woken: Arc::clone(&self.woken) });
            self.places.push(Task {
                future: None,
                id: TaskId { index, run: 0 },
                total: 0,
                frames: VecDeque::new(),
                hunger: Hunger::None,
                waker: Waker::from(Arc::clone(&word)),
                word,
            });
            index
        });
        let task = &mut self.places[index as usize];
        task.total = total;
        task.id
    }

    /// The handler, if it has not ended.
    pub fn get(&mut self, id: TaskId) -> Option<&mut Task> {
        self.places.get_mut(id.index as usize).filter(|task| task.id == id)
    }

    /// The handler at a place, if there is one.
    pub fn at(&mut self, index: u32) -> Option<TaskId> {
        let task = self.places.get(index as usize)?;
        // SYNC queued: from here on a wake counts again; the poll that follows sees whatever came before it.
        task.word.queued.swap(false, Ordering::AcqRel);
        task.future.is_some().then_some(task.id)
    }

    /// Ends a handler: its place is free, and the packets it kept go back to their sender's credit.
    pub fn close(&mut self, id: TaskId) -> Option<Running> {
        let task = self.get(id)?;
        task.id.run = task.id.run.wrapping_add(1);
        task.frames.clear();
        task.hunger = Hunger::None;
        let future = task.future.take();
        self.free.push(id.index);
        future
    }
}

/// Handlers that were woken and not polled since, and whom to tell.
#[derive(Debug)]
pub(super) struct Woken {
    any: AtomicBool,
    /// The thread that extracts.
    owner: AtomicU64,
    alarm: Alarm,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    tasks: Vec<u32>,
    /// The async task that awaits this endpoint, if there is one.
    runtime: Option<Waker>,
}

impl Woken {
    /// Whether there is something to do at the next extract.
    #[inline(always)]
    pub fn any(&self) -> bool {
        // SYNC any: only a hint to look; what there is to see is behind the lock.
        self.any.load(Ordering::Relaxed)
    }

    /// Makes the next extract look, though nobody was woken.
    pub fn look_again(&self) {
        // SYNC any: set and read by the same thread.
        self.any.store(true, Ordering::Relaxed);
    }

    /// Says that this thread is about to wait: its own wakes need no alarm, every other thread's do.
    pub fn own(&self) {
        // SYNC owner: before we sleep for the first time. A waker that does not see it yet rings needlessly, unless it
        // runs on the thread that waited before; but then it was woken by, or moved with, what came from that thread.
        self.owner.store(this_thread(), Ordering::Relaxed);
    }

    /// Takes the list of places to poll; `spare` is left in its stead.
    pub fn take(&self, spare: Vec<u32>) -> Vec<u32> {
        // SYNC any: pairs with the swap in `push`: a wake that this overwrites is in the list already.
        self.any.swap(false, Ordering::AcqRel);
        std::mem::replace(&mut self.list().tasks, spare)
    }

    /// Puts places back that were not polled.
    pub fn put_back(&self, tasks: &[u32]) {
        self.list().tasks.extend_from_slice(tasks);
        self.look_again();
    }

    /// Sets whom to wake when a handler is woken.
    pub fn set_runtime(&self, waker: &Waker) {
        let mut list = self.list();
        if !list.runtime.as_ref().is_some_and(|there| there.will_wake(waker)) {
            list.runtime = Some(waker.clone());
        }
    }

    fn push(&self, index: u32) {
        let mut list = self.list();
        list.tasks.push(index);
        let runtime = list.runtime.clone();
        drop(list);
        // SYNC any: pairs with the swap in `take`.
        let first = !self.any.swap(true, Ordering::AcqRel);
        // SYNC owner: see `own`.
        if first && self.owner.load(Ordering::Relaxed) != this_thread() {
            self.alarm.ring();
        }
        if let Some(runtime) = runtime {
            runtime.wake();
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the waker of one place says, and to whom.
#[derive(Debug)]
struct Word {
    index: u32,
    queued: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for Word {
    fn wake(self: Arc<Word>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Word>) {
        // SYNC queued: pairs with the swap in `Tasks::at`; what the waker did before is seen by the poll after it.
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.woken.push(self.index);
        }
    }
}
