//! Copying straight out of another process's memory, where the kernel allows it.

use std::io;

use rustix::process::Pid;

use crate::wirebuf::WireMut;

/// Fills `into` with the bytes at `address` of process `pid`. It is an error if they are not all there to be read; some may have been
/// copied then. The kernel decides whether this process may.
///
/// ```
/// use barewire_sys::{fetch::fetch, rustix::process::getpid, wirebuf::{WireMut, WireRef}};
/// let (from, mut to) = ([7u8; 100], [0u8; 100]);
/// if fetch(getpid(), WireRef::new(&from).address(), &mut WireMut::new(&mut to)).is_ok() {
///     assert_eq!(to, from);
/// }
/// assert!(fetch(getpid(), 8, &mut WireMut::new(&mut to)).is_err(), "nothing is there");
/// ```
pub fn fetch(pid: Pid, mut address: u64, into: &mut WireMut<'_>) -> io::Result<()> {
    while into.remaining() > 0 {
        let len = into.remaining();
        let from = libc::iovec { iov_base: std::ptr::without_provenance_mut(address as usize), iov_len: len };
        // SAFETY: the kernel writes at most the bytes that are left of `into`, and checks the other process's side.
        let copied = into.fill_with(|at| unsafe {
            let to = libc::iovec { iov_base: at.cast(), iov_len: len };
            libc::process_vm_readv(pid.as_raw_nonzero().get(), &to, 1, &from, 1, 0)
        });
        match copied {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            ..0 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            copied => address = address.wrapping_add(copied as u64),
        }
    }
    Ok(())
}
