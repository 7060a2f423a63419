//! The admin socket: a Unix stream, one JSON object per line each way, each with the version of these messages.
//!
//! The kernel identifies the user who asks (`SO_PEERCRED`): every user may look, and act on their own tasks; only the
//! daemon's own user and root may act on everything. Trap: unknown fields of a request are refused, those of a reply
//! are not, so a field may be added to a reply without a new version, and to a request only with one.

mod message;
mod rows;

pub use message::{AdminReply, AdminRequest};
pub use rows::{
    AfterRow, DaemonRow, DeviceRow, OutlookRow, PolicyRow, ProgramRow, QueueRow, ShareRow, TaskRow,
};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of requests and replies. Version 1 had no version in its lines.
pub const ADMIN_VERSION: u64 = 2;

/// A line that is not a message of this version.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    #[error("version {found} of the admin messages, not {ADMIN_VERSION}: use programs of one build")]
    Version { found: u64 },
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u64,
    #[serde(flatten)]
    message: T,
}

/// Serializes a message to a line, with its newline.
///
/// # Errors
/// None for the messages of this module, which are plain data.
pub fn to_line(message: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Versioned { version: ADMIN_VERSION, message })?;
    line.push(b'\n');
    Ok(line)
}

/// Parses a line.
///
/// # Errors
/// The line is of another version, or no message.
pub fn from_line<T: DeserializeOwned>(line: &[u8]) -> Result<T, LineError> {
    let mut value: Value = serde_json::from_slice(line)?;
    let version = value.as_object_mut().and_then(|object| object.remove("version"));
    match version.as_ref().and_then(Value::as_u64).unwrap_or(1) {
        ADMIN_VERSION => Ok(serde_json::from_value(value)?),
        found => Err(LineError::Version { found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_carry_their_version_and_come_back() {
        let line = to_line(&AdminRequest::Drain { device: 1 }).expect("plain data");
        assert_eq!(line, b"{\"version\":2,\"cmd\":\"drain\",\"device\":1}\n");
        let request: AdminRequest = from_line(&line).expect("its own line");
        assert_eq!(request, AdminRequest::Drain { device: 1 });
    }

    #[test]
    fn another_versions_line_is_told_from_nonsense() {
        let error = |line: &str| from_line::<AdminRequest>(line.as_bytes()).expect_err(line).to_string();
        let other = "version 1 of the admin messages, not 2: use programs of one build";
        assert_eq!(error("{\"cmd\":\"ps\"}"), other);
        assert!(error("{\"version\":3,\"cmd\":\"ps\"}").starts_with("version 3 "));
        assert!(error("{\"version\":2,\"cmd\":\"dance\"}").contains("unknown variant `dance`"));
        assert!(
            error("{\"version\":2,\"cmd\":\"drain\",\"device\":1,\"all\":true}")
                .contains("unknown field `all`")
        );
        assert!(error("ps").contains("expected value"));
    }
}
