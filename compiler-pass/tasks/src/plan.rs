//! The plan: for each task either where it begins and ends and how large it is, or why that cannot be said.
//!
//! Static needs: all allocations, launches and frees in one function, no allocation in a loop, and a point before all of
//! them where the sum of the sizes can be computed (specification §2: the requirement is known before the first kernel).
//! Trap: tasks of one function whose active parts overlap are made one, because the shim charges an allocation to the
//! task that began last.

use serde::{Deserialize, Serialize};

use crate::activity::Activity;
use crate::expr::Expr;
use crate::facts::{EscapeKind, Facts, ForeignBuffer, LeafId, LeafSource, Place, Point, Site, SiteKind};
use crate::flow::Flow;
pub use crate::flow::Spot;
use crate::grouping::{self, Group};

/// One function's plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub tasks: Vec<TaskPlan>,
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPlan {
    /// Its sites, as indices into [`Facts::sites`].
    pub sites: Vec<usize>,
    /// The first allocation, else the first site.
    pub place: Option<Place>,
    pub launch_sites: u32,
    pub placement: Placement,
}

/// Where the decisions about a task are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// At compile time.
    Static(StaticTask),
    /// At run time: the shim binds the task at its first launch.
    Lazy { reason: LazyReason, place: Option<Place> },
}

/// What the pass inserts for a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticTask {
    pub begin: Point,
    /// The requirement is the sum of these, in bytes.
    pub sizes: Vec<Expr>,
    /// Leaves that must be loaded again at the begin.
    pub reloads: Vec<LeafId>,
    /// Every allocation runs on every path that returns; otherwise the sum is an upper bound.
    pub exact: bool,
    pub all_launched: Vec<Spot>,
    pub ends: Vec<Spot>,
    /// A buffer is not freed on some path: the task ends at the function's return there.
    pub ends_at_return: bool,
}

/// Why a task is left to the shim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LazyReason {
    ForeignBuffer { buffer: ForeignBuffer },
    ForeignAllocation { into: ForeignBuffer },
    Escape { kind: EscapeKind },
    NoLaunchHere,
    NoAllocationHere,
    AllocationInLoop,
    ExclusiveAllocations,
    SizeKnownLate { leaf: String },
    PartlyConditional,
    Unreachable,
}

impl std::fmt::Display for LazyReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ForeignBuffer { buffer } => write!(f, "a kernel gets a buffer that comes from {buffer}"),
            Self::ForeignAllocation { into } => write!(f, "a buffer is allocated into {into}"),
            Self::Escape { kind: EscapeKind::Call { callee } } => {
                write!(f, "a device pointer is given to {callee}, which may launch, allocate or free")
            }
            Self::Escape { kind: EscapeKind::Stored } => {
                f.write_str("a device pointer is stored outside the function")
            }
            Self::Escape { kind: EscapeKind::Returned } => f.write_str("a device pointer is returned"),
            Self::NoLaunchHere => f.write_str("no kernel in this function uses the buffer"),
            Self::NoAllocationHere => f.write_str("the buffers are not allocated in this function"),
            Self::AllocationInLoop => f.write_str("a buffer is allocated in a loop"),
            Self::ExclusiveAllocations => {
                f.write_str("two buffers are allocated on paths that exclude each other")
            }
            Self::SizeKnownLate { leaf } => {
                write!(f, "a size is not known before the first allocation: it depends on {leaf}")
            }
            Self::PartlyConditional => {
                f.write_str("a copy or free also runs on paths without the allocations")
            }
            Self::Unreachable => f.write_str("its code cannot be reached"),
        }
    }
}

impl std::fmt::Display for ForeignBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Argument => f.write_str("an argument of the function"),
            Self::Global { name } => write!(f, "the global {name}"),
            Self::CallResult => f.write_str("the result of a call"),
            Self::Memory => f.write_str("memory that others may write"),
        }
    }
}

/// Plans every task of a function.
#[must_use]
pub fn plan(facts: &Facts) -> Plan {
    let flow = Flow::new(&facts.blocks);
    let mut groups: Vec<Group> =
        grouping::groups(facts).into_iter().filter(|group| !group.sites.is_empty()).collect();
    while let Some((a, b)) = overlapping(facts, &flow, &groups) {
        let second = groups.remove(b);
        groups[a] = grouping::merged(&groups[a], &second);
    }
    let mut tasks: Vec<_> = groups.iter().map(|group| plan_group(facts, &flow, group)).collect();
    tasks.extend(plan_rest(facts));
    tasks.sort_by_key(|task| task.sites.first().map(|&site| facts.sites[site].at));
    Plan { tasks }
}

fn plan_group(facts: &Facts, flow: &Flow<'_>, group: &Group) -> TaskPlan {
    let placement = match place_statically(facts, flow, group) {
        Ok(task) => Placement::Static(task),
        Err((reason, place)) => Placement::Lazy { reason, place },
    };
    task_plan(facts, group.sites.clone(), placement)
}

fn task_plan(facts: &Facts, sites: Vec<usize>, placement: Placement) -> TaskPlan {
    let all = || sites.iter().map(|&site| &facts.sites[site]);
    let is_allocation = |site: &&Site| matches!(site.kind, SiteKind::Allocation { .. });
    let place = all().find(is_allocation).or_else(|| all().next()).and_then(|site| site.place.clone());
    let launches = all().filter(|site| matches!(site.kind, SiteKind::Launch { .. })).count();
    TaskPlan { place, launch_sites: u32::try_from(launches).unwrap_or(u32::MAX), sites, placement }
}

/// One lazy task for the launches and allocations that concern no buffer of this function.
fn plan_rest(facts: &Facts) -> Option<TaskPlan> {
    let reason = |site: &Site| match &site.kind {
        SiteKind::ForeignAllocation { into } => Some(LazyReason::ForeignAllocation { into: into.clone() }),
        SiteKind::Launch { buffers, foreign: Some(buffer), .. } if buffers.is_empty() => {
            Some(LazyReason::ForeignBuffer { buffer: buffer.clone() })
        }
        _ => None,
    };
    let sites: Vec<_> = (0..facts.sites.len()).filter(|&site| reason(&facts.sites[site]).is_some()).collect();
    let first = &facts.sites[*sites.first()?];
    let placement = Placement::Lazy { reason: reason(first)?, place: first.place.clone() };
    Some(task_plan(facts, sites, placement))
}

type Refusal = (LazyReason, Option<Place>);

fn place_statically(facts: &Facts, flow: &Flow<'_>, group: &Group) -> Result<StaticTask, Refusal> {
    let sites: Vec<&Site> = group.sites.iter().map(|&site| &facts.sites[site]).collect();
    check_sites(&sites)?;
    let begin = begin_point(flow, &sites)?;
    check_allocations(flow, &sites, begin)?;
    let (sizes, reloads) = sizes_at(facts, flow, &sites, begin)?;
    let activity = Activity::new(facts, flow, group, begin);
    let exact =
        allocations(&sites).all(|(site, _)| flow.post_dominance.dominates(site.at.block, begin.block));
    Ok(StaticTask {
        begin,
        sizes,
        reloads,
        exact,
        all_launched: activity.all_launched(),
        ends: activity.ends(),
        ends_at_return: activity.outlives_frees(),
    })
}

fn allocations<'a>(sites: &'a [&'a Site]) -> impl Iterator<Item = (&'a Site, &'a Expr)> {
    sites.iter().filter_map(|site| match &site.kind {
        SiteKind::Allocation { size, .. } => Some((*site, size)),
        _ => None,
    })
}

/// Refuses tasks that another function may have a part in.
fn check_sites(sites: &[&Site]) -> Result<(), Refusal> {
    for site in sites {
        let reason = match &site.kind {
            SiteKind::Launch { foreign: Some(buffer), .. } => {
                LazyReason::ForeignBuffer { buffer: buffer.clone() }
            }
            SiteKind::Escape { kind, .. } => LazyReason::Escape { kind: kind.clone() },
            _ => continue,
        };
        return Err((reason, site.place.clone()));
    }
    let place = || sites.first().and_then(|site| site.place.clone());
    if !sites.iter().any(|site| matches!(site.kind, SiteKind::Launch { .. })) {
        return Err((LazyReason::NoLaunchHere, place()));
    }
    if allocations(sites).next().is_none() {
        return Err((LazyReason::NoAllocationHere, place()));
    }
    Ok(())
}

/// The last point that every path to an allocation or launch passes, outside every loop.
fn begin_point(flow: &Flow<'_>, sites: &[&Site]) -> Result<Point, Refusal> {
    let uses =
        sites.iter().filter(|s| matches!(s.kind, SiteKind::Allocation { .. } | SiteKind::Launch { .. }));
    let unreachable = || (LazyReason::Unreachable, sites.first().and_then(|site| site.place.clone()));
    let mut block = flow.dominance.nearest_common(uses.map(|site| site.at.block)).ok_or_else(unreachable)?;
    while flow.in_cycle(block) {
        block = flow.dominance.immediate(block).ok_or_else(unreachable)?;
    }
    let first_here = sites.iter().map(|site| site.at).filter(|at| at.block == block).min();
    Ok(first_here.unwrap_or_else(|| flow.terminator(block)))
}

fn check_allocations(flow: &Flow<'_>, sites: &[&Site], begin: Point) -> Result<(), Refusal> {
    let all: Vec<_> = allocations(sites).map(|(site, _)| site).collect();
    for (index, site) in all.iter().enumerate() {
        if flow.in_cycle(site.at.block) {
            return Err((LazyReason::AllocationInLoop, site.place.clone()));
        }
        let excludes = |other: &&Site| !flow.reaches(site.at, other.at) && !flow.reaches(other.at, site.at);
        if all[..index].iter().any(excludes) {
            return Err((LazyReason::ExclusiveAllocations, site.place.clone()));
        }
    }
    match sites.iter().find(|site| !flow.point_dominates(begin, site.at)) {
        Some(site) => Err((LazyReason::PartlyConditional, site.place.clone())),
        None => Ok(()),
    }
}

/// The sizes as they can be computed at `begin`, with the leaves to load again there.
fn sizes_at(
    facts: &Facts,
    flow: &Flow<'_>,
    sites: &[&Site],
    begin: Point,
) -> Result<(Vec<Expr>, Vec<LeafId>), Refusal> {
    let mut sizes = Vec::new();
    let mut reloads = Vec::new();
    for (site, size) in allocations(sites) {
        for id in size.leaves() {
            let leaf = &facts.leaves[id.index()];
            match availability(flow, &leaf.source, begin) {
                Availability::Known => {}
                Availability::Reload => reloads.push(id),
                Availability::Late => {
                    let reason = LazyReason::SizeKnownLate { leaf: leaf.description.clone() };
                    return Err((reason, site.place.clone()));
                }
            }
        }
        sizes.push(size.clone());
    }
    reloads.sort_unstable();
    reloads.dedup();
    Ok((sizes, reloads))
}

enum Availability {
    Known,
    Reload,
    Late,
}

fn availability(flow: &Flow<'_>, source: &LeafSource, begin: Point) -> Availability {
    let runs_before = |at: Point| at != begin && flow.point_dominates(at, begin);
    match source {
        LeafSource::Argument => Availability::Known,
        LeafSource::Instruction(at) | LeafSource::Memory { at, .. } if runs_before(*at) => {
            Availability::Known
        }
        LeafSource::Instruction(_) => Availability::Late,
        LeafSource::Memory { at, clobbers } => {
            let between = |clobber: &Point| {
                (*clobber == begin || flow.reaches(begin, *clobber)) && (flow.reaches(*clobber, *at))
            };
            let same = flow.point_dominates(begin, *at) && !clobbers.iter().any(between);
            if same { Availability::Reload } else { Availability::Late }
        }
    }
}

/// Two groups, lower index first, that can both be placed statically and whose active parts overlap.
fn overlapping(facts: &Facts, flow: &Flow<'_>, groups: &[Group]) -> Option<(usize, usize)> {
    let begins: Vec<Option<Point>> =
        groups.iter().map(|group| place_statically(facts, flow, group).ok().map(|task| task.begin)).collect();
    for (a, begin) in begins.iter().enumerate() {
        let Some(begin) = *begin else { continue };
        let activity = Activity::new(facts, flow, &groups[a], begin);
        let touches = |b: usize| {
            let mut points = groups[b].sites.iter().map(|&site| facts.sites[site].at).chain(begins[b]);
            points.any(|point| activity.is_active(point))
        };
        if let Some(b) = (0..groups.len()).find(|&b| b != a && begins[b].is_some() && touches(b)) {
            return Some((a.min(b), a.max(b)));
        }
    }
    None
}
