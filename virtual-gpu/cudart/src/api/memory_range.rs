//! Queries about a range of managed memory: `cudaMemRangeGetAttribute` and `cudaMemRangeGetAttributes`.
//!
//! A result is about all pages of the range; where they differ it is "none", as without any advice.

use core::ffi::{c_int, c_void};

use super::open;
use crate::ffi::In;
use crate::memory::{Advised, Side};
use crate::status::Code;

/// `cudaCpuDeviceId` and `cudaInvalidDeviceId`.
const CPU: c_int = -1;
const NONE: c_int = -2;

const READ_MOSTLY: u32 = 1;
const PREFERRED_LOCATION: u32 = 2;
const ACCESSED_BY: u32 = 3;
const LAST_PREFETCH_LOCATION: u32 = 4;
const PREFERRED_LOCATION_TYPE: u32 = 5;
const PREFERRED_LOCATION_ID: u32 = 6;
const LAST_PREFETCH_LOCATION_TYPE: u32 = 7;
const LAST_PREFETCH_LOCATION_ID: u32 = 8;

fn number(side: Side) -> c_int {
    match side {
        Side::Host => CPU,
        Side::Device(device) => device.cast_signed(),
    }
}

/// `cudaMemLocationType`: invalid, device, host.
fn kind(side: Option<Side>) -> c_int {
    match side {
        None => 0,
        Some(Side::Device(_)) => 1,
        Some(Side::Host) => 2,
    }
}

/// Common value of all parts, if they agree.
fn common<T: PartialEq>(parts: &[Advised], of: impl Fn(&Advised) -> Option<T>) -> Option<T> {
    let first = of(parts.first()?)?;
    parts[1..].iter().all(|part| of(part).as_ref() == Some(&first)).then_some(first)
}

/// Value of an attribute, as at most `count` numbers.
fn answer(attribute: u32, count: usize, parts: &[Advised]) -> Result<Vec<c_int>, Code> {
    let preferred = || common(parts, |part| part.preferred);
    let prefetched = || common(parts, |part| part.prefetched);
    let one = match attribute {
        READ_MOSTLY => c_int::from(parts.iter().all(|part| part.read_mostly)),
        PREFERRED_LOCATION | PREFERRED_LOCATION_ID => preferred().map_or(NONE, number),
        LAST_PREFETCH_LOCATION | LAST_PREFETCH_LOCATION_ID => prefetched().map_or(NONE, number),
        PREFERRED_LOCATION_TYPE => kind(preferred()),
        LAST_PREFETCH_LOCATION_TYPE => kind(prefetched()),
        ACCESSED_BY => {
            let sides = parts[0].accessed_by.iter();
            let of_all = sides.filter(|side| parts.iter().all(|part| part.accessed_by.contains(side)));
            let filled = of_all.map(|side| number(*side)).chain(std::iter::repeat(NONE));
            return Ok(filled.take(count).collect());
        }
        _ => return Err(Code::cudaErrorInvalidValue),
    };
    if count == 1 { Ok(vec![one]) } else { Err(Code::cudaErrorInvalidValue) }
}

/// # Safety
/// `data` is null or has room for `data_bytes` bytes.
unsafe fn get(
    data: *mut c_void,
    data_bytes: usize,
    attribute: u32,
    pointer: *const c_void,
    bytes: usize,
) -> Result<(), Code> {
    let (runtime, _) = open()?;
    let count = data_bytes / size_of::<c_int>();
    if data.is_null() || count == 0 || !data_bytes.is_multiple_of(size_of::<c_int>()) || bytes == 0 {
        return Err(Code::cudaErrorInvalidValue);
    }
    let parts = {
        let memory = runtime.memory.lock();
        let found = memory.table.find(pointer as u64).filter(|found| found.is_managed());
        found
            .and_then(|found| found.range(pointer as u64, bytes as u64))
            .ok_or(Code::cudaErrorInvalidValue)?;
        memory.advice.of(pointer as u64, bytes as u64)
    };
    for (index, value) in answer(attribute, count, &parts)?.into_iter().enumerate() {
        // SAFETY: `answer` returns at most `count` numbers, for which the caller has room, aligned or not.
        unsafe { data.cast::<c_int>().add(index).write_unaligned(value) };
    }
    Ok(())
}

api!(
    /// # Safety
    /// `data` has room for `data_bytes` bytes.
    unsafe fn cudaMemRangeGetAttribute(
        data: *mut c_void,
        data_bytes: usize,
        attribute: u32,
        pointer: *const c_void,
        bytes: usize,
    ) -> Result<(), Code> {
        // SAFETY: by this function's contract.
        unsafe { get(data, data_bytes, attribute, pointer, bytes) }
    }

    /// # Safety
    /// The three lists have `count` entries; each entry of `data` has room for the number of bytes in `sizes`.
    unsafe fn cudaMemRangeGetAttributes(
        data: In<*mut c_void>,
        sizes: In<usize>,
        attributes: In<u32>,
        count: usize,
        pointer: *const c_void,
        bytes: usize,
    ) -> Result<(), Code> {
        let (data, sizes, attributes) = (data.all(count)?, sizes.all(count)?, attributes.all(count)?);
        if count == 0 {
            return Err(Code::cudaErrorInvalidValue);
        }
        for ((data, size), attribute) in data.iter().zip(sizes).zip(attributes) {
            // SAFETY: by this function's contract, for each entry.
            unsafe { get(*data, size, attribute, pointer, bytes)? };
        }
        Ok(())
    }
);
