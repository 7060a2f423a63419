//! What people ask for on the admin socket: it holds, it survives, and only those get it who may.

use crate::support::{Daemon, LONG, answer, begin, command, restarted, slot, wait_until};
use eager_proto::admin::AdminRequest;
use eager_proto::reply::{STATE_BOUND, STATE_WAITING};
use eager_shm::client::ClientConnection;

fn bind(client: &ClientConnection, index: usize, mib: u64) {
    assert_eq!(answer(client, slot(index), begin(client, slot(index), mib)).state, STATE_BOUND);
}

#[test]
fn a_drained_device_takes_nothing_new_until_it_is_undrained_also_over_a_restart() {
    let daemon = Daemon::start(&["--policy", "eager-opt"]);
    let (runs, waits) = (daemon.connect("runs"), daemon.connect("waits"));
    bind(&runs, 0, 100);
    let said = daemon.act(&AdminRequest::Drain { device: 0 });
    assert_eq!(said, "GPU 0 is drained: nothing new starts there, and what runs there goes on");
    assert!(daemon.act(&AdminRequest::Drain { device: 0 }).contains("drained already"));
    let asked = begin(&waits, slot(0), 100);
    wait_until(&waits, slot(0), |cell| cell.state == STATE_WAITING);
    assert_eq!(daemon.tasks()[1].reason, "waits: GPU 0 is drained, and nothing new starts there");
    assert_eq!((daemon.tasks()[0].state.as_str(), daemon.device().drained_ms.is_some()), ("running", true));

    let daemon = restarted(daemon, &["--policy", "eager-opt"]);
    runs.resume(LONG).expect("the same client");
    waits.resume(LONG).expect("the same client");
    wait_until(&waits, slot(0), |cell| cell.state == STATE_WAITING);
    assert_eq!(daemon.device().normal_tasks, 1, "what ran there goes on");
    let newcomer = daemon.connect("newcomer");
    let also_asked = begin(&newcomer, slot(0), 100);
    wait_until(&newcomer, slot(0), |cell| cell.state == STATE_WAITING);
    assert_eq!(daemon.act(&AdminRequest::Undrain { device: 0 }), "GPU 0 takes tasks again");
    assert_eq!(answer(&waits, slot(0), asked).state, STATE_BOUND);
    assert_eq!(answer(&newcomer, slot(0), also_asked).state, STATE_BOUND);
    assert_eq!(daemon.act(&AdminRequest::Undrain { device: 0 }), "GPU 0 takes tasks already");
    assert_eq!(daemon.device().drained_ms, None);

    let daemon = restarted(daemon, &["--policy", "eager-opt"]);
    assert_eq!(daemon.device().drained_ms, None, "it was undrained");
}

#[test]
fn a_policy_that_breaks_leaves_a_drained_device_drained() {
    let dir = tempfile::tempdir().expect("folder");
    let mut eagerd = command(dir.path());
    eagerd.env("EAGERD_FAULTY_POLICY", "panics");
    let daemon = Daemon::spawn(dir, eagerd, "1 file device, policy ");
    daemon.act(&AdminRequest::Drain { device: 0 });
    let client = daemon.connect("client");
    let body = eager_proto::request::RequestBody::TaskBegin {
        requirement: 1 << 20,
        site: 1,
        blocks: 0,
        threads_per_block: 0,
        flags: 0,
        function: "strike".into(),
    };
    client.send(body, slot(0)).expect("send");
    wait_until(&client, slot(0), |cell| cell.state == STATE_WAITING);
    assert!(daemon.row().policy_state.starts_with("reverted"), "{:?}", daemon.row());
    assert!(daemon.tasks()[0].reason.contains("GPU 0 is drained"), "{:?}", daemon.tasks());
}

#[test]
fn what_is_not_there_is_said_in_one_line() {
    let daemon = Daemon::start(&[]);
    let message = daemon.is_refused(&AdminRequest::Drain { device: 7 });
    assert_eq!(message, "there is no GPU 7: `eager info` lists them");
}
