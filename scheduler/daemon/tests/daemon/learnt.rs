//! History of earlier runs: the next run's task begins with its estimate, also after restarts, and an unusable file
//! stops no daemon.

use crate::support::{Daemon, Hostile, answer, restarted, slot, take_dir, wants};
use eager_core::event::{Event, TaskRequest};
use eager_core::journal::{JournalHeader, JournalLine};
use eager_proto::reply::FLAG_HIGH_PRIORITY;
use eager_proto::request::{BeginFlags, RequestBody};
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};

const HISTORY: &str = "eagerd.history";

/// Runs a program that asks for 100 MiB, gets them, gives them back and ends.
fn runs_once(daemon: &Daemon) {
    let mut program = Hostile::start(daemon, &["--die-at", "99"]);
    assert_eq!(program.end(), Some(0));
    daemon.until(|row| row.clients == 0);
}

fn journal(path: &Path) -> (JournalHeader, Vec<JournalLine>) {
    let text = std::fs::read_to_string(path).expect("journal");
    let mut lines = text.lines();
    let header = serde_json::from_str(lines.next().expect("header")).expect("a header");
    (header, lines.map(|line| serde_json::from_str(line).expect("a step")).collect())
}

/// Requests of the program in the journal, run by run.
fn asked(steps: &[JournalLine]) -> Vec<TaskRequest> {
    let mut honest = None;
    let mut found = Vec::new();
    for step in steps {
        match &step.event {
            Event::ClientConnected { client, label, .. } if label == "honest" => honest = Some(*client),
            Event::TaskBegin { client, request, .. } if Some(*client) == honest => {
                found.push(request.clone())
            }
            _ => {}
        }
    }
    found
}

/// Journal of the daemon after `runs` runs under a policy.
fn after_runs(policy: &str, runs: usize) -> (JournalHeader, Vec<JournalLine>) {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("journal.jsonl");
    let path = path.to_str().expect("a plain path");
    let mut daemon = Daemon::start(&["--policy", policy, "--journal", path]);
    (0..runs).for_each(|_| runs_once(&daemon));
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.end().0.success());
    journal(Path::new(path))
}

#[test]
fn the_next_run_of_a_program_is_expected_to_take_what_the_last_took() {
    let (header, steps) = after_runs("eager-live", 2);
    let estimates: Vec<_> = asked(&steps).into_iter().map(|request| request.estimate).collect();
    assert_eq!(estimates.len(), 2);
    assert_eq!(estimates[0], None, "nothing is known of the first");
    let expected = estimates[1].expect("the second is known");
    assert!(expected.remaining >= expected.hold && expected.hold.0 > 0, "{expected:?}");
    eager_core::journal::replay(header, steps).expect("the same decisions without the file");
}

#[test]
fn who_is_expected_to_hold_memory_for_long_launches_at_low_priority() {
    let folder = tempfile::tempdir().expect("folder");
    let config = folder.path().join("eagerd.toml");
    std::fs::write(&config, "[options]\nshort_hold_ns = 1\n").expect("write");
    let daemon =
        Daemon::start(&["--policy", "eager-live", "--config", config.to_str().expect("a plain path")]);
    runs_once(&daemon);
    let is_high = |label: &str| {
        let client = daemon.connect(label);
        let mut body = wants(100);
        let RequestBody::TaskBegin { flags, .. } = &mut body else { panic!("{body:?}") };
        *flags = BeginFlags::WHOLE;
        let asked = client.send(body, slot(0)).expect("send");
        answer(&client, slot(0), asked).flags & FLAG_HIGH_PRIORITY != 0
    };
    assert!(!is_high("honest") && is_high("new"));
}

#[test]
fn estimates_come_under_a_policy_that_does_not_order_by_them_too() {
    let (header, steps) = after_runs("case", 2);
    let known: Vec<bool> = asked(&steps).iter().map(|request| request.estimate.is_some()).collect();
    assert_eq!(known, [false, true]);
    eager_core::journal::replay(header, steps).expect("the same decisions");
}

#[test]
fn what_was_learnt_outlives_the_daemon_however_it_ends() {
    let daemon = Daemon::start(&["--policy", "eager-live"]);
    let path = daemon.run_dir().join(HISTORY);
    assert!(!path.exists());
    runs_once(&daemon);
    // The first lines are written in the turn in which they are learnt, which ends before the daemon reads the next
    // request.
    daemon.row();
    assert!(path.exists());
    let daemon = restarted(daemon, &["--policy", "eager-live"]);
    let first = std::fs::read(path_in(&daemon)).expect("the file");
    runs_once(&daemon);
    let mut daemon = daemon;
    daemon.signal(Signal::SIGTERM);
    let (status, said) = daemon.end();
    assert!(status.success() && said.is_empty(), "{said}");
    let text = std::fs::read_to_string(path_in(&daemon)).expect("the file");
    let file: eager_core::history::HistoryFile = serde_json::from_str(&text).expect("a history");
    let runs: Vec<usize> = file.tasks.iter().map(|task| task.runs.len()).collect();
    assert_eq!(runs, [2], "both runs are in it: {text}");
    assert!(text.len() > first.len());
}

fn path_in(daemon: &Daemon) -> PathBuf {
    daemon.run_dir().join(HISTORY)
}

#[test]
fn a_file_that_is_no_use_is_put_aside_and_said_once() {
    for (bad, why) in [
        ("{\"version\":9,\"tasks\":[]}", "version 9 of the history of runs is not known"),
        ("{\"version\":1,\"tasks\":[{", "EOF while parsing"),
        ("\u{0}garbage", "expected value"),
        ("", "EOF while parsing"),
    ] {
        let mut daemon = Daemon::start(&["--policy", "eager-live"]);
        daemon.signal(Signal::SIGTERM);
        assert!(daemon.end().0.success());
        let path = path_in(&daemon);
        std::fs::write(&path, bad).expect("write");
        let mut daemon = Daemon::start_in(take_dir(&mut daemon), &["--policy", "eager-live"]);
        let path = path_in(&daemon);
        let aside = PathBuf::from(format!("{}.bad", path.display()));
        assert_eq!(std::fs::read_to_string(&aside).expect("put aside"), bad);
        assert!(!path.exists());
        runs_once(&daemon);
        daemon.signal(Signal::SIGTERM);
        let (status, said) = daemon.end();
        assert!(status.success(), "{said}");
        assert!(
            said.lines().count() == 1 && said.contains(why) && said.contains("eagerd.history.bad"),
            "{said}"
        );
        assert!(path.exists(), "it learns anew");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_said_once_and_stops_nobody() {
    let mut daemon = Daemon::start(&["--policy", "eager-live"]);
    // A folder at the path of the new file.
    std::fs::create_dir(daemon.run_dir().join("eagerd.history.new")).expect("folder");
    runs_once(&daemon);
    runs_once(&daemon);
    daemon.signal(Signal::SIGTERM);
    let (status, said) = daemon.end();
    assert!(status.success());
    assert_eq!(said.matches("the history of runs cannot be written").count(), 1, "{said}");
}
