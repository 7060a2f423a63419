//! What one user's attacks cost other users who want a device: the processor time that the daemon uses for their
//! requests while the attack runs.
//!
//! Trap: an attacker takes processor time too, which no daemon can prevent, so wall-clock times mean little on a busy
//! machine. Measured is the daemon's own work at two daemons of which one is attacked: a well-behaved program asks both
//! by turns. It asks for many tasks at once while the daemon is stopped, because who asks for one after the other waits
//! for a processor in between, and the daemon serves the attacker meanwhile. What the daemon may do for the attacker in
//! the time that passed (specification S-706) does not count.

use crate::support::{Daemon, Hostile, MIB, answer, begin, command, is_root, slot};
use eager_proto::RING_SLOTS;
use eager_proto::hello::Hello;
use eager_proto::reply::{STATE_BOUND, STATE_FREE};
use eager_proto::request::RequestBody;
use eager_shm::client::ClientConnection;
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

const MALLORY: u32 = 61_001;
/// Time that a shim waits for its welcome before its program runs without the daemon.
const CONNECT: Duration = Duration::from_secs(5);
/// Limit for the ratio of the medians. It includes a turn's share of another user's work beside each of the program's
/// turns, and what the machine's caches lose by it. A queue of thousands that each step looks at, or a flood that is
/// served to its end, costs a hundred times the quiet daemon's work.
const RATIO_MAX: f64 = 10.0;
/// Deadline that only ends a test that has failed.
const FILLED: Duration = Duration::from_secs(180);
/// Connections of the well-behaved program.
const CONNECTIONS: usize = 4;
/// Tasks for which each of them asks at once: begin and end of these nearly fill a ring.
const TASKS: usize = RING_SLOTS / 2 - 1;
/// Turns of each daemon.
const TURNS: usize = 40;
/// Processor time in microseconds that one user may take at once, and the part of the time that passes that it may take
/// sustained (specification S-706).
const BURST_US: f64 = 2000.0;
const SUSTAINED: f64 = 0.25;

/// Starts a daemon that every user may reach; none where the tests do not run as root.
fn daemon(arguments: &[&str]) -> Option<Daemon> {
    if !is_root() {
        return None;
    }
    let dir = tempfile::tempdir().expect("folder");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("open to others");
    let mut command = command(dir.path());
    command.args(arguments);
    Some(Daemon::spawn(dir, command, "1 file device, policy "))
}

/// Processor time that the daemon has used so far, in microseconds.
fn worked(clock: ClockId) -> f64 {
    Duration::from(clock_gettime(clock).expect("the daemon lives")).as_secs_f64() * 1e6
}

/// The daemon's work for one task in microseconds, of [`CONNECTIONS`] times [`TASKS`] that are asked for at once. Without
/// what it may have done for as many other users as attack it.
fn work_for_a_task(daemon: &Daemon, attackers: f64) -> f64 {
    let clock = clock_getcpuclockid(crate::support::pid(&daemon.child)).expect("a clock of the daemon");
    let clients = [(); CONNECTIONS].map(|()| daemon.connect("good"));
    daemon.signal(Signal::SIGSTOP);
    let last = clients.each_ref().map(|client| {
        let ask = |_| {
            begin(client, slot(0), 10);
            client.send(RequestBody::TaskEnd, slot(0)).expect("send")
        };
        (0..TASKS).map(ask).last().expect("tasks")
    });
    let (before, begun) = (worked(clock), Instant::now());
    daemon.signal(Signal::SIGCONT);
    for (client, last) in clients.iter().zip(last) {
        assert_eq!(answer(client, slot(0), last).state, STATE_FREE);
    }
    let may_be_anothers = BURST_US + SUSTAINED * begun.elapsed().as_secs_f64() * 1e6;
    let all = worked(clock) - before;
    (all - attackers * may_be_anothers).max(0.0) / (CONNECTIONS * TASKS) as f64
}

fn newcomers_are_served(daemon: &Daemon) {
    for _ in 0..20 {
        let newcomer = ClientConnection::connect(&daemon.socket(), &Hello::new("newcomer"), CONNECT);
        let newcomer = newcomer.expect("no program is left without the daemon");
        assert_eq!(answer(&newcomer, slot(0), begin(&newcomer, slot(0), 10)).state, STATE_BOUND);
    }
}

/// Median work for a task at the attacked daemon and at the other.
fn compared(attacked: &Daemon, quiet: &Daemon) -> [f64; 2] {
    let mut work = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        work[0].push(work_for_a_task(attacked, 1.0));
        work[1].push(work_for_a_task(quiet, 0.0));
    }
    work.map(|mut work| {
        work.sort_by(f64::total_cmp);
        work[work.len() / 2]
    })
}

/// Ratio of the work for a task with and without the attack; and the attacked daemon.
///
/// Measured once `waiting` tasks wait.
pub fn ratio(arguments: &[&str], attack: &[&str], until: &str, waiting: u32) -> Option<(f64, Daemon)> {
    let (Some(attacked), Some(quiet)) = (daemon(arguments), daemon(arguments)) else { return None };
    let hostile = Hostile::start_as_until(&attacked, MALLORY, attack, until);
    assert!(hostile.said.iter().any(|line| line == until), "{attack:?}: {:?}", hostile.said);
    let deadline = Instant::now() + FILLED;
    while attacked.row().waiting < waiting {
        assert!(Instant::now() < deadline, "{:?}", attacked.row());
        std::thread::sleep(Duration::from_millis(50));
    }
    newcomers_are_served(&attacked);
    let [under_attack, alone] = compared(&attacked, &quiet);
    let ratio = under_attack / alone;
    eprintln!("{attack:?} {arguments:?}: {under_attack:.1} us for a task, {alone:.1} alone: {ratio:.1}");
    Some((ratio, attacked))
}

fn costs_others_nothing(arguments: &[&str], attack: &[&str], until: &str) {
    let Some((ratio, mut attacked)) = ratio(arguments, attack, until, 0) else { return };
    assert!(ratio <= RATIO_MAX, "{attack:?} makes the work for others' tasks {ratio:.1} times as much");
    attacked.signal(Signal::SIGTERM);
    let (status, said) = attacked.end();
    assert!(status.success() && said.lines().count() <= 60, "{said}");
}

#[test]
fn six_thousand_silent_connections_cost_others_nothing() {
    costs_others_nothing(&[], &["--silent", "6000"], "ready");
}

#[test]
fn connections_that_come_and_go_without_a_word_cost_others_nothing() {
    costs_others_nothing(&[], &["--torrent", "60000"], "flooding");
}

#[test]
fn programs_that_come_and_go_cost_others_nothing() {
    costs_others_nothing(&[], &["--reconnect", "60000"], "flooding");
}

#[test]
fn a_flood_of_requests_costs_others_nothing() {
    costs_others_nothing(&[], &["--flood", "60000"], "flooding");
}

/// Runs under policies that let tasks pass a waiting task that does not fit, the default among them.
#[test]
fn twelve_thousand_waiting_tasks_cost_others_nothing() {
    for arguments in [&[][..], &["--policy", "case"], &["--policy", "eager-live"]] {
        costs_others_nothing(arguments, &["--waiting", "12000"], "flooding");
    }
}

/// On a machine with few processors, a client that gets its answer waits for the time slice of a daemon that never
/// sleeps.
#[test]
fn a_daemon_that_is_attacked_sleeps_most_of_the_time() {
    for attack in [["--torrent", "60000"], ["--waiting", "12000"], ["--flood", "60000"]] {
        let Some(daemon) = daemon(&[]) else { return };
        let other = daemon.connect("good");
        let hostile = Hostile::start_as_until(&daemon, MALLORY, &attack, "flooding");
        // Some of the daemon's work is charged later, and a tick is 10 ms.
        let (ticks, begun) = (daemon.cpu_ticks(), Instant::now());
        std::thread::sleep(Duration::from_secs(2));
        let share = (daemon.cpu_ticks() - ticks) as f64 / (100.0 * begun.elapsed().as_secs_f64());
        eprintln!("{attack:?}: the daemon ran for {share:.2} of the time");
        assert!(share < 0.5, "{attack:?} keeps the daemon busy: {share:.2}");
        drop((hostile, other));
    }
}

#[test]
fn users_who_take_all_the_room_that_they_can_leave_some_to_another() {
    let Some(daemon) = daemon(&["--clients-max", "64"]) else { return };
    let crowds = [0, 1, 2].map(|more| Hostile::start_as(&daemon, MALLORY + more, &["--crowd", "64"]));
    assert!(daemon.row().clients > 32, "{:?}", daemon.row());
    let other = Hostile::start_as(&daemon, MALLORY + 3, &["--hold", "10"]);
    assert!(other.said.contains(&"ready".to_owned()), "{:?}", other.said);
    drop(crowds);
}

/// Each connection that is closed with a task in it keeps what it has for some seconds, and a context with it.
#[test]
fn a_process_that_comes_back_and_leaves_its_tasks_behind_holds_two_contexts_at_most() {
    let dir = tempfile::tempdir().expect("folder");
    let settings = dir.path().join("eagerd.toml");
    std::fs::write(&settings, format!("[options]\ncontext_bytes = {}\n", 64 * MIB)).expect("settings");
    let Some(daemon) = daemon(&["--config", settings.to_str().expect("plain")]) else { return };
    for visit in 0..40 {
        let client = daemon.connect("visitor");
        assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 10)).state, STATE_BOUND, "visit {visit}");
        drop(client);
        assert!(daemon.row().clients <= 2, "visit {visit}: {:?}", daemon.row());
    }
}

/// Each visit leaves a context that is charged; the next one of the same process takes its place.
#[test]
fn a_process_that_comes_back_again_and_again_is_served_each_time_and_holds_one_context() {
    let dir = tempfile::tempdir().expect("folder");
    let settings = dir.path().join("eagerd.toml");
    std::fs::write(&settings, format!("[options]\ncontext_bytes = {}\n", 64 * MIB)).expect("settings");
    let Some(daemon) = daemon(&["--config", settings.to_str().expect("plain")]) else { return };
    let visitor = Hostile::start_as(&daemon, MALLORY, &["--visits", "1000"]);
    assert!(visitor.said.contains(&"1000 visits".to_owned()), "{:?}", visitor.said);
    let client = daemon.connect("good");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 1024 - 2 * 64)).state, STATE_BOUND);
    assert!(daemon.row().clients <= 2, "{:?}", daemon.row());
}
