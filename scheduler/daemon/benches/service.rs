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
}

fn row(measure: &str, goal: &str, value: String) {
    println!("{measure:<52} {goal:>12} {value:>12}");
}

fn round_trips() {
    let daemon = Daemon::start(&["--policy", "eager-opt"]);
    let client = daemon.connect("bench");
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        answer(&client, slot(0), begin(&client, slot(0), 10));
        times.push(start.elapsed());
        answer(&client, slot(0), client.send(RequestBody::TaskEnd, slot(0)).expect("send"));
    }
    times.sort();
    let at =
        |share: f64| format!("{:.1} us", times[(share * (ROUNDS - 1) as f64) as usize].as_secs_f64() * 1e6);
    row("task begin to grant, idle daemon, p50", "20 us", at(0.5));
    row("task begin to grant, idle daemon, p99", "100 us", at(0.99));
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
