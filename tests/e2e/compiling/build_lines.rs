//! Ways to build a program with `eagercc`, each built and run: make, CMake, nvcc's command lines, nvcc itself, separate
//! device code, link-time optimisation, another CUDA, a compiler cache.
//!
//! Golden files in `compiler-pass/driver` check the command lines themselves; here are the few real builds. Trap: a
//! tool that is not installed skips its test, with a message.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use eager_tests::{has_toolchain, root, run, run_ok, text, tool};

const EXAMPLES: &str = "compiler-pass/driver/examples";

/// Output of `sum.cu` and `main.cpp`.
const SUM: &str = "sum 499500\n";

fn eagercc(folder: &Path) -> Command {
    let mut command = Command::new(tool("eagercc"));
    command.current_dir(folder).env_remove("EAGER_CLANG").env_remove("EAGER_REMARKS");
    command
}

fn compile(folder: &Path, line: &str) {
    run_ok(eagercc(folder).args(line.split_whitespace()));
}

/// Runs a program on a virtual GPU; returns its output.
fn output_of(program: &Path) -> String {
    run_ok(Command::new(tool("eager")).args([OsStr::new("run"), "--plain".as_ref(), program.as_ref()]))
}

fn copy_examples(into: &Path) {
    for file in ["sum.cu", "main.cpp"] {
        std::fs::copy(root().join(EXAMPLES).join(file), into.join(file)).expect("copy the example");
    }
}

fn has_command(name: &str, test: &str) -> bool {
    let found = Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("SKIPPED: {test}: needs {name}: run ./setup.sh");
    }
    found
}

fn symbols(file: &Path) -> String {
    run_ok(Command::new("llvm-nm-22").arg(file))
}

#[test]
fn makefile_takes_eagercc_for_its_compilers() {
    if !has_toolchain("makefile") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let make = folder.path().join("make");
    std::fs::create_dir(&make).unwrap();
    copy_examples(folder.path());
    std::fs::copy(root().join(EXAMPLES).join("make/Makefile"), make.join("Makefile")).unwrap();
    let compiler = tool("eagercc");
    let set = |name: &str| format!("{name}={}", compiler.display());
    run_ok(Command::new("make").current_dir(&make).args([set("CXX"), set("CUDACXX")]));
    assert_eq!(output_of(&make.join("sum")), SUM);
}

#[test]
fn cmake_package_builds_a_target_through_eagercc() {
    if !has_toolchain("cmake") || !has_command("cmake", "cmake") {
        return;
    }
    let cuda = root().join(".toolchain/cuda-13.0");
    let package = root().join("compiler-pass/driver/cmake");
    let set = |name: &str, value: &Path| format!("-D{name}={}", value.display());
    // Configured for nvcc, where the package makes CMake call eagercc; and for eagercc itself.
    for compiler in [cuda.join("bin/nvcc"), tool("eagercc")] {
        let build = tempfile::tempdir().unwrap();
        run_ok(Command::new("cmake").arg("-S").arg(root().join(EXAMPLES).join("cmake")).args([
            "-B".to_owned(),
            build.path().display().to_string(),
            set("CMAKE_CUDA_COMPILER", &compiler),
            set("CUDAToolkit_ROOT", &cuda),
            set("Eager_DIR", &package),
            set("Eager_COMPILER", &tool("eagercc")),
            "-DCMAKE_CUDA_ARCHITECTURES=90".to_owned(),
        ]));
        run_ok(Command::new("cmake").arg("--build").arg(build.path()));
        assert_eq!(output_of(&build.path().join("sum")), SUM, "{}", compiler.display());
    }
}

/// CMake links with the C++ compiler and takes the static CUDA runtime unless the project sets both.
#[test]
fn cmake_project_without_the_package_takes_eagercc_for_both_compilers() {
    if !has_toolchain("cmake project") || !has_command("cmake", "cmake project") {
        return;
    }
    let (folder, compiler) = (tempfile::tempdir().unwrap(), tool("eagercc"));
    copy_examples(folder.path());
    let project = "cmake_minimum_required(VERSION 3.21)\nproject(sum LANGUAGES CXX CUDA)\nadd_executable(sum main.cpp sum.cu)\n";
    std::fs::write(folder.path().join("CMakeLists.txt"), project).unwrap();
    let compiler = compiler.display();
    run_ok(Command::new("cmake").current_dir(folder.path()).arg(".").args([
        format!("-DCMAKE_CUDA_COMPILER={compiler}"),
        format!("-DCMAKE_CXX_COMPILER={compiler}"),
        format!("-DCUDAToolkit_ROOT={}", root().join(".toolchain/cuda-13.0").display()),
        "-DCMAKE_CUDA_RUNTIME_LIBRARY=Shared".to_owned(),
    ]));
    run_ok(Command::new("cmake").arg("--build").arg(folder.path()));
    assert_eq!(output_of(&folder.path().join("sum")), SUM);
}

#[test]
fn program_without_cuda_needs_no_cuda_library() {
    if !has_toolchain("plain C") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tool.c"), "#include <stdio.h>\nint main(void) { puts(\"made\"); }\n")
        .unwrap();
    compile(folder.path(), "tool.c -o tool");
    assert_eq!(run_ok(&mut Command::new(folder.path().join("tool"))), "made\n");
}

#[test]
fn nvcc_line_builds_the_same_program() {
    if !has_toolchain("nvcc line") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    copy_examples(folder.path());
    let options = "-arch=sm_90 -Xcompiler -Wall,-fPIC -Xptxas -v --expt-relaxed-constexpr -use_fast_math";
    std::fs::write(folder.path().join("options"), options).unwrap();
    compile(folder.path(), "--nvcc -O2 --options-file options sum.cu main.cpp -o sum");
    assert_eq!(output_of(&folder.path().join("sum")), SUM);
    assert!(symbols(&folder.path().join("sum")).contains("eager_task_begin"));
}

/// nvcc compiles device code itself; eagercc, called for the host code, adds the CPU kernels.
#[test]
fn nvcc_itself_takes_eagercc_as_its_host_compiler() {
    let nvcc = root().join(".toolchain/cuda-13.0/bin/nvcc");
    if !has_toolchain("nvcc -ccbin") || !has_command(&nvcc.display().to_string(), "nvcc -ccbin") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    copy_examples(folder.path());
    let flags =
        format!("-ccbin {} -allow-unsupported-compiler -legacy-launch-seq", tool("eagercc").display());
    let words = "-arch=sm_90 -cudart shared sum.cu main.cpp -o sum".split_whitespace();
    run_ok(Command::new(nvcc).current_dir(folder.path()).args(words).env("NVCC_PREPEND_FLAGS", flags));
    let symbols = symbols(&folder.path().join("sum"));
    assert!(symbols.contains("eager_cudaMalloc") && symbols.contains("eager_cudaLaunchKernel"), "{symbols}");
    assert_eq!(output_of(&folder.path().join("sum")), SUM);
}

#[test]
fn device_code_of_several_files_is_linked() {
    if !has_toolchain("-fgpu-rdc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "main.cu",
        "#include <cstdio>\n\
         extern __device__ int twice(int); extern __constant__ int offset; void set_offset(int);\n\
         __global__ void k(int *a) { *a = twice(*a) + offset; }\n\
         int main() {\n\
           int *a, h = 20;\n\
           cudaMalloc(&a, sizeof(int));\n\
           set_offset(2);\n\
           cudaMemcpy(a, &h, sizeof(int), cudaMemcpyHostToDevice);\n\
           k<<<1, 1>>>(a);\n\
           cudaMemcpy(&h, a, sizeof(int), cudaMemcpyDeviceToHost);\n\
           printf(\"%d\\n\", h);\n\
           cudaFree(a);\n\
         }\n",
    );
    write(
        "library.cu",
        "__constant__ int offset; __device__ int twice(int x) { return 2 * x; }\n\
         void set_offset(int value) { cudaMemcpyToSymbol(offset, &value, sizeof(int)); }\n",
    );
    compile(folder.path(), "--nvcc -dc -arch=sm_90 main.cu -o main.o");
    compile(folder.path(), "--nvcc -rdc=true -arch=sm_90 -lib library.cu -o liblibrary.a");
    // The link detects by itself that device code is left to link.
    compile(folder.path(), "main.o liblibrary.a -o program");
    assert_eq!(output_of(&folder.path().join("program")), "42\n");
}

/// Only host code calls the library's function, so the linker of device code alone would take nothing from the library.
const MAIN: &str = "int run(int);\n#include <cstdio>\nint main() { printf(\"%d\\n\", run(20)); }\n";
const RUNS: &str = "__device__ int twice(int);\n\
    __global__ void k(int *a) { *a = twice(*a) + 2; }\n\
    int run(int h) {\n\
      int *a;\n\
      cudaMalloc(&a, sizeof(int));\n\
      cudaMemcpy(a, &h, sizeof(int), cudaMemcpyHostToDevice);\n\
      k<<<1, 1>>>(a);\n\
      cudaMemcpy(&h, a, sizeof(int), cudaMemcpyDeviceToHost);\n\
      cudaFree(a);\n\
      return h;\n\
    }\n";

#[test]
fn device_code_in_static_libraries_is_linked_however_they_are_named() {
    if !has_toolchain("static libraries") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("main.cpp", MAIN);
    write("k.cu", RUNS);
    write("d.cu", "__device__ int twice(int x) { return 2 * x; }\n");
    compile(folder.path(), "--nvcc -dc k.cu d.cu");
    run_ok(Command::new("llvm-ar-22").current_dir(folder.path()).args(["rcs", "libk.a", "k.o"]));
    run_ok(Command::new("llvm-ar-22").current_dir(folder.path()).args(["rcs", "libd.a", "d.o"]));
    compile(folder.path(), "--nvcc -dlink k.o d.o -o linked.o");
    for line in [
        "main.cpp libk.a libd.a -o program",
        "main.cpp -L. -lk -ld -o program",
        "main.cpp -L . -l:libk.a -l d -o program",
        "main.cpp -Wl,--whole-archive,libk.a,libd.a,--no-whole-archive -o program",
        "--nvcc main.cpp -Xlinker --start-group,-L.,-lk,-ld,--end-group -o program",
        "--nvcc main.cpp k.o d.o linked.o -o program",
    ] {
        compile(folder.path(), line);
        assert_eq!(output_of(&folder.path().join("program")), "42\n", "{line}");
    }
}

#[test]
fn source_on_standard_input_and_gpus_without_a_number_make_a_program() {
    if !has_toolchain("standard input") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = format!("#include \"own.h\"\n{RUNS}int main() {{ printf(\"%d\\n\", run(20)); }}\n");
    let source =
        source.replace("__device__ int twice(int);", "__device__ int twice(int x) { return 2 * x; }");
    std::fs::write(folder.path().join("own.h"), "#include <cstdio>\n").unwrap();
    std::fs::write(folder.path().join("a.cu"), &source).unwrap();
    for (line, is_input) in [
        ("--nvcc -x cu - -o program", true),
        ("-x cuda - -o program", true),
        ("--nvcc -arch=native a.cu -o program", false),
        ("-arch=all-major a.cu -o program", false),
        ("--cuda-gpu-arch=sm_80 --cuda-gpu-arch=sm_90 --no-cuda-gpu-arch=sm_80 a.cu -o program", false),
    ] {
        let input = std::fs::File::open(folder.path().join("a.cu")).unwrap();
        let input = if is_input { std::process::Stdio::from(input) } else { std::process::Stdio::null() };
        run_ok(eagercc(folder.path()).args(line.split_whitespace()).stdin(input));
        assert_eq!(output_of(&folder.path().join("program")), "42\n", "{line}");
    }
}

const ALLOCATES: &str = "#include <cstdio>\n\
    int *make(int n) { int *a; cudaMalloc(&a, n * sizeof(int)); return a; }\n\
    void launch(int *, int);\n\
    int main(int argc, char **) {\n\
      int *a = make(argc * 64), h = 0;\n\
      launch(a, argc * 64);\n\
      cudaMemcpy(&h, a + 5, sizeof(int), cudaMemcpyDeviceToHost);\n\
      printf(\"%d\\n\", h);\n\
      cudaFree(a);\n\
    }\n";
const LAUNCHES: &str = "__global__ void number(int *a) { a[threadIdx.x] = threadIdx.x; }\n\
    void launch(int *a, int n) { number<<<1, n>>>(a); }\n";

#[test]
fn whole_program_is_instrumented_once_by_the_linker() {
    if !has_toolchain("-flto") || !has_command("ld.lld-22", "-flto") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.cu"), ALLOCATES).unwrap();
    std::fs::write(folder.path().join("b.cu"), LAUNCHES).unwrap();
    compile(folder.path(), "-O2 -flto -c a.cu -o a.o");
    compile(folder.path(), "-O2 -flto -c b.cu -o b.o");
    assert!(!symbols(&folder.path().join("a.o")).contains("eager_"), "instrumented before the link");
    compile(folder.path(), "-O2 -flto a.o b.o --eager-report=report.json -o program");
    assert_eq!(output_of(&folder.path().join("program")), "5\n");
    let report = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        (report["schema"].as_str(), report["units"].as_array().map(Vec::len)),
        (Some("eager-report"), Some(1)),
        "{report}"
    );
    let unit = &report["units"][0];
    assert_eq!(unit["kernels"][0]["function"], "number(int*)", "{report}");
    // One file's function allocates and the other's launches: one task of `main`.
    let tasks = unit["tasks"].as_array().expect("tasks");
    let is_static = |task: &&serde_json::Value| task["placement"] == "static" && task["function"] == "main";
    assert_eq!(tasks.iter().filter(is_static).count(), 1, "{report}");
}

#[test]
fn another_cuda_tree_is_linked_where_it_is_named() {
    let tree = root().join(".toolchain/cuda-12.9");
    if !has_toolchain("CUDA 12.9") || !tree.is_dir() {
        eprintln!("SKIPPED: CUDA 12.9: needs {}: run ./setup.sh", tree.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    copy_examples(folder.path());
    compile(
        folder.path(),
        &format!("--cuda-path={} --cuda-gpu-arch=sm_70 sum.cu main.cpp -o sum", tree.display()),
    );
    let needed = run_ok(Command::new("llvm-readelf-22").arg("-d").arg(folder.path().join("sum")));
    assert!(needed.contains("libcudart.so.12") && !needed.contains("libcudart.so.13"), "{needed}");
    assert_eq!(output_of(&folder.path().join("sum")), SUM);
}

/// Writes a source with a header that only the device half includes; clang alone does not list that header.
fn source_with_device_header(folder: &Path, value: u32) {
    let source = "#ifdef __CUDA_ARCH__\n#include \"device.h\"\n#else\n#define VALUE 0\n#endif\n\
                  __global__ void k(int *a) { *a = VALUE; }\n";
    std::fs::write(folder.join("device.h"), format!("#define VALUE {value}\n")).unwrap();
    std::fs::write(folder.join("a.cu"), source).unwrap();
}

#[test]
fn dependencies_name_headers_of_the_device_half() {
    if !has_toolchain("dependencies") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    source_with_device_header(folder.path(), 1);
    compile(folder.path(), "-MM a.cu -MT x.o -MF a.d");
    let found = std::fs::read_to_string(folder.path().join("a.d")).unwrap();
    assert!(found.lines().all(|line| line.starts_with("x.o:")) && found.contains("device.h"), "{found}");
}

#[test]
fn preprocessing_leaves_the_report_of_a_compile_alone() {
    if !has_toolchain("report") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    source_with_device_header(folder.path(), 1);
    let report = folder.path().join("report.json");
    std::fs::write(&report, "of the compile").unwrap();
    compile(folder.path(), "-E a.cu -o a.cui --eager-report=report.json");
    assert_eq!(std::fs::read_to_string(&report).unwrap(), "of the compile");
}

#[test]
fn compiler_cache_sees_a_change_of_the_device_half() {
    if !has_toolchain("ccache") || !has_command("ccache", "ccache") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("a.o");
    let build = |value| {
        source_with_device_header(folder.path(), value);
        let words = [tool("eagercc").into_os_string(), "-c".into(), "a.cu".into(), "-o".into(), "a.o".into()];
        let cache = folder.path().join("cache");
        run_ok(Command::new("ccache").current_dir(folder.path()).args(words).env("CCACHE_DIR", &cache));
        let printed = run_ok(Command::new("ccache").arg("--print-stats").env("CCACHE_DIR", &cache));
        let hits: u32 = printed
            .lines()
            .filter(|line| line.starts_with("direct_cache_hit") || line.starts_with("preprocessed_cache_hit"))
            .filter_map(|line| line.split_whitespace().last()?.parse::<u32>().ok())
            .sum();
        (std::fs::read(&object).unwrap(), hits)
    };
    let (first, _) = build(1);
    let (changed, hits) = build(2);
    assert_eq!(hits, 0, "a changed device header is a miss");
    assert!(first != changed, "the object follows the header");
    let (again, hits) = build(1);
    assert_eq!((again == first, hits), (true, 1), "the first object comes back from the cache");
}

#[test]
fn compiler_of_another_version_is_refused_in_one_line() {
    let Some(other) = ["clang++-19", "clang++-16", "clang++-15", "clang++-14"].into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    }) else {
        eprintln!("SKIPPED: compiler of another version: none of clang++-19, -16, -15, -14 is installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    copy_examples(folder.path());
    let refused = run(eagercc(folder.path()).args(["-c", "main.cpp"]).env("EAGER_CLANG", other));
    let said = text(&refused);
    assert!(!refused.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains(other) && said.contains("LLVM 22"), "{said}");
}

#[test]
fn a_library_that_eager_does_not_bring_is_explained() {
    if !has_toolchain("libraries") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.cpp"), "int main() {}\n").unwrap();
    for library in ["cuda", "nvrtc", "cublas"] {
        let refused = run(eagercc(folder.path()).args(["a.cpp", "-o", "a", &format!("-l{library}")]));
        if refused.status.success() {
            eprintln!("SKIPPED: this machine has lib{library}");
            continue;
        }
        let said = text(&refused);
        let advice = format!("eagercc: -l{library}: no such library here; ");
        assert_eq!(said.lines().filter(|line| line.starts_with(&advice)).count(), 1, "{said}");
    }
}

#[test]
fn mistakes_are_one_line_each() {
    if !has_toolchain("mistakes") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (line, expected) in [
        ("-c nothing.cu", "eagercc: no such file: nothing.cu"),
        ("@nothing.rsp", "eagercc: cannot read response file nothing.rsp: "),
        ("--eager-no-instrumnet a.cu", "did you mean '--eager-no-instrument'?"),
        ("--cuda-path=/nothing -x cuda /dev/null", "eagercc: /nothing is not a CUDA tree"),
        ("--cuda 11.2 -x cuda /dev/null", "eagercc: CUDA 11.2 not found in .toolchain/cuda-11.2"),
        ("a.cu -dc", "eagercc: '-dc' is a switch of nvcc"),
        ("--nvcc -fatbin a.cu", "compile with -c: the object holds the fat binary"),
        ("a.cu -o", "eagercc: argument to '-o' is missing"),
    ] {
        let refused = run(eagercc(folder.path()).args(line.split_whitespace()));
        let said = text(&refused);
        assert!(!refused.status.success(), "{line}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{line}:\n{said}");
    }
}

#[test]
fn a_program_starts_by_itself_where_it_was_compiled_for_that() {
    if !has_toolchain("direct start") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    copy_examples(folder.path());
    compile(folder.path(), "-O2 sum.cu main.cpp -o plain");
    compile(folder.path(), "-O2 --eager-virtual sum.cu main.cpp -o virtual");
    let start = |name: &str| {
        let mut command = Command::new(folder.path().join(name));
        run(command.env("EAGER_DISABLE", "1").env_remove("LD_LIBRARY_PATH"))
    };
    let direct = start("virtual");
    assert!(direct.status.success() && text(&direct).contains(SUM), "{}", text(&direct));
    let plain = start("plain");
    if plain.status.success() {
        eprintln!("SKIPPED: the loader's message: this machine has a CUDA runtime in its loader's path");
        return;
    }
    let message = "libcudart.so.13: cannot open shared object file: No such file or directory";
    assert!(text(&plain).contains(message), "{}", text(&plain));
}
