//! Measured footprints of kernels: the profile file, and the size of a launch for the gate.
//!
//! A footprint is measured once per application (specification S-219), with one input. For another input size it is
//! scaled by the ratio of the static sizes (specification S-220). Trap: the ratio must be applied upwards too;
//! keeping the smaller measured value for a larger run would let a kernel through the gate that does not fit.

use crate::whole_file;
use eager_client::request::Kernel;
use eager_units::AccessClass;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

const VERSION: u32 = 1;

/// Measurement of a kernel, in bytes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    pub static_bytes: u64,
    pub footprint_bytes: u64,
    /// Number of launches measured. In the file for people; nothing here depends on it.
    pub launches: u64,
    #[serde(default)]
    pub access: AccessClass,
    /// Further measurements, for people.
    #[serde(default, rename = "detail", skip_serializing)]
    _detail: Option<serde::de::IgnoredAny>,
}

/// How footprints were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Counts blocks whose pages left the host.
    Pages,
    /// Takes the decrease of the device's free memory.
    FreeMemory,
    /// Nothing was measured: footprints are static sizes.
    None,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileFile {
    version: u32,
    /// For people; nothing here depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured_by: Option<Method>,
    kernels: BTreeMap<String, Measured>,
}

/// Reason why a profile is not used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("cannot read it: {0}")]
    Read(#[from] std::io::Error),
    #[error("it is not a profile: {0}")]
    Parse(#[from] serde_json::Error),
    #[error("it has version {0}, this shim reads {VERSION}")]
    Version(u32),
}

/// Footprints by mangled kernel name. Empty: every kernel counts with its static size.
#[derive(Debug, Default)]
pub struct Profile {
    kernels: BTreeMap<String, Measured>,
}

impl ProfileFile {
    pub fn new(kernels: BTreeMap<String, Measured>, measured_by: Option<Method>) -> ProfileFile {
        ProfileFile { version: VERSION, measured_by, kernels }
    }

    /// Writes the file as a whole or not at all.
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        whole_file::write(path, &serde_json::to_string_pretty(self)?)
    }
}

impl Profile {
    pub fn load(path: &Path) -> Result<Profile, ProfileError> {
        Profile::parse(&std::fs::read_to_string(path)?)
    }

    pub fn parse(text: &str) -> Result<Profile, ProfileError> {
        let file: ProfileFile = serde_json::from_str(text)?;
        if file.version != VERSION {
            return Err(ProfileError::Version(file.version));
        }
        Ok(Profile { kernels: file.kernels })
    }

    /// A launch of kernel `name` whose arguments hold `static_size` bytes, with its measured footprint, scaled; without a
    /// measurement with its static size. `access`: the class that its code shows, for kernels that were not measured.
    pub fn size(&self, name: &str, static_size: u64, access: AccessClass) -> Kernel {
        let measured = self.kernels.get(name);
        let footprint = measured.map_or(static_size, |measured| {
            let scaled = u128::from(measured.footprint_bytes) * u128::from(static_size);
            let footprint = scaled.div_ceil(u128::from(measured.static_bytes.max(1)));
            u64::try_from(footprint).unwrap_or(u64::MAX).min(static_size)
        });
        let access = measured.map_or(access, |measured| measured.access);
        Kernel { static_size, footprint, access }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"version":1,"kernels":{
        "_Z1kPf":{"static_bytes":4000,"footprint_bytes":1000,"launches":3,"access":"one-pass"}}}"#;

    #[test]
    fn scales_by_static_size_and_never_above_it() {
        let profile = Profile::parse(GOOD).expect("valid");
        let footprint = |static_size| profile.size("_Z1kPf", static_size, AccessClass::Unknown).footprint;
        assert_eq!((footprint(4000), footprint(2000), footprint(8000), footprint(0)), (1000, 500, 2000, 0));
        assert_eq!(footprint(u64::MAX), u64::MAX / 4 + 1);
        assert_eq!(profile.size("_Z1kPf", 4000, AccessClass::Cyclic).access, AccessClass::OnePass);
        // Footprints are whole blocks, so a kernel that touches everything may touch more than the sizes of its
        // buffers.
        let whole = Profile::parse(&GOOD.replace("1000", "4096")).expect("valid");
        assert_eq!(whole.size("_Z1kPf", 4000, AccessClass::Unknown).footprint, 4000);
    }

    #[test]
    fn a_kernel_not_measured_counts_with_its_static_size_and_the_class_of_its_code() {
        let profile = Profile::parse(GOOD).expect("valid");
        let size = profile.size("other", 77, AccessClass::Cyclic);
        assert_eq!((size.footprint, size.access), (77, AccessClass::Cyclic));
    }

    #[test]
    fn malformed_profiles_say_what_is_wrong() {
        let wrong = |text: &str| Profile::parse(text).expect_err("malformed").to_string();
        assert!(wrong("{").contains("not a profile"));
        assert!(wrong(r#"{"version":2,"kernels":{}}"#).contains("version 2"));
        assert!(wrong(&GOOD.replace("one-pass", "fast")).contains("fast"));
        assert!(wrong(&GOOD.replace("launches", "lunches")).contains("lunches"));
        assert!(wrong(&GOOD.replace("1000", "-1")).contains("not a profile"));
    }
}
