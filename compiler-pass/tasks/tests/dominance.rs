//! Checks dominators against the definition: a block dominates another if deleting it cuts every path from the root.

mod support;

use eager_tasks::dominance::Dominance;
use eager_tasks::{BlockFacts, BlockId, Exit};
use proptest::prelude::*;

fn graph() -> impl Strategy<Value = Vec<BlockFacts>> {
    (1_usize..9).prop_flat_map(|len| {
        proptest::collection::vec((proptest::collection::vec(0..len, 0..3), any::<bool>()), len).prop_map(
            |blocks| {
                let block = |(index, (successors, returns)): (usize, (Vec<usize>, bool))| {
                    let exit = if returns { Exit::Return } else { Exit::NoReturn };
                    let exit = successors.is_empty().then_some(exit);
                    let successors = successors.into_iter().map(BlockId::from_index).collect();
                    support::block(index, successors, exit, 1)
                };
                blocks.into_iter().enumerate().map(block).collect()
            },
        )
    })
}

/// Whether a path that avoids `without` leads from one of `starts` to a block for which `is_goal` is true.
fn connects(
    blocks: &[BlockFacts],
    start: usize,
    goal: impl Fn(usize) -> bool,
    without: Option<usize>,
) -> bool {
    let mut seen = vec![false; blocks.len()];
    let mut stack = vec![start];
    while let Some(at) = stack.pop() {
        if Some(at) == without || std::mem::replace(&mut seen[at], true) {
            continue;
        }
        if goal(at) {
            return true;
        }
        stack.extend(blocks[at].successors.iter().map(|s| s.index()));
    }
    false
}

proptest! {
    #[test]
    fn dominators_match_their_definition(blocks in graph()) {
        let dominance = Dominance::forward(&blocks);
        for above in 0..blocks.len() {
            for below in 0..blocks.len() {
                let reached = connects(&blocks, 0, |b| b == below, None);
                let expected = reached && !connects(&blocks, 0, |b| b == below, Some(above));
                let found = dominance.dominates(BlockId::from_index(above), BlockId::from_index(below));
                prop_assert_eq!(found, expected, "{} over {}", above, below);
            }
        }
    }

    #[test]
    fn post_dominators_match_their_definition(blocks in graph()) {
        let dominance = Dominance::backward(&blocks);
        let returns = |b: usize| blocks[b].exit == Some(Exit::Return);
        for after in 0..blocks.len() {
            for before in 0..blocks.len() {
                let reached = connects(&blocks, before, returns, None);
                let expected = reached && !connects(&blocks, before, returns, Some(after));
                let found = dominance.dominates(BlockId::from_index(after), BlockId::from_index(before));
                prop_assert_eq!(found, expected, "{} after {}", after, before);
            }
        }
    }

    #[test]
    fn nearest_common_dominator_is_the_lowest_one(blocks in graph()) {
        let dominance = Dominance::forward(&blocks);
        let reached: Vec<_> =
            (0..blocks.len()).filter(|&b| connects(&blocks, 0, |x| x == b, None)).map(BlockId::from_index).collect();
        let common = dominance.nearest_common(reached.iter().copied().skip(1));
        if let Some(common) = common {
            for &block in &reached[1..] {
                prop_assert!(dominance.dominates(common, block));
            }
            for &other in &reached {
                let dominates_all = reached[1..].iter().all(|&block| dominance.dominates(other, block));
                prop_assert!(!dominates_all || dominance.dominates(other, common));
            }
        }
    }
}
