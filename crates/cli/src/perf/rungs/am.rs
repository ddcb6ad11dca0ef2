//! Active messages, the short form.

use std::time::Instant;

use anyhow::{Result, bail};
use barewire::am::Simple;
use barewire_core::{Endpoint, Peer};

use super::{Bench, Kept, PATIENCE, Trips, each, until};
use crate::perf::worker::Command;

const DATA: u8 = 1;
const HERE: u8 = 2;
/// The most arguments that a message is measured with.
const WORDS_MAX: usize = 7;

/// What the handlers count.
#[derive(Default, Debug)]
struct Counts {
    data: u64,
    here: u32,
}

/// A rank that measures active messages.
pub struct AmBench {
    am: Simple<Counts>,
    me: u32,
    /// Data messages of earlier measurements; the first of this one may be here before it begins.
    seen: u64,
    args: [u64; WORDS_MAX],
}

impl AmBench {
    pub fn new(endpoint: Endpoint) -> AmBench {
        let me = endpoint.me().0;
        let mut am = Simple::new(endpoint, Counts::default());
        am.set_handler(DATA, |call, _| call.state.data += 1);
        am.set_handler(HERE, |call, _| call.state.here += 1);
        AmBench { am, me, seen: 0, args: [1; WORDS_MAX] }
    }

    fn other(&self) -> Peer {
        Peer(1 - self.me)
    }

    fn until(&mut self, data: u64) {
        until(|| self.am.state().data >= data || (self.am.poll() > 0 && self.am.state().data >= data));
    }

    fn latency(&mut self, words: usize, count: u64, trips: &mut Trips) -> Result<f64> {
        let (other, base, args) = (self.other(), self.seen, self.args);
        let start = Instant::now();
        for trip in 1..=count {
            if self.me == 0 {
                self.am.request(other, DATA, &args[..words])?;
            }
            self.until(base + trip);
            if self.me != 0 {
                self.am.request(other, DATA, &args[..words])?;
            }
            trips.lap();
        }
        self.seen += count;
        Ok(each(start, count * 2))
    }

    fn rate(&mut self, words: usize, count: u64, window: u64) -> Result<f64> {
        let (other, base, args) = (self.other(), self.seen, self.args);
        let windows = count.div_ceil(window);
        let start = Instant::now();
        for n in 1..=windows {
            if self.me == 0 {
                for _ in 0..window {
                    self.am.request(other, DATA, &args[..words])?;
                }
                self.until(base + n);
            } else {
                self.until(base + n * window);
                self.am.request(other, DATA, &[n])?;
            }
        }
        self.seen += if self.me == 0 { windows } else { windows * window };
        Ok(each(start, windows * window))
    }
}

impl Bench for AmBench {
    fn tell_here(&mut self, to: Peer) -> Result<()> {
        Ok(self.am.request(to, HERE, &[])?)
    }

    fn hear_here(&mut self, count: u32) -> Result<()> {
        self.am.wait(PATIENCE, |counts| counts.here >= count)?;
        self.am.state_mut().here -= count;
        Ok(())
    }

    fn once(&mut self, command: &Command, trips: &mut Trips) -> Result<f64> {
        let words = command.bytes.div_ceil(8);
        if words > WORDS_MAX {
            bail!("a short active message holds {} bytes; am2 is for longer ones", WORDS_MAX * 8);
        }
        match command.parts().1 {
            _ if self.me > 1 => Ok(0.0),
            "latency" => self.latency(words, command.count, trips),
            "rate" => self.rate(words, command.count, command.window.max(1)),
            other => bail!("active messages have no measurement called {other}"),
        }
    }

    fn burst(&mut self, _: &str, bytes: usize, count: u64) -> Result<f64> {
        let (words, args) = (bytes.div_ceil(8).min(WORDS_MAX), self.args);
        let start = Instant::now();
        if self.me == 0 {
            for _ in 0..count {
                self.am.try_request(Peer(1), DATA, &args[..words])?;
            }
        } else {
            self.until(self.seen + count);
            self.seen += count;
        }
        Ok(each(start, count))
    }

    fn idle(&mut self) {
        self.am.poll();
    }

    fn close(self: Box<Self>) -> Option<(Endpoint, Option<Kept>)> {
        Some((self.am.into_core(), None))
    }
}
