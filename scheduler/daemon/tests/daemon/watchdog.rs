//! A policy that breaks: `case` takes over, everybody can see it, and nothing is lost.

use crate::support::{Daemon, LONG, MIB, answer, begin, command, slot};
use eager_core::policy::faulty::STRIKES_AT;
use eager_proto::reply::{STATE_BOUND, TaskCell};
use eager_proto::request::RequestBody;
use eager_shm::client::{ClientConnection, Wait};
use std::time::Instant;

fn faulty(fault: &str) -> Daemon {
    let dir = tempfile::tempdir().expect("folder");
    let mut command = command(dir.path());
    command.args(["--policy", "eager-opt", "--watchdog", "1"]).env("EAGERD_FAULTY_POLICY", fault);
    Daemon::spawn(dir, command, "1 file device, policy eager-opt")
}

/// Sends the task on which the policy breaks; gives the request's sequence.
pub fn ask_to_break(client: &ClientConnection) -> u32 {
    let body = RequestBody::TaskBegin {
        requirement: 300 * MIB,
        site: 1,
        blocks: 0,
        threads_per_block: 0,
        flags: 0,
        function: STRIKES_AT.into(),
    };
    client.send(body, slot(1)).expect("send")
}

/// Asks with the task on which the policy breaks, and goes on with another daemon if there is one.
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

/// Two programs hold memory; the policy breaks on a third task; all three have theirs.
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
    is_replaced("nonsense", "proposed what the ledger does not allow");
}

#[test]
fn a_policy_that_starves_is_replaced_and_nothing_is_lost() {
    is_replaced("starves", "although it fits");
}

#[test]
fn a_policy_that_loops_is_replaced_and_nothing_is_lost() {
    is_replaced("loops", "did not come to a decision");
}
