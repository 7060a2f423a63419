//! `eager mps`: starts, stops and shows NVIDIA's Multi-Process Service through its own control program.
//!
//! Trap: MPS belongs to the user who starts it (root's serves every user, one at a time). Stopping it under running
//! programs breaks them, so it is stopped only when none is left, or after a time that the user gave.

use anyhow::{bail, ensure};
use clap::{Args, Subcommand};
use eager_proto::mps::{control_pid, folder};
use serde::Serialize;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Control program, part of NVIDIA's driver.
const CONTROL: &str = "nvidia-cuda-mps-control";
/// Time limit for an answer of the control program, which may hang if a GPU hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most bytes of its output that are read.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// One day; a longer time is taken for a mistake.
const WITHIN_SECONDS_MAX: u64 = 86_400;
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, Args)]
pub struct MpsFlags {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start it for the programs of this user (of every user: as root).
    Start,
    /// Stop it, if no program uses it.
    Stop {
        /// Let its programs run for so long, then stop it even if some still run.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=WITHIN_SECONDS_MAX))]
        within: Option<u64>,
    },
    /// Show its servers and the programs that use them.
    Status {
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// State of MPS.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Status {
    reply: &'static str,
    folder: String,
    /// Process number of the control daemon; None if MPS does not run.
    pid: Option<u32>,
    servers: Vec<Server>,
}

/// One server, which serves one user.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Server {
    pid: u32,
    clients: Vec<u32>,
}

/// Executes the verb and returns the text to print.
pub fn mps(flags: &MpsFlags) -> anyhow::Result<String> {
    let folder = folder();
    match flags.action {
        Action::Start => start(&folder),
        Action::Stop { within } => stop(&folder, within),
        Action::Status { json } => {
            let status = status(&folder)?;
            Ok(if json { serde_json::to_string_pretty(&status)? + "\n" } else { shown(&status) })
        }
    }
}

fn start(folder: &Path) -> anyhow::Result<String> {
    if let Some(pid) = control_pid(folder) {
        return Ok(format!("MPS runs already: process {pid}, pipes in {}\n", folder.display()));
    }
    ask_control(&["-d"], "", PATIENCE)?;
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(pid) = control_pid(folder) {
            let folder = folder.display();
            return Ok(format!(
                "MPS runs: process {pid}, pipes in {folder}. Programs that start from now on share GPUs through it; \
                 eagerd counts on that from its next start\n"
            ));
        }
        ensure!(Instant::now() < until, "{CONTROL} -d succeeded, but MPS does not run");
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn stop(folder: &Path, within: Option<u64>) -> anyhow::Result<String> {
    let status = status(folder)?;
    let Some(pid) = status.pid else { return Ok(shown(&status)) };
    let clients: Vec<String> =
        status.servers.iter().flat_map(|server| &server.clients).map(u32::to_string).collect();
    let words = match within {
        Some(seconds) => format!("quit -t {seconds}"),
        None if clients.is_empty() => "quit".to_owned(),
        None => bail!(
            "{} programs use MPS (processes {}): wait for them, or end it under them with --within SECONDS",
            clients.len(),
            clients.join(", ")
        ),
    };
    ask_control(&[], &words, PATIENCE + Duration::from_secs(within.unwrap_or(0)))?;
    Ok(format!("MPS ends: process {pid}\n"))
}

fn status(folder: &Path) -> anyhow::Result<Status> {
    let mut status = Status {
        reply: "mps",
        folder: folder.display().to_string(),
        pid: control_pid(folder),
        servers: vec![],
    };
    if status.pid.is_some() {
        for pid in numbers(&ask_control(&[], "get_server_list", PATIENCE)?) {
            let clients = numbers(&ask_control(&[], &format!("get_client_list {pid}"), PATIENCE)?);
            status.servers.push(Server { pid, clients });
        }
    }
    Ok(status)
}

fn shown(status: &Status) -> String {
    let Some(pid) = status.pid else {
        return format!("MPS does not run (no control daemon with its pipes in {})\n", status.folder);
    };
    let server = |server: &Server| {
        let clients: Vec<String> = server.clients.iter().map(u32::to_string).collect();
        let clients = if clients.is_empty() { "none".to_owned() } else { clients.join(", ") };
        format!("server {}: programs {clients}\n", server.pid)
    };
    let servers: String = status.servers.iter().map(server).collect();
    format!("MPS runs: process {pid}, pipes in {}\n{servers}", status.folder)
}

/// Returns the process numbers in a list, one per line. Other lines say that there are none.
fn numbers(text: &str) -> Vec<u32> {
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "it printed no message".to_owned() } else { line }
}

/// Returns the output of the control program for the command `words`.
fn ask_control(arguments: &[&str], words: &str, patience: Duration) -> anyhow::Result<String> {
    let what = if words.is_empty() { arguments.join(" ") } else { words.to_owned() };
    answer(Command::new(CONTROL).args(arguments), words, patience).map_err(|failed| match failed {
        ControlError::Io(error) if error.kind() == ErrorKind::NotFound => anyhow::anyhow!(
            "there is no {CONTROL}: it comes with NVIDIA's driver, in some distributions as a package of its own \
             (nvidia-cuda-mps)"
        ),
        ControlError::Io(error) => anyhow::anyhow!("{CONTROL}: {error}"),
        ControlError::Exit(output) => anyhow::anyhow!("{CONTROL} ({what}) failed: {}", one_line(&output)),
        ControlError::Timeout => anyhow::anyhow!(
            "{CONTROL} ({what}) did not answer in {} s and was ended: its daemon or a GPU may hang, see `nvidia-smi`",
            patience.as_secs()
        ),
    })
}

/// Reasons why there is no answer.
#[derive(Debug)]
enum ControlError {
    Io(std::io::Error),
    /// It ended with an error, after this output.
    Exit(String),
    /// It did not end in time, and was killed.
    Timeout,
}

/// Runs a program with one line of input, which must end within `patience`, and returns its output.
///
/// The output goes to a file: a daemon that the program leaves behind would hold a pipe open for ever.
fn answer(command: &mut Command, words: &str, patience: Duration) -> Result<String, ControlError> {
    let mut output = tempfile::tempfile().map_err(ControlError::Io)?;
    let copy = || output.try_clone().map_err(ControlError::Io);
    command.stdin(Stdio::piped()).stdout(copy()?).stderr(copy()?);
    let mut child = command.spawn().map_err(ControlError::Io)?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it has already ended, its standard error has the reason.
        let _ = writeln!(stdin, "{words}");
    }
    let succeeded = succeeded(&mut child, patience)?;
    let output = read(&mut output).map_err(ControlError::Io)?;
    if succeeded { Ok(output) } else { Err(ControlError::Exit(output)) }
}

/// Waits for the program, and returns whether it ended well. Kills it after `patience`.
fn succeeded(child: &mut Child, patience: Duration) -> Result<bool, ControlError> {
    let until = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait().map_err(ControlError::Io)? {
            return Ok(status.success());
        }
        if Instant::now() >= until {
            // It may have ended by itself just now.
            let _ = child.kill();
            let _ = child.wait();
            return Err(ControlError::Timeout);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn read(output: &mut File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    output.rewind()?;
    output.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_numbers_are_taken_and_words_are_not() {
        assert_eq!(numbers("12\n 34 \nServer not found\n"), [12, 34]);
    }

    fn script(text: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn a_program_that_never_answers_is_given_up_and_ended() {
        let folder = tempfile::tempdir().expect("folder");
        let pid = folder.path().join("pid");
        let mut hangs = script(&format!("echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000", pid.display()));
        let mut patience = Duration::from_millis(50);
        let pid = loop {
            let given_up = answer(&mut hangs, "get_server_list", patience);
            assert!(matches!(given_up, Err(ControlError::Timeout)), "{given_up:?}");
            // On a slow machine it may have been killed before it wrote anything.
            if let Ok(pid) = std::fs::read_to_string(&pid) {
                break pid;
            }
            patience *= 2;
        };
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "process {pid} is left");
    }

    #[test]
    fn an_answer_does_not_wait_for_a_daemon_that_is_left_behind() {
        let pid = answer(&mut script("sleep 1000 & echo $!; exit 0"), "", PATIENCE).expect("an answer");
        let failed = answer(&mut script("sleep 1000 & echo $! >&2; exit 1"), "", PATIENCE);
        let Err(ControlError::Exit(other)) = failed else { panic!("{failed:?}") };
        let ended = Command::new("kill").args([pid.trim(), other.trim()]).status().expect("kill");
        assert!(ended.success(), "both daemons were still there: {pid}, {other}");
    }

    #[test]
    fn it_is_shown_in_words() {
        let mut status = Status { reply: "mps", folder: "/tmp/m".into(), pid: None, servers: vec![] };
        assert_eq!(shown(&status), "MPS does not run (no control daemon with its pipes in /tmp/m)\n");
        status.pid = Some(7);
        status.servers = vec![Server { pid: 8, clients: vec![9, 10] }, Server { pid: 11, clients: vec![] }];
        let expected =
            "MPS runs: process 7, pipes in /tmp/m\nserver 8: programs 9, 10\nserver 11: programs none\n";
        assert_eq!(shown(&status), expected);
    }
}
