//! Kernels that do something wrong: strict mode reports it, the error is the one that a GPU would give and stays, and
//! the program goes on. Without strict mode the same programs are not disturbed.
//!
//! Trap: the effect of a wrong kernel without checks is undefined; tests may only require that it ends.

use eager_tests::{eagercc_with, has_toolchain, root, run, text, tool};
use std::path::{Path, PathBuf};
use std::process::Command;

fn built(folder: &Path, words: &[&str]) -> PathBuf {
    let program = folder.join(format!("wrong{}", words.len()));
    let words: Vec<_> = ["-O2", "--eager-no-instrument"].iter().chain(words).map(Into::into).collect();
    eagercc_with(&words, &[&root().join("tests/conformance/wrong.cu")], &program);
    program
}

/// Returns everything that the program and the virtual GPU print.
fn output_of(program: &Path, wrong: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new("timeout");
    command.arg("60").arg(tool("eager")).args([
        "run",
        "--plain",
        "--time-scale",
        "0",
        "--fault-status",
        "0",
        "--",
    ]);
    command.arg(program).arg(wrong).envs(variables.iter().copied());
    let output = run(&mut command);
    assert!(output.status.success(), "{wrong}: {}: {}", output.status, text(&output));
    text(&output)
}

/// Returns the program's output when each of its calls ends with this code.
fn calls(code: &str) -> String {
    format!("launch: {code}\ncopy: {code}\nlast: {code}\nthe program goes on\n")
}

#[test]
fn strict_mode_names_what_is_wrong_and_where() {
    if !has_toolchain("strict mode") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = built(folder.path(), &["--eager-strict"]);
    assert_eq!(output_of(&program, "nothing", &[]), calls("cudaSuccess"));
    for (wrong, code, parts) in [
        (
            "beyond",
            "cudaErrorIllegalAddress",
            ["wrong.cu:11: thread (232, 0, 0) of block (3, 0, 0)", "0 bytes past the end of the 4000 bytes"],
        ),
        ("freed", "cudaErrorIllegalAddress", ["wrong.cu:11: thread (0, 0, 0)", "which was freed"]),
        (
            "shared",
            "cudaErrorIllegalAddress",
            ["wrong.cu:18: thread (0, 0, 0)", "0 bytes past the end of the 256 bytes of shared memory"],
        ),
        ("crooked", "cudaErrorMisalignedAddress", ["wrong.cu:21:", "which is not a multiple of 8"]),
        (
            "parted",
            "cudaErrorLaunchFailure",
            [
                "wrong.cu:26: thread (1, 0, 0) of block (0, 0, 0) waits at this barrier, thread (0, 0, 0) at that of ",
                "wrong.cu:28; all threads of a block must call the same __syncthreads()",
            ],
        ),
        (
            "unwritten",
            "cudaSuccess",
            ["wrong.cu:11: thread (222, 0, 0) of block (3, 0, 0) reads 4 bytes", "which was never written"],
        ),
    ] {
        let said = output_of(&program, wrong, &[]);
        assert!(said.starts_with(&calls(code)), "{wrong}: {said}");
        let lines: Vec<&str> = said.lines().skip(4).collect();
        assert_eq!(
            (lines.len(), lines.get(1).copied()),
            (2, Some("eager virtual GPU: strict: 1 error, 0 warnings")),
            "{wrong}: {said}"
        );
        assert!(parts.iter().all(|part| lines[0].contains(part)), "{wrong}: {said}");
    }
    assert_eq!(output_of(&program, "beyond", &[("EAGER_VGPU_STRICT", "0")]), calls("cudaSuccess"));
}

#[test]
fn threads_at_different_barriers_are_warned_of_once_without_strict_mode() {
    if !has_toolchain("threads at different barriers") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let said = output_of(&built(folder.path(), &[]), "parted", &[]);
    let lines: Vec<&str> = said.strip_prefix(&calls("cudaSuccess")).unwrap_or(&said).lines().collect();
    let [line] = lines[..] else { panic!("{said}") };
    assert!(
        line.starts_with("eager virtual GPU: warning: kernel part: threads of one block wait "),
        "{line}"
    );
    assert!(
        ["wrong.cu:26 and of ", "wrong.cu:28 at the same time"].iter().all(|part| line.contains(part)),
        "{line}"
    );
}

#[test]
fn a_fault_that_the_program_ignores_is_a_failure_of_its_run() {
    if !has_toolchain("ignored faults") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = folder.path().join("asserts");
    let kernel = "#include <cassert>
__global__ void check(int most) { assert(threadIdx.x < most); }
int main(int argc, char **) {
    check<<<1, 32>>>(argc > 1 ? 20 : 32);
    return cudaDeviceSynchronize() == 710 ? 0 : argc - 1;
}
";
    let source = folder.path().join("asserts.cu");
    std::fs::write(&source, kernel).expect("source");
    eagercc_with(&["-O2".into()], &[&source], &program);
    let ended = |words: &[&str]| {
        let mut command = Command::new(tool("eager"));
        let output = run(command.args(["run", "--plain", "--"]).arg(&program).args(words));
        (output.status.code(), text(&output))
    };
    assert_eq!(ended(&[]), (Some(0), String::new()));
    let (status, said) = ended(&["one more"]);
    assert_eq!(status, Some(1), "{said}");
    let parts = [
        "asserts.cu:2: void check(int): block: [0,0,0], thread: [20,0,0] Assertion `threadIdx.x < most` failed.\n",
        "kernel check: a kernel thread failed an assertion\n",
        "(cudaErrorAssert: device-side assert triggered): the status is 1 instead\n",
    ];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}

#[test]
fn what_was_never_allocated_is_no_memory_in_any_mode() {
    if !has_toolchain("memory never allocated") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let kernel = "#include <cstdio>
__global__ void far(int *p, long long at) { p[at] = 1; }
int main() {
    int *p;
    cudaMalloc(&p, 1 << 20);
    far<<<1, 1>>>(p, 100);
    int near = cudaDeviceSynchronize();
    far<<<1, 1>>>(p, 1ll << 32);
    int wild = cudaDeviceSynchronize();
    printf(\"%d %d %d\\n\", near, wild, cudaFree(p));
    return wild == 700 ? 0 : 3;
}
";
    let source = folder.path().join("far.cu");
    std::fs::write(&source, kernel).expect("source");
    let program = folder.path().join("far");
    eagercc_with(&["-O2".into()], &[&source], &program);
    let mut command = Command::new(tool("eager"));
    let output = run(command.args(["run", "--plain", "--fault-status", "0", "--"]).arg(&program));
    let said = text(&output);
    assert!(output.status.success() && said.contains("0 700 700\n"), "{}: {said}", output.status);
}

#[test]
fn without_checks_strict_mode_says_which_kernel_has_none() {
    if !has_toolchain("strict mode without checks") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = built(folder.path(), &[]);
    assert_eq!(output_of(&program, "unwritten", &[]), calls("cudaSuccess"));
    let said = output_of(&program, "unwritten", &[("EAGER_VGPU_STRICT", "1")]);
    assert!(said.contains("is not checked: compile its file with --eager-strict"), "{said}");
}

#[test]
fn a_kernel_without_an_end_ends_as_on_a_gpu_with_a_watchdog() {
    if !has_toolchain("kernel time-out") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = built(folder.path(), &[]);
    for wrong in ["endless", "endless-with-signals"] {
        let said = output_of(&program, wrong, &[("EAGER_VGPU_KERNEL_TIMEOUT", "0.2")]);
        assert!(said.starts_with(&calls("cudaErrorLaunchTimeout")), "{wrong}: {said}");
        assert!(said.contains("it did not end within the time limit for kernels"), "{wrong}: {said}");
    }
}

#[test]
fn strict_mode_follows_device_functions_into_other_files() {
    if !has_toolchain("strict mode with -fgpu-rdc") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name);
    let kernel = "extern __device__ float twice(const float *in, int i);
__global__ void scale(const float *in, float *out, int n) {
    if (threadIdx.x < n) out[threadIdx.x] = twice(in, threadIdx.x);
}
int main(int argc, char **) {
    float *in, *out;
    cudaMalloc(&in, 400), cudaMalloc(&out, 800), cudaMemset(in, 0, 400);
    scale<<<1, 128>>>(in, out, argc > 1 ? 101 : 100);
    return cudaDeviceSynchronize() != cudaSuccess;
}
";
    std::fs::write(at("kernel.cu"), kernel).expect("source");
    std::fs::write(
        at("function.cu"),
        "__device__ float twice(const float *in, int i) { return in[i] * 2; }\n",
    )
    .expect("source");
    let words = ["-O2", "--eager-no-instrument", "--eager-strict", "-fgpu-rdc"].map(Into::into);
    eagercc_with(&words, &[&at("kernel.cu"), &at("function.cu")], &at("program"));
    let ran = |argument: Option<&str>| {
        let mut command = Command::new("timeout");
        command.arg("60").arg(tool("eager")).args(["run", "--plain", "--time-scale", "0", "--"]);
        run(command.arg(at("program")).args(argument))
    };
    let (right, wrong) = (ran(None), ran(Some("beyond")));
    assert!(right.status.success() && text(&right).is_empty(), "{}", text(&right));
    assert!(!wrong.status.success(), "{}", text(&wrong));
    for place in ["function.cu:1 (called at", "kernel.cu:3): thread (100, 0, 0)"] {
        assert!(text(&wrong).contains(place), "{}", text(&wrong));
    }
}
