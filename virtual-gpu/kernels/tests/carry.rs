//! Tests that a function has a carry flag of its own, whichever functions the instructions were written in. What PTX
//! itself says of the flag is in `tests/conformance/rules/carry.h`.

mod common;

use common::{Program, Run, arg, toolchain};
use eager_kernels::{Mode, Options};

const SOURCE: &str = "
    static __device__ __noinline__ unsigned add_cc(unsigned a, unsigned b) {
        unsigned r; asm(\"add.cc.u32 %0, %1, %2;\" : \"=r\"(r) : \"r\"(a), \"r\"(b)); return r;
    }
    static __device__ __noinline__ unsigned addc(unsigned a, unsigned b) {
        unsigned r; asm(\"addc.u32 %0, %1, %2;\" : \"=r\"(r) : \"r\"(a), \"r\"(b)); return r;
    }
    // Helpers that are not to be inlined, and statements that are not volatile.
    __global__ void called(const unsigned *x, unsigned *out) {
        int t = threadIdx.x;
        unsigned low = add_cc(x[t], ~0u);
        __syncthreads();
        unsigned high = addc(5, 0);
        out[2 * t] = low, out[2 * t + 1] = high;
    }
    // A function that calls itself, and so stays one: its flag is another than the kernel's.
    __device__ unsigned sum(unsigned a, int n) {
        unsigned low = add_cc(a, ~0u);
        unsigned high = addc(n, 0);
        return n == 0 ? low + high : high + 2 * sum(a + 1, n - 1);
    }
    __global__ void recursive(const unsigned *x, unsigned *out) {
        int t = threadIdx.x;
        unsigned low = add_cc(x[t], 1), inner = sum(x[t], 3);
        out[2 * t] = inner, out[2 * t + 1] = addc(low * 0, 0);
    }";

const THREADS: usize = 64;

fn in_every_mode(test: impl Fn(&Program, &str)) {
    let Some(cuda) = toolchain() else { return };
    for mode in [Mode::Auto, Mode::Fission, Mode::Coroutine, Mode::LanesApart] {
        let options = Options { mode, ..Options::default() };
        test(&Program::build(&cuda, SOURCE, &options), &format!("{mode:?}"));
    }
}

fn run(program: &Program, kernel: &str, x: &[u32]) -> Vec<u32> {
    let mut out = vec![9u32; 2 * THREADS];
    let (from, to) = (x.as_ptr(), out.as_mut_ptr());
    Run::new(1, THREADS as u32).launch(program.kernel(kernel), &[arg(&from), arg(&to)]).unwrap();
    out
}

fn input() -> Vec<u32> {
    (0..THREADS as u32).map(|t| if t % 3 == 0 { 0 } else { t.wrapping_mul(0x9e37_79b9) | 1 }).collect()
}

#[test]
fn helpers_that_are_not_to_be_inlined_share_the_flag_of_their_caller() {
    let x = input();
    let expected: Vec<u32> = x.iter().flat_map(|x| [x.wrapping_sub(1), 5 + u32::from(*x != 0)]).collect();
    in_every_mode(|program, mode| assert_eq!(run(program, "called", &x), expected, "{mode}"));
}

#[test]
fn a_function_that_stays_one_has_its_own_flag() {
    fn sum(a: u32, n: u32) -> u32 {
        let high = n + u32::from(a != 0);
        let inner = if n == 0 { a.wrapping_sub(1) } else { sum(a.wrapping_add(1), n - 1).wrapping_mul(2) };
        inner.wrapping_add(high)
    }
    let mut x = input();
    x[7] = u32::MAX;
    let expected: Vec<u32> = x.iter().flat_map(|x| [sum(*x, 3), u32::from(*x == u32::MAX)]).collect();
    in_every_mode(|program, mode| assert_eq!(run(program, "recursive", &x), expected, "{mode}"));
}
