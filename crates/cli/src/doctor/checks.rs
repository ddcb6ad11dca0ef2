//! The checks of one host.

use std::time::Instant;

use barewire_core::boot::Environment;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::process::Resource;

use super::Finding;
use crate::agent::Topology;
use crate::machine::{self, bytes};

/// All checks, in the order a person would ask.
pub fn all() -> Vec<Finding> {
    vec![
        processors(),
        open_files(),
        processes(),
        shared_memory(),
        dev_shm(),
        huge_pages(),
        cross_memory(),
        membarrier(),
        kernel(),
        clock(),
        own_name(),
        variables(),
        leftovers(),
    ]
}

fn processors() -> Finding {
    let topology = Topology::here();
    let usable = topology.processors().len();
    let online = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default().matches("processor\t").count();
    let state = format!("{usable} usable of {online}");
    let what = "processors";
    if let Some(granted) = machine::cgroup_processors().filter(|granted| *granted + 0.5 < usable as f64) {
        let advice = format!(
            "the control group grants the time of {granted:.1} only: more busy ranks than that are stopped for a while, again \
             and again; use at most -n {:.0}, or raise cpu.max",
            granted.max(1.0).floor()
        );
        return Finding::problem(what, format!("{state}, {granted:.1} granted"), advice);
    }
    if usable < online {
        let advice = "this process may use a part of them; see `taskset -p $$`";
        return Finding::note(what, state, advice);
    }
    Finding::fine(what, state)
}

fn open_files() -> Finding {
    let (now, most) = machine::limit(Resource::Nofile);
    let state = format!("{}, can be raised to {}", machine::shown(now), machine::shown(most));
    match most {
        Some(most) if most < 4096 => {
            let advice = format!(
                "about {} ranks fit on this host; raise the hard limit in /etc/security/limits.conf",
                most / 3
            );
            Finding::problem("open files", state, advice)
        }
        _ => Finding::fine("open files", state),
    }
}

fn processes() -> Finding {
    let (now, _) = machine::limit(Resource::Nproc);
    match now {
        Some(now) if now < 1024 => Finding::problem(
            "processes",
            now.to_string(),
            "few ranks can be started; raise it with `ulimit -u 4096`",
        ),
        now => Finding::fine("processes", machine::shown(now)),
    }
}

fn shared_memory() -> Finding {
    let what = "shared memory (memfd)";
    let size = 4 << 20;
    let made = memfd_create("barewire-doctor", MemfdFlags::CLOEXEC)
        .and_then(|fd| ftruncate(&fd, size).map(|()| fd))
        .and_then(|fd| rustix::fs::fallocate(&fd, rustix::fs::FallocateFlags::empty(), 0, size));
    match made {
        Ok(()) => Finding::fine(what, format!("{} could be had", bytes(size))),
        Err(error) => Finding::problem(
            what,
            format!("{} could not be had: {error}", bytes(size)),
            "ranks of this host would talk over TCP; look at the memory limit of the container or control group",
        ),
    }
}

fn dev_shm() -> Finding {
    let what = "/dev/shm";
    match rustix::fs::statvfs("/dev/shm") {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let state = format!("{} free", bytes(free));
            match free < 256 << 20 {
                true => Finding::note(
                    what,
                    state,
                    "Barewire does not use it, other MPIs do and die of SIGBUS; in a container start with --shm-size=2g",
                ),
                false => Finding::fine(what, state),
            }
        }
        Err(error) => Finding::note(what, error.to_string(), "Barewire does not use it, other MPIs do"),
    }
}

fn huge_pages() -> Finding {
    let reserved = machine::memory("HugePages_Total").unwrap_or(0);
    let shmem = machine::line("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    let chosen = shmem.split(['[', ']']).nth(1).unwrap_or("unknown").to_owned();
    let state = format!("{reserved} reserved, transparent ones for shared memory: {chosen}");
    if reserved == 0 && ["never", "deny", "unknown"].contains(&chosen.as_str()) {
        let advice = "large transfers cost more TLB misses; \
                      `echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled` as root allows them";
        return Finding::note("huge pages", state, advice);
    }
    Finding::fine("huge pages", state)
}

fn cross_memory() -> Finding {
    let what = "reading a neighbour's memory";
    match machine::number("/proc/sys/kernel/yama/ptrace_scope") {
        None | Some(0) => Finding::fine(what, "allowed between processes of one user"),
        Some(scope) => Finding::note(
            what,
            format!("restricted (ptrace_scope {scope})"),
            "nothing is needed: Barewire copies through shared memory; other MPIs fail or slow down, \
             `sysctl kernel.yama.ptrace_scope=0` allows it",
        ),
    }
}

fn membarrier() -> Finding {
    match machine::kernel() >= (4, 16) {
        true => Finding::fine("cheap wake-ups (membarrier)", "in this kernel"),
        false => Finding::problem(
            "cheap wake-ups (membarrier)",
            "not in this kernel",
            "Linux 4.16 or later is needed",
        ),
    }
}

fn kernel() -> Finding {
    let (major, minor) = machine::kernel();
    let state = format!("Linux {major}.{minor}");
    match (major, minor) >= (5, 10) {
        true => Finding::fine("kernel", state),
        false => Finding::problem(
            "kernel",
            state,
            "Linux 5.10 or later is tested; older ones may lack what is needed",
        ),
    }
}

fn clock() -> Finding {
    let source = machine::line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let source = source.unwrap_or_else(|| "unknown".into());
    let begun = Instant::now();
    const READS: u32 = 1000;
    let mut last = begun;
    (0..READS).for_each(|_| last = Instant::now());
    let each = last.duration_since(begun).as_nanos() / u128::from(READS);
    let state = format!("{source}, {each} ns a reading");
    match each > 500 {
        true => Finding::note(
            "clock",
            state,
            "reading the time enters the kernel and is slow; `dmesg | grep -i tsc` says why the processor's is not used",
        ),
        false => Finding::fine("clock", state),
    }
}

fn own_name() -> Finding {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let listed = hosts.lines().any(|line| {
        line.split('#').next().unwrap_or_default().split_ascii_whitespace().skip(1).any(|word| word == name)
    });
    match listed {
        true => Finding::fine("host name", format!("{name}, in /etc/hosts")),
        false => Finding::note(
            "host name",
            format!("{name} is not in /etc/hosts"),
            format!("Barewire looks no names up; other MPIs may hang when they do: add `127.0.1.1 {name}`"),
        ),
    }
}

fn leftovers() -> Finding {
    let orphans: Vec<String> = crate::proc::agents_without_launcher().iter().map(u32::to_string).collect();
    match orphans.is_empty() {
        true => Finding::fine("leftover processes", "none"),
        false => Finding::problem(
            "leftover processes",
            format!("agents without a launcher: {}", orphans.join(", ")),
            format!("end them with `kill {}`", orphans.join(" ")),
        ),
    }
}

/// A misspelt variable has no effect, and programs refuse to start with it.
fn variables() -> Finding {
    let what = "variables";
    match Environment::capture().and_then(|environment| environment.config()) {
        Ok(_) => Finding::fine(what, "those of Barewire's that are set are known"),
        Err(error) => Finding::problem(
            what,
            error.to_string(),
            "programs refuse to start with it; `barewire info` lists all",
        ),
    }
}
