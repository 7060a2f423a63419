//! Measuring footprints on any GPU (specification S-219): before each kernel all its program's pages are on the
//! host, and what is free on the device before and after it is read. The difference is what the kernel touched, read at
//! edges ([`Edge`]) because the driver rounds.
//!
//! Traps: every allocation is managed memory then, and their sum must never exceed what the device has free, since a real
//! device may hang over it; such an allocation fails. Kernels run one at a time, so nothing else may use the device
//! meanwhile. What is recorded into a graph is not measured.

use super::memory::ATTACH_GLOBAL;
use crate::addresses::MANAGED_GRANULARITY;
use crate::buffers;
use crate::measure::{Edge, Launched, Measurement};
use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaError, CudaResult, Launch, Runtime, Span};
use crate::scheduler::Scheduler;
use crate::shim::Shim;
use eager_units::shown;
use parking_lot::MutexGuard;

/// Of the filler: more than the driver takes at once, twice, for an edge before the kernel and one behind it.
const FILLER_BYTES: u64 = 160 * MANAGED_GRANULARITY;
/// The part of the device's free memory that it may take.
const FILLER_PART: u64 = 8;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// `None`: nothing is measured in this run.
    pub(crate) fn measurement(&self) -> Option<MutexGuard<'_, Measurement>> {
        self.measuring.as_ref().map(|measuring| measuring.lock())
    }

    /// An allocation of the program, of whatever kind.
    pub(crate) fn malloc_measured(&self, bytes: u64, flags: u32) -> CudaResult<u64> {
        let Some(mut measurement) = self.measurement() else { return Err(CudaError::INITIALIZATION) };
        let room = match measurement.room {
            Some(room) => room,
            None => *measurement.room.insert(self.runtime.free_bytes()?),
        };
        let held = measurement.held();
        if held.saturating_add(bytes).saturating_add(filler_bytes(room)) > room {
            let (wanted, room) = (shown::size(held.saturating_add(bytes)), shown::size(room));
            self.voice.once("measure-room", || {
                format!("the program wants {wanted}, and {room} were free at its start: footprints are measured of programs that fit")
            });
            self.runtime.provoke_out_of_memory();
            return Err(CudaError::MEMORY_ALLOCATION);
        }
        let start = self.runtime.malloc_managed(bytes, flags)?;
        measurement.allocated(Span { start, bytes });
        Ok(start)
    }

    /// `None`: not what was allocated so.
    pub(crate) fn free_measured(&self, address: u64) -> Option<CudaResult<()>> {
        self.measurement()?.freed(address)?;
        // Also for frees in the order of a stream, which managed memory does not know.
        Some(self.runtime.device_synchronize().and_then(|()| self.runtime.free(address)))
    }

    /// `None`: nothing is measured, or not this launch.
    pub(crate) fn launch_measured(&self, launch: &Launch) -> Option<Outcome<()>> {
        let spans: Vec<Span> = self.measurement()?.buffers().collect();
        if self.runtime.stream_is_capturing(launch.stream) {
            return Some(Outcome::PassThrough(Why::Captured));
        }
        let Some(launched) = self.launched(launch) else { return Some(Outcome::PassThrough(Why::NotOurs)) };
        Some(self.footprint(launch, &spans, launched).into())
    }

    /// What the profile will say of a launch besides its footprint.
    fn launched(&self, launch: &Launch) -> Option<Launched> {
        let program = self.program.read();
        let kernel = program.kernel(launch.stub)?;
        let words = self.runtime.argument_words(launch.args, &kernel.argument_sizes);
        let flags = buffers::flags_by_word(&kernel.argument_sizes, &kernel.argument_flags, words.len());
        let measurement = self.measurement()?;
        let buffer = |&word: &u64| measurement.find(word).map(|span| (span.start, span.bytes));
        let used = buffers::used(words.iter().map(buffer).zip(flags));
        Some(Launched { kernel: kernel.name.clone(), used })
    }

    fn footprint(&self, launch: &Launch, spans: &[Span], launched: Launched) -> CudaResult<()> {
        self.runtime.device_synchronize()?;
        spans.iter().try_for_each(|&span| self.runtime.move_to_host(span))?;
        let room = self.measurement().and_then(|measurement| measurement.room).unwrap_or_default();
        let bytes = filler_bytes(room);
        let start = self.runtime.malloc_managed(bytes + MANAGED_GRANULARITY, ATTACH_GLOBAL)?;
        let mut filler = Span { start: start.next_multiple_of(MANAGED_GRANULARITY), bytes };
        let taken = self.taken_by(launch, &mut filler);
        self.runtime.free(start)?;
        let taken = taken?.unwrap_or(launched.used.bytes);
        if let Some(mut measurement) = self.measurement() {
            measurement.note(launched, taken.min(most(spans)));
        }
        Ok(())
    }

    /// What a launch takes of the device; `None`: it cannot be told, and the reason is said.
    fn taken_by(&self, launch: &Launch, filler: &mut Span) -> CudaResult<Option<u64>> {
        let before = self.edge(filler)?;
        self.runtime.launch(launch)?;
        self.runtime.device_synchronize()?;
        let edges = before.zip(self.edge(filler)?);
        if edges.is_none() {
            self.voice.once("measure-edge", || {
                "the driver takes the device's memory in too large pieces: footprints are static sizes"
                    .to_owned()
            });
        }
        let taken = edges.map(|(before, after)| after.taken_since(before));
        if taken == Some(None) {
            self.voice.once("measure-alone", || {
                "memory of the device was freed while a kernel ran: another program uses it, and footprints are wrong"
                    .to_owned()
            });
        }
        Ok(taken.map(Option::unwrap_or_default))
    }

    /// Moves filler to the device, block by block, until the driver takes more of it; `None`: it did not, for all that there
    /// is. What was moved is filler no more.
    fn edge(&self, filler: &mut Span) -> CudaResult<Option<Edge>> {
        let (before, all) = (self.runtime.free_bytes()?, filler.bytes);
        while filler.bytes >= MANAGED_GRANULARITY {
            self.runtime.move_to_device(Span { start: filler.start, bytes: MANAGED_GRANULARITY })?;
            filler.start += MANAGED_GRANULARITY;
            filler.bytes -= MANAGED_GRANULARITY;
            let free = self.runtime.free_bytes()?;
            if free != before {
                return Ok(Some(Edge { free, filler: all - filler.bytes }));
            }
        }
        Ok(None)
    }
}

/// Of a device with so much room.
fn filler_bytes(room: u64) -> u64 {
    (room / FILLER_PART).min(FILLER_BYTES)
}

/// What the buffers can take of a device in all. More is not theirs: at its first launch a kernel may bring code, stacks or a
/// heap with it.
fn most(spans: &[Span]) -> u64 {
    let whole = |span: &Span| span.bytes.div_ceil(MANAGED_GRANULARITY).saturating_mul(MANAGED_GRANULARITY);
    spans.iter().map(whole).fold(0, u64::saturating_add)
}
