//! Detects which managed memory the host has used by plain loads and stores: the driver would have moved those pages
//! back.
//!
//! The page tables record it. Managed memory lies in a file, so its page table entries can be dropped without its
//! contents; while no work of the process runs on a device, the entries that reappear are the host's. This needs no
//! signal handler, and no system call into such memory fails. Traps: kernels run on threads of this process and make
//! entries that look the same, so memory must be *watched* only from a wait that leaves nothing running until the next
//! work that uses it; and a read maps up to 16 pages at once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use eager_gpu_model::Range;

use super::pages::{self, Access};

const PAGE_BYTES: u64 = 4096;
/// Bit of a `/proc/self/pagemap` entry: the page is in the page table (Linux, `admin-guide/mm/pagemap.rst`).
const PRESENT: u64 = 1 << 63;
/// Entries read at once.
const ENTRIES_MAX: usize = 8192;

/// Tracks the host's use of the process's managed memory.
#[derive(Debug)]
pub struct HostWatch {
    /// `None` where the system hides it: then no use is seen.
    pagemap: Option<File>,
    block_bytes: u64,
    /// Allocations by address.
    allocations: BTreeMap<u64, Watched>,
}

#[derive(Debug)]
struct Watched {
    bytes: u64,
    /// All page table entries of the allocation are the host's.
    is_watched: bool,
}

impl HostWatch {
    /// `block_bytes`: unit in which use is reported, a multiple of a page.
    pub fn new(block_bytes: u64) -> HostWatch {
        HostWatch {
            pagemap: File::open("/proc/self/pagemap").ok(),
            block_bytes,
            allocations: BTreeMap::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.allocations.is_empty()
    }

    /// Starts watching memory of the arena that is still unused; if the kernel refuses, the memory stays unwatched. A
    /// child process does not get the memory, as on hardware.
    pub fn add(&mut self, address: u64, bytes: u64) {
        match map(address, bytes) {
            Ok(()) => drop(self.allocations.insert(address, Watched { bytes, is_watched: true })),
            Err(_) => unmap(address, bytes),
        }
    }

    /// Stops watching; the addresses get the arena's plain memory again.
    pub fn remove(&mut self, address: u64) {
        if let Some(watched) = self.allocations.remove(&address) {
            unmap(address, watched.bytes);
        }
    }

    /// Returns the ranges that the host used in the allocations selected by `is_used_now`, and stops watching these.
    pub fn take(&mut self, is_used_now: impl Fn(u64, u64) -> bool) -> Vec<(u64, Range)> {
        let mut found = Vec::new();
        for (&address, watched) in &mut self.allocations {
            if !watched.is_watched || !is_used_now(address, watched.bytes) {
                continue;
            }
            watched.is_watched = false;
            let Some(pagemap) = &self.pagemap else { continue };
            let present = present_pages(pagemap, address, watched.bytes).unwrap_or_default();
            let blocks = in_blocks(present, self.block_bytes, watched.bytes);
            found.extend(blocks.into_iter().map(|range| (address, range)));
        }
        found
    }

    /// Watches all allocations from now on. Call only while no work of the process runs on a device.
    pub fn watch(&mut self) {
        for (&address, watched) in self.allocations.iter_mut().filter(|(_, watched)| !watched.is_watched) {
            let whole = watched.bytes.next_multiple_of(PAGE_BYTES) as usize;
            // SAFETY: the range is a shared mapping of a memory file, made by `add`, so its contents stay in the file.
            // If the kernel refuses, the memory stays unwatched.
            let dropped = unsafe { libc::madvise(address as *mut libc::c_void, whole, libc::MADV_DONTNEED) };
            watched.is_watched = dropped == 0;
        }
    }
}

fn map(address: u64, bytes: u64) -> io::Result<()> {
    let whole = bytes.next_multiple_of(PAGE_BYTES);
    // The mapping keeps the file alive.
    let file = pages::memory_file(whole)?;
    // SAFETY: the arena has just given these addresses to the caller; they are whole pages with a hole after them.
    unsafe {
        pages::map_file(address, whole, &file)?;
        pages::protect(address, whole, Access::ReadWrite)?;
        libc::madvise(address as *mut libc::c_void, whole as usize, libc::MADV_DONTFORK);
    }
    Ok(())
}

fn unmap(address: u64, bytes: u64) {
    let whole = bytes.next_multiple_of(PAGE_BYTES);
    // SAFETY: the range belongs to the caller, which gives up what `map` put there. Failure only keeps the memory for
    // longer.
    let _ = unsafe {
        pages::map_nothing(address, whole).and_then(|()| pages::protect(address, whole, Access::ReadWrite))
    };
}

/// Indices of the pages of a range that are in the page table, ascending.
fn present_pages(pagemap: &File, address: u64, bytes: u64) -> io::Result<Vec<u64>> {
    let pages = bytes.div_ceil(PAGE_BYTES);
    let mut present = Vec::new();
    let mut buffer = vec![0u8; ENTRIES_MAX.min(pages as usize) * 8];
    let mut first = 0;
    while first < pages {
        let count = (pages - first).min(ENTRIES_MAX as u64);
        let part = &mut buffer[..count as usize * 8];
        pagemap.read_exact_at(part, (address / PAGE_BYTES + first) * 8)?;
        for (index, entry) in (first..).zip(part.chunks_exact(8)) {
            let entry = u64::from_le_bytes(entry.try_into().unwrap_or_default());
            if entry & PRESENT != 0 {
                present.push(index);
            }
        }
        first += count;
    }
    Ok(present)
}

/// Pages (ascending) as ranges of whole blocks, cut to the end of the allocation.
fn in_blocks(pages: Vec<u64>, block_bytes: u64, bytes: u64) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for page in pages {
        let offset = page * PAGE_BYTES / block_bytes * block_bytes;
        let end = (offset + block_bytes).min(bytes);
        match ranges.last_mut() {
            Some(last) if last.offset + last.bytes >= offset => last.bytes = end - last.offset,
            _ => ranges.push(Range { offset, bytes: end - offset }),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Arena;

    #[test]
    fn pages_become_blocks() {
        let range = |offset, bytes| Range { offset, bytes };
        let block = 4 * PAGE_BYTES;
        assert_eq!(
            in_blocks(vec![0, 1, 5, 13], block, 55_000),
            [range(0, 2 * block), range(3 * block, 55_000 - 3 * block)]
        );
        assert_eq!(in_blocks(vec![], block, 100), []);
        assert_eq!(in_blocks(vec![0], block, 100), [range(0, 100)]);
    }

    #[test]
    fn what_the_host_writes_is_seen_once_and_keeps_its_bytes() {
        const BLOCK: u64 = 64 << 10;
        let mut arena = Arena::reserve(16 << 20, 2 << 20).unwrap();
        let [one, other] = [1 << 20, 100].map(|bytes| arena.allocate(bytes).unwrap().as_ptr());
        let mut watch = HostWatch::new(BLOCK);
        if watch.pagemap.is_none() {
            eprintln!("SKIPPED: no /proc/self/pagemap");
            return;
        }
        watch.add(one as u64, 1 << 20);
        watch.add(other as u64, 100);
        // SAFETY: inside the two allocations.
        let write = |at: usize, value: u8| unsafe { one.add(at).write_volatile(value) };
        write(3 * BLOCK as usize + 5, 7);
        let everything = |_, _| true;
        let third = (one as u64, Range { offset: 3 * BLOCK, bytes: BLOCK });
        assert_eq!(watch.take(everything), [third]);
        write(0, 1);
        assert_eq!(watch.take(everything), [], "work on a device may use it now");
        watch.watch();
        // SAFETY: as above.
        assert_eq!(unsafe { (one.read_volatile(), one.add(3 * BLOCK as usize + 5).read_volatile()) }, (1, 7));
        // SAFETY: as above.
        unsafe { other.write_volatile(9) };
        assert_eq!(
            watch.take(|address, _| address == other as u64),
            [(other as u64, Range { offset: 0, bytes: 100 })]
        );
        let seen = watch.take(everything);
        assert_eq!((seen[0].1.offset, seen.last().unwrap().1.bytes), (0, BLOCK));
        watch.remove(one as u64);
        // SAFETY: the arena's memory is readable whether or not it is allocated.
        assert_eq!(unsafe { one.add(3 * BLOCK as usize + 5).read_volatile() }, 0, "gone with its owner");
    }
}
