//! Tests that loops over threads with a known guard outcome, and branches taken once for a block, give the results of
//! threads that run one by one.
//!
//! Coroutines take no such short cuts, so the other forms are compared with them. Trap: each kernel must leave a trace
//! of every thread.

mod common;

use common::{Program, Run, arg, toolchain};
use eager_kernels::{KernelMode, Mode, Options};

/// Numbers around which comparisons change their result, and where they wrap.
const BOUNDS: [i32; 12] = [0, 1, 2, 31, 32, 33, 63, -1, -40, i32::MAX, i32::MAX - 20, i32::MIN];
const THREADS: [[u32; 3]; 4] = [[64, 1, 1], [33, 2, 1], [1, 7, 1], [5, 3, 2]];
const OUT: usize = 128;

/// Values that the kernel of this name writes in one block of `block`, as loops or regions and as coroutines.
fn both_forms(programs: &[Program; 2], name: &str, block: [u32; 3], numbers: [i32; 2]) -> [Vec<u32>; 2] {
    programs.each_ref().map(|program| {
        let mut out = vec![7u32; OUT];
        let at = out.as_mut_ptr();
        let args = [arg(&at), arg(&numbers[0]), arg(&numbers[1])];
        let run = Run { block, ..Run::new(1, 1) };
        let cost = run.launch(program.kernel(name), &args).unwrap();
        out.extend([cost.global_bytes as u32, cost.flops32 as u32]);
        out
    })
}

fn programs(source: &str) -> Option<[Program; 2]> {
    let cuda = toolchain()?;
    Some(
        [Mode::Auto, Mode::Coroutine]
            .map(|mode| Program::build(&cuda, source, &Options { mode, ..Options::default() })),
    )
}

#[test]
fn comparisons_of_every_kind_wherever_they_wrap() {
    let comparisons: Vec<String> = ["==", "!=", "<", "<=", ">", ">="]
        .iter()
        .flat_map(|c| {
            [
                format!("int(x + a) {c} b"),
                format!("b {c} int(x + a)"),
                format!("x + a {c} unsigned(b)"),
                format!("(long long)x + a {c} (long long)b << 31"),
                format!("(x - a) + (unsigned long long)(long long)b {c} 0x7fffffff"),
                format!("int(x + a) {c} b && y != 1"),
                format!("int(x) {c} a || int(x) > b"),
                format!("!(int(x) {c} a) && int(x) + 1 > b"),
            ]
        })
        .collect();
    let cases: String = (0..)
        .zip(&comparisons)
        .map(|(n, comparison)| {
            format!(
                "__global__ void k{n}_(unsigned *out, int a, int b) {{
                     unsigned x = threadIdx.x, y = threadIdx.y;
                     unsigned i = (threadIdx.z * blockDim.y + y) * blockDim.x + x;
                     if ({comparison}) out[i] = i * 3 + a; else if (i < 100) out[i] ^= i;
                 }}\n"
            )
        })
        .collect();
    let Some(programs) = programs(&cases) else { return };
    for (n, comparison) in comparisons.iter().enumerate() {
        for block in THREADS {
            for a in BOUNDS {
                for b in BOUNDS {
                    let [loops, coroutines] = both_forms(&programs, &format!("k{n}_"), block, [a, b]);
                    assert_eq!(loops, coroutines, "{comparison} with a = {a}, b = {b}, block {block:?}");
                }
            }
        }
    }
}

/// Kernels with barriers whose control flow depends on different things.
const AROUND_BARRIERS: &str = "
    __constant__ int table[4] = {3, 1, 4, 1};
    __global__ void tree(unsigned *out, int a, int b) {
        __shared__ unsigned s[64];
        int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        int n = blockDim.x * blockDim.y * blockDim.z;
        if (t < 64) s[t] = t * 17 + a;
        __syncthreads();
        for (int half = 32; half; half /= 2) {
            if (t < half && t + half < n) s[t] += s[t + half];
            __syncthreads();
        }
        out[t] = s[0] + t;
    }
    __global__ void nested(unsigned *out, int a, int b) {
        __shared__ unsigned s[128];
        int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), n = blockDim.x * blockDim.y * blockDim.z;
        unsigned sum = t, first = t * t + 1;
        for (int i = 0; i < (a & 3); i++) {
            s[t] = sum ^ i;
            __syncthreads();
            for (int j = 0; j < table[i]; j++) {
                sum += s[(t + j + 1) % n];
                if (j == (b & 3)) break;
                __syncthreads();
                if (b > 0) { s[t] += j; __syncthreads(); }
            }
            __syncthreads();
        }
        out[t] = sum * first;
    }
    __global__ void uneven(unsigned *out, int a, int b) {
        __shared__ unsigned s[128];
        int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), n = blockDim.x * blockDim.y * blockDim.z;
        int left = min((a & 63) + 1, n);
        s[t] = t;
        if (t >= left) return;
        for (int i = 0; i < (b & 7); i++) {
            __syncthreads();
            unsigned other = s[(t + i) % left];
            __syncthreads();
            s[t] = other + i;
        }
        out[t] = s[t];
    }
    __global__ void by_memory(unsigned *out, int a, int b) {
        __shared__ int rounds; __shared__ unsigned s[128];
        int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), n = blockDim.x * blockDim.y * blockDim.z;
        if (t == 0) rounds = a & 7;
        s[t] = t + b;
        __syncthreads();
        while (true) {
            unsigned other = s[(t + 1) % n];
            int left = rounds;
            __syncthreads();
            if (left == 0) break;
            s[t] = other * 3;
            if (t == 0) rounds--;
            __syncthreads();
        }
        out[t] = s[t];
    }
    __global__ void local(unsigned *out, int a, int b) {
        __shared__ unsigned s[128];
        unsigned own[4];
        int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), n = blockDim.x * blockDim.y * blockDim.z;
        for (int i = 0; i < 4; i++) own[i] = t * i + a;
        s[t] = t;
        __syncthreads();
        for (int i = 0; i < (b & 3); i++) {
            own[s[(t + i) % n] & 3] += i;
            __syncthreads();
        }
        out[t] = own[0] + 3 * own[1] + 5 * own[2] + 7 * own[t & 3];
    }
    __global__ void shifted(unsigned *out, int a, int b) {
        __shared__ unsigned s[128];
        int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        unsigned w = threadIdx.x >> 2;
        s[t] = t + w;
        __syncthreads();
        if (w == 0) s[t] += a; else out[t] = s[t] * w;
        __syncthreads();
        if (w != 0) out[t] += s[t - 1]; else out[t] = s[t] + b;
    }
    // Only where it is safe: the division, and the index below zero.
    __global__ void guarded(unsigned *out, int a, int b) {
        __shared__ unsigned s[128];
        int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        unsigned own = 1;
        s[t] = t + 1;
        __syncthreads();
        if (b != 0) {
            if ((int)threadIdx.x < a / b) own += s[t] * 5;
            if (threadIdx.x > 0 && s[t - 1] > 3) out[t] = own + s[t]; else out[t] = own;
        }
    }";

#[test]
fn branches_that_all_threads_take_alike_around_barriers() {
    let Some(programs) = programs(AROUND_BARRIERS) else { return };
    for kernel in &programs[0].converted.report.kernels {
        assert_eq!(kernel.mode, KernelMode::Fission, "{}", kernel.name);
    }
    for name in ["tree", "nested", "uneven", "by_memory", "local", "shifted", "guarded"] {
        for block in THREADS {
            for a in BOUNDS {
                for b in BOUNDS {
                    if name == "guarded" && (a, b) == (i32::MIN, -1) {
                        continue;
                    }
                    let [regions, coroutines] = both_forms(&programs, name, block, [a, b]);
                    assert_eq!(regions, coroutines, "{name} with a = {a}, b = {b}, block {block:?}");
                }
            }
        }
    }
}

#[test]
fn sums_of_atomics_on_floating_point_keep_the_order_of_threads() {
    let source = "__global__ void sum(unsigned *out, int a, int b) {
        __shared__ float total;
        unsigned x = threadIdx.x;
        if (x == 0 && threadIdx.y == 0 && threadIdx.z == 0) total = 0;
        __syncthreads();
        if (x >= 3 && (int)x < a) atomicAdd(&total, 1.f / (x + 1)); else atomicAdd(&total, 1e5f / (x + 7));
        __syncthreads();
        if (x == 0) out[threadIdx.y] = __float_as_uint(total);
    }";
    let Some(programs) = programs(source) else { return };
    for a in BOUNDS {
        let [regions, coroutines] = both_forms(&programs, "sum", [64, 1, 1], [a, 0]);
        assert_eq!(regions, coroutines, "a = {a}");
    }
}
