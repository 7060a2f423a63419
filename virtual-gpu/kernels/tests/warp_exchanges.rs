//! Tests shuffles whose sources are computed from the thread's number, and local arrays indexed by it, as in transposes:
//! results are those of a plain loop over the threads of a warp, in each form of a kernel.
//!
//! Trap: the low bits of `threadIdx.x` are a thread's lane only in blocks whose rows are whole warps; blocks here have
//! other rows too.

mod common;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::Command;

use common::{Program, Run, arg, toolchain};
use eager_kernels::{KernelMode, Mode, Options};

const BLOCKS: [[u32; 3]; 8] =
    [[32, 1, 1], [33, 1, 1], [96, 1, 1], [255, 1, 1], [8, 8, 1], [5, 7, 3], [64, 2, 1], [48, 2, 1]];
const GRID: u32 = 2;
/// Values of each thread.
const OWN: usize = 8;

/// A kernel with its code, which may use `x` (`threadIdx.x`), `lane`, the array `a` of [`OWN`] numbers, and the array
/// `r` for the results, and its results by a plain loop: of the warp's numbers, the x of its threads, and the lane.
struct Exchange {
    name: &'static str,
    code: String,
    expected: Expected,
}

type Expected = fn(&[[i32; OWN]], &[u32], usize) -> [i32; OWN];

/// The value of the lane `source` of 32, or the own one if it is beyond the warp.
fn from(warp: &[[i32; OWN]], source: usize, lane: usize, k: usize) -> i32 {
    warp[if source < warp.len() { source } else { lane }][k]
}

const STEPS: &str = "
#pragma unroll
for (int d = 4; d; d >>= 1) {
#pragma unroll
  for (int k = 0; k < 8; ++k) if (!(k & d)) {
    int up = BITS & d, send = up ? a[k] : a[k | d], got = __shfl_xor_sync(live, send, d);
    if (up) a[k] = got; else a[k | d] = got;
  }
}
for (int k = 0; k < 8; ++k) r[k] = a[k];";

fn exchanges() -> Vec<Exchange> {
    let sources = "r[0] = __shfl_sync(live, a[0], (x * 5 + 3) & 31); r[1] = __shfl_sync(live, a[1], x * 5 + 3, 8); \
        r[2] = __shfl_up_sync(live, a[2], x & 3); r[3] = __shfl_down_sync(live, a[3], (x >> 1) & 7); \
        r[4] = __shfl_xor_sync(live, a[4], (x & 5) + 1); r[5] = __shfl_sync(live, a[5], x & 8 ? 3 : x & 7); \
        r[6] = __shfl_sync(live, a[6], (x & 31) / 4); r[7] = __shfl_sync(live, a[7], (x & 31) < 9 ? x ^ 1 : 31 - (x & 31));";
    let rotated = "for (int k = 0; k < 8; ++k) { int j = (BITS + k) & 7; \
        r[j] = __shfl_sync(live, a[(BITS - k) & 7], (lane & ~7) | j); }";
    let chosen = "for (int k = 0; k < 8; ++k) { r[k] = 0; for (int j = 0; j < 8; ++j) { \
        int o = __shfl_sync(live, a[j], k * 4 + (BITS >> 3)); if ((BITS & 7) == j) r[k] = o; } }";
    let few = "for (int k = 0; k < 8; ++k) r[k] = a[k]; r[lane & 2] += 5; r[(a[0] & 4) | 1] -= a[(a[1] & 5) + 2]; \
        r[0] = __shfl_xor_sync(live, r[0], 1); a[a[2] & 1 ? 7 : 4] = r[0]; r[7] = a[7] * 3 + a[4];";
    vec![
        Exchange {
            name: "sources",
            code: sources.into(),
            expected: |warp, xs, lane| {
                let x = xs[lane] as usize;
                let low = x & 31;
                let (start, xor) = (lane & !7, lane ^ ((x & 5) + 1));
                let sources = [
                    (x * 5 + 3) & 31,
                    start + ((x * 5 + 3) & 7),
                    lane.checked_sub(x & 3).unwrap_or(lane),
                    Some(lane + (x >> 1 & 7)).filter(|&source| source < 32).unwrap_or(lane),
                    Some(xor).filter(|&source| source < 32).unwrap_or(lane),
                    if x & 8 != 0 { 3 } else { x & 7 },
                    low / 4,
                    if low < 9 { (x ^ 1) & 31 } else { 31 - low },
                ];
                std::array::from_fn(|k| from(warp, sources[k], lane, k))
            },
        },
        Exchange { name: "rotated", code: rotated.replace("BITS", "lane"), expected: rotate },
        Exchange { name: "rotated_by_x", code: rotated.replace("BITS", "(x & 7)"), expected: rotate_by_x },
        Exchange {
            name: "chosen",
            code: chosen.replace("BITS", "lane"),
            expected: |warp, _, lane| {
                std::array::from_fn(|k| from(warp, k * 4 + (lane >> 3), lane, lane & 7))
            },
        },
        Exchange {
            name: "steps",
            code: STEPS.replace("BITS", "lane"),
            expected: |warp, xs, lane| steps(warp, &(0..xs.len() as u32).collect::<Vec<_>>(), lane),
        },
        Exchange { name: "steps_by_x", code: STEPS.replace("BITS", "x"), expected: steps },
        Exchange {
            name: "few",
            code: few.into(),
            expected: |warp, _, lane| {
                let of = |lane: usize| {
                    let a = warp[lane];
                    let mut r = a;
                    r[lane & 2] = r[lane & 2].wrapping_add(5);
                    let at = (a[0] & 4 | 1) as usize;
                    r[at] = r[at].wrapping_sub(a[((a[1] & 5) + 2) as usize]);
                    r
                };
                let other = if lane ^ 1 < warp.len() { lane ^ 1 } else { lane };
                let (mut r, mut a) = (of(lane), warp[lane]);
                r[0] = of(other)[0];
                a[if a[2] & 1 == 1 { 7 } else { 4 }] = r[0];
                r[7] = a[7].wrapping_mul(3).wrapping_add(a[4]);
                r
            },
        },
    ]
}

fn rotate(warp: &[[i32; OWN]], xs: &[u32], lane: usize) -> [i32; OWN] {
    rotate_by_x(warp, &(0..xs.len() as u32).collect::<Vec<_>>(), lane)
}

fn rotate_by_x(warp: &[[i32; OWN]], xs: &[u32], lane: usize) -> [i32; OWN] {
    let mut r = [0; OWN];
    for k in 0..8 {
        let j = ((xs[lane] & 7) as usize + k) & 7;
        let source = lane & !7 | j;
        let source = if source < warp.len() { source } else { lane };
        r[j] = warp[source][((xs[source] & 7) as usize).wrapping_sub(k) & 7];
    }
    r
}

fn steps(warp: &[[i32; OWN]], xs: &[u32], lane: usize) -> [i32; OWN] {
    let mut all = warp.to_vec();
    for d in [4, 2, 1] {
        for k in (0..8).filter(|k| k & d == 0) {
            let is_up = |lane: usize| xs[lane] as usize & d != 0;
            let sent: Vec<i32> =
                (0..all.len()).map(|lane| all[lane][if is_up(lane) { k } else { k | d }]).collect();
            for lane in 0..all.len() {
                let other = if lane ^ d < all.len() { lane ^ d } else { lane };
                all[lane][if is_up(lane) { k } else { k | d }] = sent[other];
            }
        }
    }
    all[lane]
}

fn source(exchanges: &[Exchange]) -> String {
    exchanges.iter().fold(String::new(), |mut text, Exchange { name, code, .. }| {
        let _ = writeln!(
            text,
            "extern \"C\" __global__ void {name}(const int *in, int *out) {{
  int n = blockDim.x * blockDim.y * blockDim.z, x = threadIdx.x;
  int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + x, lane = t & 31;
  int left = n - (t & ~31); unsigned live = left < 32 ? (1u << left) - 1 : ~0u; (void)live;
  int a[8], r[8];
  for (int k = 0; k < 8; ++k) a[k] = in[(blockIdx.x * n + t) * 8 + k];
  {code}
  for (int k = 0; k < 8; ++k) out[(blockIdx.x * n + t) * 8 + k] = r[k];
}}"
        );
        text
    })
}

#[test]
fn warps_exchange_elements_of_arrays_as_a_loop_over_their_threads_does() {
    let Some(cuda) = toolchain() else { return };
    let exchanges = exchanges();
    for mode in [Mode::Auto, Mode::LanesApart, Mode::Coroutine] {
        let program = Program::build(&cuda, &source(&exchanges), &Options { mode, ..Options::default() });
        let form = if mode == Mode::Coroutine { KernelMode::Coroutine } else { KernelMode::Warp };
        for exchange in &exchanges {
            let kernels = &program.converted.report.kernels;
            let kernel = kernels.iter().find(|kernel| kernel.name == exchange.name).unwrap();
            assert_eq!(kernel.mode, form, "{}", exchange.name);
            for block in BLOCKS {
                let n = (block[0] * block[1] * block[2]) as usize;
                let threads = GRID as usize * n;
                let input: Vec<[i32; OWN]> = (0..threads)
                    .map(|t| {
                        std::array::from_fn(|k| ((t * OWN + k) as i32).wrapping_mul(-1_640_531_527) >> 3)
                    })
                    .collect();
                let mut found = vec![[-7; OWN]; threads];
                let (from, to) = (input.as_ptr(), found.as_mut_ptr());
                let run = Run { block, ..Run::new(GRID, 1) };
                run.launch(program.kernel(exchange.name), &[arg(&from), arg(&to)]).unwrap();
                for (thread, found) in found.iter().enumerate() {
                    let (at, lane) = (thread % n, thread % n % 32);
                    let first = thread - lane;
                    let live = (n - (at - lane)).min(32);
                    let xs: Vec<u32> = (0..live).map(|l| (at - lane + l) as u32 % block[0]).collect();
                    let expected = (exchange.expected)(&input[first..first + live], &xs, lane);
                    assert_eq!(*found, expected, "{} {mode:?} {block:?}: thread {thread}", exchange.name);
                }
            }
        }
    }
}

/// An array that stays one is an element for each lane, not a value: a transpose by these steps took 18 times as long.
#[test]
fn arrays_indexed_by_a_bit_of_the_lane_are_as_good_as_values() {
    let Some(cuda) = toolchain() else { return };
    let size = |steps: &str| {
        let source = format!(
            "__global__ void k(int *x) {{ int t = threadIdx.x, lane = t & 31, a[8]; unsigned live = ~0u; int r[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) a[k] = x[k * 32 + t];
  {steps}
#pragma unroll
  for (int k = 0; k < 8; ++k) x[k * 32 + t] = r[k]; }}"
        );
        Program::build(&cuda, &source, &Options::default()).converted.bitcode.len()
    };
    let mut by_values = String::new();
    for d in [4, 2, 1] {
        for k in (0..8).filter(|k| k & d == 0) {
            let other = k | d;
            let _ = write!(
                by_values,
                "{{ int up = lane & {d}, got = __shfl_xor_sync(live, up ? a[{k}] : a[{other}], {d});
                   a[{k}] = up ? got : a[{k}]; a[{other}] = up ? a[{other}] : got; }}"
            );
        }
    }
    by_values.push_str("for (int k = 0; k < 8; ++k) r[k] = a[k];");
    let (indexed, values) = (size(&STEPS.replace("BITS", "lane")), size(&by_values));
    assert!(indexed < values * 5 / 4, "{indexed} bytes, {values} without an array");
}

/// What stays in memory for the sake of one warp slows all of them: sums of blocks took twice as long.
#[test]
fn a_warp_of_which_some_threads_take_part_does_not_keep_the_arrays_of_the_others_in_memory() {
    let Some(cuda) = toolchain() else { return };
    const SUM: &str = "extern \"C\" __global__ void sum(const int *in, int *out) {
  __shared__ int s[32]; int t = threadIdx.x, lane = t & 31, v = in[blockIdx.x * 256 + t];
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
  if (lane == 0) s[t >> 5] = v;
  __syncthreads();
  v = t < blockDim.x / 32 ? s[lane] : 0;
  if (t >> 5 == 0) for (int d = 16; d; d >>= 1) v += __shfl_down_sync(~0u, v, d);
  if (t == 0) out[blockIdx.x] = v; }";
    let program = Program::build(&cuda, SUM, &Options::default());
    let folder = tempfile::tempdir().unwrap();
    let bitcode = folder.path().join("sum.bc");
    std::fs::write(&bitcode, &program.converted.bitcode).unwrap();
    let shown =
        Command::new("clang-22").args(["-S", "-emit-llvm", "-o", "-"]).arg(&bitcode).output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    let (_, behind) = text.split_once("@sum.block(").expect("the block function");
    let function = behind.split_once("\n}").expect("its end").0;
    // Names of inlined code end in `.i`.
    let arrays: BTreeSet<&str> = function
        .lines()
        .filter_map(|line| {
            Some(line.trim().strip_prefix('%')?.split_once(" = alloca")?.0.trim_end_matches(".i"))
        })
        .filter(|name| *name == "op" || name.starts_with("op."))
        .collect();
    assert_eq!(arrays, BTreeSet::from(["op.own", "op.parted"]), "arrays of operations in memory");
}
