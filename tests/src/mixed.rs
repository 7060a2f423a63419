//! A server under mixed load, its programs, and the comparison of its ledger with what they hold.
//!
//! Trap: the ledger counts a request a moment before or after the program does. A report therefore states what the
//! program holds and what it asks for, and inside a call the ledger may have any value between the two bounds.

use crate::daemon::ready;
use crate::{run_ok, text, tool, until};
use eager_core::PolicyName;
use eager_core::policy::MemoryRule;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use serde_json::Value;
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Users other than the daemon's; `MALLORY` attacks.
pub const ALICE: u32 = 61_001;
pub const MALLORY: u32 = 61_002;

/// A random generator without a crate: the same seed gives the same numbers (xorshift64, Marsaglia, 2003).
#[derive(Debug)]
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1))
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// `eagerd` on two small virtual GPUs, with settings that can be changed.
#[derive(Debug)]
pub struct Server {
    dir: TempDir,
    daemon: Child,
    attackers: Vec<Child>,
}

impl Server {
    pub fn start() -> Server {
        let dir = tempfile::tempdir().expect("folder");
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("open to others");
        std::fs::write(dir.path().join("eagerd.toml"), "").expect("settings");
        let daemon = start(dir.path());
        Server { dir, daemon, attackers: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn run(&self, program: &Path) -> Command {
        let mut command = Command::new(tool("eager"));
        command.arg("run").arg("--run-dir").arg(self.path("run")).arg("--").arg(program);
        // A machine under load may take long to start a daemon; that time is not tested here.
        command.env("EAGER_CONNECT_MAX", "120").env("EAGER_ON_DAEMON_LOSS", "wait:120").current_dir("/");
        command
    }

    /// Ends the daemon with this signal, and starts another after the pause.
    pub fn restart(&mut self, signal: Signal, pause: Duration) {
        kill(Pid::from_raw(self.daemon.id() as i32), signal).expect("signal");
        self.daemon.wait().expect("wait");
        std::thread::sleep(pause);
        self.daemon = start(self.dir.path());
    }

    pub fn reload(&self, settings: &str) {
        std::fs::write(self.path("eagerd.toml"), settings).expect("settings");
        kill(Pid::from_raw(self.daemon.id() as i32), Signal::SIGHUP).expect("signal");
    }

    /// Runs `eager WORDS` and ignores the answer.
    pub fn command(&self, words: &[&str]) {
        self.command_output(words);
    }

    /// Runs `eager WORDS`; returns its output. Panics only if a signal ended it.
    pub fn command_output(&self, words: &[&str]) -> String {
        let output = Command::new(tool("eager")).args(words).arg("--run-dir").arg(self.path("run")).output();
        let output = output.expect("start eager");
        assert!(output.status.code().is_some(), "{words:?}");
        text(&output)
    }

    /// Returns the numbers of the tasks that are held.
    pub fn held(&self) -> Vec<u64> {
        let queue = self.ask("queue")["tasks"].as_array().cloned().unwrap_or_default();
        let row = |task: &Value| task["task"].as_u64().filter(|_| !task["held_by"].is_null());
        queue.iter().filter_map(row).collect()
    }

    /// Returns the number of each task, and whether it waits.
    pub fn tasks(&self) -> Vec<(u64, bool)> {
        let tasks = self.ask("ps")["tasks"].as_array().cloned().unwrap_or_default();
        let row = |task: &Value| Some((task["task"].as_u64()?, task["state"] == "waiting"));
        tasks.iter().filter_map(row).collect()
    }

    fn ask(&self, verb: &str) -> Value {
        let mut command = Command::new(tool("eager"));
        let said = run_ok(command.arg(verb).arg("--run-dir").arg(self.path("run")).arg("--json"));
        serde_json::from_str(&said)
            .unwrap_or_else(|error| panic!("eager {verb} --json printed {said:?}: {error}"))
    }

    /// Starts an attack, as another user if the test runs as root; it lasts until the next quiet moment.
    pub fn attack(&mut self, socket: &str, words: &[&str]) {
        let mut command = Command::new(tool("hostile-client"));
        command.arg("--socket").arg(self.path("run").join(socket)).args(words);
        if Uid::effective().is_root() {
            command.uid(MALLORY).gid(MALLORY);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.attackers.push(command.spawn().expect("start hostile-client"));
    }

    pub fn end_attacks(&mut self) {
        for mut attacker in self.attackers.drain(..) {
            // The attacker may have ended already.
            let _ = attacker.kill();
            let _ = attacker.wait();
        }
    }

    /// Waits until there are no tasks, grants and contexts.
    pub fn until_empty(&self) {
        until(|| {
            let (info, tasks) = (self.ask("info"), self.ask("ps")["tasks"].clone());
            let devices = info["devices"].as_array().cloned().unwrap_or_default();
            let of = |device: &Value, field: &str| device[field].as_u64().unwrap_or(u64::MAX);
            let is_free = |device: &Value| of(device, "granted_bytes") + of(device, "context_bytes") == 0;
            let is_empty = tasks == serde_json::json!([]) && devices.iter().all(is_free);
            if is_empty { Ok(()) } else { Err(format!("{info}\n{tasks}")) }
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_attacks();
        // SIGTERM, so that the daemon ends the virtual GPUs too.
        let _ = kill(Pid::from_raw(self.daemon.id() as i32), Signal::SIGTERM);
        let _ = self.daemon.wait();
    }
}

fn start(dir: &Path) -> Child {
    let mut command = Command::new(tool("eagerd"));
    command
        .args(["--virtual", "2xV100-16GB", "--time-scale", "0", "--memory-scale", "64", "--mps", "--config"])
        .arg(dir.join("eagerd.toml"))
        .arg("--run-dir")
        .arg(dir.join("run"))
        .arg("--journal")
        .arg(dir.join("journal.jsonl"))
        .stderr(Stdio::null());
    ready(command)
}

/// Longer than any wait of a test that passes.
const HANGS: Duration = Duration::from_secs(180);

/// Ends the test if nothing happens for [`HANGS`], and prints the current step; an endless wait would print nothing.
#[derive(Debug)]
pub struct Watch(Arc<Mutex<Doing>>);

#[derive(Debug)]
struct Doing {
    since: Instant,
    what: String,
    is_over: bool,
}

impl Watch {
    pub fn start(server: &Server) -> Watch {
        let what = "the start".to_owned();
        let doing = Arc::new(Mutex::new(Doing { since: Instant::now(), what, is_over: false }));
        let (seen, run_dir) = (Arc::clone(&doing), server.path("run"));
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let doing = seen.lock().expect("doing");
                if doing.is_over {
                    return;
                }
                if doing.since.elapsed() > HANGS {
                    give_up(&doing.what, &run_dir);
                }
            }
        });
        Watch(doing)
    }

    pub fn begins(&self, what: impl Into<String>) {
        let mut doing = self.0.lock().expect("doing");
        (doing.since, doing.what) = (Instant::now(), what.into());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Ok(mut doing) = self.0.lock() {
            doing.is_over = true;
        }
    }
}

/// Prints processes, tasks and the queue, then ends the daemon and the test's process, whatever its threads do.
fn give_up(what: &str, run_dir: &Path) -> ! {
    eprintln!("nothing happened for {} s in {what:?}", HANGS.as_secs());
    let show = |command: &mut Command| match command.stdin(Stdio::null()).output() {
        Ok(output) => eprintln!("{command:?}\n{}", text(&output)),
        Err(error) => eprintln!("{command:?}: {error}"),
    };
    show(Command::new("ps").args(["-eo", "pid,ppid,uid,stat,wchan:24,etimes,args", "--forest"]));
    let ask = |words: &[&str]| {
        show(Command::new("timeout").arg("20").arg(tool("eager")).args(words).arg("--run-dir").arg(run_dir));
    };
    ["ps", "queue", "info"].iter().for_each(|verb| ask(&[verb]));
    // Programs end when their standard input closes; the daemon does not.
    ask(&["shutdown", "--force"]);
    std::process::exit(101)
}

/// State that a program reports.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    pub pid: u32,
    pub holds: u64,
    /// Bytes of the call that is under way.
    pub asks: u64,
    /// The program is between two calls.
    pub is_parked: bool,
}

/// `tests/mixed/worker.cu` as a process.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Standard error of the program: a file, so that the program never waits for a reader.
    stderr: File,
}

impl Worker {
    pub fn start(server: &Server, program: &Path, seed: u64, mib: u64, uid: Option<u32>) -> Worker {
        let stderr = tempfile::tempfile().expect("file");
        let mut command = server.run(program);
        command.arg(seed.to_string()).arg(mib.to_string());
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        let error = stderr.try_clone().expect("descriptor");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(error).spawn().expect("start");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("stdout"));
        Worker { child, input, output: BufReader::new(output), stderr }
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("kill -9");
        self.child.wait().expect("wait");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn assert_ended_by_sigterm(&mut self) {
        let status = self.child.wait().expect("wait");
        assert_eq!(status.signal(), Some(Signal::SIGTERM as i32), "{status}: {}", self.remaining_output());
    }

    /// Stops the process for a while.
    pub fn stop_for(&self, time: Duration) {
        let pid = Pid::from_raw(self.child.id() as i32);
        kill(pid, Signal::SIGSTOP).expect("stop");
        std::thread::sleep(time);
        kill(pid, Signal::SIGCONT).expect("go on");
    }

    pub fn send(&mut self, word: &str) {
        let input = self.input.as_mut().expect("its standard input is open");
        if let Err(error) = writeln!(input, "{word}") {
            panic!("{error}: {}", self.remaining_output());
        }
    }

    pub fn report(&mut self) -> Report {
        self.send("report");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its output");
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["holds", holds, "asks", asks, stands] => {
                let (holds, asks) = (holds.parse().expect("bytes"), asks.parse().expect("bytes"));
                Report { pid: self.child.id(), holds, asks, is_parked: *stands == "parked" }
            }
            _ => panic!("it printed {line:?}: {}", self.remaining_output()),
        }
    }

    /// Returns the rest of standard output, and all of standard error.
    fn remaining_output(&mut self) -> String {
        let mut text = String::new();
        let _ = self.output.read_to_string(&mut text);
        let _ = self.stderr.rewind();
        let _ = self.stderr.read_to_string(&mut text);
        text
    }

    /// Closes the program's standard input, so that it frees its memory and ends.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("wait").is_some()
    }

    /// Checks the output and exit status of a program that was told to end.
    pub fn assert_ends_well(mut self) {
        let output = self.remaining_output();
        let status = self.child.wait().expect("wait");
        let words = ["plain CUDA", "unscheduled", "CUDA calls fail", "WRONG", "please report"];
        let is_harmed = words.iter().any(|word| output.contains(word));
        assert!(status.success() && output.contains("all right\n") && !is_harmed, "{status}: {output}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compares the daemon's ledger with the programs' reports; returns one line for each difference.
pub fn differences(server: &Server, reports: &[Report]) -> Vec<String> {
    let (info, ps) = (server.ask("info"), server.ask("ps"));
    let tasks = ps["tasks"].as_array().cloned().unwrap_or_default();
    let number = |row: &Value, field: &str| row[field].as_u64().unwrap_or_default();
    let mut found = Vec::new();
    for task in &tasks {
        if !reports.iter().any(|report| u64::from(report.pid) == number(task, "pid")) {
            found.push(format!("a task without a program: {task}"));
        }
        let (grant, requirement) = (number(task, "grant_bytes"), number(task, "requirement_bytes"));
        let is_whole = task["class"] == "normal" || task["class"] == "promoted";
        if grant > requirement
            || (is_whole && grant != requirement)
            || (task["state"] == "waiting" && grant != 0)
        {
            found.push(format!("a grant that does not fit its class: {task}"));
        }
    }
    for report in reports {
        let own = tasks.iter().filter(|task| number(task, "pid") == u64::from(report.pid));
        let has: u64 = own.clone().map(|task| number(task, "requirement_bytes")).sum();
        // Inside a call, the ledger may already include the memory asked for, or exclude the memory given back.
        let (least, most) = if report.is_parked {
            (report.holds, report.holds)
        } else {
            (report.holds.saturating_sub(report.asks), report.holds + report.asks)
        };
        if !(least..=most).contains(&has) {
            let own: Vec<&Value> = own.collect();
            found.push(format!("{report:?}, and the ledger has {has}: {own:?}"));
        }
    }
    let policy = info["daemon"]["policy"].as_str().unwrap_or_default().to_owned();
    // Some policies grant more than a device has: `quanta`, whose tasks page, and `cg`, whose allocations fail.
    let counts_memory =
        policy.parse::<PolicyName>().is_ok_and(|it| it.traits().memory == MemoryRule::Counted);
    for device in info["devices"].as_array().into_iter().flatten() {
        let here = tasks.iter().filter(|task| task["device"] == device["device"]);
        let granted: u64 = here.map(|task| number(task, "grant_bytes")).sum();
        let all = number(device, "granted_bytes") + number(device, "context_bytes");
        let is_too_much = counts_memory && all > number(device, "capacity_bytes");
        if granted != number(device, "granted_bytes") || is_too_much {
            found.push(format!("{granted} granted to tasks under {policy}: {device}"));
        }
    }
    found
}
