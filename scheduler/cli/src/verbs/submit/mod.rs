//! `eager submit`, `jobs`, `wait`, `log`: programs that continue after their user has logged out.
//!
//! The daemon takes no part: it never runs anything for a user. Each job has a supervising process of the same user
//! ([`supervise`]), and files of this user ([`store`]). Trap: only the supervising process learns how the program
//! ended. If it is killed, the job is *lost*, and so is its program.

mod store;
mod supervise;

pub use store::now_ms;
pub use supervise::run_internal_verb;

use crate::verbs::run::{self, RunFlags};
use crate::{print, say, tables};
use anyhow::Context;
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;
use store::{Job, State, Store};

/// Exit code of `eager wait` for a job whose end is unknown.
const EXIT_LOST: u8 = 125;
/// Interval at which to check a job's files.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub struct SubmitFlags {
    #[command(flatten)]
    run: RunFlags,
}

#[derive(Debug, Args)]
pub struct JobsFlags {
    /// Print the jobs as JSON: times in milliseconds.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub struct WaitFlags {
    /// Jobs by the numbers that `eager submit` printed [default: the one submitted last].
    #[arg(value_name = "JOB")]
    jobs: Vec<u64>,
}

#[derive(Debug, Args)]
pub struct LogFlags {
    /// Go on until the job has ended.
    #[arg(short, long)]
    follow: bool,
    /// The job by its number [default: the one submitted last].
    #[arg(value_name = "JOB")]
    job: Option<u64>,
}

/// Submits a job. `words` is the command line after `submit`, which `eager run` parses in the same way.
pub fn submit(flags: &SubmitFlags, words: &[OsString]) -> anyhow::Result<()> {
    // Errors in the flags, the daemon and a profile's files are reported now and not in a log.
    run::prepare(&flags.run)?;
    let store = Store::of_this_user()?;
    let (job, lock) = store.create(words)?;
    let own = std::env::current_exe().context("cannot find my own executable")?;
    let mut supervisor = Command::new(own);
    supervisor.arg(supervise::WORD).arg(job.folder()).args(words);
    // The supervising process inherits the lock as its standard input; the lock proves that it lives.
    supervisor.stdin(Stdio::from(lock)).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = supervisor.spawn() {
        job.remove();
        return Err(error).context("cannot start the process that watches over the job");
    }
    let id = job.id;
    print(&format!("{id}\n"));
    if std::io::stdout().is_terminal() {
        say(&format!(
            "job {id}: `eager log -f {id}` shows what it prints, `eager wait {id}` ends with its exit code"
        ));
    }
    Ok(())
}

pub fn jobs(flags: &JobsFlags) -> anyhow::Result<()> {
    let jobs = Store::of_this_user()?.jobs()?;
    if flags.json {
        let jobs: Vec<store::JobInfo> = jobs.iter().map(Job::info).collect();
        print(&(serde_json::to_string_pretty(&Listed { reply: "jobs", jobs: &jobs })? + "\n"));
    } else {
        print(&tables::jobs(&jobs.iter().map(Job::row).collect::<Vec<_>>()));
    }
    Ok(())
}

#[derive(Debug, Serialize)]
struct Listed<'a> {
    reply: &'a str,
    jobs: &'a [store::JobInfo],
}

/// Waits for jobs, and returns the exit code of the first that did not end with 0.
pub fn wait(flags: &WaitFlags) -> anyhow::Result<ExitCode> {
    let store = Store::of_this_user()?;
    let jobs: Vec<Job> = match flags.jobs.as_slice() {
        [] => vec![store.find(None)?],
        ids => ids.iter().map(|id| store.find(Some(*id))).collect::<anyhow::Result<_>>()?,
    };
    let mut worst = 0;
    for job in jobs {
        let code = loop {
            match job.state()? {
                State::Runs => std::thread::sleep(LOOK_EVERY),
                State::Lost => {
                    say(&format!("job {}: {}", job.id, store::LOST));
                    break EXIT_LOST;
                }
                State::Ended(end) => {
                    if !end.note.is_empty() {
                        say(&format!("job {}: {}", job.id, end.note));
                    }
                    break end.exit_code();
                }
            }
        };
        if worst == 0 {
            worst = code;
        }
    }
    Ok(ExitCode::from(worst))
}

pub fn log(flags: &LogFlags) -> anyhow::Result<()> {
    let job = Store::of_this_user()?.find(flags.job)?;
    let mut log = job.open_log()?;
    loop {
        // The state is checked before reading, so that a read after the end returns everything.
        let is_over = !flags.follow || job.state()? != State::Runs;
        let mut piece = Vec::new();
        Read::by_ref(&mut log).take(1 << 20).read_to_end(&mut piece).context("the log")?;
        let mut out = std::io::stdout();
        if out.write_all(&piece).and_then(|()| out.flush()).is_err() {
            // A reader that stops reading early (`| head`) is no error.
            return Ok(());
        }
        match (piece.is_empty(), is_over) {
            (true, true) => return Ok(()),
            (true, false) => std::thread::sleep(LOOK_EVERY),
            (false, _) => {}
        }
    }
}
