//! Max–min fair sharing, in levels, where demands exceed the resources.
//!
//! A rate is a part of the demander's own full speed, not of the resource.

/// A demand on two resources at full speed, as parts of each (0–1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Lower levels are served first and leave the rest.
    pub level: i32,
    pub first: f64,
    pub second: f64,
}

/// A remainder of a resource this small is a rounding error and must not be handed out: the end of a kernel that ran on
/// it would overflow the clock.
const SPENT: f64 = 1e-6;

/// Rates 0–1 in the order of `demands`: equal rates rise together until a resource is used up or full speed is reached;
/// the next level gets the rest (specification S-512: leftover placement, as a fluid). A rate is 0 or above [`SPENT`].
pub fn rates(demands: &[Demand]) -> Vec<f64> {
    let fits = |of: fn(&Demand) -> f64| demands.iter().map(of).sum::<f64>() <= 1.0;
    if demands.windows(2).all(|two| two[0].level == two[1].level) && fits(|d| d.first) && fits(|d| d.second) {
        return vec![1.0; demands.len()];
    }
    let mut rates = vec![0.0; demands.len()];
    let mut levels: Vec<i32> = demands.iter().map(|d| d.level).collect();
    levels.sort_unstable();
    levels.dedup();
    let mut left = [1.0_f64, 1.0];
    for level in levels {
        let mut rising: Vec<usize> = (0..demands.len()).filter(|&i| demands[i].level == level).collect();
        loop {
            let spent = left.map(|left| left <= SPENT);
            rising.retain(|&i| {
                let blocked = (spent[0] && demands[i].first > 0.0) || (spent[1] && demands[i].second > 0.0);
                !blocked && rates[i] < 1.0 - 1e-9
            });
            if rising.is_empty() {
                break;
            }
            let need = |pick: fn(&Demand) -> f64| rising.iter().map(|&i| pick(&demands[i])).sum::<f64>();
            let needs = [need(|d| d.first), need(|d| d.second)];
            let mut step = rising.iter().map(|&i| 1.0 - rates[i]).fold(1.0, f64::min);
            for (need, left) in needs.iter().zip(left) {
                if *need > 0.0 {
                    step = step.min(left / need);
                }
            }
            for &i in &rising {
                rates[i] += step;
            }
            for (left, need) in left.iter_mut().zip(needs) {
                *left -= need * step;
            }
        }
    }
    rates
}

/// Splits `capacity` between flows that cannot exceed their own caps; in the order of `caps`.
pub fn split(capacity: f64, caps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..caps.len()).collect();
    order.sort_by(|&a, &b| caps[a].total_cmp(&caps[b]).then(a.cmp(&b)));
    let mut given = vec![0.0; caps.len()];
    let mut left = capacity.max(0.0);
    for (taken, &i) in order.iter().enumerate() {
        given[i] = caps[i].min(left / (caps.len() - taken) as f64);
        left -= given[i];
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(level: i32, first: f64, second: f64) -> Demand {
        Demand { level, first, second }
    }

    #[test]
    fn demands_that_fit_all_run_at_full_speed() {
        assert_eq!(rates(&[demand(0, 0.5, 0.1), demand(0, 0.4, 0.6)]), [1.0, 1.0]);
    }

    #[test]
    fn a_scarce_resource_is_shared_equally_and_others_still_run() {
        let got = rates(&[demand(0, 1.0, 0.1), demand(0, 1.0, 0.1), demand(0, 0.0, 0.5)]);
        assert_eq!(got, [0.5, 0.5, 1.0]);
    }

    #[test]
    fn the_urgent_level_is_served_first() {
        let got = rates(&[demand(0, 1.0, 0.2), demand(-1, 0.75, 0.2)]);
        assert_eq!(got[1], 1.0);
        assert!((got[0] - 0.25).abs() < 1e-9);
    }

    #[test]
    fn what_rounding_leaves_over_is_not_handed_on() {
        // 49 times the floating-point number nearest to 1/49 is not 1.
        let mut demands = vec![demand(-1, 1.0, 0.5); 49];
        demands.push(demand(0, 1.0, 0.5));
        let got = rates(&demands);
        assert_eq!(got[49], 0.0);
        assert!(got[..49].iter().all(|rate| (rate * 49.0 - 1.0).abs() < 1e-9), "{got:?}");
    }

    #[test]
    fn capped_flows_leave_their_rest_to_others() {
        assert_eq!(split(12.0, &[6.0, 2.0, 12.0]), [5.0, 2.0, 5.0]);
        assert_eq!(split(12.0, &[6.0]), [6.0]);
    }
}
