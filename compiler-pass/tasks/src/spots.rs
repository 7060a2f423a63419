//! Finds where a property of the points of a graph stops to hold, as spots of the root function.
//!
//! Trap: code can be inserted into the root only, so a property that stops inside a called function has no spot there.
//! Callers of this module must therefore let the property hold throughout such functions. They must also let it hold
//! throughout a call whose exceptional successor may reach a point where it holds, since a spot before that call would
//! be too early ([`Flow::inside`] finds these calls).

use crate::facts::Facts;
use crate::flow::{Flow, Spot};
use crate::names::{BlockId, FrameId, Point};

/// A graph together with the facts that it was made from.
#[derive(Clone, Copy, Debug)]
pub struct Spots<'a> {
    pub facts: &'a Facts,
    pub flow: &'a Flow<'a>,
}

/// One stop of the property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stop {
    /// Last point of the graph before the stop. The past is read here, because other paths may join behind it.
    pub seen_from: Point,
    /// `None`: the stop is in a called function, where no code can be inserted.
    pub spot: Option<Spot>,
}

impl Spots<'_> {
    /// The stops, on paths that can return, where `holds` turns from true to false. `sites`: the points at which it may
    /// change within a block.
    pub fn stops(self, sites: &[Point], holds: impl Fn(Point) -> bool) -> Vec<Stop> {
        let mut stops = Vec::new();
        for &at in sites {
            let is_last = at == self.flow.terminator(at.block);
            let in_root = self.facts.frame(at) == FrameId::ROOT;
            if in_root && !is_last && self.flow.may_return(at.block) && holds(at) && !holds(at.after()) {
                stops.push(self.behind(at));
            }
        }
        for (from, to) in self.flow.edges() {
            let start = Point { block: to, position: self.facts.blocks[to.index()].first };
            if self.flow.may_return(to) && holds(self.last(from)) && !holds(start) {
                let end = Point { block: from, position: self.facts.blocks[from.index()].end };
                stops.push(Stop { seen_from: end, spot: self.spot_on(from, to) });
            }
        }
        stops.sort_unstable();
        stops.dedup();
        stops
    }

    /// Stop behind an instruction of the root that does not end its block.
    #[must_use]
    pub fn behind(self, at: Point) -> Stop {
        let spot = Some(Spot::Before(self.in_root(at.after())));
        Stop { seen_from: at.after(), spot }
    }

    /// The last point of a block; the return block of an invoking call has only one point.
    #[must_use]
    pub fn last(self, block: BlockId) -> Point {
        let facts = &self.facts.blocks[block.index()];
        if facts.first == facts.end {
            Point { block, position: facts.end }
        } else {
            self.flow.terminator(block)
        }
    }

    /// Spot for an edge of the graph; `None` if the edge lies in a called function.
    fn spot_on(self, from: BlockId, to: BlockId) -> Option<Spot> {
        let (source, target) = (&self.facts.blocks[from.index()], &self.facts.blocks[to.index()]);
        if target.frame != FrameId::ROOT {
            // An edge into a call: before the call.
            return (source.frame == FrameId::ROOT)
                .then(|| Spot::Before(self.in_root(self.flow.terminator(from))));
        }
        if target.first == target.end {
            // The return block of an invoking call: on the edge that leaves it.
            let next = target.successors.first()?;
            return Some(Spot::OnEdge { from: target.origin, to: self.facts.blocks[next.index()].origin });
        }
        if target.first > 0 {
            return Some(Spot::Before(Point { block: target.origin, position: target.first }));
        }
        Some(Spot::OnEdge { from: source.origin, to: target.origin })
    }

    /// Maps a point of the root's part of the graph to the function itself.
    #[must_use]
    pub fn in_root(self, point: Point) -> Point {
        Point { block: self.facts.blocks[point.block.index()].origin, position: point.position }
    }
}
