//! Copies of the device variables, one for each device.
//!
//! Kernel code reaches a variable at its address in the program. With one device that memory is the variable, and this
//! module does nothing. With several, every device has a copy at other addresses, which host calls use; before a launch
//! the pages of its device's copy are mapped at the program's addresses as well, so that the kernel reaches the copy
//! under both. That is enough because launches of a process never compute at the same time. Trap: an address that
//! device code has stored is the program's, so one that comes from the host means the current device's copy
//! ([`resolved`]).

use core::ffi::c_void;
use std::collections::BTreeMap;
use std::io;
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use eager_exec::abi::MemoryRange;
use parking_lot::Mutex;

use crate::device::current_device;
use crate::log::log_line;
use crate::status::Code;

/// Whole pages of the program that hold variables of one file and nothing else.
#[derive(Debug)]
struct Block {
    start: u64,
    bytes: u64,
    /// Starts with zeros.
    is_zero: bool,
    /// The initial values; kept when the first copy is made, before a kernel can change them.
    initial: Option<Vec<u8>>,
    /// Address of each device's copy.
    copies: BTreeMap<u32, u64>,
    /// Device whose copy is at the program's addresses.
    shown: Option<u32>,
}

#[derive(Debug)]
struct Copies {
    blocks: Vec<Block>,
    /// Pointers to managed variables, by address: part of every copy.
    pointers: Vec<(u64, u64)>,
}

static COPIES: Mutex<Copies> = Mutex::new(Copies { blocks: Vec::new(), pointers: Vec::new() });
/// True if the program sees several devices.
static SEVERAL: AtomicBool = AtomicBool::new(false);

fn several() -> bool {
    // Relaxed: set while the runtime is made, which the program's calls come after.
    SEVERAL.load(Ordering::Relaxed)
}

impl Block {
    fn at(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.start).filter(|offset| *offset < self.bytes)
    }

    /// Address of a device's copy, which this makes if necessary.
    fn copy(&mut self, device: u32, pointers: &[(u64, u64)]) -> io::Result<u64> {
        if let Some(&copy) = self.copies.get(&device) {
            return Ok(copy);
        }
        let bytes = usize::try_from(self.bytes).map_err(io::Error::other)?;
        let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address that the kernel chooses replaces nothing that exists.
        let copy = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0) };
        if copy == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if !self.is_zero {
            let initial = self.initial.get_or_insert_with(|| {
                let from = with_exposed_provenance::<u8>(self.start as usize);
                // SAFETY: the program's table lists these bytes as its own, and no kernel has run yet, since each
                // needs a copy.
                unsafe { std::slice::from_raw_parts(from, bytes) }.to_vec()
            });
            // SAFETY: the mapping was just made with this size.
            unsafe { copy.cast::<u8>().copy_from_nonoverlapping(initial.as_ptr(), bytes) };
        }
        let copy = copy as u64;
        self.copies.insert(device, copy);
        for &(address, value) in pointers {
            self.write(address, value);
        }
        Ok(copy)
    }

    /// Writes a pointer into every copy, if it lies in this block.
    fn write(&self, address: u64, value: u64) {
        let Some(offset) = self.at(address) else { return };
        for copy in self.copies.values() {
            let to = with_exposed_provenance_mut::<u64>((copy + offset) as usize);
            // SAFETY: the pointer is a variable of this block, and the copy is as large.
            unsafe { to.write(value) };
        }
    }

    /// Maps a device's copy at the program's addresses.
    fn show(&mut self, device: u32, pointers: &[(u64, u64)]) -> io::Result<()> {
        if self.shown == Some(device) {
            return Ok(());
        }
        let copy = with_exposed_provenance_mut::<c_void>(self.copy(device, pointers)? as usize);
        let at = with_exposed_provenance_mut::<c_void>(self.start as usize);
        let bytes = usize::try_from(self.bytes).map_err(io::Error::other)?;
        // SAFETY: an old size of 0 maps the pages of a shared mapping a second time (mremap(2)). They replace pages
        // that hold nothing but these variables (`VariableMemory`), and no kernel runs: the caller holds `Compute`.
        let mapped = unsafe { libc::mremap(copy, 0, bytes, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, at) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.shown = Some(device);
        Ok(())
    }
}

fn failed(error: &io::Error) -> Code {
    log_line(format_args!("cannot make a device's copy of the program's device variables: {error}"));
    Code::cudaErrorMemoryAllocation
}

/// Registers the memory of one file's variables.
pub fn add(range: &MemoryRange, is_zero: bool) {
    if range.bytes > 0 {
        COPIES.lock().blocks.push(Block {
            start: range.start.expose_provenance() as u64,
            bytes: range.bytes,
            is_zero,
            initial: None,
            copies: BTreeMap::new(),
            shown: None,
        });
    }
}

/// Gives each device its own copy from now on, if there is more than one.
pub fn set_devices(count: usize) {
    SEVERAL.store(count > 1, Ordering::Relaxed);
}

/// Lets kernels reach the variables of `device`. The caller holds the lock of `Compute`.
///
/// # Errors
/// `cudaErrorMemoryAllocation`.
pub fn show(device: u32) -> Result<(), Code> {
    if !several() {
        return Ok(());
    }
    let Copies { blocks, pointers } = &mut *COPIES.lock();
    blocks.iter_mut().try_for_each(|block| block.show(device, pointers)).map_err(|error| failed(&error))
}

/// Address in a device's copy for a variable's address in the program; any other address is returned as it is.
///
/// # Errors
/// `cudaErrorMemoryAllocation`.
pub fn of_device(device: u32, address: u64) -> Result<u64, Code> {
    if !several() {
        return Ok(address);
    }
    let Copies { blocks, pointers } = &mut *COPIES.lock();
    let found = blocks.iter_mut().find_map(|block| block.at(address).map(|offset| (block, offset)));
    let Some((block, offset)) = found else { return Ok(address) };
    block.copy(device, pointers).map(|copy| copy + offset).map_err(|error| failed(&error))
}

/// Like [`of_device`], on the thread's current device.
///
/// # Errors
/// `cudaErrorMemoryAllocation`.
pub fn resolved(address: u64) -> Result<u64, Code> {
    of_device(current_device(), address)
}

/// A variable's address in the program, and the device, for an address in that device's copy.
pub fn home(address: u64) -> Option<(u64, u32)> {
    if !several() {
        return None;
    }
    COPIES.lock().blocks.iter().find_map(|block| {
        let found = block.copies.iter().find(|(_, copy)| (**copy..**copy + block.bytes).contains(&address));
        found.map(|(device, copy)| (block.start + (address - copy), *device))
    })
}

/// Addresses of all devices' copies of the variable at an address of the program.
pub fn all(address: u64) -> Vec<u64> {
    let copies = COPIES.lock();
    let found = copies.blocks.iter().find_map(|block| block.at(address).map(|offset| (block, offset)));
    found.map_or_else(Vec::new, |(block, offset)| block.copies.values().map(|copy| copy + offset).collect())
}

/// Stores the address of a managed variable for kernels of all devices.
///
/// # Safety
/// `address` is that of a pointer variable in the program's table, and no kernel uses it at present.
pub unsafe fn write_pointer(address: u64, value: u64) {
    if several() {
        let Copies { blocks, pointers } = &mut *COPIES.lock();
        pointers.retain(|(known, _)| *known != address);
        pointers.push((address, value));
        blocks.iter().for_each(|block| block.write(address, value));
        return;
    }
    // SAFETY: by this function's contract.
    unsafe { with_exposed_provenance_mut::<u64>(address as usize).write(value) };
}

/// Drops a device's copies, whose next use starts from the initial values. No work of the device is left.
pub fn forget_device(device: u32) {
    for block in &mut COPIES.lock().blocks {
        if let Some(copy) = block.copies.remove(&device) {
            block.shown = block.shown.filter(|shown| *shown != device);
            let at = with_exposed_provenance_mut::<c_void>(copy as usize);
            // SAFETY: the mapping was made here with this size, and nothing uses it any more. Its pages stay at the
            // program's addresses, if they are there, until another copy is shown.
            unsafe { libc::munmap(at, block.bytes as usize) };
        }
    }
}
