//! Machine, commit and time of a measurement. A fact that cannot be found out is written as "unknown", never left
//! out.

use serde::Serialize;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Machine and commit on which a measurement was taken.
#[derive(Debug, Clone, Serialize)]
pub struct Stamp {
    pub commit: String,
    pub cpu: String,
    pub cores: usize,
    /// Load average of the last minute: above 1 the machine did other work too.
    pub load: f64,
    /// Seconds since 1970.
    pub unix_time_s: u64,
}

impl Stamp {
    /// Reads this machine's state now, and the commit that is checked out in the repository around `folder`.
    pub fn now(folder: &Path) -> Stamp {
        let git = |words: &[&str]| {
            let output = Command::new("git").args(words).current_dir(folder).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|s| !s.is_empty());
        let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model =
            cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|l| l.split_once(": "));
        Stamp {
            commit: if changed { format!("{commit}+changes") } else { commit },
            cpu: model.map_or("unknown", |(_, name)| name).to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            load: first_number("/proc/loadavg").unwrap_or(f64::NAN),
            unix_time_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        }
    }
}

fn first_number(path: &str) -> Option<f64> {
    std::fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
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
