//! Sizes and times as every program shows them to people: `15.6 GiB`, `10 MiB`, `2m06s`.
//!
//! Trap: columns of tables count on it that a size takes at most 8 columns and a time at most 6, up to 1023 TiB and 99 days.

/// `15.6 GiB`, `10 MiB`, `512 B`: the largest binary unit that keeps the number at 1 or above, three digits or four.
pub fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let Some((unit, shift)) = units.into_iter().find(|(_, shift)| bytes >> shift != 0) else {
        return format!("{bytes} B");
    };
    // Whole arithmetic: the same number reads the same on every machine.
    let tenths = (u128::from(bytes) * 10 + (1 << (shift - 1))) >> shift;
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{} {unit}", whole.min(1023)),
        (whole @ 0..=99, tenth) => format!("{whole}.{tenth} {unit}"),
        (whole, tenth) => format!("{} {unit}", (whole + u128::from(tenth >= 5)).min(1023)),
    }
}

/// `31 ms`, `0.4 s`, `12 s`, `2m06s`, `2h07m`, `4d03h`: as the scheduler's reasons have it.
pub fn time(ms: u64) -> String {
    let (seconds, tenth) = (ms / 1000, ms / 100 % 10);
    match seconds {
        0 if (1..100).contains(&ms) => format!("{ms} ms"),
        0..=9 if tenth != 0 => format!("{seconds}.{tenth} s"),
        0..=59 => format!("{seconds} s"),
        60..=3599 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short_and_keep_three_digits() {
        let sizes = [0, 1023, 1024, 10 << 20, 12 << 30, 9_556_302_234, 107_374_182_400, 3 << 40].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1 KiB", "10 MiB", "12 GiB", "8.9 GiB", "100 GiB", "3 TiB"]);
        let edges = [(1 << 30) - 1, 104_857_599, 104_962_458, (1 << 40) - (1 << 29)].map(size);
        assert_eq!(edges, ["1023 MiB", "100 MiB", "100 MiB", "1023 GiB"]);
        assert!((0..=43).all(|shift| size((1 << shift) - 1).len() <= 8 && size(3 << shift).len() <= 8));
    }

    #[test]
    fn times_have_two_units() {
        let times = [0, 31, 99, 430, 9_999, 10_000, 59_999, 126_000, 3_599_999, 7_620_000].map(time);
        let expected =
            ["0 s", "31 ms", "99 ms", "0.4 s", "9.9 s", "10 s", "59 s", "2m06s", "59m59s", "2h07m"];
        assert_eq!(times, expected);
        assert_eq!([86_400_000, 356_400_000].map(time), ["1d00h", "4d03h"]);
    }
}
