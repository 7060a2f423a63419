//! Machine and commit that a record comes from. A fact that cannot be found out is written as "unknown", never left
//! out.

use crate::record::Stamp;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads this machine's state once.
pub fn stamp() -> Stamp {
    Stamp {
        version: env!("CARGO_PKG_VERSION").to_string(),
        commit: commit(),
        cpu: first_value("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_bytes: memory_bytes(),
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| unknown(), trimmed),
        unix_time_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
    }
}

fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
        output.status.success().then(|| trimmed(String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    let Some(head) = git(&["rev-parse", "--short=12", "HEAD"]) else { return unknown() };
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|s| !s.is_empty());
    if dirty { format!("{head}+changes") } else { head }
}

fn memory_bytes() -> u64 {
    let kib = first_value("/proc/meminfo", "MemTotal").and_then(|v| v.split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Returns the value of the first `key : value` line.
fn first_value(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':').map(|(_, value)| value.trim().to_string())
}

fn trimmed(text: String) -> String {
    text.trim().to_string()
}

fn unknown() -> String {
    "unknown".to_string()
}
