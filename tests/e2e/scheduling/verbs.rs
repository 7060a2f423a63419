//! The command line against a real daemon with virtual GPUs: each verb, its JSON, its bad input.

use eager_tests::daemon::{Daemon, Holder};
use eager_tests::verbs::{self, Verb};
use eager_tests::{refusal, run, run_ok, text, tool, until};
use serde_json::Value;
use std::process::Command;

#[test]
fn a_wait_is_seen_explained_held_and_cancelled() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--policy", "case"]);
    let _runs = Holder::start(&daemon, 12_000).ready();
    let _waits = Holder::start(&daemon, 9_000);
    let task = daemon.waiting_task().to_string();
    let queue = run_ok(&mut daemon.verb(&["queue"]));
    assert!(queue.starts_with("PLACE  TASK") && queue.contains("waits: largest free memory is "), "{queue}");
    let said = run_ok(&mut daemon.verb(&["explain", &task]));
    assert!(said.contains("place 1 of 1 in the queue of case") && said.contains("GPU 0 lacks "), "{said}");
    let explained = daemon.json(&["explain", &task]);
    assert_eq!(
        (&explained["reply"], &explained["devices"][0]["offer"]),
        (&"explained".into(), &"lacks".into())
    );
    let said = run_ok(&mut daemon.verb(&["explain", "gpu", "0"]));
    assert!(said.starts_with("GPU 0 (V100-16GB") && said.contains(&format!("task {task} (")), "{said}");

    assert_eq!(daemon.json(&["hold", &task])["reply"], "done");
    assert!(daemon.json(&["queue"])["tasks"][0]["place"].is_null());
    run_ok(&mut daemon.verb(&["release", &task]));
    let said = run_ok(&mut daemon.verb(&["cancel", &task]));
    assert!(said.starts_with(&format!("task {task} is refused")), "{said}");
    assert_eq!(daemon.json(&["queue"])["tasks"], Value::Array(Vec::new()));
    let (code, said) = refusal(&run(&mut daemon.verb(&["cancel", &task])));
    assert_eq!(
        (code, said),
        (Some(1), format!("eager: the daemon says: there is no task {task}: `eager ps` lists all tasks\n"))
    );
}

#[test]
fn a_running_task_is_cancelled_by_a_signal_of_choice() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB"]);
    let mut runs = Holder::start(&daemon, 100).ready();
    let task = daemon.json(&["ps"])["tasks"][0]["task"].as_u64().expect("a task").to_string();
    let said = run_ok(&mut daemon.verb(&["cancel", &task, "--signal", "kill"]));
    assert!(said.starts_with("SIGKILL was sent to pid "), "{said}");
    let status = runs.0.wait().expect("its end");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
}

#[test]
fn devices_are_drained_and_policies_set() {
    let daemon = Daemon::start(&["--virtual", "2xV100-16GB", "--policy", "eager-opt"]);
    let said = run_ok(&mut daemon.verb(&["drain", "0"]));
    assert!(said.starts_with("GPU 0 is drained: "), "{said}");
    let _runs = Holder::start(&daemon, 100).ready();
    assert_eq!(daemon.json(&["ps"])["tasks"][0]["device"], 1);
    let info = run_ok(&mut daemon.verb(&["info"]));
    assert!(info.contains("GPU 0: drained for ") && info.contains("  drained  "), "{info}");
    run_ok(&mut daemon.verb(&["undrain", "0"]));
    assert!(daemon.json(&["info"])["devices"][0]["drained_ms"].is_null());

    assert!(run_ok(&mut daemon.verb(&["policy"])).starts_with("policy eager-opt (as configured)\n"));
    run_ok(&mut daemon.verb(&["policy", "set", "case"]));
    let policy = &daemon.json(&["policy"])["policy"];
    assert_eq!((&policy["policy"], &policy["configured"]), (&"case".into(), &"eager-opt".into()));
    let (code, said) = refusal(&run(&mut daemon.verb(&["policy", "set", "fastest"])));
    assert!(code == Some(1) && said.contains("unknown policy `fastest`: known are case, "), "{said}");
    let (code, said) = refusal(&run(&mut daemon.verb(&["explain", "gpu", "x"])));
    assert!(code == Some(1) && said.contains("`gpu x` is neither a task"), "{said}");
    assert_eq!(run(&mut daemon.verb(&["drain", "one"])).status.code(), Some(2));
}

/// Returns the command that runs `sh -c SCRIPT` under `eager run` with these flags.
#[test]
fn a_program_starts_after_a_task() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB"]);
    let first = Holder::start(&daemon, 100).ready();
    let task = daemon.json(&["ps"])["tasks"][0]["task"].as_u64().expect("a task").to_string();
    let mut second = daemon.script(&["--after", &task], "exit 3").spawn().expect("start");
    assert_eq!(second.try_wait().expect("its state"), None, "it waits");
    let row = until(|| {
        let row = daemon.json(&["ps"])["after"][0].clone();
        if row.is_object() { Ok(row) } else { Err("nobody waits for it") }
    });
    assert_eq!((&row["pid"], &row["after"].to_string()), (&second.id().into(), &task));
    let why = format!("waits: for task {task} (");
    for verb in ["ps", "queue", "top"] {
        let listed = run_ok(&mut daemon.verb(&[verb]));
        let line =
            listed.lines().find(|line| line.contains(&why)).unwrap_or_else(|| panic!("{verb}: {listed}"));
        assert!(line.contains(&second.id().to_string()), "{verb}: {line}");
    }
    drop(first);
    assert_eq!(second.wait().expect("its end").code(), Some(3));
    let (code, said) = refusal(&run(&mut daemon.script(&["--after", "99"], "true")));
    assert!(code == Some(1) && said.contains("there has been no task 99 yet"), "{said}");
}

#[test]
fn programs_that_have_ended_are_listed() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--policy", "case"]);
    let reserved = |label: &str, memory: &str| {
        let status =
            daemon.script(&["--label", label, "--mem", memory], "sleep 0.1").status().expect("start");
        status.code()
    };
    assert_eq!((reserved("short", "6GiB"), reserved("huge", "64GiB")), (Some(0), Some(1)));
    // A task ends with its process, which the daemon may notice a moment later.
    until(|| match daemon.json(&["history"])["programs"].as_array().map(Vec::len) {
        Some(2) => Ok(()),
        found => Err(format!("{found:?} programs")),
    });
    let listed = run_ok(&mut daemon.verb(&["history", "--format", "label,class,gpu,grant,end"]));
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["LABEL", "CLASS", "GPU", "GRANT", "END"]);
    assert_eq!(
        lines[1].split_whitespace().collect::<Vec<_>>(),
        ["short", "normal", "0", "6", "GiB", "ended"]
    );
    assert!(lines[2].starts_with("huge ") && lines[2].contains("refused: 64 GiB wanted"), "{listed}");
    let last = daemon.json(&["history", "-n", "1"]);
    assert_eq!(last["programs"][0]["label"], "huge");
    let other = daemon.json(&["history", "--user", "4000000001"]);
    assert_eq!(other["programs"], Value::Array(Vec::new()));
    let by_run = run_ok(&mut daemon.verb(&["history", "--sort", "ran", "--format", "label"]));
    assert_eq!(by_run, "LABEL\nshort\nhuge\n");
}

#[test]
fn the_doctor_finds_what_is_there_and_what_is_not() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB"]);
    let output = run(daemon.verb(&["doctor"]).arg("--json"));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = report["checks"].as_array().expect("checks");
    let state =
        |name: &str| checks.iter().find(|check| check["name"] == name).map(|check| check["state"].clone());
    for name in ["shared memory", "pidfd", "run directory", "daemon", "client socket"] {
        assert_eq!(state(name), Some("ok".into()), "{name}: {report}");
    }
    let fails = checks.iter().any(|check| check["state"] == "fail");
    assert_eq!(output.status.code(), Some(i32::from(fails)));
    for check in checks {
        assert_eq!(check["state"] == "ok", check["mend"] == "", "{check}");
    }
    let plain = run(&mut daemon.verb(&["doctor"]));
    assert!(!text(&plain).contains('\u{1b}'), "no colours where there is no terminal");
    drop(daemon);
    let nowhere = run(Command::new(tool("eager")).args(["doctor", "--run-dir", "/no/such/folder"]));
    assert!(
        text(&nowhere).contains("run directory  /no/such/folder is not there: start a daemon"),
        "{}",
        text(&nowhere)
    );
}

#[test]
fn completions_and_man_pages_know_every_verb() {
    let verbs: Vec<Verb> = verbs::of("eager").into_iter().filter(|verb| !verb.words.is_empty()).collect();
    assert!(verbs.len() > 12, "{verbs:?}");
    let folder = tempfile::tempdir().expect("folder");
    run_ok(Command::new(tool("eager")).args(["man", "--out"]).arg(folder.path()));
    for verb in &verbs {
        let page = folder.path().join(format!("eager-{}.1", verb.words.join("-")));
        assert!(page.exists(), "{} is missing", page.display());
        let examples = verb.words.len() > 1 || verb.help.contains("Examples:");
        assert!(examples, "{} --help has no examples", verb.name());
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = run_ok(Command::new(tool("eager")).args(["completions", shell]));
        for word in verbs.iter().flat_map(|verb| &verb.words) {
            assert!(script.contains(word.as_str()), "{shell} does not know {word}");
        }
    }
}
