//! The pages of a span that the CPU has mapped, from `/proc/self/pagemap`, which any user can read for its own
//! process (specification S-219).
//!
//! The driver of a real GPU unmaps a page of managed memory for the CPU when it moves it to the device. A virtual GPU
//! unmaps all managed memory between kernels, to see what the host uses, so its pages do not show what kernels touch.

use crate::addresses::MANAGED_GRANULARITY;
use crate::runtime::Span;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const ENTRY_BYTES: usize = 8;
/// "Present". An unprivileged user reads zeros for a page's location, but reads this bit.
const PRESENT: u64 = 1 << 63;

/// The pages that a span lies in, in address order, and whether each is mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pages {
    pub span: Span,
    pub page_bytes: u64,
    pub mapped: Vec<bool>,
}

impl Pages {
    /// Reads the state of a span's pages.
    ///
    /// # Errors
    /// The system does not provide it.
    pub fn of(span: Span) -> io::Result<Pages> {
        let page_bytes = page_bytes();
        let (first, end) = (span.start / page_bytes, (span.start + span.bytes).div_ceil(page_bytes));
        let count = usize::try_from(end - first).map_err(io::Error::other)?;
        let mut entries = vec![0; count * ENTRY_BYTES];
        File::open("/proc/self/pagemap")?.read_exact_at(&mut entries, first * ENTRY_BYTES as u64)?;
        let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
        let mapped = entries.iter().map(|entry| u64::from_ne_bytes(*entry) & PRESENT != 0).collect();
        Ok(Pages { span, page_bytes, mapped })
    }

    pub fn all_mapped(&self) -> bool {
        self.mapped.iter().all(|mapped| *mapped)
    }

    pub fn none_mapped(&self) -> bool {
        !self.mapped.iter().any(|mapped| *mapped)
    }

    /// Bytes of the span in driver blocks of which some page is not mapped. The driver takes device memory in blocks,
    /// whether or not all pages of a block move to the device.
    pub fn bytes_away(&self) -> u64 {
        let (start, end) = (self.span.start, self.span.start + self.span.bytes);
        let first_page = start / self.page_bytes;
        let (mut bytes, mut counted_to) = (0, start);
        for (page, _) in (first_page..).zip(&self.mapped).filter(|(_, mapped)| !**mapped) {
            let block = page * self.page_bytes / MANAGED_GRANULARITY * MANAGED_GRANULARITY;
            let to = (block + MANAGED_GRANULARITY).min(end);
            bytes += to.saturating_sub(block.max(counted_to));
            counted_to = counted_to.max(to);
        }
        bytes
    }
}

/// Page size of the host's memory, in bytes.
pub fn page_bytes() -> u64 {
    // SAFETY: takes and returns a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).ok().filter(|bytes| *bytes > 0).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    use std::num::NonZeroUsize;

    const PAGE: u64 = 4096;

    fn away(start: u64, bytes: u64, away: &[u64]) -> u64 {
        let span = Span { start, bytes };
        let pages = start / PAGE..(start + bytes).div_ceil(PAGE);
        Pages { span, page_bytes: PAGE, mapped: pages.map(|page| !away.contains(&page)).collect() }
            .bytes_away()
    }

    #[test]
    fn a_page_stands_for_its_block_within_the_span() {
        const BLOCK: u64 = MANAGED_GRANULARITY;
        assert_eq!(away(BLOCK, 4 * BLOCK, &[]), 0);
        assert_eq!(away(BLOCK, 4 * BLOCK, &[512]), BLOCK);
        assert_eq!(away(BLOCK, 4 * BLOCK, &[513, 514, 1023]), BLOCK);
        assert_eq!(away(BLOCK, 4 * BLOCK, &[1023, 1024]), 2 * BLOCK);
        assert_eq!(away(BLOCK, BLOCK + 5, &[1024]), 5, "the last block ends with the span");
        assert_eq!(away(BLOCK + 3 * PAGE, 9 * BLOCK, &[600]), BLOCK - 3 * PAGE, "the first begins with it");
        assert_eq!(away(BLOCK + 256, 100, &[512]), 100, "less than a page");
        assert_eq!(away(BLOCK + 4000, 200, &[513]), 200, "over two pages");
    }

    /// Pages of a shared mapping, of which the system maps none before its first use.
    #[test]
    fn a_page_is_mapped_from_its_first_use_on() {
        let bytes = page_bytes() * 8;
        let length = NonZeroUsize::new(bytes as usize).expect("pages");
        // SAFETY: new memory at an address that the system chooses.
        let memory =
            unsafe { mmap_anonymous(None, length, ProtFlags::all(), MapFlags::MAP_SHARED) }.expect("mmap");
        let span = Span { start: memory.as_ptr().expose_provenance() as u64, bytes };
        let mapped = || Pages::of(span).expect("pagemap");
        assert!(mapped().none_mapped() && !mapped().all_mapped(), "{:?}", mapped());
        for page in [1, 6] {
            // SAFETY: within the memory mapped above.
            unsafe { memory.cast::<u8>().add(page * page_bytes() as usize).write_volatile(1) };
        }
        let expected: Vec<bool> = (0..8).map(|page| [1, 6].contains(&page)).collect();
        assert_eq!(mapped().mapped, expected);
        // SAFETY: mapped above, and not used any more.
        unsafe { munmap(memory, length.get()) }.expect("munmap");
    }
}
