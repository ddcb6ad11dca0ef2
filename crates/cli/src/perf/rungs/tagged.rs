//! Tagged messages, which MPI is made of.

use std::time::Instant;

use anyhow::Result;
use barewire_core::region::Memory;
use barewire_core::tagged::{Envelope, Mode, Received, Request, Sent, Sink, Source, Want};
use barewire_core::{Endpoint, Peer};

use super::{Kept, PATIENCE, Rungs, Side, Trips, each, until};

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

/// Polls until a request has ended, as all rungs between two ranks do.
fn finish(endpoint: &mut Endpoint, side: &mut Side<'_>, request: Option<Request>) -> Result<()> {
    let Some(request) = request else { return Ok(()) };
    until(|| {
        endpoint.progress(side, usize::MAX);
        side.tagged.advance(endpoint) && side.tagged.is_done(request)
    });
    side.tagged.take(request);
    Ok(())
}

/// Receives as those do who can do nothing else: where the message stands, if it comes soon.
fn receive(
    endpoint: &mut Endpoint,
    side: &mut Side<'_>,
    from: Peer,
    into: &Memory,
    bytes: usize,
) -> Result<()> {
    endpoint.let_others(from, side);
    let taken = side.tagged.receive_now(endpoint, from, DATA, bytes, |mut packet| {
        into.wire_mut(0, packet.remaining()).map(|mut place| place.take_from(&mut packet));
    });
    if taken.is_some() {
        return Ok(());
    }
    match side.tagged.receive_pieces_now(endpoint, from, DATA, Sink::Memory(into.clone(), 0, bytes)) {
        Some(Received::Done(_)) => Ok(()),
        Some(Received::Pending(request)) => finish(endpoint, side, Some(request)),
        None => {
            let request = start_receive(endpoint, side, from, DATA, into, bytes);
            finish(endpoint, side, request)
        }
    }
}

/// Waits until a request has ended, letting others run meanwhile.
fn wait_for(endpoint: &mut Endpoint, side: &mut Side<'_>, request: Option<Request>) -> Result<()> {
    if let Some(request) = request {
        endpoint.wait(side, PATIENCE, |endpoint, side| {
            side.tagged.advance(endpoint) && side.tagged.is_done(request)
        })?;
        side.tagged.take(request);
    }
    Ok(())
}

/// One way of a tagged message between ranks 0 and 1.
pub fn latency(rungs: &mut Rungs, bytes: usize, count: u64, trips: &mut Trips) -> Result<f64> {
    let me = rungs.rank();
    let other = Peer(1 - me);
    let (out, into) = (Memory::private(bytes), Memory::private(bytes));
    let Rungs { endpoint, inbox, kept: Kept { tagged, .. } } = rungs;
    let side = &mut Side { inbox, tagged };
    let start = Instant::now();
    for _ in 0..count {
        if me == 0 {
            let sent = start_send(endpoint, side, other, DATA, &out, bytes)?;
            finish(endpoint, side, sent)?;
        }
        receive(endpoint, side, other, &into, bytes)?;
        if me != 0 {
            let sent = start_send(endpoint, side, other, DATA, &out, bytes)?;
            finish(endpoint, side, sent)?;
        }
        trips.lap();
    }
    Ok(each(start, count * 2))
}

/// Tagged messages from rank 0 to rank 1, `window` at a time, each window answered by an empty message.
pub fn rate(rungs: &mut Rungs, bytes: usize, count: u64, window: u64) -> Result<f64> {
    let me = rungs.rank();
    let other = Peer(1 - me);
    let (out, into) = (Memory::private(bytes), Memory::private(bytes));
    let Rungs { endpoint, inbox, kept: Kept { tagged, .. } } = rungs;
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
pub fn turn(rungs: &mut Rungs, bytes: usize, count: u64) -> Result<f64> {
    let (me, size) = (rungs.rank(), rungs.endpoint.size());
    let (next, before) = (Peer((me + 1) % size), Peer((me + size - 1) % size));
    let (out, into) = (Memory::private(bytes), Memory::private(bytes));
    let Rungs { endpoint, inbox, kept: Kept { tagged, .. } } = rungs;
    let side = &mut Side { inbox, tagged };
    let start = Instant::now();
    for _ in 0..count {
        let receive = start_receive(endpoint, side, before, DATA, &into, bytes);
        if me == 0 {
            let sent = start_send(endpoint, side, next, DATA, &out, bytes)?;
            wait_for(endpoint, side, sent)?;
        }
        wait_for(endpoint, side, receive)?;
        if me != 0 {
            let sent = start_send(endpoint, side, next, DATA, &out, bytes)?;
            wait_for(endpoint, side, sent)?;
        }
    }
    Ok(each(start, count))
}

/// Messages whose receives are all posted before the first is sent, into memory that others may map or that they may not.
pub fn posted(rungs: &mut Rungs, bytes: usize, count: u64, shared: bool) -> Result<f64> {
    let me = rungs.rank();
    let other = Peer(1 - me);
    let memory = || if shared { Memory::shared(bytes) } else { Ok(Memory::private(bytes)) };
    // A place of its own for each message, as far as that is sensible.
    let places = count.min((64 << 20) / bytes.max(1) as u64).max(1);
    let places: Vec<Memory> = (0..places).map(|_| memory()).collect::<Result<_, _>>()?;
    let place = |n: u64| &places[(n % places.len() as u64) as usize];
    let mut requests = Vec::with_capacity(count as usize);
    if me != 0 {
        let Rungs { endpoint, inbox, kept: Kept { tagged, .. } } = &mut *rungs;
        let side = &mut Side { inbox, tagged };
        requests.extend((0..count).map(|n| start_receive(endpoint, side, other, DATA, place(n), bytes)));
    }
    rungs.meet_other()?;
    let Rungs { endpoint, inbox, kept: Kept { tagged, .. } } = rungs;
    let side = &mut Side { inbox, tagged };
    let start = Instant::now();
    if me == 0 {
        for n in 0..count {
            requests.push(start_send(endpoint, side, other, DATA, place(n), bytes)?);
        }
    }
    for request in requests {
        finish(endpoint, side, request)?;
    }
    let empty = Memory::private(0);
    if me == 0 {
        let answer = start_receive(endpoint, side, other, ANSWER, &empty, 0);
        finish(endpoint, side, answer)?;
    } else {
        let sent = start_send(endpoint, side, other, ANSWER, &empty, 0)?;
        finish(endpoint, side, sent)?;
    }
    Ok(each(start, count))
}

/// Rank 0 sends `count` messages, rank 1 takes as many, and neither waits for the other.
pub fn burst(rungs: &mut Rungs, bytes: usize, count: u64) -> Result<f64> {
    let me = rungs.rank();
    let (out, into) = (Memory::private(bytes), Memory::private(bytes));
    let Rungs { endpoint, inbox, kept: Kept { tagged, .. } } = rungs;
    let side = &mut Side { inbox, tagged };
    let start = Instant::now();
    for _ in 0..count {
        let request = match me {
            0 => start_send(endpoint, side, Peer(1), DATA, &out, bytes)?,
            _ => start_receive(endpoint, side, Peer(0), DATA, &into, bytes),
        };
        finish(endpoint, side, request)?;
    }
    Ok(each(start, count))
}
