//! What the pass found and decided in one translation unit: JSON for tools, remarks for people.
//!
//! Trap: the site number in the report is the one that the program gives to the shim at run time, so a trace can be
//! matched to the source; it depends on source path, function and ordinal only.

use serde::{Deserialize, Serialize};

use crate::deaths::{self, BufferPlan};
use crate::expr::Expr;
use crate::facts::{Facts, Place, Site, SiteKind};
use crate::plan::{Placement, Plan, TaskPlan};
use crate::program::Geometry;

/// One translation unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Path of the source as given to the compiler.
    pub source: String,
    /// The kernels that it registers.
    pub kernels: Vec<KernelReport>,
    pub tasks: Vec<TaskReport>,
    /// The device memory that these tasks allocate.
    #[serde(default)]
    pub buffers: Vec<BufferReport>,
}

/// One kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelReport {
    /// Mangled device name.
    pub symbol: String,
    /// As the user wrote it.
    pub function: String,
    /// Registers per thread, 0 if unknown.
    pub registers: u32,
    /// Static shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// Launched in a loop: later launches come back to the buffers.
    pub repeated: bool,
    pub args: Vec<ArgReport>,
}

/// One kernel argument. `read` and `written` both false: unknown, unless the class is "unused".
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
    /// Of the function that allocates it, or calls the function that does.
    pub symbol: String,
    /// The same as the user wrote it.
    pub function: String,
    pub allocated: Vec<Place>,
    pub first_uses: Vec<Place>,
    #[serde(flatten)]
    pub end: BufferEnd,
}

/// Whether its contents are shown to be dead before it is freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "contents", rename_all = "kebab-case")]
pub enum BufferEnd {
    /// After these uses.
    Dead {
        last_uses: Vec<Place>,
    },
    Alive {
        reason: String,
        at: Option<Place>,
    },
}

/// How one launch goes through a buffer.
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

/// What a compiler says of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Of the function that holds the task.
    pub symbol: String,
    pub place: Option<Place>,
    /// A lazy task: what clang's `-Rpass-missed=` shows; else `-Rpass=`.
    pub missed: bool,
    /// Short name for optimisation records.
    pub name: &'static str,
    pub text: String,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Of the function that holds the task.
    pub symbol: String,
    /// The same as the user wrote it.
    pub function: String,
    pub place: Option<Place>,
    /// Symbols of the kernels' stubs, in the order of their launches, each once.
    pub kernels: Vec<String>,
    pub launch_sites: u32,
    /// The launches that this function sees.
    pub launches: Vec<LaunchReport>,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// One place that launches a kernel, with its geometry in the terms of the source's values where that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchReport {
    /// As the user wrote it; `None` through a pointer.
    pub kernel: Option<String>,
    pub place: Option<Place>,
    pub blocks: Option<String>,
    pub threads_per_block: Option<String>,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "placement", rename_all = "kebab-case")]
pub enum Outcome {
    Static {
        /// The id that `eager_task_begin` gets, in hexadecimal.
        site: String,
        /// The requirement in bytes, in the terms of the source's values.
        bytes: String,
        /// What of it is in use at once, from the first use of each buffer until it is dead.
        live_bytes: String,
        exact: bool,
        allocations: usize,
        ends_at_return: bool,
    },
    Lazy {
        reason: String,
        at: Option<Place>,
    },
}

/// What clang puts before a kernel's name for its host stub.
const STUB: &str = "__device_stub__";

/// The number of the static task `ordinal` of a function: FNV-1a (64 bits) of the three, so that it is the same from
/// build to build.
#[must_use]
pub fn site_id(source: &str, function: &str, ordinal: usize) -> u64 {
    let text = format!("{source}\0{function}\0{ordinal}");
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Report {
    /// Adds one function's plan.
    pub fn add(&mut self, facts: &Facts, plan: &Plan) {
        for (ordinal, task) in plan.tasks.iter().enumerate() {
            let site = site_id(&self.source, &facts.function, ordinal);
            self.tasks.push(TaskReport {
                symbol: facts.function.clone(),
                function: facts.function.clone(),
                place: task.place.clone(),
                kernels: kernels_of(facts, task),
                launch_sites: task.launch_sites,
                launches: launches_of(facts, task),
                outcome: outcome_of(facts, task, site),
            });
            self.buffers.extend(task.buffers.iter().map(|buffer| buffer_of(facts, buffer)));
        }
    }

    /// Gives functions and launched kernels their readable names, through `demangled`, also inside of texts.
    pub fn name_functions(&mut self, demangled: impl Fn(&str) -> String) {
        for buffer in &mut self.buffers {
            buffer.function = demangled(&buffer.symbol);
            if let BufferEnd::Alive { reason, .. } = &mut buffer.end {
                *reason = with_readable_names(reason, &demangled);
            }
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

    /// One remark per buffer.
    #[must_use]
    pub fn buffer_remarks(&self) -> Vec<Remark> {
        self.buffers.iter().map(BufferReport::remark).collect()
    }

    /// One remark per task, in the order of the tasks.
    #[must_use]
    pub fn remarks(&self) -> Vec<Remark> {
        self.tasks.iter().map(TaskReport::remark).collect()
    }
}

impl BufferReport {
    fn remark(&self) -> Remark {
        let (name, text) = match &self.end {
            BufferEnd::Dead { last_uses } => {
                let uses: Vec<_> = last_uses.iter().map(Place::to_string).collect();
                let after = if uses.is_empty() { "its allocation".to_owned() } else { uses.join(" and ") };
                ("DeadBuffer", format!("buffer is dead after {after}"))
            }
            BufferEnd::Alive { reason, at } => {
                let at = at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
                ("LiveBuffer", format!("buffer is not shown to be dead before it is freed: {reason}{at}"))
            }
        };
        let missed = matches!(self.end, BufferEnd::Alive { .. });
        Remark { symbol: self.symbol.clone(), place: self.allocated.first().cloned(), missed, name, text }
    }
}

impl TaskReport {
    fn remark(&self) -> Remark {
        let (name, place, text) = match &self.outcome {
            Outcome::Static { bytes, live_bytes, exact, allocations, ends_at_return, .. } => {
                let live = if live_bytes == bytes {
                    String::new()
                } else {
                    format!(" ({live_bytes} in use at once)")
                };
                let bound = if *exact { "" } else { " at most" };
                let end = if *ends_at_return { "; not all is freed, so it ends at the return" } else { "" };
                let text = format!(
                    "static task in {}: {},{bound} {bytes} bytes{live}, {}{end}",
                    self.function,
                    counted(*allocations, "allocation"),
                    counted(self.launch_sites, "launch site")
                );
                ("StaticTask", self.place.clone(), text)
            }
            Outcome::Lazy { reason, at } => {
                let place = at.clone().or_else(|| self.place.clone());
                ("LazyTask", place, format!("lazy task in {}: {reason}", self.function))
            }
        };
        let missed = matches!(self.outcome, Outcome::Lazy { .. });
        Remark { symbol: self.symbol.clone(), place, missed, name, text }
    }
}

/// "1 launch", "2 launches" and the like.
fn counted(count: impl std::fmt::Display, what: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// The text with each mangled C++ name replaced by what the user wrote, without its parameters.
fn with_readable_names(text: &str, demangled: impl Fn(&str) -> String) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '$';
    let mut readable = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("_Z") {
        let (before, from) = rest.split_at(start);
        let (name, after) = from.split_at(from.find(|c| !is_name(c)).unwrap_or(from.len()));
        let shown = demangled(name).replace(STUB, "");
        readable.push_str(before);
        readable.push_str(shown.split('(').next().filter(|shown| !shown.is_empty()).unwrap_or(name));
        rest = after;
    }
    readable + rest
}

/// The largest of the sums, each in the terms of the source's values.
fn requirement_of(facts: &Facts, sums: &[Vec<Expr>]) -> String {
    let sum = |terms: &Vec<Expr>| {
        let terms: Vec<_> = terms.iter().map(|size| size.describe(&facts.leaves)).collect();
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

fn launches_of(facts: &Facts, task: &TaskPlan) -> Vec<LaunchReport> {
    let sites = task.sites.iter().map(|&site| &facts.sites[site]);
    let launch = |site: &Site| {
        let SiteKind::Launch { kernel, geometry, .. } = &site.kind else { return None };
        let described = |get: fn(&Geometry) -> &Expr| {
            geometry.as_ref().map(|geometry| get(geometry).describe(&facts.leaves))
        };
        Some(LaunchReport {
            kernel: kernel.clone(),
            place: site.place.clone(),
            blocks: described(|geometry| &geometry.blocks),
            threads_per_block: described(|geometry| &geometry.threads),
        })
    };
    sites.filter_map(launch).collect()
}

fn outcome_of(facts: &Facts, task: &TaskPlan, site: u64) -> Outcome {
    match &task.placement {
        Placement::Static(found) => Outcome::Static {
            site: format!("{site:#018x}"),
            bytes: requirement_of(facts, &found.sums),
            live_bytes: requirement_of(facts, &found.live_sums),
            exact: found.exact,
            allocations: found.allocations,
            ends_at_return: found.ends_at_return,
        },
        Placement::Lazy { reason, place } => Outcome::Lazy { reason: reason.to_string(), at: place.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::with_readable_names;

    #[test]
    fn mangled_names_inside_of_a_text_become_readable() {
        let demangled = |name: &str| match name {
            "_Z4gridi" => "grid(int)".to_owned(),
            "_Z19__device_stub__kPf" => "__device_stub__k(float*)".to_owned(),
            other => other.to_owned(),
        };
        for (text, expected) in [
            ("([_Z4gridi() at line 3] * 4)", "([grid() at line 3] * 4)"),
            ("given to _Z19__device_stub__kPf, which launches", "given to k, which launches"),
            ("_Z4gridi", "grid"),
            ("_Zodd and no name", "_Zodd and no name"),
            ("", ""),
        ] {
            assert_eq!(with_readable_names(text, demangled), expected);
        }
    }
}
