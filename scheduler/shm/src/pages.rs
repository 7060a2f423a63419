//! The two shared pages as this process sees them: structs of atomics at the layout that eager-proto fixes.
//!
//! Trap: the bytes belong to two processes. A plain reference into them would let the compiler read a word twice or
//! assume that it does not change; atomics do not, and `Mapping` hands out nothing else.

use crate::exchange;
use eager_proto::reply::{REASON_BYTES, ReplyPage, TaskCell};
use eager_proto::request::{RequestPage, RequestRecord};
use eager_proto::{MAGIC, PROTOCOL_MAJOR, PROTOCOL_MINOR, RING_SLOTS, TASK_SLOTS};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// First 64 bytes of both pages; `cursor` is `head` of the request page and `tail` of the reply page.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Header {
    magic: AtomicU32,
    /// Major in the low, minor in the high half.
    version: AtomicU32,
    bytes: AtomicU32,
    pub(crate) cursor: AtomicU32,
    reserved: [AtomicU64; 6],
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) launched: AtomicU64,
    pub(crate) retired: AtomicU64,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct Record {
    words: [AtomicU64; 16],
}

/// [`RequestPage`] through atomics.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) header: Header,
    pub(crate) counters: [Counters; TASK_SLOTS],
    ring: [Record; RING_SLOTS],
}

/// [`TaskCell`] through atomics; `words` are its bytes 8 to 64.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) sequence: AtomicU32,
    state: AtomicU32,
    words: [AtomicU64; 7],
}

/// [`ReplyPage`] through atomics.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Replies {
    pub(crate) header: Header,
    pub(crate) cells: [Cell; TASK_SLOTS],
    pub(crate) texts: [Text; TASK_SLOTS],
}

/// A cell's reason in words; belongs to the cell's seqlock.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Text {
    words: [AtomicU64; REASON_BYTES / 8],
}

const _: () = assert!(size_of::<Requests>() == size_of::<RequestPage>());
const _: () = assert!(size_of::<Replies>() == size_of::<ReplyPage>());
const _: () = assert!(size_of::<Record>() == size_of::<RequestRecord>());
const _: () = assert!(size_of::<Cell>() == size_of::<TaskCell>());
const _: () = assert!(std::mem::offset_of!(Replies, texts) == std::mem::offset_of!(ReplyPage, texts));
/// `Cell::words` index of the gate word.
const GATE_WORD: usize = (std::mem::offset_of!(TaskCell, gate) - 8) / 8;

/// `Cell::words` index of the word whose low half is `answered`.
const ANSWERED_WORD: usize = 0;
const _: () = assert!(std::mem::offset_of!(TaskCell, answered) == 8);

/// `Cell::words` index of the word whose high half is `flags` (and low half `class`).
const FLAGS_WORD: usize = (std::mem::offset_of!(TaskCell, class) - 8) / 8;
const _: () = assert!(std::mem::offset_of!(TaskCell, flags) == 8 + 8 * FLAGS_WORD + 4);

/// Why a page cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    #[error("the shared page has {bytes} bytes where {expected} are expected")]
    WrongSize { bytes: u64, expected: u64 },
    #[error("the shared page was never initialised")]
    NotInitialised,
    #[error("the shared page has version {major}.{minor}, this program needs {PROTOCOL_MAJOR}")]
    Version { major: u16, minor: u16 },
    #[error("the shared page cannot be mapped: {0}")]
    Map(Errno),
}

/// Types that may lie in shared memory: any bytes are a valid value, and every field is an atomic.
///
/// # Safety
/// Implement it only for `repr(C)` structs made of `AtomicU32` and `AtomicU64` without padding.
pub(crate) unsafe trait Shared {
    fn header(&self) -> &Header;
}

// SAFETY: `Requests` and `Replies` are `repr(C)`, hold atomics only, and the size asserts above leave no padding.
unsafe impl Shared for Requests {
    fn header(&self) -> &Header {
        &self.header
    }
}
// SAFETY: as for `Requests`.
unsafe impl Shared for Replies {
    fn header(&self) -> &Header {
        &self.header
    }
}

/// One page mapped shared; unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping<P: Shared> {
    page: NonNull<P>,
}

// SAFETY: the mapping is owned by this value alone and reached only through `&P`, whose fields are all atomics.
unsafe impl<P: Shared> Send for Mapping<P> {}
// SAFETY: as above; concurrent access through atomics is what they are for.
unsafe impl<P: Shared> Sync for Mapping<P> {}

impl<P: Shared> Mapping<P> {
    /// Maps the whole of `file`, which must have exactly the size of `P` (else later access could raise SIGBUS; the
    /// seals keep it so).
    pub(crate) fn new(file: BorrowedFd<'_>, writable: bool) -> Result<Self, PageError> {
        let expected = size_of::<P>() as u64;
        let bytes = nix::sys::stat::fstat(file).map_err(PageError::Map)?.st_size.unsigned_abs();
        if bytes != expected {
            return Err(PageError::WrongSize { bytes, expected });
        }
        let mut access = ProtFlags::PROT_READ;
        access.set(ProtFlags::PROT_WRITE, writable);
        // SAFETY: a fresh shared mapping at an address of the kernel's choice touches no existing memory; the file was
        // just seen to be as long as the mapping.
        let start = unsafe { mmap(None, length::<P>(), access, MapFlags::MAP_SHARED, file.as_fd(), 0) }
            .map_err(PageError::Map)?;
        Ok(Mapping { page: start.cast() })
    }

    /// Maps another file in the place of this one, at the same address: threads that read or write here go on, in the
    /// new file. Readers of a cell notice, because its sequence differs.
    pub(crate) fn replace(&self, file: BorrowedFd<'_>, writable: bool) -> Result<(), PageError> {
        // Checks the size, and that the file can be mapped at all, before the old one is given up.
        Mapping::<P>::new(file, writable)?;
        let mut access = ProtFlags::PROT_READ;
        access.set(ProtFlags::PROT_WRITE, writable);
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_FIXED;
        let start = self.page.addr();
        // SAFETY: the range is exactly the one that `new` mapped and this value owns. The kernel replaces it under its
        // lock, so that another thread's access meets the old file or the new one, both as long as the mapping; any
        // bytes are a valid `P`, and all access is through atomics.
        unsafe { mmap(Some(start), length::<P>(), access, flags, file, 0) }.map_err(PageError::Map)?;
        Ok(())
    }

    /// Writes the header; the magic word last, so that a half-made page is never taken for a whole one.
    pub(crate) fn publish_header(&self) {
        let header = self.header();
        header.version.store(version_word(), Ordering::Relaxed);
        header.bytes.store(length::<P>().get() as u32, Ordering::Relaxed);
        // Release: pairs with the acquire load of `magic` in `check_header`.
        header.magic.store(MAGIC, Ordering::Release);
    }

    /// Checks that this is a complete page of this protocol.
    pub(crate) fn check_header(&self) -> Result<(), PageError> {
        let header = self.header();
        // Acquire: pairs with the release store of `magic` in `publish_header`.
        if header.magic.load(Ordering::Acquire) != MAGIC {
            return Err(PageError::NotInitialised);
        }
        let version = header.version.load(Ordering::Relaxed).to_le_bytes();
        let (major, minor) =
            (u16::from_le_bytes([version[0], version[1]]), u16::from_le_bytes([version[2], version[3]]));
        if major != PROTOCOL_MAJOR {
            return Err(PageError::Version { major, minor });
        }
        let (bytes, expected) = (u64::from(header.bytes.load(Ordering::Relaxed)), size_of::<P>() as u64);
        if bytes != expected {
            return Err(PageError::WrongSize { bytes, expected });
        }
        Ok(())
    }
}

impl<P: Shared> Deref for Mapping<P> {
    type Target = P;

    fn deref(&self) -> &P {
        // SAFETY: `new` mapped at least `size_of::<P>()` readable bytes, page-aligned, for as long as `self` lives; any
        // bytes are a valid `P` and all its fields are atomics (`Shared`), so writes of the other process are no race.
        // A read-only mapping is only ever loaded from: the client's `Mapping<Replies>` has no caller that stores.
        unsafe { self.page.as_ref() }
    }
}

impl<P: Shared> Drop for Mapping<P> {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; no reference into it outlives `self`.
        // It can only fail for an invalid range, and a drop cannot report that.
        let _ = unsafe { munmap(self.page.cast(), length::<P>().get()) };
    }
}

fn length<P>() -> NonZeroUsize {
    const { NonZeroUsize::new(size_of::<P>()).expect("a page is not empty") }
}

fn version_word() -> u32 {
    u32::from(PROTOCOL_MAJOR) | (u32::from(PROTOCOL_MINOR) << 16)
}

impl Requests {
    /// The ring place of the record with this running number.
    fn place(&self, number: u32) -> &Record {
        &self.ring[number as usize % RING_SLOTS]
    }

    /// Client: fills a place that the daemon has consumed.
    pub(crate) fn fill(&self, number: u32, record: &RequestRecord) {
        let words: [u64; 16] = zerocopy::transmute!(*record);
        for (shared, word) in self.place(number).words.iter().zip(words) {
            shared.store(word, Ordering::Relaxed);
        }
    }

    /// Daemon: copies a record out, each word read once.
    pub(crate) fn copy(&self, number: u32) -> RequestRecord {
        let mut words = [0u64; 16];
        for (word, shared) in words.iter_mut().zip(&self.place(number).words) {
            *word = shared.load(Ordering::Relaxed);
        }
        zerocopy::transmute!(words)
    }
}

impl Cell {
    /// Daemon, before the page is shared: sequences count on from above `floor`.
    pub(crate) fn start_above(&self, floor: u32) {
        self.sequence.store(floor.wrapping_add(2) & !1, Ordering::Relaxed);
    }

    /// `answered` alone: one load, no seqlock.
    pub(crate) fn answered(&self) -> u32 {
        // Acquire: pairs with the release fence in `exchange::write`.
        self.words[ANSWERED_WORD].load(Ordering::Acquire) as u32
    }

    /// Daemon, the only writer: replaces the cell's value (`value.sequence` is ignored) and the text beside it.
    pub(crate) fn write(&self, value: &TaskCell, text: &Text, packed: [u8; REASON_BYTES]) {
        let words: [u64; 8] = zerocopy::transmute!(*value);
        exchange::write(&self.sequence, || {
            self.state.store(value.state, Ordering::Relaxed);
            for (shared, word) in self.words.iter().zip(&words[1..]) {
                shared.store(*word, Ordering::Relaxed);
            }
            text.store(packed);
        });
    }

    /// Tries once to read a consistent value: `Err(sequence)` when a write was under way or came between.
    pub(crate) fn read(&self) -> Result<TaskCell, u32> {
        exchange::read(&self.sequence, |sequence| {
            let mut words = [0u64; 8];
            let state = self.state.load(Ordering::Relaxed);
            for (word, shared) in words[1..].iter_mut().zip(&self.words) {
                *word = shared.load(Ordering::Relaxed);
            }
            let value: TaskCell = zerocopy::transmute!(words);
            TaskCell { sequence, state, ..value }
        })
    }

    /// Tries once to read the text beside the cell.
    pub(crate) fn read_text(&self, text: &Text) -> Result<[u8; REASON_BYTES], u32> {
        exchange::read(&self.sequence, |_| text.load())
    }

    /// The flags alone: one load, no seqlock.
    pub(crate) fn flags(&self) -> u32 {
        // SeqCst: comes after the counters that this thread has raised before, and pairs with the fence in
        // `ClientPages::counters`; also an acquire, which pairs with the release fence in `exchange::write`.
        (self.words[FLAGS_WORD].load(Ordering::SeqCst) >> 32) as u32
    }

    /// The gate word alone: one load, no seqlock.
    pub(crate) fn gate(&self) -> u64 {
        // Acquire: pairs with the release fence in `exchange::write` before the words are stored.
        self.words[GATE_WORD].load(Ordering::Acquire)
    }
}

impl Text {
    fn store(&self, packed: [u8; REASON_BYTES]) {
        let words: [u64; REASON_BYTES / 8] = zerocopy::transmute!(packed);
        for (shared, word) in self.words.iter().zip(words) {
            shared.store(word, Ordering::Relaxed);
        }
    }

    fn load(&self) -> [u8; REASON_BYTES] {
        let mut words = [0u64; REASON_BYTES / 8];
        for (word, shared) in words.iter_mut().zip(&self.words) {
            *word = shared.load(Ordering::Relaxed);
        }
        zerocopy::transmute!(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

    #[test]
    fn a_page_closed_to_writers_maps_read_only() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memfd");
        ftruncate(&file, size_of::<Replies>() as u64).expect("size");
        let daemon = Mapping::<Replies>::new(file.as_fd(), true).expect("the daemon's own mapping");
        fcntl_add_seals(&file, SealFlags::FUTURE_WRITE | SealFlags::SEAL).expect("seal");
        let writable = Mapping::<Replies>::new(file.as_fd(), true);
        assert_eq!(writable.expect_err("mapped writable"), PageError::Map(Errno::EPERM));
        let client = Mapping::<Replies>::new(file.as_fd(), false).expect("read-only");
        daemon.publish_header();
        assert_eq!(client.check_header(), Ok(()));
    }
}
