//! Dominators and post-dominators: which blocks lie on every path from the entry, or on every path to a return.
//!
//! Iterative algorithm of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001). For post-dominance
//! only returns count as exits. A path into `exit()` ends the process and constrains nothing.

use crate::facts::{BlockFacts, Exit};
use crate::names::BlockId;

/// Immediate dominators of a graph with one root.
#[derive(Clone, Debug)]
pub struct Dominance {
    /// Immediate dominator by node; the root's is the root itself; `None` for unreachable nodes.
    immediate: Vec<Option<usize>>,
    /// Position of each node in reverse post-order, for the intersection.
    order: Vec<usize>,
    /// By node: times at which a walk of the dominator tree enters and leaves it. Dominator trees can be deep, so a
    /// query must not walk up the tree.
    spans: Vec<(usize, usize)>,
    root: usize,
}

impl Dominance {
    /// Dominators of a function's blocks; block 0 is the entry.
    #[must_use]
    pub fn forward(blocks: &[BlockFacts]) -> Self {
        let successors: Vec<Vec<usize>> =
            blocks.iter().map(|block| block.successors.iter().map(|s| s.index()).collect()).collect();
        Self::compute(&successors, 0)
    }

    /// Post-dominators: dominators of the reversed graph from one extra node behind every return.
    #[must_use]
    pub fn backward(blocks: &[BlockFacts]) -> Self {
        let root = blocks.len();
        let mut reversed = vec![Vec::new(); root + 1];
        for (index, block) in blocks.iter().enumerate() {
            for successor in &block.successors {
                reversed[successor.index()].push(index);
            }
            if block.exit == Some(Exit::Return) {
                reversed[root].push(index);
            }
        }
        Self::compute(&reversed, root)
    }

    fn compute(successors: &[Vec<usize>], root: usize) -> Self {
        let post_order = post_order(successors, root);
        let mut order = vec![usize::MAX; successors.len()];
        for (rank, &node) in post_order.iter().rev().enumerate() {
            order[node] = rank;
        }
        let mut predecessors = vec![Vec::new(); successors.len()];
        for &node in &post_order {
            for &successor in &successors[node] {
                predecessors[successor].push(node);
            }
        }
        let mut found = Self { immediate: vec![None; successors.len()], order, spans: Vec::new(), root };
        found.immediate[root] = Some(root);
        let mut changed = true;
        while changed {
            changed = false;
            for &node in post_order.iter().rev().filter(|&&node| node != root) {
                let known = predecessors[node].iter().copied().filter(|&p| found.immediate[p].is_some());
                let next = known.reduce(|a, b| found.intersect(a, b));
                if next != found.immediate[node] {
                    found.immediate[node] = next;
                    changed = true;
                }
            }
        }
        found.spans = spans(&found.immediate, root);
        found
    }

    fn intersect(&self, mut a: usize, mut b: usize) -> usize {
        while a != b {
            if self.order[a] > self.order[b] {
                a = self.immediate[a].unwrap_or(self.root);
            } else {
                b = self.immediate[b].unwrap_or(self.root);
            }
        }
        a
    }

    fn is_reached(&self, node: usize) -> bool {
        self.immediate.get(node).copied().flatten().is_some()
    }

    /// Whether every path from the root to `below` passes `above`; false if one of the two is unreachable.
    #[must_use]
    pub fn dominates(&self, above: BlockId, below: BlockId) -> bool {
        let (above, below) = (above.index(), below.index());
        if !self.is_reached(below) || !self.is_reached(above) {
            return false;
        }
        let (outer, inner) = (self.spans[above], self.spans[below]);
        outer.0 <= inner.0 && inner.1 <= outer.1
    }

    /// Immediate dominator of a block; `None` for the root and for unreachable blocks.
    #[must_use]
    pub fn immediate(&self, block: BlockId) -> Option<BlockId> {
        let above = self.immediate.get(block.index()).copied().flatten()?;
        (above != block.index()).then(|| BlockId::from_index(above))
    }

    /// Lowest block that dominates all of `blocks`; `None` if one is unreachable or `blocks` is empty.
    #[must_use]
    pub fn nearest_common(&self, blocks: impl IntoIterator<Item = BlockId>) -> Option<BlockId> {
        let mut blocks = blocks.into_iter().map(BlockId::index).peekable();
        blocks.peek()?;
        let all: Vec<_> = blocks.collect();
        if !all.iter().all(|&block| self.is_reached(block)) {
            return None;
        }
        all.into_iter().reduce(|a, b| self.intersect(a, b)).map(BlockId::from_index)
    }
}

/// Times at which a depth-first walk enters and leaves each node of a tree.
fn spans(parents: &[Option<usize>], root: usize) -> Vec<(usize, usize)> {
    let mut children = vec![Vec::new(); parents.len()];
    for (node, parent) in parents.iter().enumerate() {
        if let Some(parent) = parent.filter(|&parent| parent != node) {
            children[parent].push(node);
        }
    }
    let mut spans = vec![(0, 0); parents.len()];
    let mut clock = 0;
    let mut stack = vec![(root, false)];
    while let Some((node, is_left)) = stack.pop() {
        clock += 1;
        if is_left {
            spans[node].1 = clock;
        } else {
            spans[node].0 = clock;
            stack.push((node, true));
            stack.extend(children[node].iter().map(|&child| (child, false)));
        }
    }
    spans
}

/// Nodes reachable from `root` in post-order.
fn post_order(successors: &[Vec<usize>], root: usize) -> Vec<usize> {
    let mut seen = vec![false; successors.len()];
    let mut order = Vec::new();
    let mut stack = vec![(root, 0)];
    seen[root] = true;
    while let Some((node, next)) = stack.pop() {
        if let Some(&successor) = successors[node].get(next) {
            stack.push((node, next + 1));
            if !seen[successor] {
                seen[successor] = true;
                stack.push((successor, 0));
            }
        } else {
            order.push(node);
        }
    }
    order
}
