//! Computes, for each point, whether a task is active: it holds something on the device or may still reach one of its
//! sites.
//!
//! A point is active if a site of the task can still be reached, or if a buffer of the task may be allocated and the
//! task was active on every path to the point. The task's end goes exactly where that stops. Activity never starts
//! again, so every path from the begin to a return passes exactly one end. Traps: where a path that freed the buffers
//! joins a path that did not, the second path must end the task on the edge into the join. No end can be placed in a
//! called function, so a task that is active at a call stays active until the call returns or unwinds.

use crate::facts::{BlockFacts, Exit, Facts, Site, SiteKind};
use crate::flow::{Ahead, Flow, Spot};
use crate::grouping::Group;
use crate::liveness::Liveness;
use crate::names::{BlockId, FrameId, Point};
use crate::plan::Unwind;
use crate::spots::Spots;

/// One task's activity from its begin on.
#[derive(Debug)]
pub struct Activity<'a> {
    facts: &'a Facts,
    flow: &'a Flow<'a>,
    liveness: &'a Liveness<'a>,
    begin: Point,
    /// Indices of the task's sites, in the order of their points.
    sites: Vec<usize>,
    /// Indices of the task's sites, by block.
    by_block: Vec<Vec<usize>>,
    ahead: Ahead,
    /// By frame: whether sites of the task can be reached after a call into the frame begins.
    inside: Vec<bool>,
    /// Greatest fixed point of "active on every path to the block, or a site is still reachable".
    active_at_start: Vec<bool>,
}

impl<'a> Activity<'a> {
    /// Computes the activity of `group` from `begin`, a point of the graph that lies in the root.
    #[must_use]
    pub fn new(
        facts: &'a Facts,
        flow: &'a Flow<'a>,
        liveness: &'a Liveness<'a>,
        group: &Group,
        begin: Point,
    ) -> Self {
        let mut sites = group.sites.clone();
        sites.sort_by_key(|&site| facts.sites[site].at);
        let points: Vec<_> = sites.iter().map(|&site| facts.sites[site].at).collect();
        let ahead = flow.ahead(&points);
        let active_at_start = vec![true; facts.blocks.len()];
        let inside = flow.inside(|block| ahead.at_start(block));
        let mut by_block = vec![Vec::new(); facts.blocks.len()];
        for &site in &sites {
            by_block[facts.sites[site].at.block.index()].push(site);
        }
        let mut activity =
            Self { facts, flow, liveness, begin, sites, by_block, ahead, inside, active_at_start };
        activity.solve_active();
        activity
    }

    fn in_region(&self, point: Point) -> bool {
        self.flow.point_dominates(self.begin, point)
    }

    /// Starts with every block active and removes blocks until the greatest fixed point is reached.
    fn solve_active(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for (index, facts) in self.facts.blocks.iter().enumerate() {
                let block = BlockId::from_index(index);
                if !self.active_at_start[index] {
                    continue;
                }
                let start = Point { block, position: facts.first };
                let was_active = |from: BlockId| {
                    self.is_active(Point { block: from, position: self.facts.blocks[from.index()].end })
                };
                let is_kept = || self.liveness.may_live(start) && self.flow.ways_in(block).all(was_active);
                let active = self.in_region(start)
                    && (self.is_inside(block, &self.inside) || self.ahead.at_start(block) || is_kept());
                if !active {
                    self.active_at_start[index] = false;
                    changed = true;
                }
            }
        }
    }

    /// Whether a block lies in a frame that is marked in `frames`; the root never counts.
    fn is_inside(&self, block: BlockId, frames: &[bool]) -> bool {
        let frame = self.facts.blocks[block.index()].frame;
        frame != FrameId::ROOT && frames[frame.index()]
    }

    /// Whether the task is active just before the instruction at `point`.
    #[must_use]
    pub fn is_active(&self, point: Point) -> bool {
        if !self.in_region(point) {
            return false;
        }
        if self.is_inside(point.block, &self.inside) {
            return true;
        }
        let mut active = point.block == self.begin.block || self.active_at_start[point.block.index()];
        for &site in &self.by_block[point.block.index()] {
            let at = self.facts.sites[site].at;
            if at.position < point.position && at.position >= self.first_in(at.block) {
                let after = at.after();
                active = self.ahead.at(after) || (active && self.liveness.may_live(after));
            }
        }
        active
    }

    /// First position of a block that belongs to the task's region, which starts at the begin.
    fn first_in(&self, block: BlockId) -> u32 {
        if block == self.begin.block { self.begin.position } else { 0 }
    }

    /// Spots at which the task ends.
    #[must_use]
    pub fn ends(&self) -> Vec<Spot> {
        let points: Vec<_> = self.sites.iter().map(|&site| self.facts.sites[site].at).collect();
        let mut spots = self.stops(&points, |point| self.is_active(point));
        let returns = self.returns().filter(|&terminator| self.is_active(terminator));
        spots.extend(returns.map(|terminator| Spot::Before(self.in_root(terminator))));
        spots.sort_unstable();
        spots.dedup();
        spots
    }

    fn returns(&self) -> impl Iterator<Item = Point> + '_ {
        let is_return = |block: &BlockFacts| block.exit == Some(Exit::Return) && block.frame == FrameId::ROOT;
        let blocks = self.facts.blocks.iter().enumerate().filter(move |(_, block)| is_return(block));
        blocks.map(|(index, _)| self.flow.terminator(BlockId::from_index(index)))
    }

    /// Whether a buffer may still be allocated when the function returns.
    #[must_use]
    pub fn outlives_frees(&self) -> bool {
        self.returns().any(|terminator| self.in_region(terminator) && self.liveness.may_live(terminator))
    }

    /// Spots behind the last launch that runs on the task's device: the task's own launches, and those of tasks that
    /// begin while it is active.
    #[must_use]
    pub fn all_launched(&self) -> Vec<Spot> {
        let launches = self.launches();
        self.stops(&launches.points, |point| self.is_launching(&launches, point))
    }

    /// The calls through which an exception leaves the root while the task is active.
    #[must_use]
    pub fn unwinds(&self) -> Vec<Unwind> {
        let launches = self.launches();
        let active = self.facts.throws.iter().filter(|&&call| self.is_active(call));
        let unwind = |&call: &Point| Unwind {
            call: self.in_root(call),
            all_launched: self.is_launching(&launches, call),
        };
        active.map(unwind).collect()
    }

    fn launches(&self) -> Launches {
        let is_launch = |site: &Site| matches!(site.kind, SiteKind::Launch { .. });
        let own = self.sites.iter().map(|&site| &self.facts.sites[site]).filter(|site| is_launch(site));
        let inside = self.facts.sites.iter().filter(|site| is_launch(site) && self.is_active(site.at));
        let mut points: Vec<_> = own.chain(inside).map(|site| site.at).collect();
        points.sort_unstable();
        points.dedup();
        let ahead = self.flow.ahead(&points);
        Launches { inside: self.flow.inside(|block| ahead.at_start(block)), ahead, points }
    }

    fn is_launching(&self, launches: &Launches, point: Point) -> bool {
        self.in_region(point) && (self.is_inside(point.block, &launches.inside) || launches.ahead.at(point))
    }

    /// Spots where `holds` turns from true to false, on paths that can return.
    fn stops(&self, sites: &[Point], holds: impl Fn(Point) -> bool) -> Vec<Spot> {
        let stops = self.spots().stops(sites, holds);
        let mut spots: Vec<_> = stops.into_iter().filter_map(|stop| stop.spot).collect();
        spots.sort_unstable();
        spots.dedup();
        spots
    }

    fn spots(&self) -> Spots<'_> {
        Spots { facts: self.facts, flow: self.flow }
    }

    fn in_root(&self, point: Point) -> Point {
        self.spots().in_root(point)
    }
}

/// The launches that run on a task's device.
struct Launches {
    points: Vec<Point>,
    ahead: Ahead,
    /// By frame: whether a launch can be reached after a call into the frame begins.
    inside: Vec<bool>,
}
