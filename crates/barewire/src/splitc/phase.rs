//! The second phase of a split access: a value after `sync`, or a future.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use barewire_core::region::Memory;

use super::{Error, Plain, SplitC};
use crate::spmd::Phase;

/// A value on its way here.
///
/// ```
/// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
/// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
/// let cells = sc.alloc::<u32>(2).unwrap();
/// sc.bulk_write(cells, &[4, 5]).unwrap();
/// let gets: [Get<'_, u32>; 2] = [sc.get(cells).unwrap(), sc.get(cells.add(1)).unwrap()];
/// sc.sync().unwrap();
/// assert_eq!(gets.map(|get| get.value().unwrap()), [4, 5]);
/// ```
#[derive(Debug)]
pub struct Get<'a, T> {
    owner: &'a SplitC,
    /// How many `sync`s there had been when it started.
    started: u64,
    from: From<T>,
}

#[derive(Debug)]
enum From<T> {
    /// It was within reach.
    Here(T),
    /// It comes into the memory.
    Afar(Phase, Memory),
}

impl<'a, T: Plain> Get<'a, T> {
    #[inline]
    pub(super) fn here(owner: &'a SplitC, started: u64, value: T) -> Get<'a, T> {
        Get { owner, started, from: From::Here(value) }
    }

    pub(super) fn afar(owner: &'a SplitC, started: u64, phase: Phase, landing: Memory) -> Get<'a, T> {
        Get { owner, started, from: From::Afar(phase, landing) }
    }

    /// The value, once there was a [`SplitC::sync`]; before that, [`Error::NotSynced`].
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
    /// let cell = sc.alloc::<u32>(1).unwrap();
    /// sc.sync().unwrap();
    /// let get = sc.get(cell).unwrap(); // a sync before it does not count
    /// assert_eq!(get.value(), Err(Error::NotSynced));
    /// sc.sync().unwrap();
    /// assert_eq!(get.value(), Ok(0));
    /// ```
    pub fn value(&self) -> Result<T, Error> {
        if self.owner.inner.borrow().synced <= self.started {
            return Err(Error::NotSynced);
        }
        self.arrived().unwrap_or(Err(Error::NotSynced))
    }

    /// The value, if it is here.
    fn arrived(&self) -> Option<Result<T, Error>> {
        match &self.from {
            From::Here(value) => Some(Ok(*value)),
            From::Afar(phase, landing) => phase.outcome().map(|outcome| {
                outcome?;
                let mut value = T::new_zeroed();
                let read = landing.read(0, value.as_mut_bytes());
                debug_assert!(read, "the place where it lands is as long as the value");
                Ok(value)
            }),
        }
    }
}

impl<T: Plain + Unpin> Future for Get<'_, T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Error>> {
        poll(self.owner, context, || self.arrived())
    }
}

/// Values on their way to their place.
///
/// ```
/// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::*};
/// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 1 << 16).unwrap();
/// let cell = sc.alloc::<u32>(1).unwrap();
/// let put: Put<'_> = sc.put(cell, 6).unwrap();
/// assert_eq!(sc.block_on(put).unwrap(), Ok(())); // in place
/// assert_eq!(sc.read(cell), Ok(6));
/// ```
#[derive(Debug)]
pub struct Put<'a> {
    owner: &'a SplitC,
    /// `None` if they are in place.
    phase: Option<Phase>,
}

impl<'a> Put<'a> {
    #[inline]
    pub(super) fn done(owner: &'a SplitC) -> Put<'a> {
        Put { owner, phase: None }
    }

    pub(super) fn afar(owner: &'a SplitC, phase: Phase) -> Put<'a> {
        Put { owner, phase: Some(phase) }
    }

    fn arrived(&self) -> Option<Result<(), Error>> {
        self.phase.as_ref().map_or(Some(Ok(0)), Phase::outcome).map(|outcome| outcome.map(|_| ()))
    }
}

impl Future for Put<'_> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        poll(self.owner, context, || self.arrived())
    }
}

fn poll<R>(owner: &SplitC, context: &Context<'_>, arrived: impl Fn() -> Option<R>) -> Poll<R> {
    if let Some(outcome) = arrived() {
        return Poll::Ready(outcome);
    }
    owner.poll();
    match arrived() {
        Some(outcome) => Poll::Ready(outcome),
        None => {
            owner.inner.borrow_mut().world.wake_when_reaped(context.waker());
            Poll::Pending
        }
    }
}

impl SplitC {
    /// Runs a future that awaits gets and puts. Under another executor somebody has to call [`SplitC::poll`] for them, say
    /// whenever the endpoint's descriptor is readable.
    ///
    /// ```
    /// # use barewire::{core::{Config, Endpoint, job::Job}, splitc::SplitC};
    /// # let sc = SplitC::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 4096).unwrap();
    /// let (a, b) = (sc.alloc::<u64>(1).unwrap(), sc.alloc::<u64>(1).unwrap());
    /// let sum = sc.block_on(async {
    ///     let (first, second) = (sc.put(a, 20)?, sc.put(b, 22)?); // both under way
    ///     first.await?;
    ///     second.await?;
    ///     let (first, second) = (sc.get(a)?, sc.get(b)?);
    ///     Ok::<u64, barewire::splitc::Error>(first.await? + second.await?)
    /// });
    /// assert_eq!(sum.unwrap(), Ok(42));
    /// ```
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        let mut future = pin!(future);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(done) => return Ok(done),
                // What ended while it was polled may be what another part of it waits for.
                Poll::Pending if woken.0.swap(false, Ordering::Relaxed) => self.poll(),
                Poll::Pending => self.inner.borrow_mut().world.wait_for_any()?,
            }
        }
    }
}

/// Whether the future of a [`SplitC::block_on`] wants to be polled again.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
