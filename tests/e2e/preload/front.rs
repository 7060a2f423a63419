//! The library itself: what it exports, what it brings into every process, and what it refuses.

use super::NOT_INSTRUMENTED;
use eager_tests::daemon::Daemon;
use eager_tests::{bin_dir, eagercc_with, has_toolchain, refusal, run, run_ok, text};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

fn library() -> PathBuf {
    bin_dir().join("libeager_preload.so")
}

#[test]
fn the_front_exports_exactly_what_the_shim_hooks_and_both_have_every_hook() {
    let symbols = |library: &str| -> BTreeSet<String> {
        let out = run_ok(Command::new("nm").args(["-D", "--defined-only"]).arg(bin_dir().join(library)));
        out.lines().filter_map(|line| line.split_whitespace().last()).map(ToOwned::to_owned).collect()
    };
    let wanted: BTreeSet<String> =
        eager_abi::calls::front_symbols().into_iter().map(ToOwned::to_owned).collect();
    assert_eq!(symbols("libeager_preload.so"), wanted);
    let hooks = symbols("libeager.so");
    for name in &wanted {
        assert!(hooks.contains(&format!("{}{name}", eager_abi::RENAME_PREFIX)), "{name}");
    }
}

#[test]
fn a_process_without_cuda_gets_no_library_but_the_front() {
    let dynamic = run_ok(Command::new("readelf").arg("-d").arg(library()));
    let needed: Vec<&str> = dynamic.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(matches!(needed.as_slice(), [one] if one.contains("[libc.so.6]")), "{needed:?}");
    assert!(!dynamic.contains("INIT"), "nothing runs when it is loaded:\n{dynamic}");
    let mut shell = Command::new("sh");
    shell.args(["-c", "for i in 1 2 3; do sh -c 'ls / >/dev/null'; done"]);
    let out = run(shell.env("LD_PRELOAD", library()).env("LD_DEBUG", "files"));
    let said = text(&out);
    assert!(out.status.success() && said.contains("libeager_preload.so"), "{said}");
    assert!(!said.contains("libeager.so"), "{said}");
}

/// Stands for a runtime: its functions tell what arrived, also of arguments on the stack.
const RUNTIME: &str = r#"
#include <stdio.h>
#include <errno.h>
struct dim3 { unsigned x, y, z; };
int cudaMemcpy2DAsync(void *a, size_t b, const void *c, size_t d, size_t e, size_t f, int g, void *h) {
  printf("%p %zu %p %zu %zu %zu %d %p\n", a, b, c, d, e, f, g, h);
  return 7;
}
int cudaLaunchKernel(const void *stub, struct dim3 grid, struct dim3 block, void **args, size_t shared, void *stream) {
  printf("%p %u.%u.%u %u.%u.%u %p %zu %p\n", stub, grid.x, grid.y, grid.z, block.x, block.y, block.z, (void *)args, shared, stream);
  return 8;
}
"#;

const CALLS: &str = r#"
#include <stdio.h>
#include <errno.h>
#include <stddef.h>
struct dim3 { unsigned x, y, z; };
int cudaMemcpy2DAsync(void *, size_t, const void *, size_t, size_t, size_t, int, void *);
int cudaLaunchKernel(const void *, struct dim3, struct dim3, void **, size_t, void *);
int cudaMalloc(void **, size_t);
int main(void) {
  struct dim3 grid = {1, 2, 3}, block = {4, 5, 6};
  for (int i = 0; i < 2; i++) {
    errno = 42;
    int code = cudaMemcpy2DAsync((void *)1, 2, (void *)3, 4, 5, 6, 7, (void *)8);
    printf("%d %d\n", code, errno);
    code = cudaLaunchKernel((void *)9, grid, block, (void **)10, 11, (void *)12);
    printf("%d\n", code);
  }
  return 0;
}
"#;

/// Without the shim beside it, the front leads every call to the program's own runtime, whole.
#[test]
fn arguments_and_errno_come_through_and_without_the_shim_the_program_is_plain() {
    let folder = tempfile::tempdir().expect("folder");
    let place = |name: &str| folder.path().join(name);
    for (name, source) in [("runtime.c", RUNTIME), ("calls.c", CALLS)] {
        std::fs::write(place(name), source).expect("write");
    }
    std::fs::copy(library(), place("libeager_preload.so")).expect("copy");
    for level in ["-O0", "-O3"] {
        let mut runtime = Command::new("cc");
        run_ok(
            runtime
                .args([level, "-shared", "-fPIC", "-w", "-o"])
                .args([place("libcudart.so.13"), place("runtime.c")]),
        );
        let mut program = Command::new("cc");
        program.args([level, "-w", "-Wl,-rpath,$ORIGIN", "-o"]).args([
            place("calls"),
            place("calls.c"),
            place("libcudart.so.13"),
        ]);
        run_ok(&mut program);
        let calls = "0x1 2 0x3 4 5 6 7 0x8\n7 42\n0x9 1.2.3 4.5.6 0xa 11 0xc\n8\n";
        let out = run(Command::new(place("calls")).env("LD_PRELOAD", place("libeager_preload.so")));
        assert_eq!(String::from_utf8_lossy(&out.stdout), calls.repeat(2), "{level}: {}", text(&out));
        assert_eq!(
            String::from_utf8_lossy(&out.stderr),
            "eager: cannot load libeager.so from the folder of libeager_preload.so: the program runs as plain CUDA, \
             unscheduled\n"
        );
    }
}

#[test]
fn what_the_front_would_not_reach_is_refused_with_what_to_do() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0"]);
    let run_with = |words: &[&str], world: &str| {
        let mut command = daemon.verb(&["run", "--preload"]);
        refusal(&run(command.arg("--").args(words).env("WORLD_SIZE", world)))
    };
    let (code, said) = run_with(&["true"], "4");
    assert!(code == Some(1) && said.contains("`eager run --mem SIZE -n 4 COMMAND`"), "{said}");
    let (code, said) = run_with(&["su"], "1");
    assert!(code == Some(1) && said.contains("set-user-ID") && said.contains("--mem SIZE"), "{said}");
    if !has_toolchain("a program with the static runtime") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let [source, program] = ["one.cu", "one"].map(|name| folder.path().join(name));
    std::fs::write(
        &source,
        "__global__ void k() {}\nint main() { k<<<1, 1>>>(); return cudaDeviceSynchronize(); }\n",
    )
    .expect("write");
    let words = [NOT_INSTRUMENTED.into(), "--cudart=static".into()];
    eagercc_with(&words, &[&source], &program);
    run_ok(Command::new("strip").arg(&program));
    let program = program.to_str().expect("UTF-8");
    let (code, said) = run_with(&[program], "1");
    assert!(
        code == Some(1) && said.contains("static CUDA runtime") && said.contains("-cudart shared"),
        "{said}"
    );
    let doctor = run_ok(&mut daemon.verb(&["doctor", program]));
    assert!(doctor.starts_with("warn  program") && doctor.contains("static CUDA runtime"), "{doctor}");
}
