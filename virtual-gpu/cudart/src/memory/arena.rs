//! The address arena: one private reservation in which all device and managed memory of the process lies.
//!
//! Pointers are equal on host and device, and bytes that nobody touched cost nothing. Trap: the whole arena is readable
//! and writable, not only the allocations, so that an access a little outside an array does no harm; it is also why a
//! wild pointer into the arena goes unnoticed.

use std::io;
use std::ptr::{self, NonNull};

use super::ranges::FreeRanges;

/// Least distance between allocations; srad_v2 of Rodinia reads a matrix row before its array
/// (specification S-519).
const HOLE_BYTES: u64 = 64 << 10;

/// A reserved address range and what is free in it.
#[derive(Debug)]
pub struct Arena {
    base: u64,
    bytes: u64,
    ranges: FreeRanges,
}

impl Arena {
    /// Reserves `bytes` (a multiple of `block_bytes`, a power of two of at least a page), aligned to `block_bytes`.
    ///
    /// # Errors
    /// What `mmap` said: address space limits, or a strict overcommit policy.
    pub fn reserve(bytes: u64, block_bytes: u64) -> io::Result<Arena> {
        let mapped_bytes = usize::try_from(bytes + block_bytes).map_err(io::Error::other)?;
        // SAFETY: an anonymous mapping at an address the kernel chooses replaces nothing that exists.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = (mapped as u64).next_multiple_of(block_bytes);
        Ok(Arena { base, bytes, ranges: FreeRanges::new(base, bytes, block_bytes, HOLE_BYTES) })
    }

    /// First address of the arena.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Addresses for `bytes`, or `None` when the arena is full. The memory reads as zero.
    pub fn allocate(&mut self, bytes: u64) -> Option<NonNull<u8>> {
        NonNull::new(self.ranges.allocate(bytes)? as *mut u8)
    }

    /// Gives addresses and host memory back.
    pub fn release(&mut self, address: u64, bytes: u64) {
        self.wipe(address, bytes);
        self.ranges.release(address, bytes);
    }

    /// Gives the host memory of an allocation back: it reads as zero again.
    pub fn wipe(&mut self, address: u64, bytes: u64) {
        assert!(address >= self.base && address + bytes <= self.base + self.bytes, "not of this arena");
        let whole_pages =
            usize::try_from(bytes.next_multiple_of(4096)).expect("was allocated in this address space");
        let at = address as *mut libc::c_void;
        // SAFETY: the range was given out by `allocate`, which starts at page boundaries and leaves a hole behind, so
        // the rounding touches nobody else; its owner just gave its contents up. Failure only keeps the memory for longer.
        unsafe {
            // Of a file in memory the first drops what is in the file, and fails elsewhere, where the second is enough.
            if libc::madvise(at, whole_pages, libc::MADV_REMOVE) != 0 {
                libc::madvise(at, whole_pages, libc::MADV_DONTNEED);
            }
        }
    }
}
