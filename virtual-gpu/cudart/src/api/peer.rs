//! Access of one device to another's memory.
//!
//! Kernels here can access all memory of the process, in no modelled time; the calls only record what CUDA records.
//! Access is one-way, and a device is not its own peer.

use core::ffi::c_int;

use super::device::known_device;
use super::open;
use crate::ffi::Out;
use crate::status::Code;

api!(
    fn cudaDeviceCanAccessPeer(can: Out<c_int>, device: c_int, peer: c_int) -> Result<(), Code> {
        let (runtime, _) = open()?;
        let (device, peer) = (known_device(runtime, device)?, known_device(runtime, peer)?);
        can.put(c_int::from(device != peer))
    }

    fn cudaDeviceEnablePeerAccess(peer: c_int, flags: u32) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let peer = known_device(runtime, peer)?;
        if flags != 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        if peer == device {
            return Err(Code::cudaErrorInvalidDevice);
        }
        let fresh = runtime.peers.lock().insert((device, peer));
        if fresh { Ok(()) } else { Err(Code::cudaErrorPeerAccessAlreadyEnabled) }
    }

    fn cudaDeviceDisablePeerAccess(peer: c_int) -> Result<(), Code> {
        let (runtime, device) = open()?;
        let peer = known_device(runtime, peer)?;
        let was_there = runtime.peers.lock().remove(&(device, peer));
        if was_there { Ok(()) } else { Err(Code::cudaErrorPeerAccessNotEnabled) }
    }

    fn cudaDeviceGetP2PAttribute(
        value: Out<c_int>,
        attribute: u32,
        device: c_int,
        peer: c_int,
    ) -> Result<(), Code> {
        const PERFORMANCE_RANK: u32 = 1;
        const ACCESS_SUPPORTED: u32 = 2;
        const NATIVE_ATOMIC_SUPPORTED: u32 = 3;
        const CUDA_ARRAY_ACCESS_SUPPORTED: u32 = 4;
        let (runtime, _) = open()?;
        let (device, peer) = (known_device(runtime, device)?, known_device(runtime, peer)?);
        if device == peer {
            return Err(Code::cudaErrorInvalidDevice);
        }
        value.put(match attribute {
            PERFORMANCE_RANK => 0,
            ACCESS_SUPPORTED | NATIVE_ATOMIC_SUPPORTED | CUDA_ARRAY_ACCESS_SUPPORTED => 1,
            _ => return Err(Code::cudaErrorInvalidValue),
        })
    }
);
