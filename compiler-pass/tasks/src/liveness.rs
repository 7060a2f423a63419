//! Which allocations of a task may be there at the same time, point by point.
//!
//! Forward analysis over sets of sets: after an `if` whose branches allocate different buffers, either may be there and
//! never both, so the requirement is the larger one and not the sum. Only maximal sets are kept, which changes no
//! maximum. Trap: only a free of the exact pointer removes an allocation, and a buffer that is allocated again, or whose
//! place is overwritten, while its last allocation may still be there has lost a pointer: such allocations stay for ever.

use std::collections::BTreeSet;

use crate::facts::{BlockId, BufferId, BufferKind, Facts, Point, SiteKind};

/// Allocations, as indices into [`Facts::sites`].
pub type LiveSet = BTreeSet<usize>;

/// More alternatives at one point than this become one set.
const SETS_MAX: usize = 16;
/// A block whose alternatives change more often than this gets one set: there are exponentially many ways to change in
/// a graph of functions that call each other.
const CHANGES_MAX: usize = 16;

/// The solution for one task.
#[derive(Debug)]
pub struct Liveness<'a> {
    facts: &'a Facts,
    /// Allocations and exact frees of device memory, in the order of their points.
    sites: Vec<usize>,
    /// The same by block.
    by_block: Vec<Vec<usize>>,
    /// Sites that overwrite places of buffers.
    overwrites: Vec<usize>,
    at_start: Vec<Vec<LiveSet>>,
    leaked: BTreeSet<BufferId>,
}

impl<'a> Liveness<'a> {
    /// `sites`: the task's, as indices into [`Facts::sites`].
    #[must_use]
    pub fn new(facts: &'a Facts, sites: &[usize]) -> Self {
        let is_memory = |buffer: &BufferId| facts.buffers[buffer.index()].kind == BufferKind::Memory;
        let matters = |&site: &usize| match &facts.sites[site].kind {
            SiteKind::Allocation { buffer, .. } => is_memory(buffer),
            SiteKind::Free { buffers, exact: true } => buffers.iter().all(is_memory),
            _ => false,
        };
        let mut sites: Vec<_> = sites.iter().copied().filter(matters).collect();
        sites.sort_by_key(|&site| facts.sites[site].at);
        let made: BTreeSet<BufferId> =
            sites.iter().flat_map(|&site| facts.sites[site].kind.buffers()).copied().collect();
        let is_overwrite = |site: &usize| match &facts.sites[*site].kind {
            SiteKind::Overwrite { buffers } => buffers.iter().any(|buffer| made.contains(buffer)),
            _ => false,
        };
        let overwrites = (0..facts.sites.len()).filter(is_overwrite).collect();
        let unsteady = (0_u32..).map(BufferId).zip(&facts.buffers).filter(|(_, buffer)| buffer.unsteady);
        let leaked = unsteady.map(|(buffer, _)| buffer).collect();
        let mut by_block = vec![Vec::new(); facts.blocks.len()];
        for &site in &sites {
            by_block[facts.sites[site].at.block.index()].push(site);
        }
        let mut liveness = Self { facts, sites, by_block, overwrites, at_start: Vec::new(), leaked };
        loop {
            liveness.solve();
            let found = liveness.find_leaked();
            if found.is_subset(&liveness.leaked) {
                return liveness;
            }
            liveness.leaked.extend(found);
        }
    }

    fn solve(&mut self) {
        self.at_start = vec![Vec::new(); self.facts.blocks.len()];
        let Some(entry) = self.at_start.first_mut() else { return };
        entry.push(LiveSet::new());
        let mut changes = vec![0; self.facts.blocks.len()];
        let mut pending = BTreeSet::from([BlockId(0)]);
        while let Some(block) = pending.pop_first() {
            let facts = &self.facts.blocks[block.index()];
            let out = self.before(Point { block, position: facts.end });
            for &successor in &facts.successors {
                let known = &self.at_start[successor.index()];
                let mut joined = maximal(known.iter().chain(&out).cloned().collect());
                if changes[successor.index()] > CHANGES_MAX {
                    joined = vec![joined.into_iter().flatten().collect()];
                }
                if joined != *known {
                    self.at_start[successor.index()] = joined;
                    changes[successor.index()] += 1;
                    pending.insert(successor);
                }
            }
        }
    }

    /// The sets of allocations that may be there just before a point; none if it cannot be reached.
    #[must_use]
    pub fn before(&self, point: Point) -> Vec<LiveSet> {
        let mut sets = self.at_start[point.block.index()].clone();
        let here = &self.by_block[point.block.index()];
        for &site in here.iter().filter(|&&site| self.facts.sites[site].at.position < point.position) {
            sets.iter_mut().for_each(|set| self.step(set, site));
        }
        if here.is_empty() { sets } else { maximal(sets) }
    }

    fn step(&self, set: &mut LiveSet, site: usize) {
        match &self.facts.sites[site].kind {
            SiteKind::Allocation { .. } => {
                set.insert(site);
            }
            SiteKind::Free { buffers, .. } => {
                let is_gone = |buffer| buffers.contains(&buffer) && !self.leaked.contains(&buffer);
                set.retain(|&allocation| !self.buffer(allocation).is_some_and(is_gone));
            }
            _ => {}
        }
    }

    fn buffer(&self, allocation: usize) -> Option<BufferId> {
        match self.facts.sites[allocation].kind {
            SiteKind::Allocation { buffer, .. } => Some(buffer),
            _ => None,
        }
    }

    fn find_leaked(&self) -> BTreeSet<BufferId> {
        let again = |&site: &usize| {
            let buffer = self.buffer(site)?;
            self.may_hold(buffer, self.facts.sites[site].at).then_some(buffer)
        };
        let overwritten = self.overwrites.iter().flat_map(|&site| match &self.facts.sites[site].kind {
            SiteKind::Overwrite { buffers } => {
                let at = self.facts.sites[site].at;
                buffers.iter().copied().filter(|&buffer| self.may_hold(buffer, at)).collect()
            }
            _ => Vec::new(),
        });
        self.sites.iter().filter_map(again).chain(overwritten).collect()
    }

    /// Whether a buffer may be allocated just before a point.
    #[must_use]
    pub fn may_hold(&self, buffer: BufferId, point: Point) -> bool {
        self.before(point).iter().flatten().any(|&allocation| self.buffer(allocation) == Some(buffer))
    }

    /// Whether anything may be allocated just before a point.
    #[must_use]
    pub fn may_live(&self, point: Point) -> bool {
        self.before(point).iter().any(|set| !set.is_empty())
    }

    /// Whether an allocation may run again while the memory of its last run is there.
    #[must_use]
    pub fn accumulates(&self, allocation: usize) -> bool {
        self.before(self.facts.sites[allocation].at).iter().any(|set| set.contains(&allocation))
    }

    /// The largest sets that are ever there.
    #[must_use]
    pub fn peaks(&self) -> Vec<LiveSet> {
        let is_allocation = |site: &&usize| self.buffer(**site).is_some();
        let after = |&site: &usize| self.before(self.facts.sites[site].at.after());
        maximal(self.sites.iter().filter(is_allocation).flat_map(after).collect())
    }

    /// The largest sets whose memory is ever in use at once: of what is there, what `occupies` says of a buffer around
    /// the instruction at each of `points`, at which memory comes into use. Each is a part of one of [`Self::peaks`].
    #[must_use]
    pub fn peaks_in_use(&self, points: &[Point], occupies: impl Fn(BufferId, Point) -> bool) -> Vec<LiveSet> {
        let in_use = |at: Point, set: LiveSet| -> LiveSet {
            let counts = |&allocation: &usize| self.buffer(allocation).is_none_or(|b| occupies(b, at));
            set.into_iter().filter(counts).collect()
        };
        let sets: BTreeSet<LiveSet> = points
            .iter()
            .flat_map(|&at| self.before(at.after()).into_iter().map(move |set| (at, set)))
            .map(|(at, set)| in_use(at, set))
            .filter(|set| !set.is_empty())
            .collect();
        let is_covered = |set: &&LiveSet| sets.iter().any(|other| other != *set && set.is_subset(other));
        let largest: Vec<LiveSet> = sets.iter().filter(|set| !is_covered(set)).cloned().collect();
        let peaks = self.peaks();
        let is_part = |set: &LiveSet| peaks.iter().any(|peak| set.is_subset(peak));
        if largest.len() <= SETS_MAX && largest.iter().all(is_part) { largest } else { peaks }
    }

    /// Whether memory is allocated after other memory of the task was freed.
    #[must_use]
    pub fn reuses(&self, reaches: impl Fn(Point, Point) -> bool) -> bool {
        let at = |site: usize| self.facts.sites[site].at;
        let (allocations, frees): (Vec<usize>, Vec<usize>) =
            self.sites.iter().partition(|&&site| self.buffer(site).is_some());
        allocations.iter().any(|&later| frees.iter().any(|&free| reaches(at(free), at(later))))
    }
}

/// Leaves out sets that others contain; too many become their union.
fn maximal(mut sets: Vec<LiveSet>) -> Vec<LiveSet> {
    sets.sort_unstable();
    sets.dedup();
    let is_covered = |set: &LiveSet| sets.iter().any(|other| other != set && set.is_subset(other));
    let kept: Vec<LiveSet> = sets.iter().filter(|set| !is_covered(set)).cloned().collect();
    if kept.len() > SETS_MAX { vec![kept.into_iter().flatten().collect()] } else { kept }
}
