//! The daemon's settings: flags over a TOML file over defaults.
//!
//! Trap: [`Config`] is both the flags and the file, so every field is optional here; [`Config::resolve`] alone knows the
//! defaults.

use crate::clients::quota::Users;
use crate::devices::selection::Selection;
use crate::settings::file;
use crate::settings::http_address::{HttpAddress, HttpSettings};
use crate::settings::names::{GroupName, UserName};
use clap::Parser;
use eager_core::limits::{Limits, Measure, Overstay};
use eager_core::policy::NotForDevices;
use eager_core::{Options, PolicyName};
use eager_gpu_model::{card_list, parse_nonnegative};
use eager_units::{Bytes, Nanos, Size};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::PathBuf;

/// Longest time for which a broken policy may keep a task waiting (the limit of Linux's sched_ext: specification
/// S-704).
const WATCHDOG_SECONDS_MAX: u64 = 30;
/// Default size of all pieces of a journal: days of a busy server, and little beside what programs write (specification
/// S-718).
const JOURNAL_MAX: Size = Size(512 << 20);
/// A smaller journal would be headers only.
const JOURNAL_MAX_LEAST: u64 = 64 << 10;
/// Default for one user's tasks in the queue: more than a list of jobs that ordering improves, and few enough to look
/// at in a step (specification S-720).
const QUEUED_MAX: u32 = 128;
/// 31 years: a longer time is no limit, and would not fit into nanoseconds.
const TASK_SECONDS_MAX: u64 = 1_000_000_000;

/// GPU sharing for CUDA programs that do not all fit: decides which task starts where, when, and with how much memory.
#[derive(Debug, Clone, Default, PartialEq, Parser, Deserialize)]
#[command(name = "eagerd", version = eager_version::LONG, after_help = crate::process::exit::HELP)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Serve virtual GPUs, such as `4xV100-16GB` or `2xV100-16GB,1xH200`.
    #[arg(long = "virtual", value_name = "CARDS", value_parser = card_list)]
    #[serde(rename = "virtual", deserialize_with = "cards_in_file")]
    pub virtual_devices: Option<String>,
    /// Real seconds per modelled second of the virtual GPUs; 0: without waiting [default: 1].
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = parse_nonnegative)]
    pub time_scale: Option<f64>,
    /// Modelled bytes per program byte of the virtual GPUs: 1024 lets a small program stand for a large one [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub memory_scale: Option<u64>,
    /// Clock of the virtual GPUs: `real` (scaled), or `virtual`: modelled device time and the programs' own host time,
    /// however long this machine takes to compute the results [default: real].
    #[arg(long, value_enum)]
    pub clock: Option<Clock>,
    /// On a virtual clock: modelled seconds per second of processor time of a program's own threads [default: 1].
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = parse_nonnegative)]
    pub host_factor: Option<f64>,
    /// Processes share the virtual GPUs' SMs at the same time, as under NVIDIA's MPS, and do not take turns.
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    pub mps: Option<bool>,
    /// Serve these GPUs of the machine: `all`, numbers such as `0,2` (as `nvidia-smi` counts), or uuids [default: all, if no
    /// other devices are named].
    #[arg(long, value_name = "GPUS", conflicts_with_all = ["virtual_devices", "devices_file"])]
    pub gpus: Option<Selection>,
    /// Schedule on devices that exist only as a description in a JSON file (dry runs and tests).
    #[arg(long, value_name = "FILE.json", conflicts_with = "virtual_devices")]
    pub devices_file: Option<PathBuf>,
    /// The scheduling policy, by its name; `eagerd --help` lists all policies [default: eager-fair].
    #[arg(long, help = policy_help())]
    pub policy: Option<PolicyName>,
    /// Memory that may be granted on each device, such as `12GiB` [default: all of it].
    #[arg(long, value_name = "SIZE")]
    pub device_memory: Option<Size>,
    /// Directory of the sockets [default: $XDG_RUNTIME_DIR/eager, or /run/eager for root].
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
    /// Write every event and decision to this file. Older entries are in FILE.1, FILE.2 and so on.
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Largest size of all files of the journal together, such as `2GiB`; the oldest are removed first; 0: no limit
    /// [default: 512MiB].
    #[arg(long, value_name = "SIZE")]
    pub journal_max: Option<Size>,
    /// Programs served at once [default: 1024].
    #[arg(long, value_name = "N")]
    pub clients_max: Option<usize>,
    /// Programs of one user served at once [default: three quarters of clients-max].
    #[arg(long, value_name = "N")]
    pub clients_per_user: Option<usize>,
    /// Replace the policy by `case` if a decision takes longer than this, or if a task that fits waits longer; at most
    /// 30 [default: 30].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=WATCHDOG_SECONDS_MAX))]
    pub watchdog: Option<u64>,
    /// Interval in milliseconds at which the real memory use of the devices is observed; 0: never. Never on a virtual
    /// clock [default: 500].
    #[arg(long, value_name = "MS")]
    pub observe_ms: Option<u64>,
    /// Memory use of the devices, read again at each observation (dry runs and tests).
    #[arg(long, value_name = "FILE.json", hide = true)]
    pub uses_file: Option<PathBuf>,
    /// What happens to a program that uses more device memory than it declared: observe (other tasks get less),
    /// throttle (its later tasks wait 10 s longer), kill [default: observe].
    #[arg(long, value_name = "MEASURE")]
    pub overrun: Option<Measure>,
    /// Memory that all tasks of one user may have together, waiting and running, with their programs' contexts, such as
    /// `64GiB`; tasks beyond that wait [default: no limit].
    #[arg(long, value_name = "SIZE")]
    pub memory_per_user: Option<Size>,
    /// Tasks of one user that may wait; one more is refused [default: no limit].
    #[arg(long, value_name = "N")]
    pub waiting_per_user: Option<u32>,
    /// Tasks of one user in the queue at once; further tasks wait behind it, in order, and do not slow down decisions
    /// for other users [default: 128].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub queued_per_user: Option<u32>,
    /// Longest time that a task may have its device [default: no limit].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=TASK_SECONDS_MAX))]
    pub task_seconds_max: Option<u64>,
    /// What happens to a program whose task has its device for longer: observe (it is logged and counted), end
    /// (SIGTERM, and SIGKILL 10 s later) [default: observe].
    #[arg(long, value_name = "MEASURE")]
    pub overstay: Option<Overstay>,
    /// Serve these users only, by number or name, such as `1000,anna` [default: all users].
    #[arg(long, value_name = "USER,…", value_delimiter = ',')]
    pub allow_uids: Option<Vec<UserName>>,
    /// Never serve these users, even if they are allowed [default: none].
    #[arg(long, value_name = "USER,…", value_delimiter = ',')]
    pub deny_uids: Option<Vec<UserName>>,
    /// Serve members of these groups, besides the users of --allow-uids [default: all users].
    #[arg(long, value_name = "GROUP,…", value_delimiter = ',')]
    pub allow_gids: Option<Vec<GroupName>>,
    /// Never serve members of these groups, even if they are allowed [default: none].
    #[arg(long, value_name = "GROUP,…", value_delimiter = ',')]
    pub deny_gids: Option<Vec<GroupName>>,
    /// Serve metrics and health over HTTP at this address too, such as 9690 or 0.0.0.0:9690; without an address only to
    /// this machine. They are always at http.sock in the run directory, for the daemon's own user.
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub http: Option<HttpAddress>,
    /// Serve the web page there too: it shows programs' labels and process ids to whoever reaches the address.
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    pub web_page: Option<bool>,
    /// Names of this machine in the addresses that browsers and scrapers use, such as `gpu01,gpu01.example` [default:
    /// none; its addresses and localhost only].
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub http_hosts: Option<Vec<String>>,
    /// Why `case` decides in place of the policy; the daemon passes this to itself when it restarts.
    #[arg(long, hide = true)]
    #[serde(skip)]
    pub reverted: Option<String>,
    /// Settings of the policy, from the file's `[options]`.
    #[arg(skip)]
    pub options: Option<Options>,
    /// Read settings from this TOML file; flags take precedence.
    #[arg(long, value_name = "FILE.toml")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// Print the effective settings as such a file, and exit.
    #[arg(long)]
    #[serde(skip)]
    pub show_config: bool,
    /// Serve in the background: this command ends when programs can connect, or with the error. The daemon's messages
    /// then go to eagerd.log in the run directory.
    #[arg(long)]
    #[serde(skip)]
    pub detach: bool,
    /// This is the process in the background.
    #[arg(long, hide = true)]
    #[serde(skip)]
    pub detached: bool,
}

/// What time is on virtual GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    #[default]
    Real,
    Virtual,
}

/// Where the devices come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum DeviceSource {
    Virtual {
        #[serde(rename = "virtual")]
        cards: String,
        #[serde(rename = "time-scale")]
        time_scale: f64,
        #[serde(rename = "memory-scale")]
        memory_scale: u64,
        clock: Clock,
        #[serde(rename = "host-factor")]
        host_factor: f64,
        mps: bool,
    },
    File {
        #[serde(rename = "devices-file")]
        path: PathBuf,
    },
    /// GPUs of this machine.
    Gpus { gpus: Selection },
}

/// The resolved settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Settings {
    #[serde(flatten)]
    pub devices: DeviceSource,
    pub policy: PolicyName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_memory: Option<Size>,
    pub run_dir: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<PathBuf>,
    pub journal_max: Size,
    pub clients_max: usize,
    pub clients_per_user: usize,
    /// Seconds.
    pub watchdog: u64,
    pub observe_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses_file: Option<PathBuf>,
    #[serde(flatten)]
    pub users: Users,
    #[serde(flatten)]
    pub http: HttpSettings,
    #[serde(skip)]
    pub reverted: Option<String>,
    /// Includes the limits that the flags name.
    pub options: Options,
}

/// Bad settings, in one line.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{}:{line}:{column}: {message}", path.display())]
    Malformed { path: PathBuf, line: usize, column: usize, message: String },
    #[error("--{flag} is for virtual GPUs: give --virtual too")]
    NotVirtual { flag: &'static str },
    #[error("virtual, gpus and devices-file exclude each other: give one")]
    TwoSources,
    #[error("no run directory: XDG_RUNTIME_DIR is not set; give --run-dir DIR")]
    NoRunDir,
    #[error("{name} is {value}, and must be {allowed}")]
    OutOfRange { name: &'static str, value: String, allowed: &'static str },
    #[error("policy {0}")]
    NotForDevices(#[from] NotForDevices),
}

/// Inputs of [`Config::resolve`] from the environment.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    pub xdg_runtime_dir: Option<&'a OsStr>,
    pub is_root: bool,
}

fn policy_help() -> String {
    let policies = PolicyName::help(&PolicyName::all_for_devices());
    format!("Scheduling policy [default: eager-fair]. A task starts{policies}")
}

impl Config {
    /// Merges the settings file that the flags name under the flags.
    pub fn with_file(self) -> Result<Config, ConfigError> {
        let Some(path) = &self.config else { return Ok(self) };
        let text = file::text(path).map_err(|error| ConfigError::Unreadable { path: path.clone(), error })?;
        let file = file::parse(path, &text)?;
        Ok(self.over(file))
    }

    fn over(self, file: Config) -> Config {
        // A source of devices on the command line replaces the other source in the file.
        let has_source = self.virtual_devices.is_some() || self.devices_file.is_some() || self.gpus.is_some();
        let file_sources = (file.virtual_devices, file.devices_file, file.gpus);
        let (virtual_devices, devices_file, gpus) =
            if has_source { (self.virtual_devices, self.devices_file, self.gpus) } else { file_sources };
        Config {
            virtual_devices,
            devices_file,
            gpus,
            time_scale: self.time_scale.or(file.time_scale),
            memory_scale: self.memory_scale.or(file.memory_scale),
            clock: self.clock.or(file.clock),
            host_factor: self.host_factor.or(file.host_factor),
            mps: self.mps.or(file.mps),
            policy: self.policy.or(file.policy),
            device_memory: self.device_memory.or(file.device_memory),
            run_dir: self.run_dir.or(file.run_dir),
            journal: self.journal.or(file.journal),
            journal_max: self.journal_max.or(file.journal_max),
            clients_max: self.clients_max.or(file.clients_max),
            clients_per_user: self.clients_per_user.or(file.clients_per_user),
            watchdog: self.watchdog.or(file.watchdog),
            observe_ms: self.observe_ms.or(file.observe_ms),
            uses_file: self.uses_file.or(file.uses_file),
            overrun: self.overrun.or(file.overrun),
            memory_per_user: self.memory_per_user.or(file.memory_per_user),
            waiting_per_user: self.waiting_per_user.or(file.waiting_per_user),
            queued_per_user: self.queued_per_user.or(file.queued_per_user),
            task_seconds_max: self.task_seconds_max.or(file.task_seconds_max),
            overstay: self.overstay.or(file.overstay),
            allow_uids: self.allow_uids.or(file.allow_uids),
            deny_uids: self.deny_uids.or(file.deny_uids),
            allow_gids: self.allow_gids.or(file.allow_gids),
            deny_gids: self.deny_gids.or(file.deny_gids),
            http: self.http.or(file.http),
            web_page: self.web_page.or(file.web_page),
            http_hosts: self.http_hosts.or(file.http_hosts),
            reverted: self.reverted,
            options: self.options.or(file.options),
            config: self.config,
            show_config: self.show_config,
            detach: self.detach,
            detached: self.detached,
        }
    }

    /// Checks the numbers, since a file can hold values that a flag's parser rejects.
    fn check_numbers(&self) -> Result<(), ConfigError> {
        for (name, value) in [("time-scale", self.time_scale), ("host-factor", self.host_factor)] {
            if let Some(value) = value.filter(|value| !(value.is_finite() && *value >= 0.0)) {
                let (value, allowed) = (value.to_string(), "a number of at least 0");
                return Err(ConfigError::OutOfRange { name, value, allowed });
            }
        }
        let count = |value: Option<usize>| value.map(|count| count as u64);
        let whole = [
            ("memory-scale", self.memory_scale, 1..=u64::MAX, "at least 1"),
            ("device-memory", self.device_memory.map(|size| size.0), 1..=u64::MAX, "a size above 0"),
            (
                "journal-max",
                self.journal_max.map(|size| size.0).filter(|bytes| *bytes > 0),
                JOURNAL_MAX_LEAST..=u64::MAX,
                "0 for no limit, or at least 64KiB",
            ),
            ("queued-per-user", self.queued_per_user.map(u64::from), 1..=u64::MAX, "at least 1"),
            ("clients-max", count(self.clients_max), 1..=u64::MAX, "at least 1"),
            ("clients-per-user", count(self.clients_per_user), 1..=u64::MAX, "at least 1"),
            ("watchdog", self.watchdog, 1..=WATCHDOG_SECONDS_MAX, "1 to 30 seconds"),
            ("task-seconds-max", self.task_seconds_max, 1..=TASK_SECONDS_MAX, "1 to 1000000000 seconds"),
        ];
        for (name, value, range, allowed) in whole {
            if let Some(value) = value.filter(|value| !range.contains(value)) {
                return Err(ConfigError::OutOfRange { name, value: value.to_string(), allowed });
            }
        }
        Ok(())
    }

    fn device_source(&self) -> Result<DeviceSource, ConfigError> {
        let (cards, file, gpus) =
            (self.virtual_devices.clone(), self.devices_file.clone(), self.gpus.clone());
        if usize::from(cards.is_some()) + usize::from(file.is_some()) + usize::from(gpus.is_some()) > 1 {
            return Err(ConfigError::TwoSources);
        }
        Ok(match (cards, file) {
            (Some(cards), _) => DeviceSource::Virtual {
                cards,
                time_scale: self.time_scale.unwrap_or(1.0),
                memory_scale: self.memory_scale.unwrap_or(1),
                clock: self.clock.unwrap_or_default(),
                host_factor: self.host_factor.unwrap_or(1.0),
                mps: self.mps.unwrap_or(false),
            },
            (None, _) if self.time_scale.is_some() => {
                return Err(ConfigError::NotVirtual { flag: "time-scale" });
            }
            (None, _) if self.memory_scale.is_some() => {
                return Err(ConfigError::NotVirtual { flag: "memory-scale" });
            }
            (None, _) if self.clock.is_some() => return Err(ConfigError::NotVirtual { flag: "clock" }),
            (None, _) if self.host_factor.is_some() => {
                return Err(ConfigError::NotVirtual { flag: "host-factor" });
            }
            (None, _) if self.mps.is_some() => return Err(ConfigError::NotVirtual { flag: "mps" }),
            (None, Some(path)) => DeviceSource::File { path },
            (None, None) => DeviceSource::Gpus { gpus: gpus.unwrap_or_default() },
        })
    }

    pub fn resolve(self, world: World<'_>) -> Result<Settings, ConfigError> {
        self.check_numbers()?;
        let devices = self.device_source()?;
        let run_dir = self
            .run_dir
            .or_else(|| eager_proto::place::default_run_dir(world.xdg_runtime_dir, world.is_root))
            .ok_or(ConfigError::NoRunDir)?;
        self.policy.map(PolicyName::for_devices).transpose()?;
        // Specification S-705.
        let clients_max = self.clients_max.unwrap_or(1024);
        let options = self.options.unwrap_or_default();
        let limits = Limits {
            overrun: self.overrun.unwrap_or(options.limits.overrun),
            user_bytes_max: self.memory_per_user.map(|size| Bytes(size.0)).or(options.limits.user_bytes_max),
            user_queued_max: Some(
                self.queued_per_user.or(options.limits.user_queued_max).unwrap_or(QUEUED_MAX),
            ),
            user_waiting_max: self.waiting_per_user.or(options.limits.user_waiting_max),
            task_ns_max: self.task_seconds_max.map(Nanos::from_secs).or(options.limits.task_ns_max),
            overstay: self.overstay.unwrap_or(options.limits.overstay),
            ..options.limits
        };
        Ok(Settings {
            devices,
            policy: self.policy.unwrap_or(PolicyName::EagerFair),
            device_memory: self.device_memory,
            run_dir,
            journal: self.journal,
            journal_max: self.journal_max.unwrap_or(JOURNAL_MAX),
            clients_max,
            clients_per_user: self.clients_per_user.unwrap_or(clients_max - clients_max / 4).min(clients_max),
            watchdog: self.watchdog.unwrap_or(WATCHDOG_SECONDS_MAX),
            // Specification S-709.
            observe_ms: self.observe_ms.unwrap_or(500),
            uses_file: self.uses_file,
            users: Users {
                allow_uids: self.allow_uids.map(uids),
                allow_gids: self.allow_gids.map(gids),
                deny_uids: self.deny_uids.map(uids).unwrap_or_default(),
                deny_gids: self.deny_gids.map(gids).unwrap_or_default(),
            },
            http: HttpSettings {
                http: self.http,
                web_page: self.web_page.unwrap_or(false),
                http_hosts: self.http_hosts.unwrap_or_default(),
            },
            reverted: self.reverted,
            options: Options { limits, ..options },
        })
    }
}

fn uids(users: Vec<UserName>) -> Vec<u32> {
    users.into_iter().map(|UserName(uid)| uid).collect()
}

fn gids(groups: Vec<GroupName>) -> Vec<u32> {
    groups.into_iter().map(|GroupName(gid)| gid).collect()
}

fn cards_in_file<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    card_list(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const WORLD: World<'static> = World { xdg_runtime_dir: None, is_root: true };

    fn flags(arguments: &[&str]) -> Config {
        Config::try_parse_from([&["eagerd"], arguments].concat()).expect("flags")
    }

    fn file(text: &str) -> Result<Config, ConfigError> {
        file::parse(Path::new("eagerd.toml"), text)
    }

    #[test]
    fn flags_come_before_the_file_and_the_file_before_defaults() {
        let file = file(
            "virtual = \"1xH200\"\npolicy = \"case\"\nmemory-scale = 8\n[options]\neager_per_device = 2\n",
        );
        let settings = flags(&["--virtual", "4xV100-16GB", "--time-scale", "0"])
            .over(file.expect("a good file"))
            .resolve(WORLD)
            .expect("complete");
        let expected = DeviceSource::Virtual {
            cards: "4xV100-16GB".into(),
            time_scale: 0.0,
            memory_scale: 8,
            clock: Clock::Real,
            host_factor: 1.0,
            mps: false,
        };
        assert_eq!((settings.devices, settings.policy), (expected, PolicyName::Case));
        assert_eq!((settings.options.eager_per_device, settings.clients_max), (2, 1024));
        assert_eq!(settings.run_dir, Path::new("/run/eager"));
    }

    #[test]
    fn a_bad_file_is_one_line_with_the_place() {
        for (text, message) in [
            (
                "policy = \"case\"\nno_such_key = 1\n",
                "eagerd.toml:2:1: there is no setting `no_such_key`; `eagerd --help`",
            ),
            ("\n  virtual = \"4xGTX\"\n", "eagerd.toml:2:13: no card `GTX`; known: "),
            ("policy = \"fastest\"", "eagerd.toml:1:10: `fastest` is not one of case, "),
            ("policy = \"eager-otp\"", "eagerd.toml:1:10: `eager-otp` is not one of case, "),
            ("eager_per_device = 1", "eagerd.toml:1:1: `eager_per_device` belongs under `[options]`"),
            (
                "clients_max = 1",
                "eagerd.toml:1:1: there is no setting `clients_max`; did you mean `clients-max`?",
            ),
            ("allow-uids = [\"no-such-user\"]", "eagerd.toml:1:14: this machine has no user `no-such-user`"),
            ("device-memory = \"12GB\"", "eagerd.toml:1:17: `12GB` is not a size"),
            (
                "clients-max = -1",
                "eagerd.toml:1:15: a whole number of at least 0 is required here, but the file has `-1`",
            ),
            ("[options]\nwrong = 1", "eagerd.toml:2:1: there is no setting `wrong`"),
            ("policy = ", "eagerd.toml:1:10: "),
        ] {
            let error = file(text).expect_err(text).to_string();
            assert!(error.starts_with(message) && !error.contains('\n'), "{text:?} gave {error:?}");
        }
    }

    #[test]
    fn what_cannot_be_served_is_said() {
        let error = |arguments: &[&str]| flags(arguments).resolve(WORLD).expect_err("refused").to_string();
        assert!(error(&["--time-scale", "2"]).contains("--virtual"));
        assert!(error(&["--virtual", "H200", "--policy", "infinite"]).contains("for simulation only"));
        let homeless = World { xdg_runtime_dir: None, is_root: false };
        let error = flags(&["--virtual", "H200"]).resolve(homeless).expect_err("no directory").to_string();
        assert!(error.contains("--run-dir"), "{error}");
        assert!(Config::try_parse_from(["eagerd", "--time-scale", "-1"]).is_err());
        assert!(Config::try_parse_from(["eagerd", "--memory-scale", "0"]).is_err());
    }

    #[test]
    fn what_a_flag_may_not_say_a_file_may_not_say_either() {
        for (text, message) in [
            ("time-scale = nan", "time-scale is NaN, and must be a number of at least 0"),
            ("time-scale = -1.0", "time-scale is -1, "),
            ("host-factor = inf", "host-factor is inf, "),
            ("memory-scale = 0", "memory-scale is 0, and must be at least 1"),
            ("device-memory = \"0\"", "device-memory is 0, and must be a size above 0"),
            ("clients-max = 0", "clients-max is 0, and must be at least 1"),
            ("clients-per-user = 0", "clients-per-user is 0, and must be at least 1"),
            ("watchdog = 31", "watchdog is 31, and must be 1 to 30 seconds"),
            ("task-seconds-max = 0", "task-seconds-max is 0, "),
            // This value once ended a daemon that read it: so many seconds do not fit into 64 bits of nanoseconds.
            ("task-seconds-max = 9223372036854775807", "task-seconds-max is 9223372036854775807, "),
        ] {
            let settings = file(&format!("virtual = \"H200\"\n{text}")).expect("a file").resolve(WORLD);
            let error = settings.expect_err(text).to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn shown_settings_are_a_file_that_gives_the_same_settings() {
        let settings = flags(&["--virtual", "H200", "--device-memory", "1536MiB", "--policy", "eager"])
            .resolve(WORLD)
            .expect("complete");
        let shown = toml::to_string(&settings).expect("shown");
        let again = file(&shown).expect("readable").resolve(WORLD).expect("complete");
        assert_eq!(again, settings, "{shown}");
    }
}
