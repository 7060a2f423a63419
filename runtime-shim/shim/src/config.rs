//! The shim's settings, read once from the environment.
//!
//! Trap: a wrong setting must not stop a user's program. A value that cannot be parsed is reported in one line and
//! the default is used.

use crate::ring::Wanted;
use eager_client::FILL_PIECE_BYTES;
use eager_client::loss::{Loss, OnLoss};
use eager_client::task::Declared;
use eager_proto::newcomer::{
    CONNECT_MAX, ENV_CONNECT_MAX, ENV_ON_NO_DAEMON, daemon_expected, parse_connect_max,
};
use eager_proto::{
    CLIENT_SOCKET_NAME, ENV_DISABLE, ENV_LABEL, ENV_ON_DAEMON_LOSS, ENV_PRIORITY, ENV_PROFILE, ENV_SAY_WAITS,
    ENV_SOCKET, ENV_TASK_BYTES, ENV_TASK_WHOLE, ENV_TRUST_UID,
};
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait that can be set: a day. A larger value is taken for a typing error.
const WAIT_SECONDS_MAX: u64 = 86_400;

/// Bytes of host memory for copies that wait for their task's memory; 0: no copy waits.
pub const ENV_STAGING_BYTES: &str = "EAGER_STAGING_BYTES";
/// Default of `EAGER_STAGING_BYTES`: 14 of the 17 published configurations copy less before their first kernel, and
/// it is little beside the memory of a host with GPUs (specification S-304).
const STAGING_BYTES: u64 = 8 << 30;

/// Bytes of page-locked host memory for copies of pageable memory, where the policy wants them; 0: none.
pub const ENV_RING_BYTES: &str = "EAGER_RING_BYTES";
/// Default of `EAGER_RING_BYTES`: four pieces of which each keeps a link of 12 GB/s busy for a third of a
/// millisecond, against some microseconds to send one (specification S-306).
const RING_BYTES: u64 = 16 << 20;
/// Bytes of such copies after which the ring is allocated.
pub const ENV_RING_AFTER_BYTES: &str = "EAGER_RING_AFTER_BYTES";
/// Default of `EAGER_RING_AFTER_BYTES`: 64 MiB gain 5 ms at 12 GB/s over 6 (pageable is half of pinned; specification
/// S-307), about the assumed cost of page-locking 16 MiB. That was not measured on hardware.
const RING_AFTER_BYTES: u64 = 64 << 20;

/// Bytes of managed memory that the CPU fills before a prefetch begins to move them in; 0: all of a copy.
pub const ENV_FILL_PIECE_BYTES: &str = "EAGER_FILL_PIECE_BYTES";

/// Folder in which runs of a program record when its buffers were last used; unset: nothing is learnt.
pub const ENV_LEARN: &str = "EAGER_LEARN";
/// File for the footprints of the program's kernels, measured on the GPU that it runs on, without a daemon; unset: no
/// footprints are measured.
pub const ENV_MEASURE: &str = "EAGER_MEASURE";
/// For tests, in builds with assertions only: a seed by which buffers are believed dead at random.
pub const ENV_TEST_BELIEFS: &str = "EAGER_TEST_BELIEFS";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub disabled: bool,
    pub socket: PathBuf,
    /// The socket was set explicitly, so a daemon is expected.
    pub is_socket_given: bool,
    pub loss: Loss,
    /// User id whose daemon is trusted, besides root and the program's own user.
    pub trusted: Option<u32>,
    /// Print on standard error why a task waits.
    pub shows_waits: bool,
    /// Name of the program in the daemon's tables.
    pub label: String,
    /// Priority of the program's tasks among those of its user.
    pub priority: i8,
    /// Size of the whole program, if its user declared one.
    pub declared: Option<Declared>,
    pub profile: Option<PathBuf>,
    /// Bytes of host memory that copies to the device may take while their task waits for memory.
    pub staging_bytes: u64,
    pub ring: Wanted,
    /// Bytes of managed memory that the CPU fills at a time; 0: all of a copy.
    pub fill_piece_bytes: u64,
    /// Folder for what runs have learnt.
    pub learn: Option<PathBuf>,
    /// File for the footprints that this run measures.
    pub measure: Option<PathBuf>,
    /// Seed for random beliefs.
    pub beliefs_seed: Option<u64>,
}

impl Config {
    /// Reads the settings from environment variables (`get`) and the executable's path. Returns them and one line per
    /// wrong value.
    pub fn read(get: impl Fn(&str) -> Option<OsString>, executable: Option<&Path>) -> (Config, Vec<String>) {
        let mut variables = Variables { get, complaints: Vec::new() };
        let on_loss = variables.on_loss();
        let is_closed_at_start = variables.is_closed_at_start(on_loss);
        let loss = Loss { on_loss, is_closed_at_start, connect_max: variables.connect_max() };
        let config = Config {
            disabled: variables.is_one(ENV_DISABLE),
            shows_waits: variables.is_one(ENV_SAY_WAITS),
            socket: variables.socket(),
            is_socket_given: variables.value(ENV_SOCKET).is_some(),
            loss,
            trusted: variables.trusted(),
            label: label(variables.value(ENV_LABEL), executable),
            priority: variables.priority(),
            declared: variables.declared(),
            profile: variables.path(ENV_PROFILE),
            staging_bytes: variables.bytes(ENV_STAGING_BYTES, STAGING_BYTES),
            ring: Wanted {
                bytes: variables.bytes(ENV_RING_BYTES, RING_BYTES),
                after: variables.bytes(ENV_RING_AFTER_BYTES, RING_AFTER_BYTES),
            },
            fill_piece_bytes: variables.bytes(ENV_FILL_PIECE_BYTES, FILL_PIECE_BYTES),
            learn: variables.path(ENV_LEARN),
            measure: variables.path(ENV_MEASURE),
            beliefs_seed: variables.beliefs_seed(),
        };
        (config, variables.complaints)
    }

    /// How long this program waits for a daemon when it starts.
    pub fn connect_wait(&self) -> Duration {
        self.loss.connect_wait(self.is_socket_given || daemon_expected(&self.socket))
    }
}

/// The environment variables of a program, and one line for each value that cannot be used.
struct Variables<G> {
    get: G,
    complaints: Vec<String>,
}

impl<G: Fn(&str) -> Option<OsString>> Variables<G> {
    /// A variable's value; an empty one counts as unset.
    fn value(&self, name: &str) -> Option<OsString> {
        (self.get)(name).filter(|value| !value.is_empty())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.value(name).map(PathBuf::from)
    }

    fn is_one(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value == "1")
    }

    /// A variable's value as `parse` reads it; `None`: it is unset, or cannot be parsed, which is reported. `wrong`
    /// ends the line: what the value should be, and what is used instead.
    fn parsed<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Option<T>,
        wrong: impl Display,
    ) -> Option<T> {
        let value = self.value(name)?;
        let parsed = value.to_str().and_then(parse);
        if parsed.is_none() {
            self.complaints.push(format!("{name}={value:?} {wrong}"));
        }
        parsed
    }

    fn socket(&self) -> PathBuf {
        self.path(ENV_SOCKET).unwrap_or_else(|| default_socket(self.value("XDG_RUNTIME_DIR")))
    }

    fn on_loss(&mut self) -> OnLoss {
        let wrong = format!("is not open, closed or wait:SECONDS (at most {WAIT_SECONDS_MAX}): using open");
        self.parsed(ENV_ON_DAEMON_LOSS, parse_on_loss, wrong).unwrap_or(OnLoss::Open)
    }

    /// `on_loss`: decides if the variable is unset.
    fn is_closed_at_start(&mut self, on_loss: OnLoss) -> bool {
        if self.value(ENV_ON_NO_DAEMON).is_none() {
            return on_loss == OnLoss::Closed;
        }
        let parse = |text: &str| match text {
            "open" => Some(false),
            "closed" => Some(true),
            _ => None,
        };
        self.parsed(ENV_ON_NO_DAEMON, parse, "is not open or closed: using open").unwrap_or(false)
    }

    fn connect_max(&mut self) -> Duration {
        let wrong = format!(
            "is not a number of seconds (at most {WAIT_SECONDS_MAX}): using {}",
            CONNECT_MAX.as_secs()
        );
        self.parsed(ENV_CONNECT_MAX, parse_connect_max, wrong).unwrap_or(CONNECT_MAX)
    }

    fn trusted(&mut self) -> Option<u32> {
        let wrong = "is not a user id: no other user's daemon is trusted";
        self.parsed(ENV_TRUST_UID, |text| text.parse().ok(), wrong)
    }

    fn priority(&mut self) -> i8 {
        self.parsed(ENV_PRIORITY, parse_priority, "is not a number from -100 to 100: using 0").unwrap_or(0)
    }

    fn declared(&mut self) -> Option<Declared> {
        let wrong = "is not a number of bytes above 0: memory is asked for as the program allocates it";
        let bytes =
            self.parsed(ENV_TASK_BYTES, |text| text.parse().ok().filter(|&bytes| bytes > 0), wrong)?;
        Some(Declared { bytes, whole: self.is_one(ENV_TASK_WHOLE) })
    }

    fn bytes(&mut self, name: &str, default: u64) -> u64 {
        let wrong = format!("is not a number of bytes: using {default}");
        self.parsed(name, |text| text.parse().ok(), wrong).unwrap_or(default)
    }

    fn beliefs_seed(&self) -> Option<u64> {
        let seed = self.value(ENV_TEST_BELIEFS).filter(|_| cfg!(debug_assertions))?;
        seed.to_str()?.parse().ok()
    }
}

/// Name of the program: the given label, or its file name.
fn label(given: Option<OsString>, executable: Option<&Path>) -> String {
    let file_name = || executable.and_then(Path::file_name).map(ToOwned::to_owned);
    given.or_else(file_name).map_or_else(|| "unknown".into(), |name| name.to_string_lossy().into_owned())
}

/// Socket in the user's runtime directory, or in `/run` without one.
fn default_socket(runtime_dir: Option<OsString>) -> PathBuf {
    let run = runtime_dir.map_or_else(|| PathBuf::from("/run"), PathBuf::from);
    run.join("eager").join(CLIENT_SOCKET_NAME)
}

fn parse_priority(value: &str) -> Option<i8> {
    value.parse().ok().filter(|number| (-100..=100).contains(number))
}

fn parse_on_loss(value: &str) -> Option<OnLoss> {
    match value {
        "open" => Some(OnLoss::Open),
        "closed" => Some(OnLoss::Closed),
        _ => {
            let seconds: u64 = value.strip_prefix("wait:")?.parse().ok()?;
            (seconds <= WAIT_SECONDS_MAX).then(|| OnLoss::Wait(Duration::from_secs(seconds)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> (Config, Vec<String>) {
        let get = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        Config::read(get, Some(Path::new("/usr/bin/program")))
    }

    #[test]
    fn defaults_run_as_plain_cuda_when_nobody_is_there() {
        let (config, complaints) = read(&[]);
        assert_eq!(config.socket, Path::new("/run/eager/client.sock"));
        assert_eq!(
            (config.loss.on_loss, config.label.as_str(), config.disabled),
            (OnLoss::Open, "program", false)
        );
        assert!(complaints.is_empty());
        assert_eq!(read(&[("XDG_RUNTIME_DIR", "/x")]).0.socket, Path::new("/x/eager/client.sock"));
    }

    #[test]
    fn each_setting_is_taken() {
        let (config, complaints) = read(&[
            (ENV_SOCKET, "/s"),
            (ENV_ON_DAEMON_LOSS, "wait:3"),
            (ENV_LABEL, "job"),
            (ENV_PROFILE, "p.json"),
            (ENV_DISABLE, "1"),
            (ENV_SAY_WAITS, "1"),
            (ENV_TRUST_UID, "65534"),
            (ENV_STAGING_BYTES, "4096"),
            (ENV_RING_BYTES, "8192"),
            (ENV_RING_AFTER_BYTES, "0"),
            (ENV_FILL_PIECE_BYTES, "32768"),
        ]);
        assert_eq!(config.loss.on_loss, OnLoss::Wait(Duration::from_secs(3)));
        assert_eq!(config.loss.unheard_max(), Duration::from_secs(3));
        assert_eq!((config.label.as_str(), config.disabled, config.shows_waits), ("job", true, true));
        assert_eq!((config.socket, config.profile), ("/s".into(), Some("p.json".into())));
        assert_eq!((config.staging_bytes, config.ring), (4096, Wanted { bytes: 8192, after: 0 }));
        assert_eq!(config.fill_piece_bytes, 32_768);
        assert_eq!(config.trusted, Some(65_534));
        assert!(complaints.is_empty());
    }

    #[test]
    fn a_daemon_is_waited_for_where_one_is_to_be_expected() {
        let connect_wait = |variables: &[(&str, &str)]| read(variables).0.connect_wait();
        let nowhere = ("XDG_RUNTIME_DIR", "/nowhere");
        assert_eq!(connect_wait(&[nowhere]), Duration::ZERO);
        assert_eq!(connect_wait(&[(ENV_SOCKET, "/nowhere/s")]), CONNECT_MAX);
        assert_eq!(connect_wait(&[(ENV_SOCKET, "/s"), (ENV_CONNECT_MAX, "0.5")]), Duration::from_millis(500));
        assert_eq!(connect_wait(&[nowhere, (ENV_ON_DAEMON_LOSS, "wait:3")]), Duration::from_secs(3));
        let dir = tempfile::tempdir().expect("folder");
        let run = ("XDG_RUNTIME_DIR", dir.path().to_str().expect("text"));
        std::fs::create_dir(dir.path().join("eager")).expect("folder");
        assert_eq!(connect_wait(&[run]), Duration::ZERO);
        std::fs::write(dir.path().join("eager/eagerd.state"), "").expect("state");
        assert_eq!(connect_wait(&[run]), CONNECT_MAX);
    }

    #[test]
    fn what_happens_without_a_daemon_at_the_start_is_said_apart_or_as_for_a_loss() {
        let is_closed = |variables: &[(&str, &str)]| read(variables).0.loss.is_closed_at_start;
        assert!(!is_closed(&[]) && is_closed(&[(ENV_ON_DAEMON_LOSS, "closed")]));
        assert!(is_closed(&[(ENV_ON_NO_DAEMON, "closed")]));
        assert!(!is_closed(&[(ENV_ON_NO_DAEMON, "open"), (ENV_ON_DAEMON_LOSS, "closed")]));
        let (config, complaints) = read(&[(ENV_ON_NO_DAEMON, "shut"), (ENV_CONNECT_MAX, "soon")]);
        assert_eq!((config.loss.is_closed_at_start, config.loss.connect_max), (false, CONNECT_MAX));
        assert_eq!(complaints.len(), 2);
    }

    #[test]
    fn a_bad_budget_is_one_line_and_the_default() {
        let (config, complaints) = read(&[(ENV_STAGING_BYTES, "much"), (ENV_RING_BYTES, "-1")]);
        assert_eq!((config.staging_bytes, config.ring.bytes), (STAGING_BYTES, RING_BYTES));
        assert_eq!(complaints.len(), 2);
    }

    #[test]
    fn a_user_that_is_no_number_is_one_line_and_nobody() {
        let (config, complaints) = read(&[(ENV_TRUST_UID, "nobody")]);
        assert_eq!((config.trusted, complaints.len()), (None, 1));
    }

    #[test]
    fn a_bad_policy_is_one_line_and_the_default() {
        for bad in ["wait", "wait:", "wait:-1", "wait:99999999", "shut"] {
            let (config, complaints) = read(&[(ENV_ON_DAEMON_LOSS, bad)]);
            assert_eq!(config.loss.on_loss, OnLoss::Open);
            assert_eq!(complaints.len(), 1);
            assert!(complaints[0].contains(bad) && !complaints[0].contains('\n'), "{complaints:?}");
        }
    }
}
