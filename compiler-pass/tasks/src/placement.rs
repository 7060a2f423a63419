//! Finds where one task begins and ends in a function and how much memory it needs there, or why that cannot be
//! determined.
//!
//! Trap: the begin must lie in the function itself, outside every loop, and before everything of the task on every
//! path. So a value that becomes known later, or only inside a called function, cannot be used as a size.

use crate::activity::Activity;
use crate::expr::Expr;
use crate::facts::{
    BlockFacts, BufferKind, EscapeKind, Exit, Facts, Leaf, LeafSource, Reload, Site, SiteKind,
};
use crate::flow::Flow;
use crate::grouping::Group;
use crate::liveness::{LiveSet, Liveness};
use crate::names::{BufferId, FrameId, LeafId, Place, Point};
use crate::plan::{LazyReason, StaticTask, TaskRef};
use crate::program::Geometry;

/// Why a task is lazy, and the place in the source that shows it.
pub type Refusal = (LazyReason, Option<Place>);

/// Facts and graph of one function.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    pub facts: &'a Facts,
    pub flow: &'a Flow<'a>,
}

/// A task whose begin has been found; `begin` is a point of the graph.
#[derive(Debug)]
pub struct Placed<'a> {
    pub group: Group,
    pub begin: Point,
    pub liveness: Liveness<'a>,
}

/// The largest amount of memory that a task has allocated at once, as expressions that can be computed at the begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirement {
    /// The requirement in bytes is the largest of these sums.
    pub sums: Vec<Vec<Expr>>,
    pub reloads: Vec<LeafId>,
    pub reuses: bool,
    /// The largest amount in use at once, between first use and death, is the largest of these sums.
    pub live_sums: Vec<Vec<Expr>>,
    /// By sum: the allocations that it counts.
    peaks: Vec<LiveSet>,
}

impl<'a> Function<'a> {
    fn site(self, index: usize) -> &'a Site {
        &self.facts.sites[index]
    }

    fn sites(self, group: &Group) -> impl Iterator<Item = &'a Site> {
        group.sites.clone().into_iter().map(move |site| self.site(site))
    }

    fn kind(self, buffer: crate::names::BufferId) -> BufferKind {
        self.facts.buffers[buffer.index()].kind
    }

    /// Allocations of device memory, as indices into [`Facts::sites`].
    pub fn allocations(self, group: &Group) -> Vec<usize> {
        let is_memory = |&site: &usize| match self.site(site).kind {
            SiteKind::Allocation { buffer, .. } => self.kind(buffer) == BufferKind::Memory,
            _ => false,
        };
        group.sites.iter().copied().filter(is_memory).collect()
    }

    #[must_use]
    pub fn has_launch(self, group: &Group) -> bool {
        self.sites(group).any(|site| matches!(site.kind, SiteKind::Launch { .. }))
    }

    /// Finds the begin of a group.
    ///
    /// # Errors
    /// Why the group cannot be a static task.
    pub fn place(self, group: &Group) -> Result<Placed<'a>, Refusal> {
        // Checked first, because the liveness analysis is slow on functions that call each other.
        self.check_recursion(group)?;
        let liveness = Liveness::new(self.facts, &group.sites);
        self.check_foreign(group, &liveness)?;
        self.check_shared(group, &liveness)?;
        self.check_allocations(group, &liveness)?;
        let begin = self.begin_point(group)?;
        if let Some(site) = self.sites(group).find(|site| !self.flow.point_dominates(begin, site.at)) {
            return Err((LazyReason::PartlyConditional, site.place.clone()));
        }
        Ok(Placed { group: group.clone(), begin, liveness })
    }

    /// Refuses tasks in which unseen code may take part.
    fn check_foreign(self, group: &Group, liveness: &Liveness<'_>) -> Result<(), Refusal> {
        for site in self.sites(group) {
            let reason = match &site.kind {
                SiteKind::Launch { foreign: Some(buffer), .. } => {
                    LazyReason::ForeignBuffer { buffer: buffer.clone() }
                }
                SiteKind::Escape { kind: kind @ EscapeKind::Reachable { .. }, buffers } => {
                    let own = buffers.iter().filter(|buffer| group.buffers.contains(buffer));
                    if !own.into_iter().any(|&buffer| liveness.may_hold(buffer, site.at)) {
                        continue;
                    }
                    LazyReason::Escape { kind: kind.clone() }
                }
                SiteKind::Escape { kind, .. } => LazyReason::Escape { kind: kind.clone() },
                _ => continue,
            };
            return Err((reason, site.place.clone()));
        }
        Ok(())
    }

    /// Refuses buffers that may outlive the function, or exist before it, in memory that outside code can reach.
    /// Skipped for `main`, which runs only once.
    fn check_shared(self, group: &Group, liveness: &Liveness<'_>) -> Result<(), Refusal> {
        if self.facts.is_main() {
            return Ok(());
        }
        for &buffer in &group.buffers {
            let facts = &self.facts.buffers[buffer.index()];
            let Some(shared) = &facts.shared else { continue };
            let of_buffer = |site: &&Site| site.kind.buffers().contains(&buffer);
            let is_allocation =
                |site: &Site| matches!(site.kind, SiteKind::Allocation { buffer: b, .. } if b == buffer);
            let made: Vec<_> =
                self.sites(group).filter(|site| is_allocation(site)).map(|site| site.at).collect();
            let uses = self.sites(group).filter(of_buffer).filter(|site| !is_allocation(site));
            let is_from_before = |site: &Site| {
                !matches!(site.kind, SiteKind::Escape { .. }) && self.flow.avoids(site.at, &made)
            };
            let mut from_before = uses.filter(|site| is_from_before(site));
            let lives_on = || match facts.kind {
                BufferKind::Memory => {
                    let unseen = self.facts.leaving.iter().copied();
                    self.returns().chain(unseen).any(|end| liveness.may_hold(buffer, end))
                }
                BufferKind::Handle => true,
                BufferKind::Symbols => false,
            };
            let first = from_before.next();
            if first.is_some() || lives_on() {
                let place = first.or_else(|| self.sites(group).next()).and_then(|site| site.place.clone());
                return Err((LazyReason::Outlives { holder: shared.clone() }, place));
            }
        }
        Ok(())
    }

    fn returns(self) -> impl Iterator<Item = Point> {
        let is_return = |block: &BlockFacts| block.exit == Some(Exit::Return) && block.frame == FrameId::ROOT;
        let blocks = self.facts.blocks.iter().enumerate().filter(move |(_, block)| is_return(block));
        blocks.map(move |(index, _)| self.flow.terminator(crate::names::BlockId::from_index(index)))
    }

    fn check_recursion(self, group: &Group) -> Result<(), Refusal> {
        let allocations = self.allocations(group);
        let found =
            allocations.into_iter().map(|index| self.site(index)).find(|site| self.is_in_recursion(site));
        found.map_or(Ok(()), |site| Err((LazyReason::AllocationInRecursion, site.place.clone())))
    }

    fn check_allocations(self, group: &Group, liveness: &Liveness<'_>) -> Result<(), Refusal> {
        for index in self.allocations(group) {
            let site = self.site(index);
            if liveness.accumulates(index) && self.flow.in_cycle(site.at.block) {
                return Err((LazyReason::AllocationInLoop, site.place.clone()));
            }
        }
        Ok(())
    }

    /// Whether the same allocation runs in the root and again where the root calls itself.
    fn is_in_recursion(self, site: &Site) -> bool {
        let function = |frame: FrameId| self.facts.frames[frame.index()].function;
        let root = function(FrameId::ROOT);
        let in_root_again = |other: &Site| {
            let frame = self.facts.frame(other.at);
            other.origin == site.origin
                && self.facts.callers(frame).any(|f| f != FrameId::ROOT && function(f) == root)
        };
        self.facts.sites.iter().any(in_root_again)
    }

    /// The last point of the root, outside every loop, that every path to an allocation or launch of the group passes.
    fn begin_point(self, group: &Group) -> Result<Point, Refusal> {
        let uses = self
            .sites(group)
            .filter(|s| matches!(s.kind, SiteKind::Allocation { .. } | SiteKind::Launch { .. }));
        let place = self.sites(group).next().and_then(|site| site.place.clone());
        let unreachable = || (LazyReason::Unreachable, place.clone());
        let dominance = &self.flow.dominance;
        let mut block = dominance.nearest_common(uses.map(|site| site.at.block)).ok_or_else(unreachable)?;
        let is_fit = |block: crate::names::BlockId| {
            let facts = &self.facts.blocks[block.index()];
            facts.frame == FrameId::ROOT && facts.first < facts.end && !self.flow.in_cycle(block)
        };
        while !is_fit(block) {
            block = dominance.immediate(block).ok_or_else(unreachable)?;
        }
        let first_here = self.sites(group).map(|site| site.at).filter(|at| at.block == block).min();
        Ok(first_here.unwrap_or_else(|| self.flow.terminator(block)))
    }

    /// Computes the most memory that the allocations in `liveness` need at once, as known at `begin`. `occupies`:
    /// whether a buffer's memory may be in use around the instruction at a point.
    ///
    /// # Errors
    /// Returns the refusal if a size is not known at `begin`.
    pub fn requirement(
        self,
        liveness: &Liveness<'_>,
        begin: Point,
        occupies: impl Fn(BufferId, Point) -> bool,
    ) -> Result<Requirement, Refusal> {
        let mut found = Requirement::default();
        let peaks = liveness.peaks();
        for set in &peaks {
            found.sums.push(self.sum(set, begin, &mut found.reloads)?);
        }
        for set in liveness.peaks_in_use(&self.facts.contents.uses, occupies) {
            found.live_sums.push(self.sum(&set, begin, &mut found.reloads)?);
        }
        found.reloads.sort_unstable();
        found.reloads.dedup();
        found.peaks = peaks.clone();
        let in_turn = |set: &LiveSet| set.iter().any(|&site| self.flow.in_cycle(self.site(site).at.block));
        let is_below_sum = peaks.len() > 1 || peaks.iter().any(in_turn);
        found.reuses = is_below_sum && liveness.reuses(|from, to| self.flow.reaches(from, to));
        Ok(found)
    }

    fn sum(self, set: &LiveSet, begin: Point, reloads: &mut Vec<LeafId>) -> Result<Vec<Expr>, Refusal> {
        set.iter().map(|&allocation| self.size_at(allocation, begin, reloads)).collect()
    }

    fn size_at(self, allocation: usize, begin: Point, reloads: &mut Vec<LeafId>) -> Result<Expr, Refusal> {
        let site = self.site(allocation);
        let SiteKind::Allocation { call, size, .. } = &site.kind else {
            return Err((LazyReason::NoAllocationHere, site.place.clone()));
        };
        let Some(size) = size else {
            return Err((LazyReason::SizeUnknown { call: call.clone() }, site.place.clone()));
        };
        match self.known_at(size, begin, reloads) {
            Ok(()) => Ok(size.clone()),
            Err(leaf) => {
                Err((LazyReason::SizeKnownLate { leaf: leaf.description.clone() }, site.place.clone()))
            }
        }
    }

    /// Checks that an expression can be computed at `begin`, and adds the leaves that must be loaded there to
    /// `reloads`. The error is a leaf that is not known there.
    fn known_at(self, expr: &Expr, begin: Point, reloads: &mut Vec<LeafId>) -> Result<(), &'a Leaf> {
        for id in expr.leaves() {
            let leaf = &self.facts.leaves[id.index()];
            match self.availability(leaf, begin) {
                Availability::Known => {}
                Availability::Reload => reloads.push(id),
                Availability::Late => return Err(leaf),
            }
        }
        Ok(())
    }

    fn availability(self, leaf: &Leaf, begin: Point) -> Availability {
        let runs_before = |at: Point| at != begin && self.flow.point_dominates(at, begin);
        match &leaf.source {
            LeafSource::Argument => Availability::Known,
            LeafSource::Instruction(at) | LeafSource::Memory { at, is_loaded: true, .. }
                if runs_before(*at) =>
            {
                Availability::Known
            }
            LeafSource::Instruction(_) | LeafSource::Inner => Availability::Late,
            LeafSource::Memory { at, clobbers, .. } => {
                let used =
                    |&at: &Point| self.flow.point_dominates(at, begin) || self.flow.is_unavoidable(begin, at);
                let is_there =
                    |reload: &Reload| reload.witnesses.as_ref().is_none_or(|points| points.iter().any(used));
                let has_base = leaf
                    .reload
                    .as_ref()
                    .is_some_and(|reload| reload.from.is_none_or(runs_before) && is_there(reload));
                let between = |clobber: &Point| {
                    (*clobber == begin || self.flow.reaches(begin, *clobber))
                        && self.flow.reaches(*clobber, *at)
                };
                let is_later = self.flow.point_dominates(begin, *at);
                let same = has_base && is_later && !clobbers.iter().any(between);
                if same { Availability::Reload } else { Availability::Late }
            }
        }
    }

    /// The geometry of the first launch whose geometry can be computed at the begin.
    fn geometry(self, placed: &Placed<'_>, reloads: &mut Vec<LeafId>) -> Option<Geometry> {
        self.sites(&placed.group).find_map(|site| {
            let SiteKind::Launch { geometry: Some(geometry), .. } = &site.kind else { return None };
            let mut needed = Vec::new();
            self.known_at(&geometry.blocks, placed.begin, &mut needed).ok()?;
            self.known_at(&geometry.threads, placed.begin, &mut needed).ok()?;
            reloads.extend(needed);
            Some(geometry.clone())
        })
    }

    /// Whether every path that leaves the function has had the whole peak allocated at once. Requires a single peak,
    /// each of whose allocations always runs, and none of whose memory can be freed before the others are allocated.
    fn is_exact(self, peaks: &[LiveSet], begin: Point) -> bool {
        let [peak] = peaks else { return false };
        let made: Vec<_> =
            peak.iter().map(|&site| (self.site(site).at, self.site(site).kind.buffers())).collect();
        let always = |at: Point| {
            self.flow.post_dominance.dominates(at.block, begin.block)
                && self.facts.throws.iter().all(|&call| {
                    !self.flow.point_dominates(begin, call) || self.flow.point_dominates(at.after(), call)
                })
        };
        let is_early = |free: &Site| {
            let frees = |&&(at, buffers): &&(Point, &[crate::names::BufferId])| {
                buffers.iter().any(|buffer| free.kind.buffers().contains(buffer))
                    && self.flow.reaches(at, free.at)
            };
            made.iter().any(|made| frees(&made))
                && made
                    .iter()
                    .any(|&(at, _)| self.flow.reaches(free.at, at) && self.flow.avoids(free.at, &[at]))
        };
        let frees = self.facts.sites.iter().filter(|site| matches!(site.kind, SiteKind::Free { .. }));
        made.iter().all(|&(at, _)| always(at)) && !frees.into_iter().any(is_early)
    }

    /// Whether every use of a buffer is visible and passes a pointer to it.
    fn is_named(self, buffer: BufferId) -> bool {
        let (contents, of) = (&self.facts.contents, &self.facts.buffers[buffer.index()]);
        of.kind != BufferKind::Memory
            || !contents.kept.contains_key(&buffer)
                && !contents.indirect.contains(&buffer)
                && (of.shared.is_none() || self.facts.is_main())
    }

    /// Returns the code that the pass inserts for a placed task; `requirement` includes the needs of the tasks in
    /// `covered`.
    #[must_use]
    pub fn finish(self, placed: &Placed<'a>, requirement: Requirement, covered: Vec<TaskRef>) -> StaticTask {
        let Placed { group, begin, liveness } = placed;
        let activity = Activity::new(self.facts, self.flow, liveness, group, *begin);
        let allocations = self.allocations(group);
        let unwinds = activity.unwinds();
        let exact = self.is_exact(&requirement.peaks, *begin);
        let Requirement { sums, mut reloads, reuses, live_sums, .. } = requirement;
        let geometry = self.geometry(placed, &mut reloads);
        reloads.sort_unstable();
        reloads.dedup();
        let origin = self.facts.blocks[begin.block.index()].origin;
        StaticTask {
            begin: Point { block: origin, position: begin.position },
            reloads,
            geometry,
            exact,
            reuses,
            live_reuses: live_sums.len() > 1 && live_sums != sums,
            named: group.buffers.iter().all(|&buffer| self.is_named(buffer)),
            live_sums,
            sums,
            allocations: allocations.len(),
            covered,
            all_launched: activity.all_launched(),
            ends: activity.ends(),
            unwinds,
            ends_at_return: activity.outlives_frees(),
        }
    }
}

enum Availability {
    Known,
    Reload,
    Late,
}
