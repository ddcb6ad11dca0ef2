//! Packets that outlive their handlers, or stay where they are: what a handler says of the one it was given, and what that costs its sender.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a packet that is kept owes its sender; paid when it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    credit: Arc<AtomicU64>,
    amount: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        // SYNC released: a count that only the endpoint's owner reads; no memory is handed over with it.
        self.credit.fetch_add(self.amount, Ordering::Relaxed);
    }
}

/// Where a handler leaves word that it kept a packet, and where dropped frames leave their credit.
#[derive(Debug, Default)]
pub(crate) struct HoldSlot {
    held: Cell<bool>,
    /// What one held packet charges, in the link's own units.
    amount: Cell<u64>,
    /// Whether the packet about to be delivered may be left where it is.
    may_stay: Cell<bool>,
    released: Arc<AtomicU64>,
    taken: Cell<u64>,
}

impl HoldSlot {
    /// The packet just delivered is kept.
    pub fn keep(&self) -> Charge {
        self.held.set(true);
        Charge { credit: self.released.clone(), amount: self.amount.get() }
    }

    /// Sets what the packet about to be delivered would charge.
    #[inline(always)]
    pub fn arm(&self, amount: u64) {
        self.amount.set(amount);
    }

    /// Sets whether packets from now on may be left where they are.
    #[inline(always)]
    pub fn let_stay(&self, may_stay: bool) {
        self.may_stay.set(may_stay);
    }

    #[inline(always)]
    pub fn may_stay(&self) -> bool {
        self.may_stay.get()
    }

    /// Whether the packet just delivered was kept.
    #[inline(always)]
    pub fn take(&self) -> bool {
        self.held.get() && self.held.replace(false)
    }

    /// Credit of frames dropped since the last call.
    #[inline(always)]
    pub fn released(&self) -> u64 {
        // SYNC released: see `Charge::drop`.
        let released = self.released.load(Ordering::Relaxed);
        released - self.taken.replace(released)
    }
}
