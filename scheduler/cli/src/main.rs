//! `eager`: runs programs under the daemon, and shows the daemon's decisions.
//!
//! Trap: `eager run` becomes the program (`exec`), so that exit code, signals and terminal are the program's own.
//! Every message must be printed before that.
#![forbid(unsafe_code)]

mod color;
mod daemon;
mod executable;
mod library;
mod people;
mod tables;
mod values;
mod verbs;

use crate::verbs::act::{
    self, CancelFlags, DeviceFlags, PolicyFlags, PriorityFlags, ShutdownFlags, TaskFlags, act,
};
use crate::verbs::look::{self, ExplainFlags, look};
use crate::verbs::manuals::{self, CompletionsFlags, ManFlags};
use crate::verbs::submit::{self, JobsFlags, LogFlags, SubmitFlags, WaitFlags};
use crate::verbs::{Question, calibrate, doctor, history, limit, mps, profile, ps, run, top, trace};
use clap::{CommandFactory, Parser, Subcommand};
use eager_proto::admin::AdminRequest;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Share GPUs between CUDA programs that do not all fit.
#[derive(Debug, Parser)]
#[command(name = "eager", version = eager_version::LONG)]
struct Flags {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a program under the daemon; ends with the program's own exit code.
    #[command(
        after_help = "Examples:\n  eager run ./train --epochs 3\n  eager run --label night ./train\n  \
                            eager run --plain --virtual 1xH200 ./train\n  \
        eager run --mem 8GiB python3 train.py     # not compiled by eagercc\n  \
        eager run --mem 8GiB -n 2 python3 train.py\n  \
        eager run --after 12 ./evaluate\n  \
        eager run --time-limit 2h ./train\n  \
        eager run --priority 10 ./train"
    )]
    Run(run::RunFlags),
    /// Run a program as `eager run` does, in the background: it goes on when you log out. Prints the job's number; what the
    /// program prints and how it ends is kept.
    #[command(after_help = "Examples:\n  eager submit ./train --epochs 3\n  \
        eager submit --label night --time-limit 8h ./train\n  eager wait $(eager submit ./train)")]
    Submit(SubmitFlags),
    /// List your submitted jobs, and how they ended.
    #[command(after_help = "Examples:\n  eager jobs\n  eager jobs --json")]
    Jobs(JobsFlags),
    /// Wait for submitted jobs to end; ends with the exit code of the first that failed, 128 + N for one that signal
    /// N ended, 125 for a lost one.
    #[command(after_help = "Examples:\n  eager wait\n  eager wait 3 4")]
    Wait(WaitFlags),
    /// Print the output of a submitted job.
    #[command(after_help = "Examples:\n  eager log 3\n  eager log -f")]
    Log(LogFlags),
    /// Run a program alone on a virtual GPU, and show the time and memory of each kernel.
    #[command(after_help = "Examples:\n  eager profile ./train\n  eager profile --out train.json ./train")]
    Profile(profile::ProfileFlags),
    /// Time a GPU that no other program uses, write a card file that describes it, and show how the model's times
    /// compare.
    #[command(
        after_help = "Examples:\n  eager calibrate --out lab-h200.toml\n  eager calibrate --virtual H200"
    )]
    Calibrate(calibrate::CalibrateFlags),
    /// List tasks: device, class, grant, and why each one waits.
    #[command(
        after_help = "Examples:\n  eager ps\n  eager ps --user anna --sort wait\n  eager ps --watch 1 --format task,label,class,why\n  \
                            eager ps --json"
    )]
    Ps(ps::PsFlags),
    /// List programs that have ended: how long they ran and waited, in which classes, with how much memory, and how
    /// they ended.
    #[command(after_help = "Examples:\n  eager history\n  eager history --user anna --sort waited -n 5\n  \
                            eager history --format label,ran,waited,held,end\n  eager history --json")]
    History(history::HistoryFlags),
    /// List devices.
    #[command(after_help = "Examples:\n  eager info\n  eager info --json")]
    Info(Question),
    /// Watch devices and tasks: memory, classes, gates, paging, and why each task waits.
    #[command(
        after_help = "Examples:\n  eager top\n  eager top --sort wait --filter train\n  eager top --once > now.txt"
    )]
    Top(top::TopFlags),
    /// List the waiting tasks in the order in which they are tried.
    #[command(after_help = "Examples:\n  eager queue\n  eager queue --json")]
    Queue(Question),
    /// Explain why a task waits or runs as it does, or what each task has or lacks on a device.
    #[command(after_help = "Examples:\n  eager explain 12\n  eager explain gpu 1\n  eager explain pid 4242")]
    Explain(ExplainFlags),
    /// Cancel a task: a waiting task is refused and its allocations fail; the program of a running task gets SIGTERM.
    /// Only your own tasks, or any as root.
    #[command(
        after_help = "Examples:\n  eager cancel 12\n  eager cancel 12 --signal KILL     # ends a waiting program, too"
    )]
    Cancel(CancelFlags),
    /// Keep a waiting task from starting until it is released. Only your own tasks, or any as root.
    #[command(after_help = "Examples:\n  eager hold 12\n  eager release 12")]
    Hold(TaskFlags),
    /// Let a held task start again; it goes to the end of the queue.
    #[command(after_help = "Examples:\n  eager release 12")]
    Release(TaskFlags),
    /// Change which of your own waiting tasks go first: those of this task's program, now and later. The places of
    /// other users in the queue stay. Only your own tasks, or any as root.
    #[command(after_help = "Examples:\n  eager priority 12 10\n  eager priority 12 -5")]
    Priority(PriorityFlags),
    /// Show which policy decides, or set another.
    #[command(after_help = "Examples:\n  eager policy\n  eager policy set case")]
    Policy(PolicyFlags),
    /// Start no new tasks on a device; running tasks go on. For root and the daemon's own user.
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
    /// Check what Eager needs on this machine, and say how to fix what is missing; exit code 1 if a check fails.
    #[command(after_help = "Examples:\n  eager doctor\n  eager doctor ./program\n  eager doctor --json")]
    Doctor(doctor::DoctorFlags),
    /// Start, stop or show NVIDIA's Multi-Process Service (MPS), under which kernels of several programs run at once.
    #[command(after_help = "Examples:\n  eager mps status\n  eager mps start\n  eager mps stop --within 60")]
    Mps(mps::MpsFlags),
    /// Print what a shell needs to complete this command.
    #[command(
        after_help = "Examples:\n  eager completions bash > ~/.local/share/bash-completion/completions/eager"
    )]
    Completions(CompletionsFlags),
    /// Write a man page for each verb.
    #[command(after_help = "Examples:\n  eager man --out ~/.local/share/man/man1")]
    Man(ManFlags),
    /// Stop the daemon, if no task runs or waits; running programs keep their devices. For root and the daemon's own
    /// user.
    #[command(after_help = "Examples:\n  eager shutdown\n  eager shutdown --when-idle")]
    Shutdown(ShutdownFlags),
}

fn main() -> ExitCode {
    if let Some(code) =
        eager_manuals::requested(std::env::args_os().skip(1), |share| manuals::all(share, Flags::command()))
    {
        return code;
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = limit::run_internal_verb(words.get(1..).unwrap_or_default()) {
        return code;
    }
    let flags = match submit::run_internal_verb(words.get(1..).unwrap_or_default()) {
        Some(Err(code)) => return code,
        Some(Ok(words)) => Flags::parse_from(words),
        None => Flags::parse(),
    };
    carry_out(flags.verb, &words)
}

/// Executes a verb. `words` is the command line.
fn carry_out(verb: Verb, words: &[OsString]) -> ExitCode {
    let done = match verb {
        Verb::Run(flags) => return run::run(flags),
        Verb::Submit(flags) => submit::submit(&flags, words.get(2..).unwrap_or_default()),
        Verb::Jobs(flags) => submit::jobs(&flags),
        Verb::Wait(flags) => return submit::wait(&flags).unwrap_or_else(|error| fail(&error)),
        Verb::Log(flags) => submit::log(&flags),
        Verb::Profile(flags) => return profile::profile(flags).unwrap_or_else(|error| fail(&error)),
        Verb::Calibrate(flags) => calibrate::calibrate(flags),
        Verb::Ps(flags) => ps::ps(&flags),
        Verb::History(flags) => history::history(&flags),
        Verb::Info(question) => look(&question, &AdminRequest::Info),
        Verb::Top(flags) => top::top(flags).map(|text| print(&text)),
        Verb::Drain(DeviceFlags { device, question }) => act(&question, &AdminRequest::Drain { device }),
        Verb::Undrain(DeviceFlags { device, question }) => act(&question, &AdminRequest::Undrain { device }),
        Verb::Trace(flags) => trace::trace(&flags).map(|line| print(&line)),
        Verb::Doctor(flags) => return doctor::doctor(&flags).unwrap_or_else(|error| fail(&error)),
        Verb::Mps(flags) => mps::mps(&flags).map(|text| print(&text)),
        Verb::Completions(flags) => {
            manuals::completions(&flags, Flags::command());
            Ok(())
        }
        Verb::Man(flags) => manuals::man(&flags, Flags::command()).map(|line| print(&line)),
        Verb::Queue(question) => look(&question, &AdminRequest::Queue),
        Verb::Explain(flags) => look::explain(&flags),
        Verb::Cancel(flags) => act::cancel(&flags),
        Verb::Hold(TaskFlags { task, question }) => act(&question, &AdminRequest::Hold { task }),
        Verb::Release(TaskFlags { task, question }) => act(&question, &AdminRequest::Release { task }),
        Verb::Priority(flags) => act::priority(&flags),
        Verb::Policy(flags) => act::policy(flags),
        Verb::Shutdown(flags) => act::shutdown(&flags),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Prints the error in one line and returns exit code 1.
fn fail(error: &anyhow::Error) -> ExitCode {
    say(&format!("{error:#}"));
    ExitCode::FAILURE
}

fn say(line: &str) {
    // If standard error is closed, there is no place to report that.
    let _ = writeln!(std::io::stderr(), "eager: {line}");
}

fn print(text: &str) {
    // A reader that stops reading early (`| head`) is no error.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
