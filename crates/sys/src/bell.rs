//! The doorbell: a flag that says "I sleep" and an eventfd to wake the sleeper.
//!
//! A sender pays one load of a line that hardly ever changes, and a system call only when its receiver really sleeps.
//! The receiver's side is an fd, so one `epoll` waits for neighbours in shared memory and for sockets alike.
//!
//! ```
//! use barewire_sys::bell::{Bell, Ringer};
//! use barewire_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};
//! let bell = Bell::create().unwrap();
//! let [flag, event] = bell.fds().map(|fd| fd.try_clone_to_owned().unwrap());
//! bell.doze();
//! let sender = std::thread::spawn(move || Ringer::open(flag, event).unwrap().ring());
//! let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
//! assert_eq!(poll(&mut [PollFd::new(&bell.fd(), PollFlags::IN)], Some(&limit)), Ok(1), "woken");
//! bell.wake();
//! assert!(sender.join().unwrap(), "the sender knew that it had to ring");
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;

use crate::cpu::Cpu;
use crate::doorbell;
use crate::map::{MapError, Segment};
use crate::sync::{AtomicU32, AtomicU64, Ordering, SenderOrder, can_barrier_others};

const SLEEPING: usize = 0;
const BARRIERS: usize = 64;
/// When the receiver last offered its processor to others, and which that was: a line that it writes often.
const YIELDED_AT: usize = 128;
const YIELDED_ON: usize = 136;
const BYTES_MIN: usize = 192;

/// The receiver's side of its own doorbell.
///
/// ```
/// use barewire_sys::bell::{Bell, Ringer};
/// let bell = Bell::create().unwrap();
/// # let [flag, event] = bell.fds().map(|fd| fd.try_clone_to_owned().unwrap());
/// # let ringer = Ringer::open(flag, event).unwrap();
/// bell.doze();
/// // Here it looks for messages once more, and finds one: it need not wait at all.
/// bell.wake();
/// assert!(!ringer.ring(), "it does not sleep, so senders make no system call");
/// ```
#[derive(Debug)]
pub struct Bell {
    segment: Segment,
    event: OwnedFd,
}

impl Bell {
    /// A doorbell nobody sleeps on yet.
    ///
    /// ```
    /// use barewire_sys::bell::Bell;
    /// # use barewire_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};
    /// let bell = Bell::create().unwrap();
    /// let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    /// assert_eq!(poll(&mut [PollFd::new(&bell.fd(), PollFlags::IN)], Some(&at_once)), Ok(0), "nobody has rung");
    /// ```
    pub fn create() -> Result<Bell, MapError> {
        let segment = Segment::create("barewire-bell", 4096)?;
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| MapError::System { call: "eventfd", errno })?;
        // SYNC setup: peers see the segment only after it is passed to them.
        word(&segment, BARRIERS).store(u32::from(can_barrier_others()), Ordering::Relaxed);
        Ok(Bell { segment, event })
    }

    /// The descriptors a sender needs: the flag's memory and the eventfd.
    ///
    /// ```
    /// use barewire_sys::bell::{Bell, Ringer};
    /// use barewire_sys::map::Segment;
    /// let bell = Bell::create().unwrap();
    /// let [flag, event] = bell.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    /// assert!(Segment::open(flag.try_clone().unwrap(), true).is_ok(), "the flag is in shared memory");
    /// assert!(Segment::open(event.try_clone().unwrap(), true).is_err(), "the other is none");
    /// assert!(Ringer::open(flag, event).is_ok(), "both make a ringer");
    /// ```
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.segment.fd(), self.event.as_fd()]
    }

    /// What to wait on: readable once somebody rang.
    ///
    /// ```
    /// # use barewire_sys::bell::{Bell, Ringer};
    /// # use barewire_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};
    /// # let bell = Bell::create().unwrap();
    /// # let [flag, event] = bell.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    /// # let ringer = Ringer::open(flag, event).unwrap();
    /// let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    /// let has_rung = || poll(&mut [PollFd::new(&bell.fd(), PollFlags::IN)], Some(&at_once)) == Ok(1);
    /// assert!(!has_rung());
    /// ringer.ring_now();
    /// assert!(has_rung() && has_rung(), "and stays so until it wakes");
    /// ```
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Says "I sleep from now on". Look for messages once more after this, and only then wait on the fd.
    ///
    /// ```
    /// # use barewire_sys::bell::{Bell, Ringer};
    /// # let bell = Bell::create().unwrap();
    /// let fds = || bell.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    /// let [one, other] = [fds(), fds()].map(|[flag, event]| Ringer::open(flag, event).unwrap());
    /// bell.doze();
    /// assert!(one.ring());
    /// assert!(!other.ring(), "of several senders one rings");
    /// ```
    pub fn doze(&self) {
        doorbell::doze(self.flag());
    }

    /// Says "I am awake" and forgets earlier rings.
    ///
    /// ```
    /// # use barewire_sys::bell::{Bell, Ringer};
    /// # use barewire_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};
    /// # let bell = Bell::create().unwrap();
    /// # let [flag, event] = bell.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    /// # let ringer = Ringer::open(flag, event).unwrap();
    /// # let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    /// # let has_rung = || poll(&mut [PollFd::new(&bell.fd(), PollFlags::IN)], Some(&at_once)) == Ok(1);
    /// bell.doze();
    /// ringer.ring();
    /// assert!(has_rung());
    /// bell.wake();
    /// assert!(!has_rung() && !ringer.ring());
    /// ```
    pub fn wake(&self) {
        doorbell::wake(self.flag());
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.event, &mut count);
    }

    /// Says that it offers this processor to others, at this moment by the processor's counter.
    ///
    /// ```
    /// use barewire_sys::{bell::{Bell, Ringer}, cpu};
    /// let bell = Bell::create().unwrap();
    /// # let [flag, event] = bell.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    /// # let ringer = Ringer::open(flag, event).unwrap();
    /// let (now, cpu) = (cpu::ticks(), cpu::current_cpu());
    /// bell.say_yielding(now, cpu);
    /// assert_eq!(ringer.yielded(), (now, cpu), "the neighbours know");
    /// ```
    #[inline]
    pub fn say_yielding(&self, at: u64, on: Cpu) {
        // SYNC none: nothing depends on the two being of the same moment; who reads them only guesses by them.
        long_word(&self.segment, YIELDED_AT).store(at, Ordering::Relaxed);
        word(&self.segment, YIELDED_ON).store(on.0, Ordering::Relaxed);
    }

    fn flag(&self) -> &AtomicU32 {
        word(&self.segment, SLEEPING)
    }
}

/// A sender's side of its receiver's doorbell.
///
/// ```
/// use barewire_sys::bell::{Bell, Ringer};
/// let bells = [Bell::create().unwrap(), Bell::create().unwrap()];
/// let ringers = bells.each_ref().map(|bell| {
///     let [flag, event] = bell.fds().map(|fd| fd.try_clone_to_owned().unwrap());
///     Ringer::open(flag, event).unwrap()
/// });
/// bells[1].doze();
/// assert_eq!(ringers.map(|ringer| ringer.ring()), [false, true], "one for each receiver");
/// ```
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
        if segment.len() < BYTES_MIN {
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
    ///
    /// ```
    /// # use barewire_sys::bell::{Bell, Ringer};
    /// # let bell = Bell::create().unwrap();
    /// # let [flag, event] = bell.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    /// # let ringer = Ringer::open(flag, event).unwrap();
    /// assert!(!ringer.ring(), "awake");
    /// bell.doze();
    /// assert!(ringer.ring(), "asleep until now");
    /// assert!(!ringer.ring(), "rung already");
    /// ```
    #[inline(always)]
    pub fn ring(&self) -> bool {
        let must = doorbell::must_ring(word(&self.segment, SLEEPING), self.order);
        if must {
            self.ring_now();
        }
        must
    }

    /// Wakes the receiver, whatever its flag says.
    ///
    /// ```
    /// # use barewire_sys::bell::{Bell, Ringer};
    /// # let bell = Bell::create().unwrap();
    /// let [flag, event] = bell.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    /// let count = event.try_clone().unwrap();
    /// let ringer = Ringer::open(flag, event).unwrap();
    /// ringer.ring_now();
    /// ringer.ring_now();
    /// let mut rings = [0; 8];
    /// barewire_sys::rustix::io::read(&count, &mut rings).unwrap();
    /// assert_eq!(u64::from_ne_bytes(rings), 2, "though nobody slept");
    /// ```
    #[cold]
    pub fn ring_now(&self) {
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// When the receiver last said that it offers its processor to others, by the processor's counter, and which that was.
    ///
    /// ```
    /// use barewire_sys::{bell::{Bell, Ringer}, cpu::Cpu};
    /// # let bell = Bell::create().unwrap();
    /// # let [flag, event] = bell.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    /// # let ringer = Ringer::open(flag, event).unwrap();
    /// assert_eq!(ringer.yielded(), (0, Cpu(0)), "never yet");
    /// ```
    #[inline]
    pub fn yielded(&self) -> (u64, Cpu) {
        // SYNC none: as in `say_yielding`.
        let at = long_word(&self.segment, YIELDED_AT).load(Ordering::Relaxed);
        (at, Cpu(word(&self.segment, YIELDED_ON).load(Ordering::Relaxed)))
    }

    /// How a look at flags in this peer's shared memory is ordered behind a publication.
    ///
    /// ```
    /// use barewire_sys::{doorbell::must_ring, sync::{AtomicU32, SenderOrder}};
    /// # use barewire_sys::bell::{Bell, Ringer};
    /// # let bell = Bell::create().unwrap();
    /// # let [flag, event] = bell.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    /// # let ringer = Ringer::open(flag, event).unwrap();
    /// let wants_room = AtomicU32::new(1); // another flag of the same peer
    /// assert!(must_ring(&wants_room, ringer.order()) && !must_ring(&wants_room, ringer.order()));
    /// assert!([SenderOrder::Fence, SenderOrder::of_this_process()].contains(&ringer.order()));
    /// ```
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

#[inline(always)]
fn long_word(segment: &Segment, offset: usize) -> &AtomicU64 {
    segment
        .atomic_u64(offset)
        .expect("the segment is writable and at least a page: checked when it was opened")
}
