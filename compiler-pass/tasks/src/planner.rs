//! Makes the plans: for each task either where it begins and ends and how much it needs, or why that is unknown.
//!
//! A task is placed in the function that sees all of it: every allocation, launch and free of the function itself and
//! of the functions that it calls (specification S-102: the requirement is known before the first kernel). Tasks of one
//! function whose active parts overlap are merged, because they must share a device. And a function that is planned as
//! part of its callers' tasks may also be called from elsewhere; the shim then binds its work lazily.

use std::collections::{BTreeMap, BTreeSet};

use crate::activity::Activity;
use crate::claims;
use crate::deaths::Deaths;
use crate::expand::{Expansion, WholeProgram};
use crate::facts::{Facts, Site, SiteKind, SiteOrigin};
use crate::flow::Flow;
use crate::grouping::{self, Group};
use crate::liveness::Liveness;
use crate::names::{BufferId, FrameId, FunctionId, Point};
use crate::placement::{Function, Placed, Refusal, Requirement};
use crate::plan::{FunctionPlan, LazyReason, Placement, Plan, TaskPlan, TaskRef};
use crate::pointers;
use crate::program::Program;
use crate::resolve::resolve;

/// A static task of a called function, as its callers see it.
#[derive(Clone, Debug)]
struct InnerTask {
    task: TaskRef,
    /// Begin of the task, as a point of its function.
    begin: Point,
    sites: BTreeSet<SiteOrigin>,
}

type InnerTasks = BTreeMap<FunctionId, Vec<InnerTask>>;

/// Extent (blocks times buffers, callees included) above which a function is not planned and its tasks are lazy
/// (specification S-406).
const EXTENT_MAX: usize = 4 << 20;
/// Extent above which no more large functions of a program are planned. Costs up to 6 s of compile time for each
/// million.
const EXTENTS_MAX: usize = 8 << 20;
/// Functions up to this extent are always planned and do not count towards [`EXTENTS_MAX`].
const EXTENT_FREE: usize = 1 << 16;

/// Number of frames in one function's graph, beyond which calls share frames.
const FRAMES_MAX: usize = 128;
/// Number of frames in one function's graph once the program's extent is used up.
const FRAMES_LATE: usize = 8;

/// Steps of the points-to analysis for all functions of a program together.
const POINTER_STEPS_MAX: usize = 5 * pointers::STEPS_MAX;
/// Steps that every function may take, even when the program's steps are used up.
const POINTER_STEPS_FREE: usize = 200_000;

/// Remaining work that may be spent on one program.
struct Budget {
    extent: usize,
    pointer_steps: usize,
}

impl Budget {
    /// Whether a function may be planned; deducts its work from the budget.
    fn allows(&mut self, facts: &Facts) -> bool {
        self.pointer_steps = self.pointer_steps.saturating_sub(facts.pointer_steps);
        if facts.incomplete {
            return false;
        }
        let extent = facts.blocks.len() * (facts.buffers.len() + 1);
        if extent <= EXTENT_FREE {
            return true;
        }
        let is_allowed = extent <= EXTENT_MAX.min(self.extent);
        if extent <= EXTENT_MAX {
            self.extent = self.extent.saturating_sub(extent);
        }
        is_allowed
    }

    /// Number of points-to steps that the next function may take.
    fn steps(&self) -> usize {
        self.pointer_steps.clamp(POINTER_STEPS_FREE, pointers::STEPS_MAX)
    }

    fn frames(&self) -> usize {
        if self.extent > 0 { FRAMES_MAX } else { FRAMES_LATE }
    }
}

/// Plans every function that uses the device, callees first.
#[must_use]
pub fn plan_program(program: &Program) -> Vec<FunctionPlan> {
    let whole = WholeProgram::of(program);
    let reachable = program.reachable_globals();
    let mut inner = InnerTasks::new();
    let mut plans = Vec::new();
    let using = program.using_device();
    let mut budget = Budget { extent: EXTENTS_MAX, pointer_steps: POINTER_STEPS_MAX };
    for function in program.callees_first().into_iter().filter(|function| using[function.index()]) {
        let expansion = Expansion::new(program, &whole, function, budget.frames());
        let facts = resolve(&expansion, &reachable, budget.steps());
        let plan = if budget.allows(&facts) { plan_function(&facts, &inner) } else { plan_lazily(&facts) };
        inner.insert(function, inner_tasks(function, &facts, &plan));
        plans.push(FunctionPlan { function, facts, plan });
    }
    claims::settle(program, &mut plans);
    plans.sort_by_key(|plan| plan.function);
    plans
}

/// Plans one function without plans of the functions that it calls.
#[must_use]
pub fn plan(facts: &Facts) -> Plan {
    plan_function(facts, &InnerTasks::new())
}

fn inner_tasks(function: FunctionId, facts: &Facts, plan: &Plan) -> Vec<InnerTask> {
    let inner = |(ordinal, task): (usize, &TaskPlan)| match &task.placement {
        Placement::Static(placed) => Some(InnerTask {
            task: TaskRef { function, ordinal },
            begin: placed.begin,
            sites: task.sites.iter().map(|&site| facts.sites[site].origin).collect(),
        }),
        Placement::Lazy { .. } => None,
    };
    plan.tasks.iter().enumerate().filter_map(inner).collect()
}

/// Makes every task lazy without analysing paths.
fn plan_lazily(facts: &Facts) -> Plan {
    let flow = Flow::new(&facts.blocks);
    let (inner, deaths) = (InnerTasks::new(), Deaths::default());
    let function = Function { facts, flow: &flow };
    let planner = Planner { function, facts, inner: &inner, deaths: &deaths };
    let lazy = |group: &Group| {
        let is_task = function.has_launch(group) || !function.allocations(group).is_empty();
        let placement = Placement::Lazy { reason: LazyReason::TooLarge, place: None };
        (is_task && planner.home(group).is_none()).then(|| planner.task_plan(group.sites.clone(), placement))
    };
    let mut tasks: Vec<_> = grouping::groups(facts).iter().filter_map(lazy).collect();
    tasks.extend(planner.plan_rest());
    Plan { tasks, ..Plan::default() }
}

fn plan_function(facts: &Facts, inner: &InnerTasks) -> Plan {
    let flow = Flow::new(&facts.blocks).leaving_by(&facts.throws);
    let deaths = Deaths::new(facts, &flow);
    let planner = Planner { function: Function { facts, flow: &flow }, facts, inner, deaths: &deaths };
    let mut groups: Vec<Group> = grouping::groups(facts)
        .into_iter()
        .filter(|group| !group.sites.is_empty() && planner.is_own(group))
        .collect();
    planner.merge_overlapping(&mut groups);
    let mut tasks: Vec<_> = groups.iter().filter_map(|group| planner.plan_group(group)).collect();
    tasks.extend(planner.plan_rest());
    // Static tasks first: their positions must not change when lazy tasks are removed.
    tasks.sort_by_key(|task| {
        let is_lazy = matches!(task.placement, Placement::Lazy { .. });
        (is_lazy, task.sites.first().map(|&site| facts.sites[site].at))
    });
    Plan { tasks, ..Plan::default() }
}

struct Planner<'a> {
    function: Function<'a>,
    facts: &'a Facts,
    inner: &'a InnerTasks,
    deaths: &'a Deaths<'a>,
}

impl<'a> Planner<'a> {
    /// Frame called directly by the root that contains all sites of a group; `None` if there is none.
    fn home(&self, group: &Group) -> Option<FrameId> {
        let mut homes = group.sites.iter().map(|&site| {
            let frame = self.facts.frame(self.facts.sites[site].at);
            self.facts.callers(frame).filter(|&frame| frame != FrameId::ROOT).last()
        });
        let first = homes.next()??;
        homes.all(|home| home == Some(first)).then_some(first)
    }

    /// Whether the root plans a group. A group within one called function is left to that function, unless the root can
    /// place it and the function could not.
    fn is_own(&self, group: &Group) -> bool {
        let Some(home) = self.home(group) else { return true };
        let root = self.facts.frames[FrameId::ROOT.index()].function;
        if self.facts.frames[home.index()].function == root {
            return false;
        }
        let is_placed_inside = |&site: &usize| {
            let site = &self.facts.sites[site];
            !matches!(site.kind, SiteKind::Allocation { .. } | SiteKind::Launch { .. })
                || self.facts.callers(self.facts.frame(site.at)).any(|frame| {
                    let tasks = self.inner.get(&self.facts.frames[frame.index()].function);
                    tasks.is_some_and(|tasks| tasks.iter().any(|task| task.sites.contains(&site.origin)))
                })
        };
        !group.sites.iter().all(is_placed_inside) && self.place_statically(group).is_ok()
    }

    fn place_statically(&self, group: &Group) -> Result<(Placed<'a>, Requirement), Refusal> {
        let placed = self.function.place(group)?;
        let requirement = self.requirement(group, &placed.liveness, placed.begin)?;
        Ok((placed, requirement))
    }

    /// Counts deaths of the group's own buffers only. Deaths of other buffers are declared to the shim by the functions
    /// that hold them.
    fn requirement(
        &self,
        group: &Group,
        liveness: &Liveness<'_>,
        begin: Point,
    ) -> Result<Requirement, Refusal> {
        let occupies = |buffer: BufferId, at: Point| {
            !group.buffers.contains(&buffer) || self.deaths.occupies(buffer, at)
        };
        self.function.requirement(liveness, begin, occupies)
    }

    /// Plans a group; `None` for handles that no task uses.
    fn plan_group(&self, group: &Group) -> Option<TaskPlan> {
        let place = || group.sites.first().and_then(|&site| self.facts.sites[site].place.clone());
        let refuse =
            |reason| Some(self.task_plan(group.sites.clone(), Placement::Lazy { reason, place: place() }));
        let has_memory = !self.function.allocations(group).is_empty();
        match (self.function.has_launch(group), has_memory) {
            (false, false) => return None,
            (false, true) => return refuse(LazyReason::NoLaunchHere),
            (true, false) => {
                let reason = match self.function.place(group) {
                    Err((reason @ LazyReason::ForeignBuffer { .. }, _)) => reason,
                    _ => LazyReason::NoAllocationHere,
                };
                return refuse(reason);
            }
            (true, true) => {}
        }
        let placement = match self.place_statically(group) {
            Ok((placed, requirement)) => {
                let (requirement, covered) = self.cover(&placed, requirement);
                Placement::Static(self.function.finish(&placed, requirement, covered))
            }
            Err((reason, place)) => Placement::Lazy { reason, place },
        };
        Some(self.task_plan(group.sites.clone(), placement))
    }

    fn task_plan(&self, sites: Vec<usize>, placement: Placement) -> TaskPlan {
        let all = || sites.iter().map(|&site| &self.facts.sites[site]);
        let is_allocation = |site: &&Site| matches!(site.kind, SiteKind::Allocation { .. });
        let place = all().find(is_allocation).or_else(|| all().next()).and_then(|site| site.place.clone());
        let launches = all().filter(|site| matches!(site.kind, SiteKind::Launch { .. })).count();
        let made: BTreeSet<BufferId> = all()
            .filter_map(|site| match site.kind {
                SiteKind::Allocation { buffer, .. } => Some(buffer),
                _ => None,
            })
            .collect();
        let buffers = made.into_iter().filter_map(|buffer| self.deaths.plan(buffer).cloned()).collect();
        let launch_sites = u32::try_from(launches).unwrap_or(u32::MAX);
        TaskPlan { place, launch_sites, buffers, sites, placement }
    }

    /// Adds to a requirement the needs of called functions' tasks that begin while this one is active, if they are
    /// known at its begin. The remaining inner tasks extend this task when they begin.
    fn cover(&self, placed: &Placed<'a>, own: Requirement) -> (Requirement, Vec<TaskRef>) {
        let activity =
            Activity::new(self.facts, self.function.flow, &placed.liveness, &placed.group, placed.begin);
        let mut within: BTreeMap<TaskRef, Vec<usize>> = BTreeMap::new();
        for (frame, facts) in (0_u32..).map(FrameId).zip(&self.facts.frames).skip(1) {
            for task in self.inner.get(&facts.function).into_iter().flatten() {
                if self.point_in(frame, task.begin).is_some_and(|begin| activity.is_active(begin)) {
                    within.entry(task.task).or_default().extend(self.sites_of(frame, task));
                }
            }
        }
        let (mut found, mut covered) = (own, Vec::new());
        let mut sites = placed.group.sites.clone();
        for (task, inside) in within {
            let mut all = [sites.clone(), inside.clone()].concat();
            all.sort_unstable();
            all.dedup();
            let liveness = Liveness::new(self.facts, &all);
            let grows = |&site: &usize| {
                liveness.accumulates(site) && self.function.flow.in_cycle(self.facts.sites[site].at.block)
            };
            if inside.iter().any(grows) {
                continue;
            }
            if let Ok(requirement) = self.requirement(&placed.group, &liveness, placed.begin) {
                (found, sites) = (requirement, all);
                covered.push(task);
            }
        }
        (found, covered)
    }

    /// A point of a frame's function in the graph.
    fn point_in(&self, frame: FrameId, point: Point) -> Option<Point> {
        let position = self.facts.blocks.iter().position(|block| {
            block.frame == frame
                && block.origin == point.block
                && (block.first..block.end).contains(&point.position)
        })?;
        Some(Point { block: crate::names::BlockId::from_index(position), position: point.position })
    }

    fn sites_of(&self, frame: FrameId, task: &InnerTask) -> Vec<usize> {
        let is_inside = |site: &Site| {
            task.sites.contains(&site.origin)
                && self.facts.callers(self.facts.frame(site.at)).any(|caller| caller == frame)
        };
        (0..self.facts.sites.len()).filter(|&site| is_inside(&self.facts.sites[site])).collect()
    }

    /// One lazy task for the function's own launches and allocations that concern none of its buffers.
    fn plan_rest(&self) -> Option<TaskPlan> {
        let reason = |site: &Site| match &site.kind {
            _ if self.facts.frame(site.at) != FrameId::ROOT => None,
            SiteKind::ForeignAllocation { into } => {
                Some(LazyReason::ForeignAllocation { into: into.clone() })
            }
            SiteKind::Launch { buffers, foreign: Some(buffer), .. } if buffers.is_empty() => {
                Some(LazyReason::ForeignBuffer { buffer: buffer.clone() })
            }
            _ => None,
        };
        let all = 0..self.facts.sites.len();
        let sites: Vec<_> = all.filter(|&site| reason(&self.facts.sites[site]).is_some()).collect();
        let first = &self.facts.sites[*sites.first()?];
        let placement = Placement::Lazy { reason: reason(first)?, place: first.place.clone() };
        Some(self.task_plan(sites, placement))
    }

    /// Merges groups that can be placed and whose active parts overlap, if one of the two launches.
    fn merge_overlapping(&self, groups: &mut Vec<Group>) {
        let place = |group: &Group| self.place_statically(group).ok().map(|(placed, _)| placed);
        let mut placed: Vec<Option<Placed<'_>>> = groups.iter().map(place).collect();
        let mut changed = true;
        while std::mem::take(&mut changed) {
            let mut a = 0;
            while a < groups.len() {
                match self.overlapping(groups, &placed, a) {
                    Some(b) => {
                        let (low, high) = (a.min(b), a.max(b));
                        let second = groups.remove(high);
                        placed.remove(high);
                        groups[low] = grouping::merged(&groups[low], &second);
                        placed[low] = place(&groups[low]);
                        (a, changed) = (low, true);
                    }
                    None => a += 1,
                }
            }
        }
    }

    /// Finds a group that overlaps with the group at index `a`.
    fn overlapping(&self, groups: &[Group], placed: &[Option<Placed<'_>>], a: usize) -> Option<usize> {
        let own = placed[a].as_ref()?;
        let activity = Activity::new(self.facts, self.function.flow, &own.liveness, &groups[a], own.begin);
        let touches = |b: usize| {
            let Some(other) = &placed[b] else { return false };
            let launches = self.function.has_launch(&groups[a]) || self.function.has_launch(&groups[b]);
            let mut points = groups[b].sites.iter().map(|&site| self.facts.sites[site].at);
            launches && (activity.is_active(other.begin) || points.any(|point| activity.is_active(point)))
        };
        (0..groups.len()).find(|&b| b != a && touches(b))
    }
}
