//! The seven programs under `eager-live` as real processes: right, without a message, and with early release proven for
//! their buffers, or the reason reported.
//!
//! The table in `docs/eager-live.md` is made from the compile reports; `EAGER_BLESS=1` writes it.

use eager_tests::{daemon::Daemon, has_toolchain, rodinia_arguments, rodinia_binary_with, root, run, text};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- buffers: written by the test `live_rodinia`, EAGER_BLESS=1 -->\n";
const END: &str = "<!-- end of buffers -->";

/// Compiles a program; returns its executable and its compile report.
fn compiled(program: &eager_rodinia::Program, folder: &Path) -> (PathBuf, Value) {
    let report = folder.join(format!("{}.json", program.name));
    let binary = rodinia_binary_with(program, &[format!("--eager-report={}", report.display()).into()]);
    let report = std::fs::read_to_string(&report).expect("report");
    (binary, serde_json::from_str(&report).expect("the report is JSON"))
}

fn items<'a>(report: &'a Value, field: &'a str) -> impl Iterator<Item = &'a Value> {
    report["units"].as_array().into_iter().flatten().flat_map(move |unit| unit[field].as_array()).flatten()
}

/// Lists the places as `file:line`, each once.
fn places(list: &Value) -> String {
    let place = |place: &Value| {
        let file = Path::new(place["file"].as_str().unwrap_or("?"));
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{name}:{}", place["line"])
    };
    let mut all: Vec<String> = list.as_array().into_iter().flatten().map(place).collect();
    all.dedup();
    all.join(", ")
}

fn rows(name: &str, report: &Value) -> String {
    let tasks: Vec<&Value> = items(report, "tasks").collect();
    let named = tasks.iter().filter(|task| task["named"] == true).count();
    let mut rows = String::new();
    for buffer in items(report, "buffers") {
        let end = match buffer["contents"].as_str() {
            Some("dead") => format!("proven, after {}", places(&buffer["last_uses"])),
            _ => format!("no: {}", buffer["reason"].as_str().unwrap_or("?")),
        };
        let (allocated, used) = (places(&buffer["allocated"]), places(&buffer["first_uses"]));
        // Writing to a string cannot fail.
        let _ = writeln!(rows, "| {name} | {named} of {} | {allocated} | {used} | {end} |", tasks.len());
    }
    rows
}

#[test]
fn the_page_says_of_every_buffer_when_it_is_given_back() {
    if !has_toolchain("compile reports of the seven programs") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let mut table = String::from(
        "| program | tasks by name | allocated | first used | released early |\n|---|---|---|---|---|\n",
    );
    for program in eager_rodinia::programs() {
        let (_, report) = compiled(program, folder.path());
        table += &rows(&program.name, &report);
    }
    let page = root().join("docs/eager-live.md");
    let text = std::fs::read_to_string(&page).expect("docs/eager-live.md");
    let (before, rest) = text.split_once(BEGIN).expect("the mark before the table");
    let (shown, after) = rest.split_once(END).expect("the mark behind the table");
    if std::env::var_os("EAGER_BLESS").is_some() {
        std::fs::write(&page, format!("{before}{BEGIN}\n{table}\n{END}{after}")).expect("write the page");
    } else {
        assert_eq!(shown.trim(), table.trim(), "EAGER_BLESS=1 writes the table");
    }
}

#[test]
fn every_program_is_right_and_gives_back_what_the_compiler_proves() {
    if !has_toolchain("programs under eager-live") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--time-scale", "0", "--policy", "eager-live"]);
    for program in eager_rodinia::programs() {
        let (binary, report) = compiled(program, folder.path());
        let output = run(daemon
            .run(&binary)
            .args(rodinia_arguments(&program.smoke, folder.path()))
            .env("EAGER_STATS", "1"));
        let said = text(&output);
        assert!(output.status.success(), "{}: {said}", program.name);
        assert!(said.lines().any(|line| line == program.expected), "{}: {said}", program.name);
        let proven = items(&report, "buffers").filter(|buffer| buffer["contents"] == "dead").count();
        assert!(proven > 0, "{}: nothing is proven", program.name);
        assert!(said.contains("buffers declared dead before they were freed: "), "{}: {said}", program.name);
        assert!(said.contains(", used after that: 0"), "{}: {said}", program.name);
        assert!(!said.contains("please report"), "{}: {said}", program.name);
    }
    assert_eq!(daemon.ask("ps")["tasks"].as_array().map(Vec::len), Some(0), "tasks left behind");
    assert_eq!(daemon.ask("info")["devices"][0]["granted_bytes"], 0, "memory left granted");
}
