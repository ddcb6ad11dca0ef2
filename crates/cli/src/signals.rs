//! Signals as events: caught by this command only, never by the library.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGPIPE;
use signal_hook::{flag, low_level};

/// Catches signals and makes a descriptor readable when one came.
#[derive(Debug)]
pub struct Signals {
    wake: UnixStream,
    caught: Vec<(i32, Arc<AtomicBool>)>,
}

impl Signals {
    /// Catches `signals` from now on.
    pub fn catch(signals: &[i32]) -> io::Result<Self> {
        let (wake, write) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let mut caught = Vec::new();
        for &signal in signals {
            let came = Arc::new(AtomicBool::new(false));
            flag::register(signal, Arc::clone(&came))?;
            low_level::pipe::register(signal, write.try_clone()?)?;
            caught.push((signal, came));
        }
        // A signal that came between the two has left a flag and no byte: whoever waits looks once in any case.
        (&write).write_all(&[0])?;
        Ok(Self { wake, caught })
    }

    /// Readable when [`take`](Self::take) has something.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The signals that came since the last call.
    pub fn take(&mut self) -> Vec<i32> {
        let mut bytes = [0; 256];
        while self.wake.read(&mut bytes).is_ok_and(|count| count == bytes.len()) {}
        // SYNC caught: pairs with the store in signal-hook's handler, which sets the flag before it writes the byte.
        let came = self.caught.iter().filter(|(_, came)| came.swap(false, Ordering::SeqCst));
        came.map(|(signal, _)| *signal).collect()
    }
}

/// Ends this process at the first write to a pipe that nobody reads, as programs do that are not Rust's; those it starts do
/// in any case.
pub fn end_at_broken_pipes() -> io::Result<()> {
    flag::register_conditional_default(SIGPIPE, Arc::new(AtomicBool::new(true))).map(drop)
}

/// What people call a signal.
pub fn name(signal: i32) -> String {
    low_level::signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// What a signal means to the one who reads the summary.
pub fn meaning(signal: i32) -> &'static str {
    match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        5 => "trap",
        6 => "abort",
        7 => "bus error: memory that could not be backed, often a full /dev/shm",
        8 => "arithmetic error",
        9 => "killed, possibly by the kernel for lack of memory: see `dmesg`",
        11 => "segmentation fault",
        13 => "broken pipe",
        14 => "alarm",
        15 => "terminated",
        24 => "CPU time limit",
        25 => "file size limit",
        31 => "forbidden system call",
        _ => "",
    }
}
