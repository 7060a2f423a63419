//! Arithmetic of a linear filter: how 256 parts of weight are split among the eight corners of a cell, and how each
//! kind of element is summed (specification S-531 and S-532). It is undocumented, so it was measured on an H100.
//!
//! Trap: a corner of weight 0 must be left out, not multiplied by 0: an infinity there gives no NaN, and a negative
//! zero stays one.

/// Element kinds that a filter distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Float,
    Half,
    /// Decoded sRGB: eight bits and an exponent; the result is a half.
    Light,
    Unsigned8,
    Unsigned16,
    Signed8,
    Signed16,
}

/// Sum of the weights of a cell.
pub(super) const WHOLE: i64 = 256;

/// Weights of the corners x + 2 y + 4 z of a cell, for fractions in parts of [`WHOLE`].
///
/// The total is split along z, then x, then y. The share of the far side is rounded (half up), and the near side has
/// the rest; along y, on the near side of x, the near share is rounded and the far side has the rest.
pub(super) fn weights([x, y, z]: [i64; 3]) -> [i64; 8] {
    let share = |of: i64, part: i64| (of * part + WHOLE / 2) / WHOLE;
    let mut weights = [0; 8];
    for (slice, of_slice) in [(0, WHOLE - z), (4, z)] {
        let right = share(of_slice, x);
        let left = of_slice - right;
        weights[slice] = share(left, WHOLE - y);
        weights[slice + 2] = left - weights[slice];
        weights[slice + 3] = share(right, y);
        weights[slice + 1] = right - weights[slice + 3];
    }
    weights
}

/// Weighted sum of one component over the corners, as a `f32`. The corners' bits are `f32`s or integers, depending on
/// `kind`.
pub(super) fn sum(kind: Kind, corners: [u32; 8], weights: [i64; 8]) -> f32 {
    if matches!(kind, Kind::Float | Kind::Half | Kind::Light) {
        return float(kind, corners.map(f32::from_bits), weights);
    }
    let pairs = corners.into_iter().zip(weights);
    let sum: i64 = pairs.map(|(bits, weight)| i64::from(bits.cast_signed()) * weight).sum();
    let half = WHOLE / 2;
    match kind {
        // Bytes are widened to 16 bits, 0xab to 0xabab, and the result has 16 bits.
        Kind::Unsigned8 => (sum * 257 + half).div_euclid(WHOLE) as f32 / 65535.0,
        Kind::Unsigned16 => (sum + half).div_euclid(WHOLE) as f32 / 65535.0,
        // Here the sum is widened to 16 bits, by a 127th that is approximated from its upper bits.
        Kind::Signed8 => {
            let grown = sum + ((sum + 64 + (sum >> 12) * 16) >> 7);
            grown.max(-32767) as f32 / 32767.0
        }
        _ => (sum + half).div_euclid(WHOLE).max(-32767) as f32 / 32767.0,
    }
}

fn float(kind: Kind, corners: [f32; 8], weights: [i64; 8]) -> f32 {
    let (near, far) = corners.split_at(4);
    let sum = slice(kind, near, &weights[..4]) + slice(kind, far, &weights[4..]);
    if sum.is_nan() {
        // The card returns a NaN with all fraction bits of the format set.
        return f32::from_bits(if kind == Kind::Half { 0x7fff_e000 } else { 0x7fff_ffff });
    }
    match kind {
        Kind::Half | Kind::Light => rounded(sum, 10, -14) as f32,
        // Results below the normal numbers are flushed to zero.
        _ if sum != 0.0 && sum.abs() < f64::from(f32::MIN_POSITIVE) => 0.0,
        _ => rounded(sum, 23, -126) as f32,
    }
}

/// Weighted sum of the four corners of one z. All are aligned to the largest exponent, with four bits below the last
/// place (none for sRGB).
fn slice(kind: Kind, corners: &[f32], weights: &[i64]) -> f64 {
    let (bits, least) = match kind {
        Kind::Light => (7, -14),
        Kind::Half => (14, -14),
        _ => (27, -126),
    };
    let taken = |(value, weight): (&f32, &i64)| {
        let value = if kind == Kind::Float && value.is_subnormal() { 0.0 } else { f64::from(*value) };
        (*weight != 0).then_some((value, *weight as f64 / WHOLE as f64))
    };
    let pairs = || corners.iter().zip(weights).filter_map(taken);
    let largest = pairs().map(|(value, _)| value.abs()).fold(0.0, f64::max);
    let unit = power(exponent(largest).max(least) - bits);
    pairs().fold(-0.0, |sum, (value, weight)| {
        let kept = if value.is_finite() { (value / unit).trunc() * unit } else { value };
        sum + kept * weight
    })
}

/// Rounds to `bits` fraction bits, half away from zero; `least` is the exponent of the smallest normal number.
fn rounded(value: f64, bits: i32, least: i32) -> f64 {
    if !value.is_finite() {
        return value;
    }
    let unit = power(exponent(value).max(least) - bits);
    (value / unit).round() * unit
}

/// Exponent of the power of two at or below a number; for 0 it is far below all others.
fn exponent(value: f64) -> i32 {
    (value.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

/// Returns 2 to the `exponent`, which must be that of a normal number.
pub(super) fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_share_the_whole_as_measured() {
        for (at, corners) in [
            ([197, 128, 199], [7, 22, 6, 22, 23, 76, 23, 77]),
            ([99, 160, 53], [47, 30, 77, 49, 12, 7, 21, 13]),
            ([45, 161, 128], [39, 9, 66, 14, 39, 9, 66, 14]),
            ([188, 8, 23], [60, 166, 2, 5, 6, 16, 0, 1]),
            ([186, 7, 0], [68, 181, 2, 5, 0, 0, 0, 0]),
            ([0, 0, 0], [256, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            assert_eq!(weights(at), corners, "{at:?}");
        }
        for at in 0..WHOLE {
            assert_eq!(weights([at, WHOLE - 1 - at, at * 7 % WHOLE]).iter().sum::<i64>(), WHOLE);
        }
    }

    fn pair(kind: Kind, [low, high]: [u32; 2], part: i64) -> u32 {
        sum(kind, [low, high, 0, 0, 0, 0, 0, 0], weights([part, 0, 0])).to_bits()
    }

    #[test]
    fn sums_are_those_of_the_card() {
        let minus = |value: i32| value.cast_unsigned();
        for (kind, values, part, bits) in [
            (Kind::Unsigned8, [0, 255], 1, 0x3b80_0080),
            (Kind::Unsigned8, [0, 1], 1, 0x3780_0080),
            (Kind::Unsigned8, [255, 0], 1, 0x3f7e_ffff),
            (Kind::Unsigned16, [0, 1], 127, 0),
            (Kind::Unsigned16, [0, 1], 128, 0x3780_0080),
            (Kind::Signed8, [1, 1], 0, 0x3c01_0102),
            (Kind::Signed8, [0, 127], 113, 0x3ee1_fdc4),
            (Kind::Signed8, [minus(-128), 127], 1, 0xbf80_0000),
            (Kind::Signed8, [minus(-128), 127], 2, 0xbf7d_fffc),
            (Kind::Signed16, [minus(-32768), 32767], 1, 0xbf7e_01fc),
            (Kind::Signed16, [minus(-32768), 32767], 128, 0),
            (Kind::Half, [0x3f12_a000, 0xb9b3_e000], 5, 0x3f0f_c000),
        ] {
            assert_eq!(pair(kind, values, part), bits, "{kind:?} {values:?} {part}");
        }
    }

    #[test]
    fn floats_lose_what_lies_four_bits_below_the_largest() {
        let tiny = 1e-8_f32.to_bits();
        let one = 1.0_f32.to_bits();
        assert_eq!(f32::from_bits(pair(Kind::Float, [one, tiny], 198)), 0.226_562_5);
        assert_eq!(f32::from_bits(pair(Kind::Float, [one, tiny], 243)), 0.050_781_257);
        // Half of the last place goes up, and away from zero.
        assert_eq!(pair(Kind::Float, [0x3e44_86d8, 0xbec1_1164], 54), 0x3d93_3e21);
        assert_eq!(pair(Kind::Float, [0x3e44_86d8, 0xbec1_1164], 180), 0xbe55_286d);
    }

    #[test]
    fn what_is_no_number_counts_where_it_has_weight() {
        let (one, infinity, nan) = (1.0_f32.to_bits(), f32::INFINITY.to_bits(), f32::NAN.to_bits());
        assert_eq!(pair(Kind::Float, [one, infinity], 0), one);
        assert_eq!(pair(Kind::Float, [one, infinity], 1), infinity);
        assert_eq!(pair(Kind::Float, [one, nan], 0), one);
        assert_eq!(pair(Kind::Float, [one, nan], 9), 0x7fff_ffff);
        assert_eq!(pair(Kind::Float, [0xff80_0000, infinity], 9), 0x7fff_ffff);
        assert_eq!(pair(Kind::Float, [0x8000_0000, 0], 0), 0x8000_0000);
        assert_eq!(pair(Kind::Float, [0x007f_ffff, 0x0080_0000], 225), 0, "denormals are zeros");
        assert_eq!(pair(Kind::Half, [0x7fc0_2000, one], 5), 0x7fff_e000);
    }
}
