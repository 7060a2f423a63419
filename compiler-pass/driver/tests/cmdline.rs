//! Checks the planned commands of each `cmdline/NAME.args` against `cmdline/NAME.golden`.
//!
//! No compiler is needed: the toolchain is made up, and `@file` is a file of that folder. `EAGER_BLESS=1` rewrites the
//! golden files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use eagercc::dialect::{self, Dialect};
use eagercc::invocation::{Invocation, interpret};
use eagercc::toolchain::Toolchain;
use eagercc::{nvcc, plan, response};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cmdline")
}

fn toolchain() -> Toolchain {
    Toolchain {
        clang: "clang++-22".into(),
        cuda: "/cuda".into(),
        cuda_includes: vec!["/cuda/include/cccl".into()],
        plugin: "/lib/libeager_pass.so".into(),
        headers: "/include".into(),
        shim_folder: "/lib".into(),
        llvm_folder: "/llvm".into(),
    }
}

fn clang_words(line: &str) -> Result<Vec<OsString>, Box<dyn std::error::Error>> {
    let read = |path: &Path| std::fs::read_to_string(folder().join(path));
    let (dialect, words) = dialect::of("eagercc".as_ref(), &response::split(line));
    Ok(match dialect {
        Dialect::Nvcc => nvcc::translate(&response::expand(&nvcc::response_files(&words), &read)?)?,
        Dialect::Clang => nvcc::only_nvccs_own(&response::expand(&words, &read)?)?,
    })
}

fn planned(line: &str) -> Result<String, Box<dyn std::error::Error>> {
    let words = clang_words(line)?;
    Ok(match interpret(&words)? {
        Invocation::Help => "help\n".to_owned(),
        Invocation::Version => "version\n".to_owned(),
        Invocation::PassThrough(reason, _) => {
            let commands = plan::pass_through(&words, &toolchain());
            format!("passed through: {reason:?}\n{}\n", commands.steps[0].shell())
        }
        Invocation::Run(mut job) => {
            for source in job.sources.iter_mut().filter(|source| source.is_nvcc_host_code()) {
                source.take_origin("# 1 \"src/a.cu\"\nint main() {}\n");
            }
            let notes = job.notes.iter().map(|note| format!("note: {note}\n"));
            let plan = plan::plan(&job, &toolchain(), Path::new("$SCRATCH"));
            notes.chain(plan.steps.iter().map(|step| step.shell() + "\n")).collect()
        }
    })
}

#[test]
fn command_lines_match_their_golden_files() {
    let mut names: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "args"))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no test cases in {}", folder().display());
    for path in names {
        let line = std::fs::read_to_string(&path).unwrap();
        let found = planned(&line).unwrap_or_else(|error| format!("error: {error}\n"));
        let golden = path.with_extension("golden");
        if std::env::var_os("EAGER_BLESS").is_some() {
            std::fs::write(&golden, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(found, expected, "{}", path.display());
    }
}

#[test]
fn how_a_program_starts_without_a_gpu_is_said_of_programs_that_do_not_start_by_themselves() {
    let said = |line: &str| match interpret(&clang_words(line).expect(line)).expect(line) {
        Invocation::Run(job) => job.how_to_start(),
        other => panic!("{line}: {other:?}"),
    };
    for (line, start) in [
        ("eagercc a.cu -o a", "`eager run --plain ./a`"),
        ("eagercc a.cu", "`eager run --plain ./a.out`"),
        ("eagercc a.cu -o /tmp/a", "`eager run --plain /tmp/a`"),
        ("eagercc --nvcc -cudart shared a.cu -o bin/a", "`eager run --plain bin/a`"),
    ] {
        assert!(said(line).expect(line).contains(start), "{line}");
    }
    for line in [
        "eagercc -c a.cu",
        "eagercc a.cpp -o a",
        "eagercc a.o -o a",
        "eagercc -shared a.cu -o a.so",
        "eagercc --eager-virtual a.cu -o a",
        "eagercc --cudart=static a.cu -o a",
        "eagercc --cudart=none a.cu -o a",
    ] {
        assert_eq!(said(line), None, "{line}");
    }
}
