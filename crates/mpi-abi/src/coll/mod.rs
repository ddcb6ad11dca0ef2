//! Collective calls: algorithms over messages in a context of their own.
//!
//! Every call takes the next tag of its communicator, so calls cannot mix whatever the speed of their ranks. [`Job`] says what
//! a call is to do and is the one place that chooses how; `tree` has the algorithms that follow a tree, `all` those in which
//! everybody gets something from everybody, `prefix` the scans, `inter` those between two groups, `near` those between
//! neighbours; `board` does blocking calls with little data in memory that all ranks have in common, and `quick`
//! the simplest of them. Algorithms are `async`: a blocking call waits where it stands, any other becomes a task.

mod all;
mod alltoall;
pub(crate) mod board;
pub(crate) mod entry;
mod inter;
mod near;
mod parts;
mod places;
mod prefix;
pub(crate) mod quick;
mod reducer;
mod shares;
mod tree;

pub(crate) use inter::agree;
pub(crate) use near::Edges;
pub(crate) use reducer::Reducer;

use crate::boundary::{MPI_Comm, MPI_Datatype, MPI_Info, MPI_Request, Memory, Out, Scratch};
use crate::message::{Partner, sink, source, truncated};
use crate::object::{Comm, TypeRef};
use crate::request::Plan;
use crate::shim::pack::usable;
use crate::task::{Event, Need, Steps, Until, at_once};
use crate::transport::send_error;
use crate::world::world;
use barewire::core::tagged::{Envelope, Failure, Mode, Received, Request, Sent, Status, Want};
use barewire::core::{Peer, SendError};
use barewire::mpi::datatype::{Basic, Datatype};
use barewire::mpi::error::{Class, Error, Result};
use barewire_sys::wirebuf::{WireMut, WireRef};
use std::sync::Arc;

/// What a collective call does, with all it needs to do it; it can be done several times.
pub(crate) enum Job {
    /// Nothing: others do it.
    Nothing,
    /// Wait for everybody.
    Barrier,
    /// The root's data to everybody.
    Bcast(Data, Root),
    /// Everybody's data to the root; none where it is in place already.
    Gather(Option<Data>, Vec<Data>, Root),
    /// From the root to everybody its part; nowhere where it is to stay in place.
    Scatter(Vec<Data>, Option<Data>, Root),
    /// Everybody's data to everybody; none where it is in place already.
    Allgather(Option<Data>, Vec<Data>),
    /// From everybody to everybody its part; none where what comes replaces it.
    Alltoall(Option<Vec<Data>>, Vec<Data>),
    /// Everybody's data combined at the root.
    Reduce(Operation, Root),
    /// Everybody's data combined, for everybody.
    Allreduce(Operation),
    /// Everybody's data combined, each rank getting so many elements of it.
    ReduceScatter(Operation, Vec<i64>),
    /// The combination of the ranks up to this one.
    Scan(Operation),
    /// The combination of the ranks before this one.
    Exscan(Operation),
    /// To every neighbour its part, and from each its part.
    Near(Edges, Vec<Data>, Vec<Data>),
}

/// What is combined, by what, and where it goes.
pub(crate) struct Operation {
    /// The operation.
    pub reducer: Reducer,
    /// This rank's data.
    pub mine: Data,
    /// Where the result goes.
    pub into: Data,
}

/// Who gives or gets it all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// A rank; of the other group, on an intercommunicator.
    Rank(usize),
    /// This process, on an intercommunicator.
    Me,
    /// Somebody else of this process's group, on an intercommunicator.
    Neighbour,
}

impl Job {
    /// Does it: the table of algorithms.
    pub async fn run(&self, call: &Call) -> Result<()> {
        if call.comm.remote().is_some() {
            return inter::run(self, call).await;
        }
        match self {
            Job::Nothing => Ok(()),
            Job::Barrier => tree::barrier(call).await,
            Job::Bcast(data, root) => tree::bcast(call, data, root.rank()?).await,
            Job::Gather(mine, places, root) => tree::gather(call, mine.as_ref(), places, root.rank()?).await,
            Job::Scatter(parts, mine, root) => tree::scatter(call, parts, mine.as_ref(), root.rank()?).await,
            Job::Allgather(mine, places) => all::allgather(call, mine.as_ref(), places).await,
            Job::Alltoall(Some(parts), places) => all::alltoall(call, parts, places).await,
            Job::Alltoall(None, places) => all::alltoall_in_place(call, places).await,
            Job::Reduce(op, root) => tree::reduce(call, &op.reducer, &op.mine, &op.into, root.rank()?).await,
            Job::Allreduce(op) => {
                op.mine.copy_to(&op.into)?;
                tree::allreduce(call, &op.reducer, &op.into).await
            }
            Job::ReduceScatter(op, counts) => {
                all::reduce_scatter(call, &op.reducer, &op.mine, &op.into, counts).await
            }
            Job::Scan(op) => {
                op.mine.copy_to(&op.into)?;
                prefix::scan(call, &op.reducer, &op.into).await
            }
            Job::Exscan(op) => prefix::exscan(call, &op.reducer, &op.mine, &op.into).await,
            Job::Near(edges, parts, places) => near::exchange(call, edges, parts, places).await,
        }
    }
}

impl Job {
    /// Does it while the program waits.
    pub(crate) async fn run_now(&self, call: &Call) -> Result<()> {
        if call.comm.remote().is_none() {
            if let Some(board) = board::of(call)? {
                if let Some(done) = board.run(call, self).await {
                    return done;
                }
            }
        }
        self.run(call).await
    }
}

impl Root {
    fn rank(self) -> Result<usize> {
        match self {
            Root::Rank(rank) => Ok(rank),
            _ => Err(Error::new(Class::Root, "the root has to be a rank")),
        }
    }
}

/// Whether a rank had better send so many bytes to all others than put them on a board, because they fetch it.
fn goes_by_messages(comm: &Comm, len: usize) -> bool {
    let is_fetched = |to| comm.net.is_fetched(comm.peer(to), len);
    (0..comm.group.size()).filter(|&to| to != comm.rank).all(is_fetched)
}

/// When a call is done.
pub(crate) enum How {
    /// Before it returns.
    Now,
    /// Beginning at once; the request ends when it is done.
    Later(Out<MPI_Request>),
    /// Each time the request is started.
    Again(MPI_Info, Out<MPI_Request>),
}

impl How {
    /// Does a call the short way, if it is to be done before it returns.
    #[inline(always)]
    pub fn at_once(&self, quick: impl FnOnce() -> Option<Result<()>>) -> Option<Result<()>> {
        match self {
            How::Now => quick(),
            How::Later(_) | How::Again(..) => None,
        }
    }

    /// Does a job on a communicator.
    pub fn run(self, handle: MPI_Comm, job: Job) -> Result<()> {
        let comm = world().comm(handle)?;
        let tag = if matches!(self, How::Now) { comm.next_tag() } else { comm.next_later_tag() };
        let call = |waits| Call { comm: comm.shared().clone(), tag, waits, within: false };
        let net = &comm.net;
        let (given, request) = match self {
            How::Now => {
                let done = at_once(job.run_now(&call(true)));
                return done
                    .unwrap_or_else(|| Err(Error::new(Class::Intern, "a blocking call did not wait")));
            }
            How::Later(request) => {
                let call = call(false);
                let task = net.tasks.add(Box::pin(async move { job.run(&call).await.into() }));
                (net.with(|_, layer| layer.requests.add_task(handle, task))?, request)
            }
            How::Again(info, request) => {
                world().hints(info)?;
                let (call, job) = (Arc::new(call(false)), Arc::new(job));
                let again = move || -> Steps {
                    let (call, job) = (call.clone(), job.clone());
                    Box::pin(async move { job.run(&call).await.into() })
                };
                let plan = Plan::Steps(Arc::new(again));
                (net.with(|_, layer| layer.requests.add_plan(handle, Partner::Receiver, plan))?, request)
            }
        };
        net.tasks.run(net);
        request.put(MPI_Request(given))
    }
}

/// One collective call.
#[derive(Clone)]
pub(crate) struct Call {
    comm: Arc<Comm>,
    tag: i32,
    /// Its steps wait where they stand.
    waits: bool,
    /// On an intercommunicator: between the processes of the own group.
    within: bool,
}

/// Elements at an address, which have been checked.
#[derive(Clone)]
pub(crate) struct Data {
    memory: Memory,
    count: i64,
    datatype: Datatype,
}

/// A message on its way in one of the two directions.
enum Pending {
    Out(Sent),
    In(Received),
    Failed(Error),
}

impl Call {
    /// A call on a communicator that has no handle, or not yet.
    pub fn on(comm: &Arc<Comm>, tag: i32, waits: bool) -> Call {
        Call { comm: comm.clone(), tag, waits, within: false }
    }

    /// This process's rank.
    pub fn rank(&self) -> usize {
        self.comm.rank
    }

    /// The number of processes in the own group.
    pub fn size(&self) -> usize {
        self.comm.group.size()
    }

    /// The same call between the processes of the own group.
    fn within(&self) -> Call {
        Call { within: true, ..self.clone() }
    }

    fn peer(&self, rank: usize) -> Peer {
        let group = if self.within { &self.comm.group } else { self.comm.partners() };
        Peer(group.members()[rank].0)
    }

    fn start_send(&self, to: usize, data: &Data) -> Pending {
        let envelope = Envelope { context: self.comm.collective_context(), tag: self.tag };
        let source = source(data.memory, data.count, &data.datatype);
        let sent = self.comm.net.start_send(self.peer(to), envelope, Mode::Standard, source);
        sent.map_or_else(Pending::Failed, Pending::Out)
    }

    /// Whether what is sent to a rank is fetched.
    fn is_fetched(&self, to: usize, len: usize) -> bool {
        self.comm.net.is_fetched(self.peer(to), len)
    }

    fn start_receive(&self, from: usize, data: &Data) -> Pending {
        let context = self.comm.collective_context();
        let want = Want { context, from: Some(self.peer(from)), tag: Some(self.tag) };
        let sink = sink(data.memory, data.count, &data.datatype);
        self.comm.net.start_receive(want, sink).map_or_else(Pending::Failed, Pending::In)
    }

    async fn finish(&self, pending: Pending) -> Result<()> {
        let status = match pending {
            Pending::Failed(error) => return Err(error),
            Pending::Out(Sent::Done) => return Ok(()),
            Pending::In(Received::Done(status)) => status,
            Pending::Out(Sent::Pending(request)) | Pending::In(Received::Pending(request)) => {
                self.end(request).await?
            }
        };
        match status.failure {
            None => Ok(()),
            Some(Failure::Lost(peer)) => Err(send_error(SendError::Lost(peer))),
            Some(Failure::Truncated { over }) => Err(truncated(over)),
            Some(failure) => Err(Error::new(Class::Other, failure.to_string())),
        }
    }

    /// Waits for the end of a send or receive. The loss of any member ends the call: whoever it was that we hear from next
    /// may have been waiting for it.
    async fn end(&self, request: Request) -> Result<Status> {
        let net = &self.comm.net;
        let mut lost = 0;
        loop {
            let need = Need { what: Event::End(request), lost };
            if self.waits {
                net.wait("a collective call", |layer| need.is_met(layer))?;
            } else {
                Until(net, need).await;
            }
            if let Some(status) = net.with(|_, layer| layer.tagged.take(request))? {
                return Ok(status);
            }
            let (now, member) = net.with(|_, layer| {
                let member = layer.lost[lost..].iter().copied().find(|peer| self.comm.has(*peer));
                (layer.lost.len(), member)
            })?;
            lost = now;
            if let Some(peer) = member {
                // The buffer is the program's again once this returns.
                net.with(|endpoint, layer| layer.tagged.cancel(endpoint, request))?;
                let need = Need { what: Event::End(request), lost: usize::MAX };
                if self.waits {
                    net.wait("a call that lost a member", |layer| need.is_met(layer))?;
                } else {
                    Until(net, need).await;
                }
                net.with(|_, layer| layer.tagged.take(request))?;
                return Err(send_error(SendError::Lost(peer)));
            }
        }
    }

    async fn send(&self, to: usize, data: &Data) -> Result<()> {
        self.finish(self.start_send(to, data)).await
    }

    async fn receive(&self, from: usize, data: &Data) -> Result<()> {
        self.finish(self.start_receive(from, data)).await
    }

    /// Sends to one rank while receiving from another.
    async fn exchange(&self, to: usize, out: &Data, from: usize, into: &Data) -> Result<()> {
        let received = self.start_receive(from, into);
        let sent = self.start_send(to, out);
        let (sent, received) = (self.finish(sent).await, self.finish(received).await);
        sent.and(received)
    }

    /// Waits for all; tells the first failure when all have ended.
    async fn finish_all(&self, pending: Vec<Pending>) -> Result<()> {
        let mut outcome = Ok(());
        for one in pending {
            let ended = self.finish(one).await;
            if outcome.is_ok() {
                outcome = ended;
            }
        }
        outcome
    }
}

impl Data {
    /// What the program's arguments describe.
    pub fn new(memory: Memory, count: i64, datatype: MPI_Datatype) -> Result<Data> {
        Ok(Data::of(memory, count, &usable(datatype, memory, count)?))
    }

    /// Elements of a datatype that is known to be usable.
    pub fn of(memory: Memory, count: i64, object: &TypeRef) -> Data {
        Data { memory, count, datatype: object.datatype.clone() }
    }

    /// No data.
    pub fn none() -> Data {
        Data { memory: Scratch::new(0).memory(), count: 0, datatype: Basic::Byte.into() }
    }

    /// Bytes of data.
    pub(crate) fn len(&self) -> usize {
        (self.count * self.datatype.size()) as usize
    }

    /// The address of its first byte; the datatype alone may say it, as with `MPI_BOTTOM`.
    pub(crate) fn start(&self) -> usize {
        self.memory.moved(self.datatype.true_lower_bound()).address()
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `count` elements from element `first` on.
    fn part(&self, first: i64, count: i64) -> Data {
        let memory = self.memory.moved(first.wrapping_mul(self.datatype.extent()));
        Data { memory, count, datatype: self.datatype.clone() }
    }

    /// Copies to another place, as a message would; data that is already there is left alone.
    fn copy_to(&self, to: &Data) -> Result<()> {
        if self.memory.address() == to.memory.address() && self.start() == to.start() {
            return Ok(());
        }
        if self.len() > to.len() {
            let what = format!("{} bytes do not fit a buffer of {}", self.len(), to.len());
            return Err(Error::new(Class::Truncate, what));
        }
        let (mut place, len) = (to.memory, self.len());
        match self.datatype.contiguous_run(self.count) {
            Some((offset, _)) => {
                let from = self.memory.moved(offset);
                to.datatype.unpack(to.count, &mut place, 0, from.bytes(0, len)?);
            }
            None => {
                let packed = self.packed()?;
                to.datatype.unpack(to.count, &mut place, 0, packed.memory().bytes(0, len)?);
            }
        }
        Ok(())
    }

    /// Copies to another place that others may look at meanwhile, as a message would.
    pub(crate) fn carry_to(&self, to: &Data) -> Result<()> {
        match self.datatype.contiguous_run(self.count) {
            Some((offset, _)) => {
                let bytes = self.memory.user(offset, self.len());
                bytes.wire_ref(0, self.len()).map_or(Ok(()), |mut bytes| to.take(&mut bytes))
            }
            None => to.take_bytes(self.packed()?.memory().bytes(0, self.len())?),
        }
    }

    /// Takes bytes as a message would.
    pub(crate) fn take_bytes(&self, bytes: &[u8]) -> Result<()> {
        self.take(&mut WireRef::new(bytes))
    }

    /// Writes bytes from `offset` of the packed data on until `wire` is full.
    fn write_to(&self, offset: i64, wire: &mut WireMut<'_>) {
        let memory = self.memory;
        let mut write = |at, len: i64| {
            if let Some(mut bytes) = memory.user(at, len as usize).wire_ref(0, len as usize) {
                wire.write_from(&mut bytes);
            }
        };
        match self.datatype.contiguous_run(self.count) {
            Some((start, len)) => write(start + offset, len - offset),
            None => {
                let take = self.len() as i64 - offset;
                self.datatype.runs(self.count, offset, take, write);
            }
        }
    }

    /// Takes bytes as a message would: as far as they fit, and it is an error if they do not.
    fn take(&self, bytes: &mut WireRef<'_>) -> Result<()> {
        self.take_at(0, bytes)
    }

    /// The same for those from `offset` of the packed data on.
    fn take_at(&self, offset: i64, bytes: &mut WireRef<'_>) -> Result<()> {
        let (memory, came) = (self.memory, bytes.remaining());
        let room = self.len().saturating_sub(offset as usize);
        let take = came.min(room) as i64;
        let mut read = |at, len: i64| {
            if let Some(mut place) = memory.user(at, len as usize).wire_mut(0, len as usize) {
                place.take_from(bytes);
            }
        };
        match self.datatype.contiguous_run(self.count) {
            Some((start, _)) => read(start + offset, take),
            None => self.datatype.runs(self.count, offset, take, read),
        }
        match came.checked_sub(room) {
            None | Some(0) => Ok(()),
            Some(over) => Err(Data::too_long(over)),
        }
    }

    /// More came than there is room for.
    #[cold]
    fn too_long(over: usize) -> Error {
        truncated(over as u64)
    }

    /// Bytes of a scratch area.
    pub fn bytes(scratch: &Scratch, len: usize) -> Data {
        Data { memory: scratch.memory(), count: len as i64, datatype: Basic::Byte.into() }
    }

    /// A packed copy.
    pub fn packed(&self) -> Result<Scratch> {
        let packed = Scratch::new(self.len());
        self.datatype.pack(self.count, &self.memory, 0, packed.memory().bytes_mut(0, self.len())?);
        Ok(packed)
    }
}
