//! Machine, commit and time of a measurement. A fact that cannot be found out is written as "unknown", never left
//! out.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Version, commit and machine of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stamp {
    /// Empty in records of earlier versions, which had none; so are the other defaults.
    #[serde(default)]
    pub version: String,
    pub commit: String,
    pub cpu: String,
    pub cores: usize,
    #[serde(default)]
    pub memory_bytes: u64,
    #[serde(default)]
    pub kernel: String,
    /// Load average of the last minute: above 1 the machine did other work too.
    #[serde(default)]
    pub load: Option<f64>,
    /// Seconds since 1970.
    pub unix_time_s: u64,
}

/// The line above a printed measurement.
impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stamp { commit, cpu, cores, .. } = self;
        write!(f, "commit {commit}, {cpu}, {cores} cores")?;
        self.load.map_or(Ok(()), |load| write!(f, ", load {load:.1}"))
    }
}

impl Stamp {
    /// Reads this machine's state now, and the commit that is checked out in the repository around `folder`.
    pub fn now(folder: &Path) -> Stamp {
        let git = |words: &[&str]| {
            let output = Command::new("git").args(words).current_dir(folder).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|s| !s.is_empty());
        let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(unknown);
        let kib = first_value("/proc/meminfo", "MemTotal").and_then(|text| first_number(&text));
        Stamp {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: if changed { format!("{commit}+changes") } else { commit },
            cpu: first_value("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: kib.unwrap_or(0.0) as u64 * 1024,
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| unknown(), |release| release.trim().to_owned()),
            load: std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| first_number(&text)),
            unix_time_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        }
    }
}

/// The value of the first `key : value` line.
fn first_value(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

fn unknown() -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_found_out_is_said() {
        let stamp = Stamp::now(Path::new("/proc"));
        assert_eq!(stamp.commit, "unknown");
        assert!(stamp.cores > 0 && stamp.unix_time_s > 0, "{stamp:?}");
    }
}
