//! A query without a lasting connection: the devices of a server and how full they are.

use std::path::Path;

use crate::{Backend, DeviceInfo, LinkError, Reply, Request, Socket};

/// Returns the devices of the server at `socket`, in order of index.
///
/// # Errors
/// Any [`LinkError`]; [`LinkError::Connect`] when no server listens there.
pub fn query_devices(socket: &Path) -> Result<Vec<DeviceInfo>, LinkError> {
    match Socket::connect(socket)?.call(Request::Devices)? {
        Reply::Devices(devices) => Ok(devices),
        other => Err(LinkError::Malformed { what: format!("{other:?} in answer to a query of devices") }),
    }
}
