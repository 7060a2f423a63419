//! The daemon with a server of virtual GPUs, which outlives it.
//!
//! Trap: the server is another package's executable, which cargo does not build for these tests. Where it is missing
//! they are skipped, with a message; the system tests build everything.

use crate::support::{Daemon, LONG, MIB, answer, begin, slot};
use eager_gpu_model::AllocKind;
use eager_proto::reply::STATE_BOUND;
use eager_vgpu_link::{Backend, LinkError, Request, Socket, query_devices};
use nix::sys::signal::{Signal, kill};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Starts a daemon on two small virtual devices; none if there is no server executable.
fn start() -> Option<Daemon> {
    let eagerd = Path::new(env!("CARGO_BIN_EXE_eagerd"));
    let server = eagerd.with_file_name("eager-vgpud");
    if !server.is_file() {
        eprintln!("SKIPPED: {} is not built (cargo build -p eager-vgpud)", server.display());
        return None;
    }
    let dir = tempfile::tempdir().expect("folder");
    let command = command(dir.path());
    Some(Daemon::spawn(dir, command, "2 virtual devices, policy eager-fair"))
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eagerd"));
    command.args(["--virtual", "2xV100-16GB", "--time-scale", "0", "--memory-scale", "16", "--run-dir"]);
    command.arg(dir.join("run"));
    command
}

/// The daemon's only child.
fn server(daemon: &Daemon) -> nix::unistd::Pid {
    let pid = daemon.child.id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("children");
    nix::unistd::Pid::from_raw(children.trim().parse().expect("one child"))
}

#[test]
fn devices_are_those_of_the_server() {
    let Some(mut daemon) = start() else { return };
    let device = daemon.device();
    assert_eq!((device.name.as_str(), device.kind.as_str()), ("V100-16GB", "virtual"));
    assert_eq!(device.capacity_bytes, 1 << 30, "program bytes: 16 GiB at scale 16");
    let infos = eager_vgpu_link::query_devices(&daemon.run_dir().join("vgpu.sock")).expect("the server");
    assert_eq!(infos.len(), 2);
    let client = daemon.connect("vecadd");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 500)).state, STATE_BOUND);
    daemon.signal(Signal::SIGTERM);
    let (status, said) = daemon.end();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    assert!(!daemon.run_dir().join("vgpu.sock").exists());
}

#[test]
fn a_server_that_ends_is_replaced_and_the_daemon_goes_on() {
    let Some(mut daemon) = start() else { return };
    let socket = daemon.run_dir().join("vgpu.sock");
    let holder = daemon.connect("holder");
    assert_eq!(answer(&holder, slot(0), begin(&holder, slot(0), 500)).state, STATE_BOUND);
    let link = Socket::connect(&socket).expect("the server");
    let old = server(&daemon);
    kill(old, Signal::SIGKILL).expect("kill");
    // A program on the killed server gets an error at once, and at every later call.
    for _ in 0..2 {
        let lost = link.call(Request::Devices).expect_err("its server is gone");
        assert!(matches!(lost, LinkError::Lost(_)), "{lost}");
    }
    let deadline = Instant::now() + LONG;
    while query_devices(&socket).is_err() {
        assert!(Instant::now() < deadline, "no new server");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_ne!(server(&daemon), old);
    let newcomer = daemon.connect("newcomer");
    assert_eq!(answer(&newcomer, slot(0), begin(&newcomer, slot(0), 100)).state, STATE_BOUND);
    assert_eq!(daemon.tasks().len(), 2, "grants end with their programs");
    daemon.signal(Signal::SIGTERM);
    let (status, said) = daemon.end();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(
        said.contains("the virtual GPU server ended by itself") && said.contains("a new one was started"),
        "{said}"
    );
}

#[test]
fn a_killed_daemons_virtual_gpus_go_on_and_the_next_daemon_finds_them() {
    let Some(mut daemon) = start() else { return };
    let socket = daemon.run_dir().join("vgpu.sock");
    let client = daemon.connect("program");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 500)).state, STATE_BOUND);
    let link = Socket::connect(&socket).expect("the server");
    link.call(Request::OpenContext { device: 0 }).expect("a context");
    let allocate = Request::Allocate { device: 0, bytes: 300 * MIB, kind: AllocKind::Device };
    link.call(allocate).expect("memory");
    let before = daemon.tasks();
    let of_server = server(&daemon);
    daemon.signal(Signal::SIGKILL);
    daemon.child.wait().expect("wait");
    let free = |devices: Vec<eager_vgpu_link::DeviceInfo>| devices[0].free_bytes;
    let left = free(query_devices(&socket).expect("the server goes on"));

    let dir = std::mem::replace(&mut daemon.dir, tempfile::tempdir().expect("folder"));
    // A daemon of other devices is refused in one line, and nothing is lost.
    let mut other = Command::new(env!("CARGO_BIN_EXE_eagerd"));
    other.args(["--virtual", "1xV100-16GB", "--run-dir"]).arg(dir.path().join("run"));
    let refused = other.output().expect("eagerd");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(said.lines().count() == 1 && said.contains(&format!("pid {of_server}")), "{said}");

    let command = command(dir.path());
    let mut next = Daemon::spawn(dir, command, "2 virtual devices, policy eager-fair");
    let again = next.tasks();
    let granted =
        |tasks: &[eager_proto::admin::TaskRow]| tasks.iter().map(|task| task.grant_bytes).sum::<u64>();
    assert_eq!((again.len(), granted(&again)), (before.len(), granted(&before)), "the ledger");
    assert_eq!(free(query_devices(&socket).expect("the same server")), left);
    let device = next.connect("newcomer");
    assert_eq!(answer(&device, slot(0), begin(&device, slot(0), 100)).state, STATE_BOUND);
    // The daemon ends in order: programs stay where they are, and the server ends with the last of them.
    next.signal(Signal::SIGTERM);
    assert_eq!(next.child.wait().expect("wait").code(), Some(0));
    assert!(link.call(Request::Devices).is_ok(), "a program is on it");
    drop(link);
    let deadline = Instant::now() + LONG;
    while socket.exists() {
        assert!(Instant::now() < deadline, "the server outlives its last program and daemon");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_programs_use_of_virtual_devices_is_seen_whatever_they_say_of_themselves() {
    let Some(daemon) = start() else { return };
    let link = eager_vgpu_link::Socket::connect(&daemon.run_dir().join("vgpu.sock")).expect("the server");
    let ask = |request| link.call(request).expect("done");
    ask(Request::OpenContext { device: 1 });
    ask(Request::Allocate { device: 1, bytes: 300 * MIB, kind: AllocKind::Device });
    ask(Request::Allocate { device: 1, bytes: 500 * MIB, kind: AllocKind::Managed });
    let used = |bytes: u64| daemon.until(|_| daemon.devices()[1].foreign_bytes == bytes);
    // A context of 450 MiB at scale 16, and the allocation that cannot be evicted.
    let context = (450 * MIB).div_ceil(16);
    used(300 * MIB + context);
    assert_eq!(daemon.devices()[0].foreign_bytes, 0);
    // The process connects with memory in use, and is scheduled from then on.
    let client = daemon.connect("late");
    daemon.until(|row| row.overruns == 1);
    assert_eq!(
        (daemon.devices()[1].foreign_bytes, daemon.devices()[1].unaccounted_bytes),
        (0, 300 * MIB + context)
    );
    drop(client);
}
