//! A daemon of our own on devices from a file, and clients of it without CUDA.
//!
//! Trap: nothing here sleeps to let something happen: every wait is for an event, with a limit that only ends a test
//! that has failed.

use eager_proto::admin::{AdminReply, AdminRequest, DeviceRow, TaskRow};
use eager_proto::hello::Hello;
use eager_proto::reply::TaskCell;
use eager_proto::request::{RequestBody, Slot};
use eager_shm::client::{ClientConnection, Wait};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const LONG: Duration = Duration::from_secs(30);
pub const MIB: u64 = 1 << 20;

/// One device of 1 GiB.
const DEVICES: &str =
    r#"[{"name": "test", "memory": "1GiB", "sms": 80, "warps-per-sm": 64, "blocks-per-sm": 32}]"#;

#[derive(Debug)]
pub struct Daemon {
    pub child: Child,
    pub dir: TempDir,
}

/// `eagerd` with a run directory and devices from a file, both in `dir`.
pub fn command(dir: &Path) -> Command {
    let devices = dir.join("devices.json");
    std::fs::write(&devices, DEVICES).expect("devices file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_eagerd"));
    command.arg("--devices-file").arg(devices).arg("--run-dir").arg(dir.join("run"));
    command
}

impl Daemon {
    pub fn start(arguments: &[&str]) -> Daemon {
        Daemon::start_in(tempfile::tempdir().expect("folder"), arguments)
    }

    pub fn start_in(dir: TempDir, arguments: &[&str]) -> Daemon {
        let mut command = command(dir.path());
        command.args(arguments);
        Daemon::spawn(dir, command, "1 file device, policy ")
    }

    /// Starts a daemon whose files are in `dir`, and waits until it says that it is ready with `what`.
    pub fn spawn(dir: TempDir, mut command: Command, what: &str) -> Daemon {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("first line");
        assert!(line.starts_with(&format!("eagerd: ready: {what}")), "it said {line:?}");
        Daemon { child, dir }
    }

    pub fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub fn socket(&self) -> PathBuf {
        self.run_dir().join("client.sock")
    }

    pub fn connect(&self, label: &str) -> ClientConnection {
        ClientConnection::connect(&self.socket(), &Hello::new(label), LONG).expect("connect")
    }

    pub fn ask(&self, request: &AdminRequest) -> AdminReply {
        let mut stream = UnixStream::connect(self.run_dir().join("admin.sock")).expect("admin socket");
        writeln!(stream, "{}", serde_json::to_string(request).expect("JSON")).expect("ask");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("answer");
        serde_json::from_str(&line).expect("a reply")
    }

    pub fn tasks(&self) -> Vec<TaskRow> {
        match self.ask(&AdminRequest::Ps) {
            AdminReply::Ps { tasks } => tasks,
            other => panic!("{other:?}"),
        }
    }

    pub fn device(&self) -> DeviceRow {
        match self.ask(&AdminRequest::Info) {
            AdminReply::Info { devices, .. } => devices.into_iter().next().expect("one device"),
            other => panic!("{other:?}"),
        }
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(pid(&self.child), signal).expect("signal");
    }

    /// Waits for its end; gives its status and what it said on standard error.
    pub fn end(&mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        self.child.stderr.take().expect("stderr").read_to_string(&mut said).expect("stderr");
        (self.child.wait().expect("wait"), said)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn pid(child: &Child) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a pid"))
}

pub fn slot(index: usize) -> Slot {
    Slot::new(index).expect("slot in range")
}

/// Asks for memory; gives the request's sequence.
pub fn begin(client: &ClientConnection, slot: Slot, mib: u64) -> u32 {
    let body = RequestBody::TaskBegin {
        requirement: mib * MIB,
        site: 1,
        blocks: 0,
        threads_per_block: 0,
        flags: 0,
        function: "main".into(),
    };
    client.send(body, slot).expect("send")
}

/// Waits until the slot's cell is as wanted.
pub fn wait_until(client: &ClientConnection, slot: Slot, wanted: impl Fn(&TaskCell) -> bool) -> TaskCell {
    let deadline = Instant::now() + LONG;
    loop {
        let cell = client.cell(slot).expect("a whole cell");
        if wanted(&cell) {
            return cell;
        }
        let wait = client.wait_cell(slot, cell.sequence, deadline);
        assert_eq!(wait, Wait::Changed, "the cell stays {cell:?}");
    }
}

/// Waits until the request is answered.
pub fn answer(client: &ClientConnection, slot: Slot, sequence: u32) -> TaskCell {
    wait_until(client, slot, |cell| cell.answers(sequence))
}
