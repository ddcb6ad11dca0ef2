//! Tasks: operations of many steps that go on while the program does something else.
//!
//! A collective call, a duplicate of a communicator or the service of a window is an `async` function over messages. A blocking
//! call runs it to its end at once: its steps wait where they stand. Otherwise it becomes a task, and whoever waits or polls
//! next takes it as far as it goes. A task that cannot go on says what it needs; it is looked at again when that is there.
//! There may be many windows, for long, and few letters for them: their tasks sleep until one is there, and polls do not look at them.
//! Tasks run outside the transport's door, so the program's own functions may be called from them.

use crate::message::Outcome;
use crate::object::LETTER_CONTEXTS;
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

/// Messages that are received before tasks have their turn.
const PUT_OFF_MAX: usize = 16;

/// The tasks of a process.
#[derive(Default)]
pub(crate) struct Tasks {
    count: AtomicUsize,
    /// How often they have waited since they had their turn.
    put_off: AtomicUsize,
    new: Mutex<Vec<Running>>,
    running: Mutex<Begun>,
}

/// Those that have begun.
#[derive(Default)]
struct Begun {
    /// Each of these is looked at.
    looked_at: Vec<Running>,
    /// Those that need a letter for a window, by its context.
    asleep: Vec<(u32, Running)>,
    /// Processes that had been lost when those asleep were last looked at.
    lost: usize,
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

    /// Whether they can wait for a moment longer: they have their turn after so many.
    #[cold]
    pub fn can_wait(&self) -> bool {
        // SYNC put_off: a hint like the count.
        let put_off = self.put_off.load(Ordering::Relaxed);
        self.put_off.store((put_off + 1) % PUT_OFF_MAX, Ordering::Relaxed);
        put_off + 1 < PUT_OFF_MAX
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
            Ok(_) if is_ending() => false,
            Ok(begun) => {
                !lock(&self.new).is_empty()
                    || begun.looked_at.iter().any(|one| one.can_go_on(layer))
                    || begun.next_awake(layer).is_some()
            }
            // Somebody is running them.
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Poisoned(_)) => false,
        }
    }

    /// Takes each as far as it goes.
    #[cold]
    pub fn run(&self, net: &Net) {
        let Ok(mut begun) = self.running.try_lock() else { return };
        if is_ending() {
            return;
        }
        loop {
            begun.looked_at.append(&mut lock(&self.new));
            let mut moved = false;
            let mut next = 0;
            while let Some(one) = begun.looked_at.get_mut(next) {
                if !net.with(|_, layer| one.can_go_on(layer)).unwrap_or(true) {
                    next += 1;
                    continue;
                }
                moved = true;
                match step(one) {
                    Poll::Pending => match one.sleeps_until() {
                        Some(context) => {
                            let one = begun.looked_at.swap_remove(next);
                            begun.lay_down(context, one);
                        }
                        None => next += 1,
                    },
                    Poll::Ready(outcome) => {
                        let ended = begun.looked_at.swap_remove(next);
                        self.count.fetch_sub(1, Ordering::Relaxed);
                        ended.task.end(outcome);
                    }
                }
            }
            let woken = net.with(|_, layer| begun.wake(layer)).unwrap_or(false);
            if !moved && !woken {
                return;
            }
        }
    }
}

impl Begun {
    fn lay_down(&mut self, context: u32, one: Running) {
        let at = self.asleep.partition_point(|(other, _)| *other < context);
        self.asleep.insert(at, (context, one));
    }

    /// The first of those asleep that can go on.
    fn next_awake(&self, layer: &Layer) -> Option<usize> {
        if layer.lost.len() > self.lost && !self.asleep.is_empty() {
            return Some(0);
        }
        let (mut first, mut from) = (LETTER_CONTEXTS, 0);
        while layer.tagged.waits_in(first..=u32::MAX) {
            // What waits there may be for one that is not asleep, or no letter.
            let rest = &self.asleep[from..];
            let found = rest.partition_point(|(context, _)| !layer.tagged.waits_in(first..=*context));
            let (context, one) = rest.get(found)?;
            if one.can_go_on(layer) {
                return Some(from + found);
            }
            (first, from) = (context.checked_add(1)?, from + found + 1);
        }
        None
    }

    /// Has one looked at that can go on; false if there is none.
    fn wake(&mut self, layer: &Layer) -> bool {
        let before = self.looked_at.len();
        if layer.lost.len() > self.lost {
            // Everybody hears of that.
            self.lost = layer.lost.len();
            self.looked_at.extend(self.asleep.drain(..).map(|(_, one)| one));
        }
        // There may be more, but whoever wakes one looks again when that has done what it can.
        if let Some(at) = self.next_awake(layer) {
            let (_, one) = self.asleep.remove(at);
            self.looked_at.push(one);
        }
        self.looked_at.len() > before
    }
}

impl Running {
    fn can_go_on(&self, layer: &Layer) -> bool {
        self.needs.is_empty() || self.needs.iter().any(|need| need.is_met(layer))
    }

    /// The context of the letter that it needs, if it needs nothing else.
    fn sleeps_until(&self) -> Option<u32> {
        match self.needs[..] {
            [Need { what: Event::Message(Want { context, .. }), .. }] if context >= LETTER_CONTEXTS => {
                Some(context)
            }
            _ => None,
        }
    }
}

/// Whether the thread is ending and has no place left to note needs in: it runs no tasks.
fn is_ending() -> bool {
    NEEDS.try_with(|_| ()).is_err()
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

#[cfg(test)]
mod tests {
    use super::*;
    use barewire::core::Peer;
    use barewire::core::tagged::{Envelope, Mode};

    const TAG: i32 = 0;

    fn send(net: &Net, context: u32, tag: i32) {
        let envelope = Envelope { context, tag };
        net.start_send(Peer(net.rank), envelope, Mode::Standard, (0, crate::message::kept(&[]))).unwrap();
        net.with(|endpoint, layer| endpoint.progress(layer, usize::MAX)).unwrap();
    }

    /// A task that counts the letters of a context.
    fn reader(net: &Arc<Net>, context: u32) -> Arc<AtomicUsize> {
        let (net, read) = (net.clone(), Arc::new(AtomicUsize::new(0)));
        let (own, counted) = (net.clone(), read.clone());
        net.tasks.add(Box::pin(async move {
            let want = Want { context, from: None, tag: Some(TAG) };
            loop {
                Until(&own, Need { what: Event::Message(want), lost: 0 }).await;
                own.with(|_, layer| layer.tagged.claim(&want)).unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }));
        read
    }

    #[test]
    fn polls_look_at_no_window_that_has_no_letter() {
        let net = Arc::new(Net::open(false).unwrap());
        let context = |window: usize| LETTER_CONTEXTS + 2 * window as u32;
        let read: Vec<_> = (0..50).rev().map(|window| reader(&net, context(window))).collect();
        let read = |window: usize| read[49 - window].load(Ordering::Relaxed);
        net.tasks.run(&net);
        let looked_at = || net.tasks.running.lock().unwrap().looked_at.len();
        let awake = || net.with(|_, layer| net.tasks.running.lock().unwrap().next_awake(layer)).unwrap();
        assert_eq!((looked_at(), awake()), (0, None));
        // What is no letter wakes nobody, and hides no letter.
        let no_letters = [(context(3), TAG + 1), (context(60), TAG), (7, TAG)];
        no_letters.into_iter().for_each(|(context, tag)| send(&net, context, tag));
        assert_eq!(awake(), None);
        send(&net, context(9), TAG);
        assert_eq!(awake(), Some(9));
        [9, 0, 49].into_iter().for_each(|window| send(&net, context(window), TAG));
        assert_eq!(awake(), Some(0));
        net.tasks.run(&net);
        assert_eq!((read(0), read(9), read(49), read(3)), (1, 2, 1, 0));
        assert_eq!((looked_at(), awake()), (0, None));
    }
}
