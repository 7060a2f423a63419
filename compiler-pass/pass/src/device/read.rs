//! Translates LLVM device code into the form of `eager-kernel-facts`, instruction by instruction.
//!
//! Trap: every construct that is not known here must become `Opaque` or a call of unknown code with all its operands,
//! so that no pointer is lost from sight. Only calls that are known to leave memory alone may drop their operands.

use std::collections::BTreeMap;

use eager_kernel_facts::access::code::{
    Arithmetic, Axis, Block, BlockId, Function, FunctionId, Instruction, Kind, Memory, Operand, Param,
    Program, Register, Relation, ValueId,
};
use eager_llvm::{Block as IrBlock, LLVMIntPredicate, Module, Opcode, Type, TypeKind, Value};

/// Address spaces of NVPTX.
const SHARED: u32 = 3;
const CONSTANT: u32 = 4;
const LOCAL: u32 = 5;

/// Translates all functions with a body.
#[must_use]
pub fn program(module: &Module<'_>, kernels: &[String]) -> Program {
    let defined: Vec<Value<'_>> =
        module.functions().into_iter().filter(|function| !function.is_declaration()).collect();
    let ids: BTreeMap<Value<'_>, FunctionId> =
        defined.iter().enumerate().map(|(index, &function)| (function, FunctionId(number(index)))).collect();
    let functions = defined
        .iter()
        .map(|&function| {
            let name = function.name();
            let is_kernel = kernels.contains(&name);
            Reader::new(module, &ids, function).read(name, is_kernel)
        })
        .collect();
    Program { functions }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

struct Reader<'r, 'm> {
    module: &'m Module<'m>,
    functions: &'r BTreeMap<Value<'m>, FunctionId>,
    function: Value<'m>,
    blocks: BTreeMap<IrBlock<'m>, BlockId>,
    values: BTreeMap<Value<'m>, ValueId>,
}

impl<'r, 'm> Reader<'r, 'm> {
    fn new(
        module: &'m Module<'m>,
        functions: &'r BTreeMap<Value<'m>, FunctionId>,
        function: Value<'m>,
    ) -> Self {
        let blocks = function.blocks();
        let params = function.params();
        let instructions = blocks.iter().flat_map(|block| block.instructions());
        let values = params.into_iter().chain(instructions).enumerate();
        let values = values.map(|(index, value)| (value, ValueId(number(index)))).collect();
        let blocks = blocks.into_iter().enumerate();
        let blocks = blocks.map(|(index, block)| (block, BlockId(number(index)))).collect();
        Self { module, functions, function, blocks, values }
    }

    fn read(&self, name: String, is_kernel: bool) -> Function {
        let params = self.function.params().into_iter().map(param).collect();
        let blocks = self.function.blocks().into_iter().map(|block| self.block(block)).collect();
        Function { name, is_kernel, params, values: number(self.values.len()), blocks }
    }

    fn block(&self, block: IrBlock<'m>) -> Block {
        let instructions: Vec<Value<'m>> = block.instructions();
        let successors =
            block.successors().iter().filter_map(|next| self.blocks.get(next).copied()).collect();
        let condition = instructions.last().and_then(|last| self.condition(*last));
        let instructions = instructions
            .into_iter()
            .map(|instruction| Instruction {
                result: self.values.get(&instruction).copied(),
                kind: self.kind(instruction),
            })
            .collect();
        Block { instructions, successors, condition }
    }

    fn condition(&self, branch: Value<'m>) -> Option<Operand> {
        branch.condition().map(|value| self.operand(value))
    }

    fn operand(&self, value: Value<'m>) -> Operand {
        if let Some(&id) = self.values.get(&value) {
            return Operand::Value(id);
        }
        if let Some(number) = value.signed_constant_integer() {
            return Operand::Integer(number);
        }
        memory_of_constant(value).map_or(Operand::Constant, Operand::Address)
    }

    fn operands(&self, instruction: Value<'m>) -> Vec<Operand> {
        instruction.operands().into_iter().map(|value| self.operand(value)).collect()
    }

    fn kind(&self, instruction: Value<'m>) -> Kind {
        let Some(opcode) = instruction.instruction_opcode() else {
            return Kind::Opaque { operands: Vec::new() };
        };
        let operands = || self.operands(instruction);
        let of = |index: usize| {
            instruction.operand_at(index).map_or(Operand::Constant, |value| self.operand(value))
        };
        let scalar = instruction.integer_bits().is_some();
        let single = instruction.is_pointer() || scalar;
        match opcode {
            Opcode::LLVMAlloca => Kind::Object(Memory::Private),
            Opcode::LLVMLoad => Kind::Load { from: of(0), bytes: self.bytes(instruction) },
            Opcode::LLVMStore => {
                let bytes = instruction.operand_at(0).map_or(0, |value| self.bytes(value));
                Kind::Store { to: of(1), value: of(0), bytes }
            }
            Opcode::LLVMAtomicRMW | Opcode::LLVMAtomicCmpXchg => {
                let bytes = instruction.operand_at(1).map_or(0, |value| self.bytes(value));
                Kind::Update { at: of(0), bytes, operands: operands().split_off(1) }
            }
            Opcode::LLVMGetElementPtr => {
                self.offset(instruction).unwrap_or_else(|| Kind::Opaque { operands: operands() })
            }
            Opcode::LLVMPHI => Kind::Merge { incoming: self.incoming(instruction) },
            Opcode::LLVMSelect if self.has_one_condition(instruction) => {
                Kind::Choose { condition: of(0), if_true: of(1), if_false: of(2) }
            }
            Opcode::LLVMICmp if scalar => {
                Kind::Compare { relation: relation(instruction), left: of(0), right: of(1) }
            }
            Opcode::LLVMZExt | Opcode::LLVMSExt | Opcode::LLVMTrunc if scalar => {
                Kind::Convert { from: of(0) }
            }
            Opcode::LLVMAddrSpaceCast | Opcode::LLVMFreeze if single => Kind::Convert { from: of(0) },
            Opcode::LLVMRet => Kind::Return { value: of(0) },
            Opcode::LLVMCall | Opcode::LLVMInvoke | Opcode::LLVMCallBr => self.call(instruction),
            _ => match arithmetic(opcode).filter(|_| scalar) {
                Some(op) => Kind::Arithmetic { op, left: of(0), right: of(1) },
                None => Kind::Opaque { operands: operands() },
            },
        }
    }

    /// Whether a `select` has a single condition; with a vector of conditions it chooses element by element.
    fn has_one_condition(&self, select: Value<'m>) -> bool {
        select.operand_at(0).is_some_and(|condition| condition.integer_bits().is_some())
    }

    fn bytes(&self, value: Value<'m>) -> u64 {
        fixed_size(value.ty()).map_or(0, |()| self.module.store_size_of(value.ty()))
    }

    fn incoming(&self, phi: Value<'m>) -> Vec<(BlockId, Operand)> {
        let edges = phi.incoming().into_iter();
        edges.filter_map(|(value, block)| Some((*self.blocks.get(&block)?, self.operand(value)))).collect()
    }

    /// Translates a `getelementptr`; `None` for vectors of addresses, sizes that are not fixed, and offsets beyond 64
    /// bits.
    fn offset(&self, gep: Value<'m>) -> Option<Kind> {
        if !gep.is_pointer() {
            return None;
        }
        let operands = gep.operands();
        let (base, indices) = operands.split_first()?;
        let mut ty = gep.gep_source();
        let (mut constant, mut terms) = (0i64, Vec::new());
        for (position, &index) in indices.iter().enumerate() {
            if position > 0 {
                match self.step_into(ty, index)? {
                    Step::Field { offset, inner } => {
                        constant = constant.checked_add(offset)?;
                        ty = inner;
                        continue;
                    }
                    Step::Element { inner } => ty = inner,
                }
            }
            let size = i64::try_from(self.allocated_size(ty)?).ok()?;
            match self.operand(index) {
                Operand::Integer(value) => constant = constant.checked_add(value.checked_mul(size)?)?,
                operand => terms.push((size, operand)),
            }
        }
        Some(Kind::Offset { base: self.operand(*base), constant, terms })
    }

    fn step_into(&self, ty: Type<'m>, index: Value<'m>) -> Option<Step<'m>> {
        match ty.kind() {
            TypeKind::LLVMStructTypeKind => {
                let field = u32::try_from(index.constant_integer()?).ok()?;
                fixed_size(ty)?;
                let inner = *ty.struct_types().get(field as usize)?;
                let offset = i64::try_from(self.module.offset_of(ty, field)).ok()?;
                Some(Step::Field { offset, inner })
            }
            TypeKind::LLVMArrayTypeKind | TypeKind::LLVMVectorTypeKind => {
                Some(Step::Element { inner: ty.element() })
            }
            _ => None,
        }
    }

    fn allocated_size(&self, ty: Type<'m>) -> Option<u64> {
        fixed_size(ty)?;
        Some(self.module.size_of(ty))
    }

    fn call(&self, call: Value<'m>) -> Kind {
        let args: Vec<Operand> = call.call_args().into_iter().map(|value| self.operand(value)).collect();
        let Some(callee) = call.call_target() else { return Kind::Call { callee: None, args } };
        if let Some(&callee) = self.functions.get(&callee) {
            return Kind::Call { callee: Some(callee), args };
        }
        if is_assembly_without_memory(callee) {
            return Kind::Opaque { operands: args };
        }
        let name = if callee.is_function() { callee.name() } else { String::new() };
        let arg = |index: usize| args.get(index).copied().unwrap_or(Operand::Constant);
        if let Some(register) = register(&name) {
            return Kind::Read(register);
        }
        match call_kind(&name) {
            CallKind::Unknown if callee.is_function() && is_arithmetic(callee, &name) => {
                Kind::Opaque { operands: args }
            }
            CallKind::Copy => Kind::Copy { to: arg(0), from: arg(1) },
            CallKind::Fill => Kind::Fill { to: arg(0) },
            CallKind::Extreme => {
                Kind::Choose { condition: Operand::Constant, if_true: arg(0), if_false: arg(1) }
            }
            CallKind::Atomic => {
                let bytes = call.call_args().get(1).map_or(0, |&value| self.bytes(value));
                Kind::Update { at: arg(0), bytes, operands: args[1.min(args.len())..].to_vec() }
            }
            CallKind::CachedLoad => Kind::Load { from: arg(0), bytes: self.bytes(call) },
            CallKind::Same => Kind::Convert { from: arg(0) },
            CallKind::Nothing => Kind::Opaque { operands: Vec::new() },
            CallKind::Unknown => Kind::Call { callee: None, args },
        }
    }
}

enum Step<'m> {
    Field { offset: i64, inner: Type<'m> },
    Element { inner: Type<'m> },
}

/// Effect of a called function without a body, derived from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    Copy,
    Fill,
    /// Minimum or maximum of two values.
    Extreme,
    Atomic,
    CachedLoad,
    /// Returns its argument.
    Same,
    /// Marks, barriers and hints.
    Nothing,
    Unknown,
}

fn call_kind(name: &str) -> CallKind {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&["llvm.memcpy.", "llvm.memmove."]) {
        CallKind::Copy
    } else if starts(&["llvm.memset."]) {
        CallKind::Fill
    } else if starts(&["llvm.smin.", "llvm.smax.", "llvm.umin.", "llvm.umax."]) {
        CallKind::Extreme
    } else if starts(&["llvm.nvvm.atomic."]) {
        CallKind::Atomic
    } else if starts(&["llvm.nvvm.ldg.", "llvm.nvvm.ldu."]) {
        CallKind::CachedLoad
    } else if starts(&["llvm.nvvm.ptr.", "llvm.expect.", "llvm.ssa.copy", "llvm.ptr.annotation"]) {
        CallKind::Same
    } else if starts(&[
        "llvm.lifetime.",
        "llvm.assume",
        "llvm.dbg.",
        "llvm.prefetch",
        "llvm.invariant.",
        "llvm.experimental.noalias.scope.decl",
        "llvm.sideeffect",
        "llvm.trap",
        "llvm.nvvm.barrier",
        "llvm.nvvm.bar.",
        "llvm.nvvm.membar.",
        "llvm.nvvm.fence.",
        "llvm.nvvm.isspacep.",
        "llvm.nvvm.prefetch",
        "llvm.nvvm.exit",
    ]) {
        CallKind::Nothing
    } else {
        CallKind::Unknown
    }
}

/// Whether a function without a body only computes a number and accesses no memory. LLVM marks its own functions so;
/// libdevice's are known by name. A pointer given to one (`modf`) counts as kept, which is the worst that it can do.
fn is_arithmetic(callee: Value<'_>, name: &str) -> bool {
    const NUMBERS: &[&str] = &[
        "__nv_",
        "vprintf",
        "__assertfail",
        "llvm.nvvm.shfl.",
        "llvm.nvvm.vote.",
        "llvm.nvvm.match.",
        "llvm.nvvm.redux.",
        "llvm.nvvm.activemask",
        "llvm.nvvm.read.ptx.sreg.",
    ];
    callee.touches_no_memory() || NUMBERS.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether inline assembly accesses no memory that it finds itself: it has no "memory" clobber. It may still use the
/// addresses that it is given, which count as kept.
fn is_assembly_without_memory(callee: Value<'_>) -> bool {
    callee.is_inline_assembly() && !callee.assembly_constraints().contains("memory")
}

fn register(name: &str) -> Option<Register> {
    let rest = name.strip_prefix("llvm.nvvm.read.ptx.sreg.")?;
    let (register, axis) = rest.rsplit_once('.')?;
    let axis = match axis {
        "x" => Axis::X,
        "y" => Axis::Y,
        "z" => Axis::Z,
        _ => return None,
    };
    match register {
        "tid" => Some(Register::ThreadIndex(axis)),
        "ctaid" => Some(Register::BlockIndex(axis)),
        "ntid" => Some(Register::BlockSize(axis)),
        "nctaid" => Some(Register::GridSize(axis)),
        _ => None,
    }
}

fn param(param: Value<'_>) -> Param {
    if param.own_byval_type().is_some() {
        Param::ByValue
    } else if param.is_pointer() {
        Param::Pointer
    } else {
        Param::Scalar
    }
}

fn relation(compare: Value<'_>) -> Relation {
    match compare.predicate() {
        LLVMIntPredicate::LLVMIntEQ => Relation::Equal,
        LLVMIntPredicate::LLVMIntNE => Relation::NotEqual,
        _ => Relation::Other,
    }
}

fn arithmetic(opcode: Opcode) -> Option<Arithmetic> {
    Some(match opcode {
        Opcode::LLVMAdd => Arithmetic::Add,
        Opcode::LLVMSub => Arithmetic::Subtract,
        Opcode::LLVMMul => Arithmetic::Multiply,
        Opcode::LLVMShl => Arithmetic::ShiftLeft,
        Opcode::LLVMLShr | Opcode::LLVMAShr => Arithmetic::ShiftRight,
        Opcode::LLVMUDiv | Opcode::LLVMSDiv => Arithmetic::Divide,
        Opcode::LLVMURem | Opcode::LLVMSRem => Arithmetic::Remainder,
        Opcode::LLVMAnd => Arithmetic::And,
        Opcode::LLVMOr => Arithmetic::Or,
        Opcode::LLVMXor => Arithmetic::Xor,
        _ => return None,
    })
}

/// The kind of memory that a constant address points to or into.
fn memory_of_constant(value: Value<'_>) -> Option<Memory> {
    let mut at = value;
    // Constants are nested a few levels at most; deeper ones are ignored.
    for _ in 0..8 {
        if at.is_global() {
            if at.is_function() {
                return None;
            }
            return Some(match at.ty().pointer_address_space() {
                SHARED => Memory::Shared,
                CONSTANT => Memory::Constant,
                LOCAL => Memory::Private,
                _ => Memory::Variable,
            });
        }
        match at.opcode()? {
            Opcode::LLVMGetElementPtr | Opcode::LLVMAddrSpaceCast | Opcode::LLVMBitCast => {
                at = at.operand_at(0)?;
            }
            _ => return None,
        }
    }
    None
}

/// Returns `Some` if the data layout knows the size of a type.
fn fixed_size(ty: Type<'_>) -> Option<()> {
    ty.has_fixed_size().then_some(())
}
