//! Operations on windows, for counts of either width.

use super::shims;
use super::win::find;
use crate::boundary::{MPI_Datatype, MPI_Op, MPI_Request, MPI_Win, Memory, Out};
use crate::coll::entry::Number;
use crate::fault::Fault;
use crate::rma::origin::Target;
use crate::world::world;
use barewire::mpi::datatype::Basic;
use barewire::mpi::error::{Class, Error};
use std::ffi::c_int;

shims! {
    fn PMPI_Fetch_and_op(
        origin_addr: Memory, result_addr: Memory, datatype: MPI_Datatype, target_rank: c_int, target_disp: i64, op: MPI_Op,
        win: MPI_Win,
    ) on win {
        let window = find(win)?;
        let is_predefined = Basic::solid_size(datatype.0).is_some()
            || world().datatype(datatype)?.datatype.operand().is_some();
        if !is_predefined {
            return Err(Error::new(Class::Type, "the type is not a predefined one").into());
        }
        let target = Target { rank: target_rank, displacement: target_disp, count: 1, datatype };
        let started =
            window.accumulate((origin_addr, 1, datatype), Some((result_addr, 1, datatype)), target, op)?;
        window.leave(started)?
    }

    fn PMPI_Compare_and_swap(
        origin_addr: Memory, compare_addr: Memory, result_addr: Memory, datatype: MPI_Datatype, target_rank: c_int,
        target_disp: i64, win: MPI_Win,
    ) on win {
        let window = find(win)?;
        let target = Target { rank: target_rank, displacement: target_disp, count: 1, datatype };
        let started = window.compare_and_swap(origin_addr, compare_addr, result_addr, datatype, target)?;
        window.leave(started)?
    }
}

/// `MPI_Put`.
#[inline]
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn put<N: Number>(
    origin_addr: Memory,
    origin_count: N,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: i64,
    target_count: N,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<(), Fault> {
    let window = find(win)?;
    let target = Target {
        rank: target_rank,
        displacement: target_disp,
        count: target_count.into(),
        datatype: target_datatype,
    };
    let mine = (origin_addr, origin_count.into(), origin_datatype);
    let started = window.put(mine, target)?;
    Ok(window.leave(started)?)
}

/// `MPI_Get`.
#[inline]
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn get<N: Number>(
    origin_addr: Memory,
    origin_count: N,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: i64,
    target_count: N,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<(), Fault> {
    let window = find(win)?;
    let target = Target {
        rank: target_rank,
        displacement: target_disp,
        count: target_count.into(),
        datatype: target_datatype,
    };
    let mine = (origin_addr, origin_count.into(), origin_datatype);
    let started = window.get(mine, target)?;
    Ok(window.leave(started)?)
}

/// `MPI_Accumulate`.
#[inline]
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn accumulate<N: Number>(
    origin_addr: Memory,
    origin_count: N,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: i64,
    target_count: N,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<(), Fault> {
    let window = find(win)?;
    let target = Target {
        rank: target_rank,
        displacement: target_disp,
        count: target_count.into(),
        datatype: target_datatype,
    };
    let mine = (origin_addr, origin_count.into(), origin_datatype);
    let started = window.accumulate(mine, None, target, op)?;
    Ok(window.leave(started)?)
}

/// `MPI_Get_accumulate`.
#[inline]
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn get_accumulate<N: Number>(
    origin_addr: Memory,
    origin_count: N,
    origin_datatype: MPI_Datatype,
    result_addr: Memory,
    result_count: N,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: i64,
    target_count: N,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<(), Fault> {
    let window = find(win)?;
    let target = Target {
        rank: target_rank,
        displacement: target_disp,
        count: target_count.into(),
        datatype: target_datatype,
    };
    let mine = (origin_addr, origin_count.into(), origin_datatype);
    let started =
        window.accumulate(mine, Some((result_addr, result_count.into(), result_datatype)), target, op)?;
    Ok(window.leave(started)?)
}

/// `MPI_Rput`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn rput<N: Number>(
    origin_addr: Memory,
    origin_count: N,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: i64,
    target_count: N,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let window = find(win)?;
    let target = Target {
        rank: target_rank,
        displacement: target_disp,
        count: target_count.into(),
        datatype: target_datatype,
    };
    let mine = (origin_addr, origin_count.into(), origin_datatype);
    let started = window.put(mine, target)?;
    Ok(request.put(MPI_Request(window.follow(started)?))?)
}

/// `MPI_Rget`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn rget<N: Number>(
    origin_addr: Memory,
    origin_count: N,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: i64,
    target_count: N,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let window = find(win)?;
    let target = Target {
        rank: target_rank,
        displacement: target_disp,
        count: target_count.into(),
        datatype: target_datatype,
    };
    let mine = (origin_addr, origin_count.into(), origin_datatype);
    let started = window.get(mine, target)?;
    Ok(request.put(MPI_Request(window.follow(started)?))?)
}

/// `MPI_Raccumulate`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn raccumulate<N: Number>(
    origin_addr: Memory,
    origin_count: N,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: i64,
    target_count: N,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let window = find(win)?;
    let target = Target {
        rank: target_rank,
        displacement: target_disp,
        count: target_count.into(),
        datatype: target_datatype,
    };
    let mine = (origin_addr, origin_count.into(), origin_datatype);
    let started = window.accumulate(mine, None, target, op)?;
    Ok(request.put(MPI_Request(window.follow(started)?))?)
}

/// `MPI_Rget_accumulate`.
#[allow(clippy::too_many_arguments, reason = "the standard says so")]
pub(crate) fn rget_accumulate<N: Number>(
    origin_addr: Memory,
    origin_count: N,
    origin_datatype: MPI_Datatype,
    result_addr: Memory,
    result_count: N,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: i64,
    target_count: N,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: Out<MPI_Request>,
) -> Result<(), Fault> {
    let window = find(win)?;
    let target = Target {
        rank: target_rank,
        displacement: target_disp,
        count: target_count.into(),
        datatype: target_datatype,
    };
    let mine = (origin_addr, origin_count.into(), origin_datatype);
    let started =
        window.accumulate(mine, Some((result_addr, result_count.into(), result_datatype)), target, op)?;
    Ok(request.put(MPI_Request(window.follow(started)?))?)
}
