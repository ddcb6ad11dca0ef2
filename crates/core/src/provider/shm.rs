//! Shared memory: one ring for each direction between neighbours, and the sender's pool for long packets.
//!
//! Memory is anonymous and handed over through a local socket, so nothing has a name and nothing is left behind. A ring is
//! made by its sender on first use and can be filled at once, before the receiver has even looked.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use barewire_sys::bell::Ringer;
use barewire_sys::copy;
use barewire_sys::map::Segment;
use barewire_sys::readers::Readers;
use barewire_sys::ring::{Consumer, Full, HEAD_BYTES, LINE_BYTES, Packet, Producer, RingMemory};
use barewire_sys::shuttle::Shuttle;
use barewire_sys::stores::Stores;
use barewire_sys::wirebuf::{Fill, WireMut, WireRef};

use super::pool::{self, Chunk, LONG_PACKET_BYTES, PACKET_BYTES, Pool};
use super::{Class, local, opened};
use crate::hold::HoldSlot;
use crate::wire::{self, Begin, FLAG_CHUNK, Head, Kind};

/// Longest payload in the ring itself; longer ones go through the pool.
const INLINE_BYTES_MAX: usize = 2048;
/// The same where lines come back fast: a page, and what layers put before it.
const FAST_BYTES_MAX: usize = 4096 + LINE_BYTES;
/// The same in a stream of them, where lines come back slowly. In the ring a packet is there sooner; but a stream of long ones goes faster
/// through the pool, where its sender writes far from what the receiver is reading, and into memory that has left the receiver's own cache.
const STREAM_BYTES_MAX: usize = 1024;
/// Packets longer than that in a row, without a word from the receiver, are a stream.
const STREAM: u32 = 3;
/// Bytes in the ring of a packet whose payload is in a chunk: where.
pub(crate) const CHUNK_NAME_BYTES: usize = 8;
/// The same of one that begins a long message: what opens that stands there too, so that nobody waits for a line of the chunk to know it.
const CHUNK_BEGIN_BYTES: usize = CHUNK_NAME_BYTES + Begin::BYTES;
/// In the name of a chunk: the sender wishes that it be read gently.
const READ_GENTLY: u64 = 1 << 63;
/// Fewer bytes always are: that is the faster way then.
const GENTLY_BELOW: usize = 14 << 10;
/// Longest payload of any packet but those of long messages.
pub(crate) const PACKET_BYTES_MAX: usize = PACKET_BYTES;
/// Letters read from a neighbour's socket before others have their turn.
const LETTERS_MAX: usize = 64;
/// Descriptors of a neighbour's regions that nobody has looked at yet; whose do not get in are asked for again.
const PASSED_MAX: usize = 64;
/// Chunks that go to one receiver between two looks at which it has given back: each look costs a cache miss here and another there.
const CHUNKS_A_LOOK: usize = 8;

/// Bytes of a packet in the ring itself.
pub(crate) fn bytes_in_ring(head: &Head) -> usize {
    match head.kind {
        _ if head.flags & FLAG_CHUNK == 0 => head.len as usize,
        Kind::Begin => CHUNK_BEGIN_BYTES,
        _ => CHUNK_NAME_BYTES,
    }
}

/// The sending side of a ring.
#[derive(Debug)]
pub(crate) struct RingTx {
    ring: Producer,
    /// The receiver's doorbell, once it has answered. Ourselves have none.
    ringer: Option<Ringer>,
    /// Our side of the local socket: the receiver's answer comes here, and its end shows here.
    socket: Option<local::Dialled>,
    /// Longest payload that fits the ring, and that goes into it now.
    inline_max: usize,
    inline_now: usize,
    /// Longest that goes into it in a stream.
    stream_max: usize,
    /// Packets longer than that since the receiver was heard of, and how often it had been.
    in_a_row: u32,
    heard: u64,
    spare: u64,
    /// Chunks on their way: the ring position behind the packet that names each.
    chunks: VecDeque<(u64, Chunk)>,
    /// Bytes filled of the last of them.
    filled: usize,
    /// How chunks are filled, and had better be read.
    stores: Stores,
    readers: Readers,
    /// With so many it is time to look which have come back.
    look_at: usize,
    pool_passed: bool,
    pub rung: u64,
    /// The receiver has said farewell.
    pub has_left: bool,
}

impl RingTx {
    pub fn new(memory: RingMemory, socket: Option<local::Dialled>, pool_bytes: usize) -> RingTx {
        let ring = Producer::new(memory);
        let (lines, bytes) = (ring.lines(), ring.memory().bytes());
        let fast = ring.comes_back_fast();
        let most = if fast { FAST_BYTES_MAX } else { INLINE_BYTES_MAX };
        // Two of them fit beside the spare lines: one is put in while the other is taken out.
        let inline_max = (bytes / 8 * 3).min(most + HEAD_BYTES) - HEAD_BYTES;
        let stream_max = if fast { inline_max } else { inline_max.min(STREAM_BYTES_MAX) };
        RingTx {
            inline_max,
            inline_now: inline_max,
            stream_max,
            in_a_row: 0,
            heard: 0,
            spare: lines / 8,
            pool_passed: socket.is_none(),
            ring,
            ringer: None,
            socket,
            chunks: VecDeque::new(),
            filled: 0,
            stores: Stores::default(),
            readers: Readers::new(pool_bytes),
            look_at: CHUNKS_A_LOOK,
            rung: 0,
            has_left: false,
        }
    }

    /// Whether a packet of `len` bytes goes into the ring itself.
    #[inline(always)]
    pub fn is_inline(&self, len: usize) -> bool {
        len <= self.inline_now
    }

    /// Takes note of a packet; so many packets of the receiver's have come.
    #[inline]
    pub fn note(&mut self, len: usize, heard: u64) {
        if len <= STREAM_BYTES_MAX || len <= self.stream_max {
            return;
        }
        if std::mem::replace(&mut self.heard, heard) != heard {
            self.in_a_row = 0;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        let streams = self.in_a_row > STREAM;
        self.inline_now = if streams { self.stream_max } else { self.inline_max };
    }

    /// Sends one packet whose payload fits the ring itself.
    #[inline(always)]
    pub fn send_inline(
        &mut self,
        w0: u64,
        w1: u64,
        len: usize,
        class: Class,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), Full> {
        self.send_message(None, (w0, w1, len), class, fill)
    }

    /// Sends a plain message: by the shuttle if there is one here, which then is ours, or in the ring, if it fits.
    #[inline(always)]
    pub fn send_message(
        &mut self,
        shuttle: Option<&mut Shuttle>,
        (w0, w1, len): (u64, u64, usize),
        class: Class,
        fill: impl Fill,
    ) -> Result<(), Full> {
        let spare = if class == Class::Control { 0 } else { self.spare };
        let mut shuttle = shuttle;
        fill.fill(&mut match &mut shuttle {
            Some(shuttle) => shuttle.reserve(len),
            None => self.ring.reserve(len, spare)?,
        });
        match shuttle {
            Some(shuttle) => {
                shuttle.send_off(w0, w1);
                self.ring.turn_over();
            }
            None => self.ring.publish(w0, w1, len),
        }
        self.nudge();
        Ok(())
    }

    /// Sends a long message by the shuttle, which has to be ours: its header with the stream's number, and then its bytes, written by
    /// `fill(at, wire)`, piece by piece.
    pub fn send_long(
        &mut self,
        shuttle: &mut Shuttle,
        (head, stream): (Head, u32),
        mut fill: impl FnMut(u64, &mut WireMut<'_>),
    ) {
        shuttle.send_long((head.w0(), head.w1, stream.into()), head.len as usize, |at, wire| {
            self.nudge();
            fill(at as u64, wire);
        });
        self.ring.turn_over();
        self.nudge();
    }

    /// Sends one packet of any length up to [`RingTx::payload_max`], or of a long message up to what [`RingTx::payload_now`] says.
    pub fn send(
        &mut self,
        pool: &mut Pool,
        (w0, w1, len): (u64, u64, usize),
        begin: Option<Begin>,
        class: Class,
        fill: impl FnOnce(&mut WireMut<'_>),
    ) -> Result<(), Full> {
        if self.is_inline(len) {
            return self.send_inline(w0, w1, len, class, opened(begin, fill));
        }
        self.reclaim_some(pool);
        let spare = if class == Class::Control { 0 } else { self.spare };
        let in_ring = begin.map_or(CHUNK_NAME_BYTES, |_| CHUNK_BEGIN_BYTES);
        let in_chunk = len - (in_ring - CHUNK_NAME_BYTES);
        let chunk = match self.ring.fits(in_ring, spare) {
            true => self.take_chunk(pool, in_chunk, class),
            false => None,
        };
        let Some(chunk) = chunk else {
            let fits = len <= self.inline_max;
            let fill = opened(begin, fill);
            return if fits { self.send_inline(w0, w1, len, class, fill) } else { Err(Full) };
        };
        let at = chunk.at() + self.filled;
        let segment = pool.segment().map_err(|_| Full)?;
        let cost =
            self.stores.write(segment.wire_mut(at, in_chunk).expect("chunks lie inside the pool"), fill);
        self.readers.note(in_chunk, cost);
        let gently = if self.readers.read_gently() { READ_GENTLY } else { 0 };
        self.send_inline(wire::chunked(w0), w1, in_ring, class, |wire| {
            wire.write_u64(at as u64 | gently);
            begin.into_iter().for_each(|begin| wire.write_words(&begin.words()));
        })
        .expect("room was checked above");
        let end = self.ring.position();
        match self.chunks.back_mut() {
            Some(last) if self.filled > 0 => last.0 = end,
            _ => self.chunks.push_back((end, chunk)),
        }
        self.filled = (self.filled + in_chunk).next_multiple_of(LINE_BYTES);
        Ok(())
    }

    /// A chunk of the pool with room for a packet, which the receiver has been given by then: the one filled last, from
    /// [`RingTx::filled`] on, or another.
    fn take_chunk(&mut self, pool: &mut Pool, len: usize, class: Class) -> Option<Chunk> {
        if let Some(&(_, last)) =
            self.chunks.back().filter(|(_, last)| self.filled + len <= pool.bytes_of(*last))
        {
            return Some(last);
        }
        if !pool.allows(self.chunks.len()) || len > pool.next_bytes(class == Class::Bulk) {
            return None;
        }
        self.filled = 0;
        if !self.pool_passed {
            let (socket, fd) = (self.socket.as_ref()?, pool.segment().ok()?.read_only_fd().ok()?);
            local::send(&socket.fd, b"pool", &[fd.as_fd()]).ok()?;
            self.pool_passed = true;
        }
        pool.segment().ok()?;
        pool.take(class == Class::Bulk)
    }

    pub fn memory(&self) -> &RingMemory {
        self.ring.memory()
    }

    pub fn payload_max(&self) -> usize {
        PACKET_BYTES_MAX
    }

    /// The largest payload worth putting into one packet of this class now.
    pub fn payload_now(&mut self, pool: &mut Pool, class: Class) -> usize {
        self.reclaim_some(pool);
        match pool.allows(self.chunks.len()) {
            true if class == Class::Bulk => pool.next_bytes(true),
            true => PACKET_BYTES,
            false => self.inline_max,
        }
    }

    /// Takes back chunks whose packets the receiver is done with, once there are several.
    fn reclaim_some(&mut self, pool: &mut Pool) {
        if self.chunks.len() >= self.look_at || !pool.allows(self.chunks.len()) {
            self.reclaim(pool);
            self.look_at = self.chunks.len() + CHUNKS_A_LOOK;
        }
    }

    /// Takes back chunks whose packets the receiver is done with.
    pub fn reclaim(&mut self, pool: &mut Pool) {
        if self.chunks.is_empty() {
            return;
        }
        let freed = self.ring.freed();
        while let Some(&(end, chunk)) = self.chunks.front() {
            if end > freed {
                break;
            }
            self.chunks.pop_front();
            pool.put_back(chunk);
        }
    }

    /// Wakes the receiver if it sleeps.
    #[inline(always)]
    pub fn nudge(&mut self) {
        match &self.ringer {
            Some(ringer) => self.rung += u64::from(ringer.ring()),
            None => self.answered_yet(),
        }
    }

    /// Before the receiver's doorbell is known: looks whether it has answered, and rings if so.
    #[cold]
    #[inline(never)]
    fn answered_yet(&mut self) {
        if let Some(socket) = &self.socket {
            if let Ok(Some(ringer)) = local::answer(socket) {
                ringer.ring();
                self.ringer = Some(ringer);
            }
        }
    }

    /// Looks for what the receiver says, its answer first and its farewell last; false if it is gone.
    pub fn poll_socket(&mut self) -> bool {
        let Some(socket) = &self.socket else { return true };
        if self.ringer.is_none() {
            match local::answer(socket) {
                Ok(Some(ringer)) => {
                    ringer.ring();
                    self.ringer = Some(ringer);
                }
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
        // There is one farewell; whoever says more is listened to again when everybody else was.
        for _ in 0..2 {
            match local::receive(&socket.fd) {
                Ok(Some(letter)) => self.has_left |= letter.bytes == local::FAREWELL,
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    pub fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref().map(|socket| &socket.fd)
    }

    /// Passes a descriptor to the receiver.
    pub fn pass_fd(&self, tag: &[u8], fd: std::os::fd::BorrowedFd<'_>) -> bool {
        self.socket.as_ref().is_some_and(|socket| local::send(&socket.fd, tag, &[fd]).is_ok())
    }

    /// Whether an answer of `len` bytes fits now.
    #[inline(always)]
    pub fn fits_control(&mut self, len: usize) -> bool {
        self.ring.fits(len, 0)
    }

    /// The receiver is gone: its chunks are ours again.
    pub fn abandon(&mut self, pool: &mut Pool) {
        self.chunks.drain(..).for_each(|(_, chunk)| pool.put_back(chunk));
    }

    /// Before sleeping for want of room: asks the receiver to ring when there is some.
    pub fn want_room(&self) {
        self.ring.want_room();
    }

    /// Lines given back so far, looked up now.
    pub fn freed(&mut self) -> u64 {
        self.ring.freed()
    }

    /// Lines on their way, and lines in all.
    pub fn credit(&mut self) -> (u64, u64) {
        (self.ring.position() - self.ring.freed(), self.ring.lines())
    }
}

/// The receiving side of a ring.
#[derive(Debug)]
pub(crate) struct RingRx {
    pub ring: Consumer,
    /// The sender's pool, once it has used it.
    pool: Option<Segment>,
    /// Bytes of chunks that are done with since the sender was told.
    chunk_bytes: usize,
    socket: Option<OwnedFd>,
    /// The sender's doorbell, for when it waits for room. Ourselves have none.
    ringer: Option<Ringer>,
    pub hold: HoldSlot,
    /// Lines charged for frames that are still held.
    held: u64,
    /// More is held than the ring has lines: the sender wrote over what was not free.
    pub overdrawn: bool,
    /// The same for what the shuttle brought, by packets.
    pub shuttle_hold: HoldSlot,
    shuttle_held: u64,
    /// The sender's end of the socket is closed: what is in the ring is all there will be.
    pub closing: bool,
    /// Descriptors of the sender's regions that arrived on the socket: tag and descriptor.
    pub passed: Vec<(Vec<u8>, OwnedFd)>,
}

impl RingRx {
    pub fn new(memory: RingMemory, sender: Option<(OwnedFd, Ringer)>) -> RingRx {
        let (socket, ringer) = sender.unzip();
        RingRx {
            ring: Consumer::new(memory),
            pool: None,
            chunk_bytes: 0,
            socket,
            ringer,
            hold: HoldSlot::default(),
            held: 0,
            overdrawn: false,
            shuttle_hold: HoldSlot::default(),
            shuttle_held: 0,
            closing: false,
            passed: Vec::new(),
        }
    }

    pub fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref()
    }

    /// The sender's doorbell.
    pub fn sender(&self) -> Option<&Ringer> {
        self.ringer.as_ref()
    }

    /// Tells the sender that we leave in good order.
    pub fn say_farewell(&self) {
        // One who does not hear it is gone, or has been flooding us.
        let _ = self.socket.as_ref().map(|socket| local::send(socket, local::FAREWELL, &[]));
    }

    /// Whether there is nothing to take and nothing to give back.
    pub fn is_quiet(&mut self, mut shuttle: Option<&mut Shuttle>) -> bool {
        self.settle(shuttle.as_deref_mut());
        self.give_back();
        !self.closing && self.is_quiet_now(shuttle)
    }

    /// Whether there is nothing to take.
    pub fn is_quiet_now(&self, shuttle: Option<&mut Shuttle>) -> bool {
        self.ring.peek().is_none() && shuttle.is_none_or(|shuttle| shuttle.is_quiet())
    }

    /// Whether there is a packet in the ring that is next.
    #[inline(always)]
    pub fn has_next(&self) -> bool {
        self.ring.peek().is_some()
    }

    /// The next packet in the ring, looked for once and then so many times.
    #[inline]
    pub fn look_for(&self, looks: u32) -> Option<Packet> {
        (0..=looks).find_map(|_| self.ring.peek())
    }

    /// What the shuttle has brought, if that is next.
    #[inline(always)]
    pub fn peek_shuttle(&self, shuttle: &mut Shuttle) -> Option<Packet> {
        let packet = shuttle.peek()?;
        // What went into the ring before it can be seen by now, and goes first.
        if self.has_next() { None } else { Some(packet) }
    }

    /// Ends a packet that came by the shuttle. Says whether it was kept.
    #[inline(always)]
    pub fn finish_shuttled(&mut self) -> bool {
        let kept = self.shuttle_hold.take();
        self.shuttle_held += u64::from(kept);
        kept
    }

    /// Ends a part of a long message that comes by the shuttle, and with the last the message.
    pub fn pass_written(&mut self, shuttle: &mut Shuttle, len: usize, is_last: bool) {
        shuttle.took_part(len);
        if is_last {
            shuttle.pass_long();
            self.ring.turn_over();
        }
    }

    /// Whether frames are held, or were when it was last [settled](RingRx::settle).
    #[inline(always)]
    pub fn is_holding(&self) -> bool {
        self.held + self.shuttle_held > 0
    }

    /// Gives back what dropped frames had been charged.
    #[cold]
    pub fn settle(&mut self, shuttle: Option<&mut Shuttle>) {
        if let Some(shuttle) = shuttle {
            let packets = self.shuttle_hold.released();
            self.shuttle_held -= packets.min(self.shuttle_held);
            shuttle.release(packets);
        }
        let lines = self.hold.released();
        if lines > 0 {
            self.held -= lines.min(self.held);
            self.ring.release(lines);
            self.give_back();
        }
    }

    /// Gives back everything that is free, and wakes a sender that sleeps for want of it.
    pub fn give_back(&mut self) {
        if self.ring.give_back() {
            self.ring_sender();
        }
    }

    #[cold]
    fn ring_sender(&self) {
        if let Some(ringer) = &self.ringer {
            if self.ring.must_ring(ringer.order()) {
                ringer.ring_now();
            }
        }
    }

    /// Ends a packet that took `len` bytes of ring: kept by the handler, or done with. Says whether it was kept.
    #[inline(always)]
    pub fn finish(&mut self, len: usize) -> bool {
        let kept = self.hold.take();
        if kept {
            self.held += self.ring.hold(len);
            self.overdrawn |= self.held > (self.ring.memory().bytes() / LINE_BYTES) as u64;
        } else {
            self.pass(len);
        }
        kept
    }

    /// Ends a packet that took `len` bytes of ring and that nobody can have kept.
    #[inline(always)]
    pub fn pass(&mut self, len: usize) {
        if self.ring.pass(len) {
            self.ring_sender();
        }
    }

    /// After a packet of `len` bytes in a chunk: the sender gets chunks back one by one, or when there is nothing else to do.
    pub fn pass_chunk(&mut self, len: usize) {
        self.chunk_bytes += len;
        if self.chunk_bytes >= PACKET_BYTES / 2 || self.ring.peek().is_none() {
            self.chunk_bytes = 0;
            self.give_back();
        }
    }

    /// The payload of a packet that names a chunk.
    pub fn chunk(&self, len: usize) -> Option<WireRef<'_>> {
        let name = self.ring.payload(CHUNK_NAME_BYTES)?.read_u64()?;
        let at = usize::try_from(name & !READ_GENTLY).ok()?;
        copy::read_gently(len < GENTLY_BELOW || name & READ_GENTLY != 0);
        // It is here when the chunk has been copied.
        self.ring.fetch_next(CHUNK_NAME_BYTES);
        if len > LONG_PACKET_BYTES { None } else { self.pool.as_ref()?.wire_ref(at, len) }
    }

    /// What opens a long message whose first packet of `len` bytes names a chunk, and the bytes that are there.
    pub fn chunk_that_begins(&self, len: usize) -> Option<(Begin, WireRef<'_>)> {
        let mut beside = self.ring.payload(CHUNK_BEGIN_BYTES)?;
        beside.read_u64()?;
        Some((Begin::read(&mut beside)?, self.chunk(len.checked_sub(Begin::BYTES)?)?))
    }

    /// Takes what the sender passed over the socket; says false if it has closed it.
    pub fn read_socket(&mut self) -> bool {
        let Some(socket) = &self.socket else { return true };
        // However many it sends, others have their turn: what is left makes the socket be looked at again.
        for _ in 0..LETTERS_MAX {
            match local::receive(socket) {
                Ok(Some(local::Letter { bytes: tag, mut fds })) => {
                    let Some(fd) = fds.pop() else { continue };
                    if tag == b"pool" {
                        self.pool = self.pool.take().or_else(|| Segment::open(fd, false).ok());
                        self.pool.iter().for_each(pool::populate);
                    } else if self.passed.len() < PASSED_MAX {
                        self.passed.push((tag, fd));
                    }
                }
                Ok(None) => return true,
                Err(_) => {
                    self.closing = true;
                    return false;
                }
            }
        }
        true
    }

    /// Gets hold of the sender's pool before its first chunk: from the socket, or our own if we send to ourselves.
    #[cold]
    pub fn fetch_pool(&mut self, own: &mut Pool) {
        if self.socket.is_some() {
            // It was passed before the packet that needs it, behind what else was.
            for _ in 0..LETTERS_MAX {
                if self.has_pool() || !self.read_socket() {
                    break;
                }
            }
        } else {
            let fd = own.segment().ok().and_then(|pool| pool.read_only_fd().ok());
            self.pool = fd.and_then(|fd| Segment::open(fd, false).ok());
        }
    }

    pub fn has_pool(&self) -> bool {
        self.pool.is_some()
    }
}
