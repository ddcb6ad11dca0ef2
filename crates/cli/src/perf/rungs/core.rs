//! The core's two primitives.

use std::time::Instant;

use anyhow::Result;
use barewire_core::region::{Key, Memory, Rights, Who};
use barewire_core::{Deliver, Endpoint, Flow, Incoming, Peer, Port, SendError};

use super::{Inbox, PATIENCE, Rungs, Side, each};

const DATA: Port = Port(21);
const KEY: Port = Port(22);
const DONE: Port = Port(23);

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

/// Sends one message, long or short, taking what arrives meanwhile.
#[inline(always)]
fn send(endpoint: &mut Endpoint, take: &mut Take<'_>, to: Peer, bytes: &[u8]) -> Result<()> {
    if bytes.len() <= 4096 {
        loop {
            match endpoint.send(to, DATA, 0, bytes) {
                Ok(()) => return Ok(()),
                Err(SendError::Full) => endpoint.progress(take, usize::MAX),
                Err(error) => return Err(error.into()),
            };
        }
    }
    let mut sending = endpoint.begin(to, DATA, 0, bytes.len() as u64)?;
    while !sending.is_done() {
        let at = sending.sent() as usize;
        match endpoint.push(&mut sending, &bytes[at..]) {
            Ok(_) => {}
            Err(SendError::Full) => {
                endpoint.progress(take, usize::MAX);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// One way of a message.
pub fn latency(rungs: &mut Rungs, bytes: usize, count: u64) -> Result<f64> {
    let me = rungs.rank();
    let other = Peer(1 - me);
    let Rungs { endpoint, out, into, inbox, .. } = rungs;
    let out = &out[..bytes];
    let mut take = Take { into, got: 0, inbox };
    let start = Instant::now();
    for trip in 1..=count {
        if me == 0 {
            send(endpoint, &mut take, other, out)?;
        }
        while take.got < trip {
            endpoint.progress(&mut take, usize::MAX);
        }
        if me != 0 {
            send(endpoint, &mut take, other, out)?;
        }
    }
    Ok(each(start, count * 2))
}

/// Messages from rank 0 to rank 1, `window` at a time, each window answered by an empty message.
pub fn rate(rungs: &mut Rungs, bytes: usize, count: u64, window: u64) -> Result<f64> {
    let me = rungs.rank();
    let other = Peer(1 - me);
    let Rungs { endpoint, out, into, inbox, .. } = rungs;
    let out = &out[..bytes];
    let mut take = Take { into, got: 0, inbox };
    let windows = count.div_ceil(window);
    let start = Instant::now();
    for n in 1..=windows {
        if me == 0 {
            for _ in 0..window {
                send(endpoint, &mut take, other, out)?;
            }
            while take.got < n {
                endpoint.progress(&mut take, usize::MAX);
            }
        } else {
            while take.got < n * window {
                endpoint.progress(&mut take, usize::MAX);
            }
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
    let Rungs { endpoint, out, inbox, tagged, .. } = rungs;
    let mut side = Side { inbox, tagged };
    let out = &out[..bytes];
    // The first few go by packets, until the region is mapped.
    for _ in 0..20 {
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
