//! Split-C: what one access of each kind costs, as rank 0 sees it. Rank 1 only serves.

use std::time::Instant;

use anyhow::{Result, bail};
use barewire::splitc::{Global, SplitC};
use barewire_core::{Endpoint, Peer};

use super::{Bench, Kept, PATIENCE, Trips, each};
use crate::perf::worker::Command;

/// Bytes of the place that is accessed.
const PLACE_BYTES: usize = 1 << 20;

/// A rank that measures Split-C.
pub struct SplitcBench {
    sc: SplitC,
    /// Where rank 0's accesses go, at rank 1.
    place: Global<u64>,
    /// How many measurements are over, at each rank.
    over: Global<u64>,
    runs: u64,
}

impl SplitcBench {
    pub fn new(endpoint: Endpoint) -> Result<SplitcBench> {
        let sc = SplitC::new(endpoint, PLACE_BYTES + (64 << 10))?;
        sc.set_timeout(PATIENCE);
        let procs = sc.procs() as usize;
        let place = sc.all_spread_malloc::<u64>(procs, PLACE_BYTES / 8)?.block(1);
        let over = sc.all_spread_malloc::<u64>(procs, 1)?.block(0);
        // So that memory within reach is mapped before anything is measured.
        for _ in 0..20 {
            sc.read(place)?;
            sc.read(over.on(0))?;
        }
        sc.barrier()?;
        Ok(SplitcBench { sc, place, over, runs: 0 })
    }

    /// The active side: nanoseconds for each access.
    fn access(&self, verb: &str, bytes: usize, count: u64, window: u64) -> Result<f64> {
        let SplitcBench { sc, place, .. } = self;
        let mut words = vec![7u64; (bytes / 8).clamp(1, PLACE_BYTES / 8)];
        let one = words.len() == 1;
        let start = Instant::now();
        match verb {
            "read" => (0..count).try_for_each(|_| sc.bulk_read(*place, &mut words))?,
            "write" => (0..count).try_for_each(|_| sc.bulk_write(*place, &words))?,
            "get" => self.windows(count, window, |_| sc.get(*place).map(|_| ()))?,
            "put" if one => self.windows(count, window, |n| sc.put(*place, n).map(|_| ()))?,
            "put" => self.windows(count, window, |_| sc.bulk_put(*place, &words).map(|_| ()))?,
            "store" | "awaited" if one => (0..count).try_for_each(|n| sc.store(*place, n))?,
            "store" | "awaited" => (0..count).try_for_each(|_| sc.bulk_store(*place, &words))?,
            other => bail!("Split-C has no measurement called {other}"),
        }
        if verb == "store" {
            // Rank 1 was busy meanwhile, as it is with puts. Now it looks whether all of them are there …
            sc.write(self.over.on(1), self.runs)?;
        }
        if is_store(verb) {
            // … and answers once.
            sc.store_sync(8)?;
        }
        Ok(each(start, count))
    }

    fn windows(
        &self,
        count: u64,
        window: u64,
        mut start: impl FnMut(u64) -> Result<(), barewire::splitc::Error>,
    ) -> Result<()> {
        for first in (0..count).step_by(window.max(1) as usize) {
            (first..count.min(first + window)).try_for_each(&mut start)?;
            self.sc.sync()?;
        }
        Ok(())
    }
}

impl Bench for SplitcBench {
    fn meet(&mut self) -> Option<Result<()>> {
        Some(self.sc.barrier().map_err(Into::into))
    }

    fn tell_here(&mut self, _: Peer) -> Result<()> {
        bail!("Split-C meets in a barrier")
    }

    fn hear_here(&mut self, _: u32) -> Result<()> {
        bail!("Split-C meets in a barrier")
    }

    fn burst(&mut self, _: &str, _: usize, _: u64) -> Result<f64> {
        bail!("Split-C has no messages to send in bursts")
    }

    fn idle(&mut self) {
        self.sc.poll();
    }

    fn close(self: Box<Self>) -> Option<(Endpoint, Option<Kept>)> {
        None
    }

    fn once(&mut self, command: &Command, _: &mut Trips) -> Result<f64> {
        let Some(verb) = command.what.strip_prefix("splitc/") else {
            bail!("Split-C has no measurement called {}", command.what)
        };
        self.runs += 1;
        let bytes = command.bytes.clamp(8, PLACE_BYTES) / 8 * 8;
        if self.sc.my_proc() == 0 {
            let each = self.access(verb, bytes, command.count, command.window)?;
            self.sc.write(self.over.on(1), self.runs)?;
            return Ok(each);
        }
        let stored = || -> Result<()> {
            self.sc.store_sync(bytes as u64 * command.count)?;
            Ok(self.sc.store(self.over.on(0), self.runs)?)
        };
        if verb == "awaited" {
            stored()?;
        }
        while self.sc.read(self.over.on(1))? < self.runs {
            self.sc.poll();
        }
        if verb == "store" {
            stored()?;
        }
        Ok(0.0)
    }
}

/// Stores: with rank 1 busy, or waiting for them from the first on.
fn is_store(verb: &str) -> bool {
    matches!(verb, "store" | "awaited")
}
