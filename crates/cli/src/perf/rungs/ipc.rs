//! What Unix offers between processes of one host: pipes, named pipes, socket pairs and System V messages. They block; that is
//! how they are used.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use barewire_core::{Peer, Port};
use barewire_sys::sysv::Queue;

use super::{Kept, Rungs, Trips, each};
use crate::perf::keeper::FOLDER;
use crate::perf::worker::Command;

const NAME: Port = Port(25);
/// The most that a System V message holds where nobody raised the limit.
const SYSV_BYTES_MAX: usize = 8192;

/// Ways between ranks 0 and 1, each made on first use.
#[derive(Default)]
pub struct Ipc {
    ways: Vec<(String, Way)>,
}

/// One way there and one back.
enum Way {
    Files { out: File, into: File },
    Socket(UnixStream),
    Queue { queue: Queue, me: u32 },
}

impl Way {
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Way::Files { out, .. } => out.write_all(bytes)?,
            Way::Socket(socket) => socket.write_all(bytes)?,
            Way::Queue { queue, me } => {
                for piece in pieces(bytes.len()) {
                    queue.send(i64::from(*me) + 1, &bytes[piece])?;
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self, bytes: &mut [u8]) -> Result<()> {
        match self {
            Way::Files { into, .. } => into.read_exact(bytes)?,
            Way::Socket(socket) => socket.read_exact(bytes)?,
            Way::Queue { queue, me } => {
                for piece in pieces(bytes.len()) {
                    let want = piece.len();
                    let got = queue.receive(i64::from(1 - *me) + 1, &mut bytes[piece])?;
                    anyhow::ensure!(got == want, "a message of {got} bytes instead of {want}");
                }
            }
        }
        Ok(())
    }
}

/// A message in pieces that a queue takes; an empty one is one piece.
fn pieces(bytes: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let count = bytes.div_ceil(SYSV_BYTES_MAX).max(1);
    (0..count).map(move |n| n * SYSV_BYTES_MAX..bytes.min((n + 1) * SYSV_BYTES_MAX))
}

/// Does what the command says over one of the ways.
pub fn once(rungs: &mut Rungs, command: &Command, trips: &mut Trips) -> Result<f64> {
    let (me, (kind, verb)) = (rungs.rank(), command.parts());
    if !rungs.kept.ipc.ways.iter().any(|(name, _)| name == kind) {
        let way = open(rungs, kind).with_context(|| format!("opening a {kind}"))?;
        rungs.kept.ipc.ways.push((kind.to_owned(), way));
    }
    let Kept { ipc, out, into, .. } = &mut rungs.kept;
    let (_, way) = ipc.ways.iter_mut().find(|(name, _)| name == kind).expect("opened above");
    // Nothing at all cannot be read from a pipe.
    let bytes = command.bytes.max(1);
    let (out, into) = (&out[..bytes], &mut into[..bytes]);
    match verb {
        "latency" => {
            let start = Instant::now();
            for _ in 0..command.count {
                if me == 0 {
                    way.send(out)?;
                }
                way.receive(into)?;
                if me != 0 {
                    way.send(out)?;
                }
                trips.lap();
            }
            Ok(each(start, command.count * 2))
        }
        "rate" => {
            let windows = command.count.div_ceil(command.window.max(1));
            let start = Instant::now();
            for _ in 0..windows {
                for _ in 0..command.window.max(1) {
                    if me == 0 { way.send(out)? } else { way.receive(into)? }
                }
                if me == 0 { way.receive(&mut [0])? } else { way.send(&[0])? }
            }
            Ok(each(start, windows * command.window.max(1)))
        }
        other => bail!("a {kind} has no measurement called {other}"),
    }
}

/// Rank 0 makes the way and tells rank 1 its name.
fn open(rungs: &mut Rungs, kind: &str) -> Result<Way> {
    let me = rungs.rank();
    match kind {
        "sysv" if me == 0 => {
            let queue = Queue::create()?;
            rungs.tell(Peer(1), NAME, &queue.id().to_le_bytes())?;
            Ok(Way::Queue { queue, me })
        }
        "sysv" => {
            let id: [u8; 4] = rungs.hear(NAME)?.as_slice().try_into()?;
            Ok(Way::Queue { queue: Queue::open(i32::from_le_bytes(id)), me })
        }
        "pipe" => open_pipe(rungs),
        _ => open_named(rungs, kind),
    }
}

/// Two pipes: each rank makes the one it reads from, and the other opens it through the process table.
fn open_pipe(rungs: &mut Rungs) -> Result<Way> {
    use std::os::fd::AsRawFd;
    let other = Peer(1 - rungs.rank());
    let (into, write_end) = rustix::pipe::pipe()?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), write_end.as_raw_fd());
    rungs.tell(other, NAME, path.as_bytes())?;
    let theirs = String::from_utf8(rungs.hear(NAME)?)?;
    let out = File::options().write(true).open(&theirs).with_context(|| format!("opening {theirs}"))?;
    rungs.meet_other()?;
    Ok(Way::Files { out, into: File::from(into) })
}

/// Ways with a name in the file system, in a folder that is gone as soon as both are in.
fn open_named(rungs: &mut Rungs, kind: &str) -> Result<Way> {
    let me = rungs.rank();
    let folder = if me == 0 {
        // In the folder of the measurement if there is one: whatever happens, it goes with that.
        let place = std::env::var_os(FOLDER).map_or_else(std::env::temp_dir, PathBuf::from);
        let folder = place.join(format!("barewire-perf-ipc-{}-{kind}", std::process::id()));
        std::fs::create_dir(&folder)?;
        folder
    } else {
        PathBuf::from(String::from_utf8(rungs.hear(NAME)?)?)
    };
    let (there, back) = (folder.join("there"), folder.join("back"));
    let tell = |rungs: &mut Rungs| rungs.tell(Peer(1), NAME, folder.as_os_str().as_encoded_bytes());
    let way = match (kind, me) {
        ("unix", 0) => {
            let listener = UnixListener::bind(&there)?;
            tell(rungs)?;
            Way::Socket(listener.accept()?.0)
        }
        ("unix", _) => Way::Socket(UnixStream::connect(&there)?),
        ("fifo", 0) => {
            for path in [&there, &back] {
                rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0)?;
            }
            tell(rungs)?;
            Way::Files { out: File::options().write(true).open(&there)?, into: File::open(&back)? }
        }
        ("fifo", _) => {
            let into = File::open(&there)?;
            Way::Files { out: File::options().write(true).open(&back)?, into }
        }
        _ => bail!("there is no way between processes called {kind}"),
    };
    rungs.meet_other()?;
    if me == 0 {
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(way)
}
