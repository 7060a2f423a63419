//! Conversion of an element's bits, and of a border colour's, to components: integers or `f32`, numbers from 0 or -1 to
//! 1, or linear light for sRGB textures (specification S-533).
//!
//! Trap: a border colour is first rounded to the precision of the format, as if it had been stored as an element.

use super::filter::Kind;
use super::{Component, Format, Sampler};
use crate::half::from_half;

/// How components are read.
pub(super) struct Reading {
    format: Format,
    /// Integers are normalised to numbers up to 1.
    as_float: bool,
    srgb: bool,
}

impl Reading {
    pub fn new(format: Format, sampler: &Sampler) -> Self {
        let as_float = sampler.as_float && format.can_be_normalised();
        let srgb = as_float && sampler.srgb && format.bits == 8 && format.component == Component::Unsigned;
        Reading { format, as_float, srgb }
    }

    /// True for the sRGB components of an element. The last of two or four components is linear.
    fn is_light(&self, component: usize) -> bool {
        let channels = self.format.channels as usize;
        self.srgb && component < 3 && (component + 1 < channels || channels == 1)
    }

    pub fn kind(&self, component: usize) -> Kind {
        match (self.format.component, self.format.bits) {
            (Component::Float, 16) => Kind::Half,
            _ if self.is_light(component) => Kind::Light,
            (Component::Unsigned, 8) => Kind::Unsigned8,
            (Component::Unsigned, 16) => Kind::Unsigned16,
            (Component::Signed, 8) => Kind::Signed8,
            (Component::Signed, 16) => Kind::Signed16,
            _ => Kind::Float,
        }
    }

    /// Returns the value that a filter sums: an integer, or `f32` bits for sRGB.
    pub fn summand(&self, component: usize, bits: u32) -> u32 {
        if self.is_light(component) { light(bits) } else { bits }
    }

    /// Returns the result of a read without a filter.
    pub fn answer(&self, component: usize, bits: u32) -> u32 {
        let integer = bits.cast_signed() as f32;
        if !self.as_float || component >= self.format.channels as usize {
            return bits;
        }
        let value = match (self.format.component, self.format.bits) {
            _ if self.is_light(component) => return light(bits),
            (Component::Signed, 8) => (integer / 127.0).max(-1.0),
            (Component::Signed, _) => (integer / 32767.0).max(-1.0),
            (_, 8) => integer / 255.0,
            _ => integer / 65535.0,
        };
        value.to_bits()
    }

    /// Converts a border colour to the element that represents it.
    pub fn border(&self, colour: [u32; 4]) -> [u32; 4] {
        let mut element = [0; 4];
        for (c, to) in element.iter_mut().enumerate().take(self.format.channels as usize) {
            let (bits, value) = (colour[c], f64::from(f32::from_bits(colour[c])));
            *to = match (self.format.component, self.format.bits) {
                _ if self.is_light(c) => (encoded(value) * 255.0).round() as u32,
                (Component::Signed, 8) if self.as_float => whole(value, 127.0),
                (Component::Signed, 16) if self.as_float => whole(value, 32767.0),
                (Component::Unsigned, 8) if self.as_float => whole(value.max(0.0), 255.0),
                (Component::Unsigned, 16) if self.as_float => whole(value.max(0.0), 65535.0),
                (Component::Signed, 8) => i32::from(bits as u8 as i8).cast_unsigned(),
                (Component::Signed, 16) => i32::from(bits as u16 as i16).cast_unsigned(),
                (Component::Unsigned, 8) => bits & 0xff,
                (Component::Unsigned, 16) => bits & 0xffff,
                (Component::Float, 16) => cut_to_half(f32::from_bits(bits)).to_bits(),
                _ => bits,
            };
        }
        element
    }
}

/// Rounds to the nearest integer, where `1.0` is `largest`; fractions up to a little over a half round towards zero
/// (measured between 0.551 and 0.6).
fn whole(value: f64, largest: f64) -> u32 {
    if value.is_nan() {
        return 0;
    }
    let size = (value.abs().min(1.0) * largest + 7.0 / 16.0).floor() as i32;
    (if value < 0.0 { -size } else { size }).cast_unsigned()
}

/// Drops the bits that a half lacks; values beyond the range become the largest half.
fn cut_to_half(value: f32) -> f32 {
    if value.is_nan() {
        return f32::from_bits(0x7fff_e000).copysign(value);
    }
    if value.is_infinite() {
        return value;
    }
    let steps = if value.abs() < 6.103_515_6e-5 {
        (value * 16_777_216.0).trunc() / 16_777_216.0
    } else {
        f32::from_bits(value.to_bits() & !0x1fff)
    };
    steps.clamp(-65504.0, 65504.0)
}

/// sRGB encoding of linear light (IEC 61966-2-1).
fn encoded(light: f64) -> f64 {
    match light.clamp(0.0, 1.0) {
        dark if dark <= 0.003_130_8 => 12.92 * dark,
        light => 1.055 * light.powf(1.0 / 2.4) - 0.055,
    }
}

/// Decodes an sRGB byte to linear light, as `f32` bits.
fn light(byte: u32) -> u32 {
    u32::from(LIGHT[(byte & 0xff) as usize]) << 16
}

/// Upper halves of the `f32` values to which an H100 decodes sRGB bytes; the lower halves are zero. At most 0.0038 off
/// the formula.
#[rustfmt::skip]
const LIGHT: [u16; 256] = [
    0x0000, 0x39a0, 0x3a20, 0x3a70, 0x3aa0, 0x3ac8, 0x3af0, 0x3b0c, 0x3b20, 0x3b34, 0x3b48, 0x3b5c, 0x3b70, 0x3b84,
    0x3b90, 0x3b9c, 0x3baa, 0x3bb8, 0x3bc6, 0x3bd6, 0x3be6, 0x3bf6, 0x3c03, 0x3c0c, 0x3c16, 0x3c1f, 0x3c29, 0x3c34,
    0x3c3e, 0x3c49, 0x3c55, 0x3c60, 0x3c6c, 0x3c7a, 0x3c83, 0x3c8a, 0x3c91, 0x3c98, 0x3c9f, 0x3ca6, 0x3cae, 0x3cb6,
    0x3cbe, 0x3cc6, 0x3cce, 0x3cd7, 0x3ce0, 0x3ce9, 0x3cf2, 0x3cfc, 0x3d03, 0x3d08, 0x3d0d, 0x3d12, 0x3d17, 0x3d1c,
    0x3d22, 0x3d28, 0x3d2d, 0x3d33, 0x3d39, 0x3d3f, 0x3d45, 0x3d4c, 0x3d52, 0x3d58, 0x3d60, 0x3d66, 0x3d6c, 0x3d74,
    0x3d7a, 0x3d81, 0x3d85, 0x3d88, 0x3d8c, 0x3d90, 0x3d94, 0x3d98, 0x3d9c, 0x3da0, 0x3da4, 0x3da9, 0x3dad, 0x3db1,
    0x3db6, 0x3dba, 0x3dbf, 0x3dc3, 0x3dc8, 0x3dcd, 0x3dd1, 0x3dd6, 0x3ddb, 0x3de0, 0x3de5, 0x3dea, 0x3df0, 0x3df4,
    0x3dfa, 0x3e00, 0x3e02, 0x3e05, 0x3e08, 0x3e0b, 0x3e0e, 0x3e11, 0x3e14, 0x3e17, 0x3e1a, 0x3e1d, 0x3e20, 0x3e23,
    0x3e26, 0x3e29, 0x3e2c, 0x3e30, 0x3e33, 0x3e36, 0x3e3a, 0x3e3d, 0x3e40, 0x3e44, 0x3e47, 0x3e4b, 0x3e4e, 0x3e52,
    0x3e56, 0x3e59, 0x3e5d, 0x3e61, 0x3e65, 0x3e68, 0x3e6c, 0x3e70, 0x3e74, 0x3e78, 0x3e7c, 0x3e80, 0x3e82, 0x3e84,
    0x3e86, 0x3e88, 0x3e8a, 0x3e8d, 0x3e8f, 0x3e91, 0x3e93, 0x3e95, 0x3e98, 0x3e9a, 0x3e9c, 0x3e9e, 0x3ea1, 0x3ea3,
    0x3ea5, 0x3ea8, 0x3eaa, 0x3ead, 0x3eaf, 0x3eb2, 0x3eb4, 0x3eb6, 0x3eb9, 0x3ebc, 0x3ebe, 0x3ec1, 0x3ec3, 0x3ec6,
    0x3ec8, 0x3ecb, 0x3ece, 0x3ed1, 0x3ed3, 0x3ed6, 0x3ed9, 0x3edb, 0x3ede, 0x3ee1, 0x3ee4, 0x3ee7, 0x3eea, 0x3eed,
    0x3ef0, 0x3ef2, 0x3ef6, 0x3ef8, 0x3efc, 0x3efe, 0x3f01, 0x3f02, 0x3f04, 0x3f05, 0x3f07, 0x3f09, 0x3f0a, 0x3f0c,
    0x3f0d, 0x3f0f, 0x3f11, 0x3f12, 0x3f14, 0x3f16, 0x3f17, 0x3f19, 0x3f1b, 0x3f1c, 0x3f1e, 0x3f20, 0x3f21, 0x3f23,
    0x3f25, 0x3f27, 0x3f29, 0x3f2a, 0x3f2c, 0x3f2e, 0x3f30, 0x3f32, 0x3f33, 0x3f35, 0x3f37, 0x3f39, 0x3f3b, 0x3f3d,
    0x3f3f, 0x3f41, 0x3f43, 0x3f45, 0x3f47, 0x3f49, 0x3f4b, 0x3f4d, 0x3f4f, 0x3f51, 0x3f53, 0x3f55, 0x3f57, 0x3f59,
    0x3f5b, 0x3f5d, 0x3f5f, 0x3f61, 0x3f63, 0x3f65, 0x3f68, 0x3f6a, 0x3f6c, 0x3f6e, 0x3f70, 0x3f72, 0x3f74, 0x3f76,
    0x3f7a, 0x3f7c, 0x3f7e, 0x3f80,
];

/// Reads an element as components of 32 bits: integers sign- or zero-extended, halves as `f32`.
///
/// # Safety
/// An element of this format can be read at `address`.
pub(super) unsafe fn components(address: u64, format: Format) -> [u32; 4] {
    let mut components = [0; 4];
    for (c, to) in (0..format.channels).zip(&mut components) {
        let at = address + u64::from(c * format.bits / 8);
        // SAFETY: the caller's promise; a component may lie at any address.
        let raw = unsafe {
            match format.bits {
                8 => u32::from((at as *const u8).read()),
                16 => u32::from((at as *const u16).read_unaligned()),
                _ => (at as *const u32).read_unaligned(),
            }
        };
        *to = match (format.component, format.bits) {
            (Component::Signed, 8) => i32::from(raw as u8 as i8).cast_unsigned(),
            (Component::Signed, 16) => i32::from(raw as u16 as i16).cast_unsigned(),
            (Component::Float, 16) => from_half(raw).to_bits(),
            _ => raw,
        };
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::AddressMode;

    fn reading(component: Component, bits: u32, channels: u32, as_float: bool, srgb: bool) -> Reading {
        let modes = [AddressMode::Border; 3];
        let sampler = Sampler { modes, linear: false, normalised: false, as_float, srgb, border: [0; 4] };
        Reading::new(Format { component, bits, channels }, &sampler)
    }

    fn border(reading: &Reading, value: f32) -> f32 {
        f32::from_bits(reading.answer(0, reading.border([value.to_bits(); 4])[0]))
    }

    #[test]
    fn a_border_colour_has_the_precision_of_the_elements() {
        let unsigned = reading(Component::Unsigned, 8, 1, true, false);
        for (colour, byte) in
            [(0.25, 64.0), (0.5, 127.0), (-2.0, 0.0), (7.0, 255.0), (254.6 / 255.0, 255.0), (f32::NAN, 0.0)]
        {
            assert_eq!(border(&unsigned, colour), byte / 255.0, "{colour}");
        }
        let signed = reading(Component::Signed, 16, 1, true, false);
        for (colour, word) in [(0.25, 8192.0), (-0.5, -16383.0), (-7.0, -32767.0), (0.00197, 64.0)] {
            assert_eq!(border(&signed, colour), word / 32767.0, "{colour}");
        }
        let half = reading(Component::Float, 16, 1, false, false);
        assert_eq!(
            [0.3, 70000.0, -1e10, 1e-8].map(|x| border(&half, x)),
            [0.299_804_7, 65504.0, -65504.0, 0.0]
        );
        let bytes = reading(Component::Signed, 8, 2, false, false);
        assert_eq!(
            bytes.border([300, 0xff, 7, 7]),
            [44, u32::MAX, 0, 0],
            "low bits, and only of components that are there"
        );
    }

    #[test]
    fn light_is_that_of_all_but_the_last_component() {
        let four = reading(Component::Unsigned, 8, 4, true, true);
        let components = [0, 1, 2, 3].map(|c| f32::from_bits(four.answer(c, 188)));
        assert_eq!(components, [0.503_906_25, 0.503_906_25, 0.503_906_25, 188.0 / 255.0]);
        assert!([1, 2].map(|n| reading(Component::Unsigned, 8, n, true, true).is_light(0)) == [true; 2]);
        assert!(!reading(Component::Unsigned, 8, 2, true, true).is_light(1));
        for byte in 0..256_u32 {
            let v = f64::from(byte) / 255.0;
            let formula = if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) };
            assert!((f64::from(f32::from_bits(light(byte))) - formula).abs() < 0.0038, "{byte}");
        }
    }
}
