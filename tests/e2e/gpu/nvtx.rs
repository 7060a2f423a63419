//! Ranges that a program's tasks show to NVTX tools such as Nsight Systems; a test tool (`tests/nvtx`) receives them.

use eager_tests::daemon::Daemon;
use eager_tests::{compiled, has_toolchain, root, run, run_ok, text};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = r#"
#include <cstdio>
__global__ void fill(int *p, int value) { p[threadIdx.x] = value; }
int main() {
  int *p, last = 0;
  cudaMalloc(&p, 8 << 20);
  fill<<<1, 64>>>(p, 7);
  cudaMemcpy(&last, p + 63, sizeof last, cudaMemcpyDeviceToHost);
  cudaFree(p);
  return last != 7;
}
"#;

/// Compiles the test tool.
fn tool(folder: &Path) -> PathBuf {
    let library = folder.join("tool.so");
    let source = root().join("tests/nvtx/tool.c");
    run_ok(Command::new("clang-22").args(["-shared", "-fPIC", "-Wall", "-o"]).arg(&library).arg(source));
    library
}

#[test]
fn a_tool_is_told_how_each_task_waited_and_ran() {
    if !has_toolchain("NVTX ranges") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let (program, tool, told) =
        (compiled(folder.path(), "program", PROGRAM), tool(folder.path()), folder.path().join("told"));
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0"]);
    run_ok(daemon.run(&program).env("NVTX_INJECTION64_PATH", &tool).env("NVTX_TOOL_OUT", &told));
    let told = std::fs::read_to_string(&told).expect("what the tool was told");
    let expected = "\
domain eager
start 1 8388608 main, waits (8 MiB)
start 2 8388608 main, normal on GPU 0 (8 MiB)
end 1
end 2
";
    assert_eq!(told, expected);
}

#[test]
fn a_tool_that_cannot_be_loaded_is_one_line_and_the_program_runs() {
    if !has_toolchain("NVTX ranges") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let (program, tool) = (compiled(folder.path(), "program", PROGRAM), tool(folder.path()));
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0"]);
    let out = folder.path().join("no/such/folder");
    for (path, words) in [
        (folder.path().join("none.so"), "cannot open shared object file"),
        (PathBuf::from("/usr/lib/os-release"), "invalid ELF header"),
        (tool, "its InitializeInjectionNvtx2 failed"),
    ] {
        let output = run(daemon.run(&program).env("NVTX_INJECTION64_PATH", &path).env("NVTX_TOOL_OUT", &out));
        let said = text(&output);
        assert!(output.status.success() && said.lines().count() == 1, "{said}");
        assert!(
            said.starts_with(&format!("eager: no NVTX ranges: NVTX_INJECTION64_PATH={}: ", path.display())),
            "{said}"
        );
        assert!(said.contains(words), "{said}");
    }
}
