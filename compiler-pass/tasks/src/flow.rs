//! Questions about paths: what can follow a point, and which edges a property ends on.
//!
//! Trap: where a property ends on an edge to a block with other predecessors, code must go on the edge itself; in the
//! block it would run on the other paths as well.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::dominance::Dominance;
use crate::facts::{BlockFacts, Exit};
use crate::names::{BlockId, FrameId, Point};

/// A control-flow graph with the properties that the planner asks for.
#[derive(Debug)]
pub struct Flow<'a> {
    blocks: &'a [BlockFacts],
    pub dominance: Dominance,
    pub post_dominance: Dominance,
    /// Whether a return can be reached from the start of each block.
    returns: Vec<bool>,
    /// By block: its predecessors that can be reached.
    ways_in: Vec<Vec<BlockId>>,
    /// By block: the blocks that can follow it; computed when first asked for.
    later: Vec<OnceCell<Vec<bool>>>,
    /// By frame: the smallest number of the called frames in its cluster. The frames of a cluster are connected by
    /// calls outside the root.
    clusters: Vec<usize>,
    /// For each call in the root that is inlined: the entry block of the callee, and all successors of the call's
    /// block.
    entries: Vec<(BlockId, &'a [BlockId])>,
}

/// A position at which code can be inserted, in the function that the plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spot {
    /// Before an instruction.
    Before(Point),
    /// On the edge from one block to another.
    OnEdge { from: BlockId, to: BlockId },
}

impl<'a> Flow<'a> {
    #[must_use]
    pub fn new(blocks: &'a [BlockFacts]) -> Self {
        let exits = blocks.iter().map(|block| block.exit == Some(Exit::Return)).collect();
        let dominance = Dominance::forward(blocks);
        Self {
            blocks,
            ways_in: ways_in(blocks, &dominance),
            dominance,
            post_dominance: Dominance::backward(blocks),
            returns: leads_to(blocks, exits),
            later: vec![OnceCell::new(); blocks.len()],
            clusters: clusters(blocks),
            entries: entries(blocks),
        }
    }

    /// Treats exceptions that leave the function through these calls as returns.
    #[must_use]
    pub fn leaving_by(mut self, calls: &[Point]) -> Self {
        let mut leaves: Vec<bool> =
            self.blocks.iter().map(|block| block.exit == Some(Exit::Return)).collect();
        for call in calls {
            leaves[call.block.index()] = true;
        }
        self.returns = leads_to(self.blocks, leaves);
        self
    }

    /// Whether a return can follow the start of a block; otherwise the process ends on every path from there.
    #[must_use]
    pub fn may_return(&self, block: BlockId) -> bool {
        self.returns[block.index()]
    }

    /// Whether every path to the point `below` passes the point `above`.
    #[must_use]
    pub fn point_dominates(&self, above: Point, below: Point) -> bool {
        if above.block == below.block {
            above.position <= below.position
        } else {
            self.dominance.dominates(above.block, below.block)
        }
    }

    /// Whether execution can get from just after the instruction at `from` to `to`.
    #[must_use]
    pub fn reaches(&self, from: Point, to: Point) -> bool {
        (from.block == to.block && from.position < to.position)
            || self.later_blocks(from.block)[to.block.index()]
    }

    /// Whether a block can run again after it has run.
    #[must_use]
    pub fn in_cycle(&self, block: BlockId) -> bool {
        self.later_blocks(block)[block.index()]
    }

    /// Blocks that can follow a block; itself only if it lies in a cycle.
    fn later_blocks(&self, from: BlockId) -> &[bool] {
        self.later[from.index()].get_or_init(|| {
            let mut seen = vec![false; self.blocks.len()];
            let mut stack = self.blocks[from.index()].successors.clone();
            while let Some(block) = stack.pop() {
                if !std::mem::replace(&mut seen[block.index()], true) {
                    stack.extend(&self.blocks[block.index()].successors);
                }
            }
            seen
        })
    }

    /// Whether every path from `from`, including those that end the process, passes `to`.
    #[must_use]
    pub fn is_unavoidable(&self, from: Point, to: Point) -> bool {
        if from.block == to.block && from.position <= to.position {
            return true;
        }
        let mut seen = vec![false; self.blocks.len()];
        let mut stack = vec![from.block];
        while let Some(block) = stack.pop() {
            if self.blocks[block.index()].successors.is_empty() {
                return false;
            }
            for &next in &self.blocks[block.index()].successors {
                if next != to.block && !std::mem::replace(&mut seen[next.index()], true) {
                    stack.push(next);
                }
            }
        }
        true
    }

    /// Whether some path leads from the entry to a point without passing any of `barriers`.
    #[must_use]
    pub fn avoids(&self, to: Point, barriers: &[Point]) -> bool {
        let stops_before = |block: BlockId, position: u32| {
            barriers.iter().any(|barrier| barrier.block == block && barrier.position < position)
        };
        let mut seen = vec![false; self.blocks.len()];
        let mut stack = vec![BlockId(0)];
        while let Some(block) = stack.pop() {
            if std::mem::replace(&mut seen[block.index()], true) {
                continue;
            }
            if block == to.block && !stops_before(block, to.position) {
                return true;
            }
            if !stops_before(block, u32::MAX) {
                stack.extend(&self.blocks[block.index()].successors);
            }
        }
        false
    }

    /// Computes for each block whether one of `sites` can be reached from its start and from its end.
    #[must_use]
    pub fn ahead(&self, sites: &[Point]) -> Ahead {
        let mut holds = vec![false; self.blocks.len()];
        for site in sites {
            holds[site.block.index()] = true;
        }
        let at_start = leads_to(self.blocks, holds);
        let at_end = self.blocks.iter().map(|b| b.successors.iter().any(|s| at_start[s.index()])).collect();
        let mut last = BTreeMap::new();
        for site in sites {
            let position = last.entry(site.block).or_insert(site.position);
            *position = site.position.max(*position);
        }
        Ahead { at_start, at_end, last }
    }

    /// By frame: whether `holds` is true for a direct successor of a root call that leads into the frame's cluster: the
    /// callee's entry or, for a call that may unwind, its exceptional successor.
    #[must_use]
    pub fn inside(&self, holds: impl Fn(BlockId) -> bool) -> Vec<bool> {
        let entered = self.entries.iter().filter(|(_, ways)| ways.iter().any(|&way| holds(way)));
        self.clustered(entered.map(|&(entry, _)| self.blocks[entry.index()].frame))
    }

    /// By frame: whether its cluster contains one of `frames`; false for the root.
    #[must_use]
    pub fn clustered(&self, frames: impl IntoIterator<Item = FrameId>) -> Vec<bool> {
        let mut found = vec![false; self.clusters.len()];
        for frame in frames {
            found[self.clusters[frame.index()]] = true;
        }
        self.clusters.iter().map(|&cluster| cluster != FrameId::ROOT.index() && found[cluster]).collect()
    }

    /// The last instruction of a block.
    #[must_use]
    pub fn terminator(&self, block: BlockId) -> Point {
        Point { block, position: self.blocks[block.index()].end.saturating_sub(1) }
    }

    /// Predecessors of a block that can be reached.
    pub fn ways_in(&self, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        self.ways_in[block.index()].iter().copied()
    }

    /// Every edge, each once.
    pub fn edges(&self) -> impl Iterator<Item = (BlockId, BlockId)> + '_ {
        self.blocks.iter().enumerate().flat_map(|(index, block)| {
            let mut successors = block.successors.clone();
            successors.sort_unstable();
            successors.dedup();
            successors.into_iter().map(move |successor| (BlockId::from_index(index), successor))
        })
    }
}

/// Where a set of sites can still be reached.
#[derive(Debug)]
pub struct Ahead {
    at_start: Vec<bool>,
    at_end: Vec<bool>,
    /// Position of the last site in each block that has one.
    last: BTreeMap<BlockId, u32>,
}

impl Ahead {
    #[must_use]
    pub fn at_start(&self, block: BlockId) -> bool {
        self.at_start[block.index()]
    }

    /// Whether a site can be reached after the block's terminator.
    #[must_use]
    pub fn at_end(&self, block: BlockId) -> bool {
        self.at_end[block.index()]
    }

    /// Whether a site can run from this point on, including the instruction at the point.
    #[must_use]
    pub fn at(&self, point: Point) -> bool {
        self.at_end(point.block) || self.last.get(&point.block).is_some_and(|&last| last >= point.position)
    }
}

/// By frame: the smallest number of the called frames that calls connect it to, directly or indirectly.
fn clusters(blocks: &[BlockFacts]) -> Vec<usize> {
    let frames = blocks.iter().map(|block| block.frame.index() + 1).max().unwrap_or(0);
    let mut clusters: Vec<usize> = (0..frames).collect();
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for block in blocks.iter().filter(|block| block.frame != FrameId::ROOT) {
            for successor in &block.successors {
                let (a, b) = (block.frame.index(), blocks[successor.index()].frame.index());
                let lower = clusters[a].min(clusters[b]);
                if b != FrameId::ROOT.index() && (clusters[a], clusters[b]) != (lower, lower) {
                    (clusters[a], clusters[b], changed) = (lower, lower, true);
                }
            }
        }
    }
    clusters
}

fn entries(blocks: &[BlockFacts]) -> Vec<(BlockId, &[BlockId])> {
    let is_root = |block: &BlockFacts| block.frame == FrameId::ROOT;
    let calls = blocks.iter().filter(|block| is_root(block));
    let entries =
        calls.flat_map(|block| block.successors.iter().map(move |&next| (next, &block.successors[..])));
    entries.filter(|(entry, _)| !is_root(&blocks[entry.index()])).collect()
}

fn ways_in(blocks: &[BlockFacts], dominance: &Dominance) -> Vec<Vec<BlockId>> {
    let mut ways: Vec<Vec<BlockId>> = vec![Vec::new(); blocks.len()];
    let reached = |from: &BlockId| dominance.dominates(BlockId(0), *from);
    for from in (0..blocks.len()).map(BlockId::from_index).filter(reached) {
        for successor in &blocks[from.index()].successors {
            let ways = &mut ways[successor.index()];
            if ways.last() != Some(&from) {
                ways.push(from);
            }
        }
    }
    ways
}

/// Blocks from whose start a block can be reached for which `holds` is true (such blocks included).
fn leads_to(blocks: &[BlockFacts], mut holds: Vec<bool>) -> Vec<bool> {
    let mut sources = vec![Vec::new(); blocks.len()];
    for (index, block) in blocks.iter().enumerate() {
        for successor in &block.successors {
            sources[successor.index()].push(index);
        }
    }
    let mut pending: Vec<usize> = (0..blocks.len()).filter(|&index| holds[index]).collect();
    while let Some(block) = pending.pop() {
        for &source in &sources[block] {
            if !std::mem::replace(&mut holds[source], true) {
                pending.push(source);
            }
        }
    }
    holds
}
