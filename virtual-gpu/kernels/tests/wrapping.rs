//! Tests that indices which wrap, as neighbours in a periodic grid do, reach the right elements.
//!
//! LLVM's loop vectoriser took such elements for a row (`compiler-pass/llvm/src/optimise.cpp`): the kernels here are
//! those that showed it, and the same in other types of index, as a serial loop, and with other widths.

mod common;

use common::{Program, Run, arg, toolchain};
use eager_kernels::{Mode, Options};

const SIDE: usize = 32;
const ABOVE: usize = 16_384;

const SOURCE: &str = "
    __global__ void signed_index(float *o, const float *v) {
        int x = threadIdx.x, y = blockIdx.x;
        o[y * 32 + x] = v[16384 + (y & 31) * 32 + ((x - 1 + 32) & 31)] + v[16384 + (y & 31) * 32 + (x & 31)];
    }
    __global__ void unsigned_index(float *o, const float *v) {
        unsigned x = threadIdx.x, y = blockIdx.x;
        o[y * 32 + x] = v[16384 + y % 32 * 32 + (x + 31) % 32] + v[16384 + y % 32 * 32 + x % 32];
    }
    __global__ void wide_index(float *o, const float *v) {
        size_t x = threadIdx.x, y = blockIdx.x;
        o[y * 32 + x] = v[16384 + y % 32 * 32 + (x + 31) % 32] + v[16384 + y % 32 * 32 + x % 32];
    }
    __global__ void global_index(float *o, const float *v) {
        int i = blockIdx.x * blockDim.x + threadIdx.x, x = i % 32, y = i / 32;
        o[y * 32 + x] = v[16384 + (y & 31) * 32 + ((x - 1 + 32) & 31)] + v[16384 + (y & 31) * 32 + (x & 31)];
    }
    __global__ void serial(float *o, const float *v) {
        int y = blockIdx.x;
        if (threadIdx.x == 0)
            for (int x = 0; x < 32; x++)
                o[y * 32 + x] = v[16384 + (y & 31) * 32 + ((x - 1 + 32) & 31)] + v[16384 + (y & 31) * 32 + (x & 31)];
    }
    __global__ void lattice(float *o, const float *v) {
        int x = threadIdx.x, y = threadIdx.y + blockIdx.y * blockDim.y;
        float e = 0;
        for (int k = 0; k < 8; k++) {
            int X = x - (k & 1), Y = y - (k >> 1 & 1), Z = 16 - (k >> 2);
            e += v[(Z + 32) % 32 * 1024 + (Y + 32) % 32 * 32 + (X + 32) % 32];
        }
        o[y * 32 + x] = e;
    }
    __global__ void bytes(float *o, const float *v) {
        unsigned x = threadIdx.x, y = blockIdx.x;
        o[y * 32 + x] = v[16384 + y * 32 + (unsigned char)(x + 240)] + v[16384 + y * 32 + (unsigned char)x];
    }";

fn values() -> Vec<f32> {
    (0..32_768u32).map(|i| (i.wrapping_mul(1_664_525) >> 20) as f32).collect()
}

fn run(program: &Program, kernel: &str, run: &Run, v: &[f32]) -> Vec<f32> {
    let mut out = vec![0f32; SIDE * SIDE];
    let (o, v) = (out.as_mut_ptr(), v.as_ptr());
    run.launch(program.kernel(kernel), &[arg(&o), arg(&v)]).unwrap();
    out
}

/// Sums of the elements at these offsets behind a row's start, for each x, in each row.
fn sums(v: &[f32], at: impl Fn(usize) -> [usize; 2]) -> Vec<f32> {
    let one = |i: usize| at(i % SIDE).iter().map(|x| v[ABOVE + i / SIDE * SIDE + x]).sum();
    (0..SIDE * SIDE).map(one).collect()
}

fn in_every_mode(test: impl Fn(&Program, Mode)) {
    let Some(cuda) = toolchain() else { return };
    for mode in [Mode::Auto, Mode::Coroutine] {
        test(&Program::build(&cuda, SOURCE, &Options { mode, ..Options::default() }), mode);
    }
}

#[test]
fn neighbours_in_a_periodic_row_are_found_whatever_the_type_of_the_index() {
    in_every_mode(|program, mode| {
        let v = values();
        let expected = sums(&v, |x| [(x + SIDE - 1) % SIDE, x]);
        for kernel in ["signed_index", "unsigned_index", "wide_index", "global_index", "serial"] {
            assert_eq!(run(program, kernel, &Run::new(32, 32), &v), expected, "{kernel}, {mode:?}");
        }
    });
}

#[test]
fn indices_of_eight_bits_wrap() {
    in_every_mode(|program, mode| {
        let v = values();
        let expected = sums(&v, |x| [(x + 240) % 256, x]);
        assert_eq!(run(program, "bytes", &Run::new(32, 32), &v), expected, "{mode:?}");
    });
}

#[test]
fn sums_over_a_periodic_lattice_are_those_of_its_eight_corners() {
    in_every_mode(|program, mode| {
        let v = values();
        let sum = |i: usize| {
            let (x, y) = (i % SIDE, i / SIDE);
            let corner = |k: usize| {
                let [x, y] = [x + SIDE - (k & 1), y + SIDE - (k >> 1 & 1)].map(|n| n % SIDE);
                v[(16 - (k >> 2)) * SIDE * SIDE + y * SIDE + x]
            };
            (0..8).map(corner).fold(0f32, |sum, value| sum + value)
        };
        let expected: Vec<f32> = (0..SIDE * SIDE).map(sum).collect();
        let blocks = Run { grid: [1, 4, 1], block: [32, 8, 1], ..Run::new(1, 1) };
        assert_eq!(run(program, "lattice", &blocks, &v), expected, "{mode:?}");
    });
}
