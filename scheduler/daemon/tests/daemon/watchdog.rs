//! A policy that breaks: `case` takes over, every user can see it, and nothing is lost.

use crate::support::{Daemon, LONG, MIB, answer, begin, command, slot, wait_until, wants};
use eager_core::policy::faulty::STRIKES_AT;
use eager_proto::reply::{STATE_BOUND, STATE_WAITING, TaskCell};
use eager_proto::request::{BeginFlags, RequestBody};
use eager_shm::client::{ClientConnection, Wait};
use eager_units::Barred;
use std::time::{Duration, Instant};

fn faulty(fault: &str) -> Daemon {
    let dir = tempfile::tempdir().expect("folder");
    let mut command = command(dir.path());
    command.args(["--policy", "eager-opt", "--watchdog", "1"]).env("EAGERD_FAULTY_POLICY", fault);
    Daemon::spawn(dir, command, "1 file device, policy eager-opt")
}

/// Begins the task on which the policy breaks; returns the request's sequence.
pub fn ask_to_break(client: &ClientConnection) -> u32 {
    let body = RequestBody::TaskBegin {
        requirement: 300 * MIB,
        site: 1,
        blocks: 0,
        threads_per_block: 0,
        flags: BeginFlags::NONE,
        function: STRIKES_AT.into(),
    };
    client.send(body, slot(1)).expect("send")
}

/// Begins the task on which the policy breaks, and goes on with the restarted daemon if there is one.
pub fn strike(client: &ClientConnection) -> TaskCell {
    let sequence = ask_to_break(client);
    let deadline = Instant::now() + LONG;
    loop {
        let cell = client.cell(slot(1)).expect("a whole cell");
        if cell.answers(sequence) {
            return cell;
        }
        assert!(Instant::now() < deadline, "nobody decides: {cell:?}");
        if client.wait_cell(slot(1), cell.sequence, deadline) == Wait::DaemonGone {
            while client.resume(LONG).is_err() {
                assert!(Instant::now() < deadline, "nobody comes back");
                std::thread::yield_now();
            }
        }
    }
}

/// Checks that two programs hold memory, the policy breaks on a third task, and all three have theirs.
fn is_replaced(fault: &str, why: &str) {
    let daemon = faulty(fault);
    let (first, second) = (daemon.connect("first"), daemon.connect("second"));
    answer(&first, slot(0), begin(&first, slot(0), 100));
    answer(&second, slot(0), begin(&second, slot(0), 200));
    assert_eq!(daemon.row().policy_state, "as asked for");
    let pid = daemon.row().pid;

    let bound = strike(&first);
    assert_eq!((bound.state, bound.grant), (STATE_BOUND, 300 * MIB));
    let row = daemon.row();
    assert!(
        row.policy_state.starts_with("reverted: eager-opt ") && row.policy_state.contains(why),
        "{row:?}"
    );
    assert_eq!((row.policy.as_str(), row.pid), ("case", pid), "the same process decides");
    assert_eq!(daemon.device().granted_bytes, 600 * MIB);
    if second.daemon_gone() {
        second.resume(LONG).expect("the same client");
    }
    let ended = second.send(RequestBody::TaskEnd, slot(0)).expect("send");
    answer(&second, slot(0), ended);
    assert_eq!(daemon.device().granted_bytes, 400 * MIB);
    assert_eq!(daemon.tasks().len(), 2);
}

#[test]
fn a_policy_that_panics_is_replaced_and_nothing_is_lost() {
    is_replaced("panics", "panicked");
}

#[test]
fn a_policy_that_proposes_nonsense_is_replaced_and_nothing_is_lost() {
    is_replaced("nonsense", "proposed a grant that the ledger does not allow");
}

#[test]
fn a_policy_that_starves_is_replaced_and_nothing_is_lost() {
    is_replaced("starves", "although it fits");
}

/// One device is full, the other has room but the request bars it: that is no fault of the policy.
#[test]
fn what_a_request_itself_bars_does_not_replace_the_policy() {
    let dir = tempfile::tempdir().expect("folder");
    let mut command = command(dir.path());
    let device = r#"{"name": "test", "memory": "1GiB", "sms": 80, "warps-per-sm": 64, "blocks-per-sm": 32}"#;
    std::fs::write(dir.path().join("devices.json"), format!("[{device}, {device}]")).expect("devices");
    command.args(["--watchdog", "1"]);
    let daemon = Daemon::spawn(dir, command, "2 file devices, policy ");
    let client = daemon.connect("client");
    let bars = |mib: u64, devices: u64| match wants(mib) {
        RequestBody::TaskBegin { requirement, site, blocks, threads_per_block, function, .. } => {
            let flags = BeginFlags { barred: Barred(devices), ..BeginFlags::NONE };
            RequestBody::TaskBegin { requirement, site, blocks, threads_per_block, flags, function }
        }
        _ => unreachable!("a request to begin"),
    };
    let full = client.send(bars(1000, 0b10), slot(0)).expect("send");
    assert_eq!(answer(&client, slot(0), full).state, STATE_BOUND);
    let (eager, apart) = (daemon.connect("eager"), daemon.connect("apart"));
    let started = eager.send(bars(1000, 0b10), slot(0)).expect("send");
    assert_eq!(answer(&eager, slot(0), started).state, STATE_BOUND);
    apart.send(bars(600, 0b10), slot(0)).expect("send");
    wait_until(&apart, slot(0), |cell| cell.state == STATE_WAITING);
    // The watchdog looks four times a second, and only counts a wait of more than one second.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(daemon.row().policy_state, "as asked for");
    assert_eq!(apart.cell(slot(0)).expect("a whole cell").state, STATE_WAITING);
}

#[test]
fn a_policy_that_agrees_again_decides_again() {
    let daemon = faulty("starves");
    let client = daemon.connect("client");
    assert_eq!(strike(&client).state, STATE_BOUND);
    assert!(daemon.row().policy_state.starts_with("reverted: eager-opt "), "{:?}", daemon.row());
    for task in 1..=8 {
        let row = daemon.row();
        assert_eq!((row.policy.as_str(), row.policy_state.contains("reverted")), ("case", true), "{task}");
        answer(&client, slot(0), begin(&client, slot(0), 10));
        let ended = client.send(RequestBody::TaskEnd, slot(0)).expect("send");
        answer(&client, slot(0), ended);
    }
    let row = daemon.row();
    assert_eq!((row.policy.as_str(), row.policy_state.as_str()), ("eager-opt", "as asked for"));
    assert_eq!(daemon.device().granted_bytes, 300 * MIB, "who has something keeps it");
}

#[test]
fn a_policy_that_loops_is_replaced_and_nothing_is_lost() {
    is_replaced("loops", "made no decision");
}
