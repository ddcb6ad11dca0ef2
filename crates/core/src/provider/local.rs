//! Local sockets: how neighbours find each other and hand over memory.
//!
//! Abstract names, which vanish with the process. Both sides look at the other's user id, which the kernel vouches for,
//! and both prove the job's key.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use barewire_sys::bell::{Bell, Ringer};
use barewire_sys::credentials;
use barewire_sys::ring::RingMemory;
use barewire_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};
use barewire_sys::rustix::io::Errno;
use barewire_sys::rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::auth;
use crate::job::{JobId, JobKey};

const MAGIC: &[u8; 8] = b"barewir5";
const HELLO_BYTES: usize = 8 + 16 + 4 + 4 + 8 + 3 * 16 + auth::PROOF_BYTES;
const FDS_MAX: usize = 3;
const MESSAGE_BYTES_MAX: usize = 256;

/// The name under which a rank of a job listens.
pub(crate) fn name(job: JobId, rank: u32) -> String {
    format!("barewire-{job}-{rank}")
}

/// The name under which an endpoint at large is called back.
pub(crate) fn home_name(job: JobId, home: [u8; 16]) -> String {
    format!("barewire-{job}-{}", JobId(home))
}

/// The name under which an endpoint at large listens that also listens at this TCP address.
pub(crate) fn door_name(job: JobId, door: SocketAddr) -> String {
    format!("barewire-{job}-at-{door}")
}

/// A listening socket under `name`.
pub(crate) fn listen(name: &str) -> Result<OwnedFd, Errno> {
    let socket = new_socket()?;
    net::bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    net::listen(&socket, 4096)?;
    Ok(socket)
}

/// The next connection from a process of our user, if there is one.
pub(crate) fn accept(listener: &OwnedFd) -> Option<OwnedFd> {
    loop {
        let socket = net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC).ok()?;
        if is_ours(&socket) {
            return Some(socket);
        }
    }
}

/// Who speaks to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The dialler's number; at large, the dialler's number for whom it calls.
    pub from: u32,
    /// The acceptor's number; at large, the acceptor's number for the dialler if that is an answer.
    pub to: u32,
    /// At large: where the dialler can be called back.
    pub home: [u8; 16],
    /// At large: the nonce of the hello that this is the answer to.
    pub answering: [u8; 16],
}

/// Connects to the endpoint listening under `name` and hands it `ring`, and `bell` to ring us when there is room in it.
pub(crate) fn dial(
    name: &str,
    (job, key): (JobId, &JobKey),
    greeting: Greeting,
    ring: &RingMemory,
    bell: &Bell,
) -> Result<Dialled, Errno> {
    let socket = new_socket()?;
    net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    // Outside a job it may run as another user, who would not let us in; TCP leads there too.
    let at_large = greeting.home != [0; 16];
    if !(if at_large { is_same_user(&socket) } else { is_ours(&socket) }) {
        return Err(Errno::PERM);
    }
    let nonce: [u8; 16] = auth::random().map_err(|_| Errno::IO)?;
    let mut hello = Vec::with_capacity(HELLO_BYTES);
    hello.extend_from_slice(MAGIC);
    hello.extend_from_slice(&job.0);
    hello.extend_from_slice(&greeting.from.to_le_bytes());
    hello.extend_from_slice(&greeting.to.to_le_bytes());
    hello.extend_from_slice(&(ring.bytes() as u64).to_le_bytes());
    hello.extend_from_slice(&nonce);
    hello.extend_from_slice(&greeting.home);
    hello.extend_from_slice(&greeting.answering);
    let proof = auth::prove(key, "local hello", &[&hello]);
    hello.extend_from_slice(&proof);
    let [flag, event] = bell.fds();
    send(&socket, &hello, &[ring.fd(), flag, event])?;
    Ok(Dialled { fd: socket, nonce, welcome: auth::prove(key, "local welcome", &[&hello]) })
}

/// A connection we made, and the answer that shows the other side to hold the key.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub fd: OwnedFd,
    /// What an answer to our hello names.
    pub nonce: [u8; 16],
    welcome: [u8; auth::PROOF_BYTES],
}

/// What a neighbour's hello says.
#[derive(Debug)]
pub(crate) struct Hello {
    pub greeting: Greeting,
    pub nonce: [u8; 16],
    pub ring_bytes: usize,
}

/// Checks a hello: right job, and made by somebody who holds the key.
pub(crate) fn check_hello(bytes: &[u8], job: JobId, key: &JobKey) -> Option<Hello> {
    let (said, proof) = bytes.split_at_checked(HELLO_BYTES - auth::PROOF_BYTES)?;
    let (magic, rest) = said.split_at_checked(8)?;
    let (id, rest) = rest.split_at_checked(16)?;
    let (from, rest) = rest.split_at_checked(4)?;
    let (to, rest) = rest.split_at_checked(4)?;
    let (ring_bytes, rest) = rest.split_at_checked(8)?;
    let (nonce, rest) = rest.split_at_checked(16)?;
    let (home, answering) = rest.split_at_checked(16)?;
    let word = |b: &[u8]| b.try_into().map(u32::from_le_bytes).ok();
    if magic != MAGIC || id != job.0 || !auth::verify(key, "local hello", &[said], proof) {
        return None;
    }
    let ring_bytes = usize::try_from(u64::from_le_bytes(ring_bytes.try_into().ok()?)).ok()?;
    let greeting = Greeting {
        from: word(from)?,
        to: word(to)?,
        home: home.try_into().ok()?,
        answering: answering.try_into().ok()?,
    };
    Some(Hello { greeting, nonce: nonce.try_into().ok()?, ring_bytes })
}

/// Answers a good hello with our doorbell.
pub(crate) fn welcome(socket: &OwnedFd, key: &JobKey, hello: &[u8], bell: &Bell) -> Result<(), Errno> {
    let proof = auth::prove(key, "local welcome", &[hello]);
    send(socket, &proof, &bell.fds())
}

/// The answer to our hello, if it has come.
pub(crate) fn answer(socket: &Dialled) -> Result<Option<Ringer>, Errno> {
    let Some(Letter { bytes, mut fds }) = receive(&socket.fd)? else { return Ok(None) };
    if bytes != socket.welcome || fds.len() != 2 {
        return Err(Errno::PROTO);
    }
    let (event, flag) = (fds.pop().expect("two were counted"), fds.pop().expect("two were counted"));
    Ringer::open(flag, event).map(Some).map_err(|_| Errno::PROTO)
}

/// Whether the other side has closed its end.
pub(crate) fn is_closed(socket: &OwnedFd) -> bool {
    let mut byte = [0u8; 1];
    match net::recv(socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((0, _)) => true,
        Ok(_) => false,
        Err(e) => e != Errno::AGAIN && e != Errno::INTR,
    }
}

/// Whether the process behind this descriptor has ended.
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let mut ended = [PollFd::new(process, PollFlags::IN)];
    poll(&mut ended, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// What the receiver of a ring says before it closes its end in good order.
pub(crate) const FAREWELL: &[u8] = b"bye";

/// Sends one message with descriptors; never waits.
pub(crate) fn send(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); barewire_sys::rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).map(drop)
}

/// One message and the descriptors that came with it.
#[derive(Debug)]
pub(crate) struct Letter {
    pub bytes: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

/// The next message with its descriptors; `None` if there is none now, an error if the other side is gone.
pub(crate) fn receive(socket: &OwnedFd) -> Result<Option<Letter>, Errno> {
    let mut bytes = [0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); barewire_sys::rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    match net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
        Ok(got) if got.bytes == 0 => Err(Errno::CONNRESET),
        Ok(got) => {
            let mut fds = Vec::new();
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(passed) = message {
                    fds.extend(passed);
                }
            }
            Ok(Some(Letter { bytes: bytes[..got.bytes].to_vec(), fds }))
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(e) => Err(e),
    }
}

fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Whether the process at the other end is of our user.
fn is_same_user(socket: &impl AsFd) -> bool {
    let me = barewire_sys::rustix::process::geteuid();
    credentials::of(socket).is_ok_and(|who| who.uid == me)
}

/// Whether the process at the other end is of our user, or root.
fn is_ours(socket: &impl AsFd) -> bool {
    let me = barewire_sys::rustix::process::geteuid();
    credentials::of(socket).is_ok_and(|who| who.uid == me || who.uid.is_root())
}
