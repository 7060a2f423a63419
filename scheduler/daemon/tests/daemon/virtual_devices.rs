//! The daemon with a server of virtual GPUs as its child.
//!
//! Trap: the server is another package's executable, which cargo does not build for these tests. Where it is missing
//! they are skipped, loudly; the system tests build everything.

use crate::support::{Daemon, MIB, answer, begin, slot};
use eager_gpu_model::AllocKind;
use eager_proto::reply::STATE_BOUND;
use eager_vgpu_link::{Backend, Request};
use nix::sys::signal::{Signal, kill};
use std::path::Path;
use std::process::Command;

/// A daemon on two small virtual devices; none when there is no server executable.
fn start() -> Option<Daemon> {
    let eagerd = Path::new(env!("CARGO_BIN_EXE_eagerd"));
    let server = eagerd.with_file_name("eager-vgpud");
    if !server.is_file() {
        eprintln!("SKIPPED: {} is not built (cargo build -p eager-vgpud)", server.display());
        return None;
    }
    let dir = tempfile::tempdir().expect("folder");
    let mut command = Command::new(eagerd);
    command.args(["--virtual", "2xV100-16GB", "--time-scale", "0", "--memory-scale", "16", "--run-dir"]);
    command.arg(dir.path().join("run"));
    Some(Daemon::spawn(dir, command, "2 virtual devices, policy eager-opt"))
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
fn a_server_that_ends_by_itself_ends_the_daemon_with_the_reason() {
    let Some(mut daemon) = start() else { return };
    kill(server(&daemon), Signal::SIGKILL).expect("kill");
    let (status, said) = daemon.end();
    assert_eq!(status.code(), Some(1));
    assert!(
        said.starts_with("eagerd: the virtual GPU server ended by itself") && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn a_killed_daemon_takes_its_server_along() {
    let Some(mut daemon) = start() else { return };
    let server = server(&daemon);
    let pidfd = rustix::process::pidfd_open(
        rustix::process::Pid::from_raw(server.as_raw()).expect("a pid"),
        rustix::process::PidfdFlags::empty(),
    )
    .expect("the server lives");
    daemon.signal(Signal::SIGKILL);
    daemon.child.wait().expect("wait");
    let mut ended = [nix::poll::PollFd::new(std::os::fd::AsFd::as_fd(&pidfd), nix::poll::PollFlags::POLLIN)];
    let limit = nix::poll::PollTimeout::from(30_000u16);
    assert_eq!(nix::poll::poll(&mut ended, limit), Ok(1), "the server outlives the daemon");
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
    // 450 MiB of context, at scale 16, and what cannot be evicted.
    let context = (450 * MIB).div_ceil(16);
    used(300 * MIB + context);
    assert_eq!(daemon.devices()[0].foreign_bytes, 0);
    // The process asks for what it has, and is scheduled from then on.
    let client = daemon.connect("late");
    daemon.until(|row| row.overruns == 1);
    assert_eq!(
        (daemon.devices()[1].foreign_bytes, daemon.devices()[1].unaccounted_bytes),
        (0, 300 * MIB + context)
    );
    drop(client);
}
