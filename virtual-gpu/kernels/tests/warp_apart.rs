//! Tests threads of a warp that diverge around operations of the warp: results equal those of coroutines bit for bit,
//! in the same order where the order shows.
//!
//! CUDA promises neither the order of atomics on floating-point numbers nor which thread draws which ticket. The forms
//! of a kernel here do agree on it, so that a difference found by comparing them is a defect.

mod common;

use std::time::Duration;

use common::{Program, Run, arg, toolchain};
use eager_exec::{Fault, LaunchFailure};
use eager_kernels::{KernelMode, Mode, Options};

const BLOCKS: [[u32; 3]; 6] = [[32, 1, 1], [50, 1, 1], [96, 1, 1], [16, 16, 1], [5, 7, 3], [255, 1, 1]];
const GRID: u32 = 2;
/// Number of values that each thread writes.
const OWN: usize = 4;

/// Code of each kernel, which may use `v` (a number of the thread), `lane`, `t` in the block, `o` (output of the
/// thread), `all` (output of the grid).
const PARTED: &[(&str, &str)] = &[
    (
        "ways",
        "if (lane & 1) v += __shfl_down_sync(0xaaaaaaaa & live, v, 2); else v += __shfl_down_sync(0x55555555 & live, v, 2) * 3; o[0] = v;",
    ),
    (
        "same_mask_elsewhere",
        "if (lane & 1) o[0] = __ballot_sync(live, v & 1); else { v *= 3; o[0] = __ballot_sync(live, v & 1); }",
    ),
    (
        "leaves_one_by_one",
        "for (int i = 0; i < (lane & 7) + 1; ++i) { unsigned m = __activemask(); v += __popc(m) + __shfl_xor_sync(m, v, 1); } o[0] = v;",
    ),
    (
        "returns_early",
        "if (v % 5 == 0) return; unsigned m = __activemask(); o[0] = __shfl_sync(m, v, __ffs(m) - 1); __syncwarp(m); o[1] = m;",
    ),
    (
        "returns_and_full_masks",
        "if (lane > 20) return; o[0] = __reduce_add_sync(~0u, v); o[1] = __shfl_down_sync(~0u, v, 3); o[2] = __any_sync(~0u, v > 90);",
    ),
    (
        "halves",
        "unsigned m = lane & 16 ? 0xffff0000 : 0xffff; m &= live; for (int d = 8; d; d >>= 1) v += __shfl_xor_sync(m, v, d, 16); o[0] = v; o[1] = __ballot_sync(m, v & 2);",
    ),
    (
        "quarters",
        "unsigned m = (0xffu << (lane & 24)) & live; int w = __shfl_up_sync(m, v, 1, 8) + __shfl_sync(m, v, lane + 3, 32); o[0] = w; o[1] = __match_any_sync(m, v & 3);",
    ),
    (
        "together_again",
        "if (v & 1) { v = v * 3 + 1; if (v & 2) v += __popc(__activemask()); } else v /= 2; __syncwarp(live); for (int d = 1; d < 32; d <<= 1) v ^= __shfl_xor_sync(live, v, d); o[0] = v;",
    ),
    (
        "turns_of_its_own",
        "int k = v % 7, sum = 0; while (__any_sync(live, k > 0)) { if (k > 0) { sum += k--; } sum ^= __popc(__ballot_sync(live, k > 2)); } o[0] = sum;",
    ),
    ("turns_in_common", "for (int i = 0; i < n; ++i) v += __shfl_sync(live, v, i & 31); o[0] = v;"),
    (
        "leader",
        "bool done = false; while (!done) { unsigned m = __activemask(); int first = __ffs(m) - 1; int k = __shfl_sync(m, v & 3, first); if (k == (v & 3)) { o[0] = __popc(__ballot_sync(__activemask(), 1)); o[1] = first; done = true; } }",
    ),
    (
        "barrier_behind_parted",
        "__shared__ int s[256]; s[t] = v; if (v & 1) v += __shfl_xor_sync(__activemask(), v, 2); __syncthreads(); o[0] = s[(t + 40) % n] + v; __syncthreads(); s[t] = v; __syncthreads(); o[1] = s[n - 1 - t]; o[2] = __shfl_up_sync(live, v, 1);",
    ),
    (
        "some_warps_only",
        "__shared__ int s[256]; s[t] = v; __syncthreads(); if (t < 32) { for (int d = 16; d; d >>= 1) v += __shfl_down_sync(live, v, d); s[t] = v; } __syncthreads(); o[0] = s[t] + s[0]; if (t / 32 == 1) return; __syncthreads(); o[1] = __ballot_sync(live, s[t] & 1);",
    ),
    (
        "counted",
        "o[0] = __syncthreads_count(v & 1); if (v & 1) v = __shfl_xor_sync(__activemask(), v, 1); o[1] = __syncthreads_or(v > 99); o[2] = __syncthreads_and(v < 101) + v;",
    ),
    (
        "local_arrays",
        "int a[8]; for (int i = 0; i < 8; ++i) a[i] = v * i; for (int i = 0; i < 8; ++i) a[(i + lane) & 7] += __shfl_xor_sync(live, a[(lane ^ i) & 7], 1 << (i & 3)); int x = 0; for (int i = 0; i < 8; ++i) x = x * 31 + a[i]; o[0] = x;",
    ),
    (
        "many_types",
        "double d = v * 0.25; float f = v; long long l = (long long)v << 35 | v; for (int i = 1; i < 8; i <<= 1) { d += __shfl_down_sync(live, d, i); f *= 1 + __shfl_xor_sync(live, f, i); l ^= __shfl_up_sync(live, l, i); } o[0] = (int)(d * 4); o[1] = __float_as_int(f); o[2] = (int)(l >> 32); o[3] = (int)l;",
    ),
    (
        "tickets",
        "int before = atomicAdd(all, 1); __syncwarp(live); int behind = atomicAdd(all + 1, v); if (v & 1) __syncwarp(__activemask()); o[0] = before; o[1] = behind; o[2] = atomicAdd(all + 2, 1);",
    ),
    (
        "sums_of_floats",
        "float f = v * 0.1f; atomicAdd((float *)all, f); v += __shfl_xor_sync(live, v, 1); atomicAdd((float *)all, v * 0.3f); if (t < 32) { __syncwarp(live); atomicAdd((float *)all, 1.7f * v); } if (v & 1) { __syncwarp(__activemask()); atomicAdd((float *)all + 1, f); } __syncwarp(live); atomicAdd((float *)all + 1, v * 1.3f);",
    ),
    (
        "locks",
        "bool done = false; while (!done) { if (atomicCAS(all, 0, 1) == 0) { all[1] = all[1] * 3 + v; __threadfence(); atomicExch(all, 0); done = true; } __syncwarp(__activemask()); } o[0] = 1;",
    ),
    (
        "not_named",
        "o[0] = __shfl_down_sync(0xffff, v, 9); o[1] = __shfl_sync(0x00ff00f1, v, lane * 7 + 3); o[2] = __ballot_sync(0x0f0f, v & 1) + __all_sync(0xff, v > 3); o[3] = __reduce_add_sync(0xffff, v) + __match_any_sync(0xff, v & 3);",
    ),
    (
        "not_named_own_mask",
        "unsigned b = __ballot_sync(live, v & 1), m = v & 1 ? b & 0xffff : ~b & live & 0xf0f0f0f0; o[0] = __shfl_up_sync(m, v, 3); o[1] = __shfl_xor_sync(m, v, lane & 6, 16); o[2] = __ballot_sync(m, v & 2); o[3] = __reduce_max_sync(m, v);",
    ),
    (
        "different_operations",
        "unsigned m = __match_any_sync(live, v % 3); if (v % 3 == 0) { o[0] = __ballot_sync(m, v & 1); o[1] = __popc(__activemask()); } else if (v % 3 == 1) { o[0] = __shfl_sync(m, v, 31 - __clz(m)); o[1] = __any_sync(m, v > 90) + 2 * __uni_sync(m, v & 4); } else { o[0] = __reduce_xor_sync(m, v); o[1] = __reduce_min_sync(m, v - 50); o[2] = __reduce_and_sync(m, v | 1); } o[3] = __shfl_xor_sync(live, o[0], 1);",
    ),
    (
        "wide_values",
        "unsigned m = __ballot_sync(live, v & 1); if (v & 1) { long long l = (long long)(v & 6) << 33 | (v & 8); int p; o[0] = __match_any_sync(m, l); o[1] = __match_all_sync(m, l & 1, &p) + p; double d = v * 0.5; d += __shfl_down_sync(m, d, 2); o[2] = (int)(d * 2); o[3] = __match_all_sync(m, l, &p) - p; } else o[0] = __activemask();",
    ),
    (
        "leaves_in_operations",
        "unsigned m = live; for (int i = 0; i < 6; ++i) { bool stays = v % 7 >= i; unsigned next = __ballot_sync(m, stays); if (!stays) { o[0] = i; break; } m = next; v += __shfl_down_sync(m, v, 1) & 3; o[1] = __reduce_or_sync(m, v & 48); } o[2] = v; __syncwarp(live); o[3] = __shfl_up_sync(live, v, 5);",
    ),
    (
        "guards",
        "int x = threadIdx.x; if (x < 37) v += in[n - 1 - x] + 1; v += __shfl_xor_sync(live, v, 1); if (x == 70) v *= 5; else o[1] = v; v ^= __shfl_up_sync(live, v, 2); if (x >= 33 && x < 90) { o[2] = v; v += 3; } o[0] = __shfl_down_sync(live, v, 3);",
    ),
    (
        "guarded_ends",
        "__shared__ int s[256]; int x = threadIdx.x, first = t & ~31; s[t] = v; if (x <= 40) v += __popc(__activemask()); __syncthreads(); if (x > 63) { o[3] = v; return; } int u = x < n / 32 ? s[t] : 7; u += __shfl_xor_sync(__activemask(), u, 4); if (x < 32) u += __shfl_down_sync(live, u, 1); o[0] = u + s[first]; if (t == 0) o[1] = u;",
    ),
    (
        "guarded_floats",
        "int x = threadIdx.x; float f = v * 0.3f; if (x < 45) atomicAdd((float *)all, f); v += __shfl_xor_sync(live, v, 1); if (x != 33) atomicAdd((float *)all + 1, v * 1.1f); __syncwarp(live); if (x >= 30) atomicAdd((float *)all + 2, f * v); o[0] = v;",
    ),
    (
        "steps",
        "__shared__ volatile int s[256 + 32]; int b = t & ~31; s[b + lane] = v; if (lane + 1 < __popc(live)) s[b + lane] += s[b + lane + 1]; if (lane + 2 < __popc(live)) s[b + lane] += s[b + lane + 2]; o[0] = s[b + lane];",
    ),
];

fn source(kernels: &[(&str, &str)]) -> String {
    let each = |(name, code): &(&str, &str)| {
        format!(
            "extern \"C\" __global__ void {name}(const int *in, int *out, int *all) {{
  int n = blockDim.x * blockDim.y * blockDim.z;
  int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x, lane = t & 31;
  int left = n - (t & ~31); unsigned live = left < 32 ? (1u << left) - 1 : ~0u;
  int v = in[blockIdx.x * n + t]; int *o = out + (blockIdx.x * n + t) * {OWN}; (void)lane; (void)live; (void)o;
  {code}
}}\n"
        )
    };
    kernels.iter().map(each).collect()
}

/// Values that the threads of a launch write, and those that they leave in common memory.
fn results(program: &Program, name: &str, block: [u32; 3]) -> (Vec<i32>, [i32; 4]) {
    let threads = (GRID * block[0] * block[1] * block[2]) as usize;
    let input: Vec<i32> = (0..threads as i32).map(|i| i * 37 % 101).collect();
    let (mut out, mut all) = (vec![-7; threads * OWN], [0; 4]);
    let (from, to, common) = (input.as_ptr(), out.as_mut_ptr(), all.as_mut_ptr());
    let run = Run { block, time_max: Some(Duration::from_secs(60)), ..Run::new(GRID, 1) };
    run.launch(program.kernel(name), &[arg(&from), arg(&to), arg(&common)])
        .unwrap_or_else(|failure| panic!("{name} {block:?}: {failure:?}"));
    (out, all)
}

#[test]
fn lanes_that_part_do_what_coroutines_do_in_the_same_order() {
    let Some(cuda) = toolchain() else { return };
    let build = |mode| Program::build(&cuda, &source(PARTED), &Options { mode, ..Options::default() });
    let oracle = build(Mode::Coroutine);
    for mode in [Mode::Auto, Mode::LanesApart] {
        let program = build(mode);
        for (name, _) in PARTED {
            let report = program.converted.report.kernels.iter().find(|kernel| kernel.name == *name);
            let form = report.map(|kernel| kernel.mode);
            // Kernels whose threads yield to those of other blocks run as coroutines.
            let expected = if *name == "locks" { KernelMode::Coroutine } else { KernelMode::Warp };
            assert_eq!(form, Some(expected), "{name}: {:?}", program.converted.report.notes);
            for block in BLOCKS {
                let [found, expected] = [&program, &oracle].map(|program| results(program, name, block));
                let wrong = found.0.iter().zip(&expected.0).position(|(a, b)| a != b);
                let at = wrong.map(|at| (at / OWN, at % OWN, found.0[at], expected.0[at]));
                assert_eq!(at, None, "{name} {mode:?} {block:?}: thread, number, found, expected");
                assert_eq!(found.1, expected.1, "{name} {mode:?} {block:?}: what all have in common");
            }
        }
    }
}

#[test]
fn lanes_that_wait_for_each_other_for_ever_are_found() {
    let Some(cuda) = toolchain() else { return };
    const SOURCE: &str = "
extern \"C\" __global__ void masks(int *out) { if (threadIdx.x & 1) __syncwarp(~0u); else __shfl_sync(~0u, 1, 0); out[0] = 1; }
extern \"C\" __global__ void barrier(int *out) { if (threadIdx.x < 7) __syncthreads(); else __syncwarp(~0u); out[0] = 1; }";
    for mode in [Mode::Auto, Mode::LanesApart, Mode::Coroutine] {
        let program = Program::build(&cuda, SOURCE, &Options { mode, ..Options::default() });
        for (name, threads) in [("masks", 32), ("masks", 70), ("barrier", 32), ("barrier", 100)] {
            let mut out = [0i32];
            let at = out.as_mut_ptr();
            let failed = Run::new(1, threads).launch(program.kernel(name), &[arg(&at)]);
            assert_eq!(failed, Err(LaunchFailure::Fault(Fault::Stuck(None))), "{name} {mode:?} {threads}");
        }
    }
}
