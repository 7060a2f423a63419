//! Selects the GPUs to serve. Pure.
//!
//! Trap: a name that fits no GPU must be an error, so that a missing device does not pass for one that was never asked
//! for. A GPU that fits but cannot be served is left out, and logged.

use eager_core::event::DeviceProfile;
use eager_proto::hello::{DEVICES_MAX, Uuid};
use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Several processes can page the same GPU's memory since Pascal (specification S-515).
pub const COMPUTE_MAJOR_MIN: i32 = 6;

/// GPUs by number or uuid; empty: all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Selection(Vec<String>);

/// The driver's report on one GPU.
#[derive(Debug)]
pub struct ReportedGpu {
    pub number: u32,
    /// `GPU-…`; none if the driver did not report it.
    pub uuid: Option<String>,
    /// Its profile, or why it cannot be served.
    pub profile: Result<DeviceProfile, NotServed>,
}

/// A GPU that is served.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    /// The uuid as the driver writes it.
    pub uuid: String,
    pub bytes: Uuid,
    pub profile: DeviceProfile,
}

/// The GPUs that are served, and those that are not.
#[derive(Debug, Default, PartialEq)]
pub struct Chosen {
    pub gpus: Vec<Gpu>,
    /// Uuids of GPUs that are present and not served.
    pub not_served: Vec<String>,
    /// A line for each GPU that was chosen and cannot be served.
    pub left_out: Vec<String>,
}

/// Why a GPU of the machine cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum NotServed {
    #[error("it is divided by MIG, and a program cannot choose between instances while it runs")]
    Divided,
    #[error(
        "compute capability {major}.{minor} is below {COMPUTE_MAJOR_MIN}.0: its memory cannot be over-subscribed"
    )]
    TooOld { major: i32, minor: i32 },
    #[error("it has no uuid")]
    NoUuid,
    #[error("its uuid `{uuid}` is invalid")]
    InvalidUuid { uuid: String },
    /// The driver does not report it.
    #[error(transparent)]
    Nvml(#[from] NvmlError),
}

/// The GPUs cannot be served as chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    #[error("`{name}` is no GPU: give `all`, numbers such as `0,2`, or uuids `GPU-…`")]
    Invalid { name: String },
    #[error("no GPU `{name}`: there are {count}, numbered from 0 (see `nvidia-smi -L`)")]
    Missing { name: String, count: usize },
    #[error("{count} GPUs are more than the {DEVICES_MAX} of one daemon: choose with --gpus")]
    TooMany { count: usize },
}

impl Selection {
    pub fn choose(&self, reported: Vec<ReportedGpu>) -> Result<Chosen, SelectionError> {
        if let Some(name) = self.0.iter().find(|name| !reported.iter().any(|gpu| gpu.has_name(name))) {
            let count = reported.len();
            return Err(SelectionError::Missing { name: name.clone(), count });
        }
        let mut chosen = Chosen::default();
        for gpu in reported {
            let (number, uuid) = (gpu.number, gpu.uuid.clone());
            if !self.0.is_empty() && !self.0.iter().any(|name| gpu.has_name(name)) {
                chosen.not_served.extend(uuid);
                continue;
            }
            match gpu.served() {
                Ok(gpu) => chosen.gpus.push(gpu),
                Err(why) => {
                    chosen.not_served.extend(uuid);
                    chosen.left_out.push(format!("GPU {number} of this machine is not served: {why}"))
                }
            }
        }
        let count = chosen.gpus.len();
        if count > DEVICES_MAX {
            return Err(SelectionError::TooMany { count });
        }
        Ok(chosen)
    }
}

impl ReportedGpu {
    fn has_name(&self, name: &str) -> bool {
        self.number.to_string() == name || self.uuid.as_deref().is_some_and(|uuid| uuid.starts_with(name))
    }

    fn served(self) -> Result<Gpu, NotServed> {
        let profile = self.profile?;
        let uuid = self.uuid.ok_or(NotServed::NoUuid)?;
        match parse_uuid(&uuid) {
            Some(bytes) => Ok(Gpu { uuid, bytes, profile }),
            None => Err(NotServed::InvalidUuid { uuid }),
        }
    }
}

/// Parses `GPU-` and 32 hexadecimal digits with dashes between.
pub fn parse_uuid(text: &str) -> Option<Uuid> {
    let digits: String = text.strip_prefix("GPU-")?.chars().filter(|&c| c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32)?;
    Some(number.to_be_bytes())
}

impl FromStr for Selection {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Selection, SelectionError> {
        if text == "all" {
            return Ok(Selection::default());
        }
        let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
        let is_name = |name: &String| {
            name.parse::<u32>().is_ok_and(|number| number.to_string() == *name)
                || name.strip_prefix("GPU-").is_some_and(|rest| rest.len() >= 4)
        };
        match names.iter().find(|name| !is_name(name)) {
            Some(wrong) => Err(SelectionError::Invalid { name: wrong.clone() }),
            None => Ok(Selection(names)),
        }
    }
}

impl TryFrom<String> for Selection {
    type Error = SelectionError;

    fn try_from(text: String) -> Result<Selection, SelectionError> {
        text.parse()
    }
}

impl From<Selection> for String {
    fn from(selection: Selection) -> String {
        if selection.0.is_empty() { "all".into() } else { selection.0.join(",") }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use eager_units::Bytes;

    pub fn profile() -> DeviceProfile {
        DeviceProfile {
            name: "A100".into(),
            capacity: Bytes(1),
            sms: 108,
            warps_per_sm: 64,
            blocks_per_sm: 32,
            faults_stall: true,
        }
    }

    fn reported(number: u32, served: Result<(), NotServed>) -> ReportedGpu {
        let profile = served.map(|()| profile());
        let uuid = Some(format!("GPU-{number:08x}-0000-0000-0000-0000000000ff"));
        ReportedGpu { number, uuid, profile }
    }

    fn chosen(names: &str, reported: Vec<ReportedGpu>) -> Result<(Vec<u8>, Vec<String>), SelectionError> {
        let chosen = names.parse::<Selection>()?.choose(reported)?;
        Ok((chosen.gpus.iter().map(|gpu| gpu.bytes[3]).collect(), chosen.left_out))
    }

    #[test]
    fn all_are_served_or_those_that_are_named() {
        let three = || (0..3).map(|number| reported(number, Ok(()))).collect::<Vec<_>>();
        assert_eq!(chosen("all", three()), Ok((vec![0, 1, 2], vec![])));
        assert_eq!(chosen("2, 0", three()), Ok((vec![0, 2], vec![])));
        assert_eq!(chosen("GPU-00000001", three()), Ok((vec![1], vec![])));
        let missing = chosen("0,7", three()).expect_err("no such GPU");
        let missing = missing.to_string();
        assert!(missing.starts_with("no GPU `7`: there are 3"), "{missing}");
    }

    #[test]
    fn what_cannot_be_served_is_left_out_and_said() {
        let (major, minor) = (5, 2);
        let nameless = ReportedGpu { uuid: None, ..reported(2, Ok(())) };
        let misnamed = ReportedGpu { uuid: Some("GPU-7".into()), ..reported(3, Ok(())) };
        let old = reported(0, Err(NotServed::TooOld { major, minor }));
        let left_out = [
            "GPU 0 of this machine is not served: compute capability 5.2 is below 6.0: its memory cannot be \
             over-subscribed",
            "GPU 2 of this machine is not served: it has no uuid",
            "GPU 3 of this machine is not served: its uuid `GPU-7` is invalid",
        ];
        let gpus = vec![old, reported(1, Ok(())), nameless, misnamed];
        assert_eq!(chosen("all", gpus), Ok((vec![1], left_out.map(str::to_owned).into())));
    }

    #[test]
    fn a_selection_is_read_as_it_is_written_and_nonsense_is_refused() {
        for text in ["all", "0,2", "GPU-1234abcd"] {
            assert_eq!(String::from(text.parse::<Selection>().expect(text)), text);
        }
        for text in ["", "0,,1", "-1", "01", "GPU-", "first"] {
            let error = text.parse::<Selection>().expect_err(text).to_string();
            assert!(error.contains("numbers such as `0,2`"), "{error}");
        }
    }

    #[test]
    fn a_uuid_has_sixteen_bytes() {
        let bytes = parse_uuid("GPU-00112233-4455-6677-8899-aabbccddeeff").expect("a uuid");
        assert_eq!((bytes[0], bytes[1], bytes[15]), (0, 0x11, 0xff));
        assert_eq!(parse_uuid("GPU-0011"), None);
        assert_eq!(parse_uuid("MIG-00112233-4455-6677-8899-aabbccddeeff"), None);
    }
}
