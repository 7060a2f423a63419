//! Golden scenarios: each `tests/scenarios/NAME.txt` is one behaviour, named by it; `NAME.expected` is the transcript
//! with every decision and its reason.
//!
//! `EAGER_BLESS=1 cargo test -p eager-core --test scenarios` rewrites the transcripts. Read the difference before you
//! commit it, since it is a change of what the scheduler decides.

mod script;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

fn names(extension: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder()).expect("the folder of scenarios");
    entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect()
}

#[test]
fn every_scenario_decides_as_written() {
    let bless = std::env::var_os("EAGER_BLESS").is_some();
    let mut wrong = Vec::new();
    for name in names("txt") {
        let script = std::fs::read_to_string(folder().join(format!("{name}.txt"))).expect("a script");
        let transcript = script::run(&script);
        let path = folder().join(format!("{name}.expected"));
        if bless {
            std::fs::write(&path, &transcript).expect("writing the transcript");
            continue;
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        if transcript != expected {
            wrong.push(format!("--- {name}: expected\n{expected}--- {name}: got\n{transcript}"));
        }
    }
    assert!(wrong.is_empty(), "{} scenarios differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_transcript_has_its_scenario() {
    assert_eq!(names("expected"), names("txt"));
    assert!(names("txt").len() > 20, "the scenarios were not found");
}

#[test]
fn the_example_of_the_readme_is_what_happens() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(readme).expect("scheduler/README.md");
    let transcript =
        std::fs::read_to_string(folder().join("readme_example.expected")).expect("its transcript");
    assert!(readme.contains(&transcript), "scheduler/README.md shows something else than\n{transcript}");
}
