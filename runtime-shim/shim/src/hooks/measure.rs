//! Measures footprints on any GPU (specification S-219). Before each kernel all pages of the program are moved to the
//! host. On a real GPU the kernel touched the blocks whose pages have left the host afterwards. Where pages do not
//! show that, as on a virtual GPU, the footprint is the decrease of the device's free memory, read at edges
//! ([`Edge`]) because a driver rounds.
//!
//! Traps: every allocation is managed memory then, and their sum must never exceed the device's free memory, since a
//! real device may hang otherwise; such an allocation fails. Kernels run one at a time, so no other program may use
//! the device meanwhile. Work recorded into a graph is not measured.

use super::memory::ATTACH_GLOBAL;
use crate::addresses::MANAGED_GRANULARITY;
use crate::buffers;
use crate::measure::{Edge, Launched, Measurement, MeasuringSetup};
use crate::outcome::{Outcome, Why};
use crate::pages::Pages;
use crate::profile::Method;
use crate::runtime::{CudaError, CudaResult, Launch, Runtime, Span};
use crate::scheduler::Scheduler;
use crate::shim::Shim;
use eager_units::shown;
use parking_lot::MutexGuard;

/// Most bytes of the filler: more than twice what the driver takes at once, for an edge before the kernel and one
/// after it.
const FILLER_BYTES: u64 = 160 * MANAGED_GRANULARITY;
/// The filler takes at most the device's free memory divided by this.
const FILLER_PART: u64 = 8;
/// Unused memory after buffers, which gives small buffers blocks of their own, is at most the free memory divided by
/// this.
const PADDING_PART: u64 = 64;

impl<R: Runtime, S: Scheduler> Shim<R, S> {
    /// The measurement of this run; `None`: nothing is measured.
    pub(crate) fn measurement(&self) -> Option<MutexGuard<'_, Measurement>> {
        self.measuring.as_ref().map(|measuring| measuring.lock())
    }

    /// Makes any allocation of the program as managed memory.
    pub(crate) fn malloc_measured(&self, bytes: u64, flags: u32) -> CudaResult<u64> {
        let MeasuringSetup { free_bytes, method } = self.measuring_setup()?;
        let Some(mut measurement) = self.measurement() else { return Err(CudaError::INITIALIZATION) };
        let held = measurement.held();
        if held.saturating_add(bytes).saturating_add(own_bytes(free_bytes)) > free_bytes {
            let (wanted, free_bytes) = (shown::size(held.saturating_add(bytes)), shown::size(free_bytes));
            self.reporter.report_once("measure-full", || {
                format!("the program needs {wanted}, and {free_bytes} were free at its start: footprints can be measured only for programs that fit")
            });
            self.runtime.provoke_out_of_memory();
            return Err(CudaError::MEMORY_ALLOCATION);
        }
        // Small managed buffers would share blocks, and their pages would move together.
        let behind = bytes.next_multiple_of(MANAGED_GRANULARITY) - bytes;
        let may_pad = method == Method::Pages && measurement.padding() + behind <= padding_bytes(free_bytes);
        let padding = if may_pad { behind } else { 0 };
        let start = self.runtime.malloc_managed(bytes + padding, flags)?;
        measurement.allocated(Span { start, bytes }, padding);
        Ok(start)
    }

    /// Frees what [`malloc_measured`](Self::malloc_measured) allocated; `None`: the address is not of that kind.
    pub(crate) fn free_measured(&self, address: u64) -> Option<CudaResult<()>> {
        self.measurement()?.freed(address)?;
        // Waits also for frees in stream order, which managed memory does not support.
        Some(self.runtime.device_synchronize().and_then(|()| self.runtime.free(address)))
    }

    /// Ignores the program's advice on managed memory while footprints are measured: pages that a kernel uses in
    /// place would not be seen.
    pub(crate) fn advised(&self, outcome: Outcome<()>) -> Outcome<()> {
        if self.measuring.is_some() { Outcome::Handled(()) } else { outcome }
    }

    /// Measures a launch; `None`: nothing is measured in this run.
    pub(crate) fn launch_measured(&self, launch: &Launch) -> Option<Outcome<()>> {
        let spans: Vec<Span> = self.measurement()?.buffers().collect();
        if self.runtime.stream_is_capturing(launch.stream) {
            return Some(Outcome::PassThrough(Why::Captured));
        }
        let Some(launched) = self.launched(launch) else { return Some(Outcome::PassThrough(Why::NotOurs)) };
        Some(self.footprint(launch, &spans, launched).into())
    }

    /// The launch's entries in the profile besides its footprint.
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
        let MeasuringSetup { free_bytes, method } = self.measuring_setup()?;
        spans.iter().try_for_each(|&span| self.runtime.move_to_host(span))?;
        let taken = match method {
            Method::Pages => self.sent_by(launch, spans)?,
            Method::FreeMemory => self.with_filler(free_bytes, |filler| self.taken_by(launch, filler))?,
            Method::None => self.run(launch).map(|()| None)?,
        };
        let taken = taken.unwrap_or(launched.used.bytes);
        if let Some(mut measurement) = self.measurement() {
            measurement.note(launched, taken.min(most(spans)));
        }
        Ok(())
    }

    fn run(&self, launch: &Launch) -> CudaResult<()> {
        self.runtime.launch(launch)?;
        self.runtime.device_synchronize()
    }

    /// How this device's driver shows what kernels touch, tried with the shim's own memory before the program has
    /// any.
    fn measuring_setup(&self) -> CudaResult<MeasuringSetup> {
        if let Some(known) = self.measurement().and_then(|measurement| measurement.setup) {
            return Ok(known);
        }
        let free_bytes = self.runtime.free_bytes()?;
        let method = match () {
            () if self.with_filler(free_bytes, |filler| self.pages_follow(*filler))? => Method::Pages,
            () if self.with_filler(free_bytes, |filler| self.free_memory_follows(filler))? => {
                Method::FreeMemory
            }
            () => Method::None,
        };
        if method == Method::None {
            self.report_unmeasurable();
        }
        let found = MeasuringSetup { free_bytes, method };
        // Another thread may have been first.
        Ok(self.measurement().map_or(found, |mut measurement| *measurement.setup.get_or_insert(found)))
    }

    fn report_unmeasurable(&self) {
        self.reporter.report_once("measure-unknown", || {
            "neither host pages nor free device memory show what a kernel touched: footprints are static sizes"
                .to_owned()
        });
    }

    /// True if exactly the pages that move to the device are unmapped for the CPU. A virtual GPU unmaps more.
    fn pages_follow(&self, filler: Span) -> CudaResult<bool> {
        let block =
            |index| Span { start: filler.start + index * MANAGED_GRANULARITY, bytes: MANAGED_GRANULARITY };
        let (sent, stays) = (block(0), block(1));
        let both = Span { bytes: 2 * MANAGED_GRANULARITY, ..sent };
        if filler.bytes < both.bytes {
            return Ok(false);
        }
        let is =
            |span, state: fn(&Pages) -> bool| self.runtime.pages(span).is_some_and(|pages| state(&pages));
        for _ in 0..2 {
            self.runtime.move_to_host(both)?;
            self.runtime.read_on_host(both);
            if !is(both, Pages::all_mapped) {
                return Ok(false);
            }
            self.runtime.move_to_device(sent)?;
            if !(is(sent, Pages::none_mapped) && is(stays, Pages::all_mapped)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if the driver frees device memory when the pages in it move to the host.
    fn free_memory_follows(&self, filler: &mut Span) -> CudaResult<bool> {
        let all = *filler;
        let Some(edge) = self.edge(filler)? else { return Ok(false) };
        self.runtime.move_to_host(all)?;
        Ok(self.runtime.free_bytes()? > edge.free)
    }

    /// Bytes of the blocks whose pages a launch moves to the device; `None`: unknown, which is reported.
    fn sent_by(&self, launch: &Launch, spans: &[Span]) -> CudaResult<Option<u64>> {
        spans.iter().for_each(|&span| self.runtime.read_on_host(span));
        self.run(launch)?;
        let away = |&span: &Span| self.runtime.pages(span).map(|pages| pages.bytes_away());
        let sent: Option<u64> = spans.iter().map(away).sum();
        if sent.is_none() {
            self.report_unmeasurable();
        }
        Ok(sent)
    }

    /// Calls `work` with memory of the shim's own, of which nothing is on the device.
    fn with_filler<T>(
        &self,
        free_bytes: u64,
        work: impl FnOnce(&mut Span) -> CudaResult<T>,
    ) -> CudaResult<T> {
        let bytes = filler_bytes(free_bytes);
        let start = self.runtime.malloc_managed(bytes + MANAGED_GRANULARITY, ATTACH_GLOBAL)?;
        let done = work(&mut Span { start: start.next_multiple_of(MANAGED_GRANULARITY), bytes });
        self.runtime.free(start)?;
        done
    }

    /// Bytes of device memory that a launch takes; `None`: unknown, which is reported.
    fn taken_by(&self, launch: &Launch, filler: &mut Span) -> CudaResult<Option<u64>> {
        let before = self.edge(filler)?;
        self.run(launch)?;
        let edges = before.zip(self.edge(filler)?);
        if edges.is_none() {
            self.report_unmeasurable();
        }
        let taken = edges.map(|(before, after)| after.taken_since(before));
        if taken == Some(None) {
            self.reporter.report_once("measure-alone", || {
                "memory of the device was freed while a kernel ran: another program uses it, and footprints are wrong"
                    .to_owned()
            });
        }
        Ok(taken.map(Option::unwrap_or_default))
    }

    /// Moves filler to the device, block by block, until the driver takes more device memory; `None`: it took no more
    /// for all of the filler. Blocks that were moved are removed from the filler.
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

/// Bytes that the shim itself may take of a device with this many free bytes.
fn own_bytes(free_bytes: u64) -> u64 {
    filler_bytes(free_bytes) + padding_bytes(free_bytes)
}

/// Most bytes of padding on a device with this many free bytes.
fn padding_bytes(free_bytes: u64) -> u64 {
    free_bytes / PADDING_PART
}

/// Bytes of the filler on a device with this many free bytes.
fn filler_bytes(free_bytes: u64) -> u64 {
    (free_bytes / FILLER_PART).min(FILLER_BYTES)
}

/// Most bytes that the buffers can take of a device. More is not theirs: at its first launch a kernel may load code,
/// stacks or a heap.
fn most(spans: &[Span]) -> u64 {
    let whole = |span: &Span| span.bytes.div_ceil(MANAGED_GRANULARITY).saturating_mul(MANAGED_GRANULARITY);
    spans.iter().map(whole).fold(0, u64::saturating_add)
}
