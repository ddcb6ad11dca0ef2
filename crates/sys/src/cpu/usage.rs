//! How much processor time this process has used, and how long it had to wait for it.

use std::time::Duration;

/// Processor time of all threads of this process so far: in its own code, and in the kernel for it.
///
/// ```
/// let (user, system) = barewire_sys::cpu::cpu_time();
/// let later = barewire_sys::cpu::cpu_time();
/// assert!(later.0 >= user && later.1 >= system);
/// ```
pub fn cpu_time() -> (Duration, Duration) {
    // SAFETY: every field of the structure is a number, for which all bits zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a structure of ours of the type that the call fills in.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let time = |t: libc::timeval| {
        Duration::from_micros(t.tv_sec.unsigned_abs() * 1_000_000 + t.tv_usec.unsigned_abs())
    };
    (time(usage.ru_utime), time(usage.ru_stime))
}

/// How long this thread has been ready to run while its processor was somebody else's; none where the system does not say.
///
/// ```
/// let before = barewire_sys::cpu::waited_for_a_processor();
/// assert!(barewire_sys::cpu::waited_for_a_processor() >= before);
/// ```
pub fn waited_for_a_processor() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    // Nanoseconds on a processor, nanoseconds ready for one, turns.
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}
