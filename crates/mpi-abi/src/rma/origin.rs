//! The origin's side: what the program asks for becomes letters.

use super::direct::Swap;
use super::letter::{Head, Kind, Letter};
use super::serve::LETTERS;
use super::{Flavor, Window, request};
use crate::boundary::{MPI_Datatype, MPI_Op, Memory};
use crate::coll::Data;
use crate::message::{Buffer, Outcome, kept, outcome};
use crate::p2p::end;
use crate::world::{PROC_NULL, world};
use barewire::core::region::Memory as Kept;
use barewire::core::tagged::{Envelope, Mode, Received, Request, Sent, Sink, Source, Status, Want};
use barewire::mpi::datatype::Basic;
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::op::Builtin;
use std::sync::Arc;

/// Elements of the target's memory, as the program describes them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Whose.
    pub rank: i32,
    /// Where they begin, in units.
    pub displacement: i64,
    /// How many.
    pub count: i64,
    /// Of what.
    pub datatype: MPI_Datatype,
}

/// An operation under way: the letter, and the answer.
#[derive(Default)]
pub(crate) struct Started {
    target: usize,
    letter: Option<Request>,
    answer: Option<Received>,
}

/// Elements of the program's memory.
pub(crate) type Elements = (Memory, i64, MPI_Datatype);

impl Window {
    /// Sends a letter without data.
    pub(super) fn tell(&self, to: usize, head: &Head) -> Result<()> {
        let bytes = head.to_bytes();
        let sent = self.post(to, (bytes.len() as u64, kept(&bytes)))?;
        if let Some(request) = sent {
            self.comm.net.with(|_, layer| layer.requests.leave_behind(request))?;
        }
        Ok(())
    }

    fn post(&self, to: usize, letter: (u64, Source)) -> Result<Option<Request>> {
        let envelope = Envelope { context: self.comm.message_context(), tag: LETTERS };
        match self.comm.net.start_send(self.peer(to), envelope, Mode::Standard, letter)? {
            Sent::Done => Ok(None),
            Sent::Pending(request) => Ok(Some(request)),
        }
    }

    /// Listens for an answer of one byte at most.
    pub(super) fn expect(&self, from: usize, tag: i32, into: &Kept) -> Result<Received> {
        self.listen(from, tag, Sink::Memory(into.clone(), 0, 1))
    }

    fn listen(&self, from: usize, tag: i32, sink: Sink) -> Result<Received> {
        let want = Want { context: self.comm.message_context(), from: Some(self.peer(from)), tag: Some(tag) };
        self.comm.net.start_receive(want, sink)
    }

    /// The pieces of memory a target describes, and the type of its elements; none for `MPI_PROC_NULL`.
    pub(super) fn pieces(&self, target: &Target) -> Result<Option<(usize, Head)>> {
        if target.rank == PROC_NULL {
            return Ok(None);
        }
        let rank = self.rank(target.rank)?;
        let object = world().datatype(target.datatype)?;
        if !object.is_committed() {
            return Err(Error::new(Class::Type, "the target's datatype is not committed"));
        }
        let bytes = object.datatype.packed_size(target.count)?;
        self.may_access(rank)?;
        let shape = self.shapes[rank];
        let start = target.displacement.wrapping_mul(shape.unit);
        let dynamic = self.flavor == Flavor::Dynamic;
        if target.displacement < 0 && !dynamic {
            return Err(Error::new(Class::Disp, format!("the displacement is {}", target.displacement)));
        }
        let (mut pieces, mut beyond) = (Vec::new(), false);
        object.datatype.runs(target.count, 0, bytes, |at, len| {
            let at = start.wrapping_add(at);
            beyond |= !dynamic && (at < 0 || at.saturating_add(len) > shape.size);
            pieces.push((at, len));
        });
        if beyond {
            let what =
                format!("the target's memory has {} bytes; the operation goes beyond them", shape.size);
            return Err(Error::new(Class::RmaRange, what));
        }
        let basic = object.datatype.uniform().unwrap_or(Basic::Byte) as u32;
        Ok(Some((rank, Head { pieces, basic, ..Head::of(Kind::Put) })))
    }

    /// Starts sending a letter with data; the answer, if there is one, goes to `into`.
    fn start(&self, to: usize, head: &Head, data: &Buffer, into: Option<&Buffer>) -> Result<Started> {
        let answer = into.map(|into| self.listen(to, head.answer, into.sink())).transpose()?;
        let letter = Letter {
            head: head.to_bytes(),
            memory: data.memory,
            count: data.count,
            datatype: data.object.datatype.clone(),
        };
        let len = letter.head.len() as u64 + data.len();
        let letter = self.post(to, (len, Source::Gather(Box::new(letter))))?;
        self.state().note_dirty(to);
        Ok(Started { target: to, letter, answer })
    }

    /// `MPI_Put`; nothing is under way if it is done at once.
    #[inline]
    pub fn put(&self, mine: Elements, target: Target) -> Result<Option<Started>> {
        match self.is_mapped() {
            true => self.put_direct(mine, &target).map(|()| None),
            false => self.start_put(mine, &target),
        }
    }

    fn start_put(&self, (memory, count, datatype): Elements, target: &Target) -> Result<Option<Started>> {
        let data = Buffer::new(memory, count, datatype)?;
        let Some((to, head)) = self.pieces(target)? else { return Ok(None) };
        self.start(to, &head, &data, None).map(Some)
    }

    /// `MPI_Get`.
    #[inline]
    pub fn get(&self, mine: Elements, target: Target) -> Result<Option<Started>> {
        match self.is_mapped() {
            true => self.get_direct(mine, &target).map(|()| None),
            false => self.start_get(mine, &target),
        }
    }

    fn start_get(&self, (memory, count, datatype): Elements, target: &Target) -> Result<Option<Started>> {
        let into = Buffer::new(memory, count, datatype)?;
        let Some((to, head)) = self.pieces(target)? else { return Ok(None) };
        let head = Head { kind: Kind::Get, answer: self.next_answer(), ..head };
        self.start(to, &head, &nothing(), Some(&into)).map(Some)
    }

    /// `MPI_Accumulate`, and `MPI_Get_accumulate` where the old goes somewhere.
    #[inline]
    pub fn accumulate(
        &self,
        mine: Elements,
        result: Option<Elements>,
        target: Target,
        op: MPI_Op,
    ) -> Result<Option<Started>> {
        match self.accumulate_at_once(mine, result, &target, op)? {
            true => Ok(None),
            false => self.start_accumulate(mine, result, target, op),
        }
    }

    fn start_accumulate(
        &self,
        (memory, count, datatype): Elements,
        result: Option<Elements>,
        target: Target,
        op: MPI_Op,
    ) -> Result<Option<Started>> {
        let builtin = world().op(op)?;
        let builtin =
            builtin.map_err(|_| Error::new(Class::Op, "accumulates take predefined operations only"))?;
        let only_reads = builtin == Builtin::NoOp;
        if only_reads && result.is_none() {
            return Err(Error::new(Class::Op, "MPI_NO_OP is for those who want the old value"));
        }
        let given = (!only_reads).then_some((memory, count, datatype));
        for elements in given.iter().chain(&result).filter(|elements| elements.2 != target.datatype) {
            same_basic(elements, &target)?;
        }
        if let Some(direct) = &self.direct {
            self.accumulate_direct(direct, given, result, &target, (builtin, op))?;
            return Ok(None);
        }
        let data = if only_reads { nothing() } else { Buffer::new(memory, count, datatype)? };
        let into =
            result.map(|(memory, count, datatype)| Buffer::new(memory, count, datatype)).transpose()?;
        let Some((to, head)) = self.pieces(&target)? else { return Ok(None) };
        self.check_elements(&target, builtin)?;
        let answer = if into.is_some() { self.next_answer() } else { 0 };
        let head = Head { kind: Kind::Accumulate, answer, op: op.0 as u32, ..head };
        self.start(to, &head, &data, into.as_ref()).map(Some)
    }

    /// An error unless the operation is one for the target's elements.
    pub(super) fn check_elements(&self, target: &Target, op: Builtin) -> Result<()> {
        let basic = match Basic::from_handle(target.datatype.0) {
            Some(basic) => basic,
            None => {
                let uniform = world().datatype(target.datatype)?.datatype.uniform();
                uniform.ok_or_else(|| Error::new(Class::Type, "the elements are of different types"))?
            }
        };
        if target.count > 0 && target.rank != PROC_NULL {
            op.accumulate(basic)?;
        }
        Ok(())
    }

    /// `MPI_Compare_and_swap`.
    pub fn compare_and_swap(
        &self,
        new: Memory,
        expected: Memory,
        result: Memory,
        datatype: MPI_Datatype,
        target: Target,
    ) -> Result<Option<Started>> {
        let basic = Basic::from_handle(datatype.0);
        let fits = |basic| Builtin::Band.accumulate(basic).is_ok() || Builtin::Land.accumulate(basic).is_ok();
        if !basic.is_some_and(fits) {
            return Err(Error::new(Class::Type, "the type is none of integers, truth values or bytes"));
        }
        if let Some(direct) = &self.direct {
            self.swap_direct(direct, Swap { new, expected, result }, &target)?;
            return Ok(None);
        }
        let (new, expected) = (Data::new(new, 1, datatype)?, Data::new(expected, 1, datatype)?);
        let into = Buffer::new(result, 1, datatype)?;
        let Some((to, head)) = self.pieces(&target)? else { return Ok(None) };
        let head = Head { kind: Kind::CompareAndSwap, answer: self.next_answer(), ..head };
        let answer = Some(self.listen(to, head.answer, into.sink())?);
        let mut letter = head.to_bytes();
        for data in [expected, new] {
            let packed = data.packed()?;
            letter.extend_from_slice(packed.memory().bytes(0, data.len())?);
        }
        let letter = self.post(to, (letter.len() as u64, kept(&letter)))?;
        self.state().note_dirty(to);
        Ok(Some(Started { target: to, letter, answer }))
    }

    /// Notes an operation that ends with its epoch, if it is under way.
    #[inline]
    pub fn leave(&self, started: Option<Started>) -> Result<()> {
        started.map_or(Ok(()), |started| self.note(started))
    }

    fn note(&self, Started { target, letter, answer }: Started) -> Result<()> {
        if letter.is_none() && answer.is_none() {
            return Ok(());
        }
        let answer = match answer {
            Some(Received::Pending(request)) => Some(request),
            Some(Received::Done(status)) => {
                failure(&status)?;
                None
            }
            None => None,
        };
        self.state().pending.entry(target).or_default().extend(letter.into_iter().chain(answer));
        Ok(())
    }

    /// A request for an operation.
    pub fn follow(self: &Arc<Self>, started: Option<Started>) -> Result<usize> {
        let (net, started) = (self.comm.net.clone(), started.unwrap_or_default());
        request(self, async move {
            let mut ended = Outcome::NOBODY;
            let requests = [
                started.letter,
                match started.answer {
                    Some(Received::Pending(request)) => Some(request),
                    _ => None,
                },
            ];
            for request in requests.into_iter().flatten() {
                match end(&net, request).await {
                    Ok(status) if ended.error.is_none() => ended = outcome(None, &status),
                    Ok(_) => {}
                    Err(error) => ended.error = Some(error),
                }
            }
            ended
        })
    }
}

/// An error unless elements are of the basic type that the target's are of.
#[cold]
fn same_basic(&(_, count, datatype): &Elements, target: &Target) -> Result<()> {
    let (mine, theirs) = (world().datatype(datatype)?, world().datatype(target.datatype)?);
    let (mine, theirs) = (&mine.datatype, &theirs.datatype);
    let is_empty = count == 0 || target.count == 0 || mine.size() == 0 || theirs.size() == 0;
    match (mine.uniform(), theirs.uniform()) {
        _ if is_empty => Ok(()),
        (Some(mine), Some(theirs)) if mine == theirs => Ok(()),
        (Some(mine), Some(theirs)) => {
            let what = format!("the elements are {} here and {} at the target", mine.name(), theirs.name());
            Err(Error::new(Class::Type, what))
        }
        _ => Err(Error::new(Class::Type, "the elements are of different types")),
    }
}

/// The error in a status.
pub(crate) fn failure(status: &Status) -> Result<()> {
    outcome(None, status).error.map_or(Ok(()), Err)
}

fn nothing() -> Buffer {
    Buffer::none()
}
