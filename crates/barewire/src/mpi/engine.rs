//! The engine: one endpoint with its tagged messages, and the tasks that go on whenever anybody polls or waits.
//!
//! Everything of one process's MPI shares it. Nothing of the program's is called while it is borrowed: wakers are called, and tasks are run, after
//! whatever made progress has let go of it.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use barewire_core::tagged::{Failure, Request, Sent, Status, Tagged};
use barewire_core::wait::{Alarm, Waiting};
use barewire_core::{Ahead, Deliver, Endpoint, Flow, Incoming, Peer, PeerState, Port};
use barewire_sys::loan::this_thread;
use barewire_sys::wirebuf::Places;

use super::fault::Error;
use super::group::{Group, Process};
use crate::deadline::Deadline;
use crate::spmd::World;

/// Word that a communicator is of no use for collective calls any more; the immediate is its context.
const BREAK: Port = Port(0xc013);
/// Nothing: it is sent so that there is a link, by whose end a loss is noticed.
const HELLO: Port = Port(0xc014);
/// Communicators that can be known to be broken.
const BREAKS_MAX: usize = 4096;

/// What a process's communicators, requests and windows share.
pub(super) struct Engine {
    /// `None` once this process has left the job.
    world: RefCell<Option<World<Layer>>>,
    tasks: RefCell<Vec<Task>>,
    /// Somebody who waits here can go on.
    ready: Arc<AtomicBool>,
    /// Who watches the endpoint's descriptor: it has to ask again to be woken after anybody else has made progress.
    server: Cell<Option<Waker>>,
    /// The lowest number that no communicator of this process has had.
    pub next_id: Cell<u32>,
    pub me: Peer,
    pub size: u32,
}

/// The messages of an endpoint, and who waits for them.
#[derive(Debug)]
pub(super) struct Layer {
    pub tagged: Tagged,
    /// Whether each peer is gone.
    gone: Vec<bool>,
    breaks: HashMap<u32, Break>,
    /// Who waits for the end of a request.
    wakers: HashMap<Request, Waker>,
    /// Who waits for the end of an operation on a window.
    region_wakers: Vec<Waker>,
    /// Wakers to be called when nobody borrows the engine.
    woken: Vec<Waker>,
    /// Requests whose owner has gone; they are taken when they have ended.
    orphans: HashSet<Request>,
    /// Whether a link to each peer was asked for, or is there.
    greeted: Vec<bool>,
}

/// Why a communicator is of no use for collective calls any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Break {
    /// The first call that cannot be finished. Those before it still can.
    pub since: u64,
    pub because_of: Peer,
    /// It is gone; otherwise it gave up.
    pub lost: bool,
    /// Since which call it is broken, as we have told the other members; as good as never if we have not.
    told: u64,
}

impl Break {
    pub fn error(&self) -> Error {
        match self.lost {
            true => Error::Lost(self.because_of.into()),
            false => Error::GaveUp(self.because_of.into()),
        }
    }
}

impl Deliver for Layer {
    const LEAVES: bool = Tagged::LEAVES;

    #[inline]
    fn deliver(&mut self, endpoint: &mut Endpoint, packet: Incoming<'_>) -> Flow {
        match packet.port {
            BREAK => self.on_break(packet),
            HELLO => Flow::Continue,
            _ => self.tagged.deliver(endpoint, packet),
        }
    }

    fn place<'a>(&'a mut self, ahead: &Ahead, places: &mut Places<'a>) {
        self.tagged.place(ahead, places);
    }

    fn placed(&mut self, endpoint: &mut Endpoint, ahead: &Ahead) -> Flow {
        self.tagged.placed(endpoint, ahead)
    }

    fn peer_lost(&mut self, endpoint: &mut Endpoint, peer: Peer) {
        self.tagged.peer_lost(endpoint, peer);
        if let Some(gone) = self.gone.get_mut(peer.0 as usize) {
            *gone = true;
        }
        self.wake_all();
    }
}

impl Layer {
    fn new(endpoint: &Endpoint) -> Layer {
        let mut tagged = Tagged::new(endpoint);
        tagged.note_ends();
        Layer {
            tagged,
            gone: vec![false; endpoint.size() as usize],
            breaks: HashMap::new(),
            wakers: HashMap::new(),
            region_wakers: Vec::new(),
            woken: Vec::new(),
            orphans: HashSet::new(),
            greeted: vec![false; endpoint.size() as usize],
        }
    }

    fn on_break(&mut self, mut packet: Incoming<'_>) -> Flow {
        let (Ok(context), Some(since), Some(whom)) =
            (u32::try_from(packet.imm), packet.read_u64(), packet.read_u64())
        else {
            return Flow::Distrust;
        };
        let because_of = Peer((whom >> 1) as u32);
        self.note_break(context, Break { since, because_of, lost: whom & 1 == 1, told: u64::MAX });
        self.wake_all();
        Flow::Continue
    }

    /// The earliest break of a communicator counts.
    fn note_break(&mut self, context: u32, news: Break) -> Option<&mut Break> {
        if self.breaks.len() >= BREAKS_MAX && !self.breaks.contains_key(&context) {
            return None;
        }
        let known = self.breaks.entry(context).or_insert(news);
        if news.since < known.since {
            *known = Break { told: known.told, ..news };
        }
        Some(known)
    }

    /// Why a collective call of a communicator cannot be finished, if so.
    pub fn broken(&self, context: u32, turn: u64) -> Option<Error> {
        self.breaks.get(&context).filter(|known| known.since <= turn).map(Break::error)
    }

    /// A communicator is of no use any more from a collective call on: remembers it, and tells the others, unless they know of an earlier one.
    #[cold]
    pub fn break_up(&mut self, endpoint: &mut Endpoint, group: &Group, context: u32, news: Break) {
        let Some(known) = self.note_break(context, news).filter(|known| known.since < known.told) else {
            return;
        };
        known.told = known.since;
        let whom = u64::from(known.because_of.0) << 1 | u64::from(known.lost);
        let (word, me) = ([known.since, whom].map(u64::to_le_bytes), endpoint.me());
        for &Process(other) in group.members().iter().filter(|other| other.0 != me.0) {
            // Whoever is gone too need not know.
            let _ = endpoint.reply(Peer(other), BREAK, u64::from(context), word.as_flattened());
        }
        endpoint.flush();
        self.wake_all();
    }

    /// A break because of an error at this rank, or one that was told it.
    pub fn break_for(error: &Error, me: Peer, turn: u64) -> Break {
        let (because_of, lost) = match *error {
            Error::Lost(Process(other)) => (Peer(other), true),
            Error::GaveUp(Process(other)) => (Peer(other), false),
            _ => (me, false),
        };
        Break { since: turn, because_of, lost, told: u64::MAX }
    }

    /// Wakes `waker` when the request has ended, or when somebody is lost or gives up.
    pub fn wake_at_end(&mut self, request: Request, waker: &Waker) {
        self.wakers.insert(request, waker.clone());
    }

    /// Wakes `waker` when some operation on a window has ended.
    pub fn wake_at_region_end(&mut self, waker: &Waker) {
        if !self.region_wakers.iter().any(|known| known.will_wake(waker)) {
            self.region_wakers.push(waker.clone());
        }
    }

    fn wake_all(&mut self) {
        self.woken.extend(self.wakers.drain().map(|(_, waker)| waker));
        self.woken.append(&mut self.region_wakers);
    }

    /// Looks which requests have ended.
    #[inline]
    fn harvest(&mut self) {
        while let Some(request) = self.tagged.next_end() {
            if !self.wakers.is_empty() {
                self.woken.extend(self.wakers.remove(&request));
            }
            if !self.orphans.is_empty() && self.orphans.remove(&request) {
                self.tagged.take(request);
            }
        }
    }

    /// Nobody will ask for the outcome of a request. It goes on, unless it is to be taken back.
    pub fn abandon(&mut self, endpoint: &mut Endpoint, request: Request, take_back: bool) {
        self.wakers.remove(&request);
        if take_back {
            self.tagged.cancel(endpoint, request);
        }
        if self.tagged.take(request).is_none() {
            self.orphans.insert(request);
        }
    }

    /// Why there is no use in waiting for just anybody of the group: all but us are gone.
    pub fn alone(&self, group: &Group, me: Peer) -> Option<Error> {
        let mut others = group.members().iter().filter(|other| other.0 != me.0).peekable();
        let first = others.peek().copied().copied()?;
        others.all(|&Process(other)| self.is_gone(Peer(other))).then_some(Error::Lost(first))
    }

    /// Whether a process is gone, as far as is known.
    pub fn is_gone(&self, peer: Peer) -> bool {
        self.gone.get(peer.0 as usize).is_some_and(|&gone| gone)
    }

    /// Makes sure that the loss of a peer from whom something is awaited is noticed, though nothing was ever sent to it.
    #[inline]
    pub fn greet(&mut self, endpoint: &mut Endpoint, peer: Peer) {
        if let Some(greeted) = self.greeted.get_mut(peer.0 as usize).filter(|greeted| !**greeted) {
            let is_known = peer == endpoint.me() || endpoint.peer_state(peer) != PeerState::Unknown;
            *greeted = is_known || endpoint.send(peer, HELLO, 0, &[]).is_ok();
        }
    }
}

/// A task: steps that go on while the program does something else.
struct Task {
    steps: Pin<Box<dyn Future<Output = ()>>>,
    flag: Arc<Flag>,
}

/// Says that somebody can go on.
#[derive(Debug)]
struct Flag {
    is_up: AtomicBool,
    ready: Arc<AtomicBool>,
    /// The thread of the engine, and what wakes it from its sleep if another one raises the flag.
    thread: u64,
    alarm: Option<Alarm>,
}

impl Flag {
    fn raise(&self) {
        // SYNC flag: pairs with the Acquire in take(): whoever sees it sees what made it go up.
        self.is_up.store(true, Ordering::Release);
        // SYNC ready: pairs with the Acquire of whoever waits.
        self.ready.store(true, Ordering::Release);
        if let Some(alarm) = self.alarm.as_ref().filter(|_| this_thread() != self.thread) {
            alarm.ring();
        }
    }

    fn take(&self) -> bool {
        // SYNC flag: pairs with the Release in raise().
        self.is_up.swap(false, Ordering::Acquire)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Flag>) {
        self.raise();
    }

    fn wake_by_ref(self: &Arc<Flag>) {
        self.raise();
    }
}

impl Engine {
    pub fn new(endpoint: Endpoint) -> Rc<Engine> {
        let (layer, me, size) = (Layer::new(&endpoint), endpoint.me(), endpoint.size());
        Rc::new(Engine {
            world: RefCell::new(Some(World::new(endpoint, layer))),
            tasks: RefCell::new(Vec::new()),
            ready: Arc::new(AtomicBool::new(false)),
            server: Cell::new(None),
            next_id: Cell::new(0),
            me,
            size,
        })
    }

    /// Does something with the world, which nothing of the program's may be called from.
    #[inline]
    pub fn with<R>(&self, body: impl FnOnce(&mut World<Layer>) -> R) -> Result<R, Error> {
        match &mut *self.world.borrow_mut() {
            Some(world) => Ok(body(world)),
            None => Err(Error::Finished),
        }
    }

    /// Does something with the endpoint and the messages.
    #[inline]
    pub fn with_layer<R>(&self, body: impl FnOnce(&mut Endpoint, &mut Layer) -> R) -> Result<R, Error> {
        self.with(|world| body(&mut world.endpoint, &mut world.hub.layer))
    }

    /// Leaves the job.
    pub fn close(&self) {
        let world = self.world.borrow_mut().take();
        let tasks = self.tasks.take();
        drop((world, tasks));
    }

    /// Takes what has come, and everything as far as it goes. Never waits. Says how many packets it took.
    pub fn poll(&self) -> Result<usize, Error> {
        let taken = self.make_progress()?;
        self.call_server();
        Ok(taken)
    }

    /// [`Engine::poll`] by who watches the endpoint's descriptor. True if there is nothing to do before that is readable; `waker` is called when
    /// this has to be asked again all the same.
    pub fn serve(&self, waker: &Waker) -> Result<bool, Error> {
        let taken = self.make_progress()?;
        self.server.set(Some(waker.clone()));
        Ok(taken == 0 && self.with(|world| world.endpoint.doze())?)
    }

    #[inline]
    fn call_server(&self) {
        self.server.take().into_iter().for_each(Waker::wake);
    }

    fn make_progress(&self) -> Result<usize, Error> {
        let (taken, woken) = self.with(|world| {
            let taken = world.look();
            let layer = &mut world.hub.layer;
            layer.tagged.advance(&mut world.endpoint);
            layer.harvest();
            if taken > 0 {
                layer.woken.append(&mut layer.region_wakers);
            }
            (taken, std::mem::take(&mut layer.woken))
        })?;
        woken.into_iter().for_each(Waker::wake);
        self.run_tasks();
        Ok(taken)
    }

    /// Waits until `done`, while tasks go on.
    pub fn wait(
        &self,
        what: &'static str,
        on: Option<Peer>,
        mut done: impl FnMut(&mut Endpoint, &mut Layer) -> bool,
    ) -> Result<(), Error> {
        let deadline = Deadline::after(self.with(|world| world.timeout())?);
        self.wait_by(deadline, Waiting { what, on }, &mut done)
    }

    /// Waits a moment for nothing in particular.
    pub fn pause(&self, length: std::time::Duration) -> Result<(), Error> {
        let waiting = Waiting { what: "a lock", on: None };
        match self.wait_by(Deadline::after(Some(length)), waiting, &mut |_, _| false) {
            Err(Error::TimedOut) => Ok(()),
            other => other,
        }
    }

    fn wait_by(
        &self,
        deadline: Deadline,
        waiting: Waiting,
        done: &mut impl FnMut(&mut Endpoint, &mut Layer) -> bool,
    ) -> Result<(), Error> {
        self.call_server();
        loop {
            self.run_tasks();
            let mut is_done = false;
            let (waited, woken) = self.with(|world| {
                let waited = world.wait_until(waiting, deadline.left(), |endpoint, layer, ended| {
                    layer.tagged.advance(endpoint);
                    layer.harvest();
                    if ended > 0 {
                        layer.woken.append(&mut layer.region_wakers);
                    }
                    is_done = done(endpoint, layer);
                    // SYNC ready: pairs with the Release in raise().
                    is_done || !layer.woken.is_empty() || self.ready.load(Ordering::Acquire)
                });
                (waited, std::mem::take(&mut world.hub.layer.woken))
            })?;
            woken.into_iter().for_each(Waker::wake);
            if is_done {
                return Ok(());
            }
            waited?;
        }
    }

    /// Waits for the end of a request that borrows what a call has lent: when this returns it has ended in one way or another.
    pub fn finish(&self, what: &'static str, on: Option<Peer>, request: Request) -> Result<Status, Error> {
        self.finish_unless(what, on, request, |_| None)
    }

    /// [`Engine::finish`] of a request that is broken off if there is no more use in waiting.
    pub fn finish_unless(
        &self,
        what: &'static str,
        on: Option<Peer>,
        request: Request,
        vain: impl Fn(&Layer) -> Option<Error>,
    ) -> Result<Status, Error> {
        let mut why = None;
        let waited = self.wait(what, None, |endpoint, layer| {
            if layer.tagged.is_done(request) {
                return true;
            }
            on.iter().for_each(|&peer| layer.greet(endpoint, peer));
            why = vain(layer);
            why.is_some()
        });
        let status = self.with_layer(|endpoint, layer| {
            layer.tagged.take(request).or_else(|| {
                layer.tagged.break_off(endpoint, request);
                layer.tagged.take(request)
            })
        })?;
        waited?;
        why.map_or(status.ok_or(Error::Cancelled), Err)
    }

    pub fn finish_send(&self, to: Peer, sent: Sent) -> Result<(), Error> {
        match sent {
            Sent::Done => Ok(()),
            Sent::Pending(request) => {
                let status = self.finish("the end of a send", Some(to), request)?;
                status.failure.map_or(Ok(()), |failure| Err(failed(failure, 0)))
            }
        }
    }

    /// Has a future go on whenever somebody polls or waits.
    pub fn spawn(self: &Rc<Engine>, steps: impl Future<Output = ()> + 'static) {
        let flag = self.flag(None);
        flag.raise();
        self.tasks.borrow_mut().push(Task { steps: Box::pin(steps), flag });
        self.run_tasks();
    }

    fn flag(&self, alarm: Option<Alarm>) -> Arc<Flag> {
        let is_up = AtomicBool::new(false);
        Arc::new(Flag { is_up, ready: Arc::clone(&self.ready), thread: this_thread(), alarm })
    }

    /// Whether nothing goes on meanwhile.
    pub fn has_no_tasks(&self) -> bool {
        self.tasks.borrow().is_empty()
    }

    /// Takes every task that can go on as far as it goes.
    #[inline]
    fn run_tasks(&self) {
        // SYNC ready: pairs with the Release in raise().
        if self.ready.swap(false, Ordering::Acquire) {
            self.run_ready_tasks();
        }
    }

    #[cold]
    fn run_ready_tasks(&self) {
        // A task may come back here by what it calls; then it finds none.
        let mut tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        while let Some(at) = tasks.iter().position(|task| task.flag.take()) {
            let waker = Waker::from(Arc::clone(&tasks[at].flag));
            if tasks[at].steps.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                tasks.swap_remove(at);
            }
            tasks.append(&mut self.tasks.borrow_mut());
        }
        *self.tasks.borrow_mut() = tasks;
    }

    /// Drives a future of ours to its end.
    pub fn drive<F: Future>(&self, what: &'static str, future: F) -> Result<F::Output, Error> {
        self.drive_with(what, None, future)
    }

    /// Drives any future to its end: others may wake it from another thread.
    pub fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        let alarm = self.with(|world| world.endpoint.alarm())?;
        let alarm = alarm.map_err(|error| Error::System(error.to_string()))?;
        self.drive_with("a future", Some(alarm), future)
    }

    fn drive_with<F: Future>(
        &self,
        what: &'static str,
        alarm: Option<Alarm>,
        future: F,
    ) -> Result<F::Output, Error> {
        let flag = self.flag(alarm);
        let waker = Waker::from(Arc::clone(&flag));
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(done);
            }
            self.wait(what, None, |_, _| flag.take())?;
        }
    }

    /// Requests whose owners have gone: takes back what has not begun, and waits for the rest.
    pub fn settle_orphans(&self) -> Result<(), Error> {
        self.with_layer(|endpoint, layer| {
            for &request in &layer.orphans {
                layer.tagged.cancel(endpoint, request);
            }
        })?;
        self.wait("sends that were left behind", None, |_, layer| layer.orphans.is_empty())
    }
}

/// What a failure of a message is to the program, whose place for it had so many bytes.
pub(super) fn failed(failure: Failure, room: u64) -> Error {
    match failure {
        Failure::Truncated { over } => Error::Truncated { over, room },
        Failure::Lost(peer) => Error::Lost(peer.into()),
        _ => Error::Cancelled,
    }
}

/// The engine, while anybody but its own tasks still has it.
pub(super) fn engine(engine: &Weak<Engine>) -> Result<Rc<Engine>, Error> {
    engine.upgrade().ok_or(Error::Finished)
}
