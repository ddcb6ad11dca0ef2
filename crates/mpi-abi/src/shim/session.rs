//! Sessions: the two process sets every job has.

use super::shims;
use crate::boundary::{MPI_Errhandler, MPI_Group, MPI_Info, MPI_Session, Out, OutText, Text};
use crate::object::Session;
use crate::shim::env::THREAD_LEVELS;
use crate::shim::group;
use crate::shim::info::give;
use crate::world::{bad, world};
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::group::{Group, Process};
use barewire::mpi::info::Info;
use std::ffi::c_int;
use std::sync::Arc;

const SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

shims! {
    fn PMPI_Session_init(info: MPI_Info, errhandler: MPI_Errhandler, session: Out<MPI_Session>) {
        let (hints, errhandler) = (world().hints(info)?, world().errhandler(errhandler)?);
        let wanted = hints.get("thread_level").unwrap_or(b"MPI_THREAD_MULTIPLE");
        let level = THREAD_LEVELS.iter().find(|(_, name)| name.as_bytes() == wanted);
        world().begin_session(level.map_or(0, |(level, _)| *level))?;
        session.put(MPI_Session(world().sessions.insert(Session::new(hints, errhandler))))?
    }

    fn PMPI_Session_finalize(session: Out<MPI_Session>) {
        let handle = session.get()?;
        find(handle)?;
        world().sessions.release(handle.0);
        session.put(MPI_Session::NULL)?;
        world().end_session()?
    }

    fn PMPI_Session_get_info(session: MPI_Session, info_used: Out<MPI_Info>) on session {
        let mut info = find(session)?.info.clone();
        let level = world().job().map_or(0, |job| job.thread_level);
        let name = THREAD_LEVELS.iter().find(|(known, _)| *known == level).map_or("MPI_THREAD_SINGLE", |(_, name)| name);
        info.set("thread_level", name)?;
        info_used.put(give(info))?
    }

    fn PMPI_Session_get_num_psets(session: MPI_Session, info: MPI_Info, npset_names: Out<c_int>) on session {
        world().hints(info)?;
        find(session)?;
        npset_names.put(SETS.len() as c_int)?
    }

    fn PMPI_Session_get_nth_pset(
        session: MPI_Session, info: MPI_Info, n: c_int, pset_len: Out<c_int>, pset_name: OutText,
    ) on session {
        world().hints(info)?;
        find(session)?;
        let name = usize::try_from(n).ok().and_then(|n| SETS.get(n));
        let name = name.ok_or_else(|| Error::new(Class::Arg, format!("there is no process set number {n}")))?;
        let room = pset_len.get()?;
        if room > 0 {
            pset_name.put(name.as_bytes(), room as usize)?;
        }
        pset_len.put(name.len() as c_int + 1)?
    }

    fn PMPI_Session_get_pset_info(session: MPI_Session, pset_name: Text, info: Out<MPI_Info>) on session {
        find(session)?;
        let mut sizes = Info::new();
        sizes.set("mpi_size", members(&pset_name.to_vec()?)?.size().to_string())?;
        info.put(give(sizes))?
    }

    fn PMPI_Group_from_session_pset(session: MPI_Session, pset_name: Text, newgroup: Out<MPI_Group>) on session {
        find(session)?;
        newgroup.put(group::give(members(&pset_name.to_vec()?)?))?
    }
}

/// A session by its handle.
pub(crate) fn find(session: MPI_Session) -> Result<Arc<Session>> {
    world().sessions.get(session.0).ok_or_else(|| bad(Class::Session, "MPI_SESSION_NULL", session.0, 0x120))
}

/// The processes of a set, by its name in letters of either case.
fn members(name: &[u8]) -> Result<Group> {
    let job = world().job()?;
    match SETS.iter().position(|set| set.as_bytes().eq_ignore_ascii_case(name)) {
        Some(0) => Ok(Group::first(job.net.size)),
        Some(_) => Group::new([Process(job.net.rank)]),
        None => {
            let what = format!("there is no process set {:?}", String::from_utf8_lossy(name));
            Err(Error::new(Class::Arg, what))
        }
    }
}
