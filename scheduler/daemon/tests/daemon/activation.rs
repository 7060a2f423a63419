//! A daemon whose sockets a service manager made before it (systemd's socket units); the test plays the manager.
//!
//! Trap: the test keeps the sockets open, as the manager does, so a connection succeeds whether or not a daemon is there.

use crate::http::{get, over_tcp, over_unix};
use crate::support::{Daemon, LONG, MIB, answer, begin, command, handing_down, slot, take_dir};
use crate::watchdog::strike;
use eager_proto::hello::Hello;
use eager_proto::reply::STATE_BOUND;
use eager_shm::client::ClientConnection;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const SOCKETS: [&str; 3] = ["client.sock", "admin.sock", "http.sock"];

struct Manager {
    sockets: Vec<OwnedFd>,
    port: u16,
}

impl Manager {
    /// Makes sockets as a socket unit does: blocking, in any order, all under the unit's name.
    fn start(run_dir: &Path) -> Manager {
        std::fs::create_dir(run_dir).expect("run directory");
        let clients = eager_shm::bind_seqpacket(&run_dir.join("client.sock")).expect("clients' socket");
        fcntl(&clients, FcntlArg::F_SETFL(OFlag::empty())).expect("blocking");
        let stream = |name: &str| OwnedFd::from(UnixListener::bind(run_dir.join(name)).expect(name));
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = tcp.local_addr().expect("its address").port();
        Manager { sockets: vec![tcp.into(), stream("http.sock"), clients, stream("admin.sock")], port }
    }

    fn command(&self, plain: &Command) -> Command {
        let sockets: Vec<(&str, &OwnedFd)> = self.sockets.iter().map(|fd| ("eagerd.socket", fd)).collect();
        handing_down(plain, &sockets)
    }

    fn spawn(&self, dir: TempDir, arguments: &[&str]) -> Daemon {
        let mut plain = command(dir.path());
        plain.args(arguments);
        Daemon::spawn(dir, self.command(&plain), "1 file device, policy ")
    }
}

fn all_doors_answer(daemon: &Daemon, port: u16) {
    assert_eq!(daemon.row().pid, daemon.child.id());
    for answer in [over_unix(daemon, &get("/healthz")), over_tcp(port, &get("/healthz"))] {
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
}

#[test]
fn who_comes_before_the_daemon_is_served_by_it_and_the_sockets_outlive_it() {
    let dir = tempfile::tempdir().expect("folder");
    let run_dir = dir.path().join("run");
    let manager = Manager::start(&run_dir);
    let socket = run_dir.join("client.sock");
    let early = std::thread::spawn(move || {
        ClientConnection::connect(&socket, &Hello::new("early"), LONG).expect("served later")
    });
    let mut daemon = manager.spawn(dir, &[]);
    let early = early.join().expect("the early one");
    assert_eq!(answer(&early, slot(0), begin(&early, slot(0), 100)).state, STATE_BOUND);
    all_doors_answer(&daemon, manager.port);

    daemon.signal(Signal::SIGTERM);
    assert!(daemon.end().0.success());
    for socket in SOCKETS {
        assert!(run_dir.join(socket).exists(), "{socket} is the manager's");
    }
    let dir = take_dir(&mut daemon);
    // The daemon does not open an address again that it was given as a socket.
    let daemon = manager.spawn(dir, &["--http", &manager.port.to_string()]);
    early.resume(LONG).expect("the same client");
    assert_eq!(daemon.device().granted_bytes, 100 * MIB);
    all_doors_answer(&daemon, manager.port);
}

#[test]
fn the_watchdog_hands_the_managers_sockets_on() {
    let dir = tempfile::tempdir().expect("folder");
    let run_dir = dir.path().join("run");
    let manager = Manager::start(&run_dir);
    let mut plain = command(dir.path());
    plain.args(["--policy", "eager-opt", "--watchdog", "1"]);
    let mut command = manager.command(&plain);
    command.env("EAGERD_FAULTY_POLICY", "loops");
    let mut daemon = Daemon::spawn(dir, command, "1 file device, policy eager-opt");
    let client = daemon.connect("stuck");
    assert_eq!(strike(&client).state, STATE_BOUND);
    assert!(daemon.row().policy_state.starts_with("reverted"));
    assert!(over_tcp(manager.port, &get("/healthz")).contains("degraded: policy reverted"));
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.end().0.success());
    for socket in SOCKETS {
        assert!(run_dir.join(socket).exists(), "{socket} is the manager's");
    }
}

#[test]
fn a_socket_of_the_wrong_kind_is_said_with_the_line_that_mends_it() {
    let dir = tempfile::tempdir().expect("folder");
    let run_dir = dir.path().join("run");
    std::fs::create_dir(&run_dir).expect("run directory");
    let wrong: OwnedFd = UnixListener::bind(run_dir.join("client.sock")).expect("socket").into();
    let output = handing_down(&command(dir.path()), &[("eagerd.socket", &wrong)]).output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(78) && said.lines().count() == 1, "{said}");
    assert!(said.contains("client.sock: ") && said.contains("ListenSequentialPacket="), "{said}");
    assert!(run_dir.join("client.sock").exists(), "it is not ours");
}
