//! Checks the generated parts of the book: the reference and the pictures. `EAGER_BLESS=1` writes them again.

use eager_core::PolicyName;
use eager_core::options::QueueOrder;
use eager_core::policy::{GateRule, PolicyDef};
use eager_tests::book::text_of;
use eager_tests::{root, run, run_ok, tool, verbs};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Compares a file with its expected contents, or writes them if `EAGER_BLESS` is set.
fn must_hold(path: &str, expected: &str) {
    let path = root().join(path);
    if std::env::var_os("EAGER_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("folder")).expect("folder");
        std::fs::write(&path, expected).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{} does not match the programs; write it again with\n  EAGER_BLESS=1 cargo test -p eager-tests --test \
         docs_generated",
        path.display()
    );
}

#[test]
fn reference_of_commands_is_what_the_programs_print() {
    let mut page = String::from(
        "# Commands\n\nWhat each program says when it is asked with `--help`.\n\n\
         <!-- written by the test `docs_generated`, EAGER_BLESS=1 -->\n",
    );
    for program in ["eager", "eagerd", "eagercc", "eager-vgpud"] {
        let _ = write!(page, "\n## {program}\n");
        for verb in verbs::of(program) {
            if !verb.words.is_empty() {
                let _ = write!(page, "\n### {program} {}\n", verb.name());
            }
            let help: Vec<&str> = verb.help.trim_end().lines().map(str::trim_end).collect();
            let _ = write!(page, "\n```text\n{}\n```\n", help.join("\n"));
        }
    }
    must_hold("docs/reference/commands.md", &page);
}

/// A field of a structure, parsed from its source.
struct Field {
    name: String,
    kind: String,
    about: String,
    attributes: String,
}

/// Parses the public fields of `pub struct NAME`, with their comments and attributes.
fn fields(source: &str, name: &str) -> Vec<Field> {
    let text = text_of(Path::new(source));
    let body =
        text.split(&format!("pub struct {name} {{\n")).nth(1).and_then(|rest| rest.split("\n}").next());
    let body = body.unwrap_or_else(|| panic!("{source} has no `pub struct {name}`"));
    let (mut found, mut about, mut attributes) = (Vec::new(), Vec::new(), String::new());
    for line in body.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            about.push(comment.trim().to_owned());
        } else if line.starts_with("#[") {
            attributes.push_str(line);
        } else if let Some((name, kind)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(": ")) {
            let kind = kind.trim_end_matches(',').to_owned();
            let about = std::mem::take(&mut about).join(" ");
            found.push(Field { name: name.into(), kind, about, attributes: std::mem::take(&mut attributes) });
        }
    }
    found
}

/// Describes how a user writes a value of a Rust type.
fn written(kind: &str) -> &str {
    let inner = kind.strip_prefix("Option<").and_then(|rest| rest.strip_suffix('>')).unwrap_or(kind);
    match inner {
        "bool" => "`true` or `false`",
        "u64" | "u32" | "usize" => "whole number",
        "f64" => "number",
        "Size" => "size",
        "Bytes" => "bytes",
        "Nanos" => "nanoseconds",
        "Vec<u32>" => "list of numbers",
        "Vec<UserName>" | "Vec<GroupName>" => "list of numbers or names",
        "Vec<String>" => "list of texts",
        _ => "text",
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace("[`crate::", "[`").replace("[`", "`").replace("`]", "`")
}

/// Writes one row for each setting: name, value, and meaning.
fn settings(page: &mut String, fields: &[Field], key: impl Fn(&Field) -> Option<String>) {
    page.push_str("\n| Setting | Value | Meaning |\n|---|---|---|\n");
    for field in fields {
        if let Some(key) = key(field) {
            let _ = writeln!(page, "| `{key}` | {} | {} |", written(&field.kind), cell(&field.about));
        }
    }
}

/// Returns a field's name in the daemon's settings file; `None` if only the command line has it.
fn key_in_file(field: &Field) -> Option<String> {
    let renamed = field.attributes.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next());
    let hidden =
        ["serde(skip)", "hide = true", "arg(skip)"].iter().any(|word| field.attributes.contains(word));
    (!hidden).then(|| renamed.map_or_else(|| field.name.replace('_', "-"), str::to_owned))
}

#[test]
fn reference_of_settings_is_what_the_daemon_reads() {
    let mut page = String::from(
        "# Settings of eagerd\n\nFlags come before the file (`--config FILE.toml`), the file before defaults. \
         `eagerd … --show-config` prints what holds, in\nthe form of such a file. Every setting of the first table is \
         also a flag: `policy = \"case\"` is `--policy case`.\n\n\
         <!-- written by the test `docs_generated`, EAGER_BLESS=1 -->\n",
    );
    settings(&mut page, &fields("scheduler/daemon/src/settings/config.rs", "Config"), key_in_file);
    page.push_str(
        "\n## The table `[options]`\n\nOf the decisions, whatever the policy, unless one is named.\n",
    );
    let of_core = fields("scheduler/core/src/options.rs", "Options");
    settings(&mut page, &of_core, |field| (field.name != "limits").then(|| field.name.clone()));
    page.push_str(
        "\n## The table `[options.limits]`\n\nWhat the first table's settings of the same meaning set.\n",
    );
    settings(&mut page, &fields("scheduler/core/src/limits.rs", "Limits"), |field| Some(field.name.clone()));
    let shown = run_ok(
        Command::new(tool("eagerd"))
            .args(["--virtual", "4xV100-16GB", "--run-dir", "/run/eager"])
            .arg("--show-config"),
    );
    let _ = write!(
        page,
        "\n## Defaults\n\n`eagerd --virtual 4xV100-16GB --show-config`, as root:\n\n```toml\n{shown}```\n"
    );
    must_hold("docs/reference/configuration.md", &page);
}

/// Describes the order in which a policy tries waiting tasks.
fn order(policy: &PolicyDef) -> &'static str {
    match policy.traits.queue {
        QueueOrder::Fifo => "arrival; no task passes the first",
        QueueOrder::Backfill => "arrival; others pass",
        QueueOrder::LargestFirst => "largest first; others pass",
        QueueOrder::LongestRemaining if policy.traits.sharing.users_in_turn => {
            "users who hold nothing, then the longest first; others pass for 60 s"
        }
        QueueOrder::LongestRemaining => "longest first; others pass for 60 s",
    }
}

/// Describes when a kernel of a started task has to wait.
fn gate(policy: &PolicyDef) -> &'static str {
    match policy.traits.gate {
        GateRule::None => "never",
        GateRule::Barrier => {
            "the first of an over-subscribed task, until the neighbours have launched their last"
        }
        GateRule::PerKernel => "each of an over-subscribed task, while it would hurt a neighbour",
        GateRule::WhileIdle => "the same, and until what neighbours launched has ended",
        GateRule::Rounds(_) => "each, outside of its task's slices",
    }
}

#[test]
fn table_of_policies_is_what_the_scheduler_has() {
    let page = text_of(Path::new("docs/policies.md"));
    let start = "<!-- policies: written by the test `docs_generated`, EAGER_BLESS=1 -->\n";
    let (before, rest) = page.split_once(start).expect("the table's start");
    let (_, after) = rest.split_once("\n<!-- end -->").expect("the table's end");
    let mut table = String::from(
        "\n| Policy | A task starts | Order in which waiting tasks are tried | Kernels wait | Rules |\n|---|---|---|---|---|\n",
    );
    for (name, policy) in PolicyName::ALL.map(|name| (name, name.def())) {
        let PolicyDef { about, source, .. } = policy;
        let source = source.strip_prefix("specification ").unwrap_or(source);
        let _ = writeln!(table, "| `{name}` | {about} | {} | {} | {source} |", order(policy), gate(policy));
    }
    must_hold("docs/policies.md", &format!("{before}{start}{table}\n<!-- end -->{after}"));
}

/// The simulator draws the pictures from the core and the model that everything else uses.
#[test]
fn pictures_of_the_policies_are_what_the_simulator_draws() {
    let folder = tempfile::tempdir().expect("folder");
    let drawn = run(Command::new(tool("eager-eval")).args(["pictures", "--out"]).arg(folder.path()));
    assert!(drawn.status.success(), "{}", eager_tests::text(&drawn));
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .expect("folder")
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    names.sort();
    assert!(names.len() > 3, "{names:?}");
    for name in names {
        let picture = std::fs::read_to_string(folder.path().join(&name)).expect("picture");
        must_hold(&format!("docs/pictures/{}", name.to_string_lossy()), &picture);
    }
}
