//! Files of submitted jobs: `$XDG_STATE_HOME/eager/jobs/N`, or below `~/.local/state`, readable by their user only.
//!
//! `job.json` has the request, `log` the program's output, `state` how it ended. Trap: `state` gets its full size
//! when the job is created and is written in place, so that an end can be recorded on a full disk. Trap: the
//! supervising process holds a lock on `lock` for as long as it lives; the lock also ends with the machine.

use crate::tables::JobRow;
use anyhow::{Context, bail, ensure};
use eager_proto::text::shown;
use nix::sys::signal::Signal;
use nix::unistd::{User, geteuid};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Most ended jobs that are kept, and most jobs that run at once (specification S-646).
const ENDED_MAX: usize = 200;
const RUNNING_MAX: usize = 1000;
/// Fixed size of the `state` file.
const STATE_BYTES: usize = 4096;
/// Most bytes of a `job.json` that are read.
const JOB_BYTES_MAX: u64 = 1 << 20;

/// Note on a job whose supervising process is gone.
pub const LOST: &str = "lost: the process that watched over it was killed, or the machine was restarted; how its program \
                        ended is not known";

/// The request of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRequest {
    /// Milliseconds since 1970.
    pub submitted_ms: u64,
    pub folder: String,
    /// Command line for display; bytes that are not text are replaced.
    pub words: Vec<String>,
}

/// How a program ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub ended_ms: u64,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Further information, such as why the program was not started or that its log is incomplete.
    pub note: String,
}

impl End {
    /// Returns the exit code as in shells: 128 plus the number of a signal that ended the program.
    pub fn exit_code(&self) -> u8 {
        let code = self.code.or(self.signal.map(|signal| 128 + signal));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
    }
}

/// A job, as printed for scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobInfo {
    pub job: u64,
    /// `runs`, `ended`, `lost`, `damaged`.
    pub state: &'static str,
    /// One of these two is set once the program has ended; neither if it was not started.
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// Milliseconds since 1970.
    pub submitted_ms: Option<u64>,
    pub ended_ms: Option<u64>,
    /// Further information on its end.
    pub note: String,
    /// Folder in which the job was submitted.
    pub folder: String,
    pub words: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum State {
    Runs,
    Ended(End),
    Lost,
}

/// All jobs of a user.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
}

/// One job of a user.
#[derive(Debug)]
pub struct Job {
    pub id: u64,
    folder: PathBuf,
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn private_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The words as they are listed: not more than fit into a file that is read again, in which a byte takes up to six.
fn listed(words: &[OsString]) -> Vec<String> {
    let mut left = JOB_BYTES_MAX as usize / 8;
    let mut taken = Vec::new();
    for word in words {
        let word = word.to_string_lossy();
        // A quotation mark, a comma and a mark again.
        left = left.saturating_sub(word.len() + 3);
        if left == 0 {
            taken.push("…".to_owned());
            break;
        }
        taken.push(word.into_owned());
    }
    taken
}

/// # Errors
/// The folder belongs to another user.
fn is_mine(folder: &Path) -> anyhow::Result<()> {
    let shown = || folder.display().to_string();
    let (owner, me) = (std::fs::metadata(folder).with_context(shown)?.uid(), geteuid().as_raw());
    ensure!(owner == me, "{} belongs to uid {owner}, not to you: set XDG_STATE_HOME or HOME", shown());
    Ok(())
}

impl Store {
    pub fn of_this_user() -> anyhow::Result<Store> {
        let absolute = |path: PathBuf| path.is_absolute().then_some(path);
        let given = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).and_then(absolute);
        let home = || {
            let named = std::env::var_os("HOME").map(PathBuf::from).and_then(absolute);
            let known = || User::from_uid(geteuid()).ok().flatten().map(|user| user.dir);
            named.or_else(known).map(|home| home.join(".local/state"))
        };
        let state = given.or_else(home).context("no home directory; set XDG_STATE_HOME")?;
        Store::at(state.join("eager/jobs"))
    }

    fn at(folder: PathBuf) -> anyhow::Result<Store> {
        let shown = || folder.display().to_string();
        // `sudo` may keep another user's HOME, where not even a folder above the jobs shall become root's.
        if geteuid().is_root() {
            is_mine(folder.ancestors().find(|place| place.exists()).unwrap_or(&folder))?;
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).with_context(shown)?;
        is_mine(&folder)?;
        Ok(Store { folder })
    }

    /// Returns all jobs, ordered by number.
    pub fn jobs(&self) -> anyhow::Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for entry in std::fs::read_dir(&self.folder).with_context(|| self.folder.display().to_string())? {
            let entry = entry?;
            if let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                jobs.push(Job { id, folder: entry.path() });
            }
        }
        jobs.sort_by_key(|job| job.id);
        Ok(jobs)
    }

    /// Finds a job by number; without one, the newest.
    pub fn find(&self, id: Option<u64>) -> anyhow::Result<Job> {
        let mut jobs = self.jobs()?;
        match id {
            None => jobs.pop().context("there is no job: `eager submit PROGRAM` makes one"),
            Some(id) => jobs
                .into_iter()
                .find(|job| job.id == id)
                .with_context(|| format!("there is no job {id}: `eager jobs` lists them")),
        }
    }

    /// Creates a job, and returns it with the lock that marks it as running. Removes old jobs first if there are too
    /// many.
    pub fn create(&self, words: &[OsString]) -> anyhow::Result<(Job, File)> {
        let jobs = self.jobs()?;
        let next = jobs.last().map_or(1, |job| job.id.saturating_add(1));
        let (running, over): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| matches!(job.state(), Ok(State::Runs)));
        ensure!(
            running.len() < RUNNING_MAX,
            "{RUNNING_MAX} of your jobs have not ended yet: wait for one to end"
        );
        let too_many = (over.len() + 1).saturating_sub(ENDED_MAX);
        over.into_iter().take(too_many).for_each(|job| job.remove());
        let folder = std::env::current_dir().context("the current folder")?;
        let request = JobRequest {
            submitted_ms: now_ms(),
            folder: folder.to_string_lossy().into_owned(),
            words: listed(words),
        };
        let job = self.fresh(next)?;
        match job.fill(&request) {
            Ok(lock) => Ok((job, lock)),
            Err(error) => {
                job.remove();
                Err(error).with_context(|| format!("the files of a job in {}", self.folder.display()))
            }
        }
    }

    /// Creates the folder of a new job. Two processes that submit at once get different numbers.
    fn fresh(&self, first: u64) -> anyhow::Result<Job> {
        for id in first..first.saturating_add(RUNNING_MAX as u64) {
            let folder = self.folder.join(id.to_string());
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Job { id, folder }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| folder.display().to_string()),
            }
        }
        bail!("no free number for a job in {}", self.folder.display())
    }
}

impl Job {
    pub fn in_folder(folder: PathBuf) -> Job {
        Job { id: 0, folder }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn fill(&self, request: &JobRequest) -> std::io::Result<File> {
        let lock = private_file(&self.folder.join("lock"))?;
        lock.try_lock()?;
        private_file(&self.folder.join("log"))?;
        let mut state = private_file(&self.folder.join("state"))?;
        state.write_all(&padded("")?)?;
        state.sync_all()?;
        // Written last: a folder without it is no job yet.
        private_file(&self.folder.join("job.json"))?.write_all(&serde_json::to_vec(request)?)?;
        Ok(lock)
    }

    /// Removes the job with all its files. Files that cannot be removed stay.
    pub fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    pub fn open_log(&self) -> anyhow::Result<File> {
        File::open(self.folder.join("log")).with_context(|| format!("the log of job {}", self.id))
    }

    pub fn append_log(&self) -> std::io::Result<File> {
        OpenOptions::new().append(true).open(self.folder.join("log"))
    }

    /// Writes the end in place, and syncs it to disk.
    pub fn write_end(&self, end: &End) -> std::io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.folder.join("state"))?;
        file.write_all_at(&padded(&serde_json::to_string(end)?)?, 0)?;
        file.sync_data()
    }

    fn end(&self) -> anyhow::Result<Option<End>> {
        let mut text = Vec::new();
        let path = self.folder.join("state");
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        file.take(STATE_BYTES as u64).read_to_end(&mut text)?;
        let text = text.trim_ascii();
        if text.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(text).map(Some).with_context(|| format!("{} is damaged", path.display()))
    }

    pub fn state(&self) -> anyhow::Result<State> {
        if let Some(end) = self.end()? {
            return Ok(State::Ended(end));
        }
        let path = self.folder.join("lock");
        let lock = File::open(&path).with_context(|| path.display().to_string())?;
        match lock.try_lock_shared() {
            Err(TryLockError::WouldBlock) => return Ok(State::Runs),
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| path.display().to_string()),
            Ok(()) => {}
        }
        // The program may have ended between the two checks.
        Ok(self.end()?.map_or(State::Lost, State::Ended))
    }

    fn request(&self) -> Option<JobRequest> {
        let mut text = Vec::new();
        let file = File::open(self.folder.join("job.json")).ok()?;
        file.take(JOB_BYTES_MAX).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Describes the job for scripts.
    pub fn info(&self) -> JobInfo {
        let request = self.request();
        let submitted_ms = request.as_ref().map(|request| request.submitted_ms);
        let (folder, words) = request.map(|request| (request.folder, request.words)).unwrap_or_default();
        let (state, end) = match self.state() {
            Ok(State::Runs) => ("runs", None),
            Ok(State::Lost) => ("lost", None),
            Ok(State::Ended(end)) => ("ended", Some(end)),
            Err(_) => ("damaged", None),
        };
        JobInfo {
            job: self.id,
            state,
            exit_code: end.as_ref().and_then(|end| end.code),
            signal: end.as_ref().and_then(|end| end.signal),
            submitted_ms,
            ended_ms: end.as_ref().map(|end| end.ended_ms),
            note: end.map_or(String::new(), |end| end.note),
            folder,
            words,
        }
    }

    pub fn row(&self) -> JobRow {
        let JobInfo { job, state, exit_code, signal, submitted_ms, ended_ms, words, .. } = self.info();
        let exit = ended_ms.map_or("-".into(), |_| exit(exit_code, signal));
        let until = ended_ms.or_else(|| (state == "runs").then(now_ms));
        let took_ms = submitted_ms.zip(until).map(|(begun, until)| until.saturating_sub(begun));
        JobRow { job, state, exit, took_ms, words: shown(&words.join(" ")) }
    }
}

/// Returns the exit code, or the signal's name.
fn exit(code: Option<i32>, signal: Option<i32>) -> String {
    let named =
        |signal: i32| Signal::try_from(signal).map_or(format!("signal {signal}"), |it| it.to_string());
    let signal = signal.map(named);
    code.map(|code| code.to_string()).or(signal).unwrap_or_else(|| "not started".into())
}

fn padded(text: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = text.as_bytes().to_vec();
    if bytes.len() > STATE_BYTES {
        return Err(ErrorKind::FileTooLarge.into());
    }
    bytes.resize(STATE_BYTES, b' ');
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(dir: &tempfile::TempDir) -> Store {
        Store::at(dir.path().join("jobs")).expect("a store")
    }

    #[test]
    fn a_job_runs_ends_or_is_lost() {
        let dir = tempfile::tempdir().expect("folder");
        let store = store(&dir);
        let (job, lock) = store.create(&["sleep".into(), "1".into()]).expect("a job");
        assert_eq!((job.id, job.state().expect("readable")), (1, State::Runs));
        // Not by closing it: a process that another test is just starting has a copy of the descriptor until its `exec`.
        lock.unlock().expect("unlocked");
        assert_eq!(job.state().expect("readable"), State::Lost);
        let end = End { ended_ms: 7, code: Some(3), ..End::default() };
        job.write_end(&end).expect("written");
        assert_eq!(job.state().expect("readable"), State::Ended(end));
        let mode = |name: &str| std::fs::metadata(job.folder().join(name)).expect(name).mode() & 0o777;
        assert_eq!(["", "log", "state", "lock", "job.json"].map(mode), [0o700, 0o600, 0o600, 0o600, 0o600]);
    }

    #[test]
    fn old_ends_are_forgotten_and_running_jobs_are_not() {
        let dir = tempfile::tempdir().expect("folder");
        let store = store(&dir);
        let (runs, _lock) = store.create(&[]).expect("a job");
        for _ in 0..ENDED_MAX + 5 {
            drop(store.create(&[]).expect("a job"));
        }
        let jobs = store.jobs().expect("jobs");
        assert_eq!((jobs.len(), jobs[0].id), (ENDED_MAX + 1, runs.id));
        assert_eq!(jobs[1].id, 7, "the oldest went first");
    }

    #[test]
    fn a_command_of_any_length_is_listed_and_its_record_is_read_again() {
        let dir = tempfile::tempdir().expect("folder");
        let store = store(&dir);
        let short: Vec<OsString> = vec!["true".into(), "\u{1}".repeat(1000).into()];
        let long: Vec<OsString> = vec!["\u{1}".repeat(100_000).into(); 20];
        for (words, listed) in [(short, 2), (long, 2)] {
            let (job, _lock) = store.create(&words).expect("a job");
            let info = job.info();
            assert!(info.submitted_ms.is_some() && info.words.len() == listed, "{} words", info.words.len());
        }
    }

    #[test]
    fn an_end_is_told_as_shells_tell_it() {
        let end = |code, signal| End { code, signal, ..End::default() };
        let told = [end(Some(0), None), end(Some(7), None), end(None, Some(15)), end(None, None)];
        assert_eq!(told.clone().map(|end| end.exit_code()), [0, 7, 143, 1]);
        assert_eq!(told.map(|told| exit(told.code, told.signal)), ["0", "7", "SIGTERM", "not started"]);
    }
}
