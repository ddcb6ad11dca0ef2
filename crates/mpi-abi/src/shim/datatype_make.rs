//! Datatypes: their making. Each call has two forms, with `int` and with `MPI_Count`; both end in the same constructor.

use super::shims;
use crate::boundary::{List, MPI_Datatype, Out};
use crate::fault::Fault;
use crate::object::{F90Key, TypeObject};
use crate::world::{UNDEFINED, lock, world};
use barewire::mpi::datatype::{Combiner, Datatype, Distribution, Order};
use barewire::mpi::error::{Class, Error, Result};
use std::ffi::c_int;

shims! {
    fn PMPI_Type_contiguous(count: c_int, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
        give_small(newtype, Datatype::contiguous(count.into(), &old(oldtype)?))?
    }

    fn PMPI_Type_contiguous_c(count: i64, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
        give(newtype, Datatype::contiguous(count, &old(oldtype)?))?
    }

    fn PMPI_Type_vector(
        count: c_int, blocklength: c_int, stride: c_int, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        give_small(newtype, Datatype::vector(count.into(), blocklength.into(), stride.into(), &old(oldtype)?))?
    }

    fn PMPI_Type_vector_c(
        count: i64, blocklength: i64, stride: i64, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        give(newtype, Datatype::vector(count, blocklength, stride, &old(oldtype)?))?
    }

    fn PMPI_Type_create_hvector(
        count: c_int, blocklength: c_int, stride: i64, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        give_small(newtype, Datatype::hvector(count.into(), blocklength.into(), stride, &old(oldtype)?))?
    }

    fn PMPI_Type_create_hvector_c(
        count: i64, blocklength: i64, stride: i64, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        give(newtype, Datatype::hvector(count, blocklength, stride, &old(oldtype)?))?
    }

    fn PMPI_Type_indexed(
        count: c_int, array_of_blocklengths: List<c_int>, array_of_displacements: List<c_int>,
        oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let (lengths, places) = (array_of_blocklengths.wide(count.into())?, array_of_displacements.wide(count.into())?);
        give_small(newtype, Datatype::indexed(&lengths, &places, &old(oldtype)?))?
    }

    fn PMPI_Type_indexed_c(
        count: i64, array_of_blocklengths: List<i64>, array_of_displacements: List<i64>, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let (lengths, places) = (array_of_blocklengths.to_vec(count)?, array_of_displacements.to_vec(count)?);
        give(newtype, Datatype::indexed(&lengths, &places, &old(oldtype)?))?
    }

    fn PMPI_Type_create_hindexed(
        count: c_int, array_of_blocklengths: List<c_int>, array_of_displacements: List<i64>,
        oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let (lengths, places) = (array_of_blocklengths.wide(count.into())?, array_of_displacements.to_vec(count.into())?);
        give_small(newtype, Datatype::hindexed(&lengths, &places, &old(oldtype)?))?
    }

    fn PMPI_Type_create_hindexed_c(
        count: i64, array_of_blocklengths: List<i64>, array_of_displacements: List<i64>, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let (lengths, places) = (array_of_blocklengths.to_vec(count)?, array_of_displacements.to_vec(count)?);
        give(newtype, Datatype::hindexed(&lengths, &places, &old(oldtype)?))?
    }

    fn PMPI_Type_create_indexed_block(
        count: c_int, blocklength: c_int, array_of_displacements: List<c_int>, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let places = array_of_displacements.wide(count.into())?;
        give_small(newtype, Datatype::indexed_block(blocklength.into(), &places, &old(oldtype)?))?
    }

    fn PMPI_Type_create_indexed_block_c(
        count: i64, blocklength: i64, array_of_displacements: List<i64>, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        give(newtype, Datatype::indexed_block(blocklength, &array_of_displacements.to_vec(count)?, &old(oldtype)?))?
    }

    fn PMPI_Type_create_hindexed_block(
        count: c_int, blocklength: c_int, array_of_displacements: List<i64>, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let places = array_of_displacements.to_vec(count.into())?;
        give_small(newtype, Datatype::hindexed_block(blocklength.into(), &places, &old(oldtype)?))?
    }

    fn PMPI_Type_create_hindexed_block_c(
        count: i64, blocklength: i64, array_of_displacements: List<i64>, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        give(newtype, Datatype::hindexed_block(blocklength, &array_of_displacements.to_vec(count)?, &old(oldtype)?))?
    }

    fn PMPI_Type_create_struct(
        count: c_int, array_of_blocklengths: List<c_int>, array_of_displacements: List<i64>,
        array_of_types: List<MPI_Datatype>, newtype: Out<MPI_Datatype>,
    ) {
        let (lengths, places) = (array_of_blocklengths.wide(count.into())?, array_of_displacements.to_vec(count.into())?);
        give_small(newtype, Datatype::structure(&lengths, &places, &olds(array_of_types, count.into())?))?
    }

    fn PMPI_Type_create_struct_c(
        count: i64, array_of_blocklengths: List<i64>, array_of_displacements: List<i64>,
        array_of_types: List<MPI_Datatype>, newtype: Out<MPI_Datatype>,
    ) {
        let (lengths, places) = (array_of_blocklengths.to_vec(count)?, array_of_displacements.to_vec(count)?);
        give(newtype, Datatype::structure(&lengths, &places, &olds(array_of_types, count)?))?
    }

    fn PMPI_Type_create_subarray(
        ndims: c_int, array_of_sizes: List<c_int>, array_of_subsizes: List<c_int>, array_of_starts: List<c_int>,
        order: c_int, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let n = dimensions(ndims)?;
        let (sizes, parts, starts) = (array_of_sizes.wide(n)?, array_of_subsizes.wide(n)?, array_of_starts.wide(n)?);
        give_small(newtype, Datatype::subarray(&sizes, &parts, &starts, order_of(order)?, &old(oldtype)?))?
    }

    fn PMPI_Type_create_subarray_c(
        ndims: c_int, array_of_sizes: List<i64>, array_of_subsizes: List<i64>, array_of_starts: List<i64>,
        order: c_int, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>,
    ) {
        let n = dimensions(ndims)?;
        let (sizes, parts, starts) = (array_of_sizes.to_vec(n)?, array_of_subsizes.to_vec(n)?, array_of_starts.to_vec(n)?);
        give(newtype, Datatype::subarray(&sizes, &parts, &starts, order_of(order)?, &old(oldtype)?))?
    }

    fn PMPI_Type_create_darray(
        size: c_int, rank: c_int, ndims: c_int, array_of_gsizes: List<c_int>, array_of_distribs: List<c_int>,
        array_of_dargs: List<c_int>, array_of_psizes: List<c_int>, order: c_int, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let sizes = array_of_gsizes.wide(dimensions(ndims)?)?;
        let grid = Grid { size, rank, order, kinds: array_of_distribs, arguments: array_of_dargs, processes: array_of_psizes };
        give_small(newtype, grid.darray(&sizes, oldtype))?
    }

    fn PMPI_Type_create_darray_c(
        size: c_int, rank: c_int, ndims: c_int, array_of_gsizes: List<i64>, array_of_distribs: List<c_int>,
        array_of_dargs: List<c_int>, array_of_psizes: List<c_int>, order: c_int, oldtype: MPI_Datatype,
        newtype: Out<MPI_Datatype>,
    ) {
        let sizes = array_of_gsizes.to_vec(dimensions(ndims)?)?;
        let grid = Grid { size, rank, order, kinds: array_of_distribs, arguments: array_of_dargs, processes: array_of_psizes };
        give(newtype, grid.darray(&sizes, oldtype))?
    }

    fn PMPI_Type_create_resized(oldtype: MPI_Datatype, lb: i64, extent: i64, newtype: Out<MPI_Datatype>) {
        give_small(newtype, Datatype::resized(&old(oldtype)?, lb, extent))?
    }

    fn PMPI_Type_create_resized_c(oldtype: MPI_Datatype, lb: i64, extent: i64, newtype: Out<MPI_Datatype>) {
        give(newtype, Datatype::resized(&old(oldtype)?, lb, extent))?
    }

    fn PMPI_Type_dup(oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) {
        let object = world().datatype(oldtype)?;
        newtype.put(MPI_Datatype::NULL)?;
        let attributes = object.attributes.copy(oldtype.0)?;
        let mut copy = TypeObject::new(object.datatype.dup());
        copy.attributes = attributes;
        if object.is_committed() {
            copy.commit();
        }
        newtype.put(MPI_Datatype(world().types.insert(copy)))?
    }

    fn PMPI_Type_create_f90_real(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) {
        newtype.put(shared(Datatype::f90_real(defined(p), defined(r))?)?)?
    }

    fn PMPI_Type_create_f90_complex(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) {
        newtype.put(shared(Datatype::f90_complex(defined(p), defined(r))?)?)?
    }

    fn PMPI_Type_create_f90_integer(r: c_int, newtype: Out<MPI_Datatype>) {
        newtype.put(shared(Datatype::f90_integer(r)?)?)?
    }
}

fn old(handle: MPI_Datatype) -> Result<Datatype> {
    Ok(world().datatype(handle)?.datatype.clone())
}

fn olds(handles: List<MPI_Datatype>, count: i64) -> Result<Vec<Datatype>> {
    handles.to_vec(count)?.into_iter().map(old).collect()
}

fn give(place: Out<MPI_Datatype>, made: Result<Datatype>) -> Result<(), Fault> {
    let handle = world().types.insert(TypeObject::new(made?));
    Ok(place.put(MPI_Datatype(handle))?)
}

fn give_small(place: Out<MPI_Datatype>, made: Result<Datatype>) -> Result<(), Fault> {
    give(place, made.map(Datatype::made_with_ints))
}

fn dimensions(n: c_int) -> Result<i64> {
    if n < 1 { Err(Error::new(Class::Arg, format!("ndims is {n}"))) } else { Ok(n.into()) }
}

fn order_of(order: c_int) -> Result<Order> {
    let known = [Order::C, Order::Fortran].into_iter().find(|known| *known as c_int == order);
    known.ok_or_else(|| Error::new(Class::Arg, format!("order is {order}")))
}

fn defined(value: c_int) -> Option<c_int> {
    (value != UNDEFINED).then_some(value)
}

/// The arguments of both forms of `MPI_Type_create_darray`.
struct Grid {
    size: c_int,
    rank: c_int,
    order: c_int,
    kinds: List<c_int>,
    arguments: List<c_int>,
    processes: List<c_int>,
}

impl Grid {
    fn darray(&self, sizes: &[i64], oldtype: MPI_Datatype) -> Result<Datatype> {
        let n = sizes.len() as i64;
        let distribution = |kind: c_int| {
            let known = [Distribution::None, Distribution::Block, Distribution::Cyclic];
            let found = known.into_iter().find(|known| *known as c_int == kind);
            found.ok_or_else(|| Error::new(Class::Arg, format!("{kind} is not a distribution")))
        };
        let kinds = self.kinds.to_vec(n)?.into_iter().map(distribution).collect::<Result<Vec<_>>>()?;
        let (arguments, processes) = (self.arguments.to_vec(n)?, self.processes.to_vec(n)?);
        let order = order_of(self.order)?;
        Datatype::darray(self.size, self.rank, sizes, &kinds, &arguments, &processes, order, &old(oldtype)?)
    }
}

/// What a Fortran type was asked for with; none for other datatypes.
pub(crate) fn f90_key(datatype: &Datatype) -> Option<F90Key> {
    let combiner = datatype.envelope().combiner;
    if !matches!(combiner, Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer) {
        return None;
    }
    let mut arguments = datatype.contents().integers.into_iter();
    let (first, second) = (arguments.next()?, arguments.next().unwrap_or(UNDEFINED));
    Some(F90Key { combiner: combiner as c_int, first, second })
}

/// The one handle of a Fortran type; it is predefined, so it is committed and never freed.
fn shared(datatype: Datatype) -> Result<MPI_Datatype> {
    let key = f90_key(&datatype).ok_or_else(|| Error::new(Class::Intern, "not a Fortran type"))?;
    let mut known = lock(&world().f90_types);
    let handle = known.entry(key).or_insert_with(|| world().types.insert(TypeObject::named(datatype, "")));
    Ok(MPI_Datatype(*handle))
}
