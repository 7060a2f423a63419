//! Tests that the touch map and the cost counters match the accesses and operations of a kernel.

mod common;

use common::{Program, Run, arg, toolchain};
use eager_exec::{Touch, TouchMap};
use eager_kernels::Options;

const READ: Touch = Touch { read: true, written: false };
const WRITTEN: Touch = Touch { read: false, written: true };
const BOTH: Touch = Touch { read: true, written: true };

/// Device memory of a test: `bytes` aligned to a page, and a touch map over it in pages.
struct Arena {
    memory: Vec<u64>,
    start: usize,
}

const PAGE: usize = 4096;

impl Arena {
    fn new(pages: usize) -> Self {
        let memory = vec![0u64; (pages + 1) * PAGE / 8];
        let start = memory.as_ptr().align_offset(PAGE);
        Arena { memory, start }
    }

    fn at<T>(&mut self, page: usize) -> *mut T {
        self.memory[self.start + page * PAGE / 8..].as_mut_ptr().cast()
    }

    fn map(&mut self, pages: usize) -> TouchMap {
        TouchMap::new(self.at::<u8>(0) as u64, (pages * PAGE) as u64, 12)
    }
}

const SOURCE: &str = "
    struct Record { double v[12]; };
    __device__ int counter;
    __constant__ float weights[4];
    __global__ void strided(const float *in, float *out, int stride) {
        __shared__ float s[32];
        float mine[4] = {};
        mine[threadIdx.x % 4] = __ldg(in + threadIdx.x * stride);
        s[threadIdx.x] = mine[0] + mine[3] + weights[1];
        __syncthreads();
        out[threadIdx.x] = s[31 - threadIdx.x];
    }
    __global__ void copies(const Record *in, Record *out, int from, int to) { out[to] = in[from]; }
    __global__ void add(int *value) { atomicAdd(value, 1); counter++; }
    __global__ void nothing(int *p, int n) { if (n > 0) p[n] = 1; }
    struct Inner { float *p; int n; }; struct Outer { Inner in; float *q; };
    __global__ void through_struct(Outer o) { o.q[threadIdx.x] = o.in.p[threadIdx.x] * o.in.n; }
    __global__ void work(const float *in, double *out, int rounds) {
        float v = in[threadIdx.x]; double w = v;
        for (int k = 0; k < rounds; k++) { v = v * 2.f + 1.f; w = w / 3.0; }
        out[threadIdx.x] = v + w;
    }";

#[test]
fn exactly_the_blocks_accessed_are_marked() {
    let Some(cuda) = toolchain() else { return };
    let program = Program::build(&cuda, SOURCE, &Options::default());
    let mut arena = Arena::new(96);
    let map = arena.map(96);

    // 32 reads with a stride of one and a half pages, and 128 bytes written on one page.
    let (input, output, stride) = (arena.at::<f32>(0), arena.at::<f32>(80), 1536i32);
    let mut run = Run::new(1, 32);
    run.touch = Some(&map);
    run.launch(program.kernel("strided"), &[arg(&input), arg(&output), arg(&stride)]).unwrap();
    let mut expected: Vec<(usize, Touch)> = (0..32).map(|t| (t * 1536 * 4 / PAGE, READ)).collect();
    expected.push((80, WRITTEN));
    assert_eq!(map.touched().collect::<Vec<_>>(), expected);
    let clean = Touch { read: false, written: false };
    assert_eq!(map.outside(), clean, "shared, local and constant memory are not global memory");

    // A struct copy that reads across a page boundary: element 42 lies at bytes 4032 to 4128.
    map.reset();
    let (input, output, from, to) = (arena.at::<u8>(4), arena.at::<u8>(8), 42i32, 100i32);
    let args = [arg(&input), arg(&output), arg(&from), arg(&to)];
    let mut run = Run::new(1, 1);
    run.touch = Some(&map);
    let cost = run.launch(program.kernel("copies"), &args).unwrap();
    assert_eq!(map.touched().collect::<Vec<_>>(), [(4, READ), (5, READ), (10, WRITTEN)]);
    assert_eq!(cost.global_bytes, 2 * 96);

    // Atomics read and write; a `__device__` variable lies outside the device's memory.
    map.reset();
    let value = arena.at::<i32>(3);
    run.launch(program.kernel("add"), &[arg(&value)]).unwrap();
    assert_eq!(map.touched().collect::<Vec<_>>(), [(3, BOTH)]);
    assert_eq!(map.outside(), BOTH);

    map.reset();
    let none = 0i32;
    let cost = run.launch(program.kernel("nothing"), &[arg(&value), arg(&none)]).unwrap();
    assert_eq!((map.touched().count(), cost.global_bytes), (0, 0), "a branch not taken touches nothing");

    let outer = (arena.at::<f32>(11), 3i32, arena.at::<f32>(12));
    run.launch(program.kernel("through_struct"), &[arg(&outer)]).unwrap();
    assert_eq!(map.touched().collect::<Vec<_>>(), [(11, READ), (12, WRITTEN)]);
}

#[test]
fn workers_merge_their_marks_and_sums() {
    let Some(cuda) = toolchain() else { return };
    let source = "__global__ void fill(float *out, int blocks) {
        out[(blockIdx.x * 7 % blocks) * 1024 + threadIdx.x] = blockIdx.x;
    }";
    let program = Program::build(&cuda, source, &Options::default());
    let mut arena = Arena::new(64);
    let map = arena.map(64);
    let (out, blocks) = (arena.at::<f32>(0), 64i32);
    let mut run = Run::new(50, 256).workers(2);
    run.touch = Some(&map);
    let cost = run.launch(program.kernel("fill"), &[arg(&out), arg(&blocks)]).unwrap();
    let mut pages: Vec<usize> = (0..50).map(|b| b * 7 % 64).collect();
    pages.sort_unstable();
    assert_eq!(
        map.touched().collect::<Vec<_>>(),
        pages.into_iter().map(|p| (p, WRITTEN)).collect::<Vec<_>>()
    );
    assert_eq!(cost.global_bytes, 50 * 256 * 4);
}

#[test]
fn operations_are_counted_by_precision() {
    let Some(cuda) = toolchain() else { return };
    let program = Program::build(&cuda, SOURCE, &Options::default());
    let input = [1f32; 32];
    let mut output = [0f64; 32];
    let pointers = (input.as_ptr(), output.as_mut_ptr());
    let count = |rounds: i32| {
        let args = [arg(&pointers.0), arg(&pointers.1), arg(&rounds)];
        Run::new(1, 32).launch(program.kernel("work"), &args).unwrap()
    };
    let (ten, thirty) = (count(10), count(30));
    assert_eq!(thirty.flops32 - ten.flops32, 32 * 20 * 2, "a multiplication and an addition each round");
    assert_eq!(thirty.flops64 - ten.flops64, 32 * 20);
    assert_eq!((ten.global_bytes, thirty.global_bytes), (32 * 12, 32 * 12));
}

#[test]
fn instrumentation_can_be_left_out() {
    let Some(cuda) = toolchain() else { return };
    let options = Options { touch: false, counters: false, ..Options::default() };
    let program = Program::build(&cuda, SOURCE, &options);
    let mut arena = Arena::new(8);
    let map = arena.map(8);
    let (input, output, rounds) = (arena.at::<f32>(0), arena.at::<f64>(1), 3i32);
    let mut run = Run::new(1, 32);
    run.touch = Some(&map);
    let cost = run.launch(program.kernel("work"), &[arg(&input), arg(&output), arg(&rounds)]).unwrap();
    assert_eq!((map.touched().count(), cost), (0, eager_exec::LaunchCost::default()));
    assert_eq!(program.kernel("work").flags, 0);
}
