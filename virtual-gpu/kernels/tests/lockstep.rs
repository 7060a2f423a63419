//! Tests threads of a warp that exchange values without a barrier: the results are those of threads in step, and
//! kernels that do not rely on it keep their form.
//!
//! Such code is wrong by CUDA's rules, so the expected results are those of hardware before Volta: all threads of a
//! warp do one access before any does the next.

mod common;

use common::{Program, Run, arg, toolchain};
use eager_kernels::{KernelMode, LockStep, Mode, Options};

const LINES: &[&str] = &["-gline-tables-only"];

/// Kernels of one block that rely on threads in step: each reads `in` and writes `out`.
const RELYING: &str = r#"
// The last warp of a reduction, as it was taught for years: out[0] is the sum.
__device__ void last_warp(volatile int *s, int t) {
    s[t] += s[t + 32]; s[t] += s[t + 16]; s[t] += s[t + 8]; s[t] += s[t + 4]; s[t] += s[t + 2]; s[t] += s[t + 1];
}
__global__ void reduce(const int *in, int *out) {
    extern __shared__ int s[];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
    for (int half = blockDim.x / 2; half > 32; half >>= 1) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t < 32) last_warp(s, t);
    if (t == 0) out[0] = s[0];
}
// Each warp by itself, in a loop whose turns fewer and fewer threads work in.
__global__ void reduce_warps(const int *in, int *out) {
    __shared__ volatile int s[1024];
    int t = threadIdx.x, lane = t & 31;
    s[t] = in[t];
    for (int d = 16; d > 0; d >>= 1)
        if (lane < d) s[t] += s[t + d];
    out[t] = s[t - lane];
}
// A scan of each warp: more and more threads work.
__global__ void scan(const int *in, int *out) {
    __shared__ volatile int s[1024];
    int t = threadIdx.x, lane = t % 32;
    s[t] = in[t];
    for (int d = 1; d < 32; d *= 2)
        if (lane >= d) s[t] += s[t - d];
    out[t] = s[t];
}
// The same in the order in which a thread that has little to do would run ahead by turns.
__global__ void late(const int *in, int *out) {
    __shared__ volatile int s[1024];
    int t = threadIdx.x, lane = t % 32;
    s[t] = in[t];
    for (int d = 16; d > 0; d /= 2)
        if (lane >= d) s[t] = s[t] + s[t - d];
    out[t] = s[t];
}
// With room of zeroes in front, so that nobody asks.
__global__ void padded(const int *in, int *out) {
    __shared__ volatile int room[32][48];
    int t = threadIdx.x, lane = t & (warpSize - 1);
    volatile int *s = &room[t / warpSize][16];
    s[lane - 16] = 0;
    s[lane] = in[t];
    s[lane] += s[lane - 1]; s[lane] += s[lane - 2]; s[lane] += s[lane - 4]; s[lane] += s[lane - 8]; s[lane] += s[lane - 16];
    out[t] = s[lane];
}
// No volatile: neighbours, by constants.
__global__ void shift(const int *in, int *out) {
    __shared__ int s[1024];
    int t = threadIdx.x;
    s[t] = in[t];
    int mine = 0;
    if ((t & 31) < 31) mine = s[t + 1];
    out[t] = mine;
}
// A tile of 32 by 32, turned by one warp; each warp has its own.
__global__ void transpose(const int *in, int *out) {
    __shared__ int tile[4][32][33];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int row = 0; row < 32; ++row) tile[warp][row][lane] = in[(warp * 32 + row) * 32 % blockDim.x + lane];
    int sum = 0;
    for (int row = 0; row < 32; ++row) sum = sum * 3 + tile[warp][lane][row];
    out[threadIdx.x] = sum;
}
// One thread asks for all of its warp.
__global__ void broadcast(const int *in, int *out) {
    __shared__ volatile int from[32];
    int t = threadIdx.x, warp = t / 32, lane = t % 32;
    for (int turn = 0; turn < 4; ++turn) {
        if (lane == 7 * turn) from[warp] = in[t];
        out[turn * blockDim.x + t] = from[warp];
    }
}
// Exclusive places of a compaction inside a warp.
__global__ void compact(const int *in, int *out) {
    __shared__ volatile int s[1024];
    int t = threadIdx.x, lane = t & 31, wanted = in[t] & 1;
    s[t] = wanted;
    if (lane >= 1) s[t] += s[t - 1];
    if (lane >= 2) s[t] += s[t - 2];
    if (lane >= 4) s[t] += s[t - 4];
    if (lane >= 8) s[t] += s[t - 8];
    if (lane >= 16) s[t] += s[t - 16];
    out[t] = wanted ? s[t] - 1 : -1;
}
// Both halves of a branch write, and read what the other wrote.
__global__ void halves(const int *in, int *out) {
    __shared__ volatile int s[1024];
    int t = threadIdx.x;
    if (t & 1) s[t] = in[t] * 3; else s[t] = in[t] + 5;
    out[t] = s[t ^ 1] - s[t ^ 31];
}
// Odd and even places in turn: a sort of each warp's values.
__global__ void sort(const int *in, int *out) {
    __shared__ volatile int s[1024];
    int t = threadIdx.x, lane = t & 31;
    s[t] = in[t];
    for (int turn = 0; turn < 32; ++turn) {
        int other = ((lane + turn) & 1) ? lane - 1 : lane + 1;
        int a = s[t], b = other >= 0 && other < 32 ? s[t - lane + other] : a;
        s[t] = other < lane ? max(a, b) : min(a, b);
    }
    out[t] = s[t];
}
"#;

/// Expected output of each kernel, for one block of `n` threads.
fn expected(name: &str, input: &[i32]) -> Vec<i32> {
    let warps = || input.chunks(32).map(<[i32]>::to_vec);
    let scanned = |warp: Vec<i32>| {
        warp.iter()
            .scan(0, |sum, value| {
                *sum += value;
                Some(*sum)
            })
            .collect::<Vec<i32>>()
    };
    match name {
        "6reduce" => vec![input.iter().sum()],
        "reduce_warps" => warps().flat_map(|warp| vec![warp.iter().sum::<i32>(); 32]).collect(),
        "scan" | "padded" => warps().flat_map(scanned).collect(),
        "late" => warps().flat_map(late).collect(),
        "shift" => {
            warps().flat_map(|warp| warp[1..].iter().copied().chain([0]).collect::<Vec<i32>>()).collect()
        }
        "transpose" => transposed(input),
        "broadcast" => (0..4)
            .flat_map(|turn| warps().flat_map(move |warp| vec![warp[7 * turn]; 32]).collect::<Vec<i32>>())
            .collect(),
        "compact" => warps().flat_map(|warp| places(&warp)).collect(),
        "halves" => {
            let held = |t: usize| if t % 2 == 1 { input[t] * 3 } else { input[t] + 5 };
            (0..input.len()).map(|t| held(t ^ 1) - held(t ^ 31)).collect()
        }
        "sort" => warps()
            .flat_map(|mut warp| {
                warp.sort_unstable();
                warp
            })
            .collect(),
        _ => panic!("{name}"),
    }
}

fn late(mut warp: Vec<i32>) -> Vec<i32> {
    for distance in [16, 8, 4, 2, 1] {
        let before = warp.clone();
        for lane in distance..32 {
            warp[lane] = before[lane] + before[lane - distance];
        }
    }
    warp
}

fn transposed(input: &[i32]) -> Vec<i32> {
    let n = input.len();
    let tile = |warp: usize, row: usize, lane: usize| input[(warp * 32 + row) * 32 % n + lane];
    let sum =
        |t: usize| (0..32).fold(0i32, |sum, row| sum.wrapping_mul(3).wrapping_add(tile(t / 32, t % 32, row)));
    (0..n).map(sum).collect()
}

fn places(warp: &[i32]) -> Vec<i32> {
    let mut next = -1;
    warp.iter()
        .map(|value| {
            if value & 1 == 1 {
                next += 1;
                next
            } else {
                -1
            }
        })
        .collect()
}

const NAMES: [&str; 11] = [
    "6reduce",
    "reduce_warps",
    "scan",
    "late",
    "padded",
    "shift",
    "transpose",
    "broadcast",
    "compact",
    "halves",
    "sort",
];

fn program(source: &str, options: &Options) -> Option<Program> {
    let cuda = toolchain()?;
    Some(Program::build_with(&cuda, source, LINES, options).unwrap_or_else(|error| panic!("{error}")))
}

fn input(n: usize) -> Vec<i32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 20).cast_signed() % 1000).collect()
}

/// Output of a kernel for an input of `n` numbers, as many numbers as expected.
fn result(program: &Program, name: &str, n: usize) -> Vec<i32> {
    let from = input(n);
    let mut out = vec![0i32; 4 * n];
    let (source, to) = (from.as_ptr(), out.as_mut_ptr());
    let run = Run { dynamic_shared_bytes: 4 * n as u32, ..Run::new(1, n as u32) };
    let done = run.launch(program.kernel(name), &[arg(&source), arg(&to)]);
    assert!(done.is_ok(), "{name}, {n} threads: {done:?}");
    out.truncate(expected(name, &from).len());
    out
}

#[test]
fn code_that_relies_on_threads_in_step_is_right() {
    for mode in [Mode::Auto, Mode::Coroutine] {
        let Some(program) = program(RELYING, &Options { mode, ..Options::default() }) else { return };
        for name in NAMES {
            for n in [64, 128] {
                assert_eq!(
                    result(&program, name, n),
                    expected(name, &input(n)),
                    "{name}, {n} threads, {mode:?}"
                );
            }
        }
    }
}

#[test]
fn it_is_told_where_and_what_to_do() {
    let Some(program) = program(RELYING, &Options::default()) else { return };
    for name in NAMES {
        let note = program.converted.report.notes.iter().find(|note| note.kernel.contains(name));
        let text = &note.unwrap_or_else(|| panic!("{name} is not seen to rely on it")).text;
        assert!(
            text.contains("running in step at ")
                && text.contains("test.cu:")
                && text.contains("__syncwarp()"),
            "{text}"
        );
    }
}

/// The user of a library cannot change it: steps are made, and nothing is said.
#[test]
fn lines_of_a_library_are_not_told() {
    for (file, told) in
        [("/opt/cuda/include/cub/warp/warp_scan.cuh", false), ("/home/me/warp_scan.cuh", true)]
    {
        let source = format!("#line 1 \"{file}\"\n{RELYING}");
        let Some(program) = program(&source, &Options::default()) else { return };
        for name in NAMES {
            let note = program.converted.report.notes.iter().find(|note| note.kernel.contains(name));
            assert_eq!(note.is_some(), told, "{name} in {file}: {note:?}");
            assert_eq!(result(&program, name, 64), expected(name, &input(64)), "{name} in {file}");
        }
    }
}

/// Checks that the tests above can fail: threads that run one after the other give other results.
#[test]
fn without_steps_it_is_wrong() {
    let off = Options { lock_step: LockStep::Off, ..Options::default() };
    let Some(program) = program(RELYING, &off) else { return };
    assert_eq!(program.converted.report.notes, []);
    let wrong = |name: &&&str| result(&program, name, 64) != expected(name, &input(64));
    assert!(NAMES.iter().filter(wrong).count() >= 8);
}

/// Kernels whose result does not depend on steps: right in any order of threads, or wrong in all.
const FREE: &str = r#"
__global__ void own(int *out) { __shared__ volatile int s[256]; int t = threadIdx.x; s[t] = t; s[t] += 1; out[t] = s[t]; }
__global__ void two_arrays(int *out) { __shared__ int a[256], b[257]; int t = threadIdx.x; a[t] = t; out[t] = b[t + 1]; }
__global__ void barrier(int *out) { __shared__ volatile int s[257]; int t = threadIdx.x; s[t] = t; __syncthreads(); out[t] = s[t + 1]; }
__global__ void halving(int *out) {
    __shared__ int s[256]; int t = threadIdx.x; s[t] = out[t]; __syncthreads();
    for (int h = 128; h > 0; h >>= 1) { if (t < h) s[t] += s[t + h]; __syncthreads(); }
    out[t] = s[0];
}
__global__ void halving_by_hand(int *out) {
    __shared__ int s[256]; int t = threadIdx.x; s[t] = out[t]; __syncthreads();
    if (t < 128) s[t] += s[t + 128];
    __syncthreads();
    if (t < 64) s[t] += s[t + 64];
    __syncthreads();
    if (t < 16) s[t] += s[t + 16];
    __syncthreads();
    if (t < 4) s[t] += s[t + 4];
    __syncthreads();
    out[t] = s[0];
}
__global__ void halo(int *out) {
    __shared__ int s[262]; int t = threadIdx.x; s[t + 3] = out[t];
    if (t < 3) { s[t] = 0; s[t + 259] = 0; }
    __syncthreads();
    int sum = 0;
    for (int k = 0; k < 7; ++k) sum += s[t + k];
    out[t] = sum;
}
__global__ void tile(int *out, int n) {
    __shared__ float a[16][16], b[16][17]; int x = threadIdx.x, y = threadIdx.y; float sum = 0;
    for (int k = 0; k < n; ++k) {
        a[y][x] = out[k * 16 + x]; b[y][x] = out[k * 16 + y];
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += a[y][i] * b[i][x];
        __syncthreads();
    }
    out[y * 16 + x] = sum;
}
__global__ void turned(int *out) {
    __shared__ int t[32][33]; t[threadIdx.y][threadIdx.x] = out[threadIdx.x]; __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = t[threadIdx.x][threadIdx.y];
}
__global__ void counted(int *out) {
    __shared__ int bins[64]; int t = threadIdx.x; if (t < 64) bins[t] = 0; __syncthreads();
    atomicAdd(&bins[out[t] & 63], 1); __syncthreads();
    if (t < 64) out[t] = bins[t];
}
__global__ void flag(int *out, int n) {
    __shared__ int again; int t = threadIdx.x;
    do { __syncthreads(); if (t == 0) again = 0; __syncthreads(); if (out[t] > n) { out[t] /= 2; again = 1; } __syncthreads(); } while (again);
}
__global__ void pairs(int *out) { __shared__ int s[512]; int t = threadIdx.x; s[2 * t] = t; s[2 * t + 1] = -t; out[t] = s[2 * t] + s[2 * t + 1]; }
__global__ void other_halves(int *out) { __shared__ int s[64]; int t = threadIdx.x; if (t < 16) s[t] = t; if (t >= 16 && t < 32) s[t] = s[t] + 1; out[t] = 0; }
__global__ void own_row(int *out) { __shared__ int s[32][8]; int t = threadIdx.x & 31; for (int i = 0; i < 8; ++i) s[t][i] = i; int m = 0; for (int i = 0; i < 8; ++i) m += s[t][i]; out[t] = m; }
__global__ void asked_of_memory(int *out) { __shared__ int s[256]; int t = threadIdx.x; s[out[t] & 255] = t; out[t] = s[t]; }
__global__ void by_width(int *out) { __shared__ int s[512]; int t = threadIdx.x; s[t] = t; s[t + blockDim.x] = 1; __syncthreads(); out[t] = s[t + 1]; }
__global__ void fields(int *out) { struct P { int a; float b; }; __shared__ P s[256]; int t = threadIdx.x; s[t].a = t; s[t].b = 2; out[t] = s[t].a + (int)s[t].b; }
__global__ void synced(int *out) { __shared__ int s[256]; int t = threadIdx.x; s[t] = t; __syncwarp(); out[t] = s[t ^ 1]; }
__global__ void global_only(volatile int *out) { int t = threadIdx.x; out[t] = t; out[t + 1] = 2; }
__global__ void by_one(int *out) { __shared__ int s[33]; int t = threadIdx.x; if (t == 0) { for (int i = 0; i < 33; ++i) s[i] = i; } __syncthreads(); out[t] = s[t & 31]; }
__global__ void chosen(int *out) { __shared__ int s[64]; int t = threadIdx.x & 31; int at = t < 16 ? t : t + 16; s[at] = t; out[t] = s[at]; }
"#;

#[test]
fn what_does_not_rely_on_it_is_left_in_its_form() {
    let Some(program) = program(FREE, &Options::default()) else { return };
    let in_step = |note: &&eager_kernels::Note| note.text.contains("in step");
    assert_eq!(program.converted.report.notes.iter().find(in_step), None);
    for kernel in &program.converted.report.kernels {
        let waits = ["synced", "flag"].iter().any(|name| kernel.name.contains(name));
        let is_waiting = matches!(kernel.mode, KernelMode::Warp | KernelMode::Coroutine);
        assert_eq!(is_waiting, waits, "{}: {:?}", kernel.name, kernel.mode);
    }
    assert_eq!(program.converted.report.kernels.len(), 20);
}

#[test]
fn more_is_made_of_steps_where_that_is_asked_for() {
    let in_step = |lock_step| {
        let program = program(FREE, &Options { lock_step, ..Options::default() })?;
        Some(program.converted.report.kernels.iter().filter(|k| k.mode == KernelMode::Warp).count())
    };
    let Some(off) = in_step(LockStep::Off) else { return };
    let Some(suspected) = in_step(LockStep::Suspected) else { return };
    let Some(all) = in_step(LockStep::All) else { return };
    assert!(off < suspected && suspected < all, "{off}, {suspected}, {all}");
}

/// A warp that shares a value that one of its threads got under a lock, and threads that poll.
#[test]
fn steps_keep_nobody_waiting() {
    const SOURCE: &str = r#"
__device__ int held;
__global__ void locked(volatile int *out) {
    __shared__ volatile int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    bool done = false;
    while (!done)
        if (atomicExch(&held, 1) == 0) { s[0] = s[0] + 1; s[t ^ 1] = s[t ^ 1] + 1; __threadfence(); atomicExch(&held, 0); done = true; }
    __syncthreads();
    out[t] = s[0];
}
__global__ void asks(volatile int *out) {
    __shared__ volatile int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    __syncthreads();
    if (t < 63) while (s[t + 1] == 0) { }
    s[t] = 1;
    out[t] = s[t ^ 1];
}
__global__ void leaves(volatile int *out) {
    __shared__ volatile int s[64];
    int t = threadIdx.x;
    s[t] = t;
    if (t % 3 == 0) return;
    for (int i = 0; i < t; ++i) s[t] = s[t ^ 32] + 1;
    out[t] = 1;
}
"#;
    let Some(program) = program(SOURCE, &Options::default()) else { return };
    for name in ["locked", "asks", "leaves"] {
        let mut out = vec![0i32; 64];
        let to = out.as_mut_ptr();
        let run = Run { time_max: Some(std::time::Duration::from_secs(60)), ..Run::new(1, 64) };
        let done = run.launch(program.kernel(name), &[arg(&to)]);
        assert!(done.is_ok(), "{name}: {done:?}");
        if name == "locked" {
            assert!(out.iter().all(|&count| count >= 64), "{out:?}");
        }
    }
}
