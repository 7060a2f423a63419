//! Tests that constructs without a translation are reported with their places, all at once, and that errors at run time
//! are contained.

mod common;

use std::time::Duration;

use common::{Program, Run, arg, device_bitcode, toolchain};
use eager_exec::{Fault, LaunchFailure};
use eager_kernels::{ConvertError, Mode, Options, convert};

const UNSUPPORTED: &str = "#include <cstdio>
__device__ float sum(float v) {
    asm volatile(\"mbarrier.arrive.shared.b64 _, [%0];\" ::\"r\"(int(v)));
    return v;
}
__global__ void barrier(float *x) {
    x[0] =
        sum(x[threadIdx.x]);
}
__global__ void fine(float *x) { x[0] = __shfl_down_sync(~0u, x[1], 3); }
__global__ void assembly(int *x) {
    asm volatile(\"bfind.shiftamt.f32 %0, %0;\" : \"+f\"(((float *)x)[0]));
    x[1] = __nvvm_isspacep_const(x);
}
extern __device__ int elsewhere(int);
__device__ __noinline__ int recursive(int n) { return n < 2 ? n : recursive(n - 1) * __syncthreads_count(n) + recursive(n - 2); }
__global__ void calls(int *x) {
    x[0] = elsewhere(3);
    x[1] = recursive(x[2]);
}
";

fn refusal(flags: &[&str]) -> Option<ConvertError> {
    let cuda = toolchain()?;
    let bitcode = device_bitcode(&cuda, UNSUPPORTED, flags);
    Some(convert(&bitcode, &Options::default()).expect_err("three of four kernels cannot be translated"))
}

#[test]
fn every_unsupported_construct_is_named_with_its_line() {
    let Some(error) = refusal(&["-gline-tables-only"]) else { return };
    let ConvertError::Unsupported(found) = &error else { panic!("{error}") };
    let said: Vec<(&str, &str, &str)> = found
        .iter()
        .map(|u| (u.kernel.as_str(), u.construct.as_str(), u.place.rsplit('/').next().unwrap()))
        .collect();
    let expected = [
        ("_Z7barrierPf", "inline PTX assembly `mbarrier.arrive.shared.b64 _, [$0];`", "test.cu:8"),
        (
            "_Z8assemblyPi",
            "inline PTX assembly `bfind.shiftamt.f32 $0, $0;` (`bfind` with `.f32`)",
            "test.cu:12",
        ),
        ("_Z8assemblyPi", "`llvm.nvvm.isspacep.const`", "test.cu:13"),
        ("_Z5callsPi", "a call of `elsewhere`, which is not defined in this file,", "test.cu:18"),
        ("_Z5callsPi", "a barrier or warp operation in a recursive function (`recursive`)", "test.cu:16"),
    ];
    assert_eq!(said, expected);
    let text = error.to_string();
    assert_eq!(text.lines().count(), expected.len());
    assert!(
        text.contains(
            "test.cu:8: kernel barrier: inline PTX assembly `mbarrier.arrive.shared.b64 _, [$0];` cannot run on the \
             virtual GPU"
        ),
        "{text}"
    );
}

#[test]
fn without_line_tables_the_function_is_named() {
    let Some(error) = refusal(&[]) else { return };
    let ConvertError::Unsupported(found) = &error else { panic!("{error}") };
    assert_eq!(found[0].place, "function barrier");
}

#[test]
fn what_is_not_device_bitcode_is_refused() {
    let error = convert(b"not bitcode at all", &Options::default()).unwrap_err();
    assert!(matches!(error, ConvertError::Malformed { .. }), "{error}");
    let error = convert(b"", &Options::default()).unwrap_err();
    assert!(matches!(error, ConvertError::Malformed { .. }), "{error}");
    let Some(cuda) = toolchain() else { return };
    let host = device_bitcode(&cuda, "int main() { return 0; }", &["--cuda-host-only"]);
    let error = convert(&host, &Options::default()).unwrap_err();
    assert!(error.to_string().contains("not for nvptx64"), "{error}");
}

#[test]
fn a_trap_or_a_failed_assertion_ends_the_launch_and_nothing_else() {
    let Some(cuda) = toolchain() else { return };
    let source = "#include <cassert>
    __global__ void loops(int *x, int bad) { if (blockIdx.x == bad) __trap(); x[blockIdx.x] = 1; }
    __global__ void waits(int *x, int bad) {
        __shared__ int s[64]; s[threadIdx.x] = threadIdx.x; __syncthreads();
        assert(blockIdx.x != bad || s[63 - threadIdx.x] != 40);
        if (threadIdx.x == 63) x[blockIdx.x] = 1;
    }";
    let program = Program::build(&cuda, source, &Options::default());
    let (trap, assertion) = (LaunchFailure::Trap, LaunchFailure::Assertion);
    let cases =
        [("loops", 1, &trap), ("loops", 2, &trap), ("waits", 1, &assertion), ("waits", 2, &assertion)];
    for (kernel, workers, failure) in cases {
        let mut x = vec![0i32; 256];
        let (px, bad, never) = (x.as_mut_ptr(), 7i32, -1i32);
        let run = Run::new(256, 64).workers(workers);
        let outcome = run.launch(program.kernel(kernel), &[arg(&px), arg(&bad)]);
        assert_eq!(outcome.as_ref(), Err(failure), "{kernel}");
        assert_eq!(x[7], 0);
        run.launch(program.kernel(kernel), &[arg(&px), arg(&never)]).unwrap();
        assert!(x.iter().all(|&v| v == 1), "the next launch is a clean one");
    }
}

#[test]
fn a_kernel_without_an_end_is_ended() {
    const SOURCE: &str = "
    __global__ void forever(volatile int *stop) { while (!*stop) {} }
    __global__ void together(volatile int *stop) {
        int seen = 0;
        while (!seen) seen = __any_sync(~0u, *stop);
    }
    __global__ void set(int *stop) { *stop = 1; }";
    let Some(cuda) = toolchain() else { return };
    for mode in [Mode::Auto, Mode::Coroutine] {
        let program = Program::build(&cuda, SOURCE, &Options { mode, ..Options::default() });
        let mut stop = 0i32;
        let at = &raw mut stop;
        for (kernel, blocks, workers) in [("forever", 1, 1), ("forever", 400, 2), ("together", 1, 1)] {
            let time_max = Some(Duration::from_millis(50));
            let run = Run { time_max, ..Run::new(blocks, 32).workers(workers) };
            let outcome = run.launch(program.kernel(kernel), &[arg(&at)]);
            assert_eq!(outcome, Err(LaunchFailure::Fault(Fault::TimeOut)), "{kernel} {mode:?}");
            run.launch(program.kernel("set"), &[arg(&at)]).unwrap();
            // SAFETY: no kernel runs any more.
            assert_eq!(unsafe { at.replace(0) }, 1, "the worker goes on");
        }
    }
}

/// PTX does not keep the carry flag across calls, and a flag that nothing sets is an arbitrary one: the sum would be
/// wrong in silence.
#[test]
fn a_carry_flag_that_nothing_in_the_function_sets_is_refused() {
    let Some(cuda) = toolchain() else { return };
    let add = "asm volatile(\"add.cc.u32 %0, %0, 1;\" : \"+r\"(x[0]));";
    let addc = "asm volatile(\"addc.u32 %0, %0, 0;\" : \"+r\"(x[1]));";
    let called = "__device__ __noinline__ void last(unsigned *x, int n) { READ if (n) { last(x + 1, n - 1); x[0]++; } }
        __global__ void sum(unsigned *x) { SET last(x, x[9]); }";
    for source in [
        format!("__global__ void sum(unsigned *x) {{ {addc} }}"),
        called.replace("READ", addc).replace("SET", add),
    ] {
        let refused =
            convert(&device_bitcode(&cuda, &source, &[]), &Options::default()).expect_err("a lost carry");
        assert!(
            refused.to_string().contains(
                "kernel sum: a carry flag (read by `addc`, `subc` or `madc`) that nothing in the same function sets"
            ),
            "{refused}"
        );
    }
}

#[test]
fn what_a_statement_declares_or_branches_to_wrongly_is_refused() {
    let Some(cuda) = toolchain() else { return };
    for text in
        ["bra NOWHERE;", "{ L: } bra L;", "L: L:", "{ .shared .b8 s[]; }", "mov.u32 %0, [%0+%0];", "brkpt;"]
    {
        let source = format!("__global__ void k(unsigned *x) {{ asm volatile(\"{text}\" : \"+r\"(x[0])); }}");
        let refused = convert(&device_bitcode(&cuda, &source, &[]), &Options::default()).expect_err(text);
        assert!(refused.to_string().contains("kernel k: inline PTX assembly `"), "{text}: {refused}");
        assert_eq!(refused.to_string().lines().count(), 1, "{text}: {refused}");
    }
}

/// A word that is passed over would make a wrong result in silence.
#[test]
fn a_word_or_an_operand_without_a_meaning_is_refused_and_named() {
    let Some(cuda) = toolchain() else { return };
    for (text, named) in [
        ("redux.sync.min.f32 %0, %0, -1;", "`redux` with `.f32`"),
        ("fma.rn.oob.bf16x2 %0, %0, %0, %0;", "`fma` with `.oob`"),
        ("add.foo.u32 %0, %0, 1;", "`add` with `.foo`"),
        (
            "{ .reg .f32 f; .reg .b16 h; mov.b32 f, %0; cvt.u16.u32 h, %0; add.f32.f16 f, h, f; mov.b32 %0, f; }",
            "`add` with `.f16`",
        ),
        ("add.u32 %0, %0, 1, 2;", "`add` with 4 operands"),
        ("{ .reg .u32 t; ld.shared.v2.u32 {t}, [%0]; }", "`ld` with operand `{t}`"),
    ] {
        let source = format!("__global__ void k(unsigned *x) {{ asm volatile(\"{text}\" : \"+r\"(x[0])); }}");
        let bitcode = device_bitcode(&cuda, &source, &["-gline-tables-only"]);
        let refused = convert(&bitcode, &Options::default()).expect_err(text).to_string();
        assert!(refused.contains("test.cu:1: kernel k: inline PTX assembly `"), "{text}: {refused}");
        assert!(refused.contains(&format!("` ({named}) cannot run on the virtual GPU")), "{text}: {refused}");
    }
}
