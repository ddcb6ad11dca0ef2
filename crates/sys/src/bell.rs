//! The doorbell: a flag that says "I sleep" and an eventfd to wake the sleeper.
//!
//! A sender pays one load of a line that hardly ever changes, and a system call only when its receiver really sleeps.
//! The receiver's side is an fd, so one `epoll` waits for neighbours in shared memory and for sockets alike.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;

use crate::doorbell;
use crate::map::{MapError, Segment};
use crate::sync::{AtomicU32, Ordering, SenderOrder, can_barrier_others};

const SLEEPING: usize = 0;
const BARRIERS: usize = 64;

/// The receiver's side of its own doorbell.
#[derive(Debug)]
pub struct Bell {
    segment: Segment,
    event: OwnedFd,
}

impl Bell {
    /// A doorbell nobody sleeps on yet.
    pub fn create() -> Result<Bell, MapError> {
        let segment = Segment::create("barewire-bell", 4096)?;
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| MapError::System { call: "eventfd", errno })?;
        // SYNC setup: peers see the segment only after it is passed to them.
        word(&segment, BARRIERS).store(u32::from(can_barrier_others()), Ordering::Relaxed);
        Ok(Bell { segment, event })
    }

    /// The descriptors a sender needs: the flag's memory and the eventfd.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.segment.fd(), self.event.as_fd()]
    }

    /// What to wait on: readable once somebody rang.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Says "I sleep from now on". Look for messages once more after this, and only then wait on the fd.
    pub fn doze(&self) {
        doorbell::doze(self.flag());
    }

    /// Says "I am awake" and forgets earlier rings.
    pub fn wake(&self) {
        doorbell::wake(self.flag());
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.event, &mut count);
    }

    fn flag(&self) -> &AtomicU32 {
        word(&self.segment, SLEEPING)
    }
}

/// A sender's side of its receiver's doorbell.
#[derive(Debug)]
pub struct Ringer {
    segment: Segment,
    event: OwnedFd,
    order: SenderOrder,
}

impl Ringer {
    /// The sender's side of a doorbell whose descriptors a peer passed to us.
    ///
    /// ```
    /// use barewire_sys::bell::{Bell, Ringer};
    /// let bell = Bell::create().unwrap();
    /// let [flag, event] = bell.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    /// let ringer = Ringer::open(flag, event).unwrap();
    /// assert!(!ringer.ring(), "nobody sleeps");
    /// bell.doze();
    /// assert!(ringer.ring());
    /// bell.wake();
    /// ```
    pub fn open(flag: OwnedFd, event: OwnedFd) -> Result<Ringer, MapError> {
        let segment = Segment::open(flag, true)?;
        if segment.len() < BARRIERS + 4 {
            return Err(MapError::Unfit { reason: "a doorbell is at least one page" });
        }
        rustix::io::ioctl_fionbio(&event, true)
            .map_err(|errno| MapError::System { call: "setting an eventfd non-blocking", errno })?;
        // SYNC setup: written before the segment was passed to us.
        let barriers = word(&segment, BARRIERS).load(Ordering::Relaxed) != 0;
        let order = if barriers { SenderOrder::of_this_process() } else { SenderOrder::Fence };
        Ok(Ringer { segment, event, order })
    }

    /// After publishing: wakes the receiver if it sleeps, and says whether it did.
    #[inline(always)]
    pub fn ring(&self) -> bool {
        let must = doorbell::must_ring(word(&self.segment, SLEEPING), self.order);
        if must {
            self.ring_now();
        }
        must
    }

    /// Wakes the receiver, whatever its flag says.
    #[cold]
    pub fn ring_now(&self) {
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// How a look at flags in this peer's shared memory is ordered behind a publication.
    pub fn order(&self) -> SenderOrder {
        self.order
    }
}

#[inline(always)]
fn word(segment: &Segment, offset: usize) -> &AtomicU32 {
    segment
        .atomic_u32(offset)
        .expect("the segment is writable and at least a page: checked when it was opened")
}
