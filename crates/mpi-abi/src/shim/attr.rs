//! Attributes on communicators, datatypes and windows, and their keys.

use super::{shims, win};
use crate::attribute::{AttributeCallbacks, Hung, Language, Value};
use crate::boundary::{Callback, MPI_Comm, MPI_Datatype, MPI_Win, Memory, Out, OutWord};
use crate::fault::Fault;
use crate::world::{lock, world};
use barewire::mpi::attr::{Keyval, Target};
use barewire::mpi::error::{Class, Error, Result};
use std::ffi::c_int;
use std::sync::Arc;

const KEYVAL_INVALID: c_int = 0;

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
        set(Target::Comm, comm.0, comm_keyval, Value::Pointer(attribute_val.address()))?
    }

    fn PMPI_Attr_put(comm: MPI_Comm, keyval: c_int, attribute_val: Memory) on comm {
        set(Target::Comm, comm.0, keyval, Value::Pointer(attribute_val.address()))?
    }

    fn PMPI_Type_set_attr(datatype: MPI_Datatype, type_keyval: c_int, attribute_val: Memory) {
        set(Target::Type, datatype.0, type_keyval, Value::Pointer(attribute_val.address()))?
    }

    fn PMPI_Win_set_attr(win: MPI_Win, win_keyval: c_int, attribute_val: Memory) on win {
        set(Target::Win, win.0, win_keyval, Value::Pointer(attribute_val.address()))?
    }

    fn PMPI_Comm_get_attr(comm: MPI_Comm, comm_keyval: c_int, attribute_val: OutWord, flag: Out<c_int>) on comm {
        answer(get(Target::Comm, comm.0, comm_keyval)?, attribute_val, flag)?
    }

    fn PMPI_Attr_get(comm: MPI_Comm, keyval: c_int, attribute_val: OutWord, flag: Out<c_int>) on comm {
        answer(get(Target::Comm, comm.0, keyval)?, attribute_val, flag)?
    }

    fn PMPI_Type_get_attr(datatype: MPI_Datatype, type_keyval: c_int, attribute_val: OutWord, flag: Out<c_int>) {
        answer(get(Target::Type, datatype.0, type_keyval)?, attribute_val, flag)?
    }

    fn PMPI_Win_get_attr(win: MPI_Win, win_keyval: c_int, attribute_val: OutWord, flag: Out<c_int>) on win {
        answer(get(Target::Win, win.0, win_keyval)?, attribute_val, flag)?
    }

    fn PMPI_Comm_delete_attr(comm: MPI_Comm, comm_keyval: c_int) on comm {
        delete(Target::Comm, comm.0, comm_keyval)?
    }

    fn PMPI_Attr_delete(comm: MPI_Comm, keyval: c_int) on comm {
        delete(Target::Comm, comm.0, keyval)?
    }

    fn PMPI_Type_delete_attr(datatype: MPI_Datatype, type_keyval: c_int) {
        delete(Target::Type, datatype.0, type_keyval)?
    }

    fn PMPI_Win_delete_attr(win: MPI_Win, win_keyval: c_int) on win {
        delete(Target::Win, win.0, win_keyval)?
    }
}

fn create(target: Target, copy: Callback, delete: Callback, extra: Memory) -> c_int {
    let language = Language::C;
    lock(&world().keyvals)
        .create(target, AttributeCallbacks { language, copy, delete, extra: extra.address() })
}

fn free(target: Target, keyval: Out<c_int>) -> Result<()> {
    lock(&world().keyvals).free(keyval.get()?, target)?;
    keyval.put(KEYVAL_INVALID)
}

/// Sets an attribute of an object.
pub(crate) fn set(target: Target, object: usize, id: c_int, value: Value) -> Result<(), Fault> {
    with(target, object, |hung| Ok(hung.set(object, changeable(target, id)?, value)?))?
}

/// An attribute of an object, if it has it.
pub(crate) fn get(target: Target, object: usize, id: c_int) -> Result<Option<Value>> {
    let found = with(target, object, |hung| hung.get(id))?;
    let found = found.or_else(|| predefined(target, object, id));
    if found.is_none() && !is_predefined(target, id) {
        lock(&world().keyvals).get(id, target)?;
    }
    Ok(found)
}

fn delete(target: Target, object: usize, id: c_int) -> Result<(), Fault> {
    with(target, object, |hung| {
        changeable(target, id)?;
        Ok(hung.delete(object, id)?)
    })?
}

/// What is hung on an object.
fn with<T>(target: Target, object: usize, look: impl FnOnce(&Hung) -> T) -> Result<T> {
    Ok(match target {
        Target::Comm => look(&world().comm(MPI_Comm(object))?.attributes),
        Target::Type => look(&world().datatype(MPI_Datatype(object))?.attributes),
        Target::Win => look(&win::find(MPI_Win(object))?.attributes),
    })
}

fn changeable(target: Target, id: c_int) -> Result<Arc<Keyval<AttributeCallbacks>>> {
    if is_predefined(target, id) {
        return Err(Error::new(Class::Keyval, format!("the predefined attribute {id} cannot be changed")));
    }
    lock(&world().keyvals).get(id, target)
}

/// Tells the program an attribute's value, if there is one.
fn answer(found: Option<Value>, value: OutWord, flag: Out<c_int>) -> Result<()> {
    if let Some(found) = &found {
        value.put(found.to_pointer())?;
    }
    flag.put(found.is_some().into())
}

/// Whether a key is one of the standard's.
fn is_predefined(target: Target, id: c_int) -> bool {
    match target {
        Target::Comm => (501..=507).contains(&id),
        Target::Type => false,
        Target::Win => (601..=605).contains(&id),
    }
}

/// A predefined attribute.
fn predefined(target: Target, object: usize, id: c_int) -> Option<Value> {
    if !is_predefined(target, id) {
        return None;
    }
    let job = &world().predefined;
    let window = win::find(MPI_Win(object)).ok().filter(|_| target == Target::Win);
    let value = match (id, &window) {
        (501, _) => &job.tag_ub,
        (502, _) => &job.io,
        (503, _) => &job.host,
        (504, _) => &job.wtime_is_global,
        (506, _) => {
            job.last_used_code.store(lock(&world().codes).last_used().into());
            &job.last_used_code
        }
        (507, _) => &job.universe_size,
        (601, Some(window)) => &Value::Pointer(window.mine().base),
        (602, Some(window)) => &window.predefined.unit,
        (603, Some(window)) => &window.predefined.size,
        (604, Some(window)) => &window.predefined.flavor,
        (605, Some(window)) => &window.predefined.model,
        _ => return None,
    };
    Some(value.clone())
}
