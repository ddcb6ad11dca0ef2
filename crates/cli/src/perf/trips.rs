//! Trips: the time of every single message, for distributions, or of none, for means.

use barewire_sys::cpu::{ticks, ticks_per_us};

/// The parts of a distribution that are kept: per mille, and the name in an answer.
pub const QUANTILES: [(u32, &str); 9] = [
    (10, "p1"),
    (50, "p5"),
    (250, "p25"),
    (500, "p50"),
    (750, "p75"),
    (900, "p90"),
    (950, "p95"),
    (990, "p99"),
    (999, "p999"),
];

/// A stop watch for laps. Switched off, a lap costs one predictable branch.
#[derive(Debug, Default)]
pub struct Trips {
    last: u64,
    /// Most laps that are kept; 0 keeps none.
    most: usize,
    laps: Vec<u32>,
}

impl Trips {
    /// Keeps nothing.
    pub fn off() -> Trips {
        Trips::default()
    }

    /// Keeps up to `most` laps.
    pub fn on(most: u64) -> Trips {
        let most = most.min(1 << 20) as usize;
        Trips { last: 0, most, laps: Vec::with_capacity(most) }
    }

    /// The first lap begins.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.last = ticks();
    }

    /// A lap ends and the next begins.
    #[inline(always)]
    pub fn lap(&mut self) {
        if self.laps.len() < self.most {
            let now = ticks();
            self.laps.push(u32::try_from(now.saturating_sub(self.last)).unwrap_or(u32::MAX));
            self.last = now;
        }
    }

    /// Quantiles in nanoseconds, each lap counted as `parts` operations; empty if nothing was kept.
    pub fn quantiles(mut self, parts: f64) -> Vec<(&'static str, f64)> {
        self.laps.sort_unstable();
        let Some(end) = self.laps.len().checked_sub(1) else { return Vec::new() };
        let own = cost_of_a_lap();
        let at = |mille: u32| self.laps[end * mille as usize / 1000];
        let ns = |ticks: u32| (f64::from(ticks) - own).max(0.0) / ticks_per_us() * 1e3 / parts;
        QUANTILES.iter().map(|&(mille, name)| (name, ns(at(mille)))).collect()
    }
}

/// What reading the counter adds to every lap, in ticks: the least of many.
pub fn cost_of_a_lap() -> f64 {
    let mut watch = Trips::on(1000);
    watch.begin();
    (0..1000).for_each(|_| watch.lap());
    watch.laps.sort_unstable();
    f64::from(watch.laps[watch.laps.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_ordered_and_none_are_made_up() {
        assert!(Trips::off().quantiles(1.0).is_empty());
        let laps: Vec<u32> = (1..=1000).rev().map(|n| n * 1000).collect();
        let watch = Trips { last: 0, most: 1000, laps };
        let quantiles = watch.quantiles(2.0);
        assert_eq!(quantiles.len(), QUANTILES.len());
        assert!(quantiles.is_sorted_by(|a, b| a.1 <= b.1), "{quantiles:?}");
    }

    #[test]
    fn a_watch_that_is_off_keeps_nothing() {
        let mut watch = Trips::off();
        watch.begin();
        watch.lap();
        assert!(watch.laps.is_empty());
    }
}
