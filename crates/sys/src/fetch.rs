//! Copying straight out of another process's memory, where the kernel allows it.
//!
//! ```
//! use barewire_sys::{fetch::fetch, rustix::process::getpid, wirebuf::{Places, WireMut, WireRef}};
//! let (mut head, mut body) = ([0; 4], [0; 6]);
//! let mut places = Places::default();
//! assert!(places.push(WireMut::new(&mut head)) && places.push(WireMut::new(&mut body)));
//! match fetch(getpid(), WireRef::new(b"HEADa body").address(), places) {
//!     Ok(()) => assert_eq!((&head, &body), (b"HEAD", b"a body")),
//!     Err(refused) => println!("the kernel does not allow it here: {refused}"),
//! }
//! ```

use std::io;

use rustix::process::Pid;

use crate::wirebuf::Places;

/// Fills `into` with the bytes at `address` of process `pid`. It is an error if they are not all there to be read; some may have been
/// copied then. The kernel decides whether this process may.
///
/// ```
/// use barewire_sys::{fetch::fetch, rustix::process::getpid, wirebuf::{Places, WireMut, WireRef}};
/// let (from, mut to) = ([7u8; 100], [0u8; 100]);
/// let mut places = Places::default();
/// places.push(WireMut::new(&mut to));
/// if fetch(getpid(), WireRef::new(&from).address(), places).is_ok() {
///     assert_eq!(to, from);
/// }
/// let mut places = Places::default();
/// places.push(WireMut::new(&mut to));
/// assert!(fetch(getpid(), 8, places).is_err(), "nothing is there");
/// ```
pub fn fetch(pid: Pid, mut address: u64, mut into: Places<'_>) -> io::Result<()> {
    while into.remaining() > 0 {
        let from = libc::iovec {
            iov_base: std::ptr::without_provenance_mut(address as usize),
            iov_len: into.remaining(),
        };
        let parts = into.parts();
        // SAFETY: the kernel writes at most the bytes that are left of `into`, and checks the other process's side.
        let copied = unsafe {
            let pid = pid.as_raw_nonzero().get();
            libc::process_vm_readv(pid, parts.as_ptr(), parts.len() as libc::c_ulong, &raw const from, 1, 0)
        };
        match usize::try_from(copied) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(copied) => {
                into.skip(copied);
                address = address.wrapping_add(copied as u64);
            }
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Whether the kernel lets this process read the memory of `pid`.
///
/// ```
/// use barewire_sys::{fetch::is_allowed, rustix::process::{Pid, getpid}};
/// println!("reading of init's: {}", is_allowed(Pid::INIT));
/// assert_eq!(is_allowed(getpid()), barewire_sys::fetch::fetch(getpid(), 8, Default::default()).is_ok());
/// ```
pub fn is_allowed(pid: Pid) -> bool {
    let mut byte = [0];
    let mut place = Places::default();
    place.push(crate::wirebuf::WireMut::new(&mut byte));
    // Nobody has anything in the first page; who may look is told so, who may not is told that.
    let nowhere = 8;
    fetch(pid, nowhere, place).is_err_and(|error| error.raw_os_error() == Some(libc::EFAULT))
}
