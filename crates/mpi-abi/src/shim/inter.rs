//! Intercommunicators: two groups that talk to each other.

use super::shims;
use crate::boundary::{MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, Out, Text};
use crate::object::Comm;
use crate::shim::comm::{between, give, merge, remote, tag_of};
use crate::world::{TAG_UB, lock, world};
use barewire::core::Peer;
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::group::Process;
use std::ffi::c_int;

/// Tags of the leaders' messages lie below all others.
const LEADERS: c_int = c_int::MIN;

shims! {
    fn PMPI_Intercomm_create(
        local_comm: MPI_Comm, local_leader: c_int, peer_comm: MPI_Comm, remote_leader: c_int, tag: c_int,
        newintercomm: Out<MPI_Comm>,
    ) on local_comm {
        newintercomm.put(MPI_Comm::NULL)?;
        let local = world().comm(local_comm)?;
        if local.remote().is_some() {
            return Err(Error::new(Class::Comm, "local_comm is an intercommunicator").into());
        }
        let leader = rank_in(&local, local_leader)?;
        if !(0..=TAG_UB).contains(&tag) {
            return Err(Error::new(Class::Tag, format!("tag is {tag}")).into());
        }
        let bridge = match local.rank == leader {
            true => {
                let bridge = world().comm(peer_comm)?;
                let Process(peer) = bridge.partners().process(remote_leader)?;
                Some(move |mine: &[u8]| bridge.net.swap(&bridge, Peer(peer), LEADERS + tag, mine))
            }
            false => None,
        };
        let made = between(&local, bridge, leader, local.next_tag())?;
        newintercomm.put(give(Some(made)))?
    }

    fn PMPI_Intercomm_create_from_groups(
        local_group: MPI_Group, local_leader: c_int, remote_group: MPI_Group, remote_leader: c_int, stringtag: Text,
        info: MPI_Info, errhandler: MPI_Errhandler, newintercomm: Out<MPI_Comm>,
    ) {
        newintercomm.put(MPI_Comm::NULL)?;
        let tag = tag_of(&stringtag.to_vec()?) & TAG_UB;
        let (local, remote) = (world().group(local_group)?, world().group(remote_group)?);
        let (hints, errhandler) = (world().hints(info)?, world().errhandler(errhandler)?);
        let all = world().comm(MPI_Comm(0x101))?;
        let Some(rank) = local.rank_of(Process(all.net.rank)) else {
            newintercomm.put(MPI_Comm::NULL)?;
            return Ok(());
        };
        let alone = Comm::new(&all.net, all.context(), local, rank);
        let leader = rank_in(&alone, local_leader)?;
        let peer = if rank == leader { Some(Peer(remote.process(remote_leader)?.0)) } else { None };
        let all = &all;
        let bridge = peer.map(|peer| move |mine: &[u8]| all.net.swap(all, peer, LEADERS + tag, mine));
        let made = between(&alone, bridge, leader, LEADERS + tag)?;
        made.set_errhandler(errhandler);
        *lock(&made.info) = hints;
        newintercomm.put(give(Some(made)))?
    }

    fn PMPI_Intercomm_merge(intercomm: MPI_Comm, high: c_int, newintracomm: Out<MPI_Comm>) on intercomm {
        newintracomm.put(MPI_Comm::NULL)?;
        remote(intercomm)?;
        newintracomm.put(give(Some(merge(&*world().comm(intercomm)?, high != 0)?)))?
    }
}

fn rank_in(comm: &Comm, rank: c_int) -> Result<usize> {
    comm.group.process(rank).map(|_| rank as usize)
}
