//! Runs the conformance suite on this machine's CUDA, beside what the virtual GPU printed when the bundle was made.
//!
//! Traps: bytes may differ where both are right (the last bits of mathematical functions are the GPU's own); and a
//! digest covers all bytes read back so far, so from the first difference on every test differs.

use super::{Context, timed};
use crate::gpu::process::{io_error, last_lines, run};
use crate::gpu::record::{Row, Status};
use crate::gpu::served::environment;
use std::collections::BTreeMap;
use std::process::Command;

pub const STEP: &str = "conformance";
/// Most names that a row lists.
const NAMED_MAX: usize = 8;

pub fn rows(context: &Context<'_>) -> Vec<Row> {
    let suites = context.bundle.contents.suites.iter();
    suites.map(|suite| timed(|| check(context, suite))).collect()
}

fn check(context: &Context<'_>, suite: &str) -> Row {
    let outcome = || {
        let expected =
            std::fs::read_to_string(context.bundle.expected_suite(suite)).map_err(io_error(suite))?;
        let mut command = Command::new(context.bundle.suite(suite));
        environment(&mut command, context.bundle, context.gpu);
        // The program ends with 1 if a test failed; its lines name the test.
        let ended = run(&mut command, context.limit)?;
        if tests(&ended.out).is_empty() {
            return Err(format!("no test ran: {}", last_lines(&[&ended.err, &ended.out])));
        }
        Ok::<_, String>(judged(&ended.out, &expected))
    };
    let row = Row::new(STEP, suite);
    match outcome() {
        Ok((status, said)) => row.with(status, said),
        Err(said) => row.with(Status::Failed, said),
    }
}

/// Parses lines `ok NAME DIGEST` and `FAILED NAME DIGEST` into name → (passed, digest).
fn tests(printed: &str) -> BTreeMap<&str, (bool, &str)> {
    let test = |line| {
        let mut words = str::split_whitespace(line);
        let passed = match words.next()? {
            "ok" => true,
            "FAILED" => false,
            _ => return None,
        };
        Some((words.next()?, (passed, words.next()?)))
    };
    printed.lines().filter_map(test).collect()
}

/// Maps each failed test to the first line that it printed, such as `element 3: got 1, expected 0`.
fn reasons(printed: &str) -> BTreeMap<&str, &str> {
    let (mut found, mut reason) = (BTreeMap::new(), None);
    for line in printed.lines() {
        match line.strip_prefix("  ") {
            Some(said) => reason = reason.or(Some(said)),
            None => {
                let name = line.strip_prefix("FAILED ").and_then(|rest| rest.split_whitespace().next());
                found.extend(name.zip(reason.take()));
            }
        }
    }
    found
}

fn judged(printed: &str, expected: &str) -> (Status, String) {
    let (seen, expected) = (tests(printed), tests(expected));
    let wrong = |name: &&&str| !seen.get(**name).is_some_and(|(passed, _)| *passed);
    let reasons = reasons(printed);
    let described = |name: &&str| match reasons.get(*name) {
        Some(reason) => format!("{name} ({reason})"),
        None => (*name).to_owned(),
    };
    let bad: Vec<String> = expected.keys().filter(wrong).map(described).collect();
    let equal =
        expected.iter().filter(|(name, (_, digest))| seen.get(*name).is_some_and(|(_, d)| d == digest));
    let passed = expected.len() - bad.len();
    let said =
        format!("{passed} of {} tests right, {} with the virtual GPU's bytes", expected.len(), equal.count());
    match bad.is_empty() && !expected.is_empty() {
        true => (Status::Ok, said),
        false => (Status::Failed, format!("{said}; not right: {}", named(&bad))),
    }
}

/// Lists the first names of many, and counts the others.
fn named(names: &[String]) -> String {
    let (first, others) = names.split_at(names.len().min(NAMED_MAX));
    match others.len() {
        0 => first.join(", "),
        count => format!("{} and {count} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: &str = "ok     shapes/one 0a\nok     shapes/two 0b\n2 tests, 0 failed\n";

    #[test]
    fn bytes_may_differ_and_tests_may_not_fail() {
        let (status, said) = judged("ok     shapes/one 0a\nok     shapes/two 0c\n", EXPECTED);
        assert_eq!(
            (status, said.as_str()),
            (Status::Ok, "2 of 2 tests right, 1 with the virtual GPU's bytes")
        );
        let (status, said) = judged("ok     shapes/one 0a\nFAILED shapes/two 0b\n", EXPECTED);
        assert!(status == Status::Failed && said.ends_with("not right: shapes/two"), "{said}");
        let printed = "  element 1: got 2, expected 3\n  element 4: got 2, expected 3\nFAILED shapes/one 0a\n\
                       FAILED shapes/two 0b\n";
        let (_, said) = judged(printed, EXPECTED);
        assert!(said.ends_with("not right: shapes/one (element 1: got 2, expected 3), shapes/two"), "{said}");
    }

    #[test]
    fn of_many_the_first_are_named() {
        let names = vec!["a".to_owned(); NAMED_MAX + 3];
        assert!(named(&names).ends_with("a, a and 3 more"), "{}", named(&names));
        assert_eq!(named(&names[..2]), "a, a");
    }

    #[test]
    fn a_suite_that_stopped_half_way_failed() {
        assert_eq!(judged("ok     shapes/one 0a\n", EXPECTED).0, Status::Failed);
        assert_eq!(judged("", "").0, Status::Failed, "no tests prove nothing");
    }
}
