//! The program's arguments of collective calls: which of them count at which rank, and what in place means.

use super::{Call, Data, Reducer};
use crate::boundary::{List, MPI_Comm, MPI_Datatype, MPI_Op, Memory, Scratch};
use barewire::mpi::datatype::Basic;
use barewire::mpi::error::{Class, Error, Result};
use std::ffi::c_int;

/// An array of counts or displacements of either width.
pub trait Numbers: Copy {
    /// The first `len` entries.
    fn read(self, len: usize) -> Result<Vec<i64>>;
}

impl Numbers for List<c_int> {
    fn read(self, len: usize) -> Result<Vec<i64>> {
        self.wide(len as i64)
    }
}

impl Numbers for List<i64> {
    fn read(self, len: usize) -> Result<Vec<i64>> {
        self.to_vec(len as i64)
    }
}

/// Equal shares of a datatype, one after the other.
#[derive(Clone, Copy)]
pub struct Even {
    /// Where the first one is.
    pub memory: Memory,
    /// Elements in each.
    pub count: i64,
    /// Their type.
    pub datatype: MPI_Datatype,
}

/// Shares of one datatype, of different length and at any place.
#[derive(Clone, Copy)]
pub struct Uneven<C, D> {
    /// Where displacements count from.
    pub memory: Memory,
    /// Elements in each.
    pub counts: C,
    /// Where each begins, in extents.
    pub displacements: D,
    /// Their type.
    pub datatype: MPI_Datatype,
}

/// Shares of different datatypes, of different length and at any place.
#[derive(Clone, Copy)]
pub struct Mixed<C, D> {
    /// Where displacements count from.
    pub memory: Memory,
    /// Elements in each.
    pub counts: C,
    /// Where each begins, in bytes.
    pub displacements: D,
    /// Their types.
    pub datatypes: List<MPI_Datatype>,
}

/// Arguments that describe a share for each rank.
pub trait Shares {
    /// The share of each of `size` ranks.
    fn read(&self, size: usize) -> Result<Vec<Data>>;
    /// Whether the program passed `MPI_IN_PLACE`.
    fn is_in_place(&self) -> bool;
}

impl Shares for Even {
    fn read(&self, size: usize) -> Result<Vec<Data>> {
        let first = Data::new(self.memory, self.count, self.datatype)?;
        first.datatype.packed_size(self.count.saturating_mul(size as i64))?;
        Ok((0..size as i64).map(|rank| first.part(rank * self.count, self.count)).collect())
    }

    fn is_in_place(&self) -> bool {
        self.memory.is_in_place()
    }
}

impl<C: Numbers, D: Numbers> Shares for Uneven<C, D> {
    fn read(&self, size: usize) -> Result<Vec<Data>> {
        let (counts, displacements) = (self.counts.read(size)?, self.displacements.read(size)?);
        let share = |(count, displacement): (i64, i64)| {
            let first = Data::new(self.memory, count, self.datatype)?;
            Ok(first.part(displacement, count))
        };
        counts.into_iter().zip(displacements).map(share).collect()
    }

    fn is_in_place(&self) -> bool {
        self.memory.is_in_place()
    }
}

impl<C: Numbers, D: Numbers> Shares for Mixed<C, D> {
    fn read(&self, size: usize) -> Result<Vec<Data>> {
        let (counts, displacements) = (self.counts.read(size)?, self.displacements.read(size)?);
        let datatypes = self.datatypes.to_vec(size as i64)?;
        let share = |((count, displacement), datatype): ((i64, i64), MPI_Datatype)| {
            Data::new(self.memory.moved(displacement), count, datatype)
        };
        counts.into_iter().zip(displacements).zip(datatypes).map(share).collect()
    }

    fn is_in_place(&self) -> bool {
        self.memory.is_in_place()
    }
}

/// `MPI_Barrier`.
pub fn barrier(comm: MPI_Comm) -> Result<()> {
    super::barrier(&Call::begin(comm)?)
}

/// `MPI_Bcast`.
pub fn bcast(data: Even, root: c_int, comm: MPI_Comm) -> Result<()> {
    let call = Call::begin(comm)?;
    let root = call.root(root)?;
    super::bcast(&call, &Data::new(data.memory, data.count, data.datatype)?, root)
}

/// `MPI_Gather` and `MPI_Gatherv`.
pub fn gather(mine: Even, all: impl Shares, root: c_int, comm: MPI_Comm) -> Result<()> {
    let call = Call::begin(comm)?;
    let root = call.root(root)?;
    let places = if call.rank() == root { all.read(call.size())? } else { Vec::new() };
    let stays = call.rank() == root && mine.is_in_place();
    let mine = if stays { None } else { Some(Data::new(mine.memory, mine.count, mine.datatype)?) };
    super::gather(&call, mine.as_ref(), &places, root)
}

/// `MPI_Scatter` and `MPI_Scatterv`.
pub fn scatter(all: impl Shares, mine: Even, root: c_int, comm: MPI_Comm) -> Result<()> {
    let call = Call::begin(comm)?;
    let root = call.root(root)?;
    let parts = if call.rank() == root { all.read(call.size())? } else { Vec::new() };
    let stays = call.rank() == root && mine.is_in_place();
    let mine = if stays { None } else { Some(Data::new(mine.memory, mine.count, mine.datatype)?) };
    super::scatter(&call, &parts, mine.as_ref(), root)
}

/// `MPI_Allgather` and `MPI_Allgatherv`.
pub fn allgather(mine: Even, all: impl Shares, comm: MPI_Comm) -> Result<()> {
    let call = Call::begin(comm)?;
    let places = all.read(call.size())?;
    if !mine.is_in_place() {
        Data::new(mine.memory, mine.count, mine.datatype)?.copy_to(&places[call.rank()])?;
    }
    super::allgather(&call, &places)
}

/// `MPI_Alltoall`, `MPI_Alltoallv` and `MPI_Alltoallw`.
pub fn alltoall(parts: impl Shares, places: impl Shares, comm: MPI_Comm) -> Result<()> {
    let call = Call::begin(comm)?;
    let places = places.read(call.size())?;
    if !parts.is_in_place() {
        return super::alltoall(&call, &parts.read(call.size())?, &places);
    }
    let copies = places.iter().map(Data::packed).collect::<Result<Vec<Scratch>>>()?;
    let packed = |(copy, place): (&Scratch, &Data)| Data {
        memory: copy.memory(),
        count: place.len() as i64,
        datatype: Basic::Byte.into(),
    };
    let parts: Vec<Data> = copies.iter().zip(&places).map(packed).collect();
    super::alltoall(&call, &parts, &places)
}

/// What is combined, and where it goes.
#[derive(Clone, Copy)]
pub struct Operands {
    /// This rank's data, or in place.
    pub mine: Memory,
    /// Where the result goes.
    pub into: Memory,
    /// Of what type.
    pub datatype: MPI_Datatype,
    /// The operation.
    pub op: MPI_Op,
}

impl Operands {
    /// The operation on `count` elements, and this rank's data.
    fn read(&self, count: i64) -> Result<(Reducer, Data)> {
        let mine = if self.mine.is_in_place() { self.into } else { self.mine };
        let reducer = Reducer::new(mine, count, self.datatype, self.op)?;
        let data = reducer.data(mine, count);
        Ok((reducer, data))
    }

    /// The operation on `count` elements, and the place of the result, which holds this rank's data.
    fn prepared(&self, count: i64) -> Result<(Reducer, Data)> {
        let (reducer, mine) = self.read(count)?;
        let into = Data::new(self.into, count, self.datatype)?;
        mine.copy_to(&into)?;
        Ok((reducer, into))
    }
}

/// `MPI_Reduce`.
pub fn reduce(operands: Operands, count: i64, root: c_int, comm: MPI_Comm) -> Result<()> {
    let call = Call::begin(comm)?;
    let root = call.root(root)?;
    if operands.mine.is_in_place() && call.rank() != root {
        return Err(Error::new(Class::Buffer, "MPI_IN_PLACE is for the root"));
    }
    let (reducer, mine) = operands.read(count)?;
    let into =
        if call.rank() == root { Data::new(operands.into, count, operands.datatype)? } else { Data::none() };
    super::reduce(&call, &reducer, &mine, &into, root)
}

/// `MPI_Allreduce`.
pub fn allreduce(operands: Operands, count: i64, comm: MPI_Comm) -> Result<()> {
    let call = Call::begin(comm)?;
    let (reducer, into) = operands.prepared(count)?;
    super::allreduce(&call, &reducer, &into)
}

/// `MPI_Reduce_scatter`.
pub fn reduce_scatter(operands: Operands, counts: impl Numbers, comm: MPI_Comm) -> Result<()> {
    let call = Call::begin(comm)?;
    let counts = counts.read(call.size())?;
    scatter_combined(&call, operands, &counts)
}

/// `MPI_Reduce_scatter_block`.
pub fn reduce_scatter_block(operands: Operands, count: i64, comm: MPI_Comm) -> Result<()> {
    let call = Call::begin(comm)?;
    scatter_combined(&call, operands, &vec![count; call.size()])
}

fn scatter_combined(call: &Call, operands: Operands, counts: &[i64]) -> Result<()> {
    if let Some(count) = counts.iter().find(|count| **count < 0) {
        return Err(Error::new(Class::Count, format!("count is {count}")));
    }
    let total = counts.iter().try_fold(0i64, |total, count| total.checked_add(*count));
    let total = total.ok_or_else(|| Error::new(Class::Count, "the counts do not fit in 64 bits"))?;
    let (reducer, mine) = operands.read(total)?;
    let into = Data::new(operands.into, counts[call.rank()], operands.datatype)?;
    super::reduce_scatter(call, &reducer, &mine, &into, counts)
}

/// `MPI_Scan`.
pub fn scan(operands: Operands, count: i64, comm: MPI_Comm) -> Result<()> {
    let call = Call::begin(comm)?;
    let (reducer, into) = operands.prepared(count)?;
    super::scan(&call, &reducer, &into)
}

/// `MPI_Exscan`.
pub fn exscan(operands: Operands, count: i64, comm: MPI_Comm) -> Result<()> {
    let call = Call::begin(comm)?;
    if call.rank() > 0 {
        let (reducer, into) = operands.prepared(count)?;
        return super::exscan(&call, &reducer, &into);
    }
    // Rank 0 gets nothing: what it has is left alone.
    let (reducer, mine) = operands.read(count)?;
    let own = reducer.room(count);
    mine.copy_to(&own.data)?;
    super::exscan(&call, &reducer, &own.data)
}
