//! Random host programs: compares what the pass announced with an oracle and with the stand-in runtime's ledger.
//!
//! `EAGER_TEST_SEED=N` repeats a seed, `EAGER_TEST_PROGRAMS=N` sets how many programs a batch has; both are printed.
//! Two levels: many programs against the oracle of `tests/oracle` (host code only, no CUDA headers, a process per
//! path), and fewer with the real shim, daemon and runtime, audited from their traces. Trap: a function is judged
//! strictly only if the report calls all of its tasks static; the memory of lazy tasks may be announced late.

use eager_tests::accounting::{Books, audit};
use eager_tests::corpus::collect_tasks;
use eager_tests::generate::{Features, file};
use eager_tests::{bin_dir, daemon::Daemon, has_toolchain, number, root, run, run_ok, text, tool};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const CLANG: &str = "clang++-22";
/// Paths taken through each function.
const RUNS: usize = 16;
const ONE_FUNCTION: Features = Features { across_functions: false, exceptions: false };
const ACROSS_FUNCTIONS: Features = Features { across_functions: true, exceptions: false };
const WITH_EXCEPTIONS: Features = Features { across_functions: true, exceptions: true };

/// The report's statements about one batch.
struct Placements {
    /// Programs without a lazy task.
    strict: BTreeSet<String>,
    /// Sites of static tasks whose whole requirement every path uses.
    exact: BTreeSet<u64>,
    static_tasks: usize,
}

/// A generated batch, on disk.
struct Batch {
    folder: tempfile::TempDir,
    name: String,
    count: usize,
}

impl Batch {
    fn new(name: &str, features: Features, count: usize) -> Batch {
        let seed = number("EAGER_TEST_SEED", 1);
        let count = usize::try_from(number("EAGER_TEST_PROGRAMS", count as u64)).expect("a count");
        let name = format!("{name}: EAGER_TEST_SEED={seed} EAGER_TEST_PROGRAMS={count}");
        eprintln!("{name}");
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("batch.cu"), file(seed, count, features)).expect("write batch.cu");
        Batch { folder, name, count }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Writes what the device half of the compile would state about the kernels, which do nothing.
    fn kernel_data(&self) -> PathBuf {
        let kernel = |(name, pointers): (&str, usize)| {
            let discreet = r#""keeps_pointers":false,"keeps_contents":false"#;
            format!(r#"{{"name":"{name}","arguments":[],{discreet},"pointers":{pointers}}}"#)
        };
        let names = ["_Z3onePi", "_Z3twoPiS_", "_Z5threePiS_S_"];
        let kernels: Vec<_> = names.into_iter().zip(1..).map(kernel).collect();
        let path = self.path("kernels.json");
        let text = format!(r#"{{"version":2,"kernels":[{}]}}"#, kernels.join(","));
        std::fs::write(&path, text).expect("write kernels.json");
        path
    }

    fn placements(&self) -> Placements {
        let report = std::fs::read_to_string(self.path("report.json")).expect("report");
        let report: serde_json::Value = serde_json::from_str(&report).expect("the report is JSON");
        let mut tasks = Vec::new();
        collect_tasks(&report, &mut tasks);
        let mut strict: BTreeSet<String> = (0..self.count).map(|index| format!("f{index}")).collect();
        let mut found = Placements { strict: BTreeSet::new(), exact: BTreeSet::new(), static_tasks: 0 };
        for task in tasks {
            if task["placement"] == "lazy" {
                strict.remove(&program_of(task["function"].as_str().expect("function")));
                continue;
            }
            found.static_tasks += 1;
            let site = task["site"].as_str().and_then(|site| site.strip_prefix("0x")).expect("site");
            if task["exact"] == true {
                found.exact.insert(u64::from_str_radix(site, 16).expect("hexadecimal"));
            }
        }
        found.strict = strict;
        found
    }
}

/// Returns the program that a function belongs to: `f7` and its helpers `h7_…`, mangled or with parameters.
fn program_of(function: &str) -> String {
    let letters = function.trim_start_matches("_ZL").trim_start_matches("_Z");
    let name = letters.split(['(', ' ']).find(|word| word.contains(['f', 'h'])).unwrap_or(letters);
    let digits = name.split(['f', 'h']).nth(1).unwrap_or_default();
    let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    assert!(!digits.is_empty(), "{function} is no function of a generated program");
    format!("f{digits}")
}

/// Compiles a batch against the oracle, runs all of its paths, and returns the complaints by program.
fn against_the_oracle(batch: &Batch, level: &str) -> BTreeMap<String, String> {
    let (oracle, plugin) = (root().join("tests/oracle"), tool("libeager_pass.so"));
    run_ok(
        Command::new(CLANG)
            .args(["-x", "cuda", "--cuda-host-only", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_90"])
            .args(["-Wno-unknown-cuda-version", level, "-c"])
            .arg(format!("--cuda-path={}", root().join(".toolchain/cuda-13.0").display()))
            .arg(format!("-fpass-plugin={}", plugin.display()))
            .arg("-I")
            .arg(&oracle)
            .arg(batch.path("batch.cu"))
            .arg("-o")
            .arg(batch.path("batch.o"))
            .env("EAGER_PASS_REPORT", batch.path("report.json"))
            .env("EAGER_PASS_KERNEL_DATA", batch.kernel_data()),
    );
    run_ok(
        Command::new(CLANG)
            .arg("-O1")
            .arg(batch.path("batch.o"))
            .arg(oracle.join("oracle.cpp"))
            .arg("-o")
            .arg(batch.path("batch")),
    );
    let placements = batch.placements();
    let share = placements.strict.len() * 100 / batch.count;
    eprintln!(
        "{} {level}: {} static tasks, {share} % of the programs wholly static",
        batch.name, placements.static_tasks
    );
    let printed = run_ok(
        Command::new(batch.path("batch")).args(["all", "1"]).arg(RUNS.to_string()).args(&placements.strict),
    );
    complaints(&printed, &placements)
}

/// Parses the oracle's output; returns the complaints by program.
fn complaints(printed: &str, placements: &Placements) -> BTreeMap<String, String> {
    let mut wrong = BTreeMap::new();
    let (mut name, mut bits) = ("", "");
    let (mut runs, mut lives, mut dead) = (0, 0, 0);
    for line in printed.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let complaint = match words.as_slice() {
            ["run", of, with] => {
                (name, bits, runs) = (of, with, runs + 1);
                continue;
            }
            ["lives", ended, declared] => {
                lives += ended.parse::<u64>().expect("a count");
                dead += declared.parse::<u64>().expect("a count");
                continue;
            }
            ["task", site, numbers @ ..] => {
                let site = u64::from_str_radix(site, 16).expect("hexadecimal");
                let number = |text: &&str| text.parse::<u64>().expect("bytes");
                let [requirement, live, made] = numbers else { panic!("{line}") };
                let (requirement, live, made) = (number(requirement), number(live), number(made));
                // Beside a lazy task, unannounced memory takes from the promised amount: neither shim nor oracle can
                // tell by size alone to which task an allocation belongs. There everything allocated since the begin
                // counts; a requirement that no path uses up is still larger than that.
                let is_used =
                    if placements.strict.contains(name) { live == requirement } else { made >= requirement };
                if is_used || !placements.exact.contains(&site) {
                    continue;
                }
                format!(
                    "site {site:#x} is called exact and asks for {requirement} bytes, {live} of {made} are used"
                )
            }
            _ => line.to_owned(),
        };
        wrong.entry(name.to_owned()).or_insert_with(|| format!("{name}(bits {bits}): {complaint}"));
    }
    eprintln!("{dead} of {lives} used buffers were declared dead before they were freed");
    assert!(runs > 0 && dead > 0, "the oracle ran nothing, or nothing was declared dead");
    wrong
}

fn assert_clean(batch: &Batch, wrong: BTreeMap<String, String>) {
    if wrong.is_empty() {
        return;
    }
    // The sources are kept, so that a failure can be examined.
    let kept = bin_dir().join("failed-batch.cu");
    std::fs::copy(batch.path("batch.cu"), &kept).expect("keep the batch");
    let list: Vec<String> = wrong.into_values().collect();
    panic!("{}: {} programs wrong, kept in {}:\n{}", batch.name, list.len(), kept.display(), list.join("\n"));
}

fn oracle_test(name: &str, features: Features) {
    if !has_toolchain(name) {
        return;
    }
    let batch = Batch::new(name, features, 150);
    for level in ["-O0", "-O2"] {
        let wrong = against_the_oracle(&batch, level);
        assert_clean(&batch, wrong);
    }
}

#[test]
fn one_function_programs_keep_their_promises() {
    oracle_test("one function", ONE_FUNCTION);
}

#[test]
fn programs_across_functions_keep_their_promises() {
    oracle_test("across functions", ACROSS_FUNCTIONS);
}

#[test]
fn programs_with_exceptions_keep_their_promises() {
    oracle_test("with exceptions", WITH_EXCEPTIONS);
}

/// Returns the complaint about one run under the daemon, if there is one.
fn judge(books: &Books, strict: bool, purely_lazy: bool) -> Option<String> {
    if !books.nonsense.is_empty() {
        return Some(format!("{:?}", books.nonsense));
    }
    if !books.dead_uses.is_empty() {
        return Some(format!("dead buffers used at lines {:?}", books.dead_uses));
    }
    if (strict || purely_lazy) && !books.late_launches.is_empty() {
        return Some(format!("launches after all-launched at lines {:?}", books.late_launches));
    }
    let wrong =
        |shortfall: &&eager_tests::accounting::Shortfall| strict || (purely_lazy && shortfall.at_launch);
    if let Some(shortfall) = books.shortfalls.iter().find(wrong) {
        return Some(format!("too little reserved: {shortfall:?}"));
    }
    None
}

#[test]
fn accounting_under_a_daemon_equals_the_ledger() {
    if !has_toolchain("random programs under a daemon") {
        return;
    }
    let batch = Batch::new("under a daemon", WITH_EXCEPTIONS, 40);
    let (program, trace) = (batch.path("batch"), batch.path("trace.jsonl"));
    let compiled = run(Command::new(tool("eagercc"))
        .arg("-O1")
        .arg(format!("-I{}", root().join("tests/oracle/real").display()))
        .arg(format!("--eager-report={}", batch.path("report.json").display()))
        .arg(batch.path("batch.cu"))
        .arg("-o")
        .arg(&program));
    assert!(compiled.status.success(), "{}", text(&compiled));
    let placements = batch.placements();
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "eager-opt"]);
    let printed = run_ok(
        daemon
            .run(&program)
            .arg(&trace)
            .args(["1", "4"])
            .env("EAGER_TRACE", &trace)
            .env("EAGER_VGPU_TRACE", &trace),
    );
    assert_eq!(printed, "", "a program of {} ended badly", batch.name);
    assert_clean(&batch, audit_runs(&trace, &placements));
}

/// Audits each run of a trace that has marks between the runs.
fn audit_runs(trace: &Path, placements: &Placements) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(trace).expect("trace");
    let mut runs = text.split("{\"run\":\"").skip(1).peekable();
    assert!(runs.peek().is_some(), "no runs in the trace");
    let mut wrong = BTreeMap::new();
    let mut seen = Books::default();
    for run in runs {
        let (mark, lines) = run.split_once('\n').expect("a mark ends its line");
        let name = mark.split('"').next().unwrap_or_default();
        let books = audit(lines).unwrap_or_else(|e| panic!("{mark}: {e}"));
        seen.static_tasks += books.static_tasks;
        seen.lazy_tasks += books.lazy_tasks;
        seen.dead += books.dead;
        let strict = placements.strict.contains(name);
        if let Some(complaint) = judge(&books, strict, books.static_tasks == 0) {
            wrong.entry(name.to_owned()).or_insert_with(|| format!("{mark}: {complaint}"));
        }
    }
    eprintln!("{} static and {} lazy tasks seen by the daemon", seen.static_tasks, seen.lazy_tasks);
    eprintln!("{} buffers declared dead", seen.dead);
    let is_rich = seen.static_tasks > 0 && seen.lazy_tasks > 0 && seen.dead > 0;
    assert!(is_rich, "the batch tests too little");
    wrong
}
