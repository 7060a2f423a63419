//! Contexts of programs that hold no memory: in the ledger from the grant on, whatever happens to the daemon and its
//! policy.

use crate::support::{Daemon, Hostile, MIB, answer, begin, command, slot, take_dir, wait_until};
use crate::watchdog::strike;
use eager_proto::admin::AdminRequest;
use eager_proto::reply::{STATE_BOUND, STATE_REFUSED, STATE_WAITING, TaskCell};
use eager_proto::request::RequestBody;
use eager_shm::client::ClientConnection;
use nix::sys::signal::Signal;
use tempfile::TempDir;

const CONTEXT: u64 = 100 * MIB;

/// Starts a daemon on a device of 1 GiB, where a context takes 100 MiB, with further settings.
fn start_in(dir: TempDir, settings: &str, fault: Option<&str>) -> Daemon {
    let file = dir.path().join("eagerd.toml");
    let text = format!("observe-ms = 0\nwatchdog = 1\n{settings}\n[options]\ncontext_bytes = {CONTEXT}\n");
    std::fs::write(&file, text).expect("settings");
    let mut command = command(dir.path());
    command.arg("--config").arg(file);
    if let Some(fault) = fault {
        command.env("EAGERD_FAULTY_POLICY", fault);
    }
    Daemon::spawn(dir, command, "1 file device, policy ")
}

fn start(settings: &str) -> Daemon {
    start_in(tempfile::tempdir().expect("folder"), settings, None)
}

fn asks_for_a_context(client: &ClientConnection) -> u32 {
    client.send(RequestBody::lazy_begin(0), slot(9)).expect("send")
}

fn has_context(client: &ClientConnection, asked: u32) {
    assert_eq!(answer(client, slot(9), asked).state, STATE_BOUND);
    let end = client.send(RequestBody::TaskEnd, slot(9)).expect("send");
    answer(client, slot(9), end);
}

fn waits(cell: &TaskCell) -> bool {
    cell.state == STATE_WAITING
}

#[test]
fn a_context_is_kept_over_a_restart_and_goes_with_its_program() {
    let mut daemon = start("");
    let client = daemon.connect("empty");
    has_context(&client, asks_for_a_context(&client));
    assert_eq!((daemon.device().context_bytes, daemon.device().granted_bytes), (CONTEXT, 0));
    // The slot is used again, and the second request costs nothing more.
    has_context(&client, asks_for_a_context(&client));
    for _ in 0..2 {
        daemon.signal(Signal::SIGKILL);
        daemon.child.wait().expect("wait");
        daemon = start_in(take_dir(&mut daemon), "", None);
        assert_eq!(daemon.device().context_bytes, CONTEXT, "before anybody came back");
    }
    let full = Hostile::start(&daemon, &["--hold", "824"]);
    daemon.until(|row| row.running == 1);
    assert_eq!(daemon.device().granted_bytes, 824 * MIB, "all that the two contexts leave");
    drop(full);
    drop(client);
}

#[test]
fn a_context_is_kept_when_another_policy_takes_over() {
    for fault in ["panics", "nonsense", "loops"] {
        let daemon = start_in(tempfile::tempdir().expect("folder"), "policy = \"eager-opt\"", Some(fault));
        let (empty, other) = (daemon.connect("empty"), daemon.connect("other"));
        has_context(&empty, asks_for_a_context(&empty));
        assert_eq!(strike(&other).state, STATE_BOUND);
        assert_ne!(daemon.row().policy_state, "as asked for", "{fault}");
        assert_eq!(daemon.device().context_bytes, 2 * CONTEXT, "{fault}");
    }
}

#[test]
fn a_program_that_may_have_no_context_yet_waits_and_is_told_why() {
    let daemon = start("");
    let (first, second) = (daemon.connect("first"), daemon.connect("second"));
    has_context(&first, asks_for_a_context(&first));
    let asked = asks_for_a_context(&second);
    wait_until(&second, slot(9), waits);
    let task = daemon.tasks()[0].task;
    let said = daemon.explains(&AdminRequest::Explain { task }).join("\n");
    assert!(said.contains("at most 128 MiB of GPU 0 for uid"), "{said}");
    // No other client waits behind this request.
    let third = daemon.connect("third");
    assert_eq!(answer(&third, slot(0), begin(&third, slot(0), 100)).state, STATE_BOUND);
    assert!(waits(&second.cell(slot(9)).expect("a whole cell")));
    answer(&first, slot(0), begin(&first, slot(0), 50));
    has_context(&second, asked);
    assert_eq!(daemon.device().context_bytes, 3 * CONTEXT);
}

#[test]
fn what_a_user_may_have_counts_contexts() {
    let daemon = start("memory-per-user = \"300MiB\"\npolicy = \"case\"");
    let [first, second, third] = ["first", "second", "third"].map(|label| daemon.connect(label));
    let refused = answer(&first, slot(0), begin(&first, slot(0), 201));
    assert_eq!(refused.state, STATE_REFUSED, "with its context it is more than the user may have");
    assert_eq!(answer(&first, slot(1), begin(&first, slot(1), 50)).state, STATE_BOUND);
    assert_eq!(answer(&second, slot(1), begin(&second, slot(1), 50)).state, STATE_BOUND);
    let asked = asks_for_a_context(&third);
    let asked_memory = begin(&first, slot(2), 1);
    for (client, slot) in [(&third, slot(9)), (&first, slot(2))] {
        wait_until(client, slot, waits);
    }
    assert!(daemon.tasks().iter().filter(|task| task.reason.contains("have 300 MiB")).count() == 2);
    drop(second);
    assert_eq!(answer(&first, slot(2), asked_memory).state, STATE_BOUND, "149 MiB, and its context is there");
    has_context(&third, asked);
}
