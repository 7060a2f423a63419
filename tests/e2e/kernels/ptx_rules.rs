//! Checks each rule of `docs/reference/ptx-rules.md` by its tests in `conformance/rules`, with both CUDA trees, in
//! every mode of the CPU kernels, and with `-use_fast_math`: a rule without a test fails, and so does a test without a
//! rule.
//!
//! Trap: the results depend on what the optimiser folds and vectorises, so the programs are built at two levels.

use eager_tests::{has_toolchain, root, run, text, tool};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const PAGE: &str = "docs/reference/ptx-rules.md";
const SECONDS_MAX: &str = "300";

/// Ways to build the tests.
const BUILDS: [&[&str]; 6] = [
    &["-O3", "--cuda", "13.0"],
    &["-O1", "--cuda", "12.9", "-ffp-contract=off"],
    &["-O1", "--cuda", "13.0", "--eager-kernel-mode=coroutines"],
    &["-O2", "--cuda", "12.9", "--eager-kernel-mode=fission"],
    &["-O1", "--cuda", "13.0", "--eager-strict"],
    &["--nvcc", "-O2", "--cuda", "13.0", "-use_fast_math", "-DFLUSH"],
];

/// Returns the cells of the page's table, without its head.
fn rows(page: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    page.lines().filter(|line| line.starts_with("| ")).skip(1).map(cells).collect()
}

/// Parses the names in a cell: `a`, `b`.
fn names(cell: &str) -> Vec<String> {
    cell.split(',').map(|name| name.trim().trim_matches('`').to_owned()).filter(|n| !n.is_empty()).collect()
}

fn page() -> Vec<Vec<String>> {
    let rows = rows(&std::fs::read_to_string(root().join(PAGE)).expect("the page"));
    assert!(rows.len() > 10, "{PAGE} has {} rules", rows.len());
    rows
}

/// Builds the suite and returns the tests that it passed.
fn passed(words: &[&str], folder: &Path) -> BTreeSet<String> {
    let program = folder.join("rules");
    let mut compile = Command::new(tool("eagercc"));
    compile.args(words).args(["-std=c++17", "--eager-no-instrument", "-o"]).arg(&program);
    let compiled = run(compile.arg(root().join("tests/conformance/rules.cu")));
    assert!(compiled.status.success(), "{words:?}: {}", text(&compiled));
    let mut command = Command::new("timeout");
    command.arg(SECONDS_MAX).arg(tool("eager")).args(["run", "--plain", "--time-scale", "0", "--"]);
    let ran = run(command.arg(&program));
    assert!(ran.status.success(), "{words:?}, {}:\n{}", ran.status, text(&ran));
    let printed = String::from_utf8_lossy(&ran.stdout);
    let name = |line: &str| {
        line.strip_prefix("ok").and_then(|rest| rest.split_whitespace().next().map(str::to_owned))
    };
    printed.lines().filter_map(name).collect()
}

#[test]
fn every_rule_names_its_source_and_has_a_test_that_passes() {
    if !has_toolchain("every_rule_names_its_source_and_has_a_test_that_passes") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let rules = page();
    let mut listed = BTreeSet::new();
    for row in &rules {
        let [rule, source, tests] = &row[..] else { panic!("{PAGE}: not rule, source, tests: {row:?}") };
        assert!(!source.is_empty(), "{PAGE}: `{rule}` names no section of the PTX ISA");
        assert!(!names(tests).is_empty(), "{PAGE}: `{rule}` has no test");
        listed.extend(names(tests));
    }
    for words in BUILDS {
        assert_eq!(passed(words, folder.path()), listed, "{words:?}: what passed, and what {PAGE} lists");
    }
}
