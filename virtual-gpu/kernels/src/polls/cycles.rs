//! Ways round through a kernel's blocks that do nothing another thread could see.
//!
//! Trap: their number can rise exponentially with the branches of a loop, so the search has a budget; what it does not reach
//! is not found, and such a loop only runs as it did before there was this search.

use std::collections::BTreeMap;

use crate::llvm::{Block, Value};

/// Blocks visited in one kernel.
const STEPS_MAX: usize = 20_000;
/// Blocks of one way round.
const LENGTH_MAX: usize = 64;

struct Search<'a> {
    blocks: &'a [Block],
    next: Vec<Vec<usize>>,
    quiet: Vec<bool>,
    steps: usize,
    found: Vec<Vec<Block>>,
}

/// The simple cycles of blocks all of whose instructions are `quiet`, each from its first block in the order of control.
pub(super) fn quiet(kernel: Value, quiet: impl Fn(Value) -> bool) -> Vec<Vec<Block>> {
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

impl Search<'_> {
    /// Goes on from the last block of `path`, which began at `start`.
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

/// The blocks that control can reach, each before those it leads to, but for ways back.
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
