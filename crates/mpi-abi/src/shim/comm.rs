//! Communicators: making, comparing, naming and freeing them.
//!
//! A new communicator's context number is the largest any of its makers proposes, so it is new to all of them.

use super::shims;
use crate::boundary::{MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, Out, OutText, Text};
use crate::fault::Fault;
use crate::object::Comm;
use crate::shim::group;
use crate::shim::info::give as give_info;
use crate::world::{UNDEFINED, lock, world};
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::group::{Comparison, Group, Process};
use barewire::mpi::info::Info;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The longest name of an object, with its final zero.
pub const NAME_MAX: usize = 128;
const COMM_TYPE_SHARED: c_int = 221;
const COMM_TYPES: std::ops::RangeInclusive<c_int> = 221..=224;

/// The next context number this process would propose; 0 and 1 are the predefined communicators'.
static NEXT_CONTEXT: AtomicU32 = AtomicU32::new(2);

shims! {
    fn PMPI_Comm_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        size.put(world().comm(comm)?.group.size() as c_int)?
    }

    fn PMPI_Comm_rank(comm: MPI_Comm, rank: Out<c_int>) on comm {
        rank.put(world().comm(comm)?.rank as c_int)?
    }

    fn PMPI_Comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: Out<c_int>) on comm1 {
        let (one, two) = (world().comm(comm1)?, world().comm(comm2)?);
        result.put(compare(one.shared(), two.shared()) as c_int)?
    }

    fn PMPI_Comm_test_inter(comm: MPI_Comm, flag: Out<c_int>) on comm {
        flag.put(world().comm(comm)?.remote.is_some().into())?
    }

    fn PMPI_Comm_remote_size(comm: MPI_Comm, size: Out<c_int>) on comm {
        size.put(remote(comm)?.size() as c_int)?
    }

    fn PMPI_Comm_remote_group(comm: MPI_Comm, group: Out<MPI_Group>) on comm {
        group.put(group::give(remote(comm)?))?
    }

    fn PMPI_Comm_get_parent(parent: Out<MPI_Comm>) {
        parent.put(MPI_Comm::NULL)?
    }

    fn PMPI_Comm_dup(comm: MPI_Comm, newcomm: Out<MPI_Comm>) on comm {
        let hints = world().comm(comm)?.hints();
        dup(comm, hints, newcomm)?
    }

    fn PMPI_Comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: Out<MPI_Comm>) on comm {
        dup(comm, world().hints(info)?, newcomm)?
    }

    fn PMPI_Comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: Out<MPI_Comm>) on comm {
        if color < 0 && color != UNDEFINED {
            return Err(Error::new(Class::Arg, format!("color is {color}")).into());
        }
        newcomm.put(give(split(&*world().comm(comm)?, color, key)?))?
    }

    fn PMPI_Comm_split_type(comm: MPI_Comm, split_type: c_int, key: c_int, info: MPI_Info, newcomm: Out<MPI_Comm>) on comm {
        if split_type != UNDEFINED && !COMM_TYPES.contains(&split_type) {
            return Err(Error::new(Class::Arg, format!("split_type is {split_type}")).into());
        }
        let guided = world().hints(info)?.get("mpi_hw_resource_type") == Some(b"mpi_shared_memory");
        let parent = world().comm(comm)?;
        let color = if split_type == COMM_TYPE_SHARED || (split_type != UNDEFINED && guided) {
            host_color(&parent)?
        } else {
            UNDEFINED
        };
        newcomm.put(give(split(&parent, color, key)?))?
    }

    fn PMPI_Comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: Out<MPI_Comm>) on comm {
        let (parent, group) = (world().comm(comm)?, world().group(group)?);
        subset(&group, &parent)?;
        let context = agree(&parent)?;
        newcomm.put(give(derive(&parent, context, group)?))?
    }

    fn PMPI_Comm_create_group(comm: MPI_Comm, group: MPI_Group, tag: c_int, newcomm: Out<MPI_Comm>) on comm {
        let (parent, group) = (world().comm(comm)?, world().group(group)?);
        subset(&group, &parent)?;
        if tag < 0 {
            return Err(Error::new(Class::Tag, format!("tag is {tag}")).into());
        }
        newcomm.put(give(from_group(&parent, group, tag)?))?
    }

    fn PMPI_Comm_create_from_group(
        group: MPI_Group,
        stringtag: Text,
        info: MPI_Info,
        errhandler: MPI_Errhandler,
        newcomm: Out<MPI_Comm>,
    ) {
        let tag = tag_of(&stringtag.to_vec()?);
        let (group, hints) = (world().group(group)?, world().hints(info)?);
        let errhandler = world().errhandler(errhandler)?;
        let made = from_group(&*world().comm(MPI_Comm(0x101))?, group, tag)?;
        if let Some(comm) = &made {
            comm.set_errhandler(errhandler);
            *lock(&comm.info) = hints;
        }
        newcomm.put(give(made))?
    }

    fn PMPI_Comm_free(comm: Out<MPI_Comm>) {
        free(comm)?
    }

    fn PMPI_Comm_disconnect(comm: Out<MPI_Comm>) {
        free(comm)?
    }

    fn PMPI_Comm_set_name(comm: MPI_Comm, comm_name: Text) on comm {
        world().comm(comm)?.set_name(name(comm_name)?.as_slice())
    }

    fn PMPI_Comm_get_name(comm: MPI_Comm, comm_name: OutText, resultlen: Out<c_int>) on comm {
        let name = if comm == MPI_Comm::NULL { b"MPI_COMM_NULL".to_vec() } else { world().comm(comm)?.name() };
        resultlen.put(comm_name.put(&name, NAME_MAX)? as c_int)?
    }

    fn PMPI_Comm_set_info(comm: MPI_Comm, info: MPI_Info) on comm {
        let (comm, hints) = (world().comm(comm)?, world().hints(info)?);
        *lock(&comm.info) = hints;
    }

    fn PMPI_Comm_get_info(comm: MPI_Comm, info_used: Out<MPI_Info>) on comm {
        let hints = world().comm(comm)?.hints();
        info_used.put(give_info(hints))?
    }
}

/// A name as the program gave it, cut to the length the standard allows.
pub fn name(text: Text) -> Result<Vec<u8>> {
    let mut name = text.to_vec()?;
    name.truncate(NAME_MAX - 1);
    Ok(name)
}

fn compare(one: &Arc<Comm>, two: &Arc<Comm>) -> Comparison {
    if Arc::ptr_eq(one, two) {
        return Comparison::Identical;
    }
    let local = one.group.compare(&two.group);
    let remote = match (&one.remote, &two.remote) {
        (None, None) => Comparison::Identical,
        (Some(one), Some(two)) => one.compare(two),
        _ => Comparison::Unequal,
    };
    match (local, remote) {
        (Comparison::Identical, Comparison::Identical) => Comparison::Congruent,
        (Comparison::Unequal, _) | (_, Comparison::Unequal) => Comparison::Unequal,
        _ => Comparison::Similar,
    }
}

fn remote(comm: MPI_Comm) -> Result<Group> {
    let remote = world().comm(comm)?.remote.clone();
    remote.ok_or_else(|| Error::new(Class::Comm, "the communicator is not an intercommunicator"))
}

fn dup(comm: MPI_Comm, hints: Info, newcomm: Out<MPI_Comm>) -> Result<(), Fault> {
    let parent = world().comm(comm)?;
    let attributes = parent.attributes.copy(comm.0)?;
    let context = agree(&parent)?;
    let mut copy = Comm::new(&parent.net, context, parent.group.clone(), parent.rank);
    copy.attributes = attributes;
    copy.remote = parent.remote.clone();
    copy.topology = parent.topology.clone();
    copy.set_errhandler(parent.errhandler());
    *lock(&copy.info) = hints;
    Ok(newcomm.put(MPI_Comm(world().comms.insert(copy)))?)
}

/// A context number that is new to every process of `comm`.
fn agree(comm: &Comm) -> Result<u32> {
    let said = gather(comm, comm.next_tag(), [0; 2])?;
    Ok(said.context)
}

/// What the processes of a communicator said, and the context number that follows from it.
struct Said {
    context: u32,
    words: Vec<[c_int; 2]>,
}

/// Tells everybody two numbers, and agrees on a context number on the way.
fn gather(comm: &Comm, tag: i32, words: [c_int; 2]) -> Result<Said> {
    // SYNC context: only this number is shared; what communicators exist is ordered by the calls that made them.
    let next = NEXT_CONTEXT.load(Ordering::Relaxed);
    let mine = [next.to_le_bytes(), words[0].to_le_bytes(), words[1].to_le_bytes()].concat();
    let mut said = Said { context: next, words: Vec::new() };
    for reply in comm.net.all_gather(comm, tag, &mine)? {
        let word = |i: usize| reply.get(4 * i..4 * i + 4).and_then(|bytes| bytes.try_into().ok());
        let (Some(next), Some(a), Some(b)) = (word(0), word(1), word(2)) else {
            return Err(Error::new(Class::Intern, "a process sent too short a proposal for a communicator"));
        };
        said.context = said.context.max(u32::from_le_bytes(next));
        said.words.push([c_int::from_le_bytes(a), c_int::from_le_bytes(b)]);
    }
    NEXT_CONTEXT.fetch_max(said.context.saturating_add(1), Ordering::Relaxed);
    Ok(said)
}

/// The communicator of those who say the same color, ordered by key; none for an undefined color.
pub fn split(parent: &Comm, color: c_int, key: c_int) -> Result<Option<Comm>> {
    let said = gather(parent, parent.next_tag(), [color, key])?;
    let mut mine: Vec<(c_int, usize)> = said
        .words
        .iter()
        .enumerate()
        .filter(|(_, words)| words[0] == color && color != UNDEFINED)
        .map(|(rank, words)| (words[1], rank))
        .collect();
    mine.sort_unstable();
    let ranks: Vec<i32> = mine.into_iter().map(|(_, rank)| rank as i32).collect();
    derive(parent, said.context, parent.group.include(&ranks)?)
}

/// A color that processes on the same host share: the rank of the first of them.
fn host_color(parent: &Comm) -> Result<c_int> {
    let host = rustix::system::uname().nodename().to_bytes().to_vec();
    let hosts = parent.net.all_gather(parent, parent.next_tag(), &host)?;
    Ok(hosts.iter().position(|other| *other == host).map_or(UNDEFINED, |rank| rank as c_int))
}

fn subset(group: &Group, parent: &Comm) -> Result<()> {
    match group.difference(&parent.group).members().first() {
        Some(Process(stranger)) => {
            Err(Error::new(Class::Group, format!("process {stranger} is not in the communicator")))
        }
        None => Ok(()),
    }
}

/// A tag for a string: those who say the same string find each other.
fn tag_of(text: &[u8]) -> c_int {
    let hash =
        text.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    (hash & 0x3fff_ffff | 0x4000_0000) as c_int
}

/// Makes a communicator by the processes of a group alone.
fn from_group(parent: &Comm, group: Group, tag: i32) -> Result<Option<Comm>> {
    let own = Process(parent.net.rank);
    let Some(rank) = group.rank_of(own) else { return Ok(None) };
    let context =
        gather(&Comm::new(&parent.net, parent.context, group.clone(), rank), -1 - tag, [0; 2])?.context;
    derive(parent, context, group)
}

/// A new communicator that takes its error handler from its parent; none for a process outside the group.
fn derive(parent: &Comm, context: u32, group: Group) -> Result<Option<Comm>> {
    let own = Process(parent.net.rank);
    let Some(rank) = group.rank_of(own) else { return Ok(None) };
    let comm = Comm::new(&parent.net, context, group, rank);
    comm.set_errhandler(parent.errhandler());
    Ok(Some(comm))
}

/// The handle of a new communicator; null where there is none.
pub fn give(comm: Option<Comm>) -> MPI_Comm {
    comm.map_or(MPI_Comm::NULL, |comm| MPI_Comm(world().comms.insert(comm)))
}

fn free(comm: Out<MPI_Comm>) -> Result<(), Fault> {
    let handle = comm.get()?;
    let object = world().comm(handle)?;
    if handle.0 < crate::table::DYNAMIC {
        return Err(Error::new(Class::Comm, "a predefined communicator cannot be freed").into());
    }
    object.attributes.clear(handle.0)?;
    world().free_comm(handle);
    Ok(comm.put(MPI_Comm::NULL)?)
}
