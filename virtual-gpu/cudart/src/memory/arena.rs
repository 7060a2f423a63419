//! The address arena: one private reservation in which all device and managed memory of the process lies.
//!
//! Pointers are equal on host and device, and untouched bytes cost nothing. Trap: up to the highest address ever
//! allocated the whole arena is readable and writable, not only the allocations, so that an access a little outside an
//! array does no harm; a wild pointer there goes unnoticed. Any higher address must stay a fault, as on a GPU.

use core::ops::Range;
use std::io;
use std::ptr::{self, NonNull};

use super::ranges::FreeRanges;

/// Least distance between allocations, since Rodinia's srad_v2 reads a matrix row before its array (specification
/// S-519).
const HOLE_BYTES: u64 = 64 << 10;
/// Step in which the arena becomes usable: the size of a GPU's pages, and of the hole after the last allocation.
const OPENED_BYTES: u64 = 2 << 20;

/// A reserved address range and its free parts.
#[derive(Debug)]
pub struct Arena {
    base: u64,
    bytes: u64,
    /// End of the readable and writable part.
    opened_end: u64,
    ranges: FreeRanges,
}

impl Arena {
    /// Reserves `bytes` (a multiple of `block_bytes`, a power of two of at least a page), aligned to `block_bytes`.
    ///
    /// # Errors
    /// The error of `mmap`: address space limits, or a strict overcommit policy.
    pub fn reserve(bytes: u64, block_bytes: u64) -> io::Result<Arena> {
        let mapped_bytes = usize::try_from(bytes + block_bytes).map_err(io::Error::other)?;
        // SAFETY: an anonymous mapping at an address the kernel chooses replaces nothing that exists.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped_bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = (mapped as u64).next_multiple_of(block_bytes);
        Ok(Arena {
            base,
            bytes,
            opened_end: base,
            ranges: FreeRanges::new(base, bytes, block_bytes, HOLE_BYTES),
        })
    }

    pub fn addresses(&self) -> Range<u64> {
        self.base..self.base + self.bytes
    }

    /// Returns addresses for `bytes`, which read as zero, or `None` when the arena is full or the kernel gives no more
    /// memory.
    pub fn allocate(&mut self, bytes: u64) -> Option<NonNull<u8>> {
        let address = self.ranges.allocate(bytes)?;
        if !self.open(address + bytes + HOLE_BYTES) {
            self.ranges.release(address, bytes);
            return None;
        }
        NonNull::new(address as *mut u8)
    }

    /// Makes the arena usable at least up to `end`; false if the kernel refuses.
    fn open(&mut self, end: u64) -> bool {
        let end = end.next_multiple_of(OPENED_BYTES).min(self.base + self.bytes);
        if end <= self.opened_end {
            return true;
        }
        let bytes = usize::try_from(end - self.opened_end).expect("was reserved in this address space");
        let at = self.opened_end as *mut libc::c_void;
        // SAFETY: the range lies in the arena above every address allocated so far, so nothing uses it.
        let opened = unsafe { libc::mprotect(at, bytes, libc::PROT_READ | libc::PROT_WRITE) } == 0;
        if opened {
            self.opened_end = end;
        }
        opened
    }

    /// Frees addresses and their host memory.
    pub fn release(&mut self, address: u64, bytes: u64) {
        self.wipe(address, bytes);
        self.ranges.release(address, bytes);
    }

    /// Frees the host memory of an allocation, which reads as zero again.
    pub fn wipe(&mut self, address: u64, bytes: u64) {
        assert!(address >= self.base && address + bytes <= self.base + self.bytes, "not of this arena");
        let whole_pages =
            usize::try_from(bytes.next_multiple_of(4096)).expect("was allocated in this address space");
        let at = address as *mut libc::c_void;
        // SAFETY: the range was returned by `allocate`, which starts at page boundaries and leaves a hole after it, so
        // the rounding touches no other allocation; its owner has just given up its contents. Failure only keeps the
        // memory for longer.
        unsafe {
            // For a memory file the first call drops the content of the file; elsewhere it fails, and the second is
            // enough.
            if libc::madvise(at, whole_pages, libc::MADV_REMOVE) != 0 {
                libc::madvise(at, whole_pages, libc::MADV_DONTNEED);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True if the kernel can read a byte at `address`.
    fn is_readable(address: u64) -> bool {
        let mut ends = [0; 2];
        // SAFETY: the system reads the byte, and returns EFAULT where it cannot; the pipe belongs to this function.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            let written = libc::write(ends[1], address as *const libc::c_void, 1);
            libc::close(ends[0]);
            libc::close(ends[1]);
            written == 1
        }
    }

    #[test]
    fn what_was_never_given_out_is_no_memory() {
        let mut arena = Arena::reserve(64 << 20, 1 << 20).unwrap();
        let given = arena.allocate(3 << 20).unwrap().as_ptr() as u64;
        assert!(is_readable(given - 1) && is_readable(given + (3 << 20) + HOLE_BYTES - 1));
        assert!(!is_readable(given + (16 << 20)));
        let next = arena.allocate(20 << 20).unwrap().as_ptr() as u64;
        assert!(next > given && is_readable(given + (16 << 20)));
        arena.release(next, 20 << 20);
        assert!(is_readable(next), "what was given out once stays");
    }
}
