//! Windows whose memory every process has mapped: who asks for an operation does it, and the target has no part in it.
//!
//! The memory begins with a line for each rank, in which two words say who has locked its part and who accumulates there.
//! What a rank puts into it lies behind.

use super::letter::Head;
use super::origin::{Elements, Target};
use super::serve::accumulate;
use super::{Shape, Window};
use crate::boundary::{MPI_Op, Memory};
use crate::coll::Data;
use crate::message::plain;
use crate::transport::{Net, send_error};
use barewire::core::region::{Key, Memory as Kept};
use barewire::core::{Peer, SendError};
use barewire::mpi::datatype::Basic;
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::op::Builtin;
use barewire_sys::map::Segment;
use barewire_sys::userbuf::UserBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// A cache line: what one rank's lock does leaves the others' alone.
const LINE: usize = 64;
/// Shared memory begins at a page, so what programs put there is aligned to anything.
const PAGE: usize = 4096;
/// In a word, that one rank alone has it; the rank is in the lower half. Otherwise it counts those who share it.
const ALONE: u64 = 1 << 63;
/// Looks at a word in vain before others are let run, and before sleeping between looks.
const LOOKS: u32 = 200;
const LOOKS_AWAKE: u32 = 20_000;
/// How long is slept between looks.
const NAP: Duration = Duration::from_micros(100);
/// Operations after which the net is looked after: programs ask for them in loops, waiting for others.
const OPERATIONS: u32 = 16;

/// Memory that all processes of a window have.
pub(crate) enum Common {
    /// A region, and its key.
    Region(Kept, Key),
    /// A segment, where regions go by messages.
    Segment(Segment),
}

impl Common {
    /// A place in the first rank's line that no lock uses, for whoever has to know the memory again.
    pub const MARK: usize = 16;

    /// How much is needed for the locks of so many ranks and `bytes` for the program; none if that is more than there can be.
    pub fn bytes(ranks: usize, bytes: usize) -> Option<usize> {
        data_at(ranks).checked_add(bytes)
    }

    fn address(&self) -> usize {
        match self {
            Common::Region(memory, _) => memory.address(),
            Common::Segment(segment) => segment.address(),
        }
    }

    fn word(&self, at: usize) -> Option<&AtomicU64> {
        match self {
            Common::Region(memory, _) => memory.atomic_u64(at),
            Common::Segment(segment) => segment.atomic_u64(at),
        }
    }
}

fn data_at(ranks: usize) -> usize {
    (ranks * LINE).next_multiple_of(PAGE)
}

/// A window's memory as all processes see it.
pub(crate) struct Direct {
    common: Common,
    ranks: usize,
    me: u64,
    operations: AtomicU32,
}

impl Direct {
    /// For one of so many ranks.
    pub fn new(common: Common, rank: usize, ranks: usize) -> Direct {
        Direct { common, ranks, me: rank as u64, operations: AtomicU32::new(0) }
    }

    /// Where the program's memory begins.
    pub fn data(&self) -> usize {
        self.common.address() + data_at(self.ranks)
    }

    /// Gives the memory back.
    pub fn release(&self, net: &Net) {
        if let Common::Region(_, key) = self.common {
            net.release(key);
        }
    }

    /// Who has locked a rank's part.
    fn lock_word(&self, rank: usize) -> Result<&AtomicU64> {
        self.common.word(rank * LINE).ok_or_else(gone)
    }

    /// Who accumulates in it.
    fn order_word(&self, rank: usize) -> Result<&AtomicU64> {
        self.common.word(rank * LINE + 8).ok_or_else(gone)
    }

    /// What was done before is done for everybody; the net is looked after now and then.
    #[inline]
    pub fn pass(&self, net: &Net) -> Result<()> {
        // SYNC windows: an operation before a flush comes before whatever its rank does next.
        fence(Ordering::SeqCst);
        // SYNC operations: threads may overwrite each other's count; it only has to go on.
        let operations = self.operations.load(Ordering::Relaxed);
        self.operations.store(operations.wrapping_add(1), Ordering::Relaxed);
        match operations % OPERATIONS {
            0 => net.poll(),
            _ => Ok(()),
        }
    }

    /// Takes a word, alone or with others.
    #[inline]
    fn acquire(&self, window: &Window, word: &AtomicU64, alone: bool) -> Result<()> {
        match self.try_to_acquire(word, alone) {
            true => Ok(()),
            false => self.wait_for(window, word, alone),
        }
    }

    /// Takes a word unless it is held; says whether it has.
    #[inline]
    fn try_to_acquire(&self, word: &AtomicU64, alone: bool) -> bool {
        let now = if alone { 0 } else { word.load(Ordering::Relaxed) };
        let next = if alone { ALONE | self.me } else { now + 1 };
        // SYNC words: what the holder before wrote is seen by who takes it next.
        now & ALONE == 0 && word.compare_exchange(now, next, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait_for(&self, window: &Window, word: &AtomicU64, alone: bool) -> Result<()> {
        let mut looks = 0;
        loop {
            // One that is only looked at is not taken from those who use it.
            let now = word.load(Ordering::Relaxed);
            let is_free = if alone { now == 0 } else { now & ALONE == 0 };
            if is_free && self.try_to_acquire(word, alone) {
                return Ok(());
            }
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            window.comm.net.poll()?;
            self.check_holder(window, word, now)?;
            match looks {
                ..LOOKS_AWAKE => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
        }
    }

    /// Takes a word from a holder that has ended; among several that share it, the loss of one is an error, as it is not known who has it.
    fn check_holder(&self, window: &Window, word: &AtomicU64, now: u64) -> Result<()> {
        let lost = |peer: &Peer| (0..self.ranks).find(|rank| window.peer(*rank) == *peer);
        let lost: Vec<usize> =
            window.comm.net.with(|_, layer| layer.lost.iter().filter_map(lost).collect())?;
        if now & ALONE != 0 && lost.contains(&((now & !ALONE) as usize)) {
            let _ = word.compare_exchange(now, 0, Ordering::Relaxed, Ordering::Relaxed);
        } else if let (false, Some(rank)) = (now == 0 || now & ALONE != 0, lost.first()) {
            return Err(send_error(SendError::Lost(window.peer(*rank))));
        }
        Ok(())
    }

    fn leave(word: &AtomicU64, alone: bool) {
        match alone {
            true => word.store(0, Ordering::Release),
            false => {
                word.fetch_sub(1, Ordering::Release);
            }
        }
    }
}

/// What an exchange is about: the new word, the one that is expected, and a place for the old one.
#[derive(Clone, Copy)]
pub(super) struct Swap {
    pub new: Memory,
    pub expected: Memory,
    pub result: Memory,
}

/// No word that can be exchanged is longer.
const WORD_MAX: usize = 16;

#[cold]
fn no_word() -> Error {
    Error::new(Class::Buffer, "the buffer is null")
}

#[cold]
fn gone() -> Error {
    Error::new(Class::Intern, "a window's memory has no room for its locks")
}

impl Window {
    /// Locks a rank's part of memory that is mapped, alone or with others, if that can be had at once.
    pub(super) fn try_to_lock_direct(&self, direct: &Direct, rank: usize, alone: bool) -> Result<bool> {
        Ok(direct.try_to_acquire(direct.lock_word(rank)?, alone))
    }

    /// The same, waiting for it.
    pub(super) fn lock_direct(&self, direct: &Direct, rank: usize, alone: bool) -> Result<()> {
        direct.acquire(self, direct.lock_word(rank)?, alone)
    }

    /// Ends a lock; what was done under it has been passed on.
    pub(super) fn unlock_direct(&self, direct: &Direct, rank: usize, alone: bool) -> Result<()> {
        Direct::leave(direct.lock_word(rank)?, alone);
        Ok(())
    }

    /// Where the target's elements are and how long, if neither side's have holes, they are of the same length and may be accessed.
    #[inline]
    fn solid(&self, (memory, count, datatype): Elements, target: &Target) -> Option<(Memory, usize)> {
        let len = plain(memory, count, datatype)?.len();
        let size = Basic::solid_size(target.datatype.0)? as i64;
        let rank = usize::try_from(target.rank).ok()?;
        let Shape { base, size: room, unit } = *self.shapes.get(rank)?;
        let (start, there) = (target.displacement.checked_mul(unit)?, target.count.checked_mul(size)?);
        let fits = start >= 0 && there >= 0 && start.checked_add(there)? <= room && there as usize == len;
        (fits && self.is_accessible(rank)).then(|| (Memory::at_address(base + start as usize), len))
    }

    /// The target's elements, where this process has them; none for `MPI_PROC_NULL`.
    fn there(&self, target: &Target) -> Result<Option<Data>> {
        let Some((rank, _)) = self.pieces(target)? else { return Ok(None) };
        let shape = self.shapes[rank];
        let start = Memory::at_address(shape.base).moved(target.displacement * shape.unit);
        Data::new(start, target.count, target.datatype).map(Some)
    }

    /// `MPI_Put` into memory that is mapped.
    #[inline]
    pub(super) fn put_direct(&self, mine: Elements, target: &Target) -> Result<()> {
        match self.solid(mine, target) {
            Some((place, len)) => {
                copy(mine.0, place, len);
                Ok(())
            }
            None => self.carry_direct(mine, target, false),
        }
    }

    /// `MPI_Get` from memory that is mapped.
    #[inline]
    pub(super) fn get_direct(&self, mine: Elements, target: &Target) -> Result<()> {
        match self.solid(mine, target) {
            Some((place, len)) => {
                copy(place, mine.0, len);
                Ok(())
            }
            None => self.carry_direct(mine, target, true),
        }
    }

    /// Either, for elements of any kind.
    #[cold]
    fn carry_direct(&self, mine: Elements, target: &Target, gets: bool) -> Result<()> {
        let mine = Data::new(mine.0, mine.1, mine.2)?;
        match self.there(target)? {
            None => Ok(()),
            Some(there) if gets => there.carry_to(&mine),
            Some(there) => mine.carry_to(&there),
        }
    }

    /// `MPI_Accumulate` and `MPI_Get_accumulate` in memory that is mapped; without data, only the old is read.
    pub(super) fn accumulate_direct(
        &self,
        direct: &Direct,
        mine: Option<Elements>,
        result: Option<Elements>,
        target: &Target,
        (op, handle): (Builtin, MPI_Op),
    ) -> Result<()> {
        self.check_elements(target, op)?;
        let Some((rank, head)) = self.pieces(target)? else { return Ok(()) };
        let head = Head { op: handle.0 as u32, ..head };
        let data = mine.map(|(memory, count, datatype)| Data::new(memory, count, datatype)).transpose()?;
        let into = result.map(|(memory, count, datatype)| Data::new(memory, count, datatype)).transpose()?;
        let packed = data.map_or(Ok(Vec::new()), |data| {
            Ok::<_, Error>(data.packed()?.memory().bytes(0, data.len())?.to_vec())
        })?;
        let order = direct.order_word(rank)?;
        direct.acquire(self, order, true)?;
        let old = accumulate(self, rank, &head, &packed);
        Direct::leave(order, true);
        into.map_or(Ok(()), |into| into.take_bytes(&old))
    }

    /// The same for elements of the target's own type without holes, if that is what they are; says whether it is done.
    #[inline]
    pub(super) fn accumulate_at_once(
        &self,
        mine: Elements,
        result: Option<Elements>,
        target: &Target,
        op: MPI_Op,
    ) -> Result<bool> {
        let (Some(direct), Some(op)) = (&self.direct, Builtin::from_handle(op.0)) else { return Ok(false) };
        let (Some(basic), only_reads) = (Basic::from_handle(target.datatype.0), op == Builtin::NoOp) else {
            return Ok(false);
        };
        if (only_reads && result.is_none()) || (!only_reads && mine.2 != target.datatype) {
            return Ok(false);
        }
        let (Some(any), Ok(combine)) = (if only_reads { result } else { Some(mine) }, op.accumulate(basic))
        else {
            return Ok(false);
        };
        let Some((mut place, len)) = self.solid(any, target) else { return Ok(false) };
        let meets = |other: Memory| !only_reads && mine.0.address().abs_diff(other.address()) < len;
        if let Some((memory, count, datatype)) = result {
            let fits = plain(memory, count, datatype).is_some_and(|into| into.len() == len);
            if !fits || datatype != target.datatype || meets(memory) {
                return Ok(false);
            }
        }
        // Elements that overlap those that they are added to, or the place of the old ones, go the long way.
        if len == 0 || meets(place) {
            return Ok(false);
        }
        let data = if only_reads { &[] } else { mine.0.bytes(0, len)? };
        let order = direct.order_word(target.rank as usize)?;
        direct.acquire(self, order, true)?;
        if let Some((memory, ..)) = result {
            copy(place, memory, len);
        }
        if !only_reads {
            combine(data, place.bytes_mut(0, len)?);
        }
        Direct::leave(order, true);
        Ok(true)
    }

    /// `MPI_Compare_and_swap` in memory that is mapped: the old becomes the new if it is what is expected.
    pub(super) fn swap_direct(
        &self,
        direct: &Direct,
        Swap { new, expected, result }: Swap,
        target: &Target,
    ) -> Result<()> {
        let word = |memory| (memory, 1, target.datatype);
        let Some((place, len)) = self.solid(word(result), target) else {
            // Nobody's, or there is something wrong with it.
            return self.pieces(target)?.map_or(Ok(()), |_| Err(no_word()));
        };
        let bytes = |memory| plain(memory, 1, target.datatype).ok_or_else(no_word);
        let (new, expected) = (bytes(new)?, bytes(expected)?);
        let mut words = [[0; WORD_MAX]; 3];
        let [was, wanted, next] = &mut words;
        let len = len.min(WORD_MAX);
        read(expected, &mut wanted[..len]);
        read(new, &mut next[..len]);
        let (place, result) = (place.user(0, len), result.user(0, len));
        let order = direct.order_word(target.rank as usize)?;
        direct.acquire(self, order, true)?;
        read(place, &mut was[..len]);
        if was == wanted {
            place.wire_mut(0, len).map(|mut wire| wire.write(&next[..len]));
        }
        Direct::leave(order, true);
        result.wire_mut(0, len).map(|mut wire| wire.write(&was[..len]));
        Ok(())
    }
}

#[inline]
fn copy(from: Memory, to: Memory, len: usize) {
    if let (Some(mut from), Some(mut to)) =
        (from.user(0, len).wire_ref(0, len), to.user(0, len).wire_mut(0, len))
    {
        to.write_from(&mut from);
    }
}

fn read(from: UserBuf, into: &mut [u8]) {
    from.wire_ref(0, into.len()).map(|mut wire| wire.read(into));
}
