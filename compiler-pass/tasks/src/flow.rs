//! Questions about paths: what can follow a point, and where a property stops to hold.
//!
//! Trap: a property that stops on an edge whose target also has other ways in must be handled on the edge itself, or
//! the other ways would be handled too.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use crate::dominance::Dominance;
use crate::facts::{BlockFacts, Exit};
use crate::names::{BlockId, FrameId, Point};

/// A graph with what the planner asks of it.
#[derive(Debug)]
pub struct Flow<'a> {
    blocks: &'a [BlockFacts],
    pub dominance: Dominance,
    pub post_dominance: Dominance,
    /// Whether a return can be reached from the start of each block.
    returns: Vec<bool>,
    /// By block: the blocks that lead to it, as far as they can be reached themselves.
    ways_in: Vec<Vec<BlockId>>,
    /// By block: the blocks that can follow it, once asked for.
    later: Vec<OnceCell<Vec<bool>>>,
    /// By frame: the first of the called frames that lead to each other, which the root enters and leaves as one.
    clusters: Vec<usize>,
    /// Where the root calls: the first block of what it calls, and all blocks that can follow the call at once.
    entries: Vec<(BlockId, &'a [BlockId])>,
}

/// Where code goes, in the terms of the function that the plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spot {
    /// Before an instruction.
    Before(Point),
    /// On the way from one block to another, and on no other way.
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

    /// Counts exceptions that leave the function through these calls as returns.
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

    /// Whether a return can still follow; otherwise the process ends on every way on.
    #[must_use]
    pub fn may_return(&self, block: BlockId) -> bool {
        self.returns[block.index()]
    }

    /// Whether the instruction before `above` runs before every run of the one at `below`.
    #[must_use]
    pub fn point_dominates(&self, above: Point, below: Point) -> bool {
        if above.block == below.block {
            above.position <= below.position
        } else {
            self.dominance.dominates(above.block, below.block)
        }
    }

    /// Whether execution can get from just after `from` to `to`.
    #[must_use]
    pub fn reaches(&self, from: Point, to: Point) -> bool {
        (from.block == to.block && from.position < to.position)
            || self.later_blocks(from.block)[to.block.index()]
    }

    /// Whether a block can run again after it ran.
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

    /// Whether every way on from one point, those that end the process included, comes to another.
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

    /// Whether a way leads from the entry to a point past none of `barriers`.
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

    /// For each block, whether one of `sites` can be reached from its start and from its end.
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

    /// By frame: whether something holds at the start of a block to which the root's call into it, or into what calls it,
    /// may lead at once. A call that may come back by an exception leads there as well.
    #[must_use]
    pub fn inside(&self, holds: impl Fn(BlockId) -> bool) -> Vec<bool> {
        let entered = self.entries.iter().filter(|(_, ways)| ways.iter().any(|&way| holds(way)));
        self.clustered(entered.map(|&(entry, _)| self.blocks[entry.index()].frame))
    }

    /// By frame: whether it is one of `frames`, or leads to one or is led to from one, the root excepted.
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

    /// The blocks that lead to a block, as far as they can be reached themselves.
    pub fn ways_in(&self, block: BlockId) -> impl Iterator<Item = BlockId> + '_ {
        self.ways_in[block.index()].iter().copied()
    }

    /// Every edge, once.
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
    /// The last site of each block that has one.
    last: BTreeMap<BlockId, u32>,
}

impl Ahead {
    #[must_use]
    pub fn at_start(&self, block: BlockId) -> bool {
        self.at_start[block.index()]
    }

    /// After the block's terminator.
    #[must_use]
    pub fn at_end(&self, block: BlockId) -> bool {
        self.at_end[block.index()]
    }

    /// Whether a site can run from this point on, the instruction at it included.
    #[must_use]
    pub fn at(&self, point: Point) -> bool {
        self.at_end(point.block) || self.last.get(&point.block).is_some_and(|&last| last >= point.position)
    }
}

/// By frame: the smallest number of the called frames that it leads to or is led to from, however indirectly.
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

/// Blocks from whose start a block with the property can be reached (such blocks included).
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
