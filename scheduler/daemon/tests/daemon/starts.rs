//! Starts at an unlucky moment: full disks, folders that cannot be written, files that another process holds. Each
//! daemon either serves and logs what it does not do, or refuses in one line.
//!
//! Trap: small disks are mounted, which only root may; a test that cannot run is skipped, with a message.

use crate::http::{get, over_unix};
use crate::support::{Daemon, LONG, answer, begin, command, command_at, is_root, restarted, slot};
use eager_proto::admin::{AdminReply, AdminRequest, from_line, to_line};
use eager_proto::reply::STATE_BOUND;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, send, socket};
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

fn serves(daemon: &Daemon) {
    let client = daemon.connect("good");
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 10)).state, STATE_BOUND);
}

/// Checks that the start is refused with one line that has `words`.
fn is_refused(mut command: Command, words: &str) {
    let mut daemon = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("start");
    let deadline = Instant::now() + LONG;
    while daemon.try_wait().expect("its end").is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Has no effect on one that has ended.
    let _ = daemon.kill();
    let output = daemon.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "not refused, {words}: {said}");
    assert!(said.lines().count() == 1 && said.contains(words), "{said}");
}

/// A disk of 256 KiB, mounted at a folder in `dir` and unmounted on drop.
pub struct Disk(pub PathBuf);

impl Disk {
    pub fn mount(dir: &TempDir, name: &str) -> Option<Disk> {
        let path = dir.path().join(name);
        std::fs::create_dir(&path).expect("folder");
        let options = ["-t", "tmpfs", "-o", "size=256k,mode=0755", "tmpfs"];
        let done = Command::new("mount").args(options).arg(&path).output();
        if !done.is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: no disk can be mounted here");
            return None;
        }
        Some(Disk(path))
    }

    pub fn fill(&self) -> PathBuf {
        let path = self.0.join("ballast");
        let mut file = File::create(&path).expect("a file");
        while file.write_all(&[0; 4096]).is_ok() {}
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a daemon left over from a failed test still has files there.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_journal_that_never_can_be_stops_the_start() {
    let dir = tempfile::tempdir().expect("folder");
    let mut told = command(dir.path());
    told.args(["--journal", "/nowhere/journal.jsonl"]);
    is_refused(told, "journal /nowhere/journal.jsonl: ");
}

#[test]
fn a_journal_disk_that_is_full_at_the_start_costs_the_record_and_is_said_everywhere() {
    let mut daemon = Daemon::start(&["--journal", "/dev/full"]);
    serves(&daemon);
    let row = daemon.row();
    assert!(row.journal_problem.contains("No space left"), "{row:?}");
    let health = over_unix(&daemon, &get("/healthz"));
    assert!(health.contains("degraded: the journal cannot be written (No space left"), "{health}");
    let metrics = over_unix(&daemon, &get("/metrics"));
    let says = |line: &str| metrics.lines().any(|found| found == line);
    assert!(says("eager_degraded{what=\"journal\"} 1.0"), "{metrics}");
    assert!(says("eager_degraded{what=\"state\"} 0.0"), "{metrics}");
    daemon.signal(Signal::SIGTERM);
    let (status, said) = daemon.end();
    assert!(status.success());
    assert_eq!(said.matches("the journal cannot be written").count(), 1, "{said}");
}

#[test]
fn a_daemon_starts_on_disks_that_are_full_and_writes_its_state_down_once_there_is_room() {
    let dir = tempfile::tempdir().expect("folder");
    let (Some(run), Some(log)) = (Disk::mount(&dir, "run"), Disk::mount(&dir, "log")) else { return };
    let ballast = run.fill();
    log.fill();
    let journal = log.0.join("journal.jsonl");
    let daemon = Daemon::start_in(dir, &["--journal", journal.to_str().expect("plain")]);
    serves(&daemon);
    let row = daemon.row();
    assert!(
        !row.survives_restart && !row.state_problem.is_empty() && !row.journal_problem.is_empty(),
        "{row:?}"
    );
    std::fs::remove_file(ballast).expect("room");
    daemon.until(|row| row.survives_restart && row.state_problem.is_empty());
    drop(daemon);
    drop(run);
}

#[test]
fn a_run_directory_that_cannot_be_written_is_refused() {
    let dir = tempfile::tempdir().expect("folder");
    let Some(run) = Disk::mount(&dir, "run") else { return };
    let done = Command::new("mount").args(["-o", "remount,ro"]).arg(&run.0).status();
    assert!(done.is_ok_and(|status| status.success()));
    is_refused(command(dir.path()), "Read-only file system");
}

#[test]
fn a_run_directory_that_every_user_can_write_is_refused() {
    let dir = tempfile::tempdir().expect("folder");
    let run = dir.path().join("run");
    std::fs::create_dir(&run).expect("folder");
    std::fs::set_permissions(&run, Permissions::from_mode(0o777)).expect("open to all");
    is_refused(command(dir.path()), "every user may write there");
}

#[test]
fn other_users_reach_the_daemon_whatever_its_mask_is() {
    let dir = tempfile::tempdir().expect("folder");
    let plain = command(dir.path());
    let mut masked = Command::new("sh");
    masked.args(["-c", "umask 077; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    let daemon = Daemon::spawn(dir, masked, "1 file device, policy ");
    assert_eq!(mode(&daemon.dir.path().join("run")), 0o755);
}

/// Any user who can read a file can take a shared lock on it, and an exclusive one too.
#[test]
fn no_other_user_can_hold_the_lock_that_keeps_a_second_daemon_out() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("open to others");
    let daemon = Daemon::start_in(dir, &["--journal", "/dev/null"]);
    let locks = |how: &str| {
        let lock = daemon.run_dir().join("eagerd.lock");
        let mut flock = Command::new("flock");
        flock.args([how, "--nonblock"]).arg(lock).arg("true").uid(61_001).gid(61_001);
        let output = flock.output().expect("flock, of util-linux");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for how in ["--shared", "--exclusive"] {
        assert!(locks(how).contains("Permission denied"), "{how}: {}", locks(how));
    }
    let daemon = restarted(daemon, &[]);
    serves(&daemon);
}

#[test]
fn a_lock_file_that_an_earlier_version_left_open_to_all_is_replaced() {
    let dir = tempfile::tempdir().expect("folder");
    let run = dir.path().join("run");
    std::fs::create_dir(&run).expect("folder");
    let path = run.join("eagerd.lock");
    std::fs::write(&path, "1\n").expect("a lock file");
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("mode");
    let opened_before = File::open(&path).expect("anybody may");
    let daemon = Daemon::start_in(dir, &[]);
    assert_eq!(mode(&path), 0o600);
    let held = Flock::lock(opened_before, FlockArg::LockSharedNonblock).expect("nobody else wants it");
    let daemon = restarted(daemon, &[]);
    serves(&daemon);
    drop(held);
}

#[test]
fn a_lock_that_is_held_and_open_to_all_is_named_for_what_it_is() {
    let dir = tempfile::tempdir().expect("folder");
    let run = dir.path().join("run");
    std::fs::create_dir(&run).expect("folder");
    let path = run.join("eagerd.lock");
    std::fs::write(&path, "").expect("a lock file");
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("mode");
    let _held = Flock::lock(File::open(&path).expect("open"), FlockArg::LockShared).expect("held");
    is_refused(command(dir.path()), "remove the file if no daemon runs");
}

#[test]
fn a_journal_is_for_the_daemons_own_user_and_group() {
    let dir = tempfile::tempdir().expect("folder");
    let journal = dir.path().join("journal.jsonl");
    File::create(&journal).expect("one of an earlier version");
    std::fs::set_permissions(&journal, Permissions::from_mode(0o644)).expect("mode");
    let _daemon = Daemon::start_in(dir, &["--journal", journal.to_str().expect("plain")]);
    assert_eq!(mode(&journal), 0o640);
}

/// The owner of a link decides where the daemon writes: here another user, into a folder of root's.
#[test]
fn a_run_directory_that_is_another_users_link_is_refused_and_nothing_is_written() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let (link, victim) = (dir.path().join("run"), dir.path().join("victim"));
    std::fs::create_dir(&victim).expect("folder");
    std::fs::write(victim.join("eagerd.state"), "precious").expect("a file");
    std::os::unix::fs::symlink(&victim, &link).expect("link");
    std::os::unix::fs::lchown(&link, Some(61_001), Some(61_001)).expect("another user's");
    is_refused(command(dir.path()), "belongs to uid 61001");
    assert_eq!(std::fs::read(victim.join("eagerd.state")).expect("as it was"), b"precious");
    assert_eq!(std::fs::read_dir(&victim).expect("folder").count(), 1);
    // A link of the daemon's own user is as good as the folder.
    std::os::unix::fs::lchown(&link, Some(0), Some(0)).expect("own");
    serves(&Daemon::start_in(dir, &[]));
}

/// A run directory of root's below a folder of another user's, who can rename it under a running daemon.
#[test]
fn a_run_directory_that_another_user_can_rename_is_refused() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let run = dir.path().join("run");
    std::fs::create_dir(&run).expect("folder");
    let (owner, mode) = (
        |uid| std::os::unix::fs::chown(dir.path(), Some(uid), None),
        |mode| std::fs::set_permissions(dir.path(), Permissions::from_mode(mode)),
    );
    owner(61_001).expect("another user's");
    is_refused(command(dir.path()), "where uid 61001 can put something else in its place");
    owner(0).expect("own");
    mode(0o777).expect("open");
    is_refused(command(dir.path()), "where every user can put something else in its place");
    assert_eq!(std::fs::read_dir(&run).expect("folder").count(), 0, "something was written");
    mode(0o775).expect("open to its group");
    std::os::unix::fs::chown(dir.path(), None, Some(61_001)).expect("another group's");
    is_refused(command(dir.path()), "where group 61001 can put something else in its place");
    // As /tmp is: only the owner of a file renames it there.
    mode(0o1777).expect("sticky");
    serves(&Daemon::start_in(dir, &[]));
}

/// The daemon's folder is its own, but the way to it leads through another user's link, or a link in that user's folder.
#[test]
fn a_way_to_the_run_directory_that_another_user_can_change_is_refused() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let (theirs, ours) = (dir.path().join("theirs"), dir.path().join("ours"));
    std::fs::create_dir(&theirs).expect("folder");
    std::fs::create_dir(&ours).expect("folder");
    for link in [dir.path().join("link"), theirs.join("link")] {
        std::os::unix::fs::symlink(&ours, link).expect("link");
    }
    std::os::unix::fs::lchown(dir.path().join("link"), Some(61_001), None).expect("another user's");
    std::os::unix::fs::chown(&theirs, Some(61_001), None).expect("another user's");
    for way in ["link/run", "theirs/link/run", "theirs/link/../ours/run"] {
        let told = command_at(dir.path(), &dir.path().join(way));
        is_refused(told, "where uid 61001 can put something else in its place");
    }
    assert_eq!(std::fs::read_dir(&ours).expect("folder").count(), 0, "something was made there");
}

/// What another user put into the run directory while it was open to others: links and pipes are replaced, not followed.
#[test]
fn links_and_pipes_in_the_run_directory_are_not_followed() {
    let dir = tempfile::tempdir().expect("folder");
    let (run, precious) = (dir.path().join("run"), dir.path().join("precious"));
    std::fs::create_dir(&run).expect("folder");
    std::fs::write(&precious, "precious").expect("a file");
    let link = |name: &str| std::os::unix::fs::symlink(&precious, run.join(name)).expect("link");
    link("eagerd.lock");
    is_refused(command(dir.path()), "Too many levels of symbolic links");
    std::fs::remove_file(run.join("eagerd.lock")).expect("removed");
    link("eagerd.state.new");
    for name in ["eagerd.ended", "eagerd.ended.new", "eagerd.history", "eagerd.history.new"] {
        nix::unistd::mkfifo(&run.join(name), nix::sys::stat::Mode::S_IRWXU).expect("pipe");
    }
    let mut daemon = Daemon::start_in(dir, &[]);
    serves(&daemon);
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.end().0.success());
    assert_eq!(std::fs::read(&precious).expect("as it was"), b"precious");
}

#[test]
fn a_run_directory_whose_sockets_would_have_too_long_names_is_refused() {
    let dir = tempfile::tempdir().expect("folder");
    let told = command_at(dir.path(), &dir.path().join("x".repeat(100)));
    is_refused(told, "give a shorter --run-dir");
}

#[test]
fn settings_that_cannot_be_read_twice_or_have_no_end_are_refused() {
    let dir = tempfile::tempdir().expect("folder");
    let pipe = dir.path().join("eagerd.toml");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("pipe");
    for (path, words) in [(pipe.as_path(), "it is a pipe"), (Path::new("/dev/zero"), "larger than 1 MiB")] {
        let mut told = command(dir.path());
        told.arg("--config").arg(path);
        is_refused(told, words);
    }
    // A file that a pipe replaces while the daemon serves does not hold it up.
    std::fs::remove_file(&pipe).expect("removed");
    std::fs::write(&pipe, "clients-max = 9\n").expect("settings");
    let mut daemon = Daemon::start_in(dir, &["--config", pipe.to_str().expect("text")]);
    std::fs::remove_file(&pipe).expect("removed");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("pipe");
    daemon.signal(Signal::SIGHUP);
    serves(&daemon);
    daemon.signal(Signal::SIGTERM);
    let said = daemon.end().1;
    assert!(said.contains("the settings stay as they are: ") && said.contains("it is a pipe"), "{said}");
}

/// Devices that cannot be, each with the words of its refusal.
#[test]
fn a_devices_file_that_describes_no_devices_is_refused_in_plain_words() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("wrong.json");
    let device = |memory: &str, sms: u64| {
        format!(
            r#"{{"name": "x", "memory": "{memory}", "sms": {sms}, "warps-per-sm": 64, "blocks-per-sm": 32}}"#
        )
    };
    let many = vec![device("1GiB", 80); 65].join(",");
    for (text, words) in [
        ("".to_owned(), "wrong.json:1:"),
        ("{}".to_owned(), "a list in brackets is required here, but the file has a table"),
        ("[]".to_owned(), "the file lists no devices"),
        (format!("[{}]", device("1GiB", 0)), "device 0: `sms` must be at least 1"),
        (format!("[{}]", device("0", 80)), "device 0: `memory` must be at least 1 byte and at most 1024TiB"),
        (format!("[{}]", device("18446744073709551615", 80)), "device 0: `memory` must be"),
        (
            format!("[{}]", device("1GiB", 1 << 32)),
            "a whole number of 0 to 4294967295 is required here, but the file has `4294967296`",
        ),
        (
            format!("[{}]", device("1GiB", 80).replace("sms", "smms")),
            "a device has no `smms`; did you mean `sms`?",
        ),
        (format!("[{many}]"), "65 devices are more than the 64 of one daemon"),
    ] {
        std::fs::write(&path, text).expect("devices");
        let mut told = Command::new(env!("CARGO_BIN_EXE_eagerd"));
        told.arg("--devices-file").arg(&path).arg("--run-dir").arg(dir.path().join("run"));
        is_refused(told, words);
    }
}

#[test]
fn an_empty_device_is_a_settings_file_without_settings() {
    serves(&Daemon::start(&["--config", "/dev/null"]));
}

/// A pipe that another user made where the journal goes would tell that user what all others ask for.
#[test]
fn a_journal_into_another_users_pipe_is_refused() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let pipe = dir.path().join("journal");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("pipe");
    std::os::unix::fs::chown(&pipe, Some(61_001), None).expect("another user's");
    let mut told = command(dir.path());
    told.arg("--journal").arg(&pipe);
    is_refused(told, "it belongs to uid 61001");
}

/// `eagerd --detach` on the files in `dir`: status, and all that it said until its output was closed.
fn detached(dir: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(dir).arg("--detach").args(arguments).output().expect("run");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).expect("text"))
}

fn asks(dir: &Path, request: &AdminRequest) -> AdminReply {
    let mut stream = UnixStream::connect(dir.join("run/admin.sock")).expect("a daemon");
    stream.write_all(&to_line(request).expect("a line")).expect("asked");
    let mut line = Vec::new();
    BufReader::new(stream).read_until(b'\n', &mut line).expect("an answer");
    from_line(&line).expect("an answer")
}

#[test]
fn in_the_background_it_serves_when_the_command_ends_and_holds_none_of_its_output() {
    let dir = tempfile::tempdir().expect("folder");
    // `output` returns only when no process has the pipes any more.
    let (status, said) = detached(dir.path(), &[]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.starts_with("eagerd: ready: ") && said.lines().count() == 1, "{said}");
    let AdminReply::Info { daemon, .. } = asks(dir.path(), &AdminRequest::Info) else { panic!("no answer") };
    assert!(daemon.pid > 0);
    let (status, said) = detached(dir.path(), &[]);
    assert_eq!(status, Some(78), "{said}");
    assert!(said.contains("serves") && said.lines().count() == 1, "{said}");
    let log = dir.path().join("run/eagerd.log");
    assert_eq!(mode(&log), 0o640);
    asks(dir.path(), &AdminRequest::Shutdown { force: true, when_idle: false });
    while UnixStream::connect(dir.path().join("run/admin.sock")).is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn in_the_background_what_keeps_it_from_serving_is_said_where_it_was_started() {
    let dir = tempfile::tempdir().expect("folder");
    // Errors from before and after the daemon has the run directory.
    for (arguments, words) in [
        (["--journal", "/no/such/folder/journal"], "/no/such/folder/journal"),
        (["--device-memory", "2G"], "device-memory is 2 GiB, and the largest device has 1 GiB"),
        (["--config", "/no/such/file.toml"], "/no/such/file.toml"),
    ] {
        let (status, said) = detached(dir.path(), &arguments);
        assert_eq!(status, Some(78), "{said}");
        assert!(said.contains(words) && said.lines().count() == 1, "{said}");
    }
}

/// The daemon and its users cause the lines of the log, and the file is bounded: the excess becomes the older piece, of
/// which there is one.
#[test]
fn the_log_in_the_background_is_bounded_and_one_older_piece_is_kept() {
    let dir = tempfile::tempdir().expect("folder");
    let (run, megabytes) = (dir.path().join("run"), "x".repeat(5 << 20));
    let length = |name: &str| std::fs::metadata(run.join(name)).map(|file| file.len()).unwrap_or_default();
    let (status, said) = detached(dir.path(), &[]);
    assert_eq!(status, Some(0), "{said}");
    for round in ["first", "second"] {
        // Stands for lines of the virtual GPU server, or lines that a user has provoked for days.
        let mut log = File::options().append(true).open(run.join("eagerd.log")).expect("log");
        log.write_all(format!("{round}{megabytes}\n").as_bytes()).expect("written");
        let refused = UnixAddr::new(&run.join("client.sock")).expect("address");
        let socket =
            socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::empty(), None).expect("socket");
        connect(socket.as_raw_fd(), &refused).expect("connected");
        send(socket.as_raw_fd(), &[0xff; 10], MsgFlags::empty()).expect("said");
        let deadline = Instant::now() + LONG;
        while length("eagerd.log") > 4 << 20 {
            assert!(Instant::now() < deadline, "the log has {} bytes", length("eagerd.log"));
            std::thread::sleep(Duration::from_millis(5));
        }
        let older = std::fs::read_to_string(run.join("eagerd.log.1")).expect("the older piece");
        assert!(older.contains(round) && older.contains("refused pid "), "{round}: {} bytes", older.len());
        assert!(older.len() < 10 << 20 && mode(&run.join("eagerd.log.1")) == 0o640, "{}", older.len());
    }
    let logs = std::fs::read_dir(&run).expect("run directory");
    let logs = logs.filter(|file| {
        file.as_ref().is_ok_and(|it| it.file_name().as_encoded_bytes().starts_with(b"eagerd.log"))
    });
    assert_eq!(logs.count(), 2);
    asks(dir.path(), &AdminRequest::Shutdown { force: true, when_idle: false });
}
