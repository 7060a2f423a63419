//! Compares `src/library/functions.ll` with clang's output for `src/library/functions.c`, and `src/warp/together.ll`
//! likewise.
//!
//! Parts that another LLVM may not know, or that tell where code comes from, are left out: attributes, metadata,
//! lifetimes.

mod common;

use common::toolchain;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// No unrolling and no vectors: the kernels' own optimisation does that.
const FLAGS: [&str; 9] = [
    "-std=c17",
    "-O1",
    "-fno-unroll-loops",
    "-fno-builtin",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-fno-asynchronous-unwind-tables",
    "-S",
    "-emit-llvm",
];

/// Words that are left out everywhere, together with an argument if they have one: `captures(none)`.
const WORDS: [&str; 14] = [
    "dso_local",
    "local_unnamed_addr",
    "unnamed_addr",
    "fastcc",
    "noundef",
    "readonly",
    "writeonly",
    "captures",
    "initializes",
    "range",
    "nofpclass",
    "memory",
    "nonnull",
    "samesign",
];

/// Length of the parenthesised text at the start.
fn parentheses(text: &str) -> usize {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { 0 } else { at + 1 };
        }
    }
    0
}

fn without(line: &str, word: &str) -> String {
    let mut line = line.to_owned();
    while let Some(at) = line.find(&format!(" {word}")) {
        let end = at + 1 + word.len();
        let end = end + parentheses(&line[end..]);
        if line[end..].starts_with(|next: char| next.is_alphanumeric() || next == '_') {
            break;
        }
        line.replace_range(at..end, "");
    }
    line
}

fn cleaned(line: &str) -> String {
    let code = line.split(", !").next().unwrap_or_default();
    let code = WORDS.iter().fold(code.to_owned(), |code, word| without(&code, word));
    let kept: Vec<&str> = code.split(" #").collect();
    let [first, rest @ ..] = &kept[..] else { return code };
    // The number of an attribute group is followed by the body's bracket, or by nothing.
    rest.iter().fold((*first).to_owned(), |text, part| {
        text + part.trim_start_matches(|digit: char| digit.is_ascii_digit())
    })
}

/// clang's text without the parts left out; declarations state that mathematical functions touch no memory.
fn reduced(name: &str, text: &str) -> String {
    let mut out =
        format!("; Made of `{name}.c` by clang: EAGER_BLESS=1 cargo test -p eager-kernels --test library\n");
    for line in text.lines() {
        let line =
            line.split(" ; preds").next().unwrap_or_default().split("; preds").next().unwrap_or_default();
        let skipped = ["source_filename", "target ", "attributes ", "!", ";"];
        if skipped.iter().any(|start| line.starts_with(start)) || line.contains("@llvm.lifetime.") {
            continue;
        }
        let mut line = cleaned(line);
        if line.starts_with("declare ") && !line.contains("@llvm.") {
            line += " #0";
        }
        if !(line.is_empty() && out.ends_with("\n\n")) {
            let _ = writeln!(out, "{line}");
        }
    }
    let attributes =
        if out.contains("#0") { "\nattributes #0 = { nounwind willreturn memory(none) }\n" } else { "" };
    out.trim_end().to_owned() + "\n" + attributes
}

#[test]
fn the_texts_are_made_of_the_sources() {
    if toolchain().is_some() {
        compare("library", "functions");
        compare("warp", "together");
    }
}

fn compare(folder: &str, name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder);
    let made = Command::new("clang-22")
        .current_dir(&folder)
        .args(FLAGS)
        .args([&format!("{name}.c"), "-o", "-"])
        .output()
        .expect("clang-22");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = reduced(name, &String::from_utf8(made.stdout).expect("text"));
    let path = folder.join(format!("{name}.ll"));
    if std::env::var_os("EAGER_BLESS").is_some() {
        std::fs::write(&path, &text).expect("its text");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "{name}.ll is not of {name}.c: EAGER_BLESS=1 cargo test -p eager-kernels --test library"
    );
}
