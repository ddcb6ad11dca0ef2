//! Active messages, the short form.

use anyhow::{Result, bail};
use barewire::am::Simple;
use barewire_core::{Endpoint, Peer};

use super::pair::{self, Pair};
use super::{Bench, Kept, PATIENCE, Trips, until};
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
}

impl Pair for AmBench {
    const NAME: &'static str = "active messages";

    fn rank(&self) -> u32 {
        self.me
    }

    #[inline(always)]
    fn send(&mut self, bytes: usize) -> Result<()> {
        // What a caller writes between two messages delays the second: as little as can be.
        Ok(self.am.request(self.other(), DATA, &self.args[..bytes.div_ceil(8)])?)
    }

    fn post(&mut self, bytes: usize) -> Result<()> {
        let (other, args) = (self.other(), self.args);
        Ok(self.am.try_request(other, DATA, &args[..bytes.div_ceil(8).min(WORDS_MAX)])?)
    }

    #[inline(always)]
    fn until(&mut self, data: u64) {
        until(|| self.am.state().data >= data || (self.am.poll() > 0 && self.am.state().data >= data));
    }

    fn seen(&mut self) -> &mut u64 {
        &mut self.seen
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
        if command.bytes.div_ceil(8) > WORDS_MAX {
            bail!("a short active message holds {} bytes; am2 is for longer ones", WORDS_MAX * 8);
        }
        pair::once(self, command, trips)
    }

    fn burst(&mut self, _: &str, bytes: usize, count: u64) -> Result<f64> {
        pair::burst(self, bytes, count)
    }

    fn idle(&mut self) {
        self.am.poll();
    }

    fn close(self: Box<Self>) -> Option<(Endpoint, Option<Kept>)> {
        Some((self.am.into_core(), None))
    }
}
