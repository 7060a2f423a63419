//! Evaluates a manifest's trace: job operations with numbers in place of formulas, sizes of kernels, and the peak of
//! allocated memory.
//!
//! Trap: a repeated part is walked once, so its buffers must be allocated and freed outside it or wholly inside it;
//! `eager_sim::job::Job::validate` checks that.

use crate::expression::{self, ExpressionError, Variables};
use crate::host::HostPhases;
use crate::manifest::{self, AccessClass, Item, Manifest, Step};
use eager_sim::job::{BufferAccess, JobOp, KernelOp, Part};
use eager_units::AccessClass as CoreAccessClass;
use serde::Serialize;
use std::collections::BTreeMap;

/// The operations and sizes of a run.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub ops: Vec<JobOp>,
    pub kernels: Vec<KernelSizes>,
    /// Most memory allocated at once, in bytes.
    pub bytes_max: u64,
}

/// Sizes of a kernel in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelSizes {
    /// Name in the source.
    pub name: String,
    /// Launches in the whole run.
    pub launches: u64,
    /// Sum of the sizes of the buffers in its arguments, in bytes.
    pub static_bytes: u64,
    /// Bytes touched by the launch with the largest footprint, each buffer rounded up to 2 MiB.
    pub footprint_bytes: u64,
}

/// # Errors
/// A formula has no value, or a step does not make sense; the error quotes it.
pub(crate) fn build(
    manifest: &Manifest,
    variables: Variables,
    host: &HostPhases<'_>,
) -> Result<Trace, ExpressionError> {
    let mut walk = Walk {
        manifest,
        variables,
        texts: BTreeMap::new(),
        host,
        live: BTreeMap::new(),
        bytes_max: 0,
        kernels: Vec::new(),
        repeats: 1,
        largest: (0, 0),
    };
    let mut ops = walk.steps(&manifest.trace)?;
    for op in &mut ops {
        if let JobOp::TaskBegin { requirement, blocks, threads_per_block, .. } = op {
            *requirement = walk.bytes_max;
            (*blocks, *threads_per_block) = walk.largest;
        }
    }
    Ok(Trace { ops, kernels: walk.kernels, bytes_max: walk.bytes_max })
}

struct Walk<'a> {
    manifest: &'a Manifest,
    variables: Variables,
    /// Texts bound by `each`, for `{name}` in buffer names.
    texts: BTreeMap<String, String>,
    host: &'a HostPhases<'a>,
    /// Sizes of the buffers allocated at this point.
    live: BTreeMap<String, u64>,
    bytes_max: u64,
    kernels: Vec<KernelSizes>,
    /// Number of times that the current step runs.
    repeats: u64,
    /// Blocks and threads per block of the largest launch so far.
    largest: (u64, u32),
}

impl Walk<'_> {
    fn steps(&mut self, steps: &[Step]) -> Result<Vec<JobOp>, ExpressionError> {
        let mut ops = Vec::new();
        for step in steps {
            if let Some(condition) = &step.when
                && expression::evaluate(condition, &self.variables)? == 0.0
            {
                continue;
            }
            self.step(step, &mut ops)?;
        }
        Ok(ops)
    }

    fn step(&mut self, step: &Step, ops: &mut Vec<JobOp>) -> Result<(), ExpressionError> {
        one_verb(step)?;
        if let Some(phase) = &step.host {
            if let Some(seconds) = self.host.seconds(phase)? {
                ops.push(JobOp::Host { seconds });
            }
        } else if step.begin.is_some() {
            // Set at the end, when the whole task is known.
            ops.push(JobOp::TaskBegin { requirement: 0, blocks: 0, threads_per_block: 0, lazy: false });
        } else if step.all_launched.is_some() {
            ops.push(JobOp::AllLaunched);
        } else if step.end.is_some() {
            ops.push(JobOp::TaskEnd);
        } else if let Some(key) = &step.launch {
            ops.push(JobOp::Kernel(self.launch(key, step)?));
        } else if let Some(times) = &step.repeat {
            let times = expression::count(times, &self.variables)?;
            self.repeats *= times;
            let inner = self.steps(&step.ops)?;
            self.repeats /= times.max(1);
            if times > 0 {
                ops.push(JobOp::Repeat { times: narrow(times, "repeat")?, ops: inner });
            }
        } else if let Some(name) = &step.each {
            for item in &step.of {
                self.bind(name, item);
                ops.extend(self.steps(&step.ops)?);
            }
            self.variables.remove(name);
            self.texts.remove(name);
        } else {
            self.memory(step, ops)?;
        }
        Ok(())
    }

    /// Adds allocations, frees, fills and copies.
    fn memory(&mut self, step: &Step, ops: &mut Vec<JobOp>) -> Result<(), ExpressionError> {
        for buffer in step.alloc.iter().flatten() {
            let (buffer, bytes) = self.declared(buffer)?;
            ops.push(JobOp::Alloc { buffer: buffer.clone(), bytes });
            self.live.insert(buffer, bytes);
            self.bytes_max = self.bytes_max.max(self.live.values().sum());
        }
        for buffer in step.free.iter().flatten() {
            let buffer = self.named(buffer);
            self.live(&buffer)?;
            self.live.remove(&buffer);
            ops.push(JobOp::Free { buffer });
        }
        for buffer in step.fill.iter().flatten() {
            let (buffer, bytes) = self.part(buffer, step)?;
            ops.push(JobOp::Fill { buffer, bytes });
        }
        let pinned = step.pinned;
        if let Some(buffer) = &step.upload {
            let (buffer, bytes) = self.part(buffer, step)?;
            ops.push(JobOp::CopyToDevice { buffer, bytes, pinned });
        }
        if let Some(buffer) = &step.download {
            let (buffer, bytes) = self.part(buffer, step)?;
            ops.push(JobOp::CopyToHost { buffer, bytes, pinned });
        }
        if let Some([from, to]) = &step.copy {
            let (from, bytes) = self.part(from, step)?;
            ops.push(JobOp::CopyOnDevice { from, to: self.named(to), bytes });
        }
        Ok(())
    }

    fn launch(&mut self, key: &str, step: &Step) -> Result<KernelOp, ExpressionError> {
        let manifest = self.manifest;
        let kernel = manifest.kernels.get(key).ok_or_else(|| wrong(key, "no such kernel"))?;
        let launches = self.count_or(step.launches.as_deref().unwrap_or_default(), 1)?;
        let mut static_bytes = 0;
        for buffer in &kernel.arguments {
            static_bytes += self.live(&self.named(buffer))?;
        }
        let mut footprint = 0;
        let mut accesses = Vec::new();
        for access in &kernel.accesses {
            let (access, touched) = self.access(access)?;
            footprint += touched;
            accesses.push(access);
        }
        let blocks = expression::count(&kernel.blocks, &self.variables)?;
        let threads_per_block =
            narrow(expression::count(&kernel.threads_per_block, &self.variables)?, "threads_per_block")?;
        if blocks * u64::from(threads_per_block) > self.largest.0 * u64::from(self.largest.1) {
            self.largest = (blocks, threads_per_block);
        }
        self.record(&kernel.name, launches, static_bytes, footprint);
        Ok(KernelOp {
            name: kernel.name.clone(),
            launches: narrow(launches, "launches")?,
            host_gap_s: 0.0,
            blocks,
            threads_per_block,
            shared_bytes: narrow(self.count_or(&kernel.shared_bytes, 0)?, "shared_bytes")?,
            registers_per_thread: kernel.registers_per_thread,
            dram_bytes: expression::estimate(&kernel.dram_bytes, &self.variables)?,
            flops32: self.estimate_or_none(&kernel.flops32)?,
            flops64: self.estimate_or_none(&kernel.flops64)?,
            accesses,
            access_class: match kernel.class {
                AccessClass::OnePass => CoreAccessClass::OnePass,
                AccessClass::Cyclic => CoreAccessClass::Cyclic,
                AccessClass::Sparse => CoreAccessClass::Sparse,
            },
            footprint,
        })
    }

    /// Returns the access, and the bytes it touches in whole 2 MiB blocks.
    fn access(&self, access: &manifest::Access) -> Result<(BufferAccess, u64), ExpressionError> {
        let buffer = self.named(&access.buffer);
        let size = self.live(&buffer)?;
        let touched = if access.bytes.is_empty() {
            size
        } else {
            expression::estimate(&access.bytes, &self.variables)?.min(size)
        };
        let parts = if touched == size {
            Vec::new()
        } else {
            vec![Part { from: 0.0, to: touched as f64 / size as f64 }]
        };
        let density = if access.density.is_empty() {
            1.0
        } else {
            expression::evaluate(&access.density, &self.variables)?.clamp(0.0, 1.0)
        };
        let blocks = touched.div_ceil(expression::BLOCK_BYTES as u64);
        let paged = blocks * expression::BLOCK_BYTES as u64;
        Ok((BufferAccess { buffer, parts, pattern: access.pattern, density, write: access.write }, paged))
    }

    fn record(&mut self, name: &str, launches: u64, static_bytes: u64, footprint_bytes: u64) {
        let launches = launches * self.repeats;
        match self.kernels.iter_mut().find(|k| k.name == name) {
            Some(known) => {
                known.launches += launches;
                known.static_bytes = known.static_bytes.max(static_bytes);
                known.footprint_bytes = known.footprint_bytes.max(footprint_bytes);
            }
            None => {
                let name = name.to_owned();
                self.kernels.push(KernelSizes { name, launches, static_bytes, footprint_bytes });
            }
        }
    }

    fn bind(&mut self, name: &str, item: &Item) {
        match item {
            Item::Number(value) => drop(self.variables.insert(name.to_owned(), *value)),
            Item::Text(text) => drop(self.texts.insert(name.to_owned(), text.clone())),
        }
    }

    /// A buffer's name with the bound texts inserted.
    fn named(&self, buffer: &str) -> String {
        self.texts
            .iter()
            .fold(buffer.to_owned(), |name, (key, text)| name.replace(&format!("{{{key}}}"), text))
    }

    fn declared(&self, buffer: &str) -> Result<(String, u64), ExpressionError> {
        let name = self.named(buffer);
        let size = self.manifest.buffers.get(&name).ok_or_else(|| wrong(&name, "no such buffer"))?;
        let bytes = expression::count(size, &self.variables)?;
        Ok((name, bytes))
    }

    fn live(&self, buffer: &str) -> Result<u64, ExpressionError> {
        self.live.get(buffer).copied().ok_or_else(|| wrong(buffer, "the buffer is not allocated there"))
    }

    /// Returns the buffer's name and the bytes of it that a copy or fill uses.
    fn part(&self, buffer: &str, step: &Step) -> Result<(String, u64), ExpressionError> {
        let name = self.named(buffer);
        let size = self.live(&name)?;
        let bytes = self.count_or(step.bytes.as_deref().unwrap_or_default(), size)?;
        if bytes > size { Err(wrong(&name, "more bytes than the buffer has")) } else { Ok((name, bytes)) }
    }

    fn count_or(&self, formula: &str, absent: u64) -> Result<u64, ExpressionError> {
        if formula.is_empty() { Ok(absent) } else { expression::count(formula, &self.variables) }
    }

    fn estimate_or_none(&self, formula: &str) -> Result<u64, ExpressionError> {
        if formula.is_empty() { Ok(0) } else { expression::estimate(formula, &self.variables) }
    }
}

fn one_verb(step: &Step) -> Result<(), ExpressionError> {
    let verbs = [
        ("host", step.host.is_some()),
        ("begin", step.begin.is_some()),
        ("alloc", step.alloc.is_some()),
        ("fill", step.fill.is_some()),
        ("upload", step.upload.is_some()),
        ("download", step.download.is_some()),
        ("copy", step.copy.is_some()),
        ("launch", step.launch.is_some()),
        ("all_launched", step.all_launched.is_some()),
        ("free", step.free.is_some()),
        ("end", step.end.is_some()),
        ("repeat", step.repeat.is_some()),
        ("each", step.each.is_some()),
    ];
    let present: Vec<&str> = verbs.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    if present.len() == 1 {
        return Ok(());
    }
    let which = if present.is_empty() { "none".to_owned() } else { present.join(" and ") };
    Err(wrong("trace", &format!("a step must do exactly one thing, this one does {which}")))
}

fn narrow(value: u64, what: &str) -> Result<u32, ExpressionError> {
    u32::try_from(value).map_err(|_| wrong(what, &format!("{value} is too large")))
}

fn wrong(quoted: &str, why: &str) -> ExpressionError {
    ExpressionError::Name { text: quoted.to_owned(), why: why.to_owned() }
}
