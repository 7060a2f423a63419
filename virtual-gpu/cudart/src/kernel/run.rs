//! Runs a launch on the CPU, and derives the operation for the model.
//!
//! Trap: the touch map covers all devices' memory of the process, so launches of one process must run one after the
//! other, whatever their streams; they overlap only in modelled time.

use core::ops::Range;
use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

use eager_exec::abi::RECORDS_TOUCHES;
use eager_exec::image::Objects;
use eager_exec::strict::Strict;
use eager_exec::{Executor, LaunchCost, LaunchFailure, TouchMap};
use eager_gpu_model::{Kernel, Op};
use parking_lot::Mutex;

use super::accesses::{Blocks, Touched, TouchedBlock, by_allocation, model_accesses};
use super::args::CapturedArgs;
use super::check::Shape;
use super::host_pointer::{HostPointerFinder, is_devices};
use super::profile::{LaunchSample, Profile};
use super::registry::CpuKernel;
use super::slow_kernel::SlowKernelWatch;
use crate::log::log_line;
use crate::memory::{Allocation, Memory, Modelled};
use crate::names::readable;
use crate::trace;

/// A launch with everything it needs to run later.
#[derive(Debug)]
pub struct Launch {
    /// Address of the host stub, which is the program's name for the kernel.
    pub stub: usize,
    pub kernel: CpuKernel,
    pub shape: Shape,
    pub args: CapturedArgs,
    pub device: u32,
    pub priority: i32,
    /// All blocks run concurrently, so that they may wait for each other.
    pub cooperative: bool,
    /// Blocks of a cluster in x, y, z; ones for no cluster.
    pub cluster: [u32; 3],
}

/// Executor and touch map, used by one launch at a time.
#[derive(Debug)]
pub struct Compute {
    executor: Executor,
    arena_base: u64,
    /// Shift of the model's block size.
    block_shift: u32,
    /// Shift of the touch map's block size: that of the model, or smaller if a profile is wanted.
    touch_shift: u32,
    /// Covers all allocations of the last recorded launch; remade when their end moves.
    touch: Option<TouchMap>,
    /// Most processor time that a thread may spend on a launch.
    time_max: Option<Duration>,
    slow_kernel: SlowKernelWatch,
    host_pointers: HostPointerFinder,
    /// Kernels whose threads were reported to wait at barriers in different places.
    parted: BTreeSet<&'static str>,
}

/// Limits on the time of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimits {
    /// Processor time of one thread after which the launch fails.
    pub most: Option<Duration>,
    /// Time after which the kernel is reported.
    pub slow_after: Option<Duration>,
}

/// State that a launch uses besides its arguments.
#[derive(Debug, Clone, Copy)]
pub struct LaunchContext<'a> {
    /// Texture and surface objects.
    pub objects: &'a Objects,
    /// Books of strict mode, for a kernel with checks.
    pub strict: Option<&'a Mutex<Strict>>,
    pub memory: &'a Mutex<Memory>,
}

/// Sizes of memory blocks, as log2 of bytes.
#[derive(Debug, Clone, Copy)]
pub struct BlockSizes {
    pub modelled: u32,
    /// Block size of the touch map.
    pub touched: u32,
}

impl Compute {
    /// # Errors
    /// The system refuses a thread.
    pub fn new(
        workers: NonZeroUsize,
        arena: Range<u64>,
        blocks: BlockSizes,
        limits: TimeLimits,
    ) -> io::Result<Compute> {
        let executor = Executor::new(workers)?;
        let slow_kernel = SlowKernelWatch::start(limits.slow_after, executor.waiting_at())?;
        Ok(Compute {
            executor,
            arena_base: arena.start,
            block_shift: blocks.modelled,
            touch_shift: blocks.touched,
            touch: None,
            time_max: limits.most,
            slow_kernel,
            host_pointers: HostPointerFinder::new(arena),
            parted: BTreeSet::new(),
        })
    }

    /// Runs the kernel's CPU code over all modelled allocations of the process; returns the operation for the model.
    ///
    /// # Errors
    /// The kernel trapped, faulted, or violated a rule of strict mode.
    pub fn run(
        &mut self,
        launch: &Launch,
        modelled: &Modelled,
        profile: Option<&mut Profile>,
        context: LaunchContext,
    ) -> Result<Op, LaunchFailure> {
        let allocations = &modelled.allocations;
        // The model needs touched blocks for managed memory only, and kernels that record none are faster.
        let wanted = profile.is_some() || trace::is_written() || modelled.some_are_managed;
        let records = wanted && launch.kernel.entry.flags & RECORDS_TOUCHES != 0;
        if records {
            self.prepare_touch_map(allocations);
        }
        let map = if records { self.touch.as_ref() } else { None };
        let looks = !records && context.strict.is_none() && launch.kernel.entry.flags & RECORDS_TOUCHES != 0;
        let suspect = looks
            .then(|| self.host_pointers.suspect(launch, |at| is_devices(&context.memory.lock(), at)))
            .flatten()
            .map(|suspect| (suspect.map(), suspect));
        let map = suspect.as_ref().map(|(map, _)| map).or(map);
        let done = self.execute(launch, map, context);
        self.report_parted(launch.kernel.name);
        let cost = done?;
        if let Some((map, suspect)) = &suspect {
            self.host_pointers.report_access(launch.kernel.name, suspect, map);
        }
        let pointed = pointed_allocations(&launch.args, context.objects, allocations);
        let touched = if records {
            self.touched(allocations, self.block_shift)
        } else {
            pointed.iter().map(|&allocation| Touched::whole(allocation)).collect()
        };
        if let Some(profile) = profile {
            profile.add(&LaunchSample {
                kernel: launch.kernel.name,
                static_bytes: pointed.iter().map(|allocation| allocation.bytes).sum(),
                touched: records.then_some(&touched),
                block_bytes: 1 << self.block_shift,
                pages: &if records { self.touched(allocations, self.touch_shift) } else { Vec::new() },
                cost,
            });
        }
        if records && trace::is_written() {
            self.trace_touches(launch, allocations);
        }
        Ok(model_op(launch, touched, cost))
    }

    /// Reports, once for each kernel, that threads of a block waited at its barrier in different places.
    fn report_parted(&mut self, kernel: &'static str) {
        if let Some([one, other]) = self.executor.take_parted()
            && self.parted.insert(kernel)
        {
            log_line(format_args!(
                "warning: kernel {}: threads of one block wait in the __syncthreads() of {one} and of {other} at the same \
                 time; all must call the same one, or a GPU may hang or give wrong results (--eager-strict names the threads)",
                readable(kernel)
            ));
        }
    }

    fn trace_touches(&self, launch: &Launch, allocations: &[Allocation]) {
        let Some(touch) = &self.touch else { return };
        let marks: Vec<_> = touch.touched().map(|(index, mark)| (index as u64, mark)).collect();
        let arguments = launch.args.words_by_argument().map(|mut words| {
            let allocation = words.find_map(|word| allocation_at(allocations, word))?;
            let first = (allocation.address - self.arena_base) >> self.touch_shift;
            let end =
                (allocation.address + allocation.bytes - self.arena_base).div_ceil(1 << self.touch_shift);
            let inside = marks.iter().filter(|(index, _)| (first..end).contains(index)).map(|(_, mark)| mark);
            let (read, written) =
                (inside.clone().filter(|mark| mark.read), inside.filter(|mark| mark.written));
            Some(trace::TouchedArgument {
                address: allocation.address,
                blocks: end - first,
                blocks_read: read.count() as u64,
                blocks_written: written.count() as u64,
            })
        });
        trace::kernel(launch.kernel.name, launch.priority, arguments.collect());
    }

    fn prepare_touch_map(&mut self, allocations: &[Allocation]) {
        let end = allocations.last().map_or(self.arena_base, |last| last.address + last.bytes);
        let bytes = (end - self.arena_base).next_multiple_of(1 << self.touch_shift);
        let blocks = usize::try_from(bytes >> self.touch_shift).expect("fits the address space");
        match &self.touch {
            Some(touch) if touch.block_count() == blocks => touch.reset(),
            _ => self.touch = Some(TouchMap::new(self.arena_base, bytes, self.touch_shift)),
        }
    }

    fn execute(
        &self,
        launch: &Launch,
        touch: Option<&TouchMap>,
        context: LaunchContext,
    ) -> Result<LaunchCost, LaunchFailure> {
        let dynamic_shared_bytes =
            u32::try_from(launch.shape.dynamic_shared_bytes).expect("checked at the call");
        let executed = eager_exec::Launch {
            entry: launch.kernel.entry,
            grid: launch.shape.grid,
            block: launch.shape.block,
            dynamic_shared_bytes,
            args: &launch.args.pointers(),
            touch,
            cooperative: launch.cooperative,
            cluster: launch.cluster,
            strict: context.strict,
            objects: Some(context.objects),
            time_max: self.time_max,
        };
        self.slow_kernel.begin(launch.kernel.name);
        // SAFETY: the entry is from a table whose version was checked at registration; the arguments were captured
        // according to its parameter list; the program is responsible for the kernel's accesses, as on a GPU.
        let done = unsafe { self.executor.launch(&executed) };
        self.slow_kernel.end();
        done
    }

    /// Touched memory in blocks of `1 << shift` bytes, at least the touch map's block size.
    fn touched(&self, allocations: &[Allocation], shift: u32) -> Vec<Touched> {
        let Some(touch) = &self.touch else { return Vec::new() };
        let mut blocks: Vec<TouchedBlock> = Vec::new();
        for (index, mark) in touch.touched() {
            let index = index as u64 >> (shift - self.touch_shift);
            match blocks.last_mut() {
                Some(last) if last.index == index => last.written |= mark.written,
                _ => blocks.push(TouchedBlock { index, written: mark.written }),
            }
        }
        by_allocation(Blocks { base: self.arena_base, block_bytes: 1 << shift }, &blocks, allocations)
    }
}

/// Allocations that the arguments point into, or name through textures and surfaces, each once.
fn pointed_allocations(
    args: &CapturedArgs,
    objects: &Objects,
    allocations: &[Allocation],
) -> Vec<Allocation> {
    let address = |word| objects.get(word).map_or(word, |object| object.image().address);
    let mut pointed: Vec<Allocation> =
        args.words().filter_map(|word| allocation_at(allocations, address(word))).collect();
    pointed.sort_by_key(|allocation| allocation.address);
    pointed.dedup();
    pointed
}

fn allocation_at(allocations: &[Allocation], word: u64) -> Option<Allocation> {
    let before = allocations.partition_point(|allocation| allocation.address <= word);
    allocations[..before].last().filter(|last| word < last.address + last.bytes).copied()
}

fn model_op(launch: &Launch, mut touched: Vec<Touched>, cost: LaunchCost) -> Op {
    // A real machine accesses memory of another device's context over the link; the model has no such path.
    touched.retain(|touched| touched.allocation.device == launch.device && !touched.allocation.is_pinned());
    Op::Kernel(Kernel {
        priority: launch.priority,
        launches: 1,
        blocks: launch.shape.blocks(),
        threads_per_block: u32::try_from(launch.shape.threads_per_block()).expect("checked at the call"),
        shared_bytes_per_block: launch.kernel.entry.static_shared_bytes
            + u32::try_from(launch.shape.dynamic_shared_bytes).expect("checked at the call"),
        registers_per_thread: 0,
        // All executed loads and stores, ignoring caches: an upper bound of the DRAM traffic.
        dram_bytes: cost.global_bytes,
        flops32: cost.flops32,
        flops64: cost.flops64,
        accesses: model_accesses(&touched, cost.global_bytes),
    })
}
