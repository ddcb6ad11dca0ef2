//! Extracting from async code: await what arrives instead of asking for it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use super::Fm;
use super::watch::Watch;
use crate::fm::Flow;

impl Fm {
    /// Waits until something has arrived or a suspended handler could go on, and extracts it. Works under any executor: one
    /// thread of this process watches the descriptors of all endpoints that are awaited this way. A runtime that
    /// can watch descriptors itself saves that detour with [`Fm::extract_when`].
    ///
    /// ```
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     struct Unpark(std::thread::Thread);
    /// #     impl std::task::Wake for Unpark { fn wake(self: std::sync::Arc<Self>) { self.0.unpark(); } }
    /// #     let waker = std::task::Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
    /// #     let mut future = std::pin::pin!(future);
    /// #     loop {
    /// #         match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
    /// #             std::task::Poll::Ready(done) => return done,
    /// #             std::task::Poll::Pending => std::thread::park(),
    /// #         }
    /// #     }
    /// # }
    /// use barewire::core::{Config, job::Job};
    /// use barewire::fm::{Flow, Fm, Handler};
    /// let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// fm.register(Handler(1), |_, _| Flow::Continue);
    /// fm.send(fm.me(), Handler(1), b"hello").unwrap();
    /// let packets = block_on(fm.extract_async(usize::MAX)).unwrap();
    /// assert_eq!(packets, 1);
    /// ```
    pub async fn extract_async(&mut self, budget: usize) -> std::io::Result<usize> {
        if self.watch.is_none() {
            self.watch = Some(Watch::new(self.endpoint.fd())?);
        }
        let mut ran = false;
        poll_fn(|cx| match self.poll_or_yield(cx, budget, &mut ran) {
            Poll::Ready(taken) => Poll::Ready(Ok(taken)),
            Poll::Pending => {
                let watched =
                    self.watch.as_ref().map_or(Ok(()), |watch| watch.wake_when_readable(cx.waker()));
                watched.map_or_else(|error| Poll::Ready(Err(error)), |()| Poll::Pending)
            }
        })
        .await
    }

    /// [`Fm::extract_async`] for a runtime that can watch descriptors: `readable` makes a future that is done when the
    /// descriptor of [`Fm::endpoint`] is readable. Under tokio that is an `AsyncFd` over a duplicate of it:
    ///
    /// ```
    /// use barewire::core::{Config, job::Job};
    /// use barewire::fm::{Flow, Fm, Handler};
    /// use tokio::io::unix::AsyncFd;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(async {
    /// let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// fm.register(Handler(1), |_, _| Flow::Continue);
    /// fm.send(fm.me(), Handler(1), b"hello").unwrap();
    /// let fd = AsyncFd::new(fm.endpoint().fd().try_clone_to_owned().unwrap()).unwrap();
    /// let readable = || async { fd.readable().await.map(|mut ready| ready.clear_ready()) };
    /// assert_eq!(fm.extract_when(usize::MAX, readable).await.unwrap(), 1);
    /// # });
    /// ```
    pub async fn extract_when<F: Future<Output = std::io::Result<()>>>(
        &mut self,
        budget: usize,
        mut readable: impl FnMut() -> F,
    ) -> std::io::Result<usize> {
        let mut ran = false;
        loop {
            let mut readable = pin!(readable());
            let taken = poll_fn(|cx| match self.poll_or_yield(cx, budget, &mut ran) {
                Poll::Ready(taken) => Poll::Ready(Ok(Some(taken))),
                Poll::Pending => readable.as_mut().poll(cx).map_ok(|()| None),
            });
            if let Some(taken) = taken.await? {
                return Ok(taken);
            }
        }
    }

    /// [`Fm::poll_extract`], but if all it did was to run suspended handlers, others have their turn first: such a handler may
    /// only have looked for room.
    fn poll_or_yield(&mut self, cx: &mut Context<'_>, budget: usize, ran: &mut bool) -> Poll<usize> {
        match self.poll_extract(cx, budget) {
            Poll::Ready(0) if !*ran => {
                *ran = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending if *ran => Poll::Ready(0),
            other => other,
        }
    }

    /// Extracts what is there; ready if that was something, with the number of packets. If it was nothing, the caller has
    /// to poll again when the descriptor of [`Fm::endpoint`] is readable; that a handler is woken is seen to.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// use std::task::{Context, Poll, Waker};
    /// fm.register(Handler(1), |_, _| Flow::Continue);
    /// let mut cx = Context::from_waker(Waker::noop());
    /// assert_eq!(fm.poll_extract(&mut cx, usize::MAX), Poll::Pending);
    /// fm.send(me, Handler(1), b"hello").unwrap();
    /// assert_eq!(fm.poll_extract(&mut cx, usize::MAX), Poll::Ready(1));
    /// ```
    pub fn poll_extract(&mut self, cx: &mut Context<'_>, budget: usize) -> Poll<usize> {
        self.dispatch.woken().set_runtime(cx.waker());
        let polled = self.dispatch.has_chores();
        if polled && self.dispatch.run_chores(&mut self.endpoint) == Flow::Quit {
            return Poll::Ready(0);
        }
        match self.extract(budget) {
            0 if !polled => {}
            taken => return Poll::Ready(taken),
        }
        // Whoever waits for room is not woken by it, so do not sleep then; nor if something came just now.
        if self.dispatch.has_chores() || !self.endpoint.doze() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
