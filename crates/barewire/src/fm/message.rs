//! What a plain handler gets: the message, and the way to answer it.

use barewire_core::{Endpoint, Incoming, Peer};

use super::Handler;
use super::send::SendError;

/// A whole message, for a plain handler. What is not read when the handler returns is discarded.
///
/// ```
/// # use barewire::core::{Config, job::Job};
/// # use barewire::fm::*;
/// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let me = fm.me();
/// # let (tell, told) = std::sync::mpsc::channel();
/// fm.register(Handler(1), move |_, message| {
///     let mut kind = [0];
///     message.read(&mut kind);
///     tell.send((kind[0], message.to_vec())).expect("somebody listens");
///     Flow::Continue
/// });
/// fm.send(me, Handler(1), b"Kname").unwrap();
/// fm.extract_all();
/// assert_eq!(told.try_recv(), Ok((b'K', b"name".to_vec())));
/// ```
#[derive(Debug)]
pub struct Message<'a>(Source<'a>);

#[derive(Debug)]
enum Source<'a> {
    /// One packet, in wire memory.
    Wire(Incoming<'a>),
    /// Several packets, put together.
    Whole { from: Peer, total: u64, left: &'a [u8] },
}

impl<'a> Message<'a> {
    #[inline(always)]
    pub(super) fn wire(packet: Incoming<'a>) -> Message<'a> {
        Message(Source::Wire(packet))
    }

    pub(super) fn whole(from: Peer, bytes: &'a [u8]) -> Message<'a> {
        Message(Source::Whole { from, total: bytes.len() as u64, left: bytes })
    }

    /// Who sent it.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| { tell.send(message.from()).unwrap(); Flow::Continue });
    /// fm.send(me, Handler(1), b"").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok(Peer(0)));
    /// ```
    #[inline]
    pub fn from(&self) -> Peer {
        match &self.0 {
            Source::Wire(packet) => packet.from,
            Source::Whole { from, .. } => *from,
        }
    }

    /// Bytes of the message.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| {
    ///     message.read(&mut [0; 3]);
    ///     tell.send(message.len()).unwrap(); // reading does not change it
    ///     Flow::Continue
    /// });
    /// fm.send(me, Handler(1), &[0; 50_000]).unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok(50_000));
    /// ```
    #[inline]
    pub fn len(&self) -> u64 {
        match &self.0 {
            Source::Wire(packet) => packet.total,
            Source::Whole { total, .. } => *total,
        }
    }

    /// Whether the message has no bytes.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| { tell.send(message.is_empty()).unwrap(); Flow::Continue });
    /// fm.send(me, Handler(1), b"").unwrap();
    /// fm.send(me, Handler(1), b"x").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_iter().collect::<Vec<_>>(), [true, false]);
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes not read yet.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| {
    ///     message.read(&mut [0; 3]);
    ///     tell.send(message.remaining()).unwrap();
    ///     Flow::Continue
    /// });
    /// fm.send(me, Handler(1), b"ten bytes.").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok(7));
    /// ```
    #[inline]
    pub fn remaining(&self) -> usize {
        match &self.0 {
            Source::Wire(packet) => packet.remaining(),
            Source::Whole { left, .. } => left.len(),
        }
    }

    /// Reads up to `into.len()` bytes straight into their destination and says how many.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| {
    ///     let mut four = [0; 4];
    ///     while let n @ 1.. = message.read(&mut four) {
    ///         tell.send(four[..n].to_vec()).unwrap();
    ///     }
    ///     Flow::Continue
    /// });
    /// fm.send(me, Handler(1), b"sixsix").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_iter().collect::<Vec<_>>(), [&b"sixs"[..], b"ix"]);
    /// ```
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        match &mut self.0 {
            Source::Wire(packet) => packet.read(into),
            Source::Whole { left, .. } => {
                let (now, later) = left.split_at(into.len().min(left.len()));
                into[..now.len()].copy_from_slice(now);
                *left = later;
                now.len()
            }
        }
    }

    /// Reads the four words of a [`super::Fm::send_4`]; a shorter message leaves zeros.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| { tell.send(message.words()).unwrap(); Flow::Continue });
    /// fm.send_4(me, Handler(1), [1, 2, 3, u32::MAX]).unwrap();
    /// fm.send(me, Handler(1), &5u32.to_le_bytes()).unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_iter().collect::<Vec<_>>(), [[1, 2, 3, u32::MAX], [5, 0, 0, 0]]);
    /// ```
    #[inline]
    pub fn words(&mut self) -> [u32; 4] {
        let mut bytes = [0; 16];
        self.read(&mut bytes);
        let word = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        [word(0), word(4), word(8), word(12)]
    }

    /// Everything not read yet.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |_, message| {
    ///     message.read(&mut [0; 5]);
    ///     tell.send(message.to_vec()).unwrap();
    ///     Flow::Continue
    /// });
    /// fm.send(me, Handler(1), b"name=value").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv().unwrap(), b"value");
    /// ```
    pub fn to_vec(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; self.remaining()];
        self.read(&mut bytes);
        bytes
    }
}

/// The way out for a plain handler. A handler runs inside `extract` and cannot wait for room: its sends are refused with
/// [`SendError::Full`] where waiting would deadlock. A handler that has more to say, or has to get through, is a stream
/// handler and uses its [`super::Sender`].
///
/// ```
/// # use barewire::core::{Config, job::Job};
/// # use barewire::fm::*;
/// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let me = fm.me();
/// # let (tell, told) = std::sync::mpsc::channel();
/// fm.register(Handler(1), |context, message| {
///     let answer = message.to_vec().to_ascii_uppercase();
///     context.send(message.from(), Handler(2), &answer).expect("there is room");
///     Flow::Continue
/// });
/// fm.register(Handler(2), move |_, message| { tell.send(message.to_vec()).unwrap(); Flow::Continue });
/// fm.send(me, Handler(1), b"louder").unwrap();
/// fm.extract_all();
/// assert_eq!(told.try_recv().unwrap(), b"LOUDER");
/// ```
#[derive(Debug)]
pub struct Context<'a> {
    pub(super) endpoint: &'a mut Endpoint,
}

impl Context<'_> {
    /// This rank.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |context, message| {
    ///     tell.send(context.me() == message.from()).unwrap(); // from ourselves?
    ///     Flow::Continue
    /// });
    /// fm.send(me, Handler(1), b"").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok(true));
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
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |context, _| { tell.send(context.size()).unwrap(); Flow::Continue });
    /// fm.send(me, Handler(1), b"").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok(1));
    /// ```
    pub fn size(&self) -> u32 {
        self.endpoint.size()
    }

    /// Sends a message that fits one packet, or refuses.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), move |context, message| {
    ///     let too_long = vec![0; 1 << 20]; // more than a packet
    ///     let refused = context.send(message.from(), Handler(2), &too_long);
    ///     tell.send(matches!(refused, Err(SendError::Failed(_)))).unwrap();
    ///     Flow::Continue
    /// });
    /// fm.send(me, Handler(1), b"").unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok(true));
    /// ```
    #[inline]
    pub fn send(&mut self, to: Peer, handler: Handler, bytes: &[u8]) -> Result<(), SendError> {
        Ok(self.endpoint.send(to, handler.port(), 0, bytes)?)
    }

    /// Sends four words, or refuses.
    ///
    /// ```
    /// # use barewire::core::{Config, job::Job};
    /// # use barewire::fm::*;
    /// # let mut fm = Fm::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let me = fm.me();
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// fm.register(Handler(1), |context, message| {
    ///     let [a, b, c, d] = message.words();
    ///     context.send_4(message.from(), Handler(2), [d, c, b, a]).expect("there is room");
    ///     Flow::Continue
    /// });
    /// fm.register(Handler(2), move |_, message| { tell.send(message.words()).unwrap(); Flow::Continue });
    /// fm.send_4(me, Handler(1), [1, 2, 3, 4]).unwrap();
    /// fm.extract_all();
    /// assert_eq!(told.try_recv(), Ok([4, 3, 2, 1]));
    /// ```
    #[inline]
    pub fn send_4(&mut self, to: Peer, handler: Handler, words: [u32; 4]) -> Result<(), SendError> {
        self.send(to, handler, &super::send::four(words))
    }
}
