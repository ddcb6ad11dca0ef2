//! Long data that few ranks combine: each combines a share of it, once, and all get the results.
//!
//! Either shares pass over the board, block by block; or, where the kernel copies between processes, nothing is given: the ranks say where
//! their operands and results are and copy them from there. The first calls show which is faster.

use super::board::Turn;
use super::places::SLOT_DATA;
use super::quick::{COMBINERS_MAX, take, write};
use crate::boundary::Memory;
use crate::transport::send_error;
use barewire::core::SendError;
use barewire::core::region::Memory as Kept;
use barewire::core::tagged::{Sink, Tagged};
use barewire::mpi::error::Result;
use barewire::mpi::op::Combine;
use barewire_sys::userbuf::UserBuf;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// So much is combined at a time, which stays in the first cache; less is not combined by shares.
pub(super) const CHUNK: usize = 16 << 10;
/// Shorter data passes over the board: a copy by the kernel begins with a system call.
pub(super) const FETCHED_MIN: usize = 8 << 10;
/// The same where there are more than two ranks.
const SHARED_MIN: usize = 48 << 10;
/// Two ranks combine all of it each, up to this, if they fetch it; longer data by shares.
const WHOLE_MAX: usize = 256 << 10;
/// The same if they give it.
const SWAPPED_MAX: usize = 24 << 10;
/// So much is fetched before it is combined, which stays in the second cache.
const FETCH: usize = 128 << 10;
/// Calls that go either way in turn before the ranks agree on one.
const CALLS_TRIED: u32 = 8;
/// Calls that then go that way.
const CALLS_SETTLED: u32 = 1000;

/// Long data that is combined by shares: of each block every rank gives the others theirs, combines its own, and gives them the result.
pub(crate) struct Shares<'a> {
    turn: Turn<'a>,
    combine: Combine,
    /// Where this rank's operands are, if not where the result goes.
    mine: Option<Memory>,
    into: Memory,
    len: usize,
    /// Operands of others.
    room: Vec<u8>,
}

impl<'a> Shares<'a> {
    /// Combines `len` bytes with the other ranks' `into` a place, with operands from there too unless they are in another.
    pub fn new(
        turn: Turn<'a>,
        combine: Combine,
        mine: Option<Memory>,
        into: Memory,
        len: usize,
    ) -> Shares<'a> {
        Shares { turn, combine, mine, into, len, room: Vec::new() }
    }

    /// Does it.
    pub fn combine(mut self) -> Result<()> {
        let board = self.turn.board;
        if self.len < FETCHED_MIN || (board.size > 2 && self.len < SHARED_MIN) {
            return self.combine_given();
        }
        let contest = || board.contest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut so_far = *contest();
        if let Contest::Settled(way, calls) = so_far {
            // What holds now need not hold later: processes move.
            *contest() = if calls > 0 { Contest::Settled(way, calls - 1) } else { Contest::default() };
            return self.combine_by(way);
        }
        if so_far == Contest::default() && !self.can_all_fetch()? {
            *contest() = Contest::Settled(Way::Given, u32::MAX);
            return self.combine_given();
        }
        let (way, started) = (so_far.turn(), Instant::now());
        self.combine_by(way)?;
        so_far.note(way, self.len, started.elapsed());
        if let Contest::Tried { calls: CALLS_TRIED.., given, fetched } = so_far {
            let told = self.tell(given, fetched)?;
            let all = |which: fn(&(u64, u64)) -> u64| told[..board.size].iter().map(which).max();
            // By so much that it is no accident: a few calls show little.
            let faster = all(|times| times.1).map(|fetched| fetched.saturating_mul(4))
                < all(|times| times.0).map(|given| given.saturating_mul(3));
            so_far = Contest::Settled(if faster { Way::Fetched } else { Way::Given }, CALLS_SETTLED);
        }
        *contest() = so_far;
        Ok(())
    }

    fn combine_by(&mut self, way: Way) -> Result<()> {
        match way {
            Way::Given => self.combine_given(),
            Way::Fetched if self.turn.board.size == 2 && self.len <= WHOLE_MAX => self.combine_exchanged(),
            Way::Fetched => self.combine_fetched(),
        }
    }

    /// Memory for so many bytes that others gave.
    fn make_room(&mut self, len: usize) -> &mut [u8] {
        if self.room.len() < len {
            self.room = self.turn.board.take_room(len);
        }
        &mut self.room[..len]
    }

    /// Two ranks that both combine all of it, in the order of their ranks: so the result is the same at both.
    fn combine_exchanged(&mut self) -> Result<()> {
        let (rank, len) = (self.turn.board.rank, self.len);
        let other = 1 - rank;
        let (theirs, _) = self.tell_places()?[other];
        let mut into = self.into;
        if let (0, Some(mine)) = (rank, self.mine) {
            self.fetch(other, theirs, into.user(0, len))?;
            self.turn.barrier()?;
            (self.combine)(mine.bytes(0, len)?, into.bytes_mut(0, len)?);
            return Ok(());
        }
        self.fetch_to_room(other, theirs, len)?;
        self.turn.barrier()?;
        self.combine_with_room()
    }

    /// The same with operands that are given: they fit a slot.
    fn combine_swapped(&mut self) -> Result<()> {
        let (rank, len, mut into) = (self.turn.board.rank, self.len, self.into);
        let number = self.turn.number();
        let mine = self.mine.unwrap_or(into);
        self.turn.give(number, len as u64, |wire| write(mine.user(0, len), wire))?;
        let mut came = self.turn.exact_gift(1 - rank, number, len)?;
        let outcome = match (rank, self.mine) {
            (0, Some(mine)) => {
                into.user(0, len).wire_mut(0, len).map(|mut place| place.take_from(&mut came));
                (self.combine)(mine.bytes(0, len)?, into.bytes_mut(0, len)?);
                Ok(())
            }
            _ => {
                came.read(self.make_room(len));
                self.combine_with_room()
            }
        };
        self.turn.leave_together(number);
        outcome
    }

    /// Combines what is here with what the other of two ranks has, which was put where [`Shares::make_room`] has room.
    fn combine_with_room(&mut self) -> Result<()> {
        let (rank, len, mut into) = (self.turn.board.rank, self.len, self.into);
        for start in (0..len).step_by(CHUNK) {
            let (at, here) = (start as i64, &mut self.room[start..len.min(start + CHUNK)]);
            if rank == 0 {
                (self.combine)(into.bytes(at, here.len())?, here);
                into.bytes_mut(at, here.len())?.copy_from_slice(here);
            } else {
                if let Some(mine) = self.mine {
                    into.bytes_mut(at, here.len())?.copy_from_slice(mine.bytes(at, here.len())?);
                }
                (self.combine)(here, into.bytes_mut(at, here.len())?);
            }
        }
        Ok(())
    }

    /// By way of the board.
    fn combine_given(&mut self) -> Result<()> {
        let others = self.turn.board.size - 1;
        if others == 1 && self.len <= SWAPPED_MAX {
            return self.combine_swapped();
        }
        let block = (others + 1) * (SLOT_DATA / others / 64 * 64);
        let blocks: Vec<_> =
            (0..self.len).step_by(block).map(|start| (start, block.min(self.len - start))).collect();
        let mut operands = self.turn.number();
        self.give_operands(operands, blocks[0])?;
        let (mut outcome, mut given) = (Ok(()), None);
        for (at, &this) in blocks.iter().enumerate() {
            let (now, results) = (operands, self.turn.number());
            // The next operands are given before these are taken, and a block's results are taken after the next block's are given: so
            // nobody waits for them.
            if let Some(&next) = blocks.get(at + 1) {
                operands = self.turn.number();
                self.give_operands(operands, next)?;
            }
            outcome = outcome.and(self.combine_own(now, this));
            self.give_result(results, this)?;
            if let Some(before) = given.replace((results, this)) {
                outcome = outcome.and(self.end_block(before));
            }
        }
        outcome.and(given.map_or(Ok(()), |last| self.end_block(last)))
    }

    /// Takes the others' results of a block, the number of whose call is given with it.
    fn end_block(&self, (results, block): (u64, (usize, usize))) -> Result<()> {
        let taken = self.take_results(results, block);
        self.turn.leave(results);
        taken
    }

    /// Where a rank's share of a block is, and how long.
    fn share(&self, (start, len): (usize, usize), rank: usize) -> (i64, usize) {
        let each = len.div_ceil(self.turn.board.size).next_multiple_of(64);
        let (from, to) = ((rank * each).min(len), ((rank + 1) * each).min(len));
        ((start + from) as i64, to - from)
    }

    /// The ranks that `giver` gives a share of theirs, as these lie in what it gives.
    fn receivers(&self, giver: usize) -> impl Iterator<Item = usize> + Clone + use<> {
        (0..self.turn.board.size).filter(move |&rank| rank != giver)
    }

    fn give_operands(&self, number: u64, block: (usize, usize)) -> Result<()> {
        let mine = self.mine.unwrap_or(self.into);
        let shares = self.receivers(self.turn.board.rank).map(|rank| self.share(block, rank));
        let all: usize = shares.clone().map(|(_, len)| len).sum();
        self.turn.give(number, all as u64, |wire| {
            shares.for_each(|(at, len)| write(mine.user(at, len), wire));
        })
    }

    /// Combines this rank's share of a block. All operations here commute, and nobody else combines the same share, so the result is
    /// the same everywhere whatever the order.
    fn combine_own(&mut self, number: u64, block: (usize, usize)) -> Result<()> {
        let rank = self.turn.board.rank;
        let (at, len) = self.share(block, rank);
        let mut into = self.into;
        for (step, from) in self.turn.others().enumerate() {
            let before = self.receivers(from).filter(|&other| other < rank);
            let skip = before.map(|other| self.share(block, other).1).sum();
            let all = self.receivers(from).map(|other| self.share(block, other).1).sum();
            let mut came = self.turn.exact_gift(from, number, all)?;
            came.discard(skip);
            match self.mine {
                Some(mine) if step == 0 => {
                    into.user(at, len).wire_mut(0, len).map(|mut place| place.take_from(&mut came));
                    (self.combine)(mine.bytes(at, len)?, into.bytes_mut(at, len)?);
                }
                _ => {
                    came.read(self.make_room(len));
                    (self.combine)(&self.room[..len], into.bytes_mut(at, len)?);
                }
            }
        }
        Ok(())
    }

    fn give_result(&self, number: u64, block: (usize, usize)) -> Result<()> {
        let (at, len) = self.share(block, self.turn.board.rank);
        self.turn.give(number, len as u64, |wire| write(self.into.user(at, len), wire))
    }

    fn take_results(&self, number: u64, block: (usize, usize)) -> Result<()> {
        for from in self.turn.others() {
            let (at, len) = self.share(block, from);
            let mut came = self.turn.exact_gift(from, number, len)?;
            take(self.into.user(at, len), &mut came)?;
        }
        Ok(())
    }

    /// By way of nobody: every rank copies the others' operands for its share out of their memory, and then the others' results.
    fn combine_fetched(&mut self) -> Result<()> {
        let (rank, whole) = (self.turn.board.rank, (0, self.len));
        let places = self.tell_places()?;
        let (at, len) = self.share(whole, rank);
        for start in (0..len).step_by(FETCH) {
            let (at, len) = (at + start as i64, FETCH.min(len - start));
            for (step, from) in self.turn.others().enumerate() {
                self.fetch_and_combine(from, places[from].0, at, len, step == 0)?;
            }
        }
        // Everybody has its operands, which may be where results go, and its result.
        self.turn.barrier()?;
        for from in self.turn.others() {
            let (at, len) = self.share(whole, from);
            self.fetch(from, places[from].1 + at as u64, self.into.user(at, len))?;
        }
        // And everybody has its results: their places are their owners' again.
        self.turn.barrier()
    }

    /// Tells the others where this rank's operands are and where its result goes; says where theirs are and go, by rank.
    fn tell_places(&self) -> Result<[(u64, u64); COMBINERS_MAX]> {
        self.tell(self.mine.unwrap_or(self.into).address() as u64, self.into.address() as u64)
    }

    /// Tells the others two words; says what all told, by rank.
    fn tell(&self, first: u64, second: u64) -> Result<[(u64, u64); COMBINERS_MAX]> {
        let number = self.turn.number();
        self.turn.give(number, 16, |wire| wire.write_words(&[first, second]))?;
        let mut told = [(0, 0); COMBINERS_MAX];
        told[self.turn.board.rank] = (first, second);
        for from in self.turn.others() {
            let mut said = self.turn.exact_gift(from, number, 16)?;
            told[from] = (said.read_u64().unwrap_or(0), said.read_u64().unwrap_or(0));
        }
        self.turn.leave_together(number);
        Ok(told)
    }

    fn fetch_and_combine(
        &mut self,
        from: usize,
        operands: u64,
        at: i64,
        len: usize,
        first: bool,
    ) -> Result<()> {
        let (theirs, mut into) = (operands + at as u64, self.into);
        match self.mine {
            Some(mine) if first => {
                self.fetch(from, theirs, into.user(at, len))?;
                (self.combine)(mine.bytes(at, len)?, into.bytes_mut(at, len)?);
            }
            _ => {
                self.fetch_to_room(from, theirs, len)?;
                (self.combine)(&self.room[..len], into.bytes_mut(at, len)?);
            }
        }
        Ok(())
    }

    fn fetch(&self, from: usize, address: u64, into: UserBuf) -> Result<()> {
        match self.turn.fetch(from, address, Sink::User(into), into.len())? {
            true => Ok(()),
            // It could before.
            false => Err(send_error(SendError::Lost(self.turn.call.peer(from)))),
        }
    }

    /// Copies others' operands to where [`Shares::make_room`] has room for them.
    fn fetch_to_room(&mut self, from: usize, address: u64, len: usize) -> Result<()> {
        let room = Memory::at_address(self.make_room(len).as_mut_ptr().expose_provenance());
        self.fetch(from, address, room.user(0, len))
    }

    /// Whether every rank can copy out of every other's memory; they find out together.
    fn can_all_fetch(&self) -> Result<bool> {
        let places = self.tell_places()?;
        let mut can = true;
        for from in self.turn.others() {
            let trial = Sink::Memory(Kept::private(FETCHED_MIN), 0, FETCHED_MIN);
            can &= self.turn.fetch(from, places[from].0, trial, FETCHED_MIN)?;
        }
        let told = self.tell(u64::from(can), 0)?;
        Ok(told[..self.turn.board.size].iter().all(|answer| answer.0 == 1))
    }
}

/// A way of combining long data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Over the board.
    Given,
    /// Out of each other's memory.
    Fetched,
}

/// Which way is faster: both are tried in turn, alike at all ranks, which then agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contest {
    /// So many calls so far, and the picoseconds for a byte of the fastest of either way.
    Tried { calls: u32, given: u64, fetched: u64 },
    /// And for so many calls more.
    Settled(Way, u32),
}

impl Default for Contest {
    fn default() -> Contest {
        Contest::Tried { calls: 0, given: u64::MAX, fetched: u64::MAX }
    }
}

impl Contest {
    /// Whose turn it is.
    fn turn(self) -> Way {
        match self {
            Contest::Settled(way, _) => way,
            Contest::Tried { calls, .. } if calls % 2 == 0 => Way::Given,
            Contest::Tried { .. } => Way::Fetched,
        }
    }

    fn note(&mut self, way: Way, bytes: usize, time: Duration) {
        let Contest::Tried { calls, given, fetched } = self else { return };
        let each = (time.as_nanos() * 1000 / bytes.max(1) as u128) as u64;
        *calls += 1;
        match way {
            Way::Given => *given = each.min(*given),
            Way::Fetched => *fetched = each.min(*fetched),
        }
    }
}

impl Drop for Shares<'_> {
    fn drop(&mut self) {
        if !self.room.is_empty() {
            self.turn.board.keep_room(std::mem::take(&mut self.room));
        }
    }
}

impl Turn<'_> {
    /// Copies bytes out of another rank's memory; false if that cannot be.
    fn fetch(&self, from: usize, address: u64, mut into: Sink, len: usize) -> Result<bool> {
        let peer = self.call.peer(from);
        self.call.comm.net.with(|endpoint, _| Tagged::fetch_now(endpoint, peer, address, len, &mut into))
    }
}
