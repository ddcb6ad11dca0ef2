//! Descriptors that a parent process left open for us.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::os::{fd::AsRawFd, unix::net::UnixStream};
//! let (ours, mut launchers) = UnixStream::pair().unwrap();
//! let variable = ours.as_raw_fd().to_string(); // as it stands in the environment
//! let mut joined = UnixStream::from(barewire_sys::inherit::take(variable.parse().unwrap()).unwrap());
//! launchers.write_all(b"rank 3").unwrap();
//! let mut told = [0; 6];
//! joined.read_exact(&mut told).unwrap();
//! assert_eq!(&told, b"rank 3");
//! ```

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// Takes a copy of an inherited descriptor, whose number a launcher wrote into the environment.
///
/// The copy is closed on exec and when dropped; the inherited number itself stays open, so that a program may leave its
/// job and join it again.
///
/// ```
/// use barewire_sys::inherit::take;
/// use std::os::fd::AsRawFd;
/// let left_open = std::fs::File::open("/dev/null").unwrap();
/// let copies = [take(left_open.as_raw_fd()).unwrap(), take(left_open.as_raw_fd()).unwrap()];
/// assert_ne!(copies[0].as_raw_fd(), copies[1].as_raw_fd(), "it can be taken again");
/// assert!(take(1).is_err(), "that is standard output");
/// ```
pub fn take(fd: RawFd) -> io::Result<OwnedFd> {
    if fd <= 2 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the standard streams carry no job"));
    }
    // SAFETY: `fd` is not -1, and the borrow lives for one fcntl call, which only reads the descriptor table: a number
    // that is not open makes it fail with EBADF, an open one is copied and left as it was.
    let inherited = unsafe { BorrowedFd::borrow_raw(fd) };
    Ok(rustix::io::fcntl_dupfd_cloexec(inherited, 3)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_copy_is_taken_of_an_open_descriptor() {
        let open = std::fs::File::open("/dev/null").unwrap();
        let copy = take(open.as_raw_fd()).unwrap();
        assert_ne!(copy.as_raw_fd(), open.as_raw_fd());
    }

    #[test]
    fn numbers_that_are_not_open_are_errors() {
        assert!(take(-1).is_err());
        assert!(take(1).is_err());
        assert!(take(1_000_000_000).is_err());
    }
}
