//! A program that sees some of the server's devices, under numbers of its own. Pure.
//!
//! Trap: a device's `index` is the server's number, from which its uuid and bus come; the program's number is its place
//! in the list. Whatever is sent names the server's.

use eager_vgpu_link::{DeviceInfo, Request};

/// The devices that the program sees, in its order.
///
/// # Errors
/// The number of one that is not there.
pub fn visible(devices: Vec<DeviceInfo>, wanted: Option<&[u32]>) -> Result<Vec<DeviceInfo>, u32> {
    let Some(wanted) = wanted else { return Ok(devices) };
    let find = |number: &u32| devices.iter().find(|device| device.index == *number).cloned().ok_or(*number);
    wanted.iter().map(find).collect()
}

/// A request of the program with the server's number of its device, if it names one.
pub fn for_server(mut request: Request, devices: &[DeviceInfo]) -> Request {
    if let Request::OpenContext { device }
    | Request::CloseContext { device }
    | Request::Allocate { device, .. }
    | Request::MemoryInfo { device }
    | Request::Run { device, .. } = &mut request
    {
        // One that the program does not have is refused by the server too.
        *device = devices.get(*device as usize).map_or(u32::MAX, |device| device.index);
    }
    request
}
