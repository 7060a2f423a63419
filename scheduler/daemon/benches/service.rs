//! Measures what the daemon costs the programs it serves: each value beside its goal.
//!
//! Values that depend on wake-ups are measured twice: on the machine as it is, and with its processors kept awake by
//! loops that run only when nothing else does. In a virtual machine an idle processor stops its host's thread, and
//! waking it costs tens of microseconds that are neither the daemon's nor a server's.
//!
//! Words after `--` name the parts that are measured: `cargo bench -p eagerd --bench service -- round-trips attacks`.
//!
//! Trap: client and daemon share the machine with whatever else runs; the load is printed, and a value above its goal on
//! a busy machine says little.

#[path = "../tests/daemon/support.rs"]
#[allow(dead_code, reason = "the tests use the rest of it")]
mod support;

use eager_measure::statistics::quantile;
use eager_proto::request::RequestBody;
use eager_shm::client::ClientConnection;
use eager_shm::daemon::accept;
use eager_shm::{bind_seqpacket, connect_seqpacket};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use support::{Daemon, Hostile, LONG, answer, begin, slot};

const ROUNDS: usize = 10_000;
/// Runs this benchmark as the other end of [`floor`].
const ECHO: &str = "--echo";
const IDLE_CLIENTS: usize = 500;
/// Parts that are measured again with processors kept awake.
const DEPEND_ON_WAKE_UPS: [&str; 4] = ["floor", "round-trips", "crowd", "attacks"];
/// Pause between two requests of a program that has work of its own.
const PACE: Duration = Duration::from_millis(1);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|word| word == ECHO) {
        return echo(Path::new(&arguments[at + 1]));
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load before: {}", load.trim());
    println!("{:<56} {:>12} {:>12}", "measure", "goal", "value");
    let all: [(&str, fn()); 5] = [
        ("floor", floor),
        ("round-trips", round_trips),
        ("idle", idle_clients),
        ("crowd", crowd),
        ("attacks", attacks),
    ];
    // Words that cargo adds begin with two hyphens.
    let named: Vec<&String> = arguments.iter().skip(1).filter(|word| !word.starts_with("--")).collect();
    let is_wanted = |name: &str| named.is_empty() || named.iter().any(|wanted| *wanted == name);
    let wanted = || all.iter().filter(|(name, _)| is_wanted(name));
    wanted().for_each(|(_, measure)| measure());
    let awake = Awake::keep();
    println!("\nwith {} processors kept awake:", awake.loops.len());
    wanted().filter(|(name, _)| DEPEND_ON_WAKE_UPS.contains(name)).for_each(|(_, measure)| measure());
}

/// Busy loops, one for each processor, at a priority that runs only when nothing else wants to.
struct Awake {
    loops: Vec<Child>,
}

impl Awake {
    fn keep() -> Awake {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let start = |_| {
            let words = ["--idle", "0", "sh", "-c", "while :; do :; done"];
            Command::new("chrt").args(words).spawn().expect("chrt, of util-linux")
        };
        Awake { loops: (0..processors).map(start).collect() }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.loops {
            // Fails only for a loop that has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn row(measure: &str, goal: &str, value: String) {
    println!("{measure:<56} {goal:>12} {value:>12}");
}

/// Times from begin to grant in microseconds, with a pause before each.
fn grants(client: &ClientConnection, rounds: usize, pause: Duration) -> Vec<f64> {
    (0..rounds)
        .map(|_| {
            if !pause.is_zero() {
                // The pause is part of the measurement.
                std::thread::sleep(pause);
            }
            let start = Instant::now();
            answer(client, slot(0), begin(client, slot(0), 10));
            let took = start.elapsed().as_secs_f64() * 1e6;
            answer(client, slot(0), client.send(RequestBody::TaskEnd, slot(0)).expect("send"));
            took
        })
        .collect()
}

/// Sends every packet back, and does nothing else: a round trip is two wake-ups of a sleeping process, and the kernel's
/// time to carry a byte.
fn echo(path: &Path) {
    let socket = connect_seqpacket(path, LONG).expect("connect");
    let socket = UnixStream::from(socket);
    let mut byte = [0];
    while (&socket).read(&mut byte).is_ok_and(|bytes| bytes == 1) && (&socket).write(&byte).is_ok() {}
}

/// Measures a round trip on this machine when its other end does nothing.
fn floor() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("echo.sock");
    let listener = bind_seqpacket(&path).expect("listen");
    let bench = std::env::current_exe().expect("path of this benchmark");
    let mut child = Command::new(bench).arg(ECHO).arg(&path).spawn().expect("start");
    let socket = loop {
        match accept(listener.as_fd()) {
            Ok(socket) => break UnixStream::from(socket),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    socket.set_nonblocking(false).expect("blocking");
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        (&socket).write_all(&[1]).expect("send");
        (&socket).read_exact(&mut [0]).expect("the same byte");
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    drop(socket);
    child.wait().expect("wait");
    let value = |share| format!("{:.1} us", quantile(&times, share));
    row("a byte to a sleeping process and back (the floor), p50", "", value(0.5));
    row("a byte to a sleeping process and back (the floor), p99", "", value(0.99));
}

fn round_trips() {
    let daemon = Daemon::start(&["--policy", "eager-opt"]);
    let client = daemon.connect("bench");
    let value = |times: &[f64], share| format!("{:.1} us", quantile(times, share));
    let times = grants(&client, ROUNDS, Duration::ZERO);
    row("task begin to grant, idle daemon, p50", "20 us", value(&times, 0.5));
    row("task begin to grant, idle daemon, p99", "100 us", value(&times, 0.99));
    let times = grants(&client, ROUNDS / 5, PACE);
    row("the same after a pause of 1 ms, p50", "", value(&times, 0.5));
    row("the same after a pause of 1 ms, p99", "", value(&times, 0.99));
}

/// Measures root's own requests while another user attacks. The attacker takes processor time too, not only the
/// daemon's time.
fn attacks() {
    if !nix::unistd::Uid::effective().is_root() {
        println!("SKIPPED: only root can be two users: attacks by one user, another's p99");
        return;
    }
    let attacks: [(&[&str], &str); 5] = [
        (&["--flood", "60000"], "flooding"),
        (&["--silent", "6000"], "ready"),
        (&["--torrent", "60000"], "flooding"),
        (&["--reconnect", "60000"], "flooding"),
        (&["--waiting", "12000"], "flooding"),
    ];
    for (attack, until) in attacks {
        let dir = tempfile::tempdir().expect("folder");
        let others = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), others).expect("a folder that others may enter");
        let daemon = Daemon::start_in(dir, &["--policy", "case"]);
        let client = daemon.connect("bench");
        let p99 = || quantile(&grants(&client, ROUNDS / 5, Duration::ZERO), 0.99);
        let quiet = p99();
        let hostile = Hostile::start_as_until(&daemon, 61_001, attack, until);
        let attacked = p99();
        drop(hostile);
        let value = format!("{attacked:.0} us ({quiet:.0})");
        row(&format!("p99 beside another user's {}, and quiet", attack.join(" ")), "1000 us", value);
    }
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
    // The daemon at rest is what is measured.
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
