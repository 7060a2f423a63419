//! Selects and renumbers the server's devices that the program sees. Pure.
//!
//! Trap: a device's `index` is the server's number, from which its uuid and bus are derived; the program's number is
//! its position in the list. Requests must carry the server's number.

use eager_vgpu_link::{DeviceInfo, Request};

/// Returns the devices that the program sees, in its order.
///
/// # Errors
/// The first wanted number without a device.
pub fn visible(devices: Vec<DeviceInfo>, wanted: Option<&[u32]>) -> Result<Vec<DeviceInfo>, u32> {
    let Some(wanted) = wanted else { return Ok(devices) };
    let find = |number: &u32| devices.iter().find(|device| device.index == *number).cloned().ok_or(*number);
    wanted.iter().map(find).collect()
}

/// Replaces the program's device number in a request, if any, by the server's.
pub fn for_server(mut request: Request, devices: &[DeviceInfo]) -> Request {
    if let Request::OpenContext { device }
    | Request::CloseContext { device }
    | Request::Allocate { device, .. }
    | Request::MemoryInfo { device }
    | Request::Run { device, .. } = &mut request
    {
        // A number that the program does not have is refused by the server as well.
        *device = devices.get(*device as usize).map_or(u32::MAX, |device| device.index);
    }
    request
}
