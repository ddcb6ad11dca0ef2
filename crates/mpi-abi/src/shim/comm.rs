//! Communicators: making, comparing, naming and freeing them.
//!
//! A new communicator's number is made by the first of its makers: each process has numbers of its own to give, so none is given
//! twice, however many communicators are being made at once.

use super::shims;
use crate::boundary::{MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Request, Out, OutText, Text};
use crate::coll::{self, Call};
use crate::fault::Fault;
use crate::object::Comm;
use crate::p2p::task;
use crate::shim::group;
use crate::shim::info::give as give_info;
use crate::world::{UNDEFINED, lock, world};
use barewire::core::Peer;
use barewire::mpi::error::{Class, Error, Result};
use barewire::mpi::group::{Comparison, Group, Process};
use barewire::mpi::info::Info;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The longest name of an object, with its final zero.
pub(crate) const NAME_MAX: usize = 128;
const COMM_TYPE_SHARED: c_int = 221;
const COMM_TYPES: std::ops::RangeInclusive<c_int> = 221..=224;

/// How many numbers for communicators this process has given.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// The hints of communicators that the standard has, and what holds without them; others are ignored.
const HINTS: [(&str, &str); 4] = [
    ("mpi_assert_no_any_tag", "false"),
    ("mpi_assert_no_any_source", "false"),
    ("mpi_assert_exact_length", "false"),
    ("mpi_assert_allow_overtaking", "false"),
];

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
        flag.put(world().comm(comm)?.remote().is_some().into())?
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

    fn PMPI_Comm_idup(comm: MPI_Comm, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) on comm {
        let hints = world().comm(comm)?.hints();
        idup(comm, hints, newcomm, request)?
    }

    fn PMPI_Comm_idup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) on comm {
        idup(comm, world().hints(info)?, newcomm, request)?
    }

    fn PMPI_Comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: Out<MPI_Comm>) on comm {
        newcomm.put(MPI_Comm::NULL)?;
        if color < 0 && color != UNDEFINED {
            return Err(Error::new(Class::Arg, format!("color is {color}")).into());
        }
        newcomm.put(give(split(&*world().comm(comm)?, color, key)?))?
    }

    fn PMPI_Comm_split_type(comm: MPI_Comm, split_type: c_int, key: c_int, info: MPI_Info, newcomm: Out<MPI_Comm>) on comm {
        newcomm.put(MPI_Comm::NULL)?;
        if split_type != UNDEFINED && !COMM_TYPES.contains(&split_type) {
            return Err(Error::new(Class::Arg, format!("split_type is {split_type}")).into());
        }
        let guided = world().hints(info)?.get("mpi_hw_resource_type") == Some(b"mpi_shared_memory");
        let parent = world().comm(comm)?;
        // Who stays out takes part in finding out all the same.
        let host = host_color(&parent)?;
        let color = if split_type == COMM_TYPE_SHARED || (split_type != UNDEFINED && guided) {
            host
        } else {
            UNDEFINED
        };
        newcomm.put(give(split(&parent, color, key)?))?
    }

    fn PMPI_Comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: Out<MPI_Comm>) on comm {
        newcomm.put(MPI_Comm::NULL)?;
        let (parent, group) = (world().comm(comm)?, world().group(group)?);
        subset(&group, &parent)?;
        newcomm.put(give(create(&parent, group)?))?
    }

    fn PMPI_Comm_create_group(comm: MPI_Comm, group: MPI_Group, tag: c_int, newcomm: Out<MPI_Comm>) on comm {
        newcomm.put(MPI_Comm::NULL)?;
        let (parent, group) = (world().comm(comm)?, world().group(group)?);
        within_one_group(&parent)?;
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
        newcomm.put(MPI_Comm::NULL)?;
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
        info_used.put(give_info(hints.over(&HINTS)))?
    }
}

/// A name as the program gave it, cut to the length the standard allows.
pub(crate) fn name(text: Text) -> Result<Vec<u8>> {
    let mut name = text.to_vec()?;
    name.truncate(NAME_MAX - 1);
    Ok(name)
}

fn compare(one: &Arc<Comm>, two: &Arc<Comm>) -> Comparison {
    if Arc::ptr_eq(one, two) {
        return Comparison::Identical;
    }
    let local = one.group.compare(&two.group);
    let remote = match (one.remote(), two.remote()) {
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

/// An error for a communicator between two groups.
pub(crate) fn within_one_group(comm: &Comm) -> Result<()> {
    let between = comm.remote().is_some();
    if between { Err(Error::new(Class::Comm, "it is an intercommunicator")) } else { Ok(()) }
}

/// The other group of an intercommunicator.
pub(crate) fn remote(comm: MPI_Comm) -> Result<Group> {
    let remote = world().comm(comm)?.remote().cloned();
    remote.ok_or_else(|| Error::new(Class::Comm, "the communicator is not an intercommunicator"))
}

fn dup(comm: MPI_Comm, hints: Info, newcomm: Out<MPI_Comm>) -> Result<(), Fault> {
    let parent = world().comm(comm)?;
    newcomm.put(MPI_Comm::NULL)?;
    let copy = copy_of(&parent, comm, hints)?;
    copy.set_context(agree(&parent)?);
    Ok(newcomm.put(MPI_Comm(world().comms.insert(copy)))?)
}

/// A communicator of the same processes for a window.
pub(crate) fn own_copy(comm: MPI_Comm) -> Result<Comm> {
    let parent = world().comm(comm)?;
    if parent.remote().is_some() {
        return Err(Error::new(Class::Comm, "it is an intercommunicator"));
    }
    let copy = Comm::new(&parent.net, agree(&parent)?, parent.group.clone(), parent.rank);
    copy.make_windows();
    Ok(copy)
}

/// A copy of a communicator that has no number yet.
fn copy_of(parent: &Comm, handle: MPI_Comm, hints: Info) -> Result<Comm, Fault> {
    let mut copy = Comm::new(&parent.net, u32::MAX, parent.group.clone(), parent.rank);
    copy.attributes = parent.attributes.copy(handle.0)?;
    copy.set_remote(parent.remote().cloned());
    copy.topology = parent.topology.clone();
    copy.set_errhandler(parent.errhandler());
    *lock(&copy.info) = hints;
    Ok(copy)
}

/// The handle is there at once; it can be used when the request has ended.
fn idup(comm: MPI_Comm, hints: Info, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) -> Result<(), Fault> {
    let parent = world().comm(comm)?;
    let copy = Arc::new(copy_of(&parent, comm, hints)?);
    let call = Call::on(parent.shared(), parent.next_later_tag(), false);
    let proposal = if parent.rank == 0 { propose(&parent)? } else { 0 };
    newcomm.put(MPI_Comm(world().comms.insert(copy.clone())))?;
    let made = task(&parent, comm, async move {
        let agreed = coll::agree(&call, proposal).await;
        agreed.map(|context| copy.set_context(context)).into()
    })?;
    Ok(request.put(made)?)
}

/// A number no communicator has or will have.
fn propose(comm: &Comm) -> Result<u32> {
    // SYNC given: only this number; 0 and 1 are the predefined communicators'.
    let given = GIVEN.fetch_add(1, Ordering::Relaxed);
    let number = given.checked_mul(comm.net.size).and_then(|base| base.checked_add(comm.net.rank + 2));
    let number = number.filter(|number| *number < 1 << 30);
    number.ok_or_else(|| Error::new(Class::NoMem, "there are no numbers left for communicators"))
}

/// A number that is new to every process of `comm`.
fn agree(comm: &Comm) -> Result<u32> {
    Ok(gather(comm, comm.next_tag(), [0; 2])?.context)
}

/// What the processes of a communicator said, and the number of the communicator to be made.
struct Said {
    context: u32,
    words: Vec<[c_int; 2]>,
    /// What those of the other group said.
    remote: Vec<[c_int; 2]>,
}

/// Tells everybody two numbers, and agrees on the number of a communicator on the way.
fn gather(comm: &Comm, tag: i32, words: [c_int; 2]) -> Result<Said> {
    let proposal = if comm.rank == 0 { propose(comm)? } else { 0 };
    let mine = [proposal.to_le_bytes(), words[0].to_le_bytes(), words[1].to_le_bytes()].concat();
    let all = comm.net.all_gather(comm, tag, &mine)?.concat();
    let (context, words) = read_said(&all)?;
    let mut said = Said { context, words, remote: Vec::new() };
    if comm.remote().is_some() {
        let (context, words) = read_said(&across(comm, &all)?)?;
        said.remote = words;
        if !is_low(comm) {
            said.context = context;
        }
    }
    Ok(said)
}

/// Reads what all of a group said: the first rank's proposal, and everybody's two numbers.
fn read_said(all: &[u8]) -> Result<(u32, Vec<[c_int; 2]>)> {
    let words: Vec<u32> = all
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().expect("chunks of four have four")))
        .collect();
    let first = words.first().copied();
    let first =
        first.ok_or_else(|| Error::new(Class::Intern, "a group made no proposal for a communicator"))?;
    Ok((first, words.chunks_exact(3).map(|said| [said[1] as c_int, said[2] as c_int]).collect()))
}

/// Tells the other group of an intercommunicator something, and everybody of the own what the other said.
fn across(comm: &Comm, mine: &[u8]) -> Result<Vec<u8>> {
    let (tag, tag_within) = (comm.next_tag(), comm.next_tag());
    let first = comm.partners().members().first();
    let heard = match (comm.rank, first) {
        (0, Some(first)) => comm.net.swap(comm, Peer(first.0), tag, mine)?,
        _ => Vec::new(),
    };
    Ok(comm.net.all_gather(comm, tag_within, &heard)?.swap_remove(0))
}

/// Whether the own group is the one whose proposals count.
fn is_low(comm: &Comm) -> bool {
    let first = |group: &Group| group.members().first().map(|process| process.0);
    comm.remote().is_none_or(|remote| first(&comm.group) < first(remote))
}

/// The communicator of those who say the same color, ordered by key; none for an undefined color.
pub(crate) fn split(parent: &Comm, color: c_int, key: c_int) -> Result<Option<Comm>> {
    let said = gather(parent, parent.next_tag(), [color, key])?;
    let chosen = |words: &[[c_int; 2]], group: &Group| {
        let mut mine: Vec<(c_int, usize)> = words
            .iter()
            .enumerate()
            .filter(|(_, words)| words[0] == color && color != UNDEFINED)
            .map(|(rank, words)| (words[1], rank))
            .collect();
        mine.sort_unstable();
        let ranks: Vec<i32> = mine.into_iter().map(|(_, rank)| rank as i32).collect();
        group.include(&ranks)
    };
    let group = chosen(&said.words, &parent.group)?;
    let remote = parent.remote().map(|remote| chosen(&said.remote, remote)).transpose()?;
    derive(parent, said.context, group, remote)
}

/// The communicator of a group of processes, on an intercommunicator together with the group the other side names.
fn create(parent: &Comm, group: Group) -> Result<Option<Comm>> {
    let context = agree(parent)?;
    let remote = match parent.remote() {
        Some(_) => Some(read_group(&across(parent, &group_bytes(&group))?)?),
        None => None,
    };
    derive(parent, context, group, remote)
}

/// A group as bytes.
pub(crate) fn group_bytes(group: &Group) -> Vec<u8> {
    group.members().iter().flat_map(|process| process.0.to_le_bytes()).collect()
}

/// The group in some bytes.
pub(crate) fn read_group(bytes: &[u8]) -> Result<Group> {
    let words = bytes.chunks_exact(4);
    Group::new(
        words.map(|word| Process(u32::from_le_bytes(word.try_into().expect("chunks of four have four")))),
    )
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
pub(crate) fn tag_of(text: &[u8]) -> c_int {
    let hash =
        text.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    (hash & 0x3fff_ffff | 0x4000_0000) as c_int
}

/// Makes a communicator by the processes of a group alone.
pub(crate) fn from_group(parent: &Comm, group: Group, tag: i32) -> Result<Option<Comm>> {
    let own = Process(parent.net.rank);
    let Some(rank) = group.rank_of(own) else { return Ok(None) };
    let alone = Comm::new(&parent.net, parent.context(), group.clone(), rank);
    let context = gather(&alone, -1 - tag, [0; 2])?.context;
    derive(parent, context, group, None)
}

/// A new communicator that takes its error handler from its parent; none for a process outside the group, or with nobody on the
/// other side.
fn derive(parent: &Comm, context: u32, group: Group, remote: Option<Group>) -> Result<Option<Comm>> {
    let own = Process(parent.net.rank);
    let Some(rank) = group.rank_of(own) else { return Ok(None) };
    if remote.as_ref().is_some_and(|remote| remote.size() == 0) {
        return Ok(None);
    }
    let mut comm = Comm::new(&parent.net, context, group, rank);
    comm.set_remote(remote);
    comm.set_errhandler(parent.errhandler());
    Ok(Some(comm))
}

/// Between two groups: what the leaders tell each other over a bridge, and then everybody of their own.
pub(crate) fn between(
    local: &Comm,
    bridge: Option<impl FnOnce(&[u8]) -> Result<Vec<u8>>>,
    leader: usize,
    tag_within: i32,
) -> Result<Comm> {
    let mine = [propose(local)?.to_le_bytes().to_vec(), group_bytes(&local.group)].concat();
    let heard = match bridge {
        Some(bridge) => [mine.clone(), bridge(&mine)?],
        None => Default::default(),
    };
    let (own, theirs) = (
        local.net.all_gather(local, tag_within, &heard[0])?,
        local.net.all_gather(local, tag_within, &heard[1])?,
    );
    let (Some((ours, _)), Some((number, members))) =
        (own[leader].split_at_checked(4), theirs[leader].split_at_checked(4))
    else {
        return Err(Error::new(Class::Intern, "a leader sent too short a proposal for a communicator"));
    };
    let remote = read_group(members)?;
    if local.group.intersection(&remote).size() > 0 {
        return Err(Error::new(Class::Comm, "the two groups have members in common"));
    }
    let mut comm = Comm::new(&local.net, 0, local.group.clone(), local.rank);
    comm.set_remote(Some(remote));
    let number = if is_low(&comm) { ours } else { number };
    comm.set_context(u32::from_le_bytes(number.try_into().expect("four bytes were split off")));
    comm.set_errhandler(local.errhandler());
    Ok(comm)
}

/// One group of the two of an intercommunicator; the one that says `high` comes second.
pub(crate) fn merge(inter: &Comm, high: bool) -> Result<Comm> {
    let said = gather(inter, inter.next_tag(), [high.into(), 0])?;
    let Some(remote) = inter.remote() else {
        return Err(Error::new(Class::Comm, "it is not an intercommunicator"));
    };
    let theirs = said.remote.first().is_some_and(|words| words[0] != 0);
    let first = if high == theirs { is_low(inter) } else { !high };
    let group = if first { inter.group.union(remote) } else { remote.union(&inter.group) };
    let merged = derive(inter, said.context, group, None)?;
    merged.ok_or_else(|| Error::new(Class::Intern, "a process is not in its own group"))
}

/// The handle of a new communicator; null where there is none.
pub(crate) fn give(comm: Option<Comm>) -> MPI_Comm {
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
