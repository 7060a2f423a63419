//! A daemon of the test's own on devices from a file, and clients of it without CUDA.
//!
//! Trap: nothing here may sleep to let something happen: every wait is for an event, with a deadline that only ends a
//! test that has failed.

use command_fds::{CommandFdExt, FdMapping};
use eager_proto::admin::{
    AdminReply, AdminRequest, DaemonRow, DeviceRow, PolicyRow, QueueRow, TaskRow, from_line, to_line,
};
use eager_proto::hello::Hello;
use eager_proto::reply::TaskCell;
use eager_proto::request::{BeginFlags, RequestBody, Slot};
use eager_shm::client::{ClientConnection, Wait};
use std::borrow::BorrowMut;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
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

/// True if this process may become other users; says that the test is skipped if not.
pub fn is_root() -> bool {
    let is_root = nix::unistd::Uid::effective().is_root();
    if !is_root {
        eprintln!("SKIPPED: only root can be several users");
    }
    is_root
}

/// `eagerd` with a run directory and devices from a file, both in `dir`.
pub fn command(dir: &Path) -> Command {
    command_at(dir, &dir.join("run"))
}

/// The daemon with its devices file in `dir`, and this run directory.
pub fn command_at(dir: &Path, run_dir: &Path) -> Command {
    let devices = dir.join("devices.json");
    std::fs::write(&devices, DEVICES).expect("devices file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_eagerd"));
    command.arg("--devices-file").arg(devices).arg("--run-dir").arg(run_dir);
    command
}

/// The daemon `plain`, started with descriptors as a service manager does.
pub fn handing_down(plain: &Command, descriptors: &[(&str, &OwnedFd)]) -> Command {
    // Only the process itself knows its process id before it becomes the daemon.
    let mut command = Command::new("sh");
    command.args(["-c", "export LISTEN_PID=$$; exec \"$@\"", "sh"]);
    command.arg(plain.get_program()).args(plain.get_args());
    let names: Vec<&str> = descriptors.iter().map(|(name, _)| *name).collect();
    let mapping = |(child_fd, (_, kept)): (i32, &(&str, &OwnedFd))| FdMapping {
        parent_fd: kept.try_clone().expect("a descriptor"),
        child_fd,
    };
    let mappings = (3..).zip(descriptors).map(mapping).collect();
    command
        .env("LISTEN_FDS", descriptors.len().to_string())
        .env("LISTEN_FDNAMES", names.join(":"))
        .fd_mappings(mappings)
        .expect("numbers of their own");
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

    /// Starts a daemon whose files are in `dir`, and waits until its ready line comes and has `what`.
    pub fn spawn(dir: TempDir, command: Command, what: &str) -> Daemon {
        let (daemon, line) = Daemon::spawn_anyhow(dir, command);
        assert!(line.starts_with(&format!("eagerd: ready: {what}")), "it said {line:?}");
        daemon
    }

    /// Starts a daemon that may die before it is ready. Also returns its first line, empty if it died.
    pub fn spawn_anyhow(dir: TempDir, mut command: Command) -> (Daemon, String) {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("first line");
        (Daemon { child, dir }, line)
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
        self.try_ask(request).expect("an answer")
    }

    /// `Err`: no daemon is there, or it died before it answered.
    pub fn try_ask(&self, request: &AdminRequest) -> std::io::Result<AdminReply> {
        let mut stream = UnixStream::connect(self.run_dir().join("admin.sock"))?;
        stream.write_all(&to_line(request).expect("plain data"))?;
        let mut line = Vec::new();
        BufReader::new(stream).read_until(b'\n', &mut line)?;
        from_line(&line).map_err(std::io::Error::other)
    }

    /// The daemon's explanation of a task or a device.
    pub fn explains(&self, request: &AdminRequest) -> Vec<String> {
        match self.ask(request) {
            AdminReply::Explained { sentences, .. } => sentences,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    pub fn queue(&self) -> Vec<QueueRow> {
        match self.ask(&AdminRequest::Queue) {
            AdminReply::Queue { tasks, .. } => tasks,
            other => panic!("{other:?}"),
        }
    }

    pub fn policy(&self) -> PolicyRow {
        match self.ask(&AdminRequest::Policy) {
            AdminReply::Policy { policy } => policy,
            other => panic!("{other:?}"),
        }
    }

    /// Asks as another user, which only root can. None: that user is not served.
    pub fn ask_as(&self, uid: u32, request: &AdminRequest) -> Option<AdminReply> {
        let line = to_line(request).expect("plain data");
        // `sh` cannot speak to a Unix socket, and this process stays root. A refused connection gets its answer before
        // it asks.
        let script = "import socket,sys,contextlib\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
                      with contextlib.suppress(OSError): s.sendall(sys.argv[2].encode())\n\
                      print(s.makefile().readline(), end='')";
        let output = Command::new("python3")
            .args(["-c", script])
            .arg(self.run_dir().join("admin.sock"))
            .arg(String::from_utf8(line).expect("text"))
            .uid(uid)
            .gid(uid)
            .output()
            .expect("python3");
        from_line(&output.stdout).ok()
    }

    /// Makes a request that is carried out; returns the daemon's words.
    pub fn act(&self, request: &AdminRequest) -> String {
        match self.ask(request) {
            AdminReply::Done { said } => said,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    /// Makes a request that is refused; returns why.
    pub fn is_refused(&self, request: &AdminRequest) -> String {
        match self.ask(request) {
            AdminReply::Error { message } => message,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    pub fn tasks(&self) -> Vec<TaskRow> {
        match self.ask(&AdminRequest::Ps) {
            AdminReply::Ps { tasks, .. } => tasks,
            other => panic!("{other:?}"),
        }
    }

    pub fn devices(&self) -> Vec<DeviceRow> {
        match self.ask(&AdminRequest::Info) {
            AdminReply::Info { devices, .. } => devices,
            other => panic!("{other:?}"),
        }
    }

    pub fn device(&self) -> DeviceRow {
        self.devices().into_iter().next().expect("one device")
    }

    /// The daemon's row on itself.
    pub fn row(&self) -> DaemonRow {
        match self.ask(&AdminRequest::Info) {
            AdminReply::Info { daemon, .. } => daemon,
            other => panic!("{other:?}"),
        }
    }

    /// Asks until the daemon's row is as wanted. The pause between two requests only saves processor time.
    pub fn until(&self, wanted: impl Fn(&DaemonRow) -> bool) {
        let deadline = Instant::now() + LONG;
        while !wanted(&self.row()) {
            assert!(Instant::now() < deadline, "it stays {:?}", self.row());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the daemon has no more descriptors open than `before`. Admin connections close a moment after their
    /// answer.
    pub fn gives_back(&self, before: usize) {
        let deadline = Instant::now() + LONG;
        while self.descriptors() > before {
            assert!(Instant::now() < deadline, "{} descriptors, {before} before", self.descriptors());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Number of descriptors that the daemon has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("descriptors").count()
    }

    /// Processor time that the daemon has used, in hundredths of a second.
    pub fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("stat");
        let fields: Vec<&str> = stat[stat.rfind(')').expect("name") + 1..].split_whitespace().collect();
        fields[11].parse::<u64>().expect("user time") + fields[12].parse::<u64>().expect("system time")
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(pid(&self.child), signal).expect("signal");
    }

    /// Waits until the daemon has ended; returns its status and its standard error.
    pub fn end(&mut self) -> (ExitStatus, String) {
        let mut said = String::new();
        self.child.stderr.take().expect("stderr").read_to_string(&mut said).expect("stderr");
        (self.child.wait().expect("wait"), said)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The daemon may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills the daemon with SIGKILL, and starts another in its place.
pub fn restarted(mut daemon: Daemon, arguments: &[&str]) -> Daemon {
    daemon.signal(nix::sys::signal::Signal::SIGKILL);
    daemon.child.wait().expect("wait");
    Daemon::start_in(take_dir(&mut daemon), arguments)
}

pub fn take_dir(daemon: &mut Daemon) -> TempDir {
    std::mem::replace(&mut daemon.dir, tempfile::tempdir().expect("folder"))
}

/// A hostile client, and the lines that it printed.
#[derive(Debug)]
pub struct Hostile {
    child: Child,
    pub said: Vec<String>,
}

impl Hostile {
    /// Starts a client, and waits until it has done its harm or is dead.
    pub fn start(daemon: &Daemon, arguments: &[&str]) -> Hostile {
        Hostile::start_until(daemon, arguments, "ready")
    }

    pub fn start_until(daemon: &Daemon, arguments: &[&str], last: &str) -> Hostile {
        Hostile::spawn(Hostile::command(daemon, arguments), last)
    }

    /// Starts a client as another user, which only root can. It prints nothing if it is refused.
    pub fn start_as(daemon: &Daemon, uid: u32, arguments: &[&str]) -> Hostile {
        Hostile::start_as_until(daemon, uid, arguments, "ready")
    }

    pub fn start_as_until(daemon: &Daemon, uid: u32, arguments: &[&str], last: &str) -> Hostile {
        let mut command = Hostile::command(daemon, arguments);
        Hostile::spawn(command.uid(uid).gid(uid).stderr(Stdio::null()), last)
    }

    /// Starts a client at another socket of the daemon, as another user, which only root can.
    pub fn start_at_as(socket: &Path, uid: u32, arguments: &[&str]) -> Hostile {
        Hostile::start_at_as_until(socket, uid, arguments, "ready")
    }

    pub fn start_at_as_until(socket: &Path, uid: u32, arguments: &[&str], last: &str) -> Hostile {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hostile-client"));
        command.arg("--socket").arg(socket).args(arguments);
        Hostile::spawn(command.uid(uid).gid(uid).stderr(Stdio::null()), last)
    }

    /// Starts a client under another program, as another user if one is given.
    pub fn start_under(daemon: &Daemon, wrapper: &[&str], uid: Option<u32>, arguments: &[&str]) -> Hostile {
        let plain = Hostile::command(daemon, arguments);
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(plain.get_program()).args(plain.get_args());
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        Hostile::spawn(command, "ready")
    }

    fn command(daemon: &Daemon, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hostile-client"));
        command.arg("--socket").arg(daemon.socket()).args(arguments);
        command
    }

    fn spawn(mut command: impl BorrowMut<Command>, last: &str) -> Hostile {
        let command = command.borrow_mut();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
        let mut said = Vec::new();
        let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        while let Some(line) = lines.next().transpose().expect("its output") {
            said.push(line);
            if said.last().is_some_and(|line| line == last) {
                break;
            }
        }
        // Later lines do not matter, but a full pipe must not stop the client.
        std::thread::spawn(move || lines.for_each(drop));
        Hostile { child, said }
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(pid(&self.child), signal).expect("signal");
    }

    pub fn pid(&self) -> i32 {
        pid(&self.child).as_raw()
    }

    /// Lets the client end; returns its exit code, or none if a signal ended it.
    pub fn end(&mut self) -> Option<i32> {
        drop(self.child.stdin.take());
        self.child.wait().expect("wait").code()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        // The client may have ended already.
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

/// Asks for memory; returns the request's sequence.
pub fn begin(client: &ClientConnection, slot: Slot, mib: u64) -> u32 {
    client.send(wants(mib), slot).expect("send")
}

/// Asks for memory that cannot be granted in part: where it does not fit, the task waits under every policy.
pub fn begin_whole(client: &ClientConnection, slot: Slot, mib: u64) -> u32 {
    let mut body = wants(mib);
    if let RequestBody::TaskBegin { flags, .. } = &mut body {
        flags.whole = true;
    }
    client.send(body, slot).expect("send")
}

/// The request of a task with this requirement.
pub fn wants(mib: u64) -> RequestBody {
    RequestBody::TaskBegin {
        requirement: mib * MIB,
        site: 1,
        blocks: 0,
        threads_per_block: 0,
        flags: BeginFlags::NONE,
        function: "main".into(),
    }
}

/// Waits until the slot's cell is as wanted, and returns it.
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

/// Waits until the request is answered, and returns the slot's cell.
pub fn answer(client: &ClientConnection, slot: Slot, sequence: u32) -> TaskCell {
    wait_until(client, slot, |cell| cell.answers(sequence))
}
