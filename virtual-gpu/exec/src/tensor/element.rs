//! Element types of matrices, and the meaning of their bits.
//!
//! Only the upper 19 bits of a `tf32` count; programs may leave anything in the others.

use crate::abi::tensor_form as form;
use crate::half::{from_half, to_half};

macro_rules! elements {
    ($($name:ident = $number:path, $bits:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Element { $($name,)* }

        impl Element {
            pub fn from_number(number: u32) -> Option<Element> {
                match number { $($number => Some(Element::$name),)* _ => None }
            }

            /// Bits of one element in a register.
            pub fn bits(self) -> usize {
                match self { $(Element::$name => $bits,)* }
            }
        }
    };
}

elements! {
    F16 = form::F16, 16;
    BF16 = form::BF16, 16;
    TF32 = form::TF32, 32;
    F32 = form::F32, 32;
    F64 = form::F64, 64;
    S8 = form::S8, 8;
    U8 = form::U8, 8;
    S4 = form::S4, 4;
    U4 = form::U4, 4;
    B1 = form::B1, 1;
    S32 = form::S32, 32;
    E4M3 = form::E4M3, 8;
    E5M2 = form::E5M2, 8;
}

impl Element {
    /// Decodes a floating-point element of at most 32 bits.
    pub fn real(self, bits: u64) -> f32 {
        let bits = bits as u32;
        match self {
            Element::F16 => from_half(bits),
            Element::BF16 => f32::from_bits(bits << 16),
            Element::TF32 => f32::from_bits(bits & 0xffff_e000),
            Element::E5M2 => from_half(bits << 8),
            Element::E4M3 if bits & 0x7f == 0x7f => f32::NAN,
            // E4M3 as the upper bits of an `f16` whose exponent has four bits and a bias that is smaller by 8.
            Element::E4M3 => from_half((bits & 0x80) << 8 | (bits & 0x7f) << 7) * 256.0,
            _ => f32::from_bits(bits),
        }
    }

    /// Decodes an integer element.
    pub fn integer(self, bits: u64) -> i64 {
        match self {
            Element::S8 => i64::from(bits as u8 as i8),
            Element::S4 => i64::from(((bits as u8) << 4) as i8 >> 4),
            Element::S32 => i64::from(bits as u32 as i32),
            _ => bits as i64,
        }
    }

    /// Encodes a number, rounded to nearest even. A NaN has all bits but the sign set (specification S-692).
    pub fn from_real(self, value: f32) -> u64 {
        match self {
            Element::F16 => to_half(value).into(),
            _ if value.is_nan() => 0x7fff_ffff,
            _ => value.to_bits().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Element::*;

    #[test]
    fn bits_mean_what_the_formats_say() {
        assert_eq!((E4M3.real(0x7e), E4M3.real(0x01), E4M3.real(0xb8)), (448.0, 0.001_953_125, -1.0));
        assert!(E4M3.real(0xff).is_nan() && E5M2.real(0x7d).is_nan());
        assert_eq!(
            (E5M2.real(0x7b), E5M2.real(0x01), E5M2.real(0x7c)),
            (57344.0, 2f32.powi(-16), f32::INFINITY)
        );
        assert_eq!(
            (BF16.real(0xc040), TF32.real(0x3f80_1fff), TF32.real(0x3f80_2000)),
            (-3.0, 1.0, 1.000_976_6)
        );
        assert_eq!((S4.integer(8), S4.integer(7), U4.integer(15), S8.integer(0x80)), (-8, 7, 15, -128));
        assert_eq!(S32.integer(0xffff_ffff), -1);
    }
}
