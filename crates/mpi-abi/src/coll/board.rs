//! A board: memory that all ranks of a communicator on one host have in common, for blocking calls with little data.
//!
//! Every rank has a few slots to which only it writes, used in turn: a line that says which call it is for, with the data if
//! that is short, and room for more. The others look at the line and take what they need. Nobody has to answer, so where there
//! are more ranks than processors each of them runs only once or twice in a call. The lines of all ranks lie together: whoever
//! gets a processor for a moment looks at one page, not at one for each rank.
//!
//! A rank whose data does not fit says so on the board, and sends it as messages.
//!
//! Calls are numbered alike at all ranks. A slot is written again only when everybody has left the call it was used for: who has seen
//! that all have entered call `n` knows that all have left call `n - 1`; otherwise a word in each area tells.

use super::places::{Places, SLOT_DATA, Whose};
use super::shares::Contest;
use super::tree;
use super::{Call, Data, Job, Operation, goes_by_messages};
use crate::object::Comm;
use crate::transport::{Net, send_error};
use barewire::core::SendError;
use barewire::core::region::{Key, Memory};
use barewire::mpi::error::{Class, Error, Result};
use barewire_sys::stores::Stores;
use barewire_sys::sync::{SenderOrder, before_last_look, can_barrier_others};
use barewire_sys::wirebuf::{WireMut, WireRef};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Most that a rank gives in one slot after the other.
pub(super) const BLOCKS_MAX: usize = 4 << 20;
/// Most ranks for which everybody looks at everybody.
const RANKS_MAX: usize = 64;
/// Calls on a communicator before it gets a board: many are made for a call or two.
const CALLS_BEFORE: i32 = 3;
/// Longest total of what a rank combines by itself.
pub(super) const COMBINED_MAX: usize = 64 << 10;
/// Looks at a flag before the network gets its turn.
const QUICK_LOOKS: u32 = 200;
/// Times that a rank in a crowd lets others run before the network gets its turn.
const QUICK_YIELDS: u32 = 16;
/// The length of what comes by messages instead.
pub(super) const BY_MESSAGES: u64 = u64::MAX;
/// The length of what comes in the calls after this one.
pub(super) const BY_BLOCKS: u64 = u64::MAX - 1;

/// A communicator's board, as one rank sees it.
pub(crate) struct Board {
    pub(super) memory: Memory,
    key: Key,
    net: Arc<Net>,
    pub(super) rank: usize,
    pub(super) size: usize,
    places: Places,
    /// The number of the last call, and of the last slot that a pair has used.
    number: AtomicU64,
    pair_number: AtomicU64,
    /// All have left this call.
    left_by_all: AtomicU64,
    /// Whoever goes to sleep makes its word of it visible to everybody, so that nobody has to fence before looking for sleepers.
    sleepers_fence: AtomicBool,
    /// How this rank writes its data, and what a pair has in common.
    stores: Stores,
    pair_stores: Stores,
    /// Which way long data is combined.
    pub(super) contest: Mutex<Contest>,
    /// Memory for what others gave, kept from call to call.
    room: Mutex<Vec<u8>>,
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board").field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.net.release(self.key);
    }
}

/// The board for a blocking call, if the communicator has one.
pub(crate) fn of(call: &Call) -> Result<Option<&Board>> {
    let comm: &Comm = &call.comm;
    if let Some(board) = comm.board.get() {
        return Ok(board.as_ref());
    }
    if call.tag < CALLS_BEFORE {
        return Ok(None);
    }
    let size = comm.group.size();
    let common = match size {
        2..=RANKS_MAX => comm.net.common_memory(comm, Places::of(size).bytes)?,
        _ => None,
    };
    let board = common.map(|(memory, key)| Board {
        memory,
        key,
        net: comm.net.clone(),
        rank: comm.rank,
        size,
        places: Places::of(size),
        number: AtomicU64::new(0),
        pair_number: AtomicU64::new(0),
        left_by_all: AtomicU64::new(0),
        stores: Stores::default(),
        pair_stores: Stores::default(),
        sleepers_fence: AtomicBool::new(false),
        contest: Mutex::default(),
        room: Mutex::default(),
    });
    board.iter().for_each(|board| board.say_sleeping(false));
    Ok(comm.board.get_or_init(|| board).as_ref())
}

impl Board {
    /// Does a job, if it is one for the board; which it is depends only on what all ranks know.
    pub async fn run(&self, call: &Call, job: &Job) -> Option<Result<()>> {
        let turn = Turn::new(self, call);
        let fits = |op: &Operation| {
            let len = op.mine.len();
            len <= SLOT_DATA && len.saturating_mul(self.size) <= COMBINED_MAX
        };
        Some(match job {
            Job::Barrier => turn.barrier(),
            Job::Bcast(data, root) => turn.bcast(data, root.rank().ok()?).await,
            Job::Gather(mine, places, root) => turn.gather(mine.as_ref(), places, root.rank().ok()?).await,
            Job::Scatter(parts, mine, root) => turn.scatter(parts, mine.as_ref(), root.rank().ok()?).await,
            Job::Allgather(mine, places) if places.iter().all(|place| place.len() <= SLOT_DATA) => {
                turn.mutual().allgather(mine.as_ref(), places).await
            }
            Job::Alltoall(Some(parts), places) => turn.mutual().alltoall(parts, places).await,
            Job::Reduce(op, root) if fits(op) => turn.reduce(op, root.rank().ok()?),
            Job::Allreduce(op) if fits(op) => turn.mutual().allreduce(op),
            Job::Scan(op) if fits(op) => turn.scan(op),
            Job::ReduceScatter(op, counts) if fits(op) => turn.reduce_scatter(op, counts),
            _ => return None,
        })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        self.memory.atomic_u64(at).expect("it was made with room for all ranks, and words are aligned")
    }

    fn left(&self, rank: usize) -> &AtomicU64 {
        self.word(self.places.left(rank))
    }

    fn sleeps(&self, rank: usize) -> &AtomicU64 {
        self.word(rank * 8)
    }

    /// Memory for what others gave, of at least so many bytes; to be [given back](Board::keep_room).
    pub(super) fn take_room(&self, len: usize) -> Vec<u8> {
        let mut room = std::mem::take(&mut *self.room.lock().unwrap_or_else(PoisonError::into_inner));
        room.resize(len.max(room.len()), 0);
        room
    }

    pub(super) fn keep_room(&self, room: Vec<u8>) {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = room;
    }

    /// Says whether this rank sleeps; it looks at flags once more after that.
    fn say_sleeping(&self, sleeps: bool) {
        let fences = if can_barrier_others() { FENCES } else { 0 };
        // SYNC sleeps: ordered before the last look by what follows; saying that one is awake needs no order.
        self.sleeps(self.rank).store(fences | if sleeps { SLEEPS } else { 0 }, Ordering::Relaxed);
        if sleeps {
            before_last_look();
        }
    }

    /// Whether there are more ranks than processors.
    pub(super) fn is_crowded(&self) -> bool {
        self.net.crowded
    }

    /// After giving something, before looking for sleepers.
    #[inline(always)]
    fn after_giving(&self) {
        // SYNC sleepers: only this rank's threads use it, and it stays true.
        if self.sleepers_fence.load(Ordering::Relaxed) {
            SenderOrder::Membarrier.after_publish();
        } else {
            self.fence_for_all();
        }
    }

    #[cold]
    fn fence_for_all(&self) {
        // SYNC sleeps: the flag is written before we look who sleeps, and who sleeps says so before it looks at flags.
        SenderOrder::Fence.after_publish();
        let fences = |rank| self.sleeps(rank).load(Ordering::Relaxed) & FENCES != 0;
        let all = SenderOrder::of_this_process() == SenderOrder::Membarrier && (0..self.size).all(fences);
        self.sleepers_fence.store(all, Ordering::Relaxed);
    }
}

/// In a rank's word of whether it sleeps: it does.
const SLEEPS: u64 = 1;
/// It runs a barrier on everybody's processor whenever it says so.
const FENCES: u64 = 2;

/// Bytes of the table in front of a part for each of `ranks`.
pub(super) fn table_bytes(ranks: usize) -> usize {
    8 * ranks
}

/// What a rank gave.
pub(super) enum Gift<'a> {
    /// It is here.
    Here(WireRef<'a>),
    /// It comes by messages.
    Sent,
    /// It [follows in blocks](Turn::swap).
    InBlocks,
}

/// How a rank gives what it gives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    Here,
    Sent,
    InBlocks,
}

#[cold]
pub(super) fn something_else(from: usize) -> Error {
    Error::new(Class::Other, format!("rank {from} gave something else than this rank expects"))
}

/// One call on a board.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub board: &'a Board,
    pub call: &'a Call,
    /// Whose slots longer data is given into.
    whose: Whose,
}

impl<'a> Turn<'a> {
    pub fn new(board: &'a Board, call: &'a Call) -> Turn<'a> {
        Turn { board, call, whose: Whose::Own }
    }

    /// The same for a call in each of whose steps all ranks that give something take what the others give, before they leave it.
    pub fn mutual(self) -> Turn<'a> {
        if self.board.size != 2 {
            return self;
        }
        // SYNC number: see `number`.
        let [number, pair] =
            [&self.board.number, &self.board.pair_number].map(|it| it.load(Ordering::Relaxed));
        Turn { whose: Whose::Pair(number.wrapping_sub(pair)), ..self }
    }

    /// In the last step of a [mutual](Turn::mutual) call nobody gave anything for which a slot is needed: what follows uses it.
    pub fn mutual_again(self) -> Turn<'a> {
        if let Whose::Pair(_) = self.whose {
            // SYNC number: see `number`.
            self.board.pair_number.fetch_sub(1, Ordering::Relaxed);
        }
        self.mutual()
    }

    pub(super) fn data(&self, rank: usize, number: u64, len: usize) -> usize {
        self.board.places.data(self.whose, rank, number, len)
    }

    pub fn others(&self) -> impl Iterator<Item = usize> + use<> {
        // Beginning with the next one, so that nobody is looked at by all at once.
        let (rank, size) = (self.board.rank, self.board.size);
        (1..size).map(move |step| (rank + step) % size)
    }

    /// Begins the next call, or the next step of one.
    pub fn number(&self) -> u64 {
        // SYNC number: the program orders collective calls on a communicator.
        let number = self.board.number.load(Ordering::Relaxed) + 1;
        self.board.number.store(number, Ordering::Relaxed);
        if let Whose::Pair(less) = self.whose {
            self.board.pair_number.store(number.wrapping_sub(less), Ordering::Relaxed);
        }
        number
    }

    /// Ends a call in which this rank has not seen everybody.
    pub fn leave(&self, number: u64) {
        // SYNC left: pairs with the Acquire in make_room; what we took out has been taken out.
        self.board.left(self.board.rank).store(number, Ordering::Release);
    }

    /// Ends a call in which this rank has seen that everybody had entered it.
    pub fn leave_together(&self, number: u64) {
        self.leave(number);
        self.board.left_by_all.store(number - 1, Ordering::Relaxed);
    }

    /// Waits until this rank's slot for the call may be written, its line with so many bytes or its place for more.
    fn make_room(&self, number: u64, len: usize) -> Result<()> {
        let board = self.board;
        let ahead = board.places.ahead(self.whose, len);
        let Some(before) = number.checked_sub(ahead) else { return Ok(()) };
        if board.left_by_all.load(Ordering::Relaxed) >= before {
            return Ok(());
        }
        let mut all = u64::MAX;
        for rank in self.others() {
            // SYNC left: pairs with the Release in leave.
            let left = || board.left(rank).load(Ordering::Acquire);
            self.until(|| left() >= before)?;
            all = all.min(left());
        }
        board.left_by_all.store(all.min(number - 1), Ordering::Relaxed);
        Ok(())
    }

    /// Gives the others `len` bytes, written by `fill`.
    pub fn give(&self, number: u64, len: u64, fill: impl FnOnce(&mut WireMut<'_>)) -> Result<()> {
        let here = if len >= BY_BLOCKS { 0 } else { len as usize };
        self.give_of(number, len, here, fill)
    }

    /// Gives the others the first `here` bytes of `len`.
    #[inline(always)]
    pub(super) fn give_of(
        &self,
        number: u64,
        len: u64,
        here: usize,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<()> {
        self.make_room(number, here)?;
        let board = self.board;
        let line = board.places.line(board.rank, number);
        board.word(line + 8).store(len, Ordering::Relaxed);
        if here > 0 {
            let place = board.memory.wire_mut(self.data(board.rank, number, here), here);
            let place = place.expect("callers give no more than a slot holds");
            let stores = match self.whose {
                Whose::Own => &board.stores,
                Whose::Pair(_) => &board.pair_stores,
            };
            stores.write(place, fill);
        }
        // SYNC flag: pairs with the Acquire in has_given.
        board.word(line).store(number, Ordering::Release);
        board.after_giving();
        for rank in self.others() {
            if board.sleeps(rank).load(Ordering::Relaxed) & SLEEPS != 0 {
                board.net.wake(self.call.peer(rank));
            }
        }
        Ok(())
    }

    /// Gives the others up to [`BLOCKS_MAX`] bytes in one slot after the other; `fill` writes those from a place on. The first slot says
    /// how many there are in all.
    #[inline(always)]
    pub fn give_blocks(&self, len: usize, mut fill: impl FnMut(usize, &mut WireMut<'_>)) -> Result<()> {
        let mut at = 0;
        loop {
            let (number, here) = (self.number(), (len - at).min(SLOT_DATA));
            let given = self.give_of(number, (len - at) as u64, here, |wire| fill(at, wire));
            self.leave(number);
            given?;
            at += here;
            if at >= len {
                return Ok(());
            }
        }
    }

    /// Takes what a rank [gives in blocks](Turn::give_blocks); `take` gets each, and where it begins. False if it comes by messages.
    #[inline(always)]
    pub fn take_blocks(
        &self,
        from: usize,
        mut take: impl FnMut(usize, &mut WireRef<'a>) -> Result<()>,
    ) -> Result<bool> {
        let (mut at, mut outcome) = (0, Ok(()));
        loop {
            let number = self.number();
            let gift = self.gift(from, number);
            let left = self.announced(from, number);
            let Gift::Here(mut block) = gift? else {
                self.leave(number);
                return Ok(false);
            };
            let here = block.remaining();
            outcome = outcome.and(take(at, &mut block));
            self.leave(number);
            at += here;
            if left <= here as u64 || at >= BLOCKS_MAX {
                return outcome.map(|()| true);
            }
        }
    }

    /// How many bytes a rank has from a block on, if it tells the truth.
    fn announced(&self, from: usize, number: u64) -> u64 {
        self.board.word(self.board.places.line(from, number) + 8).load(Ordering::Relaxed)
    }

    /// Waits for a block that a rank gives; says how many bytes it has from there on.
    pub(super) fn block(&self, from: usize, number: u64) -> Result<(WireRef<'a>, u64)> {
        let block = self.gift_here(from, number)?;
        Ok((block, self.announced(from, number)))
    }

    pub(super) fn give_data(&self, number: u64, data: &Data) -> Result<()> {
        self.give(number, data.len() as u64, |wire| data.write_to(0, wire))
    }

    /// Whether a rank has given what it gives in a call.
    #[inline(always)]
    fn has_given(&self, rank: usize, number: u64) -> bool {
        // SYNC flag: pairs with the Release in give.
        self.board.word(self.board.places.line(rank, number)).load(Ordering::Acquire) >= number
    }

    /// Waits for what a rank gives.
    pub fn gift(&self, rank: usize, number: u64) -> Result<Gift<'a>> {
        self.until(|| self.has_given(rank, number))?;
        let board = self.board;
        match board.word(board.places.line(rank, number) + 8).load(Ordering::Relaxed) {
            BY_MESSAGES => Ok(Gift::Sent),
            BY_BLOCKS => Ok(Gift::InBlocks),
            len => {
                let len = (len as usize).min(SLOT_DATA);
                let there = board.memory.wire_ref(self.data(rank, number, len), len);
                Ok(Gift::Here(there.expect("a slot holds as much")))
            }
        }
    }

    /// Waits for what a rank gives, which is here because all know that it fits.
    fn gift_here(&self, rank: usize, number: u64) -> Result<WireRef<'a>> {
        match self.gift(rank, number)? {
            Gift::Here(bytes) => Ok(bytes),
            Gift::Sent | Gift::InBlocks => {
                Err(Error::new(Class::Other, format!("rank {rank} gave more than this rank expects")))
            }
        }
    }

    /// Waits until others have written something. The loss of any member ends the call: whoever it is that we wait for may have
    /// been waiting for it.
    #[inline]
    fn until(&self, is_there: impl Fn() -> bool) -> Result<()> {
        if self.board.net.crowded {
            return self.let_others_run(&is_there);
        }
        for _ in 0..QUICK_LOOKS {
            if is_there() {
                return Ok(());
            }
        }
        self.wait_until(&is_there)
    }

    fn let_others_run(&self, is_there: &impl Fn() -> bool) -> Result<()> {
        for _ in 0..QUICK_YIELDS {
            if is_there() {
                return Ok(());
            }
            std::thread::yield_now();
        }
        self.wait_until(is_there)
    }

    #[cold]
    fn wait_until(&self, is_there: &impl Fn() -> bool) -> Result<()> {
        let (mut gone, mut said) = (None, false);
        self.board.net.watch("a collective call", |endpoint, layer| {
            if endpoint.is_dozing() != said {
                said = !said;
                self.board.say_sleeping(said);
            }
            if is_there() {
                return true;
            }
            gone = layer.lost.iter().copied().find(|peer| self.call.comm.has(*peer));
            gone.is_some()
        })?;
        if said {
            self.board.say_sleeping(false);
        }
        match gone {
            Some(peer) => Err(send_error(SendError::Lost(peer))),
            None => Ok(()),
        }
    }

    pub fn barrier(&self) -> Result<()> {
        let number = self.number();
        self.give(number, 0, |_| {})?;
        for rank in self.others() {
            self.until(|| self.has_given(rank, number))?;
        }
        self.leave_together(number);
        Ok(())
    }

    async fn bcast(&self, data: &Data, root: usize) -> Result<()> {
        if self.board.rank != root {
            return match self.take_blocks(root, |at, block| data.take_at(at as i64, block))? {
                true => Ok(()),
                false => tree::bcast(self.call, data, root).await,
            };
        }
        if data.len() <= BLOCKS_MAX && !goes_by_messages(&self.call.comm, data.len()) {
            return self.give_blocks(data.len(), |at, wire| data.write_to(at as i64, wire));
        }
        let number = self.number();
        self.give(number, BY_MESSAGES, |_| {})?;
        self.leave(number);
        tree::bcast(self.call, data, root).await
    }

    async fn allgather(&self, mine: Option<&Data>, places: &[Data]) -> Result<()> {
        let (number, rank) = (self.number(), self.board.rank);
        let given = mine.unwrap_or(&places[rank]);
        let sends = match goes_by_messages(&self.call.comm, given.len()) {
            true => {
                self.give(number, BY_MESSAGES, |_| {})?;
                self.others().map(|to| self.call.start_send(to, given)).collect()
            }
            false => {
                self.give_data(number, given)?;
                Vec::new()
            }
        };
        let mut outcome = mine.map_or(Ok(()), |mine| mine.copy_to(&places[rank]));
        for from in self.others() {
            outcome = outcome.and(self.take_part(from, self.gift(from, number), &places[from]).await);
        }
        self.leave_together(number);
        let sent = self.call.finish_all(sends).await;
        outcome.and(sent)
    }

    fn allreduce(&self, op: &Operation) -> Result<()> {
        let number = self.number();
        self.give_data(number, &op.mine)?;
        let outcome = self.combine(number, op, 0..self.board.size, 0);
        match outcome {
            Ok(()) => self.leave_together(number),
            Err(_) => self.leave(number),
        }
        outcome
    }

    fn reduce(&self, op: &Operation, root: usize) -> Result<()> {
        let number = self.number();
        self.give_data(number, &op.mine)?;
        let outcome = match self.board.rank == root {
            true => self.combine(number, op, 0..self.board.size, 0),
            false => Ok(()),
        };
        self.leave(number);
        outcome
    }

    fn scan(&self, op: &Operation) -> Result<()> {
        let number = self.number();
        self.give_data(number, &op.mine)?;
        let outcome = self.combine(number, op, 0..self.board.rank + 1, 0);
        self.leave(number);
        outcome
    }

    fn reduce_scatter(&self, op: &Operation, counts: &[i64]) -> Result<()> {
        let number = self.number();
        self.give_data(number, &op.mine)?;
        let before: i64 = counts[..self.board.rank].iter().sum();
        let outcome = self.combine(number, op, 0..self.board.size, before);
        self.leave(number);
        outcome
    }

    /// Combines what some ranks gave, in their order, which is the same everywhere: so is the result. As many elements as it has room for, from
    /// `first` on.
    fn combine(&self, number: u64, op: &Operation, ranks: Range<usize>, first: i64) -> Result<()> {
        let (reducer, count) = (&op.reducer, op.into.count);
        let (mut total, mut other) = (reducer.room(count), reducer.room(count));
        let (skip, len) = ((first * op.mine.datatype.size()) as usize, op.into.len());
        let take = |rank, room: &Data| {
            let mut gift = self.gift_here(rank, number)?;
            gift.discard(skip);
            room.take(&mut gift.first(len.min(gift.remaining())))
        };
        take(ranks.start, &total.data)?;
        for rank in ranks.skip(1) {
            take(rank, &other.data)?;
            reducer.combine(&total.data, &other.data)?;
            std::mem::swap(&mut total, &mut other);
        }
        total.data.copy_to(&op.into)
    }
}
