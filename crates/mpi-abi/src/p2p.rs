//! Point to point: the program's sends, receives and probes.

use crate::boundary::{MPI_Comm, MPI_Datatype, MPI_Message, MPI_Request, Memory, Out, Status};
use crate::fault::Fault;
use crate::message::{
    Buffer, Outcome, Partner, anyone, outcome, plain, plain_partner, rank_of, target, wanted,
};
use crate::object::{Comm, CommRef};
use crate::plain_receive;
use crate::request::{Plan, Way};
use crate::task::{Event, Need, Until};
use crate::transport::{Layer, Net, send_error};
use crate::world::{ANY_SOURCE, bad, lasting, world};
use barewire::core::tagged::{self, Envelope, Mode, Received, Sent, Want};
use barewire::core::{Endpoint, Peer, SendError};
use barewire::mpi::error::{Class, Error, Result};
use barewire_sys::userbuf::UserBuf;

/// The arguments that describe one side of a message.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    /// The address of the data.
    pub memory: Memory,
    /// How many elements.
    pub count: i64,
    /// Of what.
    pub datatype: MPI_Datatype,
    /// The other side's rank.
    pub rank: i32,
    /// The tag.
    pub tag: i32,
}

impl Message {
    /// The data to be sent, and its length.
    #[inline(always)]
    fn source(&self) -> Result<(u64, tagged::Source)> {
        match plain(self.memory, self.count, self.datatype) {
            Some(bytes) => Ok((bytes.len() as u64, tagged::Source::User(bytes))),
            None => self.buffer().map(|buffer| buffer.source()),
        }
    }

    /// The place of data to be received.
    #[inline(always)]
    fn sink(&self) -> Result<tagged::Sink> {
        match plain(self.memory, self.count, self.datatype) {
            Some(bytes) => Ok(tagged::Sink::User(bytes)),
            None => self.buffer().map(|buffer| buffer.sink()),
        }
    }

    /// What a plain message is and with whom; `None` if there is something special about it, or wrong with it, which the long way finds.
    #[inline(always)]
    fn plainly(&self, comm: &Comm) -> Option<(Peer, Envelope, UserBuf)> {
        let bytes = plain(self.memory, self.count, self.datatype)?;
        let (peer, envelope) = plain_partner(comm, self.rank, self.tag)?;
        Some((peer, envelope, bytes))
    }

    /// Sends it if it is a plain one that can go at once, and says what `then` says; `None` if nothing has happened.
    #[inline(always)]
    fn send_now<R>(
        &self,
        comm: &Comm,
        mode: Mode,
        then: impl FnOnce(&mut Endpoint, &Layer, Peer) -> R,
    ) -> Option<R> {
        if mode != Mode::Standard {
            return None;
        }
        let (to, envelope, bytes) = self.plainly(comm)?;
        let mut alone = comm.net.alone()?;
        let (endpoint, layer) = alone.as_deref_mut()?;
        let sent = layer.tagged.send_now(endpoint, to, envelope, bytes).unwrap_or(false);
        sent.then(|| then(endpoint, layer, to))
    }

    /// Posts it if it is a plain one and has not come yet; `None` if nothing has happened.
    #[inline(always)]
    fn post_now(&self, comm: &Comm, handle: MPI_Comm) -> Option<tagged::Request> {
        let (from, envelope, bytes) = self.plainly(comm)?;
        let mut alone = comm.net.alone()?;
        let (endpoint, layer) = alone.as_deref_mut()?;
        layer.tagged.post_now(endpoint, from, envelope, bytes, plain_receive::note(handle, self.rank))
    }

    /// Receives it if it is a plain one and comes within a moment; `None` if nothing has happened.
    #[inline(always)]
    fn receive_now(&self, comm: &Comm) -> Option<u64> {
        let (from, envelope, bytes) = self.plainly(comm)?;
        let mut alone = comm.net.alone_for_a_moment()?;
        let (endpoint, layer) = alone.as_deref_mut()?;
        endpoint.let_others(from, layer);
        layer.tagged.receive_now(endpoint, from, envelope, bytes.len(), |mut payload| {
            bytes.wire_mut(0, payload.remaining()).map(|mut place| place.take_from(&mut payload));
        })
    }

    /// The same of one in several packets, of which the first is there.
    fn receive_pieces_now(&self, comm: &Comm) -> Option<Received> {
        let (from, envelope, bytes) = self.plainly(comm)?;
        let mut alone = comm.net.alone_for_a_moment()?;
        let (endpoint, layer) = alone.as_deref_mut()?;
        layer.tagged.receive_pieces_now(endpoint, from, envelope, tagged::Sink::User(bytes))
    }

    fn buffer(&self) -> Result<Buffer> {
        Buffer::new(self.memory, self.count, self.datatype)
    }
}

/// Sends and waits until the send has ended.
#[inline(always)]
pub(crate) fn send(message: Message, handle: MPI_Comm, mode: Mode) -> Result<()> {
    match lasting(handle) {
        Some(comm) => send_on(comm, message, handle, mode),
        None => send_elsewhere(message, handle, mode),
    }
}

/// The same on a communicator that takes a reference to be used.
#[inline(never)]
fn send_elsewhere(message: Message, handle: MPI_Comm, mode: Mode) -> Result<()> {
    send_on(&*world().comm(handle)?, message, handle, mode)
}

#[inline(always)]
fn send_on(comm: &Comm, message: Message, handle: MPI_Comm, mode: Mode) -> Result<()> {
    match message.send_now(comm, mode, |endpoint, _, to| endpoint.flush_to(to)) {
        Some(true) => Ok(()),
        Some(false) => pass_on(message, handle),
        None => send_later(message, handle, mode),
    }
}

/// Waits until the system has taken what was sent.
#[cold]
fn pass_on(message: Message, handle: MPI_Comm) -> Result<()> {
    let comm = world().comm(handle)?;
    match target(&comm, message.rank, message.tag)? {
        Some((to, _)) => comm.net.pass_on(to),
        None => Ok(()),
    }
}

#[inline(never)]
fn send_later(message: Message, handle: MPI_Comm, mode: Mode) -> Result<()> {
    let comm = world().comm(handle)?;
    let source = message.source()?;
    let Some((to, envelope)) = target(&comm, message.rank, message.tag)? else { return Ok(()) };
    let sent = comm.net.start_send(to, envelope, mode, source)?;
    comm.net.finish_send(sent)?;
    comm.net.pass_on(to)
}

/// Starts a send.
#[inline(always)]
pub(crate) fn isend(message: Message, handle: MPI_Comm, mode: Mode) -> Result<MPI_Request> {
    match lasting(handle) {
        Some(comm) => isend_on(comm, message, handle, mode),
        None => isend_elsewhere(message, handle, mode),
    }
}

/// The same on a communicator that takes a reference to be used.
#[inline(never)]
fn isend_elsewhere(message: Message, handle: MPI_Comm, mode: Mode) -> Result<MPI_Request> {
    isend_on(&*world().comm(handle)?, message, handle, mode)
}

#[inline(always)]
fn isend_on(comm: &Comm, message: Message, handle: MPI_Comm, mode: Mode) -> Result<MPI_Request> {
    match message.send_now(comm, mode, |_, layer, _| MPI_Request(layer.requests.sent())) {
        Some(sent) => Ok(sent),
        None => isend_later(message, handle, mode),
    }
}

#[inline(never)]
fn isend_later(message: Message, handle: MPI_Comm, mode: Mode) -> Result<MPI_Request> {
    let comm = world().comm(handle)?;
    let (len, source) = message.source()?;
    let Some((to, envelope)) = target(&comm, message.rank, message.tag)? else {
        return ended(&comm, handle, Outcome::NOBODY);
    };
    comm.net.with(|endpoint, layer| {
        let sent = layer.tagged.send(endpoint, to, envelope, mode, len, source).map_err(send_error)?;
        Ok(MPI_Request(layer.requests.add_send(handle, sent)))
    })?
}

/// Sends a copy, which goes on by itself.
pub(crate) fn bsend(message: Message, handle: MPI_Comm) -> Result<()> {
    let comm = world().comm(handle)?;
    let buffer = message.buffer()?;
    let Some((to, envelope)) = target(&comm, message.rank, message.tag)? else { return Ok(()) };
    let copy = buffer.copy();
    comm.net.with(|endpoint, layer| {
        layer.requests.send_buffered(endpoint, &mut layer.tagged, (to, envelope), handle, copy)
    })?
}

/// [`bsend`] with a request, which has ended.
pub(crate) fn ibsend(message: Message, handle: MPI_Comm) -> Result<MPI_Request> {
    bsend(message, handle)?;
    ended(&world().comm(handle)?, handle, Outcome::NOBODY)
}

/// Receives and waits for the message.
#[inline(always)]
pub(crate) fn recv(message: Message, handle: MPI_Comm, status: Out<Status>) -> Result<()> {
    match lasting(handle) {
        Some(comm) => recv_on(comm, message, handle, status),
        None => recv_elsewhere(message, handle, status),
    }
}

/// The same on a communicator that takes a reference to be used.
#[inline(never)]
fn recv_elsewhere(message: Message, handle: MPI_Comm, status: Out<Status>) -> Result<()> {
    recv_on(&*world().comm(handle)?, message, handle, status)
}

#[inline(always)]
fn recv_on(comm: &Comm, message: Message, handle: MPI_Comm, status: Out<Status>) -> Result<()> {
    match message.receive_now(comm) {
        Some(len) => {
            status.fill(&Status::new(message.rank, message.tag, len));
            Ok(())
        }
        None => recv_later(message, handle, status),
    }
}

/// Receives a message that has come before others, or does not come soon.
#[inline(never)]
fn recv_later(message: Message, handle: MPI_Comm, status: Out<Status>) -> Result<()> {
    let comm = world().comm(handle)?;
    if let Some(received) = message.receive_pieces_now(&comm) {
        let got = comm.net.finish_receive(received)?;
        return tell(&comm, message.rank, &got, status);
    }
    if let Some(posted) = message.post_now(&comm, handle) {
        let got = comm.net.finish_receive(Received::Pending(posted))?;
        return tell(&comm, message.rank, &got, status);
    }
    let sink = message.sink()?;
    let Some(want) = wanted(&comm, message.rank, message.tag)? else {
        status.fill(&Outcome::from_proc_null().status);
        return Ok(());
    };
    let received = comm.net.start_receive(want, sink)?;
    let got = match received {
        Received::Pending(request) if want.from.is_none() => from_anybody(&comm, request)?,
        _ => comm.net.finish_receive(received)?,
    };
    tell(&comm, message.rank, &got, status)
}

/// What came of a receive from `rank`.
#[inline]
fn tell(comm: &CommRef, rank: i32, got: &tagged::Status, status: Out<Status>) -> Result<()> {
    if got.failure.is_none() {
        status.fill(&Status::new(source(comm, rank, got), got.tag, got.len));
        return Ok(());
    }
    told(outcome(Some(source(comm, rank, got)), got), status)
}

/// Starts a receive.
#[inline(always)]
pub(crate) fn irecv(message: Message, handle: MPI_Comm) -> Result<MPI_Request> {
    match lasting(handle) {
        Some(comm) => irecv_on(comm, message, handle),
        None => irecv_elsewhere(message, handle),
    }
}

/// The same on a communicator that takes a reference to be used.
#[inline(never)]
fn irecv_elsewhere(message: Message, handle: MPI_Comm) -> Result<MPI_Request> {
    irecv_on(&*world().comm(handle)?, message, handle)
}

#[inline(always)]
fn irecv_on(comm: &Comm, message: Message, handle: MPI_Comm) -> Result<MPI_Request> {
    match message.post_now(comm, handle) {
        Some(posted) => Ok(MPI_Request(plain_receive::handle(posted))),
        None => irecv_later(message, handle),
    }
}

#[inline(never)]
fn irecv_later(message: Message, handle: MPI_Comm) -> Result<MPI_Request> {
    let comm = world().comm(handle)?;
    let sink = message.sink()?;
    let Some(want) = wanted(&comm, message.rank, message.tag)? else {
        return ended(&comm, handle, Outcome::from_proc_null());
    };
    let partner = Partner::of(&comm, message.rank);
    comm.net.with(|endpoint, layer| {
        let received = layer.tagged.receive(endpoint, want, sink);
        let request = MPI_Request(layer.requests.add_receive(&mut layer.tagged, handle, partner, received));
        if want.from.is_none() {
            for &peer in &layer.lost {
                layer.requests.fail_wild(endpoint, &mut layer.tagged, peer);
            }
        }
        request
    })
}

/// Waits for a receive from anybody; the loss of one who could have sent ends it.
#[cold]
fn from_anybody(comm: &CommRef, request: tagged::Request) -> Result<tagged::Status> {
    let mut gone = None;
    comm.net.wait("a message from anybody", |layer| {
        gone = lost_member(layer, comm);
        layer.tagged.is_done(request) || gone.is_some()
    })?;
    comm.net.with(|endpoint, layer| {
        let withdrawn = !layer.tagged.is_done(request) && layer.tagged.cancel(endpoint, request);
        if withdrawn {
            layer.tagged.take(request);
        }
        match gone {
            Some(peer) if withdrawn => Err(send_error(SendError::Lost(peer))),
            _ => Ok(()),
        }
    })??;
    comm.net.finish_receive(Received::Pending(request))
}

/// A process that is gone and could have sent what is wanted.
fn missing(layer: &Layer, comm: &CommRef, want: &Want) -> Option<Peer> {
    match want.from {
        Some(from) => layer.lost.contains(&from).then_some(from),
        None => lost_member(layer, comm),
    }
}

/// A process of a communicator that is gone.
fn lost_member(layer: &Layer, comm: &CommRef) -> Option<Peer> {
    layer.lost.iter().copied().find(|peer| comm.has(*peer))
}

/// Sends one message while receiving another.
pub(crate) fn sendrecv(out: Message, into: Message, handle: MPI_Comm, status: Out<Status>) -> Result<()> {
    let comm = world().comm(handle)?;
    // What can go at once need not wait for the receive to be posted; but both have to make sense.
    if into.plainly(&comm).is_some() {
        match out.send_now(&comm, Mode::Standard, |endpoint, _, to| endpoint.flush_to(to)) {
            Some(true) => return recv_on(&comm, into, handle, status),
            Some(false) => {
                pass_on(out, handle)?;
                return recv_on(&comm, into, handle, status);
            }
            None => {}
        }
    }
    let buffer = out.buffer()?;
    exchange(out, buffer.source(), into, handle, status)
}

/// Sends what a buffer holds while another message replaces it.
pub(crate) fn sendrecv_replace(
    out: Message,
    into: Message,
    handle: MPI_Comm,
    status: Out<Status>,
) -> Result<()> {
    let copy = out.buffer()?.copy();
    exchange(out, copy, into, handle, status)
}

fn exchange(
    out: Message,
    source_of_out: (u64, tagged::Source),
    into: Message,
    handle: MPI_Comm,
    status: Out<Status>,
) -> Result<()> {
    let comm = world().comm(handle)?;
    let sink = into.buffer()?.sink();
    let (to, want) = (target(&comm, out.rank, out.tag)?, wanted(&comm, into.rank, into.tag)?);
    let received = want.map(|want| comm.net.start_receive(want, sink)).transpose()?;
    let sent = to
        .map(|(to, envelope)| comm.net.start_send(to, envelope, Mode::Standard, source_of_out))
        .transpose()?;
    sent.map(|sent| comm.net.finish_send(sent)).transpose()?;
    match received {
        Some(received) => {
            let got = comm.net.finish_receive(received)?;
            told(outcome(Some(source(&comm, into.rank, &got)), &got), status)
        }
        None => told(Outcome::from_proc_null(), status),
    }
}

/// Waits for a message and says what it is.
pub(crate) fn probe(rank: i32, tag: i32, comm: MPI_Comm) -> Result<Status> {
    let comm = world().comm(comm)?;
    let Some(want) = wanted(&comm, rank, tag)? else { return Ok(Outcome::from_proc_null().status) };
    let mut found = None;
    let mut gone = None;
    comm.net.wait("a message to probe", |layer| {
        found = layer.tagged.probe(&want);
        gone = missing(layer, &comm, &want);
        found.is_some() || gone.is_some()
    })?;
    found
        .map(|found| seen(&comm, &found))
        .ok_or_else(|| send_error(SendError::Lost(gone.unwrap_or(Peer(u32::MAX)))))
}

/// Says what message is there, if any.
pub(crate) fn iprobe(rank: i32, tag: i32, comm: MPI_Comm) -> Result<Option<Status>> {
    let comm = world().comm(comm)?;
    let Some(want) = wanted(&comm, rank, tag)? else { return Ok(Some(Outcome::from_proc_null().status)) };
    comm.net.poll()?;
    let (found, gone) =
        comm.net.with(|_, layer| (layer.tagged.probe(&want), missing(layer, &comm, &want)))?;
    match (found, gone) {
        (None, Some(peer)) => Err(send_error(SendError::Lost(peer))),
        (found, _) => Ok(found.map(|found| seen(&comm, &found))),
    }
}

/// The handle of the message of nobody.
const NO_PROC: MPI_Message = MPI_Message(0x129);

/// Takes a message out of the matching; waits for it if `waits`.
pub(crate) fn mprobe(
    rank: i32,
    tag: i32,
    handle: MPI_Comm,
    waits: bool,
) -> Result<Option<(MPI_Message, Status)>> {
    let comm = world().comm(handle)?;
    let Some(want) = wanted(&comm, rank, tag)? else {
        return Ok(Some((NO_PROC, Outcome::from_proc_null().status)));
    };
    let (mut found, mut gone) = (None, None);
    if waits {
        comm.net.wait("a message to probe", |layer| {
            found = layer.tagged.claim(&want);
            gone = missing(layer, &comm, &want);
            found.is_some() || gone.is_some()
        })?;
    } else {
        comm.net.poll()?;
        (found, gone) =
            comm.net.with(|_, layer| (layer.tagged.claim(&want), missing(layer, &comm, &want)))?;
    }
    if let (None, Some(peer)) = (&found, gone) {
        return Err(send_error(SendError::Lost(peer)));
    }
    let Some(matched) = found else { return Ok(None) };
    let status = seen(&comm, &matched.status());
    let partner = Partner::Rank(status.source);
    let message = comm.net.with(|_, layer| layer.requests.messages.insert((matched, partner, handle)))?;
    Ok(Some((MPI_Message(message), status)))
}

/// Starts receiving a message that was taken out of the matching.
pub(crate) fn imrecv(
    memory: Memory,
    count: i64,
    datatype: MPI_Datatype,
    message: Out<MPI_Message>,
) -> Result<MPI_Request> {
    let anyone = anyone()?;
    let buffer = Buffer::new(memory, count, datatype)?;
    let handle = message.get()?;
    let request = if handle == NO_PROC {
        ended(&anyone, MPI_Comm(0x101), Outcome::from_proc_null())?
    } else {
        anyone.net.with(|endpoint, layer| {
            let found = layer.requests.messages.remove(handle.0);
            let (matched, partner, comm) = found
                .ok_or_else(|| bad(Class::Request, "MPI_MESSAGE_NULL", handle.0, MPI_Message::NULL.0))?;
            let received = layer.tagged.receive_matched(endpoint, matched, buffer.sink());
            Ok::<_, Error>(MPI_Request(layer.requests.add_receive(
                &mut layer.tagged,
                comm,
                partner,
                received,
            )))
        })??
    };
    message.put(MPI_Message::NULL)?;
    Ok(request)
}

/// Waits for a request and tells its outcome; for calls that make a request only to wait for it.
pub(crate) fn wait_for(request: MPI_Request, status: Out<Status>) -> Result<(), Fault> {
    let anyone = anyone()?;
    let handle = request.0;
    anyone.net.wait("a request", |layer| layer.requests.is_done(&layer.tagged, handle))?;
    let completion = anyone.net.with(|_, layer| layer.requests.complete(&mut layer.tagged, handle))??;
    status.fill(&completion.outcome.status);
    match completion.outcome.error {
        Some(error) => Err(Fault::Of(completion.comm.into(), error)),
        None => Ok(()),
    }
}

/// How a persistent send goes.
#[derive(Clone, Copy)]
pub(crate) enum Planned {
    /// From the program's memory.
    Direct(Mode),
    /// From a copy.
    Buffered,
}

/// A persistent send.
pub(crate) fn send_init(message: Message, handle: MPI_Comm, how: Planned) -> Result<MPI_Request> {
    let comm = world().comm(handle)?;
    let buffer = message.buffer()?;
    let way = match (target(&comm, message.rank, message.tag)?, how) {
        (None, _) => Way::Nothing,
        (Some((to, envelope)), Planned::Direct(mode)) => Way::Send(to, envelope, mode),
        (Some((to, envelope)), Planned::Buffered) => Way::Buffered(to, envelope),
    };
    let plan = Plan::Message(buffer, way);
    comm.net.with(|_, layer| MPI_Request(layer.requests.add_plan(handle, Partner::Receiver, plan)))
}

/// A persistent receive.
pub(crate) fn recv_init(message: Message, handle: MPI_Comm) -> Result<MPI_Request> {
    let comm = world().comm(handle)?;
    let buffer = message.buffer()?;
    let way = wanted(&comm, message.rank, message.tag)?.map_or(Way::Nothing, Way::Receive);
    let (partner, plan) = (Partner::of(&comm, message.rank), Plan::Message(buffer, way));
    comm.net.with(|_, layer| MPI_Request(layer.requests.add_plan(handle, partner, plan)))
}

/// Tags of messages in parts lie above those of collective calls, whose context they have.
const PARTITIONED: i32 = 1 << 30;

/// A send, or a receive, of a message in parts.
pub(crate) fn parts_init(message: Message, parts: i32, handle: MPI_Comm, sends: bool) -> Result<MPI_Request> {
    let comm = world().comm(handle)?;
    if message.rank == ANY_SOURCE {
        return Err(Error::new(Class::Rank, "a message in parts is from one process"));
    }
    if message.tag < 0 {
        return Err(Error::new(Class::Tag, format!("tag is {}", message.tag)));
    }
    let count = usize::try_from(parts).ok().filter(|_| message.count >= 0);
    let count = count
        .ok_or_else(|| Error::new(Class::Count, format!("there are {parts} parts of {}", message.count)))?;
    let whole = message.count.checked_mul(parts.into());
    let whole = whole.ok_or_else(|| Error::new(Class::Count, "the parts do not fit in 64 bits"))?;
    let buffer = Message { count: whole, ..message }.buffer()?;
    let context = comm.collective_context();
    let way = if sends {
        let to = target(&comm, message.rank, message.tag)?;
        let envelope = Envelope { context, tag: message.tag + PARTITIONED };
        to.map_or(Way::Nothing, |(to, _)| Way::Send(to, envelope, Mode::Standard))
    } else {
        let want = wanted(&comm, message.rank, message.tag)?;
        want.map_or(Way::Nothing, |want| {
            Way::Receive(Want { context, tag: want.tag.map(|tag| tag + PARTITIONED), ..want })
        })
    };
    let plan = Plan::Parts(buffer, way, vec![false; count]);
    comm.net.with(|_, layer| MPI_Request(layer.requests.add_plan(handle, Partner::Receiver, plan)))
}

/// Gives the library memory for buffered sends; copies are kept elsewhere, only its size counts. `owner` is the handle of what it
/// is attached to, 0 for the job.
pub(crate) fn attach(owner: usize, memory: Memory, size: i64) -> Result<()> {
    let bytes = u64::try_from(size).map_err(|_| Error::new(Class::Arg, format!("size is {size}")))?;
    anyone()?.net.with(|_, layer| {
        if layer.requests.attached.contains_key(&owner) {
            return Err(Error::new(Class::Buffer, "a buffer is attached already"));
        }
        let limit = if memory.address() == AUTOMATIC { u64::MAX } else { bytes };
        layer.requests.attached.insert(owner, (memory.address(), limit));
        Ok(())
    })?
}

/// The standard's `MPI_BUFFER_AUTOMATIC`.
const AUTOMATIC: usize = 2;

/// Waits until all buffered sends have left.
pub(crate) fn flush() -> Result<()> {
    anyone()?.net.wait("buffered sends", |layer| layer.requests.none_left_behind(&mut layer.tagged))
}

/// [`flush`] with a request.
pub(crate) fn iflush() -> Result<MPI_Request> {
    let comm = anyone()?;
    let net = comm.net.clone();
    task(&comm, MPI_Comm(0x102), async move {
        Until(&net, Need { what: Event::Flushed, lost: usize::MAX }).await;
        Outcome::NOBODY
    })
}

/// Takes the memory for buffered sends back: its address and size.
pub(crate) fn detach(owner: usize) -> Result<(usize, i64)> {
    flush()?;
    let attached = anyone()?.net.with(|_, layer| layer.requests.attached.remove(&owner))?;
    let (address, size) = attached.ok_or_else(|| Error::new(Class::Buffer, "no buffer is attached"))?;
    Ok((address, if size == u64::MAX { 0 } else { size as i64 }))
}

/// Sends one message while receiving another, with one request for both.
pub(crate) fn isendrecv(
    out: Message,
    into: Message,
    handle: MPI_Comm,
    replaces: bool,
) -> Result<MPI_Request> {
    let buffer = out.buffer()?;
    let from = if replaces { buffer.copy() } else { buffer.source() };
    let comm = world().comm(handle)?;
    let sink = into.buffer()?.sink();
    let (to, want) = (target(&comm, out.rank, out.tag)?, wanted(&comm, into.rank, into.tag)?);
    let received = want.map(|want| comm.net.start_receive(want, sink)).transpose()?;
    let sent =
        to.map(|(to, envelope)| comm.net.start_send(to, envelope, Mode::Standard, from)).transpose()?;
    let (net, partner) = (comm.net.clone(), Partner::of(&comm, into.rank));
    task(&comm, handle, async move {
        let sent = match sent {
            Some(Sent::Pending(request)) => end(&net, request).await.map(|status| outcome(None, &status)),
            _ => Ok(Outcome::NOBODY),
        };
        let received = match received {
            Some(Received::Pending(request)) => {
                end(&net, request).await.map(|status| partner.outcome(&status))
            }
            Some(Received::Done(status)) => Ok(partner.outcome(&status)),
            None => Ok(Outcome::from_proc_null()),
        };
        match (sent, received) {
            (Err(error), _) | (Ok(Outcome { error: Some(error), .. }), _) | (_, Err(error)) => {
                Outcome { status: Status::EMPTY, error: Some(error) }
            }
            (_, Ok(outcome)) => outcome,
        }
    })
}

/// Waits for the end of a send or receive, within a task.
pub(crate) async fn end(net: &Net, request: tagged::Request) -> Result<tagged::Status> {
    Until(net, Need { what: Event::End(request), lost: usize::MAX }).await;
    let status = net.with(|_, layer| layer.tagged.take(request))?;
    status.ok_or_else(|| Error::new(Class::Intern, "a request ended twice"))
}

/// A request for a task that begins now.
pub(crate) fn task(
    comm: &CommRef,
    handle: MPI_Comm,
    steps: impl Future<Output = Outcome> + Send + 'static,
) -> Result<MPI_Request> {
    let task = comm.net.tasks.add(Box::pin(steps));
    let request = comm.net.with(|_, layer| layer.requests.add_task(handle, task))?;
    comm.net.tasks.run(&comm.net);
    Ok(MPI_Request(request))
}

fn ended(comm: &CommRef, handle: MPI_Comm, outcome: Outcome) -> Result<MPI_Request> {
    comm.net.with(|_, layer| MPI_Request(layer.requests.add_ended(handle, outcome)))
}

#[inline]
fn source(comm: &CommRef, asked: i32, got: &tagged::Status) -> i32 {
    if asked == ANY_SOURCE { rank_of(comm, got.from) } else { asked }
}

fn seen(comm: &CommRef, found: &tagged::Status) -> Status {
    Status::new(rank_of(comm, found.from), found.tag, found.len)
}

#[inline]
fn told(outcome: Outcome, status: Out<Status>) -> Result<()> {
    status.fill(&outcome.status);
    outcome.error.map_or(Ok(()), Err)
}
