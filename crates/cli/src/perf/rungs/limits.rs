//! The physical limits: a cache line from processor to processor, a bare ring, a copy loop.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context, Result};
use barewire_core::region::Memory;
use barewire_core::{Peer, Port};
use barewire_sys::map::Segment;
use barewire_sys::ring::{Consumer, Producer, RingMemory};
use barewire_sys::wirebuf::WireMut;

use super::{Rungs, Trips, each, until};

const FDS: Port = Port(20);
const RING_BYTES: usize = 32 << 10;
const CHUNK_BYTES: usize = 32 << 10;
const CHUNKS: usize = 8;

/// Memory that two ranks share without any library between them.
pub struct Limits {
    line: Segment,
    trips: u64,
    /// Our ring to the other rank, and its ring to us.
    tx: Producer,
    rx: Consumer,
    /// Chunks through which long packets of the bare ring go: ours, and the other rank's.
    chunks: Segment,
    their_chunks: Segment,
    /// Where copies go: memory like a region's.
    target: Memory,
}

/// Ranks 0 and 1 make the shared memory on first use.
fn limits(rungs: &mut Rungs) -> Result<&mut Limits> {
    if rungs.kept.limits.is_none() {
        let other = Peer(1 - rungs.rank());
        let line = Segment::create("perf-line", 4096)?;
        let ring = RingMemory::create(RING_BYTES)?;
        let chunks = Segment::create("perf-chunks", CHUNKS * CHUNK_BYTES)?;
        let fds = [line.fd().as_raw_fd(), ring.fd().as_raw_fd(), chunks.fd().as_raw_fd()];
        let text = format!("{} {} {} {}", std::process::id(), fds[0], fds[1], fds[2]);
        rungs.tell(other, FDS, text.as_bytes())?;
        let text = String::from_utf8(rungs.hear(FDS)?)?;
        let numbers: Vec<u32> = text.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let open = |at: usize| -> Result<OwnedFd> {
            let path = format!("/proc/{}/fd/{}", numbers[0], numbers[at]);
            let file = std::fs::File::options().read(true).write(true).open(&path);
            Ok(file.with_context(|| format!("opening the other rank's {path}"))?.into())
        };
        let theirs = RingMemory::open(open(2)?, RING_BYTES)?;
        // Both use the line of rank 0.
        let line = if rungs.rank() == 0 { line } else { Segment::open(open(1)?, true)? };
        rungs.kept.limits = Some(Limits {
            line,
            trips: 0,
            tx: Producer::new(ring),
            rx: Consumer::new(theirs),
            their_chunks: Segment::open(open(3)?, true)?,
            chunks,
            target: Memory::shared(super::BUFFER_BYTES)?,
        });
        rungs.meet_other()?;
    }
    Ok(rungs.kept.limits.as_mut().expect("made above"))
}

/// One way of a cache line between the processors of ranks 0 and 1: the same line there and back, which is less than one for each
/// direction takes where processors pass modified lines on.
pub fn line_latency(rungs: &mut Rungs, count: u64, trips: &mut Trips) -> Result<f64> {
    let me = rungs.rank();
    let limits = limits(rungs)?;
    let word = limits.line.atomic_u64(0).expect("a page has this word");
    let start = Instant::now();
    for trip in limits.trips + 1..=limits.trips + count {
        let (there, back) = (2 * trip - 1, 2 * trip);
        if me == 0 {
            word.store(there, Ordering::Release);
            until(|| word.load(Ordering::Acquire) == back);
        } else {
            until(|| word.load(Ordering::Acquire) == there);
            word.store(back, Ordering::Release);
        }
        trips.lap();
    }
    limits.trips += count;
    Ok(each(start, count * 2))
}

fn push(limits: &mut Limits, out: &[u8], at: &mut usize) {
    let bytes = out.len();
    if bytes <= 4096 {
        let fill = |wire: &mut WireMut<'_>| {
            wire.write(out);
        };
        until(|| limits.tx.push(1, 0, bytes, 0, fill).is_ok());
        return;
    }
    for piece in out.chunks(CHUNK_BYTES) {
        let chunk = *at % CHUNKS * CHUNK_BYTES;
        *at += 1;
        // One line for each chunk: no more than `CHUNKS` of them may be on their way.
        until(|| limits.tx.position() - limits.tx.freed() < CHUNKS as u64);
        limits.chunks.wire_mut(chunk, piece.len()).expect("inside the segment").write(piece);
        let named = (chunk as u64) << 32 | piece.len() as u64;
        until(|| limits.tx.push(1, named, 0, 0, |_| {}).is_ok());
    }
}

fn pull(limits: &mut Limits, into: &mut [u8]) {
    let bytes = into.len();
    if bytes <= 4096 {
        until(|| limits.rx.peek().is_some());
        limits.rx.payload(bytes).expect("short").read(into);
        limits.rx.pass(bytes);
        return;
    }
    let mut got = 0;
    // The sender counts lines: it must not wait for those of short packets before.
    limits.rx.give_back();
    while got < bytes {
        until(|| limits.rx.peek().is_some());
        let packet = limits.rx.peek().expect("it was there");
        let (chunk, n) = ((packet.w1 >> 32) as usize, packet.w1 as u32 as usize);
        limits.their_chunks.wire_ref(chunk, n).expect("inside the segment").read(&mut into[got..got + n]);
        limits.rx.pass(0);
        limits.rx.give_back();
        got += n;
    }
}

/// One way of a packet through a bare ring.
pub fn ring_latency(rungs: &mut Rungs, bytes: usize, count: u64, trips: &mut Trips) -> Result<f64> {
    let me = rungs.rank();
    limits(rungs)?;
    let (limits, out, into) = parts(rungs, bytes);
    let mut at = 0;
    let start = Instant::now();
    for _ in 0..count {
        if me == 0 {
            push(limits, out, &mut at);
        }
        pull(limits, into);
        if me != 0 {
            push(limits, out, &mut at);
        }
        trips.lap();
    }
    Ok(each(start, count * 2))
}

/// Packets through a bare ring from rank 0 to rank 1, `window` at a time, each window answered by an empty one, as every layer's messages are.
pub fn ring_rate(rungs: &mut Rungs, bytes: usize, count: u64, window: u64) -> Result<f64> {
    let me = rungs.rank();
    limits(rungs)?;
    let (limits, out, into) = parts(rungs, bytes);
    let (mut at, windows) = (0, count.div_ceil(window));
    let start = Instant::now();
    for _ in 0..windows {
        if me == 0 {
            (0..window).for_each(|_| push(limits, out, &mut at));
            pull(limits, &mut []);
        } else {
            (0..window).for_each(|_| pull(limits, into));
            push(limits, &[], &mut at);
        }
    }
    Ok(each(start, windows * window))
}

/// The best copy loop from a user's buffer into memory like a region's, by rank 0 alone. Piece by piece: a whole long buffer
/// would be copied past the caches, which is right for the user's sake and no limit.
pub fn copy_rate(rungs: &mut Rungs, bytes: usize, count: u64) -> Result<f64> {
    let me = rungs.rank();
    limits(rungs)?;
    let (limits, out, _) = parts(rungs, bytes);
    let start = Instant::now();
    if me == 0 {
        for _ in 0..count {
            for (at, piece) in out.chunks(CHUNK_BYTES).enumerate() {
                anyhow::ensure!(limits.target.write(at * CHUNK_BYTES, piece), "the target holds 8 MiB");
            }
        }
    }
    Ok(each(start, count))
}

fn parts(rungs: &mut Rungs, bytes: usize) -> (&mut Limits, &[u8], &mut [u8]) {
    let limits = rungs.kept.limits.as_mut().expect("made by the caller");
    (limits, &rungs.kept.out[..bytes], &mut rungs.kept.into[..bytes])
}
