//! A packet in the hands of its consumer: back-pressure is ownership.

#[cfg(doc)]
use super::Reliable;
use super::pool::Pool;
use super::receiver::Receiver;
use std::ops::Deref;

/// A packet whose turn it is, read in its slot. Dropping it consumes it.
///
/// ```
/// # use barewire_core::filter::reliable::{Reliable, ReliableConfig};
/// # use barewire_core::time::Nanos;
/// # let mut a = Reliable::with_peer(ReliableConfig::default(), 1, 2)?;
/// # let mut b = Reliable::with_peer(ReliableConfig::default(), 2, 1)?;
/// # a.send(3, |buf| buf.copy_from_slice(b"abc"))?;
/// # let mut wire = Vec::new();
/// # a.poll_transmit(Nanos::ZERO, &mut wire);
/// # b.on_datagram(Nanos::ZERO, &wire);
/// b.recv().expect("it has arrived").leave(); // not now
/// let packet = b.recv().expect("it is still there").hold(); // ours, credit and all
/// assert_eq!(&*packet, b"abc");
/// assert!(b.recv().is_none());
/// b.release(packet);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Received<'a> {
    receiver: &'a mut Receiver,
    pool: &'a mut Pool,
    consume: bool,
}

impl<'a> Received<'a> {
    /// The packet whose turn it is, if it has arrived.
    pub(super) fn new(receiver: &'a mut Receiver, pool: &'a mut Pool) -> Option<Self> {
        receiver.front()?;
        Some(Self { receiver, pool, consume: true })
    }

    /// Leaves the packet where it is; the next [`recv`](Reliable::recv) finds it again.
    ///
    /// ```
    /// # use barewire_core::{filter::reliable::{Reliable, ReliableConfig}, time::Nanos};
    /// # let mut a = Reliable::with_peer(ReliableConfig::default(), 1, 2)?;
    /// # let mut b = Reliable::with_peer(ReliableConfig::default(), 2, 1)?;
    /// # let mut wire = Vec::new();
    /// # for number in [3, 4] {
    /// #     a.send(1, |packet| packet[0] = number)?;
    /// # }
    /// # for now in [Nanos::ZERO, Nanos::MILLI] {
    /// #     while a.poll_transmit(now, &mut wire) { b.on_datagram(now, &wire) }
    /// #     while b.poll_transmit(now + Nanos::from_micros(100), &mut wire) { a.on_datagram(now, &wire) }
    /// # }
    /// let packet = b.recv().expect("3 and 4 were sent");
    /// assert_eq!(packet[..], [3]);
    /// packet.leave();
    /// assert_eq!(b.recv().unwrap()[..], [3], "this time it is dropped");
    /// assert_eq!(b.recv().unwrap()[..], [4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn leave(mut self) {
        self.consume = false;
    }

    /// Takes the packet out without a copy. It keeps its place in the window until [`Reliable::release`].
    ///
    /// ```
    /// # use barewire_core::{filter::reliable::{Reliable, ReliableConfig}, time::Nanos};
    /// # let mut a = Reliable::with_peer(ReliableConfig::default(), 1, 2)?;
    /// # let mut b = Reliable::with_peer(ReliableConfig::default(), 2, 1)?;
    /// # let mut wire = Vec::new();
    /// # for number in [3, 4] {
    /// #     a.send(1, |packet| packet[0] = number)?;
    /// # }
    /// # for now in [Nanos::ZERO, Nanos::MILLI] {
    /// #     while a.poll_transmit(now, &mut wire) { b.on_datagram(now, &wire) }
    /// #     while b.poll_transmit(now + Nanos::from_micros(100), &mut wire) { a.on_datagram(now, &wire) }
    /// # }
    /// let first = b.recv().expect("3 and 4 were sent").hold();
    /// let second = b.recv().expect("the next in order").hold();
    /// assert_eq!((&first[..], &second[..]), (&[3][..], &[4][..]));
    /// b.release(second);
    /// b.release(first);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "the window stays smaller until the packet is released"]
    pub fn hold(mut self) -> Held {
        self.consume = false;
        Held {
            bytes: self.receiver.take().expect("recv() saw the packet and has borrowed the receiver since"),
        }
    }
}

impl Deref for Received<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.receiver.front().unwrap_or_default()
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        if !self.consume {
            return;
        }
        if let Some(buffer) = self.receiver.take() {
            self.pool.give(buffer);
            self.receiver.give_back();
        }
    }
}

/// A packet taken out of its slot, still counted against the window until [`Reliable::release`] of the same
/// end. Dropped instead, it makes the window smaller for good.
///
/// ```
/// # use barewire_core::{filter::reliable::{Held, Reliable, ReliableConfig}, time::Nanos};
/// # let mut a = Reliable::with_peer(ReliableConfig::default(), 1, 2)?;
/// # let mut b = Reliable::with_peer(ReliableConfig::default(), 2, 1)?;
/// # let mut wire = Vec::new();
/// # for text in [b"one", b"two"] {
/// #     a.send(3, |packet| packet.copy_from_slice(text))?;
/// # }
/// # for now in [Nanos::ZERO, Nanos::MILLI] {
/// #     while a.poll_transmit(now, &mut wire) { b.on_datagram(now, &wire) }
/// #     while b.poll_transmit(now + Nanos::from_micros(100), &mut wire) { a.on_datagram(now, &wire) }
/// # }
/// let mut kept: Vec<Held> = Vec::new();
/// while let Some(packet) = b.recv() {
///     kept.push(packet.hold());
/// }
/// assert_eq!(kept.iter().map(|packet| &packet[..]).collect::<Vec<_>>(), [b"one", b"two"]);
/// kept.into_iter().for_each(|packet| b.release(packet));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Held {
    bytes: Vec<u8>,
}

impl Held {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}
