//! Compares `--json` of every verb, field by field, with docs/reference/json.md: every printed field is described, and
//! every described field is printed.
//!
//! Trap: the verbs are read from their help, so a new verb fails here until the page describes it.

use eager_tests::book::text_of;
use eager_tests::daemon::{Daemon, Holder};
use eager_tests::mps;
use eager_tests::verbs::{self, Verb};
use eager_tests::{has_toolchain, run, script, tool, until};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command};

/// Kinds of value by field, as the page lists them for one verb.
type Fields = BTreeMap<String, BTreeSet<String>>;

/// Parses the page's tables, by verb. A field of another verb's object is described once: `as `info` has it`.
fn described() -> BTreeMap<String, Fields> {
    let text = text_of(Path::new("docs/reference/json.md"));
    let mut page: BTreeMap<String, Fields> = BTreeMap::new();
    let mut shared = Vec::new();
    for section in text.split("\n## ").skip(1) {
        let (title, body) = section.split_once('\n').expect("a title");
        let verbs: Vec<String> = title.split(", ").map(|verb| verb.trim_matches('`').to_owned()).collect();
        for row in body.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let [field, kinds, meaning] = cells[..] else { panic!("{row}") };
            let field = field.trim_matches('`').to_owned();
            let kinds: BTreeSet<String> = kinds.split(" or ").map(str::to_owned).collect();
            for verb in &verbs {
                let fields = page.entry(verb.clone()).or_default();
                assert!(
                    fields.insert(field.clone(), kinds.clone()).is_none(),
                    "{verb}: {field} is there twice"
                );
                if let Some(other) = meaning.strip_prefix("as `").and_then(|rest| rest.split('`').next()) {
                    shared.push((verb.clone(), field.clone(), other.to_owned()));
                }
            }
        }
    }
    for (verb, field, other) in shared {
        let below: Fields =
            page[&other].clone().into_iter().filter(|(name, _)| is_below(name, &field)).collect();
        assert!(!below.is_empty(), "{verb}: `{other}` has no {field}");
        page.get_mut(&verb).expect("its own section").extend(below);
    }
    page
}

fn is_below(name: &str, field: &str) -> bool {
    name.strip_prefix(field).is_some_and(|rest| rest.starts_with('.') || rest.starts_with("[]"))
}

fn kinds_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

/// Collects every field of an answer, with the kinds of its values.
fn printed(answer: &Value, at: &str, known: &Fields, found: &mut Fields) {
    match answer {
        Value::Object(entries) => {
            for (name, value) in entries {
                let whole = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                let any = format!("{at}.*");
                let field = if known.contains_key(&any) { any } else { whole };
                found.entry(field.clone()).or_default().insert(kinds_of(value).to_owned());
                printed(value, &field, known, found);
            }
        }
        Value::Array(entries) => {
            for entry in entries {
                printed(entry, &format!("{at}[]"), known, found);
            }
        }
        _ => {}
    }
}

/// A daemon with an example of every state: a task that runs, two that wait, one that was refused, a program that waits
/// for a task, and one that has ended.
struct Stage {
    daemon: Daemon,
    _runs: Holder,
    _waiting: [Holder; 2],
    _after: Follower,
    folder: tempfile::TempDir,
}

/// A program that waits for a task to end.
struct Follower(Child);

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait().map(drop));
    }
}

impl Stage {
    fn new() -> Stage {
        // As under `case`, and tasks have shares of the device's time.
        let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--policy", "gcfs"]);
        assert!(daemon.reserve("1GiB", &["true"]).0.wait().expect("its end").success());
        let _runs = Holder::start(&daemon, 12_000).ready();
        assert!(!daemon.reserve("99GiB", &["true"]).0.wait().expect("its end").success());
        let _waiting = [Holder::start(&daemon, 9_000), Holder::start(&daemon, 9_000)];
        let running = daemon.ask("ps")["tasks"][0]["task"].to_string();
        let mut after = Command::new(tool("eager"));
        after.args(["run", "--after", &running, "--run-dir"]).arg(daemon.run_dir()).arg("true");
        let _after = Follower(after.spawn().expect("start"));
        let stage = Stage { _runs, _waiting, _after, daemon, folder: tempfile::tempdir().expect("folder") };
        stage.waiting(2);
        until(|| stage.daemon.ask("ps")["after"][0]["pid"].as_i64().ok_or("nobody is listed"));
        stage
    }

    /// Polls until `count` tasks wait; returns the numbers of all.
    fn waiting(&self, count: usize) -> Vec<u64> {
        until(|| {
            let queue = self.daemon.ask("queue");
            let tasks = queue["tasks"].as_array().expect("tasks");
            if tasks.len() == count {
                Ok(tasks.iter().filter_map(|row| row["task"].as_u64()).collect())
            } else {
                Err(format!("{count} tasks do not wait: {queue}"))
            }
        })
    }

    /// Returns the JSON that a verb prints. A failed check also prints an answer.
    fn answer(&self, verb: &str, words: &[&str]) -> Value {
        let mut command = Command::new(tool("eager"));
        command.args(verb.split(' ')).args(words).arg("--json");
        if !["mps status", "calibrate", "jobs"].contains(&verb) {
            command.arg("--run-dir").arg(self.daemon.run_dir());
        }
        let path = std::env::join_paths([self.folder.path(), Path::new("/usr/bin"), Path::new("/bin")]);
        command.env("PATH", path.expect("a path")).env("CUDA_MPS_PIPE_DIRECTORY", self.folder.path());
        command.env("XDG_STATE_HOME", self.folder.path());
        let output = run(&mut command);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{verb} {words:?}: {error}: {output:?}"))
    }

    /// Imitates a running MPS, with a control program that answers as NVIDIA's does.
    fn start_mps(&self) -> mps::Control {
        let control = self.folder.path().join("nvidia-cuda-mps-control");
        script(&control, "#!/bin/sh\nread word rest\n[ $word = get_server_list ] && echo 4242 || echo 7\n");
        mps::Control::start(self.folder.path())
    }

    /// Returns answers of a verb that together show each of its fields.
    fn answers(&self, verb: &str) -> Vec<Value> {
        let task = self.waiting(2)[0].to_string();
        match verb {
            "ps" | "queue" | "history" | "info" | "top" | "policy" | "doctor" => vec![self.answer(verb, &[])],
            "jobs" => {
                let eager = |words: &[&str]| {
                    let mut command = Command::new(tool("eager"));
                    run(command.args(words).env("XDG_STATE_HOME", self.folder.path()))
                };
                let run_dir = self.daemon.run_dir();
                let run_dir = run_dir.to_str().expect("a plain path");
                assert!(eager(&["submit", "--run-dir", run_dir, "sh", "-c", "exit 3"]).status.success());
                assert_eq!(eager(&["wait", "1"]).status.code(), Some(3));
                assert!(eager(&["submit", "--run-dir", run_dir, "sh", "-c", "kill -9 $$"]).status.success());
                assert_eq!(eager(&["wait", "2"]).status.code(), Some(137));
                let told = self.answer(verb, &[]);
                let ends = |job: usize| {
                    (told["jobs"][job]["exit_code"].as_i64(), told["jobs"][job]["signal"].as_i64())
                };
                assert_eq!([ends(0), ends(1)], [(Some(3), None), (None, Some(9))], "{told}");
                vec![told]
            }
            "explain" => vec![self.answer(verb, &[&task]), self.answer(verb, &["gpu", "0"])],
            "policy set" => vec![self.answer(verb, &["case"])],
            "drain" | "undrain" => vec![self.answer(verb, &["0"])],
            "hold" => vec![self.answer(verb, &[&task])],
            "priority" => vec![self.answer(verb, &[&task, "0"])],
            "release" => {
                self.answer("hold", &[&task]);
                vec![self.answer(verb, &[&task])]
            }
            "cancel" => vec![self.answer(verb, &[&task])],
            "mps status" => {
                let without = self.answer(verb, &[]);
                let _mps = self.start_mps();
                vec![without, self.answer(verb, &[])]
            }
            "calibrate" => {
                let out = self.folder.path().join("card.toml");
                let small =
                    ["--virtual", "V100-16GB", "--mib", "8", "--rounds", "1", "--work", "64", "--out"];
                vec![self.answer(verb, &[&small[..], &[out.to_str().expect("a path")]].concat())]
            }
            other => panic!("`eager {other}` has --json: add here how all of its fields are seen"),
        }
    }
}

fn has_json(verb: &Verb) -> bool {
    !verb.needs_verb && verb.help.lines().any(|line| line.trim_start().starts_with("--json"))
}

#[test]
fn what_is_printed_is_described_and_what_is_described_is_printed() {
    let verbs: Vec<String> =
        verbs::of("eager").iter().filter(|verb| has_json(verb)).map(Verb::name).collect();
    let page = described();
    assert_eq!(
        verbs.iter().collect::<BTreeSet<_>>(),
        page.keys().collect(),
        "verbs with --json, and those of the page"
    );
    let can_compile = has_toolchain("eager calibrate --json");
    let mut wrong = Vec::new();
    for verb in verbs.iter().filter(|verb| can_compile || *verb != "calibrate") {
        let (known, mut found) = (&page[verb], Fields::new());
        let stage = Stage::new();
        stage.answers(verb).iter().for_each(|answer| printed(answer, "", known, &mut found));
        for (field, kinds) in &found {
            let allowed = known.get(field);
            if !allowed.is_some_and(|allowed| kinds.is_subset(allowed)) {
                wrong.push(format!("{verb}: `{field}` is {kinds:?}, described as {allowed:?}"));
            }
        }
        let unseen = known.keys().filter(|field| !found.contains_key(*field));
        wrong.extend(unseen.map(|field| format!("{verb}: `{field}` is described and not printed")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
