//! Orders the blocks of a kernel so that threads that lag behind catch up first: each loop is contiguous, and each
//! block precedes its successors, back edges aside.
//!
//! Trap: threads of a warp wait for each other at places numbered in this order, and those at the lowest continue
//! first. If a loop were not contiguous, threads that have left it would continue before those still in it.

use std::collections::{BTreeMap, BTreeSet};

use crate::llvm::{Block, Value};

/// A loop; blocks are numbers in the order.
pub(crate) struct Cycle {
    pub head: usize,
    /// Blocks of the loop, those of inner loops included.
    pub members: BTreeSet<usize>,
    /// Blocks that branch back to its head.
    pub latches: Vec<usize>,
    /// Its last block in the order.
    pub last: usize,
}

pub(crate) struct Order<'m> {
    pub blocks: Vec<Block<'m>>,
    pub next: Vec<Vec<usize>>,
    /// Inner loops before the loops around them.
    pub cycles: Vec<Cycle>,
}

impl<'m> Order<'m> {
    pub fn of(kernel: Value<'m>) -> Order<'m> {
        let blocks = kernel.blocks();
        let number: BTreeMap<Block, usize> = (0..).zip(&blocks).map(|(n, &block)| (block, n)).collect();
        let next: Vec<Vec<usize>> = blocks
            .iter()
            .map(|block| block.terminator().successors().iter().map(|to| number[to]).collect())
            .collect();
        let mut layout = Layout { next: &next, line: Vec::new(), cycles: Vec::new() };
        layout.lay_out(&(0..blocks.len()).collect(), 0, &BTreeSet::new());
        let Layout { line, cycles, .. } = layout;
        let place: BTreeMap<usize, usize> = line.iter().enumerate().map(|(at, &block)| (block, at)).collect();
        let moved = |block: &usize| place[block];
        let cycles: Vec<Cycle> = cycles
            .into_iter()
            .map(|(head, members)| {
                let latches =
                    members.iter().filter(|&&block| next[block].contains(&head)).map(moved).collect();
                let members: BTreeSet<usize> = members.iter().map(moved).collect();
                let last = members.last().copied().unwrap_or_default();
                Cycle { head: place[&head], members, latches, last }
            })
            .collect();
        // Unreachable blocks are left out.
        let next = line.iter().map(|&block| next[block].iter().map(moved).collect()).collect();
        let blocks = line.iter().map(|&block| blocks[block]).collect();
        Order { blocks, next, cycles }
    }

    /// True if some loop contains block `from` but not block `to`.
    pub fn leaves_cycle(&self, from: usize, to: usize) -> bool {
        self.cycles.iter().any(|cycle| cycle.members.contains(&from) && !cycle.members.contains(&to))
    }

    /// True if every path around `cycle` passes a block of `through` that is in no inner loop.
    pub fn always_passes(&self, cycle: &Cycle, through: &BTreeSet<usize>) -> bool {
        let is_inside = |block: &usize| {
            let inner = |other: &&Cycle| other.members.len() < cycle.members.len();
            self.cycles
                .iter()
                .filter(inner)
                .any(|other| other.members.contains(block) && cycle.members.contains(&other.head))
        };
        let through: BTreeSet<usize> = through.iter().copied().filter(|block| !is_inside(block)).collect();
        let (mut seen, mut open) = (BTreeSet::new(), vec![cycle.head]);
        while let Some(block) = open.pop() {
            if through.contains(&block) || !cycle.members.contains(&block) || !seen.insert(block) {
                continue;
            }
            if cycle.latches.contains(&block) {
                return false;
            }
            open.extend(&self.next[block]);
        }
        true
    }
}

struct Layout<'a> {
    next: &'a [Vec<usize>],
    line: Vec<usize>,
    /// Head and members of each loop.
    cycles: Vec<(usize, BTreeSet<usize>)>,
}

impl Layout<'_> {
    /// Appends the blocks of `among` reachable from `first`; edges to `heads` are ignored.
    fn lay_out(&mut self, among: &BTreeSet<usize>, first: usize, heads: &BTreeSet<usize>) {
        let ways = |block: usize| -> Vec<usize> {
            let inside = |to: &&usize| among.contains(to) && !heads.contains(to);
            self.next[block].iter().filter(inside).copied().collect()
        };
        let components = components(first, &ways);
        for component in components {
            let [block] = component[..] else {
                self.lay_out_cycle(component, first, heads);
                continue;
            };
            if ways(block).contains(&block) {
                self.cycles.push((block, BTreeSet::from([block])));
            }
            self.line.push(block);
        }
    }

    fn lay_out_cycle(&mut self, component: Vec<usize>, first: usize, heads: &BTreeSet<usize>) {
        let members: BTreeSet<usize> = component.iter().copied().collect();
        let enters = |to: &&usize| {
            let outside = (0..self.next.len()).filter(|from| !members.contains(from));
            **to == first || outside.into_iter().any(|from| self.next[from].contains(to))
        };
        let head = members.iter().find(enters).copied().unwrap_or(component[0]);
        let heads: BTreeSet<usize> = heads.iter().copied().chain([head]).collect();
        self.lay_out(&members, head, &heads);
        self.cycles.push((head, members));
    }
}

/// Strongly connected components reachable from `first`, each before its successors. (Kosaraju's algorithm: in reverse
/// order of finishing, each block's component is the set of remaining blocks that lead to it.)
fn components(first: usize, ways: &dyn Fn(usize) -> Vec<usize>) -> Vec<Vec<usize>> {
    let (mut seen, mut finished) = (BTreeSet::from([first]), Vec::new());
    let mut from: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut open = vec![(first, ways(first))];
    while let Some((block, left)) = open.last_mut() {
        let Some(to) = left.pop() else {
            finished.push(*block);
            open.pop();
            continue;
        };
        from.entry(to).or_default().push(*block);
        if seen.insert(to) {
            open.push((to, ways(to)));
        }
    }
    let (mut taken, mut found) = (BTreeSet::new(), Vec::new());
    for &root in finished.iter().rev() {
        let (mut component, mut open) = (Vec::new(), vec![root]);
        while let Some(block) = open.pop() {
            if taken.insert(block) {
                component.push(block);
                open.extend(from.get(&block).into_iter().flatten());
            }
        }
        if !component.is_empty() {
            found.push(component);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lays out a graph; returns the order, and head and members of its loops.
    fn laid_out(next: &[&[usize]]) -> (Vec<usize>, Vec<(usize, Vec<usize>)>) {
        let next: Vec<Vec<usize>> = next.iter().map(|ways| ways.to_vec()).collect();
        let mut layout = Layout { next: &next, line: Vec::new(), cycles: Vec::new() };
        layout.lay_out(&(0..next.len()).collect(), 0, &BTreeSet::new());
        let cycles = layout.cycles.into_iter().map(|(head, members)| (head, members.into_iter().collect()));
        (layout.line, cycles.collect())
    }

    #[test]
    fn a_loop_comes_in_one_piece_whichever_way_leads_out_first() {
        for ways in [[2, 3], [3, 2]] {
            let (line, cycles) = laid_out(&[&[1], &ways, &[1], &[]]);
            assert_eq!(line, [0, 1, 2, 3]);
            assert_eq!(cycles, [(1, vec![1, 2])]);
        }
    }

    #[test]
    fn loops_in_loops_and_on_themselves() {
        // 1 is the head of the outer loop, 2 loops to itself, 3 and 4 form an inner loop.
        let (line, cycles) = laid_out(&[&[1], &[2, 6], &[2, 3], &[4], &[3, 5], &[1, 6], &[]]);
        assert_eq!(line, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(cycles, [(2, vec![2]), (3, vec![3, 4]), (1, vec![1, 2, 3, 4, 5])]);
    }

    #[test]
    fn branches_come_before_what_they_both_lead_to() {
        let (line, cycles) = laid_out(&[&[2, 1], &[3], &[3], &[]]);
        assert_eq!((line[0], line[3], cycles.len()), (0, 3, 0));
    }

    #[test]
    fn a_loop_with_two_ways_in_has_a_head_all_the_same() {
        let (line, cycles) = laid_out(&[&[1, 2], &[2], &[1, 3], &[]]);
        assert_eq!((line.len(), line[3]), (4, 3));
        assert_eq!(cycles.len(), 1);
    }
}
