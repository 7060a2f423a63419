//! Decides between a function and its callers where both have a plan: which of them owns a task, and which declares a
//! buffer dead.
//!
//! The pass can insert code only into the function that the plan is for. A buffer whose pointer stays in a variable of
//! a called function is therefore declared dead in that function, whichever function owns the task; the caller's report
//! shows this.

use std::collections::{BTreeMap, BTreeSet};

use crate::contents::{AliveReason, Capture};
use crate::deaths::{BufferPlan, Outcome};
use crate::facts::{Facts, Site, SiteKind, SiteOrigin};
use crate::names::{BufferId, FrameId, FunctionId, Place};
use crate::plan::{CoveredTask, FunctionPlan, Placement, TaskPlan};
use crate::program::Program;

/// Moves lazy tasks that are parts of a caller's task out of `tasks`. Expects callees before callers in `plans`. Static
/// tasks keep their positions, because positions name them.
pub fn settle(program: &Program, plans: &mut [FunctionPlan]) {
    let mut claimed: BTreeMap<SiteOrigin, BTreeSet<FunctionId>> = BTreeMap::new();
    for FunctionPlan { function, facts, plan } in plans.iter_mut().rev() {
        let (kept, gone): (Vec<_>, Vec<_>) =
            plan.tasks.drain(..).partition(|task| !is_claimed(facts, task, &claimed));
        plan.tasks = kept;
        for task in gone {
            let own = program.function(*function);
            plan.covered.push(CoveredTask {
                by: claimers(facts, &task, &claimed).map(|id| program.function(id).name.clone()).collect(),
                visible: own.visible && own.name != "main",
                place: task.place,
            });
            plan.dead.extend(task.buffers.into_iter().filter(|buffer| is_private(facts, buffer)));
        }
        let sites = plan.tasks.iter().flat_map(|task| &task.sites).map(|&site| &facts.sites[site]);
        for site in sites.filter(|site| facts.frame(site.at) != FrameId::ROOT) {
            claimed.entry(site.origin).or_default().insert(*function);
        }
    }
    mark_dead_inside(plans);
}

/// Sites that make a task: allocations and launches. A task that only uses a buffer or hands it to the caller has none,
/// and is never claimed.
fn making<'a>(facts: &'a Facts, task: &'a TaskPlan) -> impl Iterator<Item = &'a Site> {
    let makes_task = |site: &&Site| {
        matches!(
            site.kind,
            SiteKind::Allocation { .. } | SiteKind::ForeignAllocation { .. } | SiteKind::Launch { .. }
        )
    };
    task.sites.iter().map(|&site| &facts.sites[site]).filter(makes_task)
}

fn is_claimed(facts: &Facts, task: &TaskPlan, claimed: &BTreeMap<SiteOrigin, BTreeSet<FunctionId>>) -> bool {
    matches!(task.placement, Placement::Lazy { .. })
        && making(facts, task).next().is_some()
        && making(facts, task).all(|site| claimed.contains_key(&site.origin))
}

fn claimers(
    facts: &Facts,
    task: &TaskPlan,
    claimed: &BTreeMap<SiteOrigin, BTreeSet<FunctionId>>,
) -> impl Iterator<Item = FunctionId> {
    let all = making(facts, task).filter_map(|site| claimed.get(&site.origin)).flatten();
    all.copied().collect::<BTreeSet<_>>().into_iter()
}

/// Whether a buffer is proven dead and its pointer lies only in a variable of the function itself.
fn is_private(facts: &Facts, buffer: &BufferPlan) -> bool {
    let Outcome::Dead(dead) = &buffer.outcome else { return false };
    let is_own = |capture: &Capture| matches!(capture, Capture::Allocation { .. });
    facts.buffers[buffer.buffer.index()].shared.is_none() && dead.captures.iter().all(is_own)
}

/// Marks buffers that are out of the caller's sight as [`Outcome::DeadInside`] where a called function declares them
/// dead.
fn mark_dead_inside(plans: &mut [FunctionPlan]) {
    let mut declared: BTreeMap<SiteOrigin, Vec<Place>> = BTreeMap::new();
    for FunctionPlan { facts, plan, .. } in plans.iter() {
        let own = plan.tasks.iter().flat_map(|task| &task.buffers).filter(|b| is_private(facts, b));
        for buffer in own.chain(&plan.dead) {
            let Outcome::Dead(dead) = &buffer.outcome else { continue };
            for origin in origins(facts, buffer.buffer) {
                declared.insert(origin, dead.last_uses.clone());
            }
        }
    }
    for FunctionPlan { facts, plan, .. } in plans.iter_mut() {
        for buffer in plan.tasks.iter_mut().flat_map(|task| &mut task.buffers) {
            let is_hidden = matches!(&buffer.outcome, Outcome::Alive { reason: AliveReason::OutOfSight, .. });
            let uses: Option<Vec<_>> =
                origins(facts, buffer.buffer).map(|origin| declared.get(&origin)).collect();
            if let Some(uses) = uses.filter(|_| is_hidden) {
                let last: BTreeSet<Place> = uses.into_iter().flatten().cloned().collect();
                buffer.outcome = Outcome::DeadInside { last_uses: last.into_iter().collect() };
            }
        }
    }
}

/// Sites that allocate a buffer.
fn origins(facts: &Facts, buffer: BufferId) -> impl Iterator<Item = SiteOrigin> + '_ {
    let is_its =
        move |site: &&Site| matches!(site.kind, SiteKind::Allocation { buffer: made, .. } if made == buffer);
    facts.sites.iter().filter(is_its).map(|site| site.origin)
}
