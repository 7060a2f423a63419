//! Threads of a block that wait at `__syncthreads()` in different places: an error of strict mode, and a warning
//! without it where the kernel's form sees it.

mod common;

use common::{Program, Run, arg, toolchain};
use eager_exec::strict::{Known, Parted, SpaceKind, Strict};
use eager_exec::{LaunchCost, LaunchFailure};
use eager_kernels::{Mode, Options};
use parking_lot::Mutex;

/// Kernels in which threads part, with the thread that is seen first at another barrier, and both lines.
const PARTS: &str = "
__global__ void either(int *out, int from) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = from;
    __syncthreads();
    if (threadIdx.x < from)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = sum;
}
__device__ void meet() { __syncthreads(); }
__global__ void inside(int *out, int from) {
    if (out[threadIdx.x] < from)
        meet();
    out[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x ^ 1] = 2;
}
__global__ void shuffles(int *out, int from) {
    int value = __shfl_xor_sync(~0u, out[threadIdx.x], 1);
    if (threadIdx.x < from)
        __syncthreads();
    out[threadIdx.x] = value;
    __syncthreads();
    out[threadIdx.x ^ 1] = 2;
}";
const LINES: [(&str, [u32; 2]); 3] = [("either", [7, 9]), ("inside", [12, 17]), ("shuffles", [23, 25])];

/// Kernels that are right.
const MEETS: &str = "
__global__ void leaves(int *out, int n) {
    __shared__ int all[64];
    if (threadIdx.x >= n) return;
    all[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = all[n - 1 - threadIdx.x];
    __syncthreads();
    all[threadIdx.x] = 1;
}
__global__ void one_line(int *out, int n) {
    for (int i = 0; i < 3; i++) { out[threadIdx.x] += i; __syncthreads(); }
    if (threadIdx.x < n) { out[threadIdx.x] = 3; __syncthreads(); } else { __syncthreads(); out[threadIdx.x] = 4; }
}
__global__ void handed_over(int *out, int n) {
    if (threadIdx.x < 32) {
        out[threadIdx.x] = n;
        asm volatile(\"bar.sync 0;\" ::: \"memory\");
    } else {
        asm volatile(\"bar.sync 0;\" ::: \"memory\");
        out[threadIdx.x] = out[threadIdx.x - 32];
    }
    __syncthreads();
}
__global__ void same_for_all(int *out, int n) {
    if (n > 3) __syncthreads(); else __syncthreads();
    out[threadIdx.x] = __syncthreads_or(threadIdx.x == n);
    __syncthreads();
}";

const MODES: [Mode; 3] = [Mode::Auto, Mode::Fission, Mode::Coroutine];

fn launch(
    program: &Program,
    name: &str,
    strict: Option<&Mutex<Strict>>,
) -> (Result<LaunchCost, LaunchFailure>, Option<[String; 2]>) {
    let mut out: Vec<i32> = (0..64).collect();
    let at = out.as_mut_ptr();
    if let Some(strict) = strict {
        let (start, kind) = (at as u64, SpaceKind::Managed);
        strict.lock().memory.update(vec![Known { start, bytes: 256, kind, identity: 1 }]);
    }
    let run = Run { strict, ..Run::new(1, 64) };
    let executor = run.executor();
    let done = run.launch_on(&executor, program.kernel(name), &[arg(&at), arg(&40i32)]);
    (done, executor.take_parted())
}

fn built(source: &str, mode: Mode, strict: bool) -> Option<Program> {
    let options = Options { strict, mode, ..Options::default() };
    Some(Program::build_with(&toolchain()?, source, &["-Rpass-analysis=places"], &options).unwrap())
}

/// True if one place is in each line, whatever their order.
fn are_at(places: &[String; 2], lines: [u32; 2]) -> bool {
    let is_in = |line: u32| {
        let one = format!("/test.cu:{line}");
        places.iter().any(|place| place.ends_with(&one) || place.contains(&format!("{one} (")))
    };
    lines.into_iter().all(is_in)
}

#[test]
fn strict_mode_names_two_threads_and_their_barriers() {
    let strict = Mutex::<Strict>::new(Strict::with_races(eager_exec::races::Detector::new(None)));
    for mode in MODES {
        let Some(program) = built(PARTS, mode, true) else { return };
        for (name, lines) in LINES {
            let (done, warned) = launch(&program, name, Some(&strict));
            let Err(LaunchFailure::Parted(parted)) = done else { panic!("{name} {mode:?}: {done:?}") };
            assert!(are_at(&parted.places, lines), "{name} {mode:?}: {parted}");
            let Parted { threads: [[one, ..], [other, ..]], block: [0, 0, 0], .. } = *parted else {
                panic!("{name} {mode:?}: {parted}")
            };
            assert!((one < 40) != (other < 40), "{name} {mode:?}: {parted}");
            assert_eq!(warned, None);
        }
    }
}

#[test]
fn without_strict_mode_the_launch_goes_on_and_says_the_lines() {
    for mode in MODES {
        let Some(program) = built(PARTS, mode, false) else { return };
        for (name, lines) in LINES {
            let (done, warned) = launch(&program, name, None);
            done.unwrap_or_else(|failure| panic!("{name} {mode:?}: {failure}"));
            // Not seen: kernels with operations of the warp that run warp by warp, and coroutines that take turns.
            let is_seen = match mode {
                Mode::Coroutine => name == "shuffles",
                _ => name != "shuffles",
            };
            let right = warned.as_ref().is_some_and(|places| are_at(places, lines));
            assert_eq!(right, is_seen, "{name} {mode:?}: {warned:?}");
            assert!(right || warned.is_none(), "{name} {mode:?}: {warned:?}");
        }
    }
}

#[test]
fn threads_that_leave_and_barriers_in_one_line_or_in_ptx_are_right() {
    let strict = Mutex::<Strict>::default();
    for mode in MODES {
        for checks in [false, true] {
            let Some(program) = built(MEETS, mode, checks) else { return };
            for name in ["leaves", "one_line", "handed_over", "same_for_all"] {
                let (done, warned) = launch(&program, name, checks.then_some(&strict));
                done.unwrap_or_else(|failure| panic!("{name} {mode:?} {checks}: {failure}"));
                assert_eq!(warned, None, "{name} {mode:?} {checks}");
            }
        }
    }
}
