//! Groups.

use super::shims;
use crate::boundary::{List, MPI_Comm, MPI_Group, Out, OutList};
use crate::world::{PROC_NULL, UNDEFINED, world};
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::group::{Group, Process, Range};
use std::ffi::c_int;

/// The handle of a group; the empty one has a predefined handle.
pub(crate) fn give(group: Group) -> MPI_Group {
    if group.size() == 0 { MPI_Group(0x109) } else { MPI_Group(world().groups.insert(group)) }
}

shims! {
    fn PMPI_Comm_group(comm: MPI_Comm, group: Out<MPI_Group>) on comm {
        group.put(give(world().comm(comm)?.group.clone()))?
    }

    fn PMPI_Group_size(group: MPI_Group, size: Out<c_int>) {
        size.put(world().group(group)?.size() as c_int)?
    }

    fn PMPI_Group_rank(group: MPI_Group, rank: Out<c_int>) {
        let own = Process(world().rank_in_job().unwrap_or(0));
        rank.put(world().group(group)?.rank_of(own).map_or(UNDEFINED, |rank| rank as c_int))?
    }

    fn PMPI_Group_compare(group1: MPI_Group, group2: MPI_Group, result: Out<c_int>) {
        result.put(world().group(group1)?.compare(&world().group(group2)?) as c_int)?
    }

    fn PMPI_Group_union(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        newgroup.put(give(world().group(group1)?.union(&world().group(group2)?)))?
    }

    fn PMPI_Group_intersection(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        newgroup.put(give(world().group(group1)?.intersection(&world().group(group2)?)))?
    }

    fn PMPI_Group_difference(group1: MPI_Group, group2: MPI_Group, newgroup: Out<MPI_Group>) {
        newgroup.put(give(world().group(group1)?.difference(&world().group(group2)?)))?
    }

    fn PMPI_Group_incl(group: MPI_Group, n: c_int, ranks: List<c_int>, newgroup: Out<MPI_Group>) {
        newgroup.put(give(world().group(group)?.include(&ranks.to_vec(length(n)?)?)?))?
    }

    fn PMPI_Group_excl(group: MPI_Group, n: c_int, ranks: List<c_int>, newgroup: Out<MPI_Group>) {
        newgroup.put(give(world().group(group)?.exclude(&ranks.to_vec(length(n)?)?)?))?
    }

    fn PMPI_Group_range_incl(group: MPI_Group, n: c_int, ranges: List<[c_int; 3]>, newgroup: Out<MPI_Group>) {
        newgroup.put(give(world().group(group)?.range_include(&read(ranges, n)?)?))?
    }

    fn PMPI_Group_range_excl(group: MPI_Group, n: c_int, ranges: List<[c_int; 3]>, newgroup: Out<MPI_Group>) {
        newgroup.put(give(world().group(group)?.range_exclude(&read(ranges, n)?)?))?
    }

    fn PMPI_Group_translate_ranks(
        group1: MPI_Group, n: c_int, ranks1: List<c_int>, group2: MPI_Group, ranks2: OutList<c_int>,
    ) {
        let (from, to) = (world().group(group1)?, world().group(group2)?);
        let ranks = ranks1.to_vec(length(n)?)?;
        let known: Vec<c_int> = ranks.iter().copied().filter(|&rank| rank != PROC_NULL).collect();
        let mut found = from.translate(&known, &to)?.into_iter();
        let place = |rank: &c_int| match *rank {
            PROC_NULL => PROC_NULL,
            _ => found.next().flatten().map_or(UNDEFINED, |rank| rank as c_int),
        };
        ranks2.put(&ranks.iter().map(place).collect::<Vec<_>>())?
    }

    fn PMPI_Group_free(group: Out<MPI_Group>) {
        let handle = group.get()?;
        world().group(handle)?;
        world().groups.release(handle.0);
        group.put(MPI_Group::NULL)?
    }
}

fn length(n: c_int) -> Result<i64> {
    if n < 0 { Err(Error::new(Class::Arg, format!("n is {n}"))) } else { Ok(n.into()) }
}

fn read(ranges: List<[c_int; 3]>, n: c_int) -> Result<Vec<Range>> {
    let range = |[first, last, stride]: [c_int; 3]| Range { first, last, stride };
    Ok(ranges.to_vec(length(n)?)?.into_iter().map(range).collect())
}
