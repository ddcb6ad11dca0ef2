//! Two ranks of a layer that sends messages and counts those that have come: latency, rate and burst, whatever the layer.

use std::time::Instant;

use anyhow::{Result, bail};

use super::{Trips, each};
use crate::perf::worker::Command;

/// A rank of two.
pub trait Pair {
    /// How the layer is called in a complaint.
    const NAME: &'static str;

    fn rank(&self) -> u32;

    /// Sends a message to the other rank, however long that takes.
    fn send(&mut self, bytes: usize) -> Result<()>;

    /// Sends a message that there is room for.
    fn post(&mut self, bytes: usize) -> Result<()> {
        self.send(bytes)
    }

    /// Polls until so many messages have come since the rank was made.
    fn until(&mut self, got: u64);

    /// Messages of earlier measurements; the first of this one may be here before it begins.
    fn seen(&mut self) -> &mut u64;
}

/// Does what a command says between ranks 0 and 1; the others wait in the next meeting.
pub fn once<P: Pair>(pair: &mut P, command: &Command, trips: &mut Trips) -> Result<f64> {
    match command.parts().1 {
        _ if pair.rank() > 1 => Ok(0.0),
        "latency" => latency(pair, command.bytes, command.count, trips),
        "rate" => rate(pair, command.bytes, command.count, command.window.max(1)),
        other => bail!("{} have no measurement called {other}", P::NAME),
    }
}

/// There and back, again and again; nanoseconds one way.
pub fn latency<P: Pair>(pair: &mut P, bytes: usize, count: u64, trips: &mut Trips) -> Result<f64> {
    let base = *pair.seen();
    let start = Instant::now();
    for trip in 1..=count {
        if pair.rank() == 0 {
            pair.send(bytes)?;
        }
        pair.until(base + trip);
        if pair.rank() != 0 {
            pair.send(bytes)?;
        }
        trips.lap();
    }
    *pair.seen() += count;
    Ok(each(start, count * 2))
}

fn rate<P: Pair>(pair: &mut P, bytes: usize, count: u64, window: u64) -> Result<f64> {
    let base = *pair.seen();
    let windows = count.div_ceil(window);
    let start = Instant::now();
    for n in 1..=windows {
        if pair.rank() == 0 {
            for _ in 0..window {
                pair.send(bytes)?;
            }
            pair.until(base + n);
        } else {
            pair.until(base + n * window);
            pair.send(0)?;
        }
    }
    *pair.seen() += if pair.rank() == 0 { windows } else { windows * window };
    Ok(each(start, windows * window))
}

/// Rank 0 sends, rank 1 takes, and neither waits for the other.
pub fn burst<P: Pair>(pair: &mut P, bytes: usize, count: u64) -> Result<f64> {
    let start = Instant::now();
    if pair.rank() == 0 {
        for _ in 0..count {
            pair.post(bytes)?;
        }
    } else {
        let all = *pair.seen() + count;
        pair.until(all);
        *pair.seen() = all;
    }
    Ok(each(start, count))
}
