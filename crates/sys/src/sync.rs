//! The only door to atomics: `std`'s in a build, `loom`'s under the model checker.
//!
//! Also the asymmetric barrier behind sleeping and waking. A sender publishes a message and then looks whether
//! its receiver sleeps; a receiver says that it sleeps and then looks once more for messages. Each needs its
//! store to be visible before its load. A full fence for every message would cost more than the message, so the
//! receiver, which is about to sleep anyway, pays for both sides with `membarrier(2)`.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// How this process orders "publish, then look for a sleeper".
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
