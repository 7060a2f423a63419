//! The table of fault cases is complete, and names only tests that exist.

use eager_tests::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Number of cases of `docs/fault-cases.md`; three more need hardware.
const CASES: u32 = 94;
const STATES: [&str; 4] = ["tested", "partly", "missing", "hardware"];

struct Row {
    numbers: Vec<u32>,
    tests: Vec<String>,
    state: String,
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(root().join("docs/fault-cases.md")).expect("docs/fault-cases.md");
    text.lines().filter_map(row).collect()
}

/// Parses a line whose first column is a number or a range of numbers; `None` for other lines.
fn row(line: &str) -> Option<Row> {
    let columns: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
    let [number, _fault, _expected, tests, state, ..] = columns[..] else { return None };
    let (first, last) = number.split_once('–').unwrap_or((number, number));
    let numbers = (first.parse().ok()?..=last.parse().ok()?).collect();
    // Every second piece between backticks is the name of a test.
    let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let state = state.split([':', ' ']).next().unwrap_or_default().to_owned();
    Some(Row { numbers, tests, state })
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("folder").map(|entry| entry.expect("entry").path()) {
        if entry.is_dir() && !entry.ends_with("target") {
            rust_files(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs" || extension == "txt") {
            found.push(entry);
        }
    }
}

/// Names of all functions, and of the scenarios that the core's tests play.
fn names() -> BTreeSet<String> {
    let mut files = Vec::new();
    for folder in ["scheduler", "runtime-shim", "tests", "virtual-gpu"] {
        rust_files(&root().join(folder), &mut files);
    }
    let mut names = BTreeSet::new();
    for file in files {
        if file.extension().is_some_and(|extension| extension == "txt") {
            names.extend(file.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("a source file");
        let after = text.split("fn ").skip(1);
        names.extend(after.filter_map(|rest| rest.split(['(', '<']).next()).map(str::to_owned));
    }
    names
}

#[test]
fn every_case_is_in_the_table_once() {
    let mut seen = BTreeMap::new();
    for row in rows() {
        for number in row.numbers {
            *seen.entry(number).or_insert(0) += 1;
        }
    }
    let expected: BTreeMap<u32, i32> = (1..=CASES).map(|number| (number, 1)).collect();
    assert_eq!(seen, expected);
}

#[test]
fn every_test_that_the_table_names_exists() {
    let names = names();
    let rows = rows();
    let missing: Vec<&String> =
        rows.iter().flat_map(|row| &row.tests).filter(|test| !names.contains(*test)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}

/// The bold words of each promise have a row, and its tests exist: they would contradict the promise if it were broken.
#[test]
fn every_promise_of_the_security_page_names_the_tests_that_would_contradict_it() {
    let page = std::fs::read_to_string(root().join("SECURITY.md")).expect("SECURITY.md");
    let section = page.split("## ").find(|part| part.starts_with("What is promised")).expect("the promises");
    let promises: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("- **")?.split_once("**"))
        .map(|(promise, _)| promise.trim_end_matches('.'))
        .collect();
    assert!(promises.len() > 10, "{promises:?}");
    let text = std::fs::read_to_string(root().join("docs/fault-cases.md")).expect("docs/fault-cases.md");
    let names = names();
    for promise in promises {
        let row = text.lines().find(|line| line.starts_with(&format!("| {promise} | `")));
        let row = row.unwrap_or_else(|| panic!("no row for the promise: {promise}"));
        let missing: Vec<&str> =
            row.split('`').skip(1).step_by(2).filter(|test| !names.contains(*test)).collect();
        assert!(missing.is_empty(), "{promise}: no such tests: {missing:?}");
    }
}

#[test]
fn a_state_says_whether_there_is_a_test() {
    for Row { numbers, tests, state } in rows() {
        assert!(STATES.contains(&state.as_str()), "case {numbers:?} is {state:?}");
        let claims_one = ["tested", "partly"].contains(&state.as_str());
        assert_eq!(claims_one, !tests.is_empty(), "case {numbers:?} is {state} with {tests:?}");
    }
}
