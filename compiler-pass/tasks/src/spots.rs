//! Where a property of the points of a graph stops to hold, as spots of the root function.
//!
//! Trap: code can be put into the root only. A property that would stop inside a called function has no spot there; who
//! asks must let it hold throughout such functions, and throughout a call past which an exception may lead to where it
//! holds: a spot before that call would be too early ([`Flow::inside`] says which calls these are).

use crate::facts::Facts;
use crate::flow::{Flow, Spot};
use crate::names::{BlockId, FrameId, Point};

/// A graph with the function that it was made from.
#[derive(Clone, Copy, Debug)]
pub struct Spots<'a> {
    pub facts: &'a Facts,
    pub flow: &'a Flow<'a>,
}

/// One place where it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stop {
    /// In the graph: the last point of the way there at which what has run is known.
    pub seen_from: Point,
    /// `None`: in a called function, where no code can be put.
    pub spot: Option<Spot>,
}

impl Spots<'_> {
    /// The stops, on ways that return, where `holds` turns from true to false. `sites`: the points within blocks at which
    /// it may.
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

    /// Right behind an instruction of the root that does not end its block.
    #[must_use]
    pub fn behind(self, at: Point) -> Stop {
        let spot = Some(Spot::Before(self.in_root(at.after())));
        Stop { seen_from: at.after(), spot }
    }

    /// The last point of a block; where an invoking call comes back there is only one.
    #[must_use]
    pub fn last(self, block: BlockId) -> Point {
        let facts = &self.facts.blocks[block.index()];
        if facts.first == facts.end {
            Point { block, position: facts.end }
        } else {
            self.flow.terminator(block)
        }
    }

    /// An edge of the graph as a spot of the root function; none in a function that it calls.
    fn spot_on(self, from: BlockId, to: BlockId) -> Option<Spot> {
        let (source, target) = (&self.facts.blocks[from.index()], &self.facts.blocks[to.index()]);
        if target.frame != FrameId::ROOT {
            // Into a call: before it.
            return (source.frame == FrameId::ROOT)
                .then(|| Spot::Before(self.in_root(self.flow.terminator(from))));
        }
        if target.first == target.end {
            // Where an invoking call comes back: on the way on.
            let next = target.successors.first()?;
            return Some(Spot::OnEdge { from: target.origin, to: self.facts.blocks[next.index()].origin });
        }
        if target.first > 0 {
            return Some(Spot::Before(Point { block: target.origin, position: target.first }));
        }
        Some(Spot::OnEdge { from: source.origin, to: target.origin })
    }

    /// A point of the root's part of the graph in the terms of the function itself.
    #[must_use]
    pub fn in_root(self, point: Point) -> Point {
        Point { block: self.facts.blocks[point.block.index()].origin, position: point.position }
    }
}
