//! Active messages, the short form.

use std::time::Instant;

use anyhow::{Result, bail};
use barewire::am::Simple;
use barewire_core::{Endpoint, Peer};

use super::{Bench, PATIENCE, each};
use crate::perf::worker::Command;

const DATA: u8 = 1;
const HERE: u8 = 2;

/// What the handlers count.
#[derive(Default, Debug)]
struct Counts {
    data: u64,
    here: u64,
}

/// A rank that measures active messages.
pub struct AmBench {
    am: Simple<Counts>,
    me: u32,
    /// Data messages of earlier measurements; the first of this one may be here before it begins.
    seen: u64,
}

impl AmBench {
    pub fn new(endpoint: Endpoint) -> AmBench {
        let me = endpoint.me().0;
        let mut am = Simple::new(endpoint, Counts::default());
        am.set_handler(DATA, |call, _| call.state.data += 1);
        am.set_handler(HERE, |call, _| call.state.here += 1);
        AmBench { am, me, seen: 0 }
    }

    fn other(&self) -> Peer {
        Peer(1 - self.me)
    }

    fn until(&mut self, data: u64) {
        while self.am.state().data < data {
            self.am.poll();
        }
    }

    fn latency(&mut self, count: u64) -> Result<f64> {
        let (other, base) = (self.other(), self.seen);
        let start = Instant::now();
        for trip in 1..=count {
            if self.me == 0 {
                self.am.request(other, DATA, &[trip])?;
            }
            self.until(base + trip);
            if self.me != 0 {
                self.am.request(other, DATA, &[trip])?;
            }
        }
        self.seen += count;
        Ok(each(start, count * 2))
    }

    fn rate(&mut self, count: u64, window: u64) -> Result<f64> {
        let (other, base) = (self.other(), self.seen);
        let windows = count.div_ceil(window);
        let start = Instant::now();
        for n in 1..=windows {
            if self.me == 0 {
                for _ in 0..window {
                    self.am.request(other, DATA, &[n])?;
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
    fn meet(&mut self) -> Result<()> {
        let (other, here) = (self.other(), self.am.state().here + 1);
        self.am.request(other, HERE, &[])?;
        self.am.wait(PATIENCE, |counts| counts.here >= here)?;
        Ok(())
    }

    fn once(&mut self, command: &Command) -> Result<f64> {
        match command.what.as_str() {
            "am/latency" => self.latency(command.count),
            "am/rate" => self.rate(command.count, command.window.max(1)),
            other => bail!("active messages have no measurement called {other}"),
        }
    }
}
