//! Citations lead to a paragraph of `docs/specification.md`, and its paragraphs to the code that they describe.
//!
//! Trap: a quoted piece of code is compared word by word, so that a comment may be wrapped anew; numbers and names in
//! it must match exactly.

use eager_tests::book::text_of;
use eager_tests::{root, run_ok};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const PAGE: &str = "docs/specification.md";
/// Paragraphs with lower numbers are sources; they need no source themselves.
const FIRST_RULE: u32 = 100;
/// Documents that readers do not have. In pieces, so that this file does not find itself.
const NOT_HERE: [&str; 3] =
    [concat!("UM ", "model"), concat!("um-", "model"), concat!("eager launch ", "specification")];

type Paragraphs = BTreeMap<u32, String>;
type Files = BTreeMap<String, String>;

/// Returns the texts of all files that git tracks or would add, without the page and Cargo's lock file.
fn files() -> Files {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let names = run_ok(&mut git);
    let texts = names.lines().filter(|name| ![PAGE, "Cargo.lock"].contains(name));
    texts
        .filter_map(|name| Some((name.to_owned(), std::fs::read_to_string(root().join(name)).ok()?)))
        .collect()
}

/// Returns the paragraphs by number, and the numbers that occur twice.
fn paragraphs(page: &str) -> (Paragraphs, Vec<String>) {
    let (mut found, mut twice) = (Paragraphs::new(), Vec::new());
    for paragraph in page.split("\n\n") {
        let Some((number, _)) = paragraph.strip_prefix("**S-").and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        let Ok(number) = number.parse() else { continue };
        if found.insert(number, paragraph.to_owned()).is_some() {
            twice.push(format!("S-{number} is there twice"));
        }
    }
    (found, twice)
}

/// Returns the words of a text, without the markers of comment lines.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter(|word| !["//", "///", "//!", "#"].contains(word))
}

fn plain(text: &str) -> String {
    words(text).collect::<Vec<_>>().join(" ")
}

/// Numbers of the paragraphs that a word names: `(S-302` has one.
fn numbers(word: &str) -> Vec<u32> {
    let named = word.match_indices("S-").filter(|(at, _)| !word[..*at].ends_with(char::is_alphanumeric));
    let digits =
        named.map(|(at, _)| word[at + 2..].split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

/// Returns the paragraphs that a text cites one by one.
fn cited(text: &str) -> BTreeSet<u32> {
    words(text).flat_map(numbers).collect()
}

/// Returns the paragraphs that a text cites, including everything between the ends of `S-302 to S-306`.
fn covered(text: &str) -> BTreeSet<u32> {
    let words: Vec<&str> = words(text).collect();
    let ends = words.windows(3).filter(|three| three[1] == "to");
    let spans = ends.filter_map(|three| Some((*numbers(three[0]).last()?, *numbers(three[2]).first()?)));
    spans.flat_map(|(first, last)| first..=last).chain(cited(text)).collect()
}

/// Returns the citations that lead to no paragraph.
fn strays(paragraphs: &Paragraphs, files: &Files) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, text) in files.iter().map(|(name, text)| (name.as_str(), text.as_str())) {
        let unknown = cited(text).into_iter().filter(|number| !paragraphs.contains_key(number));
        problems.extend(unknown.map(|number| format!("{name}: there is no paragraph S-{number}")));
        if text.contains('\u{a7}') {
            problems.push(format!(
                "{name}: a section sign; cite a paragraph, or write \"section\" of what readers have"
            ));
        }
        let text = plain(text);
        let absent = NOT_HERE.iter().filter(|document| text.contains(**document));
        problems.extend(
            absent.map(|document| format!("{name}: cites \"{document}\", which is not in this repository")),
        );
    }
    for (number, text) in paragraphs {
        let unknown = cited(text).into_iter().filter(|other| !paragraphs.contains_key(other));
        problems
            .extend(unknown.map(|other| format!("{PAGE}: S-{number} cites S-{other}, which is not there")));
    }
    problems
}

/// Returns the paragraphs without a source, and those that do not lead to the code and back.
fn loose(paragraphs: &Paragraphs, files: &Files) -> Vec<String> {
    let mut problems = Vec::new();
    let covered: BTreeMap<&str, BTreeSet<u32>> =
        files.iter().map(|(name, text)| (name.as_str(), covered(text))).collect();
    let others = |number: u32| paragraphs.iter().filter(move |(other, _)| **other != number);
    for (&number, text) in paragraphs {
        if number < FIRST_RULE {
            let is_used = covered.values().any(|cited| cited.contains(&number))
                || others(number).any(|(_, text)| cited(text).contains(&number));
            problems.extend((!is_used).then(|| format!("S-{number}: this source is never cited")));
            continue;
        }
        if !text.contains("Source:") {
            problems.push(format!("S-{number}: no source"));
        }
        if text.trim_end().ends_with("Background only.") {
            continue;
        }
        let Some((_, code)) = text.split_once("Code:") else {
            problems.push(format!("S-{number}: neither code nor \"Background only.\""));
            continue;
        };
        let mut file: Option<&str> = None;
        for quoted in code.split('`').skip(1).step_by(2) {
            match (files.contains_key(quoted), file) {
                (true, _) => {
                    file = Some(quoted);
                    if !covered[quoted].contains(&number) {
                        problems.push(format!("S-{number}: {quoted} does not cite it"));
                    }
                }
                (false, Some(file)) if plain(&files[file]).contains(&plain(quoted)) => {}
                (false, Some(file)) => problems.push(format!("S-{number}: {file} does not say `{quoted}`")),
                (false, None) => problems.push(format!("S-{number}: there is no file {quoted}")),
            }
        }
        problems.extend(file.is_none().then(|| format!("S-{number}: names no file")));
    }
    problems
}

/// Returns the files that mention a document by its short name and cite nothing that leads to it.
fn unnamed(paragraphs: &Paragraphs, files: &Files, spoken: &str, source: u32) -> Vec<String> {
    let leads = |number: &u32| {
        *number == source || paragraphs.get(number).is_some_and(|text| cited(text).contains(&source))
    };
    let speaks = files.iter().filter(|(_, text)| plain(text).to_lowercase().contains(spoken));
    let without = speaks.filter(|(_, text)| !covered(text).iter().any(leads));
    without.map(|(name, _)| format!("{name}: which {spoken}? Cite S-{source}, or what rests on it")).collect()
}

fn none(problems: &[String]) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

fn page() -> Paragraphs {
    let (paragraphs, twice) = paragraphs(&text_of(Path::new(PAGE)));
    none(&twice);
    paragraphs
}

#[test]
fn citations_lead_to_paragraphs() {
    none(&strays(&page(), &files()));
}

#[test]
fn paragraphs_have_a_source_and_lead_to_code_that_cites_them() {
    none(&loose(&page(), &files()));
}

/// The references themselves: specification S-1 and S-17.
#[test]
fn documents_with_a_short_name_can_be_found() {
    let (paragraphs, files) = (page(), files());
    none(&unnamed(&paragraphs, &files, "source document", 1));
    none(&unnamed(&paragraphs, &files, "design study", 17));
}

/// The other tests would find these mistakes; the page and the files are made up.
#[test]
fn what_is_wrong_is_found() {
    let (known, twice) = paragraphs(
        "# A\n\n**S-1. One.** By N.\n\n**S-105. Two.** Source: S-1. Code: `a.rs`: `K = 3`.\n\n**S-1. Again.**",
    );
    assert_eq!(twice, ["S-1 is there twice"]);
    let of = |name: &str, text: &str| Files::from([(name.to_owned(), text.to_owned())]);
    let sound = of("a.rs", "// As (specification\n// S-105, S-1): the source document.\nconst K = 3;");
    assert!(strays(&known, &sound).is_empty() && loose(&known, &sound).is_empty());
    assert!(unnamed(&known, &sound, "source document", 1).is_empty());

    let unknown = 9999;
    let stray = of("a.rs", &format!("// S-{unknown}, {} 4, UM\n// {}", '\u{a7}', "model"));
    assert_eq!(strays(&known, &stray).len(), 3);
    assert_eq!(loose(&known, &of("b.rs", "")).len(), 3, "a file that is gone, its words, and no file at all");
    assert_eq!(loose(&known, &of("a.rs", "// S-105\nconst K = 4;")), ["S-105: a.rs does not say `K = 3`"]);
    assert_eq!(loose(&known, &of("a.rs", "const K = 3;")), ["S-105: a.rs does not cite it"]);
    assert_eq!(loose(&known, &of("a.rs", "// S-102 to\n// S-106\nconst K = 3;")), Vec::<String>::new());
    assert_eq!(unnamed(&known, &of("a.rs", "the Source\n/// document"), "source document", 1).len(), 1);
}
