//! Compares CUDA kernels run on the CPU with a CPU reference, in every mode and with any number of workers.

mod common;

use common::{Program, Run, arg, toolchain};
use eager_kernels::{KernelMode, Mode, Options};

fn coroutines() -> Options {
    Options { mode: Mode::Coroutine, ..Options::default() }
}

#[test]
fn vector_addition() {
    let Some(cuda) = toolchain() else { return };
    let source = "__global__ void vecadd(const float *a, const float *b, float *c, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) c[i] = a[i] + b[i];
    }";
    let n = 10_000i32;
    let a: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
    let b: Vec<f32> = (0..n).map(|i| 1.0 / (1 + i) as f32).collect();
    let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    for (options, mode) in [(Options::default(), KernelMode::Loop), (coroutines(), KernelMode::Coroutine)] {
        let program = Program::build(&cuda, source, &options);
        assert_eq!(program.converted.report.kernels[0].mode, mode);
        for workers in [1, 2] {
            let mut c = vec![-1.0f32; n as usize + 1];
            let (pa, pb, pc) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
            let args = [arg(&pa), arg(&pb), arg(&pc), arg(&n)];
            let cost = Run::new(40, 256).workers(workers).launch(program.kernel("vecadd"), &args).unwrap();
            assert_eq!(c[..n as usize], expected);
            assert_eq!(c[n as usize], -1.0, "threads beyond the end write nothing");
            assert_eq!((cost.global_bytes, cost.flops32, cost.flops64), (12 * n as u64, n as u64, 0));
        }
    }
}

#[test]
fn reduction_in_static_and_dynamic_shared_memory() {
    let Some(cuda) = toolchain() else { return };
    let source = "__global__ void fixed(const float *in, float *out) {
        __shared__ float s[256];
        int t = threadIdx.x;
        s[t] = in[blockIdx.x * 256 + t];
        __syncthreads();
        for (int k = 128; k; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
        if (t == 0) out[blockIdx.x] = s[0];
    }
    __global__ void both(const float *in, float *out) {
        __shared__ double scale; __shared__ char odd[3];
        extern __shared__ float s[];
        int t = threadIdx.x, n = blockDim.x;
        if (t == 0) { scale = 2.0; odd[0] = 1; }
        s[t] = in[blockIdx.x * n + t];
        __syncthreads();
        for (int k = n / 2; k; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
        if (t == 0) out[blockIdx.x] = s[0] * scale * odd[0];
    }";
    let program = Program::build(&cuda, source, &Options::default());
    let input: Vec<f32> = (0..64 * 256).map(|i| (i % 17) as f32).collect();
    let sums: Vec<f32> = input.chunks(256).map(|block| block.iter().sum()).collect();
    for workers in [1, 2] {
        let mut out = vec![0f32; 64];
        let (pi, po) = (input.as_ptr(), out.as_mut_ptr());
        let args = [arg(&pi), arg(&po)];
        assert_eq!(program.kernel("fixed").static_shared_bytes, 1024);
        Run::new(64, 256).workers(workers).launch(program.kernel("fixed"), &args).unwrap();
        assert_eq!(out, sums);
        assert_eq!(program.kernel("both").static_shared_bytes, 11);
        Run::new(64, 256).shared(1024).workers(workers).launch(program.kernel("both"), &args).unwrap();
        assert_eq!(out, sums.iter().map(|s| s * 2.0).collect::<Vec<_>>());
    }
}

#[test]
fn stencil_in_tiles_of_16_by_16() {
    let Some(cuda) = toolchain() else { return };
    let source = "__global__ void stencil(const float *in, float *out, int w, int h) {
        __shared__ float t[18][18];
        int lx = threadIdx.x + 1, ly = threadIdx.y + 1;
        int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
        auto at = [&](int x, int y) { return x < 0 || y < 0 || x >= w || y >= h ? 0.f : in[y * w + x]; };
        t[ly][lx] = at(x, y);
        if (lx == 1) t[ly][0] = at(x - 1, y);
        if (lx == 16) t[ly][17] = at(x + 1, y);
        if (ly == 1) t[0][lx] = at(x, y - 1);
        if (ly == 16) t[17][lx] = at(x, y + 1);
        __syncthreads();
        if (x < w && y < h)
            out[y * w + x] = 0.25f * (t[ly - 1][lx] + t[ly + 1][lx] + t[ly][lx - 1] + t[ly][lx + 1]);
    }";
    let (w, h) = (70i32, 45i32);
    let input: Vec<f32> = (0..w * h).map(|i| ((i * 37) % 101) as f32).collect();
    let at = |x: i32, y: i32| match (x, y) {
        (x, y) if x < 0 || y < 0 || x >= w || y >= h => 0.0,
        (x, y) => input[(y * w + x) as usize],
    };
    let expected: Vec<f32> = (0..w * h)
        .map(|i| (i % w, i / w))
        .map(|(x, y)| 0.25 * (at(x, y - 1) + at(x, y + 1) + at(x - 1, y) + at(x + 1, y)))
        .collect();
    let program = Program::build(&cuda, source, &Options::default());
    for workers in [1, 2] {
        let mut out = vec![0f32; (w * h) as usize];
        let (pi, po) = (input.as_ptr(), out.as_mut_ptr());
        let run = Run { grid: [5, 3, 1], block: [16, 16, 1], ..Run::new(1, 1) }.workers(workers);
        run.launch(program.kernel("stencil"), &[arg(&pi), arg(&po), arg(&w), arg(&h)]).unwrap();
        assert_eq!(out, expected);
    }
}

/// Kernels in which threads reach barriers differently: some never, some by another path, some in another round.
const UNLIKE_BARRIERS: &str = "__global__ void early(int *out, int n) {
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t >= n) return;
    s[t] = t + 1;
    __syncthreads();
    out[t] = s[n - 1 - t];
}
__global__ void uniform_loop(int *out, int rounds) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = t;
    for (int r = 0; r < rounds; r++) {
        __syncthreads();
        int v = s[(t + 1) % 64];
        __syncthreads();
        s[t] = v;
    }
    out[t] = s[t];
}
__global__ void until(int *out) {
    __shared__ int done, steps;
    int t = threadIdx.x, mine = 0;
    if (t == 0) { done = 0; steps = 0; }
    __syncthreads();
    while (true) {
        if (done) break;
        mine += t;
        __syncthreads();
        if (t == 0 && ++steps == 5) done = 1;
        __syncthreads();
    }
    out[t] = mine;
}
__global__ void divergent(int *out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t & 1) { s[t] = 10 * t; __syncthreads(); }
    else { s[t] = -t; __syncthreads(); }
    out[t] = s[t ^ 1];
}
static __device__ int relay;
__global__ void hand_on(int *out) {
    int t = threadIdx.x, sum = 0;
    for (int k = 0; k < 8; k++) {
        if (t == 8 * k) relay = 1 << k;
        __syncthreads();
        sum += relay;
        __syncthreads();
    }
    out[t] = sum;
}";

#[test]
fn barriers_that_not_all_threads_reach_alike() {
    let Some(cuda) = toolchain() else { return };
    let program = Program::build(&cuda, UNLIKE_BARRIERS, &Options::default());
    let run = |name: &str, n: Option<i32>| {
        let mut out = vec![-7i32; 64];
        let (po, n) = (out.as_mut_ptr(), n);
        let mut args = vec![arg(&po)];
        args.extend(n.as_ref().map(arg));
        Run::new(1, 64).launch(program.kernel(name), &args).unwrap();
        out
    };
    let expect = |f: &dyn Fn(i32) -> i32| (0..64).map(f).collect::<Vec<i32>>();
    assert_eq!(run("early", Some(40)), expect(&|t| if t < 40 { 40 - t } else { -7 }));
    assert_eq!(run("uniform_loop", Some(5)), expect(&|t| (t + 5) % 64));
    assert_eq!(run("until", None), expect(&|t| 5 * t));
    assert_eq!(
        run("hand_on", None),
        expect(&|_| 255),
        "a variable that only kernels see changes at barriers too"
    );
    assert_eq!(run("divergent", None), expect(&|t| if t & 1 == 1 { -(t ^ 1) } else { 10 * (t ^ 1) }));
}

#[test]
fn atomics() {
    let Some(cuda) = toolchain() else { return };
    let source = "__global__ void atomics(int *i, float *f, double *d, unsigned long long *slots, int *scoped) {
        int t = blockIdx.x * blockDim.x + threadIdx.x;
        atomicAdd(&i[0], t); atomicMax(&i[1], t); atomicMin(&i[2], -t); atomicSub(&i[3], 1); atomicExch(&i[4], 9);
        atomicAdd(f, 0.5f); atomicAdd(d, 0.25);
        unsigned long long old = *slots, seen;
        do { seen = old; old = atomicCAS(slots, seen, seen + 3); } while (old != seen);
        atomicAdd_block(&scoped[0], 2); atomicCAS_system(&scoped[1], 0, t + 1);
    }";
    let program = Program::build(&cuda, source, &Options::default());
    let n = 64 * 256i32;
    let (mut i, mut f, mut d, mut slots, mut scoped) = ([0i32; 5], 0f32, 0f64, 0u64, [0i32; 2]);
    let pointers = (i.as_mut_ptr(), &raw mut f, &raw mut d, &raw mut slots, scoped.as_mut_ptr());
    let args = [arg(&pointers.0), arg(&pointers.1), arg(&pointers.2), arg(&pointers.3), arg(&pointers.4)];
    Run::new(64, 256).workers(2).launch(program.kernel("atomics"), &args).unwrap();
    assert_eq!(i, [n * (n - 1) / 2, n - 1, -(n - 1), -n, 9]);
    assert_eq!((f, d, slots), (n as f32 * 0.5, f64::from(n) * 0.25, 3 * n as u64));
    assert_eq!(scoped[0], 2 * n);
    assert!((1..=n).contains(&scoped[1]), "some thread's value was first: {}", scoped[1]);
}

#[test]
fn three_dimensional_blocks_and_grids() {
    let Some(cuda) = toolchain() else { return };
    let source = "__global__ void index(unsigned *out) {
        unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        __shared__ unsigned s[1024];
        s[t] = 1000000 * threadIdx.z + 1000 * threadIdx.y + threadIdx.x;
        __syncthreads();
        out[b * blockDim.x * blockDim.y * blockDim.z + t] = s[t] + 100000000 * blockIdx.z + 10000000 * blockIdx.y;
    }";
    let program = Program::build(&cuda, source, &Options::default());
    let (grid, block) = ([3u32, 2, 2], [16u32, 8, 8]);
    let mut out = vec![0u32; 12 * 1024];
    let po = out.as_mut_ptr();
    Run { grid, block, ..Run::new(1, 1) }.workers(2).launch(program.kernel("index"), &[arg(&po)]).unwrap();
    for (i, value) in out.into_iter().enumerate() {
        let (b, t) = (i as u32 / 1024, i as u32 % 1024);
        let thread = 1_000_000 * (t / 128) + 1000 * (t / 16 % 8) + t % 16;
        assert_eq!(value, thread + 100_000_000 * (b / 6) + 10_000_000 * (b / 3 % 2), "element {i}");
    }
}

#[repr(C)]
struct Scale {
    count: i32,
    factors: [f32; 5],
    offset: f64,
}

#[test]
fn structs_by_value_variables_and_local_arrays() {
    let Some(cuda) = toolchain() else { return };
    let source = "struct Scale { int count; float factors[5]; double offset; };
    __constant__ float table[4];
    __device__ int hits = 100;
    __device__ float unused_by_kernels[3] = {1, 2, 3};
    __global__ void read_only(Scale s, float *out) { out[threadIdx.x] = s.factors[threadIdx.x % s.count] + s.offset; }
    __global__ void written(Scale s, float *out) {
        int t = threadIdx.x;
        s.factors[t % s.count] += t;
        __syncthreads();
        out[t] = s.factors[0] + s.factors[1] * table[t % 4];
        atomicAdd(&hits, 1);
    }
    template <class T, int N> __global__ void local(T *out) {
        T a[N];
        for (int i = 0; i < N; i++) a[i] = (i * 7 + threadIdx.x) % N;
        __syncthreads();
        T sum = 0;
        for (int i = 0; i < N; i++) sum = sum * 3 + a[(int)a[i]];
        out[threadIdx.x] = sum;
    }
    template __global__ void local<int, 13>(int *);";
    let program = Program::build(&cuda, source, &Options::default());
    let scale = Scale { count: 5, factors: [1.0, 2.0, 3.0, 4.0, 5.0], offset: 0.5 };
    assert_eq!(program.converted.report.kernels[0].params[0].size as usize, size_of::<Scale>());
    let mut out = vec![0f32; 32];
    let po = out.as_mut_ptr();
    Run::new(1, 32).launch(program.kernel("read_only"), &[arg(&scale), arg(&po)]).unwrap();
    assert!(out.iter().enumerate().all(|(t, &v)| v == scale.factors[t % 5] + 0.5), "{out:?}");

    let table = program.variable("table");
    assert_eq!(table.bytes, 16);
    // SAFETY: the variable is 16 bytes large and no kernel runs now.
    unsafe { table.address.cast::<[f32; 4]>().write([1.0, 10.0, 100.0, 1000.0]) };
    Run::new(1, 32).launch(program.kernel("written"), &[arg(&scale), arg(&po)]).unwrap();
    for (t, &value) in out.iter().enumerate() {
        let mut factors = scale.factors;
        factors[t % 5] += t as f32;
        assert_eq!(value, factors[0] + factors[1] * 10f32.powi(t as i32 % 4), "thread {t}");
    }
    // SAFETY: as above; the initial values are those of the source.
    unsafe {
        assert_eq!(program.variable("hits").address.cast::<i32>().read(), 132);
        assert_eq!(program.variable("unused_by_kernels").address.cast::<[f32; 3]>().read(), [1.0, 2.0, 3.0]);
    }

    let mut sums = vec![0i32; 64];
    let ps = sums.as_mut_ptr();
    Run::new(1, 64).launch(program.kernel("local"), &[arg(&ps)]).unwrap();
    for (t, &sum) in sums.iter().enumerate() {
        let a: Vec<usize> = (0..13).map(|i| (i * 7 + t) % 13).collect();
        assert_eq!(
            sum,
            a.iter().fold(0i32, |sum, &i| sum.wrapping_mul(3).wrapping_add(a[i] as i32)),
            "thread {t}"
        );
    }
}

#[test]
fn mathematics() {
    let Some(cuda) = toolchain() else { return };
    let source = "__global__ void single(const float *x, float *y, int *n) {
        int t = threadIdx.x; float v = x[t];
        float r[] = {sinf(v), cosf(v), expf(v), logf(v), powf(v, 1.5f), sqrtf(v), fabsf(-v), fmodf(v, 0.7f), floorf(v),
            ceilf(v), fminf(v, 2.f), fmaxf(v, 2.f), rsqrtf(v), exp2f(v), log2f(v), log10f(v), tanhf(v), atan2f(v, 2.f),
            __expf(v), __logf(v), __sinf(v), __powf(v, 2.5f), __fdividef(v, 3.f), fmaf(v, 2.f, 1.f), roundf(v), hypotf(v, 1.f)};
        for (int i = 0; i < 26; i++) y[i * 32 + t] = r[i];
        n[t] = __powf(2, t % 16);
        n[32 + t] = __float2int_rn(v) + 100 * __float2int_rz(v) + 10000 * isnan(v) + 100000 * __popc(t) + 10000000 * __clz(t + 1);
    }
    __global__ void both(const double *x, double *y) {
        int t = threadIdx.x; double v = x[t], s, c;
        sincos(v, &s, &c);
        double r[] = {exp(v), log(v), pow(v, 1.5), sqrt(v), fabs(-v), fmod(v, 0.7), rsqrt(v), exp2(v), s, c, fmin(v, 2.0), fmax(v, 2.0), erf(v), cbrt(v)};
        for (int i = 0; i < 14; i++) y[i * 32 + t] = r[i];
    }";
    let program = Program::build(&cuda, source, &Options::default());
    let x: Vec<f32> = (0..32).map(|t| 0.3 + 0.37 * t as f32).collect();
    let (mut y, mut n) = (vec![0f32; 26 * 32], vec![0i32; 64]);
    let pointers = (x.as_ptr(), y.as_mut_ptr(), n.as_mut_ptr());
    Run::new(1, 32)
        .launch(program.kernel("single"), &[arg(&pointers.0), arg(&pointers.1), arg(&pointers.2)])
        .unwrap();
    for (t, &v) in x.iter().enumerate() {
        #[rustfmt::skip]
        let expected = [v.sin(), v.cos(), v.exp(), v.ln(), v.powf(1.5), v.sqrt(), v, v % 0.7, v.floor(), v.ceil(),
            v.min(2.0), v.max(2.0), 1.0 / v.sqrt(), v.exp2(), v.log2(), v.log10(), v.tanh(), v.atan2(2.0), v.exp(),
            v.ln(), v.sin(), v.powf(2.5), v / 3.0, v.mul_add(2.0, 1.0), v.round(), v.hypot(1.0)];
        for (i, expected) in expected.into_iter().enumerate() {
            let got = y[i * 32 + t];
            assert!(
                (got - expected).abs() <= 2e-7 * expected.abs(),
                "function {i} of {v}: {got}, not {expected}"
            );
        }
        assert_eq!(n[t], 1 << (t % 16), "a small power of two is exact");
        let bits = 100_000 * t.count_ones() as i32 + 10_000_000 * (t as u32 + 1).leading_zeros() as i32;
        assert_eq!(n[32 + t], v.round_ties_even() as i32 + 100 * (v as i32) + bits);
    }
    let x: Vec<f64> = x.into_iter().map(f64::from).collect();
    let mut y = vec![0f64; 14 * 32];
    let pointers = (x.as_ptr(), y.as_mut_ptr());
    Run::new(1, 32).launch(program.kernel("both"), &[arg(&pointers.0), arg(&pointers.1)]).unwrap();
    for (t, &v) in x.iter().enumerate() {
        #[rustfmt::skip]
        let expected = [v.exp(), v.ln(), v.powf(1.5), v.sqrt(), v, v % 0.7, 1.0 / v.sqrt(), v.exp2(), v.sin(), v.cos(),
            v.min(2.0), v.max(2.0)];
        for (i, expected) in expected.into_iter().enumerate() {
            let got = y[i * 32 + t];
            assert!(
                (got - expected).abs() <= 1e-15 * expected.abs(),
                "function {i} of {v}: {got}, not {expected}"
            );
        }
        assert!((y[13 * 32 + t] - v.cbrt()).abs() < 1e-14);
    }
}

#[test]
fn coroutines_agree_with_loops_bit_for_bit() {
    let Some(cuda) = toolchain() else { return };
    let source = "__global__ void chaos(const float *in, float *out, double *wide, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        float v = in[i]; double w = v;
        for (int k = 0; k < 40; k++) {
            v = 3.9f * v * (1.f - v) + 1e-3f * sinf(v);
            w = w * w - 1.3 + in[(i + k) % n];
            if (w > 2.0) w = 1.0 / w;
        }
        out[i] = v; wide[i] = w;
    }";
    let n = 5000i32;
    let input: Vec<f32> = (0..n).map(|i| (i as f32 + 0.5) / n as f32).collect();
    let results = [Options::default(), coroutines()].map(|options| {
        let program = Program::build(&cuda, source, &options);
        let (mut out, mut wide) = (vec![0f32; n as usize], vec![0f64; n as usize]);
        let pointers = (input.as_ptr(), out.as_mut_ptr(), wide.as_mut_ptr());
        let args = [arg(&pointers.0), arg(&pointers.1), arg(&pointers.2), arg(&n)];
        let cost = Run::new(40, 128).workers(2).launch(program.kernel("chaos"), &args).unwrap();
        let bits: Vec<(u32, u64)> = out.iter().zip(&wide).map(|(v, w)| (v.to_bits(), w.to_bits())).collect();
        (bits, cost)
    });
    assert!(results[0].0.iter().any(|&(v, _)| v != 0));
    assert_eq!(results[0], results[1]);
}

#[test]
fn unoptimised_source_with_debug_information_works_too() {
    let Some(cuda) = toolchain() else { return };
    let source = "struct Pair { int a, b; __device__ int sum() const { return a + b; } };
    __device__ int twice(Pair p) { __shared__ int s[32]; s[threadIdx.x] = p.sum(); __syncthreads();
        return s[31 - threadIdx.x] * 2; }
    __global__ void debug(int *out) { Pair p = {int(threadIdx.x), 3}; out[threadIdx.x] = twice(p); }";
    let program = Program::build_with(&cuda, source, &["-O0", "-g"], &Options::default()).unwrap();
    let mut out = vec![0i32; 32];
    let po = out.as_mut_ptr();
    Run::new(1, 32).launch(program.kernel("debug"), &[arg(&po)]).unwrap();
    assert_eq!(out, (0..32).map(|t| 2 * (31 - t + 3)).collect::<Vec<i32>>());
}

#[test]
fn kernels_without_parameters_files_without_kernels_and_printf() {
    let Some(cuda) = toolchain() else { return };
    let empty = Program::build(&cuda, "__device__ int only = 7;", &Options::default());
    assert_eq!((empty.converted.report.kernels.len(), empty.variable("only").bytes), (0, 4));
    let source = "#include <cstdio>
    __device__ int told;
    __global__ void speak() {
        int conversions = printf(\"thread %d of %s: %5.2f%%\\n\", threadIdx.x, \"block\", 12.5);
        atomicAdd(&told, conversions);
    }";
    let program = Program::build(&cuda, source, &Options::default());
    Run::new(1, 2).launch(program.kernel("speak"), &[]).unwrap();
    // SAFETY: an `int` of the program, and no kernel runs now.
    assert_eq!(unsafe { program.variable("told").address.cast::<i32>().read() }, 6);
}

#[test]
fn a_pointer_chase_in_one_block_and_loops_of_one_block_around_barriers_are_translated() {
    let Some(cuda) = toolchain() else { return };
    // A loop of a single block whose address is a value of that loop: the value that replaces it must survive the
    // block's cut.
    let source = "struct Part { Part *next; long pad; };
    __global__ void chase(Part *p, Part **r) { Part *a = p; while (a->next) a = a->next; *r = a; }
    __global__ void turns(Part *p, Part **r, int n) {
        Part *a = p, *b = p->next;
        do { Part *t = a->next; a = b->next; b = t; } while (--n);
        r[0] = a; __syncthreads(); r[1] = b;
    }
    __global__ void around(float *x, int n) {
        __shared__ float s[64];
        for (int i = 0;;) {
            s[threadIdx.x] = x[threadIdx.x]; __syncthreads();
            x[threadIdx.x] = s[63 - threadIdx.x] + 1; __syncthreads();
            if (++i >= n) break;
        }
    }";
    for mode in [Mode::Auto, Mode::Loops, Mode::Fission, Mode::Coroutine] {
        let program = Program::build(&cuda, source, &Options { mode, ..Options::default() });
        assert_eq!(program.converted.report.notes, []);
        // The links of a ring, cut open at the last one.
        let mut parts = [[0usize; 2]; 8];
        let address = |index: usize| parts.as_ptr().wrapping_add(index) as usize;
        let links: Vec<usize> = (0..8).map(|n| if n < 7 { address(n + 1) } else { 0 }).collect();
        let at: Vec<usize> = (0..8).map(address).collect();
        for (part, link) in parts.iter_mut().zip(links) {
            part[0] = link;
        }
        let (first, mut found) = (parts.as_ptr(), [0usize; 2]);
        let result = found.as_mut_ptr();
        let n = 2i32;
        Run::new(1, 1).launch(program.kernel("chase"), &[arg(&first), arg(&result)]).unwrap();
        // SAFETY: `result` is `found`'s own address, and the launch has ended.
        assert_eq!(unsafe { *result }, at[7], "{mode:?}");
        Run::new(1, 1).launch(program.kernel("turns"), &[arg(&first), arg(&result), arg(&n)]).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { [*result, *result.add(1)] }, [at[2], at[3]], "{mode:?}");
        let mut x: Vec<f32> = (0..64).map(|i| i as f32).collect();
        let px = x.as_mut_ptr();
        Run::new(1, 64).launch(program.kernel("around"), &[arg(&px), arg(&n)]).unwrap();
        assert_eq!(x, (0..64).map(|i| i as f32 + 2.0).collect::<Vec<_>>(), "{mode:?}");
    }
}

#[test]
fn variables_lie_in_whole_pages_with_their_initial_values_aligned() {
    let Some(cuda) = toolchain() else { return };
    let source = "struct alignas(64) Wide { int number; };
    __device__ char odd = 1;
    __device__ Wide wide = {3};
    __device__ Wide *pointer = &wide;
    __device__ char zeros[5000];
    __constant__ double setting;
    __global__ void use() { pointer->number += odd + zeros[0] + (int)setting; }";
    let program = Program::build(&cuda, source, &Options::default());
    let [initialised, zeroed] = program.memory();
    assert_eq!((initialised.1, zeroed.1), (4096, 8192));
    for (names, (start, bytes)) in
        [(&["odd", "wide", "pointer"][..], initialised), (&["zeros", "setting"], zeroed)]
    {
        assert_eq!(start % 4096, 0);
        for name in names {
            let (at, size) = (program.variable(name).address.addr() as u64, program.variable(name).bytes);
            assert!(start <= at && at + size <= start + bytes, "{name} at {at:#x}");
        }
    }
    let wide = program.variable("wide").address;
    assert_eq!(wide.addr() % 64, 0);
    Run::new(1, 1).launch(program.kernel("use"), &[]).unwrap();
    // SAFETY: the variables have these types, and no kernel runs now.
    let (number, pointer) = unsafe {
        (
            wide.cast::<i32>().read(),
            program.variable("pointer").address.cast::<*mut std::ffi::c_void>().read(),
        )
    };
    assert_eq!((number, pointer), (4, wide));
}
