//! Tests that optimisations left out of large kernels change no result, and that a note names them.

mod common;

use common::{Program, Run, arg, toolchain};
use eager_exec::TouchMap;
use eager_kernels::{Budget, Mode, Options};

/// A kernel with a guard, barriers, loads that may be vectorised, straight code, and stores by all threads and by some.
const SOURCE: &str = "__global__ void mixed(float *out, const float *in, int n) {
    __shared__ float s[64];
    int l = threadIdx.x, i = blockIdx.x * blockDim.x + l;
    float v[8];
    #pragma unroll
    for (int k = 0; k < 8; k++) v[k] = i < n ? in[i * 8 + k] : 0.f;
    for (int round = 0; round < 3; round++) {
        s[l] = v[round];
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < 8; k++) v[k] = v[k] * v[(k + 3) & 7] + s[(l + k) & 63];
        __syncthreads();
    }
    if (i < n) {
        #pragma unroll
        for (int k = 0; k < 8; k++) out[i * 8 + k] = v[k];
    }
}
__global__ void plain(float *out, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    #pragma unroll
    for (int k = 0; k < 8; k++) { float y = in[i + k * 37]; if (y > x) out[i + k * n] = x + y; x += y * 0.5f; }
}";

/// Bits of the values that both kernels write, the numbers that they report, and the memory that they mark.
fn results(program: &Program, marked: bool) -> (Vec<u32>, Vec<String>) {
    let n = 150i32;
    let inputs = (n * 8 + 400) as usize;
    let mut memory: Vec<f32> = (0..inputs as i32).map(|i| ((i * 37) % 101) as f32 * 0.01 - 0.3).collect();
    memory.resize(inputs + (n * 16) as usize, -1.0);
    let start = memory.as_mut_ptr();
    let mut told = Vec::new();
    for (kernel, offset) in [("mixed", inputs), ("plain", inputs + (n * 8) as usize)] {
        let (input, out) = (start.cast_const(), start.wrapping_add(offset));
        let args = [arg(&out), arg(&input), arg(&n)];
        let map = TouchMap::new(start as u64, 4 * memory.len() as u64, 6);
        let run = Run { touch: marked.then_some(&map), ..Run::new(3, 64) };
        told.push(format!("{:?}", run.launch(program.kernel(kernel), &args).unwrap()));
        let touched = map.touched().collect::<Vec<_>>();
        assert_eq!(touched.is_empty(), !marked);
        told.push(format!("{touched:?}"));
    }
    (memory.into_iter().map(f32::to_bits).collect(), told)
}

#[test]
fn results_do_not_depend_on_what_is_left_out() {
    let Some(cuda) = toolchain() else { return };
    for mode in [Mode::Auto, Mode::Coroutine] {
        let with = |budget| Options { mode, budget, ..Options::default() };
        let whole = Program::build(&cuda, SOURCE, &with(Budget::default()));
        assert_eq!(whole.converted.report.notes, []);
        let least = Program::build(&cuda, SOURCE, &with(Budget::NOTHING));
        for marked in [false, true] {
            assert_eq!(results(&whole, marked), results(&least, marked), "{mode:?}, marked: {marked}");
        }
    }
}

#[test]
fn a_note_says_what_is_left_out() {
    let Some(cuda) = toolchain() else { return };
    let told = |budget| {
        let notes =
            Program::build(&cuda, SOURCE, &Options { budget, ..Options::default() }).converted.report.notes;
        notes.into_iter().map(|note| note.text).collect::<Vec<_>>().join("\n")
    };
    let guards = told(Budget { guards: 0, ..Budget::default() });
    assert!(guards.contains("comparisons of the index") && !guards.contains("version"), "{guards}");
    let versions = told(Budget { guards: 0, versions: 0, ..Budget::default() });
    assert!(versions.contains("one version") && !versions.contains("optimised"), "{versions}");
    let all = told(Budget::NOTHING);
    assert!(all.contains("kernel mixed is large") && all.contains("optimised as with -O1"), "{all}");
}

/// Each return was a final suspension of its own, of which LLVM takes one, and only the passes of `-O3` joined them.
#[test]
fn a_coroutine_may_end_in_several_places_however_little_is_optimised() {
    const ENDS: &str = "__global__ void ends(int *x, int n) {
        __shared__ int s[64];
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        if (threadIdx.x < n) { x[threadIdx.x] = 1; asm volatile(\"exit;\"); }
        __syncthreads();
        if (s[63 - threadIdx.x] > 40) { x[threadIdx.x] = 2; asm volatile(\"exit;\"); }
        __syncthreads();
        x[threadIdx.x] = s[threadIdx.x] + 100;
    }";
    let Some(cuda) = toolchain() else { return };
    for budget in [Budget::default(), Budget { optimiser: 0, ..Budget::default() }] {
        let options = Options { mode: Mode::Coroutine, budget, ..Options::default() };
        let program = Program::build(&cuda, ENDS, &options);
        let mut x: Vec<i32> = (0..64).collect();
        let (start, n) = (x.as_mut_ptr(), 5i32);
        Run::new(1, 64).launch(program.kernel("ends"), &[arg(&start), arg(&n)]).unwrap();
        let expected = |t: i32| {
            if t < 5 {
                1
            } else if 63 - t > 40 {
                2
            } else {
                t + 100
            }
        };
        assert_eq!(x, (0..64).map(expected).collect::<Vec<_>>(), "{budget:?}");
    }
}

/// Such a kernel grows much more than one without operations of the warp.
#[test]
fn a_kernel_cut_at_many_operations_of_the_warp_has_one_version() {
    const SHUFFLES: &str = "__global__ void mixed(int *x) {
        int v = x[threadIdx.x];
        #pragma unroll
        for (int k = 0; k < COUNT; k++) { v = (v ^ __shfl_xor_sync(~0u, v, k & 31)) * 5 + k; v = (v >> 3) * (v ^ x[k]) + (v << 7 ^ v);
            v = (v >> 5) * (v ^ x[k + 64]) + (v << 9 ^ v);
            v = (v >> 7) * (v ^ x[k + 128]) + (v << 3 ^ v);
            v = (v >> 2) * (v ^ x[k + 192]) + (v << 5 ^ v); }
        x[threadIdx.x] = v;
    }";
    let Some(cuda) = toolchain() else { return };
    for (count, is_told) in [("30", false), ("60", true)] {
        let program = Program::build(&cuda, &SHUFFLES.replace("COUNT", count), &Options::default());
        let notes: String = program.converted.report.notes.iter().map(|note| note.text.as_str()).collect();
        assert_eq!(notes.contains("one version serves"), is_told, "{count}: {notes}");
    }
}

/// One access for each lane took as much code as 32 accesses: sorts of a block by CUB were six times as large.
#[test]
fn many_scattered_accesses_of_a_warp_take_little_more_code_than_accesses_in_a_row() {
    const TABLE: &str = "__global__ void table(int *x) {
        __shared__ int s[1024];
        int t = threadIdx.x, v[16];
        #pragma unroll
        for (int k = 0; k < 16; k++) v[k] = x[k * 32 + t];
        #pragma unroll
        for (int k = 0; k < 16; k++) s[PLACE] = v[k];
        __syncwarp();
        int u = 0;
        #pragma unroll
        for (int k = 0; k < 16; k++) u = u * 3 + s[PLACE] * (k + 1);
        x[t] = __shfl_xor_sync(~0u, u, 1);
    }";
    let Some(cuda) = toolchain() else { return };
    let size = |place: &str| {
        let program = Program::build(&cuda, &TABLE.replace("PLACE", place), &Options::default());
        program.converted.bitcode.len()
    };
    let (rows, scattered) = (size("k * 32 + t"), size("v[k] & 1023"));
    assert!(scattered < 2 * rows, "{scattered} bytes, {rows} where accesses are in rows");
}
