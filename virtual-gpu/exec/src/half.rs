//! Conversion between 16-bit (`f16`) and 32-bit floating-point numbers.
//!
//! Every `f16`, denormal ones included, is exactly an `f32`; the conversion back rounds to nearest, ties to even.

pub(crate) fn from_half(bits: u32) -> f32 {
    let (exponent, fraction) = (bits >> 10 & 0x1f, bits & 0x3ff);
    let magnitude = match exponent {
        0 => fraction as f32 / 16_777_216.0,
        0x1f => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

pub(crate) fn to_half(value: f32) -> u32 {
    let (sign, size) = (value.to_bits() >> 16 & 0x8000, value.abs());
    if value.is_nan() {
        return 0x7fff;
    }
    // Adding and subtracting a number whose last place is worth one step of the result rounds to a multiple of the
    // step.
    let rounded = |step: f32| (size + step) - step;
    let bits = if size < 6.103_515_6e-5 {
        (rounded(0.5) * 16_777_216.0) as u32
    } else {
        let step = f32::from_bits((size.to_bits() & 0x7f80_0000) + (13 << 23));
        let near = rounded(step);
        if size >= 65520.0 { 0x7c00 } else { (near.to_bits() >> 13) - (112 << 10) }
    };
    sign | bits
}

#[cfg(test)]
mod tests {
    use super::{from_half, to_half};

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

    #[test]
    fn every_half_comes_back_and_what_lies_between_goes_to_the_nearest() {
        for bits in (0..0x7c00).chain(0x8000..0xfc01) {
            assert_eq!(to_half(from_half(bits)), bits, "{bits:#x}");
        }
        for low in 0..0x7bff_u32 {
            let (a, b) = (from_half(low), from_half(low + 1));
            let middle = f32::midpoint(a, b);
            let even = low + (low & 1);
            assert_eq!(to_half(middle), even, "{low:#x}");
            assert_eq!(to_half(middle.next_down()), low, "{low:#x}");
            assert_eq!(to_half(middle.next_up()), low + 1, "{low:#x}");
        }
        assert_eq!(to_half(65519.99), 0x7bff);
        assert_eq!(
            (to_half(65520.0), to_half(f32::NEG_INFINITY), to_half(f32::NAN)),
            (0x7c00, 0xfc00, 0x7fff)
        );
    }
}
