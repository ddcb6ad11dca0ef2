//! What a stream handler gets: the message as it arrives.

use std::future::poll_fn;
use std::task::{self, Poll};

use barewire_core::Peer;
use barewire_sys::loan::Borrower;

use super::dispatch::{Hunger, Turn, Turns};
use super::send::Sender;
use super::task::TaskId;

/// A message on its way in, for the handler that it started.
///
/// ```
/// # use barewire::core::{Config, job::Job};
/// # use barewire::fm::*;
/// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let me = fm.me();
/// # let (tell, told) = std::sync::mpsc::channel();
/// fm.register_stream(Handler(1), move |mut stream: Stream| {
///     let tell = tell.clone();
///     async move {
///         let (mut name, mut rest) = ([0; 4], Vec::new());
///         stream.receive(&mut name).await;
///         rest.resize((stream.len() - stream.received()) as usize, 0);
///         stream.receive(&mut rest).await; // straight to where it belongs
///         tell.send((name, rest)).unwrap();
///         Flow::Continue
///     }
/// });
/// fm.send(me, Handler(1), b"DATA and so on").unwrap();
/// fm.extract_all();
/// assert_eq!(told.try_recv(), Ok((*b"DATA", b" and so on".to_vec())));
/// ```
#[derive(Debug)]
pub struct Stream {
    pub(super) from: Peer,
    pub(super) task: TaskId,
    pub(super) read: u64,
    /// What the sender announced; once the message is known to have ended sooner, what it really had.
    pub(super) total: u64,
    pub(super) turns: Borrower<Turns>,
}

impl Stream {
    /// Who sends it.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register_stream(Handler(1), move |stream| {
    ///     tell.send(stream.from()).unwrap();
    ///     async { Flow::Continue }
    /// });
    /// fm.send(me, Handler(1), b"").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok(me));
    /// ```
    pub fn from(&self) -> Peer {
        self.from
    }

    /// Bytes of the message, as announced. A sender may end it sooner.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register_stream(Handler(1), move |mut stream| {
    ///     let tell = tell.clone();
    ///     async move {
    ///         let announced = stream.len();
    ///         let came = stream.receive(&mut [0; 100]).await;
    ///         tell.send((announced, came, stream.len())).unwrap();
    ///         Flow::Continue
    ///     }
    /// });
    /// let mut message = fm.begin_message(me, 100, Handler(1)).unwrap();
    /// message.piece(&[0; 30]).unwrap();
    /// message.end().unwrap(); // sooner than announced
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok((100, 30, 30)));
    /// ```
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Whether the message has no bytes.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register_stream(Handler(1), move |stream| {
    ///     tell.send(stream.is_empty()).unwrap();
    ///     async { Flow::Continue }
    /// });
    /// fm.send(me, Handler(1), b"").unwrap();
    /// fm.send(me, Handler(1), b"something").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_iter().collect::<Vec<_>>(), [true, false]);
    /// ```
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Bytes received so far.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register_stream(Handler(1), move |mut stream| {
    ///     let tell = tell.clone();
    ///     async move {
    ///         stream.receive(&mut [0; 4]).await;
    ///         stream.receive(&mut [0; 2]).await;
    ///         tell.send(stream.received()).unwrap();
    ///         Flow::Continue
    ///     }
    /// });
    /// fm.send(me, Handler(1), &[0; 50]).unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok(6));
    /// ```
    pub fn received(&self) -> u64 {
        self.read
    }

    /// The way to send from inside this handler.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register_stream(Handler(1), |stream| async move {
    ///     stream.sender().send(stream.from(), Handler(2), b"thanks").await.expect("the peer is there");
    ///     Flow::Continue
    /// });
    /// fm.register(Handler(2), move |_, message| { tell.send(message.to_vec()).unwrap(); Flow::Continue });
    /// fm.send(me, Handler(1), b"a present").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv().unwrap(), b"thanks");
    /// ```
    pub fn sender(&self) -> Sender {
        Sender::new(self.turns)
    }

    /// Fills `into` with the next bytes of the message, straight from wire memory, and says how many that was: all of
    /// `into`, or fewer if the message ends. Suspends the handler while they are still on their way.
    ///
    /// A stream belongs to the handler that got it: taken elsewhere, to a task of its own say, it is at its end.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register_stream(Handler(1), move |mut stream| {
    ///     let tell = tell.clone();
    ///     async move {
    ///         let mut six = [0; 6];
    ///         while let n @ 1.. = stream.receive(&mut six).await {
    ///             tell.send(n).unwrap();
    ///         }
    ///         Flow::Continue
    ///     }
    /// });
    /// let mut message = fm.begin_message(me, 8, Handler(1)).unwrap();
    /// message.piece(b"half").unwrap();
    /// message.fm().extract_all(); // the handler waits for two more bytes
    /// message.piece(b"rest").unwrap();
    /// message.end().unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_iter().collect::<Vec<_>>(), [6, 2]);
    /// ```
    pub async fn receive(&mut self, into: &mut [u8]) -> usize {
        let mut filled = 0;
        poll_fn(|cx| self.poll_receive(cx, into, &mut filled)).await;
        filled
    }

    fn poll_receive(&mut self, cx: &task::Context<'_>, into: &mut [u8], filled: &mut usize) -> Poll<()> {
        let Stream { task, read, total, turns, .. } = self;
        let at_turn = |turn: &mut Turn<'_>| {
            if turn.task != *task {
                return Poll::Ready(());
            }
            let n = turn.read(&mut into[*filled..]);
            *filled += n;
            *read += n as u64;
            *total = turn.total;
            if *filled == into.len() || *read == *total {
                return Poll::Ready(());
            }
            turn.hunger = if cx.waker().will_wake(turn.waker) {
                Hunger::Task
            } else {
                Hunger::Part(cx.waker().clone())
            };
            Poll::Pending
        };
        turns.with(at_turn).unwrap_or(Poll::Ready(()))
    }
}
