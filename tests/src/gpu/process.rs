//! Runs programs with a time limit, and leaves no process behind.
//!
//! Every child has a mark in its environment, which its own children inherit; a process that still has the mark at the
//! end was left behind. Trap: a program on a broken GPU may not end even by SIGKILL, so waits for it have a limit too.

use eager_shm::daemon::open_pidfd;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MARK: &str = "EAGER_GPU_TEST";
/// Limit of the wait after SIGKILL.
const KILL_LIMIT: Duration = Duration::from_secs(30);

/// Result of a program that ended by itself.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
    pub elapsed: Duration,
}

impl Ended {
    /// Returns the result if the program succeeded.
    ///
    /// # Errors
    /// How the program ended, and the last two lines that it printed: Eager's line may follow the program's own.
    pub fn succeeded(self) -> Result<Ended, String> {
        if self.status.success() {
            return Ok(self);
        }
        let how = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        };
        Err(format!("{how}: {}", last_lines(&[&self.err, &self.out])))
    }
}

/// Returns the last two lines of the first text that has any.
pub fn last_lines(printed: &[&str]) -> String {
    let lines =
        |text: &&str| text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    let lines: Vec<String> =
        printed.iter().map(lines).find(|lines: &Vec<_>| !lines.is_empty()).unwrap_or_default();
    match lines.as_slice() {
        [] => "it printed nothing".to_owned(),
        [.., before, last] => format!("{before} / {last}"),
        [only] => only.clone(),
    }
}

/// A running program and its children.
#[derive(Debug)]
pub struct Running {
    pub child: Child,
    pub pidfd: OwnedFd,
    started: Instant,
}

/// Turns a system error into a line that begins with `what`.
pub fn io_error(what: impl Display) -> impl FnOnce(std::io::Error) -> String {
    move |error| format!("{what}: {error}")
}

impl Running {
    /// Starts the command in a process group of its own, with the mark.
    pub fn start(command: &mut Command) -> Result<Running, String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let started = Instant::now();
        let mut child = command
            .process_group(0)
            .env(MARK, std::process::id().to_string())
            .spawn()
            .map_err(io_error(&program))?;
        match open_pidfd(child.id().cast_signed()) {
            Ok(pidfd) => Ok(Running { child, pidfd, started }),
            Err(error) => {
                let _ = child.kill();
                Err(format!("{program}: no pidfd: {error}"))
            }
        }
    }

    /// True if the program ends within this time.
    pub fn ends_within(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let wait = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut fds = [PollFd::new(self.pidfd.as_fd(), PollFlags::POLLIN)];
            match nix::poll::poll(&mut fds, wait) {
                Ok(0) if left.is_zero() => return false,
                Ok(count) if count > 0 => return true,
                _ => {}
            }
        }
    }

    /// Returns the first line that the program prints, if it comes within this time. Trap: it takes the pipe, so it
    /// works once and all later output is lost.
    pub fn first_line(&mut self, limit: Duration) -> Option<String> {
        let out = self.child.stdout.take()?;
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(out).read_line(&mut line);
            let _ = send.send(line);
        });
        receive.recv_timeout(limit).ok()
    }

    /// Kills the program and its children.
    pub fn kill(&mut self) -> Result<(), String> {
        let group = Pid::from_raw(self.child.id().cast_signed());
        // The group may be empty already.
        let _ = killpg(group, Signal::SIGKILL);
        if !self.ends_within(KILL_LIMIT) {
            return Err(format!("process {group} does not end after SIGKILL"));
        }
        self.child.wait().map(drop).map_err(io_error("wait"))
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.kill();
        }
    }
}

/// Runs a command to its end.
///
/// # Errors
/// It does not start, or takes longer than the limit.
pub fn run(command: &mut Command, limit: Duration) -> Result<Ended, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(command)?;
    let out = reader(running.child.stdout.take());
    let err = reader(running.child.stderr.take());
    if !running.ends_within(limit) {
        running.kill()?;
        return Err(format!("killed: it did not end within {} s", limit.as_secs()));
    }
    let elapsed = running.elapsed();
    let status = running.child.wait().map_err(io_error("wait"))?;
    Ok(Ended { status, out: text(out), err: text(err), elapsed })
}

/// Reads a pipe to its end in a thread, so that the writer never waits on a full pipe.
pub fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Returns the text that was read, once the pipe has ended.
pub fn text(reader: JoinHandle<Vec<u8>>) -> String {
    reader.join().map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the ids of processes that were started here and still run.
pub fn left_behind() -> Vec<i32> {
    let mark = format!("{MARK}={}", std::process::id());
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_marked = |id: &i32| {
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    ids.filter(is_marked).collect()
}

/// Kills the processes that are left behind; returns their ids.
pub fn end_left_behind() -> Vec<i32> {
    let left = left_behind();
    for id in &left {
        let _ = kill(Pid::from_raw(*id), Signal::SIGKILL);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    const LONG: Duration = Duration::from_secs(60);

    /// One test at a time, because processes of another test have the same mark.
    static ONE: Mutex<()> = Mutex::new(());

    fn only_one() -> MutexGuard<'static, ()> {
        ONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_says_how_it_ended() {
        let _one = only_one();
        let ended =
            run(&mut sh("echo one; echo two >&2"), LONG).expect("runs").succeeded().expect("ends well");
        assert_eq!((ended.out.as_str(), ended.err.as_str()), ("one\n", "two\n"));
        let failed = run(&mut sh("echo why >&2; exit 7"), LONG).expect("runs").succeeded();
        assert_eq!(failed.expect_err("code 7"), "exit code 7: why");
        let failed =
            run(&mut sh("echo a >&2; echo b >&2; echo c >&2; exit 7"), LONG).expect("runs").succeeded();
        assert_eq!(failed.expect_err("code 7"), "exit code 7: b / c");
        let silent = run(&mut sh("echo out; exit 7"), LONG).expect("runs").succeeded();
        assert_eq!(silent.expect_err("code 7"), "exit code 7: out");
        assert!(run(&mut Command::new("/nonexistent"), LONG).is_err());
    }

    #[test]
    fn what_takes_too_long_is_killed_with_its_children() {
        let _one = only_one();
        let refused = run(&mut sh("sleep 1000 & sleep 1000"), Duration::from_millis(50));
        assert!(refused.expect_err("killed").contains("killed"));
        let start = Instant::now();
        while !left_behind().is_empty() {
            assert!(start.elapsed() < LONG, "{:?} left", left_behind());
        }
    }

    #[test]
    fn a_child_of_a_child_has_the_mark() {
        let _one = only_one();
        let mut running = Running::start(&mut sh("setsid sleep 1000 & wait")).expect("starts");
        let start = Instant::now();
        // During an exec, a process's environment reads as empty, so the test waits until the process is `sleep`.
        let sleeps = |id: &i32| {
            std::fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "sleep\n")
        };
        while !left_behind().iter().any(sleeps) {
            assert!(start.elapsed() < LONG, "{:?}", left_behind());
        }
        running.kill().expect("ends");
        // The process left the group, so `kill` did not reach it.
        while !end_left_behind().is_empty() {
            assert!(start.elapsed() < LONG, "{:?} left", left_behind());
        }
    }
}
