//! Start, end, versions, clocks and memory.

use super::shims;
use crate::boundary::{self, MPI_Comm, MPI_Info, Memory, Out, OutText, OutWord};
use crate::world::world;
use barewire::mpi::error::{Class, Error};
use barewire::mpi::info::Info;
use std::ffi::{c_int, c_void};
use std::sync::Mutex;

/// The levels of thread support, from the weakest.
pub(crate) const THREAD_LEVELS: [(c_int, &str); 4] = [
    (0, "MPI_THREAD_SINGLE"),
    (1024, "MPI_THREAD_FUNNELED"),
    (2048, "MPI_THREAD_SERIALIZED"),
    (4096, "MPI_THREAD_MULTIPLE"),
];
const PROCESSOR_NAME_MAX: usize = 256;
const LIBRARY_VERSION_MAX: usize = 8192;

shims! {
    fn PMPI_Init(argc: Out<c_int>, argv: Out<*mut c_void>) {
        let _ = (argc, argv);
        world().begin(0)?;
    }

    fn PMPI_Init_thread(argc: Out<c_int>, argv: Out<*mut c_void>, required: c_int, provided: Out<c_int>) {
        let _ = (argc, argv);
        let level = THREAD_LEVELS.iter().find(|(level, _)| *level >= required).map_or(4096, |(level, _)| *level);
        provided.put(world().begin(level)?)?
    }

    fn PMPI_Initialized(flag: Out<c_int>) {
        flag.put(world().initialized().into())?
    }

    fn PMPI_Finalize() {
        let own = MPI_Comm(0x102);
        world().comm(own)?.attributes.clear(own.0)?;
        world().end()?
    }

    fn PMPI_Finalized(flag: Out<c_int>) {
        flag.put(world().finalized().into())?
    }

    fn PMPI_Abort(comm: MPI_Comm, errorcode: c_int) on comm {
        eprintln!("barewire: MPI_Abort was called with error code {errorcode} on communicator {:#x}", comm.0);
        world().abort(errorcode, "MPI_Abort")
    }

    fn PMPI_Query_thread(provided: Out<c_int>) {
        provided.put(world().job()?.thread_level)?
    }

    fn PMPI_Is_thread_main(flag: Out<c_int>) {
        flag.put((world().job()?.main == std::thread::current().id()).into())?
    }

    fn PMPI_Get_version(version: Out<c_int>, subversion: Out<c_int>) {
        version.put(5)?;
        subversion.put(0)?
    }

    fn PMPI_Get_library_version(version: OutText, resultlen: Out<c_int>) {
        let text = concat!("Barewire ", env!("CARGO_PKG_VERSION"), ", MPI 5.0 standard ABI 1.0");
        resultlen.put(version.put(text.as_bytes(), LIBRARY_VERSION_MAX)? as c_int)?
    }

    fn PMPI_Get_processor_name(name: OutText, resultlen: Out<c_int>) {
        let system = rustix::system::uname();
        resultlen.put(name.put(system.nodename().to_bytes(), PROCESSOR_NAME_MAX)? as c_int)?
    }

    fn PMPI_Get_address(location: Memory, address: Out<i64>) {
        address.put(location.address() as i64)?
    }

    fn PMPI_Alloc_mem(size: i64, info: MPI_Info, baseptr: OutWord) {
        world().hints(info)?;
        let bytes = usize::try_from(size).map_err(|_| Error::new(Class::Size, format!("size is {size}")))?;
        let block = boundary::allocate(bytes);
        baseptr.put(block.ok_or_else(|| Error::new(Class::NoMem, format!("{size} bytes are not there")))?)?
    }

    fn PMPI_Free_mem(base: Memory) {
        boundary::free(base)
    }

    fn PMPI_Pcontrol(level: c_int) {
        let _ = level;
    }

    fn PMPI_Abi_get_version(abi_major: Out<c_int>, abi_minor: Out<c_int>) {
        abi_major.put(1)?;
        abi_minor.put(0)?
    }

    fn PMPI_Abi_get_info(info: Out<MPI_Info>) {
        let mut sizes = Info::new();
        for key in ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"] {
            sizes.set(key, "8")?;
        }
        info.put(MPI_Info(world().infos.insert(Mutex::new(sizes))))?
    }

    fn PMPI_Abi_get_fortran_info(info: Out<MPI_Info>) {
        info.put(MPI_Info(world().infos.insert(Mutex::new(fortran_info()?))))?
    }

    fn PMPI_Abi_set_fortran_info(info: MPI_Info) {
        let known = fortran_info()?;
        let given = world().hints(info)?;
        if let Some((key, _)) = given.pairs().find(|(key, value)| known.get(key).is_some_and(|ours| ours != *value)) {
            let what = format!("{} is already decided", String::from_utf8_lossy(key));
            return Err(Error::new(Class::Abi, what).into());
        }
    }

    fn PMPI_Abi_get_fortran_booleans(logical_size: c_int, logical_true: Memory, logical_false: Memory, is_set: Out<c_int>) {
        let size = logical_bytes(logical_size)?;
        let (mut logical_true, mut logical_false) = (logical_true, logical_false);
        logical_true.bytes_mut(0, size)?.copy_from_slice(&1u128.to_le_bytes()[..size]);
        logical_false.bytes_mut(0, size)?.fill(0);
        is_set.put(1)?
    }

    fn PMPI_Abi_set_fortran_booleans(logical_size: c_int, logical_true: Memory, logical_false: Memory) {
        let size = logical_bytes(logical_size)?;
        let same = logical_true.bytes(0, size)? == &1u128.to_le_bytes()[..size];
        if !same || logical_false.bytes(0, size)?.iter().any(|&byte| byte != 0) {
            return Err(Error::new(Class::Abi, "logical values are 1 and 0 here").into());
        }
    }

    fn PMPI_Get_hw_resource_info(hw_info: Out<MPI_Info>) {
        hw_info.put(MPI_Info(world().infos.insert(Mutex::new(Info::new()))))?
    }
}

/// Seconds since the library was first used.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Wtime() -> f64 {
    world().start.elapsed().as_secs_f64()
}

/// Seconds between ticks of the clock.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Wtick() -> f64 {
    1e-9
}

/// An address moved by a displacement.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Aint_add(base: i64, disp: i64) -> i64 {
    base.wrapping_add(disp)
}

/// The displacement between two addresses.
#[unsafe(no_mangle)]
pub extern "C" fn PMPI_Aint_diff(addr1: i64, addr2: i64) -> i64 {
    addr1.wrapping_sub(addr2)
}

fn logical_bytes(size: c_int) -> Result<usize, Error> {
    match size {
        1 | 2 | 4 | 8 | 16 => Ok(size as usize),
        _ => Err(Error::new(Class::Arg, format!("no Fortran logical has {size} bytes"))),
    }
}

fn fortran_info() -> Result<Info, Error> {
    let mut info = Info::new();
    for (name, size) in [("logical", 4), ("integer", 4), ("real", 4), ("double_precision", 8)] {
        info.set(format!("mpi_{name}_size"), size.to_string())?;
    }
    let sized =
        [("logical", &[1, 2, 4, 8, 16][..]), ("integer", &[1, 2, 4, 8, 16]), ("real", &[2, 4, 8, 16])];
    for (name, sizes) in sized.into_iter().chain([("complex", &[4, 8, 16, 32][..])]) {
        for size in sizes {
            info.set(format!("mpi_{name}{size}_supported"), "true")?;
        }
    }
    info.set("mpi_double_complex_supported", "true")?;
    Ok(info)
}
