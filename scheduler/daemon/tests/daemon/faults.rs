//! The daemon under bad input, hostile clients and other daemons, and at its own end.

use crate::support::{Daemon, LONG, MIB, answer, begin, command, slot};
use eager_proto::hello::Hello;
use eager_proto::reply::STATE_BOUND;
use eager_proto::request::{Request, RequestBody, encode};
use eager_shm::client::{ClientConnection, SendError, Wait};
use eager_shm::connect_seqpacket;
use nix::sys::signal::Signal;
use nix::sys::socket::{MsgFlags, send};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Instant;

fn gone(client: &ClientConnection) {
    let cell = client.cell(slot(0)).expect("a whole cell");
    assert_eq!(client.wait_cell(slot(0), cell.sequence, Instant::now() + LONG), Wait::DaemonGone);
}

/// Checks that the daemon cuts off the client that misbehaves, frees what it held, logs one line with `word`, and
/// serves others as before.
fn cuts_off(misbehave: impl Fn(&ClientConnection), word: &str) {
    let mut daemon = Daemon::start(&[]);
    let (good, bad) = (daemon.connect("good"), daemon.connect("bad\x1b[31m"));
    answer(&good, slot(0), begin(&good, slot(0), 200));
    answer(&bad, slot(15), begin(&bad, slot(15), 300));
    misbehave(&bad);
    gone(&bad);
    assert_eq!(daemon.device().granted_bytes, 200 * MIB, "only the bad one's grant is free");
    assert_eq!(answer(&good, slot(1), begin(&good, slot(1), 800)).state, STATE_BOUND);
    daemon.signal(Signal::SIGTERM);
    let (status, said) = daemon.end();
    assert!(status.success());
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(
        lines[0].starts_with("eagerd: client 2 (bad\u{fffd}[31m, pid ") && lines[0].contains(word),
        "{said}"
    );
}

#[test]
fn a_malformed_request_ends_only_its_client() {
    let begin = Request { sequence: 0, slot: slot(0), body: RequestBody::lazy_begin(1) };
    let mut malformed = encode(&begin);
    malformed.words[4] = 1 << 8;
    let misbehave = |client: &ClientConnection| {
        client.send_record(malformed).expect("room");
    };
    cuts_off(misbehave, "unknown flag bits 0x100");
}

#[test]
fn requests_that_make_no_sense_are_ignored_until_there_are_too_many() {
    let nonsense = |client: &ClientConnection| {
        for _ in 0..100 {
            let sequence = client.send(RequestBody::TaskEnd, slot(0)).expect("room");
            answer(client, slot(0), sequence);
        }
        client.send(RequestBody::Promoted, slot(0)).expect("room");
    };
    cuts_off(nonsense, "invalid requests");
}

#[test]
fn a_stranger_is_told_why_it_is_refused() {
    let daemon = Daemon::start(&["--clients-max", "1"]);
    let error = |hello: &Hello| {
        ClientConnection::connect(&daemon.socket(), hello, LONG).expect_err("refused").to_string()
    };
    let other = Hello { major: 7, ..Hello::new("other") };
    assert_eq!(error(&other), "the daemon refused: the program speaks protocol 7.1, this daemon 1.1");
    assert!(error(&Hello { magic: 1, ..other }).contains("magic"));
    let _first = daemon.connect("first");
    assert_eq!(error(&Hello::new("second")), "the daemon refused: the daemon serves its limit of 1 clients");
}

#[test]
fn a_packet_that_is_no_hello_and_one_that_never_comes_disturb_nobody() {
    let daemon = Daemon::start(&[]);
    let silent = connect_seqpacket(&daemon.socket(), LONG).expect("connect");
    let noisy = connect_seqpacket(&daemon.socket(), LONG).expect("connect");
    send(noisy.as_raw_fd(), &[0xff; 500], MsgFlags::empty()).expect("send");
    let client = daemon.connect("good");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 10)).state, STATE_BOUND);
    drop(silent);
}

#[test]
fn a_second_daemon_gives_up_and_the_first_goes_on() {
    let daemon = Daemon::start(&[]);
    let second = command(daemon.dir.path()).output().expect("run");
    assert_eq!(second.status.code(), Some(78));
    let said = String::from_utf8_lossy(&second.stderr);
    let pid = format!("(pid {})", daemon.child.id());
    assert!(said.lines().count() == 1 && said.contains("already") && said.contains(&pid), "{said}");
    let client = daemon.connect("still served");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 10)).state, STATE_BOUND);
    assert_eq!(daemon.tasks().len(), 1);
}

#[test]
fn a_killed_daemon_leaves_nothing_that_stops_the_next() {
    let mut daemon = Daemon::start(&[]);
    let client = daemon.connect("orphan");
    answer(&client, slot(0), begin(&client, slot(0), 10));
    daemon.signal(Signal::SIGKILL);
    daemon.child.wait().expect("wait");
    gone(&client);
    assert_eq!(client.send(RequestBody::TaskEnd, slot(0)), Err(SendError::DaemonGone));
    assert!(daemon.socket().exists(), "kill -9 leaves the socket");
    let dir = std::mem::replace(&mut daemon.dir, tempfile::tempdir().expect("folder"));
    let next = Daemon::start_in(dir, &[]);
    let client = next.connect("next");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 10)).state, STATE_BOUND);
}

#[test]
fn it_ends_cleanly_when_told() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut daemon = Daemon::start(&[]);
        let client = daemon.connect("running");
        daemon.signal(signal);
        let (status, said) = daemon.end();
        assert_eq!((status.code(), said.as_str()), (Some(0), ""));
        gone(&client);
        let mut left: Vec<_> = std::fs::read_dir(daemon.run_dir())
            .expect("run directory")
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["eagerd.lock", "eagerd.state"]);
    }
}

#[test]
fn it_ends_when_the_administrator_says_so() {
    let mut daemon = Daemon::start(&[]);
    daemon.act(&eager_proto::admin::AdminRequest::Shutdown { force: false, when_idle: false });
    assert!(daemon.end().0.success());
    assert!(!daemon.socket().exists());
}

#[test]
fn a_bad_configuration_is_one_line_with_the_place_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("folder");
    let config = dir.path().join("eagerd.toml");
    std::fs::write(&config, "policy = \"case\"\nno_such_key = 1\n").expect("config");
    let output = command(dir.path()).arg("--config").arg(&config).output().expect("run");
    assert_eq!(output.status.code(), Some(78));
    let said = String::from_utf8_lossy(&output.stderr);
    let start = format!("eagerd: {}:2:1: there is no setting `no_such_key`", config.display());
    assert!(said.starts_with(&start) && said.lines().count() == 1, "{said}");
    assert!(!dir.path().join("run").exists(), "the run directory was made");
}

/// The largest file that the daemon may write is 10 KiB: more than a shared page, less than this journal.
#[test]
fn a_disk_that_fills_up_costs_no_program_its_device() {
    let dir = tempfile::tempdir().expect("folder");
    let journal = dir.path().join("journal.jsonl");
    let plain = command(dir.path());
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -f 20; exec \"$@\"", "sh"])
        .arg(plain.get_program())
        .args(plain.get_args())
        .arg("--journal")
        .arg(&journal);
    let mut daemon = Daemon::spawn(dir, limited, "1 file device, policy ");
    let client = daemon.connect("worker");
    for _ in 0..40 {
        answer(&client, slot(0), begin(&client, slot(0), 10));
        answer(&client, slot(0), client.send(RequestBody::TaskEnd, slot(0)).expect("send"));
    }
    let written = std::fs::metadata(&journal).expect("journal").len();
    assert!(written <= 20 * 512, "the limit does not hold: {written} bytes");
    daemon.signal(Signal::SIGTERM);
    let (status, said) = daemon.end();
    assert!(status.success());
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "one for each file: {said}");
    assert!(lines[0].starts_with("eagerd: the journal cannot be written"), "{said}");
    assert!(lines[1].starts_with("eagerd: the state file cannot be written"), "{said}");
}

/// Pages cannot be allocated: the daemon may make no file of their size, as on a machine whose memory is full.
#[test]
fn a_daemon_without_memory_for_pages_says_so_and_serves_whom_it_has() {
    let dir = tempfile::tempdir().expect("folder");
    let plain = command(dir.path());
    let mut limited = Command::new("sh");
    // In blocks of 512 bytes; the state file, which is smaller than the pages, can still be written.
    limited.args(["-c", "ulimit -S -f 4; exec \"$@\"", "sh"]).arg(plain.get_program()).args(plain.get_args());
    let daemon = Daemon::spawn(dir, limited, "1 file device, policy ");
    // The daemon prints its ready line a moment before it has opened everything.
    daemon.until(|_| true);
    let descriptors = daemon.descriptors();
    let refused = ClientConnection::connect(&daemon.socket(), &Hello::new("unlucky"), LONG);
    let said = refused.expect_err("no pages").to_string();
    assert_eq!(said, "the daemon refused: the daemon could not make the shared pages");
    daemon.gives_back(descriptors);
    let endless = rustix::process::Rlimit { current: None, maximum: None };
    let pid = rustix::process::Pid::from_raw(daemon.child.id() as i32).expect("a pid");
    rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, endless).expect("more again");
    let client = daemon.connect("lucky");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 10)).state, STATE_BOUND);
}

#[test]
fn what_was_asked_of_a_stopped_daemon_is_answered_once_when_it_goes_on() {
    let daemon = Daemon::start(&[]);
    let client = daemon.connect("patient");
    answer(&client, slot(0), begin(&client, slot(0), 100));
    daemon.signal(Signal::SIGSTOP);
    let end = client.send(RequestBody::TaskEnd, slot(0)).expect("send");
    let asked = begin(&client, slot(1), 1000);
    let soon = Instant::now() + std::time::Duration::from_millis(50);
    let before = client.cell(slot(1)).expect("a whole cell");
    assert_eq!(client.wait_cell(slot(1), before.sequence, soon), Wait::TimedOut, "nobody answers");
    daemon.signal(Signal::SIGCONT);
    answer(&client, slot(0), end);
    assert_eq!(answer(&client, slot(1), asked).state, STATE_BOUND);
    assert_eq!((daemon.device().granted_bytes, daemon.tasks().len()), (1000 * MIB, 1));
}
