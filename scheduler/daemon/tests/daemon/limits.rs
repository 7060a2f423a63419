//! Limits per user, users that are not served, and settings read again while programs run.
//!
//! Trap: only root can be another user; where the tests do not run as root, those with two users are skipped, with a
//! message.

use crate::support::{Daemon, Hostile, MIB, answer, begin, begin_whole, command, is_root, slot, wait_until};
use eager_proto::admin::AdminRequest;
use eager_proto::reply::{STATE_BOUND, STATE_REFUSED, STATE_WAITING};
use eager_proto::request::RequestBody;
use eager_shm::client::ClientConnection;
use nix::sys::signal::Signal;
use std::os::unix::fs::PermissionsExt;

/// Two users without an account on this machine.
const ALICE: u32 = 61_001;
const BOB: u32 = 61_002;

/// Starts a daemon whose settings are in a file.
fn start(settings: &str) -> Daemon {
    let dir = tempfile::tempdir().expect("folder");
    let others = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path(), others).expect("a folder that others may enter");
    let file = dir.path().join("eagerd.toml");
    std::fs::write(&file, settings).expect("settings");
    let mut command = command(dir.path());
    command.args(["--config"]).arg(file);
    Daemon::spawn(dir, command, "1 file device, policy ")
}

fn reload(daemon: &Daemon, settings: &str) {
    std::fs::write(daemon.dir.path().join("eagerd.toml"), settings).expect("settings");
    daemon.signal(Signal::SIGHUP);
}

fn said(daemon: &mut Daemon) -> String {
    daemon.signal(Signal::SIGTERM);
    let (status, said) = daemon.end();
    assert_eq!(status.code(), Some(0), "{said}");
    said
}

fn end(client: &ClientConnection, index: usize) {
    let sequence = client.send(RequestBody::TaskEnd, slot(index)).expect("send");
    answer(client, slot(index), sequence);
}

#[test]
fn a_user_waits_for_his_own_memory_and_is_refused_what_he_may_never_have() {
    let daemon = start("memory-per-user = \"300MiB\"\nwaiting-per-user = 1\n");
    let client = daemon.connect("client");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 301)).state, STATE_REFUSED);
    assert_eq!(answer(&client, slot(1), begin(&client, slot(1), 200)).state, STATE_BOUND);
    let waits = begin_whole(&client, slot(2), 200);
    wait_until(&client, slot(2), |cell| cell.state == STATE_WAITING);
    assert!(daemon.tasks().iter().any(|task| task.reason.starts_with("waits: the tasks of uid ")));
    assert_eq!(answer(&client, slot(3), begin(&client, slot(3), 1)).state, STATE_REFUSED);
    end(&client, 1);
    assert_eq!(answer(&client, slot(2), waits).state, STATE_BOUND);
}

#[test]
fn limits_of_one_user_are_not_anothers() {
    if !is_root() {
        return;
    }
    let daemon = start("memory-per-user = \"300MiB\"\n");
    let alice = Hostile::start_as(&daemon, ALICE, &["--hold", "300"]);
    let bob = Hostile::start_as(&daemon, BOB, &["--hold", "300"]);
    daemon.until(|row| row.running == 2);
    let mut uids: Vec<u32> = daemon.tasks().iter().map(|task| task.uid).collect();
    uids.sort_unstable();
    assert_eq!(uids, [ALICE, BOB]);
    drop((alice, bob));
}

#[test]
fn a_user_who_is_not_served_is_told_and_holds_nothing() {
    if !is_root() {
        return;
    }
    let mut daemon = start(&format!("deny-uids = [{ALICE}]\n"));
    // The state file is opened with the first client.
    let _first = daemon.connect("first");
    daemon.until(|row| row.clients == 1);
    let before = daemon.descriptors();
    let denied = Hostile::start_as(&daemon, ALICE, &["--hold", "10"]);
    assert!(denied.said.iter().all(|line| line != "ready"), "{:?}", denied.said);
    let served = Hostile::start_as(&daemon, BOB, &["--hold", "10"]);
    daemon.until(|row| row.running == 1);
    assert_eq!(daemon.tasks()[0].uid, BOB);
    drop((denied, served));
    daemon.gives_back(before);
    assert!(said(&mut daemon).contains(&format!("uid {ALICE} is not served here")));
}

#[test]
fn settings_read_again_hold_at_once_and_lose_nobody() {
    let mut daemon = start("memory-per-user = \"100MiB\"\n");
    let client = daemon.connect("client");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 100)).state, STATE_BOUND);
    let waits = begin_whole(&client, slot(1), 100);
    wait_until(&client, slot(1), |cell| cell.state == STATE_WAITING);
    reload(&daemon, "memory-per-user = \"200MiB\"\npolicy = \"case\"\nclients-per-user = 1\n");
    assert_eq!(answer(&client, slot(1), waits).state, STATE_BOUND);
    let hello = eager_proto::hello::Hello::new("second");
    let refused = ClientConnection::connect(&daemon.socket(), &hello, crate::support::LONG);
    assert!(refused.expect_err("one client each").to_string().contains("has its limit of 1 clients"));
    assert_eq!(daemon.device().granted_bytes, 200 * MIB);
    // One line on the settings, and one on the policy.
    assert_eq!(said(&mut daemon).lines().filter(|line| !line.contains("refused")).count(), 2);
}

#[test]
fn settings_with_an_error_change_nothing_and_are_said_in_one_line() {
    let mut daemon = start("memory-per-user = \"100MiB\"\n");
    let client = daemon.connect("client");
    answer(&client, slot(0), begin(&client, slot(0), 100));
    reload(&daemon, "memory-per-user = \"200MiB\"\nclients-max = many\n");
    // This request is answered after the signal was handled.
    daemon.until(|_| true);
    begin(&client, slot(1), 100);
    let cell = wait_until(&client, slot(1), |cell| cell.state != 0);
    assert_eq!(cell.state, STATE_WAITING, "the old limit holds");
    let said = said(&mut daemon);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 1 && lines[0].contains("the settings stay as they are: "), "{said}");
    assert!(lines[0].contains("eagerd.toml:2:15: "), "{said}");
}

#[test]
fn another_policy_of_the_file_decides_at_once_and_one_set_by_hand_stays_till_then() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("eagerd.toml");
    std::fs::write(&file, "policy = \"case\"\n").expect("settings");
    let mut command = command(dir.path());
    command.arg("--config").arg(file);
    let mut daemon = Daemon::spawn(dir, command, "1 file device, policy ");
    let client = daemon.connect("client");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 700)).state, STATE_BOUND);
    let waits = begin(&client, slot(1), 700);
    wait_until(&client, slot(1), |cell| cell.state == STATE_WAITING);
    reload(&daemon, "policy = \"eager\"\n");
    // The new policy starts it over-subscribed.
    assert_eq!(answer(&client, slot(1), waits).state, STATE_BOUND);
    let policy = daemon.policy();
    assert_eq!((policy.policy.as_str(), policy.configured.as_str()), ("eager", "eager"));
    assert_eq!(daemon.device().granted_bytes, 1024 * MIB);

    daemon.act(&AdminRequest::SetPolicy { policy: "sa".into() });
    reload(&daemon, "policy = \"eager\"\nclients-max = 9\n");
    daemon.until(|_| true);
    assert_eq!(daemon.policy().policy, "sa");
    for (wrong, words) in [("fastest", "`fastest` is not one of"), ("infinite", "for simulation only")] {
        reload(&daemon, &format!("policy = \"{wrong}\"\n"));
        daemon.until(|_| true);
        assert_eq!(daemon.policy().policy, "sa", "{words}");
    }
    reload(&daemon, "policy = \"case\"\n");
    daemon.until(|_| true);
    assert_eq!((daemon.policy().policy, daemon.policy().configured), ("case".into(), "case".into()));
    let said = said(&mut daemon);
    assert!(
        said.contains("eagerd.toml:1:10: `fastest` is not one of case, ")
            && said.contains("for simulation only"),
        "{said}"
    );
}

#[test]
fn what_takes_a_restart_is_named() {
    let mut daemon = start("watchdog = 10\n");
    reload(&daemon, "watchdog = 20\n[options]\ncircle_ns = 1\n");
    daemon.until(|_| true);
    let said = said(&mut daemon);
    assert!(said.contains("changed, but applied only after a restart: watchdog, options"), "{said}");
}

#[test]
fn a_storm_of_reloads_loses_no_request() {
    let mut daemon = start("memory-per-user = \"800MiB\"\n");
    let client = daemon.connect("client");
    for round in 0..100 {
        let limit = 700 + round % 2;
        reload(&daemon, &format!("memory-per-user = \"{limit}MiB\"\n"));
        assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 600)).state, STATE_BOUND);
        end(&client, 0);
    }
    assert_eq!(daemon.device().granted_bytes, 0);
    daemon.signal(Signal::SIGTERM);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end().0.code(), Some(0));
}

#[test]
fn a_task_that_overstays_is_said_once_and_shown() {
    let mut daemon = start("task-seconds-max = 1\n");
    let client = daemon.connect("stays");
    answer(&client, slot(0), begin(&client, slot(0), 100));
    assert!(!daemon.tasks()[0].overstays);
    daemon.until(|row| row.overstays == 1);
    assert!(daemon.tasks()[0].overstays);
    assert_eq!(daemon.device().granted_bytes, 100 * MIB, "nobody takes it away");
    end(&client, 0);
    let said = said(&mut daemon);
    assert_eq!(said.matches("1 s is the longest allowed").count(), 1, "{said}");
}

/// One program is asked to end and does; another ignores that and is killed. A task that waited for their memory runs.
#[test]
fn who_overstays_is_ended_where_that_is_configured_also_if_it_does_not_listen() {
    let grace = "[options.limits]\noverstay_grace_ns = 200000000\n";
    let mut daemon = start(&format!("task-seconds-max = 1\noverstay = \"end\"\n{grace}"));
    let mut asked = Hostile::start(&daemon, &["--hold", "400"]);
    let deaf = ["sh", "-c", "trap '' TERM; exec \"$@\"", "sh"];
    let mut ended = Hostile::start_under(&daemon, &deaf, None, &["--hold", "400"]);
    let client = daemon.connect("waits");
    let wanted = begin_whole(&client, slot(0), 900);
    wait_until(&client, slot(0), |cell| cell.state == STATE_WAITING);
    assert_eq!(answer(&client, slot(0), wanted).state, STATE_BOUND);
    end(&client, 0);
    assert_eq!((asked.end(), ended.end()), (None, None), "signals ended them");
    let said = said(&mut daemon);
    assert_eq!(
        (said.matches("it gets SIGTERM").count(), said.matches("it gets SIGKILL").count()),
        (2, 1),
        "{said}"
    );
}

#[test]
fn a_member_of_a_denied_group_is_told_and_holds_nothing() {
    if !is_root() {
        return;
    }
    const GROUP: u32 = 61_500;
    let mut daemon = start(&format!("deny-gids = [{GROUP}]\n"));
    let (user, group) = (ALICE.to_string(), GROUP.to_string());
    let member = ["setpriv", "--reuid", &user, "--regid", &user, "--groups", &group];
    let other = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"];
    let refused = Hostile::start_under(&daemon, &member, None, &["--hold", "100"]);
    assert!(refused.said.is_empty(), "{:?}", refused.said);
    let by_own_group = ["setpriv", "--reuid", &user, "--regid", &group, "--clear-groups"];
    let refused = Hostile::start_under(&daemon, &by_own_group, None, &["--hold", "100"]);
    assert!(refused.said.is_empty(), "{:?}", refused.said);
    let served = Hostile::start_under(&daemon, &other, None, &["--hold", "100"]);
    assert_eq!(served.said.last().map(String::as_str), Some("ready"));
    reload(&daemon, &format!("allow-gids = [{GROUP}]\n"));
    let refused = Hostile::start_under(&daemon, &other, None, &["--hold", "100"]);
    assert!(refused.said.is_empty(), "{:?}", refused.said);
    let allowed = Hostile::start_under(&daemon, &member, None, &["--hold", "100"]);
    assert_eq!(allowed.said.last().map(String::as_str), Some("ready"));
    assert_eq!(daemon.device().granted_bytes, 200 * MIB);
    drop((served, allowed));
    let said = said(&mut daemon);
    assert!(said.contains(&format!("uid {ALICE} is not served here")), "{said}");
}
