//! A link: a connected socket (or pipe) with a buffer each way, never blocking unless asked to wait.
//!
//! Nothing here sets flags on the descriptor, which other processes may share, and no write ever raises SIGPIPE.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::frame::{FrameError, Unit, split};

/// A buffered connection that carries frames and lines.
///
/// ```
/// use barewire_core::boot::{Fill, Link, frame::{Unit, Writer}};
/// let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
/// let (mut near, mut far) = (Link::new(near.into(), 1024), Link::new(far.into(), 1024));
/// near.queue(&Writer::new().u8(42).frame(7));
/// assert!(near.flush().unwrap());
/// assert_eq!(far.fill().unwrap(), Fill::Some(9));
/// assert_eq!(far.next_unit(), Ok(Some(Unit::Frame { kind: 7, body: &[42] })));
/// assert_eq!(far.next_unit(), Ok(None));
/// ```
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    body_bytes_max: usize,
    incoming: Vec<u8>,
    taken: usize,
    outgoing: Vec<u8>,
    sent: usize,
}

/// What a read found.
///
/// ```
/// # use barewire_core::boot::{Fill, Link};
/// # use std::{io::Write, os::unix::net::UnixStream};
/// let (near, mut far) = UnixStream::pair().unwrap();
/// let mut link = Link::new(near.into(), 1024);
/// assert_eq!(link.fill().unwrap(), Fill::Nothing);
/// far.write_all(b"cmd=init\n").unwrap();
/// assert_eq!(link.fill().unwrap(), Fill::Some(9));
/// drop(far);
/// assert_eq!(link.fill().unwrap(), Fill::Closed);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// So many bytes came.
    Some(usize),
    /// None are there now.
    Nothing,
    /// The other end closed the connection.
    Closed,
}

impl Link {
    /// Wraps a socket; bodies of frames may have up to `body_bytes_max` bytes.
    ///
    /// ```
    /// # use barewire_core::boot::{Link, frame::{FrameError, Writer}};
    /// # use std::{io::Write, os::unix::net::UnixStream};
    /// let (near, mut far) = UnixStream::pair().unwrap();
    /// let mut link = Link::new(near.into(), 3);
    /// far.write_all(&Writer::new().u32(1).frame(7)).unwrap();
    /// link.fill().unwrap();
    /// assert_eq!(link.next_unit(), Err(FrameError::TooLong { len: 4, max: 3 }));
    /// ```
    pub fn new(fd: OwnedFd, body_bytes_max: usize) -> Self {
        Self { fd, body_bytes_max, incoming: Vec::new(), taken: 0, outgoing: Vec::new(), sent: 0 }
    }

    /// The socket.
    ///
    /// ```
    /// # use barewire_core::boot::Link;
    /// # use std::os::{fd::AsRawFd, unix::net::UnixStream};
    /// let (near, far) = UnixStream::pair().unwrap();
    /// let number = near.as_raw_fd();
    /// assert_eq!(Link::new(near.into(), 1024).fd().as_raw_fd(), number);
    /// ```
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Appends `bytes` to what is to be sent.
    ///
    /// ```
    /// # use barewire_core::boot::Link;
    /// # use std::{io::Read, os::unix::net::UnixStream};
    /// let (near, mut far) = UnixStream::pair().unwrap();
    /// let mut link = Link::new(near.into(), 1024);
    /// link.queue(b"cmd=");
    /// link.queue(b"finalize\n");
    /// link.flush().unwrap();
    /// let mut came = [0; 13];
    /// far.read_exact(&mut came).unwrap();
    /// assert_eq!(&came, b"cmd=finalize\n");
    /// ```
    pub fn queue(&mut self, bytes: &[u8]) {
        self.outgoing.extend_from_slice(bytes);
    }

    /// How many bytes wait to be sent.
    ///
    /// ```
    /// # use barewire_core::boot::Link;
    /// let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    /// let mut link = Link::new(near.into(), 1024);
    /// link.queue(b"cmd=init\n");
    /// assert_eq!(link.queued_bytes(), 9);
    /// link.flush().unwrap();
    /// assert_eq!(link.queued_bytes(), 0);
    /// ```
    pub fn queued_bytes(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Sends what the socket takes now; true if nothing is left.
    ///
    /// ```
    /// # use barewire_core::boot::Link;
    /// let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    /// let mut link = Link::new(near.into(), 1024);
    /// while link.flush().unwrap() {
    ///     link.queue(&[b'x'; 1 << 16]);
    /// }
    /// assert!(link.queued_bytes() > 0, "nobody reads, and the socket is full");
    /// drop(far);
    /// assert!(link.flush().is_err(), "nobody ever will");
    /// ```
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.sent < self.outgoing.len() {
            match send_now(self.fd.as_fd(), &self.outgoing[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.outgoing.drain(..self.sent);
                    self.sent = 0;
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.outgoing.clear();
        self.outgoing.shrink_to(KEEP_BYTES);
        self.sent = 0;
        Ok(true)
    }

    /// Drops what has not been sent, because nobody takes it any more. What the other side has said before can still be read, and then its end.
    ///
    /// ```
    /// # use barewire_core::boot::{Fill, Link, frame::Unit};
    /// # use std::{io::Write, os::unix::net::UnixStream};
    /// let (near, mut far) = UnixStream::pair().unwrap();
    /// let mut link = Link::new(near.into(), 1024);
    /// far.write_all(b"farewell\n").unwrap();
    /// drop(far);
    /// link.queue(b"are you there?");
    /// assert!(link.flush().is_err());
    /// link.drop_queued();
    /// assert!(matches!(link.flush(), Ok(true)) && matches!(link.fill(), Ok(Fill::Some(9))));
    /// assert_eq!(link.next_unit(), Ok(Some(Unit::Line(b"farewell"))));
    /// assert!(matches!(link.fill(), Ok(Fill::Closed)));
    /// ```
    pub fn drop_queued(&mut self) {
        self.outgoing.clear();
        self.sent = 0;
    }

    /// Reads what is there, at most once.
    ///
    /// ```
    /// # use barewire_core::boot::{Fill, Link, frame::Unit};
    /// # use std::{io::Write, os::unix::net::UnixStream};
    /// let (near, mut far) = UnixStream::pair().unwrap();
    /// let mut link = Link::new(near.into(), 1024);
    /// far.write_all(b"cmd=i").unwrap();
    /// link.fill().unwrap();
    /// assert_eq!(link.next_unit(), Ok(None), "half a line");
    /// far.write_all(b"nit\n").unwrap();
    /// link.fill().unwrap();
    /// assert_eq!(link.next_unit(), Ok(Some(Unit::Line(b"cmd=init"))));
    /// ```
    pub fn fill(&mut self) -> io::Result<Fill> {
        if self.taken > 0 {
            self.incoming.drain(..self.taken);
            self.taken = 0;
        }
        self.incoming.reserve(READ_BYTES);
        let outcome = recv(self.fd.as_fd(), spare_capacity(&mut self.incoming), RecvFlags::DONTWAIT);
        match outcome.map(|(count, _)| count) {
            Ok(0) => Ok(Fill::Closed),
            Ok(count) => Ok(Fill::Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Fill::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the next whole unit out of what was read.
    ///
    /// ```
    /// # use barewire_core::boot::{Link, frame::Unit};
    /// # use std::{io::Write, os::unix::net::UnixStream};
    /// let (near, mut far) = UnixStream::pair().unwrap();
    /// let mut link = Link::new(near.into(), 1024);
    /// far.write_all(b"cmd=put\ncmd=barrier_in\n").unwrap();
    /// link.fill().unwrap();
    /// assert_eq!(link.next_unit(), Ok(Some(Unit::Line(b"cmd=put"))));
    /// assert_eq!(link.next_unit(), Ok(Some(Unit::Line(b"cmd=barrier_in"))));
    /// ```
    pub fn next_unit(&mut self) -> Result<Option<Unit<'_>>, FrameError> {
        let Some((unit, used)) = split(&self.incoming[self.taken..], self.body_bytes_max)? else {
            return Ok(None);
        };
        self.taken += used;
        Ok(Some(unit))
    }

    /// Takes the next whole unit as it came, header or newline included.
    ///
    /// ```
    /// # use barewire_core::boot::{Link, frame::Writer};
    /// # use std::{io::Write, os::unix::net::UnixStream};
    /// let (near, mut far) = UnixStream::pair().unwrap();
    /// let mut link = Link::new(near.into(), 1024);
    /// let frame = Writer::new().bytes(b"card").frame(2);
    /// far.write_all(&frame).unwrap();
    /// link.fill().unwrap();
    /// assert_eq!(link.next_raw(), Ok(Some(&frame[..])), "ready to be passed on");
    /// ```
    pub fn next_raw(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let Some((_, used)) = split(&self.incoming[self.taken..], self.body_bytes_max)? else {
            return Ok(None);
        };
        self.taken += used;
        Ok(Some(&self.incoming[self.taken - used..self.taken]))
    }

    /// Waits until bytes may be read, or written if some are queued; false if `deadline` came first.
    ///
    /// ```
    /// # use barewire_core::boot::Link;
    /// # use std::{io::Write, os::unix::net::UnixStream, time::Instant};
    /// let (near, mut far) = UnixStream::pair().unwrap();
    /// let link = Link::new(near.into(), 1024);
    /// assert!(!link.wait(Some(Instant::now())).unwrap(), "nothing is there yet");
    /// far.write_all(b"cmd=init\n").unwrap();
    /// assert!(link.wait(None).unwrap());
    /// ```
    pub fn wait(&self, deadline: Option<Instant>) -> io::Result<bool> {
        let mut interest = PollFlags::IN;
        if self.queued_bytes() > 0 {
            interest |= PollFlags::OUT;
        }
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let timeout = left.map(timespec);
            let mut fds = [PollFd::from_borrowed_fd(self.fd.as_fd(), interest)];
            match poll(&mut fds, timeout.as_ref()) {
                Ok(0) if left == Some(Duration::ZERO) => return Ok(false),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn send_now(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    send(fd, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// Bytes asked for by one read, at least.
const READ_BYTES: usize = 32 * 1024;
/// An emptied buffer keeps this much.
const KEEP_BYTES: usize = 256 * 1024;
