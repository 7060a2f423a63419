//! The machine that the file describes; the file is read again at each query.
//!
//! Trap: tests change the file under a running daemon. They must replace it as a whole, or half of it may be read.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Environment variable with the path of the file.
const ENV_MACHINE: &str = "EAGER_FAKE_NVML";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// `nvmlReturn_t` of `nvmlInit_v2`.
    #[serde(default)]
    pub init: u32,
    pub gpus: Vec<Gpu>,
    /// `nvmlReturn_t` by name of a function that always fails.
    #[serde(default)]
    pub fails: BTreeMap<String, u32>,
    /// Errors so far, oldest first.
    #[serde(default)]
    pub xids: Vec<Xid>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    pub name: String,
    pub uuid: String,
    pub compute: [i32; 2],
    pub cores: u32,
    /// In bytes, as the other sizes.
    pub total: u64,
    pub reserved: u64,
    #[serde(default)]
    pub used: u64,
    /// Percent; `None` if the GPU does not report it.
    #[serde(default)]
    pub utilization: Option<u32>,
    /// Degrees Celsius; `power` is in milliwatts. `None` if the GPU does not report it.
    #[serde(default)]
    pub temperature: Option<u32>,
    #[serde(default)]
    pub power: Option<u32>,
    #[serde(default)]
    pub mig: bool,
    /// True if every query about this GPU fails with `NVML_ERROR_GPU_IS_LOST`.
    #[serde(default)]
    pub lost: bool,
    /// `nvmlReturn_t` by name of a function that fails for this GPU.
    #[serde(default)]
    pub fails: BTreeMap<String, u32>,
    /// Milliseconds that every query about this GPU takes.
    #[serde(default)]
    pub hang_ms: u64,
    #[serde(default)]
    pub processes: Vec<Process>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    pub pid: u32,
    /// `None` if this user may not see it.
    pub bytes: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Xid {
    pub gpu: usize,
    pub number: u64,
}

/// Reads the file; `None` if it is missing or cannot be parsed.
pub fn machine() -> Option<Machine> {
    let path = PathBuf::from(std::env::var_os(ENV_MACHINE)?);
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}
