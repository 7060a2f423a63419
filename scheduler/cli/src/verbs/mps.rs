//! `eager mps`: starts, stops and shows NVIDIA's Multi-Process Service through its own control program.
//!
//! Traps: MPS belongs to whoever starts it (root's serves every user, one at a time). To end it under programs breaks
//! them, so it is only ended when none is left, or after a time that somebody named.

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use eager_proto::mps::{control_pid, folder};
use serde::Serialize;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Part of NVIDIA's driver.
const CONTROL: &str = "nvidia-cuda-mps-control";
/// For an answer of the control program, which may hang behind a GPU that does.
const PATIENCE: Duration = Duration::from_secs(20);
/// A day: who waits for longer wants no end of it.
const WITHIN_SECONDS_MAX: u64 = 86_400;
const GLANCE: Duration = Duration::from_millis(10);

#[derive(Debug, Args)]
pub struct MpsFlags {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start it for the programs of this user (of every user: as root).
    Start,
    /// End it, if no program uses it.
    Stop {
        /// Let its programs go on for so long, then end it under them.
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

/// What is there.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Status {
    reply: &'static str,
    folder: String,
    /// Of the control daemon; none: MPS does not run.
    pid: Option<u32>,
    servers: Vec<Server>,
}

/// One server: that of a user.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Server {
    pid: u32,
    clients: Vec<u32>,
}

/// Does it, and says what was done.
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
    told(&["-d"], "", PATIENCE)?;
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(pid) = control_pid(folder) {
            let folder = folder.display();
            return Ok(format!(
                "MPS runs: process {pid}, pipes in {folder}. Programs that start from now on share GPUs through it; \
                 eagerd counts on that from its next start\n"
            ));
        }
        ensure!(Instant::now() < until, "{CONTROL} -d ended well, and no MPS is there after it");
        std::thread::sleep(GLANCE);
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
    told(&[], &words, PATIENCE + Duration::from_secs(within.unwrap_or(0)))?;
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
        for pid in numbers(&told(&[], "get_server_list", PATIENCE)?) {
            let clients = numbers(&told(&[], &format!("get_client_list {pid}"), PATIENCE)?);
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

/// Lines that are a process number; others are words about there being none.
fn numbers(text: &str) -> Vec<u32> {
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "it said nothing".to_owned() } else { line }
}

/// What the control program prints when it is told `words`.
fn told(arguments: &[&str], words: &str, patience: Duration) -> anyhow::Result<String> {
    let mut command = Command::new(CONTROL);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow::anyhow!(
            "there is no {CONTROL}: it comes with NVIDIA's driver, in some distributions as a package of its own \
             (nvidia-cuda-mps)"
        ),
        _ => anyhow::anyhow!("{CONTROL}: {error}"),
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that has ended already says why on its standard error.
        let _ = writeln!(stdin, "{words}");
    }
    let what = if words.is_empty() { arguments.join(" ") } else { words.to_owned() };
    let succeeded = ended(&mut child, patience).with_context(|| format!("{CONTROL} ({what})"))?;
    // Few lines: they fit into the pipes. A daemon that it left behind may hold them open, so no end is waited for.
    let said = if arguments.is_empty() || !succeeded { output(&mut child)? } else { String::new() };
    ensure!(succeeded, "{CONTROL} ({what}) failed: {}", one_line(&said));
    Ok(said)
}

/// Waits until it ends, and kills it after `patience`; says whether it succeeded.
fn ended(child: &mut Child, patience: Duration) -> anyhow::Result<bool> {
    let until = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            bail!("it did not answer in {} s", patience.as_secs());
        }
        std::thread::sleep(GLANCE);
    }
}

fn output(child: &mut Child) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_end(&mut bytes)?;
    }
    if let Some(stderr) = &mut child.stderr {
        stderr.read_to_end(&mut bytes)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_numbers_are_taken_and_words_are_not() {
        assert_eq!(numbers("12\n 34 \nServer not found\n"), [12, 34]);
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
