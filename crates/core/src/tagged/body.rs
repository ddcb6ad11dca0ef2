//! Where a message's bytes come from and go to.

use barewire_sys::memory::Memory;
use barewire_sys::userbuf::UserBuf;
use barewire_sys::wirebuf::{Places, WireMut, WireRef};

use crate::incoming::Incoming;
use crate::region::Key;

/// Bytes that are gathered as they are sent: a datatype with holes, say.
///
/// ```
/// use barewire_core::tagged::{Envelope, Gather, Mode, Source, Tagged, Want};
/// use barewire_sys::wirebuf::WireMut;
/// /// Every second byte.
/// #[derive(Debug)]
/// struct Column(Vec<u8>);
/// impl Gather for Column {
///     fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>) {
///         for byte in self.0.iter().step_by(2).skip(offset as usize).take(wire.remaining()) {
///             wire.write(&[*byte]);
///         }
///     }
/// }
/// # use barewire_core::{Config, Endpoint, job::Job};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// let column = Box::new(Column(b"w.o.r.d.".to_vec()));
/// tagged.send(&mut endpoint, me, Envelope { context: 1, tag: 7 }, Mode::Standard, 4, Source::Gather(column)).unwrap();
/// endpoint.progress(&mut tagged, usize::MAX);
/// let matched = tagged.claim(&Want { context: 1, from: None, tag: Some(7) }).unwrap();
/// assert_eq!(tagged.take_whole(&mut endpoint, matched).unwrap(), b"word");
/// ```
pub trait Gather: Send + std::fmt::Debug {
    /// Writes the message's bytes from `offset` on until `wire` is full.
    ///
    /// ```
    /// use barewire_core::tagged::Gather;
    /// use barewire_sys::wirebuf::WireMut;
    /// #[derive(Debug)]
    /// struct Numbers;
    /// impl Gather for Numbers {
    ///     fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>) {
    ///         (offset..offset + wire.remaining() as u64).for_each(|n| drop(wire.write(&[n as u8])));
    ///     }
    /// }
    /// let mut packet = [0; 4];
    /// Numbers.gather(10, &mut WireMut::new(&mut packet));
    /// assert_eq!(packet, [10, 11, 12, 13]);
    /// ```
    fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>);
    /// The bytes from `offset` on that lie together, at most `len`, to be taken from where they are. `None`, unless a source says
    /// otherwise: they are to be gathered.
    ///
    /// ```
    /// use barewire_core::tagged::Gather;
    /// use barewire_sys::wirebuf::{WireMut, WireRef};
    /// /// A text and its end: two pieces, of which each lies together.
    /// #[derive(Debug)]
    /// struct Ended(Vec<u8>);
    /// impl Gather for Ended {
    ///     fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>) {
    ///         self.slice(offset, wire.remaining()).map(|mut bytes| wire.write_from(&mut bytes));
    ///     }
    ///     fn slice(&self, offset: u64, len: usize) -> Option<WireRef<'_>> {
    ///         let bytes = self.0.get(offset as usize..).filter(|left| !left.is_empty()).unwrap_or(b"\0");
    ///         Some(WireRef::new(&bytes[..len.min(bytes.len())]))
    ///     }
    /// }
    /// let text = Ended(b"a text".to_vec());
    /// assert_eq!(text.slice(2, 100).unwrap().to_vec(), b"text");
    /// assert_eq!(text.slice(6, 100).unwrap().to_vec(), b"\0");
    /// ```
    fn slice(&self, offset: u64, len: usize) -> Option<WireRef<'_>> {
        let _ = (offset, len);
        None
    }
    /// The exported region that all of them are in, one after the other, and where in it, if they are.
    ///
    /// ```
    /// use barewire_core::region::{Memory, Rights, Who};
    /// use barewire_core::tagged::{Exported, Gather};
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// let memory = Memory::shared(4096).unwrap();
    /// let key = endpoint.export(&memory, Rights::READ, Who::Anyone).unwrap();
    /// assert_eq!(Exported { memory, at: 100, key }.region(), Some((key, 100)));
    /// ```
    fn region(&self) -> Option<(Key, u64)> {
        None
    }
}

/// Bytes that are scattered as they arrive.
///
/// ```
/// use barewire_core::Incoming;
/// use barewire_core::tagged::{Envelope, Mode, Received, Scatter, Sink, Source, Tagged, Want};
/// use std::sync::{Arc, Mutex};
/// /// A log that everything is appended to, up to so many bytes.
/// #[derive(Debug)]
/// struct Log(Arc<Mutex<Vec<u8>>>, u64);
/// impl Scatter for Log {
///     fn capacity(&self) -> u64 {
///         self.1
///     }
///     fn scatter(&mut self, offset: u64, packet: &mut Incoming<'_>, len: usize) {
///         let mut bytes = vec![0; len];
///         packet.read(&mut bytes);
///         self.scatter_kept(offset, &bytes);
///     }
///     fn scatter_kept(&mut self, _: u64, bytes: &[u8]) {
///         self.0.lock().unwrap().extend(bytes);
///     }
/// }
/// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// let (log, words) = (Arc::new(Mutex::new(b"> ".to_vec())), Memory::private(7));
/// assert!(words.write(0, b"written"));
/// let want = Want { context: 1, from: None, tag: Some(7) };
/// let received = tagged.receive(&mut endpoint, want, Sink::Scatter(Box::new(Log(log.clone(), 5))));
/// tagged.send(&mut endpoint, me, Envelope { context: 1, tag: 7 }, Mode::Standard, 7, Source::Memory(words, 0)).unwrap();
/// endpoint.progress(&mut tagged, usize::MAX);
/// assert_eq!(*log.lock().unwrap(), b"> writt", "there was room for five");
/// # assert!(matches!(received, Received::Pending(_)));
/// ```
pub trait Scatter: Send + std::fmt::Debug {
    /// How many bytes there is room for.
    ///
    /// ```
    /// use barewire_core::Incoming;
    /// use barewire_core::tagged::{Envelope, Failure, Mode, Received, Scatter, Sink, Source, Tagged, Want};
    /// /// Room for two bytes, whatever they are.
    /// #[derive(Debug)]
    /// struct Two;
    /// impl Scatter for Two {
    ///     fn capacity(&self) -> u64 { 2 }
    ///     fn scatter(&mut self, _: u64, _: &mut Incoming<'_>, len: usize) { assert!(len <= 2) }
    ///     fn scatter_kept(&mut self, _: u64, bytes: &[u8]) { assert!(bytes.len() <= 2) }
    /// }
    /// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// tagged.send(&mut endpoint, me, Envelope { context: 1, tag: 7 }, Mode::Standard, 9, Source::Memory(Memory::private(9), 0)).unwrap();
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// let want = Want { context: 1, from: None, tag: Some(7) };
    /// let Received::Done(status) = tagged.receive(&mut endpoint, want, Sink::Scatter(Box::new(Two))) else { panic!("it has come") };
    /// assert_eq!((status.len, status.failure), (9, Some(Failure::Truncated { over: 7 })));
    /// ```
    fn capacity(&self) -> u64;
    /// Takes `packet`'s bytes, at most `len`, which stand at `offset` in the message.
    ///
    /// ```
    /// use barewire_core::tagged::Scatter;
    /// use barewire_core::{Incoming, Peer, Port};
    /// use barewire_sys::wirebuf::WireRef;
    /// /// Every byte of a message goes to every second one here.
    /// #[derive(Debug, PartialEq)]
    /// struct Column([u8; 8]);
    /// impl Scatter for Column {
    ///     fn capacity(&self) -> u64 { 4 }
    ///     fn scatter(&mut self, offset: u64, packet: &mut Incoming<'_>, len: usize) {
    ///         (offset as usize..).take(len).for_each(|n| drop(packet.read(&mut self.0[2 * n..][..1])));
    ///     }
    ///     fn scatter_kept(&mut self, offset: u64, bytes: &[u8]) {
    ///         bytes.iter().zip(offset as usize..).for_each(|(byte, n)| self.0[2 * n] = *byte);
    ///     }
    /// }
    /// let mut column = Column(*b"........");
    /// column.scatter(1, &mut Incoming::new(Peer(0), Port(1), 0, WireRef::new(b"xyz")), 2);
    /// assert_eq!(column, Column(*b"..x.y..."));
    /// ```
    fn scatter(&mut self, offset: u64, packet: &mut Incoming<'_>, len: usize);
    /// Takes bytes that had been kept.
    ///
    /// ```
    /// use barewire_core::Incoming;
    /// use barewire_core::tagged::Scatter;
    /// /// The sum of all bytes, wherever they stand.
    /// #[derive(Debug)]
    /// struct Sum(u64);
    /// impl Scatter for Sum {
    ///     fn capacity(&self) -> u64 { u64::MAX }
    ///     fn scatter(&mut self, offset: u64, packet: &mut Incoming<'_>, _: usize) {
    ///         self.scatter_kept(offset, &packet.to_vec());
    ///     }
    ///     fn scatter_kept(&mut self, _: u64, bytes: &[u8]) {
    ///         self.0 += bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    ///     }
    /// }
    /// let mut sum = Sum(0);
    /// sum.scatter_kept(0, &[1, 2, 3]);
    /// sum.scatter_kept(3, &[4]);
    /// assert_eq!(sum.0, 10);
    /// ```
    fn scatter_kept(&mut self, offset: u64, bytes: &[u8]);
    /// The places of the bytes from `offset` on, at most `len`, to be put there by somebody else. None, unless a sink says otherwise:
    /// they are to be scattered.
    ///
    /// ```
    /// use barewire_core::Incoming;
    /// use barewire_core::tagged::Scatter;
    /// use barewire_sys::wirebuf::{Places, WireMut};
    /// /// A head of four bytes, and a body elsewhere.
    /// #[derive(Debug)]
    /// struct Letter { head: [u8; 4], body: Vec<u8> }
    /// impl Scatter for Letter {
    ///     fn capacity(&self) -> u64 { 4 + self.body.len() as u64 }
    ///     // What comes in packets is scattered as ever.
    /// #     fn scatter(&mut self, _: u64, _: &mut Incoming<'_>, _: usize) {}
    /// #     fn scatter_kept(&mut self, _: u64, _: &[u8]) {}
    ///     fn place<'a>(&'a mut self, offset: u64, len: usize, places: &mut Places<'a>) {
    ///         let (start, end) = (offset as usize, offset as usize + len);
    ///         places.push(WireMut::new(&mut self.head[start.min(4)..end.min(4)]));
    ///         places.push(WireMut::new(&mut self.body[start.max(4) - 4..end.max(4) - 4]));
    ///     }
    /// }
    /// let (mut letter, mut places) = (Letter { head: [0; 4], body: vec![0; 100] }, Places::default());
    /// letter.place(2, 50, &mut places);
    /// assert_eq!(places.remaining(), 50, "two bytes of the head, 48 of the body");
    /// ```
    fn place<'a>(&'a mut self, offset: u64, len: usize, places: &mut Places<'a>) {
        let _ = (offset, len, places);
    }
}

/// Bytes of memory of ours that is exported for reading: a neighbour that has mapped it copies straight out of it. Goes into
/// [`Source::Gather`].
///
/// ```
/// use barewire_core::region::{Memory, Rights, Who};
/// use barewire_core::tagged::{Envelope, Exported, Mode, Source, Tagged, Want};
/// # use barewire_core::{Config, Endpoint, job::Job};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// let memory = Memory::shared(4096).unwrap();
/// assert!(memory.write(10, b"in the region"));
/// let key = endpoint.export(&memory, Rights::READ, Who::Anyone).unwrap();
/// let source = Source::Gather(Box::new(Exported { memory, at: 10, key }));
/// tagged.send(&mut endpoint, me, Envelope { context: 1, tag: 7 }, Mode::Standard, 13, source).unwrap();
/// endpoint.progress(&mut tagged, usize::MAX);
/// let matched = tagged.claim(&Want { context: 1, from: None, tag: Some(7) }).unwrap();
/// assert_eq!(tagged.take_whole(&mut endpoint, matched).unwrap(), b"in the region");
/// ```
#[derive(Debug)]
pub struct Exported {
    /// The memory.
    pub memory: Memory,
    /// Where in it the message begins.
    pub at: usize,
    /// With what it is read.
    pub key: Key,
}

impl Gather for Exported {
    fn gather(&mut self, offset: u64, wire: &mut WireMut<'_>) {
        if let Some(mut bytes) = self.slice(offset, wire.remaining()) {
            wire.write_from(&mut bytes);
        }
    }

    fn slice(&self, offset: u64, len: usize) -> Option<WireRef<'_>> {
        slice_of(&self.memory, self.at.checked_add(usize::try_from(offset).ok()?)?, len)
    }

    fn region(&self) -> Option<(Key, u64)> {
        Some((self.key, self.at as u64))
    }
}

/// The bytes from `at` on, at most `len`.
fn slice_of(memory: &Memory, at: usize, len: usize) -> Option<WireRef<'_>> {
    memory.wire_ref(at, len.min(memory.len().checked_sub(at)?))
}

/// Where a message's bytes come from. They must not change until the send has ended.
///
/// ```
/// use barewire_core::tagged::{Envelope, Mode, Sent, Source, Tagged, Want};
/// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// let memory = Memory::private(16);
/// assert!(memory.write(0, b"leave out, send"));
/// let source = Source::Memory(memory, 11);
/// let sent = tagged.send(&mut endpoint, me, Envelope { context: 1, tag: 7 }, Mode::Standard, 4, source);
/// assert_eq!(sent, Ok(Sent::Done));
/// endpoint.progress(&mut tagged, usize::MAX);
/// let matched = tagged.claim(&Want { context: 1, from: None, tag: Some(7) }).unwrap();
/// assert_eq!(tagged.take_whole(&mut endpoint, matched).unwrap(), b"send");
/// ```
#[derive(Debug)]
pub enum Source {
    /// A caller's buffer.
    User(UserBuf),
    /// Memory of ours, from an offset on.
    Memory(Memory, usize),
    /// Gathered on the way.
    Gather(Box<dyn Gather>),
}

impl Source {
    /// Writes bytes from `offset` on until `wire` is full.
    #[inline(always)]
    pub(crate) fn fill(&mut self, offset: u64, wire: &mut WireMut<'_>) {
        let (at, len) = (offset as usize, wire.remaining());
        match self {
            Source::User(buffer) => {
                buffer.wire_ref(at, len).map(|mut bytes| wire.write_from(&mut bytes));
            }
            Source::Memory(memory, start) => {
                memory.wire_ref(*start + at, len).map(|mut bytes| wire.write_from(&mut bytes));
            }
            Source::Gather(gather) => gather.gather(offset, wire),
        }
    }
}

impl Source {
    /// The bytes from `offset` on that lie together, at most `len`; `None` if they have to be gathered.
    pub(super) fn slice(&self, offset: u64, len: usize) -> Option<WireRef<'_>> {
        let at = usize::try_from(offset).ok()?;
        match self {
            Source::User(buffer) => buffer.wire_ref(at, len.min(buffer.len().checked_sub(at)?)),
            Source::Memory(memory, start) => slice_of(memory, start.checked_add(at)?, len),
            Source::Gather(gather) => gather.slice(offset, len),
        }
    }

    /// Where its first `len` bytes are, if they lie together.
    pub(super) fn address(&self, len: usize) -> Option<u64> {
        self.slice(0, len).filter(|bytes| bytes.remaining() == len).map(|bytes| bytes.address())
    }
}

/// Where a message's bytes go. What does not fit is dropped, and the outcome says so.
///
/// ```
/// use barewire_core::tagged::{Envelope, Failure, Mode, Received, Sink, Source, Tagged, Want};
/// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// let (text, into, mut seen) = (Memory::private(8), Memory::private(8), [0; 8]);
/// assert!(text.write(0, b"too long"));
/// tagged.send(&mut endpoint, me, Envelope { context: 1, tag: 7 }, Mode::Standard, 8, Source::Memory(text, 0)).unwrap();
/// endpoint.progress(&mut tagged, usize::MAX);
/// let sink = Sink::Memory(into.clone(), 2, 3);
/// let received = tagged.receive(&mut endpoint, Want { context: 1, from: None, tag: Some(7) }, sink);
/// assert!(matches!(received, Received::Done(status) if status.failure == Some(Failure::Truncated { over: 5 })));
/// assert!(into.read(0, &mut seen));
/// assert_eq!(&seen, b"\0\0too\0\0\0");
/// ```
#[derive(Debug)]
pub enum Sink {
    /// A caller's buffer.
    User(UserBuf),
    /// Memory of ours, from an offset on, so many bytes.
    Memory(Memory, usize, usize),
    /// Scattered on the way.
    Scatter(Box<dyn Scatter>),
}

impl Sink {
    #[inline(always)]
    pub(crate) fn capacity(&self) -> u64 {
        match self {
            Sink::User(buffer) => buffer.len() as u64,
            Sink::Memory(memory, at, len) => (*len).min(memory.len().saturating_sub(*at)) as u64,
            Sink::Scatter(scatter) => scatter.capacity(),
        }
    }

    /// Takes a packet's bytes, which stand at `offset` in the message, as far as they fit.
    #[inline(always)]
    pub(crate) fn take(&mut self, offset: u64, packet: &mut Incoming<'_>) {
        let room = self.capacity().saturating_sub(offset);
        let len = (packet.remaining() as u64).min(room) as usize;
        match self {
            Sink::User(buffer) => take_user(buffer, offset, packet),
            Sink::Memory(memory, at, _) => {
                memory.wire_mut(*at + offset as usize, len).map(|mut place| packet.read_to(&mut place));
            }
            Sink::Scatter(scatter) => scatter.scatter(offset, packet, len),
        }
    }

    /// The places of the bytes from `offset` on, at most `len`; none if they do not fit at all, or have to be scattered.
    pub(super) fn place<'a>(&'a mut self, offset: u64, len: usize, places: &mut Places<'a>) {
        let room = usize::try_from(self.capacity().saturating_sub(offset)).unwrap_or(usize::MAX);
        let (start, len) = (usize::try_from(offset).unwrap_or(usize::MAX), len.min(room));
        let place = match self {
            Sink::User(buffer) => buffer.wire_mut(start, len),
            Sink::Memory(memory, at, _) => memory.wire_mut(at.saturating_add(start), len),
            Sink::Scatter(scatter) => return scatter.place(offset, len, places),
        };
        place.map(|place| places.push(place));
    }

    /// Takes bytes that had been kept, as far as they fit.
    pub(crate) fn take_kept(&mut self, offset: u64, bytes: &[u8]) {
        let room = self.capacity().saturating_sub(offset);
        let bytes = &bytes[..(bytes.len() as u64).min(room) as usize];
        match self {
            Sink::User(buffer) => {
                buffer.wire_mut(offset as usize, bytes.len()).map(|mut place| place.write(bytes));
            }
            Sink::Memory(memory, at, _) => {
                memory.wire_mut(*at + offset as usize, bytes.len()).map(|mut place| place.write(bytes));
            }
            Sink::Scatter(scatter) => scatter.scatter_kept(offset, bytes),
        }
    }
}

/// Takes a packet's bytes, which stand at `offset` in the message, into a caller's buffer, as far as they fit.
#[inline(always)]
pub(super) fn take_user(buffer: &UserBuf, offset: u64, packet: &mut Incoming<'_>) {
    let room = (buffer.len() as u64).saturating_sub(offset);
    let len = (packet.remaining() as u64).min(room) as usize;
    buffer.wire_mut(offset as usize, len).map(|mut place| packet.read_to(&mut place));
}
