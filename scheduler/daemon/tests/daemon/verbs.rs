//! Requests of people on the admin socket: they take effect, survive a restart, and are open only to users who may make
//! them.

use crate::support::{
    Daemon, Hostile, LONG, answer, begin, begin_whole, command, is_root, restarted, slot, wait_until,
};
use eager_proto::admin::{AdminReply, AdminRequest};
use eager_proto::reply::{CLASS_NORMAL, CLASS_PROMOTED, STATE_BOUND, STATE_REFUSED, STATE_WAITING};
use eager_proto::request::{BeginFlags, RequestBody};
use eager_shm::client::ClientConnection;
use nix::sys::signal::Signal;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

const ALICE: u32 = 61_001;
const BOB: u32 = 61_002;

fn bind(client: &ClientConnection, index: usize, mib: u64) {
    assert_eq!(answer(client, slot(index), begin(client, slot(index), mib)).state, STATE_BOUND);
}

#[test]
fn a_drained_device_takes_nothing_new_until_it_is_undrained_also_over_a_restart() {
    let daemon = Daemon::start(&["--policy", "eager-opt"]);
    let (runs, waits) = (daemon.connect("runs"), daemon.connect("waits"));
    bind(&runs, 0, 100);
    let said = daemon.act(&AdminRequest::Drain { device: 0 });
    assert_eq!(said, "GPU 0 is drained: no new task starts there, and running tasks go on");
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
    let body = RequestBody::TaskBegin {
        requirement: 1 << 20,
        site: 1,
        blocks: 0,
        threads_per_block: 0,
        flags: BeginFlags::NONE,
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
    let no_device = "there is no GPU 7: `eager info` lists all GPUs";
    let no_task = "there is no task 9: `eager ps` lists all tasks";
    for (request, message) in [
        (AdminRequest::Drain { device: 7 }, no_device),
        (AdminRequest::Undrain { device: 7 }, no_device),
        (AdminRequest::ExplainDevice { device: 7 }, no_device),
        (AdminRequest::Explain { task: 9 }, no_task),
        (AdminRequest::Hold { task: 9 }, no_task),
        (AdminRequest::Release { task: 9 }, no_task),
        (AdminRequest::Cancel { task: 9, signal: "SIGTERM".into(), ends_waiting: false }, no_task),
    ] {
        assert_eq!(daemon.is_refused(&request), message, "{request:?}");
    }
    let unknown = daemon.is_refused(&AdminRequest::SetPolicy { policy: "fastest".into() });
    assert!(unknown.starts_with("unknown policy `fastest`: known are case, "), "{unknown}");
    let endless = daemon.is_refused(&AdminRequest::SetPolicy { policy: "infinite".into() });
    assert!(endless.contains("for simulation only"), "{endless}");
}

#[test]
fn a_held_task_lets_others_pass_until_it_is_released_also_over_a_restart() {
    let daemon = Daemon::start(&[]);
    let (first, second) = (daemon.connect("first"), daemon.connect("second"));
    bind(&first, 0, 900);
    let asked = begin_whole(&second, slot(2), 500);
    wait_until(&second, slot(2), |cell| cell.state == STATE_WAITING);
    let task = daemon.queue()[0].task;
    assert_eq!(
        daemon.act(&AdminRequest::Hold { task }),
        format!("task {task} is held: it does not start before `eager release {task}`")
    );
    assert!(daemon.act(&AdminRequest::Hold { task }).contains("held already"));
    let bound = daemon.tasks()[0].task;
    let refused = daemon.is_refused(&AdminRequest::Hold { task: bound });
    assert_eq!(refused, format!("task {bound} runs already: only a waiting task can be held"));
    assert_eq!(
        daemon.is_refused(&AdminRequest::Release { task: bound }),
        format!("task {bound} is not held")
    );

    let daemon = restarted(daemon, &[]);
    first.resume(LONG).expect("the same client");
    second.resume(LONG).expect("the same client");
    first.send(RequestBody::TaskEnd, slot(0)).expect("send");
    let third = daemon.connect("third");
    bind(&third, 0, 400);
    let row = daemon.queue().remove(0);
    assert_eq!((row.place, row.held_by.is_some(), row.class.as_str()), (None, true, "normal"), "{row:?}");
    assert_eq!(second.cell(slot(2)).expect("a whole cell").state, STATE_WAITING);
    daemon.act(&AdminRequest::Release { task: row.task });
    assert_eq!(answer(&second, slot(2), asked).state, STATE_BOUND);
    // The hold does not carry over to the slot's next task.
    second.send(RequestBody::TaskEnd, slot(2)).expect("send");
    bind(&second, 2, 500);
}

/// Starts a program that takes 900 MiB or waits for them; returns before it has them.
fn hold(daemon: &Daemon) -> std::process::Child {
    std::process::Command::new(env!("CARGO_BIN_EXE_hostile-client"))
        .args(["--hold", "900", "--socket"])
        .arg(daemon.socket())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("a program")
}

#[test]
fn a_waiting_task_is_cancelled_by_a_refusal_and_a_running_one_by_a_signal() {
    let daemon = Daemon::start(&[]);
    let mut holder = hold(&daemon);
    daemon.until(|row| row.running == 1);
    let waits = daemon.connect("waits");
    let asked = begin_whole(&waits, slot(0), 500);
    wait_until(&waits, slot(0), |cell| cell.state == STATE_WAITING);
    let cancel =
        |task: u64, signal: &str| AdminRequest::Cancel { task, signal: signal.into(), ends_waiting: false };
    let task = daemon.queue()[0].task;
    assert!(daemon.act(&cancel(task, "SIGTERM")).starts_with(&format!("task {task} is refused")));
    assert_eq!(answer(&waits, slot(0), asked).state, STATE_REFUSED);

    let task = daemon.tasks()[0].task;
    let message = daemon.is_refused(&cancel(task, "SIGNAL"));
    assert_eq!(message, "`SIGNAL` is not a signal; use one such as SIGTERM");
    let said = daemon.act(&cancel(task, "SIGTERM"));
    assert_eq!(said, format!("SIGTERM was sent to pid {}, the program of task {task}", holder.id()));
    assert_eq!(holder.wait().expect("its end").signal(), Some(Signal::SIGTERM as i32));
    daemon.until(|row| row.running == 0);
}

#[test]
fn a_waiting_program_is_ended_by_a_signal_that_was_asked_for() {
    let daemon = Daemon::start(&[]);
    daemon.act(&AdminRequest::Drain { device: 0 });
    let mut waits = hold(&daemon);
    daemon.until(|row| row.waiting == 1);
    let task = daemon.queue()[0].task;
    let said = daemon.act(&AdminRequest::Cancel { task, signal: "SIGTERM".into(), ends_waiting: true });
    assert!(said.contains(&format!("SIGTERM was sent to pid {}", waits.id())), "{said}");
    assert_eq!(waits.wait().expect("its end").signal(), Some(Signal::SIGTERM as i32));
    daemon.until(|row| row.waiting == 0 && row.clients == 0);
}

#[test]
fn a_shutdown_names_what_runs_and_waits_for_it_or_not_as_asked() {
    let mut daemon = Daemon::start(&[]);
    let (runs, waits) = (daemon.connect("runs"), daemon.connect("waits"));
    bind(&runs, 0, 900);
    begin_whole(&waits, slot(0), 500);
    wait_until(&waits, slot(0), |cell| cell.state == STATE_WAITING);
    let refused = daemon.is_refused(&AdminRequest::Shutdown { force: false, when_idle: false });
    let named = format!(
        "running tasks: 1, waiting: 1: task 1 (runs, pid {0}), task 2 (waits, pid {0}).",
        std::process::id()
    );
    assert!(
        refused.starts_with(&named) && refused.contains("--when-idle") && refused.contains("--force"),
        "{refused}"
    );
    let said = daemon.act(&AdminRequest::Shutdown { force: false, when_idle: true });
    assert!(said.starts_with("the daemon ends when no task runs or waits any more"), "{said}");
    let end = runs.send(RequestBody::TaskEnd, slot(0)).expect("send");
    answer(&runs, slot(0), end);
    wait_until(&waits, slot(0), |cell| cell.state == STATE_BOUND);
    assert_eq!(daemon.row().running, 1, "it still serves");
    waits.send(RequestBody::TaskEnd, slot(0)).expect("send");
    assert!(daemon.end().0.success());

    let mut daemon = Daemon::start(&[]);
    let runs = daemon.connect("runs");
    bind(&runs, 0, 900);
    daemon.act(&AdminRequest::Shutdown { force: true, when_idle: false });
    assert!(daemon.end().0.success());
}

#[test]
fn another_policy_decides_and_nothing_that_runs_is_lost() {
    let dir = tempfile::tempdir().expect("folder");
    let journal = dir.path().join("journal.jsonl");
    let daemon = Daemon::start(&["--policy", "case", "--journal", journal.to_str().expect("a plain path")]);
    let (runs, waits) = (daemon.connect("runs"), daemon.connect("waits"));
    bind(&runs, 0, 900);
    let asked = begin(&waits, slot(0), 500);
    wait_until(&waits, slot(0), |cell| cell.state == STATE_WAITING);
    let set = |policy: &str| AdminRequest::SetPolicy { policy: policy.into() };
    assert_eq!(daemon.act(&set("eager-opt")), "eager-opt decides from now on, in place of case");
    assert_eq!(daemon.act(&set("eager-opt")), "eager-opt decides already");
    // The task that did not fit starts eagerly now, and is promoted when it fits.
    assert_eq!(answer(&waits, slot(0), asked).grant, 124 << 20);
    let row = daemon.policy();
    assert_eq!((row.policy.as_str(), row.configured.as_str(), row.eager), ("eager-opt", "case", true));
    daemon.act(&set("case"));
    runs.send(RequestBody::TaskEnd, slot(0)).expect("send");
    wait_until(&waits, slot(0), |cell| cell.class == CLASS_PROMOTED);
    let next = daemon.connect("next");
    bind(&next, 0, 500);
    assert_eq!(next.cell(slot(0)).expect("a whole cell").class, CLASS_NORMAL);
    let text = std::fs::read_to_string(&journal).expect("journal");
    let (header, lines) = text.split_once('\n').expect("a header");
    let lines = lines.lines().map(|line| serde_json::from_str(line).expect("a step"));
    let header = serde_json::from_str(header).expect("a header");
    eager_core::journal::replay(header, lines).expect("the same decisions, in one journal");
    let daemon = restarted(daemon, &["--policy", "case"]);
    assert_eq!(daemon.policy().policy, "case");
}

#[test]
fn a_task_and_a_device_are_explained() {
    let daemon = Daemon::start(&[]);
    let (runs, waits) = (daemon.connect("runs"), daemon.connect("waits"));
    bind(&runs, 0, 900);
    begin_whole(&waits, slot(0), 500);
    wait_until(&waits, slot(0), |cell| cell.state == STATE_WAITING);
    let row = daemon.queue().remove(0);
    assert_eq!((row.place, row.label.as_str(), row.class.as_str()), (Some(1), "waits", "normal"));
    let said = daemon.explains(&AdminRequest::Explain { task: row.task }).join(" ");
    for words in ["has waited for", "place 1 of 1", "GPU 0 lacks 376 MiB: 124 MiB of 500 MiB are free."] {
        assert!(said.contains(words), "{said}");
    }
    let AdminReply::Explained { devices, .. } = daemon.ask(&AdminRequest::Explain { task: row.task }) else {
        panic!("no explanation")
    };
    assert_eq!((devices[0].offer.as_str(), devices[0].missing_bytes), ("lacks", 376 << 20));
    let said = daemon.explains(&AdminRequest::ExplainDevice { device: 0 }).join(" ");
    assert!(said.contains("900 MiB granted to 1 task") && said.contains("(waits, uid "), "{said}");
}

/// Starts a daemon of root that others may use; none where the tests cannot be several users.
fn open_daemon() -> Option<Daemon> {
    if !is_root() {
        return None;
    }
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: needs python3, to ask as another user");
        return None;
    }
    let dir = tempfile::tempdir().expect("folder");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("open to others");
    let mut eagerd = command(dir.path());
    eagerd.args(["--deny-uids", "61003"]);
    Some(Daemon::spawn(dir, eagerd, "1 file device, policy "))
}

#[test]
fn others_look_at_everything_and_act_on_their_own() {
    let Some(daemon) = open_daemon() else { return };
    let mut of_alice = Hostile::start_as(&daemon, ALICE, &["--hold", "900"]);
    let task = daemon.tasks()[0].task;
    let cancel = AdminRequest::Cancel { task, signal: "SIGTERM".into(), ends_waiting: true };
    let looks = daemon.ask_as(BOB, &AdminRequest::Ps);
    assert!(matches!(looks, Some(AdminReply::Ps { tasks, .. }) if tasks.len() == 1));
    let refused = |request: &AdminRequest| match daemon.ask_as(BOB, request) {
        Some(AdminReply::Error { message }) => message,
        other => panic!("{request:?}: {other:?}"),
    };
    assert_eq!(
        refused(&cancel),
        format!(
            "task {task} belongs to uid {ALICE}: only that user, root and the daemon's own user may cancel it"
        )
    );
    for request in [
        AdminRequest::Shutdown { force: true, when_idle: false },
        AdminRequest::Drain { device: 0 },
        AdminRequest::Undrain { device: 0 },
        AdminRequest::SetPolicy { policy: "case".into() },
    ] {
        assert!(refused(&request).starts_with("only root and the daemon's own user may "), "{request:?}");
    }
    let unserved = daemon.ask_as(61_003, &AdminRequest::Ps);
    assert!(
        matches!(&unserved, Some(AdminReply::Error { message }) if message == "uid 61003 is not served here"),
        "{unserved:?}"
    );
    assert!(matches!(daemon.ask_as(ALICE, &cancel), Some(AdminReply::Done { .. })));
    assert_eq!(of_alice.end(), None, "a signal ended it");
    daemon.until(|row| row.running == 0);
}

/// A thousand silent connections to the admin socket from each of two users: they take their own users' places only,
/// and for some seconds only.
#[test]
fn connections_that_ask_nothing_end_and_keep_nobody_out() {
    let Some(daemon) = open_daemon() else { return };
    let admin = daemon.run_dir().join("admin.sock");
    // After an answer the daemon has opened everything it needs for itself.
    assert_eq!(daemon.row().clients, 0);
    let before = daemon.descriptors();
    let silent = [ALICE, ALICE + 1].map(|uid| Hostile::start_at_as(&admin, uid, &["--silent", "1000"]));
    assert!(silent.iter().all(|one| one.said.contains(&"1000 connections".to_owned())), "{silent:?}");
    let held = daemon.descriptors() - before;
    assert!((1..=520).contains(&held), "{held} of 2,000 connections are held");
    for _ in 0..100 {
        assert_eq!(daemon.row().clients, 0);
    }
    assert!(matches!(daemon.ask_as(BOB, &AdminRequest::Ps), Some(AdminReply::Ps { .. })), "a third user");
    assert!(matches!(daemon.ask_as(ALICE, &AdminRequest::Ps), Some(AdminReply::Ps { .. })), "one of them");
    // Each connection has five seconds for its request.
    daemon.gives_back(before);
    drop(silent);
}

/// A user who connects to the admin socket again and again is charged for it as for any other work.
#[test]
fn a_torrent_at_the_admin_socket_leaves_most_of_the_time() {
    let Some(daemon) = open_daemon() else { return };
    let (other, admin) = (daemon.connect("good"), daemon.run_dir().join("admin.sock"));
    let hostile = Hostile::start_at_as_until(&admin, ALICE, &["--torrent", "60000"], "flooding");
    let (ticks, begun) = (daemon.cpu_ticks(), Instant::now());
    let mut granted = 0;
    while begun.elapsed() < Duration::from_secs(2) {
        assert_eq!(answer(&other, slot(0), begin(&other, slot(0), 10)).state, STATE_BOUND);
        answer(&other, slot(0), other.send(RequestBody::TaskEnd, slot(0)).expect("send"));
        granted += 1;
        assert_eq!(daemon.row().clients, 1);
        std::thread::sleep(Duration::from_millis(20));
    }
    let share = (daemon.cpu_ticks() - ticks) as f64 / (100.0 * begun.elapsed().as_secs_f64());
    eprintln!("the daemon ran for {share:.2} of the time and granted {granted} tasks");
    assert!(share < 0.5, "a torrent keeps the daemon busy: {share:.2}");
    drop(hostile);
}
