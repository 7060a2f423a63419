//! `eager`: run programs under the daemon, and see what it decides.
//!
//! Trap: `eager run` becomes the program (`exec`), so that its exit code, signals and terminal are the program's own.
//! Whatever must be said is said before.
#![forbid(unsafe_code)]

mod daemon;
mod library;
mod profile;
mod run;
mod tables;
mod trace;

use crate::daemon::DaemonPlace;
use clap::{Args, Parser, Subcommand};
use eager_proto::admin::{AdminReply, AdminRequest};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Share GPUs between CUDA programs that do not all fit.
#[derive(Debug, Parser)]
#[command(name = "eager", version)]
struct Flags {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a program under the daemon; ends with the program's own exit code.
    Run(run::RunFlags),
    /// Run a program alone on a virtual GPU, and say what each kernel took and touched.
    Profile(profile::ProfileFlags),
    /// List tasks: device, class, grant, and why each one waits.
    Ps(Question),
    /// List devices.
    Info(Question),
    /// Turn a journal into a timeline for Perfetto's viewer: devices, tasks, memory, why each waited.
    Trace(trace::TraceFlags),
    /// Stop the daemon; running programs keep their devices.
    Shutdown(WhichDaemon),
}

#[derive(Debug, Args)]
struct Question {
    #[command(flatten)]
    which: WhichDaemon,
    /// Print the daemon's answer as JSON, sizes in bytes.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct WhichDaemon {
    /// The daemon's run directory [default: $XDG_RUNTIME_DIR/eager, or /run/eager for root].
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
}

fn main() -> ExitCode {
    let done = match Flags::parse().verb {
        Verb::Run(flags) => return run::run(flags),
        Verb::Profile(flags) => return profile::profile(flags).unwrap_or_else(|error| fail(&error)),
        Verb::Ps(question) => ask(&question, AdminRequest::Ps),
        Verb::Info(question) => ask(&question, AdminRequest::Info),
        Verb::Trace(flags) => trace::trace(&flags).map(|line| print(&line)),
        Verb::Shutdown(which) => shutdown(&which),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// One line and exit code 1.
fn fail(error: &anyhow::Error) -> ExitCode {
    say(&format!("{error:#}"));
    ExitCode::FAILURE
}

fn say(line: &str) {
    // Nobody is left to be told that standard error is closed.
    let _ = writeln!(std::io::stderr(), "eager: {line}");
}

fn ask(question: &Question, request: AdminRequest) -> anyhow::Result<()> {
    let place = DaemonPlace::find(question.which.run_dir.clone())?;
    let reply = place.ask(&request)?;
    let text = match &reply {
        reply if question.json => serde_json::to_string_pretty(reply)? + "\n",
        AdminReply::Ps { tasks } => tables::tasks(tasks),
        AdminReply::Info { daemon, devices } => tables::devices(daemon, devices),
        AdminReply::Error { message } => anyhow::bail!("the daemon says: {message}"),
        AdminReply::Done => String::new(),
    };
    print(&text);
    Ok(())
}

fn print(text: &str) {
    // A reader that has seen enough (`| head`) is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn shutdown(which: &WhichDaemon) -> anyhow::Result<()> {
    match DaemonPlace::find(which.run_dir.clone())?.ask(&AdminRequest::Shutdown)? {
        AdminReply::Done => Ok(()),
        other => anyhow::bail!("the daemon answers {other:?}"),
    }
}
