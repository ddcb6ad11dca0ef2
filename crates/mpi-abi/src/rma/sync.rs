//! Epochs: when operations may begin, and when they have ended.

use super::letter::{Head, Kind};
use super::origin::failure;
use super::{Epoch, State, Window};
use crate::coll::{Call, Job};
use crate::task::at_once;
use crate::transport::{Layer, send_error};
use barewire::core::region::Memory as Kept;
use barewire::core::tagged::{Received, Request};
use barewire::core::{Peer, SendError};
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::group::Group;
use std::sync::atomic::Ordering;

/// The standard's `MPI_MODE_NOSUCCEED`.
const NOSUCCEED: i32 = 16384;
const LOCK_EXCLUSIVE: i32 = 301;
const LOCK_SHARED: i32 = 302;
/// Epochs that are open towards everybody.
const FENCED: u8 = 1;
const LOCKED_ALL: u8 = 2;

impl State {
    pub(super) fn note_dirty(&mut self, target: usize) {
        if !self.dirty.contains(&target) {
            self.dirty.push(target);
        }
    }
}

impl Epoch {
    /// Whether a rank is locked by itself.
    fn has_locked(&self, rank: usize) -> bool {
        self.locked.iter().any(|(locked, _)| *locked == rank)
    }

    /// A lock ends an epoch of fences; one that was started has to be completed first.
    fn turn_passive(&mut self) -> Result<()> {
        self.fenced = false;
        match self.started {
            Some(_) => Err(Error::new(Class::RmaSync, "the window is started and not completed")),
            None => Ok(()),
        }
    }
}

impl Window {
    /// An error unless all epochs are closed, but for one of fences.
    pub fn check_closed(&self) -> Result<()> {
        let state = self.state();
        let Epoch { started, posted, locked, locked_all, .. } = &state.epoch;
        if started.is_some() || posted.is_some() || !locked.is_empty() || *locked_all {
            return Err(Error::new(Class::RmaSync, "an epoch is open"));
        }
        Ok(())
    }

    /// Writes down which epochs are open towards everybody.
    fn note_open(&self, epoch: &Epoch) {
        let open = u8::from(epoch.fenced) * FENCED + u8::from(epoch.locked_all) * LOCKED_ALL;
        self.open.store(open, Ordering::Relaxed);
    }

    /// An error unless an operation on a target's memory is in an epoch.
    pub(super) fn may_access(&self, target: usize) -> Result<()> {
        match self.is_accessible(target) {
            true => Ok(()),
            false => Err(Error::new(Class::RmaSync, format!("no epoch is open for rank {target}"))),
        }
    }

    #[inline]
    pub(super) fn is_accessible(&self, target: usize) -> bool {
        // SYNC open: threads that open epochs for each other tell each other so.
        self.open.load(Ordering::Relaxed) != 0 || self.is_open_to(target)
    }

    fn is_open_to(&self, target: usize) -> bool {
        let state = self.state();
        let epoch = &state.epoch;
        let started = epoch.started.as_ref().is_some_and(|group| group.contains(&target));
        epoch.fenced || epoch.locked_all || started || epoch.has_locked(target)
    }

    /// `MPI_Win_fence`.
    pub fn fence(&self, assertion: i32) -> Result<()> {
        let busy = {
            let state = self.state();
            !state.epoch.locked.is_empty() || state.epoch.locked_all || state.epoch.started.is_some()
        };
        if busy {
            return Err(Error::new(Class::RmaSync, "another epoch is open"));
        }
        self.flush_all()?;
        self.barrier()?;
        let mut state = self.state();
        state.epoch.fenced = assertion & NOSUCCEED == 0;
        self.note_open(&state.epoch);
        Ok(())
    }

    /// Waits for all processes of the window.
    pub fn barrier(&self) -> Result<()> {
        let call = Call::on(&self.comm, self.comm.next_tag(), true);
        at_once(Job::Barrier.run_now(&call))
            .unwrap_or_else(|| Err(Error::new(Class::Intern, "a barrier did not wait")))
    }

    /// `MPI_Win_post`.
    pub fn post_to(&self, group: &Group) -> Result<()> {
        let ranks = self.ranks(group)?;
        if self.state().epoch.posted.is_some() {
            return Err(Error::new(Class::RmaSync, "the window is posted already"));
        }
        self.state().epoch.posted = Some(ranks.clone());
        ranks.into_iter().try_for_each(|rank| self.tell(rank, &Head::of(Kind::Post)))
    }

    /// `MPI_Win_start`.
    pub fn start_to(&self, group: &Group) -> Result<()> {
        let ranks = self.ranks(group)?;
        if self.state().epoch.started.is_some() {
            return Err(Error::new(Class::RmaSync, "the window is started already"));
        }
        self.until(&ranks, |state| {
            let there = ranks.iter().all(|rank| state.posts.get(rank).is_some_and(|posts| *posts > 0));
            if there {
                ranks.iter().for_each(|rank| *state.posts.entry(*rank).or_default() -= 1);
                state.epoch.started = Some(ranks.clone());
            }
            there
        })
    }

    /// `MPI_Win_complete`.
    pub fn complete(&self) -> Result<()> {
        let started = self.state().epoch.started.take();
        let ranks = started.ok_or_else(|| Error::new(Class::RmaSync, "the window is not started"))?;
        ranks.iter().try_for_each(|rank| self.tell(*rank, &Head::of(Kind::Complete)))?;
        ranks.into_iter().try_for_each(|rank| self.flush_local(rank))
    }

    /// `MPI_Win_wait`.
    pub fn wait(&self) -> Result<()> {
        let ranks = self.exposed_to()?;
        self.until(&ranks, |state| take_completions(state, &ranks))
    }

    /// `MPI_Win_test`.
    pub fn test(&self) -> Result<bool> {
        let ranks = self.exposed_to()?;
        self.comm.net.poll()?;
        if take_completions(&mut self.state(), &ranks) {
            return Ok(true);
        }
        let lost = self.comm.net.with(|_, layer| self.lost_of(layer, &ranks))?;
        lost.map_or(Ok(false), |peer| Err(send_error(SendError::Lost(peer))))
    }

    /// One of these ranks that is gone.
    fn lost_of(&self, layer: &Layer, ranks: &[usize]) -> Option<Peer> {
        layer.lost.iter().copied().find(|peer| ranks.iter().any(|rank| self.peer(*rank) == *peer))
    }

    fn exposed_to(&self) -> Result<Vec<usize>> {
        let posted = self.state().epoch.posted.clone();
        posted.ok_or_else(|| Error::new(Class::RmaSync, "the window is not posted"))
    }

    /// Waits for what letters from these ranks bring about; the loss of one of them is an error.
    fn until(&self, ranks: &[usize], mut done: impl FnMut(&mut State) -> bool) -> Result<()> {
        let mut lost: Option<Peer> = None;
        self.comm.net.wait("a process that shares a window", |layer| {
            lost = self.lost_of(layer, ranks);
            lost.is_some() || done(&mut self.state())
        })?;
        lost.map_or(Ok(()), |peer| Err(send_error(SendError::Lost(peer))))
    }

    /// `MPI_Win_lock`.
    pub fn lock(&self, kind: i32, rank: i32) -> Result<()> {
        let kind = match kind {
            LOCK_EXCLUSIVE => Kind::LockExclusive,
            LOCK_SHARED => Kind::LockShared,
            _ => return Err(Error::new(Class::Locktype, format!("the kind of lock is {kind}"))),
        };
        let (rank, alone) = (self.rank(rank)?, kind == Kind::LockExclusive);
        {
            let mut state = self.state();
            if state.epoch.locked_all || state.epoch.has_locked(rank) {
                return Err(Error::new(Class::RmaSync, format!("rank {rank} is locked already")));
            }
            state.epoch.turn_passive()?;
            self.note_open(&state.epoch);
            if let Some(direct) = &self.direct {
                if self.try_to_lock_direct(direct, rank, alone)? {
                    state.epoch.locked.push((rank, alone));
                    return Ok(());
                }
            }
        }
        match &self.direct {
            Some(direct) => self.lock_direct(direct, rank, alone)?,
            None => self.ask_all(&[rank], kind)?,
        }
        self.state().epoch.locked.push((rank, alone));
        Ok(())
    }

    /// `MPI_Win_unlock`.
    pub fn unlock(&self, rank: i32) -> Result<()> {
        let rank = self.rank(rank)?;
        if let Some(direct) = &self.direct {
            direct.pass(&self.comm.net)?;
            let mut state = self.state();
            let held = state.epoch.locked.iter().position(|(locked, _)| *locked == rank);
            let (_, alone) = state.epoch.locked.swap_remove(held.ok_or_else(not_locked)?);
            return self.unlock_direct(direct, rank, alone);
        }
        self.locked(rank, false)?;
        self.flush_local(rank)?;
        self.ask_all(&[rank], Kind::Unlock)?;
        let mut state = self.state();
        state.dirty.retain(|dirty| *dirty != rank);
        state.epoch.locked.retain(|(locked, _)| *locked != rank);
        Ok(())
    }

    /// `MPI_Win_lock_all`.
    pub fn lock_all(&self) -> Result<()> {
        let held = {
            let mut state = self.state();
            state.epoch.turn_passive()?;
            self.note_open(&state.epoch);
            state.epoch.locked_all || !state.epoch.locked.is_empty()
        };
        if held {
            return Err(Error::new(Class::RmaSync, "a lock is held already"));
        }
        match &self.direct {
            Some(direct) => {
                self.everybody().into_iter().try_for_each(|rank| self.lock_direct(direct, rank, false))?;
            }
            None => self.ask_all(&self.everybody(), Kind::LockShared)?,
        }
        let mut state = self.state();
        state.epoch.locked_all = true;
        self.note_open(&state.epoch);
        Ok(())
    }

    /// `MPI_Win_unlock_all`.
    pub fn unlock_all(&self) -> Result<()> {
        if !self.state().epoch.locked_all {
            return Err(Error::new(Class::RmaSync, "the window is not locked"));
        }
        match &self.direct {
            Some(direct) => {
                direct.pass(&self.comm.net)?;
                self.everybody().into_iter().try_for_each(|rank| self.unlock_direct(direct, rank, false))?;
            }
            None => {
                self.everybody().into_iter().try_for_each(|rank| self.flush_local(rank))?;
                self.ask_all(&self.everybody(), Kind::Unlock)?;
            }
        }
        let mut state = self.state();
        state.dirty.clear();
        state.epoch.locked_all = false;
        self.note_open(&state.epoch);
        Ok(())
    }

    /// An error unless a rank is locked; any rank if `any`.
    #[inline]
    pub fn locked(&self, rank: usize, any: bool) -> Result<()> {
        match any && self.open.load(Ordering::Relaxed) & LOCKED_ALL != 0 {
            true => Ok(()),
            false => self.locked_alone(rank, any),
        }
    }

    fn locked_alone(&self, rank: usize, any: bool) -> Result<()> {
        let state = self.state();
        let epoch = &state.epoch;
        if (any && epoch.locked_all)
            || epoch.has_locked(rank)
            || (any && rank == usize::MAX && !epoch.locked.is_empty())
        {
            Ok(())
        } else {
            Err(not_locked())
        }
    }

    /// Waits until what was asked of a rank is done there.
    #[inline]
    pub fn flush(&self, rank: usize) -> Result<()> {
        match &self.direct {
            Some(direct) => direct.pass(&self.comm.net),
            None => self.flush_there(rank),
        }
    }

    fn flush_there(&self, rank: usize) -> Result<()> {
        self.flush_local(rank)?;
        if self.state().dirty.contains(&rank) {
            self.ask_all(&[rank], Kind::Flush)?;
            self.state().dirty.retain(|dirty| *dirty != rank);
        }
        Ok(())
    }

    /// Waits until what was asked of everybody is done.
    pub fn flush_all(&self) -> Result<()> {
        if let Some(direct) = &self.direct {
            return direct.pass(&self.comm.net);
        }
        self.everybody().into_iter().try_for_each(|rank| self.flush_local(rank))?;
        let dirty = std::mem::take(&mut self.state().dirty);
        self.ask_all(&dirty, Kind::Flush)
    }

    /// Waits until the program's memory is its own again, as far as one target is concerned.
    pub fn flush_local(&self, rank: usize) -> Result<()> {
        if let Some(direct) = &self.direct {
            return direct.pass(&self.comm.net);
        }
        let pending = self.state().pending.remove(&rank).unwrap_or_default();
        let ended: Vec<Result<()>> = pending.into_iter().map(|request| self.finish(request)).collect();
        ended.into_iter().collect()
    }

    /// The ranks of a window.
    pub fn everybody(&self) -> Vec<usize> {
        (0..self.comm.group.size()).collect()
    }

    fn finish(&self, request: Request) -> Result<()> {
        failure(&self.comm.net.finish_receive(Received::Pending(request))?)
    }

    /// Asks several ranks the same and waits for their answers.
    fn ask_all(&self, ranks: &[usize], kind: Kind) -> Result<()> {
        let ask = |rank: &usize| {
            let (answer, refused) = (self.next_answer(), Kept::private(1));
            let expected = self.expect(*rank, answer, &refused)?;
            self.tell(*rank, &Head::asking(kind, answer))?;
            Ok((*rank, expected, refused))
        };
        let asked: Vec<Result<(usize, Received, Kept)>> = ranks.iter().map(ask).collect();
        let answered = |asked: Result<(usize, Received, Kept)>| {
            let (rank, expected, refused) = asked?;
            failure(&self.comm.net.finish_receive(expected)?)?;
            let mut said = [0];
            match refused.read(0, &mut said) && said != [0] {
                false => Ok(()),
                true => {
                    let what = format!("an operation was about memory that rank {rank} has not attached");
                    Err(Error::new(Class::RmaRange, what))
                }
            }
        };
        let answers: Vec<Result<()>> = asked.into_iter().map(answered).collect();
        answers.into_iter().collect()
    }

    fn ranks(&self, group: &Group) -> Result<Vec<usize>> {
        let rank = |process: &_| {
            let rank = self.comm.group.rank_of(*process);
            rank.ok_or_else(|| Error::new(Class::Group, "a process of the group has no part in the window"))
        };
        group.members().iter().map(rank).collect()
    }
}

#[cold]
fn not_locked() -> Error {
    Error::new(Class::RmaSync, "the window is not locked")
}

fn take_completions(state: &mut State, ranks: &[usize]) -> bool {
    let there = ranks.iter().all(|rank| state.completions.get(rank).is_some_and(|count| *count > 0));
    if there {
        ranks.iter().for_each(|rank| *state.completions.entry(*rank).or_default() -= 1);
        state.epoch.posted = None;
    }
    there
}
