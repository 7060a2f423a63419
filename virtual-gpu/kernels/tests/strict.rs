//! Tests that strict mode reports accesses outside of their memory and reads of uninitialised bytes, in every form of
//! kernel, and reports nothing for valid accesses.

mod common;

use common::{Program, Run, arg, toolchain};
use eager_exec::strict::{Finding, Known, Problem, SpaceKind, Strict, Way};
use eager_exec::{Fault, LaunchFailure, Standstill};
use eager_kernels::{Mode, Options};
use parking_lot::Mutex;

const SOURCE: &str = "
__device__ float table[8];
__constant__ int order[4];
__global__ void plain(const float *in, float *out, int shift) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i + shift];
}
__global__ void variable(float *out, int index) {
    out[threadIdx.x] = table[index] + order[threadIdx.x % 4];
}
__global__ void local(float *out, int index) {
    float mine[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++) mine[i] += out[threadIdx.x];
    out[threadIdx.x] = mine[index];
}
__global__ void shared(float *out, int index) {
    __shared__ float a[32];
    __shared__ float b[32];
    a[threadIdx.x] = threadIdx.x;
    b[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = a[index] + b[threadIdx.x];
}
__global__ void dynamic(float *out, int index) {
    extern __shared__ float words[];
    words[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = words[index];
}
__global__ void unwritten(float *out) {
    __shared__ float a[32];
    if (threadIdx.x < 31) a[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = a[threadIdx.x];
}
struct Pair { int number; double value; };
__global__ void copies(const Pair *in, Pair *out) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void cast(char *bytes, int at) { *(int *)(bytes + at) = 1; }
__global__ void counts(int *counter, int at) { atomicAdd(counter + at, 1); }
__global__ void heap(int *out, int index) {
    int *mine = (int *)malloc(4 * sizeof(int));
    for (int i = 0; i < 4; i++) mine[i] = i;
    out[threadIdx.x] = mine[index];
    free(mine);
}
__global__ void warp(const float *in, float *out) {
    float v = in[threadIdx.x];
    for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x == 0) out[0] = v;
}
";

/// Memory of a test, as known to strict mode.
struct Books {
    strict: Mutex<Strict>,
}

impl Books {
    /// Registers device memory of these ranges, all of it written, and the program's variables.
    fn new(program: &Program, memory: &[&[f32]]) -> Books {
        let books = Books::unwritten(program, memory);
        let mut strict = books.strict.lock();
        memory.iter().for_each(|m| strict.memory.initialise(m.as_ptr() as u64, 4 * m.len() as u64));
        drop(strict);
        books
    }

    fn unwritten(program: &Program, memory: &[&[f32]]) -> Books {
        let device = memory.iter().map(|m| Known {
            start: m.as_ptr() as u64,
            bytes: 4 * m.len() as u64,
            kind: SpaceKind::Device,
            identity: 1,
        });
        let variables = ["table", "order"].map(|name| {
            let found = program.variable(name);
            let kind = SpaceKind::Variable(name.to_owned());
            Known { start: found.address as u64, bytes: found.bytes, kind, identity: 0 }
        });
        let strict = Mutex::<Strict>::default();
        strict.lock().memory.update(device.chain(variables).collect());
        Books { strict }
    }

    fn run(&self, threads: u32, shared: u32) -> Run<'_> {
        Run { strict: Some(&self.strict), ..Run::new(1, threads).shared(shared) }
    }

    fn uninitialised(&self) -> Vec<Finding> {
        self.strict.lock().take_uninitialised()
    }
}

fn finding(outcome: Result<eager_exec::LaunchCost, LaunchFailure>) -> Finding {
    match outcome {
        Err(LaunchFailure::Strict(finding)) => *finding,
        other => panic!("{other:?}"),
    }
}

fn outside(finding: &Finding) -> &eager_exec::strict::Piece {
    match &finding.problem {
        Problem::Outside(Some(piece)) => piece,
        other => panic!("{other:?}"),
    }
}

fn program(mode: Mode) -> Option<Program> {
    let cuda = toolchain()?;
    let options = Options { strict: true, mode, ..Options::default() };
    Some(Program::build_with(&cuda, SOURCE, &["-Rpass-analysis=places"], &options).unwrap())
}

const MODES: [Mode; 3] = [Mode::Auto, Mode::Loops, Mode::Coroutine];

#[test]
fn an_index_beyond_device_memory_is_named_with_thread_and_line() {
    for mode in MODES {
        let Some(program) = program(mode) else { return };
        let (input, mut output) = (vec![1f32; 64], vec![0f32; 64]);
        let books = Books::new(&program, &[&input, &output]);
        let (from, to) = (input.as_ptr(), output.as_mut_ptr());
        let kernel = program.kernel("plain");
        let launch = |shift: i32| books.run(64, 0).launch(kernel, &[arg(&from), arg(&to), arg(&shift)]);
        launch(0).unwrap();
        let found = finding(launch(3));
        assert_eq!((found.way, found.bytes, found.thread), (Way::Reads, 4, [61, 0, 0]), "{found}");
        assert_eq!(found.address, from as u64 + 256);
        assert_eq!(outside(&found).start, from as u64, "not in the neighbour's terms: {found}");
        assert!(found.place.ends_with("test.cu:6"), "{found}");
        let far = i32::try_from((to as i64 - from as i64) / 4).unwrap();
        assert_eq!(outside(&finding(launch(far))).start, from as u64, "into other memory of the program");
        assert!(books.uninitialised().is_empty());
    }
}

#[test]
fn variables_arrays_and_shared_memory_end_where_they_end() {
    for mode in MODES {
        let Some(program) = program(mode) else { return };
        let mut output = vec![0f32; 32];
        let books = Books::new(&program, &[&output]);
        let to = output.as_mut_ptr();
        let launch = |name: &str, index: i32, shared| {
            books.run(32, shared).launch(program.kernel(name), &[arg(&to), arg(&index)])
        };
        let heap = launch("heap", 4, 0);
        assert_eq!(outside(&finding(heap)).kind, SpaceKind::Heap);
        launch("heap", 3, 0).unwrap();
        for (name, last, kind) in [
            ("variable", 7, SpaceKind::Variable("table".to_owned())),
            ("local", 3, SpaceKind::Local),
            ("shared", 31, SpaceKind::Shared),
        ] {
            launch(name, last, 0).unwrap_or_else(|failure| panic!("{name}: {failure}"));
            for wrong in [last + 1, -1] {
                let found = finding(launch(name, wrong, 0));
                assert_eq!((&outside(&found).kind, found.way), (&kind, Way::Reads), "{name}: {found}");
            }
        }
        launch("dynamic", 31, 128).unwrap();
        let found = finding(launch("dynamic", 32, 128));
        assert_eq!((outside(&found).bytes, &outside(&found).kind), (128, &SpaceKind::Shared), "{found}");
        assert!(books.uninitialised().is_empty());
    }
}

#[test]
fn a_read_of_what_nobody_wrote_is_kept_and_the_kernel_goes_on() {
    for mode in MODES {
        let Some(program) = program(mode) else { return };
        let (input, mut output) = (vec![1f32; 64], vec![0f32; 64]);
        let books = Books::unwritten(&program, &[&input, &output]);
        let (from, to, zero) = (input.as_ptr(), output.as_mut_ptr(), 0i32);
        let args = [arg(&from), arg(&to), arg(&zero)];
        books.run(64, 0).launch(program.kernel("plain"), &args).unwrap();
        assert_eq!(output[63], 1.0);
        let found = books.uninitialised();
        let [Finding { problem: Problem::Uninitialised(piece), thread: [0, 0, 0], .. }] = &found[..] else {
            panic!("one for the place: {found:?}")
        };
        assert_eq!(piece.start, from as u64);
        books.run(64, 0).launch(program.kernel("plain"), &args).unwrap();
        assert!(books.uninitialised().is_empty(), "each byte once");

        let books = Books::new(&program, &[&output]);
        books.run(32, 0).launch(program.kernel("unwritten"), &[arg(&to)]).unwrap();
        let found = books.uninitialised();
        let [Finding { problem: Problem::Uninitialised(piece), thread: [31, 0, 0], .. }] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(piece.kind, SpaceKind::Shared);
    }
}

#[test]
fn copies_of_structures_need_no_value_but_room() {
    let Some(program) = program(Mode::Auto) else { return };
    let (input, mut output) = (vec![1f32; 32 * 4], vec![0f32; 32 * 4]);
    let books = Books::unwritten(&program, &[&input, &output]);
    let (from, to) = (input.as_ptr(), output.as_mut_ptr());
    let kernel = program.kernel("copies");
    books.run(32, 0).launch(kernel, &[arg(&from), arg(&to)]).unwrap();
    assert!(books.uninitialised().is_empty());
    let found = finding(books.run(33, 0).launch(kernel, &[arg(&from), arg(&to)]));
    assert_eq!((found.bytes, found.thread), (16, [32, 0, 0]), "{found}");
}

#[test]
fn a_crooked_address_and_an_atomic_outside_are_found() {
    let Some(program) = program(Mode::Auto) else { return };
    let mut memory = vec![0f32; 4];
    let books = Books::new(&program, &[&memory]);
    let at = memory.as_mut_ptr();
    let launch =
        |name: &str, offset: i32| books.run(1, 0).launch(program.kernel(name), &[arg(&at), arg(&offset)]);
    launch("cast", 8).unwrap();
    assert_eq!(finding(launch("cast", 6)).problem, Problem::Misaligned(4));
    launch("counts", 3).unwrap();
    let found = finding(launch("counts", 4));
    assert_eq!((found.way, outside(&found).bytes), (Way::Updates, 16), "{found}");
    let nowhere = std::ptr::null::<f32>();
    let null = books.run(1, 0).launch(program.kernel("counts"), &[arg(&nowhere), arg(&1i32)]);
    assert_eq!(finding(null).address, 4, "before the processor faults");
}

#[test]
fn warp_operations_and_many_blocks_pass() {
    let Some(program) = program(Mode::Auto) else { return };
    let (input, mut output) = (vec![2f32; 32], vec![0f32; 1]);
    let books = Books::new(&program, &[&input, &output]);
    let (from, to) = (input.as_ptr(), output.as_mut_ptr());
    let run = Run { grid: [200, 1, 1], workers: 2, ..books.run(32, 0) };
    run.launch(program.kernel("warp"), &[arg(&from), arg(&to)]).unwrap();
    assert_eq!(output[0], 64.0);
    assert!(books.uninitialised().is_empty());
}

#[test]
fn threads_that_wait_for_each_other_are_named_with_both_lines() {
    const WAITS: &str = "
__global__ void barriers(int *out) {
    if (threadIdx.x < 32)
        asm volatile(\"bar.sync 1, 64;\");
    else
        asm volatile(\"bar.sync 2, 64;\");
    out[0] = 1;
}
__global__ void warp(int *out) {
    if (threadIdx.x < 7)
        __syncthreads();
    else
        __syncwarp(~0u);
}";
    let Some(cuda) = toolchain() else { return };
    let strict = Mutex::<Strict>::default();
    for mode in [Mode::Auto, Mode::Coroutine] {
        let options = Options { strict: true, mode, ..Options::default() };
        let program = Program::build_with(&cuda, WAITS, &["-Rpass-analysis=places"], &options).unwrap();
        for (name, lines, other) in [("barriers", [4, 6], 32), ("warp", [11, 13], 7)] {
            let mut out = [0i32];
            let at = out.as_mut_ptr();
            let run = Run { strict: Some(&strict), ..Run::new(1, 64) };
            let failed = run.launch(program.kernel(name), &[arg(&at)]).unwrap_err();
            let Fault::Stuck(Some(Standstill(threads))) = (match &failed {
                LaunchFailure::Fault(fault) => *fault,
                other => panic!("{other:?}"),
            }) else {
                panic!("{failed}")
            };
            assert_eq!(threads.map(|(thread, _)| thread), [0, other], "{failed}");
            let [first, second] = lines.map(|line| format!("test.cu:{line}"));
            let said = failed.to_string();
            assert!(
                said.contains("thread 0 of the block at ") && said.contains(&format!("{first}, thread ")),
                "{said}"
            );
            assert!(said.ends_with(&second), "{said}");
        }
    }
}
