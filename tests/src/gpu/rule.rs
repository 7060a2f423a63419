//! The rule of managed memory: never ask for more of it in sum than the card has free. Pure.
//!
//! Trap: a card that is asked for more can hang, for everybody. Pressure is made by the scheduler's logical capacity.

/// Left alone beside what is asked for: contexts, the driver's own.
const MARGIN_BYTES: u64 = 2 << 30;
/// As said where memory sizes are for people.
const MIB: u64 = 1 << 20;

/// May programs that run at once ask for so much memory, all of which may become managed?
///
/// # Errors
/// One line that says why not.
pub fn allows(free_bytes: u64, asked: &[u64]) -> Result<(), String> {
    let sum = asked.iter().try_fold(0_u64, |sum, bytes| sum.checked_add(*bytes));
    let usable = free_bytes.saturating_sub(MARGIN_BYTES);
    match sum {
        Some(sum) if sum <= usable => Ok(()),
        _ => Err(format!(
            "{} MiB of managed memory would be asked for, {} MiB are free and {} of these are left alone",
            sum.map_or_else(|| "too many".to_owned(), |sum| (sum / MIB).to_string()),
            free_bytes / MIB,
            MARGIN_BYTES / MIB
        )),
    }
}

/// The most of `wanted` that may be managed.
pub fn at_most(free_bytes: u64, wanted: u64) -> u64 {
    wanted.min(free_bytes.saturating_sub(MARGIN_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn what_is_asked_for_together_must_be_free_together() {
        assert!(allows(18 * GIB, &[8 * GIB, 8 * GIB]).is_ok());
        let refusal = allows(18 * GIB, &[8 * GIB, 8 * GIB + 1]).expect_err("one byte too much");
        assert!(refusal.contains("16384 MiB") && refusal.contains("18432 MiB"), "{refusal}");
        assert!(allows(GIB, &[1]).is_err(), "the margin is nobody's");
        assert!(allows(u64::MAX, &[u64::MAX, 1]).is_err(), "no sum wraps");
    }

    #[test]
    fn a_wish_is_cut_to_what_is_free() {
        assert_eq!(at_most(130 * GIB, 100 * GIB), 100 * GIB);
        assert_eq!(at_most(22 * GIB, 100 * GIB), 20 * GIB);
        assert_eq!(at_most(GIB, 100 * GIB), 0);
    }
}
