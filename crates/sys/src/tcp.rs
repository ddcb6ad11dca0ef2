//! What the kernel knows about a TCP connection: whether the other machine still answers.
//!
//! A stopped process has a kernel that acknowledges for it; a machine that is gone does not. Only the kernel can tell
//! the two apart, and this is where it is asked.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// What the kernel says about a connection at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpState {
    /// Segments sent and not acknowledged, or several probes of a closed window not answered.
    pub unanswered: u32,
    /// Milliseconds since the other machine last acknowledged anything.
    pub last_answer_ms: u32,
    /// We closed our side, and the other machine has acknowledged everything up to that.
    pub is_delivered: bool,
}

/// Asks the kernel about a TCP socket.
///
/// ```
/// let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
/// let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
/// assert_eq!(barewire_sys::tcp::state(&stream).unwrap().unanswered, 0);
/// ```
pub fn state(socket: impl AsFd) -> Result<TcpState, Errno> {
    // SAFETY: the struct is plain integers; all zeroes are a value of it.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the descriptor is open for the length of the borrow, and the kernel writes at most `len` bytes, which is
    // the struct's size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    // Linux's numbers: FIN_WAIT2 = 5, TIME_WAIT = 6, CLOSE = 7.
    let is_delivered = matches!(info.tcpi_state, 5..=7);
    // Of probes in quick succession a kernel answers only some, so one or two without an answer mean nothing.
    let unanswered = info.tcpi_unacked + u32::from(info.tcpi_probes / 3);
    Ok(TcpState { unanswered, last_answer_ms: info.tcpi_last_ack_recv, is_delivered })
}
