//! When something of a task is on the device or still to come, point by point.
//!
//! Active = a site of the task can still be reached, or a buffer of it may be allocated and it was active on every way
//! here. The task's end goes exactly where that stops; since activity never starts again, every path from the begin to
//! a return passes exactly one end. Traps: "freed" needs the exact pointer (after `cudaFree(table[i])` nothing is known
//! to be gone, and the task then ends at the return); and where a path that freed meets one that did not, the second
//! must end on its way in.

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
    /// Greatest solution of "active on every way here, or more to come".
    active_at_start: Vec<bool>,
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
        let active_at_start = vec![true; facts.blocks.len()];
        let leaked = BTreeSet::new();
        let mut activity = Self { facts, flow, begin, sites, ahead, live_at_start, active_at_start, leaked };
        activity.solve_live();
        activity.leaked = activity.find_leaked();
        if !activity.leaked.is_empty() {
            activity.solve_live();
        }
        activity.solve_active();
        activity
    }

    /// Forward may-analysis, to its fixed point.
    fn solve_live(&mut self) {
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

    /// From true downwards, to the greatest fixed point.
    fn solve_active(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for index in 0..self.facts.blocks.len() {
                let block = BlockId::from_index(index);
                let start = Point { block, position: 0 };
                let is_live = !self.live_at_start[index].is_empty()
                    && self.flow.ways_in(block).all(|from| {
                        let end = Point { block: from, position: self.facts.blocks[from.index()].len };
                        self.is_active(end)
                    });
                let active = self.in_region(start) && (self.ahead.at_start(block) || is_live);
                if self.active_at_start[index] && !active {
                    self.active_at_start[index] = false;
                    changed = true;
                }
            }
        }
    }

    /// Whether something of the task is there or to come just before the instruction at `point`.
    #[must_use]
    pub fn is_active(&self, point: Point) -> bool {
        if !self.in_region(point) {
            return false;
        }
        let mut active = point.block == self.begin.block || self.active_at_start[point.block.index()];
        for &site in &self.sites {
            let at = self.facts.sites[site].at;
            if at.block == point.block
                && at.position < point.position
                && at.position >= self.first_in(at.block)
            {
                let after = Point { block: at.block, position: at.position + 1 };
                active = self.ahead.at(after) || (active && !self.live_before(after).is_empty());
            }
        }
        active
    }

    /// The first position of a block that belongs to the task's region.
    fn first_in(&self, block: BlockId) -> u32 {
        if block == self.begin.block { self.begin.position } else { 0 }
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
