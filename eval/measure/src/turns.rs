//! Order in which the variants of a comparison run.

/// Returns the variants of one round: forwards in even rounds, backwards in odd ones. Taking turns spreads a change
/// of the machine's speed over all variants; reversing the order keeps any variant from always running after the same
/// other one.
pub fn turns(round: usize, variants: usize) -> Vec<usize> {
    if round.is_multiple_of(2) { (0..variants).collect() } else { (0..variants).rev().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variant_runs_once_a_round_and_the_order_alternates() {
        assert_eq!(turns(0, 3), [0, 1, 2]);
        assert_eq!(turns(1, 3), [2, 1, 0]);
        assert_eq!(turns(2, 1), [0]);
    }
}
