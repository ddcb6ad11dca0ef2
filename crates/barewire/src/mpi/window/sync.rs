//! When what was done to windows counts: fences, locks, and spans that two sides open and close.

use std::cell::RefCell;
use std::time::Duration;

use barewire_core::region::{Atomic, Width};
use barewire_core::{Peer, PeerState};

use super::Window;
use crate::deadline::Deadline;
use crate::mpi::fault::Error;
use crate::mpi::group::{Group, Process};
use crate::spmd::Plain;

/// How a window is locked.
///
/// ```
/// use barewire::mpi::{self, Lock};
/// mpi::launch(&[3], |comm| {
///     let window = comm.window::<u32>(1)?;
///     for _ in 0..10 {
///         let locked = window.lock(0, Lock::Exclusive)?;
///         let mut count = [0];
///         window.get(0, 0, &mut count)?;
///         window.put(0, 0, &[count[0] + 1])?;
///         locked.unlock()?;
///     }
///     window.fence()?;
///     assert!(comm.rank() > 0 || window.local().to_vec()? == [30]);
///     window.free()
/// }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Nobody else has it.
    Exclusive,
    /// Others may have it too, but nobody for itself alone.
    Shared,
}

/// Where the word of the lock is in a block. Zero: nobody has it. Below [`ALONE`]: so many share it. Above: one has it alone, and who is below.
const LOCK: u64 = 0;
const ALONE: u64 = 1 << 63;
/// The first pause of one that finds a window locked, and the longest.
const PAUSE_MIN: Duration = Duration::from_micros(10);
const PAUSE_MAX: Duration = Duration::from_millis(1);
/// Pauses after which it looks whether whoever has it is there.
const PAUSES_A_LOOK: u32 = 16;

/// Tags of what [`Window::post`] and [`Window::complete`] say.
const POSTED: i32 = 0;
const COMPLETE: i32 = 1;

/// Spans that are open: the ranks of those to whom this one has opened its window, and of those into whose it reaches.
#[derive(Debug, Default)]
pub(super) struct Spans {
    opened: RefCell<Option<Vec<u32>>>,
    reaching: RefCell<Option<Vec<u32>>>,
}

impl<T: Plain> Window<T> {
    /// Returns when all ranks have called it, and what they did to the window before has happened.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u8>(1)?;
    ///     window.put(1 - comm.rank(), 0, b"x")?;
    ///     window.fence()?;
    ///     assert_eq!(window.local().to_vec()?, b"x");
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn fence(&self) -> Result<(), Error> {
        // Others wait for us even if something of ours failed.
        let quiet = self.flush_all();
        self.comm.barrier().and(quiet)
    }

    /// Waits until everything that this rank did to a rank's window has happened.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u8>(1)?;
    ///     window.put(1, 0, b"x")?;
    ///     window.flush(1)?;
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn flush(&self, rank: u32) -> Result<(), Error> {
        self.comm.peer(rank)?;
        self.flush_all()
    }

    /// Waits until everything that this rank did to any window has happened. The first failure among it is the error.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u8>(1)?;
    ///     window.put(0, 0, b"x")?;
    ///     window.put(1, 0, b"x")?;
    ///     window.flush_all()?;
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn flush_all(&self) -> Result<(), Error> {
        Ok(self.engine().with(|world| world.quiet())??)
    }

    /// Locks a rank's window, as soon as nobody has it who is in the way; until the guard is dropped. Locks keep out only those who lock.
    ///
    /// There is no queue: whoever asks next when it is free has it, and pauses that grow to a millisecond keep those who wait from taking turns
    /// at the owner's expense. A lock whose holder is gone stays: what it guards may be half done. Who waits for it then gets [`Error::Lost`],
    /// with the holder if one had it alone.
    ///
    /// ```
    /// use barewire::mpi::{self, Lock};
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u32>(1)?;
    ///     let locked = window.lock(0, Lock::Shared)?;
    ///     window.get(0, 0, &mut [0])?;
    ///     drop(locked);
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn lock(&self, rank: u32, how: Lock) -> Result<Locked<'_, T>, Error> {
        self.comm.peer(rank)?;
        self.acquire(rank, how)?;
        Ok(Locked { window: self, rank, how, held: true })
    }

    /// Locks the windows of all ranks, shared; until the guard is dropped.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u32>(1)?;
    ///     let locked = window.lock_all()?;
    ///     window.add(0, 0, &[1])?;
    ///     window.flush(0)?;
    ///     locked.unlock()?;
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn lock_all(&self) -> Result<AllLocked<'_, T>, Error> {
        let locks = (0..self.comm.size()).map(|rank| self.lock(rank, Lock::Shared));
        Ok(AllLocked { locks: locks.collect::<Result<_, _>>()? })
    }

    fn acquire(&self, rank: u32, how: Lock) -> Result<(), Error> {
        let (mut seen, mut pause, mut pauses) = (0, PAUSE_MIN, 0u32);
        let deadline = Deadline::after(self.engine().with(|world| world.timeout())?);
        loop {
            let new = match how {
                Lock::Exclusive if seen == 0 => Some(ALONE | u64::from(self.comm.rank())),
                Lock::Shared if seen < ALONE => Some(seen + 1),
                _ => None,
            };
            let what = match new {
                Some(new) => Atomic::CompareSwap { expected: seen, new },
                None => Atomic::Add(0),
            };
            let found = self.lock_word(rank, what)?;
            if new.is_some() && found == seen {
                return Ok(());
            }
            let in_the_way = found >= ALONE || (found > 0 && how == Lock::Exclusive);
            // Somebody else was faster; what it left may do.
            seen = found;
            if in_the_way {
                if deadline.left() == Some(Duration::ZERO) {
                    return Err(Error::TimedOut);
                }
                self.engine().pause(pause)?;
                (pause, pauses) = ((2 * pause).min(PAUSE_MAX), pauses + 1);
                if pauses % PAUSES_A_LOOK == 0 {
                    self.look_after_holders(found)?;
                }
                seen = self.lock_word(rank, Atomic::Add(0))?;
            }
        }
    }

    /// An error if nobody will ever give a lock back that looks like this.
    fn look_after_holders(&self, word: u64) -> Result<(), Error> {
        if word >= ALONE {
            let holder = (word & !ALONE) as u32;
            // Whoever freed its window is still there.
            return match self.lock_word(holder, Atomic::Add(0)) {
                Ok(_) | Err(Error::Freed) => Ok(()),
                Err(error) => Err(error),
            };
        }
        // Who left in good order has given back what it had.
        let members = self.comm.group().members();
        let lost = self.engine().with_layer(|endpoint, _| {
            let is_lost = |other: &Process| matches!(endpoint.peer_state(Peer(other.0)), PeerState::Lost(_));
            members.iter().copied().find(is_lost)
        })?;
        lost.map_or(Ok(()), |process| Err(Error::Lost(process)))
    }

    fn release(&self, rank: u32, how: Lock) -> Result<(), Error> {
        let flushed = self.flush_all();
        let what = match how {
            Lock::Exclusive => Atomic::CompareSwap { expected: ALONE | u64::from(self.comm.rank()), new: 0 },
            Lock::Shared => Atomic::Add(u64::MAX),
        };
        self.lock_word(rank, what).map(|_| ()).and(flushed)
    }

    fn lock_word(&self, rank: u32, what: Atomic) -> Result<u64, Error> {
        Ok(self.engine().with(|world| world.atomic(&self.blocks, rank, LOCK, Width::U64, what))??)
    }

    /// Opens this rank's window to the processes of a group, until [`Window::wait`]. Does not wait for them.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u32>(1)?;
    ///     let other = comm.group().include(&[1 - comm.rank() as i32]).expect("it is a rank");
    ///     match comm.rank() {
    ///         0 => {
    ///             window.post(&other)?;
    ///             window.wait()?;
    ///             assert_eq!(window.local().to_vec()?, [7]);
    ///         }
    ///         _ => {
    ///             window.begin(&other)?;
    ///             window.put(0, 0, &[7])?;
    ///             window.complete()?;
    ///         }
    ///     }
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn post(&self, group: &Group) -> Result<(), Error> {
        let ranks = self.ranks(group)?;
        if self.spans.opened.borrow().is_some() {
            return Err(Error::OutOfOrder("the window is open already: wait comes first"));
        }
        for &rank in &ranks {
            self.comm.send::<u8>(&[], rank, POSTED)?;
        }
        *self.spans.opened.borrow_mut() = Some(ranks);
        Ok(())
    }

    /// Begins to reach into the windows of a group's processes, when they have all [opened](Window::post) theirs to this rank.
    ///
    /// ```
    /// use barewire::mpi::{self, Error};
    /// mpi::launch(&[1], |comm| {
    ///     let window = comm.window::<u32>(1)?;
    ///     window.post(comm.group())?;
    ///     window.begin(comm.group())?;
    ///     assert!(matches!(window.begin(comm.group()), Err(Error::OutOfOrder(_))));
    ///     window.complete()?;
    ///     window.wait()?;
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn begin(&self, group: &Group) -> Result<(), Error> {
        let ranks = self.ranks(group)?;
        if self.spans.reaching.borrow().is_some() {
            return Err(Error::OutOfOrder("this rank reaches into windows already: complete comes first"));
        }
        for &rank in &ranks {
            self.comm.receive::<u8>(&mut [], rank, POSTED)?;
        }
        *self.spans.reaching.borrow_mut() = Some(ranks);
        Ok(())
    }

    /// Ends what [`Window::begin`] began, when all that this rank did to the windows has happened, and tells their owners.
    ///
    /// ```
    /// use barewire::mpi::{self, Error};
    /// mpi::launch(&[1], |comm| {
    ///     let window = comm.window::<u32>(1)?;
    ///     assert!(matches!(window.complete(), Err(Error::OutOfOrder(_))));
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn complete(&self) -> Result<(), Error> {
        let ranks = self.spans.reaching.borrow_mut().take();
        let ranks = ranks.ok_or(Error::OutOfOrder("this rank reaches into no windows: begin comes first"))?;
        let flushed = self.flush_all();
        let told = ranks.iter().map(|&rank| self.comm.send::<u8>(&[], rank, COMPLETE));
        told.collect::<Vec<_>>().into_iter().collect::<Result<(), Error>>().and(flushed)
    }

    /// Waits until all to whom [`Window::post`] opened this rank's window have [completed](Window::complete) what they did to it.
    ///
    /// ```
    /// use barewire::mpi::{self, Error};
    /// mpi::launch(&[1], |comm| {
    ///     let window = comm.window::<u32>(1)?;
    ///     assert!(matches!(window.wait(), Err(Error::OutOfOrder(_))));
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn wait(&self) -> Result<(), Error> {
        let ranks = self.spans.opened.borrow_mut().take();
        let ranks = ranks.ok_or(Error::OutOfOrder("the window is open to nobody: post comes first"))?;
        ranks.iter().try_for_each(|&rank| self.comm.receive::<u8>(&mut [], rank, COMPLETE).map(|_| ()))
    }

    /// The ranks of a group's processes.
    fn ranks(&self, group: &Group) -> Result<Vec<u32>, Error> {
        let rank = |&process| {
            let rank = self.comm.group().rank_of(process).ok_or(Error::NotMember(process))?;
            Ok(rank as u32)
        };
        group.members().iter().map(rank).collect()
    }
}

/// A rank's window that is locked until this is dropped. [`Window::lock`] makes it.
///
/// ```
/// use barewire::mpi::{self, Lock};
/// mpi::launch(&[2], |comm| {
///     let window = comm.window::<u32>(1)?;
///     {
///         let _alone = window.lock(1, Lock::Exclusive)?;
///         window.put(1, 0, &[comm.rank()])?;
///     }
///     window.free()
/// }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "the window is unlocked when this is dropped"]
pub struct Locked<'a, T: Plain> {
    window: &'a Window<T>,
    rank: u32,
    how: Lock,
    held: bool,
}

impl<T: Plain> Locked<'_, T> {
    /// Unlocks it, when everything that this rank did to windows has happened, and tells what failed of that.
    ///
    /// ```
    /// use barewire::mpi::{self, Lock};
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u32>(1)?;
    ///     window.lock(0, Lock::Exclusive)?.unlock()?;
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn unlock(mut self) -> Result<(), Error> {
        self.held = false;
        self.window.release(self.rank, self.how)
    }
}

impl<T: Plain> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        if self.held {
            // Should the window's owner be gone, its lock is too.
            let _ = self.window.release(self.rank, self.how);
        }
    }
}

/// The windows of all ranks, locked until this is dropped. [`Window::lock_all`] makes it.
///
/// ```
/// use barewire::mpi;
/// mpi::launch(&[2], |comm| {
///     let window = comm.window::<u32>(1)?;
///     let all = window.lock_all()?;
///     window.add(1 - comm.rank(), 0, &[1])?;
///     drop(all);
///     window.free()
/// }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "the windows are unlocked when this is dropped"]
pub struct AllLocked<'a, T: Plain> {
    locks: Vec<Locked<'a, T>>,
}

impl<T: Plain> AllLocked<'_, T> {
    /// Unlocks them, when everything that this rank did to windows has happened, and tells what failed of that.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let window = comm.window::<u32>(1)?;
    ///     window.lock_all()?.unlock()?;
    ///     window.free()
    /// }).unwrap();
    /// ```
    pub fn unlock(self) -> Result<(), Error> {
        let unlocked: Vec<_> = self.locks.into_iter().map(Locked::unlock).collect();
        unlocked.into_iter().collect()
    }
}
