//! What rounds of measurements say: medians, and how sure one can be of them.

/// The middle of `values`.
///
/// An even number of them has two middles; their mean is taken.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// A median with a 95 % confidence interval, from the order of the values alone: no assumption about their distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

/// An interval wider than this part of its median is reported.
const NOISY: f64 = 0.2;

impl Estimate {
    pub fn of(values: &[f64]) -> Estimate {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        if n == 0 {
            return Estimate { median: f64::NAN, low: f64::NAN, high: f64::NAN };
        }
        // Ranks of the binomial interval around the median.
        let reach = (0.98 * (n as f64).sqrt()).ceil() as usize;
        let low = (n / 2).saturating_sub(reach);
        let high = (n / 2 + reach).min(n - 1);
        Estimate { median: median(&sorted), low: sorted[low], high: sorted[high] }
    }

    /// The estimate of the ratio of two measurements, made in the same rounds.
    pub fn of_ratio(over: &[f64], under: &[f64]) -> Estimate {
        Estimate::of(&over.iter().zip(under).map(|(a, b)| a / b).collect::<Vec<_>>())
    }

    /// The estimate of how much more one measurement is than another, made in the same rounds.
    pub fn of_difference(over: &[f64], under: &[f64]) -> Estimate {
        Estimate::of(&over.iter().zip(under).map(|(a, b)| a - b).collect::<Vec<_>>())
    }

    /// With an interval down to where another begins.
    #[must_use]
    pub fn down_to(self, other: &Estimate) -> Estimate {
        Estimate { low: self.low.min(other.low), ..self }
    }

    /// Whether the interval leaves no doubt that the value is below `bound`.
    pub fn is_surely_below(&self, bound: f64) -> bool {
        self.high < bound
    }

    /// Whether the interval leaves no doubt that the value is above `bound`.
    pub fn is_surely_above(&self, bound: f64) -> bool {
        self.low > bound
    }

    /// Whether the interval is too wide to build on.
    pub fn is_noisy(&self) -> bool {
        self.high - self.low > NOISY * self.median.abs()
    }

    /// How a ratio of times, ours over theirs, is called.
    pub fn verdict(&self) -> Verdict {
        if self.is_surely_below(1.0 - TIE) {
            Verdict::Faster
        } else if self.is_surely_above(1.0 + TIE) {
            Verdict::Slower
        } else {
            Verdict::Tie
        }
    }
}

/// Closer than this nobody is faster: placement of code and data alone changes that much.
const TIE: f64 = 0.02;

/// Who is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Faster,
    Slower,
    Tie,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "SLOWER",
            Verdict::Tie => "a tie",
        }
    }
}

/// The size at which half of the best bandwidth is reached, from (bytes, bytes a second), by a line between neighbours in
/// logarithms; the smallest size if that has it already.
pub fn half_bandwidth_bytes(curve: &[(f64, f64)]) -> Option<f64> {
    let best = curve.iter().map(|point| point.1).fold(0.0, f64::max);
    let at = curve.iter().position(|point| point.1 >= best / 2.0)?;
    let (bytes, here) = curve[at];
    let Some(&(bytes_before, before)) = at.checked_sub(1).and_then(|at| curve.get(at)) else {
        return Some(bytes);
    };
    let part = (best / 2.0 - before) / (here - before);
    Some((bytes_before.ln() + part * (bytes.ln() - bytes_before.ln())).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine made to order: rounds around `base`, with noise of a given strength from a fixed sequence.
    fn rounds(base: f64, noise: f64, seed: u64) -> Vec<f64> {
        let mut random = barewire_core::filter::fault::SplitMix64::new(seed);
        (0..15).map(|_| base * (1.0 + noise * (random.below(1000) as f64 / 1000.0))).collect()
    }

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn noise_widens_the_interval_and_is_reported() {
        let calm = Estimate::of(&rounds(100.0, 0.02, 1));
        let noisy = Estimate::of(&rounds(100.0, 2.0, 1));
        assert!(noisy.high - noisy.low > 10.0 * (calm.high - calm.low), "{calm:?} {noisy:?}");
        assert!(noisy.is_noisy() && !calm.is_noisy());
    }

    #[test]
    fn a_peer_that_is_us_is_a_tie_however_noisy_the_machine() {
        for noise in [0.0, 0.02, 0.3, 3.0] {
            for seed in 0..50 {
                let (ours, theirs) = (rounds(100.0, noise, seed), rounds(100.0, noise, seed + 1000));
                let ratio = Estimate::of_ratio(&ours, &theirs);
                // One in twenty intervals may miss by chance; a difference that is not there may never look large.
                let wrong =
                    ratio.verdict() != Verdict::Tie && (ratio.median - 1.0).abs() > 0.5 * noise + 0.02;
                assert!(!wrong, "noise {noise}, seed {seed}: {ratio:?}");
            }
        }
        assert_eq!(Estimate::of_ratio(&rounds(9.0, 0.1, 3), &rounds(9.0, 0.1, 3)).verdict(), Verdict::Tie);
    }

    #[test]
    fn a_real_difference_is_seen_through_noise() {
        let (fast, slow) = (rounds(100.0, 0.1, 4), rounds(150.0, 0.1, 5));
        assert_eq!(Estimate::of_ratio(&fast, &slow).verdict(), Verdict::Faster);
        assert_eq!(Estimate::of_ratio(&slow, &fast).verdict(), Verdict::Slower);
    }

    #[test]
    fn what_a_step_adds_is_the_median_of_the_differences() {
        let under = rounds(100.0, 0.5, 6);
        let over: Vec<f64> = under.iter().map(|ns| ns + 5000.0).collect();
        let added = Estimate::of_difference(&over, &under);
        assert!((added.median - 5000.0).abs() < 1e-6 && !added.is_noisy(), "{added:?}");
    }

    #[test]
    fn half_of_the_best_bandwidth_lies_where_the_curve_crosses_it() {
        // Latency a, then bytes at rate r: half the rate is reached at a × r bytes.
        let (latency, rate) = (1e-6, 1e9);
        let curve: Vec<(f64, f64)> = (0..=22)
            .map(|power| f64::from(1u32 << power))
            .map(|bytes| (bytes, bytes / (latency + bytes / rate)))
            .collect();
        let half = half_bandwidth_bytes(&curve).unwrap();
        assert!((800.0..1250.0).contains(&half), "{half}");
        assert_eq!(half_bandwidth_bytes(&[(8.0, 5.0)]), Some(8.0));
        assert_eq!(half_bandwidth_bytes(&[]), None);
    }
}
