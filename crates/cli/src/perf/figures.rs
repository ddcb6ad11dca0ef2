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

    /// Whether the interval leaves no doubt that the value is below `bound`.
    pub fn is_surely_below(&self, bound: f64) -> bool {
        self.high < bound
    }

    /// Whether the interval leaves no doubt that the value is above `bound`.
    pub fn is_surely_above(&self, bound: f64) -> bool {
        self.low > bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn noise_widens_the_interval() {
        let calm = Estimate::of(&[1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0]);
        let noisy = Estimate::of(&[1.0, 2.0, 0.5, 1.0, 3.0, 0.4, 1.0]);
        assert!(noisy.high - noisy.low > calm.high - calm.low);
        assert!(calm.low <= 1.0 && 1.0 <= calm.high, "a program against itself is a tie: {calm:?}");
    }
}
