//! Tagged messages, which MPI is made of.

use std::time::Instant;

use anyhow::Result;
use barewire_core::region::Memory;
use barewire_core::tagged::{Envelope, Mode, Received, Request, Sent, Sink, Source, Want};
use barewire_core::{Endpoint, Peer};

use super::{PATIENCE, Rungs, Side, each};

const DATA: Envelope = Envelope { context: 7, tag: 1 };
const ANSWER: Envelope = Envelope { context: 7, tag: 2 };

fn start_send(
    endpoint: &mut Endpoint,
    side: &mut Side<'_>,
    to: Peer,
    envelope: Envelope,
    from: &Memory,
    bytes: usize,
) -> Result<Option<Request>> {
    match side.tagged.send(
        endpoint,
        to,
        envelope,
        Mode::Standard,
        bytes as u64,
        Source::Memory(from.clone(), 0),
    )? {
        Sent::Done => Ok(None),
        Sent::Pending(request) => Ok(Some(request)),
    }
}

fn start_receive(
    endpoint: &mut Endpoint,
    side: &mut Side<'_>,
    from: Peer,
    envelope: Envelope,
    into: &Memory,
    bytes: usize,
) -> Option<Request> {
    let want = Want { context: envelope.context, from: Some(from), tag: Some(envelope.tag) };
    match side.tagged.receive(endpoint, want, Sink::Memory(into.clone(), 0, bytes)) {
        Received::Done(_) => None,
        Received::Pending(request) => Some(request),
    }
}

fn finish(endpoint: &mut Endpoint, side: &mut Side<'_>, request: Option<Request>) -> Result<()> {
    if let Some(request) = request {
        endpoint.wait(side, PATIENCE, |endpoint, side| {
            side.tagged.advance(endpoint) && side.tagged.is_done(request)
        })?;
        side.tagged.take(request);
    }
    Ok(())
}

/// One way of a tagged message between ranks 0 and 1.
pub fn latency(rungs: &mut Rungs, bytes: usize, count: u64) -> Result<f64> {
    let me = rungs.rank();
    let other = Peer(1 - me);
    let (out, into) = (Memory::private(bytes), Memory::private(bytes));
    let Rungs { endpoint, tagged, inbox, .. } = rungs;
    let side = &mut Side { inbox, tagged };
    let start = Instant::now();
    for _ in 0..count {
        let receive = start_receive(endpoint, side, other, DATA, &into, bytes);
        if me == 0 {
            let sent = start_send(endpoint, side, other, DATA, &out, bytes)?;
            finish(endpoint, side, sent)?;
        }
        finish(endpoint, side, receive)?;
        if me != 0 {
            let sent = start_send(endpoint, side, other, DATA, &out, bytes)?;
            finish(endpoint, side, sent)?;
        }
    }
    Ok(each(start, count * 2))
}

/// Tagged messages from rank 0 to rank 1, `window` at a time, each window answered by an empty message.
pub fn rate(rungs: &mut Rungs, bytes: usize, count: u64, window: u64) -> Result<f64> {
    let me = rungs.rank();
    let other = Peer(1 - me);
    let (out, into) = (Memory::private(bytes), Memory::private(bytes));
    let Rungs { endpoint, tagged, inbox, .. } = rungs;
    let side = &mut Side { inbox, tagged };
    let mut requests = Vec::with_capacity(window as usize);
    let windows = count.div_ceil(window);
    let start = Instant::now();
    for _ in 0..windows {
        if me == 0 {
            for _ in 0..window {
                requests.push(start_send(endpoint, side, other, DATA, &out, bytes)?);
            }
            for request in requests.drain(..) {
                finish(endpoint, side, request)?;
            }
            let answer = start_receive(endpoint, side, other, ANSWER, &into, 0);
            finish(endpoint, side, answer)?;
        } else {
            for _ in 0..window {
                requests.push(start_receive(endpoint, side, other, DATA, &into, bytes));
            }
            for request in requests.drain(..) {
                finish(endpoint, side, request)?;
            }
            let sent = start_send(endpoint, side, other, ANSWER, &out, 0)?;
            finish(endpoint, side, sent)?;
        }
    }
    Ok(each(start, windows * window))
}

/// A token once round all ranks.
pub fn ring(rungs: &mut Rungs, bytes: usize, count: u64) -> Result<f64> {
    let (me, size) = (rungs.rank(), rungs.endpoint.size());
    let (next, before) = (Peer((me + 1) % size), Peer((me + size - 1) % size));
    let (out, into) = (Memory::private(bytes), Memory::private(bytes));
    let Rungs { endpoint, tagged, inbox, .. } = rungs;
    let side = &mut Side { inbox, tagged };
    let start = Instant::now();
    for _ in 0..count {
        let receive = start_receive(endpoint, side, before, DATA, &into, bytes);
        if me == 0 {
            let sent = start_send(endpoint, side, next, DATA, &out, bytes)?;
            finish(endpoint, side, sent)?;
        }
        finish(endpoint, side, receive)?;
        if me != 0 {
            let sent = start_send(endpoint, side, next, DATA, &out, bytes)?;
            finish(endpoint, side, sent)?;
        }
    }
    Ok(each(start, count))
}
