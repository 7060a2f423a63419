//! Runs the plugin on mutated modules and sorts the outcomes: passed, refused, or a failure of the plugin.
//!
//! Each mutant runs in an `opt` process of its own, so that a crash ends nothing else. Trap: `opt` itself rejects
//! modules that do not parse or verify. Such a mutant does not test the plugin; it is counted separately, so that a
//! report shows how much was tested.

use crate::mutate::mutant;
use crate::{root, run_ok, tool};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const OPT: &str = "opt-22";
const CLANG: &str = "clang++-22";
/// Seconds after which a mutant counts as hanging; the pass needs milliseconds.
const HANG_SECONDS: &str = "60";
/// Exit code of `timeout` when the limit is reached.
const TIMED_OUT: i32 = 124;

/// A module from which mutants are made.
#[derive(Debug, Clone)]
pub struct Seed {
    pub name: String,
    pub text: String,
    /// True for GPU code, which the plugin may refuse with a message.
    pub is_device: bool,
}

/// Counts and failures of one run of the fuzzer.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    pub mutants: u64,
    /// Mutants that are not valid IR and were not given to the plugin.
    pub invalid: u64,
    /// Mutants that the plugin refused with a message.
    pub refused: u64,
    /// One text for each crash, hang or invalid result, with the path of the kept file.
    pub failures: Vec<String>,
}

/// Outcome of one mutant.
enum Verdict {
    Passed,
    Invalid,
    Refused,
    Failed(String),
}

/// Returns the modules to start from: the pass's own tests, generated programs, and the two halves of some corpus
/// programs.
pub fn seeds(folder: &Path, generated: u64) -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |name: String, path: &Path| {
        let named = run_ok(Command::new(OPT).args(["-passes=instnamer", "-S", "-o", "-"]).arg(path));
        let is_device = named.contains("target triple = \"nvptx");
        seeds.push(Seed { name, text: named, is_device });
    };
    let filetests = root().join("compiler-pass/pass/tests/filetests");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(&filetests).expect("filetests").map(|entry| entry.expect("entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ll"));
    paths.sort();
    for path in paths {
        add(path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), &path);
    }
    for seed in 0..generated {
        let source = folder.join(format!("generated-{seed}.cu"));
        let features = crate::generate::Features { across_functions: true, exceptions: true };
        std::fs::write(&source, crate::generate::file(seed, 6, features)).expect("write a generated program");
        let words = ["--cuda-host-only", "-nocudainc", "-nocudalib"];
        add(format!("generated-{seed}"), &to_ir(&source, &words, &root().join("tests/oracle")));
    }
    for name in ["several_kernels", "device_symbol", "loop_varying_grid", "pointer_array"] {
        let source = root().join("tests/corpus").join(name).with_extension("cu");
        let copy = folder.join(format!("{name}.cu"));
        std::fs::copy(&source, &copy).expect("copy a corpus program");
        add(format!("{name}-device"), &to_ir(&copy, &["--cuda-device-only"], &root().join("tests/corpus")));
    }
    let patterns = root().join("compiler-pass/pass/tests/kernel_facts");
    let copy = folder.join("patterns.cu");
    std::fs::copy(patterns.join("patterns.cu"), &copy).expect("copy the kernels of the pass's tests");
    add("patterns-device".to_owned(), &to_ir(&copy, &["--cuda-device-only"], &patterns));
    seeds
}

/// Compiles a source to the module that the plugin sees; writes it beside the source.
fn to_ir(source: &Path, words: &[&str], include: &Path) -> PathBuf {
    let module = source.with_extension("ll");
    run_ok(
        Command::new(CLANG)
            .args([
                "-x",
                "cuda",
                "--cuda-gpu-arch=sm_90",
                "-Wno-unknown-cuda-version",
                "-fno-discard-value-names",
            ])
            .args(["-O1", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm"])
            .arg(format!("--cuda-path={}", root().join(".toolchain/cuda-13.0").display()))
            .arg("-I")
            .arg(include)
            .args(words)
            .arg(source)
            .arg("-o")
            .arg(&module),
    );
    module
}

/// Tries mutants from number `first` on while `go_on(number)` holds, on `jobs` threads; copies mutants that fail to
/// `keep`.
pub fn fuzz(
    seeds: &[Seed],
    first: u64,
    jobs: usize,
    keep: &Path,
    go_on: &(dyn Fn(u64) -> bool + Sync),
) -> Tally {
    let next = AtomicU64::new(first);
    let tally = Mutex::new(Tally::default());
    let worker = || {
        let scratch = tempfile::tempdir().expect("scratch folder");
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if !go_on(number - first) {
                return;
            }
            let seed = &seeds[usize::try_from(number).unwrap_or(0) % seeds.len()];
            let text = mutant(&seed.text, number, 1 + usize::try_from(number / 7 % 6).unwrap_or(0));
            let verdict = judge(seed, &text, scratch.path());
            let mut tally = tally.lock().expect("tally");
            tally.mutants += 1;
            match verdict {
                Verdict::Passed => {}
                Verdict::Invalid => tally.invalid += 1,
                Verdict::Refused => tally.refused += 1,
                Verdict::Failed(why) => {
                    std::fs::create_dir_all(keep).expect("folder for crashers");
                    let kept = keep.join(format!("{}-{number}.ll", seed.name));
                    std::fs::write(&kept, &text).expect("keep a crasher");
                    tally.failures.push(format!(
                        "mutant {number} of {}, kept in {}: {why}",
                        seed.name,
                        kept.display()
                    ));
                }
            }
        }
    };
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(worker))));
    tally.into_inner().expect("tally")
}

fn judge(seed: &Seed, text: &str, scratch: &Path) -> Verdict {
    let input = scratch.join("mutant.ll");
    std::fs::write(&input, text).expect("write a mutant");
    let output = Command::new("timeout")
        .arg(HANG_SECONDS)
        .arg(OPT)
        .arg(format!("-load-pass-plugin={}", tool("libeager_pass.so").display()))
        .args(["-passes=eager,verify", "-disable-output"])
        .arg(&input)
        .env("EAGER_PASS_CPU_KERNELS", scratch.join("kernels.bc"))
        .env("EAGER_PASS_KERNEL_DATA", scratch.join("kernels.json"))
        .env("EAGER_PASS_REPORT", scratch.join("report.json"))
        .output()
        .expect("start opt");
    let errors = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    let said = || errors.lines().take(6).collect::<Vec<_>>().join(" | ");
    if output.status.success() {
        let panicked = errors.contains("panicked");
        return if panicked { Verdict::Failed(said()) } else { Verdict::Passed };
    }
    let is_refusal = code == Some(1) && !errors.contains("panicked") && !errors.contains("Stack dump");
    match code {
        Some(TIMED_OUT) => Verdict::Failed(format!("no end within {HANG_SECONDS} s")),
        Some(1) if is_refusal && names_input(&errors) => Verdict::Invalid,
        Some(1) if is_refusal && may_refuse(seed.is_device, &errors) => Verdict::Refused,
        _ => Verdict::Failed(format!("{}: {}", output.status, said())),
    }
}

/// True if the plugin may refuse the module. Host code may only be refused for managed variables whose registration is
/// not where it belongs.
fn may_refuse(is_device: bool, errors: &str) -> bool {
    errors.contains(if is_device { "eager:" } else { "eager: __managed__ variable " })
}

/// True if `opt` rejected the module before any pass ran.
fn names_input(errors: &str) -> bool {
    errors.contains("input module is broken")
        || errors.lines().next().is_some_and(|line| line.contains("mutant.ll:"))
}
