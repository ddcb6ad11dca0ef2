//! Datatypes: what they are, what they are called, and their end.

use super::shims;
use crate::boundary::{MPI_Datatype, Out, OutList, OutText, Text};
use crate::object::TypeObject;
use crate::shim::comm::{NAME_MAX, name};
use crate::shim::datatype_make::f90_key;
use crate::table::DYNAMIC;
use crate::world::{UNDEFINED, lock, world};
use barewire::mpi::datatype::{Basic, Combiner, Datatype, Kind, TypeClass, match_size};
use barewire::mpi::error::{Class, Error, Result};
use std::ffi::c_int;

shims! {
    fn PMPI_Type_size(datatype: MPI_Datatype, size: Out<c_int>) {
        let bytes = world().datatype(datatype)?.datatype.size();
        size.put(c_int::try_from(bytes).unwrap_or(UNDEFINED))?
    }

    fn PMPI_Type_size_c(datatype: MPI_Datatype, size: Out<i64>) {
        size.put(world().datatype(datatype)?.datatype.size())?
    }

    fn PMPI_Type_size_x(datatype: MPI_Datatype, size: Out<i64>) {
        size.put(world().datatype(datatype)?.datatype.size())?
    }

    fn PMPI_Type_get_extent(datatype: MPI_Datatype, lb: Out<i64>, extent: Out<i64>) {
        extent_of(datatype, lb, extent)?
    }

    fn PMPI_Type_get_extent_c(datatype: MPI_Datatype, lb: Out<i64>, extent: Out<i64>) {
        extent_of(datatype, lb, extent)?
    }

    fn PMPI_Type_get_extent_x(datatype: MPI_Datatype, lb: Out<i64>, extent: Out<i64>) {
        extent_of(datatype, lb, extent)?
    }

    fn PMPI_Type_get_true_extent(datatype: MPI_Datatype, true_lb: Out<i64>, true_extent: Out<i64>) {
        true_extent_of(datatype, true_lb, true_extent)?
    }

    fn PMPI_Type_get_true_extent_c(datatype: MPI_Datatype, true_lb: Out<i64>, true_extent: Out<i64>) {
        true_extent_of(datatype, true_lb, true_extent)?
    }

    fn PMPI_Type_get_true_extent_x(datatype: MPI_Datatype, true_lb: Out<i64>, true_extent: Out<i64>) {
        true_extent_of(datatype, true_lb, true_extent)?
    }

    fn PMPI_Type_commit(datatype: Out<MPI_Datatype>) {
        world().datatype(datatype.get()?)?.commit()
    }

    fn PMPI_Type_free(datatype: Out<MPI_Datatype>) {
        let handle = datatype.get()?;
        let object = world().datatype(handle)?;
        if handle.0 < DYNAMIC || f90_key(&object.datatype).is_some() {
            return Err(Error::new(Class::Type, "a predefined datatype cannot be freed").into());
        }
        object.attributes.clear(handle.0)?;
        world().types.release(handle.0);
        datatype.put(MPI_Datatype::NULL)?
    }

    fn PMPI_Type_set_name(datatype: MPI_Datatype, type_name: Text) {
        world().datatype(datatype)?.set_name(&name(type_name)?)
    }

    fn PMPI_Type_get_name(datatype: MPI_Datatype, type_name: OutText, resultlen: Out<c_int>) {
        let name = if datatype == MPI_Datatype::NULL {
            b"MPI_DATATYPE_NULL".to_vec()
        } else {
            world().datatype(datatype)?.name()
        };
        resultlen.put(type_name.put(&name, NAME_MAX)? as c_int)?
    }

    fn PMPI_Type_get_envelope(
        datatype: MPI_Datatype, num_integers: Out<c_int>, num_addresses: Out<c_int>, num_datatypes: Out<c_int>,
        combiner: Out<c_int>,
    ) {
        let envelope = world().datatype(datatype)?.datatype.envelope();
        no_large_counts(envelope.counts)?;
        num_integers.put(envelope.integers as c_int)?;
        num_addresses.put(envelope.addresses as c_int)?;
        num_datatypes.put(envelope.types as c_int)?;
        combiner.put(envelope.combiner as c_int)?
    }

    fn PMPI_Type_get_envelope_c(
        datatype: MPI_Datatype, num_integers: Out<i64>, num_addresses: Out<i64>, num_large_counts: Out<i64>,
        num_datatypes: Out<i64>, combiner: Out<c_int>,
    ) {
        let envelope = world().datatype(datatype)?.datatype.envelope();
        num_integers.put(envelope.integers as i64)?;
        num_addresses.put(envelope.addresses as i64)?;
        num_large_counts.put(envelope.counts as i64)?;
        num_datatypes.put(envelope.types as i64)?;
        combiner.put(envelope.combiner as c_int)?
    }

    fn PMPI_Type_get_contents(
        datatype: MPI_Datatype, max_integers: c_int, max_addresses: c_int, max_datatypes: c_int,
        array_of_integers: OutList<c_int>, array_of_addresses: OutList<i64>,
        array_of_datatypes: OutList<MPI_Datatype>,
    ) {
        let datatype = world().datatype(datatype)?.datatype.clone();
        no_large_counts(datatype.envelope().counts)?;
        let room = [max_integers.into(), max_addresses.into(), 0, max_datatypes.into()];
        check_room(&datatype, room)?;
        let contents = datatype.contents();
        array_of_integers.put(&contents.integers)?;
        array_of_addresses.put(&contents.addresses)?;
        array_of_datatypes.put(&contents.types.iter().map(handle_of).collect::<Vec<_>>())?
    }

    fn PMPI_Type_get_contents_c(
        datatype: MPI_Datatype, max_integers: i64, max_addresses: i64, max_large_counts: i64, max_datatypes: i64,
        array_of_integers: OutList<c_int>, array_of_addresses: OutList<i64>,
        array_of_large_counts: OutList<i64>, array_of_datatypes: OutList<MPI_Datatype>,
    ) {
        let datatype = world().datatype(datatype)?.datatype.clone();
        check_room(&datatype, [max_integers, max_addresses, max_large_counts, max_datatypes])?;
        let contents = datatype.contents();
        array_of_integers.put(&contents.integers)?;
        array_of_addresses.put(&contents.addresses)?;
        array_of_large_counts.put(&contents.counts)?;
        array_of_datatypes.put(&contents.types.iter().map(handle_of).collect::<Vec<_>>())?
    }

    fn PMPI_Type_match_size(typeclass: c_int, size: c_int, datatype: Out<MPI_Datatype>) {
        let class = [TypeClass::Integer, TypeClass::Real, TypeClass::Complex].into_iter().find(|c| *c as c_int == typeclass);
        let class = class.ok_or_else(|| Error::new(Class::Arg, format!("{typeclass} is not a type class")))?;
        datatype.put(MPI_Datatype(match_size(class, size.into())? as usize))?
    }

    fn PMPI_Type_get_value_index(value_type: MPI_Datatype, index_type: MPI_Datatype, pair_type: Out<MPI_Datatype>) {
        let basic = |handle| Ok::<_, Error>(world().datatype(handle)?.datatype.as_basic());
        let (value, index) = (basic(value_type)?, basic(index_type)?);
        let fits = |pair: &Basic| match pair.kind() {
            Kind::Pair(pair) => Some(pair.value) == value && Some(pair.index) == index,
            _ => false,
        };
        let found = Basic::all().find(fits);
        pair_type.put(found.map_or(MPI_Datatype::NULL, |basic| MPI_Datatype(basic as usize)))?
    }
}

fn extent_of(datatype: MPI_Datatype, lower: Out<i64>, extent: Out<i64>) -> Result<()> {
    let object = world().datatype(datatype)?;
    lower.put(object.datatype.lower_bound())?;
    extent.put(object.datatype.extent())
}

fn true_extent_of(datatype: MPI_Datatype, lower: Out<i64>, extent: Out<i64>) -> Result<()> {
    let object = world().datatype(datatype)?;
    lower.put(object.datatype.true_lower_bound())?;
    extent.put(object.datatype.true_extent())
}

/// The handle of a datatype another one was made from: predefined, or a new one the program has to free.
fn handle_of(datatype: &Datatype) -> MPI_Datatype {
    if let Some(basic) = datatype.as_basic() {
        return MPI_Datatype(basic as usize);
    }
    let known = f90_key(datatype).and_then(|key| lock(&world().f90_types).get(&key).copied());
    MPI_Datatype(known.unwrap_or_else(|| world().types.insert(TypeObject::new(datatype.clone()))))
}

fn no_large_counts(counts: usize) -> Result<()> {
    if counts == 0 {
        return Ok(());
    }
    Err(Error::new(Class::Type, "a large-count call made the datatype; ask with the large-count call"))
}

fn check_room(datatype: &Datatype, room: [i64; 4]) -> Result<()> {
    let envelope = datatype.envelope();
    if envelope.combiner == Combiner::Named {
        return Err(Error::new(Class::Type, "a predefined datatype has no contents"));
    }
    let needed = [envelope.integers, envelope.addresses, envelope.counts, envelope.types];
    if needed.iter().zip(room).any(|(&needed, room)| needed as i64 > room) {
        return Err(Error::new(
            Class::Arg,
            format!("the arrays have room for {room:?}, {needed:?} are needed"),
        ));
    }
    Ok(())
}
