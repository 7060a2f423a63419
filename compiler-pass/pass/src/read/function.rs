//! One function into facts: its graph, its GPU calls, and where its device pointers go.
//!
//! Two walks: the first learns which slots hold which buffers, the second names the sites. Trap: a kernel launch is the
//! call of clang's host stub, not `cudaLaunchKernel`, which sits inside the stub and knows no variables.

use std::collections::BTreeMap;

use eager_tasks::{
    BlockFacts, BlockId, BufferId, EscapeKind, Exit, Facts, ForeignBuffer, Place, Point, Site, SiteKind,
};
use llvm_sys::LLVMOpcode;

use super::calls::{RuntimeCall, Wrappers};
use super::quiet::{self, Runtime};
use super::rules::{CallRule, SizeRule, rule};
use super::sizes::SizeReader;
use super::slots::{Pointees, Slots};
use super::trace::{Base, Origin, origins};
use crate::ir::{Block, Module, Value, type_holds_pointer};

/// A function's facts with the IR that they speak of.
#[derive(Debug)]
pub struct Reading<'m> {
    pub facts: Facts,
    /// By [`BlockId`].
    pub blocks: Vec<Block<'m>>,
    /// By block and position.
    pub instructions: Vec<Vec<Value<'m>>>,
    /// By `LeafId`.
    pub leaves: Vec<Value<'m>>,
}

/// Whether a function may hold tasks: it launches or allocates, and is neither a stub nor a wrapper.
#[must_use]
pub fn is_of_interest<'m>(function: Value<'m>, wrappers: &Wrappers<'m>) -> bool {
    if wrappers.is_wrapper(function) || function.name().starts_with("__cuda_") {
        return false;
    }
    let mut found = false;
    for instruction in function.blocks().into_iter().flat_map(Block::instructions) {
        match instruction.callee_name() {
            Some(name) if name == "__cudaPopCallConfiguration" => return false,
            Some(name) if name == "__cudaPushCallConfiguration" => found = true,
            _ => {}
        }
        found |= wrappers
            .runtime_call(instruction)
            .is_some_and(|call| is_allocation(&call.name) || is_raw_launch(&call.name));
    }
    found
}

fn is_allocation(name: &str) -> bool {
    matches!(rule(name), CallRule::Allocate { .. })
}

fn is_raw_launch(name: &str) -> bool {
    rule(name) == CallRule::Launch
}

/// Reads one function.
#[must_use]
pub fn read<'m>(module: Module<'m>, function: Value<'m>, wrappers: &Wrappers<'m>) -> Reading<'m> {
    let blocks = function.blocks();
    let instructions: Vec<Vec<_>> = blocks.iter().map(|block| block.instructions()).collect();
    let mut points = BTreeMap::new();
    for (block, list) in instructions.iter().enumerate() {
        for (position, &instruction) in list.iter().enumerate() {
            let position = u32::try_from(position).unwrap_or(u32::MAX);
            points.insert(instruction, Point { block: BlockId::from_index(block), position });
        }
    }
    let sizes = SizeReader { module, wrappers, points: &points, leaves: Vec::new(), values: Vec::new() };
    let mut reader = FunctionReader { module, wrappers, sizes, slots: Slots::new(module), sites: Vec::new() };
    let in_order = || instructions.iter().flatten().copied();
    in_order().for_each(|instruction| reader.learn(instruction));
    in_order().for_each(|instruction| reader.add_sites(instruction, points[&instruction]));
    let FunctionReader { sizes, slots, sites, .. } = reader;
    let (leaf_facts, leaves) = (sizes.leaves, sizes.values);
    let facts = Facts {
        function: function.name(),
        blocks: block_facts(&blocks, &instructions),
        buffers: slots.facts(),
        leaves: leaf_facts,
        sites,
    };
    Reading { facts, blocks, instructions, leaves }
}

fn block_facts(blocks: &[Block<'_>], instructions: &[Vec<Value<'_>>]) -> Vec<BlockFacts> {
    let index: BTreeMap<_, _> = blocks.iter().enumerate().map(|(index, &block)| (block, index)).collect();
    let facts = |(block, list): (&Block<'_>, &Vec<Value<'_>>)| {
        let successors: Vec<_> =
            block.successors().iter().filter_map(|s| index.get(s)).map(|&s| BlockId::from_index(s)).collect();
        let terminator = list.last().and_then(|last| last.opcode());
        let exit = successors.is_empty().then_some(match terminator {
            Some(LLVMOpcode::LLVMUnreachable) => Exit::NoReturn,
            _ => Exit::Return,
        });
        BlockFacts { successors, exit, len: u32::try_from(list.len()).unwrap_or(u32::MAX) }
    };
    blocks.iter().zip(instructions).map(facts).collect()
}

struct FunctionReader<'a, 'm> {
    module: Module<'m>,
    wrappers: &'a Wrappers<'m>,
    sizes: SizeReader<'a, 'm>,
    slots: Slots<'m>,
    sites: Vec<Site>,
}

impl<'m> FunctionReader<'_, 'm> {
    /// First walk: slots, and pointers that move between locals.
    fn learn(&mut self, instruction: Value<'m>) {
        if let Some(call) = self.wrappers.runtime_call(instruction) {
            if let Some(address) = allocated_at(&call) {
                // Foreign memory is told in the second walk.
                let _ = self.slots.allocate(address);
            }
            return;
        }
        match instruction.opcode() {
            Some(LLVMOpcode::LLVMStore) => {
                if let [value, address] = instruction.operands()[..]
                    && value.is_pointer()
                {
                    self.slots.store(value, address);
                }
            }
            Some(LLVMOpcode::LLVMCall) if quiet::intrinsic_writes(instruction) == Some(true) => {
                if let [to, from, ..] = instruction.call_args()[..]
                    && from.is_pointer()
                {
                    self.slots.copy(to, from);
                }
            }
            _ => {}
        }
    }

    /// Second walk: what happens here.
    fn add_sites(&mut self, instruction: Value<'m>, at: Point) {
        if let Some(call) = self.wrappers.runtime_call(instruction) {
            let kind = self.runtime_site(&call);
            return self.push(instruction, at, kind);
        }
        let kind = match instruction.opcode() {
            Some(LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke) => self.call_site(instruction),
            Some(LLVMOpcode::LLVMStore) => self.store_site(instruction),
            Some(LLVMOpcode::LLVMRet) => {
                let value = instruction.operand(0).filter(|value| value.is_pointer());
                value.and_then(|value| escape(self.slots.pointees(value).buffers, EscapeKind::Returned))
            }
            Some(LLVMOpcode::LLVMPtrToInt) => {
                let pointees = instruction.operand(0).map(|value| self.slots.pointees(value));
                pointees.and_then(|pointees| escape(pointees.buffers, EscapeKind::Stored))
            }
            _ => None,
        };
        self.push(instruction, at, kind);
    }

    fn push(&mut self, instruction: Value<'m>, at: Point, kind: Option<SiteKind>) {
        if let Some(kind) = kind {
            let place = instruction.location().map(|found| Place { file: found.file, line: found.line });
            self.sites.push(Site { at, place, kind });
        }
    }

    fn runtime_site(&mut self, call: &RuntimeCall<'m>) -> Option<SiteKind> {
        if let Some(address) = allocated_at(call) {
            return Some(self.allocation_site(call, address));
        }
        if is_raw_launch(&call.name) {
            let all =
                (0..self.slots.buffer_count()).filter_map(|index| u32::try_from(index).ok()).map(BufferId);
            let foreign = Some(ForeignBuffer::Memory);
            return Some(SiteKind::Launch { kernel: None, buffers: all.collect(), foreign });
        }
        let args: Vec<_> = call.args.iter().flatten().copied().filter(|arg| arg.is_pointer()).collect();
        if let CallRule::Free { pointer } = rule(&call.name) {
            let Pointees { buffers, exact, .. } = self.slots.pointees(call.args.get(pointer).copied()??);
            return (!buffers.is_empty()).then_some(SiteKind::Free { buffers, exact });
        }
        let mut buffers: Vec<_> = args.iter().flat_map(|&arg| self.slots.pointees(arg).buffers).collect();
        buffers.sort_unstable();
        buffers.dedup();
        (!buffers.is_empty()).then(|| SiteKind::Access { call: call.name.clone(), buffers })
    }

    fn allocation_site(&mut self, call: &RuntimeCall<'m>, address: Value<'m>) -> SiteKind {
        let size = match rule(&call.name) {
            CallRule::Allocate { size: SizeRule::Bytes(index), .. } => {
                call.args.get(index).copied().flatten()
            }
            _ => None,
        };
        match (self.slots.allocate(address), size.and_then(|size| self.sizes.read(size))) {
            (Ok(buffer), Some(size)) => SiteKind::Allocation { buffer, size },
            (Ok(buffer), None) => SiteKind::Escape {
                buffers: vec![buffer],
                kind: EscapeKind::Call { callee: call.name.clone() },
            },
            (Err(into), _) => SiteKind::ForeignAllocation { into },
        }
    }

    fn call_site(&self, call: Value<'m>) -> Option<SiteKind> {
        if quiet::intrinsic_writes(call).is_some() {
            return self.copy_site(call);
        }
        let callee = call.callee()?;
        let name = if callee.is_function() { callee.name() } else { String::new() };
        if name.contains("__device_stub__") {
            return Some(self.launch_site(call, Some(name)));
        }
        if name.is_empty() && launches_through_pointer(call) {
            return Some(self.launch_site(call, None));
        }
        if quiet::is_quiet(self.module, call, Runtime::Loud) {
            return None;
        }
        let args = call.call_args().into_iter().filter(|arg| arg.is_pointer());
        let given = |arg| [self.slots.pointees(arg).buffers, self.slots.buffers_at(arg)].concat();
        let callee = if name.is_empty() { "a function pointer".to_owned() } else { name };
        escape(args.flat_map(given).collect(), EscapeKind::Call { callee })
    }

    fn copy_site(&self, call: Value<'m>) -> Option<SiteKind> {
        let [to, from, ..] = call.call_args()[..] else { return None };
        if quiet::intrinsic_writes(call) != Some(true) || !from.is_pointer() {
            return None;
        }
        let stays = |origin| matches!(origin, Origin::Address { base: Base::Local(_), .. });
        if origins(self.module, to).into_iter().all(stays) {
            return None;
        }
        escape(self.slots.buffers_at(from), EscapeKind::Stored)
    }

    fn store_site(&self, store: Value<'m>) -> Option<SiteKind> {
        let [value, address] = store.operands()[..] else { return None };
        let stays = |origin| matches!(origin, Origin::Address { base: Base::Local(_), .. });
        if !value.is_pointer() || origins(self.module, address).into_iter().all(stays) {
            return None;
        }
        escape(
            [self.slots.pointees(value).buffers, self.slots.buffers_at(value)].concat(),
            EscapeKind::Stored,
        )
    }

    fn launch_site(&self, call: Value<'m>, kernel: Option<String>) -> SiteKind {
        let mut buffers = Vec::new();
        let mut foreign = None;
        for (index, arg) in call.call_args().into_iter().enumerate() {
            if !arg.is_pointer() {
                continue;
            }
            let pointees = match call.call_byval_type(index) {
                Some(ty) if !type_holds_pointer(ty) => continue,
                Some(_) => self.slots.pointees_inside(arg),
                None => self.slots.pointees(arg),
            };
            buffers.extend(pointees.buffers);
            foreign = foreign.or(pointees.foreign);
        }
        buffers.sort_unstable();
        buffers.dedup();
        SiteKind::Launch { kernel, buffers, foreign }
    }
}

/// The address that an allocating call fills.
fn allocated_at<'m>(call: &RuntimeCall<'m>) -> Option<Value<'m>> {
    match rule(&call.name) {
        CallRule::Allocate { into, .. } => call.args.get(into).copied().flatten(),
        _ => None,
    }
}

fn escape(mut buffers: Vec<BufferId>, kind: EscapeKind) -> Option<SiteKind> {
    buffers.sort_unstable();
    buffers.dedup();
    (!buffers.is_empty()).then_some(SiteKind::Escape { buffers, kind })
}

/// Whether an indirect call is a launch: it stands on the way on which `__cudaPushCallConfiguration` gave zero.
fn launches_through_pointer(call: Value<'_>) -> bool {
    let Some(block) = call.block() else { return false };
    let function_blocks = call_function_blocks(block);
    function_blocks.into_iter().any(|candidate| {
        candidate.successors().contains(&block)
            && candidate
                .instructions()
                .into_iter()
                .any(|i| i.callee_name().is_some_and(|name| name == "__cudaPushCallConfiguration"))
    })
}

fn call_function_blocks(block: Block<'_>) -> Vec<Block<'_>> {
    block.function().map(Value::blocks).unwrap_or_default()
}
