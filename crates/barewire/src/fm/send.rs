//! Sending: a message is announced, filled in pieces, and ended.
//!
//! Pieces go straight into wire memory, each call's in as few packets as it takes; [`Outgoing::pieces`] gathers several into
//! the same packets. A message given whole in one call goes the short way if it fits one packet.

use std::future::poll_fn;
use std::task::Poll;

use barewire_core::{Endpoint, Peer, WaitError};
use barewire_sys::loan::Borrower;

use super::dispatch::Turns;
use super::draft::Draft;
use super::{Fm, Handler, NAP};

/// Why a message, or a piece of one, was not taken.
///
/// ```
/// # use barewire::core::{Config, job::Job};
/// # use barewire::fm::*;
/// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let me = fm.me();
/// let mut message = fm.begin_message(me, 3, Handler(1)).unwrap();
/// let refused = message.piece(b"four").unwrap_err();
/// assert_eq!(refused, SendError::PastEnd { len: 4, max: 3 });
/// assert_eq!(refused.to_string(), "4 bytes are more than the 3 that the message announced");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The receiver has to take something first. Told to callers who chose not to wait, and to handlers, who cannot.
    #[error("no room: the receiver has to take something first")]
    Full,
    /// The pieces add up to more than was announced.
    #[error("{len} bytes are more than the {max} that the message announced")]
    PastEnd {
        /// Bytes with this piece.
        len: u64,
        /// Bytes announced.
        max: u64,
    },
    /// A [`Sender`] was used elsewhere than in a running handler.
    #[error("a handler's sender works only inside handlers")]
    Outside,
    /// The peer cannot be reached, or the message does not fit one packet.
    #[error(transparent)]
    Failed(barewire_core::SendError),
}

impl From<barewire_core::SendError> for SendError {
    #[inline]
    fn from(error: barewire_core::SendError) -> SendError {
        match error {
            barewire_core::SendError::Full => SendError::Full,
            other => SendError::Failed(other),
        }
    }
}

/// The bytes of four words.
#[inline(always)]
pub(super) fn four(words: [u32; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (four, word) in bytes.chunks_exact_mut(4).zip(words) {
        four.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

impl Fm {
    /// Sends a message whole. If there is no room it extracts, and so runs handlers, until there is.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| { tell.send(message.len()).unwrap(); Flow::Continue });
    /// fm.send(me, Handler(1), &[7; 300_000]).unwrap(); // many packets
    /// fm.wait(None, || told.try_recv() == Ok(300_000)).unwrap();
    /// ```
    #[inline]
    pub fn send(&mut self, to: Peer, handler: Handler, bytes: &[u8]) -> Result<(), SendError> {
        match self.endpoint.send(to, handler.port(), 0, bytes) {
            Ok(()) => Ok(()),
            Err(error) => self.send_slowly(to, handler, bytes, error),
        }
    }

    /// Sends four words. If there is no room it extracts, and so runs handlers, until there is.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| { tell.send(message.words()).unwrap(); Flow::Continue });
    /// fm.send_4(me, Handler(1), [8, 6, 4, 2]).unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok([8, 6, 4, 2]));
    /// ```
    #[inline]
    pub fn send_4(&mut self, to: Peer, handler: Handler, words: [u32; 4]) -> Result<(), SendError> {
        self.send(to, handler, &four(words))
    }

    /// Sends a message that fits one packet, if there is room.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// fm.register(Handler(1), |_, _| Flow::Continue);
    /// let refused = loop {
    ///     if let Err(refused) = fm.try_send(me, Handler(1), &[0; 1000]) {
    ///         break refused; // nobody takes anything here
    ///     }
    /// };
    /// assert_eq!(refused, SendError::Full);
    /// fm.extract_all();
    /// assert_eq!(fm.try_send(me, Handler(1), &[0; 1000]), Ok(()));
    /// ```
    #[inline]
    pub fn try_send(&mut self, to: Peer, handler: Handler, bytes: &[u8]) -> Result<(), SendError> {
        Ok(self.endpoint.send(to, handler.port(), 0, bytes)?)
    }

    #[cold]
    fn send_slowly(
        &mut self,
        to: Peer,
        handler: Handler,
        bytes: &[u8],
        error: barewire_core::SendError,
    ) -> Result<(), SendError> {
        use barewire_core::SendError::{Full, TooLong};
        if !matches!(error, Full | TooLong { .. }) {
            return Err(error.into());
        }
        let mut message = self.begin_message(to, bytes.len() as u64, handler)?;
        message.piece(bytes)?;
        message.end()
    }

    /// Opens a message of at most `len` bytes. Nothing is sent before its first piece, or its end.
    ///
    /// ```
    /// use barewire::core::{Config, job::Job};
    /// use barewire::fm::{Flow, Fm, Handler};
    /// let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| {
    ///     tell.send(message.to_vec()).expect("somebody listens");
    ///     Flow::Continue
    /// });
    /// let mut message = fm.begin_message(fm.me(), 1000, Handler(1)).unwrap();
    /// message.pieces(&[b"three ", b"pieces "]).unwrap();
    /// message.piece(b"in all").unwrap();
    /// message.end().unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.recv().unwrap(), b"three pieces in all");
    /// ```
    pub fn begin_message(&mut self, to: Peer, len: u64, handler: Handler) -> Result<Outgoing<'_>, SendError> {
        if to.0 >= self.size() {
            return Err(SendError::Failed(barewire_core::SendError::NoSuchPeer(to)));
        }
        Ok(Outgoing { draft: Draft::new(to, len, handler), fm: self })
    }

    /// Extracts until `step` has found room, or fails.
    #[cold]
    fn until_room<R>(
        &mut self,
        mut step: impl FnMut(&mut Endpoint) -> Result<R, SendError>,
    ) -> Result<R, SendError> {
        self.dispatch.woken().own();
        loop {
            let mut outcome = Err(SendError::Full);
            let waited = self.endpoint.wait(&mut self.dispatch, Some(NAP), |endpoint, dispatch| {
                if dispatch.has_chores() {
                    dispatch.run_chores(endpoint);
                }
                outcome = step(endpoint);
                !matches!(outcome, Err(SendError::Full))
            });
            match waited {
                Ok(()) => return outcome,
                Err(WaitError::Forked) => return Err(SendError::Failed(barewire_core::SendError::Forked)),
                Err(_) => {}
            }
        }
    }
}

/// A message on its way out. Dropping it ends it where it stands, as [`Outgoing::end`] does.
///
/// ```
/// # use barewire::core::{Config, job::Job};
/// # use barewire::fm::*;
/// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let me = fm.me();
/// # let (tell, told) = std::sync::mpsc::channel();
/// fm.register(Handler(1), move |_, message| { tell.send(message.to_vec()).unwrap(); Flow::Continue });
/// let mut message = fm.begin_message(me, 100, Handler(1)).unwrap();
/// message.piece(b"cut ").unwrap();
/// message.piece(b"short").unwrap();
/// drop(message); // ends it where it stands
/// fm.extract_all();
/// assert_eq!(told.try_recv().unwrap(), b"cut short");
/// ```
#[derive(Debug)]
#[must_use = "a message goes out with its pieces"]
pub struct Outgoing<'a> {
    fm: &'a mut Fm,
    draft: Draft,
}

impl Outgoing<'_> {
    /// Adds a piece. If there is no room it extracts, and so runs handlers, until there is.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| { tell.send(message.to_vec()).unwrap(); Flow::Continue });
    /// let mut message = fm.begin_message(me, 8, Handler(1)).unwrap();
    /// message.piece(&1u32.to_le_bytes()).unwrap();
    /// message.piece(b"data").unwrap();
    /// assert!(message.piece(b"!").is_err()); // 8 bytes were announced
    /// message.end().unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv().unwrap(), b"\x01\0\0\0data");
    /// ```
    pub fn piece(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        self.pieces(&[bytes])
    }

    /// Adds several pieces, gathered into the same packets.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| { tell.send(message.to_vec()).unwrap(); Flow::Continue });
    /// let (header, body) = (b"len=5;", b"hello");
    /// let mut message = fm.begin_message(me, 11, Handler(1)).unwrap();
    /// message.pieces(&[header, body]).unwrap();
    /// message.end().unwrap();
    /// assert_eq!(fm.extract_all(), 1); // both in one packet
    /// assert_eq!(told.try_recv().unwrap(), b"len=5;hello");
    /// ```
    pub fn pieces(&mut self, pieces: &[&[u8]]) -> Result<(), SendError> {
        let mut gather = self.draft.gather(pieces)?;
        while !gather.is_done() {
            match self.draft.step(&mut self.fm.endpoint, &mut gather) {
                Err(SendError::Full) => {
                    let draft = &mut self.draft;
                    self.fm.until_room(|endpoint| draft.step(endpoint, &mut gather))?;
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Adds as much of a piece as there is room for and says how much that was; [`SendError::Full`] if there is none.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// fm.register_stream(Handler(1), |_| async { Flow::Continue });
    /// let data = vec![0; 1 << 20];
    /// let mut message = fm.begin_message(me, data.len() as u64, Handler(1)).unwrap();
    /// let mut sent = 0;
    /// while sent < data.len() {
    ///     match message.try_piece(&data[sent..]) {
    ///         Ok(n) => sent += n,
    ///         Err(SendError::Full) => drop(message.fm().extract_all()), // something else could be done here
    ///         Err(failed) => panic!("{failed}"),
    ///     }
    /// }
    /// message.end().unwrap();
    /// ```
    pub fn try_piece(&mut self, bytes: &[u8]) -> Result<usize, SendError> {
        let pieces = [bytes];
        let mut gather = self.draft.gather(&pieces)?;
        while !gather.is_done() {
            match self.draft.step(&mut self.fm.endpoint, &mut gather) {
                Ok(()) => {}
                Err(SendError::Full) if gather.done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(gather.done)
    }

    /// Ends the message. If its pieces were fewer than announced, the receiver sees a message of what there was.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| { tell.send(message.len()).unwrap(); Flow::Continue });
    /// let mut message = fm.begin_message(me, 1000, Handler(1)).unwrap();
    /// message.piece(&[0; 10]).unwrap();
    /// message.end().unwrap(); // after 10 of 1000
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok(10));
    /// ```
    pub fn end(mut self) -> Result<(), SendError> {
        match self.draft.finish(&mut self.fm.endpoint) {
            Err(SendError::Full) => {
                let draft = &mut self.draft;
                self.fm.until_room(|endpoint| draft.finish(endpoint))
            }
            other => other,
        }
    }

    /// The Fast Messages it goes through, to extract, or to send something else in between.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| { tell.send(message.to_vec()).unwrap(); Flow::Continue });
    /// let mut long = fm.begin_message(me, 8, Handler(1)).unwrap();
    /// long.piece(b"long").unwrap();
    /// long.fm().send(me, Handler(1), b"between").unwrap(); // overtakes it
    /// long.piece(b"er").unwrap();
    /// long.end().unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_iter().collect::<Vec<_>>(), [&b"between"[..], b"longer"]);
    /// ```
    pub fn fm(&mut self) -> &mut Fm {
        self.fm
    }
}

impl Drop for Outgoing<'_> {
    fn drop(&mut self) {
        if let Some(ending) = self.draft.abandon(&mut self.fm.endpoint) {
            self.fm.dispatch.stalled.endings.push(ending);
            self.fm.dispatch.woken().look_again();
        }
    }
}

/// The way to send from inside a stream handler: where it would have to wait for room, the handler is suspended.
///
/// A suspended handler keeps the credit of what has arrived for it. So if the handlers of two ranks answer each other's long
/// messages, let each rank have only as much unanswered as its credit holds, or both may end up waiting for room that only
/// the other's handler can make.
///
/// ```
/// use barewire::core::{Config, job::Job};
/// use barewire::fm::{Flow, Fm, Handler, Stream};
///
/// async fn echo(mut stream: Stream) -> Flow {
///     let mut back = stream.sender().begin_message(stream.from(), stream.len(), Handler(2));
///     let mut some = [0; 4096];
///     loop {
///         match stream.receive(&mut some).await {
///             0 => break,
///             n => back.piece(&some[..n]).await.expect("the peer is still there"),
///         }
///     }
///     back.end().await.expect("the peer is still there");
///     Flow::Continue
/// }
///
/// let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
/// fm.register_stream(Handler(1), echo);
/// let (tell, told) = std::sync::mpsc::channel();
/// fm.register(Handler(2), move |_, m| { tell.send(m.len()).expect("somebody listens"); Flow::Continue });
/// fm.send(fm.me(), Handler(1), &[7; 100_000]).unwrap();
/// let mut len = None;
/// fm.wait(None, || { len = told.try_recv().ok(); len.is_some() }).unwrap();
/// assert_eq!(len, Some(100_000));
/// ```
#[derive(Clone, Debug)]
pub struct Sender {
    turns: Borrower<Turns>,
}

impl Sender {
    pub(super) fn new(turns: Borrower<Turns>) -> Sender {
        Sender { turns }
    }

    /// Sends a message whole.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register_stream(Handler(1), |stream| async move {
    ///     stream.sender().send(stream.from(), Handler(2), &[3; 100_000]).await.expect("the peer is there");
    ///     Flow::Continue
    /// });
    /// fm.register(Handler(2), move |_, message| { tell.send(message.len()).unwrap(); Flow::Continue });
    /// fm.send(me, Handler(1), b"").unwrap();
    /// fm.wait(None, || told.try_recv() == Ok(100_000)).unwrap();
    /// ```
    pub async fn send(&self, to: Peer, handler: Handler, bytes: &[u8]) -> Result<(), SendError> {
        let mut message = self.begin_message(to, bytes.len() as u64, handler);
        message.piece(bytes).await?;
        message.end().await
    }

    /// Sends four words.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register_stream(Handler(1), |stream| async move {
    ///     let len = stream.len() as u32;
    ///     stream.sender().send_4(stream.from(), Handler(2), [len, 0, 0, 0]).await.expect("the peer is there");
    ///     Flow::Continue
    /// });
    /// fm.register(Handler(2), move |_, message| { tell.send(message.words()[0]).unwrap(); Flow::Continue });
    /// fm.send(me, Handler(1), b"count these").unwrap();
    /// fm.wait(None, || told.try_recv() == Ok(11)).unwrap();
    /// ```
    pub async fn send_4(&self, to: Peer, handler: Handler, words: [u32; 4]) -> Result<(), SendError> {
        self.send(to, handler, &four(words)).await
    }

    /// Sends a message that fits one packet, if there is room.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register_stream(Handler(1), move |stream| {
    ///     let tell = tell.clone();
    ///     async move {
    ///         tell.send(stream.sender()).unwrap(); // taken out of its handler
    ///         Flow::Continue
    ///     }
    /// });
    /// fm.send(me, Handler(1), b"").unwrap();
    /// fm.extract_all();
    /// let sender: Sender = told.try_recv().unwrap();
    /// assert_eq!(sender.try_send(me, Handler(1), b""), Err(SendError::Outside));
    /// ```
    pub fn try_send(&self, to: Peer, handler: Handler, bytes: &[u8]) -> Result<(), SendError> {
        let sent = self.turns.with(|turn| turn.endpoint.send(to, handler.port(), 0, bytes));
        Ok(sent.ok_or(SendError::Outside)??)
    }

    /// Opens a message of at most `len` bytes.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register_stream(Handler(1), |stream| async move {
    ///     let mut answer = stream.sender().begin_message(stream.from(), 6, Handler(2));
    ///     answer.pieces(&[b"one", b"two"]).await.expect("the peer is there");
    ///     answer.end().await.expect("the peer is there");
    ///     Flow::Continue
    /// });
    /// fm.register(Handler(2), move |_, message| { tell.send(message.to_vec()).unwrap(); Flow::Continue });
    /// fm.send(me, Handler(1), b"").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv().unwrap(), b"onetwo");
    /// ```
    pub fn begin_message(&self, to: Peer, len: u64, handler: Handler) -> Posting {
        Posting { turns: self.turns, draft: Draft::new(to, len, handler) }
    }

    /// Waits for `step` to find room.
    async fn until_room<R>(
        turns: &Borrower<Turns>,
        mut step: impl FnMut(&mut Endpoint) -> Result<R, SendError>,
    ) -> Result<R, SendError> {
        poll_fn(|cx| {
            let at_turn = turns.with(|turn| match step(turn.endpoint) {
                Err(SendError::Full) => {
                    turn.stalled.wakers.push(cx.waker().clone());
                    Poll::Pending
                }
                other => Poll::Ready(other),
            });
            at_turn.unwrap_or(Poll::Ready(Err(SendError::Outside)))
        })
        .await
    }
}

/// A message on its way out of a stream handler. Dropping it ends it where it stands, as [`Posting::end`] does.
///
/// ```
/// # use barewire::core::{Config, job::Job};
/// # use barewire::fm::*;
/// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let me = fm.me();
/// # let (tell, told) = std::sync::mpsc::channel();
/// fm.register_stream(Handler(1), |stream| async move {
///     let mut answer: Posting = stream.sender().begin_message(stream.from(), 100, Handler(2));
///     answer.piece(b"dropped here").await.expect("the peer is there");
///     Flow::Continue // which ends the answer too
/// });
/// fm.register(Handler(2), move |_, message| { tell.send(message.to_vec()).unwrap(); Flow::Continue });
/// fm.send(me, Handler(1), b"").unwrap();
/// fm.extract_all();
/// assert_eq!(told.try_recv().unwrap(), b"dropped here");
/// ```
#[derive(Debug)]
#[must_use = "a message goes out with its pieces"]
pub struct Posting {
    turns: Borrower<Turns>,
    draft: Draft,
}

impl Posting {
    /// Adds a piece. Suspends the handler while there is no room.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register_stream(Handler(1), |mut stream| async move {
    ///     let mut doubled = stream.sender().begin_message(stream.from(), 2 * stream.len(), Handler(2));
    ///     let mut byte = [0];
    ///     while stream.receive(&mut byte).await == 1 {
    ///         doubled.piece(&[byte[0]; 2]).await.expect("the peer is there");
    ///     }
    ///     Flow::Continue
    /// });
    /// fm.register(Handler(2), move |_, message| { tell.send(message.to_vec()).unwrap(); Flow::Continue });
    /// fm.send(me, Handler(1), b"echo").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv().unwrap(), b"eecchhoo");
    /// ```
    pub async fn piece(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        self.pieces(&[bytes]).await
    }

    /// Adds several pieces, gathered into the same packets.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register_stream(Handler(1), |stream| async move {
    ///     let mut row = stream.sender().begin_message(stream.from(), 6, Handler(2));
    ///     row.pieces(&[b"a;", b"b;", b"c;"]).await.expect("the peer is there");
    ///     Flow::Continue
    /// });
    /// fm.register(Handler(2), move |_, message| { tell.send(message.to_vec()).unwrap(); Flow::Continue });
    /// fm.send(me, Handler(1), b"").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv().unwrap(), b"a;b;c;");
    /// ```
    pub async fn pieces(&mut self, pieces: &[&[u8]]) -> Result<(), SendError> {
        let mut gather = self.draft.gather(pieces)?;
        while !gather.is_done() {
            Sender::until_room(&self.turns, |endpoint| self.draft.step(endpoint, &mut gather)).await?;
        }
        Ok(())
    }

    /// Ends the message. If its pieces were fewer than announced, the receiver sees a message of what there was.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register_stream(Handler(1), |stream| async move {
    ///     let mut answer = stream.sender().begin_message(stream.from(), 1000, Handler(2));
    ///     answer.piece(&[1; 20]).await.expect("the peer is there");
    ///     answer.end().await.expect("the peer is there"); // after 20 of 1000
    ///     Flow::Continue
    /// });
    /// fm.register(Handler(2), move |_, message| { tell.send(message.len()).unwrap(); Flow::Continue });
    /// fm.send(me, Handler(1), b"").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok(20));
    /// ```
    pub async fn end(mut self) -> Result<(), SendError> {
        let (turns, draft) = (self.turns, &mut self.draft);
        Sender::until_room(&turns, |endpoint| draft.finish(endpoint)).await
    }
}

impl Drop for Posting {
    fn drop(&mut self) {
        let draft = &mut self.draft;
        self.turns.with(|turn| {
            if let Some(ending) = draft.abandon(turn.endpoint) {
                turn.stalled.endings.push(ending);
            }
        });
    }
}
