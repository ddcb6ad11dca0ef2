//! The program's arguments of collective calls: which of them count at which rank, and what in place means.

use super::{Data, Job, Operation, Reducer, Root};
use crate::boundary::{List, MPI_Datatype, MPI_Op, Memory};
use crate::object::Comm;
use crate::world::PROC_NULL;
use barewire::mpi::error::{Class, Error, Result};
use std::ffi::c_int;

/// A count of either width.
pub(crate) trait Number: Copy + Into<i64> {}

impl Number for c_int {}
impl Number for i64 {}

/// An array of counts or displacements of either width.
pub(crate) trait Numbers: Copy {
    /// The first `len` entries.
    fn read(self, len: usize) -> Result<Vec<i64>>;
}

impl<N: Number> Numbers for List<N> {
    fn read(self, len: usize) -> Result<Vec<i64>> {
        Ok(self.to_vec(len as i64)?.into_iter().map(Into::into).collect())
    }
}

/// Equal shares of a datatype, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Even {
    /// Where the first one is.
    pub memory: Memory,
    /// Elements in each.
    pub count: i64,
    /// Their type.
    pub datatype: MPI_Datatype,
}

/// Shares of one datatype, of different length and at any place.
#[derive(Clone, Copy)]
pub(crate) struct Uneven<C, D> {
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
pub(crate) struct Mixed<C, D> {
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
pub(crate) trait Shares {
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

/// What is combined, and where it goes.
#[derive(Clone, Copy)]
pub(crate) struct Operands {
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
    /// The operation on `count` elements, with a place for `results` of them.
    fn read(&self, count: i64, results: i64) -> Result<Operation> {
        let mine = if self.mine.is_in_place() { self.into } else { self.mine };
        let reducer = Reducer::new(mine, count, self.datatype, self.op)?;
        let mine = reducer.data(mine, count);
        let into = Data::new(self.into, results, self.datatype)?;
        if !self.mine.is_in_place() {
            apart(&mine, &into)?;
        }
        Ok(Operation { reducer, mine, into })
    }

    /// The operation where only others get the result.
    fn given(&self, count: i64) -> Result<Operation> {
        let reducer = Reducer::new(self.mine, count, self.datatype, self.op)?;
        let mine = reducer.data(self.mine, count);
        Ok(Operation { reducer, mine, into: Data::none() })
    }
}

/// An error if what is given and the place of a result are the same memory and `MPI_IN_PLACE` does not say so.
fn apart(given: &Data, place: &Data) -> Result<()> {
    if given.start() == place.start() && !given.is_empty() && !place.is_empty() {
        return Err(same_buffer());
    }
    Ok(())
}

#[cold]
fn same_buffer() -> Error {
    let what = "what is sent and what is received have the same buffer; MPI_IN_PLACE is for that";
    Error::new(Class::Buffer, what)
}

/// The standard's `MPI_ROOT`.
const ROOT: c_int = -4;

/// The root a program names.
pub(crate) fn root(comm: &Comm, root: c_int) -> Result<Root> {
    match root {
        ROOT if comm.remote().is_some() => return Ok(Root::Me),
        PROC_NULL if comm.remote().is_some() => return Ok(Root::Neighbour),
        _ => {}
    }
    let size = comm.partners().size();
    let found = usize::try_from(root).ok().filter(|root| *root < size);
    let found = found.ok_or_else(|| Error::new(Class::Root, format!("root is {root} of {size} ranks")));
    found.map(Root::Rank)
}

/// Whether this process is the one that gives or gets it all.
fn is_root(comm: &Comm, root: Root) -> bool {
    root == Root::Me || (comm.remote().is_none() && root == Root::Rank(comm.rank))
}

/// Whether this process has something to give or get.
fn takes_part(comm: &Comm, root: Root) -> bool {
    comm.remote().is_none() || matches!(root, Root::Rank(_))
}

/// `MPI_Bcast`.
pub(crate) fn bcast(data: Even, root: Root) -> Result<Job> {
    let data = match root {
        Root::Neighbour => Data::none(),
        _ => Data::new(data.memory, data.count, data.datatype)?,
    };
    Ok(Job::Bcast(data, root))
}

/// `MPI_Gather` and `MPI_Gatherv`.
pub(crate) fn gather(comm: &Comm, mine: Even, all: impl Shares, root: Root) -> Result<Job> {
    let places = if is_root(comm, root) { all.read(comm.partners().size())? } else { Vec::new() };
    let mine = own(comm, mine, root)?;
    if let (Some(mine), true, None) = (&mine, is_root(comm, root), comm.remote()) {
        apart(mine, &places[comm.rank])?;
    }
    Ok(Job::Gather(mine, places, root))
}

/// `MPI_Scatter` and `MPI_Scatterv`.
pub(crate) fn scatter(comm: &Comm, all: impl Shares, mine: Even, root: Root) -> Result<Job> {
    let parts = if is_root(comm, root) { all.read(comm.partners().size())? } else { Vec::new() };
    let mine = own(comm, mine, root)?;
    if let (Some(mine), true, None) = (&mine, is_root(comm, root), comm.remote()) {
        apart(&parts[comm.rank], mine)?;
    }
    Ok(Job::Scatter(parts, mine, root))
}

/// This rank's own data of a call with a root; none where it stays in place, or does not count.
fn own(comm: &Comm, mine: Even, root: Root) -> Result<Option<Data>> {
    let stays = is_root(comm, root) && mine.is_in_place();
    if stays || !takes_part(comm, root) {
        return Ok(None);
    }
    Data::new(mine.memory, mine.count, mine.datatype).map(Some)
}

/// `MPI_Allgather` and `MPI_Allgatherv`.
pub(crate) fn allgather(comm: &Comm, mine: Even, all: impl Shares) -> Result<Job> {
    let places = all.read(comm.partners().size())?;
    let mine = match mine.is_in_place() {
        true => None,
        false => Some(Data::new(mine.memory, mine.count, mine.datatype)?),
    };
    if let (Some(mine), None) = (&mine, comm.remote()) {
        apart(mine, &places[comm.rank])?;
    }
    Ok(Job::Allgather(mine, places))
}

/// `MPI_Alltoall`, `MPI_Alltoallv` and `MPI_Alltoallw`.
pub(crate) fn alltoall(comm: &Comm, parts: impl Shares, places: impl Shares) -> Result<Job> {
    let size = comm.partners().size();
    let parts = if parts.is_in_place() { None } else { Some(parts.read(size)?) };
    let places = places.read(size)?;
    if let (Some(parts), None) = (&parts, comm.remote()) {
        apart(&parts[comm.rank], &places[comm.rank])?;
    }
    Ok(Job::Alltoall(parts, places))
}

/// `MPI_Reduce`.
pub(crate) fn reduce(comm: &Comm, operands: Operands, count: i64, root: Root) -> Result<Job> {
    if operands.mine.is_in_place() && !is_root(comm, root) && root != Root::Neighbour {
        return Err(Error::new(Class::Buffer, "MPI_IN_PLACE is for the root"));
    }
    let operation = match root {
        // Nothing of its own is combined.
        Root::Me => Operands { mine: Memory::IN_PLACE, ..operands }.read(count, count)?,
        Root::Neighbour => return Ok(Job::Nothing),
        Root::Rank(_) if is_root(comm, root) => operands.read(count, count)?,
        Root::Rank(_) => operands.given(count)?,
    };
    Ok(Job::Reduce(operation, root))
}

/// `MPI_Allreduce`.
pub(crate) fn allreduce(comm: &Comm, operands: Operands, count: i64) -> Result<Job> {
    in_one_place(comm, operands.mine)?;
    operands.read(count, count).map(Job::Allreduce)
}

/// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`.
pub(crate) fn reduce_scatter(comm: &Comm, operands: Operands, counts: Vec<i64>) -> Result<Job> {
    in_one_place(comm, operands.mine)?;
    if let Some(count) = counts.iter().find(|count| **count < 0) {
        return Err(Error::new(Class::Count, format!("count is {count}")));
    }
    let total = counts.iter().try_fold(0i64, |total, count| total.checked_add(*count));
    let total = total.ok_or_else(|| Error::new(Class::Count, "the counts do not fit in 64 bits"))?;
    Ok(Job::ReduceScatter(operands.read(total, counts[comm.rank])?, counts))
}

/// `MPI_Scan`.
pub(crate) fn scan(comm: &Comm, operands: Operands, count: i64) -> Result<Job> {
    one_group(comm)?;
    operands.read(count, count).map(Job::Scan)
}

/// `MPI_Exscan`.
pub(crate) fn exscan(comm: &Comm, operands: Operands, count: i64) -> Result<Job> {
    one_group(comm)?;
    let operation = if comm.rank == 0 && !operands.mine.is_in_place() {
        // Rank 0 gets nothing, so it need not have a place for it; what is an error at the others is one here.
        let operation = operands.given(count)?;
        let same = operands.mine.address() == operands.into.address() && operands.into.address() != 0;
        if same && !operation.mine.is_empty() {
            return Err(same_buffer());
        }
        operation
    } else {
        operands.read(count, count)?
    };
    Ok(Job::Exscan(operation))
}

/// An error for `MPI_IN_PLACE` between two groups: what comes out there is not what goes in here.
fn in_one_place(comm: &Comm, mine: Memory) -> Result<()> {
    match comm.remote() {
        Some(_) if mine.is_in_place() => {
            Err(Error::new(Class::Buffer, "MPI_IN_PLACE has no meaning between two groups"))
        }
        _ => Ok(()),
    }
}

fn one_group(comm: &Comm) -> Result<()> {
    match comm.remote() {
        Some(_) => Err(Error::new(Class::Comm, "an intercommunicator has no order of ranks to scan along")),
        None => Ok(()),
    }
}
