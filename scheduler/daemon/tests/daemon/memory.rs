//! Memory that runs out for real: a memory cgroup of a few MiB, and the kernel's out-of-memory killer in it.
//!
//! Trap: a group can be made only by root, below a group that this process is in and that permits it (cgroup v1, or a
//! delegated v2). A test that cannot run is skipped, with a message.

use crate::support::{Daemon, Hostile, MIB, answer, begin, command, restarted, slot};
use eager_proto::admin::AdminRequest;
use eager_proto::reply::STATE_BOUND;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A group of processes with a limit of memory, and no swap. Removed on drop, after all its processes have ended.
struct Group(PathBuf);

impl Group {
    fn new(mib: u64) -> Option<Group> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let made = Group::below(&own_group()?, &format!("eager-test-{}-{number}", std::process::id()), mib);
        made.inspect_err(|error| eprintln!("SKIPPED: no memory cgroup can be made here: {error}")).ok()
    }

    fn below(parent: &Path, name: &str, mib: u64) -> std::io::Result<Group> {
        let path = parent.join(name);
        std::fs::create_dir(&path)?;
        let group = Group(path);
        let limit = ["memory.max", "memory.limit_in_bytes"].map(|name| group.0.join(name));
        let limit = limit.iter().find(|file| file.exists()).ok_or(std::io::ErrorKind::Unsupported)?;
        std::fs::write(limit, (mib * MIB).to_string())?;
        Ok(group)
    }

    /// Command line that puts itself into the group and then executes another program.
    fn wrapper(&self) -> [String; 4] {
        let enter = format!("echo $$ > {} && exec \"$@\"", self.0.join("cgroup.procs").display());
        ["sh".into(), "-c".into(), enter, "sh".into()]
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel takes a moment to see that the last process is gone.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// The cgroup that counts this process's memory: its cgroup v2, or v1's for memory.
fn own_group() -> Option<PathBuf> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let of = |controller: &str| {
        groups.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (names, path) = rest.split_once(':')?;
            names.split(',').any(|name| name == controller).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let found = match (of("memory"), of("")) {
        (Some(path), _) => Path::new("/sys/fs/cgroup/memory").join(path),
        (None, Some(path)) => Path::new("/sys/fs/cgroup").join(path),
        (None, None) => return None,
    };
    Some(found)
}

#[test]
fn a_program_that_the_out_of_memory_killer_ends_leaves_nothing() {
    let Some(group) = Group::new(64) else { return };
    let daemon = Daemon::start(&[]);
    let waits = daemon.connect("waits");
    let wrapper = group.wrapper();
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let mut devours = Hostile::start_under(&daemon, &wrapper, None, &["--devour", "256"]);
    assert_eq!(devours.said, ["holds 700 MiB"], "it cannot have said that it is ready");
    let asked = begin(&waits, slot(0), 700);
    assert_eq!(answer(&waits, slot(0), asked).state, STATE_BOUND);
    assert_eq!(devours.end(), None, "a signal ended it");
    assert_eq!((daemon.row().clients, daemon.device().granted_bytes), (1, 700 * MIB));
}

/// The pages of ever more clients fill the daemon's own group, until the kernel ends the daemon or refuses it the next
/// page. Clients that were served are served on, by this daemon or by the next.
#[test]
fn a_daemon_whose_memory_is_full_refuses_or_is_replaced_and_its_programs_go_on() {
    let Some(group) = Group::new(24) else { return };
    let dir = tempfile::tempdir().expect("folder");
    let arguments = ["--clients-max", "9000", "--clients-per-user", "9000"];
    let plain = command(dir.path());
    let wrapper = group.wrapper();
    let mut limited = Command::new(&wrapper[0]);
    limited.args(&wrapper[1..]).arg(plain.get_program()).args(plain.get_args()).args(arguments);
    let daemon = Daemon::spawn(dir, limited, "1 file device, policy ");
    let first = daemon.connect("first");
    assert_eq!(answer(&first, slot(0), begin(&first, slot(0), 100)).state, STATE_BOUND);
    let crowd = Hostile::start(&daemon, &["--crowd", "4000"]);
    assert!(!crowd.said[0].starts_with("4000 "), "it was no limit: {:?}", crowd.said);
    let lives = daemon.try_ask(&AdminRequest::Ps).is_ok();
    eprintln!("the daemon {}: {:?}", if lives { "lives" } else { "was ended" }, crowd.said);
    drop(crowd);
    let daemon = if lives { daemon } else { restarted(daemon, &arguments) };
    first.resume(crate::support::LONG).expect("the same client");
    daemon.until(|row| row.clients == 1);
    assert_eq!(daemon.device().granted_bytes, 100 * MIB);
    assert_eq!(answer(&first, slot(1), begin(&first, slot(1), 100)).state, STATE_BOUND);
}
