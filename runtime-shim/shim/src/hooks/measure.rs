//! Measuring footprints on any GPU (eager launch specification §7.1): before each kernel all its program's pages are on the
//! host, and what is free on the device before and after it is read. The difference is what the kernel touched.
//!
//! Traps: every allocation is managed memory then, and their sum must never exceed what the device has free, since a real
//! device may hang over it; such an allocation fails. Kernels run one at a time, so nothing else may use the device
//! meanwhile. What is recorded into a graph is not measured.

use crate::addresses::MANAGED_GRANULARITY;
use crate::buffers;
use crate::measure::{Launched, Measurement};
use crate::outcome::{Outcome, Why};
use crate::runtime::{CudaError, CudaResult, Launch, Runtime, Span};
use crate::scheduler::Scheduler;
use crate::shim::Shim;
use crate::voice::size_text;
use parking_lot::MutexGuard;

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
        if held.saturating_add(bytes) > room {
            let (wanted, room) = (size_text(held.saturating_add(bytes)), size_text(room));
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
        let before = self.runtime.free_bytes()?;
        self.runtime.launch(launch)?;
        self.runtime.device_synchronize()?;
        let after = self.runtime.free_bytes()?;
        if after > before {
            self.voice.once("measure-alone", || {
                "memory of the device was freed while a kernel ran: another program uses it, and footprints are wrong"
                    .to_owned()
            });
        }
        if let Some(mut measurement) = self.measurement() {
            measurement.note(launched, before.saturating_sub(after).min(most(spans)));
        }
        Ok(())
    }
}

/// What the buffers can take of a device in all. More is not theirs: at its first launch a kernel may bring code, stacks or a
/// heap with it.
fn most(spans: &[Span]) -> u64 {
    let whole = |span: &Span| span.bytes.div_ceil(MANAGED_GRANULARITY).saturating_mul(MANAGED_GRANULARITY);
    spans.iter().map(whole).fold(0, u64::saturating_add)
}
