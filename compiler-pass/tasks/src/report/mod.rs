//! Report on one translation unit: JSON for tools, remarks for people.
//!
//! Trap: the site number in the report is the one that the program passes to the shim at run time, so that a trace can
//! be matched to the source. It may depend on nothing but source path, function and ordinal.

mod remarks;

use serde::{Deserialize, Serialize};

use crate::deaths::{self, BufferPlan};
use crate::expr::Expr;
use crate::facts::{Facts, Leaf, LeafSource, Site, SiteKind, describe};
use crate::flow::Flow;
use crate::names::Place;
use crate::plan::{CoveredTask, LazyReason, Placement, Plan, TaskPlan};
use crate::program::Geometry;
use crate::simplify::simplified;
pub use remarks::Remark;
use remarks::{STUB, with_readable_names};

/// One translation unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Path of the source as given to the compiler.
    pub source: String,
    /// The unit contains all of the program's sources.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole_program: bool,
    /// Kernels that the unit registers.
    pub kernels: Vec<KernelReport>,
    pub tasks: Vec<TaskReport>,
    /// Device memory that these tasks allocate.
    #[serde(default)]
    pub buffers: Vec<BufferReport>,
    /// Work that functions do for tasks of their callers.
    #[serde(default)]
    pub covered: Vec<CoveredReport>,
}

/// Allocations and launches that belong to tasks of the function's callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoveredReport {
    pub symbol: String,
    /// Readable name, as in the source.
    pub function: String,
    pub place: Option<Place>,
    /// Callers that own the tasks.
    pub by: Vec<String>,
    /// Unseen code may call the function too; the tasks then run lazily.
    pub visible: bool,
}

/// One kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelReport {
    /// Mangled device name.
    pub symbol: String,
    /// Readable name, as in the source.
    pub function: String,
    /// Registers per thread, 0 if unknown.
    pub registers: u32,
    /// Static shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// Launched in a loop, so that later launches use the buffers again.
    pub repeated: bool,
    pub args: Vec<ArgReport>,
}

/// One kernel argument. If `read` and `written` are both false, its use is unknown, unless the class is "unused".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgReport {
    pub bytes: u32,
    pub pointer: bool,
    pub read: bool,
    pub written: bool,
    pub access: AccessClass,
}

/// One buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferReport {
    /// Symbol of the function that allocates it, or that calls the allocating function.
    pub symbol: String,
    /// Readable name of that function, as in the source.
    pub function: String,
    pub allocated: Vec<Place>,
    pub first_uses: Vec<Place>,
    #[serde(flatten)]
    pub end: BufferEnd,
}

/// Whether the buffer's contents are proven dead before it is freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "contents", rename_all = "kebab-case")]
pub enum BufferEnd {
    /// Dead after these uses.
    Dead {
        last_uses: Vec<Place>,
    },
    Alive {
        reason: String,
        at: Option<Place>,
    },
}

/// Access pattern of one launch on a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessClass {
    #[default]
    Unknown,
    OnePass,
    Cyclic,
    Sparse,
    Unused,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Symbol of the function that owns the task.
    pub symbol: String,
    /// Readable name of that function, as in the source.
    pub function: String,
    pub place: Option<Place>,
    /// Symbols of the kernels' stubs, in the order of their launches, without duplicates.
    pub kernels: Vec<String>,
    pub launch_sites: u32,
    /// Launches that this function sees.
    pub launches: Vec<LaunchReport>,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// One launch site; its geometry, where known, is expressed in values of the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchReport {
    /// Readable name of the kernel; `None` if launched through a pointer.
    pub kernel: Option<String>,
    pub place: Option<Place>,
    pub blocks: Option<String>,
    pub threads_per_block: Option<String>,
    /// Launched in a loop that changes its geometry; the expressions then hold for a single round.
    #[serde(default)]
    pub varies: bool,
}

/// Placement of the task, with the data that goes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "placement", rename_all = "kebab-case")]
pub enum Outcome {
    Static {
        /// The id that is passed to `eager_task_begin`, in hexadecimal.
        site: String,
        /// The requirement in bytes, expressed in values of the source.
        bytes: String,
        /// The part of it that is in use at once, from the first use of each buffer until it is dead.
        live_bytes: String,
        exact: bool,
        allocations: usize,
        ends_at_return: bool,
        /// Every use of the task's memory is visible, and each is a call that is given a pointer to that memory.
        #[serde(default)]
        named: bool,
    },
    Lazy {
        reason: String,
        at: Option<Place>,
    },
}

/// Returns the number of the static task `ordinal` of a function: FNV-1a (64 bits) of the three, so that it is the same
/// from build to build.
#[must_use]
pub fn site_id(source: &str, function: &str, ordinal: usize) -> u64 {
    let text = format!("{source}\0{function}\0{ordinal}");
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Report {
    /// Adds the plan of one function.
    pub fn add(&mut self, facts: &Facts, plan: &Plan) {
        let flow = Flow::new(&facts.blocks);
        for (ordinal, task) in plan.tasks.iter().enumerate() {
            let site = site_id(&self.source, &facts.function, ordinal);
            self.tasks.push(TaskReport {
                symbol: facts.function.clone(),
                function: facts.function.clone(),
                place: task.place.clone(),
                kernels: kernels_of(facts, task),
                launch_sites: task.launch_sites,
                launches: launches_of(facts, &flow, task),
                outcome: self.outcome_of(facts, task, site),
            });
            self.buffers.extend(task.buffers.iter().map(|buffer| buffer_of(facts, buffer)));
        }
        self.covered.extend(plan.covered.iter().map(|covered| covered_of(facts, covered)));
    }

    fn outcome_of(&self, facts: &Facts, task: &TaskPlan, site: u64) -> Outcome {
        match &task.placement {
            Placement::Static(found) => Outcome::Static {
                site: format!("{site:#018x}"),
                bytes: requirement_of(facts, &found.sums),
                live_bytes: requirement_of(facts, &found.live_sums),
                exact: found.exact,
                allocations: found.allocations,
                ends_at_return: found.ends_at_return,
                named: found.named,
            },
            Placement::Lazy { reason, place } => {
                Outcome::Lazy { reason: self.reason(reason), at: place.clone() }
            }
        }
    }

    fn reason(&self, reason: &LazyReason) -> String {
        let advice = if reason.may_be_seen_whole() && !self.whole_program {
            "; with -flto other sources are seen too"
        } else {
            ""
        };
        format!("{reason}{advice}")
    }

    /// Replaces mangled names of functions and launched kernels by readable ones from `demangled`, also inside texts.
    pub fn name_functions(&mut self, demangled: impl Fn(&str) -> String) {
        for buffer in &mut self.buffers {
            buffer.function = demangled(&buffer.symbol);
            if let BufferEnd::Alive { reason, .. } = &mut buffer.end {
                *reason = with_readable_names(reason, &demangled);
            }
        }
        for covered in &mut self.covered {
            covered.function = demangled(&covered.symbol);
            covered.by.iter_mut().for_each(|caller| *caller = with_readable_names(caller, &demangled));
        }
        for task in &mut self.tasks {
            task.function = demangled(&task.symbol);
            let mut texts: Vec<&mut String> = match &mut task.outcome {
                Outcome::Static { bytes, live_bytes, .. } => vec![bytes, live_bytes],
                Outcome::Lazy { reason, .. } => vec![reason],
            };
            for launch in &mut task.launches {
                if let Some(kernel) = &mut launch.kernel {
                    *kernel = demangled(kernel).replace(STUB, "");
                }
                texts.extend(launch.blocks.iter_mut().chain(&mut launch.threads_per_block));
            }
            for text in texts {
                *text = with_readable_names(text, &demangled);
            }
        }
    }
}

/// Shows the largest of the sums, expressed in values of the source.
fn requirement_of(facts: &Facts, sums: &[Vec<Expr>]) -> String {
    let sum = |terms: &Vec<Expr>| {
        let terms: Vec<_> = terms.iter().map(|size| describe(&simplified(size), &facts.leaves)).collect();
        terms.join(" + ")
    };
    let all: Vec<_> = sums.iter().map(sum).collect();
    match &all[..] {
        [only] => only.clone(),
        _ => format!("max({})", all.join(", ")),
    }
}

fn buffer_of(facts: &Facts, buffer: &BufferPlan) -> BufferReport {
    let end = match &buffer.outcome {
        deaths::Outcome::Dead(dead) => BufferEnd::Dead { last_uses: dead.last_uses.clone() },
        deaths::Outcome::DeadInside { last_uses } => BufferEnd::Dead { last_uses: last_uses.clone() },
        deaths::Outcome::Alive { reason, place } => {
            BufferEnd::Alive { reason: reason.to_string(), at: place.clone() }
        }
    };
    BufferReport {
        symbol: facts.function.clone(),
        function: facts.function.clone(),
        allocated: buffer.allocated.clone(),
        first_uses: buffer.first_uses.clone(),
        end,
    }
}

fn kernels_of(facts: &Facts, task: &TaskPlan) -> Vec<String> {
    let mut kernels: Vec<String> = Vec::new();
    for &site in &task.sites {
        if let SiteKind::Launch { kernel: Some(kernel), .. } = &facts.sites[site].kind
            && !kernels.contains(kernel)
        {
            kernels.push(kernel.clone());
        }
    }
    kernels
}

fn covered_of(facts: &Facts, covered: &CoveredTask) -> CoveredReport {
    CoveredReport {
        symbol: facts.function.clone(),
        function: facts.function.clone(),
        place: covered.place.clone(),
        by: covered.by.clone(),
        visible: covered.visible,
    }
}

fn launches_of(facts: &Facts, flow: &Flow<'_>, task: &TaskPlan) -> Vec<LaunchReport> {
    let sites = task.sites.iter().map(|&site| &facts.sites[site]);
    let launch = |site: &Site| {
        let SiteKind::Launch { kernel, geometry, .. } = &site.kind else { return None };
        let described = |get: fn(&Geometry) -> &Expr| {
            geometry.as_ref().map(|geometry| describe(&simplified(get(geometry)), &facts.leaves))
        };
        let may_change = |expr: &Expr| {
            expr.leaves().into_iter().any(|leaf| changes_in_loop(&facts.leaves[leaf.index()], flow))
        };
        let varies = geometry.as_ref().is_some_and(|g| may_change(&g.blocks) || may_change(&g.threads));
        Some(LaunchReport {
            kernel: kernel.clone(),
            place: site.place.clone(),
            blocks: described(|geometry| &geometry.blocks),
            threads_per_block: described(|geometry| &geometry.threads),
            varies: varies && flow.in_cycle(site.at.block),
        })
    };
    sites.filter_map(launch).collect()
}

/// Whether a value may differ between the rounds of a loop.
fn changes_in_loop(leaf: &Leaf, flow: &Flow<'_>) -> bool {
    match &leaf.source {
        LeafSource::Argument => false,
        LeafSource::Inner => true,
        LeafSource::Instruction(at) => flow.in_cycle(at.block),
        LeafSource::Memory { at, clobbers, .. } => {
            clobbers.iter().any(|clobber| flow.reaches(*at, *clobber) && flow.reaches(*clobber, *at))
        }
    }
}
