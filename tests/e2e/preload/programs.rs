//! Programs that were built without the pass: right results, scheduled as lazy tasks, under their kernels' names.

use super::{NOT_INSTRUMENTED, preloaded};
use eager_core::PolicyName;
use eager_tests::cudas::programs;
use eager_tests::daemon::Daemon;
use eager_tests::{has_toolchain, rodinia_arguments, rodinia_build, text, until};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Starts an uninstrumented program in the background.
fn start(daemon: &Daemon, program: &Path, arguments: &[String]) -> Child {
    let mut command = preloaded(daemon, program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("start")
}

/// Says that it has its memory, and goes on when its input ends.
const HOLDS: &str = r#"
int main() {
  int *p;
  OK(cudaMalloc(&p, (size_t)10 << 20));
  fill<<<N / 256, 256>>>(p, 5);
  OK(cudaDeviceSynchronize());
  printf("ready\n");
  fflush(stdout);
  getchar();
  for (int i = 0; i < 3; i++) more<<<N / 256, 256>>>(p);
  printf("%d\n", last_of(p));
  OK(cudaFree(p));
}
"#;

/// Classes and functions of the daemon's tasks, in order.
fn tasks(daemon: &Daemon) -> Vec<(String, String)> {
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let rows = daemon.ask("ps")["tasks"].as_array().expect("tasks").clone();
    rows.iter().map(|row| (text(row, "class"), text(row, "function"))).collect()
}

#[test]
fn three_that_do_not_all_fit_run_eagerly_or_wait_and_all_are_right() {
    let folder = tempfile::tempdir().expect("folder");
    // A waiting task has no class.
    let wanted = [("case", ["normal", "", ""]), ("eager-opt", ["normal", "eager", ""])];
    for (program, _) in programs(folder.path(), HOLDS, &[NOT_INSTRUMENTED]) {
        for (policy, classes) in wanted {
            let card = ["--virtual", "1xV100-16GB", "--memory-scale", "1024", "--time-scale", "0"];
            let daemon = Daemon::start(&[&card[..], &["--policy", policy]].concat());
            let mut first = start(&daemon, &program, &[]);
            let mut line = String::new();
            BufReader::new(first.stdout.as_mut().expect("stdout")).read_line(&mut line).expect("read");
            assert_eq!(line, "ready\n");
            let others = [start(&daemon, &program, &[]), start(&daemon, &program, &[])];
            until(|| {
                let mut found = tasks(&daemon);
                found.sort_by_key(|(class, _)| ["normal", "eager", ""].iter().position(|one| one == class));
                // One that waits for its first context has no kernel yet.
                let is_named =
                    |(class, kernel): &(String, String)| class.is_empty() || kernel == "_Z4fillPii";
                let are_classes = found.iter().map(|(class, _)| class.as_str()).eq(classes);
                if are_classes && found.iter().all(is_named) {
                    Ok(())
                } else {
                    Err(format!("{policy}: {found:?}"))
                }
            });
            let mut children: Vec<Child> = std::iter::once(first).chain(others).collect();
            // All may go on: any of them may be the next to get its memory.
            children.iter_mut().for_each(|child| drop(child.stdin.take()));
            for child in children {
                let out = child.wait_with_output().expect("its end");
                let said = text(&out);
                assert!(out.status.success() && said.contains("8\n"), "{policy}: {said}");
            }
        }
    }
}

/// Compiles the programs of `rodinia/` as somebody else would; returns them with their arguments.
fn rodinia(folder: &Path) -> Vec<(PathBuf, Vec<String>)> {
    let compiled = |program: &eager_rodinia::Program| {
        let binary = folder.join(&program.binary);
        rodinia_build(program, &[NOT_INSTRUMENTED.into()], &binary);
        (binary, rodinia_arguments(&program.small, folder))
    };
    eager_rodinia::programs().iter().map(compiled).collect()
}

/// Runs all programs at once.
fn verify_under(programs: &[(PathBuf, Vec<String>)], policy: &str) {
    let daemon = Daemon::start(&["--virtual", "2xV100-16GB", "--time-scale", "0", "--policy", policy]);
    let children: Vec<Child> =
        programs.iter().map(|(program, arguments)| start(&daemon, program, arguments)).collect();
    for (child, (program, _)) in children.into_iter().zip(programs) {
        let out = child.wait_with_output().expect("its end");
        let (name, said) = (program.display(), text(&out));
        assert!(out.status.success() && said.contains("verify: ok"), "{name} under {policy}: {said}");
    }
    assert_eq!(tasks(&daemon), [], "{policy}");
    let history = daemon.json(&["history"]);
    let rows = history["programs"].as_array().expect("programs");
    // Where `eager run` waits for the program's device, its connection is a row of its own, of the same process.
    let own =
        rows.iter().filter(|row| row["tasks"].as_u64() > Some(0) && row["grant_bytes"].as_u64() > Some(0));
    let scheduled: BTreeSet<Option<u64>> = own.map(|row| row["pid"].as_u64()).collect();
    assert_eq!(scheduled.len(), programs.len(), "{policy}: {history}");
}

#[test]
fn the_programs_of_rodinia_verify_without_the_pass() {
    if has_toolchain("programs of rodinia without the pass") {
        let folder = tempfile::tempdir().expect("folder");
        let programs = rodinia(folder.path());
        for policy in ["case", "eager-opt", "eager-fair"] {
            verify_under(&programs, policy);
        }
    }
}

#[test]
#[ignore = "long"]
fn long_the_programs_of_rodinia_verify_without_the_pass_under_every_policy() {
    let folder = tempfile::tempdir().expect("folder");
    let programs = rodinia(folder.path());
    for policy in PolicyName::ALL.into_iter().filter(|policy| policy.for_devices().is_ok()) {
        verify_under(&programs, policy.as_str());
    }
}
