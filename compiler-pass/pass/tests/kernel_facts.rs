//! Checks the pass's facts about kernels, from clang's device code: one kernel per pattern, and the seven programs.
//!
//! `EAGER_BLESS=1` rewrites the expected texts; each changed line must then be true of the kernel's source. If tools
//! are missing, the tests are skipped with a message.

mod common;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use eager_kernel_facts::{ArgumentUse, KernelFactsFile};

use common::{CLANG, cuda, cuda_with_fatbinary, plugin};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel_facts")
}

/// A clang command that compiles `source` with the plugin; the caller adds further arguments.
fn clang(cuda: &Path, source: &Path, scratch: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(CLANG);
    command
        .current_dir(scratch)
        .args(["-x", "cuda", "-Wno-unknown-cuda-version", "-c"])
        .args(words)
        .arg(format!("--cuda-path={}", cuda.display()))
        .arg(format!("-fpass-plugin={}", plugin().display()))
        .arg(source)
        .env("EAGER_PASS_KERNEL_DATA", scratch.join("kernels.json"))
        .env_remove("EAGER_PASS_CPU_KERNELS")
        .env_remove("EAGER_PASS_REPORT");
    command
}

fn run(mut command: Command) {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// One line per kernel: its name, then for each argument whether it is read (r) or written (w), and its class.
fn facts(cuda: &Path, source: &Path, level: &str) -> String {
    let scratch = tempfile::tempdir().unwrap();
    let words = [level, "--cuda-gpu-arch=sm_90", "--cuda-device-only", "-emit-llvm", "-o", "device.bc"];
    run(clang(cuda, source, scratch.path(), &words));
    let text = std::fs::read_to_string(scratch.path().join("kernels.json")).unwrap();
    KernelFactsFile::parse(&text).unwrap().kernels.iter().fold(String::new(), |mut lines, kernel| {
        let args: Vec<_> = kernel.arguments.iter().map(|&argument| shown(argument)).collect();
        writeln!(lines, "{}: {}", kernel.name, args.join(", ")).unwrap();
        lines
    })
}

fn shown(argument: ArgumentUse) -> String {
    let class = serde_json::to_value(argument.access).unwrap();
    let used = match (argument.reads, argument.writes) {
        (true, true) => "rw ",
        (true, false) => "r ",
        (false, true) => "w ",
        (false, false) => "",
    };
    format!("{used}{}", class.as_str().unwrap())
}

fn compare(found: &str, expected: &str) {
    let path = folder().join(expected);
    if std::env::var_os("EAGER_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&path).unwrap_or_default(), "{}", path.display());
}

#[test]
fn patterns_are_told_apart_at_every_level() {
    let Some(cuda) = cuda() else { return };
    let source = folder().join("patterns.cu");
    for level in ["-O0", "-O2"] {
        compare(&facts(&cuda, &source, level), "patterns.txt");
    }
}

#[test]
fn the_seven_programs_are_known() {
    let Some(cuda) = cuda() else { return };
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rodinia");
    let sources = [
        "backprop/backprop.cu",
        "bfs/bfs.cu",
        "dwt2d/components.cu",
        "dwt2d/dwt.cu",
        "lavaMD/kernel_gpu_cuda_wrapper.cu",
        "nw/needle.cu",
        "srad_v1/srad_v1.cu",
        "srad_v2/srad_v2.cu",
    ];
    let found = sources.iter().fold(String::new(), |mut all, source| {
        write!(all, "# {source}\n{}", facts(&cuda, &programs.join(source), "-O1")).unwrap();
        all
    });
    compare(&found, "programs.txt");
}

const RESOURCES: &str = r"
#include <cuda_runtime.h>
__global__ void turn(float *a, const float *b, int n) {
  __shared__ float part[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  part[threadIdx.x] = b[i];
  __syncthreads();
  a[i] = part[255 - threadIdx.x] * n;
}
int main() {
  float *a;
  cudaMalloc(&a, 4096);
  turn<<<4, 256>>>(a, a, 1);
  cudaFree(a);
}
";

#[test]
fn the_host_side_gets_flags_registers_and_shared_memory() {
    let Some(cuda) = cuda_with_fatbinary() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("a.cu");
    std::fs::write(&source, RESOURCES).unwrap();
    let both = ["-O2", "--cuda-gpu-arch=sm_80", "--cuda-gpu-arch=sm_90", "--save-temps=obj", "-o", "a.o"];
    run(clang(&cuda, &source, scratch.path(), &both));
    let assembly = std::fs::read_to_string(scratch.path().join("a-host-x86_64-pc-linux-gnu.s")).unwrap();
    let numbers = |label: &str, count: usize| -> Vec<u32> {
        let (_, table) = assembly.split_once(label).expect(label);
        let longs = table.lines().filter_map(|line| line.trim().strip_prefix(".long"));
        let longs = longs.filter_map(|line| line.split_whitespace().next()?.parse().ok());
        longs.take(count).collect()
    };
    let streams = eager_abi::ACCESS_ONE_PASS << eager_abi::ARG_ACCESS_SHIFT | eager_abi::ARG_POINTER;
    assert_eq!(
        numbers(".Leager.args:", 6),
        [8, streams | eager_abi::ARG_WRITTEN, 8, streams | eager_abi::ARG_READ, 4, 0]
    );
    let [arguments, registers, shared, reserved] = numbers(".Leager.kernels:", 4)[..] else {
        panic!("four numbers in the row of a kernel")
    };
    assert_eq!((arguments, shared, reserved), (3, 1024, 0));
    assert!((4..=255).contains(&registers), "{registers} registers");
}
