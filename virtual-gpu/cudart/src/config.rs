//! Settings from the environment, read once.
//!
//! Trap: keep the environment a parameter ([`Config::read`] takes a look-up function), or tests would have to change
//! the real one.

use std::collections::BTreeSet;
use std::num::{NonZeroU8, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use eager_exec::races::MEMORY_BYTES_DEFAULT;
use eager_vgpud::Clock;

use crate::clock::HostTimes;
use crate::log::log_line;

/// Socket of a server; unset: the program has its own devices.
pub const SOCKET_VARIABLE: &str = "EAGER_VGPU_SOCKET";
/// Numbers of the server's devices that the program sees, such as `2,0`, in this order; unset: all.
pub const VISIBLE_VARIABLE: &str = "EAGER_VGPU_VISIBLE";
/// Cards of the program's own devices, such as `2xV100-16GB,1xH200`.
pub const CARDS_VARIABLE: &str = "EAGER_VGPU";
/// Real seconds waited per modelled second on the program's own devices; 0: never wait.
pub const TIME_SCALE_VARIABLE: &str = "EAGER_VGPU_TIME_SCALE";
/// Modelled bytes per program byte on the program's own devices.
pub const MEMORY_SCALE_VARIABLE: &str = "EAGER_VGPU_MEMORY_SCALE";
/// Clock of the program's own devices: `real` or `virtual`.
pub const CLOCK_VARIABLE: &str = "EAGER_VGPU_CLOCK";
/// On a virtual clock of the program's own devices: modelled seconds per second of processor time of its own threads.
pub const HOST_FACTOR_VARIABLE: &str = "EAGER_VGPU_HOST_FACTOR";
/// On a virtual clock: given times of the program's host work, instead of measured ones.
pub const HOST_TIMES_VARIABLE: &str = "EAGER_VGPU_HOST_TIMES";
/// On a server's virtual clock: the place reserved for this process.
pub const SEAT_VARIABLE: &str = "EAGER_VGPU_SEAT";
/// `0`: the devices report no virtual memory management, like older ones.
pub const VIRTUAL_MEMORY_VARIABLE: &str = "EAGER_VGPU_VIRTUAL_MEMORY";
/// `0`: strict mode is off; `1`: it is on, and kernels compiled without checks are reported.
pub const STRICT_VARIABLE: &str = "EAGER_VGPU_STRICT";
/// Effect of a launch whose threads race: `warn`, `error` or `off`.
pub const RACES_VARIABLE: &str = "EAGER_STRICT_RACES";
/// Most bytes that the race detector may keep for global memory.
pub const RACE_MEMORY_VARIABLE: &str = "EAGER_STRICT_RACE_MEMORY";
/// Exit status of a program in which strict mode found an error; 0: the program keeps its own.
pub const STRICT_STATUS_VARIABLE: &str = "EAGER_STRICT_STATUS";
/// Seconds of processor time that one thread may spend on a kernel; 0: unlimited.
pub const KERNEL_TIMEOUT_VARIABLE: &str = "EAGER_VGPU_KERNEL_TIMEOUT";
/// Seconds after which a running kernel is reported, once per program; 0: never.
pub const SLOW_KERNEL_VARIABLE: &str = "EAGER_VGPU_SLOW_KERNEL";
/// Exit status of a program that ends with 0 although its device work has failed; 0: the program keeps its own.
pub const FAULT_STATUS_VARIABLE: &str = "EAGER_VGPU_FAULT_STATUS";
/// Number of threads that run kernels.
pub const WORKERS_VARIABLE: &str = "EAGER_VGPU_WORKERS";
/// File for the footprint profile, written at exit.
pub const PROFILE_VARIABLE: &str = "EAGER_VGPU_PROFILE";
/// File for the trace of API calls.
pub const TRACE_VARIABLE: &str = "EAGER_VGPU_TRACE";

/// Few kernels of typical programs take this long, and a user whose kernel hangs should not wait much longer for the
/// line.
const SLOW_KERNEL_SECONDS: f64 = 10.0;

/// The card of the source document's evaluation (specification S-222).
const CARDS_DEFAULT: &str = "1xV100-16GB";

#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub devices: Devices,
    /// Server's numbers of the devices that the program sees, in its order; `None`: all.
    pub visible: Option<Vec<u32>>,
    pub profile: Option<PathBuf>,
    /// Number of threads that run kernels; by default that of the processors that the process may use.
    pub workers: Option<NonZeroUsize>,
    pub seat: Option<u64>,
    pub host_times: Option<HostTimes>,
    /// True if the devices support virtual memory management.
    pub virtual_memory: bool,
    /// `None`: on if some kernel was compiled for it.
    pub strict: Option<bool>,
    pub kernel_time_max: Option<Duration>,
    /// A kernel that runs longer is reported.
    pub kernel_slow_after: Option<Duration>,
    pub fault_status: Option<NonZeroU8>,
    pub races: RaceSearch,
    pub strict_status: Option<NonZeroU8>,
}

/// Race detection in strict mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaceSearch {
    pub policy: RacePolicy,
    pub memory_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RacePolicy {
    Off,
    /// Races are reported.
    Warn,
    /// Races are reported, and the launch fails.
    Error,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Devices {
    /// Devices behind a server's socket, shared with other processes.
    Shared(PathBuf),
    /// Devices of this process alone.
    Own { cards: String, time_scale: f64, memory_scale: u64, clock: Clock },
}

/// A variable with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable}={value}: {expected}")]
pub struct ConfigError {
    variable: &'static str,
    value: String,
    expected: &'static str,
}

impl Config {
    /// Reads the variables through `variable`.
    ///
    /// # Errors
    /// A value that cannot be parsed, with the expected form.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let devices = match set(SOCKET_VARIABLE) {
            Some(path) => Devices::Shared(path.into()),
            None => Devices::Own {
                cards: set(CARDS_VARIABLE).unwrap_or_else(|| CARDS_DEFAULT.to_owned()),
                time_scale: number(&set, TIME_SCALE_VARIABLE, 1.0, "a number of at least 0", |x: &f64| {
                    x.is_finite() && *x >= 0.0
                })?,
                memory_scale: number(&set, MEMORY_SCALE_VARIABLE, 1, "a whole number of at least 1", |x| {
                    *x >= 1
                })?,
                clock: clock(&set)?,
            },
        };
        let visible = set(VISIBLE_VARIABLE).map(|value| numbers(VISIBLE_VARIABLE, value)).transpose()?;
        let workers = number(&set, WORKERS_VARIABLE, 0, "a whole number of at least 1", |x: &usize| *x >= 1)?;
        let virtual_memory =
            number(&set, VIRTUAL_MEMORY_VARIABLE, 1, "a switch is 0 or 1", |x: &u8| *x <= 1)?;
        let strict = set(STRICT_VARIABLE)
            .map(|_| number(&set, STRICT_VARIABLE, 0, "a switch is 0 or 1", |x: &u8| *x <= 1))
            .transpose()?;
        let seconds = |variable, default| {
            let seconds = number(&set, variable, default, "a number of seconds, 0 for none", |x: &f64| {
                Duration::try_from_secs_f64(*x).is_ok()
            })?;
            Ok((seconds > 0.0).then(|| Duration::from_secs_f64(seconds)))
        };
        let kernel_time_max = seconds(KERNEL_TIMEOUT_VARIABLE, 0.0)?;
        let kernel_slow_after = seconds(SLOW_KERNEL_VARIABLE, SLOW_KERNEL_SECONDS)?;
        let fault_status = number(&set, FAULT_STATUS_VARIABLE, 0, "a status is 0 to 255", |_: &u8| true)?;
        let races = race_search(&set)?;
        let strict_status = number(&set, STRICT_STATUS_VARIABLE, 0, "a status is 0 to 255", |_: &u8| true)?;
        let profile = set(PROFILE_VARIABLE).map(PathBuf::from);
        let seat =
            set(SEAT_VARIABLE).map(|_| number(&set, SEAT_VARIABLE, 0, "a seat's number", |_: &u64| true));
        let host_times = set(HOST_TIMES_VARIABLE).map(|value| {
            value.parse().map_err(|_| ConfigError {
                variable: HOST_TIMES_VARIABLE,
                value,
                expected: "a list such as 0:5.0,3:0.25 is expected (number of earlier copies to the host, and seconds)",
            })
        });
        Ok(Config {
            devices,
            visible,
            profile,
            workers: NonZeroUsize::new(workers),
            seat: seat.transpose()?,
            host_times: host_times.transpose()?,
            virtual_memory: virtual_memory == 1,
            strict: strict.map(|switch| switch == 1),
            kernel_time_max,
            kernel_slow_after,
            fault_status: NonZeroU8::new(fault_status),
            races,
            strict_status: NonZeroU8::new(strict_status),
        })
    }

    /// Reads the process's environment; a bad value is reported on standard error, and returns `None`.
    pub fn from_environment() -> Option<Config> {
        Config::read(|name| std::env::var(name).ok()).map_err(|e| log_line(format_args!("{e}"))).ok()
    }
}

fn race_search(set: &impl Fn(&'static str) -> Option<String>) -> Result<RaceSearch, ConfigError> {
    let policy = match set(RACES_VARIABLE).as_deref() {
        None | Some("error") => RacePolicy::Error,
        Some("warn") => RacePolicy::Warn,
        Some("off") => RacePolicy::Off,
        Some(other) => {
            let expected = "a word is expected: `warn`, `error` or `off`";
            return Err(ConfigError { variable: RACES_VARIABLE, value: other.to_owned(), expected });
        }
    };
    let expected = "a number of bytes is expected";
    let memory_bytes = number(set, RACE_MEMORY_VARIABLE, MEMORY_BYTES_DEFAULT, expected, |_| true)?;
    Ok(RaceSearch { policy, memory_bytes })
}

fn clock(set: &impl Fn(&'static str) -> Option<String>) -> Result<Clock, ConfigError> {
    match set(CLOCK_VARIABLE).as_deref() {
        None | Some("real") => Ok(Clock::Real),
        Some("virtual") => {
            let valid = |x: &f64| x.is_finite() && *x >= 0.0;
            let host_factor = number(set, HOST_FACTOR_VARIABLE, 1.0, "a number of at least 0", valid)?;
            Ok(Clock::Virtual { host_factor })
        }
        Some(other) => Err(ConfigError {
            variable: CLOCK_VARIABLE,
            value: other.to_owned(),
            expected: "a clock is `real` or `virtual`",
        }),
    }
}

fn numbers(variable: &'static str, value: String) -> Result<Vec<u32>, ConfigError> {
    let numbers: Option<Vec<u32>> = value.split(',').map(|number| number.trim().parse().ok()).collect();
    let expected = "a list of different device numbers such as 0,2";
    let differ = |numbers: &Vec<u32>| numbers.iter().collect::<BTreeSet<_>>().len() == numbers.len();
    numbers.filter(differ).ok_or(ConfigError { variable, value, expected })
}

fn number<T: std::str::FromStr>(
    set: &impl Fn(&'static str) -> Option<String>,
    variable: &'static str,
    default: T,
    expected: &'static str,
    valid: impl Fn(&T) -> bool,
) -> Result<T, ConfigError> {
    let Some(value) = set(variable) else { return Ok(default) };
    value.parse().ok().filter(valid).ok_or(ConfigError { variable, value, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::read(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn nothing_set_is_one_card_in_real_time() {
        let cards = "1xV100-16GB".to_owned();
        let own = Devices::Own { cards, time_scale: 1.0, memory_scale: 1, clock: Clock::Real };
        let expected = Config {
            devices: own,
            visible: None,
            profile: None,
            workers: None,
            seat: None,
            host_times: None,
            virtual_memory: true,
            strict: None,
            kernel_time_max: None,
            kernel_slow_after: Some(Duration::from_secs(10)),
            fault_status: None,
            races: RaceSearch { policy: RacePolicy::Error, memory_bytes: 1 << 30 },
            strict_status: None,
        };
        assert_eq!(read(&[]).unwrap(), expected);
    }

    #[test]
    fn a_socket_wins_over_cards() {
        let config = read(&[(SOCKET_VARIABLE, "/tmp/s"), (CARDS_VARIABLE, "9xH200")]).unwrap();
        assert_eq!(config.devices, Devices::Shared("/tmp/s".into()));
    }

    #[test]
    fn bad_numbers_are_named() {
        for (variable, value) in [
            (TIME_SCALE_VARIABLE, "-1"),
            (TIME_SCALE_VARIABLE, "nan"),
            (TIME_SCALE_VARIABLE, "fast"),
            (MEMORY_SCALE_VARIABLE, "0"),
            (MEMORY_SCALE_VARIABLE, "1.5"),
            (WORKERS_VARIABLE, "0"),
            (VIRTUAL_MEMORY_VARIABLE, "2"),
            (STRICT_VARIABLE, "yes"),
            (KERNEL_TIMEOUT_VARIABLE, "-1"),
            (SLOW_KERNEL_VARIABLE, "soon"),
            (CLOCK_VARIABLE, "wall"),
            (HOST_TIMES_VARIABLE, "5"),
            (FAULT_STATUS_VARIABLE, "-1"),
            (SEAT_VARIABLE, "first"),
            (RACES_VARIABLE, "loud"),
            (RACE_MEMORY_VARIABLE, "1GiB"),
            (STRICT_STATUS_VARIABLE, "256"),
            (VISIBLE_VARIABLE, "0,x"),
            (VISIBLE_VARIABLE, "1,1"),
        ] {
            let error = read(&[(variable, value)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{variable}={value}: a ")), "{error}");
        }
    }
}
