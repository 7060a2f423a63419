//! Runs an `eagerd` for one test: own run directory, virtual devices; ended on drop.

use crate::{run_ok, tool, until};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Starts an `eagerd` with this command and waits for its ready line.
pub fn ready(mut command: Command) -> Child {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("start eagerd");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("eagerd's first line");
    assert!(line.contains("ready"), "eagerd said {line:?}");
    child
}

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    dir: TempDir,
}

impl Daemon {
    /// Starts `eagerd` with `args` and waits for its ready line.
    pub fn start(args: &[&str]) -> Daemon {
        Daemon::start_with(args, &[])
    }

    /// Starts `eagerd` with further environment variables.
    pub fn start_with(args: &[&str], variables: &[(&str, &Path)]) -> Daemon {
        Daemon::start_in(tempfile::tempdir().expect("run directory"), args, variables)
    }

    /// Kills the daemon and starts another in its run directory.
    pub fn restarted(mut self, args: &[&str], variables: &[(&str, &Path)]) -> Daemon {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
        let elsewhere = tempfile::tempdir().expect("run directory");
        Daemon::start_in(std::mem::replace(&mut self.dir, elsewhere), args, variables)
    }

    fn start_in(dir: TempDir, args: &[&str], variables: &[(&str, &Path)]) -> Daemon {
        let mut command = Command::new(tool("eagerd"));
        command.arg("--run-dir").arg(dir.path());
        command.arg("--journal").arg(dir.path().join("journal.jsonl"));
        command.args(args).envs(variables.iter().copied());
        Daemon { child: ready(command), dir }
    }

    pub fn run_dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn journal(&self) -> PathBuf {
        self.dir.path().join("journal.jsonl")
    }

    /// Returns the command `eager run PROGRAM` under this daemon.
    pub fn run(&self, program: &Path) -> Command {
        let mut command = Command::new(tool("eager"));
        command.arg("run").arg("--run-dir").arg(self.dir.path()).arg("--").arg(program);
        command
    }

    /// Starts `eager run --mem SIZE PROGRAM …` under this daemon; the program holds SIZE of a device until it ends.
    pub fn reserve(&self, memory: &str, program: &[&str]) -> Holder {
        let mut command = Command::new(tool("eager"));
        command.args(["run", "--mem", memory, "--run-dir"]).arg(self.dir.path()).arg("--").args(program);
        Holder(command.spawn().expect("start eager"))
    }

    /// Returns the answer of `eager VERB --json`, such as `ps` or `info`.
    pub fn ask(&self, verb: &str) -> serde_json::Value {
        self.json(&[verb])
    }

    /// Returns the command `eager WORDS` for this daemon.
    pub fn verb(&self, words: &[&str]) -> Command {
        let mut command = Command::new(tool("eager"));
        command.args(words).arg("--run-dir").arg(self.run_dir());
        command
    }

    /// Returns what `eager WORDS --json` prints.
    pub fn json(&self, words: &[&str]) -> serde_json::Value {
        let out = run_ok(self.verb(words).arg("--json"));
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{words:?} printed {out:?}: {error}"))
    }

    /// Returns the command `eager run FLAGS -- sh -c SCRIPT` for this daemon.
    pub fn script(&self, flags: &[&str], script: &str) -> Command {
        let mut command = self.verb(&[&["run"], flags].concat());
        command.args(["--", "sh", "-c", script]);
        command
    }

    /// Polls until a task waits; returns its number.
    pub fn waiting_task(&self) -> u64 {
        until(|| self.json(&["queue"])["tasks"][0]["task"].as_u64().ok_or("no task waits"))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // SIGTERM first, so that the daemon ends the virtual GPU server too; SIGKILL if the daemon does not react.
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        for _ in 0..200 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that holds memory until it is dropped, or waits for memory.
#[derive(Debug)]
pub struct Holder(pub Child);

impl Holder {
    /// Starts a program that asks for `mib` MiB.
    pub fn start(daemon: &Daemon, mib: u64) -> Holder {
        let mut command = Command::new(tool("hostile-client"));
        command.arg("--socket").arg(daemon.run_dir().join("client.sock")).arg("--hold").arg(mib.to_string());
        Holder(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a program"))
    }

    /// Waits until the program has its memory.
    pub fn ready(mut self) -> Holder {
        let stdout = self.0.stdout.take().expect("stdout");
        let ready = BufReader::new(stdout).lines().any(|line| line.is_ok_and(|line| line == "ready"));
        assert!(ready, "it has no memory");
        self
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
