//! Computes which allocations of a task may be live at the same time, point by point.
//!
//! A forward analysis over sets of sets: after an `if` whose branches allocate different buffers, either may be live
//! but never both, so the requirement is the larger of the two and not the sum. Only maximal sets are kept, which does
//! not change the maximum. Only a free of the exact pointer removes an allocation. If a buffer is allocated again, or
//! its slot is overwritten, while its last allocation may still be live, a pointer is lost, and all allocations of that
//! buffer then stay live for ever.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::contents::ContentUse;
use crate::facts::{BufferKind, Facts, SiteKind};
use crate::names::{BlockId, BufferId, Point};

/// A set of allocations, as indices into [`Facts::sites`].
pub type LiveSet = BTreeSet<usize>;

/// Alternatives at one point beyond this number are merged into one set (specification S-408).
const SETS_MAX: usize = 16;
/// A block whose alternatives change more often than this gets one merged set: in a graph of functions that call each
/// other there are exponentially many ways to change.
const CHANGES_MAX: usize = 16;

/// Allocations as bits, by their position among the sites that matter. Bits, because sets are copied and compared at
/// every block.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Held(Vec<u64>);

impl Held {
    fn none(sites: usize) -> Self {
        Self(vec![0; sites.div_ceil(64)])
    }

    fn insert(&mut self, site: usize) {
        self.0[site / 64] |= 1 << (site % 64);
    }

    fn contains(&self, site: usize) -> bool {
        self.0[site / 64] >> (site % 64) & 1 == 1
    }

    fn remove_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, gone)| *word &= !gone);
    }

    fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, more)| *word |= more);
    }

    fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(word, whole)| word & !whole == 0)
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    fn iter(&self, sites: usize) -> impl Iterator<Item = usize> + '_ {
        (0..sites).filter(|&site| self.contains(site))
    }
}

/// Effect of a site on the set of live allocations.
#[derive(Clone, Debug)]
enum Effect {
    Allocates,
    /// Removes these allocations.
    Frees(Held),
}

/// The solution for one task.
#[derive(Debug)]
pub struct Liveness<'a> {
    facts: &'a Facts,
    /// Allocations and exact frees of device memory, sorted by point.
    sites: Vec<usize>,
    /// By position in `sites`.
    effects: Vec<Effect>,
    /// By block: positions in `sites`.
    by_block: Vec<Vec<usize>>,
    /// Sites that overwrite slots of buffers.
    overwrites: Vec<usize>,
    at_start: Vec<Vec<Held>>,
    leaked: BTreeSet<BufferId>,
}

impl<'a> Liveness<'a> {
    /// Analyses one task. `sites`: the task's sites, as indices into [`Facts::sites`].
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
        let concerns = |buffer: &BufferId| {
            made.contains(buffer) || facts.buffers[buffer.index()].aliases.iter().any(|b| made.contains(b))
        };
        let is_overwrite = |site: &usize| match &facts.sites[*site].kind {
            SiteKind::Overwrite { buffers } => buffers.iter().any(concerns),
            _ => false,
        };
        let overwrites = (0..facts.sites.len()).filter(is_overwrite).collect();
        let unsteady = (0_u32..).map(BufferId).zip(&facts.buffers).filter(|(_, buffer)| buffer.unsteady);
        let leaked = unsteady.map(|(buffer, _)| buffer).collect();
        let mut by_block = vec![Vec::new(); facts.blocks.len()];
        for (position, &site) in sites.iter().enumerate() {
            by_block[facts.sites[site].at.block.index()].push(position);
        }
        let (effects, at_start) = (Vec::new(), Vec::new());
        let mut liveness = Self { facts, sites, effects, by_block, overwrites, at_start, leaked };
        loop {
            liveness.effects = (0..liveness.sites.len()).map(|site| liveness.effect(site)).collect();
            liveness.solve();
            let found = liveness.find_leaked();
            if found.is_subset(&liveness.leaked) {
                return liveness;
            }
            liveness.leaked.extend(found);
        }
    }

    fn effect(&self, site: usize) -> Effect {
        let SiteKind::Free { buffers, .. } = &self.facts.sites[self.sites[site]].kind else {
            return Effect::Allocates;
        };
        let mut gone = Held::none(self.sites.len());
        for made in 0..self.sites.len() {
            let is_gone = |buffer| buffers.contains(&buffer) && !self.leaked.contains(&buffer);
            if self.made(made).is_some_and(is_gone) {
                gone.insert(made);
            }
        }
        Effect::Frees(gone)
    }

    fn solve(&mut self) {
        self.at_start = vec![Vec::new(); self.facts.blocks.len()];
        let Some(entry) = self.at_start.first_mut() else { return };
        entry.push(Held::none(self.sites.len()));
        let mut changes = vec![0; self.facts.blocks.len()];
        let mut pending = BTreeSet::from([BlockId(0)]);
        while let Some(block) = pending.pop_first() {
            let facts = &self.facts.blocks[block.index()];
            let out = self.before(Point { block, position: facts.end }).into_owned();
            for &successor in &facts.successors {
                let known = &self.at_start[successor.index()];
                let is_known = |set: &Held| known.iter().any(|other| set.is_within(other));
                if out.iter().all(is_known) {
                    continue;
                }
                let mut joined = maximal(known.iter().chain(&out).cloned().collect());
                if changes[successor.index()] > CHANGES_MAX {
                    joined = union(joined);
                }
                self.at_start[successor.index()] = joined;
                changes[successor.index()] += 1;
                pending.insert(successor);
            }
        }
    }

    /// Sets of allocations that may be live just before a point; none if the point cannot be reached.
    fn before(&self, point: Point) -> Cow<'_, [Held]> {
        let at_start = &self.at_start[point.block.index()];
        let is_past = |&&site: &&usize| self.facts.sites[self.sites[site]].at.position < point.position;
        let passed: Vec<usize> =
            self.by_block[point.block.index()].iter().take_while(is_past).copied().collect();
        if passed.is_empty() {
            return Cow::Borrowed(at_start);
        }
        let mut sets = at_start.clone();
        for set in &mut sets {
            for &site in &passed {
                match &self.effects[site] {
                    Effect::Allocates => set.insert(site),
                    Effect::Frees(gone) => set.remove_all(gone),
                }
            }
        }
        Cow::Owned(maximal(sets))
    }

    /// Buffer that a site allocates; `site` is a position in `sites`.
    fn made(&self, site: usize) -> Option<BufferId> {
        match self.facts.sites[self.sites[site]].kind {
            SiteKind::Allocation { buffer, .. } => Some(buffer),
            _ => None,
        }
    }

    /// Buffers whose slots are written, by an allocation or otherwise and under any name, while the slots may hold a
    /// pointer.
    fn find_leaked(&self) -> BTreeSet<BufferId> {
        let mut lost = BTreeSet::new();
        for site in self.sites.iter().chain(&self.overwrites).map(|&site| &self.facts.sites[site]) {
            let written: &[BufferId] = match &site.kind {
                SiteKind::Allocation { buffer, .. } => std::slice::from_ref(buffer),
                SiteKind::Overwrite { buffers } => buffers,
                _ => continue,
            };
            let held = self.held(site.at);
            let aliases = |buffer: &BufferId| &self.facts.buffers[buffer.index()].aliases;
            let all_names = written.iter().chain(written.iter().flat_map(aliases));
            lost.extend(all_names.filter(|name| held.contains(name)));
        }
        lost
    }

    /// Buffers that may be allocated just before a point.
    fn held(&self, point: Point) -> BTreeSet<BufferId> {
        let mut any = Held::none(self.sites.len());
        self.before(point).iter().for_each(|set| any.add_all(set));
        any.iter(self.sites.len()).filter_map(|site| self.made(site)).collect()
    }

    /// Whether `buffer` may be allocated just before a point.
    #[must_use]
    pub fn may_hold(&self, buffer: BufferId, point: Point) -> bool {
        self.held(point).contains(&buffer)
    }

    /// Whether any of the task's buffers may be allocated just before a point.
    #[must_use]
    pub fn may_live(&self, point: Point) -> bool {
        self.before(point).iter().any(|set| !set.is_empty())
    }

    /// Whether an allocation may run again while the memory of its previous run is still allocated.
    #[must_use]
    pub fn accumulates(&self, allocation: usize) -> bool {
        let Some(site) = self.sites.iter().position(|&site| site == allocation) else { return false };
        self.before(self.facts.sites[allocation].at).iter().any(|set| set.contains(site))
    }

    fn sites_of(&self, held: &Held) -> LiveSet {
        held.iter(self.sites.len()).map(|site| self.sites[site]).collect()
    }

    /// The largest sets of allocations that are ever live at once.
    #[must_use]
    pub fn peaks(&self) -> Vec<LiveSet> {
        let allocations = (0..self.sites.len()).filter(|&site| self.made(site).is_some());
        let after = |site: usize| self.before(self.facts.sites[self.sites[site]].at.after()).into_owned();
        let peaks = maximal(allocations.flat_map(after).collect());
        let mut peaks: Vec<LiveSet> = peaks.iter().map(|held| self.sites_of(held)).collect();
        peaks.sort_unstable();
        peaks
    }

    /// The largest sets of allocations whose memory is ever in use at once: those that are live and for which
    /// `occupies` returns true around the instruction at the point. Each is a subset of one of [`Self::peaks`]. `uses`:
    /// uses of contents in the function. Only allocations and uses are examined, because only there can more memory
    /// come into use.
    #[must_use]
    pub fn peaks_in_use(
        &self,
        uses: &[ContentUse],
        occupies: impl Fn(BufferId, Point) -> bool,
    ) -> Vec<LiveSet> {
        let made: Vec<(usize, BufferId)> =
            (0..self.sites.len()).filter_map(|site| Some((site, self.made(site)?))).collect();
        let buffers: BTreeSet<BufferId> = made.iter().map(|&(_, buffer)| buffer).collect();
        let allocations = made.iter().map(|&(site, _)| self.facts.sites[self.sites[site]].at);
        let of_own = |used: &&ContentUse| used.buffers.iter().any(|buffer| buffers.contains(buffer));
        let points: BTreeSet<Point> =
            allocations.chain(uses.iter().filter(of_own).map(|used| used.at)).collect();
        let mut sets = BTreeSet::new();
        for at in points {
            for held in self.before(at.after()).iter() {
                let mut in_use = Held::none(self.sites.len());
                let counts =
                    |&&(site, buffer): &&(usize, BufferId)| held.contains(site) && occupies(buffer, at);
                made.iter().filter(counts).for_each(|&(site, _)| in_use.insert(site));
                if !in_use.is_empty() {
                    sets.insert(in_use);
                }
            }
        }
        let is_covered = |set: &&Held| sets.iter().any(|other| other != *set && set.is_within(other));
        let mut largest: Vec<LiveSet> =
            sets.iter().filter(|set| !is_covered(set)).map(|set| self.sites_of(set)).collect();
        largest.sort_unstable();
        let peaks = self.peaks();
        let is_part = |set: &LiveSet| peaks.iter().any(|peak| set.is_subset(peak));
        if largest.len() <= SETS_MAX && largest.iter().all(is_part) { largest } else { peaks }
    }

    /// Whether the task may allocate memory after it freed other memory.
    #[must_use]
    pub fn reuses(&self, reaches: impl Fn(Point, Point) -> bool) -> bool {
        let at = |site: usize| self.facts.sites[self.sites[site]].at;
        let (allocations, frees): (Vec<usize>, Vec<usize>) =
            (0..self.sites.len()).partition(|&site| self.made(site).is_some());
        allocations.iter().any(|&later| frees.iter().any(|&free| reaches(at(free), at(later))))
    }
}

/// Drops sets that are subsets of others. If more than [`SETS_MAX`] remain, returns their union instead.
fn maximal(mut sets: Vec<Held>) -> Vec<Held> {
    sets.sort_unstable();
    sets.dedup();
    let is_covered = |set: &Held| sets.iter().any(|other| other != set && set.is_within(other));
    let kept: Vec<Held> = sets.iter().filter(|set| !is_covered(set)).cloned().collect();
    if kept.len() > SETS_MAX { union(kept) } else { kept }
}

/// Merges all sets into one.
fn union(sets: Vec<Held>) -> Vec<Held> {
    let all = sets.into_iter().reduce(|mut all, set| {
        all.add_all(&set);
        all
    });
    all.into_iter().collect()
}
