//! Cycles in a kernel's blocks that do nothing visible to other threads.
//!
//! Their number can grow exponentially with the branches of a loop, so the search has a budget. A loop that it does not
//! reach runs without yielding.

use std::collections::BTreeMap;

use crate::llvm::{Block, Value};

/// Limit on the blocks visited in one kernel.
const STEPS_MAX: usize = 20_000;
/// Limit on the blocks of one cycle.
const LENGTH_MAX: usize = 64;

struct Search<'a, 'm> {
    blocks: &'a [Block<'m>],
    next: Vec<Vec<usize>>,
    quiet: Vec<bool>,
    steps: usize,
    found: Vec<Vec<Block<'m>>>,
}

/// Simple cycles of blocks whose instructions are all `quiet`, each starting with its first block in the order of
/// control.
pub(super) fn quiet<'m>(kernel: Value<'m>, quiet: impl Fn(Value<'m>) -> bool) -> Vec<Vec<Block<'m>>> {
    let blocks = in_order(kernel);
    let number: BTreeMap<Block, usize> = (0..).zip(&blocks).map(|(n, &block)| (block, n)).collect();
    let next: Vec<Vec<usize>> =
        blocks.iter().map(|b| b.terminator().successors().iter().map(|to| number[to]).collect()).collect();
    let is_quiet = blocks.iter().map(|block| block.instructions().into_iter().all(&quiet)).collect();
    let mut search = Search { blocks: &blocks, next, quiet: is_quiet, steps: 0, found: Vec::new() };
    for start in 0..blocks.len() {
        let returned_to = (start..blocks.len()).any(|from| search.next[from].contains(&start));
        if returned_to && search.quiet[start] {
            search.walk(start, &mut vec![start]);
        }
    }
    search.found
}

impl Search<'_, '_> {
    /// Extends `path`, which began at `start`, from its last block.
    fn walk(&mut self, start: usize, path: &mut Vec<usize>) {
        let here = path[path.len() - 1];
        let mut ways = self.next[here].clone();
        ways.dedup();
        for to in ways {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return;
            }
            if to == start {
                self.found.push(path.iter().map(|&block| self.blocks[block]).collect());
            } else if to > start && self.quiet[to] && path.len() < LENGTH_MAX && !path.contains(&to) {
                path.push(to);
                self.walk(start, path);
                path.pop();
            }
        }
    }
}

/// Reachable blocks, each before its successors, back edges aside.
fn in_order(kernel: Value) -> Vec<Block> {
    let Some(&first) = kernel.blocks().first() else { return Vec::new() };
    let mut seen = BTreeMap::from([(first, ())]);
    let (mut open, mut done) = (vec![(first, first.terminator().successors())], Vec::new());
    while let Some((block, ways)) = open.last_mut() {
        match ways.pop() {
            Some(to) if seen.insert(to, ()).is_none() => open.push((to, to.terminator().successors())),
            Some(_) => {}
            None => {
                done.push(*block);
                open.pop();
            }
        }
    }
    done.reverse();
    done
}
