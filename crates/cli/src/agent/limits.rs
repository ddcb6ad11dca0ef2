//! How many ranks a host can take.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A host's room for ranks, and what bounds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    /// Most ranks.
    pub ranks: u32,
    /// What they would run out of, and what to do about it.
    pub limit: String,
}

/// The room on this host. Raises the soft limit of open files to the hard one on the way.
pub fn capacity() -> Capacity {
    let files = raise_files();
    let by_files = files.saturating_sub(FILES_RESERVED) / FILES_A_RANK;
    let processes = getrlimit(Resource::Nproc).current.unwrap_or(u64::MAX);
    let pids = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok();
    let pids = pids.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
    let by_processes = processes.min(pids).saturating_sub(PROCESSES_RESERVED);
    let (ranks, limit) = if by_files <= by_processes {
        (by_files, format!("{FILES_A_RANK} open files a rank, {files} allowed: raise `ulimit -Hn`"))
    } else {
        (by_processes, "the number of processes: raise `ulimit -Hu` or kernel.pid_max".to_owned())
    };
    Capacity { ranks: u32::try_from(ranks).unwrap_or(u32::MAX), limit }
}

fn raise_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(1 << 20),
        Err(_) => limit.current.unwrap_or(1 << 20),
    }
}

/// Two outputs and the boot connection.
const FILES_A_RANK: u64 = 3;
const FILES_RESERVED: u64 = 64;
const PROCESSES_RESERVED: u64 = 256;
