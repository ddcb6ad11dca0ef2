//! The doorbell's protocol on one flag: who sleeps says so, who sends looks.
//!
//! Separate from the memory and the eventfd around it, so that the model checker runs the very code that ships.
//!
//! ```
//! use barewire_sys::{doorbell, sync::{AtomicU32, Ordering, SenderOrder}};
//! let (flag, message) = (AtomicU32::new(0), AtomicU32::new(0));
//! std::thread::scope(|scope| {
//!     let sender = scope.spawn(|| {
//!         message.store(7, Ordering::Relaxed);
//!         doorbell::must_ring(&flag, SenderOrder::Fence)
//!     });
//!     doorbell::doze(&flag);
//!     let found = message.load(Ordering::Relaxed) == 7; // the last look
//!     assert!(sender.join().unwrap() || found, "no message is missed by one who sleeps");
//! });
//! ```

use crate::sync::{AtomicU32, Ordering, SenderOrder, before_last_look};

/// The receiver says "I sleep from now on". It must look for messages once more after this, and only then wait.
///
/// ```
/// use barewire_sys::{doorbell, sync::{AtomicU32, SenderOrder}};
/// let flag = AtomicU32::new(0);
/// assert!(!doorbell::must_ring(&flag, SenderOrder::Fence), "nobody sleeps");
/// doorbell::doze(&flag);
/// assert!(doorbell::must_ring(&flag, SenderOrder::Fence));
/// assert!(!doorbell::must_ring(&flag, SenderOrder::Fence), "one ring is enough");
/// ```
pub fn doze(flag: &AtomicU32) {
    // SYNC doorbell: the barrier in `before_last_look` orders this before the caller's last look.
    flag.store(1, Ordering::Relaxed);
    before_last_look();
}

/// The receiver says "I am awake".
///
/// ```
/// use barewire_sys::{doorbell, sync::{AtomicU32, SenderOrder}};
/// let flag = AtomicU32::new(0);
/// doorbell::doze(&flag);
/// doorbell::wake(&flag);
/// assert!(!doorbell::must_ring(&flag, SenderOrder::Fence), "nobody sleeps any more");
/// ```
pub fn wake(flag: &AtomicU32) {
    // SYNC doorbell: no order needed; a stale 1 costs a sender one needless ring.
    flag.store(0, Ordering::Relaxed);
}

/// The sender, after publishing: whether it has to ring. Of several senders one has to.
///
/// ```
/// use barewire_sys::{doorbell, sync::{AtomicU32, SenderOrder}};
/// let flag = AtomicU32::new(0);
/// doorbell::doze(&flag);
/// let rings = std::thread::scope(|scope| {
///     let senders = [0; 4].map(|_| scope.spawn(|| doorbell::must_ring(&flag, SenderOrder::Fence)));
///     senders.map(|sender| sender.join().unwrap())
/// });
/// assert_eq!(rings.iter().filter(|&&must| must).count(), 1);
/// ```
#[inline(always)]
pub fn must_ring(flag: &AtomicU32, order: SenderOrder) -> bool {
    order.after_publish();
    // SYNC doorbell: pairs with the store in `doze`, by way of the barriers on both sides.
    flag.load(Ordering::Relaxed) != 0 && claim(flag)
}

#[cold]
#[inline(never)]
fn claim(flag: &AtomicU32) -> bool {
    // SYNC doorbell: only the exchange matters; the sleeper looks at everything when it wakes.
    flag.swap(0, Ordering::AcqRel) != 0
}
