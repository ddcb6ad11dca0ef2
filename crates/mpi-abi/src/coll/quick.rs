//! Blocking calls on data of predefined types, where there is a board: no table is asked and no memory taken.
//!
//! Each is what a board does for such data. None is the answer for everything else, errors included, which takes the long way.

use super::board::{BLOCKS_MAX, Board, Gift, Turn, something_else, table_bytes};
use super::places::SLOT_DATA;
use super::shares::{CHUNK, FETCHED_MIN, Shares};
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
pub(super) const COMBINERS_MAX: usize = 4;

/// Elements of a predefined type.
#[derive(Clone, Copy)]
pub(crate) struct Plain {
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

pub(super) fn write(bytes: UserBuf, wire: &mut WireMut<'_>) {
    bytes.wire_ref(0, bytes.len()).map(|mut from| wire.write_from(&mut from));
}

pub(super) fn take(bytes: UserBuf, from: &mut WireRef<'_>) -> Result<()> {
    take_at(bytes, 0, from)
}

#[inline(always)]
fn take_at(bytes: UserBuf, at: usize, from: &mut WireRef<'_>) -> Result<()> {
    let (came, room) = (from.remaining(), bytes.len().saturating_sub(at));
    bytes.wire_mut(at, came.min(room)).map(|mut place| place.write_from(from));
    if came > room { Err(Data::too_long(came - room)) } else { Ok(()) }
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
pub(crate) fn barrier(comm: &CommRef) -> Option<Result<()>> {
    let board = board(comm)?;
    let call = call(comm);
    Some(Turn::new(board, &call).barrier())
}

/// `MPI_Bcast`.
pub(crate) fn bcast(comm: &CommRef, data: Plain, root: c_int) -> Option<Result<()>> {
    let board = board(comm)?;
    let bytes = data.bytes().filter(|bytes| bytes.len() <= BLOCKS_MAX)?;
    let root = usize::try_from(root).ok().filter(|&root| root < board.size)?;
    let call = call(comm);
    let turn = Turn::new(board, &call);
    if board.rank == root {
        let write = |at, wire: &mut WireMut<'_>| {
            bytes.wire_ref(at, bytes.len() - at).map(|mut from| wire.write_from(&mut from));
        };
        return Some(turn.give_blocks(bytes.len(), write));
    }
    match turn.take_blocks(root, |at, block| take_at(bytes, at, block)) {
        Ok(true) => Some(Ok(())),
        Ok(false) => {
            let data = Data { memory: data.memory, count: bytes.len() as i64, datatype: Basic::Byte.into() };
            at_once(tree::bcast(&call, &data, root))
        }
        Err(error) => Some(Err(error)),
    }
}

/// `MPI_Allreduce`.
pub(crate) fn allreduce(comm: &CommRef, mine: Memory, into: Plain, op: MPI_Op) -> Option<Result<()>> {
    let board = board(comm)?;
    let most = if board.size <= COMBINERS_MAX { usize::MAX } else { COMBINE_MAX };
    let place = into.bytes().filter(|bytes| bytes.len() <= most)?;
    let given = match mine.is_in_place() {
        true => place,
        false => {
            Plain { memory: mine, ..into }.bytes().filter(|_| mine.address() != into.memory.address())?
        }
    };
    let combine = world().op(op).ok()?.ok()?.combine(Basic::from_handle(into.datatype.0)?).ok()?;
    let call = call(comm);
    let turn = Turn::new(board, &call).mutual();
    Some(match place.len() {
        0..=64 => combine_all::<64>(turn, combine, given, place),
        65..=COMBINE_MAX => combine_all::<COMBINE_MAX>(turn, combine, given, place),
        1025..=4096 => combine_all::<4096>(turn, combine, given, place),
        4097..=CHUNK if board.size > 2 || place.len() < FETCHED_MIN => {
            combine_all::<CHUNK>(turn, combine, given, place)
        }
        len => {
            let mine = Some(mine).filter(|mine| !mine.is_in_place());
            Shares::new(turn, combine, mine, into.memory, len).combine()
        }
    })
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
pub(crate) fn alltoall(comm: &CommRef, parts: Plain, places: Plain) -> Option<Result<()>> {
    let board = board(comm)?;
    let (part, place) = (parts.bytes()?.len(), places.bytes()?.len());
    let table = table_bytes(board.size);
    let total = part.checked_mul(board.size)?.checked_add(table)?;
    if total > SLOT_DATA || part != place || parts.memory.address() == places.memory.address() {
        return None;
    }
    let call = call(comm);
    let turn = Turn::new(board, &call).mutual();
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
            Ok(Gift::InBlocks) => Err(something_else(from)),
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
    pub(super) fn exact_gift(&self, rank: usize, number: u64, len: usize) -> Result<WireRef<'a>> {
        match self.gift(rank, number)? {
            Gift::Here(bytes) if bytes.remaining() == len => Ok(bytes),
            _ => Err(Error::new(Class::Truncate, format!("rank {rank} gave more or less than this rank"))),
        }
    }
}
