//! `eager run`: sets the environment for a program, then becomes it.
//!
//! Trap: settings of a daemon or a virtual GPU in the current environment must not leak into a run with other flags.
//! [`environment`] must set or remove every variable that selects one of them.

use crate::daemon::{self, DaemonPlace, Present, socket_of_environment};
use crate::values::WrongValue;
use crate::verbs::preload::Learnt;
use crate::verbs::reserve::Wanted;
use crate::verbs::{limit, preload, reserve};
use crate::{fail, library, say};
use anyhow::Context;
use clap::Args;
use eager_gpu_model::{card_list, parse_nonnegative};
use eager_proto::admin::{AdminReply, AdminRequest};
use eager_proto::hello::Hello;
use eager_proto::newcomer::ENV_ON_NO_DAEMON;
use eager_proto::{
    ENV_DISABLE, ENV_LABEL, ENV_PRIORITY, ENV_PROFILE, ENV_SAY_WAITS, ENV_SOCKET, ENV_TASK_BYTES,
    ENV_TASK_WHOLE, ENV_VGPU_SOCKET, TASK_SLOTS,
};
use eager_units::Size;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Variables of the stand-in runtime for the program's own devices (`virtual-gpu`, stand-in runtime).
const ENV_VGPU_CARDS: &str = "EAGER_VGPU";
const ENV_VGPU_TIME_SCALE: &str = "EAGER_VGPU_TIME_SCALE";
const ENV_VGPU_MEMORY_SCALE: &str = "EAGER_VGPU_MEMORY_SCALE";
/// Visible devices among virtual GPUs. NVIDIA's variable below covers the machine's GPUs.
const ENV_VGPU_VISIBLE: &str = "EAGER_VGPU_VISIBLE";

/// Exit status of a program that ends with 0 after its work on a virtual GPU has failed.
const ENV_VGPU_FAULT_STATUS: &str = "EAGER_VGPU_FAULT_STATUS";

/// NVIDIA's variable for the devices that a program sees.
const ENV_VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// Exit codes as in shells: found but not runnable, and not found.
const EXIT_NOT_RUNNABLE: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;
/// Status for a program that failed but ended with 0: the one that most programs use (specification S-644).
const EXIT_FAULT_IGNORED: u8 = 1;

/// Programs of the user that are searched for earlier runs of this one. Limits the daemon's answer, in which each takes
/// some hundred bytes.
const LEARNT_FROM_MAX: u32 = 500;

#[derive(Debug, Clone, Default, Args)]
pub struct RunFlags {
    /// The daemon's run directory [default: that of EAGER_SOCKET, else $XDG_RUNTIME_DIR/eager, or /run/eager if
    /// only there is a daemon].
    #[arg(long, value_name = "DIR", conflicts_with_all = ["socket", "plain"])]
    run_dir: Option<PathBuf>,
    /// The daemon's client socket, in place of its run directory.
    #[arg(long, value_name = "PATH", conflicts_with = "plain")]
    socket: Option<PathBuf>,
    /// Name of the program in tables and the journal [default: the executable's name].
    #[arg(long)]
    label: Option<String>,
    /// Which of your own waiting tasks go first: -100 to 100, the higher the earlier; the places of other users in the
    /// queue stay [default: 0].
    #[arg(long, value_name = "N", conflicts_with = "plain", allow_negative_numbers = true, value_parser = priority)]
    priority: Option<i8>,
    /// Schedule a program that was not compiled by eagercc, if it uses the shared CUDA runtime: it waits, shares and may
    /// start over-subscribed, as compiled programs do.
    #[arg(long, conflicts_with_all = ["plain", "gpus"])]
    preload: bool,
    /// Device memory for a program that was not compiled by eagercc, such as `8GiB`: waits for it, and holds it until the
    /// program ends. With --preload: each process of it asks for that much at its first use of a GPU, and may start
    /// over-subscribed.
    #[arg(long, value_name = "SIZE", conflicts_with = "plain", allow_negative_numbers = true, value_parser = nonzero_size)]
    mem: Option<Size>,
    /// Wait until all of --mem is free: never start over-subscribed.
    #[arg(long, requires_all = ["mem", "preload"])]
    whole: bool,
    /// Number of GPUs, with that much memory on each [default: 1].
    #[arg(short = 'n', long, value_name = "N", requires = "mem", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u8).range(1..=TASK_SLOTS as i64))]
    gpus: Option<u8>,
    /// Start when this task has ended, however it ends.
    #[arg(long, value_name = "TASK", conflicts_with = "plain")]
    after: Option<u64>,
    /// End the program when it has run for so long, waits for a device included: `90s`, `10m`, `1h30m`, `2d`. It gets
    /// SIGTERM, then SIGKILL.
    #[arg(long, value_name = "TIME", value_parser = limit::length)]
    time_limit: Option<Duration>,
    /// Time between SIGTERM and SIGKILL [default: 30s].
    #[arg(long, value_name = "TIME", requires = "time_limit", value_parser = limit::length)]
    grace: Option<Duration>,
    /// JSON file of measured kernel footprints.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Print nothing while the program waits; otherwise one line says after a second why it waits.
    #[arg(short, long)]
    quiet: bool,
    /// Exit status of a program that ends with 0 although its work on a virtual GPU failed; 0: its own [default: 1].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    fault_status: Option<u8>,
    /// If no daemon is found within EAGER_CONNECT_MAX seconds [default: 10], run the program unscheduled; otherwise it
    /// does not run.
    #[arg(long, conflicts_with_all = ["plain", "mem", "after"])]
    or_plain: bool,
    /// Run without a daemon, on a virtual GPU of the program's own.
    #[arg(long)]
    plain: bool,
    /// The program's own virtual GPUs [default: 1xV100-16GB].
    #[arg(long = "virtual", value_name = "CARDS", requires = "plain", value_parser = card_list)]
    cards: Option<String>,
    /// Real seconds per modelled second of the program's own virtual GPUs; 0: without waiting [default: 1].
    #[arg(long, value_name = "X", requires = "plain", allow_negative_numbers = true, value_parser = parse_nonnegative)]
    time_scale: Option<f64>,
    /// Modelled bytes per program byte of the program's own virtual GPUs [default: 1].
    #[arg(long, value_name = "N", requires = "plain", value_parser = clap::value_parser!(u64).range(1..))]
    memory_scale: Option<u64>,
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Parses a priority among a user's own tasks.
pub fn priority(text: &str) -> Result<i8, WrongValue> {
    let wrong = || WrongValue::Priority(text.to_owned());
    text.parse().ok().filter(|priority| (-100..=100).contains(priority)).ok_or_else(wrong)
}

/// Parses a size, and rejects 0: with no reservation the program would start unscheduled, and its memory would not be
/// counted.
fn nonzero_size(text: &str) -> Result<Size, WrongValue> {
    let size: Size = text.parse()?;
    if size == Size(0) { Err(WrongValue::NoMemory(text.to_owned())) } else { Ok(size) }
}

impl RunFlags {
    /// Flags for a run without a daemon, on virtual GPUs of the program's own that model time without waiting for it.
    pub fn alone(command: Vec<OsString>, cards: Option<String>, memory_scale: Option<u64>) -> RunFlags {
        RunFlags { plain: true, cards, memory_scale, time_scale: Some(0.0), command, ..RunFlags::default() }
    }
}

/// GPUs that the program sees.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// GPUs of a daemon. `vgpu` is the socket of its virtual GPU server, if its devices are virtual.
    Daemon { socket: PathBuf, vgpu: Option<PathBuf> },
    /// GPUs of the machine, unscheduled; or, with a socket, virtual GPUs that outlived their daemon.
    Unscheduled(Option<PathBuf>),
    /// Virtual GPUs of the program's own.
    Plain,
}

/// Change of an environment variable: a new value, or removal.
type Change = (&'static str, Option<OsString>);

/// Runs the program. Never returns on success: this process becomes the program.
pub fn run(flags: RunFlags) -> ExitCode {
    let wait = |(target, command)| wait_and_reserve(&flags, &target, command);
    let limited = |command| match flags.time_limit {
        Some(time) => limit::begin(time, flags.grace.unwrap_or(limit::GRACE)).map(|()| command),
        None => Ok(command),
    };
    match make(&flags).and_then(wait).and_then(limited) {
        Ok(mut command) => {
            let error = command.exec();
            say(&format!("cannot run {}: {error}", Path::new(command.get_program()).display()));
            ExitCode::from(match error.kind() {
                ErrorKind::NotFound => EXIT_NOT_FOUND,
                _ => EXIT_NOT_RUNNABLE,
            })
        }
        Err(error) => fail(&error),
    }
}

/// Waits for another task and for reserved memory, where the flags ask for it, or for the device that the policy gives to
/// the program.
fn wait_and_reserve(flags: &RunFlags, target: &Target, mut command: Command) -> anyhow::Result<Command> {
    let Target::Daemon { socket, vgpu } = target else { return Ok(command) };
    let place = DaemonPlace { run_dir: socket.parent().unwrap_or(Path::new("/")).into() };
    if let Some(task) = flags.after {
        reserve::wait_for_end(&place, task, &label(flags))?;
    }
    let hello = || {
        let priority = flags.priority.unwrap_or_default();
        Hello::new(&label(flags)).with_priority(priority).held_by_process()
    };
    if let Some(learnt) = learnt(flags, &place) {
        command.env(ENV_TASK_BYTES, learnt.size.0.to_string());
        if !flags.quiet {
            say(&learnt.to_string());
        }
    }
    if let Some(memory) = flags.mem.filter(|_| declared(flags).is_none()) {
        let wanted = Wanted { memory, count: usize::from(flags.gpus.unwrap_or(1)), is_quiet: flags.quiet };
        let reservation = reserve::reserve(&place, socket, &hello(), &wanted)?;
        let names = reservation.cuda_names()?;
        if vgpu.is_some() {
            command.env(ENV_VGPU_VISIBLE, &names);
        }
        command.env(ENV_VISIBLE_DEVICES, names);
        // Otherwise the program, if compiled by eagercc, would reserve its memory a second time.
        command.env(ENV_DISABLE, "1");
        reservation.hand_over()?;
    } else if gives_devices_to_programs(&place) {
        // The program's own requests come at its first use of CUDA. Both are of one process, and so of one program.
        let wanted = Wanted { memory: Size(0), count: 1, is_quiet: flags.quiet };
        reserve::reserve(&place, socket, &hello(), &wanted)?.hand_over()?;
    }
    Ok(command)
}

/// True if a program is to wait for its device before it starts (specification S-114). False if the daemon does not say;
/// the program then asks at its first use of CUDA.
fn gives_devices_to_programs(place: &DaemonPlace) -> bool {
    let reply = place.ask_briefly(&AdminRequest::Policy);
    matches!(reply, Ok(AdminReply::Policy { policy }) if policy.by_program)
}

/// The size that the program itself asks for.
fn declared(flags: &RunFlags) -> Option<Size> {
    flags.mem.filter(|_| flags.preload)
}

/// What the program's earlier runs took, where nobody says what it will need. Only a help: without an answer the program
/// asks as it allocates.
fn learnt(flags: &RunFlags, place: &DaemonPlace) -> Option<Learnt> {
    let is_said = flags.mem.is_some() || std::env::var_os(ENV_TASK_BYTES).is_some();
    if !flags.preload || is_said {
        return None;
    }
    let uid = Some(nix::unistd::getuid().as_raw());
    let history = AdminRequest::History { uid, programs_max: LEARNT_FROM_MAX };
    let AdminReply::History { programs } = place.ask_briefly(&history).ok()? else { return None };
    let learnt = Learnt::from(&programs, &Hello::new(&label(flags)).label())?;
    let AdminReply::Info { devices, .. } = place.ask_briefly(&AdminRequest::Info).ok()? else { return None };
    learnt.fits(&devices).then_some(learnt)
}

/// Returns the label by the shim's rule: the flag, else the environment, else the executable's name.
fn label(flags: &RunFlags) -> String {
    let given = given_label(flags);
    given.unwrap_or_else(|| {
        let program = flags.command.first().map(Path::new).and_then(Path::file_name);
        program.unwrap_or_default().to_string_lossy().into_owned()
    })
}

/// Returns the label that the program does not find for itself.
fn given_label(flags: &RunFlags) -> Option<String> {
    let given = flags.label.clone().or_else(|| std::env::var(ENV_LABEL).ok());
    given.or_else(|| flags.preload.then(|| preload::script(&flags.command)).flatten())
}

/// Returns the command that starts the program. All errors in flags, daemon and files appear here.
pub fn prepare(flags: &RunFlags) -> anyhow::Result<Command> {
    make(flags).map(|(_, command)| command)
}

/// Returns the GPUs that the program sees, and the command that starts it.
fn make(flags: &RunFlags) -> anyhow::Result<(Target, Command)> {
    let target = target(flags)?;
    let library_folder = if is_virtual(&target) {
        let own = std::env::current_exe().context("cannot find my own executable")?;
        Some(library::folder(own.parent().unwrap_or(Path::new("/")))?)
    } else {
        None
    };
    let profile = flags
        .profile
        .as_ref()
        .map(|path| path.canonicalize().with_context(|| format!("profile {}", path.display())))
        .transpose()?;
    let library_path = library_folder
        .map(|folder| prepend(&folder, std::env::var_os("LD_LIBRARY_PATH").as_deref()))
        .transpose()?;
    let fault_status_is_set =
        flags.fault_status.is_some() || std::env::var_os(ENV_VGPU_FAULT_STATUS).is_some();
    let (program, arguments) = flags.command.split_first().context("no program given")?;
    let mut command = Command::new(program);
    command.args(arguments);
    if is_virtual(&target) && !fault_status_is_set {
        command.env(ENV_VGPU_FAULT_STATUS, EXIT_FAULT_IGNORED.to_string());
    }
    for (name, value) in environment(flags, &target, profile, library_path) {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if flags.preload {
        preload::add(&mut command)?;
    }
    Ok((target, command))
}

/// Finds the daemon, and waits for one that is being restarted. Only the flags can make a program run unscheduled.
fn target(flags: &RunFlags) -> anyhow::Result<Target> {
    if flags.plain {
        return Ok(Target::Plain);
    }
    match DaemonPlace::await_daemon(daemon::connect_max()?, flags.quiet, || place(flags))? {
        Ok(Present { client_socket, vgpu_socket }) => {
            Ok(Target::Daemon { socket: client_socket, vgpu: vgpu_socket })
        }
        Err(place) if flags.or_plain => {
            say(&format!("no daemon at {}: the program runs unscheduled", place.run_dir.display()));
            let server = place.vgpu_socket();
            Ok(Target::Unscheduled(server.exists().then_some(server)))
        }
        Err(place) => {
            let otherwise = "or run without one: `eager run --or-plain PROGRAM` on the machine's GPUs, \
                             `eager run --plain PROGRAM` on a virtual one";
            anyhow::bail!("{}, {otherwise}", place.no_daemon_message())
        }
    }
}

/// Returns the place of the daemon, and its client socket.
fn place(flags: &RunFlags) -> anyhow::Result<(DaemonPlace, PathBuf)> {
    let named =
        flags.socket.clone().or_else(|| flags.run_dir.is_none().then(socket_of_environment).flatten());
    let place = match &named {
        None => DaemonPlace::find(flags.run_dir.clone())?,
        Some(socket) => DaemonPlace::of_socket(socket),
    };
    let run_dir = std::path::absolute(&place.run_dir).context("the run directory")?;
    let place = DaemonPlace { run_dir };
    let socket = match &named {
        None => place.client_socket(),
        Some(socket) => std::path::absolute(socket).context("the socket")?,
    };
    Ok((place, socket))
}

fn is_virtual(target: &Target) -> bool {
    matches!(target, Target::Plain | Target::Unscheduled(Some(_)) | Target::Daemon { vgpu: Some(_), .. })
}

/// Returns all changes to the environment.
fn environment(
    flags: &RunFlags,
    target: &Target,
    profile: Option<PathBuf>,
    library_path: Option<OsString>,
) -> Vec<Change> {
    let mut changes: Vec<Change> = match target {
        Target::Daemon { socket, vgpu } => vec![
            (ENV_DISABLE, None),
            (ENV_SOCKET, Some(socket.into())),
            (ENV_VGPU_SOCKET, vgpu.as_ref().map(OsString::from)),
            // The daemon may end before the program connects to it.
            (ENV_ON_NO_DAEMON, Some(if flags.or_plain { "open" } else { "closed" }.into())),
        ],
        Target::Unscheduled(vgpu) => vec![
            (ENV_DISABLE, Some("1".into())),
            (ENV_SOCKET, None),
            (ENV_VGPU_SOCKET, vgpu.as_ref().map(OsString::from)),
        ],
        Target::Plain => vec![(ENV_DISABLE, Some("1".into())), (ENV_SOCKET, None), (ENV_VGPU_SOCKET, None)],
    };
    changes.push((ENV_VGPU_VISIBLE, None));
    changes.push((ENV_SAY_WAITS, (!flags.quiet).then(|| "1".into())));
    let given = [
        (ENV_VGPU_CARDS, flags.cards.as_ref().map(OsString::from)),
        (ENV_VGPU_TIME_SCALE, flags.time_scale.map(|scale| scale.to_string().into())),
        (ENV_VGPU_MEMORY_SCALE, flags.memory_scale.map(|scale| scale.to_string().into())),
        (ENV_VGPU_FAULT_STATUS, flags.fault_status.map(|status| status.to_string().into())),
        (ENV_PRIORITY, flags.priority.map(|priority| priority.to_string().into())),
        (ENV_TASK_BYTES, declared(flags).map(|size| size.0.to_string().into())),
        (ENV_TASK_WHOLE, flags.whole.then(|| "1".into())),
        (ENV_LABEL, given_label(flags).map(OsString::from)),
        (ENV_PROFILE, profile.map(OsString::from)),
        ("LD_LIBRARY_PATH", library_path),
    ];
    // Without a flag, these keep the value in the user's environment.
    changes.extend(given.into_iter().filter(|(_, value)| value.is_some()));
    changes
}

fn prepend(folder: &Path, path: Option<&OsStr>) -> anyhow::Result<OsString> {
    let rest = path.filter(|path| !path.is_empty()).map(std::env::split_paths).into_iter().flatten();
    std::env::join_paths(std::iter::once(folder.to_path_buf()).chain(rest)).with_context(|| {
        format!("{} cannot be part of LD_LIBRARY_PATH: its path contains a colon", folder.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change<'a>(changes: &'a [Change], name: &str) -> Option<Option<&'a str>> {
        let found = changes.iter().find(|(changed, _)| *changed == name)?;
        Some(found.1.as_ref().and_then(|value| value.to_str()))
    }

    #[test]
    fn a_daemon_with_virtual_devices_leads_to_both_sockets() {
        let flags = RunFlags { label: Some("job".into()), ..RunFlags::default() };
        let target = Target::Daemon { socket: "/r/client.sock".into(), vgpu: Some("/r/vgpu.sock".into()) };
        let changes = environment(&flags, &target, Some("/p.json".into()), Some("/lib".into()));
        assert_eq!(change(&changes, "EAGER_SOCKET"), Some(Some("/r/client.sock")));
        assert_eq!(change(&changes, "EAGER_VGPU_SOCKET"), Some(Some("/r/vgpu.sock")));
        assert_eq!(change(&changes, "EAGER_DISABLE"), Some(None));
        assert_eq!(change(&changes, "EAGER_LABEL"), Some(Some("job")));
        assert_eq!(change(&changes, "EAGER_PROFILE"), Some(Some("/p.json")));
        assert_eq!(change(&changes, "LD_LIBRARY_PATH"), Some(Some("/lib")));
    }

    #[test]
    fn a_daemon_with_real_devices_leaves_the_loader_alone() {
        let target = Target::Daemon { socket: "/r/client.sock".into(), vgpu: None };
        assert!(!is_virtual(&target));
        let changes = environment(&RunFlags::default(), &target, None, None);
        assert_eq!(change(&changes, "EAGER_VGPU_SOCKET"), Some(None), "a stale one must go");
        assert_eq!(change(&changes, "LD_LIBRARY_PATH"), None);
        assert_eq!(change(&changes, "EAGER_LABEL"), None, "what the user has set stays");
    }

    #[test]
    fn a_program_runs_unscheduled_only_where_it_was_asked_for() {
        let daemon = Target::Daemon { socket: "/r/client.sock".into(), vgpu: None };
        let closed = environment(&RunFlags::default(), &daemon, None, None);
        assert_eq!(change(&closed, "EAGER_ON_NO_DAEMON"), Some(Some("closed")));
        let flags = RunFlags { or_plain: true, ..RunFlags::default() };
        let open = environment(&flags, &daemon, None, None);
        assert_eq!(change(&open, "EAGER_ON_NO_DAEMON"), Some(Some("open")));
        let outlived = Target::Unscheduled(Some("/r/vgpu.sock".into()));
        let changes = environment(&flags, &outlived, None, Some("/lib".into()));
        assert_eq!(change(&changes, "EAGER_DISABLE"), Some(Some("1")));
        assert_eq!(change(&changes, "EAGER_VGPU_SOCKET"), Some(Some("/r/vgpu.sock")));
        assert!(is_virtual(&outlived) && !is_virtual(&Target::Unscheduled(None)));
    }

    #[test]
    fn plain_has_no_daemon_and_its_own_devices() {
        let flags = RunFlags { cards: Some("2xH200".into()), memory_scale: Some(64), ..RunFlags::default() };
        let changes = environment(&flags, &Target::Plain, None, Some("/lib".into()));
        assert_eq!(change(&changes, "EAGER_DISABLE"), Some(Some("1")));
        assert_eq!(change(&changes, "EAGER_SOCKET"), Some(None));
        assert_eq!(change(&changes, "EAGER_VGPU_SOCKET"), Some(None));
        assert_eq!(change(&changes, "EAGER_VGPU"), Some(Some("2xH200")));
        assert_eq!(change(&changes, "EAGER_VGPU_TIME_SCALE"), None, "what the user has set stays");
        assert_eq!(change(&changes, "EAGER_VGPU_MEMORY_SCALE"), Some(Some("64")));
    }

    #[test]
    fn the_stand_in_comes_first_for_the_loader() {
        let path = |rest: &str| prepend(Path::new("/v"), Some(OsStr::new(rest))).expect("joins");
        assert_eq!(path("/a:/b"), "/v:/a:/b");
        assert_eq!(path(""), "/v");
        assert!(prepend(Path::new("/a:b"), None).is_err());
    }
}
