//! Medians, quantiles, spreads and means of samples.
//!
//! Trap: a comparison of A and B takes the ratio of each round ([`ratios`]), because the speed of the machine changes
//! between rounds. The ratio of the two medians would mix rounds.

/// Returns a sorted copy of the samples. NaN sorts behind everything else.
fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Middle value; for an even number of samples, the mean of the two in the middle. 0 without samples.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// Value below which `share` (0 to 1) of the samples lie, interpolated linearly between neighbouring samples: type 7
/// of Hyndman and Fan, *Sample quantiles in statistical packages*, The American Statistician 50(4), 1996. 0 without
/// samples.
pub fn quantile(samples: &[f64], share: f64) -> f64 {
    let sorted = sorted(samples);
    let at = share.clamp(0.0, 1.0) * sorted.len().saturating_sub(1) as f64;
    let value = |index: f64| sorted.get(index as usize).copied().unwrap_or(0.0);
    let (below, above) = (value(at.floor()), value(at.ceil()));
    below + (above - below) * at.fract()
}

/// The value at rank `share` (0 to 1) of the samples, rounded up, which is one of the samples (nearest rank). None without
/// samples.
pub fn percentile(samples: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(samples);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Half the distance between the first and the third quartile, over the median: the usual distance of samples from
/// each other. A single outlier does not change it. 0 without samples.
pub fn spread(samples: &[f64]) -> f64 {
    if samples.is_empty() {
        return 0.0;
    }
    (quantile(samples, 0.75) - quantile(samples, 0.25)) / 2.0 / median(samples)
}

/// Geometric mean of ratios; 1 without any.
pub fn geometric_mean(ratios: &[f64]) -> f64 {
    if ratios.is_empty() {
        return 1.0;
    }
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// Ratio of B to A in each round.
pub fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| b / a).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_no_samples() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn quantiles_lie_between_samples_and_do_not_leave_them() {
        let samples = [5.0, 1.0, 3.0];
        assert_eq!(
            [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&samples, share)),
            [1.0, 2.0, 3.0, 4.0, 5.0]
        );
        assert_eq!(quantile(&samples, 1.5), 5.0);
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
    }

    #[test]
    fn a_percentile_is_a_sample() {
        let samples = [5.0, 1.0, 3.0, 7.0];
        assert_eq!(
            [0.0, 0.25, 0.26, 0.95, 1.0].map(|share| percentile(&samples, share)),
            [1.0, 1.0, 3.0, 7.0, 7.0].map(Some)
        );
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn spread_does_not_see_one_outlier() {
        assert_eq!(spread(&[1.0, 1.0, 1.0, 1.0, 100.0]), 0.0);
        assert!((spread(&[1.0, 2.0, 3.0, 4.0, 5.0]) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(spread(&[]), 0.0);
    }

    #[test]
    fn geometric_mean_of_opposite_ratios_is_one() {
        assert!((geometric_mean(&[2.0, 0.5]) - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), 1.0);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        assert_eq!(ratios(&[1.0, 2.0], &[2.0, 2.0]), [2.0, 1.0]);
    }
}
