//! Strict mode: keeps its books in step with the program's allocations, copies and launches, and reports its findings.
//!
//! Trap: a kernel compiled without checks writes unseen, so after such a kernel every byte must count as written.

use std::collections::BTreeSet;

use eager_exec::races::{Detector, Distance, Races};
use eager_exec::strict::{Known, SpaceKind, Strict};
use eager_gpu_model::AllocKind;
use parking_lot::Mutex;

use crate::config::{RACE_MEMORY_VARIABLE, RacePolicy, RaceSearch};
use crate::kernel::{CpuKernel, some_kernel_checks, variables};
use crate::log::log_line;
use crate::memory::{Access, Allocation, Kind, Memory, protect};
use crate::names::readable;
use crate::status::Code;
use crate::transfer::{Extent, Region};

/// State of strict mode in this process.
#[derive(Debug)]
pub struct StrictMode {
    books: Mutex<Strict>,
    /// True if a launch whose threads race fails.
    fails: bool,
    counts: Mutex<Counts>,
    /// Kernel and place of each report made, so that it is made once.
    reported: Mutex<BTreeSet<(&'static str, String)>>,
    /// Device memory (address, bytes) that is inaccessible at present.
    closed: Mutex<Vec<(u64, u64)>>,
}

impl StrictMode {
    /// Turns strict mode on as the user wants; by default if some kernel was compiled for it.
    pub fn new(wanted: Option<bool>, races: RaceSearch) -> Option<StrictMode> {
        let bound = (races.policy != RacePolicy::Off).then_some(races.memory_bytes);
        wanted.unwrap_or_else(some_kernel_checks).then(|| StrictMode {
            books: Mutex::new(Strict::with_races(Detector::new(bound))),
            fails: races.policy == RacePolicy::Error,
            counts: Mutex::default(),
            reported: Mutex::default(),
            closed: Mutex::default(),
        })
    }

    /// Updates the books before a launch. Returns them if the kernel was compiled with checks.
    pub fn before_launch(&self, kernel: &CpuKernel, memory: &Mutex<Memory>) -> Option<&Mutex<Strict>> {
        self.update(memory);
        if kernel.checks() {
            return Some(&self.books);
        }
        if self.reported.lock().insert((kernel.name, String::new())) {
            let name = readable(kernel.name);
            log_line(format_args!(
                "strict: kernel {name} is not checked: compile its file with --eager-strict"
            ));
        }
        self.books.lock().memory.initialise_all();
        None
    }

    /// Reports a launch's reads of memory that was never written, and its races.
    ///
    /// # Errors
    /// The launch fails because of its races.
    pub fn after_launch(&self, kernel: &'static str) -> Result<(), Code> {
        let (findings, races) = {
            let mut books = self.books.lock();
            (books.take_uninitialised(), books.races.take())
        };
        self.counts.lock().errors += findings.len() as u64;
        let failed = self.report_races(kernel, &races);
        for finding in findings {
            if self.reported.lock().insert((kernel, finding.place.clone())) {
                log_line(format_args!("kernel {}: {finding}", readable(kernel)));
            }
        }
        if failed { Err(Code::cudaErrorLaunchFailure) } else { Ok(()) }
    }

    /// Counts a launch that an invalid access has ended.
    pub fn count_failed_launch(&self) {
        self.counts.lock().errors += 1;
    }

    /// Logs the number of findings so far; true if there are errors.
    pub fn report_totals(&self) -> bool {
        let Counts { errors, warnings } = *self.counts.lock();
        let plural = |count| if count == 1 { "" } else { "s" };
        if errors + warnings > 0 {
            let (one, other) = (plural(errors), plural(warnings));
            log_line(format_args!("strict: {errors} error{one}, {warnings} warning{other}"));
        }
        errors > 0
    }

    /// Reports races; true if the launch fails because of one.
    fn report_races(&self, kernel: &str, races: &Races) -> bool {
        let name = readable(kernel);
        let mut counts = self.counts.lock();
        let mut failed = false;
        for race in &races.races {
            let is_error = race.distance != Distance::SameWarp && self.fails;
            failed |= is_error;
            *(if is_error { &mut counts.errors } else { &mut counts.warnings }) += 1 + race.more;
            log_line(format_args!("{}{}", if is_error { "" } else { "warning: " }, race.report(&name)));
        }
        if races.left_out > 0 {
            counts.warnings += races.left_out;
            log_line(format_args!(
                "kernel {name}: {} more races at other lines are not shown",
                races.left_out
            ));
        }
        let first = |what| self.reported.lock().insert((what, String::new()));
        if let Some(race) = races.equal.as_ref().filter(|_| first("equal values")) {
            let (one, other) = (&race.earlier.place, &race.later.place);
            log_line(format_args!(
                "note: threads of kernel {name} store equal values in the same memory at {one} and {other}; this is not an error \
                 (reported once)"
            ));
        }
        if races.unwatched_bytes > 0 && first("memory") {
            log_line(format_args!(
                "strict: part of the memory that kernel {name} uses is not checked for races: the check would need more than \
                 {RACE_MEMORY_VARIABLE} allows (reported once)"
            ));
        }
        failed
    }

    /// Records that a copy or a fill has written a block.
    pub fn wrote(&self, memory: &Mutex<Memory>, to: Region, extent: Extent) {
        self.update(memory);
        let books = &mut self.books.lock().memory;
        to.rows(extent).for_each(|row| books.initialise(row, extent.width));
    }

    /// Makes device memory inaccessible while no work is left: any use is then the host's, and its fault is reported.
    pub fn close(&self, memory: &Mutex<Memory>) {
        let memory = memory.lock();
        let is_closed = |found: &&Allocation| {
            let is_device = matches!(found.kind, Kind::Modelled { kind: AllocKind::Device, .. });
            is_device && !memory.virtual_memory.is_mapped(found.address)
        };
        let mut closed = self.closed.lock();
        for found in memory.table.iter().filter(is_closed) {
            // SAFETY: the allocation is of the arena, which returns whole pages. Nothing of this library uses it until
            // `open`.
            if unsafe { protect(found.address, found.bytes, Access::Nothing) }.is_ok() {
                closed.push((found.address, found.bytes));
            }
        }
    }

    /// Makes device memory accessible again, before work begins or memory is freed.
    pub fn open(&self) {
        for (address, bytes) in self.closed.lock().drain(..) {
            // SAFETY: as in `close`; the arena's memory may be used again.
            if let Err(e) = unsafe { protect(address, bytes, Access::ReadWrite) } {
                log_line(format_args!("strict: cannot make device memory accessible again: {e}"));
            }
        }
    }

    fn update(&self, memory: &Mutex<Memory>) {
        let mut known: Vec<Known> = {
            let memory = memory.lock();
            memory.table.iter().map(|allocation| known(allocation, &memory)).collect()
        };
        known.extend(variables().into_iter().map(|(name, place)| Known {
            start: place.address,
            bytes: place.bytes,
            kind: SpaceKind::Variable(name),
            identity: 0,
        }));
        self.books.lock().memory.update(known);
    }
}

/// Number of findings of the process so far.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    errors: u64,
    warnings: u64,
}

fn known(allocation: &Allocation, memory: &Memory) -> Known {
    let Allocation { address: start, bytes, .. } = *allocation;
    let (kind, identity) = match allocation.kind {
        Kind::Pinned { .. } => (SpaceKind::Pinned, 0),
        Kind::Modelled { alloc, .. } if memory.virtual_memory.is_mapped(start) => {
            (SpaceKind::Mapped, alloc.0)
        }
        Kind::Modelled { alloc, kind: AllocKind::Managed } => (SpaceKind::Managed, alloc.0),
        Kind::Modelled { alloc, kind: AllocKind::Device } => (SpaceKind::Device, alloc.0),
    };
    Known { start, bytes, kind, identity }
}
