//! Who is at the other end of a local socket, as the kernel vouches for it.
//!
//! ```
//! use barewire_sys::{credentials, rustix::process::getuid};
//! use std::os::fd::AsFd;
//! fn is_ours(socket: &impl AsFd) -> bool {
//!     credentials::of(socket).is_ok_and(|who| who.uid == getuid())
//! }
//! let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
//! assert!(is_ours(&here) && is_ours(&there));
//! assert!(!is_ours(&std::fs::File::open("/dev/null").unwrap()), "nobody vouches for a file");
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::process::{Pid, Uid};

/// A process at the other end of a local socket.
///
/// ```
/// use barewire_sys::credentials::{self, Credentials};
/// use barewire_sys::rustix::process::{getpid, getuid};
/// let (here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
/// let who = credentials::of(&here).unwrap();
/// assert_eq!(who, Credentials { pid: Some(getpid()), uid: getuid() }, "both ends are ours");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its number; none if it is in a namespace that we cannot see into.
    pub pid: Option<Pid>,
    /// Its user.
    pub uid: Uid,
}

/// Who is at the other end.
///
/// ```
/// use barewire_sys::{credentials, rustix::process::getpid};
/// let (here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
/// assert_eq!(credentials::of(&here).unwrap().pid, Some(getpid()));
/// ```
pub fn of(socket: &impl AsFd) -> io::Result<Credentials> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, and the kernel writes no more than `len` bytes into `found`, which are as many as it has.
    let done = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut found).cast(),
            &mut len,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Credentials { pid: Pid::from_raw(found.pid), uid: Uid::from_raw(found.uid) })
}
