//! `eager`: run programs under the daemon, and see what it decides.
//!
//! Trap: `eager run` becomes the program (`exec`), so that its exit code, signals and terminal are the program's own.
//! Whatever must be said is said before.
#![forbid(unsafe_code)]

mod daemon;
mod library;
mod tables;
mod verbs;

use crate::verbs::act::{DeviceFlags, act, shutdown};
use crate::verbs::look::look;
use crate::verbs::{Question, WhichDaemon, profile, run, top, trace};
use clap::{Parser, Subcommand};
use eager_proto::admin::AdminRequest;
use std::io::Write;
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
    #[command(
        after_help = "Examples:\n  eager run ./train --epochs 3\n  eager run --label night ./train\n  \
                            eager run --plain --virtual 1xH200 ./train"
    )]
    Run(run::RunFlags),
    /// Run a program alone on a virtual GPU, and say what each kernel took and touched.
    #[command(after_help = "Examples:\n  eager profile ./train\n  eager profile --out train.json ./train")]
    Profile(profile::ProfileFlags),
    /// List tasks: device, class, grant, and why each one waits.
    #[command(after_help = "Examples:\n  eager ps\n  eager ps --json")]
    Ps(Question),
    /// List devices.
    #[command(after_help = "Examples:\n  eager info\n  eager info --json")]
    Info(Question),
    /// Watch devices and tasks: memory, classes, gates, paging, and why each task waits.
    #[command(
        after_help = "Examples:\n  eager top\n  eager top --sort wait --filter train\n  eager top --once > now.txt"
    )]
    Top(top::TopFlags),
    /// Start nothing new on a device; what runs there goes on. For root and the daemon's own user.
    #[command(
        after_help = "Examples:\n  eager drain 1\n  eager ps           # when no task is on GPU 1 any more, it is free"
    )]
    Drain(DeviceFlags),
    /// Let a device take tasks again. For root and the daemon's own user.
    #[command(after_help = "Examples:\n  eager undrain 1")]
    Undrain(DeviceFlags),
    /// Turn a journal into a timeline for Perfetto's viewer: devices, tasks, memory, why each waited.
    #[command(
        after_help = "Examples:\n  eager trace journal.jsonl\n  eager trace journal.jsonl --out night.pftrace"
    )]
    Trace(trace::TraceFlags),
    /// Stop the daemon; running programs keep their devices. For root and the daemon's own user.
    #[command(after_help = "Examples:\n  eager shutdown")]
    Shutdown(WhichDaemon),
}

fn main() -> ExitCode {
    let done = match Flags::parse().verb {
        Verb::Run(flags) => return run::run(flags),
        Verb::Profile(flags) => return profile::profile(flags).unwrap_or_else(|error| fail(&error)),
        Verb::Ps(question) => look(&question, &AdminRequest::Ps),
        Verb::Info(question) => look(&question, &AdminRequest::Info),
        Verb::Top(flags) => top::top(flags).map(|text| print(&text)),
        Verb::Drain(DeviceFlags { device, question }) => act(&question, &AdminRequest::Drain { device }),
        Verb::Undrain(DeviceFlags { device, question }) => act(&question, &AdminRequest::Undrain { device }),
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

fn print(text: &str) {
    // A reader that has seen enough (`| head`) is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
