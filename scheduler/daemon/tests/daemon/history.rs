//! Programs that have ended: the list is right, survives restarts, is open to every user, and no user pushes out
//! another's rows.

use crate::support::{
    Daemon, Hostile, answer, begin, begin_whole, command, restarted, slot, take_dir, wait_until,
};
use eager_proto::admin::{AdminReply, AdminRequest, ProgramRow};
use eager_proto::reply::STATE_BOUND;
use eager_proto::request::{BeginFlags, RequestBody};
use nix::sys::signal::Signal;
use std::os::unix::fs::PermissionsExt;

fn programs(daemon: &Daemon) -> Vec<ProgramRow> {
    match daemon.ask(&AdminRequest::History { uid: None, programs_max: 100 }) {
        AdminReply::History { programs } => programs,
        other => panic!("{other:?}"),
    }
}

/// Rows of the honest connection of [`runs_once`], without its other connections, which try what programs may not do.
fn honest(daemon: &Daemon) -> Vec<ProgramRow> {
    programs(daemon).into_iter().filter(|row| row.label == "honest").collect()
}

/// Runs a program that asks for 100 MiB, gets them, extends by 1 MiB, gives all back and ends.
fn runs_once(daemon: &Daemon) {
    let mut program = Hostile::start(daemon, &["--die-at", "99"]);
    assert_eq!(program.end(), Some(0));
    daemon.until(|row| row.clients == 0);
}

#[test]
fn what_ended_is_known_to_the_next_daemon_however_the_first_ended() {
    let daemon = Daemon::start(&[]);
    assert!(programs(&daemon).is_empty());
    runs_once(&daemon);
    let first = honest(&daemon);
    let [row] = &first[..] else { panic!("{first:?}") };
    let told = (row.label.as_str(), row.tasks, row.end.as_str(), row.grant_bytes >> 20);
    assert_eq!(told, ("honest", 1, "ended", 101));
    assert_eq!((row.classes.as_slice(), row.devices.as_slice()), (&["normal".to_owned()][..], &[0][..]));
    assert!(row.ended_ms >= row.started_ms && row.started_ms > 1_600_000_000_000, "{row:?}");

    let path = daemon.run_dir().join("eagerd.ended");
    let mode = || std::fs::metadata(&path).map(|file| file.permissions().mode() & 0o777);
    let written = std::time::Instant::now();
    while mode().is_err() {
        assert!(written.elapsed() < crate::support::LONG, "it was never written");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(mode().expect("the file"), 0o600);
    let daemon = restarted(daemon, &[]);
    assert_eq!(honest(&daemon), first);
    runs_once(&daemon);
    let both = honest(&daemon);
    assert_eq!((both.len(), &both[0]), (2, &first[0]));

    let mut daemon = daemon;
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.end().0.success());
    let daemon = Daemon::start_in(take_dir(&mut daemon), &[]);
    assert_eq!(honest(&daemon), both, "nothing is lost where the daemon ends in order");
}

#[test]
fn a_damaged_list_is_said_and_stops_nobody() {
    for (bad, why) in
        [("garbage\n", "cannot be used (expected value"), ("{\"version\":1}\n{\"cli", "1 lines of the list")]
    {
        let dir = tempfile::tempdir().expect("folder");
        std::fs::create_dir(dir.path().join("run")).expect("folder");
        std::fs::write(dir.path().join("run/eagerd.ended"), bad).expect("write");
        let mut daemon = Daemon::start_in(dir, &[]);
        runs_once(&daemon);
        assert_eq!(honest(&daemon).len(), 1);
        daemon.signal(Signal::SIGTERM);
        let (status, said) = daemon.end();
        assert!(status.success() && said.contains(why), "{said}");
    }
}

#[test]
fn a_program_that_was_told_to_end_was_cancelled() {
    let daemon = Daemon::start(&[]);
    let waits = daemon.connect("waits");
    let body = begin(&waits, slot(0), 100);
    assert_eq!(answer(&waits, slot(0), body).state, STATE_BOUND);
    let other = daemon.connect("other");
    let asked = begin_whole(&other, slot(0), 1000);
    wait_until(&other, slot(0), |cell| cell.state == eager_proto::reply::STATE_WAITING);
    let task = daemon.queue()[0].task;
    daemon.act(&AdminRequest::Cancel { task, signal: "SIGTERM".into(), ends_waiting: false });
    wait_until(&other, slot(0), |cell| {
        cell.answers(asked) && cell.state == eager_proto::reply::STATE_REFUSED
    });
    waits.send(RequestBody::TaskEnd, slot(0)).expect("send");
    drop((waits, other));
    daemon.until(|row| row.clients == 0);
    let mut ends: Vec<(String, String)> =
        programs(&daemon).into_iter().map(|row| (row.label, row.end)).collect();
    ends.sort();
    let expected = [("other", "cancelled"), ("waits", "ended")];
    assert_eq!(ends, expected.map(|(label, end)| (label.to_owned(), end.to_owned())));
}

#[test]
fn a_policy_that_breaks_loses_no_programs_story() {
    let dir = tempfile::tempdir().expect("folder");
    let mut eagerd = command(dir.path());
    eagerd.env("EAGERD_FAULTY_POLICY", "panics");
    let daemon = Daemon::spawn(dir, eagerd, "1 file device, policy ");
    let client = daemon.connect("client");
    for function in ["first", "strike"] {
        let body = RequestBody::TaskBegin {
            requirement: 1 << 20,
            site: 1,
            blocks: 0,
            threads_per_block: 0,
            flags: BeginFlags::NONE,
            function: function.into(),
        };
        let asked = client.send(body, slot(usize::from(function == "strike"))).expect("send");
        let cell = answer(&client, slot(usize::from(function == "strike")), asked);
        assert_eq!(cell.state, STATE_BOUND);
    }
    assert!(daemon.row().policy_state.starts_with("reverted"), "{:?}", daemon.row());
    drop(client);
    daemon.until(|row| row.clients == 0);
    let rows = programs(&daemon);
    let told: Vec<_> = rows.iter().map(|row| (row.label.as_str(), row.tasks, row.grant_bytes)).collect();
    assert_eq!(told, [("client", 2, 2 << 20)]);
}
