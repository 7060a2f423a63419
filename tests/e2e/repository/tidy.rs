//! Checks rules of the style sheet that a machine can check. Each failure lists every place.

use std::path::{Path, PathBuf};

/// Crates whose library or binary may hold `unsafe`; all others forbid it.
const UNSAFE_CRATES: &[&str] = &[
    "compiler-pass/llvm",
    "compiler-pass/pass",
    "runtime-shim/preload",
    "runtime-shim/shim",
    "scheduler/shm",
    "tests/fake-nvml",
    "virtual-gpu/cudart",
    "virtual-gpu/exec",
];
/// Crates whose sources still return errors as text; all others have error types. The crate of tests only fails with
/// them.
const TEXT_ERRORS: [&str; 4] = ["compiler-pass/llvm", "compiler-pass/pass", "tests", "virtual-gpu/kernels"];
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
/// Words before `fn`, also inside a macro.
const HEADS: [&str; 8] = ["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe", "extern", "\"C\""];
/// The formatter leaves comments as they are.
const COMMENT_CHARS_MAX: usize = 130;

#[test]
fn every_rust_file_starts_with_its_purpose() {
    report(rust_files().into_iter().filter_map(|path| {
        let text = read(&path);
        (!text.starts_with("//!")).then(|| format!("{}: no `//!` header", path.display()))
    }));
}

#[test]
fn files_stay_short() {
    report(rust_files().into_iter().filter_map(|path| {
        let lines = read(&path).lines().count();
        (lines > FILE_LINES_MAX)
            .then(|| format!("{}: {lines} lines, at most {FILE_LINES_MAX}", path.display()))
    }));
}

#[test]
fn functions_stay_short() {
    report(rust_files().into_iter().flat_map(|path| {
        let text = read(&path);
        long_functions(&text)
            .into_iter()
            .map(|(line, lines)| {
                format!("{}:{line}: function of {lines} lines, at most {FUNCTION_LINES_MAX}", path.display())
            })
            .collect::<Vec<_>>()
    }));
}

#[test]
fn comments_stay_narrow() {
    report(rust_files().into_iter().flat_map(|path| {
        let text = read(&path);
        let is_wide =
            |line: &str| line.trim_start().starts_with("//") && line.chars().count() > COMMENT_CHARS_MAX;
        let wide = text.lines().enumerate().filter(|(_, line)| is_wide(line));
        wide.map(|(number, line)| {
            let chars = line.chars().count();
            format!(
                "{}:{}: comment of {chars} characters, at most {COMMENT_CHARS_MAX}",
                path.display(),
                number + 1
            )
        })
        .collect::<Vec<_>>()
    }));
}

#[test]
fn unsafe_is_forbidden_outside_the_named_crates() {
    report(crates().into_iter().filter(|c| !UNSAFE_CRATES.contains(&c.as_str())).filter_map(|name| {
        let roots = ["src/lib.rs", "src/main.rs"].map(|file| root().join(&name).join(file));
        let forbids =
            roots.iter().filter(|p| p.exists()).all(|p| read(p).contains("#![forbid(unsafe_code)]"));
        (!forbids).then(|| format!("{name}: a crate root without #![forbid(unsafe_code)]"))
    }));
}

/// A text as an error can only be shown: nobody can tell one case from another, and the cause is lost.
#[test]
fn errors_have_types() {
    let crates: Vec<PathBuf> = crates()
        .into_iter()
        .filter(|name| !TEXT_ERRORS.contains(&name.as_str()))
        .map(|name| root().join(name).join("src"))
        .collect();
    let files = rust_files().into_iter().filter(|path| crates.iter().any(|source| path.starts_with(source)));
    report(files.flat_map(|path| {
        let name = path.display().to_string();
        let types = text_errors(&read(&path)).into_iter();
        types.map(move |found| format!("{name}: {found}: give the error a type (thiserror)"))
    }));
}

/// A module with modules below it is `name/mod.rs` everywhere.
#[test]
fn modules_with_modules_below_them_are_named_mod() {
    let files = rust_files();
    let in_source = |path: &&PathBuf| {
        let mut names = path.components().map(|name| name.as_os_str());
        names.any(|name| name == "src")
    };
    report(files.iter().filter(in_source).filter_map(|path| {
        let folder = path.with_extension("");
        files
            .iter()
            .any(|other| other.parent() == Some(&folder))
            .then(|| format!("{}: belongs into {}/mod.rs", path.display(), folder.display()))
    }));
}

/// Shim and simulator can share this code only while nothing in it depends on where it runs.
#[test]
fn the_client_neither_locks_nor_waits_nor_asks_the_system() {
    const FORBIDDEN: [&str; 10] = [
        "Mutex",
        "RwLock",
        "Condvar",
        "Atomic",
        "Instant",
        "SystemTime",
        "sleep",
        "std::env",
        "std::fs",
        "std::thread",
    ];
    let own = root().join("runtime-shim/client");
    let manifest = read(&own.join("Cargo.toml"));
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap_or_default();
    let dependencies = dependencies.split('[').next().unwrap_or_default();
    let heavy = ["parking_lot", "libc", "nix", "rustix", "eager-shm", "eager-core"];
    let depends = heavy.into_iter().filter(|name| dependencies.contains(name));
    let depends = depends.map(|name| format!("runtime-shim/client depends on {name}"));
    let uses = rust_files().into_iter().filter(|path| path.starts_with(own.join("src"))).flat_map(|path| {
        let text = read(&path);
        let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        let found = code.flat_map(|(number, line)| {
            let found = FORBIDDEN.into_iter().filter(move |word| line.contains(word));
            found.map(move |word| (number + 1, word))
        });
        let said = found.map(|(number, word)| format!("{}:{number}: {word}", path.display()));
        said.collect::<Vec<_>>()
    });
    report(depends.chain(uses));
}

/// Setting the wall clock must not change a wait of the daemon or of programs. One file reads that clock, for lists
/// that people read.
#[test]
fn what_waits_reads_no_clock_that_can_be_set() {
    let waits =
        ["scheduler/core", "scheduler/daemon", "scheduler/shm", "scheduler/proto", "runtime-shim/shim"];
    let settable =
        ["SystemTime", "ClockId::Realtime", "CLOCK_REALTIME", "gettimeofday", "Utc::now", "Local::now"];
    report(
        rust_files()
            .into_iter()
            .filter(|path| waits.iter().any(|name| path.starts_with(root().join(name))))
            .filter(|path| !path.ends_with("scheduler/daemon/src/process/date.rs"))
            .flat_map(|path| {
                let text = read(&path);
                let found = settable.into_iter().filter(|word| text.contains(word));
                found
                    .map(|word| format!("{}: `{word}` can be set; waits are monotonic", path.display()))
                    .collect::<Vec<_>>()
            }),
    );
}

#[test]
fn nothing_names_a_developers_machine() {
    // Spelled in two parts, so that this file does not find itself.
    let banned = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("TO", "DO"), concat!("FIX", "ME")];
    report(source_files().into_iter().flat_map(|path| {
        let text = read(&path);
        let mut found = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if let Some(word) = banned.iter().find(|word| line.contains(**word)) {
                found.push(format!("{}:{}: {word:?}", path.display(), number + 1));
            }
        }
        found
    }));
}

/// Returns functions longer than the limit, as (line, lines), by indentation: rustfmt closes a function at its own
/// column.
fn long_functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let head = trimmed.split("fn ").next().unwrap_or_default();
        let is_function =
            head.len() < trimmed.len() && head.split_whitespace().all(|word| HEADS.contains(&word));
        // A signature ends its line with `{` or continues after `(`; lines of a macro's table do neither.
        if !is_function || !(trimmed.ends_with('{') || trimmed.ends_with('(')) {
            continue;
        }
        let indent = line.len() - trimmed.len();
        let ends = |l: &&str| {
            let body = l.trim_start();
            l.len() - body.len() == indent && (body.starts_with('}') || body.ends_with(';'))
        };
        let length = lines[start + 1..].iter().position(ends);
        if let Some(length) = length.filter(|length| length + 2 > FUNCTION_LINES_MAX) {
            found.push((start + 1, length + 2));
        }
    }
    found
}

/// Every type of a result whose error is a `String`, without its spaces.
fn text_errors(text: &str) -> Vec<String> {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code: String = code.chars().filter(|c| !c.is_whitespace()).collect::<String>().replace(",>", ">");
    let ends = code.match_indices(",String>").map(|(at, end)| at + end.len());
    let types = ends.filter_map(|end| {
        let mut depth = 0;
        // The arrow of a function's type closes nothing.
        let brackets = code[..end].char_indices().rev().filter(|(at, _)| !code[..*at].ends_with('-'));
        for (at, c) in brackets {
            depth += i32::from(c == '>') - i32::from(c == '<');
            if depth == 0 {
                return code[..at].ends_with("Result").then(|| format!("Result{}", &code[at..end]));
            }
        }
        None
    });
    types.collect()
}

#[test]
fn text_errors_are_found_in_every_form() {
    for (code, types) in [
        ("fn f() -> Result<(), String> {", vec!["Result<(),String>"]),
        (
            "type News = Result<\n    (A, Vec<u8>), // its words\n    String,\n>;",
            vec!["Result<(A,Vec<u8>),String>"],
        ),
        ("kept: Map<u32, (Instant, Result<String, String>)>,", vec!["Result<String,String>"]),
        ("fn f(g: fn() -> Result<fn(u8) -> u8, String>)", vec!["Result<fn(u8)->u8,String>"]),
        ("fn f() -> Result<String, Error> { // Result<(), String>", vec![]),
        ("fn f() -> io::Result<(u8, String)> {", vec![]),
        ("fn f() -> Result<Map<u8, String>, Vec<String>> {", vec![]),
    ] {
        assert_eq!(text_errors(code), types, "{code}");
    }
}

fn root() -> PathBuf {
    eager_tests::root()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns the paths of the workspace members, as written in Cargo.toml.
pub fn crates() -> Vec<String> {
    let manifest = read(&root().join("Cargo.toml"));
    let list = manifest.split("members = [").nth(1).and_then(|rest| rest.split(']').next()).expect("members");
    list.split(',').map(|m| m.trim().trim_matches('"').to_string()).filter(|m| !m.is_empty()).collect()
}

fn rust_files() -> Vec<PathBuf> {
    source_files().into_iter().filter(|p| p.extension().is_some_and(|e| e == "rs")).collect()
}

/// Returns the files that git would commit, so that built files and scratch folders do not count.
fn source_files() -> Vec<PathBuf> {
    let output = std::process::Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git ls-files");
    assert!(output.status.success(), "git ls-files failed");
    let known = ["rs", "toml", "md", "sh", "cu", "c", "cpp", "h", "cuh", "ll", "txt", "html"];
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| root().join(line))
        .filter(|path| path.exists() && path.extension().is_some_and(|e| known.iter().any(|k| e == *k)))
        .collect()
}

fn report(problems: impl Iterator<Item = String>) {
    let problems: Vec<String> = problems.collect();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}
