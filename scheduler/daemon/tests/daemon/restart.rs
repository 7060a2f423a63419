//! A daemon that is killed and started again: grants stay, and programs do not notice.

use crate::support::{
    Daemon, LONG, MIB, answer, begin, begin_whole, command, restarted, slot, take_dir, wait_until, wants,
};
use eager_proto::admin::{AdminReply, AdminRequest};
use eager_proto::hello::Hello;
use eager_proto::reply::{CLASS_EAGER, CLASS_NORMAL, CLASS_PROMOTED, STATE_BOUND, STATE_FREE, STATE_WAITING};
use eager_proto::request::RequestBody;
use eager_shm::client::{ClientConnection, ConnectError};
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::Instant;

#[test]
fn grants_stand_and_programs_go_on_after_a_restart() {
    let daemon = Daemon::start(&["--policy", "eager-opt"]);
    let (normal, eager) = (daemon.connect("normal"), daemon.connect("eager"));
    answer(&normal, slot(3), begin(&normal, slot(3), 700));
    answer(&eager, slot(0), begin(&eager, slot(0), 800));
    let before = eager.cell(slot(0)).expect("a whole cell");
    assert_eq!((before.class, before.grant), (CLASS_EAGER, 324 * MIB));

    let daemon = restarted(daemon, &["--policy", "eager-opt"]);
    assert_eq!(daemon.device().granted_bytes, 1024 * MIB, "before anybody came back");
    assert_eq!(daemon.row().unattached, 2);
    normal.resume(LONG).expect("the same client");
    eager.resume(LONG).expect("the same client");
    assert_eq!(daemon.row().unattached, 0);
    let after = eager.cell(slot(0)).expect("a whole cell");
    assert!(after.sequence > before.sequence, "the new cell is newer");
    assert_eq!((after.state, after.class, after.grant), (STATE_BOUND, CLASS_EAGER, 324 * MIB));

    let end = normal.send(RequestBody::TaskEnd, slot(3)).expect("send");
    assert_eq!(answer(&normal, slot(3), end).state, STATE_FREE);
    let promoted = wait_until(&eager, slot(0), |cell| cell.class == CLASS_PROMOTED);
    assert_eq!(promoted.grant, 800 * MIB);
    drop(eager);
    drop(normal);
}

/// The administrator lets less of the device be granted than its programs hold.
#[test]
fn a_device_that_became_smaller_keeps_its_tasks_over_subscribed() {
    let daemon = Daemon::start(&["--policy", "eager-opt"]);
    let (holder, other) = (daemon.connect("holder"), daemon.connect("other"));
    answer(&holder, slot(0), begin(&holder, slot(0), 700));
    let daemon = restarted(daemon, &["--policy", "eager-opt", "--device-memory", "512MiB"]);
    holder.resume(LONG).expect("the same client");
    other.resume(LONG).expect("the same client");
    let cell = holder.cell(slot(0)).expect("a whole cell");
    assert_eq!((cell.state, cell.class, cell.grant), (STATE_BOUND, CLASS_EAGER, 512 * MIB));
    assert_eq!(daemon.device().granted_bytes, 512 * MIB);
    let asked = begin(&other, slot(0), 500);
    wait_until(&other, slot(0), |cell| cell.state == STATE_WAITING);
    let end = holder.send(RequestBody::TaskEnd, slot(0)).expect("send");
    assert_eq!(answer(&holder, slot(0), end).state, STATE_FREE);
    let cell = answer(&other, slot(0), asked);
    assert_eq!((cell.state, cell.class, cell.grant), (STATE_BOUND, CLASS_NORMAL, 500 * MIB));
}

#[test]
fn a_request_without_an_answer_is_answered_once_by_the_next_daemon() {
    let daemon = Daemon::start(&[]);
    let (first, second) = (daemon.connect("first"), daemon.connect("second"));
    answer(&first, slot(0), begin(&first, slot(0), 700));
    let asked = begin_whole(&second, slot(0), 700);
    wait_until(&second, slot(0), |cell| cell.state == STATE_WAITING);
    let daemon = restarted(daemon, &[]);
    second.resume(LONG).expect("the same client");
    wait_until(&second, slot(0), |cell| cell.state == STATE_WAITING);
    first.resume(LONG).expect("the same client");
    first.send(RequestBody::TaskEnd, slot(0)).expect("send");
    assert_eq!(answer(&second, slot(0), asked).state, STATE_BOUND);
    assert_eq!((daemon.device().granted_bytes, daemon.tasks().len()), (700 * MIB, 1));
}

#[test]
fn one_who_ended_meanwhile_is_no_ghost() {
    let daemon = Daemon::start(&[]);
    let mut holder = crate::support::Hostile::start(&daemon, &["--hold", "700"]);
    let stays = daemon.connect("stays");
    answer(&stays, slot(0), begin(&stays, slot(0), 100));
    let mut daemon = daemon;
    daemon.signal(Signal::SIGKILL);
    daemon.child.wait().expect("wait");
    holder.end();
    let daemon = Daemon::start_in(take_dir(&mut daemon), &[]);
    assert_eq!(daemon.device().granted_bytes, 100 * MIB);
    // A client that ends before it comes back is seen as well.
    let row = daemon.row();
    assert_eq!((row.clients, row.unattached), (1, 1));
}

#[test]
fn one_who_does_not_come_back_keeps_its_grant_until_it_ends() {
    let daemon = Daemon::start(&[]);
    let mut holder = crate::support::Hostile::start(&daemon, &["--hold", "700"]);
    let daemon = restarted(daemon, &[]);
    let next = daemon.connect("next");
    let asked = begin_whole(&next, slot(0), 700);
    wait_until(&next, slot(0), |cell| cell.state == STATE_WAITING);
    holder.end();
    assert_eq!(answer(&next, slot(0), asked).state, STATE_BOUND);
}

#[test]
fn a_program_that_the_state_file_does_not_know_is_refused() {
    let daemon = Daemon::start(&[]);
    let client = daemon.connect("forgotten");
    let mut daemon = daemon;
    daemon.signal(Signal::SIGKILL);
    daemon.child.wait().expect("wait");
    std::fs::remove_file(daemon.run_dir().join("eagerd.state")).expect("the state file");
    let daemon = Daemon::start_in(take_dir(&mut daemon), &[]);
    let refused = client.resume(LONG).expect_err("nobody knows it");
    assert!(matches!(refused, ConnectError::Refused { .. }), "{refused}");
    assert_eq!(daemon.row().clients, 0);
}

/// Restarts a daemon after `change` has damaged its state file; the daemon must log `said` and serve.
fn starts_with(change: impl Fn(&mut Vec<u8>), granted: u64, said: &str) {
    let daemon = Daemon::start(&[]);
    let client = daemon.connect("client");
    answer(&client, slot(0), begin(&client, slot(0), 100));
    let mut daemon = daemon;
    daemon.signal(Signal::SIGKILL);
    daemon.child.wait().expect("wait");
    let path = daemon.run_dir().join("eagerd.state");
    let mut bytes = std::fs::read(&path).expect("state");
    change(&mut bytes);
    std::fs::write(&path, &bytes).expect("state");
    let mut daemon = Daemon::start_in(take_dir(&mut daemon), &[]);
    assert_eq!(daemon.device().granted_bytes, granted);
    let other = daemon.connect("other");
    assert_eq!(answer(&other, slot(0), begin(&other, slot(0), 10)).state, STATE_BOUND);
    daemon.signal(Signal::SIGTERM);
    let (_, log) = daemon.end();
    assert!(log.contains(said), "{log}");
    // A file that was not fully understood is kept for a release that understands it.
    let aside = daemon.run_dir().join("eagerd.state.bad");
    let is_kept = std::fs::read(aside).is_ok_and(|kept| kept == bytes);
    assert_eq!(is_kept, !said.is_empty(), "{log}");
    assert_eq!(log.contains("it is kept as "), is_kept, "{log}");
}

#[test]
fn a_damaged_state_file_is_used_as_far_as_it_goes_and_said() {
    starts_with(|bytes| bytes.extend(b"{\"line\":\"gone\",\"cli"), 100 * MIB, "");
    starts_with(
        |bytes| bytes.extend(b"nonsense\n{\"line\":\"gone\",\"client\":1}\n"),
        100 * MIB,
        "is damaged: line ",
    );
    starts_with(|bytes| *bytes = b"garbage\n".to_vec(), 0, "is damaged: line 1");
    starts_with(|bytes| bytes.truncate(0), 0, "");
    starts_with(|bytes| *bytes = vec![0xff; 100_000], 0, "is damaged");
}

#[test]
fn a_state_file_of_a_newer_release_is_kept_and_said() {
    let newer = |bytes: &mut Vec<u8>| {
        let text = String::from_utf8(bytes.clone()).expect("text");
        *bytes = text.replacen("\"version\":1,", "\"version\":2,", 1).into_bytes();
    };
    starts_with(newer, 0, "is from another release (version 2, this one reads 1)");
}

/// Devices from a file have no identity. One that is taken out of the file while a program holds it is not served,
/// which is logged; when it is back, what the program holds is in the ledger again.
#[test]
fn a_device_that_is_taken_out_of_the_file_is_said_and_what_it_held_comes_back() {
    let start = |dir: tempfile::TempDir, count: usize| {
        let plain = command(dir.path());
        let device =
            r#"{"name": "test", "memory": "1GiB", "sms": 80, "warps-per-sm": 64, "blocks-per-sm": 32}"#;
        let devices = format!("[{}]", vec![device; count].join(","));
        std::fs::write(dir.path().join("devices.json"), devices).expect("devices");
        Daemon::spawn(dir, plain, &format!("{count} file device"))
    };
    let again = |mut daemon: Daemon, count: usize| {
        daemon.signal(Signal::SIGKILL);
        daemon.child.wait().expect("wait");
        start(take_dir(&mut daemon), count)
    };
    let daemon = start(tempfile::tempdir().expect("folder"), 2);
    let clients = [daemon.connect("first"), daemon.connect("second")];
    for client in &clients {
        assert_eq!(answer(client, slot(0), begin(client, slot(0), 700)).state, STATE_BOUND);
    }
    let granted = |daemon: &Daemon| {
        daemon.devices().iter().map(|device| device.granted_bytes / MIB).collect::<Vec<_>>()
    };
    let mut daemon = again(daemon, 1);
    assert_eq!(granted(&daemon), [700]);
    daemon.signal(Signal::SIGKILL);
    let (_, said) = daemon.end();
    let words = "task 2 goes on, but GPU 1 is not served any more: its memory there is not counted";
    assert!(said.lines().filter(|line| line.contains(words)).count() == 1, "{said}");
    let daemon = start(take_dir(&mut daemon), 2);
    assert_eq!(granted(&daemon), [700, 700]);
    clients.iter().for_each(|client| client.resume(LONG).expect("the same client"));
}

/// No file in place of the state file keeps a daemon from starting: it once waited without end for a pipe without a
/// writer.
#[test]
fn what_is_no_state_file_is_not_waited_for() {
    let dir = tempfile::tempdir().expect("folder");
    std::fs::create_dir(dir.path().join("run")).expect("folder");
    let made = std::process::Command::new("mkfifo").arg(dir.path().join("run/eagerd.state")).status();
    assert!(made.expect("mkfifo").success());
    let mut daemon = Daemon::start_in(dir, &[]);
    let client = daemon.connect("client");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 10)).state, STATE_BOUND);
    daemon.signal(Signal::SIGTERM);
    let (_, log) = daemon.end();
    assert!(log.contains("is not readable: it is not a regular file; it is kept as "), "{log}");
}

#[test]
fn a_disk_that_is_full_costs_the_promise_and_no_program_its_device() {
    let dir = tempfile::tempdir().expect("folder");
    let plain = command(dir.path());
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 17; exec \"$@\"", "sh"]).arg(plain.get_program()).args(plain.get_args());
    let mut daemon = Daemon::spawn(dir, limited, "1 file device, policy ");
    let clients: Vec<ClientConnection> = (0..30).map(|_| daemon.connect("client")).collect();
    for client in &clients {
        assert_eq!(answer(client, slot(0), begin(client, slot(0), 10)).state, STATE_BOUND);
    }
    assert!(!daemon.row().survives_restart);
    daemon.signal(Signal::SIGTERM);
    let (status, said) = daemon.end();
    assert!(status.success());
    assert_eq!(said.matches("the state file cannot be written").count(), 1, "{said}");
}

/// Counts up the point at which the daemon dies until it survives the story. At each point the next daemon must end the
/// story as if nothing had happened.
#[test]
fn a_daemon_killed_at_any_step_is_replaced_without_loss() {
    let mut point = 1u32;
    loop {
        let dir = tempfile::tempdir().expect("folder");
        let mut first = command(dir.path());
        first.env("EAGERD_DIE_AT", point.to_string());
        let (mut daemon, line) = Daemon::spawn_anyhow(dir, first);
        let started = !line.is_empty();
        if !started {
            daemon.child.wait().expect("wait");
            replace_dead(&mut daemon);
        }
        if story(&mut daemon) && started {
            break;
        }
        point += 1;
    }
    assert!(point > 20, "only {point} points");
    eprintln!("{} points", point - 1);
}

/// Runs begin, extend, a second task and end; true if the first daemon lived to the end.
fn story(daemon: &mut Daemon) -> bool {
    let mut survived = true;
    let client = loop {
        match ClientConnection::connect(&daemon.socket(), &Hello::new("story"), LONG) {
            Ok(client) => break client,
            Err(_) => {
                // The socket closes a moment before the process is gone.
                daemon.child.wait().expect("wait");
                survived &= !replace_dead(daemon);
            }
        }
    };
    let mut ask = |body: RequestBody, index: usize| {
        let sequence = loop {
            match client.send(body.clone(), slot(index)) {
                Ok(sequence) => break sequence,
                Err(_) => survived &= !come_back(daemon, &client),
            }
        };
        let deadline = Instant::now() + LONG;
        loop {
            let cell = client.cell(slot(index)).expect("a whole cell");
            if cell.answers(sequence) {
                return cell;
            }
            assert!(Instant::now() < deadline, "{body:?} is not answered: {cell:?}");
            if client.wait_cell(slot(index), cell.sequence, deadline) == eager_shm::client::Wait::DaemonGone {
                survived &= !come_back(daemon, &client);
            }
        }
    };
    assert_eq!(ask(wants(100), 0).grant, 100 * MIB);
    assert_eq!(ask(RequestBody::TaskExtend { bytes: 50 * MIB }, 0).grant, 150 * MIB);
    assert_eq!(ask(wants(200), 1).grant, 200 * MIB);
    assert_eq!(ask(RequestBody::TaskEnd, 0).state, STATE_FREE);
    assert_eq!(ask(RequestBody::TaskShrink { bytes: 20 * MIB }, 1).grant, 180 * MIB);
    let tasks = loop {
        match daemon.try_ask(&AdminRequest::Ps) {
            Ok(AdminReply::Ps { tasks, .. }) => break tasks,
            Ok(other) => panic!("{other:?}"),
            Err(_) => survived &= !come_back(daemon, &client),
        }
    };
    let grants: Vec<u64> = tasks.iter().map(|task| task.grant_bytes).collect();
    assert_eq!(grants, [180 * MIB]);
    survived
}

/// Starts a new daemon if the old one has died; true if it had.
fn replace_dead(daemon: &mut Daemon) -> bool {
    if daemon.child.try_wait().expect("state").is_none() {
        return false;
    }
    *daemon = Daemon::start_in(take_dir(daemon), &[]);
    true
}

fn come_back(daemon: &mut Daemon, client: &ClientConnection) -> bool {
    // The socket closes a moment before the process is gone.
    daemon.child.wait().expect("wait");
    let replaced = replace_dead(daemon);
    client.resume(LONG).expect("the same client");
    replaced
}

#[test]
fn counters_go_on_in_the_new_pages() {
    let daemon = Daemon::start(&["--policy", "eager-opt"]);
    let (normal, eager) = (daemon.connect("normal"), daemon.connect("eager"));
    answer(&normal, slot(0), begin(&normal, slot(0), 700));
    assert_eq!(normal.add_launched(slot(0), 3), 3);
    let daemon = restarted(daemon, &["--policy", "eager-opt"]);
    normal.resume(LONG).expect("the same client");
    assert_eq!((normal.launched(slot(0)), normal.add_launched(slot(0), 1)), (3, 4));
    drop((eager, daemon));
}

#[test]
fn a_daemon_that_lives_is_not_left() {
    let daemon = Daemon::start(&[]);
    let client = daemon.connect("client");
    client.resume(LONG).expect("nothing to do");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 10)).state, STATE_BOUND);
    assert_eq!(daemon.row().clients, 1);
    assert!(Path::new(&daemon.socket()).exists());
}

/// Counts up the point at which the daemon dies, through the reading of changed settings.
#[test]
fn a_daemon_killed_while_it_reads_its_settings_again_loses_nothing() {
    let mut died_reloading = false;
    for point in 1.. {
        let dir = tempfile::tempdir().expect("folder");
        let file = dir.path().join("eagerd.toml");
        std::fs::write(&file, "").expect("settings");
        let mut first = command(dir.path());
        first.args(["--config"]).arg(&file).env("EAGERD_DIE_AT", point.to_string());
        let (mut daemon, line) = Daemon::spawn_anyhow(dir, first);
        if line.is_empty() {
            continue;
        }
        let Ok(client) = ClientConnection::connect(&daemon.socket(), &Hello::new("story"), LONG) else {
            continue;
        };
        let Ok(asked) = client.send(wants(100), slot(0)) else { continue };
        let cell = client.cell(slot(0)).expect("a whole cell");
        if client.wait_cell(slot(0), cell.sequence, Instant::now() + LONG)
            == eager_shm::client::Wait::DaemonGone
        {
            continue;
        }
        std::fs::write(&file, "memory-per-user = \"500MiB\"").expect("settings");
        daemon.signal(Signal::SIGHUP);
        let survived = daemon.try_ask(&AdminRequest::Ps).is_ok();
        if !survived {
            died_reloading = true;
            come_back(&mut daemon, &client);
        }
        assert!(client.cell(slot(0)).expect("a whole cell").answers(asked));
        assert_eq!(daemon.device().granted_bytes, 100 * MIB, "point {point}");
        if survived {
            break;
        }
    }
    assert!(died_reloading);
}
