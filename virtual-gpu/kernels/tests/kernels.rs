//! CUDA kernels run on the CPU give what a CPU reference gives, in every mode and with any number of workers.

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
