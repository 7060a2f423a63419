//! Runs `eager submit`, `jobs`, `wait`, `log` and `--time-limit` against a daemon that only listens: also as another
//! user, and when the supervising process, its disk or its user goes away.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A run directory with a listener, and a state directory.
struct Place {
    dir: tempfile::TempDir,
    _listener: OwnedFd,
    /// Words before the command that make it run as another user.
    become_user: Vec<String>,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("folder");
        let listener = eager_shm::bind_seqpacket(&dir.path().join("client.sock")).expect("bind");
        Place { dir, _listener: listener, become_user: Vec::new() }
    }

    fn command(&self, words: &[&str]) -> Command {
        let own = env!("CARGO_BIN_EXE_eager").to_owned();
        let all: Vec<String> = self
            .become_user
            .iter()
            .cloned()
            .chain([own])
            .chain(words.iter().map(|&word| word.into()))
            .collect();
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]).env("XDG_STATE_HOME", self.state()).env_remove("EAGER_VGPU_SOCKET");
        command
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn eager(&self, words: &[&str]) -> (Option<i32>, String, String) {
        printed(&self.command(words).output().expect("run eager"))
    }

    /// Submits a job, and returns its number.
    fn submit(&self, words: &[&str]) -> String {
        let run_dir = self.dir.path().to_str().expect("text").to_owned();
        let (code, out, said) = self.eager(&[&["submit", "--run-dir", &run_dir], words].concat());
        assert_eq!((code, said.as_str()), (Some(0), ""), "{out}");
        out.trim().to_owned()
    }

    fn job(&self, id: &str) -> PathBuf {
        self.state().join("eager/jobs").join(id)
    }

    /// Returns the supervising process of a job.
    fn supervisor(&self, id: &str) -> i32 {
        let folder = self.job(id);
        let of = |pid: &Path| {
            let line = std::fs::read_to_string(pid.join("cmdline")).ok()?;
            let mut words = line.split('\0').skip(1);
            let is_it = words.next() == Some("__supervise") && words.next().map(Path::new) == Some(&folder);
            is_it.then(|| pid.file_name()?.to_str()?.parse().ok())?
        };
        let mut found = std::fs::read_dir("/proc").expect("proc").filter_map(|entry| of(&entry.ok()?.path()));
        found.next().expect("a process that watches over the job")
    }
}

fn printed(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn lives(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn a_job_goes_on_alone_and_its_output_and_end_are_kept() {
    let place = Place::new();
    // The job has its own session, no input, and the submitter's folder; standard error is in the log as well.
    let script = "read line; echo \"got $?\"; echo oops >&2; pwd; echo $EAGER_LABEL; exit 7";
    let first = place.submit(&["--label", "night", "sh", "-c", script]);
    let second = place.submit(&["sh", "-c", "kill -TERM $$"]);
    let third = place.submit(&["no-such-program"]);
    assert_eq!((first.as_str(), second.as_str(), third.as_str()), ("1", "2", "3"));
    assert_eq!(place.eager(&["wait", "1"]), (Some(7), String::new(), String::new()));
    assert_eq!(place.eager(&["wait", "2", "1"]).0, Some(128 + 15));
    assert_eq!(place.eager(&["wait"]).0, Some(127), "the newest");
    let here = std::env::current_dir().expect("a folder");
    let log = format!("got 1\noops\n{}\nnight\n", here.display());
    assert_eq!(place.eager(&["log", "1"]), (Some(0), log, String::new()));
    assert!(place.eager(&["log"]).1.starts_with("eager: cannot run no-such-program: "));
    let (code, jobs, _) = place.eager(&["jobs"]);
    let rows: Vec<Vec<&str>> = jobs.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    let expected =
        [["JOB", "STATE", "EXIT"], ["1", "ended", "7"], ["2", "ended", "SIGTERM"], ["3", "ended", "127"]];
    assert_eq!((code, rows), (Some(0), expected.map(|row| row.to_vec()).to_vec()), "{jobs}");
    assert_eq!(mode(&place.job("1")), 0o700);
    for file in ["log", "state", "lock", "job.json"] {
        assert_eq!(mode(&place.job("1").join(file)), 0o600, "{file}");
    }
    let (code, _, said) = place.eager(&["wait", "9"]);
    assert_eq!((code, said.as_str()), (Some(1), "eager: there is no job 9: `eager jobs` lists them\n"));
}

#[test]
fn a_command_does_not_turn_round_what_stands_after_it_in_the_table() {
    let place = Place::new();
    place.submit(&["true", "a\u{202e}b\u{2066}c\u{1b}d"]);
    place.eager(&["wait", "1"]);
    let (code, jobs, _) = place.eager(&["jobs"]);
    assert!(code == Some(0) && jobs.ends_with("true a\u{fffd}b\u{fffd}c\u{fffd}d\n"), "{jobs:?}");
}

#[test]
fn a_log_is_followed_to_the_end() {
    let place = Place::new();
    let go = place.dir.path().join("go");
    let script = format!("echo one; while [ ! -e {} ]; do sleep 0.05; done; echo two", go.display());
    let id = place.submit(&["sh", "-c", &script]);
    let mut follows = place.command(&["log", "-f", &id]);
    let follows = follows.stdout(std::process::Stdio::piped()).spawn().expect("eager log");
    until("the first line", || place.eager(&["log", &id]).1 == "one\n");
    std::fs::write(&go, "").expect("written");
    let out = follows.wait_with_output().expect("its end");
    assert_eq!(printed(&out).1, "one\ntwo\n");
}

#[test]
fn where_the_watching_process_is_killed_the_job_is_lost_and_so_is_its_program() {
    let place = Place::new();
    let id = place.submit(&["sh", "-c", "echo $$; exec sleep 1000"]);
    until("the program's number", || place.eager(&["log", &id]).1.ends_with('\n'));
    let program = place.eager(&["log", &id]).1.trim().to_owned();
    assert!(lives(&program));
    let pid = nix::unistd::Pid::from_raw(place.supervisor(&id));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("killed");
    let (code, _, said) = place.eager(&["wait", &id]);
    assert!(
        code == Some(125) && said.contains("lost: the process that watched over it was killed"),
        "{said}"
    );
    until("the program is gone", || !lives(&program));
    assert!(place.eager(&["jobs"]).1.contains("lost"));
}

#[test]
fn a_time_limit_ends_what_ignores_it() {
    let place = Place::new();
    let run_dir = place.dir.path().to_str().expect("text");
    let limit = ["--run-dir", run_dir, "--time-limit", "1s", "--grace", "1s"];
    let stubborn = "trap '' TERM; while :; do sleep 0.1; done";
    let (code, _, said) = place.eager(&[&["run"], &limit[..], &["sh", "-c", stubborn]].concat());
    let expected = "eager: the time limit of 1 s is over: the program gets SIGTERM\n\
                    eager: the program has not ended: it gets SIGKILL\n";
    assert_eq!((code, said.as_str()), (None, expected));
    // A program that handles SIGTERM ends with its own exit code, a quick program is not affected, and neither has an
    // extra child.
    let listens = "trap 'exit 3' TERM; while :; do sleep 0.1; done";
    assert_eq!(place.eager(&[&["run"], &limit[..], &["sh", "-c", listens]].concat()).0, Some(3));
    let quick = "cat /proc/$$/task/$$/children; exit 4";
    let (code, out, said) = place.eager(&[&["run"], &limit[..], &["sh", "-c", quick]].concat());
    assert_eq!((code, out.split_whitespace().count(), said.as_str()), (Some(4), 1, ""), "{out}");
    let id = place.submit(&["--time-limit", "1s", "sleep", "1000"]);
    assert_eq!(place.eager(&["wait", &id]).0, Some(128 + 15));
    assert!(place.eager(&["log", &id]).1.contains("the time limit of 1 s is over"));
}

#[test]
fn jobs_are_their_users_own() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root can become another user");
        return;
    }
    let mut place = Place::new();
    std::fs::set_permissions(place.dir.path(), PermissionsExt::from_mode(0o777)).expect("open to all");
    std::fs::set_permissions(place.dir.path().join("client.sock"), PermissionsExt::from_mode(0o777))
        .expect("open");
    let words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    place.become_user = words.map(String::from).to_vec();
    // Only root may have access to the build's folder.
    let copy = place.dir.path().join("eager");
    std::fs::copy(env!("CARGO_BIN_EXE_eager"), &copy).expect("a copy");
    let eager = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(&place.become_user[1..]).arg(&copy).args(words).current_dir("/");
        printed(&command.env("XDG_STATE_HOME", place.state()).output().expect("setpriv"))
    };
    let run_dir = place.dir.path().to_str().expect("text");
    let (code, out, said) = eager(&["submit", "--run-dir", run_dir, "sh", "-c", "id -u; exit 5"]);
    assert_eq!((code, out.as_str()), (Some(0), "1\n"), "{said}");
    assert_eq!(eager(&["wait"]).0, Some(5));
    assert_eq!(eager(&["log"]).1, "65534\n");
    // Root with another user's HOME must leave no files of root's there, nor folders that the user still lacks.
    let (theirs, root) = (place.state(), Place { become_user: Vec::new(), ..place });
    let (code, _, said) = root.eager(&["jobs"]);
    assert!(code == Some(1) && said.contains("belongs to uid 65534, not to you"), "{said}");
    let (code, _, said) = printed(
        &root.command(&["jobs"]).env("XDG_STATE_HOME", theirs.join("new/state")).output().expect("run eager"),
    );
    assert!(code == Some(1) && said.contains("belongs to uid 65534, not to you"), "{said}");
    assert!(!theirs.join("new").exists(), "a folder of root's");
}

#[test]
fn a_full_disk_does_not_stop_the_program_or_hide_its_end() {
    let dir = tempfile::tempdir().expect("folder");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(dir.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no right to mount a small file system");
        return;
    }
    let place = Place::new();
    let run_dir = place.dir.path().to_str().expect("text").to_owned();
    let eager = |words: &[&str]| {
        printed(&place.command(words).env("XDG_STATE_HOME", dir.path()).output().expect("run eager"))
    };
    let script = "head -c 1000000 /dev/zero; exit 6";
    let (code, out, said) = eager(&["submit", "--run-dir", &run_dir, "sh", "-c", script]);
    assert_eq!((code, out.as_str()), (Some(0), "1\n"), "{said}");
    let (code, _, said) = eager(&["wait", "1"]);
    // With no space left, a job is rejected and leaves no files behind.
    let (next, _, why) = eager(&["submit", "--run-dir", &run_dir, "true"]);
    let left = std::fs::read_dir(dir.path().join("eager/jobs")).expect("jobs").count();
    let unmounted = Command::new("umount").arg(dir.path()).status().expect("umount");
    assert!(unmounted.success());
    assert!(code == Some(6) && said.contains("its log is incomplete: "), "{code:?} {said}");
    assert!(next == Some(1) && why.contains("the files of a job"), "{next:?} {why}");
    assert_eq!(left, 1);
}
