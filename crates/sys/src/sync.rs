//! The only door to atomics: `std`'s in a build, `loom`'s under the model checker.
//!
//! Also the asymmetric barrier behind sleeping and waking. A sender publishes a message and then looks whether
//! its receiver sleeps; a receiver says that it sleeps and then looks once more for messages. Each needs its
//! store to be visible before its load. A full fence for every message would cost more than the message, so the
//! receiver, which is about to sleep anyway, pays for both sides with `membarrier(2)`.
//!
//! ```
//! use barewire_sys::sync::{AtomicU32, Ordering, SenderOrder, before_last_look};
//! let (message, sleeps) = (AtomicU32::new(0), AtomicU32::new(0));
//! let (seen, rings) = std::thread::scope(|scope| {
//!     let sender = scope.spawn(|| {
//!         message.store(1, Ordering::Relaxed);
//!         SenderOrder::Fence.after_publish();
//!         sleeps.load(Ordering::Relaxed) == 1
//!     });
//!     sleeps.store(1, Ordering::Relaxed);
//!     before_last_look();
//!     (message.load(Ordering::Relaxed) == 1, sender.join().unwrap())
//! });
//! assert!(seen || rings, "at least one of them sees what the other has done");
//! ```

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// How this process orders "publish, then look for a sleeper".
///
/// ```
/// use barewire_sys::sync::{SenderOrder, can_barrier_others};
/// // A sender may go without a fence only if it is registered and its receiver runs barriers for it.
/// let mine = SenderOrder::of_this_process();
/// let order = if can_barrier_others() { mine } else { SenderOrder::Fence };
/// assert!(order == SenderOrder::Fence || mine == SenderOrder::Membarrier);
/// order.after_publish();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderOrder {
    /// The sleeper runs a barrier on every processor for us; sending needs none.
    Membarrier,
    /// The kernel refused to register this process; every send runs a full fence.
    Fence,
}

impl SenderOrder {
    /// Registers this process for other processes' barriers, once.
    ///
    /// ```
    /// use barewire_sys::sync::SenderOrder;
    /// assert_eq!(SenderOrder::of_this_process(), SenderOrder::of_this_process());
    /// ```
    #[cfg(not(loom))]
    pub fn of_this_process() -> SenderOrder {
        static ORDER: std::sync::OnceLock<SenderOrder> = std::sync::OnceLock::new();
        *ORDER.get_or_init(|| {
            match rustix::thread::membarrier(rustix::thread::MembarrierCommand::RegisterGlobalExpedited) {
                Ok(()) => SenderOrder::Membarrier,
                Err(_) => SenderOrder::Fence,
            }
        })
    }

    /// The sender's half: after publishing, before looking for a sleeper.
    ///
    /// ```
    /// use barewire_sys::sync::{AtomicU32, Ordering, SenderOrder};
    /// let (message, sleeps) = (AtomicU32::new(0), AtomicU32::new(1));
    /// message.store(7, Ordering::Release); // publish …
    /// SenderOrder::of_this_process().after_publish();
    /// let must_ring = sleeps.load(Ordering::Relaxed) == 1; // … then look
    /// assert!(must_ring);
    /// ```
    #[inline(always)]
    pub fn after_publish(self) {
        match self {
            // SYNC doorbell: the sleeper's barrier in `before_last_look` orders our publish before our look.
            #[cfg(not(loom))]
            SenderOrder::Membarrier => std::sync::atomic::compiler_fence(Ordering::SeqCst),
            // The model checker has no membarrier; it proves the protocol with the fence both stand for.
            #[cfg(loom)]
            SenderOrder::Membarrier => fence(Ordering::SeqCst),
            // SYNC doorbell: pairs with the barrier or fence in `before_last_look`.
            SenderOrder::Fence => fence(Ordering::SeqCst),
        }
    }
}

/// The sleeper's half: after saying "I sleep", before the last look for messages.
///
/// A full fence here and, where the kernel offers it, a barrier on every processor that runs a registered process.
/// Senders that cannot rely on that barrier fence by themselves, so the two halves always meet.
///
/// ```
/// use barewire_sys::sync::{AtomicU32, Ordering, before_last_look};
/// let (sleeps, message) = (AtomicU32::new(0), AtomicU32::new(7));
/// sleeps.store(1, Ordering::Relaxed);
/// before_last_look();
/// if message.load(Ordering::Relaxed) == 7 {
///     sleeps.store(0, Ordering::Relaxed); // it came just in time
/// }
/// assert_eq!(sleeps.load(Ordering::Relaxed), 0);
/// ```
pub fn before_last_look() {
    // SYNC doorbell: pairs with `SenderOrder::after_publish`.
    fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    if can_barrier_others() {
        let _ = rustix::thread::membarrier(rustix::thread::MembarrierCommand::GlobalExpedited);
    }
}

/// Whether this process can run barriers on other processes' processors, probed once.
///
/// ```
/// let _ = barewire_sys::sync::can_barrier_others();
/// ```
#[cfg(not(loom))]
pub fn can_barrier_others() -> bool {
    static CAN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *CAN.get_or_init(|| {
        rustix::thread::membarrier(rustix::thread::MembarrierCommand::GlobalExpedited).is_ok()
    })
}
