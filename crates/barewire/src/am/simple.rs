//! The first Active Messages: everybody runs the same program and trusts everybody, so a message is a handler's number and its
//! arguments, and nothing else.
//!
//! The first argument travels in the packet's header, so one word of payload is one word on the wire, and up to seven
//! words with the header fill one cache line. There are no tags, no segments and no credits: the wire's own room bounds the requests, and
//! because every request polls now and then, the replies too.

use std::fmt;
use std::time::Duration;

use barewire_core::{Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError, WaitError};

use super::wire::ARGS_MAX;

type Handler<S> = Box<dyn FnMut(&mut Call<'_, S>, &[u64]) + Send>;

/// Requests between two polls.
const POLL_EVERY: u32 = 128;

/// Active messages among equals: the same handlers everywhere.
///
/// ```
/// use barewire::am::Simple;
/// use barewire::core::{Config, Endpoint, Peer, job::Job};
///
/// let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), 0);
/// am.set_handler(0, |call, args| call.reply(1, &[args[0] + 1]).unwrap());
/// am.set_handler(1, |call, args| *call.state = args[0]);
/// am.request(Peer(0), 0, &[41]).unwrap();
/// am.wait(None, |answer| *answer == 42).unwrap();
/// ```
#[derive(Debug)]
pub struct Simple<S> {
    core: Endpoint,
    table: Table<S>,
    /// Requests since the last poll.
    unpolled: u32,
}

struct Table<S> {
    state: S,
    handlers: Vec<Option<Handler<S>>>,
    dropped: u64,
}

impl<S: fmt::Debug> fmt::Debug for Table<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Why a message of [`Simple`] was not sent.
///
/// ```
/// # use barewire::am::*;
/// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
/// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
/// am.set_handler(0, |call, _: &[u64]| call.state.push(0u64));
/// assert_eq!(am.request(Peer(0), 0, &[0; 9]), Err(CallError::TooManyArgs(9)));
/// assert_eq!(CallError::FromReply.to_string(), "a reply handler may not send requests");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// A message has at most [`ARGS_MAX`] arguments.
    #[error("{0} arguments are more than a message has")]
    TooManyArgs(usize),
    /// Only request handlers and code outside of handlers may send requests.
    #[error("a reply handler may not send requests")]
    FromReply,
    /// One reply for a request, and none for a reply.
    #[error("only a request can be replied to, and only once")]
    NoReply,
    /// The wire does not take it.
    #[error(transparent)]
    Send(#[from] SendError),
}

impl<S> Simple<S> {
    /// Active messages on an endpoint of the core, with the state that handlers work on.
    ///
    /// ```
    /// use barewire::am::Simple;
    /// use barewire::core::{Config, Endpoint, job::Job};
    /// let am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), "state");
    /// assert_eq!((*am.state(), am.core().size()), ("state", 1));
    /// ```
    pub fn new(core: Endpoint, state: S) -> Simple<S> {
        Simple { core, table: Table { state, handlers: Vec::new(), dropped: 0 }, unpolled: 0 }
    }

    /// Sets a handler; do the same everywhere.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
    /// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// am.set_handler(3, |call, args| call.state.extend(args.iter().map(|arg| arg * arg)));
    /// am.request(Peer(0), 3, &[2, 3]).unwrap();
    /// am.poll();
    /// assert_eq!(*am.state(), [4, 9]);
    /// ```
    pub fn set_handler(&mut self, index: u8, handler: impl FnMut(&mut Call<'_, S>, &[u64]) + Send + 'static) {
        let at = usize::from(index);
        if self.table.handlers.len() <= at {
            self.table.handlers.resize_with(at + 1, || None);
        }
        self.table.handlers[at] = Some(Box::new(handler));
    }

    /// The handlers' state.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
    /// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// am.set_handler(0, |call, args| call.state.push(args.len()));
    /// am.request(Peer(0), 0, &[7; 5]).unwrap();
    /// am.poll();
    /// assert_eq!(*am.state(), [5]);
    /// ```
    pub fn state(&self) -> &S {
        &self.table.state
    }

    /// The handlers' state, to change.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
    /// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// am.state_mut().push(1);
    /// am.set_handler(0, |call, args| call.state.push(args[0]));
    /// am.request(Peer(0), 0, &[2]).unwrap();
    /// am.poll();
    /// assert_eq!(*am.state(), [1, 2]);
    /// ```
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.table.state
    }

    /// The endpoint of the core, to look at.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
    /// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # am.state_mut().push(0);
    /// assert_eq!(am.core().me(), Peer(0));
    /// ```
    pub fn core(&self) -> &Endpoint {
        &self.core
    }

    /// The endpoint of the core back, for another layer; the handlers are gone.
    ///
    /// ```
    /// use barewire::core::{Config, Endpoint, job::Job};
    /// let endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let am = barewire::am::Simple::new(endpoint, ());
    /// assert_eq!(am.into_core().size(), 1);
    /// ```
    pub fn into_core(self) -> Endpoint {
        self.core
    }

    /// Messages for which there was no handler.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
    /// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// # am.state_mut().push(0);
    /// am.request(Peer(0), 200, &[]).unwrap(); // nobody set that
    /// am.poll();
    /// assert_eq!(am.dropped(), 1);
    /// ```
    pub fn dropped(&self) -> u64 {
        self.table.dropped
    }

    /// Runs `handler` with `args` at `to`. Polls while there is no room, and now and then anyway.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
    /// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// am.set_handler(0, |call, args| call.state.push(args[0]));
    /// for i in 0..1000 {
    ///     am.request(Peer(0), 0, &[i]).unwrap(); // polls when it must
    /// }
    /// while am.poll() > 0 {}
    /// assert!(am.state().iter().copied().eq(0..1000)); // in order
    /// ```
    #[inline]
    pub fn request(&mut self, to: Peer, handler: u8, args: &[u64]) -> Result<(), CallError> {
        match send(&mut self.core, to, handler, args) {
            Ok(()) if self.unpolled < POLL_EVERY => {
                self.unpolled += 1;
                Ok(())
            }
            sent => self.request_slowly(sent, to, handler, args),
        }
    }

    /// Like [`Simple::request`], but says [`SendError::Full`] instead of waiting, and polls nothing.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
    /// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// am.set_handler(0, |call, _| call.state.push(()));
    /// let refused = loop {
    ///     if let Err(refused) = am.try_request(Peer(0), 0, &[]) {
    ///         break refused; // nothing was polled
    ///     }
    /// };
    /// assert_eq!(refused, CallError::Send(SendError::Full));
    /// while am.poll() > 0 {}
    /// assert_eq!(am.try_request(Peer(0), 0, &[]), Ok(()));
    /// ```
    #[inline]
    pub fn try_request(&mut self, to: Peer, handler: u8, args: &[u64]) -> Result<(), CallError> {
        send(&mut self.core, to, handler, args)
    }

    #[cold]
    #[inline(never)]
    fn request_slowly(
        &mut self,
        mut sent: Result<(), CallError>,
        to: Peer,
        handler: u8,
        args: &[u64],
    ) -> Result<(), CallError> {
        self.advance();
        let is_full = |sent: &Result<(), CallError>| *sent == Err(CallError::Send(SendError::Full));
        if is_full(&sent) {
            let waited = self.core.wait(&mut self.table, None, |core, _| {
                sent = send(core, to, handler, args);
                !is_full(&sent)
            });
            waited.map_err(|_| SendError::Forked)?;
        }
        sent
    }

    /// Runs the handlers of what has arrived. Never waits. Says how many packets it took.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
    /// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// am.set_handler(0, |call, args| call.state.push(args[0]));
    /// am.request(Peer(0), 0, &[5]).unwrap();
    /// assert!(am.state().is_empty());
    /// assert_eq!((am.poll(), am.poll()), (1, 0));
    /// assert_eq!(*am.state(), [5]);
    /// ```
    #[inline]
    pub fn poll(&mut self) -> usize {
        let took = self.advance();
        self.core.looked(took);
        took
    }

    #[inline]
    fn advance(&mut self) -> usize {
        self.unpolled = 0;
        self.core.progress(&mut self.table, usize::MAX)
    }

    /// Polls until `done` says so, sleeping when there is nothing to do. `None` waits for ever.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
    /// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// use barewire::core;
    /// use std::time::Duration;
    /// am.set_handler(0, |call, args| call.state.push(args[0]));
    /// assert_eq!(am.wait(Some(Duration::from_millis(1)), |got| !got.is_empty()), Err(core::WaitError::TimedOut));
    /// am.request(Peer(0), 0, &[5]).unwrap();
    /// assert_eq!(am.wait(None, |got| *got == [5]), Ok(()));
    /// ```
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        mut done: impl FnMut(&mut S) -> bool,
    ) -> Result<(), WaitError> {
        self.core.wait(&mut self.table, timeout, |_, table| done(&mut table.state))
    }
}

/// What a handler of [`Simple`] sees.
///
/// ```
/// # use barewire::am::*;
/// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
/// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
/// fn sum(call: &mut Call<'_, Vec<u64>>, args: &[u64]) {
///     call.state.push(args.iter().sum());
/// }
/// am.set_handler(0, sum);
/// am.request(Peer(0), 0, &[1, 2, 3]).unwrap();
/// am.poll();
/// assert_eq!(*am.state(), [6]);
/// ```
#[derive(Debug)]
pub struct Call<'a, S> {
    /// The state that all handlers work on.
    pub state: &'a mut S,
    core: &'a mut Endpoint,
    from: Peer,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Request,
    Replied,
    Reply,
}

impl<S> Call<'_, S> {
    /// Who sent the message.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
    /// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// am.set_handler(0, |call, _| call.state.push(call.source()));
    /// am.request(Peer(0), 0, &[]).unwrap();
    /// am.poll();
    /// assert_eq!(*am.state(), [Peer(0)]);
    /// ```
    #[inline]
    pub fn source(&self) -> Peer {
        self.from
    }

    /// Replies to a request, once. Never waits.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
    /// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// am.set_handler(0, |call, args| {
    ///     call.reply(1, &[args[0] / 2]).unwrap();
    ///     assert_eq!(call.reply(1, &[]), Err(CallError::NoReply)); // once
    /// });
    /// am.set_handler(1, |call, args| call.state.push(args[0]));
    /// am.request(Peer(0), 0, &[84]).unwrap();
    /// am.wait(None, |got| *got == [42]).unwrap();
    /// ```
    #[inline]
    pub fn reply(&mut self, handler: u8, args: &[u64]) -> Result<(), CallError> {
        if self.phase != Phase::Request {
            return Err(CallError::NoReply);
        }
        if args.len() > ARGS_MAX {
            return Err(CallError::TooManyArgs(args.len()));
        }
        let (first, rest) = split(args);
        self.core.reply_with(self.from, port(REPLY, handler, args.len()), first, 8 * rest.len(), |wire| {
            wire.write_words(rest);
        })?;
        self.phase = Phase::Replied;
        Ok(())
    }

    /// Sends a request. Refused in a reply handler; never waits.
    ///
    /// ```
    /// # use barewire::am::*;
    /// # use barewire::core::{Config, Endpoint, Peer, SendError, job::Job};
    /// # let mut am = Simple::new(Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap(), Vec::new());
    /// am.set_handler(0, |call, args| {
    ///     call.state.push(args[0]);
    ///     if args[0] > 0 {
    ///         call.request(call.source(), 0, &[args[0] - 1]).unwrap();
    ///     }
    /// });
    /// am.request(Peer(0), 0, &[3]).unwrap();
    /// am.wait(None, |got| got.len() == 4).unwrap();
    /// assert_eq!(*am.state(), [3, 2, 1, 0]);
    /// ```
    pub fn request(&mut self, to: Peer, handler: u8, args: &[u64]) -> Result<(), CallError> {
        if self.phase == Phase::Reply {
            return Err(CallError::FromReply);
        }
        send(self.core, to, handler, args)
    }
}

impl<S> Deliver for Table<S> {
    #[inline(always)]
    fn deliver(&mut self, core: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
        let bits = packet.port.0;
        let count = usize::from(bits >> 8 & 0xf);
        // The mark, and no more arguments than there may be, in one comparison.
        let sound = (bits ^ MARK) & !REPLY < (ARGS_MAX as u16 + 1) << 8
            && packet.remaining() == 8 * count.saturating_sub(1);
        let (true, Some(Some(handler))) = (sound, self.handlers.get_mut(usize::from(bits & 0xff))) else {
            self.dropped += 1;
            return Flow::Continue;
        };
        let phase = if bits & REPLY == 0 { Phase::Request } else { Phase::Reply };
        let mut call = Call { state: &mut self.state, core, from: packet.from, phase };
        if count > 1 {
            let mut args = [packet.imm, 0, 0, 0, 0, 0, 0, 0];
            packet.read_words(&mut args[1..count]);
            handler(&mut call, &args[..count]);
        } else {
            handler(&mut call, &[packet.imm][..count]);
        }
        Flow::Continue
    }
}

const MARK: u16 = 0x8000;
const REPLY: u16 = 0x1000;

#[inline(always)]
fn port(kind: u16, handler: u8, args: usize) -> Port {
    Port(MARK | kind | (args as u16) << 8 | u16::from(handler))
}

/// What travels in the header, and what behind it.
#[inline(always)]
fn split(args: &[u64]) -> (u64, &[u64]) {
    match args {
        [] => (0, &[]),
        [first, rest @ ..] => (*first, rest),
    }
}

#[inline(always)]
fn send(core: &mut Endpoint, to: Peer, handler: u8, args: &[u64]) -> Result<(), CallError> {
    if args.len() > ARGS_MAX {
        return Err(CallError::TooManyArgs(args.len()));
    }
    let (first, rest) = split(args);
    core.send_with(to, port(0, handler, args.len()), first, 8 * rest.len(), |wire| {
        wire.write_words(rest);
    })?;
    Ok(())
}
