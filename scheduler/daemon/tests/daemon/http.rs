//! HTTP: what is served to which connection, and that no connection can hurt the server or the loop that decides.

use crate::support::{Daemon, LONG, answer, begin, command, slot};
use crate::watchdog::{ask_to_break, strike};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Sends a request and returns the whole answer.
fn exchange(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("request");
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // A refusal may come before the whole request was read; the rest is then reset.
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    String::from_utf8(answer).expect("text")
}

pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

pub fn over_unix(daemon: &Daemon, request: &str) -> String {
    exchange(UnixStream::connect(daemon.run_dir().join("http.sock")).expect("connect"), request)
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").expect("a head").1
}

/// Starts a daemon on a port of the system's choice. Returns the port, which the ready line names.
pub fn with_address(arguments: &[&str]) -> (Daemon, u16) {
    let dir = tempfile::tempdir().expect("folder");
    let mut command = command(dir.path());
    command.args(["--http", "0"]).args(arguments);
    let (daemon, line) = Daemon::spawn_anyhow(dir, command);
    (daemon, port_in(&line))
}

fn port_in(line: &str) -> u16 {
    let port = line.split("http://127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next());
    port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("it said {line:?}"))
}

pub fn over_tcp(port: u16, request: &str) -> String {
    exchange(TcpStream::connect(("127.0.0.1", port)).expect("connect"), request)
}

#[test]
fn metrics_health_and_page_are_on_the_owners_socket() {
    let daemon = Daemon::start(&[]);
    let client = daemon.connect("job");
    answer(&client, slot(0), begin(&client, slot(0), 100));
    let metrics = over_unix(&daemon, &get("/metrics"));
    assert!(
        metrics.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"),
        "{metrics}"
    );
    for line in [
        "eager_tasks{state=\"running\"} 1.0",
        "eager_device_memory_granted_bytes{gpu=\"0\",modelName=\"test\"} 104857600.0",
        "eager_tasks_started_total{class=\"normal\"} 1",
        "eager_task_wait_seconds_count{class=\"normal\"} 1",
        "eager_clients 1.0",
        "# EOF",
    ] {
        assert!(metrics.lines().any(|found| found == line), "no {line:?} in\n{metrics}");
    }
    assert_eq!(body(&over_unix(&daemon, &get("/healthz"))), "ok\n");
    assert!(over_unix(&daemon, &get("/")).contains("<html lang=\"en\">"));
    let snapshot = over_unix(&daemon, &get("/api/snapshot"));
    let value: serde_json::Value = serde_json::from_str(body(&snapshot)).expect("JSON");
    assert_eq!(value["tasks"][0]["label"], "job");
    assert_eq!(value["lives"][0]["spans"][0]["state"], "normal");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(daemon.run_dir().join("http.sock")).expect("socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn an_address_has_the_page_only_where_that_was_asked_for_and_strangers_names_get_nothing() {
    let (daemon, port) = with_address(&[]);
    assert!(over_tcp(port, &get("/metrics")).contains("# EOF"));
    assert!(over_tcp(port, &get("/api/snapshot")).starts_with("HTTP/1.1 404 "));
    drop(daemon);
    let (_daemon, port) = with_address(&["--web-page", "--http-hosts", "gpu01"]);
    assert!(over_tcp(port, &get("/api/snapshot")).starts_with("HTTP/1.1 200 "));
    let named = |host: &str| over_tcp(port, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert!(named("gpu01:9690").starts_with("HTTP/1.1 200 "));
    for other in ["evil.example", "gpu01.evil.example", ""] {
        let answer = named(other);
        assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains("<html"), "{other}: {answer}");
    }
}

#[test]
fn bytes_that_are_no_request_get_one_line_and_change_nothing() {
    let daemon = Daemon::start(&[]);
    for (request, status) in [
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "405"),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "403"),
        ("\x16\x03\x01\x02 nonsense\r\n\r\n".to_owned(), "400"),
        (format!("GET /{} HTTP/1.1\r\n", "a".repeat(9000)), "431"),
        ("GET /etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "404"),
    ] {
        let answer = over_unix(&daemon, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.40?} got {answer}");
    }
    assert_eq!(body(&over_unix(&daemon, &get("/healthz"))), "ok\n");
}

#[test]
fn silent_connections_make_room_and_no_descriptor_is_kept() {
    let daemon = Daemon::start(&[]);
    // After an answer the loop runs, and everything is open.
    daemon.row();
    let before = daemon.descriptors();
    let path = daemon.run_dir().join("http.sock");
    let silent: Vec<UnixStream> = (0..100).map(|_| UnixStream::connect(&path).expect("connect")).collect();
    assert_eq!(body(&over_unix(&daemon, &get("/healthz"))), "ok\n");
    assert!(daemon.descriptors() <= before + 17, "{} descriptors, {before} before", daemon.descriptors());
    // The oldest connections were cut off.
    let mut first = &silent[0];
    first.set_read_timeout(Some(LONG)).expect("timeout");
    assert_eq!(first.read(&mut [0; 8]).expect("its end"), 0);
    drop(silent);
    daemon.gives_back(before);
}

#[test]
fn who_reads_no_answer_is_cut_off_and_keeps_nobody_waiting() {
    let daemon = Daemon::start(&[]);
    let path = daemon.run_dir().join("http.sock");
    let mut greedy = UnixStream::connect(&path).expect("connect");
    greedy.write_all(get("/page.js").as_bytes()).expect("request");
    assert_eq!(body(&over_unix(&daemon, &get("/healthz"))), "ok\n");
    // Half a request is ended by the deadline alone.
    let mut half = UnixStream::connect(&path).expect("connect");
    half.write_all(b"GET / HT").expect("half a request");
    half.set_read_timeout(Some(LONG)).expect("timeout");
    let begun = Instant::now();
    assert_eq!(half.read(&mut [0; 8]).expect("its end"), 0);
    assert!(begun.elapsed() > Duration::from_secs(5), "it had its time");
}

#[test]
fn an_address_that_is_taken_is_said_and_the_daemon_does_not_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = taken.local_addr().expect("address").to_string();
    let dir = tempfile::tempdir().expect("folder");
    let output = command(dir.path()).args(["--http", &address]).output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(78), 1), "{said}");
    let expected = format!("eagerd: cannot serve at {address}: ");
    assert!(said.starts_with(&expected) && said.contains("--http"), "{said}");
}

/// A loop that stands still is not healthy, and `/healthz` reports so within a bounded time.
#[test]
fn a_daemon_that_is_stuck_is_not_healthy() {
    let dir = tempfile::tempdir().expect("folder");
    let mut command = command(dir.path());
    command.args(["--watchdog", "30"]).env("EAGERD_FAULTY_POLICY", "loops");
    let daemon = Daemon::spawn(dir, command, "1 file device");
    let client = daemon.connect("stuck");
    ask_to_break(&client);
    let answer = over_unix(&daemon, &get("/healthz"));
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("does not answer"), "{answer}");
}

/// The confined daemon cannot open such sockets again: it gets them from the process before.
#[test]
fn a_daemon_that_its_watchdog_started_again_serves_the_same_doors_and_takes_its_own_with_it() {
    let dir = tempfile::tempdir().expect("folder");
    let mut command = command(dir.path());
    command.args(["--http", "0", "--watchdog", "1"]).env("EAGERD_FAULTY_POLICY", "loops");
    let (mut daemon, line) = Daemon::spawn_anyhow(dir, command);
    let port = port_in(&line);
    let client = daemon.connect("stuck");
    strike(&client);
    let health = over_unix(&daemon, &get("/healthz"));
    assert!(body(&health).starts_with("degraded: policy reverted: "), "{health}");
    let health = over_tcp(port, &get("/healthz"));
    assert!(body(&health).starts_with("degraded: policy reverted: "), "{health}");
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    let (status, said) = daemon.end();
    assert!(status.success(), "{said}");
    for socket in ["client.sock", "admin.sock", "http.sock"] {
        assert!(!daemon.run_dir().join(socket).exists(), "{socket} was left behind");
    }
}

/// Whoever reaches the port may ask without pause: the daemon answers as fast as a quarter of one processor allows.
#[test]
fn a_flood_at_the_port_takes_a_quarter_of_a_processor() {
    let (daemon, port) = with_address(&[]);
    let flood = |until: Instant| {
        move || {
            while Instant::now() < until {
                assert!(over_tcp(port, &get("/metrics")).starts_with("HTTP/1.1 200 OK"));
            }
        }
    };
    let (ticks, begun) = (daemon.cpu_ticks(), Instant::now());
    let floods = [(); 4].map(|()| std::thread::spawn(flood(begun + Duration::from_secs(2))));
    floods.into_iter().for_each(|flood| flood.join().expect("answered each time"));
    let share = (daemon.cpu_ticks() - ticks) as f64 / (100.0 * begun.elapsed().as_secs_f64());
    // The loop that decides gives the snapshots: some more.
    assert!(share < 0.4, "it keeps the daemon busy: {share:.2}");
}
