//! Tests bytes as numbers: sums of their products (`dp4a`, `dp2a`), and 8-bit floating point (`e4m3`, `e5m2`).
//!
//! Trap: below `sm_89`, CUDA's header computes 8-bit floating point in software; the tests must compile for `sm_90`,
//! where it uses the instructions.

mod common;

use common::{Program, Run, arg, toolchain};
use eager_kernels::Options;

const SOURCE: &str = r#"
#include <cuda_fp8.h>
__global__ void dots(const int *in, int *out, int n) {
    int i = threadIdx.x, a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];
    unsigned u = a, v = b, w = c;
    int r[8] = {__dp4a(a, b, c), (int)__dp4a(u, v, w), __dp2a_lo(a, b, c), (int)__dp2a_lo(u, v, w), __dp2a_hi(a, b, c),
                (int)__dp2a_hi(u, v, w), 0, 0};
    asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(r[6]) : "r"(a), "r"(b), "r"(c));
    asm("dp2a.hi.u32.s32 %0, %1, %2, %3;" : "=r"(r[7]) : "r"(a), "r"(b), "r"(c));
    for (int k = 0; k < 8; k++) out[8 * i + k] = r[k];
}
__global__ void to_bytes(const float *in, unsigned *out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float2 both = make_float2(in[i], -in[i]);
        __half2_raw halves = __half2(__float2half_rn(both.x), __float2half_rn(both.y));
        out[4 * i] = __nv_cvt_float2_to_fp8x2(both, __NV_SATFINITE, __NV_E4M3);
        out[4 * i + 1] = __nv_cvt_float2_to_fp8x2(both, __NV_SATFINITE, __NV_E5M2);
        out[4 * i + 2] = __nv_cvt_halfraw2_to_fp8x2(halves, __NV_SATFINITE, __NV_E4M3);
        out[4 * i + 3] = __nv_cvt_halfraw2_to_fp8x2(halves, __NV_SATFINITE, __NV_E5M2);
    }
}
__global__ void of_bytes(const unsigned short *in, float *out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float2 a = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(in[i], __NV_E4M3)));
        float2 b = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(in[i], __NV_E5M2)));
        out[4 * i] = a.x; out[4 * i + 1] = a.y; out[4 * i + 2] = b.x; out[4 * i + 3] = b.y;
    }
}
"#;

fn program() -> Option<Program> {
    let cuda = toolchain()?;
    Some(Program::build(&cuda, SOURCE, &Options::default()))
}

/// Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014): splitmix64.
fn noise(state: &mut u64) -> u32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 32) as u32
}

#[test]
fn sums_of_products_of_bytes() {
    let Some(program) = program() else { return };
    let threads = 64;
    let mut state = 7;
    let mut input: Vec<u32> = (0..3 * threads).map(|_| noise(&mut state)).collect();
    input[..6].copy_from_slice(&[0x8080_8080, 0x8080_8080, 0x7fff_ffff, u32::MAX, u32::MAX, u32::MAX]);
    let mut out = vec![0i32; 8 * threads];
    let (from, to, n) = (input.as_ptr(), out.as_mut_ptr(), threads as i32);
    let run = Run::new(1, threads as u32);
    run.launch(program.kernel("dots"), &[arg(&from), arg(&to), arg(&n)]).unwrap();
    // Value of part number `index`, of `bits` bits.
    let part = |word: u32, index: u32, bits: u32, signed: bool| {
        let value = i64::from(word >> (bits * index)) & ((1 << bits) - 1);
        if signed && value >> (bits - 1) == 1 { value - (1 << bits) } else { value }
    };
    for (i, words) in input.chunks(3).enumerate() {
        let [a, b, c] = [words[0], words[1], words[2]];
        let dp4a = |a_signed, b_signed| {
            let products = (0..4).map(|k| part(a, k, 8, a_signed) * part(b, k, 8, b_signed));
            (i64::from(c) + products.sum::<i64>()) as i32
        };
        let dp2a = |first, a_signed, b_signed| {
            let products = (0..2).map(|k| part(a, k, 16, a_signed) * part(b, first + k, 8, b_signed));
            (i64::from(c) + products.sum::<i64>()) as i32
        };
        let expected = [
            dp4a(true, true),
            dp4a(false, false),
            dp2a(0, true, true),
            dp2a(0, false, false),
            dp2a(2, true, true),
            dp2a(2, false, false),
            dp4a(true, false),
            dp2a(2, false, true),
        ];
        assert_eq!(out[8 * i..8 * i + 8], expected, "{a:#x} {b:#x} {c:#x}");
    }
}

/// Value of a byte in a format with `mantissa_bits` bits of mantissa; `None` if it is not finite.
fn number(byte: u8, mantissa_bits: u32) -> Option<f64> {
    let (exponent_bits, has_infinity) = (7 - mantissa_bits, mantissa_bits == 2);
    let mantissa = f64::from(byte & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
    let exponent = i32::from(byte & 0x7f) >> mantissa_bits;
    let special = if has_infinity { exponent == (1 << exponent_bits) - 1 } else { byte & 0x7f == 0x7f };
    let bias = (1 << (exponent_bits - 1)) - 1;
    let size = match exponent {
        0 => mantissa * 2f64.powi(1 - bias),
        _ => (1.0 + mantissa) * 2f64.powi(exponent - bias),
    };
    (!special).then_some(if byte > 0x7f { -size } else { size })
}

/// The nearest byte, the even one of two, and the largest for values beyond it.
fn byte(value: f32, mantissa_bits: u32) -> u8 {
    if value.is_nan() {
        return 0x7f;
    }
    let largest = (0..0x7f).filter_map(|code| number(code, mantissa_bits)).fold(0.0, f64::max);
    let size = f64::from(value.abs()).min(largest);
    let distance = |byte: u8| number(byte, mantissa_bits).map(|near| (near - size).abs());
    let nearest = (0..0x7f)
        .filter(|&code| distance(code).is_some())
        .min_by(|&a, &b| {
            let nearer = distance(a).partial_cmp(&distance(b)).expect("finite");
            nearer.then((a & 1).cmp(&(b & 1)))
        })
        .expect("a number");
    nearest | if value.is_sign_negative() { 0x80 } else { 0 }
}

/// Every number of both formats, midpoints between neighbours and numbers next to these, and some more.
fn inputs() -> Vec<f32> {
    let mut inputs = vec![
        0.0,
        1e-30,
        448.1,
        464.0,
        480.0,
        57345.0,
        65504.0,
        f32::INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE / 3.0,
    ];
    for mantissa_bits in [2, 3] {
        let numbers: Vec<f64> = (0..0x80).filter_map(|code| number(code, mantissa_bits)).collect();
        for pair in numbers.windows(2) {
            let middle = (pair[0] + pair[1]) as f32 / 2.0;
            inputs.extend([pair[1] as f32, middle, middle.next_up(), middle.next_down()]);
        }
    }
    let mut state = 11;
    inputs.extend((0..2000).map(|_| f32::from_bits(noise(&mut state))));
    inputs
}

#[test]
fn floating_point_in_bytes_is_rounded_to_nearest_and_read_back() {
    let Some(program) = program() else { return };
    let inputs = inputs();
    let mut out = vec![0u32; 4 * inputs.len()];
    let (from, to, n) = (inputs.as_ptr(), out.as_mut_ptr(), inputs.len() as i32);
    Run::new(1, 128).launch(program.kernel("to_bytes"), &[arg(&from), arg(&to), arg(&n)]).unwrap();
    for (i, &value) in inputs.iter().enumerate() {
        for (k, mantissa_bits) in [(0, 3), (1, 2)] {
            let both = [byte(value, mantissa_bits), byte(-value, mantissa_bits)];
            assert_eq!((out[4 * i + k] as u16).to_le_bytes(), both, "{value:e} ({:#x})", value.to_bits());
            // For values that an `f16` represents exactly, its conversion gives the same.
            let [a, b] = [k, k + 2].map(|k| out[4 * i + k]);
            let exact = value.abs() <= 65504.0 && (value.to_bits() & 0x1fff == 0) && value.abs() >= 6.2e-5;
            assert!(!exact || a == b, "{value:e}: {a:#x}, by f16 {b:#x}");
        }
    }
    let bytes: Vec<u16> = (0..=255).map(|byte| byte | (255 - byte) << 8).collect();
    let mut out = vec![0f32; 4 * 256];
    let (from, to, n) = (bytes.as_ptr(), out.as_mut_ptr(), 256i32);
    Run::new(1, 64).launch(program.kernel("of_bytes"), &[arg(&from), arg(&to), arg(&n)]).unwrap();
    for (i, both) in bytes.iter().enumerate() {
        for (k, code, mantissa_bits) in [(0, 0, 3), (1, 1, 3), (2, 0, 2), (3, 1, 2)] {
            let code = both.to_le_bytes()[code];
            let infinite = mantissa_bits == 2 && code & 0x7f == 0x7c;
            let expected = match number(code, mantissa_bits) {
                Some(number) => number as f32,
                None if infinite => f32::INFINITY.copysign(if code > 0x7f { -1.0 } else { 1.0 }),
                None => f32::NAN,
            };
            let got = out[4 * i + k];
            assert!(got == expected || got.is_nan() && expected.is_nan(), "{code:#x}: {got}, not {expected}");
        }
    }
}
