//! One rank: a process, its three streams and its boot connection.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use barewire_core::boot::Link;
use barewire_core::boot::frame::BOOT_BODY_BYTES_MAX;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::resolve::{NoProgram, explain_exec, resolve};
use crate::wire::{PIECE_BYTES_MAX, Program, Stream};

/// A program that was found.
#[derive(Debug)]
pub struct Image {
    program: Program,
    path: PathBuf,
    directory: PathBuf,
}

impl Image {
    /// Looks the program up on this host.
    pub fn find(program: Program) -> Result<Self, NoProgram> {
        let directory = PathBuf::from(OsString::from_vec(program.directory.clone()));
        let name = program.words.first().map(|word| OsStr::from_bytes(word)).unwrap_or_default();
        let search = variable(&program, "PATH");
        let path = resolve(name, &directory, search.as_deref())?;
        Ok(Self { program, path, directory })
    }
}

/// The value a variable will have in the program.
fn variable(program: &Program, name: &str) -> Option<OsString> {
    let in_list = |list: &[(Vec<u8>, Vec<u8>)]| {
        let found = list.iter().rev().find(|(key, _)| key == name.as_bytes());
        found.map(|(_, value)| OsString::from_vec(value.clone()))
    };
    in_list(&program.set).or_else(|| match &program.base {
        Some(base) => in_list(base),
        None => std::env::var_os(name),
    })
}

/// Where a rank stands among the others.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The rank.
    pub rank: u32,
    /// Ranks in the job.
    pub size: u32,
    /// The rank among those of this host.
    pub local_rank: u32,
    /// Ranks on this host.
    pub local_size: u32,
    /// Processors for them.
    pub local_cpus: usize,
}

/// A rank that was started.
#[derive(Debug)]
pub struct Rank {
    /// Its number.
    pub number: u32,
    /// Its process, until it has ended.
    pub pid: Option<Pid>,
    /// Its standard output and error, until they are closed.
    pub outputs: [Option<OwnedFd>; 2],
    /// Its boot connection, until it is broken.
    pub boot: Option<Link>,
    /// Its standard input, if it reads the launcher's.
    pub input: Option<Input>,
}

/// A standard input that is fed.
#[derive(Debug)]
pub struct Input {
    pipe: OwnedFd,
    bytes: VecDeque<u8>,
    ends: bool,
}

/// What became of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fed {
    /// Some is left: wait until the pipe is writable.
    Later,
    /// All was taken.
    Taken,
    /// The pipe is closed.
    Closed,
}

impl Rank {
    /// Starts a rank; an error says what is wrong in words.
    pub fn start(
        image: &Image,
        place: Place,
        cpus: Option<Vec<usize>>,
        reads_input: bool,
    ) -> Result<Self, String> {
        let (ours, theirs) = UnixStream::pair().map_err(|error| format!("making a socket: {error}"))?;
        let theirs = OwnedFd::from(theirs);
        let mut command = command(image, place, &theirs);
        command.stdin(if reads_input { Stdio::piped() } else { Stdio::null() });
        let setup = barewire_sys::spawn::Setup { death_signal: Some(Signal::KILL), keep: vec![theirs], cpus };
        barewire_sys::spawn::prepare(&mut command, setup);
        let mut child = command.spawn().map_err(|error| describe_spawn(&image.path, &error))?;
        let pipe = |stream: Option<OwnedFd>| stream.filter(|fd| rustix::io::ioctl_fionbio(fd, true).is_ok());
        Ok(Self {
            number: place.rank,
            pid: i32::try_from(child.id()).ok().and_then(Pid::from_raw),
            outputs: [
                pipe(child.stdout.take().map(OwnedFd::from)),
                pipe(child.stderr.take().map(OwnedFd::from)),
            ],
            boot: Some(Link::new(ours.into(), BOOT_BODY_BYTES_MAX)),
            input: pipe(child.stdin.take().map(OwnedFd::from)).map(|pipe| Input {
                pipe,
                bytes: VecDeque::new(),
                ends: false,
            }),
        })
    }

    /// Sends a signal to the rank and everything in its process group.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid {
            // A group that is gone needs no signal.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Reads a piece of output; an empty piece means that the stream has ended.
    pub fn read_output(&mut self, stream: Stream) -> Option<Vec<u8>> {
        let slot = &mut self.outputs[stream as usize];
        let mut bytes = vec![0; PIECE_BYTES_MAX];
        match rustix::io::read(slot.as_ref()?, &mut bytes) {
            Ok(count) => bytes.truncate(count),
            Err(Errno::AGAIN | Errno::INTR) => return None,
            Err(_) => bytes.clear(),
        }
        if bytes.is_empty() {
            *slot = None;
        }
        Some(bytes)
    }
}

impl Input {
    /// The pipe.
    pub fn fd(&self) -> impl AsFd + '_ {
        &self.pipe
    }

    /// Appends bytes; none means that no more will come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.ends |= bytes.is_empty();
        self.bytes.extend(bytes);
    }

    /// Writes what the pipe takes.
    pub fn feed(&mut self) -> Fed {
        while !self.bytes.is_empty() {
            match rustix::io::write(&self.pipe, self.bytes.as_slices().0) {
                Ok(count) => drop(self.bytes.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Fed::Later,
                Err(_) => return Fed::Closed,
            }
        }
        if self.ends { Fed::Closed } else { Fed::Taken }
    }
}

fn command(image: &Image, place: Place, boot: &OwnedFd) -> Command {
    use std::os::fd::AsRawFd;
    let program = &image.program;
    let words = || program.words.iter().map(|word| OsStr::from_bytes(word));
    let mut command = Command::new(&image.path);
    command.arg0(words().next().unwrap_or_default()).args(words().skip(1));
    command.current_dir(&image.directory).process_group(0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let pair = |(name, value): &(Vec<u8>, Vec<u8>)| {
        (OsString::from_vec(name.clone()), OsString::from_vec(value.clone()))
    };
    match &program.base {
        Some(base) => drop(command.env_clear().envs(base.iter().map(pair))),
        None => std::env::vars_os().map(|(name, _)| name).filter(|name| is_stale(name)).for_each(|name| {
            command.env_remove(name);
        }),
    }
    command.envs(program.set.iter().map(pair));
    let fd = boot.as_raw_fd();
    command.envs([
        ("BAREWIRE_BOOT_FD", fd.to_string()),
        ("BAREWIRE_RANK", place.rank.to_string()),
        ("BAREWIRE_SIZE", place.size.to_string()),
        ("BAREWIRE_LOCAL_RANK", place.local_rank.to_string()),
        ("BAREWIRE_LOCAL_SIZE", place.local_size.to_string()),
        ("BAREWIRE_LOCAL_CPUS", place.local_cpus.to_string()),
        ("PMI_FD", fd.to_string()),
        ("PMI_RANK", place.rank.to_string()),
        ("PMI_SIZE", place.size.to_string()),
        ("MPI_LOCALRANKID", place.local_rank.to_string()),
        ("MPI_LOCALNRANKS", place.local_size.to_string()),
    ]);
    command
}

/// Whether a variable speaks of another launcher, which did not start this rank.
pub fn is_stale(name: &OsStr) -> bool {
    let stale: [&[u8]; 5] = [b"PMI_", b"PMIX_", b"OMPI_COMM_WORLD_", b"HYDI_", b"HYDRA_"];
    stale.iter().any(|prefix| name.as_bytes().starts_with(prefix))
}

fn describe_spawn(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            format!(
                "the system starts no more processes ({error}): raise `ulimit -u`, or use fewer ranks a host"
            )
        }
        io::ErrorKind::OutOfMemory => format!("there is not enough memory to start more ranks ({error})"),
        _ => explain_exec(path, error),
    }
}
