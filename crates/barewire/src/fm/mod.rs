//! Fast Messages: a message is a stream of bytes to a handler, sent and received in pieces.
//!
//! The sender opens a message, adds pieces of any sizes and ends it; they go straight into wire memory. At the receiver a
//! handler starts when the first packet is there. It is an `async fn` that takes the message apart in pieces of its own
//! choosing: [`Stream::receive`] copies from wire memory straight to where the bytes belong, and suspends the handler when
//! it has caught up with the sender. So a handler can read a header, decide where the rest belongs, and have it land
//! there, and any number of long messages advance side by side. Plain functions serve as handlers of whole messages.
//!
//! Nothing arrives unless the program calls [`Fm::extract`], and no more than it asks for: a receiver that is busy, or whose
//! handlers are suspended, stops its senders when their credit is used up. Sends do not extract, unless there is no room and
//! the caller chose to wait.
//!
//! ```
//! use barewire::core::{Config, job::Job};
//! use barewire::fm::{Flow, Fm, Handler, Stream};
//!
//! const GREET: Handler = Handler(1);
//!
//! async fn greet(mut stream: Stream) -> Flow {
//!     let mut length = [0];
//!     stream.receive(&mut length).await;
//!     let mut name = vec![0; length[0] as usize];
//!     stream.receive(&mut name).await;
//!     println!("hello {}", String::from_utf8_lossy(&name));
//!     Flow::Continue
//! }
//!
//! let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
//! fm.register_stream(GREET, greet);
//! let mut message = fm.begin_message(fm.me(), 6, GREET).unwrap();
//! message.piece(&[5]).unwrap();
//! message.piece(b"world").unwrap();
//! message.end().unwrap();
//! fm.extract(usize::MAX);
//! # assert_eq!(fm.counters().started, 1);
//! ```
//!
//! The calls of Fast Messages 1.x are here too: [`Fm::send_4`], [`Fm::send`] and [`Fm::extract_all`].

mod asynch;
mod dispatch;
mod draft;
mod message;
mod send;
mod stream;
mod task;
mod watch;

use std::future::Future;
use std::time::{Duration, Instant};

use barewire_core::job::Job;
use barewire_core::{Config, Endpoint, OpenError, Port, WaitError};

pub use barewire_core::{Flow, Peer};
pub use dispatch::{Counters, WHOLE_BYTES_MAX};
pub use message::{Context, Message};
pub use send::{Outgoing, Posting, SendError, Sender};
pub use stream::Stream;

use dispatch::{Dispatch, Entry};

/// Names a handler. The same number means the same handler at every rank that registered it.
///
/// ```
/// # use barewire::core::{Config, job::Job};
/// # use barewire::fm::*;
/// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let me = fm.me();
/// # let (tell, told) = std::sync::mpsc::channel();
/// const SQUARE: Handler = Handler(7);
/// fm.register(SQUARE, move |_, message| {
///     tell.send(message.words()[0].pow(2)).expect("somebody listens");
///     Flow::Continue
/// });
/// fm.send_4(me, SQUARE, [12, 0, 0, 0]).unwrap();
/// fm.extract_all();
/// assert_eq!(told.try_recv(), Ok(144));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handler(pub u16);

impl Handler {
    #[inline(always)]
    fn port(self) -> Port {
        Port(self.0)
    }
}

/// Fast Messages over an endpoint. `Send`, not `Sync`, like the endpoint.
///
/// ```
/// use barewire::core::{Config, job::Job};
/// use barewire::fm::{Flow, Fm, Handler, Peer};
/// let ranks = Job::threads(2).unwrap().into_iter().map(|job| std::thread::spawn(move || {
///     let mut fm = Fm::open(job, Config::default()).unwrap();
///     let (tell, told) = std::sync::mpsc::channel();
///     fm.register(Handler(1), move |_, message| { tell.send(message.to_vec()).unwrap(); Flow::Continue });
///     fm.send(Peer(1 - fm.me().0), Handler(1), b"hello").unwrap();
///     let mut came = Vec::new();
///     fm.wait(None, || { came.extend(told.try_recv()); !came.is_empty() }).unwrap();
///     assert_eq!(came, [b"hello"]);
/// }));
/// ranks.collect::<Vec<_>>().into_iter().for_each(|rank| rank.join().unwrap());
/// ```
#[derive(Debug)]
pub struct Fm {
    endpoint: Endpoint,
    dispatch: Dispatch,
    watch: Option<watch::Watch>,
}

/// Packets after which one call of the core's `progress` may have left some behind.
const BATCH: usize = 64;
/// Calls of `progress` in one extract: more than a ring holds, and an end to handlers that send to themselves.
const ROUNDS_MAX: usize = 64;
/// How long a wait for room may sleep. Nobody rings when room appears, so it has to look now and then.
const NAP: Duration = Duration::from_millis(3);

impl Fm {
    /// Opens an endpoint in a job, for Fast Messages.
    ///
    /// ```
    /// use barewire::core::{Config, job::Job};
    /// use barewire::fm::Fm;
    /// let sizes = Job::threads(2).unwrap().into_iter().map(|job| Fm::open(job, Config::default()).unwrap().size());
    /// assert_eq!(sizes.collect::<Vec<_>>(), [2, 2]);
    /// ```
    pub fn open(job: Job, config: Config) -> Result<Fm, OpenError> {
        Fm::new(Endpoint::open(job, config)?)
            .map_err(|error| OpenError::Socket { what: "a second doorbell", error })
    }

    /// Fast Messages over an endpoint that is open already.
    ///
    /// ```
    /// use barewire::core::{Config, Endpoint, job::Job};
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// assert_eq!(barewire::fm::Fm::new(endpoint).unwrap().size(), 1);
    /// ```
    pub fn new(endpoint: Endpoint) -> std::io::Result<Fm> {
        let dispatch = Dispatch::new(endpoint.alarm()?);
        Ok(Fm { endpoint, dispatch, watch: None })
    }

    /// This rank.
    ///
    /// ```
    /// use barewire::core::{Config, job::Job};
    /// use barewire::fm::{Fm, Peer};
    /// let second = Job::threads(2).unwrap().pop().unwrap();
    /// assert_eq!(Fm::open(second, Config::default()).unwrap().me(), Peer(1));
    /// ```
    pub fn me(&self) -> Peer {
        self.endpoint.me()
    }

    /// How many ranks there are.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// let everybody_else = (0..fm.size()).filter(|&rank| rank != me.0);
    /// assert_eq!(everybody_else.count(), 0); // alone
    /// ```
    pub fn size(&self) -> u32 {
        self.endpoint.size()
    }

    /// The endpoint below, for its counters, its peers' states and its descriptor.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// assert_eq!(fm.endpoint().me(), fm.me());
    /// ```
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The endpoint back, for another layer; the handlers are gone, suspended ones too.
    ///
    /// ```
    /// use barewire::core::{Config, job::Job};
    /// let fm = barewire::fm::Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// assert_eq!(fm.into_endpoint().size(), 1);
    /// ```
    pub fn into_endpoint(self) -> Endpoint {
        self.endpoint
    }

    /// What has happened here so far.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// fm.send(me, Handler(9), b"nobody registered this").unwrap();
    /// fm.extract_all();
    /// assert_eq!((fm.counters().unclaimed, fm.counters().started), (1, 0));
    /// ```
    pub fn counters(&self) -> Counters {
        self.dispatch.counters()
    }

    /// Makes a plain function the handler of that number. It runs once for every message, when all of it is there: straight
    /// on wire memory if the message is one packet, else on a copy, up to [`WHOLE_BYTES_MAX`].
    ///
    /// ```
    /// use barewire::core::{Config, job::Job};
    /// use barewire::fm::{Flow, Fm, Handler};
    /// let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// fm.register(Handler(1), |context, message| {
    ///     let [a, b, ..] = message.words();
    ///     context.send_4(message.from(), Handler(2), [a + b, 0, 0, 0]).expect("there is room");
    ///     Flow::Continue
    /// });
    /// let (tell, sum) = std::sync::mpsc::channel();
    /// fm.register(Handler(2), move |_, message| {
    ///     tell.send(message.words()[0]).expect("somebody listens");
    ///     Flow::Quit
    /// });
    /// fm.send_4(fm.me(), Handler(1), [20, 22, 0, 0]).unwrap();
    /// fm.extract_all();
    /// assert_eq!(sum.try_recv(), Ok(42));
    /// ```
    pub fn register(
        &mut self,
        handler: Handler,
        run: impl FnMut(&mut Context<'_>, &mut Message<'_>) -> Flow + Send + 'static,
    ) {
        self.dispatch.register(handler, Entry::Plain(Box::new(run)));
    }

    /// Makes an `async fn` the handler of that number. It starts with the first packet of every message and is suspended
    /// where it awaits more bytes, room to send, or anything else. What it leaves unread is discarded. If the sender is lost
    /// before its message is complete, the handler is dropped where it stands.
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
    ///         let mut header = [0; 2];
    ///         stream.receive(&mut header).await;
    ///         tell.send((header, stream.len() - stream.received())).expect("somebody listens");
    ///         Flow::Continue // the rest is discarded
    ///     }
    /// });
    /// fm.send(me, Handler(1), &[1, 2, 3, 4, 5]).unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok(([1, 2], 3)));
    /// ```
    pub fn register_stream<F>(
        &mut self,
        handler: Handler,
        mut start: impl FnMut(Stream) -> F + Send + 'static,
    ) where
        F: Future<Output = Flow> + Send + 'static,
    {
        self.dispatch.register(handler, Entry::Stream(Box::new(move |stream| Box::pin(start(stream)))));
    }

    /// Takes what has arrived and runs its handlers, until about `budget` bytes are taken (rounded up to a packet), nothing is
    /// left, or a handler returns [`Flow::Quit`]. First it runs suspended handlers that can go on. Never waits. Says how many
    /// packets it took.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// fm.register(Handler(1), |_, _| Flow::Continue);
    /// for _ in 0..3 {
    ///     fm.send(me, Handler(1), &[0; 100]).unwrap();
    /// }
    /// assert_eq!(fm.extract(150), 2); // 150 bytes, rounded up to a packet
    /// assert_eq!((fm.extract(usize::MAX), fm.extract(usize::MAX)), (1, 0));
    /// ```
    #[inline]
    pub fn extract(&mut self, budget: usize) -> usize {
        if self.dispatch.has_chores() && self.dispatch.run_chores(&mut self.endpoint) == Flow::Quit {
            return 0;
        }
        self.dispatch.bytes = 0;
        let taken = self.endpoint.progress(&mut self.dispatch, budget);
        self.endpoint.looked(taken);
        if taken < BATCH { taken } else { self.extract_more(budget, taken) }
    }

    #[cold]
    #[inline(never)]
    fn extract_more(&mut self, budget: usize, mut taken: usize) -> usize {
        for _ in 1..ROUNDS_MAX {
            let left = budget.saturating_sub(self.dispatch.bytes);
            if left == 0 || self.dispatch.take_quit() {
                break;
            }
            match self.endpoint.progress(&mut self.dispatch, left) {
                0 => break,
                more => taken += more,
            }
        }
        taken
    }

    /// Takes everything that has arrived: the `extract` of Fast Messages 1.x.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// fm.register(Handler(1), |_, _| Flow::Continue);
    /// fm.send_4(me, Handler(1), [1, 2, 3, 4]).unwrap();
    /// fm.send_4(me, Handler(1), [5, 6, 7, 8]).unwrap();
    /// assert_eq!((fm.extract_all(), fm.extract_all()), (2, 0));
    /// ```
    #[inline]
    pub fn extract_all(&mut self) -> usize {
        self.extract(usize::MAX)
    }

    /// Extracts until `done` says so, sleeping when there is nothing to do. `timeout` of `None` waits for ever.
    ///
    /// ```
    /// use barewire::core::{Config, job::Job};
    /// use barewire::fm::{Flow, Fm, Handler};
    /// use std::sync::{Arc, atomic::{AtomicBool, Ordering::Relaxed}};
    /// let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (seen, see) = (Arc::new(AtomicBool::new(false)), Arc::new(()));
    /// let there = Arc::clone(&seen);
    /// fm.register(Handler(1), move |_, _| { there.store(true, Relaxed); Flow::Continue });
    /// fm.send(fm.me(), Handler(1), b"").unwrap();
    /// fm.wait(None, || seen.load(Relaxed)).unwrap();
    /// ```
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        mut done: impl FnMut() -> bool,
    ) -> Result<(), WaitError> {
        self.dispatch.woken().own();
        let started = timeout.map(|_| Instant::now());
        loop {
            let left =
                timeout.zip(started).map(|(timeout, started)| timeout.saturating_sub(started.elapsed()));
            // A handler that waits for room is not woken by it: look again after a nap.
            let stalled = self.dispatch.has_chores();
            let nap = if stalled { Some(left.map_or(NAP, |left| left.min(NAP))) } else { left };
            let mut is_done = false;
            let ended = self.endpoint.wait(&mut self.dispatch, nap, |endpoint, dispatch| {
                if dispatch.has_chores() {
                    dispatch.run_chores(endpoint);
                }
                is_done = done();
                is_done || (!stalled && dispatch.has_chores())
            });
            match ended {
                Ok(()) if is_done => return Ok(()),
                Ok(()) => {}
                Err(WaitError::TimedOut) if left.is_none_or(|left| Some(left) != nap) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
