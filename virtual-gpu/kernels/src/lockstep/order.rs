//! The blocks of a kernel in an order in which those behind catch up first: loops in one piece, each block before those it leads
//! to but for the ways back.
//!
//! Trap: threads of a warp wait for each other at places that are numbered in this order, and the lowest goes on first. Were a
//! loop not in one piece, threads that have left it would go on before those still in it.

use std::collections::{BTreeMap, BTreeSet};

use crate::llvm::{Block, Value};

/// A loop; blocks are numbers in the order.
pub(crate) struct Cycle {
    pub head: usize,
    /// Those of loops inside it too.
    pub members: BTreeSet<usize>,
    /// Those that lead back to its head.
    pub latches: Vec<usize>,
    /// The last block of it.
    pub last: usize,
}

pub(crate) struct Order {
    pub blocks: Vec<Block>,
    pub next: Vec<Vec<usize>>,
    /// Inner ones before those around them.
    pub cycles: Vec<Cycle>,
}

impl Order {
    pub fn of(kernel: Value) -> Order {
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
        // What control cannot reach has no place.
        let next = line.iter().map(|&block| next[block].iter().map(moved).collect()).collect();
        let blocks = line.iter().map(|&block| blocks[block]).collect();
        Order { blocks, next, cycles }
    }

    /// Whether a loop has the first block in it, and not the second.
    pub fn leaves_cycle(&self, from: usize, to: usize) -> bool {
        self.cycles.iter().any(|cycle| cycle.members.contains(&from) && !cycle.members.contains(&to))
    }

    /// Whether every way round `cycle` passes one of `through` that is in no loop inside it.
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
    /// Head and members.
    cycles: Vec<(usize, BTreeSet<usize>)>,
}

impl Layout<'_> {
    /// Puts what is reached from `first` within `among` in line; ways to `heads` do not count.
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

/// The strongly connected components reached from `first`, each before those it leads to. (S. R. Kosaraju's way: what finishes
/// last comes first, and what leads to it of the rest is its component.)
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

    /// The order of a graph, and head, members and latches of its loops.
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
        // 1 is the head of all, 2 goes round by itself, 3 and 4 are a loop of their own.
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
