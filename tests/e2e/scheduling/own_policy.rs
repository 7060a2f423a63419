//! Follows the page for researchers, `docs/research.md`, word for word: its policy in a copy of the repository, its job
//! list and its experiment.
//!
//! Trap: the copy is built with this clone's lock file and without network, in a build folder of its own that is kept.

use eager_tests::{bin_dir, book, root, run, run_ok, text, tool};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

const PAGE: &str = "docs/research.md";

/// Returns a file's time of change.
fn changed(path: &Path) -> SystemTime {
    std::fs::metadata(path)
        .and_then(|about| about.modified())
        .unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// Writes a file with the given time of change, so that cargo rebuilds only what really changed.
fn write(path: &Path, contents: &[u8], at: SystemTime) {
    std::fs::create_dir_all(path.parent().expect("folder")).expect("folder");
    std::fs::write(path, contents).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    File::options().write(true).open(path).and_then(|file| file.set_modified(at)).expect("time");
}

/// Copies every file that git tracks or would add, because cargo needs all members.
fn copy_to(folder: &Path) {
    if folder.exists() {
        std::fs::remove_dir_all(folder).expect("the copy of before");
    }
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    for file in run_ok(&mut git).lines().filter(|file| root().join(file).is_file()) {
        let from = root().join(file);
        write(&folder.join(file), &std::fs::read(&from).expect(file), changed(&from));
    }
}

/// Returns the file with the block's lines that begin with `+` inserted where its other lines are.
fn added(file: &str, block: &str) -> String {
    let lines = |wanted: fn(&str) -> bool| -> String {
        block.lines().filter(|line| wanted(line)).map(|line| format!("{}\n", &line[1..])).collect()
    };
    let (before, after) = (lines(|line| line.starts_with(' ')), lines(|_| true));
    assert_eq!(file.matches(&before).count(), 1, "these lines are there once:\n{before}");
    file.replacen(&before, &after, 1)
}

/// Saves the files that the page saves, and makes the changes that it makes.
fn follow(blocks: &[book::Block], folder: &Path) {
    let of_page = changed(&root().join(PAGE));
    for block in blocks {
        match block.words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [_, "save", path] => write(&folder.join(path), block.text.as_bytes(), of_page),
            ["diff", path] => {
                let file = std::fs::read_to_string(folder.join(path)).expect(path);
                let at = of_page.max(changed(&folder.join(path)));
                write(&folder.join(path), added(&file, &block.text).as_bytes(), at);
            }
            _ => {}
        }
    }
}

/// Returns the arguments after `--` of a block's command.
fn arguments(command: &str, program: &str) -> Vec<String> {
    let start = format!("cargo run --locked -p {program} -- ");
    let rest = command.trim_end().strip_prefix(&start).unwrap_or_else(|| panic!("not `{start}…`: {command}"));
    rest.split_whitespace().map(str::to_owned).collect()
}

fn page() -> Vec<book::Block> {
    book::read(&book::text_of(Path::new(PAGE))).blocks
}

fn folder(name: &str) -> PathBuf {
    let folder = bin_dir().parent().expect("build folder").join(name);
    std::fs::create_dir_all(&folder).expect("folder");
    folder
}

#[test]
fn policy_of_the_page_builds_and_runs_the_pages_jobs() {
    let (blocks, folder) = (page(), folder("own-policy"));
    let copy = folder.join("source");
    copy_to(&copy);
    follow(&blocks, &copy);
    let commands: Vec<&book::Block> = blocks.iter().filter(|block| block.is(&["sh", "simulate"])).collect();
    let said: Vec<String> = commands
        .iter()
        .map(|block| {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            cargo.args(["run", "--quiet", "--offline", "--locked", "-p", "eager-sim", "--"]);
            cargo.args(arguments(&block.text, "eager-sim")).current_dir(&copy);
            cargo.env("CARGO_TARGET_DIR", folder.join("target")).env("CARGO_INCREMENTAL", "0");
            let output = run(&mut cargo);
            assert!(output.status.success(), "{}\n{}", block.text, text(&output));
            text(&output)
        })
        .collect();
    let [case, own] = &said[..] else { panic!("the page has two simulations: {said:?}") };
    let device = |said: &str, job: &str| -> String {
        let row = said.lines().find(|line| line.starts_with(job)).unwrap_or_else(|| panic!("{job}:\n{said}"));
        row.split_whitespace().nth(1).expect("a device").to_owned()
    };
    assert!(own.contains("policy roomiest"), "{own}");
    // These are the results that the page states.
    assert_eq!(device(case, "late"), device(case, "long"), "{case}");
    assert_eq!(device(own, "late"), device(own, "wide"), "{own}");
}

#[test]
fn experiment_of_the_page_leaves_what_the_page_says() {
    let (blocks, folder) = (page(), tempfile::tempdir().expect("folder"));
    let of_experiment: Vec<book::Block> =
        blocks.iter().filter(|block| block.is(&["toml", "save", "mine.toml"])).cloned().collect();
    follow(&of_experiment, folder.path());
    let command = blocks.iter().find(|block| block.is(&["sh", "experiment"])).expect("a command");
    let mut eval = Command::new(tool("eager-eval"));
    run_ok(eval.args(arguments(&command.text, "eager-eval")).current_dir(folder.path()));
    let read = |name: &str| std::fs::read_to_string(folder.path().join("mine").join(name)).expect(name);
    // Three seeds, two ratios, three systems.
    assert_eq!(read("samples.jsonl").lines().count(), 18);
    let summary: serde_json::Value = serde_json::from_str(&read("summary.json")).expect("JSON");
    let fair = &summary["variants"]["as it is"]["24 jobs"]["fair"]["throughput_vs_baseline"];
    assert!(fair.as_f64().is_some_and(|ratio| ratio > 0.5), "{summary}");
    assert!(read("report.html").contains("Does a bound on waiting cost anything?"));
}
