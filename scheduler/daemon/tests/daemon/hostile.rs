//! The `hostile-client` against a real daemon: whatever it does, other clients are served and the ledger is right.

use crate::support::{Daemon, Hostile, MIB, answer, begin, begin_whole, slot, wait_until};
use eager_proto::admin::{AdminReply, AdminRequest};
use eager_proto::reply::{STATE_BOUND, STATE_WAITING};
use eager_proto::request::{BeginFlags, RequestBody};
use nix::sys::signal::Signal;
use std::time::Instant;

/// Checks that a good client gets and gives back the whole device.
fn serves_others(daemon: &Daemon) {
    let client = daemon.connect("good");
    let asked = begin(&client, slot(0), 1024);
    assert_eq!(answer(&client, slot(0), asked).state, STATE_BOUND);
    assert_eq!(daemon.device().granted_bytes, 1024 * MIB);
    answer(&client, slot(0), client.send(RequestBody::TaskEnd, slot(0)).expect("send"));
    assert_eq!(daemon.device().granted_bytes, 0);
}

/// Waits until only `clients` are connected and nothing is granted.
fn settles(daemon: &Daemon, clients: u32) {
    daemon.until(|row| row.clients == clients);
    assert_eq!(daemon.device().granted_bytes, 0);
}

#[test]
fn a_client_killed_at_any_step_leaves_nothing() {
    let daemon = Daemon::start(&[]);
    serves_others(&daemon);
    let before = daemon.descriptors();
    let mut step = 0;
    loop {
        let mut client = Hostile::start(&daemon, &["--die-at", &step.to_string()]);
        if client.said.contains(&"ready".to_owned()) {
            break;
        }
        assert_eq!(client.end(), None, "step {step} ends by the signal");
        settles(&daemon, 0);
        step += 1;
    }
    assert!(step >= 13, "only {step} steps");
    settles(&daemon, 0);
    daemon.gives_back(before);
    serves_others(&daemon);
}

#[test]
fn a_client_killed_at_any_step_lets_the_next_one_run() {
    let daemon = Daemon::start(&[]);
    // Every step at which the client may hold something.
    for step in 5..13 {
        let mut client = Hostile::start(&daemon, &["--die-at", &step.to_string()]);
        let next = daemon.connect("next");
        let asked = begin(&next, slot(0), 1024);
        client.end();
        assert_eq!(answer(&next, slot(0), asked).state, STATE_BOUND, "after step {step}");
    }
}

#[test]
fn releasing_twice_or_what_is_not_ones_own_changes_nothing() {
    let daemon = Daemon::start(&[]);
    let other = daemon.connect("other");
    answer(&other, slot(0), begin(&other, slot(0), 200));
    let _hostile = Hostile::start(&daemon, &["--double-release"]);
    assert_eq!(daemon.device().granted_bytes, 200 * MIB);
}

#[test]
fn a_footprint_of_nothing_or_of_everything_is_answered() {
    let daemon = Daemon::start(&[]);
    let client = daemon.connect("odd");
    let ask = |bytes: u64, blocks: u64, threads_per_block: u64| {
        let body = RequestBody::TaskBegin {
            requirement: bytes,
            site: 0,
            blocks,
            threads_per_block,
            flags: BeginFlags::NONE,
            function: String::new(),
        };
        let state = answer(&client, slot(0), client.send(body, slot(0)).expect("send")).state;
        answer(&client, slot(0), client.send(RequestBody::TaskEnd, slot(0)).expect("send"));
        state == STATE_BOUND
    };
    assert!(ask(0, 0, 0) && ask(1, 1, 1));
    assert!(ask(1, u64::MAX, u64::MAX), "the product of a grid is not trusted to fit");
    for huge in [(1 << 30) + 1, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX] {
        assert!(!ask(huge, 1, 1), "{huge}");
    }
    assert_eq!(daemon.device().granted_bytes, 0);
}

#[test]
fn packets_that_are_none_end_their_connection_and_leave_no_descriptor() {
    let daemon = Daemon::start(&[]);
    serves_others(&daemon);
    let before = daemon.descriptors();
    for arguments in [
        &["--packet", "0"][..],
        &["--packet", "1"],
        &["--packet", "87"],
        &["--packet", "88"],
        &["--packet", "105"],
        &["--packet", "100000"],
        &["--version", "2"],
        &["--wrong-doorbell"],
        &["--descriptors", "1"],
        &["--descriptors", "100"],
        &["--ring-head", "65"],
        &["--ring-head", "4294967295"],
        &["--deaf"],
    ] {
        let mut hostile = Hostile::start(&daemon, arguments);
        assert_eq!(hostile.said.last().map(String::as_str), Some("ready"), "{arguments:?}");
        serves_others(&daemon);
        hostile.end();
        settles(&daemon, 0);
        daemon.gives_back(before);
    }
}

#[test]
fn a_page_that_changes_while_it_is_read_hurts_only_its_client() {
    let daemon = Daemon::start(&[]);
    let other = daemon.connect("other");
    answer(&other, slot(0), begin(&other, slot(0), 100));
    let mut hostile = Hostile::start(&daemon, &["--scribble", "1500"]);
    hostile.end();
    daemon.until(|row| row.clients == 1);
    assert_eq!(daemon.device().granted_bytes, 100 * MIB);
    answer(&other, slot(0), other.send(RequestBody::TaskEnd, slot(0)).expect("send"));
    serves_others(&daemon);
}

#[test]
fn pages_cannot_be_shrunk_grown_punched_or_forged() {
    let daemon = Daemon::start(&[]);
    let hostile = Hostile::start(&daemon, &["--reshape"]);
    let attempts: Vec<&String> = hostile.said.iter().filter(|line| line.contains(':')).collect();
    assert_eq!(attempts.len(), 7, "{:?}", hostile.said);
    assert!(attempts.iter().all(|line| line.ends_with(": refused")), "{attempts:?}");
    serves_others(&daemon);
}

#[test]
fn a_zombie_holds_nothing() {
    let daemon = Daemon::start(&[]);
    let hostile = Hostile::start(&daemon, &["--hold", "700"]);
    let next = daemon.connect("next");
    let asked = begin_whole(&next, slot(0), 700);
    wait_until(&next, slot(0), |cell| cell.state == STATE_WAITING);
    hostile.signal(Signal::SIGKILL);
    // The killed process is a zombie: its parent has not waited for it yet.
    assert_eq!(answer(&next, slot(0), asked).state, STATE_BOUND);
}

#[test]
fn a_stopped_client_keeps_its_grant_and_stands_in_nobodys_way() {
    stops_and_goes_on(&Daemon::start(&[]));
    stops_and_goes_on(&Daemon::start(&[]));
}

fn stops_and_goes_on(daemon: &Daemon) {
    let hostile = Hostile::start(daemon, &["--hold", "700"]);
    hostile.signal(Signal::SIGSTOP);
    let next = daemon.connect("next");
    assert_eq!(answer(&next, slot(0), begin(&next, slot(0), 324)).state, STATE_BOUND);
    assert_eq!(daemon.device().granted_bytes, 1024 * MIB);
    let states = || daemon.tasks().into_iter().map(|task| task.state).collect::<Vec<_>>();
    daemon.until(|_| states() == ["stopped", "running"]);
    hostile.signal(Signal::SIGCONT);
    daemon.until(|_| states() == ["running", "running"]);
}

#[test]
fn a_client_without_descriptors_is_told_and_leaves_nothing() {
    let daemon = Daemon::start(&[]);
    let starved = Hostile::start(&daemon, &["--starved"]);
    assert_eq!(starved.said.last().map(String::as_str), Some("ready"), "{:?}", starved.said);
    settles(&daemon, 0);
    serves_others(&daemon);
}

#[test]
fn connections_that_never_say_hello_are_few_and_cost_nobody() {
    let daemon = Daemon::start(&[]);
    // Fewer than the daemon keeps: with more, a newcomer waits for the deadline of the silent ones, which another test
    // covers.
    let _hostile = Hostile::start(&daemon, &["--silent", "50"]);
    serves_others(&daemon);
}

#[test]
fn a_user_has_a_limit_of_clients_and_is_told() {
    let daemon = Daemon::start(&["--clients-per-user", "10"]);
    let mut hostile = Hostile::start(&daemon, &["--crowd", "20"]);
    let uid = nix::unistd::Uid::effective();
    let refusal = format!("the daemon refused: uid {uid} has its limit of 10 clients");
    assert!(hostile.said.contains(&refusal), "{:?}", hostile.said);
    hostile.end();
    settles(&daemon, 0);
    serves_others(&daemon);
}

/// 64 descriptors in all: the crowd is refused with the reason, the daemon sleeps, and recovers when there is room
/// again.
#[test]
fn a_daemon_without_descriptors_says_so_and_recovers_alone() {
    let dir = tempfile::tempdir().expect("folder");
    let plain = crate::support::command(dir.path());
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 64; exec \"$@\"", "sh"]).arg(plain.get_program()).args(plain.get_args());
    let daemon = Daemon::spawn(dir, limited, "1 file device, policy ");
    let mut hostile = Hostile::start(&daemon, &["--crowd", "100"]);
    assert!(hostile.said.iter().any(|line| line.starts_with("the daemon refused: ")), "{:?}", hostile.said);
    let before = daemon.cpu_ticks();
    let start = Instant::now();
    // The test waits on purpose: it measures what a full daemon does meanwhile.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let share = (daemon.cpu_ticks() - before) as f64 / 100.0 / start.elapsed().as_secs_f64();
    assert!(share < 0.5, "a daemon without descriptors uses {share} of a processor");
    hostile.end();
    settles(&daemon, 0);
    serves_others(&daemon);
}

#[test]
fn a_flood_leaves_others_their_turn() {
    let daemon = Daemon::start(&[]);
    let mut hostile = Hostile::start_until(&daemon, &["--flood", "1500"], "flooding");
    let client = daemon.connect("good");
    for _ in 0..20 {
        assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 10)).state, STATE_BOUND);
        answer(&client, slot(0), client.send(RequestBody::TaskEnd, slot(0)).expect("send"));
    }
    hostile.end();
    drop(client);
    settles(&daemon, 0);
}

#[test]
fn a_flood_of_refusals_is_a_few_lines_in_the_log() {
    let mut daemon = Daemon::start(&[]);
    let mut hostile = Hostile::start(&daemon, &["--log-flood", "500"]);
    hostile.end();
    serves_others(&daemon);
    daemon.signal(Signal::SIGTERM);
    let (_, said) = daemon.end();
    assert!((1..=41).contains(&said.lines().count()), "{} lines", said.lines().count());
}

#[test]
fn nobody_is_taken_for_a_client_that_he_is_not() {
    let daemon = Daemon::start(&[]);
    let client = daemon.connect("first");
    answer(&client, slot(0), begin(&client, slot(0), 700));
    for number in [client.client(), 0, 99, u64::MAX] {
        let hostile = Hostile::start(&daemon, &["--impersonate", &number.to_string()]);
        let refusal = format!("this program is not the client {number} that was connected before");
        assert!(hostile.said.contains(&refusal), "{:?}", hostile.said);
    }
    assert_eq!(daemon.device().granted_bytes, 700 * MIB);
}

/// The hello of minor 0: no feature bits, and nothing behind it.
#[test]
fn a_client_of_the_last_minor_is_served() {
    let daemon = Daemon::start(&[]);
    let hello = eager_proto::hello::Hello { minor: 0, features: 0, ..eager_proto::hello::Hello::new("old") };
    let socket = daemon.socket();
    let client = eager_shm::client::ClientConnection::connect(&socket, &hello, crate::support::LONG);
    let client = client.expect("served");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 10)).state, STATE_BOUND);
    assert!(client.resume(crate::support::LONG).is_err(), "it was granted no such feature");
}

#[test]
fn signals_that_ask_for_nothing_change_nothing() {
    let mut daemon = Daemon::start(&[]);
    let client = daemon.connect("running");
    answer(&client, slot(0), begin(&client, slot(0), 10));
    (0..100).for_each(|_| daemon.signal(Signal::SIGHUP));
    assert!(matches!(daemon.ask(&AdminRequest::Ps), AdminReply::Ps { tasks, .. } if tasks.len() == 1));
    daemon.signal(Signal::SIGTERM);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end().0.code(), Some(0));
}

/// Compares what the kernel reports of the process, where the kernel has these means at all.
#[test]
fn the_daemon_gives_up_what_it_does_not_need() {
    let daemon = Daemon::start(&[]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).expect("status");
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let said = daemon.row().confinement;
    assert_eq!(field("NoNewPrivs:"), Some("1"), "{said}");
    assert_eq!(field("Seccomp:") == Some("2"), said.contains("seccomp"), "{said}");
    if !(said.contains("seccomp") && said.contains("landlock")) {
        eprintln!("SKIPPED: this kernel lacks a part: {said}");
    }
    serves_others(&daemon);
}
