//! The control flow of one function: order, dominators, natural loops.
//!
//! Irreducible code (a loop with two entries) has no header that dominates its loop. Such a cycle is not a loop here,
//! and values that it carries count as unknown.

use eager_tasks::dominance::Dominance;
use eager_tasks::{BlockFacts, BlockId as Node, Exit};

use super::code::{BlockId, Function};

/// Index into [`Flow::loops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoopId(pub u32);

impl LoopId {
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A natural loop: all back edges to one header.
#[derive(Clone, Debug)]
pub struct Loop {
    pub header: BlockId,
    /// By block: whether the loop contains it.
    contains: Vec<bool>,
    pub blocks: usize,
}

impl Loop {
    #[must_use]
    pub fn contains(&self, block: BlockId) -> bool {
        self.contains.get(block.index()).copied().unwrap_or(false)
    }
}

/// Facts about the control flow of one function.
#[derive(Debug)]
pub struct Flow {
    /// Reachable blocks, each after its dominators; loops are in the order of their headers.
    pub order: Vec<BlockId>,
    pub predecessors: Vec<Vec<BlockId>>,
    dominance: Dominance,
    /// Largest first, so that an enclosing loop comes before those inside it.
    pub loops: Vec<Loop>,
}

/// Number of loops that are analysed in one function. Further loops are treated as straight code with unknown values.
const LOOPS_MAX: usize = 58;

impl Flow {
    #[must_use]
    pub fn of(function: &Function) -> Self {
        let count = function.blocks.len();
        let successors = |index: usize| function.blocks[index].successors.iter().map(|block| block.index());
        let facts: Vec<BlockFacts> = (0..count)
            .map(|index| {
                let exit = successors(index).next().is_none().then_some(Exit::Return);
                let successors = successors(index).map(Node::from_index).collect();
                BlockFacts::whole(Node::from_index(index), successors, exit, 1)
            })
            .collect();
        let order = reverse_post_order(function);
        let mut predecessors = vec![Vec::new(); count];
        for &block in &order {
            for successor in successors(block.index()) {
                predecessors[successor].push(block);
            }
        }
        let dominance = Dominance::forward(&facts);
        let loops = loops(&order, &predecessors, &Tree::of(&order, &dominance));
        Self { order, predecessors, dominance, loops }
    }

    #[must_use]
    pub fn immediate_dominator(&self, block: BlockId) -> Option<BlockId> {
        self.dominance.immediate(node(block)).map(|found| BlockId(found.0))
    }

    /// Loop whose header is `block`.
    #[must_use]
    pub fn headed_by(&self, block: BlockId) -> Option<LoopId> {
        self.loops.iter().position(|found| found.header == block).map(|index| LoopId(index as u32))
    }

    /// Loops around a block, outermost first.
    #[must_use]
    pub fn around(&self, block: BlockId) -> Vec<LoopId> {
        let inside = self.loops.iter().enumerate().filter(|(_, found)| found.contains(block));
        inside.map(|(index, _)| LoopId(index as u32)).collect()
    }
}

fn node(block: BlockId) -> Node {
    Node(block.0)
}

fn reverse_post_order(function: &Function) -> Vec<BlockId> {
    let mut order = Vec::new();
    if function.blocks.is_empty() {
        return order;
    }
    let mut seen = vec![false; function.blocks.len()];
    let mut stack = vec![(0usize, 0usize)];
    seen[0] = true;
    while let Some((block, next)) = stack.pop() {
        match function.blocks[block].successors.get(next) {
            Some(successor) => {
                stack.push((block, next + 1));
                if !std::mem::replace(&mut seen[successor.index()], true) {
                    stack.push((successor.index(), 0));
                }
            }
            None => order.push(BlockId(block as u32)),
        }
    }
    order.reverse();
    order
}

/// The dominator tree with numbers that answer "dominates" by two comparisons. Walking up a long chain of blocks for
/// every edge would take quadratic time.
struct Tree {
    /// By block: when a walk of the tree enters the block and when it leaves it. 0, 0 for unreachable blocks.
    visits: Vec<(u32, u32)>,
}

impl Tree {
    fn of(order: &[BlockId], dominance: &Dominance) -> Self {
        let count = order.iter().map(|block| block.index() + 1).max().unwrap_or(0);
        let mut below = vec![Vec::new(); count];
        for &block in order {
            if let Some(above) = dominance.immediate(node(block)) {
                below[above.index()].push(block.index());
            }
        }
        let mut visits = vec![(0, 0); count];
        let mut clock = 1;
        let mut stack: Vec<(usize, usize)> =
            order.first().map(|entry| (entry.index(), 0)).into_iter().collect();
        while let Some((block, next)) = stack.pop() {
            if next == 0 {
                visits[block].0 = clock;
                clock += 1;
            }
            match below[block].get(next) {
                Some(&child) => stack.extend([(block, next + 1), (child, 0)]),
                None => visits[block].1 = clock,
            }
        }
        Self { visits }
    }

    fn dominates(&self, above: BlockId, below: BlockId) -> bool {
        let (enter, leave) = self.visits[above.index()];
        let (at, _) = self.visits[below.index()];
        enter <= at && at < leave
    }
}

fn loops(order: &[BlockId], predecessors: &[Vec<BlockId>], tree: &Tree) -> Vec<Loop> {
    let mut found: Vec<Loop> = Vec::new();
    for &header in order {
        let is_latch = |latch: &BlockId| tree.dominates(header, *latch);
        let latches: Vec<BlockId> = predecessors[header.index()].iter().copied().filter(is_latch).collect();
        if latches.is_empty() || found.len() == LOOPS_MAX {
            continue;
        }
        let mut contains = vec![false; predecessors.len()];
        contains[header.index()] = true;
        let mut blocks = 1;
        let mut open = latches;
        while let Some(block) = open.pop() {
            if !std::mem::replace(&mut contains[block.index()], true) {
                blocks += 1;
                open.extend(&predecessors[block.index()]);
            }
        }
        found.push(Loop { header, contains, blocks });
    }
    found.sort_by_key(|found| std::cmp::Reverse(found.blocks));
    found
}
