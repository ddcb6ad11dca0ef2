//! Requests: operations under way, which are futures, and can be waited for and tested as well.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use barewire_core::Peer;
use barewire_core::tagged::{self, Status};

use super::engine::{Engine, engine};
use super::fault::Error;
use super::group::Group;
use crate::spmd::Phase;

/// An operation under way, with an outcome of type `R`: what it was given comes back with it.
///
/// It goes on whenever anything of this process's MPI is called or polled. As a future it is woken when it has ended; see
/// [`Comm::run`](super::Comm::run) and [`Comm::serve`](super::Comm::serve) for who makes progress meanwhile. One that is dropped does no harm: a
/// send and a collective call go on by themselves; a receive whose message has not come is taken back, and one whose message is arriving loses it.
///
/// ```
/// use barewire::mpi;
/// mpi::launch(&[2], |comm| {
///     let other = 1 - comm.rank();
///     let receive = comm.ireceive(vec![0.0; 3], other, 7)?;
///     let send = comm.isend(vec![1.5, 2.5], other, 7)?;
///     let (numbers, status) = receive.wait()?;
///     assert_eq!((numbers, status.len), (vec![1.5, 2.5, 0.0], 2));
///     assert_eq!(send.wait()?, [1.5, 2.5]);
///     Ok::<(), mpi::Error>(())
/// }).unwrap();
/// ```
#[must_use = "a receive that is dropped is taken back"]
pub struct Request<R> {
    /// Keeps the engine; `None` for those in tasks, which that keeps itself.
    keep: Option<Rc<Engine>>,
    engine: Weak<Engine>,
    stage: Stage<R>,
}

enum Stage<R> {
    Ended(Result<R, Error>),
    Message(Message<R>),
    /// An operation on a window.
    Region(Phase, Box<dyn FnOnce() -> R>),
    /// A collective call.
    Task(Slot<R>),
    Taken,
}

/// Where a task leaves its outcome.
pub(super) struct Slot<R>(Rc<RefCell<Awaited<R>>>);

/// What a task came to, and who waits for it.
struct Awaited<R> {
    outcome: Option<Result<R, Error>>,
    waker: Option<Waker>,
}

impl<R> Slot<R> {
    /// The two ends of it.
    pub fn pair() -> (Slot<R>, Slot<R>) {
        let slot = Rc::new(RefCell::new(Awaited { outcome: None, waker: None }));
        (Slot(Rc::clone(&slot)), Slot(slot))
    }

    pub fn end(self, outcome: Result<R, Error>) {
        let waker = {
            let mut slot = self.0.borrow_mut();
            slot.outcome = Some(outcome);
            slot.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn take(&self) -> Option<Result<R, Error>> {
        // Only we have it: its task went without an outcome, because what it called panicked.
        let is_dead = Rc::strong_count(&self.0) == 1;
        self.0.borrow_mut().outcome.take().or(is_dead.then_some(Err(Error::Cancelled)))
    }
}

/// A send or receive.
pub(super) struct Message<R> {
    pub request: tagged::Request,
    pub from: From,
    /// When nobody asks for it any more it is taken back.
    pub take_back: bool,
    /// Makes the outcome.
    pub end: Box<dyn FnOnce(Status) -> Result<R, Error>>,
}

/// On whom a message depends.
#[derive(Debug)]
pub(super) enum From {
    Peer(Peer),
    Any(Group),
}

impl<R> Request<R> {
    pub(super) fn ended(engine: &Rc<Engine>, outcome: Result<R, Error>) -> Request<R> {
        Request::new(engine, Stage::Ended(outcome))
    }

    pub(super) fn message(engine: &Rc<Engine>, message: Message<R>) -> Request<R> {
        Request::new(engine, Stage::Message(message))
    }

    pub(super) fn region(engine: &Rc<Engine>, phase: Phase, end: impl FnOnce() -> R + 'static) -> Request<R> {
        Request::new(engine, Stage::Region(phase, Box::new(end)))
    }

    pub(super) fn task(engine: &Rc<Engine>, slot: Slot<R>) -> Request<R> {
        Request::new(engine, Stage::Task(slot))
    }

    fn new(engine: &Rc<Engine>, stage: Stage<R>) -> Request<R> {
        Request { keep: Some(Rc::clone(engine)), engine: Rc::downgrade(engine), stage }
    }

    /// The same for a task of the engine, in which it is taken back when it is dropped.
    pub(super) fn in_task(mut self) -> Request<R> {
        self.keep = None;
        if let Stage::Message(message) = &mut self.stage {
            message.take_back = true;
        }
        self
    }

    /// Waits until the operation has ended.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let sum = comm.iall_reduce(vec![comm.rank()], |a, b| a + b)?;
    ///     assert_eq!(sum.wait()?, [0 + 1 + 2]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn wait(mut self) -> Result<R, Error> {
        let engine = engine(&self.engine)?;
        if let Some(outcome) = self.look(&engine) {
            return outcome;
        }
        engine.drive("the end of a request", std::future::poll_fn(|context| self.poll_in(context)))?
    }

    /// The outcome, if the operation has ended; `None` while it has not. Makes progress.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let mut barrier = comm.ibarrier()?;
    ///     while barrier.test()?.is_none() { /* compute something */ }
    ///     assert_eq!(barrier.test(), Err(mpi::Error::Taken));
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn test(&mut self) -> Result<Option<R>, Error> {
        let engine = engine(&self.engine)?;
        if let Some(outcome) = self.look(&engine) {
            return outcome.map(Some);
        }
        engine.poll()?;
        self.look(&engine).transpose()
    }

    /// Takes a receive back whose message has not come; true if that is so, and it then ends as [`Error::Cancelled`]. Nothing else can be
    /// taken back.
    ///
    /// ```
    /// use barewire::mpi::{self, Any, Error};
    /// mpi::launch(&[1], |comm| {
    ///     let mut receive = comm.ireceive(vec![0u8; 4], Any, 7)?;
    ///     assert!(receive.cancel()?);
    ///     assert_eq!(receive.wait(), Err(Error::Cancelled));
    ///     Ok::<(), Error>(())
    /// }).unwrap();
    /// ```
    pub fn cancel(&mut self) -> Result<bool, Error> {
        let engine = engine(&self.engine)?;
        match &self.stage {
            Stage::Message(Message { request, take_back: true, .. }) => {
                engine.with_layer(|endpoint, layer| layer.tagged.cancel(endpoint, *request))
            }
            _ => Ok(false),
        }
    }

    /// The outcome, if there is one already.
    fn look(&mut self, engine: &Engine) -> Option<Result<R, Error>> {
        match &mut self.stage {
            Stage::Ended(_) => match std::mem::replace(&mut self.stage, Stage::Taken) {
                Stage::Ended(outcome) => Some(outcome),
                _ => None,
            },
            Stage::Message(message) => {
                let (request, from) = (message.request, &message.from);
                let status = engine.with_layer(|endpoint, layer| match from {
                    From::Any(group) if !layer.tagged.is_done(request) => match layer.alone(group, engine.me)
                    {
                        Some(error) => {
                            layer.abandon(endpoint, request, true);
                            Err(error)
                        }
                        None => Ok(None),
                    },
                    _ => Ok(layer.tagged.take(request)),
                });
                let status = match status.and_then(|status| status) {
                    Ok(status) => status?,
                    Err(error) => {
                        self.stage = Stage::Taken;
                        return Some(Err(error));
                    }
                };
                match std::mem::replace(&mut self.stage, Stage::Taken) {
                    Stage::Message(message) => Some((message.end)(status)),
                    _ => None,
                }
            }
            Stage::Region(phase, _) => {
                let outcome = phase.outcome()?;
                match std::mem::replace(&mut self.stage, Stage::Taken) {
                    Stage::Region(_, end) => Some(outcome.map(|_| end()).map_err(Error::from)),
                    _ => None,
                }
            }
            Stage::Task(slot) => {
                let outcome = slot.take()?;
                self.stage = Stage::Taken;
                Some(outcome)
            }
            Stage::Taken => Some(Err(Error::Taken)),
        }
    }

    fn poll_in(&mut self, context: &mut Context<'_>) -> Poll<Result<R, Error>> {
        let engine = match engine(&self.engine) {
            Ok(engine) => engine,
            Err(error) => return Poll::Ready(Err(error)),
        };
        if let Some(outcome) = self.look(&engine) {
            return Poll::Ready(outcome);
        }
        if self.keep.is_some() {
            if let Err(error) = engine.poll() {
                return Poll::Ready(Err(error));
            }
            if let Some(outcome) = self.look(&engine) {
                return Poll::Ready(outcome);
            }
        }
        match self.wake_at_end(&engine, context.waker()) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn wake_at_end(&self, engine: &Engine, waker: &Waker) -> Result<(), Error> {
        engine.with_layer(|endpoint, layer| match &self.stage {
            Stage::Message(message) => {
                if let From::Peer(peer) = message.from {
                    layer.greet(endpoint, peer);
                }
                layer.wake_at_end(message.request, waker);
            }
            Stage::Region(..) => layer.wake_at_region_end(waker),
            Stage::Task(slot) => slot.0.borrow_mut().waker = Some(waker.clone()),
            Stage::Ended(_) | Stage::Taken => {}
        })
    }
}

/// An outcome is only ever moved out.
impl<R> Unpin for Request<R> {}

impl<R> Future for Request<R> {
    type Output = Result<R, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<R, Error>> {
        self.get_mut().poll_in(context)
    }
}

impl<R> Drop for Request<R> {
    fn drop(&mut self) {
        if let (Stage::Message(message), Some(engine)) = (&self.stage, self.engine.upgrade()) {
            // Once this process has left the job there is nothing to take back.
            let _ = engine.with_layer(|endpoint, layer| {
                layer.abandon(endpoint, message.request, message.take_back);
            });
        }
    }
}

impl<R> fmt::Debug for Request<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Ended(_) => "ended",
            Stage::Taken => "taken",
            Stage::Message(_) | Stage::Region(..) | Stage::Task(_) => "under way",
        };
        f.debug_tuple("Request").field(&stage).finish()
    }
}

/// Waits for all of them; the outcomes are in their order. The first failure is the error, and the others are waited for all the same.
///
/// ```
/// use barewire::mpi;
/// mpi::launch(&[2], |comm| {
///     let other = 1 - comm.rank();
///     let receives = (0..4).map(|tag| comm.ireceive(vec![0], other, tag)).collect::<Result<Vec<_>, _>>()?;
///     for tag in (0..4).rev() {
///         comm.send(&[10 * tag], other, tag)?;
///     }
///     let got: Vec<i32> = mpi::wait_all(receives)?.into_iter().map(|(values, _)| values[0]).collect();
///     assert_eq!(got, [0, 10, 20, 30]);
///     Ok::<(), mpi::Error>(())
/// }).unwrap();
/// ```
pub fn wait_all<R>(requests: impl IntoIterator<Item = Request<R>>) -> Result<Vec<R>, Error> {
    let outcomes: Vec<_> = requests.into_iter().map(Request::wait).collect();
    outcomes.into_iter().collect()
}

/// Waits until one of them has ended, and says which and how. `None` if the outcomes of all have been taken. Should the wait fail, say because
/// time is up, its error is told for the first that has not ended.
///
/// ```
/// use barewire::mpi;
/// mpi::launch(&[3], |comm| {
///     if comm.rank() > 0 {
///         return comm.send(&[comm.rank()], 0, 1);
///     }
///     let mut receives = vec![comm.ireceive(vec![0], 1, 1)?, comm.ireceive(vec![0], 2, 1)?];
///     while let Some((at, outcome)) = mpi::wait_any(&mut receives) {
///         assert_eq!(outcome?.0, [at as u32 + 1]);
///     }
///     Ok(())
/// }).unwrap();
/// ```
pub fn wait_any<R>(requests: &mut [Request<R>]) -> Option<(usize, Result<R, Error>)> {
    let first = requests.iter().position(|one| !matches!(one.stage, Stage::Taken))?;
    let waited = engine(&requests[first].engine).and_then(|engine| {
        let found = std::future::poll_fn(|context| match first_end(requests, &engine) {
            Some(found) => Poll::Ready(Ok(found)),
            None => match requests.iter().try_for_each(|one| one.wake_at_end(&engine, context.waker())) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        });
        engine.drive("the end of some request", found)?
    });
    Some(waited.unwrap_or_else(|error| (first, Err(error))))
}

/// Waits until some of them have ended, and says which and how, like [`wait_any`]: all that have. None if the outcomes of all have been taken.
///
/// ```
/// use barewire::mpi;
/// mpi::launch(&[2], |comm| {
///     let other = 1 - comm.rank();
///     let mut barriers = vec![comm.ibarrier()?, comm.ibarrier()?];
///     let mut ended = 0;
///     while ended < 2 {
///         ended += mpi::wait_some(&mut barriers).len();
///     }
///     assert!(mpi::wait_some(&mut barriers).is_empty());
///     Ok::<(), mpi::Error>(())
/// }).unwrap();
/// ```
pub fn wait_some<R>(requests: &mut [Request<R>]) -> Vec<(usize, Result<R, Error>)> {
    let first = wait_any(requests);
    let Some(engine) = requests.first().and_then(|one| one.engine.upgrade()) else { return Vec::new() };
    let more = std::iter::from_fn(|| first_end(requests, &engine));
    first.into_iter().chain(more).collect()
}

fn first_end<R>(requests: &mut [Request<R>], engine: &Engine) -> Option<(usize, Result<R, Error>)> {
    let untaken = requests.iter_mut().enumerate().filter(|(_, one)| !matches!(one.stage, Stage::Taken));
    untaken.into_iter().find_map(|(at, one)| one.look(engine).map(|outcome| (at, outcome)))
}
