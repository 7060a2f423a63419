//! Snapshots for the HTTP thread, requested over the admin socket as `eager top` does.
//!
//! Trap: the number of viewers must not burden the loop. Answers are kept for a moment, so that the loop is asked a few
//! times a second at most; and a stuck loop must not hold the thread for long.

use super::answer::{NoSnapshot, SnapshotSource};
use eager_proto::admin::{AdminRequest, to_line};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time for which an answer is reused.
const FRESH: Duration = Duration::from_millis(300);
/// A loop that does not answer for so many seconds is stuck.
const PATIENCE_S: i64 = 2;
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug)]
pub struct AdminSource {
    path: PathBuf,
    /// Answers by the `tasks_max` that was asked for.
    kept: BTreeMap<u32, (Instant, Result<String, NoSnapshot>)>,
}

impl AdminSource {
    pub fn new(path: PathBuf) -> AdminSource {
        AdminSource { path, kept: BTreeMap::new() }
    }

    fn ask(&self, tasks_max: u32) -> Result<String, NoSnapshot> {
        let question = to_line(&AdminRequest::Snapshot { tasks_max })?;
        let mut stream = self.connect()?;
        stream.write_all(&question).map_err(NoSnapshot::NotAsked)?;
        let mut line = String::new();
        let mut reader = BufReader::new(stream).take(ANSWER_BYTES_MAX);
        reader.read_line(&mut line).map_err(|error| NoSnapshot::Late { seconds: PATIENCE_S, error })?;
        if line.ends_with('\n') { Ok(line) } else { Err(NoSnapshot::CutOff) }
    }

    /// Sets the time limits before connecting, since connecting blocks too while the loop accepts no connections.
    fn connect(&self) -> nix::Result<UnixStream> {
        let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        let limit = TimeVal::seconds(PATIENCE_S);
        setsockopt(&socket, sockopt::SendTimeout, &limit)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &limit)?;
        connect(socket.as_raw_fd(), &UnixAddr::new(&self.path)?)?;
        Ok(UnixStream::from(socket))
    }
}

impl SnapshotSource for AdminSource {
    fn snapshot(&mut self, tasks_max: u32) -> Result<&str, &NoSnapshot> {
        let now = Instant::now();
        let is_fresh = |(at, _): &(Instant, _)| now.duration_since(*at) < FRESH;
        if !self.kept.get(&tasks_max).is_some_and(is_fresh) {
            let answer = self.ask(tasks_max);
            // Counted from the end: a request that took long is not repeated at once.
            self.kept.insert(tasks_max, (Instant::now(), answer));
        }
        self.kept[&tasks_max].1.as_deref()
    }
}
