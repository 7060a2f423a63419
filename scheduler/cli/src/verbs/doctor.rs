//! `eager doctor`: checks that everything Eager needs is here, and says how to mend what is missing.
//!
//! Trap: a check reports only what it saw. A missing part that this machine may never need (a compiler, where
//! programs only run) is a warning, not a failure.

use super::WhichDaemon;
use crate::color::{self, Color, paint};
use crate::daemon::DaemonPlace;
use crate::executable::{self, Runtime};
use crate::{library, print};
use anyhow::bail;
use clap::Args;
use eager_proto::admin::{AdminReply, AdminRequest, DaemonRow};
use eager_proto::mps;
use eagercc::toolchain::{Needs, Surroundings, Toolchain};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Number of descriptors of a process below which libraries of CUDA programs run short.
const DESCRIPTORS_MIN: u64 = 1024;
const NVIDIA_VERSION: &str = "/proc/driver/nvidia/version";
const NVIDIA_CONTROL: &str = "/dev/nvidiactl";

#[derive(Debug, Args)]
pub struct DoctorFlags {
    #[command(flatten)]
    which: WhichDaemon,
    /// Print the checks as JSON.
    #[arg(long)]
    json: bool,
    /// Say how this program reaches CUDA, and how it can be scheduled, instead of checking the machine.
    #[arg(value_name = "PROGRAM")]
    program: Option<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warn,
    Fail,
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    /// How to mend it; empty if there is nothing to mend.
    mend: String,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, state: State::Ok, found: found.into(), mend: String::new() }
    }

    fn warn(name: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Check {
        Check { name, state: State::Warn, found: found.into(), mend: mend.into() }
    }

    fn fail(name: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Check {
        Check { state: State::Fail, ..Check::warn(name, found, mend) }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    reply: &'static str,
    checks: &'a [Check],
}

/// Runs all checks. Exit code 1 if any fails.
pub fn doctor(flags: &DoctorFlags) -> anyhow::Result<ExitCode> {
    let checks = match &flags.program {
        Some(program) => vec![runtime(program)?],
        None => machine(&flags.which),
    };
    if flags.json {
        print(&(serde_json::to_string_pretty(&Report { reply: "doctor", checks: &checks })? + "\n"));
    } else {
        print(&shown(&checks, color::is_wanted()));
    }
    let failed = checks.iter().any(|check| check.state == State::Fail);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn machine(which: &WhichDaemon) -> Vec<Check> {
    let executable = std::env::current_exe().unwrap_or_default();
    let mut checks = compiler(&executable);
    checks.push(shim(&executable));
    checks.push(stand_in(&executable));
    checks.extend(driver());
    checks.push(descriptors());
    checks.push(shared_memory());
    checks.push(process_handles());
    checks.extend(daemon(which));
    checks
}

/// Says how a program reaches the CUDA runtime.
fn runtime(program: &OsStr) -> anyhow::Result<Check> {
    const NAME: &str = "program";
    let Some(file) = executable::find(program) else {
        bail!(
            "no program `{}` here: give its path, or a name that the shell finds",
            Path::new(program).display()
        );
    };
    let shown = file.display();
    Ok(match executable::runtime(&file) {
        Runtime::Instrumented => {
            Check::ok(NAME, format!("{shown} was compiled by eagercc: `eager run {shown}`"))
        }
        Runtime::Shared => {
            Check::ok(NAME, format!("{shown} has the shared CUDA runtime: `eager run --preload {shown}`"))
        }
        Runtime::Static => Check::warn(
            NAME,
            format!("{shown} has the static CUDA runtime"),
            "link it with -cudart shared for `eager run --preload`, or compile it with eagercc, or reserve memory: \
             `eager run --mem SIZE`",
        ),
        Runtime::NotSeen => Check::ok(
            NAME,
            format!(
                "{shown} shows nothing of CUDA: if it loads the shared runtime while it runs, as Python's packages do, \
                 `eager run --preload {shown}`"
            ),
        ),
    })
}

fn shown(checks: &[Check], colored: bool) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let line = |check: &Check| {
        let (word, color) = match check.state {
            State::Ok => ("ok  ", Color::Green),
            State::Warn => ("warn", Color::Yellow),
            State::Fail => ("fail", Color::Red),
        };
        let Check { name, found, mend, .. } = check;
        let mend = if mend.is_empty() { String::new() } else { format!(": {mend}") };
        format!("{}  {name:<width$}  {found}{mend}\n", paint(word, color, colored))
    };
    checks.iter().map(line).collect()
}

/// Checks what `eagercc` would find, part by part.
fn compiler(executable: &Path) -> Vec<Check> {
    let variable = |name: &str| std::env::var_os(name);
    let surroundings = Surroundings { variable: &variable, executable, cuda_path: None, cuda_version: None };
    let part = |name: &'static str, needs: Needs, found: &dyn Fn(Toolchain) -> PathBuf| match Toolchain::find(
        &surroundings,
        needs,
    ) {
        Ok(toolchain) => Check::ok(name, found(toolchain).display().to_string()),
        Err(error) => Check::warn(name, error.to_string(), "needed only to compile programs"),
    };
    let plain = Needs::default();
    let llvm = part("LLVM", plain, &|toolchain| toolchain.clang);
    if llvm.state != State::Ok {
        // Every other part would report the same failure.
        return vec![llvm];
    }
    vec![
        llvm,
        part("CUDA headers", Needs { cuda: true, ..plain }, &|toolchain| toolchain.cuda),
        part("compiler pass", Needs { plugin: true, ..plain }, &|toolchain| toolchain.plugin),
    ]
}

/// Checks the library that compiled programs are linked with; they need it even without a compiler.
fn shim(executable: &Path) -> Check {
    let folder = executable.parent().unwrap_or(Path::new("/"));
    match library::shim(folder) {
        Some(found) => Check::ok("libeager.so", found.display().to_string()),
        None => Check::fail(
            "libeager.so",
            format!("not beside {}", folder.display()),
            "`make build` makes it, `make install` installs it; compiled programs do not start without it",
        ),
    }
}

fn stand_in(executable: &Path) -> Check {
    let folder = executable.parent().unwrap_or(Path::new("/"));
    match library::stand_in(folder) {
        Some(folder) => Check::ok("virtual GPUs", format!("stand-in runtime in {}", folder.display())),
        None => Check::warn(
            "virtual GPUs",
            format!("no stand-in runtime in {}", folder.display()),
            "`make build` makes it, `make install` installs it; not needed without virtual GPUs",
        ),
    }
}

fn driver() -> Vec<Check> {
    let Ok(text) = std::fs::read_to_string(NVIDIA_VERSION) else {
        return vec![Check::ok("NVIDIA driver", "none: virtual GPUs only")];
    };
    let version = driver_version(&text).unwrap_or("of an unknown version");
    let opens = std::fs::OpenOptions::new().read(true).write(true).open(NVIDIA_CONTROL);
    let driver = match opens {
        Ok(_) => Check::ok("NVIDIA driver", version),
        Err(error) => Check::fail(
            "NVIDIA driver",
            format!("{version}, but {NVIDIA_CONTROL}: {error}"),
            "ask for access to the devices (group video or render), or for `nvidia-modprobe`",
        ),
    };
    vec![driver, multi_process_service()]
}

/// Extracts `550.54.15` from `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue …`.
fn driver_version(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    line.split_whitespace().find(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit()))
}

fn multi_process_service() -> Check {
    let folder = mps::folder();
    if let Some(pid) = mps::control_pid(&folder) {
        return Check::ok("MPS", format!("process {pid}, its pipes are in {}", folder.display()));
    }
    let mend = "`eager mps start`, so that kernels of several programs run at the same time";
    Check::warn("MPS", format!("none runs with its pipes in {}", folder.display()), mend)
}

fn descriptors() -> Check {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, _)) if soft >= DESCRIPTORS_MIN => Check::ok("open files", format!("at most {soft}")),
        Ok((soft, hard)) => Check::warn(
            "open files",
            format!("at most {soft} (may be raised to {hard})"),
            format!("`ulimit -n {DESCRIPTORS_MIN}` before programs and daemon"),
        ),
        Err(errno) => {
            Check::warn("open files", format!("the limit is not known ({errno})"), "see `ulimit -n`")
        }
    }
}

/// Pages shared with the daemon are sealed memfds; `/dev/shm` and its size do not matter.
fn shared_memory() -> Check {
    match memfd_create("eager-doctor", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING) {
        Ok(_) => Check::ok("shared memory", "sealed memfds can be made"),
        Err(errno) => {
            let mend = "Linux 3.17 or later, and a sandbox that allows memfd_create";
            Check::fail("shared memory", format!("no sealed memfd ({errno})"), mend)
        }
    }
}

fn process_handles() -> Check {
    match eager_shm::daemon::open_pidfd(nix::unistd::Pid::this().as_raw()) {
        Ok(_) => Check::ok("pidfd", "processes can be held by handle"),
        Err(errno) => {
            let mend = "Linux 5.4 or later, and a sandbox that allows pidfd_open";
            Check::fail("pidfd", format!("no handle on a process ({errno})"), mend)
        }
    }
}

/// Checks the run directory, and the daemon that listens there.
fn daemon(which: &WhichDaemon) -> Vec<Check> {
    let place = match DaemonPlace::find(which.run_dir.clone()) {
        Ok(place) => place,
        Err(error) => return vec![Check::fail("run directory", error.to_string(), "see `eager run --help`")],
    };
    let shown = place.run_dir.display().to_string();
    if !place.run_dir.is_dir() {
        let mend = "start a daemon, such as `eagerd --virtual 4xV100-16GB`, which makes it";
        return vec![Check::warn("run directory", format!("{shown} is not there"), mend)];
    }
    let directory = Check::ok("run directory", shown);
    match place.ask(&AdminRequest::Info) {
        Ok(AdminReply::Info { daemon, devices }) => {
            vec![directory, answers(&daemon, devices.len()), programs(&place), restart(&daemon)]
        }
        Ok(_) => {
            vec![
                directory,
                Check::fail("daemon", "it sent an unexpected answer", "use programs of one build"),
            ]
        }
        Err(error) => vec![
            directory,
            Check::warn("daemon", format!("{error:#}"), "programs run without one as plain CUDA"),
        ],
    }
}

fn answers(daemon: &DaemonRow, devices: usize) -> Check {
    let DaemonRow { version, pid, policy, policy_state, .. } = daemon;
    let build = daemon.build();
    let found = format!("eagerd {build}, pid {pid}, {devices} devices, policy {policy}");
    if version != eager_version::VERSION {
        return Check::warn("daemon", found, "it is of another version than this program: use one build");
    }
    match policy_state.strip_prefix("reverted: ") {
        Some(why) => Check::warn("daemon", found, format!("{why}; set another with `eager policy set`")),
        None => Check::ok("daemon", found),
    }
}

fn programs(place: &DaemonPlace) -> Check {
    let socket = place.client_socket();
    match eager_shm::connect_seqpacket(&socket, std::time::Duration::from_secs(5)) {
        Ok(_) => Check::ok("client socket", format!("{} accepts your programs", socket.display())),
        Err(errno) => Check::fail(
            "client socket",
            format!("{}: {errno}", socket.display()),
            "root's daemon serves all users, any other only its own user: start one of your own",
        ),
    }
}

fn restart(daemon: &DaemonRow) -> Check {
    // A problem with the policy is reported beside the daemon's version.
    match daemon.problems().into_iter().find(|(what, _)| *what != "policy") {
        Some((_, problem)) => {
            Check::warn("daemon's state", problem, "see its messages, and whether its disk is full")
        }
        None => Check::ok("daemon's state", format!("confined by {}", daemon.confinement)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_line_up_and_are_coloured_only_if_wanted() {
        let checks = [
            Check::ok("LLVM", "clang++-22"),
            Check::warn("MPS", "no control pipe", "start it"),
            Check::fail("run directory", "none", "name one"),
        ];
        let plain = "\
ok    LLVM           clang++-22
warn  MPS            no control pipe: start it
fail  run directory  none: name one
";
        assert_eq!(shown(&checks, false), plain);
        let colored = shown(&checks, true);
        assert!(colored.starts_with("\u{1b}[32mok  \u{1b}[0m  LLVM") && colored.contains("\u{1b}[31mfail"));
    }

    #[test]
    fn the_drivers_version_is_found() {
        let text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 12\n";
        assert_eq!(driver_version(text), Some("550.54.15"));
        assert_eq!(driver_version("nothing\n"), None);
    }

    #[test]
    fn what_is_not_as_it_should_be_can_be_mended() {
        let nowhere = WhichDaemon { run_dir: Some("/no/such/folder".into()) };
        let mut checks = daemon(&nowhere);
        checks.extend(compiler(Path::new("/no/such/eager")));
        checks.extend([
            shim(Path::new("/no/such/eager")),
            stand_in(Path::new("/no/such/eager")),
            descriptors(),
            shared_memory(),
            process_handles(),
        ]);
        for check in &checks {
            assert_eq!(check.state == State::Ok, check.mend.is_empty(), "{check:?}");
        }
        assert_eq!(checks[0].name, "run directory");
    }
}
