//! `eager run --time-limit`: ends a program that runs too long, although `eager run` itself becomes the program.
//!
//! Another process, the keeper, measures the time. It knows the program by pidfd, so that it never ends another
//! process that got the same number. It is no child of the program, so that the program never waits for it by
//! mistake. Trap: the keeper must not hold open any file of the program except standard error, which it closes when
//! the program ends.

use crate::say;
use crate::values::WrongValue;
use anyhow::{Context, ensure};
use eager_units::shown;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// First word of the keeper's command line; not a verb for people.
pub const WORD: &str = "__time-limit";
/// First word of the command line of an intermediate process, which starts the keeper and ends at once.
const WORD_BETWEEN: &str = "__time-limit-between";
/// Default time between SIGTERM and SIGKILL (specification S-645).
pub const GRACE: Duration = Duration::from_secs(30);
/// A limit of more than a year is taken for a mistake.
const LENGTH_MAX: Duration = Duration::from_secs(366 * 86_400);

/// Parses `90`, `90s`, `10m`, `1h30m`, `2d`.
pub fn length(text: &str) -> Result<Duration, WrongValue> {
    let wrong = || WrongValue::Length(text.to_owned());
    let (mut total, mut digits) = (0_u64, String::new());
    for letter in text.chars() {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        let unit = match letter {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return Err(wrong()),
        };
        let count: u64 = std::mem::take(&mut digits).parse().map_err(|_| wrong())?;
        total = count.checked_mul(unit).and_then(|more| total.checked_add(more)).ok_or_else(wrong)?;
    }
    if !digits.is_empty() {
        let rest: u64 = digits.parse().map_err(|_| wrong())?;
        total = total.checked_add(rest).ok_or_else(wrong)?;
    }
    let total = Duration::from_secs(total);
    if total.is_zero() || total > LENGTH_MAX { Err(wrong()) } else { Ok(total) }
}

/// Starts the time limit of this process, which continues when the process becomes the program.
pub fn begin(limit: Duration, grace: Duration) -> anyhow::Result<()> {
    let own = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty())
        .context("the time limit: a handle of this process")?;
    let status = keeper(WORD_BETWEEN, limit, grace, own)?.status().context("the time limit")?;
    ensure!(status.success(), "the time limit cannot be kept: {status}");
    Ok(())
}

fn keeper(word: &str, limit: Duration, grace: Duration, program: OwnedFd) -> anyhow::Result<Command> {
    let own = std::env::current_exe().context("cannot find my own executable")?;
    let mut command = Command::new(own);
    command.arg(word).arg(limit.as_millis().to_string()).arg(grace.as_millis().to_string());
    command.stdin(Stdio::from(program)).stdout(Stdio::null());
    Ok(command)
}

/// Runs this process as the keeper if the command line says so, and returns its exit code. None for any other command
/// line.
pub fn run_internal_verb(arguments: &[OsString]) -> Option<ExitCode> {
    let (word, rest) = arguments.split_first()?;
    let done = match word.to_str()? {
        WORD => keep(rest),
        WORD_BETWEEN => pass_on(rest),
        _ => return None,
    };
    Some(done.map_or_else(|error| crate::fail(&error), |()| ExitCode::SUCCESS))
}

fn times(arguments: &[OsString]) -> anyhow::Result<(Duration, Duration)> {
    let time = |index: usize| arguments.get(index)?.to_str()?.parse().ok().map(Duration::from_millis);
    time(0).zip(time(1)).context("the time limit: its times are missing")
}

fn program() -> anyhow::Result<OwnedFd> {
    std::io::stdin().as_fd().try_clone_to_owned().context("the time limit: a handle of the program")
}

fn pass_on(arguments: &[OsString]) -> anyhow::Result<()> {
    let (limit, grace) = times(arguments)?;
    // The keeper is not waited for: this process ends now.
    let _keeper = keeper(WORD, limit, grace, program()?)?.spawn().context("the time limit")?;
    Ok(())
}

fn keep(arguments: &[OsString]) -> anyhow::Result<()> {
    let (limit, grace) = times(arguments)?;
    // In a session of its own, the keeper survives a Ctrl-C that the program survives.
    nix::unistd::setsid().context("the time limit: a session of its own")?;
    let program = program()?;
    if ended_within(&program, limit)? {
        return Ok(());
    }
    let shown_limit = shown::time(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    say(&format!("the time limit of {shown_limit} is over: the program gets SIGTERM"));
    send(&program, Signal::SIGTERM)?;
    if !ended_within(&program, grace)? {
        say("the program has not ended: it gets SIGKILL");
        send(&program, Signal::SIGKILL)?;
    }
    Ok(())
}

fn send(program: &OwnedFd, signal: Signal) -> anyhow::Result<()> {
    match eager_shm::process::signal(program, signal) {
        // The program has just ended.
        Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => Ok(()),
        sent => sent.with_context(|| format!("the time limit: {signal}")),
    }
}

/// Waits until the program ends, when its pidfd becomes readable. Returns false if the time is over first.
fn ended_within(program: &OwnedFd, time: Duration) -> anyhow::Result<bool> {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // Rounded up, so that every iteration waits.
        let wait = PollTimeout::try_from(left.min(Duration::from_secs(3600)) + Duration::from_millis(1));
        let mut handles = [PollFd::new(program.as_fd(), PollFlags::POLLIN)];
        match poll(&mut handles, wait.unwrap_or(PollTimeout::MAX)) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) => {}
            Ok(_) => return Ok(true),
            Err(error) if std::io::Error::from(error).kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("the time limit: waiting for the program"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_they_are_shown() {
        let read = |text: &str| length(text).map(|time| time.as_secs());
        for (text, seconds) in
            [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("2m06s", 126)]
        {
            assert_eq!(read(text), Ok(seconds), "{text}");
        }
        for text in ["", "0", "0s", "m", "1w", "-1", "1.5h", "99999999999999999999", "999999d", "1 h"] {
            assert!(length(text).expect_err(text).to_string().contains("no length of time"), "{text}");
        }
    }
}
