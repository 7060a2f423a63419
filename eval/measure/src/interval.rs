//! Median with a 95 % confidence interval that assumes nothing about the distribution.

use crate::statistics::median;
use serde::{Deserialize, Serialize};

/// Median and interval of a set of samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Returns median and interval. The interval lies between two order statistics: the k-th smallest and the k-th
    /// largest sample, with the largest k for which a binomial(n, ½) stays below k with a probability of at most 2.5
    /// % (the sign test turned round; Conover, *Practical Nonparametric Statistics*, section 3.2; specification
    /// S-804). With ten samples these are the second and the ninth; with fewer than six, the whole range, which then
    /// covers less than 95 %. None without samples.
    pub fn of(mut samples: Vec<f64>) -> Option<Interval> {
        samples.sort_by(f64::total_cmp);
        let skip = outside(samples.len());
        let (low, high) = (*samples.get(skip)?, *samples.iter().nth_back(skip)?);
        Some(Interval { median: median(&samples), low, high })
    }

    /// Formats as `1.53 [1.41–1.70]`.
    pub fn text(&self) -> String {
        format!("{:.2} [{:.2}–{:.2}]", self.median, self.low, self.high)
    }
}

/// Number of samples that may lie outside the interval on each side.
fn outside(count: usize) -> usize {
    let mut probability = 0.5_f64.powi(count.min(1000) as i32);
    let mut below = 0.0;
    for k in 0..count {
        below += probability;
        if below > 0.025 {
            return k.saturating_sub(1);
        }
        probability *= (count - k) as f64 / (k + 1) as f64;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_samples_give_the_second_and_the_ninth() {
        let interval = Interval::of((1..=10).map(f64::from).rev().collect()).expect("samples");
        assert_eq!(interval, Interval { median: 5.5, low: 2.0, high: 9.0 });
        assert_eq!(interval.text(), "5.50 [2.00–9.00]");
    }

    #[test]
    fn few_samples_give_their_range_and_none_gives_none() {
        assert_eq!(Interval::of(vec![3.0, 1.0]), Some(Interval { median: 2.0, low: 1.0, high: 3.0 }));
        assert_eq!(Interval::of(vec![7.0]), Some(Interval { median: 7.0, low: 7.0, high: 7.0 }));
        assert_eq!(Interval::of(Vec::new()), None);
    }

    #[test]
    fn the_coverage_is_what_is_promised() {
        // Table A3 of Conover for n = 20 and 40: the 6th and the 14th sample from either end.
        assert_eq!((outside(20), outside(40)), (5, 13));
    }
}
