//! Starting processes that end with us.
//!
//! ```
//! use barewire_sys::{rustix::process::Signal, spawn::{Setup, prepare}};
//! use std::process::Command;
//! // This child would wait for ever. It ends because the thread that started it does.
//! let mut child = std::thread::spawn(|| {
//!     let mut command = Command::new("sleep");
//!     prepare(&mut command, Setup { death_signal: Some(Signal::KILL), ..Setup::default() });
//!     command.arg("infinity").spawn().unwrap()
//! })
//! .join()
//! .unwrap();
//! assert!(!child.wait().unwrap().success());
//! ```

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

/// What a child does between fork and exec.
///
/// ```
/// use barewire_sys::spawn::{Setup, prepare};
/// let cpu = barewire_sys::cpu::allowed_cpus()[0].0 as usize;
/// let mut command = std::process::Command::new("grep");
/// command.args(["Cpus_allowed_list", "/proc/self/status"]);
/// prepare(&mut command, Setup { cpus: Some(vec![cpu]), ..Setup::default() });
/// let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
/// assert_eq!(said.split_whitespace().last(), Some(&*cpu.to_string()));
/// ```
#[derive(Debug, Default)]
pub struct Setup {
    /// The signal the child gets when the thread that starts it ends, however it ends.
    pub death_signal: Option<Signal>,
    /// Descriptors the program inherits under the numbers they have here.
    pub keep: Vec<OwnedFd>,
    /// The processors the program may run on.
    pub cpus: Option<Vec<usize>>,
}

/// Makes `command` carry out `setup` in the child.
///
/// ```
/// use barewire_sys::spawn::{Setup, prepare};
/// use std::{fs::File, os::fd::AsRawFd, process::Command};
/// let kept = File::open("/proc/version").unwrap();
/// let mut command = Command::new("cat");
/// command.arg(format!("/proc/self/fd/{}", kept.as_raw_fd()));
/// assert!(!command.output().unwrap().status.success(), "closed on exec, as files are");
/// prepare(&mut command, Setup { keep: vec![kept.into()], ..Setup::default() });
/// assert_eq!(command.output().unwrap().stdout, std::fs::read("/proc/version").unwrap());
/// ```
pub fn prepare(command: &mut Command, setup: Setup) {
    let parent = getpid();
    let cpus = setup.cpus.as_deref().map(cpu_set);
    let in_child = move || set_up(parent, &setup, cpus.as_ref());
    // SAFETY: between fork and exec the closure makes only raw system calls on values that were built before the fork;
    // it neither allocates nor takes a lock.
    unsafe { command.pre_exec(in_child) };
}

fn set_up(parent: Pid, setup: &Setup, cpus: Option<&CpuSet>) -> io::Result<()> {
    if let Some(signal) = setup.death_signal {
        set_parent_process_death_signal(Some(signal))?;
        if getppid() != Some(parent) {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error()));
        }
    }
    for fd in &setup.keep {
        inherit(std::os::fd::AsFd::as_fd(fd))?;
    }
    if let Some(cpus) = cpus {
        sched_setaffinity(None, cpus)?;
    }
    Ok(())
}

fn inherit(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?)
}

fn cpu_set(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_kept_descriptor_is_open_in_the_program() {
        let (reader, mut writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let reader = OwnedFd::from(reader);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("cat <&{}", reader.as_raw_fd())]);
        prepare(&mut command, Setup { keep: vec![reader], ..Setup::default() });
        writer.write_all(b"kept").unwrap();
        drop(writer);
        assert_eq!(command.output().unwrap().stdout, b"kept");
    }

    #[test]
    fn the_program_runs_on_the_processors_it_was_given() {
        let mut command = Command::new("grep");
        command.args(["Cpus_allowed_list", "/proc/self/status"]);
        prepare(&mut command, Setup { cpus: Some(vec![0]), ..Setup::default() });
        let output = command.output().unwrap().stdout;
        assert_eq!(String::from_utf8(output).unwrap().split_whitespace().last(), Some("0"));
    }
}
