//! Numbers of 16 bits as numbers of 32.
//!
//! Trap: every one of them is exactly a `f32`, the denormal ones too.

pub(super) fn from_half(bits: u32) -> f32 {
    let (exponent, fraction) = (bits >> 10 & 0x1f, bits & 0x3ff);
    let magnitude = match exponent {
        0 => fraction as f32 / 16_777_216.0,
        0x1f => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::from_half;

    #[test]
    fn halves_are_exact() {
        let known = [
            (0, 0.0),
            (0x3c00, 1.0),
            (0xc500, -5.0),
            (0x7bff, 65504.0),
            (1, 5.960_464_5e-8),
            (0x7c00, f32::INFINITY),
        ];
        for (bits, value) in known {
            assert_eq!(from_half(bits), value, "{bits:#x}");
        }
        assert!(from_half(0x7e00).is_nan() && from_half(0x8000).is_sign_negative());
    }
}
