//! Formats bare numbers of bytes and milliseconds as every program shows them: for rows of JSON and columns of tables.

use crate::{Bytes, Nanos};

/// Formats bytes: `15.6 GiB`, `10 MiB`, `512 B`.
pub fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// Formats milliseconds: `31 ms`, `0.4 s`, `12 s`, `2m06s`, `2h07m`, `4d03h`.
pub fn time(ms: u64) -> String {
    Nanos::from_millis(ms).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_the_scheduler_shows_them() {
        let times = [0, 31, 99, 430, 9_999, 10_000, 59_999, 126_000, 3_599_999, 7_620_000].map(time);
        let expected =
            ["0 s", "31 ms", "99 ms", "0.4 s", "9.9 s", "10 s", "59 s", "2m06s", "59m59s", "2h07m"];
        assert_eq!(times, expected);
        assert_eq!([86_400_000, 356_400_000].map(time), ["1d00h", "4d03h"]);
        assert_eq!(size(2047 << 20), "2 GiB");
    }
}
