//! Sending over TCP: when to write at once, and when to bundle.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use barewire_sys::ring::Full;
use barewire_sys::rustix::io::Errno;
use barewire_sys::wirebuf::{WireMut, WireRef};

use super::pulse::Pulse;
use super::{PACKET_BYTES_MAX, PIECE_BYTES_MAX, charge, net};
use crate::credit::{Impossible, SendCredit};
use crate::provider::Class;
use crate::wire::{HEAD_BYTES, Head};

/// Messages that follow each other within this time travel together.
const BUNDLE_FOR: Duration = Duration::from_micros(10);
/// Gathered bytes that are written without waiting for more; beyond them, data waits for the socket.
const GATHER_BYTES: usize = 64 << 10;
/// Room that only control packets may use.
const SPARE_BYTES: usize = 32 << 10;
/// All of it: the last data packet may begin just below the limit.
const OUT_BYTES: usize = GATHER_BYTES + PIECE_BYTES_MAX + HEAD_BYTES + SPARE_BYTES;
/// Less room than this is not worth a piece of a long message.
const PIECE_BYTES_MIN: u64 = 4096;

/// The sending side of a connection.
#[derive(Debug)]
pub(crate) struct TcpTx {
    socket: Arc<OwnedFd>,
    /// What is not written yet: `out[start..end]`. Zeroed by the system and so not there before it is used.
    out: Box<[u8]>,
    start: usize,
    end: usize,
    credit: SendCredit,
    last_write: Instant,
    /// When the oldest byte in `out` came.
    oldest: Instant,
    /// Something arrived since we last wrote: what we send now is likely waited for.
    heard: bool,
    /// The socket took less than everything: asking again at once is pointless.
    blocked: bool,
    /// In the endpoint's list of links to flush.
    pub listed: bool,
    /// The poller tells when the socket can be written to.
    pub armed: bool,
    broken: Option<Errno>,
    /// Bytes passed to the socket since the connection opened.
    written: u64,
    pub pulse: Pulse,
    /// Something arrived since the pulse was last felt.
    pub heard_lately: bool,
}

impl TcpTx {
    pub fn new(socket: Arc<OwnedFd>, window: u64) -> TcpTx {
        let now = Instant::now();
        TcpTx {
            socket,
            out: vec![0; OUT_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            credit: SendCredit::new(window),
            last_write: now,
            oldest: now,
            heard: true,
            blocked: false,
            listed: false,
            armed: false,
            broken: None,
            written: 0,
            pulse: Pulse::default(),
            heard_lately: true,
        }
    }

    /// Sends one packet: at once if the link was quiet, otherwise with what comes before and after it.
    pub fn send(
        &mut self,
        head: Head,
        class: Class,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), Full> {
        let packet = HEAD_BYTES + head.len as usize;
        let charge = charge(&head, packet);
        if head.len as usize > PACKET_BYTES_MAX || (class != Class::Control && charge > self.credit.room()) {
            return Err(Full);
        }
        self.make_room(packet, class)?;
        let first = self.start == self.end;
        let (wire_head, body) = self.out[self.end..self.end + packet].split_at_mut(HEAD_BYTES);
        wire_head.copy_from_slice(&head.to_bytes());
        fill(&mut WireMut::new(body));
        self.end += packet;
        self.credit.spend(charge);
        let now = Instant::now();
        if first {
            self.oldest = now;
        }
        let alone = first && (self.heard || now - self.last_write > BUNDLE_FOR);
        let enough = self.gathered() >= GATHER_BYTES || now - self.oldest > BUNDLE_FOR;
        if alone || (enough && !self.blocked) {
            self.write_out(now);
        }
        Ok(())
    }

    /// Sends one packet of a long message whose payload is `prefix` and `body`, straight from where they are as far as the socket takes them
    /// now.
    pub fn send_from(
        &mut self,
        head: Head,
        class: Class,
        prefix: &[u8],
        body: &mut WireRef<'_>,
    ) -> Result<(), Full> {
        let packet = HEAD_BYTES + head.len as usize;
        let charge = charge(&head, packet);
        if head.len as usize > PIECE_BYTES_MAX || (class != Class::Control && charge > self.credit.room()) {
            return Err(Full);
        }
        self.make_room(packet, class)?;
        let wire_head = head.to_bytes();
        let mut passed = 0;
        if !self.blocked {
            let gathered = self.gathered();
            let before = [&self.out[self.start..self.end], &wire_head, prefix];
            let written = net::write_all_of(&self.socket, before, body);
            let written = self.wrote(written, gathered + packet);
            self.start += written.min(gathered);
            passed = written.saturating_sub(gathered);
        }
        for part in [&wire_head[..], prefix] {
            let rest = &part[passed.min(part.len())..];
            passed -= part.len() - rest.len();
            self.out[self.end..self.end + rest.len()].copy_from_slice(rest);
            self.end += rest.len();
        }
        body.discard(passed);
        let rest = body.remaining();
        body.read(&mut self.out[self.end..self.end + rest]);
        self.end += rest;
        self.credit.spend(charge);
        self.settle_out();
        Ok(())
    }

    /// Room for `packet` bytes behind `end`.
    #[inline]
    fn make_room(&mut self, packet: usize, class: Class) -> Result<(), Full> {
        if self.gathered() >= GATHER_BYTES {
            self.write_out(Instant::now());
            if class != Class::Control && self.gathered() >= GATHER_BYTES {
                return Err(Full);
            }
        }
        if self.broken.is_some() || packet > OUT_BYTES - self.gathered() {
            return Err(Full);
        }
        if self.end + packet > OUT_BYTES {
            self.out.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.gathered());
        }
        Ok(())
    }

    /// Writes what is gathered if it has waited long enough, or in any case if `now` is `None`.
    pub fn flush(&mut self, now: Option<Instant>) {
        match now {
            Some(now) if now - self.oldest <= BUNDLE_FOR => {}
            Some(now) => self.write_out(now),
            None => self.write_out(Instant::now()),
        }
    }

    fn write_out(&mut self, now: Instant) {
        if self.start == self.end {
            return;
        }
        self.last_write = now;
        self.heard = false;
        let written = net::write(&self.socket, &self.out[self.start..self.end]);
        self.start += self.wrote(written, self.gathered());
        self.settle_out();
    }

    /// What a write of `asked` bytes passed on. A connection that is broken takes everything: whoever reads it finds its end
    /// there, behind what arrived before.
    fn wrote(&mut self, written: Result<Option<usize>, Errno>, asked: usize) -> usize {
        let passed = match written {
            Ok(n) => n.unwrap_or(0),
            Err(error) => {
                self.broken = Some(error);
                asked
            }
        };
        self.written += passed as u64;
        passed
    }

    /// After a write: what is left waits for the socket.
    fn settle_out(&mut self) {
        self.blocked = self.start < self.end;
        if !self.blocked {
            (self.start, self.end) = (0, 0);
        }
    }

    #[inline]
    pub fn gathered(&self) -> usize {
        self.end - self.start
    }

    /// Bytes passed to the socket since the connection opened.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Something arrived on this connection.
    #[inline]
    pub fn hear(&mut self) {
        self.heard = true;
        self.heard_lately = true;
    }

    /// The receiver is done with this many bytes since the connection opened.
    pub fn returned(&mut self, count: u64) -> Result<(), Impossible> {
        self.credit.returned(count)
    }

    /// The largest payload worth putting into one packet now.
    pub fn payload_now(&mut self) -> usize {
        if self.gathered() >= GATHER_BYTES {
            self.write_out(Instant::now());
        }
        let room = self.credit.room();
        let worth = PIECE_BYTES_MIN.min(self.credit.window() / 4);
        if self.gathered() >= GATHER_BYTES || self.broken.is_some() || room < worth + HEAD_BYTES as u64 {
            return 0;
        }
        usize::try_from(room).unwrap_or(usize::MAX).saturating_sub(HEAD_BYTES).min(PACKET_BYTES_MAX)
    }

    /// The largest payload worth sending now from where it is: nothing while the socket is full, for it would have to be copied.
    pub fn direct_now(&mut self) -> usize {
        if self.blocked {
            self.write_out(Instant::now());
        }
        match (self.blocked, self.payload_now()) {
            (true, _) => 0,
            (false, PACKET_BYTES_MAX) => {
                let room = usize::try_from(self.credit.room()).unwrap_or(usize::MAX);
                room.saturating_sub(HEAD_BYTES).min(PIECE_BYTES_MAX)
            }
            (false, less) => less,
        }
    }

    /// Bytes on their way or held by the receiver, and how many may be.
    pub fn credit(&self) -> (u64, u64) {
        (self.credit.outstanding(), self.credit.window())
    }

    /// Grows whenever there may be more room than before.
    pub fn freed(&self) -> u64 {
        self.credit.returned_so_far() + self.written
    }

    pub fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    pub fn broken(&self) -> Option<Errno> {
        self.broken
    }

    /// The other machine is gone.
    pub fn give_up(&mut self) {
        self.broken = Some(Errno::TIMEDOUT);
        (self.start, self.end) = (0, 0);
    }
}
