//! Users and processes as the kernel identifies them: other users, other namespaces, reused process ids.
//!
//! Trap: only root can be several users, and not every machine permits namespaces. A test that cannot run is skipped,
//! with a message.

use crate::support::{Daemon, Hostile, LONG, MIB, answer, begin, command, is_root, slot};
use eager_proto::admin::{AdminReply, AdminRequest};
use eager_proto::reply::STATE_BOUND;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

const ALICE: u32 = 61_001;
const BOB: u32 = 61_002;

/// Starts a daemon in a folder that every user may enter; none where the tests do not run as root.
fn start(arguments: &[&str]) -> Option<Daemon> {
    if !is_root() {
        return None;
    }
    let dir = open_folder();
    let mut command = command(dir.path());
    command.args(arguments);
    Some(Daemon::spawn(dir, command, "1 file device, policy "))
}

fn open_folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("folder");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("open to others");
    dir
}

/// True if programs can be run under `wrapper` on this machine.
fn is_possible(wrapper: &[&str]) -> bool {
    let tried = Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").output();
    let is_possible = tried.is_ok_and(|output| output.status.success());
    if !is_possible {
        eprintln!("SKIPPED: `{}` does not work here", wrapper.join(" "));
    }
    is_possible
}

#[test]
fn work_stays_with_the_user_who_connected() {
    let Some(daemon) = start(&[]) else { return };
    let _taken = Hostile::start(&daemon, &["--become-uid", &ALICE.to_string()]);
    daemon.until(|row| row.running == 1);
    assert_eq!(daemon.tasks()[0].uid, 0, "it was root when it connected");
}

/// Where root is not mapped, a program cannot see that the daemon is root's, and does not trust it.
#[test]
fn root_of_a_user_namespace_is_who_it_was_outside() {
    let Some(mut daemon) = start(&["--deny-uids", &BOB.to_string()]) else { return };
    let wrapper = ["unshare", "--user", "--map-root-user"];
    if !is_possible(&wrapper) {
        return;
    }
    let honest = Hostile::start_under(&daemon, &wrapper, Some(ALICE), &["--hold", "10"]);
    assert!(honest.said.is_empty(), "it trusts nobody there: {:?}", honest.said);
    let _raw = Hostile::start_under(&daemon, &wrapper, Some(BOB), &["--deaf"]);
    // The daemon answers this after it has handled the other connection.
    daemon.until(|row| row.clients == 0);
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    let (_, said) = daemon.end();
    assert!(said.contains(&format!("uid {BOB} is not served here")), "{said}");
}

#[test]
fn a_program_in_a_container_is_known_by_its_number_outside_and_freed_when_it_ends() {
    let Some(daemon) = start(&[]) else { return };
    let wrapper = ["unshare", "--pid", "--mount", "--ipc", "--net", "--fork", "--kill-child"];
    if !is_possible(&wrapper) {
        return;
    }
    let mut inside = Hostile::start_under(&daemon, &wrapper, None, &["--hold", "10"]);
    daemon.until(|row| row.running == 1);
    let pid = daemon.tasks()[0].pid;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("its number is right here");
    assert_eq!(name.trim(), "hostile-client");
    inside.signal(nix::sys::signal::Signal::SIGKILL);
    inside.end();
    daemon.until(|row| row.clients == 0);
    assert_eq!(daemon.device().granted_bytes, 0);
}

#[test]
fn a_daemon_of_another_user_is_not_trusted() {
    if !is_root() {
        return;
    }
    let dir = open_folder();
    let mut command = command(dir.path());
    let folder = std::fs::Permissions::from_mode(0o1777);
    std::fs::set_permissions(dir.path(), folder).expect("Bob's daemon makes its folder here, as in /tmp");
    command.uid(BOB).gid(BOB);
    let daemon = Daemon::spawn(dir, command, "1 file device, policy ");
    // Bob's socket is closed to others; even if he opens it, Alice's program does not trust it.
    let socket = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(daemon.socket(), socket).expect("open to all");
    let client = Hostile::start_as(&daemon, ALICE, &["--hold", "10"]);
    assert!(client.said.is_empty(), "{:?}", client.said);
    drop(client);
    assert_eq!(daemon.row().clients, 0);
}

/// Makes a process id be reused on demand: in a process namespace of its own, where the next id can be chosen. The
/// first process holds memory when the daemon is killed, ends while no daemon runs, and another process gets its id.
#[test]
fn a_number_that_comes_again_is_somebody_else() {
    let wrapper = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    if !nix::unistd::Uid::effective().is_root() || !is_possible(&wrapper) {
        eprintln!("SKIPPED: needs root and namespaces");
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let eagerd = command(dir.path());
    let script = r#"
        hostile=$1; socket=$2; shift 2
        echo 100 > /proc/sys/kernel/ns_last_pid || exit 77
        "$@" > first & daemon=$!
        until [ -S "$socket" ]; do sleep 0.01; done
        echo 500 > /proc/sys/kernel/ns_last_pid
        sleep 100 | "$hostile" --socket "$socket" --hold 100 > held &
        until grep -q ready held; do sleep 0.01; done
        holder=$(pgrep -x hostile-client); kill -9 $daemon; wait $daemon 2>/dev/null
        kill -9 $holder; while [ -d /proc/$holder ] && ! grep -q Z /proc/$holder/stat; do sleep 0.01; done
        while [ -d /proc/$holder ]; do wait -n 2>/dev/null || sleep 0.01; done
        echo $((holder - 1)) > /proc/sys/kernel/ns_last_pid
        sleep 200 & again=$!
        [ $again = $holder ] || { echo "$again is not $holder"; exit 77; }
        "$@" > second & daemon=$!
        until grep -q ready second; do sleep 0.01; done
        cat second; kill $daemon; wait $daemon; kill $again
    "#;
    let output = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .args(["bash", "-c", script, "bash", env!("CARGO_BIN_EXE_hostile-client")])
        .arg(dir.path().join("run/client.sock"))
        .arg(eagerd.get_program())
        .args(eagerd.get_args())
        .current_dir(dir.path())
        .output()
        .expect("run");
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(77) {
        eprintln!("SKIPPED: no number can be chosen here: {said}");
        return;
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    // The daemon is ready, and took over no client.
    assert!(said.starts_with("eagerd: ready: ") && !said.contains("taken over"), "{said}");
}

#[test]
fn a_traced_program_is_served_and_freed_like_any_other() {
    let daemon = Daemon::start(&[]);
    let wrapper = ["strace", "-f", "-o", "/dev/null"];
    if !is_possible(&wrapper) {
        return;
    }
    let mut traced = Hostile::start_under(&daemon, &wrapper, None, &["--hold", "10"]);
    daemon.until(|row| row.running == 1);
    assert_eq!(traced.end(), Some(0));
    daemon.until(|row| row.clients == 0);
    assert_eq!(daemon.device().granted_bytes, 0);
}

#[test]
fn silent_connections_of_one_user_do_not_keep_others_out() {
    let Some(daemon) = start(&[]) else { return };
    let _silent = Hostile::start_as(&daemon, ALICE, &["--silent", "256"]);
    let start = Instant::now();
    let client = daemon.connect("good");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 10)).state, STATE_BOUND);
    // Without eviction, 256 connections would have five seconds each, 64 at a time.
    eprintln!("served after {:?} behind 256 silent connections", start.elapsed());
    assert!(start.elapsed() < LONG / 3, "four times the deadline of a hello would be 20 s");
    assert_eq!(daemon.device().granted_bytes, 10 * MIB);
}

/// Where the daemon's own user is not mapped, every user looks like its owner; where it is, all unmapped users look
/// like one another.
#[test]
fn a_daemon_in_a_user_namespace_takes_nobody_for_somebody_else() {
    if !nix::unistd::Uid::effective().is_root() || !is_possible(&["unshare", "--user"]) {
        eprintln!("SKIPPED: needs root, to be several users, and user namespaces");
        return;
    }
    let dir = open_folder();
    let inside = |arguments: &[&str]| {
        let plain = command(dir.path());
        let mut inside = Command::new("unshare");
        inside.args(arguments).arg(plain.get_program()).args(plain.get_args());
        inside
    };
    let refused = inside(&["--user"]).output().expect("run");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(said.lines().count() == 1 && said.contains("does not map the daemon's user"), "{said}");

    let mapped = inside(&["--user", "--map-root-user"]);
    let mut daemon = Daemon::spawn(dir, mapped, "1 file device, policy ");
    let _raw = Hostile::start_as(&daemon, BOB, &["--deaf"]);
    assert!(
        daemon.ask_as(BOB, &AdminRequest::Ps).is_none_or(|reply| matches!(reply, AdminReply::Error { .. }))
    );
    // The daemon answers this after it has handled the other connection.
    daemon.until(|row| row.clients == 0);
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    let (_, said) = daemon.end();
    assert!(said.contains("uid 65534 is not served here"), "{said}");
}
