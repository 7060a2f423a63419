//! The machine that the file describes, read again at each question.
//!
//! Trap: tests change the file while a daemon looks; they replace it as a whole, so that no half of it is ever read.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Names the file.
const ENV_MACHINE: &str = "EAGER_FAKE_NVML";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// `nvmlReturn_t` of `nvmlInit_v2`.
    #[serde(default)]
    pub init: u32,
    pub gpus: Vec<Gpu>,
    /// `nvmlReturn_t` by functions that fail whatever they are asked.
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
    /// Bytes, as the other sizes.
    pub total: u64,
    pub reserved: u64,
    #[serde(default)]
    pub used: u64,
    /// Percent; `None`: it does not tell.
    #[serde(default)]
    pub utilization: Option<u32>,
    /// Degrees Celsius, and milliwatts; `None`: it does not tell.
    #[serde(default)]
    pub temperature: Option<u32>,
    #[serde(default)]
    pub power: Option<u32>,
    #[serde(default)]
    pub mig: bool,
    /// Every question about it fails with `NVML_ERROR_GPU_IS_LOST`.
    #[serde(default)]
    pub lost: bool,
    /// `nvmlReturn_t` by functions that fail when they are asked about it.
    #[serde(default)]
    pub fails: BTreeMap<String, u32>,
    /// Every question about it takes so long.
    #[serde(default)]
    pub hang_ms: u64,
    #[serde(default)]
    pub processes: Vec<Process>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    pub pid: u32,
    /// `None`: not to be seen by this user.
    pub bytes: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Xid {
    pub gpu: usize,
    pub number: u64,
}

/// `None`: there is no such file, or it says something else.
pub fn machine() -> Option<Machine> {
    let path = PathBuf::from(std::env::var_os(ENV_MACHINE)?);
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}
