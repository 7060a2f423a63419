//! Compiles a small `.cu` with clang and the plugin: checks the object's references, and the message of a failure.
//!
//! If tools are missing, the tests are skipped with a message. Nothing runs here; the end-to-end tests run programs.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{CLANG, cuda_with_fatbinary, plugin};

const NM: &str =
    if cfg!(feature = "llvm22") { "/usr/lib/llvm-22/bin/llvm-nm" } else { "/usr/lib/llvm-19/bin/llvm-nm" };

const SOURCE: &str = r#"
#include <cuda_runtime.h>
__global__ void twice(float *a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] *= 2; }
int main(int argc, char **) {
  float *a;
  cudaMalloc(&a, argc * sizeof(float));
  twice<<<argc, 256>>>(a, argc);
  cudaFree(a);
}
"#;

fn compile(folder: &Path, cuda: &Path, source: &str, level: &str) -> Output {
    std::fs::write(folder.join("a.cu"), source).unwrap();
    Command::new(CLANG)
        .current_dir(folder)
        .args([
            level,
            "-c",
            "a.cu",
            "-o",
            "a.o",
            "--cuda-gpu-arch=sm_90",
            "-Wno-unknown-cuda-version",
            "-Rpass=eager",
        ])
        .arg(format!("--cuda-path={}", cuda.display()))
        .arg(format!("-fpass-plugin={}", plugin().display()))
        .env("EAGER_PASS_CPU_KERNELS", folder.join("kernels.bc"))
        .env("EAGER_PASS_REPORT", folder.join("report.json"))
        .output()
        .unwrap()
}

#[test]
fn one_object_holds_host_calls_and_cpu_kernels() {
    let Some(cuda) = cuda_with_fatbinary() else { return };
    for level in ["-O0", "-O2"] {
        let scratch = tempfile::tempdir().unwrap();
        let compiled = compile(scratch.path(), &cuda, SOURCE, level);
        let errors = String::from_utf8_lossy(&compiled.stderr).into_owned();
        assert!(compiled.status.success(), "{errors}");
        assert!(
            errors.contains("a.cu:6:3: remark: static task in main: 1 allocation")
                && errors.contains("[-Rpass=eager]"),
            "{errors}"
        );
        let symbols = Command::new(NM).arg(scratch.path().join("a.o")).output().unwrap();
        let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
        for name in
            ["eager_task_begin", "eager_task_end", "eager_cudaMalloc", "eager_abi_v3", "eager_vgpu_register"]
        {
            assert!(symbols.contains(name), "{level}: no {name} in\n{symbols}");
        }
        let report = std::fs::read_to_string(scratch.path().join("report.json")).unwrap();
        let report: eager_tasks::Report = serde_json::from_str(&report).unwrap();
        let [kernel] = report.kernels.as_slice() else { panic!("{report:?}") };
        assert_eq!((kernel.symbol.as_str(), kernel.function.as_str()), ("_Z5twicePfi", "twice(float*, int)"));
        assert_eq!(kernel.args.iter().map(|arg| arg.bytes).collect::<Vec<_>>(), [8, 4]);
    }
}

#[test]
fn kernel_that_cannot_run_on_the_cpu_fails_the_compile_with_its_place() {
    let Some(cuda) = cuda_with_fatbinary() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let source = "#include <cuda_runtime.h>\n__global__ void odd(int *a) {\n  asm volatile(\"mbarrier.arrive.shared.b64 _, [%0];\" :: \"r\"(*a));\n}\n";
    let compiled = compile(scratch.path(), &cuda, source, "-O2");
    let errors = String::from_utf8_lossy(&compiled.stderr).into_owned();
    assert!(!compiled.status.success(), "mbarrier has no CPU translation");
    assert!(
        errors.contains("error: eager: ") && errors.contains("a.cu:3") && errors.contains("odd"),
        "{errors}"
    );
    assert!(!scratch.path().join("a.o").exists());
}
