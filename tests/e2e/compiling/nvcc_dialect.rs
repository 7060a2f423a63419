//! Sources written for nvcc (`dialect/`), each for one feature that nvcc offers and clang does not: they compile with
//! both CUDA trees and compute the right results. Also cases outside a source: old GPUs, and what CUDA 13 removed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use eager_tests::{has_toolchain, root, run, text, tool};

const VERSIONS: [&str; 2] = ["13.0", "12.9"];

fn source(name: &str) -> PathBuf {
    root().join("tests/dialect").join(name)
}

fn compile(words: &[&str], source: &Path, program: &Path) -> Output {
    run(Command::new(tool("eagercc")).arg("-O1").args(words).arg(source).arg("-o").arg(program))
}

fn run_alone(program: &Path) -> String {
    text(&run(Command::new(tool("eager")).args(["run", "--plain", "--time-scale", "0", "--"]).arg(program)))
}

/// Compiles and runs a source with each CUDA.
fn is_taken(name: &str, words: &[&str]) {
    if !has_toolchain(name) {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    for version in VERSIONS {
        let program = folder.path().join(version);
        let words = [words, &["--cuda", version]].concat();
        let compiled = compile(&words, &source(name), &program);
        assert!(compiled.status.success(), "{name} with CUDA {version}: {}", text(&compiled));
        assert_eq!(run_alone(&program), "ok\n", "{name} with CUDA {version}");
    }
}

#[test]
fn minima_of_mixed_types_are_there_for_host_and_device() {
    is_taken("minima.cu", &[]);
}

#[test]
fn default_arguments_of_the_parameters_own_name_are_members_of_the_class() {
    is_taken("default_arguments.cu", &[]);
}

#[test]
fn macros_have_values_and_the_libraries_go_on_working() {
    is_taken("macros.cu", &["-std=c++17"]);
}

#[test]
fn device_functions_have_bodies_and_braces_may_narrow() {
    is_taken("functions.cu", &["-Xarch_host", "-w", "-Xarch_device", "-w"]);
}

/// nvcc takes them for the GPUs that have them; here they work for any.
#[test]
fn warp_functions_without_a_mask_work_and_are_warned_of() {
    is_taken("old_warp.cu", &[]);
    if !has_toolchain("warp functions without a mask") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let said = text(&compile(&[], &source("old_warp.cu"), &folder.path().join("program")));
    let warning = "old_warp.cu:8: __shfl_down() is for GPUs before Volta";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
}

#[test]
fn device_code_in_host_functions_is_not_looked_at() {
    is_taken("host_functions.cu", &[]);
}

/// With a macro of nvcc's own, such a line also leaves CUDA's headers with clang's.
#[test]
fn host_sources_of_an_nvcc_line_know_it() {
    is_taken("host.cpp", &["--nvcc"]);
    is_taken("macros.cu", &["--nvcc", "-std=c++17", "-D__NVCC__"]);
}

#[test]
fn assembly_is_read_as_nvcc_reads_it_in_files_that_i_finds_too() {
    let folder = root().join("tests/dialect/include");
    is_taken("assembly.cu", &["-I", &folder.display().to_string()]);
}

#[test]
fn sources_of_before_cxx11_compile() {
    is_taken("old_standard.cu", &["-std=c++98"]);
    is_taken("old_standard.cu", &["--nvcc", "-std=c++03"]);
}

#[test]
fn atomic_built_ins_are_there() {
    is_taken("atomics.cu", &[]);
}

#[test]
fn loads_and_stores_with_hints_are_there() {
    is_taken("caches.cu", &[]);
}

#[test]
fn libcus_barriers_are_taken_in_shared_memory_without_an_architecture() {
    is_taken("barriers.cu", &["-std=c++17"]);
}

/// What clang refuses, or the virtual GPU has not, comes with a line that says what to do.
#[test]
fn a_barrier_for_new_gpus_and_a_constructor_in_shared_memory_are_advised_on() {
    if !has_toolchain("advice") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = folder.path().join("program");
    let refused = compile(&["-std=c++17", "-arch=sm_80"], &source("barriers.cu"), &program);
    let said = text(&refused);
    assert!(!refused.status.success() && said.contains("compile with -arch=sm_75"), "{said}");
    let own = folder.path().join("own.cu");
    let constructed = "struct Sum {\n  float v;\n  __device__ Sum() : v(1) {}\n};\n\
        __global__ void k(float *x) {\n  __shared__ Sum s[4];\n  x[0] = s[0].v;\n}\n";
    std::fs::write(&own, constructed).expect("write");
    let refused = compile(&[], &own, &program);
    let said = text(&refused);
    let line = said.lines().last().unwrap_or_default();
    assert!(
        !refused.status.success() && line.contains("own.cu:6: clang refuses a __shared__ variable"),
        "{said}"
    );
    assert!(line.contains("make the one without arguments `= default`"), "{said}");
}

/// Most programs compile file by file, so the link's advice comes too late.
#[test]
fn a_header_that_eager_does_not_bring_is_advised_on() {
    if !has_toolchain("advice on headers") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let own = folder.path().join("own.cu");
    std::fs::write(&own, "#include <cstdio>\n#include <cublas_v2.h>\nint main() {}\n").expect("write");
    let said = text(&compile(&["-c"], &own, &folder.path().join("own.o")));
    let line = said.lines().last().unwrap_or_default();
    assert!(line.contains("own.cu:2: no header cublas_v2.h here; its kernels are NVIDIA's"), "{said}");
    std::fs::write(folder.path().join("cublas_v2.h"), "#error own\n").expect("write");
    let include = format!("-isystem{}", folder.path().display());
    let said = text(&compile(&["-c", &include], &own, &folder.path().join("own.o")));
    assert!(said.contains("error: own") && !said.contains("no header"), "{said}");
}

/// What only clang says of a source, and names of files that are gone when the user reads them, are noise.
#[test]
fn messages_are_nvccs_and_name_the_programs_own_files() {
    if !has_toolchain("messages") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let (own, program) = (folder.path().join("own.cu"), folder.path().join("program"));
    let quiet = "__global__ void k(volatile int *x, volatile int *y, int n) {\n  while (*x != *y); x[0] = 1;\n#pragma unroll 4\n  \
        for (int i = 0; i < n; i++) { if (x[i] > 3) break; __syncthreads(); }\n}\n\
        int main() { k<<<1, 1>>>(0, 0, 0); }\n";
    std::fs::write(&own, quiet).expect("write");
    for words in [&["-O2"][..], &["-O2", "-fgpu-rdc"], &["-O2", "-E", "-o", "/dev/null"]] {
        let compiled =
            Command::new(tool("eagercc")).args(words).arg(&own).current_dir(folder.path()).output();
        let compiled = compiled.expect("eagercc");
        assert!(compiled.status.success() && compiled.stderr.is_empty(), "{words:?}: {}", text(&compiled));
    }
    let asked = compile(&["-O2", "-Wempty-body", "-c"], &own, &program);
    assert!(text(&asked).contains("[-Wempty-body]"), "{}", text(&asked));

    let copies = "__global__ void k(float *x) {\n  unsigned a = 0;\n  \
        asm(\"cp.async.ca.shared.global [%0], [%1], 16;\" :: \"r\"(a), \"l\"(x));\n}\nint main() {}\n";
    let large = "__global__ void large(float *x) {\n  __shared__ float s[20000];\n  s[threadIdx.x] = 1;\n  \
        __syncthreads();\n  x[0] = s[threadIdx.x ^ 1];\n}\nint main() {}\n";
    for (source, expected) in [
        (
            copies,
            "own.cu:3: error: ptxas: Feature 'cp.async' requires .target sm_80 or higher (`cp.async.ca.",
        ),
        (large, "own.cu: ptxas error   : Entry function '_Z5largePf' uses too much shared data"),
    ] {
        std::fs::write(&own, source).expect("write");
        let refused = compile(&["-arch=sm_75"], &own, &program);
        let said = text(&refused);
        assert!(!refused.status.success() && said.contains(expected), "{said}");
        assert!(!said.contains("/eagercc-") && !said.contains("BUG REPORT"), "{said}");
    }
}

#[test]
fn headers_are_implied_and_launch_brackets_may_stand_apart() {
    is_taken("implied.cu", &[]);
}

#[test]
fn halves_are_initialised_and_the_profilers_header_is_there() {
    is_taken("halves.cu", &[]);
}

#[test]
fn openmp_goes_to_the_host() {
    if !Path::new("/usr/lib/llvm-22/lib/libomp.so").exists() {
        eprintln!("SKIPPED: no libomp-22-dev; run ./setup.sh");
        return;
    }
    is_taken("threads.cu", &["-fopenmp"]);
    is_taken("threads.cu", &["--nvcc", "-Xcompiler", "-fopenmp"]);
}

#[test]
fn c_sources_are_held_to_gccs_rules() {
    is_taken("older.c", &["-w"]);
}

#[test]
fn the_dialect_is_there_without_the_pass_too() {
    is_taken("caches.cu", &["--eager-no-instrument"]);
    if !has_toolchain("nvcc's dialect without the pass") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let words = ["--eager-no-instrument", "--eager-no-cpu-kernels", "-c"];
    for name in ["minima.cu", "implied.cu", "atomics.cu"] {
        let compiled = compile(&words, &source(name), &folder.path().join("object.o"));
        assert!(compiled.status.success(), "{name}: {}", text(&compiled));
    }
}

#[test]
fn what_cuda_13_took_away_is_named_and_built_with_12_9_when_asked() {
    if !has_toolchain("what CUDA 13 took away") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = folder.path().join("removed");
    let refused = compile(&[], &source("removed.cu"), &program);
    let said = text(&refused);
    assert!(!refused.status.success(), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("eagercc: cudaThreadSynchronize: CUDA 13 removed this name"), "{said}");
    assert!(last.contains("`--cuda 12.9` (or `--cuda auto`)"), "{said}");
    for words in [["--cuda", "12.9"], ["--cuda", "auto"]] {
        let compiled = compile(&words, &source("removed.cu"), &program);
        assert!(compiled.status.success(), "{words:?}: {}", text(&compiled));
        assert_eq!(run_alone(&program), "ok\n", "{words:?}");
    }
    // A source without removed calls gets the newest CUDA; a link of objects selects it by the calls in the objects.
    let shown = |words: &[&str], file: &Path| text(&compile(&[words, &["--show"]].concat(), file, &program));
    assert!(shown(&["--cuda", "auto"], &source("minima.cu")).contains("cuda-13.0"));
    let object = folder.path().join("removed.o");
    let compiled = compile(&["--cuda", "auto", "-c"], &source("removed.cu"), &object);
    assert!(compiled.status.success(), "{}", text(&compiled));
    assert!(shown(&["--cuda", "auto"], &object).contains("cuda-12.9"));
    let none = text(&compile(&["--cuda", "11.2"], &source("minima.cu"), &program));
    assert!(none.contains("CUDA 11.2 not found in .toolchain/cuda-11.2"), "{none}");
}

#[test]
fn old_gpus_become_the_oldest_with_one_warning() {
    if !has_toolchain("old GPUs") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let program = folder.path().join("old");
    for (words, warning) in [
        (&["-arch=sm_35"][..], "sm_35: CUDA 13.0 makes code for sm_75 and newer, so sm_75 is taken instead"),
        (
            &["--nvcc", "-arch=sm_60", "-gencode", "arch=compute_20,code=sm_20"],
            "sm_20, sm_60: CUDA 13.0 makes code for sm_75 and newer, so sm_75 is taken instead; `--cuda 12.9` makes code for \
             sm_50 and newer",
        ),
        (
            &[
                "--cuda",
                "12.9",
                "-gencode",
                "arch=compute_35,code=sm_35",
                "-gencode=arch=compute_61,code=sm_61",
            ],
            "sm_35: CUDA 12.9 makes code for sm_50 and newer, so sm_50 is taken instead",
        ),
    ] {
        let compiled = compile(words, &source("caches.cu"), &program);
        assert_eq!(text(&compiled), format!("eagercc: warning: {warning}\n"), "{words:?}");
        assert!(compiled.status.success(), "{words:?}");
        assert_eq!(run_alone(&program), "ok\n", "{words:?}");
    }
    let compiled = compile(&["-arch=sm_80"], &source("caches.cu"), &program);
    assert_eq!(text(&compiled), "");
}
