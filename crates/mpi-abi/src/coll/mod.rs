//! Collective calls: algorithms over messages in a context of their own.
//!
//! Every call takes the next tag of its communicator, so calls cannot mix whatever the speed of their ranks. `tree` has those
//! that follow a tree, `all` those in which everybody gets something from everybody, `prefix` the scans.

mod all;
pub mod entry;
mod prefix;
mod reducer;
mod tree;

pub use all::{allgather, alltoall, reduce_scatter};
pub use prefix::{exscan, scan};
pub use reducer::Reducer;
pub use tree::{allreduce, barrier, bcast, gather, reduce, scatter};

use crate::boundary::{MPI_Comm, MPI_Datatype, Memory, Scratch};
use crate::message::{sink, source};
use crate::object::{CommRef, TypeRef};
use crate::shim::pack::usable;
use crate::world::world;
use barewire::core::Peer;
use barewire::core::tagged::{Envelope, Failure, Mode, Received, Sent, Want};
use barewire::mpi::datatype::{Basic, Datatype};
use barewire::mpi::error::{Class, Error, Result};

/// One collective call.
pub struct Call {
    comm: CommRef,
    tag: i32,
}

/// Elements at an address, which have been checked.
#[derive(Clone)]
pub struct Data {
    memory: Memory,
    count: i64,
    datatype: Datatype,
}

/// A message on its way in one of the two directions.
enum Pending {
    Out(Sent),
    In(Received),
}

impl Call {
    /// Begins a call on a communicator.
    pub fn begin(handle: MPI_Comm) -> Result<Call> {
        let comm = world().comm(handle)?;
        if comm.remote.is_some() {
            let what = "collective calls on intercommunicators are not part of this version of Barewire";
            return Err(Error::new(Class::UnsupportedOperation, what));
        }
        let tag = comm.next_tag();
        Ok(Call { comm, tag })
    }

    /// This process's rank.
    pub fn rank(&self) -> usize {
        self.comm.rank
    }

    /// The number of processes.
    pub fn size(&self) -> usize {
        self.comm.group.size()
    }

    /// A root's rank, if it is one.
    pub fn root(&self, root: i32) -> Result<usize> {
        let found = usize::try_from(root).ok().filter(|root| *root < self.size());
        found.ok_or_else(|| Error::new(Class::Root, format!("root is {root} of {} ranks", self.size())))
    }

    fn peer(&self, rank: usize) -> Peer {
        self.comm.peer(rank)
    }

    fn start_send(&self, to: usize, data: &Data) -> Result<Pending> {
        let envelope = Envelope { context: self.comm.collective_context(), tag: self.tag };
        let source = source(data.memory, data.count, &data.datatype);
        self.comm.net.start_send(self.peer(to), envelope, Mode::Standard, source).map(Pending::Out)
    }

    fn start_receive(&self, from: usize, data: &Data) -> Result<Pending> {
        let context = self.comm.collective_context();
        let want = Want { context, from: Some(self.peer(from)), tag: Some(self.tag) };
        let sink = sink(data.memory, data.count, &data.datatype);
        self.comm.net.start_receive(want, sink).map(Pending::In)
    }

    fn finish(&self, pending: Pending) -> Result<()> {
        match pending {
            Pending::Out(sent) => self.comm.net.finish_send(sent),
            Pending::In(received) => match self.comm.net.finish_receive(received)?.failure {
                Some(failure @ Failure::Truncated { .. }) => {
                    Err(Error::new(Class::Truncate, failure.to_string()))
                }
                _ => Ok(()),
            },
        }
    }

    fn send(&self, to: usize, data: &Data) -> Result<()> {
        let sent = self.start_send(to, data)?;
        self.finish(sent)
    }

    fn receive(&self, from: usize, data: &Data) -> Result<()> {
        let received = self.start_receive(from, data)?;
        self.finish(received)
    }

    /// Sends to one rank while receiving from another.
    fn exchange(&self, to: usize, out: &Data, from: usize, into: &Data) -> Result<()> {
        let received = self.start_receive(from, into)?;
        let sent = self.start_send(to, out)?;
        self.finish(sent)?;
        self.finish(received)
    }

    /// Waits for all; tells the first failure when all have ended.
    fn finish_all(&self, pending: Vec<Pending>) -> Result<()> {
        let outcomes: Vec<Result<()>> = pending.into_iter().map(|one| self.finish(one)).collect();
        outcomes.into_iter().collect()
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
    fn none() -> Data {
        Data { memory: Scratch::new(0).memory(), count: 0, datatype: Basic::Byte.into() }
    }

    /// Bytes of data.
    fn len(&self) -> usize {
        (self.count * self.datatype.size()) as usize
    }

    /// `count` elements from element `first` on.
    fn part(&self, first: i64, count: i64) -> Data {
        let memory = self.memory.moved(first.wrapping_mul(self.datatype.extent()));
        Data { memory, count, datatype: self.datatype.clone() }
    }

    /// Copies to another place, as a message would; data that is already there is left alone.
    fn copy_to(&self, to: &Data) -> Result<()> {
        if self.memory.address() == to.memory.address() {
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

    /// A packed copy.
    fn packed(&self) -> Result<Scratch> {
        let packed = Scratch::new(self.len());
        self.datatype.pack(self.count, &self.memory, 0, packed.memory().bytes_mut(0, self.len())?);
        Ok(packed)
    }
}
