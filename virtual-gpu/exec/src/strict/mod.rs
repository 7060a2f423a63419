//! Strict mode: checks every access of a kernel that was compiled for it before the access happens.
//!
//! An access outside ends the launch like an illegal address. A read of uninitialised bytes is recorded for the
//! launching code, and the kernel continues. Trap: findings of a launch come in the order of its blocks, so one worker
//! must run all of them.

mod bits;
pub(crate) mod finding;
mod meeting;
pub(crate) mod memory;

use core::ffi::{CStr, c_char};
use core::ops::Range;

use crate::races::{BlockRaces, Checked, Detector};
use bits::Bits;
pub use finding::{Finding, Piece, Problem, SpaceKind, Way};
pub(crate) use meeting::Meetings;
pub use meeting::Parted;
pub use memory::{Known, Memory};

use crate::abi::{
    ACCESS_COPIES, ACCESS_OF_DYNAMIC, ACCESS_OF_OBJECT, ACCESS_READS, ACCESS_VOLATILE, ACCESS_WRITES,
    access_class,
};

/// Number of uninitialised reads kept for one launch, each of another place in the program.
const FINDINGS_MAX: usize = 100;

/// State of strict mode, shared by the launches of a process.
#[derive(Debug, Default)]
pub struct Strict {
    pub memory: Memory,
    pub races: Detector,
    /// Uninitialised reads since the last [`Strict::take_uninitialised`], the first of each place.
    uninitialised: Vec<Finding>,
}

impl Strict {
    pub fn with_races(races: Detector) -> Strict {
        Strict { races, ..Strict::default() }
    }

    pub fn take_uninitialised(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.uninitialised)
    }

    fn note(&mut self, finding: Finding) {
        let known = self.uninitialised.iter().any(|other| other.place == finding.place);
        if !known && self.uninitialised.len() < FINDINGS_MAX {
            self.uninitialised.push(finding);
        }
    }
}

/// Initialised bytes of a block's shared memory.
#[derive(Debug, Default)]
pub(crate) struct SharedBytes {
    written: Bits,
}

impl SharedBytes {
    pub fn new(bytes: u32) -> SharedBytes {
        SharedBytes { written: Bits::new(u64::from(bytes)) }
    }

    /// Called when a block starts.
    pub fn clear(&mut self) {
        self.written.clear();
    }
}

/// Memory that belongs to the accessing block and thread.
pub(crate) struct Own {
    pub block: [u32; 3],
    pub block_dim: [u32; 3],
    /// Shared memory of the program.
    pub shared: Range<u64>,
    /// Shared memory after it, used by CUDA's own headers.
    pub reserved: Range<u64>,
    /// The thread's stack in use, the frames of the block's threads, and memory shared by the blocks of a cooperative
    /// launch.
    pub local: [Range<u64>; 3],
}

impl Own {
    /// Index of the thread with this linear index.
    fn thread(&self, linear: u32) -> [u32; 3] {
        let [nx, ny, _] = self.block_dim.map(|n| n.max(1));
        [linear % nx, linear / nx % ny, linear / nx / ny]
    }
}

/// An access as the kernel reports it (`abi::Helpers::check`).
pub(crate) struct Access {
    pub thread: u32,
    pub address: u64,
    pub bytes: u64,
    /// Base from which the address was computed; 0: unknown.
    pub object: u64,
    /// Size of the base, if the flags say that it is an object of the program.
    pub object_bytes: u64,
    pub place: *const c_char,
    pub flags: u32,
}

impl Access {
    fn is(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    fn inside(&self, range: &Range<u64>) -> bool {
        range.contains(&self.address)
            && self.address.checked_add(self.bytes).is_some_and(|end| end <= range.end)
    }

    /// Checks the access; returns its first problem.
    fn problem(&self, strict: &mut Strict, shared_bytes: &mut SharedBytes, own: &Own) -> Result<(), Problem> {
        if self.bytes == 0 {
            return Ok(());
        }
        let align = 1 << (self.flags >> access_class::ALIGN_SHIFT & 0xff);
        if !self.address.is_multiple_of(align) {
            return Err(Problem::Misaligned(align));
        }
        if self.is(ACCESS_OF_OBJECT) {
            self.within_object(strict, own)?;
        }
        if self.inside(&own.shared) {
            return self.value_in_shared(shared_bytes, own);
        }
        if self.is(ACCESS_OF_OBJECT) {
            return Ok(());
        }
        let reads = self.is(ACCESS_READS) && !self.is(ACCESS_COPIES);
        if let Some(verdict) =
            strict.memory.judge(self.object, self.address, self.bytes, reads, self.is(ACCESS_WRITES))
        {
            return verdict;
        }
        if self.inside(&own.reserved) || own.local.iter().any(|range| self.inside(range)) {
            return Ok(());
        }
        let shared = own.shared.contains(&self.address) || self.class() == access_class::SHARED;
        let nearest = if shared { Some(piece(&own.shared, SpaceKind::Shared)) } else { None };
        Err(Problem::Outside(nearest.or_else(|| strict.memory.nearest(self.address))))
    }

    fn class(&self) -> u32 {
        self.flags >> access_class::SHIFT & 0xf
    }

    /// Checks that the access stays in the variable or array that it names.
    fn within_object(&self, strict: &Strict, own: &Own) -> Result<(), Problem> {
        let end = if self.is(ACCESS_OF_DYNAMIC) { own.shared.end } else { self.object + self.object_bytes };
        let object = self.object..end;
        if self.inside(&object) {
            return Ok(());
        }
        let kind = match self.class() {
            access_class::SHARED => SpaceKind::Shared,
            access_class::LOCAL => SpaceKind::Local,
            _ => strict.memory.kind_at(self.object).unwrap_or(SpaceKind::Device),
        };
        Err(Problem::Outside(Some(piece(&object, kind))))
    }

    fn value_in_shared(&self, shared_bytes: &mut SharedBytes, own: &Own) -> Result<(), Problem> {
        let (offset, reads) =
            (self.address - own.shared.start, self.is(ACCESS_READS) && !self.is(ACCESS_COPIES));
        let unknown = reads && !shared_bytes.written.contains(offset, self.bytes);
        if unknown || self.is(ACCESS_WRITES) {
            shared_bytes.written.insert(offset, self.bytes);
        }
        if unknown { Err(Problem::Uninitialised(piece(&own.shared, SpaceKind::Shared))) } else { Ok(()) }
    }

    /// If the thread continues after a barrier at which another thread waited in another place: both.
    pub fn parted(&self, meetings: &mut Meetings, own: &Own) -> Option<Parted> {
        if self.event() != access_class::EVENT_BARRIER {
            return None;
        }
        let (other, place) = meetings.passes(self.thread, self.place as usize)?;
        let threads = [self.thread, other].map(|thread| own.thread(thread));
        let places = [self.place, place as *const c_char].map(text);
        (places[0] != places[1]).then_some(Parted { block: own.block, threads, places })
    }

    fn event(&self) -> u32 {
        self.flags >> access_class::EVENT_SHIFT & 0xf
    }

    fn finding(&self, problem: Problem, own: &Own) -> Finding {
        let way = match (self.is(ACCESS_READS), self.is(ACCESS_WRITES)) {
            (true, true) => Way::Updates,
            (false, true) => Way::Writes,
            _ => Way::Reads,
        };
        Finding {
            problem,
            way,
            address: self.address,
            bytes: self.bytes,
            block: own.block,
            thread: own.thread(self.thread),
            place: text(self.place),
        }
    }
}

fn text(place: *const c_char) -> String {
    // SAFETY: the place is a constant text of the program, NUL-terminated, or null.
    let text = if place.is_null() { c"" } else { unsafe { CStr::from_ptr(place) } };
    text.to_string_lossy().into_owned()
}

fn piece(range: &Range<u64>, kind: SpaceKind) -> Piece {
    Piece { start: range.start, bytes: range.end.saturating_sub(range.start), kind, released: false }
}

/// Passes a valid access, or an event that orders threads, to the race detector.
pub(crate) fn look_for_races(access: &Access, strict: &mut Strict, races: &mut BlockRaces, own: &Own) {
    let Strict { memory, races: detector, .. } = strict;
    match access.event() {
        access_class::EVENT_BARRIER => return detector.passes_barrier(races, access.thread),
        access_class::EVENT_FENCE => return detector.fence(races, access.thread),
        _ => {}
    }
    let checked = Checked {
        thread: access.thread,
        address: access.address,
        bytes: access.bytes,
        place: access.place,
        reads: access.is(ACCESS_READS),
        writes: access.is(ACCESS_WRITES),
        is_volatile: access.is(ACCESS_VOLATILE),
    };
    let [stack, frames, workspace] = &own.local;
    let private = [stack, frames, workspace, &own.reserved];
    detector.look(races, &checked, &own.shared, &private, memory);
}

/// Checks an access; returns a finding only if it ends the launch.
pub(crate) fn examine(
    access: &Access,
    strict: &mut Strict,
    shared_bytes: &mut SharedBytes,
    own: &Own,
) -> Option<Finding> {
    let problem = access.problem(strict, shared_bytes, own).err()?;
    let goes_on = matches!(problem, Problem::Uninitialised(_));
    let finding = access.finding(problem, own);
    if goes_on {
        strict.note(finding);
        return None;
    }
    Some(finding)
}
