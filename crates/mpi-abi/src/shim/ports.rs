//! Ports: processes of one job that meet by a name.
//!
//! Processes of different jobs do not meet yet; a port of another job is an error.

use super::shims;
use crate::boundary::{MPI_Comm, MPI_Info, Out, OutText, Text, socket};
use crate::shim::comm::{between, give};
use crate::world::{lock, world};
use barewire::core::Peer;
use barewire::mpi::error::{Class, Error, Result};
use std::collections::HashMap;
use std::ffi::c_int;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{LazyLock, Mutex};

/// The longest name of a port, with its final zero.
const PORT_NAME_MAX: usize = 1024;
/// Tags of messages to ports lie above those of collective calls and below those of messages in parts.
const PORTS: c_int = 0x2000_0000;
const PREFIX: &str = "barewire-port:";

/// How many ports have been opened.
static OPENED: AtomicI32 = AtomicI32::new(0);
/// Names published by this process.
static PUBLISHED: LazyLock<Mutex<HashMap<Vec<u8>, Vec<u8>>>> = LazyLock::new(Mutex::default);

shims! {
    fn PMPI_Open_port(info: MPI_Info, port_name: OutText) {
        world().hints(info)?;
        port_name.put(open()?.as_bytes(), PORT_NAME_MAX)?
    }

    fn PMPI_Close_port(port_name: Text) {
        read(&port_name.to_vec()?)?;
    }

    fn PMPI_Comm_accept(port_name: Text, info: MPI_Info, root: c_int, comm: MPI_Comm, newcomm: Out<MPI_Comm>) on comm {
        world().hints(info)?;
        meet(comm, root, || Ok((true, read(&port_name.to_vec()?)?)), newcomm)?
    }

    fn PMPI_Comm_connect(port_name: Text, info: MPI_Info, root: c_int, comm: MPI_Comm, newcomm: Out<MPI_Comm>) on comm {
        world().hints(info)?;
        meet(comm, root, || Ok((false, read(&port_name.to_vec()?)?)), newcomm)?
    }

    fn PMPI_Comm_join(fd: c_int, intercomm: Out<MPI_Comm>) {
        let (mut line, mine) = (socket(fd)?, open()?);
        let failed = |error: std::io::Error| Error::new(Class::Other, format!("the socket: {error}"));
        let mut theirs = vec![0; JOIN_BYTES];
        line.write_all(format!("{mine:<JOIN_BYTES$}").as_bytes()).map_err(failed)?;
        line.read_exact(&mut theirs).map_err(failed)?;
        let (ours, theirs) = (read(mine.as_bytes())?, read(theirs.trim_ascii_end())?);
        let accepts = ours.0.0 < theirs.0.0;
        meet(MPI_Comm(0x102), 0, || Ok((accepts, if accepts { ours } else { theirs })), intercomm)?
    }

    fn PMPI_Publish_name(service_name: Text, info: MPI_Info, port_name: Text) {
        world().hints(info)?;
        let (service, port) = (service_name.to_vec()?, port_name.to_vec()?);
        if lock(&PUBLISHED).insert(service, port).is_some() {
            return Err(Error::new(Class::Service, "the name is published already").into());
        }
    }

    fn PMPI_Unpublish_name(service_name: Text, info: MPI_Info, port_name: Text) {
        world().hints(info)?;
        port_name.to_vec()?;
        let gone = lock(&PUBLISHED).remove(&service_name.to_vec()?);
        gone.map(|_| ()).ok_or_else(|| Error::new(Class::Service, "the name is not published"))?
    }

    fn PMPI_Lookup_name(service_name: Text, info: MPI_Info, port_name: OutText) {
        world().hints(info)?;
        let found = lock(&PUBLISHED).get(&service_name.to_vec()?).cloned();
        let found = found.ok_or_else(|| Error::new(Class::Name, "nothing is published under that name"))?;
        port_name.put(&found, PORT_NAME_MAX)?
    }
}

/// Bytes each side of a socket says.
const JOIN_BYTES: usize = 64;

fn open() -> Result<String> {
    let rank = world().job()?.net.rank;
    // SYNC opened: only this number.
    Ok(format!("{PREFIX}{rank}:{}", OPENED.fetch_add(1, Ordering::Relaxed) & (PORTS - 1)))
}

/// The process and the number a port's name stands for.
fn read(name: &[u8]) -> Result<(Peer, c_int)> {
    let parse = || {
        let (rank, number) = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?.split_once(':')?;
        let rank = rank.parse().ok().filter(|rank| world().job().is_ok_and(|job| *rank < job.net.size))?;
        Some((Peer(rank), number.parse().ok().filter(|number| (0..PORTS).contains(number))?))
    };
    parse().ok_or_else(|| {
        let what = format!("{:?} is not a port of this job", String::from_utf8_lossy(name));
        Error::new(Class::Port, what)
    })
}

/// Makes an intercommunicator with whoever is at the other end of a port.
fn meet(
    comm: MPI_Comm,
    root: c_int,
    port: impl FnOnce() -> Result<(bool, (Peer, c_int))>,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let (local, all) = (world().comm(comm)?, world().comm(MPI_Comm(0x101))?);
    local.group.process(root)?;
    let bridge = match local.rank == root as usize {
        true => {
            let (accepts, (owner, number)) = port()?;
            Some(move |mine: &[u8]| match accepts {
                true => all.net.answer(&all, PORTS + number, mine),
                false => all.net.swap(&all, owner, PORTS + number, mine),
            })
        }
        false => None,
    };
    newcomm.put(give(Some(between(&local, bridge, root as usize, local.next_tag())?)))
}
