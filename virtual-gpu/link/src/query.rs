//! One question without a connection to keep: which devices does the server have, and how full are they.

use std::path::Path;

use crate::{Backend, DeviceInfo, LinkError, Reply, Request, Socket};

/// Asks the server at `socket` for its devices, in order of index.
///
/// # Errors
/// Any [`LinkError`]; [`LinkError::Connect`] when nobody listens there.
pub fn query_devices(socket: &Path) -> Result<Vec<DeviceInfo>, LinkError> {
    match Socket::connect(socket)?.call(Request::Devices)? {
        Reply::Devices(devices) => Ok(devices),
        other => Err(LinkError::Malformed { what: format!("{other:?} in answer to a query of devices") }),
    }
}
