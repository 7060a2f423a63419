//! `eagerd`: the scheduler daemon. Reads its settings, claims the run directory, opens the devices, and runs the loop.
//!
//! Trap: signals are blocked before any thread or child exists, so that they arrive in the loop and nowhere else.
#![forbid(unsafe_code)]

mod admin;
mod config;
mod devices;
mod dispatch;
mod journal;
mod log;
mod newcomers;
mod run_dir;
mod shell;
mod size;
mod slots;
mod tables;
mod virtual_gpus;

use crate::admin::AdminServer;
use crate::config::{Config, Settings, World};
use crate::devices::Devices;
use crate::dispatch::Dispatch;
use crate::journal::Journal;
use crate::run_dir::RunDir;
use crate::shell::Shell;
use anyhow::Context;
use clap::Parser;
use eager_core::Scheduler;
use eager_core::event::Event;
use eager_core::units::{Bytes, DeviceId};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::{Mode, umask};
use nix::unistd::Uid;
use std::fs::Permissions;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::time::Instant;

/// Descriptors that are not clients': sockets, journal, standard streams, newcomers.
const DESCRIPTORS_RESERVED: u64 = 256;
/// Socket and pidfd.
const DESCRIPTORS_PER_CLIENT: u64 = 2;

fn main() -> ExitCode {
    match run(Config::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to be told that standard error is closed.
            let _ = writeln!(std::io::stderr(), "eagerd: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: Config) -> anyhow::Result<()> {
    let show = flags.show_config;
    let xdg_runtime_dir = std::env::var_os("XDG_RUNTIME_DIR");
    let world = World { xdg_runtime_dir: xdg_runtime_dir.as_deref(), is_root: Uid::effective().is_root() };
    let settings = flags.with_file()?.resolve(world)?;
    if show {
        print!("{}", toml::to_string(&settings).context("settings as TOML")?);
        return Ok(());
    }
    let signals = block_signals().context("signals")?;
    let run_dir = RunDir::claim(&settings.run_dir)?;
    // Dropped before the run directory, whose sockets it uses.
    let mut shell = open(&settings, &run_dir, signals)?;
    shell.run()
}

/// Devices, sockets, core; then the line that says so.
fn open(settings: &Settings, run_dir: &RunDir, signals: SignalFd) -> anyhow::Result<Shell> {
    let clients_max = settings.clients_max.min(clients_by_descriptors());
    let devices = Devices::open(settings, &run_dir.vgpu_socket())?;
    let mut options = settings.options.clone();
    if options.context_bytes == Bytes::ZERO {
        options.context_bytes = devices.context_bytes;
    }
    let scheduler = Scheduler::new(settings.policy, options);
    let journal = match &settings.journal {
        None => Journal::none(),
        Some(path) => {
            Journal::create(path, &scheduler).with_context(|| format!("journal {}", path.display()))?
        }
    };
    let summary = devices.summary();
    let mut dispatch = Dispatch::new(scheduler, journal, Instant::now());
    for (device, profile) in (0..).map(DeviceId).zip(devices.profiles) {
        dispatch.happen(Event::DeviceAdded { device, profile }, None);
    }
    let (listener, admin) = listen(run_dir)?;
    let ready = format!(
        "eagerd: ready: {summary}, policy {}, socket {}",
        settings.policy,
        run_dir.client_socket().display()
    );
    // Whoever started it may not read its output.
    let _ = writeln!(std::io::stdout(), "{ready}");
    Ok(Shell::new(
        dispatch,
        listener,
        AdminServer::new(admin),
        signals,
        devices.server,
        devices.kind,
        clients_max,
    ))
}

/// Both sockets. Root serves everybody, anybody else only themselves; the admin socket is the owner's alone.
fn listen(run_dir: &RunDir) -> anyhow::Result<(OwnedFd, UnixListener)> {
    // The sockets are born closed to others, and opened as far as they shall be.
    umask(Mode::from_bits_truncate(0o177));
    let path = run_dir.client_socket();
    let listener = eager_shm::bind_seqpacket(&path).with_context(|| format!("socket {}", path.display()))?;
    if Uid::effective().is_root() {
        for socket in [path, run_dir.vgpu_socket()].iter().filter(|socket| socket.exists()) {
            std::fs::set_permissions(socket, Permissions::from_mode(0o666))
                .with_context(|| format!("opening {} to all", socket.display()))?;
        }
    }
    let path = run_dir.admin_socket();
    let admin = UnixListener::bind(&path).with_context(|| format!("socket {}", path.display()))?;
    admin.set_nonblocking(true).context("admin socket")?;
    Ok((listener, admin))
}

fn block_signals() -> nix::Result<SignalFd> {
    // SIGXFSZ would end the daemon when the journal reaches a limit; blocked, the write fails and is handled.
    let mask: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGCHLD, Signal::SIGXFSZ]
        .into_iter()
        .collect();
    mask.thread_block()?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

/// As many clients as there are descriptors for, after asking for all that may be had.
fn clients_by_descriptors() -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return usize::MAX };
    let limit = if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft };
    let clients = limit.saturating_sub(DESCRIPTORS_RESERVED) / DESCRIPTORS_PER_CLIENT;
    usize::try_from(clients).unwrap_or(usize::MAX).max(1)
}
