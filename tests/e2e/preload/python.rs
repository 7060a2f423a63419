//! The Python package: `python -m eager run`, and tasks inside a program.
//!
//! A program's CUDA part is a library without the pass that Python opens, as frameworks' are.

use super::NOT_INSTRUMENTED;
use eager_tests::cudas::programs;
use eager_tests::daemon::Daemon;
use eager_tests::place::Running;
use eager_tests::{bin_dir, root, run, run_ok, text, tool};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the script calls: memory that stays until it is given back, and a kernel on it.
const LIBRARY: &str = r#"
static int *held;
extern "C" int take(size_t bytes) {
  if (cudaMalloc(&held, bytes)) return -1;
  fill<<<N / 256, 256>>>(held, 41);
  more<<<N / 256, 256>>>(held);
  return last_of(held);
}
extern "C" void give() { OK(cudaFree(held)); }
"#;

/// Two steps with memory of a task each; between them the program lives on and holds nothing.
const STEPS: &str = r#"
import ctypes, sys, eager
cuda = ctypes.CDLL(sys.argv[1])
print("scheduled", eager.is_scheduled(), flush=True)
for step in range(2):
    with eager.task("40MiB"):
        print("in", cuda.take(ctypes.c_size_t(40 << 20)), flush=True)
        sys.stdin.readline()
        cuda.give()
    print("out", flush=True)
    sys.stdin.readline()
"#;

/// Python with the package of the source tree and this build's `eager`.
fn python() -> Command {
    let mut python = Command::new("python3");
    let path = std::env::var("PATH").unwrap_or_default();
    python.env("PYTHONPATH", root().join("runtime-shim/python/src"));
    python.env("PATH", format!("{}:{path}", bin_dir().display())).env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

/// The command `python3 -m eager run OPTIONS SCRIPT` under a daemon.
fn under(daemon: &Daemon, options: &[&str], script: &Path) -> Command {
    let mut command = python();
    command.args(["-m", "eager", "run", "--run-dir"]).arg(daemon.run_dir()).args(options).arg(script);
    command
}

fn written(folder: &Path, name: &str, script: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, script).expect("write");
    path
}

/// A card of 64 MiB for the programs.
fn daemon(policy: &str) -> Daemon {
    let card = ["--virtual", "1xV100-16GB", "--memory-scale", "256", "--time-scale", "0"];
    Daemon::start(&[&card[..], &["--policy", policy]].concat())
}

#[test]
fn a_task_waits_for_anothers_end_and_not_for_its_programs() {
    let folder = tempfile::tempdir().expect("folder");
    let script = written(folder.path(), "steps.py", STEPS);
    for (library, _) in programs(folder.path(), LIBRARY, &[NOT_INSTRUMENTED, "-shared", "-fPIC"]) {
        let daemon = daemon("case");
        let start = || {
            let mut command = under(&daemon, &[], &script);
            Running::start(command.arg(&library))
        };
        let mut one = start();
        one.expect_line("scheduled True");
        one.expect_line("in 42");
        let mut other = start();
        other.expect_line("scheduled True");
        daemon.waiting_task();
        one.send_line();
        one.expect_line("out");
        other.expect_line("in 42");
        // The first program's second step waits in turn.
        one.send_line();
        daemon.waiting_task();
        other.send_line();
        other.expect_line("out");
        one.expect_line("in 42");
        one.send_line();
        one.expect_line("out");
        for program in [&mut one, &mut other] {
            drop(program.child.stdin.take());
        }
        assert!(one.end().success());
        other.expect_line("in 42");
        other.expect_line("out");
        assert!(other.end().success());
        let ended = daemon.json(&["history"]);
        assert_eq!(ended["programs"][0]["label"], "steps.py", "{ended}");
    }
}

/// The sizes together are more than the card, and each program is right: it waits, or starts over-subscribed.
#[test]
fn programs_with_tasks_are_right_under_the_default_policy() {
    let folder = tempfile::tempdir().expect("folder");
    let script = written(folder.path(), "steps.py", STEPS);
    let Some((library, _)) =
        programs(folder.path(), LIBRARY, &[NOT_INSTRUMENTED, "-shared", "-fPIC"]).into_iter().next()
    else {
        return;
    };
    let daemon = daemon("eager-fair");
    let start = |options: &[&str]| {
        let mut command = under(&daemon, options, &script);
        command.arg(&library).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("start")
    };
    // A program of a declared size is one task, whatever tasks are in it.
    let options: [&[&str]; 4] = [&[], &["--mem", "50MiB"], &["--mem", "40MiB", "--whole"], &["--priority=5"]];
    for program in options.map(start) {
        let output = program.wait_with_output().expect("its end");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(printed, "scheduled True\nin 42\nout\nin 42\nout\n", "{}", text(&output));
        assert!(output.status.success());
    }
}

#[test]
fn the_package_has_the_projects_version() {
    let project =
        std::fs::read_to_string(root().join("runtime-shim/python/pyproject.toml")).expect("the project");
    let version = format!("\nversion = \"{}\"\n", env!("CARGO_PKG_VERSION"));
    assert!(project.contains(&version), "{project}");
}

/// Options of `eager run` that mean nothing here: the package sets the first, and the others exclude it.
const NOT_TAKEN: [&str; 6] =
    ["--preload", "--gpus", "--plain", "--virtual", "--time-scale", "--memory-scale"];

#[test]
fn every_option_of_eager_run_is_taken_with_its_value() {
    let help = run_ok(Command::new(tool("eager")).args(["run", "--help"]));
    let option = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| !word.starts_with("--"));
        let is_option = line.trim_start().starts_with('-');
        let name = words.next().filter(|_| is_option)?.to_owned();
        Some((name, words.next().is_some_and(|word| word.starts_with('<'))))
    };
    // A line that goes on begins further to the right.
    let lines = help.lines().filter(|line| line.find('-').is_some_and(|at| at <= 6));
    let options: Vec<(String, bool)> = lines
        .filter_map(option)
        .filter(|(name, _)| name != "--help" && !NOT_TAKEN.contains(&name.as_str()))
        .collect();
    assert!(options.len() > 10, "{help}");
    let words: Vec<&str> = options
        .iter()
        .flat_map(|(name, has_value)| [name.as_str()].into_iter().chain(has_value.then_some("1")))
        .collect();
    let split = "import sys; from eager.__main__ import split; print(split(sys.argv[1:])[1])";
    let mut python = python();
    assert_eq!(run_ok(python.args(["-c", split]).args(words).arg("x.py")), "['x.py']\n");
    let usage = run_ok(self::python().args(["-m", "eager", "--help"]));
    let unnamed: Vec<_> = options.iter().filter(|(name, _)| !usage.contains(name.as_str())).collect();
    assert!(unnamed.is_empty(), "not in the usage: {unnamed:?}");
}

/// Uses no GPU.
#[test]
fn without_the_scheduler_a_task_is_nothing_and_mistakes_are_one_line_each() {
    let folder = tempfile::tempdir().expect("folder");
    let script = r#"
import eager
@eager.task("1 GiB")
def step(): return 7
print(eager.is_scheduled(), step(), step())
with eager.task(1): pass
for size in ("6 GB", "-1", "", "0", 0, -5, 1.5, True, "99999999999TiB", "٦GiB", None):
    try: eager.task(size)
    except eager.SizeError as error: print("wrong:", error)
    else: print("taken:", size)
"#;
    let printed = run_ok(python().arg(written(folder.path(), "plain.py", script)));
    assert!(printed.starts_with("False 7 7\nwrong: '6 GB' is not a size: "), "{printed}");
    assert_eq!((printed.lines().count(), printed.matches("\nwrong: ").count()), (12, 11), "{printed}");
    for (words, code, said) in [
        (&[][..], 2, "eager: the only command is `run`: python -m eager run SCRIPT\n"),
        (&["walk"], 2, "eager: the only command is `run`: python -m eager run SCRIPT\n"),
        (&["run"], 2, "eager: no program given: python -m eager run SCRIPT\n"),
        (&["run", "--mem"], 2, "eager: no program given: python -m eager run SCRIPT\n"),
        (&["run", "--memory", "1G", "x.py"], 2, "eager: --memory is no option of `python -m eager run`"),
        (&["run", "--mem=0", "x.py"], 2, "0"),
    ] {
        let output = run(python().args(["-m", "eager"]).args(words));
        assert!(
            output.status.code() == Some(code) && text(&output).contains(said),
            "{words:?}: {}",
            text(&output)
        );
    }
    let nowhere = "import os, runpy, sys; os.environ['PATH'] = '/nowhere'; sys.argv = ['eager', 'run', 'x.py']; \
                   runpy.run_module('eager', run_name='__main__')";
    let output = run(python().args(["-c", nowhere]));
    assert!(text(&output).contains("`eager` is not on PATH: install Eager"), "{}", text(&output));
    assert_eq!(output.status.code(), Some(127));
}
