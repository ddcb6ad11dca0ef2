//! Receiving over TCP: one buffer, packets handed out where they lie.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use barewire_sys::rustix::io::Errno;
use barewire_sys::wirebuf::Places;

use super::net;
use super::split::{Split, Splitter};
use crate::credit::RecvCredit;
use crate::hold::HoldSlot;

/// Bytes read at a time: enough for the longest packet and as much again.
const IN_BYTES: usize = 128 << 10;
/// With less room than this behind the unread bytes, they move to the front before the next read.
const READ_BYTES_MIN: usize = 80 << 10;

/// Fewer bytes of a long message are copied faster than the kernel is told where they go.
const DIRECT_BYTES_MIN: usize = 8 << 10;
/// Bytes read of what comes behind a long message: enough to see whether another long one does, which then goes to its place.
const BEHIND_BYTES: usize = 4 << 10;

const _: () = assert!(READ_BYTES_MIN >= super::PACKET_BYTES_MAX + crate::wire::HEAD_BYTES);

/// The receiving side of a connection.
#[derive(Debug)]
pub(crate) struct TcpRx {
    socket: Arc<OwnedFd>,
    /// What is not handed out yet: `buffer[start..end]`. Zeroed by the system and so not there before it is used.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    splitter: Splitter,
    pub hold: HoldSlot,
    /// Bytes charged for frames that are still held.
    held: u64,
    pub credit: RecvCredit,
    /// What is in the buffer makes no packet.
    hungry: bool,
    /// The last packet was a long one that went to its place: the next may be like it.
    long_lately: bool,
    /// Why nothing more will be read.
    pub closing: Option<String>,
}

impl TcpRx {
    pub fn new(socket: Arc<OwnedFd>, window: u64) -> TcpRx {
        TcpRx {
            socket,
            buffer: vec![0; IN_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            splitter: Splitter::default(),
            hold: HoldSlot::default(),
            held: 0,
            credit: RecvCredit::new(window),
            hungry: true,
            long_lately: false,
            closing: None,
        }
    }

    /// Reads what the socket has, unless there is something to hand out already. Says how much, and whether there may be more.
    #[inline]
    pub fn fill(&mut self) -> (usize, bool) {
        if !self.hungry || self.closing.is_some() {
            return (0, false);
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if IN_BYTES - self.end < READ_BYTES_MIN {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let most = if std::mem::take(&mut self.long_lately) { self.end + BEHIND_BYTES } else { IN_BYTES };
        let room = &mut self.buffer[self.end..most];
        let asked = room.len();
        let read = net::read(&self.socket, room);
        let n = self.got(read);
        self.end += n;
        self.hungry = n == 0;
        (n, n == asked)
    }

    /// Of which message the next bytes in the socket are and how many, if they are many and nothing else is to be handed out first.
    #[inline]
    pub fn ahead(&self) -> Option<(u64, usize)> {
        if !self.hungry || self.start != self.end || self.closing.is_some() {
            return None;
        }
        self.splitter.ahead().filter(|&(_, len)| len >= DIRECT_BYTES_MIN)
    }

    /// Reads what is [ahead](TcpRx::ahead) straight to its places, and a little of what follows if they take all of it. Says how much
    /// went there, and whether there may be more.
    pub fn fill_places(&mut self, places: &Places<'_>) -> (usize, bool) {
        let len = self.splitter.ahead().map_or(0, |(_, len)| len);
        let room = places.remaining();
        debug_assert!(room <= len, "what follows belongs elsewhere");
        (self.start, self.end) = (0, 0);
        let behind = if room == len { BEHIND_BYTES } else { 0 };
        let read = net::read_into(&self.socket, places, &mut self.buffer[..behind]);
        let n = self.got(read);
        let placed = n.min(room);
        self.end = n - placed;
        self.hungry = self.end == 0;
        self.splitter.took(placed);
        self.long_lately = true;
        (placed, n == room + behind)
    }

    /// How many bytes a read brought.
    fn got(&mut self, read: Result<Option<usize>, Errno>) -> usize {
        match read {
            Ok(None) => 0,
            Ok(Some(0)) => {
                self.closing = Some("its process ended or closed the connection".to_owned());
                0
            }
            Ok(Some(n)) => n,
            Err(error) => {
                self.closing = Some(format!("the connection broke: {error}"));
                0
            }
        }
    }

    /// The next packet in the buffer.
    #[inline]
    pub fn next(&mut self) -> Split {
        let split = self.splitter.next(&self.buffer[self.start..self.end]);
        self.hungry = split == Split::More;
        split
    }

    /// The bytes of the packet that [`TcpRx::next`] announced.
    #[inline]
    pub fn payload(&self, skip: usize, len: usize) -> &[u8] {
        &self.buffer[self.start + skip..][..len]
    }

    /// Ends a packet of `bytes` in all: kept by the handler, or done with. Says whether it was kept.
    #[inline]
    pub fn finish(&mut self, bytes: usize, charge: u64) -> bool {
        self.start += bytes;
        let kept = self.hold.take();
        if kept {
            self.held += charge;
        } else {
            self.credit.finish(charge);
        }
        kept
    }

    /// Gives back what dropped frames had been charged.
    #[inline]
    pub fn settle(&mut self) {
        if self.held > 0 {
            let released = self.hold.released();
            self.held -= released.min(self.held);
            self.credit.finish(released);
        }
    }

    /// Whether there is something in the buffer to hand out.
    #[inline]
    pub fn has_more(&self) -> bool {
        !self.hungry
    }

    /// Whether handlers still hold frames, whose credit has to be looked after.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.held > 0
    }

    /// Whether there is nothing to take, nothing to give back and nothing to report.
    pub fn is_quiet(&mut self) -> bool {
        self.settle();
        self.hungry && self.closing.is_none() && self.credit.due_before_idle().is_none()
    }

    pub fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }
}
