//! `eagerd`: the scheduler daemon. Reads its settings, claims the run directory, opens the devices, and runs the loop.
//!
//! A library only so that a fuzzer reaches the parts that take untrusted bytes ([`fuzz`]).
//!
//! Trap: signals must be blocked before the first thread or child starts; otherwise they arrive there instead of in the
//! loop.
#![forbid(unsafe_code)]

mod admin;
mod clients;
mod devices;
mod dispatch;
#[doc(hidden)]
pub mod fuzz;
mod http;
mod persistence;
mod policy;
mod process;
mod settings;
mod shell;

use crate::admin::server::AdminServer;
use crate::clients::identity;
use crate::clients::quota::Quotas;
use crate::devices::Devices;
use crate::devices::nvml::NvmlUsage;
use crate::devices::usage::{FileUsage, Observer, UsageSource, VirtualUsage};
use crate::devices::virtual_gpus::VirtualGpus;
use crate::dispatch::Dispatch;
use crate::http::Doors;
use crate::persistence::ended_file::EndedFile;
use crate::persistence::journal::{Journal, Place};
use crate::persistence::run_dir::RunDir;
use crate::persistence::run_dir::RunDirError;
use crate::persistence::state_file::{Kept, StateFile};
use crate::policy::guarded_core::GuardedCore;
use crate::policy::run_history::RunHistory;
use crate::policy::watchdog;
use crate::process::exit::{self, Unservable};
use crate::process::listeners::{Listeners, OWN};
use crate::process::service_manager::ServiceManager;
use crate::process::{detach, fault, harden, listeners, service_manager, users};
use crate::settings::config::ConfigError;
use crate::settings::config::{Config, Settings};
use crate::settings::file;
use crate::settings::origins;
use crate::settings::origins::Origins;
use crate::shell::reload::Source;
use crate::shell::{Parts, Shell};
use anyhow::Context;
use clap::{ArgMatches, FromArgMatches};
use eager_core::event::Event;
use eager_core::{PolicyName, Scheduler};
use eager_units::{Bytes, DeviceId, Nanos};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Uid;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Descriptors kept back for everything but clients: sockets, journal, standard streams, newcomers. Less where the
/// limit is low.
const DESCRIPTORS_RESERVED: u64 = 256;
/// Socket and pidfd of each client.
const DESCRIPTORS_PER_CLIENT: u64 = 2;

/// Runs the whole program.
pub fn main() -> ExitCode {
    let manuals = |share: &Path| eager_manuals::write(origins::command(), 8, share);
    if let Some(code) = eager_manuals::requested(std::env::args_os().skip(1), manuals) {
        return code;
    }
    let matches = origins::command().get_matches();
    let done = Config::from_arg_matches(&matches)
        .map_err(|error| -> anyhow::Error { error.exit() })
        .and_then(|flags| run(flags, &matches));
    match done {
        Ok(code) => code,
        Err(error) => {
            let line = format!("eagerd: {error:#}");
            // If standard error is closed, the line has no reader.
            let _ = writeln!(std::io::stderr(), "{line}");
            detach::report_to_starter(&line);
            status(&error)
        }
    }
}

/// To start again with the same settings would end the same where one of these is the cause.
fn status(error: &anyhow::Error) -> ExitCode {
    let is_configuration_error =
        error.is::<ConfigError>() || error.is::<RunDirError>() || error.is::<Unservable>();
    if is_configuration_error { ExitCode::from(exit::CONFIGURATION) } else { ExitCode::FAILURE }
}

fn run(flags: Config, matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let (show, detached) = (flags.show_config, flags.detached);
    if flags.detach && !show {
        return detach::start();
    }
    let xdg_runtime_dir = std::env::var_os("XDG_RUNTIME_DIR");
    let source = Source { flags, xdg_runtime_dir, is_root: Uid::effective().is_root() };
    let settings = source.read()?;
    if show {
        return show_settings(&settings, &source, matches).map(|()| ExitCode::SUCCESS);
    }
    users::check()?;
    let mut kept = service_manager::KeptDescriptors::from_environment(|name| std::env::var_os(name));
    let manager = ServiceManager::from_environment(|name| std::env::var_os(name));
    let signals = block_signals().context("signals")?;
    let given = |path: &Path| kept.has(|_, socket| listeners::is_at(socket, path));
    let mut run_dir = RunDir::claim(&settings.run_dir, given)?;
    if detached {
        detach::enter_background(run_dir.path())?;
    }
    for path in [run_dir.client_socket(), run_dir.admin_socket(), run_dir.http_socket()] {
        // A service manager keeps the client socket over a restart, no matter which of the two made it.
        let is_kept = manager.is_present() && path == run_dir.client_socket();
        if is_kept || kept.has(|name, socket| name != OWN && listeners::is_at(socket, &path)) {
            run_dir.keep_socket(path);
        }
    }
    // Declared after the run directory, so it is dropped first: it uses the sockets there.
    let mut shell = open(settings, source, &run_dir, signals, manager, &mut kept)?;
    shell.run().map(|()| ExitCode::SUCCESS)
}

/// Prints the settings that hold as a settings file, each with its origin.
fn show_settings(settings: &Settings, source: &Source, matches: &ArgMatches) -> anyhow::Result<()> {
    let path = source.flags.config.as_deref();
    // `Source::read` has read this file without an error; if it has vanished since, no setting is attributed to it.
    let file = path.map(|path| (path, file::text(path).unwrap_or_default()));
    let origins = Origins::of(matches, file.as_ref().map(|(path, text)| (*path, text.as_str())));
    print!("{}", origins.annotate(&toml::to_string(settings).context("settings as TOML")?));
    Ok(())
}

/// Opens devices, core and sockets, takes over the clients of an earlier daemon, and prints the ready line.
fn open(
    settings: Settings,
    source: Source,
    run_dir: &RunDir,
    signals: SignalFd,
    manager: ServiceManager,
    kept: &mut service_manager::KeptDescriptors,
) -> anyhow::Result<Shell> {
    let descriptors = descriptors();
    let clients_max = settings.clients_max.min(clients_for(descriptors));
    let (state, mut old, damage) = StateFile::open(&run_dir.state_file(), identity::boot());
    let devices = Devices::open(&settings, &run_dir.vgpu_socket(), &mut old)?;
    let mut dispatch = open_dispatch(&settings, run_dir, &devices, state, manager)?;
    log_leftovers(&devices, damage, &mut dispatch);
    let taken_over = restore(&devices, old, kept, &mut dispatch);
    let Listeners { clients, admin, http, tcp } = listeners::open(run_dir, kept, &dispatch.manager)?;
    kept.drop_untaken(&dispatch.manager);
    let doors = http::open(http, tcp, run_dir, &settings.http, settings.reverted.is_some())?;
    doors.problem.iter().for_each(|problem| dispatch.log(problem.clone()));
    let handed_down = handed_down(&clients, &admin, &doors, run_dir).context("listeners")?;
    let confinement = confine(&settings, &devices, run_dir);
    start_watchdog(&settings, &dispatch, handed_down)?;
    let observer = start_observer(&settings, &devices, run_dir).context("observer")?;
    if observer.is_some() {
        let now = dispatch.now();
        dispatch.truth.begin(now, devices.spare.clone());
    }
    let ready = ready_line(&devices, &dispatch, run_dir, &doors, taken_over);
    doors.serve().context("http thread")?;
    announce(&ready, &dispatch.manager);
    let parts = Parts {
        dispatch,
        listener: clients,
        admin: AdminServer::new(admin, descriptors),
        signals,
        server: devices.server,
        clock: devices.clock,
        observer,
        devices_kind: devices.kind,
        clients_max,
        confinement,
        descriptors,
        starved_after: Nanos::from_secs(settings.watchdog),
        settings,
        source,
    };
    Shell::new(parts).context("epoll")
}

/// Adds the devices to the core, takes over the clients of an earlier daemon, and returns how many.
fn restore(
    devices: &Devices,
    old: Kept,
    kept: &mut service_manager::KeptDescriptors,
    dispatch: &mut Dispatch,
) -> usize {
    if devices.clock.is_some() {
        dispatch.core.set_virtual_time(Nanos(0));
    }
    add_devices(devices, dispatch);
    let taken_over = dispatch.take_over(old, kept);
    dispatch.begin_state();
    for (device, status) in (0..).map(DeviceId).zip(&devices.statuses) {
        dispatch.apply_status(device, *status);
    }
    taken_over
}

/// Gives up what the daemon does not need any more. Returns the parts that hold, for `eager info`.
fn confine(settings: &Settings, devices: &Devices, run_dir: &RunDir) -> String {
    let journal_folder = settings.journal.as_ref().map(|path| path.parent().unwrap_or(Path::new(".")));
    // The driver is reached through files in /dev, some of which are opened only when they are needed.
    let driver = devices.nvml.is_some().then_some(Path::new("/dev"));
    let writable: Vec<&Path> = std::iter::once(run_dir.path()).chain(journal_folder).chain(driver).collect();
    harden::confine(&writable)
}

/// Starts the thread that restarts the daemon when the policy hangs.
fn start_watchdog(
    settings: &Settings,
    dispatch: &Dispatch,
    listeners: Vec<(String, OwnedFd)>,
) -> anyhow::Result<()> {
    let (heartbeat, started) = (dispatch.core.heartbeat(), dispatch.core.started());
    let limit = Nanos::from_secs(settings.watchdog);
    watchdog::start(heartbeat, started, limit, settings.reverted.is_some(), listeners).context("watchdog")
}

/// The line that reports that the daemon serves.
fn ready_line(
    devices: &Devices,
    dispatch: &Dispatch,
    run_dir: &RunDir,
    doors: &Doors,
    taken_over: usize,
) -> String {
    let again = if taken_over > 0 { format!(", {taken_over} programs taken over") } else { String::new() };
    format!(
        "eagerd: ready: {}, policy {}, socket {}{}{again}",
        devices.summary(),
        dispatch.core.scheduler.policy(),
        run_dir.client_socket().display(),
        doors.summary()
    )
}

/// Reports to the service manager, and to the command that started the daemon, that the daemon serves.
fn announce(ready: &str, manager: &ServiceManager) {
    manager.ready();
    // The starting process may not read this output.
    let _ = writeln!(std::io::stdout(), "{ready}");
    detach::release_starter();
}

/// Logs what an earlier daemon left: virtual GPUs with programs on them, and a damaged state file.
fn log_leftovers(devices: &Devices, damage: Option<String>, dispatch: &mut Dispatch) {
    if devices.server.as_ref().is_some_and(VirtualGpus::was_running) {
        dispatch.log("the virtual GPU server of an earlier daemon still runs, with its programs".to_owned());
    }
    if let Some(damage) = damage {
        dispatch.log(format!("the state file of an earlier daemon is {damage}"));
    }
}

/// Adds the devices to the core, and notes in the state file which GPU each number means.
fn add_devices(devices: &Devices, dispatch: &mut Dispatch) {
    dispatch.device_uuids = devices.uuids();
    devices.left_out.iter().for_each(|line| dispatch.log(line.clone()));
    for (device, profile) in (0..).map(DeviceId).zip(devices.profiles.clone()) {
        dispatch.step(Event::DeviceAdded { device, profile }, None);
    }
    if !devices.gpus.is_empty() {
        dispatch.state.devices(devices.kept());
    }
}

/// Sockets that the watchdog passes to the daemon it starts: a confined process cannot make a TCP socket, and this way
/// no program is refused a connection meanwhile.
fn handed_down(
    clients: &OwnedFd,
    admin: &UnixListener,
    doors: &Doors,
    run_dir: &RunDir,
) -> std::io::Result<Vec<(String, OwnedFd)>> {
    let name = |path: &Path| if run_dir.keeps_socket(path) { "kept" } else { OWN }.to_owned();
    let clients_name = service_manager::listener_name(&run_dir.client_socket()).unwrap_or_default();
    let admin_name = name(&run_dir.admin_socket());
    let mut listeners = vec![(clients_name, clients.try_clone()?), (admin_name, admin.try_clone()?.into())];
    let http_name = name(&run_dir.http_socket());
    listeners.extend(doors.try_clone()?.into_iter().map(|door| (http_name.clone(), door)));
    Ok(listeners)
}

/// Builds the core, its history, journal and list of ended programs.
fn open_dispatch(
    settings: &Settings,
    run_dir: &RunDir,
    devices: &Devices,
    state: StateFile,
    manager: ServiceManager,
) -> anyhow::Result<Dispatch> {
    let mut options = settings.options.clone();
    if options.context_bytes == Bytes::ZERO {
        options.context_bytes = devices.context_bytes;
    }
    let policy = if settings.reverted.is_some() { PolicyName::Case } else { settings.policy };
    let place = settings.journal.clone().map(|path| Place { path, bytes_max: settings.journal_max.0 });
    let journal = Journal::new(place, identity::run());
    let (run_history, unusable) = RunHistory::open(run_dir.history_file());
    let (ended_file, ended, damage) = EndedFile::open(run_dir.ended_file());
    let mut scheduler = Scheduler::new(policy, options);
    if settings.reverted.is_none() {
        fault::spoil(&mut scheduler);
    }
    let mut core = GuardedCore::new(scheduler, run_history, journal, Instant::now()).with_context(|| {
        let path = settings.journal.as_deref().unwrap_or(Path::new("-"));
        Unservable(format!("journal {}", path.display()))
    })?;
    core.reverted = settings.reverted.as_ref().map(|why| format!("{} {why}", settings.policy));
    let quotas = Quotas::new(settings.clients_per_user, settings.users.clone());
    core.ended = ended;
    let mut dispatch = Dispatch::new(core, quotas, state, manager, ended_file);
    unusable.into_iter().chain(damage).for_each(|line| dispatch.log(line));
    if let Some(why) = dispatch.core.journal_problem.clone() {
        dispatch.journal_failed(&why);
    }
    Ok(dispatch)
}

/// Starts the thread that observes memory use on the devices, if the settings ask for one.
fn start_observer(
    settings: &Settings,
    devices: &Devices,
    run_dir: &RunDir,
) -> std::io::Result<Option<Observer>> {
    // Not on a virtual clock: an observation there would happen at a random time.
    let asks_server = devices.server.is_some() && devices.clock.is_none();
    let usage: Box<dyn UsageSource> = match (&settings.uses_file, devices.nvml) {
        (Some(file), _) => Box::new(FileUsage(file.clone())),
        (None, Some(nvml)) => {
            let uuids = devices.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
            Box::new(NvmlUsage::new(nvml, uuids))
        }
        (None, None) if asks_server => Box::new(VirtualUsage::new(run_dir.vgpu_socket())),
        (None, None) => return Ok(None),
    };
    match settings.observe_ms {
        0 => Ok(None),
        interval => Observer::start(usage, Duration::from_millis(interval)).map(Some),
    }
}

fn block_signals() -> nix::Result<SignalFd> {
    // SIGXFSZ would end the daemon when the journal reaches a file size limit; blocked, the write fails and is handled.
    let mask: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGCHLD, Signal::SIGXFSZ]
        .into_iter()
        .collect();
    mask.thread_block()?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

/// Number of descriptors that the process may open, after raising the soft limit as far as possible.
fn descriptors() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
    if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }
}

/// Number of clients for which there are descriptors.
fn clients_for(descriptors: u64) -> usize {
    let reserved = DESCRIPTORS_RESERVED.min(descriptors / 2);
    let clients = (descriptors - reserved) / DESCRIPTORS_PER_CLIENT;
    usize::try_from(clients).unwrap_or(usize::MAX).max(1)
}
