//! Journals in pieces: every piece replays from its own first line, wherever it was cut.

use crate::starts::Disk;
use crate::support::{Daemon, MIB, answer, begin, begin_whole, command, slot, wait_until};
use crate::watchdog::strike;
use eager_core::Scheduler;
use eager_core::journal::{JournalHeader, check_continues, replay};
use eager_journal::pieces::{self, Piece};
use eager_proto::reply::{STATE_BOUND, STATE_WAITING};
use eager_proto::request::RequestBody;
use eager_shm::client::ClientConnection;
use nix::sys::signal::Signal;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The journal at a path, replayed piece by piece.
#[derive(Debug)]
struct Replayed {
    pieces: usize,
    /// Number of pieces that do not go on where the one before ended.
    gaps: usize,
    last: Scheduler,
}

fn replayed(path: &Path) -> Replayed {
    let (mut pieces, mut gaps) = (0, 0);
    let mut last: Option<Scheduler> = None;
    for piece in pieces::read(path).expect("pieces") {
        let Piece { path, journal, follows } = piece.expect("a piece");
        if let Some(before) = last.as_ref().filter(|_| follows) {
            check_continues(before, &journal.header)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        gaps += usize::from(pieces > 0 && !follows);
        pieces += 1;
        let ended = replay(journal.header, journal.lines);
        last = Some(ended.unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    }
    Replayed { pieces, gaps, last: last.expect("at least one piece") }
}

fn bytes(path: &Path) -> u64 {
    let files = pieces::files(path).expect("files");
    files.iter().map(|file| std::fs::metadata(file).expect("a file").len()).sum()
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn journal_in(dir: &TempDir) -> PathBuf {
    dir.path().join("journal.jsonl")
}

/// Begins and ends `tasks` tasks, one after the other.
fn churn(client: &ClientConnection, tasks: u32) {
    for _ in 0..tasks {
        answer(client, slot(0), begin(client, slot(0), 10));
        answer(client, slot(0), client.send(RequestBody::TaskEnd, slot(0)).expect("send"));
    }
}

fn end(mut daemon: Daemon) -> (TempDir, String) {
    daemon.signal(Signal::SIGTERM);
    let (status, said) = daemon.end();
    assert!(status.success(), "{said}");
    (std::mem::replace(&mut daemon.dir, tempfile::tempdir().expect("folder")), said)
}

/// State with which every piece begins: one client holds memory, one runs over-subscribed, one waits.
fn busy(daemon: &Daemon) -> [ClientConnection; 3] {
    let clients = ["holds", "eager", "waits"].map(|label| daemon.connect(label));
    let [holds, eager, waits] = &clients;
    assert_eq!(answer(holds, slot(0), begin(holds, slot(0), 600)).state, STATE_BOUND);
    assert_eq!(answer(eager, slot(0), begin(eager, slot(0), 500)).state, STATE_BOUND);
    begin(waits, slot(0), 900);
    wait_until(waits, slot(0), |cell| cell.state == STATE_WAITING);
    clients
}

#[test]
fn a_journal_keeps_within_its_limit_and_each_piece_replays_alone() {
    let dir = tempfile::tempdir().expect("folder");
    let path = journal_in(&dir);
    let daemon = Daemon::start_in(
        dir,
        &["--policy", "eager-live", "--journal", plain(&path), "--journal-max", "64KiB"],
    );
    let clients = busy_under_live(&daemon);
    churn(&clients[1], 300);
    let (_dir, said) = end(daemon);
    assert_eq!(said, "");
    let all = replayed(&path);
    assert!(all.pieces > 3 && all.gaps == 0, "{all:?}");
    assert_eq!(all.last.tasks().count(), 2);
    assert!(bytes(&path) <= 64 << 10, "{} bytes", bytes(&path));
    assert!(!pieces::beside(&path, "1").exists(), "the oldest is still there");
    for file in pieces::files(&path).expect("files").iter().rev().skip(1) {
        assert_eq!(replayed(file).pieces, 1, "one piece alone");
    }
    assert_eq!(replayed(path.parent().expect("folder")).pieces, all.pieces, "by its folder");
    let joined = pieces::last_run(&path).expect("one run");
    assert!(joined.lines.len() > 60, "{} lines", joined.lines.len());
}

/// One client holds nearly all memory, one has none, one waits.
fn busy_under_live(daemon: &Daemon) -> [ClientConnection; 3] {
    let clients = ["holds", "works", "waits"].map(|label| daemon.connect(label));
    answer(&clients[0], slot(0), begin(&clients[0], slot(0), 900));
    begin(&clients[2], slot(0), 800);
    wait_until(&clients[2], slot(0), |cell| cell.state == STATE_WAITING);
    clients
}

#[test]
fn reloads_and_policies_set_by_them_replay_across_pieces() {
    let dir = tempfile::tempdir().expect("folder");
    let (path, config) = (journal_in(&dir), dir.path().join("eagerd.toml"));
    let settings = |policy: &str, waiting: u32| {
        let text = format!("policy = {policy:?}\nwaiting-per-user = {waiting}\njournal-max = \"64KiB\"\n");
        std::fs::write(&config, text).expect("settings");
    };
    settings("eager-opt", 50);
    let daemon = Daemon::start_in(dir, &["--config", plain(&config), "--journal", plain(&path)]);
    let [holds, ..] = busy(&daemon);
    for (policy, waiting) in [("case", 40), ("quanta", 30), ("eager-pb", 20), ("eager-opt", 10)] {
        settings(policy, waiting);
        daemon.signal(Signal::SIGHUP);
        daemon.until(|row| row.policy == policy);
        for _ in 0..40 {
            let asked = begin(&holds, slot(1), 2);
            let cell = holds.cell(slot(1)).expect("a whole cell");
            // Under some policies the task waits behind the others; it ends all the same.
            holds.wait_cell(slot(1), cell.sequence, Instant::now() + Duration::from_millis(5));
            let _ = asked;
            answer(&holds, slot(1), holds.send(RequestBody::TaskEnd, slot(1)).expect("send"));
        }
    }
    let (_dir, _) = end(daemon);
    let all = replayed(&path);
    assert!(all.pieces > 3 && all.gaps == 0, "{all:?}");
    assert_eq!(all.last.options().limits.user_waiting_max, Some(10));
}

/// A step that broke is in no journal; all following steps are.
#[test]
fn a_journal_that_begins_with_a_reversion_replays() {
    for (fault, gaps) in [("panics", 1), ("nonsense", 0), ("starves", 0)] {
        let dir = tempfile::tempdir().expect("folder");
        let path = journal_in(&dir);
        let mut command = command(dir.path());
        command.args(["--watchdog", "1", "--journal", plain(&path), "--journal-max", "64KiB"]);
        command.env("EAGERD_FAULTY_POLICY", fault);
        let daemon = Daemon::spawn(dir, command, "1 file device, policy ");
        let client = daemon.connect("client");
        answer(&client, slot(0), begin(&client, slot(0), 100));
        assert_eq!(strike(&client).state, STATE_BOUND, "{fault}");
        answer(&client, slot(0), client.send(RequestBody::TaskEnd, slot(0)).expect("send"));
        churn(&client, 60);
        let (_dir, _) = end(daemon);
        let all = replayed(&path);
        assert_eq!(all.gaps, gaps, "{fault}: {all:?}");
        assert!(all.pieces > 2, "{fault}: {all:?}");
        assert_eq!(all.last.devices().map(|device| device.granted.0).sum::<u64>(), 300 * MIB, "{fault}");
    }
}

#[test]
fn a_torn_last_line_of_an_earlier_run_ends_only_its_piece() {
    let dir = tempfile::tempdir().expect("folder");
    let path = journal_in(&dir);
    let mut daemon = Daemon::start_in(dir, &["--journal", plain(&path)]);
    churn(&daemon.connect("first"), 5);
    daemon.signal(Signal::SIGKILL);
    daemon.child.wait().expect("wait");
    let mut text = std::fs::read_to_string(&path).expect("journal");
    text.push_str("{\"now\":12,\"eve");
    std::fs::write(&path, &text).expect("torn");
    let dir = std::mem::replace(&mut daemon.dir, tempfile::tempdir().expect("folder"));
    let next = Daemon::start_in(dir, &["--journal", plain(&path)]);
    churn(&next.connect("second"), 5);
    let (_dir, _) = end(next);
    let all = replayed(&path);
    assert_eq!((all.pieces, all.gaps), (2, 1), "{all:?}");
    assert_eq!(std::fs::read_to_string(pieces::beside(&path, "1")).expect("kept"), text);
}

#[test]
fn a_disk_that_is_full_of_older_pieces_loses_the_oldest_of_them() {
    let dir = tempfile::tempdir().expect("folder");
    let Some(log) = Disk::mount(&dir, "log") else { return };
    let path = log.0.join("journal.jsonl");
    // 128 KiB a piece, on a disk of 256 KiB.
    let daemon = Daemon::start_in(dir, &["--journal", plain(&path), "--journal-max", "1MiB"]);
    let client = daemon.connect("client");
    let full = |daemon: &Daemon| !daemon.row().journal_problem.is_empty();
    for _ in 0..200 {
        churn(&client, 20);
        if full(&daemon) {
            break;
        }
    }
    assert!(full(&daemon), "the disk was never full");
    let deadline = Instant::now() + Duration::from_secs(60);
    while full(&daemon) {
        assert!(Instant::now() < deadline, "it never goes on: {}", daemon.row().journal_problem);
        churn(&client, 1);
        std::thread::sleep(Duration::from_millis(100));
    }
    churn(&client, 20);
    let (_dir, said) = end(daemon);
    let count = |words: &str| said.matches(words).count();
    assert_eq!(
        (count("the journal cannot be written"), count("the journal is written again")),
        (1, 1),
        "{said}"
    );
    let all = replayed(&path);
    assert_eq!(all.gaps, 1, "{all:?}");
    drop(log);
}

#[test]
fn a_disk_that_somebody_else_filled_ends_no_whole_piece_and_is_tried_again() {
    let dir = tempfile::tempdir().expect("folder");
    let Some(log) = Disk::mount(&dir, "log") else { return };
    let path = log.0.join("journal.jsonl");
    let daemon = Daemon::start_in(dir, &["--journal", plain(&path), "--journal-max", "64KiB"]);
    let client = daemon.connect("client");
    churn(&client, 2);
    let ballast = log.fill();
    churn(&client, 60);
    assert!(!daemon.row().journal_problem.is_empty(), "the disk is not full");
    assert_eq!(replayed(&path).gaps, 0, "what is there is whole");
    std::fs::remove_file(ballast).expect("room");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !daemon.row().journal_problem.is_empty() {
        assert!(Instant::now() < deadline, "it never goes on");
        churn(&client, 1);
        std::thread::sleep(Duration::from_millis(100));
    }
    churn(&client, 20);
    let (_dir, said) = end(daemon);
    assert_eq!(said.lines().count(), 2, "{said}");
    assert_eq!(replayed(&path).gaps, 1);
    drop(log);
}

/// A journal's place in `dir` that is a pipe.
fn pipe_in(dir: &TempDir) -> PathBuf {
    let pipe = journal_in(dir);
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR).expect("pipe");
    pipe
}

/// The reader's end of a pipe, which waits for no writer.
fn reader_of(pipe: &Path) -> std::fs::File {
    let mut nonblocking = std::fs::OpenOptions::new();
    nonblocking.read(true).custom_flags(nix::libc::O_NONBLOCK).open(pipe).expect("the reader's end")
}

/// A journal that goes into a pipe: neither a reader that has not come yet nor one that reads no more holds the daemon up.
#[test]
fn a_journal_into_a_pipe_waits_for_no_reader() {
    let dir = tempfile::tempdir().expect("folder");
    let pipe = pipe_in(&dir);
    let daemon = Daemon::start_in(dir, &["--journal", plain(&pipe)]);
    let client = daemon.connect("client");
    churn(&client, 2);
    assert!(!daemon.row().journal_problem.is_empty(), "there is no reader");
    let reader = reader_of(&pipe);
    let becomes = |problem: bool| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while daemon.row().journal_problem.is_empty() == problem {
            assert!(Instant::now() < deadline, "a problem is awaited: {problem}");
            churn(&client, 20);
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    becomes(false);
    // It reads the first line only, and the pipe fills up.
    let mut first = String::new();
    BufReader::new(&reader).read_line(&mut first).expect("a line");
    assert!(serde_json::from_str::<JournalHeader>(&first).is_ok(), "{first}");
    becomes(true);
    drop(reader);
    churn(&client, 2);
    assert!(end(daemon).1.contains("the journal cannot be written"));
}

/// A header that is larger than the pipe is read whole.
#[test]
fn a_header_larger_than_the_pipe_reaches_its_reader_whole() {
    let dir = tempfile::tempdir().expect("folder");
    let pipe = pipe_in(&dir);
    let daemon = Daemon::start_in(dir, &["--journal", plain(&pipe)]);
    let client = daemon.connect("client");
    // Each waiting task takes more than 100 bytes of the header, and the pipe takes 4 KiB.
    assert_eq!(answer(&client, slot(0), begin(&client, slot(0), 1000)).state, STATE_BOUND);
    let crowd: Vec<ClientConnection> = (0..60).map(|_| daemon.connect("waits")).collect();
    for one in &crowd {
        begin_whole(one, slot(0), 500);
    }
    daemon.until(|row| row.waiting == 60);
    let reader = reader_of(&pipe);
    nix::fcntl::fcntl(&reader, nix::fcntl::FcntlArg::F_SETPIPE_SZ(4096)).expect("a small pipe");
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut text = Vec::new();
    while !text.contains(&b'\n') {
        assert!(Instant::now() < deadline, "{} bytes and no line", text.len());
        // Each step lets the daemon write on.
        answer(&client, slot(1), begin(&client, slot(1), 2000));
        std::thread::sleep(Duration::from_millis(20));
        let mut part = [0; 4096];
        text.extend(std::io::Read::read(&mut &reader, &mut part).map_or(&[][..], |length| &part[..length]));
    }
    let header = text.split(|byte| *byte == b'\n').next().expect("a line");
    assert!(header.len() > 4096, "{} bytes", header.len());
    serde_json::from_slice::<JournalHeader>(header).expect("a whole header");
}
