//! What the process may run on: processors, their quota, caches and neighbours, and a cheap clock.
//!
//! How long to spin, where to place ranks and when to copy past the caches all depend on the machine as this process
//! sees it, which affinity masks and control groups make smaller than the machine itself. Everything here comes
//! from system calls and from text under `/proc` and `/sys`; the parsers take that text as `&str`, believe
//! none of it, and where a file is missing or makes no sense a default stands in.
//!
//! ```
//! use barewire_sys::cpu::{Share, Topology, allowed_cpus, usable_cpus};
//! let (machine, cpus) = (Topology::read(), allowed_cpus());
//! // Where to put two ranks: the second on the processor that is nearest to the first's.
//! let second = cpus.iter().skip(1).min_by_key(|&&cpu| machine.share(cpus[0], cpu));
//! assert_eq!(second.is_none(), cpus.len() == 1);
//! assert!(second.is_none_or(|&cpu| machine.share(cpus[0], cpu) > Share::Cpu));
//! assert!(usable_cpus() <= cpus.len());
//! ```

mod clock;
#[cfg(not(loom))]
mod lines;
mod list;
mod maker;
mod memory;
mod queue;
mod quota;
mod topology;
mod usage;

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use thiserror::Error;

pub use clock::{settle, ticks, ticks_per_us};
#[cfg(not(loom))]
pub(crate) use lines::{fetch_line, own_line};
pub use list::{ListError, parse_cpu_list};
#[cfg(not(loom))]
pub(crate) use maker::is_amd;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use maker::moves_64_bytes;
pub use memory::{HugePages, HugePool, Transparent, huge_pages, page_bytes};
pub use queue::{move_to, step_back};
pub use quota::cpu_quota;
pub use topology::{Caches, Place, Share, Topology};
pub use usage::{cpu_time, waited_for_a_processor};

/// A logical processor, by the kernel's number.
///
/// ```
/// use barewire_sys::cpu::{Cpu, parse_cpu_list};
/// let cpus = parse_cpu_list("8,2-3").unwrap();
/// assert_eq!(cpus.iter().min(), Some(&Cpu(2)));
/// assert_eq!(cpus.iter().max().map(|cpu| cpu.0), Some(8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu(pub u32);

/// The processors that the calling thread may run on, in order; never empty.
///
/// ```
/// let cpus = barewire_sys::cpu::allowed_cpus();
/// assert!(!cpus.is_empty() && cpus.is_sorted());
/// ```
pub fn allowed_cpus() -> Vec<Cpu> {
    allowed_by_call().or_else(allowed_by_status).unwrap_or_else(|| (0..processors_guess()).map(Cpu).collect())
}

/// How many processors this process can keep busy: the allowed ones, or fewer under a quota, but at least one.
///
/// A quota of two and a half processors counts as two: a third busy thread would be stopped half the time.
///
/// ```
/// let usable = barewire_sys::cpu::usable_cpus();
/// assert!(usable >= 1 && usable <= barewire_sys::cpu::allowed_cpus().len());
/// ```
pub fn usable_cpus() -> usize {
    usable(allowed_cpus().len(), cpu_quota())
}

/// How many processors this machine can keep busy for us: those that are there, or fewer under a quota, whichever of them
/// this process may use.
///
/// ```
/// assert!(barewire_sys::cpu::machine_cpus() >= barewire_sys::cpu::usable_cpus());
/// ```
pub fn machine_cpus() -> usize {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let online = online.and_then(|text| parse_cpu_list(text.trim()).ok()).map_or(0, |cpus| cpus.len());
    usable(online.max(allowed_cpus().len()), cpu_quota())
}

/// Keeps the calling thread on one processor from now on.
///
/// # Errors
///
/// [`PinError::NotAllowed`] if the process may not run there or there is no such processor, [`PinError::TooHigh`] if
/// the number is past what the kernel call can name.
///
/// ```
/// use barewire_sys::cpu::{allowed_cpus, pin_to};
/// let cpu = allowed_cpus()[0];
/// pin_to(cpu)?;
/// assert_eq!(allowed_cpus(), [cpu]);
/// # Ok::<(), barewire_sys::cpu::PinError>(())
/// ```
pub fn pin_to(cpu: Cpu) -> Result<(), PinError> {
    let index = cpu.0 as usize;
    if index >= CpuSet::MAX_CPU {
        return Err(PinError::TooHigh { cpu: cpu.0, max: CpuSet::MAX_CPU - 1 });
    }
    let mut set = CpuSet::new();
    set.set(index);
    match sched_setaffinity(None, &set) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::INVAL) => Err(PinError::NotAllowed { cpu: cpu.0 }),
        Err(errno) => Err(PinError::Refused { cpu: cpu.0, source: errno.into() }),
    }
}

/// Why [`pin_to`] did not.
///
/// ```
/// use barewire_sys::cpu::{Cpu, PinError, pin_to};
/// assert!(matches!(pin_to(Cpu(u32::MAX)), Err(PinError::TooHigh { .. })));
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PinError {
    /// The processor does not exist, is off, or is outside the set that this process is confined to.
    #[error("this process may not run on processor {cpu}")]
    NotAllowed {
        /// The processor asked for.
        cpu: u32,
    },
    /// The kernel call cannot name so high a number.
    #[error("processor {cpu} is past the last that can be named, {max}")]
    TooHigh {
        /// The processor asked for.
        cpu: u32,
        /// The highest that can be named.
        max: usize,
    },
    /// The kernel refused for another reason, a sandbox for instance.
    #[error("the kernel refused to pin this thread to processor {cpu}")]
    Refused {
        /// The processor asked for.
        cpu: u32,
        /// What the kernel said.
        source: io::Error,
    },
}

/// The processor that the calling thread was on a moment ago.
///
/// ```
/// assert!(barewire_sys::cpu::current_cpu().0 < 1 << 16);
/// ```
pub fn current_cpu() -> Cpu {
    Cpu(u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(0))
}

/// Tells the processor that this is a turn of a spin loop.
///
/// ```
/// barewire_sys::cpu::relax();
/// ```
#[inline(always)]
pub fn relax() {
    core::hint::spin_loop();
}

fn allowed_by_call() -> Option<Vec<Cpu>> {
    let set = sched_getaffinity(None).ok()?;
    let cpus: Vec<Cpu> = (0..CpuSet::MAX_CPU).filter(|&at| set.is_set(at)).map(|at| Cpu(at as u32)).collect();
    (!cpus.is_empty()).then_some(cpus)
}

/// For machines with more processors than the call's fixed mask holds, which it refuses.
fn allowed_by_status() -> Option<Vec<Cpu>> {
    parse_allowed(&read("/proc/thread-self/status")?)
}

fn parse_allowed(status: &str) -> Option<Vec<Cpu>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    parse_cpu_list(list).ok().filter(|cpus| !cpus.is_empty())
}

fn processors_guess() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1))
}

fn usable(allowed: usize, quota: Option<f64>) -> usize {
    let allowed = allowed.max(1);
    // A float becomes an integer by saturation, so an absurd quota is no quota.
    quota.map_or(allowed, |quota| (quota as usize).clamp(1, allowed))
}

/// A small text file under `/proc` or `/sys`; `None` if there is none, or it is not text.
fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_lowers_the_count_but_never_below_one() {
        assert_eq!(usable(8, None), 8);
        assert_eq!(usable(8, Some(2.5)), 2);
        assert_eq!(usable(8, Some(0.1)), 1);
        assert_eq!(usable(8, Some(100.0)), 8);
        assert_eq!(usable(8, Some(f64::INFINITY)), 8);
        assert_eq!(usable(8, Some(f64::NAN)), 1);
        assert_eq!(usable(0, None), 1);
    }

    #[test]
    fn the_status_file_names_the_allowed_processors() {
        let status = "Name:\tx\nCpus_allowed:\t3f\nCpus_allowed_list:\t0-2,5\nMems_allowed_list:\t0\n";
        assert_eq!(parse_allowed(status), Some(vec![Cpu(0), Cpu(1), Cpu(2), Cpu(5)]));
        assert_eq!(parse_allowed("Name:\tx\n"), None);
        assert_eq!(parse_allowed("Cpus_allowed_list:\t\n"), None);
        assert_eq!(parse_allowed("Cpus_allowed_list:\t0-x\n"), None);
    }

    #[test]
    fn the_call_and_the_status_file_agree() {
        assert_eq!(allowed_by_call(), allowed_by_status());
    }

    #[test]
    fn a_pinned_thread_stays_where_it_was_put() {
        std::thread::spawn(|| {
            for cpu in allowed_cpus() {
                pin_to(cpu).expect("allowed");
                assert_eq!(current_cpu(), cpu);
            }
        })
        .join()
        .expect("the thread's own assertions hold");
    }

    #[test]
    fn a_processor_that_is_not_there_is_refused_by_name() {
        let absent = Cpu(CpuSet::MAX_CPU as u32 - 1);
        assert!(!allowed_cpus().contains(&absent), "a machine with 1024 processors needs another test");
        assert!(matches!(pin_to(absent), Err(PinError::NotAllowed { cpu }) if cpu == absent.0));
        assert!(matches!(pin_to(Cpu(1 << 20)), Err(PinError::TooHigh { .. })));
    }
}
