//! An object of an interface version that was never released does not link with `libeager.so`, and a program of such a
//! version does not start with it. A program of an earlier release gets a message that names what to compile again.

use eager_tests::place::Place;
use eager_tests::{bin_dir, corpus, has_toolchain, root, run, run_ok, text, tool};
use std::path::{Path, PathBuf};
use std::process::Command;

const CLANG: &str = "clang++-22";
const OBJCOPY: &str = "/usr/lib/llvm-22/bin/llvm-objcopy";
const OTHER: &str = "eager_abi_v1";

/// Compiles an instrumented object of another interface version; `None` without the tools.
fn foreign_object(test: &str, folder: &Path) -> Option<PathBuf> {
    if !has_toolchain(test) {
        return None;
    }
    if !Path::new(OBJCOPY).is_file() {
        eprintln!("SKIPPED: {test}: no {OBJCOPY}: run ./setup.sh");
        return None;
    }
    let source =
        corpus::programs().into_iter().find(|program| program.name == "straight").expect("straight.cu");
    let (object, foreign) = (folder.join("own.o"), folder.join("foreign.o"));
    run_ok(Command::new(tool("eagercc")).arg("-c").arg(&source.source).arg("-o").arg(&object));
    let renamed = format!("{}={OTHER}", eager_abi::VERSION_SYMBOL);
    run_ok(Command::new(OBJCOPY).args(["--redefine-sym", &renamed]).arg(&object).arg(&foreign));
    Some(foreign)
}

#[test]
fn an_object_of_another_version_does_not_link() {
    let folder = tempfile::tempdir().expect("folder");
    let Some(object) = foreign_object("link with another version", folder.path()) else { return };
    let output = run(Command::new(tool("eagercc")).arg(&object).arg("-o").arg(folder.path().join("program")));
    assert!(!output.status.success(), "it linked");
    let said = text(&output);
    assert!(said.lines().any(|line| line.contains("undefined") && line.contains(OTHER)), "{said}");
}

#[test]
fn a_program_of_another_version_does_not_start() {
    let folder = tempfile::tempdir().expect("folder");
    let Some(object) = foreign_object("start with another version", folder.path()) else { return };
    // Stands for the other version's library at link time: this version's symbols come from `eagercc`, the other's
    // version symbol from here.
    let library = folder.path().join("libeager_other.so");
    std::fs::write(folder.path().join("other.c"), format!("char {OTHER};\n")).expect("write other.c");
    run_ok(
        Command::new(CLANG)
            .args(["-x", "c", "-shared"])
            .arg(folder.path().join("other.c"))
            .arg("-o")
            .arg(&library),
    );
    let program = folder.path().join("program");
    run_ok(Command::new(tool("eagercc")).arg(&object).arg(&library).arg("-o").arg(&program));
    // An empty library replaces it, as if the other version had been uninstalled.
    std::fs::write(folder.path().join("other.c"), "").expect("write other.c");
    run_ok(
        Command::new(CLANG)
            .args(["-x", "c", "-shared"])
            .arg(folder.path().join("other.c"))
            .arg("-o")
            .arg(&library),
    );
    let output = run(Command::new(&program).env("LD_BIND_NOW", "1").env(
        "LD_LIBRARY_PATH",
        format!("{}:{}", bin_dir().display(), root().join(".toolchain/cuda-13.0/lib").display()),
    ));
    assert!(!output.status.success(), "it started");
    let said = text(&output);
    assert!(said.lines().any(|line| line.contains("undefined symbol") && line.contains(OTHER)), "{said}");
}

/// Output of an older `eagercc` for two source files, with calls whose arguments have another meaning now.
const OLDER: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <string.h>
struct module { uint32_t version, counts[3]; const char *source; const void *tables[3]; };
int eager_cudaMalloc(void **, size_t);
int eager_cudaFree(void *);
void eager_module_register(const struct module *);
void eager_task_begin(uint64_t, uint64_t, uint64_t, uint64_t, uint32_t);
void eager_task_end(uint64_t);
static const struct module modules[2] = {{VERSION, {7, 7, 7}, "first.cu"}, {VERSION, {7, 7, 7}, "second.cu"}};
static void load(void) { for (int i = 0; i < 2; i++) eager_module_register(&modules[i]); }
int main(int count, char **arguments) {
  char line[8];
  void *p = 0;
  int late = count > 1 && !strcmp(arguments[1], "late");
  if (!late) load();
  eager_task_begin(1, 64 << 20, 64 << 20, 0, 0);
  int error = eager_cudaMalloc(&p, 64 << 20);
  printf("malloc %d\n", error); fflush(stdout);
  if (!fgets(line, sizeof line, stdin)) return 1;
  if (late) load();
  eager_task_begin(2, UINT64_MAX, UINT64_MAX, UINT64_MAX, 3000000000u);
  printf("then %d\n", eager_cudaMalloc(&p, 1 << 20)); fflush(stdout);
  if (!fgets(line, sizeof line, stdin)) return 1;
  eager_task_end(1);
  return 0;
}
"#;

fn older() -> String {
    OLDER.replace("VERSION", &(eager_abi::ABI_VERSION - 1).to_string())
}

#[test]
fn a_program_of_an_older_version_is_told_what_to_compile_again_and_takes_nothing_of_the_ledger() {
    let Some(place) = Place::new("program.c", &older(), &[]) else { return };
    for (on_loss, answer, instead) in
        [("open", 0, "running as plain CUDA"), ("closed", 46, "CUDA calls fail")]
    {
        let mut program = place.program("", on_loss);
        program.expect_line(&format!("malloc {answer}"));
        assert_eq!((place.granted(), place.info()["daemon"]["clients"].as_u64()), (0, Some(0)), "{on_loss}");
        program.send_line();
        program.expect_line(&format!("then {answer}"));
        program.send_line();
        assert!(program.end().success(), "{on_loss}");
        let said = program.stderr_text();
        assert_eq!(said.lines().count(), 1, "{said}");
        for part in
            ["first.cu, second.cu were compiled for version", "with the eagercc of this release", instead]
        {
            assert!(said.contains(part), "{on_loss}: {said}");
        }
    }
}

/// The program keeps what it holds; the calls of the older part request nothing.
#[test]
fn a_library_of_an_older_version_that_is_loaded_late_ends_the_scheduling_with_a_line() {
    let Some(place) = Place::new("program.c", &older(), &[]) else { return };
    let mut program = place.program("late", "open");
    program.expect_line("malloc 0");
    assert_eq!(place.granted(), 64 << 20);
    program.send_line();
    program.expect_line("then 0");
    assert_eq!(place.granted(), 64 << 20);
    program.send_line();
    assert!(program.end().success());
    let said = program.stderr_text();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("first.cu was compiled for version") && said.contains("plain CUDA"), "{said}");
    place.until_granted(0, "after its end");
}
