//! Runs the program `eager-sim`: files in, a table and a journal out, one line of error for unusable input.

mod common;
use common::*;
use eager_sim::job::Workload;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn eager_sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_eager-sim")).args(arguments).output().unwrap()
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn runs_a_workload_file_and_replays_the_journal_of_it() {
    let workload = Workload { name: "two of a kind".to_owned(), jobs: vec![job(&ONE_PASS), job(&ONE_PASS)] };
    let workload = file("two.json", &serde_json::to_string(&workload).unwrap());
    let journal = file("two.journal", "");
    let (workload, journal) = (workload.to_str().unwrap(), journal.to_str().unwrap());
    let ran = eager_sim(&["run", workload, "--devices", "1xV100-16GB", "--journal", journal]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let table = stdout(&ran);
    assert!(
        table.starts_with("modelled, not measured: workload two of a kind, policy eager-fair\n"),
        "{table}"
    );
    assert_eq!(table.matches("Done").count(), 2, "{table}");
    let replayed = eager_sim(&["replay", journal]);
    assert_eq!(replayed.status.code(), Some(0), "{replayed:?}");
    assert!(stdout(&replayed).ends_with("steps, all decided the same\n"), "{}", stdout(&replayed));
}

#[test]
fn a_file_that_is_no_workload_or_no_journal_is_one_line_and_exit_code_2() {
    let bad = file("bad.json", "{\"name\": \"bad\", \"jobs\": [7]}");
    let bad = bad.to_str().unwrap();
    for arguments in [["run", bad], ["replay", bad], ["run", "/nonexistent/workload.json"]] {
        let output = eager_sim(&arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("eager-sim: ") && said.contains(arguments[1]), "{said}");
        assert!(output.stdout.is_empty());
    }
}
