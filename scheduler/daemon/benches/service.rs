//! What the daemon costs the programs it serves: each value beside its goal.
//!
//! Trap: client and daemon share the machine with whatever else runs; the load is printed, and a value above its goal on
//! a busy machine says little.

#[path = "../tests/daemon/support.rs"]
#[allow(dead_code, reason = "the tests use the rest of it")]
mod support;

use eager_proto::request::RequestBody;
use eager_shm::client::ClientConnection;
use std::hint::black_box;
use std::time::{Duration, Instant};
use support::{Daemon, Hostile, answer, begin, slot};

const ROUNDS: usize = 10_000;
const IDLE_CLIENTS: usize = 500;

fn main() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load before: {}", load.trim());
    println!("{:<52} {:>12} {:>12}", "measure", "goal", "value");
    round_trips();
    gate_checks();
    idle_clients();
    crowd();
    flood();
}

fn row(measure: &str, goal: &str, value: String) {
    println!("{measure:<52} {goal:>12} {value:>12}");
}

/// Times from begin to grant in microseconds, sorted.
fn grants(daemon: &Daemon, rounds: usize) -> Vec<f64> {
    let client = daemon.connect("bench");
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        answer(&client, slot(0), begin(&client, slot(0), 10));
        times.push(start.elapsed().as_secs_f64() * 1e6);
        answer(&client, slot(0), client.send(RequestBody::TaskEnd, slot(0)).expect("send"));
    }
    times.sort_by(f64::total_cmp);
    times
}

fn quantile(times: &[f64], share: f64) -> f64 {
    times[(share * (times.len() - 1) as f64) as usize]
}

fn round_trips() {
    let daemon = Daemon::start(&["--policy", "eager-opt"]);
    let times = grants(&daemon, ROUNDS);
    row("task begin to grant, idle daemon, p50", "20 us", format!("{:.1} us", quantile(&times, 0.5)));
    row("task begin to grant, idle daemon, p99", "100 us", format!("{:.1} us", quantile(&times, 0.99)));
}

/// Another user floods; root's own requests beside it. The flood takes processors too, not only the daemon.
fn flood() {
    if !nix::unistd::Uid::effective().is_root() {
        println!("SKIPPED: only root can be two users: a flood by one user, another's p99");
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let others = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), others).expect("a folder that others may enter");
    let daemon = Daemon::start_in(dir, &["--policy", "case"]);
    let quiet = quantile(&grants(&daemon, ROUNDS / 5), 0.99);
    let hostile = Hostile::start_as_until(&daemon, 61_001, &["--flood", "60000"], "flooding");
    let flooded = quantile(&grants(&daemon, ROUNDS / 5), 0.99);
    drop(hostile);
    let value = format!("{:.1} ({quiet:.0} to {flooded:.0} us)", flooded / quiet);
    row("p99 of one user while another floods, times quiet", "2", value);
}

fn gate_checks() {
    let daemon = Daemon::start(&["--policy", "case"]);
    let client: ClientConnection = daemon.connect("bench");
    let start = Instant::now();
    let checks = 20_000_000u32;
    for _ in 0..checks {
        black_box(client.gate(slot(0)));
    }
    row(
        "gate check, open",
        "5 ns",
        format!("{:.2} ns", start.elapsed().as_secs_f64() * 1e9 / f64::from(checks)),
    );
}

fn idle_clients() {
    let daemon = Daemon::start(&["--policy", "case"]);
    let before = resident_bytes(&daemon);
    let clients: Vec<ClientConnection> = (0..IDLE_CLIENTS).map(|_| daemon.connect("idle")).collect();
    let each = (resident_bytes(&daemon).saturating_sub(before)) / IDLE_CLIENTS as u64;
    row(
        "daemon memory per idle client, pages included",
        "16 KiB",
        format!("{:.1} KiB", each as f64 / 1024.0),
    );
    let ticks = daemon.cpu_ticks();
    let start = Instant::now();
    // Rest is what is measured.
    std::thread::sleep(Duration::from_secs(10));
    let share = (daemon.cpu_ticks() - ticks) as f64 / start.elapsed().as_secs_f64();
    row("processor time at rest, 500 idle clients", "0.1 %", format!("{share:.2} %"));
    drop(clients);
}

fn resident_bytes(daemon: &Daemon) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", daemon.child.id())).expect("statm");
    let pages: u64 = statm.split_whitespace().nth(1).expect("resident").parse().expect("a number");
    pages * 4096
}

fn crowd() {
    let limits = ["--policy", "case", "--clients-max", "9500", "--clients-per-user", "9500"];
    let daemon = Daemon::start(&limits);
    let mut crowd = Hostile::start(&daemon, &["--crowd", "9500"]);
    let said = crowd.said.iter().find(|line| line.contains("clients in")).cloned().unwrap_or_default();
    row("9,500 clients connect, one after the other", "1 s", said);
    let start = Instant::now();
    crowd.signal(nix::sys::signal::Signal::SIGKILL);
    crowd.end();
    daemon.until(|row| row.clients == 0);
    row("all of them die at once and are reaped", "0.5 s", format!("{:.3} s", start.elapsed().as_secs_f64()));
}
