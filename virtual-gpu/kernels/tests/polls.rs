//! Tests threads that wait for others by polling memory: in a warp, in a block, between blocks that have begun and
//! blocks that have not.
//!
//! Trap: a loop that is not recognised never ends. Launches here have a limit of processor time, after which they fail.

mod common;

use std::time::Duration;

use common::{Program, Run, arg, toolchain};
use eager_exec::{Fault, LaunchFailure};
use eager_kernels::{KernelMode, Mode, Options};

const LINES: &[&str] = &["-gline-tables-only"];

/// Kernels that wait: each writes `i + 1` to `out[i]` for every thread `i` of the grid.
const WAITING: &str = r#"
__device__ int at() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Each thread waits for the one before it, or behind it.
__global__ void rising(volatile int *out, int n) {
    int i = at();
    while (i > 0 && out[i - 1] == 0);
    out[i] = i + 1;
}
__global__ void falling(volatile int *out, int n) {
    int i = at();
    if (i + 1 < n) while (!out[i + 1]) { }
    out[i] = i + 1;
}
// The value read goes round, and the number of turns is counted but decides nothing.
__global__ void read_first(volatile int *out, int n) {
    int i = at(), turns = 0;
    if (i + 1 < n) { int seen = out[i + 1]; while (seen != i + 2) { seen = out[i + 1]; turns++; } }
    out[i] = i + 1 + (turns < 0);
}
// A lock taken by each thread of a warp, in the two usual ways.
__device__ int held[4];
__global__ void lock(int *out, int n) {
    int i = at();
    while (atomicCAS(&held[0], 0, 1) != 0);
    out[i] = i; out[n] += 1; __threadfence();
    out[i] += 1;
    atomicExch(&held[0], 0);
}
__global__ void lock_or_again(int *out, int n) {
    int i = at();
    bool done = false;
    while (!done) {
        if (atomicExch(&held[1], 1) == 0) {
            out[i] = i + 1; out[n] += 1;
            __threadfence();
            atomicExch(&held[1], 0);
            done = true;
        }
    }
}
__global__ void block_lock(int *out, int n) {
    int i = at();
    while (atomicCAS_block(&held[2], 0, 1) != 0);
    out[i] = i + 1;
    atomicExch_block(&held[2], 0);
}
// Plain memory that is read again because of a fence, and an atomic that changes nothing.
__global__ void fenced(int *out, int n) {
    int i = at();
    if (i + 1 < n) while (out[i + 1] == 0) __threadfence();
    out[i] = i + 1; __threadfence();
}
__global__ void asked_by_atomic(int *out, int n) {
    int i = at();
    if (i + 1 < n) while (atomicAdd(&out[i + 1], 0) == 0);
    atomicExch(&out[i], i + 1);
}
__global__ void asked_by_or(unsigned *out, int n) {
    int i = at();
    if (i + 1 < n) do { if (atomicOr(&out[i + 1], 0u) != 0) break; } while (true);
    atomicMax(&out[i], (unsigned)i + 1);
}
// One thread waits for the next block, the others at a barrier.
__global__ void one_for_all(volatile int *out, int n) {
    int i = at();
    if (threadIdx.x == 0 && blockIdx.x + 1 < gridDim.x) while (out[i + blockDim.x] == 0);
    __syncthreads();
    out[i] = i + 1;
}
// All wait at barriers for what one of them reads.
__global__ void asked_between_barriers(volatile int *out, int n) {
    __shared__ int seen;
    int i = at();
    bool last = blockIdx.x + 1 == gridDim.x;
    do {
        __syncthreads();
        if (threadIdx.x == 0) seen = last ? 1 : out[i + blockDim.x];
        __syncthreads();
    } while (seen == 0);
    out[i] = i + 1;
}
// A warp decides together.
__global__ void asked_by_warp(volatile int *out, int n) {
    int i = at();
    while (!__all_sync(~0u, i + 32 >= n || out[i + 32] != 0));
    out[i] = i + 1;
}
// Given up after many turns, which are never needed.
__global__ void bounded(volatile int *out, int n) {
    int i = at();
    int left = 2000000000;
    if (i + 1 < n) while (out[i + 1] == 0 && --left > 0);
    out[i] = left > 0 ? i + 1 : -1;
}
// A walk that goes on only where the next number is there.
__global__ void walk(volatile int *out, int n) {
    int i = at(), k = n - 1;
    while (k > i) { if (out[k] != 0) k--; }
    out[i] = i + 1;
}
// A ring between each block and the next: the wait is an inner loop, and the turn around it writes what it reads.
struct Ring { unsigned head, tail; int values[8]; };
__device__ Ring rings[513];
__global__ void through_ring(volatile int *out, int n) {
    int i = at();
    out[i] = i + 1;
    if (threadIdx.x != 0) return;
    volatile Ring *to = &rings[blockIdx.x], *from = &rings[blockIdx.x + 1];
    for (int k = 0; k < 20; k++) {
        int value = 1;
        if (blockIdx.x + 1 < gridDim.x) {
            while (from->head == from->tail);
            __threadfence(); value = from->values[from->tail % 8] + 1; __threadfence();
            from->tail = from->tail + 1;
        }
        if (blockIdx.x > 0) {
            while (to->head - to->tail >= 8);
            to->values[to->head % 8] = value; __threadfence();
            to->head = to->head + 1;
        } else if (value != gridDim.x) out[i] = -value;
    }
}
// What a turn does besides its wait: a pause that doubles or is drawn by lot, a pause by the clock, a count of tries.
__global__ void pause_doubles(volatile int *out, int n) {
    int i = at(), pause = 1;
    if (i + 1 < n) while (out[i + 1] == 0) {
        for (int k = 0; k < pause; k++) asm volatile("");
        pause = pause * 2 > 64 ? 64 : pause * 2;
    }
    out[i] = i + 1;
}
__global__ void pause_by_lot(volatile int *out, int n) {
    int i = at(); unsigned lot = i * 7 + 1;
    if (i + 1 < n) while (out[i + 1] == 0) {
        lot ^= lot << 13; lot ^= lot >> 17; lot ^= lot << 5;
        for (unsigned k = 0; k < (lot & 15); k++) asm volatile("");
    }
    out[i] = i + 1;
}
__global__ void pause_by_time(volatile int *out, int n) {
    int i = at(); long long pause = 8;
    if (i + 1 < n) while (out[i + 1] == 0) {
        long long start = clock64();
        while (clock64() - start < pause);
        pause = pause > 256 ? 8 : pause * 2;
    }
    out[i] = i + 1;
}
__device__ int tries[20000];
__global__ void tries_in_memory(volatile int *out, int n) {
    int i = at();
    if (i + 1 < n) while (out[i + 1] == 0) tries[i]++;
    out[i] = i + 1;
}
__device__ unsigned all_tries;
__global__ void tries_of_all(volatile int *out, int n) {
    int i = at();
    if (i + 1 < n) while (out[i + 1] == 0) atomicAdd(&all_tries, 1u);
    out[i] = i + 1;
}
// Several flags: all of them in each turn, some number of them, or one after the other.
__global__ void every_flag(volatile int *out, int n) {
    int i = at(); bool every;
    do { every = true; for (int k = 1; k <= 4; k++) if (i + k < n && out[i + k] == 0) every = false; } while (!every);
    out[i] = i + 1;
}
__global__ void enough_flags(volatile int *out, int n) {
    int i = at(), wanted = n - 1 - i < 3 ? n - 1 - i : 3, seen;
    do { seen = 0; for (int k = 1; k <= wanted; k++) seen += out[i + k] != 0; } while (seen < wanted);
    out[i] = i + 1;
}
__global__ void next_flag(volatile int *out, int n) {
    int i = at(); unsigned k = 0;
    if (i + 1 < n) while (out[i + 1 + k] == 0) k = (k + 1) % (n - 1 - i);
    out[i] = i + 1;
}
__global__ void next_by_atomic(int *out, int n) {
    int i = at(); unsigned k = 0;
    if (i + 1 < n) while (atomicAdd(&out[i + 1 + k], 0) == 0) k = (k + 1) % (n - 1 - i);
    atomicExch(&out[i], i + 1);
}
// Loads that pass the SM's own cache.
__global__ void past_the_cache(int *out, int n) {
    int i = at();
    if (i + 1 < n) while (__ldcg(&out[i + 1]) == 0);
    out[i] = i + 1; __threadfence();
}
"#;

const NAMES: [&str; 14] = [
    "rising",
    "falling",
    "read_first",
    "lock_or_again",
    "4lockPi",
    "block_lock",
    "fenced",
    "by_atomic",
    "by_or",
    "one_for_all",
    "between_barriers",
    "by_warp",
    "bounded",
    "walk",
];
/// Those that also do something else in each turn, or wait inside another loop. Launches are smaller: turns are long.
const BUSY: [&str; 11] = [
    "through_ring",
    "pause_doubles",
    "pause_by_lot",
    "pause_by_time",
    "tries_in_memory",
    "tries_of_all",
    "every_flag",
    "enough_flags",
    "next_flag",
    "next_by_atomic",
    "past_the_cache",
];

/// Kernels that end by themselves, however little progress other threads make.
const ENDING: &str = r#"
__global__ void maximum(float *out, int n) {
    int *at = (int *)out, old = *at, seen;
    do { seen = old; old = atomicCAS(at, seen, __float_as_int(fmaxf(threadIdx.x, __int_as_float(seen)))); } while (old != seen);
}
struct Node { Node *volatile next; int value; };
__global__ void walk(Node *first, int *out) {
    Node *at = first;
    while (at->next) at = at->next;
    *out = at->value;
}
__global__ void sum(volatile int *in, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) if (in[i] > 3) sum += in[i];
    in[n] = sum;
}
__global__ void until_time(long long *out) { long long start = clock64(); while (clock64() - start < 1000); *out = 1; }
struct Slot { int key, value; };
__global__ void insert(Slot *table, int capacity, int key) {
    for (int at = key % capacity;; at = (at + 1) % capacity) {
        int old = atomicCAS(&table[at].key, 0, key + threadIdx.x);
        if (old == 0 || old == key) { table[at].value++; return; }
    }
}
__global__ void queue(int *next, volatile int *done, int n) { int i; while ((i = atomicAdd(next, 1)) < n) done[i]++; }
__global__ void until_bound(volatile int *in, float *out, int n) {
    float sum = 0;
    for (int i = 0; i < n && in[0] == 0; ++i) sum += sqrtf(sum + i);
    *out = sum;
}
__global__ void drain(volatile int *ring, int n) { for (int i = 0; i < n && ring[0] != ring[1]; i++) ring[1] = ring[1] + 1; }
__global__ void steps(int *out, int n) {
    for (int d = 1; d < n; d *= 2) { __syncthreads(); if (threadIdx.x % (2 * d) == 0) out[threadIdx.x] += out[threadIdx.x + d]; }
}
"#;

fn program(source: &str, options: &Options) -> Option<Program> {
    let cuda = toolchain()?;
    Some(Program::build_with(&cuda, source, LINES, options).unwrap_or_else(|error| panic!("{error}")))
}

fn all_end(program: &Program, names: &[&str], workers: usize, shapes: &[[u32; 2]]) {
    for name in names {
        for &[blocks, threads] in shapes {
            let n = (blocks * threads) as i32;
            let mut out = vec![0i32; n as usize + 1];
            let at = out.as_mut_ptr();
            let run =
                Run { time_max: Some(Duration::from_secs(60)), ..Run::new(blocks, threads).workers(workers) };
            let done = run.launch(program.kernel(name), &[arg(&at), arg(&n)]);
            assert!(done.is_ok(), "{name}, {blocks} blocks of {threads}, {workers} workers: {done:?}");
            let counts = if name.contains("lock") && !name.contains("block") { n } else { 0 };
            let wanted: Vec<i32> = (1..=n).chain([counts]).collect();
            assert_eq!(out, wanted, "{name}, {blocks} blocks of {threads}, {workers} workers");
        }
    }
}

#[test]
fn threads_that_wait_for_others_end() {
    let Some(program) = program(WAITING, &Options::default()) else { return };
    all_end(&program, &NAMES, 1, &[[1, 64], [1, 1024], [70, 32], [300, 32]]);
    all_end(&program, &BUSY, 1, &[[1, 64], [1, 1024], [70, 32]]);
}

#[test]
fn so_they_do_on_several_workers() {
    let Some(program) = program(WAITING, &Options::default()) else { return };
    all_end(&program, &NAMES, 3, &[[300, 64], [500, 32]]);
    all_end(&program, &BUSY, 3, &[[70, 32]]);
}

#[test]
fn where_they_wait_is_noted_and_what_ends_by_itself_is_left_as_it_was() {
    let Some(program) = program(WAITING, &Options::default()) else { return };
    let lines: Vec<&str> = WAITING.lines().collect();
    for name in NAMES.into_iter().chain(BUSY) {
        let note = program.converted.report.notes.iter().find(|note| note.kernel.contains(name));
        let text = &note.unwrap_or_else(|| panic!("{name} is not seen to wait")).text;
        let (_, line) = text.split_once("test.cu:").unwrap_or_else(|| panic!("no line: {text}"));
        let digits: String = line.chars().take_while(char::is_ascii_digit).collect();
        let line = lines[digits.parse::<usize>().expect("a line") - 1];
        assert!(line.contains("while") || line.contains("out[") || line.contains("atomic"), "{text}: {line}");
    }
    let Some(program) = self::program(ENDING, &Options::default()) else { return };
    assert_eq!(program.converted.report.notes, []);
    let coroutines = program.converted.report.kernels.iter().filter(|k| k.mode == KernelMode::Coroutine);
    assert_eq!(coroutines.count(), 0, "{:?}", program.converted.report.kernels);
}

#[test]
fn coroutines_asked_for_wait_alike() {
    let Some(program) = program(WAITING, &Options { mode: Mode::Coroutine, ..Options::default() }) else {
        return;
    };
    all_end(&program, &NAMES, 1, &[[70, 32]]);
    all_end(&program, &BUSY, 1, &[[20, 32]]);
}

#[test]
fn who_waits_for_nobody_fails_at_the_time_limit() {
    let source = "__global__ void wait(volatile int *out) { while (out[1] == 0); out[0] = 1; }";
    let Some(program) = program(source, &Options::default()) else { return };
    for [blocks, threads] in [[1, 1], [40, 64]] {
        let mut out = [0i32; 2];
        let at = out.as_mut_ptr();
        let run = Run { time_max: Some(Duration::from_millis(300)), ..Run::new(blocks, threads) };
        let failed = run.launch(program.kernel("wait"), &[arg(&at)]);
        assert_eq!(failed, Err(LaunchFailure::Fault(Fault::TimeOut)));
        assert_eq!(out, [0, 0]);
    }
}
