//! How the daemon acts on the memory that is really in use, with a file in place of a device's driver.
//!
//! Trap: the daemon observes again and again by itself, so tests must wait for the effect of an observation, never
//! count observations.

use crate::support::{Daemon, Hostile, MIB, answer, begin, begin_whole, command, slot, wait_until, wants};
use eager_proto::admin::AdminRequest;
use eager_proto::hello::Hello;
use eager_proto::reply::{
    CLASS_EAGER, CLASS_PROMOTED, FLAG_EXTEND_REFUSED, STATE_BOUND, STATE_WAITING, TaskCell, gate,
};
use eager_proto::request::{BeginFlags, RequestBody};
use eager_shm::client::ClientConnection;
use nix::sys::signal::Signal;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Starts a daemon that reads what is in use from a file, at first nothing.
fn start(arguments: &[&str]) -> Daemon {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("uses.json");
    std::fs::write(&file, "[]").expect("uses");
    let mut command = command(dir.path());
    command.args(["--observe-ms", "5", "--uses-file"]).arg(file).args(arguments);
    Daemon::spawn(dir, command, "1 file device, policy ")
}

/// From now on these processes use so many MiB each.
fn uses(daemon: &Daemon, used: &[(i32, u64)]) {
    let entry = |(pid, mib): &(i32, u64)| format!(r#"{{"device":0,"pid":{pid},"memory":"{mib}MiB"}}"#);
    says(daemon, &format!("[{}]", used.iter().map(entry).collect::<Vec<_>>().join(",")));
}

/// The device's driver reports this from now on.
fn says(daemon: &Daemon, text: &str) {
    // Renamed in one step, since the daemon may be reading the file.
    let fresh = daemon.dir.path().join("uses.fresh");
    std::fs::write(&fresh, text).expect("uses");
    std::fs::rename(fresh, daemon.dir.path().join("uses.json")).expect("uses");
}

/// Runs under the default policy.
#[test]
fn an_eager_task_goes_when_the_kernels_of_its_stopped_neighbour_have_ended() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("uses.json");
    std::fs::write(&file, r#"[{"device":0,"utilization":100}]"#).expect("uses");
    let mut command = command(dir.path());
    command.args(["--observe-ms", "5", "--uses-file"]).arg(file);
    let daemon = Daemon::spawn(dir, command, "1 file device, policy ");
    let mut holder = Hostile::start(&daemon, &["--hold", "700"]);
    let eager = daemon.connect("eager");
    let cell = answer(&eager, slot(0), begin(&eager, slot(0), 800));
    // An eighth is kept for others.
    assert_eq!((cell.class, cell.grant), (CLASS_EAGER, (324 - 128) * MIB));
    let admits = |cell: &TaskCell| gate::admits(cell.gate, 800 * MIB);
    assert!(!admits(&eager.cell(slot(0)).expect("a whole cell")), "beside 700 MiB that may be in use");
    holder.signal(Signal::SIGSTOP);
    let asks = |task| AdminRequest::Explain { task };
    let task = daemon.tasks()[1].task;
    let named = format!("(pid {}) is stopped, by a signal or a debugger", holder.pid());
    daemon.until(|_| daemon.explains(&asks(task)).join(" ").contains(&named));
    let frozen = || daemon.explains(&asks(task)).join(" ").contains("no task waits for them");
    assert!(!frozen() && !admits(&eager.cell(slot(0)).expect("a whole cell")), "its kernels may still run");
    says(&daemon, r#"[{"device":0,"utilization":0}]"#);
    wait_until(&eager, slot(0), admits);
    assert!(frozen());
    assert_eq!(daemon.device().granted_bytes, (1024 - 128) * MIB, "what it holds stays its own");
    // Kernels on the device may now be its neighbour's: only the process's state shows that it goes on.
    says(&daemon, r#"[{"device":0,"utilization":100}]"#);
    holder.signal(Signal::SIGCONT);
    wait_until(&eager, slot(0), |cell| !admits(cell));
    holder.end();
    wait_until(&eager, slot(0), |cell| cell.class == CLASS_PROMOTED);
}

/// Holds also under a policy where the first waiting task blocks those behind it: the memory that it waits for may
/// never be freed.
#[test]
fn a_small_program_starts_although_the_first_waits_for_a_stopped_one() {
    for policy in ["eager-opt", "eager-fair"] {
        let dir = tempfile::tempdir().expect("folder");
        let file = dir.path().join("uses.json");
        std::fs::write(&file, r#"[{"device":0,"utilization":0}]"#).expect("uses");
        let mut command = command(dir.path());
        command.args(["--policy", policy, "--observe-ms", "5", "--uses-file"]).arg(file);
        let daemon = Daemon::spawn(dir, command, "1 file device, policy ");
        let holder = Hostile::start(&daemon, &["--hold", "700"]);
        let (large, small) = (daemon.connect("large"), daemon.connect("small"));
        let RequestBody::TaskBegin { requirement, site, blocks, threads_per_block, function, .. } =
            wants(800)
        else {
            unreachable!("a begin")
        };
        let flags = BeginFlags::WHOLE;
        let whole = RequestBody::TaskBegin { requirement, site, blocks, threads_per_block, flags, function };
        large.send(whole, slot(0)).expect("send");
        wait_until(&large, slot(0), |cell| cell.state == STATE_WAITING);
        let asked = begin_whole(&small, slot(0), 10);
        if policy == "eager-opt" {
            wait_until(&small, slot(0), |cell| cell.state == STATE_WAITING);
        }
        holder.signal(Signal::SIGSTOP);
        assert_eq!(answer(&small, slot(0), asked).state, STATE_BOUND);
        let waits = daemon.queue()[0].task;
        let said = || daemon.explains(&AdminRequest::Explain { task: waits }).join(" ");
        daemon.until(|_| said().contains(&format!("(pid {}) is stopped", holder.pid())));
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).expect("a pid")
}

/// Waits until so much of the device is in use and unaccounted.
fn counts(daemon: &Daemon, mib: u64) {
    daemon.until(|_| daemon.device().unaccounted_bytes == mib * MIB);
}

#[test]
fn foreign_use_is_not_given_away_and_comes_back() {
    let mut daemon = start(&[]);
    let client = daemon.connect("waits");
    uses(&daemon, &[(1, 600)]);
    counts(&daemon, 600);
    let asked = begin_whole(&client, slot(0), 500);
    wait_until(&client, slot(0), |cell| cell.state == STATE_WAITING);
    assert_eq!(daemon.device().foreign_bytes, 600 * MIB);
    uses(&daemon, &[]);
    assert_eq!(answer(&client, slot(0), asked).state, STATE_BOUND);
    counts(&daemon, 0);
    daemon.signal(Signal::SIGTERM);
    let (_, said) = daemon.end();
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.contains("600 MiB are used by programs that Eager does not schedule"), "{said}");
}

/// A process that is no child of the test's, and ends with it.
struct Process(i32);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.0), Signal::SIGKILL);
    }
}

/// `eager run --mem` with a shell or a launcher: those that use the memory are not the process that reserved it.
#[test]
fn what_a_reservations_children_use_is_the_reservations() {
    let mut daemon = start(&[]);
    let hello = Hello::new("launcher").held_by_process();
    let launcher =
        ClientConnection::connect(&daemon.socket(), &hello, Duration::from_secs(20)).expect("connect");
    let asked = begin_whole(&launcher, slot(0), 500);
    assert_eq!(answer(&launcher, slot(0), asked).state, STATE_BOUND);
    let mut shell = Command::new("sh");
    let mut shell =
        shell.args(["-c", "sleep 1000 & echo $!; wait"]).stdout(Stdio::piped()).spawn().expect("sh");
    let mut said = String::new();
    BufReader::new(shell.stdout.take().expect("stdout")).read_line(&mut said).expect("a line");
    let ends_with_test = Process(said.trim().parse().expect("a pid"));
    let rank = ends_with_test.0;
    uses(&daemon, &[(rank, 400), (1, 100)]);
    daemon.until(|_| daemon.tasks()[0].pinned_bytes == Some(400 * MIB));
    assert_eq!(daemon.device().foreign_bytes, 100 * MIB);
    // The rank outlives the shell: init is its parent now.
    shell.kill().expect("kill");
    shell.wait().expect("its end");
    uses(&daemon, &[(rank, 700), (1, 100)]);
    counts(&daemon, 300);
    assert_eq!((daemon.row().overruns, daemon.device().foreign_bytes), (1, 100 * MIB));
    let ended = launcher.send(RequestBody::TaskEnd, slot(0)).expect("send");
    answer(&launcher, slot(0), ended);
    daemon.until(|_| daemon.device().foreign_bytes == 800 * MIB);
    daemon.signal(Signal::SIGTERM);
    let (_, said) = daemon.end();
    assert!(said.contains("uses 700 MiB on GPU 0 and declared 500 MiB (launcher, pid "), "{said}");
}

#[test]
fn an_overrun_is_charged_said_and_shown() {
    let mut daemon = start(&[]);
    let liar = Hostile::start(&daemon, &["--hold", "100"]);
    let other = daemon.connect("other");
    daemon.until(|row| row.running == 1);
    uses(&daemon, &[(liar.pid(), 700)]);
    counts(&daemon, 600);
    assert_eq!(daemon.row().overruns, 1);
    assert_eq!(daemon.tasks()[0].pinned_bytes, Some(700 * MIB));
    assert_eq!((daemon.device().pinned_bytes, daemon.device().foreign_bytes), (Some(700 * MIB), 0));
    let asked = begin_whole(&other, slot(0), 500);
    wait_until(&other, slot(0), |cell| cell.state == STATE_WAITING);
    uses(&daemon, &[(liar.pid(), 100)]);
    assert_eq!(answer(&other, slot(0), asked).state, STATE_BOUND);
    daemon.signal(Signal::SIGTERM);
    let (_, said) = daemon.end();
    assert!(said.contains("uses 700 MiB on GPU 0 and declared 100 MiB"), "{said}");
    assert!(said.contains("other tasks get less"), "{said}");
}

#[test]
fn a_program_that_overruns_is_ended_where_that_is_configured_and_others_go_on() {
    let daemon = start(&["--overrun", "kill"]);
    let good = daemon.connect("good");
    answer(&good, slot(0), begin(&good, slot(0), 100));
    let mut liar = Hostile::start(&daemon, &["--hold", "200"]);
    daemon.until(|row| row.running == 2);
    uses(&daemon, &[(own_pid(), 100), (liar.pid(), 800)]);
    daemon.until(|row| row.clients == 1);
    assert_eq!(liar.end(), None, "a signal ended it");
    uses(&daemon, &[(own_pid(), 100)]);
    counts(&daemon, 0);
    assert_eq!(daemon.device().granted_bytes, 100 * MIB);
    let end = good.send(RequestBody::TaskEnd, slot(0)).expect("send");
    answer(&good, slot(0), end);
}

#[test]
fn a_driver_that_says_nonsense_costs_nothing_and_is_said_once() {
    let mut daemon = start(&[]);
    uses(&daemon, &[(1, 600)]);
    counts(&daemon, 600);
    says(&daemon, "[{]");
    daemon.until(|row| row.usage_problem.contains("uses.json:1:3"));
    // The last observation stays in force.
    assert_eq!(daemon.device().foreign_bytes, 600 * MIB);
    let client = daemon.connect("served");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 300)).state, STATE_BOUND);
    uses(&daemon, &[]);
    daemon.until(|row| row.usage_problem.is_empty());
    daemon.signal(Signal::SIGTERM);
    let (_, said) = daemon.end();
    assert_eq!(said.matches("is unknown").count(), 1, "{said}");
}

/// The device falls off its bus under a program, and comes back: waiting tasks go on waiting, programs with memory on
/// it are told, and none of that memory is granted again before its holder has ended.
#[test]
fn a_lost_device_starts_nothing_tells_its_holders_and_may_come_back() {
    let mut daemon = start(&[]);
    let (holder, other) = (daemon.connect("holder"), daemon.connect("other"));
    answer(&holder, slot(0), begin(&holder, slot(0), 300));
    says(&daemon, r#"[{"lost": 0}]"#);
    daemon.until(|_| daemon.device().lost);
    assert_eq!(daemon.tasks()[0].reason, "GPU 0 is lost: its driver does not have it any more");
    assert_eq!(
        holder.reason(slot(0)).as_deref(),
        Some("GPU 0 is lost: its driver does not have it any more")
    );
    let asked = begin_whole(&other, slot(0), 100);
    wait_until(&other, slot(0), |cell| cell.state == STATE_WAITING);
    let more = holder.send(RequestBody::TaskExtend { bytes: MIB }, slot(0)).expect("send");
    assert_ne!(answer(&holder, slot(0), more).flags & FLAG_EXTEND_REFUSED, 0);
    assert_eq!(daemon.device().granted_bytes, 300 * MIB);
    says(&daemon, "[]");
    assert_eq!(answer(&other, slot(0), asked).state, STATE_BOUND);
    assert!(!daemon.device().lost);
    daemon.signal(Signal::SIGTERM);
    let (_, said) = daemon.end();
    assert_eq!(said.lines().count(), 3, "{said}");
    assert!(said.contains("(holder, pid ") && said.contains("GPU 0 is back"), "{said}");
}
