//! Attributes on communicators and datatypes, and their keys.

use super::shims;
use crate::boundary::{Callback, MPI_Comm, MPI_Datatype, Memory, Out, OutWord};
use crate::fault::Fault;
use crate::object::AttributeCallbacks;
use crate::world::{lock, world};
use barewire::mpi::attr::Target;
use barewire::mpi::error::{Class, Error, Result};
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

const KEYVAL_INVALID: c_int = 0;
/// The keys of predefined attributes of communicators.
const PREDEFINED: std::ops::RangeInclusive<c_int> = 501..=507;

shims! {
    fn PMPI_Comm_create_keyval(
        comm_copy_attr_fn: Callback, comm_delete_attr_fn: Callback, comm_keyval: Out<c_int>, extra_state: Memory,
    ) {
        comm_keyval.put(create(Target::Comm, comm_copy_attr_fn, comm_delete_attr_fn, extra_state))?
    }

    fn PMPI_Keyval_create(copy_fn: Callback, delete_fn: Callback, keyval: Out<c_int>, extra_state: Memory) {
        keyval.put(create(Target::Comm, copy_fn, delete_fn, extra_state))?
    }

    fn PMPI_Type_create_keyval(
        type_copy_attr_fn: Callback, type_delete_attr_fn: Callback, type_keyval: Out<c_int>, extra_state: Memory,
    ) {
        type_keyval.put(create(Target::Type, type_copy_attr_fn, type_delete_attr_fn, extra_state))?
    }

    fn PMPI_Win_create_keyval(
        win_copy_attr_fn: Callback, win_delete_attr_fn: Callback, win_keyval: Out<c_int>, extra_state: Memory,
    ) {
        win_keyval.put(create(Target::Win, win_copy_attr_fn, win_delete_attr_fn, extra_state))?
    }

    fn PMPI_Comm_free_keyval(comm_keyval: Out<c_int>) {
        free(Target::Comm, comm_keyval)?
    }

    fn PMPI_Keyval_free(keyval: Out<c_int>) {
        free(Target::Comm, keyval)?
    }

    fn PMPI_Type_free_keyval(type_keyval: Out<c_int>) {
        free(Target::Type, type_keyval)?
    }

    fn PMPI_Win_free_keyval(win_keyval: Out<c_int>) {
        free(Target::Win, win_keyval)?
    }

    fn PMPI_Comm_set_attr(comm: MPI_Comm, comm_keyval: c_int, attribute_val: Memory) on comm {
        comm_set(comm, comm_keyval, attribute_val)?
    }

    fn PMPI_Attr_put(comm: MPI_Comm, keyval: c_int, attribute_val: Memory) on comm {
        comm_set(comm, keyval, attribute_val)?
    }

    fn PMPI_Comm_get_attr(comm: MPI_Comm, comm_keyval: c_int, attribute_val: OutWord, flag: Out<c_int>) on comm {
        comm_get(comm, comm_keyval, attribute_val, flag)?
    }

    fn PMPI_Attr_get(comm: MPI_Comm, keyval: c_int, attribute_val: OutWord, flag: Out<c_int>) on comm {
        comm_get(comm, keyval, attribute_val, flag)?
    }

    fn PMPI_Comm_delete_attr(comm: MPI_Comm, comm_keyval: c_int) on comm {
        comm_delete(comm, comm_keyval)?
    }

    fn PMPI_Attr_delete(comm: MPI_Comm, keyval: c_int) on comm {
        comm_delete(comm, keyval)?
    }

    fn PMPI_Type_set_attr(datatype: MPI_Datatype, type_keyval: c_int, attribute_val: Memory) {
        let object = world().datatype(datatype)?;
        let keyval = lock(&world().keyvals).get(type_keyval, Target::Type)?;
        object.attributes.set(datatype.0, keyval, attribute_val.address())?
    }

    fn PMPI_Type_get_attr(datatype: MPI_Datatype, type_keyval: c_int, attribute_val: OutWord, flag: Out<c_int>) {
        let value = world().datatype(datatype)?.attributes.get(type_keyval);
        if value.is_none() {
            lock(&world().keyvals).get(type_keyval, Target::Type)?;
        }
        answer(value, attribute_val, flag)?
    }

    fn PMPI_Type_delete_attr(datatype: MPI_Datatype, type_keyval: c_int) {
        let object = world().datatype(datatype)?;
        lock(&world().keyvals).get(type_keyval, Target::Type)?;
        object.attributes.delete(datatype.0, type_keyval)?
    }
}

fn create(target: Target, copy: Callback, delete: Callback, extra: Memory) -> c_int {
    lock(&world().keyvals).create(target, AttributeCallbacks { copy, delete, extra: extra.address() })
}

fn free(target: Target, keyval: Out<c_int>) -> Result<()> {
    lock(&world().keyvals).free(keyval.get()?, target)?;
    keyval.put(KEYVAL_INVALID)
}

fn comm_set(comm: MPI_Comm, id: c_int, value: Memory) -> Result<(), Fault> {
    let object = world().comm(comm)?;
    let keyval = changeable(id)?;
    Ok(object.attributes.set(comm.0, keyval, value.address())?)
}

fn comm_get(comm: MPI_Comm, id: c_int, value: OutWord, flag: Out<c_int>) -> Result<()> {
    let object = world().comm(comm)?;
    if PREDEFINED.contains(&id) {
        return answer(predefined(id), value, flag);
    }
    let found = object.attributes.get(id);
    if found.is_none() {
        lock(&world().keyvals).get(id, Target::Comm)?;
    }
    answer(found, value, flag)
}

fn comm_delete(comm: MPI_Comm, id: c_int) -> Result<(), Fault> {
    let object = world().comm(comm)?;
    changeable(id)?;
    Ok(object.attributes.delete(comm.0, id)?)
}

fn changeable(id: c_int) -> Result<std::sync::Arc<barewire::mpi::attr::Keyval<AttributeCallbacks>>> {
    if PREDEFINED.contains(&id) {
        return Err(Error::new(Class::Keyval, format!("the predefined attribute {id} cannot be changed")));
    }
    lock(&world().keyvals).get(id, Target::Comm)
}

/// Tells the program an attribute's value, if there is one.
pub fn answer(found: Option<usize>, value: OutWord, flag: Out<c_int>) -> Result<()> {
    if let Some(found) = found {
        value.put(found)?;
    }
    flag.put(found.is_some().into())
}

/// The address of a predefined attribute's value.
fn predefined(id: c_int) -> Option<usize> {
    let values = &world().predefined;
    let value = match id {
        501 => &values.tag_ub,
        502 => &values.io,
        503 => &values.host,
        504 => &values.wtime_is_global,
        506 => {
            values.last_used_code.store(lock(&world().codes).last_used(), Ordering::Relaxed);
            &values.last_used_code
        }
        507 => &values.universe_size,
        _ => return None,
    };
    Some(std::ptr::from_ref::<AtomicI32>(value) as usize)
}
