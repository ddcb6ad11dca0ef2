//! Info objects.

use super::shims;
use crate::boundary::{List, MPI_Info, Out, OutText, Text};
use crate::world::{lock, world};
use barewire::mpi::error::{Class, Error};
use barewire::mpi::info::{Info, KEY_MAX, checked_key};
use std::ffi::{c_char, c_int};
use std::os::unix::ffi::OsStringExt;
use std::sync::Mutex;

shims! {
    fn PMPI_Info_create(info: Out<MPI_Info>) {
        info.put(give(Info::new()))?
    }

    fn PMPI_Info_create_env(argc: c_int, argv: List<*mut c_char>, info: Out<MPI_Info>) {
        let _ = (argc, argv);
        info.put(give(world().environment.clone()))?
    }

    fn PMPI_Info_dup(info: MPI_Info, newinfo: Out<MPI_Info>) {
        newinfo.put(give(existing(info)?))?
    }

    fn PMPI_Info_free(info: Out<MPI_Info>) {
        let handle = info.get()?;
        world().info(handle)?;
        world().infos.release(handle.0);
        info.put(MPI_Info::NULL)?
    }

    fn PMPI_Info_set(info: MPI_Info, key: Text, value: Text) {
        lock(&*world().info(info)?).set(key.to_vec()?, value.to_vec()?)?
    }

    fn PMPI_Info_delete(info: MPI_Info, key: Text) {
        lock(&*world().info(info)?).delete(key.to_vec()?)?
    }

    fn PMPI_Info_get_nkeys(info: MPI_Info, nkeys: Out<c_int>) {
        nkeys.put(existing(info)?.keys().len() as c_int)?
    }

    fn PMPI_Info_get_nthkey(info: MPI_Info, n: c_int, key: OutText) {
        let info = existing(info)?;
        let n = usize::try_from(n).map_err(|_| Error::new(Class::Arg, format!("n is {n}")))?;
        key.put(info.nth_key(n)?, KEY_MAX + 1)?
    }

    fn PMPI_Info_get(info: MPI_Info, key: Text, valuelen: c_int, value: OutText, flag: Out<c_int>) {
        let (info, key) = (existing(info)?, key.to_vec()?);
        let room = usize::try_from(valuelen).map_err(|_| Error::new(Class::Arg, format!("valuelen is {valuelen}")))?;
        let found = info.get(checked_key(&key)?);
        if let Some(text) = found {
            value.put(text, room + 1)?;
        }
        flag.put(found.is_some().into())?
    }

    fn PMPI_Info_get_string(info: MPI_Info, key: Text, buflen: Out<c_int>, value: OutText, flag: Out<c_int>) {
        let (info, key) = (existing(info)?, key.to_vec()?);
        let found = info.get(checked_key(&key)?);
        if let Some(text) = found {
            let room = usize::try_from(buflen.get()?)
                .map_err(|_| Error::new(Class::Arg, "the length of the buffer is negative"))?;
            if room > 0 {
                value.put(text, room)?;
            }
            buflen.put(text.len() as c_int + 1)?;
        }
        flag.put(found.is_some().into())?
    }

    fn PMPI_Info_get_valuelen(info: MPI_Info, key: Text, valuelen: Out<c_int>, flag: Out<c_int>) {
        let (info, key) = (existing(info)?, key.to_vec()?);
        let found = info.get(checked_key(&key)?);
        if let Some(text) = found {
            valuelen.put(text.len() as c_int)?;
        }
        flag.put(found.is_some().into())?
    }
}

/// A new handle for an info.
pub(crate) fn give(info: Info) -> MPI_Info {
    MPI_Info(world().infos.insert(Mutex::new(info)))
}

/// What an info holds; null is an error.
fn existing(handle: MPI_Info) -> Result<Info, Error> {
    if handle == MPI_Info::NULL {
        return Err(Error::new(Class::Info, "the handle is MPI_INFO_NULL"));
    }
    world().hints(handle)
}

/// What `MPI_INFO_ENV` says: how this process was started, as far as it is known.
pub(crate) fn environment() -> Info {
    let mut info = Info::new();
    let mut arguments = std::env::args_os().map(OsStringExt::into_vec);
    let mut known = |key: &str, value: Option<Vec<u8>>| {
        // A value too long for an info is left out: the program is told nothing rather than half of it.
        let _ = value.filter(|value| !value.is_empty()).map(|value| info.set(key, value));
    };
    known("command", arguments.next());
    known("argv", Some(arguments.collect::<Vec<_>>().join(&b' ')));
    known("maxprocs", Some(b"1".to_vec()));
    known("host", Some(rustix::system::uname().nodename().to_bytes().to_vec()));
    known("arch", Some(std::env::consts::ARCH.as_bytes().to_vec()));
    known("wdir", std::env::current_dir().ok().map(|path| path.into_os_string().into_vec()));
    info
}
