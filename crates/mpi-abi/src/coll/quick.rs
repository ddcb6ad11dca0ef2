//! Blocking calls on data of predefined types, where there is a board: no table is asked and no memory taken.
//!
//! Each is what a board does for such data. None is the answer for everything else, errors included, which takes the long way.

use super::board::{BLOCKS_MAX, Board, COMBINED_MAX, Gift, Turn, something_else, table_bytes};
use super::entry::Even;
use super::places::SLOT_DATA;
use super::shares::{CHUNK, FETCHED_MIN, Shares};
use super::{Call, Data, at_once, goes_by_messages, tree};
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
/// Longest data of which only parts are wanted, and how much of it all ranks together may give: what the [board](super::board) does besides.
const FEW_MAX: usize = 4096;
/// Longer data is combined by everybody if so few do it.
pub(super) const COMBINERS_MAX: usize = 4;

impl Even {
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
    bytes.wire_mut(at, came.min(room)).map(|mut place| place.take_from(from));
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
pub(crate) fn bcast(comm: &CommRef, data: Even, root: c_int) -> Option<Result<()>> {
    let board = board(comm)?;
    let bytes = data.bytes().filter(|bytes| bytes.len() <= BLOCKS_MAX)?;
    let root = usize::try_from(root).ok().filter(|&root| root < board.size)?;
    if board.rank == root && goes_by_messages(comm, bytes.len()) {
        return None;
    }
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
pub(crate) fn allreduce(comm: &CommRef, mine: Memory, into: Even, op: MPI_Op) -> Option<Result<()>> {
    let board = board(comm)?;
    let most = if board.size <= COMBINERS_MAX { usize::MAX } else { COMBINE_MAX };
    let place = into.bytes().filter(|bytes| bytes.len() <= most)?;
    let given = match mine.is_in_place() {
        true => place,
        false => Even { memory: mine, ..into }.bytes().filter(|_| mine.address() != into.memory.address())?,
    };
    let way = combination(op, into.datatype)?;
    let call = call(comm);
    let turn = Turn::new(board, &call).mutual();
    let all = Wanted { into: Some(place), ranks: board.size, at: 0 };
    Some(match place.len() {
        ..=COMBINE_MAX => combine(turn, way, given, all),
        1025..=FEW_MAX => combine_in::<FEW_MAX>(turn, way, given, all),
        4097..=CHUNK if board.size > 2 || place.len() < FETCHED_MIN => {
            combine_in::<CHUNK>(turn, way, given, all)
        }
        len => {
            let mine = Some(mine).filter(|mine| !mine.is_in_place());
            Shares::new(turn, way, mine, into.memory, len).combine()
        }
    })
}

/// What a rank wants of a combination.
#[derive(Clone, Copy)]
struct Wanted {
    /// Where it goes, if this rank gets any.
    into: Option<UserBuf>,
    /// Of how many ranks, from the first on.
    ranks: usize,
    /// Where in what everybody gives that begins.
    at: usize,
}

/// `MPI_Reduce`.
pub(crate) fn reduce(
    comm: &CommRef,
    mine: Memory,
    into: Even,
    op: MPI_Op,
    root: c_int,
) -> Option<Result<()>> {
    let ranks = board(comm)?.size;
    let root = usize::try_from(root).ok().filter(|&root| root < ranks)?;
    if comm.rank != root {
        return combine_few(comm, mine, into, op, Wanted { into: None, ranks, at: 0 });
    }
    combine_few(comm, own(mine, into)?, into, op, Wanted { into: Some(into.bytes()?), ranks, at: 0 })
}

/// `MPI_Scan`.
pub(crate) fn scan(comm: &CommRef, mine: Memory, into: Even, op: MPI_Op) -> Option<Result<()>> {
    let wanted = Wanted { into: Some(into.bytes()?), ranks: comm.rank + 1, at: 0 };
    combine_few(comm, own(mine, into)?, into, op, wanted)
}

/// `MPI_Reduce_scatter_block`.
pub(crate) fn reduce_scatter_block(
    comm: &CommRef,
    mine: Memory,
    into: Even,
    op: MPI_Op,
) -> Option<Result<()>> {
    let (place, ranks) = (into.bytes()?, board(comm)?.size);
    let whole = Even { count: into.count.checked_mul(ranks as i64)?, ..into };
    let wanted = Wanted { into: Some(place), ranks, at: comm.rank * place.len() };
    combine_few(comm, own(mine, into)?, whole, op, wanted)
}

/// Where this rank's operand is: in the place of the result, or somewhere else.
#[inline]
fn own(mine: Memory, into: Even) -> Option<Memory> {
    match mine.is_in_place() {
        true => Some(into.memory),
        false => Some(mine).filter(|mine| mine.address() != into.memory.address()),
    }
}

/// How a predefined operation combines elements of a predefined type.
#[inline]
fn combination(op: MPI_Op, datatype: MPI_Datatype) -> Option<Combine> {
    world().op(op).ok()?.ok()?.combine(Basic::from_handle(datatype.0)?).ok()
}

/// Combines little data, as much as `all` of what is at `mine`, of which ranks want different parts.
#[inline]
fn combine_few(comm: &CommRef, mine: Memory, all: Even, op: MPI_Op, wanted: Wanted) -> Option<Result<()>> {
    let board = board(comm)?;
    let given = Even { memory: mine, ..all }.bytes()?;
    let len = given.len();
    if len > FEW_MAX || len * board.size > COMBINED_MAX {
        return None;
    }
    let way = combination(op, all.datatype)?;
    let call = call(comm);
    let turn = Turn::new(board, &call);
    Some(match len {
        ..=COMBINE_MAX => combine(turn, way, given, wanted),
        _ => combine_in::<FEW_MAX>(turn, way, given, wanted),
    })
}

/// Gives this rank's operand and combines what it wants of everybody's, in rooms not much larger than they have to be.
fn combine(turn: Turn<'_>, way: Combine, mine: UserBuf, wanted: Wanted) -> Result<()> {
    match wanted.into.map_or(0, |into| into.len()) {
        ..=64 => combine_in::<64>(turn, way, mine, wanted),
        _ => combine_in::<COMBINE_MAX>(turn, way, mine, wanted),
    }
}

fn combine_in<const MOST: usize>(turn: Turn<'_>, way: Combine, mine: UserBuf, wanted: Wanted) -> Result<()> {
    #[repr(align(64))]
    struct Room<const MOST: usize>([u8; MOST]);
    let number = turn.number();
    turn.give(number, mine.len() as u64, |wire| write(mine, wire))?;
    let Some(into) = wanted.into else {
        turn.leave(number);
        return Ok(());
    };
    let (mut first, mut second) = (Room([0; MOST]), Room([0; MOST]));
    let rooms = [&mut first.0[..into.len()], &mut second.0[..into.len()]];
    match turn.total(number, way, mine.len(), wanted, rooms) {
        Ok(total) => {
            into.wire_mut(0, total.len()).map(|mut place| place.write(total));
            match wanted.ranks == turn.board.size {
                true => turn.leave_together(number),
                false => turn.leave(number),
            }
            Ok(())
        }
        Err(error) => {
            turn.leave(number);
            Err(error)
        }
    }
}

/// `MPI_Gather`.
pub(crate) fn gather(comm: &CommRef, mine: Even, places: Even, root: c_int) -> Option<Result<()>> {
    let board = board(comm)?;
    let root = usize::try_from(root).ok().filter(|&root| root < board.size)?;
    if board.rank != root {
        let given = mine.bytes().filter(|given| given.len() <= SLOT_DATA)?;
        if comm.net.is_fetched(comm.peer(root), given.len()) {
            return None;
        }
        let call = call(comm);
        return Some(Turn::new(board, &call).give_only(given.len(), |wire| write(given, wire)));
    }
    let place = places.bytes()?.len();
    if !keep(mine, places.memory.moved((root * place) as i64), place)? {
        return None;
    }
    let call = call(comm);
    let turn = Turn::new(board, &call);
    let number = turn.number();
    let mut outcome = Ok(());
    for from in turn.others() {
        let gift = turn.gift(from, number);
        outcome = outcome.and(take_gift(&call, from, gift, places, from * place, place));
    }
    turn.leave_together(number);
    Some(outcome)
}

/// `MPI_Scatter`.
pub(crate) fn scatter(comm: &CommRef, parts: Even, mine: Even, root: c_int) -> Option<Result<()>> {
    let board = board(comm)?;
    let root = usize::try_from(root).ok().filter(|&root| root < board.size)?;
    if board.rank != root {
        let place = mine.bytes()?.len();
        let call = call(comm);
        let turn = Turn::new(board, &call);
        let number = turn.number();
        let outcome = take_gift(&call, root, turn.part(root, number), mine, 0, place);
        turn.leave(number);
        return Some(outcome);
    }
    let part = parts.bytes()?.len();
    let total = parts_bytes(part, board.size).filter(|_| !goes_by_messages(comm, part))?;
    let own = Even { memory: parts.memory.moved((root * part) as i64), ..parts };
    if !mine.memory.is_in_place() && !keep(own, mine.memory, mine.bytes()?.len())? {
        return None;
    }
    let call = call(comm);
    Some(
        Turn::new(board, &call)
            .give_only(total, |wire| write_parts(parts, part, (board.rank, board.size), wire)),
    )
}

/// `MPI_Allgather`.
pub(crate) fn allgather(comm: &CommRef, mine: Even, places: Even) -> Option<Result<()>> {
    let board = board(comm)?;
    let place = places.bytes().filter(|place| place.len() <= SLOT_DATA)?.len();
    let own = places.memory.moved((board.rank * place) as i64);
    if goes_by_messages(comm, place) || !keep(mine, own, place)? {
        return None;
    }
    let call = call(comm);
    let turn = Turn::new(board, &call).mutual();
    let number = turn.number();
    let mut outcome = turn.give(number, place as u64, |wire| write(own.user(0, place), wire));
    for from in turn.others() {
        let gift = turn.gift(from, number);
        outcome = outcome.and(take_gift(&call, from, gift, places, from * place, place));
    }
    turn.leave_together(number);
    Some(outcome)
}

/// Puts what a rank gives itself in its place, unless it is there. False if that is not as long, or there without being said to be: an error, or
/// something for the long way.
#[inline]
fn keep(mine: Even, place: Memory, len: usize) -> Option<bool> {
    if mine.memory.is_in_place() {
        return Some(true);
    }
    let given = mine.bytes()?;
    if given.len() != len || (mine.memory.address() == place.address() && len > 0) {
        return Some(false);
    }
    given.wire_ref(0, len).map(|mut from| take(place.user(0, len), &mut from));
    Some(true)
}

/// Takes what a rank gave into `len` bytes of a place, also if it comes as a message.
#[inline]
fn take_gift(
    call: &Call,
    from: usize,
    gift: Result<Gift<'_>>,
    place: Even,
    at: usize,
    len: usize,
) -> Result<()> {
    match gift? {
        Gift::Here(mut came) => take(place.memory.user(at as i64, len), &mut came),
        Gift::Sent => {
            let memory = place.memory.moved(at as i64);
            let data = Data { memory, count: len as i64, datatype: Basic::Byte.into() };
            at_once(call.receive(from, &data)).unwrap_or_else(|| Err(something_else(from)))
        }
        Gift::InBlocks => Err(something_else(from)),
    }
}

/// Bytes of the parts of all other ranks behind the table of all, if they fit a slot.
#[inline]
fn parts_bytes(part: usize, ranks: usize) -> Option<usize> {
    part.checked_mul(ranks - 1)?.checked_add(table_bytes(ranks)).filter(|&total| total <= SLOT_DATA)
}

/// Writes the parts of all other ranks, behind a table of where those of all end. What a rank gives itself nobody takes from the board.
#[inline]
fn write_parts(parts: Even, part: usize, (rank, ranks): (usize, usize), wire: &mut WireMut<'_>) {
    let table = table_bytes(ranks);
    (0..ranks).for_each(|to| wire.write_u64((table + (to + usize::from(to < rank)) * part) as u64));
    write(parts.share(0, part * rank), wire);
    write(parts.memory.user(((rank + 1) * part) as i64, (ranks - 1 - rank) * part), wire);
}

/// `MPI_Alltoall`.
pub(crate) fn alltoall(comm: &CommRef, parts: Even, places: Even) -> Option<Result<()>> {
    let board = board(comm)?;
    let (part, place) = (parts.bytes()?.len(), places.bytes()?.len());
    let total = parts_bytes(part, board.size)?;
    if goes_by_messages(comm, part) || part != place || parts.memory.address() == places.memory.address() {
        return None;
    }
    let call = call(comm);
    let turn = Turn::new(board, &call).mutual();
    let number = turn.number();
    let mut outcome =
        turn.give(number, total as u64, |wire| write_parts(parts, part, (board.rank, board.size), wire));
    let own = places.share(board.rank, part);
    parts.share(board.rank, part).wire_ref(0, part).map(|mut from| take(own, &mut from));
    for from in turn.others() {
        let gift = turn.part(from, number);
        outcome = outcome.and(take_gift(&call, from, gift, places, from * part, part));
    }
    match outcome {
        Ok(()) => turn.leave_together(number),
        Err(_) => turn.leave(number),
    }
    Some(outcome)
}

impl<'a> Turn<'a> {
    /// A call in which this rank only gives.
    #[inline]
    fn give_only(&self, len: usize, fill: impl FnOnce(&mut WireMut<'_>)) -> Result<()> {
        let number = self.number();
        let given = self.give(number, len as u64, fill);
        self.leave(number);
        given
    }

    /// Combines what is wanted of the `whole` bytes that each rank gave, in their order, which is the same everywhere: so is the result. In one of the two
    /// rooms.
    #[inline]
    fn total<'r>(
        &self,
        number: u64,
        combine: Combine,
        whole: usize,
        wanted: Wanted,
        [mut total, mut other]: [&'r mut [u8]; 2],
    ) -> Result<&'r [u8]> {
        let read = |rank, into: &mut [u8]| {
            let mut gift = self.exact_gift(rank, number, whole)?;
            gift.discard(wanted.at);
            gift.read(into);
            Ok::<_, Error>(())
        };
        read(0, total)?;
        for rank in 1..wanted.ranks {
            read(rank, other)?;
            combine(total, other);
            std::mem::swap(&mut total, &mut other);
        }
        Ok(total)
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
