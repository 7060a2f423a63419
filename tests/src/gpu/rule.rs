//! The rule of managed memory: never ask for more of it in sum than the card has free. Pure.
//!
//! Trap: a card that is asked for more can hang, for all its users. The scheduler's logical capacity creates the
//! pressure instead.

use super::choice::CONTEXT_BYTES;

/// Bytes to leave free: the driver's own memory, and a reserve for what cannot be foreseen.
const MARGIN_BYTES: u64 = 2 << 30;
/// Unit of memory sizes in messages.
const MIB: u64 = 1 << 20;

/// Checks whether programs that run at once may ask for so much memory each, all of which may become managed. Returns
/// the comparison in one line.
///
/// # Errors
/// The comparison in one line, if they may not.
pub fn allows(free_bytes: u64, asked: &[u64]) -> Result<String, String> {
    let sum = asked.iter().try_fold(0_u64, |sum, bytes| sum.checked_add(*bytes));
    let kept = kept_bytes(asked.len());
    let line = format!(
        "{} MiB of managed memory at most, {} MiB are free and {} of these are left alone",
        sum.map_or_else(|| "too many".to_owned(), |sum| (sum / MIB).to_string()),
        free_bytes / MIB,
        kept / MIB
    );
    let is_free = sum.is_some_and(|sum| sum <= free_bytes.saturating_sub(kept));
    if is_free { Ok(line) } else { Err(format!("not run: {line}")) }
}

/// Returns how many of `wanted` bytes one program may have managed.
pub fn at_most(free_bytes: u64, wanted: u64) -> u64 {
    wanted.min(free_bytes.saturating_sub(kept_bytes(1)))
}

/// Bytes to leave free: each program also has a context.
fn kept_bytes(programs: usize) -> u64 {
    (programs as u64).saturating_mul(CONTEXT_BYTES).saturating_add(MARGIN_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn what_is_asked_for_together_must_be_free_together() {
        let said = "16384 MiB of managed memory at most, 19456 MiB are free and 3072 of these are left alone";
        assert_eq!(allows(19 * GIB, &[8 * GIB, 8 * GIB]), Ok(said.to_owned()));
        let refusal = allows(19 * GIB, &[8 * GIB, 8 * GIB + 1]).expect_err("one byte too much");
        assert_eq!(refusal, format!("not run: {said}"));
        assert!(allows(GIB, &[1]).is_err(), "the margin is nobody's");
        assert!(allows(u64::MAX, &[u64::MAX, 1]).is_err(), "no sum wraps");
    }

    #[test]
    fn a_wish_is_cut_to_what_is_free() {
        assert_eq!(at_most(130 * GIB, 100 * GIB), 100 * GIB);
        assert_eq!(at_most(22 * GIB, 100 * GIB), 20 * GIB - CONTEXT_BYTES);
        assert!(allows(22 * GIB, &[at_most(22 * GIB, 100 * GIB)]).is_ok());
        assert_eq!(at_most(GIB, 100 * GIB), 0);
    }
}
