//! Devices that a file describes, for a daemon without GPUs: tests, trials of a policy, sizes of a planned server.

use crate::process::exit::Unservable;
use crate::settings::file;
use eager_core::event::DeviceProfile;
use eager_plainly::{FileError, Words, parse_json};
use eager_proto::hello::DEVICES_MAX;
use eager_proto::text::shown;
use eager_units::{Bytes, Size};
use serde::Deserialize;
use std::path::Path;

/// More than any device has, and little enough for sums over all devices.
const MEMORY_MAX: Size = Size(1 << 50);

/// One entry of a devices file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DeviceInFile {
    name: String,
    memory: Size,
    sms: u32,
    warps_per_sm: u32,
    blocks_per_sm: u32,
    /// True: one program's page faults stop the kernels of all, as without MPS.
    #[serde(default)]
    faults_stall: bool,
}

/// Reads a list of devices.
///
/// # Errors
/// The file cannot be read, or a device in it cannot be: no memory, no multiprocessors.
pub fn read(path: &Path) -> anyhow::Result<Vec<DeviceProfile>> {
    let wrong = |why: String| Unservable(format!("{}: {why}", path.display()));
    let text = file::text(path).map_err(|error| wrong(error.to_string()))?;
    let words = Words {
        noun: "key",
        unknown: "a device has no",
        others: "`faults-stall` alone may be left out",
        elsewhere: Vec::new(),
    };
    let devices: Vec<DeviceInFile> =
        parse_json(&text, &words).map_err(|FileError { line, column, message, .. }| {
            Unservable(format!("{}:{line}:{column}: {message}", path.display()))
        })?;
    anyhow::ensure!(!devices.is_empty(), wrong("the file lists no devices".into()));
    let count = devices.len();
    anyhow::ensure!(
        count <= DEVICES_MAX,
        wrong(format!("{count} devices are more than the {DEVICES_MAX} of one daemon"))
    );
    for (index, device) in devices.iter().enumerate() {
        if let Some((key, allowed)) = device.mistake() {
            anyhow::bail!(wrong(format!("device {index}: `{key}` must be {allowed}")));
        }
    }
    Ok(devices.into_iter().map(DeviceInFile::profile).collect())
}

impl DeviceInFile {
    /// A key whose value no device can have, and what it can have.
    fn mistake(&self) -> Option<(&'static str, String)> {
        let counts =
            [("sms", self.sms), ("warps-per-sm", self.warps_per_sm), ("blocks-per-sm", self.blocks_per_sm)];
        match counts.into_iter().find(|(_, count)| *count == 0) {
            Some((key, _)) => Some((key, "at least 1".into())),
            None if !(1..=MEMORY_MAX.0).contains(&self.memory.0) => {
                Some(("memory", format!("at least 1 byte and at most {MEMORY_MAX}")))
            }
            None => None,
        }
    }

    fn profile(self) -> DeviceProfile {
        DeviceProfile {
            name: shown(&self.name),
            capacity: Bytes(self.memory.0),
            sms: self.sms,
            warps_per_sm: self.warps_per_sm,
            blocks_per_sm: self.blocks_per_sm,
            faults_stall: self.faults_stall,
        }
    }
}
