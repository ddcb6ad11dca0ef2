//! The target's side: letters are taken in order, and done.

use super::letter::{Head, Kind};
use super::{Flavor, Hold, Shape, State, Window};
use crate::boundary::Memory;
use crate::message::{kept, rank_of};
use crate::p2p::end;
use crate::task::{Event, Need, Until};
use barewire::core::region::Memory as Kept;
use barewire::core::tagged::{Envelope, Mode, Received, Request, Sent, Sink, Source, Want};
use barewire::mpi::datatype::{Basic, Datatype};
use barewire::mpi::error::Result;
use barewire::mpi::op::Builtin;

/// The tag of letters; those of answers are above.
pub(crate) const LETTERS: i32 = 0;

/// Most bytes of answers that are kept until they go, with what each takes besides.
const ANSWERS_MAX: usize = 64 << 20;
const ANSWER_HEAD: usize = 4096;

/// Serves a window until it goes.
pub(crate) async fn serve(window: &Window) -> Result<()> {
    let net = &window.comm.net;
    let want = Want { context: window.comm.message_context(), from: None, tag: Some(LETTERS) };
    let mut lost = 0;
    loop {
        Until(net, Need { what: Event::Message(want), lost }).await;
        let now = net.with(|_, layer| layer.lost.len())?;
        if now > lost {
            lost = now;
            forget_lost(window)?;
        }
        let Some(matched) = net.with(|_, layer| layer.tagged.claim(&want))? else { continue };
        let (from, len) = (rank_of(&window.comm, matched.status().from), matched.status().len as usize);
        let memory = Kept::private(len);
        let sink = Sink::Memory(memory.clone(), 0, len);
        let received = net.with(|endpoint, layer| layer.tagged.receive_matched(endpoint, matched, sink))?;
        let status = match received {
            Received::Done(status) => status,
            Received::Pending(request) => end(net, request).await?,
        };
        let mut letter = vec![0; len];
        let (Ok(from), None, true) = (usize::try_from(from), status.failure, memory.read(0, &mut letter))
        else {
            continue;
        };
        // A letter that makes no sense asks for nothing.
        let Some((head, data)) = Head::read(&letter) else { continue };
        if head.kind == Kind::Close {
            let left = std::mem::take(&mut window.state().answering);
            return net.with(|_, layer| {
                left.into_iter().for_each(|(request, _)| layer.requests.leave_behind(request))
            });
        }
        obey(window, from, &head, data)?;
        // Those who ask faster than they take answers are not asked on until they have taken some.
        loop {
            let oldest = window.state().next_too_many();
            let Some(oldest) = oldest else { break };
            end(net, oldest).await?;
        }
    }
}

fn obey(window: &Window, from: usize, head: &Head, data: &[u8]) -> Result<()> {
    let answer = |bytes: &[u8]| window.answer(from, head.answer, bytes);
    if !head.pieces.iter().all(|piece| window.piece(window.comm.rank, *piece).is_some()) {
        window.state().refused.insert(from);
    }
    match head.kind {
        Kind::Put => {
            window.write(window.comm.rank, head, data);
            Ok(())
        }
        Kind::Get => answer(&window.read(window.comm.rank, head)),
        Kind::Accumulate => {
            let old = accumulate(window, window.comm.rank, head, data);
            if head.answer == 0 { Ok(()) } else { answer(&old) }
        }
        Kind::CompareAndSwap => {
            let old = window.read(window.comm.rank, head);
            let (expected, new) = data.split_at(data.len() / 2);
            if old == expected {
                window.write(window.comm.rank, head, new);
            }
            answer(&old)
        }
        Kind::LockExclusive | Kind::LockShared => {
            let hold = if head.kind == Kind::LockShared { Hold::Shared } else { Hold::Exclusive };
            window.state().waiting.push_back((from, hold, head.answer));
            grant(window)
        }
        Kind::Unlock => {
            window.state().holders.remove(&from);
            answer(&told(window, from))?;
            grant(window)
        }
        Kind::Flush => answer(&told(window, from)),
        Kind::Post => {
            *window.state().posts.entry(from).or_default() += 1;
            Ok(())
        }
        Kind::Complete => {
            *window.state().completions.entry(from).or_default() += 1;
            Ok(())
        }
        Kind::Close => Ok(()),
    }
}

/// What an origin that waits for its operations hears: whether one of them was about memory that is not there.
fn told(window: &Window, from: usize) -> [u8; 1] {
    [window.state().refused.remove(&from).into()]
}

/// Gives the lock to those whose turn it is.
fn grant(window: &Window) -> Result<()> {
    loop {
        let next = next_holder(&mut window.state());
        let Some((to, answer)) = next else { return Ok(()) };
        window.answer(to, answer, &[])?;
    }
}

impl State {
    /// The oldest answer that has not gone yet, if they are too much to keep.
    fn next_too_many(&mut self) -> Option<Request> {
        if self.answering_bytes <= ANSWERS_MAX {
            return None;
        }
        let (request, bytes) = self.answering.pop_front()?;
        self.answering_bytes -= bytes + ANSWER_HEAD;
        Some(request)
    }
}

fn next_holder(state: &mut State) -> Option<(usize, i32)> {
    let &(rank, hold, answer) = state.waiting.front()?;
    let free = match hold {
        Hold::Exclusive => state.holders.is_empty(),
        Hold::Shared => state.holders.values().all(|other| *other == Hold::Shared),
    };
    free.then(|| {
        state.waiting.pop_front();
        state.holders.insert(rank, hold);
        (rank, answer)
    })
}

/// The locks of processes that are gone are free.
fn forget_lost(window: &Window) -> Result<()> {
    let lost = window.comm.net.with(|_, layer| layer.lost.clone())?;
    let gone = |rank: usize| lost.contains(&window.peer(rank));
    let mut state = window.state();
    state.holders.retain(|rank, _| !gone(*rank));
    state.waiting.retain(|(rank, ..)| !gone(*rank));
    drop(state);
    grant(window)
}

/// Combines data with what a rank has, and gives the old.
pub(super) fn accumulate(window: &Window, rank: usize, head: &Head, data: &[u8]) -> Vec<u8> {
    let old = window.read(rank, head);
    let combine = Builtin::from_handle(head.op as usize)
        .zip(Basic::from_handle(head.basic as usize))
        .and_then(|(op, basic)| Some((op.accumulate(basic).ok()?, basic)));
    let Some((combine, basic)) = combine else { return old };
    let len = data.len().min(old.len());
    if basic.size() == basic.extent() {
        let mut new = old.clone();
        combine(&data[..len], &mut new[..len]);
        window.write(rank, head, &new);
        return old;
    }
    // Elements with holes are combined as they lie in memory.
    let (datatype, count) = (Datatype::from(basic), len as i64 / basic.size());
    let spread = |packed: &[u8]| {
        let mut elements = vec![0u8; (count * basic.extent()) as usize];
        datatype.unpack(count, &mut elements[..], 0, packed);
        elements
    };
    let (input, mut inout) = (spread(data), spread(&old));
    combine(&input, &mut inout);
    let mut new = vec![0; old.len()];
    datatype.pack(count, &inout[..], 0, &mut new);
    window.write(rank, head, &new);
    old
}

/// Whether a piece of memory is attached, be it in several parts.
fn covered(attached: &[(usize, usize)], mut offset: usize, end: usize) -> bool {
    while offset < end {
        let part = attached.iter().find(|&&(start, size)| start <= offset && offset < start + size);
        let Some((start, size)) = part else { return false };
        offset = start + size;
    }
    true
}

impl Window {
    /// Sends an answer; one to a process that is gone is not missed.
    fn answer(&self, to: usize, tag: i32, bytes: &[u8]) -> Result<()> {
        let envelope = Envelope { context: self.comm.message_context(), tag };
        let source: (u64, Source) = (bytes.len() as u64, kept(bytes));
        if let Ok(Sent::Pending(request)) =
            self.comm.net.start_send(self.peer(to), envelope, Mode::Standard, source)
        {
            let mut state = self.state();
            state.answering.push_back((request, bytes.len()));
            state.answering_bytes += bytes.len() + ANSWER_HEAD;
        }
        Ok(())
    }

    /// The address of a piece of a rank's memory, which is here, if it is all there.
    fn piece(&self, rank: usize, (at, len): (i64, i64)) -> Option<Memory> {
        let (offset, len) = (usize::try_from(at).ok()?, usize::try_from(len).ok()?);
        let end = offset.checked_add(len)?;
        let Shape { base, size, .. } = self.shapes[rank];
        let there = match self.flavor {
            Flavor::Dynamic => covered(&self.state().attached, offset, end),
            _ => end as i64 <= size,
        };
        there.then(|| Memory::at_address(base + offset))
    }

    /// What the pieces of a letter hold; those that are not there hold nothing.
    pub(super) fn read(&self, rank: usize, head: &Head) -> Vec<u8> {
        let mut bytes = Vec::new();
        for piece in &head.pieces {
            if let Some(memory) = self.piece(rank, *piece) {
                bytes.extend_from_slice(memory.bytes(0, piece.1 as usize).unwrap_or_default());
            }
        }
        bytes
    }

    /// Puts data into the pieces of a letter that are there.
    pub(super) fn write(&self, rank: usize, head: &Head, mut data: &[u8]) {
        for piece in &head.pieces {
            let len = (piece.1.max(0) as usize).min(data.len());
            let (now, rest) = data.split_at(len);
            if let Some(mut memory) = self.piece(rank, *piece) {
                if let Ok(place) = memory.bytes_mut(0, len) {
                    place.copy_from_slice(now);
                }
            }
            data = rest;
        }
    }
}
