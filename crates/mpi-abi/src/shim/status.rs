//! Statuses: what a receive or a generalised request says about itself.

use super::shims;
use crate::boundary::{MPI_Datatype, Out, Status};
use crate::world::{UNDEFINED, world};
use barewire::mpi::datatype::Datatype;
use barewire::mpi::error::{Class, Error, Result};
use std::ffi::c_int;

shims! {
    fn PMPI_Get_count(status: Out<Status>, datatype: MPI_Datatype, count: Out<c_int>) {
        count.put(narrow(whole(status, datatype)?))?
    }

    fn PMPI_Get_count_c(status: Out<Status>, datatype: MPI_Datatype, count: Out<i64>) {
        count.put(whole(status, datatype)?.unwrap_or(UNDEFINED.into()))?
    }

    fn PMPI_Get_elements(status: Out<Status>, datatype: MPI_Datatype, count: Out<c_int>) {
        count.put(narrow(elements(status, datatype)?))?
    }

    fn PMPI_Get_elements_c(status: Out<Status>, datatype: MPI_Datatype, count: Out<i64>) {
        count.put(elements(status, datatype)?.unwrap_or(UNDEFINED.into()))?
    }

    fn PMPI_Get_elements_x(status: Out<Status>, datatype: MPI_Datatype, count: Out<i64>) {
        count.put(elements(status, datatype)?.unwrap_or(UNDEFINED.into()))?
    }

    fn PMPI_Status_set_elements(status: Out<Status>, datatype: MPI_Datatype, count: c_int) {
        set_elements(status, datatype, count.into())?
    }

    fn PMPI_Status_set_elements_c(status: Out<Status>, datatype: MPI_Datatype, count: i64) {
        set_elements(status, datatype, count)?
    }

    fn PMPI_Status_set_elements_x(status: Out<Status>, datatype: MPI_Datatype, count: i64) {
        set_elements(status, datatype, count)?
    }

    fn PMPI_Test_cancelled(status: Out<Status>, flag: Out<c_int>) {
        flag.put(status.get()?.cancelled().into())?
    }

    fn PMPI_Status_set_cancelled(status: Out<Status>, flag: c_int) {
        change(status, |status| status.set_cancelled(flag != 0))?
    }

    fn PMPI_Status_get_source(status: Out<Status>, source: Out<c_int>) {
        source.put(status.get()?.source)?
    }

    fn PMPI_Status_get_tag(status: Out<Status>, tag: Out<c_int>) {
        tag.put(status.get()?.tag)?
    }

    fn PMPI_Status_get_error(status: Out<Status>, error: Out<c_int>) {
        error.put(status.get()?.error)?
    }

    fn PMPI_Status_set_source(status: Out<Status>, source: c_int) {
        change(status, |status| status.source = source)?
    }

    fn PMPI_Status_set_tag(status: Out<Status>, tag: c_int) {
        change(status, |status| status.tag = tag)?
    }

    fn PMPI_Status_set_error(status: Out<Status>, error: c_int) {
        change(status, |status| status.error = error)?
    }
}

fn change(status: Out<Status>, how: impl FnOnce(&mut Status)) -> Result<()> {
    let mut changed = status.get()?;
    how(&mut changed);
    status.put(changed)
}

/// Whole elements received; none where the last one is not whole.
fn whole(status: Out<Status>, datatype: MPI_Datatype) -> Result<Option<i64>> {
    let bytes = status.get()?.bytes();
    let size = world().datatype(datatype)?.datatype.size();
    Ok(match (size, bytes) {
        (0, 0) => Some(0),
        (0, _) => None,
        _ => (bytes % size == 0).then_some(bytes / size),
    })
}

fn elements(status: Out<Status>, datatype: MPI_Datatype) -> Result<Option<i64>> {
    Ok(world().datatype(datatype)?.datatype.elements_in(status.get()?.bytes()))
}

fn narrow(count: Option<i64>) -> c_int {
    count.and_then(|count| c_int::try_from(count).ok()).unwrap_or(UNDEFINED)
}

fn set_elements(status: Out<Status>, datatype: MPI_Datatype, count: i64) -> Result<()> {
    let bytes = bytes_of(&world().datatype(datatype)?.datatype, count)?;
    change(status, |status| status.set_bytes(bytes))
}

/// Bytes of the first `elements` basic elements.
fn bytes_of(datatype: &Datatype, elements: i64) -> Result<i64> {
    if elements < 0 {
        return Err(Error::new(Class::Count, format!("count is {elements}")));
    }
    datatype
        .bytes_of_elements(elements)
        .ok_or_else(|| Error::new(Class::Count, "the bytes do not fit in 64 bits"))
}
