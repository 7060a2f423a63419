//! Copies to and from `__device__` and `__constant__` variables, and their addresses.
//!
//! Trap: a symbol is the address of the host's shadow variable, which only identifies the device variable; its own
//! bytes must never be read.

use core::ffi::c_void;

use super::copy::{copy_and_wait, copy_in};
use super::open;
use crate::ffi::Out;
use crate::kernel::variable;
use crate::status::Code;
use crate::transfer::{Copy, Direction};

/// Address of `bytes` bytes of a variable from `offset` on.
///
/// # Errors
/// `cudaErrorInvalidSymbol`, `cudaErrorInvalidValue` if the variable is shorter.
pub fn symbol_address(symbol: *const c_void, offset: usize, bytes: usize) -> Result<u64, Code> {
    let variable = variable(symbol)?;
    let end = (offset as u64).checked_add(bytes as u64).filter(|&end| end <= variable.bytes);
    end.ok_or(Code::cudaErrorInvalidValue)?;
    Ok(variable.address + offset as u64)
}

/// A copy to a symbol on the device, from either side.
///
/// # Errors
/// Those of [`symbol_address`]; `cudaErrorInvalidMemcpyDirection` for a direction that leaves the device.
pub fn copy_to_symbol(
    symbol: *const c_void,
    from: *const c_void,
    bytes: usize,
    offset: usize,
    kind: u32,
) -> Result<Copy, Code> {
    let direction = match Direction::new(kind)? {
        Direction::HostToHost | Direction::DeviceToHost => return Err(Code::cudaErrorInvalidMemcpyDirection),
        direction => direction,
    };
    Ok(Copy::line(symbol_address(symbol, offset, bytes)?, from as u64, bytes as u64, direction))
}

/// A copy from a symbol.
///
/// # Errors
/// Those of [`symbol_address`]; `cudaErrorInvalidMemcpyDirection` for a direction that begins on the host.
pub fn copy_from_symbol(
    to: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: u32,
) -> Result<Copy, Code> {
    let direction = match Direction::new(kind)? {
        Direction::HostToHost | Direction::HostToDevice => return Err(Code::cudaErrorInvalidMemcpyDirection),
        direction => direction,
    };
    Ok(Copy::line(to as u64, symbol_address(symbol, offset, bytes)?, bytes as u64, direction))
}

api!(
    #[bytes(bytes)]
    #[per_thread(ptds)]
    fn cudaMemcpyToSymbol(
        symbol: *const c_void,
        from: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) -> Result<(), Code> {
        copy_and_wait(|_| copy_to_symbol(symbol, from, bytes, offset, kind))
    }

    #[bytes(bytes)]
    #[per_thread(ptsz)]
    fn cudaMemcpyToSymbolAsync(
        symbol: *const c_void,
        from: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        copy_in(stream, |_| copy_to_symbol(symbol, from, bytes, offset, kind))
    }

    #[bytes(bytes)]
    #[per_thread(ptds)]
    fn cudaMemcpyFromSymbol(
        to: *mut c_void,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
    ) -> Result<(), Code> {
        copy_and_wait(|_| copy_from_symbol(to, symbol, bytes, offset, kind))
    }

    #[bytes(bytes)]
    #[per_thread(ptsz)]
    fn cudaMemcpyFromSymbolAsync(
        to: *mut c_void,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: u32,
        stream: *mut c_void,
    ) -> Result<(), Code> {
        copy_in(stream, |_| copy_from_symbol(to, symbol, bytes, offset, kind))
    }

    fn cudaGetSymbolAddress(address: Out<*mut c_void>, symbol: *const c_void) -> Result<(), Code> {
        open()?;
        address.put(variable(symbol)?.address as *mut c_void)
    }

    fn cudaGetSymbolSize(bytes: Out<usize>, symbol: *const c_void) -> Result<(), Code> {
        open()?;
        bytes.put(usize::try_from(variable(symbol)?.bytes).unwrap_or(usize::MAX))
    }
);
