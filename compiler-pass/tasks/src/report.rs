//! What the pass found and decided in one translation unit: JSON for tools, remark lines for people.
//!
//! Trap: the site number in the report is the one that the program gives to the shim at run time, so a trace can be
//! matched to the source; it depends on source path, function and ordinal only.

use serde::{Deserialize, Serialize};

use crate::facts::{Facts, Place, SiteKind};
use crate::plan::{Placement, Plan, TaskPlan};

/// One translation unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Path of the source as given to the compiler.
    pub source: String,
    /// Mangled names of the kernels that it registers.
    pub kernels: Vec<String>,
    pub tasks: Vec<TaskReport>,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    pub function: String,
    pub place: Option<Place>,
    /// Symbols of the kernels' stubs, in the order of their launches, each once.
    pub kernels: Vec<String>,
    pub launch_sites: u32,
    #[serde(flatten)]
    pub outcome: Outcome,
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
        exact: bool,
        allocations: usize,
        ends_at_return: bool,
    },
    Lazy {
        reason: String,
        at: Option<Place>,
    },
}

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
                function: facts.function.clone(),
                place: task.place.clone(),
                kernels: kernels_of(facts, task),
                launch_sites: task.launch_sites,
                outcome: outcome_of(facts, task, site),
            });
        }
    }

    /// One line per task, as compilers word remarks.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        self.tasks.iter().map(|task| self.remark(task)).collect()
    }

    fn remark(&self, task: &TaskReport) -> String {
        let place =
            |place: &Option<Place>| place.as_ref().map_or_else(|| self.source.clone(), ToString::to_string);
        match &task.outcome {
            Outcome::Static { bytes, exact, allocations, ends_at_return, .. } => {
                let bound = if *exact { "" } else { " at most" };
                let end = if *ends_at_return { "; not all is freed, so it ends at the return" } else { "" };
                format!(
                    "eager: {}: remark: static task in {}: {allocations} allocations,{bound} {bytes} bytes, {} launch sites{end}",
                    place(&task.place),
                    task.function,
                    task.launch_sites
                )
            }
            Outcome::Lazy { reason, at } => {
                let at = if at.is_some() { at } else { &task.place };
                format!("eager: {}: remark: lazy task in {}: {reason}", place(at), task.function)
            }
        }
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

fn outcome_of(facts: &Facts, task: &TaskPlan, site: u64) -> Outcome {
    match &task.placement {
        Placement::Static(found) => {
            let terms: Vec<_> = found.sizes.iter().map(|size| size.describe(&facts.leaves)).collect();
            Outcome::Static {
                site: format!("{site:#018x}"),
                bytes: terms.join(" + "),
                exact: found.exact,
                allocations: found.sizes.len(),
                ends_at_return: found.ends_at_return,
            }
        }
        Placement::Lazy { reason, place } => Outcome::Lazy { reason: reason.to_string(), at: place.clone() },
    }
}
