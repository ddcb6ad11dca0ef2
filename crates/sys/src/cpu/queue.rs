//! The queue for a processor: which processor a thread stands at, and after whom its turn comes.
//!
//! Threads that offer their processor to others have it in turn, and the order lasts. Neither of the two calls here binds a
//! thread to anything: the system goes on to place and to order threads as it sees fit.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{Cpu, PinError};

/// Moves the calling thread to a processor and leaves it free to be moved on: where it may run is as before.
///
/// # Errors
///
/// As for [`pin_to`](super::pin_to), and [`PinError::NotAllowed`] if the thread is kept off that processor.
///
/// ```
/// use barewire_sys::cpu::{allowed_cpus, move_to};
/// let cpus = allowed_cpus();
/// move_to(cpus[0]).unwrap();
/// assert_eq!(allowed_cpus(), cpus, "it may run wherever it might before");
/// ```
pub fn move_to(cpu: Cpu) -> Result<(), PinError> {
    let refused = |errno: rustix::io::Errno| PinError::Refused { cpu: cpu.0, source: errno.into() };
    let allowed = sched_getaffinity(None).map_err(refused)?;
    let index = cpu.0 as usize;
    if index >= CpuSet::MAX_CPU {
        return Err(PinError::TooHigh { cpu: cpu.0, max: CpuSet::MAX_CPU - 1 });
    }
    if !allowed.is_set(index) {
        return Err(PinError::NotAllowed { cpu: cpu.0 });
    }
    super::pin_to(cpu)?;
    sched_setaffinity(None, &allowed).map_err(refused)
}

/// Offers the processor to others as `yield_now` does, and has the next turns come later by so many 256ths of a time slice:
/// of threads that all yield, the order of the turns changes, and stays changed.
///
/// # Errors
///
/// `Unsupported` on kernels without time slices of a thread's own (before Linux 6.12) and for threads under another policy than the
/// usual one; whatever the kernel says if it refuses.
///
/// ```
/// use barewire_sys::cpu::step_back;
/// match step_back(128) {
///     Ok(()) => (), // half a slice later
///     Err(error) => eprintln!("turns stay as they are: {error}"),
/// }
/// ```
pub fn step_back(by: u8) -> io::Result<()> {
    let usual = attributes()?;
    let policy = usual.sched_policy as i32;
    if usual.sched_runtime == 0 || !(policy == libc::SCHED_OTHER || policy == libc::SCHED_BATCH) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let slice = usual.sched_runtime;
    set_slice(&usual, slice.saturating_add(slice / 256 * u64::from(by)))?;
    std::thread::yield_now();
    // None is the system's own, which follows the system's setting.
    set_slice(&usual, 0)?;
    if attributes()?.sched_runtime != slice {
        set_slice(&usual, slice)?;
    }
    Ok(())
}

/// How the calling thread is scheduled.
fn attributes() -> io::Result<libc::sched_attr> {
    // SAFETY: every field of the structure is a number, for which all bits zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let bytes = size_of_val(&attributes);
    // SAFETY: the call writes at most as many bytes as it is told, to a structure of ours of that size.
    let said = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, bytes, 0) };
    if said == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

/// Gives the calling thread a time slice, and leaves everything else as it is.
fn set_slice(usual: &libc::sched_attr, nanoseconds: u64) -> io::Result<()> {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_flags: usual.sched_flags & libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_runtime: nanoseconds,
        sched_deadline: 0,
        sched_period: 0,
        ..*usual
    };
    // SAFETY: the structure is of the size that it names, and the call only reads it.
    let said = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if said == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{allowed_cpus, current_cpu};

    #[test]
    fn a_thread_that_is_moved_is_there_and_free() {
        std::thread::spawn(|| {
            let all = allowed_cpus();
            for &cpu in &all {
                crate::cpu::pin_to(cpu).expect("allowed");
                assert!(matches!(move_to(Cpu(u32::MAX)), Err(PinError::TooHigh { .. })));
                if let Some(&other) = all.iter().find(|&&other| other != cpu) {
                    assert!(
                        matches!(move_to(other), Err(PinError::NotAllowed { .. })),
                        "it is kept off {other:?}"
                    );
                }
                move_to(cpu).expect("it is there already");
                assert_eq!((current_cpu(), allowed_cpus()), (cpu, vec![cpu]));
            }
        })
        .join()
        .expect("the thread's own assertions hold");
        let all = allowed_cpus();
        move_to(all[all.len() - 1]).expect("allowed");
        assert_eq!(allowed_cpus(), all);
    }

    #[test]
    fn who_steps_back_is_scheduled_as_before() {
        std::thread::spawn(|| {
            // SAFETY: of this thread alone, and any number is a priority to ask for.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 3) };
            let Ok(before) = attributes() else { return };
            let stepped = step_back(200).is_ok();
            let after = attributes().expect("it could be read before");
            assert_eq!((after.sched_policy, after.sched_nice), (before.sched_policy, before.sched_nice));
            assert_eq!((after.sched_runtime, after.sched_flags), (before.sched_runtime, before.sched_flags));
            if stepped {
                set_slice(&before, 5_000_000).expect("as before");
                step_back(9).expect("as before");
                assert_eq!(
                    attributes().map(|now| now.sched_runtime).ok(),
                    Some(5_000_000),
                    "a slice of its own"
                );
            }
        })
        .join()
        .expect("the thread's own assertions hold");
    }
}
