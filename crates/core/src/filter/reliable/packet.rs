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
    pub fn leave(mut self) {
        self.consume = false;
    }

    /// Takes the packet out without a copy. It keeps its place in the window until [`Reliable::release`].
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
