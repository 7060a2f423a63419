//! Copies to and from `__device__` and `__constant__` variables, and their addresses.
//!
//! Trap: the symbol is the address of the host's shadow variable, which only names the real one; its own bytes are
//! never read.

use core::ffi::c_void;

use super::transfer::{End, Return, copy_between};
use super::{open, put, stream_key};
use crate::kernel::variable;
use crate::status::{Code, guard};
use crate::stream::StreamKey;
use crate::transfer::{Direction, Place};

/// The part of a variable from `offset` on.
fn variable_end(symbol: *const c_void, offset: usize, bytes: usize) -> Result<End, Code> {
    let variable = variable(symbol)?;
    let end = (offset as u64).checked_add(bytes as u64).filter(|&end| end <= variable.bytes);
    end.ok_or(Code::cudaErrorInvalidValue)?;
    Ok(End { address: variable.address + offset as u64, place: Place::Variable })
}

/// # Safety
/// `from` is readable for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyToSymbol(
    symbol: *const c_void,
    from: *const c_void,
    bytes: usize,
    offset: usize,
    kind: u32,
) -> Code {
    guard("cudaMemcpyToSymbol", bytes, || {
        let (runtime, device) = open()?;
        let (to, from) = (variable_end(symbol, offset, bytes)?, End::new(runtime, from, bytes)?);
        let (stream, direction) = (StreamKey::Default { device }, Direction::new(kind)?);
        // SAFETY: the variable is that long, and the caller vouches for `from`.
        unsafe { copy_between(runtime, stream, to, from, bytes, direction, Return::AtEnd) }
    })
}

/// # Safety
/// `from` is readable for `bytes` until the copy is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyToSymbolAsync(
    symbol: *const c_void,
    from: *const c_void,
    bytes: usize,
    offset: usize,
    kind: u32,
    stream: *mut c_void,
) -> Code {
    guard("cudaMemcpyToSymbolAsync", bytes, || {
        let (runtime, device) = open()?;
        let (to, from) = (variable_end(symbol, offset, bytes)?, End::new(runtime, from, bytes)?);
        let (stream, direction) = (stream_key(stream, device), Direction::new(kind)?);
        // SAFETY: the variable is that long, and the caller vouches for `from`.
        unsafe { copy_between(runtime, stream, to, from, bytes, direction, Return::Early) }
    })
}

/// # Safety
/// `to` is writable for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaMemcpyFromSymbol(
    to: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: u32,
) -> Code {
    guard("cudaMemcpyFromSymbol", bytes, || {
        let (runtime, device) = open()?;
        let (to, from) = (End::new(runtime, to, bytes)?, variable_end(symbol, offset, bytes)?);
        let (stream, direction) = (StreamKey::Default { device }, Direction::new(kind)?);
        // SAFETY: the variable is that long, and the caller vouches for `to`.
        unsafe { copy_between(runtime, stream, to, from, bytes, direction, Return::AtEnd) }
    })
}

/// # Safety
/// `address` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetSymbolAddress(address: *mut *mut c_void, symbol: *const c_void) -> Code {
    guard("cudaGetSymbolAddress", 0, || {
        open()?;
        // SAFETY: the caller says so.
        unsafe { put(address, variable(symbol)?.address as *mut c_void) }
    })
}

/// # Safety
/// `bytes` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetSymbolSize(bytes: *mut usize, symbol: *const c_void) -> Code {
    guard("cudaGetSymbolSize", 0, || {
        open()?;
        // SAFETY: the caller says so.
        unsafe { put(bytes, variable(symbol)?.bytes as usize) }
    })
}
