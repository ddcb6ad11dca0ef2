//! TCP as the kernel has it: whether the other machine still answers, and bytes straight from and to where they belong.
//!
//! A stopped process has a kernel that acknowledges for it; a machine that is gone does not. Only the kernel can tell
//! the two apart, and this is where it is asked.
//!
//! ```
//! use barewire_sys::{tcp, wirebuf::WireRef};
//! let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
//! let out = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
//! let mut sent = 0;
//! while let Ok(n) = tcp::send(&out, [b"", b"", b""], &WireRef::new(&[7; 10_000])) {
//!     sent += n;
//! }
//! assert!(sent > 10_000, "nobody reads: the kernels on both sides have taken it, and now take no more");
//! assert!(tcp::state(&out).is_ok(), "the other machine is there all the same");
//! ```

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use crate::wirebuf::{Places, WireRef};

/// What the kernel says about a connection at one moment.
///
/// ```
/// use barewire_sys::tcp::{self, TcpState};
/// # let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
/// # let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
/// let TcpState { unanswered, is_delivered, .. } = tcp::state(&stream).unwrap();
/// assert_eq!((unanswered, is_delivered), (0, false), "nothing is on its way, and nobody has closed");
/// stream.shutdown(std::net::Shutdown::Write).unwrap();
/// while !tcp::state(&stream).unwrap().is_delivered {}
/// ```
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

/// Writes what the socket takes now: of each of `before`, in order, and then of `body`, straight from where it is. Says how many bytes that
/// was.
///
/// ```
/// use barewire_sys::{tcp, wirebuf::{Places, WireMut, WireRef}};
/// let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
/// let out = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
/// let (into, _) = listener.accept().unwrap();
/// assert_eq!(tcp::send(&out, [b"head", b"", b" "], &WireRef::new(b"body, next")), Ok(15));
/// let (mut first, mut second, mut behind) = ([0; 4], [0; 5], [0; 100]);
/// let mut places = Places::default();
/// assert!(places.push(WireMut::new(&mut first)) && places.push(WireMut::new(&mut second)));
/// while tcp::receive(&into, &places, &mut behind) != Ok(15) {}
/// assert_eq!((&first, &second, &behind[..6]), (b"head", b" body", &b", next"[..]));
/// ```
pub fn send(socket: impl AsFd, before: [&[u8]; 3], body: &WireRef<'_>) -> Result<usize, Errno> {
    let part =
        |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let [first, second, third] = before.map(part);
    let body = libc::iovec { iov_base: body.start().cast_mut().cast(), iov_len: body.remaining() };
    let mut parts = [first, second, third, body];
    // SAFETY: the kernel only reads the four parts, all of which outlive the call.
    moved(unsafe {
        let message = message(&mut parts);
        libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    })
}

/// Reads what has arrived: straight into `places` until they are full, then into `behind`. Says how many bytes that was in all; none at
/// the stream's end.
///
/// ```
/// use barewire_sys::{rustix::io::Errno, tcp, wirebuf::{Places, WireMut}};
/// use std::io::Write;
/// # let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
/// # let mut out = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
/// # let (into, _) = listener.accept().unwrap();
/// let (mut body, mut behind) = ([0; 4], [0; 8]);
/// assert_eq!(tcp::receive(&into, &Places::default(), &mut behind), Err(Errno::AGAIN), "nothing yet");
/// out.write_all(b"bodynext").unwrap();
/// drop(out);
/// let mut places = Places::default();
/// places.push(WireMut::new(&mut body));
/// while tcp::receive(&into, &places, &mut behind) != Ok(8) {}
/// assert_eq!((&body, &behind[..4]), (b"body", &b"next"[..]));
/// while tcp::receive(&into, &Places::default(), &mut behind) != Ok(0) {} // the end
/// ```
pub fn receive(socket: impl AsFd, places: &Places<'_>, behind: &mut [u8]) -> Result<usize, Errno> {
    let last = libc::iovec { iov_base: behind.as_mut_ptr().cast(), iov_len: behind.len() };
    let mut parts = [last; Places::MOST + 1];
    let count = places.parts().len();
    parts[..count].copy_from_slice(places.parts());
    // SAFETY: the kernel writes at most the bytes that are left of `places`, and those of `behind`.
    moved(unsafe {
        let mut message = message(&mut parts[..=count]);
        libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT)
    })
}

/// A message of these parts and nothing else.
fn message(parts: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: the struct is integers and pointers; all zeroes are a value of it.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len());
    message
}

fn moved(count: isize) -> Result<usize, Errno> {
    usize::try_from(count)
        .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}
