//! Writes `docs/reference/experiments.md` from the field comments in `spec.rs` and `machine.rs` and from the table of
//! figures, and runs its example. `EAGER_BLESS=1` writes the page again.
//!
//! The sources are compiled into the tests (`include_str!`), so that the page of a commit is compared with that
//! commit.

use super::figures::{COLUMNS, USUAL};
use super::run;
use super::spec::{Experiment, KNOWN};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const SPEC: &str = include_str!("spec.rs");
const MACHINE: &str = include_str!("machine.rs");

const EXAMPLE: &str = r#"title = "Two policies on one list"
cards = "4xV100-16GB"
seeds = 5
baseline = "eager-opt"
lists = [{ name = "64 at 2:1", jobs = 64, ratios = ["2:1"] }]
systems = [{ policy = "eager-opt" }, { policy = "eager-live" }]
"#;

/// Heading, introduction, source, and the structure whose fields are the keys.
const SECTIONS: [(&str, &str, &str, &str); 10] = [
    (
        "The file",
        "Keys without a default are required. The last four may be left out; nothing is then run or reported for them.",
        SPEC,
        "Experiment",
    ),
    ("Lists: `lists`", "A list has `name` and either `mix`, or `jobs` and `ratios`.", SPEC, "List"),
    ("Systems: `systems`", "Each system runs the lists under one policy.", SPEC, "System"),
    ("Variants: `variants`", "Every ratio is against the baseline under the same variant.", SPEC, "Variant"),
    (
        "The machine of a variant: `machine`",
        "A key that is left out has its value in the source document's setting (specification S-222).",
        MACHINE,
        "Machine",
    ),
    (
        "Tables: `[[tables]]`",
        "Systems run on the lists and variants of the tables that name them; runs that several tables name are made once.",
        SPEC,
        "Table",
    ),
    ("Schedules: `timeline`", "Schedules that the report draws over one time axis.", SPEC, "Timeline"),
    (
        "Jobs that meet: `interference`",
        "How much slower the kernels of two jobs become when both are submitted at once. The table's key is `interference`.",
        SPEC,
        "Interference",
    ),
    (
        "The source document's claims: `document`",
        "What the source document (specification S-1) reports for its eight workloads, beside the results here. The table's \
         key is `claims`.",
        SPEC,
        "Document",
    ),
    (
        "OS-ratio thresholds: `thresholds`",
        "How many kernels other thresholds would have let go earlier. The tables' keys are `thresholds_by_kernel` and \
         `thresholds_by_list`.",
        SPEC,
        "Thresholds",
    ),
];

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/experiments.md")
}

/// Returns name and comment of each public field of a structure.
fn fields(source: &str, name: &str) -> Vec<(String, String)> {
    let start = format!("pub struct {name} {{\n");
    let body = source.split(&start).nth(1).and_then(|rest| rest.split("\n}").next()).expect(name);
    let (mut found, mut about) = (Vec::new(), Vec::new());
    for line in body.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            about.push(comment.trim().to_owned());
        } else if let Some((name, _)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(": ")) {
            found.push((name.to_owned(), std::mem::take(&mut about).join(" ")));
        }
    }
    found
}

fn keys(page: &mut String, heading: &str, text: &str, source: &str, name: &str) {
    let _ = write!(page, "\n## {heading}\n\n{text}\n\n| Key | Meaning |\n|---|---|\n");
    for (key, about) in fields(source, name) {
        assert!(!about.is_empty(), "`{name}::{key}` has no comment");
        let _ = writeln!(page, "| `{key}` | {about} |");
    }
}

fn expected() -> String {
    let mut page = format!(
        "# Experiments\n\nAn experiment runs job lists under several systems (a policy with its options) in the simulator and \
         compares them.\n`eager-eval sim --experiment FILE.toml --out DIR` runs a file; \
         `paper`, `live`, `live-mixes` and `fair` come with the program\n(`eval/experiments/`). Everything is modelled, nothing is \
         measured on a GPU.\n\n<!-- written by a test of eager-eval: EAGER_BLESS=1 cargo test -p eager-eval reference -->\n\n\
         ## Two policies on one list\n\n```toml experiment\n{EXAMPLE}```\n\n\
         `DIR/report.html` then has a table for each usual figure, `DIR/summary.json` all figures, and `DIR/samples.jsonl` one \
         line\nfor each run. `--seeds N` runs fewer seeds or more, `--fill PAGE.md` puts tables into a page, between the \
         marks\n`<!-- table: KEY COLUMN COLUMN -->` and `<!-- end -->`. `eager-eval report DIR --experiment FILE.toml` draws the \
         report again from\nthe samples, also those of a run that was stopped.\n"
    );
    for (heading, text, source, name) in SECTIONS {
        keys(&mut page, heading, text, source, name);
    }
    page.push_str(
        "\n## Figures\n\nTimes are modelled seconds. A figure over several lists and seeds is, by *how*: `ratio`, of each seed the \
         geometric mean\nof the lists to which it applies, then the median over the seeds; `each`, the median over all lists and \
         seeds; `least` and\n`most`, that of all. `summary.json` has `variants.VARIANT.LIST.SYSTEM.FIGURE`, with the 95 % \
         interval of the median as\n`FIGURE_low` and `FIGURE_high` (specification S-804). A table of one figure shows the \
         intervals of ratios.\n\n| Figure | How | Meaning |\n|---|---|---|\n",
    );
    for column in &COLUMNS {
        let how = format!("{:?}", column.over).to_lowercase();
        let _ = writeln!(page, "| `{}` | {how} | {} |", column.name, column.about);
    }
    let _ = write!(page, "\nThe usual figures: `{}`.\n", USUAL.join("`, `"));
    page
}

#[test]
fn the_reference_is_what_the_code_says() {
    let (path, expected) = (page(), expected());
    if std::env::var_os("EAGER_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("write");
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == expected,
        "{} is not what the code says; write it again with\n  EAGER_BLESS=1 cargo test -p eager-eval reference",
        path.display()
    );
}

#[test]
fn the_example_of_the_reference_runs() {
    let text = std::fs::read_to_string(page()).expect("the page");
    let example = text
        .split("```toml experiment\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("an example");
    assert!(example.lines().count() <= 10, "{example}");
    let folder = tempfile::tempdir().expect("folder");
    let [file, out] = ["two.toml", "out"].map(|name| folder.path().join(name));
    std::fs::write(&file, example).expect("write");
    run::run(file.to_str().expect("UTF-8"), Some(1), &out, &[]).expect("it runs");
    let summary = std::fs::read_to_string(out.join("summary.json")).expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    let of = &summary["variants"]["as it is"]["64 at 2:1"];
    assert_eq!(of["eager-opt"]["throughput_vs_baseline"], 1.0);
    assert!(of["eager-live"]["throughput_vs_baseline"].is_f64(), "{summary}");
}

#[test]
fn every_known_experiment_is_well_formed() {
    for (name, _) in KNOWN {
        assert_eq!(Experiment::find(name).expect(name).name, name);
    }
}

/// Mistakes in a known experiment: its index, a text, the text that replaces it, and a part of the error that must
/// follow.
const MISTAKES: [(usize, &str, &str, &str); 16] = [
    (0, "seeds = 10", "seeds = 0", "x.toml: key `seeds`: at least 1 is required here, but the file has 0"),
    (
        0,
        "seeds = 10",
        "seeds = \"10\"",
        "`seeds`: a whole number of at least 0 is required here, but the file has the text \"10\"",
    ),
    (0, "seeds = 10\n", "", "the key `seeds` is missing"),
    (
        0,
        "mix = \"W1\"",
        "mix = \"W9\"",
        "x.toml: list `W1`, key `mix`: there is no mix `W9`; known are W1 to W8",
    ),
    (
        0,
        "jobs = 32,",
        "jobs = 0,",
        "list `32-1:1`, key `jobs`: 1 to 1024 jobs are required here, but the file has 0",
    ),
    (
        0,
        "ratios = [\"1:1\"]",
        "ratios = [\"1-1\"]",
        "key `ratios`: LARGE:SMALL is required here, such as 3:1, but the file has `1-1`",
    ),
    (0, "{ policy = \"case\" }", "{ policy = \"cas\" }", "`cas`"),
    (0, "{ policy = \"case\" }", "{ polcy = \"case\" }", "there is no key `polcy`; did you mean `policy`?"),
    (
        0,
        "{ eviction = \"used\" }",
        "{ evictions = \"used\" }",
        "variant `true LRU eviction`, key `model`: there is no option of the GPU model `evictions`; did you mean `eviction`?",
    ),
    (
        0,
        "overlap = 0.3",
        "overlap = 1.3",
        "key `overlap`: a number from 0 to 1 is required here, but the file has 1.3",
    ),
    (0, "cards = \"4xV100-16GB\"", "cards = \"4xV10\"", "x.toml: key `cards`: "),
    (
        1,
        "lists = [\"32\", \"64\"",
        "lists = [\"33\", \"64\"",
        "table `throughput`, key `lists`: there is no list `33`; did you mean `32`?",
    ),
    (
        1,
        "\"worst_list\", ",
        "\"worst_lost\", ",
        "key `figures`: there is no figure `worst_lost`; did you mean `worst_list`?",
    ),
    (1, "release_dead = true", "release_death = true", "there is no key `release_death`"),
    (
        1,
        "name = \"case-fifo\"",
        "name = \"case\"",
        "key `systems`: two of them are called `case`; give each a `name` of its own",
    ),
    (
        1,
        "seeds = 10",
        "seeds = 10\nbaseline = \"cas\"",
        "key `baseline`: there is no system `cas`; did you mean `case`?",
    ),
];

#[test]
fn mistakes_are_said_with_their_place_and_what_is_allowed() {
    let unknown = Experiment::find("papre").expect_err("no such experiment").to_string();
    assert_eq!(
        unknown,
        "unknown experiment `papre`: known are paper, live, live-mixes, fair, or give the path of a .toml file; did you mean `paper`?"
    );
    let unread = format!("{:#}", Experiment::find("nothing.toml").expect_err("no such file"));
    assert!(unread.starts_with("cannot read the experiment nothing.toml"), "{unread}");
    for (known, from, to, said) in MISTAKES {
        let text = KNOWN[known].1;
        assert!(text.contains(from), "`{from}` is not in the file");
        let error = Experiment::parse("x.toml", &text.replacen(from, to, 1)).expect_err(to);
        let error = format!("{error:#}");
        assert!(
            error.starts_with("x.toml:") && error.contains(said) && !error.contains('\n'),
            "`{to}` gave `{error}`"
        );
        for theirs in ["unknown variant", "unknown field", "missing field", "expected", "invalid type"] {
            assert!(!error.contains(theirs), "`{to}` gave `{error}`");
        }
    }
}
