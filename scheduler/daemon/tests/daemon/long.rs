//! Tests that take minutes: thousands of clients, and very many deaths. `make test-long` runs these.
//!
//! Trap: which client or daemon dies when is drawn from a seed that is printed; give it as `EAGER_TEST_SEED` to repeat
//! the run.

use crate::attacks::ratio;
use crate::support::{Daemon, Hostile, LONG, MIB, answer, begin, slot, wait_until};
use eager_proto::reply::{STATE_BOUND, STATE_FREE};
use eager_proto::request::RequestBody;
use eager_shm::client::ClientConnection;
use nix::sys::signal::Signal;
use std::time::Instant;

/// Room for 9,500 clients and for one that was there before.
const CROWD: [&str; 4] = ["--clients-max", "9501", "--clients-per-user", "9501"];

/// Kills the daemon and brings every client back to the next one.
fn restart(daemon: &mut Daemon, clients: &[ClientConnection]) {
    daemon.signal(Signal::SIGKILL);
    daemon.child.wait().expect("wait");
    let dir = std::mem::replace(&mut daemon.dir, tempfile::tempdir().expect("folder"));
    *daemon = Daemon::start_in(dir, &CROWD);
    clients.iter().for_each(|client| client.resume(LONG).expect("the same client"));
}

fn holds(daemon: &Daemon, mib: u64) {
    assert_eq!(daemon.device().granted_bytes, mib * MIB);
}

fn clients_go_on(count: usize) {
    let mut daemon = Daemon::start(&CROWD);
    let clients: Vec<ClientConnection> = (0..count).map(|_| daemon.connect("client")).collect();
    for client in &clients {
        assert_eq!(answer(client, slot(0), begin(client, slot(0), 1)).state, STATE_BOUND);
    }
    let start = Instant::now();
    restart(&mut daemon, &clients);
    eprintln!("{count} clients came back in {:?}", start.elapsed());
    holds(&daemon, count as u64);
    assert_eq!((daemon.row().unattached, daemon.row().running), (0, count as u32));
    for client in &clients {
        let end = client.send(RequestBody::TaskEnd, slot(0)).expect("send");
        assert_eq!(answer(client, slot(0), end).state, STATE_FREE);
    }
    holds(&daemon, 0);
}

#[test]
fn a_hundred_clients_go_on_after_a_restart() {
    clients_go_on(100);
}

#[test]
#[ignore = "long"]
fn a_thousand_clients_go_on_after_a_restart() {
    clients_go_on(1000);
}

#[test]
#[ignore = "long"]
fn a_thousand_clients_are_found_by_what_the_service_manager_kept() {
    crate::service_manager::clients_go_on(1000);
}

/// As many clients as have two descriptors each under the limit of 20,000 that machines like the build machine have.
#[test]
#[ignore = "long"]
fn a_crowd_comes_and_dies_at_once() {
    let (soft, _) =
        nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).expect("limit");
    let count = 9500.min((soft as usize).saturating_sub(500) / 2);
    if count < 9500 {
        eprintln!("SKIPPED: {count} clients in place of 9500, for want of descriptors");
    }
    let daemon = Daemon::start(&CROWD);
    // The state file is opened with the first client.
    let _first = daemon.connect("first");
    daemon.until(|row| row.clients == 1);
    let before = daemon.descriptors();
    let mut crowd = Hostile::start(&daemon, &["--crowd", &count.to_string()]);
    eprintln!("{:?}", crowd.said);
    assert!(
        crowd.said.iter().any(|line| line.starts_with(&format!("{count} clients in "))),
        "{:?}",
        crowd.said
    );
    let start = Instant::now();
    crowd.signal(Signal::SIGKILL);
    crowd.end();
    daemon.until(|row| row.clients <= 1);
    eprintln!("{count} clients were reaped in {:?}", start.elapsed());
    daemon.gives_back(before);
}

/// A generator without a crate: the same numbers from the same seed.
struct Draw(u64);

impl Draw {
    fn from_environment() -> Draw {
        let given = std::env::var("EAGER_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| u64::from(std::process::id()) << 20 | 1);
        eprintln!("EAGER_TEST_SEED={seed}");
        Draw(seed.max(1))
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn kills(variable: &str, otherwise: u32) -> u32 {
    std::env::var(variable).ok().and_then(|count| count.parse().ok()).unwrap_or(otherwise)
}

#[test]
#[ignore = "long"]
fn ten_thousand_random_kills_of_clients_leave_nothing() {
    let daemon = Daemon::start(&["--policy", "eager-opt"]);
    let stays = daemon.connect("stays");
    answer(&stays, slot(0), begin(&stays, slot(0), 100));
    let before = daemon.descriptors();
    let mut draw = Draw::from_environment();
    for kill in 0..kills("EAGER_TEST_CLIENT_KILLS", 10_000) {
        let step = draw.below(13).to_string();
        let mut client = Hostile::start(&daemon, &["--die-at", &step]);
        assert_eq!(client.end(), None, "kill {kill} at step {step}");
        daemon.until(|row| row.clients == 1);
        holds(&daemon, 100);
        daemon.gives_back(before);
    }
}

#[test]
#[ignore = "long"]
fn a_thousand_random_kills_of_the_daemon_lose_nothing() {
    let mut daemon = Daemon::start(&CROWD);
    let clients: Vec<ClientConnection> = (0..8).map(|_| daemon.connect("client")).collect();
    let mut held = vec![0u64; clients.len()];
    let mut draw = Draw::from_environment();
    for kill in 0..kills("EAGER_TEST_DAEMON_KILLS", 1000) {
        // A request is under way while the daemon dies: sent, and perhaps answered.
        let which = draw.below(clients.len() as u64) as usize;
        let client = &clients[which];
        let mib = 1 + draw.below(100);
        let asked = if held[which] == 0 {
            held[which] = mib;
            begin(client, slot(0), mib)
        } else {
            held[which] = 0;
            client.send(RequestBody::TaskEnd, slot(0)).expect("send")
        };
        if draw.below(2) == 0 {
            answer(client, slot(0), asked);
        }
        restart(&mut daemon, &clients);
        wait_until(client, slot(0), |cell| cell.answers(asked));
        assert_eq!(daemon.device().granted_bytes, held.iter().sum::<u64>() * MIB, "after kill {kill}");
    }
}

/// Without the limit on one user's tasks in the queue, each decision looks at all of them: the measure tells that from
/// the same attack with the limit. Only on a machine that does nothing else: a daemon that is so slow on purpose, and
/// also gets little processor time, answers nobody within any deadline.
#[test]
#[ignore = "long"]
fn the_measure_sees_a_queue_that_is_looked_at_whole() {
    let (bounded, attack) = (["--policy", "eager-live"], ["--waiting", "12000"]);
    let whole = [&bounded[..], &["--queued-per-user", "12000"]].concat();
    let Some((with, _)) = ratio(&bounded, &attack, "flooding", 0) else { return };
    let Some((without, _)) = ratio(&whole, &attack, "flooding", 8000) else { return };
    assert!(without > 1.5 * with, "8,000 tasks in the queue: {without:.1} times as much, bounded {with:.1}");
}
