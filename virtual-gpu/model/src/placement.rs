//! Placement on the SMs: blocks of the most urgent kernel first, then in the order of arrival (specification S-512).
//!
//! Trap: no preemption. Blocks on the SMs stay there until they end, whichever kernel arrives: a kernel that waits for
//! page faults and a kernel whose blocks were all placed at once must keep their slots.

use crate::OpId;

/// Block slots of the SMs that a kernel wants and holds, as parts of all, 0–1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    pub priority: i32,
    /// Time at which its launch reached the head of its stream.
    pub arrived: u64,
    pub op: OpId,
    pub wanted: f64,
    /// Slots that it keeps until its launch, or the fault it waits for, is over.
    pub kept: f64,
}

/// A remainder of the slots this small is a rounding error.
const SPENT: f64 = 1e-6;

/// Part of the slots that each kernel gets, in the order of `claims`.
pub fn place(claims: &[Claim]) -> Vec<f64> {
    let mut given: Vec<f64> = claims.iter().map(|claim| claim.kept.min(claim.wanted)).collect();
    let mut left = (1.0 - given.iter().sum::<f64>()).max(0.0);
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|&i| (claims[i].priority, claims[i].arrived, claims[i].op));
    for i in order {
        if left <= SPENT {
            break;
        }
        let more = (claims[i].wanted - given[i]).min(left);
        given[i] += more;
        left -= more;
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(priority: i32, arrived: u64, wanted: f64) -> Claim {
        Claim { priority, arrived, op: OpId(arrived), wanted, kept: 0.0 }
    }

    #[test]
    fn who_came_first_is_placed_first_and_the_rest_gets_what_is_left() {
        assert_eq!(place(&[claim(0, 2, 1.0), claim(0, 1, 0.75)]), [0.25, 0.75]);
    }

    #[test]
    fn the_urgent_are_placed_before_those_who_came_earlier() {
        assert_eq!(place(&[claim(0, 1, 1.0), claim(-1, 2, 1.0)]), [0.0, 1.0]);
    }

    #[test]
    fn what_is_on_the_sms_stays_there() {
        let resident = Claim { kept: 0.5, ..claim(0, 1, 1.0) };
        assert_eq!(place(&[resident, claim(-1, 2, 1.0)]), [0.5, 0.5]);
    }
}
