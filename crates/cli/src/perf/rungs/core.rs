//! The core's two primitives.

use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::Result;
use barewire_core::region::{Key, Memory, Rights, Who};
use barewire_core::{Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError};

use super::{Inbox, Kept, PATIENCE, Rungs, Side, Trips, each, until};

const DATA: Port = Port(21);
const KEY: Port = Port(22);
const DONE: Port = Port(23);
/// Puts after which a region is mapped if it can be.
const UNMAPPED: u64 = 20;

/// Takes messages into one buffer and counts those that are complete.
struct Take<'a> {
    into: &'a mut [u8],
    got: u64,
    inbox: &'a mut Inbox,
}

impl Deliver for Take<'_> {
    #[inline(always)]
    fn deliver(&mut self, _: &mut Endpoint, mut packet: Incoming<'_>) -> Flow {
        if packet.port != DATA {
            self.inbox.keep(packet);
            return Flow::Continue;
        }
        let at = packet.offset as usize;
        packet.read(&mut self.into[at..]);
        self.got += u64::from(packet.offset == packet.total);
        Flow::Continue
    }
}

/// Takes what arrives until there have been `got` messages.
#[inline(always)]
fn take_until(endpoint: &mut Endpoint, take: &mut Take<'_>, got: u64) {
    until(|| {
        if take.got < got {
            endpoint.progress(take, usize::MAX);
        }
        take.got >= got
    });
}

/// Sends one message, long or short, taking what arrives meanwhile.
#[inline(always)]
fn send(endpoint: &mut Endpoint, take: &mut Take<'_>, to: Peer, bytes: &[u8]) -> Result<()> {
    if bytes.len() <= 4096 {
        // What a caller writes between two messages delays the second: as little as can be.
        return match endpoint.send(to, DATA, 0, bytes) {
            Err(SendError::Full) => send_when_there_is_room(endpoint, take, to, bytes),
            sent => Ok(sent?),
        };
    }
    let mut sending = endpoint.begin(to, DATA, 0, bytes.len() as u64)?;
    let mut failed = None;
    until(|| {
        let at = sending.sent() as usize;
        match endpoint.push(&mut sending, &bytes[at..]) {
            Ok(_) => {}
            Err(SendError::Full) => drop(endpoint.progress(take, usize::MAX)),
            Err(error) => failed = Some(error),
        }
        sending.is_done() || failed.is_some()
    });
    failed.map_or(Ok(()), |error| Err(error.into()))
}

#[cold]
#[inline(never)]
fn send_when_there_is_room(
    endpoint: &mut Endpoint,
    take: &mut Take<'_>,
    to: Peer,
    bytes: &[u8],
) -> Result<()> {
    let mut sent = Err(SendError::Full);
    until(|| {
        endpoint.progress(take, usize::MAX);
        sent = endpoint.send(to, DATA, 0, bytes);
        sent != Err(SendError::Full)
    });
    Ok(sent?)
}

/// One way of a message.
pub fn latency(rungs: &mut Rungs, bytes: usize, count: u64, trips: &mut Trips) -> Result<f64> {
    let me = rungs.rank();
    let other = Peer(1 - me);
    let Rungs { endpoint, inbox, kept: Kept { out, into, .. } } = rungs;
    let out = &out[..bytes];
    let mut take = Take { into, got: 0, inbox };
    let start = Instant::now();
    for trip in 1..=count {
        if me == 0 {
            send(endpoint, &mut take, other, out)?;
        }
        take_until(endpoint, &mut take, trip);
        if me != 0 {
            send(endpoint, &mut take, other, out)?;
        }
        trips.lap();
    }
    Ok(each(start, count * 2))
}

/// Messages from rank 0 to rank 1, `window` at a time, each window answered by an empty message.
pub fn rate(rungs: &mut Rungs, bytes: usize, count: u64, window: u64) -> Result<f64> {
    let me = rungs.rank();
    let other = Peer(1 - me);
    let Rungs { endpoint, inbox, kept: Kept { out, into, .. } } = rungs;
    let out = &out[..bytes];
    let mut take = Take { into, got: 0, inbox };
    let windows = count.div_ceil(window);
    let start = Instant::now();
    for n in 1..=windows {
        if me == 0 {
            for _ in 0..window {
                send(endpoint, &mut take, other, out)?;
            }
            take_until(endpoint, &mut take, n);
        } else {
            take_until(endpoint, &mut take, n * window);
            send(endpoint, &mut take, other, &[])?;
        }
    }
    Ok(each(start, windows * window))
}

/// Puts from rank 0 into a region of rank 1.
pub fn put_rate(rungs: &mut Rungs, bytes: usize, count: u64) -> Result<f64> {
    if rungs.rank() != 0 {
        let memory = Memory::shared(bytes)?;
        let key = rungs.endpoint.export(&memory, Rights::ALL, Who::Anyone)?;
        rungs.tell(Peer(0), KEY, &key.to_bytes())?;
        rungs.hear(DONE)?;
        rungs.endpoint.revoke(key);
        return Ok(0.0);
    }
    let key: [u8; Key::BYTES] = rungs.hear(KEY)?.as_slice().try_into()?;
    let key = Key::from_bytes(key);
    let Rungs { endpoint, inbox, kept: Kept { out, tagged, .. } } = rungs;
    let mut side = Side { inbox, tagged };
    let out = &out[..bytes];
    // The first few go by packets, until the region is mapped.
    for _ in 0..UNMAPPED {
        let op = endpoint.put(key, 0, out)?;
        endpoint.finish(&mut side, op, PATIENCE)?;
    }
    let start = Instant::now();
    for _ in 0..count {
        let op = endpoint.put(key, 0, out)?;
        endpoint.finish(&mut side, op, PATIENCE)?;
    }
    let each = each(start, count);
    rungs.tell(Peer(1), DONE, &[])?;
    Ok(each)
}

/// One way of a word, with `bytes` in front of it, put into the other's region; the other looks until it is there.
pub fn put_latency(rungs: &mut Rungs, bytes: usize, count: u64, trips: &mut Trips) -> Result<f64> {
    let (me, other) = (rungs.rank(), Peer(1 - rungs.rank()));
    // The word that is looked at comes last, so that all of it is there when the word is.
    let bytes = bytes.max(8).next_multiple_of(8);
    let memory = Memory::shared(bytes)?;
    let mine = rungs.endpoint.export(&memory, Rights::ALL, Who::Anyone)?;
    rungs.tell(other, KEY, &mine.to_bytes())?;
    let key: [u8; Key::BYTES] = rungs.hear(KEY)?.as_slice().try_into()?;
    let key = Key::from_bytes(key);
    let Rungs { endpoint, inbox, kept: Kept { out, tagged, .. } } = rungs;
    let mut side = Side { inbox, tagged };
    let out = &mut out[..bytes];
    let word = memory.atomic_u64(bytes - 8).expect("the region ends in a word");
    let mut put = |value: u64, endpoint: &mut Endpoint, side: &mut Side<'_>| -> Result<()> {
        out[bytes - 8..].copy_from_slice(&value.to_ne_bytes());
        let op = endpoint.put(key, 0, out)?;
        Ok(endpoint.finish(side, op, PATIENCE).map(|_| ())?)
    };
    let arrive = |value: u64, endpoint: &mut Endpoint, side: &mut Side<'_>| {
        // SYNC put: pairs with the writer's release of the last word of a put.
        until(|| {
            let there = word.load(Ordering::Acquire) == value;
            if !there {
                endpoint.progress(side, usize::MAX);
            }
            there
        });
    };
    let mut start = Instant::now();
    // The first few go by packets, until the region is mapped.
    for trip in 1..=count + UNMAPPED {
        if trip == UNMAPPED + 1 {
            start = Instant::now();
            trips.begin();
        }
        if me == 0 {
            put(trip, endpoint, &mut side)?;
        }
        arrive(trip, endpoint, &mut side);
        if me != 0 {
            put(trip, endpoint, &mut side)?;
        }
        if trip > UNMAPPED {
            trips.lap();
        }
    }
    let each = each(start, count * 2);
    rungs.meet_other()?;
    rungs.endpoint.revoke(mine);
    Ok(each)
}

/// Rank 0 sends `count` messages, rank 1 takes as many, and neither waits for the other.
pub fn burst(rungs: &mut Rungs, bytes: usize, count: u64) -> Result<f64> {
    let me = rungs.rank();
    let Rungs { endpoint, inbox, kept: Kept { out, into, .. } } = rungs;
    let mut take = Take { into, got: 0, inbox };
    let start = Instant::now();
    if me == 0 {
        for _ in 0..count {
            send(endpoint, &mut take, Peer(1), &out[..bytes])?;
        }
    } else {
        take_until(endpoint, &mut take, count);
    }
    Ok(each(start, count))
}

/// A token once round all ranks.
pub fn turn(rungs: &mut Rungs, bytes: usize, count: u64) -> Result<f64> {
    let (me, size) = (rungs.rank(), rungs.endpoint.size());
    let next = Peer((me + 1) % size);
    let Rungs { endpoint, inbox, kept: Kept { out, into, .. } } = rungs;
    let out = &out[..bytes];
    let mut take = Take { into, got: 0, inbox };
    let start = Instant::now();
    for trip in 1..=count {
        if me == 0 {
            send(endpoint, &mut take, next, out)?;
        }
        endpoint.wait(&mut take, PATIENCE, |_, take| take.got >= trip)?;
        if me != 0 {
            send(endpoint, &mut take, next, out)?;
        }
    }
    Ok(each(start, count))
}
