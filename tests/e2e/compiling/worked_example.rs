//! The worked example of `compiler-pass/README.md`: compiles and runs its program, and compares the output with the
//! text.
//!
//! Shown lines must come in their order; `...` leaves lines out, and a shown line of IR is the start of a real one.
//! Trap: the text gives values names of its own: a name stands for the same value wherever it appears, `SITE` for one
//! number.

use eager_tests::{has_toolchain, root, run, run_ok, text, tool};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Returns the section of the README.
fn section() -> String {
    let text = std::fs::read_to_string(root().join("compiler-pass/README.md")).expect("README.md");
    let (_, rest) = text.split_once("## One program, from source to IR\n").expect("the section");
    rest.split("\n## ").next().expect("a first part").to_owned()
}

/// Returns the blocks of a language.
fn blocks<'a>(section: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    section.split(&fence).skip(1).map(|rest| rest.split("\n```").next().expect("a block")).collect()
}

fn eagercc(folder: &Path, words: &str) -> String {
    let compiled = run(Command::new(tool("eagercc")).current_dir(folder).args(words.split_whitespace()));
    assert!(compiled.status.success(), "{words}: {}", text(&compiled));
    text(&compiled)
}

/// Removes debug locations, attribute groups and comments from a line of IR.
fn bare(line: &str) -> &str {
    let line = line.split(", !dbg").next().unwrap_or(line);
    let line = line.split(" ;").next().unwrap_or(line);
    line.split(" #").next().unwrap_or(line).trim()
}

/// Splits a line of IR into words: names of values and numbers are words of their own.
fn words(line: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "%@._-".contains(c);
    let mut words = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len()).max(first.len_utf8());
        words.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    words
}

/// True if a word of the text stands for something else in the IR.
fn is_name(word: &str) -> bool {
    word == "SITE" || (word.starts_with('%') && !word.starts_with("%struct"))
}

/// Matches a shown line with the start of a real one, under the names so far. Returns the names, or `None` if it
/// differs.
fn read<'a>(
    shown: &'a str,
    real: &'a str,
    names: &BTreeMap<&'a str, &'a str>,
) -> Option<BTreeMap<&'a str, &'a str>> {
    let (shown, real) = (words(shown), words(real));
    let mut names = names.clone();
    for (index, word) in shown.into_iter().enumerate() {
        let found = *real.get(index)?;
        if is_name(word) {
            if *names.entry(word).or_insert(found) != found {
                return None;
            }
        } else if word != found {
            return None;
        }
    }
    Some(names)
}

/// Asserts that the lines of a block match the real lines.
fn assert_shown<'a>(block: &'a str, real: &'a [String]) {
    let mut names = BTreeMap::new();
    let (mut at, mut gap) = (0, true);
    for line in block.lines().map(bare) {
        if line == "..." {
            gap = true;
            continue;
        }
        let rest = real.iter().enumerate().skip(at).take(if gap { real.len() } else { 1 });
        let found = rest.filter_map(|(index, real)| Some((index, read(line, real, &names)?))).next();
        let (index, known) = found.unwrap_or_else(|| {
            panic!("README shows `{line}`, with {names:?}; from there on came:\n{}", real[at..].join("\n"))
        });
        (names, at, gap) = (known, index + 1, false);
    }
}

#[test]
fn the_example_comes_out_as_shown() {
    if !has_toolchain("worked example") {
        return;
    }
    let section = section();
    let folder = tempfile::tempdir().expect("folder");
    std::fs::write(folder.path().join("vec.cu"), blocks(&section, "cuda")[0]).expect("write vec.cu");

    let said = eagercc(folder.path(), "-O2 -Rpass=eager vec.cu -o vec --eager-report=vec.json");
    let ran = run_ok(
        Command::new(tool("eager")).args(["run", "--plain"]).arg(folder.path().join("vec")).arg("1000000"),
    );
    let console: Vec<&str> =
        blocks(&section, "console")[0].lines().filter(|line| !line.starts_with('$')).collect();
    assert!(console.len() == 2, "{console:?}");
    assert!(said.lines().any(|line| line == console[0]), "README shows `{}`, not:\n{said}", console[0]);
    assert_eq!(ran.trim_end(), console[1]);

    let report = std::fs::read_to_string(folder.path().join("vec.json")).expect("report");
    let mut lines = report.lines();
    for shown in blocks(&section, "json")[0].lines() {
        assert!(lines.any(|line| line == shown), "README shows `{shown}`, not in its place in:\n{report}");
    }

    eagercc(folder.path(), "-O0 -S -emit-llvm --cuda-host-only vec.cu");
    let module = std::fs::read_to_string(folder.path().join("vec.ll")).expect("IR");
    let module: Vec<String> =
        module.lines().map(|line| bare(line).to_owned()).filter(|line| !line.is_empty()).collect();
    let shown = blocks(&section, "llvm");
    assert_eq!(shown.len(), 2);
    shown.into_iter().for_each(|block| assert_shown(block, &module));
}
