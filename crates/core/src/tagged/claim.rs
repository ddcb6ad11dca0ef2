//! Messages that nobody has asked for: what is there, and taking one out of the matching.

use std::ops::RangeInclusive;

use super::body::Sink;
use super::matching::{Envelope, Want};
use super::receive::{Offer, Received, Unexpected};
use super::requests::Status;
use super::{KEEP_BYTES, Tagged};
use crate::Peer;
use crate::endpoint::Endpoint;

/// A message taken out of the matching, to be received by nobody else.
///
/// ```
/// use barewire_core::tagged::{Envelope, Matched, Tagged, Want};
/// # use barewire_sys::userbuf::UserBuf;
/// # use barewire_core::{Config, Endpoint, job::Job};
/// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
/// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
/// tagged.send_now(&mut endpoint, me, Envelope { context: 1, tag: 7 }, UserBuf::EMPTY).unwrap();
/// endpoint.progress(&mut tagged, usize::MAX);
/// let want = Want { context: 1, from: None, tag: None };
/// let ours: Matched = tagged.claim(&want).expect("it has come");
/// assert_eq!((ours.status().from, tagged.probe(&want)), (me, None), "nobody else finds it");
/// ```
#[derive(Debug)]
pub struct Matched {
    from: Peer,
    envelope: Envelope,
    message: Unexpected,
}

impl Matched {
    /// From whom, with which tag, how long.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Mode, Sink, Source, Tagged, Want};
    /// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let source = Source::Memory(Memory::private(300), 0);
    /// tagged.send(&mut endpoint, me, Envelope { context: 1, tag: 7 }, Mode::Standard, 300, source).unwrap();
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// let matched = tagged.claim(&Want { context: 1, from: None, tag: None }).unwrap();
    /// let place = Memory::private(matched.status().len as usize);
    /// assert_eq!((matched.status().tag, place.len()), (7, 300), "now there is room for all of it");
    /// ```
    pub fn status(&self) -> Status {
        Status::good(self.from, self.envelope.tag, self.message.len())
    }
}

impl Tagged {
    /// Receives a message that [`Tagged::claim`] took.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Mode, Received, Sink, Source, Tagged, Want};
    /// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let (text, into, mut seen) = (Memory::private(4), Memory::private(4), [0; 4]);
    /// assert!(text.write(0, b"mine"));
    /// tagged.send(&mut endpoint, me, Envelope { context: 1, tag: 7 }, Mode::Standard, 4, Source::Memory(text, 0)).unwrap();
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// let matched = tagged.claim(&Want { context: 1, from: None, tag: Some(7) }).unwrap();
    /// let received = tagged.receive_matched(&mut endpoint, matched, Sink::Memory(into.clone(), 0, 4));
    /// assert!(into.read(0, &mut seen) && matches!(received, Received::Done(status) if status.len == 4));
    /// assert_eq!(&seen, b"mine");
    /// ```
    pub fn receive_matched(&mut self, endpoint: &mut Endpoint, matched: Matched, mut sink: Sink) -> Received {
        let Matched { from, envelope, message } = matched;
        match message {
            Unexpected::Whole(bytes) => {
                sink.take_kept(0, &bytes);
                let len = bytes.len() as u64;
                self.give_back(endpoint, from, len + KEEP_BYTES);
                Received::Done(Status::received(from, envelope.tag, len, sink.capacity()))
            }
            Unexpected::Parts { stream, .. } => {
                self.receive_parts(endpoint, from, envelope.tag, stream, sink)
            }
            Unexpected::Offer { request, len, shown, told } => {
                sink.take_kept(0, &told);
                let slot = self.requests.next_slot();
                let base = told.len() as u64;
                self.give_back(endpoint, from, shown.charge(len, base));
                let offer = Offer { request, len, shown, base };
                Received::Pending(self.accept(endpoint, slot, from, envelope.tag, offer, sink))
            }
        }
    }

    /// The bytes of a message that [`Tagged::claim`] took, if all of them are here; otherwise the message itself, which
    /// [`Tagged::receive_matched`] receives.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Mode, Source, Tagged, Want};
    /// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// for (tag, len) in [(1, 2), (2, 1 << 20)] {
    ///     let source = Source::Memory(Memory::private(1 << 20), 0);
    ///     tagged.send(&mut endpoint, me, Envelope { context: 1, tag }, Mode::Standard, len, source).unwrap();
    /// }
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// let [short, long] = [1, 2].map(|tag| tagged.claim(&Want { context: 1, from: None, tag: Some(tag) }).unwrap());
    /// assert_eq!(tagged.take_whole(&mut endpoint, short).unwrap(), [0, 0]);
    /// let offered = tagged.take_whole(&mut endpoint, long).unwrap_err();
    /// assert_eq!(offered.status().len, 1 << 20, "most of it is still with its sender");
    /// ```
    pub fn take_whole(&mut self, endpoint: &mut Endpoint, matched: Matched) -> Result<Vec<u8>, Matched> {
        match matched {
            Matched { from, message: Unexpected::Whole(bytes), .. } => {
                self.give_back(endpoint, from, bytes.len() as u64 + KEEP_BYTES);
                Ok(bytes)
            }
            Matched { from, message: Unexpected::Parts { stream, .. }, .. } => {
                self.take_parts(endpoint, from, stream).ok_or(matched)
            }
            offered => Err(offered),
        }
    }

    /// Whether a message that nobody has asked for waits in any of these contexts.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// tagged.send_now(&mut endpoint, me, Envelope { context: 5, tag: 7 }, UserBuf::EMPTY).unwrap();
    /// assert!(!tagged.waits_in(0..=u32::MAX), "it is still on its way");
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// assert!(tagged.waits_in(4..=6) && !tagged.waits_in(6..=9));
    /// ```
    pub fn waits_in(&self, contexts: RangeInclusive<u32>) -> bool {
        self.waiting.is_any_in(contexts)
    }

    /// What a receive would find now, if anything.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Mode, Source, Tagged, Want};
    /// # use barewire_core::{Config, Endpoint, job::Job, region::Memory};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// for (tag, len) in [(3, 30), (4, 40)] {
    ///     let source = Source::Memory(Memory::private(40), 0);
    ///     tagged.send(&mut endpoint, me, Envelope { context: 1, tag }, Mode::Standard, len, source).unwrap();
    /// }
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// let len_of = |tag| tagged.probe(&Want { context: 1, from: Some(me), tag }).map(|status| status.len);
    /// assert_eq!((len_of(Some(4)), len_of(None), len_of(Some(5))), (Some(40), Some(30), None), "the earliest, if any will do");
    /// ```
    pub fn probe(&self, want: &Want) -> Option<Status> {
        let (from, envelope, message) = self.waiting.peek(want)?;
        Some(Status::good(from, envelope.tag, message.len()))
    }

    /// Takes the message that a receive would find now out of the matching.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged, Want};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// let want = Want { context: 1, from: Some(me), tag: Some(7) };
    /// assert!(tagged.claim(&want).is_none());
    /// for _ in 0..2 {
    ///     tagged.send_now(&mut endpoint, me, Envelope { context: 1, tag: 7 }, UserBuf::EMPTY).unwrap();
    /// }
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// assert_eq!(std::iter::from_fn(|| tagged.claim(&want)).count(), 2, "each is taken once");
    /// ```
    pub fn claim(&mut self, want: &Want) -> Option<Matched> {
        let (from, envelope, message) = self.waiting.take(want)?;
        self.release(from, &message);
        Some(Matched { from, envelope, message })
    }

    /// The earliest message of a context that nobody has asked for, whatever its tag, among those whose sender is wanted.
    ///
    /// ```
    /// use barewire_core::tagged::{Envelope, Tagged};
    /// # use barewire_sys::userbuf::UserBuf;
    /// # use barewire_core::{Config, Endpoint, job::Job};
    /// # let mut endpoint = Endpoint::open(Job::alone().unwrap(), Config::default()).unwrap();
    /// # let (me, mut tagged) = (endpoint.me(), Tagged::new(&endpoint));
    /// [9, -3].map(|tag| tagged.send_now(&mut endpoint, me, Envelope { context: 1, tag }, UserBuf::EMPTY).unwrap());
    /// endpoint.progress(&mut tagged, usize::MAX);
    /// assert!(tagged.claim_first(1, |from| from != me).is_none());
    /// let tags = [0; 2].map(|_| tagged.claim_first(1, |from| from == me).unwrap().status().tag);
    /// assert_eq!(tags, [9, -3], "in the order in which they came, negative tags too");
    /// ```
    pub fn claim_first(&mut self, context: u32, wanted: impl Fn(Peer) -> bool) -> Option<Matched> {
        let (from, envelope, message) = self.waiting.take_first(context, wanted)?;
        self.release(from, &message);
        Some(Matched { from, envelope, message })
    }

    /// A message is not kept any more.
    pub(super) fn release(&mut self, from: Peer, message: &Unexpected) {
        let peer = &mut self.peers[from.index()];
        peer.kept = peer.kept.saturating_sub(message.charge());
        peer.offers = peer.offers.saturating_sub(u32::from(message.is_offer()));
    }
}
