//! Receiving over TCP: one buffer, packets handed out where they lie.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::net;
use super::split::{Split, Splitter};
use crate::credit::RecvCredit;
use crate::incoming::HoldSlot;

/// Bytes read at a time: enough for the longest packet and as much again.
const IN_BYTES: usize = 128 << 10;
/// With less room than this behind the unread bytes, they move to the front before the next read.
const READ_BYTES_MIN: usize = 80 << 10;

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
        let room = &mut self.buffer[self.end..];
        let asked = room.len();
        match net::read(&self.socket, room) {
            Ok(None) => (0, false),
            Ok(Some(0)) => {
                self.closing = Some("its process ended or closed the connection".to_owned());
                (0, false)
            }
            Ok(Some(n)) => {
                self.end += n;
                self.hungry = false;
                (n, n == asked)
            }
            Err(error) => {
                self.closing = Some(format!("the connection broke: {error}"));
                (0, false)
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

    /// Ends a packet of `bytes` in all: kept by the handler, or done with.
    #[inline]
    pub fn finish(&mut self, bytes: usize, charge: u64) {
        self.start += bytes;
        if self.hold.take() {
            self.held += charge;
        } else {
            self.credit.finish(charge);
        }
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
