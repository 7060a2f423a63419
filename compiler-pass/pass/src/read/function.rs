//! Reads one function into [`Function`]: its graph, and what it does with pointers and with the device.
//!
//! Nothing is decided here. Trap: a kernel launch is the call of the kernel's host stub, not `cudaLaunchKernel`, which
//! is inside the stub and has none of the caller's variables.

use std::collections::BTreeMap;

use eager_llvm::{Block, Module, Opcode, TypeKind, Value};
use eager_tasks::names::{FunctionId, PointerId};
use eager_tasks::program::{
    Action, ActionKind, Actual, Block as BlockFacts, Function, Leave, PointerDef, RawLeaf,
};
use eager_tasks::{BlockId, Expr, Place, Point};

use super::calls::{RuntimeCall, Wrappers};
use super::kernels::NonRetention;
use super::pointers::{Globals, PointerReader};
use super::rules::{CallRule, rule};
use super::sizes::SizeReader;
use super::throws::Throws;
use super::{launch, library, throws};

/// Largest integer or vector, in bytes, as which LLVM copies a struct.
const COPIED_BYTES_MAX: u64 = 64;

/// IR values that the ids and points of a function's facts refer to.
#[derive(Debug)]
pub struct Reading<'m> {
    /// By `BlockId`.
    pub blocks: Vec<Block<'m>>,
    /// By block and position.
    pub instructions: Vec<Vec<Value<'m>>>,
    /// By `LeafId`.
    pub leaves: Vec<Option<Value<'m>>>,
    /// By `PointerId`.
    pub pointers: Vec<Option<Value<'m>>>,
}

/// Data for reading any function of a module.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a, 'm> {
    pub module: &'m Module<'m>,
    pub wrappers: &'a Wrappers<'m>,
    /// Functions of the program, by IR function.
    pub functions: &'a BTreeMap<Value<'m>, FunctionId>,
    pub throws: &'a Throws<'a, 'm>,
    /// Host functions of kernels that store no pointer to memory.
    pub non_retaining: &'a BTreeMap<Value<'m>, NonRetention>,
}

/// Reads one function.
#[must_use]
pub fn read<'m>(
    context: Context<'_, 'm>,
    globals: &mut Globals<'m>,
    function: Value<'m>,
) -> (Function, Reading<'m>) {
    let blocks = function.blocks();
    let instructions: Vec<Vec<_>> = blocks.iter().map(|block| block.instructions()).collect();
    let mut points = BTreeMap::new();
    for (block, list) in instructions.iter().enumerate() {
        for (position, &instruction) in list.iter().enumerate() {
            let position = u32::try_from(position).unwrap_or(u32::MAX);
            points.insert(instruction, Point { block: BlockId::from_index(block), position });
        }
    }
    let Context { module, wrappers, functions, throws, .. } = context;
    let mut reader = FunctionReader {
        context,
        pointers: PointerReader::new(module, wrappers, functions, globals, &points),
        leaves: Vec::new(),
        leaf_values: Vec::new(),
        actions: Vec::new(),
        returns: Vec::new(),
    };
    // Parameters first, so that a size can be loaded from the memory behind any of them.
    for param in function.params().into_iter().filter(|param| param.is_pointer()) {
        reader.pointers.id(param);
    }
    for &instruction in instructions.iter().flatten() {
        reader.add(instruction, points[&instruction]);
    }
    let FunctionReader { pointers, leaves, leaf_values, actions, returns, .. } = reader;
    let PointerReader { defs, values, .. } = pointers;
    let facts = Function {
        name: function.name(),
        visible: is_visible(function),
        blocks: block_facts(&blocks, &instructions),
        pointers: defs,
        leaves,
        actions,
        returns,
        throws: leaving_calls(function, throws, &instructions),
    };
    (facts, Reading { blocks, instructions, leaves: leaf_values, pointers: values })
}

/// Whether code outside the module may call a function.
fn is_visible(function: Value<'_>) -> bool {
    let is_plain_call =
        |user: &Value<'_>| user.call_target() == Some(function) && !user.call_args().contains(&function);
    !function.is_internal() || !function.users().iter().all(is_plain_call)
}

fn block_facts(blocks: &[Block<'_>], instructions: &[Vec<Value<'_>>]) -> Vec<BlockFacts> {
    let index: BTreeMap<_, _> = blocks.iter().enumerate().map(|(index, &block)| (block, index)).collect();
    let facts = |(block, list): (&Block<'_>, &Vec<Value<'_>>)| {
        let successors: Vec<_> =
            block.successors().iter().filter_map(|s| index.get(s)).map(|&s| BlockId::from_index(s)).collect();
        let leave = match list.last().and_then(|last| last.instruction_opcode()) {
            Some(Opcode::LLVMUnreachable) => Leave::Never,
            Some(Opcode::LLVMRet) => Leave::Return,
            _ => Leave::Unwind,
        };
        let leaves = successors.is_empty().then_some(leave);
        BlockFacts { successors, leaves, len: u32::try_from(list.len()).unwrap_or(u32::MAX) }
    };
    blocks.iter().zip(instructions).map(facts).collect()
}

fn leaving_calls<'m>(
    function: Value<'m>,
    throws: &Throws<'_, 'm>,
    instructions: &[Vec<Value<'m>>],
) -> Vec<Point> {
    if throws::is_nounwind(function) {
        return Vec::new();
    }
    let in_block = |(block, list): (usize, &Vec<Value<'m>>)| {
        let block = BlockId::from_index(block);
        let leaving = (0_u32..).zip(list).filter(|&(_, &instruction)| throws.may_leave_by(instruction));
        leaving.map(|(position, _)| Point { block, position }).collect::<Vec<_>>()
    };
    instructions.iter().enumerate().flat_map(in_block).collect()
}

struct FunctionReader<'a, 'm> {
    context: Context<'a, 'm>,
    pointers: PointerReader<'a, 'm>,
    leaves: Vec<RawLeaf>,
    leaf_values: Vec<Option<Value<'m>>>,
    actions: Vec<Action>,
    returns: Vec<(Point, PointerId)>,
}

impl<'a, 'm> FunctionReader<'a, 'm> {
    fn sizes(&mut self) -> SizeReader<'_, 'a, 'm> {
        SizeReader { pointers: &mut self.pointers, leaves: &mut self.leaves, values: &mut self.leaf_values }
    }

    fn add(&mut self, instruction: Value<'m>, at: Point) {
        let kinds = match instruction.instruction_opcode() {
            Some(Opcode::LLVMCall | Opcode::LLVMInvoke) => {
                let kept = self.kept(instruction);
                self.call(instruction, at).into_iter().chain(kept).collect()
            }
            Some(Opcode::LLVMStore) => self.store(instruction),
            Some(Opcode::LLVMAtomicRMW | Opcode::LLVMAtomicCmpXchg) => {
                let to = instruction.operand_at(0).map(|to| self.pointers.id(to));
                let written = to.map(|to| ActionKind::Write { to, bytes: Some(16) });
                written
                    .into_iter()
                    .chain(self.concealed(instruction.operands().into_iter().skip(1)))
                    .collect()
            }
            Some(Opcode::LLVMPtrToInt) => {
                let pointer = instruction.operand_at(0).map(|pointer| self.pointers.id(pointer));
                pointer.map(|pointer| ActionKind::Conceal { pointer }).into_iter().collect()
            }
            Some(Opcode::LLVMRet) => {
                if let Some(value) = instruction.operand_at(0).filter(|value| value.ty().holds_pointer()) {
                    let value = self.aggregate(value);
                    self.returns.push((at, value));
                }
                Vec::new()
            }
            Some(Opcode::LLVMInsertElement) => self.concealed(instruction.operands()),
            Some(Opcode::LLVMInsertValue) if self.loses_field(instruction) => {
                self.concealed(instruction.operands())
            }
            _ => Vec::new(),
        };
        let place = instruction.source_line().map(|(file, line)| Place { file, line });
        self.actions.extend(kinds.into_iter().map(|kind| Action { at, place: place.clone(), kind }));
    }

    /// Actions for pointers among values that are not followed any further.
    fn concealed(&mut self, values: impl IntoIterator<Item = Value<'m>>) -> Vec<ActionKind> {
        let pointers = values.into_iter().filter(|value| value.ty().holds_pointer());
        pointers.map(|value| ActionKind::Conceal { pointer: self.pointers.id(value) }).collect()
    }

    /// Whether a struct is built in a way that is not followed.
    fn loses_field(&mut self, insert: Value<'m>) -> bool {
        let id = self.pointers.id(insert);
        matches!(self.pointers.defs[id.index()], PointerDef::Unknown(_))
    }

    /// Keeps that a call performs in addition to its ordinary action.
    fn kept(&mut self, call: Value<'m>) -> Vec<ActionKind> {
        if let Some(runtime) = self.context.wrappers.runtime_call(call) {
            // A texture object stores the pointer from its description; streams and events store none.
            let holds = matches!(rule(&runtime.name), CallRule::CreateHandle { .. });
            if !holds || runtime.name.starts_with("cudaStream") || runtime.name.starts_with("cudaEvent") {
                return Vec::new();
            }
            let operands = self.operands(runtime.args.iter().skip(1).flatten().copied());
            return vec![ActionKind::Keep { call: runtime.name, operands }];
        }
        let Some(callee) = call.call_target().filter(|callee| callee.is_function()) else {
            return Vec::new();
        };
        if library::links_nodes(&callee.name()) {
            let operands = self.operands(call.call_args());
            return vec![ActionKind::Keep { call: callee.name(), operands }];
        }
        // Arguments passed through `...` are read in a way that is not followed.
        let is_read = self.context.functions.contains_key(&callee);
        let extra = call.call_args().into_iter().skip(callee.params().len()).collect::<Vec<_>>();
        if is_read { self.concealed(extra) } else { Vec::new() }
    }

    /// Id of a value that may be a struct; a struct that is loaded as a whole is split into its pointers.
    fn aggregate(&mut self, value: Value<'m>) -> PointerId {
        let id = self.pointers.id(value);
        let PointerDef::Load { from, at } = self.pointers.defs[id.index()] else { return id };
        if value.is_pointer() {
            return id;
        }
        let offsets = self.context.module.pointer_offsets(value.ty());
        let fields = offsets.into_iter().map(|offset| {
            let from = self.pointers.offset(from, offset);
            (offset, self.pointers.add(PointerDef::Load { from, at }))
        });
        let fields = PointerDef::Fields(fields.collect());
        self.pointers.add(fields)
    }

    fn store(&mut self, store: Value<'m>) -> Vec<ActionKind> {
        let [value, address] = store.operands()[..] else { return Vec::new() };
        let to = self.pointers.id(address);
        if value.is_pointer() {
            return vec![ActionKind::Store { value: self.pointers.id(value), to }];
        }
        let size = self.context.module.size_of(value.ty());
        let mut kinds = vec![ActionKind::Write { to, bytes: Some(size) }];
        kinds.extend(self.copied_as_number(value, to, size));
        if value.ty().holds_pointer() {
            let of = self.pointers.id(value);
            for offset in self.context.module.pointer_offsets(value.ty()) {
                let value = self.pointers.add(PointerDef::Field { of, offset });
                let to = self.pointers.offset(to, offset);
                kinds.push(ActionKind::Store { value, to });
            }
        }
        kinds
    }

    /// Stores of the pointers in a struct that is copied as one integer or vector.
    fn copied_as_number(&mut self, value: Value<'m>, to: PointerId, size: u64) -> Vec<ActionKind> {
        let is_number =
            matches!(value.ty().kind(), TypeKind::LLVMIntegerTypeKind | TypeKind::LLVMVectorTypeKind);
        let at = self.pointers.points.get(&value).copied();
        let from =
            value.operand_at(0).filter(|_| is_number && value.instruction_opcode() == Some(Opcode::LLVMLoad));
        let (Some(from), Some(at)) = (from, at) else { return Vec::new() };
        let from = self.pointers.id(from);
        let words = (0..size.min(COPIED_BYTES_MAX) / 8).map(|word| 8 * i64::try_from(word).unwrap_or(0));
        let store = |word: i64| {
            let from = self.pointers.offset(from, word);
            let value = self.pointers.add(PointerDef::Load { from, at });
            ActionKind::Store { value, to: self.pointers.offset(to, word) }
        };
        words.map(store).collect()
    }

    fn call(&mut self, call: Value<'m>, at: Point) -> Option<ActionKind> {
        if let Some(runtime) = self.context.wrappers.runtime_call(call) {
            return self.runtime(&runtime, at);
        }
        if let Some(writes) = library::intrinsic_writes(call) {
            return if writes { self.intrinsic(call) } else { None };
        }
        if launch::is_launch(call) {
            return Some(self.launch(call));
        }
        let callee = call.call_target()?;
        if let Some(&callee) = self.context.functions.get(&callee) {
            let actuals = call.call_args().into_iter().map(|arg| self.actual(arg)).collect();
            return Some(ActionKind::Call { callee, actuals });
        }
        let args = call.call_args();
        let operands = self.operands(args.iter().copied());
        let is_known = callee.is_inline_assembly()
            || (callee.is_function()
                && !args.iter().any(|arg| arg.is_function())
                && library::is_library(self.context.module, callee));
        if is_known {
            return (!operands.is_empty()).then_some(ActionKind::Library { operands });
        }
        let name = if callee.is_function() { callee.name() } else { "a function pointer".to_owned() };
        if name.starts_with("__cuda") {
            // The launch sequence and the registration code need no action.
            return None;
        }
        Some(ActionKind::Opaque { callee: name, operands })
    }

    fn actual(&mut self, arg: Value<'m>) -> Actual {
        let pointer = arg.ty().holds_pointer().then(|| self.pointers.id(arg));
        let integer = arg.integer_bits().and_then(|_| self.sizes().read(arg));
        Actual { pointer, integer }
    }

    fn operands(&mut self, args: impl IntoIterator<Item = Value<'m>>) -> Vec<PointerId> {
        let args = args.into_iter().filter(|arg| arg.ty().holds_pointer());
        args.map(|arg| self.pointers.id(arg)).collect()
    }

    fn intrinsic(&mut self, call: Value<'m>) -> Option<ActionKind> {
        let args = call.call_args();
        let to = self.pointers.id(*args.first()?);
        if library::is_copy(call) {
            return Some(ActionKind::Copy { to, from: self.pointers.id(*args.get(1)?) });
        }
        Some(ActionKind::Write { to, bytes: args.get(2).and_then(|bytes| bytes.constant_integer()) })
    }

    fn runtime(&mut self, call: &RuntimeCall<'m>, at: Point) -> Option<ActionKind> {
        let name = call.name.clone();
        let arg = |index: usize| call.args.get(index).copied().flatten();
        let kind = match rule(&name) {
            CallRule::Allocate { into, size } => {
                let size: Option<Expr> = self.sizes().allocated(call, size, at);
                ActionKind::Allocate { call: name, into: self.pointers.id(arg(into)?), size }
            }
            CallRule::AllocateHost { into } => {
                let value = self.pointers.add(PointerDef::Fresh(at));
                ActionKind::Store { value, to: self.pointers.id(arg(into)?) }
            }
            CallRule::CreateHandle { into } => ActionKind::Create { into: self.pointers.id(arg(into)?) },
            CallRule::Free { pointer } => ActionKind::Free { pointer: self.pointers.id(arg(pointer)?) },
            CallRule::DestroyHandle { handle } => {
                ActionKind::Destroy { handle: self.pointers.id(arg(handle)?) }
            }
            CallRule::WriteSymbol => {
                ActionKind::WriteSymbol { operands: self.operands(call.args.iter().flatten().copied()) }
            }
            CallRule::Launch => ActionKind::BlindLaunch { call: name },
            CallRule::Harmless => return None,
            CallRule::Uses | CallRule::BeginCapture | CallRule::EndCapture => {
                let operands = self.operands(call.args.iter().flatten().copied());
                ActionKind::Use { call: name, operands }
            }
        };
        Some(kind)
    }

    fn launch(&mut self, call: Value<'m>) -> ActionKind {
        let mut operands = Vec::new();
        let mut structs = Vec::new();
        for (index, arg) in call.call_args().into_iter().enumerate() {
            match call.call_byval_type(index as u32) {
                Some(ty) if !ty.holds_pointer() => {}
                Some(_) => structs.push(self.pointers.id(arg)),
                None if arg.ty().holds_pointer() => operands.push(self.pointers.id(arg)),
                None => {}
            }
        }
        let push = launch::configuration(call);
        let arguments = operands.len();
        operands.extend(push.and_then(launch::stream).map(|stream| self.pointers.id(stream)));
        let geometry = push.and_then(|push| launch::geometry(&mut self.sizes(), push));
        let callee = call.call_target().filter(|callee| callee.is_function());
        let non_retention = callee.and_then(|callee| self.context.non_retaining.get(&callee));
        let stores_none = match non_retention {
            Some(NonRetention::Always) => true,
            Some(NonRetention::IfPointers(count)) => structs.is_empty() && arguments == *count,
            None => false,
        };
        ActionKind::Launch {
            kernel: callee.map(Value::name),
            operands,
            structs,
            geometry,
            keeps_pointers: !stores_none,
        }
    }
}
