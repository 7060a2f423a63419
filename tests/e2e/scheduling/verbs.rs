//! The command line against a real daemon with virtual GPUs: each verb, its JSON, its bad input.

use eager_tests::daemon::{Daemon, Holder};
use eager_tests::verbs::{self, Verb};
use eager_tests::{compiled, has_toolchain, run, run_ok, text, tool, until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn eager(daemon: &Daemon, words: &[&str]) -> Command {
    let mut command = Command::new(tool("eager"));
    command.args(words).arg("--run-dir").arg(daemon.run_dir());
    command
}

fn json(daemon: &Daemon, words: &[&str]) -> Value {
    let out = run_ok(eager(daemon, words).arg("--json"));
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{words:?} printed {out:?}: {error}"))
}

/// Polls until a task waits; returns its number.
fn waiting(daemon: &Daemon) -> u64 {
    until(|| json(daemon, &["queue"])["tasks"][0]["task"].as_u64().ok_or("nobody waits"))
}

/// Returns the exit code and the one line on standard error.
fn refused(output: &Output) -> (Option<i32>, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.stdout.is_empty() && said.lines().count() == 1, "{}", text(output));
    (output.status.code(), said)
}

#[test]
fn a_wait_is_seen_explained_held_and_cancelled() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--policy", "case"]);
    let _runs = Holder::start(&daemon, 12_000).ready();
    let _waits = Holder::start(&daemon, 9_000);
    let task = waiting(&daemon).to_string();
    let queue = run_ok(&mut eager(&daemon, &["queue"]));
    assert!(queue.starts_with("PLACE  TASK") && queue.contains("waits: largest free memory is "), "{queue}");
    let said = run_ok(&mut eager(&daemon, &["explain", &task]));
    assert!(said.contains("place 1 of 1 in the queue of case") && said.contains("GPU 0 lacks "), "{said}");
    let explained = json(&daemon, &["explain", &task]);
    assert_eq!(
        (&explained["reply"], &explained["devices"][0]["offer"]),
        (&"explained".into(), &"lacks".into())
    );
    let said = run_ok(&mut eager(&daemon, &["explain", "gpu", "0"]));
    assert!(said.starts_with("GPU 0 (V100-16GB") && said.contains(&format!("task {task} (")), "{said}");

    assert_eq!(json(&daemon, &["hold", &task])["reply"], "done");
    assert!(json(&daemon, &["queue"])["tasks"][0]["place"].is_null());
    run_ok(&mut eager(&daemon, &["release", &task]));
    let said = run_ok(&mut eager(&daemon, &["cancel", &task]));
    assert!(said.starts_with(&format!("task {task} is refused")), "{said}");
    assert_eq!(json(&daemon, &["queue"])["tasks"], Value::Array(Vec::new()));
    let (code, said) = refused(&run(&mut eager(&daemon, &["cancel", &task])));
    assert_eq!(
        (code, said),
        (Some(1), format!("eager: the daemon says: there is no task {task}: `eager ps` lists all tasks\n"))
    );
}

#[test]
fn a_running_task_is_cancelled_by_a_signal_of_choice() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB"]);
    let mut runs = Holder::start(&daemon, 100).ready();
    let task = json(&daemon, &["ps"])["tasks"][0]["task"].as_u64().expect("a task").to_string();
    let said = run_ok(&mut eager(&daemon, &["cancel", &task, "--signal", "kill"]));
    assert!(said.starts_with("SIGKILL was sent to pid "), "{said}");
    let status = runs.0.wait().expect("its end");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
}

#[test]
fn devices_are_drained_and_policies_set() {
    let daemon = Daemon::start(&["--virtual", "2xV100-16GB", "--policy", "eager-opt"]);
    let said = run_ok(&mut eager(&daemon, &["drain", "0"]));
    assert!(said.starts_with("GPU 0 is drained: "), "{said}");
    let _runs = Holder::start(&daemon, 100).ready();
    assert_eq!(json(&daemon, &["ps"])["tasks"][0]["device"], 1);
    let info = run_ok(&mut eager(&daemon, &["info"]));
    assert!(info.contains("GPU 0: drained for ") && info.contains("  drained  "), "{info}");
    run_ok(&mut eager(&daemon, &["undrain", "0"]));
    assert!(json(&daemon, &["info"])["devices"][0]["drained_ms"].is_null());

    assert!(run_ok(&mut eager(&daemon, &["policy"])).starts_with("policy eager-opt (as configured)\n"));
    run_ok(&mut eager(&daemon, &["policy", "set", "case"]));
    let policy = &json(&daemon, &["policy"])["policy"];
    assert_eq!((&policy["policy"], &policy["configured"]), (&"case".into(), &"eager-opt".into()));
    let (code, said) = refused(&run(&mut eager(&daemon, &["policy", "set", "fastest"])));
    assert!(code == Some(1) && said.contains("unknown policy `fastest`: known are case, "), "{said}");
    let (code, said) = refused(&run(&mut eager(&daemon, &["explain", "gpu", "x"])));
    assert!(code == Some(1) && said.contains("`gpu x` is neither a task"), "{said}");
    assert_eq!(run(&mut eager(&daemon, &["drain", "one"])).status.code(), Some(2));
}

/// Returns the command that runs `sh -c SCRIPT` under `eager run` with these flags.
fn run_script(daemon: &Daemon, flags: &[&str], script: &str) -> Command {
    let mut command = eager(daemon, &[&["run"], flags].concat());
    command.args(["--", "sh", "-c", script]);
    command
}

/// The first line that a program prints there, once it does: a reason comes after a second of waiting.
fn first_line(from: impl std::io::Read) -> String {
    let mut line = String::new();
    BufReader::new(from).read_line(&mut line).expect("a line");
    line
}

#[test]
fn memory_is_reserved_for_a_program_that_says_nothing_of_itself() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--policy", "case"]);
    let script = "echo $CUDA_VISIBLE_DEVICES $EAGER_DISABLE; read line; exit 7";
    let mut program = run_script(&daemon, &["--mem", "6GiB", "--label", "undeclared"], script);
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
    let mut said = String::new();
    BufReader::new(program.stdout.take().expect("stdout")).read_line(&mut said).expect("a line");
    assert_eq!(said, "0 1\n", "it sees the granted device, and does not ask again");
    let task = &json(&daemon, &["ps"])["tasks"][0];
    assert_eq!((&task["label"], &task["grant_bytes"]), (&"undeclared".into(), &(6u64 << 30).into()));
    assert_eq!(task["pid"], program.id(), "the program itself holds it");

    // Another program, which does not fit beside it, waits, prints so, and starts when the first has ended.
    let waits = run_script(&daemon, &["--mem", "12GiB"], "echo started")
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut waits = Holder(waits.expect("start"));
    let said = first_line(waits.0.stderr.take().expect("stderr"));
    drop(program.stdin.take());
    assert_eq!(program.wait().expect("its end").code(), Some(7));
    let mut out = String::new();
    std::io::Read::read_to_string(&mut waits.0.stdout.take().expect("stdout"), &mut out).expect("stdout");
    assert!(
        out == "started\n" && said.starts_with("eager: 12GiB: waits: largest free memory is "),
        "{out}{said}"
    );

    let (code, said) = refused(&run(&mut run_script(&daemon, &["--mem", "99GiB"], "true")));
    assert!(code == Some(1) && said.starts_with("eager: 99GiB: refused: "), "{said}");
    let bad = run(&mut run_script(&daemon, &["--mem", "8GB"], "true"));
    assert!(bad.status.code() == Some(2) && text(&bad).contains("`8GB` is not a size"), "{}", text(&bad));
    let killed = run(&mut run_script(&daemon, &["--mem", "1GiB"], "kill -TERM $$"));
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.status), Some(15), "its own end");
}

#[test]
fn memory_is_reserved_on_several_devices_in_the_order_of_their_numbers() {
    let daemon = Daemon::start(&["--virtual", "4xV100-16GB", "--policy", "case"]);
    run_ok(&mut eager(&daemon, &["drain", "1"]));
    let script = "echo $CUDA_VISIBLE_DEVICES $EAGER_VGPU_VISIBLE; read line";
    let mut program = run_script(&daemon, &["--mem", "6GiB", "-n", "3"], script);
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
    let mut said = String::new();
    BufReader::new(program.stdout.take().expect("stdout")).read_line(&mut said).expect("a line");
    assert_eq!(said, "0,2,3 0,2,3\n");
    let tasks = json(&daemon, &["ps"])["tasks"].take();
    let bound: Vec<_> = tasks.as_array().expect("tasks").iter().map(|task| task["device"].clone()).collect();
    assert_eq!(bound, [0, 2, 3]);

    // Another program with as much on each device waits for the drained device, and prints so.
    let waits = run_script(&daemon, &["--mem", "12GiB", "--gpus", "4"], "echo started")
        .stderr(Stdio::piped())
        .spawn();
    let mut waits = Holder(waits.expect("start"));
    let task = waiting(&daemon).to_string();
    let reason = first_line(waits.0.stderr.take().expect("stderr"));
    let said = run_ok(&mut eager(&daemon, &["explain", &task]));
    assert!(said.contains("GPU 0 lacks ") && said.contains("Each of GPU 2, 3 is barred: "), "{said}");
    drop(program.stdin.take());
    program.wait().expect("its end");
    run_ok(&mut eager(&daemon, &["undrain", "1"]));
    assert!(waits.0.wait().expect("its end").success());
    assert!(reason.starts_with("eager: 12GiB, GPU 1 of 4: waits: "), "{reason}");
}

#[test]
fn devices_that_are_not_there_are_not_reserved() {
    let daemon = Daemon::start(&["--virtual", "2xV100-16GB"]);
    for (flags, code, words) in [
        (&["--mem", "1GiB", "-n", "3"][..], 1, "3 GPUs with 1GiB each: the daemon has 2 that large"),
        (&["--mem", "20GiB", "-n", "2"], 1, "2 GPUs with 20GiB each: the daemon has 0 that large"),
        (&["--mem", "1GiB", "-n", "0"], 2, "0 is not in 1..=16"),
        (&["-n", "2"], 2, "--mem <SIZE>"),
    ] {
        let output = run(&mut run_script(&daemon, flags, "true"));
        assert!(output.status.code() == Some(code) && text(&output).contains(words), "{}", text(&output));
    }
}

const VISIBLE: &str = r#"
#include <cstdio>
#include <cuda_runtime.h>
__global__ void fill(int *p) { p[threadIdx.x] = threadIdx.x; }
int main() {
  int count = 0, *p, last = 0, again = 0;
  char bus[16];
  if (cudaGetDeviceCount(&count)) return 1;
  for (int device = 0; device < count; ++device) {
    if (cudaSetDevice(device) || cudaDeviceGetPCIBusId(bus, sizeof bus, device)) return 2;
    if (cudaDeviceGetByPCIBusId(&again, bus) || again != device) return 3;
    if (cudaMalloc(&p, 1 << 20)) return 4;
    fill<<<1, 64>>>(p);
    if (cudaMemcpy(&last, p + 63, sizeof last, cudaMemcpyDeviceToHost)) return 5;
    printf("%d on %s\n", last, bus);
  }
  return cudaSetDevice(count) == cudaErrorInvalidDevice ? 0 : 6;
}
"#;

#[test]
fn a_program_with_reserved_devices_runs_on_these_and_sees_no_other() {
    if !has_toolchain("reserved devices") {
        return;
    }
    let daemon = Daemon::start(&["--virtual", "3xV100-16GB"]);
    run_ok(&mut eager(&daemon, &["drain", "1"]));
    let folder = tempfile::tempdir().expect("folder");
    let program = compiled(folder.path(), "visible", VISIBLE);
    let program = program.to_str().expect("a path");
    let mut command = eager(&daemon, &["run", "--mem", "1GiB", "-n", "2"]);
    assert_eq!(run_ok(command.args(["--", program])), "63 on 0000:01:00.0\n63 on 0000:03:00.0\n");
    let mut plain = Command::new(tool("eager"));
    let plain = plain.args(["run", "--plain", "--virtual", "2xV100-16GB", "--time-scale", "0", program]);
    let printed = run_ok(plain.env("EAGER_VGPU_VISIBLE", "1"));
    assert!(printed.contains("01:00.0") && printed.contains("02:00.0"), "not taken over: {printed}");
}

#[test]
fn a_program_starts_after_a_task() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB"]);
    let first = Holder::start(&daemon, 100).ready();
    let task = json(&daemon, &["ps"])["tasks"][0]["task"].as_u64().expect("a task").to_string();
    let mut second = run_script(&daemon, &["--after", &task], "exit 3").spawn().expect("start");
    assert_eq!(second.try_wait().expect("its state"), None, "it waits");
    let row = until(|| {
        let row = json(&daemon, &["ps"])["after"][0].clone();
        if row.is_object() { Ok(row) } else { Err("nobody waits for it") }
    });
    assert_eq!((&row["pid"], &row["after"].to_string()), (&second.id().into(), &task));
    let why = format!("waits: for task {task} (");
    for verb in ["ps", "queue", "top"] {
        let listed = run_ok(&mut eager(&daemon, &[verb]));
        let line =
            listed.lines().find(|line| line.contains(&why)).unwrap_or_else(|| panic!("{verb}: {listed}"));
        assert!(line.contains(&second.id().to_string()), "{verb}: {line}");
    }
    drop(first);
    assert_eq!(second.wait().expect("its end").code(), Some(3));
    let (code, said) = refused(&run(&mut run_script(&daemon, &["--after", "99"], "true")));
    assert!(code == Some(1) && said.contains("there has been no task 99 yet"), "{said}");
}

#[test]
fn programs_that_have_ended_are_listed() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB", "--policy", "case"]);
    let reserved = |label: &str, memory: &str| {
        let status =
            run_script(&daemon, &["--label", label, "--mem", memory], "sleep 0.1").status().expect("start");
        status.code()
    };
    assert_eq!((reserved("short", "6GiB"), reserved("huge", "64GiB")), (Some(0), Some(1)));
    // A task ends with its process, which the daemon may notice a moment later.
    until(|| match json(&daemon, &["history"])["programs"].as_array().map(Vec::len) {
        Some(2) => Ok(()),
        found => Err(format!("{found:?} programs")),
    });
    let listed = run_ok(&mut eager(&daemon, &["history", "--format", "label,class,gpu,grant,end"]));
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["LABEL", "CLASS", "GPU", "GRANT", "END"]);
    assert_eq!(
        lines[1].split_whitespace().collect::<Vec<_>>(),
        ["short", "normal", "0", "6", "GiB", "ended"]
    );
    assert!(lines[2].starts_with("huge ") && lines[2].contains("refused: 64 GiB wanted"), "{listed}");
    let last = json(&daemon, &["history", "-n", "1"]);
    assert_eq!(last["programs"][0]["label"], "huge");
    let other = json(&daemon, &["history", "--user", "4000000001"]);
    assert_eq!(other["programs"], Value::Array(Vec::new()));
    let by_run = run_ok(&mut eager(&daemon, &["history", "--sort", "ran", "--format", "label"]));
    assert_eq!(by_run, "LABEL\nshort\nhuge\n");
}

#[test]
fn the_doctor_finds_what_is_there_and_what_is_not() {
    let daemon = Daemon::start(&["--virtual", "1xV100-16GB"]);
    let output = run(eager(&daemon, &["doctor"]).arg("--json"));
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
    let plain = run(&mut eager(&daemon, &["doctor"]));
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
