//! Finds the branches of a thread's code that all threads of a block take alike, and the values common to them.
//!
//! Works on code whose values cross blocks in stack slots only (`reg2mem`): a slot is *common* if only common values
//! are stored to it, and only in blocks that all threads run. (R. Karrenberg, S. Hack, "Improving Performance of OpenCL
//! on CPUs", CC 2012.) Trap: a value read from memory must count as different for each thread, even at one address,
//! because another thread may write there in the same region. Only memory that is not written while the kernel runs
//! gives common values.

use std::collections::{BTreeMap, BTreeSet};

use crate::llvm::{Block, Opcode, Value};
use crate::pure;

/// Control-flow graph of a function, with its blocks as numbers.
pub(crate) struct Graph<'m> {
    pub blocks: Vec<Block<'m>>,
    pub number: BTreeMap<Block<'m>, usize>,
    pub next: Vec<Vec<usize>>,
    /// For each block, the blocks that every path from it to the end passes; `None` if no path leads to the end.
    after: Vec<Option<Bits>>,
}

impl<'m> Graph<'m> {
    pub fn new(function: Value<'m>) -> Graph<'m> {
        let blocks = function.blocks();
        let number: BTreeMap<Block, usize> = (0..).zip(&blocks).map(|(n, &block)| (block, n)).collect();
        let next: Vec<Vec<usize>> = blocks
            .iter()
            .map(|block| block.terminator().successors().into_iter().map(|to| number[&to]).collect())
            .collect();
        let after = blocks_after(&blocks, &next);
        Graph { blocks, number, next, after }
    }

    /// The blocks whose execution depends on the branch at the end of `from`.
    fn decided_by(&self, from: usize) -> Vec<usize> {
        let Some(own) = &self.after[from] else { return Vec::new() };
        let ways: Vec<&Bits> = self.next[from].iter().filter_map(|&to| self.after[to].as_ref()).collect();
        let decided = |block: usize| {
            let comes_by = ways.iter().any(|way| way.contains(block));
            comes_by && (block == from || !own.contains(block))
        };
        (0..self.blocks.len()).filter(|&block| decided(block)).collect()
    }

    /// True if the branch at the end of `from` decides whether some end of the function is reached.
    pub fn decides_an_end(&self, from: usize) -> bool {
        self.decided_by(from).into_iter().any(|block| is_return(self.blocks[block]))
    }

    /// True if every path from `start` to the end passes `block`.
    pub fn always_comes_by(&self, start: usize, block: usize) -> bool {
        self.after[start].as_ref().is_some_and(|after| after.contains(block))
    }

    /// The blocks reachable from `start` without passing `avoided`.
    pub fn reached(&self, start: usize, avoided: Option<usize>) -> BTreeSet<usize> {
        let mut found = BTreeSet::from([start]);
        let mut open = vec![start];
        while let Some(block) = open.pop() {
            open.extend(self.next[block].iter().filter(|&&to| Some(to) != avoided && found.insert(to)));
        }
        found
    }

    /// True if some of these blocks are in a loop. They must be all that can be reached from one of them.
    pub fn has_loop(&self, blocks: &BTreeSet<usize>) -> bool {
        let mut before: BTreeMap<usize, usize> = blocks.iter().map(|&block| (block, 0)).collect();
        for to in blocks.iter().flat_map(|&block| &self.next[block]) {
            *before.entry(*to).or_default() += 1;
        }
        let mut open: Vec<usize> =
            before.iter().filter(|(_, count)| **count == 0).map(|(&block, _)| block).collect();
        let mut left = blocks.len();
        while let Some(block) = open.pop() {
            left -= 1;
            for to in &self.next[block] {
                let count = before.entry(*to).or_default();
                *count -= 1;
                if *count == 0 {
                    open.push(*to);
                }
            }
        }
        left > 0
    }
}

fn is_return(block: Block) -> bool {
    block.terminator().opcode() == Some(Opcode::LLVMRet)
}

fn blocks_after(blocks: &[Block], next: &[Vec<usize>]) -> Vec<Option<Bits>> {
    let mut after: Vec<Option<Bits>> = vec![None; blocks.len()];
    loop {
        let mut changed = false;
        for block in (0..blocks.len()).rev() {
            let ways = next[block].iter().filter_map(|&to| after[to].clone());
            let common = ways.reduce(Bits::both);
            let mut here = match common {
                None if !is_return(blocks[block]) => continue,
                None => Bits::new(blocks.len()),
                Some(bits) => bits,
            };
            here.insert(block);
            changed |= after[block].as_ref() != Some(&here);
            after[block] = Some(here);
        }
        if !changed {
            return after;
        }
    }
}

/// A set of block numbers.
#[derive(Clone, PartialEq, Eq)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(length: usize) -> Bits {
        Bits(vec![0; length.div_ceil(64)])
    }

    fn insert(&mut self, bit: usize) {
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    fn contains(&self, bit: usize) -> bool {
        self.0[bit / 64] >> (bit % 64) & 1 == 1
    }

    fn both(self, other: Bits) -> Bits {
        Bits(self.0.into_iter().zip(other.0).map(|(a, b)| a & b).collect())
    }
}

/// Parts of a function that differ between threads.
pub(crate) struct Divergence<'m> {
    pub slots: BTreeSet<Value<'m>>,
    /// Blocks whose branch threads take differently.
    branches: BTreeSet<usize>,
    /// Blocks that only some threads run.
    pub blocks: BTreeSet<usize>,
}

impl<'m> Divergence<'m> {
    /// Analyses a function. `own` is the thread's index, `slots` hold values that cross blocks, and `fixed` is memory
    /// that is not written.
    pub fn find(
        graph: &Graph<'m>,
        own: &[Value<'m>],
        slots: &BTreeSet<Value<'m>>,
        fixed: &[Value<'m>],
    ) -> Divergence<'m> {
        let mut found =
            Divergence { slots: BTreeSet::new(), branches: BTreeSet::new(), blocks: BTreeSet::new() };
        let mut values: BTreeSet<Value> = own.iter().copied().collect();
        loop {
            let before = (found.slots.len(), found.branches.len());
            for (number, &block) in graph.blocks.iter().enumerate() {
                for instruction in block.instructions() {
                    found.visit(number, instruction, &mut values, slots, fixed);
                }
                let differs = block.terminator().operands().first().is_some_and(|c| values.contains(c));
                if graph.next[number].len() > 1 && differs && found.branches.insert(number) {
                    found.blocks.extend(graph.decided_by(number));
                }
            }
            if before == (found.slots.len(), found.branches.len()) {
                return found;
            }
        }
    }

    /// True if all threads reach the same end.
    pub fn ends_uniformly(&self, graph: &Graph<'m>) -> bool {
        self.blocks.iter().all(|&block| !is_return(graph.blocks[block]))
    }

    /// True if all threads reach the branch at the end of `block` and go the same way.
    pub fn branches_uniformly(&self, block: usize) -> bool {
        !self.branches.contains(&block) && !self.blocks.contains(&block)
    }

    fn visit(
        &mut self,
        block: usize,
        instruction: Value<'m>,
        values: &mut BTreeSet<Value<'m>>,
        slots: &BTreeSet<Value<'m>>,
        fixed: &[Value<'m>],
    ) {
        let differs = match instruction.opcode() {
            Some(Opcode::LLVMStore) => {
                let slot = instruction.operand(1);
                if slots.contains(&slot)
                    && (values.contains(&instruction.operand(0)) || self.blocks.contains(&block))
                {
                    self.slots.insert(slot);
                }
                return;
            }
            Some(Opcode::LLVMLoad) if slots.contains(&instruction.operand(0)) => {
                self.slots.contains(&instruction.operand(0))
            }
            Some(Opcode::LLVMLoad) => {
                !pure::reads_fixed(instruction, fixed) || values.contains(&instruction.operand(0))
            }
            Some(Opcode::LLVMCall) if pure::is_uniform_call(instruction) => false,
            _ if pure::computes(instruction) => instruction.operands().iter().any(|o| values.contains(o)),
            _ => true,
        };
        if differs {
            values.insert(instruction);
        }
    }
}
