//! Sizes as people write them: `16GiB`, `512 MiB`, `48G`, `4096`.
//!
//! Trap: only binary units. `GB` is refused, because on GPUs it is used for both 10⁹ and 2³⁰.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a size: write a whole number and KiB, MiB, GiB or TiB, such as `16GiB` or `16G`")]
pub struct BadSize {
    text: String,
}

impl FromStr for Size {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Size, BadSize> {
        let bad = || BadSize { text: text.to_owned() };
        let trimmed = text.trim();
        let with_unit = UNITS.iter().find_map(|(name, shift)| {
            let number = trimmed.strip_suffix(name).or_else(|| trimmed.strip_suffix(&name[..1]))?;
            Some((number.trim_end(), *shift))
        });
        let (number, shift) = with_unit.unwrap_or((trimmed, 0));
        let count: u64 = number.parse().map_err(|_| bad())?;
        count.checked_mul(1 << shift).map(Size).ok_or_else(bad)
    }
}

/// Written in the largest unit that divides it.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |shift: u32| self.0 != 0 && self.0.is_multiple_of(1 << shift);
        match UNITS.iter().find(|(_, shift)| whole(*shift)) {
            Some((name, shift)) => write!(f, "{}{name}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_they_are_written() {
        for (text, bytes) in [
            ("16GiB", 16 << 30),
            ("512 MiB", 512 << 20),
            ("4096", 4096),
            (" 1TiB ", 1 << 40),
            ("48G", 48 << 30),
            ("7 M", 7 << 20),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        assert_eq!(Size(3 << 29).to_string(), "1536MiB");
        assert_eq!(Size(0).to_string(), "0");
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "GiB", "16GB", "1.5GiB", "-1", "99999999TiB", "16 gib", "G", "16Gi"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
