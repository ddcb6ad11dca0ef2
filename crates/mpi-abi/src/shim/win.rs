//! Windows: making, freeing, naming them, and their epochs.

use super::shims;
use crate::boundary::{
    self, MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Win, Memory, Out, OutText, OutWord, Text,
};
use crate::coll::entry::Number;
use crate::fault::{Fault, raise};
use crate::object::Comm;
use crate::rma::direct::{Common, Direct};
use crate::rma::{self, Flavor, Held, Shape, WinRef, Window};
use crate::shim::comm::{NAME_MAX, name, own_copy};
use crate::shim::group;
use crate::shim::info::give as give_info;
use crate::world::{PROC_NULL, bad, lock, world};
use barewire::mpi::error::{Class, Error, Result};
use barewire_sys::map::Segment;
use rustix::fs::{Mode, OFlags};
use std::ffi::c_int;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::AsRawFd;

/// The hints of windows that the standard has, and what holds without them; others are ignored.
const HINTS: [(&str, &str); 7] = [
    ("no_locks", "false"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("accumulate_ops", "same_op_no_op"),
    ("mpi_accumulate_granularity", "0"),
    ("same_size", "false"),
    ("same_disp_unit", "false"),
    ("alloc_shared_noncontig", "false"),
];

shims! {
    fn PMPI_Win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: Out<MPI_Win>) on comm {
        let own = own_copy(comm)?;
        let shapes = gather(&own, Shape { base: 0, size: 0, unit: 1 })?;
        open(own, Flavor::Dynamic, shapes, Held::Nothing, info, win)?
    }

    fn PMPI_Win_free(win: Out<MPI_Win>) {
        let handle = win.get()?;
        let window = find(handle)?;
        window.check_closed().map_err(|error| Fault::Of(handle.into(), error))?;
        window.attributes.clear(handle.0)?;
        window.flush_all()?;
        window.barrier()?;
        window.close()?;
        world().wins.release(handle.0);
        rma::forget_all();
        win.put(MPI_Win::NULL)?
    }

    fn PMPI_Win_attach(win: MPI_Win, base: Memory, size: i64) on win {
        find(win)?.attach(base, size)?
    }

    fn PMPI_Win_detach(win: MPI_Win, base: Memory) on win {
        find(win)?.detach(base)?
    }

    fn PMPI_Win_fence(assert: c_int, win: MPI_Win) on win {
        let window = find(win)?;
        check_assert(assert, NOSTORE | NOPUT | NOPRECEDE | NOSUCCEED)?;
        window.fence(assert)?
    }

    fn PMPI_Win_post(group: MPI_Group, assert: c_int, win: MPI_Win) on win {
        let window = find(win)?;
        check_assert(assert, NOCHECK | NOSTORE | NOPUT)?;
        window.post_to(&world().group(group)?)?
    }

    fn PMPI_Win_start(group: MPI_Group, assert: c_int, win: MPI_Win) on win {
        let window = find(win)?;
        check_assert(assert, NOCHECK)?;
        window.start_to(&world().group(group)?)?
    }

    fn PMPI_Win_complete(win: MPI_Win) on win {
        find(win)?.complete()?
    }

    fn PMPI_Win_wait(win: MPI_Win) on win {
        find(win)?.wait()?
    }

    fn PMPI_Win_test(win: MPI_Win, flag: Out<c_int>) on win {
        flag.put(find(win)?.test()?.into())?
    }

    fn PMPI_Win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) on win {
        let window = find(win)?;
        check_assert(assert, NOCHECK)?;
        if rank != PROC_NULL {
            window.lock(lock_type, rank)?
        }
    }

    fn PMPI_Win_unlock(rank: c_int, win: MPI_Win) on win {
        let window = find(win)?;
        if rank != PROC_NULL {
            window.unlock(rank)?
        }
    }

    fn PMPI_Win_lock_all(assert: c_int, win: MPI_Win) on win {
        let window = find(win)?;
        check_assert(assert, NOCHECK)?;
        window.lock_all()?
    }

    fn PMPI_Win_unlock_all(win: MPI_Win) on win {
        find(win)?.unlock_all()?
    }

    fn PMPI_Win_flush(rank: c_int, win: MPI_Win) on win {
        if let Some((window, rank)) = locked(win, rank)? {
            window.flush(rank)?
        }
    }

    fn PMPI_Win_flush_all(win: MPI_Win) on win {
        let window = find(win)?;
        window.locked(usize::MAX, true)?;
        window.flush_all()?
    }

    fn PMPI_Win_flush_local(rank: c_int, win: MPI_Win) on win {
        if let Some((window, rank)) = locked(win, rank)? {
            window.flush_local(rank)?
        }
    }

    fn PMPI_Win_flush_local_all(win: MPI_Win) on win {
        let window = find(win)?;
        window.locked(usize::MAX, true)?;
        window.everybody().into_iter().try_for_each(|rank| window.flush_local(rank))?
    }

    fn PMPI_Win_sync(win: MPI_Win) on win {
        // SYNC shared windows: orders the program's own accesses on both sides of the call.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        find(win)?.comm.net.poll()?
    }

    fn PMPI_Win_shared_query(win: MPI_Win, rank: c_int, size: Out<i64>, disp_unit: Out<c_int>, baseptr: OutWord) on win {
        let shape = shared(win, rank)?;
        let narrow = |_| Error::new(Class::ValueTooLarge, format!("the unit is {} bytes; MPI_Win_shared_query_c can say that", shape.unit));
        disp_unit.put(c_int::try_from(shape.unit).map_err(narrow)?)?;
        size.put(shape.size)?;
        baseptr.put(shape.base)?
    }

    fn PMPI_Win_shared_query_c(win: MPI_Win, rank: c_int, size: Out<i64>, disp_unit: Out<i64>, baseptr: OutWord) on win {
        let shape = shared(win, rank)?;
        disp_unit.put(shape.unit)?;
        size.put(shape.size)?;
        baseptr.put(shape.base)?
    }

    fn PMPI_Win_get_group(win: MPI_Win, group: Out<MPI_Group>) on win {
        group.put(group::give(find(win)?.comm.group.clone()))?
    }

    fn PMPI_Win_set_name(win: MPI_Win, win_name: Text) on win {
        find(win)?.set_name(name(win_name)?.as_slice())
    }

    fn PMPI_Win_get_name(win: MPI_Win, win_name: OutText, resultlen: Out<c_int>) on win {
        let name = if win == MPI_Win::NULL { b"MPI_WIN_NULL".to_vec() } else { find(win)?.name() };
        resultlen.put(win_name.put(&name, NAME_MAX)? as c_int)?
    }

    fn PMPI_Win_set_info(win: MPI_Win, info: MPI_Info) on win {
        let (window, hints) = (find(win)?, world().hints(info)?);
        *lock(&window.info) = hints;
    }

    fn PMPI_Win_get_info(win: MPI_Win, info_used: Out<MPI_Info>) on win {
        let hints = lock(&find(win)?.info).over(&HINTS);
        info_used.put(give_info(hints))?
    }

    fn PMPI_Win_set_errhandler(win: MPI_Win, errhandler: MPI_Errhandler) on win {
        find(win)?.set_errhandler(world().errhandler(errhandler)?)
    }

    fn PMPI_Win_get_errhandler(win: MPI_Win, errhandler: Out<MPI_Errhandler>) on win {
        errhandler.put(world().errhandler_handle(&find(win)?.errhandler()))?
    }

    fn PMPI_Win_call_errhandler(win: MPI_Win, errorcode: c_int) on win {
        find(win)?;
        raise(world(), win.into(), "MPI_Win_call_errhandler", &Fault::Code(errorcode));
    }
}

/// The standard's `MPI_MODE_NOCHECK` and its like.
const NOCHECK: c_int = 1024;
const NOPRECEDE: c_int = 2048;
const NOPUT: c_int = 4096;
const NOSTORE: c_int = 8192;
const NOSUCCEED: c_int = 16384;

/// An error unless the program asserts only what it may here.
#[inline]
fn check_assert(assert: c_int, allowed: c_int) -> Result<()> {
    match assert & !allowed {
        0 => Ok(()),
        wrong => {
            let what = format!("assert is {assert:#x}, of which {wrong:#x} has no meaning here");
            Err(Error::new(Class::Assert, what))
        }
    }
}

/// `MPI_Win_create`.
pub(crate) fn win_create<N: Number>(
    base: Memory,
    size: i64,
    disp_unit: N,
    info: MPI_Info,
    comm: MPI_Comm,
    win: Out<MPI_Win>,
) -> Result<(), Fault> {
    let shape = Shape { base: base.address(), ..shape(size, disp_unit.into())? };
    let own = own_copy(comm)?;
    let shapes = gather(&own, shape)?;
    open(own, Flavor::Create, shapes, Held::Nothing, info, win)
}

/// `MPI_Win_allocate`.
pub(crate) fn win_allocate<N: Number>(
    size: i64,
    disp_unit: N,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: Memory,
    win: Out<MPI_Win>,
) -> Result<(), Fault> {
    let shape = shape(size, disp_unit.into())?;
    let own = own_copy(comm)?;
    let mut shapes = gather(&own, shape)?;
    let bytes = lay_out(&mut shapes, PAGE)?;
    let held = match own.net.common_memory(&own, Common::bytes(shapes.len(), bytes).unwrap_or(usize::MAX))? {
        Some((memory, key)) => place(&own, &mut shapes, Common::Region(memory, key)),
        None => {
            let block = boundary::allocate(size as usize);
            let base =
                block.ok_or_else(|| Error::new(Class::NoMem, format!("{size} bytes are not there")))?;
            shapes = gather(&own, Shape { base, ..shape })?;
            Held::Block(Memory::at_address(base))
        }
    };
    let base = shapes[own.rank].base;
    open(own, Flavor::Allocate, shapes, held, info, win)?;
    Ok(baseptr.place().put(base)?)
}

/// `MPI_Win_allocate_shared`.
///
/// The first rank makes the memory; the others open it by way of its descriptor.
pub(crate) fn win_allocate_shared<N: Number>(
    size: i64,
    disp_unit: N,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: Memory,
    win: Out<MPI_Win>,
) -> Result<(), Fault> {
    let shape = shape(size, disp_unit.into())?;
    let apart = world().hints(info)?.get("alloc_shared_noncontig") == Some(b"true");
    let own = own_copy(comm)?;
    let mut shapes = gather(&own, shape)?;
    let bytes = lay_out(&mut shapes, if apart { PAGE } else { 8 })?;
    let bytes = Common::bytes(shapes.len(), bytes).unwrap_or(usize::MAX);
    let common = match own.net.common_memory(&own, bytes)? {
        Some((memory, key)) => Common::Region(memory, key),
        None => Common::Segment(common(&own, bytes)?),
    };
    let held = place(&own, &mut shapes, common);
    // Who asked for no memory of its own has none.
    shapes.iter_mut().filter(|shape| apart && shape.size == 0).for_each(|shape| shape.base = 0);
    let base = shapes[own.rank].base;
    open(own, Flavor::Shared, shapes, held, info, win)?;
    Ok(baseptr.place().put(base)?)
}

/// Puts the ranks' memory one behind the other, and says how much it is.
fn lay_out(shapes: &mut [Shape], apart: usize) -> Result<usize> {
    let mut total = 0usize;
    for shape in shapes {
        shape.base = total;
        let size = (shape.size as usize).checked_next_multiple_of(apart);
        total = size
            .and_then(|size| total.checked_add(size))
            .ok_or_else(|| Error::new(Class::NoMem, "the memory of all ranks does not fit in 64 bits"))?;
    }
    Ok(total)
}

/// Gives memory that was laid out its addresses here.
fn place(comm: &Comm, shapes: &mut [Shape], common: Common) -> Held {
    let direct = Direct::new(common, comm.rank, shapes.len());
    shapes.iter_mut().for_each(|shape| shape.base += direct.data());
    Held::Common(direct)
}

/// Memory that is far enough apart not to share a page.
const PAGE: usize = 4096;

/// Memory of all processes of a communicator that have no regions in common, such as those that may only use TCP.
///
/// A number in it shows that it is what the first rank made: elsewhere another process may have its number.
fn common(comm: &Comm, bytes: usize) -> Result<Segment> {
    let refused = |error: &dyn std::fmt::Display| Error::new(Class::RmaShared, error.to_string());
    let made = match comm.rank {
        0 => Some(Segment::create("barewire-window", bytes)),
        _ => None,
    };
    let told = match &made {
        Some(Ok(segment)) => {
            let mark = RandomState::new().build_hasher().finish().to_le_bytes();
            let marked = segment.write(Common::MARK, &mark);
            debug_assert!(marked, "it is longer than a line");
            let path = format!("/proc/{}/fd/{}", std::process::id(), segment.fd().as_raw_fd());
            [&mark, path.as_bytes()].concat()
        }
        _ => Vec::new(),
    };
    let heard = comm.net.all_gather(comm, comm.next_tag(), &told)?;
    let (mark, path) = heard[0].split_at_checked(8).unwrap_or_default();
    let segment = match made {
        Some(made) => made.map_err(|error| refused(&error)),
        None => rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| refused(&error))
            .and_then(|fd| Segment::open(fd, true).map_err(|error| refused(&error))),
    };
    let segment = segment.and_then(|segment| {
        let mut found = [0; 8];
        match segment.read(Common::MARK, &mut found) && found == mark && segment.len() >= bytes {
            true => Ok(segment),
            false => Err(refused(&"the first rank is on another host")),
        }
    });
    // Everybody has it or nobody.
    let there = comm.net.all_gather(comm, comm.next_tag(), &[u8::from(segment.is_ok())])?;
    let segment = segment?;
    if there.iter().any(|one| one[..] != [1]) {
        return Err(Error::new(Class::RmaShared, "the memory cannot be shared with every process"));
    }
    Ok(segment)
}

fn shape(size: i64, unit: i64) -> Result<Shape> {
    if size < 0 {
        return Err(Error::new(Class::Size, format!("size is {size}")));
    }
    if unit <= 0 {
        return Err(Error::new(Class::Disp, format!("the displacement unit is {unit}")));
    }
    Ok(Shape { base: 0, size, unit })
}

/// What each rank has.
fn gather(comm: &Comm, mine: Shape) -> Result<Vec<Shape>> {
    let bytes = [mine.base.to_le_bytes(), mine.size.to_le_bytes(), mine.unit.to_le_bytes()].concat();
    let all = comm.net.all_gather(comm, comm.next_tag(), &bytes)?;
    let read = |said: &Vec<u8>| {
        let word = |i: usize| Some(u64::from_le_bytes(said.get(8 * i..8 * i + 8)?.try_into().ok()?));
        Some(Shape { base: word(0)? as usize, size: word(1)? as i64, unit: word(2)? as i64 })
    };
    let shapes: Option<Vec<Shape>> = all.iter().map(read).collect();
    shapes.ok_or_else(|| Error::new(Class::Intern, "a process sent too short a description of its memory"))
}

fn open(
    comm: Comm,
    flavor: Flavor,
    shapes: Vec<Shape>,
    held: Held,
    info: MPI_Info,
    win: Out<MPI_Win>,
) -> Result<(), Fault> {
    let hints = world().hints(info)?;
    let window = Window::open(comm, flavor, shapes, held, hints);
    // Nobody may be asked for anything before it serves.
    window.barrier()?;
    Ok(win.put(MPI_Win(world().wins.insert(window)))?)
}

/// A window by its handle.
#[inline]
pub(crate) fn find(win: MPI_Win) -> Result<WinRef> {
    match rma::recent(win) {
        Some(window) => Ok(window),
        None => find_in_table(win),
    }
}

fn find_in_table(win: MPI_Win) -> Result<WinRef> {
    let found = world().wins.get(win.0);
    let window = found.ok_or_else(|| bad(Class::Win, "MPI_WIN_NULL", win.0, MPI_Win::NULL.0))?;
    Ok(rma::remember(win, window))
}

/// A window and a target that is locked; none for `MPI_PROC_NULL`.
fn locked(win: MPI_Win, rank: c_int) -> Result<Option<(WinRef, usize)>> {
    let window = find(win)?;
    if rank == PROC_NULL {
        return Ok(None);
    }
    let rank = window.rank(rank)?;
    window.locked(rank, true)?;
    Ok(Some((window, rank)))
}

/// What a rank has in a shared window; for `MPI_PROC_NULL` the first that has anything.
fn shared(win: MPI_Win, rank: c_int) -> Result<Shape> {
    let window = find(win)?;
    let nothing = Shape { base: 0, size: 0, unit: window.mine().unit };
    if window.flavor == Flavor::Dynamic {
        return Err(Error::new(Class::RmaFlavor, "a dynamic window has no memory to ask for"));
    }
    if rank == PROC_NULL {
        let first = window.shapes.iter().find(|shape| shape.size > 0).copied();
        return Ok(first.filter(|_| window.is_mapped()).unwrap_or(nothing));
    }
    let rank = window.rank(rank)?;
    let reachable = window.is_mapped() || rank == window.comm.rank;
    Ok(if reachable { window.shapes[rank] } else { nothing })
}
