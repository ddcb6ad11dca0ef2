//! Descriptors that a parent process left open for us.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// Takes a copy of an inherited descriptor, whose number a launcher wrote into the environment.
///
/// The copy is closed on exec and when dropped; the inherited number itself stays open, so that a program may leave its
/// job and join it again.
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
