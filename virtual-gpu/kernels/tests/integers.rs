//! Tests that integer operations follow the PTX ISA, also where C and this CPU leave the result open.

mod common;

use common::{Program, Run, arg, toolchain};
use eager_kernels::{Mode, Options};

const SOURCE: &str = "
    template <class T> __device__ void shifts(T *out, T x, const T *by, int n) {
        for (int i = 0; i < n; i++) { out[2 * i] = x << by[i]; out[2 * i + 1] = x >> by[i]; }
    }
    __global__ void shift(unsigned *u, int *s, unsigned long long *ul, long long *sl, const unsigned *u_by,
                          const int *s_by, const unsigned long long *ul_by, const long long *sl_by) {
        shifts(u, 0x80000001u, u_by, 6);
        shifts(s, (int)0x80000001, s_by, 6);
        shifts(ul, 0x8000000000000001ull, ul_by, 6);
        shifts(sl, (long long)0x8000000000000001ull, sl_by, 6);
    }
    // A rotation by a number that is seen to be 0 once all is in one place, and what is folded even before.
    __device__ unsigned rotate(unsigned x, unsigned n) { return x << n | x >> (32 - n); }
    __global__ void folded(unsigned *out) {
        out[0] = rotate(threadIdx.x + 5, 0);
        out[1] = 5u << 32;
        unsigned wide = 32; out[2] = 7u >> wide;
    }
    __global__ void divide(int *out, const int *x, const int *y, int n) {
        for (int i = 0; i < n; i++) {
            out[4 * i] = x[i] / y[i]; out[4 * i + 1] = x[i] % y[i];
            out[4 * i + 2] = (unsigned)x[i] / (unsigned)y[i]; out[4 * i + 3] = (unsigned)x[i] % (unsigned)y[i];
        }
    }";

/// A number shifted by amounts, some of them its width and more.
fn shifted<T: Copy>(x: T, by: &[u64], up: impl Fn(T, u64) -> T, down: impl Fn(T, u64) -> T) -> Vec<T> {
    by.iter().flat_map(|&by| [up(x, by), down(x, by)]).collect()
}

fn in_every_mode(test: impl Fn(&Program)) {
    let Some(cuda) = toolchain() else { return };
    for mode in [Mode::Auto, Mode::Coroutine] {
        test(
            &Program::build_with(
                &cuda,
                SOURCE,
                &["-Wno-everything"],
                &Options { mode, ..Options::default() },
            )
            .unwrap(),
        );
    }
}

#[test]
fn shifts_by_the_width_and_more_are_clamped() {
    let by = [0u64, 1, 31, 32, 63, 64];
    let far = [0u64, 1, 63, 64, 65, 1 << 40];
    in_every_mode(|program| {
        let (mut u, mut s, mut ul, mut sl) = ([9u32; 12], [9i32; 12], [9u64; 12], [9i64; 12]);
        let (u_by, s_by) = (by.map(|n| n as u32), [0, 1, 31, 32, 33, -1i32]);
        let sl_by = far.map(u64::cast_signed);
        let out = (u.as_mut_ptr(), s.as_mut_ptr(), ul.as_mut_ptr(), sl.as_mut_ptr());
        let given = (u_by.as_ptr(), s_by.as_ptr(), far.as_ptr(), sl_by.as_ptr());
        let args = [
            arg(&out.0),
            arg(&out.1),
            arg(&out.2),
            arg(&out.3),
            arg(&given.0),
            arg(&given.1),
            arg(&given.2),
            arg(&given.3),
        ];
        Run::new(1, 1).launch(program.kernel("shift"), &args).unwrap();
        let up = |x: u32, n: u64| x.checked_shl(n as u32).unwrap_or(0);
        assert_eq!(u[..], shifted(0x8000_0001u32, &by, up, |x, n| x.checked_shr(n as u32).unwrap_or(0)));
        let amounts = s_by.map(|n| u64::from(n.cast_unsigned()));
        let up = |x: i32, n: u64| x.checked_shl(n as u32).unwrap_or(0);
        assert_eq!(s[..], shifted(0x8000_0001u32.cast_signed(), &amounts, up, |x, n| x >> n.min(31)));
        let up = |x: u64, n: u64| if n < 64 { x << n } else { 0 };
        let start = 0x8000_0000_0000_0001u64;
        assert_eq!(ul[..], shifted(start, &far, up, |x, n| if n < 64 { x >> n } else { 0 }));
        let up = |x: i64, n: u64| if n < 64 { x << n } else { 0 };
        assert_eq!(sl[..], shifted(start.cast_signed(), &far, up, |x, n| x >> n.min(63)));
    });
}

#[test]
fn what_is_folded_before_is_clamped_too() {
    in_every_mode(|program| {
        let mut out = [9u32; 3];
        let pointer = out.as_mut_ptr();
        Run::new(1, 1).launch(program.kernel("folded"), &[arg(&pointer)]).unwrap();
        assert_eq!(out, [5, 0, 0]);
    });
}

#[test]
fn divisions_by_zero_and_of_the_least_integer_go_on() {
    in_every_mode(|program| {
        let (x, y) = ([7, -7, i32::MIN, i32::MIN, 0, 9], [0, 0, -1, 0, 0, -2i32]);
        let (mut out, n) = ([9i32; 24], 6i32);
        let (po, px, py) = (out.as_mut_ptr(), x.as_ptr(), y.as_ptr());
        Run::new(1, 1).launch(program.kernel("divide"), &[arg(&po), arg(&px), arg(&py), arg(&n)]).unwrap();
        let unsigned = |x: i32, y: i32| {
            let (x, y) = (x.cast_unsigned(), y.cast_unsigned());
            [x.checked_div(y).unwrap_or(u32::MAX), x.checked_rem(y).unwrap_or(x)].map(u32::cast_signed)
        };
        let expected: Vec<i32> = x
            .into_iter()
            .zip(y)
            .flat_map(|(x, y)| {
                let signed = if y == 0 { [-1, x] } else { [x.wrapping_div(y), x.wrapping_rem(y)] };
                [signed, unsigned(x, y)].concat()
            })
            .collect();
        assert_eq!(out[..], expected);
    });
}
