//! Tasks: operations of many steps that go on while the program does something else.
//!
//! A collective call, a duplicate of a communicator or the service of a window is an `async` function over messages. A blocking
//! call runs it to its end at once: its steps wait where they stand. Otherwise it becomes a task, and whoever waits or polls
//! next takes it as far as it goes. A task that cannot go on says what it needs; it is looked at again when that is there.
//! Tasks run outside the transport's door, so the program's own functions may be called from them.

use crate::message::Outcome;
use crate::transport::{Layer, Net};
use crate::world::lock;
use barewire::core::tagged::{Request, Want};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::task::{Context, Poll, Waker};

/// The steps of a task.
pub(crate) type Steps = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// What the program's request knows of a task.
#[derive(Debug, Default)]
pub(crate) struct Task {
    done: AtomicBool,
    outcome: Mutex<Option<Outcome>>,
}

impl Task {
    /// Whether it has ended.
    #[inline]
    pub fn is_done(&self) -> bool {
        // SYNC done: pairs with the Release in end; what the task wrote is visible to whoever sees it done.
        self.done.load(Ordering::Acquire)
    }

    /// How it ended.
    pub fn outcome(&self) -> Outcome {
        lock(&self.outcome).take().unwrap_or(Outcome::NOBODY)
    }

    fn end(&self, outcome: Outcome) {
        *lock(&self.outcome) = Some(outcome);
        // SYNC done: pairs with the Acquire in is_done.
        self.done.store(true, Ordering::Release);
    }
}

/// What a task needs in order to go on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    /// The event.
    pub what: Event,
    /// Or that more processes than this have been lost.
    pub lost: usize,
}

/// What a task can wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// The end of a send or receive.
    End(Request),
    /// A message that nobody has asked for yet.
    Message(Want),
    /// That no send is left whose handle is gone.
    Flushed,
}

impl Need {
    /// Whether it is there.
    pub fn is_met(&self, layer: &Layer) -> bool {
        let there = match &self.what {
            Event::End(request) => layer.tagged.is_done(*request),
            Event::Message(want) => layer.tagged.probe(want).is_some(),
            Event::Flushed => layer.requests.has_left_all(&layer.tagged),
        };
        there || layer.lost.len() > self.lost
    }
}

/// The tasks of a process.
#[derive(Default)]
pub(crate) struct Tasks {
    count: AtomicUsize,
    new: Mutex<Vec<Running>>,
    running: Mutex<Vec<Running>>,
}

struct Running {
    steps: Steps,
    needs: Vec<Need>,
    task: Arc<Task>,
}

thread_local! {
    /// What the task this thread is running has said it needs.
    static NEEDS: RefCell<Vec<Need>> = const { RefCell::new(Vec::new()) };
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Tasks {
    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        // SYNC count: a hint; the tasks themselves are behind their locks.
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Adds a task; it begins when tasks are next run.
    pub fn add(&self, steps: Steps) -> Arc<Task> {
        let task = Arc::new(Task::default());
        lock(&self.new).push(Running { steps, needs: Vec::new(), task: task.clone() });
        self.count.fetch_add(1, Ordering::Relaxed);
        task
    }

    /// Whether one of them can go on.
    #[cold]
    pub fn can_go_on(&self, layer: &Layer) -> bool {
        match self.running.try_lock() {
            Ok(running) => {
                !lock(&self.new).is_empty()
                    || running.iter().any(|one| one.needs.iter().any(|need| need.is_met(layer)))
            }
            // Somebody is running them.
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Poisoned(_)) => false,
        }
    }

    /// Takes each as far as it goes.
    #[cold]
    pub fn run(&self, net: &Net) {
        let Ok(mut running) = self.running.try_lock() else { return };
        loop {
            running.append(&mut lock(&self.new));
            let mut moved = false;
            let mut next = 0;
            while let Some(one) = running.get_mut(next) {
                let met =
                    |layer: &Layer| one.needs.is_empty() || one.needs.iter().any(|need| need.is_met(layer));
                if !net.with(|_, layer| met(layer)).unwrap_or(true) {
                    next += 1;
                    continue;
                }
                moved = true;
                match step(one) {
                    Poll::Pending => next += 1,
                    Poll::Ready(outcome) => {
                        let ended = running.swap_remove(next);
                        self.count.fetch_sub(1, Ordering::Relaxed);
                        ended.task.end(outcome);
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }
}

fn step(one: &mut Running) -> Poll<Outcome> {
    NEEDS.with_borrow_mut(Vec::clear);
    let polled = one.steps.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    one.needs = NEEDS.take();
    polled
}

/// Ends when a need is met.
#[derive(Debug)]
pub(crate) struct Until<'a>(pub &'a Net, pub Need);

impl Future for Until<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let Until(net, need) = *self;
        if net.with(|_, layer| need.is_met(layer)).unwrap_or(true) {
            return Poll::Ready(());
        }
        NEEDS.with_borrow_mut(|needs| needs.push(need));
        Poll::Pending
    }
}

/// Runs steps that wait where they stand, and so end at once.
pub(crate) fn at_once<T>(steps: impl Future<Output = T>) -> Option<T> {
    match std::pin::pin!(steps).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}
