//! When something of a task is on the device or still to come, point by point.
//!
//! Active = a buffer of the task may be allocated, or a site of the task can still be reached. The task's end goes
//! exactly where that stops, so that every path from its begin to a return passes one end. Trap: "freed" needs the exact
//! pointer; after `cudaFree(table[i])` nothing is known to be gone, and the task then ends at the return.

use std::collections::BTreeSet;

use crate::facts::{BlockId, BufferId, Exit, Facts, Point, SiteKind};
use crate::flow::{Ahead, Flow, Spot};
use crate::grouping::Group;

/// One task's activity from its begin on.
#[derive(Debug)]
pub struct Activity<'a> {
    facts: &'a Facts,
    flow: &'a Flow<'a>,
    begin: Point,
    /// The task's sites by position.
    sites: Vec<usize>,
    ahead: Ahead,
    /// Buffers that may be allocated at the start of each block.
    live_at_start: Vec<BTreeSet<BufferId>>,
    /// Allocated again while the old pointer may still be there: one of them can no longer be freed.
    leaked: BTreeSet<BufferId>,
}

impl<'a> Activity<'a> {
    #[must_use]
    pub fn new(facts: &'a Facts, flow: &'a Flow<'a>, group: &Group, begin: Point) -> Self {
        let mut sites = group.sites.clone();
        sites.sort_by_key(|&site| facts.sites[site].at);
        let points: Vec<_> = sites.iter().map(|&site| facts.sites[site].at).collect();
        let live_at_start = vec![BTreeSet::new(); facts.blocks.len()];
        let ahead = flow.ahead(&points);
        let mut activity = Self { facts, flow, begin, sites, ahead, live_at_start, leaked: BTreeSet::new() };
        activity.solve();
        activity.leaked = activity.find_leaked();
        if !activity.leaked.is_empty() {
            activity.solve();
        }
        activity
    }

    /// Forward may-analysis, to its fixed point.
    fn solve(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for (index, block) in self.facts.blocks.iter().enumerate() {
                let out = self.live_before(Point { block: BlockId::from_index(index), position: block.len });
                for successor in &block.successors {
                    let live = &mut self.live_at_start[successor.index()];
                    let before = live.len();
                    live.extend(out.iter().copied());
                    changed |= live.len() != before;
                }
            }
        }
    }

    fn find_leaked(&self) -> BTreeSet<BufferId> {
        let again = |&site: &usize| match &self.facts.sites[site].kind {
            SiteKind::Allocation { buffer, .. } => {
                self.live_before(self.facts.sites[site].at).contains(buffer).then_some(*buffer)
            }
            _ => None,
        };
        self.sites.iter().filter_map(again).collect()
    }

    /// Buffers that may be allocated just before a point.
    fn live_before(&self, point: Point) -> BTreeSet<BufferId> {
        let mut live = self.live_at_start[point.block.index()].clone();
        for &site in &self.sites {
            let site = &self.facts.sites[site];
            if site.at.block != point.block || site.at.position >= point.position {
                continue;
            }
            match &site.kind {
                SiteKind::Allocation { buffer, .. } => {
                    live.insert(*buffer);
                }
                SiteKind::Free { buffers, exact: true } => {
                    live.retain(|buffer| !buffers.contains(buffer) || self.leaked.contains(buffer));
                }
                _ => {}
            }
        }
        live
    }

    fn in_region(&self, point: Point) -> bool {
        self.flow.point_dominates(self.begin, point)
    }

    /// Whether something of the task is there or to come just before the instruction at `point`.
    #[must_use]
    pub fn is_active(&self, point: Point) -> bool {
        self.in_region(point) && (self.ahead.at(point) || !self.live_before(point).is_empty())
    }

    /// Where the task ends.
    #[must_use]
    pub fn ends(&self) -> Vec<Spot> {
        let mut spots = self.stops(|point| self.is_active(point));
        for (index, block) in self.facts.blocks.iter().enumerate() {
            let terminator = self.flow.terminator(BlockId::from_index(index));
            if block.exit == Some(Exit::Return) && self.is_active(terminator) {
                spots.push(Spot::Before(terminator));
            }
        }
        spots.sort_unstable();
        spots
    }

    /// Whether a buffer may still be allocated when the function returns.
    #[must_use]
    pub fn outlives_frees(&self) -> bool {
        self.facts.blocks.iter().enumerate().any(|(index, block)| {
            let terminator = self.flow.terminator(BlockId::from_index(index));
            block.exit == Some(Exit::Return)
                && self.in_region(terminator)
                && !self.live_before(terminator).is_empty()
        })
    }

    /// Where the last launch lies behind.
    #[must_use]
    pub fn all_launched(&self) -> Vec<Spot> {
        let is_launch = |site: &&usize| matches!(self.facts.sites[**site].kind, SiteKind::Launch { .. });
        let launches: Vec<_> =
            self.sites.iter().filter(is_launch).map(|&site| self.facts.sites[site].at).collect();
        let ahead = self.flow.ahead(&launches);
        self.stops(|point| self.in_region(point) && ahead.at(point))
    }

    /// The spots, on ways that return, where `holds` turns from true to false.
    fn stops(&self, holds: impl Fn(Point) -> bool) -> Vec<Spot> {
        let mut spots = Vec::new();
        for &site in &self.sites {
            let at = self.facts.sites[site].at;
            let after = Point { block: at.block, position: at.position + 1 };
            let is_terminator = at == self.flow.terminator(at.block);
            if !is_terminator && self.flow.may_return(at.block) && holds(at) && !holds(after) {
                spots.push(Spot::Before(after));
            }
        }
        for (from, to) in self.flow.edges() {
            let start = Point { block: to, position: 0 };
            if self.flow.may_return(to) && holds(self.flow.terminator(from)) && !holds(start) {
                spots.push(Spot::OnEdge { from, to });
            }
        }
        spots.sort_unstable();
        spots.dedup();
        spots
    }
}
