//! Operations.

use super::shims;
use crate::boundary::{Callback, MPI_Datatype, MPI_Op, Memory, Out};
use crate::object::UserOp;
use crate::world::world;
use barewire::mpi::error::{Class, Error, Result};
use std::ffi::c_int;

shims! {
    fn PMPI_Op_create(user_fn: Callback, commute: c_int, op: Out<MPI_Op>) {
        op.put(create(user_fn, false, commute)?)?
    }

    fn PMPI_Op_create_c(user_fn: Callback, commute: c_int, op: Out<MPI_Op>) {
        op.put(create(user_fn, true, commute)?)?
    }

    fn PMPI_Op_free(op: Out<MPI_Op>) {
        let handle = op.get()?;
        if world().op(handle)?.is_ok() {
            return Err(Error::new(Class::Op, "a predefined operation cannot be freed").into());
        }
        world().ops.release(handle.0);
        op.put(MPI_Op::NULL)?
    }

    fn PMPI_Op_commutative(op: MPI_Op, commute: Out<c_int>) {
        commute.put(match world().op(op)? {
            Ok(_) => 1,
            Err(user) => user.commutes.into(),
        })?
    }

    fn PMPI_Reduce_local(inbuf: Memory, inoutbuf: Memory, count: c_int, datatype: MPI_Datatype, op: MPI_Op) {
        reduce_local(inbuf, inoutbuf, count.into(), datatype, op)?
    }

    fn PMPI_Reduce_local_c(inbuf: Memory, inoutbuf: Memory, count: i64, datatype: MPI_Datatype, op: MPI_Op) {
        reduce_local(inbuf, inoutbuf, count, datatype, op)?
    }
}

fn create(function: Callback, large: bool, commute: c_int) -> Result<MPI_Op> {
    let op = UserOp { function: function.required()?, large, commutes: commute != 0 };
    Ok(MPI_Op(world().ops.insert(op)))
}

fn reduce_local(
    input: Memory,
    mut inout: Memory,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<()> {
    let object = world().datatype(datatype)?;
    let op = world().op(op)?;
    object.datatype.packed_size(count)?;
    if !object.is_committed() {
        return Err(Error::new(Class::Type, "the datatype is not committed"));
    }
    if count == 0 {
        return Ok(());
    }
    if input.is_in_place() || inout.is_in_place() || input.address() == inout.address() {
        return Err(Error::new(Class::Buffer, "the two buffers have to be memory of their own"));
    }
    match op {
        Ok(builtin) => {
            let basic = object.datatype.operand();
            let basic = basic.ok_or_else(|| bad_type(builtin.name()))?;
            let combine = builtin.combine(basic)?;
            let len = (count * basic.extent()) as usize;
            combine(input.bytes(0, len)?, inout.bytes_mut(0, len)?);
        }
        Err(user) => call(&user, input, inout, count, datatype, object.datatype.extent()),
    }
    Ok(())
}

fn bad_type(name: &str) -> Error {
    Error::new(Class::Op, format!("{name} takes predefined datatypes only"))
}

/// Calls the program's function; one that takes an `int` is called for as much as an `int` can count at a time.
pub(crate) fn call(
    op: &UserOp,
    input: Memory,
    inout: Memory,
    count: i64,
    datatype: MPI_Datatype,
    extent: i64,
) {
    let (mut input, mut inout) = (input.address(), inout.address());
    if op.large {
        op.function.reduce_large(input, inout, count, datatype);
        return;
    }
    let mut left = count;
    while left > 0 {
        let now = left.min(c_int::MAX.into());
        op.function.reduce(input, inout, now as c_int, datatype);
        let step = now.wrapping_mul(extent);
        input = input.wrapping_add_signed(step as isize);
        inout = inout.wrapping_add_signed(step as isize);
        left -= now;
    }
}
