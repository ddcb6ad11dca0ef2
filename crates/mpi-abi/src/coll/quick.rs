//! Blocking calls on data of predefined types, where there is a board: no table is asked and no memory taken.
//!
//! Each is what a board does for such data. None is the answer for everything else, errors included, which takes the long way.

use super::board::{Board, Gift, SLOT_DATA, Turn, table_bytes};
use super::{Call, Data, at_once, tree};
use crate::boundary::{MPI_Datatype, MPI_Op, Memory};
use crate::message::plain;
use crate::object::CommRef;
use crate::world::world;
use barewire::mpi::datatype::Basic;
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::op::Combine;
use barewire_sys::userbuf::UserBuf;
use barewire_sys::wirebuf::{WireMut, WireRef};
use std::ffi::c_int;

/// Longest data that is combined on the stack.
const COMBINE_MAX: usize = 1024;
/// Longer data is combined by everybody if so few do it.
const COMBINERS_MAX: usize = 4;
/// Still longer data is combined by shares; so much of it is given at a time, which stays in the first cache.
const CHUNK: usize = 16 << 10;

/// Elements of a predefined type.
#[derive(Clone, Copy)]
pub struct Plain {
    /// Where they are.
    pub memory: Memory,
    /// How many.
    pub count: i64,
    /// Of what.
    pub datatype: MPI_Datatype,
}

impl Plain {
    #[inline]
    fn bytes(self) -> Option<UserBuf> {
        plain(self.memory, self.count, self.datatype).filter(|_| !self.memory.is_in_place())
    }

    /// The share of one of several ranks, each `len` bytes long.
    fn share(self, rank: usize, len: usize) -> UserBuf {
        self.memory.user((rank * len) as i64, len)
    }
}

fn write(bytes: UserBuf, wire: &mut WireMut<'_>) {
    bytes.wire_ref(0, bytes.len()).map(|mut from| wire.write_from(&mut from));
}

fn take(bytes: UserBuf, from: &mut WireRef<'_>) -> Result<()> {
    let came = from.remaining();
    bytes.wire_mut(0, came.min(bytes.len())).map(|mut place| place.write_from(from));
    if came > bytes.len() { Err(Data::too_long(came - bytes.len())) } else { Ok(()) }
}

/// A call on a communicator's board, if it has one.
#[inline]
fn board(comm: &CommRef) -> Option<&Board> {
    comm.board.get()?.as_ref()
}

#[inline]
fn call(comm: &CommRef) -> Call {
    Call { comm: comm.shared().clone(), tag: comm.next_tag(), waits: true, within: false }
}

/// `MPI_Barrier`.
pub fn barrier(comm: &CommRef) -> Option<Result<()>> {
    let board = board(comm)?;
    let call = call(comm);
    Some(Turn { board, call: &call }.barrier())
}

/// `MPI_Bcast`.
pub fn bcast(comm: &CommRef, data: Plain, root: c_int) -> Option<Result<()>> {
    let board = board(comm)?;
    let bytes = data.bytes().filter(|bytes| bytes.len() <= SLOT_DATA)?;
    let root = usize::try_from(root).ok().filter(|&root| root < board.size)?;
    let call = call(comm);
    let turn = Turn { board, call: &call };
    let number = turn.number();
    if board.rank == root {
        let given = turn.give(number, bytes.len() as u64, |wire| write(bytes, wire));
        turn.leave(number);
        return Some(given);
    }
    let taken = match turn.gift(root, number) {
        Ok(Gift::Here(mut came)) => take(bytes, &mut came),
        Ok(Gift::Sent) => {
            let data = Data { memory: data.memory, count: bytes.len() as i64, datatype: Basic::Byte.into() };
            at_once(tree::bcast(&call, &data, root))?
        }
        Err(error) => Err(error),
    };
    turn.leave(number);
    Some(taken)
}

/// `MPI_Allreduce`.
pub fn allreduce(comm: &CommRef, mine: Memory, into: Plain, op: MPI_Op) -> Option<Result<()>> {
    let board = board(comm)?;
    let most = if board.size <= COMBINERS_MAX { usize::MAX } else { COMBINE_MAX };
    let place = into.bytes().filter(|bytes| bytes.len() <= most)?;
    let given = if mine.is_in_place() { place } else { Plain { memory: mine, ..into }.bytes()? };
    let combine = world().op(op).ok()?.ok()?.combine(Basic::from_handle(into.datatype.0)?).ok()?;
    let call = call(comm);
    let turn = Turn { board, call: &call };
    Some(match place.len() {
        0..=64 => combine_all::<64>(turn, combine, given, place),
        65..=COMBINE_MAX => combine_all::<COMBINE_MAX>(turn, combine, given, place),
        1025..=4096 => combine_all::<4096>(turn, combine, given, place),
        4097..=CHUNK => combine_all::<CHUNK>(turn, combine, given, place),
        len => {
            let mine = Some(mine).filter(|mine| !mine.is_in_place());
            Shares { turn, combine, mine, into: into.memory, len, room: Vec::new() }.combine()
        }
    })
}

/// Long data that is combined by shares: of each block every rank gives the others theirs, combines its own, and gives them the result.
struct Shares<'a> {
    turn: Turn<'a>,
    combine: Combine,
    /// Where this rank's operands are, if not where the result goes.
    mine: Option<Memory>,
    into: Memory,
    len: usize,
    /// Operands of others.
    room: Vec<u8>,
}

impl Shares<'_> {
    fn combine(mut self) -> Result<()> {
        let block = self.turn.board.size * (CHUNK / (self.turn.board.size - 1)).next_multiple_of(64);
        let blocks: Vec<_> =
            (0..self.len).step_by(block).map(|start| (start, block.min(self.len - start))).collect();
        let mut operands = self.turn.number();
        self.give_operands(operands, blocks[0])?;
        let mut outcome = Ok(());
        for (at, &this) in blocks.iter().enumerate() {
            let (now, results) = (operands, self.turn.number());
            // The next operands are given before these are taken, so that nobody waits for them.
            if let Some(&next) = blocks.get(at + 1) {
                operands = self.turn.number();
                self.give_operands(operands, next)?;
            }
            outcome = outcome.and(self.combine_own(now, this));
            self.give_result(results, this)?;
            outcome = outcome.and(self.take_results(results, this));
            self.turn.leave(results);
        }
        outcome
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
                    into.user(at, len).wire_mut(0, len).map(|mut place| place.write_from(&mut came));
                    (self.combine)(mine.bytes(at, len)?, into.bytes_mut(at, len)?);
                }
                _ => {
                    self.room.resize(len, 0);
                    came.read(&mut self.room);
                    (self.combine)(&self.room, into.bytes_mut(at, len)?);
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
}

fn combine_all<const MOST: usize>(
    turn: Turn<'_>,
    combine: Combine,
    mine: UserBuf,
    into: UserBuf,
) -> Result<()> {
    #[repr(align(64))]
    struct Room<const MOST: usize>([u8; MOST]);
    let (mut first, mut second) = (Room([0; MOST]), Room([0; MOST]));
    let number = turn.number();
    turn.give(number, mine.len() as u64, |wire| write(mine, wire))?;
    match turn.total(number, combine, &mut first.0[..into.len()], &mut second.0[..into.len()]) {
        Ok(total) => {
            into.wire_mut(0, total.len()).map(|mut place| place.write(total));
            turn.leave_together(number);
            Ok(())
        }
        Err(error) => {
            turn.leave(number);
            Err(error)
        }
    }
}

/// `MPI_Alltoall`.
pub fn alltoall(comm: &CommRef, parts: Plain, places: Plain) -> Option<Result<()>> {
    let board = board(comm)?;
    let (part, place) = (parts.bytes()?.len(), places.bytes()?.len());
    let table = table_bytes(board.size);
    let total = part.checked_mul(board.size)?.checked_add(table)?;
    if total > SLOT_DATA || part != place {
        return None;
    }
    let call = call(comm);
    let turn = Turn { board, call: &call };
    let number = turn.number();
    let given = turn.give(number, total as u64, |wire| {
        (1..=board.size).for_each(|rank| wire.write_u64((table + rank * part) as u64));
        write(parts.share(0, part * board.size), wire);
    });
    let mut outcome = given;
    let mut own = places.share(board.rank, part);
    parts.share(board.rank, part).wire_ref(0, part).map(|mut from| take(own, &mut from));
    for from in turn.others() {
        own = places.share(from, part);
        let data = || Data {
            memory: places.memory.moved((from * part) as i64),
            count: part as i64,
            datatype: Basic::Byte.into(),
        };
        outcome = outcome.and(match turn.part(from, number) {
            Ok(Gift::Here(mut came)) => take(own, &mut came),
            Ok(Gift::Sent) => at_once(call.receive(from, &data()))?,
            Err(error) => Err(error),
        });
    }
    match outcome {
        Ok(()) => turn.leave_together(number),
        Err(_) => turn.leave(number),
    }
    Some(outcome)
}

impl<'a> Turn<'a> {
    /// Combines what all ranks gave, in their order, which is the same everywhere: so is the result. In one of the two rooms.
    #[inline]
    fn total<'r>(
        &self,
        number: u64,
        combine: Combine,
        mut total: &'r mut [u8],
        mut other: &'r mut [u8],
    ) -> Result<&'r [u8]> {
        self.read_gift(0, number, total)?;
        for rank in 1..self.board.size {
            self.read_gift(rank, number, other)?;
            combine(total, other);
            std::mem::swap(&mut total, &mut other);
        }
        Ok(total)
    }

    /// Reads what a rank gave, which has to be as long as everybody's.
    #[inline]
    fn read_gift(&self, rank: usize, number: u64, into: &mut [u8]) -> Result<()> {
        self.exact_gift(rank, number, into.len())?.read(into);
        Ok(())
    }

    /// What a rank gave, if it is as long as it has to be.
    #[inline]
    fn exact_gift(&self, rank: usize, number: u64, len: usize) -> Result<WireRef<'a>> {
        match self.gift(rank, number)? {
            Gift::Here(bytes) if bytes.remaining() == len => Ok(bytes),
            _ => Err(Error::new(Class::Truncate, format!("rank {rank} gave more or less than this rank"))),
        }
    }
}
