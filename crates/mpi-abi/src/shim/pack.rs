//! Packing and unpacking, native and `external32`.

use super::shims;
use crate::boundary::{MPI_Comm, MPI_Datatype, Memory, Out, Text};
use crate::object::TypeRef;
use crate::world::world;
use barewire::mpi::error::{Class, Error, Result};
use std::ffi::c_int;

shims! {
    fn PMPI_Pack(
        inbuf: Memory, incount: c_int, datatype: MPI_Datatype, outbuf: Memory, outsize: c_int,
        position: Out<c_int>, comm: MPI_Comm,
    ) on comm {
        world().comm(comm)?;
        let end = pack(inbuf, incount.into(), datatype, outbuf, outsize.into(), position.get()?.into())?;
        position.put(end as c_int)?
    }

    fn PMPI_Pack_c(
        inbuf: Memory, incount: i64, datatype: MPI_Datatype, outbuf: Memory, outsize: i64, position: Out<i64>,
        comm: MPI_Comm,
    ) on comm {
        world().comm(comm)?;
        position.put(pack(inbuf, incount, datatype, outbuf, outsize, position.get()?)?)?
    }

    fn PMPI_Unpack(
        inbuf: Memory, insize: c_int, position: Out<c_int>, outbuf: Memory, outcount: c_int,
        datatype: MPI_Datatype, comm: MPI_Comm,
    ) on comm {
        world().comm(comm)?;
        let end = unpack(inbuf, insize.into(), position.get()?.into(), outbuf, outcount.into(), datatype)?;
        position.put(end as c_int)?
    }

    fn PMPI_Unpack_c(
        inbuf: Memory, insize: i64, position: Out<i64>, outbuf: Memory, outcount: i64, datatype: MPI_Datatype,
        comm: MPI_Comm,
    ) on comm {
        world().comm(comm)?;
        position.put(unpack(inbuf, insize, position.get()?, outbuf, outcount, datatype)?)?
    }

    fn PMPI_Pack_size(incount: c_int, datatype: MPI_Datatype, comm: MPI_Comm, size: Out<c_int>) on comm {
        world().comm(comm)?;
        let bytes = world().datatype(datatype)?.datatype.packed_size(incount.into())?;
        let narrow = |_| Error::new(Class::ValueTooLarge, format!("{bytes} bytes; MPI_Pack_size_c can say that"));
        size.put(c_int::try_from(bytes).map_err(narrow)?)?
    }

    fn PMPI_Pack_size_c(incount: i64, datatype: MPI_Datatype, comm: MPI_Comm, size: Out<i64>) on comm {
        world().comm(comm)?;
        size.put(world().datatype(datatype)?.datatype.packed_size(incount)?)?
    }

    fn PMPI_Pack_external(
        datarep: Text, inbuf: Memory, incount: c_int, datatype: MPI_Datatype, outbuf: Memory, outsize: i64,
        position: Out<i64>,
    ) {
        pack_external(datarep, inbuf, incount.into(), datatype, outbuf, outsize, position)?
    }

    fn PMPI_Pack_external_c(
        datarep: Text, inbuf: Memory, incount: i64, datatype: MPI_Datatype, outbuf: Memory, outsize: i64,
        position: Out<i64>,
    ) {
        pack_external(datarep, inbuf, incount, datatype, outbuf, outsize, position)?
    }

    fn PMPI_Unpack_external(
        datarep: Text, inbuf: Memory, insize: i64, position: Out<i64>, outbuf: Memory, outcount: c_int,
        datatype: MPI_Datatype,
    ) {
        unpack_external(datarep, inbuf, insize, position, outbuf, outcount.into(), datatype)?
    }

    fn PMPI_Unpack_external_c(
        datarep: Text, inbuf: Memory, insize: i64, position: Out<i64>, outbuf: Memory, outcount: i64,
        datatype: MPI_Datatype,
    ) {
        unpack_external(datarep, inbuf, insize, position, outbuf, outcount, datatype)?
    }

    fn PMPI_Pack_external_size(datarep: Text, incount: c_int, datatype: MPI_Datatype, size: Out<i64>) {
        external32(datarep)?;
        size.put(world().datatype(datatype)?.datatype.external_size(incount.into())?)?
    }

    fn PMPI_Pack_external_size_c(datarep: Text, incount: i64, datatype: MPI_Datatype, size: Out<i64>) {
        external32(datarep)?;
        size.put(world().datatype(datatype)?.datatype.external_size(incount)?)?
    }
}

fn pack(
    input: Memory,
    count: i64,
    datatype: MPI_Datatype,
    mut out: Memory,
    room: i64,
    position: i64,
) -> Result<i64> {
    let object = usable(datatype, input, count)?;
    let size = object.datatype.packed_size(count)?;
    let end = place(position, size, room)?;
    object.datatype.pack(count, &input, 0, out.bytes_mut(position, size as usize)?);
    Ok(end)
}

fn unpack(
    input: Memory,
    len: i64,
    position: i64,
    mut out: Memory,
    count: i64,
    datatype: MPI_Datatype,
) -> Result<i64> {
    let object = usable(datatype, out, count)?;
    let size = object.datatype.packed_size(count)?;
    let end = place(position, size, len)?;
    object.datatype.unpack(count, &mut out, 0, input.bytes(position, size as usize)?);
    Ok(end)
}

fn pack_external(
    representation: Text,
    input: Memory,
    count: i64,
    datatype: MPI_Datatype,
    mut out: Memory,
    room: i64,
    position: Out<i64>,
) -> Result<()> {
    external32(representation)?;
    let object = usable(datatype, input, count)?;
    let (from, size) = (position.get()?, object.datatype.external_size(count)?);
    let end = place(from, size, room)?;
    object.datatype.pack_external(count, &input, out.bytes_mut(from, size as usize)?)?;
    position.put(end)
}

fn unpack_external(
    representation: Text,
    input: Memory,
    len: i64,
    position: Out<i64>,
    mut out: Memory,
    count: i64,
    datatype: MPI_Datatype,
) -> Result<()> {
    external32(representation)?;
    let object = usable(datatype, out, count)?;
    let (from, size) = (position.get()?, object.datatype.external_size(count)?);
    let end = place(from, size, len)?;
    object.datatype.unpack_external(count, &mut out, input.bytes(from, size as usize)?)?;
    position.put(end)
}

/// A committed datatype whose data at this address is not at the null page.
pub(crate) fn usable(datatype: MPI_Datatype, memory: Memory, count: i64) -> Result<TypeRef> {
    let object = world().datatype(datatype)?;
    if !object.is_committed() {
        return Err(Error::new(Class::Type, "the datatype is not committed"));
    }
    let bytes = object.datatype.packed_size(count)?;
    if bytes > 0 && memory.is_in_place() {
        return Err(Error::new(Class::Buffer, "MPI_IN_PLACE is not for this buffer"));
    }
    let absolute = object.datatype.true_lower_bound();
    if bytes > 0 && memory.address() == 0 && (0..NULL_PAGE).contains(&absolute) {
        return Err(Error::new(Class::Buffer, "the buffer is null"));
    }
    Ok(object)
}

/// No object lies below this address; a null buffer is MPI_BOTTOM only for datatypes with absolute addresses.
const NULL_PAGE: i64 = 4096;

/// The position after `size` bytes at `position`, if the buffer holds them.
fn place(position: i64, size: i64, room: i64) -> Result<i64> {
    match position.checked_add(size) {
        Some(end) if position >= 0 && end <= room => Ok(end),
        _ => {
            let what = format!("{size} bytes at position {position} do not fit a buffer of {room} bytes");
            Err(Error::new(Class::Truncate, what))
        }
    }
}

fn external32(representation: Text) -> Result<()> {
    let name = representation.to_vec()?;
    if name == b"external32" {
        return Ok(());
    }
    let what = format!("{:?} is not a data representation; external32 is", String::from_utf8_lossy(&name));
    Err(Error::new(Class::Arg, what))
}
